//! Which peers there are: those that come with this program, Ropewalk's own engines, and those of
//! a folder that somebody names.
//!
//! Whether they are installed is another question: see `install.rs`.

use crate::peer::Peer;
use crate::ropewalk;
use std::path::Path;

/// The files of `peers/`, so that an installed program knows them too.
const SHIPPED: &[(&str, &str)] = &[
    ("apache-event", include_str!("../../../peers/apache-event.toml")),
    ("apache-prefork", include_str!("../../../peers/apache-prefork.toml")),
    ("apache-worker", include_str!("../../../peers/apache-worker.toml")),
    ("caddy", include_str!("../../../peers/caddy.toml")),
    ("floor", include_str!("../../../peers/floor.toml")),
    ("gofasthttp", include_str!("../../../peers/gofasthttp.toml")),
    ("goserver", include_str!("../../../peers/goserver.toml")),
    ("h2o", include_str!("../../../peers/h2o.toml")),
    ("lighttpd", include_str!("../../../peers/lighttpd.toml")),
    ("nginx", include_str!("../../../peers/nginx.toml")),
    ("ropewalk", include_str!("../../../peers/ropewalk.toml")),
    ("static-web-server", include_str!("../../../peers/static-web-server.toml")),
    ("yaws", include_str!("../../../peers/yaws.toml")),
];

/// The peer of `peers/` from which those of Ropewalk's engines are made.
const TEMPLATE: &str = "ropewalk";

/// Every peer: those of the folder `own`, if one is given, in place of shipped ones of the same
/// name; then `ropewalk`, which is `program`, and one for each of its engines (`ropewalk:ENGINE`).
///
/// # Errors
/// One line: a file of the folder is not right, or the program does not say what its engines are.
pub fn catalogue(program: &Path, own: Option<&Path>) -> Result<Vec<Peer>, String> {
    let own = own.map_or_else(|| Ok(Vec::new()), Peer::read_all)?;
    let mut peers = shipped();
    peers.retain(|peer| !own.iter().any(|own| own.name == peer.name));
    peers.extend(own);
    peers.sort_by(|a, b| a.name.cmp(&b.name));
    if let Some(at) = peers.iter().position(|peer| peer.name == TEMPLATE) {
        let template = peers.remove(at);
        peers.push(ropewalk::at(program, &template));
        peers.extend(ropewalk::ropewalk_peers(program, &template)?);
    }
    Ok(peers)
}

/// The peers that came with this program, as their files have them.
fn shipped() -> Vec<Peer> {
    let parse = |(_, text): &(&str, &str)| Peer::parse(text).expect("a test reads them all");
    SHIPPED.iter().map(parse).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shipped_is_what_lies_in_the_repository() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers");
        let there = Peer::read_all(&folder).expect("all are right");
        let names = |peers: &[Peer]| -> Vec<String> {
            peers.iter().map(|peer| peer.name.clone()).collect()
        };
        assert_eq!(names(&shipped()), names(&there), "the list here is not that of the folder");
        assert!(SHIPPED.iter().zip(there).all(|((name, _), peer)| *name == peer.name));
    }

    /// What makes a server faster by doing less is varied only if it is named, and it is all that
    /// is left alone so.
    #[test]
    fn knobs_that_win_by_doing_less_are_not_tuned() {
        let peers = shipped();
        let mut left: Vec<String> = Vec::new();
        for peer in &peers {
            let apart = peer.knobs.iter().filter(|(_, knob)| knob.tuned == Some(false));
            assert!(apart.clone().all(|(_, knob)| !knob.is_tuned() && knob.grid().len() > 1));
            left.extend(apart.map(|(name, _)| format!("{} {name}", peer.name)));
        }
        let expected = [
            "apache-event keep_alive_s",
            "apache-prefork keep_alive_s",
            "apache-worker keep_alive_s",
            "h2o etag",
            "lighttpd stat_cache",
        ];
        assert_eq!(left, expected);
        let nginx = peers.iter().find(|peer| peer.name == "nginx").expect("it is shipped");
        assert!(nginx.knobs["sendfile"].is_tuned());
    }
}
