//! The applications of a server as its own process sees them: it finds out where their servers are
//! and whether these are up, for all workers, and shows them in the status.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;

use session::Counters;
use site::Site;
use upstream::{Application, Protocol};

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

/// A line of the status for each application that is a server or several.
pub(crate) fn status(site: &Site, counters: &[Arc<Counters>]) -> Vec<String> {
    let has_servers = |it: &&Arc<Application>| it.settings().protocol != Protocol::Cgi;
    let applications = site.applications().iter().filter(has_servers);
    let mut lines: Vec<String> = applications
        .map(|application| {
            let number = application.number();
            let tunnels = (number < Counters::TUNNELS - 1).then(|| tunnels_open(counters, number));
            show(application, tunnels)
        })
        .collect();
    if site.applications().iter().any(|it| it.number() >= Counters::TUNNELS - 1) {
        let count = tunnels_open(counters, Counters::TUNNELS - 1);
        let tunnels = counted(count, "tunnel");
        lines.push(format!("{tunnels} open to applications that came after the first seven"));
    }
    lines
}

fn tunnels_open(counters: &[Arc<Counters>], counter: usize) -> u64 {
    let tunnels = counters.iter().map(|counters| counters.tunnels_open[counter].get());
    tunnels.fold(0, u64::wrapping_add)
}

fn show(application: &Application, tunnels: Option<u64>) -> String {
    let servers = &application.settings().servers;
    let mut line = format!("{}: {}", application.name(), counted(servers.len() as u64, "server"));
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
    }
}
