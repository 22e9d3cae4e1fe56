//! The keys of `[[host.route]]`: what answers requests in place of files.

use std::num::NonZero;

use site::check;
use site::host::{HostSettings, RouteSettings};
use upstream::{
    Address, ApplicationSettings, Balancing, FastCgiSettings, HealthSettings, Protocol,
    ServerSettings,
};

use super::error::ConfigFault;
use super::field::{Key, quote, read_rows, show_list};
use super::schema::{
    DAY_MS, GIB, MIB, bytes, checked, choice, number, other, read_checked, read_glob, show_choice,
    show_texts, switch,
};
use super::value::{Fault, Unit, Value};

/// The keys of one `[[host.route]]`.
pub(super) const ROUTE_KEYS: &[Key<RouteSettings>] = &[
    other("path", |row, v| read_glob(&mut row.path, v), |row| quote(&row.path)),
    other("methods", read_methods, |row| show_texts(&row.methods)),
    other(
        "proxy",
        |row, v| read_servers(row, v, Protocol::Http),
        |row| show_servers(row, Protocol::Http),
    ),
    other(
        "fastcgi",
        |row, v| read_servers(row, v, Protocol::FastCgi),
        |row| show_servers(row, Protocol::FastCgi),
    ),
    other("cgi", read_programs, show_programs),
    other("weights", read_weights, |row| {
        show_list(row.application.servers.iter().map(|server| server.weight.to_string()))
    }),
    choice!("balance", BALANCINGS, application.balancing),
    other("health", read_health, |row| quote(&row.application.health.target)),
    number("health_ms", HEALTH_MS_MIN..=DAY_MS, |row| &mut row.application.health.interval_ms),
    other(
        "suffix",
        |row, v| read_checked(&mut row.application.fastcgi.suffix, v, check::suffix),
        |row| quote(&row.application.fastcgi.suffix),
    ),
    other("root", read_script_root, |row| quote(&row.application.fastcgi.root)),
    other("sendfile_root", read_sendfile_root, |row| quote(&row.application.sendfile_root)),
    number("children", 0..=MIB, |row| &mut row.application.fastcgi.children),
    number("in_flight_max", 1..=MIB, |row| &mut row.application.limits.in_flight_max),
    number("queue_max", 0..=MIB, |row| &mut row.application.limits.queue_max),
    number("queue_ms", 1..=DAY_MS, |row| &mut row.application.limits.queue_ms),
    number("connect_ms", 1..=DAY_MS, |row| &mut row.application.limits.connect_ms),
    number("first_byte_ms", 1..=DAY_MS, |row| &mut row.application.limits.first_byte_ms),
    number("silence_ms", 1..=DAY_MS, |row| &mut row.application.limits.silence_ms),
    number("tunnel_idle_ms", 1..=DAY_MS, |row| &mut row.application.limits.tunnel_idle_ms),
    number("idle_ms", 0..=DAY_MS, |row| &mut row.application.limits.idle_ms),
    bytes("body_bytes_max", 0..=1024 * GIB, |row| &mut row.application.limits.body_bytes_max),
    switch("ignore_client_abort", |row| &mut row.application.ignore_client_abort),
    other("trusted", read_trusted, |row| {
        show_list(row.application.trusted.iter().map(|address| quote(&address.to_string())))
    }),
];

const BALANCINGS: &[(&str, Balancing)] = &[
    ("auto", Balancing::Auto),
    ("round-robin", Balancing::RoundRobin),
    ("least-requests", Balancing::LeastRequests),
    ("two-choices", Balancing::TwoChoices),
    ("client-address", Balancing::ClientAddress),
];

pub(super) fn read_routes(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.routes = read_rows(value, "host.route", ROUTE_KEYS, &["path"], Default::default)?;
    let is_idle = |row: &&RouteSettings| {
        let ApplicationSettings { protocol, fastcgi, .. } = &row.application;
        *protocol != Protocol::FastCgi && *fastcgi != FastCgiSettings::default()
    };
    if let Some(row) = host.routes.iter().find(is_idle) {
        return Err(value.fault(ConfigFault::FastCgiKey(row.path.clone())));
    }
    let is_unasked = |row: &&RouteSettings| {
        let ApplicationSettings { protocol, servers, health, .. } = &row.application;
        let is_asked = *protocol == Protocol::Http && !servers.is_empty();
        !is_asked && *health != HealthSettings::default()
    };
    if let Some(row) = host.routes.iter().find(is_unasked) {
        return Err(value.fault(ConfigFault::HealthKey(row.path.clone())));
    }
    bound_programs(host, value)
}

/// Programs that run at a time for each CPU, unless the route says otherwise: more would only take
/// memory.
const PROGRAMS_PER_CPU: u64 = 4;

fn bound_programs(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    let has_bound =
        |row: Value<'_>| Ok(row.table().is_some_and(|it| it.contains_key("in_flight_max")));
    let bounded = value.list(has_bound)?;
    for (row, has_bound) in host.routes.iter_mut().zip(bounded) {
        if row.application.protocol == Protocol::Cgi {
            check::program_path(&row.path).map_err(|why| value.fault(ConfigFault::Setting(why)))?;
            if !has_bound {
                let cpus = std::thread::available_parallelism().map_or(1, NonZero::get) as u64;
                row.application.limits.in_flight_max = PROGRAMS_PER_CPU * cpus;
            }
        }
    }
    Ok(())
}

/// Reads where the programs are that answer, if programs do.
fn read_programs(row: &mut RouteSettings, value: &Value<'_>) -> Result<(), Fault> {
    let folder = match (value.switch(), value.text()) {
        (Ok(false), _) => return Ok(()),
        (Ok(true), _) => "",
        (Err(_), Ok(folder)) if folder.starts_with('/') && !folder.contains('\0') => folder,
        _ => return Err(value.must_be("true, or a directory from / on")),
    };
    if !row.application.servers.is_empty() && row.application.protocol != Protocol::Cgi {
        return Err(value.fault(ConfigFault::TwoProtocols));
    }
    let address = Address::Programs(folder.into());
    row.application.servers = vec![ServerSettings { address, weight: 1 }];
    row.application.protocol = Protocol::Cgi;
    Ok(())
}

fn show_programs(row: &RouteSettings) -> String {
    match row.application.servers.first().map(|server| &server.address) {
        Some(Address::Programs(folder)) if folder.as_os_str().is_empty() => "true".into(),
        Some(Address::Programs(folder)) => quote(&folder.to_string_lossy()),
        _ => "false".into(),
    }
}

/// Checks that come more often cost more than they tell.
const HEALTH_MS_MIN: u64 = 10;

/// A longer target is no page of a server's health.
const HEALTH_TARGET_BYTES_MAX: usize = 1024;

fn read_health(row: &mut RouteSettings, value: &Value<'_>) -> Result<(), Fault> {
    let target = value.text()?;
    let is_plain = target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#');
    let is_target = target.starts_with('/') && is_plain && target.len() <= HEALTH_TARGET_BYTES_MAX;
    if !target.is_empty() && !is_target {
        return Err(value.must_be("a path as it is in a request, like \"/health\""));
    }
    row.application.health.target = target.into();
    Ok(())
}

fn read_methods(row: &mut RouteSettings, value: &Value<'_>) -> Result<(), Fault> {
    row.methods = value.list(|item| checked(&item, check::method))?;
    Ok(())
}

/// Reads the servers of an application, of which there may be none: then files answer. Weights that
/// were read before are kept.
fn read_servers(
    row: &mut RouteSettings,
    value: &Value<'_>,
    protocol: Protocol,
) -> Result<(), Fault> {
    let (form, read): (_, fn(&str) -> Option<Address>) = match protocol {
        Protocol::Http => (HTTP_SERVER, read_http_server),
        Protocol::FastCgi => (FASTCGI_SERVER, read_fastcgi_server),
        Protocol::Cgi => unreachable!("programs are no servers"),
    };
    let read = |item: Value<'_>| read(item.text()?).ok_or_else(|| item.must_be(form));
    let addresses = if value.is_list() { value.list(read)? } else { vec![read(value.clone())?] };
    if addresses.is_empty() {
        return Ok(());
    }
    if !row.application.servers.is_empty() && row.application.protocol != protocol {
        return Err(value.fault(ConfigFault::TwoProtocols));
    }
    let mut weights = row.application.servers.iter().map(|server| server.weight);
    let server = |address| ServerSettings { address, weight: weights.next().unwrap_or(1) };
    row.application.servers = addresses.into_iter().map(server).collect();
    row.application.protocol = protocol;
    Ok(())
}

const HTTP_SERVER: &str = "like \"http://127.0.0.1:3000\" or \"unix:/run/app.sock\"";
const FASTCGI_SERVER: &str = "like \"unix:/run/php/php-fpm.sock\" or \"127.0.0.1:9000\"";

/// Reads the address of an HTTP server.
fn read_http_server(text: &str) -> Option<Address> {
    if let Some(path) = text.strip_prefix("unix:") {
        return read_socket(path);
    }
    let authority = text.strip_prefix("http://")?;
    read_authority(authority.strip_suffix('/').unwrap_or(authority), Some(80))
}

/// Reads the address of a FastCGI server, which has no port of its own.
fn read_fastcgi_server(text: &str) -> Option<Address> {
    match text.strip_prefix("unix:") {
        Some(path) => read_socket(path),
        None => read_authority(text, None),
    }
}

fn read_socket(path: &str) -> Option<Address> {
    // The kernel has room for 107 bytes and a NUL.
    let fits = path.starts_with('/') && path.len() <= 107 && !path.contains('\0');
    fits.then(|| Address::Unix(path.into()))
}

fn read_authority(authority: &str, usual: Option<u16>) -> Option<Address> {
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()?),
        _ => (authority, usual?),
    };
    check::host_name(host).ok()?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    if port == 0 || host.starts_with('*') {
        return None;
    }
    Some(Address::Tcp { host: host.into(), port })
}

fn show_servers(row: &RouteSettings, protocol: Protocol) -> String {
    let servers = row.application.servers.iter();
    let servers = servers.filter(|_| row.application.protocol == protocol);
    show_list(servers.map(|server| match protocol {
        Protocol::Http => quote(&server.address.to_string()),
        Protocol::FastCgi | Protocol::Cgi => quote(&server.address.place()),
    }))
}

fn read_script_root(row: &mut RouteSettings, value: &Value<'_>) -> Result<(), Fault> {
    row.application.fastcgi.root = match value.text()? {
        root if root.is_empty() || root.starts_with('/') => root.into(),
        _ => return Err(value.must_be("a directory from / on, as the application sees it")),
    };
    Ok(())
}

fn read_sendfile_root(row: &mut RouteSettings, value: &Value<'_>) -> Result<(), Fault> {
    let text = value.text()?;
    let root = text.strip_suffix('/').unwrap_or(text);
    // Paths are compared with it byte by byte.
    let is_step = |name: &str| !matches!(name, "" | "." | "..") && !name.contains('\0');
    let is_directory = root.strip_prefix('/').is_some_and(|steps| steps.split('/').all(is_step));
    if !text.is_empty() && !is_directory {
        return Err(value.must_be("a directory below /, without . and .."));
    }
    row.application.sendfile_root = root.into();
    Ok(())
}

fn read_weights(row: &mut RouteSettings, value: &Value<'_>) -> Result<(), Fault> {
    let weights = value.list(|item| item.number(Unit::Plain, &(1..=1000)))?;
    if weights.len() != row.application.servers.len() {
        return Err(value.must_be("a list with a number for each server, after the list of these"));
    }
    for (server, weight) in row.application.servers.iter_mut().zip(weights) {
        server.weight = weight as u32;
    }
    Ok(())
}

fn read_trusted(row: &mut RouteSettings, value: &Value<'_>) -> Result<(), Fault> {
    row.application.trusted = value.list(|item| {
        item.text()?.parse().map_err(|_| item.must_be("an address, like \"192.0.2.1\""))
    })?;
    Ok(())
}
