//! Parts of the sessions that are looked at alone: by how long they are, and by the agent.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::load::Trajectory;
use crate::scores::money::{COST_SAVINGS, TOKEN_SAVINGS};
use crate::text::natural::natural;

/// What is told of a part.
pub(crate) const PART_METRICS: [&str; 3] = [TOKEN_SAVINGS.name, COST_SAVINGS.name, "need_retention_common"];
/// Agents that have a part of their own; the others share one.
const AGENTS: usize = 12;

/// Some of the sessions.
#[derive(Debug, PartialEq)]
pub(crate) struct Part {
    /// What they have in common: `length` or `agent`.
    pub(crate) by: &'static str,
    pub(crate) name: String,
    /// Which of the run's they are.
    pub(crate) members: Vec<bool>,
}

impl Part {
    pub(crate) fn n(&self) -> usize {
        self.members.iter().filter(|is| **is).count()
    }
}

/// The parts of these sessions; none by what all have in common, and none by agent where formats say the same.
pub(super) fn of(sessions: &[Trajectory]) -> Vec<Part> {
    let all = [lengths(sessions), agents(sessions)].into_iter();
    all.filter(|parts| parts.len() > 1).flatten().collect()
}

/// Thirds by turns: as many sessions in each, as far as equal ones can be parted.
fn lengths(sessions: &[Trajectory]) -> Vec<Part> {
    let mut turns: Vec<u32> = sessions.iter().map(|s| s.n_turns).collect();
    turns.sort_unstable();
    let Some((&least, &most)) = turns.first().zip(turns.last()) else { return Vec::new() };
    let mut firsts = vec![least, turns[turns.len() / 3], turns[2 * turns.len() / 3]];
    firsts.dedup();
    let ends = firsts[1..].iter().map(|next| next - 1).chain([most]);
    let part = |(first, last): (&u32, u32)| {
        let name = if *first == last { last.to_string() } else { format!("{first} to {last}") };
        let members = sessions.iter().map(|s| (*first..=last).contains(&s.n_turns)).collect();
        Part { by: "length", name: format!("{name} turns"), members }
    };
    firsts.iter().zip(ends).map(part).collect()
}

fn agents(sessions: &[Trajectory]) -> Vec<Part> {
    const UNKNOWN: &str = "not logged";
    let name = |s: &Trajectory| s.agent.clone().unwrap_or_else(|| UNKNOWN.to_owned());
    let mut by_name: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (i, session) in sessions.iter().enumerate() {
        by_name.entry(name(session)).or_default().push(i);
    }
    // Where an agent is a format, the table by format has said it.
    let formats: BTreeSet<(String, &str)> = sessions.iter().map(|s| (name(s), s.format.as_str())).collect();
    let of_format: BTreeSet<&str> = formats.iter().map(|(_, format)| *format).collect();
    if formats.len() == by_name.len() && formats.len() == of_format.len() {
        return Vec::new();
    }
    let mut all: Vec<(String, Vec<usize>)> = by_name.into_iter().collect();
    all.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| natural(&a.0, &b.0)));
    if all.len() > AGENTS {
        let rest: Vec<usize> =
            all.split_off(AGENTS - 1).into_iter().flat_map(|(_, members)| members).collect();
        all.push(("all others".to_owned(), rest));
    }
    let part = |(name, indices): (String, Vec<usize>)| {
        let mut members = vec![false; sessions.len()];
        indices.into_iter().for_each(|i| members[i] = true);
        Part { by: "agent", name, members }
    };
    all.into_iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(n_turns: u32, agent: Option<&str>, format: &str) -> Trajectory {
        Trajectory {
            id: String::new(),
            format: format.to_owned(),
            agent: agent.map(str::to_owned),
            n_turns,
            cluster: 0,
            resolved: None,
            reward: None,
            is_cached_an_hour: false,
            source_key: String::new(),
            content: String::new(),
            weight: 1.0,
        }
    }

    fn names(sessions: &[Trajectory]) -> Vec<(String, usize)> {
        of(sessions).iter().map(|part| (part.name.clone(), part.n())).collect()
    }

    #[test]
    fn sessions_are_parted_by_length_and_agent() {
        let agents = [Some("a"), Some("a"), None, Some("b"), Some("b"), Some("b")];
        let all: Vec<Trajectory> = [9, 1, 1, 4, 30, 4]
            .into_iter()
            .zip(agents)
            .map(|(turns, agent)| session(turns, agent, "f"))
            .collect();
        let own = |name: &str, n| (name.to_owned(), n);
        let lengths = [own("1 to 3 turns", 2), own("4 to 8 turns", 2), own("9 to 30 turns", 2)];
        assert_eq!(names(&all), [&lengths[..], &[own("b", 3), own("a", 2), own("not logged", 1)]].concat());
        // Nothing to part: all are alike, or formats say it.
        assert_eq!(names(&[session(3, None, "f"), session(3, None, "f")]), []);
        assert_eq!(names(&[session(3, Some("a"), "f"), session(3, Some("b"), "g")]), []);
    }

    #[test]
    fn rare_agents_share_a_part() {
        let all: Vec<Trajectory> = (0..20).map(|i| session(3, Some(&format!("agent {i}")), "f")).collect();
        let parts = names(&all);
        assert_eq!((parts.len(), parts.last().unwrap().clone()), (AGENTS, ("all others".to_owned(), 9)));
    }
}
