//! SWE-agent trajectories (`.traj`): 0.x with commands in text, 1.x with tool calls, and demonstrations.
//!
//! `trajectory` and `history` tell the same story twice: the steps come from `trajectory`; system
//! prompt and task, which only `history` has, from there. In 1.x the tool calls stand in `history`
//! alone and are matched to the steps in order. A hand-made demonstration that has only `history` is
//! read from it. Demonstrations inside of a run (`is_demo`) are no part of it.
//!
//! Not kept: the line with open file and directory that `history` adds to each observation.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, SeqAccess, Visitor};

use super::reading::content::ToolCalls;
use super::reading::{Content, Draft, List, ToolCall, fields, names, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry = Entry {
    name: "sweagent",
    summary: "SWE-agent .traj files, 0.x and 1.x, and demonstrations",
    reading: Reading::Values(read),
};

record! {
    struct File in "traj" {
        trajectory: List<TrajStep> = "trajectory",
        history: History = "history",
        info: Info = "info",
        environment: String = "environment",
    }

    /// A file without a trajectory, of which all of the history counts.
    struct HistoryFile in "traj" {
        history: List<Message> = "history",
    }

    struct TrajStep in "traj.step" {
        action: String = "action",
        observation: Content = "observation",
        thought: String = "thought",
        response: String = "response",
    }

    struct Info in "traj.info" {
        exit_status: String = "exit_status",
    }

    struct Message in "traj.history" {
        role: String = "role",
        content: Content = "content",
        is_demo: bool = "is_demo",
        message_type: String = "message_type",
        thought: String = "thought",
        action: String = "action",
        tool_calls: ToolCalls = "tool_calls",
        tool_call_ids: List<String> = "tool_call_ids",
    }
}

/// Steps of the harness, not of the model: how a run was ended from outside.
fn is_exit(step: &TrajStep) -> bool {
    let action = step.action.as_deref().unwrap_or("").trim();
    let exits = ["exit_cost", "exit_context", "exit_format", "exit_error", "exit_api", "exit_forfeit"];
    exits.contains(&action) && step.response.as_deref().unwrap_or("").starts_with("Exit")
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let file: File = serde_json::from_slice(bytes)?;
    let info = file.info.unwrap_or_default();
    let steps = file.trajectory.unwrap_or_default().0;
    let mut entries = file.history.unwrap_or_default().0;
    if steps.is_empty() {
        // The history is read once more, and what is odd in it told once.
        fields::forget_odd();
        entries = serde_json::from_slice::<HistoryFile>(bytes)?.history.unwrap_or_default().0;
    }
    let mut draft = Draft::new();
    draft.losses.add_n(
        "demonstration message left out",
        entries.iter().filter(|e| e.is_demo == Some(true)).count() as u64,
    );
    let mut entries: Vec<Message> = entries.into_iter().filter(|e| e.is_demo != Some(true)).collect();
    let n_head = entries.iter().position(|e| e.role.as_deref() == Some("assistant")).unwrap_or(entries.len());
    let body = entries.split_off(n_head);
    let mut message = 0;
    for entry in entries {
        draft.at(message, None);
        message += 1;
        let text = entry.content.unwrap_or_default().into_text(&mut draft.losses);
        if entry.role.as_deref() == Some("system") { draft.system(text) } else { draft.user(text) }
    }
    if steps.is_empty() {
        read_history(body, message, &mut draft);
    } else {
        read_steps(steps, body, message, &mut draft);
    }
    let task = names::swe_task_id(&sink.source.stem).to_owned();
    let about = Trajectory {
        repository: names::swe_repository(&task),
        task_id: Some(task),
        is_named_by_file: true,
        agent: Some("swe-agent".to_owned()),
        outcome: info.exit_status,
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

fn read_steps(steps: Vec<TrajStep>, body: Vec<Message>, mut message: usize, draft: &mut Draft) {
    let mut calls = body.into_iter().filter(|e| e.role.as_deref() == Some("assistant")).peekable();
    for step in steps {
        if is_exit(&step) {
            draft.losses.add("exit written by the harness left out");
            continue;
        }
        draft.at(message, None);
        message += 1;
        draft.begin_call();
        let action = step.action.unwrap_or_default();
        let logged = calls.peek().is_some_and(|e| e.action.as_deref() == Some(action.as_str()));
        let tool_calls = if logged { calls.next().and_then(|e| e.tool_calls) } else { None };
        let has_call = !action.trim().is_empty();
        let kind = if has_call { Kind::Thought } else { Kind::Message };
        // The response is thought and command in one; alone it counts only where no command was found.
        let mut thought = step.thought.unwrap_or_default();
        if !has_call && thought.trim().is_empty() {
            thought = step.response.unwrap_or_default();
        }
        draft.agent(kind, thought);
        let id = if has_call { push_action(action, tool_calls, draft) } else { None };
        let text = step.observation.unwrap_or_default().into_text(&mut draft.losses);
        if has_call {
            draft.result(id.as_deref(), None, text, None);
        } else if !text.is_empty() {
            draft.observation(text, None);
        }
    }
}

/// Pushes the action of a step, by its tool call where that is logged; returns the logged id.
fn push_action(action: String, tool_calls: Option<ToolCalls>, draft: &mut Draft) -> Option<String> {
    let mut calls: Vec<ToolCall> = tool_calls.map(|c| c.0).unwrap_or_default();
    if calls.len() == 1 {
        let (id, name, arguments) = calls.remove(0).into_parts();
        draft.action(name, arguments, id.clone());
        return id;
    }
    draft.losses.add_n("tool call told by its command only", calls.len() as u64);
    let tool = action.split_whitespace().next().unwrap_or("").chars().take(80).collect();
    draft.action_as(tool, action, None, None);
    None
}

fn read_history(body: Vec<Message>, mut message: usize, draft: &mut Draft) {
    for entry in body {
        draft.at(message, None);
        message += 1;
        let text = entry.content.unwrap_or_default().into_text(&mut draft.losses);
        match entry.role.as_deref() {
            Some("assistant") => {
                draft.begin_call();
                let action = entry.action.unwrap_or_default();
                let has_call = !action.trim().is_empty();
                draft.agent(
                    if has_call { Kind::Thought } else { Kind::Message },
                    entry.thought.unwrap_or(text),
                );
                if has_call {
                    push_action(action, entry.tool_calls, draft);
                }
            }
            Some("system") => draft.system(text),
            _ => {
                let id = entry.tool_call_ids.and_then(|ids| ids.0.into_iter().next());
                draft.result(id.as_deref(), None, text, None);
            }
        }
    }
}

/// The entries of `history` as far as they are needed: to the first message of the agent in the run
/// itself, and all of them where that has tool calls. The rest repeats the trajectory and is
/// skipped without being materialised.
#[derive(Default)]
pub(crate) struct History(Vec<Message>);

impl<'de> Deserialize<'de> for History {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct HistoryVisitor;
        impl<'de> Visitor<'de> for HistoryVisitor {
            type Value = History;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of messages")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<History, A::Error> {
                let mut out = Vec::new();
                while let Some(entry) = fields::next_item::<Message, _>(&mut seq)? {
                    let is_agent = entry.role.as_deref() == Some("assistant") && entry.is_demo != Some(true);
                    let is_repeated = is_agent && entry.tool_calls.is_none();
                    out.push(entry);
                    if is_repeated {
                        while seq.next_element::<IgnoredAny>()?.is_some() {}
                        break;
                    }
                }
                Ok(History(out))
            }
        }
        deserializer.deserialize_seq(HistoryVisitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Source;

    fn run(path: &str, json: &str) -> (Trajectory, super::super::Losses) {
        let source = Source::test(path, "sweagent");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        (sink.trajectories.remove(0), sink.losses)
    }

    fn outline(t: &Trajectory) -> Vec<String> {
        t.steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect()
    }

    #[test]
    fn text_commands() {
        let json = r#"{"environment":"swe_main","trajectory":[
            {"action":"open a.py","observation":"1:x","response":"Look.\n<command>","thought":"Look.","state":"{}"},
            {"action":"exit_cost","observation":"Exited","response":"Exit due to cost limit","thought":"Exit due to cost limit","state":"{}"}],
            "history":[{"role":"system","content":"S"},{"role":"user","content":"demo","is_demo":true},
              {"role":"assistant","content":"d","is_demo":true},{"role":"user","content":"Fix it."},
              {"role":"assistant","content":"Look."}],
            "info":{"exit_status":"submitted (exit_cost)"}}"#;
        let (t, losses) = run("x/django__django-1.traj", json);
        assert_eq!(
            outline(&t),
            ["0 system S", "0 message Fix it.", "1 thought Look.", "1 action open a.py", "1 observation 1:x"]
        );
        assert_eq!(t.steps[3].tool.as_deref(), Some("open"));
        assert_eq!(t.steps[3].call_id, t.steps[4].call_id);
        assert_eq!(t.repository.as_deref(), Some("django/django"));
        assert_eq!(t.outcome.as_deref(), Some("submitted (exit_cost)"));
        assert_eq!(t.goal.as_deref(), Some("Fix it."));
        assert_eq!(losses.0["demonstration message left out"], 2);
        assert_eq!(losses.0["exit written by the harness left out"], 1);
    }

    #[test]
    fn tool_calls_come_from_the_history() {
        let json = r#"{"trajectory":[{"action":"ls /x","observation":"a","response":"L","thought":"L","state":{},
              "query":[{"role":"system","content":"copied"}]}],
            "history":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"T"}]},
              {"role":"assistant","content":"L","action":"ls /x","tool_calls":[{"function":{"name":"bash","arguments":"{\"command\":\"ls /x\"}"},"id":"t1"}]}],
            "info":{"swe_agent_version":"1.0.1"}}"#;
        let (t, _) = run("r__r.acb0f10f.pr_1.traj", json);
        assert_eq!(outline(&t)[2..], ["1 thought L", "1 action bash\nls /x", "1 observation a"]);
        assert_eq!(t.steps[4].call_id.as_deref(), Some("t1"));
        assert_eq!(t.steps[3].arguments.as_deref(), Some("{\"command\":\"ls /x\"}"));
    }

    #[test]
    fn odd_entries_of_a_history_are_told_once() {
        let json = r#"{"history":[null,{"role":"user","content":"T"},{"role":"assistant","content":"t","action":"ls"}]}"#;
        let source = Source::test("demo.traj", "sweagent");
        let mut sink = Sink::new(&source);
        crate::formats::read_repaired(json.as_bytes(), &mut sink, read);
        assert_eq!(sink.trajectories.len(), 1);
        assert_eq!(sink.losses.0["list item of the wrong type left out"], 1);
    }

    #[test]
    fn a_demonstration_of_history_alone() {
        let json = r#"{"history":[{"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"t","thought":"t","action":"find_file a","agent":"main",
             "tool_calls":[{"function":{"name":"find_file","arguments":"{\"file_name\":\"a\"}"},"id":"c1"}]},
            {"role":"tool","content":"found","tool_call_ids":["c1"]}]}"#;
        let (t, _) = run("demo.traj", json);
        assert_eq!(outline(&t)[2..], ["1 thought t", "1 action find_file\na", "1 observation found"]);
        assert_eq!(t.steps[4].tool.as_deref(), Some("find_file"));
    }
}
