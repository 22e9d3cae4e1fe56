//! Fully associative caches of the same size beside the real ones: they distinguish capacity misses
//! from conflict misses (Hill 1987).
//!
//! Slow, because each reference is followed; enabled by `three_c`. A shadow keeps blocks that
//! coherence takes away: only its own processor's references count.

use crate::simulation::{Done, Observer, Reference};

/// One list of blocks for each processor, and another observer.
#[derive(Debug)]
pub(crate) struct Shadows<O> {
    shadows: Vec<Shadow>,
    pub(crate) inner: O,
}

/// A list of blocks by their last use; 0 is its head and its tail.
#[derive(Debug)]
struct Shadow {
    capacity: u32,
    /// By block: its node, or 0.
    nodes: Vec<u32>,
    links: Vec<Link>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Link {
    block: u32,
    newer: u32,
    older: u32,
}

impl<O> Shadows<O> {
    pub(crate) fn new(cpus: u32, blocks: usize, capacity: u32, inner: O) -> Self {
        let shadow = || Shadow { capacity, nodes: vec![0; blocks], links: vec![Link::default()] };
        Self { shadows: (0..cpus).map(|_| shadow()).collect(), inner }
    }
}

impl<O: Observer> Observer for Shadows<O> {
    fn reference(&mut self, reference: &Reference) {
        self.shadows[reference.cpu as usize].touch(reference.block);
        self.inner.reference(reference);
    }

    fn transaction(&mut self, done: &Done) {
        self.inner.transaction(done);
    }

    fn row(&mut self, local: bool, number: u8) {
        self.inner.row(local, number);
    }

    fn would_hit_anywhere(&self, cpu: u32, block: u32) -> Option<bool> {
        Some(self.shadows[cpu as usize].nodes[block as usize] != 0)
    }
}

impl Shadow {
    fn touch(&mut self, block: u32) {
        let mut node = self.nodes[block as usize];
        if node != 0 && self.links[0].older == node {
            return;
        }
        if node != 0 {
            self.unlink(node);
        } else if self.links.len() as u32 <= self.capacity {
            node = self.links.len() as u32;
            self.links.push(Link::default());
        } else {
            node = self.links[0].newer;
            self.unlink(node);
            self.nodes[self.links[node as usize].block as usize] = 0;
        }
        self.nodes[block as usize] = node;
        let newest = self.links[0].older;
        self.links[node as usize] = Link { block, newer: 0, older: newest };
        self.links[newest as usize].newer = node;
        self.links[0].older = node;
    }

    fn unlink(&mut self, node: u32) {
        let Link { newer, older, .. } = self.links[node as usize];
        self.links[newer as usize].older = older;
        self.links[older as usize].newer = newer;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use statistics::Generator;

    #[test]
    fn a_shadow_is_a_list_of_the_blocks_used_last() {
        let mut generator = Generator::new(4);
        let mut shadow = Shadow { capacity: 5, nodes: vec![0; 20], links: vec![Link::default()] };
        let mut list: Vec<u32> = Vec::new();
        for _ in 0..2000 {
            let block = 1 + generator.below(9) as u32;
            assert_eq!(shadow.nodes[block as usize] != 0, list.contains(&block));
            shadow.touch(block);
            list.retain(|other| *other != block);
            list.insert(0, block);
            list.truncate(5);
        }
    }
}
