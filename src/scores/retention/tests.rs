//! Tests of `retention`.

use super::*;
use crate::context::log::Log;
use crate::replay::Recipe;
use crate::replay::shadow::{Caster, OpenNeeds, Shadows};
use crate::replay::watch::Watch;
use crate::text::tokens::Tokenizer;

use super::answers::{open_needs, test};
use crate::replay::trace::traced;

const LINES: [&str; 6] = [
    "FILE",
    "the broken parser lives in FILE beside its lexer",
    "so many words before anybody comes to say a word of FILE and its lexer",
    "broken parser FILE and then words upon words that nobody will ever ask for again",
    "nothing of note",
    "the parser of FILE calls the lexer of FILE2, and that is all there is to say of both of them today",
];

/// Turns that show some lines about files, and name a file. A fifth of them is masked two turns later.
fn script(turns: &[(Vec<(usize, u32)>, u32)], is_edited: bool) -> String {
    let mut script = "user: the task".to_owned();
    for (i, (lines, named)) in turns.iter().enumerate() {
        let line = |(line, file): &(usize, u32)| {
            let text = LINES[line % LINES.len()].replace("FILE2", &format!("src/b{file}.py"));
            text.replace("FILE", &format!("src/a{file}.py"))
        };
        let shown: Vec<String> = lines.iter().map(line).collect();
        script += &format!("\naction: cat src/a{named}.py\nobservation: {}", shown.join("~"));
        if is_edited && i % 5 < 2 {
            script += &format!(" => {} src/a{named}.py was here", i + 3);
        }
    }
    script
}

/// The log under a variant: its shadows, by segment, and what the oracle is after.
fn cast(log: &Log, strategy: (&str, &str), trigger: (&str, &str)) -> Option<(Shadows, OpenNeeds)> {
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let questions = Questions::of(log, &[1], &tokenizer).unwrap();
    let watch = Watch::own(log, &questions.needs.atoms);
    let recipe = Recipe::named(strategy, trigger);
    let (run, trace) = traced(log, &recipe, &tokenizer, &questions.needs).unwrap();
    let recipe = &recipe;
    let ledger = Ledger::of(log, &watch, &questions, recipe, (&run, &trace));
    let open = open_needs(&questions, &ledger, 0..ledger.states.len());
    let (watch, trace, tokenizer) = (&watch, &trace, &tokenizer);
    let caster = Caster { log, watch, trace, recipe, tokenizer, seed: 1, n_random: 8 };
    (!open.is_empty()).then(|| (caster.cast(&run, 0..run.events.len(), &open), open))
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(48))]

    /// Of what the oracle is after it serves no less than any random shadow.
    #[test]
    fn no_random_shadow_serves_more_than_the_oracle(
        turns in proptest::collection::vec(
            (proptest::collection::vec((0..6usize, 0..5u32), 1..5), 0..5u32), 4..14),
        variant in 0..6usize,
    ) {
        let log = Log::script(&script(&turns, false));
        let (strategy, trigger) = [
            (("mask", "keep_last = 1"), ("turns", "n = 1")),
            (("random", "kept_share = 0.2"), ("turns", "n = 3")),
            (("oracle", "kept_share = 0.1"), ("turns", "n = 2")),
            (("truncate", "keep_last = 2"), ("turns", "n = 1")),
            (("summary", ""), ("turns", "n = 2")),
            (("atom-bag", "kept_share = 0.3"), ("turns", "n = 4")),
        ][variant];
        if let Some((shadows, open)) = cast(&log, strategy, trigger) {
            for bound in [false, true] {
                let oracle = open.served(bound, &shadows.oracle[usize::from(bound)]);
                for random in &shadows.random {
                    let random = open.served(bound, random);
                    proptest::prop_assert!(oracle >= random - 1e-9, "{oracle} < {random}");
                }
            }
        }
    }

    /// By construction all that counts in the headline stood in what was sent.
    #[test]
    fn what_was_sent_serves_all_of_the_headline(
        turns in proptest::collection::vec(
            (proptest::collection::vec((0..6usize, 0..5u32), 1..5), 0..5u32), 4..14),
    ) {
        let log = Log::script(&script(&turns, true));
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let questions = Questions::of(&log, &[1], &tokenizer).unwrap();
        let watch = Watch::own(&log, &questions.needs.atoms);
        let recipe = Recipe::named(("as-sent", ""), ("logged-edits", ""));
        let (run, trace) = traced(&log, &recipe, &tokenizer, &questions.needs).unwrap();
        let ledger = Ledger::of(&log, &watch, &questions, &recipe, (&run, &trace));
        proptest::prop_assert_eq!(
            questions.tokens_as_sent, run.decisions.iter().map(|d| d.tokens_sent).sum::<u64>());
        let caster = Caster {
            log: &log,
            watch: &watch,
            trace: &trace,
            recipe: &recipe,
            tokenizer: &tokenizer,
            seed: 1,
            n_random: 1,
        };
        let (tested, _) = test(&caster, &questions, &ledger, &run, (0, &[]));
        proptest::prop_assert_eq!(tested.len(), questions.needs.list.len());
        for t in tested {
            proptest::prop_assert_eq!(t.served[0] == 1.0, t.need.supported);
        }
    }
}
