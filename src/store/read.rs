//! How tables are read: whole, by row group, or by ranges of rows.

use std::collections::HashSet;
use std::io::{self, Read as _};
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use arrow::array::{AsArray as _, BooleanArray, RecordBatch};
use arrow::datatypes::Schema;
use bytes::Bytes;
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{
    ArrowPredicate, ArrowPredicateFn, ArrowReaderMetadata, ArrowReaderOptions,
    ParquetRecordBatchReaderBuilder, RowFilter, RowSelection,
};
use parquet::errors::ParquetError;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::reader::{ChunkReader, Length};

use super::SCHEMA_VERSION;
use super::row::Row;
use crate::files::held::{Held, Reader};

impl Length for Held {
    fn len(&self) -> u64 {
        self.n_bytes().unwrap_or(0)
    }
}

impl ChunkReader for Held {
    type T = io::BufReader<Reader>;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Self::T> {
        Ok(io::BufReader::new(self.from(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        let mut bytes = Vec::with_capacity(length);
        let n = self.from(start).take(length as u64).read_to_end(&mut bytes)?;
        match n == length {
            true => Ok(bytes.into()),
            false => Err(ParquetError::EOF(format!("{n} of {length} bytes are there"))),
        }
    }
}

fn open(path: &Path) -> anyhow::Result<ParquetRecordBatchReaderBuilder<Held>> {
    let file = open_file(path)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)
        .with_context(|| format!("{} is not a readable Parquet file", path.display()))?;
    check_version(path, builder.schema())?;
    Ok(builder)
}

fn open_file(path: &Path) -> anyhow::Result<Held> {
    Held::open(path).with_context(|| format!("cannot read {}", path.display()))
}

fn check_version(path: &Path, schema: &Schema) -> anyhow::Result<()> {
    let version = schema.metadata().get("schema_version").map_or("none", String::as_str);
    anyhow::ensure!(
        version == SCHEMA_VERSION,
        "{} has schema version {version}, expected {SCHEMA_VERSION}\nhint: make it again with this version",
        path.display()
    );
    Ok(())
}

/// A table open for reading single row groups and rows. Keeps the footer, so that a read costs no
/// more than its pages; decodes only the columns of `R`. What was opened is what is read, whatever takes its place.
pub struct TableReader<R: Row> {
    pub(super) path: PathBuf,
    pub(super) file: Held,
    pub(super) metadata: ArrowReaderMetadata,
    columns: ProjectionMask,
    row: PhantomData<fn() -> R>,
}

impl<R: Row> TableReader<R> {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        Self::of(path, open_file(path)?)
    }

    /// The table in an open file, which is named so in errors.
    pub fn of(path: &Path, file: Held) -> anyhow::Result<Self> {
        // The index of pages lets a read of few rows skip the other pages.
        let options = ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional);
        Self::load(path, file, options)
    }

    /// The table with all that its footer says, so that a copy of a row group says the same.
    pub fn open_to_copy(path: &Path) -> anyhow::Result<Self> {
        let options = ArrowReaderOptions::new().with_page_index_policy(PageIndexPolicy::Optional);
        Self::load(path, open_file(path)?, options.with_encoding_stats_as_mask(false))
    }

    fn load(path: &Path, file: Held, options: ArrowReaderOptions) -> anyhow::Result<Self> {
        let metadata = ArrowReaderMetadata::load(&file, options)
            .with_context(|| format!("{} is not a readable Parquet file", path.display()))?;
        check_version(path, metadata.schema())?;
        Ok(Self::with(path, file, metadata))
    }

    /// The same table with the columns of other rows.
    pub fn columns_of<K: Row>(&self) -> TableReader<K> {
        TableReader::with(&self.path, self.file.clone(), self.metadata.clone())
    }

    fn with(path: &Path, file: Held, metadata: ArrowReaderMetadata) -> Self {
        let wanted = R::fields();
        let roots = metadata
            .schema()
            .fields()
            .iter()
            .enumerate()
            .filter(|(_, f)| wanted.iter().any(|w| w.name() == f.name()))
            .map(|(i, _)| i);
        let columns = ProjectionMask::roots(metadata.parquet_schema(), roots);
        TableReader { path: path.to_owned(), file, metadata, columns, row: PhantomData }
    }

    /// Bytes of a row group as Parquet counts them, before they are packed.
    pub fn row_group_bytes(&self, row_group: usize) -> usize {
        usize::try_from(self.metadata.metadata().row_group(row_group).total_byte_size()).unwrap_or(0)
    }

    /// Number of rows of each row group.
    pub fn row_groups(&self) -> Vec<usize> {
        let groups = self.metadata.metadata().row_groups();
        groups.iter().map(|g| usize::try_from(g.num_rows()).unwrap_or(0)).collect()
    }

    /// Reads ascending ranges of rows of one row group.
    pub fn read(&self, row_group: usize, ranges: &[Range<usize>]) -> anyhow::Result<Vec<R>> {
        let mut rows = Vec::new();
        for batch in self.batches(row_group, Some(ranges))? {
            rows.extend(batch?);
        }
        Ok(rows)
    }

    /// Reads one row group in batches.
    pub fn scan(&self, row_group: usize, mut each: impl FnMut(Vec<R>)) -> anyhow::Result<()> {
        for batch in self.batches(row_group, None)? {
            each(batch?);
        }
        Ok(())
    }

    /// The rows of a range of one row group, read as they are asked for.
    pub fn rows(
        &self,
        row_group: usize,
        range: Range<usize>,
    ) -> anyhow::Result<impl Iterator<Item = anyhow::Result<R>> + use<R>> {
        let ranges = [range];
        Ok(self.batches(row_group, Some(&ranges))?.flat_map(|batch| match batch {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        }))
    }

    fn batches(
        &self,
        row_group: usize,
        ranges: Option<&[Range<usize>]>,
    ) -> anyhow::Result<impl Iterator<Item = anyhow::Result<Vec<R>>> + use<R>> {
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(self.file.clone(), self.metadata.clone())
                .with_batch_size(batch_rows(self.metadata.metadata(), &[row_group]))
                .with_row_groups(vec![row_group])
                .with_projection(self.columns.clone());
        if let Some(ranges) = ranges {
            let n_rows = self.row_groups()[row_group];
            let selection = RowSelection::from_consecutive_ranges(ranges.iter().cloned(), n_rows);
            builder = builder.with_row_selection(selection);
        }
        let damaged = format!("cannot read row group {row_group} of {}", self.path.display());
        let read = builder.build().with_context(|| damaged.clone())?;
        Ok(read.map(move |batch| R::rows(&batch.with_context(|| damaged.clone())?)))
    }
}

/// Number of row groups of a table.
pub fn row_groups<R: Row>(path: &Path) -> anyhow::Result<usize> {
    Ok(open(path)?.metadata().num_row_groups())
}

/// Reads the rows of one row group.
pub fn read_row_group<R: Row>(path: &Path, row_group: usize) -> anyhow::Result<Vec<R>> {
    let builder = open(path)?;
    let rows = batch_rows(builder.metadata(), &[row_group]);
    read_batches(builder.with_row_groups(vec![row_group]).with_batch_size(rows))
}

/// Reads all rows of a table.
pub fn read<R: Row>(path: &Path) -> anyhow::Result<Vec<R>> {
    let builder = open(path)?;
    let all: Vec<usize> = (0..builder.metadata().num_row_groups()).collect();
    let rows = batch_rows(builder.metadata(), &all);
    read_batches(builder.with_batch_size(rows))
}

/// Reads these columns of a table, many rows at a time.
pub fn columns<R: Row>(
    path: &Path,
    names: &[&str],
    mut each: impl FnMut(RecordBatch) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let builder = open(path)?;
    let all: Vec<usize> = (0..builder.metadata().num_row_groups()).collect();
    let rows = batch_rows(builder.metadata(), &all);
    let mask = ProjectionMask::columns(builder.parquet_schema(), names.iter().copied());
    for batch in builder.with_batch_size(rows).with_projection(mask).build()? {
        each(batch.with_context(|| format!("{} ends in the middle", path.display()))?)?;
    }
    Ok(())
}

/// The same, of the rows alone that have one of these texts in each of these columns: of the others these are all that is decoded.
pub fn columns_of<R: Row>(
    path: &Path,
    names: &[&str],
    wanted: &[(&str, &[&str])],
    mut each: impl FnMut(RecordBatch) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let reader = TableReader::<R>::open(path)?;
    let groups = reader.row_groups().len();
    let rows = batch_rows(reader.metadata.metadata(), &(0..groups).collect::<Vec<_>>());
    let builder = ParquetRecordBatchReaderBuilder::new_with_metadata(reader.file, reader.metadata);
    let mask = |names: &[&str]| ProjectionMask::columns(builder.parquet_schema(), names.iter().copied());
    let filter = wanted.iter().map(|(column, texts)| -> Box<dyn ArrowPredicate> {
        let texts: HashSet<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        Box::new(ArrowPredicateFn::new(mask(&[column]), move |batch| Ok(is_one_of(&batch, &texts))))
    });
    let (names, filter) = (mask(names), RowFilter::new(filter.collect()));
    for batch in builder.with_batch_size(rows).with_projection(names).with_row_filter(filter).build()? {
        each(batch.with_context(|| format!("{} ends in the middle", path.display()))?)?;
    }
    Ok(())
}

/// The same as rows.
pub fn rows_of<R: Row>(
    path: &Path,
    wanted: &[(&str, &[&str])],
    mut each: impl FnMut(Vec<R>),
) -> anyhow::Result<()> {
    let fields = R::fields();
    let names: Vec<&str> = fields.iter().map(|field| field.name().as_str()).collect();
    columns_of::<R>(path, &names, wanted, |batch| {
        each(R::rows(&batch)?);
        Ok(())
    })
}

/// Which rows have one of these texts in the first column.
fn is_one_of(rows: &RecordBatch, texts: &HashSet<String>) -> BooleanArray {
    // Rows of one text stand together.
    let (mut last, mut is) = (None, false);
    let one = |text: Option<&str>| {
        if last.as_deref() != text {
            (last, is) = (text.map(str::to_owned), text.is_some_and(|text| texts.contains(text)));
        }
        Some(is)
    };
    rows.column(0).as_string::<i32>().iter().map(one).collect()
}

/// Rows that are read at a time: one, where a column of the row groups holds more text than a batch may.
fn batch_rows(metadata: &ParquetMetaData, row_groups: &[usize]) -> usize {
    let is_large = |&group: &usize| {
        let columns = metadata.row_group(group).columns();
        columns.iter().any(|column| column.uncompressed_size() >= i64::from(i32::MAX) - (64 << 20))
    };
    if row_groups.iter().any(is_large) { 1 } else { BATCH_ROWS }
}

const BATCH_ROWS: usize = 1024;

fn read_batches<R: Row>(builder: ParquetRecordBatchReaderBuilder<Held>) -> anyhow::Result<Vec<R>> {
    let mut rows = Vec::new();
    for batch in builder.build()? {
        rows.extend(R::rows(&batch?)?);
    }
    Ok(rows)
}
