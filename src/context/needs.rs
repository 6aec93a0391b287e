//! What the agent had to remember: the needs of a log, and which mentions could serve them.
//!
//! A need is (atom, gap): the first use of an atom by the agent since its last mention in the
//! segment, tested against the prompt before that output. It is *at risk* when the last mention is
//! older than the reference tail and the atom stands neither in the head, in a step that is in every
//! prompt like it ([`Log::is_pinned`]), nor in a logged summary. All of this is a property of the log: every variant answers the same questions.
//!
//! Excluded: atoms that can be computed from the call itself (line ranges), and superseded ones
//! (`key=value` whose key has a newer value). The needs of one turn share weight 1 within their
//! group (headline, authored, system, body). Source: DESIGN section 8, ours.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::LazyLock;

use serde::Deserialize;

use crate::context::log::{AtomId, BODY, BOUND, DERIVED, Log};
use crate::text::atoms::AtomKind;
use crate::text::lists::{self, WordSet};
use crate::trajectory::{Kind, Role};

/// Who wrote the mentions before the need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// At least one tool output.
    Observed,
    /// No tool output, at least one word of the user: a message, an answer or a refusal in a tool's result.
    User,
    /// Neither, but the harness, which speaks as the system.
    System,
    /// Only the agent.
    Authored,
}

impl Class {
    pub fn name(self) -> &'static str {
        match self {
            Class::Observed => "observed",
            Class::User => "user",
            Class::System => "system",
            Class::Authored => "authored",
        }
    }
}

/// Needs share their turn's weight within a group; the headline speaks of the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Group {
    /// Observed or user, outside the body of an edit.
    Headline,
    /// Written only by the agent, outside the body of an edit.
    Authored,
    /// Said by the harness and neither by a tool nor the user, outside the body of an edit.
    System,
    /// Used only inside the body of an edit or write.
    Body,
}

/// One need that is at risk for the shortest reference tail.
#[derive(Clone, Debug)]
pub struct Need {
    pub atom: AtomId,
    pub kind: AtomKind,
    pub segment: u32,
    /// The turn whose output used the atom.
    pub turn: u32,
    /// Turns since the last mention.
    pub gap: u32,
    pub class: Class,
    pub group: Group,
    /// Whether its atom stood in the prompt that the log says was sent. Where not, the agent guessed or knew it, and no
    /// compression can be blamed.
    pub supported: bool,
    /// Whether some source span binds the atom: where not, bound retention is undefined.
    pub bound: bool,
    /// The cheapest source span in tokens, among binding ones if there are any.
    pub cheapest: u32,
    /// The observation that holds the atom and is cheapest to get again with its call; none if no
    /// output of a call that can be made again ever held it.
    pub source: Option<u32>,
    /// Whether its turn did not use the atom but found out again what an earlier session knew, and a later turn of this session
    /// used it.
    pub found_again: bool,
}

impl Need {
    /// Whether the headline speaks of it.
    pub fn is_headline(&self) -> bool {
        self.supported && self.group == Group::Headline
    }
}

/// Counts of all needs, at risk or not: the population that the scored ones are drawn from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Census {
    /// All needs by class, but those whose atoms stand in the head.
    pub all: BTreeMap<&'static str, u64>,
    /// Uses that were excluded as derived, and as superseded.
    pub derived: u64,
    pub superseded: u64,
}

/// The needs of a trajectory.
#[derive(Default)]
pub struct Needs {
    /// At risk for the shortest tail, in the order of their turns.
    pub list: Vec<Need>,
    pub census: Census,
    /// Atoms of the list, sorted.
    pub atoms: Vec<AtomId>,
    /// Turns of the needs of each atom, ascending.
    turns: HashMap<AtomId, Vec<u32>>,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| lists::read(include_str!("../data/words/keys.en.toml")));

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    /// A new value of these does not supersede the old one.
    enumerating: WordSet,
}

/// One pass over a log.
struct Pass<'a> {
    log: &'a Log,
    tail: u32,
    head: HashSet<AtomId>,
    /// What is known within the segment.
    seen: HashMap<AtomId, Seen>,
    newest: HashMap<&'a str, AtomId>,
    /// The turn at which the session began; 0 where no session stands before it.
    link: u32,
    /// What this session found out again and has not used yet.
    found: HashMap<AtomId, Need>,
    needs: Needs,
}

/// What is known of an atom within a segment, up to the turn at hand.
#[derive(Default)]
struct Seen {
    last_turn: u32,
    observed: bool,
    user: bool,
    system: bool,
    /// Cheapest span, and cheapest binding span.
    cheapest: Option<u32>,
    cheapest_bound: Option<u32>,
    /// Tokens of the cheapest observation with its call, and its step.
    source: Option<(u64, u32)>,
    in_head: bool,
}

impl Needs {
    /// Finds the needs whose last mention is more than `tail` turns old.
    pub fn of(log: &Log, tail: u32) -> Self {
        let mut pass = Pass {
            log,
            tail,
            head: head_atoms(log),
            seen: HashMap::new(),
            newest: HashMap::new(),
            link: 0,
            found: HashMap::new(),
            needs: Needs::default(),
        };
        let mut segment = 0;
        for (turn, steps) in (0..).zip(&log.turns).skip(1) {
            if steps.segment != segment {
                segment = steps.segment;
                pass.seen.clear();
                pass.newest.clear();
                for step in log.kept_in(segment) {
                    pass.mention(step, log.turn_of(step));
                }
            }
            if log.links.binary_search(&turn).is_ok() {
                pass.link = turn;
                pass.found.clear();
            }
            let decision = steps.decision.unwrap_or(steps.steps.end);
            (steps.steps.start..decision).for_each(|step| pass.mention(step, turn));
            pass.uses(turn, decision..steps.steps.end);
            for step in decision..steps.steps.end {
                pass.finds(step, turn);
                pass.mention(step, turn);
            }
        }
        let mut needs = pass.needs;
        // What is found again is known to be needed when it is used.
        needs.list.sort_by_key(|need| need.turn);
        let atoms: HashSet<AtomId> = needs.list.iter().map(|n| n.atom).collect();
        needs.atoms = atoms.into_iter().collect();
        needs.atoms.sort_unstable();
        for need in &needs.list {
            needs.turns.entry(need.atom).or_default().push(need.turn);
        }
        needs
    }

    /// How many needs of an atom arise in these turns.
    pub fn count_in(&self, atom: AtomId, turns: std::ops::Range<u32>) -> usize {
        let all = self.turns.get(&atom).map_or(&[][..], Vec::as_slice);
        all.partition_point(|&t| t < turns.end) - all.partition_point(|&t| t < turns.start)
    }
}

impl Pass<'_> {
    /// The needs of what the agent wrote in a turn.
    fn uses(&mut self, turn: u32, steps: std::ops::Range<u32>) {
        // Atom -> whether every use of it stands in a body; in order, so that rows repeat.
        let mut used: BTreeMap<AtomId, bool> = BTreeMap::new();
        for step in steps.filter(|&s| self.log.trajectory.steps[s as usize].is_agent()) {
            for m in self.log.mentions_of_step(step) {
                if m.flags & DERIVED != 0 {
                    self.needs.census.derived += 1;
                    continue;
                }
                let body = m.flags & BODY != 0;
                used.entry(m.atom).and_modify(|b| *b &= body).or_insert(body);
            }
        }
        for (atom, body) in used {
            if let Some(found) = self.found.remove(&atom) {
                self.needs.list.push(Need { group: group(body, found.class), ..found });
            }
            let Some(seen) = self.seen.get(&atom) else { continue };
            if is_superseded(self.log, atom, &self.newest) {
                self.needs.census.superseded += 1;
                continue;
            }
            if seen.in_head || self.head.contains(&atom) {
                continue;
            }
            *self.needs.census.all.entry(seen.class().name()).or_default() += 1;
            if turn - seen.last_turn > self.tail {
                self.needs.list.push(seen.need(self.log, atom, turn, body));
            }
        }
    }

    /// What a tool shows in a session for the first time, and an earlier session knew.
    fn finds(&mut self, step: u32, turn: u32) {
        let of = &self.log.trajectory.steps[step as usize];
        if self.link == 0 || of.kind != Kind::Observation || of.role != Role::Tool {
            return;
        }
        for m in self.log.mentions_of_step(step) {
            let Some(seen) = self.seen.get(&m.atom) else { continue };
            let is_known = seen.last_turn < self.link && turn - seen.last_turn > self.tail;
            let stands = seen.in_head || self.head.contains(&m.atom);
            if is_known && !stands && !is_superseded(self.log, m.atom, &self.newest) {
                let need = Need { found_again: true, ..seen.need(self.log, m.atom, turn, false) };
                self.found.entry(m.atom).or_insert(need);
            }
        }
    }

    fn mention(&mut self, step: u32, turn: u32) {
        let log = self.log;
        let s = &log.trajectory.steps[step as usize];
        let cheaper = |old: Option<u32>, new: u32| match old {
            Some(old) if log.spans[old as usize].tokens <= log.spans[new as usize].tokens => Some(old),
            _ => Some(new),
        };
        if log.is_pinned(step) {
            self.head.extend(log.mentions_of_step(step).iter().map(|m| m.atom));
        }
        let is_output = s.kind == Kind::Observation && s.role == Role::Tool;
        let again = (is_output && log.is_rerunnable(step)).then(|| (log.tokens_again(step), step));
        for m in log.mentions_of_step(step) {
            let entry = self.seen.entry(m.atom).or_default();
            entry.last_turn = turn;
            entry.observed |= s.role == Role::Tool;
            // What a product wrote down in a summary is no statement of the user, whoever it is logged as.
            entry.user |= s.role == Role::User && s.kind != Kind::Compaction;
            entry.system |= s.role == Role::System || s.kind == Kind::Compaction;
            entry.in_head |= s.kind == Kind::Compaction;
            entry.source = [entry.source, again].into_iter().flatten().min();
            entry.cheapest = cheaper(entry.cheapest, m.span);
            if m.flags & BOUND != 0 {
                entry.cheapest_bound = cheaper(entry.cheapest_bound, m.span);
            }
            let atom = log.atom(m.atom);
            if let Some((key, _)) = key_and_value(atom.kind, atom.text) {
                self.newest.insert(key, m.atom);
            }
        }
    }
}

impl Seen {
    fn class(&self) -> Class {
        match (self.observed, self.user, self.system) {
            (true, ..) => Class::Observed,
            (false, true, _) => Class::User,
            (false, false, true) => Class::System,
            (false, false, false) => Class::Authored,
        }
    }

    fn need(&self, log: &Log, atom: AtomId, turn: u32, body: bool) -> Need {
        Need {
            atom,
            kind: log.atom(atom).kind,
            segment: log.turns[turn as usize].segment,
            turn,
            gap: turn - self.last_turn,
            class: self.class(),
            group: group(body, self.class()),
            supported: true,
            bound: self.cheapest_bound.is_some(),
            cheapest: self.cheapest_bound.or(self.cheapest).expect("a seen atom has a mention"),
            source: self.source.map(|(_, step)| step),
            found_again: false,
        }
    }
}

fn group(body: bool, class: Class) -> Group {
    match (body, class) {
        (true, _) => Group::Body,
        (false, Class::Authored) => Group::Authored,
        (false, Class::System) => Group::System,
        (false, _) => Group::Headline,
    }
}

/// Atoms of the system prompt, tool schema and first user message: always in the prompt.
fn head_atoms(log: &Log) -> HashSet<AtomId> {
    log.turns[..log.turns.len().min(1)]
        .iter()
        .flat_map(|t| t.steps.clone())
        .flat_map(|s| log.mentions_of_step(s).iter().map(|m| m.atom))
        .collect()
}

/// Key and value of an atom (`port=8042`) whose newer value supersedes the older one; none for other atoms, and for keys
/// that merely count.
pub fn key_and_value(kind: AtomKind, text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.split_once('=').filter(|_| kind == AtomKind::Number)?;
    let enumerating = KEYS.enumerating.has(key);
    (!key.is_empty() && !value.is_empty() && !enumerating).then_some((key, value))
}

fn is_superseded(log: &Log, atom: AtomId, newest: &HashMap<&str, AtomId>) -> bool {
    let a = log.atom(atom);
    key_and_value(a.kind, a.text).is_some_and(|(key, _)| newest.get(key).is_some_and(|&n| n != atom))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(script: &str, tail: u32) -> Vec<(String, u32, u32, &'static str)> {
        let log = Log::script(script);
        let needs = Needs::of(&log, tail);
        let text = |n: &Need| log.atom(n.atom).text.to_owned();
        needs.list.iter().map(|n| (text(n), n.turn, n.gap, n.class.name())).collect()
    }

    #[test]
    fn a_need_is_the_first_use_since_the_last_mention() {
        let script = "user: do it
            action: ls
            observation: the parser lives in src/parser.py near the lexer
            action: pwd
            observation: nothing here
            action: date
            observation: nothing here
            action: cat src/parser.py
            observation: words only
            agent: src/parser.py is done";
        // Seen at turn 1, used at turn 4 (gap 3); the use at turn 5 is in the same gap as turn 4.
        assert_eq!(found(script, 2), [("src/parser.py".to_owned(), 4, 3, "observed")]);
        assert_eq!(found(script, 3), []);
        assert_eq!(found(script, 0).len(), 2);
    }

    #[test]
    fn atoms_of_the_head_are_never_at_risk_and_authored_ones_are_told() {
        let script = "user: mend src/parser.py
            agent: I shall write new_helper later on
            agent: well
            agent: new_helper and src/parser.py";
        assert_eq!(found(script, 1), [("new_helper".to_owned(), 3, 2, "authored")]);
    }

    /// The greeting stands before the task: nothing can take the task away, nor what the system says later.
    #[test]
    fn what_is_pinned_is_never_at_risk() {
        let script = |who: &str| {
            format!(
                "agent: Hello!
                 user: mend src/parser.py
                 agent: well
                 {who}: use new_helper there
                 agent: well
                 agent: well
                 agent: src/parser.py with new_helper"
            )
        };
        assert_eq!(found(&script("system"), 1), []);
        assert_eq!(found(&script("user"), 1), [("new_helper".to_owned(), 5, 2, "user")]);
    }

    #[test]
    fn who_said_it_is_told_by_who_spoke() {
        let needs = |line: &str| {
            let script = format!(
                "user: go\naction: ask\n{line} new_helper\nagent: well\nagent: well\nagent: new_helper"
            );
            found(&script, 1).pop().map(|need| (need.2, need.3))
        };
        assert_eq!(needs("observation: use"), Some((3, "observed")));
        assert_eq!(needs("answer: use"), Some((3, "user")));
        assert_eq!(needs("harness: use"), Some((3, "system")));
        assert_eq!(needs("agent: use"), Some((3, "authored")));
        // What a summary says stands in every prompt of its segment, and the user said none of it.
        assert_eq!(needs("summary: use"), None);
    }

    /// Turn 2 was kept by the compaction that opens turn 3; its observation is asked for at turn 5.
    #[test]
    fn what_a_compaction_kept_can_be_needed() {
        let script = "user: go
            action: ls
            observation: nothing here
            action: cat notes
            observation: look at src/parser.py there
            summary: what was done
            agent: well
            agent: well
            agent: src/parser.py";
        let needs = |kept: &[(usize, u32)]| {
            let needs = Needs::of(&Log::kept(script, kept), 1);
            needs.list.iter().map(|n| (n.segment, n.turn, n.gap, n.class.name())).collect::<Vec<_>>()
        };
        assert_eq!(needs(&[(3, 1), (4, 1)]), [(1, 5, 3, "observed")]);
        assert_eq!(needs(&[(3, 1)]), []);
    }

    #[test]
    fn a_new_segment_forgets() {
        let script = "user: go
            action: ls
            observation: look at src/parser.py here
            agent: well
            agent: well
            summary: what was done
            agent: src/parser.py";
        assert_eq!(found(script, 0), []);
    }

    /// The second session begins at turn 3: what it lists again and then reads an earlier one knew, and so it did what it reads at once.
    /// What its user says is no need, nor what it finds and never uses.
    #[test]
    fn a_session_finds_again_what_an_earlier_one_knew() {
        let script = "user: go
            action: ls
            observation: src/parser.py and src/lexer.py, src/table.py, src/rules.py
            agent: done
            user: look at src/rules.py now
            action: ls src/table.py
            observation: src/parser.py and src/lexer.py
            agent: well
            agent: src/parser.py and src/rules.py are fine";
        let told = |links: &[u32]| {
            let mut log = Log::script(script);
            log.links = links.to_vec();
            let again = |n: &Need| if n.found_again { " again" } else { "" };
            let told = |n: &Need| format!("{} {}{}", n.turn, log.atom(n.atom).text, again(n));
            let mut told: Vec<String> = Needs::of(&log, 1).list.iter().map(told).collect();
            told.sort();
            told
        };
        assert_eq!(told(&[]), ["3 src/table.py", "5 src/parser.py", "5 src/rules.py"]);
        let linked = ["3 src/parser.py again", "3 src/table.py", "5 src/parser.py", "5 src/rules.py"];
        assert_eq!(told(&[3]), linked);
    }

    #[test]
    fn superseded_values_are_excluded() {
        let script = "user: go
            action: cat a
            observation: timeout=30 is what it was
            action: cat b
            observation: timeout=60 is what it is
            agent: well
            agent: the old one was timeout=30 and the new one is timeout=60";
        let needs = found(script, 1);
        assert_eq!(needs, [("timeout=60".to_owned(), 4, 2, "observed")]);
    }
}
