//! Encoded entries are decoded unchanged, and no bytes do harm.

use std::fs::File;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;

use super::super::Representation;
use super::*;
use crate::entity_tag::ContentHash;
use crate::host::{HostSettings, Site};

fn null() -> FileRef {
    FileRef::new(File::open("/dev/null").unwrap().into())
}

fn encoded(entry: &Entry) -> Vec<u8> {
    let mut bytes = Vec::new();
    entry.encode(&mut bytes);
    bytes
}

fn bytes(len_max: usize) -> impl Strategy<Value = Box<[u8]>> {
    vec(any::<u8>(), 0..len_max).prop_map(Into::into)
}

fn identity() -> impl Strategy<Value = Identity> {
    (any::<[u64; 3]>(), any::<[i128; 2]>()).prop_map(|([device, inode, len], times)| {
        let [modified_ns, changed_ns] = times;
        Identity { device, inode, len, modified_ns, changed_ns }
    })
}

fn stamp() -> impl Strategy<Value = FileStamp> {
    let identity = proptest::option::of(identity());
    (bytes(40), identity).prop_map(|(path, identity)| FileStamp { path, identity })
}

/// Variants as resolution makes them, with small bodies in memory or in a file.
fn variant() -> impl Strategy<Value = Variant> {
    let coding = proptest::sample::select(&Coding::ALL[..]);
    let modified = (proptest::option::of(0_i64..4_000_000_000), any::<[bool; 2]>());
    (coding, bytes(100), modified, any::<bool>(), 0_u16..3).prop_map(
        |(coding, body, (modified, [is_in_future, has_strong_date]), is_in_memory, source)| {
            let site = Site::new(vec![HostSettings::new("/".into())]).unwrap();
            let len = body.len() as u64;
            Variant::new(Representation {
                host: site.host(0),
                path: b"/a/page.html",
                coding,
                len,
                etag: EntityTag::from_content(ContentHash::compute(&body), coding),
                modified,
                has_strong_date,
                is_in_future,
                varies: coding != Coding::Identity,
                body: if is_in_memory { Body::Memory(body) } else { Body::File(null()) },
                source,
            })
        },
    )
}

fn resource() -> impl Strategy<Value = Resource> {
    let status = proptest::sample::select(&REDIRECTS[..]);
    let redirect = (status, "[!-~]{0,40}").prop_map(|(status, location)| {
        Resource::Redirect(Redirect { status, location: location.into_bytes().into() })
    });
    prop_oneof![
        vec(variant(), 1..4).prop_map(|variants| Resource::File(FileResource::new(variants))),
        redirect,
        Just(()).prop_map(|()| Resource::Directory),
        Just(()).prop_map(|()| Resource::Missing),
        Just(()).prop_map(|()| Resource::Forbidden),
    ]
}

fn entry() -> impl Strategy<Value = Entry> {
    (resource(), vec(stamp(), 3..6), any::<i128>()).prop_map(|(resource, stamps, resolved_ns)| {
        Entry { resource, stamps: stamps.into(), resolved_ns }
    })
}

/// Calls every method that an invalid entry could break.
fn use_up(entry: &Entry) {
    let mut out = Vec::new();
    let _ = (entry.is_settled(), entry.cost());
    if let Resource::File(file) = &entry.resource {
        for coding in Coding::ALL {
            let Some(index) = file.position(coding) else { continue };
            let variant = file.variant(index);
            for connection in [&b""[..], b"Connection: close\r\n"] {
                variant.write_ok(&mut out, &[b'-'; DATE_LEN], connection);
                variant.write_not_modified(&mut out, &[b'-'; DATE_LEN], connection);
            }
            let _ = (variant.fields(&[b'-'; DATE_LEN]), variant.validators(0));
        }
    }
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(entry in entry()) {
        let bytes = encoded(&entry);
        let file = null();
        let mut asked = Vec::new();
        let decoded = Entry::decode(&bytes, &mut |index, stamp| {
            asked.push((index, stamp.clone()));
            Some(FileRef::clone(&file))
        });
        let decoded = decoded.unwrap();
        prop_assert_eq!(encoded(&decoded), bytes);
        prop_assert_eq!(format!("{:?}", decoded.stamps), format!("{:?}", entry.stamps));
        let resources = (&entry.resource, &decoded.resource);
        if let (Resource::File(file), Resource::File(again)) = resources {
            prop_assert_eq!(file.available(), again.available());
            for (index, variant) in file.variants.iter().enumerate() {
                let place = (index, entry.stamps[usize::from(variant.source)].clone());
                let is_in_file = matches!(variant.body, Body::File(_));
                prop_assert_eq!(asked.contains(&place), is_in_file);
                let mut heads = [Vec::new(), Vec::new()];
                variant.write_ok(&mut heads[0], &[b'+'; DATE_LEN], b"");
                again.variants[index].write_ok(&mut heads[1], &[b'+'; DATE_LEN], b"");
                prop_assert_eq!(&heads[0], &heads[1]);
            }
        }
        use_up(&decoded);
    }

    #[test]
    fn no_bytes_do_harm(bytes in vec(any::<u8>(), 0..300)) {
        if let Ok(entry) = Entry::decode(&bytes, &mut |_, _| Some(null())) {
            use_up(&entry);
        }
    }

    /// Bytes that are nearly right get further than random ones.
    #[test]
    fn nearly_right_bytes_do_no_harm(
        entry in entry(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        end in any::<prop::sample::Index>(),
    ) {
        let mut bytes = encoded(&entry);
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        for bytes in [&bytes[..], &bytes[..end.index(bytes.len())]] {
            if let Ok(entry) = Entry::decode(bytes, &mut |_, _| Some(null())) {
                use_up(&entry);
            }
        }
    }

    #[test]
    fn an_entry_that_is_cut_short_is_none(entry in entry(), end in any::<prop::sample::Index>()) {
        let bytes = encoded(&entry);
        let cut = &bytes[..end.index(bytes.len())];
        let decoded = Entry::decode(cut, &mut |_, _| Some(null()));
        prop_assert_eq!(decoded.map(|_| ()), Err(Undecodable::Malformed));
    }
}

#[test]
fn without_its_file_there_is_no_entry() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = 0;
    while seen < 20 {
        let entry = entry().new_tree(&mut runner).unwrap().current();
        let Resource::File(file) = &entry.resource else { continue };
        let is_needed = file.variants.iter().any(|v| matches!(v.body, Body::File(_)));
        let decoded = Entry::decode(&encoded(&entry), &mut |_, _| None);
        assert_eq!(decoded.err(), is_needed.then_some(Undecodable::NoFile));
        seen += usize::from(is_needed);
    }
}
