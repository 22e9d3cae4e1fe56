//! The line that says what a server serves, where and with what, when it has started.

use std::net::SocketAddr;

use os::cpu_list;
use site::host::{HostSettings, RouteSettings};
use upstream::{Address, Protocol};

use crate::config::{Settings, one_line};
use crate::reach;
use crate::ready::Ready;

/// Describes a server: `serving examples/site at http://127.0.0.1:8080 with event-loop-per-core (2
/// workers …)`.
pub(crate) fn start_line(settings: &Settings, ready: &Ready, addresses: &[SocketAddr]) -> String {
    let what = match settings.hosts.as_slice() {
        [host] => describe_host(host),
        hosts => format!("{} hosts", hosts.len()),
    };
    let places = reach::places(addresses, os::interfaces::outward_address);
    let name = ready.engine.spec.name;
    format!("serving {} at {places} with {name} ({})", one_line(&what), describe_workers(ready))
}

/// The root of a host, and the application if there is one; if that answers all requests, no root.
fn describe_host(host: &HostSettings) -> String {
    let root = host.root.display();
    let answers = |route: &&RouteSettings| !route.application.servers.is_empty();
    let routes: Vec<&RouteSettings> = host.routes.iter().filter(answers).collect();
    match routes.as_slice() {
        [] => root.to_string(),
        [route] if takes_all(route) => format!("the application {}", servers(route)),
        [route] => format!("{root} ({} by {})", route.path, servers(route)),
        routes => format!("{root} ({} routes to applications)", routes.len()),
    }
}

/// Whether nothing is left to files.
fn takes_all(route: &RouteSettings) -> bool {
    let takes_each_path = match route.application.protocol {
        Protocol::Http => true,
        Protocol::FastCgi => route.application.fastcgi.suffix.is_empty(),
        Protocol::Cgi => false,
    };
    takes_each_path && route.path == "/**" && route.methods.is_empty()
}

/// The servers of an application, or where its programs are.
fn servers(route: &RouteSettings) -> String {
    let servers = &route.application.servers;
    let shown = servers.iter().map(|server| match &server.address {
        Address::Programs(folder) if folder.as_os_str().is_empty() => "programs in it".into(),
        Address::Programs(folder) => format!("programs in {}", folder.display()),
        address if route.application.protocol == Protocol::Http => address.to_string(),
        address => address.place(),
    });
    shown.collect::<Vec<_>>().join(", ")
}

fn describe_workers(ready: &Ready) -> String {
    let count = |count: usize, one: &str, more: &str| {
        format!("{count} {}", if count == 1 { one } else { more })
    };
    let mut workers = count(ready.layout.workers(), "worker", "workers");
    if ready.layout.processes.is_some() {
        let processes = count(ready.layout.shares.len(), "process", "processes");
        workers = format!("{workers} in {processes}");
    }
    let lists = ready.partitions.iter().map(|partition| cpu_list::show(&partition.cpus));
    match ready.partitions.iter().any(|partition| !partition.cpus.is_empty()) {
        true => format!("{workers} on CPUs {}", lists.collect::<Vec<_>>().join(" | ")),
        false => format!("{workers}, not pinned"),
    }
}
