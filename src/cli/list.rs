//! `trajpress list`: what the catalogues hold.

use clap::ValueEnum;
use serde::Serialize;

use super::{ExitStatus, Output, columns, print};

/// List the strategies, triggers or formats that this version knows
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress list strategies
  trajpress list triggers --json")]
pub struct Args {
    what: Catalogue,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Catalogue {
    /// How to compress
    Strategies,
    /// When to compress
    Triggers,
    /// Logs that can be read
    Formats,
}

#[derive(Serialize)]
struct Item {
    name: &'static str,
    summary: &'static str,
    /// Parameters with their defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<serde_json::Map<String, serde_json::Value>>,
    /// Whether there is a reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_read: Option<bool>,
}

/// Prints a catalogue.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let with_params = |name, summary, params: &[(&str, &str)]| Item {
        name,
        summary,
        params: Some(params.iter().map(|(k, v)| ((*k).to_owned(), (*v).into())).collect()),
        is_read: None,
    };
    let format = |name, summary, is_read| Item { name, summary, params: None, is_read: Some(is_read) };
    let items: Vec<Item> = match args.what {
        Catalogue::Strategies => {
            crate::strategies::ALL.iter().map(|e| with_params(e.name, e.summary, e.params)).collect()
        }
        Catalogue::Triggers => {
            crate::triggers::ALL.iter().map(|e| with_params(e.name, e.summary, e.params)).collect()
        }
        Catalogue::Formats => {
            let read = crate::formats::ALL.iter().map(|e| format(e.name, e.summary, true));
            let known = crate::formats::NOT_READ.iter().map(|&(name, s)| format(name, s, false));
            read.chain(known).collect()
        }
    };
    match output.json {
        true => print(&(serde_json::to_string_pretty(&items)? + "\n"))?,
        false => print(&columns(&items.iter().map(line).collect::<Vec<_>>()))?,
    }
    Ok(ExitStatus::Done)
}

fn line(item: &Item) -> Vec<String> {
    let mut cells = vec![item.name.to_owned()];
    if let Some(params) = &item.params {
        let params = params.iter().map(|(k, v)| match v.as_str() {
            Some(default) if !default.is_empty() => format!("{k}={default}"),
            _ => k.clone(),
        });
        cells.push(params.collect::<Vec<_>>().join(" "));
    }
    cells.push(match item.is_read {
        Some(false) => format!("{} (recognised, not read yet)", item.summary),
        _ => item.summary.to_owned(),
    });
    cells
}
