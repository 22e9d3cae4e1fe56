//! A model of the grammar of a connection's calls ([`Connection`] has it in words), which is
//! checked beside every call that the drivers of these tests make.

use session::{Connection, JobId, Op, Phase};

/// The most bytes of a file that are read at once.
const READ_BYTES_MAX: usize = 16 * 1024;

/// What a driver knows of a connection by its calls alone.
#[derive(Default)]
pub(crate) struct Grammar {
    /// The number of jobs that have been begun.
    jobs: u32,
    /// The job that is out.
    out: Option<JobId>,
    /// The job that has answered in part, and whose rest has not been taken.
    stream: Option<JobId>,
    /// Whether the end of the client's stream has been reported.
    is_at_end: bool,
    is_shut: bool,
    /// Whether the connection is to be closed, with a reset or without.
    closed: Option<bool>,
    /// Where the bytes are that are to be sent, until some are reported as sent.
    to_send: Option<usize>,
    /// Whether all jobs are calls of applications: each has a stream as long as it is out.
    has_calls: bool,
}

impl Grammar {
    /// Of a driver whose jobs may be calls of applications, if it `has_calls`, and nothing else.
    pub(crate) fn new(has_calls: bool) -> Self {
        Self { has_calls, ..Self::default() }
    }

    /// Checks what the connection wants next.
    pub(crate) fn asked(&mut self, connection: &Connection) {
        let op = connection.next();
        assert_eq!(shape(&op), shape(&connection.next()), "next() changes by being asked");
        let is_out = self.out.is_some();
        if let Some(reset) = self.closed {
            assert!(matches!(op, Op::Close { reset: r } if r == reset), "{op:?} after a close");
        }
        match op {
            Op::Job => assert!(!is_out && self.stream.is_none(), "a second job: {:?}", self.out),
            Op::Stream(id) if self.has_calls => assert_eq!(Some(id), self.out),
            Op::Stream(id) => assert_eq!((None, Some(id)), (self.out, self.stream)),
            Op::Send { head, body, .. } => {
                assert!(!self.is_shut, "bytes after the end: {op:?}");
                let place = if head.is_empty() { body } else { head }.as_ptr() as usize;
                assert_eq!(*self.to_send.get_or_insert(place), place, "the bytes have moved");
            }
            Op::Read { len, .. } => assert!(!self.is_shut && len <= READ_BYTES_MAX, "{op:?}"),
            Op::File { .. } => assert!(!self.is_shut, "bytes after the end: {op:?}"),
            Op::Recv => assert!(!self.is_at_end, "nothing comes after the end"),
            Op::Wait => assert!(is_out, "it waits for a job that is not out"),
            Op::Shutdown => assert!(!is_out && !self.is_shut && !self.is_at_end),
            Op::Close { reset } => self.closed = Some(reset),
        }
        let wants_job = match op {
            Op::Stream(_) => !self.has_calls,
            _ => matches!(op, Op::Job),
        };
        assert_eq!(connection.job().is_some(), wants_job, "a job comes before all else");
        self.check_pauses(connection, &op);
    }

    /// Checks what the connection says of itself where its driver would wait.
    fn check_pauses(&self, connection: &Connection, op: &Op<'_>) {
        let waits_for_job = self.out.is_some() && matches!(op, Op::Recv | Op::Wait);
        let has_deadline = connection.deadline().is_some();
        match self.has_calls {
            // A client that owes a body has its time.
            true => assert!(has_deadline || waits_for_job || matches!(op, Op::Stream(_)), "{op:?}"),
            false => assert_eq!(has_deadline, !waits_for_job, "{op:?}"),
        }
        let is_gathered = self.has_calls && matches!(op, Op::Recv);
        let wants_input = connection.wants_input();
        match op {
            Op::Recv => assert!(wants_input, "what is received has no place"),
            Op::Wait | Op::Shutdown | Op::Close { .. } => assert!(!wants_input, "{op:?}"),
            _ => assert!(!(self.is_at_end && wants_input), "input after the end"),
        }
        let is_meant = match connection.phase() {
            Phase::Idle | Phase::Reading => matches!(op, Op::Recv) && self.out.is_none(),
            Phase::Working => matches!(op, Op::Job | Op::Stream(_)) || waits_for_job || is_gathered,
            Phase::Writing => {
                matches!(op, Op::Send { .. } | Op::File { .. } | Op::Read { .. } | Op::Stream(_))
            }
            Phase::Draining => matches!(op, Op::Recv | Op::Shutdown),
            Phase::Closed => matches!(op, Op::Close { .. }),
        };
        assert!(is_meant, "{op:?} in the phase {:?}", connection.phase());
    }

    /// Notes that the job was taken, or the rest of one.
    pub(crate) fn took(&mut self, id: JobId) {
        match self.stream.take() {
            Some(stream) => assert_eq!(id, stream, "the rest of a job has the job's number"),
            None => {
                self.jobs += 1;
                assert_eq!(id, JobId { number: self.jobs, stream: 0 });
            }
        }
        self.out = Some(id);
    }

    /// Notes an answer. `has_rest` tells whether it is the answer in part.
    pub(crate) fn answered(&mut self, id: JobId, has_rest: bool) {
        assert_eq!(self.out.take(), Some(id));
        self.stream = has_rest.then_some(id);
    }

    /// Notes that bytes were reported as sent.
    pub(crate) fn sent(&mut self) {
        self.to_send = None;
    }

    /// Notes that the end of the client's stream was reported.
    pub(crate) fn ended(&mut self) {
        self.is_at_end = true;
    }

    /// Notes that the driver has shut its side down.
    pub(crate) fn shut(&mut self) {
        self.is_shut = true;
    }
}

/// An operation as a driver sees it; bytes are given by their place.
pub(crate) fn shape(op: &Op<'_>) -> (&'static str, usize, usize) {
    match op {
        Op::Recv => ("receive", 0, 0),
        Op::Send { head, body, .. } => {
            assert!(head.len() + body.len() > 0, "nothing is sent");
            ("bytes", head.as_ptr() as usize, body.len())
        }
        Op::File { offset, len, .. } => {
            assert!(*len > 0, "nothing is sent");
            ("bytes", *offset as usize, *len as usize)
        }
        Op::Read { offset, len, .. } => {
            assert!(*len > 0, "nothing is read");
            ("read", *offset as usize, *len)
        }
        Op::Job => ("job", 0, 0),
        Op::Stream(id) => ("stream", id.number as usize, id.stream as usize),
        Op::Wait => ("wait", 0, 0),
        Op::Shutdown => ("shutdown", 0, 0),
        Op::Close { reset: true } => ("reset", 0, 0),
        Op::Close { reset: false } => ("close", 0, 0),
    }
}
