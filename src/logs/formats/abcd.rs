//! ABCD customer dialogues: `{convo_id, scenario, original: [[speaker, text]]}`. The agent is a person; what its buttons did (`action`) is
//! an observation.

use super::reading::names::Name;
use super::reading::{Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry =
    Entry { name: "abcd", summary: "ABCD customer dialogues", reading: Reading::Values(read) };

record! {
    struct Run in "abcd" {
        convo_id: Name = "convo_id",
        scenario: Scenario = "scenario",
        original: List<(String, String)> = "original",
        delexed: List<Said> = "delexed",
    }

    struct Scenario in "abcd.scenario" {
        flow: String = "flow",
        subflow: String = "subflow",
    }

    struct Said in "abcd.delexed" {
        speaker: String = "speaker",
        text: String = "text",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let mut draft = Draft::new();
    let delexed = run.delexed.unwrap_or_default().0.into_iter();
    // The same twice; in the second form names are blanked out.
    let said = match run.original {
        Some(List(original)) => original,
        None => {
            delexed.map(|said| (said.speaker.unwrap_or_default(), said.text.unwrap_or_default())).collect()
        }
    };
    for (i, (speaker, text)) in said.into_iter().enumerate() {
        draft.at(i, None);
        match speaker.as_str() {
            "agent" => draft.agent(Kind::Message, text),
            "action" => draft.observation(text, None),
            _ => draft.user(text),
        }
    }
    let scenario = run.scenario.unwrap_or_default();
    let about = Trajectory {
        task_id: run
            .convo_id
            .map(|id| format!("{}-{}", scenario.subflow.as_deref().unwrap_or("dialogue"), id.0)),
        repository: scenario.flow.map(|flow| format!("abcd/{flow}")),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    #[test]
    fn a_dialogue() {
        let source = Source::test("d/abcd.json", "abcd");
        let mut sink = Sink::new(&source);
        let json = r#"{"convo_id":7,"scenario":{"flow":"defect","subflow":"size"},"delexed":[{"speaker":"agent","text":"hi"}],"original":
            [["agent","Hi!"],["customer","A return."],["agent","Sure."],["agent","Which?"],["action","Order found."],["agent","Done."]]}"#;
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let outline: Vec<String> =
            t.steps.iter().map(|s| format!("{} {} {}", s.turn, s.role.name(), s.text)).collect();
        assert_eq!(
            outline,
            [
                "1 agent Hi!",
                "2 user A return.",
                "2 agent Sure.",
                "2 agent Which?",
                "2 tool Order found.",
                "2 agent Done."
            ]
        );
        assert_eq!((t.task_id.as_deref(), t.repository.as_deref()), (Some("size-7"), Some("abcd/defect")));
        assert_eq!(sink.losses.0.len(), 0);
    }
}
