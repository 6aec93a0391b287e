//! Tests of `context`.

use super::*;

fn context(log: &Log) -> Context {
    let mut context = Context::default();
    for step in 0..log.n_steps() as u32 {
        context.push_step(log, step);
        if log.turn_of(step) == 0 {
            context.n_head = context.blocks.len();
        }
    }
    context
}

fn log() -> Log {
    Log::script(
        "system: be good
             user: the task
             action: ls
             observation: one two three four five six~seven eight nine ten~eleven twelve
             agent: done with all of it",
    )
}

fn tokenizer() -> Tokenizer {
    Tokenizer::load("o200k").unwrap()
}

#[test]
fn edits_change_tokens_and_tell_the_prefix() {
    let (log, mut c) = (log(), context(&log()));
    let before = c.tokens;
    let scope = c.range(1..2);
    assert_eq!(scope, 2..4);
    let edits = vec![Edit::Mask { block: 3, text: "gone".to_owned() }];
    let applied = c.apply(&log, &tokenizer(), scope, edits).unwrap();
    let head: u64 = log.tokens[..3].iter().map(|&t| u64::from(t)).sum();
    assert_eq!(applied.unchanged_prefix, Some(head));
    assert_eq!(c.tokens, before - u64::from(log.tokens[3]) + 1);
    assert_eq!(c.tokens, c.blocks.iter().map(|b| u64::from(b.tokens)).sum::<u64>());
    assert_eq!(c.blocks[3].text(&log), "gone");
}

/// What stands between the picked blocks stays, and a text takes the place of the block that it was put before.
#[test]
fn a_scope_may_have_gaps() {
    let log = Log::script(
        "user: the task
             action: ls
             observation: one two three four five six seven
             action: cat a
             observation: eight nine ten eleven twelve thirteen
             agent: done",
    );
    let mut c = context(&log);
    let edits = |context: &Context| {
        let first = context.n_head;
        let insert = Edit::Insert { before: first + 1, text: "gone".to_owned() };
        vec![Edit::Drop { block: first }, insert, Edit::Drop { block: first + 1 }]
    };
    let applied = c.apply_picked(&log, &tokenizer(), &[2, 4], edits(&c.only(&[2, 4]))).unwrap();
    let texts: Vec<String> = c.blocks.iter().map(|b| b.text(&log)).collect();
    assert_eq!(texts, ["the task", "ls", "cat a", "gone", "done"]);
    assert_eq!(c.blocks.iter().map(|b| b.fresh).collect::<Vec<_>>(), [true, true, true, false, true]);
    assert_eq!(c.tokens, sum(&c.blocks));
    assert_eq!(applied.unchanged_prefix, Some(u64::from(log.tokens[0] + log.tokens[1])));
    assert!(applied.violations.is_empty() && applied.after.len() == 1 && applied.before.len() == 2);
    assert_eq!(applied.places, [3]);
    // One for one where it stands, then one that goes and two that come behind what stands between.
    let mut c = context(&log);
    let insert = |before: usize, text: &str| Edit::Insert { before, text: text.to_owned() };
    let mask = Edit::Mask { block: 1, text: "masked".to_owned() };
    let edits =
        vec![mask, Edit::Drop { block: 2 }, insert(3, "so"), Edit::Drop { block: 3 }, insert(4, "far")];
    let applied = c.apply_picked(&log, &tokenizer(), &[1, 2, 4], edits).unwrap();
    let texts: Vec<String> = c.blocks.iter().map(|b| b.text(&log)).collect();
    assert_eq!(texts, ["the task", "masked", "cat a", "so", "far", "done"]);
    assert_eq!(applied.places, [1, 3, 4]);
    assert_eq!(c.blocks.iter().map(|b| b.fresh).collect::<Vec<_>>(), [true, false, true, false, false, true]);
    assert_eq!(c.tokens, sum(&c.blocks));
}

#[test]
fn a_longer_result_is_refused() {
    let (log, mut c) = (log(), context(&log()));
    let (before, scope) = (c.blocks.clone(), c.range(2..3));
    let text = "many words that say more than the original did ".repeat(9);
    let applied = c.apply(&log, &tokenizer(), scope, vec![Edit::Insert { before: 4, text }]).unwrap();
    assert_eq!(applied.violations, ["longer than the original"]);
    let contents = |blocks: &[Block]| blocks.iter().map(|b| b.content.clone()).collect::<Vec<_>>();
    assert_eq!(contents(&c.blocks), contents(&before));
}

#[test]
fn edits_outside_the_scope_or_unsorted_are_errors() {
    let (log, mut c) = (log(), context(&log()));
    let mut apply = |edits| c.apply(&log, &tokenizer(), 2..4, edits).is_err();
    assert!(apply(vec![Edit::Drop { block: 1 }]));
    assert!(apply(vec![Edit::Drop { block: 3 }, Edit::Drop { block: 2 }]));
    assert!(apply(vec![Edit::Drop { block: 2 }, Edit::Drop { block: 2 }]));
    assert!(!apply(vec![Edit::Drop { block: 2 }, Edit::Drop { block: 3 }]));
}

#[test]
fn a_cut_piece_fits_its_budget() {
    let log = log();
    let span = log.spans_of(3).start;
    for budget in 0..8 {
        match Piece::whole(&log, span).cut(&log, &tokenizer(), budget) {
            None => assert_eq!(budget, 0),
            Some(piece) => {
                assert_eq!(piece.tokens, budget.min(log.spans[span as usize].tokens));
                assert_eq!(tokenizer().count(piece.text(&log)), piece.tokens);
            }
        }
    }
}

/// Two calls of one reply with their results: blocks 1 to 4.
fn calls() -> Log {
    Log::script(
        "user: the task
             action#a: ls of the first folder
             also#b: pwd
             observation#a: one two three four five six
             observation#b: seven eight nine
             agent: done",
    )
}

/// The texts after these edits of a scope; those of quotations stand in brackets. Nothing is violated.
fn edited_to(scope: Range<usize>, edits: Vec<Edit>) -> Vec<String> {
    let log = calls();
    let mut c = context(&log);
    let applied = c.apply(&log, &tokenizer(), scope, edits).unwrap();
    assert_eq!(applied.violations, [""; 0]);
    assert_eq!(c.tokens, sum(&c.blocks));
    let text = |b: &Block| match b.content {
        Content::Excerpt { .. } => format!("[{}]", b.text(&log)),
        _ => b.text(&log),
    };
    c.blocks.iter().map(text).collect()
}

#[test]
fn a_call_shares_the_fate_of_its_result() {
    let (a, b) = ("ls of the first folder", "pwd");
    let (of_a, of_b) = ("one two three four five six", "seven eight nine");
    let drop = |block| Edit::Drop { block };
    // Without a call no result: it comes back, behind what was put before it.
    let insert = |text: &str| Edit::Insert { before: 1, text: text.to_owned() };
    let told = vec![insert("so"), drop(1), drop(2), drop(4)];
    assert_eq!(edited_to(1..5, told), ["the task", "so", a, of_a, "done"]);
    // Of the result nothing stands, or a quotation alone: the call is quoted.
    assert_eq!(edited_to(1..5, vec![drop(3)]), ["the task", &format!("[{a}]"), b, of_b, "done"]);
    let pieces = |log: &Log| log.spans_of(3).map(|span| Piece::whole(log, span)).collect::<Vec<_>>();
    let keep = Edit::Keep { block: 3, pieces: pieces(&calls()) };
    let quoted = [a, of_a].map(|text| format!("[{text}]"));
    assert_eq!(edited_to(1..5, vec![keep]), ["the task", &quoted[0], b, &quoted[1], of_b, "done"]);
    // A placeholder is a message, and what goes together goes.
    let mask = Edit::Mask { block: 3, text: "gone".to_owned() };
    assert_eq!(edited_to(1..5, vec![mask]), ["the task", a, b, "gone", of_b, "done"]);
    assert_eq!(edited_to(1..5, vec![drop(1), drop(3)]), ["the task", b, of_b, "done"]);
    // The result stands outside of the scope.
    assert_eq!(edited_to(1..3, vec![drop(1)]), ["the task", a, b, of_a, of_b, "done"]);
}

#[test]
fn a_result_whose_call_stands_outside_of_the_scope_stays() {
    let log = calls();
    let mut c = context(&log);
    let whole = c.blocks.clone();
    let applied = c.apply(&log, &tokenizer(), 4..6, vec![Edit::Drop { block: 4 }]).unwrap();
    assert_eq!((applied.violations, applied.unchanged_prefix), (vec![], None));
    assert!(c.blocks.iter().zip(&whole).all(|(now, before)| now.content == before.content));
    // Where the original stays, so do its pairs.
    let long = "many words that say more than the original did ".repeat(9);
    let edits = vec![Edit::Drop { block: 1 }, Edit::Insert { before: 3, text: long }];
    let applied = c.apply(&log, &tokenizer(), 1..3, edits).unwrap();
    assert_eq!(applied.violations, ["longer than the original"]);
    assert_eq!(c.violations().count(), 0);
}

/// What no provider takes is told, and stands all the same where a product sends it.
#[test]
fn a_pair_is_parted_where_that_is_asked_for() {
    let log = calls();
    let mut c = context(&log).parting_pairs(true);
    let applied = c.apply(&log, &tokenizer(), 1..3, vec![Edit::Drop { block: 1 }]).unwrap();
    assert_eq!(applied.violations, ["tool result without its call"]);
    let texts: Vec<String> = c.blocks.iter().map(|b| b.text(&log)).collect();
    assert_eq!(texts, ["the task", "pwd", "one two three four five six", "seven eight nine", "done"]);
}

/// A prompt before the result came, and one of a log that never had the one or the other.
#[test]
fn a_whole_prompt_is_not_blamed() {
    for script in [
        "user: u\naction#a: ls\nagent: so",
        "user: u\nagent: so\nobservation#a: what nobody asked for",
        "user: u\naction#a: ls\nobservation#b: of another",
    ] {
        let log = Log::script(script);
        let mut c = context(&log);
        let applied = c.apply(&log, &tokenizer(), 1..3, vec![Edit::Drop { block: 2 }]).unwrap();
        assert_eq!((applied.violations, c.blocks.len()), (vec![], 2), "{script}");
    }
}
