//! Takes steps with one connection until it pauses: the loop around [`super::step`] that all
//! engines share. Where a call is driven beside its client, or a stage sends what is in memory and
//! no more, other steps end the loop (`applications/client_end.rs`, `staged/caller.rs`).

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::step::{STEPS_PER_JOB, Step, Turn};

/// Why a connection pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pause {
    /// The connection's socket has nothing to receive, or no room to send.
    Wait,
    /// The connection's turn is over; it can go on at once.
    Yield,
    /// Something is under way for it elsewhere: a job, a fetch, an operation of a ring, the work of
    /// another stage.
    Away,
    /// The connection is over.
    Closed,
}

/// The outcome of an attempt to begin work that a connection wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is done, or cannot be done apart from the step that needs it.
    Done,
    /// It is out, or put off: the connection goes on with what else there is.
    Out,
    /// Nothing happens to the connection until the engine comes back to it.
    Away,
}

/// A connection in the hands of the engine that drives it.
pub(crate) trait Driven {
    /// Takes one step.
    fn step(&mut self, turn: &mut Turn) -> Step;

    /// Has the job run that the connection wants.
    fn job(&mut self) -> Begun;

    /// Has the next bytes of the file fetched where that delays no other connection. If the engine
    /// cannot do so (`Done`), the bytes are sent without, and all connections of the loop wait for
    /// the disk.
    fn fetch(&mut self, _turn: &Turn) -> Begun {
        Begun::Done
    }

    /// Receives beside work that waits for its turn, if the engine can.
    fn receive_beside(&mut self) -> Step {
        Step::Away
    }
}

/// Drives a connection until it pauses. A bug met by one connection ends that connection: the panic
/// has been printed.
#[inline]
pub(crate) fn drive<D: Driven>(driven: &mut D, turn: &mut Turn) -> Pause {
    catch_unwind(AssertUnwindSafe(|| drive_unguarded(driven, turn))).unwrap_or(Pause::Closed)
}

/// Drives a connection until it pauses, without catching panics: for an engine whose guard against
/// them is further out.
#[inline]
pub(crate) fn drive_unguarded<D: Driven>(driven: &mut D, turn: &mut Turn) -> Pause {
    while turn.steps > 0 {
        match driven.step(turn) {
            Step::More => turn.steps -= 1,
            Step::Job => match driven.job() {
                Begun::Done => turn.steps = turn.steps.saturating_sub(STEPS_PER_JOB),
                Begun::Out => turn.steps -= 1,
                Begun::Away => return wait_beside(driven),
            },
            Step::Cold => match driven.fetch(turn) {
                Begun::Done => turn.is_fetched = true,
                Begun::Out => turn.steps -= 1,
                Begun::Away => return wait_beside(driven),
            },
            Step::Away => return Pause::Away,
            Step::Yield => return Pause::Yield,
            Step::Wait => return Pause::Wait,
            Step::Closed => return Pause::Closed,
        }
    }
    Pause::Yield
}

/// Receives what comes for a connection whose work waits for its turn.
#[cold]
pub(crate) fn drive_beside<D: Driven>(driven: &mut D) -> Pause {
    catch_unwind(AssertUnwindSafe(|| wait_beside(driven))).unwrap_or(Pause::Closed)
}

#[cold]
#[inline(never)]
fn wait_beside<D: Driven>(driven: &mut D) -> Pause {
    loop {
        match driven.receive_beside() {
            Step::More => {}
            Step::Closed => return Pause::Closed,
            _ => return Pause::Away,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::step::STEPS_PER_TURN;
    use super::*;
    use crate::engine::SendfileMode;

    /// A connection that takes the steps of a script.
    struct Script<'s> {
        steps: &'s [Step],
        taken: usize,
        job: Begun,
        fetch: Begun,
        /// For each step, whether the bytes it sends had been fetched.
        fetched: Vec<bool>,
    }

    impl Driven for Script<'_> {
        fn step(&mut self, turn: &mut Turn) -> Step {
            let step = self.steps.get(self.taken).copied().unwrap_or(Step::More);
            self.taken += 1;
            self.fetched.push(std::mem::take(&mut turn.is_fetched));
            assert!(self.taken < 1000, "it has no end");
            step
        }

        fn job(&mut self) -> Begun {
            self.job
        }

        fn fetch(&mut self, _: &Turn) -> Begun {
            self.fetch
        }
    }

    #[track_caller]
    fn check(steps: &[Step], begun: Begun, pause: Pause, taken: usize) -> Vec<bool> {
        let fetched = Vec::new();
        let mut script = Script { steps, taken: 0, job: begun, fetch: begun, fetched };
        let mut turn = Turn::new(1 << 20, SendfileMode::Probe);
        assert_eq!(drive(&mut script, &mut turn), pause);
        assert_eq!(script.taken, taken);
        script.fetched
    }

    #[test]
    fn a_turn_ends_with_what_the_connection_waits_for_or_when_it_was_long_enough() {
        let more = [Step::More; 2];
        for (last, pause) in [
            (Step::Wait, Pause::Wait),
            (Step::Yield, Pause::Yield),
            (Step::Away, Pause::Away),
            (Step::Closed, Pause::Closed),
        ] {
            check(&[&more[..], &[last]].concat(), Begun::Done, pause, 3);
        }
        check(&[], Begun::Done, Pause::Yield, STEPS_PER_TURN as usize);
    }

    #[test]
    fn a_job_counts_for_many_steps_unless_it_is_done_elsewhere() {
        let jobs = [Step::Job; 9];
        let taken = (STEPS_PER_TURN / STEPS_PER_JOB) as usize;
        check(&jobs, Begun::Done, Pause::Yield, taken);
        check(&jobs, Begun::Away, Pause::Away, 1);
        let then_wait = [Step::Job, Step::More, Step::Wait];
        check(&then_wait, Begun::Out, Pause::Wait, 3);
    }

    #[test]
    fn bytes_that_are_not_in_memory_are_fetched_or_sent_without() {
        let cold = [Step::Cold, Step::More, Step::Wait];
        let fetched = check(&cold, Begun::Done, Pause::Wait, 3);
        assert_eq!(fetched, [false, true, false]);
        let fetched = check(&cold, Begun::Out, Pause::Wait, 3);
        assert_eq!(fetched, [false; 3]);
        check(&cold, Begun::Away, Pause::Away, 1);
    }

    #[test]
    fn a_panic_ends_its_connection() {
        let endless = [Step::Cold; 2000];
        check(&endless, Begun::Done, Pause::Closed, 1000);
    }
}
