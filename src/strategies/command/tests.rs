//! Programs that do as they should, and the ways in which they do not. (The programs are in Python.)

use std::path::PathBuf;
use std::time::Duration;

use super::super::tests::run;
use super::*;
use crate::context::Block;
use crate::context::log::Log;
use crate::replay::{Recipe, Run};

/// The beginning of every program: it greets, reads an event, and has `good`, an answer that keeps the first message.
const BEGIN: &str = r#"
import json, os, signal, subprocess, sys, time
def say(x):
    sys.stdout.write(json.dumps(x) + "\n"); sys.stdout.flush()
def read():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    return json.loads(line)
assert read() == {"protocol": 1}
say({"protocol": 1, "name": "toy", "version": "1"})
flag = __file__ + ".flag"
def first():
    if os.path.exists(flag):
        return False
    open(flag, "w").close()
    return True
while True:
    event = read()
    messages = event["messages"]
    good = {"event": event["event"], "messages": [{"id": m["id"]} for m in messages[:1]]}
"#;

struct Program {
    folder: tempfile::TempDir,
}

impl Program {
    fn new(body: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let body: String = body.lines().map(|line| format!("    {line}\n")).collect();
        std::fs::write(folder.path().join("toy.py"), format!("{BEGIN}{body}")).unwrap();
        Program { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn params(&self, more: &str) -> String {
        format!("command = ['python3', '{}']\n{more}", self.path("toy.py").display())
    }

    fn run(&self, more: &str) -> Run {
        self.run_on(&log(), more)
    }

    fn run_on(&self, log: &Log, more: &str) -> Run {
        run(("command", &self.params(more)), ("turns", "n = 2"), log)
    }
}

fn log() -> Log {
    let turn = |i: u32| {
        format!(
            "action: cat src/part{i}.py\nobservation: one_{i} = {i}~two_{i} = 2~three_{i} = 3~and more words of the file\n"
        )
    };
    let turns: String = (0..9).map(turn).collect();
    Log::script(&format!("user: mend it all\n{}", turns.trim_end()))
}

fn after(run: &Run, log: &Log) -> Vec<Vec<String>> {
    run.events.iter().map(|event| event.after.iter().map(|block| block.text(log)).collect()).collect()
}

#[test]
fn what_is_kept_is_copied_and_what_is_new_is_generated() {
    let program = Program::new(
        r#"
assert event["goal"] == "mend it all" and event["params"] == {"mode": "x"}, event
assert os.environ["PYTHONHASHSEED"] == "0"
assert [m["role"] for m in messages] == ["assistant", "tool"] * 2, messages
assert event["tokens"] == sum(m["tokens"] for m in messages) and abs(event["budget"] - event["tokens"] / 2) <= 0.5
assert messages[1]["tool_call_id"] == messages[0]["tool_calls"][0]["id"]
lines = messages[3]["content"].split("\n")
say({"event": event["event"], "messages": [
    {"role": "user", "content": "The start."},
    messages[0],
    {"id": 1, "content": "Nothing."},
    {"id": "3", "content": lines[1] + "\n" + lines[3]},
    {"role": "user", "content": [{"type": "text", "text": "The end."}]},
]})
"#,
    );
    let log = log();
    let run = program.run("kept_share = 0.5\nparams = { mode = 'x' }");
    let texts = &after(&run, &log)[0];
    assert_eq!(run.events[0].work.fallback, None);
    assert!(run.events[0].work.degenerate.is_empty());
    assert_eq!(texts[0], "The start.");
    assert!(texts[1].contains("src/part0.py") && texts[2] == "Nothing.", "{texts:?}");
    assert!(texts.iter().any(|text| text == "two_1 = 2\nand more words of the file"), "{texts:?}");
    assert_eq!(texts.last().unwrap(), "The end.");
    let after = &run.events[0].after;
    let generated: u32 = after.iter().map(Block::generated_tokens).sum();
    let new: u32 = after
        .iter()
        .filter(|b| ["The start.", "Nothing.", "The end."].contains(&&*b.text(&log)))
        .map(|b| b.tokens)
        .sum();
    assert_eq!(generated, new);
}

/// Spans join blank lines to the line before, and cut lines at 200 characters: neither is seen in what is copied.
#[test]
fn lines_that_are_kept_are_copied_be_they_long_or_blank_between() {
    let program = Program::new(
        r#"
lines = messages[1]["content"].split("\n")
assert len(lines) == 8 and lines[1] == lines[4] == "" and len(lines[3]) > 500, lines
texts = ["\n".join(lines[:3]), "\n".join(lines[2:6]), "\n".join([lines[0], lines[3], lines[7]]), "\n".join(lines[2:7]), "\n".join([lines[3][:450], lines[5]])]
say({"event": event["event"], "messages": [messages[0], {"id": "1", "content": texts[min(event["event"], 5) - 1]}, messages[2], messages[3]]})
"#,
    );
    let long = "some words of a long line, ".repeat(20) + "and its end";
    let turn = format!("action: cat a.py\nobservation: one = 1~~two = 2~{long}~~three = 3~~end\n");
    let log = Log::script(&format!("user: mend it all\n{}", turn.repeat(12).trim_end()));
    let run = program.run_on(&log, "");
    let texts = after(&run, &log);
    let kept = [
        "one = 1\n\ntwo = 2".to_owned(),
        format!("two = 2\n{long}\n\nthree = 3"),
        format!("one = 1\n{long}\nend"),
        format!("two = 2\n{long}\n\nthree = 3\n"),
    ];
    for (at, kept) in kept.iter().enumerate() {
        assert!(texts[at].contains(kept), "{kept}: {:#?}", texts[at]);
        let generated: u32 = run.events[at].after.iter().map(Block::generated_tokens).sum();
        assert_eq!(generated, 0, "{kept}");
    }
    // A part of a line is no line.
    assert!(run.events[4].after.iter().map(Block::generated_tokens).sum::<u32>() > 50);
}

#[test]
fn edits_leave_the_rest_as_it_is() {
    let program = Program::new(
        r#"say({"event": event["event"], "edits": [{"mask": "1", "text": "(gone)"}, {"insert": "Then:", "before": 2}]})"#,
    );
    let log = log();
    let texts = &after(&program.run(""), &log)[0];
    assert_eq!((texts[1].as_str(), texts[2].as_str(), texts.len()), ("(gone)", "Then:", 5));
    // To keep all is to do nothing.
    let all = Program::new(r#"say({"event": event["event"], "messages": messages})"#);
    let full = run(("full", ""), ("turns", "n = 2"), &log);
    let sent = |run: &Run| run.decisions.iter().map(|decision| decision.tokens_sent).collect::<Vec<_>>();
    assert_eq!(sent(&all.run("")), sent(&full));
}

#[test]
fn nothing_of_the_future_is_shown_and_the_seed_is_the_events() {
    let program = Program::new(
        r#"
open(__file__ + ".seen", "a").write(json.dumps(event) + "\n")
say(good)
"#,
    );
    let seen = || {
        let run = program.run("");
        let text = std::fs::read_to_string(program.path("toy.py.seen")).unwrap();
        std::fs::remove_file(program.path("toy.py.seen")).unwrap();
        let events: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(events.len(), run.events.len());
        for (event, shown) in run.events.iter().zip(&events) {
            for later in event.turn..9 {
                assert!(!shown.to_string().contains(&format!("one_{later} ")), "{shown}");
            }
        }
        events.into_iter().map(|event| event["seed"].clone()).collect::<Vec<Value>>()
    };
    let seeds = seen();
    assert!(seeds[0] != seeds[1] && seeds == seen());
}

/// What a program does wrong at its first event, and what that is told as.
const WRONG: [(&str, &str, Flaw); 15] = [
    ("no answer", "time.sleep(99)", Flaw::NoAnswer),
    (
        "half a line",
        "sys.stdout.write('{\"event\": 1, '); sys.stdout.flush(); time.sleep(99)",
        Flaw::NoAnswer,
    ),
    (
        "half a line and an end",
        "sys.stdout.write('{\"event\": 1, '); sys.stdout.flush(); os._exit(3)",
        Flaw::NotInForm,
    ),
    ("a line of 100 MB", "sys.stdout.write('x' * 100_000_000 + '\\n')", Flaw::Longer),
    ("death", "sys.stderr.write('out of ink\\n'); sys.exit(7)", Flaw::NoAnswer),
    ("a child", "left(subprocess.Popen(['sleep', '97'])); os._exit(1)", Flaw::NoAnswer),
    ("words", "print('so far so good')", Flaw::NotInForm),
    ("wrong ids", "good['messages'] = [{'id': '999'}]", Flaw::NotInForm),
    ("another event", "good['event'] = 77", Flaw::NotInForm),
    ("a new reply", "good['messages'] = [{'role': 'assistant', 'content': 'x'}]", Flaw::NotInForm),
    ("a new prompt", "good['messages'] = [{'role': 'system', 'content': 'x'}]", Flaw::NotInForm),
    ("a result of nothing", "good['messages'] = [{'role': 'tool', 'content': 'x'}]", Flaw::NotInForm),
    ("another role", "good['messages'] = [{'id': '0', 'role': 'user'}]", Flaw::NotInForm),
    ("an endless loop", "while True: pass", Flaw::NoAnswer),
    (
        "a child that nobody can end",
        "left(subprocess.Popen(['sh', '-c', 'trap \"\" TERM HUP INT; sleep 96; sleep 96'], start_new_session=True)); time.sleep(99)",
        Flaw::NoAnswer,
    ),
];

#[cfg(target_os = "linux")]
#[test]
fn a_wrong_answer_costs_its_event_alone() {
    let log = log();
    for (what, body, flaw) in WRONG {
        let program = Program::new(&format!(
            "def left(child):\n    open(__file__ + '.pid', 'w').write(str(child.pid))\nif first():\n    {body}\nsay(good)"
        ));
        let run = program.run("timeout = 6.0");
        let told: Vec<_> = run.events.iter().map(|e| (e.work.degenerate.clone(), e.work.fallback)).collect();
        assert_eq!(told[0], (vec![flaw], Some("drop-all")), "{what}");
        assert!(told.len() > 3 && told[1..].iter().all(|told| *told == (vec![], None)), "{what}: {told:?}");
        let texts = after(&run, &log);
        assert!(texts[0].is_empty() && texts[1].concat().contains("src/part"), "{what}: {texts:?}");
        if let Ok(child) = std::fs::read_to_string(program.path("toy.py.pid")) {
            let status = || std::fs::read_to_string(format!("/proc/{child}/status")).unwrap_or_default();
            let is_there = || !status().is_empty() && !status().contains("State:\tZ");
            let soon = (0..40).any(|_| {
                !is_there() || {
                    std::thread::sleep(Duration::from_millis(50));
                    false
                }
            });
            assert!(soon, "{what}: the child lives");
        }
    }
}

fn failing(program: &Program, more: &str) -> String {
    let log = log();
    struct Nobody;
    impl crate::replay::Observer for Nobody {}
    let recipe = Recipe::named(("command", &program.params(more)), ("turns", "n = 1"));
    let tokenizer = crate::text::tokens::Tokenizer::load("o200k").unwrap();
    let run = crate::replay::replay(&log, &recipe, &tokenizer, &Default::default(), &mut Nobody);
    format!("{:#}", run.err().unwrap())
}

/// To load a model takes longer than to answer.
#[test]
fn a_start_has_time_of_its_own() {
    let program = Program::new("say(good)");
    let slow =
        std::fs::read_to_string(program.path("toy.py")).unwrap().replacen("say({", "time.sleep(3); say({", 1);
    std::fs::write(program.path("toy.py"), slow).unwrap();
    assert!(program.run("timeout = 2.5").events.iter().all(|event| event.work.fallback.is_none()));
    let pinned = |more: &str| pin(&mut program.params(more).parse().unwrap());
    let error = format!("{:#}", pinned("start_timeout = 0.2").unwrap_err());
    assert!(error.contains("does not start: no answer within 0.2 s"), "{error}");
    let wrong = Command::of(program.params("start_timeout = -1.0").parse().unwrap()).unwrap();
    assert!(wrong.spec().is_err());
}

#[test]
fn a_program_that_only_fails_is_given_up() {
    let error = failing(&Program::new("sys.exit('out of ink')"), "");
    assert!(
        error.contains(
            "was given up: 5 answers in a row could not be used; the last: it ended (exit status: 1)"
        )
    );
    assert!(error.ends_with("it last said: out of ink\n") || error.ends_with("out of ink"), "{error}");
    assert!(programs::may_pass(&error));
}

#[test]
fn another_program_is_another_variant() {
    let program = Program::new("say(good)\nopen(__file__, 'a').write('#')");
    let mut params: Table = program.params("").parse().unwrap();
    pin(&mut params).unwrap();
    let pinned = params["program"].as_str().unwrap().to_owned();
    assert!(pinned.starts_with("toy 1 #") && pinned.len() == 19, "{pinned}");
    // It changes itself at its first event: its second one is another program's.
    let error = failing(&program, &format!("program = '{pinned}'"));
    assert!(
        error.contains("has changed: it is toy 1 #")
            && error.contains("`--replace`")
            && error.contains("`--fresh`"),
        "{error}"
    );
    assert!(programs::may_pass(&error));
    let mut again: Table = program.params("").parse().unwrap();
    pin(&mut again).unwrap();
    assert_ne!(again["program"], params["program"]);
    let why = |params: &str| format!("{:#}", pin(&mut params.parse().unwrap()).unwrap_err());
    assert!(why("").contains("no program\nhint: "));
    assert!(why("command = ['no-such-program']").contains("does not start: `no-such-program`"));
    let silent = why("command = ['python3', '-c', 'import sys; sys.exit(\"no such module\")']");
    assert!(silent.contains("it ended (exit status: 1)\nit last said: no such module"), "{silent}");
    let echo = why("command = ['echo', 'hello']");
    let says = ["it wrote `hello`: nobody had asked", "it is no greeting"];
    assert!(says.iter().any(|says| echo.contains(says)), "{echo}");
}
