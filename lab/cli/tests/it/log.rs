//! `ropewalk log`: logs are generated, described, written whole; mistakes are reported in one line.

use std::fs;
use std::io::Write;
use std::process::Stdio;

use testkit::Temporary;

use crate::{ropewalk, run};

/// Runs `log generate` and returns the log; it goes to standard output.
fn generated(arguments: &[&str]) -> String {
    let arguments = [&["log", "generate", "--output", "-"], arguments].concat();
    let (status, out, error) = run(&arguments);
    assert_eq!((status, error.as_str()), (0, ""), "{arguments:?}");
    out
}

fn requests(log: &str) -> Vec<&str> {
    log.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()).collect()
}

#[test]
fn a_log_is_generated_and_described() {
    let directory = Temporary::new();
    let path = directory.path().join("sessions.log");
    let name = path.to_str().unwrap();
    let (status, out, error) =
        run(&["log", "generate", "--preset", "brecht", "--sessions", "2000", "--output", name]);
    assert_eq!((status, error.as_str()), (0, ""));
    assert!(out.starts_with(&format!("{name}: ropewalk log generate --directories 680 ")), "{out}");
    let log = fs::read_to_string(&path).unwrap();
    let head: Vec<&str> = log.lines().map_while(|line| line.strip_prefix("# ")).collect();
    assert!(head[0].ends_with(" --sessions 2000 --seed 1"), "{head:?}");
    assert_eq!(head[1], "model: mean session length 7.30, mean pause between pages 0.000 s");

    // The description of the file agrees with its head.
    let (status, described, error) = run(&["log", "describe", name]);
    assert_eq!((status, error.as_str()), (0, ""));
    let [description @ .., mix] = &head[2..] else { panic!("{head:?}") };
    assert_eq!(described.lines().collect::<Vec<_>>(), description);
    assert!(mix.starts_with(r#"mix {"directories":680,"#), "{mix}");
    assert!(described.contains("against SPECweb99's mix over 680 directories"), "{described}");
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn describe_has_json_and_reads_standard_input() {
    let log = generated(&["--directories", "30", "--requests", "5000", "--lengths", "spec99"]);
    let mut command = ropewalk(&["log", "describe", "-", "--json"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(log.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap().stdout;
    let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(value["requests"], 5000);
    assert_eq!(value["fit"]["directories"], 30);
    assert_eq!(value["working_set"].as_array().unwrap().len(), 4);
    assert!(value["fit"]["classes"]["p_value"].as_f64().unwrap() > 0.001);
}

#[test]
fn the_seed_decides() {
    let log = |seed: &str| generated(&["--sessions", "50", "--seed", seed]);
    assert_eq!(log("3"), log("3"));
    assert_ne!(requests(&log("3")), requests(&log("4")));
}

#[test]
fn the_head_of_a_log_makes_it_again() {
    let log = generated(&["--preset", "surge", "--deck", "--alpha", "0.8", "--sessions", "40"]);
    let head = log.lines().next().unwrap().strip_prefix("# ropewalk log generate ").unwrap();
    let words: Vec<&str> = head.split(' ').collect();
    assert_eq!(generated(&words), log);
}

#[test]
fn options_override_the_preset() {
    let log = generated(&[
        "--preset",
        "radhakrishnan",
        "--single",
        "51200",
        "--lengths",
        "4",
        "--pages",
        "constant:1",
        "--active-think",
        "0.5",
        "--think",
        "2",
        "--sessions",
        "2",
        "--prefix",
        "/files/",
    ]);
    let pages = ["/files/size51200 think=0.5", "/files/size51200 think=2"];
    let last = ["/files/size51200 think=0.5", "/files/size51200 think=0"];
    assert_eq!(requests(&log), [pages, last, pages, last].concat());
}

#[test]
fn priming_asks_for_every_file() {
    let (status, log, _) = run(&["log", "prime", "--directories", "2", "--output", "-"]);
    assert_eq!((status, requests(&log).len()), (0, 72));
    let (status, log, _) = run(&["log", "prime", "--single", "1024", "-o", "-"]);
    assert_eq!((status, requests(&log)), (0, vec!["/size1024 think=0"]));
}

#[test]
fn the_distribution_to_compare_with_can_be_given() {
    let directory = Temporary::new();
    let log = generated(&["--directories", "30", "--requests", "20000"]);
    let bare: String = requests(&log).join("\n\n");
    let path = directory.file("bare.log", bare);
    let name = path.to_str().unwrap();
    let p = |arguments: &[&str]| {
        let (status, out, _) = run(&[&["log", "describe", name, "--json"], arguments].concat());
        assert_eq!(status, 0);
        let value: serde_json::Value = serde_json::from_str(&out).unwrap();
        value["fit"]["per_directory"]["p_value"].as_f64().unwrap()
    };
    assert!(p(&[]) > 0.001, "guessed from the names");
    assert!(p(&["--alpha", "0.9"]) < 0.001);
    assert!(p(&["--directories", "40"]) < 0.001);
}

/// The mix is a line of the head; in heads of earlier versions it is in the command only.
#[test]
fn the_distribution_to_compare_with_is_in_the_head() {
    let log = generated(&["--directories", "30", "--alpha", "0.5", "--requests", "20000"]);
    let with = |line: &dyn Fn(&str) -> String| {
        let mut command = ropewalk(&["log", "describe", "-", "--json"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let text: String = log.lines().map(|one| line(one) + "\n").collect();
        child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let out = child.wait_with_output().unwrap().stdout;
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        value["fit"]["per_directory"]["p_value"].as_f64().unwrap()
    };
    assert!(with(&str::to_owned) > 0.001);
    assert!(with(&|line| line.replace("# ropewalk log generate", "# made by")) > 0.001);
    assert!(with(&|line| line.replace("# mix ", "# ")) > 0.001);
    let none = |line: &str| line.replace("\"directories\":30", "\"directories\":0");
    assert!(with(&none) < 0.001, "a mix that cannot be is guessed");
}

#[test]
fn a_log_that_cannot_be_written_leaves_what_was_there() {
    let directory = Temporary::new();
    let path = directory.path().join("absent/sessions.log");
    let name = path.to_str().unwrap();
    let arguments = ["log", "generate", "--sessions", "1", "-o", name];
    let (status, out, error) = run(&arguments);
    assert_eq!((status, out.as_str()), (1, ""));
    assert!(error.starts_with(&format!("ropewalk: cannot write {name}: ")), "{error}");
    assert_eq!(error.lines().count(), 1);

    let path = directory.file("sessions.log", "old");
    fs::create_dir(directory.path().join("link")).unwrap();
    let link = directory.path().join("link/to.log");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let arguments = ["log", "generate", "--sessions", "1", "--output", link.to_str().unwrap()];
    assert_eq!(run(&arguments).0, 0);
    assert!(link.is_symlink(), "links are followed, not replaced");
    assert!(fs::read_to_string(path).unwrap().starts_with("# ropewalk log generate "));
    assert_eq!(run(&["log", "prime", "--single", "1", "--output", "/dev/null"]).0, 0);
}

const ACCESS_LOG: &str = r#"
::1 - - [10/Oct/2000:13:55:36 +0000] "GET /a HTTP/1.1" 200 2326 "-" "Browser"
::2 - - [10/Oct/2000:13:55:37 +0000] "GET /b HTTP/1.1" 200 10 "-" "Browser"
::1 - - [10/Oct/2000:13:55:40 +0000] "GET /c HTTP/1.1" 404 30 "-" "Browser"
::1 - - [10/Oct/2000:13:55:41 +0000] "POST /c HTTP/1.1" 200 30 "-" "Browser"
no line of a log
::1 - - [10/Oct/2000:15:55:41 +0000] "GET /d HTTP/1.1" 200 30 "-" "Browser"
"#;

#[test]
fn an_access_log_becomes_sessions() {
    let directory = Temporary::new();
    let path = directory.file("access.log", ACCESS_LOG);
    let name = path.to_str().unwrap();
    let output = directory.path().join("users.log");
    let users = output.to_str().unwrap();
    let (status, out, error) = run(&["log", "import", name, "--output", users]);
    assert_eq!((status, error.as_str()), (0, ""));
    for line in [
        "6 lines, combined",
        "4 requests of 2 clients",
        "1 POST left out: only GET and HEAD are replayed",
        "3 sessions, 4 requests",
    ] {
        assert!(out.lines().any(|found| found == line), "{line} in\n{out}");
    }
    assert!(out.contains("1 lines not read, the first is line 6: "), "{out}");
    let log = fs::read_to_string(&output).unwrap();
    assert_eq!(requests(&log), ["/a think=4", "/c think=0", "/b think=0", "/d think=0"]);

    let (_, described, _) = run(&["log", "describe", users]);
    assert!(out.ends_with(&described), "{described}");
    let import = |option: &[&str]| {
        let (status, log, _) = run(&[&["log", "import", name, "--output", "-"], option].concat());
        assert_eq!(status, 0);
        requests(&log).join(" ")
    };
    let together = import(&["--session-gap", "3h", "--think-max", "10s", "--format", "combined"]);
    assert_eq!(together, "/a think=4 /c think=10 /d think=0 /b think=0");
    assert_eq!(import(&["--good-only"]), "/a think=0 /b think=0 /d think=0");
}

#[test]
fn mistakes_are_one_line_and_status_2() {
    let check = |arguments: &[&str], expected: &str| {
        let arguments = [&["log"], arguments].concat();
        let (status, out, error) = run(&arguments);
        assert_eq!((status, out.as_str()), (2, ""), "{arguments:?}");
        assert_eq!(error.lines().count(), 1, "{error}");
        assert!(error.starts_with(&format!("ropewalk: {expected}")), "{error}");
    };
    let generate = |flag, value, expected: &str| {
        check(&["generate", "--output", "/no/such", flag, value], expected);
    };
    generate("--preset", "geneve", "--preset geneve: it must be one of ");
    generate("--directories", "0", "--directories 0: write a whole number from 1 to 100000");
    generate("--alpha", "21", "--alpha 21: write a number from 0 to 20");
    generate("--classes", "1,2,3", "--classes 1,2,3: write the weights of the four classes");
    generate("--lengths", "brecht", "--lengths \"brecht\": unknown lengths: surge-6, brecht-15,");
    generate("--think", "pareto:1", "--think \"pareto:1\": write pareto:LOW,ALPHA");
    generate("--pages", "many", "--pages \"many\": unknown distribution: constant:VALUE");
    generate("--prefix", "a b", "--prefix \"a b\": write a path that begins with a slash");
    generate("--sessions", "0", "--sessions 0: write a whole number from 1 to 4294967295");
    generate("--within", "2", "--within 2: write a number from 0.001 to 1");
    generate("--seed", "x", "--seed x: write a whole number from 0");
    generate("--single", "50KB", "--single 50KB: write a whole number from 0");
    check(
        &["generate", "--output", "-", "--preset", "spec99", "--active-think", "1"],
        "--active-think: it precedes embedded objects, and there are none: add --pages",
    );
    let access = Temporary::new();
    let (empty, access) = (access.file("empty.log", "x\n"), access.file("access.log", ACCESS_LOG));
    let import = |path: &std::path::Path, flag, value, expected: &str| {
        check(&["import", path.to_str().unwrap(), "--output", "-", flag, value], expected);
    };
    let there = ": it must be one of auto, common, combined, json";
    import(&access, "--format", "apache", &format!("--format apache{there}"));
    let near = " (did you mean \"combined\"?)";
    import(&access, "--format", "combine", &format!("--format combine{there}{near}"));
    import(
        &access,
        "--format",
        "json",
        &format!("--format json: {} is combined", access.display()),
    );
    import(&access, "--session-gap", "soon", "--session-gap soon: ");
    let nothing = format!("{}: nothing to replay: no line of 1 is one", empty.display());
    import(&empty, "--format", "auto", &nothing);
    check(&["describe", "/no/such"], "/no/such: there is no such file: name a log");
    let directory = Temporary::new();
    let packed = directory.file("access.log.1.gz", b"\x1f\x8b\x08\x00");
    let name = packed.display();
    let piped = "| ropewalk log import - --output users.log";
    let unpack = format!("{name}: compressed: unpack it on the way: zcat {name} {piped}");
    import(&packed, "--format", "auto", &unpack);
    let mut command = ropewalk(&["log", "import", "-", "-o", "-"]);
    let read = command.stdin(fs::File::open(&packed).unwrap()).output().unwrap();
    let expected =
        format!("ropewalk: standard input: compressed: unpack it on the way: zcat FILE {piped}\n");
    assert_eq!(String::from_utf8(read.stderr).unwrap(), expected);
    let path = directory.file("bad.log", "/a think=1\n/b think=soon\n");
    let name = path.to_str().unwrap();
    check(&["describe", name], &format!("{name}: line 2, column "));
}

#[test]
fn help_has_examples() {
    for command in ["generate", "prime", "describe", "import"] {
        let (status, out, error) = run(&["log", command, "--help"]);
        assert_eq!((status, error.as_str()), (0, ""));
        assert!(out.contains(&format!("Examples:\n  ropewalk log {command} ")), "{out}");
        assert!(out.lines().all(|line| line.chars().count() <= 100), "{out}");
    }
    let (_, out, _) = run(&["log", "generate", "--help"]);
    for preset in workload::model::MODEL_PRESETS {
        assert!(out.contains(&format!("\n  {}\n      {}\n", preset.name, preset.about)), "{out}");
    }
}
