//! Amounts as they are written on the command line.

use std::time::Duration;

use omniloop_core::journal::{Durability, RotationPolicy};

/// One `--rotate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rotate {
    Bytes(u64),
    Records(u64),
    Age(Duration),
}

const SIZES: [(&str, u64); 7] = [
    ("B", 1),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
];

const AGES: [(&str, u64); 5] = [
    ("s", 1),
    ("min", 60),
    ("m", 60),
    ("h", 3_600),
    ("d", 86_400),
];

/// A size (`64MiB`, `10MB`), a number of records (`100000`, `100000r`) or an age (`30s`, `10min`, `1h`).
///
/// A size always ends in B and an age never does, so that minutes and megabytes cannot be confused.
pub(crate) fn rotate(text: &str) -> Result<Rotate, String> {
    let (number, unit) = split(text)?;
    if number == 0 {
        return Err("zero would start a segment for every record".to_owned());
    }
    let times = |factor: u64| number.checked_mul(factor).ok_or("too large".to_owned());
    if matches!(unit, "" | "r") {
        return Ok(Rotate::Records(number));
    }
    if let Some((_, factor)) = SIZES.iter().find(|(name, _)| *name == unit) {
        return times(*factor).map(Rotate::Bytes);
    }
    if let Some((_, factor)) = AGES.iter().find(|(name, _)| *name == unit) {
        return times(*factor).map(Duration::from_secs).map(Rotate::Age);
    }
    Err(format!(
        "no unit {unit:?}: a size ends in B, KB, MB, GB, KiB, MiB or GiB, an age in s, min (or m), h or \
         d, and a plain number counts records"
    ))
}

/// A number of bytes (`1000`, `64KiB`).
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let (number, unit) = split(text)?;
    let unit = if unit.is_empty() { "B" } else { unit };
    let factor = SIZES.iter().find(|(name, _)| *name == unit);
    let (_, factor) =
        factor.ok_or("a size is in bytes, or ends in KB, MB, GB, KiB, MiB or GiB".to_owned())?;
    number.checked_mul(*factor).ok_or("too large".to_owned())
}

const NANOS: [(&str, u64); 10] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("min", 60_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
    ("w", 604_800_000_000_000),
];

/// A duration in nanoseconds: `5ms`, `1.5s`, `2h`.
pub(crate) fn nanos(text: &str) -> Result<u64, String> {
    let (whole, rest) = split(text)?;
    let (digits, unit) = match rest.strip_prefix('.') {
        Some(rest) => {
            let at = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            rest.split_at(at)
        }
        None => ("", rest),
    };
    let factor = NANOS.iter().find(|(name, _)| *name == unit);
    let (_, factor) =
        factor.ok_or("a duration ends in ns, us, ms, s, min (or m), h, d or w".to_owned())?;
    // Further digits are below a nanosecond for every unit but the longest, where they do not count either.
    let digits = digits.get(..digits.len().min(15)).unwrap_or_default();
    let scale = digits.bytes().fold(1u128, |scale, _| scale * 10);
    let part = digits.parse::<u128>().unwrap_or(0) * u128::from(*factor) / scale;
    let sum = u128::from(whole) * u128::from(*factor) + part;
    u64::try_from(sum).map_err(|_| "too large".to_owned())
}

/// Every `--rotate` together; each kind of limit at most once.
pub(crate) fn rotation(limits: &[Rotate]) -> Result<Option<RotationPolicy>, String> {
    let mut policy = RotationPolicy::default();
    for limit in limits {
        let (what, is_new) = match *limit {
            Rotate::Bytes(n) => ("size", policy.max_bytes.replace(n).is_none()),
            Rotate::Records(n) => ("number of records", policy.max_records.replace(n).is_none()),
            Rotate::Age(age) => ("age", policy.max_age.replace(age).is_none()),
        };
        if !is_new {
            return Err(format!("--rotate names a {what} twice"));
        }
    }
    Ok((!limits.is_empty()).then_some(policy))
}

/// `buffered`, `every=N` (records), `every=Nms`, `every=Ns` or `each`.
pub(crate) fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "buffered" => return Ok(Durability::Buffered),
        "each" => return Ok(Durability::EachRecord),
        _ => {}
    }
    let Some(every) = text.strip_prefix("every=") else {
        return Err("it is buffered, every=RECORDS, every=MILLISECONDSms or each".to_owned());
    };
    let (number, unit) = split(every)?;
    if number == 0 {
        return Err("every=0 never comes; to sync each record, say each".to_owned());
    }
    match unit {
        "" => Ok(Durability::EveryN(number)),
        "ms" => Ok(Durability::EveryMs(number)),
        "s" => {
            let ms = number.checked_mul(1_000).ok_or("too large".to_owned())?;
            Ok(Durability::EveryMs(ms))
        }
        _ => Err(format!(
            "no unit {unit:?}: a plain number counts records, a time ends in ms or s"
        )),
    }
}

/// A range of ticks, both ends included: `A..B`, `A..`, `..B` or `A`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ticks {
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
}

pub(crate) fn ticks(text: &str) -> Result<Ticks, String> {
    let tick = |text: &str| -> Result<Option<u64>, String> {
        if text.is_empty() {
            return Ok(None);
        }
        let parsed = text.parse().map_err(|_| format!("{text:?} is no tick"))?;
        Ok(Some(parsed))
    };
    let (first, last) = text.split_once("..").unwrap_or((text, text));
    let ticks = Ticks {
        first: tick(first)?,
        last: tick(last)?,
    };
    match (ticks.first, ticks.last) {
        (None, None) => Err("a range is A..B, A.., ..B or a single tick".to_owned()),
        (Some(first), Some(last)) if first > last => {
            Err(format!("tick {first} comes after tick {last}"))
        }
        _ => Ok(ticks),
    }
}

fn split(text: &str) -> Result<(u64, &str), String> {
    let at = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    if digits.is_empty() {
        return Err("it begins with a whole number".to_owned());
    }
    let number = digits.parse().map_err(|_| "too large".to_owned())?;
    Ok((number, unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rotation_limit_is_a_size_a_count_or_an_age_and_never_two_of_them() {
        assert_eq!(rotate("64MiB"), Ok(Rotate::Bytes(64 << 20)));
        assert_eq!(rotate("10MB"), Ok(Rotate::Bytes(10_000_000)));
        assert_eq!(rotate("100000"), Ok(Rotate::Records(100_000)));
        assert_eq!(rotate("100000r"), Ok(Rotate::Records(100_000)));
        let minutes = |n: u64| Ok(Rotate::Age(Duration::from_secs(n * 60)));
        assert_eq!(rotate("10m"), minutes(10));
        assert_eq!(rotate("10min"), minutes(10));
        assert_eq!(rotate("1h"), minutes(60));
        for wrong in [
            "",
            "MiB",
            "10M",
            "10G",
            "10k",
            "10mb",
            "1.5MiB",
            "-1",
            "0",
            "0MiB",
            "10 MB",
            "99999999999GiB",
            "99999999999999999999",
        ] {
            assert!(rotate(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_size_is_in_bytes_and_a_duration_says_its_unit() {
        assert_eq!(size("1000"), Ok(1000));
        assert_eq!(size("64KiB"), Ok(64 << 10));
        assert_eq!(nanos("5ms"), Ok(5_000_000));
        assert_eq!(nanos("1.5s"), Ok(1_500_000_000));
        assert_eq!(nanos("0.000000001s"), Ok(1));
        assert_eq!(nanos("2h"), Ok(7_200_000_000_000));
        assert_eq!(nanos("18446744073709551615ns"), Ok(u64::MAX));
        for wrong in [
            "",
            "5",
            "ms",
            "-5ms",
            "5 ms",
            "1.5",
            "5M",
            "18446744073709551616ns",
            "1e3s",
        ] {
            assert!(nanos(wrong).is_err(), "{wrong:?}");
        }
        assert!(size("1.5KiB").is_err() && size("10M").is_err());
    }

    #[test]
    fn limits_of_different_kinds_join_and_a_repeated_kind_is_refused() {
        let policy = rotation(&[Rotate::Bytes(10), Rotate::Records(5)])
            .unwrap()
            .unwrap();
        assert_eq!(
            (policy.max_bytes, policy.max_records, policy.max_age),
            (Some(10), Some(5), None)
        );
        assert_eq!(rotation(&[]), Ok(None));
        assert!(rotation(&[Rotate::Bytes(10), Rotate::Bytes(20)]).is_err());
    }

    #[test]
    fn a_durability_is_named_as_the_ladder_names_it() {
        assert_eq!(durability("buffered"), Ok(Durability::Buffered));
        assert_eq!(durability("every=100"), Ok(Durability::EveryN(100)));
        assert_eq!(durability("every=250ms"), Ok(Durability::EveryMs(250)));
        assert_eq!(durability("every=2s"), Ok(Durability::EveryMs(2000)));
        assert_eq!(durability("each"), Ok(Durability::EachRecord));
        for wrong in ["", "every", "every=", "every=0", "every=1h", "always"] {
            assert!(durability(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_range_of_ticks_includes_both_ends_and_either_may_be_left_out() {
        let range = |first, last| Ok(Ticks { first, last });
        assert_eq!(ticks("3..9"), range(Some(3), Some(9)));
        assert_eq!(ticks("3.."), range(Some(3), None));
        assert_eq!(ticks("..9"), range(None, Some(9)));
        assert_eq!(ticks("7"), range(Some(7), Some(7)));
        for wrong in ["", "..", "9..3", "a..b", "1..2..3", "-1"] {
            assert!(ticks(wrong).is_err(), "{wrong:?}");
        }
    }
}
