//! `trajpress models bench`: how fast models are here.

use serde::Serialize;

use super::Which;
use crate::cli::{ExitStatus, Output, columns, print, tell, threads};
use crate::models::Model as _;
use crate::models::bench::{Speed, embedding_speed, text_speed};
use crate::models::catalogue::{Catalogue, Named, Remote, Role, is_path};
use crate::models::folder::Folder;
use crate::models::llama::{Kind, Llama, Options};
use crate::models::server::Server;
use crate::text::escape;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    which: Which,
    /// Contexts, each with a thread of its own; 0 is one a core (a server has its own)
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1024))]
    threads: u32,
    /// Sequences side by side in each context, or calls side by side on a server; 0 is as many as fit its memory,
    /// or as the file of models says
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=128))]
    sequences: u32,
    /// Tokens of each prompt
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    prompt: u32,
    /// Tokens written after each prompt
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    answer: u32,
    /// Measure as with `batched = true` in a file of models
    #[arg(long)]
    batched: bool,
}

/// A line of `models bench`.
#[derive(Serialize)]
struct Measured {
    model: String,
    /// Back end, instruction set and weights.
    identity: String,
    /// None of a server's: it has its own.
    contexts: Option<u32>,
    /// Sequences that write in one batch, at most. None of a server's and an embedder's.
    rows: Option<u32>,
    #[serde(flatten)]
    speed: Speed,
}

pub(super) fn run(
    args: &Args,
    catalogue: &Catalogue,
    folder: &Folder,
    output: Output,
) -> anyhow::Result<ExitStatus> {
    let mut lines = Vec::new();
    let (paths, names): (Vec<String>, Vec<String>) =
        args.which.names(catalogue).into_iter().partition(|name| is_path(name));
    let names = catalogue.pick(&names)?.into_iter().map(|model| model.name().to_owned());
    for name in paths.into_iter().chain(names) {
        if !output.quiet {
            tell(&format!("{name}: measuring ..."));
        }
        let server = match is_path(&name) {
            true => None,
            false => match catalogue.model(&name)? {
                Named::Server(remote) => Some(remote),
                Named::File(_) => None,
            },
        };
        lines.push(match server {
            Some(remote) => measured_there(args, remote)?,
            None => measured_here(args, &name, catalogue, folder)?,
        });
    }
    print(&match output.json {
        true => escape::json(&lines)?,
        false => table(&lines),
    })?;
    Ok(ExitStatus::Done)
}

/// A model in a worker.
fn measured_here(
    args: &Args,
    name: &str,
    catalogue: &Catalogue,
    folder: &Folder,
) -> anyhow::Result<Measured> {
    let found = folder.resolve(catalogue, name)?;
    let mut options = Options::of(&found);
    options.contexts = threads(args.threads as usize) as u32;
    options.sequences = (args.sequences > 0).then_some(args.sequences);
    options.batched |= args.batched;
    let (contexts, kind) = (options.contexts, options.kind);
    let model = Llama::new(options, &std::env::current_exe()?);
    let loaded = model.load()?;
    let sequences = contexts * loaded.sequences;
    let speed = match kind {
        Kind::Text => text_speed(&model, sequences, args.prompt, args.answer)?,
        Kind::Embedder => embedding_speed(&model, 100)?,
    };
    let identity = model.card().identity.clone();
    let rows = (kind == Kind::Text).then_some(loaded.rows);
    Ok(Measured { model: name.to_owned(), identity, contexts: Some(contexts), rows, speed })
}

/// A model on a server.
fn measured_there(args: &Args, remote: &Remote) -> anyhow::Result<Measured> {
    let mut options = remote.options.clone();
    if args.sequences > 0 {
        options.concurrency = args.sequences as usize;
    }
    let sequences = u32::try_from(options.concurrency)?;
    let told = |error| anyhow::anyhow!("model {}: {error}", remote.name);
    let server = Server::new(options).map_err(told)?;
    let reads = |role: &Role| matches!(role, Role::Generator | Role::Scorer);
    let speed = match remote.roles.iter().any(reads) {
        true => text_speed(&server, sequences, args.prompt, args.answer),
        false => embedding_speed(&server, 100),
    };
    let identity = server.card().identity.clone();
    Ok(Measured {
        model: remote.name.clone(),
        identity,
        contexts: None,
        rows: None,
        speed: speed.map_err(told)?,
    })
}

fn table(lines: &[Measured]) -> String {
    let rate = |value: Option<f64>| value.map_or("-".to_owned(), |v| format!("{v:.0}"));
    let head = ["model", "contexts", "sequences", "rows", "read/s", "write/s x1", "write/s all", "texts/s"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(lines.iter().map(|line| {
        let speed = &line.speed;
        vec![
            line.model.clone(),
            line.contexts.map_or("-".to_owned(), |n| n.to_string()),
            speed.sequences.to_string(),
            line.rows.map_or("-".to_owned(), |n| n.to_string()),
            rate(speed.prefill),
            rate(speed.generate_one),
            rate(speed.generate_all),
            rate(speed.texts),
        ]
    }));
    columns(&rows)
}
