//! What an action does: its kind, the file it reads or edits, and the bodies of edits.
//!
//! Known tools are told by name; shell commands are split into simple commands, of which the most
//! informative one counts (edit, test, read, search, call, run, in this order). A simple parser: no
//! expansion, no functions, no nested `$(...)`.

use std::ops::Range;

use crate::text::atoms::{self, AtomKind};
use crate::trajectory::Step;

mod programs;
mod shell;
mod split;
mod tools;

pub(crate) use tools::{is_editor, is_view_parameter};

use tools::{Arguments, command, tool_action};

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

pub(super) use programs::writes;

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
    /// Whether an edit writes the file whole, be it new or not: `create a.py`, `cat > a.py`.
    pub makes: bool,
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
            makes: false,
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

fn normal_path(path: &str) -> Option<String> {
    let path = path.trim_matches(['"', '\'', '`']);
    let plain = path.trim_start_matches("./").trim_end_matches('/');
    let is_path = |o: &atoms::Occurrence<'_>| o.kind == AtomKind::Path && o.end == path.len();
    let lexed = atoms::occurrences(path).into_iter().find(is_path).map(|o| o.norm.into_owned());
    lexed.or_else(|| (!plain.is_empty() && plain.len() <= atoms::MAX_BYTES).then(|| plain.to_owned()))
}

// ---- tools with arguments ----

// ---- the shell ----

#[cfg(test)]
mod tests;
