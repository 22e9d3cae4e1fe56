//! The contents of the standard document root: names, contents, modification times, modes and
//! links.
//!
//! This is only a table; `document_root` makes the files.

/// One regular file.
pub(super) struct Node {
    pub(super) name: &'static [u8],
    pub(super) content: Content,
    /// Unix seconds.
    pub(super) modified: u64,
    pub(super) mode: u32,
}

pub(super) enum Content {
    Text(&'static str),
    /// This many bytes, each a function of the name and the offset.
    Pattern(usize),
}

/// The modification time of every file that has no reason to differ: `Tue, 14 Nov 2023 22:13:20
/// GMT`.
pub const MODIFIED_UNIX_SECONDS: u64 = 1_700_000_000;

/// `Fri, 01 Jan 2100 00:00:00 GMT`: a modification time from a wrong clock.
const FUTURE_UNIX_SECONDS: u64 = 4_102_444_800;

const fn text(name: &'static str, text: &'static str) -> Node {
    Node {
        name: name.as_bytes(),
        content: Content::Text(text),
        modified: MODIFIED_UNIX_SECONDS,
        mode: 0o644,
    }
}

const fn pattern(name: &'static str, len: usize) -> Node {
    Node {
        name: name.as_bytes(),
        content: Content::Pattern(len),
        modified: MODIFIED_UNIX_SECONDS,
        mode: 0o644,
    }
}

const fn modified(unix_seconds: u64, node: Node) -> Node {
    Node { modified: unix_seconds, ..node }
}

const fn mode(mode: u32, node: Node) -> Node {
    Node { mode, ..node }
}

const fn named(name: &'static [u8], node: Node) -> Node {
    Node { name, ..node }
}

/// The site, relative to its root.
pub(super) const FILES: &[Node] = &[
    // Requested after each case, to check that the connection is in step.
    text("probe.txt", "in step\n"),
    text("index.html", "<!doctype html><title>Home</title><h1>Home</h1>\n"),
    text("notes.txt", "Some notes.\n"),
    // Lengths on both sides of the limits at which a server changes its behaviour: nothing, one
    // byte, a packet, the small-body threshold, a socket buffer, several turns of sendfile.
    pattern("empty.bin", 0),
    pattern("one.bin", 1),
    pattern("thousand.bin", 1000),
    pattern("exact-64k.bin", 65_536),
    pattern("above-64k.bin", 65_537),
    pattern("large.bin", 300_000),
    pattern("huge.bin", 3_000_000),
    // Types.
    text("page.html", "<!doctype html><title>Page</title><p>A page.\n"),
    text("page.htm", "<!doctype html><title>Page</title>\n"),
    text("UPPER.HTML", "<!doctype html><title>Upper</title>\n"),
    text("style.css", "body { color: #222 }\n"),
    text("script.js", "console.log(\"here\");\n"),
    text("module.mjs", "export const here = true;\n"),
    text("picture.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\"/>\n"),
    text("data.json", "{\"here\":true}\n"),
    text("feed.xml", "<?xml version=\"1.0\"?><feed/>\n"),
    text("sheet.csv", "a,b\n1,2\n"),
    text("app.webmanifest", "{}\n"),
    pattern("image.png", 500),
    pattern("photo.jpg", 500),
    pattern("photo.webp", 500),
    pattern("photo.avif", 500),
    pattern("icon.ico", 100),
    pattern("font.woff2", 500),
    pattern("code.wasm", 500),
    pattern("film.mp4", 500),
    pattern("paper.pdf", 500),
    pattern("unknown.zzz", 20),
    pattern("custom.foo", 20),
    pattern("noextension", 20),
    text("app.3f9ab2c1.js", "console.log(\"hashed\");\n"),
    text("style-BX8dK2f9.css", "body{}\n"),
    // Directories.
    text("docs/index.html", "<!doctype html><title>Docs</title>\n"),
    text("docs/start.html", "<!doctype html><title>Start</title>\n"),
    text("docs/guide.html", "<!doctype html><title>Guide</title>\n"),
    text("plain/a.txt", "a\n"),
    text("plain/b.html", "<p>b\n"),
    text("plain/sub/c.txt", "c\n"),
    text("plain/.secret", "hidden\n"),
    text("deep/er/est/leaf.txt", "leaf\n"),
    text("dotted.dir/index.html", "<!doctype html><title>Dotted</title>\n"),
    text("both.html", "<!doctype html><title>Both, the file</title>\n"),
    text("both/index.html", "<!doctype html><title>Both, the directory</title>\n"),
    text("404.html", "<!doctype html><title>Not here</title><p>Custom: not here.\n"),
    // Roots of their own: 404.html in other codings, behind links, and as a directory.
    text("packed-404/404.html", "<!doctype html><title>Not here</title><p>Packed: not here.\n"),
    pattern("packed-404/404.html.br", 40),
    pattern("packed-404/404.html.gz", 45),
    text("packed-404/named.html", "<!doctype html><title>Named</title><p>Named: not here.\n"),
    text("linked-404/pages/gone.html", "<!doctype html><title>Gone</title><p>Linked: not here.\n"),
    text("folder-404/404.html/index.html", "<!doctype html><title>Folder</title><p>A folder.\n"),
    text("spa/index.html", "<!doctype html><title>App</title><div id=app></div>\n"),
    text("hosts/exact/index.html", "exact\n"),
    text("hosts/wild/index.html", "wild\n"),
    text("hosts/default/index.html", "default\n"),
    // Names that need care in a path, a listing, a log.
    text("names/with space.txt", "space\n"),
    text("names/100%.txt", "percent\n"),
    text("names/%41.txt", "percent forty-one\n"),
    text("names/quote\"and'.txt", "quotes\n"),
    text("names/<script>alert(1).txt", "script\n"),
    text("names/amp&amp;.txt", "ampersand\n"),
    text("names/grüße.txt", "umlaut\n"),
    text("names/日本.txt", "japanese\n"),
    text("names/back\\slash.txt", "backslash\n"),
    text("names/a+b.txt", "plus\n"),
    text("names/semi;colon.txt", "semicolon\n"),
    text("names/question?.txt", "question\n"),
    text("names/hash#.txt", "hash\n"),
    text("names/colon:name.txt", "colon\n"),
    text("names/tilde~.txt", "tilde\n"),
    text("names/two..dots.txt", "dots\n"),
    text("names/javascript:alert(1)", "scheme\n"),
    text("names/[brackets].txt", "brackets\n"),
    named(b"names/latin-\xe9.txt", text("", "latin\n")),
    named(b"names/control-\x01.txt", text("", "no path leads here\n")),
    // Leading dots.
    text(".env", "SECRET=1\n"),
    text(".git/config", "[core]\n"),
    text(".well-known/acme", "challenge\n"),
    // Precompressed siblings. No client decodes them: it is enough that no two are alike.
    pattern("all.css", 2000),
    pattern("all.css.br", 700),
    pattern("all.css.zst", 800),
    pattern("all.css.gz", 900),
    pattern("brotli.js", 1500),
    pattern("brotli.js.br", 400),
    pattern("gzip.html", 1500),
    pattern("gzip.html.gz", 450),
    pattern("zstd.svg", 1500),
    pattern("zstd.svg.zst", 470),
    pattern("big.json", 400_000),
    pattern("big.json.br", 150_000),
    pattern("only.css.br", 300),
    pattern("onlygzip.txt.gz", 310),
    pattern("escaping.css", 1200),
    text("packed/index.html", "<!doctype html><title>Packed, but not this one</title>\n"),
    pattern("packed/index.html.gz", 60),
    // Modification times that mean nothing, and one that is impossible.
    modified(0, text("epoch.txt", "built reproducibly, at 0\n")),
    modified(1, text("epoch-one.txt", "built reproducibly, at 1\n")),
    modified(FUTURE_UNIX_SECONDS, text("future.txt", "from the future\n")),
    mode(0, text("unreadable.txt", "not for you\n")),
];

/// Files beside the site, which must never be served.
pub(super) const OUTSIDE: &[Node] =
    &[text("secret.txt", "SECRET outside\n"), text("index.html", "SECRET index\n")];

/// Symbolic links in the site and where they point, relative to the link.
pub(super) const LINKS: &[(&str, &str)] = &[
    ("links/inside.txt", "../notes.txt"),
    ("links/indir", "../docs"),
    ("links/up", ".."),
    ("links/outside.txt", "../../outside/secret.txt"),
    ("links/outdir", "../../outside"),
    ("links/around.txt", "../../site/notes.txt"),
    ("links/dangling.txt", "nowhere.txt"),
    ("links/loop-a.txt", "loop-b.txt"),
    ("links/loop-b.txt", "loop-a.txt"),
    ("links/hidden.txt", "../.env"),
    ("links/chain.txt", "inside.txt"),
    ("linked-index/index.html", "../../outside/index.html"),
    ("linked-404/404.html", "pages/gone.html"),
    ("escaping-404/404.html", "../../outside/secret.txt"),
    ("escaping.css.gz", "../outside/secret.txt"),
];
