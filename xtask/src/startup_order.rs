//! `cargo xtask startup-order`: finds the functions that a server runs when it starts and serves,
//! for the linker to place side by side.
//!
//! The kernel maps code in pieces of 64 KiB. A program whose lab and simulator lie between the
//! functions of its server has three times as much code resident. Callgrind records which functions
//! ran; the linker script in server/cli is written here.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use testkit::tools::VALGRIND;

use crate::tools;

const HELP: &str = "\
cargo xtask startup-order

Builds the release program, watches it start and serve under Callgrind (half a minute), and
writes server/cli/startup.ld. Worth it when much has changed in what a server runs.
";

const SCRIPT: &str = "server/cli/startup.ld";

/// How long the server runs; it is then asked to stop.
const WATCH_S: &str = "20";

/// The requests to it: the common answers, and the common refusals.
const REQUESTS: &[&str] = &[
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "HEAD / HTTP/1.1\r\nHost: h\r\n\r\n",
    "GET /style.css HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip, br\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nRange: bytes=0-9\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nIf-None-Match: *\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: h\r\nIf-Modified-Since: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n",
    "GET /nothing HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 0\r\n\r\n",
    "GET / HTTP/1.0\r\n\r\n",
    "GET /%00 HTTP/1.1\r\nHost: h\r\n\r\n",
];

/// Records a server and writes the script.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    if !arguments.is_empty() {
        print!("{HELP}");
        return if arguments == ["--help"] { Ok(()) } else { Err("no arguments".to_owned()) };
    }
    if !VALGRIND.is_there() {
        return Err(VALGRIND.is_missing());
    }
    let built = tools::command("cargo build --release --package ropewalk").status();
    if !built.is_ok_and(|status| status.success()) {
        return Err("the program does not build".to_owned());
    }
    let patterns = patterns(&watched()?);
    if patterns.is_empty() {
        return Err("Callgrind names no function of ours: was the program stripped?".to_owned());
    }
    let path = tools::workspace_root().join(SCRIPT);
    fs::write(&path, script(&patterns)).map_err(|why| format!("{SCRIPT}: {why}"))?;
    println!("{SCRIPT}: {} functions", patterns.len());
    Ok(())
}

/// Callgrind's record of a server that started, answered, and stopped.
fn watched() -> Result<String, String> {
    let record = std::env::temp_dir().join(format!("ropewalk-callgrind-{}", std::process::id()));
    let found = lab::Surroundings::find(false).target_dir;
    let binary = found.ok_or("cargo's target directory is not known")?.join("release/ropewalk");
    let mut server = Command::new("timeout")
        .args(["--signal=TERM", WATCH_S, "valgrind", "--tool=callgrind", "--demangle=no"])
        .arg(format!("--callgrind-out-file={}", record.display()))
        .arg(binary)
        .args(["serve", "examples/site", "--listen", "127.0.0.1:0"])
        .current_dir(tools::workspace_root())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|why| format!("timeout: {why}"))?;
    let asked = send_requests(&mut server);
    let ended = server.wait().map_err(|why| format!("valgrind: {why}"));
    let text = fs::read_to_string(&record).map_err(|why| format!("{}: {why}", record.display()));
    let _ = fs::remove_file(&record);
    asked.and(ended).and(text)
}

/// Sends every request as soon as the server prints its address, and reads its output to the end.
fn send_requests(server: &mut Child) -> Result<(), String> {
    let errors = server.stderr.take().expect("it was piped");
    let mut lines = BufReader::new(errors).lines().map_while(Result::ok);
    let address = lines.by_ref().find_map(|line| Some(address(&line)?.to_owned()));
    let asked = match address {
        Some(address) => REQUESTS.iter().try_for_each(|request| {
            exchange(&address, request).map_err(|why| format!("{request:?}: {why}"))
        }),
        None => Err("the server did not start".to_owned()),
    };
    lines.for_each(drop);
    asked
}

/// The address in the line with which the server announces that it serves.
fn address(line: &str) -> Option<&str> {
    let (_, rest) = line.strip_prefix("ropewalk: serving ")?.split_once("http://")?;
    rest.split([' ', '/']).next()
}

fn exchange(address: &str, request: &str) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(request.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}

/// A glob for each function of the program in a record of Callgrind, sorted.
fn patterns(record: &str) -> BTreeSet<String> {
    let (mut objects, mut functions) = (HashMap::new(), HashMap::new());
    let (mut in_program, mut patterns) = (false, BTreeSet::new());
    for line in record.lines() {
        let Some((key, value)) = line.split_once("=(") else { continue };
        let names = match key {
            "ob" | "cob" => &mut objects,
            "fn" | "cfn" => &mut functions,
            _ => continue,
        };
        let Some((number, name)) = value.split_once(')') else { continue };
        if let Some(name) = name.strip_prefix(' ') {
            names.insert(number, name);
        }
        let name = names.get(number).copied().unwrap_or_default();
        match key {
            "ob" => in_program = name.ends_with("/ropewalk"),
            "fn" if in_program && name.starts_with('_') => {
                patterns.insert(pattern(name));
            }
            _ => {}
        }
    }
    patterns
}

/// A mangled name without the parts that change from build to build: hashes, numbers that LLVM
/// appends, and Callgrind's number for recursive calls.
fn pattern(name: &str) -> String {
    let name = name.split('\'').next().unwrap_or_default();
    let name = without_numbers(name);
    let mut pattern = String::new();
    let mut rest = name;
    while let Some(at) = rest.find("Cs") {
        let (before, hash) = rest.split_at(at + 2);
        let end = hash.find('_').filter(|&end| is_hash(&hash[..end]));
        pattern.push_str(before);
        rest = end.map_or(hash, |end| {
            pattern.push('*');
            &hash[end..]
        });
    }
    pattern.push_str(rest);
    match pattern.rfind("17h").filter(|&at| name.starts_with("_ZN") && pattern.len() == at + 20) {
        Some(at) => format!("{}17h*E*", &pattern[..at]),
        None => pattern + "*",
    }
}

/// A name without the suffixes of LLVM: `.4610` or `.llvm.77`.
fn without_numbers(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((before, last)) if last == "llvm" || last.bytes().all(|b| b.is_ascii_digit()) => {
            without_numbers(before)
        }
        _ => name,
    }
}

/// Whether a text can be the disambiguator of a crate (RFC 2603).
fn is_hash(text: &str) -> bool {
    (8..=12).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

fn script(patterns: &BTreeSet<String>) -> String {
    let mut script = String::from(
        "/* What a server runs: written by `cargo xtask startup-order`, used by build.rs. */\n\
         SECTIONS\n{\n  .text :\n  {\n",
    );
    for pattern in patterns {
        let _ = writeln!(script, "    *(.text*.{pattern})");
    }
    script + "    *(.text .text.*)\n  }\n}\nINSERT BEFORE .fini;\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_own_functions_are_found() {
        let record = "ob=(1) /lib/ld.so\nfn=(1) _dl_start\n\
                      ob=(2) /x/release/ropewalk\nfn=(2) main\n\
                      fn=(3) _ZN4site4open17h0123456789abcdefE\n\
                      cob=(1)\ncfn=(4) _RNvCsdmsGpiOTrGE_4core3fmt'2\n\
                      fn=(4)\nfn=(3)\nob=(1)\nfn=(1)\n";
        let found: Vec<String> = patterns(record).into_iter().collect();
        assert_eq!(found, ["_RNvCs*_4core3fmt*", "_ZN4site4open17h*E*"]);
    }

    #[test]
    fn hashes_go_and_names_stay() {
        assert_eq!(pattern("_ZN4site3Css_17h0123456789abcdefE.llvm.77"), "_ZN4site3Css_17h*E*");
        let of_a_trait = "_ZN4core3fmt$u20$core..fmt17h0123456789abcdefE";
        assert_eq!(pattern(of_a_trait), "_ZN4core3fmt$u20$core..fmt17h*E*");
        assert_eq!(pattern("__rustc_alloc"), "__rustc_alloc*");
        assert_eq!(pattern("_RNvNtB2_9write_str.4610"), "_RNvNtB2_9write_str*");
    }

    #[test]
    fn the_address_stands_in_the_line_that_says_what_is_served() {
        assert_eq!(address("Report it at http://valgrind.org/support"), None);
        let line = "ropewalk: serving /x at http://127.0.0.1:80 with y";
        assert_eq!(address(line), Some("127.0.0.1:80"));
    }

    #[test]
    fn the_script_names_each_function_once() {
        let patterns = BTreeSet::from(["_ZN1a*".to_owned()]);
        assert_eq!(script(&patterns).matches("*(.text*._ZN1a*)").count(), 1);
    }
}
