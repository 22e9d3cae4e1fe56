//! Help and mistakes on a terminal.

use testkit::tools::SCRIPT;
use testkit::{Terminal, Written, has};

use crate::run;
use crate::server_process::ROPEWALK;

fn on_terminal(arguments: &[&str], environment: &[(&str, &str)]) -> Written {
    Terminal::start(&[&[ROPEWALK], arguments].concat(), 80, environment).finish()
}

#[test]
fn headings_of_help_are_emphasised_on_a_terminal_that_shows_it() {
    if !has(&SCRIPT) {
        return;
    }
    let shown = on_terminal(&["serve", "-h"], &[]);
    for heading in ["Usage:", "Options:", "Examples:"] {
        assert!(shown.all.contains(&format!("\x1b[1m{heading}\x1b[0m")), "{}", shown.all);
    }
    assert!(shown.screen.len() <= 24, "{:?}", shown.screen);
    for environment in [[("NO_COLOR", "1")], [("TERM", "dumb")]] {
        let plain = on_terminal(&["serve", "-h"], &environment);
        assert_eq!((plain.status, &plain.screen), (0, &shown.screen), "{environment:?}");
        assert!(!plain.all.contains('\x1b'), "{environment:?}: {}", plain.all);
    }
    let (_, piped, _) = run(&["serve", "-h"]);
    assert!(piped.contains("\nOptions:\n") && !piped.contains('\x1b'), "{piped}");
}

#[test]
fn the_name_before_a_mistake_is_emphasised() {
    if !has(&SCRIPT) {
        return;
    }
    let shown = on_terminal(&["sreve"], &[]);
    assert!(shown.all.starts_with("\x1b[1mropewalk:\x1b[0m unknown command"), "{}", shown.all);
    assert_eq!(shown.status, 2);
    let (_, _, piped) = run(&["sreve"]);
    assert!(piped.starts_with("ropewalk: unknown command"), "{piped}");
}
