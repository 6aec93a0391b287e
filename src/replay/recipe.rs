//! A variant, ready to run: its stages, each a trigger and a strategy, in the order in which they are tried.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::context::counter::Counter;
use crate::context::messages::Speaker;
use crate::models::Model;
use crate::replay::Event;
use crate::scopes::Rule;
use crate::strategies::Strategy;
use crate::triggers::Trigger;

/// When to compress, what, and how.
pub struct Stage {
    pub trigger: Box<dyn Trigger>,
    /// Without one the trigger says what.
    pub scope: Option<Box<dyn Rule>>,
    pub strategy: Box<dyn Strategy>,
    /// How often it is tried before one decision, as long as its trigger fires.
    pub repeat: u32,
    /// Share of the window down to which it is then repeated, whatever its trigger says.
    pub down_to: Option<f64>,
    /// After so many events in a row that made the prompt no shorter it is done with for the segment; 0 is never.
    pub give_up: u32,
    /// Whether what its events rewrote is whole again where its trigger does not fire, and counts as whole for that.
    pub anew: bool,
}

impl Stage {
    /// Whether what it had in a scope and left as it was is not in a later one.
    pub fn passes_by(&self) -> bool {
        !self.anew && self.scope.as_ref().is_some_and(|rule| !rule.retakes())
    }

    /// Whether what was compressed before can be in its scopes.
    pub fn retakes(&self) -> bool {
        self.scope.as_ref().map_or(self.strategy.is_recursive(), |scope| scope.retakes())
    }
}

/// What no stage touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Head {
    /// All before the first call, and the task wherever it stands.
    #[default]
    Task,
    /// What the system says, and the tools.
    System,
    /// The tools alone: what the system says goes with the rest.
    None,
}

/// How a policy sees the prompt.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub head: Head,
    pub counter: Counter,
    /// How single messages are counted, where that is otherwise: what scopes and strategies go by.
    pub lengths: Option<Counter>,
    /// Tokens of the window, without the reserve.
    pub window: u64,
    /// Whether the results of one reply are one message.
    pub joins_results: bool,
    /// Whether an event may make a prompt longer.
    pub grows: bool,
    /// Whether an event may part a call from its result.
    pub parts_pairs: bool,
    /// Who says what events put there.
    pub made_by: Speaker,
}

/// See the head of this file.
pub struct Recipe {
    /// At least one. At every decision each is asked in turn, with the prompt as those before it left it.
    pub stages: Vec<Stage>,
    /// How often all stages are asked before one decision, as long as that makes the prompt shorter.
    pub rounds: u32,
    /// Of policies alone.
    pub frame: Option<Frame>,
    pub seed: u64,
    pub model: Option<Arc<dyn Model>>,
    /// What says what matters, where that is not `model`.
    pub extractor: Option<Arc<dyn Model>>,
    pub embedder: Option<Arc<dyn Model>>,
    /// What the triggers ask.
    pub trigger_model: Option<Arc<dyn Model>>,
    /// The same for a log whose longest prompt has so many tokens, where the window is a share of that.
    pub scaled: Option<Scaled>,
}

/// Makes the recipe for one log.
pub type Scaled = Box<dyn Fn(u64) -> anyhow::Result<Recipe> + Send + Sync>;

impl Recipe {
    /// One stage, without models.
    pub fn one(strategy: Box<dyn Strategy>, trigger: Box<dyn Trigger>, seed: u64) -> Self {
        let stages =
            vec![Stage { trigger, scope: None, strategy, repeat: 1, down_to: None, give_up: 0, anew: false }];
        Recipe {
            stages,
            rounds: 1,
            frame: None,
            seed,
            model: None,
            extractor: None,
            embedder: None,
            trigger_model: None,
            scaled: None,
        }
    }

    /// The strategy of an event.
    pub fn strategy(&self, event: &Event) -> &dyn Strategy {
        &*self.stages[event.stage as usize].strategy
    }

    /// The stage whose strategy brings something back, else the first: what it remembers is what is shown.
    pub fn store(&self) -> usize {
        self.strategies().position(Strategy::recalls).unwrap_or(0)
    }

    /// Whether some stage compresses again what was compressed before.
    pub fn is_recursive(&self) -> bool {
        self.stages.iter().any(Stage::retakes)
    }

    /// Whether some stage brings something back.
    pub fn recalls(&self) -> bool {
        self.strategies().any(Strategy::recalls)
    }

    /// Whether some stage looks at the needs, and so at the future.
    pub fn sees_future(&self) -> bool {
        self.strategies().any(Strategy::sees_future)
    }

    /// Who says what events put there.
    pub fn made_by(&self) -> Speaker {
        self.frame.map_or(Speaker::User, |frame| frame.made_by)
    }

    /// Whether what stands for a scope may be longer than it was.
    pub fn may_grow(&self) -> bool {
        self.is_record() || self.frame.is_some_and(|frame| frame.grows)
    }

    /// Whether a call may stand without its result, and the other way.
    pub fn parts_pairs(&self) -> bool {
        self.frame.is_some_and(|frame| frame.parts_pairs)
    }

    /// Whether it puts what the log records.
    pub fn is_record(&self) -> bool {
        self.strategies().any(Strategy::is_record)
    }

    /// Whether it is for logs made by [`Log::bridged`](crate::context::log::Log::bridged).
    pub fn bridges(&self) -> bool {
        self.stages.iter().any(|stage| stage.trigger.bridges())
    }

    /// Whether the prompt is to be read as messages.
    pub fn reads_messages(&self) -> bool {
        self.frame.is_some() || self.stages.iter().any(|stage| stage.trigger.reads_messages())
    }

    fn strategies(&self) -> impl Iterator<Item = &dyn Strategy> {
        self.stages.iter().map(|stage| &*stage.strategy)
    }
}

#[cfg(test)]
impl Recipe {
    /// One stage, by names and parameters (TOML).
    pub(crate) fn named(strategy: (&str, &str), trigger: (&str, &str)) -> Self {
        let strategy = crate::strategies::build(strategy.0, toml::from_str(strategy.1).unwrap()).unwrap();
        let trigger = crate::triggers::build(trigger.0, toml::from_str(trigger.1).unwrap()).unwrap();
        Recipe::one(strategy, trigger, 1)
    }
}
