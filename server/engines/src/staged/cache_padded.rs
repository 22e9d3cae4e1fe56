//! Prevents false sharing: keeps data that many threads write off the cache lines of data that they
//! only read. A store invalidates the whole line, with its neighbours, in all other processors.
//!
//! For the few values that all stages share. Data that exist for each connection must be small.

use std::ops::Deref;

/// A value on cache lines of its own: two, because they are fetched in pairs.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct CachePadded<T>(pub(super) T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_on_other_lines() {
        struct Three {
            before: u8,
            value: CachePadded<u8>,
            after: u8,
        }
        let three = Three { before: 1, value: CachePadded(2), after: 3 };
        let line = |value: &u8| std::ptr::from_ref(value).addr() / 128;
        assert_eq!(three.before + *three.value + three.after, 6);
        assert_ne!(line(&three.before), line(&three.value));
        assert_ne!(line(&three.after), line(&three.value));
    }
}
