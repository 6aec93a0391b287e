//! The newest user messages stay, word for word, and a hand-off summary stands after them.
//!
//! Strategy B of the seeds, after Codex CLI's compaction: initial context, user messages up to 20,000 tokens (newest
//! first; the one that does not fit keeps its beginning), and a summary of everything for the model that takes over, as a
//! user message. On logs whose user speaks once, that is the summary alone.

use super::writer::{check_tokens, summarise};
use super::{Entry, Env, Scope, Strategy, texts, transcript};
use crate::context::{Content, Edit, Piece};
use crate::models::prompt::{Data, Prompt};
use crate::params::params;
use crate::trajectory::{Kind, Role};

pub(super) const ENTRY: Entry = Entry {
    name: "codex",
    summary: "Keep the newest user messages and put a hand-off summary after them.",
    params: Codex::PARAMS,
    takes_model: true,
    build: |params| {
        let codex = Codex::of(params)?;
        check_tokens("max_tokens", codex.max_tokens)?;
        Ok(Box::new(codex))
    },
};

const TEMPLATE: &str = include_str!("codex.txt");
/// What stands before the summary: Codex's own words.
const HANDOFF: &str = "Another language model started to solve this problem and produced a summary of its thinking process. \
                       You also have access to the state of the tools that were used by that language model. Use this to \
                       build on the work that has already been done and avoid duplicating work. Here is the summary produced \
                       by the other language model, use the information in this summary to assist with your own analysis:\n";

params! {
    struct Codex {
        /// Tokens of the summary at most.
        max_tokens: u32 = 400,
        /// Tokens of user messages that are kept.
        user_tokens: u32 = 20000,
    }
}

impl Strategy for Codex {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let text = handoff(scope, self.max_tokens, env)?;
        let mut left = self.user_tokens;
        let mut edits = vec![Edit::Insert { before: scope.blocks.end, text: format!("{HANDOFF}{text}") }];
        for block in scope.blocks.clone().rev() {
            let words = words_of_user(scope, block).unwrap_or_default();
            let kept = beginning(scope, words.into_iter(), left, env);
            let tokens: u32 = kept.iter().map(|piece| piece.tokens).sum();
            left -= tokens;
            if kept.is_empty() {
                edits.push(Edit::Drop { block });
            } else if tokens < scope.context.blocks[block].tokens {
                edits.push(Edit::Keep { block, pieces: kept });
            }
        }
        edits.reverse();
        Ok(edits)
    }

    fn is_recursive(&self) -> bool {
        true
    }
}

/// The pieces of a block that holds words of the user.
pub(super) fn words_of_user(scope: &Scope<'_>, block: usize) -> Option<Vec<Piece>> {
    let log = scope.log;
    let is_user =
        |step: u32| log.kind(step) == Kind::Message && log.trajectory.steps[step as usize].role == Role::User;
    match &scope.context.blocks[block].content {
        Content::Step(step) if is_user(*step) => {
            Some(log.spans_of(*step).map(|span| Piece::whole(log, span)).collect())
        }
        Content::Excerpt { step, pieces, .. } if is_user(*step) => Some(pieces.clone()),
        _ => None,
    }
}

/// The first pieces that fit, the last of them cut.
pub(super) fn beginning(
    scope: &Scope<'_>,
    pieces: impl Iterator<Item = Piece>,
    mut left: u32,
    env: &Env<'_>,
) -> Vec<Piece> {
    let mut kept = Vec::new();
    for piece in pieces {
        let Some(fits) = piece.cut(scope.log, env.tokenizer, left) else { break };
        left -= fits.tokens;
        kept.push(fits);
        if fits != piece {
            break;
        }
    }
    kept
}

/// A summary of the scope for a model that takes over. The words that stand before an earlier one are no part of what
/// is extracted.
pub(super) fn handoff(scope: &Scope<'_>, max_tokens: u32, env: &mut Env<'_>) -> anyhow::Result<String> {
    let mut texts = texts(scope);
    for text in &mut texts {
        if text.starts_with(HANDOFF) {
            text.drain(..HANDOFF.len());
        }
    }
    summarise(&texts, max_tokens, env, || {
        let log = transcript(scope, scope.blocks.clone());
        Ok(Prompt::render(TEMPLATE, &[("log", Data::fenced(&log).may_cut().into())])?)
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    const SCRIPT: &str = "user: mend it
        agent: which one of the two shall it be?
        user: the parser in src/parser.py, please
        agent: what about the tables, and their many columns?
        user: leave them
        agent: I see
        user: well?
        agent: done";

    /// Before the words that open the summary stand the user's; those take up room.
    #[test]
    fn user_messages_stay_and_the_oldest_is_cut() {
        let padded = SCRIPT.replace(
            "agent: ",
            &format!("agent: {}", "so many words that nobody has read them. ".repeat(14)),
        );
        let users = |tokens: u32| {
            let params = format!("max_tokens = 10\nuser_tokens = {tokens}");
            let after = after_events(("codex", &params), ("turns", "n = 3"), &padded).remove(0);
            after.split_once("Another language model").unwrap().0.to_owned()
        };
        assert_eq!(users(100), "the parser in src/parser.py, pleaseleave them");
        assert_eq!(users(5), "the parser ileave them");
        assert_eq!(users(0), "");
    }

    /// What an event cut is cut again by the next, to what the next alone would have left.
    #[test]
    fn a_message_that_was_cut_is_cut_again() {
        let padded = SCRIPT.replace(
            "agent: ",
            &format!("agent: {}", "so many words that nobody has read them. ".repeat(14)),
        );
        let after = after_events(("codex", "max_tokens = 10\nuser_tokens = 5"), ("turns", "n = 1"), &padded);
        let users: Vec<&str> =
            after.iter().map(|a| a.split("Another language model").next().unwrap()).collect();
        assert_eq!(users[0], "");
        assert!(users[1].starts_with("the parser i") && users[1].len() > "the parser i".len(), "{users:?}");
        assert_eq!(users[2], "the parser ileave them");
    }

    #[test]
    fn the_words_before_a_summary_are_not_summarised() {
        let padded = SCRIPT
            .replace("agent: ", &format!("agent: {}", "many words, and nobody reads them. ".repeat(20)));
        let after = after_events(("codex", ""), ("turns", "n = 1"), &padded);
        assert_eq!(after.len(), 3);
        for text in after {
            assert_eq!(text.matches("Another language model").count(), 1, "{text}");
        }
    }
}
