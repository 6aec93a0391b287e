//! `trajpress show`: a preset as an experiment that can be run, and edited.

use super::{ExitStatus, Output, print};
use crate::policies;
use crate::text::escape;

/// Print a preset as an experiment to run or to edit
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress show preset claude-code
  trajpress show preset claude-code > mine.toml
  trajpress run mine.toml --data DATA --out RUN")]
pub struct Args {
    what: What,
    /// Its name: `trajpress list presets`
    name: String,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum What {
    /// The policy of a product
    Preset,
}

/// Prints it.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let What::Preset = args.what;
    let preset = policies::find(&args.name)?;
    print(&match output.json {
        true => escape::json(preset)?,
        false => experiment(preset),
    })?;
    Ok(ExitStatus::Done)
}

/// The preset's file as an experiment: what it is stands in comments, its policy under `policies`.
fn experiment(preset: &policies::Preset) -> String {
    let about =
        format!("# {} {}, read {} in {}.\n", preset.product, preset.version, preset.date, preset.source);
    let deviations = preset.deviations.iter().map(|text| format!("# Other than the product: {text}\n"));
    let head = format!("name = \"{0}\"\n\n[[policies]]\nname = \"{0}\"\n\n", preset.name);
    let text = policies::text(&preset.name).unwrap_or_default();
    let policy = text.find("\n[policy]").map_or("", |at| &text[at + 1..]);
    let under = |line: &str| match line.split_once("[policy") {
        Some((brackets, rest)) if brackets.chars().all(|c| c == '[') => {
            format!("{brackets}[policies.policy{rest}\n")
        }
        _ => format!("{line}\n"),
    };
    let policy: String = policy.lines().map(under).collect();
    std::iter::once(about).chain(deviations).chain([head, policy]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Catalogue, Plan};

    /// What is printed names the same policy as the preset does.
    #[test]
    fn each_preset_is_an_experiment() {
        for preset in policies::all() {
            let text = experiment(preset);
            let plan = Plan::parse("shown.toml", &text, &Catalogue::built_in())
                .unwrap_or_else(|error| panic!("{}: {error:#}\n{text}", preset.name));
            let named = format!("name = \"x\"\n[[policies]]\npreset = \"{}\"\n", preset.name);
            let named = Plan::parse("named.toml", &named, &Catalogue::built_in()).unwrap();
            assert_eq!(plan.variants, named.variants, "{}", preset.name);
        }
    }
}
