//! Figures drawn as SVG: for print, for pages without scripts, and for pictures. Colours are in
//! attributes, so that a picture needs no style sheet; in a page its classes change them.

use std::fmt::Write as _;

use crate::chart::{Chart, Curve, Dot, Drawing, Figure, Form, Heat, HeatCell};
use crate::document::escape;
use crate::{bars, ranked};

/// The width of a drawing in its own units; a page scales them.
pub const WIDTH: f64 = 720.0;
pub(crate) const PLOT_HEIGHT: f64 = 300.0;
pub(crate) const LEFT: f64 = 70.0;
pub(crate) const RIGHT: f64 = 18.0;
pub(crate) const TOP: f64 = 12.0;
pub(crate) const BOTTOM: f64 = 48.0;
pub(crate) const LEGEND_LINE: f64 = 20.0;
/// The width of a letter, rather too large than too small: fonts differ.
pub(crate) const LETTER: f64 = 7.2;
const CELL_HEIGHT: f64 = 34.0;
pub(crate) const PLOT_WIDTH: f64 = WIDTH - LEFT - RIGHT;

/// Colours that can be distinguished by readers who do not see all colours, on white; the page's
/// style sheet has similar ones for black.
pub const COLOURS: [&str; 8] =
    ["#0067a5", "#c84f00", "#00805e", "#a6408f", "#8a6d00", "#4b8fd6", "#555555", "#7a1f3d"];
/// Patterns of dashes; their number has no divisor in common with that of colours and markers, so
/// that series differ in more than one of them.
pub const DASHES: [&str; 5] = ["", "7 3", "2 3", "9 3 2 3", "12 4"];
/// The number of markers.
pub const MARKERS: usize = 7;
/// Patterns of dashes of references, so that two in a figure can be told apart.
pub const REFERENCE_DASHES: [&str; 2] = ["4 4", "1 4"];

/// A complete SVG document, with the figure's title as its name.
pub fn draw(figure: &Figure) -> String {
    document(figure, "drawn", (WIDTH, height(figure)), &body(&figure.drawing))
}

/// The drawing of a figure for narrow windows, if it can be drawn so.
pub(crate) fn draw_narrow(figure: &Figure) -> Option<String> {
    let Drawing::Ranked(ranked) = &figure.drawing else { return None };
    let size = (ranked::NARROW, ranked::height(ranked, ranked::NARROW));
    Some(document(figure, "drawn narrow", size, &ranked::draw(ranked, ranked::NARROW)))
}

fn document(figure: &Figure, class: &str, (width, height): (f64, f64), body: &str) -> String {
    let (title, about) = (escape(&figure.title), escape(&figure.about));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"{class}\" role=\"img\" \
         viewBox=\"0 0 {width} {height:.1}\" width=\"{width}\" height=\"{height:.1}\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\" font-size=\"12\" \
         aria-label=\"{title}\"><title>{title}</title><desc>{about}</desc>{body}</svg>\n"
    )
}

/// All figures below each other under a title and lines about it, in as many columns as keep the
/// sheet within `height_max`; and the sheet's width and height.
pub fn sheet(
    title: &str,
    lines: &[String],
    figures: &[Figure],
    height_max: f64,
) -> (String, f64, f64) {
    const HEAD: f64 = 34.0;
    const GAP: f64 = 16.0;
    const ABOUT: f64 = 20.0;
    let total: f64 = figures.iter().map(|figure| height(figure) + HEAD).sum();
    let tallest = figures.iter().map(|f| height(f) + HEAD).fold(0.0, f64::max);
    let columns = if figures.len() < 3 { 1.0 } else { (total / height_max).ceil().max(2.0) };
    let column_max = (total / columns).max(tallest).ceil() + 1.0;
    let lines = lines.iter().flat_map(|line| ranked::wrapped(line, columns * (WIDTH + GAP) - GAP));
    let lines: Vec<String> = lines.collect();
    let top = HEAD + lines.len() as f64 * ABOUT;
    let (mut x, mut y, mut bottom) = (GAP, top, top);
    let mut text = String::new();
    for (line, n) in lines.iter().zip(0_u32..) {
        let (y, line) = (HEAD + 12.0 + f64::from(n) * ABOUT, escape(line));
        let _ = write!(text, "<text x=\"{GAP}\" y=\"{y}\" font-size=\"13\">{line}</text>");
    }
    for figure in figures {
        let needed = height(figure) + HEAD;
        if y > top && y - top + needed / 2.0 > column_max {
            (x, y) = (x + WIDTH + GAP, top);
        }
        let size = fitting(&figure.title, 15.0, 1.25, WIDTH);
        let title = escape(&figure.title);
        let _ = write!(
            text,
            "<text x=\"{x}\" y=\"{}\" font-size=\"{size:.1}\" font-weight=\"600\">{title}</text>\
             <g transform=\"translate({x} {})\">{}</g>",
            y + 20.0,
            y + HEAD - 4.0,
            body(&figure.drawing)
        );
        y += needed;
        bottom = f64::max(bottom, y);
    }
    let (width, height) = (x + WIDTH + GAP, bottom + GAP);
    let size = fitting(title, 18.0, 1.25, width - 2.0 * GAP);
    let title = escape(title);
    let document = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" font-size=\"12\" fill=\"#111111\" \
         font-family=\"system-ui, 'DejaVu Sans', sans-serif\">\
         <title>{title}</title><rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\
         <text x=\"{GAP}\" y=\"24\" font-size=\"{size:.1}\" font-weight=\"700\">{title}</text>\
         {text}</svg>\n"
    );
    (document, width, height)
}

fn height(figure: &Figure) -> f64 {
    match &figure.drawing {
        Drawing::Lines(chart) => {
            TOP + PLOT_HEIGHT + BOTTOM + legend_lines(&chart.curves).len() as f64 * LEGEND_LINE
        }
        Drawing::Bars(bars) => bars::height(bars),
        Drawing::Ranked(ranked) => ranked::height(ranked, WIDTH),
        Drawing::Heat(heat) => {
            let names = Slant::for_heat(heat).height;
            HEAT_HEAD + heat.rows.len() as f64 * CELL_HEIGHT + names + BOTTOM
        }
    }
}

fn body(drawing: &Drawing) -> String {
    match drawing {
        Drawing::Lines(chart) => lines(chart),
        Drawing::Bars(bars) => bars::draw(bars),
        Drawing::Ranked(ranked) => ranked::draw(ranked, WIDTH),
        Drawing::Heat(heat) => heat_map(heat),
    }
}

fn lines(chart: &Chart) -> String {
    let mut text = String::new();
    let frame = Frame::new(chart);
    frame.grid(&mut text);
    for curve in &chart.curves {
        frame.curve(&mut text, curve);
    }
    legend(&mut text, &chart.curves);
    text
}

/// A chart with the ends of its axes.
struct Frame<'c> {
    chart: &'c Chart,
    x: (f64, f64),
    y: (f64, f64),
    /// Where the horizontal axis begins: right of the label of the other axis and of its numbers.
    left: f64,
}

impl<'c> Frame<'c> {
    fn new(chart: &'c Chart) -> Self {
        let (x, y) = (chart.x_range(), chart.y_range());
        let numbers = chart.y.ticks(y).into_iter().map(|tick| width(&chart.y.tick_label(tick)));
        let left = LEFT.max(AXIS_LABEL + numbers.fold(0.0, f64::max) + 6.0);
        Self { chart, x, y, left }
    }

    fn plot_width(&self) -> f64 {
        WIDTH - RIGHT - self.left
    }

    fn position(&self, x: f64, y: f64) -> (f64, f64) {
        let across = self.chart.x.place(x, self.x);
        let up = self.chart.y.place(y, self.y).clamp(-0.01, 1.01);
        (self.left + across * self.plot_width(), TOP + (1.0 - up) * PLOT_HEIGHT)
    }

    fn is_shown(&self, dot: &Dot) -> bool {
        let finite = dot.x.is_finite() && dot.y.is_finite();
        finite && (!self.chart.x.log || dot.x > 0.0) && (!self.chart.y.log || dot.y > 0.0)
    }

    fn grid(&self, text: &mut String) {
        // Writing to a string does not fail, neither here nor below.
        let room = self.plot_width() / self.chart.x.names.len().max(1) as f64;
        let ticks = self.chart.x.ticks(self.x).into_iter().map(|tick| {
            (self.position(tick, self.y.1).0, cut(&self.chart.x.tick_label(tick), room))
        });
        for (x, label) in tick_labels(ticks.collect(), WIDTH) {
            let (label, bottom) = (escape(&label), TOP + PLOT_HEIGHT);
            let _ = write!(
                text,
                "<path class=\"grid\" stroke=\"#dddddd\" d=\"M{x:.1} {TOP}V{bottom}\"/>\
                 <text class=\"tick\" x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                bottom + 16.0
            );
        }
        for tick in self.chart.y.ticks(self.y) {
            let (_, y) = self.position(self.x.0, tick);
            let (right, label) = (WIDTH - RIGHT, escape(&self.chart.y.tick_label(tick)));
            let left = self.left;
            let _ = write!(
                text,
                "<path class=\"grid\" stroke=\"#dddddd\" d=\"M{left:.1} {y:.1}H{right}\"/>\
                 <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
                left - 6.0,
                y + 4.0
            );
        }
        axis_labels(text, &self.chart.x.label, &self.chart.y.label, PLOT_HEIGHT);
    }

    fn curve(&self, text: &mut String, curve: &Curve) {
        let dots: Vec<&Dot> = curve.dots.iter().filter(|dot| self.is_shown(dot)).collect();
        let ink = Ink::for_curve(curve);
        text.push_str("<g class=\"curve\">");
        if curve.form == Form::Measured {
            self.band(text, &dots, &ink);
        }
        let mut path = String::new();
        for (index, dot) in dots.iter().enumerate() {
            let (x, y) = self.position(dot.x, dot.y);
            let _ = write!(path, "{}{x:.1} {y:.1}", if index == 0 { "M" } else { "L" });
        }
        let Ink { class, colour, dashes, width } = ink;
        if curve.form.has_line() {
            let _ = write!(
                text,
                "<path class=\"{class}\" fill=\"none\" stroke=\"{colour}\" \
                 stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\" d=\"{path}\"/>"
            );
        }
        if curve.form.has_markers() {
            for dot in dots {
                let (x, y) = self.position(dot.x, dot.y);
                marker(text, curve, x, y);
            }
        }
        text.push_str("</g>");
    }

    /// The intervals as bars, and as an area between points.
    fn band(&self, text: &mut String, dots: &[&Dot], ink: &Ink) {
        if dots.iter().all(|dot| dot.low == dot.high) {
            return;
        }
        let floor = if self.chart.y.log { self.y.0 } else { f64::NEG_INFINITY };
        let mut area = String::new();
        let mut bars = String::new();
        for dot in dots {
            let (x, y) = self.position(dot.x, dot.high);
            let _ = write!(area, "{}{x:.1} {y:.1}", if area.is_empty() { "M" } else { "L" });
            let (_, low) = self.position(dot.x, dot.low.max(floor));
            let _ = write!(bars, "M{x:.1} {y:.1}V{low:.1}");
        }
        for dot in dots.iter().rev() {
            let (x, y) = self.position(dot.x, dot.low.max(floor));
            let _ = write!(area, "L{x:.1} {y:.1}");
        }
        let Ink { class, colour, .. } = ink;
        let _ = write!(
            text,
            "<path class=\"band {class}\" fill=\"{colour}\" fill-opacity=\"0.15\" d=\"{area}Z\"/>\
             <path class=\"bar {class}\" stroke=\"{colour}\" stroke-width=\"1\" d=\"{bars}\"/>"
        );
    }
}

/// The drawing style of a curve.
struct Ink {
    class: String,
    colour: &'static str,
    dashes: &'static str,
    width: f64,
}

impl Ink {
    fn for_curve(curve: &Curve) -> Self {
        if curve.form == Form::Reference {
            return Self {
                class: "reference".into(),
                colour: "#777777",
                dashes: REFERENCE_DASHES[curve.style % REFERENCE_DASHES.len()],
                width: 1.5,
            };
        }
        let index = curve.style % COLOURS.len();
        Self {
            class: format!("s{index}"),
            colour: COLOURS[index],
            dashes: DASHES[curve.style % DASHES.len()],
            width: 2.0,
        }
    }
}

/// One of seven markers about a point: hollow where others have stated it, so that it is not taken
/// for one that was measured.
fn marker(text: &mut String, curve: &Curve, x: f64, y: f64) {
    let (style, index) = (curve.style, curve.style % COLOURS.len());
    let (class, colour) = (format!("s{index}"), COLOURS[index]);
    let d = match style % MARKERS {
        0 => "m-4 0a4 4 0 1 0 8 0a4 4 0 1 0-8 0z",
        1 => "m-3.5-3.5h7v7h-7z",
        2 => "m0-5l4.5 8h-9z",
        3 => "m0-5l5 5l-5 5l-5-5z",
        4 => "m0 5l4.5-8h-9z",
        5 => "m-4-1.5h2.5v-2.5h3v2.5h2.5v3h-2.5v2.5h-3v-2.5h-2.5z",
        _ => "m-5-2.5h10v5h-10z",
    };
    let look = match curve.form {
        Form::Stated => format!(
            "class=\"marker hollow {class}\" fill=\"#ffffff\" stroke=\"{colour}\" \
             stroke-width=\"1.5\""
        ),
        _ => format!("class=\"marker {class}\" fill=\"{colour}\""),
    };
    let _ = write!(text, "<path {look} d=\"M{x:.1} {y:.1}{d}\"/>");
}

/// The right end of the label beside the vertical axis.
const AXIS_LABEL: f64 = 22.0;

/// The labels of grid lines for which there is room, each in the middle of its line: from the first
/// on, those that neither reach into the one before nor beyond the drawing.
pub(crate) fn tick_labels(
    places: Vec<(f64, String)>,
    right: f64,
) -> impl Iterator<Item = (f64, String)> {
    let mut end = f64::NEG_INFINITY;
    places.into_iter().filter(move |(x, label)| {
        let half = width(label) / 2.0;
        let fits = x - half > end && x - half > -1.0 && x + half < right + 1.0;
        if fits {
            end = x + half + 4.0;
        }
        fits
    })
}

/// The size of letters at which a text fits: `size`, or less. `wide` is the width of its letters
/// beside those of a plain text.
fn fitting(text: &str, size: f64, wide: f64, room: f64) -> f64 {
    let needed = width(text) * size / 12.0 * wide;
    size * (room / needed.max(1.0)).min(1.0)
}

pub(crate) fn axis_labels(text: &mut String, x: &str, y: &str, plot_height: f64) {
    let middle = TOP + plot_height / 2.0;
    let _ = write!(
        text,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
         <text x=\"14\" y=\"{middle}\" text-anchor=\"middle\" \
         transform=\"rotate(-90 14 {middle})\">{}</text>",
        LEFT + PLOT_WIDTH / 2.0,
        TOP + plot_height + 36.0,
        escape(x),
        escape(y)
    );
}

/// The curves in each line of the legend, with where their entries begin.
fn legend_lines(curves: &[Curve]) -> Vec<Vec<(f64, &Curve)>> {
    let mut lines: Vec<Vec<(f64, &Curve)>> = Vec::new();
    let mut x = f64::INFINITY;
    for curve in curves {
        let width = 46.0 + width(&curve.label).min(LABEL_WIDTH_MAX);
        if x + width > WIDTH && x > LEFT {
            lines.push(Vec::new());
            x = LEFT;
        }
        lines.last_mut().expect("one was begun, the first x is beyond all").push((x, curve));
        x += width;
    }
    lines
}

/// The largest room for an entry of the legend.
const LABEL_WIDTH_MAX: f64 = WIDTH - LEFT - 46.0;

fn legend(text: &mut String, curves: &[Curve]) {
    for (index, line) in legend_lines(curves).into_iter().enumerate() {
        let y = TOP + PLOT_HEIGHT + BOTTOM + (index as f64 + 0.5) * LEGEND_LINE;
        for (x, curve) in line {
            let Ink { class, colour, dashes, width } = Ink::for_curve(curve);
            text.push_str("<g class=\"entry\">");
            if curve.form.has_line() {
                let _ = write!(
                    text,
                    "<path class=\"{class}\" stroke=\"{colour}\" stroke-width=\"{width}\" \
                     stroke-dasharray=\"{dashes}\" d=\"M{x:.1} {y:.1}h28\"/>"
                );
            }
            let _ = write!(
                text,
                "<text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x + 34.0,
                y + 4.0,
                escape(&cut(&curve.label, LABEL_WIDTH_MAX))
            );
            if curve.form.has_markers() {
                marker(text, curve, x + 14.0, y);
            }
            text.push_str("</g>");
        }
    }
}

/// The top of the cells: the label of the rows is above the cells, where there is room for it.
const HEAT_HEAD: f64 = TOP + 20.0;

/// The positions of the columns of a heat map, and whether their names are slanted.
struct Slant {
    left: f64,
    cell_width: f64,
    is_slant: bool,
    /// The height of the names beyond one line.
    height: f64,
}

/// The largest room for the names of rows and columns.
const NAME_WIDTH_MAX: f64 = 36.0 * LETTER;

impl Slant {
    /// The sine of the angle at which names are slanted, 30 degrees.
    const SINE: f64 = 0.5;
    const COSINE: f64 = 0.87;

    fn for_heat(heat: &Heat) -> Self {
        let longest = |names: &[String]| names.iter().map(|name| width(name)).fold(0.0, f64::max);
        let [rows, columns] =
            [&heat.rows, &heat.columns].map(|names| longest(names).min(NAME_WIDTH_MAX));
        let beside = (LEFT + 20.0).max(14.0 + rows);
        let cell_width =
            |left: f64| ((WIDTH - RIGHT - left) / heat.columns.len().max(1) as f64).min(150.0);
        let is_slant = columns > cell_width(beside);
        // Slanted names reach to the left of their columns.
        let left = if is_slant { beside.max(columns * Self::COSINE) } else { beside };
        let height = if is_slant { columns * Self::SINE } else { 0.0 };
        Self { left, cell_width: cell_width(left), is_slant, height }
    }
}

/// The approximate width of a name.
pub(crate) fn width(name: &str) -> f64 {
    name.chars().count() as f64 * LETTER
}

/// A name as far as there is room for it, with a sign where it is cut.
pub(crate) fn cut(name: &str, room: f64) -> String {
    if width(name) <= room {
        return name.to_owned();
    }
    let letters = (room / LETTER) as usize;
    name.chars().take(letters.saturating_sub(1)).chain(['…']).collect()
}

fn heat_map(heat: &Heat) -> String {
    let mut text = String::new();
    let Slant { left, cell_width, is_slant, height } = Slant::for_heat(heat);
    let _ = write!(text, "<text x=\"8\" y=\"{TOP}\" dy=\"4\">{}</text>", escape(&heat.y_label));
    for (row, (name, cells)) in heat.rows.iter().zip(&heat.cells).enumerate() {
        let y = HEAT_HEAD + row as f64 * CELL_HEIGHT;
        let _ = write!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            left - 8.0,
            y + CELL_HEIGHT / 2.0 + 4.0,
            escape(&cut(name, NAME_WIDTH_MAX))
        );
        for (column, cell) in cells.iter().enumerate() {
            let x = left + column as f64 * cell_width;
            heat_cell(&mut text, cell.as_ref(), heat.range, (x, y, cell_width));
        }
    }
    let bottom = HEAT_HEAD + heat.rows.len() as f64 * CELL_HEIGHT;
    for (column, name) in heat.columns.iter().enumerate() {
        let (x, y) = (left + (column as f64 + 0.5) * cell_width, bottom + 16.0);
        let anchor = match is_slant {
            true => format!("text-anchor=\"end\" transform=\"rotate(-30 {x:.1} {y:.1})\""),
            false => "text-anchor=\"middle\"".to_owned(),
        };
        let name = escape(&cut(name, NAME_WIDTH_MAX));
        let _ = write!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\" {anchor}>{name}</text>");
    }
    let _ = write!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{} (cells: {})</text>",
        left + heat.columns.len() as f64 * cell_width / 2.0,
        bottom + height + 36.0,
        escape(&heat.x_label),
        escape(&heat.value_label)
    );
    text
}

fn heat_cell(
    text: &mut String,
    cell: Option<&HeatCell>,
    (low, high): (f64, f64),
    (x, y, width): (f64, f64, f64),
) {
    let Some(cell) = cell else {
        let _ = write!(
            text,
            "<rect class=\"gap\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" \
             fill=\"none\" stroke=\"#bbbbbb\" stroke-dasharray=\"2 2\"/>",
            width - 2.0,
            CELL_HEIGHT - 2.0
        );
        return;
    };
    let part = if high > low { (cell.value - low) / (high - low) } else { 1.0 };
    let (colour, ink) = shade(part.clamp(0.0, 1.0));
    let told = format!("{}{}", cell.text, if cell.best { " ★" } else { "" });
    let size = fitting(&told, 12.0, 1.0, width - 6.0);
    let _ = write!(
        text,
        "<g class=\"cell\" data-about=\"{about}\"><title>{about}</title>\
         <rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{}\" fill=\"{colour}\"/>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"{size:.1}\" \
         style=\"fill:{ink}\" fill=\"{ink}\">{}</text></g>",
        width - 2.0,
        CELL_HEIGHT - 2.0,
        x + width / 2.0 - 1.0,
        y + CELL_HEIGHT / 2.0 + 3.0,
        escape(&told),
        about = escape(&cell.about),
    );
}

/// A shade from light to dark, so that it is readable without colours; and the colour of text on
/// it.
fn shade(part: f64) -> (String, &'static str) {
    const STOPS: [[f64; 3]; 3] = [[237.0, 243.0, 250.0], [94.0, 152.0, 200.0], [8.0, 48.0, 107.0]];
    let (from, to, within) = match part < 0.5 {
        true => (STOPS[0], STOPS[1], part * 2.0),
        false => (STOPS[1], STOPS[2], part * 2.0 - 1.0),
    };
    let mix = |i: usize| (from[i] + (to[i] - from[i]) * within).round() as u8;
    let colour = format!("#{:02x}{:02x}{:02x}", mix(0), mix(1), mix(2));
    (colour, if part < 0.55 { "#111111" } else { "#ffffff" })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chart::Axis;

    /// The texts of a drawing, each with the value of an attribute, and whether it is slanted.
    fn texts<'d>(drawing: &'d str, attribute: &str) -> Vec<(&'d str, f64, bool)> {
        let elements = drawing.split("<text ").skip(1).map(|rest| {
            let (attributes, rest) = rest.split_once('>').expect("it is closed");
            let (_, value) = attributes.split_once(attribute).expect("it has one");
            let value = value.split('"').nth(1).expect("it is quoted");
            let text = rest.split('<').next().expect("it ends");
            (text, value.parse().expect("a number"), attributes.contains("rotate(-30"))
        });
        elements.collect()
    }

    fn heat(rows: &[String], columns: &[String]) -> Heat {
        Heat {
            x_label: "workers".into(),
            y_label: "events".into(),
            value_label: "good replies/s".into(),
            rows: rows.to_vec(),
            columns: columns.to_vec(),
            cells: vec![vec![None; columns.len()]; rows.len()],
            range: (0.0, 1.0),
        }
    }

    /// From a few names to many, from short ones to some that are cut: all begin within the
    /// drawing, and none overlaps the label of the rows or of the columns.
    #[test]
    fn names_of_rows_and_columns_have_room() {
        for (count, row, column) in
            [(2, 3, 3), (2, 3, 60), (3, 60, 3), (3, 3, 36), (8, 60, 60), (12, 10, 12)]
        {
            let names = |letters: usize| -> Vec<String> {
                (0..count).map(|n| format!("{n:x}{}", "m".repeat(letters - 1))).collect()
            };
            let heat = heat(&names(row), &names(column));
            let drawing = heat_map(&heat);
            let slant = Slant::for_heat(&heat);
            let across = texts(&drawing, "x=");
            let own = &across[1..=2 * count];
            for (name, x, is_slant) in own {
                let begins = match (is_slant, *x < slant.left) {
                    (true, _) => x - width(name) * Slant::COSINE,
                    (false, true) => x - width(name),
                    (false, false) => x - width(name) / 2.0,
                };
                assert!(begins >= 0.0, "{name} begins at {begins}");
            }
            let down = texts(&drawing, "y=");
            let (head, label) = (down[0], down.last().expect("what the columns are"));
            assert_eq!((head.0, label.0), ("events", "workers (cells: good replies/s)"));
            assert!(down[1..].iter().all(|(_, y, _)| *y > head.1 + 10.0), "{down:?}");
            let lowest = own.iter().zip(&down[1..]).map(|((name, _, is_slant), (_, y, _))| {
                y + if *is_slant { width(name) * Slant::SINE } else { 0.0 }
            });
            assert!(lowest.fold(0.0, f64::max) + 10.0 < label.1, "{down:?}");
        }
    }

    #[test]
    fn a_name_that_is_cut_has_a_sign() {
        let check = |name: &str, expected: &str| assert_eq!(cut(name, 4.0 * LETTER), expected);
        check("", "");
        check("abcd", "abcd");
        check("äbcde", "äbc…");
    }

    /// Names along an axis have a place each.
    #[test]
    fn names_of_places_are_not_laid_over_each_other() {
        for letters in [3, 12, 80] {
            let names: Vec<_> =
                (1..=8).map(|n| (f64::from(n), format!("{n}{}", "m".repeat(letters)))).collect();
            let x = Axis { range: Some((0.5, 8.5)), names, ..Axis::linear("events") };
            let drawing = lines(&Chart { x, ..Chart::default() });
            let texts = texts(&drawing, "x=");
            let names: Vec<_> = texts.iter().filter(|(name, ..)| name.contains('m')).collect();
            assert_eq!(names.len(), 8);
            for pair in names.windows(2) {
                let [(first, left, _), (second, right, _)] = pair else { unreachable!("pairs") };
                assert!(left + width(first) / 2.0 <= right - width(second) / 2.0, "{pair:?}");
            }
        }
    }
}
