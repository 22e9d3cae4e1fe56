//! Request paths: tables of cases, and a comparison with the file system.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;

use super::*;

fn canonical(path: &[u8]) -> Result<Vec<u8>, PathError> {
    canonicalise(path, &mut Vec::new()).map(<[u8]>::to_vec)
}

/// GitLab names projects `group%2Fproject`.
#[test]
fn an_application_may_get_an_encoded_slash() {
    let check = |path: &str, expected: &str| {
        let canonical = canonicalise_for_application(path.as_bytes(), &mut Vec::new())
            .map(|path| String::from_utf8(path.to_vec()).unwrap());
        assert_eq!(canonical, Ok(expected.into()), "{path}");
    };
    check("/projects/a%2fb", "/projects/a%2Fb");
    check("/a%2F..%2Fb", "/a%2F..%2Fb");
    check("/a/..%2f", "/a/..%2F");
    check("/a/%2e%2e/b%20c", "/b c");
}

#[test]
fn canonical_forms() {
    let check = |path: &str, expected: &str| {
        assert_eq!(canonical(path.as_bytes()), Ok(expected.as_bytes().to_vec()), "{path}");
    };
    check("/", "/");
    check("/index.html", "/index.html");
    check("/a/b/", "/a/b/");
    check("/a-b_c~d!$&'()*+,;=:@e", "/a-b_c~d!$&'()*+,;=:@e");
    check("//", "/");
    check("///a//b///", "/a/b/");
    check("/.", "/");
    check("/./a/./b", "/a/b");
    check("/a/.", "/a/");
    check("/a/..", "/");
    check("/a/b/..", "/a/");
    check("/a/b/../", "/a/");
    check("/a/b/../c", "/a/c");
    check("/a//../b", "/b");
    check("/...", "/...");
    check("/..a/.b./c..", "/..a/.b./c..");
    check("/.hidden", "/.hidden");
    check("/%61%2E%62", "/a.b");
    check("/a/%2e%2e/b", "/b");
    check("/a/.%2E/b", "/b");
    check("/a/%2e/b", "/a/b");
    check("/a%20b", "/a b");
    check("/%5c", "/\\");
    check("/a/..%5cb", "/a/..\\b");
    check("/%25%32%65", "/%2e"); // decoded once
    check("/%252e%252e/x", "/%2e%2e/x");
    check("/%2541", "/%41");
    check("/%3f%23", "/?#");
    check("/é|^\"<>[]{}`", "/é|^\"<>[]{}`");
    check("/C%c3%a9", "/Cé");
}

#[test]
fn bytes_are_not_text() {
    assert_eq!(canonical(b"/%ff%80/\xfe"), Ok(b"/\xff\x80/\xfe".to_vec()));
    // An overlong dot is two bytes of a strange name, not a dot.
    assert_eq!(canonical(b"/%c0%ae%c0%ae/a"), Ok(b"/\xc0\xae\xc0\xae/a".to_vec()));
}

#[test]
fn names_that_no_path_leads_to() {
    for (name, expected) in [
        (&b"a b.txt"[..], true),
        (b"\xff%01", true),
        (b"a\x01b", false),
        (b"\x7f", false),
        (b"a\n", false),
    ] {
        assert_eq!(is_requestable(name), expected, "{name:?}");
        let path = [b"/", name].concat();
        let mut address = Vec::new();
        encode_for_location(&path, &mut address);
        assert_eq!(canonical(&address) == Ok(path), expected, "{name:?}");
    }
}

#[test]
fn rejected_paths() {
    let check = |path: &[u8], expected| {
        assert_eq!(canonical(path), Err(expected), "{}", path.escape_ascii());
    };
    check(b"", PathError::Relative);
    check(b"a", PathError::Relative);
    check(b"%2fa", PathError::Relative);
    check(b"*", PathError::Relative);
    for path in ["/%", "/%2", "/%zz", "/%2g", "/%+1", "/a%", "/%%32%65", "/%2/e", "/%u002e"] {
        check(path.as_bytes(), PathError::MalformedPercent);
    }
    for path in ["/%00", "/a%00.jpg", "/%0d%0a", "/%1F", "/%7f", "/\0", "/a\r\n", "/\x7f", "/\t"] {
        check(path.as_bytes(), PathError::ControlByte);
    }
    for path in ["/%2f", "/a%2Fb", "/..%2f..", "/%2f/../a"] {
        check(path.as_bytes(), PathError::EncodedSlash);
    }
    for path in ["/a b", "/a\\b", "/a?b", "/a#b"] {
        check(path.as_bytes(), PathError::RawDelimiter);
    }
    for path in ["/..", "/../", "/a/../..", "/./../a", "/%2e%2e", "/a/../../a", "//..", "/.%2e/a"] {
        check(path.as_bytes(), PathError::AboveRoot);
    }
}

#[test]
fn plain_paths_are_not_copied() {
    let mut scratch = Vec::new();
    let path = b"/assets/app.3f9ab2c1.js";
    assert!(std::ptr::eq(canonicalise(path, &mut scratch).expect("is plain"), path));
    assert_eq!(scratch.capacity(), 0);
}

#[test]
fn every_byte_is_classed() {
    for byte in 0..=255 {
        let stays = matches!(canonical(&[b'/', byte, b'x']), Ok(path) if path.len() == 3);
        let expected = !matches!(byte, 0..=0x20 | 0x7f | b'%' | b'\\' | b'?' | b'#' | b'/');
        assert_eq!(stays, expected, "{byte:02x}");
        let encoded = encoded_for_location(&[b'/', byte]);
        let is_safe = |&byte: &u8| byte.is_ascii_graphic() && !b"\\\"<>^`{|}?#[]".contains(&byte);
        assert!(encoded.iter().all(is_safe), "{byte:02x}");
    }
}

#[test]
fn hidden_paths() {
    let check = |path: &str, expected| assert_eq!(is_hidden(path.as_bytes()), expected, "{path}");
    check("/", false);
    check("/a.b/c", false);
    check("/.git", true);
    check("/.git/", true);
    check("/a/.htaccess", true);
    check("/.git/config", true);
    check("/...", true);
    check("/.well-known", false);
    check("/.well-known/security.txt", false);
    check("/.well-known/.git", true);
    check("/a/.well-known/x", true);
    check("/.well-known2", true);
}

#[test]
fn names_and_extensions() {
    let check = |path: &str, name: &str, expected: Option<&str>| {
        assert_eq!(file_name(path.as_bytes()), name.as_bytes(), "{path}");
        assert_eq!(extension(path.as_bytes()), expected.map(str::as_bytes), "{path}");
    };
    check("/", "", None);
    check("/a.b/", "", None);
    check("/a.b/c", "c", None);
    check("/a/b.html", "b.html", Some("html"));
    check("b.tar.gz", "b.tar.gz", Some("gz"));
    check("/.profile", ".profile", None);
    check("/.profile.bak", ".profile.bak", Some("bak"));
    check("/a.", "a.", None);
    check("/a..", "a..", None);
}

#[test]
fn segments_of_paths() {
    let check = |path: &str, expected: &[&str]| {
        let found: Vec<_> = segments(path.as_bytes()).collect();
        assert_eq!(found, expected.iter().map(|name| name.as_bytes()).collect::<Vec<_>>());
    };
    check("/", &[]);
    check("/a", &["a"]);
    check("/a/b c/", &["a", "b c"]);
}

fn encoded_for_location(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    encode_for_location(path, &mut out);
    out
}

#[test]
fn locations() {
    let check = |path: &[u8], expected: &str| {
        assert_eq!(encoded_for_location(path), expected.as_bytes(), "{}", path.escape_ascii());
    };
    check(b"/", "/");
    check(b"/a/b.html", "/a/b.html");
    check(b"/a b/%", "/a%20b/%25");
    check(b"/\\evil.example", "/%5Cevil.example");
    check(b"//evil.example/", "/evil.example/");
    check(b"///evil.example", "/evil.example");
    check(b"evil.example", "/evil.example");
    check(b"", "/");
    check(b"/a\r\nSet-Cookie: b", "/a%0D%0ASet-Cookie:%20b");
    check(b"/a?b#c", "/a%3Fb%23c");
    check(b"/\xff\xc3\xa9", "/%FF%C3%A9");
    check(b"/x//y", "/x//y");
}

/// Checks that a path is canonical, by other means than the code under test.
fn assert_canonical(path: &[u8]) {
    assert!(path.starts_with(b"/"));
    assert!(!path.iter().any(u8::is_ascii_control));
    let inner = path.strip_suffix(b"/").unwrap_or(path);
    for segment in inner.split(|&byte| byte == b'/').skip(1) {
        assert!(![&b""[..], b".", b".."].contains(&segment), "{}", path.escape_ascii());
    }
}

proptest! {
    /// The check for plain paths agrees with the slow way for paths of any length.
    #[test]
    fn plain_paths_are_canonical(path in "/[a-z/.]{0,6}[a-z]{0,40}[a-z%/. ]?[a-z/.]{0,20}") {
        let mut resolved = Vec::new();
        let outcome = resolve(path.as_bytes(), &mut resolved, EncodedSlash::Refused);
        let is_canonical = outcome.is_ok() && resolved == path.as_bytes();
        if is_plain(path.as_bytes()) {
            prop_assert!(is_canonical);
        }
        if is_canonical && !path.contains("/.") {
            prop_assert!(is_plain(path.as_bytes()));
        }
    }

    #[test]
    fn canonical_paths_stay(
        path in proptest::collection::vec(
            prop_oneof![Just(b'/'), Just(b'.'), Just(b'%'), Just(b'2'), Just(b'e'), any::<u8>()],
            0..40,
        )
    ) {
        let path = [b"/".to_vec(), path].concat();
        if let Ok(found) = canonical(&path) {
            assert_canonical(&found);
            prop_assert_eq!(canonical(&encoded_for_location(&found)), Ok(found));
        }
    }
}

/// A temporary directory with every path of up to four names out of `a` and `b`.
struct Tree(PathBuf);

impl Tree {
    fn new() -> Self {
        let name = format!("site-path-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        for names in 0..16_u32 {
            let name = |level: u32| if names >> level & 1 == 0 { "a" } else { "b" };
            let path: PathBuf = (0..4).map(name).collect();
            fs::create_dir_all(root.join(path)).expect("the temporary directory is writable");
        }
        Self(root.canonicalize().expect("it was just made"))
    }

    /// The directory that the system finds at a path, if it exists.
    fn resolve(&self, path: &str) -> Option<PathBuf> {
        fs::canonicalize(format!("{}{path}", self.0.display())).ok()
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A segment as it is requested, and the form that the system gets.
fn segment() -> impl Strategy<Value = (&'static str, &'static str)> {
    prop::sample::select(vec![
        ("a", "a"),
        ("b", "b"),
        ("%61", "a"),
        ("%62", "b"),
        ("", ""),
        (".", "."),
        ("%2e", "."),
        ("..", ".."),
        ("%2E.", ".."),
        ("%2e%2E", ".."),
    ])
}

/// The lexical result agrees with that of the system, and where the system would leave the root
/// there is no result.
#[test]
fn the_file_system_agrees() {
    let tree = Tree::new();
    let is_outside = |path: &Path| !path.starts_with(&tree.0);
    let lists = proptest::collection::vec(segment(), 0..9);
    proptest!(ProptestConfig::with_cases(2000), |(list in lists)| {
        let mut requested = String::new();
        let mut asked = String::new();
        let mut leaves_root = false;
        for (ours, theirs) in &list {
            requested = format!("{requested}/{ours}");
            asked = format!("{asked}/{theirs}");
            leaves_root |= tree.resolve(&asked).is_some_and(|path| is_outside(&path));
        }
        if list.is_empty() {
            requested.push('/');
        }
        match canonical(requested.as_bytes()) {
            Ok(path) => {
                let path = String::from_utf8(path).expect("only letters were asked for");
                prop_assert!(!leaves_root, "{} left the root", requested);
                if let Some(found) = tree.resolve(&asked) {
                    prop_assert_eq!(Some(found), tree.resolve(&path), "{}", requested);
                }
            }
            // Below a directory that does not exist the system finds nothing, and so does not leave
            // the root.
            Err(error) => {
                prop_assert_eq!(error, PathError::AboveRoot);
                prop_assert!(leaves_root || tree.resolve(&asked).is_none(), "{}", requested);
            }
        }
    });
}
