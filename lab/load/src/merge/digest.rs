//! A digest of the inputs of a run that its setting does not spell out, by which a merge recognises
//! generators of one run. It detects mistakes, not forgeries.

use workload::request_log::Template;

use crate::plan::{Expected, ExpectedBody, Model, Plan, Process};

/// Sixteen hexadecimal digits, equal for equal runs on all machines. The digest covers the requests
/// and their times, the fields they carry, the expected replies, and the ends of sessions. It
/// leaves out paths and addresses, because they may differ between hosts.
pub(crate) fn plan_digest(plan: &Plan) -> String {
    let mut digest = Digest::default();
    add_log(&mut digest, plan);
    for target in &plan.targets {
        digest.text(&target.fields);
    }
    let speed = match plan.model {
        Model::Open(Process::Trace(speed)) => Some(speed.to_bits()),
        _ => None,
    };
    digest.option(speed);
    digest.number(u64::from(plan.model.is_endless()));
    digest.option(plan.sessions_max);
    digest.number(plan.warm_up_us);
    format!("{:016x}", digest.value)
}

fn add_log(digest: &mut Digest, plan: &Plan) {
    let log = &plan.log;
    // The numbers of templates may differ between hosts, so the templates themselves are hashed.
    let pairs = log.templates().iter().zip(&*plan.expected);
    let templates: Vec<u64> =
        pairs.map(|(asked, expected)| template_digest(asked, expected)).collect();
    digest.number(log.sessions() as u64);
    for index in 0..log.sessions() {
        digest.option(log.start_us(index));
        let requests = log.session(index);
        digest.number(requests.len() as u64);
        for request in requests {
            digest.number(templates[request.template()]);
            digest.number(u64::from(request.joins()));
            digest.number(request.pause_us());
        }
    }
}

fn template_digest(template: &Template, expected: &Expected) -> u64 {
    let mut digest = Digest::default();
    digest.text(template.method.as_bytes());
    digest.text(&template.uri);
    digest.text(&template.body);
    digest.option(template.reply_bytes);
    digest.option(expected.bytes);
    digest.number(u64::from(!matches!(expected.body, ExpectedBody::Unknown)));
    digest.value
}

/// FNV-1a of 64 bits, over bytes, because the standard library's hashers may change.
struct Digest {
    value: u64,
}

impl Default for Digest {
    fn default() -> Self {
        Self { value: 0xcbf2_9ce4_8422_2325 }
    }
}

impl Digest {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.value = (self.value ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    fn number(&mut self, number: u64) {
        self.bytes(&number.to_le_bytes());
    }

    /// Adds a text with its length, so that the bytes that follow cannot pass for a part of it.
    fn text(&mut self, text: &[u8]) {
        self.number(text.len() as u64);
        self.bytes(text);
    }

    fn option(&mut self, number: Option<u64>) {
        self.number(u64::from(number.is_some()));
        self.number(number.unwrap_or(0));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;
    use crate::options::Options;

    const LOG: &str = "/a think=0.5\n/b\n\n/a\n";

    fn options(log: &Path) -> Options {
        Options {
            urls: vec!["http://127.0.0.1:81".into()],
            log: Some(log.to_owned()),
            rate: Some("5".into()),
            ..Options::default()
        }
    }

    fn digest(options: &Options) -> String {
        options.resolve().unwrap().1.digest
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        let mut digest = Digest::default();
        digest.bytes(b"foobar");
        assert_eq!(digest.value, 0x8594_4171_f739_67e8, "as its authors publish it");
    }

    #[test]
    fn copies_of_a_log_agree_and_other_logs_do_not() {
        let folder = testkit::Temporary::new();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            digest(&options(&path))
        };
        let one = write("one.log", LOG);
        assert_eq!((one.len(), &one), (16, &write("copy.log", LOG)));
        for other in [
            "/a think=0.5\n/c\n\n/a\n",
            "/b think=0.5\n/a\n\n/a\n",
            "/a think=0.6\n/b\n\n/a\n",
            "/a think=0.5\n    /b\n\n/a\n",
            "/a think=0.5\n\n/b\n\n/a\n",
            "/a think=0.5\n/b\n\n/a method=HEAD\n",
            "/a think=0.5\n/b\n\n/a size=12\n",
        ] {
            assert_ne!(write("other.log", other), one, "{other:?}");
        }
    }

    #[test]
    fn other_inputs_in_which_generators_must_agree() {
        let folder = testkit::Temporary::new();
        let log = folder.path().join("one.log");
        fs::write(&log, LOG).unwrap();
        fs::write(folder.path().join("a"), "copy").unwrap();
        fs::write(folder.path().join("b"), "copy").unwrap();
        let one = digest(&options(&log));
        let check = |change: &dyn Fn(&mut Options)| {
            let mut other = options(&log);
            change(&mut other);
            digest(&other) == one
        };
        assert!(!check(&|other| other.default_think = Some("1s".into())));
        assert!(!check(&|other| other.think_max = Some("0s".into())));
        assert!(!check(&|other| other.sessions = Some(77)));
        assert!(!check(&|other| other.warm_up = Some("1s".into())));
        assert!(!check(&|other| other.hosts = vec!["a.example".into()]));
        assert!(!check(&|other| other.headers = vec!["Accept: */*".into()]));
        assert!(!check(&|other| other.files = Some(folder.path().to_owned())));
        assert!(check(&|other| other.sources = vec!["127.0.0.1".into()]), "each host has its own");
        assert!(check(&|other| other.threads = Some(2)));
        assert!(check(&|other| other.share = Some("2/3".into())));
    }

    #[test]
    fn a_trace_at_another_speed_is_another_run() {
        let options = Options { urls: vec!["http://127.0.0.1:81/a".into()], ..Options::default() };
        let (plan, _) = options.resolve().unwrap();
        let at = |speed| {
            plan_digest(&Plan { model: Model::Open(Process::Trace(speed)), ..plan.clone() })
        };
        assert_ne!(at(1.0), at(2.0));
        assert_eq!(at(2.0), at(2.0));
    }
}
