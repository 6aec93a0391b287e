//! Tests of the replay: what stands in the prompt before and after events, worked out by hand.

use std::collections::HashMap;
use std::sync::Arc;

use super::*;
use crate::models::Model;
use crate::trajectory::LoggedEdit;
use crate::{strategies, triggers};

fn log(n: u32) -> Log {
    let mut script = String::from("system: be good\nuser: the task");
    for i in 0..n {
        script.push_str(&format!(
            "\naction: cat file{i}\nobservation: alpha beta gamma delta~epsilon zeta eta theta~iota {i}"
        ));
    }
    Log::script(&script)
}

fn run(log: &Log, strategy: (&str, &str), trigger: (&str, &str)) -> Run {
    struct Nobody;
    impl Observer for Nobody {}
    run_seen(log, strategy, trigger, &mut Nobody)
}

fn run_seen(log: &Log, strategy: (&str, &str), trigger: (&str, &str), observer: &mut dyn Observer) -> Run {
    let recipe = Recipe::named(strategy, trigger);
    let tokenizer = Tokenizer::load("o200k").unwrap();
    replay(log, &recipe, &tokenizer, &Needs::of(log, 3), observer).unwrap()
}

/// Six known turns and those of the log are judged, seven tokens each.
#[test]
fn what_a_trigger_asks_is_counted() {
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, Call, Card, Scores, TokenScore};
    let log = log(4);
    let card = Card { name: "m".to_owned(), identity: "test".to_owned(), window: 999 };
    let model = Scripted::rule(card, |call| {
        let Call::Score { continuations, .. } = call else { return None };
        let continuations =
            continuations.iter().map(|_| vec![TokenScore { end: 1, logprob: -1.0 }]).collect();
        Some(Ok(Answer::Scores(Scores { parts: vec![], continuations, prompt_tokens: 7, cut_tokens: 0 })))
    });
    let recipe = Recipe {
        trigger_model: Some(Arc::new(model)),
        ..Recipe::named(("mask", ""), ("intent", "model = 'm'"))
    };
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let run = replay(&log, &recipe, &tokenizer, &Needs::default(), &mut Auditor::of(&recipe)).unwrap();
    assert_eq!(run.trigger_asked, Asked { calls: 6 + 4, tokens_in: 70, tokens_out: 0 });
    assert_eq!(run.decisions.len(), 4);
}

#[test]
fn full_sends_all_and_caches_all_but_the_new() {
    let log = log(4);
    let run = run(&log, ("full", ""), ("never", ""));
    let sent: Vec<u64> = run.decisions.iter().map(|d| d.tokens_sent).collect();
    let head = u64::from(log.tokens[0] + log.tokens[1]);
    let turn = |i: usize| u64::from(log.tokens[2 + 2 * i] + log.tokens[3 + 2 * i]);
    assert_eq!(sent, [head, head + turn(0), head + turn(0) + turn(1), head + turn(0) + turn(1) + turn(2)]);
    for d in &run.decisions {
        assert_eq!((d.tokens_sent, d.cached_sent), (d.tokens_full, d.cached_full));
    }
    assert_eq!(run.decisions[2].cached_full, sent[1]);
}

#[test]
fn a_rolling_mask_leaves_the_last_turns_alone() {
    let log = log(6);
    let run = run(&log, ("mask", "keep_last = 2"), ("turns", "n = 1"));
    // Deciding turn 4 is the first with a turn older than the last two.
    let turns: Vec<(u32, Range<u32>)> = run.events.iter().map(|e| (e.turn, e.turns.clone())).collect();
    assert_eq!(turns, [(4, 1..2), (5, 2..3), (6, 3..4)]);
    assert!(run.events.iter().all(|e| e.violations.is_empty() && e.removable.len() == 1));
    let last = run.decisions.last().unwrap();
    let saved: u64 = run.events.iter().map(|e| e.removable_tokens - e.kept_tokens).sum();
    assert_eq!(last.tokens_full - last.tokens_sent, saved);
    // The prefix ends before the newly masked observation.
    let before_change: u64 = (0..3).map(|s| u64::from(log.tokens[s])).sum();
    assert_eq!(run.decisions[3].cached_sent, before_change);
}

#[test]
fn n_and_m_drop_the_first_and_keep_the_last() {
    let log = log(9);
    let run = run(&log, ("drop-all", ""), ("turns", "n = 3\nkeep = 2"));
    let turns: Vec<(u32, Range<u32>)> = run.events.iter().map(|e| (e.turn, e.turns.clone())).collect();
    assert_eq!(turns, [(6, 1..4), (9, 4..7)]);
    let head = u64::from(log.tokens[0] + log.tokens[1]);
    let kept: u64 = (2 + 6 * 2..2 + 8 * 2).map(|s| u64::from(log.tokens[s])).sum();
    assert_eq!(run.decisions[8].tokens_sent, head + kept);
}

/// Observations go stale when they are 2 turns old; the actions beside them stay.
#[test]
fn single_steps_leave_the_rest_of_their_turns() {
    let log = log(4);
    let rule = "recent = 1\nmax_age = 2\nthreshold = 0.6\nbatch = 1";
    let taken = |run: &Run| -> Vec<(u32, Option<Vec<u32>>)> {
        run.events.iter().map(|e| (e.turn, e.only.clone())).collect()
    };
    let dropped = run(&log, ("drop-all", ""), ("staleness", rule));
    assert_eq!(taken(&dropped), [(3, Some(vec![3])), (4, Some(vec![5]))]);
    assert!(dropped.events.iter().all(|e| e.violations.is_empty() && e.removable.len() == 1));
    let gone = u64::from(log.tokens[3] + log.tokens[5]);
    let last = dropped.decisions.last().unwrap();
    assert_eq!(last.tokens_full - last.tokens_sent, gone);
    // The prompt before turn 4 is the same up to the observation that goes.
    assert_eq!(last.cached_sent, [0, 1, 2, 4].iter().map(|&s: &usize| u64::from(log.tokens[s])).sum::<u64>());
    // What the strategy leaves alone waits for the next firing.
    let kept = run(&log, ("truncate", "keep_last = 2"), ("staleness", rule));
    assert_eq!(taken(&kept), [(4, Some(vec![3]))]);
    // A recursive strategy takes what it left before with it.
    let summed = run(&log, ("summary", ""), ("staleness", rule));
    assert!(summed.events.iter().all(|e| e.takes == ALL) && summed.events.len() == 2);
}

/// The texts of what stands in the prompt of each decision, without order, and whether a pair is parted there.
struct Prompts<'a> {
    log: &'a Log,
    logged: Vec<u32>,
    blocks: Vec<Block>,
    prompts: Vec<Vec<String>>,
    is_parted: Vec<bool>,
}

impl<'a> Prompts<'a> {
    fn new(log: &'a Log) -> Self {
        Prompts { log, logged: vec![], blocks: vec![], prompts: vec![], is_parted: vec![] }
    }

    /// Whether of some id calls and results were logged, and only calls or only results stand as messages.
    fn parts(&self) -> bool {
        let mut found: HashMap<&str, [[bool; 2]; 2]> = HashMap::new();
        let standing = self.blocks.iter().filter_map(Block::message);
        for (set, step) in self.logged.iter().map(|&s| (0, s)).chain(standing.map(|s| (1, s))) {
            let step = &self.log.trajectory.steps[step as usize];
            if let Some(id) = step.call_id.as_deref() {
                found.entry(id).or_default()[set][usize::from(step.kind == Kind::Action)] = true;
            }
        }
        found.values().any(|[logged, standing]| *logged == [true, true] && standing[0] != standing[1])
    }
}

impl Observer for Prompts<'_> {
    fn reset(&mut self) {
        self.logged.clear();
        self.blocks.clear();
    }
    fn appended(&mut self, step: u32) {
        self.logged.push(step);
        let (turn, tokens) = (self.log.turn_of(step), self.log.tokens[step as usize]);
        self.blocks.push(Block { turn, tokens, content: Content::Step(step), fresh: true, left: 0 });
    }
    fn compressed(&mut self, before: &[Block], event: &Event, _: u32) {
        for gone in before {
            let at = self.blocks.iter().position(|b| b.content == gone.content);
            self.blocks.remove(at.expect("what an event takes stands there"));
        }
        self.blocks.extend(event.after.iter().cloned());
    }
    fn decided(&mut self, _: u32, _: u32) {
        self.prompts.push(self.blocks.iter().map(|b| b.text(self.log)).collect());
        self.is_parted.push(self.parts());
    }
}

fn prompts(log: &Log, strategy: (&str, &str), trigger: (&str, &str)) -> (Run, Vec<Vec<String>>) {
    let mut seen = Prompts::new(log);
    let run = run_seen(log, strategy, trigger, &mut seen);
    assert!(seen.is_parted.iter().all(|parted| !parted));
    (run, seen.prompts)
}

/// Each observation that goes stale takes its call along, and nothing else.
#[test]
fn a_stale_result_goes_with_its_call() {
    let turn =
        |i: u32| format!("\nthought: so {i}\naction#c{i}: look {i}\nobservation#c{i}: seen {i} and more");
    let log = Log::script(&format!("user: go{}", (0..4).map(turn).collect::<String>()));
    let rule = ("staleness", "recent = 1\nmax_age = 2\nthreshold = 0.6\nbatch = 1");
    let (run, seen) = prompts(&log, ("drop-all", ""), rule);
    let only: Vec<Option<Vec<u32>>> = run.events.iter().map(|e| e.only.clone()).collect();
    assert_eq!(only, [Some(vec![2, 3]), Some(vec![5, 6])]);
    assert_eq!(seen[3], ["go", "so 0", "so 1", "so 2", "look 2", "seen 2 and more"]);
    for strategy in ["truncate", "random", "summary", "mask", "tool-log", "codex"] {
        let params = if strategy == "truncate" || strategy == "mask" { "keep_last = 1" } else { "" };
        let (run, _) = prompts(&log, (strategy, params), rule);
        let told: Vec<&str> = run.events.iter().flat_map(|e| e.violations.clone()).collect();
        assert!(told.iter().all(|v| *v == "longer than the original"), "{strategy}: {told:?}");
    }
}

/// The result of `a` comes two turns after its call: the call stays for it, and both go together.
#[test]
fn a_call_waits_for_its_result() {
    const SCRIPT: &str = "user: go
        thought: one
        action#a: slow
        thought: two
        action#b: quick
        observation#b: quickly done
        thought: three
        observation#a: slowly done
        thought: four
        agent: end";
    let log = Log::script(SCRIPT);
    let (run, seen) = prompts(&log, ("drop-all", ""), ("turns", "n = 1"));
    assert_eq!(seen[1], ["go", "slow"]);
    assert_eq!(seen[2], ["go", "slow"]);
    assert_eq!(seen[3], ["go"]);
    assert!(run.events.iter().all(|e| e.violations.is_empty()));
    let turns: Vec<_> = run.events.iter().map(|e| (e.turns.clone(), e.fresh, e.only.clone())).collect();
    let late = [(1..2, 1, Some(vec![1])), (2..3, 2, None), (1..4, 1, Some(vec![2, 6, 7]))];
    assert_eq!(turns[..3], late);
    // One that never gets a result waits for none.
    let script = SCRIPT.replace("observation#a", "observation#c");
    let (_, seen) = prompts(&Log::script(&script), ("drop-all", ""), ("turns", "n = 1"));
    assert_eq!(seen[1], ["go"]);
    // What a strategy keeps of the one it keeps of the other.
    prompts(&log, ("truncate", "keep_last = 0\nkeep_first = 1"), ("turns", "n = 3"));
    prompts(&log, ("summary", ""), ("turns", "n = 1"));
}

#[test]
fn the_task_and_the_system_stand_whatever_goes() {
    let log = Log::script(
        "system: be good
         agent: Hello!
         user: move booking QX7
         agent: I look.
         system: no refunds
         user: and?
         agent: Nothing.
         summary: looked
         agent: Well.
         agent: End.",
    );
    let (run, seen) = prompts(&log, ("drop-all", ""), ("turns", "n = 1"));
    assert_eq!(seen[2], ["be good", "move booking QX7", "no refunds", "and?"]);
    assert_eq!(seen[3], ["be good", "move booking QX7", "no refunds", "looked"]);
    assert_eq!(seen[4], ["be good", "move booking QX7", "no refunds", "looked"]);
    let only: Vec<_> = run.events.iter().map(|e| (e.turns.clone(), e.only.clone())).collect();
    assert_eq!(only, [(1..2, None), (2..3, Some(vec![3])), (4..5, None)]);
    assert!(run.events.iter().all(|e| e.removable.iter().all(|&step| !log.is_pinned(step))));
    let full = |steps: &[usize]| steps.iter().map(|&s| u64::from(log.tokens[s])).sum::<u64>();
    assert_eq!(run.decisions[3].tokens_full, full(&[0, 2, 4, 7]));
    // The summary of a recursive strategy stands once, and the task beside it.
    let (_, seen) = prompts(&log, ("summary", ""), ("turns", "n = 1"));
    assert!(seen.iter().skip(1).all(|prompt| prompt.contains(&"move booking QX7".to_owned())));
}

/// Turns 2 and 3 stand in the second segment, too, and turn 2 in the third.
#[test]
fn what_a_compaction_kept_stands_behind_its_summary() {
    const SCRIPT: &str = "user: go
        action#a: ls
        observation#a: nothing
        action#b: cat notes
        observation#b: a b c d
        agent: I read them.
        summary: what was done
        agent: Well.
        agent: End.
        summary: all of it
        agent: Good.";
    let log = Log::kept(SCRIPT, &[(3, 2), (4, 2), (5, 1)]);
    let (run, seen) = prompts(&log, ("full", ""), ("never", ""));
    assert_eq!(seen[3], ["go", "what was done", "cat notes", "a b c d", "I read them."]);
    assert_eq!(seen[5], ["go", "all of it", "cat notes", "a b c d"]);
    let tokens = |steps: &[usize]| steps.iter().map(|&s| u64::from(log.tokens[s])).sum::<u64>();
    let d = &run.decisions[3];
    assert_eq!((d.tokens_full, d.tokens_sent), (tokens(&[0, 6, 3, 4, 5]), tokens(&[0, 6, 3, 4, 5])));
    assert_eq!(run.decisions[4].tokens_full, tokens(&[0, 6, 3, 4, 5, 7]));
    // They are compressed like any turn of the segment: as its first ones.
    let (run, seen) = prompts(&log, ("drop-all", ""), ("turns", "n = 1"));
    assert_eq!(seen[4], ["go", "what was done"]);
    let last = run.events.iter().rfind(|e| e.segment == 1).unwrap();
    assert_eq!((last.turns.clone(), &last.only), (2..5, &Some(vec![3, 4, 5, 7])));
    assert!(run.events.iter().all(|e| e.violations.is_empty()));
}

/// A cleared context is a segment that begins with nothing but the head.
#[test]
fn a_cleared_context_has_no_summary() {
    let log = Log::script("system: s\nuser: task\nagent: one\nsummary: \nuser: next\nagent: two\nagent: end");
    let (run, seen) = prompts(&log, ("drop-all", ""), ("turns", "n = 1"));
    assert_eq!(seen[1], ["s", "task", "next"]);
    assert_eq!(run.decisions[1].tokens_full, run.decisions[1].tokens_sent);
    assert_eq!(seen[2], ["s", "task"]);
}

#[test]
fn a_logged_compaction_begins_anew_and_a_bridge_goes_over_it() {
    const SCRIPT: &str =
        "user: task\naction: ls\nobservation: a b c d e f g h i j\nsummary: short\nagent: more\nagent: end";
    let log = Log::script(SCRIPT);
    let plain = run(&log, ("full", ""), ("never", ""));
    let head = u64::from(log.tokens[0]);
    let summary = u64::from(log.tokens[3]);
    assert_eq!(plain.decisions[1].tokens_sent, head + summary);
    assert!(run(&log, ("drop-all", ""), ("logged", "")).events.is_empty());
    let log = Log::script_bridged(SCRIPT);
    let past = u64::from(log.tokens[1] + log.tokens[2]);
    for (strategy, left) in [("drop-all", 0), ("logged", summary)] {
        let bridged = run(&log, (strategy, ""), ("logged", ""));
        assert_eq!(bridged.events.len(), 1);
        assert_eq!(bridged.events[0].turns, 1..2);
        assert_eq!(bridged.decisions[1].tokens_sent, head + left);
        assert_eq!(bridged.decisions[1].tokens_full, head + past);
    }
}

#[test]
fn the_same_seed_draws_the_same_lines() {
    let log = log(9);
    let decisions = || run(&log, ("random", "kept_share = 0.3"), ("turns", "n = 3")).decisions;
    assert_eq!(decisions(), decisions());
}

#[test]
fn what_is_recalled_stands_in_one_prompt_alone() {
    let log = Log::script(
        "system: be good
         user: the task
         action: cat a.py
         observation: the parser of the report lives in src/parser.py beside its lexer, and so on
         action: ls
         observation: the parser is broken
         action: pwd
         observation: nothing else
         agent: done",
    );
    let run = run(&log, ("notes", "keep_last = 1"), ("turns", "n = 1"));
    let recalled: Vec<u64> = run.decisions.iter().map(|d| d.recalled_tokens).collect();
    assert!(recalled[2] > 0 && recalled[0] == 0 && recalled[1] == 0, "{recalled:?}");
    let blocks: u64 = run.recalls[0].blocks.iter().map(|b| u64::from(b.tokens)).sum();
    assert_eq!((run.recalls[0].decision, blocks), (2, recalled[2]));
    let tokens = |steps: &[usize]| steps.iter().map(|&s| u64::from(log.tokens[s])).sum::<u64>();
    // The third prompt: head, the second turn, what is recalled of the first.
    assert_eq!(run.decisions[2].tokens_sent, tokens(&[0, 1, 4, 5]) + recalled[2]);
    // The fourth shares only the head: the second turn is gone; what was recalled is in no cache.
    assert_eq!(run.decisions[3].cached_sent, tokens(&[0, 1]));
    assert_eq!(run.decisions[3].tokens_sent, tokens(&[0, 1, 6, 7]) + recalled[3]);
}

/// Checks what must hold at every event, whatever the strategy.
struct Auditor {
    may_grow: bool,
}

impl Auditor {
    fn of(recipe: &Recipe) -> Self {
        Auditor { may_grow: recipe.is_record() }
    }
}

impl Observer for Auditor {
    fn recalled(&mut self, blocks: &[Block], until: u32) {
        for block in blocks {
            assert!(block.tokens > 0);
            if let Content::Excerpt { step, .. } = block.content {
                assert!(step < until, "the future is recalled");
            }
        }
    }

    fn compressed(&mut self, before: &[Block], event: &Event, until: u32) {
        let sum = |blocks: &[Block]| blocks.iter().map(|b| u64::from(b.tokens)).sum::<u64>();
        let is_shorter = sum(&event.after) <= sum(before) && event.kept_tokens <= event.removable_tokens;
        assert!(is_shorter || self.may_grow, "an event made its scope longer");
        assert_eq!(event.tokens_before + sum(&event.after), event.tokens_after + sum(before));
        // Single steps can be of the turn at hand.
        assert!(event.turns.end <= event.turn + u32::from(event.only.is_some()));
        for block in before {
            // What was compressed before may lie behind a scope of whole turns, if single steps were taken there.
            assert!(
                event.turns.contains(&block.turn) || !block.fresh,
                "a block of turn {} in scope {:?}",
                block.turn,
                event.turns
            );
            if let Content::Step(step) = block.content {
                assert!(step < until, "the future is in the scope");
            }
        }
    }
}

use proptest::prelude::*;

fn any_script(with_ids: bool) -> impl Strategy_<Value = String> {
    let text = prop_oneof![
        6 => "[a-z]{1,6}( [a-z]{1,6}| (src/)?[a-c]{1,2}\\.py|~| timeout=[0-9]{1,2}){0,12}",
        // What triggers look for.
        4 => prop::sample::select(vec![
            "cat src/a.py", "sed -i s/a/b/ src/b.py", "pytest tests/a.py", "1 passed in 0.1s", "1 failed in 0.1s",
            "all tests pass", "now i'll fix it",
        ])
        .prop_map(str::to_owned),
    ];
    let role = prop_oneof![
        4 => Just("action"), 4 => Just("observation"), 2 => Just("thought"), 2 => Just("agent"),
        1 => Just("user"), 1 => Just("summary"), 1 => Just("system"), 1 => Just("answer"), 1 => Just("harness"),
    ];
    // Half of the logs have ids: a result answers one of the last calls, or none.
    (prop::collection::vec((role, text, 0usize..4), 0..60), any::<bool>(), any::<bool>()).prop_map(
        move |(lines, has_ids, greets)| {
            let has_ids = has_ids && with_ids;
            let mut script =
                format!("system: be good{}\nuser: the task", if greets { "\nagent: Hi!" } else { "" });
            let mut n_calls = 0;
            for (role, text, back) in lines {
                n_calls += usize::from(role == "action");
                let id = match role {
                    "action" if has_ids => format!("#{n_calls}"),
                    "observation" | "answer" if has_ids && back < 3 => {
                        format!("#{}", n_calls.saturating_sub(back))
                    }
                    _ => String::new(),
                };
                script.push_str(&format!("\n{role}{id}: {text}"));
            }
            script
        },
    )
}

/// A model that answers some calls, fails at some, and loops at some.
fn fickle() -> Arc<dyn Model> {
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, Call, CallError, Card, Finish, Text};
    let card = Card { name: "fickle".to_owned(), identity: "test".to_owned(), window: 4096 };
    Arc::new(Scripted::rule(card, |call| {
        let Call::Generate { prompt, .. } = call else { return None };
        let length: usize = prompt.parts.iter().map(|part| part.text.len()).sum();
        let (text, finish) = match length % 4 {
            0 => return Some(Err(CallError::Timeout(1))),
            1 => ("again again again", Finish::Loop),
            2 => (" ", Finish::Stop),
            _ => ("It went on.", Finish::Stop),
        };
        let text = text.to_owned();
        Some(Ok(Answer::Text(Text { text, finish, prompt_tokens: 9, tokens: 3, cut_tokens: 0 })))
    }))
}

use proptest::strategy::Strategy as Strategy_;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// In a log that ends earlier the same is left by every event, and the same recalled, until there. (Without ids: which
    /// calls wait for a result is told by the log.)
    #[test]
    fn no_strategy_sees_the_future(
        script in any_script(false),
        cut in 2usize..60,
        passed in prop::collection::vec(prop_oneof![Just(1i64), Just(10), Just(1000)], 62),
    ) {
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let shorter = script.lines().take(cut).collect::<Vec<_>>().join("\n");
        let (mut whole, mut part) = (Log::script(&script), Log::script(&shorter));
        for log in [&mut whole, &mut part] {
            let mut now = 0;
            for (step, passed) in log.trajectory.steps.iter_mut().zip(&passed) {
                now += passed;
                step.time = Some(now);
            }
        }
        // What is drawn at random is drawn by the name.
        part.trajectory.id.clone_from(&whole.trajectory.id);
        let recency = "hot_tokens = 0\nwarm_tokens = 20\ncold_tokens = 8\nfloor = 0.0\ndecay = 0.3\nw_recency = 9.0";
        for entry in strategies::ALL {
            // So that what is there to come back hangs on the time, too.
            let params = if entry.name == "tiered" { recency } else { "" };
            let seen = |log: &Log| {
                let recipe = Recipe::named((entry.name, params), ("turns", "n = 2"));
                if recipe.sees_future() {
                    return (0, Vec::new());
                }
                let run = replay(log, &recipe, &tokenizer, &Needs::of(log, 3), &mut Auditor::of(&recipe)).unwrap();
                let text = |blocks: &[Block]| blocks.iter().map(|b| b.text(log)).collect::<Vec<_>>();
                let left = run.events.iter().map(|e| (e.decision, "left", text(&e.after)));
                let recalled = run.recalls.iter().map(|r| (r.decision, "recalled", text(&r.blocks)));
                (run.decisions.len() as u32, left.chain(recalled).collect())
            };
            let (n, part) = seen(&part);
            let (_, mut whole) = seen(&whole);
            whole.retain(|(decision, ..)| *decision < n);
            prop_assert_eq!(whole, part, "{}", entry.name);
        }
    }

    /// Every strategy under every trigger, over generated histories.
    #[test]
    fn all_strategies_keep_the_invariants(
        script in any_script(true),
        kept in prop::collection::vec((0usize..60, 1u32..4), 0..5),
    ) {
        let n_steps = script.lines().count();
        let kept: Vec<(usize, u32)> = kept.into_iter().filter(|(step, _)| *step < n_steps).collect();
        let mut log = Log::kept(&script, &kept);
        for (i, step) in log.trajectory.steps.iter_mut().enumerate().step_by(3) {
            let text = ["", "gone", "and these words were sent in the place of it"][i % 5 % 3].to_owned();
            step.edit = Some(Box::new(LoggedEdit { from: step.turn + i as u32 % 4, text }));
        }
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let bridged = Log::script_bridged(&script);
        let (needs, bridged_needs) = (Needs::of(&log, 3), Needs::of(&bridged, 3));
        for entry in strategies::ALL {
            for (trigger, params) in triggers::tests::eager().chain([("turns", "n = 1")]) {
                let recipe = Recipe {
                    model: entry.takes_model.then(fickle),
                    ..Recipe::named((entry.name, ""), (trigger, params))
                };
                let (log, needs) = if trigger == "logged" { (&bridged, &bridged_needs) } else { (&log, &needs) };
                let run = replay(log, &recipe, &tokenizer, needs, &mut Auditor::of(&recipe)).unwrap();
                let n = log.turns.iter().skip(1).filter(|t| t.decision.is_some()).count();
                prop_assert_eq!(run.decisions.len(), n);
                for d in &run.decisions {
                    // What was sent may have been longer.
                    let is_short = d.tokens_sent <= d.tokens_full || recipe.is_record();
                    prop_assert!(is_short, "{} {}", entry.name, trigger);
                    prop_assert!(d.cached_sent <= d.tokens_sent && d.cached_full <= d.tokens_full);
                    prop_assert!(d.kept_tokens + d.recalled_tokens <= d.tokens_sent);
                    prop_assert!(d.cached_sent + d.recalled_tokens <= d.tokens_sent);
                }
                if entry.name == "full" {
                    prop_assert!(run.decisions.iter().all(|d| d.tokens_sent == d.tokens_full));
                }
                let mut seen = Prompts::new(log);
                let again = replay(log, &recipe, &tokenizer, needs, &mut seen).unwrap();
                prop_assert!(seen.is_parted.iter().all(|parted| !parted), "{} {}", entry.name, trigger);
                let violations = run.events.iter().flat_map(|e| &e.violations);
                prop_assert!(!violations.into_iter().any(|v| v.contains("without")), "{} {}", entry.name, trigger);
                let pinned = (0..log.n_steps() as u32).filter(|&step| log.is_pinned(step));
                for step in pinned {
                    let text = &log.trajectory.steps[step as usize].text;
                    let stand = seen.prompts.iter().zip(&run.decisions).filter(|(_, d)| {
                        log.turns[d.turn as usize].decision.is_some_and(|decision| step < decision)
                    });
                    prop_assert!(stand.into_iter().all(|(prompt, _)| prompt.contains(text)));
                }
                prop_assert_eq!(run.decisions, again.decisions);
            }
        }
    }
}
