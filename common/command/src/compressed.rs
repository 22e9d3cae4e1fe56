//! Detection of compressed files, which are not read here, with the program that unpacks them.

/// The command that prints the contents of a compressed file with these first bytes.
pub fn decompressor(start: &[u8]) -> Option<&'static str> {
    let magics: [(&[u8], &str); 4] = [
        (b"\x1f\x8b", "zcat"),
        (b"\x28\xb5\x2f\xfd", "zstdcat"),
        (b"\x04\x22\x4d\x18", "lz4cat"),
        (b"PK\x03\x04", "unzip -p"),
    ];
    magics.iter().find(|(magic, _)| start.starts_with(magic)).map(|(_, program)| *program)
}
