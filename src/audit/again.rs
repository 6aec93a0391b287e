//! Files that were read again, though nothing had changed them: their content had been taken from the prompt. A file is often
//! read in pieces, so each line is looked for in what was read of that file before.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;

use crate::context::log::Log;
use crate::scores::money::Tariff;
use crate::store::FeatureRow;
use crate::text::runs::hash;
use crate::turns::actions::ActionKind;

/// Fewer tokens are messages rather than content.
const LEAST: u64 = 30;
/// So many lines at either end may say where a piece stands in its file.
const NOTICE: usize = 2;

/// A file that was read again.
#[derive(Clone)]
pub struct Again {
    pub path: String,
    /// The turn that had read most of it, and the one that read the same again.
    pub before: u32,
    pub turn: u32,
    /// Tokens of the call, and of what the result says again.
    pub tokens: u64,
    /// What writing the one and reading the other anew cost, in price x tokens.
    pub cost: f64,
}

/// The calls of a session that read a file with their results, and those that edited one, in order.
pub(super) struct Reads {
    /// By call.
    reads: Vec<Read>,
    /// By path.
    edits: HashMap<String, Vec<u32>>,
}

struct Read {
    call: u32,
    result: u32,
    path: String,
    /// Of each line that is not empty its bytes, and the newest read of that file before this one that has the line.
    lines: Vec<(usize, Option<usize>)>,
}

/// The path as the call has it where that holds spaces: `me.py` of `read me.py` may be another file.
fn whole(arguments: Option<&str>, path: String) -> String {
    let arguments = arguments.filter(|text| text.contains(&format!(" {path}\"")));
    let parsed = arguments.and_then(|text| serde_json::from_str::<serde_json::Value>(text).ok());
    let mut values = parsed.iter().filter_map(serde_json::Value::as_object).flat_map(|of| of.values());
    let found = values.find_map(|value| value.as_str().filter(|value| value.ends_with(&format!(" {path}"))));
    found.map_or(path, str::to_owned)
}

impl Reads {
    pub(super) fn of(
        log: &Log,
        features: impl Iterator<Item = anyhow::Result<FeatureRow>>,
    ) -> anyhow::Result<Self> {
        let paths = features.map(|row| Ok(row?.path)).collect::<anyhow::Result<Vec<Option<String>>>>()?;
        let of = |step: u32, kind| {
            let is_kind = log.action_kinds[step as usize] == Some(kind);
            let path = paths.get(step as usize).cloned().flatten().filter(|_| is_kind);
            path.map(|path| whole(log.trajectory.steps[step as usize].arguments.as_deref(), path))
        };
        let mut all = Reads { reads: Vec::new(), edits: HashMap::new() };
        for step in 0..log.n_steps() as u32 {
            if let Some(path) = of(step, ActionKind::EditFile) {
                all.edits.entry(path).or_default().push(step);
            }
            let result = &log.trajectory.steps[step as usize];
            if result.is_error == Some(true) || u64::from(log.tokens[step as usize]) < LEAST {
                continue;
            }
            let Some(call) = log.call_of(step) else { continue };
            let Some(path) = of(call, ActionKind::ReadFile) else { continue };
            all.reads.push(Read { call, result: step, path, lines: Vec::new() });
        }
        all.reads.sort_by_key(|read| read.call);
        // Of each line of a file the newest read that has it, and the one before that.
        let mut newest: HashMap<&str, HashMap<u64, (usize, Option<usize>)>> = HashMap::new();
        for (at, Read { result, path, lines, .. }) in all.reads.iter_mut().enumerate() {
            let newest = newest.entry(path).or_default();
            let text = log.trajectory.steps[*result as usize].text.lines();
            for line in text.map(str::trim).filter(|line| !line.is_empty()) {
                let known = newest.entry(hash(line)).or_insert((at, None));
                if known.0 < at {
                    *known = (at, Some(known.0));
                }
                lines.push((line.len(), known.1));
            }
        }
        Ok(all)
    }

    /// What the calls among `steps` read again of what `is_gone`: lines of the same file, no edit of it in between, and next to
    /// nothing that had not been read before.
    pub(super) fn again(
        &self,
        log: &Log,
        tariff: &Tariff,
        steps: Range<u32>,
        is_gone: &dyn Fn(u32) -> bool,
    ) -> Vec<Again> {
        let from = self.reads.partition_point(|read| read.call < steps.start);
        let of_steps = self.reads[from..].iter().take_while(|read| read.call < steps.end);
        let mut bill = Bill::default();
        let found = of_steps.filter_map(|read| {
            let (mut again, result) = self.of_gone(log, read, from, is_gone)?;
            let (turn, call) = (again.turn, again.tokens - result);
            let (prices, rate) = (tariff.at(turn), log.rate(turn));
            let [call, result] =
                [call, result].map(|tokens| rate.map_or(tokens as f64, |rate| rate.counted(tokens)));
            let prompt = log.usage(turn).map_or(0.0, |usage| usage.input as f64);
            let [to_cache, fresh] = bill.read(log, turn, result);
            again.cost = prices.answer(prompt, call)
                + prices.prompt(prompt, to_cache, 0.0)
                + prices.times(prompt).0 * prices.fresh * fresh;
            Some(again)
        });
        found.collect()
    }

    /// What a read says again of what is gone, not priced yet, with the tokens of its result.
    fn of_gone(
        &self,
        log: &Log,
        read: &Read,
        from: usize,
        is_gone: &dyn Fn(u32) -> bool,
    ) -> Option<(Again, u64)> {
        let n = read.lines.len();
        let is_end = |at: usize| at < NOTICE || at + NOTICE >= n;
        let mut is_new = read.lines.iter().enumerate().filter(|(_, (_, before))| before.is_none());
        let n_new = is_new.clone().count();
        if 4 * n_new > n || !is_new.all(|(at, _)| is_end(at)) {
            return None;
        }
        let (mut again, mut all) = (0, 0);
        // By result, in order.
        let mut gone: BTreeMap<u32, usize> = BTreeMap::new();
        for (bytes, before) in &read.lines {
            all += bytes;
            // What was read since, or still stands, would have been enough.
            let Some(before) = before.filter(|before| *before < from) else { continue };
            let result = self.reads[before].result;
            if is_gone(result) {
                again += bytes;
                *gone.entry(result).or_default() += bytes;
            }
        }
        let (first, most) = (gone.keys().next()?, gone.iter().max_by_key(|(_, bytes)| **bytes)?.0);
        let result = u64::from(log.tokens[read.result as usize]) * again as u64 / all.max(1) as u64;
        let edits = self.edits.get(&read.path).map_or(&[][..], Vec::as_slice);
        let next = edits.partition_point(|edit| edit < first);
        if result < LEAST || edits.get(next).is_some_and(|edit| *edit < read.call) {
            return None;
        }
        let (turn, call) = (log.turn_of(read.call), u64::from(log.tokens[read.call as usize]));
        let before = log.turn_of(*most);
        Some((Again { path: read.path.clone(), before, turn, tokens: call + result, cost: 0.0 }, result))
    }
}

/// What the provider counted as new in the prompts behind turns, written to the cache and not, as far as nothing was charged to it
/// yet: tokens of ours are a guess of its, and no read cost more than that. (Of replies some logs count the first piece alone.)
#[derive(Default)]
struct Bill(HashMap<u32, [f64; 2]>);

impl Bill {
    /// At most what is left of that.
    fn read(&mut self, log: &Log, turn: u32, tokens: f64) -> [f64; 2] {
        let next = (turn + 1..log.turns.len() as u32).find_map(|turn| log.usage(turn));
        let new = next.and_then(|usage| Some((usage, usage.input.saturating_sub(usage.cache_read?))));
        let Some((usage, new)) = new else { return [tokens, 0.0] };
        let to_cache = usage.cache_write.unwrap_or(new).min(new);
        let left = self.0.entry(turn).or_insert([to_cache as f64, (new - to_cache) as f64]);
        let first = take(&mut left[0], tokens);
        [first, take(&mut left[1], tokens - first)]
    }
}

/// Takes so much of what is left, or all of it.
fn take(left: &mut f64, tokens: f64) -> f64 {
    let taken = tokens.min(*left);
    *left -= taken;
    taken
}
