//! The figures beside the headline: each is drawn in two widths and has its numbers as a table.
//!
//! A chart reads the rows of a run as the tables of the report have them. Where a run has no rows for one it is left out, and
//! the reason is told. All have one font, one size of text, and the colours of the headline's families.

mod age;
mod agreement;
mod breathing;
mod forest;
mod heat;
pub(crate) mod history;
mod money;
mod plot;
mod rounds;
mod settings;
mod sources;
mod sweep;

use rayon::prelude::*;

use super::canvas::Canvas;
use super::marker::{Style, look};
use crate::report::load::{Decisions, Run};
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::summary::{Summary, VariantSummary, metric};
use crate::report::tables::{Cells, Table};
use crate::scores::money::TOKEN_SAVINGS;
pub(crate) use breathing::session;
pub(crate) use forest::MARGIN;
pub(crate) use plot::WIDTHS;
use plot::{Series, Spot};
pub(crate) use settings::{Drawn, settings};

/// What charts are drawn from.
pub(crate) struct Input<'a> {
    pub(crate) run: &'a Run,
    pub(crate) summary: &'a Summary,
    pub(crate) decisions: &'a Decisions,
    /// The tables of the report that have a page.
    pub(crate) tables: &'a [&'a Table],
    /// Strategy or label that the others are compared with.
    pub(crate) baseline: Option<&'a str>,
}

/// A figure of the report.
pub(crate) struct Entry {
    /// Of its files.
    pub(crate) name: &'static str,
    /// The chart, or why there is none.
    pub(crate) chart: fn(&Input) -> Result<Chart, String>,
}

/// All of them, in the order of the page.
pub(crate) static ALL: &[Entry] = &[
    sources::ENTRY,
    forest::ENTRY,
    heat::ENTRY,
    sweep::ENTRY,
    age::ENTRY,
    rounds::ENTRY,
    breathing::ENTRY,
    money::ENTRY,
    agreement::ENTRY,
];

/// A figure with its numbers.
pub(crate) struct Chart {
    pub(crate) title: String,
    /// How to read it, in a sentence or two.
    pub(crate) caption: String,
    pub(crate) data: Table,
    /// In the two widths.
    pub(crate) drawn: [Canvas; 2],
}

impl Chart {
    fn new(title: String, caption: String, data: Table, draw: impl Fn(f64) -> Canvas) -> Self {
        let drawn = WIDTHS.map(|width| {
            let canvas = draw(width);
            Canvas { height: (canvas.height + 3.0).ceil(), ..canvas }
        });
        Chart { title, caption, data, drawn }
    }

    /// Its files, by their names' ends.
    pub(crate) fn files(&self, png: bool) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
        files(&self.drawn, &self.data, png)
    }
}

/// The files of a drawing in two widths: pictures, and the numbers in it.
pub(crate) fn files(drawn: &[Canvas; 2], data: &Table, png: bool) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let pictures = drawn.par_iter().zip(["", "_wide"]).map(|(canvas, width)| -> anyhow::Result<_> {
        let svg = (format!("{width}.svg"), canvas.svg()?.into_bytes());
        let picture = png.then(|| Ok::<_, anyhow::Error>((format!("{width}.png"), canvas.png()?)));
        Ok([Some(svg), picture.transpose()?].into_iter().flatten())
    });
    let pictures: Vec<_> = pictures.collect::<anyhow::Result<_>>()?;
    let table = (".csv".to_owned(), data.csv().into_bytes());
    Ok(pictures.into_iter().flatten().chain([table]).collect())
}

/// Ends of the names of [`files`].
pub(crate) const ENDS: [&str; 5] = [".svg", ".png", "_wide.svg", "_wide.png", ".csv"];

impl<'a> Input<'a> {
    /// Variants that somebody would run, the best first; of one that has several seeds the first.
    fn choices(&self) -> impl Iterator<Item = &'a VariantSummary> {
        let seed = |row: &VariantSummary| {
            self.run.variants.iter().find(|v| v.variant == row.variant).map(|v| format!(" #{}", v.seed))
        };
        let mut known: Vec<&str> = Vec::new();
        let all: Vec<&'a VariantSummary> = self.summary.best_first();
        let first = all.into_iter().filter(|row| !row.control).filter(move |row| {
            let seed = seed(row).unwrap_or_default();
            let label = row.label.strip_suffix(&seed).unwrap_or(&row.label);
            let is_new = !known.contains(&label);
            known.push(label);
            is_new
        });
        first.collect::<Vec<_>>().into_iter()
    }

    /// The best setting of each strategy, as many as a chart of lines can show.
    fn leading(&self) -> Vec<&'a VariantSummary> {
        const MOST: usize = 7;
        let mut strategies: Vec<&str> = Vec::new();
        let mut rows: Vec<&'a VariantSummary> = Vec::new();
        for row in self.choices().filter(|row| row.strategy != super::FULL) {
            if rows.len() < MOST && !strategies.contains(&row.strategy.as_str()) {
                strategies.push(&row.strategy);
                rows.push(row);
            }
        }
        rows
    }

    /// How a variant looks where each strategy stands once: settings have marks of their own in the headline, and here two
    /// strategies would have one, told apart by colour alone.
    fn style(&self, row: &VariantSummary) -> Style {
        let family = self.summary.family(row);
        look(&self.summary.styles(), &family, &family)
    }

    fn table(&self, name: &str) -> Option<&'a Table> {
        self.tables.iter().find(|table| table.name == name).copied()
    }
}

impl Chart {
    /// Words of a column; empty where it has none.
    fn words<'t>(table: &'t Table, name: &str) -> &'t [Option<String>] {
        match table.columns.iter().find(|column| column.name == name).map(|column| &column.cells) {
            Some(Cells::Text(all)) => all,
            _ => &[],
        }
    }

    fn numbers<'t>(table: &'t Table, name: &str) -> &'t [Option<f64>] {
        match table.columns.iter().find(|column| column.name == name).map(|column| &column.cells) {
            Some(Cells::Number(all, _)) => all,
            _ => &[],
        }
    }
}

/// What a variant kept of the needs that all are asked about, and what it saved.
fn kept_and_saved(row: &VariantSummary) -> [&Estimate; 2] {
    ["need_retention_common", TOKEN_SAVINGS.name].map(|name| &row.estimates[metric(name)])
}

/// A point of a series, where there is a value.
fn spot(x: usize, of: &Estimate) -> Option<Spot> {
    Some(Spot { x: x as f64, y: of.value?, interval: of.interval })
}

/// A series that has at least two points. Of one that `has_gaps` places without a point say that there was too little, and no line goes
/// over them.
fn line(style: Style, name: &str, points: impl Iterator<Item = Spot>, has_gaps: bool) -> Option<Series> {
    let points: Vec<Spot> = points.collect();
    (points.len() > 1).then(|| Series { name: name.to_owned(), style, points, has_gaps })
}

/// A place with how many needs stand behind its points: `2 (36-120)`, `2 (36)`; the place alone where nothing does. Each line has its
/// estimates by place; only what has a point counts, on a line that is drawn.
fn with_needs(place: &str, at: usize, lines: &[Vec<Option<&Estimate>>]) -> String {
    let has_point = |of: &&Estimate| of.value.is_some();
    let is_drawn =
        |line: &&Vec<Option<&Estimate>>| line.iter().flatten().filter(|of| has_point(of)).count() > 1;
    let behind = |line: &Vec<Option<&Estimate>>| line[at].filter(has_point).map(|of| of.n_items);
    let all: Vec<u64> = lines.iter().filter(is_drawn).filter_map(behind).collect();
    match (all.iter().min(), all.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("{place} ({least}-{most})"),
        (Some(n), _) => format!("{place} ({n})"),
        _ => place.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_say_how_many_needs_stand_behind_them() {
        let of = |value, n_items| Estimate { value, n_items, ..Estimate::default() };
        let (known, unknown) = (|n| of(Some(0.5), n), |n| of(None, n));
        let all =
            [[known(40), known(120)], [known(50), known(36)], [known(7), unknown(8)], [unknown(9), known(3)]];
        let told = |n: usize| {
            let lines: Vec<Vec<Option<&Estimate>>> =
                all[..n].iter().map(|line| line.iter().map(Some).collect()).collect();
            with_needs("2", 1, &lines)
        };
        assert_eq!([told(0), told(1), told(2)], ["2", "2 (120)", "2 (36-120)"]);
        assert_eq!(told(4), told(2), "one point is no line, and what has no value no point");
    }
}
