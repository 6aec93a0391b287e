//! The whole context is logged anew: a compaction where something of it is gone, else edits of results.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Draft, EMPTY_SUMMARY};
use crate::trajectory::{Kind, Role, Step};

/// What a step of the old context and one of the new one must share to be the same.
type Key<'a> = (Role, Kind, Option<&'a str>, &'a str);

fn key(step: &Step) -> Key<'_> {
    (step.role, step.kind, step.call_id.as_deref(), &step.text)
}

fn digest(step: &Step) -> u64 {
    let mut hasher = DefaultHasher::new();
    key(step).hash(&mut hasher);
    hasher.finish()
}

impl Draft {
    /// From here on the agent saw these steps instead of the past. Those that stand there already were kept; the others are
    /// what took the place of those that are gone.
    pub(crate) fn replace(&mut self, new: Draft) {
        self.losses.merge(&new.losses);
        self.learn_head();
        let live = self.live();
        let (new, old_of) = self.compare(&live, new.builder.finish());
        let edited = self.edited(&live, &new, &old_of);
        let mut kept: HashSet<usize> = old_of.iter().chain(&edited).flatten().copied().collect();
        kept.extend(self.awaited(&live, &new));
        if live.iter().all(|at| kept.contains(at)) {
            return self.go_on_with(new, &old_of);
        }
        let mut kept = self.whole_pairs(&live, kept);
        // What an older summary says stands in the new one.
        kept.retain(|at| self.builder.steps()[*at].kind != Kind::Compaction);
        let is_kept = |at: &Option<usize>| at.is_some_and(|at| kept.contains(&at));
        let is_new = |i: &usize| !is_kept(&old_of[*i]) && !is_kept(&edited[*i]) && !new[*i].text.is_empty();
        let texts: Vec<&str> = (0..new.len()).filter(is_new).map(|i| new[i].text.as_str()).collect();
        let shortened: Vec<(usize, &str)> = edited
            .iter()
            .zip(&new)
            .filter(|(at, _)| is_kept(at))
            .filter_map(|(at, step)| Some(((*at)?, step.text.as_str())))
            .collect();
        self.compact(texts.join("\n\n"), kept.clone());
        let from = self.builder.next_turn();
        for (at, text) in shortened {
            super::edit(&mut self.builder.steps_mut()[at], from, text);
        }
    }

    /// For each new step the result of the same call that stands in the old context with another text.
    fn edited(&self, live: &[usize], new: &[Step], old_of: &[Option<usize>]) -> Vec<Option<usize>> {
        let id = |step: &Step| step.call_id.clone().filter(|_| step.kind == Kind::Observation);
        let results = live.iter().filter_map(|at| Some((id(&self.builder.steps()[*at])?, *at)));
        let results: HashMap<Box<str>, usize> = results.collect();
        let one = |(step, old): (&Step, &Option<usize>)| match old {
            None => results.get(&id(step)?).copied(),
            Some(_) => None,
        };
        new.iter().zip(old_of).map(one).collect()
    }

    /// Results of the calls with which the new context ends: they come next, though they were logged before it.
    fn awaited(&self, live: &[usize], new: &[Step]) -> Vec<usize> {
        let calls = new.iter().rev().take_while(|step| step.is_agent());
        let calls: HashSet<&str> = calls.filter_map(|step| step.call_id.as_deref()).collect();
        let is_one = |at: &&usize| {
            let step = &self.builder.steps()[**at];
            step.kind == Kind::Observation && step.call_id.as_deref().is_some_and(|id| calls.contains(id))
        };
        live.iter().filter(is_one).copied().collect()
    }

    /// Notes what the head says, as far as that was not done.
    fn learn_head(&mut self) {
        let (n, said) = &mut self.head;
        for step in self.builder.steps()[*n..].iter().take_while(|step| step.turn == 0) {
            said.insert(digest(step));
            *n += 1;
        }
    }

    /// A compaction that the log contains: from here on the agent saw `text`, and the steps that are kept, instead of the past.
    /// The newest steps are asked for first.
    pub(crate) fn compact_but(&mut self, text: String, mut keeps: impl FnMut(&Step) -> bool) {
        let live = self.live();
        let kept = live.iter().rev().copied().filter(|at| keeps(&self.builder.steps()[*at])).collect();
        self.compact(text, self.whole_pairs(&live, kept));
    }

    /// The steps of the current context behind the head, in order: those that were kept, and those since the last compaction.
    fn live(&self) -> Vec<usize> {
        let steps = self.builder.steps();
        let segment = steps.last().map_or(0, |step| step.segment);
        let is_new = |step: &&Step| step.segment == segment && step.turn > 0;
        let n = steps.iter().rev().take_while(is_new).count();
        self.staying.iter().copied().chain(steps.len() - n..steps.len()).collect()
    }

    /// The new steps that the head does not say, and for each the old one that says the same, the newest ones first.
    fn compare(&self, live: &[usize], new: Vec<Step>) -> (Vec<Step>, Vec<Option<usize>>) {
        let mut known: HashMap<Key<'_>, Vec<usize>> = HashMap::new();
        for at in live {
            known.entry(key(&self.builder.steps()[*at])).or_default().push(*at);
        }
        let mut old_of: Vec<Option<usize>> =
            new.iter().rev().map(|step| known.get_mut(&key(step)).and_then(Vec::pop)).collect();
        old_of.reverse();
        self.find_summary(live, &new, &mut old_of);
        let is_said =
            |(step, old): &(Step, Option<usize>)| old.is_some() || !self.head.1.contains(&digest(step));
        new.into_iter().zip(old_of).filter(is_said).unzip()
    }

    /// The new steps that are the summary with which the current context begins.
    fn find_summary(&self, live: &[usize], new: &[Step], old_of: &mut [Option<usize>]) {
        let is_summary = |at: &&usize| self.builder.steps()[**at].kind == Kind::Compaction;
        let Some(&summary) = live.iter().find(is_summary) else {
            return;
        };
        let mut rest = self.builder.steps()[summary].text.as_str();
        let mut parts = Vec::new();
        for (i, step) in new.iter().enumerate().filter(|(i, _)| old_of[*i].is_none()) {
            if let Some(behind) = rest.strip_prefix(&step.text).filter(|_| !step.text.is_empty()) {
                rest = behind.strip_prefix("\n\n").unwrap_or(behind);
                parts.push(i);
            }
        }
        if rest.is_empty() {
            parts.into_iter().for_each(|i| old_of[i] = Some(summary));
        }
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
                    self.result_by(
                        step.role,
                        id.as_deref(),
                        step.tool.map(Into::into),
                        step.text,
                        step.is_error,
                    );
                }
                (Kind::Action, id) => {
                    let (tool, id) = (step.tool.unwrap_or_default().into(), id.map(Into::into));
                    self.action_as(tool, step.text, step.arguments.map(Into::into), id);
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
        let parted: HashSet<&str> = live.iter().filter(|at| !kept.contains(at)).filter_map(id).collect();
        kept.retain(|at| !id(at).is_some_and(|id| parted.contains(id)));
        kept
    }

    fn compact(&mut self, text: String, kept: HashSet<usize>) {
        if text.is_empty() {
            self.losses.add(EMPTY_SUMMARY);
        }
        let steps = self.builder.steps_mut();
        let segment = steps.last().map_or(0, |step| step.segment) + 1;
        let mut staying: Vec<usize> = kept.into_iter().collect();
        staying.sort_unstable();
        staying.iter().for_each(|at| steps[*at].kept_to = Some(segment));
        self.staying = staying;
        self.compaction(text);
    }
}
