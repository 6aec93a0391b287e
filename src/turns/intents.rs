//! What an agent is about in a turn, by rules: six intents, told by its actions and by its words.
//!
//! Each action and each phrase is evidence for one intent; the intent with the most evidence is the turn's, and its share
//! of all evidence is the confidence. The weights and phrases are set by hand. Source: seed semantic-triggers, section 2
//! (the intents and their meaning; the seed asks a model, these rules do not).

use std::sync::LazyLock;

use serde::Deserialize;

use super::actions::ActionKind;
use super::names::ACTIONS;
use crate::text::lists::{self, WordSet};
use crate::text::phrases::{Phrases, is_end};

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

/// What of the past a turn's intent depends on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Past {
    /// Whether the agent has edited a file that is neither a test nor a script to try things out.
    pub(crate) has_edited: bool,
    /// Whether the last test or program failed, and nothing was edited since.
    pub(crate) has_failed: bool,
}

/// Evidence for each intent.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Evidence([f64; 6]);

/// What a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    Source,
    Document,
    /// A test, or a script that reproduces or checks something.
    Test,
}

impl FileKind {
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

impl Evidence {
    fn add(&mut self, intent: Intent, weight: f64) {
        self.0[intent as usize] += weight;
    }

    /// Adds what an action tells; `path` is the file that it reads or edits, `looks` says of an API call that it changes nothing.
    pub(crate) fn action(&mut self, kind: ActionKind, path: Option<&str>, looks: bool, past: Past) {
        let file = path.map_or(FileKind::Source, FileKind::of);
        match kind {
            ActionKind::ReadFile | ActionKind::Search => {
                self.add(Intent::Explore, if past.has_failed { 0.6 } else { 1.0 });
                self.add(Intent::Debug, if past.has_failed { 0.8 } else { 0.0 });
            }
            ActionKind::EditFile => match file {
                FileKind::Document => self.add(Intent::Document, 2.0),
                // A test is written to reproduce before the change, and to confirm after it.
                FileKind::Test if !past.has_edited => self.add(Intent::Debug, 1.0),
                FileKind::Test => self.add(Intent::Verify, 1.0),
                FileKind::Source => self.add(Intent::Implement, 2.0),
            },
            ActionKind::RunTest | ActionKind::RunCommand => {
                let weight = if kind == ActionKind::RunTest { 1.5 } else { 0.8 };
                self.add(if past.has_edited { Intent::Verify } else { Intent::Debug }, weight);
            }
            ActionKind::ApiCall if looks => self.add(Intent::Explore, 1.0),
            ActionKind::ApiCall => self.add(Intent::Implement, 1.5),
            ActionKind::Submit | ActionKind::Other => {}
        }
    }

    /// Adds what the agent says; its last sentence, which mostly says what comes next, counts double.
    pub(crate) fn words(&mut self, words: &[&str]) {
        let end = words.iter().rposition(|w| !is_end(w)).map_or(0, |last| last + 1);
        let last = words[..end].iter().rposition(|w| is_end(w)).unwrap_or(0);
        let mut said = [0.0; 6];
        PHRASES.visit(words, |at, _, intent| said[intent as usize] += if at >= last { 1.0 } else { 0.5 });
        for (sum, said) in self.0.iter_mut().zip(said) {
            *sum += f64::min(said, MOST_SAID);
        }
    }

    /// The intent and its confidence, 0 to 1; none without evidence. Of equals the rarer one, which is last in the list.
    pub(crate) fn intent(&self) -> Option<(Intent, f64)> {
        let sum: f64 = self.0.iter().sum();
        let top =
            Intent::ALL.into_iter().max_by(|a, b| self.0[*a as usize].total_cmp(&self.0[*b as usize]))?;
        (sum > 0.0).then(|| (top, self.0[top as usize] / sum))
    }
}

/// Words weigh at most so much for one intent: a long thought does not outweigh the deed.
const MOST_SAID: f64 = 1.5;

static PHRASES: LazyLock<Phrases<Intent>> =
    LazyLock::new(|| lists::read(include_str!("../data/words/intents.en.toml")));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::phrases::words;

    fn told(said: &str, action: Option<(ActionKind, &str)>, past: Past) -> Option<Intent> {
        let mut evidence = Evidence::default();
        evidence.words(&words(&said.to_lowercase()));
        if let Some((kind, path)) = action {
            evidence.action(kind, Some(path), false, past);
        }
        evidence.intent().map(|(intent, confidence)| {
            assert!(confidence > 0.0 && confidence <= 1.0);
            intent
        })
    }

    /// The seed's own examples.
    #[test]
    fn words_alone() {
        let of = |said: &str| told(said, None, Past::default());
        assert_eq!(of("Let me understand the codebase"), Some(Intent::Explore));
        assert_eq!(of("I need to find why the test fails"), Some(Intent::Debug));
        assert_eq!(of("I'll add the missing feature"), Some(Intent::Implement));
        assert_eq!(of("Let me run the tests to confirm"), Some(Intent::Verify));
        assert_eq!(of("I should update the README"), Some(Intent::Document));
        assert_eq!(of("This code needs cleaning up: refactor"), Some(Intent::Refactor));
        assert_eq!(of("Hello there"), None);
    }

    #[test]
    fn deeds_and_what_came_before() {
        let (read, edit, test) = (ActionKind::ReadFile, ActionKind::EditFile, ActionKind::RunTest);
        let edited = Past { has_edited: true, has_failed: false };
        let failed = Past { has_edited: true, has_failed: true };
        assert_eq!(told("", Some((read, "src/a.py")), Past::default()), Some(Intent::Explore));
        assert_eq!(told("", Some((read, "src/a.py")), failed), Some(Intent::Debug));
        assert_eq!(told("", Some((edit, "src/a.py")), Past::default()), Some(Intent::Implement));
        assert_eq!(told("", Some((edit, "README.md")), edited), Some(Intent::Document));
        assert_eq!(told("", Some((edit, "reproduce.py")), Past::default()), Some(Intent::Debug));
        assert_eq!(told("", Some((test, "tests/a.py")), edited), Some(Intent::Verify));
        assert_eq!(told("", Some((test, "tests/a.py")), Past::default()), Some(Intent::Debug));
        // What is done weighs more than what is said of it.
        assert_eq!(told("Let me verify the code", Some((edit, "src/a.py")), edited), Some(Intent::Implement));
    }

    #[test]
    fn names_survive() {
        assert!(Intent::ALL.into_iter().all(|intent| Intent::parse(intent.name()) == Some(intent)));
    }
}
