//! A live conversation, compressed by a variant: what wins offline is used online.
//!
//! The conversation is replayed from its first message, as a log would be, up to the decision that comes next. So what is
//! sent is what the replay of the whole log would have sent there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context as _;
use serde_json::Value;

use crate::annotate::features;
use crate::context::log::Log;
use crate::context::needs::Needs;
use crate::context::{Block, Context};
use crate::experiment::cell::{Models, recipe};
use crate::experiment::{Catalogue, Plan, Variant};
use crate::export::forms::{ADDED_TOOL, About, Body, Form, document};
use crate::export::messages::Prompt;
use crate::export::words::Words;
use crate::logs::conversation;
use crate::programs::process;
use crate::replay::{Observer, Recipe, replay};
use crate::text::tokens::Tokenizer;
use crate::trajectory::{Kind, Role, Step, step};

/// Compresses conversations by a variant of an experiment.
///
/// A program of one's own (strategy `command`) is kept from call to call, and ends with what it started when the last `Compressor` is dropped.
/// One that is never dropped, as in a `static`, leaves the children of its program behind.
pub struct Compressor {
    recipe: Recipe,
    tokenizer: Tokenizer,
    label: String,
    _alive: Alive,
}

/// Programs that compress are kept for the next conversation, and end with the last that could ask them.
struct Alive;

static ALIVE: AtomicUsize = AtomicUsize::new(0);

impl Alive {
    fn new() -> Self {
        ALIVE.fetch_add(1, Ordering::SeqCst);
        Alive
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        if ALIVE.fetch_sub(1, Ordering::SeqCst) == 1 {
            process::end_idle();
        }
    }
}

/// A conversation as it is to be sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Compressed {
    /// The list of messages, in the form in which they came.
    pub messages: Value,
    /// Tokens of the prompt as it was, and as it is.
    pub tokens_before: u64,
    pub tokens_after: u64,
    /// Compressions since the conversation began.
    pub n_events: u32,
    /// What could not be read, was added or left out, and how often.
    pub notes: BTreeMap<String, u64>,
}

/// The form in which messages come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Messages {
    OpenAi,
    /// Without the system prompt, which stands beside the messages there.
    Anthropic,
}

impl Compressor {
    /// Reads an experiment (TOML) that has one variant but `full`.
    ///
    /// # Errors
    /// There is none, or several; as [`Compressor::named`].
    pub fn new(experiment: &str) -> anyhow::Result<Self> {
        Self::of(experiment, |variants| {
            let all: Vec<&Variant> = variants.iter().filter(|variant| variant.strategy != "full").collect();
            let labels = || all.iter().map(|v| format!("`{}`", v.label)).collect::<Vec<_>>().join(", ");
            anyhow::ensure!(
                all.len() < 2,
                "the experiment has {} variants: {}\nhint: leave one, or name it (`Compressor::named`)",
                all.len(),
                labels()
            );
            all.first().copied().context("the experiment has no variant but `full`")
        })
    }

    /// Reads an experiment (TOML), of which one variant compresses: the one of this label, or the beginning of its id. It may need no model.
    ///
    /// # Errors
    /// There is none, it asks a model, or it needs a log that has ended.
    pub fn named(experiment: &str, variant: &str) -> anyhow::Result<Self> {
        Self::of(experiment, |variants| {
            let found = Variant::find(variants, variant);
            found.with_context(|| format!("the experiment has no variant `{variant}`"))
        })
    }

    fn of(experiment: &str, pick: impl Fn(&[Variant]) -> anyhow::Result<&Variant>) -> anyhow::Result<Self> {
        let alive = Alive::new();
        let plan = Plan::parse("experiment", experiment, &Catalogue::built_in())?;
        let variant = pick(&plan.variants)?;
        let label = &variant.label;
        anyhow::ensure!(
            variant.models().next().is_none(),
            "`{label}` asks a model\nhint: variants without one compress live"
        );
        let form = variant.strategy_params.get("form").and_then(toml::Value::as_str);
        anyhow::ensure!(
            variant.policy.is_none() || form != Some("empty"),
            "`{label}` leaves nothing where a model would write a summary\nhint: `forms = [\"extract\"]` has one without a model"
        );
        let recipe = recipe(variant, &Models::new())?;
        let offline = recipe.sees_future() || recipe.bridges() || recipe.is_record();
        anyhow::ensure!(!offline, "`{label}` needs a log that has ended");
        let is_own = variant.trigger_params.get("window").and_then(toml::Value::as_str) == Some("own");
        anyhow::ensure!(
            recipe.scaled.is_none() && !is_own,
            "`{label}` has a window that follows from the longest prompt of a log that has ended\nhint: `window = 200_000`, in tokens"
        );
        let label = label.clone();
        Ok(Compressor { recipe, tokenizer: Tokenizer::load(&plan.tokenizer)?, label, _alive: alive })
    }

    /// The name of its variant.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// What is to be sent in the place of a conversation, a list of messages or a request.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn compress(&self, conversation: &Value, form: Messages) -> anyhow::Result<Compressed> {
        let (mut run, left_out) = conversation::read(conversation.to_string().as_bytes())?;
        // Chance is drawn by what stays as the conversation grows, so that what was compressed stays, too.
        let begins = run.steps.iter().position(Step::is_agent).unwrap_or(run.steps.len());
        let rest = run.steps.split_off(begins);
        run.id = run.content_id();
        run.steps.extend(rest);
        run.steps.push(next(&run.steps));
        let rows = features::rows(&run.id, &run.steps, &self.tokenizer);
        let log = Log::new(run, rows)?;
        let decisions = log.turns.iter().skip(1).filter(|turn| turn.decision.is_some()).count();
        let mut last = Last { left: decisions, blocks: Vec::new() };
        let replayed = replay(&log, &self.recipe, &self.tokenizer, &Needs::default(), &mut last)?;
        let decision = replayed.decisions.last().context("a conversation without messages")?;
        let (words, with_system) = (Words::raw(&log), form == Messages::OpenAi);
        let mut prompt = Prompt::of(&log, &last.blocks, &words, with_system, self.recipe.made_by());
        prompt.with_logged_ids(&log);
        let form = if form == Messages::OpenAi { Form::Openai } else { Form::Anthropic };
        let written = document(form, &About::default(), &mut prompt).context("nothing is left to be sent")?;
        let Body::Json(mut request) = written.body else { anyhow::bail!("the messages are no JSON") };
        // Messages alone are given back: tools are the caller's.
        prompt.notes.remove(ADDED_TOOL);
        let notes = prompt.notes.into_iter().map(|(what, n)| (what.to_owned(), n));
        Ok(Compressed {
            messages: request["messages"].take(),
            tokens_before: decision.tokens_full,
            tokens_after: decision.tokens_sent,
            n_events: decision.n_events,
            notes: left_out.into_iter().chain(notes).collect(),
        })
    }
}

/// What the agent says next, of which nothing is known: the prompt before it is asked for.
fn next(steps: &[Step]) -> Step {
    let (turn, segment) = steps.last().map_or((0, 0), |last| (last.turn, last.segment));
    let is_open = turn > 0 && !steps.iter().rev().take_while(|step| step.turn == turn).any(Step::is_agent);
    Step { turn: turn + u32::from(!is_open), segment, ..step(Role::Agent, Kind::Message, "") }
}

/// Keeps the prompt of the last decision.
struct Last {
    left: usize,
    blocks: Vec<Block>,
}

impl Observer for Last {
    fn recalled(&mut self, blocks: &[Block], _: u32) {
        if self.left == 1 {
            self.blocks = blocks.to_vec();
        }
    }

    fn standing(&mut self, context: &Context) {
        if self.left == 1 {
            self.blocks = context.blocks.iter().cloned().chain(std::mem::take(&mut self.blocks)).collect();
        }
        self.left -= 1;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const MASK: &str = "name = \"x\"\n[[strategies]]\nname = \"mask\"\nkeep_last = 1\n[[triggers]]\nname = \"turns\"\nn = 1\n";

    fn conversation() -> Vec<Value> {
        let mut list = vec![
            json!({"role": "system", "content": "Be kind."}),
            json!({"role": "user", "content": "Mend it."}),
        ];
        for i in 0..3 {
            let function = json!({"name": "bash", "arguments": format!("{{\"command\":\"cat {i}.py\"}}")});
            list.push(json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("c{i}"), "type": "function", "function": function}]}));
            list.push(json!({"role": "tool", "tool_call_id": format!("c{i}"), "content": format!("value_{i} = {i}\n").repeat(20)}));
        }
        list
    }

    /// A policy says who says what its events put there.
    #[test]
    fn a_note_is_said_by_whom_the_policy_says() {
        let role = |set: &str| {
            let policy = format!(
                "name = \"x\"\n[[policies]]\nname = \"x\"\n[policies.policy]\nhead = \"system\"\n{set}\n\
                 [[policies.policy.stages]]\ntrigger = {{ name = \"limits\", messages = 7 }}\n\
                 scope = {{ name = \"tail\", messages = 2 }}\nstrategy = {{ name = \"omit\", note = \"gone\" }}"
            );
            let sent = Compressor::new(&policy).unwrap().compress(&json!(conversation()), Messages::OpenAi);
            sent.unwrap().messages[1].clone()
        };
        assert_eq!(role(""), json!({"role": "user", "content": "gone"}));
        assert_eq!(role("summary_role = \"system\"")["role"], "system");
        let said = role("summary_role = \"assistant\"");
        assert_eq!((&said["role"], &said["content"]), (&json!("assistant"), &json!("gone")));
    }

    #[test]
    fn a_conversation_is_sent_as_its_replay_would_have_been() {
        let compressor = Compressor::new(MASK).unwrap();
        let list = conversation();
        let sent = compressor.compress(&json!(list), Messages::OpenAi).unwrap();
        let texts: Vec<&str> =
            sent.messages.as_array().unwrap().iter().map(|m| m["content"].as_str().unwrap_or("")).collect();
        // The newest turn stays whole.
        assert!(texts[7].starts_with("value_2 = 2") && texts[0] == "Be kind.", "{texts:#?}");
        assert!(!texts[3].contains("value_0") && !texts[5].contains("value_1"), "{texts:#?}");
        assert_eq!((texts.len(), sent.notes.len()), (8, 0), "{:?}", sent.notes);
        // What the caller knows by its id has that id.
        for at in [2, 4, 6] {
            assert_eq!(sent.messages[at]["tool_calls"][0]["id"], list[at]["tool_calls"][0]["id"]);
            assert_eq!(sent.messages[at + 1]["tool_call_id"], list[at + 1]["tool_call_id"]);
        }
        assert!(sent.tokens_after < sent.tokens_before && sent.n_events == 2, "{sent:?}");
        let other = compressor.compress(&json!({"messages": list}), Messages::Anthropic).unwrap();
        assert_eq!(other.messages[0]["content"][0]["text"], "Mend it.");
        assert_eq!((other.tokens_before, other.notes.len()), (sent.tokens_before, 1));
        // A user who speaks again opens a turn.
        let mut more = list.clone();
        more.extend([
            json!({"role": "assistant", "content": "Done."}),
            json!({"role": "user", "content": "Sure?"}),
        ]);
        let sent = compressor.compress(&json!(more), Messages::OpenAi).unwrap();
        assert_eq!(sent.messages.as_array().unwrap().last().unwrap()["content"], "Sure?");
    }

    /// What an event left is what it left at the next call, too.
    #[test]
    fn chance_is_the_same_from_call_to_call() {
        let random =
            MASK.replace("mask\"\nkeep_last = 1", "random\"\nkept_share = 0.5").replace("n = 1", "n = 2");
        let compressor = Compressor::new(&random).unwrap();
        let mut list = conversation();
        for i in 3..12 {
            let mut call = list[2].clone();
            call["tool_calls"][0]["id"] = json!(format!("c{i}"));
            let lines: String = (0..20).map(|line| format!("value_{line} = {i}\n")).collect();
            list.extend([call, json!({"role": "tool", "tool_call_id": format!("c{i}"), "content": lines})]);
        }
        let mut before = String::new();
        for end in (4..=list.len()).step_by(2) {
            let sent = compressor.compress(&json!(list[..end]), Messages::OpenAi).unwrap();
            if sent.n_events > 0 {
                let made = sent.messages[2]["content"].as_str().unwrap().to_owned();
                assert!(made.starts_with(&before), "{end}: {made}\n---\n{before}");
                before = made;
            }
        }
        assert!(before.len() > 100);
    }

    /// A program of one's own over every turn.
    fn own(folder: &std::path::Path, body: &str) -> String {
        let begin = "import json, sys\ndef say(x):\n    print(json.dumps(x), flush=True)\nassert input()\n\
                     say({'protocol': 1, 'name': 'toy', 'version': '1'})\nfor line in sys.stdin:\n    event = json.loads(line)\n    messages = event['messages']\n";
        let path = folder.join("toy.py");
        std::fs::write(&path, format!("{begin}    {}\n", body.replace('\n', "\n    "))).unwrap();
        let command = format!("command = ['python3', '{}']", path.display());
        MASK.replace("mask\"\nkeep_last = 1", &format!("command\"\nkeep_last = 1\n{command}"))
    }

    /// It stays the result of its call, be it copied in part or written anew.
    #[test]
    fn what_a_program_leaves_of_a_result_is_what_is_sent() {
        let folder = tempfile::tempdir().unwrap();
        for (edit, left) in [("m['content'][:2 * len('value_0 = 0\\n') - 1]", 2), ("'gone'", 0)] {
            let body = format!(
                "say({{'event': event['event'], 'messages': [dict(m, content={edit}) if m['role'] == 'tool' else m for m in messages]}})"
            );
            let compressor = Compressor::new(&own(folder.path(), &body)).unwrap();
            let (list, sent) =
                (conversation(), compressor.compress(&json!(conversation()), Messages::OpenAi));
            let messages = sent.unwrap().messages;
            let kept = |at: usize| {
                if left == 0 { "gone".to_owned() } else { format!("value_{at} = {at}\nvalue_{at} = {at}") }
            };
            assert_eq!(messages.as_array().unwrap().len(), list.len(), "{messages:#}");
            for (at, result) in [(0, 3), (1, 5)] {
                assert_eq!(messages[result]["role"], "tool", "{messages:#}");
                assert_eq!(messages[result]["content"], kept(at));
                assert_eq!(messages[result]["tool_call_id"], messages[result - 1]["tool_calls"][0]["id"]);
            }
            assert_eq!(messages[7]["content"], list[7]["content"]);
        }
    }

    /// At each call there is one event more.
    #[test]
    fn a_program_is_asked_once_of_an_event() {
        let folder = tempfile::tempdir().unwrap();
        let body = "print(event['event'], file=open(__file__ + '.asked', 'a'), flush=True)\n\
                    say({'event': event['event'], 'messages': [{'content': 'They read a file.'}]})";
        let compressor = Compressor::new(&own(folder.path(), body)).unwrap();
        let list = conversation();
        let events = [4, 6, 8].map(|end| {
            let sent = compressor.compress(&json!(list[..end]), Messages::OpenAi).unwrap();
            let asked = std::fs::read_to_string(folder.path().join("toy.py.asked")).unwrap_or_default();
            (sent.n_events, asked.lines().count())
        });
        assert_eq!(events, [(0, 0), (1, 1), (2, 2)]);
    }

    /// With what it started.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_program_ends_with_the_last_that_asks_it() {
        let folder = tempfile::tempdir().unwrap();
        let body = "import subprocess\nchild = subprocess.Popen(['sleep', '91'], start_new_session=True)\n\
                    open(__file__ + '.pid', 'a').write(f'{child.pid}\\n')\nsay({'event': event['event'], 'messages': []})";
        let compressor = Compressor::new(&own(folder.path(), body)).unwrap();
        let last = Compressor::new(MASK).unwrap();
        compressor.compress(&json!(conversation()), Messages::OpenAi).unwrap();
        drop((compressor, last));
        let children = std::fs::read_to_string(folder.path().join("toy.py.pid")).unwrap();
        let soon = std::time::Instant::now() + std::time::Duration::from_secs(20);
        let lives = |id: &str| {
            let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
            !status.is_empty() && !status.contains("State:\tZ")
        };
        // Tests beside this one have some, too.
        while children.lines().any(lives) {
            assert!(std::time::Instant::now() < soon, "it lives");
            std::thread::sleep(std::time::Duration::from_millis(50));
            drop(Compressor::new(MASK).unwrap());
        }
        assert!(!children.is_empty());
    }

    #[test]
    fn what_cannot_be_live_is_refused() {
        let refused = |experiment: &str| format!("{:#}", Compressor::new(experiment).err().unwrap());
        assert!(refused("name = \"x\"\n[[strategies]]\nname = \"full\"\n").contains("no variant but `full`"));
        assert!(
            refused(&MASK.replace("mask\"\nkeep_last = 1", "oracle\""))
                .contains("needs a log that has ended")
        );
        let compressor = Compressor::new(MASK).unwrap();
        assert!(compressor.compress(&json!([]), Messages::OpenAi).is_err());
        let two = MASK.replace("keep_last = 1", "keep_last = [1, 2]");
        let error = refused(&two);
        assert!(
            error.contains("has 2 variants: `mask(keep_last=1) @ turns(n=1)`, `mask(")
                && error.contains("hint: "),
            "{error}"
        );
        assert_eq!(Compressor::named(&two, "keep_last=2").unwrap().label(), "mask(keep_last=2) @ turns(n=1)");
        assert!(Compressor::named(&two, "omit").err().unwrap().to_string().contains("no variant `omit`"));
        let preset = |more: &str| format!("name = \"x\"\n[[policies]]\npreset = \"claude-code\"\n{more}");
        let (whole, shares) = ("forms = [\"extract\"]", "window = 0.5\nforms = [\"extract\"]");
        assert!(Compressor::new(&preset(whole)).is_ok());
        assert!(
            refused(&preset(shares)).contains("the longest prompt of a log that has ended\nhint: `window")
        );
        assert!(refused(&preset("forms = [\"empty\"]")).contains("would write a summary\nhint: "));
        assert!(refused(&preset("")).contains("has 3 variants"));
        let own = MASK.replace("name = \"turns\"\nn = 1", "name = \"tokens\"\nwindow = \"own\"");
        assert!(refused(&own).contains("the longest prompt"));
    }
}
