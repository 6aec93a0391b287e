//! The record that begins a session: where another one follows it in a file, logs of several sessions were joined.

use serde_json::Value;

/// In so many bytes of a record its type stands.
const LOOKED_AT: usize = 512;

/// The id of a session that a record of this type begins, under this pointer.
pub(crate) fn id(record: &[u8], kind: &str, pointer: &str) -> Option<String> {
    let head = head(record, kind)?;
    head.pointer(pointer).and_then(Value::as_str).filter(|id| is_id(id)).map(str::to_owned)
}

/// The record, if it is of this type.
pub(crate) fn head(record: &[u8], kind: &str) -> Option<Value> {
    let begin = &record[..record.len().min(LOOKED_AT)];
    let is_word = |at: usize| {
        let end = at + kind.len();
        at > 0 && begin[at - 1] == b'"' && begin.get(end) == Some(&b'"')
    };
    memchr::memmem::find_iter(begin, kind).find(|at| is_word(*at))?;
    let head: Value = serde_json::from_slice(record).ok()?;
    (head["type"] == kind).then_some(head)
}

/// Whether it is one word: some tools put a remark in the place of an id.
fn is_id(text: &str) -> bool {
    !text.is_empty() && !text.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_told_by_its_type() {
        let id = |record: &str| id(record.as_bytes(), "session", "/of/id");
        assert_eq!(id(r#"{"type":"session","of":{"id":"a"}}"#).as_deref(), Some("a"));
        for none in [
            r#"{"type":"message","of":{"id":"a"},"text":"session"}"#,
            r#"{"type":"session","of":{"id":"left out here"}}"#,
            r#"{"type":"session","of":{}}"#,
            r#"{"type":"session","of":{"id":"a"}"#,
        ] {
            assert_eq!(id(none), None, "{none}");
        }
    }
}
