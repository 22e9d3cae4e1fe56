//! JSON as commands print it for other programs, indented by two spaces. It is only written here: a
//! server needs no library for that.
//!
//! A value is a string of JSON: a result of these functions, a number as it is displayed, `null`.

/// A text, of any characters (RFC 8259 §7).
#[must_use]
pub fn text(text: &str) -> String {
    let mut json = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => json.extend(['\\', character]),
            '\n' => json += "\\n",
            '\t' => json += "\\t",
            '\0'..='\x1f' => json += &format!("\\u{:04x}", u32::from(character)),
            _ => json.push(character),
        }
    }
    json + "\""
}

/// A text, or `null` where there is none.
#[must_use]
pub fn text_or_null(optional: Option<&str>) -> String {
    optional.map_or_else(|| "null".to_owned(), text)
}

/// An array of values, each on lines of its own.
#[must_use]
pub fn array(values: impl IntoIterator<Item = String>) -> String {
    enclosed('[', values, ']')
}

/// An object of values with their names, in the order given, each on lines of its own.
#[must_use]
pub fn object<const N: usize>(members: [(&str, String); N]) -> String {
    enclosed('{', members.map(|(name, value)| format!("{}: {value}", text(name))), '}')
}

fn enclosed(open: char, values: impl IntoIterator<Item = String>, close: char) -> String {
    // A line break within a text is escaped, so a line break always precedes the beginning of a
    // line.
    let indented = |value: String| format!("\n  {}", value.replace('\n', "\n  "));
    let values: Vec<String> = values.into_iter().map(indented).collect();
    let end = if values.is_empty() { "" } else { "\n" };
    format!("{open}{}{end}{close}", values.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_is_shown() {
        let value = object([
            ("names", array(["a", "b"].map(text))),
            ("none", array([])),
            ("nothing", text_or_null(None)),
            ("something", text_or_null(Some("a"))),
            ("object", object([("n", 1.to_string())])),
            ("empty", object([])),
        ]);
        let expected = r#"{
  "names": [
    "a",
    "b"
  ],
  "none": [],
  "nothing": null,
  "something": "a",
  "object": {
    "n": 1
  },
  "empty": {}
}"#;
        assert_eq!(value, expected);
    }

    #[track_caller]
    fn check(written: &str) {
        let json = text(written);
        assert!(!json.contains('\n'), "{json}");
        assert_eq!(serde_json::from_str::<String>(&json).ok().as_deref(), Some(written), "{json}");
    }

    #[test]
    fn every_character_is_read_as_it_was() {
        check(&(0..0x100).filter_map(char::from_u32).collect::<String>());
    }

    proptest! {
        #[test]
        fn every_text_is_read_as_it_was(text: String) {
            check(&text);
        }
    }
}
