//! MINT results: `{state: {history}, task}` a line. Code in `<execute>` is a call, `Observation:` its result; feedback of the
//! expert is the user's.

use super::reading::names::Name;
use super::reading::scalar::Scalar;
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry =
    Entry { name: "mint", summary: "MINT results", reading: Reading::Values(read) };

record! {
    struct Run in "mint" {
        state: State = "state",
        task: Task = "task",
    }

    struct State in "mint.state" {
        history: List<Said> = "history",
        success: Scalar = "success",
        terminate_reason: String = "terminate_reason",
        error: String = "error",
        tokens: Tokens = "token_counter",
    }

    struct Tokens in "mint.token_counter" {
        prompt_tokens: Scalar = "prompt_tokens",
    }

    struct Said in "mint.history" {
        role: String = "role",
        content: String = "content",
    }

    struct Task in "mint.task" {
        task_name: String = "task_name",
        task_id: Name = "task_id",
        prompt: String = "prompt",
    }
}

const FEEDBACK: &str = "\nExpert feedback:\n";

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let (state, task) = (run.state.unwrap_or_default(), run.task.unwrap_or_default());
    let mut draft = Draft::new();
    for (i, said) in state.history.unwrap_or_default().0.into_iter().enumerate() {
        draft.at(i, None);
        let text = said.content.unwrap_or_default();
        match said.role.as_deref() {
            Some("assistant") => agent(&text, &mut draft),
            _ => match text.strip_prefix("Observation:\n").filter(|_| i > 0) {
                Some(text) => observed(text, &mut draft),
                None => draft.user(text),
            },
        }
    }
    let resolved = state.success.and_then(|is| is.truth("success", &mut draft.losses));
    let sent = state.tokens.and_then(|tokens| tokens.prompt_tokens).and_then(Scalar::count);
    let (name, id) = (task.task_name.unwrap_or_default(), task.task_id.unwrap_or_default().0);
    let about = Trajectory {
        task_id: Some(format!("{name}-{id}")),
        goal: task.prompt,
        repository: Some(name).filter(|name| !name.is_empty()),
        outcome: state.error.or(state.terminate_reason),
        resolved,
        label_source: resolved.map(|_| "log".to_owned()),
        tokens_sent: sent.filter(|n| *n > 0),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

/// A reply: its first piece of code is what ran.
fn agent(text: &str, draft: &mut Draft) {
    draft.begin_call();
    let text = text.strip_prefix("Assistant:").unwrap_or(text).trim();
    let found = text
        .split_once("<execute>")
        .and_then(|(before, rest)| Some((before, rest.split_once("</execute>")?)));
    let Some((before, (code, after))) = found else {
        return draft.agent(Kind::Message, text.to_owned());
    };
    for said in [before, after] {
        draft.agent(Kind::Thought, said.trim().to_owned());
    }
    draft.action_as("execute".to_owned(), code.trim().to_owned(), None, None);
}

fn observed(text: &str, draft: &mut Draft) {
    let (output, feedback) = match text.split_once(FEEDBACK) {
        Some((output, feedback)) => (output, Some(feedback)),
        None => (text, None),
    };
    match draft.has_open_call() {
        true => draft.result(None, None, output.to_owned(), None),
        false => draft.observation(output.to_owned(), None),
    }
    if let Some(feedback) = feedback {
        draft.user(feedback.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    #[test]
    fn code_its_output_and_feedback() {
        let source = Source::test("d/results.jsonl", "mint");
        let mut sink = Sink::new(&source);
        let json = r#"{"state":{"history":[{"role":"user","content":"Solve.\nTask:\nAdd."},
            {"role":"assistant","content":"Assistant:\n<thought>Sum.</thought>\n<execute>\nprint(1)\n</execute>\nso"},
            {"role":"user","content":"Observation:\n1\nYou have 4 steps left.\n\nExpert feedback:\nGood."},
            {"role":"assistant","content":"Assistant:\n<solution> 1 </solution>"},{"role":"user","content":"Observation:\nWrong."}],
            "success":true,"terminate_reason":"task_success","error":null,"token_counter":{"prompt_tokens":70}},
            "task":{"task_name":"math","task_id":0,"prompt":"Add.","reference":"1"}}"#;
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let outline = brief(t);
        assert_eq!(
            outline,
            [
                "0 message Solve.\nTask:\nAdd.",
                "1 thought <thought>Sum.</thought>",
                "1 thought so",
                "1 action print(1)",
                "1 observation 1\nYou have 4 steps left.\n",
                "2 message Good.",
                "2 message <solution> 1 </solution>",
                "2 observation Wrong."
            ]
        );
        assert_eq!((t.task_id.as_deref(), t.resolved, t.tokens_sent), (Some("math-0"), Some(true), Some(70)));
        assert_eq!((t.goal.as_deref(), sink.losses.0.len()), (Some("Add."), 0));
    }
}
