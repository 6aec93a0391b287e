//! What is known of the atoms of an event that could be needed later, as numbers (reports/hindsight/model.md).
//!
//! Rated are the atoms that stand bound in a line of the scope and nowhere in the prompt outside it. Linear in the text of the
//! scope and of the newest turns.

use rustc_hash::{FxHashMap, FxHashSet};

pub use super::history::History;
use super::history::{Said, begins_with_one};
use super::numbers::Numbers;
use super::parts::{beginning, parts, words};
use crate::context::log::{AtomId, BOUND, Log};
use crate::text::atoms::AtomKind;
use crate::trajectory::Kind;
use crate::turns::actions::ActionKind;

/// The numbers, in order, behind the ten kinds.
const NAMES: &str = "chars parts digits upper slashes dots underscores has_equals capital \
    said scope_said steps_said by_tool by_agent by_user rarity mean_per_turn \
    since_first since_last turn_in_scope new_here \
    in_actions in_thoughts in_bodies after_seen was_needed last_by_agent acted_lately \
    on_submit on_edit_file on_run_test on_read_file on_search on_api_call on_run_command on_other is_error bound_lines \
    fewest_in_line mean_in_line atoms_in_step line_tokens step_lines place scope_atoms \
    parts_in_goal parts_in_thoughts parts_in_tail parts_in_tail_atoms \
    file_edited is_edited same_folder file_in_tail base_in_tail \
    near_acted near_tail near_needed near_error \
    turn n_events n_said";
/// How many there are.
pub const N: usize = 71;

/// Characters of each step of the newest turns that are read for words.
const TAIL_CHARS: usize = 6_000;
/// Turns since the agent used an atom, at most.
const LONG_AGO: u32 = 99;
/// Lines of an atom whose other atoms are looked at.
const NEAR_LINES: usize = 20;
pub(super) const ACTIONS: [ActionKind; 8] = [
    ActionKind::Submit,
    ActionKind::EditFile,
    ActionKind::RunTest,
    ActionKind::ReadFile,
    ActionKind::Search,
    ActionKind::ApiCall,
    ActionKind::RunCommand,
    ActionKind::Other,
];

/// The names of the numbers.
pub fn names() -> Vec<String> {
    (0..AtomKind::ALL.len())
        .map(|kind| format!("kind_{kind}"))
        .chain(NAMES.split_whitespace().map(str::to_owned))
        .collect()
}

/// An event as the rater sees it.
pub struct Event<'a> {
    pub log: &'a Log,
    /// The turn about to be decided.
    pub turn: u32,
    /// Lines that stand in the scope, in order.
    pub spans: &'a [u32],
    /// Steps that stand whole in the prompt outside the scope and behind the head, in order.
    pub tail: &'a [u32],
}

/// An atom that could be needed.
#[derive(Clone, Debug, PartialEq)]
pub struct Rated {
    pub atom: AtomId,
    pub numbers: [f32; N],
}

impl History {
    /// The atoms that could be needed once the scope has gone, in the order of the text. [`History::read`] comes first.
    pub fn rate(&mut self, event: &Event<'_>) -> Vec<Rated> {
        let tail = Tail::new(event);
        let scene = Scene::new(self, event, &tail);
        let mut rated = Vec::new();
        for (atom, lines) in &scene.found {
            if lines.iter().any(|&line| scene.is_bound(*atom, line)) {
                rated.push(Rated { atom: *atom, numbers: scene.numbers(*atom, lines) });
            }
        }
        self.n_events += 1;
        rated
    }
}

/// What stands behind the scope.
struct Tail<'a> {
    words: FxHashSet<u64>,
    thought_words: FxHashSet<u64>,
    parts: FxHashSet<u64>,
    paths: FxHashSet<&'a str>,
    atoms: FxHashSet<AtomId>,
    /// Last parts of paths.
    bases: FxHashSet<&'a str>,
}

impl<'a> Tail<'a> {
    fn new(event: &Event<'a>) -> Self {
        let log = event.log;
        let mut tail = Tail {
            words: FxHashSet::default(),
            thought_words: FxHashSet::default(),
            parts: FxHashSet::default(),
            paths: FxHashSet::default(),
            atoms: FxHashSet::default(),
            bases: FxHashSet::default(),
        };
        for &step in event.tail {
            let logged = &log.trajectory.steps[step as usize];
            words(beginning(&logged.text, TAIL_CHARS), &mut |hash| _ = tail.words.insert(hash));
            if logged.is_agent() && logged.kind != Kind::Action {
                words(&logged.text, &mut |hash| _ = tail.thought_words.insert(hash));
            }
            tail.paths.extend(log.path_of(step));
            for mention in log.mentions_of_step(step) {
                if tail.atoms.insert(mention.so_far) {
                    let text = log.atom(mention.so_far).text;
                    parts(text, &mut |hash| _ = tail.parts.insert(hash));
                    tail.bases.insert(base(text));
                }
            }
        }
        tail
    }
}

fn base(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// A line of the scope.
struct Line {
    span: u32,
    tokens: u32,
    /// Its atoms, each once: see [`Scene::atoms`].
    atoms: std::ops::Range<usize>,
    step: usize,
}

/// What is known of a step of the scope.
#[derive(Default)]
struct OfStep {
    step: u32,
    n_atoms: u32,
    n_lines: u32,
    is_agent: bool,
    is_error: bool,
    kind: Option<ActionKind>,
    is_edited: bool,
    in_folder: bool,
    in_tail: bool,
}

/// What of an atom its neighbours look at.
const ACTED: u8 = 1;
const IN_TAIL: u8 = 2;
const NEEDED: u8 = 4;
const IS_ERROR: u8 = 8;

/// The scope of an event, indexed.
struct Scene<'a> {
    history: &'a History,
    log: &'a Log,
    tail: &'a Tail<'a>,
    turn: u32,
    /// First and last turn of the scope.
    turns: (u32, u32),
    lines: Vec<Line>,
    steps: Vec<OfStep>,
    /// Of each line: atom, and whether it is bound there.
    atoms: Vec<(AtomId, bool)>,
    /// Atoms that stand nowhere else, with their lines.
    found: Vec<(AtomId, Vec<u32>)>,
    /// Of each atom of the scope of which there is anything: see [`ACTED`].
    marks: FxHashMap<AtomId, u8>,
}

impl<'a> Scene<'a> {
    fn new(history: &'a History, event: &Event<'a>, tail: &'a Tail<'a>) -> Self {
        let log = event.log;
        let ends = [event.spans.first(), event.spans.last()];
        let turn_of = |span: Option<&u32>| span.map_or(0, |&span| log.turn_of(log.spans[span as usize].step));
        let mut scene = Scene {
            history,
            log,
            tail,
            turn: event.turn,
            turns: (turn_of(ends[0]), turn_of(ends[1])),
            lines: Vec::with_capacity(event.spans.len()),
            steps: Vec::new(),
            atoms: Vec::new(),
            found: Vec::new(),
            marks: FxHashMap::default(),
        };
        let mut places: FxHashMap<AtomId, usize> = FxHashMap::default();
        for &span in event.spans {
            scene.push(span);
            let Some(line) = scene.lines.last().filter(|line| line.span == span) else { continue };
            let at = scene.lines.len() as u32 - 1;
            for (atom, _) in &scene.atoms[line.atoms.clone()] {
                if history.head.contains(atom) || tail.atoms.contains(atom) {
                    continue;
                }
                let place = *places.entry(*atom).or_insert(scene.found.len());
                if place == scene.found.len() {
                    scene.found.push((*atom, Vec::new()));
                }
                scene.found[place].1.push(at);
            }
        }
        scene
    }

    /// Adds a line, unless it holds nothing.
    fn push(&mut self, span: u32) {
        let (log, s) = (self.log, self.log.spans[span as usize]);
        if self.steps.last().is_none_or(|of| of.step != s.step) {
            self.steps.push(self.of_step(s.step));
        }
        if s.tokens == 0 {
            return;
        }
        let start = self.atoms.len();
        for mention in log.mentions_in(span) {
            let is_bound = mention.flags & BOUND != 0;
            match self.atoms[start..].iter_mut().find(|(atom, _)| *atom == mention.so_far) {
                Some((_, bound)) => *bound |= is_bound,
                None => self.atoms.push((mention.so_far, is_bound)),
            }
        }
        for at in start..self.atoms.len() {
            let atom = self.atoms[at].0;
            let mark = self.mark(atom);
            if mark > 0 {
                self.marks.insert(atom, mark);
            }
        }
        let atoms = start..self.atoms.len();
        self.lines.push(Line { span, tokens: s.tokens, atoms, step: self.steps.len() - 1 });
    }

    fn mark(&self, atom: AtomId) -> u8 {
        let said = self.history.said.get(&atom);
        let flag = |is: bool, mark: u8| if is { mark } else { 0 };
        flag(said.is_some_and(|said| said.actions > 0), ACTED)
            | flag(self.tail.atoms.contains(&atom), IN_TAIL)
            | flag(said.is_some_and(|said| said.needed > 0), NEEDED)
            | flag(self.log.atom(atom).kind == AtomKind::Error, IS_ERROR)
    }

    fn of_step(&self, step: u32) -> OfStep {
        let (log, logged) = (self.log, &self.log.trajectory.steps[step as usize]);
        let call = if logged.kind == Kind::Observation { log.call_of(step) } else { None }.unwrap_or(step);
        let path = log.path_of(call);
        let atoms: FxHashSet<AtomId> = log.mentions_of_step(step).iter().map(|m| m.so_far).collect();
        OfStep {
            step,
            n_atoms: atoms.len() as u32,
            n_lines: log.spans_of(step).len() as u32,
            is_agent: logged.is_agent(),
            is_error: logged.is_error.unwrap_or(false),
            kind: log.action_kinds[call as usize],
            is_edited: path.is_some_and(|path| self.history.edited.contains(path)),
            in_folder: path.is_some_and(|path| begins_with_one(&self.history.folders, path)),
            in_tail: path.is_some_and(|path| self.tail.paths.contains(path)),
        }
    }

    fn is_bound(&self, atom: AtomId, line: u32) -> bool {
        self.atoms[self.lines[line as usize].atoms.clone()].contains(&(atom, true))
    }

    fn numbers(&self, atom: AtomId, lines: &[u32]) -> [f32; N] {
        let known = self.log.atom(atom);
        let mut out = Numbers::new();
        (0..AtomKind::ALL.len()).for_each(|kind| out.flag(known.kind as usize == kind));
        let mut names = Vec::new();
        parts(known.text, &mut |hash| names.push(hash));
        of_name(known.text, names.len(), &mut out);
        self.of_history(&self.history.said[&atom], lines.len(), &mut out);
        self.of_places(atom, lines, &mut out);
        let shares = [&self.history.goal, &self.tail.thought_words, &self.tail.words, &self.tail.parts];
        for known in shares {
            out.push(
                names.iter().filter(|part| known.contains(part)).count() as f64 / names.len().max(1) as f64,
            );
        }
        self.of_files(known.text, lines, &mut out);
        self.of_neighbours(atom, lines, &mut out);
        out.log1p(self.turn);
        out.push(f64::from(self.history.n_events));
        out.log1p(self.history.said.len() as u32);
        out.row()
    }

    /// How often, when, and what the agent did with it.
    fn of_history(&self, said: &Said, n_lines: usize, out: &mut Numbers<N>) {
        let age = self.turn - said.first;
        out.log1p(said.mentions);
        out.log1p(n_lines as u32);
        out.log1p(said.steps);
        [said.by_tool, said.by_agent, said.by_user].into_iter().for_each(|n| out.log1p(n));
        out.push(libm::log1p(f64::from(self.history.n_steps)) - libm::log1p(f64::from(said.steps)));
        out.push(f64::from(said.mentions) / f64::from(age + 1));

        let (first, last) = self.turns;
        out.log1p(age);
        out.push(f64::from(self.turn - said.last));
        out.push((f64::from(said.last) - f64::from(first)) / (f64::from(last) - f64::from(first) + 1.0));
        out.flag(said.first >= first);

        [said.actions, said.thoughts, said.bodies, said.used].into_iter().for_each(|n| out.log1p(n));
        out.push(f64::from(said.needed));
        out.flag(said.last_by_agent);
        out.log1p(said.acted.map_or(LONG_AGO, |acted| (self.turn - acted).min(LONG_AGO)));
    }

    /// On what its lines stand, and how crowded they are.
    fn of_places(&self, atom: AtomId, lines: &[u32], out: &mut Numbers<N>) {
        let lines: Vec<&Line> = lines.iter().map(|&at| &self.lines[at as usize]).collect();
        let step = |line: &Line| &self.steps[line.step];
        for action in ACTIONS {
            let is_on = |line: &&&Line| !step(line).is_agent && step(line).kind == Some(action);
            out.log1p(lines.iter().filter(is_on).count() as u32);
        }
        out.flag(lines.iter().any(|line| step(line).is_error));
        let bound = || lines.iter().filter(|line| self.atoms[line.atoms.clone()].contains(&(atom, true)));
        out.log1p(bound().count() as u32);

        let least = |values: &mut dyn Iterator<Item = u32>| values.min().unwrap_or(0);
        out.log1p(least(&mut lines.iter().map(|line| line.atoms.len() as u32)));
        let all: usize = lines.iter().map(|line| line.atoms.len()).sum();
        out.push(libm::log1p(all as f64 / lines.len().max(1) as f64));
        out.log1p(least(&mut lines.iter().map(|line| step(line).n_atoms)));
        out.log1p(least(&mut bound().map(|line| line.tokens)));
        out.log1p(least(&mut lines.iter().map(|line| step(line).n_lines)));
        let place = lines.last().map_or(0.0, |line| {
            let of = step(line);
            f64::from(line.span - self.log.spans_of(of.step).start) / f64::from(of.n_lines)
        });
        out.push(place);
        out.log1p(self.found.len() as u32);
    }

    fn of_files(&self, text: &str, lines: &[u32], out: &mut Numbers<N>) {
        let any = |is: fn(&OfStep) -> bool| {
            lines.iter().any(|&line| is(&self.steps[self.lines[line as usize].step]))
        };
        out.flag(any(|of| of.is_edited));
        out.flag(self.history.edited.contains(text));
        out.flag(any(|of| of.in_folder) || begins_with_one(&self.history.folders, text));
        out.flag(any(|of| of.in_tail));
        out.flag(self.tail.bases.contains(base(text)));
    }

    /// What stands beside it in its first lines.
    fn of_neighbours(&self, atom: AtomId, lines: &[u32], out: &mut Numbers<N>) {
        let mut near: Vec<(AtomId, u8)> = Vec::new();
        for &line in lines.iter().take(NEAR_LINES) {
            let others = &self.atoms[self.lines[line as usize].atoms.clone()];
            let others = others.iter().filter(|(other, _)| *other != atom);
            near.extend(others.filter_map(|(other, _)| Some((*other, *self.marks.get(other)?))));
        }
        near.sort_unstable();
        near.dedup();
        let count = |mark: u8| near.iter().filter(|(_, marks)| marks & mark != 0).count() as u32;
        [ACTED, IN_TAIL, NEEDED].into_iter().for_each(|mark| out.log1p(count(mark)));
        out.flag(count(IS_ERROR) > 0);
    }
}

/// How the text of an atom looks.
fn of_name(text: &str, n_parts: usize, out: &mut Numbers<N>) {
    let chars = text.chars().count();
    let count = |is: &dyn Fn(char) -> bool| text.chars().filter(|c| is(*c)).count() as f64;
    out.log1p(chars as u32);
    out.push(n_parts as f64);
    out.push(count(&char::is_numeric) / chars.max(1) as f64);
    out.push(count(&char::is_uppercase) / chars.max(1) as f64);
    ['/', '.', '_'].into_iter().for_each(|mark| out.push(count(&|c| c == mark)));
    out.flag(text.contains('='));
    out.flag(text.starts_with(char::is_uppercase));
}
