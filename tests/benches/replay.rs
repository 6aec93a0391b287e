//! Replay with scores: step-variants a second, and the cost of a step from 50 to 5,000 steps.
//!
//! Beside it the reference: appending the same steps to a context and nothing else.

use divan::counter::ItemsCount;
use divan::{Bencher, black_box};
use trajpress::internals::annotate::features;
use trajpress::internals::context::Context;
use trajpress::internals::context::log::Log;
use trajpress::internals::experiment::cell::{self, Prepared, Scene};
use trajpress::internals::replay::Recipe;
use trajpress::internals::replay::trace::traced;
use trajpress::internals::replay::watch::Watch;
use trajpress::internals::scores::readers::Readers;
use trajpress::internals::scores::retention::{Ledger, Questions};
use trajpress::internals::text::tokens::Tokenizer;
use trajpress::internals::{strategies, triggers};
use trajpress::{Builder, Kind, Role, Trajectory, step};
use trajpress::{Catalogue, Plan};

const STEPS: [u32; 3] = [50, 500, 5_000];
const STRATEGIES: [&str; 7] = ["full", "drop-all", "random", "oracle", "atom-bag", "truncate", "mask"];

fn main() {
    divan::main();
}

/// A coding log: thought, action, observation. Each file comes back after five turns, so that the
/// density of needs is the same at every length.
fn log(n_steps: u32) -> Log {
    let mut builder = Builder::new();
    builder.push(step(Role::System, Kind::System, "You are a careful agent that mends programs."));
    builder.push(step(Role::User, Kind::Message, "Find out why the nightly job fails and mend it."));
    for turn in 0..n_steps / 3 {
        let file = format!("src/part{}/module_{}.py", turn / 10, turn % 5 + turn / 10 * 5);
        builder.begin_call();
        builder.push(step(
            Role::Agent,
            Kind::Thought,
            format!("I should look at {file} again because the test fails there."),
        ));
        builder.push(step(Role::Agent, Kind::Action, format!("bash\ncat {file}")));
        let mut text = String::new();
        for line in 0..20 {
            text.push_str(&format!(
                "    value_{line}_{turn} = compute(order, limit={turn})  # used by the report of {file}\n"
            ));
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
    let strategy = strategies::build(strategy, toml::from_str(params).expect("parameters"));
    let trigger = triggers::build("turns", toml::from_str("n = 1").expect("parameters"));
    Recipe::one(strategy.expect("strategy"), trigger.expect("trigger"), 1)
}

/// Replay alone, with the needs followed through it.
fn replays(bencher: Bencher<'_, '_>, n_steps: u32, recipe: &Recipe) {
    let log = log(n_steps);
    let tokenizer = Tokenizer::load("o200k").expect("o200k travels with the build");
    let questions = Questions::of(&log, &[3, 10], &tokenizer).expect("questions");
    let watch = Watch::own(&log, &questions.needs.atoms);
    bencher.counter(ItemsCount::new(log.n_steps())).bench_local(|| {
        let (run, trace) = traced(&log, recipe, &tokenizer, &questions.needs).expect("a replay");
        let ledger = Ledger::of(&log, &watch, &questions, recipe, (&run, &trace));
        black_box(ledger);
    });
}

/// A whole cell: replay, eleven shadows, all scores and rows; no partners.
#[divan::bench(args = STRATEGIES.iter().flat_map(|&s| STEPS.map(|n| (s, n))))]
fn cell(bencher: Bencher<'_, '_>, (strategy, n_steps): (&str, u32)) {
    let keeps = ["mask", "truncate"].contains(&strategy);
    let text = format!(
        "name = \"bench\"\nstrategies = [{{ name = \"{strategy}\"{} }}]\ntriggers = [{{ name = \"turns\", n = 1 }}]",
        if keeps { ", keep_last = 3" } else { "" }
    );
    let plan = Plan::parse("bench.toml", &text, &Catalogue::built_in()).expect("a plan");
    // The baseline is always there, and comes first.
    let variant = plan.variants.iter().find(|v| v.strategy == strategy).expect("the variant");
    let recipe = cell::recipe(variant, &cell::Models::new()).expect("a recipe");
    let tokenizer = Tokenizer::load("o200k").expect("o200k travels with the build");
    let prepared = Prepared::new(log(n_steps), &plan.reference_tails, &tokenizer).expect("a log");
    let readers = Readers::default();
    let scene = Scene::new(&prepared, &[], &plan, &readers);
    bencher
        .counter(ItemsCount::new(n_steps))
        .bench_local(|| black_box(scene.cell(variant, &recipe, &tokenizer).expect("a cell")));
}

#[divan::bench(args = STEPS)]
fn mask_and_needs(bencher: Bencher<'_, '_>, n_steps: u32) {
    replays(bencher, n_steps, &recipe("mask", "keep_last = 3"));
}

#[divan::bench(args = STEPS)]
fn truncate_and_needs(bencher: Bencher<'_, '_>, n_steps: u32) {
    replays(bencher, n_steps, &recipe("truncate", "keep_last = 3"));
}

/// Memory that comes back, at 100, 500 and 2,000 turns: the cost of a step must not grow.
#[divan::bench(args = ["notes", "tiered"].iter().flat_map(|&s| [300, 1_500, 6_000].map(|n| (s, n))))]
fn memory(bencher: Bencher<'_, '_>, (strategy, n_steps): (&str, u32)) {
    replays(bencher, n_steps, &recipe(strategy, "keep_last = 3"));
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
