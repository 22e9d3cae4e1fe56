//! Settings of the kernel (sysctl) for the time of a domain, and as they were afterwards.
//!
//! With a network of its own a domain has them in its namespaces, as far as namespaces have them,
//! and nobody else notices. The others are the whole machine's: they are put back, also when this
//! process is killed, and only one process at a time may change any.

use super::network::Subnets;
use crate::guard::Guard;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// What may be set: the rest has nothing to do with serving.
const FAMILIES: [&str; 4] = ["net.", "vm.", "fs.", "kernel."];

const ROOT: &str = "/proc/sys";

/// Settings by their names: `"net.core.somaxconn" = 4096`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KernelSettings(BTreeMap<String, Value>);

/// As it is written: a number, or text that holds several.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Value {
    Number(i64),
    Text(String),
}

/// Settings of the whole machine that are put back when this is dropped.
#[derive(Debug)]
pub struct Settings {
    /// Files and what stood in them.
    before: Vec<(PathBuf, String)>,
    /// Puts them back if we are killed, and holds the lock until it has.
    _guard: Guard,
    /// Held so that nobody else changes settings meanwhile.
    _lock: File,
}

impl KernelSettings {
    /// Whether the names can be settings.
    ///
    /// # Errors
    /// Which one cannot, in a line.
    pub fn check(&self) -> Result<(), String> {
        for (name, value) in &self.0 {
            let is_plain = name.split('.').all(|part| {
                let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
                !part.is_empty() && part.bytes().all(plain)
            });
            if !is_plain || !FAMILIES.iter().any(|family| name.starts_with(family)) {
                return Err(format!("kernel: {name:?} is no setting of net, vm, fs or kernel"));
            }
            if value.text().contains('\n') || value.text().is_empty() {
                return Err(format!("kernel: the value of {name:?} must be one line"));
            }
        }
        Ok(())
    }

    /// The names of all.
    pub(super) fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    /// Sets them: in the namespaces where there are any, else for the machine.
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

/// Sets it in each namespace; false if namespaces do not have it.
fn set_inside(subnets: &Subnets, name: &str, value: &str) -> Result<bool, String> {
    let file = file_of(Path::new(ROOT), name);
    for namespace in subnets.namespaces() {
        let written = os::namespaces::in_network(&namespace, || write(&file, value));
        match written.and_then(|written| written) {
            Ok(()) => {}
            Err(why) if is_of_machine(&why) => return Ok(false),
            Err(why) => return Err(format!("{name} = {value} in a namespace: {why}")),
        }
    }
    Ok(true)
}

/// Namespaces show what is the machine's not at all, or may not write it.
fn is_of_machine(why: &io::Error) -> bool {
    matches!(why.kind(), io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied)
}

impl Settings {
    /// Sets files below `root` and remembers what stood in them.
    pub(super) fn set(
        root: &Path,
        lock: &Path,
        settings: &[(&str, String)],
    ) -> Result<Self, String> {
        let lock = take(lock)?;
        let mut before = Vec::new();
        for (name, _) in settings {
            let file = file_of(root, name);
            let old = fs::read_to_string(&file).map_err(|why| format!("kernel: {name}: {why}"))?;
            before.push((file, old.trim().to_owned()));
        }
        let guard = guard(&lock, &before).map_err(|why| format!("sh: {why}"))?;
        // From here on leaving puts everything back.
        let set = Self { before, _guard: guard, _lock: lock };
        for ((name, value), (file, _)) in settings.iter().zip(&set.before) {
            write(file, value)
                .map_err(|why| format!("{name} = {value} cannot be set (try as root): {why}"))?;
        }
        Ok(set)
    }
}

impl Drop for Settings {
    fn drop(&mut self) {
        for (file, value) in self.before.iter().rev() {
            // Who could set it can put it back.
            let _ = fs::write(file, value);
        }
    }
}

/// Writes a value and looks whether the kernel has taken it as it is.
fn write(file: &Path, value: &str) -> io::Result<()> {
    fs::write(file, value)?;
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

fn lock_file() -> PathBuf {
    std::env::temp_dir().join("ropewalk-kernel-settings.lock")
}

fn take(path: &Path) -> Result<File, String> {
    let explain = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let file = File::create(path).map_err(|why| explain(&why))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(fs::TryLockError::WouldBlock) => Err(explain(
            &"another study has changed settings of the kernel: wait until it has ended",
        )),
        Err(fs::TryLockError::Error(why)) => Err(explain(&why)),
    }
}

fn guard(lock: &File, before: &[(PathBuf, String)]) -> io::Result<Guard> {
    const RESTORE: &str = r#"
        while [ $# -gt 1 ]; do printf %s "$2" > "$1"; shift 2; done"#;
    let pairs = before.iter().rev();
    Guard::with_lock(
        lock,
        RESTORE,
        pairs.flat_map(|(file, value)| [file.clone(), PathBuf::from(value)]),
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::domain::accessed::Removed;
    use crate::guard::is_deaf;
    use testkit::{Victim, comes_true};

    /// A folder that stands for `/proc/sys`, with two settings in it.
    pub(in crate::domain) fn example(name: &str) -> Removed {
        let here = std::env::current_exe().expect("it runs");
        let root = here.with_extension(format!("{name}-{}", std::process::id()));
        fs::create_dir_all(root.join("vm")).expect("the target directory is writable");
        fs::create_dir_all(root.join("net/core")).expect("the target directory is writable");
        fs::write(root.join("vm/dirty_ratio"), "20\n").expect("it is writable");
        fs::write(root.join("net/core/somaxconn"), "4096\n").expect("it is writable");
        Removed(root)
    }

    fn said(root: &Path, name: &str) -> String {
        fs::read_to_string(file_of(root, name)).expect("it is there").trim().to_owned()
    }

    #[test]
    fn settings_are_put_back() {
        let root = example("settings");
        let (root, lock) = (&root.0, root.0.join("lock"));
        let wanted = [("vm.dirty_ratio", "5".to_owned()), ("net.core.somaxconn", "9".to_owned())];
        let set = Settings::set(root, &lock, &wanted).expect("both are there");
        assert_eq!(
            (said(root, "vm.dirty_ratio"), said(root, "net.core.somaxconn")),
            ("5".into(), "9".into())
        );
        let second = Settings::set(root, &lock, &wanted).expect_err("it is locked");
        assert!(second.contains("another study"), "{second}");
        drop(set);
        assert_eq!(
            (said(root, "vm.dirty_ratio"), said(root, "net.core.somaxconn")),
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
        assert_eq!(said(root, "vm.dirty_ratio"), "20");
    }

    /// The variable that makes the next test do something: the folder in which it sets something.
    const VICTIM: &str = "ROPEWALK_LAB_SETTING";

    /// Not a test by itself: it changes a setting, says who guards it, and waits to be killed.
    #[test]
    fn setting_victim() {
        let Some(root) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
        let wanted = [("vm.dirty_ratio", "5".to_owned())];
        let set = Settings::set(&root, &root.join("lock"), &wanted).expect("it is there");
        eprintln!("{}", set._guard.pid());
        std::thread::sleep(std::time::Duration::from_secs(600));
    }

    /// Who comes when the owner has been killed and the guard has not acted yet would take the
    /// changed value for the old one.
    #[test]
    fn nobody_changes_settings_that_are_not_put_back_yet() {
        let folder = example("guarded");
        let (root, lock) = (&folder.0, folder.0.join("lock"));
        let mut victim = Victim::start("domain::kernel::tests::setting_victim", VICTIM, root);
        let guard = victim.said().next().and_then(|word| word.parse().ok()).expect("a number");
        let state = || fs::read_to_string(format!("/proc/{guard}/status")).unwrap_or_default();
        assert!(comes_true(|| is_deaf(guard)));
        os::signals::send("STOP", &[guard]);
        assert!(comes_true(|| state().contains("State:\tT")), "{}", state());
        // As long as its owner lives nothing sets the guard going again.
        assert!(take(&lock).is_err());
        victim.kill();
        // The kernel may have let it go on: whoever has the lock finds the old value.
        let locked = take(&lock);
        assert!(locked.is_err() || said(root, "vm.dirty_ratio") == "20", "{locked:?}");
        drop(locked);
        os::signals::send("CONT", &[guard]);
        assert!(comes_true(|| take(&lock).is_ok()));
        assert_eq!(said(root, "vm.dirty_ratio"), "20");
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
        check("\"vm.swappiness\" = \"1\\n2\"", Err("must be one line"));
    }
}
