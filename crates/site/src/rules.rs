//! Rules by glob over request paths, and the Cache-Control that a file gets where no rule says
//! otherwise. Not the rules themselves: those are the configuration's.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};

use crate::path::{extension, file_name};

/// Values by glob. `*` and `?` do not cross a slash, `**` does; `{a,b}` and `[a-z]` work. A glob
/// that starts with a slash is matched from the root, any other at every depth: `*.css` is
/// `/**/*.css`.
#[derive(Debug, Clone)]
pub struct PathGlobs<T> {
    globs: GlobSet,
    values: Vec<T>,
}

/// A glob that cannot be compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GlobError {
    /// The glob as it was written.
    pub glob: String,
    /// What is wrong with it.
    pub reason: String,
}

impl fmt::Display for GlobError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "glob `{}`: {}", self.glob, self.reason)
    }
}

impl std::error::Error for GlobError {}

impl<T> PathGlobs<T> {
    /// Compiles a list; its order is kept.
    pub fn new(rules: impl IntoIterator<Item = (impl AsRef<str>, T)>) -> Result<Self, GlobError> {
        let mut globs = GlobSetBuilder::new();
        let mut values = Vec::new();
        for (glob, value) in rules {
            globs.add(compile(glob.as_ref())?);
            values.push(value);
        }
        let globs = globs.build().map_err(|error| GlobError {
            glob: error.glob().unwrap_or("(all together)").to_owned(),
            reason: error.kind().to_string(),
        })?;
        Ok(Self { globs, values })
    }

    /// The values of all globs that match a canonical path, in the order of the list.
    pub fn matches<'a>(&'a self, path: &[u8]) -> impl Iterator<Item = &'a T> + use<'a, T> {
        let indices = self.globs.matches(OsStr::from_bytes(path));
        indices.into_iter().map(|index| &self.values[index])
    }

    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl<T> Default for PathGlobs<T> {
    fn default() -> Self {
        Self { globs: GlobSet::empty(), values: Vec::new() }
    }
}

fn compile(glob: &str) -> Result<globset::Glob, GlobError> {
    let anchored = if glob.starts_with('/') { glob.to_owned() } else { format!("/**/{glob}") };
    GlobBuilder::new(&anchored)
        .literal_separator(true)
        .build()
        .map_err(|error| GlobError { glob: glob.to_owned(), reason: error.kind().to_string() })
}

/// Ask again each time: with an entity tag that costs a 304, and it is never stale.
pub const REVALIDATE: &str = "no-cache";

/// Never ask again for a year: the name changes with the content (RFC 8246).
pub const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// The Cache-Control of a file for which no rule sets one: [`IMMUTABLE`] for assets with a hash
/// in their name, [`REVALIDATE`] for all else. There is no age in between on purpose: a guessed
/// age serves a page with yesterday's style, and revalidating costs one small answer.
pub fn default_cache_control(path: &[u8]) -> &'static str {
    let is_asset = extension(path).is_some_and(|name| ASSETS.contains(&name));
    if is_asset && is_hashed(file_name(path)) { IMMUTABLE } else { REVALIDATE }
}

/// What bundlers give hashed names. Not HTML, which must have a stable name, nor archives, whose
/// names carry versions and commits that people do move.
const ASSETS: [&[u8]; 11] =
    [b"css", b"js", b"mjs", b"woff2", b"png", b"jpg", b"jpeg", b"svg", b"webp", b"avif", b"wasm"];

/// What may stand between the hash and the extension (`main.3f9ab2c1.chunk.js`).
const TRAILERS: [&[u8]; 5] = [b"min", b"chunk", b"bundle", b"module", b"legacy"];

/// Whether a file name ends with a token that a bundler made from the content, after a name and
/// before the extension.
///
/// A hash that is not recognised costs a 304 now and then; a name wrongly taken for one keeps a
/// browser on an old file for a year. So everything doubtful is not a hash: dates, sizes, UUIDs
/// (which name an object, not its content), product names, a name that is only a hash.
pub fn is_hashed(file_name: &[u8]) -> bool {
    let mut tokens = file_name.rsplit(|byte| b".-_".contains(byte)).skip(1);
    let hash = tokens.by_ref().find(|token| !TRAILERS.contains(token));
    let before = tokens.next();
    match (hash, before) {
        (Some(hash), Some(before)) => is_hash(hash) && !ends_uuid(before, hash),
        _ => false,
    }
}

/// The last two groups of a UUID: 4 and 12 digits.
fn ends_uuid(before: &[u8], last: &[u8]) -> bool {
    let is_hex = |token: &[u8]| token.iter().all(u8::is_ascii_hexdigit);
    before.len() == 4 && last.len() == 12 && is_hex(before) && is_hex(last)
}

/// At least eight letters and digits that look drawn by lot. A letter comes somewhere after a
/// digit (`iphone14`, `DSC00123` are names), and the whole is one of
///
/// - hexadecimal, as webpack and Sprockets write it, with two digits (not `face2face`);
/// - eight characters of base 32, as esbuild writes it;
/// - letters of both cases, as Rollup and Vite write it, without four lower-case letters in a
///   row: those are a word.
fn is_hash(token: &[u8]) -> bool {
    let first_digit = token.iter().position(u8::is_ascii_digit);
    let has_letter_after_digit =
        first_digit.is_some_and(|digit| token[digit..].iter().any(u8::is_ascii_alphabetic));
    token.len() >= 8
        && token.iter().all(u8::is_ascii_alphanumeric)
        && has_letter_after_digit
        && (is_hexadecimal(token) || is_base32(token) || is_mixed(token))
}

fn is_hexadecimal(token: &[u8]) -> bool {
    token.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        && token.iter().filter(|byte| byte.is_ascii_digit()).count() >= 2
}

fn is_base32(token: &[u8]) -> bool {
    token.len() == 8 && token.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'))
}

fn is_mixed(token: &[u8]) -> bool {
    let has_word = token.windows(4).any(|run| run.iter().all(u8::is_ascii_lowercase));
    token.iter().any(u8::is_ascii_lowercase)
        && token.iter().any(u8::is_ascii_uppercase)
        && !has_word
}

#[cfg(test)]
mod tests {}
