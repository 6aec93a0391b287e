//! Computes the rows of a unit: each of its trajectories under each of its variants.
//!
//! What depends on the trajectory alone (its log, its questions, what of it stands in its partners)
//! is made once and shared by all variants.

use std::collections::HashMap;
use std::sync::Arc;

use super::dataset::Dataset;
use super::plan::{Plan, Variant};
use super::replay::{Recipe, Run, replay};
use super::shadow::Caster;
use super::units::{Unit, UnitRows};
use crate::features::tokens::Tokenizer;
use crate::log::Log;
use crate::scorers::chance::{Journal, Partner};
use crate::scorers::retention::{Ledger, Questions};
use crate::scorers::{Rows, discard, money, retention};
use crate::store::{CellRow, EventRow, TimelineRow};
use crate::watch::{Watch, cue_sets};
use crate::{strategies, triggers};

/// Kind of the partners that chance is measured with.
const PARTNER_KIND: &str = "other_repository";
/// Prepared trajectories kept for reuse as partners.
const MAX_PREPARED: usize = 128;
/// Steps that they may have together.
const MAX_PREPARED_STEPS: usize = 20_000;

/// A trajectory ready for replay.
struct Prepared {
    log: Log,
    questions: Questions,
}

/// Computes the rows of a unit; tells the step-variants done since it last told.
pub fn run_unit(
    data: &Dataset,
    unit: &Unit,
    plan: &Plan,
    progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<UnitRows> {
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let recipes: Vec<anyhow::Result<Recipe>> = unit.variants.iter().map(recipe).collect();
    let mut shelf = Shelf { data, plan, prepared: HashMap::new(), steps: 0 };
    let mut rows = UnitRows::default();
    for &index in &unit.trajectories {
        let own = shelf.get(index)?;
        let partners: Vec<Arc<Prepared>> = data
            .partners(index)
            .filter(|p| p.kind == PARTNER_KIND)
            .map(|p| shelf.get(p.index))
            .collect::<anyhow::Result<_>>()?;
        let scene = Scene::new(&own, &partners);
        for (variant, recipe) in unit.variants.iter().zip(&recipes) {
            let cell = match recipe {
                Ok(recipe) => scene.cell(variant, recipe, plan, &tokenizer),
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            match cell {
                Ok(cell) => {
                    rows.cells.extend(cell.cells);
                    rows.events.extend(cell.events);
                    rows.timeline.extend(cell.timeline);
                    rows.scores.extend(cell.scores);
                }
                Err(error) => rows.cells.push(failed(variant, own.log.id(), &error)),
            }
            progress(own.log.n_steps() as u64);
        }
    }
    Ok(rows)
}

/// Builds a variant's strategy and trigger.
pub fn recipe(variant: &Variant) -> anyhow::Result<Recipe> {
    Ok(Recipe {
        strategy: strategies::build(&variant.strategy, variant.strategy_params.clone())?,
        trigger: triggers::build(&variant.trigger, variant.trigger_params.clone())?,
        seed: variant.seed,
    })
}

fn failed(variant: &Variant, trajectory: &str, error: &anyhow::Error) -> CellRow {
    CellRow {
        variant: variant.id.clone(),
        trajectory: trajectory.to_owned(),
        status: "error".to_owned(),
        error: Some(format!("{error:#}")),
        n_decisions: 0,
        n_events: 0,
        n_violations: 0,
        tokens_full: 0,
        tokens_sent: 0,
    }
}

/// Prepared trajectories, dropped all at once when there are too many: memory stays bounded.
struct Shelf<'a> {
    data: &'a Dataset,
    plan: &'a Plan,
    prepared: HashMap<usize, Arc<Prepared>>,
    steps: usize,
}

impl Shelf<'_> {
    fn get(&mut self, index: usize) -> anyhow::Result<Arc<Prepared>> {
        if let Some(prepared) = self.prepared.get(&index) {
            return Ok(Arc::clone(prepared));
        }
        let loaded = Arc::unwrap_or_clone(self.data.load_one(index)?);
        let log = Log::new(loaded.trajectory, loaded.features)?;
        let questions = Questions::of(&log, &self.plan.reference_tails);
        if self.prepared.len() >= MAX_PREPARED || self.steps + log.n_steps() > MAX_PREPARED_STEPS {
            self.prepared.clear();
            self.steps = 0;
        }
        self.steps += log.n_steps();
        let prepared = Arc::new(Prepared { log, questions });
        self.prepared.insert(index, Arc::clone(&prepared));
        Ok(prepared)
    }
}

/// A trajectory among its partners, with all that no variant changes.
struct Scene<'a> {
    own: &'a Prepared,
    watch: Watch<'a>,
    partners: Vec<(&'a Prepared, Watch<'a>)>,
}

impl<'a> Scene<'a> {
    fn new(own: &'a Prepared, partners: &'a [Arc<Prepared>]) -> Self {
        let log = &own.log;
        let ids = &own.questions.needs.atoms;
        let atoms: Vec<&str> = ids.iter().map(|&a| log.atoms[a as usize].text.as_str()).collect();
        let mut known: HashMap<usize, Vec<Vec<u32>>> = HashMap::new();
        let mut cues = |i: usize| known.entry(i).or_insert_with(|| cue_sets(log, ids[i])).clone();
        let partners =
            partners.iter().map(|p| (&**p, Watch::foreign(&p.log, &atoms, &mut cues))).collect();
        Scene { own, watch: Watch::own(log, ids), partners }
    }

    fn cell(
        &self,
        variant: &Variant,
        recipe: &Recipe,
        plan: &Plan,
        tokenizer: &Tokenizer,
    ) -> anyhow::Result<UnitRows> {
        let Prepared { log, questions } = self.own;
        let mut ledger = Ledger::new(log, &self.watch, questions);
        let run = replay(log, recipe, tokenizer, &questions.needs, &mut ledger)?;
        let partners = self.partner_runs(recipe, tokenizer)?;
        let caster = Caster {
            log,
            watch: &self.watch,
            strategy: &*recipe.strategy,
            tokenizer,
            seed: plan.seed,
            n_random: plan.shadow_seeds,
        };
        let mut rows = Rows { variant: &variant.id, trajectory: log.id(), rows: Vec::new() };
        let misses = retention::score(&caster, questions, ledger, &run, &partners, &mut rows);
        discard::score(log, &run, &misses.needed, &mut rows);
        money::score(&run, &plan.prices, money::rework(log, &misses.hard), &mut rows);
        if variant.strategy == "full" {
            retention::census(questions, &mut rows);
        }
        Ok(UnitRows {
            cells: vec![cell_row(variant, log, &run)],
            events: event_rows(variant, log, &run, plan),
            timeline: timeline_rows(variant, log, &run),
            scores: rows.rows,
        })
    }

    /// Replays the partners under the variant; one that mentions none of the atoms is left out of
    /// the work, not of the mean.
    fn partner_runs(&self, recipe: &Recipe, tokenizer: &Tokenizer) -> anyhow::Result<Vec<Partner<'_>>> {
        self.partners
            .iter()
            .map(|(partner, watch)| {
                let mut journal = Journal::new(watch);
                let run = match watch.is_empty() {
                    true => Run::default(),
                    false => replay(&partner.log, recipe, tokenizer, &partner.questions.needs, &mut journal)?,
                };
                Ok(Partner::new(journal, &run))
            })
            .collect()
    }
}

fn cell_row(variant: &Variant, log: &Log, run: &Run) -> CellRow {
    CellRow {
        variant: variant.id.clone(),
        trajectory: log.id().to_owned(),
        status: "ok".to_owned(),
        error: None,
        n_decisions: run.decisions.len() as u32,
        n_events: run.events.len() as u32,
        n_violations: run.events.iter().map(|e| e.violations.len() as u32).sum(),
        tokens_full: run.decisions.iter().map(|d| d.tokens_full).sum(),
        tokens_sent: run.decisions.iter().map(|d| d.tokens_sent).sum(),
    }
}

fn event_rows(variant: &Variant, log: &Log, run: &Run, plan: &Plan) -> Vec<EventRow> {
    run.events
        .iter()
        .enumerate()
        .map(|(i, e)| {
            let (break_even_turns, decisions_left) = money::break_even(log, run, i, &plan.prices);
            EventRow {
                variant: variant.id.clone(),
                trajectory: log.id().to_owned(),
                event: i as u32,
                turn: e.turn,
                trigger_kind: e.kind.to_owned(),
                confidence: e.confidence,
                scope_start: e.turns.start,
                scope_end: e.turns.end,
                tokens_before: e.tokens_before,
                tokens_after: e.tokens_after,
                removable_tokens: e.removable_tokens,
                kept_tokens: e.kept_tokens,
                generated_tokens: e.generated_tokens,
                model_calls: 0,
                model_tokens_in: 0,
                model_tokens_out: 0,
                fallback: None,
                degenerate: Vec::new(),
                violations: e.violations.iter().map(|v| format!("{}: {v}", variant.strategy)).collect(),
                break_even_turns,
                decisions_left,
            }
        })
        .collect()
}

fn timeline_rows(variant: &Variant, log: &Log, run: &Run) -> Vec<TimelineRow> {
    run.decisions
        .iter()
        .enumerate()
        .map(|(i, d)| TimelineRow {
            variant: variant.id.clone(),
            trajectory: log.id().to_owned(),
            decision: i as u32,
            turn: d.turn,
            n_events: d.n_events,
            tokens_full: d.tokens_full,
            tokens_sent: d.tokens_sent,
            cached_full: d.cached_full,
            cached_sent: d.cached_sent,
            output_tokens: d.output_tokens,
        })
        .collect()
}
