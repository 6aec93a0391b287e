//! The next token of a text, and where the text ends: a stop text, or a loop.

use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::LlamaToken;
use llama_cpp_2::token::data::LlamaTokenData;
use llama_cpp_2::token::data_array::LlamaTokenDataArray;

use crate::models::{CallError, Sampling};

/// A repeated end is a loop when it has come so many times and is so many tokens long in all.
const LOOP_TIMES: usize = 4;
const LOOP_TOKENS: usize = 64;
/// Longest period that is looked for, in tokens.
const LOOP_PERIOD: usize = 128;

/// Where the earliest stop text begins, if one ends in the bytes after `seen`.
pub(super) fn first_stop(bytes: &[u8], seen: usize, stop: &[String]) -> Option<usize> {
    stop.iter()
        .filter(|text| !text.is_empty())
        .filter_map(|text| {
            let from = (seen + 1).saturating_sub(text.len());
            memchr::memmem::find(&bytes[from..], text.as_bytes()).map(|at| from + at)
        })
        .min()
}

/// Follows how long the end of a text has repeated itself, for every period at once.
#[derive(Default)]
pub(super) struct Repeats {
    /// `same[p]`: how many of the last tokens equal the one p + 1 before them.
    same: Vec<usize>,
}

impl Repeats {
    /// Takes the newest token in; true if the text has run into a loop.
    pub(super) fn push(&mut self, made: &[LlamaToken]) -> bool {
        self.same.resize(LOOP_PERIOD, 0);
        let newest = made.len() - 1;
        let mut looping = false;
        for (index, same) in self.same.iter_mut().enumerate() {
            let period = index + 1;
            if newest >= period && made[newest] == made[newest - period] {
                *same += 1;
                looping |= *same >= period * (LOOP_TIMES - 1) && *same + period >= LOOP_TOKENS;
            } else {
                *same = 0;
            }
        }
        looping
    }
}

/// Chooses tokens: greedy or sampled, under a grammar or free.
pub(super) struct Chooser {
    grammar: Option<LlamaSampler>,
    sampler: Option<LlamaSampler>,
}

impl Chooser {
    pub(super) fn new(
        model: &LlamaModel,
        grammar: Option<&str>,
        sampling: Option<Sampling>,
    ) -> Result<Self, CallError> {
        let grammar = grammar
            .map(|text| {
                LlamaSampler::grammar(model, text, "root")
                    .map_err(|error| CallError::Grammar(format!("{error}; it begins {:?}", beginning(text))))
            })
            .transpose()?;
        let sampler = sampling.map(|sampling| {
            LlamaSampler::chain(
                [
                    LlamaSampler::temp(sampling.temperature),
                    LlamaSampler::top_p(sampling.top_p, 1),
                    LlamaSampler::dist(sampling.seed),
                ],
                true,
            )
        });
        Ok(Self { grammar, sampler })
    }

    /// None: the grammar allows no token.
    pub(super) fn next(&mut self, logits: &[f32]) -> Option<LlamaToken> {
        let token = match (&mut self.grammar, &mut self.sampler) {
            (None, None) => best(logits),
            (Some(grammar), None) => {
                // Nearly always the best token is allowed: asking for it alone is cheap.
                let token = best(logits);
                let mut alone = candidates(&[(token, logits[token.0 as usize])]);
                grammar.apply(&mut alone);
                if alone.data[0].logit() > f32::NEG_INFINITY {
                    token
                } else {
                    let mut all = every(logits);
                    grammar.apply(&mut all);
                    let best = all.data.iter().fold(None, |best: Option<&LlamaTokenData>, candidate| {
                        let better = best.is_none_or(|best| candidate.logit() > best.logit());
                        if better { Some(candidate) } else { best }
                    })?;
                    (best.logit() > f32::NEG_INFINITY).then(|| best.id())?
                }
            }
            (grammar, Some(sampler)) => {
                let mut all = every(logits);
                if let Some(grammar) = grammar {
                    grammar.apply(&mut all);
                    all.data.retain(|candidate| candidate.logit() > f32::NEG_INFINITY);
                    if all.data.is_empty() {
                        return None;
                    }
                }
                sampler.apply(&mut all);
                all.selected_token()?
            }
        };
        if let Some(grammar) = &mut self.grammar {
            grammar.try_accept(token).ok()?;
        }
        Some(token)
    }
}

/// The likeliest token, of equal ones the first.
fn best(logits: &[f32]) -> LlamaToken {
    let mut best = 0;
    for (token, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = token;
        }
    }
    LlamaToken(best as i32)
}

fn every(logits: &[f32]) -> LlamaTokenDataArray {
    let all = logits.iter().enumerate().map(|(id, logit)| (LlamaToken(id as i32), *logit));
    LlamaTokenDataArray::from_iter(all.map(|(id, logit)| LlamaTokenData::new(id, logit, 0.0)), false)
}

fn candidates(pairs: &[(LlamaToken, f32)]) -> LlamaTokenDataArray {
    LlamaTokenDataArray::from_iter(
        pairs.iter().map(|(id, logit)| LlamaTokenData::new(*id, *logit, 0.0)),
        false,
    )
}

fn beginning(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn looping(tokens: &[i32]) -> Option<usize> {
        let mut repeats = Repeats::default();
        let mut made = Vec::new();
        tokens.iter().position(|token| {
            made.push(LlamaToken(*token));
            repeats.push(&made)
        })
    }

    #[test]
    fn a_repeated_end_is_a_loop_and_a_list_is_not() {
        // One token over and over: 64 of them.
        assert_eq!(looping(&[7; 100]), Some(63));
        // A period of 20 tokens: after the fourth time.
        let sentence: Vec<i32> = (0..20).collect();
        assert_eq!(looping(&sentence.repeat(10)), Some(79));
        assert_eq!(looping(&sentence.repeat(3)), None);
        // Numbered lines share words and differ in numbers.
        let list: Vec<i32> = (0..100).flat_map(|number| [1, 2, 3, 4, 5, 1000 + number]).collect();
        assert_eq!(looping(&list), None);
    }

    #[test]
    fn a_stop_text_may_span_tokens() {
        let stop = ["\n\n".to_owned(), "END".to_owned()];
        assert_eq!(first_stop(b"one\n", 3, &stop), None);
        assert_eq!(first_stop(b"one\n\nE", 4, &stop), Some(3));
        assert_eq!(first_stop(b"one END", 6, &stop), Some(4));
        assert_eq!(first_stop(b"one", 0, &[String::new()]), None);
    }

    #[test]
    fn the_first_of_equal_tokens_is_best() {
        assert_eq!(best(&[1.0, 5.0, 5.0]), LlamaToken(1));
    }
}
