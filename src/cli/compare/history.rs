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
}

#[derive(Deserialize)]
struct Row {
    variant: String,
    score: String,
    margin: f64,
    before: Option<f64>,
    now: Option<f64>,
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
        for row in night.iter().flat_map(|night| &night.rows) {
            let points = lines.entry((&row.score, &row.variant)).or_default();
            if let (true, Some(value), true) = (points.is_empty(), row.before, i > 0) {
                points.push(Point { night: i - 1, value, gate: None, worse: false });
            }
            if let Some(value) = row.now {
                let gate = row.before.map(|before| before - row.margin);
                points.push(Point { night: i, value, gate, worse: row.answer == "worse" });
            }
        }
    }
    let line = |((score, variant), points): ((&str, &str), Vec<Point>)| Line {
        score: score.to_owned(),
        variant: variant.to_owned(),
        points,
    };
    History { nights, lines: lines.into_iter().map(line).collect() }
}
