//! Forks, threads, shared memory, and processes that are killed.

use crate::{accesses, events, recorded};
use memory_trace::{AccessKind, Event, Process, Reader, RegionKind, Symbol};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use testkit::Temporary;
use testkit::tools::{VALGRIND, has};
use tracer::Summary;

pub(crate) const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/program.c");

/// Compiles a program in C for one test.
pub(crate) fn compiled(folder: &Temporary, source: &str) -> String {
    let program = folder.path().join("program").display().to_string();
    let cc = Command::new("cc").args(["-g", "-O1", "-pthread", source, "-o", &program]).status();
    assert!(cc.unwrap().success());
    program
}

fn symbol<'p>(process: &'p Process, name: &str) -> &'p Symbol {
    process.symbols.iter().find(|symbol| symbol.function == name).unwrap()
}

fn stores_to(events: &[Event], symbol: &Symbol) -> usize {
    let stored = |event: &&Event| match event {
        Event::Access(access) => {
            access.kind == AccessKind::Store && (symbol.start..symbol.end).contains(&access.address)
        }
        _ => false,
    };
    events.iter().filter(stored).count()
}

#[test]
fn a_killed_child_a_thread_and_shared_memory_are_recorded() {
    if !has(&VALGRIND) {
        return;
    }
    let folder = Temporary::new();
    check_program(&recorded(&folder, &[&compiled(&folder, PROGRAM)], (0, 0)));
}

/// Checks that the program's actions are in its trace.
pub(crate) fn check_program((summary, reader): &(Summary, Reader)) {
    assert_eq!(summary.notes, [""; 0], "it ended well");
    let [parent, child] = reader.processes() else { panic!("{:?}", summary.processes) };
    assert_eq!((parent.parent, child.parent), (None, Some(parent.id)));
    assert!(summary.processes[1].lost[0].starts_with("it was killed"), "{summary:?}");

    let (did, child_did) = (events(reader, parent.id), events(reader, child.id));
    let counter = symbol(parent, "counter");
    assert_eq!(stores_to(&did, counter), 1000);
    let locked = |event: &&Event| **event == Event::Synchronise { address: counter.start };
    assert_eq!(did.iter().filter(locked).count(), 1000);
    let threads = did.iter().filter(|event| matches!(event, Event::SwitchThread { thread: 2 }));
    assert!(threads.count() > 0, "the second thread");
    let function = symbol(parent, "count_in_a_loop");
    assert!(function.file.as_ref().is_some_and(|file| file.ends_with("program.c")), "{function:?}");
    assert!(function.line.is_some_and(|line| (13..=15).contains(&line)), "{function:?}");

    // Up to the last store before SIGKILL.
    assert_eq!(stores_to(&child_did, symbol(child, "written_by_child")), 4096);
    let kill = Event::SystemCall { number: 62 };
    assert!(did.contains(&kill) && !child_did.contains(&kill));

    for process in [parent, child] {
        let shared: Vec<_> =
            process.regions.iter().filter(|region| region.kind == RegionKind::Shared).collect();
        assert_eq!(shared.len(), 1, "{:?}", process.regions);
        assert!(shared[0].object.is_some_and(|object| object.inode != 0));
        assert!(process.regions.iter().any(|region| region.kind == RegionKind::File));
    }
    let stack = |process: &Process| {
        process.regions.iter().find(|region| region.name == "[stack]").map(|region| region.kind)
    };
    assert_eq!(stack(parent), Some(RegionKind::Private));
    assert_eq!(stack(child), Some(RegionKind::CopyOnWrite));
    let inherited = child.regions.iter().find(|region| region.name == "[stack]").unwrap();
    assert_eq!(inherited.object.unwrap().inode, u64::from(parent.id));
}

#[test]
fn a_window_is_cut_to_the_reference() {
    if !has(&VALGRIND) {
        return;
    }
    let folder = Temporary::new();
    let references = |window| accesses(&recorded(&folder, &["true"], window));
    let (all, some) = (references((0, 0)), references((5000, 2000)));
    assert!((2000..=2001).contains(&some.len()), "a modify is not cut in two: {}", some.len());
    let begin = if all[5000..].starts_with(&some) { 5000 } else { 5001 };
    assert!(all[begin..].starts_with(&some));
}

#[test]
fn an_exec_is_a_process_of_its_own() {
    if !has(&VALGRIND) {
        return;
    }
    let folder = Temporary::new();
    let script = "true & wait; exec /bin/echo -n";
    let (summary, reader) = recorded(&folder, &["sh", "-c", script], (0, 0));
    let commands: Vec<&str> = reader.processes().iter().map(|p| p.command.as_str()).collect();
    let echo =
        reader.processes().iter().find(|process| process.command.starts_with("/bin/echo")).unwrap();
    let shell = &summary.processes[0];
    assert_eq!(echo.parent, Some(shell.id), "{commands:?}");
    assert!(summary.processes.iter().all(|process| process.lost.is_empty()), "{summary:?}");
}

/// Servers that root starts change their user, and some then execute another program.
#[test]
fn what_becomes_another_user_is_recorded_on() {
    if !has(&VALGRIND) {
        return;
    }
    let folder = Temporary::new();
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let another = ["setpriv", "--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "true"];
    // Without root's rights the user stays the same, which has to work as well.
    let command = if os::process::is_root() { &another[..] } else { &["setpriv", "true"] };
    let (summary, reader) = recorded(&folder, command, (0, 0));
    assert_eq!(summary.notes, [""; 0]);
    let [before, after] = reader.processes() else { panic!("{:?}", summary.processes) };
    assert!(after.command.ends_with("true"), "{after:?}");
    assert_eq!(after.parent, Some(before.id));
    assert!(summary.processes[1].references() > 50_000, "{summary:?}");
}
