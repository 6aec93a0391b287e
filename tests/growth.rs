//! Cost grows with the steps and not with their square: what each strategy and each trigger allocates over a log, and over
//! one four times as long; the same of all that stands in one turn of many calls.
//!
//! Bytes asked of the allocator are counted, no time is taken: the same on every machine. The short form has 1,000 and
//! 4,000 messages, the long one (TRAJPRESS_SOAK=1, part of `make soak`) 5,000 and 20,000: each strategy with one trigger, each
//! trigger with two strategies. What does not allocate is seen by the time on the processor, of this thread alone: the least
//! of three stands beside the bytes, and the long form holds it to the same factor where it is long enough to be measured.
//! GROWTH_ONLY=notes,staleness tries these strategies, presets and triggers alone, each pair of them; tiered@turns that pair.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use trajpress::internals::annotate::features;
use trajpress::internals::context::log::Log;
use trajpress::internals::experiment::cell::{self, Prepared, Scene};
use trajpress::internals::scores::readers::Readers;
use trajpress::internals::text::tokens::Tokenizer;
use trajpress::internals::{policies, strategies, triggers};
use trajpress::{Builder, Kind, LoggedEdit, Role, Trajectory, step};
use trajpress::{Catalogue, Plan};

thread_local! {
    /// Bytes that this thread asked for in all, those it holds, and the most it held.
    static BYTES: Cell<[u64; 3]> = const { Cell::new([0; 3]) };
}

struct Counting;

fn count(more: usize, less: usize) {
    BYTES.with(|bytes| {
        let [all, now, most] = bytes.get();
        let now = (now + more as u64).saturating_sub(less as u64);
        bytes.set([all + more as u64, now, most.max(now)]);
    });
}

// SAFETY: every call is handed on to the system's allocator as it came.
#[allow(unsafe_code, reason = "nothing else sees what is allocated")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, layout.size());
        unsafe { System.realloc(block, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// What the agent does again and again: it reads, edits and tests.
const DOINGS: [(&str, &str); 5] = [
    ("cat FILE", "row N of FILE: the WORD weighs N0 kg\nlimit_N=N5 is what the WORD bears"),
    ("sed -i s/N/N1/ FILE", "The file FILE has been edited."),
    ("pytest FILE", "===== 3 passed in 0.1s ====="),
    ("grep -rn WORD books", "books/WORD_N.csv:12: the WORD of quay N"),
    ("curl -X POST https://harbour.example/ships/N", "{\"ship\": N, \"state\": \"open\"}"),
];

/// Messages of a user who asks, binds and tells, and of an agent who decides, acts and sees: new ones all along. Where it is compacted, the log itself
/// was so a few times. Each result goes on with so many lines of talk.
fn log(n_messages: u32, is_compacted: bool, n_lines: u32, tokenizer: &Tokenizer) -> Log {
    let mut builder = Builder::new();
    builder.push(step(
        Role::System,
        Kind::System,
        "You are a careful agent that keeps the books of a harbour.",
    ));
    builder.push(step(
        Role::User,
        Kind::Message,
        "Please write down what each ship brings, and mend what is wrong.",
    ));
    for turn in 0..n_messages / 4 {
        let word = ["crane", "ledger", "tide", "cargo", "rope", "bolt", "lamp"][turn as usize / 5 % 7];
        let file = format!("books/{word}_{}.csv", turn / 5);
        let fill =
            |text: &str| text.replace("FILE", &file).replace("WORD", word).replace('N', &turn.to_string());
        if is_compacted && turn % (n_messages / 16) == 7 {
            builder.push(step(Role::User, Kind::Compaction, fill("All ships up to N are in the books.")));
        }
        builder.begin_call();
        let decided =
            "I decided to enter ship N under berth=N in FILE, because the WORD of quay N is broken.";
        builder.push(step(Role::Agent, Kind::Thought, fill(decided)));
        let (does, sees) = DOINGS[turn as usize % DOINGS.len()];
        builder.push(step(Role::Agent, Kind::Action, format!("bash\n{}", fill(does))));
        let talk =
            "\nThe rope bears more than the lamp, and the crane less than the tide.".repeat(n_lines as usize);
        builder.push(step(Role::Tool, Kind::Observation, fill(sees) + &talk));
        let bound = "Ship N must not unload more than N1 crates of WORD per day at quay N. Good.";
        builder.push(step(Role::User, Kind::Message, fill(bound)));
    }
    let mut steps = builder.finish();
    // Each tenth result was sent as a word from four turns later on.
    let last = steps.last().map_or(0, |step| step.turn);
    let seen = steps.iter_mut().filter(|step| step.kind == Kind::Observation);
    for step in seen.step_by(10).filter(|step| !is_compacted && step.turn + 4 < last) {
        step.edit = Some(Box::new(LoggedEdit { from: step.turn + 4, text: "gone".to_owned() }));
    }
    (0..).zip(&mut steps).for_each(|(at, step)| step.message = at);
    let points: Vec<u32> = (1..5).map(|at| n_messages / 5 * at + 2).collect();
    let annotations = Some(serde_json::json!({ "compression_points": points }).to_string());
    let mut trajectory = Trajectory { steps, annotations, ..Trajectory::default() };
    trajectory.id = trajectory.content_id();
    let rows = features::rows(&trajectory.id, &trajectory.steps, tokenizer);
    let log = if is_compacted { Log::bridged(trajectory, rows) } else { Log::new(trajectory, rows) };
    log.expect("features fit")
}

/// One turn with so many messages: a reply that calls many tools at once, and their results; then a few turns that go on.
fn log_of_one_turn(n_messages: u32, tokenizer: &Tokenizer) -> Log {
    let mut builder = Builder::new();
    builder.push(step(Role::User, Kind::Message, "Please mend the books of the harbour."));
    builder.begin_call();
    let n_calls = n_messages / 2;
    let id = |call: u32| Some(format!("call-{call}").into_boxed_str());
    for call in 0..n_calls {
        let mut action = step(Role::Agent, Kind::Action, format!("bash\ncat books/crane_{call}.csv"));
        action.call_id = id(call);
        builder.push(action);
    }
    for call in 0..n_calls {
        let seen = format!("limit_{call} = {call}5\nError: row {call} of books/crane_{call}.csv is broken");
        let mut result = step(Role::Tool, Kind::Observation, seen);
        result.call_id = id(call);
        builder.push(result);
    }
    for turn in 0..40 {
        builder.begin_call();
        builder.push(step(Role::Agent, Kind::Message, format!("Now limit_{turn} = {turn}5 is mended.")));
    }
    let trajectory =
        Trajectory { id: "one turn".to_owned(), steps: builder.finish(), ..Trajectory::default() };
    let rows = features::rows(&trajectory.id, &trajectory.steps, tokenizer);
    Log::new(trajectory, rows).expect("features fit")
}

/// Time of this thread on a processor, whatever else runs there; none where the system does not tell.
fn processor_time() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

fn is_soak() -> bool {
    std::env::var_os("TRAJPRESS_SOAK").is_some()
}

/// Strategy and trigger.
type Pair = (&'static str, &'static str);

/// Drops all, in another process.
const PROGRAM: &str = r#"command = ["python3", "-c", """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    greeting = {"protocol": 1, "name": "drop", "version": "1"}
    print(json.dumps({"event": asked["event"], "messages": []} if "event" in asked else greeting), flush=True)
"""]"#;

/// The pair in a plan; none where a plan has no such pair.
fn variant((strategy, trigger): Pair) -> Option<(Plan, usize)> {
    // Caps that are reached early at every size: what is kept grows up to its cap, and then no more.
    let cap = match strategy {
        "codex" => "user_tokens = 2000",
        "salience" | "protected-core" | "core-notes" if !is_soak() => "cap_tokens = 1000",
        "notes" => "max_notes = 200",
        "command" => PROGRAM,
        _ => "",
    };
    let window = match trigger {
        "tokens" => "window = 8000",
        "limits" => "tokens = 8000",
        _ => "",
    };
    if trigger == "policy" {
        // What a product keeps of the user alone is less than its window at every size.
        let window = if is_soak() { 100_000 } else { 40_000 };
        let text = format!(
            "name = \"growth\"\n[[policies]]\npreset = \"{strategy}\"\nwindow = {window}\nforms = [\"extract\"]\n"
        );
        let plan = Plan::parse("growth.toml", &text, &Catalogue::built_in()).expect("a preset");
        let at = plan.variants.iter().position(|v| v.trigger == trigger)?;
        return Some((plan, at));
    }
    let text = format!(
        "name = \"growth\"\n[[strategies]]\nname = \"{strategy}\"\n{cap}\n[[triggers]]\nname = \"{trigger}\"\n{window}\n"
    );
    let plan = Plan::parse("growth.toml", &text, &Catalogue::built_in()).ok()?;
    let at = plan.variants.iter().position(|v| v.strategy == strategy && v.trigger == trigger)?;
    Some((plan, at))
}

/// Each of these pairs once over a log (one turn of many calls, or many turns): bytes allocated in all, the most at once,
/// the time on the processor, and the events.
fn costs(pairs: &[Pair], n_messages: u32, is_one_turn: bool) -> Vec<([u64; 2], Duration, usize)> {
    let tokenizer = Tokenizer::load("o200k").expect("o200k travels with the build");
    let readers = Readers::default();
    let plan_of = |pair| variant(pair).expect("the pairs that a plan can have were picked").0;
    // Of a product's own window only so much may be left that it is full several times at the smaller size.
    let n_lines = if pairs[0].1 == "policy" { 80 } else { 0 };
    let prepared = [false, true].map(|is_compacted| {
        let log = match is_one_turn {
            true => log_of_one_turn(n_messages, &tokenizer),
            false => log(n_messages, is_compacted, n_lines, &tokenizer),
        };
        Prepared::new(log, &plan_of(pairs[0]).reference_tails, &tokenizer).expect("a log")
    });
    let cost = |&pair: &Pair| {
        let (plan, at) = variant(pair).expect("the pairs that a plan can have were picked");
        let variant = &plan.variants[at];
        let recipe = cell::recipe(variant, &cell::Models::new()).expect("a recipe");
        let prepared = &prepared[usize::from(pair.1 == "logged")];
        let scene = Scene::new(prepared, &[], &plan, &readers);
        // Once before, since what a regex allocates at its first searches would count for whoever comes first.
        scene.cell(variant, &recipe, &tokenizer).expect("a cell");
        let measured = || {
            BYTES.with(|bytes| bytes.set([0; 3]));
            let start = processor_time();
            let rows = scene.cell(variant, &recipe, &tokenizer).expect("a cell");
            let [all, _, most] = BYTES.with(Cell::get);
            let time =
                processor_time().zip(start).map_or(Duration::ZERO, |(end, start)| end.saturating_sub(start));
            ([all, most], time, rows.events.len())
        };
        let n = if is_soak() { 3 } else { 1 };
        (0..n).map(|_| measured()).min_by_key(|(_, time, _)| *time).expect("at least one")
    };
    let next = AtomicUsize::new(0);
    // Each thread counts its own bytes and its own time.
    let work = || {
        let numbers = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        numbers.map_while(|i| Some((i, cost(pairs.get(i)?)))).collect::<Vec<_>>()
    };
    let n_threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut costs: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..n_threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    costs.sort_by_key(|(i, _)| *i);
    costs.into_iter().map(|(_, cost)| cost).collect()
}

/// One after the other: a regex that two threads want at once allocates for both.
#[test]
fn four_times_as_much_costs_less_than_six_times() {
    let too_much = [calls_in_one_turn(), messages(), messages_under_policies()].concat();
    assert!(too_much.is_empty(), "{}", too_much.join("\n"));
}

fn calls_in_one_turn() -> Vec<String> {
    let names = strategies::ALL.iter().map(|entry| (entry.name, "turns"));
    compare(&names.filter(|pair| variant(*pair).is_some()).collect::<Vec<_>>(), true)
}

fn messages() -> Vec<String> {
    let is_short = |(strategy, trigger): &Pair| {
        // Of these a plan has no more than the one.
        let own = [("full", "never"), ("as-sent", "logged-edits"), ("logged", "logged")];
        let own = own.contains(&(*strategy, *trigger)) || (*strategy, *trigger) == ("notes", "staleness");
        *trigger == "turns" || ["mask", "summary"].contains(strategy) || own
    };
    let names = strategies::ALL.iter().map(|entry| entry.name);
    let mut pairs: Vec<Pair> =
        names.flat_map(|name| triggers::ALL.iter().map(move |entry| (name, entry.name))).collect();
    pairs.retain(|pair| variant(*pair).is_some());
    if only().is_none() {
        pairs.retain(is_short);
        let is_there = |name: &str| pairs.iter().any(|pair| pair.0 == name || pair.1 == name);
        assert!(strategies::ALL.iter().all(|entry| is_there(entry.name)), "{pairs:?}");
        assert!(triggers::ALL.iter().all(|entry| is_there(entry.name)), "{pairs:?}");
    }
    compare(&pairs, false)
}

fn messages_under_policies() -> Vec<String> {
    let names = policies::all().iter().map(|preset| preset.name.as_str());
    let pairs: Vec<Pair> = names.map(|name| (name, "policy")).collect();
    compare(&pairs, false)
}

/// The names that alone are tried.
fn only() -> Option<String> {
    std::env::var("GROWTH_ONLY").ok()
}

/// Where four times the messages cost six times as much, or more; events that come later counted.
fn compare(pairs: &[Pair], is_one_turn: bool) -> Vec<String> {
    let is_wanted = |pair: &&Pair| {
        let names = [pair.0.to_owned(), pair.1.to_owned(), format!("{}@{}", pair.0, pair.1)];
        only().is_none_or(|only| only.split(',').any(|name| names.iter().any(|n| n == name)))
    };
    let pairs: Vec<Pair> = pairs.iter().filter(is_wanted).copied().collect();
    if pairs.is_empty() {
        return Vec::new();
    }
    let sizes = if is_soak() { [5_000, 20_000] } else { [1_000, 4_000] };
    let [few, many] = sizes.map(|n| costs(&pairs, n, is_one_turn));
    let mut too_much = Vec::new();
    println!(
        "{:<34} events at {:>5} {:>5} MB {:>6} MB {:>6} factor   peak factor  seconds   factor",
        "", sizes[0], sizes[1], sizes[0], sizes[1]
    );
    for ((pair, few), many) in pairs.iter().zip(few).zip(many) {
        let factor = [0, 1].map(|i| many.0[i] as f64 / few.0[i] as f64);
        let slower = many.1.as_secs_f64() / few.1.as_secs_f64().max(0.001);
        let label = format!("{} @ {}", pair.0, pair.1);
        let mb = |bytes: u64| bytes as f64 / 1e6;
        println!(
            "{label:<34} {:>15} {:>5} {:>9.1} {:>9.1} {:>6.2} {:>6.0} {:>6.2} {:>6.2} {:>6.2} {:>6.2}",
            few.2,
            many.2,
            mb(few.0[0]),
            mb(many.0[0]),
            factor[0],
            mb(many.0[1]),
            factor[1],
            few.1.as_secs_f64(),
            many.1.as_secs_f64(),
            slower
        );
        // A limit that is passed late makes more events than four times as many; none of them may cost more.
        let most = 6.0 * (many.2 as f64 / few.2.max(1) as f64 / 4.0).max(1.0);
        if factor.iter().any(|f| *f >= most) {
            too_much.push(format!("{label}: {factor:.2?}"));
        }
        // What takes less than that is mostly what else the machine does.
        let is_long = many.1 >= Duration::from_millis(200);
        if is_soak() && is_long && slower >= most {
            too_much.push(format!("{label}: {slower:.2} times the time on the processor"));
        }
    }
    too_much
}
