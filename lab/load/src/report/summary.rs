//! The summary for a terminal: about thirty lines for a first-time reader. Programs should read
//! `json`, because the wording of the summary may change at any time.

use std::fmt::Write as _;

use command::Emphasis;
use hdrhistogram::Histogram;

use super::{fairness, format};
use crate::error_kind::ErrorKind;
use crate::outcome::{Arrivals, Outcome, Setting};
use crate::void;

/// The most columns of a line, unless a single word is longer.
const COLUMNS: usize = 100;

/// The part of the requests asked below which a server has fallen behind; a search for the limit
/// has the same bound by default.
const KEPT_UP: f64 = 0.99;

/// Writes the summary of `outcome`.
#[must_use]
pub fn render(outcome: &Outcome, emphasis: Emphasis) -> String {
    let mut text = String::new();
    if !outcome.void.is_empty() {
        let void = "VOID: this run says nothing about the server. The reasons are at the end.";
        text.push_str(&emphasis.warning(void));
        text.push_str("\n\n");
    }
    run(&mut text, outcome);
    text.push('\n');
    rates(&mut text, outcome);
    text.push('\n');
    times(&mut text, outcome);
    text.push('\n');
    errors(&mut text, outcome);
    generator(&mut text, outcome);
    endings(&mut text, outcome, emphasis);
    text
}

/// Writes a line with its label. All texts begin in the same column.
fn line(text: &mut String, label: &str, what: &str) {
    wrapped(text, &format!("{label:<14}"), what);
}

/// Writes `what` behind `label`, wrapped to the width of a terminal between words.
fn wrapped(text: &mut String, label: &str, what: &str) {
    let indent = label.chars().count();
    let mut column = indent;
    text.push_str(label);
    for (index, word) in what.split(' ').enumerate() {
        let len = word.chars().count();
        if index > 0 && column + 1 + len > COLUMNS {
            // Writing to a string does not fail; this holds for the whole file.
            let _ = write!(text, "\n{:indent$}", "");
            column = indent;
        } else if index > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += len;
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
}

fn run(text: &mut String, outcome: &Outcome) {
    let setting = &outcome.setting;
    line(text, "Run", &setting.command);
    line(text, "", &arrivals(setting));
    let from = http1::format_date((outcome.started_unix_us / 1_000_000).cast_signed());
    let from = String::from_utf8_lossy(&from);
    let plural =
        |count: u32, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let generators = match setting.share.len() as u32 {
        0 | 1 if setting.generators <= 1 => plural(1, "generator"),
        held => format!("{held} of {}", plural(setting.generators, "generator")),
    };
    let threads = plural(setting.threads, "thread");
    let verified = match setting.verify.as_str() {
        "bytes" if setting.log_beyond_get => "every byte of GETs verified",
        "bytes" => "every byte verified",
        "length" => "lengths verified where known",
        _ => "bodies not verified",
    };
    let window = format::duration(outcome.window_us);
    line(text, "", &format!("{window} from {from}; {generators}, {threads}; {verified}"));
}

fn arrivals(setting: &Setting) -> String {
    let what = match (&setting.log, setting.connection_use.as_str()) {
        (Some(log), "session") => format!("the sessions of {log}, a connection each"),
        (Some(log), "request") => format!("the sessions of {log}, a connection for each request"),
        (Some(log), _) => format!("the sessions of {log}, connections shared"),
        (None, "session") if setting.arrivals == Arrivals::Closed => {
            "requests, connections kept".into()
        }
        (None, "session" | "request") => "requests, a connection each".into(),
        (None, _) => "requests, connections kept".into(),
    };
    let when = match setting.arrivals {
        Arrivals::Closed => {
            let clients = format::count(setting.connections.unwrap_or(0));
            format!("closed: {clients} clients, each goes on when it has its answer")
        }
        Arrivals::Trace => "open: as the log's times say".into(),
        Arrivals::Constant => format!("open: constant arrivals, {} a second", setting.rate),
        Arrivals::Poisson => format!("open: poisson arrivals, {} a second", setting.rate),
    };
    format!("{when}; {what}")
}

fn rates(text: &mut String, outcome: &Outcome) {
    let counts = &outcome.measures.counts;
    let errors = outcome.measures.errors.total();
    let count = format::count;
    let sessions = format!(
        "{} due, {} started, {} completed, {} failed, {} unfinished",
        count(counts.sessions_due),
        count(counts.sessions_started),
        count(counts.sessions_completed),
        count(counts.sessions_failed),
        count(counts.sessions_unfinished)
    );
    // Without a log a session is a request, or a client.
    if outcome.setting.log.is_some() {
        line(text, "Sessions", &sessions);
    }
    let requests = format!(
        "{} due: {} served ({}), {} failed ({}), {} given up unsent",
        count(outcome.requests_due()),
        count(counts.replies),
        format::percent(outcome.served_share()),
        count(errors),
        format::percent(outcome.failed_share()),
        count(counts.requests_abandoned)
    );
    line(text, "Requests", &requests);
    let bytes_per_s = outcome.body_rate();
    let asked = outcome.asked_rate().map(|asked| format!("{} asked, ", format::rate(asked)));
    let rates = format!(
        "requests/s: {}{} offered, {} served; bodies {}/s ({:.1} Mbit/s)",
        asked.unwrap_or_default(),
        format::rate(outcome.offered_rate()),
        format::rate(outcome.throughput()),
        format::bytes(bytes_per_s),
        bytes_per_s * 8e-6
    );
    line(text, "Rates", &rates);
    if outcome.kept_up_share() < KEPT_UP {
        let behind = format!(
            "the server fell behind: it kept up with {} of what was asked; sessions under way: {} \
             when the window began, {} at its end",
            format::percent(outcome.kept_up_share()),
            count(counts.sessions_under_way_begin),
            count(counts.sessions_under_way_end)
        );
        line(text, "", &behind);
    }
    if let Some(target_us) = outcome.setting.latency_target_us {
        let goodput = format!(
            "{} replies/s within {} ({} of the replies)",
            format::rate(outcome.goodput()),
            format::duration(target_us),
            format::percent(outcome.in_time_share())
        );
        line(text, "Goodput", &goodput);
    }
}

fn times(text: &mut String, outcome: &Outcome) {
    const HEADS: [&str; 7] = ["mean", "p50", "p90", "p99", "p99.9", "p99.99", "max"];
    const OWN: [f64; 7] = [f64::NAN, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0];
    let times = &outcome.measures.times;
    let mut row = |label: &str, cells: [String; 7]| {
        let cells = cells.iter().fold(String::new(), |mut row, cell| {
            let _ = write!(row, "{cell:>10}");
            row
        });
        let _ = writeln!(text, "{label:<14}{cells}");
    };
    let is_closed = outcome.setting.arrivals == Arrivals::Closed;
    let own = OWN.map(|quantile| !quantile.is_nan() && outcome.is_mostly_own_lag(quantile));
    let mut corrected = cells(&times.corrected);
    for (cell, _) in corrected.iter_mut().zip(own).filter(|(_, is_own)| *is_own) {
        cell.push('*');
    }
    row("Times [ms]", HEADS.map(String::from));
    row(if is_closed { "  whole" } else { "  corrected" }, corrected);
    row(if is_closed { "  from sending" } else { "  uncorrected" }, cells(&times.uncorrected));
    row("  first byte", cells(&times.first_byte));
    row("  connect", cells(&times.connect));
    row("  own lag", cells(&times.lag));
    if own.contains(&true) {
        text.push_str("  * Mostly the generator's own lag: of the server it says little.\n");
    }
    text.push_str(if is_closed { OF_CLOSED } else { OF_OPEN });
}

const OF_OPEN: &str = "  \
    Corrected times begin when a request was due, uncorrected ones when it was sent: where they\n  \
    differ, requests had to wait before they were sent, and users would have felt the corrected \
    ones.\n";

const OF_CLOSED: &str = "  \
    A client asks again when it has its answer, so nothing is due while the server is slow:\n  \
    these times do not show the delays of users that come at a rate. Give a --rate to see them.\n";

fn cells(times: &Histogram<u64>) -> [String; 7] {
    let quantile = |quantile| format::quantile_ms(times, quantile);
    let mean = if times.is_empty() { "-".into() } else { format::ms(times.mean()) };
    let max = quantile(1.0);
    [mean, quantile(0.5), quantile(0.9), quantile(0.99), quantile(0.999), quantile(0.9999), max]
}

fn errors(text: &mut String, outcome: &Outcome) {
    let errors = &outcome.measures.errors;
    if errors.total() == 0 {
        line(text, "Errors", "none");
    } else {
        let share = format::percent(outcome.error_share());
        let total = format::count(errors.total());
        line(text, "Errors", &format!("{total}, {share} of the requests issued"));
    }
    for (kind, count) in errors.iter() {
        let hint = hint(kind, &outcome.setting);
        let label = format!("  {:<18} {:>10}  ", kind.name(), format::count(count));
        wrapped(text, &label, &hint);
    }
    statuses(text, outcome);
    if let Some(bad) = &outcome.first_bad {
        line(text, "First wrong", bad);
    }
    if let Some(refused) = &outcome.first_refused {
        line(text, "First unread", refused);
    }
    let surplus = outcome.measures.counts.surplus_replies;
    if surplus > 0 {
        let told = format!(
            "{} times more bytes came than the reply has, or nothing was asked: they were dropped, \
             and the connection not used again",
            format::count(surplus)
        );
        line(text, "Surplus", &told);
    }
}

/// Writes the statuses if there is any other than 2xx.
fn statuses(text: &mut String, outcome: &Outcome) {
    let status = &outcome.measures.counts.status;
    let counted = |digit: &usize| status[*digit] > 0;
    if (0..status.len()).filter(|digit| *digit != 2).any(|digit| counted(&digit)) {
        let name = |digit: usize| match digit {
            0 => format!("other {}", format::count(status[0])),
            _ => format!("{digit}xx {}", format::count(status[digit])),
        };
        let named: Vec<_> = [1, 2, 3, 4, 5, 0].into_iter().filter(counted).map(name).collect();
        line(text, "Status", &named.join(", "));
    }
}

/// The hint for a kind of error, with the figure that the user set.
fn hint(kind: ErrorKind, setting: &Setting) -> String {
    let figure = match kind {
        ErrorKind::TimeoutConnecting => format::duration(setting.connect_timeout_us),
        _ if kind.is_timeout() => format::duration(setting.timeout_us),
        ErrorKind::OutOfDescriptors => format!("it was {}", setting.descriptors_max),
        _ => return kind.hint().into(),
    };
    format!("{} ({figure})", kind.hint())
}

fn generator(text: &mut String, outcome: &Outcome) {
    let counts = &outcome.measures.counts;
    let connections = format!(
        "{} tried, {} made, at most {} at a time",
        format::count(counts.connections_tried),
        format::count(counts.connections),
        format::count(counts.connections_open_max)
    );
    line(text, "Connections", &connections);
    if outcome.setting.idle > 0 || counts.idle_connections > 0 {
        let idle = format!(
            "{} rested beside the load, {} of them closed by the server",
            format::count(counts.idle_connections),
            format::count(counts.idle_closed)
        );
        line(text, "", &idle);
    }
    let (user_us, system_us) = outcome.cpu_us;
    let cpu_us = user_us.saturating_add(system_us);
    let each = if counts.requests == 0 { 0.0 } else { cpu_us as f64 / counts.requests as f64 };
    let cpus = cpu_us as f64 / outcome.window_us.max(1) as f64;
    let (lag_us, bound_us) = void::judged_lag_us(outcome, outcome.setting.lag_bound_us);
    let lag = &outcome.measures.times.lag;
    let mut generator = format!("{each:.1} us of CPU a request ({cpus:.2} CPUs)");
    // In a closed run without think times no request has an intended time.
    if !lag.is_empty() {
        let (lag, bound) = (format::ms(lag_us as f64), format::ms(bound_us as f64));
        let _ = write!(generator, "; own lag p99 {lag} ms, allowed {bound} ms");
    }
    line(text, "Generator", &generator);
    interference(text, outcome);
    if lag_us > bound_us {
        let hint = "the generator was late: give it more threads, CPUs that nothing else uses, \
                    or share the run among more generators";
        line(text, "", hint);
    }
    let kinds = outcome.measures.files.iter().filter(|row| row.requests > 0).count();
    if let Some(fairness) = fairness::spread_line(outcome).filter(|_| kinds > 1) {
        line(text, "Fairness", &fairness);
    }
}

/// Writes what other processes took from generator and server.
fn interference(text: &mut String, outcome: &Outcome) {
    let mut waited = |whose: &str, share: f64| {
        let waited = format!(
            "interference: other processes made {whose} threads wait for a CPU for up to {} of the \
             time in which they wanted to run",
            format::percent(share)
        );
        line(text, "", &waited);
    };
    if let Some(share) = void::generator_delay(outcome) {
        waited("its", share);
    }
    if let Some(share) = void::server_delay(outcome) {
        waited("the server's", share);
    }
    if let Some(cpus) = void::server_cpus_in_use(outcome) {
        let unknown = format!(
            "interference: other processes used up to {cpus:.2} of the server's CPUs, and how long \
             its threads waited for them is not known"
        );
        line(text, "", &unknown);
    }
}

fn endings(text: &mut String, outcome: &Outcome, emphasis: Emphasis) {
    if outcome.interrupted {
        text.push_str("\nInterrupted: these are the results so far.\n");
    }
    for missing in outcome.incomplete() {
        let _ = writeln!(text, "\n{}{}", missing[..1].to_uppercase(), &missing[1..]);
    }
    if !outcome.void.is_empty() {
        let void = emphasis.warning("VOID: THIS RUN SAYS NOTHING ABOUT THE SERVER");
        let _ = writeln!(text, "\n{void}");
        for reason in &outcome.void {
            wrapped(text, "  ", &reason.to_string());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;
    use crate::backlog::{Backlog, STEPS};
    use crate::outcome::ServerCpu;

    fn render(outcome: &Outcome) -> String {
        super::render(outcome, Emphasis::default())
    }

    #[test]
    fn golden() {
        sample::check_golden("summary.txt", &render(&sample::run()));
        sample::check_golden("summary_void.txt", &render(&sample::void()));
        let mut closed = sample::empty();
        closed.setting.connections = Some(64);
        sample::check_golden("summary_empty.txt", &render(&closed));
    }

    /// The server's part of the reported time is 5.3 ms.
    #[test]
    fn times_that_are_mostly_the_generators_own_are_marked() {
        let mut outcome = sample::empty();
        outcome.setting.arrivals = Arrivals::Constant;
        let times = &mut outcome.measures.times;
        for (times, near_us, far_us) in
            [(&mut times.corrected, 900, 13_400), (&mut times.lag, 30, 8_100)]
        {
            times.record_n(near_us, 90).unwrap();
            times.record_n(far_us, 10).unwrap();
        }
        let text = render(&outcome);
        let row = text.lines().find(|line| line.starts_with("  corrected")).unwrap();
        let cells: Vec<_> = row.split_whitespace().skip(2).collect();
        assert_eq!(cells, ["0.900", "0.900", "13.41*", "13.41*", "13.41*", "13.41*"]);
        assert!(text.contains("* Mostly the generator's own lag"), "{text}");
        assert!(!render(&sample::run()).contains('*'));
    }

    /// A server that takes a second for each of the requests of a session.
    #[test]
    fn a_server_that_falls_behind_is_reported() {
        let mut outcome = sample::empty();
        outcome.window_us = 3_000_000;
        outcome.setting.arrivals = Arrivals::Constant;
        let counts = &mut outcome.measures.counts;
        (counts.sessions_due, counts.replies, counts.replies_in_window) = (60, 120, 60);
        counts.sessions_under_way_end = 60;
        let settled = vec![0; STEPS];
        let asked = (0..STEPS).map(|step| if step % 8 == 0 { 5 } else { 0 }).collect();
        outcome.measures.backlog = Backlog { begin: 0, asked, settled };
        let text = render(&outcome);
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in [
            "requests/s: 105.0 asked, 40.0 offered, 20.0 served;",
            "the server fell behind: it kept up with ",
            "sessions under way: 0 when the window began, 60 at its end",
        ] {
            assert!(words.contains(part), "{part}: {text}");
        }
    }

    #[test]
    fn the_summary_claims_no_more_verification_than_there_is() {
        let check = |verify: &str, log_beyond_get, expected: &str| {
            let mut outcome = sample::empty();
            outcome.setting.verify = verify.into();
            outcome.setting.log_beyond_get = log_beyond_get;
            let text = render(&outcome);
            let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(words.contains(&format!("; {expected} Requests ")), "{text}");
        };
        check("none", false, "bodies not verified");
        check("length", true, "lengths verified where known");
        check("bytes", false, "every byte verified");
        check("bytes", true, "every byte of GETs verified");
    }

    /// How long threads that have ended waited is not known; that others ran is known all the same.
    #[test]
    fn others_on_the_servers_cpus_are_reported() {
        let of = |run_delay_us, others_us| {
            let mut outcome = sample::empty();
            outcome.server_cpu = Some(ServerCpu { run_delay_us, others_us, used_us: 750_000 });
            let text = render(&outcome).split_whitespace().collect::<Vec<_>>().join(" ");
            let told = text.split("interference: ").nth(1).unwrap_or_default();
            told.chars().take(69).collect::<String>()
        };
        let waited = "other processes made the server's threads wait for a CPU for up to 25";
        assert_eq!(of(Some(250_000), 900_000), waited);
        assert_eq!(of(Some(250_000), 10_000), "");
        let used = "other processes used up to 0.90 of the server's CPUs, and how long it";
        assert_eq!(of(None, 900_000), used);
        assert_eq!(of(None, 10_000), "");
    }

    #[test]
    fn the_sample_fits_a_terminal() {
        let text = render(&sample::run());
        assert!(text.lines().count() <= 30, "{}", text.lines().count());
        for line in text.lines().chain(render(&sample::void()).lines()) {
            assert!(line.chars().count() <= COLUMNS, "{line}");
        }
    }
}
