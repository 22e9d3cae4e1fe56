//! The layout of a page of figures, as Chromium has it: no label lies over another, legends look
//! like their curves, and the page need not be scrolled sideways.

use std::path::Path;

use serde_json::{Value, json};

use crate::{Browser, accessibility};

/// The windows in which every kind of page is looked at: wide and narrow, light and dark.
const WINDOWS: [(u32, &str); 4] = [(1200, "dark"), (390, "light"), (390, "dark"), (1200, "light")];

/// Asserts that a page is laid out well and can be read in each of the windows, and on paper, and
/// that no part of it is missing or fails. The last window is wide and light.
#[track_caller]
pub fn check_page(browser: &mut Browser, page: &Path) {
    for (width, scheme) in WINDOWS {
        println!("{} at {width}, {scheme}", page.display());
        browser.shape(width, 900, scheme);
        browser.open(page);
        check(browser, width);
        accessibility::check(browser);
        assert_eq!(browser.complaints(), Vec::<&Value>::new());
    }
    check_printed(browser);
    assert_eq!(browser.complaints(), Vec::<&Value>::new(), "on paper");
}

/// Asserts that the open page is laid out well, in a window of this width.
#[track_caller]
fn check(browser: &mut Browser, width: u32) {
    let wide = browser.evaluate("document.documentElement.scrollWidth");
    assert!(wide.as_u64().unwrap() <= u64::from(width), "{wide} at {width}");
    assert_eq!(browser.evaluate(OVERLAPS), json!([]), "labels at {width}");
    assert_eq!(browser.evaluate(LIVE_TICKS), json!([]), "numbers of axes at {width}");
    assert_eq!(browser.evaluate(LIVE_LEGENDS), json!([]), "legends at {width}");
}

/// Asserts that no labels overlap on paper, where drawings are in place of charts.
#[track_caller]
fn check_printed(browser: &mut Browser) {
    browser.call("Emulation.setEmulatedMedia", &json!({ "media": "print" }));
    assert_eq!(browser.evaluate(OVERLAPS), json!([]), "labels on paper");
    assert_eq!(browser.evaluate(DRAWN_LEGENDS), json!([]), "legends on paper");
    browser.call("Emulation.setEmulatedMedia", &json!({ "media": "" }));
}

/// A script that returns pairs of texts of a visible drawing that lie over each other, and texts
/// that reach beyond it. Slanted names are left out: their boxes are larger than they.
const OVERLAPS: &str = "[...document.querySelectorAll('svg.drawn')].flatMap((svg) => {
        const frame = svg.getBoundingClientRect();
        if (!frame.width) return [];
        const scale = frame.width / svg.viewBox.baseVal.width;
        const isSlanted = (text) => /rotate.-30/.test(text.getAttribute('transform'));
        const texts = [...svg.querySelectorAll('text')]
            .filter((text) => text.textContent && !isSlanted(text));
        const boxes = texts.map((text) => text.getBoundingClientRect());
        const found = [];
        boxes.forEach((a, i) => {
            const name = texts[i].textContent;
            const isBeyond = a.left < frame.left - scale || a.right > frame.right + scale;
            if (isBeyond) found.push([name, 'beyond']);
            boxes.slice(i + 1).forEach((b, j) => {
                const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
                const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
                const other = texts[i + 1 + j].textContent;
                if (across > scale && down > 2 * scale) found.push([name, other]);
            });
        });
        return found.map((pair) => [svg.querySelector('title').textContent, ...pair]);
    })";

/// A script that returns numbers of the interactive charts' axes that lie over each other.
const LIVE_TICKS: &str = "[...window.ropewalkReport?.built ?? []].flatMap(([id, plot]) => {
    const ruler = document.createElement('canvas').getContext('2d');
    ruler.font = '12px system-ui';
    const found = [];
    for (const [index, scale] of [[0, 'x'], [1, 'y']]) {
        const { _splits, _values } = plot.axes[index];
        let end = -Infinity;
        (_values || []).forEach((label, i) => {
            if (!label) return;
            const place = plot.valToPos(_splits[i], scale);
            const at = index ? -place : place;
            const half = index ? 6 : ruler.measureText(label).width / 2;
            if (at - half < end - 0.5) found.push([id, scale, label]);
            end = at + half;
        });
    }
    return found;
})";

/// A script that returns curves of interactive charts whose sign in the legend has another colour,
/// or is solid where the curve is dashed, or dashed where it is solid.
const LIVE_LEGENDS: &str = "[...window.ropewalkReport?.built ?? []].flatMap(([id, plot]) => {
    const signs = [...plot.root.querySelectorAll('.u-legend .swatch')];
    const curves = plot.series.slice(1);
    if (signs.length !== curves.length) return [[id, signs.length, curves.length]];
    const probe = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    return curves.flatMap((curve, i) => {
        probe.fillStyle = curve.stroke(plot, i + 1);
        probe.fillRect(0, 0, 1, 1);
        const ink = [...probe.getImageData(0, 0, 1, 1).data];
        const { width, height } = signs[i];
        const { data } = signs[i].getContext('2d').getImageData(0, 0, width, height);
        // Thin lines cover no pixel whole, and what they cover is rounded.
        const inked = [];
        for (let at = 0; at < data.length; at += 4)
            if (data[at + 3] >= 128) inked.push([...data.slice(at, at + 3)]);
        const is_like = (pixel) => pixel.every((part, k) => Math.abs(part - ink[k]) <= 3);
        if (!inked.some(is_like)) return [[id, curve.label, ink.join(), String(inked[0])]];
        // A line begins at the left edge. Dashes leave gaps, one of them beside the marker.
        const row = Math.floor(height / 2) * width;
        const middle = [...Array(width).keys()].map((x) => data[4 * (row + x) + 3] >= 64 ? 1 : 0);
        const is_dashed = (curve.dash ?? []).length > 0;
        return !middle[0] || middle.includes(0) === is_dashed
            ? [] : [[id, curve.label, is_dashed ? 'dashed' : 'solid', middle.join('')]];
    });
})";

/// A script that returns entries of drawn legends that differ from their curves in colour, dashes,
/// thickness or marker.
const DRAWN_LEGENDS: &str = "[...document.querySelectorAll('svg.drawn')].flatMap((svg) => {
    const look = (group) => {
        const line = group.querySelector('path:not(.band):not(.bar):not(.marker)');
        const marker = group.querySelector('.marker');
        const drawn = line && getComputedStyle(line);
        return [
            drawn && [drawn.stroke, drawn.strokeDasharray, drawn.strokeWidth].join(' '),
            marker && getComputedStyle(marker).fill,
            marker && marker.getAttribute('d').replace(/^M[^a-z]*/, ''),
        ].join('; ');
    };
    const of = (kind) => [...svg.querySelectorAll('g.' + kind)].map(look);
    const [curves, entries] = [of('curve'), of('entry')];
    const title = svg.querySelector('title').textContent;
    if (curves.length !== entries.length) return [[title, curves.length, entries.length]];
    return curves.flatMap((curve, i) => (curve === entries[i] ? [] : [[title, curve, entries[i]]]));
})";
