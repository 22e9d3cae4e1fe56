//! Content negotiation: which of a file's encodings a client gets (RFC 9110 section 12.5.3). The
//! encodings are siblings on the disk: files are not compressed here.

/// A content coding that a file can exist in. The order is the server's preference, best last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// The file itself.
    Identity,
    /// `gzip` (RFC 1952), also requested as `x-gzip`.
    Gzip,
    /// `zstd` (RFC 8878).
    Zstd,
    /// `br` (RFC 7932).
    Brotli,
}

impl Coding {
    /// All codings, the preferred one first.
    pub const ALL: [Self; 4] = [Self::Brotli, Self::Zstd, Self::Gzip, Self::Identity];

    /// The suffix of the sibling's file name after that of the file; empty for identity.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Identity => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
            Self::Brotli => ".br",
        }
    }

    /// The name in Content-Encoding, which is not sent for identity.
    pub fn token(self) -> &'static str {
        match self {
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Brotli => "br",
        }
    }

    /// The coding of a name in Accept-Encoding; names are case-insensitive (section 8.4.1).
    fn from_token(token: &[u8]) -> Option<Self> {
        if token.eq_ignore_ascii_case(b"x-gzip") {
            return Some(Self::Gzip); // section 8.4.1.3: equivalent
        }
        Self::ALL.into_iter().find(|coding| token.eq_ignore_ascii_case(coding.token().as_bytes()))
    }
}

/// The codings that a file exists in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
pub struct CodingSet(u8);

impl CodingSet {
    /// No coding at all: there is no such file.
    pub const EMPTY: Self = Self(0);
    /// The file alone.
    pub const IDENTITY: Self = Self(1);

    /// The set with `coding` added.
    #[must_use]
    pub fn with(self, coding: Coding) -> Self {
        Self(self.0 | 1 << coding as u8)
    }

    /// Adds a coding.
    pub fn insert(&mut self, coding: Coding) {
        *self = self.with(coding);
    }

    /// Whether the file exists in this coding.
    pub fn contains(self, coding: Coding) -> bool {
        self.0 & 1 << coding as u8 != 0
    }

    /// Whether the file exists in no coding.
    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }

    /// Whether the response depends on Accept-Encoding and has to say so with Vary.
    pub fn is_negotiated(self) -> bool {
        self.0 & !Self::IDENTITY.0 != 0
    }

    /// The codings of the set, the preferred one first.
    pub fn iter(self) -> impl Iterator<Item = Coding> {
        Coding::ALL.into_iter().filter(move |&coding| self.contains(coding))
    }
}

/// Chooses among the available codings by the lines of Accept-Encoding: the highest weight wins,
/// then the order of [`Coding::ALL`]. `None`: no existing coding is acceptable.
///
/// The file itself is acceptable unless `identity;q=0` excludes it, or `*;q=0` where identity is
/// not named; if it is not mentioned, it comes after every coding that is. Without the field any
/// coding is acceptable, but clients that do not send it (curl) seldom decode one, so that they get
/// the file itself, and another coding only where that does not exist.
///
/// A member that does not follow the grammar is ignored. If a coding is named twice, the last one
/// counts.
pub fn choose<'v>(
    accept_encoding: impl Iterator<Item = &'v [u8]>,
    available: CodingSet,
) -> Option<Coding> {
    let mut lines = accept_encoding.peekable();
    if lines.peek().is_none() && available.contains(Coding::Identity) {
        return Some(Coding::Identity);
    }
    if lines.peek().is_none() {
        return available.iter().next();
    }
    let weights = Weights::parse(lines);
    let acceptable =
        available.iter().filter_map(|coding| Some((weights.acceptable(coding)?, coding)));
    acceptable.max().map(|(_, coding)| coding)
}

/// The weights that the client gives the codings, in thousandths.
#[derive(Default)]
struct Weights {
    named: [Option<u16>; 4],
    others: Option<u16>,
}

impl Weights {
    fn parse<'v>(lines: impl Iterator<Item = &'v [u8]>) -> Self {
        let mut weights = Self::default();
        for member in lines.flat_map(|line| line.split(|&byte| byte == b',')) {
            let Some((name, weight)) = parse_member(member.trim_ascii()) else { continue };
            if name == b"*" {
                weights.others = Some(weight);
            } else if let Some(coding) = Coding::from_token(name) {
                weights.named[coding as usize] = Some(weight);
            }
        }
        weights
    }

    /// The weight of a coding, if it is acceptable.
    fn acceptable(&self, coding: Coding) -> Option<u16> {
        match self.named[coding as usize].or(self.others) {
            None if coding == Coding::Identity => Some(0),
            weight => weight.filter(|&weight| weight > 0),
        }
    }
}

/// Parses a name and its weight: `codings [ OWS ";" OWS "q=" qvalue ]`.
fn parse_member(member: &[u8]) -> Option<(&[u8], u16)> {
    let Some(semicolon) = member.iter().position(|&byte| byte == b';') else {
        return Some((member, 1000));
    };
    let name = member[..semicolon].trim_ascii_end();
    let (marker, value) = member[semicolon + 1..].trim_ascii_start().split_at_checked(2)?;
    marker.eq_ignore_ascii_case(b"q=").then_some(())?;
    Some((name, parse_weight(value)?))
}

/// Parses a `qvalue` into thousandths (section 12.4.2): 0 to 1 with at most three decimals. They
/// are integers, because those compare exactly.
fn parse_weight(value: &[u8]) -> Option<u16> {
    let (&whole, rest) = value.split_first()?;
    let decimals = match rest.split_first() {
        None => rest,
        Some((b'.', decimals)) => decimals,
        Some(_) => return None,
    };
    if decimals.len() > 3 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digit = |index: usize| decimals.get(index).map_or(0, |&digit| u16::from(digit - b'0'));
    let fraction = digit(0) * 100 + digit(1) * 10 + digit(2);
    match (whole, fraction) {
        (b'0', _) => Some(fraction),
        (b'1', 0) => Some(1000),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn set(names: &str) -> CodingSet {
        let is_named = |coding: &Coding| names.split(' ').any(|name| name == coding.token());
        Coding::ALL.into_iter().filter(is_named).fold(CodingSet::EMPTY, CodingSet::with)
    }

    fn check(lines: &[&str], available: &str, expected: Option<Coding>) {
        let found = choose(lines.iter().map(|line| line.as_bytes()), set(available));
        assert_eq!(found, expected, "{lines:?} of {available}");
    }

    const ALL: &str = "identity gzip zstd br";

    #[test]
    fn weights_decide_and_then_the_server() {
        use Coding::{Brotli, Gzip, Identity, Zstd};
        check(&["gzip, deflate, br, zstd"], ALL, Some(Brotli));
        check(&["gzip, deflate, br, zstd"], "identity gzip zstd", Some(Zstd));
        check(&["gzip, deflate, br, zstd"], "identity", Some(Identity));
        check(&["gzip"], ALL, Some(Gzip));
        check(&["x-gzip"], ALL, Some(Gzip));
        check(&["GZip;Q=1"], ALL, Some(Gzip));
        check(&["br;q=0.5, gzip;q=0.8"], ALL, Some(Gzip));
        check(&["br;q=0.001, gzip;q=0.002"], ALL, Some(Gzip));
        check(&["br;q=0.5, gzip;q=0.500"], ALL, Some(Brotli));
        check(&["identity, gzip;q=0.9"], ALL, Some(Identity));
        check(&["identity;q=0.5, gzip;q=0.9"], ALL, Some(Gzip));
        check(&["identity, gzip"], ALL, Some(Gzip));
        check(&["deflate"], ALL, Some(Identity));
        check(&["gzip", "br"], ALL, Some(Brotli));
    }

    #[test]
    fn stars() {
        use Coding::{Brotli, Gzip, Identity, Zstd};
        check(&["*"], ALL, Some(Brotli));
        check(&["*;q=0.1, gzip;q=0.2"], ALL, Some(Gzip));
        check(&["br;q=0, *"], ALL, Some(Zstd));
        check(&["*;q=0"], ALL, None);
        check(&["*;q=0, gzip"], ALL, Some(Gzip));
        check(&["*;q=0, identity;q=0.1"], ALL, Some(Identity));
        check(&["*, gzip;q=0.5"], "identity gzip", Some(Identity));
    }

    #[test]
    fn identity_is_acceptable_until_ruled_out() {
        use Coding::{Gzip, Identity};
        check(&[], ALL, Some(Identity));
        check(&[""], ALL, Some(Identity));
        check(&[" , ,"], ALL, Some(Identity));
        check(&["gzip;q=0"], ALL, Some(Identity));
        check(&["identity;q=0"], ALL, None);
        check(&["identity;q=0, gzip"], ALL, Some(Gzip));
        check(&["identity;q=0, gzip"], "identity br", None);
    }

    #[test]
    fn a_compressed_file_alone() {
        check(&[], "br", Some(Coding::Brotli));
        check(&[], "gzip zstd", Some(Coding::Zstd));
        check(&[], "", None);
        check(&[""], "br", None);
        check(&["gzip"], "br", None);
        check(&["br"], "br", Some(Coding::Brotli));
        check(&["*"], "br", Some(Coding::Brotli));
        check(&["br"], "", None);
    }

    #[test]
    fn invalid_members_are_ignored() {
        let members = [
            "br;q=1.001",
            "br;q=2",
            "br;q=0.0001",
            "br;q=.5",
            "br;q=-1",
            "br;q=+1",
            "br;q=",
            "br;q",
            "br;",
            "br;q =1",
            "br;q= 1",
            "br;x=1",
            "br;q=1;x=1",
            "br;q=0,5",
            "br;q=1e0",
            "b r",
            "br q=1",
        ];
        for member in members {
            check(&[&format!("{member}, gzip;q=0.1")], "identity gzip br", Some(Coding::Gzip));
        }
        check(&["br ;\tq=0.7 , gzip;q=0.6"], ALL, Some(Coding::Brotli));
        check(&["br;q=1., gzip;q=0."], ALL, Some(Coding::Brotli)); // the grammar allows it
        check(&["br, br;q=0, gzip;q=0.1"], ALL, Some(Coding::Gzip));
    }

    #[test]
    fn weights_are_exact() {
        for weight in 0..=1000_u16 {
            let text = format!("{}.{:03}", weight / 1000, weight % 1000);
            assert_eq!(parse_weight(text.as_bytes()), Some(weight));
        }
    }

    #[test]
    fn sets() {
        assert!(!CodingSet::IDENTITY.is_negotiated());
        assert!(!CodingSet::EMPTY.is_negotiated());
        assert!(set("br").is_negotiated());
        assert_eq!(set(ALL).iter().collect::<Vec<_>>(), Coding::ALL);
        assert!(set("gzip").contains(Coding::Gzip) && !set("gzip").contains(Coding::Identity));
    }

    /// A member as a name and a weight, if it is valid, and as the client writes it.
    fn member() -> impl Strategy<Value = (&'static str, Option<u16>, String)> {
        let name = prop::sample::select(vec!["br", "zstd", "gzip", "identity", "*", "deflate"]);
        let weight = prop_oneof![
            Just((Some(1000), String::new())),
            Just((None, ";q=1.1".to_owned())),
            Just((Some(0), ";q=0".to_owned())),
            (0..=1000_u16).prop_map(|q| (Some(q), format!(" ; q={}.{:03}", q / 1000, q % 1000))),
            (0..=9_u16).prop_map(|q| (Some(q * 100), format!(";Q=0.{q}"))),
        ];
        (name, weight).prop_map(|(name, (weight, text))| (name, weight, format!("{name}{text}")))
    }

    /// The rules of section 12.5.3, one after the other.
    fn model(members: &[(&str, Option<u16>, String)], available: CodingSet) -> Option<Coding> {
        let stated = |name: &str| {
            let mut mentions = members.iter().filter(|member| member.0 == name);
            mentions.rfind(|member| member.1.is_some()).and_then(|member| member.1)
        };
        let mut best: Option<(u16, Coding)> = None;
        for coding in Coding::ALL {
            let weight = stated(coding.token()).or(stated("*"));
            let is_acceptable = match weight {
                Some(weight) => weight > 0,
                None => coding == Coding::Identity,
            };
            let weight = weight.unwrap_or(0);
            if available.contains(coding) && is_acceptable && best.is_none_or(|(w, _)| weight > w) {
                best = Some((weight, coding));
            }
        }
        best.map(|(_, coding)| coding)
    }

    proptest! {
        #[test]
        fn the_model_agrees(
            members in proptest::collection::vec(member(), 0..6),
            available in (0..16_u8).prop_map(CodingSet),
        ) {
            let texts: Vec<_> = members.iter().map(|member| member.2.as_str()).collect();
            let expected = model(&members, available);
            let (one, many) = (texts.join(" ,"), texts.iter().map(|text| text.as_bytes()));
            prop_assert_eq!(choose(std::iter::once(one.as_bytes()), available), expected);
            if !texts.is_empty() {
                prop_assert_eq!(choose(many, available), expected);
            }
        }

        #[test]
        fn any_bytes_are_survived(line in any::<Vec<u8>>(), available in 0..16_u8) {
            let available = CodingSet(available);
            let chosen = choose(std::iter::once(&line[..]), available);
            prop_assert!(chosen.is_none_or(|coding| available.contains(coding)));
        }
    }
}
