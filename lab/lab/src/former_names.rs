//! Names in experiments, records and descriptions of servers that were changed in 0.1. The former
//! names are read until 0.2, and a notice gives the name of today; `docs/internals/renames.md`
//! lists them.

use command::renamed;
use toml::{Table, Value};

/// Tables of an experiment: the name before, and the name now.
const IN_EXPERIMENTS: [(&str, &str); 1] = [("domains", "testbeds")];

/// Placeholders of a server's description: the name before, and the name now.
const IN_DESCRIPTIONS: [(&str, &str); 1] = [("{peers_dir}", "{servers_dir}")];

/// Gives the tables of an experiment their names of today, in each of its sizes too. Returns a
/// notice for each name that was changed. A table that is present under both names keeps both, so
/// that the older one is refused as unknown.
pub(crate) fn rename_in_experiment(experiment: &mut Table) -> Vec<String> {
    let present = IN_EXPERIMENTS.iter().filter(|&&(before, now)| {
        let mut is_present = rename(experiment, before, now);
        let sizes = experiment.get_mut("sizes").and_then(Value::as_table_mut);
        for (_, size) in sizes.into_iter().flatten() {
            is_present |= size.as_table_mut().is_some_and(|size| rename(size, before, now));
        }
        is_present
    });
    present.map(|(before, now)| renamed(before, now)).collect()
}

/// The text of an experiment with the changes of [`rename_in_experiment`]; unchanged if it is no
/// TOML.
pub(crate) fn renamed_experiment(text: &str) -> String {
    let Ok(mut experiment) = text.parse::<Table>() else { return text.to_owned() };
    match rename_in_experiment(&mut experiment).is_empty() {
        true => text.to_owned(),
        false => toml::to_string(&experiment).expect("it was TOML before"),
    }
}

/// The text of a server's description with the placeholders of today, and a notice for each that
/// was changed.
pub(crate) fn rename_in_description(text: &str) -> (String, Vec<String>) {
    let mut text = text.to_owned();
    let mut notices = Vec::new();
    for (before, now) in IN_DESCRIPTIONS {
        if text.contains(before) {
            text = text.replace(before, now);
            notices.push(renamed(before, now));
        }
    }
    (text, notices)
}

/// The text of a server's description with the placeholders of before. Digests are made of it, so
/// that a search that was begun before is resumed.
pub(crate) fn with_former_placeholders(text: String) -> String {
    IN_DESCRIPTIONS.iter().fold(text, |text, (before, now)| text.replace(now, before))
}

fn rename(table: &mut Table, before: &str, now: &str) -> bool {
    if table.contains_key(now) {
        return false;
    }
    let Some(value) = table.remove(before) else { return false };
    table.insert(now.to_owned(), value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: &str, after: &str, notices: usize) {
        let mut experiment: Table = before.parse().expect("it is TOML");
        assert_eq!(rename_in_experiment(&mut experiment).len(), notices);
        assert_eq!(experiment, after.parse::<Table>().expect("it is TOML"));
    }

    #[test]
    fn tables_get_their_names_of_today() {
        check("[[domains]]\nname = 'a'", "[[testbeds]]\nname = 'a'", 1);
        check("[[sizes.small.domains]]\ncpus = 1", "[[sizes.small.testbeds]]\ncpus = 1", 1);
        let both =
            "[[domains]]\n[domains.kernel]\nk = 1\n[[sizes.a.domains]]\n[[sizes.b.testbeds]]";
        check(both, &both.replace("domains", "testbeds"), 1);
        check("title = 'domains'", "title = 'domains'", 0);
        let mixed = "[[domains]]\n[[testbeds]]";
        check(mixed, mixed, 0);
    }

    #[test]
    fn placeholders_get_their_names_of_today() {
        let (text, notices) = rename_in_description("folder = '{peers_dir}/own'");
        assert_eq!((text.as_str(), notices.len()), ("folder = '{servers_dir}/own'", 1));
        assert_eq!(with_former_placeholders(text.clone()), "folder = '{peers_dir}/own'");
        let (text, notices) = rename_in_description(&text);
        assert_eq!((text.as_str(), notices.len()), ("folder = '{servers_dir}/own'", 0));
    }

    /// Each name is listed for users who have files with it.
    #[test]
    fn the_page_of_renames_has_each_name() {
        let page = include_str!("../../../docs/internals/renames.md");
        for (before, now) in IN_EXPERIMENTS.into_iter().chain(IN_DESCRIPTIONS) {
            assert!(page.contains(&format!("| `{before}` | `{now}` |")), "{before}");
        }
    }
}
