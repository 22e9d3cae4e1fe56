//! A load by wrk in place of `ropewalk load`: wrk is started and ended around the window, and its
//! counts become an outcome. It has no response times, and the generator's lateness has no meaning:
//! nothing is due before the last reply.
//!
//! That wrk can do what is requested is checked before anything is measured.

use super::together::{Part, disturbances};
use super::{CLOSE_GRACE, LoadSetup, LoadUse, Observation, RunFailure, Side, Target, Trial};
use crate::client::Client;
use crate::http::Connection;
use crate::observe::{Observer, WindowUse};
use crate::record::Offered;
use crate::wrk::{self, Load};
use load::error_kind::ErrorKind;
use load::measures::Measures;
use load::outcome::{Outcome, Setting};
use load::report::json;
use os::accounting;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

/// An outcome, its text, and what was observed beside it.
type Loaded = (Outcome, String, Result<Observation, &'static str>);

impl LoadSetup {
    /// Loads a server with wrk. wrk ends up to a tenth of a second after it was told to: what the
    /// server used, and what wrk counted, are of all the time that it ran; what others used, and
    /// how busy CPUs were, are of the window alone.
    pub(super) fn load_by_wrk(
        &self,
        server: Target<'_>,
        trial: &Trial<'_>,
        observer: &Observer<'_>,
    ) -> Result<Loaded, RunFailure> {
        let (workload, generator) = (trial.workload, &self.generators[0]);
        let Offered::Connections(connections) = trial.offered else {
            return Err(RunFailure::of_generator("wrk sends at no rate"));
        };
        let address = generator.address.unwrap_or(server.address);
        let load = Load {
            url: &format!("http://{address}{}", workload.ready_path),
            connections: connections as usize,
            connection: workload.connection(),
            script: workload.wrk_script.as_deref(),
            cpus: &generator.cpus,
            duration: Duration::from_secs_f64(trial.window_s),
        };
        let before = observer.snapshot();
        let from_us = crate::unix_us();
        let client = wrk::start(&load).map_err(RunFailure::Setup)?;
        let window_us = load.duration.as_micros() as u64;
        let (_running, ended) = channel();
        let span = (from_us, from_us + window_us);
        let (_, in_window) = WindowUse::watch(span, &server.groups(), &ended, || ());
        let used = LoadUse::of_client(&client, (from_us, window_us));
        let counted = wrk::finish(client).map_err(|why| match server.ended().is_empty() {
            true => RunFailure::of_generator(why),
            false => RunFailure::no_load(why),
        })?;
        thread::sleep(CLOSE_GRACE);
        let observed = observer.since(&before);
        if counted.requests == 0 {
            return Err(RunFailure::no_load("wrk got no reply"));
        }
        let side = Side { load_setup: self, server, observer };
        let disturbed = in_window.as_ref().and_then(|in_window| {
            disturbances(&[Part { side, observed: &observed, in_window, load: &used }])
        });
        let seen = side.observation(observed, in_window.as_ref(), &used, disturbed);
        let outcome = outcome(&load, &counted, from_us, workload.mean_body_bytes());
        let text = json::write(&outcome);
        Ok((outcome, text, Ok(seen)))
    }
}

impl LoadUse {
    /// What a generator has used until now.
    fn of_client(client: &Client, window_us: (u64, u64)) -> Self {
        let mut used = Self { window_us, cpu_us: 0, waited_us: None, wake_ups: 0 };
        for thread in accounting::threads(client.id()) {
            let Some(scheduled) = accounting::scheduled(client.id(), thread) else { continue };
            used.cpu_us += scheduled.ran_ns / 1000;
            used.waited_us = Some(used.waited_us.unwrap_or(0) + scheduled.waited_ns / 1000);
            // A turn ends when the thread waits, but for the few in which others take its CPU.
            used.wake_ups += scheduled.turns;
        }
        used
    }
}

/// What wrk counted, as `ropewalk load` would have written it.
fn outcome(load: &Load<'_>, counted: &wrk::Outcome, from_us: u64, mean_body_bytes: f64) -> Outcome {
    let mut measures = Measures::default();
    let replies = counted.requests.saturating_sub(counted.not_successful);
    let counts = &mut measures.counts;
    counts.requests = counted.requests;
    counts.replies = replies;
    counts.replies_in_window = replies;
    counts.replies_in_time = replies;
    counts.body_bytes_in_window = (replies as f64 * mean_body_bytes) as u64;
    counts.body_bytes = counts.body_bytes_in_window;
    let (closed_as_asked, connection_use) = match load.connection {
        Connection::KeepAlive => (0, "keep"),
        // wrk counts an error for each connection that the server closes as it was asked to.
        Connection::Close => (counted.requests, "request"),
    };
    let errors = &mut measures.errors;
    errors.set(ErrorKind::BadStatus, counted.not_successful);
    errors.set(ErrorKind::Reset, counted.read_errors.saturating_sub(closed_as_asked));
    errors.set(ErrorKind::Other, counted.other_errors);
    Outcome {
        setting: Setting {
            command: load.command().join(" "),
            targets: vec![load.url.to_owned()],
            connections: Some(load.connections as u64),
            connection_use: connection_use.to_owned(),
            verify: "none".to_owned(),
            duration_us: Some(load.duration.as_micros() as u64),
            threads: load.threads() as u32,
            ..Setting::default()
        },
        window_us: (counted.seconds * 1e6) as u64,
        started_unix_us: from_us,
        interval_us: 1_000_000,
        cpu_us: (counted.cpu.as_micros() as u64, 0),
        run_delay_us: None,
        wake_ups: 0,
        others_us: None,
        server_cpu: None,
        measures,
        void: Vec::new(),
        first_bad: None,
        first_refused: None,
        interrupted: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Figures;

    fn load(connection: Connection) -> Load<'static> {
        Load {
            url: "http://127.0.0.1:1/a",
            connections: 64,
            connection,
            script: None,
            cpus: &[1, 2],
            duration: Duration::from_secs(1),
        }
    }

    #[test]
    fn what_wrk_counted_becomes_figures() {
        let counted = wrk::Outcome {
            requests: 1010,
            seconds: 1.25,
            not_successful: 10,
            read_errors: 1010,
            cpu: Duration::from_millis(500),
            ..wrk::Outcome::default()
        };
        let made = outcome(&load(Connection::Close), &counted, 7, 1024.0);
        assert_eq!(json::parse(&json::write(&made)), Ok(made.clone()), "it is kept whole");
        let figures = Figures::from_outcome(&made);
        assert_eq!((figures.throughput_per_s, figures.body_bytes_per_s), (800.0, 819_200.0));
        assert_eq!(figures.errors, [("bad_status".to_owned(), 10)].into());
        assert_eq!((figures.client_busy_share, figures.client_cpu_us_per_request), (0.2, 500.0));
        assert!(figures.times_us.is_empty() && figures.spread_points.is_none());
        assert_eq!((figures.kept_up_share, figures.idle_closed), (1.0, 0));
        let kept = outcome(&load(Connection::KeepAlive), &counted, 7, 1024.0);
        assert_eq!(kept.measures.errors.get(ErrorKind::Reset), 1010, "they were to be kept");
    }
}
