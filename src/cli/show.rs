//! `trajpress show`: a preset as an experiment that can be run, and edited.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{ExitStatus, Output, print};
use crate::policies::{self, held::Held};
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
        true => escape::json(&Shown::of(preset))?,
        false => experiment(preset),
    })?;
    Ok(ExitStatus::Done)
}

/// A preset with what its tests found.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    preset: &'a policies::Preset,
    /// By recording of the real library.
    held: BTreeMap<&'a str, &'static Held>,
    is_held: bool,
    windows: Vec<String>,
}

impl<'a> Shown<'a> {
    fn of(preset: &'a policies::Preset) -> Self {
        let windows = preset.policy.about_windows();
        Shown { preset, held: preset.recorded().collect(), is_held: preset.is_held(), windows }
    }
}

/// What was found of its recordings, a line each.
fn held(preset: &policies::Preset) -> Vec<String> {
    let told = |(name, held): (&str, &Held)| {
        let Held { lists, fired, twice, equal, texts, same_texts, why } = held;
        let why = if why.is_empty() { String::new() } else { format!(" {why}") };
        let texts = match texts {
            0 => String::new(),
            _ => format!("; of {texts} notes and rewritten results {same_texts} are the same, word for word"),
        };
        let is_held = if held.is_goal() { "Held to" } else { "Not held to" };
        format!(
            "# {is_held} recording {name}: {equal} of {lists} lists equal; the library fired in {fired}, in {twice} twice{texts}.{why}\n"
        )
    };
    let lines: Vec<String> = preset.recorded().map(told).collect();
    match lines.is_empty() {
        true => vec!["# Held to no recording of the product: it was read alone.\n".to_owned()],
        false => lines,
    }
}

/// The preset's file as an experiment: what it is stands in comments, its policy under `policies`.
fn experiment(preset: &policies::Preset) -> String {
    let about =
        format!("# {} {}, read {} in {}.\n", preset.product, preset.version, preset.date, preset.source);
    let deviations = preset.deviations.iter().map(|text| format!("# Other than the product: {text}\n"));
    let windows = preset.policy.about_windows().into_iter().map(|line| format!("# {line}\n"));
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
    std::iter::once(about)
        .chain(held(preset))
        .chain(windows)
        .chain(deviations)
        .chain([head, policy])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Catalogue, Plan};

    #[test]
    fn it_tells_what_its_tests_found_and_its_window() {
        let shown = |name: &str| experiment(policies::find(name).unwrap());
        let letta = shown("letta");
        assert!(
            letta.contains(
                "# Held to recording letta: 250 of 250 lists equal; the library fired in 229, in 207 twice.\n"
            ),
            "{letta}"
        );
        let mastra = shown("mastra-token-limiter");
        assert!(
            mastra.contains("# Not held to recording mastra-token-limiter: 32 of 250 lists equal")
                && mastra.contains("makes its view anew"),
            "{mastra}"
        );
        let claude = shown("claude-code");
        assert!(claude.contains("# Held to no recording"), "{claude}");
        let window = "# Of its window of 200000 tokens it keeps 33000 free; of one that is a share of a log's longest prompt, or of \
            less than 66000 tokens, the same share: 16.5 %.\n";
        assert!(claude.contains(window), "{claude}");
        assert!(shown("aider").contains(
            "# These follow from the window (by_window): scope.above, scope.tokens, strategy.input_tokens.\n"
        ));
    }

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
