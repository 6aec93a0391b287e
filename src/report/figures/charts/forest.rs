//! Forest plot: how much more or less each variant keeps than a baseline under the same trigger, with the margin drawn.
//!
//! Its rows are those of table `differences`, turned round where the baseline stands first there.

use super::plot::{self, LINE, SIZE, Scale, bar, dashed, is_wide, sheet};
use super::{Chart, Entry, Input};
use crate::report::figures::canvas::{
    Anchor, BLUE, CAP_EM, Canvas, Colour, INK, Mark, fitted, fitted_name, text_width,
};
use crate::report::figures::labels::Rect;
use crate::report::figures::marker::{COLOURS, GREY};
use crate::report::statistics::estimate::ALIKE;
use crate::report::tables::differences::SHADOW;
use crate::report::tables::{Table, fixed};
use crate::scores::retention::NEED_RETENTION;

pub(super) const ENTRY: Entry = Entry { name: "forest", chart };

/// Behind what is not worse. A grey, so that it is dark where the page is.
const BAND: Colour = Colour(0xF2, 0xF2, 0xF2);
/// A loss that nobody minds: the default of `compare` and `advise`.
pub(crate) const MARGIN: f64 = 0.05;
/// More rows are no figure.
const MOST: usize = 40;

/// The variants under a trigger, beside one of them.
struct Group {
    trigger: String,
    baseline: String,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    value: f64,
    interval: Option<(f64, f64)>,
    /// Whether it has no interval because all clusters say the same, which is the surest case.
    all_agree: bool,
}

const ANSWERS: [(&str, Colour); 3] = [("not worse", BLUE), ("worse", COLOURS[1]), ("cannot tell", GREY)];

impl Row {
    /// What is said of the margin, and its colour: by the interval, never by the side of 0 that the value is on.
    fn answer(&self) -> (&'static str, Colour) {
        let interval = self.interval.or(self.all_agree.then_some((self.value, self.value)));
        ANSWERS[match interval {
            Some((_, hi)) if hi < 0.0 => 1,
            Some((lo, _)) if lo > -MARGIN => 0,
            _ => 2,
        }]
    }
}

fn chart(input: &Input) -> Result<Chart, String> {
    let mut groups = groups(input);
    let n_rows: usize = groups.iter().map(|group| group.rows.len()).sum();
    if n_rows == 0 {
        return Err("no trigger has two variants whose difference can be told".to_owned());
    }
    let data = data(&groups);
    let mut room = MOST;
    for group in &mut groups {
        group.rows.truncate(room);
        room -= group.rows.len();
    }
    groups.retain(|group| !group.rows.is_empty());
    let more = match n_rows.saturating_sub(MOST) {
        0 => String::new(),
        more => format!(" {more} more rows stand in forest.csv."),
    };
    let caption = format!(
        "Needs kept by a variant minus those of the baseline, on the same sessions, with 95 % intervals. Dashed: the margin of {MARGIN}. \
         Orange: the whole interval is below 0 (worse, however little); blue: another one, all above the margin (not worse); grey: cannot be told.{more}"
    );
    Ok(Chart::new("Differences in needs kept".to_owned(), caption, data, |width| draw(width, &groups)))
}

/// Two variants under a trigger, as the table has them.
struct Pair<'t> {
    trigger: &'t str,
    of: &'t str,
    than: &'t str,
    value: f64,
    interval: Option<(f64, f64)>,
    all_agree: bool,
}

fn pairs(table: &Table) -> Vec<Pair<'_>> {
    let [metric, trigger, of, than, nulls] =
        ["metric", "trigger", "label", "baseline", "nulls"].map(|name| Chart::words(table, name));
    let [value, lo, hi] =
        ["difference", "difference_lo", "difference_hi"].map(|name| Chart::numbers(table, name));
    let pair = |row: usize| {
        let is_ours = metric[row].as_deref() == Some(NEED_RETENTION.name);
        let than = than[row].as_deref().filter(|than| is_ours && *than != SHADOW)?;
        let interval = lo[row].zip(hi[row]);
        Some(Pair {
            trigger: trigger[row].as_deref()?,
            of: of[row].as_deref()?,
            than,
            value: value[row]?,
            interval,
            all_agree: nulls[row].as_deref().is_some_and(|why| why.starts_with(ALIKE)),
        })
    };
    (0..metric.len()).filter_map(pair).collect()
}

fn groups(input: &Input) -> Vec<Group> {
    let pairs = input.table("differences").map_or_else(Vec::new, pairs);
    let is_control = |label: &str| input.summary.main_rows().any(|row| row.control && row.label == label);
    let group = |under: &[Pair]| {
        let mut names: Vec<&str> = under.iter().flat_map(|pair| [pair.than, pair.of]).collect();
        names.retain(|name| !is_control(name) || input.baseline == Some(*name));
        let is = |name: &str, asked: &str| name == asked || name.split(['(', ' ']).next() == Some(asked);
        let asked =
            [input.baseline.unwrap_or("mask"), "mask"].map(|asked| names.iter().find(|name| is(name, asked)));
        let baseline = *asked.into_iter().flatten().chain(names.first()).next()?;
        let short = |label: &str| label.replacen(&format!(" @ {}", under[0].trigger), "", 1);
        let row = |pair: &Pair| {
            let turned = pair.of == baseline;
            let name = if turned { pair.than } else { pair.of };
            if is_control(name) || !turned && pair.than != baseline {
                return None;
            }
            let sign = if turned { -1.0 } else { 1.0 };
            let interval = pair.interval.map(|(lo, hi)| if turned { (-hi, -lo) } else { (lo, hi) });
            Some(Row { name: short(name), value: sign * pair.value, interval, all_agree: pair.all_agree })
        };
        let mut rows: Vec<Row> = under.iter().filter_map(row).collect();
        rows.sort_by(|a, b| b.value.total_cmp(&a.value));
        Some(Group { trigger: under[0].trigger.to_owned(), baseline: short(baseline), rows })
    };
    let mut groups: Vec<Group> = pairs.chunk_by(|a, b| a.trigger == b.trigger).filter_map(group).collect();
    groups.retain(|group| !group.rows.is_empty());
    groups
}

fn data(groups: &[Group]) -> Table {
    let rows: Vec<(&Group, &Row)> =
        groups.iter().flat_map(|g| g.rows.iter().map(move |row| (g, row))).collect();
    let mut t = Table::new("forest");
    let text = |text: &str| Some(text.to_owned());
    t.text("trigger", "when both compress", rows.iter().map(|(g, _)| text(&g.trigger)));
    t.text("variant", "its strategy", rows.iter().map(|(_, row)| text(&row.name)));
    t.text("baseline", "what it is compared with", rows.iter().map(|(g, _)| text(&g.baseline)));
    t.fraction("difference", "needs kept, variant - baseline", rows.iter().map(|(_, row)| Some(row.value)));
    t.fraction("lo", "lower end of the 95 % interval", rows.iter().map(|(_, row)| Some(row.interval?.0)));
    t.fraction("hi", "upper end", rows.iter().map(|(_, row)| Some(row.interval?.1)));
    t.fraction("margin", "a loss that nobody minds", rows.iter().map(|_| Some(MARGIN)));
    t.text(
        "answer",
        "what the interval says of the margin",
        rows.iter().map(|(_, row)| text(row.answer().0)),
    );
    t
}

fn draw(width: f64, groups: &[Group]) -> Canvas {
    let mut canvas = sheet(width, "Differences in needs kept, with 95 % intervals and the margin");
    let rows = || groups.iter().flat_map(|group| &group.rows);
    let numbers: f64 = if is_wide(width) { 78.0 } else { 0.0 };
    let longest = rows().map(|row| text_width(&row.name, SIZE)).fold(0.0, f64::max);
    let names = longest.min(0.5 * width) + 6.0;
    // Half of the last label of the axis has room.
    let (left, right) = (names, width - numbers.max(9.0) - 2.0);
    let ends = rows().flat_map(|row| row.interval.map_or([row.value; 2], |(lo, hi)| [lo, hi]));
    let scale = Scale::around(ends.chain([0.0, -1.2 * MARGIN, MARGIN]));
    let x = |value: f64| left + scale.share(value) * (right - left);
    let heads = groups.iter().map(|_| LINE + 3.0).sum::<f64>();
    let bottom = 2.0 + heads + LINE * rows().count() as f64 + 3.0;
    // Where a loss is one that nobody minds.
    bar(&mut canvas, Rect { x0: x(-MARGIN), y0: 2.0, x1: right, y1: bottom }, BAND);
    dashed(&mut canvas, (x(-MARGIN), 2.0), (x(-MARGIN), bottom), GREY);
    canvas.line(&[(x(0.0), 2.0), (x(0.0), bottom)], 0.5, INK);
    let mut top = 2.0;
    for group in groups {
        let head = format!("{}, beside {}", group.trigger, group.baseline);
        canvas.text((0.5, top + LINE - 1.5), Anchor::Start, SIZE, GREY, &fitted(&head, SIZE, width - 1.0));
        top += LINE + 3.0;
        for row in &group.rows {
            let (middle, colour) = (top + LINE / 2.0, row.answer().1);
            let base = middle + CAP_EM * SIZE / 2.0;
            canvas.text((0.5, base), Anchor::Start, SIZE, INK, &fitted_name(&row.name, SIZE, names - 4.0));
            if let Some((lo, hi)) = row.interval {
                canvas.line(&[(x(lo), middle), (x(hi), middle)], 0.9, colour);
            }
            canvas.marks.push(Mark::Circle { centre: (x(row.value), middle), radius: 2.0, colour });
            if numbers > 0.0 {
                canvas.text((width - 0.5, base), Anchor::End, SIZE, INK, &told(row));
            }
            top += LINE;
        }
    }
    canvas.line(&[(left, bottom), (right, bottom)], 0.6, INK);
    let mut free = f64::NEG_INFINITY;
    for (value, text) in scale.ticks() {
        let half = text_width(&text, SIZE) / 2.0;
        canvas.line(&[(x(value), bottom), (x(value), bottom + 2.5)], 0.5, INK);
        if x(value) - half > free && x(value) + half <= width {
            canvas.text((x(value), bottom + 10.0), Anchor::Middle, SIZE, INK, &text);
            free = x(value) + half + 3.0;
        }
    }
    canvas.text((right, bottom + 20.0), Anchor::End, SIZE, INK, "difference in needs kept: right is better");
    let is_there = |(word, _): &(&str, Colour)| rows().any(|row| row.answer().0 == *word);
    let answers: Vec<(Colour, &str)> = ANSWERS.into_iter().filter(is_there).map(|(w, c)| (c, w)).collect();
    let end = plot::swatches(&mut canvas, bottom + 22.0, &answers);
    canvas.height = plot::note(&mut canvas, end, &format!("dashed: a loss of {MARGIN}, the margin"));
    canvas
}

/// `-0.12 [-0.16, -0.08]`.
fn told(row: &Row) -> String {
    let signed = |x: f64| format!("{}{}", if fixed(x, 2).starts_with('-') { "" } else { "+" }, fixed(x, 2));
    let value = signed(row.value);
    row.interval.map_or(value.clone(), |(lo, hi)| format!("{value} [{}, {}]", signed(lo), signed(hi)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_those_of_the_answers() {
        let row = |value: f64, interval, all_agree| Row { name: "a".to_owned(), value, interval, all_agree };
        let answer = |value: f64, interval| row(value, interval, false).answer();
        assert_eq!(answer(-0.01, Some((-0.04, 0.02))), ("not worse", BLUE), "whichever side of 0 it is on");
        assert_eq!(answer(0.01, Some((-0.09, 0.11))), ("cannot tell", GREY));
        assert_eq!(answer(-0.10, Some((-0.30, 0.10))), ("cannot tell", GREY));
        assert_eq!(answer(-0.02, Some((-0.03, -0.01))), ("worse", COLOURS[1]));
        assert_eq!(answer(-0.50, None), ("cannot tell", GREY), "too few");
        // Where all clusters say the same there is no interval, and no doubt.
        assert_eq!(row(-0.50, None, true).answer().0, "worse");
        assert_eq!(row(0.0, None, true).answer().0, "not worse");
        // The key has the answers that are there, and no others.
        let groups = [Group {
            trigger: "t".to_owned(),
            baseline: "b".to_owned(),
            rows: vec![row(-0.1, Some((-0.2, -0.05)), false)],
        }];
        let svg = draw(plot::WIDTHS[0], &groups).svg().unwrap();
        assert!(svg.contains("worse") && !svg.contains("cannot tell") && !svg.contains("not worse"), "{svg}");
    }
}
