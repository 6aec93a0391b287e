//! Tells the sessions in a file apart where each record names its own, as after logs were joined or sorted by time. A session that
//! was resumed or forked names several: their records hang on each other.

use std::collections::HashMap;

/// What a record says of its place.
#[derive(Default)]
pub(crate) struct Place<'a> {
    pub(crate) session: Option<&'a str>,
    pub(crate) uuid: Option<&'a str>,
    pub(crate) parents: [Option<&'a str>; 2],
    /// Something is said in it.
    pub(crate) is_said: bool,
    /// It goes on with what stands before it, whatever its parents are.
    pub(crate) goes_on: bool,
}

/// For each record the number of its run, in the order in which these begin; none if all are of one.
pub(crate) fn apart(records: &[Place<'_>]) -> Option<Vec<usize>> {
    let (of, n) = sessions(records);
    if n < 2 {
        return None;
    }
    let mut groups: Vec<usize> = (0..n).collect();
    let mut by_uuid: HashMap<&str, usize> = HashMap::new();
    let mut is_begun = vec![false; n];
    for (record, session) in records.iter().zip(&of) {
        let above = record.parents.iter().flatten().find_map(|parent| by_uuid.get(parent).copied());
        let is_first = record.is_said && !std::mem::replace(&mut is_begun[*session], true);
        if let Some(above) = above {
            join(&mut groups, above, *session);
        } else if is_first && record.goes_on && *session > 0 {
            join(&mut groups, session - 1, *session);
        }
        if let Some(uuid) = record.uuid {
            by_uuid.entry(uuid).or_insert(*session);
        }
    }
    // What nothing is said in is no run.
    for session in (0..n).filter(|session| !is_begun[*session]) {
        join(&mut groups, session.checked_sub(1).unwrap_or(1), session);
    }
    // Each hangs on one that began before it.
    let (mut numbers, mut n_runs) = (vec![0; n], 0);
    for session in 0..n {
        numbers[session] = if groups[session] == session { n_runs } else { numbers[groups[session]] };
        n_runs += usize::from(groups[session] == session);
    }
    (n_runs > 1).then(|| of.into_iter().map(|session| numbers[session]).collect())
}

/// For each record the number of the session that it names, or that the one before it does; and how many these are.
fn sessions(records: &[Place<'_>]) -> (Vec<usize>, usize) {
    let mut by_name: HashMap<&str, usize> = HashMap::new();
    let mut newest = 0;
    let of = records.iter().map(|record| {
        if let Some(name) = record.session {
            let n = by_name.len();
            newest = *by_name.entry(name).or_insert(n);
        }
        newest
    });
    (of.collect(), by_name.len())
}

fn root(groups: &mut [usize], mut session: usize) -> usize {
    while groups[session] != session {
        groups[session] = groups[groups[session]];
        session = groups[session];
    }
    session
}

/// The one that began first names both.
fn join(groups: &mut [usize], a: usize, b: usize) {
    let (a, b) = (root(groups, a), root(groups, b));
    groups[a.max(b)] = a.min(b);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Session, uuid, parent; in a session in small letters nothing is said.
    fn runs(records: &[(&str, &str, &str)]) -> Option<Vec<usize>> {
        let some = |name| Some(name).filter(|name| *name != "");
        let places: Vec<Place<'_>> = records
            .iter()
            .map(|&(session, uuid, parent)| Place {
                session: some(session),
                uuid: some(uuid),
                parents: [some(parent), None],
                is_said: session.chars().all(char::is_uppercase),
                goes_on: parent == "-",
            })
            .collect();
        apart(&places)
    }

    #[test]
    fn sessions_are_apart_where_nothing_links_them() {
        assert_eq!(runs(&[("A", "1", ""), ("A", "2", "1"), ("", "", "")]), None);
        // One behind the other, and mixed.
        assert_eq!(
            runs(&[("A", "1", ""), ("A", "2", "1"), ("B", "3", ""), ("B", "4", "3")]),
            Some(vec![0, 0, 1, 1])
        );
        assert_eq!(
            runs(&[("A", "1", ""), ("B", "3", ""), ("A", "2", "1"), ("", "", "")]),
            Some(vec![0, 1, 0, 0])
        );
        // Resumed: the new session hangs on the old one, or goes on behind a compaction.
        assert_eq!(runs(&[("A", "1", ""), ("A", "2", "1"), ("B", "3", "2"), ("B", "4", "3")]), None);
        assert_eq!(runs(&[("A", "1", ""), ("B", "3", "-"), ("B", "4", "3")]), None);
        // Nothing is said under another name.
        assert_eq!(runs(&[("b", "", ""), ("A", "1", ""), ("c", "", ""), ("A", "2", "1")]), None);
        assert_eq!(runs(&[("A", "1", ""), ("b", "", ""), ("C", "3", "")]), Some(vec![0, 0, 1]));
    }
}
