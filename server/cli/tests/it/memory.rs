//! The memory of a server that is configured to take little. serving.rs tests the memory at start.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use testkit::Temporary;

use crate::machine::skip;
use crate::processes::{MemoryGroup, descendants};
use crate::server_process::{ROPEWALK, ServerProcess, for_each_engine, serve};

/// The memory of a small container.
const SMALL: u64 = 32 << 20;

/// Each engine runs in a small container, of which the cache takes an eighth, and takes far less
/// than all of it: neither connections nor threads keep memory that only one of them needs at a
/// time.
#[test]
fn a_small_cache_makes_a_small_server() {
    const KIB_MAX: u64 = 24_000;
    const FILES: usize = 960;
    const FILE_BYTES: usize = 32 << 10; // all of them are seven times the cache
    const CONNECTIONS: usize = 48;
    const ROUNDS: usize = 20; // each file is requested once
    let directory = Temporary::new();
    for number in 0..FILES {
        directory.file(&format!("{number}"), vec![b'r'; FILE_BYTES]);
    }
    if MemoryGroup::new(SMALL).is_none() {
        skip("servers in a small control group", MemoryGroup::obstacle());
    }
    for_each_engine(|arguments| {
        let group = MemoryGroup::new(SMALL);
        let mut command = group.as_ref().map_or_else(|| Command::new(ROPEWALK), in_group);
        let cache = ["--set", "cache.bytes_max=\"4 MiB\""];
        let command = serve(&mut command, directory.path());
        let server = ServerProcess::start(command.args(arguments).args(cache));
        let mut streams: Vec<TcpStream> = (0..CONNECTIONS).map(|_| server.connect()).collect();
        for round in 0..ROUNDS {
            // All requests are sent before any response is read, so that all threads have work.
            for (client, stream) in streams.iter_mut().enumerate() {
                let file = (round * CONNECTIONS + client) % FILES;
                write!(stream, "GET /{file} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
            }
            streams.iter_mut().for_each(|stream| take_response(stream, FILE_BYTES));
        }
        let own: u64 = descendants(server.pid()).into_iter().map(own_kib).sum();
        assert!(own < KIB_MAX, "{arguments:?}: {own} KiB are the server's own");
        drop(streams);
        let lines = server.stop();
        assert!(!lines.iter().any(|line| line.contains("killed")), "{arguments:?}: {lines:#?}");
    });
}

fn in_group(group: &MemoryGroup) -> Command {
    let mut shell = group.shell();
    shell.arg(ROPEWALK);
    shell
}

/// Reads the head of a response and `length` bytes of content.
fn take_response(stream: &mut TcpStream, length: usize) {
    let mut came = Vec::new();
    let head = loop {
        let end = came.windows(4).position(|bytes| bytes == b"\r\n\r\n");
        if let Some(end) = end {
            break end + 4;
        }
        let mut some = [0; 512];
        let count = os::uninterrupted(|| stream.read(&mut some)).unwrap();
        assert!(count > 0, "the server has closed");
        came.extend_from_slice(&some[..count]);
    };
    stream.read_exact(&mut vec![0; head + length - came.len()]).unwrap();
}

/// The memory of a process that is no part of a file: its heaps and stacks. Memory that processes
/// share after a fork counts in parts.
fn own_kib(pid: u32) -> u64 {
    let memory = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = memory.lines().find_map(|line| line.strip_prefix("Pss_Anon:")).unwrap();
    line.trim().trim_end_matches(" kB").trim().parse().unwrap()
}
