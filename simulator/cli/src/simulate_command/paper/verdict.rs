//! The verdict on a sentence of a paper, and on each of its tests. The words are those of the lab's
//! reports.

/// What a run says of a sentence, or of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::simulate_command) enum Verdict {
    /// It holds.
    Confirmed,
    /// The opposite holds, by more than the intervals explain.
    Contradicted,
    /// The run does not decide it.
    NotDecided,
}

impl Verdict {
    /// The verdict on something that `holds`, or whose opposite does, or neither.
    pub(super) fn new(holds: bool, opposite_holds: bool) -> Self {
        match (holds, opposite_holds) {
            (true, _) => Self::Confirmed,
            (false, true) => Self::Contradicted,
            (false, false) => Self::NotDecided,
        }
    }

    pub(in crate::simulate_command) fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Contradicted => "contradicted",
            Self::NotDecided => "not decided",
        }
    }
}
