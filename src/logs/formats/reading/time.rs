//! Times of logs as microseconds since 1970 UTC, without a calendar library.

/// Parses `2026-01-31T10:00:00[.123456][Z|+01:00]`; without a zone it is taken as UTC. None for what cannot be a
/// time of a log: years 1 and 9999 stand for "unknown" and "never".
pub(crate) fn parse_iso(text: &str) -> Option<i64> {
    let b = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let part = b.get(from..to)?;
        if !part.iter().all(u8::is_ascii_digit) {
            return None;
        }
        Some(part.iter().fold(0i64, |n, d| n * 10 + i64::from(d - b'0')))
    };
    let at = |i: usize, c: &[u8]| b.get(i).is_some_and(|x| c.contains(x));
    if !(at(4, b"-") && at(7, b"-") && at(10, b"T ") && at(13, b":") && at(16, b":")) {
        return None;
    }
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let first = days_from_civil(year, month, 1);
    let next = if month == 12 { (year + 1, 1) } else { (year, month + 1) };
    let days = first + day - 1;
    if !(first..days_from_civil(next.0, next.1, 1)).contains(&days) {
        return None;
    }
    let mut rest = 19;
    let mut micros = 0;
    if at(rest, b".,") {
        rest += 1;
        let start = rest;
        while b.get(rest).is_some_and(u8::is_ascii_digit) {
            rest += 1;
        }
        for i in 0..6 {
            let digit = if start + i < rest { i64::from(b[start + i] - b'0') } else { 0 };
            micros = micros * 10 + digit;
        }
    }
    let offset = match b.get(rest) {
        Some(sign @ (b'+' | b'-')) => {
            let minutes_at = if at(rest + 3, b":") { rest + 4 } else { rest + 3 };
            let minutes = number(rest + 1, rest + 3)? * 60 + number(minutes_at, minutes_at + 2).unwrap_or(0);
            if *sign == b'+' { minutes } else { -minutes }
        }
        _ => 0,
    };
    let seconds = days * 86_400 + hour * 3600 + (minute - offset) * 60 + second;
    Some(seconds * 1_000_000 + micros).filter(|time| (0..END).contains(time))
}

/// The first microseconds of 1990 and of 2200: what logs of agents may hold.
const START: i64 = 631_152_000_000_000;
const END: i64 = 7_258_118_400_000_000;

/// Seconds since 1970, or where these are too many milliseconds, microseconds or nanoseconds, as microseconds; none
/// for what cannot be a time.
pub(crate) fn from_number(number: f64) -> Option<i64> {
    let seconds = (number * 1e6).round();
    if (0.0..END as f64).contains(&seconds) {
        return Some(seconds as i64);
    }
    let smaller = [1e3, 1.0, 1e-3].map(|micros| (number * micros).round());
    smaller.iter().find(|t| (START as f64..END as f64).contains(t)).map(|t| *t as i64)
}

/// Days since 1970-01-01 of a date of the Gregorian calendar (H. Hinnant's algorithm).
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let year_of_era = y.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times() {
        assert_eq!(parse_iso("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_iso("1970-01-02T00:00:01.5Z"), Some(86_401_500_000));
        assert_eq!(parse_iso("2000-03-01T00:00:00.123456"), Some(951_868_800_123_456));
        assert_eq!(parse_iso("1970-01-01T01:00:00+01:00"), Some(0));
        assert_eq!(parse_iso("yesterday"), None);
        assert_eq!(parse_iso("1970-13-01T00:00:00Z"), None);
        assert_eq!(parse_iso("1970-01-01T00:00:00+"), None);
        // Days that their month does not have.
        for day in ["2025-02-30", "2025-02-29", "1900-02-29", "2025-04-31", "2025-12-32", "2025-01-00"] {
            assert_eq!(parse_iso(&format!("{day}T00:00:00Z")), None, "{day}");
        }
        assert_eq!(parse_iso("2000-02-29T00:00:00Z"), Some(951_782_400_000_000));
        assert_eq!(parse_iso("1999-12-31T23:59:60Z"), Some(946_684_800_000_000));
        assert_eq!(from_number(1.5), Some(1_500_000));
        assert_eq!(from_number(1.7e12), Some(1_700_000_000_000_000));
        assert_eq!(from_number(f64::NAN), None);
        assert_eq!(from_number(-1.0), None);
        // The year 9999 in seconds is no time of 1978 in milliseconds.
        assert_eq!(from_number(253_402_300_799.0), None);
        assert_eq!(parse_iso("0001-01-01T00:00:00Z"), None);
        assert_eq!(parse_iso("9999-12-31T23:59:59Z"), None);
    }
}
