//! From microseconds since 1970 to a date and a time of day, in UTC. No time zones: logs of
//! several machines are compared, and clocks that jump in spring spoil that.

/// A moment as people read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: u64,
    /// From 1.
    pub(super) month: u64,
    /// From 1.
    pub(super) day: u64,
    pub(super) hour: u64,
    pub(super) minute: u64,
    pub(super) second: u64,
    pub(super) microsecond: u64,
}

pub(super) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

impl Moment {
    pub(super) fn new(unix_us: u64) -> Self {
        let seconds = unix_us / 1_000_000;
        let (year, month, day) = date(seconds / 86_400);
        Self {
            year,
            month,
            day,
            hour: seconds / 3600 % 24,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            microsecond: unix_us % 1_000_000,
        }
    }
}

/// Howard Hinnant's `civil_from_days`: years begin in March, so that the leap day is the last of
/// its year, and 400 of them (an era) have 146,097 days.
fn date(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + 719_468; // since 0000-03-01
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let check = |unix_s: u64, expected| {
            let m = Moment::new(unix_s * 1_000_000 + 7);
            assert_eq!((m.year, m.month, m.day, m.hour, m.minute, m.second), expected);
            assert_eq!(m.microsecond, 7);
        };
        check(0, (1970, 1, 1, 0, 0, 0));
        check(784_111_777, (1994, 11, 6, 8, 49, 37)); // the example of RFC 9110 §5.6.7
        check(951_782_399, (2000, 2, 28, 23, 59, 59));
        check(951_782_400, (2000, 2, 29, 0, 0, 0));
        check(951_868_800, (2000, 3, 1, 0, 0, 0));
        check(4_107_542_400, (2100, 3, 1, 0, 0, 0)); // 2100 is no leap year
        check(1_735_689_599, (2024, 12, 31, 23, 59, 59));
    }
}
