//! What the source of an experiment found, as data: servers, with which others they are compared,
//! and how many times as much they serve or need. Which servers are meant is found here. What was
//! measured judges it in the report.

use std::cmp::Ordering;

use command::near::hint_and_names;
use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml_reader::{Mistake, Step};

use super::definition::Definition;
use super::sizes::Origin;
use crate::error::Error;
use crate::record::{self, ClaimMeasure, ClaimSide};
use crate::server_spec::ServerSpec;

/// A finding of the source.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// The finding in words.
    pub text: String,
    /// The servers of which it is.
    pub servers: Vec<Side>,
    /// The servers with which each of them is compared; none if it is with itself in another
    /// testbed.
    pub than: Vec<Side>,
    /// The workloads for which it is.
    pub workloads: Vec<String>,
    /// The testbeds for which it is.
    pub testbeds: Vec<String>,
    /// The testbed with which these are compared.
    pub than_testbed: Option<String>,
    /// What is compared.
    pub measure: ClaimMeasure,
    /// The least ratio.
    pub at_least: Option<f64>,
    /// The largest ratio.
    pub at_most: Option<f64>,
    /// What it names that has no part in this size.
    pub left_out: Vec<String>,
}

/// One or several of the servers of an experiment under one name; of several the best counts.
#[derive(Clone, Debug, PartialEq)]
pub struct Side {
    /// The name, as it was typed.
    pub name: String,
    /// The servers that it means.
    pub servers: Vec<ServerSpec>,
}

/// A claim as it is typed.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    text: String,
    #[serde(default)]
    servers: Vec<String>,
    #[serde(default)]
    than: Vec<String>,
    #[serde(default)]
    workloads: Vec<String>,
    #[serde(default)]
    testbeds: Vec<String>,
    than_testbed: Option<String>,
    #[serde(default)]
    measure: String,
    at_least: Option<f64>,
    at_most: Option<f64>,
    #[serde(default)]
    left_out: Vec<String>,
}

/// The key of a claim's number in the text, where others before it have gone ([`fit`]). It begins
/// with a blank, as no key does that is typed.
const NUMBER: &str = " number";

/// Reads the claims of an experiment.
///
/// # Errors
/// What is wrong, and with which of them, in a line.
pub(super) fn read(
    written: Option<toml::Value>,
    of: &Definition,
    origin: Origin<'_>,
) -> Result<Vec<Claim>, String> {
    let values = match written {
        None => Vec::new(),
        Some(toml::Value::Array(values)) => values,
        Some(_) => return Err("claims: is no list: begin each claim with [[claims]]".into()),
    };
    let claims = values.into_iter().zip(1..).map(|(mut value, position): (_, usize)| {
        let number = take_number(&mut value).unwrap_or(position);
        let written = toml_reader::read_value(value).map_err(|mistake| {
            let mistake = mistake.below(Step::Item(number - 1)).below(Step::Key("claims".into()));
            format!("{}claim number {number}: {mistake}", origin.line_prefix(&mistake))
        });
        claim(written?, of).map_err(|why| format!("claim number {number}: {why}"))
    });
    claims.collect()
}

/// Takes the number that a claim had before others went ([`fit`]).
fn take_number(claim: &mut toml::Value) -> Option<usize> {
    let number = claim.as_table_mut()?.remove(NUMBER)?;
    usize::try_from(number.as_integer()?).ok().filter(|&number| number > 0)
}

fn claim(written: Written, of: &Definition) -> Result<Claim, String> {
    if written.text.trim().is_empty() {
        return Err("text: say what was found".into());
    }
    let measure = measure(&written.measure, of)?;
    let workloads: Vec<&str> = of.workloads.iter().map(|one| one.name.as_str()).collect();
    let testbeds: Vec<&str> = of.testbeds.iter().map(|one| one.name.as_str()).collect();
    known("workloads", &written.workloads, &workloads)?;
    known("testbeds", &written.testbeds, &testbeds)?;
    known("than_testbed", written.than_testbed.as_slice(), &testbeds)?;
    is_elsewhere(&written, &testbeds)?;
    let (servers, than) = sides(&written, of)?;
    let (at_least, at_most) = bounds(&written, measure)?;
    Ok(Claim {
        text: written.text,
        servers,
        than,
        workloads: written.workloads,
        testbeds: written.testbeds,
        than_testbed: written.than_testbed,
        measure,
        at_least,
        at_most,
        left_out: written.left_out,
    })
}

/// Checks that what is compared with `than_testbed` is in other testbeds.
fn is_elsewhere(written: &Written, testbeds: &[&str]) -> Result<(), String> {
    let Some(than) = &written.than_testbed else { return Ok(()) };
    if written.testbeds.contains(than) {
        return Err(format!(
            "testbeds: {than:?} is what `than_testbed` compares with: leave it out"
        ));
    }
    match testbeds.iter().any(|testbed| testbed != than) {
        true => Ok(()),
        false => Err("than_testbed: there is no other testbed to compare with it".into()),
    }
}

fn measure(typed: &str, of: &Definition) -> Result<ClaimMeasure, String> {
    let measure = match typed {
        "" => ClaimMeasure::default(),
        typed => {
            let typed: serde::de::value::StrDeserializer<'_, Mistake> = typed.into_deserializer();
            ClaimMeasure::deserialize(typed)
                .map_err(|why| why.below(Step::Key("measure".into())).to_string())?
        }
    };
    match of.together && measure != ClaimMeasure::CpuPerRequest {
        true => Err("measure: servers that are loaded together are compared by their costs: say \
                     \"cpu per request\""
            .into()),
        false => Ok(measure),
    }
}

/// The servers of a claim, and those with which they are compared.
fn sides(written: &Written, of: &Definition) -> Result<(Vec<Side>, Vec<Side>), String> {
    let named = |key: &str, names: &[String]| -> Result<Vec<Side>, String> {
        names.iter().map(|name| side(name, of).map_err(|why| format!("{key}: {why}"))).collect()
    };
    let (servers, than) = (named("servers", &written.servers)?, named("than", &written.than)?);
    let is_floor = |spec: &ServerSpec| of.floor.is_some() && spec.name() == of.floor.as_deref();
    let all = || of.servers.iter().filter(|spec| !is_floor(spec));
    let alone = |spec: &ServerSpec| Side { name: spec.to_string(), servers: vec![spec.clone()] };
    if measure(&written.measure, of)? == ClaimMeasure::Spread {
        return match than.is_empty() && written.than_testbed.is_none() {
            true if servers.is_empty() => Ok((all().map(alone).collect(), than)),
            true => Ok((servers, than)),
            false => Err("than: a spread is of each server by itself: leave it out".into()),
        };
    }
    match (&written.than_testbed, servers.is_empty(), than.is_empty()) {
        (Some(_), _, false) => {
            Err("than: with `than_testbed` each server is compared with itself: leave one of them \
                 out"
            .into())
        }
        (Some(_), true, true) => Ok((all().map(alone).collect(), than)),
        (Some(_), false, true) => Ok((servers, than)),
        (None, true, _) => Err("servers: name the servers of which it is".into()),
        (None, false, false) => differ(servers, than),
        (None, false, true) => {
            let is_named =
                |spec: &&ServerSpec| servers.iter().any(|one| one.servers.contains(spec));
            let others: Vec<Side> = all().filter(|spec| !is_named(spec)).map(alone).collect();
            match others.is_empty() {
                true => Err("than: there is no other server: name one".into()),
                false => Ok((servers, others)),
            }
        }
    }
}

/// The sides without what both have: a name that covers several settings does not stand for one
/// that the other side names by itself (`lighttpd/writev` beside `lighttpd`).
///
/// # Errors
/// Both sides name the same.
fn differ(mut servers: Vec<Side>, mut than: Vec<Side>) -> Result<(Vec<Side>, Vec<Side>), String> {
    for one in &mut servers {
        for other in &mut than {
            let both = |spec: &ServerSpec| one.servers.contains(spec);
            let found = other.servers.iter().find(|spec| both(spec)).cloned();
            let Some(spec) = found else { continue };
            match one.servers.len().cmp(&other.servers.len()) {
                Ordering::Less => other.servers.retain(|spec| !one.servers.contains(spec)),
                Ordering::Greater => one.servers.retain(|spec| !other.servers.contains(spec)),
                Ordering::Equal => {
                    return Err(format!(
                        "than: {spec} would be compared with itself: leave it out"
                    ));
                }
            }
        }
    }
    Ok((servers, than))
}

/// The servers that a name means: the one that is typed exactly so, or else all that are set as it
/// says and may be set otherwise, too.
fn side(name: &str, of: &Definition) -> Result<Side, String> {
    let spec: ServerSpec = name.parse().map_err(|why: Error| why.to_string())?;
    let exact = of.servers.iter().find(|one| **one == spec);
    let servers: Vec<ServerSpec> = match exact {
        Some(one) => vec![one.clone()],
        None => of.servers.iter().filter(|one| spec.covers(one)).cloned().collect(),
    };
    if servers.is_empty() {
        let known: Vec<String> = of.servers.iter().map(ToString::to_string).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(unknown(name, "servers", &known));
    }
    Ok(Side { name: name.to_owned(), servers })
}

fn known(key: &str, names: &[String], all: &[&str]) -> Result<(), String> {
    let what = if key == "workloads" { "workloads" } else { "testbeds" };
    match names.iter().find(|name| !all.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => Err(format!("{key}: {}", unknown(name, what, all))),
    }
}

fn unknown(name: &str, what: &str, all: &[&str]) -> String {
    let (near, all) = hint_and_names(name, all.iter().copied());
    format!("{name:?} is none of the {what}{near}: name one of {all}")
}

/// Checks the bounds of a claim's ratio, as far as they are given.
pub(crate) fn check_bounds(least: Option<f64>, most: Option<f64>) -> Result<(), String> {
    for (key, bound) in [("at_least", least), ("at_most", most)] {
        if let Some(bound) = bound.filter(|bound| !(*bound > 0.0 && bound.is_finite())) {
            return Err(format!("{key}: {bound} is no ratio: give a number above 0"));
        }
    }
    match (least, most) {
        (Some(least), Some(most)) if least >= most => {
            Err(format!("at_least: {least} is not below at_most, {most}"))
        }
        _ => Ok(()),
    }
}

/// The bounds of the ratio. Without any, to be better is claimed.
fn bounds(written: &Written, measure: ClaimMeasure) -> Result<(Option<f64>, Option<f64>), String> {
    let (least, most) = (written.at_least, written.at_most);
    check_bounds(least, most)?;
    match (least, most) {
        (Some(_), _) if measure == ClaimMeasure::Spread => {
            Err("at_least: a spread is small, not large: say at_most".into())
        }
        (None, None) if measure == ClaimMeasure::Throughput => Ok((Some(1.0), None)),
        (None, None) if measure == ClaimMeasure::Spread => Ok((None, None)),
        (None, None) => Ok((None, Some(1.0))),
        bounds => Ok(bounds),
    }
}

/// Fits the claims of an experiment to a size that replaced what they name: a name that has gone
/// is left out, which leaves the claim open, and a claim that has nothing left to compare goes. A
/// name that was never there is a mistake, and stays, to be reported as one, by the number that the
/// claim has in the file.
pub(super) fn fit(table: &mut toml::Table, before: &toml::Table) {
    let Some(toml::Value::Array(claims)) = table.get("claims") else { return };
    let mut left: Vec<toml::Value> = Vec::new();
    for (claim, number) in claims.iter().zip(1..) {
        let toml::Value::Table(claim) = claim else {
            left.push(claim.clone());
            continue;
        };
        let Some(mut claim) = fitted(claim.clone(), table, before) else { continue };
        if number > left.len() + 1 {
            claim.insert(NUMBER.into(), toml::Value::Integer(number as i64));
        }
        left.push(claim.into());
    }
    table.insert("claims".into(), left.into());
}

/// The claim as far as there is in `table` what it names, if there is anything left to compare.
fn fitted(
    mut claim: toml::Table,
    table: &toml::Table,
    before: &toml::Table,
) -> Option<toml::Table> {
    let mut left_out: Vec<toml::Value> = Vec::new();
    for (key, of) in NAMES {
        let has_gone = |name: &toml::Value| {
            name.as_str().is_some_and(|n| is_there(before, of, n) && !is_there(table, of, n))
        };
        match claim.get_mut(key) {
            Some(toml::Value::Array(names)) if !names.is_empty() => {
                left_out.extend(names.extract_if(.., |name| has_gone(name)));
                if names.is_empty() {
                    return None;
                }
            }
            Some(name) if has_gone(name) => return None,
            _ => (),
        }
    }
    if !left_out.is_empty() {
        claim.insert("left_out".into(), left_out.into());
    }
    let is_alone = has_others(&claim, before) && !has_others(&claim, table);
    (!is_alone).then_some(claim)
}

/// Whether there is something with which a claim that does not name it is compared: other servers,
/// or other testbeds.
fn has_others(claim: &toml::Table, table: &toml::Table) -> bool {
    let named = |key: &str| -> Vec<&str> {
        let names = claim.get(key).and_then(toml::Value::as_array).into_iter().flatten();
        names.filter_map(toml::Value::as_str).collect()
    };
    let all = |key: &str| table.get(key).and_then(toml::Value::as_array).into_iter().flatten();
    if let Some(than) = claim.get("than_testbed") {
        return all("testbeds").any(|testbed| testbed.get("name") != Some(than));
    }
    let own: Vec<ServerSpec> =
        named("servers").into_iter().filter_map(|name| name.parse().ok()).collect();
    let floor = table.get("floor").and_then(toml::Value::as_str);
    let is_other = |server: &toml::Value| {
        let spec = server.as_str().and_then(|text| text.parse::<ServerSpec>().ok());
        spec.is_some_and(|spec| {
            (floor.is_none() || spec.name() != floor) && !own.iter().any(|one| one.covers(&spec))
        })
    };
    !named("than").is_empty() || all("servers").any(is_other)
}

/// The keys of a claim that hold names, and the keys of the experiment that say what there is.
const NAMES: [(&str, &str); 5] = [
    ("servers", "servers"),
    ("than", "servers"),
    ("workloads", "workloads"),
    ("testbeds", "testbeds"),
    ("than_testbed", "testbeds"),
];

/// Whether an experiment has a server, a workload or a testbed of this name.
fn is_there(table: &toml::Table, key: &str, name: &str) -> bool {
    let all = table.get(key).and_then(toml::Value::as_array).into_iter().flatten();
    let spec: Option<ServerSpec> = if key == "servers" { name.parse().ok() } else { None };
    let is_it = |one: &toml::Value| match (one.as_str(), &spec) {
        (Some(text), Some(spec)) => text.parse().is_ok_and(|one: ServerSpec| spec.covers(&one)),
        (Some(text), None) => text == name,
        (None, _) => one.get("name").and_then(toml::Value::as_str) == Some(name),
    };
    all.into_iter().any(is_it)
}

impl Claim {
    /// The claim for the records. `find` has the name and the setting by which a server is
    /// recorded, or the reason why it takes no part.
    pub(super) fn record(
        &self,
        find: &impl Fn(&ServerSpec) -> Result<(String, String), String>,
    ) -> record::Claim {
        let side = |side: &Side| {
            let (mut settings, mut absent) = (Vec::new(), Vec::new());
            for spec in &side.servers {
                match find(spec) {
                    Ok(setting) => settings.push(setting),
                    Err(why) => absent.push(why),
                }
            }
            absent.dedup();
            ClaimSide { name: side.name.clone(), settings, absent: absent.join("; ") }
        };
        record::Claim {
            text: self.text.clone(),
            servers: self.servers.iter().map(side).collect(),
            than: self.than.iter().map(side).collect(),
            workloads: self.workloads.clone(),
            testbeds: self.testbeds.clone(),
            than_testbed: self.than_testbed.clone().unwrap_or_default(),
            measure: self.measure,
            at_least: self.at_least,
            at_most: self.at_most,
            left_out: self.left_out.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
title = "t"
servers = ["floor", "nginx", "nginx/buffers", "ropewalk:staged,engine.knobs.write_threads=16", "h2o"]
floor = "floor"
repetitions = 3
window = "500ms"
offered = { mat = true }
workloads = ["zipf"]
testbeds = [{ name = "one", cpus = 1 }, { name = "two", cpus = 2 }]
"#;

    fn parse(claim: &str) -> Result<Claim, String> {
        let definition = Definition::parse("x", &format!("{TEXT}\n[[claims]]\n{claim}"), None)?;
        Ok(definition.claims[0].clone())
    }

    fn names(sides: &[Side]) -> Vec<String> {
        let of =
            |side: &Side| -> Vec<String> { side.servers.iter().map(ToString::to_string).collect() };
        sides.iter().map(|side| of(side).join(" or ")).collect()
    }

    #[test]
    fn a_claim_names_servers_by_what_it_says_of_them() {
        let check = |claim: &str, servers: &[&str], than: &[&str]| {
            let found = parse(&format!("text = 't'\n{claim}")).expect(claim);
            assert_eq!((names(&found.servers), names(&found.than)).0, servers, "{claim}");
            assert_eq!(names(&found.than), than, "{claim}");
        };
        let staged = "ropewalk:staged,engine.knobs.write_threads=16";
        let of_staged = "servers = ['ropewalk:staged']";
        check(&format!("{of_staged}\nthan = ['h2o']"), &[staged], &["h2o"]);
        check(of_staged, &[staged], &["nginx", "nginx/buffers", "h2o"]);
        check("servers = ['nginx']\nthan = ['h2o']", &["nginx"], &["h2o"]);
        check("servers = ['nginx/buffers']", &["nginx/buffers"], &["nginx", staged, "h2o"]);
        let all = ["nginx", "nginx/buffers", staged, "h2o"];
        check("testbeds = ['two']\nthan_testbed = 'one'", &all, &[]);
        // Of the settings of a server that is not typed without any, the best counts.
        let text = TEXT.replace("\"nginx\", ", "\"nginx/threads\", ");
        let found = |claim: &str| {
            let text = format!("{text}\n[[claims]]\ntext = 't'\n{claim}");
            Definition::parse("x", &text, None).expect("it is right").claims.remove(0)
        };
        let nginx = found("servers = ['nginx']\nthan = ['h2o']");
        assert_eq!(names(&nginx.servers), ["nginx/threads or nginx/buffers"]);
        // And beside one of them the others.
        let buffers = found("servers = ['nginx/buffers']\nthan = ['nginx']");
        assert_eq!(names(&buffers.than), ["nginx/threads"]);
        let others = found("servers = ['nginx']\nthan = ['nginx/buffers']");
        assert_eq!(names(&others.servers), ["nginx/threads"]);
    }

    #[test]
    fn to_be_better_is_claimed_where_no_ratio_is() {
        let bounds = |more: &str| {
            let found = parse(&format!("text = 't'\nservers = ['h2o']\n{more}")).expect(more);
            (found.at_least, found.at_most)
        };
        assert_eq!(bounds(""), (Some(1.0), None));
        for less in ["cpu per request", "mean response time", "p99 response time"] {
            assert_eq!(bounds(&format!("measure = '{less}'")), (None, Some(1.0)), "{less}");
        }
        assert_eq!(bounds("at_most = 1.02\nat_least = 0.98"), (Some(0.98), Some(1.02)));
    }

    #[test]
    fn a_spread_is_of_each_server_by_itself() {
        let of = |more: &str| parse(&format!("text = 't'\nmeasure = 'fairness spread'\n{more}"));
        let found = of("").expect("all servers but the floor");
        assert_eq!((found.at_least, found.at_most, found.than.len()), (None, None, 0));
        assert!(found.servers.iter().all(|side| side.name != "floor"), "{found:?}");
        assert!(found.servers.len() > 1, "{found:?}");
        let check = |more: &str, expected: &str| {
            assert_eq!(of(more).expect_err(more), format!("claim number 1: {expected}"));
        };
        let than = "than: a spread is of each server by itself: leave it out";
        check("than = ['nginx']", than);
        check("than_testbed = 'one'", than);
        check("at_least = 1", "at_least: a spread is small, not large: say at_most");
    }

    #[test]
    fn mistakes_are_told_in_a_line() {
        let h2o = "text = 't'\nservers = ['h2o']";
        for (claim, expected) in [
            ("servers = ['h2o']", "claim number 1: the key \"text\" is missing"),
            ("text = ' '\nservers = ['h2o']", "claim number 1: text: say what was found"),
            ("text = 't'", "claim number 1: servers: name the servers"),
            (&format!("{h2o}\nratio = 2"), "claim number 1: unknown key \"ratio\""),
            (
                "text = 't'\nservers = ['ngnix']",
                "claim number 1: servers: \"ngnix\" is none of the servers (did you mean \
                 \"nginx\"?): name one of floor, nginx, nginx/buffers, ",
            ),
            (
                &format!("{h2o}\nthan = ['nginx/fast']"),
                "claim number 1: than: \"nginx/fast\" is none of the servers",
            ),
            (
                &format!("{h2o}\nworkloads = ['zpif']"),
                "workloads: \"zpif\" is none of the workloads (did you mean \"zipf\"?): name one \
                 of zipf",
            ),
            (
                &format!("{h2o}\ntestbeds = ['three']"),
                "testbeds: \"three\" is none of the testbeds",
            ),
            (&format!("{h2o}\nthan_testbed = 'x'"), "than_testbed: \"x\" is none of the testbeds"),
            (
                &format!("{h2o}\ntestbeds = ['one']\nthan_testbed = 'one'"),
                "testbeds: \"one\" is what `than_testbed` compares with: leave it out",
            ),
            (&format!("{h2o}\nthan = ['nginx', 'h2o']"), "than: h2o would be compared with itself"),
            (
                "text = 't'\nservers = ['ropewalk:staged']\n\
                 than = ['ropewalk:staged,engine.knobs.write_threads=16']",
                "than: ropewalk:staged,engine.knobs.write_threads=16 would be compared with itself",
            ),
            (
                "text = 't'\nservers = ['nginx', 'nginx/buffers', 'ropewalk:staged', 'h2o']",
                "than: there is no other server: name one",
            ),
            (
                &format!("{h2o}\nthan = ['nginx']\nthan_testbed = 'one'"),
                "than: with `than_testbed` each server is compared with itself",
            ),
            (&format!("{h2o}\nat_least = 0"), "at_least: 0 is no ratio"),
            (&format!("{h2o}\nat_least = 2\nat_most = 1"), "at_least: 2 is not below at_most, 1"),
            (
                &format!("{h2o}\nmeasure = 'speed'"),
                "measure must be one of throughput, cpu per request, mean response time, p99 \
                 response time, fairness spread, not \"speed\"",
            ),
        ] {
            let why = parse(claim).expect_err(claim);
            assert!(why.contains(expected) && !why.contains('\n'), "{claim}: {why}");
        }
        let together = TEXT
            .replace("mat = true", "connections = [8]")
            .replace("repetitions = 3", "repetitions = 3\ntogether = true");
        for measure in ["throughput", "p99 response time"] {
            let claim = format!("[[claims]]\n{h2o}\nmeasure = '{measure}'");
            let why = Definition::parse("x", &format!("{together}\n{claim}"), None);
            let why = why.expect_err("they share a CPU");
            assert!(why.contains("measure: servers that are loaded together"), "{why}");
        }
    }

    /// A size that replaces the servers may leave less of a claim, or nothing.
    #[test]
    fn a_size_has_the_claims_that_are_left_or_its_own() {
        let text = format!(
            "{TEXT}\n[[claims]]\ntext = 't'\nservers = ['h2o']\nthan = ['nginx', 'ropewalk:staged']\n\
             [[claims]]\ntext = 'u'\nservers = ['h2o']\ntestbeds = ['two']\nthan_testbed = 'one'\n\
             [sizes.small]\nservers = ['h2o', 'nginx']\n\
             [sizes.alone]\nservers = ['h2o']\ntestbeds = [{{ name = 'two' }}]\n\
             [sizes.none]\nservers = ['caddy']\nclaims = []\n\
             [sizes.wrong]\nclaims = [{{ text = 'v', servers = ['caddy'] }}]\n"
        );
        let of = |size| Definition::parse("x", &text, Some(size));
        let small = of("small").expect("what is left").claims;
        assert_eq!((small.len(), names(&small[0].than)), (2, vec!["nginx".to_owned()]));
        assert_eq!(small[0].left_out, ["ropewalk:staged"]);
        assert!(small[1].left_out.is_empty());
        assert!(of("alone").expect("nothing is left").claims.is_empty());
        assert!(of("none").expect("it has none").claims.is_empty());
        let why = of("wrong").expect_err("no caddy");
        assert!(why.contains("\"caddy\" is none of the servers"), "{why}");
        let whole = Definition::parse("x", &text, None).expect("it is right");
        for known in [whole, of("small").expect("what is left")] {
            let again = Definition::parse("x", &known.text, None).expect("its own text");
            assert_eq!(again.claims, known.claims);
        }
    }

    /// Claims before it may have been left out.
    #[test]
    fn a_mistake_in_a_claim_of_a_size_has_the_claims_own_line_and_number() {
        let text = |second: &str| {
            format!(
                "{TEXT}\n[[claims]]\ntext = 't'\nservers = ['h2o']\n[[claims]]\ntext = 'u'\n\
                 {second}\n[sizes.small]\nservers = ['nginx', 'floor']\n"
            )
        };
        let why = |second: &str, size| {
            Definition::parse("x", &text(second), size).expect_err("it is wrong")
        };
        for second in ["serverz = ['nginx']", "servers = ['caddy']"] {
            // The names that it might have been are those of the size.
            let [small, whole] = [Some("small"), None].map(|size| why(second, size));
            let [small, whole] = [&small, &whole].map(|why| why.split("name one of").next());
            assert_eq!(small, whole);
            assert!(small.is_some_and(|why| why.contains("claim number 2: ")), "{small:?}");
        }
    }

    #[test]
    fn a_claim_without_others_goes_with_them() {
        let small = |claim: &str| {
            let of_size =
                "[sizes.small]\nservers = ['h2o', 'floor']\ntestbeds = [{ name = 'one' }]";
            let text = format!("{TEXT}\n[[claims]]\ntext = 't'\n{claim}\n{of_size}");
            Definition::parse("x", &text, Some("small")).map(|definition| definition.claims.len())
        };
        assert_eq!(small("servers = ['h2o']"), Ok(0));
        assert_eq!(small("than_testbed = 'one'"), Ok(0));
        assert_eq!(small("servers = ['h2o']\nthan = ['floor']"), Ok(1));
    }

    /// What is no list of claims is told in a size, too.
    #[test]
    fn claims_that_are_no_list_are_a_mistake_in_every_size() {
        let text = format!("{TEXT}\n[claims]\ntext = 't'\n[sizes.small]\nrepetitions = 2");
        for size in [None, Some("small")] {
            let why = Definition::parse("x", &text, size).expect_err("one bracket");
            assert!(why.contains("claims: is no list") && !why.contains('\n'), "{why}");
        }
    }
}
