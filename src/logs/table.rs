//! Parquet tables of runs: a few rows at a time are read, and each becomes a JSON object, which the readers of lines know.
//! Fields that are null are left out: in tables all messages have all fields.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::mpsc;

use anyhow::Context as _;
use arrow::json::writer::LineDelimited;
use arrow::json::{LineDelimitedWriter, WriterBuilder};
use arrow::record_batch::RecordBatch;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};

use super::input::too_long;
use crate::logs::formats::reading::list::{Content, Piece};

/// How a table begins.
pub(super) const MARK: &[u8] = b"PAR1";

/// Its end is read first.
pub(super) const PACKED: &str = "a Parquet table in gzip or zstd\nhint: unpack it";

/// So many rows are in memory at once: each may be of many megabytes.
const ROWS: usize = 4;

pub(super) struct Table {
    reader: ParquetRecordBatchReader,
    /// Rows that were read to tell what the table holds.
    first: Option<RecordBatch>,
}

impl Table {
    /// Opens a table; also gives its first row, which is empty if there is none.
    pub(super) fn open(path: &Path) -> anyhow::Result<(Table, Vec<u8>)> {
        let file = File::open(path)?;
        guarded(|| {
            let builder = ParquetRecordBatchReaderBuilder::try_new(file)?;
            let mut reader = builder.with_batch_size(ROWS).build()?;
            let first = reader.find(|batch| batch.as_ref().map_or(true, |batch| batch.num_rows() > 0));
            let first = first.transpose()?;
            let row = first.as_ref().map_or(Ok(Vec::new()), |batch| json(batch, 0))?;
            Ok((Table { reader, first }, row))
        })
    }

    /// Reads in a thread of its own, and hands over the rows one after the other.
    pub(super) fn rows(mut self, max: u64) -> mpsc::Receiver<Piece> {
        let (sender, receiver) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let send = |content| sender.send(Piece { offset: 0, content }).is_ok();
            let told = guarded(|| {
                let first = self.first.take().map(Ok);
                for batch in first.into_iter().chain(&mut self.reader) {
                    let batch = batch?;
                    for at in 0..batch.num_rows() {
                        let row = json(&batch, at)?;
                        let content = match row.len() as u64 > max {
                            true => Content::Damage(too_long("a row of a table", row.len() as u64)),
                            false => Content::Item(row),
                        };
                        if !send(content) {
                            return Ok(());
                        }
                    }
                }
                Ok(())
            });
            if let Err(error) = told {
                let reason = format!("cannot read on in the table: {error:#}");
                // Of an error of the machine arrow leaves the text alone.
                let is_passing = reason.contains("(os error ");
                send(if is_passing { Content::Unread(reason) } else { Content::Damage(reason) });
            }
        });
        receiver
    }
}

/// What a damaged table makes of a reader is an error, too.
fn guarded<T>(read: impl FnOnce() -> anyhow::Result<T>) -> anyhow::Result<T> {
    catch_unwind(AssertUnwindSafe(read)).ok().context("it is damaged")?
}

/// A row as a JSON object.
fn json(batch: &RecordBatch, at: usize) -> anyhow::Result<Vec<u8>> {
    let mut row = Vec::new();
    let mut writer: LineDelimitedWriter<_> =
        WriterBuilder::new().with_explicit_nulls(false).build::<_, LineDelimited>(&mut row);
    writer.write(&batch.slice(at, 1))?;
    writer.finish()?;
    drop(writer);
    row.truncate(row.trim_ascii_end().len());
    Ok(row)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::json::ReaderBuilder;
    use arrow::json::reader::infer_json_schema_from_iterator;
    use parquet::arrow::ArrowWriter;
    use parquet::basic::Compression;
    use parquet::file::properties::WriterProperties;

    use super::*;
    use crate::logs::{Limits, input, jobs};

    /// Writes rows as the hub does: all have all fields, Snappy, several row groups.
    fn write(path: &Path, rows: &[serde_json::Value]) {
        let schema = Arc::new(infer_json_schema_from_iterator(rows.iter().map(Ok)).unwrap());
        let text: String = rows.iter().map(|row| row.to_string() + "\n").collect();
        let batches = ReaderBuilder::new(schema.clone()).build(text.as_bytes()).unwrap();
        let how = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_max_row_group_row_count(Some(2))
            .build();
        let mut writer = ArrowWriter::try_new(File::create(path).unwrap(), schema, Some(how)).unwrap();
        batches.for_each(|batch| writer.write(&batch.unwrap()).unwrap());
        writer.close().unwrap();
    }

    /// The runs of a file, a line each, and what could not be read.
    fn runs(path: &Path) -> (Vec<String>, Vec<String>) {
        let inputs = input::find(&[path.to_owned()]).unwrap();
        let how =
            jobs::How { forced: None, threads: 1, limits: Limits::default(), redacts: false, mapping: None };
        let (mut told, mut rejects) = (Vec::new(), Vec::new());
        jobs::for_each_part(&inputs, how, &Default::default(), |part| {
            for run in &part.runs {
                let steps =
                    run.steps.iter().map(|s| format!("{} {}: {}", s.role.name(), s.kind.name(), s.text));
                let steps: Vec<String> = steps.collect();
                let row = &run.row;
                let task = row.task_id.as_deref().unwrap_or_default();
                told.push(format!("{} {task} {:?} {}", row.format, row.resolved, steps.join("; ")));
            }
            rejects.extend(part.rejects.into_iter().map(|reject| reject.reason));
            Ok(())
        })
        .unwrap();
        (told, rejects)
    }

    /// The columns of the public sets: nebius' SWE-agent, SWE-rebench's OpenHands, SWE-smith, SWE-Gym.
    #[test]
    fn rows_of_public_sets_are_runs() {
        let dir = tempfile::tempdir().unwrap();
        let call = serde_json::json!([{"id": "c1", "type": "function", "function": {"name": "bash", "arguments": "{\"command\":\"ls\"}"}}]);
        let chat = serde_json::json!([{"role": "system", "content": "S"}, {"role": "user", "content": "T"},
            {"role": "assistant", "content": "", "tool_calls": call}, {"role": "tool", "content": "a", "tool_call_id": "c1", "name": "bash"}]);
        let steps = "system system: S; user message: T; agent action: bash\nls; tool observation: a";
        let nebius = serde_json::json!([{"role": "system", "system_prompt": "S", "mask": false}, {"role": "user", "text": "T"}, {"role": "ai", "text": "ok"}]);
        for (name, row, told) in [
            (
                "sweagent",
                serde_json::json!({"instance_id": "a__b-1", "model_name": "m", "target": true, "trajectory": nebius, "exit_status": "submitted"}),
                "swe-corpora a__b-1 Some(true) system system: S; user message: T; agent message: ok"
                    .to_owned(),
            ),
            (
                "rebench",
                serde_json::json!({"trajectory_id": "t", "instance_id": "a__b-1", "repo": "a/b", "trajectory": chat, "resolved": 0}),
                format!("swe-corpora a__b-1 Some(false) {steps}"),
            ),
            (
                "smith",
                serde_json::json!({"messages": chat.to_string(), "instance_id": "a__b-1", "resolved": true, "traj_id": "t"}),
                format!("swe-corpora a__b-1 Some(true) {steps}"),
            ),
            (
                "gym",
                serde_json::json!({"messages": chat, "instance_id": "a__b-1", "resolved": false, "run_id": "m_x"}),
                format!("openai-chat a__b-1 Some(false) {steps}"),
            ),
        ] {
            let path = dir.path().join(format!("{name}.parquet"));
            let other = serde_json::json!({"instance_id": "c__d-2"});
            let mut rows = vec![row; 5];
            for (i, row) in rows.iter_mut().enumerate() {
                row["nr"] = i.into();
            }
            rows[3]["instance_id"] = other["instance_id"].clone();
            write(&path, &rows);
            let (runs, rejects) = runs(&path);
            assert_eq!((runs.len(), rejects), (5, Vec::<String>::new()), "{name}");
            assert_eq!((&runs[0], &runs[3]), (&told, &told.replace("a__b-1", "c__d-2")), "{name}");
        }
    }

    /// Whatever is damaged: no panic, and what stands before it stays.
    #[test]
    fn damaged_tables_are_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.parquet");
        let row =
            serde_json::json!({"instance_id": "a__b-1", "messages": [{"role": "user", "content": "T"}]});
        write(&path, &vec![row; 5]);
        let whole = std::fs::read(&path).unwrap();
        for cut in [4, 100, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..cut]).unwrap();
            let (told, rejects) = runs(&path);
            assert!(told.is_empty() && rejects.len() == 1, "{cut}: {rejects:?}");
        }
        for at in (4..whole.len()).step_by(37) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            std::fs::write(&path, &bytes).unwrap();
            runs(&path);
        }
        write(&path, &[serde_json::json!({"a": 1})]);
        assert_eq!(runs(&path), (Vec::new(), Vec::new()));
        std::fs::write(&path, zstd::encode_all(&whole[..], 1).unwrap()).unwrap();
        assert_eq!(runs(&path).1, [PACKED]);
    }
}
