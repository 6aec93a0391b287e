//! What a simple command does, by its program.

use crate::text::atoms::{self, AtomKind};
use crate::turns::names::{ACTIONS, Program};
use crate::turns::runners::RUNNERS;

use super::split::{Link, Simple, unwrapped};
use super::{Action, ActionKind, Editor, normal_path};

pub(super) fn simple_action(simple: &Simple, text: &str, editor: &mut Editor) -> Action {
    let words = unwrapped(&simple.words);
    let by_xargs = simple.words.iter().any(|(w, _)| w == "xargs");
    let target = simple.targets.iter().find(|t| !t.starts_with("/dev/") && !t.is_empty());
    let Some(((program, _), arguments)) = words.split_first() else {
        return match target {
            Some(target) => {
                let written = Action::on(ActionKind::EditFile, Some(target));
                Action { makes: true, bodies: simple.heredocs.clone(), ..written }
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
        action = Action { makes: true, ..Action::on(ActionKind::EditFile, Some(target)) };
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

pub(super) fn is_interpreter(name: &str) -> bool {
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
pub(in crate::turns) fn writes(script: &str) -> bool {
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
            Program::Create => editor.opens(Action { makes: true, ..Action::on(EditFile, first) }),
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

/// The first `*** Update File: path` or `+++ b/path` in a patch.
pub(super) fn patched_file(patch: &str) -> Option<String> {
    let name = |line: &str| {
        let rest = ["*** Update File: ", "*** Add File: ", "+++ b/", "+++ "]
            .iter()
            .find_map(|p| line.strip_prefix(p))?;
        normal_path(rest.split_whitespace().next()?)
    };
    patch.lines().find_map(name)
}
