//! The answers, made before the first request.
//!
//! Not a cache: they never change and are never looked up by name.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// Bodies up to this length lie in memory behind their heads, as in Ropewalk.
const PREPARED_BODY_BYTES_MAX: u64 = 64 * 1024;

/// One answer.
pub(crate) struct Answer {
    /// The head, with the body behind it if there is no `file`.
    pub(crate) prepared: Box<[u8]>,
    /// The body and its length, if it is long.
    pub(crate) file: Option<(File, u64)>,
    /// The length of head and body.
    pub(crate) len: u64,
}

/// Makes the answers for the paths in the file `paths` below `root`, with the head in the file
/// `head`.
pub(crate) fn prepare(root: &str, paths: &str, head: &str) -> io::Result<Vec<Answer>> {
    let head = fs::read(head)?;
    let paths = fs::read_to_string(paths)?;
    paths
        .lines()
        .map(|path| Answer::new(&Path::new(root).join(path.trim_start_matches('/')), &head))
        .collect()
}

/// Which of `count` answers is asked for: the digits after the last slash of the first line's
/// path. A request for anything else gets the first answer.
pub(crate) fn number(request: &[u8], count: usize) -> usize {
    if count == 1 {
        return 0;
    }
    // "GET " is skipped; the path ends at the next space.
    let path = request.get(4..).unwrap_or_default();
    let mut number = 0;
    for byte in path.iter().take_while(|byte| **byte != b' ') {
        match byte {
            b'/' => number = 0,
            b'0'..=b'9' => number = number * 10 + usize::from(byte - b'0'),
            _ => {}
        }
    }
    if number < count { number } else { 0 }
}

impl Answer {
    fn new(path: &Path, head: &[u8]) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let body_len = file.metadata()?.len();
        let mut prepared = with_content_length(head, body_len);
        let len = prepared.len() as u64 + body_len;
        if body_len > PREPARED_BODY_BYTES_MAX {
            return Ok(Self { prepared: prepared.into(), file: Some((file, body_len)), len });
        }
        file.read_to_end(&mut prepared)?;
        Ok(Self { prepared: prepared.into(), file: None, len })
    }
}

/// `head` with the value of its Content-Length replaced.
fn with_content_length(head: &[u8], body_len: u64) -> Vec<u8> {
    let head = String::from_utf8_lossy(head);
    let lines = head.split_inclusive("\r\n").map(|line| match line.split_once(':') {
        Some((name, _)) if name.eq_ignore_ascii_case("content-length") => {
            format!("{name}: {body_len}\r\n")
        }
        _ => line.to_owned(),
    });
    lines.collect::<String>().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_follows_the_last_slash() {
        assert_eq!(number(b"GET /many/012/00417.txt HTTP/1.1\r\n\r\n", 20_000), 417);
        assert_eq!(number(b"GET /7 HTTP/1.1\r\n\r\n", 8), 7);
        assert_eq!(number(b"GET /8 HTTP/1.1\r\n\r\n", 8), 0);
        assert_eq!(number(b"GET /index.html HTTP/1.1\r\n\r\n", 8), 0);
        assert_eq!(number(b"\r\n\r\n", 8), 0);
    }

    #[test]
    fn only_the_content_length_changes() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nServer: a\r\n\r\n";
        let expected = b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\nServer: a\r\n\r\n";
        assert_eq!(with_content_length(head, 65_536), expected);
    }
}
