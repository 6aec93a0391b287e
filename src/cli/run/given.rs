//! What a run is made of, as arguments: for whoever does it, at once or in pieces.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde_json::Value;

use crate::cli::using::Using;
use crate::cli::{Output, catalogue, count, tell};
use crate::experiment::run::{check_out, select};
use crate::experiment::{Dataset, Options, Plan};
use crate::files::reach;

/// Arguments that are the same for all that work at one run.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Given {
    /// Experiment file
    experiment: PathBuf,
    /// Folder of ingested and annotated data [default: `path` in section `data` of the experiment]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Take the first N trajectories only
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) using: Using,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("expected a whole number of at least 1".to_owned()),
        Ok(n) => Ok(n),
    }
}

impl Given {
    /// Reads the experiment and opens the data for a run in `out`; models are not opened.
    pub(crate) fn open(
        &self,
        out: Option<&Path>,
        options: &Options,
        threads: usize,
        output: Output,
    ) -> anyhow::Result<(Plan, Dataset)> {
        let mut plan = Plan::read(&self.experiment, &catalogue())?;
        for note in &plan.notes {
            tracing::warn!("{note}");
        }
        let folder = self.folder(&plan)?.to_owned();
        if let Some(out) = out {
            check_out(out, options)?;
        }
        let data = self.data(&folder, &plan, threads, output)?;
        let selection = select(&plan, &data, options)?;
        if selection.iter().any(|&index| data.entries()[index].is_edited) && plan.add_as_sent(&catalogue()) {
            tracing::warn!(
                "{}: as-sent added: these logs record what was sent in the place of what they hold",
                self.experiment.display()
            );
        }
        Ok((plan, data))
    }

    /// Where the data are.
    pub(crate) fn folder<'a>(&'a self, plan: &'a Plan) -> anyhow::Result<&'a Path> {
        self.data
            .as_deref()
            .or(plan.data.as_deref())
            .context("no data given\nhint: add `--data DIR`, or `path` in section `data` of the experiment")
    }

    /// Opens the data, and computes their features if they are missing. Features by another tokenizer are not
    /// touched: another run may need them.
    fn data(&self, folder: &Path, plan: &Plan, threads: usize, output: Output) -> anyhow::Result<Dataset> {
        if !reach::is_there(&folder.join("steps.parquet"))? {
            // Says what is missing.
            return Dataset::open(folder);
        }
        let note = reach::read(&folder.join("annotate.json"))?;
        let note: Option<Value> = note.and_then(|n| serde_json::from_slice(&n).ok());
        if let Some(tokenizer) = note.as_ref().and_then(|n| n["tokenizer"].as_str()) {
            anyhow::ensure!(
                tokenizer == plan.tokenizer,
                "the features in {} are counted by tokenizer `{tokenizer}`, the experiment names `{}`\nhint: run `trajpress annotate {} --tokenizer {}`, or change `tokenizer` in {}",
                folder.display(),
                plan.tokenizer,
                folder.display(),
                plan.tokenizer,
                self.experiment.display()
            );
        }
        let (data, annotated) = Dataset::open_annotated(folder, &plan.tokenizer, threads)?;
        if let (Some(annotated), false) = (annotated, output.quiet) {
            let trajectories = count(annotated.n_trajectories, "trajectory");
            tell(&format!("annotated {trajectories}, {}", count(annotated.n_steps, "step")));
        }
        data.linked(&plan.filter, plan.seed)
    }
}
