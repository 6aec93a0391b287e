//! Masks whole observations, but for those with the best odds of being needed per token: `hindsight` for where a product must keep
//! its messages.

use std::sync::Arc;

use super::hindsight::Memory;
use super::{Entry, Env, Scope, Strategy, mask};
use crate::context::{Content, Edit};
use crate::learn::Weights;
use crate::learn::lines::bound;
use crate::params::params;
use crate::trajectory::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "hindsight-mask",
    summary: "Mask observations but those with the best odds of being needed.",
    params: HindsightMask::PARAMS,
    takes_model: false,
    build: |params| {
        let params = HindsightMask::of(params)?;
        let weights = Weights::named(&params.weights)?;
        Ok(Box::new(Masked { params, weights }))
    },
};

params! {
    struct HindsightMask {
        /// Share of the tokens that `mask` would mask that stays, at most; shorter observations stay beside it.
        budget: f64 = 0.1 (from 0 to 1),
        /// How much less an atom is worth in each further observation: with 1 it counts once, with 0 each time.
        diversity: f64 = 1.0 (from 0 to 1),
        /// A file of weights, `PATH#HASH`; empty: those that travel with the program.
        weights: String = "",
    }
}

struct Masked {
    params: HindsightMask,
    weights: Arc<Weights>,
}

impl Strategy for Masked {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let log = scope.log;
        let mut edits = mask::masks(scope, env);
        let memory = env.state::<Memory>();
        let event = memory.rate(scope, &self.weights);
        let step = |edit: &Edit| match scope.context.blocks[edit.block()].content {
            Content::Step(step) => Some(step),
            _ => None,
        };
        let masked: Vec<u32> = edits.iter().filter_map(step).collect();
        // What is not masked stands, and holds its atoms.
        let stands = |span: &&u32| masked.binary_search(&log.spans[**span as usize].step).is_err();
        memory.held.extend(event.spans.iter().filter(stands).flat_map(|&span| bound(log, span)));
        let units: Vec<Vec<u32>> = masked.iter().map(|&step| log.spans_of(step).collect()).collect();
        let all: u64 = masked.iter().map(|&step| u64::from(log.tokens[step as usize])).sum();
        let budget = (all as f64 * self.params.budget) as u32;
        let kept = event.choose(log, &units, &memory.held, budget, self.params.diversity);
        let kept: Vec<u32> = kept.into_iter().map(|unit| masked[unit]).collect();
        memory
            .held
            .extend(kept.iter().flat_map(|&step| log.spans_of(step)).flat_map(|span| bound(log, span)));
        edits.retain(|edit| step(edit).is_none_or(|step| kept.binary_search(&step).is_err()));
        Ok(edits)
    }

    fn may_remove(&self, kind: Kind) -> bool {
        kind == Kind::Observation
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    /// The first result holds what could be needed, at a few tokens; the second is long and holds nothing.
    #[test]
    fn results_without_anything_to_need_are_masked() {
        let idle = "word after word and nothing else to see here ".repeat(8);
        let script = format!(
            "user: the task
            action: ls
            observation: the broken parser lives in src/parser.py near the lexer
            action: date
            observation: {idle}
            agent: well
            agent: well
            agent: well"
        );
        let left =
            |params: &str| after_events(("hindsight-mask", params), ("turns", "n = 4"), &script)[0].clone();
        let some = left("budget = 0.5");
        assert!(
            some.contains("src/parser.py")
                && some.contains("(1 line omitted)")
                && !some.contains("nothing else")
        );
        assert!(!left("budget = 0.0").contains("src/parser.py"));
        assert!(
            left("budget = 1.0").contains("src/parser.py") && !left("budget = 1.0").contains("nothing else")
        );
    }
}
