//! A server as it is typed: `NAME[/SETTING][,KNOB=VALUE…]`, or `http://HOST:PORT` for one that
//! runs already and is only asked.

use crate::peer::{Peer, Setting, check_value};
use crate::template::Values;
use load::target::Url;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// Of several addresses of a name the first is taken that accepts a connection within this time.
const ACCEPTS_WITHIN: Duration = Duration::from_secs(1);

/// Which server, and how it is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSpec {
    /// A peer that is started.
    Peer {
        /// The peer's name: `nginx`, `ropewalk:fibers`.
        name: String,
        /// One of the peer's settings; the first, if none is named.
        setting: Option<String>,
        /// Knobs that differ from the setting.
        knobs: Values,
    },
    /// A server that runs already, whatever has started it.
    Running {
        /// The address at which the server listens.
        address: SocketAddr,
    },
}

impl ServerSpec {
    /// The peer's name, of one that is to be started.
    pub fn peer_name(&self) -> Option<&str> {
        match self {
            Self::Peer { name, .. } => Some(name),
            Self::Running { .. } => None,
        }
    }

    /// The setting of `peer` that was meant. Its name tells it from all others of the peer.
    ///
    /// # Errors
    /// A setting or a knob that there is not, or a value that the knob cannot have.
    pub fn setting(&self, peer: &Peer) -> Result<Setting, String> {
        let Self::Peer { setting, knobs, .. } = self else {
            return Err(format!("{self} runs already: nothing can be set"));
        };
        let base = match setting {
            None => &peer.settings[0],
            Some(name) => peer.settings.iter().find(|one| one.name == *name).ok_or_else(|| {
                let names: Vec<&str> = peer.settings.iter().map(|one| one.name.as_str()).collect();
                format!("{} has no setting {name}; it has {}", peer.name, names.join(", "))
            })?,
        };
        with_knobs(peer, base, knobs)
    }
}

/// `base` with some knobs turned.
///
/// # Errors
/// As [`ServerSpec::setting`].
pub fn with_knobs(peer: &Peer, base: &Setting, knobs: &Values) -> Result<Setting, String> {
    for (name, value) in knobs {
        let Some(knob) = peer.knobs.get(name) else {
            let names: Vec<&str> = peer.knobs.keys().map(String::as_str).collect();
            return Err(format!("{} has no knob {name}; it has {}", peer.name, names.join(", ")));
        };
        check_value(value).map_err(|why| format!("{}: {name}={value}: {why}", peer.name))?;
        if !knob.allows(value) {
            let allowed = knob.allowed();
            return Err(format!("{}: {name} cannot be {value}: {allowed}", peer.name));
        }
    }
    let mut setting = base.clone();
    for (name, value) in knobs {
        setting.name = format!("{},{name}={value}", setting.name);
    }
    setting.knobs.extend(knobs.clone());
    Ok(setting)
}

impl fmt::Display for ServerSpec {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Peer { name, setting, knobs } => {
                out.write_str(name)?;
                if let Some(setting) = setting {
                    write!(out, "/{setting}")?;
                }
                knobs.iter().try_for_each(|(knob, value)| write!(out, ",{knob}={value}"))
            }
            Self::Running { address } => write!(out, "http://{address}"),
        }
    }
}

impl FromStr for ServerSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let explain = |what: &str| {
            format!(
                "{text:?} is no server: {what}; \
                 NAME[/SETTING][,KNOB=VALUE...] or http://HOST:PORT"
            )
        };
        if text.contains("://") {
            let url = Url::parse(text).map_err(|why| explain(&why))?;
            if !matches!(&*url.path, "" | "/") {
                return Err(explain(
                    "what is asked for there is the workload's: leave the path out",
                ));
            }
            let address = url.address(&[], ACCEPTS_WITHIN).map_err(|why| explain(&why))?;
            return Ok(Self::Running { address });
        }
        let mut parts = text.split(',');
        let server = parts.next().unwrap_or_default();
        let (name, setting) = match server.split_once('/') {
            Some((name, setting)) => (name, Some(setting.to_owned())),
            None => (server, None),
        };
        if name.is_empty() || setting.as_ref().is_some_and(String::is_empty) {
            return Err(explain("a name is missing"));
        }
        let mut knobs = Values::new();
        for part in parts {
            let (knob, value) = part.split_once('=').ok_or_else(|| explain("a knob has no ="))?;
            if knobs.insert(knob.to_owned(), value.to_owned()).is_some() {
                return Err(explain(&format!("{knob} is turned twice")));
            }
        }
        Ok(Self::Peer { name: name.to_owned(), setting, knobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn parse(text: &str) -> ServerSpec {
        text.parse().expect("it is a server")
    }

    fn nginx() -> Peer {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers");
        Peer::read(&folder.join("nginx.toml")).expect("it is shipped")
    }

    #[test]
    fn what_was_typed_is_shown_again() {
        for text in ["nginx", "nginx/buffers", "ropewalk:fibers,a=1,b=x y", "http://127.0.0.1:8080"]
        {
            assert_eq!(parse(text).to_string(), text);
        }
        let here = SocketAddr::from(([127, 0, 0, 1], 80));
        assert_eq!(parse("http://127.0.0.1/"), ServerSpec::Running { address: here });
        for text in [
            "",
            "nginx/",
            "/x",
            "nginx,a",
            "nginx,a=1,a=2",
            "http://no such host/",
            "http://a/b",
            "https://a",
        ] {
            let why = text.parse::<ServerSpec>().expect_err(text);
            assert!(why.contains("is no server: "), "{why}");
        }
    }

    /// `localhost` may be ::1 first, and the server listens on 127.0.0.1 alone.
    #[test]
    fn the_first_address_that_accepts_is_taken() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let typed = format!("http://localhost:{}/", address.port());
        assert_eq!(parse(&typed), ServerSpec::Running { address });
    }

    #[test]
    fn a_setting_is_found_and_turned() {
        let peer = nginx();
        let setting = parse("nginx/buffers,tcp_nopush=on").setting(&peer).expect("it is one");
        assert_eq!(setting.name, "buffers,tcp_nopush=on");
        let values = peer.knob_values(&setting);
        assert_eq!((values["sendfile"].as_str(), values["tcp_nopush"].as_str()), ("off", "on"));
        assert_eq!(parse("nginx").setting(&peer).expect("the first").name, peer.settings[0].name);
    }

    #[test]
    fn what_there_is_not_is_said_with_what_there_is() {
        let peer = nginx();
        let cases = [
            ("nginx/fast", "nginx has no setting fast; it has sendfile, "),
            ("nginx,x=1", "nginx has no knob x; it has "),
            (
                "nginx,worker_processes={worker}",
                "nginx: worker_processes={worker}: nothing is known to stand for {worker}",
            ),
            ("nginx,sendfile=perhaps", "nginx: sendfile cannot be perhaps: on, off"),
        ];
        for (text, expected) in cases {
            let why = parse(text).setting(&peer).expect_err("it is wrong");
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
