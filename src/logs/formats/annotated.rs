//! The project's own annotated form: a chat in the OpenAI style with `annotations`.
//!
//! Goal and constraints are taken out of the annotations; the whole object goes along as JSON text for
//! the scorers. Its steps count messages, its offsets are bytes of the message's text.

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
    openai_chat::finish(run, sink)?;
    for trajectory in &mut sink.trajectories[before..] {
        if let Some(goal) = &annotations.goal {
            trajectory.goal = Some(goal.clone());
        }
        let texts = annotations.constraints.iter().flat_map(|c| &c.0).filter_map(|c| c.text.clone());
        trajectory.constraints = texts.collect();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

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
