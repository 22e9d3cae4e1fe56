//! A doubly linked list through the nodes of a slab: the basis of all policies. It owns no node and
//! allocates nothing.

use crate::slab::{NIL, NodeId, Slab};

/// The list. New nodes come in at the front; a node is on at most one list.
pub(super) struct List {
    front: NodeId,
    back: NodeId,
    len: usize,
}

impl List {
    pub(super) fn new() -> Self {
        Self { front: NIL, back: NIL, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn push_front<V>(&mut self, nodes: &mut Slab<V>, id: NodeId) {
        let node = nodes.get_mut(id);
        node.previous = NIL;
        node.next = self.front;
        if self.front == NIL {
            self.back = id;
        } else {
            nodes.get_mut(self.front).previous = id;
        }
        self.front = id;
        self.len += 1;
    }

    pub(super) fn pop_back<V>(&mut self, nodes: &mut Slab<V>) -> Option<NodeId> {
        let id = self.back;
        if id == NIL {
            return None;
        }
        self.unlink(nodes, id);
        Some(id)
    }

    pub(super) fn unlink<V>(&mut self, nodes: &mut Slab<V>, id: NodeId) {
        let node = nodes.get(id);
        let (previous, next) = (node.previous, node.next);
        if previous == NIL {
            self.front = next;
        } else {
            nodes.get_mut(previous).next = next;
        }
        if next == NIL {
            self.back = previous;
        } else {
            nodes.get_mut(next).previous = previous;
        }
        self.len -= 1;
    }

    pub(super) fn move_to_front<V>(&mut self, nodes: &mut Slab<V>, id: NodeId) {
        if self.front != id {
            self.unlink(nodes, id);
            self.push_front(nodes, id);
        }
    }
}
