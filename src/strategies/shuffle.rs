//! Words of the scope in random order, to a budget: a summary that means nothing, and wins any test that only counts
//! words.

use rand::seq::SliceRandom as _;

use super::{Budget, Entry, Env, Scope, Strategy, put, texts};
use crate::context::Edit;

pub(super) const ENTRY: Entry = Entry {
    name: "shuffle",
    summary: "Keep the scope's words in random order: a control that means nothing.",
    params: Budget::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Shuffle(Budget::of(params)?))),
};

struct Shuffle(Budget);

impl Strategy for Shuffle {
    fn is_control(&self) -> bool {
        true
    }

    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let texts = texts(scope);
        let mut words: Vec<&str> = texts.iter().flat_map(|text| text.split_whitespace()).collect();
        words.shuffle(&mut env.rng);
        let mut left = self.0.tokens(scope);
        let mut text = String::new();
        for word in words {
            let word = format!(" {word}");
            let tokens = env.tokenizer.count(&word);
            if tokens > left {
                break;
            }
            left -= tokens;
            text.push_str(&word);
        }
        Ok(put(scope, text))
    }
}
