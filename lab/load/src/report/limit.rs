//! Reports a search for the limit: a line for each trial, and the answer in words.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::find_limit::{Conditions, Limit, Rung, Trial, Violation};
use crate::void::Void;
use command::units::Duration;

/// Formats one line for a trial.
#[must_use]
pub fn trial(trial: &Trial) -> String {
    let verdict = match (trial.void.first(), trial.violations.first()) {
        (Some(void), _) => format!("void   {void}"),
        (None, None) => "holds".to_owned(),
        (None, Some(worst)) => format!("broke  {} was {}", worst.condition, found(worst)),
    };
    format!(
        "{:>10.1} sessions/s {:>10.1} asked/s {:>10.1} replies/s  p99 {:>9}{} served {:>7.3} %  \
         {verdict}\n",
        trial.rate,
        trial.asked_per_s,
        trial.replies_per_s,
        Duration(trial.p99_us).to_string(),
        if trial.p99_is_own_lag { '*' } else { ' ' },
        trial.served_share * 100.0
    )
}

/// Formats the answer of the search.
#[must_use]
pub fn text(limit: &Limit, conditions: &Conditions) -> String {
    let mut out = String::from("\n");
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes everything");
    line(headline(limit));
    if limit.interrupted {
        line("  The search was interrupted: this is what the trials so far say.".into());
    }
    if let Some(gave_out) = gave_out(limit) {
        line(gave_out);
    }
    let mut entry = |name: &str, text: String| line(format!("  {name:<11}  {text}"));
    if let Some(held) = limit.held {
        entry("held", format!("{} in {} of {} trials", rate(held), held.held, held.trials));
    }
    if let Some(broke) = limit.broke {
        let broken = broke.trials - broke.held;
        entry("broke", format!("{} in {broken} of {} trials", rate(broke), broke.trials));
        entry("worst first", causes(&limit.causes()));
    }
    if let (Some(held), Some(broke)) = (limit.held, limit.broke) {
        entry("sure", sureness(held, broke));
    }
    entry("asked", conditions.to_string());
    let marked = limit.trials.iter().filter(|trial| trial.p99_is_own_lag).count();
    if marked > 0 {
        let trials = limit.trials.len();
        entry(
            "*",
            format!("mostly the generator's own lag: the p99 of {marked} of {trials} trials"),
        );
    }
    out
}

fn headline(limit: &Limit) -> String {
    match (limit.held, limit.broke) {
        (Some(held), Some(broke)) if limit.is_lower_bound() => {
            format!("The limit lies between {} and {}.", rate(held), rate(broke))
        }
        (Some(held), Some(_)) => format!("The server sustains {}.", rate(held)),
        (Some(held), None) => format!("The server sustains at least {}.", rate(held)),
        (None, Some(_)) => "No rate was found at which the server keeps to the conditions.".into(),
        (None, None) => "Nothing is known of the server.".into(),
    }
}

/// Where the generator was saturated or disturbed, why, and what can be done.
fn gave_out(limit: &Limit) -> Option<String> {
    let rate = limit.gave_out?;
    let at = match (limit.held, limit.broke) {
        (Some(_), Some(_)) => format!("in between, at {rate:.1} sessions/s"),
        (Some(_), None) => {
            format!("before the server's limit was reached, at {rate:.1} sessions/s")
        }
        (None, Some(_)) => format!("at rates below, from {rate:.1} sessions/s on"),
        (None, None) => "at every rate tried".into(),
    };
    let is_disturbed = limit.is_disturbed();
    let (what, advice) = match is_disturbed {
        true => (
            "Other processes were in the way",
            "Try it on a quiet machine, or give generator (--cpus) and server CPUs that nothing \
             else uses.",
        ),
        false => (
            "The generator was saturated",
            "Give it more threads (--threads) and CPUs of its own (--cpus).",
        ),
    };
    let mut reasons = limit.void_trials().flat_map(|trial| &trial.void);
    let why = reasons.find(|why| why.is_interference() == is_disturbed);
    let why = why.map_or_else(|| "void".into(), Void::to_string);
    Some(format!("  {what} {at}:\n  {why}.\n  {advice}"))
}

fn rate(rung: Rung) -> String {
    let Rung { rate, asked_per_s, replies_per_s, .. } = rung;
    format!(
        "{rate:.1} sessions/s ({asked_per_s:.1} requests/s asked, {replies_per_s:.1} replies/s)"
    )
}

fn causes(causes: &[&Violation]) -> String {
    let shown = causes.iter().map(|cause| format!("{} (was {})", cause.condition, found(cause)));
    match shown.collect::<Vec<_>>() {
        shown if shown.is_empty() => "nothing".into(),
        shown => shown.join(", then "),
    }
}

/// What was found, with the mark of what is mostly the generator's own lag.
fn found(violation: &Violation) -> String {
    format!("{}{}", violation.found, if violation.is_own_lag { "*" } else { "" })
}

fn sureness(held: Rung, broke: Rung) -> String {
    let gap = (broke.rate / held.rate - 1.0) * 100.0;
    let unanimous = held.held == held.trials && broke.held == 0;
    let few = held.trials.min(broke.trials);
    let agreement = match unanimous {
        true if few < 3 => "all trials that count agree, but most at one end were void".to_owned(),
        true => format!("all trials agree, {few} or more at each end"),
        false => "trials at one rate disagree".to_owned(),
    };
    format!("{agreement}; the limit lies within {gap:.1} % above what held")
}

/// The result of the search as JSON, for other programs.
#[must_use]
pub fn json(limit: &Limit, conditions: &Conditions) -> String {
    let trials: Vec<Value> = limit.trials.iter().map(trial_json).collect();
    let document = json!({
        "format": "ropewalk limit 1",
        "conditions": conditions.to_string(),
        "held": limit.held.map(rung_json),
        "broke": limit.broke.map(rung_json),
        "causes": limit.causes().into_iter().map(violation_json).collect::<Vec<_>>(),
        "gave_out_sessions_per_s": limit.gave_out.filter(|_| !limit.is_disturbed()),
        "disturbed_sessions_per_s": limit.gave_out.filter(|_| limit.is_disturbed()),
        "interrupted": limit.interrupted,
        "lower_bound_only": limit.is_lower_bound(),
        "trials": trials,
    });
    format!("{document:#}\n")
}

fn rung_json(rung: Rung) -> Value {
    json!({
        "sessions_per_s": rung.rate,
        "asked_per_s": rung.asked_per_s,
        "replies_per_s": rung.replies_per_s,
        "held": rung.held,
        "trials": rung.trials,
    })
}

fn violation_json(violation: &Violation) -> Value {
    json!({
        "condition": violation.condition.to_string(),
        "found": violation.found.to_string(),
        "excess": violation.excess,
        "mostly_own_lag": violation.is_own_lag,
    })
}

fn trial_json(trial: &Trial) -> Value {
    json!({
        "sessions_per_s": trial.rate,
        "asked_per_s": trial.asked_per_s,
        "replies_per_s": trial.replies_per_s,
        "p99_us": trial.p99_us,
        "p99_mostly_own_lag": trial.p99_is_own_lag,
        "served_share": trial.served_share,
        "violations": trial.violations.iter().map(violation_json).collect::<Vec<_>>(),
        "void": trial.void.iter().map(Void::to_string).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rung(rate: f64, held: u32) -> Rung {
        Rung { rate, asked_per_s: rate, replies_per_s: rate, held, trials: 3 }
    }

    #[track_caller]
    fn check(limit: [Option<f64>; 3], interrupted: bool, expected: &[&str], status: u8) {
        let [held, broke, gave_out] = limit;
        let trial = Trial {
            rate: gave_out.unwrap_or(1.0),
            asked_per_s: 0.0,
            replies_per_s: 0.0,
            p99_us: 0,
            p99_is_own_lag: false,
            served_share: 1.0,
            violations: Vec::new(),
            void: vec!["it was late".into()],
        };
        let (held, broke) = (held.map(|rate| rung(rate, 3)), broke.map(|rate| rung(rate, 0)));
        let limit = Limit { held, broke, gave_out, interrupted, trials: vec![trial] };
        let text = text(&limit, &Conditions::default());
        for part in expected {
            assert!(text.contains(part), "{part:?} is not in {text}");
        }
        assert_eq!(text.contains("interrupted"), interrupted, "{text}");
        assert_eq!(text.contains("generator"), gave_out.is_some(), "{text}");
        // A search is not divided among generators, so no hint names shares.
        assert!(!text.contains("--share"), "{text}");
        assert_eq!(limit.exit_code(), status, "{text}");
    }

    #[test]
    fn answers() {
        let (low, middle, high) = (Some(100.0), Some(140.0), Some(200.0));
        check(
            [low, high, None],
            false,
            &["\nThe server sustains 100.0 ", "  broke        200.0 "],
            0,
        );
        let between = "\nThe limit lies between 100.0 sessions/s (100.0 requests/s asked, 100.0 \
             replies/s) and 200.0 ";
        let why =
            "saturated in between, at 140.0 sessions/s:\n  it was late.\n  Give it more threads";
        check([low, high, middle], false, &[between, why], 3);
        let before = "saturated before the server's limit was reached, at 200.0 ";
        check([low, None, high], false, &["\nThe server sustains at least 100.0 ", before], 3);
        check([None, high, None], false, &["\nNo rate was found"], 1);
        check([None, None, low], false, &["saturated at every rate tried:\n  it was late.\n"], 3);
    }

    /// A generator that other processes disturb is not said to be saturated.
    #[test]
    fn a_generator_that_was_held_up_has_not_given_out() {
        let void = vec![
            Void::Late { p99_us: 20_000, bound_us: 10_000 },
            Void::Starved { waited_percent: 60, bound_percent: 25 },
        ];
        let trial = Trial {
            rate: 200.0,
            asked_per_s: 200.0,
            replies_per_s: 0.0,
            p99_us: 0,
            p99_is_own_lag: false,
            served_share: 1.0,
            violations: Vec::new(),
            void,
        };
        let (held, gave_out) = (Some(rung(100.0, 3)), Some(200.0));
        let limit = Limit { held, broke: None, gave_out, interrupted: false, trials: vec![trial] };
        let text = text(&limit, &Conditions::default());
        let expected = "  Other processes were in the way before the server's limit was reached, \
                        at 200.0 sessions/s:\n  interference: other processes made";
        assert!(text.contains(expected) && !text.contains("saturated"), "{text}");
        let document: Value = serde_json::from_str(&json(&limit, &Conditions::default())).unwrap();
        assert_eq!(document["gave_out_sessions_per_s"], Value::Null);
        assert_eq!(document["disturbed_sessions_per_s"], 200.0);
    }

    /// A time that says more about the generator than about the server is marked wherever it is
    /// shown.
    #[test]
    fn a_p99_that_is_mostly_lag_is_marked() {
        let of = |p99_is_own_lag| {
            let trial = Trial {
                rate: 200.0,
                asked_per_s: 200.0,
                replies_per_s: 200.0,
                p99_us: 2_000,
                p99_is_own_lag,
                served_share: 1.0,
                violations: Vec::new(),
                void: Vec::new(),
            };
            let held = Some(rung(200.0, 3));
            let line = super::trial(&trial);
            let limit = Limit {
                held,
                broke: None,
                gave_out: None,
                interrupted: false,
                trials: vec![trial],
            };
            let document = json(&limit, &Conditions::default());
            let document: Value = serde_json::from_str(&document).unwrap();
            let told = text(&limit, &Conditions::default());
            (
                line,
                told.contains("own lag: the p99 of 1 of 1 trials"),
                document["trials"][0].clone(),
            )
        };
        let (marked, is_told, document) = of(true);
        assert!(marked.contains("p99       2ms* served") && is_told, "{marked}");
        assert_eq!(document["p99_mostly_own_lag"], true);
        let (plain, is_told, document) = of(false);
        assert!(plain.contains("p99       2ms  served") && !is_told, "{plain}");
        assert_eq!(document["p99_mostly_own_lag"], false);
    }

    #[test]
    fn interrupted_answers() {
        let (low, high) = (Some(100.0), Some(200.0));
        check([low, high, None], true, &["\nThe server sustains 100.0 "], 4);
        check([low, None, None], true, &["\nThe server sustains at least 100.0 "], 4);
        check([None, high, None], true, &["\nNo rate was found"], 4);
        check([None, None, None], true, &["\nNothing is known of the server."], 4);
    }
}
