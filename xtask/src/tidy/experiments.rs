//! The index of the papers and the shipped experiments agree: `docs/lab/papers.md` names each of
//! them and no other.
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
    }
    let unnamed = paths.iter().filter(|path| is_experiment(path) && !named.contains(path));
    let message = format!("{INDEX} does not name it: say which figure or question it answers");
    findings.extend(unnamed.map(|path| Finding::in_file(path, message.clone())));
    findings
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
    fn without_an_index_there_may_be_no_experiment() {
        let tree = Tree::with_file("experiments/a.toml", "");
        assert_eq!(check(&tree).len(), 1);
        assert_eq!(check(&Tree::with_file("README.md", "")).len(), 0);
    }
}
