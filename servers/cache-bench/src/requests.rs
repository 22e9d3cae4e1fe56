//! The requests: file names, drawn by Zipf's law.

use std::hash::{DefaultHasher, Hash, Hasher};

use statistics::Generator;
use workload::popularity::{Chooser, zipf};

/// A file name and its hash, which is computed before the clock starts: every store is given the
/// hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) hash: u64,
    pub(crate) name: [u8; 24],
}

impl Key {
    /// The word that every store must answer for this key.
    pub(crate) fn word(&self) -> u64 {
        self.hash & 0xFF
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// A hasher that returns the hash that a [`Key`] carries.
#[derive(Clone, Copy, Default)]
pub(crate) struct GivenHash(u64);

impl Hasher for GivenHash {
    fn write(&mut self, _: &[u8]) {
        unreachable!("a key writes its hash only");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Makes `count` file names like those of SPECweb99, `/dir00042/class1_0000123`, hashed as by
/// [`file_cache::Cache::hash`], with a fixed seed.
pub(crate) fn keys(count: usize) -> Vec<Key> {
    let key = |n: usize| {
        let text = format!("/dir{:05}/class{}_{:07}", n % 36_000, n % 4, n / 4);
        let name: [u8; 24] = text.as_bytes().try_into().expect("the format is 24 bytes wide");
        let mut hasher = DefaultHasher::new();
        hasher.write(&name);
        Key { hash: hasher.finish(), name }
    };
    (0..count).map(key).collect()
}

/// Draws `count` indices of keys, that of rank r in proportion to 1/r^alpha. Ranks are scattered
/// over the `keys` (a power of two), so that popular keys are not neighbours in memory.
pub(crate) fn requests(keys: usize, alpha: f64, count: usize, seed: u64) -> Vec<u32> {
    let chooser = Chooser::new(&zipf(keys, alpha));
    let mut generator = Generator::new(seed ^ alpha.to_bits());
    (0..count).map(|_| scatter(chooser.draw(&mut generator), keys)).collect()
}

/// The indices of the `count` most popular of `keys`, the most popular last, as if used most
/// recently.
pub(crate) fn most_popular(count: usize, keys: usize) -> Vec<u32> {
    (0..count).rev().map(|rank| scatter(rank, keys)).collect()
}

/// The key of a rank. The mapping is one to one because the factor is odd and `keys` a power of
/// two.
fn scatter(rank: usize, keys: usize) -> u32 {
    (rank.wrapping_mul(0x9E37_79B1) & (keys - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn popular_keys_are_requested_as_often_as_zipf_says() {
        let (keys, count) = (1 << 10, 200_000);
        let drawn = requests(keys, 1.0, count, 1);
        let harmonic: f64 = (1..=keys).map(|rank| 1.0 / rank as f64).sum();
        let popular = most_popular(2, keys);
        for (rank, key) in [(2.0, popular[0]), (1.0, popular[1])] {
            let found = drawn.iter().filter(|&&one| one == key).count() as f64;
            let expected = count as f64 / rank / harmonic;
            assert!((found - expected).abs() < 5.0 * expected.sqrt(), "{found} {expected}");
        }
        let mut all = most_popular(keys, keys);
        all.sort_unstable();
        assert!(all.iter().copied().eq(0..keys as u32), "each key has one rank");
    }
}
