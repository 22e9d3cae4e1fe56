//! The configurations there are: every combination of the values that the knobs may take, a sample
//! of them, and the neighbours of one.
//!
//! Not which of them is best.

use super::Candidate;
use crate::template::Values;
use statistics::Generator;

/// A knob that is varied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// The knob.
    pub name: String,
    /// Its values, in an order in which neighbours are alike.
    pub values: Vec<String>,
}

/// All combinations of some knobs' values, the others being as in the base.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    base: Candidate,
    dimensions: Vec<Dimension>,
}

/// Attempts to draw a configuration that is not there yet, for each that is wanted.
const ATTEMPTS: usize = 20;

impl Grid {
    /// A grid around `base`, which is a candidate even where it is no point of the grid.
    pub fn new(base: Candidate, dimensions: Vec<Dimension>) -> Self {
        Self { base, dimensions }
    }

    /// The knobs that are varied.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// How many combinations there are, the base included.
    pub fn size(&self) -> usize {
        let counts = self.dimensions.iter().map(|dimension| dimension.values.len());
        let points = counts.fold(1_usize, usize::saturating_mul);
        let is_point = |dimension: &Dimension| {
            let value = self.base.knobs.get(&dimension.name);
            value.is_some_and(|value| dimension.values.contains(value))
        };
        points.saturating_add(usize::from(!self.dimensions.iter().all(is_point)))
    }

    /// All combinations, the base first.
    pub fn all(&self) -> Vec<Candidate> {
        let mut points = vec![self.base.knobs.clone()];
        for dimension in &self.dimensions {
            points = points
                .iter()
                .flat_map(|point| {
                    dimension.values.iter().map(|value| with(point, dimension, value))
                })
                .collect();
        }
        let mut candidates = vec![self.base.clone()];
        candidates.extend(
            points.into_iter().filter(|point| *point != self.base.knobs).map(|p| self.named(p)),
        );
        candidates
    }

    /// At most `count` configurations, the base and `wanted` first, then a Latin hypercube sample
    /// (McKay, Beckman and Conover 1979): each value of each knob occurs about equally often.
    pub fn sample(&self, count: usize, wanted: &[Values], seed: u64) -> Vec<Candidate> {
        if self.size() <= count {
            return self.all();
        }
        let mut generator = Generator::new(seed);
        let mut chosen = vec![self.base.clone()];
        for point in wanted {
            self.add(&mut chosen, count, point.clone());
        }
        for _ in 0..ATTEMPTS {
            for point in self.hypercube(count, &mut generator) {
                self.add(&mut chosen, count, point);
            }
        }
        chosen
    }

    /// The configurations that differ from `centre` in one knob, by one step of its values; by any
    /// step where its value is not among them.
    pub fn neighbours(&self, centre: &Candidate) -> Vec<Candidate> {
        let mut found = Vec::new();
        for dimension in &self.dimensions {
            let now = centre.knobs.get(&dimension.name);
            let at = dimension.values.iter().position(|value| Some(value) == now);
            let is_near = |index: usize| at.is_none_or(|at| at.abs_diff(index) == 1);
            for (index, value) in dimension.values.iter().enumerate() {
                if is_near(index) {
                    found.push(self.named(with(&centre.knobs, dimension, value)));
                }
            }
        }
        found
    }

    fn add(&self, chosen: &mut Vec<Candidate>, count: usize, point: Values) {
        if chosen.len() < count && chosen.iter().all(|candidate| candidate.knobs != point) {
            chosen.push(self.named(point));
        }
    }

    /// One point for each of `count` strata of every knob.
    fn hypercube(&self, count: usize, generator: &mut Generator) -> Vec<Values> {
        let mut points = vec![self.base.knobs.clone(); count];
        for dimension in &self.dimensions {
            let mut strata: Vec<usize> = (0..count).collect();
            generator.shuffle(&mut strata);
            for (point, stratum) in points.iter_mut().zip(strata) {
                let value = &dimension.values[stratum * dimension.values.len() / count];
                point.insert(dimension.name.clone(), value.clone());
            }
        }
        points
    }

    /// Named by what differs from the base.
    fn named(&self, knobs: Values) -> Candidate {
        let differing =
            knobs.iter().filter(|(name, value)| self.base.knobs.get(*name) != Some(value));
        let words: Vec<String> =
            differing.map(|(name, value)| format!("{name}={}", value.trim())).collect();
        let name = if words.is_empty() { self.base.name.clone() } else { words.join(" ") };
        Candidate { name, knobs }
    }
}

fn with(point: &Values, dimension: &Dimension, value: &str) -> Values {
    let mut point = point.clone();
    point.insert(dimension.name.clone(), value.to_owned());
    point
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dimension(name: &str, values: &[&str]) -> Dimension {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        Dimension { name: name.into(), values }
    }

    fn grid() -> Grid {
        let knobs = [("a", "1"), ("b", "x"), ("c", "fixed")];
        let knobs = knobs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let base = Candidate { name: "default".into(), knobs };
        Grid::new(base, vec![dimension("a", &["1", "2", "4"]), dimension("b", &["x", "y"])])
    }

    fn names(candidates: &[Candidate]) -> Vec<&str> {
        candidates.iter().map(|candidate| candidate.name.as_str()).collect()
    }

    #[test]
    fn all_combinations_the_base_first() {
        let all = grid().all();
        assert_eq!(names(&all), ["default", "b=y", "a=2", "a=2 b=y", "a=4", "a=4 b=y"]);
        assert!(all.iter().all(|candidate| candidate.knobs["c"] == "fixed"));
        assert_eq!(grid().size(), 6);
    }

    #[test]
    fn a_base_beside_the_grid_is_one_more() {
        let mut grid = grid();
        grid.base.knobs.insert("a".into(), "3".into());
        assert_eq!((grid.size(), grid.all().len()), (7, 7));
    }

    #[test]
    fn a_sample_spreads_over_every_knob() {
        let values: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let grid = Grid::new(
            Candidate { name: "default".into(), ..Candidate::default() },
            vec![dimension("a", &values), dimension("b", &values)],
        );
        let wanted =
            Values::from([("a".to_owned(), "8".to_owned()), ("b".to_owned(), "8".to_owned())]);
        let sample = grid.sample(11, std::slice::from_ref(&wanted), 5);
        assert_eq!((sample.len(), &*sample[0].name), (11, "default"));
        assert_eq!(sample[1].knobs, wanted);
        for knob in ["a", "b"] {
            let mut seen: Vec<&String> =
                sample[1..].iter().map(|candidate| &candidate.knobs[knob]).collect();
            seen.sort();
            seen.dedup();
            assert!(seen.len() >= 7, "{knob}: {seen:?}");
        }
        assert_eq!(sample, grid.sample(11, &[wanted], 5));
    }

    #[test]
    fn neighbours_are_one_step_away() {
        let all = grid().all();
        assert_eq!(names(&grid().neighbours(&all[0])), ["a=2", "b=y"]);
        assert_eq!(names(&grid().neighbours(&all[3])), ["b=y", "a=4 b=y", "a=2"]);
    }
}
