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

/// How soon a name is looked up again whose server could not be reached.
const SOON: Duration = Duration::from_secs(1);

/// After so many times all names are looked up. The system does not say how long an answer holds.
const TIMES_UNTIL_ALL: u32 = 10;

/// Finds the addresses of a name, with a port.
type Resolve = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// Looks up the names of applications. Returns a notice for each that has no address.
pub(crate) fn look_up(applications: &[Arc<Application>]) -> Vec<String> {
    look_up_by(ask_system, applications, true)
}

/// Looks names up now and then, in a thread that ends when the result is dropped. Literal addresses
/// need none.
pub(crate) fn keep_looking_up(site: &Site) -> io::Result<Sender<()>> {
    let (keep, ended) = mpsc::channel();
    let servers = site.applications().iter().flat_map(|it| &it.settings().servers);
    if !servers.into_iter().any(|server| is_name(&server.address)) {
        return Ok(keep);
    }
    let applications = site.applications().to_vec();
    let look = move || {
        let mut times = 0;
        while ended.recv_timeout(SOON) == Err(RecvTimeoutError::Timeout) {
            times = (times + 1) % TIMES_UNTIL_ALL;
            look_up_by(ask_system, &applications, times == 0);
        }
    };
    thread::Builder::new().name("names".into()).spawn(look)?;
    Ok(keep)
}

fn is_name(address: &Address) -> bool {
    matches!(address, Address::Tcp { host, .. } if host.parse::<IpAddr>().is_err())
}

fn ask_system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    Ok((host, port).to_socket_addrs()?.collect())
}

/// Looks up the names of all servers, or of those that could not be reached since the last time. A
/// name that has no address now keeps the former ones.
fn look_up_by(resolve: Resolve, applications: &[Arc<Application>], all: bool) -> Vec<String> {
    let mut notices = Vec::new();
    for application in applications {
        for (index, server) in application.settings().servers.iter().enumerate() {
            let Address::Tcp { host, port } = &server.address else { continue };
            let is_unreached = application.take_unreached(index);
            if !all && !is_unreached {
                continue;
            }
            match resolve(host, *port) {
                Ok(addresses) if !addresses.is_empty() => {
                    application.set_addresses(index, &addresses);
                }
                Ok(_) => notices.push(format!("{}: no address for {host}", server.address)),
                Err(why) => {
                    notices.push(format!("{}: no address for {host}: {why}", server.address));
                }
            }
        }
    }
    notices
}

#[cfg(test)]
mod tests {
    use site::HostSettings;
    use site::host::RouteSettings;
    use upstream::{ApplicationSettings, ServerSettings};

    use super::*;

    fn address(last: u8) -> SocketAddr {
        SocketAddr::from(([192, 0, 2, last], 80))
    }

    /// docker-nginx 600, sentry self-hosted 4492, dify 40808: a server that was started again had
    /// another address, and was not found until the proxy was started again, too.
    #[test]
    fn a_server_that_moves_is_found() {
        let server = |host: &str| {
            let address = Address::Tcp { host: host.into(), port: 80 };
            ServerSettings { address, weight: 1 }
        };
        let servers = vec![server("one.test"), server("other.test")];
        let application = ApplicationSettings { servers, ..ApplicationSettings::default() };
        let mut host = HostSettings::new("/".into());
        host.routes =
            vec![RouteSettings { path: "/**".into(), application, ..RouteSettings::default() }];
        let site = Site::new(vec![host]).expect("it is right");
        let application = &site.applications()[0];
        let are = |one, other| {
            let found = [0, 1].map(|server| application.address(server, 0));
            assert_eq!(found, [one, other].map(|last| Some(address(last))));
        };
        assert_eq!(look_up_by(|_, _| Ok(vec![address(1)]), site.applications(), true), [""; 0]);
        are(1, 1);
        let moved: Resolve = |_, _| Ok(vec![address(2)]);
        look_up_by(moved, site.applications(), false);
        are(1, 1); // no connection to them has failed
        application.note_unreached(1);
        look_up_by(moved, site.applications(), false);
        are(1, 2);
        look_up_by(|_, _| Ok(vec![address(3)]), site.applications(), false);
        are(1, 2); // it was looked up since
        look_up_by(moved, site.applications(), true);
        are(2, 2);
        for nothing in [(|_, _| Ok(Vec::new())) as Resolve, |_, _| Err(io::ErrorKind::Other.into())]
        {
            let notices = look_up_by(nothing, site.applications(), true);
            assert!(notices[0].starts_with("http://one.test:80: no address for one.test"));
            assert_eq!(notices.len(), 2);
            are(2, 2);
        }
    }
}
