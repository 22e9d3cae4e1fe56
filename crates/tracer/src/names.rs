//! Names for addresses: the functions and variables of the files that are mapped, as far as they
//! were referred to.
//!
//! What a file was stripped of cannot be named; then its dynamic symbols are all there is.

use addr2line::Loader;
use memory_trace::{Region, Symbol};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};
use std::collections::{HashMap, HashSet};
use std::fs;

/// Which blocks of 64 bytes were referred to.
#[derive(Debug, Default)]
pub(crate) struct Touched {
    /// A bit for each block of a page of 4 KiB.
    pages: HashMap<u64, u64>,
    /// The last page and its bits, which are not in `pages` yet.
    last: (u64, u64),
}

impl Touched {
    pub(crate) fn add(&mut self, address: u64) {
        let page = address >> 12;
        if page != self.last.0 {
            *self.pages.entry(self.last.0).or_default() |= self.last.1;
            self.last = (page, 0);
        }
        self.last.1 |= 1 << (address >> 6 & 63);
    }

    /// Whether anything from `start` to before `end` was, to the block.
    fn any(&self, start: u64, end: u64) -> bool {
        let last = end.max(start + 1) - 1;
        (start >> 12..=last >> 12).any(|page| {
            let first_block = if page == start >> 12 { start >> 6 & 63 } else { 0 };
            let last_block = if page == last >> 12 { last >> 6 & 63 } else { 63 };
            let mask = (u64::MAX << first_block) & (u64::MAX >> (63 - last_block));
            let pending = if page == self.last.0 { self.last.1 } else { 0 };
            (self.pages.get(&page).copied().unwrap_or(0) | pending) & mask != 0
        })
    }
}

/// The names of all files that were needed so far.
#[derive(Default)]
pub(crate) struct Names {
    files: HashMap<String, Option<NamedFile>>,
}

/// A file's symbols, and where its parts are meant to be.
struct NamedFile {
    /// From offsets in the file to its own addresses: offset, length, address.
    segments: Vec<(u64, u64, u64)>,
    symbols: Vec<OwnSymbol>,
    lines: Option<Loader>,
}

struct OwnSymbol {
    address: u64,
    size: u64,
    name: String,
    is_code: bool,
}

impl Names {
    /// What is known about what was touched in these regions.
    pub(crate) fn of(&mut self, regions: &[Region], touched: &Touched) -> Vec<Symbol> {
        let mut seen = HashSet::new();
        let mut symbols = Vec::new();
        for region in regions {
            let Some(object) = region.object else { continue };
            let Some(file) = self.file(&region.name) else { continue };
            let Some(bias) = file.bias(region.start, object.offset) else { continue };
            if seen.insert((region.name.clone(), bias)) {
                symbols.extend(file.touched(bias, touched));
            }
        }
        symbols.sort_by_key(|symbol: &Symbol| (symbol.start, symbol.end));
        symbols.dedup_by(|a, b| (a.start, a.end) == (b.start, b.end));
        symbols
    }

    fn file(&mut self, path: &str) -> Option<&NamedFile> {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), NamedFile::open(path));
        }
        self.files.get(path)?.as_ref()
    }
}

impl NamedFile {
    /// None for what is no ELF file, or not there any more.
    fn open(path: &str) -> Option<Self> {
        if !fs::metadata(path).ok()?.is_file() {
            return None;
        }
        let bytes = fs::read(path).ok()?;
        let file = object::File::parse(&*bytes).ok()?;
        let segment =
            |s: object::Segment<'_, '_>| (s.file_range().0, s.file_range().1, s.address());
        let mut symbols: Vec<OwnSymbol> = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter_map(|symbol| own(&symbol))
            .collect();
        symbols.sort_by(|a, b| (a.address, a.size, &a.name).cmp(&(b.address, b.size, &b.name)));
        symbols.dedup_by(|a, b| a.address == b.address && a.size == b.size);
        let segments = file.segments().map(segment).collect();
        Some(Self { segments, symbols, lines: Loader::new(path).ok() })
    }

    /// How much higher than it says the file is, if its bytes from `offset` on are at `start`.
    fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // Mappings begin at whole pages, segments need not: the page in which one begins is the
        // end of the one before as well.
        let begins = |segment: &&(u64, u64, u64)| segment.0 & !0xfff == offset;
        let holds =
            |segment: &&(u64, u64, u64)| (segment.0..segment.0 + segment.1).contains(&offset);
        let segments = || self.segments.iter();
        let (at, _, address) = segments().find(begins).or_else(|| segments().find(holds))?;
        Some(start.wrapping_sub(offset.wrapping_sub(*at).wrapping_add(*address)))
    }

    fn touched<'a>(&'a self, bias: u64, touched: &'a Touched) -> impl Iterator<Item = Symbol> + 'a {
        self.symbols.iter().filter_map(move |symbol| {
            let start = symbol.address.wrapping_add(bias);
            let end = start.checked_add(symbol.size)?;
            touched.any(start, end).then(|| self.describe(symbol, start, end))
        })
    }

    fn describe(&self, symbol: &OwnSymbol, start: u64, end: u64) -> Symbol {
        let location = self.lines.as_ref().filter(|_| symbol.is_code);
        let location = location.and_then(|lines| lines.find_location(symbol.address).ok()?);
        let function = format!("{:#}", rustc_demangle::demangle(&symbol.name));
        let file = location.as_ref().and_then(|location| location.file).map(str::to_owned);
        Symbol { start, end, function, file, line: location.and_then(|location| location.line) }
    }
}

fn own(symbol: &object::Symbol<'_, '_>) -> Option<OwnSymbol> {
    let is_code = symbol.kind() == SymbolKind::Text;
    let counts = (is_code || symbol.kind() == SymbolKind::Data) && symbol.is_definition();
    let name = symbol.name().ok().filter(|name| !name.is_empty())?.to_owned();
    let (address, size) = (symbol.address(), symbol.size());
    (counts && size > 0).then_some(OwnSymbol { address, size, name, is_code })
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_trace::{Object, RegionKind};

    #[test]
    fn blocks_are_found_to_the_64_bytes() {
        let mut touched = Touched::default();
        touched.add(0x1040);
        touched.add(0x5fff);
        touched.add(0x1080);
        assert!(touched.any(0x1040, 0x1041));
        assert!(touched.any(0x107f, 0x1080));
        assert!(!touched.any(0x1000, 0x1040));
        assert!(touched.any(0x1000, 0x1041));
        assert!(touched.any(0x10bf, 0x10c0));
        assert!(!touched.any(0x10c0, 0x5fc0));
        assert!(touched.any(0x2000, 0x6000));
    }

    #[test]
    fn this_program_s_own_functions_have_names() {
        let path = std::env::current_exe().expect("Linux says");
        let path = path.to_str().expect("it is text").to_owned();
        let file = NamedFile::open(&path).expect("it is an ELF file");
        let symbol =
            file.symbols.iter().find(|s| s.name.contains("NamedFile")).expect("unstripped");
        // Where the loader would put the part of the file that it is in, if it began at 16 MiB.
        let holds = |s: &&(u64, u64, u64)| s.2 <= symbol.address && symbol.address < s.2 + s.1;
        let (offset, _, address) = *file.segments.iter().find(holds).expect("it is loaded");
        let (offset, page) = (offset & !0xfff, offset & 0xfff);
        let start = 0x100_0000;
        let at = start + (symbol.address - address) + page;
        let mut touched = Touched::default();
        touched.add(at);
        let region = Region {
            start,
            end: start + 0x1000_0000,
            kind: RegionKind::File,
            name: path,
            object: Some(Object { device: 1, inode: 2, offset }),
        };
        let symbols = Names::default().of(&[region], &touched);
        assert!(symbols.iter().any(|s| s.start == at && s.function.contains("NamedFile")));
        assert!(symbols.len() < 64, "only what was touched: {}", symbols.len());
    }
}
