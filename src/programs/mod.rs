//! Programs of one's own, in any language: asked on their standard input, a line of JSON at a time.
//!
//! Strategies and scores share this: how a program is started, asked and killed ([`process`]), which one it is, how a context
//! looks to it ([`messages`]), and what it has answered ([`memo`]). Source: ours; docs/own.md has the protocol.

mod files;
pub mod memo;
pub mod messages;
pub mod process;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Display;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use regex::{Captures, Regex};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::Value;

use process::{Failure, Hello, Spec};

/// Times in a row that it was waited for in vain, by program, and what the last was.
static LATE: LazyLock<Mutex<HashMap<Spec, (u32, String)>>> = LazyLock::new(Mutex::default);
/// After so many answers in a row that cannot be used a program is given up: in one session where it answers wrongly, so that what
/// other sessions have of it does not depend on their order; in the whole run where it is waited for.
pub const GIVEN_UP: u32 = 5;

/// A program as a user names it; a second number of seconds that is 0 follows from the first.
///
/// # Errors
/// It cannot be one.
pub fn spec(command: &[String], files: &[String], seconds: [f64; 2]) -> anyhow::Result<Spec> {
    anyhow::ensure!(!command.is_empty(), "no program\nhint: add `command = [\"python3\", \"my.py\"]`");
    check(seconds)?;
    let [timeout, start] = seconds;
    let start = if start == 0.0 { timeout.max(60.0) } else { start };
    let [timeout, start_timeout] = [timeout, start].map(Duration::from_secs_f64);
    Ok(Spec { command: command.to_vec(), files: files.to_vec(), timeout, start_timeout })
}

/// # Errors
/// Nobody waits so many seconds for an answer, or for a start.
pub fn check([timeout, start]: [f64; 2]) -> anyhow::Result<()> {
    let day = 86400.0;
    anyhow::ensure!(timeout > 0.0 && timeout <= day, "parameter `timeout` must be above 0 and at most a day");
    anyhow::ensure!((0.0..=day).contains(&start), "parameter `start_timeout` must be from 0 to a day");
    Ok(())
}

/// Starts a program; gives its name, version and hash, and what it says of itself.
///
/// # Errors
/// It does not start.
pub fn greet(spec: &Spec) -> anyhow::Result<(String, Hello)> {
    let process =
        process::take(spec).map_err(|failure| anyhow::anyhow!("the program does not start: {failure}"))?;
    let told = (process.program.clone(), process.hello.clone());
    static WARNED: LazyLock<Mutex<HashSet<Spec>>> = LazyLock::new(Mutex::default);
    if let Some(warning) = process.warning(spec)
        && WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(spec.clone())
    {
        tracing::warn!("{}: {warning}", shown(spec));
    }
    process::put(spec, process);
    Ok(told)
}

/// Asks a program that was `program` when the experiment was read (empty: whatever it is); what it answers, or why that
/// cannot be used.
///
/// # Errors
/// It is another one now.
pub fn ask<T>(
    spec: &Spec,
    program: &str,
    request: impl FnOnce(u64) -> Value,
    read: impl FnOnce(&str, u64) -> Result<T, String>,
) -> anyhow::Result<Result<T, Failure>> {
    if let Some((GIVEN_UP, last)) = LATE.lock().unwrap_or_else(PoisonError::into_inner).get(spec) {
        return Ok(Err(given_up(last)));
    }
    let answer = once(spec, program, request, read)?;
    let mut late = LATE.lock().unwrap_or_else(PoisonError::into_inner);
    let (n, last) = late.entry(spec.clone()).or_default();
    match &answer {
        // Once given up it stays so, whatever another thread still gets of it.
        _ if *n == GIVEN_UP => {}
        Ok(_) => *n = 0,
        Err(failure) if !failure.is_late() => {}
        Err(failure) => {
            (*n, *last) = (*n + 1, failure.to_string());
            if *n == GIVEN_UP {
                tracing::warn!("{} is given up: {}", shown(spec), why(last));
            }
        }
    }
    Ok(answer)
}

/// What there is in the place of an answer of one that is asked no more.
pub fn given_up(last: impl Display) -> Failure {
    Failure::given_up(why(last))
}

fn why(last: impl Display) -> String {
    format!("{GIVEN_UP} answers in a row could not be used; the last: {last}")
}

/// Whether the error of a cell is one of a program that may be mended by now.
pub fn may_pass(error: &str) -> bool {
    error.contains(process::WAS_GIVEN_UP) || error.contains(HAS_CHANGED)
}

const HAS_CHANGED: &str = "has changed: it is";

fn once<T>(
    spec: &Spec,
    program: &str,
    request: impl FnOnce(u64) -> Value,
    read: impl FnOnce(&str, u64) -> Result<T, String>,
) -> anyhow::Result<Result<T, Failure>> {
    let mut process = match process::take(spec) {
        Ok(process) => process,
        Err(failure) => return Ok(Err(failure)),
    };
    let now = process.now(spec).context("the files of the program cannot be read any more")?;
    anyhow::ensure!(
        program.is_empty() || now == program,
        "{} {HAS_CHANGED} {now} now, and was {program} when the experiment was read\nhint: start the run again with `--replace`, which takes over what it does not change, or `--fresh`",
        shown(spec),
    );
    let number = process.next_number();
    Ok(process.ask(&request(number), spec.timeout).and_then(|line| {
        let answer = read(&line, number).map_err(|why| process.unusable(&line, &why))?;
        process::put(spec, process);
        Ok(answer)
    }))
}

/// A line of a program as JSON, or why it is none.
pub fn parsed<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    let read = |line: &str| serde_json::from_str(line);
    // JavaScript writes half of an emoji as it cuts it; bytes that are no UTF-8 are read likewise.
    let read = read(line).or_else(|error| match SURROGATE.is_match(line) {
        true => read(&whole_characters(line)),
        false => Err(error),
    });
    read.map_err(|error| {
        let is_json = |line: &str| serde_json::from_str::<IgnoredAny>(line).is_ok();
        let finite = line.replace("NaN", "0").replace("Infinity", "0");
        match !is_json(line) && is_json(&finite) {
            true => "`NaN` and `Infinity` are no numbers in JSON".to_owned(),
            false => format!("it is no answer ({error})"),
        }
    })
}

/// Two halves of a character, or one without the other, or another escape.
static SURROGATE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|\\u[dD][89a-fA-F][0-9a-fA-F]{2}|(\\.)",
    )
    .expect("a valid regex")
});

/// JSON in which U+FFFD stands for half a character.
fn whole_characters(line: &str) -> String {
    let half = |found: &Captures<'_>| match found.get(1).or(found.get(2)) {
        Some(whole) => whole.as_str().to_owned(),
        None => r"\ufffd".to_owned(),
    };
    SURROGATE.replace_all(line, half).into_owned()
}

/// Times that a program is warned of; what comes then is counted.
const TOLD: u64 = 3;
static WARNINGS: LazyLock<Mutex<BTreeMap<String, u64>>> = LazyLock::new(Mutex::default);

/// Warns of a program, as often as somebody reads it.
pub fn warn(spec: &Spec, what: &str) {
    let mut warnings = WARNINGS.lock().unwrap_or_else(PoisonError::into_inner);
    let n = warnings.entry(shown(spec)).or_default();
    *n += 1;
    if *n <= TOLD {
        tracing::warn!("{}: {what}", shown(spec));
    }
}

/// Ends all programs, and tells of how many warnings nobody has heard.
pub fn end() {
    process::end();
    let warnings = std::mem::take(&mut *WARNINGS.lock().unwrap_or_else(PoisonError::into_inner));
    for (shown, n) in warnings.into_iter().filter(|(_, n)| *n > TOLD) {
        tracing::warn!("{shown}: {} warnings more like these", n - TOLD);
    }
}

/// How a program is called in messages.
pub fn shown(spec: &Spec) -> String {
    format!("program `{}`", spec.command.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wrong_with_an_answer_is_told() {
        let why = |line: &str| parsed::<HashMap<String, u32>>(line).unwrap_err();
        assert!(why(r#"{"a": "b"}"#).contains("invalid type: string"), "{}", why(r#"{"a": "b"}"#));
        assert!(why("[1]").contains("invalid type: sequence"));
        assert!(why(r#"{"a": NaN}"#).contains("no numbers in JSON"));
        assert!(why(r#"{"a": "NaN"}"#).contains("invalid type: string"));
        assert!(why("{").contains("EOF"));
    }

    #[test]
    fn half_a_character_is_none() {
        let text = |line: &str| parsed::<String>(line).unwrap();
        assert_eq!(text(r#""a\ud83d""#), "a\u{fffd}");
        assert_eq!(text(r#""\ud83d\ude00 \ude00 \\ud83d""#), "\u{1f600} \u{fffd} \\ud83d");
    }
}
