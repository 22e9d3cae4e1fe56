//! Commands on a terminal: one progress line that is gone in the end, the verdict last, emphasis.

use testkit::tools::SCRIPT;
use testkit::{Temporary, Terminal, Written, has};

use crate::compared;
use crate::lab::{LIFTED, Lab, WINDOW, text};
use crate::server_process::{ROPEWALK_LAB, ropewalk_server, served};

/// Runs the command on a terminal, to its end.
fn on_terminal(arguments: &[&str], columns: usize, environment: &[(&str, &str)]) -> Written {
    Terminal::start(&[&[ROPEWALK_LAB], arguments].concat(), columns, environment).finish()
}

/// What takes the place of the progress line before.
const CLEAR: &str = "\r\x1b[K";

#[test]
fn progress_is_one_line_that_fits_and_is_gone_in_the_end() {
    if !has(&SCRIPT) {
        return;
    }
    let directory = Temporary::new();
    directory.file("index.html", "hello");
    let server = served(directory.path(), &[]);
    let url = format!("http://{}/", server.address());
    let load = ["load", &url, "-c", "1", "-d", "1s", "--interval", "50ms"];
    // On a busy machine the run shall not be void for that.
    let load = [&load[..], &["--lag-bound", "10s", "--run-delay-bound", "100%"]].concat();
    for columns in [40, 200] {
        let Written { status, all, screen } = on_terminal(&load, columns, &[]);
        assert_eq!(status, 0, "{all}");
        let lines: Vec<&str> = all.split(CLEAR).filter(|text| text.contains(" s  sent ")).collect();
        // Of twenty: the generator may have to wait for a CPU.
        assert!(lines.len() >= 3, "{all}");
        assert!(lines.iter().all(|line| line.chars().count() < columns), "{lines:?}");
        assert!(!screen.iter().any(|line| line.contains("in flight")), "{screen:?}");
        assert!(screen[0].starts_with("Run "), "{screen:?}");
    }
}

/// A generator is always later than a microsecond after a request was due.
#[test]
fn a_void_run_is_emphasised() {
    if !has(&SCRIPT) {
        return;
    }
    let directory = Temporary::new();
    directory.file("index.html", "hello");
    let server = served(directory.path(), &[]);
    let load = ["load", &server.url("/"), "--rate", "1000", "-d", "100ms", "--lag-bound", "1us"];
    let shown = on_terminal(&load, 200, &[]);
    assert_eq!(shown.status, 3, "{}", shown.all);
    assert_eq!(shown.all.matches("\x1b[33mVOID: ").count(), 2, "{}", shown.all);
    let plain = on_terminal(&load, 200, &[("NO_COLOR", "1")]);
    assert!(plain.all.contains("VOID: ") && !plain.all.contains("\x1b[33m"), "{}", plain.all);
}

#[test]
fn an_interrupted_command_leaves_nothing_of_its_progress() {
    if !has(&SCRIPT) {
        return;
    }
    let long = ["membench", "--budget", "10m", "--repetitions", "1000", "--area", "4"];
    let mut terminal = Terminal::start(&[&[ROPEWALK_LAB], &long[..]].concat(), 200, &[]);
    terminal.wait_for(" of 1000 repetitions");
    terminal.interrupt();
    let Written { status, screen, .. } = terminal.finish();
    assert_eq!(status, 128 + 2, "{screen:?}");
    assert_eq!(screen.len(), 1, "{screen:?}");
    assert!(screen[0].contains(" measurements of "), "{screen:?}");
}

#[test]
fn errors_begin_at_the_start_of_a_line() {
    if !has(&SCRIPT) {
        return;
    }
    let folder = Temporary::new();
    let log = folder.file("a.log", "no log\n").display().to_string();
    let Written { status, screen, .. } = on_terminal(&["log", "describe", &log], 200, &[]);
    assert_eq!((status, screen.len()), (2, 1), "{screen:?}");
    assert!(screen[0].starts_with("ropewalk: "), "{screen:?}");
}

/// The verdict and where more is are the last two lines; nothing is emphasised for a user who has
/// set NO_COLOR.
#[test]
fn the_verdict_is_last_and_emphasised() {
    if !has(&SCRIPT) {
        return;
    }
    ropewalk_server();
    let lab = Lab::new();
    let (scratch, records) = (lab.path("scratch"), lab.path("records"));
    let servers = ["compare", "ropewalk:event-loop", "ropewalk:event-loop", "--pairs=1"];
    let short = ["--workload=1KB", WINDOW, "--lag-bound=60s", LIFTED];
    let places = ["--scratch", text(&scratch), "-o", text(&records)];
    let compare = [&servers[..], &short, &places].concat();
    let compare = |environment: &[(&str, &str)]| {
        compared(|| {
            let shown = on_terminal(&compare, 200, environment);
            (shown.all.clone(), shown)
        })
    };
    let shown = compare(&[]);
    assert!(shown.all.contains("\n\x1b[1mVerdict: "), "{}", shown.all);
    let [.., blank, verdict, more] = &shown.screen[..] else { panic!("{}", shown.all) };
    assert!(blank.is_empty() && verdict.starts_with("Verdict: "), "{}", shown.all);
    assert!(more.starts_with("More: "), "{}", shown.all);
    std::fs::remove_dir_all(&records).unwrap();
    let plain = compare(&[("NO_COLOR", "1")]);
    assert!(plain.all.contains("\nVerdict: ") && !plain.all.contains("\x1b[1m"), "{}", plain.all);
}
