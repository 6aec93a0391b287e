//! The arguments of a call, read back from its text after an event changed some of them.

use serde_json::Value;

/// The arguments, as JSON, of a call whose text ([`super::action_text`]) had some values changed since; none where it does not show them.
pub fn arguments_of(tool: &str, logged: &str, text: &str) -> Option<String> {
    let Ok(Value::Object(mut map)) = serde_json::from_str(logged) else { return None };
    let keys: Vec<String> = map.keys().cloned().collect();
    let begin = |key: &String| if keys.len() == 1 { "\n".to_owned() } else { format!("\n{key}: ") };
    let mut rest = text.strip_prefix(tool)?;
    for (number, value) in map.values_mut().enumerate() {
        rest = rest.strip_prefix(&begin(&keys[number]))?;
        let next = keys.get(number + 1).map(begin);
        let shown = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let same = rest.strip_prefix(&shown);
        let same = same.filter(|rest| next.as_ref().map_or(rest.is_empty(), |next| rest.starts_with(next)));
        rest = match same {
            Some(rest) => rest,
            None => {
                let end = next.map_or(Some(rest.len()), |next| rest.find(&next))?;
                *value = rest[..end].into();
                &rest[end..]
            }
        };
    }
    rest.is_empty().then(|| Value::Object(map).to_string())
}

#[cfg(test)]
mod tests {
    use super::super::action_text;
    use super::*;

    #[test]
    fn changed_arguments_are_read_back() {
        let logged = r#"{"path":"a\nn: b","n":1,"text":"one two three"}"#;
        let text = action_text("edit", logged);
        assert_eq!(arguments_of("edit", logged, &text).as_deref(), Some(logged));
        let short = text.replace("one two three", "one…");
        assert_eq!(
            arguments_of("edit", logged, &short).as_deref(),
            Some(r#"{"path":"a\nn: b","n":1,"text":"one…"}"#)
        );
        assert_eq!(arguments_of("bash", r#"{"c":"a b"}"#, "bash\na…").as_deref(), Some(r#"{"c":"a…"}"#));
        assert_eq!(arguments_of("edit", logged, "edit {}"), None);
    }
}
