//! The templates of a log that is being built, found by what they ask for.
//!
//! A hash table of its own, since the reader of a large log looks up every line: a lookup must not
//! allocate, and the map of the standard library wants an owned key or a borrowed form of one.

use xxhash_rust::xxh3::xxh3_64;

use super::{Request, Template};

/// Templates in the order in which they came, each once.
#[derive(Debug, Default)]
pub(super) struct TemplateTable {
    templates: Vec<Template>,
    /// Open addressing with linear probing; a power of two, at most half full. The upper half of
    /// the hash, so that most others are passed over unseen, and the index plus one; 0 is free.
    slots: Vec<(u32, u32)>,
}

/// What makes a template, borrowed.
struct Key<'k> {
    method: &'k str,
    uri: &'k [u8],
    body: &'k [u8],
    reply_bytes: Option<u64>,
}

impl TemplateTable {
    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.templates.len()
    }

    /// All of them, in order.
    pub(super) fn into_templates(self) -> Vec<Template> {
        self.templates
    }

    /// The index of the one that equals `template`.
    pub(super) fn find(&self, template: &Template) -> Option<usize> {
        let key = Key::of(template);
        self.find_hashed(&key, key.hash())
    }

    /// Adds one that is not there yet; `None` if the table is full.
    pub(super) fn add(&mut self, template: Template) -> Option<usize> {
        let index = self.templates.len();
        if index >= Request::TEMPLATES_MAX {
            return None;
        }
        if (index + 1) * 2 > self.slots.len() {
            self.grow();
        }
        let hash = Key::of(&template).hash();
        self.templates.push(template);
        self.place(hash, index);
        Some(index)
    }

    /// The index of a plain GET of `uri`, added if it is new; `None` if the table is full.
    #[inline]
    pub(super) fn find_or_add_get(&mut self, uri: &[u8]) -> Option<usize> {
        let key = Key { method: "GET", uri, body: b"", reply_bytes: None };
        match self.find_hashed(&key, key.hash()) {
            Some(index) => Some(index),
            None => self.add(Template::get(uri)),
        }
    }

    #[inline]
    fn find_hashed(&self, key: &Key<'_>, hash: u64) -> Option<usize> {
        let mask = self.slots.len().checked_sub(1)?;
        let mut position = hash as usize & mask;
        loop {
            let (upper, occupant) = self.slots[position];
            let index = (occupant as usize).checked_sub(1)?;
            if upper == (hash >> 32) as u32 && key.matches(&self.templates[index]) {
                return Some(index);
            }
            position = (position + 1) & mask;
        }
    }

    /// Writes `index` into the first free slot for `hash`; there is one.
    fn place(&mut self, hash: u64, index: usize) {
        let mask = self.slots.len() - 1;
        let mut position = hash as usize & mask;
        while self.slots[position].1 != 0 {
            position = (position + 1) & mask;
        }
        self.slots[position] = ((hash >> 32) as u32, index as u32 + 1); // < TEMPLATES_MAX
    }

    fn grow(&mut self) {
        self.slots = vec![(0, 0); (self.slots.len() * 2).max(64)];
        for index in 0..self.templates.len() {
            self.place(Key::of(&self.templates[index]).hash(), index);
        }
    }
}

impl<'k> Key<'k> {
    fn of(template: &'k Template) -> Self {
        Self {
            method: &template.method,
            uri: &template.uri,
            body: &template.body,
            reply_bytes: template.reply_bytes,
        }
    }

    /// Of the URI, which tells nearly all templates apart, and of the body if there is one. The
    /// method and the length of the reply are left to the comparison.
    #[inline]
    fn hash(&self) -> u64 {
        let uri = xxh3_64(self.uri);
        if self.body.is_empty() { uri } else { uri ^ xxh3_64(self.body).rotate_left(17) }
    }

    #[inline]
    fn matches(&self, template: &Template) -> bool {
        self.uri == &*template.uri
            && self.method == &*template.method
            && self.body == &*template.body
            && self.reply_bytes == template.reply_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_added_and_nothing_else() {
        let mut table = TemplateTable::default();
        let uri = |n: usize| format!("/file{n}").into_bytes();
        for n in 0..1000 {
            assert_eq!(table.find(&Template::get(&uri(n))), None);
            assert_eq!(table.find_or_add_get(&uri(n)), Some(n));
        }
        for n in 0..1000 {
            assert_eq!(table.find(&Template::get(&uri(n))), Some(n));
            assert_eq!(table.find_or_add_get(&uri(n)), Some(n));
        }
        assert_eq!(table.len(), 1000);
    }

    #[test]
    fn bodies_are_told_apart() {
        let mut table = TemplateTable::default();
        let post = |body: &[u8]| Template {
            method: "POST".into(),
            body: body.into(),
            ..Template::get(b"/form")
        };
        assert_eq!(table.add(post(b"a")), Some(0));
        assert_eq!(table.find(&post(b"b")), None);
        assert_eq!(table.find(&post(b"a")), Some(0));
    }
}
