//! The programs and privileges that tests need and that a machine may lack.
//!
//! A missing one is reported prominently, and counted; where `CI=true` it must not be missing.

use lab::testbed::{Link, Network, Subnets};
use testkit::tools::IPROUTE2;
use testkit::{NEEDS_ROOT, is_root};

pub(crate) use testkit::{has, in_ci, skip, succeeded as run};

/// Whether networks can be created; if not, reports why.
pub(crate) fn networks_can_be_made() -> bool {
    let network = Network { subnets: 1, sources: None, link: Link::default() };
    let say = |why: &String| skip("a network", if is_root() { why } else { NEEDS_ROOT });
    has(&IPROUTE2) && Subnets::create(&network).inspect_err(say).is_ok()
}
