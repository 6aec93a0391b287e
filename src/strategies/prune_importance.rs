//! Drops the least important messages first, with their pairs, to a budget of tokens; what stays, stays verbatim.
//!
//! Source: the seed selective-memory. A pair is a turn: in plain chat a user message with the reply, else a call of
//! the model with its results, so that no result stands alone. Its score is that of its least important message (the
//! seed's rule, list `seed-exact`) or of its most important one. The turn with the lowest score goes first, of equal
//! ones the oldest, until `max_tokens` are left; the newest pair never goes.
//!
//! By the seed the newest pair counts, too, and the score alone orders (`counts = "all"`, `order = "score"`). So a pair of 2,000 tokens takes all
//! before it along, and a short statement that rates 5 goes before a page that rates 6 for its length: of padded talks (statements of ten
//! words, replies of 700) nothing was left. By default the budget is that of what is older than the newest turns, and of one level (low, medium, high:
//! the seed's 1-3, 4-6, 7-10) the turn goes first that has the lowest score for its tokens.
//!
//! Deviations from the seed: its first user message belongs to the head here and is never dropped; its pair rule
//! takes the message next to the least important one, whoever wrote that, which can break the newest pair: here pairs
//! are fixed. Each message is rated once; an event sorts what is left.

use super::{Entry, Env, Fate, Item, Scope, Strategy};
use crate::context::{Block, Content, Edit};
use crate::params::params;

pub(super) mod scoring;

use scoring::{By, Pair, Rater, Ratings, Who};

pub(super) const ENTRY: Entry = Entry {
    name: "prune-importance",
    summary: "Drop the least important turns first, to a budget; keep the rest verbatim.",
    params: Params::PARAMS,
    takes_model: true,
    build: |params| Ok(Box::new(PruneImportance::new(Params::of(params)?)?)),
};

params! {
    struct Params {
        /// What rates without a model: `learned` odds, a list by name, or `PATH#HASH`.
        rules: String = "learned",
        /// Who rates messages; `auto`: the model, if there is one.
        rate: By = "auto",
        /// What a turn rates: its least or its most important message.
        pair: Option<Pair> = (of the rules),
        /// Tokens that are left, at most.
        max_tokens: u64 = 2000,
        /// Whose tokens count against the budget: those older than the newest turns, or all.
        counts: Counts = "older",
        /// What goes first: the lowest score for its tokens, or the lowest score.
        order: Order = "room",
        /// How many of the newest turns never go; at least 1.
        keep_last: u32 = 1,
    }
}

/// What a budget of tokens is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Counts {
    /// What is older than the newest turns, which stay whatever their length.
    #[default]
    Older,
    /// All that stands after the head: the seed's form.
    All,
}

impl Counts {
    /// Tokens that count beside those of the scope.
    pub(super) fn beside(self, scope: &Scope<'_>, in_scope: u64) -> u64 {
        match self {
            Counts::Older => 0,
            Counts::All => conversation(scope) - in_scope,
        }
    }
}

/// What goes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Order {
    /// What has the lowest score for its tokens, of the lowest level that there is.
    #[default]
    Room,
    /// What has the lowest score: the seed's form.
    Score,
}

impl Order {
    /// How two of these scores and tokens are ordered.
    pub(super) fn cmp(self, a: (f64, u64), b: (f64, u64)) -> std::cmp::Ordering {
        // The seed's scale: pleasantries up to 3, what must stay from 7 on.
        let level = |score: f64| u8::from(score > 3.0) + u8::from(score >= 7.0);
        match self {
            Order::Score => a.0.total_cmp(&b.0),
            Order::Room => {
                let by_level = level(a.0).cmp(&level(b.0));
                by_level.then((a.0 * b.1 as f64).total_cmp(&(b.0 * a.1 as f64)))
            }
        }
    }
}

struct PruneImportance {
    rater: Rater,
    pair: Pair,
    params: Params,
}

impl PruneImportance {
    fn new(params: Params) -> anyhow::Result<Self> {
        anyhow::ensure!(
            params.keep_last >= 1,
            "parameter `keep_last` must be at least 1: the newest pair never goes"
        );
        let rater = Rater::named(&params.rules)?;
        let pair = params.pair.unwrap_or(rater.pair());
        Ok(PruneImportance { rater, pair, params })
    }
}

/// A pair that may go.
pub(super) struct Unit {
    /// Indices of its blocks.
    pub(super) blocks: std::ops::Range<usize>,
    pub(super) score: f64,
    pub(super) tokens: u64,
}

/// The turns of a scope with their scores; blocks that are no messages belong to none.
pub(super) fn units(scope: &Scope<'_>, ratings: &Ratings, pair: Pair) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut last = None;
    for index in scope.blocks.clone() {
        let block = &scope.context.blocks[index];
        let Content::Step(step) = block.content else { continue };
        let score = ratings.of(step);
        if last != Some(block.turn) {
            last = Some(block.turn);
            units.push(Unit { blocks: index..index, score, tokens: 0 });
        }
        if let Some(unit) = units.last_mut() {
            unit.blocks.end = index + 1;
            unit.tokens += u64::from(block.tokens);
            unit.score = match pair {
                Pair::Least => unit.score.min(score),
                Pair::Most => unit.score.max(score),
            };
        }
    }
    units
}

/// Tokens of all that stands after the head, but for what no strategy may touch there.
pub(super) fn conversation(scope: &Scope<'_>) -> u64 {
    let tokens = |blocks: &mut dyn Iterator<Item = &Block>| blocks.map(|b| u64::from(b.tokens)).sum::<u64>();
    let (head, body) = scope.prompt.blocks.split_at(scope.prompt.n_head);
    let is_pinned = |b: &&Block| b.message().is_some_and(|step| scope.log.is_pinned(step));
    let pinned = if scope.log.has_pinned() { tokens(&mut body.iter().filter(is_pinned)) } else { 0 };
    scope.prompt.tokens - tokens(&mut head.iter()) - pinned
}

/// Tokens of a scope.
pub(super) fn tokens_in(scope: &Scope<'_>) -> u64 {
    scope.context.blocks[scope.blocks.clone()].iter().map(|block| u64::from(block.tokens)).sum()
}

/// Characters of a dropped message that its row shows.
const SHOWN: usize = 200;

/// The row of a message that goes.
pub(super) fn dropped(scope: &Scope<'_>, step: u32, score: f64) -> Item {
    let text = &scope.log.trajectory.steps[step as usize].text;
    let end = text.char_indices().nth(SHOWN).map_or(text.len(), |(at, _)| at);
    Item {
        text: text[..end].into(),
        kind: Who::of(scope.log, step).name(),
        source: Some((step, 0..end as u32)),
        score: Some(score),
        fate: Fate::Dropped,
        of: None,
    }
}

impl Strategy for PruneImportance {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let mut ratings = std::mem::take(env.state::<Ratings>());
        let by = self.params.rate;
        scoring::rate(&self.rater, by, scope, &mut ratings, env)?;
        let Params { max_tokens, counts, order, .. } = self.params;
        let in_scope = tokens_in(scope);
        let mut over = (in_scope + counts.beside(scope, in_scope)).saturating_sub(max_tokens);
        let mut units = if over == 0 { Vec::new() } else { units(scope, &ratings, self.pair) };
        units.sort_by(|a, b| {
            let by_worth = order.cmp((a.score, a.tokens), (b.score, b.tokens));
            by_worth.then(a.blocks.start.cmp(&b.blocks.start))
        });
        let mut gone = Vec::new();
        for unit in units {
            if over == 0 {
                break;
            }
            over = over.saturating_sub(unit.tokens);
            for block in unit.blocks {
                if let Content::Step(step) = scope.context.blocks[block].content {
                    env.work.items.push(dropped(scope, step, ratings.remove(step)));
                    gone.push(block);
                }
            }
        }
        *env.state() = ratings;
        gone.sort_unstable();
        Ok(gone.into_iter().map(|block| Edit::Drop { block }).collect())
    }

    fn is_recursive(&self) -> bool {
        true
    }

    fn keep_last(&self) -> u32 {
        self.params.keep_last
    }

    fn needs_model(&self) -> bool {
        self.params.rate == By::Model
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::salience::tests::events;
    use super::super::tests::after_events;
    use crate::context::log::Log;
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, Call, CallError, Card, Scores, TokenScore};

    const DESK: &str = "system: You are a support agent.
        user: Hi!
        agent: Hello, how can I help?
        user: My account ID is ABC123.
        agent: Thank you.
        user: Thanks!
        agent: What happens?
        user: I am getting error code 500.
        agent: Since when?
        user: OK, let me see
        agent: Take your time.
        user: I need this resolved by Friday.
        agent: Understood.
        user: Bye
        agent: Goodbye.
        user: Well
        agent: Yes.";

    const SUPPORT: &str = "rules = \"support\"";

    /// The seed's form.
    const SEED: &str = "rules = \"seed-exact\"\ncounts = \"all\"\norder = \"score\"";

    /// A talk in which short statements stand among long replies: which of the five an event leaves, of a newest pair of 700 words.
    fn padded(strategy: &str, params: &str) -> usize {
        let items = [
            "Empty lines are skipped.",
            "Rows without a number are dropped.",
            "The total is given in cents.",
            "A tab separates the columns.",
            "The file is report.tsv in folder out.",
        ];
        let pad = |n: usize| {
            "Slow music walks along the quiet river and the old harbour waits for a colour of the evening. "
                .repeat(n)
        };
        let mut script = "user: Please write a function that merges two tables.\nagent: Gladly.".to_owned();
        for item in items {
            script += &format!("\nuser: {item}\nagent: Noted.");
            for _ in 0..3 {
                script += &format!("\nuser: By the way, {}\nagent: I see. {}", pad(2), pad(40));
            }
        }
        let log = Log::script(&(script + "\nuser: Now write it.\nagent: Here it is."));
        let run = super::super::tests::run((strategy, params), ("turns", "n = 4"), &log);
        let left: String = run.events.last().unwrap().after.iter().map(|block| block.text(&log)).collect();
        items.iter().filter(|item| left.contains(*item)).count()
    }

    /// By the seed the newest pair counts, and takes all before it along. What is older has its own budget here, and a page
    /// that rates 6 for its length goes before a statement that rates 5.
    #[test]
    fn padding_does_not_crowd_out_what_is_short() {
        assert_eq!(padded("prune-importance", SUPPORT), 5);
        // What counts as important stays verbatim, the rest is left to the summary.
        let tight = &format!("{SUPPORT}\nkeep_last = 1\nhigh = 5.0\nmax_tokens = 700");
        assert_eq!(padded("tri-level", tight), 5);
        assert!(padded("tri-level", &format!("{tight}\ncounts = \"all\"")) <= 1);
        // As in the seed nothing of warm memory is shown that nobody asks for: but what is hot, or recalled.
        assert!(padded("tiered", "") <= 1);
        assert_eq!(
            padded(
                "prune-importance",
                &format!("{SUPPORT}\ncounts = \"all\"\norder = \"score\"\nmax_tokens = 800")
            ),
            0
        );
        assert!(padded("prune-importance", &format!("{SUPPORT}\norder = \"score\"")) < 5);
    }

    fn order(params: &str, trigger: &str) -> Vec<String> {
        let log = Log::script(DESK);
        let events = events("prune-importance", params, &log, trigger, None);
        events.into_iter().flat_map(|(_, work)| work.items).map(|item| item.text.to_string()).collect()
    }

    #[test]
    fn fillers_go_first_and_facts_stay() {
        let after = after_events(
            ("prune-importance", "rules = \"support\"\nmax_tokens = 34"),
            ("turns", "n = 1"),
            DESK,
        );
        let last = after.last().unwrap();
        for fact in ["ABC123", "error code 500", "by Friday"] {
            assert!(last.contains(fact), "{last}");
        }
        assert!(!last.contains("Thanks!") && !last.contains("let me see"), "{last}");
        // The budget of the seed's size drops nothing here.
        assert_eq!(order("", "n = 1"), [""; 0]);
    }

    /// By the seed's rules: the reply "Thank you." rates 3, and a pair is as good as its least message, so that the
    /// account goes first of all; the oldest of equals.
    #[test]
    fn the_seeds_pair_rule_loses_the_account() {
        let gone = order(&format!("{SEED}\nmax_tokens = 40"), "n = 1");
        assert_eq!(
            gone[..3],
            ["Hello, how can I help?", "My account ID is ABC123.", "Thank you."].map(str::to_owned)
        );
        let mended = order(&format!("{SEED}\npair = \"most\"\nmax_tokens = 40"), "n = 1");
        assert!(!mended.contains(&"My account ID is ABC123.".to_owned()), "{mended:?}");
    }

    #[test]
    fn the_newest_pair_never_goes_and_a_budget_below_it_takes_all_else() {
        let after = after_events(
            ("prune-importance", "rules = \"support\"\nmax_tokens = 0"),
            ("turns", "n = 1"),
            DESK,
        );
        assert!(after.iter().all(String::is_empty), "{after:?}");
        let log = Log::script(DESK);
        let run = super::super::tests::run(
            ("prune-importance", "rules = \"support\"\nmax_tokens = 0"),
            ("turns", "n = 1"),
            &log,
        );
        let newest: u64 = (13..16).map(|step| u64::from(log.tokens[step])).sum();
        let head: u64 = u64::from(log.tokens[0] + log.tokens[1]);
        assert_eq!(run.decisions.last().unwrap().tokens_sent, head + newest);
        assert!(super::super::build("prune-importance", toml::from_str("keep_last = 0").unwrap()).is_err());
    }

    /// Of turns that are worth the same the oldest go first, and one that alone is over the budget takes no other with it
    /// that is worth more.
    #[test]
    fn of_equal_turns_the_oldest_goes() {
        let log = Log::script(&format!("user: go\n{}", "agent: src/a.py is mended\n".repeat(9)));
        let events = events("prune-importance", "rules = \"support\"\nmax_tokens = 24", &log, "n = 1", None);
        let steps =
            events.iter().flat_map(|(_, work)| &work.items).map(|item| item.source.as_ref().unwrap().0);
        let steps: Vec<u32> = steps.collect();
        assert!(!steps.is_empty() && steps.iter().copied().eq(1..=steps.len() as u32), "{steps:?}");
    }

    #[test]
    fn a_turn_with_calls_goes_whole() {
        let script = "user: mend it
            thought: Let me look at it
            action: ls
            observation: a.py b.py
            thought: The bug is in a.py, because it divides by zero
            action: cat a.py
            observation: 1/0
            action: pwd
            observation: /x
            agent: so";
        let after = after_events(("prune-importance", "max_tokens = 25"), ("turns", "n = 1"), script);
        assert_eq!(
            after.last().unwrap(),
            "The bug is in a.py, because it divides by zerocat a.py1/0",
            "{after:?}"
        );
    }

    /// The talk that the seed speaks of, with what each message is worth at its end (`datasets/memory`): the turns in the order
    /// in which they go, those that hold something of high worth with a star, until half of the budget is left.
    fn order_of_turns(params: &str) -> Vec<String> {
        let talk = include_str!("../../datasets/memory/support-30.jsonl");
        let talk: serde_json::Value = serde_json::from_str(talk.lines().next().unwrap()).unwrap();
        let worth = include_str!("../../datasets/memory/importance.toml");
        let worth: toml::Table = toml::from_str(worth).unwrap();
        let high: Vec<i64> = worth["message"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|message| message["importance"].as_str() == Some("high"))
            .map(|message| message["turn"].as_integer().unwrap())
            .collect();
        let message = |message: &serde_json::Value| {
            let role = match message["role"].as_str().unwrap() {
                "assistant" => "agent",
                role => role,
            };
            format!("{role}: {}\n", message["content"].as_str().unwrap())
        };
        let script: String = talk["messages"].as_array().unwrap().iter().map(message).collect();
        let log = Log::script(&(script + "user: Bye.\nagent: Bye."));
        let events = events("prune-importance", params, &log, "n = 1", None);
        let steps = events.into_iter().flat_map(|(_, work)| work.items).map(|item| item.source.unwrap().0);
        // Turn k of the talk has steps 2k - 1 and 2k.
        let mut turns: Vec<u32> = steps.map(|step| step.div_ceil(2)).collect();
        turns.dedup();
        let star = |turn: u32| if high.contains(&i64::from(turn)) { "*" } else { "" };
        turns.into_iter().map(|turn| format!("{turn}{}", star(turn))).collect()
    }

    /// By the seed's rules turns 4 (the account) and 10 (Friday) are among the first to go; by `support` fillers and small talk
    /// are, but for what only somebody who understands the talk would keep: "No" to a question of the turn before (16), a
    /// cause without a cue (8), and an offer that the next turn refuses (15).
    #[test]
    fn the_talk_of_the_seed_loses_its_fillers_first() {
        let seed = order_of_turns(&format!("{SEED}\nmax_tokens = 500"));
        assert!(seed.iter().any(|turn| turn == "4*") && seed.iter().any(|turn| turn == "10*"), "{seed:?}");
        let support = order_of_turns("rules = \"support\"\nmax_tokens = 500");
        assert!(!support.iter().any(|turn| ["4*", "6*", "10*"].contains(&turn.as_str())), "{support:?}");
        let tight = order_of_turns("rules = \"support\"\nmax_tokens = 300");
        assert!(!tight.iter().any(|turn| ["4*", "6*", "10*"].contains(&turn.as_str())), "{tight:?}");
        let n_high = |turns: &[String]| turns.iter().filter(|turn| turn.ends_with('*')).count();
        assert!(n_high(&support) < n_high(&seed), "{support:?} {seed:?}");
        let least = order_of_turns("rules = \"support\"\npair = \"least\"\nmax_tokens = 500");
        assert!(n_high(&least) > n_high(&support), "{least:?}");
    }

    /// A model that gives a message with digits in it a 9, and all else a 0; or nothing at all.
    fn model(works: bool) -> Arc<Scripted> {
        let card = Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 4096 };
        Arc::new(Scripted::rule(card, move |call| {
            let Call::Score { prompt, continuations } = call else { return None };
            if !works {
                return Some(Err(CallError::Timeout(1)));
            }
            let text: String = prompt.parts.iter().map(|part| part.text.as_str()).collect();
            let message = text.rsplit("Message: ").next().unwrap_or("");
            let best = if message.contains("00") { 9 } else { 0 };
            let likely =
                |digit: usize| vec![TokenScore { end: 2, logprob: if digit == best { 0.0 } else { -50.0 } }];
            let continuations = (0..continuations.len()).map(likely).collect();
            Some(Ok(Answer::Scores(Scores {
                parts: Vec::new(),
                continuations,
                prompt_tokens: 9,
                cut_tokens: 0,
            })))
        }))
    }

    #[test]
    fn a_model_rates_each_message_once() {
        let log = Log::script(DESK);
        let events = events(
            "prune-importance",
            "rules = \"support\"\nmax_tokens = 32",
            &log,
            "n = 1",
            Some(model(true)),
        );
        let calls: u32 = events.iter().map(|(_, work)| work.calls).sum();
        // Six turns are compressed, eleven messages; the first event has six fixed ones.
        assert_eq!(calls, 11 + 6);
        let gone: Vec<&str> =
            events.iter().flat_map(|(_, work)| &work.items).map(|item| &*item.text).collect();
        assert!(
            gone.contains(&"My account ID is ABC123.") && !gone.contains(&"I am getting error code 500.")
        );
    }
}
