//! A server as a user types it: `NAME[/SETTING][,KNOB=VALUE…]`, or `http://HOST:PORT` for a server
//! that runs already and only gets requests.

use crate::error::Error;
use crate::server_description::{ServerDescription, Setting};
use crate::template::{Values, check_value};
use command::near::hint_and_names;
use load::target::Url;
use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;
use std::time::Duration;

/// Of several addresses of a name the first that accepts a connection within this time is taken.
const ACCEPTS_WITHIN: Duration = Duration::from_secs(1);

/// A server and its setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerSpec {
    /// A server that is started.
    ByName {
        /// The server's name: `nginx`, `ropewalk:fibers`.
        name: String,
        /// One of the server's settings; the first, if none is named.
        setting: Option<String>,
        /// Knobs that differ from the setting.
        knobs: Values,
    },
    /// A server that runs already, however it was started.
    Running {
        /// The address at which the server listens.
        address: SocketAddr,
    },
}

impl ServerSpec {
    /// The server's name, if it is to be started.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::ByName { name, .. } => Some(name),
            Self::Running { .. } => None,
        }
    }

    /// Whether another one is set as this one says; what this one leaves open may be anything.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::ByName { name, setting, knobs },
                Self::ByName { name: of_other, setting: other_setting, knobs: other_knobs },
            ) => {
                let is_turned = |(knob, value): (&String, _)| other_knobs.get(knob) == Some(value);
                name == of_other
                    && (setting.is_none() || setting == other_setting)
                    && knobs.iter().all(is_turned)
            }
            _ => self == other,
        }
    }

    /// The setting of `description` that was meant. Its name differs from all others of the server.
    ///
    /// # Errors
    /// The setting or the knob does not exist, or the knob cannot have the value.
    pub fn setting(&self, description: &ServerDescription) -> Result<Setting, String> {
        let Self::ByName { setting, knobs, .. } = self else {
            return Err(format!("{self} runs already: nothing can be set"));
        };
        let base = match setting {
            None => &description.settings[0],
            Some(name) => {
                description.settings.iter().find(|one| one.name == *name).ok_or_else(|| {
                    let settings = description.settings.iter().map(|one| one.name.as_str());
                    let (near, names) = hint_and_names(name, settings);
                    format!("{} has no setting {name}{near}; it has {names}", description.name)
                })?
            }
        };
        with_knobs(description, base, knobs)
    }
}

/// `base` with some knobs turned.
///
/// # Errors
/// The errors of [`ServerSpec::setting`].
pub fn with_knobs(
    description: &ServerDescription,
    base: &Setting,
    knobs: &Values,
) -> Result<Setting, String> {
    let knobs = &description.knobs_of_today(knobs);
    for (name, value) in knobs {
        let Some(knob) = description.knobs.get(name) else {
            let knobs = description.knobs.keys().map(String::as_str);
            let (near, names) = hint_and_names(name, knobs);
            return Err(format!("{} has no knob {name}{near}; it has {names}", description.name));
        };
        check_value(value).map_err(|why| format!("{}: {name}={value}: {why}", description.name))?;
        if !knob.allows(value) {
            let allowed = knob.allowed();
            return Err(format!("{}: {name} cannot be {value}: {allowed}", description.name));
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
            Self::ByName { name, setting, knobs } => {
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
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let explain = |what: &str| {
            Error::Usage(format!(
                "{text:?} is no server: {what}; \
                 NAME[/SETTING][,KNOB=VALUE...] or http://HOST:PORT"
            ))
        };
        if text.contains("://") {
            let url = Url::parse(text).map_err(|why| explain(&why))?;
            if !matches!(&*url.path, "" | "/") {
                return Err(explain("the workload has the paths to request: leave the path out"));
            }
            let address = url.address(&[], ACCEPTS_WITHIN)?;
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
        Ok(Self::ByName { name: name.to_owned(), setting, knobs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use crate::server_description::FormerKnob;
    use std::path::Path;

    fn parse(text: &str) -> ServerSpec {
        text.parse().expect("it is a server")
    }

    fn nginx() -> ServerDescription {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
        ServerDescription::read(&folder.join("nginx.toml")).expect("it is shipped")
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
            assert!(matches!(&why, Error::Usage(why) if why.contains("is no server: ")), "{why}");
        }
    }

    /// `localhost` may be ::1 first, while the server listens on 127.0.0.1 alone.
    #[test]
    fn the_first_address_that_accepts_is_taken() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let address = listener.local_addr().expect("it is bound");
        let typed = format!("http://localhost:{}/", address.port());
        assert_eq!(parse(&typed), ServerSpec::Running { address });
    }

    #[test]
    fn a_setting_is_found_and_turned() {
        let description = nginx();
        let setting =
            parse("nginx/buffers,tcp_nopush=on").setting(&description).expect("it is one");
        assert_eq!(setting.name, "buffers,tcp_nopush=on");
        let values = description.knob_values(&setting);
        assert_eq!((values["sendfile"].as_str(), values["tcp_nopush"].as_str()), ("off", "on"));
        assert_eq!(
            parse("nginx").setting(&description).expect("the first").name,
            description.settings[0].name
        );
    }

    /// A renamed knob is turned under its name of today, and a knob that has gone is left out.
    #[test]
    fn former_knobs_are_turned_under_their_names_of_today() {
        let former = |name: &str, now| (name.to_owned(), now);
        let description = ServerDescription {
            former_knobs: [
                former("nopush", FormerKnob::Called("tcp_nopush".into())),
                former("lucky", FormerKnob::Gone("luck is even".into())),
            ]
            .into(),
            ..nginx()
        };
        let ServerSpec::ByName { knobs, .. } = parse("nginx,nopush=on,lucky=7") else { panic!() };
        let setting = parse("nginx,nopush=on,lucky=7").setting(&description).expect("it is one");
        assert_eq!(setting.name, "sendfile,tcp_nopush=on");
        assert_eq!(setting.knobs.get("tcp_nopush").map(String::as_str), Some("on"));
        let notices = description.knob_notices(&knobs);
        let expected = [
            "lucky has no effect any more: luck is even",
            "`nopush` is called `tcp_nopush` now; the old name is read until 0.2",
        ];
        assert_eq!(notices, expected);
        let setting = parse("nginx,tcp_nopush={peers_dir}").setting(&description).expect("a place");
        assert_eq!(setting.knobs["tcp_nopush"], "{servers_dir}");
        let why = parse("nginx,nopush=perhaps").setting(&description).expect_err("it is wrong");
        assert!(why.starts_with("nginx: tcp_nopush cannot be perhaps"), "{why}");
    }

    #[test]
    fn what_there_is_not_is_said_with_what_there_is() {
        let description = nginx();
        let cases = [
            ("nginx/fast", "nginx has no setting fast; it has sendfile, "),
            ("nginx,x=1", "nginx has no knob x; it has "),
            (
                "nginx,worker_processes={worker}",
                "nginx: worker_processes={worker}: {worker} is no known placeholder",
            ),
            ("nginx,sendfile=perhaps", "nginx: sendfile cannot be perhaps: on, off"),
        ];
        for (text, expected) in cases {
            let why = parse(text).setting(&description).expect_err("it is wrong");
            assert!(why.starts_with(expected), "{why}");
        }
    }
}
