//! Received bytes that are not parsed yet: in the thread's buffer, or in a buffer of their own
//! while a head is longer than that.

/// Received bytes: those in `start..end` of the buffer, 0 <= start <= end.
pub(super) struct Input<'b> {
    lent: &'b mut [u8],
    /// The buffer in use in place of the lent one, unless it is empty.
    long: Vec<u8>,
    start: usize,
    end: usize,
}

impl<'b> Input<'b> {
    pub(super) fn new(lent: &'b mut [u8]) -> Self {
        Self { lent, long: Vec::new(), start: 0, end: 0 }
    }

    #[inline]
    pub(super) fn bytes(&self) -> &[u8] {
        let buffer = if self.long.is_empty() { &*self.lent } else { &self.long };
        &buffer[self.start..self.end]
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    /// Removes the first `count` bytes.
    #[inline]
    pub(super) fn consume(&mut self, count: usize) {
        self.start += count;
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            if !self.long.is_empty() {
                self.long = Vec::new();
            }
        }
    }

    /// The part of the buffer into which more bytes may be received, at least one. They become part
    /// of the input with [`Input::add`].
    #[inline]
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.end == self.buffer().len() {
            self.make_room();
        }
        let end = self.end;
        &mut self.buffer()[end..]
    }

    /// The room, lent for other bytes that are to be sent: at least half as long as a buffer, so
    /// that a file that is read through it takes few calls.
    #[inline]
    pub(super) fn spare(&mut self) -> &mut [u8] {
        while self.buffer().len() - self.end < self.lent.len() / 2 {
            self.make_room();
        }
        self.room()
    }

    /// Adds the first `count` bytes of the room.
    #[inline]
    pub(super) fn add(&mut self, count: usize) {
        self.end += count;
    }

    /// Adds bytes that were received before.
    pub(super) fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let room = self.room();
            let count = room.len().min(bytes.len());
            room[..count].copy_from_slice(&bytes[..count]);
            self.add(count);
            bytes = &bytes[count..];
        }
    }

    fn buffer(&mut self) -> &mut [u8] {
        if self.long.is_empty() { self.lent } else { &mut self.long }
    }

    /// Moves the bytes to the front, or into a longer buffer if they are there. The limits on heads
    /// bound how long it grows.
    fn make_room(&mut self) {
        let (start, end) = (self.start, self.end);
        let buffer = self.buffer();
        if start > 0 {
            buffer.copy_within(start..end, 0);
        } else {
            let mut longer = vec![0; 2 * buffer.len()];
            longer[..end].copy_from_slice(&buffer[..end]);
            self.long = longer;
        }
        (self.start, self.end) = (0, end - start);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn received_bytes_are_there_in_order_however_long() {
        let mut lent = [0; 4];
        let mut input = Input::new(&mut lent);
        input.append(b"abc");
        input.consume(2);
        input.append(b"defghijklmnop");
        assert_eq!(input.bytes(), b"cdefghijklmnop");
        input.consume(13);
        assert_eq!((input.bytes(), input.len()), (b"p".as_slice(), 1));
        input.append(b"q");
        assert_eq!(input.bytes(), b"pq");
    }

    /// A part of a byte would be one call to read each byte of a file.
    #[test]
    fn what_is_lent_for_other_bytes_is_never_short() {
        for (received, consumed) in [(0, 0), (15, 2), (15, 14), (16, 0), (16, 1), (30, 0)] {
            let mut lent = [0; 16];
            let mut input = Input::new(&mut lent);
            input.append(&b"abcdefghijklmnopqrstuvwxyz0123"[..received]);
            input.consume(consumed);
            let len = input.len();
            assert!(input.spare().len() >= 8, "{received} {consumed}");
            assert_eq!(input.len(), len);
            assert!(b"abcdefghijklmnopqrstuvwxyz0123"[consumed..].starts_with(input.bytes()));
        }
    }

    #[test]
    fn a_longer_buffer_is_freed_when_its_bytes_are_consumed() {
        let mut lent = [0; 4];
        let mut input = Input::new(&mut lent);
        input.append(b"abcdefgh");
        assert_eq!(input.long.len(), 8);
        input.consume(8);
        assert_eq!((input.bytes(), input.long.len()), (b"".as_slice(), 0));
        assert_eq!(input.room().len(), 4);
    }
}
