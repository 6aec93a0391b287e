//! Scores by stratum.

use std::collections::BTreeMap;

use polars::prelude::DataFrame;

use super::{Score, VariantScores};

/// What names a cell.
pub(super) const KEYS: [&str; 2] = ["variant", "trajectory"];

/// Rows as plain data, by variant, metric and stratum.
pub(super) struct Grouped {
    first: usize,
    n_variants: usize,
    series: BTreeMap<(u32, String, String), Vec<Score>>,
}

impl Grouped {
    pub(super) fn of(first: usize, n_variants: usize) -> Self {
        Grouped { first, n_variants, series: BTreeMap::new() }
    }

    pub(super) fn add(&mut self, rows: &DataFrame) -> anyhow::Result<()> {
        let number = rows.column("number")?.u32()?;
        let position = rows.column("position")?.u32()?;
        let metric = rows.column("metric")?.str()?;
        let stratum = rows.column("stratum")?.str()?;
        let [value, floor, ceiling, atom_bag, chance, weight] =
            ["value", "floor", "ceiling", "atom_bag", "chance", "weight"]
                .map(|name| rows.column(name).and_then(|c| c.f64()));
        let (value, floor, ceiling) = (value?, floor?, ceiling?);
        let (atom_bag, chance, weight) = (atom_bag?, chance?, weight?);
        let n = rows.column("n")?.u64()?;
        // A value that is not finite is undefined.
        let finite = |x: Option<f64>| x.filter(|x| x.is_finite());
        let mut series: BTreeMap<(u32, &str, &str), Vec<Score>> = BTreeMap::new();
        for row in 0..rows.height() {
            let (Some(number), Some(trajectory)) = (number.get(row), position.get(row)) else {
                continue;
            };
            let key = (number, metric.get(row).unwrap_or(""), stratum.get(row).unwrap_or(""));
            series.entry(key).or_default().push(Score {
                trajectory,
                value: finite(value.get(row)),
                floor: finite(floor.get(row)),
                ceiling: finite(ceiling.get(row)),
                atom_bag: finite(atom_bag.get(row)),
                chance: finite(chance.get(row)),
                weight: finite(weight.get(row)).unwrap_or(0.0),
                n: n.get(row).unwrap_or(0),
            });
        }
        for ((number, metric, stratum), rows) in series {
            let key = (number, metric.to_owned(), Stratum::parse(stratum).to_string());
            self.series.entry(key).or_default().extend(rows);
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<(usize, VariantScores)> {
        let all = self.first..self.first + self.n_variants;
        let mut out: Vec<(usize, VariantScores)> = all.map(|i| (i, VariantScores::new())).collect();
        for ((number, metric, stratum), mut rows) in self.series {
            rows.sort_by_key(|s| s.trajectory);
            out[number as usize].1.insert((metric, stratum), rows);
        }
        out
    }
}

/// A stratum in canonical order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stratum(Vec<(usize, String, String)>);

/// Keys of strata, in the order in which they are written. Others follow by name.
pub(crate) const STRATUM_KEYS: [&str; 10] =
    ["set", "tail", "class", "kind", "horizon", "point", "body", "unsupported", "shadow", "cap"];

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
