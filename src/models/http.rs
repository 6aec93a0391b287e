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

/// Servers for tests, as ill-behaved as wanted.
#[cfg(test)]
pub(super) mod stub {
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::{Arc, Mutex};

    use serde_json::Value;

    /// What the server was asked.
    #[derive(Clone, Debug)]
    pub(crate) struct Request {
        /// Method and path.
        pub(crate) line: String,
        pub(crate) headers: String,
        /// Null if there is none.
        pub(crate) body: Value,
        /// How many requests came before.
        pub(crate) nth: usize,
    }

    pub(crate) struct Stub {
        pub(crate) url: String,
        asked: Arc<Mutex<Vec<Request>>>,
    }

    impl Stub {
        /// Serves on loopback until the test's process ends. The handler writes the raw answer; the connection is
        /// closed after it.
        pub(crate) fn new(handler: impl Fn(&Request, &mut TcpStream) + Send + Sync + 'static) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap());
            let asked = Arc::new(Mutex::new(Vec::new()));
            let (handler, log) = (Arc::new(handler), Arc::clone(&asked));
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    let (handler, log) = (Arc::clone(&handler), Arc::clone(&log));
                    std::thread::spawn(move || {
                        let mut stream = stream.unwrap();
                        let mut request = read(&stream);
                        {
                            let mut log = log.lock().unwrap();
                            request.nth = log.len();
                            log.push(request.clone());
                        }
                        handler(&request, &mut stream);
                    });
                }
            });
            Self { url, asked }
        }

        pub(crate) fn asked(&self) -> Vec<Request> {
            self.asked.lock().unwrap().clone()
        }
    }

    fn read(stream: &TcpStream) -> Request {
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let mut headers = String::new();
        while !headers.ends_with("\r\n\r\n") && reader.read_line(&mut headers).unwrap() > 2 {}
        let headers = headers.to_lowercase();
        let length = headers.lines().find_map(|h| h.strip_prefix("content-length:"));
        let mut body = vec![0; length.map_or(0, |l| l.trim().parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        Request {
            line: line.trim_end().trim_end_matches(" HTTP/1.1").to_owned(),
            headers,
            body: serde_json::from_slice(&body).unwrap_or_default(),
            nth: 0,
        }
    }

    /// Writes a whole answer. That the client may be gone is no mistake.
    pub(crate) fn say(stream: &mut TcpStream, state: &str, headers: &str, body: &str) {
        let length = body.len();
        let head =
            format!("HTTP/1.1 {state}\r\ncontent-length: {length}\r\nconnection: close\r\n{headers}\r\n");
        let _ = stream.write_all((head + body).as_bytes());
    }

    /// Writes JSON with state 200.
    pub(crate) fn json(stream: &mut TcpStream, body: &Value) {
        say(stream, "200 OK", "content-type: application/json\r\n", &body.to_string());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::TcpListener;

    use super::stub::{Request, Stub, say};
    use super::*;

    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Good {
        good: u32,
    }

    const OK: &str = r#"{"good": 1}"#;
    const TIMEOUT: Duration = Duration::from_secs(1);
    const DEADLINE: Duration = Duration::from_secs(6);

    fn client(url: &str, retries: u32) -> Client {
        let key = Some("secret".to_owned());
        Client::new(url.to_owned(), key, retries, TIMEOUT, Duration::from_millis(20), 2)
    }

    /// One request with two retries; its outcome, its time, and the requests that the server saw.
    fn ask(stub: &Stub) -> (Result<Good, Failure>, Duration, Vec<Request>) {
        let mut effort = Effort::new(DEADLINE, [0; 32]);
        let outcome = client(&stub.url, 2).post("/x", &serde_json::json!({"a": 1}), &mut effort);
        let time = effort.begin.elapsed();
        assert!(time < DEADLINE + Duration::from_secs(1), "{time:?}");
        (outcome, time, stub.asked())
    }

    fn message(outcome: Result<Good, Failure>) -> String {
        outcome.unwrap_err().error.to_string()
    }

    #[test]
    fn a_good_answer_of_whatever_type() {
        let stub = Stub::new(|_, stream| say(stream, "200 OK", "content-type: text/html\r\n", OK));
        let (outcome, _, asked) = ask(&stub);
        assert_eq!(outcome.unwrap(), Good { good: 1 });
        assert_eq!(asked.len(), 1);
        assert_eq!(asked[0].line, "POST /x");
        assert!(asked[0].headers.contains("authorization: bearer secret"), "{}", asked[0].headers);
    }

    #[test]
    fn a_hanging_server() {
        let stub = Stub::new(|_, _| std::thread::sleep(DEADLINE * 2));
        let (outcome, time, asked) = ask(&stub);
        assert_eq!(outcome.unwrap_err().error, CallError::Timeout(time.as_secs_f64().ceil() as u64));
        assert!(TIMEOUT <= time && time < TIMEOUT * 2, "{time:?}");
        assert_eq!(asked.len(), 1, "silence is not asked for twice");
        // One that begins its answer and then says nothing more.
        let stub = Stub::new(|_, stream| {
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n");
            std::thread::sleep(DEADLINE * 2);
        });
        let (outcome, time, asked) = ask(&stub);
        assert!(matches!(outcome.unwrap_err().error, CallError::Timeout(_)));
        assert!(TIMEOUT <= time && time < TIMEOUT * 2, "{time:?}");
        assert_eq!(asked.len(), 1);
    }

    /// The numbers of a stream, whose last is 0.
    fn numbers(url: &str) -> Result<Vec<u32>, Failure> {
        let join = |events: Vec<u32>| (events.last() == Some(&0)).then_some(events);
        client(url, 1).stream("/x", serde_json::json!({}), &mut Effort::new(DEADLINE, [0; 32]), join)
    }

    const STREAM: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n\r\n";

    #[test]
    fn a_stream_may_take_longer_than_silence() {
        let stub = Stub::new(|_, stream| {
            let _ = stream.write_all(STREAM.as_bytes());
            for event in
                ["data: 3\n\n", ":\n\n", "data: 2\n", "\ndata:1\r\n\r\n", "data: 0\n\ndata: [DONE]\n\n"]
            {
                std::thread::sleep(TIMEOUT / 2);
                let _ = stream.write_all(event.as_bytes());
            }
        });
        let begin = Instant::now();
        assert_eq!(numbers(&stub.url).unwrap(), [3, 2, 1, 0]);
        assert!(begin.elapsed() > TIMEOUT * 2);
        let asked = stub.asked();
        assert_eq!((asked.len(), &asked[0].body), (1, &serde_json::json!({"stream": true})));
        // One that knows no streams.
        let stub = Stub::new(|_, stream| say(stream, "200 OK", "content-type: application/json\r\n", "0"));
        assert_eq!(numbers(&stub.url).unwrap(), [0]);
    }

    #[test]
    fn a_stream_that_breaks_off_or_fails_is_tried_again() {
        for (broken, expected) in [
            ("data: 3\n\n", "it breaks off"),
            ("data: 3\n\ndata: {\"error\": {\"code\": 500, \"message\": \"no memory\"}}\n\n", "no memory"),
            ("data: x\n\n", "not what it should be"),
            ("", "it breaks off"),
        ] {
            let always =
                Stub::new(move |_, stream| drop(stream.write_all((STREAM.to_owned() + broken).as_bytes())));
            let message = numbers(&always.url).unwrap_err().error.to_string();
            assert!(message.contains(expected) && message.contains("the last of 2 tries"), "{message}");
            let once = Stub::new(move |request, stream| {
                let rest = if request.nth == 0 { broken } else { "data: 0\n\n" };
                let _ = stream.write_all((STREAM.to_owned() + rest).as_bytes());
            });
            assert_eq!(numbers(&once.url).unwrap(), [0]);
        }
    }

    #[test]
    fn a_deadline_ends_the_tries() {
        let stub = Stub::new(|_, _| std::thread::sleep(DEADLINE * 2));
        let mut effort = Effort::new(TIMEOUT / 2, [0; 32]);
        let outcome: Result<Good, _> = client(&stub.url, 1000).get("/x", &mut effort);
        assert_eq!(outcome.unwrap_err().error, CallError::Timeout(1));
        assert!(effort.begin.elapsed() < TIMEOUT);
        assert_eq!(stub.asked().len(), 1);
    }

    #[test]
    fn a_closed_port() {
        let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut effort = Effort::new(DEADLINE, [0; 32]);
        let outcome: Result<Good, _> = client(&format!("http://{address}"), 2).get("/x", &mut effort);
        let message = message(outcome);
        assert!(
            message.contains("no answer from http://127.0.0.1") && message.contains("3 tries"),
            "{message}"
        );
    }

    #[test]
    fn no_such_host() {
        let mut effort = Effort::new(DEADLINE, [0; 32]);
        let outcome: Result<Good, _> = client("http://nowhere.invalid", 0).get("/x", &mut effort);
        assert!(outcome.is_err());
        assert!(effort.begin.elapsed() < DEADLINE);
    }

    #[test]
    fn a_body_that_breaks_off() {
        let partly = |stream: &mut std::net::TcpStream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"good\"");
        };
        let stub = Stub::new(move |_, stream| partly(stream));
        let (outcome, _, asked) = ask(&stub);
        assert!(message(outcome).contains("3 tries"));
        assert_eq!(asked.len(), 3);
        let stub = Stub::new(move |request, stream| match request.nth {
            0 => partly(stream),
            _ => say(stream, "200 OK", "", OK),
        });
        assert_eq!(ask(&stub).0.unwrap(), Good { good: 1 });
    }

    #[test]
    fn no_answer_at_all() {
        let (outcome, _, asked) = ask(&Stub::new(|_, _| ()));
        assert!(outcome.is_err());
        assert_eq!(asked.len(), 3);
    }

    #[test]
    fn too_many_requests_then_well() {
        let stub = Stub::new(|request, stream| match request.nth {
            0 => say(stream, "429 Too Many Requests", "retry-after: 1\r\n", ""),
            _ => say(stream, "200 OK", "", OK),
        });
        let (outcome, time, asked) = ask(&stub);
        assert_eq!(outcome.unwrap(), Good { good: 1 });
        assert!(time >= Duration::from_secs(1));
        assert_eq!(asked.len(), 2);
    }

    #[test]
    fn a_wait_beyond_the_deadline_is_not_begun() {
        let stub =
            Stub::new(|_, stream| say(stream, "429 Too Many Requests", "retry-after: 9999\r\n", "busy"));
        let (outcome, time, asked) = ask(&stub);
        assert!(message(outcome).contains("state 429: busy"));
        assert!(time < TIMEOUT);
        assert_eq!(asked.len(), 1);
    }

    #[test]
    fn errors_of_the_server_then_well_or_not() {
        for state in ["500 x", "502 x", "503 x", "408 x", "529 x"] {
            let stub = Stub::new(move |request, stream| match request.nth {
                0 | 1 => say(stream, state, "", "oh"),
                _ => say(stream, "200 OK", "", OK),
            });
            assert_eq!(ask(&stub).0.unwrap(), Good { good: 1 }, "{state}");
        }
        let stub = Stub::new(|_, stream| say(stream, "500 x", "", r#"{"error": {"message": "a\nb"}}"#));
        let (outcome, _, asked) = ask(&stub);
        assert_eq!(message(outcome), "the server answers /x with state 500: a b (the last of 3 tries)");
        assert_eq!(asked.len(), 3);
    }

    #[test]
    fn garbage() {
        let page = "<html>\n<body>Bad   Gateway".to_owned() + &"é".repeat(10_000);
        for body in ["{\"good\": ".to_owned(), String::new(), "\u{0}\u{1}".to_owned(), "[]".to_owned(), page]
        {
            let stub = Stub::new(move |_, stream| say(stream, "200 OK", "content-encoding: gzip\r\n", &body));
            let (outcome, _, asked) = ask(&stub);
            let message = message(outcome);
            assert!(message.contains("not what it should be"), "{message}");
            assert!(message.chars().count() < 400 && message.lines().count() == 1, "{message}");
            assert_eq!(asked.len(), 3);
        }
        let stub = Stub::new(|_, stream| {
            let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.6\r\n\xff\xfe\r\n");
        });
        assert!(ask(&stub).0.is_err());
    }

    #[test]
    fn an_endless_body() {
        let stub = Stub::new(|_, stream| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n\"");
            while stream.write_all(&[b'a'; 65_536]).is_ok() {}
        });
        assert!(ask(&stub).0.is_err());
    }

    #[test]
    fn a_slow_drip() {
        for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 200 OK\r\nx: "] {
            let stub = Stub::new(move |_, stream| {
                let _ = stream.write_all(head.as_bytes());
                while stream.write_all(b"a").is_ok() {
                    std::thread::sleep(Duration::from_millis(20));
                }
            });
            let (outcome, time, asked) = ask(&stub);
            assert!(matches!(outcome.unwrap_err().error, CallError::Timeout(_)));
            assert!(time >= DEADLINE, "as long as something comes, the deadline alone ends it: {time:?}");
            assert_eq!(asked.len(), 1);
        }
    }

    #[test]
    fn a_refusal_is_final_and_tells_no_key() {
        for state in [400, 401, 403, 404, 405, 413, 422, 504] {
            let body = r#"{"error": {"message": "key secret is wrong", "type": "x"}}"#;
            let stub = Stub::new(move |_, stream| say(stream, &format!("{state} x"), "", body));
            let (outcome, _, asked) = ask(&stub);
            assert_eq!(
                message(outcome),
                format!("the server answers /x with state {state}: key *** is wrong")
            );
            assert_eq!(asked.len(), 1);
        }
    }

    #[test]
    fn a_redirect_is_not_followed() {
        let other = Stub::new(|_, stream| say(stream, "200 OK", "", OK));
        for state in [301, 302, 303, 307, 308] {
            let location = format!("location: {}/y\r\n", other.url);
            let stub = Stub::new(move |_, stream| say(stream, &format!("{state} x"), &location, ""));
            let (outcome, _, asked) = ask(&stub);
            let message = message(outcome);
            assert!(message.contains("redirects /x to http://127.0.0.1"), "{message}");
            assert_eq!(asked.len(), 1);
        }
        assert!(other.asked().is_empty());
    }

    #[test]
    fn a_dead_server_is_tried_once_until_it_lives() {
        let stub = Stub::new(|request, stream| {
            if request.nth >= 4 {
                say(stream, "200 OK", "", OK);
            }
        });
        let client = client(&stub.url, 2);
        let ask = || client.get::<Good>("/x", &mut Effort::new(DEADLINE, [0; 32]));
        assert!(ask().is_err());
        assert_eq!(stub.asked().len(), 3);
        assert!(ask().is_err());
        assert_eq!(stub.asked().len(), 4);
        assert!(ask().is_ok());
        assert!(!client.down.load(Ordering::Relaxed));
    }

    #[test]
    fn a_hanging_server_is_heard_again_when_it_lives() {
        let stub = Stub::new(|request, stream| match request.nth {
            0 => std::thread::sleep(DEADLINE),
            _ => say(stream, "200 OK", "", OK),
        });
        let client = client(&stub.url, 2);
        let ask = || client.get::<Good>("/x", &mut Effort::new(DEADLINE, [0; 32]));
        assert!(ask().is_err());
        assert!(client.down.load(Ordering::Relaxed), "the next is given up sooner");
        assert!(ask().is_ok());
        assert!(!client.down.load(Ordering::Relaxed));
    }

    #[test]
    fn refusals_with_a_meaning() {
        let meaning = |state: &'static str, error: Value| {
            let body = serde_json::json!({"error": error}).to_string();
            ask(&Stub::new(move |_, stream| say(stream, state, "", &body))).0.unwrap_err().error
        };
        let too_long = |tokens, window| CallError::TooLong { tokens, window };
        let llama = "request (600 tokens) exceeds the available context size (512 tokens), try increasing it";
        let llama = serde_json::json!({
            "message": llama, "type": "exceed_context_size_error", "n_prompt_tokens": 600, "n_ctx": 512,
        });
        assert_eq!(meaning("400 x", llama), too_long(600, 512));
        let batch = "input (600 tokens) is too large to process. increase the physical batch size (current batch \
                     size: 512)";
        assert_eq!(meaning("500 x", serde_json::json!({"message": batch})), too_long(600, 512));
        let vllm = "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4500 in \
                    the messages, 500 in the completion).";
        assert_eq!(meaning("400 x", serde_json::json!({"message": vllm})), too_long(5000, 4096));
        assert_eq!(meaning("400 x", vllm.into()), too_long(5000, 4096));
        let grammar = "Failed to parse grammar";
        assert_eq!(meaning("400 x", grammar.into()), CallError::Grammar(grammar.to_owned()));
        let not_there = serde_json::json!({"code": 501, "message": "Start it with `--embeddings`"});
        assert!(matches!(meaning("501 x", not_there), CallError::Unsupported(_)));
    }

    #[test]
    fn waits_are_the_same_in_every_run() {
        let stub = Stub::new(|_, stream| say(stream, "500 x", "", ""));
        let draws = || {
            let mut effort = Effort::new(DEADLINE, [7; 32]);
            let outcome: Result<Good, _> = client(&stub.url, 2).get("/x", &mut effort);
            assert!(outcome.is_err());
            effort.rng.random::<u64>()
        };
        assert_eq!(draws(), draws());
    }
}
