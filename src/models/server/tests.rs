//! Requests and answers of each kind of server, against servers of our own.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use super::super::http::stub::{Request, Stub, json as reply, say};
use super::super::{Finish, Part, Prompt, Scores, Text, TokenScore};
use super::*;

mod llama;

fn options(url: &str) -> Options {
    Options {
        url: url.to_owned(),
        timeout: 1.0,
        deadline: 6.0,
        retries: 1,
        backoff: 0.01,
        ..Options::default()
    }
}

fn models(owner: &str) -> Value {
    json!({"data": [{"id": "m", "owned_by": owner, "max_model_len": 40}]})
}

/// A server that is asked for its list of models, and else by the handler.
fn stub(owner: &'static str, handler: impl Fn(&Request) -> Value + Send + Sync + 'static) -> Stub {
    Stub::new(move |request, stream| match request.line.as_str() {
        "GET /v1/models" => reply(stream, &models(owner)),
        "GET /version" => reply(stream, &json!({"version": "0.12.1"})),
        _ => reply(stream, &handler(request)),
    })
}

fn chat(text: &str) -> Value {
    json!({
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2},
    })
}

fn part(text: &str) -> Part {
    Part { text: text.to_owned(), ..Part::default() }
}

fn user(text: &str) -> Prompt {
    Prompt { chat: true, parts: vec![part(text)], ..Prompt::default() }
}

fn generate(prompt: Prompt) -> Call {
    Call::Generate { prompt, max_tokens: 8, grammar: None, stop: Vec::new(), sampling: None }
}

fn text(outcome: &Outcome) -> &Text {
    match outcome {
        Ok(Answer::Text(text)) => text,
        other => panic!("no text: {other:?}"),
    }
}

fn one(server: &Server, call: Call) -> Outcome {
    server.answer(&[call]).pop().unwrap()
}

fn refused(options: Options) -> String {
    Server::new(options).err().expect("it is refused").to_string()
}

#[test]
fn what_cannot_be_a_server_is_refused() {
    for url in ["", "localhost:80", "ftp://h", "http://", "http://h/?key=1", "http://h/#x", "http:// h"] {
        assert!(!refused(options(url)).is_empty(), "{url}");
    }
    for url in ["http://me:secret@127.0.0.1:1", "http://127.0.0.1:1/?key=secret", "http://h/#secret"] {
        let message = refused(options(url));
        assert!(!message.contains("secret"), "{message}");
    }
    let stub = stub("x", |_| Value::Null);
    let with = |change: fn(&mut Options)| {
        let mut options = options(&stub.url);
        change(&mut options);
        refused(options)
    };
    assert!(with(|o| o.timeout = 0.0).contains("`timeout`"));
    assert!(with(|o| o.deadline = 1e300).contains("`deadline` must be at most 604800 seconds"));
    assert!(with(|o| o.backoff = f64::NAN).contains("more than 0"));
    assert!(with(|o| o.deadline = f64::NAN).contains("`deadline`"));
    assert!(with(|o| o.concurrency = 0).contains("`concurrency`"));
    assert!(with(|o| o.model = Some("other".to_owned())).contains("no model `other`, but: m"));
    assert!(with(|o| o.api_key_env = Some("TRAJPRESS_NO_SUCH".to_owned())).contains("is not set"));
    let two = Stub::new(|_, s| reply(s, &json!({"data": [{"id": "a"}, {"id": "b"}]})));
    assert!(refused(options(&two.url)).contains("one of: a, b"));
    let windowless = Stub::new(|_, s| reply(s, &json!({"data": [{"id": "a"}]})));
    assert!(refused(options(&windowless.url)).contains("set `window`"));
}

#[test]
fn the_card_says_what_the_server_says() {
    let stub = stub("vllm", |_| Value::Null);
    let card = |url: String| Server::new(options(&url)).unwrap().card().clone();
    let plain = card(stub.url.clone());
    assert_eq!(plain.name, format!("{}#m", stub.url));
    assert!(plain.identity.contains("vLLM 0.12.1") && plain.identity.contains("model m"), "{plain:?}");
    assert_eq!(plain.window, 40);
    for more in ["/", "/v1", "/v1/"] {
        assert_eq!(card(format!("{}{more}", stub.url)), plain);
    }
    let smaller = Options { window: Some(30), ..options(&stub.url) };
    assert_eq!(Server::new(smaller).unwrap().card().window, 30);
}

#[test]
fn the_key_is_sent_and_told_nobody() {
    // Any variable that every process of this test has.
    let secret = env::var("CARGO_PKG_NAME").unwrap();
    let stub = stub("x", |_| chat("hi"));
    let options = Options { api_key_env: Some("CARGO_PKG_NAME".to_owned()), ..options(&stub.url) };
    assert!(!format!("{options:?}").contains(&secret));
    let server = Server::new(options).unwrap();
    one(&server, generate(user("x"))).unwrap();
    assert!(stub.asked().iter().all(|r| r.headers.contains(&format!("authorization: bearer {secret}"))));
    assert!(!format!("{:?}", server.card()).contains(&secret));
}

#[test]
fn a_chat_prompt_for_any_server() {
    let stub = stub("x", |_| chat("Answer: is <\u{2060}|im_end|> it"));
    let server = Server::new(options(&stub.url)).unwrap();
    let prompt = Prompt {
        system: "Be brief.".to_owned(),
        parts: vec![part("Log: "), part("a<|im_end|>\u{0}"), part(".")],
        prefill: "Answer:".to_owned(),
        chat: true,
    };
    let sampling = Some(Sampling { temperature: 0.5, top_p: 0.25, seed: 3 });
    let call = Call::Generate { prompt, max_tokens: 7, grammar: None, stop: vec!["\n".to_owned()], sampling };
    let outcome = one(&server, call);
    let expected = Text {
        text: " is <|im_end|> it".to_owned(),
        finish: Finish::Stop,
        prompt_tokens: 5,
        tokens: 2,
        cut_tokens: 0,
    };
    assert_eq!(text(&outcome), &expected);
    let asked = stub.asked().pop().unwrap();
    assert_eq!(asked.line, "POST /v1/chat/completions");
    let content = "Log: a<\u{2060}|im_end|>\u{0}.\n\nBegin your answer with exactly this:\nAnswer:";
    let expected = json!({
        "model": "m",
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": content},
        ],
        "max_tokens": 7, "temperature": 0.5, "top_p": 0.25, "seed": 3, "stop": ["\n"],
        "stream": true, "stream_options": {"include_usage": true},
    });
    assert_eq!(asked.body, expected);
}

#[test]
fn a_prompt_for_vllm_is_continued_and_cut() {
    // A byte is a token; a chat prompt has three more.
    let stub = stub("vllm", |request| match request.line.as_str() {
        "POST /tokenize" => {
            let texts: Vec<&str> = match &request.body["messages"] {
                Value::Array(messages) => messages.iter().map(|m| m["content"].as_str().unwrap()).collect(),
                _ => vec![request.body["prompt"].as_str().unwrap()],
            };
            let tokens: Vec<u8> = texts.concat().into_bytes();
            json!({"count": tokens.len() + if texts.len() > 1 { 3 } else { 0 }, "tokens": tokens})
        }
        "POST /detokenize" => {
            let tokens: Vec<u8> = serde_json::from_value(request.body["tokens"].clone()).unwrap();
            json!({"prompt": String::from_utf8_lossy(&tokens)})
        }
        _ => chat("done"),
    });
    let server = Server::new(options(&stub.url)).unwrap();
    let long = Part { may_cut: true, ..part("ééé0123456789012345678901234") };
    let prompt = Prompt { parts: vec![part("ab"), long, part("c")], prefill: "P".to_owned(), ..user("") };
    // 3 + 2 + 31 + 1 + 1 tokens, 8 more for the answer: 6 too many.
    let call = |grammar| Call::Generate {
        prompt: prompt.clone(),
        max_tokens: 8,
        grammar,
        stop: Vec::new(),
        sampling: None,
    };
    assert_eq!(text(&one(&server, call(Some("root ::= \"x\"".to_owned())))).cut_tokens, 6);
    let expected = json!({
        "model": "m",
        "messages": [
            {"role": "user", "content": "ab0123456789012345678901234c"},
            {"role": "assistant", "content": "P"},
        ],
        "continue_final_message": true, "add_generation_prompt": false,
        "max_tokens": 8, "temperature": 0, "top_k": -1, "min_p": 0, "repetition_penalty": 1,
        "structured_outputs": {"grammar": "root ::= \"x\""},
        "stream": true, "stream_options": {"include_usage": true},
    });
    assert_eq!(stub.asked().pop().unwrap().body, expected);
    let fixed = Prompt { parts: vec![part("0123456789012345678901234567890123456789")], ..prompt.clone() };
    let too_long = CallError::TooLong { tokens: 52, window: 40 };
    assert_eq!(one(&server, generate(fixed)), Err(too_long));
    let tokenize = |text: &str| Call::Tokenize { text: text.to_owned() };
    assert_eq!(one(&server, tokenize("ab")), Ok(Answer::Tokens(vec![97, 98])));
    assert!(matches!(one(&server, tokenize("</s>")), Err(CallError::Unsupported(_))));
}

#[test]
fn what_a_server_is_not_known_to_do_is_not_done() {
    let stub = stub("x", |_| json!({"choices": [{"text": "", "finish_reason": "length"}]}));
    let server = Server::new(options(&stub.url)).unwrap();
    let plain = Prompt { chat: false, ..user("x") };
    let mut with_grammar = generate(plain.clone());
    if let Call::Generate { grammar, .. } = &mut with_grammar {
        *grammar = Some("root ::= \"x\"".to_owned());
    }
    let score = |prompt, text: &str| Call::Score { prompt, continuations: vec![text.to_owned()] };
    for call in [
        with_grammar,
        Call::Tokenize { text: "x".to_owned() },
        score(user("x"), "y"),
        score(plain.clone(), "y"),
        score(plain.clone(), "z"),
        score(plain.clone(), "</s>"),
        // It does not count.
        generate(plain),
    ] {
        let outcome = one(&server, call.clone());
        assert!(matches!(outcome, Err(CallError::Unsupported(_))), "{call:?}: {outcome:?}");
    }
    // It was asked once for what it does not do at all.
    let echoed = stub.asked().iter().filter(|asked| asked.body["echo"] == true).count();
    assert_eq!(echoed, 1);
}

#[test]
fn an_echoed_prompt_is_scored() {
    let stub = stub("x", |request| {
        let text = request.body["prompt"].as_str().unwrap();
        let mut tokens: Vec<String> = text.split_inclusive(' ').map(str::to_owned).collect();
        tokens.push("more".to_owned());
        let logprobs: Vec<_> = (0..tokens.len()).map(|n| (n > 0).then_some(-(n as f64))).collect();
        let logprobs = json!({"tokens": tokens, "token_logprobs": logprobs});
        json!({"choices": [{"text": text, "finish_reason": "length", "logprobs": logprobs}]})
    });
    let server = Server::new(options(&stub.url)).unwrap();
    let prompt = Prompt {
        chat: false,
        parts: vec![part("ab "), Part { scored: true, ..part("cd é ") }],
        ..Prompt::default()
    };
    let score = |end, logprob| TokenScore { end, logprob };
    let call = Call::Score { prompt, continuations: vec!["x".to_owned(), "y z".to_owned(), String::new()] };
    let expected = Scores {
        parts: vec![vec![score(3, -1.0), score(6, -2.0)]],
        continuations: vec![vec![score(1, -3.0)], vec![score(2, -3.0), score(3, -4.0)], vec![]],
        prompt_tokens: 3,
        cut_tokens: 0,
    };
    assert_eq!(one(&server, call), Ok(Answer::Scores(expected)));
}

/// A server that writes for longer than it may be silent, to the end or not.
fn slow(owner: &'static str, events: Vec<Value>) -> Stub {
    Stub::new(move |request, stream| match request.line.as_str() {
        "GET /v1/models" => reply(stream, &models(owner)),
        "GET /props" => reply(
            stream,
            &json!({
                "default_generation_settings": {"n_ctx": 40}, "model_path": "/m.gguf", "build_info": "b1",
            }),
        ),
        "POST /tokenize" => reply(stream, &json!({"tokens": [1]})),
        _ => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n");
            for event in &events {
                std::thread::sleep(Duration::from_millis(400));
                let _ = stream.write_all(format!("data: {event}\n\n").as_bytes());
            }
        }
    })
}

#[test]
fn a_long_answer_is_not_cut_by_the_timeout() {
    let chat = |delta: Value, finish: Value| json!({"choices": [{"delta": delta, "finish_reason": finish}]});
    let plain = |text: &str| json!({"choices": [{"text": text, "finish_reason": null}], "usage": null});
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}});
    let written = |content: &str| json!({"content": content, "stop": false, "tokens_predicted": 1});
    let by_openai = vec![
        chat(json!({"role": "assistant", "content": ""}), Value::Null),
        chat(json!({"content": "a "}), Value::Null),
        chat(json!({"content": "bc"}), Value::Null),
        chat(json!({}), json!("stop")),
        usage.clone(),
    ];
    let by_plain = vec![
        plain("a "),
        plain("b"),
        plain("c"),
        json!({"choices": [{"text": "", "finish_reason": "stop"}]}),
        usage,
    ];
    let by_llama = vec![
        json!({"content": "", "stop": false, "prompt_progress": {"total": 3, "processed": 1}}),
        written("a "),
        written("b"),
        written("c"),
        json!({"content": "", "stop": true, "stop_type": "eos", "tokens_predicted": 4}),
    ];
    for (owner, chat, events, prompt_tokens) in
        [("x", true, by_openai, 3), ("x", false, by_plain, 3), ("llamacpp", false, by_llama, 3)]
    {
        let whole = slow(owner, events.clone());
        let prompt = Prompt { chat, parts: vec![part("x")], system: "s".to_owned(), ..Prompt::default() };
        let window = Some(40);
        let options = |url: &str| Options { window, ..options(url) };
        let server = Server::new(options(&whole.url)).unwrap();
        let begin = Instant::now();
        let outcome = one(&server, generate(prompt.clone()));
        let expected =
            Text { text: "a bc".to_owned(), finish: Finish::Stop, prompt_tokens, tokens: 4, cut_tokens: 0 };
        assert_eq!(text(&outcome), &expected);
        assert!(begin.elapsed() > Duration::from_millis(1900), "longer than the second of silence");
        let broken = slow(owner, events[..2].to_vec());
        let outcome = one(&Server::new(options(&broken.url)).unwrap(), generate(prompt));
        assert!(outcome.unwrap_err().to_string().contains("it breaks off"));
    }
}

#[test]
fn vectors_have_unit_length() {
    let vector = |embedding: Value| {
        let stub = stub("x", move |_| json!({"data": [{"embedding": embedding}]}));
        one(&Server::new(options(&stub.url)).unwrap(), Call::Embed { text: "x".to_owned() })
    };
    assert_eq!(vector(json!([3.0, 4.0])), Ok(Answer::Vector { values: vec![0.6, 0.8], cut_tokens: 0 }));
    assert!(vector(json!([0.0, 0.0])).is_err());
    assert!(vector(json!([])).is_err());
}

#[test]
fn no_more_calls_at_work_than_allowed() {
    let (busy, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let peak = Arc::clone(&most);
    let stub = stub("x", move |_| {
        most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(30));
        busy.fetch_sub(1, Ordering::SeqCst);
        chat("done")
    });
    let server = Server::new(Options { concurrency: 3, ..options(&stub.url) }).unwrap();
    let calls: Vec<Call> = (0..6).map(|n| generate(user(&n.to_string()))).collect();
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| assert!(server.answer(&calls).iter().all(Result::is_ok)));
        }
    });
    assert_eq!(peak.load(Ordering::SeqCst), 3);
    assert_eq!(stub.asked().len(), 1 + 18);
    assert!(server.answer(&[]).is_empty());
}

#[test]
fn what_one_call_meets_costs_no_other_its_answer() {
    let stub = Stub::new(|request, stream| {
        let content = request.body["messages"][0]["content"].as_str().unwrap_or("").to_owned();
        match (request.line.as_str(), content.as_str()) {
            ("GET /v1/models", _) => reply(stream, &models("x")),
            (_, "hang") => std::thread::sleep(Duration::from_secs(9)),
            (_, "drop") => (),
            (_, "refuse") => say(stream, "400 x", "", "no"),
            (_, "page") => say(stream, "200 OK", "", "<html>"),
            _ => reply(stream, &chat(&content)),
        }
    });
    let server = Server::new(options(&stub.url)).unwrap();
    let texts = ["a", "hang", "b", "drop", "refuse", "c", "page", "d"];
    let begin = Instant::now();
    let outcomes = server.answer(&texts.map(|t| generate(user(t))));
    assert!(begin.elapsed() < Duration::from_secs(6));
    for (sent, outcome) in texts.iter().zip(&outcomes) {
        match *sent {
            "hang" => assert!(matches!(outcome, Err(CallError::Timeout(_)))),
            "drop" | "refuse" | "page" => assert!(matches!(outcome, Err(CallError::Failed(_)))),
            sent => assert_eq!(text(outcome).text, sent),
        }
    }
}

#[test]
fn a_server_that_dies_and_comes_back() {
    let up = Arc::new(AtomicBool::new(true));
    let state = Arc::clone(&up);
    let stub = Stub::new(move |request, stream| match request.line.as_str() {
        "GET /v1/models" => reply(stream, &models("x")),
        _ if state.load(Ordering::SeqCst) => reply(stream, &chat("up")),
        _ => (),
    });
    let server = Server::new(options(&stub.url)).unwrap();
    for up_now in [true, false, false, true, true] {
        up.store(up_now, Ordering::SeqCst);
        assert_eq!(one(&server, generate(user("x"))).is_ok(), up_now);
    }
}
