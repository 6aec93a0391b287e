//! `annotate`: computes the features of a dataset.

use std::path::PathBuf;

use super::{ExitStatus, Output, print};
use crate::features;

/// Compute tokens, atoms, actions and partner trajectories of a dataset
///
/// Writes features.parquet, partners.parquet and annotate.json beside the tables that `ingest`
/// wrote. Does nothing when they are there already for the same tables and tokenizer.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  trajpress annotate data
  trajpress annotate data --tokenizer path/to/tokenizer.json")]
pub struct Args {
    /// Folder that `ingest` wrote
    pub data: PathBuf,

    /// Tokenizer: o200k, cl100k, or the path of a tokenizer.json
    #[arg(long, value_name = "NAME", default_value = features::tokens::DEFAULT)]
    pub tokenizer: String,

    /// Number of threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
}

/// Runs the subcommand; says on stderr what was done.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let (annotated, fresh) = features::annotate(&args.data, &args.tokenizer, args.threads)?;
    if output.json {
        print(&(serde_json::to_string_pretty(&annotated)? + "\n"))?;
    }
    if !output.quiet {
        let done = if fresh { "annotated" } else { "already annotated:" };
        let n_atoms: u64 = annotated.n_atoms.values().sum();
        eprintln!(
            "{done} {} trajectories, {} steps, {} tokens ({}), {n_atoms} atoms, {} partners",
            annotated.n_trajectories,
            annotated.n_steps,
            annotated.n_tokens,
            annotated.tokenizer,
            annotated.n_partners
        );
        if annotated.n_tokenizer_failures > 0 {
            eprintln!(
                "warning: {} texts could not be encoded and count one token a character",
                annotated.n_tokenizer_failures
            );
        }
    }
    Ok(ExitStatus::Done)
}
