//! The index of the papers and the shipped experiments agree: `docs/lab/papers.md` names each of
//! them and no other. Each of its rows has a command that can be pasted, the time it takes, and
//! what came of it; or the reason why there is nothing to run.
//!
//! Whether an experiment can be read, and its servers support its settings, is tested where it is
//! read.

use super::Finding;
use super::source::Tree;

const INDEX: &str = "docs/lab/papers.md";
const FOLDER: &str = "experiments/";
const ENDING: &str = ".toml";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let paths: Vec<&str> = tree.sizes.iter().map(|(path, _)| path.as_str()).collect();
    let Some(index) = tree.sources.iter().find(|source| source.path == INDEX) else {
        let shipped = paths.iter().filter(|path| is_experiment(path));
        return shipped
            .map(|path| Finding::in_file(path, format!("there is no {INDEX}")))
            .collect();
    };
    let mut findings = Vec::new();
    let mut named = Vec::new();
    for (line, number) in index.text.lines().zip(1..) {
        for path in experiments(line) {
            if !paths.contains(&path) {
                let message = format!("{path} does not exist: write it, or name another");
                findings.push(Finding::in_line(index, number, message));
            }
            named.push(path);
        }
        let lack = line.strip_prefix("| **").and_then(lack);
        findings.extend(lack.map(|lack| Finding::in_line(index, number, lack)));
    }
    let unnamed = paths.iter().filter(|path| is_experiment(path) && !named.contains(path));
    let message = format!("{INDEX} does not name it: say which figure or question it answers");
    findings.extend(unnamed.map(|path| Finding::in_file(path, message.clone())));
    findings
}

/// What a row lacks: its cells are an item, how it is answered, and the result.
fn lack(row: &str) -> Option<&'static str> {
    let cells: Vec<&str> = row.split('|').map(str::trim).collect();
    let [_item, how, result, ""] = cells[..] else {
        return Some("no row of three cells: an item, how, the result");
    };
    if let Some(reason) = how.strip_prefix("nothing to run:") {
        let is_reason_alone = !reason.trim().is_empty() && result.is_empty();
        return (!is_reason_alone).then_some("nothing to run: give the reason, and no result");
    }
    let command = how.strip_prefix('`').and_then(|how| how.split_once("`<br>"));
    let (command, more) = command.unwrap_or_default();
    match () {
        () if !command.starts_with("ropewalk ") || has_placeholder(command) => {
            Some("no whole command: begin with one that can be pasted, or with `nothing to run:`")
        }
        () if !is_time(more.split(';').next().unwrap_or_default()) => {
            Some("no time: say after the command and <br> how long it takes, as in `2 min; `")
        }
        () if said(result).split_whitespace().count() < 2 => {
            Some("no result: say in a few words what came of it, beside the link")
        }
        () => None,
    }
}

/// Whether a command has a word in capitals, in whose place something else is to be typed.
fn has_placeholder(command: &str) -> bool {
    command.split_whitespace().any(|word| word.chars().all(|c| c.is_ascii_uppercase()))
}

fn is_time(text: &str) -> bool {
    let units = ["s", "min", "h", "second", "seconds", "minute", "minutes", "hours", "once"];
    text.split_whitespace().any(|word| units.contains(&word))
}

/// A text without the links in it, of which the words lead elsewhere.
fn said(text: &str) -> String {
    let mut parts = text.split('[');
    let first = parts.next().unwrap_or_default().to_owned();
    let after = parts.map(|part| part.split_once(')').map_or(part, |(_, rest)| rest));
    let text = first + &after.collect::<String>();
    text.trim_start_matches([':', ' ']).to_owned()
}

fn is_experiment(path: &str) -> bool {
    path.starts_with(FOLDER) && path.ends_with(ENDING)
}

/// The experiments that a line names by their paths.
fn experiments(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices(FOLDER).filter_map(|(start, _)| {
        let rest = &line[start..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"/-_.".contains(c));
        let path = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        is_experiment(path).then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, shipped: &[&str]) -> Vec<String> {
        let mut tree = Tree::with_file(INDEX, text);
        tree.sizes.extend(shipped.iter().map(|path| ((*path).to_owned(), 1)));
        check(&tree).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_index_names_what_there_is_and_no_more() {
        let text = "| 1 | [a](../experiments/a-1.toml), `experiments/b.toml`. |\n";
        let none: &[&str] = &[];
        assert_eq!(found(text, &["experiments/a-1.toml", "experiments/b.toml"]), none);
        let missing =
            "docs/lab/papers.md:1: experiments/b.toml does not exist: write it, or name another";
        assert_eq!(found(text, &["experiments/a-1.toml"]), [missing]);
        let unnamed = found("experiments/NAME and experiments/", &["experiments/c.toml"]);
        assert_eq!(unnamed.len(), 1);
        assert!(unnamed[0].starts_with("experiments/c.toml: docs/lab/papers.md does not name it"));
        assert_eq!(found("", &["servers/nginx.toml"]), none);
    }

    #[test]
    fn a_row_has_a_command_a_time_and_a_result() {
        let check = |row: &str, lack: &str| {
            let found = found(&format!("| **figure 1**: load | {row} |\n"), &[]);
            match lack {
                "" => assert!(found.is_empty(), "{row}: {found:?}"),
                lack => assert!(found.len() == 1 && found[0].contains(lack), "{row}: {found:?}"),
            }
        };
        check("`ropewalk membench`<br>half a minute; root | [a](b.md): agrees, it is so", "");
        check("`ropewalk doctor`<br>at once | it names them", "");
        check("nothing to run: a drawing | ", "");
        check("nothing to run: a drawing | [a](b.md): agrees", "nothing to run");
        check("nothing to run:  | ", "nothing to run: give the reason");
        check("the same | [a](b.md): agrees, it is so", "no whole command");
        check("`ropewalk tune SERVER`<br>2 min | not run on record", "no whole command");
        check("`ropewalk membench` | agrees, it is so", "no whole command");
        check("`ropewalk membench`<br>root | agrees, it is so", "no time");
        check("`ropewalk membench`<br>2 min; root | [a](b.md)", "no result");
        check("`ropewalk membench`<br>2 min; root | ", "no result");
        check("`ropewalk membench`<br>2 min", "no row of three cells");
    }

    #[test]
    fn without_an_index_there_may_be_no_experiment() {
        let tree = Tree::with_file("experiments/a.toml", "");
        assert_eq!(check(&tree).len(), 1);
        assert_eq!(check(&Tree::with_file("README.md", "")).len(), 0);
    }
}
