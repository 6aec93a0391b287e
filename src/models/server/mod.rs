//! A model on a server with an OpenAI-compatible API, at a URL that the user gave. Never a default: text of the
//! logs goes to that URL.
//!
//! What a call becomes depends on who the server says it is ([`Kind`]):
//!
//! | | llama-server | vLLM | any other |
//! | --- | --- | --- | --- |
//! | prompts are sent as | token ids | text | text |
//! | control tokens spelled out in data | are text | are disarmed | are disarmed |
//! | generate | `/completion` | `/v1/chat/completions`, `/v1/completions` | as vLLM |
//! | `prefill` of a chat prompt | continued | continued | asked for in words |
//! | `grammar` | yes | yes | unsupported |
//! | score | forced by a grammar of tokens | plain prompts, by `echo` | as vLLM |
//! | embed | `/v1/embeddings` | as llama-server | as llama-server |
//! | tokenize | yes | text without look-alikes | unsupported |
//! | too long a prompt | cut | cut | refused, where the server refuses it |
//!
//! With llama-server a chat prompt is the server's own template (`/apply-template`) around the tokens of each text,
//! as `llama` does it in process: text of a log cannot become a control token, and a cut is at a token. The other
//! servers read text: there [`disarm`](super::disarm) takes the power out of what looks like a control token,
//! and answers get their spelling back.
//!
//! No server stops an answer that repeats itself: that one ends with `Finish::Length`.
//!
//! An answer is only as repeatable as the server. Greedy decoding there is repeatable as long as the server
//! computes the same sums in the same order: requests that it batches together, and prefixes that it has
//! cached, change the last digits and so, rarely, a token. (llama-server is asked not to use its cache.)

use std::collections::HashMap;
use std::env;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Value, json};

use super::disarm::disarm;
use super::http::{Client, Effort, Failure, base, shown};
use super::{Answer, Call, CallError, Card, Model, Outcome, Sampling};
use text::Dialect;

#[cfg(test)]
mod tests;
mod text;
mod tokens;

/// How llama-server reads a text.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    /// With the tokens that open a prompt.
    opening: bool,
    /// Control tokens spelled out in it are control tokens.
    control: bool,
}

impl Reading {
    pub(super) const DATA: Self = Self { opening: false, control: false };
    pub(super) const OPENING: Self = Self { opening: true, control: false };
    const TEMPLATE: Self = Self { opening: false, control: true };
}

/// No wait is longer: a week.
const LONGEST_WAIT: Duration = Duration::from_secs(7 * 24 * 3600);
/// A server that does not say who it is for so long is not there.
const LONGEST_GREETING: Duration = Duration::from_secs(60);

/// Which server, and how patiently it is asked. All times in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// `http://HOST:PORT`, with or without `/v1`. No password, no query.
    pub url: String,
    /// The model's name on the server; None where it has one only.
    pub model: Option<String>,
    /// The environment variable that holds the API key. The key is never shown, nor part of the card.
    pub api_key_env: Option<String>,
    /// What the server is; None asks it.
    pub kind: Option<Kind>,
    /// Tokens of prompt and answer together; None asks the server. The smaller counts.
    pub window: Option<u32>,
    /// Calls at work at one time, over all threads; each has at most one request in flight.
    pub concurrency: usize,
    /// A request is given up when no byte comes for so long. What is written comes token by token (and llama-server
    /// tells of the prompt that it reads), so this is no limit to how long an answer takes.
    pub timeout: f64,
    /// For one call with all its requests, tries and waits, however much comes.
    pub deadline: f64,
    /// Further tries of a request (the head of `http` says of which).
    pub retries: u32,
    /// The longest wait before the first retry; it doubles with each.
    pub backoff: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            url: String::new(),
            model: None,
            api_key_env: None,
            kind: None,
            window: None,
            concurrency: 4,
            timeout: 120.0,
            deadline: 900.0,
            retries: 4,
            backoff: 0.5,
        }
    }
}

impl Options {
    /// Whether a server can be asked like this.
    ///
    /// # Errors
    /// The field that is wrong, and why.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        base(&self.url).map_err(|why| ("url", why))?;
        for (key, value) in
            [("timeout", self.timeout), ("deadline", self.deadline), ("backoff", self.backoff)]
        {
            if !(1e-9..).contains(&value) {
                return Err((key, format!("`{key}` must be more than 0 seconds, not {value}")));
            }
            if value > LONGEST_WAIT.as_secs_f64() {
                return Err((key, format!("`{key}` must be at most {} seconds", LONGEST_WAIT.as_secs())));
            }
        }
        match self.concurrency {
            0 => Err(("concurrency", "`concurrency` must be at least 1".to_owned())),
            _ => Ok(()),
        }
    }
}

/// The servers whose own ways are known.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// llama.cpp's, with one model (one that routes between many is `OpenAi`).
    LlamaServer,
    /// vLLM's.
    Vllm,
    /// Any other, by what OpenAI's API says and no more.
    #[serde(rename = "openai")]
    OpenAi,
}

/// A model on a server.
pub struct Server {
    card: Card,
    client: Client,
    kind: Kind,
    model: String,
    deadline: Duration,
    concurrency: usize,
    permits: Permits,
    /// llama-server: the tokens that open every prompt (BOS, if the model has one).
    opening: Vec<u32>,
    /// llama-server: the chat template's tokens around the texts, without and with a system prompt.
    frames: Mutex<HashMap<bool, Vec<Vec<u32>>>>,
    /// Of one that reads text.
    dialect: &'static Dialect,
    /// Why it gives no log-likelihoods, once an answer has shown that it never will.
    no_echo: OnceLock<String>,
}

/// `/v1/models`.
#[derive(Deserialize)]
struct Listing {
    data: Vec<Listed>,
}

#[derive(Clone, Default, Deserialize)]
struct Listed {
    id: String,
    #[serde(default)]
    aliases: Vec<String>,
    #[serde(default)]
    owned_by: String,
    max_model_len: Option<u32>,
    root: Option<String>,
    #[serde(default)]
    meta: Value,
}

/// llama-server's `/props`.
#[derive(Deserialize)]
struct Props {
    default_generation_settings: Settings,
    model_path: String,
    build_info: String,
    #[serde(default)]
    chat_template: String,
}

#[derive(Deserialize)]
struct Settings {
    n_ctx: u32,
}

/// vLLM's `/version`.
#[derive(Deserialize)]
struct Version {
    version: String,
}

/// What a server says of itself.
struct Identity {
    kind: Kind,
    model: String,
    about: String,
    window: Option<u32>,
    dialect: &'static Dialect,
}

impl Server {
    /// Asks the server who it is; it must be there.
    ///
    /// # Errors
    /// Options that make no sense, no server, or one that does not say what it has.
    pub fn new(options: Options) -> Result<Self, CallError> {
        let fail = |what: &str| CallError::Failed(format!("server {}: {what}", shown(&options.url)));
        options.check().map_err(|(_, why)| fail(&why))?;
        let base = base(&options.url).map_err(|why| fail(&why))?;
        let [timeout, deadline, backoff] =
            [options.timeout, options.deadline, options.backoff].map(Duration::from_secs_f64);
        let key = options.api_key_env.as_deref().map(key).transpose().map_err(|what| fail(&what))?;
        let client = Client::new(base.clone(), key, options.retries, timeout, backoff, options.concurrency);
        let mut effort = Effort::new(deadline.min(LONGEST_GREETING), [0; 32]);
        let identity = identify(&client, &options, &mut effort)?;
        let window = match (options.window, identity.window) {
            (Some(a), Some(b)) => a.min(b),
            (Some(window), None) | (None, Some(window)) => window,
            (None, None) => return Err(fail("it does not say how many tokens it takes: set `window`")),
        };
        let Identity { kind, model, about, dialect, .. } = identity;
        let mut server = Self {
            card: Card {
                name: format!("{base}#{model}"),
                identity: format!("server {base}, model {model}, {about}, window {window}"),
                window,
            },
            client,
            kind,
            model,
            deadline,
            concurrency: options.concurrency,
            permits: Permits::new(options.concurrency),
            opening: Vec::new(),
            frames: Mutex::default(),
            dialect,
            no_echo: OnceLock::new(),
        };
        if kind == Kind::LlamaServer {
            server.opening = server.ids("", Reading::OPENING, &mut effort)?;
        }
        Ok(server)
    }

    fn call(&self, call: &Call) -> Outcome {
        let seed = blake3::hash(&serde_json::to_vec(call).expect("a call is plain data"));
        let effort = &mut Effort::new(self.deadline, seed.into());
        match (call, self.kind) {
            (Call::Generate { prompt, max_tokens, grammar, stop, sampling }, kind) => {
                let wish = Wish { max_tokens: *max_tokens, grammar: grammar.as_deref(), stop, sampling };
                match kind {
                    Kind::LlamaServer => self.generate_tokens(prompt, &wish, effort),
                    Kind::Vllm | Kind::OpenAi => self.generate_text(prompt, &wish, effort),
                }
                .map(Answer::Text)
            }
            (Call::Score { prompt, continuations }, kind) => match kind {
                Kind::LlamaServer => self.score_tokens(prompt, continuations, effort),
                Kind::Vllm | Kind::OpenAi => self.score_text(prompt, continuations, effort),
            }
            .map(Answer::Scores),
            (Call::Embed { text }, _) => {
                self.embed(text, effort).map(|values| Answer::Vector { values, cut_tokens: 0 })
            }
            (Call::Tokenize { text }, Kind::LlamaServer) => {
                self.ids(text, Reading::DATA, effort).map(Answer::Tokens)
            }
            (Call::Tokenize { text }, Kind::Vllm) if *disarm(text) == **text => {
                self.tokens_vllm(text, effort).map(Answer::Tokens)
            }
            (Call::Tokenize { .. }, Kind::Vllm) => unsupported("tokenize what looks like a control token"),
            (Call::Tokenize { .. }, Kind::OpenAi) => unsupported("tokenize"),
        }
    }

    fn embed(&self, text: &str, effort: &mut Effort) -> Result<Vec<f32>, CallError> {
        #[derive(Deserialize)]
        struct Embeddings {
            data: [Embedding; 1],
        }
        #[derive(Deserialize)]
        struct Embedding {
            embedding: Vec<f32>,
        }
        let input = match self.kind {
            Kind::LlamaServer => json!(self.ids(text, Reading::OPENING, effort)?),
            Kind::Vllm | Kind::OpenAi => json!(disarm(text)),
        };
        let body = json!({"model": self.model, "input": input, "encoding_format": "float"});
        let Embeddings { data: [Embedding { embedding }] } =
            self.client.post("/v1/embeddings", &body, effort)?;
        let length = embedding.iter().map(|x| f64::from(*x).powi(2)).sum::<f64>().sqrt();
        if !length.is_normal() {
            return Err(CallError::Failed(format!("the server's vector has the length {length}")));
        }
        Ok(embedding.iter().map(|x| (f64::from(*x) / length) as f32).collect())
    }
}

impl Model for Server {
    fn card(&self) -> &Card {
        &self.card
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        let next = AtomicUsize::new(0);
        let work = || {
            let mut done = Vec::new();
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(call) = calls.get(at) else { return done };
                let _permit = self.permits.take();
                done.push((at, self.call(call)));
            }
        };
        let mut outcomes: Vec<(usize, Outcome)> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.concurrency.min(calls.len())).map(|_| scope.spawn(work)).collect();
            workers.into_iter().flat_map(|w| w.join().expect("a worker does not panic")).collect()
        });
        outcomes.sort_by_key(|(at, _)| *at);
        outcomes.into_iter().map(|(_, outcome)| outcome).collect()
    }
}

/// The answer of `/tokenize`.
#[derive(Deserialize)]
struct Tokens {
    tokens: Vec<u32>,
}

/// How a generated text is to be.
struct Wish<'a> {
    max_tokens: u32,
    grammar: Option<&'a str>,
    stop: &'a [String],
    sampling: &'a Option<Sampling>,
}

// Who the server is.

fn identify(client: &Client, options: &Options, effort: &mut Effort) -> Result<Identity, CallError> {
    let listing: Listing = match client.get("/v1/models", effort) {
        // A server without the list is known by the user's words alone.
        Err(Failure { status: Some(404 | 405 | 501), .. }) if options.model.is_some() => {
            Listing { data: Vec::new() }
        }
        other => other?,
    };
    let names = || listing.data.iter().map(|m| m.id.as_str()).collect::<Vec<_>>().join(", ");
    let model = match &options.model {
        Some(model) => model.clone(),
        None if listing.data.len() == 1 => listing.data[0].id.clone(),
        None => {
            let what =
                format!("the server has {} models: set `model` to one of: {}", listing.data.len(), names());
            return Err(CallError::Failed(what));
        }
    };
    let listed = listing.data.iter().find(|m| m.id == model || m.aliases.contains(&model));
    if listed.is_none() && !listing.data.is_empty() {
        return Err(CallError::Failed(format!("the server has no model `{model}`, but: {}", names())));
    }
    let Listed { owned_by, meta, max_model_len, root, .. } = listed.cloned().unwrap_or_default();
    let window = max_model_len.filter(|&tokens| tokens > 0);
    let identity =
        |kind, about, window, dialect| Ok(Identity { kind, model: model.clone(), about, window, dialect });
    let says_llama = options.kind == Some(Kind::LlamaServer);
    if says_llama || (options.kind.is_none() && owned_by == "llamacpp") {
        let props: Props = client.get("/props", effort)?;
        // A router between many models has none of its own.
        if says_llama || props.model_path != "none" {
            let about = format!(
                "llama-server {}, weights {} ({}), template {}",
                props.build_info,
                props.model_path,
                meta,
                &blake3::hash(props.chat_template.as_bytes()).to_hex()[..16]
            );
            return identity(
                Kind::LlamaServer,
                about,
                Some(props.default_generation_settings.n_ctx),
                &text::OPENAI,
            );
        }
    }
    if options.kind == Some(Kind::Vllm) || (options.kind.is_none() && owned_by == "vllm") {
        let Version { version } = client.get("/version", effort)?;
        let about = format!("vLLM {version}, weights {}", root.unwrap_or_default());
        let mut numbers = version.split('.').map(|n| n.parse::<u32>().unwrap_or(0));
        let number = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        let dialect = if number >= (0, 11) { &text::VLLM } else { &text::OLDER_VLLM };
        return identity(Kind::Vllm, about, window, dialect);
    }
    identity(Kind::OpenAi, format!("of `{owned_by}`"), window, &text::OPENAI)
}

fn key(variable: &str) -> Result<String, String> {
    match env::var(variable) {
        Ok(key) if !key.is_empty() && key.bytes().all(|b| b.is_ascii_graphic()) => Ok(key),
        Ok(_) => Err(format!("the environment variable {variable} holds no key that can be sent")),
        Err(_) => Err(format!("the environment variable {variable} is not set")),
    }
}

fn unsupported<T>(what: &str) -> Result<T, CallError> {
    Err(CallError::Unsupported(what.to_owned()))
}

fn sampling(body: &mut Value, sampling: &Option<Sampling>) {
    match sampling {
        None => body["temperature"] = json!(0),
        Some(Sampling { temperature, top_p, seed }) => {
            body["temperature"] = json!(temperature);
            body["top_p"] = json!(top_p);
            body["seed"] = json!(seed);
        }
    }
}

/// Places at work. Fair enough: whoever wakes first.
struct Permits {
    free: Mutex<usize>,
    freed: Condvar,
}

struct Permit<'a>(&'a Permits);

impl Permits {
    fn new(free: usize) -> Self {
        Self { free: Mutex::new(free), freed: Condvar::new() }
    }

    fn take(&self) -> Permit<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let mut free = self.freed.wait_while(free, |free| *free == 0).unwrap_or_else(PoisonError::into_inner);
        *free -= 1;
        Permit(self)
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        *self.0.free.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.0.freed.notify_one();
    }
}
