//! Lines of JSON: Ropewalk's, Caddy's, nginx's as it is usually set up, and similar ones.

use std::borrow::Cow;
use std::net::SocketAddr;

use serde_json::Value;

use super::{Format, Line, MalformedReason, ncsa, time};
use crate::request_log::decimal;

/// The names under which a value is found, in the object or in its `request`; the first that is
/// there counts. nginx's `bytes_sent` is not among them, since it includes the head.
const TIME: &[&str] =
    &["time", "ts", "timestamp", "@timestamp", "time_iso8601", "msec", "time_local"];
const CLIENT: &[&str] =
    &["peer", "client_ip", "remote_ip", "remote_addr", "client", "clientip", "remote_host"];
const METHOD: &[&str] = &["method", "request_method", "verb"];
/// nginx's `uri` is decoded, rewritten, and without its query.
const TARGET: &[&str] = &["target", "request_uri", "uri", "url", "path"];
const STATUS: &[&str] = &["status", "status_code", "response"];
const BYTES: &[&str] = &["bytes", "size", "body_bytes_sent", "body_bytes"];
const AGENT: &[&str] = &["user_agent", "http_user_agent", "agent", "userAgent"];

/// Reads a line, or returns why it cannot.
pub(super) fn read(line: &[u8]) -> Result<Line<'static>, MalformedReason> {
    let value: Value = serde_json::from_slice(line).map_err(|_| MalformedReason::NotJson)?;
    let time = find(&value, TIME).ok_or(MalformedReason::NoTime)?;
    let status = find(&value, STATUS).and_then(number);
    let (method, uri) = request(&value)?;
    Ok(Line {
        format: Format::Json,
        client: find(&value, CLIENT).and_then(client).unwrap_or_default(),
        agent: agent(&value).unwrap_or_default().as_bytes().to_vec().into(),
        unix_us: unix_us(time).ok_or(MalformedReason::BadTime)?,
        method,
        uri,
        status: status
            .and_then(|status| u16::try_from(status).ok())
            .ok_or(MalformedReason::BadStatus)?,
        bytes: find(&value, BYTES).and_then(number),
    })
}

/// The method and the target: of the request line if there is a whole one, else from separate
/// members.
fn request(value: &Value) -> Result<(String, Vec<u8>), MalformedReason> {
    let line = value.get("request").and_then(Value::as_str);
    let split = |line: &str| ncsa::split_request(line.as_bytes());
    if let Some(Ok(whole)) = line.filter(|line| line.contains(" HTTP/")).map(split) {
        return Ok(whole);
    }
    match (find(value, METHOD), find(value, TARGET)) {
        (Some(Value::String(method)), Some(Value::String(uri))) => {
            Ok((method.clone(), uri.clone().into_bytes()))
        }
        _ => split(line.ok_or(MalformedReason::NoRequest)?),
    }
}

fn find<'v>(value: &'v Value, names: &[&str]) -> Option<&'v Value> {
    let request = value.get("request");
    names.iter().find_map(|name| value.get(name).or_else(|| request?.get(name)))
}

fn agent(value: &Value) -> Option<&str> {
    let caddy = || value.pointer("/request/headers/User-Agent/0");
    find(value, AGENT).or_else(caddy)?.as_str()
}

/// An address without its port, which would make a client of each connection.
fn client(value: &Value) -> Option<Cow<'static, [u8]>> {
    let text = value.as_str()?;
    let address = text.parse::<SocketAddr>().map(|address| address.ip().to_string());
    Some(address.unwrap_or_else(|_| text.to_owned()).into_bytes().into())
}

/// A number, also one in quotes.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => decimal::whole(text.as_bytes()),
        _ => None,
    }
}

/// A time: a text in one of two formats, or seconds since 1970.
fn unix_us(value: &Value) -> Option<u64> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    let bytes = text.as_bytes();
    let seconds = || decimal::us(bytes).filter(|&us| us < 253_402_300_800_000_000); // year 10,000
    time::iso(bytes).or_else(|| time::ncsa(bytes)).or_else(seconds)
}
