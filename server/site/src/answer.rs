//! Answers: which part of which representation of a file a request gets, or why it gets none.
//!
//! The functions are pure and decide in the order of RFC 9110: negotiation (§12), conditions
//! (§13.2.2), ranges (§14). Heads are written elsewhere.

use http1::{FieldName, Head, Method};

use crate::conditional::{self, Verdict};
use crate::negotiate::{self, Coding};
use crate::range::{self, RangeSet, Ranges};
use crate::resource::FileResource;

/// The answer to a request for a file. The number is the variant's index.
#[derive(Debug)]
pub enum Answer {
    /// 200 with the whole representation.
    Whole(usize),
    /// 206 with one or more ranges of it.
    Partial(usize, RangeSet),
    /// 304.
    NotModified(usize),
    /// 412.
    PreconditionFailed,
    /// 416.
    RangeNotSatisfiable(usize),
    /// 406: the file exists only in codings that the client does not accept.
    NotAcceptable,
}

/// Decides the answer to a GET or HEAD request for `file`. `now` is in seconds since 1970.
#[inline]
#[must_use]
pub fn answer(head: &Head<'_>, file: &FileResource, now: i64, ranges_max: usize) -> Answer {
    let Some(index) = negotiate(head, file) else { return Answer::NotAcceptable };
    if !head.has_conditions() && head.field(FieldName::Range).is_none() {
        return Answer::Whole(index);
    }
    let variant = file.variant(index);
    match conditional::evaluate(head, &variant.validators(now)) {
        Verdict::Proceed => answer_range(head, file, index, now, ranges_max),
        Verdict::NotModified => Answer::NotModified(index),
        Verdict::PreconditionFailed => Answer::PreconditionFailed,
    }
}

#[inline]
fn negotiate(head: &Head<'_>, file: &FileResource) -> Option<usize> {
    if !file.varies() && head.field(FieldName::AcceptEncoding).is_none() {
        return file.position(Coding::Identity);
    }
    let chosen = negotiate::choose(head.values(FieldName::AcceptEncoding), file.available())?;
    file.position(chosen)
}

/// Applies the Range field. It counts only for GET (RFC 9110 §14.2) and only if `If-Range` holds
/// (§13.1.5); a repeated field does not count.
fn answer_range(
    head: &Head<'_>,
    file: &FileResource,
    index: usize,
    now: i64,
    ranges_max: usize,
) -> Answer {
    let variant = file.variant(index);
    let Some(value) = head.only(FieldName::Range).filter(|_| head.method == Method::Get) else {
        return Answer::Whole(index);
    };
    let holds = |value| conditional::if_range_holds(value, &variant.validators(now));
    let is_conditional = head.field(FieldName::IfRange).is_some();
    if is_conditional && !head.only(FieldName::IfRange).is_some_and(holds) {
        return Answer::Whole(index);
    }
    match range::parse(value, variant.len, ranges_max) {
        Ranges::Ignore => Answer::Whole(index),
        Ranges::Unsatisfiable => Answer::RangeNotSatisfiable(index),
        Ranges::Some(set) => Answer::Partial(index, set),
    }
}
