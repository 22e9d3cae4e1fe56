//! Content negotiation: which of a file's encodings a client gets (RFC 9110 section 12.5.3). Not
//! about compressing: the encodings are siblings on the disk.

/// A content coding that a file can exist in. The order is the server's preference, best last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coding {
    /// The file itself.
    Identity,
    /// `gzip` (RFC 1952), also asked for as `x-gzip`.
    Gzip,
    /// `zstd` (RFC 8878).
    Zstd,
    /// `br` (RFC 7932).
    Brotli,
}

impl Coding {
    /// All codings, the preferred one first.
    pub const ALL: [Self; 4] = [Self::Brotli, Self::Zstd, Self::Gzip, Self::Identity];

    /// What the file name of the sibling has after that of the file; empty for identity.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Identity => "",
            Self::Gzip => ".gz",
            Self::Zstd => ".zst",
            Self::Brotli => ".br",
        }
    }

    /// The name in Content-Encoding, where identity is not written.
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

    /// The set with `coding` in it.
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

    /// The codings in it, the preferred one first.
    pub fn iter(self) -> impl Iterator<Item = Coding> {
        Coding::ALL.into_iter().filter(move |&coding| self.contains(coding))
    }
}

/// Chooses among the available codings by the lines of Accept-Encoding: the highest weight wins,
/// then the order of [`Coding::ALL`]. `None`: nothing that exists is acceptable.
///
/// The file itself is acceptable unless `identity;q=0`, or `*;q=0` without a word on identity,
/// rules it out; unmentioned, it comes after everything that is asked for. Without the field the
/// RFC allows any coding, but clients that send none (curl) cannot decode one, so that no field
/// means the same as an empty one: only the file itself.
///
/// A member that does not follow the grammar is ignored. Of a coding named twice the last counts.
pub fn choose<'v>(
    accept_encoding: impl Iterator<Item = &'v [u8]>,
    available: CodingSet,
) -> Option<Coding> {
    let weights = Weights::parse(accept_encoding);
    let acceptable = available.iter().filter_map(|coding| Some((weights.of(coding)?, coding)));
    acceptable.max().map(|(_, coding)| coding)
}

/// What the client says of each coding, in thousandths.
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

    /// The weight of an acceptable coding.
    fn of(&self, coding: Coding) -> Option<u16> {
        match self.named[coding as usize].or(self.others) {
            None if coding == Coding::Identity => Some(0),
            weight => weight.filter(|&weight| weight > 0),
        }
    }
}

/// A name and its weight: `codings [ OWS ";" OWS "q=" qvalue ]`.
fn parse_member(member: &[u8]) -> Option<(&[u8], u16)> {
    let Some(semicolon) = member.iter().position(|&byte| byte == b';') else {
        return Some((member, 1000));
    };
    let name = member[..semicolon].trim_ascii_end();
    let (marker, value) = member[semicolon + 1..].trim_ascii_start().split_at_checked(2)?;
    marker.eq_ignore_ascii_case(b"q=").then_some(())?;
    Some((name, parse_weight(value)?))
}

/// `qvalue` in thousandths (section 12.4.2): 0 to 1 with at most three decimals. Integers, since
/// nothing else compares exactly.
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
mod tests {}
