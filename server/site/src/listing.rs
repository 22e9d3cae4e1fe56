//! Directory listings: HTML for people and JSON for programs, written item by item so that a
//! directory of 100,000 files needs no second copy of itself. This module reads no directory and
//! hides nothing: the caller decides which items there are, and in which order.
//!
//! Names are chosen by uploaders, hence hostile: text and addresses are escaped separately,
//! addresses start with `./` so that `javascript:x` is a file, and the page forbids all scripts.

use std::cmp::Ordering;
use std::io::Write;

use http1::DateTime;

use crate::path::{encode_name, replace_bytes};

/// The Content-Security-Policy of the HTML listing: it allows only the one style sheet in it.
pub const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; \
    style-src 'sha256-9MdVft2qAetF/V7OHjsONO1LcE2VYRXIueNxmfHQS+8='; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const STYLE: &str = include_str!("listing/style.css");

/// The format of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A page.
    Html,
    /// An object with `path` and `items`.
    Json,
}

impl Format {
    /// The value of Content-Type.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Html => "text/html; charset=utf-8",
            Self::Json => "application/json",
        }
    }
}

/// The kind of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A directory: its address gets a trailing slash.
    Directory,
    /// A regular file: the only kind with a size.
    File,
    /// Anything else.
    Other,
}

/// An entry of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Item<'a> {
    /// The name: any bytes but slash and NUL.
    pub name: &'a [u8],
    /// What it is.
    pub kind: Kind,
    /// The length in bytes; shown for files.
    pub len: u64,
    /// The modification time in seconds since 1970.
    pub modified: Option<i64>,
}

/// The order of a listing: directories first, then by the bytes of the name.
pub fn compare(one: &Item<'_>, other: &Item<'_>) -> Ordering {
    let key = |item: &Item<'_>| item.kind != Kind::Directory;
    key(one).cmp(&key(other)).then_with(|| one.name.cmp(other.name))
}

/// Writes one listing: [`header`](Self::header) once, [`item`](Self::item) for each entry,
/// [`footer`](Self::footer) once. All of them only append, so that the caller may send the bytes in
/// between any two calls.
#[derive(Debug)]
pub struct Renderer {
    format: Format,
    items: u64,
}

impl Renderer {
    /// Creates a listing that has not begun.
    pub fn new(format: Format) -> Self {
        Self { format, items: 0 }
    }

    /// Writes the part before the items. `path` is the canonical path of the directory; addresses
    /// are relative to it, so it must have been requested with its trailing slash.
    pub fn header(&mut self, path: &[u8], out: &mut Vec<u8>) {
        match self.format {
            Format::Html => html_header(path, out),
            Format::Json => json_header(path, out),
        }
    }

    /// Writes one entry.
    pub fn item(&mut self, item: &Item<'_>, out: &mut Vec<u8>) {
        match self.format {
            Format::Html => html_item(item, out),
            Format::Json => {
                out.extend_from_slice(if self.items == 0 { b"\n" } else { b",\n" });
                json_item(item, out);
            }
        }
        self.items += 1;
    }

    /// Writes the part after the items.
    pub fn footer(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(match self.format {
            Format::Html => b"</tbody>\n</table>\n</body>\n</html>\n",
            Format::Json => b"\n]}\n",
        });
    }
}

fn html_header(path: &[u8], out: &mut Vec<u8>) {
    push(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    push(out, "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>");
    html_text(path, out);
    push(out, "</title>\n<style>");
    push(out, STYLE);
    push(out, "</style>\n</head>\n<body>\n<h1>");
    html_text(path, out);
    push(out, "</h1>\n<table>\n<thead><tr><th>Name</th><th>Size</th><th>Modified (UTC)</th>");
    push(out, "</tr></thead>\n<tbody>\n");
    if path != b"/" {
        push(out, "<tr><td><a href=\"../\">../</a></td><td></td><td></td></tr>\n");
    }
}

fn html_item(item: &Item<'_>, out: &mut Vec<u8>) {
    push(out, "<tr><td><a href=\"");
    address(item, out);
    push(out, "\">");
    html_text(item.name, out);
    push(out, if item.kind == Kind::Directory { "/</a></td><td>" } else { "</a></td><td>" });
    if item.kind == Kind::File {
        size(item.len, out);
    }
    push(out, "</td><td>");
    if let Some(modified) = item.modified {
        let DateTime { year, month, day, hour, minute, .. } = DateTime::from_unix_seconds(modified);
        write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}").expect(APPENDS);
    }
    push(out, "</td></tr>\n");
}

fn json_header(path: &[u8], out: &mut Vec<u8>) {
    push(out, "{\"path\":\"");
    json_text(path, out);
    push(out, "\",\"items\":[");
}

fn json_item(item: &Item<'_>, out: &mut Vec<u8>) {
    push(out, "{\"name\":\"");
    json_text(item.name, out);
    push(out, "\",\"href\":\"");
    address(item, out);
    push(
        out,
        match item.kind {
            Kind::Directory => "\",\"kind\":\"directory\"",
            Kind::File => "\",\"kind\":\"file\"",
            Kind::Other => "\",\"kind\":\"other\"",
        },
    );
    if item.kind == Kind::File {
        write!(out, ",\"size\":{}", item.len).expect(APPENDS);
    }
    if let Some(modified) = item.modified {
        let DateTime { year, month, day, hour, minute, second } =
            DateTime::from_unix_seconds(modified);
        write!(out, ",\"modified\":\"{year:04}-{month:02}-{day:02}").expect(APPENDS);
        write!(out, "T{hour:02}:{minute:02}:{second:02}Z\"").expect(APPENDS);
    }
    out.push(b'}');
}

const APPENDS: &str = "a Vec takes all that is written to it";

fn push(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Writes the relative address of an item. It needs no further escaping in HTML or JSON: it only
/// contains letters, digits, percent signs and `-._~/`.
fn address(item: &Item<'_>, out: &mut Vec<u8>) {
    push(out, "./");
    encode_name(item.name, out);
    if item.kind == Kind::Directory {
        out.push(b'/');
    }
}

/// Writes text between tags. Bytes that are not UTF-8 and control characters are shown as U+FFFD.
fn html_text(text: &[u8], out: &mut Vec<u8>) {
    escape(text, out, b"<>&\"'", |byte, out| match byte {
        b'<' => push(out, "&lt;"),
        b'>' => push(out, "&gt;"),
        b'&' => push(out, "&amp;"),
        b'"' => push(out, "&quot;"),
        b'\'' => push(out, "&#39;"),
        _ => push(out, REPLACEMENT),
    });
}

/// Writes the inside of a string (RFC 8259 section 7). `<` is escaped as well, for JSON that is put
/// into a page.
fn json_text(text: &[u8], out: &mut Vec<u8>) {
    escape(text, out, b"\"\\<", |byte, out| match byte {
        b'"' => push(out, "\\\""),
        b'\\' => push(out, "\\\\"),
        _ => write!(out, "\\u{byte:04x}").expect(APPENDS),
    });
}

const REPLACEMENT: &str = "\u{fffd}";

/// Appends text with `replace` for control characters and the `special` ones, and with
/// [`REPLACEMENT`] for bytes that are not UTF-8.
fn escape(text: &[u8], out: &mut Vec<u8>, special: &[u8], replace: fn(u8, &mut Vec<u8>)) {
    let is_kept = |byte: u8| !byte.is_ascii_control() && !special.contains(&byte);
    for chunk in text.utf8_chunks() {
        replace_bytes(chunk.valid().as_bytes(), out, is_kept, replace);
        if !chunk.invalid().is_empty() {
            push(out, REPLACEMENT);
        }
    }
}

/// Writes a size for people: three digits or four, rounded down.
fn size(len: u64, out: &mut Vec<u8>) {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if len < 1024 {
        return write!(out, "{len} B").expect(APPENDS);
    }
    let power = len.ilog2() / 10; // 1 to 6
    let unit = UNITS[power as usize - 1];
    let whole = len >> (10 * power);
    let tenth = (len >> (10 * (power - 1)) & 1023) * 10 / 1024;
    match whole {
        ..10 => write!(out, "{whole}.{tenth} {unit}"),
        _ => write!(out, "{whole} {unit}"),
    }
    .expect(APPENDS);
}

#[cfg(test)]
mod tests;
