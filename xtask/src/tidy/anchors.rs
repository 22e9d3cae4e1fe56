//! The anchors of a page of Markdown, as GitHub makes them: one for each heading, and those that
//! the page writes as HTML (`<a id="…">`).
//!
//! Headings that are underlined are not known: none is used here.

use std::collections::HashMap;

/// The anchors of a page, in its order.
pub(super) fn anchors(page: &str) -> Vec<String> {
    let mut anchors = Vec::new();
    let mut times: HashMap<String, u32> = HashMap::new();
    for line in outside_fences(page) {
        anchors.extend(written(line));
        let Some(heading) = heading(line) else { continue };
        let anchor = anchor(heading);
        let before = times.entry(anchor.clone()).or_default();
        anchors.push(match *before {
            0 => anchor,
            before => format!("{anchor}-{before}"),
        });
        *before += 1;
    }
    anchors
}

/// The lines that are not in blocks of code.
fn outside_fences(page: &str) -> impl Iterator<Item = &str> {
    let mut fence: Option<&str> = None;
    page.lines().filter(move |line| {
        let line = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| line.starts_with(mark));
        let was_inside = fence.is_some();
        match (fence, mark) {
            (None, Some(_)) => fence = mark,
            (Some(open), Some(mark)) if open == mark => fence = None,
            _ => {}
        }
        !was_inside && mark.is_none()
    })
}

/// The names that a line gives to places by itself.
fn written(line: &str) -> impl Iterator<Item = String> {
    let rest = line.split("<a id=\"").skip(1);
    rest.filter_map(|rest| rest.split_once('"')).map(|(name, _)| name.to_owned())
}

/// The text of a heading.
fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let level = line.len() - text.len();
    ((1..=6).contains(&level) && text.starts_with(' ')).then(|| text.trim())
}

/// What is seen of a heading, in small letters: letters, numbers, `_` and `-` stay, a space becomes
/// a hyphen, all else goes.
fn anchor(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        c if c.is_alphanumeric() => Some(c),
        _ => None,
    };
    without_targets(heading).to_lowercase().chars().filter_map(kept).collect()
}

/// A text with the links in it as their texts.
fn without_targets(text: &str) -> String {
    let mut parts = text.split("](");
    let first = parts.next().unwrap_or_default().to_owned();
    let after = parts.map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
    first + &after.collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let check = |page: &str, expected: &[&str]| assert_eq!(anchors(page), expected, "{page}");
        check("# A page\n\nText # no\n## Its part, and `code`\n", &["a-page", "its-part-and-code"]);
        check("### `[[host.header]]`\n", &["hostheader"]);
        check("## By cores (Genevès, Figure 4)\n", &["by-cores-genevès-figure-4"]);
        check("## 1 KiB / 64 - `a_b`\n", &["1-kib--64---a_b"]);
        check("## See [other](b.md#c) **now**\n", &["see-other-now"]);
        check("# A\n## A\n## A\n", &["a", "a-1", "a-2"]);
        check("#no\n####### no\n#\n", &[]);
        check("# A\n```sh\n# no\n~~~\n# no\n```\n# B\n", &["a", "b"]);
        check("<a id=\"claims\"></a>**Claims** are\n", &["claims"]);
    }
}
