//! The page of mended faults names tests that exist: functions, or conformance cases. A name that
//! ends with `_` or `…` stands for all that begin so.

use super::Finding;
use super::source::Tree;

const PAGE: &str = "docs/internals/faults.md";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(page) = tree.sources.iter().find(|source| source.path == PAGE) else {
        return Vec::new();
    };
    let rows = page.text.lines().zip(1..).filter(|(line, _)| line.starts_with("| "));
    let names = rows.flat_map(|(row, number)| {
        let tests = row.trim_end_matches([' ', '|']).rsplit('|').next().unwrap_or_default();
        let quoted = tests.split('`').skip(1).step_by(2);
        quoted.map(move |name| (name, number))
    });
    let is_missing = |(name, _): &(&str, usize)| !is_test(tree, name);
    let message = |name| format!("there is no test {name}: name the one that holds it now");
    names
        .filter(is_missing)
        .map(|(name, number)| Finding::in_line(page, number, message(name)))
        .collect()
}

fn is_test(tree: &Tree, name: &str) -> bool {
    let beginning = name.trim_end_matches('…');
    let is_beginning = beginning.len() < name.len() || name.ends_with('_');
    let [function, case] = match is_beginning {
        true => [format!("fn {beginning}"), format!("\nname = \"{beginning}")],
        false => [format!("fn {name}("), format!("\nname = \"{name}\"")],
    };
    tree.sources.iter().any(|source| match source.is_rust() {
        true => source.code.contains(&function),
        false => source.path.ends_with(".toml") && source.text.contains(&case),
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::*;

    #[test]
    fn each_test_is_there() {
        let holds = |names: &str, missing: &[&str]| {
            let row = format!("| fault | tests |\n|---|---|\n| `text` | {names} |\n");
            let mut tree = Tree::with_file(PAGE, &row);
            let tests = "fn there() {}\nfn first_of_all() {}\n// fn in_a_comment()";
            tree.sources.push(Source::new("a/tests.rs", tests));
            tree.sources.push(Source::new("cases/a.toml", "[[case]]\nname = \"case_one\"\n"));
            let found: Vec<String> = check(&tree).iter().map(ToString::to_string).collect();
            let expected = missing.iter().map(|name| {
                format!("{PAGE}:3: there is no test {name}: name the one that holds it now")
            });
            assert_eq!(found, expected.collect::<Vec<_>>(), "{names}");
        };
        holds("`there`, case `case_one`", &[]);
        holds("`first_` and the others, `case_…`", &[]);
        holds("`gone`, `in_a_comment`, `second_`", &["gone", "in_a_comment", "second_"]);
        holds("`ther`", &["ther"]);
    }
}
