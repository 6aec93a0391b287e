//! Tables as frames of polars.

use std::path::Path;
use std::sync::Arc;

use arrow::array::{Array as _, ArrayRef, AsArray as _, RecordBatch};
use arrow::datatypes as types;
use arrow::datatypes::{DataType as ArrowType, Field, Schema};
use polars::prelude::{
    BooleanChunked, Column, DataFrame, Float64Chunked, IntoColumn as _, NewChunkedArray as _, PlSmallStr,
    StringChunked, UInt32Chunked, UInt64Chunked,
};

use crate::store::{self, Row};

use super::file;

/// Rows of scores of a batch; two are in memory, one that is used and one that is read.
pub(super) const BATCH_ROWS: usize = 500_000;

/// These columns of a table, whole.
pub(super) fn frame<R: Row>(folder: &Path, columns: &[&str]) -> anyhow::Result<DataFrame> {
    let mut all = DataFrame::empty();
    frames::<R>(folder, columns, |rows| {
        all.vstack_mut(&rows)?;
        Ok(())
    })?;
    anyhow::ensure!(all.width() > 0, "{} lacks columns", file::<R>(folder).display());
    Ok(all)
}

/// Calls `each` with these columns of a table, many rows at a time; once at least.
fn frames<R: Row>(
    folder: &Path,
    columns: &[&str],
    mut each: impl FnMut(DataFrame) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let path = file::<R>(folder);
    let fields: Vec<_> = R::fields().into_iter().filter(|f| columns.contains(&f.name().as_str())).collect();
    each(to_polars(&RecordBatch::new_empty(Arc::new(Schema::new(fields))))?)?;
    store::columns::<R>(&path, columns, |batch| each(to_polars(&batch)?))
}

/// Rows as polars has them, column by column.
fn to_polars(batch: &RecordBatch) -> anyhow::Result<DataFrame> {
    let column = |(field, array): (&Arc<Field>, &ArrayRef)| -> anyhow::Result<Column> {
        let name = PlSmallStr::from_str(field.name());
        Ok(match array.data_type() {
            ArrowType::Utf8 => {
                StringChunked::from_iter_options(name, array.as_string::<i32>().iter()).into_column()
            }
            ArrowType::UInt32 => {
                UInt32Chunked::from_iter_options(name, array.as_primitive::<types::UInt32Type>().iter())
                    .into_column()
            }
            ArrowType::UInt64 => {
                UInt64Chunked::from_iter_options(name, array.as_primitive::<types::UInt64Type>().iter())
                    .into_column()
            }
            ArrowType::Float64 => {
                Float64Chunked::from_iter_options(name, array.as_primitive::<types::Float64Type>().iter())
                    .into_column()
            }
            ArrowType::Boolean => {
                BooleanChunked::from_iter_options(name, array.as_boolean().iter()).into_column()
            }
            other => anyhow::bail!("column {} has the type {other}, which no report reads", field.name()),
        })
    };
    let columns: Vec<Column> =
        batch.schema().fields().iter().zip(batch.columns()).map(column).collect::<anyhow::Result<_>>()?;
    Ok(DataFrame::new(batch.num_rows(), columns)?)
}
