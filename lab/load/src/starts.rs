//! The sessions that a thread begins, and their times: its share of the sessions of all generators.

use crate::arrivals::{Arrivals, Constant, Poisson, Share, Trace};
use crate::client::Starts;
use crate::plan::{Model, Plan, Process};

/// The numbers of the sessions that `thread` begins, with their times by the clock of the run,
/// which begins at `start_us`.
pub(crate) fn for_thread(plan: &Plan, thread: usize, start_us: u64) -> Box<dyn Starts> {
    let max = plan.sessions_max.unwrap_or(u64::MAX);
    let (first, step) = place(plan, thread);
    match &plan.model {
        Model::Closed { .. } => {
            let numbers = (first..max).step_by(usize::try_from(step).unwrap_or(usize::MAX));
            Box::new(numbers.map(move |session| (session, start_us)))
        }
        Model::Open(process) => {
            let share = Share::new(arrivals(plan, process), first, step);
            let ours = share.take_while(move |(session, _)| *session < max);
            Box::new(ours.map(move |(session, at_us)| (session, start_us + at_us)))
        }
    }
}

fn arrivals(plan: &Plan, process: &Process) -> Box<dyn Arrivals> {
    match process {
        Process::Constant(schedule) => Box::new(Constant::new(schedule.clone())),
        Process::Poisson(schedule) => Box::new(Poisson::new(schedule.clone(), plan.seed)),
        Process::Trace(speed) => {
            let starts = (0..plan.log.sessions()).map_while(|index| plan.log.start_us(index));
            Box::new(Trace::new(starts.collect(), *speed))
        }
    }
}

/// The number of the thread's clients in a closed run.
pub(crate) fn clients_of_thread(plan: &Plan, thread: usize) -> usize {
    let Model::Closed { clients, .. } = plan.model else { return 0 };
    let (first, step) = place(plan, thread);
    clients.saturating_sub(first).div_ceil(step) as usize
}

/// The number of the thread among all threads of all generators, and the number of these threads.
fn place(plan: &Plan, thread: usize) -> (u64, u64) {
    let (index, of) = plan.share;
    let first = u64::from(index) + u64::from(of) * thread as u64;
    (first, u64::from(of) * threads(plan) as u64)
}

/// The number of threads that the run needs: sessions assigned to a thread without clients would
/// never begin.
pub(crate) fn threads(plan: &Plan) -> usize {
    let Model::Closed { clients, .. } = plan.model else { return plan.threads };
    let (index, of) = plan.share;
    let ours = clients.saturating_sub(u64::from(index)).div_ceil(u64::from(of));
    plan.threads.min(usize::try_from(ours).unwrap_or(usize::MAX)).max(1)
}
