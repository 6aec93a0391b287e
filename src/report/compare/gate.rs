//! What a night must not lose: rules as they are written, and what can be said of a difference.
//!
//! Of a loss (base - new for what is better when higher), with its one-sided 95 % bounds:
//! - *worse*: its lower bound is above 0. Of several rules and variants p is adjusted by Holm, at a level of 5 %
//!   for the whole gate.
//! - *not worse*: its upper bound is below the margin; also where all rows are the same, since then nothing was drawn anew.
//! - *cannot tell*: else.
//!
//! A variant that a rule means and that is gone has none of these: it fails the gate as *gone*, unless the gate lets it go.

use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use crate::report::lines::Line;
use crate::report::statistics::effects::holm;
use crate::report::statistics::inference::Resampled;
use crate::scores;
use crate::scores::registry::{Better, Entry, Pooled};
use crate::settings::Source;

const DEFAULT: &str = include_str!("../../data/gate.toml");
/// Of the whole gate.
const LEVEL: f64 = 0.05;

/// The rules of a gate.
#[derive(Debug)]
pub struct Gate {
    pub(super) rules: Vec<Rule>,
    /// Variants that may be gone.
    pub(super) may_go: Vec<String>,
}

/// One score that must not get worse.
#[derive(Debug)]
pub(super) struct Rule {
    pub(super) score: &'static Entry,
    /// The loss that is still none, above 0.
    pub(super) margin: f64,
    pub(super) variants: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Those that come with the program, where the file has none.
    rules: Option<Vec<Spanned<Written>>>,
    #[serde(default)]
    may_go: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    score: Spanned<String>,
    margin: Spanned<f64>,
    #[serde(default)]
    variants: Vec<String>,
}

impl Gate {
    /// The rules in a file; without one those that come with the program.
    pub fn load(path: Option<&Path>) -> anyhow::Result<Gate> {
        let Some(path) = path else { return Gate::read("gate.toml", DEFAULT) };
        let shown = path.display().to_string();
        let text = crate::files::reach::text(path).with_context(|| format!("cannot read {shown}"))?;
        Gate::read(&shown, &text)
    }

    fn read(path: &str, text: &str) -> anyhow::Result<Gate> {
        let source = Source { path, text };
        anyhow::ensure!(!text.trim().is_empty(), "{path} is empty\nhint: write rules as\n{DEFAULT}");
        let file: File = source.read()?;
        let Some(rules) = file.rules else {
            return Ok(Gate { may_go: file.may_go, ..Gate::load(None)? });
        };
        anyhow::ensure!(!rules.is_empty(), "{path} has no rules\nhint: write one as\n{DEFAULT}");
        // Medians and lifts are no ratio of sums over sessions, which is what is compared.
        let is_sum = |score: &&Entry| matches!(score.pooled, Pooled::RatioOfSums | Pooled::Mean);
        let can_be_worse = |score: &&Entry| score.better != Better::Neither;
        let known: Vec<&str> = scores::all().filter(is_sum).filter(can_be_worse).map(|s| s.name).collect();
        let rule = |written: Spanned<Written>| {
            let written = written.into_inner();
            let (at, name) = (written.score.span(), written.score.into_inner());
            source.right_name("score", &name, &known, &at)?;
            let margin = *written.margin.get_ref();
            if !(margin.is_finite() && margin > 0.0) {
                return Err(source.error(&written.margin.span(), "`margin` must be a number above 0"));
            }
            let score = scores::find(&name).context("a name of the list is in the list")?;
            Ok(Rule { score, margin, variants: written.variants })
        };
        Ok(Gate { rules: rules.into_iter().map(rule).collect::<anyhow::Result<_>>()?, may_go: file.may_go })
    }

    /// Its names that fit none of these variants, by label and strategy.
    pub(super) fn unmet<'g>(&'g self, all: &[&Line]) -> Vec<&'g str> {
        let fits = |name: &&String| all.iter().any(|line| is_named(name, &line.label, &line.strategy));
        let names = self.rules.iter().flat_map(|rule| &rule.variants).chain(&self.may_go);
        names.filter(|name| !fits(name)).map(String::as_str).collect()
    }

    /// Whether a variant must not be gone.
    pub(super) fn holds(&self, label: &str, strategy: &str, is_choice: bool) -> bool {
        let is_meant = self.rules.iter().any(|rule| rule.is_of(label, strategy, is_choice));
        is_meant && !self.may_go.iter().any(|name| is_named(name, label, strategy))
    }
}

/// Whether this name, or beginning of one with a `*` behind it, is that of a variant or of its strategy.
fn is_named(name: &str, label: &str, strategy: &str) -> bool {
    match name.strip_suffix('*') {
        Some(start) => label.starts_with(start) || strategy.starts_with(start),
        None => name == label || name == strategy,
    }
}

impl Rule {
    /// Whether a variant is meant, by label or strategy; `is_choice` says whether somebody would run it.
    pub(super) fn is_of(&self, label: &str, strategy: &str, is_choice: bool) -> bool {
        if self.variants.is_empty() {
            return is_choice;
        }
        self.variants.iter().any(|name| is_named(name, label, strategy))
    }

    #[cfg(test)]
    pub(super) fn all(score: &str, margin: f64) -> Self {
        let variants = vec!["*".to_owned()];
        Rule { score: scores::find(score).expect("a score of the catalogue"), margin, variants }
    }

    /// 1 where higher is better, else -1.
    pub(super) fn sign(&self) -> f64 {
        if self.score.better == Better::Lower { -1.0 } else { 1.0 }
    }
}

/// What a gate says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    NotWorse,
    CannotTell,
    /// Of no row: a variant that the gate holds is there no more.
    Gone,
    Worse,
}

impl Answer {
    pub fn words(self) -> &'static str {
        match self {
            Answer::NotWorse => "not worse",
            Answer::CannotTell => "cannot tell",
            Answer::Gone => "GONE",
            Answer::Worse => "WORSE",
        }
    }
}

/// A loss under a margin.
pub(super) struct Asked<'a> {
    /// New - base, turned so that a loss is below 0.
    pub(super) gain: &'a Resampled,
    pub(super) margin: f64,
    /// Whether both runs have the same values everywhere.
    pub(super) is_same: bool,
}

impl Asked<'_> {
    /// One-sided, of "nothing was lost"; none where there is no interval.
    fn p(&self) -> Option<f64> {
        let p = self.gain.p_value().filter(|_| !self.is_same)?;
        let is_loss = self.gain.value? < 0.0;
        Some(if is_loss { p / 2.0 } else { 1.0 - p / 2.0 })
    }
}

/// The answer to each, and its p as Holm adjusts it.
pub(super) fn answers(asked: &[Asked]) -> Vec<(Answer, Option<f64>)> {
    let p: Vec<Option<f64>> = asked.iter().map(Asked::p).collect();
    let mut adjusted = holm(&p.iter().flatten().copied().collect::<Vec<_>>()).into_iter();
    let adjusted: Vec<Option<f64>> = p.iter().map(|p| p.and_then(|_| adjusted.next())).collect();
    let answer = |(of, p): (&Asked, &Option<f64>)| {
        if of.is_same {
            return Answer::NotWorse;
        }
        let Some((loss, reach)) = of.gain.value.map(|v| -v).zip(of.gain.reach()) else {
            return Answer::CannotTell;
        };
        // Where all clusters agree there is no p, and nothing to adjust.
        match p {
            Some(p) if *p < LEVEL => Answer::Worse,
            None if loss > reach => Answer::Worse,
            _ if loss + reach < of.margin => Answer::NotWorse,
            _ => Answer::CannotTell,
        }
    };
    let answers = asked.iter().zip(&adjusted).map(answer).collect::<Vec<_>>();
    answers.into_iter().zip(adjusted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::statistics::estimate::ratio;
    use crate::scores::registry::Scale;

    /// Ten clusters of 20 needs each, which gain so much.
    fn gain(of: impl Fn(usize) -> f64) -> Resampled {
        let sums: Vec<[f64; 2]> = (0..10).map(|c| [20.0 * of(c), 20.0]).collect();
        let gain =
            Resampled::of(Scale::Score, &sums, vec![0.into(); 10].into(), |s| ratio(s[0], s[1]), |s| s[1]);
        Resampled { n_items: 200, ..gain }
    }

    fn answer(of: impl Fn(usize) -> f64) -> Answer {
        answers(&[Asked { gain: &gain(of), margin: 0.05, is_same: false }])[0].0
    }

    /// Of 10 values around m that lie d above and below in turn: se = d / 3 (d^2 / 9), t with 9 degrees is 1.833.
    #[test]
    fn three_answers() {
        let around = |m: f64, d: f64| move |c: usize| if c % 2 == 0 { m + d } else { m - d };
        // Loss 0.10, lower bound 0.10 - 1.833 * 0.1 / 3 = 0.039.
        assert_eq!(answer(around(-0.10, 0.1)), Answer::Worse);
        // Loss 0.01, upper bound 0.01 + 1.833 * 0.03 / 3 = 0.028.
        assert_eq!(answer(around(-0.01, 0.03)), Answer::NotWorse);
        // Loss 0.03, bounds -0.031 and 0.091.
        assert_eq!(answer(around(-0.03, 0.1)), Answer::CannotTell);
        assert_eq!(answer(around(0.20, 0.1)), Answer::NotWorse);
    }

    /// p of a loss of 0.03 with se 0.0133 is 0.026: enough alone, not as one of two.
    #[test]
    fn several_rules_share_the_level() {
        let gain = gain(|c| if c % 2 == 0 { -0.03 + 0.04 } else { -0.03 - 0.04 });
        let asked = || Asked { gain: &gain, margin: 0.05, is_same: false };
        assert_eq!(answers(&[asked()])[0].0, Answer::Worse);
        let both = answers(&[asked(), asked()]);
        assert_eq!([both[0].0, both[1].0], [Answer::CannotTell; 2]);
        let same = Asked { is_same: true, ..asked() };
        assert_eq!(answers(&[asked(), same])[0].0, Answer::Worse, "what is the same adds no test");
    }

    #[test]
    fn few_clusters_tell_nothing_unless_nothing_changed() {
        let few = Resampled { n_items: 3, ..gain(|_| -0.5) };
        let asked = |is_same| [Asked { gain: &few, margin: 0.05, is_same }];
        assert_eq!(answers(&asked(false))[0].0, Answer::CannotTell);
        assert_eq!(answers(&asked(true))[0].0, Answer::NotWorse);
        assert_eq!(answer(|_| -0.5), Answer::Worse, "all clusters agree");
    }

    #[test]
    fn rules_are_read_with_their_faults() {
        assert_eq!(Gate::load(None).unwrap().rules.len(), 3);
        let fault = |text: &str| format!("{:#}", Gate::read("g.toml", text).unwrap_err());
        let rule = |score: &str, margin: &str| format!("[[rules]]\nscore = \"{score}\"\nmargin = {margin}\n");
        let unknown = fault(&rule("need_retension", "0.05"));
        let told = "g.toml:2: unknown score `need_retension`\nhint: did you mean `need_retention`? (known: ";
        assert!(unknown.starts_with(told), "{unknown}");
        assert!(fault(&rule("discard_lift", "0.05")).starts_with("g.toml:2: unknown score `discard_lift`"));
        insta::assert_snapshot!(fault(&rule("need_retention", "-1")));
        insta::assert_snapshot!(fault("rules = []"));
        assert!(fault(" \n").starts_with("g.toml is empty\nhint: write rules as\n"), "{}", fault(" \n"));
        insta::assert_snapshot!(fault("[[rules]]\nscore = \"need_retention\"\nmargins = 1\n"));
    }

    /// The page says what holds without a file.
    #[test]
    fn the_default_is_what_the_docs_say() {
        let docs = include_str!("../../../docs/nightly.md");
        let (_, behind) = docs.split_once("Without a file the gate is this").unwrap();
        let told = behind.split_once("```toml\n").unwrap().1.split_once("```").unwrap().0;
        let rules = |text: &str| -> Vec<_> {
            let gate = Gate::read("g.toml", text).unwrap();
            assert!(gate.may_go.is_empty());
            gate.rules.into_iter().map(|rule| (rule.score.name, rule.margin, rule.variants)).collect()
        };
        assert_eq!(rules(told), rules(DEFAULT));
    }

    /// What a rule means may not vanish, unless the gate lets it go; a gate may say that alone.
    #[test]
    fn a_gate_holds_what_its_rules_mean() {
        let holds = |text: &str, label: &str| {
            Gate::read("g.toml", text).unwrap().holds(label, label.split('(').next().unwrap(), true)
        };
        let let_go = "may_go = [\"mask(keep_last=3)*\"]";
        assert!(!holds(let_go, "mask(keep_last=3) @ turns") && holds(let_go, "mask(keep_last=5) @ turns"));
        let of_one = "[[rules]]\nscore = \"need_retention\"\nmargin = 0.1\nvariants = [\"mask\"]";
        assert!(holds(of_one, "mask(keep_last=3) @ turns") && !holds(of_one, "truncate @ turns"));
    }

    #[test]
    fn variants_are_named_by_label_strategy_or_beginning() {
        let of = |names: &[&str]| Rule {
            score: scores::find("need_retention").unwrap(),
            margin: 0.05,
            variants: names.iter().map(|n| (*n).to_owned()).collect(),
        };
        let is_of = |names: &[&str]| of(names).is_of("mask(keep_last=3) @ turns", "mask", true);
        assert!(
            is_of(&[]) && is_of(&["mask"]) && is_of(&["mask(k*"]) && is_of(&["mask(keep_last=3) @ turns"])
        );
        assert!(!is_of(&["mask(keep_last=3)"]) && !is_of(&["masks*"]));
        assert!(
            !of(&[]).is_of("random", "random", false) && of(&["random"]).is_of("random", "random", false)
        );
    }
}
