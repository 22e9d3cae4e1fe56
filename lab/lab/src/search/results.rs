//! What a search for the best configuration has found: in words, and as a table.

use super::Candidate;
use super::blocks::{CandidateState, Runs};
use super::tune::{Certainty, FREE_CPUS, MUCH_VOID, ROUNDS_MAX, Tuned};
use crate::conclusion::Conclusion;
use crate::record::{RaceOutcome, Rival, Tuning};
use page::number;
use statistics::{Interval, Mean, Verdict};
use std::collections::BTreeSet;
use std::fmt::Write;

/// How many of the candidates that are out are named.
const OUT_MAX: usize = 5;

/// How sure the result is, and the winner, for people.
pub fn conclude(tuned: &Tuned, confidence: f64, margin: f64) -> Conclusion {
    let details = counts(tuned) + &races(tuned, confidence, margin);
    Conclusion { details, verdict: verdict(tuned) }
}

/// The best, what it sustains, and what tuning gains.
fn verdict(tuned: &Tuned) -> String {
    let name = |candidate: usize| &tuned.candidates[candidate].name;
    let head = if tuned.is_decided() { "Best" } else { "Not decided. Ahead" };
    let gain = match tuned.gain {
        None if !tuned.is_decided() => format!("it is {} as it was", name(0)),
        None => format!("it is {} as it was: nothing tried is better", name(0)),
        Some(gain) => format!("{} the rate of {}", times(gain), name(0)),
    };
    format!("{head}: {}\n  {}\n  {gain}", name(tuned.winner), sustains(tuned))
}

/// How the winner did in its races, how sure that is, and what would make it surer.
fn races(tuned: &Tuned, confidence: f64, margin: f64) -> String {
    let name = |candidate: usize| &tuned.candidates[candidate].name;
    let mut text = String::new();
    let mut line = |words: String| writeln!(text, "{words}").expect("a String takes all");
    for rival in &tuned.rivals {
        let verdict = match rival.verdict {
            Verdict::Higher => "better".to_owned(),
            Verdict::Lower => "worse".to_owned(),
            Verdict::Tie => format!("a tie within {}", number::percent(margin)),
            Verdict::CannotTell => "too close to tell".to_owned(),
        };
        let (winner, other) = (name(tuned.winner), name(rival.candidate));
        line(format!("{winner} has {} the rate of {other}: {verdict}", times(rival.ratio)));
    }
    certain(tuned, confidence).into_iter().for_each(&mut line);
    advice(tuned).into_iter().for_each(&mut line);
    if tuned.rounds_ended {
        line(format!(
            "in each of {ROUNDS_MAX} challenges another became the best; the neighbours of this \
             one were not tried"
        ));
    }
    text
}

/// The result of a search, as the records hold it.
pub fn tuning(tuned: &Tuned) -> Tuning {
    let name = |candidate: usize| tuned.candidates[candidate].name.clone();
    let rivals = tuned.rivals.iter().map(|rival| Rival {
        setting: name(rival.candidate),
        outcome: match rival.verdict {
            Verdict::Higher => RaceOutcome::Better,
            Verdict::Lower => RaceOutcome::Worse,
            Verdict::Tie => RaceOutcome::Tie,
            Verdict::CannotTell => RaceOutcome::Open,
        },
    });
    Tuning { winner: name(tuned.winner), rivals: rivals.collect() }
}

/// The confidence of each interval, and of all races together.
fn certain(tuned: &Tuned, confidence: f64) -> Vec<String> {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let Certainty { of_rival, of_gain, races } = tuned.certainty;
    let mut each = format!("(each interval holds with {} by itself", percent(of_rival));
    if tuned.gain.is_some() && percent(of_gain) != percent(of_rival) {
        each += &format!(", that of the gain with {}", percent(of_gain));
    }
    let races = if races == 1 { "the race".to_owned() } else { format!("the {races} races") };
    let all = format!("in {races} a worse configuration was taken for better");
    vec![
        format!("{each}, however often it was judged;"),
        format!("with {} nowhere {all})", percent(confidence)),
    ]
}

/// Why the result is not clearer, and what helps.
fn advice(tuned: &Tuned) -> Vec<String> {
    let Runs { made, void, disturbed, generator_gave_out } = tuned.runs;
    let is_much = |count: u32| f64::from(count) >= MUCH_VOID * f64::from(made);
    let mut advice = Vec::new();
    if is_much(disturbed) {
        advice
            .push(format!("other processes disturbed {disturbed} of the {made} runs: {FREE_CPUS}"));
    }
    if is_much(generator_gave_out) && tuned.candidate_states[tuned.winner].generator_bound {
        advice.push(format!(
            "the generator was saturated in {generator_gave_out} of the {made} runs: it needs \
             more CPUs (--client-cpus)"
        ));
    }
    match tuned.budget_ended {
        true if is_much(void) => advice.push("the budget ended the search".into()),
        true => advice.push("the budget ended the search; a longer one may tell more".into()),
        false => (),
    }
    advice
}

fn sustains(tuned: &Tuned) -> String {
    let found = &tuned.last_look;
    let runs = found.throughputs_per_s.len();
    if !tuned.is_confirmed {
        let state = &tuned.candidate_states[tuned.winner];
        let blocks = state.estimates_per_s.len();
        return match (found.held_per_s, mean_of(state)) {
            // What the winner sustained last is nearer to what it sustains now than any block
            // before.
            (Some(held), _) => format!(
                "held {held:.0} requests/s in {} when the budget was spent",
                number::counted(runs, "run")
            ),
            (None, Some(mean)) => format!(
                "sustains about {:.0} requests/s by {} (the budget was spent before a last look)",
                mean.mean.exp(),
                number::counted(blocks, "block")
            ),
            (None, None) => "what it sustains is not known".to_owned(),
        };
    }
    let sustains = match found.held_per_s {
        Some(held) => {
            let runs = number::counted(runs, "run");
            format!("sustains {held:.0} requests/s (held in {runs})")
        }
        None => "held no rate in its last measurement,".to_owned(),
    };
    let sustains = format!("{sustains} under {}", found.conditions);
    match (found.broke_per_s, found.generator_bound) {
        (_, true) => format!("{sustains}; beyond it the generator was saturated, not the server"),
        (Some(broke), _) => {
            format!("{sustains}; at {broke:.0} it broke ({})", found.broken.join(", "))
        }
        (None, false) => sustains,
    }
}

fn counts(tuned: &Tuned) -> String {
    let Runs { made, void, disturbed, .. } = tuned.runs;
    let candidates = tuned.candidates.len();
    let disturbed = match disturbed {
        0 => String::new(),
        count => format!(", {count} because other processes disturbed them"),
    };
    let mut text =
        format!("{candidates} configurations in {made} runs, {void} of them void{disturbed}.\n");
    let out: Vec<(&Candidate, &str)> = tuned
        .candidates
        .iter()
        .zip(&tuned.candidate_states)
        .filter_map(|(candidate, state)| Some((candidate, state.out.as_deref()?)))
        .collect();
    for (candidate, why) in out.iter().take(OUT_MAX) {
        let why = why.lines().next().unwrap_or_default();
        writeln!(text, "out: {}: {why}", candidate.name).expect("a String takes all");
    }
    if out.len() > OUT_MAX {
        writeln!(text, "and {} more, in surface.csv", out.len() - OUT_MAX).expect("so does it");
    }
    text
}

fn times(ratio: Interval) -> String {
    if !ratio.low.is_finite() || !ratio.high.is_finite() || ratio.low <= 0.0 {
        return "an unknown multiple (too few blocks) of".to_owned();
    }
    let middle = (ratio.low * ratio.high).sqrt();
    format!("{middle:.3} times ({:.3} to {:.3})", ratio.low, ratio.high)
}

/// The tuning surface: a line for each configuration, those that sustain the most first. `knobs`
/// are the names of the knobs that were varied.
pub fn surface(tuned: &Tuned, knobs: &[String], confidence: f64) -> String {
    let mut text = String::from("configuration,");
    knobs.iter().for_each(|knob| text += &format!("{},", quoted(knob)));
    text += "requests_per_s,low,high,blocks,runs,generator_bound,winner,out\n";
    let mut order: Vec<usize> = (0..tuned.candidates.len()).collect();
    let key =
        |one: &usize| mean_of(&tuned.candidate_states[*one]).map_or(f64::MIN, |mean| mean.mean);
    order.sort_by(|a, b| key(b).total_cmp(&key(a)));
    for one in order {
        let (candidate, state) = (&tuned.candidates[one], &tuned.candidate_states[one]);
        text += &format!("{},", quoted(&candidate.name));
        for knob in knobs {
            let value = candidate.knobs.get(knob).map_or("", String::as_str);
            text += &format!("{},", quoted(value));
        }
        text += &format!(
            "{},{},{},{},{},{}\n",
            rates(state, confidence),
            state.estimates_per_s.len(),
            state.runs,
            state.generator_bound,
            one == tuned.winner,
            quoted(state.out.as_deref().unwrap_or_default()),
        );
    }
    text
}

/// The geometric mean of the estimates and its interval; empty where they are not known.
fn rates(state: &CandidateState, confidence: f64) -> String {
    let Some(mean) = mean_of(state) else { return ",,".into() };
    let middle = mean.mean.exp();
    if mean.count < 2 {
        return format!("{middle:.1},,");
    }
    let Interval { low, high } = statistics::ratio_of_logs(mean.interval(confidence));
    format!("{middle:.1},{low:.1},{high:.1}")
}

/// The mean of the logarithms of the estimates; without an error if there is only one.
fn mean_of(state: &CandidateState) -> Option<Mean> {
    let logs: Vec<f64> = state.estimates_per_s.values().map(|rate| rate.ln()).collect();
    let single = |&log| Mean { count: 1, mean: log, error_squared: 0.0 };
    Mean::from_sample(&logs).or(logs.first().map(single))
}

/// Quotes a field as in RFC 4180.
fn quoted(text: &str) -> String {
    let needs: BTreeSet<char> = [',', '"', '\n', '\r'].into();
    if text.chars().any(|c| needs.contains(&c)) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::mat::Found;
    use super::super::tune::Rival;
    use super::*;

    fn tuned() -> Tuned {
        let candidate = |name: &str, value: &str| Candidate {
            name: name.into(),
            knobs: [("buffers".to_owned(), value.to_owned())].into(),
        };
        let state = |estimates: &[f64], out: Option<&str>| CandidateState {
            estimates_per_s: (1..).zip(estimates.iter().copied()).collect(),
            out: out.map(str::to_owned),
            runs: 4,
            ..CandidateState::default()
        };
        Tuned {
            candidates: vec![
                candidate("usual", "2 32k"),
                candidate("buffers=1 1m", "1 1m"),
                candidate("buffers=a,b", "a,b"),
            ],
            candidate_states: vec![
                state(&[1000.0], None),
                state(&[1100.0, 1210.0], None),
                state(&[], Some("it does not start\nat all")),
            ],
            winner: 1,
            rivals: vec![Rival {
                candidate: 0,
                ratio: Interval { low: 0.99, high: 1.01 },
                verdict: Verdict::Tie,
            }],
            gain: Some(Interval { low: 1.1, high: 1.2 }),
            certainty: Certainty { of_rival: 0.975, of_gain: 0.95, races: 2 },
            is_confirmed: true,
            last_look: Found {
                held_per_s: Some(1150.0),
                broke_per_s: Some(1200.0),
                broken: vec!["served=99%: 96%".into()],
                throughputs_per_s: vec![1150.0; 3],
                conditions: "served=99%".into(),
                ..Found::default()
            },
            runs: Runs { made: 60, void: 2, ..Runs::default() },
            budget_ended: false,
            rounds_ended: false,
        }
    }

    #[test]
    fn in_words() {
        let expected = "\
3 configurations in 60 runs, 2 of them void.
out: buffers=a,b: it does not start
buffers=1 1m has 1.000 times (0.990 to 1.010) the rate of usual: a tie within 2 %
(each interval holds with 97.5 % by itself, that of the gain with 95.0 %, \
however often it was judged;
with 95.0 % nowhere in the 2 races a worse configuration was taken for better)

Best: buffers=1 1m
  sustains 1150 requests/s (held in 3 runs) under served=99%; at 1200 it broke (served=99%: 96%)
  1.149 times (1.100 to 1.200) the rate of usual
";
        assert_eq!(conclude(&tuned(), 0.95, 0.02).to_string(), expected);
    }

    #[test]
    fn challenges_that_did_not_come_to_an_end_are_told() {
        let text = conclude(&Tuned { rounds_ended: true, ..tuned() }, 0.95, 0.02).details;
        assert!(text.contains("\nin each of 5 challenges another became the best; "), "{text}");
    }

    fn undecided() -> Tuned {
        let ratio = Interval { low: 0.0, high: f64::INFINITY };
        let rival = Rival { candidate: 0, ratio, verdict: Verdict::CannotTell };
        Tuned { rivals: vec![rival], budget_ended: true, ..tuned() }
    }

    /// A candidate that happens to be ahead is not the best.
    #[test]
    fn what_was_not_decided_is_not_called_best() {
        assert!(tuned().is_decided() && !undecided().is_decided());
        let text = conclude(&undecided(), 0.95, 0.02).verdict;
        assert!(text.starts_with("Not decided. Ahead: buffers=1 1m\n"), "{text}");
        assert!(!text.contains("Best"), "{text}");
        let unknown = Tuned { winner: 2, rivals: Vec::new(), ..tuned() };
        assert!(!unknown.is_decided(), "of it nothing is known");
    }

    #[test]
    fn the_advice_fits_the_reason() {
        let check = |runs: Runs, is_told: &str, is_not: &str| {
            let text = conclude(&Tuned { runs, ..undecided() }, 0.95, 0.02).details;
            assert!(text.contains(is_told) && !text.contains(is_not), "{text}");
        };
        let none = Runs { made: 40, void: 1, ..Runs::default() };
        check(none, "a longer one may tell more", "disturbed");
        let disturbed = Runs { made: 40, void: 26, disturbed: 24, generator_gave_out: 0 };
        check(disturbed, "other processes disturbed 24 of the 40 runs: stop", "longer one");
        let void = "26 of them void, 24 because other processes disturbed them.\n";
        check(disturbed, void, "longer one");
    }

    /// Two runs of the last look held more than twice what the blocks before had shown.
    #[test]
    fn the_sustained_rate_agrees_with_the_last_runs() {
        let (held_per_s, throughputs_per_s) = (Some(35_107.0), vec![35_100.0, 35_090.0]);
        let last_look = Found { held_per_s, throughputs_per_s, ..Found::default() };
        let told = sustains(&Tuned { last_look, is_confirmed: false, ..tuned() });
        assert_eq!(told, "held 35107 requests/s in 2 runs when the budget was spent");
        let nothing = Tuned { last_look: Found::default(), is_confirmed: false, ..tuned() };
        let expected =
            "sustains about 1154 requests/s by 2 blocks (the budget was spent before a last look)";
        assert_eq!(sustains(&nothing), expected);
    }

    #[test]
    fn a_margin_is_told_as_it_was_typed() {
        let check = |percent: f64, told: &str| {
            let text = conclude(&tuned(), 0.95, percent / 100.0).details;
            assert!(text.contains(&format!("usual: a tie within {told}\n")), "{text}");
        };
        check(0.5, "0.5 %");
        check(2.0, "2 %");
        check(2.3, "2.3 %");
        check(0.0, "0 %");
    }

    #[test]
    fn for_the_records() {
        let rival = |candidate, verdict| Rival {
            candidate,
            ratio: Interval { low: 0.0, high: f64::INFINITY },
            verdict,
        };
        let rivals = vec![rival(2, Verdict::CannotTell), rival(0, Verdict::Higher)];
        let record = tuning(&Tuned { rivals, ..tuned() });
        assert_eq!(record.winner, "buffers=1 1m");
        let rivals: Vec<_> =
            record.rivals.iter().map(|rival| (&*rival.setting, rival.outcome)).collect();
        assert_eq!(rivals, [("buffers=a,b", RaceOutcome::Open), ("usual", RaceOutcome::Better)]);
    }

    #[test]
    fn a_winner_that_held_nothing_at_last_does_not_sustain_0() {
        let broken = vec!["errors=0.1%: 3%".into()];
        let conditions = "errors=0.1%".to_owned();
        let found = Found { broke_per_s: Some(900.0), broken, conditions, ..Found::default() };
        let told = sustains(&Tuned { last_look: found, ..tuned() });
        let expected = "held no rate in its last measurement, under errors=0.1%; \
                        at 900 it broke (errors=0.1%: 3%)";
        assert_eq!(told, expected);
    }

    #[test]
    fn as_a_table() {
        let table = surface(&tuned(), &["buffers".to_owned()], 0.95);
        let lines: Vec<&str> = table.lines().collect();
        let head = "configuration,buffers,requests_per_s,low,high,blocks,runs,generator_bound,\
                    winner,out";
        assert_eq!(lines[0], head);
        assert!(lines[1].starts_with("buffers=1 1m,1 1m,1153.7,"), "{table}");
        assert!(lines[1].ends_with(",2,4,false,true,"), "{table}");
        assert_eq!(lines[2], "usual,2 32k,1000.0,,,1,4,false,false,");
        assert!(lines[3].starts_with("\"buffers=a,b\",\"a,b\",,,,0,4,false,false,\"it does"));
    }
}
