//! Names, sizes and counts against the published numbers.

use super::*;
use proptest::prelude::*;

fn spec(directory: u32, class: u8, number: u8) -> File {
    File::Spec { directory, class, number }
}

#[test]
fn lengths_are_the_published_ones() {
    #[rustfmt::skip]
    const LENGTHS: [u64; FILES_PER_DIRECTORY] = [
        102, 204, 307, 409, 512, 614, 716, 819, 921,
        1024, 2048, 3072, 4096, 5120, 6144, 7168, 8192, 9216,
        10240, 20480, 30720, 40960, 51200, 61440, 71680, 81920, 92160,
        102400, 204800, 307200, 409600, 512000, 614400, 716800, 819200, 921600,
    ];
    let set = FileSet::directories(1).unwrap();
    let files: Vec<File> = set.iter().collect();
    assert_eq!(files.iter().map(File::bytes).collect::<Vec<_>>(), LENGTHS);
    assert_eq!(files.iter().map(File::kind).collect::<Vec<_>>(), (0..36).collect::<Vec<_>>());
    assert_eq!(LENGTHS.iter().sum::<u64>(), BYTES_PER_DIRECTORY);
    assert_eq!(set.bytes(), BYTES_PER_DIRECTORY);
}

#[test]
fn files_are_found_wherever_the_set_is_mounted() {
    fn check(path: &str, expected: Option<File>) {
        assert_eq!(File::locate(path.as_bytes()), expected, "{path:?}");
    }
    check("/dir00000/class0_0", Some(spec(0, 0, 0)));
    check("dir00001/class3_8", Some(spec(1, 3, 8)));
    check("/specweb99/file_set/dir99999/class1_2", Some(spec(99_999, 1, 2)));
    check("//dir00012/class2_7", Some(spec(12, 2, 7)));
    check("/size1024", Some(File::Single { bytes: 1024 }));
    check("size0", Some(File::Single { bytes: 0 }));
    check("/dir00000/size51200", Some(File::Single { bytes: 51200 }));
    check("/size9223372036854775807", Some(File::Single { bytes: SINGLE_BYTES_MAX }));

    check("", None);
    check("/", None);
    check("class0_0", None);
    check("/class0_0", None);
    check("/dir00000", None);
    check("/dir00000/", None);
    check("/dir00000/class0_0/", None);
    check("/dir00000//class0_0", None);
    check("/dir0000/class0_0", None);
    check("/dir000000/class0_0", None);
    check("/dir100000/class0_0", None);
    check("/dir+0000/class0_0", None);
    check("/xdir00000/class0_0", None);
    check("/Dir00000/class0_0", None);
    check("/dir00000/class4_0", None);
    check("/dir00000/class0_9", None);
    check("/dir00000/class00_0", None);
    check("/dir00000/class0_00", None);
    check("/dir00000/class0-0", None);
    check("/dir00000/class0_0?x", None);
    check("/dir00000/class0_0.gz", None);
    check("/size", None);
    check("/size00", None);
    check("/size01", None);
    check("/size+1", None);
    check("/size-1", None);
    check("/size1K", None);
    check("/size9223372036854775808", None);
    check("/size18446744073709551616", None);
    check("/size100000000000000000000000000", None);
    check("/size1024/x", None);
}

#[test]
fn text_is_read_only_below_the_root() {
    fn check(text: &str, expected: Result<File, NotAFile>) {
        assert_eq!(text.parse(), expected, "{text:?}");
    }
    check("dir00007/class1_2", Ok(spec(7, 1, 2)));
    check("size7", Ok(File::Single { bytes: 7 }));
    check("/dir00007/class1_2", Err(NotAFile));
    check("a/size7", Err(NotAFile));
    check("", Err(NotAFile));
}

#[test]
fn sets_by_load_are_the_benchmarks() {
    fn check(connections: u64, directories: u32) {
        let set = FileSet::for_connections(connections).unwrap();
        assert_eq!(set.directory_count(), directories, "{connections}");
    }
    check(0, 25);
    check(1, 25);
    check(2, 26);
    check(61, 65);
    check(1000, 680);
    check(1399, 942);
    check(1400, 943);
    // The same formula in floating point, as in the benchmark's manager.
    for load in 0..20_000 {
        check(load, (25.0 + (400_000.0 / 122_000.0 * load as f64) / 5.0) as u32);
    }
    assert!(FileSet::for_connections(u64::MAX).is_err());
}

#[test]
fn sets_by_bytes_have_no_more() {
    fn check(bytes: u64, expected: Option<u32>) {
        let set = FileSet::at_most_bytes(bytes).ok().map(|set| set.directory_count());
        assert_eq!(set, expected, "{bytes}");
    }
    check(0, None);
    check(BYTES_PER_DIRECTORY - 1, None);
    check(BYTES_PER_DIRECTORY, Some(1));
    check(2 * BYTES_PER_DIRECTORY - 1, Some(1));
    check(3_481_249_120, Some(680));
    check(u64::from(DIRECTORIES_MAX) * BYTES_PER_DIRECTORY, Some(DIRECTORIES_MAX));
    check(u64::MAX, None);
}

#[test]
fn counts_that_no_set_has_are_refused_in_words() {
    let refusal = FileSet::directories(100_001).unwrap_err().to_string();
    assert!(refusal.starts_with("100001 directories: a set has from 1 to 100000"), "{refusal}");
    assert!(FileSet::directories(0).is_err());
    assert!(FileSet::directories(1 << 32 | 1).is_err());
    assert!(FileSet::singles(&[]).is_err());
    assert!(FileSet::singles(&[1, SINGLE_BYTES_MAX + 1]).is_err());
}

#[test]
fn presets_have_the_files_and_bytes_that_the_documentation_says() {
    fn check(name: &str, files: u64, bytes: u64) {
        let set = Preset::find(name).unwrap().set();
        assert_eq!((set.files(), set.bytes()), (files, bytes), "{name}");
    }
    check("small", 900, 127_987_100);
    check("geneves", 24_480, 3_481_249_120);
    check("radhakrishnan", 33_912, 4_822_553_928);
    check("single-50KB", 1, 51_200);
    check("single-1KB", 1, 1024);
    assert_eq!(PRESETS.len(), 5);
    assert!(Preset::find("Geneves").is_none());
}

#[test]
fn single_files_are_each_there_once() {
    let set = FileSet::singles(&[7, 3, 7, 0]).unwrap();
    let files: Vec<String> = set.iter().map(|file| file.to_string()).collect();
    assert_eq!(files, ["size0", "size3", "size7"]);
    assert_eq!((set.files(), set.bytes(), set.file(3)), (3, 10, None));
    assert_eq!(set.file(0).unwrap().kind(), KINDS - 1);
    assert!(set.contains(File::Single { bytes: 3 }) && !set.contains(File::Single { bytes: 4 }));
}

proptest! {
    #[test]
    fn what_is_shown_is_read_again(
        index in any::<prop::sample::Index>(),
        bytes in 0..SINGLE_BYTES_MAX,
    ) {
        let set = FileSet::directories(u64::from(DIRECTORIES_MAX)).unwrap();
        let file = set.file(index.index(set.files() as usize) as u64).unwrap();
        prop_assert!(set.contains(file));
        let (directory, rest) = match file {
            File::Spec { directory, class, number } => (directory, (class, number)),
            File::Single { .. } => unreachable!(),
        };
        let shown = format!("dir{directory:05}/class{}_{}", rest.0, rest.1);
        for (file, shown) in [(file, shown), (File::Single { bytes }, format!("size{bytes}"))] {
            prop_assert_eq!(file.to_string(), &*shown);
            prop_assert_eq!(shown.parse(), Ok(file));
            prop_assert_eq!(File::locate(format!("/a/b/{shown}").as_bytes()), Some(file));
        }
    }

    #[test]
    fn whatever_is_located_is_the_end_of_the_path(
        path in "(/?(dir[0-9]{4,6}|class[0-9]_[0-9]|size[0-9]{0,3})){1,3}",
    ) {
        if let Some(file) = File::locate(path.as_bytes()) {
            prop_assert!(path.ends_with(file.path().as_str()));
        }
    }
}
