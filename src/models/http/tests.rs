//! Servers that hang, drop, refuse and answer garbage.

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
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {}\n\n");
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
        for event in ["data: 3\n\n", ":\n\n", "data: 2\n", "\ndata:1\r\n\r\n", "data: 0\n\ndata: [DONE]\n\n"]
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
    assert!(message.contains("no answer from http://127.0.0.1") && message.contains("3 tries"), "{message}");
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
    let stub = Stub::new(|_, stream| say(stream, "429 Too Many Requests", "retry-after: 9999\r\n", "busy"));
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
    for body in ["{\"good\": ".to_owned(), String::new(), "\u{0}\u{1}".to_owned(), "[]".to_owned(), page] {
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
        assert_eq!(message(outcome), format!("the server answers /x with state {state}: key *** is wrong"));
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
