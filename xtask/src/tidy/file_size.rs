//! No tracked file is large: a clone stays quick, and generated data is generated.

use super::Finding;
use super::source::Tree;

const BYTES_MAX: u64 = 1 << 20;

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let large = tree.sizes.iter().filter(|(_, bytes)| *bytes > BYTES_MAX);
    let message = |bytes| format!("{bytes} bytes: no file over {BYTES_MAX}, generate it instead");
    large.map(|(path, bytes)| Finding::in_file(path, message(bytes))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_files_are_found() {
        let mut tree = Tree::with_file("a.bin", "");
        tree.sizes[0].1 = BYTES_MAX;
        assert!(check(&tree).is_empty());
        tree.sizes[0].1 = BYTES_MAX + 1;
        assert_eq!(check(&tree).len(), 1);
    }
}
