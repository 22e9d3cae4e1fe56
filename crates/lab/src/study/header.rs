//! What is written down of a study before its first run.

use super::stage::{Entrant, Stage};
use crate::domain::Domain;
use crate::environment::Environment;
use crate::lab::Lab;
use crate::record::{Described, Header, Kind, Offered, Planned, Server, Skipped};
use crate::server::{Launch, configuration_text};
use std::collections::BTreeMap;

impl Stage<'_> {
    /// What the folder's header says.
    pub fn header(&self, lab: &Lab, skipped: Vec<Skipped>) -> Header {
        let definition = self.definition;
        Header {
            kind: Kind::Study,
            name: definition.name.clone(),
            title: definition.title.clone(),
            source: definition.source.clone(),
            question: definition.question.clone(),
            expected: definition.expected.clone(),
            definition: definition.text.clone(),
            servers: self.servers(lab),
            skipped,
            workloads: self.workloads.iter().map(|workload| workload.described.clone()).collect(),
            domains: self.domains.iter().map(|domain| self.described(domain)).collect(),
            planned: self.planned(),
            repetitions: definition.repetitions,
            confidence: definition.confidence,
            estimated_s: self.estimate_s(),
            budget_s: definition.budget_s,
            seed: definition.seed,
            floor: definition.floor.clone().unwrap_or_default(),
            started_unix_us: crate::unix_us(),
            ..Header::default()
        }
    }

    /// The machine, and the versions of all who take part.
    pub fn environment(&self) -> Environment {
        let versions = self.entrants.iter().map(|Entrant { installed, .. }| {
            (installed.peer.name.clone(), installed.version.clone())
        });
        Environment::record(versions.collect())
    }

    fn planned(&self) -> Vec<Planned> {
        let point = |cell| self.point(cell, Offered::default());
        self.cells().into_iter().map(|cell| point(cell).into()).collect()
    }

    /// Who takes part, with the configuration of each setting in each domain in which it differs.
    fn servers(&self, lab: &Lab) -> Vec<Server> {
        let mut servers: Vec<Server> = Vec::new();
        for entrant in &self.entrants {
            let peer = &entrant.installed.peer;
            let index = servers.iter().position(|server| server.name == peer.name);
            let index = index.unwrap_or_else(|| {
                servers.push(Server {
                    name: peer.name.clone(),
                    description: peer.description.clone(),
                    version: entrant.installed.version.clone(),
                    ..Server::default()
                });
                servers.len() - 1
            });
            servers[index].configurations.extend(self.configurations(lab, entrant));
        }
        servers
    }

    /// The configuration of a setting, with the domain in its name where it is another than in the
    /// one before.
    fn configurations(&self, lab: &Lab, entrant: &Entrant) -> Vec<(String, String)> {
        let Entrant { installed, setting } = entrant;
        let mut configurations: Vec<(String, String)> = Vec::new();
        for domain in &self.domains {
            let copies = domain.replicas.unwrap_or(1).max(1);
            let launch = Launch {
                workers: domain.server_cpus(&self.machine) / copies,
                affinity: domain.affinity,
                ..lab.launch(&self.workloads[0])
            };
            let text = configuration_text(installed, setting, &launch);
            if configurations.last().is_some_and(|(_, last)| *last == text) {
                continue;
            }
            let name = match configurations.is_empty() {
                true => setting.name.clone(),
                false => format!("{} ({})", setting.name, domain.name),
            };
            configurations.push((name, text));
        }
        configurations
    }

    fn described(&self, domain: &Domain) -> Described {
        let cpus = domain.server_cpus(&self.machine) as f64;
        let mut numbers = BTreeMap::from([("cpus".into(), cpus)]);
        numbers.extend(domain.client_cpus.map(|cpus| ("client_cpus".into(), cpus as f64)));
        Described { name: domain.name.clone(), about: domain.about(), numbers }
    }
}
