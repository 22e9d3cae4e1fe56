//! Accessibility of a page to screen readers, keyboards and users with weak eyes: names, order,
//! contrast.

use serde_json::{Value, json};

use crate::Browser;

/// The roles that a screen reader announces only by their names.
const NAMED: [&str; 7] = ["image", "button", "link", "table", "region", "navigation", "heading"];

/// Asserts that the open page is accessible, by Chromium's accessibility tree and styles.
#[track_caller]
pub fn check(browser: &mut Browser) {
    assert_eq!(browser.evaluate("document.documentElement.lang"), json!("en"));
    let tree = browser.call("Accessibility.getFullAXTree", &json!({}));
    let nodes: Vec<&Value> =
        tree["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false).collect();
    let role = |node: &Value| node["role"]["value"].as_str().unwrap_or_default().to_owned();
    let is_shown = "[...document.querySelectorAll('main table:not(.u-legend)')]
        .some((table) => table.checkVisibility())";
    let table = browser.evaluate(is_shown).as_bool().unwrap().then_some("table");
    for kind in ["image", "heading", "navigation"].into_iter().chain(table) {
        assert!(nodes.iter().any(|node| role(node) == kind), "no {kind} is told");
    }
    for node in &nodes {
        let silent = node["name"]["value"].as_str().unwrap_or_default().trim().is_empty();
        let must_speak = NAMED.contains(&&*role(node)) || property(node, "focusable") == true;
        assert!(!(silent && must_speak), "this has no name: {node}");
    }
    let headings = nodes.iter().filter(|node| role(node) == "heading");
    let levels: Vec<u64> = headings.map(|node| property(node, "level").as_u64().unwrap()).collect();
    assert_eq!(levels.iter().filter(|level| **level == 1).count(), 1, "{levels:?}");
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    let tables = "[...document.querySelectorAll('main table:not(.u-legend)')]
        .filter((table) => !table.caption || !table.querySelector('th[scope=col]')).length";
    assert_eq!(browser.evaluate(tables), json!(0), "tables have captions and heads");
    assert_eq!(browser.evaluate(FAINT), json!([]), "text that is faint");
}

fn property(node: &Value, name: &str) -> Value {
    let properties = node["properties"].as_array();
    let mut own = properties.into_iter().flatten().filter(|property| property["name"] == name);
    own.next().map_or(Value::Null, |property| property["value"]["value"].clone())
}

/// A script that returns texts whose contrast to their background is below 4.5 (WCAG 2.2, 1.4.3).
const FAINT: &str = "(() => {
    const parts = (colour) => (colour.match(/[0-9.]+/g) || []).map(Number);
    const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    const luminance = ([r, g, b]) =>
        0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
    const behind = (element) => {
        for (let e = element; e; e = e.parentElement) {
            const colour = parts(getComputedStyle(e).backgroundColor);
            if (colour.length === 3 || colour[3] === 1) return colour;
        }
        return matchMedia('(prefers-color-scheme: dark)').matches ? [18, 18, 18] : [255, 255, 255];
    };
    const faint = new Set();
    const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
        const text = walker.currentNode.data.trim(), element = walker.currentNode.parentElement;
        if (!text || !element.checkVisibility() || element.closest('svg')) continue;
        const [a, b] = [parts(getComputedStyle(element).color), behind(element)].map(luminance);
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < 4.5) faint.add(`${contrast.toFixed(1)} ${element.tagName}: ${text}`);
    }
    return [...faint];
})()";
