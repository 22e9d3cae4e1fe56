//! Knobs of earlier versions. A configuration that has one is still read, with a line that says
//! how it was renamed or why it was removed; docs/internals/renames.md lists them.

/// A knob that was renamed or removed.
#[derive(Debug, PartialEq, Eq)]
pub struct FormerKnob {
    /// The former name.
    pub name: &'static str,
    /// The engines that had the knob.
    pub engines: &'static [&'static str],
    /// Its present name, or the reason why it was removed.
    pub now: Now,
}

/// The present state of a former knob.
#[derive(Debug, PartialEq, Eq)]
pub enum Now {
    /// The knob has another name, which is this.
    Called(&'static str),
    /// The knob has gone, for this reason.
    Gone(&'static str),
}

/// All former knobs.
pub static FORMER_KNOBS: &[FormerKnob] = &[
    FormerKnob { name: "loops", engines: &["event-loop-helpers"], now: Now::Called("workers") },
    FormerKnob {
        name: "events_per_wait",
        engines: &[
            "event-loop",
            "event-loop-per-core",
            "event-loop-copies",
            "event-loop-shared-listener",
            "event-loop-shared-cache",
            "event-loop-helpers",
            "staged",
            "fibers",
            "tasks",
        ],
        now: Now::Gone("events are taken 256 at a time"),
    },
    FormerKnob {
        name: "waiting_max",
        engines: &["event-loop-helpers"],
        now: Now::Gone("64 pieces of work may wait for each helper"),
    },
    FormerKnob {
        name: "threads_max",
        engines: &["threads", "threads-direct"],
        now: Now::Gone("a connection is a thread: set limits.connections_max"),
    },
    FormerKnob {
        name: "send_wait_ms",
        engines: &["staged"],
        now: Now::Gone("a blocking send waits for 50 ms"),
    },
    FormerKnob {
        name: "poller_yields",
        engines: &["fibers"],
        now: Now::Gone("all that is ready runs once between two polls"),
    },
    FormerKnob {
        name: "polls_per_wait",
        engines: &["tasks"],
        now: Now::Gone("61 tasks are resumed between two waits, as Tokio has it"),
    },
    FormerKnob {
        name: "descriptors",
        engines: &["event-loop-shared-cache"],
        now: Now::Gone("each process has a descriptor table of its own"),
    },
];

impl FormerKnob {
    /// Finds the knob that an engine once had under a name.
    #[must_use]
    pub fn find(engine: &str, name: &str) -> Option<&'static Self> {
        FORMER_KNOBS.iter().find(|knob| knob.name == name && knob.engines.contains(&engine))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_renames_lists_all_former_knobs() {
        let page = include_str!("../../../docs/internals/renames.md");
        for former in FORMER_KNOBS {
            assert!(page.contains(&format!("| `{}` | ", former.name)), "{}", former.name);
        }
    }

    #[test]
    fn no_knob_is_former_and_present_and_each_leads_to_one_that_is() {
        for former in FORMER_KNOBS {
            for engine in former.engines {
                let spec = crate::find(engine).expect(engine);
                let has = |name| spec.knobs.iter().any(|knob| knob.name == name);
                assert!(!has(former.name), "{engine} has {}", former.name);
                if let Now::Called(name) = former.now {
                    assert!(has(name), "{engine} lacks {name}");
                }
            }
        }
    }
}
