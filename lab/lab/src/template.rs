//! Placeholders in a server's commands and configuration files: `{name}`.
//!
//! Not a template language. A brace that does not enclose a plain lower-case name (or several with
//! dots between them) is left as it is, so the configuration languages that use braces for blocks
//! need no escapes.

use std::collections::BTreeMap;

/// Placeholders that every launch fills in; a server's knobs come on top.
pub(crate) const PLACES: [&str; 13] = [
    "listen",
    "port",
    "application_port",
    "root",
    "work_dir",
    "workers",
    "pins",
    "repository",
    "servers_dir",
    "target_dir",
    "path_list",
    "head_file",
    "connection",
];

/// The value of each placeholder.
pub type Values = BTreeMap<String, String>;

/// `text` with every placeholder replaced, or the name of one that has no value.
pub(crate) fn fill(text: &str, values: &Values) -> Result<String, String> {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('{') {
        filled.push_str(&rest[..open]);
        rest = &rest[open..];
        match placeholder(rest) {
            Some(name) => {
                filled.push_str(values.get(name).ok_or(name)?);
                rest = &rest[name.len() + 2..];
            }
            None => {
                filled.push('{');
                rest = &rest[1..];
            }
        }
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The names of the placeholders in `text`, in order.
pub(crate) fn names(text: &str) -> impl Iterator<Item = &str> {
    text.match_indices('{').filter_map(|(open, _)| placeholder(&text[open..]))
}

/// A knob's value may hold placeholders of every launch, but none that stand for other knobs.
pub(crate) fn check_value(value: &str) -> Result<(), String> {
    match names(value).find(|name| !PLACES.contains(name)) {
        Some(name) => Err(format!("{{{name}}} is no known placeholder")),
        None => Ok(()),
    }
}

/// The name, if `text` begins with a placeholder.
fn placeholder(text: &str) -> Option<&str> {
    let (name, _) = text.strip_prefix('{')?.split_once('}')?;
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || b"_.".contains(&byte);
    (!name.is_empty() && name.bytes().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let values = Values::from([("port".into(), "80".into()), ("work_dir".into(), "/w".into())]);
        assert_eq!(fill(text, &values).as_deref().map_err(String::as_str), expected);
    }

    #[test]
    fn placeholders_are_replaced() {
        check("listen 127.0.0.1:{port};", Ok("listen 127.0.0.1:80;"));
        check("{work_dir}{port}", Ok("/w80"));
        check("nothing", Ok("nothing"));
        check("", Ok(""));
    }

    #[test]
    fn other_braces_are_themselves() {
        check("events { worker {port} }", Ok("events { worker 80 }"));
        check("{ {{port}} }", Ok("{ {80} }"));
        check("%{User-Agent}i {} {", Ok("%{User-Agent}i {} {"));
    }

    #[test]
    fn a_name_without_value_is_reported() {
        check("{prot}", Err("prot"));
    }

    #[test]
    fn names_are_listed() {
        let found: Vec<&str> = names("a {port} { b {root}").collect();
        assert_eq!(found, ["port", "root"]);
    }
}
