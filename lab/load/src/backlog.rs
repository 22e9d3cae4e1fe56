//! Whether a server keeps up with the arriving sessions: the requests that were asked of it and are
//! not answered yet, over the measured window.
//!
//! The number of requests issued does not show that a server is too slow for the arriving sessions:
//! within a session each request waits for the reply to the one before, so that a server that falls
//! behind receives fewer requests. So a request counts as *asked* when it would have been due had
//! every reply come at once, and as *settled* when it is answered, or when it is certain that it
//! never will be. The requests asked and not settled, the *backlog*, grow by all that the server
//! does not manage.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// The number of steps into which the window is cut. Events within one step are not distinguished:
/// a five-hundredth of the requests asked, well below the 1 % that a server may leave unserved.
pub const STEPS: usize = 500;

/// If the number of sessions under way takes this part of the window to become steady, that part is
/// left out: a shorter one makes no difference, and a longer one leaves too little to see growth
/// in.
const FILLING: RangeInclusive<f64> = 0.05..=0.4;

/// Counts of requests by when they were asked and when they were settled. Empty where requests have
/// no intended times, as in closed runs, or where the window has no set length.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backlog {
    /// The backlog when the window began.
    pub begin: u64,
    /// Requests asked in each step.
    #[serde(with = "numbers")]
    pub asked: Vec<u64>,
    /// Requests settled in each step.
    #[serde(with = "numbers")]
    pub settled: Vec<u64>,
}

/// Serializes many numbers as one text, separated by blanks, so that they take one line of JSON.
mod numbers {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(numbers: &[u64], out: S) -> Result<S::Ok, S::Error> {
        let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
        out.serialize_str(&texts.join(" "))
    }

    pub(super) fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Vec<u64>, D::Error> {
        let text = String::deserialize(from)?;
        text.split_whitespace().map(|number| number.parse().map_err(D::Error::custom)).collect()
    }
}

impl Backlog {
    /// Adds the counts of another thread or generator over the same window.
    pub fn merge(&mut self, other: &Self) {
        self.begin = self.begin.saturating_add(other.begin);
        for (ours, theirs) in [(&mut self.asked, &other.asked), (&mut self.settled, &other.settled)]
        {
            ours.resize(ours.len().max(theirs.len()), 0);
            ours.iter_mut().zip(theirs).for_each(|(sum, more)| *sum = sum.saturating_add(*more));
        }
    }

    /// Requests asked within the window.
    #[must_use]
    pub fn asked_in_window(&self) -> u64 {
        self.asked.iter().fold(0, |sum, asked| sum.saturating_add(*asked))
    }

    /// The part of the requests asked within the window that the server did not manage, 0 to 1.
    ///
    /// Random arrivals, and long sessions, make any server's backlog grow for a while. So the
    /// server is compared with an ideal one, whose capacity is exactly the average rate asked and
    /// whose backlog at the beginning is equal: only growth beyond that of the ideal server's
    /// backlog counts. `is_random`: sessions came at random times. `reply_share`: how long all but
    /// the slowest replies took, as a part of the window. With a server that keeps up no session is
    /// under way for longer than all its replies take; for that long the number of sessions grows
    /// with any server, unless the warm-up was as long.
    ///
    /// Growth that chance explains does not count either. Reply times vary: for a backlog whose
    /// requests are settled independently of each other, its square root (the standard deviation)
    /// is allowed, and no more than twice the observed deviation of the backlog from its trend,
    /// which is next to nothing where a server works off one request after the other. For random
    /// arrivals two standard deviations of the number of sessions are allowed, each session with
    /// all its requests. And a request is answered or not, so that a difference of one request
    /// means nothing.
    #[must_use]
    pub fn share_left(&self, sessions: u64, is_random: bool, reply_share: f64) -> f64 {
        let asked = self.asked_in_window() as f64;
        if asked == 0.0 || self.asked.len() != STEPS || self.settled.len() != STEPS {
            return 0.0;
        }
        let mean_length = asked / sessions.max(1) as f64;
        let filled = Filled::after(reply_share * mean_length);
        let (server, ideal) = (self.levels(), self.ideal_levels());
        let level = mean(&server[..STEPS / 4]);
        let chance = match is_random {
            true => 2.0 * (level * mean_length).sqrt(),
            false => level.sqrt().min(2.0 * filled.swing(&server, &ideal)),
        };
        let chance = chance.max(1.0);
        let excess = filled.growth(&server) - filled.growth(&ideal).max(0.0) - chance;
        (excess / (asked * filled.span())).clamp(0.0, 1.0)
    }

    /// The backlog at the end of each step.
    fn levels(&self) -> Vec<f64> {
        let mut level = self.begin as f64;
        let steps = self.asked.iter().zip(&self.settled);
        let after = steps.map(|(asked, settled)| {
            level += *asked as f64 - *settled as f64;
            level
        });
        after.collect()
    }

    /// The backlog, step by step, of a server that settles requests at the average rate asked, as
    /// long as its backlog is not empty.
    fn ideal_levels(&self) -> Vec<f64> {
        let capacity = self.asked_in_window() as f64 / STEPS as f64;
        let mut level = self.begin as f64;
        let after = self.asked.iter().map(|asked| {
            level = (level + *asked as f64 - capacity).max(0.0);
            level
        });
        after.collect()
    }
}

/// The standard deviation of levels from the straight line through them.
fn deviation(levels: &[f64]) -> f64 {
    let centre = (levels.len() as f64 - 1.0) / 2.0;
    let mean = mean(levels);
    let (mut along, mut squares, mut both) = (0.0, 0.0, 0.0);
    for (index, level) in levels.iter().enumerate() {
        let (x, y) = (index as f64 - centre, level - mean);
        along += x * x;
        squares += y * y;
        both += x * y;
    }
    let around = squares - both * both / along.max(1.0);
    (around.max(0.0) / levels.len() as f64).sqrt()
}

/// The part of the window in which the number of sessions under way is steady, if the server keeps
/// up. Growth is the mean over its last quarter less the mean over its first: single instants would
/// not do, because whether an instant lies before or after a session's arrival makes a difference
/// of all the session's requests.
struct Filled {
    from: usize,
    quarter: usize,
}

impl Filled {
    fn after(share: f64) -> Self {
        let share = if share < *FILLING.start() { 0.0 } else { share.min(*FILLING.end()) };
        let from = (share * STEPS as f64).ceil() as usize;
        Self { from, quarter: (STEPS - from) / 4 }
    }

    fn first(&self, levels: &[f64]) -> f64 {
        mean(&levels[self.from..self.from + self.quarter])
    }

    fn growth(&self, levels: &[f64]) -> f64 {
        mean(&levels[STEPS - self.quarter..]) - self.first(levels)
    }

    /// The standard deviation of the server's levels, less those of the ideal server, from their
    /// trend.
    fn swing(&self, server: &[f64], ideal: &[f64]) -> f64 {
        let beyond = server.iter().zip(ideal).map(|(server, ideal)| server - ideal);
        deviation(&beyond.skip(self.from).collect::<Vec<f64>>())
    }

    /// The part of the window that lies between the middles of the first and the last quarter.
    fn span(&self) -> f64 {
        (STEPS - self.from - self.quarter) as f64 / STEPS as f64
    }
}

fn mean(levels: &[f64]) -> f64 {
    levels.iter().sum::<f64>() / levels.len() as f64
}

#[cfg(test)]
mod tests;
