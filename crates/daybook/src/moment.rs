//! Points in time as they are written on the command line.

use durable::{Clock as _, SystemClock};
use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::amounts::nanos;

/// A point in time, in nanoseconds since 1970: an RFC 3339 time, a day (its start in UTC), a plain number of
/// nanoseconds, `now`, or a time ago (`-1h`).
pub(crate) fn moment(text: &str) -> Result<u64, String> {
    moment_at(text, SystemClock::start().wall_ns())
}

fn moment_at(text: &str, now_ns: u64) -> Result<u64, String> {
    if text == "now" {
        return Ok(now_ns);
    }
    if let Some(ago) = text.strip_prefix('-') {
        return Ok(now_ns.saturating_sub(nanos(ago)?));
    }
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map_err(|_| "too large".to_owned());
    }
    let time = text.parse::<Timestamp>().or_else(|error| {
        let day = text.parse::<Date>().map_err(|_| error)?;
        day.to_zoned(TimeZone::UTC).map(|start| start.timestamp())
    });
    let time = time.map_err(|_| {
        "a time is 2026-01-31T12:00:00Z, 2026-01-31, a number of nanoseconds, now, or -1h"
            .to_owned()
    })?;
    u64::try_from(time.as_nanosecond()).map_err(|_| "it is before 1970 or too late".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_absolute_or_ago() {
        let at = |text| moment_at(text, 10_000_000_000_000);
        assert_eq!(at("1970-01-02T00:00:00.000000001Z"), Ok(86_400_000_000_001));
        assert_eq!(at("1970-01-01T02:00:00+01:00"), Ok(3_600_000_000_000));
        assert_eq!(at("1970-01-02"), Ok(86_400_000_000_000));
        assert_eq!(at("5"), Ok(5));
        assert_eq!(at("18446744073709551615"), Ok(u64::MAX));
        assert_eq!(at("now"), Ok(10_000_000_000_000));
        assert_eq!(at("-1h"), Ok(6_400_000_000_000));
        assert_eq!(at("-9000d"), Ok(0));
        for wrong in [
            "",
            "-",
            "-1",
            "yesterday",
            "18446744073709551616",
            "1969-12-31",
            "12:00",
        ] {
            assert!(at(wrong).is_err(), "{wrong:?}");
        }
    }
}
