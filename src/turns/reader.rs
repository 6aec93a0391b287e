//! Reads the steps of a trajectory turn by turn.

use std::collections::HashMap;

use crate::text::atoms::{self, AtomKind};
use crate::text::spellings::Spellings;
use crate::trajectory::{Kind, Role, Step};
use crate::turns::actions::{Action, ActionKind, Editor};
use crate::turns::intents::{self, FileKind, Past, Pieces};
use crate::turns::names::ACTIONS;
use crate::turns::outcomes::edges;
use crate::turns::runners::RUNNERS;

use super::claims::said;
use super::trials::Trials;
use super::{ApiCall, Facts, TestRun, Touch, actions, outcomes};

/// Files of a turn that are remembered.
pub const MOST_FILES: usize = 8;
/// Bytes of a command in which files are looked for.
const COMMAND: usize = 2048;

#[derive(Default)]
pub(super) struct Reader {
    pub(super) names: Vec<String>,
    numbers: HashMap<String, u32>,
    pub(super) files: Spellings,
    editor: Editor,
    past: Past,
    pub(super) trials: Trials,
}

/// An action of the turn, until its result is known.
struct Deed<'a> {
    step: &'a Step,
    action: Action,
    files: Vec<u32>,
    /// Whether nothing named its first file before.
    is_first: bool,
    result: Option<&'a Step>,
}

impl Reader {
    /// Calls `see` with the number of each turn, what happened in it, and its pieces. Of turn 0, the head, nothing is told.
    pub(super) fn all(&mut self, steps: &[Step], mut see: impl FnMut(usize, Facts, &[u16])) {
        for turn in steps.chunk_by(|a, b| a.turn == b.turn) {
            let number = turn[0].turn as usize;
            let (facts, pieces) = if number == 0 { Default::default() } else { self.turn(turn) };
            see(number, facts, &pieces);
        }
    }

    fn number(&mut self, name: String) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.clone());
        self.numbers.insert(name, number);
        number
    }

    /// The number of a file, which may be spelled in several ways.
    pub(super) fn file(&mut self, name: String) -> u32 {
        if let Some(&number) = self.numbers.get(&name) {
            return number;
        }
        let new = self.names.len() as u32;
        let number = self.files.file(&name, new);
        if number == new {
            return self.number(name);
        }
        self.numbers.insert(name, number);
        number
    }

    /// What happened in a turn, but for what it is about, and the pieces that tell that.
    pub(super) fn turn(&mut self, steps: &[Step]) -> (Facts, Vec<u16>) {
        let mut facts = Facts::default();
        let mut pieces = Pieces::default();
        let mut deeds: Vec<Deed<'_>> = Vec::new();
        // The first deed of each call id.
        let mut by_id: HashMap<&str, usize> = HashMap::new();
        for step in steps {
            match step.kind {
                Kind::Message | Kind::Thought if step.is_agent() => {
                    said(&step.text, &mut facts, &mut pieces);
                }
                Kind::Message if step.role == Role::User => facts.asked = true,
                Kind::Action => {
                    let action = actions::analyse(step, &mut self.editor);
                    self.trials.goes_to(&step.text);
                    let known = self.names.len() as u32;
                    let files = self.files(step, &action);
                    let is_first = files.first().is_some_and(|file| *file >= known);
                    if let Some(id) = step.call_id.as_deref() {
                        by_id.entry(id).or_insert(deeds.len());
                    }
                    deeds.push(Deed { step, action, files, is_first, result: None });
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
            self.deed(deed, &mut facts, &mut pieces);
        }
        (facts, pieces.end(&mut self.past))
    }

    /// The files that an action names: the one that it reads or edits, else those of its command.
    pub(super) fn files(&mut self, step: &Step, action: &Action) -> Vec<u32> {
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
    fn tested(&mut self, target: &str, passed: Option<bool>, of_trial: bool, facts: &mut Facts) {
        let passed = match facts.test.map(|before| before.passed) {
            Some(before) if before != Some(false) && passed != Some(false) => before.and(passed),
            Some(_) => Some(false),
            None => passed,
        };
        let target = self.number(format!("test {target}"));
        let after_change = facts.edited || facts.api.is_some_and(|api| api.changes);
        facts.test = Some(TestRun { target, passed, after_change, of_trial });
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
            self.tested("reward", Some(passed), false, facts);
        }
    }

    fn deed(&mut self, deed: Deed<'_>, facts: &mut Facts, pieces: &mut Pieces) {
        let Deed { step, mut action, files, is_first, result } = deed;
        // What is put away for a test and brought back is no change.
        if action.tests.is_some() && step.text.contains("git stash pop") {
            action.kind = ActionKind::RunTest;
        }
        let output = edges(result.map_or("", |r| r.text.as_str()));
        let said_error = result.and_then(|r| r.is_error);
        let file = action.path.as_deref().map(FileKind::of);
        let kind = file.unwrap_or(FileKind::Source);
        let mut touch = Touch::Read;
        let mut touched: Vec<(u32, Touch)> = Vec::new();
        let mut ended = None;
        let new = files.first().map(|file| &*self.names[*file as usize]).filter(|_| is_first);
        let of_trial = self.trials.meet(&action, &files, new);
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
                    self.tested(&test_target(tests), ended, of_trial, facts);
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
                    let target = test_target(action.tests.as_ref().unwrap_or(&step.text));
                    self.tested(&target, well, of_trial, facts);
                } else if action.runs {
                    ended = well;
                    facts.ran_well = well;
                } else {
                    touch = Touch::Read;
                }
            }
            ActionKind::ApiCall => {
                let looks = only_looks(step.tool.as_deref().unwrap_or(""), &step.text);
                self.called(step, looks, &output, facts);
            }
            ActionKind::Submit | ActionKind::Other => {}
        }
        let (tool, text) = (step.tool.as_deref().unwrap_or(""), step.text.as_str());
        let told = intents::Deed { kind: action.kind, tool, text, file };
        pieces.did(&told, &self.past);
        self.trials.see(step, &action, &files, touch, facts);
        match touch {
            Touch::Edit => self.past.edited(kind, ended),
            Touch::Run => self.past.ended = ended.or(self.past.ended),
            Touch::Read => {}
        }
        for touched in files.into_iter().map(|file| (file, touch)).chain(touched) {
            if facts.files.len() < MOST_FILES && !facts.files.contains(&touched) {
                facts.files.push(touched);
            }
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
pub(super) fn writes_first(command: &str) -> bool {
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
