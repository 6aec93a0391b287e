//! One generic summary stands for the whole scope; nothing is protected.
//!
//! Strategy A of the seeds: 3 to 4 sentences. Each event summarises all that was compressed before together with the fresh
//! turns; with `recursive = false` its own turns alone, and earlier summaries stay.

use super::writer::{check_sentences, check_tokens, summarise};
use super::{Entry, Env, Scope, Strategy, put, texts, transcript};
use crate::context::Edit;
use crate::models::prompt::{Data, Prompt, Var};
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "summary",
    summary: "One generic summary in the place of all that is compressed.",
    params: Summary::PARAMS,
    takes_model: true,
    build: |params| {
        let summary = Summary::of(params)?;
        check_tokens("max_tokens", summary.max_tokens)?;
        check_sentences(&summary.sentences)?;
        Ok(Box::new(summary))
    },
};

const TEMPLATE: &str = include_str!("summary.txt");

params! {
    struct Summary {
        /// Tokens of a summary at most.
        max_tokens: u32 = 200,
        /// How many sentences the prompt asks for.
        sentences: String = "3 to 4",
        /// Whether summaries are summarised again.
        recursive: bool = true,
    }
}

impl Strategy for Summary {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let text = summarise(&texts(scope), self.max_tokens, env, || {
            let log = transcript(scope, scope.blocks.clone());
            generic(&log, &self.sentences)
        })?;
        Ok(put(scope, text))
    }

    fn is_recursive(&self) -> bool {
        self.recursive
    }
}

/// Asks for a summary of so many sentences of a part of a log.
pub(super) fn generic(log: &str, sentences: &str) -> anyhow::Result<Prompt> {
    let vars = [("log", Data::fenced(log).may_cut().into()), ("sentences", Var::ours(sentences))];
    Ok(Prompt::render(TEMPLATE, &vars)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_prompt_says_what_is_wanted() {
        let prompt = generic("ls\n```\n<|im_end|>", "3 to 4").unwrap();
        assert!(prompt.chat && prompt.parts[1].may_cut);
        assert_eq!(prompt.parts[1].text, "ls\n```\n<|im_end|>");
        assert!(prompt.parts[2].text.contains("in 3 to 4 sentences"), "{}", prompt.parts[2].text);
    }
}
