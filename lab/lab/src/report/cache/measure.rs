//! The quantities of a cell in a report: their names, units, and sources.

use crate::cache_study::{Numbers, Pair, Part};

/// A quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Measure {
    Hits,
    Cpu,
    Rate,
    GetMedian,
    GetP99,
    SetMedian,
    SetP99,
    EvictMedian,
    EvictP99,
    RequestMedian,
    RequestP99,
}

impl Measure {
    pub(crate) const ALL: [Self; 11] = [
        Self::Hits,
        Self::Cpu,
        Self::Rate,
        Self::GetMedian,
        Self::GetP99,
        Self::SetMedian,
        Self::SetP99,
        Self::EvictMedian,
        Self::EvictP99,
        Self::RequestMedian,
        Self::RequestP99,
    ];

    /// The quantities in the table of a part, in its order.
    pub(crate) fn in_table_of(part: Part) -> &'static [Self] {
        match part {
            Part::Lists => &[
                Self::Hits,
                Self::GetMedian,
                Self::GetP99,
                Self::SetMedian,
                Self::SetP99,
                Self::EvictMedian,
                Self::EvictP99,
                Self::RequestMedian,
                Self::Cpu,
            ],
            Part::Locks => &[Self::Cpu, Self::Rate, Self::GetMedian, Self::GetP99],
            Part::Copies => &[Self::Cpu, Self::GetMedian, Self::GetP99],
            Part::Levels => &[Self::Cpu],
            Part::Policies | Part::Crawler => &[Self::Hits, Self::Cpu],
        }
    }

    /// The quantities by which the stores of a part are compared.
    pub(crate) fn compared(part: Part) -> &'static [Self] {
        match part {
            Part::Lists => &[Self::GetMedian, Self::EvictMedian, Self::Cpu],
            _ => &[Self::Cpu],
        }
    }

    pub(crate) fn value(self, numbers: &Numbers) -> Option<f64> {
        let median = |pair: Option<Pair>| pair.map(|pair| pair.p50_ns);
        let p99 = |pair: Option<Pair>| pair.map(|pair| pair.p99_ns);
        match self {
            Self::Hits => Some(numbers.hit_percent),
            Self::Cpu => Some(numbers.cpu_ns),
            // Parts that are measured without a clock have no rate.
            Self::Rate => (numbers.millions_per_s > 0.0).then_some(numbers.millions_per_s),
            Self::GetMedian => median(numbers.get),
            Self::GetP99 => p99(numbers.get),
            Self::SetMedian => median(numbers.set),
            Self::SetP99 => p99(numbers.set),
            Self::EvictMedian => median(numbers.evict),
            Self::EvictP99 => p99(numbers.evict),
            Self::RequestMedian => median(numbers.request),
            Self::RequestP99 => p99(numbers.request),
        }
    }

    /// The name for programs, with the unit.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Hits => "hit_percent",
            Self::Cpu => "cpu_ns_per_request",
            Self::Rate => "millions_per_s",
            Self::GetMedian => "get_p50_ns",
            Self::GetP99 => "get_p99_ns",
            Self::SetMedian => "set_p50_ns",
            Self::SetP99 => "set_p99_ns",
            Self::EvictMedian => "evict_p50_ns",
            Self::EvictP99 => "evict_p99_ns",
            Self::RequestMedian => "request_p50_ns",
            Self::RequestP99 => "request_p99_ns",
        }
    }

    /// The name for people, with the unit.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Hits => "hits, %",
            Self::Cpu => "CPU, ns/request",
            Self::Rate => "million requests/s",
            Self::GetMedian => "get, ns",
            Self::GetP99 => "get, p99",
            Self::SetMedian => "set, ns",
            Self::SetP99 => "set, p99",
            Self::EvictMedian => "set with eviction, ns",
            Self::EvictP99 => "set with eviction, p99",
            Self::RequestMedian => "request, ns",
            Self::RequestP99 => "request, p99",
        }
    }
}
