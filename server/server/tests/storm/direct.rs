//! Direct descriptors of `rings`: how many descriptors of the process a server takes.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use server::Server;
use server::config::Arguments;
use testkit::Temporary;

const CLIENTS: usize = 100;
const LARGE: usize = 100_000;

#[test]
fn a_direct_connection_takes_a_descriptor_when_a_file_is_sent_and_not_before() {
    let _alone = crate::alone();
    if !crate::under_test::engines().iter().any(|spec| spec.name == "rings") {
        return;
    }
    let directory = Temporary::new();
    directory.file("site/small", "s");
    directory.file("site/large", vec![b'l'; LARGE]);
    let before = crate::Open::now();
    for (direct, taken) in [(1, [1, 2]), (0, [2, 2])] {
        let server = start(&directory, direct);
        let mut clients: Vec<_> =
            (0..CLIENTS).map(|_| TcpStream::connect(server.addresses()[0]).unwrap()).collect();
        for (path, body, ends) in [("small", 1, taken[0]), ("large", LARGE, taken[1])] {
            clients.iter_mut().for_each(|client| request(client, path, body));
            let open = crate::Open::now().len() - before.len();
            // The listener and the other descriptors of a server are few.
            let expected = ends * CLIENTS..(ends + 1) * CLIENTS;
            assert!(expected.contains(&open), "direct={direct}: {open} after {path}");
        }
        drop(clients);
        server.stop_gracefully(Duration::from_secs(10)).unwrap();
        before.assert_as_before(&format!("direct={direct}"));
    }
}

fn start(directory: &Temporary, direct: u8) -> Server {
    let arguments = Arguments {
        directory: Some(directory.path().join("site")),
        listen: vec!["127.0.0.1:0".into()],
        set: vec![
            "engine.name=rings".into(),
            "partitions.cpus=[\"0\"]".into(),
            format!("engine.knobs.direct={direct}"),
        ],
        ..Arguments::default()
    };
    Server::start(&crate::under_test::load(&arguments).unwrap()).unwrap()
}

fn request(client: &mut TcpStream, path: &str, body: usize) {
    write!(client, "GET /{path} HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 16_384]);
    let is_whole = |bytes: &[u8]| {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        end.is_some_and(|end| bytes.len() == end + 4 + body)
    };
    while !is_whole(&bytes) {
        match os::uninterrupted(|| client.read(&mut buffer)).unwrap() {
            0 => panic!("/{path} ends after {} bytes", bytes.len()),
            n => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}
