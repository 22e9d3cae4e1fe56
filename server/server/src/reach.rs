//! What the lines at the start say about addresses: where a browser finds the server, and which
//! machines can connect. Pure.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The URLs of these addresses: `http://127.0.0.1:8080`. An address that means every address of the
/// machine is shown as one that other machines can use, which `outward` finds for its family.
pub(crate) fn places(
    addresses: &[SocketAddr],
    outward: impl Fn(IpAddr) -> Option<IpAddr>,
) -> String {
    let means_every = |at: &&SocketAddr| at.ip().is_unspecified();
    let twin = |at: &SocketAddr| {
        let mut every = addresses.iter().filter(means_every);
        every.any(|other| other.port() == at.port() && other.is_ipv4() != at.is_ipv4())
    };
    let mut urls = Vec::new();
    for at in addresses {
        let any = at.ip();
        let shown = match any {
            _ if !any.is_unspecified() => any,
            // One address is enough for both families.
            IpAddr::V6(_) if twin(at) => continue,
            IpAddr::V6(_) => outward(any).unwrap_or(Ipv6Addr::LOCALHOST.into()),
            IpAddr::V4(_) => {
                let v6 = || twin(at).then(|| outward(Ipv6Addr::UNSPECIFIED.into())).flatten();
                outward(any).or_else(v6).unwrap_or(Ipv4Addr::LOCALHOST.into())
            }
        };
        urls.push(format!("http://{}", SocketAddr::new(shown, at.port())));
    }
    if addresses.iter().any(|at| means_every(&at)) {
        urls.push("every other address".into());
    }
    urls.join(" and ")
}

/// How other machines could connect, if they cannot.
pub(crate) fn hint(addresses: &[SocketAddr]) -> Option<String> {
    let first = addresses.first().filter(|_| addresses.iter().all(|at| at.ip().is_loopback()))?;
    Some(format!("only this machine can connect: --listen :{} lets others", first.port()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn addresses_are_shown_as_a_browser_can_use_them() {
        let check = |texts: &[&str], known: &[&str], expected: &str| {
            let known: Vec<IpAddr> = known.iter().map(|text| text.parse().unwrap()).collect();
            let outward =
                |any: IpAddr| known.iter().find(|it| it.is_ipv4() == any.is_ipv4()).copied();
            assert_eq!(places(&addresses(texts), outward), expected, "{texts:?} {known:?}");
        };
        let both = ["0.0.0.0:80", "[::]:80"];
        check(&["127.0.0.1:80"], &["10.0.0.7"], "http://127.0.0.1:80");
        check(
            &["127.0.0.1:80", "[::1]:80"],
            &["10.0.0.7"],
            "http://127.0.0.1:80 and http://[::1]:80",
        );
        check(&both, &["10.0.0.7", "fd00::7"], "http://10.0.0.7:80 and every other address");
        check(&both, &["fd00::7"], "http://[fd00::7]:80 and every other address");
        check(&both, &[], "http://127.0.0.1:80 and every other address");
        check(&["0.0.0.0:80"], &["fd00::7"], "http://127.0.0.1:80 and every other address");
        check(&["[::]:80"], &["10.0.0.7"], "http://[::1]:80 and every other address");
        check(
            &["0.0.0.0:80", "[::]:80", "[::]:81", "127.0.0.1:82"],
            &["10.0.0.7", "fd00::7"],
            "http://10.0.0.7:80 and http://[fd00::7]:81 and http://127.0.0.1:82 and every other \
             address",
        );
    }

    #[test]
    fn only_a_server_that_others_cannot_reach_says_how_they_could() {
        let check = |texts: &[&str], expected: Option<&str>| {
            assert_eq!(hint(&addresses(texts)).as_deref(), expected, "{texts:?}");
        };
        let hint = "only this machine can connect: --listen :8080 lets others";
        check(&["127.0.0.1:8080"], Some(hint));
        check(&["127.0.0.1:8080", "[::1]:8080"], Some(hint));
        check(&["127.0.0.1:8080", "10.0.0.7:8080"], None);
        check(&["0.0.0.0:8080"], None);
        check(&[], None);
    }
}
