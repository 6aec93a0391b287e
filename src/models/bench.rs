//! How fast a model answers: prefill, generation with one and with many sequences, embedding.
//!
//! The prompts differ from their first word on, so that none is served by the beginning of another. Times are wall
//! times of the calls as a run makes them, worker and pipes included.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::dry::Demand;
use super::{Answer, Call, CallError, Model, Outcome, Part, Prompt};

/// Tokens a second of wall time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// Tokens of each prompt, and tokens written to each, at most.
    pub prompt_tokens: u32,
    pub answer_tokens: u32,
    /// Sequences side by side, over all contexts.
    pub sequences: u32,
    /// Prompt tokens read, all sequences in turn.
    pub prefill: Option<f64>,
    /// The same for prompts of [`DEEP`] tokens, where that was asked for: each token attends to all before it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefill_deep: Option<f64>,
    /// Tokens written by one sequence alone, after its prompt.
    pub generate_one: Option<f64>,
    /// Tokens written by all sequences together.
    pub generate_all: Option<f64>,
    /// Texts of some 20 tokens embedded.
    pub texts: Option<f64>,
}

/// Tokens of the long prompts by which [`Speed::reading`] tells what depth costs.
pub const DEEP: u32 = 2048;

impl Speed {
    /// Seconds that the model takes for all that is asked of it; what no rate is known for counts as nothing.
    pub fn seconds(&self, demand: Demand) -> f64 {
        let time = |amount: u64, rate: Option<f64>| match rate {
            Some(rate) if amount > 0 => amount as f64 / rate,
            _ => 0.0,
        };
        self.reading(demand.read, demand.behind).unwrap_or(0.0)
            + time(demand.written, self.generate_all)
            + time(demand.texts, self.texts)
    }

    /// Seconds that the model takes to read so many tokens, with so many before them in all.
    ///
    /// A prompt of n tokens takes a·n + b·n²/2: the rates at two lengths give a and b. Where only one was measured, b is 0.
    pub fn reading(&self, tokens: u64, behind: u64) -> Option<f64> {
        let short = 1.0 / self.prefill?;
        let (near, far) = (f64::from(self.prompt_tokens), f64::from(DEEP));
        let more = self.prefill_deep.map_or(0.0, |deep| (1.0 / deep - short).max(0.0));
        let b = if far > near { 2.0 * more / (far - near) } else { 0.0 };
        let a = (short - b * near / 2.0).max(0.0);
        Some(a * tokens as f64 + b * behind as f64)
    }
}

/// Words enough for a text of about `tokens` tokens, other ones for each `n`.
fn text(n: usize, tokens: u32) -> String {
    let known: Vec<&str> = include_str!("bench.txt").lines().collect();
    let mut state = n as u64 + 1;
    let mut words = Vec::new();
    for _ in 0..tokens {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        words.push(known[(state >> 59) as usize % known.len()]);
    }
    words.join(" ")
}

fn prompt(n: usize, tokens: u32) -> Prompt {
    Prompt { parts: vec![Part { text: text(n, tokens), ..Part::default() }], ..Prompt::default() }
}

fn generate(n: usize, prompt_tokens: u32, max_tokens: u32) -> Call {
    Call::Generate {
        prompt: prompt(n, prompt_tokens),
        max_tokens,
        grammar: None,
        stop: Vec::new(),
        sampling: None,
    }
}

/// Tokens that the calls read and wrote, and the seconds that they took.
fn ask(model: &dyn Model, calls: &[Call]) -> Result<(u64, u64, f64), CallError> {
    let begun = Instant::now();
    let outcomes: Vec<Outcome> = model.answer(calls);
    let seconds = begun.elapsed().as_secs_f64();
    let (mut read, mut written) = (0, 0);
    for outcome in outcomes {
        if let Answer::Text(text) = outcome? {
            read += u64::from(text.prompt_tokens);
            written += u64::from(text.tokens);
        }
    }
    Ok((read, written, seconds))
}

/// Measures a model that generates greedily, with so many sequences side by side.
///
/// # Errors
/// What the model cannot answer.
pub fn text_speed(
    model: &dyn Model,
    sequences: u32,
    prompt_tokens: u32,
    answer_tokens: u32,
) -> Result<Speed, CallError> {
    let batch = |first: usize, n: u32, prompt: u32, answer: u32| -> Vec<Call> {
        (0..n as usize).map(|i| generate(first + i, prompt, answer)).collect()
    };
    // Loads the weights and warms the pages.
    ask(model, &batch(0, 2, 16, 2))?;
    let (read, _, prefill) = ask(model, &batch(100, sequences, prompt_tokens, 1))?;
    let rate = read as f64 / prefill;
    // The first token comes with the prompt: the time of as many short prompts with one token each is taken off.
    let generated = |first, n| -> Result<f64, CallError> {
        let (_, _, prompts) = ask(model, &batch(first, n, 16, 1))?;
        let (_, written, seconds) = ask(model, &batch(first + 500, n, 16, answer_tokens))?;
        Ok((written.saturating_sub(u64::from(n))) as f64 / (seconds - prompts).max(1e-9))
    };
    Ok(Speed {
        prompt_tokens,
        answer_tokens,
        sequences,
        prefill: Some(rate),
        prefill_deep: None,
        generate_one: if answer_tokens > 1 { Some(generated(1000, 1)?) } else { None },
        generate_all: if answer_tokens > 1 { Some(generated(2000, sequences)?) } else { None },
        texts: None,
    })
}

/// Tokens a second that a model reads of prompts of [`DEEP`] tokens, one for each context.
///
/// # Errors
/// What the model cannot answer.
pub fn deep_prefill(model: &dyn Model, contexts: u32) -> Result<f64, CallError> {
    let calls: Vec<Call> = (0..contexts as usize).map(|n| generate(3000 + n, DEEP, 1)).collect();
    let (read, _, seconds) = ask(model, &calls)?;
    Ok(read as f64 / seconds)
}

/// Measures an embedder with so many texts.
///
/// # Errors
/// What the model cannot answer.
pub fn embedding_speed(model: &dyn Model, texts: u32) -> Result<Speed, CallError> {
    let calls = |first: usize, n: u32| -> Vec<Call> {
        (0..n as usize).map(|i| Call::Embed { text: text(first + i, 18) }).collect()
    };
    ask(model, &calls(0, 2))?;
    let (_, _, seconds) = ask(model, &calls(100, texts))?;
    Ok(Speed { prompt_tokens: 20, texts: Some(f64::from(texts) / seconds), ..Speed::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_makes_reading_dearer() {
        // 1 ms a token and 1 us for each token before it: a prompt of 48 tokens takes 0.048 + 0.001152 s, one of
        // 2,048 tokens 2.048 + 2.097152 s.
        let speed = Speed {
            prompt_tokens: 48,
            prefill: Some(48.0 / 0.049_152),
            prefill_deep: Some(2048.0 / 4.145_152),
            ..Speed::default()
        };
        let seconds = speed.reading(6000, 18_000_000).unwrap();
        assert!((seconds - 24.0).abs() < 1e-6, "{seconds}");
        let flat = Speed { prefill: Some(100.0), ..Speed::default() };
        assert_eq!(flat.reading(500, 1_000_000), Some(5.0));
        assert_eq!(Speed::default().reading(1, 1), None);
    }
}
