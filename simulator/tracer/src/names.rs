//! Names for addresses: the functions and variables of mapped files, as far as they were referred
//! to.
//!
//! If a file is stripped, only its dynamic symbols can be named. Allocated memory is named after
//! the first caller outside general libraries.

use addr2line::{FrameIter, Loader, LoaderReader};
use memory_trace::{Region, Symbol};
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _, SymbolKind};
use std::collections::{HashMap, HashSet};
use std::fs;

/// The blocks of 64 bytes that were referred to.
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

    /// Whether any block from `start` to before `end` was referred to.
    pub(crate) fn any(&self, start: u64, end: u64) -> bool {
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

/// The names in all files that were needed so far.
#[derive(Default)]
pub(crate) struct Names {
    files: HashMap<String, Option<NamedFile>>,
}

/// A file's symbols, and the addresses that its segments are linked for.
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
    /// Symbols for the touched memory in these regions.
    pub(crate) fn symbols(&mut self, regions: &[Region], touched: &Touched) -> Vec<Symbol> {
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

    /// The name of the code that allocates, given the addresses of calls from the allocator
    /// outwards.
    pub(crate) fn allocating(&mut self, callers: &[u64], regions: &[Region]) -> String {
        let mut outermost = None;
        for caller in callers {
            let region = regions.iter().find(|r| (r.start..r.end).contains(caller));
            let Some((region, object)) = region.and_then(|r| Some((r, r.object?))) else {
                continue;
            };
            let Some(file) = self.file(&region.name) else { continue };
            let Some(bias) = file.bias(region.start, object.offset) else { continue };
            let frames = file.frames(caller.wrapping_sub(bias));
            if let Some(own) = frames.iter().find(|frame| !frame.is_of_a_library()) {
                return own.show();
            }
            outermost = frames.last().map(Frame::show).or(outermost);
        }
        // All callers are in the library, which may have started a thread itself.
        outermost.unwrap_or_else(|| "(unknown)".into())
    }

    fn file(&mut self, path: &str) -> Option<&NamedFile> {
        if !self.files.contains_key(path) {
            self.files.insert(path.to_owned(), NamedFile::open(path));
        }
        self.files.get(path)?.as_ref()
    }
}

impl NamedFile {
    /// Opens a file; none if it is not an ELF file, or does not exist any more.
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

    /// The distance between the file's own addresses and where it is mapped, if its bytes from
    /// `offset` on are at `start`.
    fn bias(&self, start: u64, offset: u64) -> Option<u64> {
        // Mappings begin at whole pages, segments need not: the page in which one begins is also
        // the end of the one before.
        let begins = |segment: &&(u64, u64, u64)| segment.0 & !0xfff == offset;
        let holds =
            |segment: &&(u64, u64, u64)| (segment.0..segment.0 + segment.1).contains(&offset);
        let segments = || self.segments.iter();
        let (at, _, address) = segments().find(begins).or_else(|| segments().find(holds))?;
        Some(start.wrapping_sub(offset.wrapping_sub(*at).wrapping_add(*address)))
    }

    /// The functions that an address is in, the innermost first.
    fn frames(&self, address: u64) -> Vec<Frame> {
        let frames = self.lines.as_ref().and_then(|lines| lines.find_frames(address).ok());
        let named: Vec<Frame> = frames.map(inlined).unwrap_or_default();
        if !named.is_empty() {
            return named;
        }
        let after = self.symbols.partition_point(|symbol| symbol.address <= address);
        let before = self.symbols[..after].iter().rev().take(4);
        let holds = |symbol: &&OwnSymbol| address < symbol.address + symbol.size;
        let symbol = before.into_iter().find(holds);
        let frame = |symbol: &OwnSymbol| Frame { function: demangled(&symbol.name), line: None };
        symbol.map(frame).into_iter().collect()
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
        let function = demangled(&symbol.name);
        let file = location.as_ref().and_then(|location| location.file).map(str::to_owned);
        Symbol { start, end, function, file, line: location.and_then(|location| location.line) }
    }
}

fn inlined(mut frames: FrameIter<'_, LoaderReader<'_>>) -> Vec<Frame> {
    let mut named = Vec::new();
    while let Ok(Some(frame)) = frames.next() {
        let Some(function) = frame.function.as_ref().and_then(|f| f.raw_name().ok()) else {
            continue;
        };
        let function = demangled(&function);
        let line = frame.location.and_then(|at| Some((at.file?.to_owned(), at.line?)));
        named.push(Frame { function, line });
    }
    named
}

fn demangled(name: &str) -> String {
    format!("{:#}", rustc_demangle::demangle(name))
}

/// A function on the call stack.
struct Frame {
    function: String,
    /// The path and the line of the source, where known.
    line: Option<(String, u32)>,
}

impl Frame {
    /// The function with its file and the file's folder.
    fn show(&self) -> String {
        let Some((path, line)) = &self.line else { return self.function.clone() };
        let before_file = path.rfind('/').unwrap_or(0);
        let begin = path[..before_file].rfind('/').map_or(0, |slash| slash + 1);
        format!("{}, {}:{line}", self.function, &path[begin..])
    }

    /// Whether the function allocates on behalf of others: C's functions, and those of the
    /// libraries that come with Rust. Inlined functions have no name with a path, but a source
    /// file.
    fn is_of_a_library(&self) -> bool {
        const FUNCTIONS: [&str; 10] = [
            "malloc",
            "calloc",
            "realloc",
            "memalign",
            "aligned_alloc",
            "posix_memalign",
            "strdup",
            "strndup",
            "__strdup",
            "__strndup",
        ];
        const BEGINNINGS: [&str; 11] = [
            "alloc::",
            "core::",
            "std::",
            "hashbrown::",
            "__rust_",
            "__rdl_",
            "__rustc::",
            "__libc_",
            "__clone",
            "_mid_",
            "operator new",
        ];
        // `<alloc::vec::Vec<T> as core::iter::FromIterator<T>>::from_iter` is also the library's.
        let name = self.function.trim_start_matches(['<', '&']);
        let first_word = name.split([',', '<', ' ', '(']).next().unwrap_or(name);
        FUNCTIONS.contains(&first_word)
            || BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
            || self.line.as_ref().is_some_and(|(path, _)| {
                path.starts_with("/rustc/") || path.contains("/rust/deps/")
            })
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
        // Where the loader would put the symbol's part of the file, if the file began at 16 MiB.
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
        let symbols = Names::default().symbols(&[region], &touched);
        assert!(symbols.iter().any(|s| s.start == at && s.function.contains("NamedFile")));
        assert!(symbols.len() < 64, "only what was touched: {}", symbols.len());
    }
}
