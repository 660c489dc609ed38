//! How numbers and times are written for readers.

use jiff::Timestamp;
use traza::json::Value;
use traza::rollup::Counters;

const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// A length of time: `83ns`, `1.25µs`, `12.5ms`, `1.00s`, `1m 40s`, `2h 5m`, `3d 4h`.
pub(super) fn duration(ns: u64) -> String {
    let seconds = ns / NANOS_PER_SECOND;
    match (ns, seconds) {
        (..1_000, _) => format!("{ns}ns"),
        (..1_000_000, _) => hundredths(ns, 1_000, "µs"),
        (..NANOS_PER_SECOND, _) => hundredths(ns, 1_000_000, "ms"),
        (_, ..60) => hundredths(ns, NANOS_PER_SECOND, "s"),
        (_, ..3_600) => format!("{}m {}s", seconds / 60, seconds % 60),
        (_, ..86_400) => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    }
}

/// Two digits after the point, the rest dropped.
fn hundredths(ns: u64, unit: u64, name: &str) -> String {
    format!("{}.{:02}{name}", ns / unit, ns % unit * 100 / unit)
}

/// A moment in UTC to the millisecond.
pub(super) fn time(ns: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(timestamp) => format!("{timestamp:.3}"),
        // Jiff knows every moment that 64 bits of nanoseconds can name.
        Err(_) => format!("{ns}ns"),
    }
}

/// An amount with commas between its thousands.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// So many of something: `1 span`, `2 spans`.
pub(super) fn counted(number: u64, one: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{} {one}{plural}", count(number))
}

/// [`counted`] of a length in memory.
pub(super) fn counted_len(len: usize, one: &str) -> String {
    counted(len as u64, one)
}

/// A number of bytes.
pub(super) fn bytes(len: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if len < 1_024 {
        return format!("{len} B");
    }
    let mut tenths = u128::from(len) * 10 / 1_024;
    let mut units = UNITS.into_iter();
    let mut unit = units.next().unwrap_or_default();
    while tenths >= 10_240
        && let Some(next) = units.next()
    {
        tenths /= 1_024;
        unit = next;
    }
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

/// What calls have cost: metered amounts as they are, derived ones marked with `~`, and a dash when nothing is known.
pub(super) fn money(counters: &Counters) -> String {
    if counters.cost_derived_calls > 0 {
        format!("~${:.4}", counters.cost_usd)
    } else if counters.cost_metered_calls > 0 {
        format!("${:.4}", counters.cost_usd)
    } else {
        "—".to_owned()
    }
}

/// What a reader has to know about an amount, if anything.
pub(super) fn money_note(counters: &Counters) -> Option<String> {
    let mut notes = Vec::new();
    if counters.cost_derived_calls > 0 {
        let verb = if counters.cost_derived_calls == 1 {
            "was"
        } else {
            "were"
        };
        notes.push(format!(
            "Cost marked ~ is an estimate: {} {verb} priced from the rates this server was given.",
            counted(counters.cost_derived_calls, "call")
        ));
    }
    if counters.cost_unpriced_calls > 0 {
        let verb = if counters.cost_unpriced_calls == 1 {
            "has"
        } else {
            "have"
        };
        notes.push(format!(
            "Cost is an undercount: {} {verb} no cost and no rate, and so no part in it.",
            counted(counters.cost_unpriced_calls, "call")
        ));
    }
    (!notes.is_empty()).then(|| notes.join(" "))
}

/// An attribute value: a string as it is, anything else as JSON.
pub(super) fn value(value: &Value) -> String {
    match value.as_str() {
        Some(text) => text.to_owned(),
        None => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_the_unit_that_suits_them() {
        for (ns, text) in [
            (0, "0ns"),
            (999, "999ns"),
            (1_250, "1.25µs"),
            (12_500_000, "12.50ms"),
            (1_000_000_000, "1.00s"),
            (59_999_000_000, "59.99s"),
            (100_000_000_000, "1m 40s"),
            (7_500_000_000_000, "2h 5m"),
            (273_600_000_000_000, "3d 4h"),
            (u64::MAX, "213503d 23h"),
        ] {
            assert_eq!(duration(ns), text);
        }
    }

    #[test]
    fn counts_bytes_and_times_are_readable() {
        assert_eq!(count(0), "0");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(counted(1, "span"), "1 span");
        assert_eq!(counted(2, "span"), "2 spans");
        assert_eq!(bytes(1_023), "1023 B");
        assert_eq!(bytes(4_000), "3.9 KiB");
        assert_eq!(bytes(u64::MAX), "16777215.9 TiB");
        assert_eq!(time(1_796_045_686_134_999_929), "2026-11-30T13:34:46.134Z");
        assert_eq!(time(u64::MAX), "2554-07-21T23:34:33.709Z");
    }

    #[test]
    fn money_says_how_it_is_known() {
        let mut counters = Counters::default();
        assert_eq!(money(&counters), "—");
        assert_eq!(money_note(&counters), None);
        counters.cost_usd = 0.1234;
        counters.cost_metered_calls = 1;
        assert_eq!(money(&counters), "$0.1234");
        counters.cost_derived_calls = 1;
        counters.cost_unpriced_calls = 2;
        assert_eq!(money(&counters), "~$0.1234");
        let note = money_note(&counters).unwrap();
        assert!(
            note.contains("1 call was priced") && note.contains("2 calls have"),
            "{note}"
        );
        counters.cost_derived_calls = 3;
        assert!(
            money_note(&counters)
                .unwrap()
                .contains("3 calls were priced")
        );
    }
}
