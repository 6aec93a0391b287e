//! The project's own annotated form: a chat in the OpenAI style with `annotations`.
//!
//! Goal and constraints are taken out of the annotations; the whole object goes along as JSON text for
//! the scorers. Its steps count messages, its offsets are bytes of the message's text.

use serde_json::value::{RawValue, Value};

use super::reading::draft::Losses;
use super::reading::{List, record};
use super::{Entry, Reading, Sink, openai_chat};

pub(super) const ENTRY: Entry = Entry {
    name: "annotated",
    summary: "chat messages with annotations: goal, constraints, salient spans, compression points",
    reading: Reading::Values(read),
};

record! {
    struct Annotations in "annotations" {
        goal: String = "goal",
        constraints: List<Constraint> = "constraints",
    }

    struct Constraint in "annotations.constraint" {
        text: String = "text",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: openai_chat::Run = serde_json::from_slice(bytes)?;
    let text = run.annotations.as_ref().map_or("{}", |a| a.get());
    let annotations: Annotations = serde_json::from_str(text)?;
    let before = sink.trajectories.len();
    openai_chat::finish(run, sink);
    for trajectory in &mut sink.trajectories[before..] {
        if let Some(goal) = &annotations.goal {
            trajectory.goal = Some(goal.clone());
        }
        let texts = annotations.constraints.iter().flat_map(|c| &c.0).filter_map(|c| c.text.clone());
        trajectory.constraints = texts.collect();
    }
    Ok(())
}

#[derive(serde::Deserialize)]
struct Points<'a> {
    #[serde(borrow)]
    compression_points: Option<&'a RawValue>,
}

/// The text of annotations in which `compression_points` is a list of numbers of messages; the rest of
/// the text stays as it is. `6.0`, `"6"` and `{"step": 6}` count as 6; what else stands there is dropped.
pub(super) fn with_clean_points(text: &str, losses: &mut Losses) -> String {
    let found = serde_json::from_str::<Points<'_>>(text).ok().and_then(|p| p.compression_points);
    let Some(raw) = found.filter(|raw| serde_json::from_str::<Vec<u32>>(raw.get()).is_err()) else {
        return text.to_owned();
    };
    let entries = match serde_json::from_str(raw.get()) {
        Ok(Value::Array(entries)) => entries,
        Ok(entry) => vec![entry],
        Err(_) => Vec::new(),
    };
    let points: Vec<u32> = entries.iter().filter_map(point).collect();
    losses.add_n("unusable compression point left out", (entries.len() - points.len()) as u64);
    let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
    let list: Vec<String> = points.iter().map(u32::to_string).collect();
    format!("{}[{}]{}", &text[..start], list.join(","), &text[start + raw.get().len()..])
}

/// The message that an entry of `compression_points` means.
fn point(entry: &Value) -> Option<u32> {
    match entry {
        Value::Number(n) => {
            let n = n.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(n))?;
            Some(n as u32)
        }
        Value::String(text) => text.trim().parse().ok(),
        Value::Object(fields) => point(fields.get("step").filter(|step| !step.is_object())?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    #[test]
    fn compression_points_are_cleaned() {
        let mut losses = Losses::default();
        let text =
            r#"{"b":1.50,"compression_points": [3, 6.0,"7",{"step":8},-1,2.5,"x",null,9e9,[1]],"a":[ ]}"#;
        assert_eq!(
            with_clean_points(text, &mut losses),
            r#"{"b":1.50,"compression_points": [3,6,7,8],"a":[ ]}"#
        );
        assert_eq!(losses.0["unusable compression point left out"], 6);
        for clean in [r#"{"compression_points":[ 1, 2 ]}"#, "{}", "7", r#"{"compression_points":null}"#] {
            assert_eq!(with_clean_points(clean, &mut losses), clean);
        }
    }

    #[test]
    fn annotations_go_along() {
        let json = r#"{"id":"t1","messages":[{"role":"user","content":"Book a trip under $500."}],
            "annotations":{"goal":"book","constraints":[{"id":"c","text":"under $500","step":0}],"compression_points":[3]}}"#;
        let source = Source::test("a.jsonl", "annotated");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        assert_eq!((t.goal.as_deref(), t.task_id.as_deref()), (Some("book"), Some("t1")));
        assert_eq!(t.constraints, ["under $500"]);
        assert!(t.annotations.as_deref().unwrap().contains("compression_points"));
    }
}
