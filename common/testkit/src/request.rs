//! What a checker must know of the requests it sends: where each begins and its method.
//!
//! This is not a reliable parser: most cases are malformed on purpose. The scan ends where the
//! bytes are ambiguous.

/// The methods of the pipelined requests in `bytes`, in order.
pub fn methods(bytes: &[u8]) -> Vec<String> {
    let mut methods = Vec::new();
    let mut rest = bytes;
    while let Some((method, after)) = next_request(rest) {
        methods.push(method);
        rest = after;
    }
    methods
}

/// For each pipelined request in `bytes`, whether it is a HEAD: its response has no body.
pub fn heads(bytes: &[u8]) -> Vec<bool> {
    methods(bytes).iter().map(|method| method == "HEAD").collect()
}

/// The first request's method and what follows that request.
fn next_request(bytes: &[u8]) -> Option<(String, &[u8])> {
    let start = bytes.iter().position(|byte| !b"\r\n".contains(byte))?;
    let bytes = &bytes[start..];
    let method_len = bytes.iter().position(|byte| !byte.is_ascii_alphabetic())?;
    let method = String::from_utf8_lossy(&bytes[..method_len]).into_owned();
    let Some(head_end) = find(bytes, b"\r\n\r\n") else { return Some((method, &[])) };
    let (head, body) = bytes.split_at(head_end + 4);
    Some((method, skip_body(head, body)))
}

fn skip_body<'b>(head: &[u8], body: &'b [u8]) -> &'b [u8] {
    let text = String::from_utf8_lossy(head).to_ascii_lowercase();
    if text.contains("\r\ntransfer-encoding:") {
        return find(body, b"0\r\n\r\n").map_or(&[], |at| &body[at + 5..]);
    }
    let len = text
        .split_once("\r\ncontent-length:")
        .and_then(|(_, value)| value.split("\r\n").next()?.trim().parse().ok())
        .unwrap_or(0);
    body.get(len..).unwrap_or(&[])
}

pub(crate) fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_of_pipelined_requests() {
        let check = |input: &str, expected: &[&str]| {
            assert_eq!(methods(input.as_bytes()), expected, "{input:?}");
        };
        check("", &[]);
        check("GET / HTTP/1.1\r\n\r\n", &["GET"]);
        check("\r\nHEAD / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n", &["HEAD", "GET"]);
        check(
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nHEAD HEAD / HTTP/1.1\r\n\r\n",
            &["POST", "HEAD"],
        );
        check(
            "GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nHEAD\r\n0\r\n\r\nGET / H",
            &["GET", "GET"],
        );
        check("GET / HTTP/1.1\r\nContent-Length: 9\r\n\r\nabc", &["GET"]);
    }
}
