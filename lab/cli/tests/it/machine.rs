//! The programs and privileges that tests need and that a machine may lack.
//!
//! A missing one is reported prominently, and counted; where `CI=true` it must not be missing.

use std::process::{Command, Output, Stdio};

use lab::testbed::{Link, Network, Subnets};
use testkit::tools::IPROUTE2;
use testkit::{NEEDS_ROOT, is_root};

pub(crate) use testkit::{has, in_ci, skip};

/// Runs the command to its end; returns whether the exit status was 0, standard output and standard
/// error.
pub(crate) fn run(command: &mut Command) -> (bool, String, String) {
    let Output { status, stdout, stderr } = command.stdin(Stdio::null()).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (status.success(), text(stdout), text(stderr))
}

/// Whether networks can be created; if not, reports why.
pub(crate) fn networks_can_be_made() -> bool {
    let network = Network { subnets: 1, sources: None, link: Link::default() };
    let say = |why: &String| skip("a network", if is_root() { why } else { NEEDS_ROOT });
    has(&IPROUTE2) && Subnets::create(&network).inspect_err(say).is_ok()
}
