//! What a provider counted for a reply, in the forms of OpenAI (chat and Responses), Codex and Anthropic.

use super::record;
use super::scalar::Scalar;
use crate::trajectory::Usage;

record! {
    /// `usage` of a reply.
    #[derive(PartialEq)]
    struct LoggedUsage in "usage" {
        prompt_tokens: Scalar = "prompt_tokens",
        completion_tokens: Scalar = "completion_tokens",
        input_tokens: Scalar = "input_tokens",
        output_tokens: Scalar = "output_tokens",
        prompt_details: Details = "prompt_tokens_details",
        input_details: Details = "input_tokens_details" | "input_token_details",
        cached_input: Scalar = "cached_input_tokens",
        cache_read: Scalar = "cache_read_input_tokens",
        cache_write: Scalar = "cache_creation_input_tokens" | "cache_write_input_tokens",
        written: Written = "cache_creation",
        output_details: OutputDetails = "completion_tokens_details" | "output_tokens_details" | "output_token_details",
        reasoning: Scalar = "reasoning_output_tokens",
        cost: Scalar = "cost",
        total: Scalar = "total_tokens",
    }

    #[derive(PartialEq)]
    struct OutputDetails in "usage.output_details" {
        reasoning: Scalar = "reasoning_tokens" | "reasoning",
    }

    #[derive(PartialEq)]
    struct Details in "usage.details" {
        cached_tokens: Scalar = "cached_tokens" | "cache_read",
    }

    /// What was written to the cache, by how long it lives.
    #[derive(PartialEq)]
    struct Written in "usage.written" {
        hour: Scalar = "ephemeral_1h_input_tokens",
    }
}

impl LoggedUsage {
    /// Whether it holds a count that cannot be one.
    pub(crate) fn is_odd(&self) -> bool {
        let counts = [
            self.prompt_tokens,
            self.completion_tokens,
            self.input_tokens,
            self.output_tokens,
            self.cached_input,
            self.cache_read,
            self.cache_write,
        ];
        counts.into_iter().any(is_odd)
    }

    /// The usage with the whole prompt as input; none if the prompt was not counted, or a part of it cannot be read.
    ///
    /// `prompt_tokens`, and the `input_tokens` of OpenAI and Codex, hold the cached part; those of Anthropic do not, and are told
    /// by the counts of the cache beside them.
    pub(crate) fn usage(&self) -> Option<Usage> {
        let count = |s: &Option<Scalar>| s.and_then(Scalar::count);
        let cached = |d: &Option<Details>| d.as_ref().and_then(|d| count(&d.cached_tokens));
        let cache_read = count(&self.cache_read)
            .or(count(&self.cached_input))
            .or(cached(&self.prompt_details))
            .or(cached(&self.input_details));
        let cache_write = count(&self.cache_write);
        let input = match count(&self.prompt_tokens) {
            Some(prompt) => prompt,
            None if self.input_details.is_some() || self.cached_input.is_some() => count(&self.input_tokens)?,
            None if is_odd(self.cache_read) || is_odd(self.cache_write) => return None,
            None => {
                count(&self.input_tokens)?
                    + count(&self.cache_read).unwrap_or(0)
                    + count(&self.cache_write).unwrap_or(0)
            }
        };
        // Gateways write 0 for what they did not count; no prompt is empty.
        let output = count(&self.completion_tokens).or(count(&self.output_tokens));
        let cache_write_1h = self.written.as_ref().and_then(|written| count(&written.hour));
        let reasoning =
            count(&self.reasoning).or(self.output_details.as_ref().and_then(|d| count(&d.reasoning)));
        let cost = dollars(self.cost);
        (input > 0).then_some(Usage {
            input,
            output,
            cache_read,
            cache_write,
            cache_write_1h,
            reasoning,
            cost,
        })
    }
}

impl LoggedUsage {
    /// The same, also where of a call the reply alone was counted.
    pub(crate) fn of_call(&self) -> Option<Usage> {
        let output = self.completion_tokens.or(self.output_tokens).and_then(Scalar::count);
        let of_reply = || Usage { output, cost: dollars(self.cost), ..Usage::default() };
        self.usage().or_else(|| output.filter(|n| *n > 0).map(|_| of_reply()))
    }
}

/// A cost as logged, if it can be one.
pub(crate) fn dollars(cost: Option<Scalar>) -> Option<f64> {
    match cost? {
        Scalar::Number(cost) if (0.0..1e9).contains(&cost) => Some(cost),
        _ => None,
    }
}

/// Counts of a format that names them in its own way.
#[derive(Default)]
pub(crate) struct TokenCounts {
    pub(crate) prompt: Option<Scalar>,
    /// Parts of the prompt that `prompt` does not hold.
    pub(crate) more_prompt: [Option<Scalar>; 2],
    pub(crate) output: Option<Scalar>,
    /// A part of the output that `output` does not hold.
    pub(crate) more_output: Option<Scalar>,
    pub(crate) cache_read: Option<Scalar>,
    pub(crate) cache_write: Option<Scalar>,
    /// A part of the whole output.
    pub(crate) reasoning: Option<Scalar>,
    pub(crate) cost: Option<Scalar>,
}

impl TokenCounts {
    /// The same rules as those of [`LoggedUsage::usage`].
    pub(crate) fn usage(&self) -> Option<Usage> {
        let count = |s: Option<Scalar>| s.and_then(Scalar::count);
        if self.more_prompt.into_iter().any(is_odd) {
            return None;
        }
        let input = count(self.prompt)? + self.more_prompt.into_iter().filter_map(count).sum::<u64>();
        let output = count(self.output).map(|n| n + count(self.more_output).unwrap_or(0));
        let (cache_read, cache_write) = (count(self.cache_read), count(self.cache_write));
        let (reasoning, cost) = (count(self.reasoning), dollars(self.cost));
        (input > 0).then_some(Usage {
            input,
            output,
            cache_read,
            cache_write,
            reasoning,
            cost,
            cache_write_1h: None,
        })
    }
}

fn is_odd(count: Option<Scalar>) -> bool {
    count.is_some_and(|scalar| scalar != Scalar::Null && scalar.count().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Option<Usage> {
        serde_json::from_str::<LoggedUsage>(json).unwrap().usage()
    }

    #[test]
    fn the_whole_prompt_is_the_input() {
        let usage = |input, output, cache_read, cache_write| {
            Some(Usage { input, output: Some(output), cache_read, cache_write, ..Usage::default() })
        };
        let chat =
            r#"{"prompt_tokens":100,"completion_tokens":7,"prompt_tokens_details":{"cached_tokens":64}}"#;
        assert_eq!(read(chat), usage(100, 7, Some(64), None));
        let responses =
            r#"{"input_tokens":100,"output_tokens":7,"input_tokens_details":{"cached_tokens":64}}"#;
        assert_eq!(read(responses), usage(100, 7, Some(64), None));
        let anthropic = r#"{"input_tokens":3,"output_tokens":7,"cache_read_input_tokens":90,"cache_creation_input_tokens":7}"#;
        assert_eq!(read(anthropic), usage(100, 7, Some(90), Some(7)));
        let split = r#"{"input_tokens":3,"output_tokens":7,"cache_read_input_tokens":90,"cache_creation_input_tokens":7,"cache_creation":{"ephemeral_5m_input_tokens":2,"ephemeral_1h_input_tokens":5}}"#;
        assert_eq!(
            read(split).map(|usage| (usage.cache_write, usage.cache_write_1h)),
            Some((Some(7), Some(5)))
        );
        let codex =
            r#"{"input_tokens":100,"cached_input_tokens":64,"output_tokens":7,"reasoning_output_tokens":5}"#;
        let codex = read(codex).unwrap();
        assert_eq!((codex.input, codex.output, codex.reasoning), (100, Some(7), Some(5)));
        let details = |name: &str| {
            read(&format!(
                r#"{{"input_tokens":9,"output_tokens":7,"{name}":{{"reasoning_tokens":5}},"cost":0.25}}"#
            ))
        };
        for name in ["completion_tokens_details", "output_tokens_details", "output_token_details"] {
            assert_eq!(details(name).map(|u| (u.reasoning, u.cost)), Some((Some(5), Some(0.25))), "{name}");
        }
        for odd in ["-1", "\"NaN\"", "1e300", "{\"total\":1}", "null"] {
            let read = read(&format!(r#"{{"prompt_tokens":9,"cost":{odd}}}"#)).unwrap();
            assert_eq!((read.input, read.cost), (9, None), "{odd}");
        }
        assert_eq!(read(r#"{"prompt_tokens":0,"completion_tokens":7}"#), None);
        assert_eq!(read(r#"{"prompt_tokens":"NaN","completion_tokens":-7}"#), None);
        // A prompt is not counted by the parts of it that can be read.
        let parts = |read: &str| {
            format!(r#"{{"input_tokens":3,"output_tokens":7,"cache_read_input_tokens":{read}}}"#)
        };
        assert_eq!(read(&parts("\"NaN\"")), None);
        assert_eq!(read(&parts("null")), usage(3, 7, None, None));
        assert_eq!(read(&parts("90.0")), usage(93, 7, Some(90), None));
    }
}
