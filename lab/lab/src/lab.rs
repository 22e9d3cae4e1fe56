//! The state that commands of the lab share: a load, the known servers, the CPUs of both.

use crate::error::Error;
use crate::install::{Found, Installed, SourceTree};
use crate::server::Launch;
use crate::server_description::{ServerDescription, Setting};
use crate::server_spec::ServerSpec;
use crate::testbed::{Affinity, Place};
use crate::trial::LoadSetup;
use crate::workload::Workload;
use std::collections::BTreeSet;

/// The setup that measures servers.
#[derive(Debug)]
pub struct Lab {
    /// The setup that loads the servers.
    pub load_setup: LoadSetup,
    /// The CPUs on which servers run.
    pub server_cpus: Vec<usize>,
    /// Where the source of servers lies that come as source.
    pub source_tree: SourceTree,
    /// All known servers.
    pub descriptions: Vec<ServerDescription>,
}

impl Lab {
    /// Whether the server that was typed is present.
    ///
    /// # Errors
    /// When it runs already, or no server has that name.
    pub fn detect(&self, spec: &ServerSpec) -> Result<Found, Error> {
        let Some(name) = spec.name() else {
            return Err(Error::Usage(format!("{spec} runs already: it cannot be started")));
        };
        Found::detect(&self.descriptions, &[name.to_owned()], &self.source_tree)
            .map_err(Error::Usage)
    }

    /// The server that was typed, and its setting.
    ///
    /// # Errors
    /// The errors of [`Lab::detect`]; when it cannot run here, or has no such setting.
    pub fn find(&self, spec: &ServerSpec) -> Result<(Installed, Setting), Error> {
        let mut found = self.detect(spec)?;
        if let Some(skipped) = found.skipped.first() {
            let (name, reason, command) = (&skipped.name, &skipped.reason, &skipped.command);
            return Err(Error::Failed(format!("{name} cannot run here: {reason}; {command}")));
        }
        let installed = found.installed.remove(0);
        let setting = spec.setting(&installed.description).map_err(Error::Usage)?;
        Ok((installed, setting))
    }

    /// The servers among these that looking for them builds from source, in a line that says that
    /// no estimate has the time; none if there is none.
    pub fn built_first<'s>(
        &self,
        specs: impl IntoIterator<Item = &'s ServerSpec>,
    ) -> Option<String> {
        let named = |name: &str| self.descriptions.iter().find(|known| known.name == name);
        let is_built = |name: &&str| named(name).is_some_and(|it| it.is_built(&self.source_tree));
        let names: BTreeSet<&str> =
            specs.into_iter().filter_map(ServerSpec::name).filter(is_built).collect();
        let names = names.into_iter().collect::<Vec<_>>().join(", ");
        (!names.is_empty()).then(|| {
            format!("built from source first, which the estimate of time does not include: {names}")
        })
    }

    /// What has become of knobs that were typed for a server, a line for each that was changed.
    pub fn knob_notices(&self, spec: &ServerSpec) -> Vec<String> {
        let ServerSpec::ByName { name, knobs, .. } = spec else { return Vec::new() };
        let description = self.descriptions.iter().find(|description| description.name == *name);
        description.map_or_else(Vec::new, |description| description.knob_notices(knobs))
    }

    /// How servers are started for a workload.
    pub fn launch(&self, workload: &Workload) -> Launch {
        Launch {
            source_tree: self.source_tree.clone(),
            root: workload.root.clone(),
            scratch: self.load_setup.tools.scratch.clone(),
            workers: self.server_cpus.len(),
            cpus: self.server_cpus.clone(),
            memory_bytes_max: None,
            ready_path: workload.ready_path.clone(),
            workload: workload.values.clone(),
            place: Place::default(),
            affinity: Affinity::default(),
        }
    }
}

/// The CPUs of servers and of clients. CPUs that were not typed are divided: the first half of the
/// remaining CPUs serves. Where there is only one CPU, servers and clients share it.
pub fn divide_cpus(
    allowed: &[usize],
    server: Option<Vec<usize>>,
    client: Option<Vec<usize>>,
) -> (Vec<usize>, Vec<usize>) {
    let without = |taken: &[usize]| -> Vec<usize> {
        let left: Vec<usize> = allowed.iter().copied().filter(|cpu| !taken.contains(cpu)).collect();
        if left.is_empty() { allowed.to_vec() } else { left }
    };
    match (server, client) {
        (Some(server), Some(client)) => (server, client),
        (Some(server), None) => {
            let client = without(&server);
            (server, client)
        }
        (None, Some(client)) => (without(&client), client),
        (None, None) => {
            let server = allowed[..allowed.len().div_ceil(2)].to_vec();
            let client = without(&server);
            (server, client)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_are_divided() {
        let all = [0, 1, 2, 3];
        assert_eq!(divide_cpus(&all, None, None), (vec![0, 1], vec![2, 3]));
        assert_eq!(divide_cpus(&all, Some(vec![3]), None), (vec![3], vec![0, 1, 2]));
        assert_eq!(divide_cpus(&all, None, Some(vec![0])), (vec![1, 2, 3], vec![0]));
        assert_eq!(divide_cpus(&[5], None, None), (vec![5], vec![5]), "they share it");
        assert_eq!(divide_cpus(&[0, 1, 2], None, None), (vec![0, 1], vec![2]));
    }
}
