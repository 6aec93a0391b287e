//! What is known of a statement at a point of a log, as numbers and as hashed pieces of its text (reports/hindsight/model.md).
//!
//! Statements are cut once, when their step is read, and rated when they are asked for. Linear in the text.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::Weights;
use super::history::first_step;
use super::numbers::Numbers;
use super::parts::beginning;
use super::surface;
pub use super::surface::Source;
use crate::context::log::{AtomId, Log};
use crate::text::atoms::AtomKind;
use crate::text::runs::hash;
use crate::text::sentences;
use crate::trajectory::{Kind, Role};
use crate::turns::actions::ActionKind;

/// The numbers, in order.
const NAMES: &str = "source_user source_agent source_tool is_thought is_error \
    after_submit after_edit_file after_run_test after_read_file after_search after_api_call after_run_command after_other \
    first_user last_user users_since turns_ago age step_place step_from_end step_size log_size \
    chars n_words letters digits marks upper ends_question ends_colon ends_stop numbered indent diff_add diff_del fence quoted \
    code_marks hump \
    atoms_0 atoms_1 atoms_2 atoms_3 atoms_4 atoms_5 atoms_6 atoms_7 atoms_8 atoms_9 \
    n_atoms rarest mean_rarity new_atoms acted acted_share said_later tail_atoms path_edited atom_edited goal_share tail_share \
    goal_words same_before same_after new_words line_place before_colon";
/// How many there are.
pub const N: usize = 67;

/// Newest turns whose words count as near.
const TAIL: u32 = 3;
/// Characters of each of their steps that are read.
const TAIL_CHARS: usize = 4_000;
/// Shortest word that says something, in characters.
const CONTENT: usize = 3;

/// The names of the numbers.
pub fn names() -> Vec<String> {
    NAMES.split_whitespace().map(str::to_owned).collect()
}

/// A statement with what is known of it.
#[derive(Clone, Debug)]
pub struct Rated {
    pub step: u32,
    /// Where it stands in the step's text.
    pub bytes: Range<u32>,
    pub source: Source,
    pub numbers: [f32; N],
    /// Buckets of the pieces of its text, ascending.
    pub pieces: Vec<u16>,
}

/// A statement as it was cut.
struct Cut {
    bytes: Range<u32>,
    norm: u64,
    same_before: u32,
    /// Statements of the same words up to the end of its step.
    same_so_far: u32,
    /// Its atoms, each with the steps that told it and those in which the agent did, up to its own.
    atoms: Vec<(AtomId, Counts)>,
}

#[derive(Clone, Copy, Default)]
struct Counts {
    said: u32,
    acted: u32,
    last: Option<u32>,
}

/// What was read of a log.
#[derive(Default)]
pub struct Statements {
    /// Steps that were read.
    until: u32,
    atoms: FxHashMap<AtomId, Counts>,
    /// In how many statements each word stands.
    words: FxHashMap<u64, u32>,
    /// How many statements have these words.
    norms: FxHashMap<u64, u32>,
    users: Vec<u32>,
    edited: FxHashSet<String>,
    cut: FxHashMap<u32, Vec<Cut>>,
    /// What stands around the step up to which was read.
    point: Option<(u32, Arc<Point>)>,
}

/// What was read, and the weights that rate it.
pub struct Reading<'a> {
    pub statements: &'a mut Statements,
    pub weights: &'a Weights,
}

/// What stands around a decision.
struct Point {
    turn: u32,
    goal: FxHashSet<u64>,
    tail: FxHashSet<u64>,
    tail_atoms: FxHashSet<AtomId>,
}

/// Who speaks in a step, if it says anything that counts. Calls are code, and their results follow.
fn source(log: &Log, step: u32) -> Option<Source> {
    let logged = &log.trajectory.steps[step as usize];
    match (logged.kind, logged.role) {
        (_, Role::System) => None,
        (Kind::Message | Kind::Thought | Kind::Observation, Role::User) => Some(Source::User),
        (Kind::Observation, _) | (Kind::Message | Kind::Thought, Role::Tool) => Some(Source::Tool),
        (Kind::Message | Kind::Thought, Role::Agent) => Some(Source::Agent),
        _ => None,
    }
}

/// Whether a user says it.
fn is_said(log: &Log, step: u32) -> bool {
    let logged = &log.trajectory.steps[step as usize];
    (logged.role, logged.kind) == (Role::User, Kind::Message)
}

impl Statements {
    /// Reads what stands at the beginning of a segment: the head, what is pinned, and what a compaction kept; and what users said
    /// before, since they know it.
    pub fn of_segment(log: &Log, segment: u32) -> Self {
        let mut statements = Statements::default();
        let first = first_step(log, segment);
        let head = log.turns[..log.turns.len().min(1)].iter().flat_map(|turn| turn.steps.clone());
        let said = (0..first).filter(|&step| is_said(log, step));
        let steps = head.chain(log.pinned_before(segment)).chain(log.kept_in(segment)).chain(said);
        steps.collect::<BTreeSet<u32>>().into_iter().for_each(|step| statements.read(log, step));
        statements.until = first;
        statements
    }

    /// The statements of some steps as they look before step `until`, up to which the log is read. Of who is no user each step is
    /// rated once.
    pub fn rate(&mut self, log: &Log, steps: &[u32], until: u32) -> Vec<Rated> {
        (self.until..until).for_each(|step| self.read(log, step));
        self.until = self.until.max(until);
        let point = match self.point.take() {
            Some((at, point)) if at == self.until => point,
            _ => Arc::new(self.point(log)),
        };
        self.point = Some((self.until, Arc::clone(&point)));
        let mut rated = Vec::new();
        for &step in steps {
            let (Some(source), Some(cut)) = (source(log, step), self.cut.remove(&step)) else { continue };
            let of_step = OfStep::new(self, log, step, source, cut.len());
            let mut before = "";
            for (n, cut) in cut.iter().enumerate() {
                let text = of_step.text(&cut.bytes);
                rated.push(Rated {
                    step,
                    bytes: cut.bytes.clone(),
                    source,
                    numbers: of_step.numbers(self, &point, cut, n, before),
                    pieces: surface::pieces(text, before, source, of_step.action),
                });
                before = text;
            }
            if source == Source::User {
                self.cut.insert(step, cut);
            }
        }
        rated
    }

    fn read(&mut self, log: &Log, step: u32) {
        let logged = &log.trajectory.steps[step as usize];
        if is_said(log, step) {
            self.users.push(step);
        }
        if log.action_kinds[step as usize] == Some(ActionKind::EditFile) {
            self.edited.extend(log.path_of(step).map(str::to_owned));
        }
        for mention in log.mentions_of_step(step) {
            let counts = self.atoms.entry(mention.so_far).or_default();
            if counts.last.replace(step) != Some(step) {
                counts.said += 1;
                counts.acted += u32::from(logged.is_agent());
            }
        }
        let Some(source) = source(log, step) else { return };
        let ranges = sentences::statements(&logged.text, source != Source::Tool);
        let mut cut: Vec<Cut> = ranges.into_iter().map(|range| self.cut(log, step, range)).collect();
        for cut in &cut {
            *self.norms.entry(cut.norm).or_default() += 1;
        }
        cut.iter_mut().for_each(|cut| cut.same_so_far = self.norms[&cut.norm]);
        self.cut.insert(step, cut);
    }

    fn cut(&mut self, log: &Log, step: u32, range: Range<usize>) -> Cut {
        let text = &log.trajectory.steps[step as usize].text[range.clone()];
        let (mut norm, mut words) = (0u64, Vec::new());
        surface::words(text, &mut |word, _| {
            let word = hash(word);
            norm = norm.rotate_left(5).wrapping_mul(0x0100_0000_01b3) ^ word;
            words.push(word);
        });
        words.sort_unstable();
        words.dedup();
        words.iter().for_each(|word| *self.words.entry(*word).or_default() += 1);
        let bytes = range.start as u32..range.end as u32;
        let lower = text.to_lowercase();
        let mut atoms: Vec<(AtomId, Counts)> = Vec::new();
        let spans = log.spans_of(step);
        let of_step = &log.spans[spans.start as usize..spans.end as usize];
        let first = of_step.partition_point(|span| span.end <= bytes.start) as u32;
        let last = of_step.partition_point(|span| span.end < bytes.end) as u32;
        for span in first..(last + 1).min(of_step.len() as u32) {
            for mention in log.mentions_in(spans.start + span) {
                let atom = mention.so_far;
                if atoms.iter().all(|(known, _)| *known != atom) && stands_in(log, atom, &lower) {
                    atoms.push((atom, self.atoms[&atom]));
                }
            }
        }
        let same_before = self.norms.get(&norm).copied().unwrap_or(0);
        Cut { bytes, norm, same_before, same_so_far: 0, atoms }
    }

    fn point(&self, log: &Log) -> Point {
        let turn = if self.until == 0 { 0 } else { log.turn_of(self.until - 1) };
        let mut point = Point {
            turn,
            goal: FxHashSet::default(),
            tail: FxHashSet::default(),
            tail_atoms: FxHashSet::default(),
        };
        let first = self.users.first().copied();
        for &user in first.iter().chain(self.users.last()) {
            surface::words(&log.trajectory.steps[user as usize].text, &mut |word, _| {
                _ = point.goal.insert(hash(word))
            });
        }
        let newest = (0..self.until).rev().take_while(|&step| log.turn_of(step) + TAIL > turn);
        for step in newest.filter(|step| Some(*step) != first) {
            let logged = &log.trajectory.steps[step as usize];
            surface::words(beginning(&logged.text, TAIL_CHARS), &mut |word, _| {
                _ = point.tail.insert(hash(word))
            });
            if logged.is_agent() {
                point.tail_atoms.extend(log.mentions_of_step(step).iter().map(|mention| mention.so_far));
            }
        }
        point
    }
}

/// Whether an atom stands in a text, of a path its last part.
fn stands_in(log: &Log, atom: AtomId, lower: &str) -> bool {
    let known = log.atom(atom);
    let text = known.text.trim_matches('/');
    let text = if known.kind == AtomKind::Path { text.rsplit('/').next().unwrap_or(text) } else { text };
    lower.contains(&text.to_lowercase())
}

/// What the statements of a step have in common.
struct OfStep<'a> {
    log: &'a Log,
    step: u32,
    source: Source,
    size: usize,
    action: Option<ActionKind>,
    path_edited: bool,
}

impl<'a> OfStep<'a> {
    fn new(read: &Statements, log: &'a Log, step: u32, source: Source, size: usize) -> Self {
        let is_seen = log.kind(step) == Kind::Observation;
        let call = log.call_of(step).filter(|_| is_seen);
        let path = call.and_then(|call| log.path_of(call));
        OfStep {
            log,
            step,
            source,
            size,
            action: call.and_then(|call| log.action_kinds[call as usize]),
            path_edited: path.is_some_and(|path| read.edited.contains(path)),
        }
    }

    fn text(&self, bytes: &Range<u32>) -> &'a str {
        &self.log.trajectory.steps[self.step as usize].text[bytes.start as usize..bytes.end as usize]
    }

    fn numbers(&self, read: &Statements, point: &Point, cut: &Cut, n: usize, before: &str) -> [f32; N] {
        let logged = &self.log.trajectory.steps[self.step as usize];
        let text = self.text(&cut.bytes);
        let start = logged.text[..cut.bytes.start as usize].rfind('\n').map_or(0, |at| at + 1);
        let line = &logged.text[start..cut.bytes.start as usize];
        let mut out = Numbers::new();
        self.place(read, point, n, &mut out);
        surface::shape(text, line, &mut |number| out.push(number));
        self.atoms(read, point, cut, &mut out);
        self.repeats(read, point, cut, (text, line, before), &mut out);
        out.row()
    }

    /// Who says it, after what, and where it stands.
    fn place(&self, read: &Statements, point: &Point, n: usize, out: &mut Numbers<N>) {
        let logged = &self.log.trajectory.steps[self.step as usize];
        [Source::User, Source::Agent, Source::Tool]
            .into_iter()
            .for_each(|source| out.flag(self.source == source));
        out.flag(logged.kind == Kind::Thought);
        out.flag(logged.is_error.unwrap_or(false));
        for action in super::atoms::ACTIONS {
            out.flag(self.action == Some(action));
        }
        out.flag(read.users.first() == Some(&self.step));
        out.flag(read.users.last() == Some(&self.step));
        let since = read.users.len() - read.users.partition_point(|&user| user <= self.step);
        out.push(since as f64);
        out.log1p(point.turn.saturating_sub(logged.turn));
        out.push(f64::from(read.until - self.step) / f64::from(read.until));
        out.push(n as f64 / self.size as f64);
        out.log1p((self.size - 1 - n) as u32);
        out.log1p(self.size as u32);
        out.log1p(read.until);
    }

    fn atoms(&self, read: &Statements, point: &Point, cut: &Cut, out: &mut Numbers<N>) {
        for kind in AtomKind::ALL {
            let is_it = |(atom, _): &&(AtomId, Counts)| self.log.atom(*atom).kind == kind;
            out.push(cut.atoms.iter().filter(is_it).count() as f64);
        }
        let now = |atom: &AtomId| read.atoms[atom];
        let n = cut.atoms.len();
        let rarity = |(atom, _): &(AtomId, Counts)| {
            libm::log1p(f64::from(read.until)) - libm::log1p(f64::from(now(atom).said))
        };
        out.push(n as f64);
        out.push(cut.atoms.iter().map(rarity).fold(0.0, f64::max));
        out.push(cut.atoms.iter().map(rarity).sum::<f64>() / n.max(1) as f64);
        out.push(cut.atoms.iter().filter(|(_, then)| then.said == 1).count() as f64);
        let acted = cut.atoms.iter().filter(|(atom, then)| now(atom).acted > then.acted).count();
        out.push(acted as f64);
        out.push(acted as f64 / n.max(1) as f64);
        out.log1p(cut.atoms.iter().map(|(atom, then)| now(atom).said - then.said).sum());
        out.push(cut.atoms.iter().filter(|(atom, _)| point.tail_atoms.contains(atom)).count() as f64);
        out.flag(self.path_edited);
        let is_edited = |(atom, _): &&(AtomId, Counts)| read.edited.contains(self.log.atom(*atom).text);
        out.push(cut.atoms.iter().filter(is_edited).count() as f64);
    }

    /// Its words among those of goal, newest turns and other statements.
    fn repeats(
        &self,
        read: &Statements,
        point: &Point,
        cut: &Cut,
        (text, line, before): (&str, &str, &str),
        out: &mut Numbers<N>,
    ) {
        let mut content = Vec::new();
        surface::words(text, &mut |word, chars| content.extend((chars >= CONTENT).then(|| hash(word))));
        content.sort_unstable();
        content.dedup();
        let n = content.len().max(1) as f64;
        let share = |is: &dyn Fn(&u64) -> bool| content.iter().filter(|word| is(word)).count() as f64 / n;
        let seen = |word: &u64| read.words.get(word).copied().unwrap_or(1);
        out.push(share(&|word| point.goal.contains(word)));
        out.push(share(&|word| point.tail.contains(word)));
        let told = content.iter().filter(|word| point.goal.contains(*word));
        out.push(told.map(|word| libm::log(1.0 + f64::from(read.until) / f64::from(seen(word)))).sum());
        out.log1p(cut.same_before);
        out.log1p(read.norms[&cut.norm] - cut.same_so_far);
        out.push(share(&|word| seen(word) <= 1));
        out.flag(!line.trim().is_empty());
        out.flag(before.ends_with(':'));
    }
}
