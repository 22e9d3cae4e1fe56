//! A summary of the records of a folder: runs are combined to points, points to curves, curves to
//! panels. Void runs are counted but not used. All functions are pure.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

use statistics::{Estimate, median, median_estimate, paired_ratio, values_min};

use super::measure::Measure;
use super::number;
use crate::record::{
    Described, Header, Kind, Offered, Opened, Point, Purpose, Run, Search, Server, Tuning,
};
use crate::study::utilisation::Gauge;
use crate::template::Values;

/// The part of the requests that a server must serve to have kept up with the offered load.
const KEPT_UP_SHARE: f64 = 0.99;

/// The data from which figures, tables and words are made.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    /// The panels, one for each workload, testbed and form of load, in the order of the records.
    pub(crate) panels: Vec<Panel>,
    /// The confidence of intervals.
    pub(crate) confidence: f64,
}

/// The series that are compared with each other: of one workload in one testbed.
#[derive(Debug, Default)]
pub(crate) struct Panel {
    pub(crate) workload: String,
    pub(crate) testbed: String,
    /// The number of processors of the server in this testbed.
    pub(crate) cpus: Option<f64>,
    /// Whether clients wait for their replies; the offered load is then their number.
    pub(crate) closed: bool,
    /// Whether it is of one of the two phases of a comparison.
    pub(crate) is_phase: bool,
    pub(crate) series: Vec<Series>,
    /// The limit of the path between the hosts, in requests per second.
    pub(crate) limit_per_s: Option<f64>,
    /// The name of the floor's series, if it ran.
    pub(crate) floor: Option<String>,
    /// The definition of utilisations.
    pub(crate) gauge: Gauge,
    /// The result of a tuning of these settings, if it is on record.
    pub(crate) tuning: Option<Tuning>,
}

/// The measurements of one setting of one server.
#[derive(Debug, Default)]
pub(crate) struct Series {
    /// The server's name, with the setting's where there are several.
    pub(crate) name: String,
    pub(crate) server: String,
    pub(crate) setting: String,
    /// Whether clients wait for replies; the offered load is then their number.
    pub(crate) is_closed: bool,
    pub(crate) knobs: Values,
    /// The points, by offered load, ascending.
    pub(crate) points: Vec<Measured>,
    /// The trials of searches, by purpose and offered load.
    pub(crate) trials: Vec<Measured>,
    /// The trials of searches whose result is known, by offered load, ascending.
    pub(crate) searched: Vec<Measured>,
    /// The searches for the highest rate, without the coarse ones.
    pub(crate) searches: Vec<Search>,
    /// The highest rates that they found, by block: 0 where every rate broke.
    pub(crate) limits: BTreeMap<u32, f64>,
    /// The blocks in which the highest rate may be higher than found.
    pub(crate) bounds: BTreeSet<u32>,
    /// The trials at the highest rate that held, from each block's search.
    pub(crate) held: Option<Measured>,
    /// The confidence of all intervals of the series.
    pub(crate) confidence: f64,
}

/// All valid runs of one point.
#[derive(Debug, Clone, Default)]
pub(crate) struct Measured {
    pub(crate) offered: f64,
    pub(crate) purpose: Purpose,
    /// The medians of a block's runs, by block: a search may make several runs in a block.
    pub(crate) blocks: BTreeMap<u32, BTreeMap<Measure, f64>>,
    pub(crate) estimates: BTreeMap<Measure, Estimate>,
    /// The response times that are mostly the generator's own lag in half of the runs or more.
    pub(crate) mostly_own_lag: BTreeSet<Measure>,
    /// The names of the files with the whole outcomes.
    pub(crate) outcome_files: Vec<String>,
    /// The utilisation for which this rate was searched.
    pub(crate) sought: Option<f64>,
}

/// The highest throughput of a series.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Peak {
    /// Requests per second: the median over blocks, or the highest rate that held.
    pub(crate) per_s: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// The offered load at the peak.
    pub(crate) offered: f64,
    pub(crate) found: Found,
}

/// How a peak was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// The peak is the best of the swept points.
    Swept,
    /// The peak is the best of the swept points, but the server still kept up with the highest
    /// rate, so its peak may be higher.
    NotReached,
    /// The peak lies between the highest rate that held and the lowest that broke.
    Searched,
    /// All rates held, or the generator was the limit: the peak may be higher.
    AtLeast,
}

impl Found {
    /// Whether the peak may be higher than observed.
    pub(crate) fn is_lower_bound(self) -> bool {
        matches!(self, Self::NotReached | Self::AtLeast)
    }

    /// The sign before a peak that may be higher; else empty.
    pub(crate) fn sign(self) -> &'static str {
        if self.is_lower_bound() { "≥ " } else { "" }
    }
}

impl Peak {
    /// Formats the peak with its interval, and with the sign if it may be higher.
    pub(crate) fn shown(&self) -> String {
        let shown = number::interval(self.per_s, self.low, self.high, number::figure);
        format!("{}{shown}", self.found.sign())
    }
}

impl Summary {
    /// Summarises the records.
    pub(crate) fn new(opened: &Opened) -> Self {
        let confidence = match opened.header.confidence {
            share if share > 0.0 && share < 1.0 => share,
            _ => 0.95,
        };
        let mut runs = opened.runs.clone();
        if opened.header.kind == Kind::Compare {
            // The purpose of a comparison's runs gives their phase; all of them are points.
            runs.iter_mut().for_each(|run| run.purpose = Purpose::Point);
        }
        // Closed runs that are no points are the beginnings of searches.
        runs.retain(|run| run.purpose == Purpose::Point || !is_closed(&run.point));
        let mut keys: Vec<(&str, &str, bool)> = Vec::new();
        for run in &runs {
            let key = (&*run.point.workload, &*run.point.testbed, is_closed(&run.point));
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let place = |named: &[Described], name: &str| named.iter().position(|d| d.name == name);
        keys.sort_by_key(|(workload, testbed, closed)| {
            let header = &opened.header;
            (place(&header.workloads, workload), place(&header.testbeds, testbed), *closed)
        });
        let panels =
            keys.into_iter().map(|key| Panel::new(opened, &runs, key, confidence)).collect();
        Self { panels, confidence }
    }
}

/// What lines and bands about medians of so many blocks each are: intervals, or the whole range of
/// blocks that are too few for an interval. A single block has neither.
pub(crate) fn spreads(blocks: impl Iterator<Item = usize>, confidence: f64) -> String {
    let least = values_min(confidence);
    let intervals = format!("{} intervals", number::percent(confidence));
    let (enough, few): (Vec<usize>, Vec<usize>) =
        blocks.filter(|count| *count > 1).partition(|count| *count >= least);
    match (enough.is_empty(), few.is_empty()) {
        (true, _) => "whole ranges".into(),
        (false, true) => intervals,
        (false, false) => format!("{intervals}, or whole ranges of fewer than {least} blocks"),
    }
}

/// What lines and bands about the peaks of these series are: as [`spreads`], or the bracket of a
/// single search.
pub(crate) fn peak_spreads<'s>(
    series: impl IntoIterator<Item = &'s Series>,
    confidence: f64,
) -> String {
    let with_peak: Vec<&Series> =
        series.into_iter().filter(|series| series.peak().is_some()).collect();
    let spread = spreads(with_peak.iter().map(|series| series.blocks_of_peak()), confidence);
    match with_peak.iter().filter(|series| series.limits.len() == 1).count() {
        0 => spread,
        all if all == with_peak.len() => "brackets of single searches".into(),
        _ => format!("{spread}, or brackets of single searches"),
    }
}

impl Panel {
    fn new(opened: &Opened, runs: &[Run], key: (&str, &str, bool), confidence: f64) -> Self {
        let (workload, testbed, closed) = key;
        let belongs = |point: &Point| {
            point.workload == workload && point.testbed == testbed && is_closed(point) == closed
        };
        let runs: Vec<&Run> = runs.iter().filter(|run| belongs(&run.point)).collect();
        let cpus = number_of(&opened.header.testbeds, testbed, "cpus");
        let mut names: Vec<(&str, &str)> = Vec::new();
        for run in &runs {
            let name = (&*run.point.server, &*run.point.setting);
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.sort_by_key(|(server, setting)| place_of(&opened.header, server, setting));
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
                    && (&*search.workload, &*search.testbed) == (workload, testbed)
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
                points: measured(&own, true, cpus, confidence),
                trials: measured(&own, false, cpus, confidence),
                confidence,
                ..Series::default()
            };
            series.add_searches(searches);
            series.add_trials(&own, cpus);
            series
        });
        let series: Vec<Series> = series.collect();
        let floor = series.iter().find(|series| series.server == opened.header.floor);
        Self {
            workload: workload.to_owned(),
            testbed: testbed.to_owned(),
            cpus,
            closed,
            is_phase: opened.header.kind == Kind::Compare,
            floor: floor.map(|series| series.name.clone()),
            gauge: Gauge::of_cpus(cpus, number_of(&opened.header.testbeds, testbed, "client_cpus")),
            limit_per_s: limit_per_s(opened, workload, testbed),
            tuning: tuning_of(opened, &series),
            series,
        }
    }

    /// The title of the panel in figures and tables.
    pub(crate) fn title(&self) -> String {
        let (testbed, form) = match (self.is_phase, self.closed) {
            (true, true) => ("this machine", "all clients"),
            (true, false) => ("this machine", "common rate"),
            (false, true) => (&*self.testbed, "closed"),
            (false, false) => (&*self.testbed, ""),
        };
        let parts = [&*self.workload, testbed, form].into_iter().filter(|part| !part.is_empty());
        parts.collect::<Vec<_>>().join(", ")
    }

    /// The series of the floor, if it ran.
    pub(crate) fn floor(&self) -> Option<&Series> {
        self.series.iter().find(|series| Some(&series.name) == self.floor.as_ref())
    }

    /// Whether no run of the panel counts.
    pub(crate) fn is_empty(&self) -> bool {
        self.series.iter().all(|series| series.points.is_empty() && series.trials.is_empty())
    }

    /// The unit of the offered load.
    pub(crate) fn unit(&self) -> &'static str {
        if self.closed { "connections" } else { "requests/s" }
    }
}

impl Series {
    /// The points of the curve: those that were swept, or else the trials of searches.
    pub(crate) fn curve(&self) -> Vec<&Measured> {
        if !self.points.is_empty() {
            return self.points.iter().collect();
        }
        self.searched.iter().collect()
    }

    /// Whether the curve consists of the trials of searches rather than of swept points.
    pub(crate) fn is_searched(&self) -> bool {
        self.points.is_empty() && !self.searched.is_empty()
    }

    /// The swept point with the highest throughput.
    pub(crate) fn best(&self) -> Option<&Measured> {
        let throughput = |point: &&Measured| point.median(Measure::Throughput).unwrap_or(0.0);
        self.points.iter().max_by(|a, b| throughput(a).total_cmp(&throughput(b)))
    }

    /// The measurements at the peak: the trials at the rate that held, or the best point.
    pub(crate) fn at_peak(&self) -> Option<&Measured> {
        self.held.as_ref().or_else(|| self.best())
    }

    /// The number of blocks on which the peak rests.
    pub(crate) fn blocks_of_peak(&self) -> usize {
        let swept = || self.best().map_or(0, |point| point.blocks.len());
        if self.limits.is_empty() { swept() } else { self.limits.len() }
    }

    /// Adds the searches, without those that left a much wider gap than the others: these were
    /// coarse. A search without a gap, in which nothing held or nothing broke, is kept.
    fn add_searches(&mut self, searches: Vec<Search>) {
        let width = |search: &Search| {
            let has_gap = search.held_per_s > 0.0 && !search.is_bound();
            search.broke_per_s.filter(|_| has_gap).map(|broke| broke / search.held_per_s - 1.0)
        };
        let narrowest = searches.iter().filter_map(width).fold(f64::INFINITY, f64::min);
        let fine = |search: &Search| width(search).is_none_or(|width| width <= 2.0 * narrowest);
        self.searches = searches.into_iter().filter(fine).collect();
        for search in &self.searches {
            let Some(limit) = search.limit_per_s() else { continue };
            self.limits.insert(search.block, limit);
            if search.is_bound() {
                self.bounds.insert(search.block);
            }
        }
    }

    /// Adds the trials of the searches: all of them as points of the curve, and those at the rate
    /// that held in each search as the measurements at the peak.
    fn add_trials(&mut self, runs: &[&Run], cpus: Option<f64>) {
        let limit = self.searched().map(|peak| peak.per_s);
        let (mut all, mut held): (Vec<Run>, Vec<Run>) = (Vec::new(), Vec::new());
        for search in &self.searches {
            let of_search = runs.iter().filter(|run| is_trial_of(run, search));
            for run in of_search {
                let run = Run { purpose: Purpose::Point, ..(*run).clone() };
                if let Some(limit) = limit.filter(|_| offered(&run.point) == search.held_per_s) {
                    let offered = Offered::RequestsPerS(limit);
                    held.push(Run { point: Point { offered, ..run.point.clone() }, ..run.clone() });
                }
                all.push(run);
            }
        }
        let measured = |runs: &[Run]| {
            let runs: Vec<&Run> = runs.iter().collect();
            measured(&runs, true, cpus, self.confidence)
        };
        (self.searched, self.held) = (measured(&all), measured(&held).pop());
    }

    /// The peak that searches have found: between the rates that held and broke in a single one, or
    /// the median of several. None if no search found a limit.
    fn searched(&self) -> Option<Peak> {
        let limits: Vec<f64> = self.limits.values().copied().collect();
        let Estimate { median: per_s, interval } = median_estimate(&limits, self.confidence)?;
        let last = self.searches.iter().rfind(|search| search.limit_per_s().is_some())?;
        let (low, high) = match limits.len() {
            1 => (last.held_per_s, last.broke_per_s.unwrap_or(per_s)),
            _ => (interval.low, interval.high),
        };
        // A limit that may be higher does not move the median if it lies above the median already.
        let at_most = self.limits.iter().map(|(block, limit)| match self.bounds.contains(block) {
            true => f64::MAX,
            false => *limit,
        });
        let is_moved = median(&at_most.collect::<Vec<_>>()).is_some_and(|most| most > per_s);
        let found = if is_moved { Found::AtLeast } else { Found::Searched };
        Some(Peak { per_s, low, high, offered: per_s, found })
    }

    /// The peak: that of the searches, or else the best point of the sweep.
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
            // Clients that wait for replies request no more than they get, so to keep up with them
            // does not mean that the server could serve more.
            found: match is_last && best.kept_up() && !self.is_closed {
                true => Found::NotReached,
                false => Found::Swept,
            },
        })
    }

    /// The point of the series at exactly this offered load.
    pub(crate) fn point_at(&self, offered: f64) -> Option<&Measured> {
        self.points.iter().find(|point| point.offered == offered)
    }
}

impl Measured {
    /// Adds the runs of each block. A sweep has one valid run in each; a search may have several,
    /// which give one value, their median, for they are no blocks of their own.
    fn with_runs(
        mut self,
        runs: &BTreeMap<u32, Vec<&Run>>,
        cpus: Option<f64>,
        confidence: f64,
    ) -> Self {
        for (block, runs) in runs {
            let of_runs = |measure: Measure| {
                let values: Vec<f64> =
                    runs.iter().filter_map(|run| measure.value(run, cpus)).collect();
                Some((measure, median(&values)?))
            };
            self.blocks.insert(*block, Measure::every().filter_map(of_runs).collect());
            let files = runs.iter().map(|run| &run.outcome_file).filter(|file| !file.is_empty());
            self.outcome_files.extend(files.cloned());
        }
        for measure in Measure::every() {
            let sample: Vec<f64> =
                self.blocks.values().filter_map(|values| values.get(&measure).copied()).collect();
            let estimate = median_estimate(&sample, confidence);
            self.estimates.extend(estimate.map(|estimate| (measure, estimate)));
        }
        let runs: Vec<&Run> = runs.values().flatten().copied().collect();
        let is_mostly_own = |measure: &Measure| {
            let own = runs.iter().filter(|run| measure.is_mostly_own_lag(run)).count();
            own > 0 && 2 * own >= runs.len()
        };
        self.mostly_own_lag = Measure::every().filter(is_mostly_own).collect();
        self
    }

    pub(crate) fn median(&self, measure: Measure) -> Option<f64> {
        Some(self.estimates.get(&measure)?.median)
    }

    /// The mark behind a time that is mostly the generator's own lag; else empty.
    pub(crate) fn mark(&self, measure: Measure) -> &'static str {
        if self.mostly_own_lag.contains(&measure) { "*" } else { "" }
    }

    /// Whether the server kept up with the offered load.
    pub(crate) fn kept_up(&self) -> bool {
        self.median(Measure::KeptUpShare).is_some_and(|part| part >= KEPT_UP_SHARE)
    }

    /// The median of the ratios of this point to `other`, block by block, and the number of pairs.
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
        Some((paired_ratio(&own, &others, confidence)?, own.len()))
    }
}

fn is_trial_of(run: &Run, search: &Search) -> bool {
    run.purpose != Purpose::Point && (&run.purpose, run.block) == (&search.purpose, search.block)
}

pub(crate) fn offered(point: &Point) -> f64 {
    match point.offered {
        Offered::RequestsPerS(rate) => rate,
        Offered::Connections(clients) => clients as f64,
    }
}

/// Finds a number that describes a workload or a testbed.
pub(crate) fn number_of(described: &[Described], name: &str, number: &str) -> Option<f64> {
    described.iter().find(|one| one.name == name)?.numbers.get(number).copied()
}

/// The place of a server's setting in the order of the header: settings of a server in the order in
/// which they are to be measured, the two of a comparison in the order of the command line.
fn place_of(header: &Header, server: &str, setting: &str) -> [usize; 3] {
    let (servers, planned) = (&header.servers, &header.planned);
    let with_it = |one: &Server| one.name == server && one.configurations.contains_key(setting);
    [
        servers.iter().position(|one| one.name == server),
        planned.iter().position(|one| (&*one.server, &*one.setting) == (server, setting)),
        servers.iter().position(with_it),
    ]
    .map(|place| place.unwrap_or(usize::MAX))
}

/// The result of a tuning, if its winner is one of these series.
fn tuning_of(opened: &Opened, series: &[Series]) -> Option<Tuning> {
    let found = opened.tuning.as_ref().filter(|_| opened.header.kind == Kind::Tune)?;
    series.iter().any(|one| one.setting == found.winner).then(|| found.clone())
}

fn is_closed(point: &Point) -> bool {
    matches!(point.offered, Offered::Connections(_))
}

/// The limit of the path in requests per second: the lower of its limit of requests, and its limit
/// of bytes divided by the mean body of this workload.
fn limit_per_s(opened: &Opened, workload: &str, testbed: &str) -> Option<f64> {
    let (_, ceiling) = opened.ceilings.iter().rfind(|(name, _)| name == testbed)?;
    let body = number_of(&opened.header.workloads, workload, "mean_body_bytes");
    let by_bytes = body.filter(|bytes| *bytes > 0.0).map(|bytes| ceiling.bytes_per_s / bytes);
    let limits = [Some(ceiling.requests_per_s), by_bytes].into_iter().flatten();
    limits.filter(|limit| *limit > 0.0).min_by(f64::total_cmp)
}

/// The utilisation for which the rate of a point was searched, if it was.
fn sought(runs: &[&Run], point: &Point) -> Option<f64> {
    runs.iter().filter(|run| run.point == *point).find_map(|run| run.purpose.utilisation())
}

/// Collects the valid runs by purpose and by offered load.
fn measured(runs: &[&Run], swept: bool, cpus: Option<f64>, confidence: f64) -> Vec<Measured> {
    let mut points: Vec<(Measured, BTreeMap<u32, Vec<&Run>>)> = Vec::new();
    let valid = runs.iter().filter(|run| run.void.is_empty() && run.figures.is_some());
    for run in valid.filter(|run| (run.purpose == Purpose::Point) == swept) {
        let offered = offered(&run.point);
        let same =
            |(point, _): &(Measured, _)| point.offered == offered && point.purpose == run.purpose;
        let index = points.iter().position(same).unwrap_or_else(|| {
            let purpose = run.purpose.clone();
            let sought = sought(runs, &run.point).filter(|_| swept);
            points.push((
                Measured { offered, purpose, sought, ..Measured::default() },
                BTreeMap::new(),
            ));
            points.len() - 1
        });
        points[index].1.entry(run.block).or_default().push(run);
    }
    points.sort_by(|(a, _), (b, _)| {
        let by_purpose = a.purpose.partial_cmp(&b.purpose).unwrap_or(Ordering::Equal);
        by_purpose.then(a.offered.total_cmp(&b.offered))
    });
    let points = points.into_iter().map(|(point, runs)| point.with_runs(&runs, cpus, confidence));
    points.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Figures, Planned};

    /// A trial at a rate, with the rate that was served.
    fn trial(purpose: Purpose, block: u32, rate: f64, served: f64) -> Run {
        let figures = Figures { throughput_per_s: served, ..Figures::default() };
        let point = Point { offered: Offered::RequestsPerS(rate), ..Point::default() };
        Run { point, block, purpose, figures: Some(figures), ..Run::default() }
    }

    fn search(purpose: Purpose, block: u32, held_per_s: f64, broke_per_s: f64) -> Search {
        let broke_per_s = Some(broke_per_s);
        Search { purpose, block, held_per_s, broke_per_s, ..Search::default() }
    }

    fn series(runs: Vec<Run>, searches: Vec<Search>) -> Series {
        let mut summary = Summary::new(&Opened { runs, searches, ..Opened::default() });
        summary.panels.remove(0).series.remove(0)
    }

    fn throughputs(point: &Measured) -> Vec<f64> {
        point.blocks.values().map(|values| values[&Measure::Throughput]).collect()
    }

    /// The phases of a comparison have the names that the command prints.
    #[test]
    fn the_title_of_a_panel_says_how_it_was_loaded() {
        let title = |is_phase, closed, testbed: &str| {
            let (workload, testbed) = ("w".into(), testbed.into());
            Panel { workload, testbed, closed, is_phase, ..Panel::default() }.title()
        };
        assert_eq!(title(true, true, "here"), "w, this machine, all clients");
        assert_eq!(title(true, false, "here"), "w, this machine, common rate");
        assert_eq!(title(false, true, "1 CPU"), "w, 1 CPU, closed");
        assert_eq!(title(false, false, ""), "w");
    }

    #[test]
    fn lines_about_medians_are_intervals_if_there_are_enough_blocks() {
        let check = |blocks: &[usize], confidence, expected: &str| {
            assert_eq!(spreads(blocks.iter().copied(), confidence), expected, "{blocks:?}");
        };
        check(&[6, 10], 0.95, "95 % intervals");
        check(&[5, 3], 0.95, "whole ranges");
        check(&[6, 5], 0.95, "95 % intervals, or whole ranges of fewer than 6 blocks");
        check(&[6], 0.99, "whole ranges");
        check(&[1, 6], 0.95, "95 % intervals"); // a single block has no line
        check(&[1], 0.95, "whole ranges");
    }

    #[test]
    fn lines_about_peaks_are_brackets_where_there_is_a_single_search() {
        let limit = |block| Purpose::Limit { block };
        let searched = |blocks: u32| {
            let runs = (0..blocks).map(|block| trial(limit(block), block, 100.0, 100.0));
            let searches = (0..blocks).map(|block| search(limit(block), block, 100.0, 104.0));
            series(runs.collect(), searches.collect())
        };
        let check = |blocks: &[u32], expected: &str| {
            let all: Vec<Series> = blocks.iter().map(|blocks| searched(*blocks)).collect();
            assert_eq!(peak_spreads(&all, 0.95), expected, "{blocks:?}");
        };
        check(&[1, 1], "brackets of single searches");
        check(&[6, 6], "95 % intervals");
        check(&[3, 1], "whole ranges, or brackets of single searches");
        check(&[], "whole ranges");
        let lacking = series(vec![trial(Purpose::Race, 1, 1.0, 1.0)], Vec::new());
        assert_eq!(peak_spreads(&[searched(1), lacking], 0.95), "brackets of single searches");
    }

    /// The order of the runs is randomised, that of the servers is not.
    #[test]
    fn settings_of_a_server_stand_as_the_header_lists_them() {
        let server = |setting: &str| Server {
            name: "nginx".into(),
            configurations: [(setting.to_owned(), String::new())].into(),
            ..Server::default()
        };
        let planned = |setting: &str| Planned {
            server: "nginx".into(),
            setting: setting.into(),
            ..Planned::default()
        };
        let check = |header: Header| {
            let runs = ["buffers", "sendfile"].map(|setting| {
                let mut run = trial(Purpose::Point, 0, 100.0, 100.0);
                (run.point.server, run.point.setting) = ("nginx".into(), setting.into());
                run
            });
            let opened = Opened { header, runs: runs.to_vec(), ..Opened::default() };
            let panel = Summary::new(&opened).panels.remove(0);
            let names: Vec<&str> = panel.series.iter().map(|series| &*series.setting).collect();
            assert_eq!(names, ["sendfile", "buffers"]);
        };
        let servers = ["sendfile", "buffers"].map(server).to_vec();
        check(Header { kind: Kind::Compare, servers, ..Header::default() });
        let both = [server("buffers").configurations, server("sendfile").configurations];
        let configurations = both.into_iter().flatten().collect();
        let servers = vec![Server { configurations, ..server("") }];
        let planned = ["sendfile", "buffers"].map(planned).to_vec();
        check(Header { servers, planned, ..Header::default() });
    }

    /// At the ends of its gap a search tries a rate several times, which gives one value for the
    /// block.
    #[test]
    fn the_trials_of_a_block_are_one_value() {
        let limit = Purpose::Limit { block: 0 };
        let served = [99.0, 40.0, 98.0];
        let runs = served.map(|served| trial(limit.clone(), 0, 100.0, served)).to_vec();
        let series = series(runs, vec![search(limit, 0, 100.0, 104.0)]);
        assert_eq!(throughputs(series.at_peak().expect("it held")), [98.0]);
        assert_eq!(throughputs(series.curve()[0]), [98.0]);
        assert_eq!(throughputs(&series.trials[0]), [98.0]);
    }

    /// The measurements at the peak are the trials in which the rate held, without those that broke
    /// at this rate in other blocks.
    #[test]
    fn a_peak_consists_of_the_trials_that_held_in_each_block() {
        let limit = |block| Purpose::Limit { block };
        let tried = |block, rate, served| trial(limit(block), block, rate, served);
        let runs = vec![
            tried(0, 100.0, 100.0),
            tried(0, 96.0, 96.0),
            tried(0, 104.0, 50.0),
            tried(1, 96.0, 95.0),
            tried(1, 100.0, 40.0),
        ];
        let searches = [(0, 100.0, 104.0), (1, 96.0, 100.0)];
        let searches =
            searches.map(|(block, held, broke)| search(limit(block), block, held, broke));
        let series = series(runs, searches.to_vec());
        let held = series.at_peak().expect("both held");
        assert_eq!(throughputs(held), [100.0, 95.0]);
        assert!((held.offered - 100.0).abs() < 0.1, "{}", held.offered);
    }

    #[test]
    fn void_runs_are_no_trials() {
        let void = Run { void: vec!["late".into()], ..trial(Purpose::Point, 0, 100.0, 100.0) };
        assert!(!series(vec![void], Vec::new()).is_searched());
        let searches = vec![search(Purpose::Race, 1, 1.0, 2.0)];
        let searched = series(vec![trial(Purpose::Race, 1, 1.0, 1.0)], searches);
        assert!(searched.is_searched());
    }

    /// No trial is lost where two blocks tried the same rate.
    #[test]
    fn blocks_that_tried_the_same_rate_are_one_point() {
        let tried = [(1, 100.0), (2, 90.0)];
        let runs = tried.map(|(block, served)| trial(Purpose::Race, block, 100.0, served));
        let searches = [1, 2].map(|block| search(Purpose::Race, block, 100.0, 104.0));
        let series = series(runs.to_vec(), searches.to_vec());
        let points: Vec<Vec<f64>> = series.curve().into_iter().map(throughputs).collect();
        assert_eq!(points, [[100.0, 90.0]]);
    }
}
