//! Programs of one's own, in any language: asked on their standard input, a line of JSON at a time.
//!
//! Strategies and scores share this: how a program is started, asked and killed ([`process`]), which one it is, and how a context
//! looks to it ([`messages`]). Source: ours; docs/own.md has the protocol.

pub mod messages;
pub mod process;

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use serde_json::Value;

use process::{Failure, Hello, Spec};

/// Answers in a row that could not be used, by program.
static FAILED: LazyLock<Mutex<HashMap<Spec, u32>>> = LazyLock::new(Mutex::default);
/// Of so many it is given up: more would each take as long as it is waited for.
const GIVEN_UP: u32 = 5;

/// A program as a user names it.
///
/// # Errors
/// It cannot be one.
pub fn spec(command: &[String], files: &[String], timeout: f64) -> anyhow::Result<Spec> {
    anyhow::ensure!(!command.is_empty(), "no program\nhint: add `command = [\"python3\", \"my.py\"]`");
    check(timeout)?;
    let timeout = Duration::from_secs_f64(timeout);
    Ok(Spec { command: command.to_vec(), files: files.to_vec(), timeout })
}

/// # Errors
/// Nobody waits so many seconds for an answer.
pub fn check(timeout: f64) -> anyhow::Result<()> {
    anyhow::ensure!(
        timeout > 0.0 && timeout <= 86400.0,
        "parameter `timeout` must be above 0 and at most a day"
    );
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
    process::put(spec, process);
    Ok(told)
}

/// Asks a program that was `program` when the experiment was read (empty: whatever it is); what it answers, or why that
/// cannot be used.
///
/// # Errors
/// It is given up, or is another one now.
pub fn ask<T>(
    spec: &Spec,
    program: &str,
    request: impl FnOnce(u64) -> Value,
    read: impl FnOnce(&str, u64) -> Result<T, String>,
) -> anyhow::Result<Result<T, Failure>> {
    let failed = |change: &dyn Fn(u32) -> u32| {
        let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
        let n = failed.entry(spec.clone()).or_default();
        *n = change(*n);
        *n
    };
    anyhow::ensure!(
        failed(&|n| n) < GIVEN_UP,
        "{} was given up: {GIVEN_UP} answers in a row could not be used",
        shown(spec)
    );
    let answer = once(spec, program, request, read)?;
    failed(&|n| if answer.is_ok() { 0 } else { n + 1 });
    Ok(answer)
}

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
        "{} has changed: it is {now} now, and was {program} when the experiment was read\nhint: start the run again",
        shown(spec),
    );
    let number = process.next_number();
    Ok(process.ask(&request(number), spec.timeout).and_then(|line| {
        let answer = read(&line, number).map_err(|why| process.unusable(&line, &why))?;
        process::put(spec, process);
        Ok(answer)
    }))
}

/// How a program is called in messages.
pub fn shown(spec: &Spec) -> String {
    format!("program `{}`", spec.command.join(" "))
}
