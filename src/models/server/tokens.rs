//! llama-server: prompts go as token ids, so that text of a log stays text, a cut is at a token, and the
//! likelihood of any text can be asked for.

use std::sync::PoisonError;

use serde::Deserialize;
use serde_json::{Value, json};

use super::super::http::{Effort, Failure};
use super::super::prompt::cuts;
use super::super::{CallError, Finish, Prompt, Scores, Text, TokenScore};
use super::{Reading, Server, Tokens, Wish, sampling, unsupported};

/// A token, and where it ends in its text.
#[derive(Clone, Copy)]
struct Token {
    id: u32,
    /// In bytes.
    end: u32,
    /// A grammar can force it: it neither begins nor ends within a character, nor begins with NUL, which llama.cpp's
    /// grammars take for an empty text.
    forcible: bool,
}

/// Tokens whose places nobody asks for.
fn placeless(ids: Vec<u32>) -> Vec<Token> {
    ids.into_iter().map(|id| Token { id, end: 0, forcible: true }).collect()
}

/// A stretch of a prompt.
struct Stretch {
    tokens: Vec<Token>,
    may_cut: bool,
    scored: bool,
}

impl Server {
    pub(super) fn ids(&self, text: &str, how: Reading, effort: &mut Effort) -> Result<Vec<u32>, CallError> {
        if text.is_empty() && !how.opening {
            return Ok(Vec::new());
        }
        let body = json!({"content": text, "add_special": how.opening, "parse_special": how.control});
        let Tokens { tokens } = self.client.post("/tokenize", &body, effort)?;
        Ok(tokens)
    }

    /// The tokens of a text with their places in it.
    fn places(&self, text: &str, effort: &mut Effort) -> Result<Vec<Token>, CallError> {
        #[derive(Deserialize)]
        struct Places {
            tokens: Vec<Spelled>,
        }
        #[derive(Deserialize)]
        struct Spelled {
            id: u32,
            piece: Piece,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Piece {
            Text(String),
            Bytes(Vec<u8>),
        }
        let body =
            json!({"content": text, "add_special": false, "parse_special": false, "with_pieces": true});
        let Places { tokens } = self.client.post("/tokenize", &body, effort)?;
        let mut spelled = Vec::new();
        let mut ends = Vec::new();
        for token in &tokens {
            match &token.piece {
                Piece::Text(text) => spelled.extend_from_slice(text.as_bytes()),
                Piece::Bytes(bytes) => spelled.extend_from_slice(bytes),
            }
            ends.push(spelled.len());
        }
        // Some vocabularies put a space before every text.
        let before = spelled.len().saturating_sub(text.len());
        if before > 1 || spelled[..before] != b" "[..before] || spelled[before..] != *text.as_bytes() {
            return unsupported("score this text: its tokens do not spell it");
        }
        let place = |(i, token): (usize, &Spelled)| {
            let start = i.checked_sub(1).map_or(0, |previous| ends[previous]);
            let is_nul = spelled.get(start) == Some(&0);
            let [start, end] = [start, ends[i]].map(|at| at.saturating_sub(before));
            let is_whole = text.is_char_boundary(start) && text.is_char_boundary(end);
            Token { id: token.id, end: end as u32, forcible: is_whole && !is_nul }
        };
        Ok(tokens.iter().enumerate().map(place).collect())
    }

    /// The chat template's tokens around the texts.
    fn frame(&self, system: bool, effort: &mut Effort) -> Result<Vec<Vec<u32>>, CallError> {
        #[derive(Deserialize)]
        struct Applied {
            prompt: String,
        }
        const SYSTEM: &str = "trajpress-system-text";
        const USER: &str = "trajpress-user-text";
        let known = self.frames.lock().unwrap_or_else(PoisonError::into_inner).get(&system).cloned();
        if let Some(frame) = known {
            return Ok(frame);
        }
        let mut messages = vec![json!({"role": "user", "content": USER})];
        if system {
            messages.insert(0, json!({"role": "system", "content": SYSTEM}));
        }
        let body = json!({"model": self.model, "messages": messages});
        let Applied { prompt } = self.client.post("/apply-template", &body, effort)?;
        let mut around = Vec::new();
        let mut rest = prompt.as_str();
        for text in if system { &[SYSTEM, USER][..] } else { &[USER][..] } {
            match rest.split_once(text) {
                Some((before, after)) if !after.contains(text) => {
                    around.push(before);
                    rest = after;
                }
                _ => return unsupported("chat: its template does not hold each message once, in order"),
            }
        }
        around.push(rest);
        let frame: Vec<Vec<u32>> =
            around.iter().map(|text| self.ids(text, Reading::TEMPLATE, effort)).collect::<Result<_, _>>()?;
        self.frames.lock().unwrap_or_else(PoisonError::into_inner).insert(system, frame.clone());
        Ok(frame)
    }

    /// The whole prompt, cut to leave room for `reserve` tokens, and how many tokens were cut. Tokens of scored parts
    /// have their places if `places` says so.
    fn stretches(
        &self,
        prompt: &Prompt,
        places: bool,
        reserve: u32,
        effort: &mut Effort,
    ) -> Result<(Vec<Stretch>, u32), CallError> {
        let ours = |tokens| Stretch { tokens, may_cut: false, scored: false };
        let mut frame = match prompt.chat {
            true => self.frame(!prompt.system.is_empty(), effort)?,
            false => Vec::new(),
        }
        .into_iter()
        .map(|ids| ours(placeless(ids)));
        let mut stretches = vec![ours(placeless(self.opening.clone()))];
        if !prompt.system.is_empty() {
            stretches.extend(frame.next());
            stretches.push(ours(placeless(self.ids(&prompt.system, Reading::DATA, effort)?)));
        }
        stretches.extend(frame.next());
        for part in &prompt.parts {
            let tokens = match places && part.scored {
                true => self.places(&part.text, effort)?,
                false => placeless(self.ids(&part.text, Reading::DATA, effort)?),
            };
            stretches.push(Stretch { tokens, may_cut: part.may_cut, scored: part.scored });
        }
        stretches.extend(frame.next());
        stretches.push(ours(placeless(self.ids(&prompt.prefill, Reading::DATA, effort)?)));
        let window = self.card.window;
        let total = stretches.iter().map(|s| s.tokens.len() as u32).sum::<u32>().saturating_add(reserve);
        let lengths: Vec<Option<u32>> =
            stretches.iter().map(|s| s.may_cut.then_some(s.tokens.len() as u32)).collect();
        let Some(cuts) = cuts(&lengths, total.saturating_sub(window)) else {
            let tokens = total - lengths.iter().flatten().sum::<u32>();
            return Err(CallError::TooLong { tokens, window });
        };
        for (stretch, cut) in stretches.iter_mut().zip(&cuts) {
            stretch.tokens.drain(..*cut as usize);
        }
        Ok((stretches, cuts.iter().sum()))
    }

    pub(super) fn generate_tokens(
        &self,
        prompt: &Prompt,
        wish: &Wish<'_>,
        effort: &mut Effort,
    ) -> Result<Text, CallError> {
        let (stretches, cut_tokens) = self.stretches(prompt, false, wish.max_tokens.max(1), effort)?;
        let ids: Vec<u32> = stretches.iter().flat_map(|s| &s.tokens).map(|t| t.id).collect();
        let mut body = json!({
            "model": self.model,
            "prompt": ids,
            "n_predict": wish.max_tokens,
            "stop": wish.stop,
            "cache_prompt": false,
            "samplers": ["top_p", "temperature"],
        });
        sampling(&mut body, wish.sampling);
        if let Some(grammar) = wish.grammar {
            body["grammar"] = json!(grammar);
        }
        let answer = self.complete(body, effort)?;
        let finish = match answer.stop_type.as_str() {
            "eos" | "word" => Finish::Stop,
            "limit" => Finish::Length,
            other => return Err(CallError::Failed(format!("the server's answer ended with `{other}`"))),
        };
        Ok(Text {
            text: answer.content,
            finish,
            prompt_tokens: ids.len() as u32,
            tokens: answer.tokens_predicted,
            cut_tokens,
        })
    }

    /// A token that nothing stands before has no probability and is left out.
    pub(super) fn score_tokens(
        &self,
        prompt: &Prompt,
        continuations: &[String],
        effort: &mut Effort,
    ) -> Result<Scores, CallError> {
        let continuations: Vec<Vec<Token>> =
            continuations.iter().map(|text| self.places(text, effort)).collect::<Result<_, _>>()?;
        // llama-server wants room for a token after the last.
        let reserve = continuations.iter().map(Vec::len).max().unwrap_or(0) as u32 + 1;
        let (stretches, cut_tokens) = self.stretches(prompt, true, reserve, effort)?;
        let mut before: Vec<u32> = Vec::new();
        let mut parts = Vec::new();
        for stretch in &stretches {
            if stretch.scored {
                parts.push(self.forced(&before, &stretch.tokens, effort)?);
            }
            before.extend(stretch.tokens.iter().map(|t| t.id));
        }
        let continuations = continuations
            .iter()
            .map(|tokens| self.forced(&before, tokens, effort))
            .collect::<Result<_, _>>()?;
        Ok(Scores { parts, continuations, prompt_tokens: before.len() as u32, cut_tokens })
    }

    /// Log-likelihoods of given tokens.
    fn forced(
        &self,
        before: &[u32],
        tokens: &[Token],
        effort: &mut Effort,
    ) -> Result<Vec<TokenScore>, CallError> {
        let mut before = before.to_vec();
        let mut rest = tokens;
        if let ([first, others @ ..], true) = (tokens, before.is_empty()) {
            before.push(first.id);
            rest = others;
        }
        let mut scores = Vec::new();
        while let [first, ..] = rest {
            let forcible = rest.iter().take_while(|t| t.forcible).count();
            let (run, after) = rest.split_at(forcible.max(1));
            let logprobs = match forcible {
                0 => vec![self.listed(&before, first.id, effort)?],
                _ => self.followed(&before, run, effort)?,
            };
            // The server's probabilities are floats of 32 bits: the logarithm of one near their smallest is no measure.
            if let Some(logprob) = logprobs.iter().find(|l| !(-80.0..=0.0).contains(*l)) {
                return unsupported(&format!("score: its server's log-likelihood {logprob} is out of range"));
            }
            scores.extend(run.iter().zip(logprobs).map(|(t, logprob)| TokenScore { end: t.end, logprob }));
            before.extend(run.iter().map(|t| t.id));
            rest = after;
        }
        Ok(scores)
    }

    /// A grammar of just these tokens leaves the model no choice, while the probabilities that llama-server reports
    /// are those before the grammar, of the whole vocabulary.
    fn followed(&self, before: &[u32], tokens: &[Token], effort: &mut Effort) -> Result<Vec<f64>, CallError> {
        let ids: Vec<u32> = tokens.iter().map(|t| t.id).collect();
        let given = self.probabilities(before, &ids, 1, effort)?;
        if !given.iter().map(|p| p.id).eq(ids) {
            return unsupported("score: its server left the tokens that it was to follow");
        }
        Ok(given.iter().map(|p| p.logprob).collect())
    }

    /// The log-likelihood of a token that cannot be forced: another is forced in its place, and this one looked up
    /// among those that might have stood there.
    fn listed(&self, before: &[u32], id: u32, effort: &mut Effort) -> Result<f64, CallError> {
        let other = self.ids("a", Reading::DATA, effort)?;
        // Mostly it is among the likeliest; the list of all is long.
        for most in [100, i32::MAX] {
            let given = self.probabilities(before, &other[..1.min(other.len())], most, effort)?;
            if let Some(found) = given.iter().flat_map(|p| &p.top_logprobs).find(|p| p.id == id) {
                return Ok(found.logprob);
            }
        }
        unsupported("score: its server does not list all tokens")
    }

    /// What llama-server says of each forced token, and of the `most` likeliest in its place.
    fn probabilities(
        &self,
        before: &[u32],
        forced: &[u32],
        most: i32,
        effort: &mut Effort,
    ) -> Result<Vec<Probability>, CallError> {
        let grammar: String = forced.iter().map(|id| format!(" <[{id}]>")).collect();
        let body = json!({
            "model": self.model,
            "prompt": before,
            "n_predict": forced.len(),
            "cache_prompt": false,
            "samplers": ["temperature"],
            "temperature": 0,
            "n_probs": most,
            "grammar": format!("root ::={grammar}"),
        });
        match self.complete(body, effort) {
            Err(Failure { error: CallError::Grammar(why), .. }) => {
                unsupported(&format!("score: its server knows no grammar of tokens ({why})"))
            }
            Err(other) => Err(other.into()),
            Ok(answer) => Ok(answer.completion_probabilities),
        }
    }

    /// Asks for a completion token by token, and to be told of the prompt's progress before the first.
    fn complete(&self, mut body: Value, effort: &mut Effort) -> Result<Completion, Failure> {
        body["return_progress"] = json!(true);
        self.client.stream("/completion", body, effort, |events: Vec<Completion>| {
            let mut whole = Completion::default();
            for event in events {
                whole.content.push_str(&event.content);
                whole.completion_probabilities.extend(event.completion_probabilities);
                whole.stop_type = event.stop_type;
                whole.tokens_predicted = event.tokens_predicted;
            }
            // Only the last event says why it ended.
            (!whole.stop_type.is_empty()).then_some(whole)
        })
    }
}

/// The answer of `/completion`, or an event of its stream.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Completion {
    content: String,
    stop_type: String,
    tokens_predicted: u32,
    completion_probabilities: Vec<Probability>,
}

/// What llama-server says of a token.
#[derive(Deserialize)]
struct Probability {
    id: u32,
    /// Natural, of the whole vocabulary before any sampling.
    logprob: f64,
    /// Of those that might have stood in its place, the likeliest first.
    #[serde(default)]
    top_logprobs: Vec<Probability>,
}
