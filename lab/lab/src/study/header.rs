//! What is written down of a study before its first run.

use super::stage::{Participant, Stage};
use crate::environment::Environment;
use crate::lab::Lab;
use crate::record::{
    Absent, Claim, Described, Header, Kind, Offered, Planned, Program, Server, Skipped,
};
use crate::server::{Launch, configuration_text};
use crate::server_spec::ServerSpec;
use crate::testbed::Testbed;
use std::collections::BTreeMap;
use std::path::Path;

impl Stage<'_> {
    /// The header of the folder.
    pub fn header(&self, lab: &Lab, skipped: Vec<Skipped>) -> Header {
        let definition = self.definition;
        Header {
            kind: Kind::Study,
            name: definition.name.clone(),
            title: definition.title.clone(),
            source: definition.source.clone(),
            question: definition.question.clone(),
            expected: definition.expected.clone(),
            claims: self.claims(lab, &skipped),
            definition: definition.text.clone(),
            servers: self.servers(lab),
            skipped,
            workloads: self.workloads.iter().map(|workload| workload.described.clone()).collect(),
            testbeds: self.testbeds.iter().map(|testbed| self.described(testbed)).collect(),
            planned: self.planned(),
            together: definition.together,
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

    /// The claims of the source, with the names by which their servers are recorded.
    fn claims(&self, lab: &Lab, skipped: &[Skipped]) -> Vec<Claim> {
        let find = |spec: &ServerSpec| {
            let is_it = |one: &&Skipped| match &one.what {
                Absent::Server { server } => *server == spec.to_string(),
                _ => false,
            };
            if let Some(absent) = skipped.iter().find(is_it) {
                return Err(format!("{spec}: {}", absent.reason.trim_end_matches('.')));
            }
            let name = spec.name().unwrap_or_default();
            let known = lab.descriptions.iter().find(|known| known.name == name);
            let description = known.ok_or_else(|| format!("{spec} takes no part"))?;
            Ok((description.name.clone(), spec.setting(description)?.name))
        };
        self.definition.claims.iter().map(|claim| claim.record(&find)).collect()
    }

    /// The machine, and the versions of all servers that take part.
    pub fn environment(&self) -> Environment {
        let versions = self.participants.iter().map(|Participant { installed, .. }| {
            (installed.description.name.clone(), installed.version.clone())
        });
        Environment::record(versions.collect())
    }

    fn planned(&self) -> Vec<Planned> {
        let point = |cell| self.point(cell, Offered::default());
        self.cells().into_iter().map(|cell| point(cell).into()).collect()
    }

    /// The servers that take part, with the configuration of each setting in each testbed in which
    /// it differs.
    fn servers(&self, lab: &Lab) -> Vec<Server> {
        let mut servers: Vec<Server> = Vec::new();
        // All engines are of one program, which is read once.
        let mut programs: BTreeMap<&Path, Program> = BTreeMap::new();
        for participant in &self.participants {
            let description = &participant.installed.description;
            let index = servers.iter().position(|server| server.name == description.name);
            let index = index.unwrap_or_else(|| {
                servers.push(Server {
                    name: description.name.clone(),
                    description: description.description.clone(),
                    version: participant.installed.version.clone(),
                    program: description.program.as_deref().map_or_else(Program::default, |path| {
                        programs.entry(path).or_insert_with(|| Program::read(path)).clone()
                    }),
                    ..Server::default()
                });
                servers.len() - 1
            });
            servers[index].configurations.extend(self.configurations(lab, participant));
        }
        servers
    }

    /// The configuration of a setting, with the testbed in its name where it differs from the one
    /// before.
    fn configurations(&self, lab: &Lab, participant: &Participant) -> Vec<(String, String)> {
        let Participant { installed, setting } = participant;
        let mut configurations: Vec<(String, String)> = Vec::new();
        for testbed in &self.testbeds {
            let copies = testbed.replicas.unwrap_or(1).max(1);
            let launch = Launch {
                workers: testbed.server_cpus(&self.machine) / copies,
                affinity: testbed.affinity,
                ..lab.launch(&self.workloads[0])
            };
            let text = configuration_text(installed, setting, &launch);
            if configurations.last().is_some_and(|(_, last)| *last == text) {
                continue;
            }
            let name = match configurations.is_empty() {
                true => setting.name.clone(),
                false => format!("{} ({})", setting.name, testbed.name),
            };
            configurations.push((name, text));
        }
        configurations
    }

    fn described(&self, testbed: &Testbed) -> Described {
        let cpus = testbed.server_cpus(&self.machine) as f64;
        let mut numbers = BTreeMap::from([("cpus".into(), cpus)]);
        numbers.extend(testbed.client_cpus.map(|cpus| ("client_cpus".into(), cpus as f64)));
        Described { name: testbed.name.clone(), about: testbed.about(), numbers }
    }
}
