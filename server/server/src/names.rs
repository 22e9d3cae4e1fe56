//! The addresses of applications: names are looked up at the start, and again and again after it,
//! so that a server which moves is found (containers get new addresses when they are restarted).
//! The process that was started does so for all workers.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use site::Site;
use upstream::{Address, Application};

/// The interval of looking names up. The system tells nobody how long an answer holds.
const INTERVAL: Duration = Duration::from_secs(10);

/// Looks up the names of all applications. Returns a notice for each that has no address.
pub(crate) fn look_up(site: &Site) -> Vec<String> {
    site.applications().iter().flat_map(|application| look_up_one(application)).collect()
}

/// Looks names up now and then, in a thread that ends when the result is dropped. Literal addresses
/// need none.
pub(crate) fn keep_looking_up(site: &Arc<Site>) -> io::Result<Sender<()>> {
    let (keep, ended) = mpsc::channel();
    let servers = site.applications().iter().flat_map(|it| &it.settings().servers);
    if !servers.into_iter().any(|server| is_name(&server.address)) {
        return Ok(keep);
    }
    let site = Arc::clone(site);
    let look = move || {
        while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
            look_up(&site); // a name that has no address now keeps the former ones
        }
    };
    thread::Builder::new().name("names".into()).spawn(look)?;
    Ok(keep)
}

fn is_name(address: &Address) -> bool {
    matches!(address, Address::Tcp { host, .. } if host.parse::<IpAddr>().is_err())
}

fn look_up_one(application: &Application) -> Vec<String> {
    let mut notices = Vec::new();
    for (index, server) in application.settings().servers.iter().enumerate() {
        let Address::Tcp { host, port } = &server.address else { continue };
        match (host.as_str(), *port).to_socket_addrs() {
            Ok(addresses) => {
                let addresses: Vec<SocketAddr> = addresses.collect();
                application.set_addresses(index, &addresses);
            }
            Err(why) => notices.push(format!("{}: no address for {host}: {why}", server.address)),
        }
    }
    notices
}
