//! Fires when what the agent is about changes in a way that closes a phase: from exploring to implementing, and so on.
//!
//! A turn has one of six intents; a turn that tells nothing goes on with the last. The scope ends before the turn with the
//! new intent: it is the finished phase, with what stands uncompressed before it. With `model = "none"` the intent is told
//! by learned odds of deeds and words (src/turns/intents.rs); with `model = "NAME"` that model is asked by likelihood of the six
//! labels, once for each turn of a segment and seeing nothing but the turn; where it has no answer the odds stand in. Source:
//! seed semantic-triggers, section 2, with its confidence and its transitions but one: debugging ends with an edit, which is
//! implementing, so that what goes from debug to verify is nearly always a turn told wrong (docs/seeds.md, T18). The seed's history does not advance on a
//! transition, so that the next phase would be compared with the last but one; here it does.

use std::ops::Range;
use std::sync::Arc;

use anyhow::Context as _;

use super::{Detector, Each, Entry, Firing, Rule, Trigger};
use crate::context::log::Log;
use crate::models::prompt::{Data, Prompt, Var};
use crate::models::{Call, Model, NO_MODEL, Outage, labels};
use crate::params::{self, params};
use crate::trajectory::Kind;
use crate::turns::Facts;
use crate::turns::intents::{Intent, NAMES, Rater};

/// The seed's confidence in a transition.
const CONFIDENCE: f64 = 0.85;

pub(super) const ENTRY: Entry = Entry {
    name: "intent",
    summary: "Compress a phase when the agent goes on to another: from exploring to implementing, and the like.",
    params: Params::PARAMS,
    build: |params| Ok(Box::new(IntentShift::new(Params::of(params)?)?)),
};

params! {
    struct Params {
        /// Pairs of intents at whose change it fires, separated by blanks. The seed has `debug-verify` for `debug-implement`.
        transitions: String = "explore-implement debug-implement implement-document implement-verify",
        /// Turns that a phase must have had.
        min_turns: u32 = 2,
        /// Whether a change of intent must fit to what was changed: implementing ends where something of the work was changed and
        /// no change is under way, and begins with more than a trial; what is verified was changed before.
        by_changes: bool = true,
        /// A turn whose intent is less sure than this goes on with the last.
        min_confidence: f64 = 0.0 (from 0 to 1),
        /// The model that tells intents; `none`: learned odds do.
        model: String = "none",
        /// Odds of one's own, `PATH#HASH`, as `train --target intents` writes them; empty: those that travel with the program.
        weights: String = "",
    }
}

#[derive(Clone)]
pub(super) struct IntentShift {
    transitions: Vec<(Intent, Intent)>,
    min_turns: u32,
    by_changes: bool,
    min_confidence: f64,
    asks: bool,
    /// Odds of the user's own.
    rater: Option<Arc<Rater>>,
}

impl IntentShift {
    fn new(params: Params) -> anyhow::Result<Self> {
        anyhow::ensure!(
            !params.transitions.trim().is_empty(),
            "it never fires: parameter `transitions` must name one at least, as in \"explore-implement\""
        );
        Ok(IntentShift {
            transitions: params
                .transitions
                .split_whitespace()
                .map(transition)
                .collect::<anyhow::Result<_>>()?,
            min_turns: params.min_turns,
            by_changes: params.by_changes,
            min_confidence: params.min_confidence,
            asks: params.model != NO_MODEL,
            rater: own_rater(&params.weights)?,
        })
    }
}

/// The odds of a file, `PATH#HASH`; none where nothing is named.
fn own_rater(name: &str) -> anyhow::Result<Option<Arc<Rater>>> {
    if name.is_empty() {
        return Ok(None);
    }
    let (path, text) = params::own_file("weights", name, "name nothing, or")?;
    Ok(Some(Arc::new(Rater::parse(&text).with_context(|| format!("weights `{path}`"))?)))
}

/// Reads FROM-TO.
fn transition(text: &str) -> anyhow::Result<(Intent, Intent)> {
    let pair = text.split_once('-');
    let pair = pair.and_then(|(from, to)| Some((Intent::parse(from)?, Intent::parse(to)?)));
    pair.filter(|(from, to)| from != to).with_context(|| {
        let known = NAMES.join(", ");
        format!("`{text}` in parameter `transitions` is no transition\nhint: write FROM-TO, two different ones of {known}")
    })
}

impl Trigger for IntentShift {
    fn detector(&self, log: &Log, first_turn: u32) -> Box<dyn Detector> {
        let mut rule = Phase::begun(self, first_turn);
        rule.told = self
            .rater
            .as_deref()
            .map(|rater| Told { first: 0, intents: rater.intents(&log.trajectory.steps) });
        Box::new(Each { next: first_turn, rule })
    }

    fn open(
        &self,
        log: &Log,
        turns: Range<u32>,
        model: Option<&dyn Model>,
    ) -> anyhow::Result<Box<dyn Detector>> {
        if self.asks {
            let mut rule = Phase::begun(self, turns.start);
            let model = model.context("the model of trigger `intent` was not opened")?;
            rule.told = Some(Told { first: turns.start, intents: by_model(log, turns.clone(), model)? });
            return Ok(Box::new(Each { next: turns.start, rule }));
        }
        Ok(self.detector(log, turns.start))
    }
}

const TEMPLATE: &str = include_str!("intent.txt");
/// Characters that a model reads of what the agent says, and of what it does.
const READ: usize = 400;
/// One turn of each intent, beside which those of a log are judged.
const ANCHORS: [(&str, &str); 6] = [
    ("I should see how the modules hang together first.", "ls -R lib"),
    ("The stack trace ends in the parser; why is the token empty there?", "python debug_parse.py"),
    ("Now the missing case can be handled.", "sed -i 's/x/y/' lib/parse.py"),
    ("Time to see whether it holds.", "pytest tests/test_parse.py"),
    ("The manual does not mention the option yet.", "cat >> docs/manual.md"),
    ("These two functions do the same and should be one.", "git mv lib/a.py lib/shared.py"),
];

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().take(READ).collect();
    words.join(" ").chars().take(READ).collect()
}

fn asking(said: &str, done: &str) -> anyhow::Result<Prompt> {
    let (said, done) = (one_line(said), one_line(done));
    let vars = [("said", Var::from(Data::bare(&said))), ("done", Data::bare(&done).into())];
    Ok(Prompt::render(TEMPLATE, &vars)?)
}

/// The intent of each turn by a model, and how sure it is, 0 to 1; by the odds where it has no answer.
///
/// # Errors
/// The model answers nothing any more.
pub fn by_model(
    log: &Log,
    turns: Range<u32>,
    model: &dyn Model,
) -> anyhow::Result<Vec<Option<(Intent, f64)>>> {
    let steps = |turn: u32, action: bool| {
        let of_turn = log.turns[turn as usize].steps.clone().map(|s| &log.trajectory.steps[s as usize]);
        let texts: Vec<&str> = of_turn
            .filter(|s| s.is_agent() && (s.kind == Kind::Action) == action)
            .map(|s| s.text.as_str())
            .collect();
        texts.join(" ")
    };
    let prompts: Vec<Prompt> = turns
        .clone()
        .map(|turn| asking(&steps(turn, false), &steps(turn, true)))
        .collect::<Result<_, _>>()?;
    let anchors: Vec<Prompt> =
        ANCHORS.iter().map(|(said, done)| asking(said, done)).collect::<Result<_, _>>()?;
    let names: Vec<String> = NAMES.iter().map(|name| format!(" {name}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut intents = Vec::with_capacity(prompts.len());
    for (turn, outcome) in turns.zip(labels::classify(model, &prompts, &anchors, &names)) {
        intents.push(match outcome {
            Ok((label, sure)) => Some((Intent::ALL[label], sure)),
            Err(error) => {
                let call = Call::Score { prompt: Prompt::default(), continuations: Vec::new() };
                if !model.is_alive(&call) {
                    return Err(Outage { model: model.card().name.clone(), error }.into());
                }
                log.facts().turns[turn as usize].intent
            }
        });
    }
    Ok(intents)
}

/// What a model, or odds of one's own, say of the turns from the first on.
struct Told {
    first: u32,
    intents: Vec<Option<(Intent, f64)>>,
}

/// The phase at hand.
struct Phase {
    rule: IntentShift,
    since: u32,
    intent: Option<Intent>,
    /// Whether something of the work was changed in the phase, and at all.
    changed: [bool; 2],
    /// None where the shipped odds tell.
    told: Option<Told>,
}

impl Phase {
    fn begun(rule: &IntentShift, turn: u32) -> Self {
        Phase { rule: rule.clone(), since: turn, intent: None, changed: [false; 2], told: None }
    }

    fn intent_of(&self, log: &Log, turn: u32) -> Option<(Intent, f64)> {
        match &self.told {
            Some(told) => told.intents[(turn - told.first) as usize],
            None => log.facts().turns[turn as usize].intent,
        }
    }
}

/// Whether a change of intent fits to what was changed: in the phase before, and in all turns before.
fn fits(from: Intent, to: Intent, here: &Facts, [in_phase, ever]: [bool; 2]) -> bool {
    match (from, to) {
        (Intent::Implement, Intent::Verify) => in_phase && !here.scripted,
        (Intent::Debug, Intent::Implement) => here.changed || !here.tried,
        (Intent::Debug, Intent::Verify) => ever,
        _ => true,
    }
}

impl Rule for Phase {
    fn turn(&mut self, log: &Log, turn: u32) -> Option<Firing> {
        let told = self.intent_of(log, turn);
        let here = &log.facts().turns[turn as usize];
        let before = self.changed;
        self.changed = before.map(|changed| changed || here.changed);
        let (intent, sure) = told.filter(|(_, sure)| *sure >= self.rule.min_confidence)?;
        let (last, since) = (self.intent.replace(intent), self.since);
        if last == Some(intent) {
            return None;
        }
        if last.is_some() {
            (self.since, self.changed[0]) = (turn, here.changed);
        }
        let last = last?;
        let fires = self.rule.transitions.contains(&(last, intent))
            && turn - since >= self.rule.min_turns
            && (!self.rule.by_changes || fits(last, intent, here, before));
        fires.then(|| {
            Firing::new("intent", turn, CONFIDENCE).with(serde_json::json!({
                "from": last.name(),
                "to": intent.name(),
                "phase": [since, turn],
                "sure": (sure * 100.0).round() / 100.0,
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{details, fired, refused};

    const SCRIPT: &str = "user: u
        thought: Let me see how it works.
        action: cat a.py
        observation: x
        thought: Let me look at the other module.
        action: cat b.py
        observation: x
        thought: Now I make the change.
        action: sed -i s/a/b/ a.py
        observation: edited
        thought: Let me run the tests.
        action: pytest tests
        observation: 1 failed in 1s
        thought: Why does it fail? I look at the error.
        action: cat a.py
        observation: x
        thought: Let me run the tests again to verify the fix.
        action: pytest tests
        observation: 1 passed in 1s
        thought: Now I update the documentation.
        action: sed -i s/a/b/ README.md
        observation: edited
        agent: bye";

    /// Explore (1, 2), implement (3), verify (4), debug (5: it failed), verify (6), document (7).
    #[test]
    fn the_four_transitions() {
        let seed = "transitions = \"explore-implement debug-verify implement-document implement-verify\"\nmin_turns = 1";
        assert_eq!(
            fired(SCRIPT, "intent", seed),
            ["4: intent ..3 0.85", "5: intent ..4 0.85", "7: intent ..6 0.85"]
        );
        let told = details(SCRIPT, "intent", seed);
        let changes: Vec<String> =
            told.iter().map(|d| format!("{}-{} {}", d["from"], d["to"], d["phase"])).collect();
        assert_eq!(
            changes,
            [
                "\"explore\"-\"implement\" [1,3]",
                "\"implement\"-\"verify\" [3,4]",
                "\"debug\"-\"verify\" [5,6]"
            ]
        );
        // After a failed check the cause is looked for, and then changed; of debug to verify there is nothing by default.
        assert_eq!(
            fired(SCRIPT, "intent", "min_turns = 1")[..],
            ["4: intent ..3 0.85", "5: intent ..4 0.85"]
        );
        assert_eq!(fired(SCRIPT, "intent", ""), ["4: intent ..3 0.85"], "the others had one turn");
        assert_eq!(
            fired(SCRIPT, "intent", "transitions = \"verify-document\"\nmin_turns = 1"),
            ["8: intent ..7 0.85"]
        );
    }

    #[test]
    fn a_change_of_intent_fits_to_what_was_changed() {
        use super::*;
        use Intent::*;
        let facts = |changed, tried, scripted| Facts { changed, tried, scripted, ..Facts::default() };
        let (nothing, trial) = (facts(false, false, false), facts(false, true, false));
        let changed = [true, true];
        for (from, to, here, before, is) in [
            (Implement, Verify, &nothing, changed, true),
            (Implement, Verify, &facts(true, false, true), changed, false),
            (Implement, Verify, &nothing, [false, true], false),
            (Debug, Implement, &facts(true, true, false), [false; 2], true),
            (Debug, Implement, &trial, changed, false),
            // It is decided, and the place is looked for.
            (Debug, Implement, &nothing, [false; 2], true),
            (Debug, Verify, &nothing, [false, true], true),
            (Debug, Verify, &nothing, [false; 2], false),
            (Explore, Implement, &trial, [false; 2], true),
        ] {
            assert_eq!(fits(from, to, here, before), is, "{from:?} {to:?} {here:?} {before:?}");
        }
    }

    /// A model that knows better: the second reading is implementing, and of the third turn it says nothing.
    #[test]
    fn a_model_may_tell() {
        use super::*;
        use crate::models::scripted::Scripted;
        use crate::models::{Answer, CallError, Card, Finish, Scores, Text, TokenScore};
        use crate::triggers::{Moment, build};
        let log = Log::script(SCRIPT);
        let card = Card { name: "m".to_owned(), identity: "test".to_owned(), window: 999 };
        let model = Scripted::rule(card, |call| {
            let Call::Score { prompt, .. } = call else {
                // Whether it lives.
                let (text, finish) = ("yes".to_owned(), Finish::Stop);
                return Some(Ok(Answer::Text(Text {
                    text,
                    finish,
                    prompt_tokens: 1,
                    tokens: 1,
                    cut_tokens: 0,
                })));
            };
            let text: String = prompt.parts.iter().map(|part| part.text.as_str()).collect();
            let best = match text.rsplit("Turn: ").next().unwrap_or("") {
                last if last.contains("sed -i s/a/b/ a.py") => return Some(Err(CallError::Timeout(1))),
                last if last.contains("cat b.py") => 2,
                _ => 0,
            };
            let score = |i: usize| vec![TokenScore { end: 1, logprob: if i == best { -0.1 } else { -5.0 } }];
            let continuations = (0..NAMES.len()).map(score).collect();
            Some(Ok(Answer::Scores(Scores { parts: vec![], continuations, prompt_tokens: 1, cut_tokens: 0 })))
        });
        let trigger = build("intent", toml::from_str("model = \"m\"\nmin_turns = 1").unwrap()).unwrap();
        let turns = 1..log.turns.len() as u32;
        assert!(trigger.open(&log, turns.clone(), None).is_err());
        let mut detector = trigger.open(&log, turns.clone(), Some(&model)).unwrap();
        let fired: Vec<(u32, u32)> = turns
            .filter_map(|turn| {
                let moment = Moment { log: &log, turn, context_tokens: 0, messages: None };
                Some((turn, detector.advance(&moment)?.scope_end))
            })
            .collect();
        // Explore (1), implement (2 by the model, 3 by the rules), explore (4 and on).
        assert_eq!(fired, [(3, 2)]);
    }

    #[test]
    fn wrong_transitions_are_errors() {
        for wrong in ["explore-dance", "explore", "verify-verify"] {
            let error = refused("intent", &format!("transitions = \"debug-verify {wrong}\""));
            let told = format!(
                "`{wrong}` in parameter `transitions` is no transition\nhint: write FROM-TO, two different ones of explore"
            );
            assert!(error.starts_with(&told) && error.contains("refactor"), "{error}");
        }
        assert!(refused("intent", "transitions = \" \"").starts_with("it never fires: "));
    }
}
