//! Names of files and groups that outlive a process unless they are removed: unique, and such that
//! any process can find out whether their owner still lives.
//!
//! A name holds the owner's process number and start time, for numbers are used again; and the
//! namespace of that number, for a container may see the host's control groups, and the host the
//! groups that are made in it.

use crate::process;
use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "ropewalk";
const OF_SERVER: &str = "-server-group";

/// Makes a name that no other process, and no other caller in this one, has:
/// `ropewalk-PID-START-NAMESPACE-NUMBER`.
pub(crate) fn unique() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let pid = std::process::id();
    let start = process::start_ticks(pid).unwrap_or(0);
    format!("{PREFIX}-{pid}-{start}-{}-{number}", namespace())
}

/// The number of our namespace of process numbers; 0 where the kernel does not tell.
fn namespace() -> u64 {
    let said = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let digits: String = said.to_string_lossy().chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

/// Makes a name whose owner has ended, and that tests of another process do not make.
#[cfg(test)]
pub(crate) fn without_owner() -> String {
    format!("{PREFIX}-4194305-1-{}-{}", namespace(), std::process::id())
}

/// Makes a unique name, as [`unique`] does, for the control group of a server. Its guard removes
/// the group or, if the guard is killed too, the next lab that starts; neither ends the processes
/// in it.
pub(crate) fn unique_for_server() -> String {
    unique() + OF_SERVER
}

/// Whether a name was made by [`unique_for_server`].
pub(crate) fn is_for_server(name: &str) -> bool {
    name.ends_with(OF_SERVER)
}

/// Whether a name (with anything behind it, after another dash) is one of ours whose owner has
/// ended. For owners in other namespaces that is not known: their names are left to processes
/// there.
pub(crate) fn is_left_over(name: &str) -> bool {
    let mut parts = name.split('-');
    let (prefix, pid, start) = (parts.next(), parts.next(), parts.next());
    let (Some(PREFIX), Some(Ok(pid))) = (prefix, pid.map(str::parse::<u32>)) else { return false };
    let Some(Ok(start)) = start.map(str::parse::<u64>) else { return false };
    let is_near = parts.next().and_then(|part| part.parse().ok()) == Some(namespace());
    is_near && process::start_ticks(pid) != Some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_living_are_told_from_those_of_the_dead() {
        let (one, other) = (unique(), unique());
        assert_ne!(one, other);
        assert!(!is_left_over(&one) && !is_left_over(&format!("{one}-client-1")));
        let of_server = unique_for_server();
        assert!(is_for_server(&of_server) && !is_for_server(&one) && !is_left_over(&of_server));
        assert!(is_left_over(&(without_owner() + OF_SERVER)));
        assert!(is_left_over(&without_owner()), "no process has such a number");
        let again = without_owner().replace("4194305", &std::process::id().to_string());
        assert!(is_left_over(&again), "the number is used again");
        let elsewhere = format!("-{}-", namespace() + 1);
        let elsewhere = without_owner().replace(&format!("-{}-", namespace()), &elsewhere);
        assert!(!is_left_over(&elsewhere), "the owner may live in its namespace");
        for foreign in ["ropewalk-lab-1-0", "ropewalk", "docker-1-2-3", "ropewalk-1-x-0"] {
            assert!(!is_left_over(foreign), "{foreign}");
        }
    }
}
