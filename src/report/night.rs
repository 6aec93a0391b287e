//! What a night of `trajpress nightly` says of the one before it, for its page. It stands beside the tables of the night, so that a
//! report that is made of them again is the same.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::files::{reach, whole};
use crate::text::escape;

const FILE: &str = "night.json";

/// A night, in words.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Night {
    /// Its name, which is when it was: `2026-01-31-030000`.
    pub name: String,
    /// That of the night before it; none before the first.
    pub before: Option<String>,
    /// The answer in a sentence, and what was compared.
    pub said: String,
    pub about: String,
    /// What changed, below the heads of the columns.
    pub head: Vec<String>,
    pub rows: Vec<Vec<String>>,
    /// What a reader should know beside it.
    pub notes: Vec<String>,
}

impl Night {
    /// Leaves it in the folder of the night.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        whole::write(&folder.join(FILE), escape::json(self)?.as_bytes())
    }

    /// That of a folder; none where the run is no night.
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Option<Night>> {
        let path = folder.join(FILE);
        let text = reach::read(&path)?;
        let read = text.map(|text| serde_json::from_slice(&text)).transpose();
        read.with_context(|| format!("{} is damaged", path.display()))
    }

    /// When it was, as people write it: `31 January 2026, 03:00 UTC`.
    pub(crate) fn when(&self) -> Option<String> {
        const MONTHS: [&str; 12] = [
            "January",
            "February",
            "March",
            "April",
            "May",
            "June",
            "July",
            "August",
            "September",
            "October",
            "November",
            "December",
        ];
        let mut parts = self.name.split('-');
        let mut part = || parts.next();
        let (year, month, day, time) = (part()?, part()?, part()?, part()?);
        let month = MONTHS.get(month.parse::<usize>().ok()?.checked_sub(1)?)?;
        let (hour, minute) = (time.get(..2)?, time.get(2..4)?);
        Some(format!("{} {month} {year}, {hour}:{minute} UTC", day.trim_start_matches('0')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_night_is_named_by_its_time() {
        let when = |name: &str| Night { name: name.to_owned(), ..Night::default() }.when();
        assert_eq!(when("2026-01-03-030500").as_deref(), Some("3 January 2026, 03:05 UTC"));
        assert_eq!([when("2026-13-03-030500"), when("monday"), when("2026-01-03")], [None, None, None]);
    }
}
