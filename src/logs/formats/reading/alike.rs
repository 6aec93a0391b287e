//! Formats of which some records alone look like those of another one.

/// Of the first format, the second one, and what stands in such records.
const ALIKE: &[(&str, &str, &[u8])] = &[
    // Messages of a context.
    ("kimi-cli", "chat-lines", b"\"role\""),
    // Words in the stream of events.
    ("gemini-stream", "chat-lines", b"\"message\""),
    // All but calls and thoughts.
    ("cursor-stream", "claude-stream", b"\"session_id\""),
    // Bare items of the oldest rollouts.
    ("codex", "chat-lines", b"\"message\""),
    // Files without ids and times of their messages.
    ("goose-lines", "chat-lines", b"\"content\":["),
    // Words of the user.
    ("pi", "factory-droid", b"\"message\""),
];

/// Whether a record that alone looks like one of `alone` may be one of `format`.
pub(crate) fn is_one(format: &str, alone: &str, record: &[u8]) -> bool {
    let has = |mark: &[u8]| memchr::memmem::find(record, mark).is_some();
    format == alone || ALIKE.iter().any(|(name, other, mark)| *name == format && *other == alone && has(mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_are_some_records_of_some_formats() {
        assert!(is_one("pi", "pi", b"{}") && !is_one("pi", "codex", b"{}"));
        assert!(is_one("pi", "factory-droid", br#"{"type":"message"}"#));
        assert!(!is_one("pi", "factory-droid", br#"{"type":"session_start"}"#));
        assert!(!is_one("factory-droid", "pi", br#"{"type":"message"}"#));
    }
}
