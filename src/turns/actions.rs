//! What an action does: its kind, the file it reads or edits, and the bodies of edits.
//!
//! Known tools are told by name; shell commands are split into simple commands, of which the most
//! informative one counts (edit, test, read, search, call, run, in this order). A simple parser: no
//! expansion, no functions, no nested `$(...)`.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use super::names::{ACTIONS, Program, Tool};
use super::runners::RUNNERS;
use crate::text::atoms::{self, AtomKind};
use crate::trajectory::Step;

/// What an action does. In order of how much it tells: of a compound command the first counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ActionKind {
    Submit,
    EditFile,
    RunTest,
    ReadFile,
    Search,
    ApiCall,
    RunCommand,
    Other,
}

impl ActionKind {
    /// The name used in tables.
    pub fn name(self) -> &'static str {
        match self {
            ActionKind::Submit => "submit",
            ActionKind::EditFile => "edit_file",
            ActionKind::RunTest => "run_test",
            ActionKind::ReadFile => "read_file",
            ActionKind::Search => "search",
            ActionKind::ApiCall => "api_call",
            ActionKind::RunCommand => "run_command",
            ActionKind::Other => "other",
        }
    }

    /// The inverse of [`Self::name`].
    pub fn parse(name: &str) -> Option<Self> {
        use ActionKind::*;
        [Submit, EditFile, RunTest, ReadFile, Search, ApiCall, RunCommand, Other]
            .into_iter()
            .find(|k| k.name() == name)
    }
}

/// An action, understood.
#[derive(Clone, Debug, PartialEq)]
pub struct Action {
    pub kind: ActionKind,
    /// The file it reads or edits, normalised like an atom.
    pub path: Option<String>,
    /// Bodies of edits and writes: byte ranges of the step's text.
    pub bodies: Vec<Range<usize>>,
    /// Names of the tool and of its parameters, which the schema of the call gives: byte ranges.
    pub names: Vec<Range<usize>>,
    /// The simple command of a command line that runs tests; where files are changed, too, the one that runs them after that.
    pub tests: Option<String>,
    /// Whether a command line runs a program, rather than to manage files or versions.
    pub runs: bool,
    /// Whether a command line only shows what is kept elsewhere, whoever wrote it: `git log`, `gh run view`.
    pub shows: bool,
    /// Whether the exit code of a command line may be another's than that of its last test or program: `pytest | tail`, `pytest; ls`.
    pub hides_code: bool,
    /// Whether an edit takes back what was done: `git checkout -- a.py`.
    pub reverts: bool,
    /// The folder that a command line goes to before it reads or edits, where it is named from the one at hand: `cd lib`.
    pub folder: Option<String>,
    /// The file as a tool's argument names it, blanks and all.
    pub argument: Option<String>,
}

impl Action {
    fn of(kind: ActionKind) -> Self {
        Action {
            kind,
            path: None,
            bodies: Vec::new(),
            names: Vec::new(),
            tests: None,
            runs: false,
            shows: false,
            hides_code: false,
            reverts: false,
            folder: None,
            argument: None,
        }
    }

    fn on(kind: ActionKind, path: Option<&str>) -> Self {
        Action { path: path.and_then(normal_path), ..Action::of(kind) }
    }
}

/// The file that is open in an editor with a state, as SWE-agent's: `edit 10:20` names none.
#[derive(Default)]
pub struct Editor {
    open: Option<String>,
}

impl Editor {
    /// An action that opens its file; without one, the file that is open stays so.
    fn opens(&mut self, action: Action) -> Action {
        if action.path.is_some() {
            self.open.clone_from(&action.path);
        }
        self.stays(action)
    }

    /// An action in the file that it names, else in the open one.
    fn stays(&self, action: Action) -> Action {
        Action { path: action.path.or_else(|| self.open.clone()), ..action }
    }
}

/// Understands an action; `editor` goes along the steps of a trajectory. A call that is logged as the line that the agent wrote
/// (`goto 300`, `pytest tests/a.py`) is read as that line: its tool is only the first word.
pub fn analyse(step: &Step, editor: &mut Editor) -> Action {
    let is_line = |tool: &str| {
        let rest = step.text.strip_prefix(tool);
        step.arguments.is_none() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\n']))
    };
    let Some(tool) = step.tool.as_deref().filter(|tool| !is_line(tool)) else {
        return command(&step.text, 0, editor);
    };
    let arguments = Arguments::new(step, tool);
    let action = tool_action(step, tool, &arguments, editor);
    let argument = arguments.path().map(str::to_owned);
    Action { names: arguments.names, argument, ..action }
}

fn tool_action(step: &Step, tool: &str, arguments: &Arguments, editor: &mut Editor) -> Action {
    let name = tool.to_ascii_lowercase();
    // A server's tool: `mcp__files__read_file`.
    let Some(known) = ACTIONS.tools.of(name.rsplit("__").next().unwrap_or(&name)) else {
        // A domain tool: it calls something outside.
        return Action::of(ActionKind::ApiCall);
    };
    match known {
        Tool::Shell => shell_tool(step, tool, arguments, editor),
        Tool::Editor => file_editor(arguments),
        Tool::Open => editor.opens(Action::on(ActionKind::ReadFile, arguments.path())),
        Tool::Move => editor.stays(Action::of(ActionKind::ReadFile)),
        Tool::Create => editor.opens(arguments.edit()),
        Tool::EditOpen => editor.stays(arguments.edit()),
        Tool::Read => Action::on(ActionKind::ReadFile, arguments.path()),
        Tool::Edit => arguments.edit(),
        Tool::Search => Action::of(ActionKind::Search),
        Tool::Submit => Action::of(ActionKind::Submit),
        Tool::Run => Action::of(ActionKind::RunCommand),
        Tool::Test => Action { tests: Some(step.text.clone()), ..Action::of(ActionKind::RunTest) },
        Tool::Other => Action::of(ActionKind::Other),
    }
}

/// Whether a tool edits files itself, by its name in lower case; `patch` may be a shell's.
pub(crate) fn is_editor(tool: &str) -> bool {
    let edits = [Tool::Editor, Tool::Create, Tool::EditOpen, Tool::Edit];
    ACTIONS.tools.of(tool).is_some_and(|tool| edits.contains(&tool)) && tool != "patch"
}

/// Whether a number of an action is a parameter of the view itself: `offset=55`, `limit=70`.
pub(crate) fn is_view_parameter(norm: &str) -> bool {
    let key = norm.split_once('=').map_or("", |(key, _)| key);
    ACTIONS.keys.view.has(key)
}

fn normal_path(path: &str) -> Option<String> {
    let path = path.trim_matches(['"', '\'', '`']);
    let plain = path.trim_start_matches("./").trim_end_matches('/');
    let is_path = |o: &atoms::Occurrence<'_>| o.kind == AtomKind::Path && o.end == path.len();
    let lexed = atoms::occurrences(path).into_iter().find(is_path).map(|o| o.norm.into_owned());
    lexed.or_else(|| (!plain.is_empty() && plain.len() <= atoms::MAX_BYTES).then(|| plain.to_owned()))
}

// ---- tools with arguments ----

/// The arguments of a call, with the place of each in the step's text.
struct Arguments {
    values: Vec<(String, Value, Range<usize>)>,
    names: Vec<Range<usize>>,
}

impl Arguments {
    /// Follows the layout of [`crate::trajectory::action_text`]; where the text has another one, a
    /// string is looked for.
    fn new(step: &Step, tool: &str) -> Self {
        let parsed = step.arguments.as_deref().map(serde_json::from_str);
        let mut names = Vec::new();
        if step.text.starts_with(tool) {
            names.push(0..tool.len());
        }
        let Some(Ok(Value::Object(map))) = parsed else {
            return Arguments { values: Vec::new(), names };
        };
        let single = map.len() == 1;
        let mut at = tool.len();
        let mut values = Vec::with_capacity(map.len());
        for (key, value) in map {
            let text = match &value {
                Value::String(s) => s.clone(),
                other => other.to_string(),
            };
            at += 1 + if single { 0 } else { key.len() + 2 };
            let mut range = at..at + text.len();
            let label = range.start.saturating_sub(key.len() + 2)..range.start;
            if !single && step.text.get(label.clone()).is_some_and(|l| l.strip_suffix(": ") == Some(&key)) {
                names.push(label);
            }
            if step.text.get(range.clone()) != Some(text.as_str()) {
                let found = step.text.find(&text).unwrap_or(step.text.len());
                range = found..(found + text.len()).min(step.text.len());
            }
            at = range.end;
            values.push((key, value, range));
        }
        Arguments { values, names }
    }

    /// The argument that is given of some; the lowest number counts.
    fn get(&self, keys: &HashMap<String, u32>) -> Option<&(String, Value, Range<usize>)> {
        let ranked = self.values.iter().filter_map(|value| Some((keys.get(&value.0)?, value)));
        ranked.min_by_key(|(rank, _)| **rank).map(|(_, value)| value)
    }

    fn path(&self) -> Option<&str> {
        self.get(&ACTIONS.path_keys)?.1.as_str()
    }

    /// An edit: everything but the path and switches is its body.
    fn edit(&self) -> Action {
        let mut action = Action::on(ActionKind::EditFile, self.path());
        for (key, value, range) in &self.values {
            let text = match value {
                Value::String(s) => s.as_str(),
                Value::Array(_) | Value::Object(_) => "",
                _ => continue,
            };
            if !ACTIONS.path_keys.contains_key(key) && !ACTIONS.keys.switches.has(key) {
                action.bodies.push(range.clone());
            }
            if action.path.is_none() {
                action.path = patched_file(text);
            }
        }
        action
    }
}

/// The first `*** Update File: path` or `+++ b/path` in a patch.
fn patched_file(patch: &str) -> Option<String> {
    let name = |line: &str| {
        let rest = ["*** Update File: ", "*** Add File: ", "+++ b/", "+++ "]
            .iter()
            .find_map(|p| line.strip_prefix(p))?;
        normal_path(rest.split_whitespace().next()?)
    };
    patch.lines().find_map(name)
}

fn file_editor(arguments: &Arguments) -> Action {
    let command = arguments.values.iter().find(|(key, ..)| key == "command");
    match command.and_then(|(_, command, _)| command.as_str()) {
        Some("view") => Action::on(ActionKind::ReadFile, arguments.path()),
        _ => arguments.edit(),
    }
}

fn shell_tool(step: &Step, tool: &str, arguments: &Arguments, editor: &mut Editor) -> Action {
    match arguments.get(&ACTIONS.command_keys) {
        Some((_, Value::String(text), range)) if step.text.get(range.clone()) == Some(text) => {
            command(text, range.start, editor)
        }
        Some((_, Value::String(text), _)) => Action { bodies: Vec::new(), ..command(text, 0, editor) },
        // Codex: ["bash", "-lc", "the command"].
        Some((_, Value::Array(parts), _)) => {
            let parts: Vec<&str> = parts.iter().filter_map(Value::as_str).collect();
            let is_wrapper = parts.len() == 3 && parts[1].starts_with('-') && parts[1].ends_with('c');
            let text = if is_wrapper { parts[2].to_owned() } else { parts.join(" ") };
            Action { bodies: Vec::new(), ..command(&text, 0, editor) }
        }
        _ => {
            let rest = step.text.strip_prefix(tool).filter(|rest| rest.starts_with('\n'));
            let text = rest.unwrap_or(&step.text);
            command(text, step.text.len() - text.len(), editor)
        }
    }
}

// ---- the shell ----

/// Understands a command line that stands at `base` in the step's text.
fn command(text: &str, base: usize, editor: &mut Editor) -> Action {
    let mut best = match agent_edit(text, editor) {
        Some(action) => action,
        None => shell(text, editor),
    };
    for body in &mut best.bodies {
        *body = body.start + base..body.end + base;
    }
    best
}

/// SWE-agent's `edit 10:20`, text, `end_of_edit`.
fn agent_edit(text: &str, editor: &Editor) -> Option<Action> {
    let trimmed = text.trim_start();
    let start = text.len() - trimmed.len();
    let (first, rest) = trimmed.split_once('\n').unwrap_or((trimmed, ""));
    let range = first.strip_prefix("edit ")?.trim();
    let (from, to) = range.split_once(':')?;
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !is_number(from) || !is_number(to.split_whitespace().next()?) {
        return None;
    }
    let body = rest.rfind("end_of_edit").unwrap_or(rest.len());
    let at = start + (trimmed.len() - rest.len());
    let bodies = vec![at..at + body];
    Some(Action { path: editor.open.clone(), bodies, ..Action::of(ActionKind::EditFile) })
}

/// A simple command of a command line.
#[derive(Default)]
struct Simple {
    words: Vec<(String, Range<usize>)>,
    /// Files that its output is written to.
    targets: Vec<String>,
    heredocs: Vec<Range<usize>>,
    after: Link,
    /// Whether nobody waits for its end: `pytest &`.
    in_background: bool,
}

/// What joins a simple command to the one before.
#[derive(Clone, Copy, Default, PartialEq)]
enum Link {
    /// `;`, `&` or the end of a line; nothing, of the first.
    #[default]
    Next,
    /// `|`: it reads the output of the one before.
    Pipe,
    /// `&&`: it runs only if the one before ended well.
    And,
    /// `||`
    Or,
}

fn shell(text: &str, editor: &mut Editor) -> Action {
    let mut best: Option<Action> = None;
    let mut bodies = Vec::new();
    let mut tests: Option<String> = None;
    let (mut in_test, mut in_run, mut runs_any) = (false, false, false);
    let (mut folder, mut runs, mut shows, mut hides_code) = (None, false, true, false);
    let commands = split(text);
    for (at, simple) in commands.iter().enumerate() {
        let mut action = simple_action(simple, text, editor);
        folder = changed_folder(simple, folder);
        action.folder.clone_from(&folder);
        let is_program = action.kind == ActionKind::RunCommand && is_program(simple);
        runs |= is_program;
        shows &= action.kind != ActionKind::RunCommand || only_shows(simple);
        let is_lost =
            simple.in_background || commands.get(at + 1).is_some_and(|next| next.after != Link::And);
        if is_program || action.kind == ActionKind::RunTest {
            (hides_code, runs_any) = (is_lost, true);
        } else {
            // `pytest && echo ok; ls`
            hides_code |= runs_any && is_lost;
        }
        // What reads the output of a test or program is part of it: `pytest | tee log.txt`.
        let is_piped = simple.after == Link::Pipe;
        in_test = action.kind == ActionKind::RunTest || in_test && is_piped;
        in_run = is_program || in_run && is_piped;
        if is_piped && (in_test && action.kind != ActionKind::RunTest || in_run && !is_program) {
            continue;
        }
        let is_first = best.as_ref().is_none_or(|b| action.kind < b.kind);
        if in_test && tests.is_none() {
            tests = Some(command_words(simple));
        } else if is_first && action.kind == ActionKind::EditFile {
            // What was tested before is not what is changed here.
            tests = None;
        }
        bodies.append(&mut action.bodies);
        if is_first {
            best = Some(action);
        }
    }
    bodies.sort_by_key(|b: &Range<usize>| b.start);
    Action { bodies, tests, runs, shows, hides_code, ..best.unwrap_or_else(|| Action::of(ActionKind::Other)) }
}

/// The folder after a command, named from the one at hand; none where nothing is known of it, or where it is the one at hand.
fn changed_folder(simple: &Simple, before: Option<String>) -> Option<String> {
    let words = unwrapped(&simple.words);
    match words {
        [(cd, _), (folder, _), ..] if cd == "cd" => {
            let is_near = !folder.starts_with(['/', '~', '$', '-', '.']) && folder.len() < atoms::MAX_BYTES;
            let folder = folder.trim_end_matches('/');
            is_near.then(|| before.map_or(folder.to_owned(), |before| format!("{before}/{folder}")))
        }
        [(cd, _)] if cd == "cd" || cd == "popd" => None,
        _ => before,
    }
}

/// Whether a simple command runs a program of the project: an interpreter with a script, a build, or a file.
fn is_program(simple: &Simple) -> bool {
    let words = unwrapped(&simple.words);
    let Some(((program, _), arguments)) = words.split_first() else { return false };
    let name = program.rsplit('/').next().unwrap_or(program);
    let is = |at: usize, word: &str| arguments.get(at).is_some_and(|(w, _)| w == word);
    // A list or a dry run of a program is a run; a list of tests (`python -m pytest --co`) is none.
    let asks_version = arguments.iter().any(|(word, _)| ACTIONS.groups.quiet.has(word));
    let is_installer = |(module, _): &(String, _)| ACTIONS.groups.installers.has(module);
    let installs = is(0, "-m") && arguments.get(1).is_some_and(is_installer);
    let runs = ACTIONS.groups.builders.has(name)
        || ACTIONS.groups.builders_run.has(name) && is(0, "run")
        || is_interpreter(name)
        || program.starts_with("./")
        || program.starts_with("../");
    runs && !asks_version && !installs
}

/// Whether a command shows what versions, other machines' runs and files hold.
fn only_shows(simple: &Simple) -> bool {
    let mut words = unwrapped(&simple.words).iter().map(|(word, _)| word.as_str());
    words.next().is_some_and(|program| {
        // `git -C lib --no-pager log`
        ACTIONS.groups.showers.has(program)
            || program == "git" && words.take(6).any(|word| ACTIONS.groups.git_shows.has(word))
    })
}

/// Splits a command line at `&&`, `||`, `;`, `|`, `&` and newlines outside quotes.
fn split(text: &str) -> Vec<Simple> {
    let bytes = text.as_bytes();
    let mut done: Vec<Simple> = Vec::new();
    let mut current = Simple::default();
    let mut pending: Vec<(usize, String, bool)> = Vec::new();
    let mut redirect = false;
    let mut i = 0;
    while i < bytes.len() {
        match bytes[i] {
            b'\n' => {
                finish(&mut done, &mut current, Link::Next);
                i += 1;
                for (owner, end, tabs) in pending.drain(..) {
                    let (body, next) = heredoc(text, i, &end, tabs);
                    if let Some(simple) = done.get_mut(owner) {
                        simple.heredocs.push(body);
                    }
                    i = next;
                }
            }
            b' ' | b'\t' | b'\r' => i += 1,
            b'#' if i == 0 || bytes[i - 1].is_ascii_whitespace() => {
                i += bytes[i..].iter().take_while(|&&b| b != b'\n').count();
            }
            b'&' if bytes.get(i + 1) == Some(&b'>') => i += 1,
            b';' | b'|' | b'&' => {
                let is_double = bytes.get(i + 1) == Some(&bytes[i]);
                let link = match (bytes[i], is_double) {
                    (b'|', false) => Link::Pipe,
                    (b'|', true) => Link::Or,
                    (b'&', true) => Link::And,
                    _ => Link::Next,
                };
                current.in_background = bytes[i] == b'&' && !is_double && !current.words.is_empty();
                finish(&mut done, &mut current, link);
                i += 1 + usize::from(is_double);
            }
            b'<' if bytes[i..].starts_with(b"<<<") => i += 3,
            b'<' if bytes[i..].starts_with(b"<<") => {
                let tabs = bytes.get(i + 2) == Some(&b'-');
                let from = i + 2 + usize::from(tabs);
                let from = from + bytes[from..].iter().take_while(|b| **b == b' ').count();
                let (word, end) = word(text, from);
                if !word.is_empty() {
                    pending.push((done.len(), word, tabs));
                }
                i = end.max(from);
            }
            b'<' => i += 1,
            b'>' => {
                // `2>&1` names no file; a digit before belongs to the redirection.
                if bytes.get(i + 1) == Some(&b'&') {
                    i += 2 + bytes[i + 2..].iter().take_while(|b| b.is_ascii_digit()).count();
                } else {
                    i += 1 + usize::from(bytes.get(i + 1) == Some(&b'>'));
                    redirect = true;
                }
            }
            _ => {
                let (word, end) = word(text, i);
                let is_descriptor =
                    word.len() == 1 && word.as_bytes()[0].is_ascii_digit() && bytes.get(end) == Some(&b'>');
                if redirect {
                    current.targets.push(word);
                } else if !is_descriptor {
                    current.words.push((word, i..end));
                }
                redirect = false;
                i = end.max(i + 1);
            }
        }
    }
    finish(&mut done, &mut current, Link::Next);
    done
}

/// Ends a simple command; the next one comes `after` it. A line may break behind an operator: `pytest &&`, newline, `ls`.
fn finish(done: &mut Vec<Simple>, current: &mut Simple, after: Link) {
    let is_empty = current.words.is_empty() && current.targets.is_empty();
    if !is_empty {
        done.push(std::mem::take(current));
    } else if after == Link::Next {
        return;
    }
    current.after = after;
}

/// Reads a word that begins at `from`, quotes removed; answers where it ends.
fn word(text: &str, from: usize) -> (String, usize) {
    let bytes = text.as_bytes();
    let mut word: Vec<u8> = Vec::new();
    let mut quote = None;
    let mut i = from;
    while i < bytes.len() {
        match (quote, bytes[i]) {
            (None, b' ' | b'\t' | b'\r' | b'\n' | b';' | b'|' | b'&' | b'<' | b'>') => break,
            (None, b'"' | b'\'') => quote = Some(bytes[i]),
            (Some(q), b) if q == b => quote = None,
            (None | Some(b'"'), b'\\') if i + 1 < bytes.len() => {
                i += 1;
                word.push(bytes[i]);
            }
            (_, b) => word.push(b),
        }
        i += 1;
    }
    (String::from_utf8_lossy(&word).into_owned(), i)
}

/// The body of a heredoc that begins at `from`, and where the line after its end begins.
fn heredoc(text: &str, from: usize, end: &str, tabs: bool) -> (Range<usize>, usize) {
    let mut at = from;
    for line in text[from..].split_inclusive('\n') {
        let content = line.trim_end_matches(['\n', '\r']);
        let content = if tabs { content.trim_start_matches('\t') } else { content };
        if content == end {
            return (from..at, at + line.len());
        }
        at += line.len();
    }
    (from..text.len(), text.len())
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty()
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// The words of a command without assignments and wrappers such as `sudo` and `timeout 10`.
fn unwrapped(words: &[(String, Range<usize>)]) -> &[(String, Range<usize>)] {
    let mut rest = words;
    while let Some(((first, _), tail)) = rest.split_first() {
        let skip = match first.as_str() {
            word if ACTIONS.groups.wrappers.has(word) => 1,
            word if ACTIONS.groups.wrappers_with_options.has(word) => {
                let options = tail.iter().take_while(|(w, _)| w.starts_with('-')).count();
                let number = tail
                    .get(options)
                    .is_some_and(|(w, _)| first == "timeout" || w.bytes().all(|b| b.is_ascii_digit()));
                1 + options + usize::from(number)
            }
            word if ACTIONS.groups.wrappers_run.has(word)
                && tail.first().is_some_and(|(w, _)| w == "run") =>
            {
                2
            }
            "bundle" if tail.first().is_some_and(|(w, _)| w == "exec") => 2,
            word if is_assignment(word) => 1,
            // `env $setting python a.py`
            word if word.starts_with('$') && !tail.is_empty() => 1,
            _ => break,
        };
        rest = rest.get(skip..).unwrap_or_default();
    }
    rest
}

/// A command in one line, without what wraps it.
fn command_words(simple: &Simple) -> String {
    let words: Vec<&str> = unwrapped(&simple.words).iter().map(|(word, _)| word.as_str()).collect();
    words.join(" ")
}

fn simple_action(simple: &Simple, text: &str, editor: &mut Editor) -> Action {
    let words = unwrapped(&simple.words);
    let by_xargs = simple.words.iter().any(|(w, _)| w == "xargs");
    let target = simple.targets.iter().find(|t| !t.starts_with("/dev/") && !t.is_empty());
    let Some(((program, _), arguments)) = words.split_first() else {
        return match target {
            Some(target) => {
                Action { bodies: simple.heredocs.clone(), ..Action::on(ActionKind::EditFile, Some(target)) }
            }
            None => Action::of(ActionKind::Other),
        };
    };
    let program = program.trim_start_matches(['(', '{']);
    let name = program.rsplit('/').next().unwrap_or(program);
    let plain: Vec<&str> = arguments.iter().map(|(w, _)| w.as_str()).collect();
    let files: Vec<&str> = plain.iter().copied().filter(|w| !w.starts_with('-') && !w.is_empty()).collect();
    let mut action = program_action(name, program, &plain, &files, editor);
    if simple.after == Link::Pipe
        && !by_xargs
        && ACTIONS.groups.filters.has(name)
        && target.is_none()
        && !(name == "sed" && in_place(&plain))
    {
        // A filter of what comes through the pipe says nothing of its own.
        action = Action::of(ActionKind::Other);
    }
    let script = simple.heredocs.iter().map(|body| &text[body.clone()]).find(|body| writes(body));
    if is_interpreter(name) && action.kind == ActionKind::RunCommand {
        let inline = arguments.windows(2).find(|w| matches!(w[0].0.as_str(), "-c" | "-e") && writes(&w[1].0));
        if let Some(script) = script.or_else(|| inline.map(|w| w[1].0.as_str())) {
            action = Action::on(ActionKind::EditFile, written_file(script).as_deref());
            action.bodies = simple.heredocs.clone();
            action.bodies.extend(inline.map(|w| w[1].1.clone()));
        }
    }
    if let Some(target) = target.filter(|_| action.kind != ActionKind::RunTest && !is_log(name)) {
        action = Action::on(ActionKind::EditFile, Some(target));
    }
    if action.kind == ActionKind::EditFile && action.bodies.is_empty() {
        action.bodies = simple.heredocs.clone();
        if matches!(name, "sed" | "perl" | "echo" | "printf") {
            let quoted = arguments.iter().map(|(_, range)| range.clone());
            action.bodies.extend(quoted.filter(|range| text[range.clone()].starts_with(['"', '\''])));
        }
        if action.path.is_none() {
            action.path = action.bodies.iter().find_map(|body| patched_file(&text[body.clone()]));
        }
    }
    action
}

/// Programs whose redirected output is a log rather than a file that they edit.
fn is_log(name: &str) -> bool {
    is_interpreter(name) || ACTIONS.groups.loggers.has(name)
}

fn is_interpreter(name: &str) -> bool {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    ACTIONS.groups.interpreters.has(stem)
}

fn in_place(arguments: &[&str]) -> bool {
    arguments.iter().any(|a| {
        a.starts_with("-i")
            || *a == "--in-place"
            || (a.starts_with('-') && !a.starts_with("--") && a.ends_with('i'))
    })
}

/// Whether a script writes a file.
fn writes(script: &str) -> bool {
    ACTIONS.signs.writes.fit(script)
}

/// The file that a script opens for writing, else the first that it opens.
fn written_file(script: &str) -> Option<String> {
    let is_path = |o: &&atoms::Occurrence<'_>| o.kind == AtomKind::Path;
    let lines = || script.lines().filter(|line| ACTIONS.signs.opens.fit(line));
    let path =
        |line: &str| atoms::occurrences(line).iter().find(is_path).map(|o| o.norm.clone().into_owned());
    lines()
        .filter(|l| writes(l))
        .find_map(path)
        .or_else(|| lines().find_map(path))
        .or_else(|| script.lines().find_map(path))
}

fn program_action(name: &str, program: &str, plain: &[&str], files: &[&str], editor: &mut Editor) -> Action {
    use ActionKind::*;
    let first = files.first().copied();
    if let Some(known) = ACTIONS.programs.of(name) {
        return match known {
            Program::Other => Action::of(Other),
            Program::Submit => Action::of(Submit),
            // SWE-agent's editor; `open` needs a file, as `edit` a line range.
            Program::Open => editor.opens(Action::on(ReadFile, first)),
            Program::Create => editor.opens(Action::on(EditFile, first)),
            Program::Move => editor.stays(Action::of(ReadFile)),
            Program::EditOpen => editor.stays(Action::of(EditFile)),
            Program::Read => Action::on(ReadFile, first),
            Program::Write => Action::on(EditFile, first),
            Program::WriteLast => Action::on(EditFile, files.last().copied()),
            Program::Search => Action::of(Search),
            Program::Call => Action::of(ApiCall),
        };
    }
    match name {
        "echo" | "printf" if plain.iter().any(|word| ACTIONS.signs.submits.fit(word)) => Action::of(Submit),
        "echo" | "printf" => Action::of(Other),
        "str_replace_editor" => match plain {
            ["view", path, ..] => Action::on(ReadFile, Some(path)),
            [_, path, ..] => Action::on(EditFile, Some(path)),
            _ => Action::of(EditFile),
        },
        "head" | "tail" => {
            Action::on(ReadFile, files.iter().copied().rfind(|f| !f.bytes().all(|b| b.is_ascii_digit())))
        }
        "sed" | "perl" if in_place(plain) => Action::on(EditFile, files.last().copied()),
        "sed" => Action::on(ReadFile, if files.len() > 1 { files.last().copied() } else { None }),
        "awk" if files.len() > 1 => Action::on(ReadFile, files.last().copied()),
        "patch" | "apply_patch" => {
            let is_patch = |file: &&str| file.ends_with(".patch") || file.ends_with(".diff");
            Action::on(EditFile, first.filter(|file| name == "patch" && !is_patch(file)))
        }
        "git" => Action { reverts: is_revert(files), ..git(files) },
        _ if is_test(name, program, plain, files) => Action::of(RunTest),
        _ => Action::of(RunCommand),
    }
}

fn git(files: &[&str]) -> Action {
    let groups = &ACTIONS.groups;
    match files.first() {
        Some(command) if groups.git_searches.has(command) => Action::of(ActionKind::Search),
        // What a patch changes is not told by its name.
        Some(command) if groups.git_applies.has(command) => Action::of(ActionKind::EditFile),
        Some(command) if groups.git_edits.has(command) => {
            let path = files.last().filter(|f| files.len() > 1 && (f.contains('.') || f.contains('/')));
            Action::on(ActionKind::EditFile, path.copied())
        }
        _ => Action::of(ActionKind::RunCommand),
    }
}

/// Whether git takes back what was done, or puts it away.
fn is_revert(files: &[&str]) -> bool {
    match files {
        ["stash", how, ..] => !matches!(*how, "pop" | "apply"),
        ["stash"] => true,
        [command, ..] => ACTIONS.groups.git_reverts.has(command),
        [] => false,
    }
}

/// Whether a runner is told to run nothing, but to list, to build or to say who it is.
fn runs_none(name: &str, plain: &[&str]) -> bool {
    plain.iter().any(|word| RUNNERS.runs_none(word)) || name == "make" && plain.contains(&"-n")
}

fn is_test(name: &str, program: &str, plain: &[&str], files: &[&str]) -> bool {
    let first = files.first().copied().unwrap_or("");
    if runs_none(name, plain) {
        return false;
    }
    let is_script = |path: &str| {
        let file = path.rsplit('/').next().unwrap_or(path);
        RUNNERS.is_script(file.split('.').next().unwrap_or(file))
    };
    if RUNNERS.is_runner(name) {
        return true;
    }
    if let Some(is_told) = RUNNERS.told_to_test(name, files) {
        return is_told;
    }
    match name {
        _ if is_interpreter(name) => match plain {
            ["-m", module, rest @ ..] => {
                RUNNERS.is_module(module)
                    || *module == "django" && rest.contains(&"test")
                    || is_script(module.rsplit('.').next().unwrap_or(module))
            }
            _ if first.ends_with("manage.py") || first.ends_with("setup.py") => files.get(1) == Some(&"test"),
            _ => is_script(first) || first.ends_with("bin/test"),
        },
        "django-admin" | "manage.py" => first == "test",
        _ => program.ends_with("bin/test") || (program.contains('/') && is_script(program)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Kind, Role, action_text, step};
    use proptest::prelude::*;

    fn call(tool: &str, arguments: &str) -> Step {
        let mut s = step(Role::Agent, Kind::Action, action_text(tool, arguments));
        s.tool = Some(tool.into());
        s.arguments = Some(arguments.into());
        s
    }

    fn shell_call(command: &str) -> Step {
        call("bash", &serde_json::json!({ "command": command }).to_string())
    }

    /// `kind path`, and the bodies.
    fn told(step: &Step) -> (String, Vec<String>) {
        let action = analyse(step, &mut Editor::default());
        let bodies = action.bodies.iter().map(|b| step.text[b.clone()].to_owned()).collect();
        (format!("{} {}", action.kind.name(), action.path.as_deref().unwrap_or("-")), bodies)
    }

    #[track_caller]
    fn shell_is(command: &str, expected: &str) {
        assert_eq!(told(&shell_call(command)).0, expected, "{command}");
    }

    #[test]
    fn names_survive() {
        for name in
            ["submit", "edit_file", "run_test", "read_file", "search", "api_call", "run_command", "other"]
        {
            assert_eq!(ActionKind::parse(name).map(ActionKind::name), Some(name));
        }
    }

    #[test]
    fn shell_commands() {
        shell_is("cat ./src/a.py", "read_file src/a.py");
        shell_is("cd /testbed && sed -n '10,20p' django/x.py", "read_file django/x.py");
        shell_is("head -n 50 a.py", "read_file a.py");
        shell_is("sed -i 's/a/b/' src/a.py", "edit_file src/a.py");
        shell_is("cd /x; FOO=1 timeout 60 python -m pytest tests/ 2>&1 | tail -5", "run_test -");
        shell_is("python -m unittest", "run_test -");
        shell_is("./tests/runtests.py admin", "run_test -");
        shell_is("cargo test --release", "run_test -");
        shell_is("grep -rn foo . | head", "search -");
        shell_is("find . -name '*.py' | xargs grep -l foo", "search -");
        shell_is("python run.py 2>&1 | grep -v warn", "run_command -");
        shell_is("curl -s http://x", "api_call -");
        shell_is("echo hi > out.txt", "edit_file out.txt");
        shell_is("ls 2>/dev/null", "search -");
        shell_is("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "submit -");
        shell_is("cat a.py && pytest", "run_test -");
        shell_is("", "other -");
    }

    #[test]
    fn the_command_that_tests() {
        let tests = |command: &str| analyse(&shell_call(command), &mut Editor::default()).tests;
        let is = |command: &str, expected: Option<&str>| assert_eq!(tests(command).as_deref(), expected);
        is(
            "cd /testbed && conda activate testbed && FOO=1 timeout 60 pytest -q tests/a.py",
            Some("pytest -q tests/a.py"),
        );
        is("sed -i 's/a/b/' src/a.py && python -m pytest tests", Some("python -m pytest tests"));
        is("pytest tests/a.py; sed -i 's/a/b/' src/a.py", None);
        is("python run.py", None);
        for none in [
            "pytest --collect-only -q",
            "pytest --version",
            "cargo test --no-run",
            "make -n test",
            "mvn test -DskipTests",
        ] {
            is(none, None);
        }
        // Writing the output of a test run to a file is no edit.
        shell_is("pytest 2>&1 | tee log.txt | tail -5", "run_test -");
        shell_is("echo x | tee a.py", "edit_file a.py");
    }

    #[test]
    fn whose_exit_code_it_is() {
        let is = |command: &str, hides: bool| {
            assert_eq!(analyse(&shell_call(command), &mut Editor::default()).hides_code, hides, "{command}");
        };
        is("cd a && pytest", false);
        is("pytest && ls", false);
        is("pytest &&\n  ls", false);
        is("pytest; ls", true);
        is("pytest\nls", true);
        is("pytest || true", true);
        is("pytest && echo ok; ls", true);
        is("pytest -q && echo a && echo b; ls", true);
        is("pytest -q > a.log 2>&1 &", true);
        is("ls; pytest && echo a && echo b", false);
        is("pytest |& tail -3", true);
        // What a heredoc holds joins no commands.
        is("python - <<EOF\nprint(1 && 2)\nEOF\nls", true);
        is("pytest > a.log <<EOF && ls\na || b\nEOF", false);
        // A pipe may go on in the next line.
        shell_is("pytest |\n  grep x a.py", "run_test -");
        shell_is("pytest |& grep x a.py", "run_test -");
    }

    #[test]
    fn heredocs_are_bodies() {
        let (kind, bodies) = told(&shell_call("cat > t.py << 'EOF'\nimport x; a | b\nEOF\npython t.py"));
        assert_eq!((kind.as_str(), bodies), ("edit_file t.py", vec!["import x; a | b\n".to_owned()]));
        let (kind, bodies) = told(&shell_call("python - <<EOF\nopen('a.py', 'w').write('x')\nEOF"));
        assert_eq!((kind.as_str(), bodies.len()), ("edit_file a.py", 1));
        let (kind, bodies) = told(&shell_call("python - <<EOF\nprint(1)\nEOF"));
        assert_eq!((kind.as_str(), bodies.len()), ("run_command -", 0));
        let (kind, bodies) = told(&shell_call("apply_patch <<EOF\n*** Update File: src/a.rs\n+x\nEOF"));
        assert_eq!((kind.as_str(), bodies.len()), ("edit_file src/a.rs", 1));
    }

    #[test]
    fn editor_tools() {
        let (kind, bodies) =
            told(&call("Edit", r#"{"file_path":"/a/b.py","old_string":"x\ny","new_string":"z"}"#));
        assert_eq!((kind.as_str(), bodies), ("edit_file /a/b.py", vec!["x\ny".to_owned(), "z".to_owned()]));
        let (kind, bodies) =
            told(&call("str_replace_editor", r#"{"command":"view","path":"/a/b.py","view_range":[1,20]}"#));
        assert_eq!((kind.as_str(), bodies.len()), ("read_file /a/b.py", 0));
        let (kind, bodies) =
            told(&call("str_replace_editor", r#"{"command":"create","path":"/a/b.py","file_text":"t"}"#));
        assert_eq!((kind.as_str(), bodies), ("edit_file /a/b.py", vec!["t".to_owned()]));
        assert_eq!(told(&call("Read", r#"{"file_path":"/a/b.py"}"#)).0, "read_file /a/b.py");
        // As opencode writes it.
        assert_eq!(told(&call("read", r#"{"filePath":"/a/b.py"}"#)).0, "read_file /a/b.py");
        assert_eq!(told(&call("get_order_details", r#"{"order_id":"W1"}"#)).0, "api_call -");
        assert_eq!(told(&call("shell", r#"{"command":["bash","-lc","cat x.py"]}"#)).0, "read_file x.py");
    }

    #[test]
    fn an_edit_without_a_path_is_of_the_open_file() {
        let mut editor = Editor::default();
        let mut act = |text: &str| {
            let s = step(Role::Agent, Kind::Action, text);
            let action = analyse(&s, &mut editor);
            (
                action.kind.name(),
                action.path.unwrap_or_default(),
                action.bodies.iter().map(|b| s.text[b.clone()].to_owned()).collect::<String>(),
            )
        };
        assert_eq!(act("open src/a.py 10"), ("read_file", "src/a.py".to_owned(), String::new()));
        assert_eq!(act("goto 50"), ("read_file", "src/a.py".to_owned(), String::new()));
        assert_eq!(
            act("edit 1:2\nx = 1\nend_of_edit\n"),
            ("edit_file", "src/a.py".to_owned(), "x = 1\n".to_owned())
        );
    }

    #[test]
    fn a_call_without_arguments_is_the_line_that_was_written() {
        let mut editor = Editor::default();
        let mut act = |text: &str| {
            let mut s = step(Role::Agent, Kind::Action, text);
            s.tool = text.split_whitespace().next().map(Into::into);
            let action = analyse(&s, &mut editor);
            format!("{} {}", action.kind.name(), action.path.as_deref().unwrap_or("-"))
        };
        assert_eq!(act("open src/a.py 10"), "read_file src/a.py");
        assert_eq!(act("scroll_down"), "read_file src/a.py");
        assert_eq!(act("edit 1:2\nx = 1\nend_of_edit"), "edit_file src/a.py");
        assert_eq!(act("create b.py"), "edit_file b.py");
        assert_eq!(act("pytest tests/a.py"), "run_test -");
        assert_eq!(act("python b.py"), "run_command -");
        assert_eq!(act("cd /x && rm c.py"), "edit_file c.py");
        assert_eq!(act("submit"), "submit -");
    }

    #[test]
    fn the_editor_as_tools_keeps_its_file() {
        let mut editor = Editor::default();
        let mut act = |tool: &str, arguments: &str| {
            let action = analyse(&call(tool, arguments), &mut editor);
            format!("{} {}", action.kind.name(), action.path.as_deref().unwrap_or("-"))
        };
        assert_eq!(act("goto", r#"{"line_number":5}"#), "read_file -");
        assert_eq!(act("open", r#"{"path":"tests/a.py","line_number":"5"}"#), "read_file tests/a.py");
        assert_eq!(act("scroll_down", "{}"), "read_file tests/a.py");
        assert_eq!(act("edit", r#"{"search":"x","replace":"y"}"#), "edit_file tests/a.py");
        assert_eq!(act("create", r#"{"filename":"b.py"}"#), "edit_file b.py");
        assert_eq!(act("insert", r#"{"text":"z","line":"2"}"#), "edit_file b.py");
        assert_eq!(act("open", "{}"), "read_file b.py");
        assert_eq!(act("Edit", r#"{"file_path":"c.py","old_string":"x"}"#), "edit_file c.py");
    }

    proptest! {
        #[test]
        fn bodies_are_slices_of_the_text(command in "([a-z ]{1,6}|cat > f <<EOF\n|EOF\n|EOF|'|\"|\\||;|&&|\n|>|<<|<<-|\\\\|é|edit 1:2\n|#|sed -i|echo|\\PC){0,30}") {
            for s in [shell_call(&command), step(Role::Agent, Kind::Action, command.clone()), call("Write", &command)] {
                for body in analyse(&s, &mut Editor::default()).bodies {
                    prop_assert!(s.text.get(body).is_some());
                }
            }
        }
    }
}
