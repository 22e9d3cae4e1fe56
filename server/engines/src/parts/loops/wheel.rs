//! A timer wheel with lazy entries: moving a deadline further away costs nothing, because an entry
//! that comes up too early is put back where it belongs.
//!
//! It holds keys, not connections: the caller decides whether a key that comes up is still valid.
//! It has no clock.

use session::Tick;

/// Width of a bucket, as a power of two of microseconds: 131 ms.
const BUCKET_BITS: u32 = 17;

/// Buckets in the wheel. Later deadlines wait in the last bucket and are put back from there.
const BUCKETS: u64 = 512;

/// Keys, by the time at which they come up.
pub(crate) struct Wheel {
    buckets: Vec<Vec<Entry>>,
    /// The bucket number that comes up next; earlier ones are empty.
    cursor: u64,
    len: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    key: u64,
}

impl Wheel {
    pub(crate) fn new(now: Tick) -> Self {
        let buckets = (0..BUCKETS).map(|_| Vec::new()).collect();
        Self { buckets, cursor: bucket_number(now), len: 0 }
    }

    /// Adds a key. Returns the moment at which it will come up, which identifies the entry: only
    /// the last entry of a key is valid.
    pub(crate) fn add(&mut self, key: u64, deadline: Tick) -> Tick {
        let number = self.number(deadline);
        self.buckets[(number % BUCKETS) as usize].push(Entry { key });
        self.len += 1;
        Tick(number << BUCKET_BITS)
    }

    /// The moment at which a key with that deadline would come up.
    pub(crate) fn moment(&self, deadline: Tick) -> Tick {
        Tick(self.number(deadline) << BUCKET_BITS)
    }

    /// Whether the `ahead`th bucket holds deadlines that lie beyond the wheel.
    pub(crate) fn is_last(ahead: u64) -> bool {
        ahead == BUCKETS - 1
    }

    /// Takes the keys that have come up by `now`, each with the moment of its entry.
    pub(crate) fn take_due(&mut self, now: Tick, due: &mut Vec<(u64, Tick)>) {
        let end = bucket_number(now) + 1;
        // After a long sleep every bucket is due once, not once for each turn slept through.
        let stop = end.min(self.cursor + BUCKETS);
        while self.cursor < stop {
            self.take_bucket(self.cursor, due);
            self.cursor += 1;
        }
        self.cursor = self.cursor.max(end);
    }

    /// Takes the keys of the earliest bucket that has any, ahead of its time, beginning with the
    /// `skip`th. Returns the number of that bucket, counted from the next one to come up.
    pub(crate) fn take_ahead(&mut self, skip: u64, due: &mut Vec<(u64, Tick)>) -> Option<u64> {
        for ahead in skip..BUCKETS {
            self.take_bucket(self.cursor + ahead, due);
            if !due.is_empty() {
                return Some(ahead);
            }
        }
        None
    }

    /// The moment at which [`Wheel::take_due`] is to be called again; none while the wheel is
    /// empty.
    pub(crate) fn next_check(&self) -> Option<Tick> {
        (self.len > 0).then_some(Tick(self.cursor << BUCKET_BITS))
    }

    /// The number of the bucket for a deadline: it comes up when its bucket is over, so never
    /// early.
    fn number(&self, deadline: Tick) -> u64 {
        (bucket_number(deadline) + 1).clamp(self.cursor, self.cursor + BUCKETS - 1)
    }

    fn take_bucket(&mut self, number: u64, due: &mut Vec<(u64, Tick)>) {
        let bucket = &mut self.buckets[(number % BUCKETS) as usize];
        self.len -= bucket.len();
        due.extend(bucket.drain(..).map(|entry| (entry.key, Tick(number << BUCKET_BITS))));
        if bucket.capacity() > 1024 {
            *bucket = Vec::new();
        }
    }
}

fn bucket_number(tick: Tick) -> u64 {
    tick.0 >> BUCKET_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn due(wheel: &mut Wheel, now: u64) -> Vec<u64> {
        let mut due = Vec::new();
        wheel.take_due(Tick(now), &mut due);
        due.into_iter().map(|(key, _)| key).collect()
    }

    #[test]
    fn keys_come_up_after_their_deadline_and_within_a_quarter_second() {
        let mut wheel = Wheel::new(Tick(5 * SECOND));
        wheel.add(1, Tick(6 * SECOND));
        wheel.add(2, Tick(8 * SECOND));
        assert!(due(&mut wheel, 6 * SECOND - 1).is_empty());
        assert_eq!(due(&mut wheel, 6 * SECOND + SECOND / 4), [1]);
        assert_eq!(due(&mut wheel, 8 * SECOND + SECOND / 4), [2]);
        assert_eq!(wheel.next_check(), None);
    }

    #[test]
    fn a_deadline_beyond_the_wheel_comes_up_early_to_be_put_back() {
        let mut wheel = Wheel::new(Tick(0));
        let far = Tick(500 * SECOND);
        let moment = wheel.add(7, far);
        assert!(moment < far);
        assert_eq!(due(&mut wheel, moment.0), [7]);
    }

    #[test]
    fn a_long_sleep_brings_everything_up_once() {
        let mut wheel = Wheel::new(Tick(0));
        for key in 0..100 {
            wheel.add(key, Tick(key * SECOND / 3));
        }
        let mut keys = due(&mut wheel, 3600 * SECOND);
        keys.sort_unstable();
        assert_eq!(keys, (0..100).collect::<Vec<_>>());
        wheel.add(1, Tick(0));
        assert_eq!(due(&mut wheel, 3601 * SECOND), [1]);
    }

    #[test]
    fn buckets_can_be_taken_ahead_of_their_time() {
        let mut wheel = Wheel::new(Tick(0));
        wheel.add(1, Tick(20 * SECOND));
        wheel.add(2, Tick(10 * SECOND));
        let mut taken = Vec::new();
        let ahead = wheel.take_ahead(0, &mut taken).unwrap();
        assert_eq!(taken.drain(..).map(|t| t.0).collect::<Vec<_>>(), [2]);
        assert!(wheel.take_ahead(ahead + 1, &mut taken).is_some());
        assert_eq!(taken.drain(..).map(|t| t.0).collect::<Vec<_>>(), [1]);
        assert_eq!(wheel.take_ahead(0, &mut taken), None);
    }
}
