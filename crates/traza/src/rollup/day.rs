//! Days of the Gregorian calendar, in UTC.

const NANOS_PER_DAY: u64 = 86_400 * 1_000_000_000;
const DAYS_PER_ERA: u64 = 146_097;

/// The day of a time in nanoseconds since the Unix epoch, written `YYYY-MM-DD`. The last one is in the year 2554.
pub(super) fn day_of(time_ns: u64) -> String {
    // Years begin in March here, so that the leap day is the last of its year; eras of 400 years begin on 1 March of
    // the year 0, which is 719,468 days before the epoch.
    let days = time_ns / NANOS_PER_DAY + 719_468;
    let era = days / DAYS_PER_ERA;
    let day_of_era = days % DAYS_PER_ERA;
    let leap_days = day_of_era / 1_460 + day_of_era / 146_096 - day_of_era / 36_524;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    // March to July and August to December have the same lengths: 153 days for five months.
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let (month, next_year) = match month_from_march {
        0..=9 => (month_from_march + 3, 0),
        _ => (month_from_march - 9, 1),
    };
    let year = 400 * era + year_of_era + next_year;
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_that_a_time_can_name_is_that_of_a_calendar() {
        let mut day = jiff::civil::date(1970, 1, 1);
        for start in (0..=u64::MAX).step_by(usize::try_from(NANOS_PER_DAY).unwrap()) {
            assert_eq!(day_of(start), day.to_string());
            let last = start.saturating_add(NANOS_PER_DAY - 1);
            assert_eq!(day_of(last), day.to_string());
            day = day.tomorrow().unwrap();
        }
    }
}
