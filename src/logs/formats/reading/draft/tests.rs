//! Tests of `draft`.

use super::*;
use crate::logs::formats::Source;

fn finished(draft: Draft) -> (Trajectory, Losses) {
    let source = Source::test("a.json", "toy");
    let mut sink = Sink::new(&source);
    draft.finish(Trajectory::default(), &mut sink);
    (sink.trajectories.remove(0), sink.losses)
}

#[test]
fn results_go_to_the_nearest_earlier_unanswered_call() {
    let mut d = Draft::new();
    for _ in 0..2 {
        d.begin_call();
        d.action("f".into(), "{}".into(), Some("call_0".into()));
        d.result(Some("call_0"), None, "r".into(), None);
    }
    d.result(Some("call_0"), None, "orphan".into(), None);
    let (t, losses) = finished(d);
    let ids: Vec<Option<&str>> = t.steps.iter().map(|s| s.call_id.as_deref()).collect();
    assert_eq!(ids, [Some("call_0"), Some("call_0"), Some("call_0#2"), Some("call_0#2"), None]);
    assert_eq!(losses.0["repeated call id made unique"], 1);
    assert_eq!(losses.0["tool result without a call"], 1);
}

#[test]
fn another_model_stands_on_the_first_step_of_its_reply() {
    let mut d = Draft::new();
    for model in ["a", "b", "b", "a"] {
        d.model(model);
        d.begin_call();
        // A reply ends only where the next one is known.
        d.model("c");
        d.agent(Kind::Thought, "hm".into());
        d.action("f".into(), "{}".into(), None);
    }
    let (t, losses) = finished(d);
    let models: Vec<Option<&str>> = t.steps.iter().map(|s| s.model.as_deref()).collect();
    assert_eq!(models, [None, None, Some("b"), None, Some("b"), None, None, None]);
    assert_eq!((t.model.as_deref(), losses.0.contains_key("model")), (Some("a"), false));
}

#[test]
fn a_result_that_is_logged_twice_is_one() {
    let mut d = Draft::new();
    d.begin_call();
    d.usage(Some(Usage { input: 9, ..Usage::default() }));
    d.action("f".into(), "{}".into(), Some("c".into()));
    d.also_known_as(Some("other".into()));
    for text in ["par", "part one", "part one\n", "part"] {
        d.result(Some("c"), None, text.into(), None);
    }
    d.result(Some("other"), None, "part one".into(), None);
    d.result(Some("c"), None, "something else".into(), None);
    let (t, losses) = finished(d);
    let texts: Vec<&str> = t.steps.iter().map(|s| s.text.as_str()).collect();
    assert_eq!(texts, ["f", "part one", "something else"]);
    assert_eq!(losses.0["repeated tool result merged"], 4);
    assert_eq!(losses.0["tool result without a call"], 1);
    assert_eq!(t.steps[0].usage.as_ref().map(|u| u.input), Some(9));
    assert!(t.steps[1..].iter().all(|s| s.usage.is_none()));
}

/// A call of long ago that was never answered takes nothing from those of the newest turn, which come in order.
#[test]
fn results_without_ids_go_to_the_nearest_turn() {
    let mut d = Draft::new();
    for tools in [["f", "g"], ["f", "f"]] {
        d.begin_call();
        tools.iter().for_each(|tool| d.action((*tool).into(), "{}".into(), None));
    }
    for tool in [Some("f"), None, Some("g"), None, None] {
        d.result(None, tool.map(str::to_owned), "r".into(), None);
    }
    let (t, losses) = finished(d);
    let ids: Vec<Option<&str>> = t.steps[4..].iter().map(|s| s.call_id.as_deref()).collect();
    assert_eq!(ids, [Some("call-3"), Some("call-4"), Some("call-2"), Some("call-1"), None]);
    assert_eq!(losses.0["tool result without a call"], 1);
}

#[test]
fn results_without_ids_go_to_the_first_open_call_of_the_name() {
    let mut d = Draft::new();
    d.begin_call();
    d.action("f".into(), "{}".into(), None);
    d.action("g".into(), "{}".into(), None);
    d.result(None, Some("g".into()), "of g".into(), None);
    d.result(None, None, "of f".into(), None);
    let (t, losses) = finished(d);
    let tools: Vec<Option<&str>> = t.steps.iter().map(|s| s.tool.as_deref()).collect();
    assert_eq!(tools, [Some("f"), Some("g"), Some("g"), Some("f")]);
    assert_eq!(t.steps[2].call_id.as_deref(), Some("call-2"));
    assert_eq!(losses, Losses::default());
}

/// So many calls are open at once that a search of all for each would take minutes.
#[test]
fn many_calls_at_once_each_get_their_result() {
    let n = 300_000;
    let mut d = Draft::new();
    d.begin_call();
    for i in 0..n {
        d.action(format!("f{}", i % 2), "{}".into(), (i % 3 > 0).then(|| format!("c{i}")));
    }
    for i in (0..n).filter(|i| i % 3 > 0) {
        d.result(Some(&format!("c{i}")), None, i.to_string(), None);
    }
    // Those without an id, by name: of `f1` the calls 3, 9, 15 ..., of `f0` 0, 6, 12 ...
    for (name, at) in (0..n).step_by(6).flat_map(|i| [("f1", i + 3), ("f0", i)]) {
        d.result(None, Some(name.into()), at.to_string(), None);
    }
    assert!(!d.has_open_call());
    let (t, losses) = finished(d);
    assert_eq!(losses, Losses::default());
    let (calls, results) = t.steps.split_at(n);
    for result in results {
        let call = &calls[result.text.parse::<usize>().unwrap()];
        assert_eq!((&call.call_id, &call.tool), (&result.call_id, &result.tool));
    }
}

#[test]
fn one_id_of_many_calls_at_once_and_edits_of_all_results() {
    let n = 100_000;
    let mut d = Draft::new();
    d.begin_call();
    for _ in 0..n {
        d.action("f".into(), "{}".into(), Some("c".into()));
    }
    for i in 0..n {
        d.at(i, None);
        d.result(Some("c"), None, "r".into(), None);
    }
    for i in 0..n {
        assert!(d.edit_message(i, "gone"));
    }
    assert!(d.edit_result("c", "late") && d.edit_result("c#7", "late") && !d.edit_result("d", "late"));
    let (t, losses) = finished(d);
    assert_eq!(losses.0["repeated call id made unique"], n as u64 - 1);
    // The nearest earlier call is answered first.
    let ids = [n - 1, n, 2 * n - 1].map(|at| t.steps[at].call_id.as_deref().unwrap());
    assert_eq!(ids, ["c#100000", "c#100000", "c"]);
    assert!(t.steps[n..].iter().all(|s| s.edit.as_ref().is_some_and(|e| e.text == "gone")));
}

#[test]
fn nul_and_base64_do_not_reach_the_text() {
    let mut losses = Losses::default();
    let mut text = format!("a\0b <img src=\"data:image/png;base64,{}\"> c", "A".repeat(4000));
    clean(&mut text, &mut losses);
    assert_eq!(text, "a\u{fffd}b <img src=\"[image image/png 3000 bytes]\"> c");
    let mut short = format!("{} data:x;base64,AAAA", "x".repeat(2000));
    let before = short.clone();
    clean(&mut short, &mut losses);
    assert_eq!(short, before);
}

#[test]
fn the_goal_is_the_first_user_message_cut() {
    let mut d = Draft::new();
    d.user("<command-name>/x</command-name>".into());
    d.user("é".repeat(5000));
    let (t, _) = finished(d);
    assert_eq!(t.goal.unwrap().chars().count(), GOAL_CHARS);
}

#[test]
fn the_goal_is_what_stands_behind_tags() {
    let goal = |texts: &[&str]| {
        let mut d = Draft::new();
        texts.iter().for_each(|text| d.user((*text).to_owned()));
        finished(d).0.goal.unwrap()
    };
    let tags = "<ide_note a=\"1\">x</ide_note>\n<env-info></env-info>";
    assert_eq!(goal(&[&format!("{tags} Fix it."), "take 9"]), "Fix it.");
    for whole in ["<task>Fix it.</task>\nThanks.", "<div> is not closed in a.html. Add </div> and test it."] {
        assert_eq!(goal(&[whole, "take 9"]), whole);
    }
    assert_eq!(goal(&[" Fix it.", "take 9"]), " Fix it.");
    // A text that only looks like a tag is said; where nothing else is, all of the first one is it.
    assert_eq!(goal(&["<3 this. Fix it.", "take 9"]), "<3 this. Fix it.");
    assert_eq!(goal(&["<x></x> ", "<y></y>"]), "<x></x> ");
    // As Roo Code and Cline write it, with what they add.
    let task = "<task>\nFix it.\n</task>\n<environment_details>\na\n</environment_details>";
    assert_eq!(goal(&["<system-reminder>x</system-reminder>", task, "take 9"]), "Fix it.");
    assert!(!is_harness(task));
}
