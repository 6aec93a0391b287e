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
use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::json;

use super::{Entry, Env, Scope, Strategy, extractive, put, texts, transcript, writer};
use crate::context::log::Log;
use crate::context::{Content, Edit};
use crate::models::grammar;
use crate::models::prompt::{Data, Prompt};
use crate::params::params;
use crate::text::atoms::AtomKind;
use crate::text::lists::{self, Signs, WordSet};
use crate::text::sentences::is_numbered;
use crate::trajectory::{Kind, Step};
use crate::turns::actions::ActionKind;
use crate::turns::{self, Facts};

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

/// Whether a call went well, as far as its result tells.
fn went_well(log: &Log, call: u32, result: u32) -> bool {
    let (caller, step) = (&log.trajectory.steps[call as usize], &log.trajectory.steps[result as usize]);
    let logged = step.is_error.map(|is_error| !is_error);
    let kind = kind_of(log, call);
    let by_kind = match kind {
        Some(ActionKind::EditFile) => editor_says(&step.text).or_else(|| {
            let facts = facts(log, call, result);
            // A command that writes a file and goes on is judged by how it ended.
            let ends_well = || logged == Some(true) || !ends_with_error(caller, &step.text, |_| true);
            let ran = facts.test.map_or(facts.ran_well, |test| test.passed);
            ran.map(|well| well && ends_well()).or(logged).or(facts.refused.then_some(false))
        }),
        Some(ActionKind::RunTest | ActionKind::RunCommand) => {
            let facts = facts(log, call, result);
            let passed = facts.test.and_then(|test| test.passed);
            // Of a program that well is only what did not break down: it may have told of an error.
            passed.or(facts.ran_well.filter(|well| !well || logged.is_some()))
        }
        _ => None,
    };
    by_kind.or(logged).unwrap_or_else(|| !has_failed(kind, caller, &step.text))
}

/// Whether the text of a result tells that its call failed.
fn has_failed(kind: Option<ActionKind>, call: &Step, text: &str) -> bool {
    match kind {
        Some(ActionKind::ReadFile | ActionKind::Search) => reading_failed(call, text),
        Some(ActionKind::EditFile) if is_editor(call) => begins_with_error(text) || editor_refuses(text),
        Some(ActionKind::EditFile) => {
            begins_with_error(text) || runs_more(call) && ends_with_error(call, text, |_| true)
        }
        _ if shows_past(call) => reading_failed(call, text),
        // What comes from outside may be a page that shows anything.
        Some(ActionKind::ApiCall) => {
            begins_with_error(text) || ends_with_error(call, text, |line| is_named(call, program(line)))
        }
        _ => begins_with_error(text) || ends_with_error(call, text, |_| true),
    }
}

/// What happened in one call with one of its results, as if they were a turn.
fn facts(log: &Log, call: u32, result: u32) -> Facts {
    let step = |at: u32| Step { turn: 1, ..log.trajectory.steps[at as usize].clone() };
    turns::read(&[step(call), step(result)]).turns.pop().unwrap_or_default()
}

static WORDS: LazyLock<Words> = LazyLock::new(|| lists::read(include_str!("../data/words/results.toml")));

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    editors: Editors,
    results: Results,
    codes: Codes,
    calls: Calls,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Editors {
    made: Signs,
    refused: Signs,
    done: Signs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Results {
    errors: Signs,
    environment: Signs,
    failures: Signs,
    reasons: Signs,
    signals: WordSet,
    after_place: Vec<String>,
    wrappers: WordSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Codes {
    line: Vec<String>,
    told: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Calls {
    editor_commands: WordSet,
    showers: WordSet,
    past: Signs,
    changers: WordSet,
    shells: WordSet,
    before: WordSet,
}

/// Whether the edit was made: the first line that says so tells, whatever a shell or a linter put before it.
fn editor_says(text: &str) -> Option<bool> {
    let Editors { made, refused, .. } = &WORDS.editors;
    let told = |line: &str| if made.fit(line) { Some(true) } else { refused.fit(line).then_some(false) };
    // A program that a script runs may tell of errors further down.
    if text.trim_start().starts_with("Error:") { Some(false) } else { text.lines().find_map(told) }
}

/// Whether a call is one of a tool that edits files itself, and no command of a shell.
fn is_editor(call: &Step) -> bool {
    let tool = call.text.split_whitespace().next().unwrap_or("").to_lowercase();
    turns::actions::is_editor(&tool)
}

/// Whether an editor begins with why it could not edit: "not found".
fn editor_refuses(text: &str) -> bool {
    let line = head(text).1;
    let lower = line.to_lowercase();
    gives_reason(line) && !is_numbered(line) && !WORDS.editors.done.fit(&lower)
}

/// Whether a line is made of an environment's tags alone.
fn is_wrapper(line: &str) -> bool {
    let is_tag = |tag: &str| {
        let name = tag.strip_prefix('<').and_then(|tag| tag.strip_suffix('>'));
        name.is_some_and(|name| WORDS.results.wrappers.has(name.trim_start_matches('/')))
    };
    let line = line.trim();
    !line.is_empty() && line.split_inclusive('>').all(is_tag)
}

/// Whether the exit code that a result tells is that of success, and the first line of its own.
fn head(text: &str) -> (Option<bool>, &str) {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !is_wrapper(line));
    let first = lines.next().unwrap_or("");
    match WORDS.codes.line.iter().find_map(|label| first.strip_prefix(label.as_str())) {
        Some(code) => (Some(!is_bad_code(code)), lines.next().unwrap_or("")),
        None => (None, first),
    }
}

/// Whether a result begins with an error: its exit code is none of success, or its first line tells.
fn begins_with_error(text: &str) -> bool {
    let (succeeded, opening) = head(text);
    succeeded == Some(false) || WORDS.results.errors.fit(opening)
}

/// The words of a call at which a command may stand, without their folders.
fn programs(call: &Step) -> impl Iterator<Item = &str> {
    call.text.split(['\n', '|', '&', ';', '(', '`', '"', '\'']).filter_map(program_of)
}

/// The first word of a piece of a command that may be a program, without its folders.
fn program_of(piece: &str) -> Option<&str> {
    let is_word = |word: &&str| {
        !WORDS.calls.before.has(word)
            && !word.ends_with(':')
            && !word.contains('=')
            && !word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
    };
    piece.split_whitespace().find(is_word)?.rsplit('/').next().filter(|name| !name.is_empty())
}

/// Whether a command runs something besides what shows files and what changes them: `rm -rf build && make`.
fn runs_more(call: &Step) -> bool {
    // What follows is a document.
    let end = call
        .text
        .find("<<")
        .map_or(call.text.len(), |at| call.text[at..].find('\n').map_or(call.text.len(), |n| at + n));
    let mut quote = None;
    let parts = call.text[..end].split(move |c: char| {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            _ => {}
        }
        quote.is_none() && matches!(c, '\n' | '|' | '&' | ';' | '(' | '`')
    });
    let Calls { showers, changers, shells, .. } = &WORDS.calls;
    let is_plain = |name: &str| {
        [showers, changers, shells].iter().any(|names| names.has(name)) || call.tool.as_deref() == Some(name)
    };
    parts.filter_map(program_of).any(|name| !is_plain(name))
}

/// Whether a call names this program as a command.
fn is_named(call: &Step, program: &str) -> bool {
    programs(call).any(|name| name == program)
}

/// Whether a call shows what files were, and does nothing else.
fn shows_past(call: &Step) -> bool {
    let Calls { showers, shells, past, .. } = &WORDS.calls;
    let shows = |name: &str| showers.has(name) || shells.has(name) || name == "cd";
    past.fit(&call.text) && programs(call).all(|name| shows(name) || call.tool.as_deref() == Some(name))
}

/// The program that a line says it comes from: `cat` of `cat: a.py: No such file`, `sh` of `/bin/sh: 1: ...`.
fn program(line: &str) -> &str {
    let name = line.split(':').next().unwrap_or(line);
    name.rsplit('/').next().unwrap_or(name).trim_start_matches('-')
}

/// Whether a line tells why something could not be done.
fn gives_reason(line: &str) -> bool {
    WORDS.results.reasons.fit(&line.to_lowercase())
}

/// Whether a reading failed: its result begins with what the reader itself says of an error, not with a file that does.
fn reading_failed(call: &Step, text: &str) -> bool {
    let (succeeded, line) = head(text);
    let own = || {
        let program = program(line);
        let speaks = WORDS.calls.shells.has(program) || is_named(call, program);
        speaks && gives_reason(line) || line.starts_with("fatal: ") && is_named(call, "git")
    };
    if succeeded == Some(false) || WORDS.results.environment.fit(line) || own() {
        return true;
    }
    let is_one_of = |names: &WordSet| programs(call).any(|name| names.has(name));
    let Calls { editor_commands, showers, .. } = &WORDS.calls;
    // A tool that is neither may show files as they are, too: then its own error says of what, or why.
    let says_of_what = || line.starts_with("{\"error\"") || gives_reason(line) || names_file(call, line);
    WORDS.results.errors.fit(line) && (is_one_of(editor_commands) || !is_one_of(showers) && says_of_what())
}

/// Whether a line names a file that the call names.
fn names_file(call: &Step, line: &str) -> bool {
    let words = line.split_whitespace().map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    words.filter(|word| word.len() > 2 && word.contains(['.', '/'])).any(|word| call.text.contains(word))
}

/// Lines at the end of a result in which a failure is looked for.
const LAST: usize = 20;

/// Whether a tool tells in one of the last such lines that it failed. An exit code of success counts more, where it is not
/// that of the last of several commands alone.
fn ends_with_error(call: &Step, text: &str, counts: impl Fn(&str) -> bool) -> bool {
    if head(text).0 == Some(true) && !call.text.contains(['|', ';']) {
        return false;
    }
    let codes = last_lines(text).take(1).chain([head(text).1]).filter(|line| tells_code(line));
    last_lines(text).filter(|line| tells_failure(line)).chain(codes).any(counts)
}

/// The last lines of a result's own, from its end on.
fn last_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().rev().map(str::trim).filter(|line| !line.is_empty() && !is_wrapper(line)).take(LAST)
}

/// Whether a line tells an exit code that is none of success.
fn tells_code(line: &str) -> bool {
    WORDS.codes.told.iter().any(|label| line.strip_prefix(label.as_str()).is_some_and(is_bad_code))
}

fn is_bad_code(code: &str) -> bool {
    code.starts_with(|c: char| matches!(c, '1'..='9' | '-'))
}

fn tells_failure(line: &str) -> bool {
    let bare = line.strip_prefix("/bin/").unwrap_or(line).trim_start_matches('-');
    let Results { failures, signals, after_place, .. } = &WORDS.results;
    failures.fit(bare)
        || signals.has(line.strip_suffix(" (core dumped)").unwrap_or(line))
        || after_place
            .iter()
            .any(|sign| line.split_once(sign.as_str()).is_some_and(|(place, _)| is_place(place)))
}

/// Whether a text is a file with the number of a line: `src/a.c:3:5`, `a.ts(3,5)`.
fn is_place(text: &str) -> bool {
    let Some(at) = text.find([':', '(']) else { return false };
    let (file, number) = text.split_at(at);
    file.contains(['.', '/'])
        && file.contains(|c: char| c.is_ascii_alphabetic())
        && file.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '+'))
        && number.contains(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | ',' | '(' | ')'))
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
mod tests {
    use std::sync::Arc;

    use super::super::Flaw;
    use super::super::tests::{after_events, replayed, run};
    use super::{ActionKind, Log, has_failed, is_place, is_wrapper, reading_failed};
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, Call, Card, Finish, Text};
    use crate::trajectory::{Kind, Role, step};

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
    }

    #[test]
    fn talk_without_calls_is_summarised_and_flagged() {
        let log = Log::script(
            "user: hello\nagent: The rent of the flat in Lyon is 880 euros.\nuser: well\nagent: bye",
        );
        for params in ["", "form = 'structured'"] {
            let events = run(("tool-log", params), ("turns", "n = 1"), &log).events;
            let [event] = &events[..] else { panic!("{}", events.len()) };
            let text: String = event.after.iter().map(|block| block.text(&log)).collect();
            assert_eq!(text, "The rent of the flat in Lyon is 880 euros.");
            assert_eq!(
                (event.work.fallback, event.work.warning),
                (Some("extractive"), Some("no tool calls"))
            );
        }
    }

    /// How each call of a script is logged.
    #[track_caller]
    fn words_are(script: &str, expected: &[&str]) {
        let log = Log::script(&format!("user: mend it\n{script}\nagent: I see"));
        let run = run(("tool-log", ""), ("turns", "n = 1"), &log);
        let text: String =
            run.events.iter().flat_map(|e| &e.after).map(|block| block.text(&log) + "\n").collect();
        let word = |line: &str| Some(line.split(" -> ").nth(1)?.split([':', ' ']).next()?.to_owned());
        assert_eq!(text.lines().filter_map(word).collect::<Vec<_>>(), expected, "{text}");
    }

    /// Words that keep a log shorter than what it stands for.
    const REST: &str = "~it was so and not of the on or but it was so and not of the on or but it was so and not of the on or but it was so, and it was so and not of the on or but it was so and not of the on or";

    #[test]
    fn an_edit_went_well_if_the_editor_says_so() {
        let script = format!(
            "action: edit 1:1~raise KeyError('FAILED')~end_of_edit
            observation: [File: /r/a.py (2 lines total)]~1:raise KeyError('FAILED')~2:# Error: No such file~File updated. Please review the changes.{REST}
            action: edit 1:1~def f(:~end_of_edit
            observation: Your proposed edit has introduced new syntax error(s). Please read this.~~- E999 SyntaxError~[File: /r/a.py (2 lines total)]{REST}
            action: edit 2:2~x = 1~end_of_edit
            observation:   File \"/root/commands/_split_string\", line 17~SyntaxError: future feature annotations is not defined~[File: /r/a.py (2 lines total)]~1:x~File updated. Please review the changes.{REST}
            action: create a.py
            observation: Error: File 'a.py' already exists.~[File: /r/a.py (2 lines total)]{REST}
            action: sed -i 's/4096/8192/' src/table.rs
            observation: sed: can't read src/table.rs: No such file or directory{REST}
            action: cat > t.py << 'EOF' && python t.py~print('Error')~EOF
            observation: <returncode>0</returncode>~<output>~Tried: SELECT~Error: no such table, as it should{REST}
            action: sed -i 's/4096/8192/' src/table.rs && cat src/table.rs
            observation: fn f() {{ panic!(\"rror: FAILED\") }}{REST}"
        );
        words_are(&script, &["ok", "error", "ok", "error", "error", "ok", "ok"]);
    }

    #[test]
    fn a_reading_failed_if_its_result_begins_with_an_error() {
        let script = format!(
            "action: cat src/a.py
            observation: import os~# Traceback (most recent call last)~raise ValueError('Error: FAILED, No such file'){REST}
            action: cat src/b.py
            observation: cat: src/b.py: No such file or directory{REST}
            action: open src/c.py
            observation: File src/c.py not found{REST}
            action: grep -rn FAILED src
            observation: <returncode>0</returncode>~<output>~src/a.py:3:raise ValueError('Error: FAILED'){REST}
            action: cat src/d.py
            observation: <returncode>1</returncode>~<output>~cat: src/d.py{REST}
            action: ls src/e
            observation: <returncode>0</returncode>~<output>~ls: src/e: Permission denied{REST}"
        );
        words_are(&script, &["ok", "error", "error", "ok", "error", "error"]);
    }

    #[test]
    fn a_run_went_well_if_it_ended_well() {
        let script = format!(
            "action: python repro.py
            observation: caught: Error: FAILED as it should{REST}
            action: python repro.py
            observation: begin~Traceback (most recent call last):~KeyError: 1{REST}
            action: python repro.py
            observation: python: can't open file 'repro.py': [Errno 2] No such file or directory{REST}
            action: pytest tests
            observation: tests/a.py::test_that_FAILED_is_told PASSED{REST}~===== 2 passed in 0.31s =====
            action: pytest tests
            observation: F.{REST}~===== 1 failed, 2 passed in 0.31s =====
            action: git stash
            observation: fatal: not a git repository{REST}"
        );
        words_are(&script, &["ok", "error", "error", "ok", "error", "error"]);
    }

    #[test]
    fn tools_tell_in_their_last_lines_that_they_failed() {
        let failed = [
            ("make", "make: *** No rule to make target 'all'.  Stop."),
            (
                "cd src && make html",
                "cc -c a.c~make[2]: *** [Makefile:19: a.o] Error 1~make: *** [all] Error 2",
            ),
            ("gcc a.c", "a.c: In function 'main':~a.c:3:5: error: expected ';' before '}' token~    3 | }"),
            ("gcc a.c", "a.c:1:10: fatal error: b.h: No such file~compilation terminated."),
            ("npx tsc", "src/a.ts(3,5): error TS2304: Cannot find name 'x'."),
            (
                "git push",
                "To github.com:a/b.git~ ! [rejected]        main -> main (fetch first)~hint: pull first",
            ),
            ("curl -s http://x", "  % Total~curl: (7) Failed to connect to x port 80: Connection refused"),
            (
                "bash build.sh",
                "begin~build.sh: line 3: all~bash: -c: line 2: syntax error: unexpected end of file",
            ),
            ("echo (", "/bin/bash: -c: line 1: syntax error near unexpected token `newline'"),
            ("git push origin main", "hm~fatal: unable to access 'https://x/': Could not resolve host: x"),
            ("cat > a.c << 'EOF' && make~int x~EOF", "cc -c a.c~make: *** [a.o] Error 1"),
            ("./show | tail -3", "<returncode>0</returncode>~<output>~seen~a.c:3:5: error: expected ';'"),
            ("docker run x", "Killed"),
            ("./big", "begin~/bin/bash: line 1:  4711 Killed                  ./big"),
            ("./big", "begin~Floating point exception (core dumped)"),
            ("timeout 5 x", "Command timed out after 5 seconds"),
            ("node a.js", "Uncaught TypeError: x is not a function"),
            ("java Main", "Exception in thread \"main\" java.lang.NullPointerException"),
            ("systemctl status x", "Exit code: 1"),
            // Commands of several parts that begin with an edit.
            ("rm -rf build && make", "make: *** [all] Error 2"),
            ("mv a.py conf.py; sphinx-build . out", "reading~make: *** [html] Error 2"),
            ("sed -i 's/a;b/c/' a.c && gcc a.c", "a.c:3:5: error: expected ';'"),
        ];
        let long = format!("make: *** [all] Error 2~{}", "nothing of it is an error~".repeat(25));
        let well = [
            ("make", "make: Nothing to be done for 'all'."),
            ("gcc a.c", "a.c:3:5: warning: unused variable 'error'"),
            ("git push", "To github.com:a/b.git~   1f0c..2a4b  main -> main"),
            ("curl -s http://x/page", "<html>~fatal: it was~a.c:3:5: error: expected"),
            ("git show 1f0c:build.log", "Error: none~a.c:3:5: error: expected ';'~fatal: so it was"),
            ("./show", "<returncode>0</returncode>~<output>~seen~a.c:3:5: error: expected ';'"),
            ("./show", "12:04:07: error: told~note: error: none~we saw make: *** and fatal: too"),
            ("./long", long.as_str()),
            ("./show", "seen~Killed 3 of them~Terminated.~Uncaught and so on~Command that timed out"),
            // Of another program that this one has run.
            ("./show", "seen~Exit code: 1~it is so, as it should be"),
            ("systemctl status x", "Exit code: 0"),
            ("cat build.log", "Exit code: 1~Killed~make: *** [all] Error 2~Uncaught TypeError: x"),
            ("rm a.log && cat b.log", "begin~Killed~make: *** [all] Error 2~fatal: it was"),
            ("sed -i 's/a;b/c/g' a.c && cat a.c", "int x;~Killed~fatal: it was"),
            ("rm -rf build && make", "make: Nothing to be done for 'all'."),
        ];
        let step = |(call, result): &(&str, &str)| format!("action: {call}\nobservation: {result}{REST}\n");
        words_are(&failed.iter().map(step).collect::<String>(), &["error"; 22]);
        words_are(&well.iter().map(step).collect::<String>(), &["ok"; 15]);
        assert!(is_place("src/a.c:3:5") && is_place("a.ts(3,5)") && is_place("./A.java:3"));
        assert!(!is_place("12:04:07") && !is_place("a.c") && !is_place("a b.c:3") && !is_place(""));
    }

    #[test]
    fn a_file_that_begins_with_an_error_was_read_well() {
        let well = [
            ("cat app.log", "Error: this is a line of the log, all well"),
            ("sudo cat app.json | head -5", "{\"error\": \"not found\"}"),
            ("tail -n 5 app.log", "Traceback (most recent call last):~KeyError: 1"),
            ("cat app.log", "python: can't open file 'a.py': [Errno 2] No such file or directory"),
            ("cat cat.txt", "cat: an animal~fatal: it was"),
            ("grep -h rror app.log", "Error: No such file, it said"),
        ];
        let failed = [
            ("cd src && cat b.py", "cat: b.py: No such file or directory"),
            ("sed -n 1,5p b.py", "sed: can't read b.py: No such file or directory"),
            ("head -5 b.py", "head: cannot open 'b.py' for reading: No such file or directory"),
            ("cat b.py", "EXECUTION FAILED OR COMMAND MALFORMED"),
            ("bat b.py", "/bin/sh: 1: bat: not found"),
            ("goto 475", "Error: <line> must be less than or equal to 80"),
            ("git show HEAD:b.py", "fatal: path 'b.py' does not exist in 'HEAD'"),
        ];
        let step = |(call, result): &(&str, &str)| format!("action: {call}\nobservation: {result}{REST}\n");
        words_are(&well.iter().map(step).collect::<String>(), &["ok"; 6]);
        words_are(&failed.iter().map(step).collect::<String>(), &["error"; 7]);
    }

    #[test]
    fn what_an_environment_tells_last_is_the_exit_code_of_the_call() {
        let last = |line: &str| {
            let call = step(Role::Agent, Kind::Action, "bash\n./show");
            has_failed(Some(ActionKind::RunCommand), &call, &format!("seen\nso it is\n{line}\n"))
        };
        assert!(last("Exit code: 2") && last("[The command completed with exit code 1.]"));
        assert!(!last("Exit code: 0") && !last("[The command completed with exit code 0.]"));
    }

    #[test]
    fn an_editor_that_gives_a_reason_has_not_edited() {
        let failed = |call: &str, text: &str| {
            has_failed(Some(ActionKind::EditFile), &step(Role::Agent, Kind::Action, call), text)
        };
        let replace = "str_replace\npath: src/y.py\nold: a; b\nnew: make | c";
        assert!(failed(replace, "not found"));
        assert!(failed(replace, "Ran into [Errno 2] No such file or directory: 'src/y.py' while writing"));
        assert!(
            !failed(replace, "Replaced \"not found\" once.")
                && !failed(replace, "")
                && !failed(replace, "ok")
        );
        assert!(!failed(replace, "3:raise KeyError('not found')\n4:Killed"));
        // What a command prints is not its own.
        assert!(!failed("echo x > a && ./show", "the key was not found, as it should be"));
    }

    /// A tool that is no command of a shell.
    #[test]
    fn a_tool_that_reads_says_of_what_its_error_is() {
        let failed = |text: &str| {
            reading_failed(&step(Role::Agent, Kind::Action, "read_file\npath: src/app.log\nlimit: 5"), text)
        };
        assert!(failed("Error: File not found: src/app.log"));
        assert!(failed("Error: src/app.log is locked") && failed("{\"error\": \"locked\"}"));
        assert!(!failed("Error: this is a line of the log, all well") && !failed("") && !failed("import os"));
    }

    #[test]
    fn what_an_environment_puts_around_a_result_is_none_of_it() {
        let log = Log::script(&format!(
            "user: mend it
             action: ls
             observation: <returncode>0</returncode>~<output>~src/parser.py~</output>
             action: cat src/parser.py
             observation: <returncode>0</returncode>~</warning><output_head>~</output>
             action: cat page.html
             observation: <output>~<b>{REST}~</output>
             agent: I see"
        ));
        let run = run(("tool-log", "result_tokens = 9"), ("turns", "n = 3"), &log);
        let text = run.events[0].after[0].text(&log);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..2], ["turn 1: ls -> ok: src/parser.py", "turn 2: cat src/parser.py -> ok"]);
        assert!(
            !is_wrapper("<b>") && !is_wrapper("") && !is_wrapper("<output> 1") && is_wrapper(" </stdout>\n")
        );
    }

    #[test]
    fn what_is_logged_counts_where_the_result_does_not_tell() {
        let mut log = Log::script(&format!(
            "user: mend it\naction: cat a\nobservation: Error: none{REST}\naction: cat b\nobservation: all well{REST}\nagent: I see"
        ));
        for (step, is_error) in [(2, false), (4, true)] {
            log.trajectory.steps[step].is_error = Some(is_error);
        }
        let events = run(("tool-log", ""), ("turns", "n = 2"), &log).events;
        let text = events[0].after[0].text(&log);
        assert!(text.contains("cat a -> ok") && text.contains("cat b -> error"), "{text}");
    }

    /// An answer that is cut at its limit is flagged, and asked for once more with another seed.
    #[test]
    fn an_answer_that_cannot_be_read_is_asked_for_once_more() {
        const CUT: &str = r#"{"title": "looked at the file", "facts": ["the parser"#;
        // What it says twice is logged once.
        const WHOLE: &str = r#"{"title": "looked", "facts": ["it splits", "it splits"]}"#;
        let after = |answers: [&'static str; 2]| {
            let card = Card { name: "test".to_owned(), identity: "test".to_owned(), window: 4096 };
            let model = Scripted::rule(card, move |call| {
                let Call::Generate { sampling, .. } = call else { return None };
                let text = answers[usize::from(sampling.is_some())].to_owned();
                let finish = Finish::Length;
                Some(Ok(Answer::Text(Text { text, finish, prompt_tokens: 9, tokens: 9, cut_tokens: 0 })))
            });
            let log = Log::script(SCRIPT);
            let way = ("tool-log", "form = 'structured'");
            let run = replayed(way, ("turns", "n = 1"), &log, Some(Arc::new(model)), None);
            (run.events[0].after[0].text(&log), (*run.events[0].work).clone())
        };
        let (text, work) = after([CUT, WHOLE]);
        assert!(text.starts_with("turn 1 [read_file] looked\n- it splits\n- files read"), "{text}");
        assert_eq!((work.calls, work.fallback, &work.degenerate[..]), (2, None, &[Flaw::NotInForm][..]));
        let (text, work) = after([CUT, CUT]);
        assert!(text.starts_with("turn 1 [read_file] cat src/parser.py\n"), "{text}");
        assert_eq!(
            (work.calls, work.fallback, &work.degenerate[..]),
            (2, Some("rules"), &[Flaw::NotInForm; 2][..])
        );
    }

    #[test]
    fn an_observation_names_all_calls_of_its_turn() {
        let mut log = Log::script(&format!(
            "user: mend it
             thought: both
             action: cat src/parser.py
             action: rm -f src/table.py
             action: cat src/lexer.py
             observation: def parse(text):{REST}
             observation: rm: cannot remove 'src/table.py': Permission denied
             observation: def lex(text):{REST}
             agent: I see"
        ));
        let steps = &mut log.trajectory.steps;
        for (at, id) in [(2, "a"), (3, "b"), (4, "c"), (5, "a"), (6, "b"), (7, "c")] {
            (steps[at].call_id, steps[at].turn) = (Some(id.into()), 1);
        }
        steps[8].turn = 2;
        let rows = crate::annotate::features::rows(
            &log.trajectory.id,
            &log.trajectory.steps,
            &crate::text::tokens::Tokenizer::load("o200k").unwrap(),
        );
        let log = Log::new(log.trajectory, rows).unwrap();
        let params = "form = 'structured'\nresult_tokens = 20";
        let run = run(("tool-log", params), ("turns", "n = 1"), &log);
        let text = run.events[0].after[0].text(&log);
        assert_eq!(
            text,
            "turn 1 [read_file, edit_file, error] cat src/parser.py; rm -f src/table.py; cat src/lexer.py\n\
             - def parse(text):\n\
             - rm: cannot remove 'src/table.py': Permission denied\n\
             - def lex(text):\n\
             - files read: src/lexer.py, src/parser.py\n\
             - files modified: src/table.py"
        );
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
