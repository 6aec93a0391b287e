//! Computes the rows of a unit: each of its trajectories under each of its variants.
//!
//! What depends on the trajectory alone (its log, its questions, what of it stands in its partners)
//! is made once and shared by all variants.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use anyhow::Context as _;

use super::dataset::Dataset;
use super::plan::{FULL, Plan, Variant};
use super::units::{Unit, UnitRows};
use crate::context::log::Log;
use crate::context::{Block, Content};
use crate::models::{Model, Outage};
use crate::replay::shadow::Caster;
use crate::replay::watch::{Watch, cue_sets};
use crate::replay::{Decision, Recipe, Run, replay};
use crate::scores::chance::{Journal, Partner};
use crate::scores::money::Prices;
use crate::scores::readers::Readers;
use crate::scores::retention::{self, Ledger, Questions, Strata};
use crate::scores::{CellIds, Rows, discard, ground::Truth, honesty, likelihood, money, ratios, sent, truth};
use crate::store::{CellRow, ContextRow, EventRow, ItemRow, TimelineRow};
use crate::strategies::{self, Work};
use crate::text::tokens::Tokenizer;
use crate::triggers;

/// Bytes of prepared trajectories kept for reuse. Partners stand near in the data and units are done in
/// the order of the data, so that those of a few hundred trajectories serve nearly always.
const SHELF_BYTES: usize = 32 << 20;

/// A trajectory ready for replay.
pub struct Prepared {
    log: Log,
    questions: Questions,
}

impl Prepared {
    /// # Errors
    /// The log cannot be replayed as it was sent.
    pub fn new(log: Log, reference_tails: &[u32], tokenizer: &Tokenizer) -> anyhow::Result<Self> {
        let questions = Questions::of(&log, reference_tails, tokenizer)?;
        Ok(Prepared { log, questions })
    }

    fn load(data: &Dataset, plan: &Plan, index: usize, is_bridged: bool) -> anyhow::Result<Self> {
        let tokenizer = Tokenizer::load(&plan.tokenizer)?;
        Prepared::new(data.log(index, is_bridged)?, &plan.reference_tails, &tokenizer)
    }

    /// The same log over its own compactions. What was sent is what was sent, with them.
    fn bridged(&self, data: &Dataset, plan: &Plan, index: usize) -> anyhow::Result<Self> {
        let mut bridged = Prepared::load(data, plan, index, true)?;
        bridged.questions.tokens_as_sent = self.questions.tokens_as_sent;
        Ok(bridged)
    }
}

/// Computes the rows of a unit; tells the step-variants done since it last told.
pub fn run_unit(
    data: &Dataset,
    unit: &Unit,
    plan: &Plan,
    shelf: &Shelf,
    models: &Models,
    progress: &(dyn Fn(u64) + Sync),
) -> anyhow::Result<UnitRows> {
    let tokenizer = Tokenizer::load(&plan.tokenizer)?;
    let recipes: Vec<anyhow::Result<Recipe>> =
        unit.variants.iter().map(|variant| recipe(variant, models)).collect();
    let readers = Readers::open(&plan.readers, models)?;
    let mut rows = UnitRows::default();
    for &index in &unit.trajectories {
        let own = shelf.get(data, plan, index)?;
        // (index in plan.partners, partner), the headline's kind first.
        let mut partners: Vec<(usize, Arc<Prepared>)> = Vec::new();
        for (kind, name) in plan.partners.iter().enumerate() {
            for partner in data.partners(index).filter(|p| p.kind == name.as_str()) {
                partners.push((kind, shelf.get(data, plan, partner.index)?));
            }
        }
        let scene = Scene::new(&own, &partners, plan, &readers);
        let bridges = |recipe: &Recipe| recipe.trigger.bridges() && own.log.n_segments > 1;
        let bridged = match recipes.iter().flatten().any(bridges) {
            true => Some(own.bridged(data, plan, index)?),
            false => None,
        };
        let over = bridged.as_ref().map(|own| Scene::new(own, &partners, plan, &readers));
        for (variant, recipe) in unit.variants.iter().zip(&recipes) {
            let cell = match recipe {
                Ok(recipe) => {
                    let over = over.as_ref().filter(|_| bridges(recipe));
                    over.unwrap_or(&scene).cell(variant, recipe, &tokenizer)
                }
                Err(error) => Err(anyhow::anyhow!("{error:#}")),
            };
            match cell {
                Ok(cell) => {
                    rows.cells.extend(cell.cells);
                    rows.events.extend(cell.events);
                    rows.items.extend(cell.items);
                    rows.contexts.extend(cell.contexts);
                    rows.timeline.extend(cell.timeline);
                    rows.scores.extend(cell.scores);
                }
                Err(error) if error.is::<Outage>() => return Err(error),
                Err(error) => rows.cells.push(failed(variant, own.log.id(), &error)),
            }
            progress(own.log.n_steps() as u64);
        }
    }
    Ok(rows)
}

/// The models of a plan, by name.
pub type Models = HashMap<String, Arc<dyn Model>>;

/// Builds a variant's strategy and trigger, and gives it its model.
pub fn recipe(variant: &Variant, models: &Models) -> anyhow::Result<Recipe> {
    let opened = |name: &str| {
        models.get(name).cloned().with_context(|| format!("model `{name}` of the variant was not opened"))
    };
    Ok(Recipe {
        model: variant.model.as_deref().map(opened).transpose()?,
        embedder: variant.embedder().map(opened).transpose()?,
        trigger_model: variant.trigger_model().map(opened).transpose()?,
        strategy: strategies::build(&variant.strategy, variant.strategy_params.clone())?,
        trigger: triggers::build(&variant.trigger, variant.trigger_params.clone())?,
        seed: variant.seed,
    })
}

fn failed(variant: &Variant, trajectory: &str, error: &anyhow::Error) -> CellRow {
    CellRow {
        variant: variant.id.as_str().into(),
        trajectory: trajectory.into(),
        status: "error".to_owned(),
        error: Some(format!("{error:#}")),
        n_decisions: 0,
        n_events: 0,
        n_violations: 0,
        tokens_full: 0,
        tokens_sent: 0,
        trigger_calls: 0,
        trigger_tokens_in: 0,
        trigger_tokens_out: 0,
    }
}

/// Prepared trajectories, shared by the units of a run; the one unused the longest goes first, so memory
/// stays bounded whatever the number of trajectories.
#[derive(Default)]
pub struct Shelf {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// By index: when last used, its bytes, and itself.
    prepared: HashMap<usize, (u64, usize, Arc<Prepared>)>,
    bytes: usize,
    clock: u64,
}

impl Shelf {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn get(&self, data: &Dataset, plan: &Plan, index: usize) -> anyhow::Result<Arc<Prepared>> {
        {
            let mut inner = self.lock();
            inner.clock += 1;
            let now = inner.clock;
            if let Some((used, _, prepared)) = inner.prepared.get_mut(&index) {
                *used = now;
                return Ok(Arc::clone(prepared));
            }
        }
        let prepared = Arc::new(Prepared::load(data, plan, index, false)?);
        let bytes = prepared.log.bytes();
        let mut inner = self.lock();
        let now = inner.clock;
        if inner.prepared.insert(index, (now, bytes, Arc::clone(&prepared))).is_none() {
            inner.bytes += bytes;
        }
        while inner.bytes > SHELF_BYTES && inner.prepared.len() > 1 {
            let Some(oldest) = inner.prepared.iter().min_by_key(|(_, (used, ..))| *used).map(|(&i, _)| i)
            else {
                break;
            };
            if let Some((_, bytes, _)) = inner.prepared.remove(&oldest) {
                inner.bytes -= bytes;
            }
        }
        Ok(prepared)
    }
}

/// A trajectory among its partners, with all that no variant changes.
pub struct Scene<'a> {
    own: &'a Prepared,
    watch: Watch<'a>,
    /// Kind of the partner (index in [`Plan::partners`]), and what it mentions of ours.
    partners: Vec<(usize, &'a Prepared, Watch<'a>)>,
    plan: &'a Plan,
    strata: Strata,
    /// None where the trajectory is not annotated.
    truth: Option<Truth>,
    readers: &'a Readers,
}

impl<'a> Scene<'a> {
    pub fn new(
        own: &'a Prepared,
        partners: &'a [(usize, Arc<Prepared>)],
        plan: &'a Plan,
        readers: &'a Readers,
    ) -> Self {
        let log = &own.log;
        let ids = &own.questions.needs.atoms;
        let atoms: Vec<&str> = ids.iter().map(|&a| log.atoms[a as usize].text.as_str()).collect();
        let mut known: HashMap<usize, Vec<Vec<u32>>> = HashMap::new();
        let mut cues = |i: usize| known.entry(i).or_insert_with(|| cue_sets(log, ids[i])).clone();
        let partners = partners
            .iter()
            .map(|(kind, p)| (*kind, &**p, Watch::foreign(&p.log, &atoms, &mut cues)))
            .collect();
        let strata = Strata::new(&plan.reference_tails, &plan.partners);
        Scene { own, watch: Watch::own(log, ids), partners, plan, strata, truth: Truth::of(log), readers }
    }

    /// Replays and scores the trajectory under one variant.
    pub fn cell(
        &self,
        variant: &Variant,
        recipe: &Recipe,
        tokenizer: &Tokenizer,
    ) -> anyhow::Result<UnitRows> {
        let (Prepared { log, questions }, plan) = (self.own, self.plan);
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
        let ids = (variant.id.as_str().into(), log.id().into());
        let mut rows = Rows { ids, rows: Vec::new() };
        let misses = retention::score(&caster, questions, ledger, &run, &partners, &self.strata, &mut rows);
        discard::score(log, &run, &misses.needed, &mut rows);
        money::score(log, &run, &plan.prices, money::rework(log, &misses.hard), &mut rows);
        sent::score(&run, questions.tokens_as_sent, &mut rows);
        honesty::score(log, &run, &mut rows);
        ratios::score(&run, &mut rows);
        if let Some(truth) = &self.truth {
            truth::score(truth, log, &run, self.readers, plan.seed, &mut rows)?;
        }
        likelihood::score(log, &run, self.readers, plan.seed, &mut rows)?;
        if variant.strategy == FULL {
            retention::census(questions, &mut rows);
        }
        Ok(UnitRows {
            cells: vec![cell_row(&rows.ids, &run)],
            events: event_rows(
                &rows.ids,
                &variant.strategy,
                money::break_even(log, &run, &plan.prices),
                &run,
            ),
            items: item_rows(&rows.ids, &run),
            contexts: match plan.contexts {
                true => context_rows(&rows.ids, log, recipe, tokenizer, &run),
                false => Vec::new(),
            },
            timeline: timeline_rows(&rows.ids, log, &run, &plan.prices),
            scores: rows.rows,
        })
    }

    /// Replays the partners under the variant; one that mentions none of the atoms is left out of
    /// the work, not of the mean.
    fn partner_runs(&self, recipe: &Recipe, tokenizer: &Tokenizer) -> anyhow::Result<Vec<Partner<'_>>> {
        self.partners
            .iter()
            .map(|(kind, partner, watch)| {
                let mut journal = Journal::new(watch);
                let run = match watch.is_empty() {
                    true => Run::default(),
                    false => replay(&partner.log, recipe, tokenizer, &partner.questions.needs, &mut journal)?,
                };
                Ok(Partner::new(*kind, journal, &run))
            })
            .collect()
    }
}

fn cell_row((variant, trajectory): &CellIds, run: &Run) -> CellRow {
    CellRow {
        variant: Arc::clone(variant),
        trajectory: Arc::clone(trajectory),
        status: "ok".to_owned(),
        error: None,
        n_decisions: run.decisions.len() as u32,
        n_events: run.events.len() as u32,
        n_violations: run.events.iter().map(|e| e.violations.len() as u32).sum(),
        tokens_full: run.decisions.iter().map(|d| d.tokens_full).sum(),
        tokens_sent: run.decisions.iter().map(|d| d.tokens_sent).sum(),
        trigger_calls: run.trigger_asked.calls,
        trigger_tokens_in: run.trigger_asked.tokens_in,
        trigger_tokens_out: run.trigger_asked.tokens_out,
    }
}

fn event_rows(
    (variant, trajectory): &CellIds,
    strategy: &str,
    break_even: Vec<(Option<u32>, u32)>,
    run: &Run,
) -> Vec<EventRow> {
    run.events
        .iter()
        .zip(break_even)
        .enumerate()
        .map(|(i, (e, (break_even_turns, decisions_left)))| EventRow {
            variant: Arc::clone(variant),
            trajectory: Arc::clone(trajectory),
            event: i as u32,
            turn: e.turn,
            trigger_kind: e.kind.into(),
            confidence: e.confidence,
            details: (!e.details.is_empty()).then(|| e.details.clone()),
            scope_start: e.turns.start,
            scope_end: e.turns.end,
            tokens_before: e.tokens_before,
            tokens_after: e.tokens_after,
            removable_tokens: e.removable_tokens,
            kept_tokens: e.kept_tokens,
            generated_tokens: e.generated_tokens,
            model_calls: e.work.calls,
            embeddings: e.work.embeddings,
            model_tokens_in: e.work.tokens_in,
            model_tokens_out: e.work.tokens_out,
            model_tokens_cut: e.work.tokens_cut,
            fallback: e.work.fallback.map(str::to_owned),
            degenerate: e.work.degenerate.iter().map(|flaw| flaw.name().to_owned()).collect(),
            warning: e.work.warning.map(str::to_owned),
            violations: e.violations.iter().map(|v| format!("{strategy}: {v}")).collect(),
            break_even_turns,
            decisions_left,
        })
        .collect()
}

fn item_rows((variant, trajectory): &CellIds, run: &Run) -> Vec<ItemRow> {
    let items =
        run.events.iter().zip(0..).flat_map(|(e, event)| {
            e.work.items.iter().zip(0..).map(move |(item, number)| (event, number, item))
        });
    items
        .map(|(event, number, item)| ItemRow {
            variant: Arc::clone(variant),
            trajectory: Arc::clone(trajectory),
            event,
            item: number,
            text: item.text.clone(),
            kind: item.kind.into(),
            step: item.source.as_ref().map(|s| s.0),
            start: item.source.as_ref().map(|s| s.1.start),
            end: item.source.as_ref().map(|s| s.1.end),
            score: item.score,
            fate: item.fate.name().into(),
            of: item.of,
        })
        .collect()
}

fn context_rows(
    (variant, trajectory): &CellIds,
    log: &Log,
    recipe: &Recipe,
    tokenizer: &Tokenizer,
    run: &Run,
) -> Vec<ContextRow> {
    let row = |place: &'static str, event: Option<usize>, decision: u32| ContextRow {
        variant: Arc::clone(variant),
        trajectory: Arc::clone(trajectory),
        place: place.into(),
        event: event.map(|event| event as u32),
        decision,
        ..ContextRow::default()
    };
    let blocks = |row: ContextRow, blocks: &[Block]| -> Vec<ContextRow> {
        let filled = |(number, block): (u32, &Block)| {
            let (form, step) = match block.content {
                Content::Step(step) => ("step", Some(step)),
                Content::Excerpt { step, .. } => ("excerpt", Some(step)),
                Content::Placeholder { step, .. } => ("placeholder", Some(step)),
                Content::Generated { .. } => ("generated", None),
            };
            let text = (form != "step").then(|| block.text(log));
            let (turn, tokens) = (block.turn, block.tokens);
            ContextRow { block: number, turn, form: form.into(), step, tokens, text, ..row.clone() }
        };
        (0..).zip(blocks).map(filled).collect()
    };
    let mut rows = Vec::new();
    for (number, event) in run.events.iter().enumerate() {
        rows.extend(blocks(row("left", Some(number), event.decision), &event.after));
    }
    for recall in &run.recalls {
        let recalled = blocks(row("recalled", None, recall.decision), &recall.blocks);
        rows.extend(
            recalled
                .into_iter()
                .zip(&recall.details)
                .map(|(row, details)| ContextRow { details: details.clone(), ..row }),
        );
    }
    for (n_decisions, n_events, state) in &run.left {
        let last = |n: u32| n.saturating_sub(1);
        for (number, held) in (0..).zip(recipe.strategy.held(log, state)) {
            rows.push(ContextRow {
                block: number,
                turn: held.turn,
                form: held.form.name().into(),
                step: Some(held.step),
                tokens: tokenizer.count(&held.text),
                text: Some(held.text),
                details: Some(held.details.to_string()),
                ..row("held", Some(last(*n_events) as usize), last(*n_decisions))
            });
        }
    }
    rows
}

fn timeline_rows((variant, trajectory): &CellIds, log: &Log, run: &Run, prices: &Prices) -> Vec<TimelineRow> {
    let nothing = Work::default();
    let expired = money::expired(log, run, prices);
    let row = |(i, d): (u32, &Decision)| {
        let work = run.recalled_for(i).map_or(&nothing, |recall| &recall.work);
        let (rate, usage) = (log.rate(d.turn), log.usage(d.turn));
        TimelineRow {
            variant: Arc::clone(variant),
            trajectory: Arc::clone(trajectory),
            decision: i,
            turn: d.turn,
            n_events: d.n_events,
            tokens_full: d.tokens_full,
            tokens_sent: d.tokens_sent,
            cached_full: d.cached_full,
            cached_sent: d.cached_sent,
            output_tokens: d.output_tokens,
            recalled_tokens: d.recalled_tokens,
            recall_calls: work.calls,
            recall_embeddings: work.embeddings,
            recall_tokens_in: work.tokens_in,
            recall_tokens_out: work.tokens_out,
            unseen_tokens: rate.map(|rate| rate.unseen),
            token_factor: rate.map(|rate| rate.factor),
            cache_expired: expired[i as usize],
            usage_in: usage.map(|usage| usage.input),
            usage_out: usage.and_then(|usage| usage.output),
            usage_cache_read: usage.and_then(|usage| usage.cache_read),
            usage_cache_write: usage.and_then(|usage| usage.cache_write),
        }
    };
    (0..).zip(&run.decisions).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::ScoreRow;

    fn prepared(script: &str) -> Prepared {
        Prepared::new(Log::script(script), &[3], &Tokenizer::load("o200k").unwrap()).unwrap()
    }

    fn scores(
        script: &str,
        partners: &[&str],
        strategy: (&str, &str),
        trigger: (&str, &str),
    ) -> Vec<ScoreRow> {
        cell(script, partners, strategy, trigger).scores
    }

    fn cell(script: &str, partners: &[&str], strategy: (&str, &str), trigger: (&str, &str)) -> UnitRows {
        cell_of(&prepared(script), partners, strategy, trigger)
    }

    fn cell_of(own: &Prepared, partners: &[&str], strategy: (&str, &str), trigger: (&str, &str)) -> UnitRows {
        let partners: Vec<(usize, Arc<Prepared>)> =
            partners.iter().map(|p| (0, Arc::new(prepared(p)))).collect();
        let variant = Variant {
            id: "v".to_owned(),
            label: String::new(),
            strategy: strategy.0.to_owned(),
            strategy_params: toml::from_str(strategy.1).unwrap(),
            trigger: trigger.0.to_owned(),
            trigger_params: toml::from_str(trigger.1).unwrap(),
            model: None,
            seed: 1,
        };
        let plan = Plan {
            readers: crate::scores::readers::Named::default(),
            contexts: true,
            name: String::new(),
            tokenizer: "o200k".to_owned(),
            prices: Default::default(),
            seed: 1,
            shadow_seeds: 8,
            partners: vec!["other_repository".to_owned()],
            reference_tails: vec![3],
            filter: Default::default(),
            variants: Vec::new(),
            models: Default::default(),
            data: None,
            notes: Vec::new(),
        };
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let readers = Readers::default();
        let scene = Scene::new(own, &partners, &plan, &readers);
        scene.cell(&variant, &recipe(&variant, &Models::new()).unwrap(), &tokenizer).unwrap()
    }

    fn row<'a>(rows: &'a [ScoreRow], metric: &str, stratum: &str) -> &'a ScoreRow {
        rows.iter().find(|r| r.metric == metric && *r.stratum == *stratum).unwrap()
    }

    /// A path seen at turn 1 among 30 other lines, and used again at turn 8.
    fn script() -> String {
        let noise: String =
            (0..30).map(|i| format!("~nothing special happened during round {i} today")).collect();
        let mut script = format!(
            "system: be good\nuser: the task\naction: ls\nobservation: start{noise}~the broken parser lives in src/parser.py beside its lexer"
        );
        for _ in 0..6 {
            script.push_str("\naction: date\nobservation: morning again");
        }
        script + "\naction: cat src/parser.py\nobservation: words"
    }

    const ALL_BUT_TWO: (&str, &str) = ("turns", "n = 5\nkeep = 2");
    const EXPOSED: &str = "set=exposed tail=3";

    #[test]
    fn controls_stand_where_they_must() {
        let script = script();
        let at = |strategy: &str, params: &str, metric: &str| {
            let rows = scores(&script, &[], (strategy, params), ALL_BUT_TWO);
            let r = row(&rows, metric, EXPOSED);
            assert_eq!((r.n, r.weight), (1, 1.0));
            (r.value, r.ceiling, r.atom_bag)
        };
        assert_eq!(at("drop-all", "", "need_retention"), (Some(0.0), Some(0.0), Some(0.0)));
        assert_eq!(at("full", "", "need_retention").0, Some(1.0));
        assert_eq!(at("oracle", "kept_share = 0.1", "need_retention"), (Some(1.0), Some(1.0), Some(0.0)));
        // A bag of atoms has the atom and not what bound it.
        assert_eq!(
            at("atom-bag", "kept_share = 0.1", "surface_retention"),
            (Some(1.0), Some(1.0), Some(1.0))
        );
        assert_eq!(at("atom-bag", "kept_share = 0.1", "need_retention"), (Some(0.0), Some(1.0), Some(0.0)));
        assert_eq!(at("mask", "keep_last = 2", "need_retention").0, Some(0.0));
    }

    #[test]
    fn the_random_shadow_keeps_about_its_share() {
        let rows = scores(&script(), &[], ("random", "kept_share = 0.5"), ALL_BUT_TWO);
        let r = row(&rows, "need_retention", EXPOSED);
        let floor = r.floor.unwrap();
        assert!((0.1..=0.9).contains(&floor), "{floor}");
        assert_eq!(floor * 8.0, (floor * 8.0).round(), "a mean over 8 seeds");
    }

    /// A placeholder leaves fewer tokens than the line has. Random cuts the line to them, and its beginning binds the path:
    /// so may the oracle.
    #[test]
    fn the_oracle_cuts_what_random_cuts() {
        let mut script = format!(
            "user: the task\naction: ls\nobservation: broken parser src/parser.py {}",
            "and so on it goes ".repeat(8)
        );
        for _ in 0..6 {
            script.push_str("\naction: date\nobservation: morning again");
        }
        script.push_str("\naction: cat src/parser.py\nobservation: words");
        let rows = scores(&script, &[], ("mask", "keep_last = 2"), ("turns", "n = 1"));
        for metric in ["need_retention", "surface_retention"] {
            let r = row(&rows, metric, EXPOSED);
            assert_eq!((r.value, r.floor, r.ceiling, r.n), (Some(0.0), Some(1.0), Some(1.0), 1), "{metric}");
        }
        for level in ["level=surface", "level=bound"] {
            let r = row(&rows, "random_won_share", level);
            assert_eq!((r.value, r.weight, r.n), (Some(0.0), 1.0, 1));
        }
        // Without an event no shadow is cast.
        let rows = scores(&script, &[], ("full", ""), ("never", ""));
        assert!(rows.iter().all(|r| r.metric != "random_won_share"));
    }

    /// Two paths are seen at turns 1 and 2 and named at turn 7. The first was masked from turn 3 on.
    fn edited() -> String {
        let idle = "\naction: date\nobservation: morning again".repeat(4);
        format!(
            "user: the task
            action: ls
            observation: the broken parser lives in src/parser.py beside its lexer => 3 gone
            action: dir
            observation: the broken lexer lives in src/lexer.py beside its parser{idle}
            action: cat src/parser.py src/lexer.py
            observation: words"
        )
    }

    #[test]
    fn what_was_not_sent_is_no_fault_of_a_compression() {
        const COMMON: &str = "set=common tail=3";
        const UNSUPPORTED: &str = "set=common tail=3 unsupported=1";
        let under = |strategy: &str, trigger: (&str, &str)| scores(&edited(), &[], (strategy, ""), trigger);
        let full = under("full", ("never", ""));
        let sent = under("as-sent", ("logged-edits", ""));
        let none = under("drop-all", ("turns", "n = 5"));
        for (rows, headline, unsupported) in [(&full, 1.0, 1.0), (&sent, 1.0, 0.0), (&none, 0.0, 0.0)] {
            for metric in ["surface_retention", "need_retention"] {
                // Each of the two has the whole weight of its turn.
                let r = row(rows, metric, COMMON);
                assert_eq!((r.value, r.weight, r.n), (Some(headline), 1.0, 1));
                let r = row(rows, metric, UNSUPPORTED);
                assert_eq!((r.value, r.weight, r.n), (Some(unsupported), 1.0, 1));
            }
        }
        let r = row(&full, "unsupported_share", "tail=3 class=observed");
        assert_eq!((r.value, r.weight, r.n), (Some(0.5), 2.0, 2));
        let plain = scores(&script(), &[], ("full", ""), ("never", ""));
        assert_eq!(row(&plain, "unsupported_share", "tail=3 class=observed").value, Some(0.0));
        assert!(plain.iter().all(|r| !r.stratum.contains("unsupported")));
    }

    /// Against what was sent `full` costs tokens and `as-sent` saves none; without edits both are the whole.
    #[test]
    fn savings_against_what_was_sent() {
        let savings = |script: &str, strategy: &str, trigger: (&str, &str)| {
            let rows = scores(script, &[], (strategy, ""), trigger);
            let r = row(&rows, "token_savings_vs_sent", "").clone();
            (r.value.unwrap(), r.floor.unwrap(), r.ceiling.unwrap(), r.weight)
        };
        let log = Log::script(&edited());
        let tokens =
            |steps: std::ops::Range<usize>| log.tokens[steps].iter().map(|&n| f64::from(n)).sum::<f64>();
        // Step 2 is one token from turn 3 on: at 5 of the 7 decisions.
        let full: f64 = (0..7).map(|i| tokens(0..2 * i + 1)).sum();
        let sent = full - 5.0 * f64::from(log.tokens[2] - 1);
        let floor = 1.0 - full / sent;
        assert!(floor < 0.0);
        let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-12, "{a} {b}");
        let (value, low, high, weight) = savings(&edited(), "full", ("never", ""));
        near(value, floor);
        near(low, floor);
        near(high, floor);
        near(weight, sent);
        let (value, low, high, _) = savings(&edited(), "as-sent", ("logged-edits", ""));
        near(value, 0.0);
        near(low, floor);
        // All that could go of the edited step is its one token.
        near(high, 5.0 / sent);
        for strategy in ["full", "as-sent"] {
            let trigger = if strategy == "full" { ("never", "") } else { ("logged-edits", "") };
            assert_eq!(savings(&script(), strategy, trigger).0, 0.0);
        }
        let rows = scores(&script(), &[], ("drop-all", ""), ALL_BUT_TWO);
        assert_eq!(row(&rows, "token_savings_vs_sent", "").value, row(&rows, "token_savings", "").value);
    }

    /// The last turn before the need speaks of what the path stood beside, without naming it.
    fn hinting() -> String {
        let (before, after) =
            script().rsplit_once("morning again").map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        format!("{before}the lexer of the broken parser again{after}")
    }

    #[test]
    fn a_need_is_met_by_what_is_recalled_for_its_decision() {
        let at = |params: &str, metric: &str| {
            let rows = scores(&hinting(), &[], ("notes", params), ALL_BUT_TWO);
            let r = row(&rows, metric, EXPOSED);
            assert_eq!(r.n, 1);
            (r.value, r.floor, r.ceiling, r.atom_bag)
        };
        let found = "keep_last = 2\nnote_tokens = 20\nk = 2";
        let (value, floor, ceiling, bag) = at(found, "need_retention");
        // The store's oracle finds the line in as many tokens, a bag of atoms does not bind, and of 31 lines
        // chance draws one that fits in some of 8 seeds at most.
        assert_eq!((value, ceiling, bag), (Some(1.0), Some(1.0), Some(0.0)));
        assert!(floor.unwrap() < 0.5, "{floor:?}");
        assert_eq!(at(found, "surface_retention").3, Some(1.0));
        // Nothing recalled is nothing for the shadows either.
        assert_eq!(
            at("keep_last = 2\nk = 0", "need_retention"),
            (Some(0.0), Some(0.0), Some(0.0), Some(0.0))
        );
        let rows = scores(&hinting(), &[], ("notes", found), ALL_BUT_TWO);
        assert!(rows.iter().all(|r| !r.stratum.contains("shadow=local")));
        let savings = |params: &str| {
            let rows = scores(&hinting(), &[], ("notes", params), ALL_BUT_TWO);
            (row(&rows, "token_savings", "").value.unwrap(), row(&rows, "token_savings", "").ceiling)
        };
        let (with, without) = (savings(found), savings("keep_last = 2\nk = 0"));
        assert!(with.0 < without.0 && with.1 == without.1, "{with:?} {without:?}");
    }

    /// What events left adds up to what they kept, what was recalled to what the timeline says; the notes are the whole scope.
    #[test]
    fn contexts_hold_what_stood_in_the_prompts_and_in_the_store() {
        let contexts = |strategy: (&str, &str)| {
            let rows = cell(&hinting(), &[], strategy, ALL_BUT_TWO);
            for event in &rows.events {
                let left =
                    rows.contexts.iter().filter(|row| row.event == Some(event.event) && row.place == "left");
                assert_eq!(left.map(|row| u64::from(row.tokens)).sum::<u64>(), event.kept_tokens);
            }
            for decision in &rows.timeline {
                let recalled = rows
                    .contexts
                    .iter()
                    .filter(|row| row.decision == decision.decision && row.place == "recalled");
                assert_eq!(recalled.map(|row| u64::from(row.tokens)).sum::<u64>(), decision.recalled_tokens);
            }
            assert!(!rows.events.is_empty());
            rows.contexts
        };
        let of = |rows: &[ContextRow], place: &str| -> Vec<ContextRow> {
            rows.iter().filter(|row| row.place == place).cloned().collect()
        };
        let rows = contexts(("random", "kept_share = 0.3"));
        assert!(rows.iter().all(|row| row.place == "left" && row.form == "excerpt"));
        assert!(
            rows.iter().all(|row| row.step.is_some() && row.text.as_ref().is_some_and(|t| !t.is_empty()))
        );
        assert!(contexts(("drop-all", "")).is_empty());
        let rows = contexts(("notes", "keep_last = 2\nnote_tokens = 20\nk = 2"));
        assert!(of(&rows, "left").is_empty() && !of(&rows, "recalled").is_empty());
        let held = of(&rows, "held");
        assert!(held.iter().all(|row| row.form == "note" && row.event == held[0].event));
        let text: String = held.iter().flat_map(|row| row.text.clone()).collect();
        assert!(text.contains("the broken parser lives in src/parser.py") && text.contains("round 29 today"));
        let tier = |form: &str, limits: &str| {
            let held = of(&contexts(("tiered", &format!("hot_tokens = 0\n{limits}"))), "held");
            assert!(!held.is_empty() && held.iter().all(|row| row.form == form), "{held:?}");
            held
        };
        for row in tier("warm", "").into_iter().chain(tier("cold", "warm_tokens = 0")) {
            let details: serde_json::Value = serde_json::from_str(row.details.as_ref().unwrap()).unwrap();
            let level = if row.form == "warm" { 1 } else { 2 };
            assert_eq!(details["compression_level"], level);
            assert_eq!(details["compressed_length"], row.tokens);
            let lengths = ["original_length", "compressed_length"].map(|key| details[key].as_f64().unwrap());
            assert_eq!(details["compression_ratio"], lengths[0] / lengths[1]);
        }
    }

    #[test]
    fn a_stranger_meets_what_is_recalled_for_it() {
        let twin = hinting().replace("the task", "another task");
        let rows = scores(&hinting(), &[&twin], ("notes", "keep_last = 2\nnote_tokens = 20"), ALL_BUT_TWO);
        assert_eq!(row(&rows, "need_retention", EXPOSED).chance, Some(1.0));
        let rows = scores(&hinting(), &[&twin], ("notes", "keep_last = 2\nk = 0"), ALL_BUT_TWO);
        assert_eq!(row(&rows, "need_retention", EXPOSED).chance, Some(0.0));
    }

    #[test]
    fn nothing_is_exposed_without_events_and_null_is_not_zero() {
        let rows = scores(&script(), &[], ("full", ""), ("never", ""));
        let r = row(&rows, "need_retention", EXPOSED);
        assert_eq!((r.value, r.floor, r.n), (None, None, 0));
        let common = row(&rows, "need_retention", "set=common tail=3");
        assert_eq!((common.value, common.floor, common.ceiling), (Some(1.0), Some(1.0), Some(1.0)));
        assert_eq!(row(&rows, "token_savings", "").value, Some(0.0));
        assert_eq!(row(&rows, "discard_lift", "").value, None);
    }

    #[test]
    fn discard_lift_is_zero_for_dropping_all() {
        let script = script();
        let lift = |strategy: &str, params: &str| {
            row(&scores(&script, &[], (strategy, params), ALL_BUT_TWO), "discard_lift", "").value
        };
        assert_eq!(lift("drop-all", ""), Some(0.0));
        // The oracle keeps the needed line: nothing that it removes is needed.
        assert_eq!(lift("oracle", "kept_share = 0.1"), Some(1.0));
    }

    #[test]
    fn chance_is_what_strangers_would_meet() {
        let script = script();
        let stranger = "user: other\naction: ls\nobservation: nothing of the kind\nagent: well\nagent: well";
        let twin = script.replace("the task", "another task");
        let chance = |partners: &[&str]| {
            let rows = scores(&script, partners, ("full", ""), ("never", ""));
            row(&rows, "need_retention", "set=common tail=3").chance
        };
        assert_eq!(chance(&[]), None);
        assert_eq!(chance(&[stranger]), Some(0.0));
        assert_eq!(chance(&[&twin]), Some(1.0));
        assert_eq!(chance(&[&twin, stranger]), Some(0.5));
    }

    #[test]
    fn savings_by_hand() {
        let rows = scores(&script(), &[], ("drop-all", ""), ALL_BUT_TWO);
        let savings = row(&rows, "token_savings", "");
        // Everything removable is gone, so it is its own ceiling.
        assert_eq!(savings.value, savings.ceiling);
        assert!(savings.value.unwrap() > 0.0);
        let net = row(&rows, "net_savings", "").value.unwrap();
        assert!(net < savings.value.unwrap(), "the lost path is paid for again");
    }

    /// The log of `script`, by the provider's count 500 + 2 x ours, and six minutes before turn 4.
    fn counted() -> Prepared {
        let mut log = Log::script(&script());
        let n = log.turns.len() as u32;
        log.rates = vec![crate::trajectory::usage::Rate { turns: 0..n, unseen: 500, factor: 2.0 }];
        for step in &mut log.trajectory.steps {
            step.time = Some(i64::from(step.turn + if step.turn >= 4 { 360 } else { 0 }) * 1_000_000);
        }
        log.trajectory.steps[2].usage =
            Some(crate::trajectory::Usage { input: 520, cache_write: Some(9), ..Default::default() });
        Prepared::new(log, &[3], &Tokenizer::load("o200k").unwrap()).unwrap()
    }

    #[test]
    fn usage_is_billed_and_old_caches_are_gone() {
        let own = counted();
        let rows = cell_of(&own, &[], ("drop-all", ""), ALL_BUT_TWO);
        let n = rows.timeline.len() as f64;
        let sum = |f: fn(&TimelineRow) -> u64| rows.timeline.iter().map(f).sum::<u64>() as f64;
        let (full, sent) = (sum(|d| d.tokens_full), sum(|d| d.tokens_sent));
        let billed = row(&rows.scores, "token_savings_billed", "");
        let (full_billed, sent_billed) = (500.0 * n + 2.0 * full, 500.0 * n + 2.0 * sent);
        assert_eq!(
            (billed.value, billed.weight),
            (Some((full_billed - sent_billed) / full_billed), full_billed)
        );
        assert_eq!(billed.ceiling, billed.value, "nothing of what may go was kept");
        assert_eq!(row(&rows.scores, "token_savings", "").value, Some((full - sent) / full));
        assert_eq!(row(&rows.scores, "token_savings", "").weight, full);
        // Money: all is written at turn 1 and at turn 4, where the cache is gone; else the unseen part is read, too.
        let cost: f64 = rows
            .timeline
            .iter()
            .map(|d| {
                let (prompt, read) = (500.0 + 2.0 * d.tokens_full as f64, 500.0 + 2.0 * d.cached_full as f64);
                let read = if [1, 4].contains(&d.turn) { 0.0 } else { read };
                0.1 * read + 1.25 * (prompt - read) + 5.0 * 2.0 * d.output_tokens as f64
            })
            .sum();
        let money = row(&rows.scores, "cost_savings", "");
        assert!((money.weight - cost).abs() < 1e-9 * cost, "{} {cost}", money.weight);
        let expired: Vec<u32> = rows.timeline.iter().filter(|d| d.cache_expired).map(|d| d.turn).collect();
        assert_eq!(expired, [4]);
        let first = &rows.timeline[0];
        assert_eq!((first.unseen_tokens, first.token_factor), (Some(500), Some(2.0)));
        assert_eq!((first.usage_in, first.usage_cache_write, first.usage_out), (Some(520), Some(9), None));
        assert_eq!(rows.timeline[1].usage_in, None);
    }

    /// A window of tokens is the provider's: what the log does not show stands in it.
    #[test]
    fn a_window_is_filled_by_what_the_log_does_not_show() {
        let fires = |own: &Prepared| {
            cell_of(own, &[], ("drop-all", ""), ("tokens", "window = 625\nkeep = 1"))
                .events
                .first()
                .map(|e| e.turn)
        };
        let plain = prepared(&script());
        assert_eq!(fires(&plain), None);
        let log = &plain.log;
        let ours = |turn: usize| {
            let end = log.turns[turn].decision.unwrap() as usize;
            log.tokens[..end].iter().map(|&n| u64::from(n)).sum::<u64>()
        };
        // 0.8 x 625 = 500 are there at the first decision; one turn must be old enough to go.
        assert!(2 * ours(8) < 2 * 500);
        assert_eq!(fires(&counted()), Some(3));
    }

    #[test]
    fn without_usage_nothing_is_billed() {
        let rows = cell(&script(), &[], ("drop-all", ""), ALL_BUT_TWO);
        let billed = row(&rows.scores, "token_savings_billed", "");
        assert_eq!((billed.value, billed.weight, billed.n), (None, 0.0, 0));
        assert!(rows.timeline.iter().all(|d| d.unseen_tokens.is_none() && !d.cache_expired));
    }

    /// A parallel call with a huge result costs nothing to the one that holds what is needed, and an
    /// agent that repeats the atom in few words has not thereby made it cheap to get.
    #[test]
    fn rework_is_the_call_that_brings_the_atom_back() {
        let mut log = Log::script(&script());
        let source = 3;
        let hard = log.tokens_again(source);
        assert_eq!(hard, u64::from(log.tokens[2] + log.tokens[3]));
        log.trajectory.steps[2].call_id = Some("a".to_owned());
        log.trajectory.steps[3].call_id = Some("a".to_owned());
        assert_eq!(log.call_of(source), Some(2));
        assert_eq!(money::rework(&log, &[(source, 1), (source, 1), (source, 2)]), 2 * hard);
        let needs = crate::context::needs::Needs::of(&log, 3);
        assert_eq!(needs.list[0].source, Some(source));
    }
}
