//! Emphasis on terminals: headings and verdicts in bold, warnings in colour. Elsewhere text is as
//! it is: in pipes and files, with NO_COLOR (no-color.org), and on terminals that show none.

use std::borrow::Cow;
use std::env;
use std::ffi::OsStr;
use std::io::IsTerminal;

const BOLD: &str = "\x1b[1m";
const YELLOW: &str = "\x1b[33m";
const END: &str = "\x1b[0m";

/// Whether a stream shows emphasis; by default it shows none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Emphasis {
    is_shown: bool,
}

impl Emphasis {
    /// Whether this stream is a terminal that shows emphasis, and the user has not refused it.
    pub fn of_stream(stream: &impl IsTerminal) -> Self {
        let (no_color, terminal) = (env::var_os("NO_COLOR"), env::var_os("TERM"));
        Self::decide(stream.is_terminal(), no_color.as_deref(), terminal.as_deref())
    }

    fn decide(is_terminal: bool, no_color: Option<&OsStr>, terminal: Option<&OsStr>) -> Self {
        let is_refused = no_color.is_some_and(|value| !value.is_empty());
        let is_able = terminal.is_some_and(|name| !name.is_empty() && name != "dumb");
        Self { is_shown: is_terminal && !is_refused && is_able }
    }

    /// What a reader looks for first: a verdict, a heading.
    pub fn strong<'t>(self, text: &'t str) -> Cow<'t, str> {
        self.between(BOLD, text)
    }

    /// What a reader has to mind.
    pub fn warning<'t>(self, text: &'t str) -> Cow<'t, str> {
        self.between(YELLOW, text)
    }

    /// A help text with its headings emphasised: lines that begin at the margin and end with a
    /// colon, and the word before the usage.
    pub fn help<'t>(self, text: &'t str) -> Cow<'t, str> {
        if !self.is_shown {
            return text.into();
        }
        text.split_inclusive('\n').map(|line| self.help_line(line)).collect::<String>().into()
    }

    fn help_line<'t>(self, line: &'t str) -> Cow<'t, str> {
        const USAGE: &str = "Usage:";
        let text = line.trim_end();
        match line.strip_prefix(USAGE) {
            Some(rest) => format!("{}{rest}", self.strong(USAGE)).into(),
            None if text.ends_with(':') && !text.starts_with(' ') => {
                format!("{}{}", self.strong(text), &line[text.len()..]).into()
            }
            None => line.into(),
        }
    }

    fn between<'t>(self, start: &str, text: &'t str) -> Cow<'t, str> {
        match self.is_shown {
            true => format!("{start}{text}{END}").into(),
            false => text.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emphasis_needs_a_terminal_that_shows_it_and_a_user_that_wants_it() {
        let check = |is_terminal, no_color: Option<&str>, terminal: Option<&str>, expected| {
            let found =
                Emphasis::decide(is_terminal, no_color.map(OsStr::new), terminal.map(OsStr::new));
            assert_eq!(found.is_shown, expected, "{is_terminal} {no_color:?} {terminal:?}");
        };
        check(true, None, Some("xterm"), true);
        check(true, Some(""), Some("linux"), true);
        check(true, Some("1"), Some("xterm"), false);
        check(true, None, Some("dumb"), false);
        check(true, None, None, false);
        check(false, None, Some("xterm"), false);
    }

    #[test]
    fn headings_of_help_are_emphasised() {
        let help = "About: it.\n\nUsage: a [b]\n\nOptions:\n  -c  d:\n";
        let shown =
            "About: it.\n\n\x1b[1mUsage:\x1b[0m a [b]\n\n\x1b[1mOptions:\x1b[0m\n  -c  d:\n";
        assert_eq!(Emphasis { is_shown: true }.help(help), shown);
        assert_eq!(Emphasis { is_shown: false }.help(help), help);
    }

    #[test]
    fn text_is_as_it_is_where_nothing_is_shown() {
        let (on, off) = (Emphasis { is_shown: true }, Emphasis { is_shown: false });
        assert_eq!((on.strong("a"), off.strong("a")), ("\x1b[1ma\x1b[0m".into(), "a".into()));
        assert_eq!((on.warning("a"), off.warning("a")), ("\x1b[33ma\x1b[0m".into(), "a".into()));
    }
}
