//! Scores of small scripted logs, whose values can be told by hand.

use super::*;
use crate::context::log::Log;
use crate::store::{ContextRow, ScoreRow, TimelineRow};

fn prepared(script: &str) -> Prepared {
    Prepared::new(Log::script(script), &[3], &Tokenizer::load("o200k").unwrap()).unwrap()
}

fn scores(script: &str, partners: &[&str], strategy: (&str, &str), trigger: (&str, &str)) -> Vec<ScoreRow> {
    cell(script, partners, strategy, trigger).scores
}

fn cell(script: &str, partners: &[&str], strategy: (&str, &str), trigger: (&str, &str)) -> UnitRows {
    cell_of(&prepared(script), partners, strategy, trigger)
}

fn cell_of(own: &Prepared, partners: &[&str], strategy: (&str, &str), trigger: (&str, &str)) -> UnitRows {
    let partners: Vec<(usize, Arc<Prepared>)> = partners.iter().map(|p| (0, Arc::new(prepared(p)))).collect();
    let (plan, readers, variant) = (plan(), Readers::default(), variant(strategy, trigger));
    let scene = Scene::new(own, &partners, &plan, &readers);
    let tokenizer = Tokenizer::load("o200k").unwrap();
    scene.cell(&variant, &recipe(&variant, &Models::new()).unwrap(), &tokenizer).unwrap()
}

fn variant(strategy: (&str, &str), trigger: (&str, &str)) -> Variant {
    Variant {
        id: "v".to_owned(),
        label: String::new(),
        strategy: strategy.0.to_owned(),
        strategy_params: toml::from_str(strategy.1).unwrap(),
        trigger: trigger.0.to_owned(),
        trigger_params: toml::from_str(trigger.1).unwrap(),
        model: None,
        seed: 1,
        policy: None,
    }
}

fn plan() -> Plan {
    Plan {
        readers: crate::scores::readers::Named::default(),
        score_programs: Vec::new(),
        contexts: true,
        name: String::new(),
        tokenizer: "o200k".to_owned(),
        prices: Default::default(),
        seed: 1,
        shadow_seeds: 8,
        partners: vec!["other_repository".to_owned()],
        reference_tails: vec![3],
        filter: Default::default(),
        variants: Vec::new(),
        models: Default::default(),
        data: None,
        notes: Vec::new(),
    }
}

fn row<'a>(rows: &'a [ScoreRow], metric: &str, stratum: &str) -> &'a ScoreRow {
    rows.iter().find(|r| r.metric == metric && *r.stratum == *stratum).unwrap()
}

/// A path seen at turn 1 among 30 other lines, and used again at turn 8.
fn script() -> String {
    let noise: String =
        (0..30).map(|i| format!("~nothing special happened during round {i} today")).collect();
    let mut script = format!(
        "system: be good\nuser: the task\naction: ls\nobservation: start{noise}~the broken parser lives in src/parser.py beside its lexer"
    );
    for _ in 0..6 {
        script.push_str("\naction: date\nobservation: morning again");
    }
    script + "\naction: cat src/parser.py\nobservation: words"
}

const ALL_BUT_TWO: (&str, &str) = ("turns", "n = 5\nkeep = 2");
const EXPOSED: &str = "set=exposed tail=3";

#[test]
fn controls_stand_where_they_must() {
    let script = script();
    let at = |strategy: &str, params: &str, metric: &str| {
        let rows = scores(&script, &[], (strategy, params), ALL_BUT_TWO);
        let r = row(&rows, metric, EXPOSED);
        assert_eq!((r.n, r.weight), (1, 1.0));
        (r.value, r.ceiling, r.atom_bag)
    };
    assert_eq!(at("drop-all", "", "need_retention"), (Some(0.0), Some(0.0), Some(0.0)));
    assert_eq!(at("full", "", "need_retention").0, Some(1.0));
    assert_eq!(at("oracle", "kept_share = 0.1", "need_retention"), (Some(1.0), Some(1.0), Some(0.0)));
    // A bag of atoms has the atom and not what bound it.
    assert_eq!(at("atom-bag", "kept_share = 0.1", "surface_retention"), (Some(1.0), Some(1.0), Some(1.0)));
    assert_eq!(at("atom-bag", "kept_share = 0.1", "need_retention"), (Some(0.0), Some(1.0), Some(0.0)));
    assert_eq!(at("mask", "keep_last = 2", "need_retention").0, Some(0.0));
}

#[test]
fn the_random_shadow_keeps_about_its_share() {
    let rows = scores(&script(), &[], ("random", "kept_share = 0.5"), ALL_BUT_TWO);
    let r = row(&rows, "need_retention", EXPOSED);
    let floor = r.floor.unwrap();
    assert!((0.1..=0.9).contains(&floor), "{floor}");
    assert_eq!(floor * 8.0, (floor * 8.0).round(), "a mean over 8 seeds");
}

/// A placeholder leaves fewer tokens than the line has. Random cuts the line to them, and its beginning binds the path:
/// so may the oracle.
#[test]
fn the_oracle_cuts_what_random_cuts() {
    let mut script = format!(
        "user: the task\naction: ls\nobservation: broken parser src/parser.py {}",
        "and so on it goes ".repeat(8)
    );
    for _ in 0..6 {
        script.push_str("\naction: date\nobservation: morning again");
    }
    script.push_str("\naction: cat src/parser.py\nobservation: words");
    let rows = scores(&script, &[], ("mask", "keep_last = 2"), ("turns", "n = 1"));
    for metric in ["need_retention", "surface_retention"] {
        let r = row(&rows, metric, EXPOSED);
        assert_eq!((r.value, r.floor, r.ceiling, r.n), (Some(0.0), Some(1.0), Some(1.0), 1), "{metric}");
    }
    for level in ["level=surface", "level=bound"] {
        let r = row(&rows, "random_won_share", level);
        assert_eq!((r.value, r.weight, r.n), (Some(0.0), 1.0, 1));
    }
    // Without an event no shadow is cast.
    let rows = scores(&script, &[], ("full", ""), ("never", ""));
    assert!(rows.iter().all(|r| r.metric != "random_won_share"));
}

/// Two paths are seen at turns 1 and 2 and named at turn 7. The first was masked from turn 3 on.
fn edited() -> String {
    let idle = "\naction: date\nobservation: morning again".repeat(4);
    format!(
        "user: the task
        action: ls
        observation: the broken parser lives in src/parser.py beside its lexer => 3 gone
        action: dir
        observation: the broken lexer lives in src/lexer.py beside its parser{idle}
        action: cat src/parser.py src/lexer.py
        observation: words"
    )
}

#[test]
fn what_was_not_sent_is_no_fault_of_a_compression() {
    const COMMON: &str = "set=common tail=3";
    const UNSUPPORTED: &str = "set=common tail=3 unsupported=1";
    let under = |strategy: &str, trigger: (&str, &str)| scores(&edited(), &[], (strategy, ""), trigger);
    let full = under("full", ("never", ""));
    let sent = under("as-sent", ("logged-edits", ""));
    let none = under("drop-all", ("turns", "n = 5"));
    for (rows, headline, unsupported) in [(&full, 1.0, 1.0), (&sent, 1.0, 0.0), (&none, 0.0, 0.0)] {
        for metric in ["surface_retention", "need_retention"] {
            // Each of the two has the whole weight of its turn.
            let r = row(rows, metric, COMMON);
            assert_eq!((r.value, r.weight, r.n), (Some(headline), 1.0, 1));
            let r = row(rows, metric, UNSUPPORTED);
            assert_eq!((r.value, r.weight, r.n), (Some(unsupported), 1.0, 1));
        }
    }
    let r = row(&full, "unsupported_share", "tail=3 class=observed");
    assert_eq!((r.value, r.weight, r.n), (Some(0.5), 2.0, 2));
    let plain = scores(&script(), &[], ("full", ""), ("never", ""));
    assert_eq!(row(&plain, "unsupported_share", "tail=3 class=observed").value, Some(0.0));
    assert!(plain.iter().all(|r| !r.stratum.contains("unsupported")));
}

/// Against what was sent `full` costs tokens and `as-sent` saves none; without edits both are the whole.
#[test]
fn savings_against_what_was_sent() {
    let savings = |script: &str, strategy: &str, trigger: (&str, &str)| {
        let rows = scores(script, &[], (strategy, ""), trigger);
        let r = row(&rows, "token_savings_vs_sent", "").clone();
        (r.value.unwrap(), r.floor.unwrap(), r.ceiling.unwrap(), r.weight)
    };
    let log = Log::script(&edited());
    let tokens = |steps: std::ops::Range<usize>| log.tokens[steps].iter().map(|&n| f64::from(n)).sum::<f64>();
    // Step 2 is one token from turn 3 on: at 5 of the 7 decisions.
    let full: f64 = (0..7).map(|i| tokens(0..2 * i + 1)).sum();
    let sent = full - 5.0 * f64::from(log.tokens[2] - 1);
    let floor = 1.0 - full / sent;
    assert!(floor < 0.0);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
    let (value, low, high, weight) = savings(&edited(), "full", ("never", ""));
    near(value, floor);
    near(low, floor);
    near(high, floor);
    near(weight, sent);
    let (value, low, high, _) = savings(&edited(), "as-sent", ("logged-edits", ""));
    near(value, 0.0);
    near(low, floor);
    // All that could go of the edited step is its one token.
    near(high, 5.0 / sent);
    for strategy in ["full", "as-sent"] {
        let trigger = if strategy == "full" { ("never", "") } else { ("logged-edits", "") };
        assert_eq!(savings(&script(), strategy, trigger).0, 0.0);
    }
    let rows = scores(&script(), &[], ("drop-all", ""), ALL_BUT_TWO);
    assert_eq!(row(&rows, "token_savings_vs_sent", "").value, row(&rows, "token_savings", "").value);
}

/// The last turn before the need speaks of what the path stood beside, without naming it.
fn hinting() -> String {
    let (before, after) =
        script().rsplit_once("morning again").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    format!("{before}the lexer of the broken parser again{after}")
}

#[test]
fn a_need_is_met_by_what_is_recalled_for_its_decision() {
    let at = |params: &str, metric: &str| {
        let rows = scores(&hinting(), &[], ("notes", params), ALL_BUT_TWO);
        let r = row(&rows, metric, EXPOSED);
        assert_eq!(r.n, 1);
        (r.value, r.floor, r.ceiling, r.atom_bag)
    };
    let found = "keep_last = 2\nnote_tokens = 20\nk = 2";
    let (value, floor, ceiling, bag) = at(found, "need_retention");
    // The store's oracle finds the line in as many tokens, a bag of atoms does not bind, and of 31 lines
    // chance draws one that fits in some of 8 seeds at most.
    assert_eq!((value, ceiling, bag), (Some(1.0), Some(1.0), Some(0.0)));
    assert!(floor.unwrap() < 0.5, "{floor:?}");
    assert_eq!(at(found, "surface_retention").3, Some(1.0));
    // Nothing recalled is nothing for the shadows either.
    assert_eq!(at("keep_last = 2\nk = 0", "need_retention"), (Some(0.0), Some(0.0), Some(0.0), Some(0.0)));
    let rows = scores(&hinting(), &[], ("notes", found), ALL_BUT_TWO);
    assert!(rows.iter().all(|r| !r.stratum.contains("shadow=local")));
    let savings = |params: &str| {
        let rows = scores(&hinting(), &[], ("notes", params), ALL_BUT_TWO);
        (row(&rows, "token_savings", "").value.unwrap(), row(&rows, "token_savings", "").ceiling)
    };
    let (with, without) = (savings(found), savings("keep_last = 2\nk = 0"));
    assert!(with.0 < without.0 && with.1 == without.1, "{with:?} {without:?}");
}

/// What events left adds up to what they kept, what was recalled to what the timeline says; the notes are the whole scope.
#[test]
fn contexts_hold_what_stood_in_the_prompts_and_in_the_store() {
    let contexts = |strategy: (&str, &str)| {
        let rows = cell(&hinting(), &[], strategy, ALL_BUT_TWO);
        for event in &rows.events {
            let left =
                rows.contexts.iter().filter(|row| row.event == Some(event.event) && row.place == "left");
            assert_eq!(left.map(|row| u64::from(row.tokens)).sum::<u64>(), event.kept_tokens);
        }
        for decision in &rows.timeline {
            let recalled = rows
                .contexts
                .iter()
                .filter(|row| row.decision == decision.decision && row.place == "recalled");
            assert_eq!(recalled.map(|row| u64::from(row.tokens)).sum::<u64>(), decision.recalled_tokens);
        }
        assert!(!rows.events.is_empty());
        rows.contexts
    };
    let of = |rows: &[ContextRow], place: &str| -> Vec<ContextRow> {
        rows.iter().filter(|row| row.place == place).cloned().collect()
    };
    let rows = contexts(("random", "kept_share = 0.3"));
    assert!(rows.iter().all(|row| row.place == "left" && row.form == "excerpt"));
    assert!(rows.iter().all(|row| row.step.is_some() && row.text.as_ref().is_some_and(|t| !t.is_empty())));
    assert!(contexts(("drop-all", "")).is_empty());
    let rows = contexts(("notes", "keep_last = 2\nnote_tokens = 20\nk = 2"));
    assert!(of(&rows, "left").is_empty() && !of(&rows, "recalled").is_empty());
    let held = of(&rows, "held");
    assert!(held.iter().all(|row| row.form == "note" && row.event == held[0].event));
    let text: String = held.iter().flat_map(|row| row.text.clone()).collect();
    assert!(text.contains("the broken parser lives in src/parser.py") && text.contains("round 29 today"));
    let tier = |form: &str, limits: &str| {
        let held = of(&contexts(("tiered", &format!("hot_tokens = 0\n{limits}"))), "held");
        assert!(!held.is_empty() && held.iter().all(|row| row.form == form), "{held:?}");
        held
    };
    for row in tier("warm", "").into_iter().chain(tier("cold", "warm_tokens = 0")) {
        let details: serde_json::Value = serde_json::from_str(row.details.as_ref().unwrap()).unwrap();
        let level = if row.form == "warm" { 1 } else { 2 };
        assert_eq!(details["compression_level"], level);
        assert_eq!(details["compressed_length"], row.tokens);
        let lengths = ["original_length", "compressed_length"].map(|key| details[key].as_f64().unwrap());
        assert_eq!(details["compression_ratio"], lengths[0] / lengths[1]);
    }
}

#[test]
fn a_stranger_meets_what_is_recalled_for_it() {
    let twin = hinting().replace("the task", "another task");
    let rows = scores(&hinting(), &[&twin], ("notes", "keep_last = 2\nnote_tokens = 20"), ALL_BUT_TWO);
    assert_eq!(row(&rows, "need_retention", EXPOSED).chance, Some(1.0));
    let rows = scores(&hinting(), &[&twin], ("notes", "keep_last = 2\nk = 0"), ALL_BUT_TWO);
    assert_eq!(row(&rows, "need_retention", EXPOSED).chance, Some(0.0));
}

/// Three logs, each a partner of the others: cells that share replays have the rows of cells that share none, and each log is
/// replayed once. (Where contexts are shown, a partner that comes later is replayed for its own cell again.)
#[test]
fn replays_are_shared_and_change_no_row() {
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, Card, Finish, Text};
    let card = || Card { name: "m".to_owned(), identity: "test".to_owned(), window: 4096 };
    let answer = |_: &crate::models::Call| {
        let text = "The broken parser lives in src/parser.py.".to_owned();
        let finish = Finish::Stop;
        Some(Ok(Answer::Text(Text { text, finish, prompt_tokens: 9, tokens: 9, cut_tokens: 0 })))
    };
    let log = |place| {
        let script = script().replace("the task", &format!("task {place}"));
        Arc::new(Prepared { place: Some(place), is_partner: true, ..prepared(&script) })
    };
    let (logs, readers) = ([log(0), log(1), log(2)], Readers::default());
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let variant =
        Variant { model: Some("m".to_owned()), ..variant(("summary", ""), ("turns", "n = 2\nkeep = 1")) };
    // The rows of all three, and the calls for them.
    let rows = |plan: &Plan, replays: Option<&Replays>, others: bool| {
        let model = Arc::new(Scripted::rule(card(), answer));
        let models = Models::from([("m".to_owned(), Arc::clone(&model) as Arc<dyn Model>)]);
        let recipe = recipe(&variant, &models).unwrap();
        let of_one = |own: &Arc<Prepared>| {
            let partners = logs.iter().filter(|log| others && log.place != own.place);
            let partners: Vec<(usize, Arc<Prepared>)> = partners.map(|log| (0, Arc::clone(log))).collect();
            let scene = Scene { replays, ..Scene::new(own, &partners, plan, &readers) };
            format!("{:?}", scene.cell(&variant, &recipe, &tokenizer).unwrap())
        };
        let rows: Vec<String> = logs.iter().map(of_one).collect();
        (rows, model.asked().len())
    };
    for contexts in [false, true] {
        let plan = Plan { contexts, ..plan() };
        let (_, once) = rows(&plan, None, false);
        let (alone, thrice) = rows(&plan, None, true);
        let (shared, n) = rows(&plan, Some(&Replays::default()), true);
        assert!(once > 0 && alone == shared);
        assert_eq!((thrice, n * 3), (3 * once, if contexts { 5 * once } else { 3 * once }));
    }
}

#[test]
fn nothing_is_exposed_without_events_and_null_is_not_zero() {
    let rows = scores(&script(), &[], ("full", ""), ("never", ""));
    let r = row(&rows, "need_retention", EXPOSED);
    assert_eq!((r.value, r.floor, r.n), (None, None, 0));
    let common = row(&rows, "need_retention", "set=common tail=3");
    assert_eq!((common.value, common.floor, common.ceiling), (Some(1.0), Some(1.0), Some(1.0)));
    assert_eq!(row(&rows, "token_savings", "").value, Some(0.0));
    assert_eq!(row(&rows, "discard_lift", "").value, None);
}

#[test]
fn discard_lift_is_zero_for_dropping_all() {
    let script = script();
    let lift = |strategy: &str, params: &str| {
        row(&scores(&script, &[], (strategy, params), ALL_BUT_TWO), "discard_lift", "").value
    };
    assert_eq!(lift("drop-all", ""), Some(0.0));
    // The oracle keeps the needed line: nothing that it removes is needed.
    assert_eq!(lift("oracle", "kept_share = 0.1"), Some(1.0));
}

#[test]
fn chance_is_what_strangers_would_meet() {
    let script = script();
    let stranger = "user: other\naction: ls\nobservation: nothing of the kind\nagent: well\nagent: well";
    let twin = script.replace("the task", "another task");
    let chance = |partners: &[&str]| {
        let rows = scores(&script, partners, ("full", ""), ("never", ""));
        row(&rows, "need_retention", "set=common tail=3").chance
    };
    assert_eq!(chance(&[]), None);
    assert_eq!(chance(&[stranger]), Some(0.0));
    assert_eq!(chance(&[&twin]), Some(1.0));
    assert_eq!(chance(&[&twin, stranger]), Some(0.5));
}

#[test]
fn savings_by_hand() {
    let rows = scores(&script(), &[], ("drop-all", ""), ALL_BUT_TWO);
    let savings = row(&rows, "token_savings", "");
    // Everything removable is gone, so it is its own ceiling.
    assert_eq!(savings.value, savings.ceiling);
    assert!(savings.value.unwrap() > 0.0);
    let net = row(&rows, "net_savings", "").value.unwrap();
    assert!(net < savings.value.unwrap(), "the lost path is paid for again");
}

/// The log of `script`, by the provider's count 500 + 2 x ours, and six minutes before turn 4.
fn counted() -> Prepared {
    let mut log = Log::script(&script());
    let n = log.turns.len() as u32;
    log.rates = vec![crate::trajectory::usage::Rate { turns: 0..n, unseen: 500, factor: 2.0 }];
    for step in &mut log.trajectory.steps {
        step.time = Some(i64::from(step.turn + if step.turn >= 4 { 360 } else { 0 }) * 1_000_000);
    }
    log.trajectory.steps[2].usage =
        Some(Box::new(crate::trajectory::Usage { input: 520, cache_write: Some(9), ..Default::default() }));
    Prepared::new(log, &[3], &Tokenizer::load("o200k").unwrap()).unwrap()
}

#[test]
fn usage_is_billed_and_old_caches_are_gone() {
    let own = counted();
    let rows = cell_of(&own, &[], ("drop-all", ""), ALL_BUT_TWO);
    let n = rows.timeline.len() as f64;
    let sum = |f: fn(&TimelineRow) -> u64| rows.timeline.iter().map(f).sum::<u64>() as f64;
    let (full, sent) = (sum(|d| d.tokens_full), sum(|d| d.tokens_sent));
    let billed = row(&rows.scores, "token_savings_billed", "");
    let (full_billed, sent_billed) = (500.0 * n + 2.0 * full, 500.0 * n + 2.0 * sent);
    assert_eq!((billed.value, billed.weight), (Some((full_billed - sent_billed) / full_billed), full_billed));
    assert_eq!(billed.ceiling, billed.value, "nothing of what may go was kept");
    assert_eq!(row(&rows.scores, "token_savings", "").value, Some((full - sent) / full));
    assert_eq!(row(&rows.scores, "token_savings", "").weight, full);
    // Money: all is written at turn 1 and at turn 4, where the cache is gone; else the unseen part is read, too.
    let cost: f64 = rows
        .timeline
        .iter()
        .map(|d| {
            let (prompt, read) = (500.0 + 2.0 * d.tokens_full as f64, 500.0 + 2.0 * d.cached_full as f64);
            let read = if [1, 4].contains(&d.turn) { 0.0 } else { read };
            0.1 * read + 1.25 * (prompt - read) + 5.0 * 2.0 * d.output_tokens as f64
        })
        .sum();
    let money = row(&rows.scores, "cost_savings", "");
    assert!((money.weight - cost).abs() < 1e-9 * cost, "{} {cost}", money.weight);
    let expired: Vec<u32> = rows.timeline.iter().filter(|d| d.cache_expired).map(|d| d.turn).collect();
    assert_eq!(expired, [4]);
    let first = &rows.timeline[0];
    assert_eq!((first.unseen_tokens.get(), first.token_factor.get()), (Some(500), Some(2.0)));
    let usage = [first.usage_in, first.usage_cache_write, first.usage_out].map(|tokens| tokens.get());
    assert_eq!(usage, [Some(520), Some(9), None]);
    assert_eq!(rows.timeline[1].usage_in.get(), None);
}

/// A window of tokens is the provider's: what the log does not show stands in it.
#[test]
fn a_window_is_filled_by_what_the_log_does_not_show() {
    let fires = |own: &Prepared| {
        cell_of(own, &[], ("drop-all", ""), ("tokens", "window = 625\nkeep = 1"))
            .events
            .first()
            .map(|e| e.turn)
    };
    let plain = prepared(&script());
    assert_eq!(fires(&plain), None);
    let log = &plain.log;
    let ours = |turn: usize| {
        let end = log.turns[turn].decision.unwrap() as usize;
        log.tokens[..end].iter().map(|&n| u64::from(n)).sum::<u64>()
    };
    // 0.8 x 625 = 500 are there at the first decision; one turn must be old enough to go.
    assert!(2 * ours(8) < 2 * 500);
    assert_eq!(fires(&counted()), Some(3));
}

#[test]
fn without_usage_nothing_is_billed() {
    let rows = cell(&script(), &[], ("drop-all", ""), ALL_BUT_TWO);
    let billed = row(&rows.scores, "token_savings_billed", "");
    assert_eq!((billed.value, billed.weight, billed.n), (None, 0.0, 0));
    assert!(rows.timeline.iter().all(|d| d.unseen_tokens.get().is_none() && !d.cache_expired));
}

/// A parallel call with a huge result costs nothing to the one that holds what is needed, and an
/// agent that repeats the atom in few words has not thereby made it cheap to get.
#[test]
fn rework_is_the_call_that_brings_the_atom_back() {
    let mut log = Log::script(&script());
    let source = 3;
    let hard = log.tokens_again(source);
    assert_eq!(hard, u64::from(log.tokens[2] + log.tokens[3]));
    log.trajectory.steps[2].call_id = Some("a".into());
    log.trajectory.steps[3].call_id = Some("a".into());
    assert_eq!(log.call_of(source), Some(2));
    assert_eq!(money::rework(&log, &[(source, 1), (source, 1), (source, 2)]), 2 * hard);
    let needs = crate::context::needs::Needs::of(&log, 3);
    assert_eq!(needs.list[0].source, Some(source));
}
