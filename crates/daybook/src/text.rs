//! Facts as people read them.

use std::borrow::Cow;

use jiff::Timestamp;

/// `1 record`, `2 records`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 {
        format!("1 {noun}")
    } else {
        format!("{number} {noun}s")
    }
}

/// A number of bytes with the binary unit that fits.
pub(crate) fn bytes(len: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if len < 1024 {
        return format!("{len} B");
    }
    let mut value = approximate(len);
    let mut unit = "B";
    for next in UNITS {
        if value < 1024.0 {
            break;
        }
        value /= 1024.0;
        unit = next;
    }
    format!("{value:.1} {unit}")
}

/// A duration with the unit that fits.
pub(crate) fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..1_000_000 => format!("{:.1} µs", approximate(ns) / 1e3),
        1_000_000..1_000_000_000 => format!("{:.1} ms", approximate(ns) / 1e6),
        _ if seconds < 60 => format!("{:.3} s", approximate(ns) / 1e9),
        _ if seconds < 3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        _ if seconds < 86_400 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// A time in nanoseconds since 1970, in UTC to the millisecond.
pub(crate) fn wall_time(ns: u64) -> String {
    match Timestamp::from_nanosecond(i128::from(ns)) {
        Ok(time) if ns > 0 => format!("{time:.3}"),
        _ => "unknown time".to_owned(),
    }
}

/// A number to five digits.
pub(crate) fn number(value: f64) -> String {
    let size = value.abs();
    if value == 0.0 || !value.is_finite() {
        format!("{value}")
    } else if (1e-3..1e6).contains(&size) {
        let whole_digits = [10.0, 100.0, 1e3, 1e4]
            .into_iter()
            .filter(|&p| size >= p)
            .count();
        let text = format!("{value:.*}", 4 - whole_digits);
        if text.contains('.') {
            text.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            text
        }
    } else {
        format!("{value:.3e}")
    }
}

/// For display only: above 2^53 the last digits are rounded.
#[expect(clippy::cast_precision_loss, reason = "rounded for display anyway")]
pub(crate) fn approximate(value: u64) -> f64 {
    value as f64
}

/// `text` with control characters spelled out: what a file holds must not steer the terminal.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let steers = |c: char| c.is_control() && c != '\n' && c != '\t';
    if !text.contains(steers) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if steers(c) {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// `text` on one line of at most `width` characters.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    let text = clean(text).replace(['\n', '\t'], " ");
    if text.chars().count() <= width {
        return text;
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_are_shown_with_the_unit_that_fits() {
        assert_eq!(bytes(1023), "1023 B");
        assert_eq!(bytes(64 << 20), "64.0 MiB");
        assert_eq!(duration(1_500), "1.5 µs");
        assert_eq!(duration(2_345_000_000), "2.345 s");
        assert_eq!(duration(3_725_000_000_000), "1 h 02 min");
        assert_eq!(count(1, "record"), "1 record");
        assert_eq!(count(0, "record"), "0 records");
        assert_eq!(
            wall_time(1_700_000_000_123_000_000),
            "2023-11-14T22:13:20.123Z"
        );
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(192.934_96), "192.93");
        assert_eq!(number(300_000.0), "300000");
        assert_eq!(number(-1e-9), "-1.000e-9");
    }

    #[test]
    fn what_a_file_holds_cannot_steer_the_terminal() {
        assert_eq!(clean("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(clean("c1 \u{9b}31m"), "c1 \\u{9b}31m");
        assert_eq!(shorten("one\ntwo three", 9), "one two …");
    }
}
