//! The inbox of one loop: what others hand over to it, until it takes no more. A giver keeps what
//! is refused, so that whatever the order in which both sides act, one of them has it.

use super::sync::{Mutex, MutexGuard, PoisonError};

/// What is on its way to a loop; none once it takes no more.
pub(crate) struct Inbox<T>(Mutex<Option<Vec<T>>>);

/// What became of something that was to be put into an inbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Put {
    /// The giver keeps it.
    Refused,
    /// It is alone there: the owner is to be woken.
    First,
    /// The owner is called already.
    Next,
}

impl<T> Inbox<T> {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    /// Puts in what `release` gives away, which is not called if it is refused.
    pub(crate) fn put(&self, release: impl FnOnce() -> T) -> Put {
        match self.waiting().as_mut() {
            None => Put::Refused,
            Some(waiting) => {
                waiting.push(release());
                if waiting.len() == 1 { Put::First } else { Put::Next }
            }
        }
    }

    /// Whether less than so much is on its way.
    pub(crate) fn has_room(&self, count: usize) -> bool {
        self.waiting().as_ref().is_none_or(|waiting| waiting.len() < count)
    }

    /// Takes all that has come.
    pub(crate) fn take(&self) -> Vec<T> {
        self.waiting().as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Puts back what the owner has no room for yet.
    pub(crate) fn put_back(&self, items: impl Iterator<Item = T>) {
        self.waiting().get_or_insert_default().extend(items);
    }

    /// Takes no more, unless something is there. Returns whether it takes no more.
    pub(crate) fn close_if_empty(&self) -> bool {
        let mut waiting = self.waiting();
        waiting.take_if(|items| items.is_empty());
        waiting.is_none()
    }

    /// Takes no more. Returns what was there.
    pub(crate) fn close(&self) -> Vec<T> {
        self.waiting().take().unwrap_or_default()
    }

    fn waiting(&self) -> MutexGuard<'_, Option<Vec<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
