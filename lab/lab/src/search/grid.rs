//! The configurations of a search: every combination of the values that the knobs may take, a
//! sample of them, and the neighbours of one.
//!
//! Which of them is best is decided elsewhere.

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

/// All combinations of some knobs' values, the others being as in the base; and configurations that
/// are wanted although they may lie beside these.
#[derive(Clone, Debug, PartialEq)]
pub struct Grid {
    base: Candidate,
    dimensions: Vec<Dimension>,
    /// The base and what is wanted besides, each once.
    first: Vec<Values>,
}

/// Attempts to draw a configuration that is not drawn yet, for each that is wanted.
const ATTEMPTS: usize = 20;

impl Grid {
    /// A grid around `base`, which is a candidate even where it is no point of the grid, as is each
    /// of `wanted`.
    pub fn new(base: Candidate, dimensions: Vec<Dimension>, wanted: Vec<Values>) -> Self {
        let mut first = vec![base.knobs.clone()];
        for point in wanted {
            if !first.contains(&point) {
                first.push(point);
            }
        }
        Self { base, dimensions, first }
    }

    /// The knobs that are varied.
    pub fn dimensions(&self) -> &[Dimension] {
        &self.dimensions
    }

    /// How many configurations the grid has.
    pub fn size(&self) -> usize {
        let counts = self.dimensions.iter().map(|dimension| dimension.values.len());
        let points = counts.fold(1_usize, usize::saturating_mul);
        let beside = self.first.iter().filter(|point| !self.has(point)).count();
        points.saturating_add(beside)
    }

    /// Whether a point is one of the combinations.
    fn has(&self, point: &Values) -> bool {
        self.dimensions.iter().all(|dimension| {
            let value = point.get(&dimension.name);
            value.is_some_and(|value| dimension.values.contains(value))
        })
    }

    /// All configurations, the base first, then those that are wanted.
    pub fn all(&self) -> Vec<Candidate> {
        let mut points = vec![self.base.knobs.clone()];
        for dimension in &self.dimensions {
            points = points
                .iter()
                .flat_map(|point| {
                    dimension.values.iter().map(|value| with_value(point, dimension, value))
                })
                .collect();
        }
        points.retain(|point| !self.first.contains(point));
        self.first.iter().cloned().chain(points).map(|point| self.named(point)).collect()
    }

    /// At most `count` configurations, the base and what is wanted first, then a Latin hypercube
    /// sample (McKay, Beckman and Conover 1979): each value of each knob occurs about equally
    /// often.
    pub fn sample(&self, count: usize, seed: u64) -> Vec<Candidate> {
        if self.size() <= count {
            return self.all();
        }
        let mut generator = Generator::new(seed);
        let mut chosen = Vec::new();
        for point in &self.first {
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
                    found.push(self.named(with_value(&centre.knobs, dimension, value)));
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

    /// A candidate that is named by what differs from the base.
    fn named(&self, knobs: Values) -> Candidate {
        let differing =
            knobs.iter().filter(|(name, value)| self.base.knobs.get(*name) != Some(value));
        let words: Vec<String> =
            differing.map(|(name, value)| format!("{name}={}", value.trim())).collect();
        let name = if words.is_empty() { self.base.name.clone() } else { words.join(" ") };
        Candidate { name, knobs }
    }
}

fn with_value(point: &Values, dimension: &Dimension, value: &str) -> Values {
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
        Grid::new(base, vec![dimension("a", &["1", "2", "4"]), dimension("b", &["x", "y"])], vec![])
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

    /// A grid of the same values, around another value of `a`.
    fn around(a: &str, wanted: &[(&str, &str)]) -> Grid {
        let Grid { mut base, dimensions, .. } = grid();
        base.knobs.insert("a".into(), a.into());
        let point = |&(a, b): &(&str, &str)| {
            let varied = [("a", a), ("b", b)];
            let varied = varied.map(|(name, value)| (name.to_owned(), value.to_owned()));
            base.knobs.clone().into_iter().chain(varied).collect()
        };
        let wanted = wanted.iter().map(point).collect();
        Grid::new(base, dimensions, wanted)
    }

    #[test]
    fn a_base_beside_the_grid_is_one_more() {
        let grid = around("3", &[]);
        assert_eq!((grid.size(), grid.all().len()), (7, 7));
    }

    #[test]
    fn what_is_wanted_takes_part_in_every_sample_and_in_all() {
        let grid = around("3", &[("50", "x"), ("2", "y"), ("50", "x"), ("3", "x")]);
        let all = grid.all();
        assert_eq!(names(&all)[..4], ["default", "a=50", "a=2 b=y", "a=1"]);
        assert_eq!((grid.size(), all.len()), (8, 8));
        for count in 3..10 {
            let sample = grid.sample(count, 1);
            assert_eq!(sample.len(), count.min(8));
            assert_eq!(names(&sample)[..3], ["default", "a=50", "a=2 b=y"], "{count}");
        }
    }

    #[test]
    fn a_sample_spreads_over_every_knob() {
        let values: Vec<String> = (0..9).map(|n| n.to_string()).collect();
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let wanted =
            Values::from([("a".to_owned(), "8".to_owned()), ("b".to_owned(), "8".to_owned())]);
        let grid = Grid::new(
            Candidate { name: "default".into(), ..Candidate::default() },
            vec![dimension("a", &values), dimension("b", &values)],
            vec![wanted.clone()],
        );
        let sample = grid.sample(11, 5);
        assert_eq!((sample.len(), &*sample[0].name), (11, "default"));
        assert_eq!(sample[1].knobs, wanted);
        for knob in ["a", "b"] {
            let mut seen: Vec<&String> =
                sample[1..].iter().map(|candidate| &candidate.knobs[knob]).collect();
            seen.sort();
            seen.dedup();
            assert!(seen.len() >= 7, "{knob}: {seen:?}");
        }
        assert_eq!(sample, grid.sample(11, 5));
    }

    #[test]
    fn neighbours_are_one_step_away() {
        let all = grid().all();
        assert_eq!(names(&grid().neighbours(&all[0])), ["a=2", "b=y"]);
        assert_eq!(names(&grid().neighbours(&all[3])), ["b=y", "a=4 b=y", "a=2"]);
    }
}
