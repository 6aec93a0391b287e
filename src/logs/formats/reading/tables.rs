//! What a reader of databases says of the rows that it wants, in plain data: it opens no database.

use std::collections::BTreeMap;

/// The tables of a database with their columns.
#[derive(Default)]
pub(crate) struct Tables(BTreeMap<String, Vec<String>>);

impl Tables {
    pub(crate) fn add(&mut self, table: String, column: String) {
        self.0.entry(table).or_default().push(column);
    }

    /// Whether there is a table with these columns.
    pub(crate) fn has(&self, table: &str, columns: &[&str]) -> bool {
        self.0.get(table).is_some_and(|known| columns.iter().all(|c| known.iter().any(|k| k == c)))
    }

    pub(crate) fn columns(&self, table: &str) -> &[String] {
        self.0.get(table).map_or(&[], Vec::as_slice)
    }
}

/// Rows of a table that belong to runs. A run is an object of lists of rows, by name.
pub(crate) struct Rows {
    pub(crate) name: &'static str,
    /// Without this table there are no such rows.
    pub(crate) table: &'static str,
    /// Gives whose run a row is and the number of the row, sorted by the run first. Rows may be long, and SQLite holds what it
    /// sorts; so they are looked up one by one, and one that cannot be read costs itself alone.
    pub(crate) order: &'static str,
    /// The columns of a row that are read.
    pub(crate) columns: &'static str,
    /// Those that hold JSON.
    pub(crate) json: &'static [&'static str],
}

impl Rows {
    /// All columns of the rows of a table, by its own name.
    pub(crate) const fn all(table: &'static str, order: &'static str, json: &'static [&'static str]) -> Self {
        Rows { name: table, table, order, columns: "*", json }
    }
}
