//! How many characters a text or the arguments of a call have in the forms that products count: nothing is written.

use serde_json::Value;

/// Of a text as JSON has it, without the quotes, as JavaScript counts them.
pub(super) fn json(text: &str) -> u64 {
    text.chars().map(in_json).sum()
}

fn in_json(c: char) -> u64 {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        c if c < ' ' => 6,
        _ => c.len_utf16() as u64,
    }
}

/// Of words as Gemini CLI estimates them: a character beyond ASCII has the tokens of six others.
pub(super) fn estimated(text: &str) -> u64 {
    text.chars().map(|c| if c.is_ascii() { 1 } else { 6 * c.len_utf16() as u64 }).sum()
}

/// The same as Python's `json.dumps` has it: what is not ASCII is escaped.
pub(super) fn dumped(text: &str) -> u64 {
    text.chars()
        .map(|c| if c.is_ascii() && c != '\u{7f}' { in_json(c) } else { 6 * c.len_utf16() as u64 })
        .sum()
}

/// Of the arguments of a call as `json.dumps` has them; of what is no JSON, as of a text.
pub(super) fn dumps(arguments: &str) -> u64 {
    match serde_json::from_str(arguments) {
        Ok(value) => measured(&value, &|text| 2 + dumped(text)),
        Err(_) => dumped(arguments),
    }
}

/// The same as Python shows them, with its own quotes and words.
pub(super) fn repr(arguments: &str) -> u64 {
    // `true` and `null` are as long as `True` and `None`; `false` is as long as `False`.
    match serde_json::from_str(arguments) {
        Ok(value) => measured(&value, &quoted),
        Err(_) => quoted(arguments),
    }
}

/// A text in the quotes that need the fewer escapes.
fn quoted(text: &str) -> u64 {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let shown = |c: char| match c {
        c if c == quote || matches!(c, '\\' | '\n' | '\r' | '\t') => 2,
        c if c < ' ' || c == '\u{7f}' => 4,
        _ => 1,
    };
    2 + text.chars().map(shown).sum::<u64>()
}

/// A value with `, ` and `: ` between its parts.
fn measured(value: &Value, text: &dyn Fn(&str) -> u64) -> u64 {
    let between = |n: usize| 2 * (n as u64).saturating_sub(1);
    match value {
        Value::String(string) => text(string),
        Value::Array(list) => {
            2 + between(list.len()) + list.iter().map(|value| measured(value, text)).sum::<u64>()
        }
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| text(key) + 2 + measured(value, text);
            2 + between(map.len()) + map.iter().map(pair).sum::<u64>()
        }
        other => other.to_string().len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Python 3.12 says of them.
    #[test]
    fn forms_are_as_long_as_in_python() {
        let arguments = r#"{"path":"a'b","n":[1,true,null],"s":"say \"ü\"\n"}"#;
        // {"path": "a'b", "n": [1, true, null], "s": "say \"\u00fc\"\n"}
        assert_eq!(dumps(arguments), 62);
        // {'path': "a'b", 'n': [1, True, None], 's': 'say "ü"\n'}
        assert_eq!(repr(arguments), 55);
        assert_eq!(
            (json("a\"\n\u{1}ü"), dumped("a\"\n\u{1}ü😀")),
            (1 + 2 + 2 + 6 + 1, 1 + 2 + 2 + 6 + 6 + 12)
        );
        assert_eq!((repr("no JSON"), dumps("[]")), (9, 2));
        assert_eq!((json("😀"), estimated("aü😀")), (2, 1 + 6 + 12));
    }
}
