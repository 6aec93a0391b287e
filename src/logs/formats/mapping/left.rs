//! What of a value no pointer of a mapping leads to.

use serde_json::Value;

use super::Pointers;
use crate::logs::formats::reading::fields::note_dropped;

/// Deeper values are one.
const DEPTH: usize = 8;

/// Counts the values to which none of these pointers leads, by their pointers; items of a list have one, `*`.
pub(super) fn note<'a>(
    record: &'static str,
    value: &Value,
    pointers: impl Iterator<Item = &'a Option<Pointers>>,
) {
    // The value itself is its parts.
    let pointers = pointers.flatten().flat_map(Pointers::all).map(String::as_str);
    let known: Vec<&str> = pointers.filter(|pointer| !pointer.is_empty()).collect();
    walk(record, value, &mut String::new(), &known, 0);
}

fn walk(record: &'static str, value: &Value, at: &mut String, known: &[&str], depth: usize) {
    if known.contains(&at.as_str()) {
        return;
    }
    let length = at.len();
    match value {
        Value::Null => {}
        Value::Object(map) if depth < DEPTH => {
            for (key, value) in map {
                at.push('/');
                at.push_str(&key.replace('~', "~0").replace('/', "~1"));
                walk(record, value, at, known, depth + 1);
                at.truncate(length);
            }
        }
        Value::Array(items) if depth < DEPTH => {
            at.push_str("/*");
            items.iter().for_each(|item| walk(record, item, at, known, depth + 1));
            at.truncate(length);
        }
        _ => note_dropped(record, at),
    }
}
