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
}

/// Rows of a table that belong to runs. A run is an object of lists of rows, by name.
pub(crate) struct Rows {
    pub(crate) name: &'static str,
    /// Without this table there are no such rows.
    pub(crate) table: &'static str,
    /// Its first column says whose run a row is, and is what the rows are sorted by first; the others are the row. Where rows may
    /// be long their numbers are sorted, and the rows looked up: SQLite holds one row of each piece that it sorts.
    pub(crate) sql: &'static str,
    /// Columns that hold JSON.
    pub(crate) json: &'static [&'static str],
}
