//! Scores by stratum.

use std::collections::HashMap;

use arrow::array::{Array as _, AsArray as _, RecordBatch};
use arrow::datatypes::{Float64Type, UInt64Type};

use super::{Score, VariantScores};

/// What is read of scores: the values, and what they stand beside.
pub(super) const VALUES: [&str; 9] =
    ["variant", "trajectory", "event", "metric", "stratum", "value", "weight", "n", "n_kept"];
pub(super) const BESIDE: [&str; 4] = ["floor", "ceiling", "atom_bag", "chance"];

/// Rows as plain data, by variant, metric and stratum.
pub(super) struct Grouped<'a> {
    first: usize,
    /// Sessions that each trajectory stands for.
    weights: &'a [f64],
    /// What rows name, as they spell it, and where each stands there.
    spelled: Vec<Spelled>,
    numbers: HashMap<String, HashMap<String, usize>>,
    /// Which of these the row before named.
    last: usize,
    /// Metric and canonical stratum of each place.
    names: Vec<(String, String)>,
    /// By variant, then by place.
    series: Vec<Vec<Vec<Score>>>,
}

/// A metric's stratum as rows spell it.
struct Spelled {
    metric: String,
    stratum: String,
    place: usize,
    /// What was named after it the last time: cells name the same in one order, so that it needs no search.
    next: usize,
}

impl<'a> Grouped<'a> {
    pub(super) fn of(first: usize, n_variants: usize, weights: &'a [f64]) -> Self {
        Grouped {
            first,
            weights,
            spelled: Vec::new(),
            numbers: HashMap::new(),
            last: 0,
            names: Vec::new(),
            series: vec![Vec::new(); n_variants],
        }
    }

    /// Adds the scores of whole cells; `cell` gives the places of a variant and a trajectory, none of a cell that does not count.
    pub(super) fn add(
        &mut self,
        rows: &RecordBatch,
        cell: &dyn Fn(&str, &str) -> Option<(usize, u32)>,
    ) -> anyhow::Result<()> {
        let column =
            |name: &str| rows.column_by_name(name).ok_or_else(|| anyhow::anyhow!("the scores lack {name}"));
        let texts = |name: &str| column(name).map(|c| c.as_string::<i32>());
        let [variant, trajectory, metric, stratum] = [VALUES[0], VALUES[1], VALUES[3], VALUES[4]].map(texts);
        let (variant, trajectory, metric, stratum) = (variant?, trajectory?, metric?, stratum?);
        let [value, weight] =
            [VALUES[5], VALUES[6]].map(|name| column(name).map(|c| c.as_primitive::<Float64Type>()));
        let (value, weight) = (value?, weight?);
        // These are read where somebody asks for them.
        let beside = BESIDE.map(|name| Some(rows.column_by_name(name)?.as_primitive::<Float64Type>()));
        let (event, n) = (column("event")?, column("n")?.as_primitive::<UInt64Type>());
        // Rows of an earlier version count none.
        let n_kept = rows.column_by_name("n_kept").map(|c| c.as_primitive::<UInt64Type>());
        // Rows of a cell stand together.
        let mut last: Option<(&str, &str, Option<(usize, u32)>)> = None;
        for row in (0..rows.num_rows()).filter(|&row| event.is_null(row)) {
            let names = (variant.value(row), trajectory.value(row));
            let found = match last {
                Some((v, t, found)) if (v, t) == names => found,
                _ => cell(names.0, names.1),
            };
            last = Some((names.0, names.1, found));
            let Some((number, trajectory)) = found else { continue };
            // A value that is not finite is undefined.
            let finite = |c: &arrow::array::Float64Array| {
                Some(c.value(row)).filter(|x| c.is_valid(row) && x.is_finite())
            };
            let [floor, ceiling, atom_bag, chance] = beside.map(|column| column.and_then(finite));
            let place = self.place(metric.value(row), stratum.value(row));
            let series = &mut self.series[number];
            if series.len() <= place {
                series.resize_with(place + 1, Vec::new);
            }
            series[place].push(Score {
                trajectory,
                value: finite(value),
                floor,
                ceiling,
                atom_bag,
                chance,
                weight: finite(weight).unwrap_or(0.0) * self.weights[trajectory as usize],
                n: if n.is_null(row) { 0 } else { n.value(row) },
                n_kept: n_kept.filter(|c| c.is_valid(row)).map(|c| c.value(row)),
            });
        }
        Ok(())
    }

    fn place(&mut self, metric: &str, stratum: &str) -> usize {
        let expected = self.spelled.get(self.last).map_or(0, |last| last.next);
        let is_next = |s: &Spelled| s.metric == metric && s.stratum == stratum;
        let number = match self.spelled.get(expected).is_some_and(is_next) {
            true => expected,
            false => self.number(metric, stratum),
        };
        self.spelled[self.last].next = number;
        self.last = number;
        self.spelled[number].place
    }

    fn number(&mut self, metric: &str, stratum: &str) -> usize {
        if let Some(number) = self.numbers.get(metric).and_then(|of| of.get(stratum)) {
            return *number;
        }
        let name = (metric.to_owned(), Stratum::parse(stratum).to_string());
        let place = self.names.iter().position(|known| *known == name).unwrap_or_else(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        let number = self.spelled.len();
        self.numbers.entry(metric.to_owned()).or_default().insert(stratum.to_owned(), number);
        self.spelled.push(Spelled { metric: metric.to_owned(), stratum: stratum.to_owned(), place, next: 0 });
        number
    }

    pub(super) fn finish(self) -> Vec<(usize, VariantScores)> {
        let names = self.names;
        let of_variant = |series: Vec<Vec<Score>>| -> VariantScores {
            let named = series.into_iter().zip(&names).filter(|(rows, _)| !rows.is_empty());
            named
                .map(|(mut rows, name)| {
                    rows.sort_by_key(|s| s.trajectory);
                    (name.clone(), rows)
                })
                .collect()
        };
        (self.first..).zip(self.series.into_iter().map(of_variant)).collect()
    }
}

/// A stratum in canonical order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stratum(Vec<(usize, String, String)>);

/// Keys of strata, in the order in which they are written. Others follow by name.
pub(crate) const STRATUM_KEYS: &[&str] = crate::scores::retention::STRATA;

impl Stratum {
    pub(crate) fn parse(text: &str) -> Self {
        let rank = |key: &str| STRATUM_KEYS.iter().position(|k| *k == key).unwrap_or(usize::MAX);
        let mut parts: Vec<(usize, String, String)> = text
            .split_whitespace()
            .map(|part| part.split_once('=').unwrap_or((part, "")))
            .map(|(key, value)| (rank(key), key.to_owned(), value.to_owned()))
            .collect();
        parts.sort();
        Stratum(parts)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(_, k, _)| k == key).map(|(_, _, v)| v.as_str())
    }
}

impl std::fmt::Display for Stratum {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (i, (_, key, value)) in self.0.iter().enumerate() {
            let space = if i > 0 { " " } else { "" };
            if value.is_empty() { write!(f, "{space}{key}")? } else { write!(f, "{space}{key}={value}")? }
        }
        Ok(())
    }
}
