//! Events of OpenHands, one a line: all of a file (or of the files of a conversation, one event each) are one run. They are read
//! as those of [`super::openhands`].

use std::collections::BTreeMap;

use super::openhands::{History, Item};
use super::reading::names;
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "openhands-events",
    summary: "OpenHands events, one a line, of the server and of the SDK",
    reading: Reading::Sessions {
        open: || Box::<Conversation>::default(),
        origin: |_, _| Origin::None,
        together: |names| together(names, number),
    },
};

/// Files of one folder, by the numbers in their names.
pub(super) fn together(names: &[&str], number: fn(&str) -> Option<f64>) -> Vec<Vec<usize>> {
    let mut folders: BTreeMap<&str, Vec<(f64, usize)>> = BTreeMap::new();
    for (file, name) in names.iter().enumerate() {
        if let Some(number) = number(name) {
            let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
            folders.entry(folder).or_default().push((number, file));
        }
    }
    let sorted = folders.into_values().map(|mut files| {
        files.sort_by(|a, b| a.0.total_cmp(&b.0));
        files.into_iter().map(|(_, file)| file).collect()
    });
    sorted.collect()
}

/// The number of an event: `events/7.json` of the server, `events/event-00007-<id>.json` of the SDK.
fn number(name: &str) -> Option<f64> {
    let (folder, _) = name.rsplit_once('/')?;
    let stem = names::stem(name);
    let number =
        stem.strip_prefix("event-").map_or(stem.as_str(), |rest| rest.split('-').next().unwrap_or(""));
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    (folder.ends_with("events") && is_number).then(|| number.parse().ok())?
}

/// The folder of the conversation, where its events stand in files of their own.
fn conversation(path: &str) -> Option<String> {
    number(path)?;
    path.rsplit('/').nth(2).map(str::to_owned)
}

#[derive(Default)]
struct Conversation {
    history: History,
}

impl Session for Conversation {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let item: Item = serde_json::from_slice(bytes)?;
        item.0.into_iter().for_each(|event| self.history.read(event));
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        let about = Trajectory {
            task_id: conversation(&sink.source.path).or_else(|| Some(sink.source.stem.clone())),
            is_named_by_file: true,
            agent: Some("openhands".to_owned()),
            ..Trajectory::default()
        };
        self.history.finish(about, sink);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::cut;

    #[test]
    fn events_in_files_of_their_own_are_in_the_order_of_their_numbers() {
        let names = [
            "s/a/events/10.json",
            "s/a/events/9.json.zst",
            "s/b/events/event-00001-x.json",
            "s/b/events/event-00000-y.json",
            "s/a/7.json",
        ];
        assert_eq!(together(&names, number), [vec![1, 0], vec![3, 2]]);
        assert_eq!(conversation(names[1]).as_deref(), Some("a"));
        assert_eq!(conversation("c.jsonl"), None);
    }

    #[test]
    fn a_conversation_of_the_sdk_with_a_condensation() {
        let lines = [
            r#"{"kind":"SystemPromptEvent","id":"s","source":"agent","system_prompt":{"type":"text","text":"Be kind."},"tools":[{"name":"terminal"}]}"#,
            r#"{"kind":"MessageEvent","id":"u","timestamp":"2026-01-01T00:00:00","source":"user","llm_message":{"role":"user","content":[{"type":"text","text":"List."}]},"extended_content":[{"type":"text","text":"Skill."}]}"#,
            // Two calls of one response, with the result of the first one between them.
            r#"{"kind":"ActionEvent","id":"a","source":"agent","thought":[{"type":"text","text":"Both."}],"reasoning_content":"hm","thinking_blocks":[{"type":"thinking","thinking":"hm"}],"tool_name":"terminal","tool_call_id":"c1","tool_call":{"id":"c1","name":"terminal","arguments":"{\"command\":\"ls\"}"},"llm_response_id":"r1"}"#,
            r#"{"kind":"ObservationEvent","id":"o","source":"environment","tool_name":"terminal","tool_call_id":"c1","action_id":"a","observation":{"kind":"TerminalObservation","content":[{"type":"text","text":"a.py"}],"is_error":false,"metadata":{"exit_code":2,"working_dir":"/w"}}}"#,
            r#"{"kind":"ActionEvent","id":"b","source":"agent","thought":[],"tool_name":"terminal","tool_call_id":"c2","tool_call":{"id":"c2","function":{"name":"terminal","arguments":"{\"command\":\"pwd\"}"}},"llm_response_id":"r1"}"#,
            r#"{"kind":"UserRejectObservation","id":"p","source":"environment","tool_name":"terminal","tool_call_id":"c2","action_id":"b","rejection_reason":"not there","rejection_source":"user"}"#,
            r#"{"kind":"ConversationStateUpdateEvent","id":"x","key":"stats","value":{}}"#,
            r#"{"kind":"Condensation","id":"k","forgotten_event_ids":["a","o","b","p"],"summary":"Listed.","llm_response_id":"r2"}"#,
            r#"{"kind":"MessageEvent","id":"e","source":"agent","llm_message":{"role":"assistant","content":[{"type":"text","text":"Done."}]},"llm_response_id":"r3"}"#,
        ];
        let source = Source::test("d/c.jsonl", "openhands-events");
        let mut sink = Sink::new(&source);
        let mut conversation = Box::<Conversation>::default();
        lines.iter().for_each(|line| conversation.value(line.as_bytes()).unwrap());
        conversation.finish(&mut sink);
        let t = &sink.trajectories[0];
        let outline = cut(t);
        assert_eq!(
            outline,
            [
                "0 0 tools [{\"name\":\"terminal\"}]",
                "0 0 system Be kind.",
                "0 0 message List.",
                "0 0 message Skill.",
                "0 1 thought hm",
                "0 1 thought Both.",
                "0 1 action terminal\nls",
                "0 1 action terminal\npwd",
                "0 1 observation a.py\n[Current working directory: /w]\n[Command finished with exit code 2]",
                "0 1 observation Action rejected: not there",
                "1 2 compaction Listed.",
                "1 2 message Done."
            ]
        );
        assert_eq!(t.steps[8].is_error, Some(true));
        assert_eq!(t.steps[9].role.name(), "user");
        assert_eq!(t.steps[3].role.name(), "system");
        assert!(t.steps.iter().all(|s| s.kept_to.is_none()));
        let losses: Vec<&str> = sink.losses.0.keys().map(String::as_str).collect();
        assert_eq!(losses, ["event of the harness left out: ConversationStateUpdateEvent"]);
    }
}
