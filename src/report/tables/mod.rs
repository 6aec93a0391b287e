//! A small table in memory, written as csv, Markdown or Parquet.
//!
//! Columns carry their own documentation: it becomes the `doc` metadata of the Parquet field and
//! the column list of `summary.md`, so the two cannot differ.

pub mod agreement;
pub mod areas;
pub mod differences;
pub mod own;
pub mod pages;
pub mod pareto;
pub mod replicates;
pub mod summary;
pub mod summary_page;
pub mod truth;
pub mod validity;
pub mod verdicts;

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::report::claims::Claims;
use crate::report::lines::{Lines, Measure};
use crate::report::load::Run;
use crate::store::SCHEMA_VERSION;
use crate::text::escape;
use pages::Page;

/// A table with a page of its own.
pub(crate) struct Entry {
    /// Also of its files.
    pub(crate) name: &'static str,
    /// What it reads of the scores.
    pub(crate) measures: fn() -> Vec<Measure>,
    /// The page, or why there is none.
    pub(crate) page: fn(&Input) -> Result<Page, String>,
}

/// All such tables, in the order of the summary's list.
pub(crate) static ALL: &[Entry] = &[
    differences::ENTRY,
    pareto::ENTRY,
    areas::ENTRY,
    agreement::ENTRY,
    truth::ENTRY,
    own::ENTRY,
    validity::ENTRY,
    replicates::ENTRY,
    verdicts::ENTRY,
];

/// What a table is made of.
pub(crate) struct Input<'a> {
    pub(crate) run: &'a Run,
    pub(crate) lines: &'a Lines,
    pub(crate) claims: &'a Claims,
    pub(crate) baseline: Option<&'a str>,
}

/// What all tables read of the scores.
pub(crate) fn measures() -> Vec<Measure> {
    ALL.iter().flat_map(|table| (table.measures)()).collect()
}

/// The cells of a column.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Cells {
    Text(Vec<Option<String>>),
    Count(Vec<Option<u64>>),
    Flag(Vec<bool>),
    /// Written to text with this many decimals; Parquet keeps all digits.
    Number(Vec<Option<f64>>, usize),
}

/// A column with its documentation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) cells: Cells,
}

/// Columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: Vec<Column>,
}

impl Table {
    pub(crate) fn new(name: &'static str) -> Self {
        Table { name, columns: Vec::new() }
    }

    pub(crate) fn text(&mut self, name: &str, doc: &str, cells: impl Iterator<Item = Option<String>>) {
        self.push(name, doc, Cells::Text(cells.collect()));
    }

    pub(crate) fn count(&mut self, name: &str, doc: &str, cells: impl Iterator<Item = Option<u64>>) {
        self.push(name, doc, Cells::Count(cells.collect()));
    }

    /// `true` or `false`.
    pub(crate) fn flag(&mut self, name: &str, doc: &str, cells: impl Iterator<Item = bool>) {
        self.push(name, doc, Cells::Flag(cells.collect()));
    }

    /// A fraction: 4 decimals.
    pub(crate) fn fraction(&mut self, name: &str, doc: &str, cells: impl Iterator<Item = Option<f64>>) {
        self.push(name, doc, Cells::Number(cells.collect(), 4));
    }

    /// A probability that may be small: 6 decimals.
    pub(crate) fn probability(&mut self, name: &str, doc: &str, cells: impl Iterator<Item = Option<f64>>) {
        self.push(name, doc, Cells::Number(cells.collect(), 6));
    }

    /// An amount, such as tokens or turns: 1 decimal.
    pub(crate) fn amount(&mut self, name: &str, doc: &str, cells: impl Iterator<Item = Option<f64>>) {
        self.push(name, doc, Cells::Number(cells.collect(), 1));
    }

    fn push(&mut self, name: &str, doc: &str, cells: Cells) {
        self.columns.push(Column { name: name.to_owned(), doc: doc.to_owned(), cells });
    }

    pub(crate) fn n_rows(&self) -> usize {
        self.columns.first().map_or(0, |c| match &c.cells {
            Cells::Text(v) => v.len(),
            Cells::Count(v) => v.len(),
            Cells::Flag(v) => v.len(),
            Cells::Number(v, _) => v.len(),
        })
    }

    /// RFC 4180, `\n` at line ends; null is an empty field.
    pub(crate) fn csv(&self) -> String {
        let names: Vec<String> = self.columns.iter().map(|c| escape::csv(&c.name)).collect();
        let mut out = names.join(",") + "\n";
        for row in 0..self.n_rows() {
            for (i, column) in self.columns.iter().enumerate() {
                if i > 0 {
                    out.push(',');
                }
                match &column.cells {
                    Cells::Text(v) => out += &v[row].as_deref().map_or_else(String::new, escape::csv),
                    Cells::Count(v) => out += &v[row].map_or_else(String::new, |n| n.to_string()),
                    Cells::Flag(v) => out += if v[row] { "true" } else { "false" },
                    Cells::Number(v, decimals) => {
                        out += &v[row].map_or_else(String::new, |x| fixed(x, *decimals));
                    }
                }
            }
            out.push('\n');
        }
        out
    }

    /// One Markdown list item a column.
    pub(crate) fn docs(&self) -> String {
        self.columns.iter().fold(String::new(), |mut out, c| {
            writeln!(out, "- `{}`: {}", c.name, c.doc).expect("a String takes every write");
            out
        })
    }

    /// Parquet with zstd; table name and schema version in the file's metadata, the documentation
    /// of each column in its field's.
    pub(crate) fn write_parquet(&self, path: &Path) -> anyhow::Result<()> {
        let (fields, arrays): (Vec<Field>, Vec<ArrayRef>) = self
            .columns
            .iter()
            .map(|c| {
                let (data_type, array): (DataType, ArrayRef) = match &c.cells {
                    Cells::Text(v) => (DataType::Utf8, Arc::new(StringArray::from(v.clone()))),
                    Cells::Count(v) => (DataType::UInt64, Arc::new(UInt64Array::from(v.clone()))),
                    Cells::Flag(v) => (DataType::Boolean, Arc::new(BooleanArray::from(v.clone()))),
                    Cells::Number(v, _) => (DataType::Float64, Arc::new(Float64Array::from(v.clone()))),
                };
                let metadata = HashMap::from([("doc".to_owned(), c.doc.clone())]);
                (Field::new(&c.name, data_type, true).with_metadata(metadata), array)
            })
            .unzip();
        let metadata = HashMap::from([
            ("table".to_owned(), self.name.to_owned()),
            ("schema_version".to_owned(), SCHEMA_VERSION.to_owned()),
        ]);
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let level = ZstdLevel::try_new(3).expect("3 is a zstd level");
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_created_by("trajpress".to_owned())
            .build();
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let write = || {
            let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties))?;
            writer.write(&RecordBatch::try_new(schema, arrays)?)?;
            writer.close().map(drop)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}

/// A Markdown table; cells are escaped. Columns after the first are right-aligned.
pub(crate) fn markdown<S: AsRef<str>>(header: &[S], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|r| escape::markdown(&r[column]).chars().count());
        cells.chain([header[column].as_ref().chars().count(), 3]).max().expect("a header has a length")
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = String>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .enumerate()
            .map(|(i, (cell, &w))| if i == 0 { format!("{cell:<w$}") } else { format!("{cell:>w$}") })
            .collect();
        format!("| {} |\n", padded.join(" | "))
    };
    let mut out = line(&mut header.iter().map(|h| h.as_ref().to_owned()));
    out += &line(
        &mut widths
            .iter()
            .enumerate()
            .map(|(i, &w)| if i == 0 { "-".repeat(w) } else { format!("{}:", "-".repeat(w - 1)) }),
    );
    for row in rows {
        out += &line(&mut row.iter().map(|c| escape::markdown(c)));
    }
    out
}

/// `x` with fixed decimals, without a minus before zero.
pub(crate) fn fixed(x: f64, decimals: usize) -> String {
    let text = format!("{x:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.chars().all(|c| c == '0' || c == '.') => rest.to_owned(),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_in_the_catalogue() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/report/tables");
        let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
        let files = files.filter(|path| path.extension().is_some_and(|e| e == "rs"));
        let has_entry = |path: &std::path::PathBuf| {
            let text = std::fs::read_to_string(path).unwrap();
            text.contains("\npub(super) const ENTRY: ")
        };
        let entries = files.filter(has_entry);
        assert_eq!(entries.count(), ALL.len());
    }

    /// Two tables may read the same, but not two things under one name.
    #[test]
    fn names_of_measures_mean_one_thing() {
        let mut known = HashMap::new();
        for measure in measures() {
            let means = format!("{measure:?}");
            assert_eq!(*known.entry(measure.name.clone()).or_insert(means.clone()), means);
        }
    }

    fn table() -> Table {
        let mut t = Table::new("demo");
        t.text("label", "Its name.", ["a, \"b\"", "c"].into_iter().map(|s| Some(s.to_owned())));
        t.count("n", "How many.", [Some(3), None].into_iter());
        t.fraction("share", "Of what.", [Some(-0.000_01), Some(0.123_46)].into_iter());
        t
    }

    #[test]
    fn csv_quotes_and_leaves_null_empty() {
        assert_eq!(table().csv(), "label,n,share\n\"a, \"\"b\"\"\",3,0.0000\nc,,0.1235\n");
    }

    #[test]
    fn markdown_is_aligned_and_escaped() {
        let rows = [vec!["a|b".to_owned(), "1".to_owned()]];
        assert_eq!(markdown(&["name", "n"], &rows), "| name |   n |\n| ---- | --: |\n| a\\|b |   1 |\n");
    }

    #[test]
    fn parquet_keeps_values_nulls_and_documentation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("demo.parquet");
        table().write_parquet(&path).unwrap();
        let file = File::open(&path).unwrap();
        let reader = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        assert_eq!(reader.schema().metadata()["table"], "demo");
        assert_eq!(reader.schema().field(2).metadata()["doc"], "Of what.");
        let batch = reader.build().unwrap().next().unwrap().unwrap();
        let n = batch.column(1).as_any().downcast_ref::<UInt64Array>().unwrap();
        assert_eq!(n.iter().collect::<Vec<_>>(), [Some(3), None]);
    }
}
