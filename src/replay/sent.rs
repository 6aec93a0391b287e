//! What the log says was sent: its prompts with every edit that it records, and which needs they served.
//!
//! The replay of strategy `as-sent` says both, so that it is the one account of what was sent.

use crate::context::Block;
use crate::context::log::Log;
use crate::context::needs::{Need, Needs};
use crate::replay::watch::{Counts, Watch};
use crate::replay::{Event, Observer, Recipe, replay};
use crate::strategies;
use crate::text::tokens::Tokenizer;
use crate::triggers;

/// What was sent over a whole log.
pub struct Sent {
    /// Tokens of all prompts together.
    pub tokens: u64,
    /// Per need, in their order: whether its atom stood anywhere in the prompt of its decision.
    pub supported: Vec<bool>,
}

impl Sent {
    /// # Errors
    /// The replay fails.
    pub fn of(log: &Log, needs: &Needs, tokenizer: &Tokenizer) -> anyhow::Result<Self> {
        let [none, nothing] = [toml::Table::new(), toml::Table::new()];
        let recipe =
            Recipe::one(strategies::build("as-sent", none)?, triggers::build("logged-edits", nothing)?, 0);
        // Without edits every need is served: nothing was removed since its last mention.
        let is_edited = log.trajectory.steps.iter().any(|step| step.edit.is_some());
        let watch = Watch::own(log, if is_edited { &needs.atoms } else { &[] });
        let list = if is_edited { &needs.list[..] } else { &[] };
        let mut reader =
            Reader { watch: &watch, needs: list, standing: Counts::new(watch.len()), supported: Vec::new() };
        let run = replay(log, &recipe, tokenizer, &Needs::default(), &mut reader)?;
        let mut supported = reader.supported;
        supported.resize(needs.list.len(), true);
        Ok(Sent { tokens: run.decisions.iter().map(|d| d.tokens_sent).sum(), supported })
    }
}

/// Looks for the atoms of needs in the prompts.
struct Reader<'a> {
    watch: &'a Watch<'a>,
    needs: &'a [Need],
    /// How often each atom stands in the prompt.
    standing: Counts,
    supported: Vec<bool>,
}

impl Observer for Reader<'_> {
    fn reset(&mut self) {
        self.standing.clear();
    }

    fn appended(&mut self, step: u32) {
        self.standing.add_steps(self.watch, step..step + 1);
    }

    fn compressed(&mut self, before: &[Block], event: &Event, until: u32) {
        let standing = &mut self.standing;
        before.iter().for_each(|block| self.watch.in_block(block, until, &mut |w, b| standing.remove(w, b)));
        event
            .after
            .iter()
            .for_each(|block| self.watch.in_block(block, until, &mut |w, b| standing.add(w, b)));
    }

    fn decided(&mut self, _: u32, turn: u32) {
        while let Some(need) = self.needs.get(self.supported.len()).filter(|need| need.turn <= turn) {
            let stands = self.watch.index(need.atom).is_some_and(|w| self.standing.has(w, false));
            self.supported.push(stands);
        }
    }
}
