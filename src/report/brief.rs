//! The answer of a run in short: a row a variant, for a terminal.

use super::load::Run;
use super::tables::summary::{Summary, metric};
use crate::scores::money::{COST_SAVINGS, TOKEN_SAVINGS, TOKEN_SAVINGS_BILLED};

/// What a run says of each variant.
pub struct Brief {
    pub n_sessions: usize,
    /// In order of token savings.
    pub rows: Vec<BriefRow>,
}

/// What a variant saved and lost.
pub struct BriefRow {
    /// Id of the variant.
    pub variant: String,
    /// Whether it is there to be compared with.
    pub control: bool,
    /// Sessions that it was scored on.
    pub n_sessions: usize,
    /// Of how many sessions what is saved is known: in tokens, and as billed.
    pub n_counted: usize,
    pub n_billed: usize,
    /// Invariants violated.
    pub n_violations: u64,
    /// Shares saved: tokens, tokens as billed, money with the provider's cache.
    pub tokens: Option<f64>,
    pub billed: Option<f64>,
    pub money: Option<f64>,
    /// The same as what is left, and of how much: in our tokens, in the provider's, and in millionths of what the prices are in.
    pub tokens_of: (f64, f64),
    pub billed_of: (f64, f64),
    pub cost_of: (f64, f64),
    /// Needs that the mean session lost, with its 95 % interval; null below the minimum.
    pub lost: Option<(f64, Option<(f64, f64)>)>,
    /// Needs lost, and needs, over all sessions, each counted once.
    pub lost_of: (f64, f64),
    /// The session that lost most, and how many; none where none lost any.
    pub worst: Option<(String, u64)>,
    /// Sessions in which something was compressed.
    pub affected: usize,
    /// Compressions in all sessions.
    pub n_events: usize,
}

impl Brief {
    pub(super) fn of(run: &Run, summary: &Summary) -> Self {
        let saved = [TOKEN_SAVINGS.name, TOKEN_SAVINGS_BILLED.name, COST_SAVINGS.name];
        let [tokens, billed, money] = saved.map(metric);
        let rows = summary.rows.iter().map(|row| {
            let of = |at: usize| &row.estimates[at];
            let share = |at: usize| of(at).value;
            let lost = &row.lost.session;
            BriefRow {
                variant: row.variant.clone(),
                control: row.control,
                n_sessions: row.n_ok,
                n_counted: of(tokens).n_trajectories,
                n_billed: of(billed).n_trajectories,
                n_violations: row.n_violations,
                tokens: share(tokens),
                billed: share(billed),
                money: share(money),
                tokens_of: row.lost.tokens,
                billed_of: row.lost.billed,
                cost_of: row.lost.cost,
                lost: lost.value.map(|value| (value, lost.interval)),
                lost_of: row.lost.total,
                worst: row
                    .lost
                    .worst
                    .filter(|worst| worst.lost > 0)
                    .map(|worst| (run.trajectories[worst.trajectory as usize].id.clone(), worst.lost)),
                affected: row.lost.affected,
                n_events: row.lost.n_events,
            }
        });
        Brief { n_sessions: summary.n_trajectories, rows: rows.collect() }
    }
}
