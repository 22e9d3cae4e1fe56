//! Checks that the number of sessions under way is steady in the window of an open run.
//!
//! A run begins without sessions. Where sessions pause, their later requests are missing until the
//! first sessions have reached them, so that a short window sees less than the rate that was asked
//! for. A search for the highest rate that a server sustains would report a rate that the server
//! was never asked for: so the window begins later, or nothing is measured.

use crate::plan::{Model, Plan, Process};
use command::units::Duration;

/// Sessions that need longer than this are not waited for.
pub const FILLING_US_MAX: u64 = 600_000_000;

/// The least part of the rate that a window must see, 0 to 1.
const SHARE_DUE_MIN: f64 = 0.98;

/// Returns the time that sessions need ([`RequestLog::filling_us`]) if it can be waited for.
///
/// # Errors
/// What to do if that time is too long.
///
/// [`RequestLog::filling_us`]: workload::request_log::RequestLog::filling_us
pub fn bounded(needed_us: u64) -> Result<u64, String> {
    if needed_us <= FILLING_US_MAX {
        return Ok(needed_us);
    }
    let (needed, max) = (Duration(needed_us), Duration(FILLING_US_MAX));
    Err(format!(
        "sessions pause for so long that it takes {needed} until as many are under way as always \
         will be, and {max} are the most: cut their pauses with --think-max, or give a --warm-up"
    ))
}

/// Checks that the window of an open run sees the rate that is asked for.
///
/// # Errors
/// How much of the rate the window sees, and what to do.
pub fn check(plan: &Plan) -> Result<(), String> {
    let Model::Open(Process::Constant(_) | Process::Poisson(_)) = plan.model else {
        return Ok(());
    };
    let (warm_up_us, Some(window_us)) = (plan.warm_up_us, plan.duration_us) else { return Ok(()) };
    let share = plan.log.share_due(warm_up_us, warm_up_us + window_us);
    if share >= SHARE_DUE_MIN {
        return Ok(());
    }
    let (typed, window) = (Duration(warm_up_us), Duration(window_us));
    let needed = Duration(plan.log.filling_us());
    Err(format!(
        "--warm-up {typed}: sessions pause, so that a window of {window} behind it sees {:.0} % of \
         the rate: give {needed}, or cut the pauses with --think-max",
        (share * 100.0).floor()
    ))
}

#[cfg(test)]
mod tests {
    use workload::request_log::RequestLog;

    use super::*;
    use crate::options::Options;

    /// A log of one session of four requests with these pauses between them.
    fn log(pauses_s: [u64; 3]) -> RequestLog {
        let mut builder = RequestLog::builder();
        let get = builder.intern_get(b"/a");
        pauses_s.iter().for_each(|pause_s| builder.push_known(get, false, pause_s * 1_000_000));
        builder.push_known(get, false, 3_600_000_000); // after which nothing comes
        builder.end_session();
        builder.finish().expect("it has a session")
    }

    #[test]
    fn a_run_begins_before_its_window_by_what_its_sessions_pause() {
        let warm_up_us = |pauses_s| bounded(log(pauses_s).filling_us());
        assert_eq!(warm_up_us([0, 0, 0]), Ok(0));
        assert_eq!(warm_up_us([1, 2, 3]), Ok(6_000_000));
        assert_eq!(warm_up_us([0, 0, 600]), Ok(FILLING_US_MAX));
        let why = warm_up_us([0, 0, 601]).expect_err("that is too long");
        assert!(why.contains("it takes 601s until") && why.contains("10m are the most"), "{why}");
    }

    #[test]
    fn a_window_that_sees_less_than_the_rate_is_refused() {
        let refused = |pauses_s, arrivals: &str, warm_up_s: u64, expected: Option<&str>| {
            let words = format!("http://127.0.0.1:1/ {arrivals} --duration 3s");
            let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
            let options = Options::from_arguments(&words).expect("they are options");
            let (mut plan, _) = options.resolve().expect("they go together");
            plan.log = log(pauses_s).into();
            plan.warm_up_us = warm_up_s * 1_000_000;
            assert_eq!(check(&plan).err().as_deref(), expected, "{arrivals} {warm_up_s}");
        };
        // Of four requests the first is due at once, the second after a third of the window, the
        // third at its end.
        let first = "--warm-up 0s: sessions pause, so that a window of 3s behind it sees 41 % of \
                     the rate: give 6s, or cut the pauses with --think-max";
        refused([1, 2, 3], "--rate 5", 0, Some(first));
        refused([1, 2, 3], "--rate 5 --arrivals poisson", 0, Some(first));
        let late = first.replace("p 0s", "p 5s").replace("41 %", "91 %");
        refused([1, 2, 3], "--rate 5", 5, Some(&late));
        refused([1, 2, 3], "--rate 5", 6, None);
        refused([1, 2, 3], "--connections 5", 0, None);
        refused([0, 0, 0], "--rate 5", 0, None);
    }
}
