//! What the log says its agent was sent: a step that the log records as edited stands as the text that was sent in its
//! place, or is left out where there was none.
//!
//! Only where edits are logged, and so under trigger `logged-edits` alone. It is no proposal but a record: what was sent may
//! be longer than what it stood for (a placeholder for an empty output), and stands all the same.

use super::{Entry, Env, Scope, Strategy};
use crate::context::{Content, Edit};
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "as-sent",
    summary: "Send what the log says was sent (with trigger `logged-edits` alone).",
    params: AsSent::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(AsSent::of(params)?)),
};

params! { struct AsSent {} }

impl Strategy for AsSent {
    fn compress(&self, scope: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let edit = |block: usize| {
            let Content::Step(step) = scope.context.blocks[block].content else { return None };
            let text = scope.log.trajectory.steps[step as usize].edit.as_ref()?.text.clone();
            Some(if text.is_empty() { Edit::Drop { block } } else { Edit::Mask { block, text } })
        };
        Ok(scope.blocks.clone().filter_map(edit).collect())
    }

    fn is_control(&self) -> bool {
        true
    }

    fn is_record(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::run;
    use crate::context::log::Log;

    const UNDER: (&str, &str) = ("logged-edits", "");

    /// Tokens: every word here is one, and so is each line end.
    #[test]
    fn prompts_are_those_that_were_sent() {
        let log = Log::script(
            "user: task
            action: ls
            observation: one two three four five six => 3 gone
            action: pwd
            observation: one two => 3
            action: date
            observation: one => 4 nothing was printed
            agent: so",
        );
        let run = run(("as-sent", ""), UNDER, &log);
        let sent: Vec<u64> = run.decisions.iter().map(|d| d.tokens_sent).collect();
        let full: Vec<u64> = run.decisions.iter().map(|d| d.tokens_full).collect();
        // task; + ls + six; + pwd + two; + date + one.
        assert_eq!(full, [1, 8, 11, 13]);
        // At turn 3 six become one and two go; at turn 4 one becomes three, which is longer and stands.
        assert_eq!(sent, [1, 8, 4, 8]);
        assert!(run.events.iter().all(|event| event.violations.is_empty()));
        let only: Vec<Option<Vec<u32>>> = run.events.iter().map(|event| event.only.clone()).collect();
        assert_eq!(only, [Some(vec![2, 4]), Some(vec![6])]);
        // The first change at turn 3 stands behind task and ls; at turn 4 behind all of the prompt before.
        assert_eq!(run.decisions.iter().map(|d| d.cached_sent).collect::<Vec<_>>(), [0, 1, 2, 4]);
    }

    #[test]
    fn without_edits_it_is_the_whole() {
        let log = Log::script("user: task\naction: ls\nobservation: one\nagent: so");
        let run = run(("as-sent", ""), UNDER, &log);
        assert!(run.events.is_empty());
        assert!(run.decisions.iter().all(|d| d.tokens_sent == d.tokens_full));
    }

    /// A step may be edited from the decision on that it first stands before.
    #[test]
    fn a_step_of_the_turn_at_hand_is_edited_too() {
        let log = Log::script("user: task\nagent: a\nuser: one two three => 1 four\nagent: so");
        let run = run(("as-sent", ""), UNDER, &log);
        assert_eq!(
            run.decisions.iter().map(|d| (d.tokens_full, d.tokens_sent)).collect::<Vec<_>>(),
            [(1, 1), (5, 3)]
        );
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// What usage is fitted to is the prompt that is replayed as sent.
        #[test]
        fn usage_goes_by_the_same_prompts(lines in proptest::collection::vec((0usize..8, 0u32..12), 1..40)) {
            const LINES: [&str; 8] = [
                "action: one two",
                "also: three",
                "thought: four five six",
                "observation: one two three",
                "observation: one two three four => TURN gone",
                "observation: one => TURN nothing was printed here",
                "observation: one two three => TURN",
                "summary: so far so good",
            ];
            let script = lines.iter().fold("user: task\naction: ls".to_owned(), |all, (line, turn)| {
                all + "\n" + &LINES[*line].replace("TURN", &turn.to_string())
            });
            let log = Log::script(&script);
            let mut steps = log.trajectory.steps.clone();
            for step in steps.iter_mut().filter(|step| step.is_agent()) {
                step.usage = Some(Box::new(crate::trajectory::Usage { input: 1, ..Default::default() }));
            }
            let tokenizer = crate::text::tokens::Tokenizer::load("o200k").unwrap();
            let calls = crate::trajectory::usage::calls(&steps, &log.tokens, |text| tokenizer.count(text));
            let by_usage: Vec<_> = calls.iter().map(|call| (call.turn, call.ours)).collect();
            let run = run(("as-sent", ""), UNDER, &log);
            let replayed: Vec<_> = run.decisions.iter().map(|d| (d.turn, d.tokens_sent)).collect();
            proptest::prop_assert_eq!(by_usage, replayed);
        }
    }
}
