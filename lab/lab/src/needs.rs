//! What some tests need of the machine beside programs. Where the machine lacks it, a test prints
//! so and is skipped.

use crate::Group;
use crate::testbed::{Device, Enclosure, Link, Network, Subnets};
use testkit::tools::{IPROUTE2, has};

/// Whether control groups can be made that bound and count memory.
pub(crate) fn memory_can_be_bounded() -> bool {
    is_had("memory in a control group", Enclosure::create().bound_memory(Some(64 << 20)))
}

/// Whether control groups can be made that count what this disk does.
pub(crate) fn disk_can_be_counted(device: &Device) -> bool {
    is_had("a disk in a control group", Enclosure::create().count_disk(Some(device)).map(drop))
}

/// Whether control groups can be made for servers.
pub(crate) fn groups_can_be_made() -> bool {
    let made = Group::create().folder().map(drop);
    is_had("a control group", made.ok_or("none can be made here".to_owned()))
}

/// Whether networks can be made.
pub(crate) fn networks_can_be_made() -> bool {
    let network = Network { subnets: 1, sources: None, link: Link::default() };
    has(&IPROUTE2) && is_had("a network", Subnets::create(&network).map(drop))
}

fn is_had(what: &str, had: Result<(), String>) -> bool {
    let why = |why| if testkit::is_root() { why } else { testkit::NEEDS_ROOT.to_owned() };
    had.map_err(why).inspect_err(|why| testkit::skip(what, why)).is_ok()
}
