//! `trajpress list`: what the catalogues hold.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::{ExitStatus, Output, columns, models, print};
use crate::params::Param;
use crate::settings::hint;
use crate::text::escape;

/// List the strategies, triggers, scopes, presets, scorers, formats or models that this version knows
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress list strategies
  trajpress list strategies mask
  trajpress list triggers --json
  trajpress list presets
  trajpress list models
  trajpress list api-models")]
pub struct Args {
    what: Catalogue,
    /// Only this one, with what each of its parameters means
    name: Option<String>,
    /// File of models and servers that adds to the built-in ones and overrides them
    #[arg(long, value_name = "FILE")]
    models: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Catalogue {
    /// How to compress
    Strategies,
    /// When to compress
    Triggers,
    /// What of the prompt a stage of a policy compresses
    Scopes,
    /// The policies of products
    Presets,
    /// What is measured
    Scorers,
    /// Logs that can be read
    Formats,
    /// Local models, and whether they are there
    Models,
    /// Models that logs name: windows and prices
    ApiModels,
}

#[derive(Serialize)]
struct Item {
    name: String,
    summary: String,
    /// Parameters with their defaults.
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<serde_json::Map<String, serde_json::Value>>,
    /// The same with what they mean, where one item was asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    parameters: Vec<Told>,
    #[serde(skip_serializing_if = "Option::is_none")]
    formula: Option<&'static str>,
    /// Whether there is a reader.
    #[serde(skip_serializing_if = "Option::is_none")]
    is_read: Option<bool>,
    #[serde(flatten)]
    model: Option<models::Facts>,
}

/// A parameter.
#[derive(Serialize)]
struct Told {
    name: &'static str,
    default: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed: Option<String>,
    about: &'static str,
}

/// Prints a catalogue.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let items = items(args)?;
    print(&match output.json {
        true => escape::json(&items)?,
        false => text(&items),
    })?;
    Ok(ExitStatus::Done)
}

fn items(args: &Args) -> anyhow::Result<Vec<Item>> {
    let mut all = catalogue(args)?;
    if let Some(name) = &args.name {
        let known: Vec<&str> = all.iter().map(|item| item.name.as_str()).collect();
        let hint = hint(name, &known);
        all.retain(|item| item.name == *name);
        anyhow::ensure!(!all.is_empty(), "unknown name `{}`\n{hint}", escape::short(name));
    } else {
        all.iter_mut().for_each(|item| item.parameters.clear());
    }
    Ok(all)
}

fn catalogue(args: &Args) -> anyhow::Result<Vec<Item>> {
    let plain = |name: &str, summary: &str| Item {
        name: name.to_owned(),
        summary: summary.to_owned(),
        params: None,
        parameters: Vec::new(),
        formula: None,
        is_read: None,
        model: None,
    };
    let told = |p: &Param| Told { name: p.name, default: p.default, allowed: p.allowed(), about: p.about() };
    let with_params = |name, summary, params: &[Param]| Item {
        params: Some(params.iter().map(|p| (p.name.to_owned(), p.default.into())).collect()),
        parameters: params.iter().map(told).collect(),
        ..plain(name, summary)
    };
    let format = |name, summary, is_read| Item { is_read: Some(is_read), ..plain(name, summary) };
    Ok(match args.what {
        Catalogue::Strategies => {
            crate::strategies::ALL.iter().map(|e| with_params(e.name, e.summary, e.params)).collect()
        }
        Catalogue::Triggers => {
            crate::triggers::ALL.iter().map(|e| with_params(e.name, e.summary, e.params)).collect()
        }
        Catalogue::Scopes => {
            crate::scopes::ALL.iter().map(|e| with_params(e.name, e.summary, e.params)).collect()
        }
        Catalogue::Presets => {
            let about = |p: &crate::policies::Preset| format!("{} {}, {}", p.product, p.version, p.date);
            crate::policies::all().iter().map(|p| plain(&p.name, &about(p))).collect()
        }
        Catalogue::Scorers => crate::scores::all()
            .map(|e| Item { formula: Some(e.formula), ..plain(e.name, e.summary) })
            .collect(),
        Catalogue::Formats => {
            let read = crate::logs::formats::ALL.iter().map(|e| format(e.name, e.summary, true));
            let known = crate::logs::formats::NOT_READ.iter().map(|&(name, s)| format(name, s, false));
            read.chain(known).collect()
        }
        Catalogue::ApiModels => {
            crate::models::api::all().map(|(name, model)| plain(name, &model.about())).collect()
        }
        Catalogue::Models => {
            let all = models::facts(args.models.as_deref())?.into_iter();
            all.map(|(name, about, facts)| Item { model: Some(facts), ..plain(&name, &about) }).collect()
        }
    })
}

/// A line an item, with its parameters indented below.
fn text(items: &[Item]) -> String {
    const WIDTH: usize = 100;
    let mut text = String::new();
    let lines = columns(&items.iter().map(line).collect::<Vec<_>>());
    for (line, item) in lines.lines().zip(items) {
        text.push_str(line);
        text.push('\n');
        if !item.parameters.is_empty() {
            let lines = columns(&item.parameters.iter().map(Told::cells).collect::<Vec<_>>());
            text.extend(lines.lines().map(|line| format!("    {line}\n")));
            continue;
        }
        let params = item.params.iter().flatten().map(|(key, default)| match default.as_str() {
            Some(default) if !default.is_empty() => format!("{key}={default}"),
            _ => key.clone(),
        });
        let mut row = String::new();
        for param in params {
            if row.len() + param.len() > WIDTH {
                text.push_str(&format!("   {row}\n"));
                row.clear();
            }
            row.push(' ');
            row.push_str(&param);
        }
        if !row.is_empty() {
            text.push_str(&format!("   {row}\n"));
        }
    }
    text
}

impl Told {
    fn cells(&self) -> Vec<String> {
        let allowed = self.allowed.as_ref().map_or(String::new(), |allowed| format!(" ({allowed})"));
        vec![format!("{}={}", self.name, self.default), format!("{}{allowed}", self.about)]
    }
}

fn line(item: &Item) -> Vec<String> {
    let mut cells = vec![item.name.clone()];
    cells.extend(item.model.iter().flat_map(models::Facts::cells));
    cells.push(match item.is_read {
        Some(false) => format!("{} (recognised, not read yet)", item.summary),
        _ => item.summary.clone(),
    });
    cells.extend(item.formula.map(str::to_owned));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_stand_below_in_lines_that_fit_a_terminal() {
        let all = text(&items(&Args { what: Catalogue::Strategies, name: None, models: None }).unwrap());
        assert!(
            all.contains("\n    keep_last=10 polling=1\n") && all.lines().all(|line| line.len() <= 140),
            "{all}"
        );
    }

    #[test]
    fn one_item_says_what_its_parameters_mean() {
        let of = |name: &str| {
            let name = Some(name.to_owned());
            items(&Args { what: Catalogue::Strategies, name, models: None })
        };
        insta::assert_snapshot!(text(&of("tool-log").unwrap()), @r#"
        tool-log  Keep a log of the tool calls, with inputs, results and success.
            form="timeline"   How an entry looks: a line, or a note with fields. (`timeline` or `structured`)
            input_chars=120   Characters of a call's input that are kept.
            result_tokens=40  Tokens of a call's result that are kept, at most.
        "#);
        let error = of("msak").err().unwrap().to_string();
        assert!(error.starts_with("unknown name `msak`\nhint: did you mean `mask`? (known: "), "{error}");
    }

    #[test]
    fn scorers_are_listed_with_their_formulas() {
        let items = items(&Args { what: Catalogue::Scorers, name: None, models: None }).unwrap();
        let known: usize = crate::scores::ALL.iter().map(|family| family.len()).sum();
        assert_eq!((items.len(), items.is_empty()), (known, false));
        assert!(items.iter().all(|i| line(i).len() == 3));
        let first = serde_json::to_value(&items[0]).unwrap();
        let keys: Vec<&String> = first.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "summary", "formula"]);
    }
}
