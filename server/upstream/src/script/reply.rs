//! The reply of a script: a head with a status among its fields (RFC 3875 §6), and its content.
//!
//! The head is read by `http1`: there is no second reading of fields that could differ.

use http1::{BodyFraming, ResponseBody, ResponseError, ResponseHead, is_name};

use crate::downstream::{Downstream, Length};
use crate::failure::Failure;
use crate::fields::ReplyFields;
use crate::http::HEAD_BYTES_MAX;

/// Interim responses before a reply, at most: scripts have hardly any.
const INTERIM_MAX: u8 = 8;

/// The status line that is put before the head of a script, which has none. Its own status is in a
/// field.
const STATUS_LINE: &[u8] = b"HTTP/1.1 200 \r\n";

/// A reply as far as it has come.
#[derive(Clone)]
pub(crate) struct ScriptReply {
    is_head: bool,
    /// The beginning of the head, after a status line.
    partial: Vec<u8>,
    interim_left: u8,
    to_come: ToCome,
}

/// What of a reply is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ToCome {
    Head,
    /// So many bytes, as the head says.
    Content(u64),
    /// As many bytes as there are.
    UntilEnd,
    /// Nothing that its client gets.
    Dropped,
}

impl ScriptReply {
    /// `is_head` says whether the request was HEAD.
    pub(crate) fn new(is_head: bool) -> Self {
        let partial = Vec::new();
        Self { is_head, partial, interim_left: INTERIM_MAX, to_come: ToCome::Head }
    }

    /// Whether the head is there.
    pub(crate) fn has_head(&self) -> bool {
        self.to_come != ToCome::Head
    }

    /// Whether anything has come.
    pub(crate) fn has_begun(&self) -> bool {
        self.has_head() || !self.partial.is_empty()
    }

    /// Whether only its end says that it is whole.
    pub(crate) fn is_until_end(&self) -> bool {
        self.to_come == ToCome::UntilEnd
    }

    /// Takes bytes of the reply. Returns whether it is over: there is more than its head says.
    pub(crate) fn take<D: Downstream>(
        &mut self,
        d: &mut D,
        output: &[u8],
    ) -> Result<bool, Failure> {
        match &mut self.to_come {
            ToCome::Head => return self.read_head(d, output),
            ToCome::Dropped => {}
            ToCome::UntilEnd => d.push(output),
            ToCome::Content(left) => {
                let wanted = usize::try_from(*left).unwrap_or(usize::MAX).min(output.len());
                *left -= wanted as u64;
                if wanted > 0 {
                    d.push(&output[..wanted]);
                }
                if wanted < output.len() {
                    d.end(b"");
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Reads the head of the reply, and then what of its content has come.
    fn read_head<D: Downstream>(&mut self, d: &mut D, output: &[u8]) -> Result<bool, Failure> {
        self.partial.extend_from_slice(output);
        // A head ends with a line, so that one which comes byte by byte is not parsed as often.
        let mut may_be_whole = output.contains(&b'\n');
        while may_be_whole {
            self.put_status_line();
            let whole = std::mem::take(&mut self.partial);
            let parsed = http1::parse_response_head(&whole, self.is_head).map_err(of_script)?;
            let Some(head) = parsed else {
                self.partial = whole;
                break;
            };
            if head.len > HEAD_BYTES_MAX {
                return Err(Failure::HeadTooLarge);
            }
            self.take_head(d, &head, &whole)?;
            let content = &whole[head.len..];
            if self.to_come != ToCome::Head {
                return if content.is_empty() { Ok(false) } else { self.take(d, content) };
            }
            self.partial.extend_from_slice(content);
            may_be_whole = content.contains(&b'\n');
            self.interim_left = self.interim_left.checked_sub(1).ok_or(Failure::ScriptHead)?;
        }
        match self.partial.len() > HEAD_BYTES_MAX {
            true => Err(Failure::HeadTooLarge),
            false => Ok(false),
        }
    }

    /// Puts a status line before a head that has none, as that of a script. Programs that were
    /// written for `nph-` scripts send one.
    fn put_status_line(&mut self) {
        if !self.partial.starts_with(b"HTTP/1.") {
            self.partial.splice(0..0, STATUS_LINE.iter().copied());
        }
    }

    fn take_head<D: Downstream>(
        &mut self,
        d: &mut D,
        head: &ResponseHead,
        bytes: &[u8],
    ) -> Result<(), Failure> {
        let mut fields = ReplyFields::new(head, bytes);
        let (status, has_field) = match bytes.starts_with(STATUS_LINE) {
            true => script_status(head, bytes)?,
            false => (head.status, true),
        };
        if has_field {
            fields = fields.without_status();
        }
        match status {
            101 => return Err(Failure::Switched),
            103 => d.interim(103, fields),
            ..200 => {}
            _ => {
                let (length, to_come) = match head.body {
                    _ if self.is_head => (Length::None(head.content_length), ToCome::Dropped),
                    _ if matches!(status, 204 | 304) => (Length::None(None), ToCome::Dropped),
                    ResponseBody::Framed(BodyFraming::Length(length)) => {
                        (Length::Known(length), ToCome::Content(length))
                    }
                    _ => (Length::Unknown, ToCome::UntilEnd),
                };
                self.to_come = to_come;
                match local_redirect(head, bytes) {
                    Some(target) => d.redirect(target),
                    None => d.reply(status, length, fields),
                }
            }
        }
        Ok(())
    }

    /// The script has ended.
    pub(crate) fn end<D: Downstream>(&self, d: &mut D) -> Result<(), Failure> {
        match self.to_come {
            ToCome::Head if self.partial.is_empty() => Err(Failure::Closed),
            ToCome::Head | ToCome::Content(1..) => Err(Failure::CutShort),
            ToCome::Content(0) | ToCome::UntilEnd | ToCome::Dropped => {
                d.end(b"");
                Ok(())
            }
        }
    }
}

/// The status of a script's reply (RFC 3875 §6.3): that of the field, 302 with a location and
/// without one, or else 200. Returns whether there is the field, too.
fn script_status(head: &ResponseHead, bytes: &[u8]) -> Result<(u16, bool), Failure> {
    let mut status = None;
    let (mut has_location, mut has_type) = (false, false);
    for (name, value) in head.lines(bytes) {
        match name.len() {
            6 if is_name(name, b"status") => status = status.or(Some(value)),
            8 => has_location |= is_name(name, b"location"),
            12 => has_type |= is_name(name, b"content-type"),
            _ => {}
        }
    }
    match status {
        Some(
            [h @ b'1'..=b'9', t @ b'0'..=b'9', o @ b'0'..=b'9']
            | [h @ b'1'..=b'9', t @ b'0'..=b'9', o @ b'0'..=b'9', b' ', ..],
        ) => {
            let [h, t, o] = [h, t, o].map(|digit| u16::from(digit - b'0'));
            Ok((h * 100 + t * 10 + o, true))
        }
        None if has_location => Ok((302, false)),
        None if has_type => Ok((200, false)),
        Some(_) | None => Err(Failure::ScriptHead),
    }
}

/// The path and query of a local redirect (RFC 3875 §6.2.2), which is a `Location` and nothing
/// else: beside other fields it is for the client, which would not get those.
fn local_redirect<'b>(head: &'b ResponseHead, bytes: &'b [u8]) -> Option<&'b [u8]> {
    let mut lines = head.lines(bytes);
    let (name, target) = lines.next()?;
    let is_local =
        target.starts_with(b"/") && !target.starts_with(b"//") && !target.contains(&b'#');
    let is_only = is_name(name, b"location") && lines.next().is_none();
    (is_only && is_local && bytes.starts_with(STATUS_LINE)).then_some(target)
}

/// What is wrong with the head of a script: what makes it no head is none of HTTP's.
fn of_script(why: ResponseError) -> Failure {
    match why {
        ResponseError::Syntax => Failure::ScriptHead,
        why => Failure::Head(why),
    }
}
