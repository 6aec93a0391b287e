//! When to compress: one file per rule.
//!
//! A trigger is asked before every decision and says which turns to compress. It knows nothing of
//! strategies. A detector advances at every turn, whether or not anything came of its last answer.

use std::ops::Range;

use crate::context::log::Log;
use crate::context::messages::Messages;
use crate::models::Model;
use crate::params::Param;

mod boundary;
mod hybrid;
mod intent;
mod limits;
mod logged;
mod logged_edits;
mod marked;
mod never;
mod session;
mod staleness;
mod subtask;
mod tokens;
mod turns;

pub use intent::by_model as intents_by_model;

/// What a trigger may look at before a decision.
pub struct Moment<'a> {
    pub log: &'a Log,
    /// The turn about to be decided; scopes end at it or before.
    pub turn: u32,
    /// Tokens of the prompt as it stands, by the provider's count and with what the log does not show, where that is known.
    pub context_tokens: u64,
    /// The prompt as messages, where a trigger or the policy asks for them.
    pub messages: Option<&'a Messages>,
}

/// A decision to compress.
#[derive(Clone, Debug, PartialEq)]
pub struct Firing {
    /// What fired, in the trigger's own words.
    pub kind: &'static str,
    /// The turn after the last one of the scope; the scope begins where the last one ended.
    pub scope_end: u32,
    /// 0 to 1.
    pub confidence: f64,
    /// The steps to compress, instead of whole turns; what else stands between them is left untouched, and can be in a
    /// later scope. The replay shows a strategy these blocks as if nothing stood between, so that no strategy knows of it.
    /// The calls of results that are named are in the scope, too.
    pub only: Option<Vec<u32>>,
    /// More of the decision, JSON; empty is nothing.
    pub details: String,
    /// Tokens of the prompt, as a limit counted them.
    pub counted: u64,
}

impl Firing {
    pub(crate) fn new(kind: &'static str, scope_end: u32, confidence: f64) -> Self {
        Firing { kind, scope_end, confidence, only: None, details: String::new(), counted: 0 }
    }

    fn with(self, details: serde_json::Value) -> Self {
        Firing { details: details.to_string(), ..self }
    }
}

/// A rule with its parameters.
pub trait Trigger: Send + Sync {
    /// A detector for a segment whose first turn that may be compressed is `first_turn`.
    fn detector(&self, log: &Log, first_turn: u32) -> Box<dyn Detector>;

    /// The same for the turns of a segment, by a trigger that may ask its model about each of them beforehand.
    ///
    /// # Errors
    /// The trigger asks a model and has none, or it answers nothing any more.
    fn open(
        &self,
        log: &Log,
        turns: Range<u32>,
        _model: Option<&dyn Model>,
    ) -> anyhow::Result<Box<dyn Detector>> {
        Ok(self.detector(log, turns.start))
    }

    /// Whether it looks at [`Moment::messages`].
    fn reads_messages(&self) -> bool {
        false
    }

    /// Whether it is for logs made by [`Log::bridged`], where the log itself was compacted.
    fn bridges(&self) -> bool {
        false
    }
}

/// The state of a trigger within one segment.
pub trait Detector {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing>;
}

/// A detector that looks at one finished turn after the other.
trait Rule {
    /// What the turn gives reason to, at the next decision. Turns come in order, each once.
    fn turn(&mut self, log: &Log, turn: u32) -> Option<Firing>;
}

/// Hands a rule all turns that were finished since the last decision; its last word counts.
struct Each<R> {
    next: u32,
    rule: R,
}

impl<R: Rule> Detector for Each<R> {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        let turns = self.next..moment.turn;
        self.next = moment.turn.max(self.next);
        turns.filter_map(|turn| self.rule.turn(moment.log, turn)).last()
    }
}

/// A trigger in the catalogue.
pub struct Entry {
    pub name: &'static str,
    pub summary: &'static str,
    pub params: &'static [Param],
    pub build: fn(toml::Table) -> anyhow::Result<Box<dyn Trigger>>,
}

/// All triggers, by name.
pub static ALL: &[Entry] = &[
    boundary::ENTRY,
    hybrid::ENTRY,
    intent::ENTRY,
    limits::ENTRY,
    logged::ENTRY,
    logged_edits::ENTRY,
    marked::ENTRY,
    never::ENTRY,
    session::ENTRY,
    staleness::ENTRY,
    subtask::ENTRY,
    tokens::ENTRY,
    turns::ENTRY,
];

/// Builds the trigger of this name.
pub fn build(name: &str, params: toml::Table) -> anyhow::Result<Box<dyn Trigger>> {
    let Some(entry) = ALL.iter().find(|e| e.name == name) else {
        let known: Vec<&str> = ALL.iter().map(|e| e.name).collect();
        anyhow::bail!("unknown trigger `{name}` (known: {})", known.join(", "));
    };
    (entry.build)(params)
}

/// Refuses parameters under which a trigger never fires: all of its switches are off.
fn fires<const N: usize>(switches: [(&str, bool); N]) -> anyhow::Result<()> {
    let names = switches.map(|(name, _)| name).join("`, `");
    anyhow::ensure!(switches.iter().any(|(_, on)| *on), "it never fires: one of `{names}` must be true");
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Every trigger, with parameters under which it fires in a few turns.
    pub(crate) fn eager() -> impl Iterator<Item = (&'static str, &'static str)> {
        ALL.iter().map(|entry| match entry.name {
            "turns" => ("turns", "n = 3\nkeep = 2"),
            "tokens" => ("tokens", "window = 120\nkeep = 1"),
            "subtask" => ("subtask", "idle_turns = 2\nedits = 1"),
            "boundary" => ("boundary", "min_span = 0"),
            "staleness" => ("staleness", "recent = 1\nthreshold = 0.3\nbatch = 1"),
            "hybrid" => ("hybrid", "masking_window = 3"),
            "limits" => ("limits", "tokens = 90"),
            other => (other, ""),
        })
    }

    /// What is said of parameters that a trigger refuses.
    pub(super) fn refused(trigger: &str, params: &str) -> String {
        build(trigger, toml::from_str(params).unwrap()).err().unwrap().to_string()
    }

    fn firings(script: &str, trigger: &str, params: &str) -> Vec<(u32, Firing)> {
        firings_in(&Log::script(script), trigger, params)
    }

    fn firings_in(log: &Log, trigger: &str, params: &str) -> Vec<(u32, Firing)> {
        let trigger = build(trigger, toml::from_str(params).unwrap()).unwrap();
        let mut detector = trigger.detector(log, 1);
        (1..log.turns.len() as u32)
            .filter_map(|turn| {
                // What stands in the prompt where nothing was compressed.
                let before = log.turns[turn as usize].steps.start as usize;
                let context_tokens = log.tokens[..before].iter().map(|n| u64::from(*n)).sum();
                let moment = Moment { log, turn, context_tokens, messages: None };
                Some((turn, detector.advance(&moment)?))
            })
            .collect()
    }

    /// What fires in a script: the turn about to be decided, the kind, the end of the scope or the steps, the confidence.
    pub(super) fn fired(script: &str, trigger: &str, params: &str) -> Vec<String> {
        let told = |(turn, f): (u32, Firing)| match f.only {
            Some(steps) => format!("{turn}: {} {steps:?} {}", f.kind, f.confidence),
            None => format!("{turn}: {} ..{} {}", f.kind, f.scope_end, f.confidence),
        };
        firings(script, trigger, params).into_iter().map(told).collect()
    }

    /// The details of each firing.
    pub(super) fn details(script: &str, trigger: &str, params: &str) -> Vec<serde_json::Value> {
        let parse = |(_, f): (u32, Firing)| serde_json::from_str(&f.details).unwrap();
        firings(script, trigger, params).into_iter().map(parse).collect()
    }

    /// Lines again and again.
    pub(super) fn lines(lines: &str, times: usize) -> String {
        vec![lines; times].join("\n")
    }

    /// Work on these files, a line for each choice.
    fn script(files: &[&str], choices: &[(usize, usize)]) -> String {
        const LINES: [&str; 13] = [
            "action: cat FILE",
            "action: sed -i s/a/b/ FILE",
            "action: pytest FILE",
            "action: sed -i s/a/b/ FILE && pytest",
            "also: python FILE",
            "action: curl -X POST https://api.x.com/FILE",
            "observation: 1 passed in 0.1s",
            "observation: 1 failed in 0.1s",
            "observation: FILE says timeout=30~reward: 1.0",
            "thought: All tests pass. Now I'll work on FILE.",
            "thought: Why does FILE fail?",
            "user: see FILE",
            "observation: FILE stands here => 2 gone",
        ];
        let line = |&(line, file): &(usize, usize)| {
            format!("\n{}", LINES[line % LINES.len()].replace("FILE", files[file % files.len()]))
        };
        choices.iter().map(line).fold("user: mend it".to_owned(), |all, line| all + &line)
    }

    proptest::proptest! {
        #![proptest_config(proptest::prelude::ProptestConfig::with_cases(64))]

        /// What comes later in a log changes nothing of what fired before.
        #[test]
        fn no_trigger_sees_the_future(
            choices in proptest::collection::vec((0usize..13, 0usize..6), 1..70),
            cut in 1usize..70,
        ) {
            const FILES: [&str; 6] = ["src/a.py", "a.py", "/repo/src/a.py", "lib/a.py", "b.py", "src/b.py"];
            let script = script(&FILES, &choices);
            let shorter = script.lines().take(cut).collect::<Vec<_>>().join("\n");
            let (whole, part) = (Log::script(&script), Log::script(&shorter));
            for (trigger, params) in eager() {
                // What an edit changes is the prompt of a decision with the words before it: both must stand in the part.
                let cut = |mut fired: Vec<(u32, Firing)>| {
                    fired.retain(|(turn, _)| {
                        let turn = part.turns.get(*turn as usize);
                        turn.is_some_and(|turn| trigger != "logged-edits" || turn.decision.is_some())
                    });
                    fired
                };
                let fired = [&whole, &part].map(|log| cut(firings_in(log, trigger, params)));
                proptest::prop_assert_eq!(&fired[0], &fired[1], "{}", trigger);
            }
        }
    }
}
