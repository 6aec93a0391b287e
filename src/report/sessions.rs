//! The sessions of a run under one variant: what each lost, the worst first.

use std::collections::HashMap;
use std::path::Path;

use serde::Serialize;

use super::load::{Population, Run};
use super::statistics::pooled::Sets;
use crate::scores::retention::NEED_RETENTION;
use crate::store::{self, CellRow, Row as _, TrajectoryRow};

/// Sessions under a variant.
#[derive(Debug, Serialize)]
pub struct Sessions {
    /// Label of the variant.
    pub variant: String,
    /// Labels of the others.
    pub others: Vec<String>,
    /// Those that lose most first; then those that are longest.
    pub sessions: Vec<Session>,
}

/// A session under a variant.
#[derive(Debug, Default, Serialize)]
pub struct Session {
    pub trajectory: String,
    pub format: String,
    /// The task, as the log gives it in words, on one line, from where it is not that of others; its name where nothing is left.
    pub title: String,
    #[serde(skip)]
    task: Option<String>,
    pub turns: u32,
    /// Tokens of all prompts: with nothing compressed, and as sent.
    pub tokens_full: u64,
    pub tokens_sent: u64,
    pub events: u32,
    /// Needs that every variant is asked about, and those lost, each counted once; null where nothing was scored, or counted.
    pub needs: u64,
    pub lost: Option<u64>,
    /// Why it was not replayed, where it was not.
    pub error: Option<String>,
}

/// The sessions of a run under the variant of this label, its id, or the first whose label has this in it; without a name, the one
/// that somebody would run and that compresses most often.
pub fn sessions(folder: &Path, name: Option<&str>) -> anyhow::Result<Sessions> {
    let run = Run::open(folder, Population::These)?;
    let chosen = choose(&run, name)?;
    let variant = run.variants[chosen].variant.clone();
    let mut sessions: HashMap<String, Session> = HashMap::new();
    for row in store::read::<CellRow>(&folder.join(format!("{}.parquet", CellRow::TABLE)))? {
        if *row.variant == *variant {
            let session = Session {
                trajectory: row.trajectory.to_string(),
                tokens_full: row.tokens_full,
                tokens_sent: row.tokens_sent,
                events: row.n_events,
                error: row.error,
                ..Session::default()
            };
            sessions.insert(session.trajectory.clone(), session);
        }
    }
    for row in store::read::<TrajectoryRow>(&folder.join(format!("{}.parquet", TrajectoryRow::TABLE)))? {
        if let Some(session) = sessions.get_mut(&row.trajectory) {
            let goal: Vec<&str> = row.goal.iter().flat_map(|goal| goal.split_whitespace()).collect();
            session.title = goal.join(" ");
            (session.format, session.turns, session.task) = (row.format, row.n_turns, row.task_id);
        }
    }
    run.scores_of(Some(&[NEED_RETENTION.name]), |batch| {
        for (_, scores) in batch.into_iter().filter(|(i, _)| *i == chosen) {
            let common = Sets::of(&scores).common;
            for score in scores.get(&(NEED_RETENTION.name.to_owned(), common)).into_iter().flatten() {
                if let Some(session) = sessions.get_mut(&run.trajectories[score.trajectory as usize].id) {
                    session.needs = score.n;
                    session.lost = score.kept().map(|kept| score.n.saturating_sub(kept));
                }
            }
        }
        Ok(())
    })?;
    let mut sessions: Vec<Session> = sessions.into_values().collect();
    entitle(&mut sessions);
    sessions.sort_by(|a, b| {
        let by_length = || b.tokens_full.cmp(&a.tokens_full).then_with(|| a.trajectory.cmp(&b.trajectory));
        b.lost.cmp(&a.lost).then_with(by_length)
    });
    let label = |i: &usize| run.variants[*i].label.clone();
    let others = (0..run.variants.len()).filter(|i| *i != chosen).map(|i| label(&i)).collect();
    Ok(Sessions { variant: label(&chosen), others, sessions })
}

/// Titles that tell sessions apart: many agents put the same words before every task, which are left out; where nothing is left
/// the name of the task stands there.
fn entitle(sessions: &mut [Session]) {
    /// Sessions that begin alike, and characters that they share, before that is no chance.
    const ALIKE: usize = 3;
    const SHARED: usize = 20;
    let mut order: Vec<usize> = (0..sessions.len()).collect();
    order.sort_by(|&a, &b| sessions[a].title.cmp(&sessions[b].title));
    let title = |place: usize| order.get(place).map_or("", |&i| &sessions[i].title);
    // What the first and the last of so many in order share, all between them do.
    let window = |first: usize| {
        let both =
            title(first).char_indices().zip(title(first + ALIKE).chars()).take_while(|((_, a), b)| a == b);
        both.map(|((at, c), _)| at + c.len_utf8()).last().unwrap_or(0)
    };
    let windows: Vec<usize> = (0..order.len()).map(window).collect();
    let shared = |place: usize| {
        let end = windows[place.saturating_sub(ALIKE)..=place].iter().copied().max().unwrap_or(0);
        let title = title(place);
        // Words stay whole.
        if end == title.len() { end } else { title[..end].rfind(' ').map_or(0, |at| at + 1) }
    };
    let ends: Vec<usize> = (0..order.len()).map(shared).collect();
    for (&i, &end) in order.iter().zip(&ends) {
        let session = &mut sessions[i];
        let rest = session.title[end..].to_owned();
        match session.task.take() {
            Some(task) if rest.is_empty() => session.title = task,
            _ if end >= SHARED && !rest.is_empty() => session.title = format!("\u{2026}{rest}"),
            _ => {}
        }
    }
}

fn choose(run: &Run, name: Option<&str>) -> anyhow::Result<usize> {
    let variants = &run.variants;
    let Some(name) = name else {
        let events = |i: &usize| (!variants[*i].control, run.events[*i].len(), std::cmp::Reverse(*i));
        return Ok((0..variants.len()).max_by_key(events).unwrap_or(0));
    };
    let whole = variants.iter().position(|v| v.label == name || v.variant == name);
    whole.or_else(|| variants.iter().position(|v| v.label.contains(name))).ok_or_else(|| {
        let labels: Vec<&str> = variants.iter().map(|v| v.label.as_str()).collect();
        anyhow::anyhow!("no variant `{name}` in this run\nhint: it has {}", labels.join(", "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::statistics::synthetic::{TINY, write_run};

    #[test]
    fn titles_tell_sessions_apart() {
        let session = |title: &str| Session {
            title: title.to_owned(),
            task: Some("t".to_owned()),
            ..Session::default()
        };
        let words = "You are given the following issue: ";
        let issues = ["the door", "a roof", "walls", "the d\u{f6}ner", "a rope"]
            .map(|issue| format!("{words}{issue}"));
        let plain = ["Make it blue", "Make it red", ""].map(str::to_owned);
        let mut all: Vec<Session> = issues.iter().chain(&plain).map(|title| session(title)).collect();
        entitle(&mut all);
        let told: Vec<&str> = all.iter().map(|s| s.title.as_str()).collect();
        let rest = [
            "\u{2026}the door",
            "\u{2026}a roof",
            "\u{2026}walls",
            "\u{2026}the d\u{f6}ner",
            "\u{2026}a rope",
        ];
        assert_eq!(told, [&rest[..], &["Make it blue", "Make it red", "t"]].concat());
        // The same task over and over is told by its name.
        let mut same: Vec<Session> = (0..5).map(|_| session("Fix it")).collect();
        entitle(&mut same);
        assert!(same.iter().all(|s| s.title == "t"));
    }

    #[test]
    fn the_session_that_loses_most_comes_first() {
        let dir = tempfile::tempdir().unwrap();
        write_run(dir.path(), &TINY, 12, 4);
        let of = |name| sessions(dir.path(), name).unwrap();
        // Both choices compress twice a session, but one session of `truncate` failed.
        let first = of(None);
        assert_eq!((first.variant.as_str(), first.others.len()), ("mask(keep_last=10) @ turns(n=10)", 3));
        let lost: Vec<u64> = first.sessions.iter().map(|s| s.lost.unwrap()).collect();
        assert_eq!(lost.len(), 12);
        assert!(lost.is_sorted_by(|a, b| a >= b) && lost[0] > 0, "{lost:?}");
        assert!(first.sessions.iter().all(|s| s.turns == 30 && s.events == 1 && s.needs > 0));
        let failed = of(Some("truncate"));
        let last = failed.sessions.last().unwrap();
        assert_eq!((last.error.as_deref(), last.lost), (Some("step 7: no such block"), None));
        let error = sessions(dir.path(), Some("nobody")).unwrap_err().to_string();
        assert!(
            error.starts_with("no variant `nobody` in this run\nhint: it has full @ never, mask"),
            "{error}"
        );
    }
}
