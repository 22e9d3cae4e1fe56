//! What a call sends: a piece at a time, of which the first can be sent again as long as no other
//! has taken its place.

/// Bytes that are being sent, 0 <= at <= length.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing {
    bytes: Vec<u8>,
    at: usize,
    /// Whether the first bytes were replaced by others.
    is_replaced: bool,
}

impl Outgoing {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, at: 0, is_replaced: false }
    }

    /// What is to be sent now.
    #[inline]
    pub(crate) fn rest(&self) -> &[u8] {
        &self.bytes[self.at..]
    }

    /// Whether everything is sent.
    #[inline]
    pub(crate) fn is_sent(&self) -> bool {
        self.at == self.bytes.len()
    }

    #[inline]
    pub(crate) fn sent(&mut self, n: usize) {
        self.at += n;
        debug_assert!(self.at <= self.bytes.len(), "more was sent than there is");
    }

    /// The place for the next bytes, empty.
    pub(crate) fn replace(&mut self) -> &mut Vec<u8> {
        self.bytes.clear();
        self.at = 0;
        self.is_replaced = true;
        &mut self.bytes
    }

    /// Begins again on another connection. Returns whether that is right: what the application may
    /// have done already must do no harm twice.
    pub(crate) fn rewind(&mut self, is_idempotent: bool) -> bool {
        let may = !self.is_replaced && (is_idempotent || self.at == 0);
        if may {
            self.at = 0;
        }
        may
    }
}
