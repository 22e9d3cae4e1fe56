//! Blocks of a heap are named after the function that allocated them.

use crate::processes::compiled;
use crate::recorded;
use testkit::Temporary;
use testkit::tools::{VALGRIND, has};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/heap.c");

#[test]
fn blocks_have_the_name_and_the_line_of_the_code_that_requested_them() {
    if !has(&VALGRIND) {
        return;
    }
    let folder = Temporary::new();
    let (_, reader) = recorded(&folder, &[&compiled(&folder, PROGRAM)], (0, 0));
    let process = &reader.processes()[0];
    let heap = process.symbols.iter().filter(|symbol| symbol.function.starts_with("[heap] "));
    let mut blocks: Vec<(&str, u64)> =
        heap.map(|symbol| (&symbol.function[7..], symbol.end - symbol.start)).collect();
    blocks.sort_unstable();
    let expected = [
        ("with_calloc, it/heap.c:12", 808),
        ("with_malloc, it/heap.c:7", 1000),
        ("with_malloc, it/heap.c:7", 200_000),
        ("with_posix_memalign, it/heap.c:23", 640),
        ("with_realloc, it/heap.c:17", 5000),
        ("with_strdup, it/heap.c:28", 37),
    ];
    assert_eq!(blocks, expected);
    let in_order = process.symbols.windows(2).all(|pair| pair[0].start <= pair[1].start);
    assert!(in_order, "symbols are in the order of addresses");
}
