//! What the agent is to achieve: the goal at the start, and the goal now.
//!
//! From annotations, each once its step has passed; or from the log: the sentence of the first user message that asks
//! for something, and later user messages that say that the task is another one ("change of plan", "forget", "back
//! to"). A goal that comes back is the first one again.

use super::rules::{self, content_words};
use crate::annotations::Annotations;
use crate::features::sentences;
use crate::log::Log;
use crate::trajectory::{Kind, Role};

/// A goal, and where it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Goal {
    pub(crate) step: u32,
    pub(crate) text: String,
    /// Where its words stand in the step, if they do.
    pub(crate) start: Option<u32>,
}

/// The goals up to a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Goals {
    pub(crate) original: Option<Goal>,
    pub(crate) current: Option<Goal>,
    /// All that were stated since some step, in force or not.
    pub(crate) stated: Vec<Goal>,
}

/// Where goals and constraints come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// From annotations where there are some, else from the log.
    #[default]
    Auto,
    Annotations,
    Extracted,
}

/// A message is read up to here: a task that goes on for pages says what it wants at its start.
const MAX_BYTES: usize = 8 << 10;

/// Each says by itself that the task is another one.
const STRONG: &[&str] = &[
    "change of plan",
    "change of plans",
    "forget the",
    "forget that",
    "forget what",
    "forget about",
    "scratch that",
    "never mind the",
    "new task",
    "new goal",
    "new focus",
    "new job",
    "another job",
    "another task",
    "new priority",
    "priorities moved",
    "priorities changed",
    "priorities have changed",
    "changed its mind",
    "changed my mind",
    "changed their mind",
    "changed our mind",
    "changed his mind",
    "changed her mind",
    "back to the",
    "back at the",
    "return to the",
    "off the table",
    "on hold",
    "drop the first",
    "stop working on",
    "something else",
    "rather have you",
    "first task",
    "first job",
    "first question",
    "first idea",
    "first wish",
    "original job",
    "original task",
    "original goal",
    "instead of that",
    "the job is another",
    "the task is another",
    "i asked first",
    "what i want instead",
    "vergiss",
    "planänderung",
    "zurück zu",
    "zurück zum",
    "zurück zur",
    "neue aufgabe",
    "neues ziel",
];

/// Two of these together do.
const WEAK: &[&str] = &[
    "instead",
    "actually",
    "stop",
    "wait",
    "for now",
    "after all",
    "again",
    "overruled",
    "the other thing",
    "can wait",
    "not any more",
    "parked",
    "aside",
    "stattdessen",
    "doch",
    "jetzt",
];

/// Reads the goals of a log from event to event, each step once.
#[derive(Default)]
pub(crate) struct Reader {
    annotations: Option<Option<Annotations>>,
    /// Steps that were read.
    read: u32,
    /// Goals that the log states, up to there.
    said: Vec<Goal>,
    /// Which of them is in force: one that comes back is the first again.
    current: usize,
}

impl Reader {
    /// The annotations of the log; none where it has none.
    pub(crate) fn annotations(&mut self, log: &Log) -> Option<&Annotations> {
        self.annotations.get_or_insert_with(|| Annotations::of(log)).as_ref()
    }

    /// The goals that are known before step `until`, which must not be before an earlier one, and those of them that were
    /// stated from step `since` on.
    pub(crate) fn before(&mut self, log: &Log, origin: Origin, since: u32, until: u32) -> Goals {
        let goal = |goal: &crate::annotations::Goal| {
            let at = log.trajectory.steps[goal.step as usize].text.find(&goal.text);
            Goal { step: goal.step, text: goal.text.clone(), start: at.map(|at| at as u32) }
        };
        let annotated = |reader: &mut Self| {
            let all = reader.annotations(log).map_or(&[][..], |known| &known.goals);
            let mut known = all.iter().filter(|goal| goal.step < until);
            let stated = known.clone().filter(|goal| goal.step >= since).map(goal).collect();
            let original = known.next();
            Goals { original: original.map(goal), current: known.next_back().or(original).map(goal), stated }
        };
        let goals = if origin == Origin::Extracted { Goals::default() } else { annotated(self) };
        if origin == Origin::Annotations || goals.original.is_some() {
            return goals;
        }
        self.read(log, until);
        let stated = self.said[self.said.partition_point(|goal| goal.step < since)..].to_vec();
        Goals { original: self.said.first().cloned(), current: self.said.get(self.current).cloned(), stated }
    }

    /// Reads what the log states up to a step.
    fn read(&mut self, log: &Log, until: u32) {
        for step in self.read..until {
            let logged = &log.trajectory.steps[step as usize];
            let first = self.said.is_empty();
            if logged.role != Role::User
                || logged.kind != Kind::Message
                || !(first || is_change(&logged.text))
            {
                continue;
            }
            let Some(goal) = stated(step, &logged.text, !first) else { continue };
            let is_back = self.said.first().is_some_and(|original| is_same(original, &goal));
            self.current = if is_back { 0 } else { self.said.len() };
            self.said.push(goal);
        }
        self.read = self.read.max(until);
    }
}

impl Goal {
    /// Whether it was stated here.
    pub(crate) fn stands(&self, step: u32, bytes: &std::ops::Range<u32>) -> bool {
        self.step == step && self.start.is_some_and(|start| bytes.contains(&start))
    }
}

impl Goals {
    /// Whether the first goal or the one in force was stated here.
    pub(crate) fn is_in_force(&self, step: u32, bytes: &std::ops::Range<u32>) -> bool {
        self.original.iter().chain(&self.current).any(|goal| goal.stands(step, bytes))
    }

    /// Whether the goal is another one than at the start.
    pub(crate) fn has_changed(&self) -> bool {
        let text = |goal: &Option<Goal>| goal.as_ref().map(|goal| goal.text.clone());
        text(&self.original) != text(&self.current)
    }
}

/// Whether a user message gives the agent another task. Who forgets a number ("forget the $500") corrects it, and no more.
pub(crate) fn is_change(text: &str) -> bool {
    let plain = rules::plain(clipped(text));
    let corrects = |cue: &str| {
        let after = plain.split(&format!(" {cue} ")).skip(1).collect::<Vec<_>>();
        !after.is_empty() && after.iter().all(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let count =
        |cues: &[&str]| cues.iter().filter(|cue| rules::holds(&plain, &[cue]) && !corrects(cue)).count();
    count(STRONG) > 0 || count(WEAK) > 1
}

/// What introduces a task that stands further down: a line with such a word that ends with a colon, or a tag of that name.
const INTRODUCES: &[&str] = &[
    "issue",
    "pr_description",
    "pr description",
    "problem_statement",
    "task",
    "plan",
    "command-args",
    "instructions",
];

/// The line that is the title of a task in a message that introduces one; where it begins.
///
/// Benchmarks wrap an issue in pages of instructions, whose requests are the same in each run.
fn title(text: &str) -> Option<std::ops::Range<usize>> {
    let mut is_introduced = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let from = start;
        start += line.len();
        let mut bare = line.trim();
        // A tag may have its text on the same line.
        if let Some((tag, rest)) = bare.strip_prefix('<').and_then(|bare| bare.split_once('>'))
            && INTRODUCES.iter().any(|word| tag.to_lowercase().contains(word))
        {
            is_introduced |= !tag.starts_with('/');
            bare = rest.split('<').next().unwrap_or(rest).trim();
        }
        if bare.ends_with(':') && bare.len() < 200 {
            let lower = bare.to_lowercase();
            is_introduced |= INTRODUCES.iter().any(|word| lower.contains(word));
            continue;
        }
        let bare = bare.trim_start_matches(['#', '*', ' ']);
        if is_introduced && !bare.is_empty() && !bare.starts_with("<!--") && !bare.starts_with("```") {
            let at = from + line.find(bare)?;
            return Some(at..at + bare.len());
        }
    }
    None
}

/// The title of the task that a message introduces, or the sentence that asks for something; its first that says something if
/// none does.
fn stated(step: u32, text: &str, is_change: bool) -> Option<Goal> {
    let text = clipped(text);
    let mut statements = sentences::statements(text, true);
    if let Some(title) = title(text) {
        statements = vec![title];
    }
    let weight = |range: &std::ops::Range<usize>| {
        let plain = rules::plain(&text[range.clone()]);
        let n_words = plain.split_whitespace().count();
        let asks = rules::holds(&plain, rules::REQUEST);
        let changes = is_change && rules::holds(&plain, STRONG);
        let greets = rules::holds(&plain, &["hello", "hi", "good morning", "morning", "hallo", "thanks"]);
        let words = content_words(&text[range.clone()]).len();
        // Of two that weigh the same the one that asks is the goal; the other announces it.
        let weight = (2 * i32::from(asks) + 2 * i32::from(changes) + i32::from(words > 2)
            - 2 * i32::from(n_words < 4))
            - i32::from(greets && n_words < 4);
        (weight, asks)
    };
    let best =
        statements.iter().enumerate().max_by_key(|(at, range)| (weight(range), std::cmp::Reverse(*at)))?;
    let range = best.1.clone();
    Some(Goal { step, start: Some(range.start as u32), text: text[range].to_owned() })
}

/// Whether two goals are one: most of the shorter one's content words stand in the other.
fn is_same(a: &Goal, b: &Goal) -> bool {
    let (a, b) = (content_words(&a.text), content_words(&b.text));
    let shared = a.iter().filter(|word| b.binary_search(word).is_ok()).count();
    shared >= 2 && 5 * shared >= 3 * a.len().min(b.len())
}

fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        let mut log = Log::script(
            "system: be good
             user: Morning! Please write a forecast of the visitors for each pool. No names in it.
             agent: I start.
             user: Thanks. How far are you?
             agent: Half.
             user: Stop, change of plan. Forget the forecast, I need to know what shared season cards cost us.
             agent: Well.
             user: So. Back to the forecast of the visitors for each pool.
             agent: Good.",
        );
        log.trajectory.annotations = Some(
            r#"{"goal": "write a forecast", "goal_changes": [{"step": 5, "text": "cost of cards"}]}"#
                .to_owned(),
        );
        log
    }

    fn goals(origin: Origin, until: u32) -> (Option<String>, Option<String>) {
        let log = log();
        // What was read before makes no difference.
        let mut reader = Reader::default();
        reader.before(&log, origin, 0, until / 2);
        let goals = reader.before(&log, origin, 0, until);
        assert_eq!(Reader::default().before(&log, origin, 0, until), goals);
        let text = |goal: Option<Goal>| goal.map(|goal| goal.text);
        (text(goals.original), text(goals.current))
    }

    #[test]
    fn the_log_states_goals_and_their_changes() {
        let first = Some("Please write a forecast of the visitors for each pool.".to_owned());
        assert_eq!(goals(Origin::Extracted, 0), (None, None));
        assert_eq!(goals(Origin::Extracted, 5), (first.clone(), first.clone()));
        let (_, current) = goals(Origin::Extracted, 6);
        assert!(current.unwrap().contains("season cards cost us"));
        assert_eq!(goals(Origin::Extracted, 8), (first.clone(), first));
    }

    #[test]
    fn goals_that_were_stated_since_a_step() {
        let log = log();
        let steps = |origin, since| -> Vec<u32> {
            Reader::default().before(&log, origin, since, 9).stated.iter().map(|goal| goal.step).collect()
        };
        assert_eq!(steps(Origin::Extracted, 0), [1, 5, 7]);
        assert_eq!(steps(Origin::Extracted, 2), [5, 7]);
        assert_eq!(steps(Origin::Annotations, 2), [5]);
    }

    #[test]
    fn annotated_changes_count_once_their_step_has_passed() {
        let first = Some("write a forecast".to_owned());
        assert_eq!(goals(Origin::Annotations, 5), (first.clone(), first.clone()));
        assert_eq!(goals(Origin::Auto, 6), (first.clone(), Some("cost of cards".to_owned())));
        assert_eq!(goals(Origin::Annotations, 1), (None, None));
    }

    #[test]
    fn a_task_that_is_introduced_is_the_goal() {
        for (text, goal) in [
            (
                "We solve the following issue. Here's the issue text:\nISSUE:\n[ENH]: Add a getter\n### Problem\nPlease help.",
                "[ENH]: Add a getter",
            ),
            (
                "<uploaded_files>\n/testbed\n</uploaded_files>\nConsider the following PR description:\n\n<pr_description>\n`to_snake` bug\n### Checks\n</pr_description>\n\nCan you help me?",
                "`to_snake` bug",
            ),
            (
                "<pr_description>\nConsider the following PR description:\nWarnings from numpy\n",
                "Warnings from numpy",
            ),
            ("Implement the following plan:\n\n# Plan: Ask in time\n\n## Context", "Plan: Ask in time"),
            (
                "<command-name>/review</command-name>\n<command-args>the new tests</command-args>",
                "the new tests",
            ),
            (
                "Hello there! Could you solve the issue with the lamp? I am at home.",
                "Could you solve the issue with the lamp?",
            ),
        ] {
            let found = stated(0, text, false).unwrap();
            assert_eq!(found.text, goal);
            assert!(text[found.start.unwrap() as usize..].starts_with(goal));
        }
    }

    #[test]
    fn what_announces_a_change_is_not_the_goal() {
        let text = "The board changed its mind. Please draw a map of the harbour.";
        assert_eq!(stated(0, text, true).unwrap().text, "Please draw a map of the harbour.");
        let text = "Back to the map of the harbour. It is raining again.";
        assert_eq!(stated(0, text, true).unwrap().text, "Back to the map of the harbour.");
    }

    #[test]
    fn what_is_no_change() {
        for text in [
            "Thanks.",
            "Forget the 20 euros, it must not exceed 30.",
            "Use the new parser instead of the old one.",
            "Wait for the tests, please.",
            "",
        ] {
            assert!(!is_change(text), "{text}");
        }
        for text in ["Actually no, stop that.", "Vergiss den Bericht.", "Scratch that, do the cards."] {
            assert!(is_change(text), "{text}");
        }
    }
}
