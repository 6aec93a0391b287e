//! Taskmaster dialogues: `{conversation_id, utterances}`. Since the fourth set an utterance names the calls of the assistant's
//! tools that come behind it, with their results.

use super::reading::names::Name;
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry =
    Entry { name: "taskmaster", summary: "Taskmaster dialogues", reading: Reading::Values(read) };

record! {
    struct Run in "taskmaster" {
        id: Name = "conversation_id",
        instructions: String = "instructions",
        vertical: String = "vertical" | "instruction_id",
        utterances: List<Said> = "utterances",
    }

    struct Said in "taskmaster.utterance" {
        speaker: String = "speaker",
        text: String = "text",
        annotations: List<Annotation> = "annotations",
    }

    struct Annotation in "taskmaster.annotation" {
        name: String = "name",
        value: String = "value",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let mut draft = Draft::new();
    if run.instructions.is_some() {
        draft.losses.add("instructions of the people who played left out");
    }
    for (i, said) in run.utterances.unwrap_or_default().0.into_iter().enumerate() {
        draft.at(i, None);
        let text = said.text.unwrap_or_default();
        match said.speaker.as_deref() {
            Some("assistant" | "ASSISTANT") => draft.agent(Kind::Message, text),
            _ => draft.user(text),
        }
        calls(said.annotations.unwrap_or_default().0, &mut draft);
    }
    let about = Trajectory {
        task_id: run.id.map(|id| id.0),
        repository: run.vertical.map(|vertical| format!("taskmaster/{vertical}")),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

/// Calls and results stand one after the other: name, request, name, response.
fn calls(annotations: Vec<Annotation>, draft: &mut Draft) {
    let mut called: Option<String> = None;
    for Annotation { name, value } in annotations {
        let value = value.unwrap_or_default();
        match name.as_deref() {
            Some("api_call") => {
                if let Some(tool) = called.replace(value) {
                    draft.action(tool, "{}".to_owned(), None);
                }
            }
            Some("request") => draft.action(called.take().unwrap_or_default(), value, None),
            Some("api_response") => {
                if let Some(tool) = called.take() {
                    draft.action(tool, "{}".to_owned(), None);
                }
            }
            Some("response") => draft.result(None, None, value, None),
            _ => draft.losses.add("annotation of an utterance left out"),
        }
    }
    if let Some(tool) = called {
        draft.action(tool, "{}".to_owned(), None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    #[test]
    fn utterances_and_calls() {
        let source = Source::test("d/data.json", "taskmaster");
        let mut sink = Sink::new(&source);
        let json = r#"{"conversation_id":"d1","vertical":"Coffee","instructions":"Imagine.","utterances":[
            {"index":0,"speaker":"user","text":"A mocha.","annotations":[{"name":"api_call","value":"find","context":"0"},{"name":"request","value":"{\"q\": \"Mocha\"}"},
              {"name":"api_response","value":"find"},{"name":"response","value":"{\"id\":1}"},
              {"name":"api_call","value":"ping"},{"name":"api_response","value":"ping"},{"name":"response","value":"ok"}]},
            {"index":1,"speaker":"assistant","text":"Here."},{"index":2,"speaker":"user","text":"Thanks."}]}"#;
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let outline = brief(t);
        assert_eq!(
            outline,
            [
                "0 message A mocha.",
                "1 action find\nMocha",
                "1 observation {\"id\":1}",
                "1 action ping",
                "1 observation ok",
                "1 message Here.",
                "2 message Thanks."
            ]
        );
        assert_eq!((t.task_id.as_deref(), t.repository.as_deref()), (Some("d1"), Some("taskmaster/Coffee")));
        assert_eq!(sink.losses.0.len(), 1);
    }
}
