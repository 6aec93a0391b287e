//! The tables of the summary, column by column.

use super::*;
use crate::report::load::STRATUM_KEYS;

impl Summary {
    /// One row a variant.
    pub(crate) fn table(&self) -> Table {
        let mut t = Table::new("summary");
        let savings = metric(TOKEN_SAVINGS.name);
        let rows = &self.rows;
        t.text("variant", "id of the variant", rows.iter().map(|r| Some(r.variant.clone())));
        t.text("label", "its short name, unique in the run", rows.iter().map(|r| Some(r.label.clone())));
        t.text("strategy", "how it compresses", rows.iter().map(|r| Some(r.strategy.clone())));
        t.text("trigger", "when it compresses", rows.iter().map(|r| Some(r.trigger.clone())));
        t.text("model", "model of the compressor; null is model-free", rows.iter().map(|r| r.model.clone()));
        t.flag(
            "bridge",
            "bridge mode: selected by the logged summary (trigger `logged`), so not to be compared with other rows; out of the figure and the main table",
            rows.iter().map(VariantSummary::is_bridge),
        );
        t.count("n_cells_ok", "trajectories scored", rows.iter().map(|r| Some(r.n_ok as u64)));
        t.count(
            "n_cells_error",
            "trajectories that failed under this variant and are left out",
            rows.iter().map(|r| Some(r.errors.len() as u64)),
        );
        t.count(
            "n_clusters",
            &format!("clusters behind token_savings; a cluster is {}", self.population.cluster()),
            rows.iter().map(|r| Some(r.estimates[savings].n_clusters as u64)),
        );
        t.count("n_events", "compressions", rows.iter().map(|r| Some(r.events.n as u64)));
        let items = |name: &str| {
            let at = metric(name);
            rows.iter().map(move |r| Some(r.estimates[at].n_items))
        };
        t.count("n_needs_common", "needs behind need_retention_common", items("need_retention_common"));
        t.count("n_needs_exposed", "needs behind need_retention_exposed", items("need_retention_exposed"));
        t.fraction(
            "kept_share",
            "kept tokens / removable tokens over all events",
            rows.iter().map(|r| r.events.kept_share),
        );
        for (i, metric) in METRICS.iter().enumerate() {
            estimate_columns(&mut t, metric, rows.iter().map(|r| &r.estimates[i]));
        }
        for set in ["common", "exposed"] {
            let at = metric(&format!("need_retention_{set}"));
            let of = move |r: &VariantSummary| r.estimates[at].clone();
            sample_columns(&mut t, &format!("_{set}"), rows.iter().map(of));
        }
        t.text(
            "efficiency_rows",
            "stratum behind efficiency",
            rows.iter().map(|r| Some(r.efficiency_rows.to_owned())),
        );
        t.amount(
            "break_even_median",
            "decisions until a compression has paid for the prompt cache it broke: Kaplan-Meier median over events; null where half are never seen to",
            rows.iter().map(|r| r.events.break_even_median.map(f64::from)),
        );
        t.fraction(
            "break_even_censored_share",
            "share of the events that had not paid off when the log ended",
            rows.iter().map(|r| r.events.break_even_censored_share),
        );
        t.count("n_violations", "invariants violated", rows.iter().map(|r| Some(r.n_violations)));
        t.count(
            "n_fallbacks",
            "events at which a fallback strategy stood in",
            rows.iter().map(|r| Some(r.events.n_fallbacks as u64)),
        );
        t.count(
            "n_warnings",
            "events that the strategy flagged as odd, as `salience` does a set of more than 50 items",
            rows.iter().map(|r| Some(r.events.n_warnings as u64)),
        );
        t.text("nulls", "why values or intervals are null", rows.iter().map(nulls));
        t
    }

    /// Every retention score by stratum, one row each.
    pub(crate) fn strata(&self) -> Table {
        let rows: Vec<(&VariantSummary, &StratumRow)> =
            self.rows.iter().flat_map(|r| r.strata.iter().map(move |s| (r, s))).collect();
        let mut t = Table::new("strata");
        t.text("variant", "id of the variant", rows.iter().map(|(r, _)| Some(r.variant.clone())));
        t.text("label", "its short name", rows.iter().map(|(r, _)| Some(r.label.clone())));
        t.text(
            "metric",
            "need_retention (bound), surface_retention, or another score that comes by stratum",
            rows.iter().map(|(_, s)| Some(s.metric.clone())),
        );
        t.text("stratum", "the stratum in full", rows.iter().map(|(_, s)| Some(s.stratum.to_string())));
        for &key in STRATUM_KEYS {
            t.text(key, doc_of(key), rows.iter().map(|(_, s)| s.stratum.get(key).map(str::to_owned)));
        }
        t.count(
            "n_trajectories",
            "trajectories behind the value",
            rows.iter().map(|(_, s)| Some(s.value.n_trajectories as u64)),
        );
        t.count(
            "n_clusters",
            "clusters behind the value",
            rows.iter().map(|(_, s)| Some(s.value.n_clusters as u64)),
        );
        t.count("n_needs", "needs behind the value", rows.iter().map(|(_, s)| Some(s.value.n_items)));
        sample_columns(&mut t, "", rows.iter().map(|(_, s)| s.value.clone()));
        t.fraction("value", "the score, pooled over trajectories", rows.iter().map(|(_, s)| s.value.value));
        t.fraction("lo", "lower end of its 95 % interval", rows.iter().map(|(_, s)| s.value.lo()));
        t.fraction("hi", "upper end of its 95 % interval", rows.iter().map(|(_, s)| s.value.hi()));
        t.fraction(
            "random",
            "the same for the matched random shadow: the floor",
            rows.iter().map(|(_, s)| s.floor),
        );
        t.fraction(
            "oracle",
            "the same for the matched oracle shadow: the ceiling",
            rows.iter().map(|(_, s)| s.ceiling),
        );
        t.fraction(
            "atom_bag",
            "the same for the matched list of atoms",
            rows.iter().map(|(_, s)| s.atom_bag),
        );
        t.fraction(
            "chance",
            "the same in the contexts of other trajectories",
            rows.iter().map(|(_, s)| s.chance),
        );
        t.fraction(
            "efficiency",
            "sum w (x - random) / sum w (oracle - random); null by the rule of efficiency in summary.csv",
            rows.iter().map(|(_, s)| s.efficiency.value),
        );
        t.fraction(
            "efficiency_lo",
            "lower end of its 95 % interval",
            rows.iter().map(|(_, s)| s.efficiency.lo()),
        );
        t.fraction(
            "efficiency_hi",
            "upper end of its 95 % interval",
            rows.iter().map(|(_, s)| s.efficiency.hi()),
        );
        t.text(
            "nulls",
            "why values or intervals are null",
            rows.iter()
                .map(|(_, s)| joined([("value", &s.value), ("efficiency", &s.efficiency)].into_iter())),
        );
        t
    }

    /// The headline by format of log.
    pub(crate) fn by_format(&self) -> Table {
        let rows = &self.formats;
        let mut t = Table::new("by_format");
        let variant = |r: &FormatRow| &self.rows[r.variant];
        t.text("format", "format of the logs", rows.iter().map(|r| Some(r.format.clone())));
        t.text("variant", "id of the variant", rows.iter().map(|r| Some(variant(r).variant.clone())));
        t.text("label", "its short name", rows.iter().map(|r| Some(variant(r).label.clone())));
        t.count(
            "n_trajectories",
            "trajectories behind token_savings",
            rows.iter().map(|r| Some(r.n_trajectories as u64)),
        );
        let metrics: Vec<&Metric> = METRICS.iter().filter(|m| m.column.by_format).collect();
        let at = |name: &str| metrics.iter().position(|m| m.name() == name).expect("a metric of the list");
        let clusters = at(TOKEN_SAVINGS.name);
        t.count(
            "n_clusters",
            "clusters behind token_savings",
            rows.iter().map(|r| Some(r.estimates[clusters].n_clusters as u64)),
        );
        for (name, metric) in
            [("n_needs_common", "need_retention_common"), ("n_needs_exposed", "need_retention_exposed")]
        {
            let at = at(metric);
            t.count(
                name,
                &format!("needs behind {metric}"),
                rows.iter().map(|r| Some(r.estimates[at].n_items)),
            );
            let set = name.trim_start_matches("n_needs");
            sample_columns(&mut t, set, rows.iter().map(|r| r.estimates[at].clone()));
        }
        for (i, metric) in metrics.iter().enumerate() {
            estimate_columns(&mut t, metric, rows.iter().map(|r| &r.estimates[i]));
        }
        t.text(
            "nulls",
            "why values or intervals are null",
            rows.iter().map(|r| joined(metrics.iter().map(|m| m.name()).zip(&r.estimates))),
        );
        t
    }
}

/// What a key of a stratum says.
fn doc_of(key: &str) -> &'static str {
    match key {
        "set" => "common: the same needs for every variant; exposed: those that the trigger put at risk",
        "tail" => "reference tail in turns: needs last mentioned longer ago",
        "class" => "source of the need: observed, user, system, authored; null is observed and user",
        "kind" => "kind of the atom; null is all",
        "horizon" => "turns after the compression; null is all",
        "point" => "number of the compression, from 1; null is all",
        "unsupported" => {
            "1: needs whose atom was not in the prompt that the log says was sent; they count nowhere else"
        }
        "body" => "1: needs inside the body of an edit, which the headline leaves out",
        "shadow" => "local: shadows start from the variant's own state before each event; null is chain",
        _ => "largest weight of one trajectory in needs; null is no cap",
    }
}
