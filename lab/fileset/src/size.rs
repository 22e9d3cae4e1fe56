//! Sizes as people type and read them.
//!
//! K is 1024, with or without the `i`: the literature of file sets writes "50 KB" and means 51,200
//! bytes. The output always has the `i`, so that it is unambiguous.

const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Parses `51200`, `50KB`, `50 KiB`, `3.3GB`: a number and B, KB, MB, GB or TB, each step 1024; a
/// fraction of a byte is dropped.
///
/// # Errors
/// The accepted forms of a size.
pub fn parse(text: &str) -> Result<u64, String> {
    parse_exact(text.trim()).ok_or_else(|| {
        format!("\"{text}\" is no size: 51200, 50KB, 50KiB or 3.3GB, where K is 1024")
    })
}

fn parse_exact(text: &str) -> Option<u64> {
    let number_len = text.find(|char: char| !char.is_ascii_digit() && char != '.');
    let (number, unit) = text.split_at(number_len.unwrap_or(text.len()));
    let unit = unit.trim_start();
    let power = if unit.is_empty() {
        0
    } else {
        UNITS.iter().position(|name| unit == *name || unit == name.replace('i', ""))?
    };
    scale(number, 1_u128 << (10 * power))
}

/// The decimal `number` times `factor`, exactly.
fn scale(number: &str, factor: u128) -> Option<u64> {
    /// Keeps the product below 2^128.
    const DIGITS_MAX: usize = 20;
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) if !fraction.is_empty() && factor > 1 => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    if whole.is_empty() || whole.len() + fraction.len() > DIGITS_MAX {
        return None;
    }
    let digits: u128 = format!("{whole}{fraction}").parse().ok()?;
    u64::try_from(digits * factor / 10_u128.pow(fraction.len() as u32)).ok()
}

/// A size with three significant digits: `102 B`, `1.00 KiB`, `3.24 GiB`.
#[must_use]
pub fn show(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut unit = 0;
    // A value that would be rounded up to 1000 is shown in the next unit.
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    let decimals = match value {
        _ if unit == 0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {}", UNITS[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        fn check(text: &str, expected: Option<u64>) {
            assert_eq!(parse(text).ok(), expected, "{text:?}");
        }
        check("0", Some(0));
        check("51200", Some(51_200));
        check("51200B", Some(51_200));
        check("50KB", Some(51_200));
        check("50KiB", Some(51_200));
        check(" 50 KiB ", Some(51_200));
        check("1.5MB", Some(3 << 19));
        check("3.3GB", Some(3_543_348_019));
        check("2TiB", Some(2 << 40));
        check("16777215.9TB", Some(18_446_743_963_758_388_838));

        check("", None);
        check("KB", None);
        check(".5KB", None);
        check("5.KB", None);
        check("1.5", None);
        check("1.5B", None);
        check("1.2.3KB", None);
        check("-1", None);
        check("+1", None);
        check("1e6", None);
        check("50K", None);
        check("50kb", None);
        check("50KBs", None);
        check("50 K B", None);
        check("50iB", None);
        check("16777216TB", None);
        check("99999999999999999999999999999999999999999", None);
        check("٣KB", None);
    }

    #[test]
    fn sizes_are_shown() {
        fn check(bytes: u64, expected: &str) {
            assert_eq!(show(bytes), expected);
        }
        check(0, "0 B");
        check(999, "999 B");
        check(1000, "0.98 KiB");
        check(1024, "1.00 KiB");
        check(51_200, "50.0 KiB");
        check(127_987_100, "122 MiB");
        check(3_481_249_120, "3.24 GiB");
        check(u64::MAX, "16777216 TiB");
    }
}
