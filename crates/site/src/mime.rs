//! Content types, from the extension of a file name alone. Never from the content: sniffing makes
//! scripts out of uploads.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::path::extension;

/// What a file of unknown kind is sent as; with `nosniff` a browser offers to save it.
pub const UNKNOWN: &str = "application/octet-stream";

/// Content types that the configuration sets for extensions.
#[derive(Debug, Clone, Default)]
pub struct Overrides(HashMap<Vec<u8>, Box<str>>);

impl Overrides {
    /// From pairs of extension and content type. The case of the extension and a leading dot do
    /// not matter; the last of several types for one extension counts.
    pub fn new<'s>(pairs: impl IntoIterator<Item = (&'s str, &'s str)>) -> Self {
        let lower = |extension: &str| {
            extension.strip_prefix('.').unwrap_or(extension).to_ascii_lowercase().into_bytes()
        };
        let entry = |(extension, content_type)| (lower(extension), Box::from(content_type));
        Self(pairs.into_iter().map(entry).collect())
    }
}

/// The value of Content-Type for a file name. Types that are text get `; charset=utf-8`, unless
/// an override already has a parameter. A compressed file that is asked for under its own name
/// is a file of that kind: `x.tar.gz` is `application/gzip`.
pub fn content_type(file_name: &[u8], overrides: &Overrides) -> Cow<'static, str> {
    let Some(extension) = extension(file_name).map(<[u8]>::to_ascii_lowercase) else {
        return UNKNOWN.into();
    };
    match overrides.0.get(&extension) {
        Some(own) => with_charset(Cow::Owned(own.to_string())),
        None => with_charset(Cow::Borrowed(known(&extension))),
    }
}

/// The type of a lower-case extension.
fn known(extension: &[u8]) -> &'static str {
    let corrected = CORRECTIONS.iter().find(|(name, _)| name.as_bytes() == extension);
    match (corrected, std::str::from_utf8(extension)) {
        (Some((_, content_type)), _) => content_type,
        (None, Ok(name)) => mime_guess::from_ext(name).first_raw().unwrap_or(UNKNOWN),
        (None, Err(_)) => UNKNOWN,
    }
}

/// Where `mime_guess` has nothing, or something else than IANA's registry and browsers.
const CORRECTIONS: &[(&str, &str)] = &[];

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
    #[test]
    fn dump() {
        for e in "html htm css js mjs cjs json map wasm woff woff2 ttf otf eot svg svgz png apng jpg jpeg gif webp avif jxl heic ico bmp tif xml xhtml txt md csv ics pdf webmanifest manifest jsonld geojson rss atom mp4 m4v webm ogv mp3 m4a ogg oga opus flac wav aac ts m2ts m3u8 mpd vtt srt gz tgz zst br zip 7z xz bz2 tar glb gltf apk deb rpm iso dmg exe jar toml yaml yml rs c py sh wat mid pem crt log conf ini tsx jsx vue scss less ps1 php appcache swf docx xlsx odt epub json5 ndjson topojson hdr ktx2 basis cur dat bin cbor har sql lua go ipynb".split(' ') {
            println!("{e:12} {:?} {}", mime_guess::from_ext(e).first_raw(), content_type(format!("a.{e}").as_bytes(), &Overrides::default()));
        }
    }
}
