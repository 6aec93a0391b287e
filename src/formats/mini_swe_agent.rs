//! mini-swe-agent trajectories: 1.1 with tool calls, 1.0 and the early bare list with a bash block in
//! the text.
//!
//! An observation is `content`, what the model saw, not `extra.raw_output`; `extra.response` repeats
//! the whole reply and is skipped. The last message of role `exit` is the submission, which no model
//! saw: left out.

use super::reading::content::ToolCalls;
use super::reading::{Content, Draft, List, names, record, time};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry = Entry {
    name: "mini-swe-agent",
    summary: "mini-swe-agent .traj.json files, 1.0, 1.1 and the early list form",
    reading: Reading::Values(read),
};

record! {
    struct File in "mini" {
        messages: List<Message> = "messages",
        info: Info = "info",
        instance_id: String = "instance_id",
        trajectory_format: String = "trajectory_format",
    }

    struct Info in "mini.info" {
        config: Config = "config",
        exit_status: String = "exit_status",
    }

    struct Config in "mini.config" {
        model: Model = "model",
    }

    struct Model in "mini.config.model" {
        model_name: String = "model_name",
    }

    struct Message in "mini.message" {
        role: String = "role",
        content: Content = "content",
        tool_calls: ToolCalls = "tool_calls",
        tool_call_id: String = "tool_call_id",
        extra: Extra = "extra",
    }

    struct Extra in "mini.extra" {
        timestamp: f64 = "timestamp",
        returncode: i64 = "returncode",
        interrupt_type: String = "interrupt_type",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let is_list = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    let file: File = if is_list {
        File { messages: Some(serde_json::from_slice(bytes)?), ..File::default() }
    } else {
        serde_json::from_slice(bytes)?
    };
    let mut draft = Draft::new();
    let mut answered = false;
    for (i, message) in file.messages.unwrap_or_default().0.into_iter().enumerate() {
        let extra = message.extra.unwrap_or_default();
        draft.at(i, extra.timestamp.and_then(time::from_seconds));
        let text = message.content.unwrap_or_default().into_text(&mut draft.losses);
        let failed = extra.returncode.map(|code| code != 0);
        match message.role.as_deref().unwrap_or("") {
            "system" => draft.system(text),
            "assistant" => {
                answered = true;
                read_assistant(text, message.tool_calls, &mut draft);
            }
            "tool" => draft.result(message.tool_call_id.as_deref(), None, text, failed),
            "exit" => draft.losses.add("exit message (submission) left out"),
            // After the first answer the environment speaks as the user.
            "user" if answered && extra.interrupt_type.is_some() => draft.observation(text, Some(true)),
            "user" if answered && draft.has_open_call() => draft.result(None, None, text, failed),
            "user" if answered => draft.observation(text, failed),
            "user" => draft.user(text),
            _ => draft.losses.add("message of unknown role left out"),
        }
    }
    let is_named_by_file = file.instance_id.is_none();
    let task = file.instance_id.unwrap_or_else(|| sink.source.stem.clone());
    let info = file.info.unwrap_or_default();
    let about = Trajectory {
        repository: names::swe_repository(&task),
        task_id: Some(task),
        is_named_by_file,
        agent: Some("mini-swe-agent".to_owned()),
        model: info.config.and_then(|c| c.model).and_then(|m| m.model_name),
        outcome: info.exit_status,
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

fn read_assistant(text: String, tool_calls: Option<ToolCalls>, draft: &mut Draft) {
    draft.begin_call();
    let calls = tool_calls.map(|c| c.0).unwrap_or_default();
    if !calls.is_empty() {
        draft.agent(Kind::Thought, text);
        for call in calls {
            let (id, name, arguments) = call.into_parts();
            draft.action(name, arguments, id);
        }
        return;
    }
    match bash_block(&text) {
        Some((thought, command)) => {
            draft.agent(Kind::Thought, thought);
            draft.action_as("bash".to_owned(), command, None, None);
        }
        None => draft.agent(Kind::Message, text),
    }
}

/// The text outside of the bash block, and the block; nothing if there is not exactly one block,
/// which the agent itself takes as an error of format.
fn bash_block(text: &str) -> Option<(String, String)> {
    let open = "```bash";
    let start = text.find(open)?;
    let body = start + open.len();
    let first_line = body + text[body..].find('\n')? + 1;
    let end = first_line + text[first_line..].find("\n```")?;
    let after = end + "\n```".len();
    if text[after..].contains(open) || !text[body..first_line].trim().is_empty() {
        return None;
    }
    let before = text[..start].trim_end();
    let rest = text[after..].trim();
    let thought = if rest.is_empty() { before.to_owned() } else { format!("{before}\n{rest}") };
    Some((thought, text[first_line..end].to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Source;

    fn run(json: &str) -> (Trajectory, super::super::Losses) {
        let source = Source::test("run/a__b-1.traj.json", "mini-swe-agent");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        (sink.trajectories.remove(0), sink.losses)
    }

    fn outline(t: &Trajectory) -> Vec<String> {
        t.steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect()
    }

    #[test]
    fn tool_calls() {
        let json = r#"{"info":{"exit_status":"Submitted","config":{"model":{"model_name":"m"}}},"messages":[
            {"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"think","tool_calls":[{"id":"c1","index":0,"function":{"name":"bash","arguments":"{\"command\": \"ls\"}"},"type":"function"}],
             "function_call":null,"extra":{"response":{"choices":["again"]},"timestamp":2.5}},
            {"role":"tool","content":"<output>a</output>","tool_call_id":"c1","extra":{"raw_output":"a","returncode":1,"timestamp":3.0}},
            {"role":"exit","content":"diff","extra":{}}],
            "trajectory_format":"mini-swe-agent-1.1","instance_id":"a__b-1"}"#;
        let (t, losses) = run(json);
        assert_eq!(
            outline(&t)[2..],
            ["1 thought think", "1 action bash\nls", "1 observation <output>a</output>"]
        );
        assert_eq!(t.steps[4].is_error, Some(true));
        assert_eq!(t.steps[2].time, Some(2_500_000));
        assert_eq!((t.model.as_deref(), t.repository.as_deref()), (Some("m"), Some("a/b")));
        assert_eq!(losses.0["exit message (submission) left out"], 1);
    }

    #[test]
    fn bash_blocks_of_the_early_list() {
        let json = r#"[{"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"Look.\n\n```bash\nls\npwd\n```"},{"role":"user","content":"a"},
            {"role":"assistant","content":"no block"},{"role":"user","content":"please"}]"#;
        let (t, _) = run(json);
        assert_eq!(
            outline(&t)[2..],
            [
                "1 thought Look.",
                "1 action ls\npwd",
                "1 observation a",
                "2 message no block",
                "2 observation please"
            ]
        );
        assert_eq!(t.steps[4].call_id.as_deref(), Some("call-1"));
        assert_eq!(t.steps[3].tool.as_deref(), Some("bash"));
    }

    #[test]
    fn blocks() {
        assert_eq!(bash_block("a\n```bash\nx\n```\nb"), Some(("a\nb".into(), "x".into())));
        assert_eq!(bash_block("```bash\nx\n``` ```bash\ny\n```"), None);
        assert_eq!(bash_block("```bash\nx"), None);
    }
}
