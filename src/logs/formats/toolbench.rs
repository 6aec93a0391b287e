//! ToolBench answers: `{win, tree, answer_generation}` of a search over the next calls. The run is one path of the tree: that of the
//! answer (`train_messages`, of which the last has all before it), and without one the newest path; the other ends of the
//! tree are left out and counted.

use serde_json::Value;
use serde_json::value::RawValue;

use super::reading::chat::{self, Message};
use super::reading::content::{Arguments, Function};
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry =
    Entry { name: "toolbench", summary: "ToolBench answer trees", reading: Reading::Values(read) };

record! {
    struct Run in "toolbench" {
        win: Scalar = "win",
        tree: Tree = "tree",
        answer: Answer = "answer_generation",
    }

    struct Tree in "toolbench.tree" {
        /// Deep: read only where it is needed.
        tree: Box<RawValue> = "tree",
    }

    struct Answer in "toolbench.answer" {
        query: String = "query",
        function: Box<RawValue> = "function",
        train_messages: List<List<Message>> = "train_messages",
        finish_type: String = "finish_type",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let answer = run.answer.unwrap_or_default();
    let mut draft = Draft::new();
    if let Some(tools) = answer.function.filter(|tools| tools.get().len() > 4) {
        draft.tools(tools.get().to_owned());
    }
    let tree: Option<Value> = run.tree.and_then(|tree| serde_json::from_str(tree.tree?.get()).ok());
    let ends = tree.as_ref().map_or(0, n_ends);
    draft.losses.add_n("branch of the search left out", ends.saturating_sub(1));
    let chains = answer.train_messages.unwrap_or_default().0;
    let messages = match chains.into_iter().max_by_key(|chain| chain.0.len()) {
        Some(List(messages)) => messages,
        None => {
            let task = message("user", answer.query.unwrap_or_default());
            [task].into_iter().chain(tree.iter().flat_map(newest_path)).collect()
        }
    };
    chat::read_all(messages, Vec::new(), &mut draft);
    let resolved = run.win.and_then(|win| win.truth("win", &mut draft.losses));
    let about = Trajectory {
        task_id: Some(sink.source.stem.clone()),
        is_named_by_file: true,
        outcome: answer.finish_type,
        resolved,
        label_source: resolved.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

fn message(role: &str, text: String) -> Message {
    Message { role: Some(role.to_owned()), content: Some(Content::Text(text)), ..Message::default() }
}

fn children(node: &Value) -> &[Value] {
    node["children"].as_array().map_or(&[], Vec::as_slice)
}

fn n_ends(node: &Value) -> u64 {
    match children(node) {
        [] => 1,
        children => children.iter().map(n_ends).sum(),
    }
}

/// The path to the node that was tried last, as messages: a thought and a call are one reply.
fn newest_path(root: &Value) -> Vec<Message> {
    let (mut node, mut messages) = (root, Vec::new());
    let (mut thought, mut action) = (String::new(), String::new());
    while let Some(next) = children(node).last() {
        node = next;
        let text = node["description"].as_str().unwrap_or("").to_owned();
        match node["node_type"].as_str() {
            Some("Thought") => thought = text,
            Some("Action") => action = text,
            _ => {
                let call = Function { name: Some(action.clone()), arguments: Some(Arguments(text)) };
                let reply = message("assistant", std::mem::take(&mut thought));
                messages.push(Message { function_call: Some(Box::new(call)), ..reply });
                if let Some(seen) = node["observation"].as_str().filter(|seen| !seen.is_empty()) {
                    messages
                        .push(Message { name: Some(action.clone()), ..message("function", seen.to_owned()) });
                }
            }
        }
    }
    messages.extend(Some(message("assistant", thought)).filter(|m| !m.said().concat().is_empty()));
    messages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    fn run(json: &str) -> (Trajectory, Vec<String>, Vec<String>) {
        let source = Source::test("d/q1.json", "toolbench");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = sink.trajectories.remove(0);
        let outline = brief(&t);
        (t, outline, sink.losses.0.iter().map(|(what, n)| format!("{what}: {n}")).collect())
    }

    #[test]
    fn the_path_of_the_answer_and_the_newest_one() {
        let tree = r#""tree":{"tree":{"node_type":"Action Input","description":"","children":[
            {"node_type":"Action","description":"f","children":[{"node_type":"Action Input","description":"{\"a\":1}","observation":"r","children":[]}]},
            {"node_type":"Thought","description":"again","children":[{"node_type":"Action","description":"g","children":[
               {"node_type":"Action Input","description":"{}","observation":"s","children":[]}]}]}]}}"#;
        let answer =
            r#""answer_generation":{"query":"Q","function":[{"name":"f"}],"finish_type":"give_answer""#;
        let (t, outline, told) = run(&format!(r#"{{"win":false,{tree},{answer}}}}}"#));
        let head = "0 tools [{\"name\":\"f\"}]";
        assert_eq!(outline, [head, "0 message Q", "1 thought again", "1 action g", "1 observation s"]);
        assert_eq!((t.resolved, t.outcome.as_deref()), (Some(false), Some("give_answer")));
        assert_eq!(told, ["branch of the search left out: 1"]);
        let chain = r#"{"role":"user","content":"Q"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{\"a\": 1}"}}"#;
        let json = format!(
            r#"{{"win":true,{tree},{answer},"train_messages":[[{chain}],[{chain},{{"role":"function","name":"f","content":"r"}},{{"role":"assistant","content":"A"}}]]}}}}"#
        );
        let (_, outline, _) = run(&json);
        assert_eq!(outline, [head, "0 message Q", "1 action f\n1", "1 observation r", "2 message A"]);
    }
}
