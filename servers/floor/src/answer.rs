//! The answers, made before the first request.
//!
//! The answers are not a cache: they never change. They are found by a number in the path where
//! paths are numbered, else by the path.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

/// The longest body that is kept in memory behind its head, as in Ropewalk.
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

/// All answers, and how a request's is found.
pub(crate) struct Answers {
    list: Vec<Answer>,
    /// The answer of each path; none if paths are numbered in their order.
    by_path: Option<HashMap<Box<[u8]>, usize>>,
}

impl Answers {
    /// Makes the answers for the paths in the file `paths` below `root`, with the head in the file
    /// `head`. If the file of a path has another name, that name follows the path and a tab.
    pub(crate) fn prepare(root: &str, paths: &str, head: &str) -> io::Result<Self> {
        let head = fs::read(head)?;
        let paths = fs::read_to_string(paths)?;
        let make = |line: &str| {
            let (_, file) = line.split_once('\t').unwrap_or((line, line));
            Answer::new(&Path::new(root).join(file.trim_start_matches('/')), &head)
        };
        let list = paths.lines().map(make).collect::<io::Result<Vec<Answer>>>()?;
        Ok(Self { by_path: index_by_path(&paths, list.len()), list })
    }

    /// One answer.
    pub(crate) fn get(&self, number: usize) -> &Answer {
        &self.list[number]
    }

    /// The number of a request's answer. A request for anything else gets the first answer.
    pub(crate) fn find(&self, request: &[u8]) -> usize {
        match &self.by_path {
            None => number(request, self.list.len()),
            Some(by_path) => by_path.get(path_of(request)).copied().unwrap_or(0),
        }
    }
}

/// Each path's place in the list; none if the digits after the last slash of each path are its
/// place in the list.
fn index_by_path(paths: &str, count: usize) -> Option<HashMap<Box<[u8]>, usize>> {
    let is_numbered =
        |(place, path): (usize, &str)| number(format!("GET {path} ").as_bytes(), count) == place;
    let asked = || paths.lines().map(|line| line.split('\t').next().unwrap_or(line)).enumerate();
    if asked().all(is_numbered) {
        return None;
    }
    Some(asked().map(|(place, path)| (path.as_bytes().into(), place)).collect())
}

/// The path of a request: the part between the first two spaces.
fn path_of(request: &[u8]) -> &[u8] {
    let path = request.get(4..).unwrap_or_default();
    let end = path.iter().position(|&byte| byte == b' ').unwrap_or(path.len());
    &path[..end]
}

/// The number of the requested answer among `count`: the digits after the last slash of the first
/// line's path. A request for anything else gets the first answer.
fn number(request: &[u8], count: usize) -> usize {
    if count == 1 {
        return 0;
    }
    let mut number = 0;
    for byte in path_of(request) {
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
    fn paths_that_are_not_numbered_are_looked_up() {
        assert_eq!(index_by_path("/a.html\n", 1), None, "of one file nothing need be looked up");
        assert_eq!(index_by_path("/x/0.txt\n/y/1.txt\n", 2), None);
        let paths = "/dir00000/class0_1\n/dir00000/class2_0\n";
        let by_path = index_by_path(paths, 2).expect("they are not numbered");
        let request = b"GET /dir00000/class2_0 HTTP/1.1\r\n\r\n";
        assert_eq!(by_path.get(path_of(request)), Some(&1));
        assert_eq!(by_path.get(path_of(b"GET")), None);
    }

    #[test]
    fn a_file_may_have_another_name_than_its_path() {
        let folder = std::env::temp_dir().join(format!("floor-names-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary files may be written");
        let file = |name: &str, text: &str| {
            fs::write(folder.join(name), text).expect("the folder is writable");
            folder.join(name).display().to_string()
        };
        file("index.html", "home");
        file("a b", "copy");
        let paths = file("paths", "/\t/index.html\n/a%20b?c\t/a b\n/index.html\n");
        let head = file("head", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        let root = folder.display().to_string();
        let answers = Answers::prepare(&root, &paths, &head).expect("all are there");
        fs::remove_dir_all(&folder).expect("it is ours");
        let body = |path: &str| {
            let request = format!("GET {path} HTTP/1.1\r\n");
            let prepared = &answers.get(answers.find(request.as_bytes())).prepared;
            String::from_utf8_lossy(prepared).rsplit('\n').next().map(str::to_owned)
        };
        assert_eq!(body("/").as_deref(), Some("home"));
        assert_eq!(body("/a%20b?c").as_deref(), Some("copy"));
        assert_eq!(body("/index.html").as_deref(), Some("home"));
    }

    #[test]
    fn only_the_content_length_changes() {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nServer: a\r\n\r\n";
        let expected = b"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\nServer: a\r\n\r\n";
        assert_eq!(with_content_length(head, 65_536), expected);
    }
}
