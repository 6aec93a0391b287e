//! Rows of public sets of software tasks: `{trajectory | messages, instance_id, ..}`, as lists or as JSON in a string.
//!
//! Known: SWE-agent and OpenHands trajectories of nebius, SWE-smith. Rows whose `messages` are a list (SWE-Gym, R2E-Gym) are chats
//! and read as such. In tables all messages have all fields, mostly null.

use serde_json::value::RawValue;

use super::reading::chat::{self, Message};
use super::reading::content::ToolCalls;
use super::reading::draft::Losses;
use super::reading::names::{self, Name};
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "swe-corpora",
    summary: "rows of public sets of software tasks (nebius, SWE-rebench, SWE-smith), from source only",
    reading: Reading::Values(read),
};

record! {
    struct Row in "corpus" {
        trajectory: Box<RawValue> = "trajectory" | "messages",
        instance_id: Name = "instance_id",
        traj_id: Name = "trajectory_id" | "traj_id",
        repo: String = "repo",
        model: String = "model" | "model_name",
        exit_status: String = "exit_status",
        resolved: Scalar = "resolved" | "target",
        tools: Box<RawValue> = "tools",
    }

    struct Said in "corpus.message" {
        role: String = "role",
        content: Content = "content" | "text",
        system_prompt: Content = "system_prompt",
        tool_calls: ToolCalls = "tool_calls",
        tool_call_id: String = "tool_call_id",
        tool_call_ids: List<String> = "tool_call_ids",
        name: String = "name",
        thought: Content = "reasoning_content",
        message_type: String = "message_type",
        is_demo: Scalar = "is_demo",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let row: Row = serde_json::from_slice(bytes)?;
    let mut draft = Draft::new();
    if let Some(tools) =
        row.tools.map(|tools| super::reading::fields::words_of(tools.get())).filter(|t| t.len() > 4)
    {
        draft.tools(tools);
    }
    let mut said = messages(row.trajectory.as_deref())?;
    let is_demo = |said: &Said| {
        said.is_demo.and_then(|is| is.truth("is_demo", &mut Losses::default())) == Some(true)
            || said.message_type.as_deref() == Some("demonstration")
    };
    // A worked example stands in every prompt, and is no part of the run.
    let n_head =
        said.iter().position(|said| !is_demo(said) && said.role.as_deref() != Some("system")).unwrap_or(0);
    let head: Vec<Said> = said.drain(..n_head).collect();
    for (i, said) in head.into_iter().enumerate() {
        draft.at(i, None);
        let is_demo = is_demo(&said);
        let text = said.content.or(said.system_prompt).unwrap_or_default().into_text(&mut draft.losses);
        if is_demo { draft.demonstration(text) } else { draft.system(text) }
    }
    let (mut reader, mut is_answered) = (chat::Messages::default(), false);
    for (i, said) in said.into_iter().enumerate() {
        // In rows of two roles alone what the environment says has that of the user.
        is_answered |= said.role.as_deref() == Some("ai");
        if is_answered && said.role.as_deref() == Some("user") {
            reader.end(&mut draft);
            draft.at(n_head + i, None);
            let text = said.content.unwrap_or_default().into_text(&mut draft.losses);
            match draft.has_open_call() {
                true => draft.result(None, None, text, None),
                false => draft.observation(text, None),
            }
            continue;
        }
        let (mut message, mut commands) = (message(said), Vec::new());
        if message.role.as_deref() == Some("ai")
            && let Some(Content::Text(text)) = &message.content
            && let Some((said, command)) = command(text)
        {
            commands.push(command.to_owned());
            message.content = Some(Content::Text(said.to_owned()));
        }
        reader.read_with(n_head + i, message, commands, &mut draft);
    }
    reader.end(&mut draft);
    let logged =
        [row.instance_id, row.traj_id].into_iter().flatten().map(|id| id.0).find(|id| !id.is_empty());
    let is_named_by_file = logged.is_none();
    let by_place = || sink.index.map_or(sink.source.stem.clone(), |i| format!("{}-{i}", sink.source.stem));
    let task = logged.unwrap_or_else(by_place);
    let resolved = row.resolved.and_then(|is| is.truth("resolved", &mut draft.losses));
    let about = Trajectory {
        repository: row.repo.or_else(|| names::swe_repository(&task)),
        task_id: Some(task),
        is_named_by_file,
        model: row.model,
        outcome: row.exit_status,
        resolved,
        label_source: resolved.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

fn messages(raw: Option<&RawValue>) -> anyhow::Result<Vec<Said>> {
    let raw = raw.map_or("[]", RawValue::get);
    let List(said) = match raw.starts_with('"') {
        true => serde_json::from_str(&serde_json::from_str::<String>(raw)?)?,
        false => serde_json::from_str(raw)?,
    };
    Ok(said)
}

/// What the agent says, and the command in a block at its end.
fn command(text: &str) -> Option<(&str, &str)> {
    let (said, block) = text.trim_end().strip_suffix("```")?.rsplit_once("```")?;
    let (_, command) = block.split_once('\n')?;
    (!command.trim().is_empty()).then(|| (said.trim_end(), command.trim_end()))
}

fn message(said: Said) -> Message {
    let ids = said.tool_call_ids.and_then(|ids| ids.0.into_iter().next());
    Message {
        role: said.role,
        content: said.content.filter(|content| !content.is_empty()).or(said.system_prompt),
        tool_calls: said.tool_calls,
        tool_call_id: said.tool_call_id.or(ids),
        name: said.name,
        reasoning: said.thought,
        ..Message::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    fn run(json: &str) -> (Trajectory, Vec<String>) {
        let source = Source::test("d/rows.jsonl", "swe-corpora");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = sink.trajectories.remove(0);
        let outline = brief(&t);
        (t, outline)
    }

    #[test]
    fn rows_of_three_sets() {
        let (t, outline) = run(
            r#"{"instance_id":"o__n-1","model_name":"m","target":true,"exit_status":"submitted","trajectory":[
            {"cutoff_date":"x","mask":false,"role":"system","system_prompt":"S","text":null},{"role":"user","system_prompt":null,"text":"Fix it."},
            {"role":"ai","system_prompt":null,"text":"Look.\n```\nls\n```\n","mask":true},{"role":"user","text":"a.py"}]}"#,
        );
        assert_eq!(
            outline,
            ["0 system S", "0 message Fix it.", "1 thought Look.", "1 action ls", "1 observation a.py"]
        );
        assert_eq!(
            (t.resolved, t.repository.as_deref(), t.model.as_deref()),
            (Some(true), Some("o/n"), Some("m"))
        );
        let calls = r#"[{"id":"c","type":"function","function":{"name":"f","arguments":"{}"}}]"#;
        let (_, outline) = run(&format!(
            r#"{{"trajectory_id":"t","instance_id":"o__n-1","repo":"o/n","resolved":0,"tools":"[{{\"name\":\"f\"}}]","trajectory":[
            {{"role":"user","content":"Fix it.","tool_calls":null,"tool_call_id":null,"name":null}},{{"role":"assistant","content":"go","tool_calls":{calls}}},
            {{"role":"tool","content":"r","tool_call_id":"c","name":"f"}}]}}"#
        ));
        let steps = ["0 message Fix it.", "1 thought go", "1 action f", "1 observation r"];
        assert_eq!(outline, [&["0 tools [{\"name\":\"f\"}]"][..], &steps].concat());
        let history = format!(
            r#"[{{"role":"system","content":"S"}},{{"role":"user","content":"Demo.","is_demo":true}},{{"role":"user","content":[{{"type":"text","text":"Fix it."}}]}},
            {{"role":"assistant","content":"go","tool_calls":{calls}}},{{"role":"tool","content":"r","tool_call_ids":["c"]}}]"#
        );
        let row =
            serde_json::json!({"messages": history, "instance_id": "i", "resolved": false, "traj_id": "t"});
        let (t, outline) = run(&row.to_string());
        assert_eq!(outline, [&["0 system S", "0 demonstration Demo."][..], &steps].concat());
        assert_eq!((t.task_id.as_deref(), t.resolved), (Some("i"), Some(false)));
    }
}
