//! Figures as data: their content, independent of how it is drawn, and a table with the same
//! content.
//!
//! Nothing is drawn here; see `svg.rs` and the script of the page.

use crate::number;

/// A figure with its texts.
#[derive(Debug, Clone)]
pub struct Figure {
    /// Unique in a report: an anchor in the page.
    pub id: String,
    /// The title.
    pub title: String,
    /// What the figure shows and how to read it, in a sentence or two.
    pub about: String,
    /// The data of the drawing.
    pub drawing: Drawing,
    /// Everything in the drawing, as text.
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
    /// Bars beside their names, each with its interval.
    Ranked(Ranked),
}

/// Curves over a common axis.
#[derive(Debug, Clone, Default)]
pub struct Chart {
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The curves in the order of the legend.
    pub curves: Vec<Curve>,
}

/// An axis of a chart.
#[derive(Debug, Clone, Default)]
pub struct Axis {
    /// The measured quantity, with the unit.
    pub label: String,
    /// Whether the axis is logarithmic.
    pub log: bool,
    /// The ends, if they do not depend on the data.
    pub range: Option<(f64, f64)>,
    /// Places with names, in ascending order: the lines of the grid, instead of round numbers.
    pub names: Vec<(f64, String)>,
}

/// A curve.
#[derive(Debug, Clone, Default)]
pub struct Curve {
    /// The name in the legend.
    pub label: String,
    /// How it is drawn.
    pub form: Form,
    /// A number that decides colour, dashes and marker; one series has the same style in all
    /// figures.
    pub style: usize,
    /// The points, in ascending order of `x`.
    pub dots: Vec<Dot>,
}

/// How a curve is drawn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// Measured points, with markers and error bands.
    #[default]
    Measured,
    /// So many points that markers would hide the curve.
    Dense,
    /// A bound that always holds, or an ideal.
    Reference,
    /// Single points from published results: markers, and no line between them.
    Stated,
}

impl Form {
    /// Whether the points are joined by a line.
    pub fn has_line(self) -> bool {
        self != Self::Stated
    }

    /// Whether each point has a marker of its own.
    pub fn has_markers(self) -> bool {
        matches!(self, Self::Measured | Self::Stated)
    }
}

/// A point, with the ends of its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// The position.
    pub x: f64,
    /// The value.
    pub y: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
}

impl Dot {
    /// A point without an interval.
    pub fn exact(x: f64, y: f64) -> Self {
        Self { x, y, low: y, high: y }
    }
}

/// Values over two axes of names.
#[derive(Debug, Clone, Default)]
pub struct Heat {
    /// The label below the columns.
    pub x_label: String,
    /// The label beside the rows.
    pub y_label: String,
    /// The meaning of the values, with their unit.
    pub value_label: String,
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The names of the rows.
    pub rows: Vec<String>,
    /// The cells by row, then column; none: not measured.
    pub cells: Vec<Vec<Option<HeatCell>>>,
    /// The lowest and the highest value of the scale, which neighbouring figures share.
    pub range: (f64, f64),
}

/// A cell of a heat map.
#[derive(Debug, Clone)]
pub struct HeatCell {
    /// The value, which decides the shade.
    pub value: f64,
    /// The text in the cell.
    pub text: String,
    /// Further facts about the cell.
    pub about: String,
    /// Whether the cell is the best of the surface.
    pub best: bool,
}

/// Columns of parts that add up to a whole.
#[derive(Debug, Clone, Default)]
pub struct Bars {
    /// The label below the columns.
    pub x_label: String,
    /// The unit of the parts.
    pub y_label: String,
    /// The names of the parts, from the bottom.
    pub parts: Vec<String>,
    /// The columns from the left: the name, and the size of each part.
    pub columns: Vec<(String, Vec<f64>)>,
}

/// Values of things that have names and no order of their own: a bar for each, in groups.
#[derive(Debug, Clone, Default)]
pub struct Ranked {
    /// The meaning of the values, with their unit.
    pub label: String,
    /// A value that is marked by a line through all bars, and its meaning.
    pub mark: Option<(f64, String)>,
    /// The groups from the top, each with its name; a single group may have none.
    pub groups: Vec<(String, Vec<RankedBar>)>,
}

/// A bar with its name.
#[derive(Debug, Clone, Default)]
pub struct RankedBar {
    /// The name.
    pub name: String,
    /// A number that decides the colour, as that of a [`Curve`].
    pub style: usize,
    /// The length of the bar.
    pub value: f64,
    /// The lower end of the interval.
    pub low: f64,
    /// The upper end of the interval.
    pub high: f64,
    /// The value as text, with its interval.
    pub text: String,
}

/// Rows of text under heads.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// The heads, one for each column.
    pub heads: Vec<String>,
    /// The rows, each with as many cells as there are heads.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
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
    /// A linear axis.
    pub fn linear(label: &str) -> Self {
        Self { label: label.to_owned(), ..Self::default() }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Self {
        Self { label: label.to_owned(), log: true, ..Self::default() }
    }

    /// The ends for these values: from 0 to a little beyond the largest; on a logarithmic axis only
    /// values that it can show count.
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

    /// The places of grid lines between two ends.
    pub fn ticks(&self, (low, high): (f64, f64)) -> Vec<f64> {
        if !self.names.is_empty() {
            return self.names.iter().map(|(place, _)| *place).collect();
        }
        if self.log { log_ticks(low, high) } else { linear_ticks(low, high) }
    }

    /// The label of a grid line.
    pub fn tick_label(&self, tick: f64) -> String {
        let named = self.names.iter().find(|(place, _)| *place == tick);
        named.map_or_else(|| number::plain(tick), |(_, name)| name.clone())
    }

    /// The place of a value between the ends, from 0 to 1.
    pub fn place(&self, value: f64, (low, high): (f64, f64)) -> f64 {
        if self.log { (value / low).ln() / (high / low).ln() } else { (value - low) / (high - low) }
    }
}

/// About six grid lines at multiples of 1, 2 or 5.
fn linear_ticks(low: f64, high: f64) -> Vec<f64> {
    let raw = (high - low) / 6.0;
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * power).into_iter().find(|step| *step >= raw);
    let step = step.unwrap_or(raw);
    let first = (low / step).ceil() as i64;
    let last = (high / step).floor() as i64;
    (first..=last.min(first + 20)).map(|n| n as f64 * step).collect()
}

/// Grid lines at decades; with 2 and 5 between them if there are few.
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
        assert_eq!([axis.tick_label(1.0), Axis::log("x").tick_label(1000.0)], ["256K", "1,000"]);
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
