//! One session as seven products log it, built from what their formats say: `audit` tells the same of its compaction in each.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

const TASK: &str = "Mend the parts of this crate.";
const WORDS: &str = "Never change the licence of any file.";
const SUMMARY: &str = "The parts are mended; those of src/zeta.rs come next.";

/// What happens in it; calls with what they are told.
enum Part {
    User(&'static str),
    Read(&'static str, String),
    Run(String, &'static str),
    Compaction,
}

fn parts(from: u32) -> String {
    (from..from + 6).map(|i| format!("fn part_{i}() calls helper_{i} with {i}00 crates\n")).collect()
}

/// Two files are read, the summary names nothing of them, and one is read again and a name of the other used.
fn story() -> Vec<Part> {
    let read = |path, from| Part::Read(path, parts(from));
    let run = |command: String| Part::Run(command, "done without output");
    let mut all = vec![Part::User(TASK), read("src/a.rs", 10), read("src/b.rs", 20), Part::User(WORDS)];
    all.extend((3..8).map(|i| run(format!("date +{i}"))));
    all.extend([Part::Compaction, run("date +8".to_owned()), read("src/a.rs", 10)]);
    all.push(run("grep -rn helper_22 .".to_owned()));
    all
}

/// The call of a part by names of a product's tools: tool, arguments, result.
fn call(part: &Part, read: (&str, &str), run: &str) -> Option<(String, Value, String)> {
    match part {
        Part::Read(path, text) => Some((read.0.to_owned(), json!({ read.1: path }), text.clone())),
        Part::Run(command, told) => Some((run.to_owned(), json!({ "command": command }), (*told).to_owned())),
        _ => None,
    }
}

/// A line each.
fn lines(all: impl IntoIterator<Item = Value>) -> String {
    all.into_iter().map(|value| format!("{value}\n")).collect()
}

/// The files of a session, by their names, and how many turns of the story a compaction of the product leaves out of its own.
fn openhands() -> Vec<(&'static str, String)> {
    let mut events = Vec::new();
    for part in story() {
        let id = events.len();
        match &part {
            Part::User(text) => {
                events.push(json!({"id": id, "source": "user", "action": "message", "args": {"content": text}}));
            }
            Part::Compaction => events.push(json!({"id": id, "source": "agent", "action": "condensation", "args": {
                "forgotten_events_start_id": 1, "forgotten_events_end_id": id - 1, "summary": SUMMARY, "summary_offset": 1}})),
            _ => {
                let (tool, args, text) = call(&part, ("read", "path"), "run").unwrap();
                events.push(json!({"id": id, "source": "agent", "action": tool, "args": args}));
                events.push(json!({"id": id + 1, "source": "agent", "observation": tool, "cause": id, "content": text, "extras": {}}));
            }
        }
    }
    vec![("events.json", Value::from(events).to_string())]
}

fn opencode() -> Vec<(&'static str, String)> {
    let mut messages: Vec<Value> = Vec::new();
    for part in story() {
        let n = messages.len();
        let info = |role: &str| json!({"id": format!("msg_{n:02}"), "role": role, "time": {"created": 1_700_000_000_000_u64 + 1_000 * n as u64}});
        let said =
            |n: usize, text: &str| json!([{"id": format!("prt_{n:02}"), "type": "text", "text": text}]);
        match &part {
            Part::User(text) => messages.push(json!({"info": info("user"), "parts": said(n, text)})),
            Part::Compaction => {
                messages.push(json!({"info": info("user"), "parts": [{"id": "prt_c", "type": "compaction", "auto": true}]}));
                let mut of = info("assistant");
                of["id"] = format!("msg_{:02}", n + 1).into();
                of["parentID"] = format!("msg_{n:02}").into();
                of["summary"] = true.into();
                of["finish"] = "stop".into();
                messages.push(json!({"info": of, "parts": said(n + 1, SUMMARY)}));
            }
            _ => {
                let (tool, input, output) = call(&part, ("read", "filePath"), "bash").unwrap();
                let state = json!({"status": "completed", "input": input, "output": output});
                let of = json!({"id": format!("prt_{n:02}"), "type": "tool", "callID": format!("c{n}"), "tool": tool, "state": state});
                messages.push(json!({"info": info("assistant"), "parts": [of]}));
            }
        }
    }
    let export = json!({"info": {"id": "ses_1", "directory": "/w/app"}, "messages": messages});
    vec![("session.json", export.to_string())]
}

fn roo() -> Vec<(&'static str, String)> {
    let story = story();
    let before = story.iter().take_while(|part| !matches!(part, Part::Compaction)).count();
    let (mut messages, mut time) = (Vec::new(), 1_700_000_000_000_u64);
    let mut say = |role: &str, content: Value, marks: Value| {
        let mut message = json!({"role": role, "ts": time, "content": content});
        time += 1_000;
        message.as_object_mut().unwrap().extend(marks.as_object().unwrap().clone());
        messages.push(message);
    };
    for (at, part) in story.iter().enumerate() {
        // What a summary replaced stays in the file.
        let marks = if at < before { json!({"condenseParent": "x"}) } else { json!({}) };
        match part {
            Part::User(text) => say(
                "user",
                json!([{"type": "text", "text": format!("<user_message>\n{text}\n</user_message>")}]),
                marks,
            ),
            Part::Compaction => say(
                "user",
                json!([{"type": "text", "text": SUMMARY}]),
                json!({"isSummary": true, "condenseId": "x"}),
            ),
            _ => {
                let (name, input, text) = call(part, ("read_file", "path"), "execute_command").unwrap();
                let id = format!("t{at}");
                say(
                    "assistant",
                    json!([{"type": "tool_use", "id": id, "name": name, "input": input}]),
                    marks.clone(),
                );
                say("user", json!([{"type": "tool_result", "tool_use_id": id, "content": text}]), marks);
            }
        }
    }
    vec![("abc/api_conversation_history.json", Value::from(messages).to_string())]
}

fn kimi() -> Vec<(&'static str, String)> {
    let event =
        |of: Value| json!({"type": "context.append_loop_event", "event": of, "time": 1_767_225_600_000_u64});
    let mut all = vec![
        json!({"type": "metadata", "protocol_version": "1.4"}),
        json!({"type": "config.update", "systemPrompt": "Be brief.", "modelAlias": "k2"}),
    ];
    for (at, part) in story().iter().enumerate() {
        match part {
            Part::User(text) => all.push(json!({"type": "context.append_message", "message": {
                "role": "user", "content": [{"type": "text", "text": text}], "origin": {"kind": "user"}}})),
            Part::Compaction => all.push(json!({"type": "context.apply_compaction", "summary": SUMMARY,
                "contextSummary": SUMMARY, "compactedCount": 9, "keptUserMessageCount": 0,
                "tokensBefore": 900, "tokensAfter": 60})),
            _ => {
                let (name, args, output) = call(part, ("ReadFile", "path"), "Bash").unwrap();
                let (step, id) = (format!("u{at}"), format!("c{at}"));
                all.push(event(json!({"type": "step.begin", "uuid": step})));
                all.push(event(json!({"type": "tool.call", "stepUuid": step, "toolCallId": id, "name": name, "args": args})));
                all.push(event(
                    json!({"type": "tool.result", "toolCallId": id, "result": {"output": output}}),
                ));
                all.push(event(json!({"type": "step.end", "uuid": step})));
            }
        }
    }
    vec![("wire.jsonl", lines(all))]
}

fn pi() -> Vec<(&'static str, String)> {
    let mut all = vec![json!({"type": "session", "version": 3, "id": "s1", "cwd": "/x"})];
    let mut add = |of: Value| {
        let n = all.len();
        let mut line = json!({"id": format!("e{n}"), "parentId": (n > 1).then(|| format!("e{}", n - 1))});
        line.as_object_mut().unwrap().extend(of.as_object().unwrap().clone());
        all.push(line);
        n
    };
    let message = |of: Value| json!({"type": "message", "message": of});
    for (at, part) in story().iter().enumerate() {
        match part {
            Part::User(text) => _ = add(message(json!({"role": "user", "content": text}))),
            Part::Compaction => {
                // It is the first that stays.
                let next = format!("e{}", add(json!({"type": "label", "label": "x"})) + 2);
                add(
                    json!({"type": "compaction", "summary": SUMMARY, "firstKeptEntryId": next, "tokensBefore": 900}),
                );
            }
            _ => {
                let (name, arguments, text) = call(part, ("read", "path"), "bash").unwrap();
                let id = format!("c{at}");
                add(message(
                    json!({"role": "assistant", "model": "m", "content": [{"type": "toolCall", "id": id, "name": name, "arguments": arguments}]}),
                ));
                add(message(
                    json!({"role": "toolResult", "toolCallId": id, "toolName": name, "content": [{"type": "text", "text": text}], "isError": false}),
                ));
            }
        }
    }
    vec![("session.jsonl", lines(all))]
}

fn inspect() -> Vec<(&'static str, String)> {
    let (mut prompt, mut events) =
        (vec![json!({"id": "m", "role": "system", "content": "Be brief."})], Vec::new());
    let model = |prompt: &[Value], message: &Value| {
        json!({"event": "model", "span_id": "s", "input": prompt,
            "output": {"model": "m", "choices": [{"message": message}]}})
    };
    for (at, part) in story().iter().enumerate() {
        let user = |text: &str| json!({"id": format!("m{at}"), "role": "user", "content": text});
        match part {
            Part::User(text) => prompt.push(user(text)),
            Part::Compaction => {
                let asked = [prompt.clone(), vec![user("Write a summary.")]].concat();
                events.push(model(&asked, &json!({"role": "assistant", "content": SUMMARY})));
                events.push(json!({"event": "compaction", "span_id": "s", "type": "summary", "tokens_before": 900, "tokens_after": 60}));
                prompt = vec![prompt[0].clone(), prompt[1].clone(), user(SUMMARY)];
            }
            _ => {
                let (function, arguments, text) = call(part, ("read_file", "path"), "bash").unwrap();
                let id = format!("c{at}");
                let reply = json!({"id": format!("m{at}"), "role": "assistant", "content": "On.",
                    "tool_calls": [{"id": id, "function": function, "arguments": arguments, "type": "function"}]});
                events.push(model(&prompt, &reply));
                prompt.push(reply);
                prompt.push(json!({"id": format!("r{at}"), "role": "tool", "content": text, "tool_call_id": id, "function": function}));
            }
        }
    }
    let sample = json!({"id": "1", "epoch": 1, "events": events, "messages": prompt});
    let file = json!({"version": 2, "status": "success", "eval": {"task": "t", "model": "p/m"}, "plan": {"steps": []}, "samples": [sample]});
    vec![("log.json", file.to_string())]
}

/// It records no compaction: the whole context is logged anew, with an answer of the program behind the summary.
fn gemini() -> Vec<(&'static str, String)> {
    let said =
        |id: &str, kind: &str, text: &str| json!({"id": id, "type": kind, "content": [{"text": text}]});
    let mut all = vec![json!({"sessionId": "s1", "projectHash": "p", "directories": ["/w/app"]})];
    for (at, part) in story().iter().enumerate() {
        let id = format!("m{at}");
        match part {
            Part::User(text) => all.push(said(&id, "user", text)),
            Part::Compaction => all.push(json!({"$set": {"messages":
                [said("s", "user", SUMMARY), said("k", "gemini", "Got it. Thanks for the additional context!")]}})),
            _ => {
                let (name, args, output) = call(part, ("read_file", "absolute_path"), "run_shell_command").unwrap();
                let result = json!([{"functionResponse": {"id": id, "name": name, "response": {"output": output}}}]);
                let call = json!({"id": id, "name": name, "args": args, "result": result, "status": "success"});
                all.push(json!({"id": id, "type": "gemini", "content": "", "model": "m", "toolCalls": [call]}));
            }
        }
    }
    vec![("session.jsonl", lines(all))]
}

fn audit(folder: &Path) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
    let out = command.args(["audit", "--json"]).arg(folder).output().unwrap();
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).unwrap()
}

#[test]
fn a_compaction_is_told_alike_of_all_products() {
    let products: [(&str, Vec<(&str, String)>); 7] = [
        ("openhands", openhands()),
        ("opencode", opencode()),
        ("roo-code", roo()),
        ("kimi-code", kimi()),
        ("pi", pi()),
        ("inspect", inspect()),
        ("gemini-cli", gemini()),
    ];
    for (product, files) in products {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let told = audit(dir.path());
        let session = &told["sessions"][0];
        assert!(session["format"].as_str().unwrap_or_default().starts_with(product), "{product}: {told:#}");
        let of = &session["compactions"][0];
        assert_eq!(
            (&session["compactions"][1], &session["edits"]),
            (&Value::Null, &json!([])),
            "{product}: {session:#}"
        );
        // What the product itself counted stands beside what is counted here.
        let logged = match product {
            "kimi-code" | "inspect" => [json!(900), json!(60)],
            "pi" => [json!(900), Value::Null],
            _ => [Value::Null, Value::Null],
        };
        assert_eq!([&of["logged_before"], &of["logged_after"]], logged.each_ref(), "{product}: {of:#}");
        assert!(of["prompt_before"].as_u64() > of["prompt_after"].as_u64(), "{product}: {of:#}");
        // The first call behind it is the ninth, but where words of the user are turns of their own.
        let turn = of["turn"].as_u64().unwrap_or_default();
        assert_eq!(of["calls_left"], 2, "{product}: {of:#}");
        let lost: Vec<&Value> =
            of["lost"].as_array().unwrap().iter().filter(|lost| lost["what"] == "helper_22").collect();
        assert_eq!(lost.len(), 1, "{product}: {of:#}");
        assert_eq!(
            (&lost[0]["last_seen_at"], &lost[0]["used_at"]),
            (&json!(2), &json!(turn + 2)),
            "{product}: {of:#}"
        );
        assert_eq!(of["named_nowhere_before"], json!(["src/zeta.rs"]), "{product}");
        let again = of["read_again"].as_array().unwrap();
        assert_eq!(again.len(), 1, "{product}: {of:#}");
        assert_eq!((&again[0]["before"], &again[0]["turn"]), (&json!(1), &json!(turn + 1)), "{product}");
        assert!(again[0]["path"].as_str().unwrap().ends_with("src/a.rs"), "{product}");
        let gone: Vec<&str> = of["user_words_gone"]
            .as_array()
            .unwrap()
            .iter()
            .map(|words| words["text"].as_str().unwrap())
            .collect();
        assert!(gone.contains(&WORDS), "{product}: {gone:?}");
    }
}
