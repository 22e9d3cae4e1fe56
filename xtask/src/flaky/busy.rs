//! A load that fills all CPUs: one thread for each that does nothing but count.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The load, until it is dropped.
#[derive(Debug)]
pub(super) struct Busy {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Begins it. The scheduler spreads the threads: they have no CPU of their own.
    pub(super) fn on_all_cpus() -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let spin = |_| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            })
        };
        let threads = os::affinity::allowed_cpus().into_iter().map(spin).collect();
        Self { is_over, threads }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // it cannot fail: it only counts
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_ends_when_it_is_dropped() {
        let busy = Busy::on_all_cpus();
        assert_eq!(busy.threads.len(), os::affinity::allowed_cpus().len());
        let is_over = Arc::clone(&busy.is_over);
        drop(busy);
        assert!(is_over.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&is_over), 1, "no thread has it any more");
    }
}
