//! The key below the plot.

use crate::report::figures::canvas::{Anchor, CAP_EM, Canvas, INK, fitted, text_width, wrapped};
use crate::text::natural::natural;

use super::marker::{GREY, Style, Styles, draw_marker, draw_reach};
use super::{Context, LABEL_SIZE, Point, RADIUS};

const LINE_HEIGHT: f64 = 9.2;

/// `random, kept_share=0.02 to 0.4`: the settings of a family from the first to the last label.
pub(super) fn settings(family: &str, points: &[Point]) -> String {
    let inside = |p: &Point| Some(p.label.split_once('(')?.1.split_once(')')?.0.to_owned());
    let mut settings: Vec<String> = points.iter().filter(|p| p.family == family).filter_map(inside).collect();
    settings.sort_by(|a, b| natural(a, b));
    settings.dedup();
    match (settings.first(), settings.last()) {
        (Some(first), Some(last)) if first != last => {
            let last = match (first.rsplit_once('='), last.rsplit_once('=')) {
                (Some((a, _)), Some((b, value))) if a == b => value,
                _ => last,
            };
            format!("{family}, {first} to {last}")
        }
        _ => family.to_owned(),
    }
}

/// A line of the key.
pub(super) struct Entry {
    pub(super) style: Style,
    /// Empty where points carry names.
    pub(super) number: String,
    pub(super) text: String,
}

pub(super) fn families(points: &[Point], styles: &Styles) -> Vec<Entry> {
    let mut families: Vec<Entry> = Vec::new();
    for Point { family, .. } in points {
        if families.iter().all(|entry| entry.text != *family) {
            families.push(Entry { style: styles[family], number: String::new(), text: family.clone() });
        }
    }
    families
}

/// A line of text below the key.
pub(super) struct Note {
    text: String,
    /// Whether it explains the grey bars, and one stands before it.
    reach: bool,
}

pub(super) fn notes(points: &[Point], context: &Context, n_others: usize, has_beaten: bool) -> Vec<Note> {
    let mut notes = Vec::new();
    let mut note = |text: String, reach| notes.push(Note { text, reach });
    if points.iter().any(|p| p.floor.is_some() && p.ceiling.is_some()) {
        note("from random lines (floor) to oracle (ceiling), same tokens kept".to_owned(), true);
    }
    if has_beaten {
        note("faded, without intervals: another saves and keeps at least as much".to_owned(), false);
        if points.iter().any(|p| p.costs_more && !p.control) {
            note("(or it costs more money than nothing compressed)".to_owned(), false);
        }
    }
    note(format!("intervals: {}; controls are grey, on no frontier", context.population), false);
    for line in wrapped(&context.triggers, LABEL_SIZE, context.width - 12.0) {
        note(line, false);
    }
    context.undrawn.notes().for_each(|text| note(text, false));
    if n_others > 0 {
        note(format!("small marks: {n_others} more variants, named in summary.csv"), false);
    }
    notes
}

/// The key below the plot: points, then what the lines mean. Ends the canvas.
pub(super) fn draw_key(canvas: &mut Canvas, top: f64, entries: &[Entry], notes: &[Note]) {
    const MARKER: f64 = 4.0;
    const TEXT: f64 = 9.5;
    const BETWEEN: f64 = 7.0;
    let width = |text: &str| text_width(text, LABEL_SIZE);
    let page = canvas.width;
    let numbers = entries.iter().map(|e| width(&e.number)).fold(0.0, f64::max);
    // Numbers end where the longest does; text begins behind.
    let indent = if numbers > 0.0 { TEXT + numbers + 3.0 } else { TEXT };
    let widths = |rows: usize| -> Vec<f64> {
        let widest = |part: &[Entry]| part.iter().map(|e| width(&e.text)).fold(0.0, f64::max);
        entries.chunks(rows).map(|part| indent + widest(part)).collect()
    };
    let fits = |rows: &usize| {
        let widths = widths(*rows);
        // A last column of one or two entries looks like a mistake.
        let last = entries.len() - (widths.len() - 1) * rows;
        2 * last >= *rows && widths.iter().sum::<f64>() + BETWEEN * (widths.len() - 1) as f64 <= page
    };
    let rows = (1..=entries.len()).find(fits).unwrap_or(entries.len());
    let widths = if entries.is_empty() { Vec::new() } else { widths(rows) };
    let spare = (page - widths.iter().sum::<f64>()) / widths.len() as f64;
    let mut left = 0.0;
    for (part, width) in entries.chunks(rows.max(1)).zip(&widths) {
        for (row, entry) in part.iter().enumerate() {
            let baseline = top + row as f64 * LINE_HEIGHT;
            draw_marker(canvas, (left + MARKER, baseline - CAP_EM * LABEL_SIZE / 2.0), RADIUS, entry.style);
            canvas.text((left + TEXT + numbers, baseline), Anchor::End, LABEL_SIZE, INK, &entry.number);
            let text = fitted(&entry.text, LABEL_SIZE, page - left - indent);
            canvas.text((left + indent, baseline), Anchor::Start, LABEL_SIZE, INK, &text);
        }
        left += width + spare.clamp(BETWEEN, 30.0);
    }
    let mut baseline = top + rows as f64 * LINE_HEIGHT + 3.0;
    let middle = |baseline: f64| baseline - CAP_EM * LABEL_SIZE / 2.0;
    canvas.line(&[(0.5, middle(baseline)), (7.5, middle(baseline))], 0.8, GREY);
    canvas.text((TEXT, baseline), Anchor::Start, LABEL_SIZE, INK, "Pareto frontier");
    let x = (page * 0.34).min(90.0);
    let cross = (x + 3.5, middle(baseline));
    canvas.line(&[(x, cross.1), (x + 7.0, cross.1)], 0.7, INK);
    canvas.line(&[(cross.0, cross.1 - 3.5), (cross.0, cross.1 + 3.5)], 0.7, INK);
    canvas.text((x + TEXT, baseline), Anchor::Start, LABEL_SIZE, INK, "95 % interval over clusters");
    for note in notes {
        baseline += LINE_HEIGHT;
        if note.reach {
            draw_reach(canvas, (MARKER, middle(baseline) + 3.5), (MARKER, middle(baseline) - 3.5));
        }
        let text = fitted(&note.text, LABEL_SIZE, page - TEXT);
        canvas.text((TEXT, baseline), Anchor::Start, LABEL_SIZE, INK, &text);
    }
    canvas.height = (baseline + 4.0).ceil();
}
