//! Hand-made foreign traces, and the expected results of importing them.

use memory_trace::{
    Event, FORMS, Foreign, Form, Header, Imported, Reader, TraceError, Writer, import,
};

use crate::events_of;

fn foreign(form: Form) -> Foreign {
    Foreign { path: "a trace".into(), form, process: 9, command: None, din_bytes: 4 }
}

fn imported(form: Form, text: &[u8]) -> Result<(Imported, Reader), TraceError> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, &Header::default())?;
    let imported = import(text, &foreign(form), &mut writer)?;
    writer.finish()?;
    Ok((imported, Reader::from_bytes(bytes)?))
}

const LACKEY: &str = "\
==77== Lackey, an example Valgrind tool
==77== Command: /bin/ls /
==77==
I  04016b80,3
 S 1ffeffe7e8,8
I  04016b83,5
 M 0042c008,4
a line of the program
 L 04030000,16
==77== 12 counted
";

#[test]
fn lackey() {
    assert_eq!(Form::guess(LACKEY.as_bytes()), Some(Form::Lackey));
    assert_eq!(Form::guess(b" L 0042c008,4\n"), Some(Form::Lackey));
    let (imported, reader) = imported(Form::Lackey, LACKEY.as_bytes()).expect("lackey");
    assert_eq!(imported.references, 6);
    assert_eq!((imported.skipped, imported.first_skipped), (1, Some(8)));
    assert_eq!(reader.processes()[0].command, "/bin/ls /");
    let expected = [
        Event::fetch(0x0401_6b80, 3),
        Event::store(0x1f_feff_e7e8, 8),
        Event::fetch(0x0401_6b83, 5),
        Event::load(0x0042_c008, 4),
        Event::store(0x0042_c008, 4),
        Event::load(0x0403_0000, 16),
    ];
    assert_eq!(events_of(&reader, 9), expected);
}

#[test]
fn din() {
    let text = b"2 400000\n0 0x7ffe10\n\n1 7ffe14 4\n4 0\nx 1\n2 fffffffffffffffc\n";
    assert_eq!(Form::guess(text), Some(Form::Din));
    let (imported, reader) = imported(Form::Din, text).expect("din");
    assert_eq!(imported, Imported { references: 4, others: 0, skipped: 2, first_skipped: Some(5) });
    let expected = [
        Event::fetch(0x40_0000, 4),
        Event::load(0x7f_fe10, 4),
        Event::store(0x7f_fe14, 4),
        Event::fetch(0xffff_ffff_ffff_fffc, 4),
    ];
    assert_eq!(events_of(&reader, 9), expected);
}

fn records(records: &[(u16, u16, u64)]) -> Vec<u8> {
    let bytes = records.iter().flat_map(|(kind, size, value)| {
        [&kind.to_le_bytes()[..], &size.to_le_bytes(), &value.to_le_bytes()].concat()
    });
    bytes.collect()
}

#[test]
fn drmemtrace() {
    let bytes = records(&[
        (25, 0, 5),                     // header
        (22, 0, 501),                   // thread
        (24, 0, 500),                   // of process
        (28, 2, 1_700_000),             // timestamp
        (47, 3, 0x1234),                // encoding
        (10, 3, 0x1000),                // instruction
        (0, 8, 0x8000),                 // read
        (17, 2, 0x0504),                // bundle of 4 and 5 bytes
        (5, 1, 0x9000),                 // prefetch
        (48, 2, 0x100c),                // jump that is taken
        (28, 25, 202),                  // system call
        (28, 27, 202),                  // in the kernel
        (10, 4, 0xffff_8000_0000_0000), // which we leave out
        (28, 28, 202),
        (30, 2, 0x2000), // a string instruction
        (1, 1, 0x8100),
        (30, 2, 0x2000),
        (1, 1, 0x8101),
        (22, 0, 601), // another process
        (24, 0, 600),
        (10, 1, 0x3000),
        (22, 0, 502), // another thread of the first
        (24, 0, 500),
        (10, 1, 0x4000),
        (22, 0, 601), // which is known by now
        (10, 1, 0x3001),
        (23, 0, 601),
        (26, 0, 0),
    ]);
    assert_eq!(Form::guess(&bytes), Some(Form::Drmemtrace));
    let (imported, reader) = imported(Form::Drmemtrace, &bytes).expect("drmemtrace");
    assert_eq!(
        imported,
        Imported { references: 11, others: 4, skipped: 2, first_skipped: Some(8 * 12) }
    );
    let first = [
        Event::SwitchThread { thread: 501 },
        Event::fetch(0x1000, 3),
        Event::load(0x8000, 8),
        Event::fetch(0x1003, 4),
        Event::fetch(0x1007, 5),
        Event::fetch(0x100c, 2),
        Event::SystemCall { number: 202 },
        Event::fetch(0x2000, 2),
        Event::store(0x8100, 1),
        Event::store(0x8101, 1),
        Event::SwitchThread { thread: 502 },
        Event::fetch(0x4000, 1),
    ];
    assert_eq!(events_of(&reader, 500), first);
    let second =
        [Event::SwitchThread { thread: 601 }, Event::fetch(0x3000, 1), Event::fetch(0x3001, 1)];
    assert_eq!(events_of(&reader, 600), second);
}

#[test]
fn what_is_something_else_is_refused_in_a_line() {
    let line = |form, text: &[u8]| imported(form, text).expect_err("foreign").to_string();
    for (name, form) in FORMS {
        let why = line(form, b"");
        assert_eq!(
            why,
            format!("a trace: there is no reference in it: is it {name}? See --format")
        );
    }
    let whole = records(&[(10, 3, 0x1000), (10, 3, 0x1003)]);
    let why = line(Form::Drmemtrace, &whole[..17]);
    assert!(why.starts_with("a trace: byte 12: truncated record"), "{why}");
    let why = line(Form::Drmemtrace, &records(&[(10, 3, 0x1000), (50, 0, 0)]));
    assert!(why.starts_with("a trace: byte 12: type 50 is none of drmemtrace's"), "{why}");
    let why = line(Form::Drmemtrace, &records(&[(17, 9, 0)]));
    assert!(why.contains("a bundle of more than 8 instructions"), "{why}");
    let why = line(Form::Lackey, &vec![b'x'; 1 << 17]);
    assert!(why.contains("line 1 has more than 65536 bytes"), "{why}");
    assert_eq!(Form::guess(b"hello, world"), None);
    assert_eq!(Form::guess(b""), None);
}
