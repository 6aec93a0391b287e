//! Inspect logs in zip (`.eval`): a member a sample, beside a header. Samples are those of [`super::inspect_json`].

use super::{Entry, Reading, inspect_json};

pub(super) const ENTRY: Entry = Entry {
    name: "inspect-eval",
    summary: "Inspect evaluation logs in zip (.eval)",
    // A log that was not finished has no header.
    reading: Reading::Archive {
        shared: &["header.json", "_journal/start.json"],
        is_run: |name| name.starts_with("samples/") && name.ends_with(".json"),
        open: inspect_json::open,
    },
};
