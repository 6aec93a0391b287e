//! Redaction: secrets made from what their makers say of their form (not from the rules that find them), and logs as a whole.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Output;

use rand::{RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

use crate::place::Place;
use trajpress::internals::store::{self, StepRow, TrajectoryRow};
use trajpress::internals::text::redact::redact;

const LOWER: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
const UPPER: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ";
const DIGITS: &[u8] = b"0123456789";
const BASE32: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const BASE62: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const HEX: &[u8] = b"0123456789abcdef";
const PASSWORD: &[u8] = b"ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789!#%*-_.";

struct Maker(ChaCha8Rng);

impl Maker {
    fn some(&mut self, of: &[u8], n: usize) -> String {
        (0..n).map(|_| char::from(of[self.0.random_range(0..of.len())])).collect()
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.0.random_range(0..of.len())]
    }

    /// Digits of a card of this beginning and length, the last one by ISO/IEC 7812 (Luhn).
    fn card(&mut self, begin: &str, n: usize) -> String {
        let mut digits = begin.to_owned();
        digits += &self.some(DIGITS, n - 1 - begin.len());
        let sum: u32 = digits
            .bytes()
            .rev()
            .enumerate()
            .map(|(i, b)| {
                let d = u32::from(b - b'0');
                if i % 2 == 0 { [0, 2, 4, 6, 8, 1, 3, 5, 7, 9][d as usize] } else { d }
            })
            .sum();
        format!("{digits}{}", (10 - sum % 10) % 10)
    }

    /// A secret of a kind, as its maker describes the form.
    fn secret(&mut self, kind: &str) -> String {
        match kind {
            "password" | "e-mail" | "phone" | "card" => self.personal(kind),
            // AWS: `AKIA` and 16 of base 32.
            "aws key id" => format!("AKIA{}", self.some(BASE32, 16)),
            // GitHub: a prefix, 36 of base 62, of these 6 a checksum.
            "github token" => {
                format!("{}_{}", self.one(&["ghp", "gho", "ghu", "ghs"]), self.some(BASE62, 36))
            }
            "github fine-grained" => {
                format!("github_pat_{}_{}", self.some(BASE62, 22), self.some(BASE62, 59))
            }
            "gitlab token" => format!("glpat-{}", self.some(BASE64URL, 20)),
            // Slack: type, team, bot, 24 of base 62.
            "slack bot token" => {
                format!("xoxb-{}-{}-{}", self.some(DIGITS, 12), self.some(DIGITS, 13), self.some(BASE62, 24))
            }
            "slack webhook" => format!(
                "https://hooks.slack.com/services/T{}/B{}/{}",
                self.some(BASE32, 10),
                self.some(BASE32, 10),
                self.some(BASE62, 24)
            ),
            "stripe key" => format!("{}_live_{}", self.one(&["sk", "rk"]), self.some(BASE62, 24)),
            "google api key" => format!("AIza{}", self.some(BASE64URL, 35)),
            "openai key" => {
                format!("sk-proj-{}T3BlbkFJ{}", self.some(BASE64URL, 74), self.some(BASE64URL, 74))
            }
            "anthropic key" => format!("sk-ant-api03-{}AA", self.some(BASE64URL, 93)),
            "npm token" => format!("npm_{}", self.some(BASE62, 36)),
            // PyPI: `pypi-` and a macaroon in base 64, which begins with its location.
            "pypi token" => format!("pypi-AgEIcHlwaS5vcmc{}", self.some(BASE64URL, 120)),
            "sendgrid key" => format!("SG.{}.{}", self.some(BASE64URL, 22), self.some(BASE64URL, 43)),
            "hugging face token" => format!("hf_{}", self.some(&[UPPER, LOWER].concat(), 34)),
            // RFC 7519: header, claims and signature in base 64 (URL), each JSON that begins with `{"`.
            "jwt" => format!(
                "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJ{}.{}",
                self.some(BASE64URL, 90),
                self.some(BASE64URL, 43)
            ),
            // RFC 7468, and OpenSSH's own label.
            "private key" => {
                let label =
                    self.one(&["RSA PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY", "OPENSSH PRIVATE KEY"]);
                let body: Vec<String> = (0..12).map(|_| self.some(BASE64, 64)).collect();
                format!("-----BEGIN {label}-----\n{}\n-----END {label}-----", body.join("\n"))
            }
            "anthropic oauth" => format!("sk-ant-oat01-{}AA", self.some(BASE64URL, 93)),
            "openai project key" => {
                format!("sk-{}-{}", self.one(&["proj", "svcacct", "admin"]), self.some(BASE64URL, 156))
            }
            "hugging face, newer" => format!("hf_{}", self.some(BASE62, 34)),
            "groq key" => format!("gsk_{}", self.some(BASE62, 52)),
            "xai key" => format!("xai-{}", self.some(BASE62, 80)),
            "openrouter key" => format!("sk-or-v1-{}", self.some(HEX, 64)),
            // A prefix and a UUID.
            "langfuse key" => format!(
                "{}-lf-{}-{}-4{}-9{}-{}",
                self.one(&["sk", "pk"]),
                self.some(HEX, 8),
                self.some(HEX, 4),
                self.some(HEX, 3),
                self.some(HEX, 3),
                self.some(HEX, 12)
            ),
            "langsmith key" => format!("lsv2_pt_{}_{}", self.some(HEX, 32), self.some(HEX, 10)),
            "databricks token" => format!("dapi{}", self.some(HEX, 32)),
            "google oauth secret" => format!("GOCSPX-{}", self.some(BASE64URL, 28)),
            "slack browser token" => {
                format!("xoxc-{}-{}-{}", self.some(DIGITS, 12), self.some(DIGITS, 12), self.some(HEX, 64))
            }
            "stripe webhook" => format!("whsec_{}", self.some(BASE62, 32)),
            other => panic!("no kind {other}"),
        }
    }

    /// A password, or data of a person.
    fn personal(&mut self, kind: &str) -> String {
        match kind {
            "password" => self.some(PASSWORD, 14),
            "e-mail" => format!(
                "{}.{}@{}.{}",
                self.some(LOWER, 5),
                self.some(LOWER, 7),
                self.some(LOWER, 8),
                self.one(&["com", "de", "co.uk", "io"])
            ),
            "phone" => match self.0.random_range(0..3) {
                // E.164, its form by DIN 5008, and that of North America.
                0 => format!("+49{}", self.some(b"123456789", 10)),
                1 => format!("+44 20 {} {}", self.some(b"123456789", 4), self.some(b"123456789", 4)),
                _ => format!(
                    "({}) {}-{}",
                    self.some(b"23456789", 3),
                    self.some(b"234", 3),
                    self.some(DIGITS, 4)
                ),
            },
            "card" => {
                let (begin, n) =
                    [("4", 16), ("51", 16), ("55", 16), ("6011", 16), ("37", 15)][self.0.random_range(0..5)];
                self.card(begin, n)
            }
            other => panic!("no kind {other}"),
        }
    }

    /// A text as logs hold it, with the secret in it.
    fn text(&mut self, kind: &str, secret: &str) -> String {
        let plain = [
            "Use {} for it.",
            "  value: {}\n",
            "found ({}) in the notes",
            "a,{},b",
            "line one\n{}\nline three",
        ];
        let keys = [
            "export API_TOKEN={}\n",
            "curl -H \"Authorization: Bearer {}\" https://api.firm.dev/v1",
            "{\"token\": \"{}\", \"n\": 1}",
            "secret: '{}'\n",
            "the key is {} and it works",
            "config.set(\"api_key\", \"{}\")",
            "$ echo {} | login --stdin",
        ];
        let passwords = [
            "DB_PASSWORD={}\n",
            "password: \"{}\"\n",
            "{\"password\": \"{}\"}",
            "postgres://app:{}@db.firm.dev:5432/main",
            "mysql -u app --password={} main",
            "curl -u app:{} https://firm.dev/x",
        ];
        let forms: &[&str] = match kind {
            "password" => &passwords,
            "e-mail" | "phone" | "card" | "private key" | "slack webhook" => &plain,
            _ => &keys,
        };
        self.one(forms).replace("{}", secret)
    }
}

const KINDS: [&str; 20] = [
    "aws key id",
    "github token",
    "github fine-grained",
    "gitlab token",
    "slack bot token",
    "slack webhook",
    "stripe key",
    "google api key",
    "openai key",
    "anthropic key",
    "npm token",
    "pypi token",
    "sendgrid key",
    "hugging face token",
    "jwt",
    "private key",
    "password",
    "e-mail",
    "phone",
    "card",
];

/// Kinds that the rules of others do not know, or not all of their forms.
const NEWER: [&str; 12] = [
    "anthropic oauth",
    "openai project key",
    "hugging face, newer",
    "groq key",
    "xai key",
    "openrouter key",
    "langfuse key",
    "langsmith key",
    "databricks token",
    "google oauth secret",
    "slack browser token",
    "stripe webhook",
];

/// Ten secrets of each kind: those that are left, with their texts.
fn missed(kinds: &[&'static str], seed: u64) -> BTreeMap<&'static str, Vec<String>> {
    let mut maker = Maker(ChaCha8Rng::seed_from_u64(seed));
    let mut missed = BTreeMap::<&str, Vec<String>>::new();
    for &kind in kinds {
        for _ in 0..10 {
            let secret = maker.secret(kind);
            let mut text = maker.text(kind, &secret);
            let whole = text.clone();
            redact(&mut [&mut text]);
            let (begin, end) = (&secret[..8.min(secret.len())], &secret[secret.len() - 8..]);
            let is_left = [begin, end, &secret].iter().any(|part| text.contains(*part))
                && !begin.starts_with("https:/");
            if is_left || text.contains(&secret) {
                missed.entry(kind).or_default().push(whole);
            }
        }
    }
    missed
}

#[test]
fn secrets_of_newer_kinds_are_found() {
    let missed = missed(&NEWER, 41);
    assert!(missed.is_empty(), "{missed:#?}");
}

/// Ten of each of twenty kinds; a few passwords look like nothing.
#[test]
fn secrets_of_twenty_kinds_are_found() {
    let mut missed = missed(&KINDS, 37);
    let n_missed: usize = missed.values().map(Vec::len).sum();
    println!("secrets: {} of 200 found; missed: {missed:#?}", 200 - n_missed);
    let in_passwords = missed.remove("password").map_or(0, |list| list.len());
    assert!(missed.is_empty(), "{missed:#?}");
    assert!(in_passwords <= MISSED_PASSWORDS, "{in_passwords} passwords");
}

/// Of ten, with these seeds.
const MISSED_PASSWORDS: usize = 5;

impl Place {
    fn rows(&self, out: &str) -> (Vec<TrajectoryRow>, Vec<StepRow>) {
        let at = |name: &str| self.at(out).join(name);
        (store::read(&at("trajectories.parquet")).unwrap(), store::read(&at("steps.parquet")).unwrap())
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const LOG: &str = r#"{"messages":[{"role":"system","content":"You help nina.k@firm.de."},{"role":"user","content":"Log in as nina.k@firm.de with DB_PASSWORD=\"kD83nfQz71LmWx02PvRt\"."},
{"role":"assistant","content":"I try it.","tool_calls":[{"id":"c1","function":{"name":"bash","arguments":"{\"command\":\"cd /home/nina/app\\nlogin kD83nfQz71LmWx02PvRt\"}"}},{"id":"c2","function":{"name":"bash","arguments":"{\"command\":\"id\"}"}}]},
{"role":"tool","tool_call_id":"c1","content":"denied for kD83nfQz71LmWx02PvRt"},{"role":"tool","tool_call_id":"c2","content":"uid=7"},
{"role":"assistant","content":"It was denied."}],"task_id":"t-1","model":"m"}"#;

#[test]
fn a_log_is_redacted_alike_in_tables_and_as_messages() {
    let place = Place::new();
    fs::write(place.at("log.jsonl"), LOG.replace('\n', "")).unwrap();
    let ingested = place.program(&["ingest", "log.jsonl", "--redact", "--out", "redacted"]);
    assert!(ingested.status.success(), "{}", stderr(&ingested));
    assert!(stderr(&ingested).contains("redacted: email "), "{}", stderr(&ingested));
    let written = place.program(&["redact", "log.jsonl", "--out", "shared.jsonl"]);
    assert!(written.status.success() && stderr(&written).contains("other ids"), "{}", stderr(&written));
    let text = fs::read_to_string(place.at("shared.jsonl")).unwrap();
    for secret in ["nina", "kD83nfQz71LmWx02PvRt"] {
        assert!(!text.contains(secret), "{text}");
    }
    assert!(place.program(&["ingest", "shared.jsonl", "--out", "again"]).status.success());
    let (redacted, again) = (place.rows("redacted"), place.rows("again"));
    let told = |rows: &[StepRow]| {
        let told = |s: &StepRow| {
            (s.turn, s.role.clone(), s.kind.clone(), s.text.clone(), s.call_id.clone(), s.arguments.clone())
        };
        rows.iter().map(told).collect::<Vec<_>>()
    };
    assert_eq!(told(&redacted.1), told(&again.1));
    assert_eq!(redacted.0[0].trajectory, again.0[0].trajectory, "the same content is the same run");
    assert_eq!(again.1[1].text, "Log in as <email-1> with DB_PASSWORD=\"<password-1>\".");
    assert_eq!(again.1[3].text, "bash\ncd <home-1>/app\nlogin <password-1>");
    assert!(place.program(&["ingest", "log.jsonl", "--out", "plain"]).status.success());
    assert_ne!(place.rows("plain").0[0].trajectory, redacted.0[0].trajectory);
    // What is redacted and what is not do not mix.
    let mixed = place.program(&["ingest", "log.jsonl", "--out", "redacted"]);
    assert_eq!(mixed.status.code(), Some(2));
    assert!(
        stderr(&mixed).contains("is redacted") && stderr(&mixed).contains("hint: "),
        "{}",
        stderr(&mixed)
    );
}

/// The built-in logs as messages have the steps that they have as logs.
#[test]
fn the_message_form_keeps_the_steps() {
    let place = Place::new();
    let logs = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/coding").display().to_string();
    assert!(place.program(&["ingest", &logs, "--redact", "--out", "redacted"]).status.code() < Some(2));
    assert!(place.program(&["redact", &logs, "--out", "shared.jsonl"]).status.code() < Some(2));
    assert!(place.program(&["ingest", "shared.jsonl", "--out", "again"]).status.code() < Some(2));
    let (redacted, again) = (place.rows("redacted"), place.rows("again"));
    assert_eq!(redacted.0.len(), again.0.len());
    // Schemas of tools are JSON, and the blanks between its parts are not kept.
    let text = |s: &StepRow| match &*s.kind {
        "tools" => s.text.replace(": ", ":").replace(", ", ","),
        _ => s.text.clone(),
    };
    let told = |rows: &[StepRow]| rows.iter().map(|s| (s.turn, s.role.clone(), text(s))).collect::<Vec<_>>();
    let (a, b) = (told(&redacted.1), told(&again.1));
    let first = a.iter().zip(&b).find(|(a, b)| a != b);
    assert!(first.is_none() && a.len() == b.len(), "{first:#?}");
}

/// Titles of sessions are cut; half of a key would be told by no rule.
#[test]
fn titles_of_a_run_have_no_keys() {
    let place = Place::new();
    let key = "AKIAQ7KTZ3VXD5PLW2HN";
    let turn = |n: u32| {
        serde_json::json!([
            { "role": "assistant", "content": "", "tool_calls": [{ "id": format!("c{n}"), "type": "function",
                "function": { "name": "bash", "arguments": "{\"command\": \"ls\"}" } }] },
            { "role": "tool", "tool_call_id": format!("c{n}"), "content": "src" },
        ])
    };
    let said = serde_json::json!({ "role": "user", "content": format!("Use the key {key} to list what lies in the bucket") });
    let mut messages = vec![said];
    messages.extend((0..6).flat_map(|n| turn(n).as_array().cloned().unwrap()));
    std::fs::write(place.at("log.json"), serde_json::json!({ "messages": messages }).to_string()).unwrap();
    let plan = "name = \"x\"\nstrategies = [{ name = \"mask\" }]\ntriggers = [{ name = \"turns\", n = 2 }]\n";
    std::fs::write(place.at("x.toml"), plan).unwrap();
    for args in
        [&["ingest", "log.json", "--out", "data"][..], &["run", "x.toml", "--data", "data", "--out", "run"]]
    {
        assert!(place.program(&[args, &["--quiet"]].concat()).status.success());
    }
    for more in [&[][..], &["--json"]] {
        let told = |raw: &[&str]| {
            let args = [&["inspect", "run", "--variant", "mask"], more, raw].concat();
            String::from_utf8(place.program(&args).stdout).unwrap()
        };
        assert!(told(&[]).contains("Use the key") && !told(&[]).contains(&key[..6]), "{}", told(&[]));
        // The run itself has none.
        assert!(!told(&["--raw"]).contains(&key[..6]));
    }
}
