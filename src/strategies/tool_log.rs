//! What the agent did, as a log of its tool calls.
//!
//! Strategy E of the seeds, after claude-mem. `form = "timeline"`: a line for each call with its input, whether it went
//! well, and the line of its result that says most. `form = "structured"`: an observation for each turn that called a
//! tool: type, title, facts, files read and modified; title and facts are written by the model where there is one,
//! else they are the call and the lines of the result that say most. Each event adds to the log; what is no call is left
//! out.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::json;

use super::{Entry, Env, Scope, Strategy, extractive, put, transcript, writer};
use crate::context::{Content, Edit};
use crate::features::actions::ActionKind;
use crate::features::atoms::AtomKind;
use crate::models::grammar;
use crate::models::prompt::{Data, Prompt};
use crate::trajectory::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "tool-log",
    summary: "Keep a log of the tool calls, with inputs, results and success.",
    params: &[("form", "\"timeline\""), ("input_chars", "120"), ("result_tokens", "40")],
    takes_model: true,
    build: |params| Ok(Box::new(params.try_into::<ToolLog>()?)),
};

const TEMPLATE: &str = include_str!("tool_log.txt");
/// Tokens that the model may write for an observation.
const MAX_TOKENS: u32 = 160;

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ToolLog {
    form: Form,
    /// Characters of a call's input that are kept.
    input_chars: usize,
    /// Tokens of a call's result that are kept, at most.
    result_tokens: u32,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Form {
    Timeline,
    Structured,
}

impl Default for ToolLog {
    fn default() -> Self {
        ToolLog { form: Form::Timeline, input_chars: 120, result_tokens: 40 }
    }
}

impl Strategy for ToolLog {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let steps = whole_steps(scope);
        let mut log = String::new();
        for steps in steps.chunk_by(|a, b| scope.log.turn_of(a.1) == scope.log.turn_of(b.1)) {
            match self.form {
                Form::Timeline => self.timeline(scope, steps, env, &mut log),
                Form::Structured => self.observation(scope, steps, env, &mut log)?,
            }
        }
        Ok(put(scope, log.trim_end().to_owned()))
    }
}

/// The blocks of the scope that are whole steps, with those.
fn whole_steps(scope: &Scope<'_>) -> Vec<(usize, u32)> {
    let step = |block: usize| match scope.context.blocks[block].content {
        Content::Step(step) => Some((block, step)),
        _ => None,
    };
    scope.blocks.clone().filter_map(step).collect()
}

impl ToolLog {
    /// A line for each call of these steps of a turn.
    fn timeline(&self, scope: &Scope<'_>, steps: &[(usize, u32)], env: &Env<'_>, log: &mut String) {
        for &(_, call) in steps.iter().filter(|s| scope.log.kind(s.1) == Kind::Action) {
            let turn = scope.log.turn_of(call);
            *log += &format!("turn {turn}: {}", self.input(scope, call));
            for result in results(scope, steps, call) {
                let said = self.result(scope, result, env);
                *log += &format!(
                    " -> {}{}{said}",
                    success(scope, result),
                    if said.is_empty() { "" } else { ": " }
                );
            }
            log.push('\n');
        }
    }

    /// Tool and input of a call, on one line.
    fn input(&self, scope: &Scope<'_>, call: u32) -> String {
        let text = &scope.log.trajectory.steps[call as usize].text;
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        match line.char_indices().nth(self.input_chars) {
            Some((at, _)) => format!("{}...", &line[..at]),
            None => line,
        }
    }

    /// What of a result says most, on one line.
    fn result(&self, scope: &Scope<'_>, result: u32, env: &Env<'_>) -> String {
        let text = scope.log.trajectory.steps[result as usize].text.clone();
        extractive::summary(&[text], self.result_tokens, env.tokenizer).replace('\n', " | ")
    }

    /// An observation of a turn that called a tool.
    fn observation(
        &self,
        scope: &Scope<'_>,
        steps: &[(usize, u32)],
        env: &mut Env<'_>,
        log: &mut String,
    ) -> anyhow::Result<()> {
        let calls: Vec<u32> =
            steps.iter().map(|s| s.1).filter(|&s| scope.log.kind(s) == Kind::Action).collect();
        let Some(&first) = calls.first() else { return Ok(()) };
        let kinds = calls.iter().filter_map(|&call| scope.log.action_kinds[call as usize].as_deref());
        let kinds: Vec<ActionKind> = kinds.filter_map(ActionKind::parse).collect();
        let files = |of: &[ActionKind]| -> Vec<&str> {
            let calls = calls.iter().filter(|&&call| {
                let kind = scope.log.action_kinds[call as usize].as_deref().and_then(ActionKind::parse);
                kind.is_some_and(|kind| of.contains(&kind))
            });
            let paths: BTreeSet<&str> = calls.flat_map(|&call| paths(scope, call)).collect();
            paths.into_iter().collect()
        };
        let written = match env.model {
            Some(_) => {
                let (from, to) = (steps[0].0, steps[steps.len() - 1].0 + 1);
                write(&transcript(scope, from..to), env)?
            }
            None => None,
        };
        let note = written.unwrap_or_else(|| Note {
            title: self.input(scope, first),
            facts: calls
                .iter()
                .flat_map(|&call| results(scope, steps, call))
                .map(|result| self.result(scope, result, env))
                .filter(|fact| !fact.is_empty())
                .collect(),
        });
        let failed =
            calls.iter().flat_map(|&call| results(scope, steps, call)).any(|r| success(scope, r) == "error");
        *log += &format!(
            "turn {} [{}{}] {}\n",
            scope.log.turn_of(first),
            kinds.iter().min().map_or("other", |kind| kind.name()),
            if failed { ", error" } else { "" },
            note.title
        );
        for fact in note.facts {
            *log += &format!("- {fact}\n");
        }
        let read = files(&[ActionKind::ReadFile, ActionKind::Search]);
        let modified = files(&[ActionKind::EditFile]);
        for (what, files) in [("files read", read), ("files modified", modified)] {
            if !files.is_empty() {
                *log += &format!("- {what}: {}\n", files.join(", "));
            }
        }
        Ok(())
    }
}

/// The results among these steps that answer a call.
fn results<'a>(scope: &'a Scope<'_>, steps: &'a [(usize, u32)], call: u32) -> impl Iterator<Item = u32> + 'a {
    let results = steps.iter().map(|s| s.1).filter(|&s| scope.log.kind(s) == Kind::Observation);
    results.filter(move |&result| scope.log.call_of(result) == Some(call))
}

/// Whether a result says that its call went well: as logged, else by the words of common failures.
fn success(scope: &Scope<'_>, result: u32) -> &'static str {
    const FAILURES: [&str; 6] = [
        "Traceback (most recent call last)",
        "command not found",
        "No such file",
        "FAILED",
        "rror:",
        "<returncode>1",
    ];
    let step = &scope.log.trajectory.steps[result as usize];
    let failed = step.is_error.unwrap_or_else(|| FAILURES.iter().any(|words| step.text.contains(words)));
    if failed { "error" } else { "ok" }
}

/// The files that a step names.
fn paths<'a>(scope: &'a Scope<'_>, step: u32) -> impl Iterator<Item = &'a str> {
    let atoms =
        scope.log.mentions_of_step(step).iter().map(|mention| &scope.log.atoms[mention.atom as usize]);
    atoms.filter(|atom| atom.kind == AtomKind::Path).map(|atom| atom.text.as_str())
}

/// What the model writes of an observation.
#[derive(Deserialize)]
struct Note {
    title: String,
    facts: Vec<String>,
}

/// Asks the model; none if it gave nothing usable, which is flagged.
fn write(turn: &str, env: &mut Env<'_>) -> anyhow::Result<Option<Note>> {
    let text = |max: u32| json!({"type": "string", "minLength": 1, "maxLength": max});
    let schema = json!({
        "type": "object",
        "properties": {
            "title": text(120),
            "facts": {"type": "array", "items": text(160), "minItems": 1, "maxItems": 3},
        },
        "required": ["title", "facts"],
        "additionalProperties": false,
    });
    let grammar = grammar::json(&schema).map_err(anyhow::Error::msg)?;
    let prompt = Prompt::render(TEMPLATE, &[("log", Data::fenced(turn).may_cut().into())])?;
    // An observation of a short turn may be longer than it.
    let written = writer::write(prompt, Some(grammar), MAX_TOKENS, u32::MAX, env)?;
    let note = written.and_then(|text| serde_json::from_str(&text).ok());
    if note.is_none() {
        env.work.fallback = Some("rules");
    }
    Ok(note)
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    const SCRIPT: &str = "user: mend it
        thought: look at the file
        action: cat src/parser.py
        observation: def parse(text):~    return text.splitt()~it was so and not of the on or but it was so and not of the on or but it was so and not of the on or but it was so
        action: pytest tests/test_parser.py
        observation: Traceback (most recent call last):~AttributeError: splitt~it was so and not of the on or but it was so and not of the on or but it was so and not of the on or but it was so
        agent: I see";

    #[test]
    fn a_line_for_each_call() {
        assert_eq!(
            after_events(("tool-log", ""), ("turns", "n = 2"), SCRIPT),
            ["turn 1: cat src/parser.py -> ok: def parse(text): | return text.splitt()\n\
              turn 2: pytest tests/test_parser.py -> error: Traceback (most recent call last): | AttributeError: splitt"]
        );
        let talk = "user: hello\nagent: hello there\nuser: well\nagent: bye";
        assert_eq!(after_events(("tool-log", ""), ("turns", "n = 1"), talk), [""]);
    }

    #[test]
    fn an_observation_for_each_turn() {
        assert_eq!(
            after_events(("tool-log", "form = 'structured'"), ("turns", "n = 2"), SCRIPT),
            ["turn 1 [read_file] cat src/parser.py\n\
              - def parse(text): | return text.splitt()\n\
              - files read: src/parser.py\n\
              turn 2 [run_test, error] pytest tests/test_parser.py\n\
              - Traceback (most recent call last): | AttributeError: splitt"]
        );
    }
}
