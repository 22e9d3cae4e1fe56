//! `ropewalk simulate` from the outside: tables, files, and one line for each mistake.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use memory_trace::{Event, Header, Process, Synthetic, Writer};
use serde_json::json;
use testkit::{Browser, Temporary, layout};

/// Runs the command; returns exit status, standard output, standard error.
fn simulate(directory: &Path, arguments: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ropewalk-sim"));
    command.arg("simulate").args(arguments).current_dir(directory).stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn succeeds(directory: &Path, arguments: &[&str]) -> String {
    let (status, stdout, stderr) = simulate(directory, arguments);
    assert_eq!((status, &*stderr), (0, ""), "{stdout}");
    stdout
}

/// A directory that contains a trace of a few processes, and the path of the trace.
fn traced() -> (Temporary, PathBuf) {
    let root = Temporary::new();
    let trace = root.path().join("a.trace");
    let made = Synthetic { processes: 6, events: 20_000, ..Synthetic::default() };
    fs::write(&trace, made.bytes()).unwrap();
    (root, trace)
}

#[test]
fn a_sweep_is_a_table_and_files_and_the_same_on_any_number_of_threads() {
    let (root, _) = traced();
    let sweep = ["a.trace", "--cpus", "1..3", "--protocol", "mesi,pscr", "--cache", "16K/2"];
    let run = |threads: &str, json: &str| {
        let more = ["--seeds", "2", "--threads", threads, "--json", json, "--csv", "a.csv"];
        succeeds(root.path(), &[&sweep[..], &more].concat())
    };
    let table = run("1", "1.json");
    assert_eq!(table, run("3", "3.json"));
    let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
    assert_eq!(read("1.json"), read("3.json"));
    let json: serde_json::Value = serde_json::from_str(&read("1.json")).unwrap();
    let outcomes = json["outcomes"].as_array().unwrap();
    assert_eq!((outcomes.len(), read("a.csv").lines().count()), (12, 13));
    assert_eq!(outcomes[11]["machine"]["cpus"], 3);
    for protocol in ["mesi", "pscr"] {
        let rows = table.lines().filter(|line| line.contains(&format!("random     {protocol}")));
        assert_eq!(rows.count(), 3, "{table}");
        let scales = format!("16K/2, 128 bytes, random, {protocol}: scales");
        assert!(table.contains(&scales), "{table}");
    }
}

/// A form that another program reads stands alone on standard output.
#[test]
fn a_form_on_standard_output_is_the_file() {
    let (root, _) = traced();
    let table = succeeds(root.path(), &["a.trace"]);
    for (option, name) in [("--json", "a.json"), ("--csv", "a.csv"), ("--html", "a.html")] {
        succeeds(root.path(), &["a.trace", option, name]);
        let file = fs::read_to_string(root.path().join(name)).unwrap();
        assert_eq!(simulate(root.path(), &["a.trace", option, "-"]), (0, file, table.clone()));
    }
    assert!(!root.path().join("-").exists());
}

#[test]
fn listed_values_distinguish_machines_everywhere() {
    let (root, _) = traced();
    let sweep = ["a.trace", "--cpus", "1..3", "--cache", "16K/2", "--seeds", "1", "--top", "1"];
    let sets = ["--set", "bus.memory_latency_cycles=20,640", "--set", "cpu.write_buffer=1, 8"];
    let files = ["--json", "a.json", "--csv", "a.csv", "--html", "a.html"];
    let told = succeeds(root.path(), &[&sweep[..], &sets, &files].concat());
    let label =
        |latency, buffer| format!("bus.memory_latency_cycles={latency}, cpu.write_buffer={buffer}");
    let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
    let page = read("a.html");
    assert!(page.contains("12 machines"), "{page}");
    for (latency, buffer) in [(20, 1), (20, 8), (640, 1), (640, 8)] {
        let label = label(latency, buffer);
        let rows = told.lines().filter(|line| line.ends_with(&format!("  {label}")));
        assert_eq!(rows.count(), 3, "{label}: {told}");
        // There is a curve over the listed processors for each combination.
        let curve = format!("16K/2, 128 bytes, random, mesi, {label}: scales");
        assert_eq!(told.matches(&curve).count(), 1, "{curve}: {told}");
        assert!(told.contains(&format!("random, mesi, {label}, seeds 1\n")), "{told}");
        assert!(page.contains(&format!("16K/2, 128 bytes, random, MESI, {label}")), "{label}");
    }
    assert!(told.contains("--set lists bus.memory_latency_cycles, cpu.write_buffer"), "{told}");
    let json: serde_json::Value = serde_json::from_str(&read("a.json")).unwrap();
    assert_eq!(json["varied"], json!(["bus.memory_latency_cycles", "cpu.write_buffer"]));
    let outcomes = json["outcomes"].as_array().unwrap();
    let set = |at: usize| &outcomes[at]["set"];
    assert_eq!(outcomes.len(), 12);
    assert_eq!(*set(0), json!({"bus.memory_latency_cycles": 20, "cpu.write_buffer": 1}));
    assert_eq!(*set(11), json!({"bus.memory_latency_cycles": 640, "cpu.write_buffer": 8}));
    let gsp = |at: usize| outcomes[at]["gsp"].as_f64().unwrap();
    assert!(gsp(2) > gsp(8), "slower memory, less work: {} {}", gsp(2), gsp(8));
    let csv = read("a.csv");
    let (head, rows) = csv.split_once('\n').unwrap();
    assert!(head.ends_with(",bus.memory_latency_cycles,cpu.write_buffer"), "{head}");
    assert_eq!(rows.lines().filter(|row| row.ends_with(",640,1")).count(), 3, "{rows}");
}

#[test]
fn every_machine_that_set_lists_is_printed() {
    let root = Temporary::new();
    let llc = ["llc.cpus_per_group=2", "llc.size_kib=6144", "llc.ways=24", "llc.hit_cycles=9,15"];
    let sets = llc.into_iter().chain(["kernel.enabled=true,false"]).flat_map(|one| ["--set", one]);
    let arguments: Vec<&str> =
        ["--print-machine", "--cpus", "2,4"].into_iter().chain(sets).collect();
    let printed = succeeds(root.path(), &arguments);
    for (text, expected) in
        [("cpus = 4\n", 4), ("hit_cycles = 15\n", 4), ("enabled = false\n", 4), ("[llc]\n", 8)]
    {
        assert_eq!(printed.matches(text).count(), expected, "{text}: {printed}");
    }
}

#[test]
fn one_machine_is_described_in_detail() {
    let (root, _) = traced();
    let file = "cpus = 2\n[cache]\nsize_kib = 16\n[bus]\nclean_supplier = \"memory\"\n";
    fs::write(root.path().join("m.toml"), file).unwrap();
    let told = succeeds(root.path(), &["a.trace", "--machine", "m.toml", "--strict", "--top", "3"]);
    for expected in ["kernel references are drawn", "RB  ", "cold", "code", "data"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert!(told.contains("\n0 transactions found a copy"), "{told}");
    let quiet = ["a.trace", "--machine", "m.toml", "--no-kernel"];
    assert!(succeeds(root.path(), &quiet).contains("user references only"));
}

#[test]
fn groups_and_nodes_are_described_in_detail_and_in_files() {
    let (root, _) = traced();
    let file = "cpus = 4\n[cache]\nsize_kib = 16\n[llc]\ncpus_per_group = 2\nsize_kib = 96\n\
                ways = 24\nhit_cycles = 9\n[numa]\nnodes = 2\nremote_extra_cycles = 30\n";
    fs::write(root.path().join("m.toml"), file).unwrap();
    let sweep = ["a.trace", "--machine", "m.toml", "--seeds", "1", "--json", "a.json"];
    let told = succeeds(root.path(), &[&sweep[..], &["--csv", "a.csv"]].concat());
    for expected in ["96K/24 for each 2 CPUs", "2 memory nodes", "served inside", "another node"] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&read("a.json")).unwrap();
    let counts = &json["outcomes"][0]["counts"];
    let count = |value: &serde_json::Value| value.as_u64().unwrap();
    let served = count(&counts["inside"][0]) + count(&counts["inside"][1]);
    let remote = count(&counts["remote"]);
    assert!(served > 0 && remote > 0, "{counts}");
    let csv = read("a.csv");
    let (head, row) = csv.trim_end().split_once('\n').unwrap();
    let cell = |name| row.split(',').nth(head.split(',').position(|one| one == name).unwrap());
    assert_eq!(cell("served_inside"), Some(&*served.to_string()));
    assert_eq!(cell("remote"), Some(&*remote.to_string()));
}

#[test]
fn a_ranking_is_of_all_seeds() {
    let (root, _) = traced();
    let sweep = ["a.trace", "--cpus", "3", "--cache", "16K/2", "--seeds", "2", "--top", "1"];
    let told = succeeds(root.path(), &[&sweep[..], &["--json", "a.json"]].concat());
    assert!(told.contains("mesi, seeds 1, 2\n"), "{told}");
    let json = fs::read_to_string(root.path().join("a.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for (title, what) in [("code", "functions"), ("data", "data")] {
        let heads = |line: &&str| line.ends_with(&format!("falsely shared  {title}"));
        let mut lines = told.lines().skip_while(|line| !heads(line)).skip(1);
        let row = lines.next().unwrap();
        let (numbers, name) = row.trim().split_at(row.trim().rfind("  ").unwrap());
        let numbers: Vec<u64> =
            numbers.split_whitespace().map(|number| number.parse().unwrap()).collect();
        let mut sums = [0; 4];
        for outcome in json["outcomes"].as_array().unwrap() {
            let ranked = outcome["ranking"][what].as_array().unwrap();
            let same = ranked.iter().find(|one| one["name"] == name.trim()).unwrap();
            let keys = ["misses", "invalidation_misses", "transactions", "false_sharing"];
            for (sum, key) in sums.iter_mut().zip(keys) {
                *sum += same[key].as_u64().unwrap();
            }
        }
        assert_eq!(numbers, sums, "{row}");
    }
}

/// The cells of a CSV file, row by row, by the names of their columns.
fn cells(csv: &str) -> Vec<HashMap<&str, &str>> {
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = lines.next().unwrap();
    lines
        .map(|row| {
            assert_eq!(row.len(), head.len(), "{row:?}");
            let row: HashMap<_, _> = head.iter().copied().zip(row).collect();
            assert_eq!(row.len(), head.len(), "no two columns have one name: {head:?}");
            row
        })
        .collect()
}

#[test]
fn rows_say_what_json_says() {
    let (root, _) = traced();
    let sweep = ["a.trace", "--cpus", "1,3", "--protocol", "mesi,dragon", "--cache", "16K/2"];
    let files = ["--seeds", "2", "--json", "a.json", "--csv", "a.csv"];
    succeeds(root.path(), &[&sweep[..], &files].concat());
    let read = |name: &str| fs::read_to_string(root.path().join(name)).unwrap();
    let (csv, json) = (read("a.csv"), read("a.json"));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let (rows, outcomes) = (cells(&csv), json["outcomes"].as_array().unwrap());
    assert_eq!((rows.len(), outcomes.len()), (8, 8));
    for (row, outcome) in rows.iter().zip(outcomes) {
        let is = |name: &str, value: &serde_json::Value| {
            let cell: f64 = row[name].parse().unwrap();
            let value = value.as_f64().unwrap();
            assert!((cell - value).abs() < 1e-6, "{name}: {cell} is not {value}");
        };
        for name in ["seed", "cycles", "gsp", "bus_utilisation"] {
            is(name, &outcome[name]);
        }
        is("cpus", &outcome["machine"]["cpus"]);
        assert_eq!(outcome["machine"]["protocol"], row["protocol"]);
        for name in ["late", "taken", "remote"] {
            is(name, &outcome["counts"][name]);
        }
        check_classes(row, outcome, &json);
        check_transactions(row, outcome);
    }
    let sum = |name: &str| rows.iter().map(|row| row[name].parse::<f64>().unwrap()).sum::<f64>();
    for name in ["references_kernel", "miss_cold_user", "miss_cold_kernel", "bus_wr", "bus_inv"] {
        assert!(sum(name) > 0.0, "{name}");
    }
}

/// Checks misses and coherence transactions, for each mode and for both.
fn check_classes(row: &HashMap<&str, &str>, outcome: &serde_json::Value, json: &serde_json::Value) {
    let both = |counts: &serde_json::Value| -> u64 {
        counts.as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum()
    };
    let kinds = [("miss", "miss_classes", "misses"), ("coherence", "sharing", "coherence")];
    for (prefix, names, counts) in kinds {
        for (place, name) in json[names].as_array().unwrap().iter().enumerate() {
            let name = format!("{prefix}_{}", name.as_str().unwrap().replace('-', "_"));
            let modes = [0, 1].map(|mode| both(&outcome["counts"][counts][mode][place]));
            let [user, kernel] = modes.map(|count| count.to_string());
            assert_eq!(row[&*format!("{name}_user")], user, "{name}");
            assert_eq!(row[&*format!("{name}_kernel")], kernel, "{name}");
            assert_eq!(row[&*name], (modes[0] + modes[1]).to_string(), "{name}");
        }
    }
    let references = [0, 1].map(|mode| both(&outcome["counts"]["references"][mode]));
    let [user, kernel] = references.map(|count| count.to_string());
    assert_eq!((row["references_user"], row["references_kernel"]), (&*user, &*kernel));
    assert_eq!(row["references"], references.iter().sum::<u64>().to_string());
}

/// Checks that every use of the bus has its column, and that their sum is the total.
fn check_transactions(row: &HashMap<&str, &str>, outcome: &serde_json::Value) {
    let names = HashMap::from([
        (("read-block", false), "bus_rb_memory"),
        (("read-block", true), "bus_rb_cache"),
        (("read-and-invalidate", false), "bus_rib_memory"),
        (("read-and-invalidate", true), "bus_rib_cache"),
        (("invalidate", false), "bus_inv"),
        (("write", false), "bus_wr"),
        (("update-block", false), "bus_ub"),
    ]);
    let cell = |name: &str| row[name].parse::<f64>().unwrap();
    for one in outcome["bus"].as_array().unwrap() {
        let key = (one["transaction"].as_str().unwrap(), one["from_cache"].as_bool().unwrap());
        let utilisation = one["utilisation"].as_f64().unwrap();
        assert!((cell(names[&key]) - utilisation).abs() < 1e-6, "{key:?}");
    }
    let all: f64 = names.values().map(|name| cell(name)).sum();
    assert!((all.min(1.0) - cell("bus_utilisation")).abs() < 1e-5, "{all}");
}

#[test]
fn the_machines_of_papers_are_there_to_be_simulated() {
    let folder = Path::new(crate::REPOSITORY).join("experiments/machines");
    let root = Temporary::new();
    for (name, expected) in [
        ("geneves-2012.toml", "cpus_per_group = 2\n"),
        ("hashemian-2013.toml", "cpus_per_group = 4\n"),
    ] {
        let file = folder.join(name).display().to_string();
        let printed = succeeds(root.path(), &["--print-machine", "--machine", &file]);
        assert!(printed.contains(expected) && printed.contains("cpus = 8\n"), "{printed}");
    }
}

#[test]
fn a_machine_is_printed_as_it_can_be_read() {
    let root = Temporary::new();
    let printed = succeeds(root.path(), &["--print-machine", "--cpus", "5"]);
    fs::write(root.path().join("m.toml"), &printed).unwrap();
    let again = succeeds(root.path(), &["--print-machine", "--machine", "m.toml"]);
    assert_eq!(printed, again);
    assert!(printed.starts_with("cpus = 5\n"), "{printed}");
    let set = ["--print-machine", "--machine", "m.toml", "--set", "kernel.code_skew=2"];
    assert_eq!(succeeds(root.path(), &set), printed.replace("code_skew = 1.0", "code_skew = 2.0"));
}

#[test]
fn the_machine_that_was_calibrated_can_be_read_and_is_not_the_default() {
    let root = Temporary::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../experiments/machines/foglia-2001.toml");
    let calibrated = succeeds(root.path(), &["--print-machine", "--machine", file]);
    assert!(calibrated.contains("blocking = \"never\""), "{calibrated}");
    let (trace_root, _) = traced();
    let told = succeeds(trace_root.path(), &["a.trace", "--machine", file, "--seeds", "1"]);
    for expected in [
        "its parameters are measured: code_pages, code_skew, run_mean, ",
        "; fitted: own_percent, shared_percent; from the paper: code_percent, ",
        "; chosen: private_pages, references_mean; assumed (default): bytes_per_reference, visit_mean, ",
        " system calls traced: ",
        "how many bytes they moved is not in the trace",
    ] {
        assert!(told.contains(expected), "{expected}: {told}");
    }
    assert_ne!(calibrated, succeeds(root.path(), &["--print-machine"]));
}

#[test]
fn mistakes_are_one_line() {
    let (root, _) = traced();
    fs::write(root.path().join("m.toml"), "cups = 4\n").unwrap();
    let numa = "[numa]\nnodes = 2\nremote_extra_cycles = 9\n";
    fs::write(root.path().join("numa.toml"), numa).unwrap();
    let llc = "[cache]\nsize_kib = 128\n\
               [llc]\ncpus_per_group = 2\nsize_kib = 256\nways = 2\nhit_cycles = 9\n";
    fs::write(root.path().join("llc.toml"), llc).unwrap();
    let many = "cpu.write_buffer=1,2,3,4,5,6,7,8";
    let cases: [(&[&str], i32, &str); 14] = [
        (
            &["absent", "--html=-", "--csv=b.csv", "--json=-"],
            2,
            "--json - and --html -: standard output takes one of them: give the other a file",
        ),
        (
            &["a.trace", "--machine", "m.toml"],
            2,
            "m.toml: line 1: unknown key \"cups\" (did you mean \"cpus\"?)",
        ),
        (
            &["a.trace", "--set", "kernel.skw=1"],
            2,
            "--set kernel.skw=1: a machine has no such value",
        ),
        (
            &["a.trace", "--set", "protocol=mesy"],
            2,
            "protocol = \"mesy\": give one of mesi, amsd, pscr, dragon (did you mean \"mesi\"?)",
        ),
        (&["a.trace", "--set", "cpus=4,65"], 2, "--set cpus=65: cpus = 65: give 1 to 64"),
        (&["a.trace", "--set", "cpus=1,2", "--cpus", "4"], 2, "--set cpus: --cpus says it as well"),
        (&["a.trace", "--set", "cpus=1,2", "--set", "cpus=4"], 2, "--set cpus: listed twice"),
        (&["a.trace", "--paper", "--set", many], 2, "--set cpu.write_buffer: with --paper"),
        (&["a.trace", "--set", "cpus=[1,2]"], 2, "--set cpus=[1,2]: invalid type"),
        (
            &[
                "a.trace",
                "--cpus",
                "1..64,1..64",
                "--set",
                many,
                "--set",
                "kernel.code_pages=1,2,3,4,5,\
             6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22",
            ],
            2,
            "the lists make 22528 machines; at most 20000 are run",
        ),
        (&["a.trace", "--cpus", "65"], 2, "cpus = 65: give 1 to 64"),
        (
            &["a.trace", "--protocol", "amsd,mesy"],
            2,
            "--protocol mesy: it must be one of mesi, amsd, pscr, dragon (did you mean \"mesi\"?)",
        ),
        (
            &["a.trace", "--cpus", "1..4", "--machine", "numa.toml"],
            2,
            "numa.nodes = 2: each node has a processor, and there are cpus = 1",
        ),
        (
            &["a.trace", "--cache", "512K", "--machine", "llc.toml"],
            2,
            "llc.size_kib = 256: smaller than each processor's own cache",
        ),
    ];
    for (arguments, expected, message) in cases {
        refused(root.path(), arguments, (expected, message));
    }
}

/// Checks that the arguments are refused in one line.
#[track_caller]
fn refused(directory: &Path, arguments: &[&str], (expected, message): (i32, &str)) {
    let (status, stdout, stderr) = simulate(directory, arguments);
    assert_eq!((status, &*stdout), (expected, ""), "{stderr}");
    assert!(stderr.contains(message), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn files_that_are_no_traces_are_one_line() {
    let (root, trace) = traced();
    fs::write(root.path().join("m.toml"), "cpus = 4\n").unwrap();
    fs::write(root.path().join("foreign"), "not a trace").unwrap();
    let whole = fs::read(&trace).unwrap();
    fs::write(root.path().join("cut"), &whole[..whole.len() / 2]).unwrap();
    let cases: [(&[&str], i32, &str); 7] = [
        (&["absent"], 2, "absent: there is no such file: name a trace of `ropewalk trace`"),
        (
            &["a.trcae"],
            2,
            "a.trcae: there is no such file (did you mean \"a.trace\"?): name a trace",
        ),
        (&["."], 2, ".: is no file: a trace is read at several places at once, so it must be one"),
        (
            &["a.trace", "--machine", "n.toml"],
            2,
            "n.toml: there is no such file (did you mean \"m.t",
        ),
        (&["a.trace", "--paper=no"], 2, "no: there is no such file: name the file of a paper"),
        (&["foreign"], 2, "foreign"),
        (&["cut"], 1, "cut"),
    ];
    for (arguments, expected, message) in cases {
        refused(root.path(), arguments, (expected, message));
    }
}

/// A trace of three tasks, one of which makes most of the references, as in a server with workers
/// and a log.
fn uneven() -> Temporary {
    let root = Temporary::new();
    let path = root.path().join("uneven.trace");
    let mut writer = Writer::create(&path, &Header::default()).unwrap();
    for (id, references) in [(1, 120_000), (2, 60_000), (3, 30_000)] {
        for number in 0..references {
            let address = 0x10_0000 * u64::from(id) + number * 8 % 0x4000;
            writer.event(id, &Event::load(address, 8)).unwrap();
        }
        writer.process(&Process { id, ..Process::default() }).unwrap();
    }
    writer.finish().unwrap();
    root
}

/// The rows of the table: processors, GSP, and how much of the trace was simulated.
fn rows(told: &str) -> Vec<(u32, f64, f64)> {
    let cells = told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows = cells.filter(|cells| cells.get(3) == Some(&"random"));
    let number = |cell: &str| cell.parse::<f64>().unwrap();
    rows.map(|cells| (cells[0].parse().unwrap(), number(cells[5]), number(cells.last().unwrap())))
        .collect()
}

#[test]
fn machines_of_several_sizes_do_the_same_part_of_a_trace() {
    let root = uneven();
    let sweep = ["uneven.trace", "--cpus", "1..4", "--no-kernel", "--seeds", "1", "--set"];
    let slice = "scheduler.slice_references=100";
    let told = succeeds(root.path(), &[&sweep[..], &[slice]].concat());
    let same = rows(&told);
    assert_eq!(same.iter().map(|row| row.0).collect::<Vec<_>>(), [1, 2, 3, 4]);
    for pair in same.windows(2) {
        assert!(pair[1].1 > pair[0].1 - 0.05, "more processors, no less power: {told}");
        assert!((pair[1].2 - pair[0].2).abs() < 5.0, "about the same part: {told}");
    }
    assert!(told.contains("\na run ends when fewer than 3 of the 3 tasks are left\n"), "{told}");
    assert!(told.contains("3 tasks: further processors have nothing to do\n"), "{told}");
    assert!(!told.contains("different parts"), "{told}");
    let own = ["--set", "scheduler.tasks_left=1"];
    let told = succeeds(root.path(), &[&sweep[..], &[slice], &own].concat());
    assert!(told.contains("(1 to 3)\nthe trace has 3 tasks"), "{told}");
    assert!(told.contains("\nthe machines simulated different parts of the trace: "), "{told}");
}

/// A trace of enough processes for the paper's figures and the first of its scalability curves.
fn many() -> (Temporary, PathBuf) {
    let root = Temporary::new();
    let made = Synthetic { processes: 16, events: 3000, ..Synthetic::default() };
    fs::write(root.path().join("many<b>.trace"), made.bytes()).unwrap();
    let page = root.path().join("page.html");
    (root, page)
}

#[test]
fn the_papers_page_says_what_one_seed_and_our_bus_leave_open() {
    let root = Temporary::new();
    let made = Synthetic { processes: 8, events: 1000, ..Synthetic::default() };
    fs::write(root.path().join("a.trace"), made.bytes()).unwrap();
    let page = |seeds: &str| {
        let paper = ["a.trace", "--paper", "--html", "page.html", "--seeds", seeds];
        succeeds(root.path(), &paper);
        fs::read_to_string(root.path().join("page.html")).unwrap()
    };
    let one = page("1");
    let headline = "The paper's 28 findings: none decided, one seed tells nothing of the spread.";
    assert!(one.contains(headline), "{one}");
    assert!(one.contains("): not decided. One seed tells nothing of the spread: "), "{one}");
    assert!(!one.contains("): confirmed.") && !one.contains("): contradicted."), "{one}");
    assert!(one.contains("bus supports transaction splitting; the one that was"), "{one}");
    let two = page("2");
    assert!(two.contains("): confirmed.") && !two.contains("ne seed tells nothing"), "{two}");
}

#[test]
fn pages_in_a_browser() {
    let (root, page) = many();
    let told = succeeds(
        root.path(),
        &["many<b>.trace", "--paper", "--seeds", "1", "--html", "page.html", "--csv", "a.csv"],
    );
    let machines = fs::read_to_string(root.path().join("a.csv")).unwrap().lines().count() - 1;
    assert!(told.contains("2M/2, 128 bytes, affinity, pscr: scales"), "{told}");
    let Some(mut browser) = Browser::start() else { return };
    layout::check_page(&mut browser, &page);
    assert_eq!(browser.evaluate("document.querySelectorAll('figure').length"), json!(15));
    let canvases = browser.evaluate("document.querySelectorAll('.live .u-wrap canvas').length");
    assert_eq!(canvases, json!(11));
    for number in 1..=11 {
        let figure = format!("!!document.querySelector('#figure-{number} .drawn path')");
        assert_eq!(browser.evaluate(&figure), json!(true), "{number}");
    }
    assert_eq!(browser.requests(), [format!("file://{}", page.display())]);
    let rows = |table: &str| format!("document.querySelectorAll('{table} tbody tr').length");
    assert_eq!(browser.evaluate(&rows("#table-5")), json!(5));
    assert_eq!(browser.evaluate(&rows("#machines")), json!(machines));
    // Each finding has one of the verdicts, and texts from outside are escaped.
    let said = "document.querySelectorAll('.words:not(.folded) li').length";
    let said = browser.evaluate(said);
    assert_eq!(said, json!(28));
    assert_eq!(browser.evaluate("document.querySelectorAll('main b').length"), json!(0));
    points_at_a_part(&mut browser);
    let sweep = ["many<b>.trace", "--cpus", "1,2,4", "--protocol", "mesi,pscr", "--seeds", "2"];
    succeeds(root.path(), &[&sweep[..], &["--html", "sweep.html"]].concat());
    layout::check_page(&mut browser, &root.path().join("sweep.html"));
    let canvases = browser.evaluate("document.querySelectorAll('.live .u-wrap canvas').length");
    assert_eq!(canvases, json!(2));
}

/// Checks that pointing at a part of a column shows its name.
fn points_at_a_part(browser: &mut Browser) {
    let part = "(() => {
        const part = document.querySelector('#figure-4 .cell rect');
        part.scrollIntoView({ block: 'center' });
        const box = part.getBoundingClientRect();
        return [box.left + box.width / 2, box.top + box.height / 2];
    })()";
    browser.point_at(part, false);
    let told = browser.evaluate("document.querySelector('#figure-4 .pointed').innerText");
    assert!(told.as_str().unwrap().contains("transactions for 100 references"), "{told}");
}

#[test]
fn any_sweep_has_a_page() {
    let (root, _) = traced();
    let sweep = ["a.trace", "--cpus", "1,2,4", "--protocol", "mesi,pscr", "--html", "page.html"];
    succeeds(root.path(), &sweep);
    let page = fs::read_to_string(root.path().join("page.html")).unwrap();
    for expected in [
        "<h1>Simulations of a.trace</h1>",
        "<h2>Verdict</h2>\n<p><strong>2M/2, 128 bytes, random, MESI</strong>: GSP ",
        "<dt>Highest GSP</dt>",
        "<summary><h2>How it was simulated</h2> <span class=\"count\">",
        "id=\"gsp\"",
        "id=\"bus\"",
        "drawn, not traced",
        "Its parameters are assumed",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    assert!(!page.contains("What the paper found"));
}

#[test]
fn the_papers_machines_need_several_tasks_and_no_lists() {
    let root = Temporary::new();
    let made = Synthetic { processes: 3, events: 100, ..Synthetic::default() };
    fs::write(root.path().join("few.trace"), made.bytes()).unwrap();
    let (status, _, error) = simulate(root.path(), &["few.trace", "--paper"]);
    assert_eq!((status, error.lines().count()), (2, 1), "{error}");
    assert!(error.contains("few.trace: the trace has 3 tasks"), "{error}");
    let (status, _, error) = simulate(root.path(), &["few.trace", "--paper", "--cpus", "4"]);
    assert_eq!(status, 2);
    assert!(error.contains("cannot be used with"), "{error}");
}

/// A paper of two machines, with a figure and a finding.
const TWO_SIZES: &str = "title = \"Two sizes\"\n\
    about = [\"Nobody wrote it.\"]\n\
    stated = [{ place = \"page 1\", machine = \"two\", what = \"gsp\", value = 1.5 }]\n\
    [machines]\n\
    one = { cpus = 1, cache = \"64K/1\" }\n\
    two = { base = \"one\", cpus = 2 }\n\
    [chains.up]\n\
    base = \"one\"\n\
    along = { cpus = [1, 2] }\n\
    labels = [\"small caches\"]\n\
    [[figures]]\n\
    id = \"power\"\n\
    title = \"Figure 1: power\"\n\
    about = \"Of two machines.\"\n\
    chain = \"up\"\n\
    of = \"gsp\"\n\
    x = \"processors\"\n\
    y = \"GSP\"\n\
    [[findings]]\n\
    claim = \"Two do more than one\"\n\
    place = \"page 2\"\n\
    confirmed_if = [\"gsp(two) > gsp(one)\"]\n\
    told = \"GSP {gsp(one)} and {gsp(two)}\"\n";

/// The opposite of what the run shows is contradicted, and with one seed nothing is decided.
#[test]
fn the_page_of_a_paper_has_groups_by_verdict() {
    let root = Temporary::new();
    let made = Synthetic { processes: 3, events: 1000, ..Synthetic::default() };
    fs::write(root.path().join("a.trace"), made.bytes()).unwrap();
    let opposite = TWO_SIZES.replace("gsp(two) > gsp(one)", "gsp(one) > gsp(two)");
    fs::write(root.path().join("less.toml"), opposite).unwrap();
    for (seeds, headline, head, verdict) in [
        (
            "3",
            "0 confirmed here, 1 contradicted, 0 not decided.",
            "contradicted here",
            "contradicted. GSP ",
        ),
        ("1", "none decided, one seed", "not decided here", "not decided. One seed tells nothing "),
    ] {
        let paper = ["a.trace", "--paper=less.toml", "--html", "less.html", "--seeds", seeds];
        succeeds(root.path(), &paper);
        let page = fs::read_to_string(root.path().join("less.html")).unwrap();
        for expected in [
            format!("<p>The paper's 1 finding: {headline}"),
            format!("<h2>What the paper found: {head}</h2>"),
            format!("<strong>Two do more than one</strong> (page 2): {verdict}"),
        ] {
            assert!(page.contains(&expected), "{expected}: {page}");
        }
    }
}

#[test]
fn another_paper_has_a_page_of_its_own() {
    let root = Temporary::new();
    let made = Synthetic { processes: 3, events: 1000, ..Synthetic::default() };
    fs::write(root.path().join("a.trace"), made.bytes()).unwrap();
    fs::write(root.path().join("two.toml"), TWO_SIZES).unwrap();
    let paper = ["a.trace", "--paper=two.toml", "--html", "page.html", "--csv", "a.csv"];
    succeeds(root.path(), &paper);
    let page = fs::read_to_string(root.path().join("page.html")).unwrap();
    for expected in [
        "<h1>Two sizes from a.trace</h1>",
        "Nobody wrote it.",
        "Figure 1: power",
        "small caches",
        "<p>The paper's 1 finding: 1 confirmed here, 0 contradicted, 0 not decided.</p>",
        "<h2>What the paper found: confirmed</h2>",
        "<strong>Two do more than one</strong> (page 2): confirmed. GSP ",
        "page 1",
    ] {
        assert!(page.contains(expected), "{expected}: {page}");
    }
    assert!(!page.contains("Table 5") && !page.contains("Foglia"), "{page}");
    let machines = fs::read_to_string(root.path().join("a.csv")).unwrap();
    assert_eq!(machines.lines().count(), 1 + 2 * 3, "two machines with three seeds: {machines}");
    fs::write(root.path().join("wrong.toml"), TWO_SIZES.replace("gsp(two) >", "gsp(three) >"))
        .unwrap();
    let (status, _, error) = simulate(root.path(), &["a.trace", "--paper=wrong.toml"]);
    assert_eq!((status, error.lines().count()), (2, 1), "{error}");
    let expected = "wrong.toml: finding \"Two do more than one\": no machine \"three\"";
    assert!(error.contains(expected), "{error}");
}
