//! What a paper takes from a run: `summary.tex`, a table for LaTeX (package booktabs), and `methods.md`, sentences to cite.

use super::figures::charts::MARGIN;
use super::load::Run;
use super::statistics::bootstrap::Resampling;
use super::statistics::estimate::Estimate;
use super::tables::fixed;
use super::tables::summary::{Summary, metric};
use crate::scores::money::{COST_SAVINGS, TOKEN_SAVINGS, TOKEN_SAVINGS_BILLED};
use crate::text::escape;

/// Columns of the table: what it is called, and the metric.
const COLUMNS: [(&str, &str); 5] = [
    ("tokens saved", TOKEN_SAVINGS.name),
    ("billed", TOKEN_SAVINGS_BILLED.name),
    ("money saved", COST_SAVINGS.name),
    ("needs kept", "need_retention_common"),
    ("efficiency", "efficiency"),
];

/// The table of the variants, in the order of the summary; columns without a value are left out.
pub(super) fn latex(summary: &Summary) -> String {
    let has = |at: usize| summary.main_rows().any(|row| row.estimates[at].is_told());
    let columns: Vec<(&str, usize)> =
        COLUMNS.iter().map(|(head, name)| (*head, metric(name))).filter(|(_, at)| has(*at)).collect();
    let head: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let mut out = format!(
        "% Needs \\usepackage{{booktabs}}. Intervals are 95 %, of {}; * counts needs, where they are too few for a share.\n\
         \\begin{{tabular}}{{l{}}}\n\\toprule\nvariant & {} \\\\\n\\midrule\n",
        summary.population.name(),
        "r".repeat(columns.len()),
        head.join(" & ")
    );
    for row in summary.main_rows() {
        let cells: Vec<String> = columns.iter().map(|(_, at)| cell(&row.estimates[*at])).collect();
        out += &format!("{} & {} \\\\\n", escaped(&row.label), cells.join(" & "));
    }
    out + "\\bottomrule\n\\end{tabular}\n"
}

fn cell(of: &Estimate) -> String {
    // A minus of mathematics, not a hyphen.
    let number = |x: f64| match fixed(x, 2).strip_prefix('-') {
        Some(rest) => format!("$-${rest}"),
        None => fixed(x, 2),
    };
    match (of.value, of.interval, of.counted) {
        (Some(x), Some((lo, hi)), _) => format!("{} [{}, {}]", number(x), number(lo), number(hi)),
        (Some(x), None, _) => number(x),
        (None, _, Some(counted)) => format!("{} of {}*", counted.kept, counted.n),
        _ => "--".to_owned(),
    }
}

/// Text of the log or of a user, as LaTeX prints it.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in escape::line(text).chars() {
        match c {
            '\\' => out += "\\textbackslash{}",
            '~' => out += "\\textasciitilde{}",
            '^' => out += "\\textasciicircum{}",
            '&' | '%' | '$' | '#' | '_' | '{' | '}' => out.extend(['\\', c]),
            // The oldest encoding of fonts has other signs in their places.
            '<' => out += "\\textless{}",
            '>' => out += "\\textgreater{}",
            c => out.push(c),
        }
    }
    out
}

/// What was measured, of what and how, in sentences that can be cited.
pub(super) fn methods(run: &Run, summary: &Summary, resampling: Resampling) -> String {
    let common = metric("need_retention_common");
    let needs = summary.main_rows().map(|row| row.estimates[common].n_items).max().unwrap_or(0);
    let n_eff = summary.main_rows().filter_map(|row| row.estimates[common].n_eff).reduce(f64::min);
    let mut formats: Vec<&str> = run.trajectories.iter().map(|t| t.format.as_str()).collect();
    formats.sort_unstable();
    formats.dedup();
    let prices = summary.prices.as_ref().map_or_else(String::new, |p| {
        format!(
            " Money is counted at the prices of the table `{}` (fresh {}, cache write {}, cache read {}, output {}), with the provider's \
             prompt cache.",
            p.name, p.fresh, p.cache_write, p.cache_read, p.output
        )
    });
    let versions = [
        run.semantics.map(|version| format!("semantics {version}")),
        run.tokenizer.as_ref().map(|name| format!("tokens as `{name}` counts them")),
    ];
    let versions = versions.into_iter().flatten().collect::<Vec<_>>().join("; ");
    let versions = if versions.is_empty() { versions } else { format!(" ({versions})") };
    let text = format!(
        "# Methods\n\n\
         We replayed {} logged sessions ({}) under {} variants with trajpress {}{versions}. A variant says when the agent's context is compressed, and \
         how. No agent was run again: at every decision of a log we compare the prompt that a variant would have sent with what the logged \
         agent used next, so that figures look one step ahead under the logged policy, and none estimates how many tasks are solved.\n\n\
         *Tokens saved* is 1 - prompt tokens sent / prompt tokens with nothing compressed, over all decisions.{prices} A *need* is an atom (a \
         path, an identifier, a number, a quotation) that the agent used and had last seen more than {} turns before, in the output of a tool or \
         in words of the user. It is *kept* if it still stands in the prompt beside words that say what it is. *Efficiency* is where the \
         kept share lies between equally many tokens of random lines (0) and of the lines that later needs ask for (1).\n\n\
         Intervals are 95 %. They leave one cluster out at a time (jackknife; Student's t with n_eff - 1 degrees of freedom, of H strata with G clusters (G - H) / (G - 1) times as many; shares on the logit \
         scale, BCa bootstrap of {} resamples from seed {} where n_eff is 50 or more), and speak of {}: a cluster is {}. There are {needs} needs; n_eff = (sum w)^2 / sum \
         w^2, w a cluster's needs, is {} at the least. Shares, differences and efficiencies are given from 30 needs and n_eff 4 on. p-values of a \
         family are adjusted by Holm's method. Of a difference in needs kept {MARGIN} is the margin: a variant is called not \
         worse where the whole interval lies above a loss of so much.\n",
        summary.n_trajectories,
        formats.join(", "),
        summary.rows.len(),
        env!("CARGO_PKG_VERSION"),
        summary.tail(),
        resampling.resamples,
        resampling.seed,
        summary.population.name(),
        summary.cluster(),
        n_eff.map_or_else(|| "unknown".to_owned(), |n| fixed(n, 1)),
    );
    escape::page(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_print_as_they_are() {
        assert_eq!(
            escaped("mask(keep_last=10) @ 50 % & ~\\x{} < 3"),
            "mask(keep\\_last=10) @ 50 \\% \\& \\textasciitilde{}\\textbackslash{}x\\{\\} \\textless{} 3"
        );
    }

    #[test]
    fn cells_have_intervals_counts_or_a_dash() {
        let told = Estimate { value: Some(-0.123), interval: Some((-0.2, 0.01)), ..Estimate::default() };
        assert_eq!(cell(&told), "$-$0.12 [$-$0.20, 0.01]");
        let counted = crate::report::statistics::estimate::Counted { kept: 3, n: 7, interval: (0.1, 0.8) };
        assert_eq!(cell(&Estimate { counted: Some(counted), ..Estimate::default() }), "3 of 7*");
        assert_eq!(cell(&Estimate::default()), "--");
    }
}
