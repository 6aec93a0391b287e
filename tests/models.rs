//! `trajpress models` through the binary, on tiny models and without a network.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

struct Place {
    dir: tempfile::TempDir,
    hub: String,
}

impl Place {
    fn new() -> Self {
        // Nobody answers there unless a test sets another.
        Place { dir: tempfile::tempdir().unwrap(), hub: "http://127.0.0.1:9".to_owned() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
        command.args(args).current_dir(self.dir.path());
        command.env("TRAJPRESS_MODELS", self.at("models")).env("HF_ENDPOINT", &self.hub);
        command
    }

    /// Runs `trajpress ARGS --models own.toml`.
    fn run(&self, args: &[&str]) -> Output {
        self.command(args).args(["--models", "own.toml"]).output().unwrap()
    }

    /// Writes the file of models: name, bytes that it should have, sources.
    fn own(&self, models: &[(&str, &[u8], &str)]) {
        let one = |(name, bytes, sources): &(&str, &[u8], &str)| {
            let hash: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
            format!(
                "[[models]]\nname = \"{name}\"\nroles = [\"generator\"]\ncontext = 512\nbytes = {}\nsha256 = \"{hash}\"\nsources = [{sources}]\n",
                bytes.len()
            )
        };
        fs::write(self.at("own.toml"), models.iter().map(one).collect::<String>()).unwrap();
    }

    /// Writes a file in two parts, and says how to join them.
    fn halves(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.at(&format!("{name}.1")), &bytes[..40]).unwrap();
        fs::write(self.at(&format!("{name}.2")), &bytes[40..]).unwrap();
        format!("{{ parts = [{{ path = \"{name}.1\" }}, {{ path = \"{name}.2\" }}] }}")
    }

    /// Name and state of each row of a `--json` output.
    fn states(&self, args: &[&str], code: i32) -> Vec<String> {
        let output = self.run(&[args, &["--json"]].concat());
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
        rows.iter()
            .map(|r| format!("{} {}", r["name"].as_str().unwrap(), r["state"].as_str().unwrap()))
            .collect()
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A GGUF without tensors, that differs by its name.
fn gguf(name: &str) -> Vec<u8> {
    let string = |s: &str| [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat();
    let mut bytes = [&b"GGUF"[..], &3u32.to_le_bytes(), &0u64.to_le_bytes(), &2u64.to_le_bytes()].concat();
    bytes.extend([string("general.name"), 8u32.to_le_bytes().to_vec(), string(name)].concat());
    bytes.extend([string("x.context_length"), [4u32, 512].map(u32::to_le_bytes).concat()].concat());
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes
}

#[test]
fn models_are_fetched_checked_and_mended() {
    let place = Place::new();
    let bytes = gguf("own");
    place.own(&[("own", &bytes, &place.halves("own", &bytes))]);
    let file = place.at("models/own.gguf");
    assert_eq!(place.states(&["models", "check", "own"], 1), ["own missing"]);
    assert_eq!(place.states(&["models", "fetch", "own"], 0), ["own fetched"]);
    assert_eq!(fs::read(&file).unwrap(), bytes);
    assert_eq!(place.states(&["models", "check", "own"], 0), ["own ok"]);
    assert_eq!(place.states(&["models", "fetch", "own"], 0), ["own there"]);

    // One wrong byte, told with what was expected; a fetch replaces the file.
    fs::write(&file, gguf("OWN")).unwrap();
    let check = place.run(&["models", "check", "own"]);
    let table = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(
        table.contains("own  wrong") && table.contains("has sha256") && table.contains("expected"),
        "{table}"
    );
    assert_eq!(
        (check.status.code(), text(&check).as_str()),
        (Some(1), "hint: `trajpress models fetch own`\n")
    );
    assert_eq!(place.states(&["models", "fetch", "own"], 0), ["own fetched"]);
    assert_eq!(place.states(&["models", "check", "own"], 0), ["own ok"]);

    let list = place.run(&["list", "models", "--json"]);
    let list: Vec<Value> = serde_json::from_slice(&list.stdout).unwrap();
    let there: Vec<&str> =
        list.iter().filter(|m| m["is_there"] == true).map(|m| m["name"].as_str().unwrap()).collect();
    assert_eq!(there, ["own"]);
    assert!(list.iter().any(|m| m["sets"][0] == "default" && m["roles"][0] == "embedder"));
}

#[test]
fn a_wrong_hash_is_refused_and_finished_work_stays() {
    let place = Place::new();
    fs::write(place.at("mine"), gguf("evil")).unwrap();
    let bad = place.halves("bad", &gguf("evil")) + ", { path = \"mine\" }, { hub = \"a/b\", file = \"c\" }";
    place.own(&[("good", &gguf("good"), &place.halves("good", &gguf("good"))), ("bad", &gguf("base"), &bad)]);
    let output = place.run(&["models", "fetch", "good", "bad"]);
    let error = text(&output);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("error: model `bad` could not be fetched"), "{error}");
    assert_eq!(
        error.matches("wrong bytes, refused: sha256").count(),
        2,
        "as a warning and at the end: {error}"
    );
    assert!(error.contains("Connection refused"), "{error}");
    let left = |name: &str| place.at("models").join(name).exists();
    assert_eq!((left("good.gguf"), left("bad.gguf")), (true, false));
    assert_eq!(fs::read(place.at("mine")).unwrap(), gguf("evil"), "a file of the user's stays");
}

#[test]
fn any_gguf_is_checked_by_its_path() {
    let place = Place::new();
    place.own(&[]);
    fs::write(place.at("x.gguf"), gguf("x")).unwrap();
    fs::write(place.at("cut.gguf"), &gguf("x")[..50]).unwrap();
    fs::write(place.at("no.gguf"), "text").unwrap();
    let states = place.states(&["models", "check", "x.gguf", "./cut.gguf", "no.gguf", "gone.gguf"], 1);
    assert_eq!(states, ["x.gguf ok", "./cut.gguf wrong", "no.gguf wrong", "gone.gguf missing"]);
    // A pipe that nobody writes to is not waited for.
    #[cfg(unix)]
    {
        assert!(Command::new("mkfifo").arg(place.at("pipe.gguf")).status().unwrap().success());
        fs::create_dir(place.at("folder.gguf")).unwrap();
        let states = place.states(&["models", "check", "pipe.gguf", "folder.gguf"], 1);
        assert_eq!(states, ["pipe.gguf wrong", "folder.gguf wrong"]);
    }
}

#[test]
fn what_is_asked_wrongly_is_told() {
    let place = Place::new();
    place.own(&[]);
    let output = place.run(&["models", "fetch", "smollm-135m"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("did you mean `smollm2-135m`?"), "{}", text(&output));
    let output = place.run(&["models", "fetch", "defualt"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("did you mean `default`?"), "{}", text(&output));
    fs::write(place.at("own.toml"), "[sets.mine]\nembeder = \"minilm-l6\"").unwrap();
    let output = place.run(&["models", "check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("own.toml:2: unknown key `embeder`"), "{}", text(&output));
    // A folder that cannot be made.
    place.own(&[("own", b"x", "{ hub = \"a/b\", file = \"c\" }")]);
    fs::write(place.at("models"), "a file").unwrap();
    let output = place.run(&["models", "fetch", "own"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("hint: set TRAJPRESS_MODELS"), "{}", text(&output));
}

/// A server with an OpenAI-compatible API that writes `a b` to whatever it is asked, on loopback until the test's
/// process ends; its URL.
fn server() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let (mut head, mut length) = (String::new(), 0);
            reader.read_line(&mut head).unwrap();
            for line in reader.by_ref().lines().map_while(Result::ok).take_while(|l| !l.is_empty()) {
                if let Some(n) = line.to_lowercase().strip_prefix("content-length:") {
                    length = n.trim().parse().unwrap();
                }
            }
            reader.read_exact(&mut vec![0; length]).unwrap();
            let (kind, body) = match head.starts_with("GET /v1/models ") {
                true => ("application/json", r#"{"data": [{"id": "m"}]}"#.to_owned()),
                false => {
                    let event = |text: &str, finish: &str| {
                        format!(
                            "data: {{\"choices\": [{{\"text\": \"{text}\", \"finish_reason\": {finish}}}]}}\n\n"
                        )
                    };
                    let usage = "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": 9, \"completion_tokens\": 2}}\n\n";
                    (
                        "text/event-stream",
                        event("a ", "null") + &event("b", "\"stop\"") + usage + "data: [DONE]\n\n",
                    )
                }
            };
            let head = format!("HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\nconnection: close\r\n\r\n");
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    url
}

#[test]
fn a_server_is_a_model_like_any_other() {
    let place = Place::new();
    let url = server();
    let big = |name: &str, url: &str| {
        format!(
            "[[servers]]\nname = \"{name}\"\nroles = [\"generator\"]\nabout = \"ours\"\nurl = \"{url}\"\nwindow = 4096\n"
        )
    };
    let dead = big("dead", "http://127.0.0.1:9") + "retries = 0\n";
    let sets = "[sets.mine]\ngenerator = \"big\"\nembedder = \"minilm-l6\"\n";
    fs::write(place.at("own.toml"), big("big", &url) + &dead + sets).unwrap();

    let list = place.run(&["list", "models", "--json"]);
    let list: Vec<Value> = serde_json::from_slice(&list.stdout).unwrap();
    let listed = list.iter().find(|m| m["name"] == "big").unwrap();
    let expected = serde_json::json!({
        "name": "big", "summary": "ours", "roles": ["generator"], "sets": ["mine"], "server": url, "context": 4096,
    });
    assert_eq!(listed, &expected);
    let table = place.run(&["list", "models"]);
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(
        table.lines().any(|l| l.starts_with("big ") && l.contains("server") && l.contains(&url)),
        "{table}"
    );

    assert_eq!(place.states(&["models", "fetch", "big"], 0), ["big remote"]);
    assert_eq!(place.states(&["models", "check", "big"], 0), ["big ok"]);
    assert_eq!(place.states(&["models", "check", "mine"], 1), ["big ok", "minilm-l6 missing"]);
    let check = place.run(&["models", "check", "big", "dead"]);
    let table = String::from_utf8_lossy(&check.stdout).into_owned();
    assert!(table.contains("model m") && table.contains("window 4096"), "{table}");
    assert!(table.contains("dead  wrong") && table.contains("no answer from http://127.0.0.1:9"), "{table}");
    assert_eq!((check.status.code(), text(&check).as_str()), (Some(1), ""), "no hint to fetch it");

    #[cfg(feature = "llama")]
    {
        let bench = place.run(&["models", "bench", "big", "--sequences", "2", "--json"]);
        assert_eq!(bench.status.code(), Some(0), "{}", text(&bench));
        let lines: Vec<Value> = serde_json::from_slice(&bench.stdout).unwrap();
        assert_eq!((&lines[0]["model"], &lines[0]["contexts"]), (&"big".into(), &Value::Null));
        assert!(lines[0]["prefill"].as_f64().unwrap() > 0.0 && lines[0]["sequences"] == 2, "{lines:?}");
        let bench = place.run(&["models", "bench", "dead"]);
        assert!(text(&bench).contains("model dead: no answer from"), "{}", text(&bench));
    }
}

#[test]
fn calls_of_other_programs_are_answered_in_their_order() {
    let place = Place::new();
    let server = format!(
        "[[servers]]\nname = \"big\"\nroles = [\"generator\", \"scorer\"]\nkind = \"openai\"\nurl = \"{}\"\nwindow = 4096\n",
        server()
    );
    fs::write(place.at("own.toml"), server).unwrap();
    let asked = |args: &[&str], calls: &str| {
        let all = [&["models", "call", "big", "--models", "own.toml"], args].concat();
        let mut command = place.command(&all);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        child.stdin.take().unwrap().write_all(calls.as_bytes()).unwrap();
        child.wait_with_output().unwrap()
    };
    let generate = |text: &str| {
        serde_json::json!({"generate": {"prompt": {"parts": [{"text": text}]}, "max_tokens": 4}}).to_string()
    };
    let score = r#"{"score": {"prompt": {"parts": [{"text": "x"}]}, "continuations": [" y"]}}"#;

    let output = asked(&["--cache", "calls.sqlite"], &[&generate("x"), score, &generate("z"), ""].join("\n"));
    let lines: Vec<Value> =
        output.stdout.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
    assert_eq!(lines.len(), 3, "{}", text(&output));
    assert_eq!((&lines[0]["text"]["text"], &lines[0]["text"]["finish"]), (&"a b".into(), &"stop".into()));
    assert!(lines[1]["error"].as_str().unwrap().contains("cannot"), "{lines:?}");
    assert_eq!(lines[2], lines[0]);
    assert_eq!((output.status.code(), text(&output).contains("1 call without an answer")), (Some(1), true));
    assert!(place.at("calls.sqlite").exists());

    // Nothing is asked where a line is wrong, and no cache is made.
    let output = asked(&["--cache", "other.sqlite"], &format!("{}\n{{\"scores\": 1}}\n", generate("x")));
    let told = text(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{told}");
    assert!(told.contains("standard input, line 2, column 9: unknown variant `scores`"), "{told}");
    assert!(!place.at("other.sqlite").exists());
    let output = asked(&["--no-cache", "--quiet"], "");
    assert_eq!((output.status.code(), output.stdout.len(), text(&output).as_str()), (Some(0), 0, ""));
}

#[test]
fn a_killed_fetch_leaves_no_half_model() {
    // The first caller gets half and no end, the next ones all of it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place { hub: format!("http://{}", listener.local_addr().unwrap()), ..Place::new() };
    let bytes = gguf("own");
    let whole = bytes.clone();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let lines = BufReader::new(stream.try_clone().unwrap()).lines();
            lines.take_while(|l| l.as_ref().is_ok_and(|l| !l.is_empty())).for_each(drop);
            let n = if kept.is_empty() { whole.len() / 2 } else { whole.len() };
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", whole.len()).unwrap();
            stream.write_all(&whole[..n]).unwrap();
            kept.push(stream);
        }
    });
    place.own(&[("own", &bytes, "{ hub = \"a/b\", file = \"c\" }")]);
    let mut child = place.command(&["models", "fetch", "own", "--models", "own.toml", "-q"]).spawn().unwrap();
    let drafts = || -> Vec<PathBuf> {
        let files = fs::read_dir(place.at("models")).into_iter().flatten().flatten();
        files.map(|f| f.path().join("model")).filter(|p| size(p) > 0).collect()
    };
    let start = Instant::now();
    while drafts().is_empty() {
        assert!(start.elapsed() < Duration::from_secs(20), "the fetch does not begin");
        std::thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!place.at("models/own.gguf").exists());
    assert_eq!(drafts().len(), 1, "a kill leaves rubbish");
    assert_eq!(place.states(&["models", "fetch", "own"], 0), ["own fetched"]);
    assert_eq!(fs::read(place.at("models/own.gguf")).unwrap(), bytes);
    assert!(drafts().is_empty(), "the next fetch removes it");
}

fn size(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |m| m.len())
}

/// Safetensors of a BERT of 6 layers and width 4, and a vocabulary of 7 tokens.
fn tiny_bert() -> (Vec<u8>, String) {
    let mut shapes: Vec<(String, Vec<usize>)> = vec![
        ("embeddings.word_embeddings.weight".to_owned(), vec![7, 4]),
        ("embeddings.position_embeddings.weight".to_owned(), vec![8, 4]),
        ("embeddings.token_type_embeddings.weight".to_owned(), vec![2, 4]),
        ("embeddings.LayerNorm.weight".to_owned(), vec![4]),
        ("embeddings.LayerNorm.bias".to_owned(), vec![4]),
        ("pooler.dense.weight".to_owned(), vec![4, 4]),
    ];
    for layer in 0..6 {
        for (name, rows, columns) in [
            ("attention.self.query", 4, 4),
            ("attention.self.key", 4, 4),
            ("attention.self.value", 4, 4),
            ("attention.output.dense", 4, 4),
            ("attention.output.LayerNorm", 4, 0),
            ("intermediate.dense", 16, 4),
            ("output.dense", 4, 16),
            ("output.LayerNorm", 4, 0),
        ] {
            let shape = if columns == 0 { vec![rows] } else { vec![rows, columns] };
            shapes.push((format!("encoder.layer.{layer}.{name}.weight"), shape));
            shapes.push((format!("encoder.layer.{layer}.{name}.bias"), vec![rows]));
        }
    }
    let (mut header, mut data) = (serde_json::Map::new(), Vec::new());
    for (name, shape) in shapes {
        let begin = data.len();
        let n: usize = shape.iter().product();
        data.extend((0..n).flat_map(|i| (i as f32 / 7.0 - 1.0).to_le_bytes()));
        let entry =
            serde_json::json!({ "dtype": "F32", "shape": shape, "data_offsets": [begin, data.len()] });
        header.insert(name, entry);
    }
    let header = Value::from(header).to_string();
    let special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];
    let ids: serde_json::Map<String, Value> = special
        .iter()
        .chain(&["a", "##b"])
        .zip(0..)
        .map(|(t, i)| ((*t).to_owned(), Value::from(i)))
        .collect();
    let added: Vec<Value> =
        special.iter().map(|t| serde_json::json!({ "content": t, "special": true })).collect();
    let tokenizer = serde_json::json!({ "model": { "vocab": ids }, "added_tokens": added });
    let safetensors = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    (safetensors, tokenizer.to_string())
}

#[test]
fn the_converter_makes_the_same_whole_gguf_everywhere() {
    let python = std::env::var("TRAJPRESS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if !Command::new(&python).arg("--version").output().is_ok_and(|o| o.status.success()) {
        // Straight to stderr: what a passing test prints by `eprintln!` is swallowed.
        let text = format!("SKIPPED: no {python}\nhint: install it, or set TRAJPRESS_PYTHON\n");
        std::io::stderr().write_all(text.as_bytes()).unwrap();
        return;
    }
    let place = Place::new();
    let (safetensors, tokenizer) = tiny_bert();
    fs::write(place.at("model.safetensors"), safetensors).unwrap();
    fs::write(place.at("tokenizer.json"), tokenizer).unwrap();
    let model = format!(
        "[[models]]\nname = \"tiny\"\nroles = [\"embedder\"]\ncontext = 8\nbytes = {TINY_BYTES}\nsha256 = \"{TINY_SHA256}\"\nsources = [{{ convert = \"minilm-to-gguf\", parts = [{{ path = \"model.safetensors\" }}, {{ path = \"tokenizer.json\" }}] }}]\n"
    );
    fs::write(place.at("own.toml"), model).unwrap();
    assert_eq!(place.states(&["models", "fetch", "tiny"], 0), ["tiny fetched"]);
    // Reads the header too, so it is a GGUF that is as long as its tensors say.
    assert_eq!(place.states(&["models", "check", "tiny"], 0), ["tiny ok"]);
    let header = trajpress::internals::models::gguf::read(&place.at("models/tiny.gguf")).unwrap();
    assert_eq!((header.architecture.as_str(), header.context, header.is_embedder), ("bert", Some(8), true));
}

const TINY_BYTES: u64 = 11744;
const TINY_SHA256: &str = "37fbb4019d5125e097b43786345b00cc6a90a2e5b4917b2e2e834de6ec54ae36";

/// A GGUF of a vector of 3 floats and a row of two blocks: type of tensors, their bytes, type of file.
fn two_tensors(kind: u32, row: &[u8], file_type: u32) -> Vec<u8> {
    let string = |s: &str| [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat();
    let mut bytes = [&b"GGUF"[..], &3u32.to_le_bytes(), &2u64.to_le_bytes(), &2u64.to_le_bytes()].concat();
    bytes.extend([string("general.file_type"), [4u32, file_type].map(u32::to_le_bytes).concat()].concat());
    bytes.extend([string("x.context_length"), [4u32, 512].map(u32::to_le_bytes).concat()].concat());
    let room = row.len().next_multiple_of(32) as u64;
    for (name, size, kind, offset) in [("row", 64u64, kind, 0u64), ("floats", 3, 0, room)] {
        bytes.extend([string(name), 1u32.to_le_bytes().to_vec(), size.to_le_bytes().to_vec()].concat());
        bytes.extend([kind.to_le_bytes().to_vec(), offset.to_le_bytes().to_vec()].concat());
    }
    for part in [row, &[1.0f32, -2.0, 0.5].map(f32::to_le_bytes).concat()] {
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend(part);
    }
    bytes.resize(bytes.len().next_multiple_of(32), 0);
    bytes
}

#[test]
fn a_model_made_of_another_is_verified_like_it() {
    let place = Place::new();
    // Scale 8.5, least value -0.5, values 0 and 15 in turns: -0.5 and 127.
    let old = [[0x40, 0x48, 0x00, 0xb8].to_vec(), [0xf0; 16].to_vec()].concat().repeat(2);
    let new = [[0x00, 0x3c].to_vec(), [0xff; 16].to_vec(), [127; 16].to_vec()].concat().repeat(2);
    let (old, new) = (two_tensors(3, &old, 3), two_tensors(8, &new, 7));
    let made = "{ convert = \"q4_1-to-q8_0\", model = \"base\" }";
    let halves = place.halves("base", &old);
    let gone = halves.replace("base", "gone");
    let hub = |other: &str| format!("{{ hub = \"a/b\", file = \"c\" }}, {other}");
    place.own(&[("base", &old, &hub(&gone)), ("own", &new, made)]);
    let error = text(&place.run(&["models", "fetch", "own"]));
    assert!(error.contains("model base, converted by q4_1-to-q8_0: hub a/b, c:"), "{error}");
    assert!(error.contains("gone.1"), "{error}");
    assert!(error.contains(&format!("put by hand: {}", place.at("models/own.gguf").display())), "{error}");

    // What it is made of is fetched for it alone, and nothing of it stays.
    place.own(&[("base", &old, &hub(&halves)), ("own", &new, made)]);
    assert_eq!(place.states(&["models", "fetch", "own"], 0), ["own fetched"]);
    assert_eq!(fs::read(place.at("models/own.gguf")).unwrap(), new);
    assert_eq!(place.states(&["models", "check", "own", "base"], 1), ["own ok", "base missing"]);
    let left = fs::read_dir(place.at("models")).unwrap().flatten();
    assert_eq!(left.filter(|f| f.file_name().to_string_lossy().contains(".part-")).count(), 0);

    // No source is asked where it stands in the folder, under its own name or under that of what it becomes.
    place.own(&[("base", &old, &hub(&gone)), ("own", &new, made)]);
    for name in ["base", "own"] {
        fs::remove_file(place.at("models/own.gguf")).unwrap();
        fs::write(place.at(&format!("models/{name}.gguf")), &old).unwrap();
        assert_eq!(place.states(&["models", "fetch", "own"], 0), ["own fetched"], "{name}");
        assert_eq!(fs::read(place.at("models/own.gguf")).unwrap(), new);
        fs::remove_file(place.at("models/base.gguf")).unwrap_or_default();
    }

    // Another result than the one that is known is refused.
    place.own(&[("base", &old, &hub(&halves)), ("own", &old, made)]);
    let error = text(&place.run(&["models", "fetch", "own"]));
    assert!(error.contains("longer than the") || error.contains("wrong bytes, refused"), "{error}");
}
