//! Programs that score as they should, and the ways in which they do not. (The programs are in Python.)

use std::path::PathBuf;

use super::super::points::Past;
use super::*;
use crate::context::Context;
use crate::context::needs::Needs;
use crate::replay::{Event, Observer, Recipe, replay};
use crate::strategies;
use crate::text::tokens::Tokenizer;

/// The beginning of every program: it greets, reads an event, and has `good`, an answer.
const BEGIN: &str = r#"
import json, os, subprocess, sys, time
def say(x):
    sys.stdout.write(json.dumps(x) + "\n"); sys.stdout.flush()
def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
read()
say({"protocol": 1, "name": "toy", "version": "1", "better": "higher", "range": [0, 1], "unit": "share"})
def first():
    if os.path.exists(__file__ + ".flag"):
        return False
    open(__file__ + ".flag", "w").close()
    return True
while True:
    event = read()
    good = {"event": event["event"], "value": 0.5}
"#;

struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    fn new(body: &str) -> Self {
        let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
        Program::whole(&format!("{BEGIN}{body}"))
    }

    fn whole(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("toy.py"), text).unwrap();
        Program { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn own(&self, more: &str) -> Own {
        let command = format!("command = ['python3', '{}']\n{more}", self.path("toy.py").display());
        toml::from_str(&command).unwrap()
    }

    fn pinned(&self, more: &str) -> anyhow::Result<Own> {
        let mut all = [self.own(more)];
        pin(&mut all)?;
        Ok(all.into_iter().next().unwrap())
    }

    fn rows(&self, more: &str) -> anyhow::Result<Rows> {
        rows(&[self.pinned(more)?])
    }
}

fn log() -> Log {
    let turn = |i: u32| format!("action: cat src/part{i}.py\nobservation: one_{i} = {i}~two_{i} = 2\n");
    let turns: String = (0..13).map(turn).collect();
    Log::script(&format!("user: mend it all\n{}", turns.trim_end()))
}

/// Six events, of which five are points.
fn rows(all: &[Own]) -> anyhow::Result<Rows> {
    let log = log();
    let run = strategies::tests::run(("drop-all", ""), ("turns", "n = 2"), &log);
    assert_eq!(run.events.len(), 6);
    let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
    score(&log, &run, all, 7, &mut rows)?;
    Ok(rows)
}

/// Of each event its value and weight; then of the cell value, weight and number, and the share that is unscored.
type Told = (Vec<(u32, Option<f64>, f64)>, (Option<f64>, f64, u64), Option<f64>);

fn told(rows: &Rows) -> Told {
    let (events, cell): (Vec<_>, Vec<_>) = rows.rows.iter().partition(|row| row.event.is_some());
    let events = events.iter().map(|row| (row.event.unwrap(), row.value, row.weight)).collect();
    let [of_cell, unscored] = cell[..] else { panic!("{cell:?}") };
    assert!(of_cell.metric.starts_with("toy 1 #") && unscored.metric == UNSCORED_SHARE.name);
    (events, (of_cell.value, of_cell.weight, of_cell.n), unscored.value)
}

#[test]
fn values_of_events_become_one_by_their_weights() {
    let program = Program::new(
        r#"
before, after, later = (" ".join(m["content"] for m in event[key]) for key in ("before", "after", "later"))
assert event["goal"] == "mend it all" and event["params"] == {"k": 3} and event["seed"] > 0
assert "mend it all" in before and "mend it all" in after
n = event["turn"]
assert f"one_{n - 2} " in before and f"one_{n - 1} " in later and f"one_{n - 1} " not in before + after, (n, before, later)
assert sum(m["tokens"] for m in event["after"]) < sum(m["tokens"] for m in event["before"])
value = None if n == 7 else n / 20
say({"event": event["event"], "value": value, "weight": n})
"#,
    );
    let (events, (value, weight, n), unscored) = told(&program.rows("params = { k = 3 }").unwrap());
    let expected = [(0, 3.0), (1, 5.0), (2, 7.0), (3, 9.0)];
    let value_of = |n: f64| if n == 7.0 { None } else { Some(n / 20.0) };
    let expected: Vec<_> = expected.iter().map(|&(event, n)| (event, value_of(n), n)).collect();
    assert_eq!(events, expected);
    let sum: f64 = [3.0, 5.0, 9.0].iter().map(|n| n * n / 20.0).sum();
    assert_eq!((value, weight, n, unscored), (Some(sum / 17.0), 17.0, 3, Some(0.0)));
}

/// What a program does wrong at its first event.
const WRONG: [(&str, &str); 14] = [
    ("no answer", "time.sleep(99)"),
    ("half a line", "sys.stdout.write('{\"event\": 1, '); sys.stdout.flush(); time.sleep(99)"),
    ("a line of 100 MB", "sys.stdout.write('x' * 100_000_000 + '\\n')"),
    ("death", "sys.stderr.write('out of ink\\n'); sys.exit(7)"),
    ("a child", "subprocess.Popen(['sleep', '97']); os._exit(1)"),
    ("words", "print('so far so good')"),
    ("another event", "good['event'] = 77"),
    ("an endless loop", "while True: pass"),
    ("a value out of range", "good['value'] = 1.5"),
    ("a value that is no number", "good['value'] = float('nan')"),
    ("words for a value", "good['value'] = 'high'"),
    ("no value", "del good['value']"),
    ("a weight below 0", "good['weight'] = -1"),
    ("a weight that sums up to no number", "good['weight'] = 1e308"),
];

#[test]
fn a_wrong_answer_costs_its_event_alone() {
    for (what, body) in WRONG {
        let program = Program::new(&format!("if first():\n    {body}\nsay(good)"));
        let (events, of_cell, unscored) = told(&program.rows("timeout = 6.0").unwrap());
        let rest: Vec<_> = (1..4).map(|event| (event, Some(0.5), 1.0)).collect();
        assert_eq!((events, of_cell, unscored), (rest, (Some(0.5), 3.0, 3), Some(0.25)), "{what}");
    }
}

#[test]
fn what_cannot_go_on_is_told() {
    let error = |program: Program| format!("{:#}", program.rows("").err().expect("an error"));
    let gone = error(Program::new("open(__file__, 'a').write('#')\nsay(good)"));
    assert!(gone.contains("has changed: it is toy 1 #") && gone.contains("`--replace`"), "{gone}");
    let says =
        |hello: &str| error(Program::whole(&format!("input()\nprint('''{hello}''', flush=True)\ninput()")));
    let strategy = says(r#"{"protocol": 1, "name": "toy", "version": "1"}"#);
    assert!(strategy.contains("is to have `better`, `range` and `unit`"), "{strategy}");
    let greeting = |name: &str, better: &str, range: &str, unit: &str| {
        says(&format!(
            r#"{{"protocol": 1, "name": "{name}", "version": "1", "better": "{better}", "range": {range}, "unit": "{unit}"}}"#
        ))
    };
    let wrong = [
        (greeting("need_retention", "higher", "[0, 1]", "share"), "is the name of a score of trajpress"),
        (greeting("toy", "more", "[0, 1]", "share"), "`better` is `more`, expected higher, lower, neither"),
        (greeting("toy", "lower", "[1, 0]", "share"), "`range` ends before it begins"),
        (greeting("toy", "lower", "[0, 1]", " "), "`unit` is to be a word"),
        (greeting("", "lower", "[0, 1]", "share"), "its name and version are to be one line each"),
        (greeting("toy", "lower", "7", "share"), "it is no greeting"),
    ];
    for (error, expected) in wrong {
        assert!(error.contains(expected), "{expected}: {error}");
    }
    let program = Program::new("say(good)");
    let twice = pin(&mut [program.own(""), program.own("timeout = 9.0")]).unwrap_err().to_string();
    assert!(twice.contains("is there twice"), "{twice}");
    let failing = Program::new("sys.exit('out of ink')");
    let mut own = failing.pinned("").unwrap();
    own.about.program.clear();
    assert!(rows(std::slice::from_ref(&own)).is_ok(), "four failures are no reason to give up");
    // Given up, it costs nothing but its own values.
    assert_eq!(told(&rows(&[own]).unwrap()), (vec![], (None, 0.0, 0), Some(1.0)));
}

/// Contexts before and after each event, as the replay had them.
#[derive(Default)]
struct Seen<'a> {
    log: Option<&'a Log>,
    now: Vec<String>,
    is_event: bool,
    contexts: Vec<[Vec<String>; 2]>,
}

fn text(log: &Log, block: &Block) -> Option<String> {
    (block.kind(log) != Some(Kind::Tools)).then(|| block.text(log))
}

impl Observer for Seen<'_> {
    fn appended(&mut self, step: u32) {
        let log = self.log.unwrap();
        self.now.extend(text(log, &whole(log, step)));
    }

    fn compressed(&mut self, _: &[Block], _: &Event, _: u32) {
        assert!(!std::mem::replace(&mut self.is_event, true));
    }

    fn standing(&mut self, context: &Context) {
        let log = self.log.unwrap();
        let now: Vec<String> = context.blocks.iter().filter_map(|block| text(log, block)).collect();
        let before = std::mem::replace(&mut self.now, now.clone());
        if std::mem::take(&mut self.is_event) {
            self.contexts.push([before, now]);
        }
    }
}

/// What programs are shown is what stood in the prompts.
#[test]
fn contexts_are_those_of_the_replay() {
    let (log, tokenizer) = (log(), Tokenizer::load("o200k").unwrap());
    let mut n = 0;
    let triggers = [
        ("turns", "n = 1"),
        ("turns", "n = 4\nkeep = 2"),
        ("staleness", "recent = 1\nmax_age = 2\nthreshold = 0.6\nbatch = 1"),
    ];
    for (entry, trigger) in strategies::ALL.iter().flat_map(|e| triggers.map(|trigger| (e, trigger))) {
        let recipe = Recipe::named((entry.name, ""), trigger);
        let mut seen = Seen { log: Some(&log), ..Seen::default() };
        let run = replay(&log, &recipe, &tokenizer, &Needs::of(&log, 3), &mut seen).unwrap();
        assert_eq!(run.events.len(), seen.contexts.len());
        let mut past = Past::new(&log);
        for (event, [before, after]) in run.events.iter().zip(&seen.contexts) {
            let until = log.turns[event.turn as usize].decision.unwrap();
            let texts = |past: &Past<'_>| {
                past.context(until).iter().map(|block| block.text(&log)).collect::<Vec<String>>()
            };
            assert_eq!(texts(&past), *before, "before {}: {trigger:?}", entry.name);
            past.pass(event);
            assert_eq!(texts(&past), *after, "after {}: {trigger:?}", entry.name);
            n += 1;
        }
    }
    assert!(n > 500, "{n}");
}
