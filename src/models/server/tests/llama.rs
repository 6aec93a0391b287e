//! The server of llama.cpp, which gets tokens.

use super::*;

/// A llama-server whose tokens are bytes, with 256 for BOS and 257 for `<|im|>`.
fn llama(completion: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Stub {
    Stub::new(move |request, stream| {
        let answer = match request.line.as_str() {
            "GET /v1/models" => models("llamacpp"),
            "GET /props" => json!({
                "default_generation_settings": {"n_ctx": 40}, "model_path": "/m.gguf", "build_info": "b1",
            }),
            "POST /apply-template" => {
                let messages = request.body["messages"].as_array().unwrap();
                let texts = messages.iter().map(|m| m["content"].as_str().unwrap());
                json!({"prompt": texts.map(|t| format!("<|im|>{t}")).collect::<String>() + "<|im|>"})
            }
            "POST /tokenize" => {
                let body = &request.body;
                let mut tokens = Vec::new();
                if body["add_special"] == true {
                    tokens.push(256);
                }
                let mut rest = body["content"].as_str().unwrap().as_bytes();
                while let [byte, ..] = rest {
                    match rest.strip_prefix(b"<|im|>").filter(|_| body["parse_special"] == true) {
                        Some(after) => {
                            tokens.push(257);
                            rest = after;
                        }
                        None => {
                            tokens.push(u32::from(*byte));
                            rest = &rest[1..];
                        }
                    }
                }
                if body["with_pieces"] == true {
                    let piece = |t: &u32| match *t {
                        0..128 => json!({"id": t, "piece": char::from(*t as u8).to_string()}),
                        _ => json!({"id": t, "piece": [t]}),
                    };
                    json!({"tokens": tokens.iter().map(piece).collect::<Vec<_>>()})
                } else {
                    json!({"tokens": tokens})
                }
            }
            "POST /completion" => completion(&request.body),
            other => panic!("{other}"),
        };
        reply(stream, &answer);
    })
}

/// The bytes of a text as tokens.
fn bytes(text: &str) -> Vec<u32> {
    text.bytes().map(u32::from).collect()
}

#[test]
fn llama_server_gets_tokens_and_data_stays_data() {
    let stub = llama(|_| json!({"content": "hi", "stop_type": "eos", "tokens_predicted": 3}));
    let server = Server::new(options(&stub.url)).unwrap();
    let prompt = Prompt {
        system: "S".to_owned(),
        parts: vec![part("<|im|>"), Part { may_cut: true, ..part("0123456789012345678901234") }],
        prefill: "P".to_owned(),
        chat: true,
    };
    // 1 + 1 + 1 + 1 + 6 + 25 + 1 + 1 tokens, 8 more for the answer: 5 too many.
    let outcome = one(&server, generate(prompt.clone()));
    let expected =
        Text { text: "hi".to_owned(), finish: Finish::Stop, prompt_tokens: 32, tokens: 3, cut_tokens: 5 };
    assert_eq!(text(&outcome), &expected);
    let sent = [
        vec![256, 257],
        bytes("S"),
        vec![257],
        bytes("<|im|>"),
        bytes("56789012345678901234"),
        vec![257],
        bytes("P"),
    ]
    .concat();
    assert_eq!(stub.asked().pop().unwrap().body["prompt"], json!(sent));
    let fixed = Prompt { parts: vec![part("0123456789012345678901234567890123456789")], ..prompt };
    assert_eq!(one(&server, generate(fixed)), Err(CallError::TooLong { tokens: 54, window: 40 }));
    let tokens = one(&server, Call::Tokenize { text: "<|im|>".to_owned() });
    assert_eq!(tokens, Ok(Answer::Tokens(bytes("<|im|>"))));
}

/// The tokens that a grammar forces.
fn forced(body: &Value) -> Vec<u32> {
    let grammar = body["grammar"].as_str().unwrap();
    grammar.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect()
}

#[test]
fn llama_server_scores_given_tokens() {
    let stub = llama(|body| {
        let before = body["prompt"].as_array().unwrap().len();
        let score = |(n, id): (usize, &u32)| json!({"id": id, "logprob": -((before + n) as f64)});
        json!({"stop_type": "limit", "completion_probabilities": forced(body).iter().enumerate().map(score).collect::<Vec<_>>()})
    });
    let server = Server::new(options(&stub.url)).unwrap();
    let prompt = Prompt {
        chat: false,
        parts: vec![part("ab"), Part { scored: true, ..part("cd") }],
        ..Prompt::default()
    };
    let call = Call::Score { prompt, continuations: vec!["xyz".to_owned(), String::new()] };
    let score = |end, logprob| TokenScore { end, logprob };
    let expected = Scores {
        parts: vec![vec![score(1, -3.0), score(2, -4.0)]],
        continuations: vec![vec![score(1, -5.0), score(2, -6.0), score(3, -7.0)], vec![]],
        prompt_tokens: 5,
        cut_tokens: 0,
    };
    assert_eq!(one(&server, call), Ok(Answer::Scores(expected)));
}

/// Of tokens that end within a character llama-server reports nothing, and none that begins there can be forced.
#[test]
fn llama_server_scores_broken_characters() {
    let stub = llama(|body| {
        let before = body["prompt"].as_array().unwrap().len();
        let most = body["n_probs"].as_u64().unwrap();
        let top = |id: u32| json!({"id": id, "logprob": -f64::from(id) / 10.0});
        let first = if most > 100 { 0 } else { 0xC4 };
        let top: Vec<Value> = (first..=0xFF).map(top).collect();
        let score = |(n, id): (usize, &u32)| json!({"id": id, "logprob": -((before + n) as f64), "top_logprobs": top});
        let reported = forced(body).into_iter().filter(|id| *id < 0xC0).collect::<Vec<_>>();
        json!({"stop_type": "limit", "completion_probabilities": reported.iter().enumerate().map(score).collect::<Vec<_>>()})
    });
    let server = Server::new(options(&stub.url)).unwrap();
    // C3 A9, C5 93, "x".
    let call = Call::Score { prompt: Prompt::default(), continuations: vec!["éœx".to_owned()] };
    let score = |end, logprob| TokenScore { end, logprob };
    let expected = vec![
        score(1, -f64::from(0xC3) / 10.0),
        score(2, -f64::from(0xA9) / 10.0),
        score(3, -f64::from(0xC5) / 10.0),
        score(4, -f64::from(0x93) / 10.0),
        score(5, -5.0),
    ];
    let Ok(Answer::Scores(scores)) = one(&server, call) else { panic!("no scores") };
    assert_eq!(scores.continuations, [expected]);
    let asked: Vec<Value> = stub
        .asked()
        .iter()
        .filter(|r| r.line == "POST /completion")
        .map(|r| r.body["n_probs"].clone())
        .collect();
    let (some, all) = (json!(100), json!(i32::MAX));
    let listed = [&some, &all, &some, &all, &some, &some, &all];
    assert!(asked.iter().eq(listed.into_iter().chain([&json!(1)])), "{asked:?}");
}

#[test]
fn a_score_of_other_tokens_or_out_of_range_is_none() {
    for (id, logprob) in [(98, -1.0), (97, -3.4e38), (97, 0.5)] {
        let stub = llama(
            move |_| json!({"stop_type": "limit", "completion_probabilities": [{"id": id, "logprob": logprob}]}),
        );
        let server = Server::new(options(&stub.url)).unwrap();
        let call = Call::Score { prompt: Prompt::default(), continuations: vec!["a".to_owned()] };
        assert!(matches!(one(&server, call), Err(CallError::Unsupported(_))));
    }
}
