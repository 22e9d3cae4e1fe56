//! The rows of the benchmark: what clients request, and how.

use super::options::{Defaults, Named};
use lab::http::Connection;
use std::time::Duration;

/// The requests of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Subject {
    /// One file of this many bytes.
    OneFile(usize),
    /// Many files, each requested as often as the others.
    ManyFiles,
    /// No load: connections that only wait, and the start.
    Idle,
}

/// One row.
#[derive(Debug, PartialEq)]
pub(crate) struct Row {
    /// The name in options.
    pub(crate) name: &'static str,
    /// The title in the report.
    pub(crate) title: &'static str,
    pub(crate) subject: Subject,
    pub(crate) connections: usize,
    pub(crate) connection: Connection,
}

impl Row {
    const fn one_file(name: &'static str, title: &'static str, bytes: usize) -> Self {
        Self {
            name,
            title,
            subject: Subject::OneFile(bytes),
            connections: 64,
            connection: Connection::KeepAlive,
        }
    }
}

impl Named for Row {
    fn name(&self) -> &'static str {
        self.name
    }
}

/// The defaults of `cargo xtask bench serve`.
pub(crate) const DEFAULTS: Defaults<Row> = Defaults {
    rows: ROWS,
    quick_rows: &["1k", "1m"],
    only_option: "--servers",
    rounds: 7,
    quick_rounds: 2,
    window: Duration::from_millis(1100),
    has_together: false,
};

/// All rows, in the order of the report.
pub(crate) const ROWS: &[Row] = &[
    Row::one_file("1k", "1 KiB, keep-alive, 64 connections", 1 << 10),
    Row::one_file("10k", "10 KiB, keep-alive, 64 connections", 10 << 10),
    Row::one_file("64k", "64 KiB, keep-alive, 64 connections", 64 << 10),
    Row::one_file("1m", "1 MiB, keep-alive, 64 connections", 1 << 20),
    Row {
        connection: Connection::Close,
        ..Row::one_file("close", "1 KiB, a connection each, 64 at a time", 1 << 10)
    },
    Row {
        connections: 4000,
        ..Row::one_file(
            "4000",
            "1 KiB, keep-alive, 4,000 connections (opening them included)",
            1 << 10,
        )
    },
    Row {
        subject: Subject::ManyFiles,
        ..Row::one_file(
            "many",
            "20,000 distinct files of 1 to 7 KiB, keep-alive, 64 connections",
            0,
        )
    },
    Row { subject: Subject::Idle, ..Row::one_file("idle", "At rest", 1 << 10) },
];
