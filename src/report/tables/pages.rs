//! A table of its own page: csv and Parquet for programs, Markdown for a reader who has seen nothing else.

use crate::report::statistics::estimate::Estimate;
use crate::report::tables::{Table, fixed, markdown};
use crate::text::escape;

/// A table with the words that belong to it.
pub(crate) struct Page {
    pub(crate) table: Table,
    pub(crate) title: &'static str,
    /// One sentence for a list of pages.
    pub(crate) gist: &'static str,
    /// What it is and how it is computed, in Markdown.
    pub(crate) about: String,
    /// What of the table stands on the page.
    pub(crate) parts: Vec<Part>,
    /// How to read it, in Markdown.
    pub(crate) notes: String,
}

/// A Markdown table, under a heading where there are several.
pub(crate) struct Part {
    pub(crate) heading: Option<String>,
    pub(crate) header: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

pub(crate) fn header<const N: usize>(names: [&str; N]) -> Vec<String> {
    names.map(str::to_owned).to_vec()
}

/// Rows of a page; the rest stands in the csv.
const SHOWN: usize = 400;

impl Page {
    pub(crate) fn markdown(&self) -> String {
        let name = self.table.name;
        let mut out = format!("# {}\n\n{}\n", self.title, self.about);
        let mut room = SHOWN;
        for part in self.parts.iter().filter(|p| !p.rows.is_empty()) {
            if room == 0 {
                break;
            }
            if let Some(heading) = &part.heading {
                out += &format!("\n## {heading}\n");
            }
            let shown = &part.rows[..part.rows.len().min(room)];
            out += &format!("\n{}", markdown(&part.header, shown));
            room -= shown.len();
        }
        let n_rows: usize = self.parts.iter().map(|p| p.rows.len()).sum();
        if n_rows > SHOWN {
            out += &format!("\nThe first {SHOWN} of {n_rows} rows; all are in {name}.csv.\n");
        }
        out += &format!("\n{}\n\n## Columns of {name}.csv and {name}.parquet\n\n", self.notes);
        escape::page(&(out + &self.table.docs()))
    }
}

/// How intervals are made, in a sentence.
pub(crate) const METHOD: &str = "Intervals: 95 %, by leaving one cluster out (jackknife), Student's t with n_eff - 1 \
    degrees of freedom (fewer where repositories are strata), shares on the logit scale; BCa bootstrap where n_eff is 50 or more.";

/// `0.412 [0.38, 0.45]`; below the minimum `3 of 7 [0.16, 0.75]*`, items taken as independent; or `-`.
pub(crate) fn shown(estimate: &Estimate, interval: bool) -> String {
    match (estimate.value, estimate.interval) {
        (None, _) => estimate.counted.map_or_else(
            || "-".to_owned(),
            |c| {
                let (lo, hi) = c.interval;
                format!("{} of {} [{}, {}]*", c.kept, c.n, fixed(lo, 2), fixed(hi, 2))
            },
        ),
        (Some(value), Some((lo, hi))) if interval => {
            format!("{} [{}, {}]", fixed(value, 3), fixed(lo, 2), fixed(hi, 2))
        }
        (Some(value), _) => fixed(value, 3),
    }
}

/// `0.412`, or `-`.
pub(crate) fn number(value: Option<f64>, decimals: usize) -> String {
    value.map_or_else(|| "-".to_owned(), |value| fixed(value, decimals))
}

/// A value with its interval as three columns `name`, `name_lo`, `name_hi`.
pub(crate) fn estimate_columns<'a>(
    t: &mut Table,
    name: &str,
    doc: &str,
    cells: impl Iterator<Item = &'a Estimate> + Clone,
) {
    t.fraction(name, doc, cells.clone().map(|e| e.value));
    let end = |which: &str| format!("{which} end of the 95 % interval of {name}");
    t.fraction(&format!("{name}_lo"), &end("lower"), cells.clone().map(Estimate::lo));
    t.fraction(&format!("{name}_hi"), &end("upper"), cells.map(Estimate::hi));
}

/// A p-value: `0.012`, `<0.001`, or `-`.
pub(crate) fn p_shown(p: Option<f64>) -> String {
    match p {
        Some(p) if p < 0.001 => "<0.001".to_owned(),
        p => number(p, 3),
    }
}

/// `24/12/9.4`: trajectories, clusters and n_eff.
pub(crate) fn counts(estimate: &Estimate) -> String {
    format!("{}/{}/{}", estimate.n_trajectories, estimate.n_clusters, number(estimate.n_eff, 1))
}

/// The column `n_eff`.
pub(crate) fn n_eff_column<'a>(t: &mut Table, cells: impl Iterator<Item = &'a Estimate>) {
    let doc = "as many clusters of equal size would say as much: (sum w)^2 / sum w^2, w the cluster's part of the denominator";
    t.fraction("n_eff", doc, cells.map(|e| e.n_eff));
}
