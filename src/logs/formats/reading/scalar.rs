//! One strict reader for numbers, booleans and times of logs.
//!
//! A value is a finite number, a boolean or null, also where it is written as text (`"0.5"`, `"False"`,
//! `"None"`). What is none of these (`"NaN"`, `"inf"`, `1e400`, a list) is unknown: null, and told as a loss.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

use super::draft::Losses;
use super::time;

/// Size of what base64 text of this length holds.
pub(crate) fn base64_bytes(length: usize) -> u64 {
    length as u64 / 4 * 3
}

/// A value as logged.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Scalar {
    #[default]
    Null,
    Bool(bool),
    /// Always finite.
    Number(f64),
    /// Microseconds since 1970 UTC.
    Time(i64),
    /// Neither number nor boolean nor null nor time.
    Odd,
}

impl Scalar {
    fn of_number(number: f64) -> Self {
        if number.is_finite() { Scalar::Number(number) } else { Scalar::Odd }
    }

    pub(crate) fn of_text(text: &str) -> Self {
        let text = text.trim();
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        if text.is_empty() || is("null") || is("none") {
            Scalar::Null
        } else if is("true") || is("false") {
            Scalar::Bool(is("true"))
        } else if let Ok(number) = text.parse::<f64>() {
            Self::of_number(number)
        } else {
            time::parse_iso(text).map_or(Scalar::Odd, Scalar::Time)
        }
    }

    /// As a number: true is 1, false is 0.
    pub(crate) fn number(self, what: &str, losses: &mut Losses) -> Option<f64> {
        match self {
            Scalar::Null => None,
            Scalar::Bool(is) => Some(f64::from(u8::from(is))),
            Scalar::Number(number) => Some(number),
            Scalar::Time(_) | Scalar::Odd => {
                told(&format!("{what} that is no number taken as unknown"), losses)
            }
        }
    }

    /// As a boolean: 1 is true, 0 is false, other numbers are neither.
    pub(crate) fn truth(self, what: &str, losses: &mut Losses) -> Option<bool> {
        match self {
            Scalar::Null => None,
            Scalar::Bool(is) => Some(is),
            Scalar::Number(number) if number == 0.0 || number == 1.0 => Some(number == 1.0),
            _ => told(&format!("{what} that is neither true nor false taken as unknown"), losses),
        }
    }

    /// As a time in microseconds since 1970 UTC: ISO text, or seconds, milliseconds, microseconds or nanoseconds.
    pub(crate) fn time(self, losses: &mut Losses) -> Option<i64> {
        let time = match self {
            Scalar::Null => return None,
            Scalar::Time(time) => Some(time),
            Scalar::Number(number) => time::from_number(number),
            Scalar::Bool(_) | Scalar::Odd => None,
        };
        time.or_else(|| told("time that cannot be one taken as unknown", losses))
    }

    /// As a count: a whole number from 0.
    pub(crate) fn count(self) -> Option<u64> {
        match self {
            Scalar::Number(number) if number.fract() == 0.0 && (0.0..9e15).contains(&number) => {
                Some(number as u64)
            }
            _ => None,
        }
    }
}

fn told<T>(what: &str, losses: &mut Losses) -> Option<T> {
    losses.add(what);
    None
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ScalarVisitor;
        impl<'de> Visitor<'de> for ScalarVisitor {
            type Value = Scalar;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scalar")
            }
            fn visit_str<E>(self, v: &str) -> Result<Scalar, E> {
                Ok(Scalar::of_text(v))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(v as f64))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(v as f64))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Scalar, E> {
                Ok(Scalar::of_number(v))
            }
            fn visit_bool<E>(self, v: bool) -> Result<Scalar, E> {
                Ok(Scalar::Bool(v))
            }
            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Null)
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
                while seq.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Scalar::Odd)
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
                while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
                Ok(Scalar::Odd)
            }
        }
        deserializer.deserialize_any(ScalarVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Scalar {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn numbers_and_booleans_are_read_strictly() {
        let mut losses = Losses::default();
        let rows: [(&str, Option<f64>, Option<bool>); 14] = [
            ("1", Some(1.0), Some(true)),
            ("0.0", Some(0.0), Some(false)),
            ("0.5", Some(0.5), None),
            ("\"0.5\"", Some(0.5), None),
            ("true", Some(1.0), Some(true)),
            ("\"true\"", Some(1.0), Some(true)),
            ("\"False\"", Some(0.0), Some(false)),
            ("null", None, None),
            ("\"None\"", None, None),
            ("\"\"", None, None),
            ("\"NaN\"", None, None),
            ("\"-inf\"", None, None),
            ("\"1e400\"", None, None),
            ("{\"a\":[1]}", None, None),
        ];
        for (json, number, truth) in rows {
            assert_eq!(read(json).number("reward", &mut losses), number, "{json}");
            assert_eq!(read(json).truth("resolved", &mut losses), truth, "{json}");
        }
        // What is null in the log is no loss; a half is a number and no truth.
        assert_eq!(losses.0["reward that is no number taken as unknown"], 4);
        assert_eq!(losses.0["resolved that is neither true nor false taken as unknown"], 6);
    }

    #[test]
    fn times_in_all_units() {
        let mut losses = Losses::default();
        let micros = Some(1_767_225_600_000_000);
        for json in [
            "\"2026-01-01T00:00:00Z\"",
            "1767225600",
            "1767225600.0",
            "\"1767225600\"",
            "1767225600000",
            "1767225600000000",
            "1767225600000000000",
        ] {
            assert_eq!(read(json).time(&mut losses), micros, "{json}");
        }
        assert_eq!(read("null").time(&mut losses), None);
        assert_eq!(losses, Losses::default());
        let odd = [
            "\"0001-01-01T00:00:00Z\"",
            "\"9999-12-31T23:59:59Z\"",
            "-62135596800",
            "\"x\"",
            "1e300",
            "true",
        ];
        for json in odd {
            assert_eq!(read(json).time(&mut losses), None, "{json}");
        }
        assert_eq!(losses.0["time that cannot be one taken as unknown"], odd.len() as u64);
    }
}
