//! One llama.cpp context with one thread: prefill, scoring, and many sequences generated side by side.
//!
//! A context has as many streams as sequences. A stream keeps what it holds when its call is done, and the next call
//! goes where most of its prompt stands already: only the rest is decoded. What stands in a stream that is at work
//! is copied, if that is worth it.
//!
//! # Answers depend on their call alone, bit for bit
//!
//! Floating-point sums depend on their order, and llama.cpp chooses its kernels by the number of rows, so in general a
//! batch changes what is computed for each of its rows. Five rules keep that out, whatever shares a context and whatever
//! it did before; `tests/llama.rs` holds them with SmolLM2 and Qwen 0.5B in the build that it runs in:
//!
//! 1. every sequence has a stream of cells of its own (`kv_unified` off), so its cells stand at the same places
//!    whoever else is there;
//! 2. flash attention is off: its sums over cells are cut where the chunk ends;
//! 3. a prompt is decoded in chunks that begin at multiples of [`CHUNK`], alone in their batch: which rows are computed
//!    together depends on the prompt alone. A later prompt shares whole chunks, and neither the last, shorter chunk
//!    nor what was generated or scored after it;
//! 4. how many sequences are at work changes from token to token, and with it the kernels: tokens that are written share a batch
//!    of at most so many rows as were seen to leave all bits alone when the worker started ([`Engine::equal_rows`]). Those of
//!    8-bit weights may be any number: their kernels sum each row in the same order. K-quants have other kernels from 8
//!    rows on (which [`Options::batched`](super::Options::batched) takes for any number). Mixtures of experts and weights that are repacked when they are
//!    loaded write one by one; `.cargo/config.toml` turns that off;
//! 5. one thread a context.

use std::num::NonZeroU32;
use std::ops::Range;

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::token::LlamaToken;

use crate::models::llama::choose::{Chooser, Repeats};
use crate::models::llama::template::{self, Template};
use crate::models::{Answer, Call, CallError, Outcome, Prompt, Sampling, Scores, TokenScore};

mod slot;

use slot::{Slot, Stream, advance, failed, logprob, piece};

/// Rows of a prompt decoded at once, and the step in which prompts share what they begin with.
const CHUNK: usize = 128;
/// So many tokens must be spared by a copy of a stream, which costs as much as its whole window, to be made.
const WORTH_A_COPY: usize = 256;
/// `LLAMA_FLASH_ATTN_TYPE_DISABLED`.
const NO_FLASH_ATTENTION: i32 = 0;

/// Fewer tokens than that are written faster one after the other.
const WORTH_A_BATCH: usize = 4;

/// Rows of a batch for which llama.cpp takes the kernels of one row.
const FEW: usize = 7;

pub(super) struct Engine<'m> {
    model: &'m LlamaModel,
    template: &'m Template,
    context: LlamaContext<'m>,
    batch: LlamaBatch<'static>,
    window: u32,
    streams: Vec<Stream>,
    /// Tokens written in one batch, at most.
    rows: usize,
    /// Counts the calls.
    clock: u64,
    alive: &'m (dyn Fn() + Sync),
}

impl<'m> Engine<'m> {
    /// Contexts must be made one after the other: llama.cpp changes the model while it makes one.
    pub(super) fn new(
        backend: &LlamaBackend,
        model: &'m LlamaModel,
        template: &'m Template,
        window: u32,
        sequences: u32,
        alive: &'m (dyn Fn() + Sync),
    ) -> Result<Self, String> {
        let parameters = LlamaContextParams::default()
            .with_n_ctx(NonZeroU32::new(window * sequences))
            .with_n_batch(CHUNK as u32)
            .with_n_ubatch(CHUNK as u32)
            .with_n_seq_max(sequences)
            .with_kv_unified(false)
            .with_flash_attention_policy(NO_FLASH_ATTENTION)
            .with_n_threads(1)
            .with_n_threads_batch(1)
            .with_swa_full(true);
        let context = model
            .new_context(backend, parameters)
            .map_err(|error| {
                format!(
                    "no memory for a context of {sequences} x {window} tokens: {error}\nhint: each thread has one; try `--threads 1`"
                )
            })?;
        Ok(Self {
            model,
            template,
            context,
            batch: LlamaBatch::new(CHUNK, 1),
            window,
            streams: (0..sequences).map(|_| Stream::default()).collect(),
            rows: 1,
            clock: 0,
            alive,
        })
    }

    /// Of how many sequences at most tokens may be decoded in one batch: different ones, decoded alone and then in batches of several
    /// sizes, must have the same logits to the last bit. The context must be new, and is so again afterwards.
    pub(super) fn equal_rows(&mut self) -> usize {
        let all = self.streams.len();
        if all == 1 {
            return 1;
        }
        let vocabulary = self.model.n_vocab();
        let tokens: Vec<_> = (0..all as i32).map(|n| LlamaToken((101 + 7919 * n) % vocabulary)).collect();
        let alone: Vec<_> = tokens.iter().flat_map(|token| self.tried(&[*token])).collect();
        let equal = |engine: &mut Self, size: usize| engine.tried(&tokens[..size]) == alone[..size];
        let most = [all, all.min(FEW)].into_iter().find(|size| equal(self, *size));
        most.filter(|most| [2, 3, 5].into_iter().filter(|size| size < most).all(|size| equal(self, size)))
            .unwrap_or(1)
    }

    /// The bits of the logits of these first tokens of the streams, decoded in one batch.
    fn tried(&mut self, tokens: &[LlamaToken]) -> Vec<Vec<u32>> {
        self.batch.clear();
        for (stream, token) in tokens.iter().enumerate() {
            self.add(*token, 0, stream);
        }
        self.decode();
        let bits = |row: usize| {
            self.context.get_logits_ith(row as i32).iter().map(|logit| logit.to_bits()).collect()
        };
        let seen = (0..tokens.len()).map(bits).collect();
        for stream in 0..tokens.len() {
            self.cut(stream, 0);
        }
        seen
    }

    /// Writes tokens of so many sequences in one batch from now on.
    pub(super) fn write_in(&mut self, rows: usize) {
        self.rows = rows;
    }

    /// One row more of the batch, whose logits are wanted.
    fn add(&mut self, token: LlamaToken, position: usize, stream: usize) {
        self.batch
            .add(token, position as i32, &[stream as i32], true)
            .expect("a batch has room for a row of every stream");
    }

    /// Forgets what stands in a stream from a position on.
    fn cut(&mut self, stream: usize, from: usize) {
        self.context
            .kv_cache_seq_rm(stream as i32, Some(from as u32), None)
            .expect("streams and positions are small numbers");
    }

    /// Whether a call can be started now.
    pub(super) fn has_room(&self) -> bool {
        self.streams.iter().any(|stream| stream.slot.is_none())
    }

    pub(super) fn is_idle(&self) -> bool {
        self.streams.iter().all(|stream| stream.slot.is_none())
    }

    /// Does a call, or starts it: None means that [`Engine::step`] will give its outcome.
    pub(super) fn start(&mut self, id: u64, call: Call) -> Option<Outcome> {
        match call {
            Call::Generate { prompt, max_tokens, grammar, stop, sampling } => {
                match self.open(id, &prompt, max_tokens, grammar.as_deref(), stop, sampling) {
                    Ok(done) => done.map(Ok),
                    Err(error) => Some(Err(error)),
                }
            }
            Call::Score { prompt, continuations } => Some(self.score(&prompt, &continuations)),
            Call::Tokenize { text } => Some(Ok(Answer::Tokens(self.tokenize(&text)))),
            Call::Embed { .. } => Some(Err(CallError::Unsupported("embed: it is no embedder".to_owned()))),
        }
    }

    fn tokenize(&self, text: &str) -> Vec<u32> {
        self.plain(text).iter().map(|token| token.0 as u32).collect()
    }

    fn plain(&self, text: &str) -> Vec<LlamaToken> {
        self.template.data(&self.model.vocab(), text)
    }

    /// The free stream where most of a prompt stands already, or is put.
    fn place(&mut self, tokens: &[LlamaToken]) -> Result<usize, CallError> {
        let common = |stream: &Stream| stream.held.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let all = || self.streams.iter().enumerate();
        let free = all()
            .filter(|(_, stream)| stream.slot.is_none())
            .max_by_key(|(_, stream)| (common(stream), std::cmp::Reverse(stream.used)))
            .map(|(at, stream)| (at, common(stream)));
        let busy = all()
            .filter(|(_, stream)| stream.slot.is_some())
            .map(|(at, stream)| (at, common(stream)))
            .max_by_key(|(_, common)| *common);
        let oldest = all().filter(|(_, s)| s.slot.is_none()).min_by_key(|(_, s)| s.used).map(|(at, _)| at);
        let (mut at, spared) = free.expect("a call is started only where there is room");
        if let (Some((from, more)), Some(oldest)) = (busy, oldest)
            && more >= spared + WORTH_A_COPY
        {
            at = oldest;
            self.streams[at].held.clear();
            self.context.kv_cache_seq_cp(from as i32, at as i32, None, None).map_err(failed)?;
            self.streams[at].held = self.streams[from].held.clone();
        }
        self.clock += 1;
        self.streams[at].used = self.clock;
        Ok(at)
    }

    /// Makes a stream hold exactly the prompt `tokens`, and gives the logits of the rows that `wanted` names (ascending).
    fn hold(
        &mut self,
        stream: usize,
        tokens: &[LlamaToken],
        wanted: &[usize],
        row: impl FnMut(usize, &[f32]),
    ) -> Result<(), CallError> {
        let held = &mut self.streams[stream].held;
        let common = held.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        let shared = wanted.first().map_or(common, |first| common.min(*first)) / CHUNK * CHUNK;
        held.truncate(shared);
        self.decode_from(stream, tokens, shared, wanted, row)?;
        let whole = tokens.len() / CHUNK * CHUNK;
        self.streams[stream].held.extend(&tokens[shared..whole]);
        Ok(())
    }

    /// Decodes `tokens[from..]` behind what stands before them in the stream.
    fn decode_from(
        &mut self,
        stream: usize,
        tokens: &[LlamaToken],
        from: usize,
        wanted: &[usize],
        mut row: impl FnMut(usize, &[f32]),
    ) -> Result<(), CallError> {
        self.context.kv_cache_seq_rm(stream as i32, Some(from as u32), None).map_err(failed)?;
        let mut next = wanted.iter().copied().peekable();
        for start in (from..tokens.len()).step_by(CHUNK) {
            self.batch.clear();
            let mut rows = Vec::new();
            for index in start..tokens.len().min(start + CHUNK) {
                let logits = next.next_if_eq(&index).is_some();
                if logits {
                    rows.push(index);
                }
                self.batch.add(tokens[index], index as i32, &[stream as i32], logits).map_err(failed)?;
            }
            self.decode();
            for index in rows {
                row(index, self.context.get_logits_ith((index - start) as i32));
            }
        }
        Ok(())
    }

    /// What the streams hold after a failure is not known, and others are at work in them: the worker ends, and the
    /// program asks each of its calls again in a worker of its own.
    fn decode(&mut self) {
        (self.alive)();
        if let Err(error) = self.context.decode(&mut self.batch) {
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("error: llama.cpp could not decode: {error}\n").as_bytes(),
            );
            std::process::exit(1);
        }
    }

    fn score(&mut self, prompt: &Prompt, continuations: &[String]) -> Outcome {
        let answers: Vec<Vec<LlamaToken>> = continuations.iter().map(|text| self.plain(text)).collect();
        let reserve = answers.iter().map(Vec::len).max().unwrap_or(0) as u32;
        let asked = template::tokens(&self.model.vocab(), self.template, prompt, self.window, reserve)?;
        let tokens = asked.tokens;
        if tokens.is_empty() {
            return Err(CallError::Failed("the prompt is empty".to_owned()));
        }

        // Row i tells the likelihood of token i + 1. The first token of all has none.
        let mut wanted: Vec<usize> =
            asked.scored.iter().flat_map(|range| range.start.max(1) - 1..range.end.max(1) - 1).collect();
        if !answers.is_empty() && wanted.last() != Some(&(tokens.len() - 1)) {
            wanted.push(tokens.len() - 1);
        }
        let mut inside = vec![0.0; tokens.len()];
        let mut last = Vec::new();
        let stream = self.place(&tokens)?;
        self.hold(stream, &tokens, &wanted, |row, logits| {
            if row + 1 < tokens.len() {
                inside[row + 1] = logprob(logits, tokens[row + 1]);
            } else {
                last = logits.to_vec();
            }
        })?;
        let parts = asked
            .scored
            .iter()
            .map(|range| {
                let first = range.start.max(1).min(range.end);
                let values: Vec<f64> = inside[first..range.end].to_vec();
                let skipped = first - range.start;
                self.token_scores(&tokens[range.clone()], skipped, &values)
            })
            .collect();

        let mut scored = Vec::with_capacity(answers.len());
        for answer in &answers {
            let mut values = Vec::with_capacity(answer.len());
            if let Some(first) = answer.first() {
                values.push(logprob(&last, *first));
            }
            if answer.len() > 1 {
                let mut all = tokens.clone();
                all.extend(&answer[..answer.len() - 1]);
                let wanted: Vec<usize> = (tokens.len()..all.len()).collect();
                self.decode_from(stream, &all, tokens.len(), &wanted, |row, logits| {
                    values.push(logprob(logits, answer[row + 1 - tokens.len()]));
                })?;
            }
            scored.push(self.token_scores(answer, 0, &values));
        }
        let parts: Vec<Vec<TokenScore>> = parts;
        if parts.iter().chain(&scored).flatten().any(|token| token.logprob.is_nan()) {
            return Err(CallError::Failed("the weights give no numbers: the file is broken".to_owned()));
        }
        Ok(Answer::Scores(Scores {
            parts,
            continuations: scored,
            prompt_tokens: tokens.len() as u32,
            cut_tokens: asked.cut,
        }))
    }

    fn token_scores(&self, tokens: &[LlamaToken], skipped: usize, values: &[f64]) -> Vec<TokenScore> {
        let mut end = 0;
        let mut scores = Vec::with_capacity(values.len());
        for (index, token) in tokens.iter().enumerate() {
            end += piece(self.model, *token).len() as u32;
            if index >= skipped {
                scores.push(TokenScore { end, logprob: values[index - skipped] });
            }
        }
        scores
    }

    /// Prefills a prompt and chooses its first token. The text is given if that already ends it.
    fn open(
        &mut self,
        id: u64,
        prompt: &Prompt,
        max_tokens: u32,
        grammar: Option<&str>,
        stop: Vec<String>,
        sampling: Option<Sampling>,
    ) -> Result<Option<Answer>, CallError> {
        let asked = template::tokens(&self.model.vocab(), self.template, prompt, self.window, max_tokens)?;
        let tokens = asked.tokens;
        if tokens.is_empty() {
            return Err(CallError::Failed("the prompt is empty".to_owned()));
        }
        let mut slot = Slot {
            id,
            prompt: tokens.len() as u32,
            cut: asked.cut,
            max_tokens,
            stop,
            choose: Chooser::new(self.model, grammar, sampling)?,
            bytes: Vec::new(),
            made: Vec::new(),
            repeats: Repeats::default(),
        };
        let mut last = Vec::new();
        let stream = self.place(&tokens)?;
        self.hold(stream, &tokens, &[tokens.len() - 1], |_, logits| last = logits.to_vec())?;
        if last.iter().any(|logit| logit.is_nan()) {
            return Err(CallError::Failed("the weights give no numbers: the file is broken".to_owned()));
        }
        if let Some(finish) = advance(self.model, &mut slot, &last) {
            return Ok(Some(slot.text(finish)));
        }
        self.streams[stream].slot = Some(slot);
        Ok(None)
    }

    /// One more token for every sequence: those that ended, with what they were started for.
    pub(super) fn step(&mut self) -> Vec<(u64, Outcome)> {
        let mut ended = Vec::new();
        let active: Vec<bool> = self.streams.iter().map(|stream| stream.slot.is_some()).collect();
        for streams in batches(self.rows, &active) {
            self.decode_newest(streams.clone());
            for (row, at) in streams.enumerate() {
                let mut slot = self.streams[at].slot.take().expect("it is at work");
                match advance(self.model, &mut slot, self.context.get_logits_ith(row as i32)) {
                    Some(finish) => ended.push((slot.id, Ok(slot.text(finish)))),
                    None => self.streams[at].slot = Some(slot),
                }
            }
        }
        ended
    }

    /// Decodes the newest token of each of these streams, which are all at work, in one batch (rule 4).
    fn decode_newest(&mut self, streams: Range<usize>) {
        self.batch.clear();
        for at in streams {
            let slot = self.streams[at].slot.as_ref().expect("it is at work");
            let newest = *slot.made.last().expect("a sequence is opened with its first token");
            self.add(newest, slot.prompt as usize + slot.made.len() - 1, at);
        }
        self.decode();
    }
}

/// The streams whose newest tokens are decoded together, at most so many: in one batch llama.cpp takes only neighbours.
fn batches(rows: usize, active: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in (0..active.len()).filter(|at| active[*at]) {
        match runs.last_mut() {
            Some(run) if run.end == at => run.end += 1,
            _ => runs.push(at..at + 1),
        }
    }
    // Parts of about the same size.
    let parts = |run: Range<usize>| {
        let most = if run.len().min(rows) < WORTH_A_BATCH { 1 } else { rows };
        let parts = run.len().div_ceil(most);
        let cut = move |part: usize| run.start + run.len() * part / parts;
        (0..parts).map(move |part| cut(part)..cut(part + 1)).collect::<Vec<_>>()
    };
    runs.into_iter().flat_map(parts).collect()
}

#[cfg(test)]
mod tests;
