//! Whether the budget of a study holds a run of it.

use crate::error::Error;
use command::estimate::minutes;

/// Refuses a budget in which not one run fits: it would be spent at once, however often it is
/// given. `or` is what else would help.
///
/// # Errors
/// When the budget does not hold a run of `run_s` seconds.
pub(crate) fn check(budget_s: Option<f64>, run_s: f64, or: &str) -> Result<(), Error> {
    let shown = |seconds: f64| match seconds {
        s if s < 1.0 => format!("{:.3} ms", 1000.0 * s),
        s => minutes(s),
    };
    match budget_s {
        Some(budget_s) if budget_s < run_s => Err(Error::Usage(format!(
            "a budget of {}: a run of this study alone is estimated to take {}: give more \
             (--budget), or {or}",
            shown(budget_s),
            shown(run_s)
        ))),
        _ => Ok(()),
    }
}
