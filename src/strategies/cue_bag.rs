//! Keeps the atoms that `hindsight` rates best, each with two cue words of its newest line and nothing else: a compressor that wins a
//! test of bound atoms, and that nobody could work with.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::hindsight::Memory;
use super::{Budget, Entry, Env, Scope, Strategy, put};
use crate::context::Edit;
use crate::context::log::{AtomId, Log};
use crate::learn::Weights;
use crate::learn::lines::bound;
use crate::params::params;
use crate::text::atoms::{self, AtomKind};

pub(super) const ENTRY: Entry = Entry {
    name: "cue-bag",
    summary: "Keep the best rated atoms with two cue words each and no line.",
    params: CueBag::PARAMS,
    takes_model: false,
    build: |params| {
        let CueBag { kept_share, weights } = CueBag::of(params)?;
        Ok(Box::new(Bag { budget: Budget { kept_share }, weights: Weights::named(&weights)? }))
    },
};

params! {
    struct CueBag {
        /// Share of the scope's tokens to keep.
        kept_share: f64 = 0.1 (from 0 to 1),
        /// A file of weights, `PATH#HASH`; empty: those that travel with the program.
        weights: String = "",
    }
}

struct Bag {
    budget: Budget,
    weights: Arc<Weights>,
}

impl Strategy for Bag {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let (log, tokenizer) = (scope.log, env.tokenizer);
        let event = env.state::<Memory>().rate(scope, &self.weights);
        let mut newest: FxHashMap<AtomId, u32> = FxHashMap::default();
        for &span in &event.spans {
            newest.extend(bound(log, span).map(|atom| (atom, span)));
        }
        let mut entries: Vec<(f64, AtomId, String, u32)> = Vec::new();
        for (&atom, &odds) in &event.of {
            let text = newest.get(&atom).and_then(|&span| entry(log, atom, span));
            entries.extend(text.map(|text| {
                let tokens = tokenizer.count(&text);
                (odds / f64::from(tokens.max(1)), atom, text, tokens)
            }));
        }
        entries.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let (mut left, mut kept) = (self.budget.tokens(scope), String::new());
        for (_, _, text, tokens) in entries {
            if tokens <= left {
                left -= tokens;
                kept.push_str(&text);
            }
        }
        Ok(put(scope, kept))
    }
}

/// An atom behind the first two cues that it has in this line; none where the line reads otherwise than when it was annotated.
fn entry(log: &Log, atom: AtomId, span: u32) -> Option<String> {
    let (line, known) = (log.span_text(span), log.atom(atom));
    let found = atoms::occurrences(line);
    // A path goes by the longest spelling so far.
    let is_path = known.kind == AtomKind::Path;
    let is_it = |norm: &str| {
        norm == known.text || is_path && (known.text.ends_with(norm) || norm.ends_with(known.text))
    };
    let here = found.iter().find(|o| o.is_bound() && is_it(&o.norm))?;
    let mut cues: Vec<&str> = Vec::new();
    for word in line.split(|c: char| !c.is_alphabetic()) {
        let is_cue = atoms::cue_hash(word).is_some_and(|hash| here.cues.contains(&hash));
        if is_cue && cues.len() < 2 && !cues.iter().any(|cue| cue.eq_ignore_ascii_case(word)) {
            cues.push(word);
        }
    }
    let text = &line[here.start..here.end];
    let quoted = if known.kind == AtomKind::Quoted { format!("\"{text}\"") } else { text.to_owned() };
    Some(format!("{} {} {quoted}\n", cues.first()?, cues.get(1)?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    #[test]
    fn each_atom_stands_behind_two_cues() {
        let idle = "\naction: date\nobservation: morning".repeat(4);
        let script = format!(
            "user: the task
            action: ls
            observation: the broken parser lives in src/parser.py near the lexer~the limit weighs max_rows here{idle}
            agent: well"
        );
        let left = |share: &str| {
            let params = format!("kept_share = {share}");
            after_events(("cue-bag", &params), ("turns", "n = 4"), &script)[0].clone()
        };
        let mut lines: Vec<String> = left("0.9").lines().map(str::to_owned).collect();
        lines.sort();
        assert_eq!(lines, ["broken parser src/parser.py", "limit weighs max_rows"]);
        assert_eq!(left("0.3").lines().count(), 1);
    }
}
