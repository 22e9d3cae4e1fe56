//! `ropewalk trace`: foreign traces are imported and described; mistakes are reported in one line.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use memory_trace::{Event, Header, Writer};
use serde_json::Value;
use testkit::{ENDINGS, Temporary, heeded};

use crate::{ropewalk_sim, run};

const LACKEY: &str = "\
==77== Command: /bin/ls /
I  04016b80,3
 S 1ffeffe7e8,8
I  04016b83,5
 M 0042c008,4
something else
";

/// Imports the text above; returns the path of the trace.
fn imported(directory: &Temporary) -> String {
    let path = |name| directory.path().join(name).to_str().unwrap().to_owned();
    fs::write(path("ls.lackey"), LACKEY).unwrap();
    let trace = path("ls.trace");
    let (status, out, error) = run(&["trace", "import", &path("ls.lackey"), "--output", &trace]);
    assert_eq!((status, out.as_str()), (0, ""), "{error}");
    assert!(error.contains("5 references, ") && error.contains("; 1 lines left out"), "{error}");
    assert!(error.contains("the first at line 6"), "{error}");
    trace
}

#[test]
fn a_trace_is_imported_and_described() {
    let directory = Temporary::new();
    let trace = imported(&directory);
    let (status, out, error) = run(&["trace", "info", &trace]);
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(out.contains("recorder    import lackey\n"), "{out}");
    assert!(out.contains("references  5: 2 fetches, 1 loads, 2 stores\n"), "{out}");
    let expected = "        1          3   40.00   60.00   40.00         0     0.00     0.00  ls\n";
    assert!(out.contains(expected), "{out}");
    let (status, out, _) = run(&["trace", "info", "--json", "--block", "4", &trace]);
    assert_eq!(status, 0);
    let value: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(value["processes"][0]["command"], "/bin/ls /");
    // The second instruction begins in the block of the first, and the store covers two blocks.
    assert_eq!(value["all"]["counts"]["blocks"], 5);
    assert_eq!(value["whole"], true);
    assert_eq!(value["system_calls"], serde_json::json!([]));
}

#[test]
fn an_import_that_is_ended_by_a_signal_leaves_nothing() {
    for signal in heeded(&ENDINGS) {
        let directory = Temporary::new();
        let trace = directory.path().join("half.trace");
        let mut command = ropewalk_sim(&["trace", "import", "-", "--format", "din", "--output"]);
        command.arg(&trace).stdin(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // More than a pipe and the buffer behind it hold: once it is written, the import has begun.
        let lines = "0 1000\n".repeat(1 << 18);
        let mut into = child.stdin.take().unwrap();
        into.write_all(lines.as_bytes()).unwrap();
        os::signals::send(signal, &[child.id()]);
        child.wait().unwrap();
        let left: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
        assert!(left.is_empty(), "{signal}: {left:?}");
    }
}

#[test]
fn the_mix_of_system_calls_is_shown_by_name() {
    let directory = Temporary::new();
    let trace = directory.path().join("calls.trace").display().to_string();
    let mut writer = Writer::create(trace.as_ref(), &Header::default()).unwrap();
    let call = |number| Event::SystemCall { number };
    let moved = |number, bytes| Event::Moved { number, bytes };
    writer.event(1, &Event::fetch(0x1000, 4)).unwrap();
    for event in [call(39), call(0), moved(0, 5000), call(0), moved(0, 0), call(9999)] {
        writer.event(1, &event).unwrap();
    }
    writer.event(2, &call(0)).unwrap();
    writer.finish().unwrap();
    let (status, out, error) = run(&["trace", "info", &trace]);
    assert_eq!((status, error.as_str()), (0, ""));
    for expected in [
        "    calls       %   bytes moved  per call  call\n",
        "        3   60.00          5000    2500.0  read\n",
        "        1   20.00             -         -  getpid\n",
        "        1   20.00             -         -  call 9999\n",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let (_, out, _) = run(&["trace", "info", "--json", &trace]);
    let value: Value = serde_json::from_str(&out).unwrap();
    let read = &value["system_calls"][0];
    assert_eq!((&read["name"], &read["calls"]), (&"read".into(), &3.into()));
    assert_eq!((&read["bytes"], &read["calls_with_bytes"]), (&5000.into(), &2.into()));
    let (status, out, _) = run(&["simulate", &trace, "--cpus", "1", "--seeds", "1"]);
    assert_eq!(status, 0);
    let traced = "5 system calls traced: read 60.0 %, getpid 20.0 %, call 9999 20.0 %; 5000 bytes \
                  moved by 2 of them, 2500 each; each makes as much of the kernel be drawn";
    assert!(out.contains(traced), "{out}");
    assert!(out.contains("its parameters are assumed (default): bytes_per_reference, "), "{out}");
    let long = ["--cpus", "1", "--seeds", "1", "--set", "kernel.bytes_per_reference=1"];
    let (_, longer, _) = run(&[&["simulate", &trace][..], &long].concat());
    assert!(longer.contains("one reference more is drawn for 1 bytes"), "{longer}");
}

#[test]
fn standard_input_is_imported_too() {
    let directory = Temporary::new();
    let trace = directory.path().join("din.trace");
    let trace = trace.to_str().unwrap();
    let mut command = ropewalk_sim(&["trace", "import", "-", "-o", trace, "--command", "x y"]);
    let mut child = command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"2 1000\n0 2000\n1 2004\n").unwrap();
    assert!(child.wait_with_output().unwrap().status.success());
    let (status, out, _) = run(&["trace", "info", trace]);
    assert_eq!(status, 0);
    assert!(out.contains("command     x y\n"), "{out}");
}

#[test]
fn an_incomplete_trace_is_described_as_far_as_it_goes() {
    let directory = Temporary::new();
    let trace = imported(&directory);
    let bytes = fs::read(&trace).unwrap();
    fs::write(&trace, &bytes[..bytes.len() - 1]).unwrap();
    let (status, out, error) = run(&["trace", "info", &trace]);
    assert_eq!(status, 1);
    assert!(out.contains("references  5:"), "{out}");
    assert!(error.contains("ls.trace: byte ") && error.contains("end mark"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn mistakes_are_reported_in_one_line() {
    let directory = Temporary::new();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    let says = |arguments: &[&str], expected: &str, code: i32| {
        let (status, _, error) = run(arguments);
        assert_eq!((status, error.lines().count()), (code, 1), "{error}");
        assert!(error.contains(expected), "{error}");
    };
    let (text, output) = (path("text"), path("out"));
    fs::write(&text, "hello\n").unwrap();
    says(&["trace", "info", &text], "byte 0: not a trace of ropewalk", 2);
    says(&["trace", "info", &text, "--block", "33"], "--block 33: must be a power of two", 2);
    says(&["trace", "info", &text, "--block", "x"], "--block x: write a whole number", 2);
    let of = ["trace", "import", &text, "--output", &output];
    let range = "--din-bytes 65536: write a whole number from 0 to 65535";
    says(&[&of[..], &["--din-bytes", "65536"]].concat(), range, 2);
    let seeds = "--seeds 0: write a whole number from 1 to 4294967295";
    says(&["simulate", &text, "--seeds", "0"], seeds, 2);
    says(&["simulate", &text, "--block", "1,x"], "--block x: write a whole number", 2);
    says(&["trace", "info", &path("none")], "none: there is no such file: name a trace", 2);
    let absent = ["trace", "import", &path("tex"), "--output", &output];
    says(&absent, "text\"?): name the trace of another program", 2);
    says(&["trace", "import", &text, "--output", &output], "name it with --format", 2);
    let named = ["trace", "import", &text, "--output", &output, "--format"];
    says(&[&named[..], &["lackey"]].concat(), "no reference in it: is it lackey?", 1);
    says(
        &[&named[..], &["pin"]].concat(),
        "--format pin: it must be one of lackey, din, drmemtrace, auto (did you mean \"din\"?)",
        2,
    );
    fs::write(&text, b"\x1f\x8b\x08").unwrap();
    says(&["trace", "import", &text, "--output", &output], "compressed: zcat ", 2);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "nothing is left behind");
}
