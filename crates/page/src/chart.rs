//! Figures as data: what is drawn, by whatever draws it, and the table that says the same.
//!
//! Nothing is drawn here; see `svg.rs` and the script of the page.

use crate::number;

/// A figure with its words.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Unique in a report: an anchor in the page.
    pub id: String,
    /// What it is called.
    pub title: String,
    /// What it shows and how to read it, in a sentence or two.
    pub about: String,
    /// What is drawn.
    pub drawing: Drawing,
    /// All that is drawn, as text.
    pub table: Table,
}

/// A kind of drawing.
#[derive(Debug, Clone)]
pub enum Drawing {
    /// Curves.
    Lines(Chart),
    /// Shades over two axes of names.
    Heat(Heat),
    /// Parts that add up.
    Bars(Bars),
}

/// Curves over a common axis.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// In the order of the legend.
    pub curves: Vec<Curve>,
}

/// An axis of a chart.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    /// What it measures, with the unit.
    pub label: String,
    /// Decades are as far apart as decades.
    pub log: bool,
    /// The ends, if the data should not choose them.
    pub range: Option<(f64, f64)>,
    /// Places with names, in ascending order: the lines of the grid, instead of round numbers.
    pub names: Vec<(f64, String)>,
}

/// A curve.
#[derive(Debug, Clone, Default)]
pub struct Curve {
    /// As the legend has it.
    pub label: String,
    /// How it is drawn.
    pub form: Form,
    /// Decides colour, dashes and marker; the same series has the same in all figures.
    pub style: usize,
    /// In the order of their `x`.
    pub dots: Vec<Dot>,
}

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// Points that were measured, with markers and error bands.
    #[default]
    Measured,
    /// So many points that markers would hide the curve.
    Dense,
    /// A bound that holds everywhere, or what would be ideal.
    Reference,
    /// Single points that somebody else has told: markers, and no line between them.
    Stated,
    /// Points that were measured at places that are names: markers and error bars, and no line
    /// between them, because there is nothing between names.
    Apart,
}

impl Form {
    /// Its points are joined by a line.
    pub fn has_line(self) -> bool {
        !matches!(self, Self::Stated | Self::Apart)
    }

    /// Each point has a mark of its own.
    pub fn has_markers(self) -> bool {
        matches!(self, Self::Measured | Self::Stated | Self::Apart)
    }
}

/// A point, with the ends of its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Where.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Dot {
    /// Without an interval.
    pub fn exact(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }
}

/// Values over two axes of names.
#[derive(Debug, Clone, Default)]
pub struct Heat {
    /// Below the columns.
    pub x_label: String,
    /// Beside the rows.
    pub y_label: String,
    /// What the values are, with their unit.
    pub value_label: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The names of the rows.
    pub rows: Vec<String>,
    /// By row, then column; none: not measured.
    pub cells: Vec<Vec<Option<HeatCell>>>,
    /// The lowest and the highest value of the scale, which figures beside it share.
    pub range: (f64, f64),
}

/// A cell of a heat map.
#[derive(Debug, Clone)]
pub struct HeatCell {
    /// Decides the shade.
    pub value: f64,
    /// As it is written into the cell.
    pub text: String,
    /// All that is known of it.
    pub about: String,
    /// Whether it is the best of the surface.
    pub best: bool,
}

/// Columns of parts that add up to a whole.
#[derive(Debug, Clone, Default)]
pub struct Bars {
    /// Below the columns.
    pub x_label: String,
    /// What the parts are counted in.
    pub y_label: String,
    /// The names of the parts, from the bottom.
    pub parts: Vec<String>,
    /// From the left: the name, and the size of each part.
    pub columns: Vec<(String, Vec<f64>)>,
}

/// Rows of text under heads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// One for each column.
    pub heads: Vec<String>,
    /// As many cells as there are heads.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Without rows.
    pub fn new(heads: &[&str]) -> Self {
        Self { heads: heads.iter().map(|&head| head.to_owned()).collect(), rows: Vec::new() }
    }
}

impl Chart {
    /// The ends of the horizontal axis.
    pub fn x_range(&self) -> (f64, f64) {
        let values = self.curves.iter().flat_map(|curve| curve.dots.iter().map(|dot| dot.x));
        self.x.ends(values)
    }

    /// The ends of the vertical axis, with room for the bands.
    pub fn y_range(&self) -> (f64, f64) {
        let dots = self.curves.iter().flat_map(|curve| &curve.dots);
        self.y.ends(dots.flat_map(|dot| [dot.low, dot.y, dot.high]))
    }
}

impl Axis {
    /// Equal steps are equally far apart.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// Equal ratios are equally far apart.
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), log: true, ..Self::default() }
    }

    /// From 0 and a little beyond the largest; of a logarithmic axis only what it can show.
    fn ends(&self, values: impl Iterator<Item = f64>) -> (f64, f64) {
        if let Some(range) = self.range {
            return range;
        }
        let shown = values.filter(|value| value.is_finite() && (!self.log || *value > 0.0));
        let (low, high) = shown
            .fold((f64::INFINITY, 0.0_f64), |(low, high), value| (low.min(value), high.max(value)));
        match (self.log, low.is_finite() && high > 0.0) {
            (false, true) => (low.min(0.0), high * 1.05),
            (false, false) => (0.0, 1.0),
            // Wide enough for a round number to lie between them.
            (true, true) if high < 4.0 * low => (low / 2.0, high * 2.0),
            (true, true) => (low / 1.1, high * 1.1),
            (true, false) => (0.1, 10.0),
        }
    }

    /// Where lines of the grid go between two ends.
    pub fn ticks(&self, (low, high): (f64, f64)) -> Vec<f64> {
        if !self.names.is_empty() {
            return self.names.iter().map(|(place, _)| *place).collect();
        }
        if self.log { log_ticks(low, high) } else { linear_ticks(low, high) }
    }

    /// What stands at a line of the grid.
    pub fn name_of(&self, tick: f64) -> String {
        let named = self.names.iter().find(|(place, _)| *place == tick);
        named.map_or_else(|| number::plain(tick), |(_, name)| name.clone())
    }

    /// From 0 to 1 between the ends.
    pub fn place(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        if self.log { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) }
    }
}

/// About six at multiples of 1, 2 or 5.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let raw = (high - low) / 6.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= raw);
    let step = step.unwrap_or(raw);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last.min(first + 20)).map(|n| n as f64 * step).collect()
}

/// Decades; with 2 and 5 between them if there are few.
fn log_ticks(low: f64, high: f64) -> Vec<f64> {
    let (first, last) = (low.log10().floor() as i32, high.log10().ceil() as i32);
    let between: &[f64] = if last - first <= 4 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    let decades = (first..=last.min(first + 40)).map(|power| 10_f64.powi(power));
    let ticks = decades.flat_map(|decade| between.iter().map(move |part| part * decade));
    ticks.filter(|tick| (low..=high).contains(tick)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_numbers() {
        let axis = Axis::linear("x");
        assert_eq!(axis.ticks((0.0, 10.0)), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(axis.ticks((0.0, 52_000.0)).last(), Some(&50_000.0));
        let axis = Axis::log("x");
        assert_eq!(axis.ticks((0.5, 30.0)), [0.5, 1.0, 2.0, 5.0, 10.0, 20.0]);
        assert_eq!(axis.ticks((0.001, 1000.0)).len(), 7);
    }

    #[test]
    fn named_places_take_the_place_of_round_numbers() {
        let names = vec![(0.0, "128K".to_owned()), (1.0, "256K".to_owned())];
        let axis = Axis { names, ..Axis::linear("cache") };
        assert_eq!(axis.ticks((-0.5, 1.5)), [0.0, 1.0]);
        assert_eq!([axis.name_of(1.0), Axis::log("x").name_of(1000.0)], ["256K", "1,000"]);
    }

    #[test]
    fn no_data_has_ends_all_the_same() {
        for axis in [Axis::linear("x"), Axis::log("x")] {
            for values in [vec![], vec![0.0], vec![f64::NAN], vec![3.0]] {
                let (low, high) = axis.ends(values.iter().copied());
                assert!(low < high, "{axis:?} {values:?}: {low} {high}");
                assert!(!axis.ticks((low, high)).is_empty());
            }
        }
    }

    #[test]
    fn places_lie_between_0_and_1() {
        assert_eq!(Axis::linear("x").place(5.0, (0.0, 10.0)), 0.5);
        assert!((Axis::log("x").place(10.0, (1.0, 100.0)) - 0.5).abs() < 1e-12);
    }
}
