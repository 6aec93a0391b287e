//! How a command ended, told by what it printed: the summaries of test runners (`runners.rs`), exit codes, and what programs,
//! editors and environments say when they fail (`src/data/words/outcomes.toml`). A reward that an environment tells counts as a
//! test: 1 is success (tau-bench).
//!
//! A pass is never told by words such as PASSED and OK alone, and a run of no tests has not passed. Of an output the first and
//! last [`EDGE`] bytes are read, without the escape sequences that colour it: summaries stand at the end, or, where the output
//! was cut, at the beginning.

use std::borrow::Cow;
use std::sync::LazyLock;

use serde::Deserialize;

use super::runners::{RUNNERS, and};
use crate::text::lists::{self, Signs, WordSet};

/// Bytes at either end of an output that are read.
pub(crate) const EDGE: usize = 4096;
/// Lines at the end in which a tool tells that it gave up.
const LAST: usize = 20;

static WORDS: LazyLock<Words> = LazyLock::new(|| lists::read(include_str!("../data/words/outcomes.toml")));

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    frame: Frame,
    codes: Codes,
    lines: Lines,
    words: Failing,
    edits: Edits,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame {
    before: String,
    behind: Signs,
    prompt: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Codes {
    first: Vec<String>,
    last: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Lines {
    background: Signs,
    broke: Signs,
    complains: Signs,
    complains_last: Signs,
    compiled: Signs,
    mild: Signs,
    exceptions: Vec<String>,
    limits: Signs,
    crashes: Signs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Failing {
    fails: WordSet,
    fails_if_counted: WordSet,
    tests: WordSet,
    none: WordSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edits {
    applied: Signs,
    refused: Signs,
    refused_line: Signs,
    failed: Signs,
}

/// An output without the frame that its environment puts around it.
fn bare(text: &str) -> &str {
    let mut text = text.strip_prefix(&WORDS.frame.before).unwrap_or(text);
    if text.ends_with(&WORDS.frame.prompt) {
        while let Some((rest, _)) = text.rsplit_once('\n').filter(|(_, last)| WORDS.frame.behind.fit(last)) {
            text = rest;
        }
    }
    text
}

/// The beginning and the end of an output, if it is long, without its frame and escape sequences.
pub(crate) fn edges(text: &str) -> Cow<'_, str> {
    let text = bare(text);
    if text.len() <= 2 * EDGE {
        return plain(text.into());
    }
    let head = &text[..text.floor_char_boundary(EDGE)];
    let tail = &text[text.ceil_char_boundary(text.len() - EDGE)..];
    plain(format!("{head}\n{tail}").into())
}

/// A text without the escape sequences of a terminal: `\x1b[32m`.
fn plain(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or("");
    if first.len() == text.len() {
        return text;
    }
    let is_final = |c: char| ('@'..='~').contains(&c);
    parts
        .fold(first.to_owned(), |all, part| all + part.split_once(is_final).map_or("", |(_, rest)| rest))
        .into()
}

/// Whether the tests passed; none where no runner's summary stands in the output. Several summaries: all must have passed.
/// `tests` says that the command was to run tests: then the last word of a build counts, too.
pub(crate) fn outcome(output: &str, tests: bool) -> Option<bool> {
    let passed = and(RUNNERS.outcome(output), rewards(output).fold(None, |all, told| and(all, Some(told))));
    let built = output.lines().filter_map(|line| RUNNERS.build(line.trim())).min();
    let is_told = built == Some(false) || passed.is_some() || !RUNNERS.ran_none(output);
    and(passed, built.filter(|_| (tests || passed.is_some()) && is_told))
}

/// `reward: 1.0` or `"reward": 0.0,` as a line of its own, or in an object on one line.
fn reward(plain: &str) -> Option<bool> {
    if let Some((_, rest)) = plain.split_once("\"reward\":").filter(|_| plain.starts_with('{')) {
        return is_full(rest.split([',', '}']).next()?.trim());
    }
    let (key, value) = plain.split_once(':')?;
    let is_reward = key.trim_matches(['"', '\'', ' ']).eq_ignore_ascii_case("reward");
    is_reward.then(|| is_full(value.trim_matches([' ', ','])))?
}

/// Whether a reward is 1; what is more is no environment's reward, but points, money or the like.
fn is_full(value: &str) -> Option<bool> {
    let value: f64 = value.parse().ok()?;
    (value <= 1.0).then_some(value == 1.0)
}

fn rewards(output: &str) -> impl DoubleEndedIterator<Item = bool> {
    output.lines().filter_map(|line| reward(line.trim()))
}

/// Whether an environment tells a reward of 1, beside what a tool says of itself; none where it tells no reward.
pub(crate) fn rewarded(output: &str) -> Option<bool> {
    rewards(output).next_back()
}

/// Whether a run that ended well may be no pass: a line speaks of failure, of tests that were skipped, or of none that ran.
pub(crate) fn may_have_failed(output: &str) -> bool {
    tells_failure(output) || RUNNERS.ran_none(output) || RUNNERS.tells_skips(output)
}

/// Whether a command was sent to the background: how it ended is not known.
pub(crate) fn in_background(output: &str) -> bool {
    let first = output.trim_start().lines().next().unwrap_or("");
    WORDS.lines.background.fit(first)
}

/// Whether a line speaks of failure, as scripts do that test by themselves and end well whatever came of it: `Test 1 FAILED`,
/// `2 of 3 failed`, and not `0 failed`. That is no summary, but who has read it does not call the run a pass.
fn tells_failure(output: &str) -> bool {
    let Failing { fails, fails_if_counted, tests, none } = &WORDS.words;
    output.lines().any(|line| {
        let words: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let is_none = |at: Option<usize>| {
            let word = at.and_then(|at| words.get(at));
            word.is_some_and(|word| none.has(&word.to_ascii_lowercase()))
        };
        let is_test = |word: &&str| tests.has(&word.to_ascii_lowercase());
        let counted = |at: usize| words[..at].iter().any(|word| is_test(word) || word.parse::<u64>().is_ok());
        words.iter().enumerate().any(|(at, word)| {
            let fails = fails.has(word) || fails_if_counted.has(word) && counted(at);
            // `0 failed`, `0 tests failed`, `FAILED: 0`.
            let before = at.checked_sub(1).map(|last| last - usize::from(last > 0 && is_test(&words[last])));
            fails && !is_none(before) && !is_none(Some(at + 1))
        }) || line.contains(['\u{274c}', '\u{2717}', '\u{2718}'])
    })
}

/// The exit code that the environment tells in its first line (`<returncode>1</returncode>`, `Exit code 1`) or in its last
/// (`[The command completed with exit code 1.]`). Programs print codes at their end, too, but of others.
pub(crate) fn exit_code(output: &str) -> Option<i64> {
    let number = |line: &str, labels: &[String]| {
        let rest = labels.iter().find_map(|label| line.trim().strip_prefix(label.as_str()))?;
        rest.split('<').next()?.trim_end_matches([']', ')', '.']).trim().parse().ok()
    };
    let mut lines = output.lines().filter(|line| !line.trim().is_empty());
    let first = output.lines().next().and_then(|line| number(line, &WORDS.codes.first));
    first.or_else(|| number(lines.next_back()?, &WORDS.codes.last))
}

/// The exit code that a command prints itself, as its last line: `exit=1` after `; echo exit=$?`.
pub(crate) fn printed_code(output: &str) -> Option<i64> {
    let is_mark =
        |line: &&str| line.trim().is_empty() || line.trim().starts_with("</") || line.starts_with('[');
    let last = output.lines().rev().find(|line| !is_mark(line))?.trim_end();
    let digits = last.len() - last.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    last[last.len() - digits..].parse().ok()
}

/// Whether a program broke down: it raised, or could not be run.
pub(crate) fn broke(output: &str) -> bool {
    output.lines().any(|line| WORDS.lines.broke.fit(line))
}

/// Whether a compiler, type checker, linter or build complains, or an exception is the last word. A program may well print as
/// much of something else: this is no more than a reason not to take a run for a good one.
pub(crate) fn complains(output: &str) -> bool {
    let says = |line: &str| WORDS.lines.complains.fit(line) || is_linted(line) || is_compiled(line);
    let is_error = |line: &str| is_raised(line) || WORDS.lines.complains_last.fit(line);
    output.lines().any(says)
        || output.lines().rev().find(|line| !line.trim().is_empty()).is_some_and(is_error)
}

/// What is said of a place in a file: `src/a.py:3:5: said`.
fn said_of_place(line: &str) -> Option<(&str, &str)> {
    let mut parts = line.splitn(4, ':');
    let (file, at, column, said) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    (is_number(at) && is_number(column)).then(|| (file, said.trim_start()))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a line is what a compiler that says no more than that finds wrong: `./a.go:57:59: not enough arguments`.
fn is_compiled(line: &str) -> bool {
    let Lines { compiled, mild, .. } = &WORDS.lines;
    said_of_place(line).is_some_and(|(file, said)| compiled.fit(file) && !mild.fit(said))
}

/// Whether a line is what a linter says of a place: `src/a.py:3:5: F821 undefined name 'x'`.
fn is_linted(line: &str) -> bool {
    said_of_place(line).is_some_and(|(file, said)| {
        let code = said.split(' ').next().unwrap_or("");
        let digits = code.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let letters = code.len() - digits.len();
        file.contains(['.', '/'])
            && (1..=4).contains(&letters)
            && (3..=4).contains(&digits.len())
            && is_number(digits)
    })
}

/// Whether a line is an exception, with or without what it says: `TypeError: x`, `django.db.utils.OperationalError: no such
/// table: x`, `AssertionError`. A bare `Error: x` is anybody's.
fn is_raised(line: &str) -> bool {
    let name = line.split(": ").next().unwrap_or(line);
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    is_name
        && (WORDS.lines.exceptions.iter())
            .any(|kind| name.strip_suffix(kind.as_str()).is_some_and(|of| !of.is_empty()))
}

/// Whether a tool tells at the end of its output that it gave up: make, a build, JavaScript that threw, what was killed; or its
/// harness before that output.
pub(crate) fn gave_up(output: &str) -> bool {
    let Lines { limits, crashes, .. } = &WORDS.lines;
    let makes = |line: &str| {
        line.starts_with("make") && line.split_once(": *** ").is_some_and(|(make, _)| !make.contains(' '))
    };
    // `TypeError: x`, with the lines of its stack below.
    let throws = |line: &str| {
        let line = line.strip_prefix("Uncaught ").unwrap_or(line);
        let name = line.split([':', ' ']).next().unwrap_or("");
        name.ends_with("Error") && line.len() > name.len()
    };
    let mut in_stack = false;
    let mut told = output.lines().filter(|line| !line.trim().is_empty());
    if told.next().is_some_and(|line| limits.fit(line)) {
        return true;
    }
    output.lines().rev().filter(|line| !line.trim().is_empty()).take(LAST).any(|line| {
        let has_stack = in_stack && throws(line);
        in_stack |= line.starts_with("    at ");
        has_stack
            || makes(line)
            || limits.fit(line)
            || crashes.fit(line)
            || RUNNERS.build(line.trim()) == Some(false)
    })
}

/// Whether an editor says that it did not edit, or broke down.
pub(crate) fn edit_refused(output: &str) -> bool {
    let head = beginning(output);
    let is_error = head.trim_start().lines().next().is_some_and(|first| {
        let first = first.trim_start_matches(['<', '[', '*', ' ']).to_ascii_lowercase();
        WORDS.edits.failed.fit(&first)
    });
    editor_refuses(output) || (is_error || broke(head)) && !WORDS.edits.applied.fit(output)
}

/// Whether an editor says in its own words that it did not edit, whatever else ran and broke down.
pub(crate) fn editor_refuses(output: &str) -> bool {
    let head = beginning(output);
    let Edits { applied, refused, refused_line, .. } = &WORDS.edits;
    !applied.fit(head) && (refused.fit(head) || head.lines().any(|line| refused_line.fit(line)))
}

fn beginning(output: &str) -> &str {
    &output[..output.floor_char_boundary(600)]
}

#[cfg(test)]
mod tests;
