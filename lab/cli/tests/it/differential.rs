//! The conformance cases against the web servers of Debian and Ropewalk side by side: where
//! Ropewalk alone differs, `explanations.toml` of the testkit explains why that is right.
//!
//! The configurations in `servers/` beside this file are made for completeness, not for speed.

use std::path::Path;
use std::thread;

use lab::{Launch, RunningServer, ServerDescription, SourceTree, Values};
use testkit::case::Case;
use testkit::differential::{Explanations, Participant, Row, compare, explanations, verify};
use testkit::{Client, DocumentRoot, Suite, Temporary};

use crate::machine::{in_ci, skip};
use crate::server_process::served;

/// The servers, each with the version (or its beginning) that the explanations were written for:
/// the behaviour of other servers in corner cases changes, and then the explanations must be
/// reviewed.
const OTHERS: [(&str, &str); 4] = [
    (include_str!("servers/nginx.toml"), "1.22."),
    (include_str!("servers/apache.toml"), "2.4."),
    (include_str!("servers/lighttpd.toml"), "1.4."),
    (include_str!("servers/h2o.toml"), "2.2."),
];

/// The fewest servers for a verdict: with fewer, Ropewalk would stand alone wherever two servers
/// differ.
const OTHERS_MIN: usize = 3;

/// Most of the time is spent waiting for servers that do not answer.
const THREADS: usize = 8;

#[test]
fn lone_stands_are_explained() {
    let root = DocumentRoot::temporary().unwrap();
    let scratch = Temporary::new();
    let installed = OtherServers::start(&root.site(), scratch.path());
    if installed.servers.len() < OTHERS_MIN {
        return skip(
            "the comparison with other servers",
            "there are fewer than three of nginx, apache2, lighttpd, h2o: apt-get install \
             --no-install-recommends nginx-light apache2-bin lighttpd h2o",
        );
    }
    let ropewalk = served(&root.site(), &[]);
    let own = ("ropewalk".to_owned(), ropewalk.address());
    let others = installed.servers.iter().map(|(name, server)| (name.clone(), server.address()));
    let participants: Vec<Participant> = std::iter::once(own)
        .chain(others)
        .map(|(name, address)| Participant { name, client: Client::new(address) })
        .collect();
    let suite = Suite::load().unwrap();
    // Debian's servers drop root's rights and Ropewalk keeps them, so permissions are not compared.
    let profile = &suite.profiles["default"];
    let cases: Vec<&Case> = suite.cases_for(profile).filter(|case| !case.unprivileged).collect();
    let explanations = explanations().unwrap();
    // h2o opens a FIFO and blocks all its connections while it waits, so such cases come last.
    let (last, first): (Vec<_>, Vec<_>) = cases.into_iter().partition(|case| is_trap(case));
    let mut rows = compare_all(&participants, &first);
    repeat_unexpected(&mut rows, &participants, &first, &explanations);
    rows.extend(compare_all(&participants, &last));
    judge(&rows, &explanations, installed.have_known_versions());
}

/// The servers that are installed.
struct OtherServers {
    servers: Vec<(String, RunningServer)>,
    /// The number of servers with the version that the explanations were written for.
    known: usize,
}

impl OtherServers {
    fn start(root: &Path, scratch: &Path) -> Self {
        let mut others = Self { servers: Vec::new(), known: 0 };
        for (text, version) in OTHERS {
            let mut description = ServerDescription::parse(text).unwrap();
            description.ready.within_ms *= 5; // other tests use the CPUs
            let launch = launch(root, scratch);
            let Ok(installed) = description.install(&launch.source_tree) else {
                skip(
                    &description.name,
                    &format!(
                        "{} is not there: apt-get install {}",
                        description.name, description.package
                    ),
                );
                continue;
            };
            others.known += usize::from(installed.version.starts_with(version));
            let server = RunningServer::start(&installed, &description.settings[0], &launch);
            let server = server.unwrap_or_else(|why| panic!("{}: {why}", description.name));
            others.servers.push((format!("{} {}", description.name, installed.version), server));
        }
        others
    }

    fn have_known_versions(&self) -> bool {
        self.known == OTHERS.len()
    }
}

fn launch(root: &Path, scratch: &Path) -> Launch {
    Launch {
        source_tree: SourceTree::find(false),
        root: root.to_owned(),
        scratch: scratch.to_owned(),
        workers: 1,
        cpus: vec![os::affinity::allowed_cpus()[0]],
        memory_bytes_max: None,
        ready_path: "/probe.txt".into(),
        workload: Values::new(),
        place: lab::testbed::Place::default(),
        affinity: lab::testbed::Affinity::default(),
    }
}

fn is_trap(case: &Case) -> bool {
    case.request.contains("/fifo")
}

fn compare_all(participants: &[Participant], cases: &[&Case]) -> Vec<Row> {
    thread::scope(|scope| {
        let chunks = cases.chunks(cases.len().div_ceil(THREADS));
        let threads: Vec<_> =
            chunks.map(|chunk| scope.spawn(|| compare(participants, chunk, "localhost"))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Missing answers depend on time: cases with unexpected results on a busy machine are run once
/// more, one at a time.
fn repeat_unexpected(
    rows: &mut [Row],
    participants: &[Participant],
    cases: &[&Case],
    explanations: &Explanations,
) {
    for (row, case) in rows.iter_mut().zip(cases) {
        if row.stands_alone() != explanations.contains_key(&row.case) {
            *row = compare(participants, &[*case], "localhost").remove(0);
        }
    }
}

/// With servers other than the known ones the findings are only printed, not asserted.
fn judge(rows: &[Row], explanations: &Explanations, known: bool) {
    let alone = rows.iter().filter(|row| row.stands_alone()).count();
    println!("of {} cases Ropewalk stands alone in {alone}", rows.len());
    let Err(problems) = verify(rows, explanations) else { return };
    let text = format!("{} problems\n{}", problems.len(), problems.join("\n"));
    assert!(!known && !in_ci(), "{text}");
    skip(&format!("the verdict on lone stands ({text})"), "they are not the versions of Debian 12");
}
