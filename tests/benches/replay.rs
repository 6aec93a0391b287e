//! Replay with scores: step-variants a second, and the cost of a step from 50 to 5,000 steps.
//!
//! Beside it the reference: appending the same steps to a context and nothing else.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use trajpress::context::Context;
use trajpress::experiment::replay::{Recipe, replay};
use trajpress::features::tokens::Tokenizer;
use trajpress::log::Log;
use trajpress::scorers::retention::{Ledger, Questions};
use trajpress::trajectory::{Builder, Kind, Role, Trajectory, step};
use trajpress::watch::Watch;
use trajpress::{features, strategies, triggers};

const STEPS: [u32; 3] = [50, 500, 5_000];

fn main() {
    divan::main();
}

/// A coding log: thought, action, observation; files come back after 5 to 40 turns.
fn log(n_steps: u32) -> Log {
    let mut builder = Builder::new();
    builder.push(step(Role::System, Kind::System, "You are a careful agent that mends programs."));
    builder.push(step(Role::User, Kind::Message, "Find out why the nightly job fails and mend it."));
    for turn in 0..n_steps / 3 {
        let file = format!("src/part{}/module_{}.py", turn % 7, turn % 40);
        builder.begin_call();
        builder.push(step(Role::Agent, Kind::Thought, format!("I should look at {file} again because the test fails there.")));
        builder.push(step(Role::Agent, Kind::Action, format!("bash\ncat {file}")));
        let mut text = String::new();
        for line in 0..20 {
            text.push_str(&format!("    value_{line} = compute_total(order, limit={turn})  # used by the report of {file}\n"));
        }
        builder.push(step(Role::Tool, Kind::Observation, text));
    }
    let mut trajectory = Trajectory { steps: builder.finish(), ..Trajectory::default() };
    trajectory.id = trajectory.content_id();
    let tokenizer = Tokenizer::load("o200k").expect("o200k travels with the build");
    let rows = features::rows(&trajectory.id, &trajectory.steps, &tokenizer);
    Log::new(trajectory, rows).expect("features fit")
}

fn recipe(strategy: &str, params: &str) -> Recipe {
    Recipe {
        strategy: strategies::build(strategy, toml::from_str(params).expect("parameters")).expect("strategy"),
        trigger: triggers::build("turns", toml::from_str("n = 1").expect("parameters")).expect("trigger"),
        seed: 1,
    }
}

fn bench(bencher: Bencher<'_, '_>, n_steps: u32, recipe: &Recipe) {
    let log = log(n_steps);
    let questions = Questions::of(&log, &[3, 10]);
    let watch = Watch::own(&log, &questions.needs.atoms);
    let tokenizer = Tokenizer::load("o200k").expect("o200k travels with the build");
    bencher.counter(ItemsCount::new(log.n_steps())).bench_local(|| {
        let mut ledger = Ledger::new(&log, &watch, &questions);
        black_box(replay(&log, recipe, &tokenizer, &questions.needs, &mut ledger).expect("a replay"))
    });
}

#[divan::bench(args = STEPS)]
fn mask_and_needs(bencher: Bencher<'_, '_>, n_steps: u32) {
    bench(bencher, n_steps, &recipe("mask", "keep_last = 10"));
}

#[divan::bench(args = STEPS)]
fn truncate_and_needs(bencher: Bencher<'_, '_>, n_steps: u32) {
    bench(bencher, n_steps, &recipe("truncate", "keep_last = 10"));
}

#[divan::bench(args = STEPS)]
fn reference_append_only(bencher: Bencher<'_, '_>, n_steps: u32) {
    let log = log(n_steps);
    bencher.counter(ItemsCount::new(log.n_steps())).bench_local(|| {
        let mut context = Context::default();
        for step in 0..log.n_steps() as u32 {
            context.push_step(&log, step);
        }
        black_box(context.tokens)
    });
}
