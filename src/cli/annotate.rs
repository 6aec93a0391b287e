//! `annotate`: computes the features of a dataset.

use std::path::PathBuf;

use super::{ExitStatus, Output, count, print};
use crate::annotate::{self, Counted};
use crate::text::{escape, tokens};

/// Compute tokens, atoms, actions and partner trajectories of a dataset
///
/// Writes features.parquet, partners.parquet, usage.parquet (the provider's counts, where logged) and annotate.json
/// beside the tables that `ingest` wrote. Does nothing when they are there already for the same tables and tokenizer.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  trajpress annotate data
  trajpress annotate data --tokenizer path/to/tokenizer.json")]
pub struct Args {
    /// Folder that `ingest` wrote
    pub data: PathBuf,

    /// Tokenizer: o200k, cl100k, or the path of a tokenizer.json
    #[arg(long, value_name = "NAME", default_value = tokens::DEFAULT)]
    pub tokenizer: String,

    /// Draw all partners anew; else those that a trajectory has stay, and free places are filled
    #[arg(long)]
    pub renew: bool,

    /// Use N threads; 0 is all cores
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub threads: usize,
}

/// Runs the subcommand; says on stderr what was done.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    if args.renew {
        annotate::forget_partners(&args.data)?;
    }
    let (annotated, fresh) = annotate::annotate(&args.data, &args.tokenizer, super::threads(args.threads))?;
    if output.json {
        print(&(escape::json(&annotated)?))?;
    }
    if !output.quiet {
        let done = if fresh { "annotated" } else { "already annotated:" };
        let n_atoms: u64 = annotated.n_atoms.values().sum();
        super::tell(&format!(
            "{done} {}, {}, {} ({}), {}, {}",
            count(annotated.n_trajectories, "trajectory"),
            count(annotated.n_steps, "step"),
            count(annotated.n_tokens, "token"),
            annotated.tokenizer,
            count(n_atoms, "atom"),
            count(annotated.n_partners, "partner")
        ));
        if annotated.n_kept > 0 {
            super::tell(&format!("{} annotated before", count(annotated.n_kept, "trajectory")));
        }
        if annotated.n_grown > 0 {
            super::tell(&format!(
                "{} more partners than before",
                match annotated.n_grown {
                    1 => "1 trajectory has".to_owned(),
                    n => format!("{} have", count(n, "trajectory")),
                }
            ));
        }
        if let Some(line) = usage_line(&annotated.usage) {
            super::tell(&line);
        }
        if annotated.n_tokenizer_failures > 0 {
            super::tell(&format!(
                "warning: {} could not be encoded, counted one token a character",
                count(annotated.n_tokenizer_failures, "text")
            ));
        }
    }
    Ok(ExitStatus::Done)
}

/// What the provider counted beside what the logs show; nothing where no usage is logged.
fn usage_line(usage: &Counted) -> Option<String> {
    let (unseen, factor, [least, most]) = (usage.unseen?, usage.factor?, usage.factors?);
    Some(format!(
        "usage = a + b x tokens in {} ({}): a {} unseen, b {factor:.2} ({least:.2}-{most:.2}), medians; stretches {}, unlogged edits {}; |residual| / usage {:.3}, 90th percentile {:.3}",
        count(usage.n_sessions, "session"),
        count(usage.n_calls, "call"),
        count(unseen as u64, "token"),
        usage.n_stretches,
        usage.n_unlogged_edits,
        usage.residual_median?,
        usage.residual_p90?
    ))
}
