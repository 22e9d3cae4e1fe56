//! What may have been meant by a word or a path that does not exist, and the messages on files and
//! directories that cannot be used.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::Failure;

/// ` (did you mean "listen"?)`, or nothing when no candidate is near.
pub fn did_you_mean<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> String {
    hint(nearest(word, candidates))
}

/// For a word that is none of the names: the hint of [`did_you_mean`], and the names in a list.
pub fn hint_and_names<'c>(
    word: &str,
    names: impl IntoIterator<Item = &'c str>,
) -> (String, String) {
    let names: Vec<&str> = names.into_iter().collect();
    (did_you_mean(word, names.iter().copied()), names.join(", "))
}

/// A mistake in one line: this value of an option is none of the words that it may be.
pub fn none_of<'c>(option: &str, value: &str, words: impl IntoIterator<Item = &'c str>) -> String {
    let (near, words) = hint_and_names(value, words);
    format!("{option} {}: it must be one of {words}{near}", plain(value))
}

/// ` (did you mean "site/public"?)`, or nothing: the path in the same directory whose name is
/// nearest, among those that are right.
pub fn near_path(path: &Path, is_right: impl Fn(&Path) -> bool) -> String {
    let near = near_name(path, is_right).map(|name| path.with_file_name(name));
    hint(near.as_deref())
}

/// Why a file that was typed cannot be read, in one line; `wanted` is what to name in its place.
pub fn unreadable(path: &Path, why: &io::Error, wanted: &str) -> String {
    let why = match why.kind() {
        io::ErrorKind::NotFound => {
            format!("there is no such file{}", near_path(path, Path::is_file))
        }
        _ => why.to_string(),
    };
    format!("{}: {why}: name {wanted}", path.display())
}

/// The failure for a file that was typed and cannot be read: see [`is_named_wrongly`].
pub fn unread(path: &Path, why: &io::Error, wanted: &str) -> Failure {
    let line = unreadable(path, why, wanted);
    if is_named_wrongly(why) { Failure::Usage(line) } else { Failure::Operation(line) }
}

/// Whether another name should have been typed: there is no such file, or no text in it. Otherwise
/// the system refuses to read it.
pub fn is_named_wrongly(why: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, IsADirectory, NotADirectory, NotFound};
    matches!(why.kind(), NotFound | IsADirectory | NotADirectory | InvalidData)
}

/// Checks that what was typed for `option` is a directory; `wanted` is what to name in its place.
///
/// # Errors
/// [`Failure::Usage`]: it does not exist, or is something else.
pub fn check_directory(option: &str, directory: &Path, wanted: &str) -> Result<(), Failure> {
    let why = match fs::metadata(directory) {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => " is not a directory".into(),
        Err(why) if why.kind() == io::ErrorKind::NotFound => {
            format!(" does not exist{}", near_path(directory, Path::is_dir))
        }
        Err(why) => format!(": {why}"),
    };
    Err(Failure::Usage(format!("{option}: {directory:?}{why}: name {wanted}")))
}

/// The name that is nearest to that of `path`, among those of the same directory that are right.
pub fn near_name(path: &Path, is_right: impl Fn(&Path) -> bool) -> Option<String> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let entries = match path.parent()? {
        here if here == Path::new("") => fs::read_dir("."),
        parent => fs::read_dir(parent),
    };
    let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
    let names: Vec<String> = names.filter_map(|name| name.into_string().ok()).collect();
    let right =
        names.iter().map(String::as_str).filter(|name| is_right(&path.with_file_name(name)));
    nearest(name, right).map(String::from)
}

/// The words for what may have been meant, if anything is known.
pub fn hint(near: Option<&(impl fmt::Debug + ?Sized)>) -> String {
    near.map_or_else(String::new, |near| format!(" (did you mean {near:?}?)"))
}

/// A value as it was typed, in quotes if it is not a plain word.
pub(crate) fn plain(value: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() && c != '"';
    if value.chars().all(is_plain) { value.into() } else { format!("{value:?}") }
}

/// The candidate that is nearest to a word, if one is near.
pub fn nearest<'c>(word: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let distance = |candidate: &str| strsim::damerau_levenshtein(word, candidate);
    // Up to a third of the letters may be wrong: `hed_ms`, `precompresed`, but not `a` for `b`.
    let near = |candidate: &&str| {
        let letters = candidate.chars().count().max(word.chars().count());
        distance(candidate) * 3 <= letters
    };
    candidates.into_iter().filter(near).min_by_key(|candidate| distance(candidate))
}

#[cfg(test)]
mod tests {
    use testkit::Temporary;

    use super::*;

    #[test]
    fn nearest_names() {
        let check = |word, expected: &str| {
            let words = ["listen", "host", "limits", "idle_ms"];
            assert_eq!(did_you_mean(word, words), expected, "{word}");
        };
        check("lissten", " (did you mean \"listen\"?)");
        check("hots", " (did you mean \"host\"?)");
        check("idle", "");
        check("x", "");
    }

    #[test]
    fn names_are_listed_beside_the_nearest() {
        let check = |word, hint: &str, list: &str| {
            let expected = (hint.to_owned(), list.to_owned());
            assert_eq!(hint_and_names(word, ["host", "limits"]), expected, "{word}");
        };
        check("hots", " (did you mean \"host\"?)", "host, limits");
        check("x", "", "host, limits");
        assert_eq!(hint_and_names("x", []), (String::new(), String::new()));
    }

    #[test]
    fn a_word_that_is_none_of_those_of_an_option_is_one_line() {
        let check = |value, expected: &str| {
            assert_eq!(none_of("--workload", value, ["zipf", "1KB"]), expected);
        };
        let near = "--workload zpf: it must be one of zipf, 1KB (did you mean \"zipf\"?)";
        check("zpf", near);
        check("a b", "--workload \"a b\": it must be one of zipf, 1KB");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_one_line() {
        let directory = Temporary::new();
        directory.file("study.toml", "");
        let at = directory.path();
        let check = |name: &str, expected: &str| {
            let path = at.join(name);
            let why = fs::read(&path).expect_err("it is no file");
            let expected = format!("{}: {expected}: name a study", path.display());
            assert_eq!(unreadable(&path, &why, "a study"), expected);
        };
        let near = at.join("study.toml");
        check("stdy.toml", &format!("there is no such file (did you mean {near:?}?)"));
        check("other", "there is no such file");
        check(".", "Is a directory (os error 21)");
    }

    #[test]
    fn the_nearest_path_is_one_of_the_right_kind_beside_it() {
        let directory = Temporary::new();
        directory.file("public/index.html", "");
        directory.file("pubic.txt", "");
        let at = directory.path();
        let near = [
            ("pubic", Some("public")),
            ("pubic/", Some("public")),
            ("pubic.tx", None),
            ("publik/images", None),
            ("..", None),
        ];
        for (name, expected) in near {
            let expected = expected.map(|name| at.join(name));
            let found = near_path(&at.join(name), Path::is_dir);
            assert_eq!(found, hint(expected.as_deref()), "{name}");
        }
    }
}
