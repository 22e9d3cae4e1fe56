//! The expected replies to a log's requests: from the names of file sets, from the log, or from
//! copies of the files.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use workload::fileset::File;
use workload::request_log::{RequestLog, Template};

use crate::measures::OTHER;
use crate::options::OptionsError;
use crate::plan::{Expected, ExpectedBody, Verify};

/// The most bytes of copies that are held in memory.
const COPIES_MAX: u64 = 2 << 30;

/// Returns the expected reply for each template of `log`. `files`: a directory with copies.
///
/// # Errors
/// One line: which reply is to be verified although nothing is known of it.
pub fn for_log(
    log: &RequestLog,
    verify: Verify,
    files: Option<&Path>,
) -> Result<Vec<Expected>, OptionsError> {
    let mut copies = Copies { root: files, read: HashMap::new(), bytes: 0 };
    log.templates().iter().map(|template| for_template(template, verify, &mut copies)).collect()
}

fn for_template(
    template: &Template,
    verify: Verify,
    copies: &mut Copies<'_>,
) -> Result<Expected, OptionsError> {
    let path = without_query(&template.uri);
    let file = File::locate(path);
    let kind = file.map_or(OTHER, |file| file.kind()) as u8;
    if &*template.method != "GET" {
        return Ok(Expected { kind, ..Expected::default() });
    }
    let bytes = template.reply_bytes.or(file.map(|file| file.bytes()));
    if verify == Verify::None {
        return Ok(Expected { bytes, body: ExpectedBody::Unknown, kind });
    }
    if let Some(copy) = copies.get(path)? {
        let bytes = Some(copy.len() as u64);
        return Ok(Expected { bytes, body: ExpectedBody::Stored(copy), kind });
    }
    let body = match file {
        Some(file) if verify == Verify::Bytes => ExpectedBody::Derived(file.content()),
        None if verify == Verify::Bytes => {
            let uri = String::from_utf8_lossy(&template.uri);
            return Err(OptionsError::Typed(format!(
                "--verify bytes: {uri} is no file of a file set: give --files DIR with a copy of \
                 what it should be"
            )));
        }
        _ => ExpectedBody::Unknown,
    };
    Ok(Expected { bytes, body, kind })
}

/// The file under `root` that a URI names, `index.html` where the URI ends with a slash; none if
/// the URI is no plain path.
pub fn file_for_uri(uri: &[u8], root: &Path) -> Option<PathBuf> {
    let relative = decode(without_query(uri))?;
    if relative.split('/').any(|part| part == "..") {
        return None;
    }
    let mut file = root.join(relative.trim_start_matches('/'));
    if relative.ends_with('/') {
        file.push("index.html");
    }
    Some(file)
}

/// The path of a URI, without its query.
fn without_query(uri: &[u8]) -> &[u8] {
    uri.split(|byte| *byte == b'?').next().unwrap_or(uri)
}

/// Files read so far.
struct Copies<'r> {
    root: Option<&'r Path>,
    read: HashMap<Vec<u8>, Arc<[u8]>>,
    bytes: u64,
}

impl Copies<'_> {
    /// Returns the copy of the file under `path`, if there is a directory of copies.
    fn get(&mut self, path: &[u8]) -> Result<Option<Arc<[u8]>>, OptionsError> {
        let Some(root) = self.root else { return Ok(None) };
        if let Some(copy) = self.read.get(path) {
            return Ok(Some(Arc::clone(copy)));
        }
        let shown = String::from_utf8_lossy(path);
        let file =
            file_for_uri(path, root).ok_or_else(|| format!("--files: {shown} is no plain path"))?;
        let refused = |why| {
            let line = format!("--files: no copy of {shown}: {}: {why}", file.display());
            OptionsError::of_named(&why, line)
        };
        let copy = fs::read(&file).map_err(refused)?;
        self.bytes += copy.len() as u64;
        if self.bytes > COPIES_MAX {
            let why = format!("--files: the copies are more than {} GiB", COPIES_MAX >> 30);
            return Err(OptionsError::Typed(why));
        }
        let copy: Arc<[u8]> = copy.into();
        self.read.insert(path.to_vec(), Arc::clone(&copy));
        Ok(Some(copy))
    }
}

/// Percent-decodes a path; none if the decoded bytes are not UTF-8.
fn decode(path: &[u8]) -> Option<String> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut bytes = path.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || (*bytes.next()? as char).to_digit(16);
        decoded.push((digit()? << 4 | digit()?) as u8);
    }
    String::from_utf8(decoded).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(uris: &[&str]) -> RequestLog {
        let mut builder = RequestLog::builder();
        for uri in uris {
            let template = builder.intern_get(uri.as_bytes());
            builder.push_known(template, false, 0);
        }
        builder.end_session();
        builder.finish().unwrap()
    }

    #[test]
    fn names_of_file_sets_say_what_is_in_them() {
        let log = log(&["/x/dir00001/class1_2?q", "/size77"]);
        let expected = for_log(&log, Verify::Bytes, None).unwrap();
        assert_eq!((expected[0].bytes, expected[0].kind), (Some(3072), 11));
        assert!(matches!(expected[0].body, ExpectedBody::Derived(_)));
        assert_eq!(expected[1].bytes, Some(77));
    }

    #[test]
    fn a_reply_of_which_nothing_is_known_cannot_be_verified() {
        let log = log(&["/index.html"]);
        let error = for_log(&log, Verify::Bytes, None).unwrap_err().to_string();
        assert!(error.contains("/index.html") && error.contains("--files"), "{error}");
        let expected = for_log(&log, Verify::Length, None).unwrap();
        assert_eq!((expected[0].bytes, usize::from(expected[0].kind)), (None, OTHER));
    }

    #[test]
    fn copies_are_found_under_decoded_names() {
        let directory = testkit::Temporary::new();
        fs::write(directory.path().join("a b"), "copy").unwrap();
        fs::write(directory.path().join("index.html"), "home").unwrap();
        let expected =
            for_log(&log(&["/a%20b", "/"]), Verify::Bytes, Some(directory.path())).unwrap();
        let bodies: Vec<_> = expected.iter().map(|expected| &expected.body).collect();
        assert!(matches!(bodies[0], ExpectedBody::Stored(copy) if &**copy == b"copy"));
        assert!(matches!(bodies[1], ExpectedBody::Stored(copy) if &**copy == b"home"));
        let error = for_log(&log(&["/absent"]), Verify::Bytes, Some(directory.path()))
            .unwrap_err()
            .to_string();
        assert!(error.contains("no copy of /absent"), "{error}");
        let error = for_log(&log(&["/../x"]), Verify::Bytes, Some(directory.path()))
            .unwrap_err()
            .to_string();
        assert!(error.contains("no plain path"), "{error}");
    }
}
