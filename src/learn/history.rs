//! What was said and done of each atom so far in a segment, read once, step by step.

use std::collections::BTreeSet;
use std::ops::Bound::{Included, Unbounded};

use rustc_hash::{FxHashMap, FxHashSet};

use super::parts::{beginning, words};
use crate::context::log::{AtomId, BODY, DERIVED, Log};
use crate::trajectory::{Kind, Role};
use crate::turns::actions::ActionKind;

/// Turns after which a use counts as a need.
const TAIL: u32 = 3;
/// Characters of a message of the user that are read for the goal.
const GOAL_CHARS: usize = 20_000;

/// What is known of an atom.
#[derive(Default)]
pub(super) struct Said {
    pub(super) first: u32,
    pub(super) last: u32,
    pub(super) mentions: u32,
    pub(super) steps: u32,
    last_step: Option<u32>,
    pub(super) by_tool: u32,
    pub(super) by_agent: u32,
    pub(super) by_user: u32,
    pub(super) last_by_agent: bool,
    /// Calls that use it outside of bodies.
    pub(super) actions: u32,
    last_action: Option<u32>,
    /// Mentions by the agent beside calls, and in bodies.
    pub(super) thoughts: u32,
    pub(super) bodies: u32,
    /// Turns in which the agent used what it had seen, and those where that was more than [`TAIL`] turns ago.
    pub(super) used: u32,
    pub(super) needed: u32,
    /// The last turn in which the agent used it.
    pub(super) acted: Option<u32>,
}

/// What was said and done so far in a segment.
#[derive(Default)]
pub struct History {
    /// The segment, and the first step that was not read.
    at: Option<(u32, u32)>,
    pub(super) said: FxHashMap<AtomId, Said>,
    /// Atoms of what stands in every prompt: the head, what is pinned, the log's own summary.
    pub(super) head: FxHashSet<AtomId>,
    pub(super) edited: FxHashSet<String>,
    pub(super) folders: BTreeSet<String>,
    /// Words of the user.
    pub(super) goal: FxHashSet<u64>,
    pub(super) n_steps: u32,
    pub(super) n_events: u32,
}

impl History {
    /// Reads on, up to the decision of a turn; another segment begins anew.
    pub fn read(&mut self, log: &Log, turn: u32) {
        let of = &log.turns[turn as usize];
        let (segment, decision) = (of.segment, of.decision.unwrap_or(of.steps.end));
        let from = match self.at {
            Some((known, from)) if known == segment => from,
            _ => self.begin(log, segment),
        };
        (from..decision).for_each(|step| self.see(log, step));
        self.at = Some((segment, decision.max(from)));
    }

    /// What stands at the beginning of a segment; its first step.
    fn begin(&mut self, log: &Log, segment: u32) -> u32 {
        *self = History::default();
        let head: Vec<u32> = log.turns[..log.turns.len().min(1)]
            .iter()
            .flat_map(|t| t.steps.clone())
            .chain(log.pinned_before(segment))
            .collect();
        head.into_iter().for_each(|step| self.see(log, step));
        log.kept_in(segment).for_each(|step| self.see(log, step));
        first_step(log, segment)
    }

    fn see(&mut self, log: &Log, step: u32) {
        let logged = &log.trajectory.steps[step as usize];
        self.n_steps += 1;
        if logged.turn == 0 || log.is_pinned(step) || logged.kind == Kind::Compaction {
            self.head.extend(log.mentions_of_step(step).iter().map(|m| m.so_far));
        }
        if (logged.role, logged.kind) == (Role::User, Kind::Message) {
            words(beginning(&logged.text, GOAL_CHARS), &mut |hash| _ = self.goal.insert(hash));
        }
        if log.action_kinds[step as usize] == Some(ActionKind::EditFile)
            && let Some(path) = log.path_of(step)
        {
            self.folders.extend(path.rsplit_once('/').map(|(folder, _)| folder.to_owned()));
            self.edited.insert(path.to_owned());
        }
        let (turn, is_agent, is_call) = (logged.turn, logged.is_agent(), logged.kind == Kind::Action);
        for mention in log.mentions_of_step(step) {
            let said = self.said.entry(mention.so_far).or_insert_with(|| Said {
                first: turn,
                last: turn,
                ..Said::default()
            });
            if is_agent && mention.flags & DERIVED == 0 {
                let is_seen = said.mentions > 0 && said.last < turn;
                said.used += u32::from(is_seen && said.acted != Some(turn));
                said.needed += u32::from(is_seen && turn - said.last > TAIL);
                said.acted = Some(turn);
                said.thoughts += u32::from(!is_call);
                let in_body = mention.flags & BODY != 0;
                said.bodies += u32::from(in_body);
                if is_call && !in_body && said.last_action.replace(step) != Some(step) {
                    said.actions += 1;
                }
            }
            said.mentions += 1;
            said.last = turn;
            said.steps += u32::from(said.last_step.replace(step) != Some(step));
            said.last_by_agent = is_agent;
            match logged.role {
                Role::Tool => said.by_tool += 1,
                Role::Agent => said.by_agent += 1,
                Role::User => said.by_user += 1,
                Role::System => {}
            }
        }
    }
}

/// Where a segment begins behind the head.
pub(super) fn first_step(log: &Log, segment: u32) -> u32 {
    let turn = log.turns.partition_point(|turn| turn.segment < segment).max(1);
    log.turns.get(turn).map_or(log.n_steps() as u32, |turn| turn.steps.start)
}

/// Whether a path begins with one of these.
pub(super) fn begins_with_one(folders: &BTreeSet<String>, path: &str) -> bool {
    // What begins a text stands before it in the order; where the nearest before does not, no longer beginning than they
    // have in common can.
    let mut end = path.len();
    loop {
        let Some(before) = folders.range::<str, _>((Unbounded, Included(&path[..end]))).next_back() else {
            return false;
        };
        if path.starts_with(before.as_str()) {
            return true;
        }
        end = path.bytes().zip(before.bytes()).take_while(|(a, b)| a == b).count();
        while !path.is_char_boundary(end) {
            end -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_found_by_their_beginnings() {
        let folders = BTreeSet::from(["src/a", "src/ab/c", "tests"].map(str::to_owned));
        for (path, is) in [
            ("src/ab/x", true),
            ("src/b", false),
            ("tests", true),
            ("test", false),
            ("", false),
            ("z", false),
        ] {
            assert_eq!(begins_with_one(&folders, path), is, "{path}");
            assert_eq!(folders.iter().any(|f| path.starts_with(f.as_str())), is, "{path}");
        }
        assert!(begins_with_one(&BTreeSet::from([String::new()]), "x"));
    }

    #[test]
    fn what_was_used_and_needed_is_counted() {
        let log = Log::script(
            "user: mend the parser
             action: ls
             observation: the parser lives in src/parser.py there
             action: cat src/parser.py
             observation: ok
             agent: well
             agent: well
             agent: well
             agent: src/parser.py and src/parser.py
             agent: src/parser.py",
        );
        let mut history = History::default();
        let of = |history: &History| {
            let said = &history.said[&log.find_atom("src/parser.py").unwrap()];
            (said.mentions, said.steps, said.actions, said.thoughts, said.used, said.needed)
        };
        history.read(&log, 2);
        assert_eq!(of(&history), (1, 1, 0, 0, 0, 0));
        history.read(&log, 7);
        // The call uses it one turn after it was seen, the message four turns after that; its second mention is no new use.
        assert_eq!(of(&history), (4, 3, 1, 2, 2, 1));
        assert_eq!(history.n_steps, 9);
    }
}
