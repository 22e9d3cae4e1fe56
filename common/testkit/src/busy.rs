//! A load that keeps CPUs busy: threads that do nothing but spin.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// The load, until it is dropped.
#[derive(Debug)]
pub struct Busy {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Busy {
    /// Starts a thread for each of `firsts`, which the thread calls before it spins, for example to
    /// bind itself to a CPU.
    pub fn after<F: FnOnce() + Send + 'static>(firsts: impl IntoIterator<Item = F>) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let spin = |first: F| {
            let is_over = Arc::clone(&is_over);
            thread::spawn(move || {
                first();
                while !is_over.load(Ordering::Relaxed) {
                    hint::spin_loop();
                }
            })
        };
        let threads = firsts.into_iter().map(spin).collect();
        Self { is_over, threads }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // one that could not begin has said why
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_ends_when_it_is_dropped() {
        let busy = Busy::after([|| (), || ()]);
        assert_eq!(busy.threads.len(), 2);
        let is_over = Arc::clone(&busy.is_over);
        drop(busy);
        assert!(is_over.load(Ordering::Relaxed));
        assert_eq!(Arc::strong_count(&is_over), 1, "no thread has it any more");
    }
}
