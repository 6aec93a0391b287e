//! What triggers cost a turn, from 50 to 5,000 turns: reading the facts of all turns, and each trigger's detector.
//!
//! Items are turns: microseconds a turn are the inverse of the rate.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use trajpress::internals::annotate::features;
use trajpress::internals::context::log::Log;
use trajpress::internals::text::tokens::Tokenizer;
use trajpress::internals::triggers::{self, Moment};
use trajpress::internals::turns;
use trajpress::{Builder, Kind, Role, Trajectory, step};

const TURNS: [u32; 3] = [50, 500, 5_000];
const TRIGGERS: [&str; 6] = ["turns", "subtask", "intent", "boundary", "staleness", "hybrid"];

fn main() {
    divan::main();
}

/// A coding log: reading, editing, testing, with a file for every twelve turns and some words at each.
fn log(n_turns: u32) -> Log {
    let mut builder = Builder::new();
    builder.push(step(Role::System, Kind::System, "You are a careful agent that mends programs."));
    builder.push(step(Role::User, Kind::Message, "Find out why the nightly job fails and mend it."));
    for turn in 0..n_turns {
        let file = format!("src/part{}/module_{}.py", turn / 60, turn / 12);
        let (thought, command) = match turn % 6 {
            0 | 1 => (
                "Let me look at how this is computed, to understand where the order goes wrong.",
                format!("cat {file}"),
            ),
            2 => (
                "I see why it fails: the limit is not checked. Let me fix the loop.",
                format!("sed -i 's/limit/bound/' {file}"),
            ),
            3 => (
                "Now let me run the tests to verify that the change works as expected.",
                format!("python -m pytest tests/test_{turn}.py"),
            ),
            4 => ("All tests pass now. Next, I'll update the other caller.", format!("grep -n limit {file}")),
            _ => ("Let me see the rest of the file before I change it.", format!("sed -n '10,80p' {file}")),
        };
        builder.begin_call();
        builder.push(step(Role::Agent, Kind::Thought, thought));
        builder.push(step(Role::Agent, Kind::Action, command));
        let mut text = String::new();
        for line in 0..20 {
            text.push_str(&format!(
                "    value_{line}_{turn} = compute(order, limit={turn})  # used by the report of {file}\n"
            ));
        }
        text.push_str("===== 3 passed in 0.12s =====\n");
        builder.push(step(Role::Tool, Kind::Observation, text));
    }
    let mut trajectory = Trajectory { steps: builder.finish(), ..Trajectory::default() };
    trajectory.id = trajectory.content_id();
    let tokenizer = Tokenizer::load("o200k").expect("o200k travels with the build");
    let rows = features::rows(&trajectory.id, &trajectory.steps, &tokenizer);
    Log::new(trajectory, rows).expect("features fit")
}

/// Files, outcomes, phrases and intents of all turns.
#[divan::bench(args = TURNS)]
fn facts(bencher: Bencher<'_, '_>, n_turns: u32) {
    let log = log(n_turns);
    bencher.counter(ItemsCount::new(n_turns)).bench_local(|| black_box(turns::read(&log.trajectory.steps)));
}

/// What the memory costs by itself: every text that the facts are read from is gone through once, and nothing is made of it.
#[divan::bench(args = TURNS)]
fn reference_bytes(bencher: Bencher<'_, '_>, n_turns: u32) {
    const END: usize = 1024;
    let log = log(n_turns);
    bencher.counter(ItemsCount::new(n_turns)).bench_local(|| {
        let ends = log.trajectory.steps.iter().flat_map(|step| {
            let text = step.text.as_bytes();
            let head = &text[..text.len().min(END)];
            head.iter().chain(&text[text.len().saturating_sub(END).max(head.len())..])
        });
        black_box(ends.map(|&byte| u64::from(byte)).sum::<u64>())
    });
}

/// A detector over all turns, with the facts read.
#[divan::bench(args = TRIGGERS.iter().flat_map(|&t| TURNS.map(|n| (t, n))))]
fn detector(bencher: Bencher<'_, '_>, (name, n_turns): (&str, u32)) {
    let log = log(n_turns);
    log.facts();
    let trigger = triggers::build(name, toml::Table::new()).expect("a trigger");
    bencher.counter(ItemsCount::new(n_turns)).bench_local(|| {
        let mut detector = trigger.detector(&log, 1);
        (1..=n_turns)
            .filter_map(|turn| {
                detector.advance(&Moment { messages: None, log: &log, turn, context_tokens: 0 })
            })
            .count()
    });
}
