//! The way of workers' lines to the writers of logs. Each worker looks by itself at what it is to
//! write, so that some have lines of a former form when the log is another already: each form has a
//! way of its own.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Style, StyleCell};
use crate::config::{AccessForm, LogSettings};
use crate::line_writer::Queue;

/// Where workers that were started together have their lines written, which may be elsewhere from
/// one buffer to the next.
#[derive(Default)]
pub(crate) struct Routes {
    /// The style of those that are threads of this process.
    style: AtomicU64,
    queues: Mutex<Queues>,
    /// Lines for which there was no log any more.
    lost: AtomicU64,
}

/// The queues for lines of each form.
type Queues = [Option<Arc<Queue>>; 2];

/// Where the queue for lines of a form is.
fn place(form: AccessForm) -> Option<usize> {
    match form {
        AccessForm::Off => None,
        AccessForm::Combined => Some(0),
        AccessForm::Json => Some(1),
    }
}

impl Routes {
    /// Begins with a queue, unless the log is off.
    pub(crate) fn begin(settings: &LogSettings, queue: Option<Arc<Queue>>) -> Self {
        let routes = Self::default();
        routes.set_style(Style::of(settings));
        queue.into_iter().for_each(|queue| routes.lead_to(settings.access, queue));
        routes
    }

    /// What workers in threads are to write.
    pub(crate) fn style(&self) -> Style {
        StyleCell::new(&self.style).get()
    }

    /// Has workers in threads write so.
    pub(crate) fn set_style(&self, style: Style) {
        StyleCell::new(&self.style).set(style);
    }

    /// Has lines of this form come to a queue.
    pub(crate) fn lead_to(&self, form: AccessForm, queue: Arc<Queue>) {
        if let Some(place) = place(form) {
            self.queues()[place] = Some(queue);
        }
    }

    /// Has no lines come to a queue any more. Those that still do go where others do.
    pub(crate) fn leave(&self, queue: &Arc<Queue>) {
        for place in &mut *self.queues() {
            place.take_if(|it| Arc::ptr_eq(it, queue));
        }
    }

    /// Hands lines of a form over ([`Queue::hand_over`]). They are in the queue before another can
    /// take its place. A worker that was held up until there is no log for its form any more has
    /// them in that of the other, and if there is none they are lost, and counted.
    pub(crate) fn hand_over(&self, form: AccessForm, buffer: &mut Vec<u8>, lines: u64) {
        let queues = self.queues();
        let own = place(form).and_then(|place| queues[place].as_ref());
        match own.or_else(|| queues.iter().flatten().next()) {
            Some(queue) => {
                queue.hand_over(buffer, lines);
            }
            None => {
                buffer.clear();
                self.lost.fetch_add(lines, Ordering::Relaxed);
            }
        }
    }

    /// Takes the number of lines for which there was no log any more.
    pub(crate) fn take_lost(&self) -> u64 {
        self.lost.swap(0, Ordering::Relaxed)
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
