//! The layout of a page of figures, as Chromium has it: no label lies over another, legends look
//! like their curves, and the page need not be scrolled sideways.

use serde_json::json;

use crate::Browser;

/// Asserts that the open page is laid out well, in a window of this width.
#[track_caller]
pub fn check(browser: &mut Browser, width: u32) {
    let wide = browser.evaluate("document.documentElement.scrollWidth");
    assert!(wide.as_u64().unwrap() <= u64::from(width), "{wide} at {width}");
    assert_eq!(browser.evaluate(OVERLAPS), json!([]), "labels at {width}");
    assert_eq!(browser.evaluate(LIVE_TICKS), json!([]), "numbers of axes at {width}");
    assert_eq!(browser.evaluate(LIVE_LEGENDS), json!([]), "legends at {width}");
}

/// Asserts that no labels overlap on paper, where drawings are in place of charts.
#[track_caller]
pub fn check_printed(browser: &mut Browser) {
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

/// A script that returns curves of interactive charts whose sign in the legend has another colour.
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
        return inked.some(is_like) ? [] : [[id, curve.label, ink.join(), String(inked[0])]];
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
