//! What the agent is to achieve: the goal at the start, and the goal now.
//!
//! From the log: the statement of the first user message that is likeliest a goal, and of each later message that, if it is likely
//! enough (or a model says that the message gives another task). Odds are learned from labelled logs; each message is rated when it is first
//! seen (reports/hindsight has how often they are right). Where no message says anything, the goal that the log itself gives is taken.

use super::tasks;
use crate::context::annotations::{self, Annotations};
use crate::context::log::Log;
use crate::learn::probability;
use crate::learn::statements::{self, Reading};
use crate::strategies::Env;
use crate::text::sentences;
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
    /// From the log.
    #[default]
    Extracted,
    /// From annotations, be there some or not: a control, since it is scored on what it was given.
    Given,
    /// From the log, where a model says which later messages give another task.
    Model,
}

/// From this probability on a statement of a later message is the goal. (Chosen on other repositories than are reported.)
const LEAST: f64 = 0.4;

/// Reads the goals of a log from event to event, each step once.
#[derive(Default)]
pub(crate) struct Reader {
    annotations: Option<Option<Annotations>>,
    /// Steps that were read.
    read: u32,
    /// Goals that the log states, up to there.
    said: Vec<Goal>,
    /// What a model said of later messages, where one was asked: steps, and whether they give another task.
    judged: Vec<(u32, bool)>,
}

impl Reader {
    /// The annotations of the log; none where it has none.
    pub(crate) fn annotations(&mut self, log: &Log) -> Option<&Annotations> {
        self.annotations.get_or_insert_with(|| Annotations::of(log)).as_ref()
    }

    /// The goals that are known before step `until`, which must not be before an earlier one, and those of them that were
    /// stated from step `since` on.
    pub(crate) fn before(
        &mut self,
        log: &Log,
        origin: Origin,
        since: u32,
        until: u32,
        learned: &mut Reading<'_>,
    ) -> Goals {
        if origin == Origin::Given {
            let all = self.annotations(log).map_or(&[][..], |known| &known.goals);
            let known: Vec<Goal> =
                all.iter().filter(|goal| goal.step < until).map(|g| given(log, g)).collect();
            return of(known, since);
        }
        self.read(log, until, learned);
        let own = if self.said.is_empty() { own(log) } else { None };
        of(self.said.iter().cloned().chain(own).collect(), since)
    }

    /// Asks a model which of the messages before step `until` give another task than the first; to be called before
    /// [`Reader::before`]. What it cannot say is left to the odds.
    pub(crate) fn judge(&mut self, log: &Log, until: u32, env: &mut Env<'_>) -> anyhow::Result<()> {
        let mut messages = (self.read..until).filter_map(|step| Some((step, message(log, step)?)));
        let original = self.said.first().map(|goal| goal.text.as_str());
        let Some(original) = original.or_else(|| messages.next().map(|(_, text)| text)) else {
            return Ok(());
        };
        let (steps, texts): (Vec<u32>, Vec<&str>) = messages.unzip();
        if let Some(changes) = tasks::judge(original, &texts, env)? {
            self.judged.extend(steps.into_iter().zip(changes));
        }
        Ok(())
    }

    /// Reads what the log states up to a step.
    fn read(&mut self, log: &Log, until: u32, learned: &mut Reading<'_>) {
        let steps: Vec<u32> = (self.read..until).filter(|&step| message(log, step).is_some()).collect();
        self.read = self.read.max(until);
        if steps.is_empty() {
            return;
        }
        let odds = |rated: &statements::Rated| learned.weights.goals.odds(rated);
        let rated = learned.statements.rate(log, &steps, until);
        for of_message in rated.chunk_by(|a, b| a.step == b.step) {
            // Of equals the first.
            let likeliest = of_message.iter().rev().max_by(|a, b| odds(a).total_cmp(&odds(b)));
            let Some(likeliest) = likeliest else { continue };
            let judged = self.judged.binary_search_by_key(&likeliest.step, |(step, _)| *step);
            let is_goal = match judged {
                _ if self.said.is_empty() => true,
                Ok(at) => self.judged[at].1,
                Err(_) => probability(odds(likeliest)) >= LEAST,
            };
            if is_goal {
                let text = &log.trajectory.steps[likeliest.step as usize].text;
                let (start, end) = (likeliest.bytes.start, likeliest.bytes.end);
                let text = text[start as usize..end as usize].to_owned();
                self.said.push(Goal { step: likeliest.step, text, start: Some(start) });
            }
        }
    }
}

/// The first and the last of some goals, and those since a step.
fn of(known: Vec<Goal>, since: u32) -> Goals {
    let (original, current) = (known.first().cloned(), known.last().cloned());
    Goals { original, current, stated: known.into_iter().filter(|goal| goal.step >= since).collect() }
}

fn given(log: &Log, goal: &annotations::Goal) -> Goal {
    let at = log.trajectory.steps[goal.step as usize].text.find(&goal.text);
    Goal { step: goal.step, text: goal.text.clone(), start: at.map(|at| at as u32) }
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

/// What a user says in a step; none where another one speaks.
fn message(log: &Log, step: u32) -> Option<&str> {
    let step = &log.trajectory.steps[step as usize];
    (step.role == Role::User && step.kind == Kind::Message).then_some(&step.text)
}

/// The goal that the log itself gives: its first statement. No annotation.
fn own(log: &Log) -> Option<Goal> {
    let text = log.trajectory.goal.as_deref().filter(|_| log.trajectory.annotations.is_none())?;
    let first = sentences::statements(text, true).into_iter().next()?;
    Some(Goal { step: 0, text: text[first].to_owned(), start: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learn::Weights;
    use crate::learn::statements::Statements;

    fn log() -> Log {
        let mut log = Log::script(
            "user: Please write a forecast of the visitors for each pool in summer.
            agent: I start.
            user: Thanks!
            agent: Gladly.
            user: Implement the following plan: write each row of the table once.
            agent: Well.
            user: ok
            agent: So.",
        );
        log.trajectory.annotations =
            Some(r#"{"goal": "a forecast", "goal_changes": [{"step": 4, "text": "the export"}]}"#.to_owned());
        log
    }

    fn goals(origin: Origin, until: u32) -> (Option<String>, Option<String>) {
        let (log, mut reader, mut statements) = (log(), Reader::default(), Statements::default());
        let weights = Weights::named("").unwrap();
        let mut learned = Reading { statements: &mut statements, weights: &weights };
        let read = |until| reader.before(&log, origin, 0, until, &mut learned);
        let goals = (0..=until).map(read).last().unwrap();
        (goals.original.map(|goal| goal.text), goals.current.map(|goal| goal.text))
    }

    const FORECAST: &str = "Please write a forecast of the visitors for each pool in summer.";
    const EXPORT: &str = "Implement the following plan: write each row of the table once.";

    #[test]
    fn the_log_states_goals_and_their_changes() {
        let both = |now: &str| (Some(FORECAST.to_owned()), Some(now.to_owned()));
        assert_eq!(goals(Origin::Extracted, 4), both(FORECAST));
        assert_eq!(goals(Origin::Extracted, 8), both(EXPORT));
        assert_eq!(goals(Origin::Extracted, 0), (None, None));
    }

    /// Read step by step, each message is rated when it comes, and what a message said since stays known.
    #[test]
    fn goals_that_were_stated_since_a_step() {
        let (log, mut reader, mut statements) = (log(), Reader::default(), Statements::default());
        let weights = Weights::named("").unwrap();
        let mut learned = Reading { statements: &mut statements, weights: &weights };
        let mut stated = Vec::new();
        for until in 1..=8 {
            let goals = reader.before(&log, Origin::Extracted, 2, until, &mut learned);
            assert_eq!(goals.has_changed(), until > 4, "{until}");
            stated = goals.stated;
        }
        assert_eq!(stated.iter().map(|goal| (goal.step, goal.start)).collect::<Vec<_>>(), [(4, Some(0))]);
        assert!(stated[0].stands(4, &(0..9)) && !stated[0].stands(4, &(1..12)));
    }

    #[test]
    fn annotated_changes_count_once_their_step_has_passed() {
        let both = |now: &str| (Some("a forecast".to_owned()), Some(now.to_owned()));
        assert_eq!(goals(Origin::Given, 4), both("a forecast"));
        assert_eq!(goals(Origin::Given, 5), both("the export"));
    }

    #[test]
    fn where_nobody_says_anything_the_log_gives_the_goal() {
        let mut log = Log::script("action: ls\nobservation: a b");
        let mut of = |goal: Option<&str>| {
            log.trajectory.goal = goal.map(str::to_owned);
            let (mut statements, weights) = (Statements::default(), Weights::named("").unwrap());
            let mut learned = Reading { statements: &mut statements, weights: &weights };
            let goals = Reader::default().before(&log, Origin::Extracted, 0, 2, &mut learned);
            goals.current.map(|goal| goal.text)
        };
        assert_eq!(of(Some("Mend the parser. It fails.")).as_deref(), Some("Mend the parser."));
        assert_eq!(of(None), None);
    }
}
