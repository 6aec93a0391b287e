//! Scores of one's own: a program, in any language, is shown an event and gives a value.
//!
//! It sees the prompt before the event and after it, with what was recalled there, and all that came later, after each of
//! the events that other scores look at ([`super::points`]): the first four, then those whose number is a power of two. A run's value is the
//! mean of its events', weighted as the program says. An event of which it gives no usable value has none, and is counted.
//! Logs that were compacted themselves have no such scores. Name, version and a hash of the program are the score's name:
//! another program is another score. Source: ours; docs/own.md has the protocol.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::points::{Past, is_point, whole};
use super::registry::{About, Better, Entry, stratum};
use super::{Rows, find, ratio};
use crate::context::Block;
use crate::context::log::Log;
use crate::programs;
use crate::programs::messages::{goal, message};
use crate::programs::process::Spec;
use crate::replay::{Run, rng};
use crate::trajectory::Kind;

pub const UNSCORED_SHARE: Entry = Entry {
    name: "unscored_share",
    summary: "Share of the events that a scoring program gave no usable value for: late, dead, not in form, out of its range",
    formula: "events without an answer / events that the program was asked of",
    better: Better::Lower,
    strata: &["program"],
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[UNSCORED_SHARE];

/// Bytes of texts that a request has at most: more is not asked, and counts as unscored.
const LARGEST: usize = 64 << 20;

/// Values and weights at most: sums of larger ones would be no numbers.
const MOST: f64 = 1e15;

/// A program that scores, as an experiment names it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Own {
    command: Vec<String>,
    #[serde(default)]
    files: Vec<String>,
    #[serde(default)]
    params: toml::Table,
    #[serde(default = "minute")]
    timeout: f64,
    #[serde(default)]
    start_timeout: f64,
    /// What it says of itself: found out where an experiment is read.
    #[serde(skip_deserializing)]
    pub about: About,
}

fn minute() -> f64 {
    60.0
}

impl Own {
    fn spec(&self) -> anyhow::Result<Spec> {
        programs::spec(&self.command, &self.files, [self.timeout, self.start_timeout])
    }

    /// Starts the program, and notes what it says of itself.
    fn greet(&self) -> anyhow::Result<About> {
        let (program, hello) = programs::greet(&self.spec()?)?;
        anyhow::ensure!(find(&hello.name).is_none(), "`{}` is the name of a score of trajpress", hello.name);
        let (Some(better), Some(range), Some(unit)) = (hello.better, hello.range, hello.unit) else {
            anyhow::bail!(
                "{program} does not say what its values are\nhint: its greeting is to have `better`, `range` and `unit`"
            );
        };
        let all = [Better::Higher, Better::Lower, Better::Neither].map(Better::name);
        anyhow::ensure!(
            all.contains(&&*better),
            "{program}: `better` is `{better}`, expected {}",
            all.join(", ")
        );
        let is_range = !matches!(range, [Some(low), Some(high)] if low >= high);
        anyhow::ensure!(is_range, "{program}: `range` ends before it begins");
        let is_word =
            !unit.trim().is_empty() && unit.chars().count() <= 40 && !unit.contains(char::is_control);
        anyhow::ensure!(is_word, "{program}: `unit` is to be a word, of at most 40 characters");
        let params = if self.params.is_empty() { String::new() } else { format!(" {}", json!(self.params)) };
        Ok(About { name: program.clone() + &params, program, better, range, unit })
    }
}

/// Starts all programs, and notes what they say of themselves.
///
/// # Errors
/// One does not start, does not say what its values are, or is there twice.
pub fn pin(all: &mut [Own]) -> anyhow::Result<()> {
    for at in 0..all.len() {
        let own = &all[at];
        let about = own.greet().with_context(|| format!("score `{}`", own.command.join(" ")))?;
        let is_new = all[..at].iter().all(|before| before.about.name != about.name);
        anyhow::ensure!(is_new, "the score `{}` is there twice", about.name);
        all[at].about = about;
    }
    Ok(())
}

/// The values of the events of a run, summed up.
#[derive(Default)]
struct Sums {
    value: f64,
    weight: f64,
    n: u64,
    asked: u64,
    failed: u64,
    /// Events in a row without a usable answer.
    in_a_row: u32,
}

/// Scores a replay by all programs.
///
/// # Errors
/// One is another one than when the experiment was read.
pub fn score(log: &Log, run: &Run, all: &[Own], seed: u64, rows: &mut Rows) -> anyhow::Result<()> {
    if all.is_empty() || log.n_segments > 1 {
        return Ok(());
    }
    let mut sums: Vec<Sums> = all.iter().map(|_| Sums::default()).collect();
    let mut past = Past::new(log);
    for (number, event) in (1..).zip(&run.events) {
        if !is_point(number) {
            past.pass(event);
            continue;
        }
        let until = log.turns[event.turn as usize].decision.unwrap_or(0);
        let before = past.context(until);
        past.pass(event);
        let mut after = past.context(until);
        let recalled = run.recalled_for(event.decision).into_iter().flat_map(|recall| &recall.blocks);
        after.extend(recalled.map(Cow::Borrowed));
        let later = (until..log.n_steps() as u32).filter(|&step| log.kind(step) != Kind::Tools);
        let later: Vec<Cow<'_, Block>> = later.map(|step| Cow::Owned(whole(log, step))).collect();
        let seed: u32 = rand::RngExt::random(&mut rng(seed, "own score", log.id(), number as u64, 0));
        let shown = Shown::of(log, event.turn, [&before, &after, &later], seed);
        for (own, sums) in all.iter().zip(&mut sums) {
            sums.asked += 1;
            let is_asked = sums.in_a_row < programs::GIVEN_UP;
            let Some((value, weight)) = is_asked.then(|| ask(own, shown.as_ref())).transpose()?.flatten()
            else {
                (sums.failed, sums.in_a_row) = (sums.failed + 1, sums.in_a_row + 1);
                if sums.in_a_row == programs::GIVEN_UP {
                    let name = programs::shown(&own.spec()?);
                    tracing::warn!(
                        "{name} is asked no more in session {}: {} events in a row",
                        log.id(),
                        sums.in_a_row
                    );
                }
                continue;
            };
            sums.in_a_row = 0;
            let row = rows.push_as(own.about.name.clone().into(), "".into(), value, weight, 1);
            row.event = Some(number as u32 - 1);
            if let Some(value) = value {
                sums.value += value * weight;
                sums.weight += weight;
                sums.n += 1;
            }
        }
    }
    for (own, sums) in all.iter().zip(sums).filter(|(_, sums)| sums.asked > 0) {
        let name = &own.about.name;
        rows.push_as(name.clone().into(), "".into(), ratio(sums.value, sums.weight), sums.weight, sums.n);
        let asked = sums.asked as f64;
        rows.push(&UNSCORED_SHARE, stratum(name), ratio(sums.failed as f64, asked), asked, sums.asked);
    }
    Ok(())
}

/// What a program is shown of an event.
struct Shown {
    request: Value,
}

impl Shown {
    /// None where that is too large.
    fn of(log: &Log, turn: u32, contexts: [&[Cow<'_, Block>]; 3], seed: u32) -> Option<Self> {
        let bytes = contexts.iter().flat_map(|blocks| blocks.iter()).map(|block| block.text(log).len());
        if bytes.sum::<usize>() > LARGEST {
            tracing::warn!("{}: an event is larger than {} MB, and is not scored", log.id(), LARGEST >> 20);
            return None;
        }
        let messages = |blocks: &[Cow<'_, Block>]| -> Value {
            (0usize..).zip(blocks).map(|(id, block)| message(log, id, block)).collect()
        };
        let [before, after, later] = contexts.map(messages);
        let goal = goal(log, turn);
        Some(Shown {
            request: json!({
                "turn": turn, "goal": goal, "seed": seed, "before": before, "after": after, "later": later,
            }),
        })
    }
}

/// The value (null is undefined) and its weight; none where there is no usable answer.
fn ask(own: &Own, shown: Option<&Shown>) -> anyhow::Result<Option<(Option<f64>, f64)>> {
    let Some(shown) = shown else { return Ok(None) };
    let spec = own.spec()?;
    let request = |number| {
        let mut request = shown.request.clone();
        request["event"] = json!(number);
        request["params"] = json!(own.params);
        request
    };
    let read = |line: &str, number| read(line, number, own.about.range);
    let answer = programs::ask(&spec, &own.about.program, request, read)?;
    // That it was given up has been told, and holds for all events from there on.
    if let Err(failure) = &answer
        && !failure.is_given_up()
    {
        programs::warn(&spec, &format!("an event has no value: {failure}"));
    }
    Ok(answer.ok())
}

/// `{"event", "value", "weight"}`: a number in the range or null, and how much it counts, 1 if it is not said.
fn read(line: &str, number: u64, [low, high]: [Option<f64>; 2]) -> Result<(Option<f64>, f64), String> {
    let answer: Value = programs::parsed(line)?;
    if answer["event"].as_u64() != Some(number) {
        return Err(format!("it answers event {}, asked was {number}", answer["event"]));
    }
    let value = match answer.get("value") {
        None => return Err("it has no `value`".to_owned()),
        Some(Value::Null) => None,
        Some(value) => Some(value.as_f64().ok_or("its `value` is no number")?),
    };
    let (low, high) = (low.unwrap_or(-MOST), high.unwrap_or(MOST));
    let is_in = |value: f64| (low.max(-MOST)..=high.min(MOST)).contains(&value);
    if value.is_some_and(|value| !is_in(value)) {
        return Err("its `value` is outside of its range".to_owned());
    }
    let weight = match answer.get("weight") {
        None | Some(Value::Null) => Some(1.0),
        Some(weight) => weight.as_f64(),
    };
    let weight = weight.filter(|weight| (0.0..=MOST).contains(weight));
    let weight = weight.ok_or("its `weight` is no number from 0 to 1e15")?;
    Ok((value, weight))
}
