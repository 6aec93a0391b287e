//! What a message says in fields that have no rule: kept as text with the name of the field, reasoning as a thought,
//! a single `tool_call` as a call. Each is told as a loss.
//!
//! A value speaks if some string in it has more than one word, or stands under a key that always holds words. What
//! stands elsewhere in the message already is a repeat, as providers and harnesses log their replies several times.

use serde_json::Value;

use super::content::ToolCalls;
use super::draft::Losses;
use super::fields::{self, Rest};
use super::reply::{Call, Reply};
use super::scalar::Scalar;
use super::{Draft, ToolCall};

/// Keys under which nobody speaks: names, marks, counts, and the reply once more as the provider sent it.
const WORDLESS: [&str; 24] = [
    "id",
    "type",
    "status",
    "signature",
    "thoughtSignature",
    "format",
    "cache_control",
    "index",
    "encrypted_content",
    "model",
    "modelInfo",
    "agent",
    "author",
    "sender",
    "recipient",
    "metadata",
    "meta",
    "metrics",
    "response_metadata",
    "usage_metadata",
    "logprobs",
    "raw_data",
    "raw_response",
    "raw_output",
];

/// Keys under which one word is said, too.
const TELLING: [&str; 18] = [
    "text",
    "thinking",
    "thought",
    "thoughts",
    "reasoning",
    "reasoning_content",
    "refusal",
    "transcript",
    "audio_script",
    "stdout",
    "stderr",
    "error",
    "output",
    "summary",
    "input",
    "arguments",
    "command",
    "action",
];

/// What the fields without a rule say.
#[derive(Default)]
pub(crate) struct Others {
    pub(crate) thoughts: Vec<String>,
    /// Lines `key: value` behind the mark of a message; empty if there are none.
    pub(crate) text: String,
    pub(crate) calls: Vec<ToolCall>,
}

impl Others {
    /// All of it as text behind another.
    pub(crate) fn behind(self, text: String) -> String {
        let calls = self.calls.into_iter().map(Call::of);
        let calls = calls.map(|call| format!("[tool_call] {} {}", call.tool, call.arguments));
        let more = self.thoughts.into_iter().chain([self.text]).chain(calls);
        let parts: Vec<String> = [text].into_iter().chain(more).filter(|t| !t.is_empty()).collect();
        parts.join("\n")
    }

    /// Its words, as a part of a reply.
    pub(crate) fn said_in(self, reply: &mut Reply, draft: &Draft) {
        self.thoughts.into_iter().for_each(|thought| reply.thought(thought, draft));
        if !self.text.is_empty() {
            reply.text(self.text, draft);
        }
    }
}

/// What a message says elsewhere: its texts, and where one is JSON, the texts in that. Only the words count: copies of
/// a text differ in their blanks and line ends.
#[derive(Default)]
pub(crate) struct Said {
    words: String,
    /// Bytes looked through so far.
    searched: usize,
}

/// Bytes that are searched for one message, at most; what comes after that counts as new.
const MAX_SEARCHED: usize = 256 << 20;

impl Said {
    pub(crate) fn of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Self {
        let mut said = Said::default();
        texts.into_iter().for_each(|text| said.add(text));
        said
    }

    pub(crate) fn add(&mut self, text: &str) {
        self.words.extend(text.split_whitespace().flat_map(|word| [" ", word]));
        self.words.push('\n');
        if let Some(value) = json_in(text) {
            self.add_all(&value);
        }
    }

    fn add_all(&mut self, value: &Value) {
        match value {
            Value::String(text) => self.add(text),
            Value::Array(items) => items.iter().for_each(|item| self.add_all(item)),
            Value::Object(fields) => fields.values().for_each(|value| self.add_all(value)),
            _ => {}
        }
    }

    /// Whether these words stand there, not as a part of longer words.
    fn has(&mut self, sentence: &str) -> bool {
        self.searched = self.searched.saturating_add(self.words.len());
        if self.searched > MAX_SEARCHED {
            return false;
        }
        let words = sentence.split_whitespace().collect::<Vec<_>>().join(" ");
        let is_one = |a: Option<char>, b: Option<char>| {
            [a, b].iter().all(|c| c.is_some_and(|c| c.is_ascii_alphanumeric()))
        };
        self.words.match_indices(&words).any(|(at, _)| {
            let (before, after) = (&self.words[..at], &self.words[at + words.len()..]);
            !is_one(before.chars().next_back(), words.chars().next())
                && !is_one(words.chars().next_back(), after.chars().next())
        })
    }
}

/// What a text that is JSON holds.
fn json_in(text: &str) -> Option<Value> {
    text.trim_start().starts_with(['{', '[', '"']).then(|| serde_json::from_str(text).ok())?
}

/// Reads fields without a rule; `said` is what the message says elsewhere.
pub(crate) fn read(rest: &Rest, said: impl FnOnce() -> Said, losses: &mut Losses) -> Others {
    let mut others = Others::default();
    let is_thought = |key: &str| ["think", "thought", "reasoning"].iter().any(|word| key.contains(word));
    let mut fields: Vec<(&str, &str, Vec<String>)> = rest
        .0
        .iter()
        .filter(|(key, raw)| !WORDLESS.contains(&key.as_str()) && raw.get().starts_with(['"', '{', '[']))
        .map(|(key, raw)| (key.as_str(), raw.get(), sentences(key, raw.get())))
        .filter(|(key, _, sentences)| !sentences.is_empty() || *key == "tool_call")
        .collect();
    if fields.is_empty() {
        return others;
    }
    // What stands in several fields is a thought first of all.
    fields.sort_by_key(|(key, ..)| !is_thought(key));
    let mut said = said();
    for (key, raw, mut sentences) in fields {
        let name: String = key.chars().take(40).collect();
        if let Some(calls) = calls(key, raw) {
            losses.add("tool call outside of a list");
            others.calls.extend(calls);
            continue;
        }
        let n = sentences.len();
        sentences.retain(|sentence| {
            let is_new = !said.has(sentence);
            if is_new {
                said.add(sentence);
            }
            is_new
        });
        if sentences.is_empty() {
            // Nothing new.
        } else if is_thought(key) {
            losses.add(&format!("field without a rule kept as thought: {name}"));
            others.thoughts.push(sentences.join("\n"));
        } else {
            losses.add(&format!("field without a rule kept as text: {name}"));
            let start = if others.text.is_empty() { "[message] " } else { "\n" };
            // Beside repeats only what is new; else as it is logged, with names and numbers.
            let words = if sentences.len() < n { sentences.join("\n") } else { fields::words_of(raw) };
            others.text += &format!("{start}{key}: {words}");
        }
    }
    others
}

fn calls(key: &str, raw: &str) -> Option<Vec<ToolCall>> {
    if key != "tool_call" {
        return None;
    }
    let is_call = |call: &ToolCall| call.function.is_some() || call.name.is_some();
    let one = serde_json::from_str::<ToolCall>(raw).map(|call| vec![call]);
    let calls = one.or_else(|_| serde_json::from_str::<ToolCalls>(raw).map(|calls| calls.0)).ok()?;
    (!calls.is_empty() && calls.iter().all(is_call)).then_some(calls)
}

/// The strings in a value that somebody said; all of it where it is too deep to be read.
fn sentences(key: &str, raw: &str) -> Vec<String> {
    let mut out = Vec::new();
    match serde_json::from_str::<Value>(raw) {
        Ok(value) => collect(key, &value, &mut out),
        Err(_) => out.push(raw.to_owned()),
    }
    out
}

fn collect(key: &str, value: &Value, out: &mut Vec<String>) {
    match value {
        Value::String(text) => {
            let before = out.len();
            if let Some(value) = json_in(text) {
                collect(key, &value, out);
            }
            let is_said = match Scalar::of_text(text) {
                Scalar::Null | Scalar::Bool(_) => false,
                Scalar::Odd if text.trim().contains(char::is_whitespace) => true,
                _ => TELLING.contains(&key),
            };
            if is_said && out.len() == before {
                out.push(text.clone());
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(key, item, out)),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !WORDLESS.contains(&key.as_str()))
            .for_each(|(key, value)| collect(key, value, out)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::reading::record;

    record! {
        struct Odd in "odd" { a: String = "a", .. rest }
    }

    fn others(json: &str, said: &str) -> (Others, Vec<String>) {
        let odd: Odd = serde_json::from_str(json).unwrap();
        let mut losses = Losses::default();
        let others = read(&odd.rest, || Said::of([said]), &mut losses);
        (others, losses.0.into_keys().collect())
    }

    #[test]
    fn words_thoughts_and_calls_are_told_apart() {
        let (o, losses) = others(
            r#"{"thinking":"hm","reasoning_details":[{"type":"reasoning.text","text":"one","format":"some form","signature":"a b"}],
                "stdout":"ok","note":"two words","tool_call":{"name":"f","arguments":"{}"}}"#,
            "",
        );
        assert_eq!(o.thoughts, ["hm", "one"]);
        assert_eq!(o.text, "[message] stdout: ok\nnote: two words");
        assert_eq!(o.calls[0].name.as_deref(), Some("f"));
        assert_eq!(losses.len(), 5);
    }

    #[test]
    fn repeats_names_counts_and_times_are_no_words() {
        let (o, losses) = others(
            r#"{"provider_specific_fields":{"reasoning_content":"so it is","refusal":null},"date":"2025-01-02 03:04:05",
                "mode":"fast","metadata":{"k":"two words"},"token_count":{"input_tokens":12},"error":"false"}"#,
            "I think so it is.",
        );
        assert_eq!((o.text.as_str(), o.thoughts.len(), o.calls.len(), losses.len()), ("", 0, 0, 0));
    }

    /// Each is looked for in all before it: without a limit the work would grow with the square.
    #[test]
    fn very_many_words_are_kept_as_new() {
        let all: Vec<String> = (0..60_000).map(|i| format!("\"word{i} number{i}\"")).collect();
        let (o, _) = others(&format!(r#"{{"stdout":[{}]}}"#, all.join(",")), "word7 number7");
        assert!(!o.text.contains("word7 number7 ") && o.text.contains("word59999 number59999"));
    }

    /// A copy of what was said is found through quotes, line ends and JSON in strings; only what is new is kept.
    #[test]
    fn copies_are_compared_by_their_words() {
        let said = r#"{"command": "grep \"x\" f1\nls"}"#;
        let raw = r#"{"parsed":{"command":"grep \"x\" f1\nls"},"raw":"{\"command\":  \"grep \\\"x\\\" f1\\r\\nls\"}"}"#;
        let (o, losses) = others(raw, said);
        assert_eq!((o.text.as_str(), o.thoughts.len(), losses.len()), ("", 0, 0));
        let mixed = r#"{"extra":{"actions":[{"command":"grep \"x\" f1"}],"id":"g","note":"all \"new\"","again":"all \"new\""}}"#;
        assert_eq!(others(mixed, said).0.text, "[message] extra: all \"new\"");
        // The same in two fields is said once, as a thought.
        let twice = r#"{"extra":{"details":"so it is"},"reasoning_details":[{"text":"so it is"}]}"#;
        let (o, _) = others(twice, "");
        assert_eq!((o.text.as_str(), o.thoughts), ("", vec!["so it is".to_owned()]));
        // A part of a word is no copy of it.
        assert_eq!(others(r#"{"stdout":"ok"}"#, "look").0.text, "[message] stdout: ok");
        assert_eq!(others(r#"{"stdout":"ok"}"#, "<output>ok</output>").0.text, "");
        assert_eq!(others(r#"{"stdout":"{\"n\": 1}"}"#, "look").0.text, "[message] stdout: {\"n\": 1}");
    }
}
