//! Reading, writing and copying memory with instructions of one width, so that the memory is
//! measured and not what a compiler makes of a loop. The functions do not measure: the caller reads
//! the clock.
//!
//! Every access is volatile: the number and width of accesses are exactly as stated. On processors
//! other than x86-64 there are the plain instructions only.

use std::mem::MaybeUninit;

/// A cache line of current processors; areas consist of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(align(64))]
pub struct Line(pub [u64; 8]);

impl Line {
    /// All zeroes.
    pub const ZERO: Self = Self([0; 8]);
}

/// How wide each access is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instructions {
    /// 8 bytes, the general registers.
    Plain,
    /// 16 bytes, on every x86-64.
    Sse2,
    /// 32 bytes.
    Avx2,
    /// 64 bytes.
    Avx512,
}

impl Instructions {
    /// All widths, the narrowest first.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Sse2, Self::Avx2, Self::Avx512];

    /// The usual name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Sse2 => "SSE2",
            Self::Avx2 => "AVX2",
            Self::Avx512 => "AVX-512",
        }
    }

    /// Bytes of one access.
    pub fn bytes(self) -> usize {
        match self {
            Self::Plain => 8,
            Self::Sse2 => 16,
            Self::Avx2 => 32,
            Self::Avx512 => 64,
        }
    }

    /// Whether this processor has the instructions, and the kernel permits them.
    pub fn is_available(self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return match self {
            Self::Plain | Self::Sse2 => true,
            Self::Avx2 => std::arch::is_x86_feature_detected!("avx2"),
            Self::Avx512 => std::arch::is_x86_feature_detected!("avx512f"),
        };
        #[cfg(not(target_arch = "x86_64"))]
        return self == Self::Plain;
    }
}

/// How written data gets to memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Through the caches: a line is read before it is written.
    Cached,
    /// Past the caches (non-temporal): nothing is read. Cached where there are no such
    /// instructions: see [`has_streaming_stores`].
    Streaming,
}

/// Whether [`Store::Streaming`] differs from [`Store::Cached`] on this processor.
pub fn has_streaming_stores() -> bool {
    cfg!(target_arch = "x86_64")
}

/// Calls a loop of these instructions.
macro_rules! with {
    ($instructions:expr, $loop:ident($($argument:expr),*)) => {{
        assert!($instructions.is_available(), "{:?} are not available", $instructions);
        match $instructions {
            Instructions::Plain => plain::$loop($($argument),*),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: every x86-64 has SSE2.
            Instructions::Sse2 => unsafe { sse2::$loop($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the assertion above has found AVX2.
            Instructions::Avx2 => unsafe { avx2::$loop($($argument),*) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the assertion above has found AVX-512.
            Instructions::Avx512 => unsafe { avx512::$loop($($argument),*) },
            #[cfg(not(target_arch = "x86_64"))]
            _ => unreachable!("they are not available"),
        }
    }};
}

/// Reads all of `area` in order. Returns the sum of its words, modulo 2^64.
///
/// # Panics
/// If the instructions are not available.
pub fn read(instructions: Instructions, area: &[Line]) -> u64 {
    with!(instructions, read(area))
}

/// Writes `value` to every word of `area`, in order.
///
/// # Panics
/// If the instructions are not available.
pub fn write(instructions: Instructions, store: Store, area: &mut [Line], value: u64) {
    with!(instructions, write(store, area, value));
    finish_stores();
}

/// Copies `from` to `to`, in order: as many lines as the shorter of them has.
///
/// # Panics
/// If the instructions are not available.
pub fn copy(instructions: Instructions, store: Store, from: &[Line], to: &mut [Line]) {
    with!(instructions, copy(store, from, to));
    finish_stores();
}

/// The processor's own clock: reference cycles, whose rate does not depend on the current
/// frequency. None where there is no such counter.
pub fn reference_cycles() -> Option<u64> {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction; where the kernel forbids it to a process (prctl,
    // PR_SET_TSC, which nothing here calls) the effect is a signal, not undefined behaviour.
    return Some(unsafe { std::arch::x86_64::_rdtsc() });
    #[cfg(not(target_arch = "x86_64"))]
    return None;
}

/// Makes streaming stores visible in order, as the rest of the program expects of all stores.
fn finish_stores() {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction, which touches no memory by itself.
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}

/// The loops for one width, as a module: `$vector` is the type that one access moves.
macro_rules! loops {
    (
        $name:ident, $(#[$feature:meta])?, $vector:ty,
        add: $add:expr, repeat: $repeat:expr, stream: $stream:expr
    ) => {
        mod $name {
            #[cfg(target_arch = "x86_64")]
            #[allow(clippy::wildcard_imports, unused_imports, reason = "one of its widths")]
            use std::arch::x86_64::*;

            use super::{Line, MaybeUninit, Store};

            /// Accesses for a line.
            const PARTS: usize = size_of::<Line>() / size_of::<$vector>();

            $(#[$feature])?
            pub(super) fn read(area: &[Line]) -> u64 {
                // SAFETY: all zeroes are a valid value of words and of vectors of words.
                let mut sums: [$vector; PARTS] = unsafe { MaybeUninit::zeroed().assume_init() };
                for line in area {
                    let start = std::ptr::from_ref(line).cast::<$vector>();
                    for (part, sum) in sums.iter_mut().enumerate() {
                        // SAFETY: `part` is below PARTS, so this is within the line, which is
                        // readable, aligned to 64 and made of words, any of which are valid.
                        let value = unsafe { start.add(part).read_volatile() };
                        *sum = ($add)(*sum, value);
                    }
                }
                // SAFETY: PARTS vectors are exactly the eight words of a line, any of which are
                // valid.
                let line: Line = unsafe { std::mem::transmute(sums) };
                line.0.into_iter().fold(0, u64::wrapping_add)
            }

            $(#[$feature])?
            pub(super) fn write(store: Store, area: &mut [Line], value: u64) {
                let value: $vector = ($repeat)(value);
                for line in area {
                    let start = std::ptr::from_mut(line).cast::<$vector>();
                    for part in 0..PARTS {
                        // SAFETY: `part` is below PARTS, so this is within the line, which is
                        // ours to write, and aligned to 64.
                        unsafe {
                            match store {
                                Store::Cached => start.add(part).write_volatile(value),
                                Store::Streaming => ($stream)(start.add(part), value),
                            }
                        }
                    }
                }
            }

            $(#[$feature])?
            pub(super) fn copy(store: Store, from: &[Line], to: &mut [Line]) {
                for (from, to) in from.iter().zip(to) {
                    let (from, to) = (std::ptr::from_ref(from), std::ptr::from_mut(to));
                    let (from, to) = (from.cast::<$vector>(), to.cast::<$vector>());
                    for part in 0..PARTS {
                        // SAFETY: `part` is below PARTS, so both are within their lines, which
                        // are readable, and ours to write, and aligned to 64.
                        unsafe {
                            let value = from.add(part).read_volatile();
                            match store {
                                Store::Cached => to.add(part).write_volatile(value),
                                Store::Streaming => ($stream)(to.add(part), value),
                            }
                        }
                    }
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
loops!(plain, , u64,
    add: u64::wrapping_add,
    repeat: |value: u64| value,
    stream: |to: *mut u64, value: u64| _mm_stream_si64(to.cast(), value.cast_signed()));

#[cfg(not(target_arch = "x86_64"))]
loops!(plain, , u64,
    add: u64::wrapping_add,
    repeat: |value: u64| value,
    stream: |to: *mut u64, value: u64| to.write_volatile(value));

#[cfg(target_arch = "x86_64")]
loops!(sse2, #[target_feature(enable = "sse2")], __m128i,
    add: |a, b| _mm_add_epi64(a, b),
    repeat: |value: u64| _mm_set1_epi64x(value.cast_signed()),
    stream: |to, value| _mm_stream_si128(to, value));

#[cfg(target_arch = "x86_64")]
loops!(avx2, #[target_feature(enable = "avx2")], __m256i,
    add: |a, b| _mm256_add_epi64(a, b),
    repeat: |value: u64| _mm256_set1_epi64x(value.cast_signed()),
    stream: |to, value| _mm256_stream_si256(to, value));

#[cfg(target_arch = "x86_64")]
loops!(avx512, #[target_feature(enable = "avx512f")], __m512i,
    add: |a, b| _mm512_add_epi64(a, b),
    repeat: |value: u64| _mm512_set1_epi64(value.cast_signed()),
    stream: |to, value| _mm512_stream_si512(to, value));

#[cfg(test)]
mod tests {
    use super::*;

    const STORES: [Store; 2] = [Store::Cached, Store::Streaming];

    fn available() -> impl Iterator<Item = Instructions> {
        Instructions::ALL.into_iter().filter(|instructions| instructions.is_available())
    }

    /// Lines whose words all differ.
    fn numbered(lines: u64) -> Vec<Line> {
        let word = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ n;
        (0..lines).map(|line| Line(std::array::from_fn(|n| word(line * 8 + n as u64)))).collect()
    }

    fn sum(area: &[Line]) -> u64 {
        area.iter().flat_map(|line| line.0).fold(0, u64::wrapping_add)
    }

    #[test]
    fn every_word_is_read() {
        for lines in [0, 1, 7, 1000] {
            let mut area = numbered(lines);
            for instructions in available() {
                assert_eq!(read(instructions, &area), sum(&area), "{instructions:?}, {lines}");
            }
            // Each word counts, whatever its position.
            for word in 0..lines.min(7) * 8 {
                area[(word / 8) as usize].0[(word % 8) as usize] ^= 1 << 40;
                for instructions in available() {
                    assert_eq!(read(instructions, &area), sum(&area), "{instructions:?}, {word}");
                }
            }
        }
    }

    #[test]
    fn every_word_is_written_and_none_beside() {
        for (instructions, store) in available().flat_map(|i| STORES.map(|store| (i, store))) {
            let mut area = numbered(100);
            let before = area.clone();
            write(instructions, store, &mut area[10..90], 0x0123_4567_89ab_cdef);
            assert!(area[10..90].iter().all(|line| line.0 == [0x0123_4567_89ab_cdef; 8]));
            assert_eq!((&area[..10], &area[90..]), (&before[..10], &before[90..]));
        }
    }

    #[test]
    fn every_word_is_copied_and_none_beside() {
        for (instructions, store) in available().flat_map(|i| STORES.map(|store| (i, store))) {
            let from = numbered(80);
            let mut to = vec![Line::ZERO; 100];
            copy(instructions, store, &from, &mut to[10..90]);
            assert_eq!(to[10..90], from, "{instructions:?}, {store:?}");
            assert!(to[..10].iter().chain(&to[90..]).all(|line| *line == Line::ZERO));
        }
    }

    #[test]
    fn the_widths_are_those_of_the_instructions() {
        assert!(Instructions::Plain.is_available());
        let widths = Instructions::ALL.map(Instructions::bytes);
        assert_eq!(widths, [8, 16, 32, 64]);
        assert_eq!(size_of::<Line>(), 64);
        assert_eq!(align_of::<Line>(), 64);
    }

    #[test]
    fn reference_cycles_pass() {
        let Some(before) = reference_cycles() else { return };
        let after = reference_cycles().expect("there was one a moment ago");
        // The second reading may be of another CPU's counter: constant to a few cycles, not more.
        assert!(after.wrapping_add(1 << 20) > before, "{before} then {after}");
    }
}
