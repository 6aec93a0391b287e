//! The whole context is logged anew: a compaction where something of it is gone, else edits of results.

use std::collections::{HashMap, HashSet};

use super::{Draft, EMPTY_SUMMARY};
use crate::trajectory::{Kind, Role, Step};

/// What a step of the old context and one of the new one must share to be the same.
type Key<'a> = (Role, Kind, Option<&'a str>, &'a str);

fn key(step: &Step) -> Key<'_> {
    (step.role, step.kind, step.call_id.as_deref(), &step.text)
}

impl Draft {
    /// From here on the agent saw these steps instead of the past. Those that stand there already were kept; the others are
    /// what took the place of those that are gone.
    pub(crate) fn replace(&mut self, new: Draft) {
        self.losses.merge(&new.losses);
        let new = new.builder.finish();
        let live = self.live();
        let (old_of, kept) = self.compare(&live, &new);
        let results = new.iter().filter(|step| step.kind == Kind::Observation);
        let results: HashSet<&str> = results.filter_map(|step| step.call_id.as_deref()).collect();
        let is_gone = |at: &&usize| {
            let step = &self.builder.steps()[**at];
            let is_edited = step.kind == Kind::Observation
                && step.call_id.as_deref().is_some_and(|id| results.contains(id));
            step.turn > 0 && !kept.contains(at) && !is_edited
        };
        if live.iter().find(is_gone).is_none() {
            return self.go_on_with(new, &old_of);
        }
        let kept = self.whole_pairs(&live, kept);
        let is_new = |(step, old): &(&Step, &Option<usize>)| {
            let stays = |at: usize| kept.contains(&at) || self.builder.steps()[at].turn == 0;
            !old.is_some_and(stays) && !step.text.is_empty()
        };
        let texts: Vec<&str> =
            new.iter().zip(&old_of).filter(is_new).map(|(step, _)| step.text.as_str()).collect();
        self.compact(texts.join("\n\n"), kept);
    }

    /// A compaction that the log contains: from here on the agent saw `text`, and the steps that are kept, instead of the past.
    /// The newest steps are asked for first.
    pub(crate) fn compact_but(&mut self, text: String, mut keeps: impl FnMut(&Step) -> bool) {
        let live = self.live();
        let kept = live.iter().rev().copied().filter(|at| keeps(&self.builder.steps()[*at])).collect();
        self.compact(text, self.whole_pairs(&live, kept));
    }

    /// The steps of the current context, in order: the head, those that were kept, and those since the last compaction.
    fn live(&self) -> Vec<usize> {
        let steps = self.builder.steps();
        let segment = steps.last().map_or(0, |step| step.segment);
        let n = steps.iter().rev().take_while(|step| step.segment == segment).count();
        let head = steps.iter().take(steps.len() - n).take_while(|step| step.turn == 0).count();
        let kept = self.staying.iter().copied();
        (0..head).chain(kept.filter(|at| *at >= head)).chain(steps.len() - n..steps.len()).collect()
    }

    /// For each new step the old one that says the same, the newest ones first; and all of these that are found.
    fn compare(&self, live: &[usize], new: &[Step]) -> (Vec<Option<usize>>, HashSet<usize>) {
        let mut known: HashMap<Key<'_>, Vec<usize>> = HashMap::new();
        for at in live {
            known.entry(key(&self.builder.steps()[*at])).or_default().push(*at);
        }
        let mut old_of: Vec<_> =
            new.iter().rev().map(|step| known.get_mut(&key(step)).and_then(Vec::pop)).collect();
        old_of.reverse();
        let kept = old_of.iter().flatten().copied().collect();
        (old_of, kept)
    }

    /// Nothing is gone: results with another text were edited, what is new is said here.
    fn go_on_with(&mut self, new: Vec<Step>, old_of: &[Option<usize>]) {
        let place = self.place();
        let mut turn = None;
        for (mut step, _) in new.into_iter().zip(old_of).filter(|(_, old)| old.is_none()) {
            if step.is_agent() && turn.replace(step.turn) != Some(step.turn) {
                self.begin_call();
                self.usage(step.usage.take().map(|usage| *usage));
            }
            self.at(place.0, step.time.or(place.1));
            match (step.kind, step.call_id.take()) {
                (Kind::Observation, Some(id)) if self.edit_result(&id, &step.text) => {}
                (Kind::Observation, id) => {
                    self.result_by(step.role, id.as_deref(), step.tool, step.text, step.is_error);
                }
                (Kind::Action, id) => {
                    self.action_as(step.tool.unwrap_or_default(), step.text, step.arguments, id);
                }
                _ => self.push(step),
            }
        }
        self.at(place.0, place.1);
    }

    /// Without calls of which a result is gone, and results of which the call is.
    fn whole_pairs(&self, live: &[usize], mut kept: HashSet<usize>) -> HashSet<usize> {
        let steps = self.builder.steps();
        let id = |at: &usize| steps[*at].call_id.as_deref();
        let parted: HashSet<&str> =
            live.iter().filter(|at| !kept.contains(at) && steps[**at].turn > 0).filter_map(id).collect();
        kept.retain(|at| !id(at).is_some_and(|id| parted.contains(id)));
        kept
    }

    fn compact(&mut self, text: String, kept: HashSet<usize>) {
        if text.is_empty() {
            self.losses.add(EMPTY_SUMMARY);
        }
        let steps = self.builder.steps_mut();
        let segment = steps.last().map_or(0, |step| step.segment) + 1;
        let mut staying: Vec<usize> = kept.into_iter().filter(|at| steps[*at].turn > 0).collect();
        staying.sort_unstable();
        staying.iter().for_each(|at| steps[*at].kept_to = Some(segment));
        self.staying = staying;
        self.compaction(text);
    }
}
