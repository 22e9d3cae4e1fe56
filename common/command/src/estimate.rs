//! How long something is estimated to take, in words for people. Durations that users type are in
//! `units.rs`.

/// How long something is estimated to take, for people: `8 to 10 min`, or `8 min` where both are
/// shown alike.
pub fn minutes_between([least_s, most_s]: [f64; 2]) -> String {
    let (least, most) = (in_a_unit(least_s), in_a_unit(most_s));
    let (number, unit) = &least;
    match (least == most, *unit == most.1) {
        (true, _) => minutes(most_s),
        (false, true) => format!("{number} to {}", minutes(most_s)),
        (false, false) => format!("{number} {unit} to {}", minutes(most_s)),
    }
}

/// A span of time for people.
pub fn minutes(seconds: f64) -> String {
    let (number, unit) = in_a_unit(seconds);
    format!("{number} {unit}")
}

/// A span of time in the unit in which people say it.
fn in_a_unit(seconds: f64) -> (String, &'static str) {
    match seconds {
        s if s < 90.0 => (format!("{s:.0}"), "s"),
        s if s < 5400.0 => (format!("{:.0}", s / 60.0), "min"),
        s => (format!("{:.1}", s / 3600.0), "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_one_number_or_two() {
        let check = |estimates, expected: &str| assert_eq!(minutes_between(estimates), expected);
        check([20.0, 25.0], "20 to 25 s");
        check([80.0, 100.0], "80 s to 2 min");
        check([600.0, 750.0], "10 to 12 min");
        check([20.0, 20.2], "20 s");
    }
}
