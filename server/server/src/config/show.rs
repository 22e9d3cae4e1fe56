//! The effective configuration as TOML, each key with a comment that says where its value comes
//! from.
//!
//! The output can be read back: it is a complete configuration file.

use site::host::HostSettings;

use super::field::Key;
use super::host_key;
use super::route::ROUTE_KEYS;
use super::schema::{CACHE_CONTROL_KEYS, HEADER_KEYS, HOST_KEYS, KEYS, REDIRECT_KEYS};
use super::settings::Settings;
use super::source::Origins;

/// A key as the documentation must describe it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DocumentedKey {
    /// The section as it is written in a file: `[cache]`, `[[host]]`; empty at the top.
    pub section: String,
    /// The name within the section.
    pub name: &'static str,
    /// The default as it is written in a file.
    pub default: String,
}

/// All keys, with their defaults.
#[must_use]
pub fn documented_keys() -> Vec<DocumentedKey> {
    let settings = Settings::default();
    let host = HostSettings::new("".into());
    let mut keys = documented(KEYS, "", &settings);
    keys.retain(|key| key.name != "host");
    keys.extend(documented(HOST_KEYS, "[[host]]", &host));
    keys.extend(documented(CACHE_CONTROL_KEYS, "[[host.cache_control]]", &Default::default()));
    keys.extend(documented(HEADER_KEYS, "[[host.header]]", &Default::default()));
    keys.extend(documented(REDIRECT_KEYS, "[[host.redirect]]", &super::schema::new_redirect()));
    keys.extend(documented(ROUTE_KEYS, "[[host.route]]", &Default::default()));
    keys
}

pub(super) fn show(settings: &Settings, origins: &Origins) -> String {
    let mut page = String::new();
    let mut section = "";
    for key in KEYS.iter().filter(|key| key.name != "host") {
        let this = key.name.rsplit_once('.').map_or("", |(section, _)| section);
        if this != section {
            page += &format!("\n[{this}]\n");
            section = this;
        }
        page += &line(key, settings, origins, key.name);
    }
    for (index, host) in settings.hosts.iter().enumerate() {
        page += "\n[[host]]\n";
        for key in HOST_KEYS {
            page += &line(key, host, origins, &host_key(index, key.name));
        }
    }
    page
}

fn line<T: Clone>(key: &Key<T>, target: &T, origins: &Origins, full_name: &str) -> String {
    let origin = origins.get(full_name).map_or_else(|| "default".into(), ToString::to_string);
    format!("{} = {} # {origin}\n", key.last_name(), key.show(target))
}

fn documented<T: Clone>(keys: &[Key<T>], section: &str, target: &T) -> Vec<DocumentedKey> {
    let document = |key: &Key<T>| DocumentedKey {
        section: match key.name.rsplit_once('.') {
            Some((section, _)) => format!("[{section}]"),
            None => section.into(),
        },
        name: key.last_name(),
        default: key.show(target),
    };
    keys.iter().map(document).collect()
}
