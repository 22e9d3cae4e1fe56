//! The servers that are known: those that come with this program, Ropewalk's own engines, and those
//! of a folder that the user names.
//!
//! Whether they are installed is another question: see `install.rs`.

use crate::ropewalk;
use crate::server_description::ServerDescription;
use std::path::Path;

/// The files of `servers/`, so that an installed program knows them too.
const SHIPPED: &[(&str, &str)] = &[
    ("apache-event", include_str!("../../../servers/apache-event.toml")),
    ("apache-event-fastcgi", include_str!("../../../servers/apache-event-fastcgi.toml")),
    ("apache-event-proxy", include_str!("../../../servers/apache-event-proxy.toml")),
    ("apache-prefork", include_str!("../../../servers/apache-prefork.toml")),
    ("apache-worker", include_str!("../../../servers/apache-worker.toml")),
    ("caddy", include_str!("../../../servers/caddy.toml")),
    ("caddy-fastcgi", include_str!("../../../servers/caddy-fastcgi.toml")),
    ("caddy-proxy", include_str!("../../../servers/caddy-proxy.toml")),
    ("floor", include_str!("../../../servers/floor.toml")),
    ("gofasthttp", include_str!("../../../servers/gofasthttp.toml")),
    ("goserver", include_str!("../../../servers/goserver.toml")),
    ("h2o", include_str!("../../../servers/h2o.toml")),
    ("h2o-fastcgi", include_str!("../../../servers/h2o-fastcgi.toml")),
    ("h2o-proxy", include_str!("../../../servers/h2o-proxy.toml")),
    ("haproxy", include_str!("../../../servers/haproxy.toml")),
    ("lighttpd", include_str!("../../../servers/lighttpd.toml")),
    ("lighttpd-fastcgi", include_str!("../../../servers/lighttpd-fastcgi.toml")),
    ("lighttpd-proxy", include_str!("../../../servers/lighttpd-proxy.toml")),
    ("nginx", include_str!("../../../servers/nginx.toml")),
    ("nginx-fastcgi", include_str!("../../../servers/nginx-fastcgi.toml")),
    ("nginx-proxy", include_str!("../../../servers/nginx-proxy.toml")),
    ("relay", include_str!("../../../servers/relay.toml")),
    ("ropewalk", include_str!("../../../servers/ropewalk.toml")),
    ("ropewalk-fastcgi", include_str!("../../../servers/ropewalk-fastcgi.toml")),
    ("ropewalk-proxy", include_str!("../../../servers/ropewalk-proxy.toml")),
    ("static-web-server", include_str!("../../../servers/static-web-server.toml")),
    ("yaws", include_str!("../../../servers/yaws.toml")),
];

/// The servers of `servers/` from which the servers for Ropewalk's engines are made.
const TEMPLATES: [&str; 3] = ["ropewalk", "ropewalk-fastcgi", "ropewalk-proxy"];

/// Every server: those of the folder `own`, if one is given, in place of shipped ones of the same
/// name; then `ropewalk`, which is `program`, and one for each of its engines (`ropewalk:ENGINE`),
/// and the same as fronts of applications (`ropewalk-proxy`, `ropewalk-proxy:ENGINE`).
/// Without the program `ropewalk` is there with the obstacle, which is why.
///
/// # Errors
/// One line: a file of the folder is not right, or the program does not say what its engines are.
pub fn catalogue(
    program: Result<&Path, &str>,
    own: Option<&Path>,
) -> Result<Vec<ServerDescription>, String> {
    let own = own.map_or_else(|| Ok(Vec::new()), ServerDescription::read_all)?;
    let mut descriptions = shipped();
    descriptions.retain(|description| !own.iter().any(|own| own.name == description.name));
    descriptions.extend(own);
    descriptions.sort_by(|a, b| a.name.cmp(&b.name));
    let is_template = |it: &ServerDescription| TEMPLATES.contains(&&*it.name);
    let (templates, mut descriptions): (Vec<_>, Vec<_>) =
        descriptions.into_iter().partition(is_template);
    for template in templates {
        match program {
            Ok(program) => {
                descriptions.push(ropewalk::with_program(program, &template));
                descriptions.extend(ropewalk::engine_descriptions(program, &template)?);
            }
            Err(why) => {
                descriptions.push(ServerDescription { obstacle: Some(why.into()), ..template });
            }
        }
    }
    Ok(descriptions)
}

/// The servers that came with this program, as their files describe them.
fn shipped() -> Vec<ServerDescription> {
    let parse =
        |(_, text): &(&str, &str)| ServerDescription::parse(text).expect("a test reads them all");
    SHIPPED.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_what_lies_in_the_repository() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../servers");
        let there = ServerDescription::read_all(&folder).expect("all are right");
        let names = |descriptions: &[ServerDescription]| -> Vec<String> {
            descriptions.iter().map(|description| description.name.clone()).collect()
        };
        assert_eq!(names(&shipped()), names(&there), "the list here is not that of the folder");
        assert!(
            SHIPPED.iter().zip(there).all(|((name, _), description)| *name == description.name)
        );
    }

    /// A knob that makes a server faster by doing less is varied only if it is named, and no other
    /// knob is left alone in this way.
    #[test]
    fn knobs_that_win_by_doing_less_are_not_tuned() {
        let descriptions = shipped();
        let mut left: Vec<String> = Vec::new();
        for description in &descriptions {
            let apart = description.knobs.iter().filter(|(_, knob)| knob.tuned == Some(false));
            assert!(apart.clone().all(|(_, knob)| !knob.is_tuned() && knob.grid().len() > 1));
            left.extend(apart.map(|(name, _)| format!("{} {name}", description.name)));
        }
        let expected = [
            "apache-event keep_alive_s",
            "apache-prefork keep_alive_s",
            "apache-worker keep_alive_s",
            "h2o etag",
            "lighttpd stat_cache",
        ];
        assert_eq!(left, expected);
        let nginx = descriptions
            .iter()
            .find(|description| description.name == "nginx")
            .expect("it is shipped");
        assert!(nginx.knobs["sendfile"].is_tuned());
    }
}
