//! The file sets of the literature, by name. The statements of the papers, and those that
//! contradict each other, are in docs/load/workloads.md.

use super::FileSet;

/// A file set with a name and its source.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// The name as it is typed.
    pub name: &'static str,
    /// The source or the purpose, on one line.
    pub source: &'static str,
    directories: u64,
    singles: &'static [u64],
}

/// All presets.
pub static PRESETS: &[Preset] = &[
    Preset {
        name: "small",
        source: "for trials: what SPECweb99 gives a load of 0 connections",
        directories: 25,
        singles: &[],
    },
    Preset {
        name: "geneves",
        source: "Genevès III.C: 24,480 files, \"3.3 GB\"; SPECweb99 for 1,000 connections",
        directories: 680,
        singles: &[],
    },
    Preset {
        name: "radhakrishnan",
        source: "Radhakrishnan 3.1: 942 directories, \"4.7 GB\"; SPECweb99 for 1,399 connections",
        directories: 942,
        singles: &[],
    },
    Preset {
        name: "single-50KB",
        source: "one file of 50 KB, for experiments limited by bandwidth",
        directories: 0,
        singles: &[50 * 1024],
    },
    Preset {
        name: "single-1KB",
        source: "one file of 1 KB, for experiments limited by requests",
        directories: 0,
        singles: &[1024],
    },
];

impl Preset {
    /// The preset with this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        PRESETS.iter().find(|preset| preset.name == name)
    }

    /// The file set.
    #[must_use]
    pub fn set(&self) -> FileSet {
        let set = match self.singles {
            [] => FileSet::directories(self.directories),
            lengths => FileSet::singles(lengths),
        };
        set.expect("every row of the table is a set: a test makes them all")
    }
}
