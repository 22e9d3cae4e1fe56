//! Bars beside their names, drawn as SVG, each with its interval and its value in figures. Names
//! that are too long to stand beside the bars stand above them, in as many lines as they need.

use std::fmt::Write as _;

use crate::chart::{Axis, Ranked, RankedBar};
use crate::document::escape;
use crate::svg::{COLOURS, LETTER, TOP, cut, tick_labels, width};

/// The width of a drawing for narrow windows, in its own units.
pub(crate) const NARROW: f64 = 360.0;
const MARGIN: f64 = 8.0;
const BAR: f64 = 14.0;
/// The height of a line of text.
const LINE: f64 = 17.0;
/// The distance between a bar and the next name or bar.
const GAP: f64 = 8.0;
/// The distance between a group's name and its first bar.
const BELOW_HEAD: f64 = 2.0;
/// The room below the bars: the labels of the axis, and the label of the values.
const FOOT: f64 = 44.0;
/// The distance between a bar's end and the figures beside it.
const BESIDE: f64 = 10.0;

/// The positions of a drawing's parts.
struct Layout {
    width: f64,
    /// Where the bars begin.
    left: f64,
    /// Where the axis ends.
    right: f64,
    /// Whether names stand beside the bars, and the figures on the other side.
    is_beside: bool,
    /// The largest value of the axis.
    top: f64,
}

impl Layout {
    fn new(ranked: &Ranked, width_of_all: f64) -> Self {
        let bars = || ranked.groups.iter().flat_map(|(_, bars)| bars);
        let longest =
            |text: fn(&RankedBar) -> &str| bars().map(|bar| width(text(bar))).fold(0.0, f64::max);
        let (names, figures) = (longest(|bar| &bar.name), longest(|bar| &bar.text));
        let left = MARGIN + names + BESIDE;
        let right = width_of_all - MARGIN - figures - BESIDE;
        let highest = bars().map(|bar| bar.high.max(bar.value)).filter(|value| value.is_finite());
        let highest =
            highest.chain(ranked.mark.iter().map(|(value, _)| *value)).fold(0.0, f64::max);
        let is_beside = right - left >= width_of_all * 0.35;
        let (left, right) = if is_beside { (left, right) } else { (MARGIN, width_of_all - MARGIN) };
        let top = if highest > 0.0 { highest * 1.03 } else { 1.0 };
        Self { width: width_of_all, left, right, is_beside, top }
    }

    fn x(&self, value: f64) -> f64 {
        self.left + (value / self.top).clamp(0.0, 1.0) * (self.right - self.left)
    }

    /// The lines of a name above its bar, and whether the figures fit into the last one.
    fn lines(&self, bar: &RankedBar) -> (Vec<String>, bool) {
        let lines = wrapped(&bar.name, self.right - self.left);
        let last = lines.last().map_or(0.0, |line| width(line));
        let fits =
            !lines.is_empty() && last + 2.0 * BESIDE + width(&bar.text) <= self.right - self.left;
        (lines, fits)
    }

    /// The height of a bar with its texts.
    fn height_of(&self, bar: &RankedBar) -> f64 {
        let lines = match self.is_beside {
            true => 0,
            false => {
                let (lines, fits) = self.lines(bar);
                lines.len() + usize::from(!fits)
            }
        };
        lines as f64 * LINE + BAR + GAP
    }

    /// The height of a group's name.
    fn height_of_head(&self, name: &str) -> f64 {
        wrapped(name, self.width - 2.0 * MARGIN).len() as f64 * LINE + BELOW_HEAD
    }
}

pub(crate) fn height(ranked: &Ranked, width: f64) -> f64 {
    let layout = Layout::new(ranked, width);
    let of_group = |(name, bars): &(String, Vec<RankedBar>)| {
        layout.height_of_head(name) + bars.iter().map(|bar| layout.height_of(bar)).sum::<f64>()
    };
    TOP + ranked.groups.iter().map(of_group).sum::<f64>() + FOOT
}

pub(crate) fn draw(ranked: &Ranked, width: f64) -> String {
    let layout = Layout::new(ranked, width);
    let mut text = String::new();
    let bottom = height(ranked, width) - FOOT;
    axis(&mut text, ranked, &layout, bottom);
    let mut y = TOP;
    for (name, bars) in &ranked.groups {
        for line in wrapped(name, width - 2.0 * MARGIN) {
            y += LINE;
            // Writing to a string does not fail, neither here nor below.
            let _ = write!(
                text,
                "<text class=\"head\" x=\"{MARGIN}\" y=\"{:.1}\" font-weight=\"600\">{}</text>",
                y - 4.0,
                escape(&line)
            );
        }
        y += BELOW_HEAD;
        for bar in bars {
            row(&mut text, &layout, bar, y);
            y += layout.height_of(bar);
        }
    }
    mark(&mut text, ranked, &layout, bottom);
    text
}

fn axis(text: &mut String, ranked: &Ranked, layout: &Layout, bottom: f64) {
    let axis = Axis::linear("");
    let ticks = axis.ticks((0.0, layout.top));
    let places: Vec<(f64, String)> =
        ticks.iter().map(|tick| (layout.x(*tick), axis.tick_label(*tick))).collect();
    for (x, label) in tick_labels(places, layout.width) {
        let _ = write!(
            text,
            "<path class=\"grid\" stroke=\"#dddddd\" d=\"M{x:.1} {TOP}V{bottom:.1}\"/>\
             <text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            bottom + 16.0,
            escape(&label)
        );
    }
    let _ = write!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        layout.width / 2.0,
        bottom + 36.0,
        escape(&cut(&ranked.label, layout.width - 2.0 * MARGIN))
    );
}

/// The line through all bars. What it means is said in the text of the figure.
fn mark(text: &mut String, ranked: &Ranked, layout: &Layout, bottom: f64) {
    let Some((value, meaning)) = &ranked.mark else { return };
    let x = layout.x(*value);
    let _ = write!(
        text,
        "<path class=\"reference\" stroke=\"#777777\" stroke-width=\"1.5\" \
         stroke-dasharray=\"4 4\" d=\"M{x:.1} {TOP}V{bottom:.1}\"><title>{}</title></path>",
        escape(meaning)
    );
}

/// A bar with its name, interval and figures; `y` is the top.
fn row(text: &mut String, layout: &Layout, bar: &RankedBar, mut y: f64) {
    let RankedBar { name, style, value, low, high, text: figures } = bar;
    let Layout { left, right, .. } = layout;
    let at = |text: &mut String, x: f64, y: f64, anchor: &str, class: &str, what: &str| {
        let _ = write!(
            text,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
            escape(what)
        );
    };
    if !layout.is_beside {
        let (lines, fits) = layout.lines(bar);
        for line in lines {
            at(text, *left, y + 12.0, "start", "name", &line);
            y += LINE;
        }
        let line = if fits { y - LINE } else { y };
        at(text, *right, line + 12.0, "end", "value", figures);
        y += if fits { 0.0 } else { LINE };
    } else {
        at(text, left - BESIDE, y + BAR - 3.0, "end", "name", name);
        at(text, right + BESIDE, y + BAR - 3.0, "start", "value", figures);
    }
    let index = style % COLOURS.len();
    let (end, middle) = (layout.x(*value), y + BAR / 2.0);
    let _ = write!(
        text,
        "<g class=\"cell\" data-about=\"{about}\"><title>{about}</title>\
         <rect class=\"bar s{index}\" fill=\"{}\" x=\"{left:.1}\" y=\"{y:.1}\" width=\"{:.1}\" \
         height=\"{BAR}\"/></g>",
        COLOURS[index],
        (end - left).max(1.0),
        about = escape(&format!("{name}: {figures}")),
    );
    if low < high {
        let (from, to) = (layout.x(*low), layout.x(*high));
        // Light below dark, so that it is seen on the bar and beside it.
        for (class, colour, stroke) in [("under", "#ffffff", 3.5), ("over", "#111111", 1.5)] {
            let _ = write!(
                text,
                "<path class=\"interval {class}\" stroke=\"{colour}\" stroke-width=\"{stroke}\" \
                 d=\"M{from:.1} {middle:.1}H{to:.1}M{from:.1} {:.1}v6M{to:.1} {:.1}v6\"/>",
                middle - 3.0,
                middle - 3.0
            );
        }
    }
}

/// A name in lines that are no wider than `room`, broken at commas and spaces where there are any.
pub(crate) fn wrapped(name: &str, room: f64) -> Vec<String> {
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    let letters_max = ((room / LETTER) as usize).max(1);
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut letters) = (String::new(), 0);
    for part in name.split_inclusive([',', ' ']) {
        if letters > 0 && letters + part.trim_end().chars().count() > letters_max {
            lines.push(std::mem::take(&mut line).trim_end().to_owned());
            letters = 0;
        }
        for c in part.chars() {
            if letters >= letters_max && c != ' ' {
                lines.push(std::mem::take(&mut line));
                letters = 0;
            }
            line.push(c);
            letters += 1;
        }
    }
    lines.extend(Some(line.trim_end().to_owned()).filter(|line| !line.is_empty()));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::svg::WIDTH;

    fn ranked(names: &[&str]) -> Ranked {
        let bar = |name: &&str| RankedBar {
            name: (*name).to_owned(),
            value: 100.0,
            low: 90.0,
            high: 110.0,
            text: "100 [90.0, 110]".into(),
            ..RankedBar::default()
        };
        Ranked {
            label: "requests/s".into(),
            groups: vec![("w, d".into(), names.iter().map(bar).collect())],
            ..Ranked::default()
        }
    }

    #[test]
    fn long_names_stand_above_their_bars_and_are_not_cut() {
        let long = "ropewalk:staged,engine.knobs.read_threads=1,engine.knobs.write_threads=16";
        let some = ranked(&["nginx", "event-loop-shared-listener"]);
        assert!(Layout::new(&some, WIDTH).is_beside && !Layout::new(&some, NARROW).is_beside);
        let both = ranked(&["nginx", long]);
        assert!(!Layout::new(&both, WIDTH).is_beside);
        for width in [WIDTH, NARROW] {
            let drawn = draw(&both, width);
            let names = drawn.split("class=\"name\"").skip(1);
            let names = names.filter_map(|rest| rest.split_once('>')?.1.split_once('<'));
            let told: String = names.map(|(name, _)| name).collect();
            assert_eq!(told, format!("nginx{long}"));
        }
    }

    #[test]
    fn a_name_is_broken_where_it_may_be() {
        let room = width("mmmmmmmmmm");
        let check = |name: &str, lines: &[&str]| assert_eq!(wrapped(name, room), lines, "{name}");
        check("", &[]);
        check("short", &["short"]);
        check("abcdef,ghijkl", &["abcdef,", "ghijkl"]);
        check("two words here", &["two words", "here"]);
        check("abcdefghijklm", &["abcdefghij", "klm"]);
    }

    #[test]
    fn a_bar_is_as_long_as_its_value() {
        let layout = Layout::new(&ranked(&["a"]), WIDTH);
        assert_eq!(layout.x(0.0), layout.left);
        assert!((layout.x(layout.top) - layout.right).abs() < 1e-9);
        let nothing = Ranked::default();
        assert!(!draw(&nothing, WIDTH).contains("NaN") && height(&nothing, WIDTH) > 0.0);
    }

    /// Figures stand beside a name, or in a line of their own, and never over what is above.
    #[test]
    fn figures_without_a_name_have_a_line() {
        let drawn = draw(&ranked(&["", &"m".repeat(60)]), NARROW);
        let first = drawn.split("class=\"value\"").nth(1).expect("it has figures");
        let y = first.split("y=\"").nth(1).and_then(|rest| rest.split('"').next());
        let y: f64 = y.expect("a place").parse().expect("a number");
        assert!(y >= TOP + LINE + BELOW_HEAD + 12.0, "{y}");
    }

    #[test]
    fn a_label_is_no_wider_than_the_drawing() {
        let all = Ranked { label: "@".repeat(200), ..ranked(&["a"]) };
        for width in [WIDTH, NARROW] {
            let longest = draw(&all, width).matches('@').count();
            assert!(longest as f64 * LETTER <= width, "{longest}");
        }
    }

    /// White space is no name: a record may have any amount of it.
    #[test]
    fn white_space_is_one_space() {
        assert_eq!(wrapped(" a \n\t b ", width("mmmm")), ["a b"]);
        assert!(wrapped(&" ".repeat(100_000), NARROW).is_empty());
    }
}
