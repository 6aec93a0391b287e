//! Strategy x trigger: what each pair keeps of what was needed, and what it saves.

use std::collections::BTreeMap;

use super::plot::{self, Cells, LINE, SIZE, is_wide, sheet};
use super::{Chart, Entry, Input, kept_and_saved};
use crate::report::figures;
use crate::report::figures::canvas::{Anchor, Canvas, INK, fitted};
use crate::report::tables::Table;
use crate::text::natural::natural;

pub(super) const ENTRY: Entry = Entry { name: "heat", chart };

/// More rows are no figure.
const MOST: usize = 30;

struct Grid {
    strategies: Vec<String>,
    triggers: Vec<String>,
    /// Needs kept and tokens saved.
    values: BTreeMap<(usize, usize), [Option<f64>; 2]>,
}

fn chart(input: &Input) -> Result<Chart, String> {
    let grid = grid(input);
    if grid.triggers.len() < 2 || grid.strategies.len() < 2 {
        return Err("fewer than two strategies stand under more than one trigger".to_owned());
    }
    let caption = "A row a strategy, a column a trigger; darker is more. Strategies that stand under one trigger alone are left out."
        .to_owned();
    Ok(Chart::new("Strategy x trigger".to_owned(), caption, data(&grid), |width| draw(width, &grid)))
}

/// Strategies that stand under several triggers, in the order of the best of each.
fn grid(input: &Input) -> Grid {
    // A model is how the strategy compresses, and no part of when.
    let parts = |label: &str| {
        figures::parts(label)
            .map(|(strategy, trigger, model)| (format!("{strategy}{model}"), trigger.to_owned()))
    };
    let rows: Vec<((String, String), [Option<f64>; 2])> = input
        .choices()
        .filter_map(|row| Some((parts(&row.label)?, kept_and_saved(row).map(|of| of.value))))
        .filter(|(_, values)| values.iter().any(Option::is_some))
        .collect();
    let mut strategies: Vec<String> = Vec::new();
    for ((strategy, _), _) in &rows {
        let n = rows.iter().filter(|((other, _), _)| other == strategy).count();
        if n > 1 && !strategies.contains(strategy) && strategies.len() < MOST {
            strategies.push(strategy.clone());
        }
    }
    let mut triggers: Vec<String> = rows
        .iter()
        .filter(|((strategy, _), _)| strategies.contains(strategy))
        .map(|((_, trigger), _)| trigger.clone())
        .collect();
    triggers.sort_by(|a, b| natural(a, b));
    triggers.dedup();
    triggers.truncate(26);
    let place = |all: &[String], name: &str| all.iter().position(|one| one == name);
    let values = rows.iter().filter_map(|((strategy, trigger), values)| {
        Some(((place(&strategies, strategy)?, place(&triggers, trigger)?), *values))
    });
    let values = values.collect();
    Grid { strategies, triggers, values }
}

fn data(grid: &Grid) -> Table {
    let mut t = Table::new("heat");
    let text = |all: &[String], i: usize| Some(all[i].clone());
    let of = |i: usize| grid.values.values().map(move |values| values[i]);
    t.text("strategy", "how it compresses", grid.values.keys().map(|(s, _)| text(&grid.strategies, *s)));
    t.text("trigger", "when", grid.values.keys().map(|(_, c)| text(&grid.triggers, *c)));
    t.fraction("needs_kept", "need retention on the common set", of(0));
    t.fraction("tokens_saved", "token savings", of(1));
    t
}

/// What columns of boxes of that width are called, and lines that say what this leaves out: the triggers, else those without the
/// parameters that all of them share, else letters.
fn columns(grid: &Grid, width: f64) -> (Vec<String>, Vec<String>) {
    let has_room = |columns: &[String]| {
        let (rows, value, colour) = (&grid.strategies, &|_, _| None, &|x| x);
        Cells { rows, columns, value, colour }.is_named(width)
    };
    let split = |trigger: &str| -> (String, Vec<String>) {
        let (name, inside) = trigger.split_once('(').unwrap_or((trigger, ""));
        let inside = inside.trim_end_matches(')').split(',').filter(|part| !part.is_empty());
        (name.to_owned(), inside.map(str::to_owned).collect())
    };
    let all: Vec<(String, Vec<String>)> = grid.triggers.iter().map(|trigger| split(trigger)).collect();
    let mut shared = all[0].1.clone();
    shared.retain(|part| all.iter().all(|(_, parts)| parts.contains(part)));
    let short = |(name, parts): &(String, Vec<String>)| {
        let own: Vec<&str> = parts.iter().filter(|part| !shared.contains(part)).map(String::as_str).collect();
        if own.is_empty() { name.clone() } else { format!("{name}({})", own.join(",")) }
    };
    let short: Vec<String> = all.iter().map(short).collect();
    if has_room(&grid.triggers) {
        (grid.triggers.clone(), Vec::new())
    } else if !shared.is_empty() && has_room(&short) {
        (short, vec![format!("all triggers: {}", shared.join(","))])
    } else {
        let letters = (0..all.len()).map(|i| char::from(b'A' + i as u8).to_string());
        let told =
            letters.clone().zip(&grid.triggers).map(|(letter, trigger)| format!("{letter}  {trigger}"));
        (letters.collect(), told.collect())
    }
}

fn draw(width: f64, grid: &Grid) -> Canvas {
    let mut canvas = sheet(width, "Needs kept and tokens saved by strategy and trigger");
    let half = (width - 14.0) / 2.0;
    let sides = if is_wide(width) { [(0.0, half), (width - half, width)] } else { [(0.0, width); 2] };
    let (columns, told) = columns(grid, sides[0].1 - sides[0].0);
    let (mut top, mut bottom) = (0.0, 0.0_f64);
    for (i, title) in ["needs kept", "tokens saved"].into_iter().enumerate() {
        let all = || grid.values.values().filter_map(move |values| values[i]);
        // An empty panel says why.
        let title = if all().next().is_none() { &format!("{title}: too little for a share") } else { title };
        let (lo, hi) = all().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), x| (lo.min(x), hi.max(x)));
        let cells = Cells {
            rows: &grid.strategies,
            columns: &columns,
            value: &|r, c| grid.values.get(&(r, c))?[i],
            colour: &|x| (x - lo) / (hi - lo).max(1e-9),
        };
        let (left, right) = sides[i];
        bottom = bottom.max(cells.draw(&mut canvas, left, right, top, title));
        if !is_wide(width) {
            top = bottom + 10.0;
        }
    }
    for text in told {
        bottom += LINE;
        canvas.text((0.5, bottom + 3.0), Anchor::Start, SIZE, INK, &fitted(&text, SIZE, width - 1.0));
    }
    canvas.height = plot::note(&mut canvas, bottom + 3.0, "darker is more, within each part");
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_named_where_there_is_room() {
        let owned = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let triggers = ["tokens(fraction=0.5,keep=10)", "turns(n=21,keep=10)"];
        let grid = Grid {
            strategies: owned(&["mask(keep_last=10)", "summary"]),
            triggers: owned(&triggers),
            values: BTreeMap::new(),
        };
        let of = |width| columns(&grid, width);
        assert_eq!(of(400.0), (owned(&triggers), Vec::new()));
        let short = (owned(&["tokens(fraction=0.5)", "turns(n=21)"]), owned(&["all triggers: keep=10"]));
        assert_eq!(of(236.0), short);
        assert_eq!(of(120.0).0, owned(&["A", "B"]));
        assert_eq!(of(120.0).1[1], "B  turns(n=21,keep=10)");
    }
}
