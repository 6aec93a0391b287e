//! Context size over a session: how the prompt grows, and falls at each compression.

use super::plot::{self, AROUND, Axis, Frame, Scale, Series, Spot, is_wide, panels, sheet};
use super::{Chart, Entry, Input};
use crate::report::figures::canvas::{Canvas, Colour, XY};
use crate::report::figures::marker::{Style, draw_marker, nothing};
use crate::report::load::{Decision, Run};
use crate::report::tables::Table;
use crate::report::tables::summary::{Summary, VariantSummary};
use crate::text::escape;

pub(super) const ENTRY: Entry = Entry { name: "breathing", chart };

/// More lines would hide each other.
const MOST: usize = 3;
/// Points of a page below which one line covers another.
const LINES_APART: f64 = 1.5;
/// Points between marks of a line: nearer ones would lie on each other.
const MARKS_APART: f64 = 4.5;
/// Of what would have been sent with nothing compressed.
const UNCOMPRESSED: Colour = Colour(0x99, 0x99, 0x99);

/// The session that is shown: where the best variants compress most often together; of such the longest.
pub(crate) fn session<'r>(run: &'r Run, summary: &Summary) -> Option<&'r str> {
    let shown: Vec<usize> =
        shown(summary).filter_map(|row| run.variants.iter().position(|v| v.variant == row.variant)).collect();
    let mut events = vec![0_usize; run.trajectories.len()];
    let mut affecting = vec![0_usize; run.trajectories.len()];
    for &variant in &shown {
        let mut counts = vec![0_usize; run.trajectories.len()];
        run.events[variant].iter().for_each(|event| counts[event.trajectory as usize] += 1);
        for (i, n) in counts.into_iter().enumerate() {
            // A rolling window compresses at every turn: that is no reason to look at it.
            events[i] += n.min(12);
            affecting[i] += usize::from(n > 0);
        }
    }
    let best = (0..events.len()).max_by_key(|&i| (affecting[i], events[i], run.trajectories[i].n_turns))?;
    (events[best] > 0).then(|| run.trajectories[best].id.as_str())
}

/// The best of each strategy that compresses anything.
fn shown(summary: &Summary) -> impl Iterator<Item = &VariantSummary> {
    let mut strategies: Vec<&str> = Vec::new();
    let rows = summary.best_first().into_iter().filter(|row| !row.control && row.lost.n_events > 0);
    let first = rows.filter(move |row| {
        let is_new = !strategies.contains(&row.strategy.as_str());
        strategies.push(&row.strategy);
        is_new
    });
    first.take(MOST)
}

struct Breath<'a> {
    name: &'a str,
    style: Style,
    decisions: &'a [Decision],
}

fn chart(input: &Input) -> Result<Chart, String> {
    let breath = |row: &'_ VariantSummary| {
        let variant = input.run.variants.iter().position(|v| v.variant == row.variant)?;
        let decisions = input.decisions.session[variant].as_slice();
        (!decisions.is_empty()).then_some((input.style(row), variant, decisions))
    };
    let found: Vec<_> = shown(input.summary).filter_map(breath).collect();
    let all: Vec<Breath> = found
        .into_iter()
        .map(|(style, variant, decisions)| Breath {
            name: &input.run.variants[variant].label,
            style,
            decisions,
        })
        .collect();
    let session = session(input.run, input.summary).filter(|_| !all.is_empty());
    let Some(session) = session else {
        return Err("no session was compressed, or the run keeps no decisions".to_owned());
    };
    let short: String = session.chars().take(8).collect();
    let caption = format!(
        "Tokens of the prompt at each turn of session {}, with nothing compressed (grey) and under the best setting of {}; a mark where \
         something was compressed, as far as there is room. It is the session in which these compress most often.",
        escape::line(&short),
        if all.len() == 1 { "one strategy".to_owned() } else { format!("{} strategies", all.len()) }
    );
    Ok(Chart::new("Context size over a session".to_owned(), caption, data(&all), |width| draw(width, &all)))
}

fn data(all: &[Breath]) -> Table {
    let rows = || all.iter().flat_map(|of| of.decisions.iter().map(move |decision| (of, decision)));
    let mut t = Table::new("breathing");
    t.text("variant", "its label", rows().map(|(of, _)| Some(of.name.to_owned())));
    t.count("turn", "of the decision", rows().map(|(_, d)| Some(u64::from(d.turn))));
    t.count("tokens_full", "of the prompt, nothing compressed", rows().map(|(_, d)| Some(d.full)));
    t.count("tokens_sent", "of the prompt as sent", rows().map(|(_, d)| Some(d.sent)));
    t.count("events", "compressions so far", rows().map(|(_, d)| Some(u64::from(d.n_events))));
    t
}

fn draw(width: f64, all: &[Breath]) -> Canvas {
    let mut canvas = sheet(width, "Context size over a session");
    let height = AROUND + if is_wide(width) { 140.0 } else { 105.0 };
    let (_, end) = panels(width, 0.0, 1, height);
    let outer = crate::report::figures::labels::Rect { x0: 0.0, y0: 0.0, x1: width, y1: end };
    let turns = all.iter().flat_map(|of| of.decisions).map(|d| f64::from(d.turn));
    let tokens = all.iter().flat_map(|of| of.decisions).flat_map(|d| [d.full as f64, d.sent as f64]);
    let x = Axis::numbers(Scale::around(turns), "turn");
    let y = Axis::numbers(Scale::around(tokens.chain([0.0])), "tokens of the prompt");
    let frame = Frame::draw(&mut canvas, outer, &x, &y);
    let path = |of: &Breath, tokens: fn(&Decision) -> u64| -> Vec<XY> {
        of.decisions.iter().map(|d| frame.at(f64::from(d.turn), tokens(d) as f64)).collect()
    };
    canvas.line(&path(&all[0], |d| d.full), 1.0, UNCOMPRESSED);
    for of in all {
        canvas.line(&path(of, |d| d.sent), 0.8, of.style.colour);
    }
    let mut notes = Vec::new();
    for of in all {
        let fell = || of.decisions.windows(2).filter(|d| d[1].n_events > d[0].n_events).map(|d| &d[1]);
        // Where something is compressed at every turn, marks would be the line.
        let (mut drawn, mut n) = (f64::NEG_INFINITY, 0);
        for d in fell() {
            let at = frame.at(f64::from(d.turn), d.sent as f64);
            if at.0 - drawn >= MARKS_APART {
                draw_marker(&mut canvas, at, 2.0, of.style);
                (drawn, n) = (at.0, n + 1);
            }
        }
        if n < fell().count() {
            notes.push(format!("{}: marks at {n} of {} compressions", strategy(of), fell().count()));
        }
    }
    let series = |name: &str, style| Series {
        name: name.to_owned(),
        style,
        points: Vec::<Spot>::new(),
        has_gaps: false,
    };
    let mut lines = vec![series("nothing compressed", nothing())];
    lines.extend(all.iter().map(|of| series(of.name, of.style)));
    canvas.height = plot::key_of(&mut canvas, end, std::slice::from_ref(&lines));
    // What another line covers is said to be there.
    let covers = |one: &Breath, other: &Breath| {
        let pairs = || path(one, |d| d.sent).into_iter().zip(path(other, |d| d.sent));
        one.decisions.len() == other.decisions.len() && pairs().all(|(a, b)| (a.1 - b.1).abs() < LINES_APART)
    };
    let covered = all.iter().enumerate().filter_map(|(i, of)| {
        let over = all[i + 1..].iter().rfind(|other| covers(of, other))?;
        Some(format!("{} lies under {}", strategy(of), strategy(over)))
    });
    notes.extend(covered);
    if !notes.is_empty() {
        let end = canvas.height;
        canvas.height = plot::note(&mut canvas, end, &notes.join("; "));
    }
    canvas
}

fn strategy(of: &Breath) -> String {
    of.name.split(['(', ' ']).next().unwrap_or_default().to_owned()
}
#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::figures::marker::of_lines;

    #[test]
    fn a_line_under_another_is_told() {
        let decisions = |sent: u64| -> Vec<Decision> {
            (0..9)
                .map(|turn| Decision { turn, n_events: 0, full: 90_000, sent: sent * u64::from(turn) })
                .collect()
        };
        let (low, same, high) = (decisions(1_000), decisions(1_010), decisions(9_000));
        let style = of_lines(&["a"], &Default::default())[0];
        let of = |name: &'static str, decisions| Breath { name, style, decisions };
        let all =
            [of("mask(n=1) @ t", &low[..]), of("hindsight @ t", &high[..]), of("truncate @ t", &same[..])];
        let svg = draw(plot::WIDTHS[0], &all).svg().unwrap();
        assert!(svg.contains("mask lies under truncate") && svg.matches("lies under").count() == 1, "{svg}");
    }

    /// Forty compressions far apart have forty marks; those for which there is no room are told.
    #[test]
    fn a_compression_has_a_mark_where_there_is_room() {
        let decisions = |n: u32, every: u32| -> Vec<Decision> {
            (0..n).map(|turn| Decision { turn, n_events: turn / every, full: 9_000, sent: 5_000 }).collect()
        };
        let note = |decisions: &[Decision]| {
            let all =
                [Breath { name: "mask @ t", style: of_lines(&["a"], &Default::default())[0], decisions }];
            draw(plot::WIDTHS[1], &all).svg().unwrap().contains("mask: marks at")
        };
        assert!(!note(&decisions(410, 10)));
        assert!(note(&decisions(410, 1)));
    }
}
