//! Which servers take part in a study, each time it is begun or resumed: a server that was absent
//! at first may have been installed since, and the other way round.

use super::{Absent, Claim, Described, Header, Planned, Server, Skipped};
use crate::server_spec::ServerSpec;
use serde::{Deserialize, Serialize};

/// The part of a [`Header`] that can differ when a study is resumed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Participants {
    /// The servers, as in [`Header`]; so are the other fields.
    pub servers: Vec<Server>,
    /// Servers and testbeds that are absent now.
    pub skipped: Vec<Skipped>,
    /// Where servers run now.
    #[serde(alias = "domains")]
    pub testbeds: Vec<Described>,
    /// What is to be measured now.
    pub planned: Vec<Planned>,
    /// The claims, with the servers that they mean now.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub claims: Vec<Claim>,
}

impl Participants {
    /// The participants that a header names.
    pub fn from_header(header: &Header) -> Self {
        Self {
            servers: header.servers.clone(),
            skipped: header.skipped.clone(),
            testbeds: header.testbeds.clone(),
            planned: header.planned.clone(),
            claims: header.claims.clone(),
        }
    }

    /// Makes `header` list everything that took part at any time, and everything that does not now.
    pub(super) fn join(self, header: &mut Header) {
        let skipped = self.skipped.into_iter().map(|one| explained(header, one));
        header.skipped = skipped.collect();
        for server in self.servers {
            match header.servers.iter_mut().find(|known| known.name == server.name) {
                Some(known) => learn(known, server),
                None => header.servers.push(server),
            }
        }
        for testbed in self.testbeds {
            if header.testbeds.iter().all(|known| known.name != testbed.name) {
                header.testbeds.push(testbed);
            }
        }
        // A study is resumed only with the same claims.
        for (known, now) in header.claims.iter_mut().zip(self.claims) {
            known.learn(now);
        }
        for planned in self.planned {
            if !header.planned.contains(&planned) {
                header.planned.push(planned);
            }
        }
    }
}

/// Why it is skipped, if it took part before.
fn explained(header: &Header, mut skipped: Skipped) -> Skipped {
    if took_part(header, &skipped.what) {
        let reason = skipped.reason;
        skipped.reason =
            format!("it took part at first, but not when the study was last resumed: {reason}");
    }
    skipped
}

/// Whether it took part before.
fn took_part(header: &Header, what: &Absent) -> bool {
    match what {
        Absent::Server { server } => {
            let spec = server.parse::<ServerSpec>().ok();
            let name = spec.as_ref().and_then(ServerSpec::name);
            header.servers.iter().any(|known| Some(known.name.as_str()) == name)
        }
        Absent::Testbed { testbed } => header.testbeds.iter().any(|known| known.name == *testbed),
        Absent::ServerIn { server, testbed } => {
            let is_it = |known: &Planned| (&known.server, &known.testbed) == (server, testbed);
            header.planned.iter().any(is_it)
        }
    }
}

/// Enters what may have changed: a server may have been upgraded, or be set otherwise.
fn learn(known: &mut Server, now: Server) {
    let is_known = (&known.version, &known.program.xxh3) == (&now.version, &now.program.xxh3);
    let version = now.version_and_program();
    if !is_known && !known.later_versions.contains(&version) {
        known.later_versions.push(version);
    }
    for (setting, text) in now.configurations {
        if known.configurations.values().any(|known| *known == text) {
            continue;
        }
        let is_new = !known.configurations.contains_key(&setting);
        let key = if is_new { setting } else { format!("{setting} (when resumed)") };
        known.configurations.insert(key, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, version: &str, text: &str) -> Server {
        Server {
            name: name.into(),
            version: version.into(),
            configurations: [("default".to_owned(), text.to_owned())].into(),
            ..Server::default()
        }
    }

    fn skipped(what: Absent) -> Skipped {
        Skipped { what, reason: "not there".into(), command: String::new() }
    }

    fn no_server(server: &str) -> Skipped {
        skipped(Absent::Server { server: server.into() })
    }

    fn no_testbed(testbed: &str) -> Skipped {
        skipped(Absent::Testbed { testbed: testbed.into() })
    }

    fn not_in(testbed: &str, server: &str) -> Skipped {
        skipped(Absent::ServerIn { server: server.into(), testbed: testbed.into() })
    }

    fn planned(server: &str, testbed: &str) -> Planned {
        Planned { server: server.into(), testbed: testbed.into(), ..Planned::default() }
    }

    fn testbed(name: &str) -> Described {
        Described { name: name.into(), ..Described::default() }
    }

    fn header() -> Header {
        Header {
            servers: vec![server("nginx", "1.22", "a"), server("caddy", "2", "c")],
            skipped: vec![no_server("h2o/fast"), no_server("yaws"), no_testbed("big")],
            testbeds: vec![testbed("small"), testbed("net")],
            planned: vec![planned("nginx", "small")],
            ..Header::default()
        }
    }

    fn reasons(header: &Header) -> Vec<(String, bool)> {
        let at_first = |one: &Skipped| one.reason.starts_with("it took part at first, but not ");
        header.skipped.iter().map(|one| (one.what.to_string(), at_first(one))).collect()
    }

    #[test]
    fn the_same_participants_change_nothing() {
        let mut joined = header();
        Participants::from_header(&header()).join(&mut joined);
        assert_eq!(joined, header());
    }

    #[test]
    fn what_was_installed_since_takes_part_and_what_is_gone_is_said() {
        let now = Participants {
            servers: vec![server("h2o", "2.2", "h"), server("nginx", "1.24", "b")],
            skipped: vec![
                no_server("yaws"),
                no_server("caddy/x"),
                no_testbed("net"),
                not_in("big", "h2o"),
                not_in("small", "nginx"),
            ],
            testbeds: vec![testbed("small"), testbed("big")],
            planned: vec![planned("h2o", "small")],
            ..Participants::default()
        };
        let mut joined = header();
        now.clone().join(&mut joined);
        let gone = [
            ("yaws", false),
            ("caddy/x", true),
            ("testbed net", true),
            ("h2o in testbed big", false),
            ("nginx in testbed small", true),
        ];
        assert_eq!(reasons(&joined), gone.map(|(what, at_first)| (what.to_owned(), at_first)));
        let versions: Vec<String> = joined.servers.iter().map(Server::versions).collect();
        assert_eq!(versions, ["1.22, then 1.24", "2", "2.2"]);
        let texts: Vec<_> = joined.servers[0].configurations.iter().collect();
        let key = |key: &str| key.to_owned();
        assert_eq!(
            texts,
            [(&key("default"), &key("a")), (&key("default (when resumed)"), &key("b"))]
        );
        let testbeds: Vec<&str> = joined.testbeds.iter().map(|one| &*one.name).collect();
        assert_eq!(testbeds, ["small", "net", "big"]);
        assert_eq!(joined.planned.len(), 2);
        let once = joined.clone();
        now.join(&mut joined);
        assert_eq!(
            (joined.servers, joined.planned),
            (once.servers, once.planned),
            "as it is known"
        );
    }
}
