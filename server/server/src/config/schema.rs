//! Every key of the configuration, in the order of `ropewalk check` and of the documentation.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

use engines::SendfileMode;
use file_cache::PolicyKind;
use site::check;
use site::fields::{HeaderRule, When};
use site::host::{Dotfiles, HostSettings, RedirectSettings, Symlinks};
use site::negotiate::Coding;

use super::address::ListenAddress;
use super::error::ConfigFault;
use super::field::{Field, Key, quote, read_rows, show_list, show_row};
use super::route::{ROUTE_KEYS, read_routes};
use super::settings::{
    AccessForm, CacheScope, Division, ErrorLogging, KnobSetting, ListenerMode, Pin, SendfileChoice,
    Settings,
};
use super::value::{Fault, Unit, Value};
use os::cpu_list;

pub(super) const MIB: u64 = 1 << 20;
pub(super) const GIB: u64 = 1 << 30;
/// The longest timeout that can be set: a longer one is not meant.
pub(super) const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// A key whose value is one of the names in a table.
macro_rules! choice {
    ($key:literal, $names:expr, $($field:ident).+) => {
        other(
            $key,
            |it, value| value.choice($names).map(|chosen| it.$($field).+ = chosen),
            |it| show_choice($names, it.$($field).+),
        )
    };
}

pub(super) use choice;

/// The keys of the file.
pub(super) const KEYS: &[Key<Settings>] = &[
    other("listen", read_listen, |s| show_addresses(&s.listen)),
    other("host", read_hosts, |s| show_rows(HOST_KEYS, &s.hosts)),
    text("engine.name", |s| &mut s.engine.name),
    number("engine.processes", 0..=1024, |s| &mut s.engine.processes),
    other("engine.knobs", read_knobs, |s| show_map(&s.engine.knobs, show_knob)),
    choice!("partitions.by", DIVISIONS, partitions.by),
    number("partitions.count", 1..=1024, |s| &mut s.partitions.count),
    other("partitions.cpus", read_cpus, |s| {
        show_list(s.partitions.cpus.iter().map(|list| quote(&cpu_list::show(list))))
    }),
    choice!("partitions.pin", PINS, partitions.pin),
    other("partitions.listen", read_partition_listen, |s| {
        show_list(s.partitions.listen.iter().map(|list| show_addresses(list)))
    }),
    switch("partitions.set_irq_affinity", |s| &mut s.partitions.set_irq_affinity),
    bytes("cache.small_body_bytes_max", 0..=16 * MIB, |s| &mut s.cache.small_body_bytes_max),
    bytes_or("cache.bytes_max", "auto", 0..=1024 * GIB, |s| &mut s.cache.bytes_max),
    number_or("cache.descriptors_max", "auto", 0..=MIB, |s| &mut s.cache.descriptors_max),
    number_or("cache.descriptors_idle_ms", "never", 1000..=DAY_MS, |s| {
        &mut s.cache.descriptors_idle_ms
    }),
    number("cache.entries_max", 0..=1 << 30, |s| &mut s.cache.entries_max),
    choice!("cache.policy", POLICIES, cache.policy),
    number_or("cache.revalidate_ms", "never", 0..=DAY_MS, |s| &mut s.cache.revalidate_ms),
    number("cache.first_level_slots_max", 1..=MIB, |s| &mut s.cache.first_level_slots_max),
    choice!("cache.scope", SCOPES, cache.scope),
    number_or("limits.connections_max", "auto", 1..=16 * MIB, |s| &mut s.limits.connections_max),
    number("limits.requests_per_connection_max", 0..=u32::MAX as u64, |s| {
        &mut s.limits.requests_per_connection_max
    }),
    bytes("limits.head_bytes_max", 256..=MIB, |s| &mut s.limits.head_bytes_max),
    bytes("limits.request_line_bytes_max", 64..=MIB, |s| &mut s.limits.request_line_bytes_max),
    number("limits.fields_max", 1..=256, |s| &mut s.limits.fields_max),
    bytes("limits.unread_body_bytes_max", 0..=GIB, |s| &mut s.limits.unread_body_bytes_max),
    number("limits.ranges_max", 1..=1000, |s| &mut s.limits.ranges_max),
    number_or("limits.listings_max", "auto", 1..=MIB, |s| &mut s.limits.listings_max),
    number("timeouts.head_ms", 1..=DAY_MS, |s| &mut s.timeouts.head_ms),
    number("timeouts.head_bytes_per_s_min", 1..=MIB, |s| &mut s.timeouts.head_bytes_per_s_min),
    number("timeouts.idle_ms", 1..=DAY_MS, |s| &mut s.timeouts.idle_ms),
    number("timeouts.write_ms", 1..=DAY_MS, |s| &mut s.timeouts.write_ms),
    number("timeouts.linger_ms", 0..=DAY_MS, |s| &mut s.timeouts.linger_ms),
    number("timeouts.drain_ms", 0..=DAY_MS, |s| &mut s.timeouts.drain_ms),
    choice!("log.access", ACCESS_FORMS, log.access),
    choice!("log.errors", ERROR_LOGGING, log.errors),
    text("log.path", |s| &mut s.log.path),
    bytes("log.buffer_bytes", 1024..=MIB, |s| &mut s.log.buffer_bytes),
    number("log.queue_buffers_max", 1..=4096, |s| &mut s.log.queue_buffers_max),
    number("socket.backlog", 1..=engines::BACKLOG_MAX as u64, |s| &mut s.socket.backlog),
    number("socket.defer_accept_s", 0..=60, |s| &mut s.socket.defer_accept_s),
    bytes("socket.unsent_bytes_max", 0..=1024 * MIB, |s| &mut s.socket.unsent_bytes_max),
    choice!("socket.listeners", LISTENER_MODES, socket.listeners),
    choice!("socket.sendfile", SENDFILE_CHOICES, socket.sendfile),
];

/// The keys of one `[[host]]`.
pub(super) const HOST_KEYS: &[Key<HostSettings>] = &[
    other("names", read_names, |h| show_texts(&h.names)),
    switch("default", |h| &mut h.default),
    other("root", read_root, |h| quote(&h.root.to_string_lossy())),
    other("index", read_index, |h| show_texts(&h.index)),
    switch("html_suffix", |h| &mut h.html_suffix),
    other("spa_fallback", read_spa_fallback, |h| {
        quote(h.spa_fallback.as_deref().unwrap_or_default())
    }),
    other("front_controller", read_front_controller, |h| {
        quote(h.front_controller.as_deref().unwrap_or_default())
    }),
    other("error_pages", read_error_pages, |h| show_map(&h.error_pages, |page| quote(page))),
    switch("listing", |h| &mut h.listing),
    choice!("dotfiles", DOTFILES, dotfiles),
    choice!("symlinks", SYMLINKS, symlinks),
    other(
        "precompressed",
        |h, v| v.list(|item| item.choice(CODINGS)).map(|codings| h.precompressed = codings),
        |h| show_list(h.precompressed.iter().map(|coding| show_choice(CODINGS, *coding))),
    ),
    number_or("precompressed_lag_s_max", "any", 0..=DAY_MS, |h| &mut h.precompressed_lag_s_max),
    other("cache_control", read_cache_control, |h| show_rows(CACHE_CONTROL_KEYS, &h.cache_control)),
    other("header", read_headers, |h| show_rows(HEADER_KEYS, &h.headers)),
    other("redirect", read_redirects, |h| show_rows(REDIRECT_KEYS, &h.redirects)),
    other("route", read_routes, |h| show_rows(ROUTE_KEYS, &h.routes)),
    other("mime_types", read_mime_types, |h| show_map(&h.mime_types, |media| quote(media))),
    bytes("etag_hash_bytes_max", 0..=GIB, |h| &mut h.etag_hash_bytes_max),
];

/// The keys of one `[[host.cache_control]]`.
pub(super) const CACHE_CONTROL_KEYS: &[Key<(String, String)>] = &[
    other("path", |row, v| read_glob(&mut row.0, v), |row| quote(&row.0)),
    other("value", |row, v| read_field(&mut row.1, v, "Cache-Control"), |row| quote(&row.1)),
];

/// The keys of one `[[host.header]]`.
pub(super) const HEADER_KEYS: &[Key<HeaderRule>] = &[
    other("path", |row, v| read_glob(&mut row.path, v), |row| quote(&row.path)),
    other(
        "name",
        |row, v| read_checked(&mut row.name, v, check::field_name),
        |row| quote(&row.name),
    ),
    other("value", |row, v| read_field(&mut row.value, v, "value"), |row| quote(&row.value)),
    choice!("when", WHEN, when),
];

/// The keys of one `[[host.redirect]]`.
pub(super) const REDIRECT_KEYS: &[Key<RedirectSettings>] = &[
    other("from", |row, v| read_glob(&mut row.from, v), |row| quote(&row.from)),
    other(
        "to",
        |row, v| read_checked(&mut row.to, v, check::redirect_target),
        |row| quote(&row.to),
    ),
    other("status", read_redirect_status, |row| row.status.to_string()),
];

const POLICIES: &[(&str, PolicyKind)] =
    &[("s3-fifo", PolicyKind::S3Fifo), ("lru", PolicyKind::Lru), ("clock", PolicyKind::Clock)];
const ACCESS_FORMS: &[(&str, AccessForm)] =
    &[("off", AccessForm::Off), ("combined", AccessForm::Combined), ("json", AccessForm::Json)];
const ERROR_LOGGING: &[(&str, ErrorLogging)] =
    &[("stderr", ErrorLogging::StandardError), ("off", ErrorLogging::Off)];
const DIVISIONS: &[(&str, Division)] = &[
    ("count", Division::Count),
    ("cache", Division::Cache),
    ("socket", Division::Socket),
    ("node", Division::Node),
];
const PINS: &[(&str, Pin)] = &[("auto", Pin::Auto), ("always", Pin::Always), ("never", Pin::Never)];
const SCOPES: &[(&str, CacheScope)] = &[
    ("auto", CacheScope::Auto),
    ("worker", CacheScope::Worker),
    ("partition", CacheScope::Partition),
    ("process", CacheScope::Process),
];
const LISTENER_MODES: &[(&str, ListenerMode)] = &[
    ("auto", ListenerMode::Auto),
    ("shared", ListenerMode::Shared),
    ("exclusive", ListenerMode::Exclusive),
    ("reuseport", ListenerMode::ReusePort),
    ("reuseport-cpu", ListenerMode::ReusePortCpu),
];
const SENDFILE_CHOICES: &[(&str, SendfileChoice)] = &[
    ("auto", SendfileChoice::Auto),
    ("nonblocking", SendfileChoice::Mode(SendfileMode::NonBlocking)),
    ("blocking", SendfileChoice::Mode(SendfileMode::Blocking)),
    ("probe", SendfileChoice::Mode(SendfileMode::Probe)),
    ("off", SendfileChoice::Mode(SendfileMode::Off)),
];
const DOTFILES: &[(&str, Dotfiles)] = &[("deny", Dotfiles::Deny), ("allow", Dotfiles::Allow)];
const SYMLINKS: &[(&str, Symlinks)] =
    &[("beneath", Symlinks::Beneath), ("never", Symlinks::Never), ("anywhere", Symlinks::Anywhere)];
const WHEN: &[(&str, When)] = &[("always", When::Always), ("success", When::Success)];
const CODINGS: &[(&str, Coding)] =
    &[("br", Coding::Brotli), ("zstd", Coding::Zstd), ("gzip", Coding::Gzip)];

fn read_listen(settings: &mut Settings, value: &Value<'_>) -> Result<(), Fault> {
    settings.listen = read_addresses(value, &mut Vec::new())?;
    Ok(())
}

fn read_partition_listen(settings: &mut Settings, value: &Value<'_>) -> Result<(), Fault> {
    let mut seen = Vec::new();
    settings.partitions.listen = value.list(|item| read_addresses(&item, &mut seen))?;
    Ok(())
}

/// Reads a list of addresses, none of which may be among those `seen` before.
fn read_addresses(
    value: &Value<'_>,
    seen: &mut Vec<ListenAddress>,
) -> Result<Vec<ListenAddress>, Fault> {
    let addresses = value.list(|item| {
        let address = item.text()?.parse();
        let address = address.map_err(|why| item.fault(ConfigFault::Address(why)))?;
        // Port 0 is a different port each time.
        if seen.contains(&address) && !address.is_any_port() {
            return Err(item.fault(ConfigFault::AddressTwice(address)));
        }
        seen.push(address);
        Ok(address)
    })?;
    if addresses.is_empty() {
        return Err(value.fault(ConfigFault::NoAddress));
    }
    Ok(addresses)
}

fn read_hosts(settings: &mut Settings, value: &Value<'_>) -> Result<(), Fault> {
    let new = || HostSettings::new(PathBuf::new());
    settings.hosts = read_rows(value, "host", HOST_KEYS, &["root"], new)?;
    Ok(())
}

/// Reads knobs without checking their names: which knobs exist depends on the engine, which may
/// come from a later source. They are checked when everything is read.
fn read_knobs(settings: &mut Settings, value: &Value<'_>) -> Result<(), Fault> {
    let knobs = value.map(|name, item| {
        let setting = match item.text() {
            Ok(text) => KnobSetting::Choice(text.into()),
            Err(_) => KnobSetting::Number(item.number(Unit::Plain, &(0..=i64::MAX as u64))?),
        };
        Ok((name.to_string(), setting))
    })?;
    settings.engine.knobs.extend(knobs);
    Ok(())
}

fn show_knob(setting: &KnobSetting) -> String {
    match setting {
        KnobSetting::Number(number) => number.to_string(),
        KnobSetting::Choice(choice) => quote(choice),
    }
}

fn read_cpus(settings: &mut Settings, value: &Value<'_>) -> Result<(), Fault> {
    let lists = value.list(|item| {
        cpu_list::parse(item.text()?).map_err(|why| item.fault(ConfigFault::CpuList(why)))
    })?;
    let mut all: Vec<usize> = lists.concat();
    all.sort_unstable();
    if let Some(twice) = all.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(value.fault(ConfigFault::CpuTwice(twice[0])));
    }
    settings.partitions.cpus = lists;
    Ok(())
}

fn read_root(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.root = match value.text()? {
        "" => return Err(value.must_be("a directory")),
        root => root.into(),
    };
    Ok(())
}

fn read_names(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.names = value.list(|item| checked(&item, check::host_name))?;
    Ok(())
}

fn read_index(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.index = value.list(|item| checked(&item, check::index))?;
    Ok(())
}

fn read_spa_fallback(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.spa_fallback = match value.text()? {
        "" => None,
        _ => Some(checked(value, check::page)?),
    };
    Ok(())
}

fn read_front_controller(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.front_controller = match value.text()? {
        "" => None,
        _ => Some(checked(value, check::page)?),
    };
    Ok(())
}

fn read_error_pages(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.error_pages = value.map(|name, item| match name.parse() {
        Ok(status @ 400..=599) => {
            check::page_status(status).map_err(|why| item.fault(ConfigFault::Setting(why)))?;
            Ok((status, checked(&item, check::page)?))
        }
        _ => Err(item.fault(ConfigFault::PageStatus(name.into()))),
    })?;
    Ok(())
}

fn read_mime_types(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.mime_types =
        value.map(|extension, item| Ok((extension.into(), checked(&item, check::media_type)?)))?;
    Ok(())
}

pub(super) fn read_glob(place: &mut String, value: &Value<'_>) -> Result<(), Fault> {
    read_checked(place, value, check::glob)
}

/// Reads the value of the field `name`, which messages refer to by that name.
fn read_field(place: &mut String, value: &Value<'_>, name: &str) -> Result<(), Fault> {
    read_checked(place, value, |text| check::field_value(name, text))
}

pub(super) fn read_checked(
    place: &mut String,
    value: &Value<'_>,
    check: impl Fn(&str) -> Result<(), check::SettingError>,
) -> Result<(), Fault> {
    *place = checked(value, check)?;
    Ok(())
}

/// Reads a text and checks it.
pub(super) fn checked(
    value: &Value<'_>,
    check: impl Fn(&str) -> Result<(), check::SettingError>,
) -> Result<String, Fault> {
    let text = value.text()?;
    check(text).map_err(|why| value.fault(ConfigFault::Setting(why)))?;
    Ok(text.into())
}

fn read_cache_control(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.cache_control = read_rows(
        value,
        "host.cache_control",
        CACHE_CONTROL_KEYS,
        &["path", "value"],
        Default::default,
    )?;
    Ok(())
}

fn read_headers(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    let new = HeaderRule::default;
    host.headers = read_rows(value, "host.header", HEADER_KEYS, &["path", "name", "value"], new)?;
    Ok(())
}

fn read_redirects(host: &mut HostSettings, value: &Value<'_>) -> Result<(), Fault> {
    host.redirects =
        read_rows(value, "host.redirect", REDIRECT_KEYS, &["from", "to"], new_redirect)?;
    Ok(())
}

pub(super) fn new_redirect() -> RedirectSettings {
    RedirectSettings { from: String::new(), to: String::new(), status: 301 }
}

fn read_redirect_status(row: &mut RedirectSettings, value: &Value<'_>) -> Result<(), Fault> {
    row.status = match value.number(Unit::Plain, &(301..=308)) {
        Ok(status @ (301..=303 | 307 | 308)) => status as u16,
        _ => return Err(value.must_be("301, 302, 303, 307 or 308")),
    };
    Ok(())
}

fn show_addresses(addresses: &[ListenAddress]) -> String {
    show_list(addresses.iter().map(|address| quote(&address.to_string())))
}

pub(super) fn show_texts(texts: &[String]) -> String {
    show_list(texts.iter().map(|text| quote(text)))
}

pub(super) fn show_choice<T: PartialEq + Copy>(choices: &[(&str, T)], choice: T) -> String {
    let word = choices.iter().find(|(_, c)| *c == choice).map_or("", |(word, _)| word);
    quote(word)
}

pub(super) fn show_rows<T: Clone>(keys: &[Key<T>], rows: &[T]) -> String {
    show_list(rows.iter().map(|row| show_row(keys, row)))
}

fn show_map<K: ToString, V>(map: &BTreeMap<K, V>, show: impl Fn(&V) -> String) -> String {
    let parts = map.iter().map(|(k, v)| format!("{} = {}", quote(&k.to_string()), show(v)));
    match map.is_empty() {
        true => "{}".into(),
        false => format!("{{ {} }}", parts.collect::<Vec<_>>().join(", ")),
    }
}

pub(super) const fn number<T>(
    name: &'static str,
    range: RangeInclusive<u64>,
    place: fn(&mut T) -> &mut u64,
) -> Key<T> {
    Key { name, field: Field::Number { unit: Unit::Plain, range, place } }
}

pub(super) const fn bytes<T>(
    name: &'static str,
    range: RangeInclusive<u64>,
    place: fn(&mut T) -> &mut u64,
) -> Key<T> {
    Key { name, field: Field::Number { unit: Unit::Bytes, range, place } }
}

const fn number_or<T>(
    name: &'static str,
    word: &'static str,
    range: RangeInclusive<u64>,
    place: fn(&mut T) -> &mut Option<u64>,
) -> Key<T> {
    Key { name, field: Field::NumberOr { word, unit: Unit::Plain, range, place } }
}

const fn bytes_or<T>(
    name: &'static str,
    word: &'static str,
    range: RangeInclusive<u64>,
    place: fn(&mut T) -> &mut Option<u64>,
) -> Key<T> {
    Key { name, field: Field::NumberOr { word, unit: Unit::Bytes, range, place } }
}

pub(super) const fn switch<T>(name: &'static str, place: fn(&mut T) -> &mut bool) -> Key<T> {
    Key { name, field: Field::Switch(place) }
}

const fn text<T>(name: &'static str, place: fn(&mut T) -> &mut String) -> Key<T> {
    Key { name, field: Field::Text(place) }
}

pub(super) const fn other<T>(
    name: &'static str,
    read: fn(&mut T, &Value<'_>) -> Result<(), Fault>,
    show: fn(&T) -> String,
) -> Key<T> {
    Key { name, field: Field::Other { read, show } }
}
