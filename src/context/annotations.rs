//! What is known of a trajectory beyond its log: annotations, placed on its steps.
//!
//! Annotations count logged messages and bytes of their text (the annotated form, DESIGN 11); everything else counts
//! steps. An entry that cannot be read, or whose words are not where it says, is left out and counted, never guessed.

use std::collections::HashMap;
use std::ops::Range;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::context::log::Log;
use crate::trajectory::{Kind, Role, Step};

/// Bytes of a step's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub step: u32,
    pub bytes: Range<u32>,
}

impl Place {
    pub fn text<'a>(&self, log: &'a Log) -> &'a str {
        &log.trajectory.steps[self.step as usize].text[self.bytes.start as usize..self.bytes.end as usize]
    }
}

/// What the agent is to achieve from a step on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Goal {
    pub step: u32,
    pub text: String,
}

/// What the agent has to heed from a step on, and until which, if not to the end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    pub text: String,
    pub category: String,
    pub step: u32,
    pub until: Option<u32>,
}

/// Words that must not be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Salient {
    /// goal, constraint, decision, fact or tool_output.
    pub kind: String,
    pub place: Place,
    /// The compression points (messages) that they must not be lost at; empty: all.
    pub points: Vec<u32>,
}

/// A question about what went before, asked at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    pub step: u32,
    /// goal, constraint, artifact, continuation or decision.
    pub kind: String,
    pub question: String,
    pub choices: Vec<String>,
    pub answer: usize,
    /// What one must have read to answer; empty where unknown.
    pub needs: Vec<Place>,
}

/// A value that took another's place at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superseded {
    pub key: String,
    pub old: String,
    pub new: String,
    pub step: u32,
}

/// All that is known; what is not known is empty, and of the constraints it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Annotations {
    pub goals: Vec<Goal>,
    pub constraints: Vec<Constraint>,
    /// Whether these are all: a list was given, be it empty, and some of it can be used if there is any.
    pub knows_constraints: bool,
    pub salient: Vec<Salient>,
    pub probes: Vec<Probe>,
    pub superseded: Vec<Superseded>,
    /// Steps with which a subtask ends, ascending.
    pub subtask_ends: Vec<u32>,
    /// Messages after which something could be compressed.
    pub points: Vec<u32>,
    /// Entries that could not be read or placed.
    pub n_unusable: usize,
}

#[derive(Deserialize)]
struct RawChange {
    step: u32,
    text: String,
}

#[derive(Deserialize)]
struct RawConstraint {
    text: String,
    #[serde(default)]
    category: String,
    step: u32,
    until: Option<u32>,
}

#[derive(Deserialize)]
struct RawSalient {
    step: u32,
    start: u32,
    end: u32,
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    #[serde(default)]
    points: Vec<u32>,
}

#[derive(Deserialize)]
struct RawProbe {
    step: u32,
    kind: String,
    question: String,
    choices: Vec<String>,
    answer: String,
    #[serde(default)]
    needs: Vec<(u32, u32, u32)>,
}

#[derive(Deserialize)]
struct RawSuperseded {
    key: String,
    old: String,
    new: String,
    step: u32,
}

impl Annotations {
    /// The annotations of a trajectory; none where it has none.
    pub fn of(log: &Log) -> Option<Self> {
        let value: Value = serde_json::from_str(log.trajectory.annotations.as_deref()?).ok()?;
        let steps = Steps::of(log);
        let mut all = Annotations::default();
        let mut unusable = 0;
        let is_user = |s: &Step| s.role == Role::User && s.kind == Kind::Message;
        let first_user = log.trajectory.steps.iter().position(is_user);
        if let (Some(text), Some(step)) = (value["goal"].as_str(), first_user) {
            all.goals.push(Goal { step: step as u32, text: text.to_owned() });
        }
        all.goals.extend(entries(&value["goal_changes"], &mut unusable, |raw: RawChange| {
            Some(Goal { step: steps.first(raw.step)?, text: raw.text })
        }));
        all.constraints = entries(&value["constraints"], &mut unusable, |raw: RawConstraint| {
            let until = raw.until.map(|message| steps.first(message));
            let (text, category) = (raw.text, raw.category);
            Some(Constraint { text, category, step: steps.first(raw.step)?, until: until.flatten() })
        });
        all.knows_constraints = !all.constraints.is_empty()
            || value["constraints"].as_array().is_some_and(|constraints| constraints.is_empty());
        all.salient = entries(&value["salient"], &mut unusable, |raw: RawSalient| {
            let place = steps.place(raw.step, raw.start..raw.end, raw.text.as_deref())?;
            Some(Salient { kind: raw.kind, place, points: raw.points })
        });
        all.probes = entries(&value["probes"], &mut unusable, |raw: RawProbe| {
            let needs: Option<Vec<Place>> =
                raw.needs.iter().map(|&(step, start, end)| steps.place(step, start..end, None)).collect();
            Some(Probe {
                step: steps.first(raw.step)?,
                answer: raw.choices.iter().position(|c| *c == raw.answer)?,
                kind: raw.kind,
                question: raw.question,
                choices: raw.choices,
                needs: needs?,
            })
        });
        all.superseded = entries(&value["superseded"], &mut unusable, |raw: RawSuperseded| {
            Some(Superseded { key: raw.key, old: raw.old, new: raw.new, step: steps.first(raw.step)? })
        });
        all.subtask_ends =
            entries(&value["subtask_ends"], &mut unusable, |message: u32| steps.first(message));
        all.subtask_ends.sort_unstable();
        all.points = entries(&value["compression_points"], &mut unusable, Some::<u32>);
        all.n_unusable = unusable;
        Some(all)
    }
}

/// The entries of a list that can be read and placed.
fn entries<R: DeserializeOwned, T>(
    list: &Value,
    unusable: &mut usize,
    mut place: impl FnMut(R) -> Option<T>,
) -> Vec<T> {
    let raw = list.as_array().map_or(&[][..], Vec::as_slice);
    let usable: Vec<T> =
        raw.iter().filter_map(|entry| R::deserialize(entry).ok()).filter_map(&mut place).collect();
    *unusable += raw.len() - usable.len();
    usable
}

/// From logged messages to steps.
struct Steps<'a> {
    log: &'a Log,
    of_message: HashMap<u32, Range<u32>>,
}

impl<'a> Steps<'a> {
    fn of(log: &'a Log) -> Self {
        let mut of_message: HashMap<u32, Range<u32>> = HashMap::new();
        for (i, step) in log.trajectory.steps.iter().enumerate() {
            let i = i as u32;
            of_message.entry(step.message).or_insert(i..i).end = i + 1;
        }
        Steps { log, of_message }
    }

    /// The first step of a message.
    fn first(&self, message: u32) -> Option<u32> {
        self.of_message.get(&message).map(|steps| steps.start)
    }

    /// Bytes of a message's text: of the step that it became, besides its calls.
    fn place(&self, message: u32, bytes: Range<u32>, text: Option<&str>) -> Option<Place> {
        let step =
            self.of_message.get(&message)?.clone().find(|&step| self.log.kind(step) != Kind::Action)?;
        let place = Place { step, bytes };
        let there = self.log.trajectory.steps[step as usize]
            .text
            .get(place.bytes.start as usize..place.bytes.end as usize)?;
        (!there.trim().is_empty() && text.is_none_or(|text| text == there)).then_some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(annotations: &str) -> Log {
        let mut log = Log::script(
            "system: be good
             user: Book a trip for é under $500.
             action: search trips
             observation: trip 7 costs $420
             agent: I take trip 7.",
        );
        log.trajectory.annotations = Some(annotations.to_owned());
        log
    }

    #[test]
    fn entries_are_placed_on_steps() {
        let log = log(r#"{"goal": "Book a trip", "goal_changes": [{"step": 4, "text": "Cancel"}],
            "constraints": [{"id": "C1", "text": "under $500", "category": "budget", "step": 1, "until": 4}],
            "salient": [{"step": 1, "start": 19, "end": 29, "type": "constraint", "text": "under $500"},
                        {"step": 3, "start": 0, "end": 6, "type": "fact"}],
            "probes": [{"step": 4, "kind": "artifact", "question": "Which?", "choices": ["trip 6", "trip 7"],
                        "answer": "trip 7", "needs": [[3, 0, 6]]}],
            "superseded": [{"key": "k", "old": "a", "new": "b", "step": 3}], "subtask_ends": [4, 3]}"#);
        let a = Annotations::of(&log).unwrap();
        assert_eq!(a.n_unusable, 0);
        let goals: Vec<_> = a.goals.iter().map(|g| (g.step, g.text.as_str())).collect();
        assert_eq!(goals, [(1, "Book a trip"), (4, "Cancel")]);
        assert_eq!((a.constraints[0].step, a.constraints[0].until), (1, Some(4)));
        let texts: Vec<_> = a.salient.iter().map(|s| s.place.text(&log)).collect();
        assert_eq!(texts, ["under $500", "trip 7"]);
        assert_eq!((a.probes[0].answer, a.probes[0].needs[0].text(&log)), (1, "trip 7"));
        assert_eq!(a.superseded[0].step, 3);
        assert_eq!(a.subtask_ends, [3, 4]);
    }

    #[test]
    fn an_empty_list_is_known_and_a_missing_one_is_not() {
        let knows = |annotations: &str| Annotations::of(&log(annotations)).unwrap().knows_constraints;
        assert!(knows(r#"{"constraints": []}"#));
        assert!(knows(r#"{"constraints": [{"text": "under $500", "step": 1}, 7]}"#));
        // Nobody knows what stood in those that cannot be read.
        for unknown in ["{}", r#"{"constraints": null}"#, r#"{"constraints": {}}"#, r#"{"constraints": [7]}"#]
        {
            assert!(!knows(unknown), "{unknown}");
        }
    }

    #[test]
    fn what_cannot_be_placed_is_left_out_and_counted() {
        let log = log(r#"{"salient": [
                {"step": 1, "start": 18, "end": 29, "type": "fact"},
                {"step": 1, "start": 17, "end": 19, "type": "fact"},
                {"step": 1, "start": 19, "end": 29, "type": "fact", "text": "over $500"},
                {"step": 9, "start": 0, "end": 1, "type": "fact"},
                {"step": 2, "start": 0, "end": 4, "type": "fact"},
                {"step": 1, "start": 900, "end": 4, "type": "fact"},
                "nonsense", {"step": 1}],
            "probes": [{"step": 1, "kind": "goal", "question": "?", "choices": ["a"], "answer": "b"}],
            "constraints": 7}"#);
        let a = Annotations::of(&log).unwrap();
        // Byte 17 is within the é; the first begins at its end, with the space.
        assert_eq!(a.salient.len(), 1);
        assert_eq!((a.n_unusable, a.probes.len(), a.constraints.len()), (8, 0, 0));
        assert_eq!(Annotations::of(&Log::script("user: hi\nagent: ho")), None);
    }
}
