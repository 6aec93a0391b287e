//! `trajpress report`: tables and figures of a finished run.

use std::path::PathBuf;

use serde_json::json;

use super::Output;
use super::page::{Block, lay_out, width};
use crate::experiment::finish::Success;
use crate::report::statistics::bootstrap::Resampling;
use crate::report::{Names, Options, Population};
use crate::text::escape;

/// Make the tables and figures of a run
///
/// Reads the rows of the run and nothing else: no log, no model. Prints the result in a sentence and where to read on; `--json`
/// names all files. Writes report.html (one page with everything, for a browser), summary.md (one page to read), summary.csv and
/// summary.parquet (one row a variant), strata.csv and strata.parquet (every score by stratum),
/// by_format.csv and by_format.parquet, columns.md (what their columns mean), summary.tex and methods.md for a paper, the figure
/// retention_savings.svg and .png, and more figures in figures/, each for a column and (_wide) a page of a paper, with its numbers as
/// .csv. Where the rows allow, also as .md, .csv and .parquet: differences (paired, with p-values), pareto, areas (across
/// budgets), agreement (of the scores of retention), validity (against logged outcomes), replicates.
/// And claims: what others say of compression, registered as data, held against the run.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress report runs/night
  trajpress report runs/night --out reports/night --resamples 10000
  trajpress report runs/night --baseline mask
  trajpress report runs/night --population these
  trajpress report runs/night --claims my_claims.toml
  trajpress report runs/night --share-safe")]
pub struct Args {
    /// Folder of the run
    run: PathBuf,
    /// Folder to write to [default: RUN/report]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Of which logs intervals speak: of more logs of the same repositories, or of other repositories
    #[arg(long, value_enum, default_value = "other")]
    population: Population,
    /// Seed of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Resamples of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(100..=1_000_000))]
    resamples: u32,
    /// Strategy or label that the others are compared with in `differences` [default: all pairs
    /// under a trigger where they are few, else mask]
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// File of claims to hold against the run [default: those that come with the program,
    /// datasets/claims.toml]
    #[arg(long, value_name = "FILE")]
    claims: Option<PathBuf>,
    /// Leave out all text of the logs: the pages of single events have its lengths and kinds alone
    #[arg(long)]
    share_safe: bool,
    /// Draw figures as SVG alone, without the PNG, which take most of the time of a small report
    #[arg(long)]
    no_png: bool,
}

/// Where a reader begins.
const FIRST: [&str; 3] = ["report.html", "summary.md", "retention_savings.png"];

/// Runs the command: the result and where to read on go to stdout, remarks to stderr.
pub fn run(args: &Args, output: Output) -> anyhow::Result<()> {
    check_environment()?;
    let out = args.out.clone().unwrap_or_else(|| args.run.join("report"));
    let resampling = Resampling { seed: args.seed, resamples: args.resamples as usize };
    let options = Options {
        resampling,
        population: args.population,
        baseline: args.baseline.clone(),
        claims: args.claims.clone(),
        names: names(),
        share_safe: args.share_safe,
        png: !args.no_png,
    };
    let success = match Success::read(&args.run)? {
        None => Success::kept(&args.run)?,
        of_run => of_run,
    };
    if let Some(success) = &success
        && let Some(what) = success.damaged(&args.run)?
    {
        anyhow::bail!("{what}\nhint: start the run again, it joins its tables anew");
    }
    let written = crate::report::write(&args.run, &out, &options)?;
    if success.is_none() {
        super::tell(&format!(
            "{}: no _SUCCESS, so nothing says that these tables are whole and of one run",
            args.run.display()
        ));
    }
    for remark in &written.remarks {
        super::tell(&remark);
    }
    let paths: Vec<String> = written.files.iter().map(|path| path.display().to_string()).collect();
    super::print(&match output.json {
        true => {
            escape::json(&json!({ "result": written.sentence, "files": paths, "remarks": written.remarks }))?
        }
        false => {
            let is_there = |name: &&str| !name.ends_with(".png") || !args.no_png && written.has_headline;
            let first = FIRST.into_iter().filter(is_there);
            let first: Vec<Block> =
                first.map(|name| Block::Line(out.join(name).display().to_string())).collect();
            lay_out(&[&[Block::Text(format!("{}\n\n", written.sentence))][..], &first].concat(), width())
        }
    })
}

/// polars, which reads the rows, takes its threads from the environment and may panic where that is no number of them.
pub(super) fn check_environment() -> anyhow::Result<()> {
    check_threads(std::env::var("POLARS_MAX_THREADS").ok().as_deref())
}

fn check_threads(polars: Option<&str>) -> anyhow::Result<()> {
    let is_number = |text: &str| text.parse::<usize>().is_ok_and(|n| (1..=super::MOST_THREADS).contains(&n));
    anyhow::ensure!(
        polars.is_none_or(is_number),
        "POLARS_MAX_THREADS is `{}`, which is no number of threads\nhint: unset it, or set it to 1 or more",
        polars.unwrap_or_default()
    );
    Ok(())
}

/// What the catalogues hold, for claims to name.
pub(super) fn names() -> Names {
    let owned = |names: &mut dyn Iterator<Item = &'static str>| names.map(str::to_owned).collect();
    let read = crate::logs::formats::ALL.iter().map(|e| e.name);
    Names {
        strategies: owned(&mut crate::strategies::ALL.iter().map(|e| e.name)),
        triggers: owned(&mut crate::triggers::ALL.iter().map(|e| e.name)),
        formats: owned(&mut read.chain(crate::logs::formats::NOT_READ.iter().map(|(name, _)| *name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_polars_are_checked_before_it_is_asked() {
        assert!([None, Some("1"), Some("8")].into_iter().all(|n| check_threads(n).is_ok()));
        let wrong = ["0", "", "-1", "x", "99999999999999999999"];
        assert!(wrong.into_iter().all(|n| check_threads(Some(n)).is_err()));
    }
}
