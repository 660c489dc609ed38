//! Reads the times of arguments.

use jiff::civil::Date;
use serde_json::Value;

const NANOS_PER_SECOND: i128 = 1_000_000_000;
/// A positive number below this is taken for seconds or milliseconds: as nanoseconds it would be in January 1970.
const PLAUSIBLE_NANOS_MIN: u64 = 1_000_000_000_000_000;
const FORMS: &str = "write an age ('2h', '7d'), an RFC 3339 time ('2026-07-27T09:00:00Z'), a date ('2026-07-27'), 'now', or \
                     nanoseconds since the Unix epoch";

/// The moment that an argument names, in nanoseconds since the Unix epoch. `name` is that of the argument.
///
/// # Errors
/// Why it names none, for the caller to read.
pub(super) fn parse(name: &str, value: &Value, now_ns: u64) -> Result<u64, String> {
    let parsed = match value {
        Value::Number(number) => match number.as_u64() {
            Some(ns) => plausible(ns),
            None => Err("is not a whole number of nanoseconds since the Unix epoch".to_owned()),
        },
        Value::String(text) => text_time(text.trim(), now_ns),
        _ => Err(format!("is neither text nor a number; {FORMS}")),
    };
    parsed.map_err(|why| format!("{name} {why}."))
}

fn plausible(ns: u64) -> Result<u64, String> {
    if ns == 0 || ns >= PLAUSIBLE_NANOS_MIN {
        return Ok(ns);
    }
    Err(format!(
        "= {ns} looks like seconds or milliseconds, and times here are nanoseconds since the Unix epoch; multiply it, or \
         write an age like '2h'"
    ))
}

fn text_time(text: &str, now_ns: u64) -> Result<u64, String> {
    if text.is_empty() {
        return Err(format!("is empty; {FORMS}"));
    }
    if text.eq_ignore_ascii_case("now") {
        return Ok(now_ns);
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let ns = text
            .parse()
            .map_err(|_| "is too large for nanoseconds since the Unix epoch".to_owned())?;
        return plausible(ns);
    }
    if let Some(age) = age(text) {
        return Ok(now_ns.saturating_sub(age));
    }
    let ns = calendar_time(text)?;
    u64::try_from(ns).map_err(|_| {
        let side = if ns < 0 {
            "before the Unix epoch"
        } else {
            "after the year 2554"
        };
        format!("names a time {side}, which no span can have")
    })
}

/// `<n>s|m|h|d|w` in nanoseconds.
fn age(text: &str) -> Option<u64> {
    let (last, unit) = text.char_indices().next_back()?;
    let number = text.get(..last)?;
    if number.is_empty() || !number.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let seconds: u64 = match unit {
        's' => 1,
        'm' => 60,
        'h' => 3_600,
        'd' => 86_400,
        'w' => 604_800,
        _ => return None,
    };
    // An age beyond all time is as long as time.
    let number: u64 = number.parse().unwrap_or(u64::MAX);
    Some(number.saturating_mul(seconds).saturating_mul(1_000_000_000))
}

/// What is left of a text while it is read.
struct Rest<'t>(&'t str);

impl Rest<'_> {
    /// Exactly `digits` digits.
    fn number(&mut self, digits: usize) -> Option<u32> {
        let (head, tail) = self.0.split_at_checked(digits)?;
        if !head.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        self.0 = tail;
        head.parse().ok()
    }

    fn take(&mut self, any: &[char]) -> bool {
        let tail = self.0.strip_prefix(any);
        self.0 = tail.unwrap_or(self.0);
        tail.is_some()
    }
}

/// A date, or a date and a time of day with an offset; without one it is UTC. In nanoseconds since the Unix epoch.
fn calendar_time(text: &str) -> Result<i128, String> {
    let unreadable = || format!("is not a time that can be read; {FORMS}");
    let mut rest = Rest(text);
    let date = date(&mut rest).ok_or_else(unreadable)??;
    let days = i128::from(
        date.since(Date::constant(1970, 1, 1))
            .map_or(0, |span| span.get_days()),
    );
    let midnight = days * 86_400 * NANOS_PER_SECOND;
    if rest.0.is_empty() {
        return Ok(midnight);
    }
    if !rest.take(&['T', 't', ' ']) {
        return Err(unreadable());
    }
    let of_day = time_of_day(&mut rest).ok_or_else(unreadable)??;
    let offset_minutes = offset(&mut rest).ok_or_else(unreadable)??;
    if !rest.0.is_empty() {
        return Err(unreadable());
    }
    Ok(midnight + of_day - offset_minutes * 60 * NANOS_PER_SECOND)
}

type Part<T> = Option<Result<T, String>>;

fn date(rest: &mut Rest<'_>) -> Part<Date> {
    let year = rest.number(4)?;
    let [month, day] = [(); 2].map(|()| rest.take(&['-']).then(|| rest.number(2)).flatten());
    let [year, month, day] =
        [Some(year), month, day].map(|part| part.and_then(|part| i16::try_from(part).ok()));
    let (year, month, day) = (year?, month?, day?);
    let date = i8::try_from(month)
        .and_then(|month| i8::try_from(day).map(|day| (month, day)))
        .ok()?;
    Some(Date::new(year, date.0, date.1).map_err(|_| {
        format!("names the date {year:04}-{month:02}-{day:02}, which is not in the calendar")
    }))
}

/// Nanoseconds since midnight.
fn time_of_day(rest: &mut Rest<'_>) -> Part<i128> {
    let hour = rest.number(2)?;
    if !rest.take(&[':']) {
        return None;
    }
    let minute = rest.number(2)?;
    let mut second = 0;
    let mut nanos = 0;
    if rest.take(&[':']) {
        second = rest.number(2)?;
        if rest.take(&['.', ',']) {
            let len = rest.0.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, tail) = rest.0.split_at_checked(len)?;
            if digits.is_empty() {
                return None;
            }
            rest.0 = tail;
            let nine: String = digits.chars().chain("000000000".chars()).take(9).collect();
            nanos = nine.parse().ok()?;
        }
    }
    if hour > 23 || minute > 59 || second > 60 {
        return Some(Err(
            "names a time of day that no clock shows: hours end at 23, minutes at 59 and seconds at 60".to_owned(),
        ));
    }
    // A leap second is the last second of its minute here.
    let seconds = i128::from(hour * 3_600 + minute * 60 + second.min(59));
    Some(Ok(seconds * NANOS_PER_SECOND + nanos))
}

/// Minutes east of UTC.
fn offset(rest: &mut Rest<'_>) -> Part<i128> {
    if rest.0.is_empty() || rest.take(&['Z', 'z']) {
        return Some(Ok(0));
    }
    let sign = if rest.take(&['+']) {
        1
    } else if rest.take(&['-']) {
        -1
    } else {
        return None;
    };
    let hours = rest.number(2)?;
    rest.take(&[':']);
    let minutes = rest.number(2)?;
    if hours > 23 || minutes > 59 {
        return Some(Err("has an offset beyond 23:59".to_owned()));
    }
    Some(Ok(sign * i128::from(hours * 60 + minutes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    const NOW: u64 = 1_800_000_000_000_000_000;

    fn read(value: impl Into<Value>) -> Result<u64, String> {
        parse("since", &value.into(), NOW)
    }

    #[test]
    fn an_age_is_counted_back_from_now() {
        assert_eq!(read("now"), Ok(NOW));
        for (text, seconds) in [
            ("0s", 0),
            ("90s", 90),
            ("2m", 120),
            ("3h", 10_800),
            ("7d", 604_800),
            ("1w ", 604_800),
        ] {
            assert_eq!(read(text), Ok(NOW - seconds * 1_000_000_000), "{text}");
        }
        assert_eq!(read("99999999999999999999999w"), Ok(0));
    }

    #[test]
    fn dates_and_times_are_read_with_every_offset_and_fraction() {
        for (text, ns) in [
            ("1970-01-01", 0),
            ("2024-02-29", 1_709_164_800_000_000_000),
            ("2024-01-01T10:00:00Z", 1_704_103_200_000_000_000),
            ("2024-01-01t10:00:00z", 1_704_103_200_000_000_000),
            ("2024-01-01 10:00:00", 1_704_103_200_000_000_000),
            ("2024-01-01T10:00Z", 1_704_103_200_000_000_000),
            ("2024-01-01T10:00:00.5Z", 1_704_103_200_500_000_000),
            (
                "2024-01-01T10:00:00.123456789123Z",
                1_704_103_200_123_456_789,
            ),
            ("2024-01-01T10:00:00+05:30", 1_704_083_400_000_000_000),
            ("2024-01-01T10:00:00-0530", 1_704_123_000_000_000_000),
            ("2024-01-01T10:00:60Z", 1_704_103_259_000_000_000),
            ("2024-01-01T10:00:00-23:59", 1_704_189_540_000_000_000),
        ] {
            assert_eq!(read(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn nanoseconds_are_read_as_number_and_as_digits() {
        for ns in [0, 1_000_000_000_000_000, u64::MAX] {
            assert_eq!(read(ns), Ok(ns));
            assert_eq!(read(ns.to_string()), Ok(ns));
        }
    }

    #[test]
    fn seconds_and_milliseconds_are_taken_for_a_mistake() {
        for ns in [1, 1_700_000_000, 999_999_999_999_999_u64] {
            for value in [json!(ns), json!(ns.to_string())] {
                assert!(read(value).unwrap_err().contains("nanoseconds"));
            }
        }
    }

    #[test]
    fn impossible_times_are_refused_with_the_reason() {
        for (text, why) in [
            ("", "empty"),
            ("5x", "cannot be read"),
            ("-3h", "not a time"),
            ("1.5h", "not a time"),
            ("2024-02-30", "calendar"),
            ("2023-02-29", "calendar"),
            ("2024-13-01", "calendar"),
            ("2024-01-01T24:00:00Z", "hours end"),
            ("2024-01-01T10:60:00Z", "minutes"),
            ("2024-01-01T10:00:61Z", "seconds"),
            ("2024-01-01T10:00:00+24:00", "offset"),
            ("2024-01-01T10:00:00+05", "not a time"),
            ("2024-01-01T10:00:00.Z", "not a time"),
            ("2024-01-01T10:00:00Zx", "not a time"),
            ("1960-01-01", "before the Unix epoch"),
            ("2600-01-01", "2554"),
            ("99999999999999999999999", "too large"),
        ] {
            let answer = read(text).unwrap_err();
            let expected = if why == "cannot be read" {
                "not a time"
            } else {
                why
            };
            assert!(
                answer.starts_with("since ") && answer.contains(expected),
                "{text}: {answer}"
            );
        }
        for value in [json!(-1), json!(1.5), json!(true), json!([]), json!({})] {
            assert!(read(value).is_err());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_time_or_an_error(text in "\\PC{0,40}") {
            read(text).ok();
        }

        #[test]
        fn what_is_written_as_rfc_3339_is_read_back(ns in 0..=u64::MAX) {
            let text = jiff::Timestamp::from_nanosecond(i128::from(ns)).unwrap().to_string();
            prop_assert_eq!(read(text), Ok(ns));
        }
    }
}
