//! The templates of a log that is being built, found by their contents.

use super::index::{BATCH, Index};
use super::{Request, Template};

/// Templates in the order in which they were added, each once.
#[derive(Debug, Default)]
pub(super) struct TemplateTable {
    templates: Vec<Template>,
    /// Plain GETs by URI: nearly all templates. The values are indices into `templates`.
    gets: Index,
    /// All other templates, by all of their contents.
    others: Index,
    /// Room for a key of `others`.
    scratch: Vec<u8>,
}

impl TemplateTable {
    /// The number of templates.
    pub(super) fn len(&self) -> usize {
        self.templates.len()
    }

    /// All templates, in order.
    pub(super) fn into_templates(self) -> Vec<Template> {
        self.templates
    }

    /// The index of the one that equals `template`, added if there is none; `None` if the table is
    /// full.
    pub(super) fn find_or_add(&mut self, template: Template) -> Option<usize> {
        let next = self.next();
        let found = if is_plain_get(&template) {
            self.gets.find_or_add(&template.uri, next)
        } else {
            write_key(&template, &mut self.scratch);
            self.others.find_or_add(&self.scratch, next)
        }?;
        if Some(found) == next {
            self.templates.push(template);
        }
        Some(found as usize)
    }

    /// The indices of plain GETs of `uris`, at most [`BATCH`], into the places of `found`; `None`
    /// if the table is full.
    #[inline]
    pub(super) fn find_or_add_gets(
        &mut self,
        uris: &[&[u8]],
        found: &mut [u32; BATCH],
    ) -> Option<()> {
        let mut known = [None; BATCH];
        self.gets.find_all(uris, &mut known);
        for ((uri, known), found) in uris.iter().zip(known).zip(found) {
            *found = match known {
                Some(index) => index,
                // The template is new, or was added by one before it in the batch.
                None => self.find_or_add(Template::get(uri))? as u32, // < TEMPLATES_MAX
            };
        }
        Some(())
    }

    /// The index that a new template gets, if there is room for it.
    fn next(&self) -> Option<u32> {
        (self.templates.len() < Request::TEMPLATES_MAX).then_some(self.templates.len() as u32)
    }
}

fn is_plain_get(template: &Template) -> bool {
    let has_length = template.reply_bytes.is_some() || template.seen_bytes.is_some();
    &*template.method == "GET" && template.body.is_empty() && !has_length
}

/// Writes bytes that differ for different templates: the lengths precede the parts.
fn write_key(template: &Template, key: &mut Vec<u8>) {
    key.clear();
    for part in [template.method.as_bytes(), &template.uri] {
        key.extend_from_slice(&part.len().to_le_bytes());
        key.extend_from_slice(part);
    }
    for length in [template.reply_bytes, template.seen_bytes] {
        key.push(u8::from(length.is_some()));
        key.extend_from_slice(&length.unwrap_or(0).to_le_bytes());
    }
    key.extend_from_slice(&template.body);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uri(n: usize) -> Vec<u8> {
        format!("/file{n}").into_bytes()
    }

    #[test]
    fn finds_what_was_added_and_nothing_else() {
        let mut table = TemplateTable::default();
        for _ in 0..2 {
            for n in 0..1000 {
                assert_eq!(table.find_or_add(Template::get(&uri(n))), Some(n));
            }
        }
        assert_eq!(table.len(), 1000);
    }

    #[test]
    fn a_batch_is_one_after_another() {
        let mut table = TemplateTable::default();
        for start in 0..100 {
            let uris: Vec<Vec<u8>> = (0..BATCH).map(|n| uri((start + n) % 90 / 2)).collect();
            let borrowed: Vec<&[u8]> = uris.iter().map(Vec::as_slice).collect();
            let mut found = [0; BATCH];
            table.find_or_add_gets(&borrowed, &mut found).unwrap();
            for (uri, found) in uris.iter().zip(found) {
                assert_eq!(&table.templates[found as usize], &Template::get(uri));
            }
        }
        assert_eq!(table.len(), 45);
    }

    #[test]
    fn everything_tells_templates_apart() {
        let mut table = TemplateTable::default();
        let plain = Template::get(b"/a");
        let different = [
            plain.clone(),
            Template { method: "GET/".into(), uri: b"a"[..].into(), ..plain.clone() },
            Template { method: "POST".into(), ..plain.clone() },
            Template { body: b"\0"[..].into(), ..plain.clone() },
            Template { body: b"\0\0\0\0\0\0\0\0"[..].into(), ..plain.clone() },
            Template { reply_bytes: Some(0), ..plain.clone() },
            Template { reply_bytes: Some(1), ..plain.clone() },
            Template { seen_bytes: Some(0), ..plain.clone() },
            Template { seen_bytes: Some(1), ..plain.clone() },
            Template { body: b"\0"[..].into(), reply_bytes: Some(0), ..plain },
        ];
        for _ in 0..2 {
            for (index, template) in different.iter().enumerate() {
                assert_eq!(table.find_or_add(template.clone()), Some(index));
            }
        }
    }
}
