//! Whether scores put the variants in the same order: Spearman's correlation of every two.

use super::plot::{Cells, LINE, SIZE, sheet};
use super::{Chart, Entry, Input};
use crate::report::figures::canvas::{Anchor, Canvas, INK, fitted};
use crate::report::tables::Table;
use crate::scores;

pub(super) const ENTRY: Entry = Entry { name: "agreement", chart };

fn chart(input: &Input) -> Result<Chart, String> {
    let Some(table) = input.table("agreement") else {
        return Err("fewer than two retention scores, or than four variants that have them".to_owned());
    };
    let [scope, a, b] = ["scope", "metric_a", "metric_b"].map(|name| Chart::words(table, name));
    let rho = Chart::numbers(table, "spearman");
    // All triggers come first.
    let first = scope.first().cloned().flatten().unwrap_or_default();
    let rows: Vec<usize> =
        (0..rho.len()).filter(|&row| scope[row].as_deref() == Some(first.as_str())).collect();
    let mut names: Vec<String> = Vec::new();
    for name in rows.iter().flat_map(|&row| [&a[row], &b[row]]).flatten() {
        if !names.contains(name) {
            names.push(name.clone());
        }
    }
    if names.len() < 3 {
        return Err("two scores have one correlation, and that stands in agreement.md".to_owned());
    }
    let place = |name: &Option<String>| names.iter().position(|one| Some(one) == name.as_ref());
    let pairs: Vec<(usize, usize, f64)> = rows
        .iter()
        .filter_map(|&row| {
            let (a, b) = (place(&a[row])?, place(&b[row])?);
            Some((a.max(b), a.min(b), rho[row]?))
        })
        .collect();
    let caption = format!(
        "Spearman's rank correlation of two scores over the variants ({first}): 1 is the same order, 0 none, -1 the reverse. Intervals, and \
         each trigger alone, stand in agreement.md."
    );
    let value = |r: usize, c: usize| pairs.iter().find(|(a, b, _)| (*a, *b) == (r, c)).map(|(.., rho)| *rho);
    let mut data = Table::new("agreement_figure");
    data.text("score", "one", pairs.iter().map(|(a, ..)| Some(names[*a].clone())));
    data.text("other", "the other", pairs.iter().map(|(_, b, _)| Some(names[*b].clone())));
    data.fraction("spearman", "rank correlation over the variants", pairs.iter().map(|(.., rho)| Some(*rho)));
    Ok(Chart::new("Agreement of the scores".to_owned(), caption, data, |width| draw(width, &names, &value)))
}

fn draw(width: f64, names: &[String], value: &dyn Fn(usize, usize) -> Option<f64>) -> Canvas {
    let mut canvas = sheet(width, "Rank correlation of every two scores");
    let numbers: Vec<String> = (1..names.len()).map(|i| i.to_string()).collect();
    let called = |name: &String| scores::find(name).map_or_else(|| name.clone(), |score| score.called());
    let rows: Vec<String> =
        names.iter().enumerate().map(|(i, name)| format!("{}  {}", i + 1, called(name))).collect();
    let cells = Cells { rows: &rows, columns: &numbers, value, colour: &|rho| (rho + 1.0) / 2.0 };
    let end = cells.draw(&mut canvas, 0.0, width, 0.0, "rank correlation over the variants");
    let note = fitted("darker: more the same order", SIZE, width);
    canvas.text((0.5, end + LINE), Anchor::Start, SIZE, INK, &note);
    canvas.height = end + LINE;
    canvas
}
