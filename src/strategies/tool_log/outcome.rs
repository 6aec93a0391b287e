//! Whether a call went well, by its result.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::context::log::Log;
use crate::text::lists::{self, Signs, WordSet};
use crate::text::sentences::is_numbered;
use crate::trajectory::Step;
use crate::turns;
use crate::turns::actions::ActionKind;

use super::{facts, kind_of};

/// Whether a call went well, as far as its result tells.
pub(super) fn went_well(log: &Log, call: u32, result: u32) -> bool {
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
pub(super) fn has_failed(kind: Option<ActionKind>, call: &Step, text: &str) -> bool {
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

pub(super) static WORDS: LazyLock<Words> =
    LazyLock::new(|| lists::read(include_str!("../../data/words/results.toml")));

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Words {
    editors: Editors,
    results: Results,
    pub(super) codes: Codes,
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
pub(super) struct Codes {
    pub(super) line: Vec<String>,
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
pub(super) fn is_wrapper(line: &str) -> bool {
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
pub(super) fn shows_past(call: &Step) -> bool {
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
pub(super) fn reading_failed(call: &Step, text: &str) -> bool {
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
pub(super) fn last_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().rev().map(str::trim).filter(|line| !line.is_empty() && !is_wrapper(line)).take(LAST)
}

/// Whether a line tells an exit code that is none of success.
fn tells_code(line: &str) -> bool {
    WORDS.codes.told.iter().any(|label| line.strip_prefix(label.as_str()).is_some_and(is_bad_code))
}

fn is_bad_code(code: &str) -> bool {
    code.starts_with(|c: char| matches!(c, '1'..='9' | '-'))
}

pub(super) fn tells_failure(line: &str) -> bool {
    let bare = line.strip_prefix("/bin/").unwrap_or(line).trim_start_matches('-');
    let Results { failures, signals, after_place, .. } = &WORDS.results;
    failures.fit(bare)
        || signals.has(line.strip_suffix(" (core dumped)").unwrap_or(line))
        || after_place
            .iter()
            .any(|sign| line.split_once(sign.as_str()).is_some_and(|(place, _)| is_place(place)))
}

/// Whether a text is a file with the number of a line: `src/a.c:3:5`, `a.ts(3,5)`.
pub(super) fn is_place(text: &str) -> bool {
    let Some(at) = text.find([':', '(']) else { return false };
    let (file, number) = text.split_at(at);
    file.contains(['.', '/'])
        && file.contains(|c: char| c.is_ascii_alphabetic())
        && file.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '/' | '_' | '-' | '+'))
        && number.contains(|c: char| c.is_ascii_digit())
        && number.chars().all(|c| c.is_ascii_digit() || matches!(c, ':' | ',' | '(' | ')'))
}
