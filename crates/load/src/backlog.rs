//! Whether a server keeps up with the sessions that come: what was asked of it and is not answered
//! yet, over the measured window.
//!
//! A server that is too slow for the sessions that come does not show it by the requests that are
//! issued: within a session the next one waits for the reply to the last, so that the more the
//! server falls behind, the less it is asked. So a request counts as *asked* when it would have
//! been due had every reply come at once, and as *settled* when it is answered, or never will be.
//! What is asked and not settled, the *backlog*, grows by all that the server does not manage.

use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// Into so many steps the window is cut. What happens within one is not told apart, a
/// five-hundredth of what is asked, which is well below the 1 % that a server may leave unserved.
pub const STEPS: usize = 500;

/// If sessions need this part of the window to become as many as they stay, that is left out: less
/// makes no difference, and more leaves too little to see growth in.
const FILLING: RangeInclusive<f64> = 0.05..=0.4;

/// Counts of requests by when they were asked and when they were settled. Empty where nothing is
/// due at a time of its own, as in closed runs, or where the window has no length of its own.
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

/// Many numbers as one text, with blanks between them: a line of JSON, not a page.
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
    /// Adds what another thread or generator counted over the same window.
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

    /// How much of what was asked within the window the server did not manage, 0 to 1.
    ///
    /// Sessions that come at random, and those that are long, make any server's backlog grow for a
    /// while. So the server is compared with an ideal one, of exactly the capacity that was asked
    /// for on average and the same backlog at the beginning: what is held against it is by how much
    /// more its backlog grew. `is_random`: sessions came at random times. `reply_share`: how long
    /// all but the slowest replies took, as a part of the window. A server that keeps up has none
    /// of its sessions under way for longer than all their replies take; until then they become
    /// more whichever server it is, unless there was a warm-up as long as that.
    ///
    /// Neither is what chance makes of it. Replies take times that vary: of a backlog whose
    /// requests are settled independently of each other the square root, its standard deviation,
    /// and no more than twice what the backlog is seen to go up and down beside its trend, which is
    /// next to nothing where a server works off one request after the other. Sessions that come at
    /// random make two standard deviations of a number of sessions, each with all its requests. And
    /// a request is answered or not, so that one more says nothing.
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
        (excess / (asked * filled.seen())).clamp(0.0, 1.0)
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

    /// The backlog, step by step, of a server that settles what is asked on average, as long as
    /// there is something.
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

/// The part of the window in which a server has as many sessions under way as it always will, if
/// it keeps up. Growth is what the mean of its last quarter exceeds that of its first by: an
/// instant may happen to be before or after a session's arrival, which makes a difference of all
/// its requests.
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

    /// By how much the server's levels, less those of the ideal one, go up and down beside their
    /// trend: a standard deviation.
    fn swing(&self, server: &[f64], ideal: &[f64]) -> f64 {
        let beyond = server.iter().zip(ideal).map(|(server, ideal)| server - ideal);
        deviation(&beyond.skip(self.from).collect::<Vec<f64>>())
    }

    /// How much of the window lies between the middles of the quarters.
    fn seen(&self) -> f64 {
        (STEPS - self.from - self.quarter) as f64 / STEPS as f64
    }
}

fn mean(levels: &[f64]) -> f64 {
    levels.iter().sum::<f64>() / levels.len() as f64
}

#[cfg(test)]
mod tests;
