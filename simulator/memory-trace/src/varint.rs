//! Numbers of variable length (LEB128), strings, and a cursor that never reads past the end.

/// The bytes end too early or are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

/// Appends seven bits a byte, the lowest first; all bytes but the last have the top bit.
pub(crate) fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Maps a signed number to an unsigned one: small numbers of either sign become small ones.
pub(crate) fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)) as u64
}

/// The signed number that [`zigzag`] has made unsigned.
pub(crate) fn unzigzag(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

/// Appends the length and the bytes.
pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    put(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// A cursor that reads from the front.
#[derive(Debug)]
pub(crate) struct Cursor<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> Cursor<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.bytes.len()
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let byte = *self.bytes.get(self.at).ok_or(Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    pub(crate) fn number(&mut self) -> Result<u64, Malformed> {
        let first = self.byte()?;
        if first < 0x80 { Ok(u64::from(first)) } else { self.long_number(first) }
    }

    fn long_number(&mut self, first: u8) -> Result<u64, Malformed> {
        let mut value = u64::from(first & 0x7f);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            // The tenth byte holds the one bit that is left of 64.
            if shift == 63 && byte > 1 {
                return Err(Malformed);
            }
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    pub(crate) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, Malformed> {
        T::try_from(self.number()?).map_err(|_| Malformed)
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'b [u8], Malformed> {
        let end = self.at.checked_add(length).ok_or(Malformed)?;
        let taken = self.bytes.get(self.at..end).ok_or(Malformed)?;
        self.at = end;
        Ok(taken)
    }

    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let length = self.small()?;
        let bytes = self.take(length)?;
        std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for value in (0..64).map(|bit| 1_u64 << bit).flat_map(|v| [v - 1, v, !v]) {
            let mut out = Vec::new();
            put(&mut out, value);
            let mut cursor = Cursor::new(&out);
            assert_eq!(cursor.number(), Ok(value));
            assert!(cursor.is_at_end());
            assert_eq!(zigzag(unzigzag(value)), value);
            assert_eq!(Cursor::new(&out[..out.len() - 1]).number(), Err(Malformed));
        }
    }

    #[test]
    fn what_does_not_fit_is_malformed() {
        assert_eq!(Cursor::new(&[0xff; 11]).number(), Err(Malformed));
        assert_eq!(Cursor::new(&[0x80; 9]).take(10), Err(Malformed));
        assert_eq!(Cursor::new(&[2, 0xc3, 0x28]).text(), Err(Malformed));
        assert_eq!(Cursor::new(&[0x80, 0x04]).small::<u8>(), Err(Malformed));
    }
}
