//! Table `showcase`: the events that took most of what was needed later, with their text, for people who read.
//!
//! They are found by the scores of a finished run and replayed once more. Texts are redacted by what their whole log tells.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use anyhow::Context as _;
use rayon::prelude::*;

use crate::context::log::Log;
use crate::context::needs::Need;
use crate::context::{Block, Content, Piece, speaker};
use crate::experiment::cell::{Account, Accounts, Models, Session, Which};
use crate::experiment::{Dataset, Plan, Variant};
use crate::export::camera::Shot;
use crate::export::words::Words;
use crate::files::reach;
use crate::scores::retention::NEED_RETENTION;
use crate::store::{Row as _, ScoreValue, ShowcaseRow, TableReader, TableWriter};
use crate::strategies;
use crate::trajectory::Role;

/// Variants at most, and events of each.
const VARIANTS: usize = 12;
const EVENTS: usize = 5;
/// Reference tail of the headline, in turns, where a run has it.
const TAIL: u32 = 10;
/// Characters of a text, of one that is there as it was, and of all of an event, at most.
const LONG: usize = 1_500;
const SHORT: usize = 300;
const MOST: usize = 40_000;

/// Writes the table of a finished run, if it is not there; says how many events it shows. `raw` leaves keys and personal data as
/// they are.
///
/// # Errors
/// The scores cannot be read, the table cannot be written. A session that cannot be replayed is left out.
pub fn write(plan: &Plan, data: &Dataset, run: &Path, models: &Models, raw: bool) -> anyhow::Result<usize> {
    let path = run.join(format!("{}.parquet", ShowcaseRow::TABLE));
    if reach::is_there(&path)? {
        return Ok(0);
    }
    let tail = if plan.reference_tails.contains(&TAIL) {
        TAIL
    } else {
        plan.reference_tails.iter().copied().max().unwrap_or(0)
    };
    let variants = shown(plan)?;
    let worst = worst(&run.join(format!("{}.parquet", ScoreValue::TABLE)), &variants, tail)?;
    let index: HashMap<&str, usize> =
        data.entries().iter().enumerate().map(|(at, entry)| (entry.id.as_str(), at)).collect();
    // By session, so that each is read once: the places of the variants under which it is shown, and its rank there.
    let mut sessions: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for (place, variant) in variants.iter().enumerate() {
        for (rank, id) in worst.get(&variant.id).into_iter().flatten().enumerate() {
            if let Some(&at) = index.get(id.as_str()) {
                sessions.entry(at).or_default().push((place, rank));
            }
        }
    }
    let told: Vec<Vec<(usize, usize, Event)>> =
        sessions.into_par_iter().map(|(at, shown)| events(data, plan, at, (&shown, &variants), models, (tail, raw))).collect();
    let mut by_variant: Vec<Vec<(usize, Event)>> = variants.iter().map(|_| Vec::new()).collect();
    for (place, rank, event) in told.into_iter().flatten() {
        by_variant[place].push((rank, event));
    }
    // A file of this name is whole.
    let unfinished = path.with_extension("unfinished");
    let mut writer = TableWriter::create(&unfinished, 1 << 20)?;
    let mut n = 0;
    for mut events in by_variant {
        // Stable: among equals the session that lost more comes first.
        events.sort_by_key(|(rank, (lost, _))| (std::cmp::Reverse(*lost), *rank));
        for (_, (_, rows)) in events.into_iter().take(EVENTS) {
            n += 1;
            writer.push(rows)?;
        }
    }
    writer.finish()?;
    fs::rename(&unfinished, &path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(n)
}

/// How many needs an event lost, and its rows.
pub type Event = (usize, Vec<ShowcaseRow>);

/// The worst events of a session under these variants (each by its place, with the rank of the session there).
fn events(
    data: &Dataset,
    plan: &Plan,
    at: usize,
    (shown, variants): (&[(usize, usize)], &[&Variant]),
    models: &Models,
    (tail, raw): (u32, bool),
) -> Vec<(usize, usize, Event)> {
    let id = &data.entries()[at].id;
    let session = match Session::load(data, plan, at) {
        Ok(session) => session,
        Err(error) => {
            tracing::warn!("showcase: {id}: {error:#}");
            return Vec::new();
        }
    };
    let (mut of, mut replays) = (Vec::new(), Vec::new());
    for &(place, rank) in shown {
        let variant = variants[place];
        match session.accounts(variant, models, (Which::Worst(EVENTS), tail)) {
            Ok(told) if told.events.is_empty() => {}
            Ok(told) => {
                of.push((place, rank));
                replays.push((variant.id.as_str(), told));
            }
            Err(error) => tracing::warn!("showcase: {id} under {}: {error:#}", variant.label),
        }
    }
    of.into_iter()
        .zip(rows(&replays, raw))
        .flat_map(|((place, rank), events)| events.into_iter().map(move |event| (place, rank, event)))
        .collect()
}

/// The variants that are shown: of too many, some from all over the plan. Controls and what compresses nothing are not.
fn shown(plan: &Plan) -> anyhow::Result<Vec<&Variant>> {
    let mut all = Vec::new();
    for variant in &plan.variants {
        let is_control = match &variant.policy {
            Some(policy) => policy.is_control()?,
            None => strategies::build(&variant.strategy, variant.strategy_params.clone())?.is_control(),
        };
        if !is_control {
            all.push(variant);
        }
    }
    let n = all.len();
    Ok(if n <= VARIANTS { all } else { (0..VARIANTS).map(|i| all[i * n / VARIANTS]).collect() })
}

/// By variant, the sessions that lost most, the worst first.
fn worst(path: &Path, variants: &[&Variant], tail: u32) -> anyhow::Result<HashMap<String, Vec<String>>> {
    let stratum = format!("set=common tail={tail}");
    let mut lost: HashMap<String, Vec<(f64, String)>> =
        variants.iter().map(|variant| (variant.id.clone(), Vec::new())).collect();
    let table: TableReader<ScoreValue> = TableReader::open(path)?;
    for row_group in 0..table.row_groups().len() {
        table.scan(row_group, |rows| {
            for row in
                rows.into_iter().filter(|row| *row.metric == *NEED_RETENTION.name && *row.stratum == stratum)
            {
                let weight = row.value.map_or(0.0, |kept| (1.0 - kept) * row.weight);
                if let Some(of) = lost.get_mut(&*row.variant).filter(|_| weight > 0.0) {
                    of.push((weight, row.trajectory.to_string()));
                    if of.len() > 4 * EVENTS {
                        keep_worst(of);
                    }
                }
            }
        })?;
    }
    Ok(lost
        .into_iter()
        .map(|(variant, mut of)| {
            keep_worst(&mut of);
            (variant, of.into_iter().map(|(_, id)| id).collect())
        })
        .collect())
}

fn keep_worst(of: &mut Vec<(f64, String)>) {
    of.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    of.truncate(EVENTS);
}

/// The events of replays of one log under variants (by id) as rows.
pub fn rows(replays: &[(&str, Accounts<'_>)], raw: bool) -> Vec<Vec<Event>> {
    let Some((_, Accounts { log, .. })) = replays.first() else {
        return Vec::new();
    };
    let all: Vec<Vec<Told<'_>>> = replays
        .iter()
        .map(|(_, of)| of.events.iter().map(|account| told(log, account)).collect())
        .collect();
    let quoted = |told: &Told<'_>| {
        let lines = told.lost.iter().flat_map(|lost| [Some(&lost.line), lost.used.as_ref()]).flatten();
        let blocks = told.parts.iter().flat_map(|part| part.before.into_iter().chain(part.after.iter().copied()));
        lines.chain(blocks).cloned().collect()
    };
    // What is redacted is found once in the log, whatever stands for it under the variants.
    let words = match raw {
        true => Words::raw(log),
        false => {
            let shots: Vec<Shot> =
                all.iter().flatten().map(|told| Shot { event: None, blocks: quoted(told) }).collect();
            Words::redacted(log, &shots)
        }
    };
    let of_replay = |((variant, of), all): (&(&str, Accounts<'_>), Vec<Told<'_>>)| {
        let rows = |(told, account): (Told<'_>, &Account)| {
            (told.lost.len(), told.rows((variant, log.id()), account, log, &words))
        };
        all.into_iter().zip(&of.events).map(rows).collect()
    };
    replays.iter().zip(all).map(of_replay).collect()
}

/// A need that an event took: the line that says what it is, and that which used it.
struct Lost<'a> {
    need: &'a Need,
    line: Block,
    used: Option<Block>,
}

/// What became of a block, and what stands for it.
struct Part<'a> {
    what: &'static str,
    before: Option<&'a Block>,
    after: Vec<&'a Block>,
}

struct Told<'a> {
    lost: Vec<Lost<'a>>,
    parts: Vec<Part<'a>>,
}

fn told<'a>(log: &Log, account: &'a Account) -> Told<'a> {
    let quote = |span: u32| {
        let piece = Piece::whole(log, span);
        let step = log.spans[span as usize].step;
        let content = Content::Excerpt { step, pieces: vec![piece] };
        Block { turn: log.turn_of(step), tokens: piece.tokens, content, fresh: true, left: 0 }
    };
    let lost = |need: &'a Need| {
        let steps = log.turns[need.turn as usize].steps.clone();
        let said = steps.filter(|&step| log.trajectory.steps[step as usize].role == Role::Agent);
        let uses = said.flat_map(|step| log.mentions_of_step(step)).find(|mention| mention.atom == need.atom);
        Lost { need, line: quote(need.cheapest), used: uses.map(|mention| quote(mention.span)) }
    };
    Told {
        lost: account.lost.iter().map(lost).collect(),
        parts: parts(&account.before, &account.event.after),
    }
}

/// The blocks of a scope beside what stands for them, in the order of the prompt.
fn parts<'a>(before: &'a [Block], after: &'a [Block]) -> Vec<Part<'a>> {
    // What is no step is known by its words.
    let same = |a: &Block, b: &Block| match (a.origin(), b.origin()) {
        (Some(a), Some(b)) => a == b,
        (None, None) => a.content == b.content,
        _ => false,
    };
    let mut by_step: HashMap<u32, Vec<usize>> = HashMap::new();
    let mut made: Vec<usize> = Vec::new();
    for (at, block) in after.iter().enumerate() {
        match block.origin() {
            Some(step) => by_step.entry(step).or_default().push(at),
            None => made.push(at),
        }
    }
    let mut is_used = vec![false; after.len()];
    let found: Vec<Vec<usize>> = before
        .iter()
        .map(|block| {
            let places: Vec<usize> = match block.origin() {
                Some(step) => by_step.remove(&step).unwrap_or_default(),
                None => made
                    .iter()
                    .copied()
                    .filter(|&at| !is_used[at] && same(block, &after[at]))
                    .take(1)
                    .collect(),
            };
            places.iter().for_each(|&at| is_used[at] = true);
            places
        })
        .collect();
    let added = |at: usize| Part { what: "added", before: None, after: vec![&after[at]] };
    let (mut parts, mut next) = (Vec::with_capacity(before.len()), 0);
    for (block, places) in before.iter().zip(found) {
        if let Some(&first) = places.first() {
            parts.extend((next..first).filter(|&at| !is_used[at]).map(added));
            next = next.max(first);
        }
        let after: Vec<&Block> = places.iter().map(|&at| &after[at]).collect();
        let what = match after[..] {
            [] => "dropped",
            [one] if one.content == block.content => "kept",
            _ => "rewritten",
        };
        parts.push(Part { what, before: Some(block), after });
    }
    parts.extend((next..after.len()).filter(|&at| !is_used[at]).map(added));
    parts
}

impl Told<'_> {
    fn rows(&self, ids: (&str, &str), account: &Account, log: &Log, words: &Words<'_>) -> Vec<ShowcaseRow> {
        let (event, mut left) = (&account.event, MOST);
        let of_event = ShowcaseRow {
            variant: ids.0.into(),
            trajectory: ids.1.into(),
            event: account.number as u32,
            turn: event.turn,
            prompt_before: event.tokens_before,
            prompt_after: event.tokens_after,
            ..ShowcaseRow::default()
        };
        let mut cut = |text: String, most: usize| {
            let n = text.chars().count();
            if left == 0 {
                return None;
            }
            let most = most.min(left);
            left -= n.min(most);
            Some(match n > most {
                true => {
                    text.chars().take(most).collect::<String>()
                        + &format!("\u{2026} ({} more characters)", n - most)
                }
                false => text,
            })
        };
        let mut rows = Vec::new();
        for lost in &self.lost {
            let line = words.text(&lost.line);
            let atom = log.atom(lost.need.atom).text;
            // What is redacted in its line is no name for it.
            let is_hidden = lost.line.text(log).contains(atom) && !line.contains(atom);
            rows.push(ShowcaseRow {
                what: "lost".into(),
                speaker: word(log, &lost.line),
                at: lost.line.turn,
                needed: Some(lost.need.turn),
                atom: Some(if is_hidden { "(redacted)".to_owned() } else { atom.to_owned() }),
                text: cut(line, SHORT),
                text_after: lost.used.as_ref().and_then(|used| cut(words.text(used), SHORT)),
                ..of_event.clone()
            });
        }
        for part in &self.parts {
            let most = if part.what == "kept" { SHORT } else { LONG };
            let shown = part.before.or(part.after.first().copied());
            let after: String = part.after.iter().map(|block| words.text(block)).collect();
            rows.push(ShowcaseRow {
                what: part.what.into(),
                speaker: shown.map_or(Cow::Borrowed(""), |block| word(log, block)),
                at: shown.map_or(0, |block| block.turn),
                tokens_before: part.before.map_or(0, |block| block.tokens),
                tokens_after: part.after.iter().map(|block| block.tokens).sum(),
                text: part.before.and_then(|block| cut(words.text(block), most)),
                text_after: if matches!(part.what, "rewritten" | "added") { cut(after, LONG) } else { None },
                ..of_event.clone()
            });
        }
        (0..).zip(rows).map(|(row, of)| ShowcaseRow { row, ..of }).collect()
    }
}

/// Who says a block, in one word.
fn word(log: &Log, block: &Block) -> Cow<'static, str> {
    match block.origin() {
        Some(step) => speaker(log, step).trim_end_matches(": ").into(),
        None => "Compressor".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(turn: u32, content: Content) -> Block {
        Block { turn, tokens: 1, content, fresh: true, left: 0 }
    }

    #[test]
    fn blocks_stand_beside_what_took_their_place() {
        let step = |n| block(n, Content::Step(n));
        let made = |text: &str| block(9, Content::Generated { text: text.to_owned() });
        let masked = |n| block(n, Content::Placeholder { step: n, text: "(gone)".to_owned() });
        let before = [made("old"), step(1), step(2), step(3), made("stays")];
        let after = [made("new"), step(1), masked(3), made("stays"), made("last")];
        let told: Vec<(&str, usize)> =
            parts(&before, &after).iter().map(|part| (part.what, part.after.len())).collect();
        let expected = [
            ("dropped", 0),
            ("added", 1),
            ("kept", 1),
            ("dropped", 0),
            ("rewritten", 1),
            ("kept", 1),
            ("added", 1),
        ];
        assert_eq!(told, expected);
        assert!(parts(&[], &[]).is_empty());
    }

    #[test]
    fn the_worst_sessions_come_first() {
        let mut of: Vec<(f64, String)> = (0..8).map(|n| (f64::from(n % 4), format!("{n}"))).collect();
        keep_worst(&mut of);
        let ids: Vec<&str> = of.iter().map(|(_, id)| id.as_str()).collect();
        assert_eq!(ids, ["3", "7", "2", "6", "1"]);
    }
}
