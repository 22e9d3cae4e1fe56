//! The applications of a server as its own process sees them: it finds out where their servers are
//! and whether these are up, for all workers, and shows them in the status.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;

use session::Counters;
use site::Site;
use upstream::{Application, CallLimits, Protocol};

use crate::health::Checks;
use crate::names;

/// Finds out about applications until it is dropped.
pub(crate) struct Lookout {
    _names: Sender<()>,
    _checks: Option<Checks>,
}

impl Lookout {
    /// Begins; results of checks are reported with `report`.
    pub(crate) fn begin(site: &Site, report: impl Fn(&str) + Send + 'static) -> io::Result<Self> {
        Ok(Self { _names: names::keep_looking_up(site)?, _checks: Checks::begin(site, report)? })
    }
}

/// The number of cells in which processes share what is found out about all applications.
pub(crate) fn finding_cells(site: &Site) -> usize {
    site.applications().iter().map(|application| application.finding_cells()).sum()
}

/// Has all applications use these cells.
pub(crate) fn share_findings(site: &Site, mut cells: &'static [AtomicU64]) {
    for application in site.applications() {
        let (own, others) = cells.split_at(application.finding_cells());
        application.share_findings(own);
        cells = others;
    }
}

/// The counter of tunnels to all applications that came later than those with counters of their
/// own.
const LATER: usize = Counters::TUNNELS - 1;

/// Lines of the status for each application: what is known of it, and its limits. Then the tunnels
/// that are open to others.
pub(crate) fn status(site: &Site, counters: &[Arc<Counters>]) -> Vec<String> {
    let applications = site.applications();
    let mut lines = Vec::new();
    for application in applications {
        let number = application.number();
        let has_tunnels = number < LATER && application.settings().protocol == Protocol::Http;
        lines.push(show(application, has_tunnels.then(|| tunnels_open(counters, number))));
        lines.push(limits(application.limits()));
    }
    let is_there = |number: &usize| applications.iter().any(|it| it.number() == *number);
    let retired = (0..LATER).filter(|number| !is_there(number));
    let retired = retired.map(|number| tunnels_open(counters, number)).fold(0, u64::wrapping_add);
    let later = tunnels_open(counters, LATER);
    for (count, which) in
        [(retired, "that no route leads to any more"), (later, "that came after the first seven")]
    {
        if count > 0 {
            lines.push(format!("{} open to applications {which}", counted(count, "tunnel")));
        }
    }
    lines
}

/// By the names of their keys.
fn limits(limits: &CallLimits) -> String {
    let CallLimits { in_flight_max, queue_max, queue_ms, connect_ms, .. } = limits;
    let CallLimits { first_byte_ms, silence_ms, tunnel_idle_ms, idle_ms, .. } = limits;
    let body_bytes_max = limits.body_bytes_max;
    format!(
        "  in_flight_max {in_flight_max}, queue_max {queue_max}, queue_ms {queue_ms}, \
         connect_ms {connect_ms}, first_byte_ms {first_byte_ms}, silence_ms {silence_ms}, \
         tunnel_idle_ms {tunnel_idle_ms}, idle_ms {idle_ms}, body_bytes_max {body_bytes_max}"
    )
}

fn tunnels_open(counters: &[Arc<Counters>], counter: usize) -> u64 {
    let tunnels = counters.iter().map(|counters| counters.tunnels_open[counter].get());
    tunnels.fold(0, u64::wrapping_add)
}

fn show(application: &Application, tunnels: Option<u64>) -> String {
    let servers = &application.settings().servers;
    let what = match application.settings().protocol {
        Protocol::Cgi => "programs".into(),
        _ => counted(servers.len() as u64, "server"),
    };
    let mut line = format!("{}: {what}", application.name());
    let down = servers.iter().enumerate().filter(|(index, _)| !application.is_up(*index));
    let down: Vec<String> = down.map(|(_, server)| server.address.to_string()).collect();
    if !down.is_empty() {
        line += &format!(", {} of them down ({})", down.len(), down.join(", "));
    }
    if let Some(tunnels) = tunnels {
        line += &format!(", {} open", counted(tunnels, "tunnel"));
    }
    line
}

fn counted(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use upstream::{Address, ApplicationSettings, ServerSettings};

    use super::*;

    #[test]
    fn a_line_names_the_servers_that_are_down() {
        let server = |port| {
            let address = Address::Tcp { host: "127.0.0.1".into(), port };
            ServerSettings { address, weight: 1 }
        };
        let servers = vec![server(3000), server(3001)];
        let settings = ApplicationSettings { servers, ..ApplicationSettings::default() };
        let application = Application::new(settings, 0);
        let name = "http://127.0.0.1:3000: 2 servers";
        assert_eq!(show(&application, None), name);
        application.set_up(1, false);
        let down = ", 1 of them down (http://127.0.0.1:3001), 3 tunnels open";
        assert_eq!(show(&application, Some(3)), [name, down].concat());
        let limits = limits(&CallLimits { queue_max: 7, silence_ms: 90, ..CallLimits::default() });
        assert!(limits.contains(", queue_max 7, ") && limits.contains(", silence_ms 90, "));
    }
}
