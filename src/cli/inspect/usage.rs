//! What the provider counted, beside the steps of a log.

use serde_json::json;

use super::super::count;
use super::line;
use crate::context::log::Log;
use crate::scores::costs::Costs;
use crate::store::UsageRow;

/// As JSON.
pub(super) fn stretch(row: &UsageRow) -> serde_json::Value {
    json!({
        "turns": [row.first_turn, row.end_turn], "calls": row.n_calls, "unseen": row.unseen, "factor": row.factor,
        "factor_of": row.factor_of, "unlogged_edit": row.unlogged_edit, "sent_is_known": row.sent_is_known,
        "residual_median": row.residual_median, "residual_p90": row.residual_p90,
    })
}

/// What the provider counted beside what the log shows, by stretch; empty where no usage is logged.
pub(super) fn usage_lines(usage: &[UsageRow]) -> String {
    let Some(first) = usage.first() else { return String::new() };
    let mut text = format!(
        "usage = unseen + {:.3} x tokens (factor of {})\n  |residual| / usage {:.3}, 90th percentile {:.3}\n",
        first.factor, first.factor_of, first.residual_median, first.residual_p90
    );
    for row in usage {
        let edit = if row.unlogged_edit { ", after an unlogged edit" } else { "" };
        let (unseen, calls) = (count(row.unseen, "token"), count(u64::from(row.n_calls), "call"));
        text.push_str(&format!(
            "  turns {}..{}: {unseen} unseen, {calls}{edit}\n",
            row.first_turn, row.end_turn
        ));
    }
    text
}

/// What the log counted beside prompts: reasoning, other models, and costs, those beside what the model's prices say.
pub(super) fn counted_lines(log: &Log) -> String {
    let t = &log.trajectory;
    let usages = || t.steps.iter().filter_map(|step| step.usage.as_deref());
    let mut text = String::new();
    let reasoning: u64 = usages().filter_map(|usage| usage.reasoning).sum();
    if reasoning > 0 {
        text += &format!("reasoning: {}\n", count(reasoning, "token"));
    }
    let mut others: Vec<&str> = t.steps.iter().filter_map(|step| step.model.as_deref()).collect();
    let n = others.len() as u64;
    others.sort_unstable();
    others.dedup();
    if n > 0 {
        text += &format!("{} of other models: {}\n", count(n, "reply"), line(&others.join(", "), 200));
    }
    if let Some(cost) = t.cost {
        text += &format!("cost of the run by the log: ${cost:.4}\n");
    }
    let costs = Costs::of(t);
    if costs.n_calls > 0 {
        text += &format!("cost by the log: ${:.4} for {}", costs.logged, count(costs.n_calls, "call"));
        if let Some(ratio) = costs.ratio() {
            text += &format!("; by the prices of its models {ratio:.2} of that");
        }
        text += "\n";
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_told_by_stretch() {
        let row = |turns: std::ops::Range<u32>, unlogged_edit| UsageRow {
            first_turn: turns.start,
            end_turn: turns.end,
            n_calls: 3,
            unseen: 42_000,
            factor: 1.3604,
            factor_of: "session".to_owned(),
            unlogged_edit,
            residual_median: 0.004,
            residual_p90: 0.02,
            ..UsageRow::default()
        };
        let expected = "usage = unseen + 1.360 x tokens (factor of session)
  |residual| / usage 0.004, 90th percentile 0.020
  turns 0..9: 42,000 tokens unseen, 3 calls
  turns 9..12: 42,000 tokens unseen, 3 calls, after an unlogged edit\n";
        assert_eq!(usage_lines(&[row(0..9, false), row(9..12, true)]), expected);
        assert_eq!(usage_lines(&[]), "");
    }
}
