//! Content types, from the extension of a file name alone, never from the content: sniffing makes
//! scripts out of uploads.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::path::extension;

/// The type of a file of unknown kind; with `nosniff` a browser offers to save it.
pub const UNKNOWN: &str = "application/octet-stream";

/// Content types that the configuration sets for extensions.
#[derive(Debug, Clone, Default)]
pub struct Overrides(HashMap<Vec<u8>, Box<str>>);

impl Overrides {
    /// Creates overrides from pairs of extension and content type. The case of the extension and a
    /// leading dot do not matter; of several types for one extension the last counts.
    pub fn new<'s>(pairs: impl IntoIterator<Item = (&'s str, &'s str)>) -> Self {
        let lower = |extension: &str| {
            extension.strip_prefix('.').unwrap_or(extension).to_ascii_lowercase().into_bytes()
        };
        let entry = |(extension, content_type)| (lower(extension), Box::from(content_type));
        Self(pairs.into_iter().map(entry).collect())
    }
}

/// The value of Content-Type for a file name. Types that are text get `; charset=utf-8`, unless an
/// override already has a parameter. A compressed file that is requested under its own name is a
/// file of that kind: `x.tar.gz` is `application/gzip`.
pub fn content_type(file_name: &[u8], overrides: &Overrides) -> Cow<'static, str> {
    let Some(extension) = extension(file_name).map(<[u8]>::to_ascii_lowercase) else {
        return UNKNOWN.into();
    };
    match overrides.0.get(&extension) {
        Some(own) => with_charset(Cow::Owned(own.to_string())),
        None => with_charset(Cow::Borrowed(find_type(&extension))),
    }
}

/// The type of a lower-case extension.
fn find_type(extension: &[u8]) -> &'static str {
    let corrected = CORRECTIONS.iter().find(|(name, _)| name.as_bytes() == extension);
    match (corrected, std::str::from_utf8(extension)) {
        (Some((_, content_type)), _) => content_type,
        (None, Ok(name)) => mime_guess::from_ext(name).first_raw().unwrap_or(UNKNOWN),
        (None, Err(_)) => UNKNOWN,
    }
}

/// Content types by extension where `mime_guess` has no type, or differs from IANA's registry and
/// browsers.
const CORRECTIONS: &[(&str, &str)] = &[
    ("cbor", "application/cbor"),
    ("cjs", "text/javascript"),
    ("cur", "image/x-icon"),
    ("deb", "application/vnd.debian.binary-package"),
    ("har", "application/json"),
    ("importmap", "application/importmap+json"),
    ("ktx2", "image/ktx2"),
    ("m2ts", "video/mp2t"),
    ("m3u8", "application/vnd.apple.mpegurl"), // RFC 8216 section 4
    ("m4a", "audio/mp4"),
    ("map", "application/json"), // source maps
    ("mjs", "text/javascript"),  // RFC 9239
    ("ndjson", "application/x-ndjson"),
    ("otf", "font/otf"), // RFC 8081
    ("rpm", "application/x-rpm"),
    ("svgz", "application/gzip"), // an image only with a Content-Encoding, which we do not guess
    ("tgz", "application/gzip"),
    ("topojson", "application/json"),
    ("ts", "video/mp2t"),
    ("wgsl", "text/wgsl"),
    ("woff", "font/woff"),
    ("zst", "application/zstd"),
];

/// Adds the charset to the types that have such a parameter and whose default is not UTF-8. JSON
/// has no such parameter (RFC 8259 section 11).
fn with_charset(content_type: Cow<'static, str>) -> Cow<'static, str> {
    let is_text = content_type.starts_with("text/")
        || matches!(&*content_type, "application/javascript" | "application/xml" | "image/svg+xml");
    if is_text && !content_type.contains(';') {
        return format!("{content_type}; charset=utf-8").into();
    }
    content_type
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, expected: &str) {
        assert_eq!(content_type(name.as_bytes(), &Overrides::default()), expected, "{name}");
    }

    #[test]
    fn common_types_of_sites() {
        check("index.html", "text/html; charset=utf-8");
        check("INDEX.HTM", "text/html; charset=utf-8");
        check("style.css", "text/css; charset=utf-8");
        check("app.js", "text/javascript; charset=utf-8");
        check("app.mjs", "text/javascript; charset=utf-8");
        check("app.cjs", "text/javascript; charset=utf-8");
        check("app.js.map", "application/json");
        check("data.json", "application/json");
        check("site.webmanifest", "application/manifest+json");
        check("module.wasm", "application/wasm");
        check("feed.xml", "text/xml; charset=utf-8");
        check("feed.atom", "application/atom+xml");
        check("page.xhtml", "application/xhtml+xml");
        check("robots.txt", "text/plain; charset=utf-8");
        check("readme.md", "text/markdown; charset=utf-8");
        check("table.csv", "text/csv; charset=utf-8");
        check("captions.vtt", "text/vtt; charset=utf-8");
    }

    #[test]
    fn images_and_fonts() {
        check("a.png", "image/png");
        check("a.jpg", "image/jpeg");
        check("a.jpeg", "image/jpeg");
        check("a.gif", "image/gif");
        check("a.webp", "image/webp");
        check("a.avif", "image/avif");
        check("a.svg", "image/svg+xml; charset=utf-8");
        check("favicon.ico", "image/x-icon");
        check("a.woff2", "font/woff2");
        check("a.woff", "font/woff");
        check("a.ttf", "font/ttf");
        check("a.otf", "font/otf");
    }

    #[test]
    fn media_and_archives() {
        check("a.mp4", "video/mp4");
        check("a.webm", "video/webm");
        check("a.mp3", "audio/mpeg");
        check("a.m4a", "audio/mp4");
        check("a.m3u8", "application/vnd.apple.mpegurl");
        check("a.ts", "video/mp2t");
        check("a.pdf", "application/pdf");
        check("a.zip", "application/zip");
        check("a.tar.gz", "application/gzip");
        check("a.tgz", "application/gzip");
        check("app.js.gz", "application/gzip");
        check("app.js.zst", "application/zstd");
        check("app.js.br", UNKNOWN);
    }

    #[test]
    fn unknown_files() {
        for name in ["", "LICENSE", ".html", "a.", "a.unheard-of", "a.html~", "a.\u{212a}"] {
            check(name, UNKNOWN);
        }
        assert_eq!(content_type(b"a.\xff\xfe", &Overrides::default()), UNKNOWN);
    }

    #[test]
    fn overrides_come_first() {
        let pairs = [("MD", "text/html"), (".log", "text/plain; charset=latin1"), ("x", "a/b")];
        let overrides = Overrides::new(pairs);
        let check = |name: &str, expected| {
            assert_eq!(content_type(name.as_bytes(), &overrides), expected, "{name}");
        };
        check("a.md", "text/html; charset=utf-8");
        check("a.Log", "text/plain; charset=latin1");
        check("a.x", "a/b");
        check("a.css", "text/css; charset=utf-8");
    }

    #[test]
    fn corrections_are_needed() {
        for (name, content_type) in CORRECTIONS {
            let guessed = mime_guess::from_ext(name).first_raw();
            assert_ne!(guessed, Some(*content_type), "{name} needs no correction any more");
        }
    }
}
