//! Values with their unit and bound: numbers, times, dates, days of the week.

use super::english::{Bound, ENGLISH, Units};
use super::words::Word;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Value {
    pub(super) dim: Dim,
    pub(super) amount: f64,
    pub(super) bound: Option<Bound>,
}

/// What a number measures; amounts are in the base unit of the dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Dim {
    Money(&'static str),
    Seconds,
    Bytes,
    Percent,
    /// Minutes since midnight.
    Clock,
    /// Days since Monday.
    Weekday,
    /// (year * 100 + month) * 100 + day; year 0 is unknown.
    Date,
    /// A bare number, with the noun beside it.
    Count,
}

impl Dim {
    /// Whether a value of one can stand where one of the other stood.
    pub(super) fn is_kin(self, other: Dim) -> bool {
        let rank = |dim| match dim {
            Dim::Money(_) => 0,
            Dim::Seconds => 1,
            Dim::Bytes => 2,
            Dim::Percent => 3,
            Dim::Clock => 4,
            Dim::Weekday | Dim::Date => 5,
            Dim::Count => 6,
        };
        rank(self) == rank(other)
    }
}

impl Value {
    pub(super) fn is_same(&self, other: &Value) -> bool {
        match (self.dim, other.dim) {
            (Dim::Date, Dim::Weekday) => weekday(self.amount) == Some(other.amount),
            (Dim::Weekday, Dim::Date) => weekday(other.amount) == Some(self.amount),
            (Dim::Date, Dim::Date) if self.amount < YEAR || other.amount < YEAR => {
                self.amount % YEAR == other.amount % YEAR
            }
            (a, b) => a == b && (self.amount - other.amount).abs() <= 1e-9 * self.amount.abs(),
        }
    }
}

/// Dimension and amount of the value that begins at a word, where its number stands, and its length.
pub(super) fn value(words: &[Word], i: usize) -> Option<(Dim, f64, usize, usize)> {
    let text = |k: usize| words.get(k).map_or("", |w| w.text.as_str());
    if let Some(day) = ENGLISH.weekdays.get(text(i).trim_end_matches('s')) {
        return Some((Dim::Weekday, *day, i, 1));
    }
    if let Some(date) = iso_date(text(i)) {
        return Some((Dim::Date, date, i, 1));
    }
    let month = |k: usize| {
        let name = words.get(k).filter(|w| w.is_capital && w.text.len() >= 3)?;
        ENGLISH.months.iter().find(|(month, _)| month.starts_with(&name.text)).map(|(_, month)| month * 100.0)
    };
    if let (Some(month), Some(day)) = (month(i), number(text(i + 1)).filter(|d| *d <= 31.0)) {
        return Some((Dim::Date, month + day, i, 2 + usize::from(ENGLISH.words.ordinals.has(text(i + 2)))));
    }
    let currency = |k: usize| {
        ENGLISH.currencies.iter().find(|(_, spellings)| spellings.has(text(k))).map(|(name, _)| name.as_str())
    };
    if let (Some(currency), Some((amount, n))) = (currency(i), scaled(words, i + 1)) {
        return Some((Dim::Money(currency), amount, i + 1, 1 + n));
    }
    if let Some(minutes) = clock(text(i)) {
        let pm = text(i + 1) == "pm" && minutes < 720.0;
        let len = 1 + usize::from(matches!(text(i + 1), "am" | "pm" | "h"));
        return Some((Dim::Clock, minutes + if pm { 720.0 } else { 0.0 }, i, len));
    }
    let (amount, n) = scaled(words, i)?;
    let unit = i + n;
    let skip = usize::from(ENGLISH.words.ordinals.has(text(unit))) + usize::from(text(unit + 1) == "of");
    if matches!(text(unit), "am" | "pm") {
        let noon = if text(unit) == "pm" { 720.0 } else { 0.0 };
        return Some((Dim::Clock, amount % 12.0 * 60.0 + noon, i, n + 1));
    }
    let Units { percent, seconds, bytes } = &ENGLISH.units;
    let units = [(Dim::Percent, percent), (Dim::Seconds, seconds), (Dim::Bytes, bytes)];
    if let Some((dim, factor)) = units.iter().find_map(|(dim, factors)| Some((dim, factors.get(text(unit))?)))
    {
        return Some((*dim, amount * factor, i, n + 1));
    }
    if let Some(currency) = currency(unit) {
        return Some((Dim::Money(currency), amount, i, n + 1));
    }
    match month(unit + skip).filter(|_| amount <= 31.0) {
        Some(month) => Some((Dim::Date, month + amount, i, n + skip + 1)),
        None => Some((Dim::Count, amount, i, n)),
    }
}

/// A number with the words that multiply it, and how many words that takes.
fn scaled(words: &[Word], i: usize) -> Option<(f64, usize)> {
    let amount = number(&words.get(i)?.text)?;
    let scale = words.get(i + 1).and_then(|word| ENGLISH.scales.get(&word.text));
    Some(scale.map_or((amount, 1), |s| (amount * s, 2)))
}

/// A number in digits or as a word.
fn number(text: &str) -> Option<f64> {
    if let Some(n) = ENGLISH.numbers.get(text) {
        return Some(*n);
    }
    let is_number = text.starts_with(|c: char| c.is_ascii_digit());
    let parsed = || text.replace(',', "").parse::<f64>().ok();
    is_number.then(parsed).flatten().filter(|n| n.is_finite())
}

/// Minutes since midnight of `14:00`.
fn clock(text: &str) -> Option<f64> {
    let (hours, minutes) = text.split_once(':').filter(|(_, m)| m.len() == 2)?;
    let (hours, minutes): (u32, u32) = (hours.parse().ok()?, minutes.parse().ok()?);
    (hours < 25 && minutes < 60).then(|| f64::from(hours * 60 + minutes))
}

fn iso_date(text: &str) -> Option<f64> {
    let (year, rest) = text.split_once('-').filter(|(y, _)| y.len() == 4)?;
    let (month, day) = rest.split_once('-')?;
    let (year, month, day): (u32, u32, u32) = (year.parse().ok()?, month.parse().ok()?, day.parse().ok()?);
    let is_date = (1..=12).contains(&month) && (1..=31).contains(&day);
    is_date.then(|| f64::from((year * 100 + month) * 100 + day))
}

/// Days since Monday of a date with a year (Sakamoto's method).
fn weekday(date: f64) -> Option<f64> {
    let date = date as usize;
    let (year, month, day) = (date / 10_000, date / 100 % 100, date % 100);
    let shift = *[0, 3, 2, 5, 0, 3, 5, 1, 4, 6, 2, 4].get(month.checked_sub(1)?)?;
    let year = year.checked_sub(usize::from(month < 3))?;
    Some(((year + year / 4 - year / 100 + year / 400 + shift + day + 6) % 7) as f64)
}

const YEAR: f64 = 10_000.0;
