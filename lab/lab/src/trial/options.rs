//! The options of `ropewalk load` that follow from a trial, its workload and the generator. They
//! become words in one place, where a generator is started, and the generator alone parses these
//! words.

use super::{LOAD_GRACE, LoadGenerator, LoadSetup, PRIMERS, Target, Trial};
use crate::process::listed_cpus;
use crate::record::Offered;
use crate::workload::Workload;
use load::filling;
use load::options::{Arrivals, Options, OptionsError};
use load::plan::{ConnectionUse, Verify};
use std::net::SocketAddr;
use std::time::Duration;

/// Options of how much to send: those that a run does not set itself would conflict with those that
/// it sets.
const HOW_MUCH: [&str; 6] =
    ["--connections", "--rate", "--request-rate", "--arrivals", "--speed", "--sessions"];

/// The bound on run delay that the generator gets: whether others disturbed a trial is judged here,
/// where more is known of it.
const NO_RUN_DELAY_BOUND: &str = "100%";

impl Trial<'_> {
    /// The workload's own options, and those of the trial.
    pub(super) fn options(&self) -> Options {
        let mut options = self.workload.load.clone();
        self.add_options(&mut options);
        if self.is_filled() && options.warm_up.is_none() && self.workload.filling_us > 0 {
            options.warm_up = Some(format!("{}us", self.workload.filling_us));
        }
        options
    }

    /// For how many seconds before its window the load already runs.
    ///
    /// # Errors
    /// When the workload's own `--warm-up` is no time, in a line.
    pub fn before_window_s(&self) -> Result<f64, String> {
        Ok(self.options().warm_up_us()? as f64 / 1e6)
    }

    fn is_filled(&self) -> bool {
        self.waits_for_sessions && matches!(self.offered, Offered::RequestsPerS(_))
    }

    fn add_options(&self, options: &mut Options) {
        options.log = Some(self.workload.log.clone());
        match self.offered {
            Offered::RequestsPerS(rate) => {
                options.request_rate = Some(rate.to_string());
                let arrivals = if self.is_even { Arrivals::Constant } else { Arrivals::Poisson };
                options.arrivals = Some(arrivals);
            }
            Offered::Connections(connections) => options.clients = Some(connections),
        }
        options.duration = Some(format!("{}us", (self.window_s * 1e6).round()));
        options.seed = Some(self.seed);
        if let Some(target_us) = self.latency_target_us {
            options.latency_target = Some(format!("{target_us}us"));
        }
        if self.verify_bytes {
            options.verify = Some(Verify::Bytes);
        }
    }

    /// Checks that a generator takes the options of its workload, and that trials like this one,
    /// with this many generators, do not set the same options. Otherwise every trial would be void.
    ///
    /// # Errors
    /// The first option that is wrong, how, and what to do, in a line.
    pub fn check(&self, load_setup: &LoadSetup, generators: usize) -> Result<(), OptionsError> {
        let unused_address = SocketAddr::from(([127, 0, 0, 1], 1));
        let say = |options: &mut Options| {
            self.add_options(options);
            load_setup.add_options(options, unused_address, (0, generators), true);
        };
        let (own, mut all, mut given) = (&self.workload.load, self.options(), Options::default());
        say(&mut all);
        say(&mut given);
        let explain = |why: OptionsError| {
            why.at(format_args!("workload {}: `load`", self.workload.described.name))
        };
        let typed = |why: String| Err(explain(OptionsError::Typed(why)));
        if let Some(url) = own.urls.first() {
            return typed(format!("{url}: each run names its server itself: leave it out"));
        }
        let given = given.option_names();
        let is_given = |option: &String| given.contains(option) || HOW_MUCH.contains(&&**option);
        match own.option_names().into_iter().find(is_given) {
            Some(option) => typed(format!("{option}: each run gives it itself: leave it out")),
            None => self.resolved(&all).map_err(explain),
        }
    }

    /// Checks that these options go together, and that what they request comes due.
    fn resolved(&self, all: &Options) -> Result<(), OptionsError> {
        let (plan, _) = all.resolve()?;
        if !self.is_filled() {
            return Ok(());
        }
        if self.workload.load.warm_up.is_none() {
            filling::bounded(self.workload.filling_us)?;
        }
        Ok(filling::check(&plan)?)
    }
}

impl LoadSetup {
    /// The options of one of the generators: `asked`, and what follows from which server it loads
    /// from where.
    pub(super) fn options(
        &self,
        asked: &Options,
        generator: usize,
        server: Target<'_>,
        waits_for_line: bool,
    ) -> Options {
        let mut options = asked.clone();
        let LoadGenerator { address, sources, .. } = &self.generators[generator];
        let address = address.unwrap_or(server.address);
        self.add_options(&mut options, address, (generator, self.generators.len()), waits_for_line);
        options.sources.extend(sources.iter().map(ToString::to_string));
        if options.run_delay_bound.is_none() {
            options.run_delay_bound = Some(NO_RUN_DELAY_BOUND.to_owned());
        }
        // Generators that share a load must send the same requests, whatever the address.
        if self.generators.len() > 1 && options.hosts.is_empty() {
            options.hosts.push(server.address.to_string());
        }
        set_threads(&mut options, &self.generators[generator]);
        options
    }

    /// Adds the options of the generator of this number, of this many, whatever it requests.
    fn add_options(
        &self,
        options: &mut Options,
        address: SocketAddr,
        (generator, generators): (usize, usize),
        waits_for_line: bool,
    ) {
        options.urls = vec![format!("http://{address}")];
        if self.lag_bound.is_some() {
            options.lag_bound.clone_from(&self.lag_bound);
        }
        if generators > 1 {
            options.share = Some(format!("{}/{generators}", generator + 1));
        }
        if waits_for_line {
            options.start_at = Some("-".to_owned());
        }
    }
}

/// Options that request once everything that a workload will request.
pub(super) fn priming(workload: &Workload) -> Options {
    let is_known = !workload.root.as_os_str().is_empty();
    Options {
        log: Some(workload.prime.clone()),
        clients: Some(PRIMERS),
        sessions: Some(1),
        connection_use: Some(ConnectionUse::Keep),
        verify: Some(if is_known { Verify::Bytes } else { Verify::None }),
        files: workload.load.files.clone(),
        ..Options::default()
    }
}

/// Sets as many threads as the generator has processors: the default is one. The workload's own
/// options take precedence.
fn set_threads(options: &mut Options, generator: &LoadGenerator) {
    let is_said = options.threads.is_some() || options.cpus.is_some();
    if generator.cpus.len() < 2 || is_said {
        return;
    }
    match generator.is_shared {
        true => options.threads = Some(generator.cpus.len()),
        false => options.cpus = Some(listed_cpus(&generator.cpus)),
    }
}

/// The longest that a load can take that does not hang: warming up, its window, and then the time
/// that is left to requests under way.
pub(super) fn run_time(window: Duration, options: &Options) -> Result<Duration, String> {
    Ok(window + Duration::from_micros(options.beyond_window_us()?) + LOAD_GRACE)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{load_setup, trial, workload};
    use super::*;

    fn words(options: &Options) -> String {
        options.to_arguments().join(" ")
    }

    #[test]
    fn a_trial_is_a_command() {
        let workload = workload("--timeout 1s");
        let trial = Trial {
            offered: Offered::RequestsPerS(1500.5),
            window_s: 0.25,
            seed: 7,
            latency_target_us: Some(50_000),
            verify_bytes: true,
            ..trial(&workload)
        };
        let typed = "--log /l --request-rate 1500.5 --arrivals poisson --duration 250000us \
                     --timeout 1s --verify bytes --latency-target 50000us --seed 7";
        assert_eq!(words(&trial.options()), typed);
        let closed = Trial { offered: Offered::Connections(64), verify_bytes: false, ..trial };
        assert!(words(&closed.options()).starts_with("--log /l --connections 64 --duration"));
        let even = Trial { is_even: true, ..trial };
        assert!(words(&even.options()).contains("--request-rate 1500.5 --arrivals constant "));
    }

    /// Otherwise a window that is shorter than a session gets only a part of the rate, and a server
    /// seems to sustain a rate that it never had to serve.
    #[test]
    fn an_open_load_begins_before_its_window_by_what_sessions_pause() {
        let check = |load, offered, waits_for_sessions, expected: Option<&str>| {
            let workload = Workload { filling_us: 21_000_000, ..workload(load) };
            let trial = Trial { offered, waits_for_sessions, ..trial(&workload) };
            let options = trial.options();
            assert_eq!(options.warm_up.as_deref(), expected, "{load} {offered:?}");
            let us = options.warm_up_us().expect("it is a time");
            assert_eq!(trial.before_window_s(), Ok(us as f64 / 1e6));
        };
        let open = Offered::RequestsPerS(100.0);
        check("", open, true, Some("21000000us"));
        check("--warm-up 5s", open, true, Some("5s"));
        check("", open, false, None);
        check("", Offered::Connections(3), true, None);
    }

    #[test]
    fn a_generator_adds_what_follows_from_it() {
        let server = Target::already_running(([127, 0, 0, 1], 81).into());
        let check = |generators: usize, load: &str, waits_for_line: bool, expected: &str| {
            let load_setup = LoadSetup {
                generators: vec![LoadGenerator::beside(&[], &[1]); generators],
                ..load_setup()
            };
            let options =
                load_setup.options(&workload(load).load, generators - 1, server, waits_for_line);
            assert_eq!(words(&options), format!("http://127.0.0.1:81 {expected}"), "{load}");
        };
        check(1, "", false, "--run-delay-bound 100%");
        check(1, "--idle 8", true, "--idle 8 --run-delay-bound 100% --start-at -");
        check(1, "--run-delay-bound 3%", false, "--run-delay-bound 3%");
        let shared = "--host 127.0.0.1:81 --run-delay-bound 100% --share 2/2 --start-at -";
        check(2, "", true, shared);
        let named = "--host a --host b --run-delay-bound 100% --share 2/2 --start-at -";
        check(2, "--host a --host b", true, named);
    }

    #[test]
    fn a_generator_has_a_thread_for_each_of_its_cpus() {
        let check = |cpus: &[usize], is_shared: bool, load: &str, expected: &str| {
            let servers = if is_shared { cpus } else { &[] };
            let mut options = workload(load).load;
            set_threads(&mut options, &LoadGenerator::beside(servers, cpus));
            assert_eq!(words(&options), expected, "{load:?}");
        };
        check(&[1], false, "", "");
        check(&[4, 6, 7], false, "--timeout 1s", "--timeout 1s --cpus 4,6,7");
        check(&[0, 1], true, "", "--threads 2");
        check(&[4, 6], false, "--threads=3", "--threads 3");
        check(&[4, 6], false, "-t3", "--threads 3");
        check(&[4, 6], true, "--cpus 4", "--cpus 4");
    }

    /// Otherwise every run would refuse it.
    #[test]
    fn an_option_that_runs_give_themselves_is_refused() {
        let check = |load: &str, verify_bytes, generators, expected: &str| {
            let workload = workload(load);
            let load_setup = LoadSetup { lag_bound: Some("1s".into()), ..load_setup() };
            let trial = Trial { verify_bytes, ..trial(&workload) };
            let why = trial.check(&load_setup, generators).expect_err("there is no log");
            let expected = OptionsError::Typed(format!("workload w: `load`: {expected}"));
            assert_eq!(why, expected, "{load}");
        };
        let not_there = "/l: there is no such file: name a log of sessions";
        check("--verify none", false, 1, not_there);
        check("--verify none", true, 1, "--verify: each run gives it itself: leave it out");
        check("--share 1/3", true, 1, not_there);
        check("--share 1/3", true, 2, "--share: each run gives it itself: leave it out");
        check("--timeout 1s --run-delay-bound 5%", true, 1, not_there);
        check("--arrivals trace", false, 1, "--arrivals: each run gives it itself: leave it out");
        check("--sessions 500", false, 1, "--sessions: each run gives it itself: leave it out");
        check("--seed 5", false, 1, "--seed: each run gives it itself: leave it out");
        check("--lag-bound 5s", false, 1, "--lag-bound: each run gives it itself: leave it out");
        check("a.example", false, 1, "a.example: each run names its server itself: leave it out");
    }

    #[test]
    fn a_load_is_waited_for_as_long_as_it_says() {
        let check = |load: &str, expected_s: u64| {
            let found = run_time(Duration::from_secs(2), &workload(load).load);
            assert_eq!(found, Ok(LOAD_GRACE + Duration::from_secs(expected_s)), "{load:?}");
        };
        check("", 22);
        check("--warm-up 3m --timeout=90s --connect-timeout 5s", 277);
        let wrong = run_time(Duration::ZERO, &workload("--timeout 5").load);
        assert!(wrong.is_err_and(|why| why.starts_with("--timeout 5: ")));
    }

    #[test]
    fn copies_are_compared_with_when_there_are_some() {
        let words = |load: &str| words(&priming(&workload(load)));
        let usual = "--log /p --connections 4 --sessions 1 --connection keep --verify bytes";
        assert_eq!(words("--idle 5"), usual);
        assert_eq!(words("--files /f --idle 5"), format!("{usual} --files /f"));
    }
}
