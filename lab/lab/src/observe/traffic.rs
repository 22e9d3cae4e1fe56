//! Traffic between the memory and the processors, as memory controllers count it.
//!
//! Controllers are units beside the cores, described by `/sys/bus/event_source/devices`: the
//! numbers of events differ from one model to the next, and the kernel lists them there. Only
//! counts that the kernel can express in bytes are used, and they are of the whole machine.

use os::cpu_list;
use std::fs;
use std::io;
use std::path::Path;
use system::counters::{Counter, Event, Reading};

const UNITS: &str = "/sys/bus/event_source/devices";

/// The names of reads and writes, the preferred pair first: a machine that has both pairs counts
/// the same traffic twice.
const NAMES: [[&str; 2]; 2] = [["cas_count_read", "cas_count_write"], ["data_read", "data_write"]];

/// A way to count one direction at one controller.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Source {
    event: Event,
    /// The CPUs on which the counters are opened: one for each socket.
    cpus: Vec<usize>,
    bytes_per_count: f64,
}

/// Open counters of both directions.
#[derive(Debug, Default)]
pub(super) struct Traffic {
    directions: [Vec<(Counter, f64)>; 2],
}

/// The values of the counters, each with its bytes per count.
#[derive(Debug, Clone, Default)]
pub(super) struct Bytes {
    directions: [Vec<(Reading, f64)>; 2],
}

impl Traffic {
    /// Opens the counters that the machine has.
    ///
    /// # Errors
    /// When there are no such units, or when this user may not count.
    pub(super) fn open() -> io::Result<Self> {
        let units: Vec<String> = fs::read_dir(UNITS)?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_str()?.to_owned()))
            .collect();
        let read = |path: &str| fs::read_to_string(Path::new(UNITS).join(path)).ok();
        let [reads, writes] = find(&units, read);
        if reads.is_empty() || writes.is_empty() {
            return Err(io::ErrorKind::NotFound.into());
        }
        Ok(Self { directions: [open_all(&reads)?, open_all(&writes)?] })
    }

    pub(super) fn read(&self) -> Bytes {
        let all = |counters: &Vec<(Counter, f64)>| {
            let one =
                |(counter, scale): &(Counter, f64)| (counter.read().unwrap_or_default(), *scale);
            counters.iter().map(one).collect()
        };
        Bytes { directions: self.directions.each_ref().map(all) }
    }
}

impl Bytes {
    /// Bytes read and written since `first`.
    pub(super) fn since(&self, first: &Self) -> [Option<u64>; 2] {
        let direction = |index: usize| {
            let (first, last) = (&first.directions[index], &self.directions[index]);
            let pairs = first.iter().zip(last).map(|((first, scale), (last, _))| {
                last.count.saturating_sub(first.count) as f64 * scale
            });
            (!last.is_empty()).then(|| pairs.sum::<f64>() as u64)
        };
        [direction(0), direction(1)]
    }
}

fn open_all(sources: &[Source]) -> io::Result<Vec<(Counter, f64)>> {
    let pairs = sources.iter().flat_map(|source| source.cpus.iter().map(move |cpu| (source, cpu)));
    pairs
        .map(|(source, cpu)| Ok((Counter::for_cpu(source.event, *cpu)?, source.bytes_per_count)))
        .collect()
}

/// Finds the ways to count reads and writes.
fn find(units: &[String], read: impl Fn(&str) -> Option<String>) -> [Vec<Source>; 2] {
    let of = |names: [&str; 2]| {
        names.map(|name| {
            units.iter().filter_map(|unit| describe_source(unit, name, &read)).collect()
        })
    };
    let ways: Vec<[Vec<Source>; 2]> = NAMES.into_iter().map(of).collect();
    ways.into_iter().find(|[reads, _]| !reads.is_empty()).unwrap_or_default()
}

fn describe_source(
    unit: &str,
    name: &str,
    read: &impl Fn(&str) -> Option<String>,
) -> Option<Source> {
    let text = |file: &str| read(&format!("{unit}/{file}")).map(|text| text.trim().to_owned());
    let event = text(&format!("events/{name}"))?;
    let scale: f64 = text(&format!("events/{name}.scale"))?.parse().ok()?;
    let unit_bytes = match text(&format!("events/{name}.unit"))?.as_str() {
        "MiB" => 1_048_576.0,
        "Bytes" => 1.0,
        _ => return None,
    };
    let kind = text("type")?.parse().ok()?;
    let config = encode(&event, |term| text(&format!("format/{term}")))?;
    let cpus = cpu_list::numbers(&text("cpumask")?);
    let event = Event::Unit { kind, config };
    Some(Source { event, cpus, bytes_per_count: scale * unit_bytes })
}

/// Encodes the number of an event such as `event=0x04,umask=0x03`, whose terms have formats such as
/// `config:8-15`.
fn encode(event: &str, format: impl Fn(&str) -> Option<String>) -> Option<u64> {
    let mut config = 0;
    for term in event.split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let mut value = match value.strip_prefix("0x") {
            Some(hexadecimal) => u64::from_str_radix(hexadecimal, 16).ok()?,
            None => value.parse().ok()?,
        };
        let format = format(name)?;
        for range in format.strip_prefix("config:")?.split(',') {
            let (low, high) = range.split_once('-').unwrap_or((range, range));
            let (low, high): (u32, u32) = (low.parse().ok()?, high.parse().ok()?);
            let mask = u64::MAX.checked_shr(63_u32.checked_sub(high.checked_sub(low)?)?)?;
            config |= (value & mask).checked_shl(low)?;
            value = value.checked_shr(high - low + 1).unwrap_or(0);
        }
    }
    Some(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_numbered_as_their_formats_say() {
        let format = |term: &str| match term {
            "event" => Some("config:0-7".to_owned()),
            "umask" => Some("config:8-15".to_owned()),
            "wide" => Some("config:0-7,32-35".to_owned()),
            "whole" => Some("config:0-63".to_owned()),
            "other" => Some("config1:0-7".to_owned()),
            _ => None,
        };
        assert_eq!(encode("event=0x04,umask=0x03", format), Some(0x304));
        assert_eq!(encode("wide=0xabc,umask=1", format), Some(0xa_0000_01bc));
        assert_eq!(encode("whole=0xffffffffffffffff", format), Some(u64::MAX));
        assert_eq!(encode("event=1,other=2", format), None);
        assert_eq!(encode("event=x", format), None);
    }

    /// The files are those by which the kernel describes the memory controllers of a server with
    /// two sockets.
    #[test]
    fn controllers_are_found() {
        let read = |path: &str| {
            let (unit, file) = path.split_once('/')?;
            let text = match (unit, file) {
                ("uncore_imc_0", "type") => "13",
                ("uncore_imc_1", "type") => "14",
                ("uncore_imc_0" | "uncore_imc_1", file) => match file {
                    "cpumask" => "0,18\n",
                    "format/event" => "config:0-7\n",
                    "format/umask" => "config:8-15\n",
                    "events/cas_count_read" => "event=0x04,umask=0x03\n",
                    "events/cas_count_write" => "event=0x04,umask=0x0c\n",
                    "events/cas_count_read.scale" | "events/cas_count_write.scale" => {
                        "6.103515625e-5\n"
                    }
                    "events/cas_count_read.unit" | "events/cas_count_write.unit" => "MiB\n",
                    _ => return None,
                },
                _ => return None,
            };
            Some(text.to_owned())
        };
        let units = ["cpu", "uncore_imc_0", "uncore_imc_1"].map(str::to_owned);
        let [reads, writes] = find(&units, read);
        let event = Event::Unit { kind: 14, config: 0x304 };
        assert_eq!(reads[1], Source { event, cpus: vec![0, 18], bytes_per_count: 64.0 });
        assert_eq!((reads.len(), writes.len()), (2, 2));
        assert_eq!(find(&units, |_| None), [vec![], vec![]]);
    }
}
