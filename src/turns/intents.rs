//! What an agent is about in a turn: one of six intents, or none, by odds that are learned from turns of real logs that were read.
//!
//! A turn is a bag of pieces: words and pairs of words of what the agent says and does, the kind of each deed with its file, and
//! what was done before. Each class has odds of its own, linear in the pieces. datasets/phases says how good they are on
//! repositories that they have not seen; `train --target intents` makes them. Source of the six: seed semantic-triggers, section 2.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::actions::ActionKind;
use super::names::ACTIONS;
use crate::text::lists::WordSet;
use crate::text::pieces::{self, Bytes, tokens};
use crate::trajectory::Step;

/// What the agent is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Intent {
    /// Understanding, reading, searching without a fix in mind.
    Explore,
    /// Investigating failures.
    Debug,
    /// Writing code, making changes.
    Implement,
    /// Testing, confirming.
    Verify,
    /// Comments, README, documentation.
    Document,
    /// Restructuring without a change of function.
    Refactor,
}

/// Names of the intents, by index.
pub const NAMES: [&str; 6] = ["explore", "debug", "implement", "verify", "document", "refactor"];

impl Intent {
    /// All intents, by index.
    pub const ALL: [Intent; 6] = [
        Intent::Explore,
        Intent::Debug,
        Intent::Implement,
        Intent::Verify,
        Intent::Document,
        Intent::Refactor,
    ];

    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// The inverse of [`Self::name`].
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|intent| intent.name() == name)
    }
}

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Source,
    Document,
    /// A test, or a script that reproduces or checks something.
    Test,
}

impl FileKind {
    fn name(self) -> &'static str {
        match self {
            FileKind::Source => "source",
            FileKind::Document => "document",
            FileKind::Test => "test",
        }
    }

    pub(crate) fn of(path: &str) -> Self {
        let lower = path.to_ascii_lowercase();
        let (folder, file) = lower.rsplit_once('/').unwrap_or(("", &lower));
        let (stem, extension) = file.rsplit_once('.').unwrap_or((file, ""));
        let within = |names: &WordSet| folder.split('/').any(|part| names.has(part));
        let files = &ACTIONS.files;
        let is_text = extension.is_empty() || files.text_extensions.has(extension);
        if files.test_stems.fit(stem) || within(&files.test_folders) {
            FileKind::Test
        } else if files.document_extensions.has(extension)
            || is_text && files.document_stems.fit(stem)
            || files.page_extensions.has(extension) && within(&files.document_folders)
        {
            FileKind::Document
        } else {
            FileKind::Source
        }
    }
}

/// How many classes a turn is rated for: the intents, and none of them.
pub const CLASSES: usize = NAMES.len() + 1;
/// Buckets of the pieces of a turn.
pub const BUCKETS: usize = 1 << 14;
/// Tokens that are read of either end of what the agent says, and of a deed; of a deed so many in pairs.
const SAID: usize = 300;
const DONE: usize = 60;
const PAIRED: usize = 30;
/// Bytes of a deed that are read.
const HEAD: usize = 600;
/// From so many turns on they are not counted.
const MANY: u32 = 6;

/// What of the past a turn's intent depends on.
#[derive(Clone, Debug, Default)]
pub(crate) struct Past {
    /// Whether the agent has edited a file that is neither a test nor a script to try things out.
    pub(crate) has_edited: bool,
    /// How the last test or program ended, if nothing was edited since.
    pub(crate) ended: Option<bool>,
    /// Turns since the last such edit, and all.
    since: u32,
    turns: u32,
    /// What was done in the last turn.
    last: Vec<u16>,
}

/// The pieces of a turn.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    buckets: Vec<u16>,
    /// What the next turn is told of this one.
    deeds: Vec<u16>,
}

/// What is known of a deed.
pub(crate) struct Deed<'a> {
    pub(crate) kind: ActionKind,
    pub(crate) tool: &'a str,
    pub(crate) text: &'a str,
    /// The file that it reads or edits.
    pub(crate) file: Option<FileKind>,
}

impl Pieces {
    fn add(&mut self, parts: &[&str]) {
        self.buckets.push(bucket(parts));
    }

    fn words(&mut self, name: &str, words: &[String], paired: usize) {
        words.iter().for_each(|word| self.add(&[name, " ", word]));
        words[..words.len().min(paired)]
            .windows(2)
            .for_each(|pair| self.add(&[name, "2 ", &pair[0], " ", &pair[1]]));
    }

    /// Adds what the agent says.
    pub(crate) fn said(&mut self, text: &str) {
        self.words("w", &tokens(text, SAID), SAID);
    }

    /// Adds what the agent does.
    pub(crate) fn did(&mut self, deed: &Deed<'_>, past: &Past) {
        let (kind, file) = (deed.kind.name(), deed.file.map_or("none", FileKind::name));
        let (edited, ended) = (flag(past.has_edited), end(past.ended));
        self.add(&["k ", kind]);
        self.add(&["k ", kind, " ", edited]);
        self.add(&["k ", kind, " ", file]);
        self.add(&["k ", kind, " ", file, " ", edited, " ", ended]);
        self.add(&["t ", deed.tool]);
        let head = &deed.text[..deed.text.floor_char_boundary(HEAD)];
        self.words("a", &tokens(head, DONE), PAIRED);
        self.deeds.push(bucket(&["p ", kind, " ", file]));
    }

    /// The pieces, ascending, each once, with what was before; the turn becomes the last one.
    pub(crate) fn end(mut self, past: &mut Past) -> Vec<u16> {
        self.add(&["edited ", flag(past.has_edited), " ", end(past.ended)]);
        self.add(&["since ", COUNTS[past.since.min(MANY) as usize]]);
        self.add(&["turn ", COUNTS[past.turns.min(MANY) as usize]]);
        if self.deeds.is_empty() {
            self.add(&["no deed"]);
            self.deeds.push(bucket(&["p none"]));
        }
        self.buckets.extend(std::mem::replace(&mut past.last, self.deeds));
        past.since += 1;
        past.turns += 1;
        self.buckets.sort_unstable();
        self.buckets.dedup();
        self.buckets
    }
}

impl Past {
    /// A file was changed.
    pub(crate) fn edited(&mut self, kind: FileKind, ended: Option<bool>) {
        self.ended = ended;
        if kind == FileKind::Source {
            (self.has_edited, self.since) = (true, 0);
        }
    }
}

const COUNTS: [&str; MANY as usize + 1] = ["0", "1", "2", "3", "4", "5", "6"];

fn flag(is: bool) -> &'static str {
    if is { "1" } else { "0" }
}

fn end(well: Option<bool>) -> &'static str {
    match well {
        None => "-",
        Some(true) => "well",
        Some(false) => "badly",
    }
}

fn bucket(parts: &[&str]) -> u16 {
    pieces::bucket(parts) % BUCKETS as u16
}

/// The odds of each class: the intents in order, then none.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Rater {
    pub classes: Vec<Class>,
    /// What it was made of.
    #[serde(default)]
    pub manifest: serde_json::Value,
}

/// The odds of a class: an intercept, and a weight for each bucket.
#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    name: String,
    intercept: f64,
    /// What one step of `weights` counts.
    step: f64,
    weights: Bytes,
}

impl Class {
    /// The odds of a class, rounded to a byte a weight.
    pub fn new(class: usize, intercept: f64, weights: &[f64]) -> Self {
        Self::named(NAMES.get(class).copied().unwrap_or("none"), intercept, weights)
    }

    /// The same by the name of the class.
    pub(crate) fn named(name: &str, intercept: f64, weights: &[f64]) -> Self {
        let most = weights.iter().fold(0.0, |most: f64, weight| most.max(weight.abs()));
        let step = most.max(1e-9) / f64::from(i8::MAX);
        let weights = Bytes(weights.iter().map(|weight| (weight / step).round() as i8).collect());
        Class { name: name.to_owned(), intercept, step, weights }
    }

    /// Whether it has this name and so many weights.
    pub(crate) fn is(&self, name: &str, n: usize) -> bool {
        self.name == name && self.weights.0.len() == n
    }

    /// Its probability where there is no other class, 0 to 1.
    pub(crate) fn likely(&self, pieces: &[u16]) -> f64 {
        1.0 / (1.0 + libm::exp(-self.odds(pieces)))
    }

    fn odds(&self, pieces: &[u16]) -> f64 {
        let sum: i32 = pieces.iter().map(|&at| i32::from(self.weights.0[usize::from(at)])).sum();
        self.intercept + self.step * f64::from(sum) / libm::sqrt(pieces.len().max(1) as f64)
    }
}

impl Rater {
    /// Reads a file of weights.
    pub fn parse(text: &str) -> anyhow::Result<Self> {
        let rater: Rater = serde_json::from_str(text)?;
        let names = rater.classes.iter().map(|class| class.name.as_str());
        let is_whole = rater.classes.iter().all(|class| class.weights.0.len() == BUCKETS);
        anyhow::ensure!(
            names.eq(NAMES.into_iter().chain(["none"])) && is_whole,
            "no odds of intents\nhint: `train --target intents` writes them"
        );
        Ok(rater)
    }

    /// The intent of each turn, and how sure it is; the head, turn 0, has none.
    pub(crate) fn intents(&self, steps: &[Step]) -> Vec<Option<(Intent, f64)>> {
        let of = |(turn, pieces): (usize, Vec<u16>)| self.intent(&pieces).filter(|_| turn > 0);
        super::pieces(steps).into_iter().enumerate().map(of).collect()
    }

    /// The rater that travels with the program.
    pub fn shipped() -> &'static Self {
        &SHIPPED
    }

    /// The number of the likeliest class of a turn with these pieces, and its share of the probabilities of all.
    pub fn rate(&self, pieces: &[u16]) -> (usize, f64) {
        let all: Vec<f64> = self.classes.iter().map(|class| class.likely(pieces)).collect();
        let top = (0..all.len()).max_by(|&a, &b| all[a].total_cmp(&all[b]).then(b.cmp(&a))).unwrap_or(0);
        (top, all[top] / all.iter().sum::<f64>())
    }

    /// The intent of a turn with these pieces, and how sure it is, 0 to 1.
    pub(crate) fn intent(&self, pieces: &[u16]) -> Option<(Intent, f64)> {
        let (class, sure) = self.rate(pieces);
        Some((*Intent::ALL.get(class)?, sure))
    }
}

static SHIPPED: LazyLock<Rater> = LazyLock::new(|| {
    Rater::parse(include_str!("../data/intents.json")).expect("the weights travel with the build")
});

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(said: &str, deed: Option<Deed<'_>>, past: &mut Past) -> Vec<u16> {
        let mut pieces = Pieces::default();
        pieces.said(said);
        deed.into_iter().for_each(|deed| pieces.did(&deed, past));
        pieces.end(past)
    }

    const RAN: Deed<'static> = Deed { kind: ActionKind::RunTest, tool: "", text: "pytest a.py", file: None };

    #[test]
    fn a_turn_is_a_bag_of_what_is_said_done_and_was_before() {
        let mut past = Past::default();
        let first = pieces("Let me see", Some(RAN), &mut past);
        for piece in [
            &["w let"][..],
            &["w2 me see"],
            &["k run_test none 0 -"],
            &["a pytest"],
            &["a2 pytest a"],
            &["since 0"],
        ] {
            assert!(first.contains(&bucket(piece)), "{piece:?}");
        }
        assert!(first.is_sorted() && !first.contains(&bucket(&["no deed"])));
        past.edited(FileKind::Source, None);
        let second = pieces("", None, &mut past);
        assert!(
            [&["no deed"][..], &["p run_test none"], &["edited 1 -"], &["turn 1"]]
                .iter()
                .all(|piece| second.contains(&bucket(piece)))
        );
        assert_eq!(second.len(), 5, "and turns since the edit");
    }

    /// Of two buckets of weight 2 and -1 the odds are 0.5 + (2 - 1) / sqrt 2.
    #[test]
    fn odds_by_hand() {
        let mut weights = vec![0.0; BUCKETS];
        (weights[3], weights[8]) = (2.0, -1.0);
        let class = Class::new(0, 0.5, &weights);
        assert!((class.odds(&[3, 8]) - (0.5 + 1.0 / 2f64.sqrt())).abs() < 0.01);
        let flat = |class| Class::new(class, -9.0, &vec![0.0; BUCKETS]);
        let classes = std::iter::once(class).chain((1..CLASSES).map(flat)).collect();
        let rater = Rater { classes, manifest: serde_json::Value::Null };
        let (intent, sure) = rater.intent(&[3]).unwrap();
        assert!(intent == Intent::Explore && sure > 0.99, "{sure}");
        let again = Rater::parse(&serde_json::to_string(&rater).unwrap()).unwrap();
        assert_eq!(again.rate(&[3, 8]), rater.rate(&[3, 8]));
        assert!(Rater::parse("{\"classes\": []}").is_err());
    }

    #[test]
    fn names_survive() {
        assert!(Intent::ALL.into_iter().all(|intent| Intent::parse(intent.name()) == Some(intent)));
    }
}
