//! The classes of misses (why a reference missed) and of coherence transactions (what for), and
//! their counts.
//!
//! The classification itself is in `simulation`, where the copies are. Definitions, after
//! Torrellas, Lam and Hennessy (1994) and Hyde and Fleisch (1996), extended to private pages of
//! processes that move:
//!
//! - A ghost's masks hold the words that other processors have written since its copy was taken
//!   away (`wrote`) and whether a read took it away (`used` is not 0).
//! - **Passive**: the page is private, so that only its own process can have written to it.
//! - **True**: the word in question has been written (a miss) or used (a transaction) by another
//!   processor since then. **False**: only other words of the block have been.

use serde::Serialize;

/// Why a reference missed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Miss {
    /// No cache ever had the block.
    Cold,
    /// This cache never had the block; others had, and the page is shared.
    FirstHere,
    /// This cache never had the block; the process used it on another processor.
    Migrated,
    /// A reference of another process replaced the block.
    ContextSwitch,
    /// The process replaced the block itself, and would have in a fully associative cache, too.
    Capacity,
    /// The process replaced the block itself; a fully associative cache would have kept it.
    Conflict,
    /// The process replaced the block itself; whether a fully associative cache would have kept it
    /// was not determined.
    Replaced,
    /// The last-level cache replaced the block, and the copies of its group with it.
    Inclusion,
    /// Another processor's read took the copy away (AMSD, PSCR).
    HandedOver,
    /// Another processor's write took the copy away: true sharing.
    InvalidationTrue,
    /// Another processor's write took the copy away: false sharing.
    InvalidationFalse,
    /// The process's own write, on another processor, took the copy away.
    InvalidationPassive,
}

impl Miss {
    /// All classes, in the order of their declaration.
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

    /// The name in tables and reports.
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

    /// Whether the miss follows an invalidation.
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
    /// Other processors have used other words of the block.
    False,
    /// The page is private: the other copies are the process's own, left behind.
    Passive,
    /// No other processor had a copy any more; a last-level cache may have had one.
    Alone,
}

impl Sharing {
    /// All kinds, in the order of their declaration.
    pub const ALL: [Self; 4] = [Self::True, Self::False, Self::Passive, Self::Alone];

    /// The name in tables and reports.
    pub fn name(self) -> &'static str {
        ["true", "false", "passive", "alone"][self as usize]
    }
}
