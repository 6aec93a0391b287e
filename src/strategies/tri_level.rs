//! Three levels of importance: high stays verbatim, medium is summarised, low goes when the budget is tight.
//!
//! The combined architecture of the seed selective-memory, by its four rules. (1) Every message is scored. (2) The
//! newest 3 to 5 turns stay whole, whatever their scores. (3) Of older ones, those of high importance stay verbatim,
//! and the rest is summarised. (4) Where the budget is tight, the least is touched first: low messages are left out
//! of the summary, then the summary gets fewer tokens, and then messages of high importance go, the least important
//! first.
//!
//! A message is one of its own in plain chat. A turn with calls is one in all, with the score of its best message, so
//! that no result stands without its call. Tight is judged before anything is written: high messages, the newest
//! turns and a full summary do not fit. The summary is one running text: what it said before is summarised again with
//! the fresh turns.

use super::prune_importance::scoring::{self, By, Ratings, Rules};
use super::prune_importance::{conversation, dropped};
use super::salience::fresh_steps;
use super::summary::generic;
use super::writer::{check_sentences, check_tokens, summarise};
use super::{Entry, Env, Scope, Strategy};
use crate::context::{Content, Edit};
use crate::trajectory::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "tri-level",
    summary: "Keep the important verbatim, summarise the rest, drop the unimportant when it is tight.",
    params: &[
        ("rules", "\"support\""),
        ("rate", "\"auto\""),
        ("high", "7.0"),
        ("low", "3.0"),
        ("summary_tokens", "200"),
        ("sentences", "\"3 to 4\""),
        ("max_tokens", "2000"),
        ("keep_last", "4"),
    ],
    takes_model: true,
    build: |params| Ok(Box::new(TriLevel::new(params.try_into()?)?)),
};

#[derive(serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// A list by name, or `PATH#HASH`.
    rules: String,
    rate: By,
    /// From this rating on importance is high, 1 to 10.
    high: f64,
    /// Up to this rating it is low.
    low: f64,
    /// Tokens of the summary, at most.
    summary_tokens: u32,
    /// How many sentences the prompt asks for.
    sentences: String,
    /// Tokens of all that stands after the head, at most.
    max_tokens: u64,
    /// How many of the newest turns stay whole.
    keep_last: u32,
}

impl Default for Params {
    fn default() -> Self {
        Params {
            rules: "support".to_owned(),
            rate: By::Auto,
            high: 7.0,
            low: 3.0,
            summary_tokens: 200,
            sentences: "3 to 4".to_owned(),
            max_tokens: 2000,
            keep_last: 4,
        }
    }
}

struct TriLevel {
    rules: Rules,
    params: Params,
}

impl TriLevel {
    fn new(params: Params) -> anyhow::Result<Self> {
        anyhow::ensure!(params.low < params.high, "parameter `low` must be less than `high`");
        check_tokens("summary_tokens", params.summary_tokens)?;
        check_sentences(&params.sentences)?;
        Ok(TriLevel { rules: Rules::named(&params.rules)?, params })
    }
}

/// What is remembered from event to event.
#[derive(Default)]
struct Memory {
    ratings: Ratings,
    summary: String,
}

/// A message, or a turn with calls.
struct Message {
    blocks: std::ops::Range<usize>,
    score: f64,
    tokens: u64,
}

impl Strategy for TriLevel {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let params = &self.params;
        let mut memory = std::mem::take(env.state::<Memory>());
        scoring::rate(&self.rules, params.rate, scope.log, &fresh_steps(scope), &mut memory.ratings, env)?;
        let mut high = messages(scope, &memory.ratings);
        let rest: Vec<Message> = high.extract_if(.., |message| message.score < params.high).collect();
        let in_scope: u64 =
            scope.context.blocks[scope.blocks.clone()].iter().map(|block| u64::from(block.tokens)).sum();
        // What the budget leaves to the scope, once the newest turns have theirs.
        let newest = conversation(scope) - in_scope;
        let left = params.max_tokens.saturating_sub(newest);
        let mut verbatim: u64 = high.iter().map(|message| message.tokens).sum();
        let is_tight = verbatim + u64::from(params.summary_tokens) > left;
        let mut gone: Vec<(usize, f64)> = Vec::new();
        if is_tight && verbatim > left {
            high.sort_by(|a, b| a.score.total_cmp(&b.score).then(a.blocks.start.cmp(&b.blocks.start)));
            let mut kept = high.into_iter();
            while verbatim > left
                && let Some(message) = kept.next()
            {
                verbatim -= message.tokens;
                gone.extend(message.blocks.map(|block| (block, message.score)));
            }
        }
        let summary_tokens = params.summary_tokens.min(u32::try_from(left - verbatim).unwrap_or(u32::MAX));

        let is_summarised = |message: &&Message| !is_tight || message.score > params.low;
        let block = |index: usize| scope.context.blocks[index].text(scope.log);
        let old = (!memory.summary.is_empty()).then(|| memory.summary.clone());
        let texts: Vec<String> = old
            .into_iter()
            .chain(rest.iter().filter(is_summarised).flat_map(|message| message.blocks.clone()).map(block))
            .collect();
        memory.summary = match texts.is_empty() || summary_tokens == 0 {
            true => String::new(),
            false => {
                summarise(&texts, summary_tokens, env, || generic(&texts.join("\n"), &params.sentences))?
            }
        };
        let low = rest.iter().filter(|message| !is_summarised(message));
        for (index, score) in low.flat_map(|m| m.blocks.clone().map(|b| (b, m.score))).chain(gone.clone()) {
            if let Content::Step(step) = scope.context.blocks[index].content {
                env.work.items.push(dropped(scope, step, score));
            }
        }
        // What is left of the scope: messages of high importance, under the summary of all else.
        let mut drops: Vec<usize> = gone.into_iter().map(|(block, _)| block).collect();
        drops.extend(rest.iter().flat_map(|message| message.blocks.clone()));
        let texts = scope.blocks.clone();
        drops.extend(texts.filter(|&b| !matches!(scope.context.blocks[b].content, Content::Step(_))));
        drops.sort_unstable();
        for &block in &drops {
            if let Content::Step(step) = scope.context.blocks[block].content {
                memory.ratings.remove(&step);
            }
        }
        let text = memory.summary.clone();
        *env.state() = memory;
        let insert = (!text.is_empty()).then_some(Edit::Insert { before: scope.blocks.start, text });
        Ok(insert.into_iter().chain(drops.into_iter().map(|block| Edit::Drop { block })).collect())
    }

    fn is_recursive(&self) -> bool {
        true
    }

    fn keep_last(&self) -> u32 {
        self.params.keep_last
    }
}

/// The messages of a scope that stand whole.
fn messages(scope: &Scope<'_>, ratings: &Ratings) -> Vec<Message> {
    let log = scope.log;
    let mut messages: Vec<Message> = Vec::new();
    let (mut turn, mut calls) = (None, false);
    for index in scope.blocks.clone() {
        let block = &scope.context.blocks[index];
        let Content::Step(step) = block.content else { continue };
        let (score, tokens) = (ratings.get(&step).copied().unwrap_or(f64::NAN), u64::from(block.tokens));
        let same = turn == Some(block.turn);
        if !same {
            let mut steps = log.turns[block.turn as usize].steps.clone();
            calls = steps.any(|step| matches!(log.kind(step), Kind::Action | Kind::Observation));
        }
        match messages.last_mut().filter(|_| calls && same) {
            Some(message) => {
                message.blocks.end = index + 1;
                message.score = message.score.max(score);
                message.tokens += tokens;
            }
            None => messages.push(Message { blocks: index..index + 1, score, tokens }),
        }
        turn = Some(block.turn);
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::super::salience::tests::events;
    use crate::log::Log;

    const DESK: &str = "user: Hi!
        agent: Hello, how can I help?
        user: My account ID is ABC123.
        agent: I look at the exports of the report first.
        user: Thanks!
        agent: What happens?
        user: I am getting error code 500.
        agent: Since when is it so?
        user: Bye
        agent: Goodbye.
        user: One more.
        agent: Yes?";

    fn last(params: &str) -> (String, Vec<String>) {
        let log = Log::script(DESK);
        let params = format!("keep_last = 1\n{params}");
        let events = events("tri-level", &params, &log, "n = 1", None);
        let text = events.last().unwrap().0.clone();
        (text, events.into_iter().flat_map(|(_, work)| work.items).map(|item| item.text).collect())
    }

    /// Turns 1 to 4 are compressed: high are the account and the error, and the rest is summarised, "Thanks!" (2) as well
    /// while there is room.
    #[test]
    fn high_stays_verbatim_and_the_rest_is_summarised() {
        let (text, gone) = last("");
        assert_eq!(gone, [""; 0]);
        assert!(text.ends_with("My account ID is ABC123.I am getting error code 500."), "{text}");
        assert!(text.contains("how can I help?") && text.contains("Thanks!"), "{text}");
    }

    /// Tokens: the account and the error 15, the newest turn and the open message about 7.
    #[test]
    fn what_is_touched_follows_the_order_of_the_seed() {
        // Tight: low goes, the summary stays.
        let (text, gone) = last("max_tokens = 60");
        assert!(
            gone.contains(&"Thanks!".to_owned()) && !gone.contains(&"My account ID is ABC123.".to_owned())
        );
        assert!(text.contains("I look at the exports") && text.contains("ABC123"), "{text}");
        // Tighter: the summary goes.
        let (text, _) = last("max_tokens = 26");
        assert!(!text.contains("I look at the exports") && text.contains("ABC123"), "{text}");
        // Tighter still: so does what is of high importance.
        let (text, gone) = last("max_tokens = 3");
        assert_eq!(text, "");
        assert!(gone.contains(&"My account ID is ABC123.".to_owned()), "{gone:?}");
    }
}
