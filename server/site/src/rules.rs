//! Rules by glob over request paths, and the Cache-Control of a file for which no rule sets one.
//! The rules themselves are in the configuration.

use fast_glob::glob_match;

use crate::path::{extension, file_name};

/// Values by glob. `*` and `?` do not cross a slash, `**` does; `{a,b}` and `[a-z]` work. A glob
/// that starts with a slash is matched from the root, any other at every depth: `*.css` is
/// `/**/*.css`.
#[derive(Debug, Clone)]
pub struct PathGlobs<T> {
    rules: Vec<(String, T)>,
}

/// The glob that every canonical path matches.
const EVERY_PATH: &str = "/**";

/// A glob that has no meaning.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("glob `{glob}`: {reason}")]
pub struct GlobError {
    /// The glob as it was written.
    pub glob: String,
    /// What is wrong with it.
    pub reason: String,
}

impl<T> PathGlobs<T> {
    /// Checks a list; its order is kept.
    pub fn new(rules: impl IntoIterator<Item = (impl AsRef<str>, T)>) -> Result<Self, GlobError> {
        let rules = rules.into_iter().map(|(glob, value)| Ok((anchored(glob.as_ref())?, value)));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The values of all globs that match a canonical path, in the order of the list.
    pub fn matches<'a, 'p>(
        &'a self,
        path: &'p [u8],
    ) -> impl Iterator<Item = &'a T> + use<'a, 'p, T> {
        self.rules.iter().filter(move |(glob, _)| is_match(glob, path)).map(|(_, value)| value)
    }

    /// The first answer of `ask`, which gets each value in the order of the list, with the test
    /// whether its glob matches a path.
    pub fn find_map<'a, R>(
        &'a self,
        mut ask: impl FnMut(&'a T, &dyn Fn(&[u8]) -> bool) -> Option<R>,
    ) -> Option<R> {
        self.rules.iter().find_map(|(glob, value)| ask(value, &|path| is_match(glob, path)))
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl<T> Default for PathGlobs<T> {
    fn default() -> Self {
        Self { rules: Vec::new() }
    }
}

fn is_match(glob: &str, path: &[u8]) -> bool {
    glob == EVERY_PATH || glob_match(glob, path)
}

/// The glob that is matched from the root in place of one as it was written.
fn anchored(glob: &str) -> Result<String, GlobError> {
    let reason = match fast_glob::validate(glob) {
        Err(why) => Some(why.to_string()),
        Ok(()) => misread(glob.as_bytes()).map(str::to_owned),
    };
    if let Some(reason) = reason {
        return Err(GlobError { glob: glob.to_owned(), reason });
    }
    Ok(if glob.starts_with('/') { glob.to_owned() } else { format!("/**/{glob}") })
}

/// What is wrong with a glob that has a meaning, but hardly the one that was meant.
fn misread(glob: &[u8]) -> Option<&'static str> {
    let (mut at, mut open_braces) = (0, 0_usize);
    while let Some(byte) = glob.get(at) {
        match byte {
            b'\\' => at += 1,
            b'{' => open_braces += 1,
            b'}' if open_braces == 0 => return Some("a } without a {"),
            b'}' => open_braces -= 1,
            b'[' => {
                // A ] that is the first member does not end the class.
                let first = at + 1 + usize::from(matches!(glob.get(at + 1), Some(b'!' | b'^')));
                at = first + 1 + glob[first + 1..].iter().position(|byte| *byte == b']')?;
                let is_reversed = |range: &[u8]| range[1] == b'-' && range[0] > range[2];
                if glob[first..at].windows(3).any(is_reversed) {
                    return Some("a range whose end comes before its beginning");
                }
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Revalidate each time: with an entity tag that costs a 304, and the answer is never stale.
pub const REVALIDATE: &str = "no-cache";

/// Do not request again for a year: the name changes with the content (RFC 8246).
pub const IMMUTABLE: &str = "public, max-age=31536000, immutable";

/// The Cache-Control of a file for which no rule sets one: [`IMMUTABLE`] for assets with a hash in
/// their name, [`REVALIDATE`] for all others. There is deliberately no age in between: a guessed
/// age serves a page with yesterday's style, and revalidating costs one small answer.
pub fn default_cache_control(path: &[u8]) -> &'static str {
    if is_hashed(file_name(path)) { IMMUTABLE } else { REVALIDATE }
}

/// Extensions of files that bundlers make under hashed names, and that people do not upload. HTML
/// is not among them, because its name must be stable, nor are archives, whose names contain
/// versions and commits that people do move.
const CODE: [&[u8]; 5] = [b"css", b"js", b"mjs", b"woff2", b"wasm"];

/// Extensions of pictures, which bundlers make under hashed names as well, but which people name by
/// an identifier of their subject.
const PICTURES: [&[u8]; 6] = [b"png", b"jpg", b"jpeg", b"svg", b"webp", b"avif"];

/// Words between the hash and the extension (`main.3f9ab2c1.chunk.js`).
const TRAILERS: [&[u8]; 5] = [b"min", b"chunk", b"bundle", b"module", b"legacy"];

/// Whether a file name ends with a token that a bundler made from the content, after a name and
/// before the extension.
///
/// A hash that is not recognised costs a 304 now and then; a name wrongly taken for one keeps a
/// browser on an old file for a year. So everything doubtful is not a hash: dates, sizes, product
/// names, a name that is only a hash; identifiers, which name an object and not its content (UUIDs,
/// MAC addresses, those of databases and of videos), recognised by their length or because they
/// follow a dash in the name of a picture.
pub fn is_hashed(file_name: &[u8]) -> bool {
    let Some(kind) = extension(file_name) else { return false };
    let is_code = CODE.contains(&kind);
    if !is_code && !PICTURES.contains(&kind) {
        return false;
    }
    let stem = &file_name[..file_name.len() - kind.len() - 1];
    let Some((before, separator, token)) = last_token(stem) else { return false };
    let follows_dot = separator == b'.';
    !before.is_empty()
        && (is_code || follows_dot)
        && is_hash(token, follows_dot, is_code)
        && !ends_uuid(before, token)
}

/// The last token of a stem that is no trailer, with the text before it.
fn last_token(mut stem: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    loop {
        let at = stem.iter().rposition(|byte| b".-_".contains(byte))?;
        let (before, token) = (&stem[..at], &stem[at + 1..]);
        if !TRAILERS.contains(&token) {
            return Some((before, stem[at], token));
        }
        stem = before;
    }
}

/// Whether a stem ends with the last two groups of a UUID: 4 and 12 digits.
fn ends_uuid(before: &[u8], last: &[u8]) -> bool {
    let is_hex = |token: &[u8]| token.iter().all(u8::is_ascii_hexdigit);
    let group = before.rsplit(|byte| *byte == b'-').next().unwrap_or_default();
    group.len() == 4 && last.len() == 12 && is_hex(group) && is_hex(last)
}

/// Whether a token looks like a hash: letters and digits that look random, of a length that
/// bundlers use. A letter comes somewhere after a digit (`iphone14`, `DSC00123` are names), and the
/// token is one of
///
/// - hexadecimal, as webpack, Parcel and Sprockets write it, with two digits (not `face2face`), or
///   after a dot with none at all (`main.abcdefab.js`);
/// - eight characters of base 32, as esbuild writes it;
/// - eight letters of both cases and digits, as Rollup and Vite write it, without four lower-case
///   letters in a row: those are a word.
fn is_hash(token: &[u8], follows_dot: bool, is_code: bool) -> bool {
    let first_digit = token.iter().position(u8::is_ascii_digit);
    let has_letter_after_digit =
        first_digit.is_some_and(|digit| token[digit..].iter().any(u8::is_ascii_alphabetic));
    let is_mere_letters = follows_dot && first_digit.is_none();
    token.iter().all(u8::is_ascii_alphanumeric)
        && !is_dated(token)
        && (has_letter_after_digit && (is_base32(token) || is_mixed(token))
            || (has_letter_after_digit || is_mere_letters) && is_hexadecimal(token, is_code))
}

/// Whether a token begins with a year from 1900 to 2099 and a month.
fn is_dated(token: &[u8]) -> bool {
    let digits = token.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let is_month = |month: &[u8]| matches!(month, [b'0', b'1'..=b'9'] | [b'1', b'0'..=b'2']);
    digits >= 6 && matches!(&token[..2], b"19" | b"20") && is_month(&token[4..6])
}

/// Whether `token` is a hexadecimal hash of one of the usual lengths. The lengths of a MAC address
/// (12; Django's hashes are as long) and of a database's identifier (24) are not among them, and 32
/// digits may be a UUID.
fn is_hexadecimal(token: &[u8], is_code: bool) -> bool {
    let is_usual = match token.len() {
        8 | 16 | 20 | 40 | 64 => true,
        32 => is_code && !is_uuid(token),
        _ => false,
    };
    let digits = token.iter().filter(|byte| byte.is_ascii_digit()).count();
    is_usual && digits != 1 && token.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Whether 32 digits have the version and the variant of a UUID in their places (RFC 9562 §4).
fn is_uuid(token: &[u8]) -> bool {
    matches!(token[12], b'1'..=b'8') && matches!(token[16], b'8' | b'9' | b'a' | b'b')
}

fn is_base32(token: &[u8]) -> bool {
    token.len() == 8 && token.iter().all(|byte| matches!(byte, b'A'..=b'Z' | b'2'..=b'7'))
}

fn is_mixed(token: &[u8]) -> bool {
    let has_word = token.windows(4).any(|run| run.iter().all(u8::is_ascii_lowercase));
    token.len() == 8
        && token.iter().any(u8::is_ascii_lowercase)
        && token.iter().any(u8::is_ascii_uppercase)
        && !has_word
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(globs: &[&'static str], path: &[u8]) -> Vec<&'static str> {
        let rules = PathGlobs::new(globs.iter().map(|&glob| (glob, glob))).expect("they are valid");
        rules.matches(path).copied().collect()
    }

    #[test]
    fn globs() {
        let check = |glob, path: &str, expected| {
            assert_eq!(!matched(&[glob], path.as_bytes()).is_empty(), expected, "{glob} {path}");
        };
        check("/a.css", "/a.css", true);
        check("/a.css", "/b/a.css", false);
        check("/*.css", "/a.css", true);
        check("/*.css", "/b/a.css", false);
        check("*.css", "/a.css", true);
        check("*.css", "/b/c/a.css", true);
        check("*.css", "/a.css/b", false);
        check("b/*.css", "/a/b/c.css", true);
        check("b/*.css", "/ab/c.css", false);
        check("/assets/**", "/assets/a", true);
        check("/assets/**", "/assets/a/b.js", true);
        check("/assets/**", "/assetss/a", false);
        check("/assets/*", "/assets/a/b.js", false);
        check("/a/**/z", "/a/z", true);
        check("/a/**/z", "/a/b/c/z", true);
        check("/**", "/", true);
        check("**", "/a/b", true);
        check("/a?c", "/abc", true);
        check("/a?c", "/a/c", false);
        check("/[a-c].txt", "/b.txt", true);
        check("*.{png,jpg}", "/x/y.jpg", true);
        check("*.{png,jpg}", "/x/y.gif", false);
        check("*.PNG", "/a.png", false);
        check("/", "/", true);
        check("/\\*", "/*", true);
        check("/\\*", "/a", false);
    }

    #[test]
    fn matches_keep_the_order_of_the_list() {
        let globs = ["*.html", "/docs/**", "*.css", "/**"];
        assert_eq!(matched(&globs, b"/docs/a.html"), ["*.html", "/docs/**", "/**"]);
        assert_eq!(matched(&globs, b"/a.css"), ["*.css", "/**"]);
        assert_eq!(matched(&["/*"], b"/\xff"), ["/*"]);
        assert!(matched(&[], b"/a").is_empty());
        assert!(PathGlobs::<()>::default().is_empty());
        assert_eq!(PathGlobs::<()>::default().matches(b"/").count(), 0);
    }

    #[test]
    fn a_bad_glob_is_named() {
        for bad in ["*.{css", "/a[b", "a}", "/[z-a]", "{a,[!]z-a]}", "\\{a}", "a\\"] {
            let rules = [("*.html", 1), (bad, 2)];
            let error = PathGlobs::new(rules).expect_err("the second is not valid");
            assert_eq!(error.glob, bad);
            let text = error.to_string();
            assert!(text.starts_with(&format!("glob `{bad}`: ")) && text.len() > bad.len() + 10);
        }
    }

    #[test]
    fn hashed_names() {
        for name in [
            "app.3f9ab2c1.js",
            "index-BX7a9k2Q.css",
            "main.8c6a1f0e.chunk.js",
            "style.min.9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.css",
            "app.3f9ab2c1.min.js",
            "chunk-7UAF3QZ5.js",
            "logo.3f9ab2c1.svg",
            "app-3f9ab2c1d4e5f6a7.js",
            "app_3f9ab2c1.js",
            "application-d41d8cd98f00b204e9800998ecf8427e.css",
            "main.abcdefab.js",
            "logo.BX7a9k2Q.png",
            "inter-latin-400-normal.C38fXH4l.woff2",
            "hero.a1b2c3d4e5f6a7b8c9d0.avif",
        ] {
            assert!(is_hashed(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn names_that_only_look_hashed() {
        for name in [
            "jquery-3.7.1.min.js",
            "bootstrap-icons.woff2",
            "app.js",
            "3f9ab2c1.js",
            "report-20240101.png",
            "shot-20240101T120000Z.png",
            "photo-1920x1080.jpg",
            "shot-iphone14.png",
            "shot-iPhone14Pro.png",
            "holiday-DSC00123.jpg",
            "intro-face2face.png",
            "avatar-507f1f77bcf86cd799439011.jpg",
            "avatar.507f1f77bcf86cd799439011.jpg",
            "flyer-20240315b.jpg",
            "flyer.2024031b.jpg",
            "flyer.20240315120000ab.jpg",
            "avatar-550e8400e29b41d4a716446655440000.jpg",
            "avatar.550e8400e29b41d4a716446655440000.jpg",
            "plugin-550e8400e29b41d4a716446655440000.js",
            "avatar-d41d8cd98f00b204e9800998ecf8427e.jpg", // hash of an address, not the picture
            "switch-001b44113ab7.jpg",
            "switch.001b44113ab7.js",
            "still-dQw4w9WgXcQ.jpg",
            "still.dQw4w9WgXcQ.jpg",
            "photo-5f3a9c21.jpg",
            "photo-aB3dE5fG.jpg",
            "part-7UAF3QZ5.png",
            "logo_3f9ab2c1d4.svg",
            "main.decade80.js",
            "avatar-550e8400-e29b-41d4-a716-446655440000.png",
            "avatar-550e8400-e29b-41d4-a716-44665544000a.png",
            "app-v10beta2.js",
            "font-awesome5free.woff2",
            "a-ABCDEFGH.js",
            "a-abcdefab.js",
            "a-3f9ab2c.js",
            "app.3f9ab2c1.js.bak",
            "app.3f9ab2c1.html",
            ".3f9ab2c1.js",
            "app-2024Q3FINAL.png",
            "min.js",
            ".js",
            "",
        ] {
            assert!(!is_hashed(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn cache_control_without_a_rule() {
        let check = |path: &str, expected| {
            assert_eq!(default_cache_control(path.as_bytes()), expected, "{path}");
        };
        check("/", REVALIDATE);
        check("/index.html", REVALIDATE);
        check("/page-3f9ab2c1.html", REVALIDATE);
        check("/app.js", REVALIDATE);
        check("/3f9ab2c1.d/app.js", REVALIDATE);
        check("/assets/app.3f9ab2c1.js", IMMUTABLE);
        check("/assets/app.3f9ab2c1.js.map", REVALIDATE);
        check("/release-3f9ab2c1.zip", REVALIDATE);
        check("/assets/app.3f9ab2c1.js/", REVALIDATE);
    }
}
