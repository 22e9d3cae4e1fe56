//! What is wrong with a TOML file that a person wrote, in one line.

/// The message of the TOML parser, without the excerpt it prints.
pub(crate) fn one_line(text: &str, why: &toml::de::Error) -> String {
    let message = message(why);
    let before = why.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

/// Parses a text into a table.
///
/// # Errors
/// What is wrong with the text, and in which line.
pub(crate) fn table(text: &str) -> Result<toml::Table, String> {
    text.parse().map_err(|why| one_line(text, &why))
}

/// The message of the TOML parser, in one line and without a place: for a value that was a table
/// already, and so has no text to point into.
pub(crate) fn message(why: &toml::de::Error) -> String {
    why.message().lines().collect::<Vec<_>>().join(", ")
}
