//! Servers that read text: prompts go as text without control tokens.

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::disarm::{disarm, rearm};
use super::super::http::{Effort, Failure};
use super::super::prompt::cuts;
use super::super::{CallError, Finish, Prompt, Scores, Text, TokenScore};
use super::{Server, Tokens, Wish, sampling, unsupported};

/// What servers that read text differ in. Its fields are named as in their APIs.
pub(super) struct Dialect {
    /// Settings that the server would otherwise take from the model's files, switched off.
    neutral: &'static [(&'static str, i32)],
    /// Where a grammar goes; empty: no grammar is known to be kept to.
    grammar: &'static [&'static str],
    /// What lets the server continue the last message; empty: it is asked in words.
    continues: &'static [(&'static str, bool)],
    /// `/tokenize` and `/detokenize` are there.
    tokenizes: bool,
}

/// What OpenAI's API says and no more.
pub(super) const OPENAI: Dialect = Dialect { neutral: &[], grammar: &[], continues: &[], tokenizes: false };

/// vLLM's from 0.11 on.
pub(super) const VLLM: Dialect = Dialect {
    neutral: &[("top_k", -1), ("min_p", 0), ("repetition_penalty", 1)],
    grammar: &["structured_outputs", "grammar"],
    continues: &[("continue_final_message", true), ("add_generation_prompt", false)],
    tokenizes: true,
};

pub(super) const OLDER_VLLM: Dialect = Dialect { grammar: &["guided_grammar"], ..VLLM };

/// A prompt whose texts hold no control tokens, and what it lost.
struct Disarmed {
    prompt: Prompt,
    /// Bytes cut from the beginning of each part.
    cut_bytes: Vec<usize>,
    cut_tokens: u32,
}

/// The answer of `/v1/chat/completions` and `/v1/completions`, or an event of its stream: that of the usage has no
/// choice.
#[derive(Default, Deserialize)]
struct Completions {
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<Usage>,
}

#[derive(Default, Deserialize)]
struct Choice {
    /// In an event the next piece of it.
    #[serde(alias = "delta")]
    message: Option<Message>,
    text: Option<String>,
    finish_reason: Option<String>,
    logprobs: Option<Logprobs>,
}

/// A generated text with the word for why it ended.
#[derive(Default)]
struct Written {
    text: String,
    finish: String,
    usage: Option<Usage>,
}

impl Written {
    /// None if it has not ended.
    fn of(events: Vec<Completions>) -> Option<Self> {
        let mut written = Written::default();
        let mut finish = None;
        for Completions { choices, usage } in events {
            written.usage = usage.or(written.usage);
            for choice in choices {
                let piece = choice.text.or(choice.message.and_then(|m| m.content));
                written.text.push_str(&piece.unwrap_or_default());
                finish = choice.finish_reason.filter(|reason| !reason.is_empty()).or(finish);
            }
        }
        Some(Written { finish: finish?, ..written })
    }
}

#[derive(Deserialize)]
struct Message {
    content: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    prompt_tokens: u32,
    completion_tokens: u32,
}

/// Empty where a server speaks of the tokens that it wrote in another form, and echoes none.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Logprobs {
    tokens: Vec<String>,
    token_logprobs: Vec<Option<f64>>,
}

impl Server {
    pub(super) fn generate_text(
        &self,
        prompt: &Prompt,
        wish: &Wish<'_>,
        effort: &mut Effort,
    ) -> Result<Text, CallError> {
        let Disarmed { prompt, cut_tokens, .. } = self.disarmed(prompt, wish.max_tokens.max(1), effort)?;
        let mut body = self.body(&prompt);
        body["max_tokens"] = json!(wish.max_tokens);
        sampling(&mut body, wish.sampling);
        if !wish.stop.is_empty() {
            body["stop"] = json!(wish.stop);
        }
        for (name, value) in self.dialect.neutral {
            body[name] = json!(value);
        }
        match (wish.grammar, self.dialect.grammar) {
            (None, _) => {}
            (Some(_), []) => return unsupported("keep to a grammar: its server is not known to"),
            (Some(grammar), place) => {
                *place.iter().fold(&mut body, |at, name| &mut at[*name]) = json!(grammar);
            }
        }
        let path = if prompt.chat { "/v1/chat/completions" } else { "/v1/completions" };
        body["stream_options"] = json!({"include_usage": true});
        let Written { text, finish, usage } = self.client.stream(path, body, effort, Written::of)?;
        let Some(usage) = usage else {
            return unsupported("count tokens: its server's answers have no `usage`");
        };
        let finish = match finish.as_str() {
            "stop" => Finish::Stop,
            "length" => Finish::Length,
            other => return Err(CallError::Failed(format!("the server's answer ended with `{other}`"))),
        };
        let text = match self.asks_in_words(&prompt) {
            true => text.trim_start().strip_prefix(prompt.prefill.trim()).unwrap_or(&text),
            false => &text,
        };
        Ok(Text {
            text: rearm(text).into_owned(),
            finish,
            prompt_tokens: usage.prompt_tokens,
            tokens: usage.completion_tokens,
            cut_tokens,
        })
    }

    /// Whether a chat prompt's prefill is asked for in words, because the server is not known to continue it.
    fn asks_in_words(&self, prompt: &Prompt) -> bool {
        self.dialect.continues.is_empty() && prompt.chat && !prompt.prefill.is_empty()
    }

    /// The prompt as fields of a request.
    fn body(&self, prompt: &Prompt) -> Value {
        if !prompt.chat {
            return json!({"model": self.model, "prompt": plain(prompt)});
        }
        let mut user: String = prompt.parts.iter().map(|p| p.text.as_str()).collect();
        let mut body = json!({"model": self.model});
        let mut messages = Vec::new();
        if !prompt.system.is_empty() {
            messages.push(json!({"role": "system", "content": prompt.system}));
        }
        if self.asks_in_words(prompt) {
            user.push_str("\n\nBegin your answer with exactly this:\n");
            user.push_str(&prompt.prefill);
        }
        messages.push(json!({"role": "user", "content": user}));
        if !self.dialect.continues.is_empty() && !prompt.prefill.is_empty() {
            messages.push(json!({"role": "assistant", "content": prompt.prefill}));
            for (name, value) in self.dialect.continues {
                body[name] = json!(value);
            }
        }
        body["messages"] = json!(messages);
        body
    }

    /// Plain prompts only: what a server's template puts around the texts cannot be read from its answer.
    pub(super) fn score_text(
        &self,
        prompt: &Prompt,
        continuations: &[String],
        effort: &mut Effort,
    ) -> Result<Scores, CallError> {
        if prompt.chat {
            return unsupported("score a chat prompt: its server takes text only");
        }
        let changed = |text: &str| *disarm(text) != *text;
        let scored = prompt.parts.iter().filter(|p| p.scored).map(|p| p.text.as_str());
        if scored.chain(continuations.iter().map(String::as_str)).any(changed) {
            return unsupported("score what looks like a control token: its server would read it as one");
        }
        // A token has at least a byte.
        let reserve = continuations.iter().map(String::len).max().unwrap_or(0) as u32 + 1;
        let Disarmed { prompt, cut_bytes, cut_tokens } = self.disarmed(prompt, reserve, effort)?;
        let pieces: Vec<&str> = std::iter::once(prompt.system.as_str())
            .chain(prompt.parts.iter().map(|p| p.text.as_str()))
            .chain([prompt.prefill.as_str()])
            .collect();
        let (mut scores, prompt_tokens) = self.echo(&pieces, effort)?;
        let parts = prompt
            .parts
            .iter()
            .zip(scores.drain(1..=prompt.parts.len()))
            .zip(cut_bytes)
            .filter(|((part, _), _)| part.scored)
            .map(|((_, scores), cut)| {
                scores.into_iter().map(|s| TokenScore { end: s.end + cut as u32, ..s }).collect()
            })
            .collect();
        let continuations = continuations
            .iter()
            .map(|text| {
                let pieces: Vec<&str> = pieces.iter().copied().chain([text.as_str()]).collect();
                Ok(self.echo(&pieces, effort)?.0.pop().unwrap_or_default())
            })
            .collect::<Result<_, CallError>>()?;
        Ok(Scores { parts, continuations, prompt_tokens, cut_tokens })
    }

    /// The log-likelihoods of each piece's tokens when the pieces are read as one text, and the text's tokens.
    fn echo(&self, pieces: &[&str], effort: &mut Effort) -> Result<(Vec<Vec<TokenScore>>, u32), CallError> {
        let text = pieces.concat();
        if text.is_empty() {
            return Ok((vec![Vec::new(); pieces.len()], 0));
        }
        if let Some(why) = self.no_echo.get() {
            return unsupported(why);
        }
        let never = |why: String| unsupported(self.no_echo.get_or_init(|| why));
        let body = json!({
            "model": self.model, "prompt": text, "max_tokens": 1, "temperature": 0, "echo": true, "logprobs": 1,
        });
        let answer: Completions = match self.client.post("/v1/completions", &body, effort) {
            Err(Failure { status: Some(404), error: CallError::Failed(why), .. }) => {
                return never(format!("score: its server does not echo a prompt ({why})"));
            }
            // It may be this prompt alone.
            Err(Failure { status: Some(400 | 422), error: CallError::Failed(why), .. }) => {
                return unsupported(&format!("score: its server does not echo a prompt ({why})"));
            }
            other => other?,
        };
        let [Choice { logprobs: Some(logprobs), .. }] = &answer.choices[..] else {
            return never("score: its server does not echo a prompt with log-likelihoods".to_owned());
        };
        aligned(pieces, logprobs).or_else(|why| unsupported(&format!("score: {why}")))
    }

    /// The prompt with its texts disarmed, and cut where the server's tokens are known.
    fn disarmed(&self, prompt: &Prompt, reserve: u32, effort: &mut Effort) -> Result<Disarmed, CallError> {
        let mut prompt = prompt.clone();
        prompt.system = disarm(&prompt.system).into_owned();
        prompt.prefill = disarm(&prompt.prefill).into_owned();
        for part in &mut prompt.parts {
            part.text = disarm(&part.text).into_owned();
        }
        let whole: Vec<usize> = prompt.parts.iter().map(|p| p.text.len()).collect();
        let mut cut_tokens = 0;
        if self.dialect.tokenizes {
            // Where the texts of a cut part meet, tokens merge anew: seldom is a second round needed.
            for _ in 0..4 {
                let cut = self.cut_vllm(&mut prompt, reserve, effort)?;
                cut_tokens += cut;
                if cut == 0 {
                    break;
                }
            }
        }
        let cut_bytes =
            whole.iter().zip(&prompt.parts).map(|(whole, part)| whole - part.text.len()).collect();
        Ok(Disarmed { prompt, cut_bytes, cut_tokens })
    }

    /// Cuts what exceeds the window; gives how many tokens went.
    fn cut_vllm(&self, prompt: &mut Prompt, reserve: u32, effort: &mut Effort) -> Result<u32, CallError> {
        #[derive(Deserialize)]
        struct Counted {
            count: u32,
        }
        #[derive(Deserialize)]
        struct Detokenized {
            prompt: String,
        }
        let window = self.card.window;
        let Counted { count } = match self.client.post("/tokenize", &self.body(prompt), effort) {
            // Not every vLLM is reached whole: one that does not count refuses what is too long.
            Err(Failure { status: Some(404 | 405), .. }) => return Ok(0),
            other => other?,
        };
        let over = count.saturating_add(reserve).saturating_sub(window);
        if over == 0 {
            return Ok(0);
        }
        let mut tokens = Vec::new();
        for part in &prompt.parts {
            tokens.push(if part.may_cut { Some(self.tokens_vllm(&part.text, effort)?) } else { None });
        }
        let lengths: Vec<Option<u32>> = tokens.iter().map(|t| t.as_ref().map(|t| t.len() as u32)).collect();
        let Some(cuts) = cuts(&lengths, over) else {
            let tokens = count.saturating_add(reserve).saturating_sub(lengths.iter().flatten().sum());
            return Err(CallError::TooLong { tokens, window });
        };
        for ((part, tokens), cut) in prompt.parts.iter_mut().zip(tokens).zip(&cuts) {
            let (Some(tokens), 1..) = (tokens, *cut) else { continue };
            let body = json!({"model": self.model, "tokens": tokens[*cut as usize..]});
            let Detokenized { prompt: kept } = self.client.post("/detokenize", &body, effort)?;
            // A cut within a character loses the character.
            let kept = kept.trim_start_matches('\u{FFFD}');
            if !part.text.ends_with(kept) {
                return unsupported("cut this prompt: its server's tokens do not spell it");
            }
            part.text = kept.to_owned();
        }
        Ok(over)
    }

    pub(super) fn tokens_vllm(&self, text: &str, effort: &mut Effort) -> Result<Vec<u32>, CallError> {
        let body = json!({"model": self.model, "prompt": text, "add_special_tokens": false});
        let Tokens { tokens } = self.client.post("/tokenize", &body, effort)?;
        Ok(tokens)
    }
}

fn plain(prompt: &Prompt) -> String {
    let parts = prompt.parts.iter().map(|p| p.text.as_str());
    std::iter::once(prompt.system.as_str()).chain(parts).chain([prompt.prefill.as_str()]).collect()
}

/// Shares out the tokens of an echoed text to its pieces. What cannot be told for certain is an error: a token
/// across the border of two pieces, tokens that do not spell the text, a token without a number (but the first).
/// The second value is the number of the text's tokens.
fn aligned(pieces: &[&str], echoed: &Logprobs) -> Result<(Vec<Vec<TokenScore>>, u32), &'static str> {
    let text = pieces.concat();
    // The first has no number: it opens the text, or is a control token before it.
    let opening = match (echoed.tokens.first(), echoed.token_logprobs.first()) {
        (Some(first), Some(None)) if !text.starts_with(first.as_str()) => 1,
        _ => 0,
    };
    let mut scores = vec![Vec::new(); pieces.len()];
    let (mut at, mut piece, mut begin, mut tokens) = (0, 0, 0, opening as u32);
    for (nth, (token, logprob)) in echoed.tokens.iter().zip(&echoed.token_logprobs).enumerate().skip(opening)
    {
        if at == text.len() {
            break;
        }
        if token.is_empty() || !text[at..].starts_with(token.as_str()) {
            return Err("the server's tokens do not spell the text");
        }
        while at == begin + pieces[piece].len() {
            begin += pieces[piece].len();
            piece += 1;
        }
        at += token.len();
        tokens += 1;
        if at > begin + pieces[piece].len() {
            return Err("a token of the server crosses the border of two parts");
        }
        match logprob {
            Some(logprob) if *logprob <= 0.0 => {
                scores[piece].push(TokenScore { end: (at - begin) as u32, logprob: *logprob });
            }
            None if nth == 0 => {}
            _ => return Err("a token of the server has no log-likelihood"),
        }
    }
    if at == text.len() { Ok((scores, tokens)) } else { Err("the server's tokens end before the text") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scores_that_cannot_be_told_are_errors() {
        let echoed = |tokens: &[&str], logprobs: &[Option<f64>]| Logprobs {
            tokens: tokens.iter().map(|t| (*t).to_owned()).collect(),
            token_logprobs: logprobs.to_vec(),
        };
        let score = |end, logprob| TokenScore { end, logprob };
        let bos = echoed(&["<s>", "a", "bc", "d"], &[None, Some(-1.0), Some(-2.0), Some(-3.0)]);
        let expected = vec![vec![score(1, -1.0)], vec![], vec![score(2, -2.0)]];
        assert_eq!(aligned(&["a", "", "bc"], &bos), Ok((expected, 3)));
        assert!(aligned(&["ab", "c"], &bos).unwrap_err().contains("border"));
        assert!(aligned(&["abcde"], &bos).unwrap_err().contains("end before"));
        assert!(aligned(&["axx"], &bos).unwrap_err().contains("spell"));
        let holes = echoed(&["a", "b"], &[Some(-1.0), None]);
        assert!(aligned(&["ab"], &holes).unwrap_err().contains("no log-likelihood"));
        let wrong = echoed(&["a"], &[Some(0.5)]);
        assert!(aligned(&["a"], &wrong).unwrap_err().contains("no log-likelihood"));
        assert!(aligned(&["a"], &echoed(&["a", ""], &[])).is_err());
    }
}
