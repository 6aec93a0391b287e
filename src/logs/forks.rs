//! Beginnings that several sessions have: a fork starts with copies of what was said in the session that it came from.
//!
//! The first session that is read holds what was said there. The others were sent it and did not do it again: of them it is
//! context, in the head of the run, as copied context is in other formats. So each turn counts once.

use std::collections::{BTreeMap, HashMap};

use crate::store::TrajectoryRow;
use crate::trajectory::{Kind, Role, Step, Trajectory};

use super::part::Run;
use super::sessions::{GoneSession, Hashes, is_timed, with_time};

/// What sessions began with, by the origin that they share and the hash of all steps up to one; and the input that said it first.
/// There may be many steps, so an entry is small.
#[derive(Default)]
pub(super) struct Forks {
    first: HashMap<u64, u32>,
    /// Of inputs that are not there any more, the session that is known: read again, it takes its own place.
    gone: HashMap<u32, String>,
}

fn key(origin: u128, up_to: u128) -> u64 {
    (origin ^ up_to) as u64
}

/// A run without what another one holds.
pub(super) enum Forked {
    Run(Run),
    /// The input with a session that begins with all of it.
    Whole(Box<Run>, usize),
}

impl Forks {
    /// Takes note of the sessions that are known of files which are not there any more.
    pub(super) fn know_gone(&mut self, sessions: &HashMap<usize, GoneSession>) {
        for (input, session) in sessions {
            let origin = if session.is_timed { 0 } else { session.origin };
            self.know(origin, &session.up_to, *input);
            self.gone.insert(*input as u32, session.source_key.clone());
        }
    }

    fn know(&mut self, origin: u128, up_to: &[u128], input: usize) {
        for hash in up_to {
            self.first.entry(key(origin, *hash)).or_insert(input as u32);
        }
    }

    /// Takes the next run of an input. `origin`: that of a session which begins like another one.
    pub(super) fn take(
        &mut self,
        origin: Option<u128>,
        run: Run,
        input: usize,
        losses: &mut BTreeMap<String, u64>,
    ) -> Forked {
        let is_timed = origin.is_none() && is_timed(&run.row.format);
        if run.row.parent.is_some() || origin.is_none() && !is_timed {
            return Forked::Run(run);
        }
        let origin = origin.unwrap_or(0);
        let up_to =
            chain(&run.steps, &|step| with_time(step.tool.as_deref(), step.time.filter(|_| is_timed)));
        let by_calls = match is_timed {
            true => chain(&run.steps, &|step| step.call_id.as_deref().unwrap_or("").to_owned()),
            false => Vec::new(),
        };
        let known = |origin: u128, hash: &u128| {
            let input = *self.first.get(&key(origin, *hash))?;
            (self.gone.get(&input) != Some(&run.row.source_key)).then_some(input as usize)
        };
        let n_known =
            |origin: u128, of: &[u128]| of.iter().take_while(|hash| known(origin, hash).is_some()).count();
        let n = n_known(origin, &up_to);
        // A fork that has other times has the ids of the calls that it copied.
        let n_by_calls = n_known(BY_CALLS, &by_calls);
        let is_copied = n_by_calls > n && run.steps[..n_by_calls].iter().any(has_own_id);
        let (n, from, of) = if is_copied { (n_by_calls, BY_CALLS, &by_calls) } else { (n, origin, &up_to) };
        let first = n.checked_sub(1).and_then(|last| known(from, &of[last]));
        self.know(origin, &up_to, input);
        self.know(BY_CALLS, &by_calls, input);
        let n = whole_turns(&run.steps, n);
        let shared = &run.steps[..n];
        let is_told = !is_timed || is_copied || shared.iter().all(|step| step.time.is_some());
        if !is_told || !shared.iter().any(Step::is_agent) {
            return Forked::Run(run);
        }
        match first.filter(|_| n == run.steps.len()) {
            Some(first) => Forked::Whole(Box::new(run), first),
            None => Forked::Run(forked(run, n, losses)),
        }
    }
}

/// The origin of what is told by the ids of calls.
const BY_CALLS: u128 = 1;

/// For each step the hash of all up to it, with what tells it from others of the same words.
fn chain(steps: &[Step], mark: &dyn Fn(&Step) -> String) -> Vec<u128> {
    let mut hashes = Hashes::default();
    for step in steps {
        hashes.add(step.role.name(), step.kind.name(), &step.text, Some(&mark(step)));
    }
    hashes.up_to
}

/// Whether it is a call whose id no other session has. Names and numbers, as `functions.bash:0`, come again in any.
fn has_own_id(step: &Step) -> bool {
    let id = step.call_id.as_deref().filter(|_| step.kind == Kind::Action).unwrap_or_default();
    id.split(|c: char| !c.is_ascii_alphanumeric()).any(|part| {
        let n_digits = part.bytes().filter(u8::is_ascii_digit).count();
        part.len() >= 8 && n_digits > 0 && (n_digits < part.len() || n_digits >= 12)
    })
}

/// So many of the first `n` steps as are whole turns, and words before a reply.
fn whole_turns(steps: &[Step], n: usize) -> usize {
    let Some(next) = steps.get(n) else { return n };
    let of_turn = steps[..n].iter().rev().take_while(|step| step.turn == next.turn);
    let is_cut = of_turn.clone().any(|step| step.is_agent() || step.kind == Kind::Observation);
    if is_cut { n - of_turn.count() } else { n }
}

/// The run of which the first `n` steps are context.
fn forked(run: Run, n: usize, losses: &mut BTreeMap<String, u64>) -> Run {
    let Run { mut row, mut steps, log_id } = run;
    let source_key = std::mem::take(&mut row.source_key);
    let is_named_by_file = log_id != row.trajectory;
    let own = steps.split_off(n);
    let n_before = steps.len() as u64;
    let replies = own.iter().position(Step::is_agent);
    let turn = replies.map_or_else(|| steps[n - 1].turn + 1, |at| own[at].turn);
    let segment = steps[n - 1].segment;
    let mut all: Vec<Step> = steps.into_iter().filter_map(|step| context(step, turn, segment)).collect();
    let mut add = |what: &str, n: u64| {
        if n > 0 {
            *losses.entry(what.to_owned()).or_default() += n;
        }
    };
    add("step that the fork of a session was not sent any more left out", n_before - all.len() as u64);
    add("step of a session that a fork was sent kept as context", all.len() as u64);
    all.extend(renumbered(own, turn, segment));
    let mut trajectory = Trajectory { is_named_by_file, ..Trajectory::from(row) };
    trajectory.steps = all;
    trajectory.id = trajectory.content_id();
    let row = TrajectoryRow { source_key, ..TrajectoryRow::from(&trajectory) };
    Run { row, log_id: trajectory.log_id(), steps: trajectory.steps }
}

/// A step as the fork was sent it; `turn` is the fork's first one, `segment` that in which it parted.
fn context(mut step: Step, turn: u32, segment: u32) -> Option<Step> {
    if step.turn > 0 && step.segment < segment && step.kept_to.is_none_or(|to| to < segment) {
        return None;
    }
    if let Some(edit) = step.edit.take_if(|edit| edit.from <= turn) {
        step.text = edit.text;
    }
    if step.text.is_empty() {
        return None;
    }
    if let Some(edit) = &mut step.edit {
        edit.from -= turn - 1;
    }
    if step.turn > 0 {
        (step.role, step.kind) = match (step.role, step.kind) {
            (Role::User, Kind::Message | Kind::Observation) => (Role::User, Kind::Message),
            _ => (Role::System, Kind::Demonstration),
        };
        (step.tool, step.call_id, step.arguments, step.is_error) = (None, None, None, None);
    }
    (step.turn, step.segment, step.kept_to, step.usage, step.model) = (0, 0, None, None, None);
    Some(step)
}

/// The fork's own steps, as those of a run that begins with them.
fn renumbered(mut own: Vec<Step>, turn: u32, segment: u32) -> Vec<Step> {
    let is_action = |step: &&Step| step.kind == Kind::Action;
    let calls: std::collections::HashSet<Box<str>> =
        own.iter().filter(is_action).filter_map(|step| step.call_id.clone()).collect();
    let mut is_head = true;
    for step in &mut own {
        is_head &= !step.is_agent() && step.kind != Kind::Compaction;
        step.turn = if is_head { 0 } else { (step.turn + 1).saturating_sub(turn).max(1) };
        step.segment -= segment;
        step.kept_to = step.kept_to.map(|to| to.saturating_sub(segment)).filter(|_| !is_head);
        if let Some(edit) = &mut step.edit {
            edit.from = (edit.from + 1).saturating_sub(turn).max(1);
        }
        // The result of a call that stands before.
        step.call_id.take_if(|id| !calls.contains(id));
    }
    own
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trajectory::{Builder, LoggedEdit, step};

    /// Steps: `u` words, `a` a reply, `o` a result, `c` a compaction, each with its letter's number.
    fn steps(text: &str) -> Vec<Step> {
        let mut builder = Builder::new();
        for word in text.split(' ') {
            let (role, kind) = match &word[..1] {
                "u" => (Role::User, Kind::Message),
                "a" => (Role::Agent, Kind::Action),
                "c" => (Role::User, Kind::Compaction),
                _ => (Role::Tool, Kind::Observation),
            };
            if word.starts_with('a') {
                builder.begin_call();
            }
            let call_id = (kind != Kind::Message).then(|| word[1..].into());
            builder.push(Step { call_id, time: Some(7), ..step(role, kind, word) });
        }
        builder.finish()
    }

    fn run(steps: Vec<Step>) -> Run {
        let mut trajectory = Trajectory { format: "codex".to_owned(), steps, ..Trajectory::default() };
        trajectory.id = trajectory.content_id();
        let row = TrajectoryRow::from(&trajectory);
        Run { row, log_id: trajectory.log_id(), steps: trajectory.steps }
    }

    fn told(of: Forked) -> String {
        let Forked::Run(run) = of else { return "whole".to_owned() };
        assert_eq!(run.row.n_steps as usize, run.steps.len());
        let one = |s: &Step| {
            let kind = if s.kind == Kind::Demonstration { "*" } else { "" };
            format!("{}.{}{kind} {}", s.segment, s.turn, s.text)
        };
        run.steps.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn turns_before_a_fork_are_context() {
        let mut losses = BTreeMap::new();
        let mut forks = Forks::default();
        let mut take = |text: &str| told(forks.take(Some(1), run(steps(text)), 0, &mut losses));
        assert_eq!(take("u1 a1 o1 a2 o2 u2 a3"), "0.0 u1; 0.1 a1; 0.1 o1; 0.2 a2; 0.2 o2; 0.3 u2; 0.3 a3");
        // Other words behind the second reply.
        assert_eq!(
            take("u1 a1 o1 a2 o2 u3 a4 o4"),
            "0.0 u1; 0.0* a1; 0.0* o1; 0.0* a2; 0.0* o2; 0.0 u3; 0.1 a4; 0.1 o4"
        );
        // The same words and another reply; another result of the second call.
        assert_eq!(
            take("u1 a1 o1 a2 o2 u2 a5"),
            "0.0 u1; 0.0* a1; 0.0* o1; 0.0* a2; 0.0* o2; 0.0 u2; 0.1 a5"
        );
        assert_eq!(take("u1 a1 o1 a2 o3 a6"), "0.0 u1; 0.0* a1; 0.0* o1; 0.1 a2; 0.1 o3; 0.2 a6");
        assert_eq!(take("u1 a1 o1 a2 o2"), "whole");
        // The task alone is no turn; a compaction took the first ones away.
        assert_eq!(take("u1 a9"), "0.0 u1; 0.1 a9");
        take("u1 a1 o1 c1 a7 o7 a8");
        assert_eq!(take("u1 a1 o1 c1 a7 o7 c2 a9"), "0.0 u1; 0.0* c1; 0.0* a7; 0.0* o7; 1.1 c2; 1.1 a9");
        assert_eq!(losses["step that the fork of a session was not sent any more left out"], 2);
        // Of another origin, nothing is shared.
        assert!(
            told(forks.take(Some(2), run(steps("u1 a1 o1 a2")), 0, &mut losses))
                .starts_with("0.0 u1; 0.1 a1")
        );
    }

    /// Copies with new times are told by the ids of calls, where these are random.
    #[test]
    fn a_fork_with_other_times_is_told_by_its_calls() {
        let (mut forks, mut losses) = (Forks::default(), BTreeMap::new());
        let mut take = |text: &str, id: &str, time: i64| {
            let mut steps = steps(text);
            for step in &mut steps {
                step.time = Some(time);
                step.call_id = step.call_id.take().map(|n| format!("{id}{n}").into());
            }
            let mut run = run(steps);
            run.row.format = "opencode-events".to_owned();
            told(forks.take(None, run, 0, &mut losses))
        };
        take("u1 a1 o1 a2 o2", "toolu_01Xk9Qz7", 1);
        assert_eq!(take("u1 a1 o1 u3 a4", "toolu_01Xk9Qz7", 2), "0.0 u1; 0.0* a1; 0.0* o1; 0.0 u3; 0.1 a4");
        // The same words under other ids, and under numbers, are another session.
        assert!(take("u1 a1 o1 u3 a4", "toolu_01Bv4Rt2", 3).contains("0.1 a1"));
        for (i, number) in ["call-", "functions.bash:", "bash:", "call_00"].iter().enumerate() {
            take("u1 a1 o1", number, 4 + 2 * i as i64);
            assert!(take("u1 a1 o1 u3 a4", number, 5 + 2 * i as i64).contains("0.1 a1"), "{number}");
        }
    }

    #[test]
    fn edits_and_results_of_a_fork_stay_where_they_were() {
        let mut first = steps("u1 a1 o1 a2 o2 a3 a4");
        first[2].edit = Some(Box::new(LoggedEdit { from: 3, text: "cleared".to_owned() }));
        first[4].edit = Some(Box::new(LoggedEdit { from: 4, text: String::new() }));
        let mut fork = first.clone();
        fork.truncate(5);
        fork.extend(steps("u a a a9 a10 o10").split_off(3));
        fork[5].edit = Some(Box::new(LoggedEdit { from: 5, text: "x".to_owned() }));
        let (mut forks, mut losses) = (Forks::default(), BTreeMap::new());
        forks.take(Some(1), run(first), 0, &mut losses);
        let Forked::Run(run) = forks.take(Some(1), run(fork), 1, &mut losses) else { panic!() };
        let edits: Vec<_> =
            run.steps.iter().map(|s| s.edit.as_ref().map(|e| (e.from, e.text.as_str()))).collect();
        assert_eq!(run.steps[2].text, "cleared");
        assert_eq!(edits, [None, None, None, None, Some((2, "")), Some((3, "x")), None, None]);
        assert_eq!(run.steps[7].call_id.as_deref(), Some("10"));
    }
}
