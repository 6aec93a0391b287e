//! Keeps goals, constraints and decisions in the prompt, and brings the rest back as notes.
//!
//! Strategy G of the seeds: `protected-core` (F) says what stands for the scope, and `notes` (D) takes the same turns
//! out as notes and recalls them. Parameters are those of both, and mean what they mean there.

use super::notes::{Notes, Params, Store};
use super::protected_core::ProtectedCore;
use super::{Entry, Env, Held, Moment, Scope, State, Strategy, build};
use crate::context::log::Log;
use crate::context::{Edit, Recalled};
use crate::params::joined;

pub(super) const ENTRY: Entry = Entry {
    name: "core-notes",
    summary: "Keep goals, constraints and decisions, and recall the rest as notes.",
    params: &joined::<{ ProtectedCore::PARAMS.len() + Params::PARAMS.len() - OF_BOTH.len() }>(
        ProtectedCore::PARAMS,
        Params::PARAMS,
    ),
    takes_model: true,
    build: |params| Ok(Box::new(CoreNotes::new(params)?)),
};

/// Parameters of both.
const OF_BOTH: [&str; 2] = ["keep_last", "embedder"];

struct CoreNotes {
    core: Box<dyn Strategy>,
    notes: Notes,
}

/// What both remember.
#[derive(Default)]
struct Memory {
    core: State,
    notes: Store,
}

impl CoreNotes {
    fn new(mut params: toml::Table) -> anyhow::Result<Self> {
        let mut of_notes = toml::Table::new();
        for name in Params::PARAMS.iter().map(|p| p.name) {
            of_notes.extend(params.get(name).map(|value| (name.to_owned(), value.clone())));
            if !OF_BOTH.contains(&name) {
                params.remove(name);
            }
        }
        let notes = Notes::new(Params::of(of_notes)?);
        Ok(CoreNotes { core: build("protected-core", params)?, notes })
    }
}

impl Strategy for CoreNotes {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let mut memory = std::mem::take(env.state::<Memory>());
        self.notes.take(scope, &mut memory.notes, env)?;
        env.state = memory.core;
        let edits = self.core.compress(scope, env)?;
        memory.core = std::mem::take(&mut env.state);
        *env.state() = memory;
        Ok(edits)
    }

    fn recalls(&self) -> bool {
        true
    }

    fn recall(&self, moment: &Moment<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Recalled>> {
        let mut memory = std::mem::take(env.state::<Memory>());
        let found = self.notes.find(moment, &mut memory.notes, env);
        *env.state() = memory;
        found
    }

    fn held(&self, log: &Log, state: &State) -> Vec<Held> {
        state.get::<Memory>().map_or_else(Vec::new, |memory| memory.notes.held(log))
    }

    fn is_recursive(&self) -> bool {
        self.core.is_recursive()
    }

    fn keep_last(&self) -> u32 {
        self.core.keep_last()
    }

    fn needs_model(&self) -> bool {
        self.core.needs_model()
    }

    fn is_control(&self) -> bool {
        self.core.is_control()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::tests::run;
    use super::*;
    use crate::params::Param;

    #[test]
    fn its_parameters_are_those_of_both_once() {
        let names = |of: &[Param]| of.iter().map(|p| p.name).collect::<BTreeSet<_>>();
        let own = super::ENTRY.params;
        let both = [ProtectedCore::PARAMS, Params::PARAMS].concat();
        assert_eq!((names(own), own.len()), (names(&both), names(&both).len()));
        let defaults = |p: &Param| (p.name, p.default);
        assert!(both.iter().all(|p| own.iter().any(|o| defaults(o) == defaults(p))));
    }

    #[test]
    fn the_core_stays_and_the_rest_comes_back() {
        let log = Log::script(
            "user: Please write a forecast of the visitors for each pool in summer.
            agent: Hello, I look at the gate counts of the last years, they lie in data/gates_2019.csv as it seems.
            user: No single visitor may be named in anything you save. The weather is fine.
            agent: Very well, I go on, and it takes me quite a while to read all of them.
            user: How are the gate counts of the last years?
            agent: Good.",
        );
        let params = "keep_last = 0\nbackground = \"none\"\nthreshold = 0.0\nsource = \"given\"";
        let constraint = "No single visitor may be named in anything you save.";
        let mut log = log;
        log.trajectory.annotations = Some(
            serde_json::json!({"goal": "a forecast", "constraints": [{"text": constraint, "category": "privacy", "step": 2}]})
                .to_string(),
        );
        let run = run(("core-notes", params), ("turns", "n = 1"), &log);
        let last = run.events.last().unwrap();
        let core: String = last.after.iter().map(|block| block.text(&log)).collect();
        assert!(core.contains("No single visitor may be named") && !core.contains("gates_2019"), "{core}");
        let recall = run.recalls.last().unwrap();
        let text: String = recall.blocks.iter().map(|block| block.text(&log)).collect();
        assert!(text.contains("data/gates_2019.csv"), "{text}");
    }

    /// The core of a scope that is shorter than it is refused: the scope stands as it was, and does not come back too.
    #[test]
    fn what_stands_in_the_prompt_does_not_come_back() {
        let log = Log::script(
            "user: Open the shop.
            agent: We look at the harbour first.
            agent: The cook fills the green crate with bolts and walks along the river to the old mill where the miller and his sons wait for flour, salt and candles until the evening bell.
            agent: We decided to use port=8042 for the harbour server.
            user: What of port=8042, the harbour server, the cook and the green crate of bolts?
            agent: Good.",
        );
        for params in ["keep_last = 0", "keep_last = 1"] {
            let params = format!("{params}\nlinks = 0\nnovelty = false\nbackground = \"none\"");
            let run = run(("core-notes", &params), ("turns", "n = 1"), &log);
            let standing = |turn: u32| {
                let event = run.events.iter().rev().find(|event| event.turn <= turn);
                let after = event.map(|event| &event.after);
                after.into_iter().flatten().map(|block| block.text(&log)).collect::<String>()
            };
            assert!(run.events.iter().any(|event| event.violations == ["longer than the original"]));
            for recall in &run.recalls {
                let turn = log.turn_of(recall.until);
                for block in &recall.blocks {
                    let text = block.text(&log);
                    assert!(!standing(turn).contains(text.trim()), "{params}: {turn} {text}");
                }
            }
        }
    }

    #[test]
    fn parameters_of_both_are_known_and_others_are_not() {
        let error = |params: &str| build("core-notes", toml::from_str(params).unwrap()).err();
        assert!(error("k = 3\nthreshold = 0.2\nkeep_last = 2").is_none());
        assert!(error("note_token = 3").unwrap().to_string().contains("note_token"));
        assert!(error("note_tokens = 0").unwrap().to_string().contains("note_tokens"));
    }
}
