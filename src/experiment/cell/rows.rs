//! The rows of one cell, but its scores.

use std::sync::Arc;

use crate::context::log::Log;
use crate::context::{Block, Content};
use crate::replay::{Event, Recipe, Run};
use crate::scores::CellIds;
use crate::scores::money::{self, Tariff};
use crate::store::{CellRow, ContextRow, EventRow, ItemRow, TimelineRow};
use crate::strategies::{Item, Work};
use crate::text::redact::redact;
use crate::text::tokens::Tokenizer;

use super::Prepared;

pub(super) fn cell_row((variant, trajectory): &CellIds, run: &Run) -> CellRow {
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
        id: String::new(),
    }
}

pub(super) fn event_rows(
    (variant, trajectory): &CellIds,
    strategy: &str,
    break_even: Vec<(Option<u32>, u32)>,
    events: Vec<Event>,
) -> Vec<EventRow> {
    events
        .into_iter()
        .zip(break_even)
        .enumerate()
        .map(|(i, (e, (break_even_turns, decisions_left)))| EventRow {
            variant: Arc::clone(variant),
            trajectory: Arc::clone(trajectory),
            event: i as u32,
            turn: e.turn,
            trigger_kind: e.kind.into(),
            confidence: e.confidence,
            details: (!e.details.is_empty()).then(|| {
                let mut details = e.details;
                redact(&mut [&mut details]);
                details
            }),
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

pub(super) fn item_rows((variant, trajectory): &CellIds, own: &Prepared, run: &Run) -> Vec<ItemRow> {
    let items =
        run.events.iter().zip(0..).flat_map(|(e, event)| {
            e.work.items.iter().zip(0..).map(move |(item, number)| (event, number, item))
        });
    let items: Vec<(u32, u32, &Item)> = items.collect();
    if items.is_empty() {
        return Vec::new();
    }
    let texts = own.secrets().hidden(&own.log, &items.iter().map(|(.., item)| *item).collect::<Vec<_>>());
    items
        .into_iter()
        .zip(texts)
        .map(|((event, number, item), text)| ItemRow {
            variant: Arc::clone(variant),
            trajectory: Arc::clone(trajectory),
            event,
            item: number,
            text,
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

pub(super) fn context_rows(
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
        for (number, held) in (0..).zip(recipe.stages[recipe.store()].strategy.held(log, state)) {
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

/// Rows of the decisions, which go meanwhile.
pub(super) fn timeline_rows(
    (variant, trajectory): &CellIds,
    log: &Log,
    mut run: Run,
    tariff: &Tariff,
) -> Vec<TimelineRow> {
    let nothing = Work::default();
    let alive = money::alive(log, &run, tariff);
    let mut decisions = std::mem::take(&mut run.decisions);
    let mut rows = Vec::with_capacity(decisions.len());
    while let Some(d) = decisions.pop() {
        let i = decisions.len() as u32;
        let work = run.recalled_for(i).map_or(&nothing, |recall| &recall.work);
        let (rate, usage) = (log.rate(d.turn), log.usage(d.turn));
        rows.push(TimelineRow {
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
            unseen_tokens: rate.map(|rate| rate.unseen).into(),
            token_factor: rate.map(|rate| rate.factor).into(),
            cache_expired: alive[i as usize] == 0.0,
            usage_in: usage.map(|usage| usage.input).filter(|input| *input > 0).into(),
            usage_out: usage.and_then(|usage| usage.output).into(),
            usage_cache_read: usage.and_then(|usage| usage.cache_read).into(),
            usage_cache_write: usage.and_then(|usage| usage.cache_write).into(),
        });
        if i % (1 << 16) == 0 {
            decisions.shrink_to_fit();
        }
    }
    rows.reverse();
    rows
}
