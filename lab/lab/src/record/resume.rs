//! Opens a folder for records, a new one or one to go on with: then the request must be equal to
//! the recorded one, and the workloads unchanged.

use super::{Described, Folder, Header, Opened, Participants};
use crate::error::Error;
use crate::former_names::renamed_experiment;
use std::path::Path;

impl Folder {
    /// Makes a new folder, or, to `resume`, opens an existing one; returns it with its content.
    ///
    /// # Errors
    /// When the folder holds a study already, or none to go on with, or another one than this.
    pub fn open(path: &Path, header: &Header, resume: bool) -> Result<(Self, Opened), Error> {
        if !resume {
            let folder = Self::create(path, header)?;
            return Ok((folder, Opened::default()));
        }
        let (folder, opened) = Self::resume(path)?;
        if !makes_the_same_runs(&opened.header.definition, &header.definition) {
            let path = path.display();
            return Err(Error::Usage(format!(
                "{path}: it was begun with another definition: see `definition` in \
                 {path}/study.json"
            )));
        }
        if !header.servers.is_empty() {
            if let Some(change) = changed(&opened.header.workloads, &header.workloads) {
                return Err(Error::Failed(format!(
                    "{}: {change}: runs would be of two workloads; bring back what there was, or \
                     begin anew with another -o",
                    path.display()
                )));
            }
            folder.add_participants(&Participants::from_header(header)).map_err(Error::Failed)?;
        }
        Ok((folder, opened))
    }
}

/// A workload that has changed since, though it has the same name: its log has grown, or its files
/// are others.
fn changed(before: &[Described], now: &[Described]) -> Option<String> {
    let pairs = now.iter().flat_map(|now| {
        let before = before.iter().filter(|before| before.name == now.name);
        before.map(move |before| (before, now))
    });
    pairs.into_iter().find_map(|(before, now)| {
        let (number, was) = before.numbers.iter().find(|(number, was)| {
            let is = now.numbers.get(*number).unwrap_or(was);
            // The numbers were written down and read again.
            (*was - is).abs() > 1e-9 * was.abs()
        })?;
        let name = number.replace('_', " ");
        Some(format!("workload {}: {name}: {was} then, {} now", now.name, now.numbers[number]))
    })
}

/// The keys of an experiment that are for people, and decide no run.
const FOR_PEOPLE: [&str; 4] = ["title", "source", "question", "expected"];

/// Whether two definitions lead to the same runs: names of before count as those of today, and
/// texts for people may differ.
fn makes_the_same_runs(before: &str, now: &str) -> bool {
    let runs = |definition: &str| {
        let mut table: toml::Table = renamed_experiment(definition).parse().ok()?;
        FOR_PEOPLE.iter().for_each(|key| drop(table.remove(*key)));
        Some(table)
    };
    before == now || runs(before).is_some_and(|before| Some(before) == runs(now))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_is_the_same_if_it_leads_to_the_same_runs() {
        let check = |before: &str, now: &str, expected| {
            assert_eq!(makes_the_same_runs(before, now), expected, "{before} and {now}");
        };
        check("title = 'a'\n[[domains]]", "title = 'b'\n[[testbeds]]", true);
        check("repetitions = 2", "repetitions = 3", false);
        check("no TOML", "no TOML", true);
        check("no TOML", "none", false);
    }

    #[test]
    fn a_workload_that_is_another_than_it_was_is_noticed() {
        let workload = |name: &str, requests: f64| Described {
            name: name.into(),
            numbers: [("requests".into(), requests), ("mean_body_bytes".into(), 30.0)].into(),
            ..Described::default()
        };
        let before = [workload("a", 5.0), workload("b", 0.3)];
        // A number may differ like this when it was read back from text.
        assert_eq!(changed(&before, &[workload("b", 0.1 + 0.2), workload("a", 5.0)]), None);
        assert_eq!(
            changed(&before, &[workload("a", 7.0)]).as_deref(),
            Some("workload a: requests: 5 then, 7 now")
        );
        assert_eq!(changed(&[], &before), None);
    }
}
