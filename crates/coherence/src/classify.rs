//! Why a miss happened and what a coherence transaction was for: the classes, and their counts.
//!
//! The finding out is in `simulation`, where the copies are. Definitions, after Torrellas, Lam and
//! Hennessy (1994) and Hyde and Fleisch (1996), extended to private pages of processes that move:
//!
//! - A ghost's masks say what other processors have written since its copy was taken away
//!   (`wrote`) and whether a read took it away (`used` is not 0).
//! - **Passive**: the page is private, so that only its own process can have written to it.
//! - **True**: the word in question has been written (a miss) or used (a transaction) by another
//!   since then. **False**: only other words of the block have been.

use serde::Serialize;

/// Why a reference missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Miss {
    /// No cache ever had the block.
    Cold,
    /// This cache never had it; others had, and the page is shared.
    FirstHere,
    /// This cache never had it; the process used it on another processor.
    Migrated,
    /// Another process's reference replaced it.
    ContextSwitch,
    /// The process replaced it itself, and a fully associative cache would have, too.
    Capacity,
    /// The process replaced it itself; a fully associative cache would have kept it.
    Conflict,
    /// The process replaced it itself; it was not asked which of the two.
    Replaced,
    /// The last-level cache replaced the block, and the copies of its group with it.
    Inclusion,
    /// Another processor's read took it away (AMSD, PSCR).
    HandedOver,
    /// Another processor's write took it away: true sharing.
    InvalidationTrue,
    /// Another processor's write took it away: false sharing.
    InvalidationFalse,
    /// The process's own write, on another processor, took it away.
    InvalidationPassive,
}

impl Miss {
    /// All, in the order of their declaration.
    pub const ALL: [Self; 12] = [
        Self::Cold,
        Self::FirstHere,
        Self::Migrated,
        Self::ContextSwitch,
        Self::Capacity,
        Self::Conflict,
        Self::Replaced,
        Self::Inclusion,
        Self::HandedOver,
        Self::InvalidationTrue,
        Self::InvalidationFalse,
        Self::InvalidationPassive,
    ];

    /// As in tables and reports.
    pub fn name(self) -> &'static str {
        [
            "cold",
            "first-here",
            "migrated",
            "context-switch",
            "capacity",
            "conflict",
            "replaced",
            "inclusion",
            "handed-over",
            "invalidation-true",
            "invalidation-false",
            "invalidation-passive",
        ][self as usize]
    }

    /// It follows an invalidation.
    pub fn is_invalidation(self) -> bool {
        self as usize >= Self::InvalidationTrue as usize
    }
}

/// What a coherence transaction (INV or WR) was for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// Another processor has used the word.
    True,
    /// Others have used other words of the block.
    False,
    /// The page is private: the other copies are the process's own, left behind.
    Passive,
    /// No other processor had a copy any more; a last-level cache may have had one.
    Alone,
}

impl Sharing {
    /// All, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::True, Self::False, Self::Passive, Self::Alone];

    /// As in tables and reports.
    pub fn name(self) -> &'static str {
        ["true", "false", "passive", "alone"][self as usize]
    }
}
