//! The outcomes as one HTML page: for the paper's machines the paper's figures, numbers and
//! findings beside the simulated ones; for any other sweep the simulated ones alone.
//!
//! The crate `page` renders the page.

use std::collections::BTreeMap;
use std::path::Path;

use coherence::{Bus, Kernel, Machine, Miss, Options, Workload};
use page::chart::{Axis, Chart, Curve, Drawing, Figure, Form, Table};
use page::document::{self, Fact, Section, escape};
use page::number::{counted, figure, plain};

use super::measured::{Measured, Runs, Value};
use super::paper::{self, Finding, Paper, Plan, SEEDS_MIN, Verdict};
use super::show;
use super::spec::Spec;
use super::varied::{self, Varied};

/// The inputs of a run, which the page describes beside its outcomes.
pub(super) struct RunInputs<'a> {
    pub(super) trace: &'a Path,
    pub(super) workload: &'a Workload,
    /// The machine whose values all machines share, except the varied ones.
    pub(super) base: &'a Machine,
    pub(super) options: Options,
    pub(super) seeds: u32,
    pub(super) varied: &'a Varied,
}

/// Renders the page of a sweep of a paper's machines.
pub(super) fn paper_page(inputs: &RunInputs<'_>, plan: &Plan<'_>, runs: &Runs) -> String {
    let (mut preamble, mut details) = (inputs.preamble(runs), inputs.details(runs));
    preamble.extend(plan.left_out());
    details.extend(plan.paper.about.iter().cloned());
    details.extend(about_machine(plan.paper, inputs.base));
    let [own, stated] = paper::sections(plan.paper, runs);
    let figures = paper::figures(plan.paper, runs);
    let found = paper::findings(plan.paper, runs);
    let page = Page {
        title: format!("{} from {}", plan.paper.title, inputs.name()),
        preamble,
        details,
        verdict: verdict(&found, runs.seeds),
        facts: facts(runs),
        findings: findings(&found),
        sections: own.into_iter().chain(stated).collect(),
        figures,
    };
    inputs.page(&page, runs)
}

/// A page before it is rendered.
struct Page {
    title: String,
    /// The lines that say what was simulated.
    preamble: Vec<String>,
    /// The models of what was not traced, and other assumptions, which are folded.
    details: Vec<String>,
    /// The conclusion in large letters.
    verdict: Vec<String>,
    facts: Vec<Fact>,
    /// The findings of a paper, as HTML.
    findings: String,
    /// The tables that stand before the figures.
    sections: Vec<Section>,
    figures: Vec<Figure>,
}

/// How many of a paper's findings the run confirms, contradicts and leaves open.
fn verdict(findings: &[Finding], seeds: usize) -> Vec<String> {
    let count = |verdict| findings.iter().filter(|one| one.verdict == verdict).count();
    let all = counted(findings.len(), "finding");
    if findings.is_empty() {
        return Vec::new();
    }
    vec![match seeds < SEEDS_MIN {
        true => format!("The paper's {all}: none decided, one seed tells nothing of the spread."),
        false => format!(
            "The paper's {all}: {} confirmed here, {} contradicted, {} not decided.",
            count(Verdict::Confirmed),
            count(Verdict::Contradicted),
            count(Verdict::NotDecided)
        ),
    }]
}

/// The headline figures of a run.
fn facts(runs: &Runs) -> Vec<Fact> {
    let all = || runs.by_spec.iter();
    let gsp = |one: &Measured| one.gsp.mean;
    let best = all().max_by(|(_, a), (_, b)| gsp(a).total_cmp(&gsp(b)));
    let busiest = all().max_by(|(_, a), (_, b)| a.bus_percent.mean.total_cmp(&b.bus_percent.mean));
    let mut facts = Vec::new();
    if let (Some((spec, best)), Some((busy, most))) = (best, busiest) {
        facts.push(Fact::new("Highest GSP", best.gsp.show(), runs.describe(spec)));
        let used = format!("{} %", most.bus_percent.show());
        facts.push(Fact::new("Busiest bus", used, runs.describe(busy)));
    }
    facts.push(Fact::new("Machines", runs.by_spec.len().to_string(), ""));
    facts.push(Fact::new("Seeds of each", runs.seeds.to_string(), ""));
    facts
}

/// The paper's sentences for values that the machine has.
fn about_machine(paper: &Paper, machine: &Machine) -> impl Iterator<Item = String> {
    let has = |condition: &str| {
        let value = condition.split_once('=');
        value.is_some_and(|(key, value)| varied::value(machine, key).as_deref() == Some(value))
    };
    paper.about_if.iter().filter(move |(condition, _)| has(condition)).map(|(_, text)| text.clone())
}

/// Renders the page of any other sweep.
pub(super) fn sweep_page(inputs: &RunInputs<'_>, runs: &Runs) -> String {
    let figures: Vec<Figure> =
        KINDS.iter().filter_map(|kind| over_processors(runs, kind)).collect();
    let page = Page {
        title: format!("Simulations of {}", inputs.name()),
        preamble: inputs.preamble(runs),
        details: inputs.details(runs),
        verdict: growth(runs),
        facts: facts(runs),
        findings: String::new(),
        sections: Vec::new(),
        figures,
    };
    inputs.page(&page, runs)
}

/// How the GSP of each kind of machine grows from its fewest processors to its most.
fn growth(runs: &Runs) -> Vec<String> {
    let mut kinds: Vec<Spec> = runs.by_spec.keys().map(|spec| Spec { cpus: 0, ..*spec }).collect();
    kinds.sort();
    kinds.dedup();
    let told = kinds.iter().filter_map(|kind| {
        let curve = runs.curve(kind);
        let [(few, first), .., (many, last)] = curve[..] else { return None };
        Some(format!(
            "<strong>{}</strong>: GSP {} with {few}, {} with {many} processors.",
            escape(&runs.kind(kind)),
            first.gsp.show(),
            last.gsp.show()
        ))
    });
    told.take(VERDICTS_MAX).collect()
}

/// The most kinds of machines that the conclusion names; all are in the figures and their tables.
const VERDICTS_MAX: usize = 6;

impl RunInputs<'_> {
    fn name(&self) -> String {
        let name = self.trace.file_name().unwrap_or(self.trace.as_os_str());
        name.to_string_lossy().into_owned()
    }

    fn page(&self, page: &Page, runs: &Runs) -> String {
        let machines = machines(runs);
        let figure = page.figures.iter().map(|figure| (&*figure.id, &*figure.title));
        let last = (&*machines.id, &*machines.title);
        let sections = page.sections.iter().map(|section| (&*section.id, &*section.title));
        let (first, others) = match &page.figures[..] {
            [] => (None, &[][..]),
            [first, others @ ..] => (Some(first), others),
        };
        let details: Vec<String> = page.details.iter().map(|line| escape(line)).collect();
        let mut body = String::new();
        if !page.verdict.is_empty() {
            body += &document::verdict("Verdict", &page.verdict);
        }
        body += &document::glance(&page.facts, first);
        body += &document::contents(sections.chain(figure).chain([last]));
        body += &page.findings;
        body.extend(page.sections.iter().map(document::section));
        body += &document::figures("Figures", others);
        body += &document::folded_words("How it was simulated", &details);
        body += &document::section(&machines);
        let common = self.base.to_toml();
        body += &document::folded(
            "Configuration",
            "text",
            &[(
                "What the machines have in common, where a table says nothing else".into(),
                &common,
            )],
        );
        document::render(&page.title, &page.preamble, &body, &page.figures)
    }

    /// Says what was simulated.
    fn preamble(&self, runs: &Runs) -> Vec<String> {
        let count = |count: u64| plain(count as f64);
        let order = match self.options.run_ahead_cycles {
            0 => "in strict order".into(),
            cycles => format!("processors run up to {cycles} cycles ahead while they hit"),
        };
        vec![
            format!(
                "{}: {} tasks, {} references, {} pages.",
                self.trace.display(),
                self.workload.tasks(),
                count(self.workload.references()),
                count(self.workload.pages() as u64)
            ),
            format!(
                "{} machines, each with the seeds 1 to {}; {order}. {}",
                runs.by_spec.len(),
                self.seeds,
                intervals(self.seeds)
            ),
        ]
    }

    /// Describes the end of a run, and the models of what was not traced.
    fn details(&self, runs: &Runs) -> Vec<String> {
        let (least, most) = runs.simulated();
        let (cpus, tasks) = (|| runs.by_spec.keys().map(|spec| spec.cpus), self.workload.tasks());
        let mut lines = vec![format!(
            "Of the trace {} to {} % were simulated, by machine: a run ends {}.",
            figure(least),
            figure(most),
            show::end_condition(&self.base.scheduler, cpus(), tasks)
        )];
        lines.extend(show::different_parts(least, most).map(sentenced));
        let idle = show::idle_processors(cpus().max().unwrap_or(0), tasks);
        lines.extend(idle.as_deref().map(sentenced));
        lines.push(kernel(&self.base.kernel));
        let basis = show::kernel_basis(self.workload, self.base);
        lines.extend(basis.iter().flat_map(|text| text.lines()).map(sentenced));
        lines.extend(show::listed(self.varied).map(|listed| format!("{listed}.")));
        if let Some(beyond) = show::levels_beyond(self.base) {
            lines.push(format!("Not the paper's machine: {beyond}."));
        }
        if self.base.bus != Bus::default() {
            lines.push("The bus is not the default one: see the configuration below.".into());
        }
        lines
    }
}

/// Turns a line into a sentence of a page.
fn sentenced(line: &str) -> String {
    format!("{}.", capital(line))
}

fn intervals(seeds: u32) -> &'static str {
    match seeds {
        1 => "With one seed nothing is known of the spread.",
        _ => "Means; ± is half of the 95 % interval of the mean (Student's t), bands are the same.",
    }
}

fn kernel(kernel: &Kernel) -> String {
    if !kernel.enabled {
        return "User references only: no kernel was simulated.".into();
    }
    format!(
        "The kernel's references are drawn, not traced: {} for a system call, {} % code, {} % of \
         data written; {} % of data in structures of {} bytes that all may use, {} % of those the \
         process's own; {} to one in a row, {} % of which may write; {} pages of code, {} of \
         structures, Zipf's exponents {} and {}.",
        kernel.references_mean,
        kernel.code_percent,
        kernel.write_percent,
        kernel.shared_percent,
        kernel.structure_bytes,
        kernel.own_percent,
        kernel.visit_mean,
        kernel.writing_visits_percent,
        kernel.code_pages,
        kernel.shared_pages,
        kernel.code_skew,
        kernel.structure_skew
    )
}

/// The findings by their verdicts, each with the numbers that decide or what leaves it open.
fn findings(findings: &[Finding]) -> String {
    let mut text = String::new();
    for (verdict, head) in [
        (Verdict::Confirmed, "What the paper found: confirmed"),
        (Verdict::Contradicted, "What the paper found: contradicted here"),
        (Verdict::NotDecided, "What the paper found: not decided here"),
    ] {
        let own = findings.iter().filter(|one| one.verdict == verdict);
        let own: Vec<String> = own.map(sentence).collect();
        if !own.is_empty() {
            text += &document::words("words", head, &own);
        }
    }
    text
}

fn sentence(finding: &Finding) -> String {
    let Finding { claim, place, verdict, numbers } = finding;
    format!(
        "<strong>{}</strong> ({}): {}. {}.",
        escape(claim),
        escape(place),
        verdict.name(),
        escape(&capital(numbers))
    )
}

fn capital(text: &str) -> String {
    let mut rest = text.chars();
    rest.next().map_or_else(String::new, |first| first.to_uppercase().chain(rest).collect())
}

/// A folded section with every machine.
fn machines(runs: &Runs) -> Section {
    let mut table = Table::new(&[
        "Machine",
        "GSP",
        "CPU, %",
        "Bus, %",
        "Misses, %",
        "After invalidations, %",
        "Coherence transactions, %",
        "Coherence's part of the bus's work, %",
        "Of the trace, %",
    ]);
    table.rows = runs.by_spec.iter().map(|(spec, one)| machine(runs, spec, one)).collect();
    Section { id: "machines".into(), title: "Every machine".into(), table, folded: true }
}

fn machine(runs: &Runs, spec: &Spec, one: &Measured) -> Vec<String> {
    vec![
        runs.describe(spec),
        one.gsp.show(),
        one.cpu_percent.show(),
        one.bus_percent.show(),
        figure(one.misses_where(|_| true).mean),
        figure(one.misses_where(Miss::is_invalidation).mean),
        figure(one.transactions().mean),
        figure(one.rate(|seed| seed.coherence_of_bus).mean),
        figure(one.simulated_percent),
    ]
}

/// A kind of figure over the number of processors, for any sweep.
struct Kind {
    id: &'static str,
    title: &'static str,
    y: &'static str,
    of: fn(&Measured) -> Value,
}

const KINDS: [Kind; 2] = [
    Kind { id: "gsp", title: "GSP over the number of processors", y: "GSP", of: |one| one.gsp },
    Kind {
        id: "bus",
        title: "Bus utilisation over the number of processors",
        y: "% of the time",
        of: |one| one.bus_percent,
    },
];

/// The most curves that can be distinguished in a figure; all others are in the table.
const CURVES_MAX: usize = 16;

/// Draws a figure; none if no kind of machine was simulated with several numbers of processors.
fn over_processors(runs: &Runs, kind: &Kind) -> Option<Figure> {
    let mut kinds: BTreeMap<Spec, String> = BTreeMap::new();
    for spec in runs.by_spec.keys() {
        kinds.insert(Spec { cpus: 0, ..*spec }, runs.kind(spec));
    }
    let mut table = Table::new(&["Machine", kind.title]);
    let mut curves = Vec::new();
    for (style, (spec, label)) in kinds.iter().enumerate() {
        let mut dots = Vec::new();
        for (cpus, one) in runs.curve(spec) {
            let value = (kind.of)(one);
            dots.push(value.dot(f64::from(cpus)));
            table.rows.push(vec![runs.describe(&Spec { cpus, ..*spec }), value.show()]);
        }
        curves.push(Curve { label: label.clone(), form: Form::Measured, style, dots });
    }
    let left_out = curves.len().saturating_sub(CURVES_MAX);
    curves.truncate(CURVES_MAX);
    if curves.iter().all(|curve| curve.dots.len() < 2) {
        return None;
    }
    let about = match left_out {
        0 => String::new(),
        more => format!("{more} more kinds of machines are in the table."),
    };
    let chart = Chart { x: Axis::linear("processors"), y: Axis::linear(kind.y), curves };
    let (id, title) = (kind.id.into(), kind.title.into());
    Some(Figure { id, title, about, drawing: Drawing::Lines(chart), table })
}
