//! Tables and figures of a run.
//!
//! Reads rows and nothing else: a report is redrawn without a model or a log, on another machine,
//! years later. Of strategies and triggers it knows a few references and the bridge mode by name; what is a
//! control the rows say, and the rest is only what they call it. Same rows and same seed give the same bytes.

pub mod brief;
mod claims;
pub mod compare;
pub mod figures;
mod html;
mod lines;
mod load;
mod night;
mod paper;
mod series;
pub mod sessions;
pub mod statistics;
pub mod sweep;
pub mod tables;

use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;
use rayon::prelude::*;

use crate::files::lock::Lock;
use crate::report::statistics::bootstrap::Resampling;
use claims::Claims;
use lines::{Gathered, Lines};
use tables::summary::{Summary, Summing, meter};

pub use crate::report::figures::tiers::{Band, Tier, TierMap};
pub use crate::report::figures::timeline::{Fired, Group, Key, Look, Row, Span, Timeline};
pub use claims::Names;
pub use load::Population;
pub use night::Night;

/// How a report is made.
#[derive(Clone, Debug)]
pub struct Options {
    pub resampling: Resampling,
    /// Of which logs it speaks.
    pub population: Population,
    /// Label or strategy that the others are compared with; `None` compares all pairs where they are few.
    pub baseline: Option<String>,
    /// File of claims to hold against the run; `None` takes those that come with the program.
    pub claims: Option<PathBuf>,
    /// What claims may name.
    pub names: Names,
    /// Whether no text of logs may stand in it.
    pub share_safe: bool,
    /// Whether figures are drawn as PNG, too, which is most of the work of a small report.
    pub png: bool,
}

impl Options {
    /// All that a report has, with the claims that come with the program.
    pub fn new(population: Population, names: Names) -> Self {
        let resampling = Resampling { seed: 1, resamples: 2_000 };
        Options { resampling, population, baseline: None, claims: None, names, share_safe: false, png: true }
    }
}

/// What a report left behind.
pub struct Written {
    pub files: Vec<PathBuf>,
    /// Whether the headline figure shows a variant that compresses.
    pub has_headline: bool,
    /// Remarks for the reader's eyes: failed cells, variants on different trajectories.
    pub remarks: Vec<String>,
    /// The answer in short.
    pub brief: brief::Brief,
    /// The result in a sentence, with names in backticks.
    pub sentence: String,
}

/// Writes all tables and figures of the run in `run` into `out`.
pub fn write(run: &Path, out: &Path, options: &Options) -> anyhow::Result<Written> {
    let claims = Claims::load(options.claims.as_deref(), &options.names)?;
    let (folder, run) = (run, load::Run::open(run, options.population)?);
    let (summarised, spent) = rayon::join(|| summarised(&run, &claims, options), || run.spent());
    let (summary, gathered, these) = summarised?;
    let lines = Lines::new(&run, gathered, options.resampling);
    if let Some(name) = &options.baseline {
        check_baseline(&lines, name)?;
    }
    let input =
        tables::Input { run: &run, lines: &lines, claims: &claims, baseline: options.baseline.as_deref() };
    let mut pages: Vec<_> = tables::ALL.par_iter().map(|table| (table.name, (table.page)(&input))).collect();
    for page in pages.iter_mut().filter_map(|(_, page)| page.as_mut().ok()) {
        let population = options.population;
        page.notes +=
            &format!("\n- Population: *{}*; a cluster is {}.", population.name(), population.cluster());
        name_population(&mut page.table, population);
    }
    let charts = charts((&run, spent?), &summary, &pages, options)?;
    let mut tables = vec![summary.table(), summary.strata(), summary.by_format()];
    tables.iter_mut().for_each(|table| name_population(table, options.population));
    let mut sentence = html::sentence(&run, &summary, &lines);
    let headline = these.as_ref().map_or((&summary, options.population), |(summary, said)| {
        sentence = format!("{said} Of other repositories: {sentence}");
        (summary, Population::These)
    });
    let drawn: Vec<(&str, Option<String>)> =
        charts.iter().map(|(name, chart)| (*name, chart.as_ref().err().cloned())).collect();
    let mut draft = Draft::create(out)?;
    draft.write("summary.md", summary.markdown(&sentence, &pages, (&drawn, options.png)))?;
    draft.write("columns.md", tables::summary_page::columns(&tables, &pages, &drawn))?;
    draft.write("methods.md", paper::methods(&run, &summary, options.resampling))?;
    draft.write("summary.tex", paper::latex(&summary))?;
    let other = these.as_ref().map(|(summary, _)| (summary, Population::These.name()));
    let shown = html::Shown { tables: &tables, charts: &charts, sentence: &sentence, headline: other };
    draft.write("report.html", html::page(&run, &summary, &shown, (folder, !options.share_safe))?)?;
    let (points, about) = (headline.0.points(), (summary.tail(), headline.1.name()));
    let drawn = figures::retention_savings(&points, &summary.styles(), headline.0.undrawn(), about);
    for (figure, width) in drawn.iter().zip(["", "_wide"]) {
        draft.write(&format!("retention_savings{width}.svg"), figure.svg()?)?;
        let picture = format!("retention_savings{width}.png");
        match options.png {
            true => draft.write(&picture, figure.png()?)?,
            false => draft.absent.push(picture),
        }
    }
    let drawn = charts.into_par_iter().map(|(name, chart)| {
        let files = chart.map_or_else(|_| Ok(Vec::new()), |chart| chart.files(options.png))?;
        Ok((name, files))
    });
    for (name, files) in drawn.collect::<anyhow::Result<Vec<_>>>()? {
        let is_there = |end: &&str| files.iter().any(|(of, _)| of == end);
        let absent = figures::charts::ENDS.iter().filter(|end| !is_there(end));
        draft.absent.extend(absent.map(|end| format!("{FIGURES}/{name}{end}")));
        for (end, bytes) in files {
            draft.write(&format!("{FIGURES}/{name}{end}"), bytes)?;
        }
    }
    for (name, page) in pages {
        match page {
            Ok(page) => {
                draft.write(&format!("{}.md", page.table.name), page.markdown())?;
                tables.push(page.table);
            }
            Err(_) => draft.absent.extend(["md", "csv", "parquet"].map(|ending| format!("{name}.{ending}"))),
        }
    }
    for table in &tables {
        draft.write(&format!("{}.csv", table.name), table.csv())?;
        let name = format!("{}.parquet", table.name);
        table.write_parquet(&draft.path(&name))?;
        draft.names.push(name);
    }
    let files = draft.publish()?;
    let has_headline = points.iter().any(|point| point.family != figures::FULL);
    let brief = brief::Brief::of(&run, &summary);
    Ok(Written { files, has_headline, brief, sentence, remarks: summary.remarks })
}

/// What a run says, what its tables need, and, where other repositories cannot be spoken of, what it says of more sessions of
/// these: with that the sentence goes on, and the headline shows it. The scores are read once.
fn summarised<'c>(
    run: &load::Run,
    claims: &'c Claims,
    options: &Options,
) -> anyhow::Result<(Summary, Gathered<'c>, Option<(Summary, String)>)> {
    let opened = match options.population {
        Population::Other => Some(run.speaking_of(Population::These)?),
        Population::These | Population::Corpus => None,
    };
    let begun = |run| (Summing::of(run, options.resampling), Gathered::with(tables::measures(), None));
    // As long as no variant tells of other repositories.
    let mut these = opened.as_ref().map(begun);
    let mut gathered = Gathered::with(tables::measures(), Some(claims));
    let mut summing = Summing::of(run, options.resampling);
    let meter = meter(run);
    run.scores(|batch| {
        gathered.take(run, &batch);
        summing.add(&batch, || meter.add(1));
        these = these.take().filter(|_| !summing.tells_needs());
        if let (Some((summing, gathered)), Some(run)) = (&mut these, &opened) {
            gathered.take(run, &batch);
            summing.add(&batch, || {});
        }
        Ok(())
    })?;
    meter.finish();
    let these = these.filter(|(summing, _)| summing.tells_needs()).zip(opened.as_ref());
    let these = these.map(|((summing, gathered), run)| {
        let (summary, lines) = (summing.finish(), Lines::new(run, gathered, options.resampling));
        let said = html::sentence(run, &summary, &lines);
        (summary, format!("Of more sessions of these repositories (`--population these`): {said}"))
    });
    Ok((summing.finish(), gathered, these))
}

/// Folder of the figures beside the headline.
const FIGURES: &str = "figures";

/// A table with a page, or why there is none, by name; likewise a figure.
type Pages = [(&'static str, Result<tables::pages::Page, String>)];
type Charts = Vec<(&'static str, Result<figures::charts::Chart, String>)>;

fn charts(
    (run, spent): (&load::Run, Vec<load::Spent>),
    summary: &Summary,
    pages: &Pages,
    options: &Options,
) -> anyhow::Result<Charts> {
    let session = figures::charts::session(run, summary).map(|session| run.decisions_of(session));
    let session = session.transpose()?.unwrap_or_else(|| vec![Vec::new(); run.variants.len()]);
    let decisions = load::Decisions { spent, session };
    let tables: Vec<&tables::Table> =
        pages.iter().filter_map(|(_, page)| Some(&page.as_ref().ok()?.table)).collect();
    let baseline = options.baseline.as_deref();
    let input = figures::charts::Input { run, summary, decisions: &decisions, tables: &tables, baseline };
    Ok(figures::charts::ALL.par_iter().map(|entry| (entry.name, (entry.chart)(&input))).collect())
}

/// A report in the making: a folder in that of the report, whose files get their places when all are written. So a report that
/// fails leaves the one before it as it was, and one that is made leaves nothing of it.
struct Draft<'a> {
    out: &'a Path,
    folder: PathBuf,
    /// Its files, in the order in which they are told.
    names: Vec<String>,
    /// Files of an earlier report that this one does not have.
    absent: Vec<String>,
    _lock: Lock,
}

impl<'a> Draft<'a> {
    fn create(out: &'a Path) -> anyhow::Result<Self> {
        fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
        let lock = Lock::alone(out, "report")?;
        if lock.is_sure() {
            remove_abandoned(out);
        }
        let folder = out.join(format!(".report.{}.unfinished", std::process::id()));
        fs::create_dir_all(folder.join(FIGURES))
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Draft { out, folder, names: Vec::new(), absent: Vec::new(), _lock: lock })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn write(&mut self, name: &str, content: impl AsRef<[u8]>) -> anyhow::Result<()> {
        let path = self.path(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Gives the files their places, and says where that is. Those of an earlier report go, with its files of other names; if
    /// one cannot, all stay.
    fn publish(self) -> anyhow::Result<Vec<PathBuf>> {
        let (names, absent) = (&self.names, &self.absent);
        for path in names.iter().chain(absent).map(|name| self.out.join(name)) {
            let is_folder = fs::symlink_metadata(&path).is_ok_and(|found| found.is_dir());
            anyhow::ensure!(!is_folder, "cannot write {}: a folder stands there", path.display());
        }
        let before = self.path("before");
        if names.iter().any(|name| name.starts_with(FIGURES)) {
            fs::create_dir_all(self.out.join(FIGURES))
                .with_context(|| format!("cannot create {}", self.out.join(FIGURES).display()))?;
        }
        fs::create_dir_all(before.join(FIGURES))
            .with_context(|| format!("cannot create {}", before.display()))?;
        let mut done = Vec::new();
        for (name, is_new) in names.iter().map(|n| (n, true)).chain(absent.iter().map(|n| (n, false))) {
            let path = self.out.join(name);
            let mut moved = match fs::rename(&path, before.join(name)) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                other => other,
            };
            if moved.is_ok() {
                done.push((name, path.clone()));
                moved = if is_new { fs::rename(self.path(name), &path) } else { Ok(()) };
            }
            if let Err(error) = moved {
                self.undo(&done);
                return Err(error).with_context(|| format!("cannot write {}", path.display()));
            }
        }
        Ok(names.iter().map(|name| self.out.join(name)).collect())
    }

    /// Puts the files of the report before back. What fails here has been told by the error that led here.
    fn undo(&self, done: &[(&String, PathBuf)]) {
        for (name, path) in done.iter().rev() {
            let before = self.path("before").join(name);
            let _ = match before.exists() {
                true => fs::rename(before, path),
                false => fs::remove_file(path),
            };
        }
    }
}

/// Removes drafts of reports that were killed; nobody else is at work in the folder.
fn remove_abandoned(out: &Path) {
    for entry in fs::read_dir(out).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(".report.") && name.ends_with(".unfinished") {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for Draft<'_> {
    fn drop(&mut self) {
        // What stays is in a folder of its own, and no part of a report.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The last column of every table.
fn name_population(table: &mut tables::Table, population: Population) {
    let rows = (0..table.n_rows()).map(|_| Some(population.name().to_owned()));
    table.text(
        "population",
        &format!("of which logs intervals speak; a cluster is {}", population.cluster()),
        rows,
    );
}

fn check_baseline(lines: &Lines, name: &str) -> anyhow::Result<()> {
    let main: Vec<_> = lines.main().collect();
    let mut strategies: Vec<&str> = main.iter().map(|l| l.strategy.as_str()).collect();
    strategies.sort_unstable();
    strategies.dedup();
    anyhow::ensure!(
        tables::differences::find(&main, name).is_some(),
        "no variant of the run is called or uses `{name}`\nhint: give a label of summary.csv, or one of {}",
        strategies.join(", ")
    );
    Ok(())
}

#[cfg(test)]
mod tests;
