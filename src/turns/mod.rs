//! What happened in each turn: files touched, tests and programs run with their outcome, calls of tools outside, what the
//! agent said of its work, and what it is about. One pass over a trajectory; shared by all triggers.
//!
//! Of a long text only the ends are read, so that one giant observation costs no more than any other. Files are told apart by
//! what was touched so far alone: what happens later changes nothing of a turn.

pub mod actions;
pub mod intents;
mod names;
pub mod outcomes;
mod runners;

use std::collections::HashMap;
use std::sync::LazyLock;

use serde::Deserialize;

use crate::text::atoms::{self, AtomKind};
use crate::text::lists::{self, WordSet};
use crate::text::phrases::{Phrases, is_end, words};
use crate::text::spellings::Spellings;
use crate::trajectory::{Kind, Step};
use crate::turns::actions::{Action, ActionKind, Editor};
use crate::turns::intents::{Evidence, FileKind, Intent, Past};
use crate::turns::names::ACTIONS;
use crate::turns::outcomes::edges;
use crate::turns::runners::RUNNERS;

/// The turns of a trajectory; turn 0, the head, is empty.
#[derive(Debug, Default)]
pub struct Turns {
    pub turns: Vec<Facts>,
    /// Names of files, tests and tools, by their number in the facts; of a file the one that it was first touched by.
    pub names: Vec<String>,
}

/// How a file was touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// Read, searched, or named in a command.
    Read,
    /// Changed; an edit that the editor refused is a reading.
    Edit,
    /// Given to a program or test runner.
    Run,
}

/// The test runs of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TestRun {
    /// What was tested last, as the command names it.
    pub target: u32,
    /// Whether all of them passed; unknown where neither a summary nor an exit code tells.
    pub passed: Option<bool>,
    /// Whether the turn itself changed something before the last of them.
    pub after_change: bool,
}

/// A call of a tool outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiCall {
    pub name: u32,
    /// Whether it changes something, by its name: `book_flight` and not `get_flight`.
    pub changes: bool,
}

/// What happened in a turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Files in the order in which they were touched; at most [`MOST_FILES`].
    pub files: Vec<(u32, Touch)>,
    /// Whether something was read or searched.
    pub looked: bool,
    /// Whether a file was changed.
    pub edited: bool,
    /// Whether one of them is neither a document nor a test or a script to try things out.
    pub edited_source: bool,
    /// Whether one of them is a document, which no test checks.
    pub edited_document: bool,
    /// Whether an edit was refused.
    pub refused: bool,
    /// Tests, or the reward that an environment tells of a call outside.
    pub test: Option<TestRun>,
    /// Whether a program that is no test ended well; none if none ran.
    pub ran_well: Option<bool>,
    /// Whether the changes were looked through: `git diff`.
    pub reviewed: bool,
    pub api: Option<ApiCall>,
    /// Whether the agent says that something is complete.
    pub says_complete: bool,
    /// Whether the agent says that it turns to something else now.
    pub says_next: bool,
    /// By rules, with its confidence; none where nothing tells.
    pub intent: Option<(Intent, f64)>,
}

/// Files of a turn that are remembered.
pub const MOST_FILES: usize = 8;
/// Bytes at either end of what the agent says that are read.
const PROSE: usize = 1024;
/// Bytes of a command in which files are looked for.
const COMMAND: usize = 2048;

/// Reads a trajectory.
pub fn read(steps: &[Step]) -> Turns {
    let mut reader = Reader::default();
    let n_turns = steps.last().map_or(0, |s| s.turn as usize + 1);
    reader.turns.turns.reserve(n_turns);
    for turn in steps.chunk_by(|a, b| a.turn == b.turn) {
        reader.turns.turns.resize(turn[0].turn as usize, Facts::default());
        let facts = if turn[0].turn == 0 { Facts::default() } else { reader.turn(turn) };
        reader.turns.turns.push(facts);
    }
    reader.turns
}

#[derive(Default)]
struct Reader {
    turns: Turns,
    numbers: HashMap<String, u32>,
    files: Spellings,
    editor: Editor,
    past: Past,
}

/// An action of the turn, until its result is known.
struct Deed<'a> {
    step: &'a Step,
    action: Action,
    files: Vec<u32>,
    result: Option<&'a Step>,
}

impl Reader {
    fn number(&mut self, name: String) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let number = self.turns.names.len() as u32;
        self.turns.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// The number of a file, which may be spelled in several ways.
    fn file(&mut self, name: String) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let new = self.turns.names.len() as u32;
        let number = self.files.file(&name, new);
        if number == new {
            return self.number(name);
        }
        self.numbers.insert(name, number);
        number
    }

    fn turn(&mut self, steps: &[Step]) -> Facts {
        let mut facts = Facts::default();
        let mut evidence = Evidence::default();
        let mut deeds: Vec<Deed<'_>> = Vec::new();
        // The first deed of each call id.
        let mut by_id: HashMap<&str, usize> = HashMap::new();
        for step in steps {
            match step.kind {
                Kind::Message | Kind::Thought if step.is_agent() => {
                    said(&step.text, &mut facts, &mut evidence);
                }
                Kind::Action => {
                    let action = actions::analyse(step, &mut self.editor);
                    let files = self.files(step, &action);
                    if let Some(id) = step.call_id.as_deref() {
                        by_id.entry(id).or_insert(deeds.len());
                    }
                    deeds.push(Deed { step, action, files, result: None });
                }
                Kind::Observation => {
                    let at = step.call_id.as_deref().and_then(|id| by_id.get(id)).copied();
                    if let Some(deed) = at.or(deeds.len().checked_sub(1)).map(|at| &mut deeds[at]) {
                        deed.result = Some(step);
                    }
                }
                _ => {}
            }
        }
        for deed in deeds {
            self.deed(deed, &mut facts, &mut evidence);
        }
        facts.intent = evidence.intent();
        facts
    }

    /// The files that an action names: the one that it reads or edits, else those of its command.
    fn files(&mut self, step: &Step, action: &Action) -> Vec<u32> {
        // What a search is given is a folder.
        let is_file = |name: &&String| action.path.is_some() && name.len() <= atoms::MAX_BYTES;
        let argument = action.argument.as_ref().filter(is_file);
        let mut names: Vec<String> = argument.or(action.path.as_ref()).cloned().into_iter().collect();
        let runs = matches!(action.kind, ActionKind::RunCommand | ActionKind::RunTest);
        if names.is_empty() && (runs || matches!(action.kind, ActionKind::ReadFile | ActionKind::Search)) {
            let in_body = |at: usize| action.bodies.iter().any(|body| body.contains(&at));
            names = files_in(&step.text, in_body);
        }
        names.into_iter().map(|name| self.file(plain_path(&name, action.folder.as_deref()))).collect()
    }

    /// Counts a run of tests; of several in a turn all must have passed.
    fn tested(&mut self, target: &str, passed: Option<bool>, facts: &mut Facts) {
        let passed = match facts.test.map(|before| before.passed) {
            Some(before) if before != Some(false) && passed != Some(false) => before.and(passed),
            Some(_) => Some(false),
            None => passed,
        };
        let target = self.number(format!("test {target}"));
        let after_change = facts.edited || facts.api.is_some_and(|api| api.changes);
        facts.test = Some(TestRun { target, passed, after_change });
    }

    /// Notes a call of an API, and what its reward says.
    fn called(&mut self, step: &Step, looks: bool, output: &str, facts: &mut Facts) {
        let name = self.number(format!("tool {}", api_name(step.tool.as_deref().unwrap_or(""), &step.text)));
        // Of several calls the first that changes something counts.
        if facts.api.is_none_or(|api| !api.changes) {
            facts.api = Some(ApiCall { name, changes: !looks });
        }
        // A reward is a test of what the calls have done.
        if let Some(passed) = outcomes::rewarded(output) {
            self.tested("reward", Some(passed), facts);
        }
    }

    fn deed(&mut self, deed: Deed<'_>, facts: &mut Facts, evidence: &mut Evidence) {
        let Deed { step, mut action, files, result } = deed;
        // What is put away for a test and brought back is no change.
        if action.tests.is_some() && step.text.contains("git stash pop") {
            action.kind = ActionKind::RunTest;
        }
        let output = edges(result.map_or("", |r| r.text.as_str()));
        let said_error = result.and_then(|r| r.is_error);
        let path = action.path.as_deref();
        let kind = path.map_or(FileKind::Source, FileKind::of);
        let mut touch = Touch::Read;
        let mut touched: Vec<(u32, Touch)> = Vec::new();
        let mut looks = false;
        let mut ended = None;
        match action.kind {
            ActionKind::ReadFile | ActionKind::Search => facts.looked = true,
            ActionKind::EditFile => {
                // What a command does after it has changed a file says nothing of the file.
                let goes_on = writes_first(&step.text) && (action.tests.is_some() || action.runs);
                let refused = !goes_on && is_refused(&action, &output, said_error);
                facts.refused |= refused;
                // What is taken back is no change that a test could bear out.
                if !refused && !action.reverts {
                    touch = Touch::Edit;
                    facts.edited = true;
                    facts.edited_source |= kind == FileKind::Source;
                    facts.edited_document |= kind == FileKind::Document;
                }
                // After a refusal it did not come to the tests, unless they tell.
                let tests =
                    action.tests.as_ref().filter(|_| !refused || outcomes::outcome(&output, true).is_some());
                if let Some(tests) = tests {
                    ended = ended_well(&action, &step.text, &output, said_error, true);
                    self.tested(&test_target(tests), ended, facts);
                    touched
                        .extend(files_in(tests, |_| false).into_iter().map(|f| (self.file(f), Touch::Run)));
                } else if goes_on {
                    ended = ended_well(&action, &step.text, &output, said_error, false);
                    facts.ran_well = ended;
                }
            }
            ActionKind::RunTest | ActionKind::RunCommand => {
                touch = Touch::Run;
                facts.reviewed |= step.text.contains("git diff");
                let tests = action.kind == ActionKind::RunTest;
                let well = ended_well(&action, &step.text, &output, said_error, tests);
                let tells = || !action.shows && outcomes::outcome(&output, false).is_some();
                if tests || tells() {
                    ended = well;
                    self.tested(&test_target(action.tests.as_ref().unwrap_or(&step.text)), well, facts);
                } else if action.runs {
                    ended = well;
                    facts.ran_well = well;
                } else {
                    touch = Touch::Read;
                }
            }
            ActionKind::ApiCall => {
                looks = only_looks(step.tool.as_deref().unwrap_or(""), &step.text);
                self.called(step, looks, &output, facts);
            }
            ActionKind::Submit | ActionKind::Other => {}
        }
        for touched in files.into_iter().map(|file| (file, touch)).chain(touched) {
            if facts.files.len() < MOST_FILES && !facts.files.contains(&touched) {
                facts.files.push(touched);
            }
        }
        evidence.action(action.kind, path, looks, self.past);
        match touch {
            Touch::Edit => {
                self.past.has_edited |= kind == FileKind::Source;
                self.past.has_failed = ended == Some(false);
            }
            Touch::Run => self.past.has_failed = ended.map_or(self.past.has_failed, |well| !well),
            Touch::Read => {}
        }
    }
}

/// Whether an edit was refused, by its output.
fn is_refused(action: &Action, output: &str, said_error: Option<bool>) -> bool {
    if action.tests.is_some() {
        return outcomes::editor_refuses(output);
    }
    said_error == Some(true)
        || outcomes::exit_code(output).is_some_and(|code| code != 0)
        || outcomes::edit_refused(output)
}

/// Whether a path is that of a file, as far as its name tells.
fn is_file(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty() && !extension.is_empty() && extension.bytes().all(|b| b.is_ascii_alphanumeric())
    })
}

/// The files that the beginning of a command names, where `skips` does not pass over the place.
fn files_in(command: &str, skips: impl Fn(usize) -> bool) -> Vec<String> {
    let text = &command[..command.floor_char_boundary(COMMAND)];
    atoms::occurrences(text)
        .into_iter()
        .filter(|o| o.kind == AtomKind::Path && is_file(&o.norm) && !skips(o.start))
        // The end of a pattern is no file: `*_test.go`.
        .filter(|o| !text[..o.start].ends_with('*'))
        .take(MOST_FILES)
        .map(|o| o.norm.into_owned())
        .collect()
}

/// A path with slashes, without `.` and `..`; one that is named from another folder goes with it.
fn plain_path(path: &str, folder: Option<&str>) -> String {
    let path = path.trim().replace('\\', "/");
    let drive = path.as_bytes();
    let is_drive = drive.len() > 2 && drive[0].is_ascii_alphabetic() && &drive[1..3] == b":/";
    let is_whole = path.starts_with(['/', '~']) || is_drive;
    let mut parts: Vec<&str> = Vec::new();
    for part in
        folder.filter(|_| !is_whole).into_iter().flat_map(|folder| folder.split('/')).chain(path.split('/'))
    {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    if path.starts_with('/') { format!("/{}", parts.join("/")) } else { parts.join("/") }
}

/// How a test or program ended: by the runner's summary, else by how it broke down, else by its exit code, which may be that of
/// another command (`| tail`, `; echo done`). That a test ended well is a pass only if it ran tests and does not speak of failure.
fn ended_well(
    action: &Action,
    command: &str,
    output: &str,
    said_error: Option<bool>,
    tests: bool,
) -> Option<bool> {
    let prints =
        command.rsplit_once("$?").is_some_and(|(_, rest)| !rest.trim_end().contains([';', '|', '&', '\n']));
    let printed = || outcomes::printed_code(output).filter(|_| prints);
    let by_code = match outcomes::exit_code(output).filter(|_| !action.hides_code) {
        Some(code) => Some(code == 0),
        None => said_error.filter(|_| !action.hides_code).map(|error| !error),
    };
    let by_code = printed().map(|code| code == 0).or(by_code);
    let may_have_failed = || tests && outcomes::may_have_failed(output);
    if outcomes::in_background(output) {
        return None;
    }
    outcomes::outcome(output, tests)
        .or_else(|| (outcomes::broke(output) || outcomes::gave_up(output)).then_some(false))
        .or_else(|| by_code.filter(|good| !good || !may_have_failed()))
        // A program that did not break down ran well; of a test that is not enough to say.
        .or_else(|| (!tests && !outcomes::complains(output)).then_some(true))
}

/// Whether a command writes a file with the shell itself, whatever it runs then.
fn writes_first(command: &str) -> bool {
    let head = &command[..command.floor_char_boundary(COMMAND)];
    ACTIONS.signs.writes_first.fit(head)
}

/// What a test command tests: the file, or the runner with what it is given.
fn test_target(command: &str) -> String {
    let head = &command[..command.floor_char_boundary(COMMAND)];
    let mut words = head.split([' ', '\n', '\t']).filter(|w| !w.is_empty()).take(64);
    let mut previous = "";
    while let Some(word) = words.next() {
        let is_runner = RUNNERS.is_name(word);
        // Where it runs is not what it tests.
        let is_place = ["cd", "pushd", "activate", "-n", "-C"].contains(&previous)
            || !previous.is_empty()
                && word.contains('/')
                && !is_file(word)
                && !word.contains("::")
                && !word.ends_with("bin/test");
        if !is_runner || is_place || word.contains('=') || word.starts_with('-') {
            previous = word;
            continue;
        }
        let is_script = word.contains("::") || is_file(word) && !word.ends_with("runtests.py");
        let only = chosen(head).map_or(String::new(), |only| format!(" -k {only}"));
        if is_script {
            return format!("{word}{only}");
        }
        let given = words
            .find(|w| !w.starts_with('-'))
            .filter(|w| !w.starts_with(['|', '&', '>', ';', '2']) && !w.ends_with(':'));
        let given = given.filter(|given| !only.ends_with(given));
        let given = given.map_or(String::new(), |given| format!(" {given}"));
        return format!("{word}{given}{only}");
    }
    String::new()
}

/// Which of the tests a runner is to run: `-k name`, `-Dtest=Name`, `--tests Name`.
fn chosen(command: &str) -> Option<&str> {
    let words: Vec<&str> = command.split_whitespace().take(64).collect();
    let after = words.windows(2).find(|pair| matches!(pair[0], "-k" | "--tests")).map(|pair| pair[1]);
    after.or_else(|| words.iter().find_map(|word| word.strip_prefix("-Dtest=")))
}

/// The tool, or of a shell's `curl` and its like the host.
fn api_name(tool: &str, text: &str) -> String {
    let Some((_, rest)) = text.split_once("://") else { return tool.to_ascii_lowercase() };
    let host = rest.split(['/', ' ', '"', '\'', '?', '\n']).next().unwrap_or("");
    host.chars().take(80).collect::<String>().to_ascii_lowercase()
}

/// Whether a call changes nothing, by the verbs in the tool's name, or of a shell's request by its method and data.
fn only_looks(tool: &str, text: &str) -> bool {
    let calls = &ACTIONS.calls;
    // `getOrder` is `get_order`.
    let mut lower = String::with_capacity(tool.len() + 8);
    let mut was_lower = false;
    // A server's tool: `mcp__orders__mark_as_paid`.
    for c in tool.rsplit("__").next().unwrap_or(tool).chars() {
        if was_lower && c.is_ascii_uppercase() {
            lower.push('_');
        }
        was_lower = c.is_ascii_lowercase();
        lower.push(c.to_ascii_lowercase());
    }
    let parts: Vec<&str> = lower.split(['_', '-', '.', ':', '/']).filter(|part| !part.is_empty()).collect();
    let mut names = parts.iter().copied().chain(tool.split("__"));
    if tool.is_empty() || names.any(|part| calls.shells.has(&part.to_ascii_lowercase())) {
        return !sends(text);
    }
    // The first verb counts: `list_add_ons` looks, `remove_from_list` changes; `book_search` has a noun before it.
    let is_noun = |at: usize| {
        calls.nouns.has(parts[at]) && parts.get(at + 1).is_some_and(|next| calls.searches.has(next))
    };
    let looks = parts.iter().position(|part| calls.looks.has(part));
    let changes = (0..parts.len()).find(|&at| calls.changes.has(parts[at]) && !is_noun(at));
    // `get_or_create_user`, `check_in_guest`.
    let does_more = parts.windows(2).any(|pair| {
        matches!(pair[0], "and" | "or") && calls.changes.has(pair[1])
            || pair[0] == "check" && calls.check_with.has(pair[1]) && !parts.contains(&"stock")
    });
    looks.is_some_and(|look| changes.is_none_or(|change| look < change)) && !does_more
}

/// Whether a command line asks `curl` and its like to change something: a request is a GET unless it says otherwise.
fn sends(command: &str) -> bool {
    let calls = &ACTIONS.calls;
    let head = command[..command.floor_char_boundary(COMMAND)].replace("\\\n", " ");
    let mut requests =
        head.split([';', '\n']).flat_map(|part| part.split(" && ")).flat_map(|part| part.split(" | "));
    requests.any(|request| {
        let words = || request.split_whitespace();
        // `$(curl`, `/usr/bin/curl`
        let program = |word| str::rsplit(word, |c: char| !c.is_alphanumeric()).next().unwrap_or(word);
        let is_request = words().any(|word| calls.requests.has(program(word)));
        let says = |word: &str| {
            let is_long = |option: &String| {
                word.strip_prefix(option.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with(['=', '-']))
            };
            let method = calls.method_options.iter().find_map(|option| word.strip_prefix(option.as_str()));
            calls.data_options.has(word)
                || calls.long_data_options.iter().any(is_long)
                || calls.methods.has(method.unwrap_or(word).trim_matches(['"', '\'']))
        };
        is_request && !words().any(|word| calls.queries.has(word)) && words().any(says)
    })
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Says {
    Complete,
    /// The same, if nothing follows that makes it something else.
    CompleteIf,
    /// Turns to something else.
    Next,
    /// The same, if a verb of making follows.
    NextIf,
}

/// Reads what the agent says.
fn said(text: &str, facts: &mut Facts, evidence: &mut Evidence) {
    let head = &text[..text.floor_char_boundary(PROSE)];
    let tail = &text[text.ceil_char_boundary(text.len().saturating_sub(PROSE)).max(head.len())..];
    for part in [head, tail].into_iter().filter(|part| !part.is_empty()) {
        let lower = part.to_lowercase().replace('\u{2019}', "'");
        let words = words(&lower);
        evidence.words(&words);
        CLAIMS.says.visit(&words, |at, end, says| match says {
            Says::Complete => facts.says_complete |= is_claimed(&words[..at], &words[end - 1..]),
            // "is resolved relative to", "tests pass a list".
            Says::CompleteIf => {
                let last = words[end - 1];
                let behind = (last.as_ptr() as usize + last.len()).checked_sub(lower.as_ptr() as usize);
                let mark = behind.and_then(|at| lower.get(at..)?.trim_start().chars().next());
                let is_broken = mark.is_none_or(|c| !c.is_alphanumeric() && !['`', '\'', '"'].contains(&c));
                let stops = is_broken || words.get(end).is_none_or(|next| CLAIMS.words.stops.has(next));
                facts.says_complete |= stops && is_claimed(&words[..at], &words[end - 1..]);
            }
            Says::Next => facts.says_next = true,
            Says::NextIf => {
                let is_making = words.get(end).is_some_and(|verb| CLAIMS.words.making.has(verb));
                // "make sure", "start by reading".
                let is_study = words.get(end + 1).is_some_and(|next| CLAIMS.words.study.has(next));
                facts.says_next |= is_making && !is_study;
            }
        });
    }
}

/// Whether what follows the one words and ends with the other is said to be so, and not asked for, doubted or denied.
fn is_claimed(before: &[&str], from_end: &[&str]) -> bool {
    let words = &CLAIMS.words;
    let mut sentence = before.iter().rev().take(6).take_while(|w| !is_end(w));
    let mut rest = from_end.iter().skip_while(|w| !is_end(w) && !words.undone.has(w));
    let is_told = rest.next().is_none_or(|w| *w == ".");
    // "All tests pass. However, ..."
    is_told && !sentence.any(|w| words.doubts.has(w)) && !rest.next().is_some_and(|w| words.undone.has(w))
}

static CLAIMS: LazyLock<Claims> = LazyLock::new(|| lists::read(include_str!("../data/words/claims.en.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Claims {
    says: Phrases<Says>,
    words: ClaimWords,
}

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClaimWords {
    doubts: WordSet,
    undone: WordSet,
    stops: WordSet,
    making: WordSet,
    study: WordSet,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Builder, Role, action_text, step};
    use proptest::prelude::*;

    /// Turns of (what the agent says, its command, what came of it).
    fn facts(turns: &[(&str, &str, &str)]) -> Turns {
        let mut builder = Builder::new();
        builder.push(step(Role::User, Kind::Message, "task"));
        for (said, command, result) in turns {
            builder.begin_call();
            builder.push(step(Role::Agent, Kind::Thought, *said));
            builder.push(step(Role::Agent, Kind::Action, *command));
            builder.push(step(Role::Tool, Kind::Observation, *result));
        }
        read(&builder.finish())
    }

    #[test]
    fn files_and_how_they_were_touched() {
        let t = facts(&[
            ("", "cat src/a.py", "x"),
            ("", "sed -i 's/a/b/' src/a.py", ""),
            ("", "grep -n foo src/b.py src/c.py", "x"),
            ("", "python src/a.py", "Traceback (most recent call last):"),
            ("", "cd /testbed && ls **/*_test.go", "a"),
        ]);
        let of = |turn: usize| -> Vec<(&str, Touch)> {
            t.turns[turn].files.iter().map(|(n, touch)| (t.names[*n as usize].as_str(), *touch)).collect()
        };
        assert_eq!(of(1), [("src/a.py", Touch::Read)]);
        assert_eq!(of(2), [("src/a.py", Touch::Edit)]);
        assert_eq!(of(3), [("src/b.py", Touch::Read), ("src/c.py", Touch::Read)]);
        assert_eq!(of(4), [("src/a.py", Touch::Run)]);
        assert_eq!(of(5), []);
        assert_eq!(t.turns[4].ran_well, Some(false));
        assert!(t.turns[2].edited && t.turns[1].looked);
    }

    #[test]
    fn tests_and_their_outcomes() {
        let of = |command: &str, result: &str| {
            let t = facts(&[("", command, result)]);
            t.turns[1].test.map(|test| (t.names[test.target as usize].clone(), test.passed))
        };
        let test = |target: &str, passed| Some((format!("test {target}"), passed));
        assert_eq!(
            of("python -m pytest tests/test_a.py::T -q", "1 passed in 0.2s"),
            test("pytest tests/test_a.py::T", Some(true))
        );
        assert_eq!(
            of("cd /testbed && python test_fix.py", "<returncode>0</returncode>\nok"),
            test("test_fix.py", Some(true))
        );
        assert_eq!(
            of("python test_fix.py | head", "<returncode>0</returncode>\nok"),
            test("test_fix.py", None)
        );
        assert_eq!(
            of("python test_fix.py | head", "Traceback (most recent call last):"),
            test("test_fix.py", Some(false))
        );
        assert_eq!(
            of("./tests/runtests.py admin", "Ran 2 tests in 1s\n\nOK"),
            test("./tests/runtests.py admin", Some(true))
        );
        assert_eq!(of("cargo test turns", "test result: FAILED. 1 passed"), test("test turns", Some(false)));
        assert_eq!(of("mise run test 2>&1 | tail", "ok  \ta/b\t1s"), test("test", Some(true)));
        assert_eq!(
            of("conda activate testbed && pytest tests/a.py", "1 passed in 0.1s"),
            test("pytest tests/a.py", Some(true))
        );
        assert_eq!(
            of("conda run -n testbed pytest tests/a.py", "1 passed in 0.1s"),
            test("pytest tests/a.py", Some(true))
        );
        assert_eq!(of("pytest a.py -k t1", "1 passed in 0.1s"), test("pytest a.py -k t1", Some(true)));
        assert_eq!(of("mvn test -Dtest=A", "[INFO] BUILD SUCCESS"), test("test -k A", Some(true)));
        // A script that tests by itself may end well whatever came of it, and a run of no tests always does.
        assert_eq!(
            of(
                "python test_fix.py",
                "<returncode>0</returncode>\n<output>\nTest 1 FAILED: bad\n2 of 2 failed\n</output>"
            ),
            test("test_fix.py", None)
        );
        assert_eq!(
            of("python -m unittest", "<returncode>0</returncode>\nRan 0 tests in 0.0s\n\nOK"),
            test("unittest", None)
        );
        // A build tells of tests where it was to run them, and else of itself.
        assert_eq!(of("mvn test", "[INFO] BUILD SUCCESS"), test("test", Some(true)));
        assert_eq!(of("mvn compile", "[INFO] BUILD SUCCESS"), None);
        assert_eq!(
            facts(&[("", "make", "make: *** [Makefile:2: a.o] Error 1")]).turns[1].ran_well,
            Some(false)
        );
        // A listing is no outcome, and reading a log of tests is no test.
        assert_eq!(of("ls", "PASSED.txt\nFAILED.txt"), None);
        assert_eq!(of("cat log.txt", "3 passed in 0.1s"), None);
        // A program that prints a runner's summary ran tests.
        assert_eq!(
            of("python run.py", "Ran 3 tests in 0.1s\n\nFAILED (failures=1)").map(|t| t.1),
            Some(Some(false))
        );
    }

    /// Only what runs a program is a check that stood, and only its own exit code tells.
    #[test]
    fn what_runs_and_whose_code_it_is() {
        let ran = |command: &str, result: &str| facts(&[("", command, result)]).turns[1].ran_well;
        for command in [
            "git commit -m 'make it work'",
            "chmod +x ./run.sh",
            "mkdir -p ./build",
            "git diff ./src",
            "du -sh ./build",
            "cmake --version",
            "go build ./... 2>&1 | head -30",
            "tsc -p ./tsconfig.json",
        ] {
            assert_eq!(ran(command, "well"), None, "{command}");
        }
        for command in [
            "python a.py",
            "cd src && ./run.sh | tail",
            "make",
            "FOO=1 node a.js",
            "cargo run -- x",
            "python - <<'E'\nprint(1)\nE",
        ] {
            assert_eq!(ran(command, "well"), Some(true), "{command}");
        }
        for output in [
            "Segmentation fault (core dumped)",
            "Killed",
            "Exception in thread \"main\" x",
            "PHP Fatal error: x",
            "a.rb:1:in `f': x (NoMethodError)",
        ] {
            assert_eq!(ran("make run", output), Some(false), "{output}");
        }
        assert_eq!(ran("make", "a.go:57:59: not enough arguments in call"), None);
        assert_eq!(ran("make", "Error: cannot connect"), None);
        let passed =
            |command: &str, result: &str| facts(&[("", command, result)]).turns[1].test.unwrap().passed;
        let good = "<returncode>0</returncode>\n<output>\nsaid\n</output>";
        assert_eq!(passed("cd a && python tests/test_a.py", good), Some(true));
        for command in
            ["python tests/test_a.py || true", "python tests/test_a.py|tail -3", "python tests/test_a.py; ls"]
        {
            assert_eq!(passed(command, good), None, "{command}");
        }
        assert_eq!(
            passed("pytest tests; echo exit=$?", "<returncode>0</returncode>\n<output>\nexit=1\n</output>"),
            Some(false)
        );
        assert_eq!(passed("pytest tests; echo \"exit: $?\"", "error importing\nexit: 4"), Some(false));
        assert_eq!(passed("pytest tests; echo $?", "0"), Some(true));
        assert_eq!(passed("pytest tests; echo $?; ls", "0\na  20"), None);
        // With no test that passed a good code is no pass.
        for none in [
            "3 skipped in 0.1s",
            "Ran 3 tests in 0.001s\n\nOK (skipped=3)",
            "Tests run: 3, Failures: 0, Errors: 0, Skipped: 3",
            "--- SKIP: TestX (0.00s)\nPASS\nok a 0.1s",
            "Tests:       3 skipped, 3 total",
            "make: Nothing to be done for 'check'.",
            "No test files found, exiting with code 0",
            "[INFO] Tests are skipped.\n[INFO] BUILD SUCCESS",
        ] {
            let output = format!("<returncode>0</returncode>\n<output>\n{none}\n</output>");
            assert_eq!(passed("make test", &output), None, "{none}");
        }
        assert_eq!(passed("make test", "Command running in background with ID: bash_1"), None);
        assert_eq!(
            passed("make check", "<returncode>0</returncode>\n<output>\n0 skipped\n</output>"),
            Some(true)
        );
        // A limit of time ends no run well.
        for output in [
            "EXECUTION TIMED OUT because the command was running for more than 25 seconds.",
            "The command 'python run.py' was cancelled because it took more than 30 seconds.",
            "The last command <command>python run.py</command> timed out and has been killed.",
        ] {
            assert_eq!(ran("python run.py", output), Some(false), "{output}");
        }
        assert_eq!(ran("python app.py --dry-run", "would move 3 files"), Some(true));
        assert_eq!(ran("python run.py", "Command running in background with ID: bash_1"), None);
        // What versions and other runs hold is no test of this turn.
        for command in
            ["git log -3", "cd a && git --no-pager diff", "gh run view 12 --log", "git log | diff - a"]
        {
            assert!(facts(&[("", command, "    3 passed in 0.12s")]).turns[1].test.is_none(), "{command}");
        }
        // What is taken back is no change, and a log is no source.
        assert!(!facts(&[("", "git checkout -- a.py", "")]).turns[1].edited);
        assert!(!facts(&[("", "python run.py | tee out.txt", "x")]).turns[1].edited);
        assert!(facts(&[("", "git stash pop", "")]).turns[1].edited);
    }

    #[test]
    fn one_file_of_several_paths() {
        let names = |commands: &[&str]| -> Vec<String> {
            let turns: Vec<(&str, &str, &str)> = commands.iter().map(|c| ("", *c, "x")).collect();
            let t = facts(&turns);
            t.turns[1..]
                .iter()
                .map(|f| f.files.first().map_or(String::new(), |f| t.names[f.0 as usize].clone()))
                .collect()
        };
        assert_eq!(
            names(&["cat src/a.py", "cd lib && cat a.py", "cd /r && cat src/a.py"]),
            ["src/a.py", "lib/a.py", "src/a.py"]
        );
        assert_eq!(
            names(&["cat src/auth/a.py", "cat src/auth/../auth/a.py", "cat ../auth/a.py"]),
            ["src/auth/a.py"; 3]
        );
        assert_eq!(names(&["git apply fix.patch", "patch -p1 < fix.patch"]), ["", ""]);
        let tool = |name: &str, path: &str| {
            let arguments = serde_json::json!({ "path": path }).to_string();
            let mut action = step(Role::Agent, Kind::Action, action_text(name, &arguments));
            (action.tool, action.arguments) = (Some(name.into()), Some(arguments.into()));
            let mut builder = Builder::new();
            builder.begin_call();
            builder.push(action);
            read(&builder.finish()).names
        };
        assert_eq!(tool("Read", "docs/plan a.md"), ["docs/plan a.md"]);
        assert_eq!(tool("Read", "C:\\p\\src\\m.py"), ["C:/p/src/m.py"]);
        assert!(tool("Grep", "cmd/entire/cli").is_empty());
    }

    #[test]
    fn tests_by_a_tool() {
        let arguments = r#"{"path": "tests/a.py"}"#;
        let mut action = step(Role::Agent, Kind::Action, action_text("run_tests", arguments));
        (action.tool, action.arguments) = (Some("mcp__x__run_tests".into()), Some(arguments.into()));
        let mut builder = Builder::new();
        builder.begin_call();
        builder.push(action);
        builder.push(step(Role::Tool, Kind::Observation, "3 failed in 0.2s"));
        assert_eq!(read(&builder.finish()).turns[1].test.unwrap().passed, Some(false));
    }

    #[test]
    fn refused_edits_are_no_edits() {
        let t = facts(&[
            ("", "sed -i s/a/b/ a.py", "<returncode>1</returncode>"),
            ("", "sed -i s/a/b/ README.md", ""),
        ]);
        assert!(t.turns[1].refused && !t.turns[1].edited && t.turns[1].files == [(0, Touch::Read)]);
        assert!(t.turns[2].edited && t.turns[2].edited_document && !t.turns[2].refused);
    }

    /// An edit and a test in one command; how the test ended says nothing of the edit.
    #[test]
    fn an_edit_and_its_test_in_one_command() {
        let of = |command: &str, result: &str| {
            let t = facts(&[("", command, result)]);
            let f = &t.turns[1];
            (f.edited, f.refused, f.test.map(|test| (test.passed, test.after_change)))
        };
        let command = "sed -i s/a/b/ src/a.py && pytest -q tests";
        assert_eq!(of(command, "..\n2 passed in 0.12s"), (true, false, Some((Some(true), true))));
        let failed =
            "<returncode>1</returncode>\n<output>\nTraceback (most recent call last):\n1 failed in 0.12s";
        assert_eq!(of(command, failed), (true, false, Some((Some(false), true))));
        let refused = "<returncode>2</returncode>\nsed: can't read src/a.py: No such file or directory";
        assert_eq!(of(command, refused), (false, true, None));
        assert_eq!(of("pytest; sed -i s/a/b/ src/a.py", "1 passed in 1s"), (true, false, None));
        let stashed = "git stash && pytest -q; git stash pop";
        assert_eq!(of(stashed, "1 failed in 1s"), (false, false, Some((Some(false), false))));
        // A test that is written and run touches its file in both ways.
        let t = facts(&[(
            "",
            "cat > test_x.py <<'E'\nassert 1\nE\npython test_x.py",
            "<returncode>0</returncode>",
        )]);
        assert_eq!(t.turns[1].files, [(0, Touch::Edit), (0, Touch::Run)]);
        assert_eq!(t.turns[1].test.and_then(|test| test.passed), Some(true));
    }

    /// Turns of several calls.
    #[test]
    fn all_tests_of_a_turn_must_pass() {
        let passed = |results: &[&str]| {
            let mut builder = Builder::new();
            builder.begin_call();
            for (i, result) in results.iter().enumerate() {
                builder.push(step(Role::Agent, Kind::Action, format!("pytest tests/{i}.py")));
                builder.push(step(Role::Tool, Kind::Observation, *result));
            }
            read(&builder.finish()).turns[1].test.and_then(|test| test.passed)
        };
        let (good, bad) = ("1 passed in 0.1s", "1 failed in 0.1s");
        assert_eq!(passed(&[good, good]), Some(true));
        assert_eq!(passed(&[bad, good]), Some(false));
        assert_eq!(passed(&[good, ""]), None);
        assert_eq!(passed(&["", bad]), Some(false));
    }

    #[test]
    fn a_reward_tests_what_calls_have_done() {
        let mut action = step(Role::Agent, Kind::Action, action_text("cancel_order", r#"{"id":"1"}"#));
        (action.tool, action.arguments) = (Some("cancel_order".into()), Some(r#"{"id":"1"}"#.into()));
        let mut builder = Builder::new();
        builder.begin_call();
        builder.push(action);
        builder.push(step(Role::Tool, Kind::Observation, "{\"status\": \"cancelled\"}\nreward: 1.0"));
        let t = read(&builder.finish());
        let test = t.turns[1].test.expect("a reward");
        assert_eq!((test.passed, test.after_change), (Some(true), true));
        // Points are none.
        assert_eq!(outcomes::rewarded("{\"reward\": 250, \"tier\": \"gold\"}"), None);
        assert_eq!(outcomes::rewarded("{\"reward\": 0.5}"), Some(false));
        assert_eq!(outcomes::rewarded("{\"reward\": -1.0, \"done\": true}"), Some(false));
    }

    /// One file of its spellings, by what was touched before.
    #[test]
    fn spellings_of_a_file() {
        let files = |paths: &[&str]| -> Vec<u32> {
            let commands: Vec<String> = paths.iter().map(|path| format!("cat {path}")).collect();
            let turns: Vec<(&str, &str, &str)> = commands.iter().map(|c| ("", c.as_str(), "x")).collect();
            facts(&turns).turns[1..].iter().map(|f| f.files[0].0).collect()
        };
        assert_eq!(files(&["src/a/u.py", "u.py", "/repo/src/a/u.py", "lib/u.py", "u.py"]), [0, 0, 0, 1, 0]);
        // The longest spelling counts: what was read as `u.py` is in `src`.
        assert_eq!(files(&["u.py", "src/u.py", "lib/u.py"]), [0, 0, 1]);
        // Of several none is taken; parts of names are no parts of paths.
        assert_eq!(files(&["src/u.py", "lib/u.py", "u.py"]), [0, 1, 2]);
        assert_eq!(files(&["src/au.py", "u.py"]), [0, 1]);
    }

    #[test]
    fn a_script_that_is_written_and_run() {
        let script = "cat > try.py <<'E'\nprint(1)\nE\npython try.py";
        let t = facts(&[
            ("", script, "<returncode>1</returncode>\nTraceback (most recent call last):"),
            ("", script, "1"),
        ]);
        assert!(t.turns[1].edited && !t.turns[1].refused);
        assert_eq!((t.turns[1].ran_well, t.turns[2].ran_well), (Some(false), Some(true)));
    }

    #[test]
    fn what_the_agent_says() {
        let complete = |said: &str| facts(&[(said, "ls", "")]).turns[1].says_complete;
        assert!(complete("The bug is now fixed. Good."));
        assert!(complete("Great, all tests pass!"));
        assert!(complete("Your reservation has been cancelled."));
        assert!(!complete("Let me verify that the fix works as expected."));
        assert!(!complete("Let me test that the change works correctly."));
        assert!(!complete("It is not complete."));
        assert!(!complete("Once the migration is complete, run it."));
        assert!(!complete("This is done by calling f."));
        for opposite in [
            "None of the tests pass.",
            "Do all tests pass now?",
            "Great, all tests pass?",
            "I'll make all tests pass.",
            "Nothing works correctly here.",
            "Neither is complete.",
            "I cannot say that the fix works.",
            "All tests pass except two.",
            "It works correctly for the first case but fails for the second.",
            "Tests pass locally, but CI is red.",
            "This has been fixed upstream, so we have to backport it.",
            "What has to be done. Well done.",
            "3 tests pass, 2 tests fail.",
            "0 tests pass.",
            "All tests pass. However, test_y fails.",
            "All tests pass... except test_x.",
            "These tests pass a dict to foo().",
            "The path is resolved relative to cwd.",
            "The array is fixed size.",
            "The output is complete nonsense.",
            "The fix works by adding a check.",
            "Assuming all tests pass, we are done with it",
            "The goal is that all tests pass.",
            "Expected: all tests pass",
            "TODO: everything works",
            "I suspect the bug is fixed in 2.0",
            "Your flight has been cancelled by the airline.",
            "As soon as the migration has been completed, tell me",
        ] {
            assert!(!complete(opposite), "{opposite}");
        }
        assert!(complete("What is left? The bug is fixed."));
        assert!(complete("The parser is done. Shall I go on?"));
        assert!(complete("Done.") && complete("I've fixed the bug.") && complete("Everything is done now."));
        for claim in [
            "I fixed the bug.",
            "Task completed.",
            "The tests passed",
            "I've cancelled your order.",
            "The fix is in place.",
            "All tests pass now, and the bug is fixed.",
        ] {
            assert!(complete(claim), "{claim}");
        }
        let next = |said: &str| facts(&[(said, "ls", "")]).turns[1].says_next;
        assert!(next("Now I\u{2019}ll work on the parser."));
        assert!(next("Good. Next, let me update the docs"));
        assert!(next("Moving on to the second part"));
        assert!(!next("Now let me see the rest of the file"));
        assert!(!next("Now let me make sure nothing else uses it."));
        assert!(!next("Now let me start by reading the file."));
    }

    #[test]
    fn commands_logged_as_lines_are_read_as_such() {
        let mut builder = Builder::new();
        for text in ["open src/a.py", "goto 300", "pytest tests/a.py", "edit 1:2\nx\nend_of_edit"] {
            builder.begin_call();
            let mut action = step(Role::Agent, Kind::Action, text);
            action.tool = text.split_whitespace().next().map(Into::into);
            builder.push(action);
        }
        let t = read(&builder.finish());
        let kinds: Vec<_> = t.turns[1..].iter().map(|f| (f.looked, f.test.is_some(), f.edited)).collect();
        assert_eq!(
            kinds,
            [(true, false, false), (true, false, false), (false, true, false), (false, false, true)]
        );
        assert_eq!(t.turns[4].files, [(0, Touch::Edit)]);
        assert_eq!(t.names[0], "src/a.py");
    }

    #[test]
    fn tools_outside_look_or_change() {
        let of = |tool: &str| {
            let mut action = step(Role::Agent, Kind::Action, action_text(tool, r#"{"id":"1"}"#));
            (action.tool, action.arguments) = (Some(tool.into()), Some(r#"{"id":"1"}"#.into()));
            let mut builder = Builder::new();
            builder.begin_call();
            builder.push(action);
            read(&builder.finish()).turns[1].api.map(|api| api.changes)
        };
        assert_eq!(of("get_user_details"), Some(false));
        assert_eq!(of("book_reservation"), Some(true));
        assert_eq!(of("mcp__github__list_issues"), Some(false));
        for changes in [
            "mark_as_read",
            "get_or_create_customer",
            "find_and_replace",
            "check_in_passenger",
            "mcp__x__set_view",
            "orders.mark_as_read",
            "move_card_to_list",
            "reset_view_count",
        ] {
            assert_eq!(of(changes), Some(true), "{changes}");
        }
        for looks in [
            "mcp__shell__run",
            "book_search",
            "check_in_stock",
            "check_status",
            "get_update_status",
            "list_add_ons",
            "web_search",
        ] {
            assert_eq!(of(looks), Some(false), "{looks}");
        }
        assert_eq!(of("getOrderDetails"), Some(false));
        assert_eq!(of("cancelOrder"), Some(true));
        assert_eq!(of("WebFetch"), Some(false));
        assert_eq!(of("Read"), None);
        let shell = |command: &str| facts(&[("", command, "ok")]).turns[1].api.map(|api| api.changes);
        assert_eq!(shell("curl -s https://api.x.com/orders | cut -d ' ' -f 1"), Some(false));
        assert_eq!(shell("curl -G -d q=x https://api.x.com/orders"), Some(false));
        for sent in [
            "-X POST",
            "-XDELETE",
            "--request 'PATCH'",
            "-d '{}'",
            "--data-raw '{}'",
            "--json {}",
            "\\\n -X PUT",
        ] {
            assert_eq!(
                shell(&format!("cd /x && curl {sent} https://api.x.com/orders")),
                Some(true),
                "{sent}"
            );
        }
    }

    proptest! {
        /// Whatever a log holds: no panic, and one entry a turn.
        #[test]
        fn any_log_is_read(texts in prop::collection::vec(("(\\PC|\n| \\| |git |test |python |sed -i |a\\.py |'|\"|<<E|://){0,30}", 0..4u8), 0..20)) {
            let mut builder = Builder::new();
            for (text, who) in texts {
                let (role, kind) = [
                    (Role::Agent, Kind::Action), (Role::Tool, Kind::Observation), (Role::Agent, Kind::Thought), (Role::User, Kind::Message),
                ][who as usize];
                let mut s = step(role, kind, text.clone());
                s.tool = text.split_whitespace().next().filter(|_| text.len() % 2 == 0).map(Into::into);
                builder.push(s);
            }
            let steps = builder.finish();
            let t = read(&steps);
            prop_assert_eq!(t.turns.len(), steps.last().map_or(0, |s| s.turn as usize + 1));
            for facts in &t.turns {
                prop_assert!(facts.files.iter().all(|(n, _)| (*n as usize) < t.names.len()));
            }
        }
    }
}
