//! Memory nodes: the node of each page, and the processors at each node.
//!
//! This model is our own: the paper's memory is equally far from all processors. How much longer a
//! remote block takes is the bus's to know.

use crate::machine::{NodePlacement, Numa};

/// The node of a page that has not been used.
const NOWHERE: u8 = u8::MAX;

/// The nodes of pages.
#[derive(Debug)]
pub(super) struct Nodes {
    numa: Numa,
    cpus: usize,
    /// log2 of the blocks of a page.
    page_bits: u32,
    /// By frame: its node.
    frames: Vec<u8>,
}

impl Nodes {
    pub(super) fn new(numa: Numa, cpus: usize, frames: usize, page_bits: u32) -> Self {
        let node = |frame: usize| match numa.placement {
            NodePlacement::FirstTouch => NOWHERE,
            NodePlacement::Interleaved => (frame % numa.nodes as usize) as u8,
        };
        Self { numa, cpus, page_bits, frames: (0..frames).map(node).collect() }
    }

    /// Whether a block is at another node than the processor that gets it from memory. A page's
    /// first block always comes from the processor's node.
    pub(super) fn is_remote(&mut self, cpu: usize, block: u32) -> bool {
        let own = (cpu * self.numa.nodes as usize / self.cpus) as u8;
        let node = &mut self.frames[(block >> self.page_bits) as usize];
        if *node == NOWHERE {
            *node = own;
        }
        *node != own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_where_they_were_used_first_or_everywhere_in_turn() {
        let mut numa =
            Numa { nodes: 2, remote_extra_cycles: 9, placement: NodePlacement::FirstTouch };
        let mut nodes = Nodes::new(numa, 8, 4, 5);
        assert!(!nodes.is_remote(5, 32) && !nodes.is_remote(3, 64));
        // Processors 0 to 3 are at the first node; blocks 32 to 63 are of one page.
        let remote = [0, 3, 4, 7].map(|cpu| nodes.is_remote(cpu, 63));
        assert_eq!(remote, [true, true, false, false]);
        assert!(nodes.is_remote(4, 95));
        numa.placement = NodePlacement::Interleaved;
        let mut nodes = Nodes::new(numa, 8, 4, 5);
        let remote = [0, 32, 64, 96].map(|block| nodes.is_remote(7, block));
        assert_eq!(remote, [true, false, true, false]);
    }
}
