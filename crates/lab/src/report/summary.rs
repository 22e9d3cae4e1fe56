//! The records of a folder, put together: runs of the same point, points of the same curve, curves
//! of the same panel. Void runs are counted and take no part. Pure.

use std::collections::{BTreeMap, BTreeSet};

use statistics::{Estimate, bootstrap_median, paired_ratio};

use super::measure::Measure;
use super::number;
use crate::record::{Described, Kind, Offered, Opened, Point, Run, Search, Tuning};
use crate::study::utilisation::{Gauge, share_looked_for};
use crate::template::Values;

/// With this part of the requests a server has kept up with what was asked.
const KEPT_UP_SHARE: f64 = 0.99;

/// All that figures, tables and words are made of.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// One for each workload, domain and form of load, in the order of the records.
    pub(crate) panels: Vec<Panel>,
    /// Of intervals.
    pub(crate) confidence: f64,
}

/// What is compared with each other: the same workload in the same domain.
#[derive(Debug, Default)]
pub(crate) struct Panel {
    pub(crate) workload: String,
    pub(crate) domain: String,
    /// Clients wait for their replies, and what is offered is their number.
    pub(crate) closed: bool,
    pub(crate) series: Vec<Series>,
    /// The rate at which the path itself ends, requests a second.
    pub(crate) limit_per_s: Option<f64>,
    /// The name of the floor's series, if it ran.
    pub(crate) floor: Option<String>,
    /// What is meant by a utilisation.
    pub(crate) gauge: Gauge,
    /// What a tuning of these settings has found, if that is on record.
    pub(crate) tuning: Option<Tuning>,
}

/// One setting of one server.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// The server's name, and the setting's where there are several.
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) setting: String,
    /// Whether clients wait for replies, and what is offered is how many of them there are.
    pub(crate) is_closed: bool,
    pub(crate) knobs: Values,
    /// By what was offered, ascending.
    pub(crate) points: Vec<Measured>,
    /// The runs that searches are made of, by purpose and what was offered.
    pub(crate) trials: Vec<Measured>,
    /// The searches for its highest rate, but those that only looked coarsely.
    pub(crate) searches: Vec<Search>,
    /// What they say the highest rate is, by block: 0 where every rate broke.
    pub(crate) limits: BTreeMap<u32, f64>,
    /// The trials close to that rate.
    pub(crate) held: Option<Measured>,
    /// That of the intervals of all this.
    pub(crate) confidence: f64,
}

/// All valid runs of one point.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    pub(crate) offered: f64,
    /// Empty for a point of a sweep.
    pub(crate) purpose: String,
    /// By block; a repetition of the same block stands for the one before.
    pub(crate) blocks: BTreeMap<u32, BTreeMap<Measure, f64>>,
    pub(crate) estimates: BTreeMap<Measure, Estimate>,
    /// The files with the whole outcomes.
    pub(crate) outcome_files: Vec<String>,
    /// The utilisation for the sake of which this rate was looked for.
    pub(crate) sought: Option<f64>,
}

/// The most a series does.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Peak {
    /// Requests a second: the median over blocks, or the highest rate held.
    pub(crate) per_s: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// What was offered there.
    pub(crate) offered: f64,
    pub(crate) found: Found,
}

/// How a peak was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The best of the points swept.
    Swept,
    /// The same, and the server still kept up with the highest rate: its peak may be higher.
    NotReached,
    /// Between the highest rate held and the lowest that was not.
    Searched,
    /// All rates were held, or the generator was the limit: it may be higher.
    AtLeast,
}

impl Found {
    /// Whether the peak may be higher than what was seen.
    pub(crate) fn is_lower_bound(self) -> bool {
        matches!(self, Self::NotReached | Self::AtLeast)
    }

    /// What stands before such a peak.
    pub(crate) fn sign(self) -> &'static str {
        if self.is_lower_bound() { "≥ " } else { "" }
    }
}

impl Peak {
    /// With its interval, and the sign of what may be higher.
    pub(crate) fn shown(&self) -> String {
        let shown = number::interval(self.per_s, self.low, self.high, number::figure);
        format!("{}{shown}", self.found.sign())
    }
}

impl Summary {
    /// Puts the records together.
    pub(crate) fn of(opened: &Opened) -> Self {
        let confidence = match opened.header.confidence {
            share if share > 0.0 && share < 1.0 => share,
            _ => 0.95,
        };
        let mut runs = opened.runs.clone();
        if opened.header.kind == Kind::Compare {
            // Its runs say which phase they are of; all of them are points.
            runs.iter_mut().for_each(|run| run.purpose.clear());
        }
        // Closed runs for a purpose are where a search began.
        runs.retain(|run| run.purpose.is_empty() || !is_closed(&run.point));
        let mut keys: Vec<(&str, &str, bool)> = Vec::new();
        for run in &runs {
            let key = (&*run.point.workload, &*run.point.domain, is_closed(&run.point));
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let place = |named: &[Described], name: &str| named.iter().position(|d| d.name == name);
        keys.sort_by_key(|(workload, domain, closed)| {
            let header = &opened.header;
            (place(&header.workloads, workload), place(&header.domains, domain), *closed)
        });
        let panels =
            keys.into_iter().map(|key| Panel::of(opened, &runs, key, confidence)).collect();
        Self { panels, confidence }
    }
}

impl Panel {
    fn of(opened: &Opened, runs: &[Run], key: (&str, &str, bool), confidence: f64) -> Self {
        let (workload, domain, closed) = key;
        let belongs = |point: &Point| {
            point.workload == workload && point.domain == domain && is_closed(point) == closed
        };
        let runs: Vec<&Run> = runs.iter().filter(|run| belongs(&run.point)).collect();
        let cpus = number_of(&opened.header.domains, domain, "cpus");
        let mut names: Vec<(&str, &str)> = Vec::new();
        for run in &runs {
            let name = (&*run.point.server, &*run.point.setting);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let servers: Vec<&str> = opened.header.servers.iter().map(|s| &*s.name).collect();
        names.sort_by_key(|(server, _)| servers.iter().position(|name| name == server));
        let many: BTreeSet<&str> = names
            .iter()
            .filter(|(server, _)| names.iter().filter(|(other, _)| other == server).count() > 1)
            .map(|(server, _)| *server)
            .collect();
        let series = names.iter().map(|(server, setting)| {
            let own = runs
                .iter()
                .copied()
                .filter(|run| (&*run.point.server, &*run.point.setting) == (*server, *setting));
            let own: Vec<&Run> = own.collect();
            let searches = opened.searches.iter().filter(|search| {
                (&*search.server, &*search.setting) == (*server, *setting)
                    && (&*search.workload, &*search.domain) == (workload, domain)
            });
            let searches: Vec<Search> = searches.filter(|_| !closed).cloned().collect();
            let name = match many.contains(server) {
                true => format!("{server} {setting}"),
                false => (*server).to_owned(),
            };
            let mut series = Series {
                name,
                server: (*server).to_owned(),
                setting: (*setting).to_owned(),
                is_closed: closed,
                knobs: own.first().map(|run| run.point.knobs.clone()).unwrap_or_default(),
                points: measured(&own, true, cpus, confidence, opened.header.seed),
                trials: measured(&own, false, cpus, confidence, opened.header.seed),
                confidence,
                ..Series::default()
            };
            series.take_searches(searches);
            series.held = series.held(&own, cpus, confidence);
            series
        });
        let series: Vec<Series> = series.collect();
        let floor = series.iter().find(|series| series.server == opened.header.floor);
        Self {
            workload: workload.to_owned(),
            domain: domain.to_owned(),
            closed,
            floor: floor.map(|series| series.name.clone()),
            gauge: Gauge::of(cpus, number_of(&opened.header.domains, domain, "client_cpus")),
            limit_per_s: limit_per_s(opened, workload, domain),
            tuning: tuning_of(opened, &series),
            series,
        }
    }

    /// What stands above a figure of this panel.
    pub(crate) fn title(&self) -> String {
        let parts: Vec<&str> =
            [&*self.workload, &*self.domain].into_iter().filter(|part| !part.is_empty()).collect();
        let form = if self.closed { ", closed" } else { "" };
        format!("{}{form}", parts.join(", "))
    }

    /// The series of the floor.
    pub(crate) fn floor(&self) -> Option<&Series> {
        self.series.iter().find(|series| Some(&series.name) == self.floor.as_ref())
    }

    /// Whether any run of it counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty() && series.trials.is_empty())
    }

    /// The unit of what is offered.
    pub(crate) fn unit(&self) -> &'static str {
        if self.closed { "connections" } else { "requests/s" }
    }
}

impl Series {
    /// The points of its curve: those swept, or else the trials of its searches.
    pub(crate) fn curve(&self) -> Vec<&Measured> {
        if !self.points.is_empty() {
            return self.points.iter().collect();
        }
        let mut trials: Vec<&Measured> =
            self.trials.iter().filter(|trial| self.is_searched(trial)).collect();
        trials.sort_by(|a, b| a.offered.total_cmp(&b.offered));
        trials.dedup_by(|a, b| a.offered == b.offered);
        trials
    }

    /// Whether a trial belongs to a search whose result is known. A search that is made once in
    /// each block is named with the block.
    pub(crate) fn is_searched(&self, trial: &Measured) -> bool {
        let named = |block: &u32| format!("{} {block}", trial.purpose);
        self.searches.iter().any(|search| {
            search.purpose == trial.purpose
                || trial.blocks.keys().any(|block| named(block) == search.purpose)
        })
    }

    /// The point with the highest throughput that was swept.
    pub(crate) fn best(&self) -> Option<&Measured> {
        let throughput = |point: &&Measured| point.median(Measure::Throughput).unwrap_or(0.0);
        self.points.iter().max_by(|a, b| throughput(a).total_cmp(&throughput(b)))
    }

    /// Where the peak was measured: trials at the rate that was held, or the best point.
    pub(crate) fn at_peak(&self) -> Option<&Measured> {
        self.held.as_ref().or_else(|| self.best())
    }

    /// Searches that left a much wider gap than the others were only looking around. One that has
    /// no gap was not: nothing held, or nothing broke.
    fn take_searches(&mut self, searches: Vec<Search>) {
        let width = |search: &Search| {
            let has_gap = search.held_per_s > 0.0 && !is_bound(search);
            search.broke_per_s.filter(|_| has_gap).map(|broke| broke / search.held_per_s - 1.0)
        };
        let narrowest = searches.iter().filter_map(width).fold(f64::INFINITY, f64::min);
        let fine = |search: &Search| width(search).is_none_or(|width| width <= 2.0 * narrowest);
        self.searches = searches.into_iter().filter(fine).collect();
        for (index, search) in self.searches.iter().enumerate() {
            let last = search.purpose.rsplit(' ').next();
            let block = last.and_then(|word| word.parse().ok()).unwrap_or(index as u32);
            self.limits.extend(limit_of(search).map(|limit| (block, limit)));
        }
    }

    /// Of the trials a little below what the searches have found.
    fn held(&self, runs: &[&Run], cpus: Option<f64>, confidence: f64) -> Option<Measured> {
        const NEAR: std::ops::RangeInclusive<f64> = 0.9..=1.0;
        let limit = self.peak().filter(|_| !self.limits.is_empty())?.per_s;
        let near = runs.iter().copied().filter(|run| NEAR.contains(&(offered(&run.point) / limit)));
        let near: Vec<Run> = near
            .filter(|run| !run.purpose.is_empty())
            .map(|run| Run {
                point: Point { offered: Offered::RequestsPerS(limit), ..run.point.clone() },
                purpose: String::new(),
                ..run.clone()
            })
            .collect();
        let near: Vec<&Run> = near.iter().collect();
        measured(&near, true, cpus, confidence, SEED).pop()
    }

    /// What searches have found: between what they held and what broke, or the median of several.
    /// None if they saw nothing.
    fn searched(&self) -> Option<Peak> {
        let last = self.searches.iter().rfind(|search| limit_of(search).is_some())?;
        let limits: Vec<f64> = self.limits.values().copied().collect();
        let several = bootstrap_median(&limits, self.confidence, SEED).filter(|_| limits.len() > 1);
        let (per_s, low, high) = match several {
            Some(Estimate { median, interval }) => (median, interval.low, interval.high),
            None => {
                let held = last.held_per_s;
                (held, held, last.broke_per_s.unwrap_or(held))
            }
        };
        // A limit that may be higher does not move the median if it lies above it already.
        let mut bounds = self.searches.iter().filter(|search| is_bound(search));
        let may_be_higher = |search| limit_of(search).is_some_and(|limit| limit <= per_s);
        let found = if bounds.any(may_be_higher) { Found::AtLeast } else { Found::Searched };
        Some(Peak { per_s, low, high, offered: per_s, found })
    }

    /// The most it does: what searches have found, or else the best point of its sweep.
    pub(crate) fn peak(&self) -> Option<Peak> {
        if let Some(peak) = self.searched() {
            return Some(peak);
        }
        let best = self.best()?;
        let throughput = best.estimates.get(&Measure::Throughput)?;
        let is_last = self.points.last().is_some_and(|last| last.offered == best.offered);
        Some(Peak {
            per_s: throughput.median,
            low: throughput.interval.low,
            high: throughput.interval.high,
            offered: best.offered,
            // Clients that wait for replies ask for no more than they get: that is no sign of ease.
            found: match is_last && best.kept_up() && !self.is_closed {
                true => Found::NotReached,
                false => Found::Swept,
            },
        })
    }

    /// Its point at exactly what was offered.
    pub(crate) fn at(&self, offered: f64) -> Option<&Measured> {
        self.points.iter().find(|point| point.offered == offered)
    }
}

impl Measured {
    pub(crate) fn median(&self, measure: Measure) -> Option<f64> {
        Some(self.estimates.get(&measure)?.median)
    }

    /// Whether the server kept up with what was offered.
    pub(crate) fn kept_up(&self) -> bool {
        self.median(Measure::KeptUpShare).is_some_and(|part| part >= KEPT_UP_SHARE)
    }

    /// The median of the ratios, block by block, of this to `other`, and how many pairs there are.
    pub(crate) fn ratio(
        &self,
        other: &Self,
        measure: Measure,
        confidence: f64,
    ) -> Option<(Estimate, usize)> {
        let pairs = self.blocks.iter().filter_map(|(block, values)| {
            let (own, others) = (values.get(&measure)?, other.blocks.get(block)?.get(&measure)?);
            (*others != 0.0).then_some((*own, *others))
        });
        let (own, others): (Vec<f64>, Vec<f64>) = pairs.unzip();
        Some((paired_ratio(&own, &others, confidence, SEED)?, own.len()))
    }
}

/// Resampling of ratios is the same in every report.
const SEED: u64 = 1;

/// Whether more may be borne than what held: the generator gave out, or nothing broke.
fn is_bound(search: &Search) -> bool {
    search.generator_bound || search.broke_per_s.is_none()
}

/// Where a search says that the limit is: what held, if that is a lower bound; 0 if every rate
/// broke. None if nothing held and none of that is the server's doing for certain.
pub(crate) fn limit_of(search: &Search) -> Option<f64> {
    match (search.held_per_s, search.broke_per_s) {
        (held, _) if is_bound(search) => (held > 0.0).then_some(held),
        (held, broke) => Some((held * broke?).sqrt()),
    }
}

pub(crate) fn offered(point: &Point) -> f64 {
    match point.offered {
        Offered::RequestsPerS(rate) => rate,
        Offered::Connections(clients) => clients as f64,
    }
}

/// A number that describes a workload or a domain.
pub(crate) fn number_of(described: &[Described], name: &str, number: &str) -> Option<f64> {
    described.iter().find(|one| one.name == name)?.numbers.get(number).copied()
}

/// What a tuning has found, if its winner is one of these.
fn tuning_of(opened: &Opened, series: &[Series]) -> Option<Tuning> {
    let found = opened.tuning.as_ref().filter(|_| opened.header.kind == Kind::Tune)?;
    series.iter().any(|one| one.setting == found.winner).then(|| found.clone())
}

fn is_closed(point: &Point) -> bool {
    matches!(point.offered, Offered::Connections(_))
}

/// The lower of the two: the path's requests, and its bytes in bodies of this workload.
fn limit_per_s(opened: &Opened, workload: &str, domain: &str) -> Option<f64> {
    let (_, ceiling) = opened.ceilings.iter().rfind(|(name, _)| name == domain)?;
    let body = number_of(&opened.header.workloads, workload, "mean_body_bytes");
    let by_bytes = body.filter(|bytes| *bytes > 0.0).map(|bytes| ceiling.bytes_per_s / bytes);
    let limits = [Some(ceiling.requests_per_s), by_bytes].into_iter().flatten();
    limits.filter(|limit| *limit > 0.0).min_by(f64::total_cmp)
}

/// The utilisation whose rate a point's is, if it was looked for.
fn sought(runs: &[&Run], point: &Point) -> Option<f64> {
    runs.iter().filter(|run| run.point == *point).find_map(|run| share_looked_for(&run.purpose))
}

/// The valid runs by purpose and by what was offered.
fn measured(
    runs: &[&Run],
    swept: bool,
    cpus: Option<f64>,
    confidence: f64,
    seed: u64,
) -> Vec<Measured> {
    let mut points: Vec<Measured> = Vec::new();
    let valid = runs.iter().filter(|run| run.void.is_empty() && run.figures.is_some());
    for run in valid.filter(|run| run.purpose.is_empty() == swept) {
        let offered = offered(&run.point);
        let same = |point: &Measured| point.offered == offered && point.purpose == run.purpose;
        let index = points.iter().position(same).unwrap_or_else(|| {
            let purpose = run.purpose.clone();
            let sought = sought(runs, &run.point).filter(|_| swept);
            points.push(Measured { offered, purpose, sought, ..Measured::default() });
            points.len() - 1
        });
        let values = Measure::every().filter_map(|m| Some((m, m.of(run, cpus)?)));
        points[index].blocks.insert(run.block, values.collect());
        if !run.outcome_file.is_empty() {
            points[index].outcome_files.push(run.outcome_file.clone());
        }
    }
    points.sort_by(|a, b| a.purpose.cmp(&b.purpose).then(a.offered.total_cmp(&b.offered)));
    for point in &mut points {
        for measure in Measure::every() {
            let sample: Vec<f64> =
                point.blocks.values().filter_map(|values| values.get(&measure).copied()).collect();
            let estimate = bootstrap_median(&sample, confidence, seed);
            point.estimates.extend(estimate.map(|estimate| (measure, estimate)));
        }
    }
    points
}
