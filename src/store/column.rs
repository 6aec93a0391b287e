//! The Rust types that can be a column.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, StringArray, StringBuilder,
    TimestampMicrosecondArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, TimeUnit};

/// A Rust type that can be a column.
pub trait Column: Sized {
    const NULLABLE: bool = false;
    fn data_type() -> DataType;
    fn build(values: Vec<Self>) -> ArrayRef;
    fn read(array: &ArrayRef) -> Option<Vec<Self>>;
    /// Approximate bytes in memory, to bound row groups.
    fn weight(&self) -> usize {
        std::mem::size_of::<Self>()
    }
}

macro_rules! primitive_column {
    ($($rust:ty, $array:ty, $arrow:ident;)+) => {$(
        impl Column for $rust {
            fn data_type() -> DataType { DataType::$arrow }
            fn build(values: Vec<Self>) -> ArrayRef { Arc::new(<$array>::from(values)) }
            fn read(array: &ArrayRef) -> Option<Vec<Self>> {
                let array = array.as_any().downcast_ref::<$array>()?;
                Some((0..array.len()).map(|i| array.value(i)).collect())
            }
        }
        impl Column for Option<$rust> {
            const NULLABLE: bool = true;
            fn data_type() -> DataType { DataType::$arrow }
            fn build(values: Vec<Self>) -> ArrayRef { Arc::new(<$array>::from(values)) }
            fn read(array: &ArrayRef) -> Option<Vec<Self>> {
                let array = array.as_any().downcast_ref::<$array>()?;
                Some(array.iter().collect())
            }
        }
    )+};
}
primitive_column! {
    bool, BooleanArray, Boolean;
    u32, UInt32Array, UInt32;
    u64, UInt64Array, UInt64;
    i64, Int64Array, Int64;
    f64, Float64Array, Float64;
}

/// A number or none, in the room of the number: for tables with a row a decision, of which there may be a million.
macro_rules! compact_column {
    ($name:ident, $rust:ty, $null:expr, $is_null:expr) => {
        #[derive(Clone, Copy, Debug)]
        pub struct $name($rust);

        impl $name {
            pub fn get(self) -> Option<$rust> {
                let is_null: fn(&$rust) -> bool = $is_null;
                Some(self.0).filter(|value| !is_null(value))
            }
        }
        impl From<Option<$rust>> for $name {
            fn from(value: Option<$rust>) -> Self {
                $name(value.unwrap_or($null))
            }
        }
        impl Default for $name {
            fn default() -> Self {
                None.into()
            }
        }
        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.get() == other.get()
            }
        }
        impl Column for $name {
            const NULLABLE: bool = true;
            fn data_type() -> DataType {
                <$rust>::data_type()
            }
            fn build(values: Vec<Self>) -> ArrayRef {
                Option::<$rust>::build(values.into_iter().map(Self::get).collect())
            }
            fn read(array: &ArrayRef) -> Option<Vec<Self>> {
                Some(Option::<$rust>::read(array)?.into_iter().map(Self::from).collect())
            }
        }
    };
}
compact_column!(CompactU64, u64, u64::MAX, |value| *value == u64::MAX);
compact_column!(CompactF64, f64, f64::NAN, |value| value.is_nan());

/// A point in time: microseconds since 1970 UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub i64);

impl Column for Option<Time> {
    const NULLABLE: bool = true;
    fn data_type() -> DataType {
        DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
    }
    fn build(values: Vec<Self>) -> ArrayRef {
        let values = values.into_iter().map(|v| v.map(|t| t.0));
        Arc::new(TimestampMicrosecondArray::from_iter(values).with_timezone("UTC"))
    }
    fn read(array: &ArrayRef) -> Option<Vec<Self>> {
        let array = array.as_any().downcast_ref::<TimestampMicrosecondArray>()?;
        Some(array.iter().map(|v| v.map(Time)).collect())
    }
}

/// An array of texts, in memory that is asked for once.
fn texts<S: AsRef<str>>(values: &[S]) -> ArrayRef {
    let n_bytes = values.iter().map(|value| value.as_ref().len()).sum();
    let mut builder = StringBuilder::with_capacity(values.len(), n_bytes);
    values.iter().for_each(|value| builder.append_value(value));
    Arc::new(builder.finish())
}

impl Column for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn build(values: Vec<Self>) -> ArrayRef {
        texts(&values)
    }
    fn read(array: &ArrayRef) -> Option<Vec<Self>> {
        let array = array.as_any().downcast_ref::<StringArray>()?;
        Some((0..array.len()).map(|i| array.value(i).to_owned()).collect())
    }
    fn weight(&self) -> usize {
        self.len() + 8
    }
}

/// A text that many rows share.
impl Column for Arc<str> {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn build(values: Vec<Self>) -> ArrayRef {
        texts(&values)
    }
    fn read(array: &ArrayRef) -> Option<Vec<Self>> {
        let array = array.as_any().downcast_ref::<StringArray>()?;
        let mut values: Vec<Self> = Vec::with_capacity(array.len());
        for i in 0..array.len() {
            let value = values.last().filter(|last| ***last == *array.value(i)).cloned();
            values.push(value.unwrap_or_else(|| array.value(i).into()));
        }
        Some(values)
    }
    fn weight(&self) -> usize {
        self.len() + 8
    }
}

/// A text that is mostly one of the program's own.
impl Column for Cow<'static, str> {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn build(values: Vec<Self>) -> ArrayRef {
        texts(&values)
    }
    fn read(array: &ArrayRef) -> Option<Vec<Self>> {
        Some(String::read(array)?.into_iter().map(Cow::Owned).collect())
    }
    fn weight(&self) -> usize {
        self.len() + 8
    }
}

impl Column for Option<String> {
    const NULLABLE: bool = true;
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn build(values: Vec<Self>) -> ArrayRef {
        let n_bytes = values.iter().flatten().map(String::len).sum();
        let mut builder = StringBuilder::with_capacity(values.len(), n_bytes);
        values.iter().for_each(|v| builder.append_option(v.as_deref()));
        Arc::new(builder.finish())
    }
    fn read(array: &ArrayRef) -> Option<Vec<Self>> {
        let array = array.as_any().downcast_ref::<StringArray>()?;
        Some(array.iter().map(|v| v.map(str::to_owned)).collect())
    }
    fn weight(&self) -> usize {
        self.as_ref().map_or(1, |s| s.len() + 8)
    }
}

macro_rules! list_column {
    ($($rust:ty, $array:ty, $arrow:ident;)+) => {$(
        impl Column for Vec<$rust> {
            fn data_type() -> DataType {
                DataType::List(Arc::new(Field::new("item", DataType::$arrow, false)))
            }
            fn build(values: Vec<Self>) -> ArrayRef {
                let offsets = OffsetBuffer::from_lengths(values.iter().map(Vec::len));
                let flat: Vec<$rust> = values.into_iter().flatten().collect();
                let field = Arc::new(Field::new("item", DataType::$arrow, false));
                Arc::new(ListArray::new(field, offsets, Arc::new(<$array>::from(flat)), None))
            }
            fn read(array: &ArrayRef) -> Option<Vec<Self>> {
                let array = array.as_any().downcast_ref::<ListArray>()?;
                (0..array.len()).map(|i| <$rust as Column>::read(&array.value(i))).collect()
            }
            fn weight(&self) -> usize {
                8 + self.iter().map(|v| v.weight()).sum::<usize>()
            }
        }
    )+};
}
impl Column for u8 {
    fn data_type() -> DataType {
        DataType::UInt8
    }
    fn build(values: Vec<Self>) -> ArrayRef {
        Arc::new(UInt8Array::from(values))
    }
    fn read(array: &ArrayRef) -> Option<Vec<Self>> {
        let array = array.as_any().downcast_ref::<UInt8Array>()?;
        Some(array.values().to_vec())
    }
}
list_column! {
    u8, UInt8Array, UInt8;
    u32, UInt32Array, UInt32;
    String, StringArray, Utf8;
}
