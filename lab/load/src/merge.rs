//! Merges the outcomes of several generators into one. All numbers are added exactly: there are no
//! means of means. Outcomes that do not belong together are refused, with the difference named.

mod digest;

use std::path::Path;

use command::near::unreadable;
use serde_json::Value;

use crate::options::OptionsError;
use crate::outcome::{Outcome, ServerCpu, Setting};
use crate::report::json;

pub(crate) use digest::plan_digest as digest;

/// How far apart the windows of generators of one run may begin: clocks of different hosts that are
/// kept by NTP differ by less, and the series are aligned no better than this. Their ends may
/// differ, because a generator without a set duration ends with its last session.
pub const WINDOW_TOLERANCE_US: u64 = 100_000;

/// Reads outcomes written by `report::json` and merges them.
///
/// # Errors
/// One line: which file cannot be read or is no outcome, or why the outcomes are not of one run.
pub fn merge_files<P: AsRef<Path>>(paths: &[P]) -> Result<Outcome, OptionsError> {
    let read = |path: &P| {
        let name = path.as_ref().display().to_string();
        let text = std::fs::read_to_string(path).map_err(|why| {
            let line = unreadable(path.as_ref(), &why, "an outcome in JSON");
            OptionsError::of_named(&why, line)
        })?;
        let outcome = json::parse(&text).map_err(|why| format!("{name}: {why}"))?;
        Ok(Labelled { name, outcome })
    };
    Ok(merge_labelled(paths.iter().map(read).collect::<Result<_, OptionsError>>()?)?)
}

/// Merges the outcomes of generators that shared a load: see [`Outcome::merge`].
pub(crate) fn merge(outcomes: Vec<Outcome>) -> Result<Outcome, String> {
    let label = |outcome: Outcome| Labelled { name: share_names(&outcome.setting), outcome };
    merge_labelled(outcomes.into_iter().map(label).collect())
}

/// An outcome and its name in messages.
struct Labelled {
    name: String,
    outcome: Outcome,
}

fn merge_labelled(mut outcomes: Vec<Labelled>) -> Result<Outcome, String> {
    // Outcomes are sorted by their shares, so that the order of the arguments does not matter.
    for Labelled { outcome, .. } in &mut outcomes {
        outcome.setting.share.sort_unstable();
    }
    outcomes.sort_by(|a, b| a.outcome.setting.share.cmp(&b.outcome.setting.share));
    let mut outcomes = outcomes.into_iter();
    let first = outcomes.next().ok_or("there is nothing to merge")?;
    if outcomes.len() > 0 {
        refuse_shareless(&first)?;
    }
    let (mut sum, mut names) = (first.outcome, vec![first.name]);
    for Labelled { name, outcome } in outcomes {
        let fits = check(&sum, &outcome);
        fits.map_err(|why| {
            format!("{} and {name} do not belong together: {why}", names.join(", "))
        })?;
        add(&mut sum, outcome);
        names.push(name);
    }
    Ok(sum)
}

/// Refuses an outcome without a share: it is a whole run, and nothing can be added to it.
fn refuse_shareless(first: &Labelled) -> Result<(), String> {
    if first.outcome.setting.share.is_empty() {
        let name = &first.name;
        return Err(format!("{name} is a whole run: only the shares of one run can be merged"));
    }
    Ok(())
}

fn add(sum: &mut Outcome, other: Outcome) {
    let (first_us, last_us) = starts_unix_us([&*sum, &other]);
    sum.started_unix_us = first_us;
    let setting = &mut sum.setting;
    setting.starts_apart_us = last_us - first_us;
    setting.share.extend(other.setting.share);
    setting.share.sort_unstable();
    setting.threads = setting.threads.saturating_add(other.setting.threads);
    setting.descriptors_max = setting.descriptors_max.min(other.setting.descriptors_max);
    // The windows begin together, so the longest contains all of them.
    sum.window_us = sum.window_us.max(other.window_us);
    sum.cpu_us.0 = sum.cpu_us.0.saturating_add(other.cpu_us.0);
    sum.cpu_us.1 = sum.cpu_us.1.saturating_add(other.cpu_us.1);
    let both = |ours_us: Option<u64>, theirs_us: Option<u64>| {
        ours_us.zip(theirs_us).map(|(ours_us, theirs_us)| ours_us.saturating_add(theirs_us))
    };
    sum.run_delay_us = both(sum.run_delay_us, other.run_delay_us);
    sum.wake_ups = sum.wake_ups.saturating_add(other.wake_ups);
    sum.others_us = both(sum.others_us, other.others_us);
    let servers = sum.server_cpu.into_iter().chain(other.server_cpu);
    sum.server_cpu = servers.reduce(ServerCpu::worse);
    sum.measures.merge(&other.measures);
    for reason in other.void {
        if !sum.void.contains(&reason) {
            sum.void.push(reason);
        }
    }
    sum.first_bad = sum.first_bad.take().or(other.first_bad);
    sum.first_refused = sum.first_refused.take().or(other.first_refused);
    sum.interrupted |= other.interrupted;
}

fn check(sum: &Outcome, other: &Outcome) -> Result<(), String> {
    check_settings(&sum.setting, &other.setting)?;
    if let Some(twice) = other.setting.share.iter().find(|&index| sum.setting.share.contains(index))
    {
        let of = other.setting.generators;
        return Err(format!("both hold share {} of {of}", u64::from(*twice) + 1));
    }
    if sum.interval_us != other.interval_us {
        let (ours, theirs) = (sum.interval_us, other.interval_us);
        return Err(format!("intervals of {ours} us and {theirs} us"));
    }
    let (first_us, last_us) = starts_unix_us([sum, other]);
    let apart_us = last_us - first_us;
    if apart_us > WINDOW_TOLERANCE_US {
        let (apart_s, allowed_s) = (apart_us as f64 / 1e6, WINDOW_TOLERANCE_US as f64 / 1e6);
        return Err(format!(
            "their windows begin {apart_s:.3} s apart, and {allowed_s:.3} s is allowed"
        ));
    }
    Ok(())
}

/// The start times of the first and the last of all merged generators. Both are kept, so that
/// whether outcomes fit does not depend on the order in which they are merged.
fn starts_unix_us(both: [&Outcome; 2]) -> (u64, u64) {
    let [(first, last), (other_first, other_last)] = both.map(|outcome| {
        let first_us = outcome.started_unix_us;
        (first_us, first_us.saturating_add(outcome.setting.starts_apart_us))
    });
    (first.min(other_first), last.max(other_last))
}

/// The fields in which generators of one run may differ; the log may have another path on another
/// host. The digest, which covers the log's content, is compared last, because a difference in
/// another field says more.
const MAY_DIFFER: [&str; 8] = [
    "command",
    "share",
    "threads",
    "descriptors_max",
    "log",
    "log_beyond_get",
    "digest",
    "starts_apart_us",
];

/// The inputs of the digest, in the words of the command line.
const DIGEST_OF: &str = "they ask for different things: the content of the log, \
                         --default-think, --think-max, --speed, --sessions, --warm-up, --host, \
                         --header or --files is not the same";

/// Compares the settings as JSON, so that a field added to [`Setting`] later is compared too.
fn check_settings(ours: &Setting, theirs: &Setting) -> Result<(), String> {
    let fields = |setting| match serde_json::to_value(setting) {
        Ok(Value::Object(fields)) => fields,
        _ => unreachable!("a struct of numbers and strings is a JSON object"),
    };
    if ours.log.is_some() != theirs.log.is_some() {
        return Err("one replays a log and the other does not".into());
    }
    let digests_differ = ours.digest != theirs.digest;
    let theirs = fields(theirs);
    for (field, ours) in fields(ours) {
        let theirs = &theirs[&field];
        if ours != *theirs && !MAY_DIFFER.contains(&field.as_str()) {
            return Err(format!("`{field}` is {ours} in one and {theirs} in the other"));
        }
    }
    if digests_differ { Err(DIGEST_OF.into()) } else { Ok(()) }
}

fn share_names(setting: &Setting) -> String {
    let names: Vec<_> =
        setting.share.iter().map(|index| (u64::from(*index) + 1).to_string()).collect();
    match names.len() {
        0 => "an outcome without a share".into(),
        1 => format!("share {}", names[0]),
        _ => format!("shares {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn part(index: u32) -> Outcome {
        sample::random(u64::from(index) + 1, index, 3)
    }

    #[test]
    fn any_order_and_any_grouping_give_the_same() {
        let all = Outcome::merge(vec![part(0), part(1), part(2)]).unwrap();
        assert!(Outcome::merge(vec![part(2), part(0), part(1)]).unwrap() == all);
        let later = Outcome::merge(vec![part(2), part(1)]).unwrap();
        assert!(Outcome::merge(vec![later, part(0)]).unwrap() == all);
        assert_eq!(all.setting.share, [0, 1, 2]);
        assert_eq!((all.setting.threads, all.setting.command), (6, part(0).setting.command));
        assert_eq!(all.cpu_us.0, part(0).cpu_us.0 + part(1).cpu_us.0 + part(2).cpu_us.0);
    }

    /// Two generators on the server's machine report the same server, and one on another machine
    /// reports none.
    #[test]
    fn the_measurements_of_the_server_are_kept() {
        let had = |run_delay_us, used_us| Some(ServerCpu { run_delay_us, others_us: 900, used_us });
        let merged = |all: [Option<ServerCpu>; 3]| {
            let outcome = |(index, server_cpu)| Outcome { server_cpu, ..part(index) };
            Outcome::merge((0..).zip(all).map(outcome).collect()).unwrap().server_cpu
        };
        assert_eq!(merged([None, had(Some(300), 700), None]), had(Some(300), 700));
        assert_eq!(merged([had(Some(300), 700), None, had(Some(400), 600)]), had(Some(400), 600));
        assert_eq!(merged([had(Some(0), 600), had(None, 700), None]), had(Some(0), 600));
        assert_eq!(merged([None, had(None, 700), None]), had(None, 700));
    }

    #[test]
    fn a_missing_share_is_reported() {
        let sum = Outcome::merge(vec![part(2), part(0)]).unwrap();
        assert_eq!(sum.missing_shares(), [1]);
        let lines: Vec<_> = sum.incomplete().collect();
        assert_eq!(lines, ["incomplete: share 2 of 3 is missing"]);
        assert_eq!(sample::empty().incomplete().count(), 0, "a whole run lacks nothing");
    }

    #[test]
    fn outcomes_that_do_not_belong_together_are_refused() {
        fn check(change: fn(&mut Outcome), expected: &str) {
            let mut other = part(1);
            other.interrupted = false;
            change(&mut other);
            let mut first = part(0);
            first.interrupted = false;
            assert_eq!(Outcome::merge(vec![first, other]).unwrap_err(), expected);
        }
        check(
            |other| other.setting.share = vec![0],
            "share 1 and share 1 do not belong together: both hold share 1 of 3",
        );
        check(
            |other| other.setting.rate = "700".into(),
            "share 1 and share 2 do not belong together: \
             `rate` is \"600\" in one and \"700\" in the other",
        );
        check(
            |other| other.setting.latency_target_us = None,
            "share 1 and share 2 do not belong together: \
             `latency_target_us` is 50000 in one and null in the other",
        );
        check(
            |other| other.setting.log = None,
            "share 1 and share 2 do not belong together: one replays a log and the other does not",
        );
        check(
            |other| other.setting.digest = "0".into(),
            &format!("share 1 and share 2 do not belong together: {DIGEST_OF}"),
        );
        check(
            |other| other.started_unix_us += 2_500_000,
            "share 1 and share 2 do not belong together: \
             their windows begin 2.500 s apart, and 0.100 s is allowed",
        );
        check(
            |other| other.interval_us = 500_000,
            "share 1 and share 2 do not belong together: intervals of 1000000 us and 500000 us",
        );
    }

    #[test]
    fn fields_that_may_differ_do_not_hinder() {
        let mut other = part(1);
        other.setting.descriptors_max = 1024;
        other.setting.threads = 16;
        other.setting.log = Some("/elsewhere/requests.log".into());
        other.started_unix_us += WINDOW_TOLERANCE_US;
        other.interrupted = true;
        other.window_us /= 2;
        other.void = vec!["late".into()];
        let sum = Outcome::merge(vec![part(0), other]).unwrap();
        assert_eq!((sum.setting.descriptors_max, sum.setting.threads), (1024, 18));
        assert_eq!(sum.started_unix_us, part(0).started_unix_us);
        assert_eq!((sum.window_us, sum.interrupted), (part(0).window_us, true));
        assert_eq!(sum.void, ["late".into()]);
    }

    #[test]
    fn windows_are_compared_with_the_first_and_the_last_in_any_grouping() {
        let late = |index: u32, by_us| {
            let mut outcome = part(index);
            outcome.started_unix_us += by_us;
            outcome
        };
        // The third start is near enough to the second, and too far from the first.
        let far = [late(0, 0), late(1, 60_000), late(2, 120_000)];
        let near = [late(0, 60_000), late(1, 0), late(2, 100_000)];
        for order in [[0, 1, 2], [1, 2, 0], [0, 2, 1]] {
            let [a, b, c] = order.map(|index: usize| far[index].clone());
            let all = Outcome::merge(vec![a, b]).and_then(|both| Outcome::merge(vec![both, c]));
            assert!(all.unwrap_err().contains(" s apart, and 0.100 s is allowed"), "{order:?}");
            let [a, b, c] = order.map(|index: usize| near[index].clone());
            let both = Outcome::merge(vec![a, b]).unwrap();
            let all = Outcome::merge(vec![both, c]).unwrap();
            assert_eq!(all.started_unix_us, near[1].started_unix_us);
            assert_eq!(all.setting.starts_apart_us, 100_000);
        }
    }

    #[test]
    fn there_must_be_shares_to_merge() {
        assert_eq!(Outcome::merge(vec![]).unwrap_err(), "there is nothing to merge");
        let whole = Outcome::merge(vec![sample::empty(), part(0)]).unwrap_err();
        assert!(whole.starts_with("an outcome without a share is a whole run"), "{whole}");
    }

    #[test]
    fn files_are_merged_and_named() {
        let folder = std::env::temp_dir().join(format!("ropewalk-merge-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let paths = ["a.json", "b.json"].map(|name| folder.join(name));
        for (path, index) in paths.iter().zip(0..) {
            std::fs::write(path, json::write(&part(index))).unwrap();
        }
        let expected = Outcome::merge(vec![part(0), part(1)]).unwrap();
        assert!(merge_files(&paths).unwrap() == expected);
        let twice = merge_files(&[&paths[0], &paths[0]]).unwrap_err().to_string();
        assert!(twice.contains("a.json") && twice.contains("both hold share 1 of 3"), "{twice}");
        std::fs::write(&paths[1], "{}").unwrap();
        let damaged = merge_files(&paths).unwrap_err().to_string();
        assert!(damaged.contains("b.json: not an outcome"), "{damaged}");
        std::fs::remove_dir_all(&folder).unwrap();
        let absent = merge_files(&paths).unwrap_err().to_string();
        assert!(absent.contains("a.json: there is no such file"), "{absent}");
    }
}
