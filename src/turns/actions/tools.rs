//! What a call of a tool does, by the name of the tool and its arguments.

use std::collections::HashMap;
use std::ops::Range;

use serde_json::Value;

use crate::trajectory::Step;
use crate::turns::names::{ACTIONS, Tool};

use super::programs::patched_file;
use super::shell::shell;
use super::{Action, ActionKind, Editor};

pub(super) fn tool_action(step: &Step, tool: &str, arguments: &Arguments, editor: &mut Editor) -> Action {
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
        Tool::Create => editor.opens(Action { makes: true, ..arguments.edit() }),
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

/// The arguments of a call, with the place of each in the step's text.
pub(super) struct Arguments {
    values: Vec<(String, Value, Range<usize>)>,
    pub(super) names: Vec<Range<usize>>,
}

impl Arguments {
    /// Follows the layout of [`crate::trajectory::action_text`]; where the text has another one, a
    /// string is looked for.
    pub(super) fn new(step: &Step, tool: &str) -> Self {
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
    pub(super) fn get(&self, keys: &HashMap<String, u32>) -> Option<&(String, Value, Range<usize>)> {
        let ranked = self.values.iter().filter_map(|value| Some((keys.get(&value.0)?, value)));
        ranked.min_by_key(|(rank, _)| **rank).map(|(_, value)| value)
    }

    pub(super) fn path(&self) -> Option<&str> {
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

fn file_editor(arguments: &Arguments) -> Action {
    let command = arguments.values.iter().find(|(key, ..)| key == "command");
    match command.and_then(|(_, command, _)| command.as_str()) {
        Some("view") => Action::on(ActionKind::ReadFile, arguments.path()),
        Some("create") => Action { makes: true, ..arguments.edit() },
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

/// Understands a command line that stands at `base` in the step's text.
pub(super) fn command(text: &str, base: usize, editor: &mut Editor) -> Action {
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
