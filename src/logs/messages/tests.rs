//! What is written as messages and read again is the same run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::*;
use crate::logs::formats::{Reading, Sink, Source, find};
use crate::logs::{Limits, input, jobs, parts};
use crate::store::step_rows;
use crate::text::escape;
use crate::trajectory::{LoggedEdit, Resized, Step, Trajectory, Usage, step};

fn again(row: &TrajectoryRow, steps: &[Step]) -> Trajectory {
    let rows: Vec<StepRow> = step_rows(&row.trajectory, steps.to_vec()).collect();
    let text = escape::json_line(&messages(row, &rows)).unwrap();
    let Reading::Values(read) = find("trajpress-chat").unwrap().reading else { panic!() };
    let source = Source::test("x.jsonl", "trajpress-chat");
    let mut sink = Sink::new(&source);
    read(text.as_bytes(), &mut sink).unwrap();
    assert!(sink.losses.0.is_empty(), "{:?}", sink.losses);
    sink.trajectories.remove(0)
}

/// Without what messages have no place for: of the steps of a message the place and time of the first is told alone.
fn comparable(mut step: Step) -> Step {
    (step.time, step.message) = (None, 0);
    step
}

fn difference(row: &TrajectoryRow, steps: &[Step]) -> Option<String> {
    let read = again(row, steps).steps;
    let (old, new) = (steps.iter().cloned().map(comparable), read.iter().cloned().map(comparable));
    let at = old.clone().zip(new.clone()).position(|(old, new)| old != new);
    match at {
        Some(at) => Some(format!("{}, step {at}: {:?} {:?}", row.source, steps[at], read[at])),
        None => (steps.len() != read.len()).then(|| format!("{}: {} steps", row.source, read.len())),
    }
}

#[test]
fn all_that_steps_say_is_read_again() {
    use Kind::{Action, Compaction, Demonstration, Message, Observation, System, Thought, Tools};
    use Role::{Agent, Tool, User};
    let mut builder = crate::trajectory::Builder::new();
    let called = |id: &str, arguments: Option<&str>| Step {
        tool: Some("ls".into()),
        call_id: Some(id.into()),
        arguments: arguments.map(Into::into),
        ..step(Agent, Action, arguments.map_or("raw".to_owned(), |a| action_text("ls", a)))
    };
    let usage =
        Usage { input: 9, output: None, cache_read: Some(20), cache_write: Some(0), ..Usage::default() };
    let steps = [
        step(Role::System, Tools, "[{\"name\":\"ls\"}]"),
        step(Role::System, System, "Be brief."),
        step(Role::System, Demonstration, "Like that."),
        step(Role::System, Message, "A notice."),
        step(User, Message, "Go."),
        Step { usage: Some(Box::new(usage)), ..step(Agent, Thought, "Hm.") },
        step(Agent, Thought, "I look."),
        called("c1", Some("{\"a\":1}")),
        called("c2", None),
        Step { call_id: Some("c1".into()), is_error: Some(true), ..step(Tool, Observation, "") },
        Step { call_id: Some("c2".into()), ..step(User, Observation, "No.") },
        Step {
            edit: Some(Box::new(LoggedEdit { from: 3, text: String::new() })),
            resized: Resized { from: Some(90), to: None }.known(),
            ..step(Agent, Message, "So.")
        },
        step(Agent, Thought, "And."),
        step(Agent, Thought, "Then."),
        step(Agent, Message, "Well."),
        Step { kept_to: Some(1), ..step(User, Message, "More.") },
        Step {
            resized: Resized { from: Some(900), to: Some(30) }.known(),
            ..step(User, Compaction, "All so far.")
        },
        step(Agent, Message, "Done."),
        step(Role::System, Tools, "no JSON"),
    ];
    for (i, step) in steps.into_iter().enumerate() {
        if [5, 11, 17].contains(&i) {
            builder.begin_call();
        }
        builder.push(step);
    }
    let run = Trajectory { parent: Some("p".to_owned()), steps: builder.finish(), ..Trajectory::default() };
    let row = TrajectoryRow::from(&run);
    assert_eq!(difference(&row, &run.steps), None);
    assert_eq!(again(&row, &run.steps).parent, run.parent);
    let rows: Vec<StepRow> = step_rows("", run.steps.clone()).collect();
    let written = messages(&row, &rows);
    let list = written["messages"].as_array().unwrap();
    assert_eq!(list[4]["reasoning_content"], "Hm.");
    assert_eq!(
        (&list[4]["content"], list[4]["tool_calls"].as_array().unwrap().len()),
        (&json!("I look."), 2)
    );
}

/// What people may have written by hand is read without harm.
#[test]
fn turns_that_cannot_be_are_others() {
    let Reading::Values(read) = find("trajpress-chat").unwrap().reading else { panic!() };
    let text = r#"{"trajpress":1,"messages":[{"role":"assistant","content":"a","turn":4000000000},{"role":"compaction","content":"s","turn":9},
        {"role":"x","content":"b","turn":0,"kept_to":1,"edit":{"from":0,"text":"c"}},{"role":"tool","kind":"nonsense","by":"nobody","content":"d"}]}"#;
    let source = Source::test("x.jsonl", "trajpress-chat");
    let mut sink = Sink::new(&source);
    read(text.as_bytes(), &mut sink).unwrap();
    let steps = &sink.trajectories[0].steps;
    let told: Vec<_> = steps.iter().map(|s| (s.turn, s.segment, s.role, s.kind)).collect();
    let kinds = [
        (1, 0, Role::Agent, Kind::Message),
        (2, 1, Role::User, Kind::Compaction),
        (2, 1, Role::User, Kind::Message),
        (2, 1, Role::Tool, Kind::Observation),
    ];
    assert_eq!(told, kinds);
    assert!(steps.iter().all(|s| s.kept_to.is_none() && s.edit.is_none()));
}

/// The real logs that are there, so many files of each format.
#[test]
fn real_logs_are_read_again_as_they_were() {
    let Some(logs) = std::env::var_os("TRAJPRESS_LOGS").map(PathBuf::from) else {
        eprintln!("SKIPPED: TRAJPRESS_LOGS names no folder of logs");
        return;
    };
    let most = std::env::var("TRAJPRESS_FILES").ok().and_then(|n| n.parse().ok()).unwrap_or(2);
    let all = parts::joined(input::find(&[logs]).unwrap());
    let mut n_of = BTreeMap::<String, usize>::new();
    let folder = |name: &str| name.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let few = |input: &input::Input| {
        let n = n_of.entry(folder(&input.name)).or_default();
        *n += 1;
        *n <= most
    };
    let inputs: Vec<_> = all.into_iter().filter(few).collect();
    let how =
        jobs::How { forced: None, threads: 1, limits: Limits::default(), redacts: false, mapping: None };
    let (mut n_runs, mut different) = (0, Vec::new());
    jobs::for_each_part(&inputs, how, &Default::default(), |part| {
        for run in part.runs {
            n_runs += 1;
            different.extend(difference(&run.row, &run.steps));
        }
        Ok(())
    })
    .unwrap();
    println!("{n_runs} runs of {} files, {} different", inputs.len(), different.len());
    assert!(n_runs > 0 && different.is_empty(), "{:#?}", &different[..different.len().min(5)]);
}
