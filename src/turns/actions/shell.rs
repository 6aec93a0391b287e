//! A shell command as simple commands, and what they do together.

use std::ops::Range;

use crate::text::atoms;
use crate::turns::names::ACTIONS;

use super::programs::{is_interpreter, simple_action};
use super::split::{Link, Simple, command_words, split, unwrapped};
use super::{Action, ActionKind, Editor};

pub(super) fn shell(text: &str, editor: &mut Editor) -> Action {
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
