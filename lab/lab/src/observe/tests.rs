//! Observations of a process whose work is known.

use super::*;
use crate::needs;
use crate::testbed::{Accessed, Memory};
use std::process::{Command, Stdio};

/// Enters the groups of `$1`, waits for a line, works, and waits for another line.
const WORKER: &str = r#"for group in $1; do echo 0 > "$group"; done
    read -r line; eval "$2"; echo done; read -r line"#;

/// Observes a shell that works in a group, in an enclosure; none where there can be no such groups.
fn observe(work: &str, system_calls: bool, device: Option<Device>) -> Option<Observed> {
    if !needs::memory_can_be_bounded() {
        return None;
    }
    if device.as_ref().is_some_and(|device| !needs::disk_can_be_counted(device)) {
        return None;
    }
    let mut enclosure = Enclosure::create();
    enclosure.bound_memory(None).expect("root may count memory");
    if device.is_some() {
        enclosure.count_disk(device.as_ref()).expect("root may count what the disk does");
    }
    let mut group = Group::create_in(&enclosure.enclosing());
    let mut shell = Command::new("sh")
        .args(["-c", WORKER, "sh", &group.entrances(), work])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("there is a shell");
    group.set_root(shell.id());
    while group.processes().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let cpus = os::affinity::allowed_cpus();
    let enclosure = Some(&enclosure);
    let watched = Watched {
        groups: vec![&group],
        enclosure,
        cpus,
        device,
        system_calls,
        ..Watched::default()
    };
    let observer = Observer::new(watched);
    let first = observer.snapshot();
    let mut stdin = shell.stdin.take().expect("it is piped");
    std::io::Write::write_all(&mut stdin, b"go\n").expect("it reads");
    let mut said = [0; 5];
    let stdout = shell.stdout.as_mut().expect("it is piped");
    std::io::Read::read_exact(stdout, &mut said).expect("it says done");
    let observed = observer.since(&first);
    drop(stdin);
    shell.wait().expect("it is our child");
    Some(observed)
}

#[test]
fn work_and_system_calls_are_seen() {
    // The work is long enough to show in counts of 10 ms ticks.
    let work = "dd if=/dev/zero of=/dev/null bs=1 count=300000 2> /dev/null";
    let Some(observed) = observe(work, true, None) else { return };
    assert!(observed.cpu_us > 1000, "{observed:?}");
    let split = observed.cpu_user_us.zip(observed.cpu_system_us);
    let (user_us, system_us) = split.expect("there is a group");
    assert!(user_us + system_us > 0, "{observed:?}");
    assert!(observed.resident_bytes > 0 && observed.page_cache_bytes.is_some());
    assert!(observed.switches_voluntary.is_some_and(|count| count >= 1), "{observed:?}");
    assert_eq!(observed.cores.len(), os::affinity::allowed_cpus().len());
    assert!(observed.cpus_busy_share.is_some_and(|share| share > 0.0 && share <= 1.0));
    match observed.system_calls {
        Some(calls) => assert!(calls >= 600_000, "{calls}"),
        None => assert!(observed.not_available.iter().any(|line| line.contains("system calls"))),
    }
}

/// The read of a file that is not in memory is counted for the group and for the disk.
#[test]
fn reads_of_the_disk_are_seen_and_reads_of_memory_are_none() {
    let (files, folder) = Accessed::example("observed", 3, 100_000);
    let device = Device::find(&folder.0).ok();
    let work = format!("cat {}/* > /dev/null", folder.0.display());
    files.evict().expect("they are there");
    let Some(cold) = observe(&work, false, device.clone()) else { return };
    assert!(cold.block_read_bytes.is_some_and(|bytes| bytes >= 300_000), "{cold:?}");
    assert!(cold.device_read_bytes >= cold.block_read_bytes, "{cold:?}");
    assert!(cold.page_cache_bytes.is_some_and(|bytes| bytes >= 300_000), "{cold:?}");
    let judge = |observed: &Observed| crate::testbed::DiskIo::None.judge(observed.block_read_bytes);
    assert!(judge(&cold).is_err());
    // Whatever else is read for it may have left memory, too.
    testkit::undisturbed(|| {
        let warm = observe(&work, false, device.clone()).ok_or("it cannot be observed any more")?;
        match warm.block_read_bytes {
            Some(0) if judge(&warm).is_ok() => Ok(()),
            _ => Err(format!("{warm:?}")),
        }
    });
    assert!(Memory::default().check().is_err());
}

/// Groups of version 1 count nothing on a disk for which no group has had a rule yet. No loop
/// device has had one just after the machine has started.
#[test]
fn reads_of_a_disk_without_any_rule_are_seen() {
    let disk = match testkit::LoopDisk::new(1 << 20) {
        Ok(disk) => disk,
        Err(why) => return testkit::skip("a loop device", &why),
    };
    let number = disk.name().strip_prefix("loop").expect("a loop device");
    let minor = number.parse().expect("a number");
    let device = Device { name: disk.name().to_owned(), major: 7, minor };
    let path = format!("/dev/{}", disk.name());
    let work = format!("dd if={path} of=/dev/null bs=64k iflag=direct 2> /dev/null");
    let Some(observed) = observe(&work, false, Some(device)) else { return };
    assert!(observed.block_read_bytes.is_some_and(|bytes| bytes >= 1 << 20), "{observed:?}");
}

/// Observations can be written and read back, and missing ones are named.
#[test]
fn observations_survive_their_file() {
    let Some(observed) = observe(":", false, None) else { return };
    let text = serde_json::to_string(&observed).expect("numbers and names only");
    let back: Observed = serde_json::from_str(&text).expect("it was written by the same code");
    assert_eq!(back, observed);
    assert!(
        observed.not_available.iter().any(|line| line.starts_with("system calls: not requested"))
    );
    assert!(observed.not_available.iter().any(|line| line.starts_with("reads of the disk")));
}

#[test]
fn derived_figures_need_what_they_are_derived_from() {
    let mut observed = Observed { elapsed_us: 100, ..Observed::default() };
    assert_eq!((observed.cycles_per_instruction(), observed.run_queue_mean()), (None, None));
    observed.hardware = Hardware { cycles: Some(30), instructions: Some(20), ..observed.hardware };
    observed.run_queue_wait_us = Some(250);
    assert_eq!(observed.cycles_per_instruction(), Some(1.5));
    assert_eq!(observed.run_queue_mean(), Some(2.5));
}

#[test]
fn shared_memory_is_no_page_cache() {
    let check = |stat: &str, expected| assert_eq!(parse_page_cache(stat), expected, "{stat}");
    check("anon 5\nfile 900\nshmem 300\nfile_mapped 9\nshmem_thp 7\n", Some(600));
    check("cache 1\nshmem 1\ntotal_cache 900\ntotal_shmem 300\n", Some(600));
    check("cache 1\ntotal_cache 900\n", Some(900));
    check("", None);
}

#[test]
fn the_load_is_read() {
    assert_eq!(parse_load("0.20 0.18 0.12 3/80 11206\n"), (Some(0.2), Some(3)));
    assert_eq!(parse_load(""), (None, None));
}
