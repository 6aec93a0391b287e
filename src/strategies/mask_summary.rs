//! Masks old observations turn by turn, and summarises what was masked when enough of it has gathered.
//!
//! The hybrid of "The Complexity Trap" (Lindenbauer et al., arXiv 2508.21433), with M = 10 and N = 43: observations older
//! than the last M turns are masked; when N turns have been masked since the last summary, a summary takes the place
//! of them and of the one before. Meant for a trigger that fires at every turn (`turns` with n = 1).

use super::mask::masks;
use super::summary::generic;
use super::writer::{check_sentences, check_tokens, summarise};
use super::{Entry, Env, Scope, Strategy, put, transcript};
use crate::context::{Content, Edit};
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "mask-summary",
    summary: "Mask older observations, and summarise what was masked when enough has gathered.",
    params: MaskSummary::PARAMS,
    takes_model: true,
    build: |params| {
        let mask = MaskSummary::of(params)?;
        check_tokens("max_tokens", mask.max_tokens)?;
        check_sentences(&mask.sentences)?;
        Ok(Box::new(mask))
    },
};

params! {
    struct MaskSummary {
        /// How many of the newest turns keep their observations (M).
        keep_last: u32 = 10,
        /// Masked turns that make a summary (N).
        summarise_after: u32 = 43,
        /// Tokens of a summary at most.
        max_tokens: u32 = 400,
        /// How many sentences the prompt asks for.
        sentences: String = "6 to 8",
    }
}

impl Strategy for MaskSummary {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let blocks = &scope.context.blocks[scope.blocks.clone()];
        // The last summary stands for its first turn alone, and nothing masked is older.
        let generated = blocks.iter().rposition(|b| matches!(b.content, Content::Generated { .. }));
        let first = blocks.get(generated.map_or(0, |at| at + 1)).map_or(scope.turns.end, |block| block.turn);
        if scope.turns.end - first < self.summarise_after {
            return Ok(masks(scope, env));
        }
        let said: Vec<String> = blocks
            .iter()
            .filter(|block| !matches!(block.content, Content::Placeholder { .. }))
            .map(|block| block.text(scope.log))
            .collect();
        let text = summarise(&said, self.max_tokens, env, || {
            generic(&transcript(scope, scope.blocks.clone()), &self.sentences)
        })?;
        Ok(put(scope, text))
    }

    fn is_recursive(&self) -> bool {
        true
    }

    fn keep_last(&self) -> u32 {
        self.keep_last
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    #[test]
    fn masks_gather_until_they_are_summarised() {
        let line = "one two three four five six seven eight nine ten eleven twelve";
        let turns: String =
            (0..6).map(|i| format!("\naction: cat {i}.py\nobservation: {line} {i}")).collect();
        let script = format!("user: go{turns}\nagent: end");
        let params = "keep_last = 1\nsummarise_after = 3\nmax_tokens = 12";
        let after = after_events(("mask-summary", params), ("turns", "n = 1"), &script);
        let masked = |i: usize| after[i].matches("omitted").count();
        assert_eq!((0..after.len()).map(masked).collect::<Vec<_>>(), [1, 2, 0, 1, 2]);
        assert!(!after[2].is_empty() && after[3].starts_with(&after[2]), "{after:?}");
    }
}
