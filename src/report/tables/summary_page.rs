//! `summary.md`: the main table in words for a reader who has seen nothing else of the project.

use std::fmt::Write as _;

use super::pages::{METHOD, Page, number, shown};
use super::summary::{Summary, VariantSummary, known_metric, metric};
use crate::report::tables::{Table, fixed, markdown};
use crate::scores::discard::DISCARD_LIFT;
use crate::scores::money::{COST_SAVINGS, COST_SAVINGS_UNCACHED, TOKEN_SAVINGS, TOKEN_SAVINGS_BILLED};
use crate::scores::sent::TOKEN_SAVINGS_VS_SENT;
use crate::text::escape;

impl Summary {
    /// The tables for a reader who has seen nothing else of the project.
    pub(crate) fn markdown(&self, tables: &[Table], pages: &[(&str, Result<Page, String>)]) -> String {
        let mut out = String::from("# Summary\n\n");
        writeln!(
            out,
            "{} variants over {} logged trajectories. Each variant says how the agent's context is compressed \
             and when; each trajectory is replayed under it, and the row says what was saved and what was lost. \
             Nobody re-ran an agent: logs are off-policy, so every score looks one step ahead under the policy \
             that was logged, and none of them estimates a solve rate.\n",
            self.rows.len(),
            self.n_trajectories
        )
        .expect("a String takes every write");
        for remark in &self.remarks {
            writeln!(out, "**Note:** {}.\n", escape::markdown(remark)).expect("a String takes every write");
        }
        out += &self.main_table();
        out += "\n";
        out += &self.prices();
        out += &self.dearer();
        let twins: Vec<String> =
            self.twins().iter().map(|labels| escape::markdown(&labels.join(" = "))).collect();
        if !twins.is_empty() {
            writeln!(out, "**Note:** these variants made the same compressions: {}.\n", twins.join("; "))
                .expect("a String takes every write");
        }
        out += &self.legend();
        out += &self.not_sent();
        out += &self.bridge();
        out += &self.excluded();
        out += &other_tables(pages);
        for table in tables {
            write!(out, "\n## Columns of {0}.csv and {0}.parquet\n\n", table.name)
                .expect("a String takes every write");
            out +=
                "A column `x` with an interval is followed by `x_lo` and `x_hi`. Fractions are 0 to 1.\n\n";
            let columns =
                table.columns.iter().filter(|c| !c.name.ends_with("_lo") && !c.name.ends_with("_hi"));
            let shown = Table { name: table.name, columns: columns.cloned().collect() };
            out += &shown.docs();
        }
        escape::page(&out)
    }

    /// What the columns of the main table mean.
    fn legend(&self) -> String {
        format!(
            "- Population: *{}*; a cluster is {}.\n\
             - `0.412 [0.38, 0.45]` is a value with its 95 % interval. {METHOD} `-` is undefined, never 0; the reason \
             stands in `nulls` of summary.csv.\n\
             - `3 of 7 [0.16, 0.75]*` is below the minimum (30 needs, n_eff 4): no share, but needs kept, counted, with \
             Wilson's interval; needs taken as independent.\n\
             - *token savings*: 1 - prompt tokens sent / prompt tokens uncompressed; *billed*: the same by the \
             provider's count with what the log does not show, where usage is logged; *vs sent*: against the prompts that the \
             log says were sent; *cost savings*: the same in money with and without prompt caching. Rows are sorted by token \
             savings.\n\
             - *need retention*: share of what the agent later used from tool output or the user, last mentioned more \
             than {} turns before, that still stood in its context together with words that say what it is. \
             *common* asks every variant the same questions; *exposed* only those that its trigger put at risk.\n\
             - *floor* and *ceiling*: the same score when the same number of tokens is filled, at the same moments, with \
             random lines, and with what a reference that knows the future picks (greedy: a reference, not a limit).{}\n\
             - *efficiency*: where the variant stands between them on the exposed needs: 0 is random, 1 the ceiling{}. \
             Undefined below the minimum, and where ceiling - floor on them is under 0.05 or its interval holds 0.\n\
             - *discard lift*: 0 when what was removed was needed as often as what was in scope, 1 when none of it was; \
             here needs at risk for the shortest reference tail count (3 turns by default), not those of need retention.\n\
             - *kept*: kept tokens / removable tokens over all compressions; a strategy need not spend all that it may.\n\
             - *break-even*: median decisions until a compression has paid for the prompt cache it broke, and the \
             share that had not when the log ended.\n\
             - *G*, *n_eff*: clusters with common needs, and how many of equal size would say as much: (sum w)^2 / sum w^2, \
             w a cluster's needs. Under 10 little can be said of the population.\n\
             - *n*: trajectories / common needs / exposed needs.\n",
            self.population.name(),
            self.population.cluster(),
            self.tail(),
            self.random_won().map_or_else(String::new, |share| format!(
                " In {} of the cells a random choice was better, and is the ceiling.",
                fixed(share, 4)
            )),
            if self.rows.iter().any(|r| r.efficiency_rows.contains("cap=")) {
                " (each trajectory capped at the weight of 20 needs)"
            } else {
                ""
            },
        )
    }

    fn main_table(&self) -> String {
        let has = |at: usize, or: Option<usize>| {
            self.rows.iter().any(|r| {
                let value = r.estimates[at].value;
                value.is_some() && or.is_none_or(|or| value != r.estimates[or].value)
            })
        };
        let all = metric(TOKEN_SAVINGS.name);
        // What says nothing of its own is left out.
        let billed = Some(metric(TOKEN_SAVINGS_BILLED.name)).filter(|&at| has(at, None));
        let vs_sent = known_metric(TOKEN_SAVINGS_VS_SENT.name).filter(|&at| has(at, Some(all)));
        let mut columns = vec![("token savings", all, true)];
        columns.extend(billed.map(|at| ("billed", at, true)));
        columns.extend(vs_sent.map(|at| ("vs sent", at, true)));
        columns.extend([
            ("cost savings, cached", metric(COST_SAVINGS.name), true),
            ("cost savings, uncached", metric(COST_SAVINGS_UNCACHED.name), true),
            ("need retention, common", metric("need_retention_common"), true),
            ("floor", metric("random_common"), false),
            ("ceiling", metric("oracle_common"), false),
            ("need retention, exposed", metric("need_retention_exposed"), true),
            ("efficiency", metric("efficiency"), true),
            ("discard lift", metric(DISCARD_LIFT.name), true),
        ]);
        let mut header = vec!["variant", "kept"];
        header.extend(columns.iter().map(|c| c.0));
        header.extend(["break-even", "G", "n_eff", "n", "errors"]);
        let rows: Vec<Vec<String>> = self
            .main_rows()
            .map(|r| {
                let kept = r.events.kept_share.map_or_else(|| "-".to_owned(), |share| fixed(share, 3));
                let mut row = vec![r.label.clone(), kept];
                row.extend(columns.iter().map(|&(_, at, interval)| shown(&r.estimates[at], interval)));
                row.push(match (r.events.break_even_median, r.events.break_even_censored_share) {
                    (_, None) => "-".to_owned(),
                    (median, Some(share)) => {
                        let median = median.map_or_else(|| "-".to_owned(), |m| m.to_string());
                        format!("{median} ({} censored)", fixed(share, 2))
                    }
                });
                let common = &r.estimates[metric("need_retention_common")];
                row.extend([common.n_clusters.to_string(), number(common.n_eff, 1)]);
                row.push(format!(
                    "{}/{}/{}",
                    r.n_ok,
                    common.n_items,
                    r.estimates[metric("need_retention_exposed")].n_items,
                ));
                row.push(r.errors.len().to_string());
                row
            })
            .collect();
        markdown(&header, &rows)
    }

    /// How often the definition of a need is wrong, where the logs tell: a line of the list above.
    fn not_sent(&self) -> String {
        match self.unsupported() {
            Some((share, n)) if share > 0.0 => format!(
                "- *unsupported*: {} of {n} needs at risk were met by agents that had not been sent what they needed, as their \
                 logs say: they guessed or knew it. No compression is to blame for these; they count under `unsupported` of \
                 strata.csv alone.\n",
                fixed(share, 3)
            ),
            _ => String::new(),
        }
    }

    /// What tokens cost in the table above, and how long a cache is taken to live.
    fn prices(&self) -> String {
        let Some(p) = &self.prices else {
            return "Prices: not known, the run has no manifest.\n\n".to_owned();
        };
        let lives = match p.cache_lifetime {
            Some(seconds) => format!(
                "for {} s after its last use where the log has times; where it has none, {}",
                amount(seconds),
                match p.cache_gone {
                    0.0 => "to the end".to_owned(),
                    gone => format!("{} % of prompts find it gone", amount((1e6 * gone).round() / 1e4)),
                }
            ),
            None => "to the end".to_owned(),
        };
        let hour = match p.cache_write_1h {
            Some(price) if p.hour => format!(
                " All caches are priced as living an hour ({} written), where one can be had.",
                amount(price)
            ),
            Some(price) if self.n_cached_an_hour > 0 => format!(
                " An hour ({} written) in {} of {} logs, which say so.",
                amount(price),
                self.n_cached_an_hour,
                self.n_trajectories
            ),
            _ => String::new(),
        };
        let dearer = p.dearer_above.map_or_else(String::new, |above| {
            let [prompt, output] =
                [p.dearer_prompt, p.dearer_output].map(|times| amount(times.unwrap_or(1.0)));
            format!(
                " Of prompts above {} tokens all costs {prompt} times as much, answers {output} times.",
                amount(above)
            )
        });
        let own = match p.own {
            true => {
                "Prices of the model that a log names (`trajpress list api-models`); where they are not known, "
            }
            false => "Prices ",
        };
        format!(
            "{own}`{}`: prompt {} fresh, {} written to the cache, {} read from it; output {}. A cached prompt lives {lives}.{hour}{dearer}\n\n",
            p.name,
            amount(p.fresh),
            amount(p.cache_write),
            amount(p.cache_read),
            amount(p.output)
        )
    }

    /// Variants that save tokens and cost more money, which token savings alone would hide.
    fn dearer(&self) -> String {
        const SHOWN: usize = 10;
        let [tokens, cached, uncached] =
            [TOKEN_SAVINGS, COST_SAVINGS, COST_SAVINGS_UNCACHED].map(|score| metric(score.name));
        let more = |r: &VariantSummary| r.estimates[cached].value.filter(|saved| *saved < 0.0);
        let told = |r: &VariantSummary| {
            let percent = |x: f64| fixed(100.0 * x, 1);
            let saved = |at: usize| r.estimates[at].value.map_or_else(|| "-".to_owned(), percent);
            let more = percent(-more(r)?);
            let (tokens, uncached) = (saved(tokens), saved(uncached));
            Some(format!(
                "{} +{more} % (tokens saved {tokens} %, money without a cache {uncached} %)",
                escape::markdown(&r.label)
            ))
        };
        let all: Vec<String> = self.main_rows().filter_map(told).collect();
        if all.is_empty() {
            return String::new();
        }
        let rest = all.len().saturating_sub(SHOWN);
        let rest = if rest > 0 { format!("; and {rest} more") } else { String::new() };
        let first = all[..all.len().min(SHOWN)].join("; ");
        format!("**Note:** with prompt caching these cost more than nothing compressed: {first}{rest}.\n\n")
    }

    /// Variants in bridge mode, which compare with nothing above.
    fn bridge(&self) -> String {
        let savings = metric(TOKEN_SAVINGS.name);
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .filter(|r| r.is_bridge())
            .map(|r| vec![r.label.clone(), shown(&r.estimates[savings], true)])
            .collect();
        if rows.is_empty() {
            return String::new();
        }
        let table = markdown(&["variant", "token savings"], &rows);
        format!("\n## Bridge mode (selected by the logged summary)\n\n{table}")
    }

    /// Which cells failed, and the first error text of each variant.
    fn excluded(&self) -> String {
        const SHOWN: usize = 20;
        let failed: Vec<&VariantSummary> = self.rows.iter().filter(|r| !r.errors.is_empty()).collect();
        let mut out = String::from("\n## Excluded cells\n\n");
        if failed.is_empty() {
            out += "None: every variant was scored on every trajectory that it was given.\n";
            return out;
        }
        let rows: Vec<Vec<String>> = failed
            .iter()
            .take(SHOWN)
            .map(|r| {
                let (trajectory, error) = &r.errors[0];
                let error: String = error.chars().take(100).collect();
                vec![r.label.clone(), r.errors.len().to_string(), format!("{trajectory}: {error}")]
            })
            .collect();
        out += &markdown(&["variant", "cells", "first error"], &rows);
        if failed.len() > SHOWN {
            writeln!(out, "\nand {} more variants: see cells.parquet.", failed.len() - SHOWN)
                .expect("a String takes every write");
        }
        out
    }
}

/// Where to read on.
fn other_tables(pages: &[(&str, Result<Page, String>)]) -> String {
    let mut out = String::from("\n## Other tables\n\nEach as .md to read, .csv and .parquet.\n\n");
    for (name, page) in pages {
        match page {
            Ok(page) => writeln!(out, "- [{name}]({name}.md): {}", page.gist),
            Err(reason) => writeln!(out, "- {name}: not written, because {}", escape::markdown(reason)),
        }
        .expect("a String takes every write");
    }
    out += "- strata: every score by stratum, as .csv and .parquet; columns below\n";
    out += "- by_format: the headline by format of log, as .csv and .parquet; columns below\n";
    out
}

/// A price as people write it, without its 300 zeros where it has so many.
fn amount(x: f64) -> String {
    if x == 0.0 || (1e-6..1e15).contains(&x) { x.to_string() } else { format!("{x:e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_short() {
        assert_eq!([0.0, 1.0, 0.25, 1e300, 1e-300].map(amount), ["0", "1", "0.25", "1e300", "1e-300"]);
    }
}
