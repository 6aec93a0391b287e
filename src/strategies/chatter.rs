//! Keeps lines drawn at random from those in which no atom begins, to a budget and no more than there are: text that sounds like the
//! log and names no path, identifier or number with its unit. A reader who gains from it gains from style; the control of
//! likelihood retention. It is none of annotated truth: a constraint may well name nothing ("do not add it").

use super::random::choose;
use super::{Budget, Entry, Env, Scope, Strategy, keep_pieces, spans_in};
use crate::context::Edit;

pub(super) const ENTRY: Entry = Entry {
    name: "chatter",
    summary: "Keep random lines without any atom: a control that sounds like the log and names nothing.",
    params: Budget::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Chatter(Budget::of(params)?))),
};

struct Chatter(Budget);

impl Strategy for Chatter {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let mut spans = spans_in(scope);
        spans.retain(|&span| scope.log.mentions_in(span).is_empty());
        let pieces = choose(scope.log, env.tokenizer, &spans, self.0.tokens(scope), &mut env.rng);
        Ok(keep_pieces(scope, &pieces))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    /// Of six lines two name something that could be looked up.
    #[test]
    fn lines_with_an_atom_are_never_kept() {
        let script = "user: go
             agent: well well~the file is src/main.py~so be it
             user: open src/lib.rs now~thanks a lot
             agent: with pleasure
             user: good
             agent: done";
        let kept = |share: &str| after_events(("chatter", share), ("turns", "n = 2"), script).remove(0);
        let all = kept("kept_share = 1.0");
        assert!(!all.contains("main.py") && !all.contains("lib.rs"), "{all}");
        assert!(all.contains("well well") && all.contains("so be it") && all.contains("thanks"), "{all}");
        assert!(kept("kept_share = 0.2").len() < all.len());
    }
}
