//! Entries that another process has found.

use std::fs;

use site::HostSettings;
use site::resource::{Body, Resource};

use super::*;

/// A directory that goes when the test ends.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("engines-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn resolved(runner: &Runner, known: Known) -> Entry {
    match runner.run(Job::Resolve { host: 0, path: (*b"/f.txt").into(), known }) {
        Done::Resolved(Ok((_, entry))) => entry,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_encoded_entry_is_taken_over_while_its_files_are_what_they_were() {
    let directory = Directory::new("encoded");
    let file = directory.0.join("f.txt");
    fs::write(&file, "here").unwrap();
    let site = Site::new(vec![HostSettings::new(directory.0.clone())]).unwrap();
    let runner = Runner::new(Arc::new(site), 0).unwrap();

    let mut entry = resolved(&runner, Known::Nothing);
    // As if the file had been there for a while: timestamps vouch for nothing younger.
    entry.resolved_ns += 10_000_000_000;
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    let encoded = || Known::Encoded(bytes.clone().into());

    let taken = resolved(&runner, encoded());
    assert_eq!(taken.resolved_ns, entry.resolved_ns, "the same entry");
    let Resource::File(files) = &taken.resource else { panic!("{taken:?}") };
    let Body::File(open) = &files.variant(0).body else { panic!("{taken:?}") };
    let mut content = [0; 4];
    assert_eq!(read_at(open.as_fd(), &mut content, 0).unwrap(), 4);
    assert_eq!(&content, b"here");

    fs::write(&file, "elsewhere").unwrap();
    let newer = resolved(&runner, encoded());
    assert_ne!(newer.resolved_ns, entry.resolved_ns, "found out anew");
    fs::remove_file(&file).unwrap();
    assert!(matches!(resolved(&runner, encoded()).resource, Resource::Missing));
    let nonsense = Known::Encoded((*b"nonsense").into());
    assert!(matches!(resolved(&runner, nonsense).resource, Resource::Missing));
}
