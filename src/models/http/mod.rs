//! JSON over HTTP with a server that may hang, drop, refuse, or answer garbage: every request ends in bounded
//! time and space, and is tried again where that can help.
//!
//! Tried again: no connection (within 10 seconds), a dropped body, 408, 429, 500 to 599 (but 501 and 504), and an
//! answer that is not the JSON it should be. Not tried again: all other states, redirects among them, and silence: who
//! says nothing for `timeout` (or is a gateway to such a one, 504) would be asked twice for the same work. The wait
//! before the nth retry is drawn evenly from 0 to `backoff x 2^(n-1)` (full jitter; the draw is seeded by the call, so
//! that it is the same in every run), or is what the server's `Retry-After` says; neither is longer than a minute.
//!
//! After a request that got no answer at all in all its tries, requests are tried only once, and given up after 30
//! seconds of silence, until one succeeds: a dead server costs one patience, not one for every call.
//!
//! What takes long is asked for as a stream of events, one a token: then a server that works is never silent for long,
//! whatever the answer's length, and only `Effort`'s limit ends what trickles on.

#[cfg(test)]
pub(super) mod stub;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::CallError;

const LONGEST_WAIT: Duration = Duration::from_secs(60);
const LONGEST_CONNECTION: Duration = Duration::from_secs(10);
/// Silence of a server that is taken for dead.
const LONGEST_SILENCE_OF_THE_DEAD: Duration = Duration::from_secs(30);
/// No answer that is asked for is nearly as long.
const LARGEST_BODY: u64 = 64 << 20;
/// Characters of a server's message that are kept.
const LONGEST_MESSAGE: usize = 300;

/// One server.
pub(super) struct Client {
    agent: ureq::Agent,
    /// Without a slash at its end.
    base: String,
    key: Option<String>,
    retries: u32,
    /// Longest silence.
    timeout: Duration,
    backoff: Duration,
    /// The last request that ended got no answer in all its tries.
    down: AtomicBool,
}

/// The time and the dice of one call, over all its requests.
pub(super) struct Effort {
    begin: Instant,
    limit: Duration,
    rng: ChaCha8Rng,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(super) struct Failure {
    /// The state that the server answered with, if it did.
    pub(super) status: Option<u16>,
    pub(super) error: CallError,
    retry: Retry,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Retry {
    Never,
    Backoff,
    After(Duration),
}

impl From<Failure> for CallError {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl Effort {
    /// Begins now and ends after `limit`.
    pub(super) fn new(limit: Duration, seed: [u8; 32]) -> Self {
        Self { begin: Instant::now(), limit, rng: ChaCha8Rng::from_seed(seed) }
    }

    fn left(&self) -> Duration {
        self.limit.saturating_sub(self.begin.elapsed())
    }

    fn timeout(&self) -> CallError {
        CallError::Timeout(self.begin.elapsed().as_secs_f64().ceil() as u64)
    }
}

impl Client {
    pub(super) fn new(
        base: String,
        key: Option<String>,
        retries: u32,
        timeout: Duration,
        backoff: Duration,
        connections: usize,
    ) -> Self {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            // The URL is where requests go: neither a redirect nor the environment's proxy moves them.
            .max_redirects(0)
            .proxy(None)
            .max_idle_connections(connections)
            .max_idle_connections_per_host(connections)
            .timeout_connect(Some(LONGEST_CONNECTION))
            // Shorter than servers keep an idle connection open, so that none is met closed.
            .max_idle_age(Duration::from_secs(3))
            .build();
        Self { agent: config.into(), base, key, retries, timeout, backoff, down: AtomicBool::new(false) }
    }

    pub(super) fn get<T: DeserializeOwned>(&self, path: &str, effort: &mut Effort) -> Result<T, Failure> {
        self.request(path, None, effort, &whole)
    }

    pub(super) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &Value,
        effort: &mut Effort,
    ) -> Result<T, Failure> {
        self.request(path, Some(body), effort, &whole)
    }

    /// Asks for a stream of events and joins them; None is a stream without its end. A server that knows no streams
    /// answers with one event.
    pub(super) fn stream<E: DeserializeOwned, T>(
        &self,
        path: &str,
        mut body: Value,
        effort: &mut Effort,
        join: impl Fn(Vec<E>) -> Option<T>,
    ) -> Result<T, Failure> {
        body["stream"] = Value::Bool(true);
        self.request(path, Some(&body), effort, &|events| {
            let events: Vec<E> = events.iter().map(|e| serde_json::from_str(e)).collect::<Result<_, _>>()?;
            join(events).ok_or_else(|| serde::de::Error::custom("it breaks off"))
        })
    }

    fn request<T>(
        &self,
        path: &str,
        body: Option<&Value>,
        effort: &mut Effort,
        read: &dyn Fn(&[&str]) -> serde_json::Result<T>,
    ) -> Result<T, Failure> {
        let tries = if self.down.load(Ordering::Relaxed) { 1 } else { self.retries.saturating_add(1) };
        for attempt in 1.. {
            let failure = match self.once(path, body, effort, read) {
                Ok(answer) => {
                    self.down.store(false, Ordering::Relaxed);
                    return Ok(answer);
                }
                Err(failure) => failure,
            };
            let wait = match failure.retry {
                Retry::Never => {
                    if matches!(failure.error, CallError::Timeout(_)) {
                        self.down.store(true, Ordering::Relaxed);
                    }
                    return Err(failure);
                }
                Retry::After(wait) => wait.min(LONGEST_WAIT),
                Retry::Backoff => {
                    let longest = self.backoff.saturating_mul(1 << (attempt - 1).min(20)).min(LONGEST_WAIT);
                    longest.mul_f64(effort.rng.random::<f64>())
                }
            };
            if attempt >= tries || wait >= effort.left() {
                self.down.store(failure.status.is_none(), Ordering::Relaxed);
                return Err(match failure.error {
                    CallError::Failed(why) if attempt > 1 => Failure {
                        error: CallError::Failed(format!("{why} (the last of {attempt} tries)")),
                        ..failure
                    },
                    _ => failure,
                });
            }
            std::thread::sleep(wait);
        }
        unreachable!("the loop ends by a return")
    }

    fn once<T>(
        &self,
        path: &str,
        body: Option<&Value>,
        effort: &Effort,
        read: &dyn Fn(&[&str]) -> serde_json::Result<T>,
    ) -> Result<T, Failure> {
        let url = format!("{}{path}", self.base);
        // Zero would be no limit.
        let limit = effort.left().max(Duration::from_millis(1));
        let silence = match self.down.load(Ordering::Relaxed) {
            true => self.timeout.min(LONGEST_SILENCE_OF_THE_DEAD),
            false => self.timeout,
        };
        let key = self.key.as_ref().map(|key| format!("Bearer {key}"));
        let sent = match body {
            None => {
                let request = self.agent.get(&url).config().timeout_global(Some(limit));
                let mut request =
                    request.timeout_per_read(Some(silence)).timeout_per_write(Some(silence)).build();
                if let Some(key) = &key {
                    request = request.header("authorization", key);
                }
                request.call()
            }
            Some(body) => {
                let request = self.agent.post(&url).config().timeout_global(Some(limit));
                let request =
                    request.timeout_per_read(Some(silence)).timeout_per_write(Some(silence)).build();
                let mut request = request.header("content-type", "application/json");
                if let Some(key) = &key {
                    request = request.header("authorization", key);
                }
                request.send(body.to_string())
            }
        };
        let mut response = sent.map_err(|e| self.broken(None, &e, effort))?;
        let status = response.status().as_u16();
        let header = |name: &str| response.headers().get(name).and_then(|v| v.to_str().ok());
        let location = header("location").map(str::to_owned);
        let is_stream = header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"));
        let after = header("retry-after").and_then(|v| v.trim().parse().ok()).map(Duration::from_secs);
        let bytes = match response.body_mut().with_config().limit(LARGEST_BODY).read_to_vec() {
            Ok(bytes) => bytes,
            Err(e) => return Err(self.broken(Some(status), &e, effort)),
        };
        let text = String::from_utf8_lossy(&bytes);
        let events = if is_stream { events(&text) } else { vec![&*text] };
        // What goes wrong after the first event of a stream has no state of its own.
        let late = events.iter().find(|e| is_stream && error_of(e).is_some());
        let status = if late.is_some() { 500 } else { status };
        let text = late.copied().unwrap_or(&text);
        match status {
            200..300 => read(&events).map_err(|e| Failure {
                status: Some(status),
                error: self
                    .failed(&format!("the server's answer to {path} is not what it should be ({e}): {text}")),
                retry: Retry::Backoff,
            }),
            300..400 => {
                let to = location.unwrap_or_else(|| "nowhere".to_owned());
                let error =
                    self.failed(&format!("the server redirects {path} to {to}: give that URL itself"));
                Err(Failure { status: Some(status), error, retry: Retry::Never })
            }
            _ => {
                let retry = match status {
                    408 | 429 | 500 | 502 | 503 | 505.. => after.map_or(Retry::Backoff, Retry::After),
                    _ => Retry::Never,
                };
                let (error, final_word) = self.refusal(status, path, text);
                Err(Failure {
                    status: Some(status),
                    error,
                    retry: if final_word { Retry::Never } else { retry },
                })
            }
        }
    }

    /// No whole answer came.
    fn broken(&self, status: Option<u16>, error: &ureq::Error, effort: &Effort) -> Failure {
        use ureq::{Error, Timeout};
        let (error, retry) = match error {
            Error::Timeout(Timeout::Connect | Timeout::Resolve) => (effort.timeout(), Retry::Backoff),
            Error::Timeout(_) => (effort.timeout(), Retry::Never),
            Error::BodyExceedsLimit(limit) => {
                (self.failed(&format!("the server's answer is longer than {limit} bytes")), Retry::Never)
            }
            Error::BadUri(_) | Error::Http(_) | Error::Tls(_) => {
                (self.failed(&format!("no request to {}: {error}", self.base)), Retry::Never)
            }
            _ => (self.failed(&format!("no answer from {}: {error}", self.base)), Retry::Backoff),
        };
        Failure { status, error, retry }
    }

    /// What a server says with a state of 400 or more, and whether that is its last word.
    fn refusal(&self, status: u16, path: &str, body: &str) -> (CallError, bool) {
        let error = &error_of(body).or_else(|| serde_json::from_str(body).ok()).unwrap_or_default();
        let message = match error {
            Value::String(message) => message,
            error => error["message"].as_str().unwrap_or(body),
        };
        if let Some((tokens, window)) = too_long(error, message) {
            return (CallError::TooLong { tokens, window }, true);
        }
        if status == 400 && message.to_lowercase().contains("grammar") {
            return (CallError::Grammar(self.line(message)), true);
        }
        if status == 501 {
            let what = format!("do this on its server, which says: {message}");
            return (CallError::Unsupported(self.line(&what)), true);
        }
        (self.failed(&format!("the server answers {path} with state {status}: {message}")), false)
    }

    fn failed(&self, message: &str) -> CallError {
        CallError::Failed(self.line(message))
    }

    /// One line of bounded length, without the key that a server may repeat.
    fn line(&self, message: &str) -> String {
        let message = match &self.key {
            Some(key) => message.replace(key.as_str(), "***"),
            None => message.to_owned(),
        };
        let words: Vec<&str> =
            message.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty()).collect();
        let line = words.join(" ");
        match line.char_indices().nth(LONGEST_MESSAGE) {
            Some((at, _)) => format!("{}...", &line[..at]),
            None => line,
        }
    }
}

/// An answer of one value.
fn whole<T: DeserializeOwned>(events: &[&str]) -> serde_json::Result<T> {
    serde_json::from_str(events.first().unwrap_or(&""))
}

/// The data of a stream's events, one line each, as the servers of language models send them.
fn events(text: &str) -> Vec<&str> {
    let data = text.lines().filter_map(|line| line.strip_prefix("data:")).map(str::trim);
    data.filter(|event| !event.is_empty() && *event != "[DONE]").collect()
}

/// What a JSON answer says went wrong.
fn error_of(body: &str) -> Option<Value> {
    let json: Value = serde_json::from_str(body).ok()?;
    ["error", "detail"].iter().map(|k| &json[k]).find(|v| !v.is_null()).cloned()
}

/// Tokens of the request and of the window, if that is what the server complains of.
///
/// llama-server gives both as numbers; vLLM and OpenAI in a sentence: "maximum context length is 4096 tokens.
/// However, you requested 5000 tokens (...)".
fn too_long(error: &Value, message: &str) -> Option<(u32, u32)> {
    let number = |name: &str| error[name].as_u64().and_then(|n| u32::try_from(n).ok());
    if let (Some(tokens), Some(window)) = (number("n_prompt_tokens"), number("n_ctx")) {
        return Some((tokens, window));
    }
    let numbers: Vec<u32> =
        message.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let lower = message.to_lowercase();
    if lower.contains("maximum context length") {
        let window = *numbers.first()?;
        return numbers.iter().copied().find(|n| *n > window).map(|tokens| (tokens, window));
    }
    // llama-server, for what must fit one batch: "input (600 tokens) is too large to process. increase the physical
    // batch size (current batch size: 512)".
    match numbers[..] {
        [tokens, batch] if lower.contains("too large to process") => Some((tokens, batch)),
        _ => None,
    }
}

/// A file's bytes, and how many they will be where that is said. Unlike requests to a server of the user's it follows
/// redirects and the environment's proxy, trusts whom the system trusts, and is never tried again.
pub(super) fn download(url: &str, patience: Duration) -> anyhow::Result<(impl Read + use<>, Option<u64>)> {
    let short = Some(patience.min(Duration::from_secs(30)));
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_resolve(short)
        .timeout_connect(short)
        .timeout_recv_response(short)
        .timeout_per_read(short)
        .tls_config(
            ureq::tls::TlsConfig::builder().root_certs(ureq::tls::RootCerts::PlatformVerifier).build(),
        )
        .user_agent(concat!("trajpress/", env!("CARGO_PKG_VERSION")))
        .build()
        .into();
    let answer = agent.get(url).call().map_err(|error| {
        let hint = match error {
            ureq::Error::StatusCode(401 | 403) => {
                "its terms must be accepted: get the file with a browser and name its path in a file for --models"
            }
            ureq::Error::StatusCode(404) => "the file was moved or removed",
            ureq::Error::StatusCode(_) => "try again later",
            _ => "no way to the hub; HF_ENDPOINT names a mirror, HTTPS_PROXY a proxy",
        };
        anyhow::anyhow!("{url}: {error}\nhint: {hint}")
    })?;
    let body = answer.into_body();
    let length = body.content_length();
    Ok((body.into_reader(), length))
}

/// The URL up to `/v1`.
pub(super) fn base(url: &str) -> Result<String, String> {
    let uri: ureq::http::Uri = url.parse().map_err(|e| format!("not a URL: {e}"))?;
    let host = uri.authority().map_or("", |a| a.as_str());
    if !["http", "https"].contains(&uri.scheme_str().unwrap_or("")) || host.is_empty() {
        return Err("the URL must begin with http:// or https:// and a host".to_owned());
    }
    if host.contains('@') {
        return Err("the URL holds a password: name a variable with it in `api_key_env`".to_owned());
    }
    if url.contains(['?', '#']) {
        return Err("the URL must end with its path".to_owned());
    }
    let url = url.trim_end_matches('/');
    Ok(url.strip_suffix("/v1").unwrap_or(url).trim_end_matches('/').to_owned())
}

/// A URL without the places where people put secrets.
pub(super) fn shown(url: &str) -> &str {
    let url = url.split(['?', '#']).next().unwrap_or(url);
    url.rsplit('@').next().unwrap_or(url)
}
