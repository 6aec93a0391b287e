//! Thresholds: what one setting of a trigger or a strategy does, all else the same. A line a strategy.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::plot::{self, AROUND, Axis, Frame, Scale, Series, heights, is_wide, panels, sheet};
use super::{Chart, Entry, Input, kept_and_saved, line, spot};
use crate::report::figures::canvas::Canvas;
use crate::report::figures::marker::{Style, of_lines};
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::{Table, fixed};
use crate::store::VariantRow;

pub(super) const ENTRY: Entry = Entry { name: "sweep", chart };

/// More lines are no figure.
const MOST: usize = 7;

/// A setting of which several values were tried.
struct Sweep<'a> {
    /// `n of turns`.
    name: String,
    values: Vec<f64>,
    /// What varies in nothing else: needs kept and tokens saved at values, by their places.
    lines: Vec<(String, Points<'a>)>,
}

fn chart(input: &Input) -> Result<Chart, String> {
    let mut all = sweeps(input);
    // The one that says most: of the most points, a trigger's first.
    all.sort_by_key(|sweep| {
        std::cmp::Reverse(sweep.lines.iter().map(|(_, points)| points.len()).sum::<usize>())
    });
    let Some(mut sweep) = all.into_iter().next() else {
        return Err(
            "no setting of a trigger or a strategy was tried at several values, all else the same".to_owned()
        );
    };
    let data = data(&sweep);
    let more = sweep.lines.len().saturating_sub(MOST);
    sweep.lines.truncate(MOST);
    let more = if more > 0 { format!(" {more} more lines stand in sweep.csv.") } else { String::new() };
    let caption = format!(
        "What {} does to what is kept and to what is saved, all else the same, with 95 % intervals. Values stand at equal distances.{more}",
        sweep.name
    );
    let names: Vec<&str> = sweep.lines.iter().map(|(name, _)| name.as_str()).collect();
    let looks = of_lines(&names, &input.summary.styles());
    Ok(Chart::new(format!("Sweep of {}", sweep.name), caption, data, |width| draw(width, &sweep, &looks)))
}

/// A number among the settings of a variant.
struct Setting {
    /// Whose it is.
    name: String,
    value: f64,
    /// All the rest of the variant: what has the same is one line.
    rest: (bool, [Map<String, Value>; 2], [String; 3]),
    /// The label without it.
    line: String,
}

fn settings(row: &VariantRow) -> Vec<Setting> {
    let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap_or_default();
    let params = [&row.strategy_params, &row.trigger_params].map(|text| read(text));
    let names = [row.strategy.clone(), row.trigger.clone(), row.model.clone().unwrap_or_default()];
    let (strategy, trigger) = row.label.split_once(" @ ").unwrap_or((&row.label, ""));
    let mut all = Vec::new();
    for (of_trigger, own) in params.iter().enumerate() {
        for (key, value) in own.iter().filter_map(|(key, value)| Some((key, value.as_f64()?))) {
            let mut rest = params.clone();
            rest[of_trigger].remove(key);
            let (name, line) = match of_trigger == 1 {
                true => {
                    (format!("{key} of {}", row.trigger), format!("{strategy} @ {}", without(trigger, key)))
                }
                false => (key.clone(), format!("{} @ {trigger}", without(strategy, key))),
            };
            all.push(Setting { name, value, rest: (of_trigger == 1, rest, names.clone()), line });
        }
    }
    all
}

/// A part of a label without one of its settings.
fn without(label: &str, key: &str) -> String {
    let key = format!("{key}=");
    let starts = |at: &usize| label[..*at].ends_with(['(', ',']);
    let Some(at) = label.match_indices(&key).map(|(at, _)| at).find(starts) else { return label.to_owned() };
    let end = label[at..].find([',', ')']).map_or(label.len(), |end| at + end);
    let joined = format!("{}{}", &label[..at], &label[end..]);
    joined.replace("(,", "(").replace(",,", ",").replace(",)", ")").replace("()", "")
}

type Points<'a> = BTreeMap<usize, [&'a Estimate; 2]>;

fn sweeps<'a>(input: &Input<'a>) -> Vec<Sweep<'a>> {
    let mut found: BTreeMap<String, Vec<(Setting, [&'a Estimate; 2])>> = BTreeMap::new();
    for row in input.choices().filter(|row| kept_and_saved(row).iter().all(|of| of.value.is_some())) {
        let Some(variant) = input.run.variants.iter().find(|v| v.variant == row.variant) else { continue };
        for setting in settings(variant) {
            found.entry(setting.name.clone()).or_default().push((setting, kept_and_saved(row)));
        }
    }
    let sweep = |(name, all): (String, Vec<(Setting, [&'a Estimate; 2])>)| {
        let mut values: Vec<f64> = all.iter().map(|(setting, _)| setting.value).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let mut lines: Vec<(&Setting, Points<'a>)> = Vec::new();
        for (setting, of) in &all {
            let place = values.iter().position(|v| *v == setting.value)?;
            match lines.iter_mut().find(|(one, _)| one.rest == setting.rest) {
                Some((_, points)) => drop(points.insert(place, *of)),
                None => lines.push((setting, BTreeMap::from([(place, *of)]))),
            }
        }
        lines.retain(|(_, points)| points.len() > 1);
        let lines: Vec<_> =
            lines.into_iter().map(|(setting, points)| (setting.line.clone(), points)).collect();
        (!lines.is_empty()).then_some(Sweep { name, values, lines })
    };
    found.into_iter().filter_map(sweep).collect()
}

fn data(sweep: &Sweep) -> Table {
    let rows = || {
        let points = |(name, points)| {
            let points: &Points = points;
            points.iter().map(move |(place, of)| (name, sweep.values[*place], *of))
        };
        sweep.lines.iter().map(|(name, points)| (name, points)).flat_map(points)
    };
    let mut t = Table::new("sweep");
    t.text("setting", "what varies", rows().map(|_| Some(sweep.name.clone())));
    t.text("line", "all that does not", rows().map(|(name, ..)| Some(String::clone(name))));
    t.amount("value", "of the setting", rows().map(|(_, value, _)| Some(value)));
    for (i, name) in ["needs_kept", "tokens_saved"].into_iter().enumerate() {
        let doc = name.replace('_', " ");
        t.fraction(name, &doc, rows().map(|(.., of)| of[i].value));
        t.fraction(
            &format!("{name}_lo"),
            "lower end of its 95 % interval",
            rows().map(|(.., of)| of[i].lo()),
        );
        t.fraction(&format!("{name}_hi"), "upper end", rows().map(|(.., of)| of[i].hi()));
    }
    t
}

fn draw(width: f64, sweep: &Sweep, looks: &[Style]) -> Canvas {
    let mut canvas = sheet(width, &format!("Needs kept and tokens saved over {}", sweep.name));
    let names =
        || sweep.values.iter().map(|value| fixed(*value, if value.fract() == 0.0 { 0 } else { 2 })).collect();
    let series = |which: usize| -> Vec<Series> {
        let points = |(i, (name, points)): (usize, &(String, Points))| {
            line(looks[i], name, points.iter().filter_map(|(place, of)| spot(*place, of[which])), false)
        };
        sweep.lines.iter().enumerate().filter_map(points).collect()
    };
    let height = AROUND + if is_wide(width) { 110.0 } else { 90.0 };
    let (boxes, end) = panels(width, 0.0, 2, height);
    let all = [series(0), series(1)];
    for ((of, title), series) in boxes.into_iter().zip(["needs kept", "tokens saved"]).zip(&all) {
        let y = Axis::numbers(Scale::around(heights(series)), title);
        Frame::draw(&mut canvas, of, &Axis::names(names(), &sweep.name), &y).series(&mut canvas, series);
    }
    canvas.height = plot::key_of(&mut canvas, end, &all);
    canvas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_lose_one_setting() {
        let cases = [
            ("mask(keep_last=10)", "keep_last", "mask"),
            ("turns(n=21,keep=10)", "keep", "turns(n=21)"),
            ("turns(n=21,keep=10)", "n", "turns(keep=10)"),
            ("a(x=1,n=2,y=3)", "n", "a(x=1,y=3)"),
            ("tokens(window=32k)", "n", "tokens(window=32k)"),
        ];
        for (label, key, expected) in cases {
            assert_eq!(without(label, key), expected);
        }
    }
}
