//! Rollouts of verifiers: `{prompt, completion, reward, task}`, both messages or texts.

use serde_json::value::RawValue;

use super::reading::chat::{self, Message};
use super::reading::names::Name;
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "verifiers",
    summary: "verifiers rollouts with prompt and completion",
    reading: Reading::Values(read),
};

record! {
    struct Run in "verifiers" {
        prompt: Box<RawValue> = "prompt",
        completion: Box<RawValue> = "completion",
        id: Name = "example_id" | "id",
        task: String = "task",
        model: String = "model",
        reward: Scalar = "reward" | "score",
        tools: Box<RawValue> = "oai_tools" | "tools" | "tool_defs",
        stop: String = "stop_condition",
        error: Content = "error",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let mut draft = Draft::new();
    if let Some(tools) = run.tools.filter(|tools| tools.get().len() > 4) {
        draft.tools(tools.get().to_owned());
    }
    let prompt = messages(run.prompt, "user")?;
    let completion = messages(run.completion, "assistant")?;
    chat::read_all(prompt.into_iter().chain(completion), Vec::new(), &mut draft);
    let by_place = || sink.index.map_or(sink.source.stem.clone(), |i| format!("{}-{i}", sink.source.stem));
    let id = run.id.map(|id| id.0).filter(|id| !id.is_empty());
    let is_named_by_file = id.is_none();
    let id = id.unwrap_or_else(by_place);
    let reward = run.reward.and_then(|reward| reward.number("reward", &mut draft.losses));
    let error = run.error.map(|error| error.into_text(&mut draft.losses)).filter(|error| !error.is_empty());
    let about = Trajectory {
        task_id: Some(run.task.as_ref().map_or(id.clone(), |task| format!("{task}-{id}"))),
        is_named_by_file,
        repository: run.task,
        model: run.model,
        outcome: error.or(run.stop),
        reward,
        label_source: reward.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

/// A list of messages, or one message of a text.
fn messages(raw: Option<Box<RawValue>>, role: &str) -> anyhow::Result<Vec<Message>> {
    let Some(raw) = raw else {
        return Ok(Vec::new());
    };
    if raw.get().starts_with('[') {
        return Ok(serde_json::from_str::<List<Message>>(raw.get())?.0);
    }
    let content: Content = serde_json::from_str(raw.get())?;
    Ok(vec![Message { role: Some(role.to_owned()), content: Some(content), ..Message::default() }])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    #[test]
    fn prompt_and_completion() {
        let source = Source::test("d/r.jsonl", "verifiers");
        let mut sink = Sink::new(&source);
        for json in [
            r#"{"example_id":4,"task":"wiki","reward":0.5,"answer":"A","prompt":[{"role":"system","content":"S"},{"role":"user","content":"Q"}],
              "completion":[{"role":"assistant","content":"go","tool_calls":["{\"id\":\"c\",\"function\":{\"name\":\"f\",\"arguments\":\"{}\"}}"]},
                {"role":"tool","tool_call_id":"c","content":"r"},{"role":"assistant","content":"A"}]}"#,
            r#"{"prompt":"Q","completion":"A"}"#,
        ] {
            read(json.as_bytes(), &mut sink).unwrap();
        }
        let outline = |t: &Trajectory| -> Vec<String> {
            t.steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect()
        };
        let t = &sink.trajectories;
        assert_eq!(
            outline(&t[0]),
            ["0 system S", "0 message Q", "1 thought go", "1 action f", "1 observation r", "2 message A"]
        );
        assert_eq!(outline(&t[1]), ["0 message Q", "1 message A"]);
        assert_eq!((t[0].task_id.as_deref(), t[0].reward, t[0].resolved), (Some("wiki-4"), Some(0.5), None));
        assert_eq!(sink.losses.0.len(), 0);
    }
}
