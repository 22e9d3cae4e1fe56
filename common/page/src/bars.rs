//! Columns of parts that add up, drawn as SVG. A part shows its description under the pointer.

use std::fmt::Write as _;

use crate::chart::{Axis, Bars};
use crate::document::escape;
use crate::number;
use crate::svg::{
    BOTTOM, COLOURS, LEFT, LEGEND_LINE, PLOT_HEIGHT, PLOT_WIDTH, RIGHT, TOP, WIDTH, axis_labels,
    cut, width,
};

/// The part of a column's place that the column fills.
const FILLED: f64 = 0.72;

pub(crate) fn height(bars: &Bars) -> f64 {
    TOP + PLOT_HEIGHT + BOTTOM + entries(bars).1 as f64 * LEGEND_LINE
}

pub(crate) fn draw(bars: &Bars) -> String {
    let mut text = String::new();
    let highest = bars.columns.iter().map(|(_, parts)| parts.iter().sum()).fold(0.0, f64::max);
    let top = if highest > 0.0 { highest * 1.05 } else { 1.0 };
    grid(&mut text, top);
    let place = PLOT_WIDTH / bars.columns.len().max(1) as f64;
    let width = (place * FILLED).min(90.0);
    for (index, (name, parts)) in bars.columns.iter().enumerate() {
        let middle = LEFT + (index as f64 + 0.5) * place;
        // Writing to a string does not fail, neither here nor below.
        let _ = write!(
            text,
            "<text class=\"tick\" x=\"{middle:.1}\" y=\"{}\" font-size=\"10\" \
             text-anchor=\"middle\">{}</text>",
            TOP + PLOT_HEIGHT + 16.0,
            // The letters of column names are smaller than others.
            escape(&cut(name, (place - 4.0) * 1.2))
        );
        let mut below = 0.0;
        for (part, value) in parts.iter().enumerate() {
            let ends = [below, below + value].map(|value| TOP + (1.0 - value / top) * PLOT_HEIGHT);
            let about = format!(
                "{name}, {}: {} {}",
                bars.parts.get(part).map_or("", |name| name),
                number::figure(*value),
                bars.y_label
            );
            block(&mut text, part, &about, (middle - width / 2.0, width), ends);
            below += value;
        }
    }
    axis_labels(&mut text, &bars.x_label, &bars.y_label, PLOT_HEIGHT);
    legend(&mut text, bars);
    text
}

fn grid(text: &mut String, top: f64) {
    let axis = Axis::linear("");
    for tick in axis.ticks((0.0, top)) {
        let y = TOP + (1.0 - tick / top) * PLOT_HEIGHT;
        let _ = write!(
            text,
            "<path class=\"grid\" stroke=\"#dddddd\" d=\"M{LEFT} {y:.1}H{}\"/>\
             <text class=\"tick\" x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            axis.tick_label(tick)
        );
    }
}

/// A part of a column; a part without height cannot be pointed at.
fn block(
    text: &mut String,
    part: usize,
    about: &str,
    (x, width): (f64, f64),
    [bottom, top]: [f64; 2],
) {
    if bottom - top <= 0.0 {
        return;
    }
    let _ = write!(
        text,
        "<g class=\"cell\" data-about=\"{about}\"><title>{about}</title>\
         <rect class=\"bar s{index}\" fill=\"{colour}\" x=\"{x:.1}\" y=\"{top:.2}\" \
         width=\"{width:.1}\" height=\"{:.2}\"/></g>",
        bottom - top,
        about = escape(about),
        index = part % COLOURS.len(),
        colour = COLOURS[part % COLOURS.len()],
    );
}

/// The start and the line of each entry of the legend; and the number of lines.
fn entries(bars: &Bars) -> (Vec<(f64, usize)>, usize) {
    let (mut x, mut line) = (LEFT, 0);
    let places = bars.parts.iter().map(|part| {
        let width = 34.0 + width(part);
        if x > LEFT && x + width > WIDTH {
            (x, line) = (LEFT, line + 1);
        }
        let place = (x, line);
        x += width;
        place
    });
    (places.collect(), line + 1)
}

fn legend(text: &mut String, bars: &Bars) {
    let (places, _) = entries(bars);
    for (index, (name, (x, line))) in bars.parts.iter().zip(places).enumerate() {
        let y = TOP + PLOT_HEIGHT + BOTTOM + (line as f64 + 0.5) * LEGEND_LINE;
        let _ = write!(
            text,
            "<rect class=\"bar s{}\" fill=\"{}\" x=\"{x:.1}\" y=\"{:.1}\" width=\"16\" \
             height=\"12\"/><text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            index % COLOURS.len(),
            COLOURS[index % COLOURS.len()],
            y - 6.0,
            x + 22.0,
            y + 4.0,
            escape(name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bars(columns: Vec<(String, Vec<f64>)>) -> Bars {
        let parts = ["one", "another <part>"].map(str::to_owned).to_vec();
        Bars { x_label: "x".into(), y_label: "y".into(), parts, columns }
    }

    #[test]
    fn parts_stand_on_each_other_and_fill_the_height_together() {
        let text = draw(&bars(vec![("a".into(), vec![1.0, 3.0]), ("b".into(), vec![0.0, 2.0])]));
        // Parts of size zero are not drawn; two more elements are in the legend.
        assert_eq!(text.matches("class=\"bar").count(), 5);
        let heights: f64 = text
            .split("height=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok())
            .filter(|height| *height != 12.0)
            .sum();
        assert!((heights - 6.0 / 4.2 * PLOT_HEIGHT).abs() < 0.1, "{heights}");
        assert!(text.contains("another &lt;part&gt;: 3 y"));
    }

    #[test]
    fn nothing_is_drawn_without_complaint() {
        let text = draw(&bars(vec![("a".into(), vec![0.0, 0.0])]));
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(height(&bars(Vec::new())) > 0.0);
    }
}
