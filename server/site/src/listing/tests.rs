//! Listings: exact outputs, hostile names, and the order.

use proptest::prelude::*;

use super::*;

const FILE: Item<'static> = Item { name: b"a", kind: Kind::File, len: 0, modified: None };

fn render(format: Format, path: &[u8], items: &[Item<'_>]) -> String {
    let mut out = Vec::new();
    let mut renderer = Renderer::new(format);
    renderer.header(path, &mut out);
    for item in items {
        renderer.item(item, &mut out);
    }
    renderer.footer(&mut out);
    String::from_utf8(out).expect("what is not UTF-8 has been replaced")
}

#[test]
fn a_page() {
    let items = [
        Item { name: b"src", kind: Kind::Directory, len: 4096, modified: Some(784_111_777) },
        Item { name: b"read me.txt", kind: Kind::File, len: 1536, modified: None },
    ];
    let page = render(Format::Html, b"/docs/", &items).replace(STYLE, "");
    let expected = r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>/docs/</title>
<style></style>
</head>
<body>
<h1>/docs/</h1>
<table>
<thead><tr><th>Name</th><th>Size</th><th>Modified (UTC)</th></tr></thead>
<tbody>
<tr><td><a href="../">../</a></td><td></td><td></td></tr>
<tr><td><a href="./src/">src/</a></td><td></td><td>1994-11-06 08:49</td></tr>
<tr><td><a href="./read%20me.txt">read me.txt</a></td><td>1.5 KiB</td><td></td></tr>
</tbody>
</table>
</body>
</html>
"#;
    assert_eq!(page, expected);
    assert!(!render(Format::Html, b"/", &items).contains("../"));
}

#[test]
fn an_object() {
    let items = [
        Item { name: b"src", kind: Kind::Directory, len: 4096, modified: Some(784_111_777) },
        Item { name: b"read me.txt", kind: Kind::File, len: 1536, modified: None },
        Item { name: b"pipe", kind: Kind::Other, len: 0, modified: Some(-1) },
    ];
    let expected = r#"{"path":"/docs/","items":[
{"name":"src","href":"./src/","kind":"directory","modified":"1994-11-06T08:49:37Z"},
{"name":"read me.txt","href":"./read%20me.txt","kind":"file","size":1536},
{"name":"pipe","href":"./pipe","kind":"other","modified":"1969-12-31T23:59:59Z"}
]}
"#;
    assert_eq!(render(Format::Json, b"/docs/", &items), expected);
    assert_eq!(render(Format::Json, b"/", &[]), "{\"path\":\"/\",\"items\":[\n]}\n");
}

#[test]
fn hostile_names() {
    let check = |name: &[u8], row: &str, member: &str| {
        let (mut html, mut json) = (Vec::new(), Vec::new());
        html_item(&Item { name, ..FILE }, &mut html);
        json_item(&Item { name, ..FILE }, &mut json);
        let (html, json) = (String::from_utf8_lossy(&html), String::from_utf8_lossy(&json));
        let link = html.split("</a>").next().unwrap_or_default();
        assert_eq!(link, format!("<tr><td>{row}"), "{}", name.escape_ascii());
        let names = json.split(",\"kind\"").next().unwrap_or_default();
        assert_eq!(names, format!("{{{member}"), "{}", name.escape_ascii());
    };
    check(
        b"<script>alert(1)<",
        r#"<a href="./%3Cscript%3Ealert%281%29%3C">&lt;script&gt;alert(1)&lt;"#,
        r#""name":"\u003cscript>alert(1)\u003c","href":"./%3Cscript%3Ealert%281%29%3C""#,
    );
    check(
        b"\" onclick='x'",
        r#"<a href="./%22%20onclick%3D%27x%27">&quot; onclick=&#39;x&#39;"#,
        r#""name":"\" onclick='x'","href":"./%22%20onclick%3D%27x%27""#,
    );
    check(
        b"javascript:alert(1)",
        r#"<a href="./javascript%3Aalert%281%29">javascript:alert(1)"#,
        r#""name":"javascript:alert(1)","href":"./javascript%3Aalert%281%29""#,
    );
    check(
        b"a&lt;b&amp;c",
        r#"<a href="./a%26lt%3Bb%26amp%3Bc">a&amp;lt;b&amp;amp;c"#,
        r#""name":"a&lt;b&amp;c","href":"./a%26lt%3Bb%26amp%3Bc""#,
    );
    check(
        b"a\\u0022\n\x7f",
        "<a href=\"./a%5Cu0022%0A%7F\">a\\u0022\u{fffd}\u{fffd}",
        r#""name":"a\\u0022\u000a\u007f","href":"./a%5Cu0022%0A%7F""#,
    );
    check(
        b"caf\xc3\xa9 \xff.txt",
        "<a href=\"./caf%C3%A9%20%FF.txt\">café \u{fffd}.txt",
        "\"name\":\"café \u{fffd}.txt\",\"href\":\"./caf%C3%A9%20%FF.txt\"",
    );
    check(b"a?b#c", r#"<a href="./a%3Fb%23c">a?b#c"#, r#""name":"a?b#c","href":"./a%3Fb%23c""#);
    check(
        b"%2e%2e",
        r#"<a href="./%252e%252e">%2e%2e"#,
        r#""name":"%2e%2e","href":"./%252e%252e""#,
    );
}

#[test]
fn hostile_paths() {
    let page = render(Format::Html, b"/</title><script>/", &[]);
    assert!(page.contains("<h1>/&lt;/title&gt;&lt;script&gt;/</h1>"));
    assert!(!page.contains("<script"));
    let json = render(Format::Json, b"/\"\\/", &[]);
    assert!(json.starts_with(r#"{"path":"/\"\\/","#));
}

#[test]
fn sizes() {
    let check = |len, expected: &str| {
        let mut out = Vec::new();
        size(len, &mut out);
        assert_eq!(String::from_utf8_lossy(&out), expected);
    };
    check(0, "0 B");
    check(1023, "1023 B");
    check(1024, "1.0 KiB");
    check(10_239, "9.9 KiB");
    check(10_240, "10 KiB");
    check(1024 * 1024 - 1, "1023 KiB");
    check(1024 * 1024, "1.0 MiB");
    check(5 << 30, "5.0 GiB");
    check(1 << 60, "1.0 EiB");
    check(u64::MAX, "15 EiB");
}

#[test]
fn directories_come_first() {
    let item = |name, kind| Item { name, kind, ..FILE };
    let mut items = [
        item(b"b", Kind::File),
        item(b"a", Kind::Other),
        item(b"z", Kind::Directory),
        item(b"B", Kind::File),
        item(b"y", Kind::Directory),
    ];
    items.sort_by(compare);
    assert_eq!(items.map(|item| item.name), [b"y", b"z", b"B", b"a", b"b"]);
}

proptest! {
    /// Whatever a name is, its row has only the intended tags, and the address leads to the file.
    #[test]
    fn names_cannot_break_out(name in proptest::collection::vec(1..=255_u8, 1..20)) {
        let item = Item { name: &name, ..FILE };
        let mut html = Vec::new();
        html_item(&item, &mut html);
        let html = String::from_utf8(html).expect("what is not UTF-8 has been replaced");
        let tags: Vec<_> = html.split('<').skip(1).map(|tag| &tag[..tag.len().min(2)]).collect();
        prop_assert_eq!(tags, ["tr", "td", "a ", "/a", "/t", "td", "/t", "td", "/t", "/t"]);
        let mut href = Vec::new();
        address(&item, &mut href);
        let is_inert = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~%/".contains(byte);
        prop_assert!(href.iter().all(is_inert));
        let is_odd = |byte: &u8| *byte == b'/' || byte.is_ascii_control();
        if !name.iter().any(is_odd) && name != b"." && name != b".." {
            let path = [b"/", &href[..]].concat();
            let expected = [b"/", &name[..]].concat();
            let mut scratch = Vec::new();
            prop_assert_eq!(crate::path::canonicalise(&path, &mut scratch), Ok(&expected[..]));
        }
    }
}

/// The policy contains the hash of the style sheet; this fails when the style sheet was edited, and
/// prints the new hash.
#[test]
fn the_policy_allows_the_style() {
    let hash = base64(&sha256(STYLE.as_bytes()));
    assert!(CONTENT_SECURITY_POLICY.contains(&format!("'sha256-{hash}'")), "the hash is {hash}");
    assert!(!CONTENT_SECURITY_POLICY.contains("  "));
}

#[test]
fn sha256_is_right() {
    // RFC 6234, section 8.5: "abc"
    assert_eq!(base64(&sha256(b"abc")), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let encode = |chunk: &[u8]| {
        let word = (0..3).fold(0, |word, i| word << 8 | u32::from(*chunk.get(i).unwrap_or(&0)));
        let digit = |i: usize| char::from(DIGITS[(word >> (18 - 6 * i) & 63) as usize]);
        let digits = (0..=chunk.len()).map(digit);
        digits.chain(std::iter::repeat_n('=', 3 - chunk.len())).collect::<String>()
    };
    bytes.chunks(3).map(encode).collect()
}

/// SHA-256 (RFC 6234), for short messages; it is here so that one test needs no crate. The
/// constants are the fractional parts of the square and cube roots of the first primes.
fn sha256(message: &[u8]) -> Vec<u8> {
    let primes: Vec<u32> = (2..312).filter(|n| (2..*n).all(|d| n % d != 0)).collect();
    let mut state: Vec<u32> = primes[..8].iter().map(|&prime| root_fraction(prime, 2)).collect();
    let constants: Vec<u32> = primes.iter().map(|&prime| root_fraction(prime, 3)).collect();
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize((padded.len() + 8).next_multiple_of(64) - 8, 0);
    padded.extend_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        compress(&mut state, block, &constants);
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// The first 32 bits of the fraction of a root: the integer root of `prime << (32 * power)`.
fn root_fraction(prime: u32, power: u32) -> u32 {
    let target = u128::from(prime) << (32 * power);
    let mut root = 0_u128;
    for bit in (0..40).rev() {
        let tried = root | 1 << bit;
        if tried.pow(power) <= target {
            root = tried;
        }
    }
    root as u32
}

fn compress(state: &mut [u32], block: &[u8], constants: &[u32]) {
    let word = |chunk: &[u8]| u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
    let mut words: Vec<u32> = block.chunks(4).map(word).collect();
    for i in 16..64 {
        let (a, b) = (words[i - 15], words[i - 2]);
        let sigma0 = a.rotate_right(7) ^ a.rotate_right(18) ^ a >> 3;
        let sigma1 = b.rotate_right(17) ^ b.rotate_right(19) ^ b >> 10;
        let sum = words[i - 16].wrapping_add(words[i - 7]);
        words.push(sum.wrapping_add(sigma0).wrapping_add(sigma1));
    }
    let mut s = state.to_vec();
    for (&word, &constant) in words.iter().zip(constants) {
        let sum1 = s[4].rotate_right(6) ^ s[4].rotate_right(11) ^ s[4].rotate_right(25);
        let choice = (s[4] & s[5]) ^ (!s[4] & s[6]);
        let first = [sum1, choice, constant, word].iter().fold(s[7], |a, &b| a.wrapping_add(b));
        let sum0 = s[0].rotate_right(2) ^ s[0].rotate_right(13) ^ s[0].rotate_right(22);
        let majority = (s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]);
        s.rotate_right(1);
        s[0] = first.wrapping_add(sum0).wrapping_add(majority);
        s[4] = s[4].wrapping_add(first);
    }
    for (word, change) in state.iter_mut().zip(s) {
        *word = word.wrapping_add(change);
    }
}
