//! What is wrong with a TOML file that a person wrote, in one line.

/// What a reader of TOML has to say, without the picture it draws.
pub(crate) fn one_line(text: &str, why: &toml::de::Error) -> String {
    let message = message(why);
    let before = why.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!("line {}: {message}", before.matches('\n').count() + 1),
        None => message,
    }
}

/// The table that a text holds.
///
/// # Errors
/// What is wrong with it, and in which line.
pub(crate) fn table(text: &str) -> Result<toml::Table, String> {
    text.parse().map_err(|why| one_line(text, &why))
}

/// What a reader of TOML has to say, in one line and without a place: for what was a table already,
/// and so has no text to point into.
pub(crate) fn message(why: &toml::de::Error) -> String {
    why.message().lines().collect::<Vec<_>>().join(", ")
}
