//! `trajpress export`: what it writes is valid for its API and is read back with the same counts, from every format of log.
//! What an API demands is told here anew, from its documentation.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::place::Place;
use trajpress::internals::store::{self, StepRow, TrajectoryRow};

impl Place {
    /// Runs it, and gives what it says in JSON.
    fn told(&self, args: &[&str]) -> Value {
        let output = self.program(args);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {text}");
        serde_json::from_str(&text[text.find("{\n").unwrap()..]).unwrap()
    }

    /// A run of some variants over these logs.
    fn of(logs: &[PathBuf], sample: Option<usize>) -> Self {
        let place = Place(tempfile::tempdir().unwrap());
        let sample = sample.map_or_else(String::new, |n| format!("[data]\nsample = {n}\n"));
        let experiment = format!(
            "name = \"x\"\n{sample}[[strategies]]\nname = \"full\"\n[[strategies]]\nname = \"mask\"\nkeep_last = 2\n\
             [[strategies]]\nname = \"summary\"\n[[triggers]]\nname = \"turns\"\nn = 3\n"
        );
        fs::write(place.at("x.toml"), experiment).unwrap();
        let mut ingest = vec!["ingest"];
        ingest.extend(logs.iter().map(|path| path.to_str().unwrap()));
        ingest.extend(["--out", "data"]);
        assert!(place.program(&ingest).status.code() < Some(2));
        assert!(place.program(&["run", "x.toml", "--data", "data", "--out", "run"]).status.success());
        place
    }

    /// What the steps that are read of a file count, how many runs they are, and how many were there before.
    fn read_back(&self, file: &str) -> (Value, u64, u64) {
        assert!(self.program(&["ingest", file, "--fresh", "--out", "back"]).status.success(), "{file}");
        let steps: Vec<StepRow> = store::read(&self.at("back/steps.parquet")).unwrap();
        let runs: Vec<TrajectoryRow> = store::read(&self.at("back/trajectories.parquet")).unwrap();
        let n = |is: &dyn Fn(&StepRow) -> bool| steps.iter().filter(|step| is(step)).count();
        let counts = json!({
            "system": n(&|s| s.role == "system" && s.kind != "tools"),
            "user": n(&|s| s.role == "user"),
            "replies": n(&|s| s.role == "agent" && s.kind != "action"),
            "calls": n(&|s| s.kind == "action"),
            "results": n(&|s| s.kind == "observation"),
        });
        let record: Value = serde_json::from_slice(&fs::read(self.at("back/ingest.json")).unwrap()).unwrap();
        (counts, runs.len() as u64, record["duplicates"].as_array().map_or(0, Vec::len) as u64)
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn is_name(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-')
}

/// What is wrong with a request to OpenAI, if anything is.
fn openai(request: &Value) -> Option<String> {
    let mut open: Vec<&str> = Vec::new();
    let mut known = BTreeSet::new();
    for (at, message) in list(request, "messages").iter().enumerate() {
        let role = text(message, "role");
        if role != "tool" && !open.is_empty() {
            return Some(format!("{at}: {open:?} are not answered"));
        }
        let is_right = match role {
            "tool" => {
                let answered = open.iter().position(|id| *id == text(message, "tool_call_id"));
                answered.map(|at| open.remove(at)).is_some() && message["content"].is_string()
            }
            "assistant" => {
                for call in list(message, "tool_calls") {
                    let function = &call["function"];
                    let arguments = serde_json::from_str::<Value>(text(function, "arguments"));
                    let is_sound = arguments.is_ok_and(|a| a.is_object()) && is_name(text(function, "name"));
                    let id = text(call, "id");
                    if !is_sound || !known.insert(id) || !(1..=40).contains(&id.len()) {
                        return Some(format!("{at}: the call {call}"));
                    }
                    open.push(id);
                }
                !open.is_empty() || !text(message, "content").trim().is_empty()
            }
            "system" | "user" => !text(message, "content").trim().is_empty(),
            _ => false,
        };
        if !is_right {
            return Some(format!("{at}: {message}"));
        }
    }
    (!open.is_empty()).then(|| format!("{open:?} are not answered at the end"))
}

/// The same of Anthropic.
fn anthropic(request: &Value) -> Option<String> {
    let mut open: BTreeSet<&str> = BTreeSet::new();
    let messages = list(request, "messages");
    for (at, message) in messages.iter().enumerate() {
        let role = text(message, "role");
        if role != ["user", "assistant"][at % 2] {
            return Some(format!("{at} is by {role}"));
        }
        let mut is_behind = false;
        for block in list(message, "content") {
            let is_right = match text(block, "type") {
                "text" => {
                    is_behind = true;
                    !text(block, "text").trim().is_empty()
                }
                "tool_use" => {
                    let is_known = list(request, "tools").iter().any(|tool| tool["name"] == block["name"]);
                    let is_sound = block["input"].is_object() && is_name(text(block, "name")) && is_known;
                    is_sound && role == "assistant" && open.insert(text(block, "id"))
                }
                "tool_result" => role == "user" && !is_behind && open.remove(text(block, "tool_use_id")),
                _ => false,
            };
            if !is_right {
                return Some(format!("{at}: {block}"));
            }
        }
        if role == "user" && !open.is_empty() || list(message, "content").is_empty() {
            return Some(format!("{at}: {open:?} are not answered"));
        }
    }
    (messages.is_empty() || !open.is_empty()).then(|| "the end".to_owned())
}

/// The same of ATIF.
fn atif(run: &Value) -> Option<String> {
    for (at, step) in (1..).zip(list(run, "steps")) {
        let calls: Vec<&str> = list(step, "tool_calls").iter().map(|c| text(c, "tool_call_id")).collect();
        let results = list(&step["observation"], "results").iter().map(|r| text(r, "source_call_id"));
        let is_right = step["step_id"] == json!(at)
            && ["system", "user", "agent"].contains(&text(step, "source"))
            && step["message"].is_string()
            && results.collect::<Vec<_>>() == calls;
        if !is_right {
            return Some(step.to_string());
        }
    }
    (run["agent"]["name"].is_null() || run["agent"]["version"].is_null()).then(|| "no agent".to_owned())
}

type Check = fn(&Value) -> Option<String>;
const FORMS: [(&str, Check); 3] = [("openai", openai), ("anthropic", anthropic), ("atif", atif)];

/// Folders of logs, how many sessions are taken, from each format in turn (all in the long form, `TRAJPRESS_SOAK=1`), and how many
/// formats there are at least.
fn logs() -> (Vec<PathBuf>, Option<usize>, usize) {
    let folder = |name| std::env::var_os(name).map(PathBuf::from);
    let sample = |n: usize| std::env::var_os("TRAJPRESS_SOAK").is_none().then_some(n);
    match (folder("TRAJPRESS_LOGS"), folder("TRAJPRESS_FORMATS")) {
        (Some(logs), Some(formats)) => (vec![logs, formats], sample(88), 40),
        (Some(logs), None) => {
            eprintln!("SKIPPED: TRAJPRESS_FORMATS names no folder of logs of more formats");
            (vec![logs], sample(66), 16)
        }
        _ => {
            eprintln!("SKIPPED: TRAJPRESS_LOGS names no folder of logs; the built-in ones stand for them");
            (vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/coding")], sample(8), 1)
        }
    }
}

/// Who speaks behind whom in a request.
fn patterns(request: &Value, to: &mut BTreeMap<String, u64>) {
    let roles: Vec<&str> = list(request, "messages").iter().map(|message| text(message, "role")).collect();
    for pair in roles.windows(2) {
        *to.entry(pair.join(" > ")).or_default() += 1;
    }
}

#[test]
fn prompts_of_every_format_are_valid_and_are_read_back() {
    let (logs, sample, least) = logs();
    let place = Place::of(&logs, sample);
    let formats: HashMap<String, String> =
        store::read::<TrajectoryRow>(&place.at("data/trajectories.parquet"))
            .unwrap()
            .into_iter()
            .map(|run| (run.trajectory, run.format))
            .collect();
    // By format: its sessions, and the prompts that are valid in each form.
    let mut seen: BTreeMap<String, (BTreeSet<String>, [u64; 3])> = BTreeMap::new();
    let mut spoken: BTreeMap<String, u64> = BTreeMap::new();
    for (at, (form, check)) in FORMS.into_iter().enumerate() {
        for variant in ["full", "mask", "summary"] {
            let mut args = vec!["export", "run", "--variant", variant, "--as", form, "--json"];
            args.extend(["--with-system", "--out", "x.jsonl"]);
            if variant == "mask" {
                args.extend(["--at", "1"]);
            }
            let told = place.told(&args);
            let written = fs::read_to_string(place.at("x.jsonl")).unwrap();
            for line in written.lines() {
                let document: Value = serde_json::from_str(line).unwrap();
                let id = [text(&document, "id"), text(&document, "session_id")].concat();
                let session = id.split('-').next().unwrap();
                patterns(&document, &mut spoken);
                let wrong = check(&document);
                assert!(wrong.is_none(), "{form} {variant} of {} {id}: {}", formats[session], wrong.unwrap());
                let (sessions, valid) = seen.entry(formats[session].clone()).or_default();
                sessions.insert(session.to_owned());
                valid[at] += 1;
            }
            let (counts, n_runs, twice) = place.read_back("x.jsonl");
            println!(
                "{form} {variant}: {n_runs} of {} prompts read back, {twice} stand there twice",
                told["prompts"]
            );
            assert_eq!(
                (json!(n_runs + twice), n_runs + twice),
                (told["prompts"].clone(), written.lines().count() as u64)
            );
            assert!(twice > 0 || counts == told["counts"], "{form} {variant}: {counts} of {told:#}");
        }
    }
    println!("| format | sessions | OpenAI | Anthropic | ATIF |\n| --- | --: | --: | --: | --: |");
    for (format, (sessions, [openai, anthropic, atif])) in &seen {
        println!("| {format} | {} | {openai} | {anthropic} | {atif} |", sessions.len());
    }
    println!("{spoken:#?}");
    assert!(seen.len() >= least && spoken.contains_key("tool > user"), "{seen:?}; {spoken:?}");
}

const LOG: &str = r#"{"messages":[{"role":"system","content":"You help."},{"role":"user","content":"Log in with DB_PASSWORD=\"kD83nfQz71LmWx02PvRt\"."},
{"role":"assistant","content":"I try.","tool_calls":[{"id":"c","function":{"name":"my.bash","arguments":"{\"command\":\"login kD83nfQz71LmWx02PvRt\"}"}}]},
{"role":"user","content":"Go on."},{"role":"tool","tool_call_id":"c","content":"denied"},
{"role":"assistant","content":null,"tool_calls":[{"id":"c","function":{"name":"bash","arguments":"no json"}}]},
{"role":"assistant","content":"It was denied."},{"role":"user","content":"Then stop."},{"role":"assistant","content":"Done."}],"task_id":"t-1"}"#;

#[test]
fn a_prompt_is_written_in_each_form() {
    let place = Place(tempfile::tempdir().unwrap());
    fs::write(place.at("log.jsonl"), LOG.replace('\n', "")).unwrap();
    fs::write(place.at("x.toml"), "name = \"x\"\n[[strategies]]\nname = \"full\"\n").unwrap();
    place.program(&["ingest", "log.jsonl", "--out", "data"]);
    place.program(&["run", "x.toml", "--data", "data", "--out", "run"]);
    let told = place.told(&["export", "run", "--variant", "full", "--out", "out", "--json"]);
    assert_eq!(told["notes"]["system message left out"], 1, "{told:#}");
    assert_eq!(told["notes"]["result that is not there added, as \"(no result)\""], 1, "{told:#}");
    let file = fs::read_dir(place.at("out")).unwrap().next().unwrap().unwrap().path();
    let document: Value = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
    let say = |role: &str, text: &str| json!({"role": role, "content": text});
    let call = |id: &str, name: &str, arguments: &str| json!([{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]);
    // The result stands behind its call, although the user spoke first, and the password is none.
    assert_eq!(
        document["messages"],
        json!([
            say("user", "Log in with DB_PASSWORD=\"<password-1>\"."),
            {"role": "assistant", "content": "I try.", "tool_calls": call("call_3", "my_bash", r#"{"command":"login <password-1>"}"#)},
            {"role": "tool", "tool_call_id": "call_3", "content": "denied"},
            say("user", "Go on."),
            {"role": "assistant", "content": null, "tool_calls": call("call_6", "bash", r#"{"input":"no json"}"#)},
            {"role": "tool", "tool_call_id": "call_6", "content": "(no result)"},
            say("assistant", "It was denied."),
            say("user", "Then stop."),
            say("assistant", "Done."),
        ])
    );
    let raw =
        place.program(&["export", "run", "--variant", "full", "--as", "text", "--raw", "--with-system"]);
    let text = String::from_utf8(raw.stdout).unwrap();
    assert!(
        text.contains(r#"System: You help.\n\nUser: Log in with DB_PASSWORD=\"kD83nfQz71LmWx02PvRt\"."#),
        "{text}"
    );
    let none = place.program(&["export", "run", "--variant", "full", "--at", "9"]);
    let told = String::from_utf8_lossy(&none.stderr);
    assert!(
        none.status.code() == Some(1) && told.contains("hint: nothing was compressed; `--at end`"),
        "{told}"
    );
    // A run knows of which data it is.
    fs::create_dir(place.at("deep")).unwrap();
    fs::rename(place.at("run"), place.at("deep/run")).unwrap();
    let refused = |args: &[&str]| {
        let output = place.program(args);
        assert_eq!(output.status.code(), Some(2));
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let error = refused(&["export", "deep/run", "--variant", "full"]);
    assert!(error.contains("are not beside it\nhint: name them with `--data DIR`"), "{error}");
    fs::write(place.at("more.jsonl"), LOG.replace('\n', "").replace("t-1", "t-2")).unwrap();
    place.program(&["ingest", "log.jsonl", "more.jsonl", "--out", "other"]);
    place.program(&["annotate", "other"]);
    let error = refused(&["export", "deep/run", "--variant", "full", "--data", "other"]);
    assert!(error.contains("other are not the data that deep/run was made from"), "{error}");
    let error = refused(&["export", "deep/run", "--variant", "mask", "--data", "data"]);
    assert!(error.contains("no variant `mask`\nhint: these are: full"), "{error}");
    assert!(refused(&["export", "data", "--variant", "full"]).contains("data is no run"));
}

/// Which one it is stands on the console, and how many it could have been.
#[test]
fn of_several_variants_the_one_taken_is_told() {
    let place = Place(tempfile::tempdir().unwrap());
    fs::write(place.at("log.jsonl"), LOG.replace('\n', "")).unwrap();
    let strategies = "[[strategies]]\nname = \"mask\"\n[[strategies]]\nname = \"mask\"\nkeep_last = 1\n[[strategies]]\nname = \"full\"\n[[triggers]]\nname = \"turns\"\nn = 1\n";
    fs::write(place.at("x.toml"), format!("name = \"x\"\n{strategies}")).unwrap();
    place.program(&["ingest", "log.jsonl", "--out", "data"]);
    place.program(&["run", "x.toml", "--data", "data", "--out", "run"]);
    let told = |name: &str| {
        let output = place.program(&["export", "run", "--variant", name]);
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    assert!(
        told("mas").contains("`mas` is part of 2 variants: `mask") && told("mas").contains("1 more fit"),
        "{}",
        told("mas")
    );
    assert!(!told("full").contains("more fit"), "{}", told("full"));
    let output = place.program(&["export", "run", "--variant", "mask(keep_last=1)", "--at", "99"]);
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("hint: the last event of a trajectory is `--at 1` at most"), "{told}");
}
