//! The folder in which the records of one study lie, and how it is opened again.
//!
//! ```text
//! study.json          what was requested (Header), written once
//! environments.jsonl  the machine, a line each time the study was begun or resumed
//! participants.jsonl  what takes part and what does not, a line each time it was resumed
//! runs.jsonl          a line for each Run, void ones included; appended to, never changed
//! searches.jsonl      a line for each Search
//! tuned.jsonl         what a tuning has found, a line each time it came to its end
//! ceiling.jsonl       the path's ceiling, a line for each testbed: {"testbed": …, "ceiling": …}
//! cache.jsonl         a line for each CacheRun, in place of runs
//! outcomes/N.json     the whole outcome of run N, with its histograms (`ropewalk load --json`)
//! ```
//!
//! A process that is killed while it writes a line leaves half a line; when the folder is opened
//! the next time, it is cut off, with a notice.

use super::purpose::SearchLine;
use super::{
    CacheRun, Ceiling, FORMAT, FolderError, Header, Participants, Run, Search, Tuning, VERSION,
};
use os::file_lock::FileLock;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

pub(super) const HEADER: &str = "study.json";
const ENVIRONMENTS: &str = "environments.jsonl";
const PARTICIPANTS: &str = "participants.jsonl";
const RUNS: &str = "runs.jsonl";
const SEARCHES: &str = "searches.jsonl";
const TUNINGS: &str = "tuned.jsonl";
const CEILINGS: &str = "ceiling.jsonl";
const CACHE: &str = "cache.jsonl";
const OUTCOMES: &str = "outcomes";

/// The first version that holds all that a study needs to go on.
pub(super) const RESUMED_FROM: u32 = 2;

/// The first version that has the name testbed for what was a domain.
const TESTBEDS_FROM: u32 = 3;

/// The files that are appended to.
const LISTS: [&str; 7] = [ENVIRONMENTS, PARTICIPANTS, RUNS, SEARCHES, TUNINGS, CEILINGS, CACHE];

/// A folder that can be added to. Only one process may have it open at a time.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _lock: FileLock,
}

/// The content of a folder.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Opened {
    /// What was requested, with all servers that took part whenever the study was begun or resumed.
    pub header: Header,
    /// The machine, each time the study was begun or resumed.
    pub environments: Vec<Value>,
    /// All runs in their order, void ones included.
    pub runs: Vec<Run>,
    /// All searches.
    pub searches: Vec<Search>,
    /// The result of a tuning; none if it did not come to its end, or has not been written down
    /// yet.
    pub tuning: Option<Tuning>,
    /// Measurements of the cache by itself.
    pub cache: Vec<CacheRun>,
    /// The ceiling of each testbed.
    pub ceilings: Vec<(String, Ceiling)>,
    /// What was not whole and is left out: a line each.
    pub damage: Vec<String>,
    /// Names in records of its version that are others today, in a line, with the folder.
    pub notice: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct CeilingLine {
    #[serde(alias = "domain")]
    testbed: String,
    ceiling: Ceiling,
}

impl Folder {
    /// Makes a new folder with a header in it.
    ///
    /// # Errors
    /// When the folder holds a study already, or cannot be written.
    pub fn create(path: &Path, header: &Header) -> Result<Self, FolderError> {
        fs::create_dir_all(path.join(OUTCOMES)).map_err(FolderError::of_system(path))?;
        let folder = Self { path: path.to_owned(), _lock: lock(path)? };
        if Self::has_records(path) {
            return Err(FolderError::Taken(path.to_owned()));
        }
        if let Some(list) = LISTS.into_iter().find(|name| path.join(name).exists()) {
            return Err(FolderError::Remains { path: path.to_owned(), list });
        }
        let header = Header { format: FORMAT.into(), version: VERSION, ..header.clone() };
        let written = folder.replace(HEADER, &text_of(&header));
        written.map_err(FolderError::of_system(&path.join(HEADER)))?;
        Ok(folder)
    }

    /// Whether a folder holds records.
    pub fn has_records(path: &Path) -> bool {
        path.join(HEADER).exists()
    }

    /// Opens a folder to go on with it. What was not whole is cut off, and is listed as damage.
    ///
    /// # Errors
    /// When the folder holds no study, another process has it open, an earlier version wrote it, or
    /// it is damaged in the middle.
    pub fn resume(path: &Path) -> Result<(Self, Opened), FolderError> {
        if !Self::has_records(path) {
            return Err(FolderError::Absent(path.to_owned()));
        }
        let lock = lock(path)?;
        // Read first: this says what is not whole.
        let opened = Self::read(path)?;
        let version = opened.header.version;
        if version < RESUMED_FROM {
            return Err(FolderError::Earlier { path: path.to_owned(), version });
        }
        LISTS.into_iter().try_for_each(|name| cut_half_line(&path.join(name)))?;
        Ok((Self { path: path.to_owned(), _lock: lock }, opened))
    }

    /// Reads a folder that may still be written to.
    ///
    /// # Errors
    /// When the folder holds no study, or one of a later version, or a line in its middle is
    /// damaged.
    pub fn read(path: &Path) -> Result<Opened, FolderError> {
        if !Self::has_records(path) {
            return Err(FolderError::Absent(path.to_owned()));
        }
        let mut damage = Vec::new();
        let mut header = read_header(&path.join(HEADER))?;
        let later: Vec<Participants> = read_lines(&path.join(PARTICIPANTS), &mut damage)?;
        later.into_iter().for_each(|participants| participants.join(&mut header));
        let mut tunings: Vec<Tuning> = read_lines(&path.join(TUNINGS), &mut damage)?;
        let ceilings: Vec<CeilingLine> = read_lines(&path.join(CEILINGS), &mut damage)?;
        let searches: Vec<SearchLine> = read_lines(&path.join(SEARCHES), &mut damage)?;
        Ok(Opened {
            environments: read_lines(&path.join(ENVIRONMENTS), &mut damage)?,
            runs: read_lines(&path.join(RUNS), &mut damage)?,
            searches: searches.into_iter().map(Search::from).collect(),
            tuning: tunings.pop(),
            cache: read_lines(&path.join(CACHE), &mut damage)?,
            notice: notice(path, header.version),
            ceilings: ceilings.into_iter().map(|line| (line.testbed, line.ceiling)).collect(),
            damage,
            header,
        })
    }

    /// The folder's path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a description of the machine as it is now.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn add_environment<T: Serialize>(&self, environment: &T) -> Result<(), String> {
        self.append(ENVIRONMENTS, environment)
    }

    /// Writes the participants when a study is resumed; at first the header has them.
    #[expect(clippy::missing_errors_doc, reason = "only that it cannot be written")]
    pub fn add_participants(&self, participants: &Participants) -> Result<(), String> {
        self.append(PARTICIPANTS, participants)
    }

    /// Writes down a run, and its outcome as `ropewalk load` wrote it. The outcome comes first, so
    /// that a run that is in the list has its file.
    #[expect(clippy::missing_errors_doc, reason = "only that it cannot be written")]
    pub fn add_run(&self, run: &Run, outcome_json: Option<&str>) -> Result<Run, String> {
        let mut run = run.clone();
        if let Some(text) = outcome_json {
            run.outcome_file = format!("{OUTCOMES}/{}.json", run.number);
            self.write_whole(&run.outcome_file, text)?;
        }
        self.append(RUNS, &run)?;
        Ok(run)
    }

    /// Writes down what a search has found.
    #[expect(clippy::missing_errors_doc, reason = "only that it cannot be written")]
    pub fn add_search(&self, search: &Search) -> Result<(), String> {
        self.append(SEARCHES, search)
    }

    /// Writes down the final result of a tuning.
    #[expect(clippy::missing_errors_doc, reason = "only that it cannot be written")]
    pub fn add_tuning(&self, tuning: &Tuning) -> Result<(), String> {
        self.append(TUNINGS, tuning)
    }

    /// Writes down a measurement of the cache by itself.
    #[expect(clippy::missing_errors_doc, reason = "only that it cannot be written")]
    pub fn add_cache(&self, run: &CacheRun) -> Result<(), String> {
        self.append(CACHE, run)
    }

    /// Writes down the ceiling of a testbed.
    #[expect(clippy::missing_errors_doc, reason = "only that it cannot be written")]
    pub fn add_ceiling(&self, testbed: &str, ceiling: Ceiling) -> Result<(), String> {
        self.append(CEILINGS, &CeilingLine { testbed: testbed.to_owned(), ceiling })
    }

    /// Writes a file beside the records: a report, a winning configuration.
    #[expect(clippy::missing_errors_doc, reason = "only that it cannot be written")]
    pub fn write_whole(&self, name: &str, text: &str) -> Result<(), String> {
        let explain = |why| format!("{}: {why}", self.path.join(name).display());
        self.replace(name, text).map_err(explain)
    }

    fn replace(&self, name: &str, text: &str) -> io::Result<()> {
        let temporary = self.path.join(format!(".{}.partial", name.replace('/', "-")));
        fs::write(&temporary, text)?;
        fs::rename(&temporary, self.path.join(name))
    }

    fn append<T: Serialize>(&self, name: &str, line: &T) -> Result<(), String> {
        let path = self.path.join(name);
        let mut text = serde_json::to_string(line).expect("numbers, strings and lists are JSON");
        text.push('\n');
        File::options()
            .create(true)
            .append(true)
            .open(&path)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .map_err(|why| format!("{}: {why}", path.display()))
    }
}

fn notice(path: &Path, version: u32) -> Option<String> {
    let change = match version {
        VERSION.. => return None,
        TESTBEDS_FROM.. => "the purpose of a run is written in another form now",
        _ => "what it calls a domain is called a testbed now",
    };
    Some(format!("{}: its version is {version}: {change}", path.display()))
}

fn text_of(header: &Header) -> String {
    let mut text = serde_json::to_string_pretty(header).expect("a header is JSON");
    text.push('\n');
    text
}

/// The lock is released when its file is closed, which the kernel does for a process that is
/// killed.
fn lock(folder: &Path) -> Result<FileLock, FolderError> {
    let path = folder.join(".lock");
    let explain = FolderError::of_system(&path);
    let file = File::options().create(true).append(true).open(&path).map_err(&explain)?;
    FileLock::take(file).map_err(|why| match why {
        fs::TryLockError::WouldBlock => FolderError::Locked(folder.to_owned()),
        fs::TryLockError::Error(why) => explain(why),
    })
}

fn read_header(path: &Path) -> Result<Header, FolderError> {
    let text = fs::read_to_string(path).map_err(FolderError::of_system(path))?;
    let foreign = |why| FolderError::Foreign { path: path.to_owned(), why };
    let header: Header = serde_json::from_str(&text).map_err(|why| foreign(why.to_string()))?;
    if header.format != FORMAT {
        return Err(foreign(format!("its format is `{}`", header.format)));
    }
    match header.version {
        1..=VERSION => Ok(header),
        version => Err(FolderError::Later { path: path.to_owned(), version }),
    }
}

/// The lines of a file; none if the file does not exist. A last line that does not end is damage;
/// any other line that cannot be read is an error.
fn read_lines<T: DeserializeOwned>(
    path: &Path,
    damage: &mut Vec<String>,
) -> Result<Vec<T>, FolderError> {
    let bytes = read_if_there(path)?;
    let whole = whole_lines(&bytes);
    if whole.len() < bytes.len() {
        damage.push(format!("{}: the last line is not whole and is left out", path.display()));
    }
    let damaged = |index, why| FolderError::Damaged { path: path.to_owned(), line: index + 1, why };
    let lines = whole.split_inclusive(|&byte| byte == b'\n').enumerate();
    lines.map(|(n, line)| serde_json::from_slice(line).map_err(|why| damaged(n, why))).collect()
}

fn cut_half_line(path: &Path) -> Result<(), FolderError> {
    let bytes = read_if_there(path)?;
    let whole = whole_lines(&bytes).len();
    if whole == bytes.len() {
        return Ok(());
    }
    let cut = File::options().write(true).open(path).and_then(|file| file.set_len(whole as u64));
    cut.map_err(FolderError::of_system(path))
}

/// The content of a file; empty if the file does not exist. A file that exists and cannot be read
/// must not count as empty: new runs would replace those that it has.
fn read_if_there(path: &Path) -> Result<Vec<u8>, FolderError> {
    match fs::read(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        read => read.map_err(FolderError::of_system(path)),
    }
}

fn whole_lines(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::super::{Absent, Described, Offered, Point, Purpose, Server};
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("study-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            Self(path)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn run(number: u64) -> Run {
        let offered = Offered::RequestsPerS(1000.5);
        let point = Point { server: "nginx".into(), offered, ..Point::default() };
        Run { number, point, ..Run::default() }
    }

    #[test]
    fn what_was_written_is_read() {
        let scratch = Scratch::new("whole");
        let header = Header { name: "n".into(), repetitions: 3, ..Header::default() };
        let folder = Folder::create(&scratch.0, &header).expect("a new folder");
        let written = folder.add_run(&run(1), Some("{}")).expect("it is written");
        folder.add_ceiling("one", Ceiling { bytes_per_s: 1e9, requests_per_s: 1e5 }).expect("so");
        folder.add_search(&Search { held_per_s: 5.0, ..Search::default() }).expect("so");
        for winner in ["early", "late"] {
            let tuning = Tuning { winner: winner.into(), ..Tuning::default() };
            folder.add_tuning(&tuning).expect("so");
        }
        folder.add_environment(&serde_json::json!({"kernel": "6"})).expect("so");
        let servers = vec![Server { name: "h2o".into(), ..Server::default() }];
        let later = Participants { servers, ..Participants::default() };
        folder.add_participants(&later).expect("so");
        folder.add_cache(&CacheRun { block: 2, ..CacheRun::default() }).expect("so");
        let opened = Folder::read(&scratch.0).expect("it is readable");
        assert_eq!(opened.runs, std::slice::from_ref(&written));
        assert_eq!(written.outcome_file, "outcomes/1.json");
        assert_eq!(fs::read_to_string(scratch.0.join("outcomes/1.json")).expect("it is"), "{}");
        assert_eq!((opened.header.repetitions, opened.header.version), (3, VERSION));
        assert_eq!(opened.header.servers, later.servers);
        assert_eq!(opened.ceilings[0].1.requests_per_s, 1e5);
        assert_eq!((opened.searches.len(), opened.environments.len()), (1, 1));
        assert_eq!(opened.tuning.map(|tuning| tuning.winner).as_deref(), Some("late"));
        assert_eq!(opened.cache, [CacheRun { block: 2, ..CacheRun::default() }]);
        assert_eq!(opened.damage, Vec::<String>::new());
    }

    /// The reasons of its void runs are texts only, and a search decides by more.
    #[test]
    fn what_an_earlier_version_wrote_is_read_and_not_gone_on_with() {
        let scratch = Scratch::new("earlier");
        let folder = Folder::create(&scratch.0, &Header::default()).expect("a new folder");
        folder.add_run(&run(1), None).expect("it is written");
        drop(folder);
        let change = |name: &str, from: &str, to: &str| {
            let text = fs::read_to_string(scratch.0.join(name)).expect("it is there");
            assert!(text.contains(from), "{text}");
            fs::write(scratch.0.join(name), text.replace(from, to)).expect("writable");
        };
        change(HEADER, "\"version\": 4", "\"version\": 1");
        change(RUNS, "\"void\":[]", "\"void\":[\"generator saturated: its own lag\"]");
        let opened = Folder::read(&scratch.0).expect("it is readable");
        assert_eq!(opened.runs[0].void[0].to_string(), "generator saturated: its own lag");
        let why = Folder::resume(&scratch.0).map(drop).expect_err("it is not ours").to_string();
        assert!(why.contains("its version is 1") && !why.contains('\n'), "{why}");
        change(HEADER, "\"version\": 1", "\"version\": 5");
        let why = Folder::read(&scratch.0).expect_err("it is of a later version").to_string();
        assert!(why.contains("its version is 5"), "{why}");
    }

    /// The searches of an earlier record have no field for their block, and everything absent is
    /// named in one field.
    #[test]
    fn what_is_said_in_words_in_earlier_records_is_understood() {
        let scratch = Scratch::new("words");
        let skipped = "[{\"server\":\"domain huge\",\"reason\":\"no CPUs\",\"command\":\"\"}]";
        let header = format!("{{\"format\":\"{FORMAT}\",\"version\":2,\"skipped\":{skipped}}}");
        fs::create_dir_all(&scratch.0).expect("it can be made");
        fs::write(scratch.0.join(HEADER), header).expect("writable");
        let run = "{\"number\":1,\"purpose\":\"race\",\"block\":3}\n";
        fs::write(scratch.0.join(RUNS), run).expect("writable");
        let search = "{\"purpose\":\"race 3\",\"held_per_s\":5.0}\n";
        fs::write(scratch.0.join(SEARCHES), search).expect("writable");
        let Opened { header, runs, searches, .. } = Folder::read(&scratch.0).expect("readable");
        assert_eq!(header.skipped[0].what, Absent::Testbed { testbed: "huge".into() });
        assert_eq!((&runs[0].purpose, runs[0].block), (&Purpose::Race, 3));
        let Search { purpose, block, held_per_s, .. } = &searches[0];
        assert_eq!((purpose, *block, *held_per_s), (&Purpose::Race, 3, 5.0));
    }

    /// The purpose of a run was one text in version 3.
    #[test]
    fn a_record_of_version_3_is_read_with_a_notice() {
        let scratch = Scratch::new("purposes");
        let header = format!("{{\"format\":\"{FORMAT}\",\"version\":3}}");
        fs::create_dir_all(&scratch.0).expect("it can be made");
        fs::write(scratch.0.join(HEADER), header).expect("writable");
        fs::write(scratch.0.join(RUNS), "{\"number\":1,\"purpose\":\"rung 2\"}\n")
            .expect("writable");
        let opened = Folder::read(&scratch.0).expect("it is readable");
        assert_eq!(opened.runs[0].purpose, Purpose::Rung(2));
        let notice = opened.notice.expect("it was written in another form");
        assert!(notice.ends_with(": the purpose of a run is written in another form now"));
        assert!(!notice.contains('\n'), "{notice}");
    }

    /// Names of version 2 are read, with a notice, and the study goes on.
    #[test]
    fn a_record_of_domains_is_read_and_gone_on_with() {
        let scratch = Scratch::new("domains");
        let testbed = "one".to_owned();
        let definition = "[[testbeds]]\nname = \"one\"\n".to_owned();
        let described = Described { name: testbed.clone(), ..Described::default() };
        let header = Header { definition, testbeds: vec![described], ..Header::default() };
        let folder = Folder::create(&scratch.0, &header).expect("a new folder");
        let point = Point { testbed: testbed.clone(), ..Point::default() };
        folder.add_run(&Run { point, ..run(1) }, None).expect("it is written");
        let search = Search { testbed: testbed.clone(), ..Search::default() };
        folder.add_search(&search).expect("it is written");
        folder.add_ceiling(&testbed, Ceiling::default()).expect("it is written");
        folder.add_participants(&Participants::from_header(&header)).expect("it is written");
        drop(folder);
        let now = Folder::read(&scratch.0).expect("it is readable");
        assert_eq!(now.notice, None);
        for name in [HEADER, RUNS, SEARCHES, CEILINGS, PARTICIPANTS] {
            let text = fs::read_to_string(scratch.0.join(name)).expect("it is there");
            assert!(text.contains("testbed"), "{name}");
            let text = text.replace("testbed", "domain").replace("version\": 4", "version\": 2");
            fs::write(scratch.0.join(name), text).expect("writable");
        }
        let before = Folder::read(&scratch.0).expect("it is readable");
        let notice = before.notice.expect("its names were others");
        assert!(notice.contains("called a testbed now") && !notice.contains('\n'), "{notice}");
        assert_eq!((before.runs, before.searches), (now.runs, now.searches));
        assert_eq!((before.ceilings, before.header.testbeds), (now.ceilings, now.header.testbeds));
        let (_, resumed) = Folder::open(&scratch.0, &header, true).expect("it goes on");
        assert_eq!(resumed.runs.len(), 1);
    }

    #[test]
    fn half_a_line_is_cut_off_and_told() {
        let scratch = Scratch::new("half");
        let folder = Folder::create(&scratch.0, &Header::default()).expect("a new folder");
        folder.add_run(&run(1), None).expect("it is written");
        drop(folder);
        let runs = scratch.0.join(RUNS);
        let whole = fs::read_to_string(&runs).expect("it is there");
        fs::write(&runs, format!("{whole}{}", &whole[..40])).expect("writable");
        let opened = Folder::read(&scratch.0).expect("the rest is readable");
        assert_eq!((opened.runs.len(), opened.damage.len()), (1, 1));
        let (folder, resumed) = Folder::resume(&scratch.0).expect("it goes on");
        assert_eq!((resumed.runs.len(), resumed.damage), (1, opened.damage));
        folder.add_run(&run(2), None).expect("it is written");
        let opened = Folder::read(&scratch.0).expect("all is readable");
        let numbers: Vec<u64> = opened.runs.iter().map(|run| run.number).collect();
        assert_eq!((numbers.as_slice(), opened.damage.len()), ([1, 2].as_slice(), 0));
    }

    #[test]
    fn a_damaged_line_in_the_middle_is_an_error() {
        let scratch = Scratch::new("middle");
        let folder = Folder::create(&scratch.0, &Header::default()).expect("a new folder");
        fs::write(scratch.0.join(RUNS), "{\"number\": 1\n{}\n").expect("writable");
        let why = Folder::read(folder.path()).expect_err("line 1 is no JSON").to_string();
        assert!(why.contains("runs.jsonl: line 1: "), "{why}");
    }

    /// The runs of a file that cannot be read must not count as none: the next would be number 1,
    /// in the place of another.
    #[test]
    fn a_file_that_cannot_be_read_is_not_an_empty_one() {
        let scratch = Scratch::new("unread");
        let folder = Folder::create(&scratch.0, &Header::default()).expect("a new folder");
        folder.add_run(&run(1), None).expect("it is written");
        folder.add_run(&run(2), None).expect("it is written");
        drop(folder);
        let runs = scratch.0.join(RUNS);
        let mut bytes = fs::read(&runs).expect("it is there");
        let at = bytes.iter().rposition(|&byte| byte == b'x').expect("nginx");
        bytes[at] = 0xff;
        fs::write(&runs, bytes).expect("writable");
        let check = |expected: &str| {
            let read = Folder::read(&scratch.0).expect_err("it is damaged").to_string();
            let resumed =
                Folder::resume(&scratch.0).map(drop).expect_err("it is damaged").to_string();
            for why in [read, resumed] {
                assert!(why.contains(expected) && !why.contains('\n'), "{why}");
            }
        };
        check("runs.jsonl: line 2: ");
        fs::remove_file(&runs).expect("it is ours");
        fs::create_dir(&runs).expect("a folder cannot be read");
        check("runs.jsonl: Is a directory");
    }

    #[test]
    fn one_process_at_a_time_and_no_second_study() {
        let scratch = Scratch::new("lock");
        let folder = Folder::create(&scratch.0, &Header::default()).expect("a new folder");
        let why = Folder::resume(&scratch.0).map(|_| ()).expect_err("it is locked").to_string();
        assert!(why.ends_with("another process works on this study"), "{why}");
        drop(folder);
        let why = Folder::create(&scratch.0, &Header::default())
            .map(|_| ())
            .expect_err("it is")
            .to_string();
        assert!(why.contains("there is a study in it already"), "{why}");
        // Its runs would be taken for those of the new study.
        let folder = Folder::resume(&scratch.0).expect("it is not locked").0;
        folder.add_run(&run(1), None).expect("it is written");
        drop(folder);
        fs::remove_file(scratch.0.join(HEADER)).expect("it is there");
        let why = Folder::create(&scratch.0, &Header::default())
            .map(|_| ())
            .expect_err("it is")
            .to_string();
        assert!(why.contains("there is a runs.jsonl in it"), "{why}");
    }

    #[test]
    fn what_is_no_study_is_said_to_be_none() {
        let scratch = Scratch::new("other");
        let why = Folder::read(&scratch.0).expect_err("nothing is there").to_string();
        assert!(why.contains(": there is no such directory"), "{why}");
        fs::create_dir_all(&scratch.0).expect("it can be made");
        let head = "{\"format\": \"ropewalk-study\", \"version\": 99}";
        fs::write(scratch.0.join(HEADER), head).expect("writable");
        let why = Folder::read(&scratch.0).expect_err("of the future").to_string();
        assert!(why.ends_with("its version is 99, this program reads versions 1 to 4"), "{why}");
        fs::write(scratch.0.join(HEADER), "{\"format\": \"x\"}").expect("writable");
        let why = Folder::read(&scratch.0).expect_err("another's").to_string();
        assert!(why.ends_with("not a study: its format is `x`"), "{why}");
    }
}
