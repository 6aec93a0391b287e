//! `summary.md`: the result on one page, in words for a reader who has seen nothing else of the project; and `columns.md`, what
//! the columns of its tables mean.

use std::cmp::Reverse;
use std::fmt::Write as _;

use super::pages::{METHOD, Page, shown};
use super::summary::{Summary, VariantSummary, metric};
use crate::report::statistics::estimate::Estimate;
use crate::report::statistics::pooled::Worst;
use crate::report::tables::{Table, fixed, markdown};
use crate::scores::money::{COST_SAVINGS, COST_SAVINGS_UNCACHED, TOKEN_SAVINGS, TOKEN_SAVINGS_BILLED};
use crate::text::escape;

/// Rows of the main table: it is to fit on a page. Of more variants those that another beats are left out first.
const ROWS: usize = 40;

impl Summary {
    /// The result on one page. `figures` says what is drawn, and what is not and why.
    pub(crate) fn markdown(
        &self,
        sentence: &str,
        pages: &[(&str, Result<Page, String>)],
        (figures, png): (&[(&str, Option<String>)], bool),
    ) -> String {
        let mut out = format!(
            "# Summary\n\n**{}**\n\n{} variants over {} logged sessions. A variant says how the agent's context is compressed, and \
             when; each session was replayed under each variant. Nobody ran an agent again, so nothing here says how many tasks \
             would be solved.\n\n",
            escape::line(sentence),
            self.rows.len(),
            self.n_trajectories
        );
        for remark in &self.remarks {
            out += &format!("**Note:** {}.\n\n", escape::markdown(remark));
        }
        out += &self.main_table();
        out += &self.prices();
        out += &self.dearer();
        let twins: Vec<String> =
            self.twins().iter().map(|labels| escape::markdown(&labels.join(" = "))).collect();
        if !twins.is_empty() {
            out += &format!("**Note:** these variants made the same compressions: {}.\n\n", twins.join("; "));
        }
        out += &self.not_sent();
        out += &self.bridge();
        out += &self.excluded();
        out += &read_on(pages, figures, png);
        escape::page(&out)
    }

    fn main_table(&self) -> String {
        let saved = metric(TOKEN_SAVINGS.name);
        let billed = metric(TOKEN_SAVINGS_BILLED.name);
        let is_billed = self.rows.iter().any(|row| row.estimates[billed].value.is_some());
        // What says nothing of its own is left out.
        let shares: Vec<(&str, usize)> = [
            Some(("tokens saved", saved)),
            is_billed.then_some(("as billed", billed)),
            Some(("money saved", metric(COST_SAVINGS.name))),
        ]
        .into_iter()
        .flatten()
        .collect();
        let (needs, between) = (metric("need_retention_common"), metric("efficiency"));
        let mut header = vec!["variant"];
        header.extend(shares.iter().map(|(name, _)| *name));
        header.extend(["needs kept", "random 0, best 1", "worst session loses"]);
        let rows: Vec<&VariantSummary> = self.best_first();
        let table: Vec<Vec<String>> = rows
            .iter()
            .take(ROWS)
            .map(|row| {
                let mark = match (row.control, self.is_beaten(row)) {
                    (true, _) => " (control)",
                    (_, true) if row.costs_more() => " (costs more)",
                    (_, true) => " (beaten)",
                    _ => "",
                };
                let mut cells = vec![format!("{}{mark}", row.label)];
                cells.extend(shares.iter().map(|&(_, at)| percent(&row.estimates[at])));
                cells.extend([needs, between].map(|at| share(&row.estimates[at])));
                cells.push(row.lost.worst.map_or_else(|| "-".to_owned(), needs_of));
                cells
            })
            .collect();
        let more = match rows.len().saturating_sub(ROWS) {
            0 => String::new(),
            more => format!("\n{more} more variants stand in summary.csv and report.html.\n"),
        };
        format!("{}{more}\n{}\n", markdown(&header, &table), self.how_to_read(is_billed))
    }

    /// The best first: what saves and keeps most together. What another variant beats comes behind the controls.
    pub(crate) fn best_first(&self) -> Vec<&VariantSummary> {
        let saved = metric(TOKEN_SAVINGS.name);
        let worth = |row: &VariantSummary| {
            let of = |at: usize| row.estimates[at].value;
            self.kept_share(row).map_or(-5.0, |kept| kept + of(saved).unwrap_or(0.0))
        };
        let group = |row: &VariantSummary| match (row.control, self.is_beaten(row)) {
            (true, _) => 1,
            (_, beaten) => 2 * u8::from(beaten),
        };
        let mut rows: Vec<_> = self.main_rows().map(|row| (group(row), worth(row), row)).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0).then(b.1.total_cmp(&a.1)));
        rows.into_iter().map(|(.., row)| row).collect()
    }

    fn how_to_read(&self, is_billed: bool) -> String {
        format!(
            "*How to read it.* *Tokens saved*: the share of all prompt tokens that was not sent{}. *Money saved*: the same in money, \
             with the provider's prompt cache; below 0 it costs more. *Needs kept*: of what the agent used later, and had last seen \
             more than {} turns before, the share that still stood in its prompt with words around it that say what it is; `3 of 7` \
             needs, each counted once, where there are too few (under 30, or of too few sources) for a share. (In a share those of one action weigh 1 together.) *Random 0, best 1*: whether that is more than luck; \
             random lines of as many tokens reach 0, a choice that knows the future 1{}. *Worst session*: the one that loses most{}. \
             *Beaten*: another variant saves and keeps at least as much; *costs more*: money, than nothing compressed. *Control*: nobody would run it; it is there to be compared \
             with. `-` is undefined, never 0: *few sources*, what there is comes from fewer than 4 independent sources of equal size; *no room*, \
             random lines do as well as the best choice, or nearly (*room unsure*: perhaps); `nulls` of summary.csv says more. In brackets: the 95 % interval, of {}; a cluster \
             is {}. {METHOD}\n",
            if is_billed {
                " (*as billed*: by the provider's count, with what the log does not show)"
            } else {
                ""
            },
            self.tail(),
            self.random_won().filter(|share| *share > 0.0).map_or_else(String::new, |share| format!(
                " (in {} of the sessions luck was better, and is the 1)",
                fixed(share, 4)
            )),
            self.at_least(),
            self.population.name(),
            self.cluster()
        )
    }

    /// What *at least* means in the last column, where it stands there.
    pub(crate) fn at_least(&self) -> &'static str {
        let is_weighed =
            |row: &VariantSummary| row.lost.worst.is_some_and(|of| of.lost > 0 && !of.is_counted);
        match self.main_rows().any(is_weighed) {
            true => " (*at least*: these rows have the weight of its needs, and not their count)",
            false => "",
        }
    }

    /// How often the definition of a need is wrong, where the logs tell.
    fn not_sent(&self) -> String {
        match self.unsupported() {
            Some((share, n)) if share > 0.0 => format!(
                "**Note:** {} of {n} needs were met by agents that had not been sent what they needed, as their logs say: they guessed \
                 or knew it. No compression is to blame for these; they count under `unsupported` of strata.csv alone.\n\n",
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
        const SHOWN: usize = 5;
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
        format!(
            "## Bridge mode (selected by the logged summary)\n\n{table}\n*How to read it.* A summary in the log decided what these \
             compress, so they compare with no row above.\n\n"
        )
    }

    /// Which cells failed, and the first error text of each variant.
    fn excluded(&self) -> String {
        const SHOWN: usize = 10;
        let mut failed: Vec<&VariantSummary> = self.rows.iter().filter(|r| !r.errors.is_empty()).collect();
        failed.sort_by_key(|row| Reverse(row.errors.len()));
        if failed.is_empty() {
            return String::new();
        }
        let row = |of: &&VariantSummary| {
            let (trajectory, error) = &of.errors[0];
            let error: String = error.chars().take(100).collect();
            vec![of.label.clone(), of.errors.len().to_string(), format!("{trajectory}: {error}")]
        };
        let rows: Vec<Vec<String>> = failed.iter().take(SHOWN).map(row).collect();
        let table = markdown(&["variant", "sessions", "first error"], &rows);
        let more = failed.len().saturating_sub(SHOWN);
        let more = if more > 0 {
            format!(" {more} more variants failed on some: see cells.parquet.")
        } else {
            String::new()
        };
        format!(
            "## Excluded cells\n\n{table}\n*How to read it.* A session that failed under a variant is left out of that variant's \
             row.{more}\n\n"
        )
    }
}

/// `46 % [39, 51]`, or `-`.
fn percent(of: &Estimate) -> String {
    let number = |x: f64| fixed(100.0 * x, 0);
    match (of.value, of.interval) {
        (Some(x), Some((lo, hi))) => format!("{} % [{}, {}]", number(x), number(lo), number(hi)),
        (Some(x), None) => format!("{} %", number(x)),
        _ => "-".to_owned(),
    }
}

/// `0.84 [0.80, 0.87]`, or what was counted, or `-` and why.
fn share(of: &Estimate) -> String {
    match (of.value, of.interval, of.counted) {
        (Some(x), Some((lo, hi)), _) => format!("{} [{}, {}]", fixed(x, 2), fixed(lo, 2), fixed(hi, 2)),
        (Some(x), None, _) => fixed(x, 2),
        (_, _, Some(counted)) => format!("{} of {}", counted.kept, counted.n),
        _ => format!("- {}", of.in_short()).trim_end().to_owned(),
    }
}

/// `4 needs`, or `4 needs at least` where a row has their weight and not their count.
fn needs_of(worst: Worst) -> String {
    let needs = if worst.lost == 1 { "need" } else { "needs" };
    let least = if worst.is_counted || worst.lost == 0 { "" } else { " at least" };
    format!("{} {needs}{least}", worst.lost)
}

/// Where to read on.
fn read_on(pages: &[(&str, Result<Page, String>)], figures: &[(&str, Option<String>)], png: bool) -> String {
    let mut out = String::from(
        "## Read on\n\n- report.html: all of it for a browser, with the figures and a page a variant\n",
    );
    for (name, page) in pages {
        if let Ok(page) = page {
            writeln!(out, "- [{name}]({name}.md): {}", page.gist).expect("a String takes every write");
        }
    }
    let drawn: Vec<&str> = figures.iter().filter(|(_, why)| why.is_none()).map(|(name, _)| *name).collect();
    if !drawn.is_empty() {
        out += &format!(
            "- figures, each as .svg{} in two widths with its numbers as .csv: {}\n",
            if png { " and .png" } else { "" },
            drawn.join(", ")
        );
    }
    let absent: Vec<String> = absent(pages, figures).into_iter().map(|(name, _)| name).collect();
    if !absent.is_empty() {
        out += &format!("- not there: {} (why: [columns](columns.md))\n", absent.join(", "));
    }
    out + "- [columns](columns.md): what the columns of summary.csv, strata.csv and by_format.csv mean; methods.md and summary.tex: for a paper\n"
}

/// A table with a page, or why there is none, by name.
type Pages<'a> = [(&'a str, Result<Page, String>)];

/// Tables and figures that the rows do not allow, and why; a figure that is called like a table is told by that.
fn absent<'a>(pages: &'a Pages, figures: &'a [(&str, Option<String>)]) -> Vec<(String, &'a str)> {
    let tables: Vec<(String, &str)> = pages
        .iter()
        .filter_map(|(name, page)| Some(((*name).to_owned(), page.as_ref().err()?.as_str())))
        .collect();
    let figures = figures.iter().filter_map(|(name, why)| Some((*name, why.as_deref()?)));
    let is_table = |name: &str| tables.iter().any(|(table, _)| table == name);
    let others: Vec<(String, &str)> = figures
        .filter(|(name, _)| !is_table(name))
        .map(|(name, why)| (format!("figure {name}"), why))
        .collect();
    [tables, others].concat()
}

/// `columns.md`: what the columns of the tables without a page mean, and what is not there.
pub(crate) fn columns(tables: &[Table], pages: &Pages, figures: &[(&str, Option<String>)]) -> String {
    let mut out = String::from(
        "# Columns\n\nA column `x` with an interval is followed by `x_lo` and `x_hi`. Fractions are 0 to 1.\n",
    );
    for table in tables {
        let columns = table.columns.iter().filter(|c| !c.name.ends_with("_lo") && !c.name.ends_with("_hi"));
        let shown = Table { name: table.name, columns: columns.cloned().collect() };
        out += &format!("\n## {0}.csv and {0}.parquet\n\n{1}", table.name, shown.docs());
    }
    let absent = absent(pages, figures);
    if !absent.is_empty() {
        out += "\n## Not in this report\n\n";
        out.extend(absent.iter().map(|(name, why)| format!("- {name}: {}\n", escape::markdown(why))));
    }
    escape::page(&out)
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
