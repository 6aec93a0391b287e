//! Rows: a struct declared with [`table!`] is the schema of its table, names and documentation included.

use std::collections::HashMap;
use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::{ArrayRef, RecordBatch, new_null_array};
use arrow::datatypes::{Field, Schema};

use super::SCHEMA_VERSION;
use super::column::Column;

/// A row of a table, declared with [`table!`].
pub trait Row: Sized {
    /// Name of the table, and of its file without `.parquet`.
    const TABLE: &'static str;
    /// Fields in order, each with its documentation as metadata `doc`.
    fn fields() -> Vec<Field>;
    fn columns(rows: Vec<Self>) -> Vec<ArrayRef>;
    fn rows(batch: &RecordBatch) -> anyhow::Result<Vec<Self>>;
    fn weight(&self) -> usize;
}

macro_rules! table {
    (
        $(#[doc = $table_doc:literal])+
        pub struct $name:ident in $table:literal {
            $( $(#[doc = $doc:literal])+ pub $field:ident: $type:ty, )+
        }
    ) => {
        $(#[doc = $table_doc])+
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name {
            $( $(#[doc = $doc])+ pub $field: $type, )+
        }
        impl $crate::store::row::Row for $name {
            const TABLE: &'static str = $table;
            fn fields() -> Vec<arrow::datatypes::Field> {
                vec![$({
                    let doc: &str = concat!($($doc),+);
                    arrow::datatypes::Field::new(stringify!($field), <$type as $crate::store::column::Column>::data_type(), <$type as $crate::store::column::Column>::NULLABLE)
                        .with_metadata(std::collections::HashMap::from([("doc".to_owned(), doc.trim().to_owned())]))
                }),+]
            }
            fn columns(rows: Vec<Self>) -> Vec<arrow::array::ArrayRef> {
                $( let mut $field = Vec::with_capacity(rows.len()); )+
                for row in rows { $( $field.push(row.$field); )+ }
                vec![$( <$type as $crate::store::column::Column>::build($field) ),+]
            }
            fn rows(batch: &arrow::array::RecordBatch) -> anyhow::Result<Vec<Self>> {
                $( let mut $field = $crate::store::row::column::<$type>(batch, $table, stringify!($field))?.into_iter(); )+
                Ok((0..batch.num_rows())
                    .map(|_| $name { $( $field: $field.next().expect("columns of a batch have equal length"), )+ })
                    .collect())
            }
            fn weight(&self) -> usize {
                0 $( + $crate::store::column::Column::weight(&self.$field) )+
            }
        }
    };
}

pub(crate) fn column<T: Column>(batch: &RecordBatch, table: &str, name: &str) -> anyhow::Result<Vec<T>> {
    let array = match batch.column_by_name(name) {
        Some(array) => array.clone(),
        // A column that came within a version of the schema says nothing of the rows before it.
        None if T::NULLABLE => new_null_array(&T::data_type(), batch.num_rows()),
        None => anyhow::bail!(
            "table `{table}` has no column `{name}`\nhint: it was written by another version; make it again"
        ),
    };
    T::read(&array).with_context(|| {
        format!("column `{name}` of table `{table}` is {}, expected {}", array.data_type(), T::data_type())
    })
}
pub(crate) use table;

pub(super) fn schema<R: Row>() -> Arc<Schema> {
    let metadata = HashMap::from([
        ("table".to_owned(), R::TABLE.to_owned()),
        ("schema_version".to_owned(), SCHEMA_VERSION.to_owned()),
    ]);
    Arc::new(Schema::new_with_metadata(R::fields(), metadata))
}

/// Turns rows into one record batch.
pub fn batch<R: Row>(rows: Vec<R>) -> anyhow::Result<RecordBatch> {
    Ok(RecordBatch::try_new(schema::<R>(), R::columns(rows))?)
}
