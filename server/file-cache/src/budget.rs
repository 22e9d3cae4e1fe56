//! The cost of an entry, the budget of a cache, and its usage. This is arithmetic only: the
//! policies decide which entry is evicted.

/// The cost of one entry, as the caller computes it. The cache adds nothing to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Memory in bytes: heads, body, key, whatever the caller wants bounded.
    pub bytes: usize,
    /// Open file descriptors.
    pub descriptors: usize,
}

/// The most that a cache may hold. Zero means nothing at all, `usize::MAX` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Sum of [`Cost::bytes`].
    pub bytes: usize,
    /// Sum of [`Cost::descriptors`].
    pub descriptors: usize,
    /// Number of entries, whatever they cost: negative entries cost almost nothing.
    pub entries: usize,
}

/// The current content of a cache. It never exceeds the budget in any of the three resources.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Sum of [`Cost::bytes`].
    pub bytes: usize,
    /// Sum of [`Cost::descriptors`].
    pub descriptors: usize,
    /// Number of entries.
    pub entries: usize,
}

/// One of the three resources that can run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    Bytes,
    Descriptors,
    Entries,
}

impl Budget {
    /// Returns an even share for each of `shards`; the remainder of the division is unused.
    pub(crate) fn share(self, shards: usize) -> Self {
        let divide = |total: usize| if total == usize::MAX { total } else { total / shards };
        Self {
            bytes: divide(self.bytes),
            descriptors: divide(self.descriptors),
            entries: divide(self.entries),
        }
    }

    /// The first resource of which too little is left for one more entry, or none if it fits.
    pub(crate) fn shortage(self, used: Usage, cost: Cost) -> Option<Resource> {
        if self.descriptors.saturating_sub(used.descriptors) < cost.descriptors {
            Some(Resource::Descriptors)
        } else if self.bytes.saturating_sub(used.bytes) < cost.bytes {
            Some(Resource::Bytes)
        } else if self.entries <= used.entries {
            Some(Resource::Entries)
        } else {
            None
        }
    }
}

impl Usage {
    pub(crate) fn add(&mut self, cost: Cost) {
        self.bytes += cost.bytes;
        self.descriptors += cost.descriptors;
        self.entries += 1;
    }

    pub(crate) fn subtract(&mut self, cost: Cost) {
        self.bytes -= cost.bytes;
        self.descriptors -= cost.descriptors;
        self.entries -= 1;
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            descriptors: self.descriptors.saturating_add(other.descriptors),
            entries: self.entries.saturating_add(other.entries),
        }
    }

    pub(crate) fn amount(self, resource: Resource) -> usize {
        match resource {
            Resource::Bytes => self.bytes,
            Resource::Descriptors => self.descriptors,
            Resource::Entries => self.entries,
        }
    }
}
