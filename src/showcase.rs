//! Table `showcase`: the events that took most of what was needed later, with their text, for people who read.
//!
//! They are found by the scores of a finished run and replayed once more. Texts are redacted by what their whole log tells.
//! What a variant shows of a session stands in RUN/parts/showcase under a hash of all that decides it, and is taken over by the next
//! run there.

use std::borrow::{Borrow, Cow};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rayon::prelude::*;

use crate::context::log::Log;
use crate::context::needs::Need;
use crate::context::{Block, Content, Piece, speaker};
use crate::experiment::cell::{Account, Models, Shelf, Which, accounts};
use crate::experiment::{Contents, Dataset, Plan, Variant};
use crate::export::camera::Shot;
use crate::export::words::{Searched, Words};
use crate::files::{reach, seal};
use crate::scores::retention::NEED_RETENTION;
use crate::store::{self, Row as _, ScoreValue, ShowcaseRow, TableWriter, TrajectoryKey};
use crate::strategies;
use crate::trajectory::Role;

/// Raised when other events are shown of the same replays, or their texts are cut or redacted in another way.
const VERSION: u32 = 3;
/// Variants at most, events of each, sessions that are replayed for them at most, and other formats of log that add their worst event.
const VARIANTS: usize = 12;
const EVENTS: usize = 5;
const SESSIONS: usize = 40;
const FORMATS: usize = 3;
/// Sessions that are replayed whatever they cost, and the part of all steps of the data up to which others are.
const CHEAP: usize = 5;
const PART: u64 = 50;
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
pub fn write(
    (data, plan, shelf): (&Dataset, &Plan, &Shelf),
    run: &Path,
    models: &Models,
    raw: bool,
) -> anyhow::Result<usize> {
    let path = run.join(format!("{}.parquet", ShowcaseRow::TABLE));
    if reach::is_there(&path)? {
        return Ok(0);
    }
    let tail = tail(plan);
    let variants = shown(plan)?;
    let formats: HashMap<String, String> =
        store::read::<TrajectoryKey>(&run.join(format!("{}.parquet", TrajectoryKey::TABLE)))?
            .into_iter()
            .map(|row| (row.trajectory, row.format))
            .collect();
    let worst = worst(&run.join(format!("{}.parquet", ScoreValue::TABLE)), &variants, tail, &formats)?;
    let index: HashMap<&str, usize> =
        data.entries().iter().enumerate().map(|(at, entry)| (entry.id.as_str(), at)).collect();
    let sessions = |variant: &Variant| -> Vec<Session> {
        let worst = worst.get(&variant.id).into_iter().flatten();
        let session = |of: &Lossy| {
            let format = formats.get(&of.1).map_or("", String::as_str);
            let index = *index.get(of.1.as_str())?;
            Some(Session { lost: of.0, index, format, n_steps: data.entries()[index].n_steps.into() })
        };
        worst.filter_map(session).collect()
    };
    let replayed: Vec<usize> = variants.iter().flat_map(|v| sessions(v)).map(|of| of.index).collect();
    let contents = Contents::new(plan, data, &replayed)?;
    let parts = run.join("parts").join(ShowcaseRow::TABLE);
    fs::create_dir_all(&parts).with_context(|| format!("cannot make {}", parts.display()))?;
    let redact = (!raw).then(Searched::default);
    let maker = Maker { all: (data, plan, shelf), contents: &contents, models, parts: &parts, tail, redact };
    let events = |variant: &&Variant| maker.events(variant, &sessions(variant));
    let told: Vec<Shown> = variants.par_iter().map(events).collect::<anyhow::Result<_>>()?;
    let n = write_table(&path, told.iter().flat_map(|of| of.events.iter().cloned()))?;
    seal::write(&path)?;
    let shown: HashSet<&PathBuf> = told.iter().flat_map(|of| &of.parts).collect();
    for old in fs::read_dir(&parts)?.filter_map(Result::ok).map(|entry| entry.path()) {
        if !shown.contains(&old) {
            let _ = fs::remove_file(old);
        }
    }
    Ok(n)
}

fn key(row: &ShowcaseRow) -> (&str, u32) {
    (&row.trajectory, row.event)
}

/// Writes events to a file, which is whole once it has its name; says how many.
fn write_table(path: &Path, events: impl Iterator<Item = Vec<ShowcaseRow>>) -> anyhow::Result<usize> {
    let unfinished = path.with_extension(format!("{}.unfinished", std::process::id()));
    let mut writer = TableWriter::create(&unfinished, 1 << 20)?;
    let mut n = 0;
    for rows in events {
        n += 1;
        writer.push(rows)?;
    }
    writer.finish()?;
    fs::rename(&unfinished, path).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(n)
}

/// Reference tail of the headline: needs count that were last mentioned over so many turns before.
pub fn tail(plan: &Plan) -> u32 {
    match plan.reference_tails.contains(&TAIL) {
        true => TAIL,
        false => plan.reference_tails.iter().copied().max().unwrap_or(0),
    }
}

/// A session under a variant, and how many needs it lost.
struct Session<'a> {
    lost: u64,
    index: usize,
    format: &'a str,
    n_steps: u64,
}

/// What the events of a variant are made with.
struct Maker<'a> {
    all: (&'a Dataset, &'a Plan, &'a Shelf),
    contents: &'a Contents,
    models: &'a Models,
    /// Where each session's events stay for the next run.
    parts: &'a Path,
    tail: u32,
    /// What keys were looked for in; none where they stay. Variants lose most in the same sessions.
    redact: Option<Searched>,
}

/// The events of a variant as rows, and the parts that they came from.
struct Shown {
    events: Vec<Vec<ShowcaseRow>>,
    parts: Vec<PathBuf>,
}

impl Maker<'_> {
    /// The events of a variant that are shown. A session that cannot be replayed has none.
    fn events(&self, variant: &Variant, sessions: &[Session]) -> anyhow::Result<Shown> {
        let mut parts = Vec::new();
        let replay = |session: &Session| match self.session(session, variant) {
            Ok((path, events)) => {
                parts.push(path);
                events
            }
            Err(error) => {
                let id = &self.all.0.entries()[session.index].id;
                tracing::warn!("showcase: {id} under {}: {error:#}", variant.label);
                Vec::new()
            }
        };
        let n_lost = |rows: &Vec<ShowcaseRow>| rows.iter().filter(|row| row.what == "lost").count();
        let all: u64 = self.all.0.entries().iter().map(|entry| u64::from(entry.n_steps)).sum();
        let events = worst_events(sessions, all / PART, replay, n_lost);
        Ok(Shown { events, parts })
    }

    /// The worst events of one session, of an earlier run where it has them, and the part that keeps them.
    fn session(&self, of: &Session, variant: &Variant) -> anyhow::Result<(PathBuf, Vec<Vec<ShowcaseRow>>)> {
        let (version, cell) = (env!("CARGO_PKG_VERSION"), self.contents.cell(of.index, variant));
        let about =
            format!("{VERSION} {version} {} {} {} {cell}", self.tail, self.redact.is_none(), variant.id);
        let name = &blake3::hash(about.as_bytes()).to_hex()[..32];
        let path = self.parts.join(format!("{name}.parquet"));
        if let Ok(rows) = store::read::<ShowcaseRow>(&path) {
            return Ok((path, rows.chunk_by(|a, b| key(a) == key(b)).map(<[_]>::to_vec).collect()));
        }
        let which = (Which::Worst(EVENTS), self.tail);
        let told = accounts(self.all, of.index, variant, self.models, which)?;
        let events = match told.events.is_empty() {
            true => Vec::new(),
            false => rows(&variant.id, told.log(), &told.events, self.redact.as_ref()),
        };
        write_table(&path, events.iter().cloned())?;
        Ok((path, events))
    }
}

/// The worst events of all; then the worst of each other format. Sessions are replayed in the order of what they lost a step, since long ones
/// lose much in many small events and cost most: where there are so many events that each took as much as all of a session lost, or
/// so many steps were replayed, it is not, unless its format has no event yet.
fn worst_events<E>(
    sessions: &[Session],
    most_steps: u64,
    mut replay: impl FnMut(&Session) -> Vec<E>,
    n_lost: impl Fn(&E) -> usize,
) -> Vec<E> {
    let mut told: Vec<(&str, Vec<Option<E>>)> = Vec::new();
    // By event, how many needs it took, of which session, and where there.
    let mut best: Vec<(Reverse<usize>, usize, usize)> = Vec::new();
    let mut n_steps = 0;
    let dense = |session: &Session| session.lost as f64 / session.n_steps.max(1) as f64;
    let mut sessions: Vec<&Session> = sessions.iter().collect();
    sessions.sort_by(|a, b| dense(b).total_cmp(&dense(a)));
    for session in sessions {
        let is_beaten =
            best.get(EVENTS - 1).is_some_and(|(Reverse(least), ..)| *least as u64 >= session.lost);
        let is_costly = told.len() >= CHEAP && n_steps + session.n_steps > most_steps;
        if (is_beaten || is_costly) && told.iter().any(|(format, _)| *format == session.format) {
            continue;
        }
        n_steps += session.n_steps;
        let events = replay(session);
        best.extend(events.iter().enumerate().map(|(at, of)| (Reverse(n_lost(of)), told.len(), at)));
        best.sort_unstable();
        told.push((session.format, events.into_iter().map(Some).collect()));
    }
    let others = best.split_off(EVENTS.min(best.len()));
    let mut formats: Vec<&str> = best.iter().map(|(_, session, _)| told[*session].0).collect();
    for event in others {
        let format = told[event.1].0;
        if best.len() < EVENTS + FORMATS && !formats.contains(&format) {
            formats.push(format);
            best.push(event);
        }
    }
    best.into_iter().filter_map(|(_, session, at)| told[session].1[at].take()).collect()
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

/// How many needs a session lost, and its id.
type Lossy = (u64, String);

/// By variant, the sessions that lost most needs, the worst first, and the worst one of each other format.
fn worst(
    path: &Path,
    variants: &[&Variant],
    tail: u32,
    formats: &HashMap<String, String>,
) -> anyhow::Result<HashMap<String, Vec<Lossy>>> {
    let stratum = format!("set=common tail={tail}");
    let mut lost: HashMap<String, Vec<Lossy>> =
        variants.iter().map(|variant| (variant.id.clone(), Vec::new())).collect();
    let wanted: [(&str, &[&str]); 2] = [("metric", &[NEED_RETENTION.name]), ("stratum", &[&stratum])];
    store::rows_of::<ScoreValue>(path, &wanted, |rows| {
        for row in rows {
            let n_lost = row.n_kept.map_or(0, |kept| row.n.saturating_sub(kept));
            if let Some(of) = lost.get_mut(&*row.variant).filter(|_| n_lost > 0) {
                of.push((n_lost, row.trajectory.to_string()));
                if of.len() > 4 * SESSIONS {
                    keep_worst(of, formats);
                }
            }
        }
    })?;
    lost.values_mut().for_each(|of| keep_worst(of, formats));
    Ok(lost)
}

/// What is kept of a part is enough of the whole.
fn keep_worst(of: &mut Vec<Lossy>, formats: &HashMap<String, String>) {
    of.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let (mut n, mut met) = (0, Vec::new());
    of.retain(|(_, id)| {
        let format = formats.get(id);
        let is_first = met.len() <= FORMATS && !met.contains(&format);
        met.extend(is_first.then_some(format));
        n += 1;
        n <= SESSIONS || is_first
    });
}

/// Events of a replay as rows; without `redact` keys and personal data stay.
pub fn rows<A: Borrow<Account>>(
    variant: &str,
    log: &Log,
    events: &[A],
    redact: Option<&Searched>,
) -> Vec<Vec<ShowcaseRow>> {
    let all: Vec<Told<'_>> = events.iter().map(|account| told(log, account.borrow())).collect();
    let quoted = |told: &Told<'_>| {
        let lines = told.lost.iter().flat_map(|lost| [Some(lost.line.clone()), lost.used.clone()]).flatten();
        lines
            .chain(
                told.parts
                    .iter()
                    .flat_map(|part| part.before.into_iter().chain(part.after.iter().copied()).cloned()),
            )
            .collect()
    };
    let shots: Vec<Shot> = all.iter().map(|told| Shot { event: None, blocks: quoted(told) }).collect();
    let words = match redact {
        Some(searched) => Words::searched(log, &shots, searched),
        None => Words::raw(log),
    };
    let ids = (variant, log.id());
    all.iter().zip(events).map(|(told, account)| told.rows(ids, account.borrow(), log, &words)).collect()
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
        let content = Content::Excerpt { step, pieces: vec![piece], is_message: false };
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
mod tests;
