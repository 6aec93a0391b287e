//! `trajpress compare --history`: the last nights of `trajpress nightly`, with the line of the gate.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use serde::Deserialize;
use serde_json::json;

use crate::cli::page::{Block, lay_out, width};
use crate::cli::{ExitStatus, Output, nightly, print};
use crate::files::{reach, whole};
use crate::report::figures::charts::history::{History, Line, Point};
use crate::scores;
use crate::text::escape;

/// What a night keeps of its comparison.
#[derive(Deserialize)]
struct Night {
    rows: Vec<Row>,
    /// Variants that the gate held and that were there no more.
    #[serde(default)]
    gone: Vec<String>,
    /// Variants that were not there before.
    #[serde(default)]
    new: Vec<Began>,
}

#[derive(Deserialize)]
struct Began {
    variant: String,
    score: String,
    now: Option<f64>,
}

#[derive(Deserialize)]
struct Row {
    variant: String,
    score: String,
    margin: f64,
    /// Its label on the night before, where that was another.
    #[serde(default)]
    variant_before: Option<String>,
    /// Whether nothing else of it was another.
    #[serde(default)]
    renamed: bool,
    before: Option<f64>,
    now: Option<f64>,
    /// Over all sessions of the night, and not over those of both alone.
    #[serde(default)]
    now_all_sessions: Option<f64>,
    answer: String,
}

/// Draws the last nights beside them, and says what the gate answered.
pub(super) fn run(folder: &Path, last: usize, output: Output) -> anyhow::Result<ExitStatus> {
    let mut nights = nightly::all(folder)?;
    nights.drain(..nights.len().saturating_sub(last));
    let names: Vec<String> = nights
        .iter()
        .map(|night| night.file_name().unwrap_or_default().to_string_lossy().into_owned())
        .collect();
    let mut compared = Vec::new();
    for night in &nights {
        let path = night.join("compare.json");
        let text = reach::read(&path)?;
        let read = text.map(|text| serde_json::from_slice::<Night>(&text)).transpose();
        compared.push(read.with_context(|| format!("{} is damaged", path.display()))?);
    }
    anyhow::ensure!(
        compared.iter().any(Option::is_some),
        "{} holds no nights that were compared\nhint: give the folder of `trajpress nightly`, after two nights",
        folder.display()
    );
    let history = history(names, &compared);
    let mut paths = Vec::new();
    for (end, bytes) in history.files()? {
        let path = folder.join(format!("history{end}"));
        whole::write(&path, &bytes)?;
        paths.push(path.display().to_string());
    }
    let told: Vec<[String; 6]> =
        history.nights.iter().zip(&compared).map(|(name, night)| told(name, night.as_ref())).collect();
    print(&match output.json {
        true => {
            let night = |of: &[String; 6]| json!({ "night": of[0], "worse": of[1], "gone": of[2], "cannot_tell": of[3], "not_worse": of[4] });
            escape::json(&json!({ "nights": told.iter().map(night).collect::<Vec<_>>(), "files": paths }))?
        }
        false => {
            let head =
                ["night", "worse", "gone", "cannot tell", "not worse", "what got worse"].map(str::to_owned);
            let rows = [vec![head.to_vec()], told.iter().map(|of| of.to_vec()).collect()].concat();
            let drawn = paths.first().cloned().unwrap_or_default();
            lay_out(
                &[Block::Table { rows, spare: vec![4, 3] }, Block::Text("\n".to_owned()), Block::Line(drawn)],
                width(),
            )
        }
    })?;
    Ok(ExitStatus::Done)
}

/// A night's answers, counted, and what got worse; dashes where it was not compared.
fn told(name: &str, night: Option<&Night>) -> [String; 6] {
    let Some(night) = night else { return [name, "-", "-", "-", "-", ""].map(str::to_owned) };
    let of = |answer: &str| night.rows.iter().filter(|row| row.answer == answer).collect::<Vec<_>>();
    let worse: Vec<String> =
        of("worse").iter().map(|row| format!("{} of {}", scores::called(&row.score), row.variant)).collect();
    let gone = night.gone.iter().map(|label| format!("{label} is gone"));
    let what = worse.into_iter().chain(gone).collect::<Vec<_>>().join("; ");
    let n = |answer: &str| of(answer).len().to_string();
    let n_gone = night.gone.len().to_string();
    [name.to_owned(), n("worse"), n_gone, n("cannot_tell"), n("not_worse"), what]
}

/// The values of each night; what was before the first that was compared is that of the night before it.
fn history(nights: Vec<String>, compared: &[Option<Night>]) -> History {
    let mut lines: BTreeMap<(&str, &str), Vec<Point>> = BTreeMap::new();
    for (i, night) in compared.iter().enumerate() {
        // A line goes on under another name; two may have changed theirs.
        let renamed = night.iter().flat_map(|night| &night.rows).filter(|row| row.renamed);
        let moved = renamed.filter_map(|row| {
            let points = lines.remove(&(row.score.as_str(), row.variant_before.as_deref()?))?;
            Some(((row.score.as_str(), row.variant.as_str()), points))
        });
        let moved: Vec<_> = moved.collect();
        for (key, points) in moved {
            let line = lines.entry(key).or_default();
            line.extend(points);
            line.sort_by_key(|point| point.night);
        }
        for new in night.iter().flat_map(|night| &night.new) {
            let points = lines.entry((&new.score, &new.variant)).or_default();
            points.extend(new.now.map(|value| Point { night: i, value, gate: None, worse: false }));
        }
        for row in night.iter().flat_map(|night| &night.rows) {
            // What was before is a point of the variant that it was, which is another line where that was called or set otherwise.
            let before = row.variant_before.as_ref().filter(|_| !row.renamed).unwrap_or(&row.variant);
            let points = lines.entry((&row.score, before)).or_default();
            let is_new = i > 0 && points.last().is_none_or(|point: &Point| point.night + 1 < i);
            if let Some(value) = row.before.filter(|_| is_new) {
                points.push(Point { night: i - 1, value, gate: None, worse: false });
            }
            let points = lines.entry((&row.score, &row.variant)).or_default();
            if let Some(now) = row.now {
                // The night's own value; the gate stands as far from it as where the sessions of both are compared.
                let value = row.now_all_sessions.unwrap_or(now);
                let gate = row.before.map(|before| value + (before - row.margin) - now);
                points.push(Point { night: i, value, gate, worse: row.answer == "worse" });
            }
        }
    }
    let line = |((score, variant), points): ((&str, &str), Vec<Point>)| Line {
        score: score.to_owned(),
        variant: variant.to_owned(),
        points,
    };
    // Scores in the order of the gate, and not of the alphabet.
    let rows = || compared.iter().flatten().flat_map(|night| &night.rows);
    let place = |score: &str| rows().position(|row| row.score == score);
    let mut lines: Vec<_> = lines.into_iter().filter(|(_, points)| !points.is_empty()).collect();
    lines.sort_by_key(|((score, _), _)| place(score));
    History { nights, lines: lines.into_iter().map(line).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` is called `b` on the third night: its values stay under its own name.
    #[test]
    fn a_variant_that_was_called_otherwise_has_its_own_line() {
        let row = |variant: &str, was: Option<&str>, before: f64, now: f64| Row {
            variant: variant.to_owned(),
            score: "need_retention".to_owned(),
            margin: 0.05,
            variant_before: was.map(str::to_owned),
            renamed: false,
            now_all_sessions: None,
            before: Some(before),
            now: Some(now),
            answer: "not_worse".to_owned(),
        };
        let night = |row: Row| Some(Night { rows: vec![row], gone: Vec::new(), new: Vec::new() });
        let points = |compared: &[Option<Night>]| {
            let nights = (1..=compared.len()).map(|n| format!("2026-01-0{n}-030000")).collect();
            let of = |line: &Line| {
                let points = line.points.iter().map(|point| (point.night, point.value)).collect::<Vec<_>>();
                (line.variant.clone(), points)
            };
            history(nights, compared).lines.iter().map(of).collect::<Vec<_>>()
        };
        let two = [None, night(row("a", None, 0.9, 0.8)), night(row("b", Some("a"), 0.8, 0.5))];
        let expected = |a: &[(usize, f64)], b: &[(usize, f64)]| {
            vec![("a".to_owned(), a.to_vec()), ("b".to_owned(), b.to_vec())]
        };
        assert_eq!(points(&two), expected(&[(0, 0.9), (1, 0.8)], &[(2, 0.5)]));
        // Where it is set as before, its line goes on under the new name; two may have changed theirs.
        let renamed =
            |to: &str, was: &str, before, now| Row { renamed: true, ..row(to, Some(was), before, now) };
        let both = |rows| Some(Night { rows, gone: Vec::new(), new: Vec::new() });
        let swapped = [
            None,
            both(vec![row("a", None, 0.9, 0.8), row("b", None, 0.5, 0.4)]),
            both(vec![renamed("b", "a", 0.8, 0.7), renamed("a", "b", 0.4, 0.3)]),
        ];
        assert_eq!(
            points(&swapped),
            expected(&[(0, 0.5), (1, 0.4), (2, 0.3)], &[(0, 0.9), (1, 0.8), (2, 0.7)])
        );
        // On the first night that was compared it is the name of before that has the value of before.
        assert_eq!(points(&[None, night(row("b", Some("a"), 0.8, 0.5))]), expected(&[(0, 0.8)], &[(1, 0.5)]));
        // A night's value is that of all its sessions.
        let grown = Row { now_all_sessions: Some(0.6), ..row("a", None, 0.9, 0.8) };
        let history_of = history(vec!["1".to_owned(), "2".to_owned()], &[None, night(grown)]);
        let point = history_of.lines[0].points[1];
        assert!(
            (point.value, point.gate.map(|gate| (100.0 * gate).round())) == (0.6, Some(65.0)),
            "{point:?}"
        );
        // A variant that is new begins on its first night.
        let new = Began { variant: "b".to_owned(), score: "need_retention".to_owned(), now: Some(0.7) };
        let came = Night { rows: vec![row("a", None, 0.9, 0.8)], gone: Vec::new(), new: vec![new] };
        let later = Night { rows: vec![row("b", None, 0.7, 0.6)], gone: Vec::new(), new: Vec::new() };
        let b = [(1, 0.7), (2, 0.6)];
        assert_eq!(points(&[None, Some(came), Some(later)]), expected(&[(0, 0.9), (1, 0.8)], &b));
    }
}
