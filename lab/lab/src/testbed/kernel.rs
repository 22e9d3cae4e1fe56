//! Settings of the kernel (sysctl) that are changed while a testbed is entered, and put back
//! afterwards.
//!
//! With a network of its own a testbed changes them in its namespaces only, as far as namespaces
//! have them, and other processes are not affected. The other settings are the whole machine's:
//! they are put back, also when this process is killed, and only one process at a time may change
//! any.

use super::network::Subnets;
use crate::group::as_root;
use os::file_lock::FileLock;
use os::guard::Guard;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

/// The families of settings that may be set: the others have nothing to do with serving.
const FAMILIES: [&str; 4] = ["net.", "vm.", "fs.", "kernel."];

/// Settings that cannot be put back: switches that stay on until the machine restarts, switches
/// that have a position from which they cannot be turned back, and files that are orders to the
/// kernel rather than settings.
const ONE_WAY: [&str; 8] = [
    "kernel.modules_disabled",
    "kernel.kexec_load_disabled",
    "kernel.kexec_load_limit_panic",
    "kernel.kexec_load_limit_reboot",
    "kernel.yama.ptrace_scope",
    "kernel.unprivileged_bpf_disabled",
    "vm.drop_caches",
    "vm.compact_memory",
];

/// Pairs of settings that exclude each other. The one that is not in force reads 0; to set it
/// clears the other (Documentation/admin-guide/sysctl/vm.rst), which putting back a 0 does not
/// restore.
const PAIRS: [(&str, &str); 3] = [
    ("vm.dirty_bytes", "vm.dirty_ratio"),
    ("vm.dirty_background_bytes", "vm.dirty_background_ratio"),
    ("vm.overcommit_kbytes", "vm.overcommit_ratio"),
];

/// How long to wait for another study, which holds the lock during a run.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

const ROOT: &str = "/proc/sys";

/// Settings by their names: `"net.core.somaxconn" = 4096`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KernelSettings(BTreeMap<String, Value>);

/// The value as it is written: a number, or text that holds several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged, expecting = "the value of a setting is a number, or text that holds several")]
enum Value {
    Number(i64),
    Text(String),
}

/// Settings of the whole machine that are put back when this value is dropped.
#[derive(Debug)]
pub struct Settings {
    /// Files and their former contents.
    before: Vec<(PathBuf, String)>,
    /// Puts the settings back if this process is killed, and holds the lock until then.
    _guard: Guard,
    /// Held so that no other process changes settings meanwhile. Released last: the guard must have
    /// ended by then, else it would overwrite what others have set.
    _lock: FileLock,
}

impl KernelSettings {
    /// Checks that the names can be those of settings that can be put back.
    ///
    /// # Errors
    /// The name that cannot, in a line.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in &self.0 {
            let is_plain = name.split('.').all(|part| {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                !part.is_empty() && part.bytes().all(plain)
            });
            if !is_plain || !FAMILIES.iter().any(|family| name.starts_with(family)) {
                return Err(format!("kernel: {name:?} is no setting of net, vm, fs or kernel"));
            }
            if ONE_WAY.contains(&name.as_str()) {
                return Err(format!("kernel: {name} cannot be put back once it is set"));
            }
            if value.text().contains('\n') || value.text().is_empty() {
                return Err(format!("kernel: the value of {name:?} must be one line"));
            }
        }
        Ok(())
    }

    /// The names of all settings.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Applies the settings: in the namespaces if there are any and they have the setting, else for
    /// the machine.
    pub(super) fn apply(&self, subnets: Option<&Subnets>) -> Result<Vec<Settings>, String> {
        let mut of_machine = Vec::new();
        for (name, value) in &self.0 {
            let inside = match subnets.filter(|_| name.starts_with("net.")) {
                Some(subnets) => set_inside(subnets, name, &value.text())?,
                None => false,
            };
            if !inside {
                of_machine.push((name.as_str(), value.text()));
            }
        }
        if of_machine.is_empty() {
            return Ok(Vec::new());
        }
        Settings::set(Path::new(ROOT), &lock_file(), &of_machine).map(|settings| vec![settings])
    }
}

impl Value {
    fn text(&self) -> String {
        match self {
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }
}

/// Sets `name` in each namespace; returns false if namespaces do not have it.
fn set_inside(subnets: &Subnets, name: &str, value: &str) -> Result<bool, String> {
    let file = file_of(Path::new(ROOT), name);
    for namespace in subnets.namespaces() {
        let written = system::namespaces::in_network(&namespace, || write(&file, value));
        match written.and_then(|written| written) {
            Ok(()) => {}
            Err(why) if is_of_machine(&why) => return Ok(false),
            Err(why) => return Err(format!("{name} = {value} in a namespace: {why}")),
        }
    }
    Ok(true)
}

/// Whether an error in a namespace means that the setting is the machine's: namespaces do not show
/// such settings, or may not write them.
fn is_of_machine(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

impl Settings {
    /// Sets files below `root` and keeps their former contents.
    pub(super) fn set(
        root: &Path,
        lock: &Path,
        settings: &[(&str, String)],
    ) -> Result<Self, String> {
        let lock = acquire_lock(lock, LOCK_TIMEOUT)?;
        let mut before = Vec::new();
        for (name, _) in settings {
            let file = file_of(root, name);
            let old = fs::read_to_string(&file).map_err(|why| format!("kernel: {name}: {why}"))?;
            before.push((file, old.trim().to_owned()));
            is_in_force(root, name)?;
        }
        let guard = guard(&lock, &before).map_err(|why| format!("sh: {why}"))?;
        // From here on an early return puts everything back.
        let mut set = Self { before, _guard: guard, _lock: lock };
        for (index, (name, value)) in settings.iter().enumerate() {
            if let Err(why) = write(&set.before[index].0, value) {
                let more = set.put_back().err().map_or_else(String::new, |why| format!("; {why}"));
                let hint = as_root();
                return Err(format!("{name} = {value} cannot be set{hint}: {why}{more}"));
            }
        }
        Ok(set)
    }

    /// Puts everything back, and checks that each setting is as it was.
    ///
    /// # Errors
    /// The settings that are not, and how to fix them, in a line.
    pub(super) fn put_back(&mut self) -> Result<(), String> {
        let mut left = Vec::new();
        for (file, value) in self.before.drain(..).rev() {
            if let Err(why) = write(&file, &value) {
                let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
                let file = file.display();
                left.push(format!(
                    "{file} cannot be put back to what it was ({why}): `echo {value} > {file}`"
                ));
            }
        }
        if left.is_empty() { Ok(()) } else { Err(left.join("; ")) }
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        // Callers that need the errors have called `put_back` before.
        let _ = self.put_back();
    }
}

/// Checks that a setting can be put back to its present value: its counterpart in [`PAIRS`] may be
/// in force instead.
fn is_in_force(root: &Path, name: &str) -> Result<(), String> {
    let pairs = PAIRS.iter().flat_map(|&(one, other)| [(one, other), (other, one)]);
    let Some((_, other)) = pairs.into_iter().find(|(one, _)| *one == name) else { return Ok(()) };
    let value = |name| fs::read_to_string(file_of(root, name)).unwrap_or_default();
    let (own, others) = (value(name), value(other));
    match own.trim() == "0" && !["", "0"].contains(&others.trim()) {
        true => Err(format!(
            "kernel: {name} would replace {other}, which is in force here and could not be put \
             back: set {other}"
        )),
        false => Ok(()),
    }
}

/// Writes a value and checks that the kernel has taken it unchanged.
fn write(file: &Path, value: &str) -> io::Result<()> {
    // An empty value is a line too: writing nothing at all changes nothing.
    fs::write(file, format!("{value}\n"))?;
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let now = fs::read_to_string(file)?;
    match words(&now) == words(value) {
        true => Ok(()),
        false => Err(io::Error::other(format!("the kernel made it {}", now.trim()))),
    }
}

fn file_of(root: &Path, name: &str) -> PathBuf {
    root.join(name.replace('.', "/"))
}

/// The path of the lock, one for the whole machine: only root may change settings, so it lies in
/// /run for root.
fn lock_file() -> PathBuf {
    let folder = if os::process::is_root() { PathBuf::from("/run") } else { std::env::temp_dir() };
    folder.join("ropewalk-kernel-settings.lock")
}

/// Takes the lock; waits for at most `within` while another process holds it.
fn acquire_lock(path: &Path, within: Duration) -> Result<FileLock, String> {
    let explain = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    // A file that another user has made in a folder that all may write to may be opened, but not
    // "created".
    let open = || {
        File::options().read(true).open(path).or_else(|why| match why.kind() {
            io::ErrorKind::NotFound => File::create(path),
            _ => Err(why),
        })
    };
    let begun_us = os::clock::now();
    loop {
        match FileLock::take(open().map_err(|why| explain(&why))?) {
            Ok(lock) => return Ok(lock),
            Err(fs::TryLockError::Error(why)) => return Err(explain(&why)),
            Err(fs::TryLockError::WouldBlock) => {}
        }
        if u128::from(os::clock::now() - begun_us) >= within.as_micros() {
            let other = "another study has changed settings of the kernel: wait until it has ended";
            return Err(explain(&other));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn guard(lock: &FileLock, before: &[(PathBuf, String)]) -> io::Result<Guard> {
    const RESTORE: &str = r#"
        while [ $# -gt 1 ]; do printf '%s\n' "$2" > "$1"; shift 2; done"#;
    let pairs = before.iter().rev();
    Guard::with_lock(
        lock.file(),
        RESTORE,
        pairs.flat_map(|(file, value)| [file.clone(), PathBuf::from(value)]),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::testbed::accessed::Removed;
    use testkit::{Victim, comes_true, ignores_hangup};

    /// A folder that stands for `/proc/sys`, with two settings in it.
    pub(in crate::testbed) fn example(name: &str) -> Removed {
        let here = std::env::current_exe().expect("it runs");
        let root = here.with_extension(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("vm")).expect("the target directory is writable");
        fs::create_dir_all(root.join("net/core")).expect("the target directory is writable");
        fs::write(root.join("vm/dirty_ratio"), "20\n").expect("it is writable");
        fs::write(root.join("net/core/somaxconn"), "4096\n").expect("it is writable");
        Removed(root)
    }

    fn value_of(root: &Path, name: &str) -> String {
        fs::read_to_string(file_of(root, name)).expect("it is there").trim().to_owned()
    }

    #[test]
    fn settings_are_put_back() {
        let root = example("settings");
        let (root, lock) = (&root.0, root.0.join("lock"));
        let wanted = [("vm.dirty_ratio", "5".to_owned()), ("net.core.somaxconn", "9".to_owned())];
        let set = Settings::set(root, &lock, &wanted).expect("both are there");
        assert_eq!(
            (value_of(root, "vm.dirty_ratio"), value_of(root, "net.core.somaxconn")),
            ("5".into(), "9".into())
        );
        let second = acquire_lock(&lock, Duration::ZERO).expect_err("it is locked");
        assert!(second.contains("another study"), "{second}");
        drop(set);
        assert_eq!(
            (value_of(root, "vm.dirty_ratio"), value_of(root, "net.core.somaxconn")),
            ("20".into(), "4096".into())
        );
    }

    #[test]
    fn a_setting_that_is_not_there_leaves_the_others_alone() {
        let root = example("absent");
        let (root, lock) = (&root.0, root.0.join("lock"));
        let wanted = [("vm.dirty_ratio", "5".to_owned()), ("vm.gone", "9".to_owned())];
        let why = Settings::set(root, &lock, &wanted).expect_err("one is not there");
        assert!(why.starts_with("kernel: vm.gone: "), "{why}");
        assert_eq!(value_of(root, "vm.dirty_ratio"), "20");
    }

    #[test]
    fn an_empty_setting_is_put_back() {
        let root = example("empty");
        let (root, lock) = (&root.0, root.0.join("lock"));
        fs::write(root.join("net/core/somaxconn"), "\n").expect("it is writable");
        let wanted = [("net.core.somaxconn", "9".to_owned())];
        let mut set = Settings::set(root, &lock, &wanted).expect("it is there");
        assert_eq!(value_of(root, "net.core.somaxconn"), "9");
        assert_eq!(set.put_back(), Ok(()));
        let file = fs::read_to_string(root.join("net/core/somaxconn")).expect("it is there");
        assert_eq!(file, "\n", "the kernel takes an empty write for none");
    }

    #[test]
    fn what_is_not_put_back_is_named() {
        let root = example("kept");
        let (root, lock) = (&root.0, root.0.join("lock"));
        let wanted = [("vm.dirty_ratio", "5".to_owned())];
        let mut set = Settings::set(root, &lock, &wanted).expect("it is there");
        fs::remove_file(root.join("vm/dirty_ratio")).expect("it is there");
        fs::create_dir(root.join("vm/dirty_ratio")).expect("nothing is there any more");
        let why = set.put_back().expect_err("nothing can be written there");
        let command = format!("`echo 20 > {}`", root.join("vm/dirty_ratio").display());
        assert!(why.ends_with(&command) && !why.contains('\n'), "{why}");
    }

    /// The kernel ignores a 0 that is put back into one setting of a pair, and the value of the
    /// other is lost.
    #[test]
    fn of_two_that_say_the_same_the_one_in_force_can_be_set() {
        let root = example("pair");
        let (root, lock) = (&root.0, root.0.join("lock"));
        fs::write(root.join("vm/dirty_bytes"), "0\n").expect("it is writable");
        let set = |name| Settings::set(root, &lock, &[(name, "9".to_owned())]).map(drop);
        let why = set("vm.dirty_bytes").expect_err("it could not be put back");
        assert!(why.ends_with("set vm.dirty_ratio"), "{why}");
        assert_eq!(set("vm.dirty_ratio"), Ok(()));
        fs::write(root.join("vm/dirty_ratio"), "0\n").expect("it is writable");
        fs::write(root.join("vm/dirty_bytes"), "4096\n").expect("it is writable");
        let why = set("vm.dirty_ratio").expect_err("it could not be put back");
        assert!(why.ends_with("set vm.dirty_bytes"), "{why}");
    }

    /// A process that holds the lock during a run is waited for.
    #[test]
    fn a_lock_is_waited_for() {
        let root = example("waited");
        let lock = root.0.join("lock");
        let held = acquire_lock(&lock, Duration::ZERO).expect("the lock is free");
        let waiting = thread::spawn(move || acquire_lock(&lock, Duration::from_secs(30)).map(drop));
        thread::sleep(Duration::from_millis(100));
        drop(held);
        assert_eq!(waiting.join().expect("nothing failed in it"), Ok(()));
    }

    /// The variable that makes the next test do something: the folder in which it sets something.
    const VICTIM: &str = "ROPEWALK_LAB_SETTING";

    /// Not a test by itself: it changes a setting, writes down the id of its guard, and waits to be
    /// killed.
    #[test]
    fn setting_victim() {
        let Some(root) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
        let wanted = [("vm.dirty_ratio", "5".to_owned())];
        let set = Settings::set(&root, &root.join("lock"), &wanted).expect("it is there");
        eprintln!("{}", set._guard.pid());
        thread::sleep(Duration::from_secs(600));
    }

    /// A process that changed settings after the owner was killed, and before the guard has acted,
    /// would take the changed value for the old one.
    #[test]
    fn settings_that_are_not_put_back_yet_cannot_be_changed() {
        let folder = example("guarded");
        let (root, lock) = (&folder.0, folder.0.join("lock"));
        let mut victim = Victim::start("testbed::kernel::tests::setting_victim", VICTIM, root);
        let guard =
            victim.printed_words().next().and_then(|word| word.parse().ok()).expect("a number");
        let state = || fs::read_to_string(format!("/proc/{guard}/status")).unwrap_or_default();
        assert!(comes_true(|| ignores_hangup(guard)));
        os::signals::send("STOP", &[guard]);
        assert!(comes_true(|| state().contains("State:\tT")), "{}", state());
        // While its owner lives nothing makes the guard continue.
        assert!(acquire_lock(&lock, Duration::ZERO).is_err());
        victim.kill();
        // The kernel may have let the guard continue: then the holder of the lock finds the old
        // value.
        let locked = acquire_lock(&lock, Duration::ZERO);
        assert!(locked.is_err() || value_of(root, "vm.dirty_ratio") == "20", "{locked:?}");
        drop(locked);
        os::signals::send("CONT", &[guard]);
        assert!(comes_true(|| acquire_lock(&lock, Duration::ZERO).is_ok()));
        assert_eq!(value_of(root, "vm.dirty_ratio"), "20");
    }

    #[track_caller]
    fn check(text: &str, expected: Result<(), &str>) {
        let settings: KernelSettings = toml::from_str(text).expect("it is a table");
        match (settings.check(), expected) {
            (Ok(()), Ok(())) => {}
            (Err(why), Err(part)) => assert!(why.contains(part), "{why}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn only_settings_can_be_set() {
        check("\"net.core.somaxconn\" = 1\n\"net.ipv4.tcp_rmem\" = \"1 2 3\"", Ok(()));
        check("\"dev.cdrom.lock\" = 1", Err("no setting of net"));
        check("\"vm.../../etc/passwd\" = \"x\"", Err("no setting of net"));
        check("\"kernel.modules_disabled\" = 1", Err("cannot be put back"));
        check("\"kernel.yama.ptrace_scope\" = 3", Err("cannot be put back"));
        check("\"vm.swappiness\" = \"1\\n2\"", Err("must be one line"));
    }
}
