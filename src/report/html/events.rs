//! The events of table `showcase` as JSON, for the page of a run.

use std::path::Path;

use serde_json::{Value, json};

use crate::files::{reach, seal};
use crate::store::{self, Row as _, ShowcaseRow};
use crate::text::escape;

/// The events of a run, in the order of the table; none where it has no such table. Without text they have its lengths and kinds.
pub(super) fn events(run: &Path, with_text: bool) -> anyhow::Result<Vec<Value>> {
    let path = run.join(format!("{}.parquet", ShowcaseRow::TABLE));
    if !reach::is_there(&path)? {
        return Ok(Vec::new());
    }
    seal::check(&path)?;
    let rows: Vec<ShowcaseRow> = store::read(&path)?;
    let same = |a: &ShowcaseRow, b: &ShowcaseRow| {
        (&a.variant, &a.trajectory, a.event) == (&b.variant, &b.trajectory, b.event)
    };
    let text = |text: &Option<String>| text.as_deref().filter(|_| with_text).map(escape::lines);
    let row = |row: &ShowcaseRow| {
        json!([
            row.what,
            row.speaker,
            row.at,
            row.needed,
            text(&row.atom),
            row.tokens_before,
            row.tokens_after,
            text(&row.text),
            text(&row.text_after)
        ])
    };
    let event = |rows: &[ShowcaseRow]| {
        json!({
            "variant": &*rows[0].variant,
            "session": &*rows[0].trajectory,
            "event": rows[0].event,
            "turn": rows[0].turn,
            "before": rows[0].prompt_before,
            "after": rows[0].prompt_after,
            "rows": rows.iter().map(row).collect::<Vec<_>>(),
        })
    };
    Ok(rows.chunk_by(same).map(event).collect())
}
