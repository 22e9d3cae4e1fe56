//! The recorder for QEMU compared with the one for Valgrind: equal references of the program
//! itself, forks, threads, and executed programs.

use crate::{accesses, events, processes, recorded, recorded_with, recorders};
use memory_trace::{AccessKind, Event, Reader, Symbol};
use std::path::Path;
use std::process::Command;
use testkit::Temporary;
use testkit::tools::{QEMU, has};
use tracer::{Recorder, Summary};

const LOOPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/loops.c");

/// From this offset on the loops' data are only referred to atomically.
const ATOMIC_FROM: u64 = 2048 * 4;

fn recorded_with_qemu(
    folder: &Temporary,
    command: &[&str],
    window: (u64, u64),
) -> (Summary, Reader) {
    recorded_with(Recorder::Qemu, folder, command, window)
}

/// The references of the loops: those of their own code, and those to their own data.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    fetches: usize,
    loads: usize,
    stores: usize,
    atomic: usize,
    /// Without the atomic ones: the sum of all sizes, and a number that depends on the order.
    bytes: u64,
    order: u64,
}

fn counts((summary, reader): &(Summary, Reader)) -> Counts {
    let process = &reader.processes()[0];
    let symbol = |name: &str| -> &Symbol {
        process.symbols.iter().find(|symbol| symbol.function == name).unwrap()
    };
    let within = |symbol: &Symbol, address| (symbol.start..symbol.end).contains(&address);
    let (code, data) = (symbol("known_loops"), symbol("known_data"));
    let mut counts = Counts::default();
    for event in events(reader, summary.processes[0].id) {
        let access = match event {
            Event::Access(access) => access,
            Event::Synchronise { address } => {
                counts.atomic += usize::from(within(data, address));
                continue;
            }
            _ => continue,
        };
        let is_fetch = access.kind == AccessKind::Fetch;
        if !within(if is_fetch { code } else { data }, access.address) {
            continue;
        }
        match access.kind {
            AccessKind::Fetch => counts.fetches += 1,
            AccessKind::Load => counts.loads += 1,
            AccessKind::Store => counts.stores += 1,
        }
        if !is_fetch && access.address >= data.start + ATOMIC_FROM {
            continue;
        }
        counts.bytes += u64::from(access.bytes);
        let kind = access.kind as u64;
        counts.order = counts.order.wrapping_mul(31).wrapping_add(access.address << 2 | kind);
    }
    counts
}

#[test]
fn both_recorders_see_the_same_references_of_a_loop() {
    if recorders().count() < 2 {
        return;
    }
    let folder = Temporary::new();
    let program = folder.path().join("loops").display().to_string();
    let arguments = ["-O1", "-static", "-no-pie", LOOPS, "-o", &program];
    assert!(Command::new("cc").args(arguments).status().unwrap().success());
    let valgrind = counts(&recorded(&folder, &[&program], (0, 0)));
    let qemu = counts(&recorded_with_qemu(&folder, &[&program], (0, 0)));
    assert!(qemu.fetches > 50_000, "{qemu:?}");
    // As the loops do; Valgrind loads, and then compares and swaps, which is another load.
    assert_eq!((qemu.loads, qemu.stores, qemu.atomic), (10_000 + 250 + 100, 10_000 + 350, 100));
    assert_eq!(Counts { loads: qemu.loads + 100, ..qemu }, valgrind);
}

#[test]
fn a_killed_child_a_thread_and_shared_memory_are_recorded() {
    if !has(&QEMU) {
        return;
    }
    let folder = Temporary::new();
    let program = processes::compiled(&folder, processes::PROGRAM);
    processes::check_program(&recorded_with_qemu(&folder, &[&program], (0, 0)));
}

#[test]
fn a_window_is_cut_to_the_reference() {
    if !has(&QEMU) {
        return;
    }
    let folder = Temporary::new();
    let references = |window| accesses(&recorded_with_qemu(&folder, &["true"], window));
    let (all, some) = (references((0, 0)), references((5000, 2000)));
    assert_eq!(some[..], all[5000..7000]);
}

fn script(folder: &Path, name: &str, text: &str) -> String {
    let path = folder.join(name);
    testkit::install_script(text, &path);
    path.display().to_string()
}

#[test]
fn what_is_executed_is_recorded_too_and_told_of_if_not() {
    if !has(&QEMU) {
        return;
    }
    let folder = Temporary::new();
    let inner = script(folder.path(), "inner", "#!/bin/sh\nexec /bin/echo -n \"$@\"\n");
    let (summary, reader) = recorded_with_qemu(
        &folder,
        &["sh", "-c", "true & wait; exec \"$0\" a 'b c'", &inner],
        (0, 0),
    );
    assert_eq!(summary.notes, [""; 0]);
    let commands: Vec<&str> = reader.processes().iter().map(|p| p.command.as_str()).collect();
    let second = format!("/bin/sh {inner} a b c");
    for expected in [second.as_str(), "/bin/echo -n a b c"] {
        assert!(commands.contains(&expected), "{expected}: {commands:?}");
    }
    let parents: Vec<_> = reader.processes().iter().map(|process| process.parent).collect();
    assert_eq!(parents.iter().filter(|parent| parent.is_none()).count(), 1, "{parents:?}");
    assert!(summary.processes.iter().all(|process| process.lost.is_empty()), "{summary:?}");

    // The kernel accepts scripts of scripts of scripts of scripts; this recorder does not.
    let mut last = "/bin/sh".to_owned();
    for name in ["a", "b", "c", "d"] {
        last = script(folder.path(), name, &format!("#!{last}\n"));
    }
    let (summary, _) = recorded_with_qemu(&folder, &["sh", "-c", "exec \"$0\"", &last], (0, 0));
    let lost = &summary.processes[0].lost;
    assert_eq!(lost.len(), 1, "{lost:?}");
    assert!(lost[0].starts_with(&format!("not recorded: it executed {last}: ")), "{lost:?}");
}
