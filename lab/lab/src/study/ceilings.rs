//! The ceilings of a study's testbeds: which are not known yet, and whether there is time for them.
//! How a ceiling is measured is in `ceiling`.

use super::ceiling::{NoCeiling, ceiling, estimated_ceiling_s};
use super::run::estimated_run_s;
use super::stage::{Participant, Stage};
use crate::error::Error;
use crate::install::Found;
use crate::lab::Lab;
use crate::record::{Ceiling, Folder};
use crate::search::{Stop, unable};
use crate::server_spec::ServerSpec;
use crate::testbed::Testbed;
use crate::watch::Watch;

/// The server that does the least that any can do.
const FLOOR: &str = "floor";

/// The seconds of a study that may still be spent.
#[derive(Clone, Copy, Debug)]
struct Budget {
    began_us: u64,
    budget_s: Option<f64>,
}

impl Budget {
    fn holds(&self, seconds: f64) -> bool {
        let spent_s = (os::clock::now() - self.began_us) as f64 / 1e6;
        self.budget_s.is_none_or(|budget| spent_s + seconds <= budget)
    }
}

impl Stage<'_> {
    /// Measures the ceiling of each testbed where it is not `known` yet, if the floor is there to
    /// measure it with and the budget, which has been running since `began_us`, holds it and a run.
    /// `say` prints which ceilings are not known, and why. An interrupt ends this early, and the
    /// study itself then ends by it, too.
    ///
    /// # Errors
    /// When the reason cannot be printed or a ceiling not written down, or the machine is not as it
    /// was before.
    pub fn measure_ceilings<E: From<Error>>(
        &self,
        lab: &Lab,
        folder: &Folder,
        known: &[(String, Ceiling)],
        began_us: u64,
        watch: &mut impl Watch,
        mut say: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        let missing = without_ceiling(&self.testbeds, known);
        if missing.is_empty() {
            return Ok(());
        }
        let budget = Budget { began_us, budget_s: self.definition.budget_s };
        // Looking for the floor may take seconds, too: it may have to be built.
        if !budget.holds(self.ceiling_and_run_s()) {
            return say(&format!("The path's ceiling is not known: {}", NoCeiling::NoTime));
        }
        let floor: ServerSpec = FLOOR.parse()?;
        let Found { installed, skipped } = lab.detect(&floor)?;
        for one in &skipped {
            say(&format!("The path's ceiling is not known: {}; {}", one.reason, one.command))?;
        }
        for installed in installed {
            let setting = floor.setting(&installed.description).map_err(Error::Failed)?;
            let floor = Participant { installed, setting };
            for &index in &missing {
                if watch.is_interrupted() {
                    return Ok(());
                }
                if let Some(why) = self.measure_ceiling(&floor, index, folder, budget, watch)? {
                    let name = &self.testbeds[index].name;
                    say(&format!("{name}: its ceiling is not known: {why}"))?;
                }
            }
        }
        Ok(())
    }

    /// Measures one ceiling and writes it down, or returns why it is not known; returns none if it
    /// was interrupted.
    fn measure_ceiling(
        &self,
        floor: &Participant,
        index: usize,
        folder: &Folder,
        budget: Budget,
        watch: &mut impl Watch,
    ) -> Result<Option<NoCeiling>, Error> {
        if !budget.holds(self.ceiling_and_run_s()) {
            return Ok(Some(NoCeiling::NoTime));
        }
        // Time for each run of the ceiling, and for one of the study.
        let runs_s = estimated_run_s(self.definition) + self.estimated_run_s();
        let mut goes_on = || match () {
            () if watch.is_interrupted() => Err(NoCeiling::Ended(Stop::Interrupted)),
            () if !budget.holds(runs_s) => Err(NoCeiling::NoTime),
            () => Ok(()),
        };
        match ceiling(self, floor, index, &mut goes_on) {
            Ok(found) => {
                let added = folder.add_ceiling(&self.testbeds[index].name, found);
                added.map_err(|why| Error::Stopped(unable(&why)))?;
                Ok(None)
            }
            Err(NoCeiling::Ended(Stop::Interrupted)) => Ok(None),
            Err(NoCeiling::Ended(Stop::Unable(why))) => Err(Error::Stopped(why)),
            Err(NoCeiling::Ended(Stop::Failed(why))) => Err(Error::Failed(why)),
            Err(why) => Ok(Some(why)),
        }
    }

    fn ceiling_and_run_s(&self) -> f64 {
        estimated_ceiling_s(self.definition) + self.estimated_run_s()
    }
}

/// The indices of the testbeds whose ceiling has not been measured: all, or, where a study was
/// ended in between, the later ones.
fn without_ceiling(testbeds: &[Testbed], known: &[(String, Ceiling)]) -> Vec<usize> {
    let is_known = |testbed: &Testbed| known.iter().any(|(name, _)| *name == testbed.name);
    (0..testbeds.len()).filter(|&index| !is_known(&testbeds[index])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ceilings_that_are_missing_are_measured() {
        let testbeds =
            ["a", "b", "c"].map(|name| Testbed { name: name.into(), ..Testbed::default() });
        let check = |known: &[&str], expected: &[usize]| {
            let known = known.iter().map(|&name| (name.to_owned(), Ceiling::default()));
            assert_eq!(without_ceiling(&testbeds, &known.collect::<Vec<_>>()), expected);
        };
        check(&[], &[0, 1, 2]);
        check(&["a"], &[1, 2]);
        check(&["c", "a", "b"], &[]);
    }
}
