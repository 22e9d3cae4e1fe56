//! What a search for the limit has found: a line for each trial, and the answer in words.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::find_limit::{Conditions, Limit, Rung, Trial, Violation};
use crate::units::Duration;

/// One line for a trial.
#[must_use]
pub fn trial(trial: &Trial) -> String {
    let verdict = match (trial.void.first(), trial.violations.first()) {
        (Some(void), _) => format!("void   {void}"),
        (None, None) => "holds".to_owned(),
        (None, Some(worst)) => format!("broke  {} was {}", worst.condition, worst.found),
    };
    format!(
        "{:>10.1} sessions/s {:>10.1} replies/s  p99 {:>9}  served {:>7.3} %  {verdict}\n",
        trial.rate,
        trial.replies_per_s,
        Duration(trial.p99_us).to_string(),
        trial.served_share * 100.0
    )
}

/// The answer.
#[must_use]
pub fn text(limit: &Limit, conditions: &Conditions) -> String {
    let mut out = String::from("\n");
    let mut line = |text: String| writeln!(out, "{text}").expect("a String takes everything");
    match (limit.held, limit.broke) {
        (Some(held), Some(broke)) => {
            line(format!("The server bears {}.", rate(held)));
            line(format!("  held    {} in {} of {} trials", rate(held), held.held, held.trials));
            let broken = broke.trials - broke.held;
            line(format!("  broke   {} in {broken} of {} trials", rate(broke), broke.trials));
            line(format!("  first   {}", causes(&limit.causes())));
            line(format!("  sure    {}", sureness(held, broke)));
        }
        (Some(held), None) => {
            line(format!("The server bears at least {}.", rate(held)));
            line(
                "  The generator gave out before the server did: give it more threads and CPUs, \
                  or several generators (--share)."
                    .into(),
            );
        }
        (None, _) => {
            line("No rate was found at which the server keeps to the conditions.".into());
            line(format!("  broke   {}", causes(&limit.causes())));
        }
    }
    line(format!("  asked   {conditions}"));
    out
}

fn rate(rung: Rung) -> String {
    format!("{:.1} sessions/s ({:.1} replies/s)", rung.rate, rung.replies_per_s)
}

fn causes(causes: &[&Violation]) -> String {
    let shown = causes.iter().map(|cause| format!("{} (was {})", cause.condition, cause.found));
    match shown.collect::<Vec<_>>() {
        shown if shown.is_empty() => "nothing".into(),
        shown => shown.join(", then "),
    }
}

fn sureness(held: Rung, broke: Rung) -> String {
    let gap = (broke.rate / held.rate - 1.0) * 100.0;
    let unanimous = held.held == held.trials && broke.held == 0;
    let agreement = if unanimous { "all trials agree" } else { "trials at one rate disagree" };
    format!("{agreement}; the limit lies within {gap:.1} % above what held")
}

/// For other programs.
#[must_use]
pub fn json(limit: &Limit, conditions: &Conditions) -> String {
    let trials: Vec<Value> = limit.trials.iter().map(trial_json).collect();
    let document = json!({
        "format": "ropewalk limit 1",
        "conditions": conditions.to_string(),
        "held": limit.held.map(rung_json),
        "broke": limit.broke.map(rung_json),
        "causes": limit.causes().into_iter().map(violation_json).collect::<Vec<_>>(),
        "lower_bound_only": limit.is_lower_bound(),
        "trials": trials,
    });
    format!("{document:#}\n")
}

fn rung_json(rung: Rung) -> Value {
    json!({
        "sessions_per_s": rung.rate,
        "replies_per_s": rung.replies_per_s,
        "held": rung.held,
        "trials": rung.trials,
    })
}

fn violation_json(violation: &Violation) -> Value {
    json!({
        "condition": violation.condition,
        "found": violation.found,
        "excess": violation.excess,
    })
}

fn trial_json(trial: &Trial) -> Value {
    json!({
        "sessions_per_s": trial.rate,
        "replies_per_s": trial.replies_per_s,
        "p99_us": trial.p99_us,
        "served_share": trial.served_share,
        "violations": trial.violations.iter().map(violation_json).collect::<Vec<_>>(),
        "void": trial.void,
    })
}
