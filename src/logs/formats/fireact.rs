//! FireAct results: `{question id: {reward, em, traj}}`. A run is a list of messages, or a text; `Thought:`, `Action:` and
//! `Observation:` at the beginning of a line tell what is what.

use super::reading::fields::Rest;
use super::reading::scalar::Scalar;
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry = Entry {
    name: "fireact",
    summary: "FireAct results keyed by question id",
    reading: Reading::Values(read),
};

record! {
    struct Runs in "fireact" {
        .. rest
    }

    struct Run in "fireact.run" {
        em: Scalar = "em",
        f1: Scalar = "f1",
        .. rest but "traj_by_line" | "prompt" | "gt" | "pred" | "reward"
    }

    struct Said in "fireact.message" {
        role: String = "role",
        content: String = "content",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let runs: Runs = serde_json::from_slice(bytes)?;
    if runs.rest.0.iter().any(|(key, _)| key == "traj") {
        // A run alone, out of a damaged document: its id stood before it.
        let id = sink.index.map_or(sink.source.stem.clone(), |i| format!("{}-{i}", sink.source.stem));
        finish(serde_json::from_slice(bytes)?, id, sink);
        return Ok(());
    }
    let start = bytes.as_ptr() as usize;
    for (id, raw) in runs.rest.0 {
        let offset =
            (raw.get().as_ptr() as usize).checked_sub(start).filter(|at| *at < bytes.len()).unwrap_or(0);
        super::read_item(&raw, offset, sink, |run, sink| finish(run, id, sink));
    }
    Ok(())
}

fn finish(mut run: Run, id: String, sink: &mut Sink<'_>) {
    let mut draft = Draft::new();
    for (i, said) in messages(&mut run.rest).into_iter().enumerate() {
        draft.at(i, None);
        let text = said.content.unwrap_or_default();
        match said.role.as_deref() {
            Some("assistant") => agent(&text, &mut draft),
            Some("system") => draft.system(text),
            _ => match text.strip_prefix("Observation:") {
                Some(seen) if draft.has_open_call() => draft.result(None, None, seen.trim().to_owned(), None),
                _ => draft.user(text),
            },
        }
    }
    let resolved = run.em.and_then(|is| is.truth("em", &mut draft.losses));
    let reward = run.f1.and_then(|f1| f1.number("f1", &mut draft.losses));
    let about = Trajectory {
        task_id: Some(id),
        resolved,
        reward,
        label_source: resolved.is_some().then(|| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// The messages of a run; a text is cut into them.
fn messages(rest: &mut Rest) -> Vec<Said> {
    let Some(raw) = rest.take("traj") else {
        return Vec::new();
    };
    // What is a text is not tried: the error would quote all of it.
    if raw.get().starts_with('[')
        && let Ok(List(messages)) = serde_json::from_str(raw.get())
    {
        return messages;
    }
    let text = super::reading::fields::words_of(raw.get());
    let (task, rest) = text.split_once("\n### Response:\n").unwrap_or(("", &text));
    let said =
        |role: &str, text: &str| Said { role: Some(role.to_owned()), content: Some(text.trim().to_owned()) };
    let mut messages = Vec::new();
    if let Some((system, question)) = task.split_once("\n### Instruction:\n") {
        messages.extend([said("system", system), said("user", question)]);
    }
    let is_seen = |line: &str| line.starts_with("Observation:");
    let is_said = |line: &str| line.starts_with("Thought:") || line.starts_with("Action:");
    let (mut part, mut role) = (String::new(), "assistant");
    for line in rest.split_inclusive('\n') {
        let next = if is_seen(line) { "user" } else { "assistant" };
        if (is_seen(line) || is_said(line)) && next != role {
            messages.push(said(role, &std::mem::take(&mut part)));
            role = next;
        }
        part.push_str(line);
    }
    messages.push(said(role, &part));
    messages.retain(|message| message.content.as_deref() != Some(""));
    messages
}

/// A reply: what is behind `Action:` is a call, `name[argument]`.
fn agent(text: &str, draft: &mut Draft) {
    draft.begin_call();
    let found =
        text.strip_prefix("Action:").map(|action| ("", action)).or_else(|| text.split_once("\nAction:"));
    let Some((thought, action)) = found else {
        return draft.agent(Kind::Message, text.to_owned());
    };
    draft.agent(Kind::Thought, thought.trim_start_matches("Thought:").trim().to_owned());
    let action = action.trim().to_owned();
    let tool = action.split('[').next().unwrap_or("").trim().to_owned();
    draft.action_as(tool, action, None, None);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    #[test]
    fn runs_as_messages_and_as_text() {
        let source = Source::test("d/a.json", "fireact");
        let mut sink = Sink::new(&source);
        let json = r####"{"q1":{"reward":true,"em":true,"f1":1.0,"gt":"a","pred":"a","prompt":[],"traj":[{"role":"user","content":"Q"},
              {"role":"assistant","content":"Thought: T\nAction: search[x [1]]"},{"role":"user","content":"Observation: O"},{"role":"assistant","content":"A"}]},
            "q2":{"reward":false,"em":false,"f1":0.5,"traj":"Below.\n\n### Instruction:\nQ\n\n### Response:\nThought: T\nAction: search[x [1]]\nObservation: O\nAction: finish[y]"},
            "q3":7}"####;
        read(json.as_bytes(), &mut sink).unwrap();
        let outline = |t: &Trajectory| -> Vec<String> {
            t.steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect()
        };
        let both = ["1 thought T", "1 action search[x [1]]", "1 observation O"];
        let t = &sink.trajectories;
        assert_eq!(outline(&t[0]), [&["0 message Q"][..], &both, &["2 message A"]].concat());
        assert_eq!(
            outline(&t[1]),
            [&["0 system Below.", "0 message Q"][..], &both, &["2 action finish[y]"]].concat()
        );
        assert_eq!(
            (t[0].steps[2].tool.as_deref(), t[0].resolved, t[1].reward),
            (Some("search"), Some(true), Some(0.5))
        );
        assert_eq!((t.len(), sink.rejects.len()), (2, 1));
        read(br#"{"em":true,"gt":"a","pred":"a","traj":[{"role":"user","content":"Q"}]}"#, &mut sink)
            .unwrap();
        assert_eq!(sink.trajectories[2].task_id.as_deref(), Some("a"));
    }
}
