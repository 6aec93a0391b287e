//! How tables are written.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use super::read::TableReader;
use super::row::{Row, batch, schema};

/// Bytes after which a page is closed, and rows after which that is looked at.
const PAGE_BYTES: usize = 128 << 10;
const PAGE_ROWS: usize = 64;

/// From so many bytes on, rows become a batch of arrays and pages of the row group: they stand in memory twice then.
const BATCH_BYTES: usize = 4 << 20;
/// The rows of a batch have at most so many bytes, unless one row alone has more: its texts have offsets of 31 bits.
const MOST_BYTES: usize = 256 << 20;

/// Writes one table; a row group is closed between trajectories, when it is large enough.
pub struct TableWriter<R: Row> {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    row_groups: ArrowRowGroupWriterFactory,
    n_row_groups: usize,
    /// The columns of the row group so far.
    columns: Vec<ArrowColumnWriter>,
    pending: Vec<R>,
    pending_bytes: usize,
    /// Bytes of the row group so far, pending ones included.
    open_bytes: usize,
    row_group_bytes: usize,
    n_rows: u64,
}

impl<R: Row> TableWriter<R> {
    /// Creates the file. `row_group_bytes` bounds the memory of a row group (approximate; one
    /// trajectory may exceed it).
    pub fn create(path: &Path, row_group_bytes: usize) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        let level = ZstdLevel::try_new(1).expect("1 is a zstd level");
        let mut properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(level))
            .set_max_row_group_row_count(Some(usize::MAX))
            // Single trajectories are read by their rows: small pages, so that little else is decoded.
            .set_data_page_size_limit(PAGE_BYTES)
            .set_write_batch_size(PAGE_ROWS)
            .set_created_by("trajpress".to_owned());
        // Long texts hardly repeat: a dictionary would be built, found too large and given up, and
        // nobody looks for the smallest text.
        for column in ["text", "arguments", "goal", "annotations"] {
            let column = ColumnPath::from(column);
            properties = properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_statistics_enabled(column, EnabledStatistics::None);
        }
        let properties = properties.build();
        let (writer, row_groups) = ArrowWriter::try_new(file, schema::<R>(), Some(properties))
            .and_then(ArrowWriter::into_serialized_writer)
            .map_err(plain)
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(TableWriter {
            path: path.to_owned(),
            writer,
            row_groups,
            n_row_groups: 0,
            columns: Vec::new(),
            pending: Vec::new(),
            pending_bytes: 0,
            open_bytes: 0,
            row_group_bytes,
            n_rows: 0,
        })
    }

    /// Appends all rows of one trajectory (or of several).
    pub fn push(&mut self, rows: impl IntoIterator<Item = R>) -> anyhow::Result<()> {
        rows.into_iter().try_for_each(|row| self.add(row))?;
        self.may_end()
    }

    /// Appends one row of a trajectory, whose last one is followed by [`Self::may_end`].
    pub fn add(&mut self, row: R) -> anyhow::Result<()> {
        let bytes = row.weight();
        anyhow::ensure!(
            bytes < i32::MAX as usize,
            "{}: a row of {bytes} bytes, and no column holds more than 2 GiB of one row",
            self.cannot()
        );
        if self.pending_bytes + bytes > MOST_BYTES {
            self.write_pending()?;
        }
        self.pending_bytes += bytes;
        self.open_bytes += bytes;
        self.n_rows += 1;
        self.pending.push(row);
        // Whole write batches: pages end where they would if all rows came at once.
        if self.pending_bytes >= BATCH_BYTES && self.pending.len() % PAGE_ROWS == 0 {
            self.write_pending()?;
        }
        Ok(())
    }

    /// Here the row group may end: behind a trajectory, or behind any row of a table that is read whole.
    pub fn may_end(&mut self) -> anyhow::Result<()> {
        if self.open_bytes >= self.row_group_bytes {
            self.end_row_group()?;
        }
        Ok(())
    }

    fn write_pending(&mut self) -> anyhow::Result<()> {
        self.pending_bytes = 0;
        let rows = std::mem::take(&mut self.pending);
        if rows.is_empty() {
            return Ok(());
        }
        if self.columns.is_empty() {
            let columns = self.row_groups.create_column_writers(self.n_row_groups);
            self.columns = columns.map_err(plain).with_context(|| self.cannot())?;
        }
        let (mut writers, batch) = (self.columns.iter_mut(), batch(rows)?);
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, array)? {
                let writer = writers.next().context("a column has a writer")?;
                writer
                    .write(&leaf)
                    .map_err(plain)
                    .with_context(|| format!("cannot write {}", self.path.display()))?;
            }
        }
        Ok(())
    }

    /// Closes the row group.
    pub fn end_row_group(&mut self) -> anyhow::Result<()> {
        self.write_pending()?;
        self.open_bytes = 0;
        let columns = std::mem::take(&mut self.columns);
        if columns.is_empty() {
            return Ok(());
        }
        self.n_row_groups += 1;
        let write = || -> parquet::errors::Result<()> {
            let mut group = self.writer.next_row_group()?;
            for column in columns {
                column.close()?.append_to_row_group(&mut group)?;
            }
            group.close().map(drop)
        };
        write().map_err(plain).with_context(|| format!("cannot write {}", self.path.display()))
    }

    /// Takes over a row group of another table of this kind as it is stored; nothing is decoded.
    pub fn copy(&mut self, from: &TableReader<R>, row_group: usize) -> anyhow::Result<()> {
        self.end_row_group()?;
        let (file, metadata) = (&from.file, from.metadata.metadata());
        let stored = metadata.row_group(row_group);
        let pages = metadata.page_index_for_row_group(row_group);
        let mut write = || -> parquet::errors::Result<()> {
            let mut group = self.writer.next_row_group()?;
            for (at, column) in stored.columns().iter().enumerate() {
                let close = ColumnCloseResult {
                    bytes_written: column.compressed_size().unsigned_abs(),
                    rows_written: stored.num_rows().unsigned_abs(),
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: pages.column_index(at).cloned(),
                    offset_index: pages.offset_index(at).cloned(),
                };
                group.append_column(file, close)?;
            }
            group.close().map(drop)
        };
        write().map_err(plain).with_context(|| format!("cannot write {}", self.path.display()))?;
        self.n_row_groups += 1;
        self.n_rows += stored.num_rows().unsigned_abs();
        Ok(())
    }

    /// Writes what is left and the footer, and says how many rows the table has.
    pub fn finish(mut self) -> anyhow::Result<u64> {
        self.end_row_group()?;
        self.writer.finish().map_err(plain).with_context(|| self.cannot())?;
        self.writer.inner_mut().sync_all().with_context(|| self.cannot())?;
        Ok(self.n_rows)
    }

    fn cannot(&self) -> String {
        format!("cannot write {}", self.path.display())
    }
}

/// What the system says, without the library's words around it, which hold it twice.
fn plain(error: ParquetError) -> anyhow::Error {
    match error {
        ParquetError::External(cause) => match cause.downcast::<io::Error>() {
            Ok(cause) => (*cause).into(),
            Err(cause) => ParquetError::External(cause).into(),
        },
        error => error.into(),
    }
}
