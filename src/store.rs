//! The tables: their columns, their documentation, and how they are written and read.
//!
//! The only file that knows column names. Each table is a row struct declared with [`table!`]; the
//! doc comment of a field is the documentation of its column, kept in the Parquet schema as
//! metadata `doc`. Every file carries `table` and `schema_version`. A trajectory never straddles a
//! row group: [`TableWriter::push`] takes all rows of a trajectory at once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fs::File;
use std::marker::PhantomData;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context as _;
use arrow::array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, ListArray, RecordBatch, StringArray,
    StringBuilder, TimestampMicrosecondArray, UInt8Array, UInt32Array, UInt64Array,
};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, Schema, TimeUnit};
use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReaderBuilder, RowSelection,
};
use parquet::arrow::arrow_writer::{ArrowRowGroupWriterFactory, compute_leaves};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{PageIndexPolicy, ParquetMetaData};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::ColumnPath;

use crate::trajectory::{Kind, LoggedEdit, Role, Step, Trajectory, Usage};

/// Raised whenever the meaning or the set of columns changes.
pub const SCHEMA_VERSION: &str = "2";

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

impl Column for String {
    fn data_type() -> DataType {
        DataType::Utf8
    }
    fn build(values: Vec<Self>) -> ArrayRef {
        Arc::new(StringArray::from(values))
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
        Arc::new(StringArray::from_iter_values(values))
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
        Arc::new(StringArray::from_iter_values(values))
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
        impl Row for $name {
            const TABLE: &'static str = $table;
            fn fields() -> Vec<Field> {
                vec![$({
                    let doc: &str = concat!($($doc),+);
                    Field::new(stringify!($field), <$type as Column>::data_type(), <$type as Column>::NULLABLE)
                        .with_metadata(HashMap::from([("doc".to_owned(), doc.trim().to_owned())]))
                }),+]
            }
            fn columns(rows: Vec<Self>) -> Vec<ArrayRef> {
                $( let mut $field = Vec::with_capacity(rows.len()); )+
                for row in rows { $( $field.push(row.$field); )+ }
                vec![$( <$type as Column>::build($field) ),+]
            }
            fn rows(batch: &RecordBatch) -> anyhow::Result<Vec<Self>> {
                $( let mut $field = column::<$type>(batch, $table, stringify!($field))?.into_iter(); )+
                Ok((0..batch.num_rows())
                    .map(|_| $name { $( $field: $field.next().expect("columns of a batch have equal length"), )+ })
                    .collect())
            }
            fn weight(&self) -> usize {
                0 $( + self.$field.weight() )+
            }
        }
    };
}

fn column<T: Column>(batch: &RecordBatch, table: &str, name: &str) -> anyhow::Result<Vec<T>> {
    let array = batch.column_by_name(name).with_context(|| {
        format!(
            "table `{table}` has no column `{name}`\nhint: it was written by another version; make it again"
        )
    })?;
    T::read(array).with_context(|| {
        format!("column `{name}` of table `{table}` is {}, expected {}", array.data_type(), T::data_type())
    })
}

table! {
    /// One logged run.
    pub struct TrajectoryRow in "trajectories" {
        /// Content hash of the steps, 32 hex digits.
        pub trajectory: String,
        /// Path of the file it was read from, relative to the ingested folder.
        pub source: String,
        /// Name of the reader.
        pub format: String,
        /// Task id as logged or taken from the file name; null is unknown.
        pub task_id: Option<String>,
        /// Repository, domain or scenario: the cluster of the statistics; null is unknown.
        pub repository: Option<String>,
        /// Agent as logged; null is unknown.
        pub agent: Option<String>,
        /// Model as logged; null is unknown.
        pub model: Option<String>,
        /// The task: an annotation, or the first user message.
        pub goal: Option<String>,
        /// Constraints by annotation; empty is none known.
        pub constraints: Vec<String>,
        /// Exit status as logged; null is unknown.
        pub outcome: Option<String>,
        /// Reward as logged; null is unknown, never 0.
        pub reward: Option<f64>,
        /// Whether the task was solved, by the log or a label file; null is unknown.
        pub resolved: Option<bool>,
        /// Where reward and resolved come from: `log` or the path of a label file.
        pub label_source: Option<String>,
        /// Number of steps.
        pub n_steps: u32,
        /// Number of turns after the head.
        pub n_turns: u32,
        /// Number of segments; more than 1 where the log itself contains compactions.
        pub n_segments: u32,
        /// Bytes of text over all steps.
        pub n_bytes: u64,
        /// The `annotations` object of the annotated form, JSON; null where there is none.
        pub annotations: Option<String>,
        /// Session or task that started this run, as the log names it; null for a run of its own.
        pub parent: Option<String>,
        /// Tokens of all prompts together, as the log counts them; null is unknown.
        pub logged_tokens_sent: Option<u64>,
        /// The policy behind the edits that the log records (`edit_from` of steps); null where it records none.
        pub logged_policy: Option<String>,
        /// The same for the same run however it has grown: format, and the log's own session id, else the file's digest and
        /// the run's number in it.
        pub source_key: String,
    }
}

table! {
    /// One entry of a log: what the log says.
    pub struct StepRow in "steps" {
        /// Trajectory id.
        pub trajectory: String,
        /// Position in the trajectory, from 0.
        pub step: u32,
        /// Turn: one model call with its results; 0 is the head before the first call.
        pub turn: u32,
        /// Segment: raised by each compaction that the log contains.
        pub segment: u32,
        /// Index of the logged message that it came from.
        pub message: u32,
        /// system, user, agent, tool.
        pub role: String,
        /// system, tools, demonstration, message, thought, action, observation, compaction.
        pub kind: String,
        /// What the model saw or wrote.
        pub text: String,
        /// Tool name, where known.
        pub tool: Option<String>,
        /// Ties an observation to its action.
        pub call_id: Option<String>,
        /// Arguments of an action as logged.
        pub arguments: Option<String>,
        /// When it was logged, UTC, where known; not monotone.
        pub time: Option<Time>,
        /// Whether the tool said that it failed, where logged.
        pub is_error: Option<bool>,
        /// On the first step of a reply: tokens of its whole prompt by the provider's count, cache included; null is unknown.
        pub usage_in: Option<u64>,
        /// Likewise: tokens that the model wrote.
        pub usage_out: Option<u64>,
        /// Likewise: tokens of the prompt that the cache served.
        pub usage_cache_read: Option<u64>,
        /// Likewise: tokens of the prompt that were written to the cache.
        pub usage_cache_write: Option<u64>,
        /// Turn from whose decision on the agent was sent `edit_text` instead; null where the log records no edit.
        pub edit_from: Option<u32>,
        /// What was sent instead; empty if the step was left out.
        pub edit_text: Option<String>,
        /// Last segment in whose prompts it stands, where a compaction that the log records kept it; null: its own alone.
        pub kept_to: Option<u32>,
    }
}

table! {
    /// What is needed to choose a trajectory without reading the rest of its row.
    pub struct TrajectoryKey in "trajectories" {
        /// Content hash of the steps, 32 hex digits.
        pub trajectory: String,
        /// Path of the file it was read from, relative to the ingested folder.
        pub source: String,
        /// Name of the reader.
        pub format: String,
        /// Number of turns after the head.
        pub n_turns: u32,
    }
}

table! {
    /// Whose row it is.
    pub struct FeatureKey in "features" {
        /// Trajectory id.
        pub trajectory: String,
    }
}

table! {
    /// Whose row it is.
    pub struct StepKey in "steps" {
        /// Trajectory id.
        pub trajectory: String,
        /// Turn from whose decision on the agent was sent something else; null where the log records no edit.
        pub edit_from: Option<u32>,
    }
}

table! {
    /// Whether a cell is scored.
    pub struct CellStatus in "cells" {
        /// ok or error.
        pub status: String,
    }
}

table! {
    /// What depends on a step alone, computed once per dataset. A span is a line, or a piece of at
    /// most 200 characters of a longer line.
    pub struct FeatureRow in "features" {
        /// Trajectory id.
        pub trajectory: String,
        /// Position in the trajectory, from 0.
        pub step: u32,
        /// Tokens of the text under the dataset's tokenizer: the sum of `span_tokens`.
        pub tokens: u32,
        /// Actions: read_file, edit_file, run_test, run_command, search, api_call, submit, other; else null.
        pub action_kind: Option<String>,
        /// Actions: the file that is read or edited, normalised; else null.
        pub path: Option<String>,
        /// End of each span in the text, in bytes; the first starts at 0, each next where the last ended.
        pub span_end: Vec<u32>,
        /// Tokens of each span.
        pub span_tokens: Vec<u32>,
        /// Normalised atoms in order of occurrence.
        pub atom: Vec<String>,
        /// Kind of each atom: its index in the list of atom kinds.
        pub atom_kind: Vec<u8>,
        /// Span of each atom.
        pub atom_span: Vec<u32>,
        /// Flags of each atom: 1 bound (at least 2 cues within 15 words in its span), 2 in the body of an edit or write, 4 derived from the call itself.
        pub atom_flags: Vec<u8>,
    }
}

table! {
    /// Partner trajectories for chance correction.
    pub struct PartnerRow in "partners" {
        /// Trajectory id.
        pub trajectory: String,
        /// other_repository, same_repository.
        pub kind: String,
        /// Order of choice, from 0.
        pub rank: u32,
        /// Trajectory id of the partner.
        pub partner: String,
    }
}

table! {
    /// What the provider counted beside what the log shows: a row a stretch of calls of each trajectory with logged usage.
    /// A prompt of n of our tokens has unseen + factor x n of the provider's.
    pub struct UsageRow in "usage" {
        /// Trajectory id.
        pub trajectory: String,
        /// Number of the stretch in its trajectory, from 0.
        pub stretch: u32,
        /// First turn that it speaks of.
        pub first_turn: u32,
        /// Turn after the last that it speaks of.
        pub end_turn: u32,
        /// Calls with logged usage.
        pub n_calls: u32,
        /// Tokens by the provider's count that the log does not show (a).
        pub unseen: u64,
        /// Tokens by the provider's count of one of ours (b), 0.8 to 2; the same for all of a trajectory.
        pub factor: f64,
        /// Where the factor comes from: session; model: the median of its sessions in this folder; none: 1, nothing is known of the model.
        pub factor_of: String,
        /// Whether it begins where usage fell by more than 5 % and no record of the log says why: an unlogged edit.
        pub unlogged_edit: bool,
        /// Whether no unlogged edit stands before it in its segment; else it is not known what was sent.
        pub sent_is_known: bool,
        /// Median of |usage - unseen - factor x ours| / usage over the calls of the trajectory.
        pub residual_median: f64,
        /// The same for its 90th percentile.
        pub residual_p90: f64,
    }
}

table! {
    /// One point of the grid.
    pub struct VariantRow in "variants" {
        /// Hash of all the rest, 16 hex digits.
        pub variant: String,
        /// Short readable name, unique within the run.
        pub label: String,
        /// Strategy name.
        pub strategy: String,
        /// Strategy parameters, JSON with sorted keys.
        pub strategy_params: String,
        /// Trigger name.
        pub trigger: String,
        /// Trigger parameters, JSON with sorted keys.
        pub trigger_params: String,
        /// Model name; null for model-free.
        pub model: Option<String>,
        /// Whether it is there to be compared with, and nobody would run it: it stands on no frontier.
        pub control: bool,
        /// Seed of sampled choices.
        pub seed: u64,
    }
}

table! {
    /// One piece of a run: some trajectories under the variants that share a model.
    pub struct UnitRow in "_units" {
        /// Hash of all that decides its rows, 32 hex digits.
        pub unit: String,
        /// Model of the variants, or `model-free`.
        pub variant_group: String,
        /// Row group of the steps that holds the trajectories.
        pub row_group: u32,
        /// Trajectory ids.
        pub trajectories: Vec<String>,
        /// Number of variants.
        pub n_variants: u32,
        /// Number of steps over all its trajectories.
        pub n_steps: u64,
        /// Estimated cost: steps x variants.
        pub step_variants: u64,
    }
}

table! {
    /// One trajectory under one variant.
    pub struct CellRow in "cells" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// ok or error.
        pub status: String,
        /// Error text; null when ok.
        pub error: Option<String>,
        /// Decisions replayed.
        pub n_decisions: u32,
        /// Compressions.
        pub n_events: u32,
        /// Violations of the invariants over all events.
        pub n_violations: u32,
        /// Prompt tokens over all decisions, nothing compressed.
        pub tokens_full: u64,
        /// Prompt tokens over all decisions, as sent.
        pub tokens_sent: u64,
        /// Calls of the trigger's model; 0 where it asks none.
        pub trigger_calls: u32,
        /// Tokens that the trigger's model read.
        pub trigger_tokens_in: u64,
        /// Tokens that the trigger's model wrote.
        pub trigger_tokens_out: u64,
    }
}

table! {
    /// One compression inside a cell.
    pub struct EventRow in "events" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Number of the event in its cell, from 0.
        pub event: u32,
        /// Turn whose decision came next.
        pub turn: u32,
        /// What fired, in the trigger's own words.
        pub trigger_kind: Cow<'static, str>,
        /// Confidence of the trigger, 0 to 1.
        pub confidence: f64,
        /// What the trigger says of its decision, JSON; null when nothing.
        pub details: Option<String>,
        /// First turn of the scope; where the trigger named single steps, that of the first block.
        pub scope_start: u32,
        /// Turn after the last of the scope, or of its last block.
        pub scope_end: u32,
        /// Tokens of the whole context before.
        pub tokens_before: u64,
        /// Tokens of the whole context after.
        pub tokens_after: u64,
        /// Tokens of the blocks in scope that the strategy may remove, before.
        pub removable_tokens: u64,
        /// Tokens that stand for them after: copied or generated.
        pub kept_tokens: u64,
        /// Of these, generated (not copied from a step).
        pub generated_tokens: u64,
        /// Calls of the compressor's model; 0 for model-free. Embeddings are counted apart.
        pub model_calls: u32,
        /// Texts embedded.
        pub embeddings: u32,
        /// Tokens read by the compressor's model.
        pub model_tokens_in: u64,
        /// Tokens written by the compressor's model.
        pub model_tokens_out: u64,
        /// Tokens of its prompts that were cut to fit the model's window.
        pub model_tokens_cut: u64,
        /// Name of the fallback strategy used; null when none.
        pub fallback: Option<String>,
        /// Degenerate-output flags.
        pub degenerate: Vec<String>,
        /// What looks wrong with the event without being so; null when nothing does.
        pub warning: Option<String>,
        /// Invariants violated, with the strategy's name.
        pub violations: Vec<String>,
        /// Decisions until the cached cost is at most that of not compressing here; null when censored.
        pub break_even_turns: Option<u32>,
        /// Decisions left in the segment: the time of censoring.
        pub decisions_left: u32,
    }
}

table! {
    /// One passage that a strategy picked out of a scope.
    pub struct ItemRow in "items" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Number of the event in its cell, from 0.
        pub event: u32,
        /// Number of the item in its event, from 0.
        pub item: u32,
        /// Its text, as it goes on.
        pub text: Arc<str>,
        /// What it is taken for: goal, constraint, decision, fact, tool_output; of the others who wrote it: user, agent, tool.
        pub kind: Cow<'static, str>,
        /// Step that it was found in; null when it stands nowhere.
        pub step: Option<u32>,
        /// Where it begins in the step's text, in bytes; null when it stands nowhere.
        pub start: Option<u32>,
        /// Where it ends in the step's text, in bytes; null when it stands nowhere.
        pub end: Option<u32>,
        /// The score that it was picked by; null when there is none.
        pub score: Option<f64>,
        /// What became of it: kept, repaired, duplicate, not_found, capped; dropped: it was picked to go, in this order; warm, cold,
        /// evicted: the tier of memory that it went to (the text is cut at 200 characters, the bytes are not).
        pub fate: Cow<'static, str>,
        /// The item of the event that it repeats; null unless it is a duplicate of one of them.
        pub of: Option<u32>,
    }
}

table! {
    /// What stood in the prompts in place of the log, and what a store held: where the experiment says `contexts = true`.
    pub struct ContextRow in "contexts" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// left: an event left it in place of its scope, until a later event has it in its own; recalled: it stands at the end of
        /// one prompt; held: a store beside the prompt has it when the segment ends.
        pub place: Cow<'static, str>,
        /// left: number of the event; held: number of the segment's last event; null: recalled.
        pub event: Option<u32>,
        /// The first decision whose prompt has it; held: the last decision of the segment.
        pub decision: u32,
        /// Number of the row among those of its event, decision or store, from 0: their order.
        pub block: u32,
        /// Turn that it stands for (the last one, if several); recalled: the turn of the decision.
        pub turn: u32,
        /// step: copied whole; excerpt: copied pieces of a step; placeholder: a text in the place of a step; generated: a text in the
        /// place of a scope; of stores: warm, cold, note.
        pub form: Cow<'static, str>,
        /// Step that it was copied from or stands for, in stores the first one; null: generated.
        pub step: Option<u32>,
        /// Tokens of the text.
        pub tokens: u32,
        /// The text; null for a step that was copied whole: it stands in `steps`.
        pub text: Option<String>,
        /// held: what else is known of it, JSON (of segments the fields of the seed; `importance_score` is as of `importance_timestamp`, and
        /// accesses after that are counted); recalled: which segment or note it is of, and its score; left: null.
        pub details: Option<String>,
    }
}

table! {
    /// One decision of a cell.
    pub struct TimelineRow in "timeline" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Number of the decision, from 0.
        pub decision: u32,
        /// Turn of the decision.
        pub turn: u32,
        /// Events so far.
        pub n_events: u32,
        /// Tokens of the prompt, nothing compressed.
        pub tokens_full: u64,
        /// Tokens of the prompt as sent.
        pub tokens_sent: u64,
        /// Longest prefix shared with the previous prompt, nothing compressed.
        pub cached_full: u64,
        /// Longest prefix shared with the previous prompt as sent.
        pub cached_sent: u64,
        /// Tokens that the agent wrote at this decision.
        pub output_tokens: u64,
        /// Tokens of the prompt as sent that were recalled for it alone.
        pub recalled_tokens: u64,
        /// Calls of the model to recall them; 0 where the strategy recalls nothing. Embeddings are counted apart.
        pub recall_calls: u32,
        /// Texts embedded to recall them.
        pub recall_embeddings: u32,
        /// Tokens that the model read to recall them.
        pub recall_tokens_in: u64,
        /// Tokens that the model wrote to recall them.
        pub recall_tokens_out: u64,
        /// Tokens of the prompt by the provider's count that the log does not show; null where no usage is known.
        pub unseen_tokens: Option<u64>,
        /// Tokens by the provider's count of one of ours; null where no usage is known.
        pub token_factor: Option<f64>,
        /// Whether the prompt before was sent so long ago that its cache is gone.
        pub cache_expired: bool,
        /// Tokens of the whole prompt that was really sent, by the provider's count as logged; null where not logged.
        pub usage_in: Option<u64>,
        /// Tokens that the model really wrote, as logged; null where not logged.
        pub usage_out: Option<u64>,
        /// Tokens of the prompt that the cache really served, as logged; null where not logged.
        pub usage_cache_read: Option<u64>,
        /// Tokens of the prompt that were really written to the cache, as logged; null where not logged.
        pub usage_cache_write: Option<u64>,
    }
}

table! {
    /// Scores in tidy form.
    pub struct ScoreRow in "scores" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// Number of the event; null for the whole cell.
        pub event: Option<u32>,
        /// Name of the score.
        pub metric: Cow<'static, str>,
        /// Stratum: `set=.. tail=.. class=.. kind=.. horizon=..`, empty for all.
        pub stratum: Arc<str>,
        /// The score, raw; null is undefined, never 0.
        pub value: Option<f64>,
        /// The same for the matched random shadow, or the do-nothing floor.
        pub floor: Option<f64>,
        /// The same for the matched oracle shadow, or the ceiling.
        pub ceiling: Option<f64>,
        /// The same for the matched atom-bag shadow.
        pub atom_bag: Option<f64>,
        /// Chance: the same in the contexts of partner trajectories (of other repositories, unless the stratum says `partners=`).
        pub chance: Option<f64>,
        /// Weight of the row when values are pooled: the denominator of the ratio.
        pub weight: f64,
        /// Number of items behind the value.
        pub n: u64,
    }
}

impl From<&Trajectory> for TrajectoryRow {
    fn from(t: &Trajectory) -> Self {
        TrajectoryRow {
            trajectory: t.id.clone(),
            source: t.source.clone(),
            format: t.format.clone(),
            task_id: t.task_id.clone(),
            repository: t.repository.clone(),
            agent: t.agent.clone(),
            model: t.model.clone(),
            goal: t.goal.clone(),
            constraints: t.constraints.clone(),
            outcome: t.outcome.clone(),
            reward: t.reward,
            resolved: t.resolved,
            label_source: t.label_source.clone(),
            n_steps: t.steps.len() as u32,
            n_turns: t.n_turns(),
            n_segments: t.steps.last().map_or(1, |s| s.segment + 1),
            n_bytes: t.steps.iter().map(|s| s.text.len() as u64).sum(),
            annotations: t.annotations.clone(),
            parent: t.parent.clone(),
            logged_tokens_sent: t.tokens_sent,
            logged_policy: t.policy.clone(),
            source_key: t.session.as_ref().map(|name| format!("{} {name}", t.format)).unwrap_or_default(),
        }
    }
}

/// The steps of a trajectory as rows; takes the texts with it.
pub fn step_rows(id: &str, steps: Vec<Step>) -> Vec<StepRow> {
    steps
        .into_iter()
        .enumerate()
        .map(|(i, s)| StepRow {
            trajectory: id.to_owned(),
            step: i as u32,
            turn: s.turn,
            segment: s.segment,
            message: s.message,
            role: s.role.name().to_owned(),
            kind: s.kind.name().to_owned(),
            text: s.text,
            tool: s.tool,
            call_id: s.call_id,
            arguments: s.arguments,
            time: s.time.map(Time),
            is_error: s.is_error,
            usage_in: s.usage.map(|u| u.input),
            usage_out: s.usage.and_then(|u| u.output),
            usage_cache_read: s.usage.and_then(|u| u.cache_read),
            usage_cache_write: s.usage.and_then(|u| u.cache_write),
            edit_from: s.edit.as_ref().map(|e| e.from),
            edit_text: s.edit.map(|e| e.text),
            kept_to: s.kept_to,
        })
        .collect()
}

impl TryFrom<StepRow> for Step {
    type Error = anyhow::Error;
    fn try_from(row: StepRow) -> anyhow::Result<Self> {
        Ok(Step {
            turn: row.turn,
            segment: row.segment,
            role: Role::parse(&row.role).with_context(|| format!("unknown role `{}`", row.role))?,
            kind: Kind::parse(&row.kind).with_context(|| format!("unknown kind `{}`", row.kind))?,
            text: row.text,
            tool: row.tool,
            call_id: row.call_id,
            arguments: row.arguments,
            time: row.time.map(|t| t.0),
            is_error: row.is_error,
            message: row.message,
            usage: row.usage_in.map(|input| Usage {
                input,
                output: row.usage_out,
                cache_read: row.usage_cache_read,
                cache_write: row.usage_cache_write,
            }),
            edit: row.edit_from.map(|from| LoggedEdit { from, text: row.edit_text.unwrap_or_default() }),
            kept_to: row.kept_to,
        })
    }
}

impl From<TrajectoryRow> for Trajectory {
    /// Without its steps.
    fn from(row: TrajectoryRow) -> Self {
        Trajectory {
            id: row.trajectory,
            source: row.source,
            format: row.format,
            task_id: row.task_id,
            is_named_by_file: false,
            repository: row.repository,
            agent: row.agent,
            model: row.model,
            goal: row.goal,
            constraints: row.constraints,
            outcome: row.outcome,
            reward: row.reward,
            resolved: row.resolved,
            label_source: row.label_source,
            annotations: row.annotations,
            parent: row.parent,
            session: None,
            tokens_sent: row.logged_tokens_sent,
            policy: row.logged_policy,
            steps: Vec::new(),
        }
    }
}

fn schema<R: Row>() -> Arc<Schema> {
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

/// Bytes after which a page is closed, and rows after which that is looked at.
const PAGE_BYTES: usize = 128 << 10;
const PAGE_ROWS: usize = 64;

/// Rows that become a batch of arrays together have at most so many bytes, unless one row alone has more: the texts of
/// a batch have offsets of 31 bits.
const MOST_BYTES: usize = 256 << 20;

/// Writes one table; a row group is closed between trajectories, when it is large enough.
pub struct TableWriter<R: Row> {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    row_groups: ArrowRowGroupWriterFactory,
    n_row_groups: usize,
    pending: Vec<R>,
    pending_bytes: usize,
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
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(TableWriter {
            path: path.to_owned(),
            writer,
            row_groups,
            n_row_groups: 0,
            pending: Vec::new(),
            pending_bytes: 0,
            row_group_bytes,
            n_rows: 0,
        })
    }

    /// Appends all rows of one trajectory (or of several).
    pub fn push(&mut self, rows: impl IntoIterator<Item = R>) -> anyhow::Result<()> {
        for row in rows {
            self.pending_bytes += row.weight();
            self.n_rows += 1;
            self.pending.push(row);
        }
        if self.pending_bytes >= self.row_group_bytes {
            self.end_row_group()?;
        }
        Ok(())
    }

    /// Closes the row group.
    pub fn end_row_group(&mut self) -> anyhow::Result<()> {
        if !self.pending.is_empty() {
            let mut rows = std::mem::take(&mut self.pending).into_iter().peekable();
            let mut columns =
                self.row_groups.create_column_writers(self.n_row_groups).with_context(|| self.cannot())?;
            while rows.peek().is_some() {
                let mut chunk = Vec::new();
                let mut bytes = 0;
                while let Some(row) =
                    rows.next_if(|row| chunk.is_empty() || bytes + row.weight() <= MOST_BYTES)
                {
                    bytes += row.weight();
                    chunk.push(row);
                }
                anyhow::ensure!(
                    bytes < i32::MAX as usize,
                    "{}: a row of {bytes} bytes, and no column holds more than 2 GiB of one row",
                    self.cannot()
                );
                let (mut writers, batch) = (columns.iter_mut(), batch(chunk)?);
                for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
                    for leaf in compute_leaves(field, array)? {
                        let writer = writers.next().context("a column has a writer")?;
                        writer.write(&leaf).with_context(|| self.cannot())?;
                    }
                }
            }
            let write = || -> parquet::errors::Result<()> {
                let mut group = self.writer.next_row_group()?;
                for column in columns {
                    column.close()?.append_to_row_group(&mut group)?;
                }
                group.close().map(drop)
            };
            write().with_context(|| format!("cannot write {}", self.path.display()))?;
            self.n_row_groups += 1;
            self.pending_bytes = 0;
        }
        Ok(())
    }

    /// Takes over a row group of another table of this kind as it is stored; nothing is decoded.
    pub fn copy(&mut self, from: &TableReader<R>, row_group: usize) -> anyhow::Result<()> {
        self.end_row_group()?;
        let (file, metadata) = (open_file(&from.path)?, from.metadata.metadata());
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
                    column_index: None,
                    offset_index: pages.offset_index(at).cloned(),
                };
                group.append_column(&file, close)?;
            }
            group.close().map(drop)
        };
        write().with_context(|| format!("cannot write {}", self.path.display()))?;
        self.n_row_groups += 1;
        self.n_rows += stored.num_rows().unsigned_abs();
        Ok(())
    }

    /// Writes what is left and the footer, and says how many rows the table has.
    pub fn finish(mut self) -> anyhow::Result<u64> {
        self.end_row_group()?;
        self.writer.finish().with_context(|| self.cannot())?;
        self.writer.inner_mut().sync_all().with_context(|| self.cannot())?;
        Ok(self.n_rows)
    }

    fn cannot(&self) -> String {
        format!("cannot write {}", self.path.display())
    }
}

fn open(path: &Path) -> anyhow::Result<ParquetRecordBatchReaderBuilder<File>> {
    let file = open_file(path)?;
    let builder = ParquetRecordBatchReaderBuilder::try_new(file)
        .with_context(|| format!("{} is not a readable Parquet file", path.display()))?;
    check_version(path, builder.schema())?;
    Ok(builder)
}

fn open_file(path: &Path) -> anyhow::Result<File> {
    File::open(path).with_context(|| format!("cannot read {}", path.display()))
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
/// more than its pages; decodes only the columns of `R`.
pub struct TableReader<R: Row> {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
    columns: ProjectionMask,
    row: PhantomData<fn() -> R>,
}

impl<R: Row> TableReader<R> {
    pub fn open(path: &Path) -> anyhow::Result<Self> {
        let file = open_file(path)?;
        // The index of pages lets a read of few rows skip the other pages.
        let options = ArrowReaderOptions::new().with_offset_index_policy(PageIndexPolicy::Optional);
        let metadata = ArrowReaderMetadata::load(&file, options)
            .with_context(|| format!("{} is not a readable Parquet file", path.display()))?;
        check_version(path, metadata.schema())?;
        let wanted = R::fields();
        let roots = metadata
            .schema()
            .fields()
            .iter()
            .enumerate()
            .filter(|(_, f)| wanted.iter().any(|w| w.name() == f.name()))
            .map(|(i, _)| i);
        let columns = ProjectionMask::roots(metadata.parquet_schema(), roots);
        Ok(TableReader { path: path.to_owned(), metadata, columns, row: PhantomData })
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
        let n_rows = self.row_groups()[row_group];
        let selection = RowSelection::from_consecutive_ranges(ranges.iter().cloned(), n_rows);
        let mut rows = Vec::new();
        self.batches(row_group, Some(selection), |batch| rows.extend(batch))?;
        Ok(rows)
    }

    /// Reads one row group in batches.
    pub fn scan(&self, row_group: usize, batch: impl FnMut(Vec<R>)) -> anyhow::Result<()> {
        self.batches(row_group, None, batch)
    }

    fn batches(
        &self,
        row_group: usize,
        selection: Option<RowSelection>,
        mut each: impl FnMut(Vec<R>),
    ) -> anyhow::Result<()> {
        let mut builder =
            ParquetRecordBatchReaderBuilder::new_with_metadata(open_file(&self.path)?, self.metadata.clone())
                .with_batch_size(batch_rows(self.metadata.metadata(), &[row_group]))
                .with_row_groups(vec![row_group])
                .with_projection(self.columns.clone());
        if let Some(selection) = selection {
            builder = builder.with_row_selection(selection);
        }
        let damaged = || format!("cannot read row group {row_group} of {}", self.path.display());
        for batch in builder.build().with_context(damaged)? {
            each(R::rows(&batch.with_context(damaged)?)?);
        }
        Ok(())
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

/// Rows that are read at a time: one, where a column of the row groups holds more text than a batch may.
fn batch_rows(metadata: &ParquetMetaData, row_groups: &[usize]) -> usize {
    let is_large = |&group: &usize| {
        let columns = metadata.row_group(group).columns();
        columns.iter().any(|column| column.uncompressed_size() >= i64::from(i32::MAX) - (64 << 20))
    };
    if row_groups.iter().any(is_large) { 1 } else { BATCH_ROWS }
}

const BATCH_ROWS: usize = 1024;

fn read_batches<R: Row>(builder: ParquetRecordBatchReaderBuilder<File>) -> anyhow::Result<Vec<R>> {
    let mut rows = Vec::new();
    for batch in builder.build()? {
        rows.extend(R::rows(&batch?)?);
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_and_row_groups_end_between_trajectories() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("features.parquet");
        let row = |id: &str, step| FeatureRow {
            trajectory: id.to_owned(),
            step,
            tokens: 3,
            action_kind: None,
            path: Some("a/b.rs".to_owned()),
            span_end: vec![1, 2],
            span_tokens: vec![1, 2],
            atom: vec!["x_y".to_owned()],
            atom_kind: vec![1],
            atom_span: vec![0],
            atom_flags: vec![],
        };
        let rows = [vec![row("a", 0), row("a", 1)], vec![row("b", 0)]];
        let mut writer = TableWriter::create(&path, 1).unwrap();
        for group in &rows {
            writer.push(group.clone()).unwrap();
        }
        assert_eq!(writer.finish().unwrap(), 3);
        assert_eq!(row_groups::<FeatureRow>(&path).unwrap(), 2);
        assert_eq!(read_row_group::<FeatureRow>(&path, 1).unwrap(), rows[1]);
        assert_eq!(read::<FeatureRow>(&path).unwrap(), rows.concat());
    }

    /// Three texts of a little less than 1 GiB: together more than the offsets of a batch can tell.
    #[test]
    #[ignore = "takes 6 GB of memory: `make soak`"]
    fn more_than_two_gibibytes_of_text_in_a_row_group() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("steps.parquet");
        let mut writer = TableWriter::<StepRow>::create(&path, usize::MAX).unwrap();
        let text = |n: u8| String::from_utf8(vec![b'a' + n; 900 << 20]).unwrap();
        writer.push((0..3).map(|n| StepRow { text: text(n), ..StepRow::default() })).unwrap();
        assert_eq!(writer.finish().unwrap(), 3);
        let reader: TableReader<StepRow> = TableReader::open(&path).unwrap();
        let mut n = 0;
        reader
            .scan(0, |rows| {
                for row in rows {
                    assert!(row.text.len() == 900 << 20 && row.text.as_bytes()[7] == b'a' + n);
                    n += 1;
                }
            })
            .unwrap();
        assert_eq!(n, 3);
    }

    /// Every write to this device fails as on a full disk.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_with_the_name_of_the_file() {
        let mut writer = TableWriter::<StepKey>::create(Path::new("/dev/full"), 1).unwrap();
        let pushed = writer.push([StepKey { trajectory: "x".repeat(1 << 20), edit_from: None }]);
        let error = pushed.and_then(|()| writer.finish().map(drop)).unwrap_err();
        assert!(format!("{error:#}").starts_with("cannot write /dev/full: "), "{error:#}");
    }

    #[test]
    fn columns_carry_their_documentation() {
        let fields = ScoreRow::fields();
        assert!(fields.iter().all(|f| f.metadata().get("doc").is_some_and(|d| !d.is_empty())));
    }
}
