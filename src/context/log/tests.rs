//! Tests of `log`.

use super::*;

#[test]
fn a_path_suffix_is_the_path_if_only_one_ends_so() {
    let log = Log::script(
        "user: look at src/db/models.py and tests/conftest.py and lib/conftest.py
             agent: models.py and conftest.py",
    );
    let name = |step: u32| -> Vec<&str> {
        log.mentions_of_step(step).iter().map(|m| log.atom(m.atom).text).collect()
    };
    assert_eq!(name(1), ["src/db/models.py", "conftest.py"]);
}

/// What comes later makes no difference: `a.py` is `src/a.py` once that was said, and stays it.
#[test]
fn what_a_path_went_by_is_told_by_those_before() {
    let log = Log::script("user: a.py\nagent: src/a.py\nuser: lib/a.py\nagent: a.py and src/a.py");
    let texts = |of: fn(&Mention) -> AtomId| -> Vec<&str> {
        log.mentions.iter().map(|m| log.atom(of(m)).text).collect()
    };
    assert_eq!(texts(|m| m.so_far), ["a.py", "a.py", "lib/a.py", "a.py", "a.py"]);
    assert_eq!(texts(|m| m.atom), ["a.py", "src/a.py", "lib/a.py", "a.py", "src/a.py"]);
    assert_eq!(log.find_atom("models.py"), log.find_atom("src/db/models.py"));
}

/// Slashes at the ends say nothing, whether or not the rest is ambiguous.
#[test]
fn spellings_with_slashes_at_the_ends_are_one_path() {
    let log = Log::script(
        "user: see a/x/y.py and b/x/y.py and /testbed/docs/
             agent: x/y.py
             agent: /x/y.py and /testbed/docs and docs/",
    );
    assert_eq!(log.find_atom("x/y.py"), log.find_atom("/x/y.py"));
    assert_ne!(log.find_atom("x/y.py"), log.find_atom("a/x/y.py"));
    let docs = log.find_atom("/testbed/docs").expect("a path");
    assert!(["/testbed/docs/", "docs/"].iter().all(|d| log.find_atom(d).is_none_or(|a| a == docs)));
}

#[test]
fn a_bridged_log_has_one_segment_and_its_summaries_apart() {
    let script =
        "user: go\naction: ls\nobservation: src/a.py\nsummary: saw src/a.py and b.py\nuser: on\nagent: b.py";
    let log = Log::script_bridged(script);
    let turns: Vec<(u32, Range<u32>, Option<u32>)> =
        log.turns.iter().map(|t| (t.segment, t.steps.clone(), t.decision)).collect();
    assert_eq!(turns, [(0, 0..1, None), (0, 1..3, Some(1)), (0, 4..6, Some(5))]);
    assert_eq!(log.summaries, BTreeMap::from([(2, "saw src/a.py and b.py".to_owned())]));
    assert_eq!((log.n_segments, log.tokens[3]), (1, 0));
    let b = log.find_atom("b.py").expect("the agent names it");
    assert_eq!(log.mentions_of_atom(b).count(), 1);
    assert!(Log::script(script).summaries.is_empty());
}

/// The greeting stands before the task, and the system speaks twice; the harness is no system prompt.
#[test]
fn the_task_and_what_the_system_says_are_pinned() {
    let log = Log::script(
        "system: be good
             agent: Hello!
             user: the task
             agent: Well.
             harness: a reminder
             system: be better
             user: more
             agent: Well.
             summary: so far
             agent: Well.",
    );
    assert_eq!((0..10).filter(|&s| log.is_pinned(s)).collect::<Vec<_>>(), [2, 5]);
    assert_eq!(log.pinned_before(0).count(), 0);
    assert_eq!(log.pinned_before(1).collect::<Vec<_>>(), [2, 5]);
    // In the head they stand anyway.
    assert!(!Log::script("system: s\nuser: task\nagent: a\nuser: more\nagent: b").has_pinned());
}

#[test]
fn what_compactions_kept_is_known_by_segment() {
    let script = "user: u\nagent: a\nagent: b\nsummary: one\nagent: c\nsummary: two\nagent: d";
    let kept = [(0, 9), (1, 2), (2, 1), (4, 1), (6, 2)];
    let log = Log::kept(script, &kept);
    let of = |segment| log.kept_in(segment).collect::<Vec<_>>();
    assert_eq!([of(0), of(1), of(2), of(3)], [vec![], vec![1, 2], vec![1], vec![]]);
    let trajectory = log.trajectory;
    let rows = Log::rows(&trajectory);
    let bridged = Log::bridged(trajectory, rows).unwrap();
    assert!((0..4).all(|segment| bridged.kept_in(segment).count() == 0));
}

#[test]
fn turns_know_their_decisions() {
    let log = Log::script("system: s\nuser: u\nthought: t\naction: a\nobservation: o\nuser: u\nagent: r");
    let turns: Vec<(Range<u32>, Option<u32>)> =
        log.turns.iter().map(|t| (t.steps.clone(), t.decision)).collect();
    assert_eq!(turns, [(0..2, None), (2..5, Some(2)), (5..7, Some(6))]);
}

/// What was edited only when a compaction had taken it stood in its own prompts as it was.
#[test]
fn a_bridged_log_has_the_edits_of_each_segment_alone() {
    let log = Log::script_bridged(
        "user: go
            action: ls
            observation: a.py => 2 cut
            action: ls
            observation: b.py => 3 cut
            summary: so far
            agent: well",
    );
    let edited = |step: usize| log.trajectory.steps[step].edit.is_some();
    assert_eq!([edited(2), edited(4)], [true, false]);
}
