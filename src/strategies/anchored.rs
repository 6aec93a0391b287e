//! One running summary in sections; each event merges what it cuts into it, and nothing is written anew.
//!
//! Only the fresh turns are summarised. What that gives is merged by section: *Progress* gets it as a paragraph of its own,
//! *Files* and *Errors* grow by what is not there yet, *Next* is what the last of these turns said it would do. Lines are
//! never rewritten, so that no detail can drift from one event to the next. Progress of so many tokens at most: then its
//! oldest paragraphs go.
//!
//! Source: anchored iterative summarisation (Factory, "Compressing context").

use super::summary::generic;
use super::writer::summarise;
use super::{Entry, Env, Scope, Strategy, put, transcript};
use crate::context::{Content, Edit};
use crate::features::actions::ActionKind;
use crate::features::atoms::AtomKind;
use crate::trajectory::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "anchored",
    summary: "Merge a summary of the fresh turns into a running one, by sections.",
    params: &[("max_tokens", "150"), ("sentences", "\"2 to 4\""), ("progress_tokens", "2000")],
    takes_model: true,
    build: |params| Ok(Box::new(params.try_into::<Anchored>()?)),
};

/// Files and errors that are listed: the newest.
const LISTED: usize = 50;
/// Characters of section *Next*, at most.
const NEXT_CHARS: usize = 300;

#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Anchored {
    /// Tokens of the summary of an event's fresh turns, at most.
    max_tokens: u32,
    /// How many sentences the prompt asks for.
    sentences: String,
    /// Tokens of section *Progress*, at most.
    progress_tokens: u32,
}

impl Default for Anchored {
    fn default() -> Self {
        Anchored { max_tokens: 150, sentences: "2 to 4".to_owned(), progress_tokens: 2000 }
    }
}

/// The running summary.
#[derive(Default)]
struct Anchor {
    progress: Vec<String>,
    files: Vec<String>,
    errors: Vec<String>,
    next: String,
}

impl Strategy for Anchored {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let blocks = &scope.context.blocks[scope.blocks.clone()];
        let fresh = scope.blocks.start + blocks.partition_point(|block| block.turn < scope.fresh);
        let fresh = fresh..scope.blocks.end;
        let texts: Vec<String> =
            scope.context.blocks[fresh.clone()].iter().map(|block| block.text(scope.log)).collect();
        let summary = summarise(&texts, self.max_tokens, env, || {
            generic(&transcript(scope, fresh.clone()), &self.sentences)
        })?;
        let mut anchor = std::mem::take(env.state::<Anchor>());
        anchor.progress.extend((!summary.is_empty()).then_some(summary));
        let mut tokens: u32 = anchor.progress.iter().map(|paragraph| env.tokenizer.count(paragraph)).sum();
        while tokens > self.progress_tokens && anchor.progress.len() > 1 {
            tokens -= env.tokenizer.count(&anchor.progress.remove(0));
        }
        for block in fresh {
            if let Content::Step(step) = scope.context.blocks[block].content {
                anchor.see(scope, step);
            }
        }
        let text = anchor.text();
        *env.state() = anchor;
        Ok(put(scope, text))
    }

    fn is_recursive(&self) -> bool {
        true
    }
}

impl Anchor {
    /// Takes in a step by rules: the files that it edits or reads, errors, and what is to come.
    fn see(&mut self, scope: &Scope<'_>, step: u32) {
        let kind = scope.log.action_kinds[step as usize].as_deref().and_then(ActionKind::parse);
        let on_file = matches!(kind, Some(ActionKind::EditFile | ActionKind::ReadFile | ActionKind::RunTest));
        for mention in scope.log.mentions_of_step(step) {
            let atom = &scope.log.atoms[mention.atom as usize];
            let list = match atom.kind {
                AtomKind::Path if on_file => &mut self.files,
                AtomKind::Error if scope.log.kind(step) == Kind::Observation => &mut self.errors,
                _ => continue,
            };
            if !list.contains(&atom.text) {
                list.push(atom.text.clone());
                list.drain(..list.len().saturating_sub(LISTED));
            }
        }
        let agent = scope.log.trajectory.steps[step as usize].is_agent();
        if agent && matches!(scope.log.kind(step), Kind::Thought | Kind::Message) {
            let text = scope.log.trajectory.steps[step as usize].text.trim();
            self.next = text.chars().take(NEXT_CHARS).collect();
        }
    }

    fn text(&self) -> String {
        let sections = [
            ("Progress", self.progress.join("\n")),
            ("Files", self.files.join(", ")),
            ("Errors", self.errors.join(", ")),
            ("Next", self.next.clone()),
        ];
        let filled = sections.iter().filter(|(_, text)| !text.is_empty());
        filled.map(|(name, text)| format!("{name}: {text}")).collect::<Vec<_>>().join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    const SCRIPT: &str = "user: mend it
            thought: look at the parser
            action: cat src/parser.py
            observation: return text.splitt()~it was so and not of the on or but it was so and not of the on or but it was so and not of the on or but it was so
            thought: now run its tests
            action: pytest tests/test_parser.py
            observation: AttributeError: splitt~it was so and not of the on or but it was so and not of the on or but it was so and not of the on or but it was so
            agent: I see";

    #[test]
    fn what_is_there_stays_and_what_is_new_is_added() {
        assert_eq!(
            after_events(("anchored", "max_tokens = 6"), ("turns", "n = 1"), SCRIPT),
            [
                "Progress: cat src/parser.py\nFiles: src/parser.py\nNext: look at the parser",
                "Progress: cat src/parser.py\npytest tests/test_parser.py\nFiles: src/parser.py, \
                 tests/test_parser.py\nErrors: AttributeError\nNext: now run its tests",
            ]
        );
    }

    #[test]
    fn the_oldest_progress_goes() {
        let params = "max_tokens = 6\nprogress_tokens = 6";
        let last = after_events(("anchored", params), ("turns", "n = 1"), SCRIPT).pop().unwrap();
        assert!(
            last.starts_with("Progress: pytest tests/test_parser.py\nFiles: src/parser.py, tests/"),
            "{last}"
        );
    }
}
