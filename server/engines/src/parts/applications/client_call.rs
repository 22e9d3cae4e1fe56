//! The call of a client's connection, in an engine that drives both beside each other: the client
//! in turns, and the call when its stream or its socket has something for it. All of it is out of
//! the way of requests for files.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::task::Waker;

use session::{Connection, Job, JobId, Tick, Worker};

use super::call_pool::CallPool;
use super::driven_call::{DrivenCall, Progress, SessionClient, WatchLine};
use crate::jobs::Runner;

/// The place of a connection's call. It is empty most of the time, and as small as it can be.
pub(crate) struct ClientCall<S: AsFd + From<OwnedFd>>(Option<Box<Out<S>>>);

struct Out<S: AsFd + From<OwnedFd>> {
    id: JobId,
    driven: DrivenCall<S>,
}

/// What a call needs to go on.
pub(crate) struct Lent<'l, W> {
    pub(crate) connection: &'l mut Connection,
    pub(crate) worker: &'l mut Worker,
    pub(crate) buffer: &'l mut [u8],
    pub(crate) runner: &'l Runner,
    pub(crate) watch: W,
    /// Whether its connection may be kept for the next call.
    pub(crate) may_keep: bool,
}

impl<S: AsFd + From<OwnedFd>> ClientCall<S> {
    pub(crate) const NONE: Self = Self(None);

    #[inline]
    pub(crate) fn is_out(&self) -> bool {
        self.0.is_some()
    }

    pub(crate) fn driven(&mut self) -> Option<&mut DrivenCall<S>> {
        self.0.as_deref_mut().map(|out| &mut out.driven)
    }

    /// Whether the job that a connection wants may be for [`ClientCall::call`].
    pub(crate) fn is_wanted(&self, connection: &Connection) -> bool {
        self.is_out() || matches!(connection.job(), Some(Job::Application(_)))
    }

    /// Begins the call that the connection wants, or goes on with it. Returns false if the
    /// connection wants another job.
    #[cold]
    #[inline(never)]
    pub(crate) fn call<W: WatchLine<Socket = S>>(
        &mut self,
        lent: Lent<'_, W>,
        pool: &Arc<CallPool<S>>,
        waker: impl FnOnce() -> Waker,
    ) -> bool {
        match lent.connection.job() {
            Some(Job::Application(_)) => {
                self.end(); // the last one may have been left before its end
                let (id, job) = lent.connection.take_job();
                let Job::Application(call) = job else { unreachable!("it was looked at") };
                let driven = DrivenCall::begin(pool, call, waker, lent.worker.now());
                self.0 = Some(Box::new(Out { id, driven }));
            }
            None => {} // its stream has something for the application
            Some(_) => {
                self.end(); // its client goes on without it
                return false;
            }
        }
        self.go_on(lent, false);
        true
    }

    /// Goes on with the call as far as that is possible, after its deadline if that `may_be_due`.
    #[cold]
    #[inline(never)]
    pub(crate) fn go_on<W: WatchLine<Socket = S>>(&mut self, lent: Lent<'_, W>, may_be_due: bool) {
        let Lent { connection, worker, buffer, runner, watch, may_keep } = lent;
        let Some(Out { id, driven }) = self.0.as_deref_mut() else { return };
        let (id, now) = (*id, worker.now());
        let mut client = SessionClient { connection, worker, id, watch };
        if may_be_due {
            driven.expire_if_due(&mut client, now);
        }
        if driven.go_on(&mut client, buffer, now, runner, may_keep) == Progress::Over {
            self.end();
        }
    }

    /// When the call or its client is to go on though nothing has come.
    #[inline]
    pub(crate) fn deadline(&self, of_client: Option<Tick>) -> Option<Tick> {
        if self.is_out() { self.deadline_beside(of_client) } else { of_client }
    }

    #[cold]
    #[inline(never)]
    fn deadline_beside(&self, of_client: Option<Tick>) -> Option<Tick> {
        let of_call = self.0.as_ref().and_then(|out| out.driven.deadline());
        of_call.into_iter().chain(of_client).min()
    }

    /// Ends the call if the client does not want it any more.
    #[cold]
    #[inline(never)]
    pub(crate) fn end_unwanted(&mut self, connection: &Connection) {
        self.0.take_if(|out| !connection.wants_stream(out.id));
    }

    /// Ends the call. Its connection is closed.
    pub(crate) fn end(&mut self) {
        self.0 = None;
    }
}
