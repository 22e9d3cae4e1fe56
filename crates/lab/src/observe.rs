//! What is observed beside a run, as the difference of two looks at the server's group.

use crate::group::Group;
use crate::memory;
use std::collections::BTreeMap;

/// The counters of a server at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    cpu_ns: u64,
    disk_bytes_read: u64,
    resident_bytes: u64,
    caveat: Option<&'static str>,
}

impl Look {
    /// Reads them; a fraction of a millisecond.
    pub(crate) fn at(group: &Group) -> Self {
        Self {
            cpu_ns: group.cpu_ns(),
            disk_bytes_read: group.disk_bytes_read(),
            resident_bytes: memory::of(&group.processes()).proportional_bytes,
            caveat: group.accounting().caveat(),
        }
    }

    /// What has happened since an earlier look, by name, and what is not known.
    pub(crate) fn since(&self, before: &Self) -> (BTreeMap<String, f64>, Vec<String>) {
        let observed = [
            ("cpu_us", self.cpu_ns.saturating_sub(before.cpu_ns) as f64 / 1000.0),
            ("disk_read_bytes", self.disk_bytes_read.saturating_sub(before.disk_bytes_read) as f64),
            ("resident_bytes", self.resident_bytes as f64),
        ];
        let observed = observed.map(|(name, value)| (name.to_owned(), value)).into();
        (observed, self.caveat.iter().map(|&caveat| caveat.to_owned()).collect())
    }
}
