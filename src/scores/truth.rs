//! Annotated truth: the ground that its scores share, and their order.
//!
//! Every score compares four contexts at a point (see [`super::points`]): the variant's, `full` (its ceiling), and
//! `drop-all` and the shuffled text (the larger of them its floor). Items count that were stated in scopes compressed so
//! far: what was never compressed cannot be lost. Rows have the strata `point=1`, `point=2`, ... and `point=end`, in
//! which every item of the run is counted once; the latter is cut by type, too.

use super::ground::{Ground, Truth};
use super::outcomes;
use super::points::points;
use super::readers::Readers;
use super::{
    Rows, answers, boundaries, items, judge, outcomes_by_model, probes, salience, similar, superseded,
};
use crate::context::log::Log;
use crate::replay::Run;

/// Scores a replay against the annotations.
///
/// # Errors
/// A reader answers nothing any more.
pub fn score(
    truth: &Truth,
    log: &Log,
    run: &Run,
    readers: &Readers,
    seed: u64,
    rows: &mut Rows,
) -> anyhow::Result<()> {
    boundaries::score(truth, log, run, seed, rows);
    for point in points(log, run) {
        let ground = Ground::new(log, point.recalling(run), seed);
        salience::score(truth, &ground, rows);
        items::score(truth, &ground, run, rows);
        outcomes::score(truth, &ground, rows);
        probes::score(truth, &ground, rows);
        superseded::score(truth, &ground, rows);
        similar::score(truth, &ground, readers, rows)?;
        answers::score(truth, &ground, readers, rows)?;
        judge::score(truth, &ground, readers, rows)?;
        outcomes_by_model::score(truth, &ground, readers, rows)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::readers::tests::reader;
    use super::*;
    use crate::context::{Block, Content};
    use crate::replay::{Event, Recall};
    use crate::strategies::Work;

    /// Turns 1 to 5 begin at steps 1, 2, 4, 6 and 8; the head is step 0.
    fn log() -> Log {
        let mut log = Log::script(
            "user: Find me a flat.
             agent: Where shall it be?
             user: In Lyon. The rent must not exceed 900 euros. My cat comes along.
             agent: Noted.
             user: The move is now in June, not in May.
             agent: Good.
             user: Remember the rent must not exceed 900 euros!
             agent: I do.
             user: And?
             agent: Found one.",
        );
        log.trajectory.annotations = Some(
            r#"{"constraints": [{"text": "The rent must not exceed 900 euros", "category": "budget", "step": 2}],
            "salient": [{"step": 0, "start": 0, "end": 15, "type": "goal"},
                        {"step": 2, "start": 0, "end": 7, "type": "fact"},
                        {"step": 2, "start": 9, "end": 43, "type": "constraint"},
                        {"step": 2, "start": 45, "end": 64, "type": "fact"},
                        {"step": 4, "start": 0, "end": 23, "type": "fact"}],
            "superseded": [{"key": "move", "old": "May", "new": "June", "step": 4}],
            "probes": [{"step": 8, "kind": "constraint", "question": "?", "choices": ["cat", "dog"], "answer": "cat",
                        "needs": [[2, 9, 43], [2, 45, 64]]},
                       {"step": 8, "kind": "goal", "question": "?", "choices": ["a", "b"], "answer": "b",
                        "needs": [[0, 0, 15]]}]}"#
                .to_owned(),
        );
        log
    }

    /// One event before turn 4 over turns 1 to 3 (steps 1 to 5), which left this text.
    fn rows(text: &str) -> Rows {
        rows_recalling(text, &[])
    }

    /// The same, with what was recalled for the decision that followed.
    fn rows_recalling(text: &str, recalled: &[&str]) -> Rows {
        rows_read(text, recalled, &reader())
    }

    fn rows_read(text: &str, recalled: &[&str], readers: &Readers) -> Rows {
        let log = log();
        let block = |text: &str| {
            let content = Content::Generated { text: text.to_owned() };
            Block { turn: 3, tokens: 9, content, fresh: true, left: 0 }
        };
        let mut event = Event::test(4, 1..4);
        event.after = vec![block(text)];
        let blocks = recalled.iter().map(|text| block(text)).collect();
        let recall =
            Recall { decision: event.decision, until: 7, blocks, details: vec![], work: Work::default() };
        let run = Run { events: vec![event], recalls: vec![recall], ..Run::default() };
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&Truth::of(&log).unwrap(), &log, &run, readers, 1, &mut rows).unwrap();
        rows
    }

    /// Value, floor and ceiling.
    fn of(rows: &Rows, metric: &str, stratum: &str) -> (Option<f64>, Option<f64>, Option<f64>) {
        let mut found = rows.rows.iter().filter(|row| row.metric == metric && &*row.stratum == stratum);
        let row = found.next().unwrap_or_else(|| panic!("no {metric} {stratum}"));
        assert!(found.next().is_none());
        (row.value, row.floor, row.ceiling)
    }

    #[test]
    fn a_text_is_scored_between_dropping_all_and_keeping_all() {
        // Of the four salient spans of the scope it keeps "My cat comes along"; the constraint stands in the tail too,
        // once step 6 was logged: at the end, but not at the point, where steps 0 to 6 stand (turn 4 is asked for).
        let rows = rows("They want a flat in Paris. My cat comes along, in May.");
        for point in ["point=1", "point=end"] {
            assert_eq!(of(&rows, "salience_recall", point), (Some(0.5), Some(0.25), Some(1.0)), "{point}");
        }
        assert_eq!(of(&rows, "salience_recall", "point=end type=fact").0, Some(1.0 / 3.0));
        // 4 of its 12 words are salient; 2 + 7 + 4 + 6 of the 28 words of the scope.
        let (value, floor, _) = of(&rows, "salience_precision", "point=end");
        assert_eq!((value, floor), (Some(4.0 / 12.0), Some(19.0 / 28.0)));
        // It keeps one span of four.
        let f1 = 2.0 * (1.0 / 3.0) * 0.25 / (1.0 / 3.0 + 0.25);
        assert!((of(&rows, "salience_f1", "point=end").0.unwrap() - f1).abs() < 1e-12);
        // The probe needs the constraint (in the tail) and the cat (kept).
        assert_eq!(of(&rows, "probe_support", "point=end"), (Some(1.0), Some(0.0), Some(1.0)));
        // "May" stands in it, "June" nowhere.
        assert_eq!(of(&rows, "stale_value_share", "point=1"), (Some(1.0), Some(1.0), Some(0.0)));
        assert_eq!(of(&rows, "constraint_retention", "point=end"), (Some(1.0), Some(1.0), Some(1.0)));
    }

    #[test]
    fn what_is_recalled_counts_for_its_own_prompt() {
        let rows = rows_recalling("We talked.", &["My cat comes along.", "And?"]);
        assert_eq!(of(&rows, "salience_recall", "point=1").0, Some(0.5));
        assert_eq!(of(&rows, "salience_recall", "point=end").0, Some(0.25));
    }

    #[test]
    fn readers_see_what_words_alone_do_not() {
        // A cat is told of in other words, which is close, and answers the question; the goal was stated in the head.
        let kept = rows("With my own cat along comes their rent.");
        assert_eq!(of(&kept, "probe_accuracy", "point=end"), (Some(1.0), Some(1.0), Some(1.0)));
        let row = kept.rows.iter().find(|row| row.metric == "probe_accuracy").unwrap();
        assert_eq!((row.chance, row.n), (Some(0.5), 1));
        assert_eq!(of(&kept, "probe_accuracy", "point=end kind=constraint").0, Some(1.0));
        assert_eq!(of(&kept, "probe_cut_share", "point=end").0, Some(0.0));
        // "My cat comes along": four words of seven and of four.
        assert_eq!(of(&rows("My cat comes along."), "salience_recall_similar", "point=end").0, Some(0.5));
        assert_eq!(of(&rows("Along comes my cat!"), "salience_recall_similar", "point=end").0, Some(0.5));
        assert_eq!(of(&rows("Along comes my cat!"), "salience_recall", "point=end").0, Some(0.25));
        assert_eq!(
            of(&rows("Along comes my cat!"), "salience_recall_similar", "point=end type=constraint").0,
            Some(1.0)
        );
        // Of three sentences two say what the cat's span says: one pair of three sentences and four spans. In the scope
        // each of the four stands in a sentence of its own, of seven.
        let cats = rows("Along comes my cat! We talked. My cat comes along, too.");
        let (value, floor, ceiling) = of(&cats, "salience_precision_similar", "point=end");
        assert_eq!((value, floor, ceiling), (Some(1.0 / 3.0), Some(4.0 / 7.0), Some(1.0)));
        assert_eq!(of(&cats, "salience_f1_similar", "point=end").0, Some(2.0 / 7.0));
        assert_eq!(of(&rows(""), "salience_f1_similar", "point=end").0, Some(0.0));
        assert_eq!(of(&rows(""), "salience_precision_similar", "point=end").0, None);
        // Where nothing tells them apart the first choice is taken; it is the right one here.
        assert_eq!(of(&rows("A dog barks."), "probe_accuracy", "point=end").0, Some(0.0));
        assert!(kept.rows.iter().all(|row| row.metric != "goal_coherence"));
        // Rules and model find the constraint in the tail.
        assert_eq!(
            of(&kept, "constraint_retention_by_model", "point=end"),
            (Some(1.0), Some(1.0), Some(1.0))
        );
        let row = kept.rows.iter().find(|row| row.metric == "constraint_outcome_agreement").unwrap();
        assert_eq!((row.value, row.chance, row.n), (Some(1.0), Some(1.0), 1));
    }

    #[test]
    fn readers_are_asked_for_what_the_experiment_names() {
        let asked = |ask: &[&str]| {
            let rows = rows_read("My cat comes along.", &[], &reader().asking(ask));
            let of = |metric: &str| rows.rows.iter().any(|row| row.metric == metric);
            ["probe_accuracy", "probe_probability", "constraint_retention_by_model"].map(of)
        };
        assert_eq!(asked(&[]), [true, true, true]);
        assert_eq!(asked(&["likelihood", "probes"]), [true, true, false]);
        assert_eq!(asked(&["judge"]), [false, false, false]);
        assert_eq!(asked(&["outcomes"]), [false, false, true]);
    }

    #[test]
    fn the_goal_in_force_is_looked_for_where_it_was_compressed() {
        let mut log = log();
        log.trajectory.annotations = Some(
            r#"{"goal": "Find me a flat.", "goal_changes": [{"step": 2, "text": "My cat comes along"}]}"#
                .to_owned(),
        );
        let mut event = Event::test(4, 1..4);
        let content = Content::Generated { text: "We talked. Along comes my cat.".to_owned() };
        event.after = vec![Block { turn: 3, tokens: 9, fresh: false, left: 0, content }];
        let run = Run { events: vec![event], ..Run::default() };
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&Truth::of(&log).unwrap(), &log, &run, &reader(), 1, &mut rows).unwrap();
        let (value, floor, ceiling) = of(&rows, "goal_coherence", "point=1");
        assert!((value.unwrap() - 1.0).abs() < 1e-6 && (ceiling.unwrap() - 1.0).abs() < 1e-6);
        assert!(floor.unwrap() < 0.9);
    }

    #[test]
    fn a_changed_constraint_is_worse_than_a_right_copy_beside_it() {
        let rows = rows("The rent must not exceed 9000 euros.");
        assert_eq!(of(&rows, "constraint_retention", "point=end"), (Some(0.0), Some(1.0), Some(1.0)));
        assert_eq!(of(&rows, "constraint_outcome", "point=end outcome=mutated").0, Some(1.0));
        assert_eq!(of(&rows, "constraint_outcome", "point=end outcome=preserved").0, Some(0.0));
    }

    #[test]
    fn no_event_is_no_row() {
        let log = log();
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&Truth::of(&log).unwrap(), &log, &Run::default(), &reader(), 1, &mut rows).unwrap();
        assert!(rows.rows.is_empty());
    }
}
