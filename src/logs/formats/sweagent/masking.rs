//! What SWE-agent sent in the place of old observations: all but the newest n are told by the number of their lines.
//!
//! The history processor stands in the configuration that version 1 logs. Version 0 logs none; its default was
//! `Last5Observations`. The first observation is the task, which always stays.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::{Content, Draft};
use crate::text::spans::n_lines;

/// What is known of a run before its steps.
pub(super) struct Run<'a> {
    /// The configuration: an object, or a text with one.
    pub(super) replay_config: Option<&'a str>,
    pub(super) is_version_0: bool,
    /// A model was asked, as far as is logged: not a person, and no replay.
    pub(super) was_a_model: bool,
}

/// An observation of the run.
pub(super) struct Observed {
    /// Its step, if it has one.
    pub(super) step: Option<usize>,
    /// The turn of its call.
    pub(super) turn: u32,
    pub(super) marker: Size,
    pub(super) tags: Vec<String>,
}

/// How long an observation was in the prompt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Size {
    n_lines: usize,
    n_images: usize,
}

impl Size {
    pub(super) fn of_text(text: &str) -> Self {
        Size { n_lines: n_lines(text), n_images: 0 }
    }

    pub(super) fn of(content: Option<&Content>) -> Self {
        match content {
            Some(Content::Text(text)) => Self::of_text(text),
            Some(Content::Blocks(blocks)) => Size {
                n_lines: blocks.iter().filter_map(|b| b.text.as_deref()).map(n_lines).sum(),
                n_images: blocks.iter().filter(|b| b.kind.as_deref() == Some("image_url")).count(),
            },
            _ => Size::default(),
        }
    }
}

/// A history processor that keeps the newest observations.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Policy {
    /// How many stay.
    n: usize,
    /// What stays changes only when their number reaches a multiple of this.
    polling: usize,
    remove_tags: Vec<String>,
    keep_tags: Vec<String>,
    is_version_0: bool,
}

#[derive(Deserialize)]
struct Config {
    agent: Option<AgentConfig>,
}

#[derive(Deserialize)]
struct AgentConfig {
    history_processors: Option<Vec<Box<RawValue>>>,
    /// Before version 1.0.
    history_processor: Option<Box<RawValue>>,
    /// The retry agent has several.
    agent_configs: Option<Vec<AgentConfig>>,
}

impl AgentConfig {
    /// None if it names none, not even an empty list.
    fn processors(self) -> Option<Vec<Box<RawValue>>> {
        let older = self.history_processor.map(|one| vec![one]);
        let of_first = self.agent_configs.and_then(|c| c.into_iter().next()).and_then(Self::processors);
        let all: Vec<_> = [self.history_processors, older, of_first].into_iter().flatten().collect();
        (!all.is_empty()).then(|| all.into_iter().flatten().collect())
    }
}

#[derive(Deserialize)]
struct Processor {
    #[serde(rename = "type")]
    kind: String,
    n: Option<usize>,
    polling: Option<usize>,
    always_remove_output_for_tags: Option<Vec<String>>,
    always_keep_output_for_tags: Option<Vec<String>>,
}

/// The policy of a run; none if all was sent as it stood.
pub(super) fn policy(run: &Run<'_>, losses: &mut Losses) -> Option<Policy> {
    let Some(logged) = run.replay_config else {
        let default =
            Policy { n: 5, polling: 1, remove_tags: Vec::new(), keep_tags: Vec::new(), is_version_0: true };
        return (run.is_version_0 && run.was_a_model).then_some(default);
    };
    let text = serde_json::from_str::<String>(logged).unwrap_or_else(|_| logged.to_owned());
    let Ok(config) = serde_json::from_str::<Config>(&text) else {
        losses.add("replay_config that cannot be read: what was sent is not known");
        return None;
    };
    let Some(processors) = config.agent.and_then(AgentConfig::processors) else {
        losses.add("replay_config without history processors: what was sent is not known");
        return None;
    };
    let mut found = None;
    for raw in processors {
        match serde_json::from_str::<Processor>(raw.get()) {
            Ok(Processor {
                kind,
                n: Some(n),
                polling,
                always_remove_output_for_tags: remove,
                always_keep_output_for_tags: keep,
            }) if kind == "last_n_observations" && n > 0 => {
                found = Some(Policy {
                    n,
                    polling: polling.unwrap_or(1).max(1),
                    remove_tags: remove.unwrap_or_else(|| vec!["remove_output".to_owned()]),
                    keep_tags: keep.unwrap_or_else(|| vec!["keep_output".to_owned()]),
                    is_version_0: false,
                });
            }
            // These change no text of an observation.
            Ok(p)
                if ["default", "cache_control", "tag_tool_call_observations"].contains(&p.kind.as_str()) => {}
            Ok(p) => losses.add(&format!(
                "history processor not replayed: {}",
                p.kind.chars().take(40).collect::<String>()
            )),
            Err(_) => losses.add("history processor that cannot be read"),
        }
    }
    found
}

impl Policy {
    /// In words, for the tables.
    pub(super) fn words(&self) -> String {
        if self.is_version_0 {
            return "SWE-agent 0 Last5Observations: the task and the newest 5 observations, older ones by their number of \
                    lines (its default: the log names none)"
                .to_owned();
        }
        let polling = if self.polling > 1 { format!(", polling {}", self.polling) } else { String::new() };
        format!(
            "SWE-agent last_n_observations: the task and the newest {} observations{polling}, older ones by their number \
             of lines",
            self.n
        )
    }

    /// Records the edits of the observations of a run; `n_said` user messages stood before the first call.
    pub(super) fn apply(&self, n_said: usize, observed: Vec<Observed>, draft: &mut Draft) {
        let turns: Vec<u32> = observed.iter().map(|o| o.turn).collect();
        for (i, observation) in observed.into_iter().enumerate() {
            let Some(step) = observation.step else {
                continue;
            };
            let has = |tags: &[String]| observation.tags.iter().any(|tag| tags.contains(tag));
            let masked = if has(&self.remove_tags) {
                Some(i + 1)
            } else {
                (!has(&self.keep_tags)).then(|| self.masked_at(i, n_said))
            };
            // The call at which it is masked may never have come.
            if let Some(from) = masked.and_then(|call| turns.get(call)) {
                draft.edit(step, *from, self.marker(observation.marker));
            }
        }
    }

    /// The number (from 0) of the call whose prompt is the first without observation `i`. Before call `k` there were
    /// `n_said + k` observations, of which the first is the task.
    fn masked_at(&self, i: usize, n_said: usize) -> usize {
        let needed = (n_said + i + self.n + 1).div_ceil(self.polling) * self.polling;
        (needed - n_said).max(i + 1)
    }

    fn marker(&self, size: Size) -> String {
        let Size { n_lines, n_images } = size;
        if self.is_version_0 {
            return format!("Old output omitted ({n_lines} lines)");
        }
        let images = if n_images > 0 { format!(" ({n_images} images omitted)") } else { String::new() };
        format!("Old environment output: ({n_lines} lines omitted){images}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy_of(config: &str) -> (Option<Policy>, Losses) {
        let mut losses = Losses::default();
        let run = Run { replay_config: Some(config), is_version_0: false, was_a_model: true };
        (policy(&run, &mut losses), losses)
    }

    /// The observations (from 0; the task is none of them) that are masked in the prompt of call `k`.
    fn masked(policy: &Policy, k: usize) -> Vec<usize> {
        (0..k).filter(|i| policy.masked_at(*i, 1) <= k).collect()
    }

    #[test]
    fn the_newest_n_stay_and_polling_waits() {
        let config = |polling: usize| {
            let text = format!(
                r#"{{"agent":{{"history_processors":[{{"type":"last_n_observations","n":3,"polling":{polling}}}]}}}}"#
            );
            policy_of(&serde_json::to_string(&text).unwrap()).0.unwrap()
        };
        // Eight observations with the task, n = 3: K o o o o K K K, with polling 3: K o o K K K K K.
        assert_eq!(masked(&config(1), 7), [0, 1, 2, 3]);
        assert_eq!(masked(&config(3), 7), [0, 1]);
        assert!(masked(&config(1), 3).is_empty());
    }

    #[test]
    fn configurations() {
        let (found, losses) = policy_of(
            r#"{"agent":{"history_processors":[{"type":"cache_control","last_n_messages":2},{"type":"remove_regex"}]}}"#,
        );
        assert_eq!(found, None);
        assert_eq!(losses.0["history processor not replayed: remove_regex"], 1);
        let older = r#"{"agent":{"history_processor":{"type":"last_n_observations","n":5}}}"#;
        assert_eq!(policy_of(older).0.map(|p| p.n), Some(5));
        assert_eq!(policy_of("7").1.0.len(), 1);
        let told = "replay_config without history processors: what was sent is not known";
        for config in
            [r#"{"config":{"history_processor":{"type":"Last2Observations"}}}"#, r#"{"agent":{"name":"a"}}"#]
        {
            let (found, losses) = policy_of(config);
            assert_eq!((found, losses.0[told]), (None, 1));
        }
        assert_eq!(policy_of(r#"{"agent":{"history_processors":[]}}"#), (None, Losses::default()));
        let run = |is_version_0, was_a_model| Run { replay_config: None, is_version_0, was_a_model };
        let found = |run| policy(&run, &mut Losses::default()).map(|p| p.n);
        assert_eq!(
            (found(run(true, true)), found(run(true, false)), found(run(false, true))),
            (Some(5), None, None)
        );
    }

    #[test]
    fn lines_as_python_splits_them() {
        for (text, n) in [("", 0), ("a", 1), ("a\n", 1), ("a\r\nb", 2), ("a\n\nb\u{2028}c\r", 4), ("\n", 1)] {
            assert_eq!(n_lines(text), n, "{text:?}");
        }
    }

    #[test]
    fn edits_begin_where_an_observation_is_the_sixth_newest() {
        let steps: Vec<_> = (1..=8)
            .map(|i| serde_json::json!({"action": format!("c{i}"), "observation": "x\ny", "thought": "t", "state": "{}"}))
            .collect();
        let mut history = vec![serde_json::json!({"role": "user", "content": "T"})];
        for i in 1..=8 {
            history.push(serde_json::json!({"role": "assistant", "content": "r", "action": format!("c{i}")}));
            history.push(serde_json::json!({"role": "user", "content": "x\ny\n(Open file: n/a)\nbash-$"}));
        }
        let json = serde_json::json!({"trajectory": steps, "history": history,
            "info": {"model_stats": {"api_calls": 8, "tokens_sent": 99}}})
        .to_string();
        let source = crate::logs::formats::Source::test("a__b-1.traj", "sweagent");
        let mut sink = crate::logs::formats::Sink::new(&source);
        super::super::read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let edits: Vec<(u32, u32, &str)> = t
            .steps
            .iter()
            .filter_map(|s| Some((s.turn, s.edit.as_ref()?)))
            .map(|(t, e)| (t, e.from, e.text.as_str()))
            .collect();
        // The first prompt has the task alone, the seventh the task and six observations, of which five stay.
        let text = "Old output omitted (4 lines)";
        assert_eq!(edits, [(1, 7, text), (2, 8, text)]);
        assert_eq!(t.tokens_sent, Some(99));
        assert!(t.policy.as_deref().unwrap().contains("Last5Observations"));
    }
}
