//! What the source of an experiment found, in a form that a report can judge.

use serde::{Deserialize, Serialize};

/// A finding of the source: some servers have so many times what others have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Claim {
    /// The finding in words.
    pub text: String,
    /// The servers of which it is; it holds if it holds for all of them.
    pub servers: Vec<ClaimSide>,
    /// The servers with which each of them is compared; none: with itself, in `than_testbed`.
    pub than: Vec<ClaimSide>,
    /// The names of the workloads for which it is; none: all.
    pub workloads: Vec<String>,
    /// The names of the testbeds for which it is; none: all, but `than_testbed`.
    pub testbeds: Vec<String>,
    /// The testbed with which these are compared; empty: servers are compared in the same.
    pub than_testbed: String,
    /// What is compared.
    pub measure: ClaimMeasure,
    /// The least ratio that is claimed.
    pub at_least: Option<f64>,
    /// The largest ratio that is claimed.
    pub at_most: Option<f64>,
    /// The servers, workloads and testbeds of the claim that have no part in the size of the study.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
}

impl Claim {
    /// Enters which servers it means now, beside those that it meant before.
    pub(super) fn learn(&mut self, now: Self) {
        let sides = self.servers.iter_mut().chain(&mut self.than);
        for (known, now) in sides.zip(now.servers.into_iter().chain(now.than)) {
            // Where none takes part any more, what did before was measured, and counts.
            if !now.settings.is_empty() || known.settings.is_empty() {
                known.absent = now.absent;
            }
            let new = now.settings.into_iter().filter(|one| !known.settings.contains(one));
            let new: Vec<_> = new.collect();
            known.settings.extend(new);
        }
    }
}

/// What a claim compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClaimMeasure {
    /// Good replies a second at the highest throughput.
    #[default]
    #[serde(rename = "throughput")]
    Throughput,
    /// The server's processor time per request, at the same load or at the same utilisation.
    #[serde(rename = "cpu per request")]
    CpuPerRequest,
    /// The mean response time, at the same load or at the same utilisation.
    #[serde(rename = "mean response time")]
    MeanTime,
    /// The 99th percentile of the response time, at the same load or at the same utilisation.
    #[serde(rename = "p99 response time")]
    P99,
    /// By how many percentage points kinds of file differ in how often they time out, of each
    /// server by itself.
    #[serde(rename = "fairness spread")]
    Spread,
}

/// One or several servers under one name; of several the best counts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClaimSide {
    /// The name, as it was typed.
    pub name: String,
    /// The servers by the names of their records, each with its setting.
    pub settings: Vec<(String, String)>,
    /// Why some take no part; empty if all do.
    pub absent: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_took_part_before_is_not_absent() {
        let check = |before: (&[&str], &str), now: (&[&str], &str), expected: (&[&str], &str)| {
            let side = |(names, absent): (&[&str], &str)| ClaimSide {
                settings: names.iter().map(|name| ((*name).into(), String::new())).collect(),
                absent: absent.into(),
                ..ClaimSide::default()
            };
            let of = |names| Claim { servers: vec![side(names)], ..Claim::default() };
            let mut claim = of(before);
            claim.learn(of(now));
            assert_eq!(claim, of(expected));
        };
        check((&["a"], ""), (&["a"], ""), (&["a"], ""));
        check((&[], "no a"), (&["a"], ""), (&["a"], ""));
        check((&["a"], ""), (&[], "no a"), (&["a"], ""));
        check((&["a"], ""), (&["a"], "no b"), (&["a"], "no b"));
        check((&[], "no a"), (&[], "a broke"), (&[], "a broke"));
    }
}
