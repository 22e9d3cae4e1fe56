//! A line of NCSA's common or combined format:
//! `client ident user [time] "request" status bytes "referrer" "user agent" …`.

use std::borrow::Cow;
use std::net::IpAddr;

use super::{Format, Line, MalformedReason, time};
use crate::request_log::decimal;
use crate::request_log::escape::unescape;

/// Reads a line, or returns why it cannot.
pub(super) fn read(line: &[u8]) -> Result<Line<'_>, MalformedReason> {
    let client = client(line);
    // The name of a user may contain anything but this.
    let open = memchr::memmem::find(line, b" [").ok_or(MalformedReason::NotALine)?;
    let rest = &line[open + 2..];
    let close = memchr::memchr(b']', rest).ok_or(MalformedReason::NotALine)?;
    let unix_us = time::ncsa(&rest[..close]).ok_or(MalformedReason::BadTime)?;
    let mut rest = &rest[close + 1..];
    let request = quoted(&mut rest).ok_or(MalformedReason::UnquotedRequest)?;
    let status = word(&mut rest);
    let status = decimal::whole(status).and_then(|status| u16::try_from(status).ok());
    let bytes = match word(&mut rest) {
        b"-" => Some(0),
        digits => decimal::whole(digits),
    };
    let _referrer = quoted(&mut rest);
    let agent = quoted(&mut rest);
    let (method, uri) = split_request(&request)?;
    Ok(Line {
        format: if agent.is_some() { Format::Combined } else { Format::Common },
        client: client.into(),
        agent: agent.unwrap_or_default(),
        unix_us,
        method,
        uri,
        status: status.ok_or(MalformedReason::BadStatus)?,
        bytes,
    })
}

/// The first word, or the second where Apache's `vhost_combined` has `site:port` before it.
fn client(line: &[u8]) -> &[u8] {
    let mut words = line.split(|&byte| byte == b' ').map(|word| str::from_utf8(word).ok());
    if let (Some(Some(first)), Some(Some(second))) = (words.next(), words.next()) {
        let is_address = |word: &str| word.parse::<IpAddr>().is_ok();
        let port = first.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        if port.is_some() && !is_address(first) && is_address(second) {
            return second.as_bytes();
        }
    }
    line.split(|&byte| byte == b' ').next().unwrap_or_default()
}

/// The method and the target of a request line.
pub(super) fn split_request(request: &[u8]) -> Result<(String, Vec<u8>), MalformedReason> {
    let space = memchr::memchr(b' ', request).ok_or(MalformedReason::NotHttp)?;
    let (method, rest) = (&request[..space], &request[space + 1..]);
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    if method.is_empty() || !method.iter().all(is_token) {
        return Err(MalformedReason::NotHttp);
    }
    // HTTP/0.9 has no version behind the URI.
    let end = memchr::memmem::rfind(rest, b" HTTP/").unwrap_or(rest.len());
    Ok((String::from_utf8_lossy(method).into_owned(), rest[..end].to_vec()))
}

/// The next word.
fn word<'b>(rest: &mut &'b [u8]) -> &'b [u8] {
    let text = rest.trim_ascii_start();
    let end = text.iter().position(|&byte| byte == b' ').unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    *rest = after;
    word
}

/// The next text in quotes, with the escapes of Apache and nginx undone.
fn quoted<'b>(rest: &mut &'b [u8]) -> Option<Cow<'b, [u8]>> {
    let text = rest.trim_ascii_start().strip_prefix(b"\"")?;
    let special = memchr::memchr2(b'"', b'\\', text)?;
    if text[special] == b'"' {
        *rest = &text[special + 1..];
        return Some(text[..special].into());
    }
    let mut plain = text[..special].to_vec();
    let mut position = special;
    loop {
        match (*text.get(position)?, text.get(position + 1)) {
            (b'"', _) => break,
            (b'\\', Some(b'x')) if hex(text, position + 2).is_some() => {
                plain.extend(hex(text, position + 2));
                position += 4;
            }
            (b'\\', Some(&escaped)) => {
                plain.push(unescape(escaped));
                position += 2;
            }
            (byte, _) => {
                plain.push(byte);
                position += 1;
            }
        }
    }
    *rest = &text[position + 1..];
    Some(plain.into())
}

/// Two hexadecimal digits.
fn hex(text: &[u8], position: usize) -> Option<u8> {
    let digits = std::str::from_utf8(text.get(position..position + 2)?).ok()?;
    let valid = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    u8::from_str_radix(digits, 16).ok().filter(|_| valid)
}
