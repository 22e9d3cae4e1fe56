//! Which sessions a thread begins, and when: its share of those of all generators.

use crate::client::Starts;
use crate::plan::{Model, Plan, Process};

/// The numbers of the sessions that `thread` begins, with their times by the clock of the run.
pub(crate) fn of_thread(
    plan: &Plan,
    thread: usize,
    start_us: u64,
) -> Result<Box<dyn Starts>, String> {
    let max = plan.sessions_max.unwrap_or(u64::MAX);
    let (first, step) = place(plan, thread);
    match &plan.model {
        Model::Closed { .. } => {
            let numbers = (first..max).step_by(step as usize);
            Ok(Box::new(numbers.map(move |session| (session, start_us))))
        }
        Model::Open(Process::Constant(rate)) => {
            let rate = *rate;
            let numbers = (first..max).step_by(step as usize);
            Ok(Box::new(numbers.map(move |k| (k, start_us + (k as f64 * 1e6 / rate) as u64))))
        }
        Model::Open(_) => Err("not yet".into()),
    }
}

/// How many clients of a closed run are the thread's.
pub(crate) fn clients_of_thread(plan: &Plan, thread: usize) -> usize {
    let Model::Closed { clients, .. } = plan.model else { return 0 };
    let (first, step) = place(plan, thread);
    clients.saturating_sub(first).div_ceil(step) as usize
}

/// Where the thread stands among all threads of all generators, and how many they are.
fn place(plan: &Plan, thread: usize) -> (u64, u64) {
    let (index, of) = plan.share;
    let first = u64::from(index) + u64::from(of) * thread as u64;
    (first, u64::from(of) * plan.threads as u64)
}
