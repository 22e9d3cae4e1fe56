//! Files that are compressed are not read here, but told, with the program that unpacks them.

/// What prints the contents of a compressed file that begins so.
pub fn decompressor(start: &[u8]) -> Option<&'static str> {
    let magics: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstdcat"),
        (b"\x04\x22\x4d\x18", "lz4cat"),
        (b"PK\x03\x04", "unzip -p"),
    ];
    magics.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, program)| *program)
}
