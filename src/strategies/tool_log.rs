//! What the agent did, as a log of its tool calls.
//!
//! Strategy E of the seeds, after claude-mem. `form = "timeline"`: a line for each call with its input, whether it went
//! well, and the line of its result that says most. `form = "structured"`: an observation for each turn that called a
//! tool: types, title, facts, files read and modified; title and facts are written by the model where there is one,
//! else they are the calls and the lines of the results that say most. Each event adds to the log; what is no call is left
//! out. Where nothing was called there is nothing to log: the extractive summary stands in, flagged.
//!
//! Whether a call went well is asked of what it was: of an edit what the editor says; of a program or test how it ended, and
//! what tools print in the last lines when they fail (`make: *** `, `a.c:3:5: error: `), as of an edit whose command runs
//! something besides; of a reading whether its result is the reader's own error; of anything else how its result begins.
//! What a result shows of a file tells nothing.

use std::collections::{BTreeSet, HashMap};

use serde::Deserialize;
use serde_json::json;

use crate::context::log::Log;
use crate::context::{Content, Edit};
use crate::models::grammar;
use crate::models::prompt::{Data, Prompt};
use crate::params::params;
use crate::strategies::{Entry, Env, Scope, Strategy, extractive, put, texts, transcript, writer};
use crate::text::atoms::AtomKind;
use crate::trajectory::{Kind, Step};
use crate::turns::actions::ActionKind;
use crate::turns::{self, Facts};

mod outcome;

use outcome::{WORDS, is_wrapper, last_lines, shows_past, tells_failure, went_well};

pub(super) const ENTRY: Entry = Entry {
    name: "tool-log",
    summary: "Keep a log of the tool calls, with inputs, results and success.",
    params: ToolLog::PARAMS,
    takes_model: true,
    build: |params| Ok(Box::new(ToolLog::of(params)?)),
};

const TEMPLATE: &str = include_str!("tool_log.txt");
/// Tokens that the model may write for an observation.
const MAX_TOKENS: u32 = 160;
/// Tokens of the summary of a scope without a call, as of `summary`.
const SUMMARY_TOKENS: u32 = 200;

params! {
    struct ToolLog {
        /// How an entry looks: a line, or a note with fields.
        form: Form = "timeline",
        /// Characters of a call's input that are kept.
        input_chars: usize = 120,
        /// Tokens of a call's result that are kept, at most.
        result_tokens: u32 = 40,
    }
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
enum Form {
    Timeline,
    Structured,
}

impl Strategy for ToolLog {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let steps = whole_steps(scope);
        if !steps.iter().any(|s| scope.log.kind(s.1) == Kind::Action) {
            (env.work.warning, env.work.fallback) = (Some("no tool calls"), Some("extractive"));
            let texts = texts(scope);
            let tokens = env.tokenizer.count_up_to(&texts, SUMMARY_TOKENS);
            return Ok(put(scope, extractive::summary(&texts, tokens, env.tokenizer)));
        }
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
        let answers = answers(scope, steps);
        for &(_, call) in steps.iter().filter(|s| scope.log.kind(s.1) == Kind::Action) {
            let turn = scope.log.turn_of(call);
            *log += &format!("turn {turn}: {}", self.input(scope, call));
            for result in results(&answers, call) {
                let said = self.result(scope, result, env);
                *log += &format!(
                    " -> {}{}{said}",
                    success(scope, call, result),
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
        let text = &scope.log.trajectory.steps[result as usize].text;
        let is_code = |line: &str| WORDS.codes.line.iter().any(|label| line.trim().starts_with(label));
        let own = text.split_inclusive('\n').filter(|line| !is_wrapper(line) && !is_code(line)).collect();
        extractive::summary(&[own], self.result_tokens, env.tokenizer).replace('\n', " | ")
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
        let answers = answers(scope, steps);
        let mut kinds: Vec<&str> = Vec::new();
        for &call in &calls {
            let kind = kind_of(scope.log, call).map_or("other", ActionKind::name);
            if !kinds.contains(&kind) {
                kinds.push(kind);
            }
        }
        let files = |of: &[ActionKind]| -> Vec<&str> {
            let calls =
                calls.iter().filter(|&&call| kind_of(scope.log, call).is_some_and(|kind| of.contains(&kind)));
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
            title: calls.iter().map(|&call| self.input(scope, call)).collect::<Vec<_>>().join("; "),
            facts: calls
                .iter()
                .flat_map(|&call| results(&answers, call))
                .map(|result| self.result(scope, result, env))
                .filter(|fact| !fact.is_empty())
                .collect(),
        });
        let failed = calls
            .iter()
            .any(|&call| results(&answers, call).any(|result| !went_well(scope.log, call, result)));
        *log += &format!(
            "turn {} [{}{}] {}\n",
            scope.log.turn_of(first),
            kinds.join(", "),
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

/// The results among these steps, by the call that they answer.
fn answers(scope: &Scope<'_>, steps: &[(usize, u32)]) -> HashMap<u32, Vec<u32>> {
    let mut answers: HashMap<u32, Vec<u32>> = HashMap::new();
    for result in steps.iter().map(|s| s.1).filter(|&s| scope.log.kind(s) == Kind::Observation) {
        if let Some(call) = scope.log.call_of(result) {
            answers.entry(call).or_default().push(result);
        }
    }
    answers
}

fn results(answers: &HashMap<u32, Vec<u32>>, call: u32) -> impl Iterator<Item = u32> {
    answers.get(&call).into_iter().flatten().copied()
}

fn success(scope: &Scope<'_>, call: u32, result: u32) -> &'static str {
    if went_well(scope.log, call, result) { "ok" } else { "error" }
}

fn kind_of(log: &Log, call: u32) -> Option<ActionKind> {
    log.action_kinds[call as usize]
}

/// Of a command that failed the first of the last lines in which a tool tells so; none of what reads or asks for pages, which
/// may show such words.
pub(super) fn failure(log: &Log, call: u32, result: u32) -> Option<&str> {
    let steps = &log.trajectory.steps;
    let (caller, text) = (&steps[call as usize], steps[result as usize].text.as_str());
    let shows =
        matches!(kind_of(log, call), Some(ActionKind::ReadFile | ActionKind::Search | ActionKind::ApiCall));
    if shows || shows_past(caller) || went_well(log, call, result) {
        return None;
    }
    last_lines(text).filter(|line| tells_failure(line)).last()
}

/// What happened in one call with one of its results, as if they were a turn.
fn facts(log: &Log, call: u32, result: u32) -> Facts {
    let step = |at: u32| Step { turn: 1, ..log.trajectory.steps[at as usize].clone() };
    turns::read(&[step(call), step(result)]).turns.pop().unwrap_or_default()
}

/// The files that a step names.
fn paths<'a>(scope: &'a Scope<'_>, step: u32) -> impl Iterator<Item = &'a str> {
    let atoms = scope.log.mentions_of_step(step).iter().map(|mention| scope.log.atom(mention.so_far));
    atoms.filter(|atom| atom.kind == AtomKind::Path).map(|atom| atom.text)
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
    let read = |text: &str| {
        let mut note: Note = serde_json::from_str(text).ok()?;
        let mut seen = BTreeSet::new();
        note.facts.retain(|fact| seen.insert(fact.trim().to_owned()));
        Some(note)
    };
    let note = writer::write_as(prompt, Some(grammar), MAX_TOKENS, u32::MAX, env, read)?;
    if note.is_none() {
        env.work.fallback = Some("rules");
    }
    Ok(note)
}

#[cfg(test)]
mod tests;
