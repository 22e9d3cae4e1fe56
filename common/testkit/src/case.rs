//! Conformance cases: what they consist of, and how they are read from the TOML files in `cases/`.
//!
//! A case is bytes in and expectations out. How the bytes travel is left open: whole, split
//! anywhere, over a socket or in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::template;

/// One request, or several pipelined ones, and the responses that must come back.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Case {
    /// Unique among all cases.
    pub name: String,
    /// The file the case is in: `range`, `host`.
    #[serde(skip)]
    pub group: String,
    /// The section that the case is about: `9112 §3.2`, or `policy: why` for what the server itself
    /// decides.
    pub rfc: String,
    /// The profile that the server must be started with.
    #[serde(default = "default_profile")]
    pub settings: String,
    /// The bytes to send, with the placeholders of [`template`].
    pub request: String,
    /// The responses, in order, interim ones included.
    #[serde(default)]
    pub expect: Vec<Expected>,
    /// Whether the server ends the connection after the last response.
    #[serde(default)]
    pub closes: Closes,
    /// Whether the client shuts its sending side after the request.
    #[serde(default)]
    pub half_close: bool,
    /// Whether a reset is as good as an end, because the client still sends after its last request.
    #[serde(default)]
    pub reset: bool,
    /// Whether the case needs a server that file permissions apply to, which they do not to root.
    #[serde(default)]
    pub unprivileged: bool,
}

/// One response as it should be. What is not specified here is not checked, except for the
/// invariants of every response.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expected {
    /// The status code.
    pub status: u16,
    /// The rules for fields, by name.
    #[serde(default)]
    pub headers: BTreeMap<String, FieldRule>,
    /// The rule for the content.
    #[serde(default)]
    pub body: Option<BodyRule>,
}

/// What a field must be: the exact value, or a set of rules that must all hold.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum FieldRule {
    /// The exact value.
    Exact(String),
    /// Rules that leave some freedom.
    Rules(FieldRules),
}

/// Rules for one field.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FieldRules {
    /// There is no such field.
    pub absent: bool,
    /// There is one, whatever its value.
    pub present: bool,
    /// A part of the value.
    pub contains: Option<String>,
    /// The beginning of the value.
    pub starts: Option<String>,
    /// Anything but this value; absence will do.
    pub not: Option<String>,
    /// The value of this other field.
    pub same_as: Option<String>,
    /// A member of the comma-separated list, in any case.
    pub lists: Option<String>,
    /// All members of the list, in any order.
    pub set: Option<Vec<String>>,
}

/// What a body must be.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum BodyRule {
    /// Exactly this text.
    Exact(String),
    /// Rules that must all hold.
    Rules(BodyRules),
}

/// Rules for a body.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BodyRules {
    /// The bytes of this file of the document root, or those from `offset` of length `len`.
    pub file: Option<String>,
    /// With `file`: the first byte's offset.
    pub offset: usize,
    /// With `file`: how many of its bytes; alone: the length.
    pub len: Option<usize>,
    /// With `file`: the body is multipart/byteranges of these `[first, last]`, in this order.
    pub parts: Option<Vec<(u64, u64)>>,
    /// No bytes.
    pub empty: bool,
    /// Texts that occur.
    pub contains: Vec<String>,
    /// Texts that do not.
    pub lacks: Vec<String>,
}

/// Whether the connection ends after the last response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(from = "ClosesText")]
pub enum Closes {
    /// The connection stays open, and the next request on it is answered.
    #[default]
    No,
    /// The connection ends, and the last response said `Connection: close`.
    Announced,
    /// The connection ends, whether or not a response announced it: the client knows, or it was too
    /// late to say so.
    Unannounced,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ClosesText {
    Plain(bool),
    Word(Unannounced),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Unannounced {
    Unannounced,
}

impl From<ClosesText> for Closes {
    fn from(text: ClosesText) -> Self {
        match text {
            ClosesText::Plain(false) => Self::No,
            ClosesText::Plain(true) => Self::Announced,
            ClosesText::Word(Unannounced::Unannounced) => Self::Unannounced,
        }
    }
}

/// A way to configure the server.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// The name by which cases refer to the profile.
    #[serde(skip)]
    pub name: String,
    /// The configuration, with `DIR` for the document root.
    config: String,
    /// The host name in the probe after each case.
    #[serde(default = "default_host")]
    pub host: String,
    /// Another profile whose cases must have the same answers under this one.
    #[serde(default)]
    pub answers_like: Option<String>,
}

impl Profile {
    /// The text of the configuration file of a server for `site`.
    ///
    /// # Panics
    /// If the path is not UTF-8 or has a quote or a backslash, which TOML would need escaped.
    pub fn configuration(&self, site: &Path) -> String {
        let site = site.to_str().expect("test directories have plain names");
        assert!(!site.contains(['"', '\\']), "test directories have plain names: {site}");
        self.config.replace("DIR", site)
    }
}

fn default_profile() -> String {
    "default".into()
}

fn default_host() -> String {
    "localhost".into()
}

/// All cases and the profiles they need.
#[derive(Clone, Debug)]
pub struct Suite {
    /// In the order of the files.
    pub cases: Vec<Case>,
    /// By name.
    pub profiles: BTreeMap<String, Profile>,
}

macro_rules! case_files {
    ($($group:literal),* $(,)?) => {
        const FILES: &[(&str, &str)] =
            &[$(($group, include_str!(concat!("../cases/", $group, ".toml")))),*];
    };
}

case_files![
    "request_line",
    "host",
    "fields",
    "framing",
    "methods",
    "keep_alive",
    "pipelining",
    "expectation",
    "conditional",
    "range",
    "multipart",
    "negotiation",
    "paths",
    "directories",
    "dotfiles_symlinks",
    "special_files",
    "spa",
    "error_pages",
    "not_found_page",
    "header_rules",
    "listing",
    "mime",
    "caching_headers",
    "redirects",
    "virtual_hosts",
    "limits",
    "bodies",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct CaseFile {
    case: Vec<Case>,
}

impl Suite {
    /// The built-in cases. A process reads them only once, however many tests use them.
    ///
    /// # Errors
    /// What is wrong with them; a bug, which this crate's own tests would have found.
    pub fn load() -> Result<&'static Self, String> {
        static BUILT_IN: OnceLock<Result<Suite, String>> = OnceLock::new();
        let parse = || Self::parse(include_str!("../cases/profiles.toml"), FILES);
        BUILT_IN.get_or_init(parse).as_ref().map_err(Clone::clone)
    }

    /// Reads profiles and cases from TOML; each file is a group's name and its text.
    ///
    /// # Errors
    /// What is wrong, with the name of the case.
    pub fn parse(profiles: &str, files: &[(&str, &str)]) -> Result<Self, String> {
        let mut profiles: BTreeMap<String, Profile> =
            toml::from_str(profiles).map_err(|error| format!("profiles: {error}"))?;
        for (name, profile) in &mut profiles {
            profile.name.clone_from(name);
        }
        let mut cases = Vec::new();
        for (group, text) in files {
            let file: CaseFile = toml::from_str(text).map_err(|e| format!("{group}: {e}"))?;
            cases.extend(file.case.into_iter().map(|case| Case { group: (*group).into(), ..case }));
        }
        let suite = Self { cases, profiles };
        suite.validate()?;
        Ok(suite)
    }

    /// The cases to run against a server of this profile.
    pub fn cases_for<'s>(&'s self, profile: &'s Profile) -> impl Iterator<Item = &'s Case> {
        let like = profile.answers_like.as_deref();
        self.cases
            .iter()
            .filter(move |case| case.settings == profile.name || like == Some(&case.settings))
    }

    fn validate(&self) -> Result<(), String> {
        let mut names = BTreeSet::new();
        for case in &self.cases {
            if !names.insert(&case.name) {
                return Err(format!("two cases are called {}", case.name));
            }
            self.validate_case(case).map_err(|reason| format!("case {}: {reason}", case.name))?;
        }
        let unknown = self.profiles.values().find_map(|profile| {
            profile.answers_like.as_ref().filter(|like| !self.profiles.contains_key(*like))
        });
        unknown.map_or(Ok(()), |like| Err(format!("no profile is called {like}")))
    }

    fn validate_case(&self, case: &Case) -> Result<(), String> {
        validate_rfc(&case.rfc)?;
        if !self.profiles.contains_key(&case.settings) {
            return Err(format!("no profile is called {}", case.settings));
        }
        if case.expect.is_empty() && case.closes == Closes::No {
            return Err("expects nothing at all".into());
        }
        template::validate(&case.request)?;
        for expected in &case.expect {
            validate_expected(expected)?;
        }
        Ok(())
    }
}

/// `9112 §3.2`, `9110 §15.4.5, 9111 §4.3.4`, or `policy: words`.
fn validate_rfc(rfc: &str) -> Result<(), String> {
    let is_section = |part: &str| {
        part.trim().split_once(" §").is_some_and(|(number, section)| {
            number.len() == 4
                && number.bytes().all(|byte| byte.is_ascii_digit())
                && section.starts_with(|first: char| first.is_ascii_alphanumeric())
        })
    };
    let is_policy = rfc.strip_prefix("policy: ").is_some_and(|why| !why.is_empty());
    let fits = is_policy || rfc.split(',').all(is_section);
    fits.then_some(()).ok_or_else(|| format!("rfc = {rfc:?} names no section and no policy"))
}

fn validate_expected(expected: &Expected) -> Result<(), String> {
    for (name, rule) in &expected.headers {
        if let FieldRule::Exact(value) = rule {
            template::validate(value)?;
        }
        if matches!(rule, FieldRule::Rules(rules) if rules.is_empty()) {
            return Err(format!("demands nothing of {name}"));
        }
    }
    let Some(BodyRule::Rules(rules)) = &expected.body else { return Ok(()) };
    match &rules.file {
        Some(file) if crate::document_root::contents(file).is_none() => {
            Err(format!("the document root has no {file}"))
        }
        None if rules.offset != 0 || rules.parts.is_some() => Err("a range of no file".into()),
        _ => Ok(()),
    }
}

impl FieldRules {
    fn is_empty(&self) -> bool {
        let texts = [&self.contains, &self.starts, &self.not, &self.same_as, &self.lists];
        !self.absent && !self.present && self.set.is_none() && texts.iter().all(|t| t.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROFILES: &str = "[default]\nconfig = ''";

    fn parse(case: &str) -> Result<Suite, String> {
        Suite::parse(PROFILES, &[("group", &format!("[[case]]\n{case}"))])
    }

    #[test]
    fn a_minimal_case() {
        let text = "name='a'\nrfc='9112 §3'\nrequest='x'\nexpect=[{status=400}]\ncloses=true";
        let suite = parse(text).expect("it is right");
        let case = &suite.cases[0];
        assert_eq!((case.settings.as_str(), case.group.as_str()), ("default", "group"));
        assert_eq!(case.closes, Closes::Announced);
    }

    #[test]
    fn bad_cases_are_refused() {
        let check = |case: &str, reason: &str| {
            let message = parse(case).expect_err(case);
            assert!(message.contains(reason), "{case}: {message}");
        };
        let good = "name='a'\nrfc='9112 §3'\nrequest='x'\n";
        check(good, "expects nothing");
        check(&format!("{good}expct=[]"), "expct");
        check(&format!("{good}settings='s'\nexpect=[{{status=200}}]"), "no profile is called s");
        check("name='a'\nrfc='somewhere'\nrequest='x'\nexpect=[{status=200}]", "no section");
        check("name='a'\nrfc='policy: '\nrequest='x'\nexpect=[{status=200}]", "no section");
        check("name='a'\nrfc='9112 §3'\nrequest='${x'\nexpect=[{status=200}]", "${x");
        check(&format!("{good}expect=[{{status=200,body={{file='no'}}}}]"), "has no no");
        check(&format!("{good}expect=[{{status=200,headers={{A={{}}}}}}]"), "nothing of A");
        let case = format!("{good}expect=[{{status=200}}]");
        check(&format!("{case}\n[[case]]\n{case}"), "two cases are called a");
    }

    #[test]
    fn configuration_names_the_root() {
        let suite = Suite::load().expect("the built-in cases are right");
        for profile in suite.profiles.values() {
            let text = profile.configuration(Path::new("/srv/site"));
            assert!(text.contains("root = \"/srv/site"), "{text}");
            assert!(text.parse::<toml::Table>().is_ok(), "{}", profile.name);
            assert!(suite.cases_for(profile).next().is_some(), "{} is not used", profile.name);
        }
    }

    #[test]
    fn there_are_enough_cases_of_every_group() {
        let suite = Suite::load().expect("the built-in cases are right");
        assert!(suite.cases.len() >= 320, "{}", suite.cases.len());
        for (group, _) in FILES {
            assert!(suite.cases.iter().any(|case| case.group == *group), "{group}");
        }
    }
}
