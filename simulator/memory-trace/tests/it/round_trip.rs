//! Whatever is written is read back unchanged.

use memory_trace::{
    Access, AccessKind, Event, Header, Object, Process, Reader, Region, RegionKind, Symbol,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use crate::{events_of, written};

fn event() -> impl Strategy<Value = Event> {
    let address = prop_oneof![any::<u64>(), 0x1000..0x1100_u64, Just(u64::MAX)];
    let kind = prop_oneof![
        4 => Just(AccessKind::Fetch),
        2 => Just(AccessKind::Load),
        2 => Just(AccessKind::Store)
    ];
    let bytes = prop_oneof![0..20_u16, Just(64), any::<u16>()];
    let access = (kind, address.clone(), bytes);
    prop_oneof![
        20 => access.prop_map(|(kind, address, bytes)| {
            Event::Access(Access { kind, address, bytes })
        }),
        1 => any::<u32>().prop_map(|number| Event::SystemCall { number }),
        1 => any::<(u32, u32)>().prop_map(|(number, bytes)| Event::Moved { number, bytes }),
        1 => address.prop_map(|address| Event::Synchronise { address }),
        1 => any::<u32>().prop_map(|thread| Event::SwitchThread { thread }),
    ]
}

fn region() -> impl Strategy<Value = Region> {
    let kind = prop_oneof![
        Just(RegionKind::Private),
        Just(RegionKind::Shared),
        Just(RegionKind::File),
        Just(RegionKind::CopyOnWrite)
    ];
    let object = option::of(any::<(u64, u64, u64)>());
    (any::<(u64, u64)>(), kind, ".*", object).prop_map(|((start, end), kind, name, object)| {
        let object = object.map(|(device, inode, offset)| Object { device, inode, offset });
        Region { start, end, kind, name, object }
    })
}

fn symbol() -> impl Strategy<Value = Symbol> {
    let place = (option::of(".*"), option::of(any::<u32>()));
    (any::<(u64, u64)>(), ".*", place).prop_map(|((start, end), function, (file, line))| Symbol {
        start,
        end,
        function,
        file,
        line,
    })
}

fn process(id: u32) -> impl Strategy<Value = Process> {
    let parent = option::of(any::<u32>());
    (parent, ".*", vec(region(), 0..4), vec(symbol(), 0..4)).prop_map(
        move |(parent, command, regions, symbols)| Process {
            id,
            parent,
            command,
            regions,
            symbols,
        },
    )
}

proptest! {
    #[test]
    fn events_come_back(events in vec((0..3_u32, event()), 0..300)) {
        let reader = Reader::from_bytes(written(&Header::default(), &[], &events)).expect("whole");
        prop_assert!(reader.damage().is_none());
        for process in 0..3 {
            let own: Vec<Event> =
                events.iter().filter(|(of, _)| *of == process).map(|(_, event)| *event).collect();
            if own.is_empty() {
                prop_assert!(reader.stream(process).is_err());
            } else {
                let accesses = own.iter().filter(|event| matches!(event, Event::Access(_)));
                prop_assert_eq!(reader.references(process), accesses.count() as u64);
                prop_assert_eq!(events_of(&reader, process), own);
            }
        }
    }

    #[test]
    fn arbitrary_payloads_are_refused_or_come_back(bytes in vec(0..0x60_u8, 0..40)) {
        memory_trace::fuzzing::payloads(&bytes);
    }

    #[test]
    fn descriptions_come_back(
        recorder in ".*",
        command in ".*",
        notes in vec((".*", ".*"), 0..4),
        processes in (process(1), process(u32::MAX), process(0)),
    ) {
        let header = Header { recorder, command, notes };
        let processes: [Process; 3] = processes.into();
        let reader = Reader::from_bytes(written(&header, &processes, &[])).expect("whole");
        prop_assert_eq!(reader.header(), &header);
        prop_assert_eq!(reader.processes(), &processes);
    }
}

#[test]
fn blocks_follow_each_other_and_streams_do_not_disturb_each_other() {
    let count = 150_000;
    let nth = |at: u64| Event::load(at * 8, 8);
    let events: Vec<(u32, Event)> = (0..count).map(|at| (5, nth(at))).collect();
    let reader = Reader::from_bytes(written(&Header::default(), &[], &events)).expect("whole");
    let mut first = reader.stream(5).expect("the process is there");
    let mut second = reader.stream(5).expect("the process is there");
    drop(reader);
    let (mut block, mut read) = (Vec::new(), 0);
    while first.next_block(&mut block).expect("whole") {
        assert_eq!(block[0], nth(read));
        read += block.len() as u64;
    }
    assert_eq!(read, count);
    assert!(block.is_empty());
    assert!(second.next_block(&mut block).expect("whole"));
    assert_eq!(block[0], nth(0));
}

#[test]
fn a_later_description_replaces_an_earlier_one() {
    let described =
        |command: &str| Process { id: 3, command: command.into(), ..Process::default() };
    let bytes = written(&Header::default(), &[described("a"), described("b")], &[]);
    let reader = Reader::from_bytes(bytes).expect("whole");
    assert_eq!(reader.processes(), [described("b")]);
}
