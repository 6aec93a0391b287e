//! Puts together the figure of `inspect --timeline`: what happened in each turn, and where each trigger would fire.

use std::path::Path;

use crate::context::log::Log;
use crate::models::Model;
use crate::report::{Fired, Group, Key, Look, Row, Span, Timeline};
use crate::triggers::{self, Firing, Moment};
use crate::turns::Touch;
use crate::turns::intents::Intent;

/// The triggers shown, with their defaults: the others want a window, annotations, or what the log itself compacted.
const SHOWN: [&str; 6] = ["turns", "subtask", "intent", "boundary", "staleness", "hybrid"];
/// What looks say.
const FILES: [(Look, &str); 3] = [(Look::Light, "read"), (Look::Middle, "run"), (Look::Dark, "edited")];
const RUNS: [(Look, &str); 3] = [(Look::Good, "passed"), (Look::Bad, "failed"), (Look::Light, "unknown")];
const TRIGGERS: [(Look, &str); 2] = [
    (Look::Tick, "fires before this turn"),
    (Look::Scope, "takes these turns; staleness: observations in them"),
];
/// Rows of files at most: those touched most.
const MOST_FILES: usize = 10;

/// Draws the timeline of a log into a file, as its ending says: svg, png, or json with what the figure shows. With a model
/// intents are also told by it.
pub(super) fn write(log: &Log, model: Option<&dyn Model>, path: &Path) -> anyhow::Result<()> {
    timeline(log, model).and_then(|figure| figure.write(path))
}

fn timeline(log: &Log, model: Option<&dyn Model>) -> anyhow::Result<Timeline> {
    let t = &log.trajectory;
    let agent = t.agent.as_deref().unwrap_or(&t.format);
    let title = format!("{agent}, {} ({} turns)", t.task_id.as_deref().unwrap_or(&t.id), t.n_turns());
    let group = |name: &str, keys: &[(Look, &'static str)], rows| {
        let keys = keys.iter().map(|&(look, name)| Key { look, name }).collect();
        Group { name: name.to_owned(), keys, rows }
    };
    let by_odds = log.facts().turns.iter().map(|facts| facts.intent);
    let mut groups = vec![group("Intent, by learned odds", &[], intents(by_odds))];
    if let Some(model) = model {
        // Turn 0 is what stands before the first turn.
        let told = triggers::intents_by_model(log, 1..log.turns.len() as u32, model)?;
        let told = std::iter::once(None).chain(told);
        groups.push(group(&format!("Intent, by {}", model.card().name), &[], intents(told)));
    }
    groups.extend([
        group("Files", &FILES, files(log)),
        group("Tests and programs", &RUNS, runs(log)),
        group("Triggers", &TRIGGERS, SHOWN.iter().map(|name| firings(log, name)).collect::<Result<_, _>>()?),
    ]);
    Ok(Timeline { title: printable(&title), turns: t.n_turns(), groups })
}

/// Text of a log without control characters.
fn printable(text: &str) -> String {
    text.chars().map(|c| if crate::text::escape::acts(c) { ' ' } else { c }).collect()
}

fn turn(turn: usize, look: Look) -> Span {
    Span { from: turn as u32, to: turn as u32, look, firing: None }
}

/// A row for each intent, of what was told of each turn from the first on.
fn intents(told: impl Iterator<Item = Option<(Intent, f64)>>) -> Vec<Row> {
    let told: Vec<Option<(Intent, f64)>> = told.collect();
    let row = |intent: Intent| {
        let of = told.iter().enumerate().filter(|(_, told)| told.is_some_and(|told| told.0 == intent));
        Row { name: intent.name().to_owned(), spans: of.map(|(at, _)| turn(at, Look::Dark)).collect() }
    };
    Intent::ALL.into_iter().map(row).collect()
}

fn files(log: &Log) -> Vec<Row> {
    let facts = log.facts();
    let mut spans: Vec<Vec<Span>> = vec![Vec::new(); facts.names.len()];
    for (at, here) in facts.turns.iter().enumerate() {
        for (file, touch) in &here.files {
            let look = match touch {
                Touch::Read => Look::Light,
                Touch::Run => Look::Middle,
                Touch::Edit => Look::Dark,
            };
            spans[*file as usize].push(turn(at, look));
        }
    }
    let mut order: Vec<usize> = (0..spans.len()).filter(|&file| !spans[file].is_empty()).collect();
    order.sort_by_key(|&file| (std::cmp::Reverse(spans[file].len()), file));
    order.truncate(MOST_FILES);
    order.sort_by_key(|&file| spans[file][0].from);
    let short = |name: &str| {
        let parts: Vec<&str> = name.rsplit('/').take(2).collect();
        printable(&parts.into_iter().rev().collect::<Vec<_>>().join("/"))
    };
    order
        .into_iter()
        .map(|file| Row { name: short(&facts.names[file]), spans: spans[file].clone() })
        .collect()
}

fn runs(log: &Log) -> Vec<Row> {
    let turns = || log.facts().turns.iter().enumerate();
    let look = |passed: Option<bool>| match passed {
        Some(true) => Look::Good,
        Some(false) => Look::Bad,
        None => Look::Light,
    };
    let tests = turns().filter_map(|(at, facts)| Some(turn(at, look(facts.test?.passed)))).collect();
    let programs = turns().filter_map(|(at, facts)| Some(turn(at, look(Some(facts.ran_well?))))).collect();
    vec![Row { name: "tests".to_owned(), spans: tests }, Row { name: "programs".to_owned(), spans: programs }]
}

/// Where a trigger fires, with the turns that would be compressed; `turns` is shown as N=21, M=10.
fn firings(log: &Log, name: &str) -> anyhow::Result<Row> {
    let mut params = toml::Table::new();
    if name == "turns" {
        params.insert("keep".to_owned(), toml::Value::Integer(10));
    }
    let trigger = triggers::build(name, params)?;
    let mut spans = Vec::new();
    let mut number = 0;
    let mut first = 1;
    for segment in log.turns.get(1..).unwrap_or_default().chunk_by(|a, b| a.segment == b.segment) {
        let end = first + segment.len() as u32;
        let mut detector = trigger.detector(log, first);
        let mut from = first;
        for turn in (first..end).filter(|&turn| log.turns[turn as usize].decision.is_some()) {
            let moment = Moment { log, turn, context_tokens: 0, messages: None };
            let Some(firing) = detector.advance(&moment) else { continue };
            number += 1;
            let fired = Some(Fired { number, kind: firing.kind });
            let taken = taken(log, &firing, &mut from).into_iter();
            spans.extend(taken.map(|(from, to)| Span { from, to, look: Look::Scope, firing: fired }));
            spans.push(Span { from: turn, to: turn, look: Look::Tick, firing: fired });
        }
        first = end;
    }
    Ok(Row { name: name.to_owned(), spans })
}

/// The turns that a firing takes, or those of the steps that it takes; whole turns from `from` on, which moves behind them.
fn taken(log: &Log, firing: &Firing, from: &mut u32) -> Vec<(u32, u32)> {
    if let Some(steps) = &firing.only {
        let mut turns: Vec<u32> = steps.iter().map(|&step| log.turn_of(step)).collect();
        turns.dedup();
        return turns.into_iter().map(|turn| (turn, turn)).collect();
    }
    if firing.scope_end <= *from {
        return Vec::new();
    }
    vec![(std::mem::replace(from, firing.scope_end), firing.scope_end - 1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_for_each_trigger_and_file() {
        let log = Log::script(
            "user: u
             action: cat src/a.py
             observation: x
             action: sed -i s/a/b/ src/a.py
             observation: x
             action: pytest tests
             observation: 1 passed in 1s
             action: cat src/a.py
             observation: x
             action: cat src/b.py
             observation: y
             action: cat src/b.py
             observation: y
             agent: all done",
        );
        let t = timeline(&log, None).unwrap();
        let named = |group: usize| -> Vec<&str> {
            t.groups[group].rows.iter().map(|row| row.name.as_str()).collect()
        };
        assert_eq!((t.turns, named(0).len(), named(1)), (7, 6, vec!["src/a.py", "src/b.py"]));
        assert_eq!(named(3), SHOWN);
        assert_eq!(t.groups[2].rows[0].spans, [turn(3, Look::Good)]);
        // Another file at turn 5: it fires before turn 6, over turns 1 to 4.
        let firing = Some(Fired { number: 1, kind: "boundary/file" });
        let boundary = &t.groups[3].rows[3].spans;
        let expected =
            [Span { from: 1, to: 4, look: Look::Scope, firing }, Span { firing, ..turn(6, Look::Tick) }];
        assert_eq!(boundary[..], expected);
        let json = serde_json::to_value(boundary[1]).unwrap();
        let told =
            serde_json::json!({ "from": 6, "to": 6, "look": "tick", "number": 1, "kind": "boundary/file" });
        assert_eq!(json, told);
    }

    #[test]
    fn a_model_tells_intents_beside_the_rules() {
        use crate::models::scripted::Scripted;
        use crate::models::{Answer, Call, Card, Scores, TokenScore};
        let log = Log::script("user: u\naction: cat src/a.py\nobservation: x\nagent: all done");
        let card = Card { name: "judge".to_owned(), identity: "test".to_owned(), window: 999 };
        // What is done in src/a.py is a refactoring; of all else it likes every label the same.
        let model = Scripted::rule(card, |call| {
            let Call::Score { prompt, continuations } = call else { return None };
            let is_it = prompt.parts.iter().any(|part| part.text.contains("src/a.py"));
            let score = |label: &String| {
                let logprob = if is_it && label == " refactor" { -0.1 } else { -5.0 };
                vec![TokenScore { end: 1, logprob }]
            };
            let continuations = continuations.iter().map(score).collect();
            Some(Ok(Answer::Scores(Scores { parts: vec![], continuations, prompt_tokens: 1, cut_tokens: 0 })))
        });
        let t = timeline(&log, Some(&model)).unwrap();
        let names: Vec<&str> = t.groups.iter().map(|group| group.name.as_str()).take(3).collect();
        assert_eq!(names, ["Intent, by learned odds", "Intent, by judge", "Files"]);
        let of = |group: usize, name: &str| {
            t.groups[group].rows.iter().find(|row| row.name == name).unwrap().spans.clone()
        };
        assert_eq!(
            (of(0, "explore"), of(1, "explore")),
            (vec![turn(1, Look::Dark)], vec![turn(2, Look::Dark)])
        );
        assert_eq!(of(1, "refactor"), [turn(1, Look::Dark)]);
    }

    #[test]
    fn single_observations_are_single_turns() {
        let idle = vec!["action: date\nobservation: alpha_one"; 14].join("\n");
        let log = Log::script(&format!(
            "user: u\naction: ls\nalso: pwd\nalso: id\nalso: env\nalso: ps\nobservation: a_b\nobservation: c_d\nobservation: e_f\nobservation: g_h\nobservation: i_j\n{idle}"
        ));
        let spans = firings(&log, "staleness").unwrap().spans;
        assert!(spans.iter().all(|span| span.from == span.to));
        let scopes = spans.iter().filter(|span| span.look == Look::Scope).map(|span| span.from);
        // All five observations of the first turn are taken at once.
        assert_eq!(scopes.collect::<Vec<u32>>(), [1]);
    }
}
