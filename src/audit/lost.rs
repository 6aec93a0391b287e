//! What was used later although it had been taken from the prompt, and what of it stood there by name alone.

use super::Bench;
use super::places::Places;
use super::stays::Stays;
use crate::context::log::Log;
use crate::context::needs::Need;
use crate::experiment::cell::Bridged;
use crate::text::atoms::AtomKind;
use crate::turns::actions::ActionKind;

/// Something that was used later, and that the compaction had taken from the prompt.
#[derive(Clone)]
pub struct Lost {
    pub atom: String,
    /// The line that says what it is, and its turn.
    pub line: String,
    pub stood: u32,
    /// The turn of its last mention, and the one whose reply used it.
    pub seen: u32,
    pub needed: u32,
    /// Steps until then that had named it: what stood in few is told apart by this session alone.
    pub n_steps: usize,
}

/// The same, where its name (of a path the last part) stood in a later prompt, without that line.
#[derive(Clone)]
pub struct NameAlone {
    pub lost: Lost,
    /// The turn that named it first behind the compaction; of the summary, that of the call before which it stands.
    pub named: u32,
}

/// The same, where a prompt since then holds what the log does not show, and perhaps that.
#[derive(Clone)]
pub struct Perhaps {
    pub lost: Lost,
    /// Whether its name stood in a file that had been read or edited before: some products put such files back.
    pub is_of_file: bool,
}

/// What one compaction took away of what was used later.
#[derive(Default)]
pub(super) struct Taken<'a> {
    /// With whether it had stood in a file.
    pub(super) lost: Vec<(&'a Need, bool)>,
    /// With the step that names it.
    pub(super) names_alone: Vec<(&'a Need, u32)>,
}

impl Bench<'_> {
    /// Whether the name of what is needed stood in the prompt as it was sent.
    pub(super) fn was_sent(&self, need: &Need, stays: &Stays, places: &Places) -> bool {
        let (log, until) = (self.log, self.step(need.turn));
        places.steps(&name_of(log, need)).iter().take_while(|step| **step < until).any(|&step| {
            let of = &log.trajectory.steps[step as usize];
            let is_edited = of.edit.as_ref().is_some_and(|edit| edit.from <= need.turn);
            !is_edited && (of.turn == 0 || of.segment == need.segment || stays.has(step))
        })
    }

    /// Whether the log shows what the first prompt of each segment holds.
    pub(super) fn whole(&self) -> Vec<bool> {
        let mut whole = vec![true; self.log.n_segments as usize];
        let segment = |turn: u32| self.log.turns[turn as usize].segment;
        let mut last = 0;
        for (at, decision) in self.sent.decisions.iter().enumerate() {
            let of = segment(decision.turn);
            if of != last {
                let decision = &self.sent.decisions[self.fallen(at)];
                whole[of as usize] = self.unseen.more(self.log, decision).is_none()
                    && self.unseen.is_known(self.log, decision);
                last = of;
            }
        }
        whole
    }

    /// Whether what was taken before a turn is known to have been in no prompt until it was needed: what a compaction puts into
    /// prompts the log may not show. `own` is whether that of this turn is one.
    pub(super) fn is_sure(&self, whole: &[bool], (turn, own): (u32, bool), needed: u32) -> bool {
        let segment = |turn: u32| self.log.turns[turn as usize].segment as usize;
        let from = segment(turn) + usize::from(!own);
        whole[from..=segment(needed)].iter().all(|is_whole| *is_whole)
    }

    /// Whether a step is of a call that read or edited a file.
    fn is_of_file(&self, step: u32) -> bool {
        let kind = |step: u32| self.log.action_kinds[step as usize];
        let kind = kind(step).or_else(|| kind(self.log.call_of(step)?));
        matches!(kind, Some(ActionKind::ReadFile | ActionKind::EditFile))
    }

    /// Whether one of these steps before a turn is of a file that was read or edited.
    pub(super) fn had_file(&self, steps: &[u32], turn: u32) -> bool {
        let until = self.step(turn);
        steps.iter().take_while(|step| **step < until).any(|&step| self.is_of_file(step))
    }

    /// Beside each compaction what it took away.
    pub(super) fn taken<'a>(&self, bridged: &'a Bridged, stays: &[&Stays]) -> anyhow::Result<Vec<Taken<'a>>> {
        let (log, events) = (&bridged.log, &bridged.run.events);
        let places = Places::of(self.log, bridged.lost.iter().map(|need| name_of(log, need)).collect())?;
        let told: Vec<u32> = events.iter().map(|event| self.told(self.step(event.turn))).collect();
        let mut all: Vec<Taken> = events.iter().map(|_| Taken::default()).collect();
        for need in &bridged.lost {
            if !is_name(&name_of(log, need)) {
                continue;
            }
            let steps = places.steps(&name_of(log, need));
            let first = events.partition_point(|event| event.turn <= need.turn - need.gap);
            let end = events.partition_point(|event| event.turn <= need.turn);
            // The first behind its last mention whose summary does not name it, else the first.
            let owner = (first..end).find(|&i| steps.binary_search(&told[i]).is_err());
            let Some(owner) = owner.or((first < end).then_some(first)) else { continue };
            if stays[owner].mention(log, need) || stays[owner].cut_says(log.span_text(need.cheapest)) {
                continue;
            }
            let next = steps.get(steps.partition_point(|step| *step < told[owner])).copied();
            let since = next.filter(|next| *next < self.step(need.turn));
            let stood = || stays[owner].steps.iter().copied().find(|step| steps.binary_search(step).is_ok());
            match since.or_else(stood) {
                Some(step) => all[owner].names_alone.push((need, step)),
                None => {
                    let is_of_file = self.had_file(steps, events[owner].turn);
                    all[owner].lost.push((need, is_of_file));
                }
            }
        }
        Ok(all)
    }
}

/// Fewer letters and digits name nothing: `#2` is the second of many lists.
const LEAST: usize = 3;

/// Whether it can be found again by its name.
pub(super) fn is_name(name: &str) -> bool {
    name.chars().filter(|c| c.is_alphanumeric()).count() >= LEAST
}

/// What one looks for to find what is needed.
pub(super) fn name_of(log: &Log, need: &Need) -> String {
    name(need.kind, log.atom(need.atom).text).to_owned()
}

/// Of a path its last part, of a key with a value the value. Branches and globs are no paths, and are written like them.
fn name(kind: AtomKind, atom: &str) -> &str {
    let is_path = || atom.contains('/') && !atom.contains(char::is_whitespace);
    let end = match kind {
        AtomKind::Path => atom.trim_end_matches('/').rsplit('/').next(),
        AtomKind::Quoted | AtomKind::Identifier if is_path() => atom.trim_end_matches('/').rsplit('/').next(),
        AtomKind::Number => atom.rsplit('=').next(),
        _ => None,
    };
    end.unwrap_or(atom)
}

pub(super) fn lost_of(log: &Log, need: &Need) -> Lost {
    let line = log.span_text(need.cheapest);
    // A path goes by its longest spelling in the whole log: told is the one that stood there.
    let mut atom = log.atom(need.atom).text;
    while let Some((_, rest)) =
        atom.split_once('/').filter(|_| need.kind == AtomKind::Path && !line.contains(atom))
    {
        atom = rest;
    }
    let seen = need.turn - need.gap;
    let mut steps: Vec<u32> =
        log.mentions_of_atom(need.atom).map(|mention| log.spans[mention.span as usize].step).collect();
    steps.retain(|&step| log.turn_of(step) <= seen);
    steps.dedup();
    Lost {
        atom: atom.to_owned(),
        line: line.to_owned(),
        stood: log.turn_of(log.spans[need.cheapest as usize].step),
        seen,
        needed: need.turn,
        n_steps: steps.len(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_like_a_path_is_named_by_its_last_part() {
        let of = [
            (AtomKind::Path, "src/a/b.rs", "b.rs"),
            (AtomKind::Path, "src/a/", "a"),
            (AtomKind::Quoted, "entire/sessions", "sessions"),
            (AtomKind::Quoted, "either / or that", "either / or that"),
            (AtomKind::Number, "port=8080", "8080"),
            (AtomKind::Url, "https://example.com/a", "https://example.com/a"),
        ];
        for (kind, atom, known) in of {
            assert_eq!(name(kind, atom), known);
        }
    }
}
