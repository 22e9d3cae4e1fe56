//! Formats the system calls of a trace, which `memory-trace` counts: how often each was made and
//! how many bytes it moved, for people and for programs.

use memory_trace::{Call, SystemCalls};
use serde_json::{Value, json};

/// The most kinds of calls that a sentence names.
const NAMED_MAX: usize = 6;

/// A line for each kind of call, the most frequent first; empty if there are no calls.
pub(crate) fn table(calls: &SystemCalls) -> String {
    let (list, sum) = (calls.list(), calls.sum());
    if sum.count == 0 {
        return String::new();
    }
    let mut out = format!(
        "\nSystem calls\n{:>9} {:>7}  {:>12} {:>9}  call\n",
        "calls", "%", "bytes moved", "per call"
    );
    for call in &list {
        let bytes = call.bytes_mean().map(|_| call.bytes.to_string());
        let mean = call.bytes_mean().map(|mean| format!("{mean:.1}"));
        let [bytes, mean] = [bytes, mean].map(|text| text.unwrap_or_else(|| "-".into()));
        let (count, part, name) = (call.count, percent(call, &sum), call.name());
        out += &format!("{count:>9} {part:>7.2}  {bytes:>12} {mean:>9}  {name}\n");
    }
    out + match sum.with_bytes {
        0 => {
            "How many bytes they moved is not in this trace: it was recorded before that was, was \
             imported,\nor has no such calls.\n"
        }
        _ => {
            "Bytes are those of calls that succeeded and whose result says how many; per call is \
             their mean.\n"
        }
    }
}

/// The mix of calls in a line; none if there are no calls.
pub(crate) fn sentence(calls: &SystemCalls) -> Option<String> {
    let (list, sum) = (calls.list(), calls.sum());
    let named = list.iter().take(NAMED_MAX);
    let named = named.map(|call| format!("{} {:.1} %", call.name(), percent(call, &sum)));
    let named: Vec<String> = named.collect();
    let others = match list.len().saturating_sub(NAMED_MAX) {
        0 => String::new(),
        more => format!(" and {more} others"),
    };
    let moved = match sum.bytes_mean() {
        None => "how many bytes they moved is not in the trace".into(),
        Some(mean) => {
            format!("{} bytes moved by {} of them, {mean:.0} each", sum.bytes, sum.with_bytes)
        }
    };
    (sum.count > 0).then(|| {
        format!("{} system calls traced: {}{others}; {moved}", sum.count, named.join(", "))
    })
}

/// A JSON object for each kind of call, the most frequent first.
pub(crate) fn list(calls: &SystemCalls) -> Value {
    let sum = calls.sum();
    let one = |call: &Call| {
        json!({
            "number": call.number,
            "name": memory_trace::system_call_name(call.number),
            "calls": call.count,
            "percent": percent(call, &sum),
            "calls_with_bytes": call.with_bytes,
            "bytes": call.bytes_mean().map(|_| call.bytes),
            "bytes_mean": call.bytes_mean(),
        })
    };
    calls.list().iter().map(one).collect()
}

fn percent(call: &Call, sum: &Call) -> f64 {
    call.count as f64 * 100.0 / sum.count.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_trace::Event;

    #[test]
    fn calls_are_shown_by_name_with_their_share_and_their_bytes() {
        let mut calls = SystemCalls::default();
        assert_eq!((table(&calls), sentence(&calls)), (String::new(), None));
        for number in [3, 0, 0, 777] {
            calls.event(&Event::SystemCall { number });
        }
        assert!(table(&calls).ends_with("no such calls.\n"), "{}", table(&calls));
        assert!(sentence(&calls).is_some_and(|line| line.ends_with("is not in the trace")));
        calls.event(&Event::Moved { number: 0, bytes: 4096 });
        calls.event(&Event::Moved { number: 0, bytes: 1 });
        let shown = table(&calls);
        assert!(shown.contains("\n        2   50.00          4097    2048.5  read\n"), "{shown}");
        assert!(shown.contains("\n        1   25.00             -         -  close\n"), "{shown}");
        assert!(shown.contains("  call 777\n"), "{shown}");
        assert_eq!(
            sentence(&calls).as_deref(),
            Some(
                "4 system calls traced: read 50.0 %, close 25.0 %, call 777 25.0 %; 4097 bytes \
                 moved by 2 of them, 2048 each"
            )
        );
        assert_eq!(list(&calls)[0]["bytes_mean"], 2048.5);
        assert_eq!(
            (&list(&calls)[2]["name"], &list(&calls)[2]["bytes"]),
            (&json!(null), &json!(null))
        );
    }
}
