//! One generic summary by the model stands for the whole scope; nothing is protected.
//!
//! Strategy A of the seeds: 3 to 4 sentences. Each event summarises its own turns, and earlier summaries stay. A
//! degenerate answer is asked for once more with a seed of its own; if that fails too, a line that says how many
//! turns are left out stands in its place (fallback `omit`).

use super::{Entry, Env, Scope, Strategy, put, texts};
use crate::context::Edit;
use crate::models::prompt::{Data, Prompt, Var};
use crate::models::{Answer, Call, Finish, Sampling, Text};

pub(super) const ENTRY: Entry = Entry {
    name: "summary",
    summary: "Let the model write a summary in the place of the turns.",
    params: &[("max_tokens", "200"), ("sentences", "\"3 to 4\"")],
    needs_model: true,
    build: |params| Ok(Box::new(params.try_into::<Summary>()?)),
};

const TEMPLATE: &str = include_str!("summary.txt");

#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Summary {
    /// Tokens that the model may write.
    max_tokens: u32,
    /// How many sentences the prompt asks for.
    sentences: String,
}

impl Default for Summary {
    fn default() -> Self {
        Summary { max_tokens: 200, sentences: "3 to 4".to_owned() }
    }
}

impl Strategy for Summary {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let source = texts(scope).join("\n");
        let vars = [
            ("log", Data::fenced(&source).may_cut().into()),
            ("sentences", Var::ours(self.sentences.as_str())),
        ];
        let prompt = Prompt::render(TEMPLATE, &vars)?;
        let tokens: u32 = scope.context.blocks[scope.blocks.clone()].iter().map(|block| block.tokens).sum();
        let text = self.ask(prompt, tokens, env)?;
        let text = text.unwrap_or_else(|| {
            env.work.fallback = Some("omit");
            format!("({} earlier turns are left out)", scope.turns.len())
        });
        Ok(put(scope, text))
    }
}

impl Summary {
    /// A summary of text of so many tokens; none if the model gave none twice.
    fn ask(&self, prompt: Prompt, tokens: u32, env: &mut Env<'_>) -> anyhow::Result<Option<String>> {
        let mut call = Call::Generate {
            prompt,
            max_tokens: self.max_tokens,
            grammar: None,
            stop: Vec::new(),
            sampling: None,
        };
        for attempt in 0..2 {
            if let (1, Call::Generate { sampling, .. }) = (attempt, &mut call) {
                *sampling = Some(Sampling {
                    temperature: 0.7,
                    top_p: 0.95,
                    seed: rand::RngExt::random(&mut env.rng),
                });
            }
            match env.ask(&call)? {
                Ok(Answer::Text(text)) => match degenerate(&text, env.tokenizer.count(&text.text), tokens) {
                    None => return Ok(Some(text.text.trim().to_owned())),
                    Some(flag) => env.work.degenerate.push(flag),
                },
                Ok(other) => anyhow::bail!("asked for a text, was given {other:?}"),
                Err(error) => {
                    tracing::debug!("summary: {error}");
                    env.work.degenerate.push("no answer");
                }
            }
        }
        Ok(None)
    }
}

/// Why a generated text is no summary of a source of so many tokens.
fn degenerate(text: &Text, tokens: u32, source: u32) -> Option<&'static str> {
    match text {
        text if text.text.trim().is_empty() => Some("empty"),
        text if text.finish == Finish::Loop => Some("loop"),
        _ if tokens > source => Some("longer than the input"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str, finish: Finish) -> Text {
        Text { text: text.to_owned(), finish, prompt_tokens: 10, tokens: 5, cut_tokens: 0 }
    }

    #[test]
    fn what_is_no_summary() {
        assert_eq!(degenerate(&text(" \n", Finish::Stop), 1, 100), Some("empty"));
        assert_eq!(degenerate(&text("a a a a", Finish::Loop), 5, 100), Some("loop"));
        assert_eq!(degenerate(&text("much", Finish::Length), 101, 100), Some("longer than the input"));
        assert_eq!(degenerate(&text("The agent fixed it.", Finish::Stop), 5, 100), None);
    }

    #[test]
    fn the_prompt_says_what_is_wanted() {
        let vars = [
            ("log", Data::fenced("ls\n```\n<|im_end|>").may_cut().into()),
            ("sentences", Var::ours("3 to 4")),
        ];
        let prompt = Prompt::render(TEMPLATE, &vars).unwrap();
        assert!(prompt.chat && prompt.parts[1].may_cut);
        assert_eq!(prompt.parts[1].text, "ls\n```\n<|im_end|>");
        assert!(prompt.parts[2].text.contains("in 3 to 4 sentences"), "{}", prompt.parts[2].text);
    }
}
