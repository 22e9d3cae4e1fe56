//! Entries as bytes, for caches outside of this process's memory. They are only for other processes
//! of the same program on the same machine: there is no version, and nothing is kept on disk.
//!
//! Files that are sent from a descriptor are encoded as the index of their file stamp: the caller
//! of the decoder provides the descriptor. Bytes are never trusted: whatever they are, decoding
//! gives an entry whose every method is safe to call, or none.

use super::{
    Body, DATE_LEN, Entry, FileRef, FileResource, FileStamp, Identity, Redirect, Resource,
    STATUS_NOT_MODIFIED, STATUS_OK, Variant,
};
use crate::entity_tag::EntityTag;
use crate::negotiate::Coding;

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Undecodable {
    /// The bytes are not an encoded entry.
    Malformed,
    /// A file of the entry was not available.
    NoFile,
}

const FILE: u8 = 0;
const REDIRECT: u8 = 1;
const DIRECTORY: u8 = 2;
const MISSING: u8 = 3;
const FORBIDDEN: u8 = 4;

const IN_MEMORY: u8 = 0;
const IN_FILE: u8 = 1;

/// The statuses that a redirect may have.
const REDIRECTS: [u16; 5] = [301, 302, 303, 307, 308];

impl Entry {
    /// Appends the entry as bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.resolved_ns.to_le_bytes());
        put_len(out, self.stamps.len());
        for stamp in &self.stamps {
            put_bytes(out, &stamp.path);
            put_option(out, stamp.identity.as_ref(), put_identity);
        }
        match &self.resource {
            Resource::File(file) => {
                out.push(FILE);
                put_len(out, file.variants.len());
                file.variants.iter().for_each(|variant| put_variant(out, variant));
            }
            Resource::Redirect(redirect) => {
                out.push(REDIRECT);
                out.extend_from_slice(&redirect.status.to_le_bytes());
                put_bytes(out, &redirect.location);
            }
            Resource::Directory => out.push(DIRECTORY),
            Resource::Missing => out.push(MISSING),
            Resource::Forbidden => out.push(FORBIDDEN),
        }
    }

    /// Decodes the entry in `bytes`. `open` is called for each variant whose body is in a file,
    /// with the variant's index and the stamp of its file.
    ///
    /// # Errors
    /// The bytes are no entry, or `open` had no file.
    pub fn decode(
        bytes: &[u8],
        open: &mut dyn FnMut(usize, &FileStamp) -> Option<FileRef>,
    ) -> Result<Self, Undecodable> {
        let mut input = Input(bytes);
        let resolved_ns = input.i128()?;
        let stamps: Box<[FileStamp]> = input.list(Input::stamp)?.into();
        let resource = match input.u8()? {
            FILE => {
                let mut index = 0;
                let variants = input.list(|input| {
                    index += 1;
                    input.variant(&mut |source| open(index - 1, stamps.get(source)?))
                })?;
                if variants.is_empty() {
                    return Err(Undecodable::Malformed);
                }
                Resource::File(FileResource::new(variants))
            }
            REDIRECT => Resource::Redirect(input.redirect()?),
            DIRECTORY => Resource::Directory,
            MISSING => Resource::Missing,
            FORBIDDEN => Resource::Forbidden,
            _ => return Err(Undecodable::Malformed),
        };
        if !input.0.is_empty() {
            return Err(Undecodable::Malformed);
        }
        Ok(Self { resource, stamps, resolved_ns })
    }
}

fn put_variant(out: &mut Vec<u8>, variant: &Variant) {
    out.push(variant.coding as u8);
    out.extend_from_slice(&variant.len.to_le_bytes());
    put_bytes(out, variant.etag.as_bytes());
    put_option(out, variant.modified, |out, seconds| out.extend_from_slice(&seconds.to_le_bytes()));
    out.push(u8::from(variant.has_strong_date));
    put_bytes(out, variant.content_type.as_bytes());
    put_bytes(out, &variant.head_ok);
    put_bytes(out, &variant.head_not_modified);
    out.extend_from_slice(&variant.fields_end.to_le_bytes());
    out.extend_from_slice(&variant.modified_at.to_le_bytes());
    out.extend_from_slice(&variant.source.to_le_bytes());
    match &variant.body {
        Body::Memory(bytes) => {
            out.push(IN_MEMORY);
            put_bytes(out, bytes);
        }
        Body::File(_) => out.push(IN_FILE),
    }
}

fn put_identity(out: &mut Vec<u8>, identity: &Identity) {
    for number in [identity.device, identity.inode, identity.len] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for number in [identity.modified_ns, identity.changed_ns] {
        out.extend_from_slice(&number.to_le_bytes());
    }
}

fn put_option<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    out.push(u8::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// Appends a length. Paths, heads and small bodies are bounded far below 2^32.
fn put_len(out: &mut Vec<u8>, len: usize) {
    out.extend_from_slice(&(len as u32).to_le_bytes());
}

/// The bytes that have not been read.
struct Input<'b>(&'b [u8]);

type Read<T> = Result<T, Undecodable>;

impl<'b> Input<'b> {
    fn take(&mut self, len: usize) -> Read<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(Undecodable::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Undecodable::Malformed)?;
        self.0 = rest;
        Ok(*taken)
    }

    fn u8(&mut self) -> Read<u8> {
        self.array().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Read<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Read<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn i128(&mut self) -> Read<i128> {
        self.array().map(i128::from_le_bytes)
    }

    fn len(&mut self) -> Read<usize> {
        self.u32().map(|len| len as usize)
    }

    fn bytes(&mut self) -> Read<&'b [u8]> {
        let len = self.len()?;
        self.take(len)
    }

    fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Read<T>) -> Read<Option<T>> {
        match self.u8()? {
            0 => Ok(None),
            1 => read(self).map(Some),
            _ => Err(Undecodable::Malformed),
        }
    }

    /// Reads a list. Each item takes a byte at least, so that a false count costs no memory.
    fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count = self.len()?;
        if count > self.0.len() {
            return Err(Undecodable::Malformed);
        }
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(items)
    }

    fn stamp(&mut self) -> Read<FileStamp> {
        let path = self.bytes()?.into();
        Ok(FileStamp { path, identity: self.option(Self::identity)? })
    }

    fn identity(&mut self) -> Read<Identity> {
        Ok(Identity {
            device: self.u64()?,
            inode: self.u64()?,
            len: self.u64()?,
            modified_ns: self.i128()?,
            changed_ns: self.i128()?,
        })
    }

    fn redirect(&mut self) -> Read<Redirect> {
        let status = self.u16()?;
        let location = self.bytes()?;
        let is_sound = REDIRECTS.contains(&status) && location.iter().all(u8::is_ascii_graphic);
        if !is_sound {
            return Err(Undecodable::Malformed);
        }
        Ok(Redirect { status, location: location.into() })
    }

    fn variant(&mut self, open: &mut dyn FnMut(usize) -> Option<FileRef>) -> Read<Variant> {
        let coding = self.u8()?;
        let coding = Coding::ALL.into_iter().find(|c| *c as u8 == coding);
        let coding = coding.ok_or(Undecodable::Malformed)?;
        let len = self.u64()?;
        let etag = EntityTag::from_bytes(self.bytes()?).ok_or(Undecodable::Malformed)?;
        let modified = self.option(|input| input.array().map(i64::from_le_bytes))?;
        let has_strong_date = self.option(|_| Ok(()))?.is_some();
        let content_type = str::from_utf8(self.bytes()?).map_err(|_| Undecodable::Malformed)?;
        let head_ok = self.head(STATUS_OK)?;
        let head_not_modified = self.head(STATUS_NOT_MODIFIED)?;
        let (fields_end, modified_at) = self.places(head_ok.len())?;
        let source = self.u16()?;
        let body = match self.u8()? {
            IN_MEMORY => {
                let bytes = self.bytes()?;
                if bytes.len() as u64 != len {
                    return Err(Undecodable::Malformed);
                }
                Body::Memory(bytes.into())
            }
            IN_FILE => Body::File(open(source.into()).ok_or(Undecodable::NoFile)?),
            _ => return Err(Undecodable::Malformed),
        };
        Ok(Variant {
            coding,
            len,
            etag,
            modified,
            has_strong_date,
            body,
            content_type: content_type.into(),
            head_ok,
            head_not_modified,
            fields_end,
            modified_at,
            source,
        })
    }

    /// Reads the places in a 200 head of `head_len` bytes where its fields end, and where there is
    /// room for a second date: within the fields, or nowhere.
    fn places(&mut self, head_len: usize) -> Read<(u32, u32)> {
        let (fields_end, modified_at) = (self.u32()?, self.u32()?);
        let (end, at) = (fields_end as usize, modified_at as usize);
        let start = STATUS_OK.len() + DATE_LEN + 2;
        let is_sound = (start..=head_len).contains(&end)
            && (at == 0
                || (at >= start && at.checked_add(DATE_LEN).is_some_and(|last| last <= end)));
        if is_sound { Ok((fields_end, modified_at)) } else { Err(Undecodable::Malformed) }
    }

    /// Reads a head that begins like those of this crate, with room for the date, and ends with an
    /// empty line.
    fn head(&mut self, start: &[u8]) -> Read<Box<[u8]>> {
        let head = self.bytes()?;
        let is_sound = head.starts_with(start)
            && head.len() >= start.len() + DATE_LEN + 4
            && head.ends_with(b"\r\n");
        if is_sound { Ok(head.into()) } else { Err(Undecodable::Malformed) }
    }
}

#[cfg(test)]
mod tests;
