//! Cachegrind's counts, from a trace and a cache of thirty lines: equal to the last miss.

use crate::{events, recorded};
use memory_trace::{Access, AccessKind, Event};
use std::fs;
use testkit::Temporary;
use tracer::Tool;

const LINE: u64 = 64;

/// Set-associative, least recently used.
struct Cache {
    sets: Vec<Vec<u64>>,
    ways: usize,
}

impl Cache {
    fn new(bytes: usize, ways: usize) -> Self {
        Self { sets: vec![Vec::new(); bytes / LINE as usize / ways], ways }
    }

    fn misses_line(&mut self, line: u64) -> bool {
        let count = self.sets.len() as u64;
        let set = &mut self.sets[(line % count) as usize];
        let place = set.iter().position(|held| *held == line);
        if place.is_some() || set.len() == self.ways {
            set.remove(place.unwrap_or(0));
        }
        set.push(line);
        place.is_none()
    }

    /// An access that straddles two lines touches both and misses once.
    fn misses(&mut self, access: &Access) -> bool {
        let bytes = u64::from(access.bytes).min(LINE);
        let (first, last) = (access.address / LINE, (access.address + bytes - 1) / LINE);
        let missed = self.misses_line(first);
        if first == last { missed } else { self.misses_line(last) | missed }
    }
}

/// I references, I1 misses, D references, D1 misses, LL misses.
type Counts = [u64; 5];

fn simulated(events: &[Event]) -> Counts {
    let (mut i1, mut d1) = (Cache::new(32 << 10, 8), Cache::new(48 << 10, 12));
    let mut ll = Cache::new(1 << 20, 16);
    let mut counts = [0; 5];
    let mut loaded = None;
    for event in events {
        let Event::Access(access) = event else { continue };
        // A load and a store of the same bytes by one instruction count once.
        if access.kind == AccessKind::Store && loaded == Some((access.address, access.bytes)) {
            loaded = None;
            continue;
        }
        let is_load = access.kind == AccessKind::Load;
        loaded = is_load.then_some((access.address, access.bytes));
        let (first, cache) = match access.kind {
            AccessKind::Fetch => (0, &mut i1),
            AccessKind::Load | AccessKind::Store => (2, &mut d1),
        };
        counts[first] += 1;
        if cache.misses(access) {
            counts[first + 1] += 1;
            counts[4] += u64::from(ll.misses(access));
        }
    }
    counts
}

fn counted_by_cachegrind(command: &[&str]) -> Counts {
    let mut valgrind = Tool::ready().unwrap().valgrind("cachegrind");
    valgrind.args(["--I1=32768,8,64", "--D1=49152,12,64", "--LL=1048576,16,64"]);
    valgrind.arg("--cachegrind-out-file=/dev/null").args(command);
    // As what is recorded: a program that looks which signals are ignored does more if none are.
    os::signals::restore_in_child(&mut valgrind);
    let output = valgrind.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let number = |name: [&str; 2]| -> u64 {
        let line = said.lines().find(|line| {
            line.split_whitespace().skip(1).take(2).eq(name) // after ==PID==
        });
        let line = line.unwrap_or_else(|| panic!("{name:?} in\n{said}"));
        line.split_whitespace().nth(3).unwrap().replace(',', "").parse().unwrap()
    };
    let names = [["I", "refs:"], ["I1", "misses:"], ["D", "refs:"], ["D1", "misses:"]];
    let [a, b, c, d] = names.map(number);
    [a, b, c, d, number(["LL", "misses:"])]
}

#[test]
fn a_trace_has_what_cachegrind_counts() {
    let folder = Temporary::new();
    let text: String = (0..4000).map(|n| format!("line {} of many\n", n * 7919 % 4000)).collect();
    let contents = text;
    let text = folder.file("text", &contents).display().to_string();
    let other = folder.path().join("other").display().to_string();
    let commands: [&[&str]; 6] = [
        &["true"],
        &["ls", "/usr"],
        &["base64", &text],
        &["cp", &text, &other],
        // By itself it looks at how much memory is free and how many processors there are.
        &["sort", "--buffer-size=1M", "--parallel=1", &text, "-o", &other],
        &["wc", &text],
    ];
    for command in commands {
        // Each of the two runs finds what the other found.
        let prepare = || {
            fs::write(&text, &contents).unwrap();
            let _ = fs::remove_file(&other);
        };
        let both = || {
            prepare();
            let (summary, reader) = recorded(&folder, command, (0, 0));
            prepare();
            let simulated = simulated(&events(&reader, summary.processes[0].id));
            (simulated, counted_by_cachegrind(command))
        };
        // Programs look at the time of files and of the day: two runs may differ by themselves, and
        // would not agree in five numbers by chance.
        let (mut ours, mut theirs) = both();
        for _ in 0..5 {
            if ours == theirs {
                break;
            }
            (ours, theirs) = both();
        }
        assert_eq!(ours, theirs, "{command:?}");
        assert!(ours.iter().all(|count| *count > 500), "{ours:?}");
    }
}
