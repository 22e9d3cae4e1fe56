//! The stores that are compared: the server's cache, alone and with a first level, and the
//! alternatives that Appendix A names, each as short as it can be written. They are not for use
//! elsewhere.

use std::collections::{HashMap, LinkedList, VecDeque};
use std::hash::BuildHasherDefault;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use file_cache::{Cache, Cost, FirstLevel};

use crate::drive::Worker;
use crate::requests::{GivenHash, Key};

/// The metadata of a file, "a few tens of bytes" (Appendix A.1).
#[derive(Clone, Copy)]
pub(crate) struct Metadata([u64; 4]);

fn load(key: &Key) -> Metadata {
    Metadata([key.word(), 1, 2, 3])
}

type Map<V> = HashMap<Key, V, BuildHasherDefault<GivenHash>>;

impl Worker for &Cache<Metadata> {
    fn get(&mut self, key: &Key) -> Option<u64> {
        Cache::get(self, key.hash, &key.name).map(|slot| slot.value().0[0])
    }

    fn set(&mut self, key: &Key) -> bool {
        let before = self.evictions();
        self.insert(key.hash, &key.name, load(key), Cost::default(), 0);
        self.evictions() != before
    }
}

/// Both levels of the server's cache, as the server uses them.
pub(crate) struct TwoLevels<'c> {
    first: FirstLevel<Metadata>,
    second: &'c Cache<Metadata>,
}

impl<'c> TwoLevels<'c> {
    pub(crate) fn new(second: &'c Cache<Metadata>, slots_max: usize) -> Self {
        Self { first: FirstLevel::new(slots_max), second }
    }
}

impl Worker for TwoLevels<'_> {
    fn get(&mut self, key: &Key) -> Option<u64> {
        if let Some(hit) = self.first.get(key.hash, &key.name) {
            return Some(Arc::clone(hit).value().0[0]);
        }
        let slot = self.second.get(key.hash, &key.name)?;
        Some(self.first.insert(slot).value().0[0])
    }

    fn set(&mut self, key: &Key) -> bool {
        let before = self.second.evictions();
        let slot = self.second.insert(key.hash, &key.name, load(key), Cost::default(), 0);
        self.first.insert(slot);
        self.second.evictions() != before
    }
}

/// An LRU of standard parts under one lock: a map, and beside it a list in order of use. Rust's
/// standard lists cannot remove an element from their middle, so a hit appends the key again, and
/// the stale element is skipped when it reaches the front.
pub(crate) struct StandardLru<L>(RwLock<StandardInner<L>>);

struct StandardInner<L> {
    map: Map<(Arc<Metadata>, u64)>,
    order: L,
    stamp: u64,
    capacity: usize,
}

/// The two standard lists that can serve as a queue.
pub(crate) trait Queue: Default + Send + Sync {
    fn append(&mut self, key: Key, stamp: u64);
    fn first(&mut self) -> Option<(Key, u64)>;
    fn count(&self) -> usize;
}

impl Queue for VecDeque<(Key, u64)> {
    fn append(&mut self, key: Key, stamp: u64) {
        self.push_back((key, stamp));
    }

    fn first(&mut self) -> Option<(Key, u64)> {
        self.pop_front()
    }

    fn count(&self) -> usize {
        self.len()
    }
}

impl Queue for LinkedList<(Key, u64)> {
    fn append(&mut self, key: Key, stamp: u64) {
        self.push_back((key, stamp));
    }

    fn first(&mut self) -> Option<(Key, u64)> {
        self.pop_front()
    }

    fn count(&self) -> usize {
        self.len()
    }
}

impl<L: Queue> StandardLru<L> {
    pub(crate) fn new(capacity: usize) -> Self {
        let (map, order) = (Map::default(), L::default());
        Self(RwLock::new(StandardInner { map, order, stamp: 0, capacity }))
    }
}

impl<L: Queue> Worker for &StandardLru<L> {
    fn get(&mut self, key: &Key) -> Option<u64> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        inner.stamp += 1;
        let stamp = inner.stamp;
        let entry = inner.map.get_mut(key)?;
        entry.1 = stamp;
        let value = Arc::clone(&entry.0);
        inner.order.append(*key, stamp);
        inner.compact();
        drop(inner);
        Some(value.0[0])
    }

    fn set(&mut self, key: &Key) -> bool {
        let value = Arc::new(load(key));
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        inner.stamp += 1;
        let stamp = inner.stamp;
        let full = inner.map.len() == inner.capacity;
        if full {
            inner.evict();
        }
        inner.map.insert(*key, (value, stamp));
        inner.order.append(*key, stamp);
        full
    }
}

impl<L: Queue> StandardInner<L> {
    fn is_current(&self, key: &Key, stamp: u64) -> bool {
        self.map.get(key).is_some_and(|entry| entry.1 == stamp)
    }

    fn evict(&mut self) {
        while let Some((key, stamp)) = self.order.first() {
            if self.is_current(&key, stamp) {
                self.map.remove(&key);
                return;
            }
        }
    }

    /// Copies a list that is four times too long, without its stale elements.
    fn compact(&mut self) {
        if self.order.count() <= self.capacity * 4 {
            return;
        }
        let mut kept = L::default();
        while let Some((key, stamp)) = self.order.first() {
            if self.is_current(&key, stamp) {
                kept.append(key, stamp);
            }
        }
        self.order = kept;
    }
}

/// The paper's "standard" list, which Rust's library lacks: doubly linked, its nodes apart from the
/// map and with a copy of the key; the map holds the index of the node. Unlike `std::list` it does
/// not allocate each node.
pub(crate) struct SeparateLru(RwLock<SeparateInner>);

struct SeparateInner {
    map: Map<(Arc<Metadata>, usize)>,
    /// Node 0 stands for both ends of the list; the others hold a key and the indices of their
    /// neighbours.
    nodes: Vec<SeparateNode>,
    capacity: usize,
}

struct SeparateNode {
    key: Key,
    previous: usize,
    next: usize,
}

impl SeparateLru {
    pub(crate) fn new(capacity: usize) -> Self {
        let ends = SeparateNode { key: Key { hash: 0, name: [0; 24] }, previous: 0, next: 0 };
        let inner = SeparateInner { map: Map::default(), nodes: vec![ends], capacity };
        Self(RwLock::new(inner))
    }
}

impl Worker for &SeparateLru {
    fn get(&mut self, key: &Key) -> Option<u64> {
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let (value, node) = inner.map.get(key)?;
        let (value, node) = (Arc::clone(value), *node);
        inner.unlink(node);
        inner.push_front(node);
        drop(inner);
        Some(value.0[0])
    }

    fn set(&mut self, key: &Key) -> bool {
        let value = Arc::new(load(key));
        let mut inner = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let full = inner.map.len() == inner.capacity;
        let place = if full { inner.evict() } else { inner.nodes.len() };
        let node = SeparateNode { key: *key, previous: 0, next: 0 };
        if full {
            inner.nodes[place] = node;
        } else {
            inner.nodes.push(node);
        }
        inner.push_front(place);
        inner.map.insert(*key, (value, place));
        full
    }
}

impl SeparateInner {
    fn unlink(&mut self, node: usize) {
        let (previous, next) = (self.nodes[node].previous, self.nodes[node].next);
        self.nodes[previous].next = next;
        self.nodes[next].previous = previous;
    }

    fn push_front(&mut self, node: usize) {
        let first = self.nodes[0].next;
        (self.nodes[node].previous, self.nodes[node].next) = (0, first);
        self.nodes[first].previous = node;
        self.nodes[0].next = node;
    }

    fn evict(&mut self) -> usize {
        let last = self.nodes[0].previous;
        self.unlink(last);
        let key = self.nodes[last].key;
        self.map.remove(&key);
        last
    }
}

/// A map without eviction under one readers-writer lock.
#[derive(Default)]
pub(crate) struct OneRwLock(RwLock<Map<Arc<Metadata>>>);

impl Worker for &OneRwLock {
    fn get(&mut self, key: &Key) -> Option<u64> {
        let map = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let value = map.get(key).map(Arc::clone);
        drop(map);
        value.map(|value| value.0[0])
    }

    fn set(&mut self, key: &Key) -> bool {
        let value = Arc::new(load(key));
        self.0.write().unwrap_or_else(PoisonError::into_inner).insert(*key, value);
        false
    }
}

/// A map without eviction under one plain lock.
#[derive(Default)]
pub(crate) struct OneMutex(Mutex<Map<Arc<Metadata>>>);

impl Worker for &OneMutex {
    fn get(&mut self, key: &Key) -> Option<u64> {
        let map = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = map.get(key).map(Arc::clone);
        drop(map);
        value.map(|value| value.0[0])
    }

    fn set(&mut self, key: &Key) -> bool {
        let value = Arc::new(load(key));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(*key, value);
        false
    }
}

/// A lock for each bucket, and the bucket's entries in a vector: µKnot's choice. `V` is the value,
/// or a reference to it: a lookup clones it, and this is what is compared.
pub(crate) struct Buckets<V>(Vec<Mutex<Vec<(Key, V)>>>);

impl<V: Clone> Buckets<V> {
    /// Makes `count` buckets, a power of two.
    pub(crate) fn new(count: usize) -> Self {
        Self(std::iter::repeat_with(Mutex::default).take(count).collect())
    }

    pub(crate) fn find(&self, key: &Key) -> Option<V> {
        let bucket = self.bucket(key).lock().unwrap_or_else(PoisonError::into_inner);
        let entry = bucket.iter().find(|entry| entry.0 == *key)?;
        Some(entry.1.clone())
    }

    pub(crate) fn insert(&self, key: &Key, value: V) {
        let mut bucket = self.bucket(key).lock().unwrap_or_else(PoisonError::into_inner);
        match bucket.iter_mut().find(|entry| entry.0 == *key) {
            Some(entry) => entry.1 = value,
            None => bucket.push((*key, value)),
        }
    }

    fn bucket(&self, key: &Key) -> &Mutex<Vec<(Key, V)>> {
        &self.0[key.hash as usize & (self.0.len() - 1)]
    }
}

impl Worker for &Buckets<Arc<Metadata>> {
    fn get(&mut self, key: &Key) -> Option<u64> {
        self.find(key).map(|value| value.0[0])
    }

    fn set(&mut self, key: &Key) -> bool {
        self.insert(key, Arc::new(load(key)));
        false
    }
}

/// A map without locks and without eviction.
#[derive(Default)]
pub(crate) struct LockFree(papaya::HashMap<Key, Arc<Metadata>, BuildHasherDefault<GivenHash>>);

impl Worker for &LockFree {
    fn get(&mut self, key: &Key) -> Option<u64> {
        let value = self.0.pin().get(key).map(Arc::clone);
        value.map(|value| value.0[0])
    }

    fn set(&mut self, key: &Key) -> bool {
        self.0.pin().insert(*key, Arc::new(load(key)));
        false
    }
}

/// Values of `BYTES` bytes, looked up by copy.
pub(crate) struct ByCopy<'b, const BYTES: usize>(pub(crate) &'b Buckets<[u8; BYTES]>);

impl<const BYTES: usize> Worker for ByCopy<'_, BYTES> {
    fn get(&mut self, key: &Key) -> Option<u64> {
        // Without the black box the copy would shrink to the single byte that is used.
        self.0.find(key).map(|value| u64::from(std::hint::black_box(&value)[0]))
    }

    fn set(&mut self, key: &Key) -> bool {
        self.0.insert(key, [key.word() as u8; BYTES]);
        false
    }
}

/// Values of `BYTES` bytes, looked up by reference.
pub(crate) struct ByReference<'b, const BYTES: usize>(pub(crate) &'b Buckets<Arc<[u8; BYTES]>>);

impl<const BYTES: usize> Worker for ByReference<'_, BYTES> {
    fn get(&mut self, key: &Key) -> Option<u64> {
        self.0.find(key).map(|value| u64::from(value[0]))
    }

    fn set(&mut self, key: &Key) -> bool {
        self.0.insert(key, Arc::new([key.word() as u8; BYTES]));
        false
    }
}

/// Values of `BYTES` bytes, looked up by a worker's own reference to the reference
/// ([`file_cache::Hit`]).
pub(crate) struct ByOwnReference<'c, const BYTES: usize> {
    pub(crate) first: FirstLevel<[u8; BYTES]>,
    pub(crate) second: &'c Cache<[u8; BYTES]>,
}

impl<const BYTES: usize> Worker for ByOwnReference<'_, BYTES> {
    fn get(&mut self, key: &Key) -> Option<u64> {
        if let Some(hit) = self.first.get(key.hash, &key.name) {
            return Some(u64::from(Arc::clone(hit).value()[0]));
        }
        let slot = self.second.get(key.hash, &key.name)?;
        Some(u64::from(self.first.insert(slot).value()[0]))
    }

    fn set(&mut self, key: &Key) -> bool {
        let value = [key.word() as u8; BYTES];
        let slot = self.second.insert(key.hash, &key.name, value, Cost::default(), 0);
        self.first.insert(slot);
        false
    }
}
