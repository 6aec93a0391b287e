//! Three levels of importance: high stays verbatim, medium is summarised, low goes when the budget is tight.
//!
//! The combined architecture of the seed selective-memory, by its four rules. (1) Every message is scored. (2) The
//! newest 3 to 5 turns stay whole, whatever their scores. (3) Of older ones, those of high importance stay verbatim,
//! and the rest is summarised. (4) Where the budget is tight, the least is touched first: low messages are left out
//! of the summary, then the summary gets fewer tokens, and then messages of high importance are no longer verbatim:
//! first those that are longer than all the room there is, then those of the lowest score for their tokens (`order = "score"`: of the lowest
//! score). They are summarised with the rest. The budget is that of what is older than the newest turns: where these count, too
//! (`counts = "all"`, how the seed counts when it prunes), four turns of 500 tokens leave nothing to all that was important before.
//!
//! A message is one of its own in plain chat. A turn with calls is one in all, with the score of its best message, so
//! that no result stands without its call. Tight is judged before anything is written: high messages, the newest
//! turns and a full summary (or the rest as it is, if that is shorter) do not fit. The summary is one running text: what it
//! said before is summarised again with the fresh turns. Where fewer tokens are left than hold a sentence there is none.

use super::prune_importance::scoring::{self, By, Rater, Ratings};
use super::prune_importance::{Counts, Order, Taken, dropped, tokens_in};
use super::summary::generic;
use super::writer::{LEAST_TOKENS, check_sentences, check_tokens, summarise};
use super::{Entry, Env, Scope, Strategy, extractive};
use crate::context::{Content, Edit};
use crate::params::params;
use crate::trajectory::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "tri-level",
    summary: "Keep the important verbatim, summarise the rest, drop the unimportant when it is tight.",
    params: Params::PARAMS,
    takes_model: true,
    build: |params| Ok(Box::new(TriLevel::new(Params::of(params)?)?)),
};

params! {
    struct Params {
        /// What rates without a model: `learned` odds, a list by name, or `PATH#HASH`.
        rules: String = "learned",
        /// Who rates messages; `auto`: the model, if there is one.
        rate: By = "auto",
        /// From this rating on importance is high, 1 to 10.
        high: f64 = 7.0,
        /// Up to this rating it is low.
        low: f64 = 3.0,
        /// Tokens of the summary, at most.
        summary_tokens: u32 = 200,
        /// How many sentences the prompt asks for.
        sentences: String = "3 to 4",
        /// Tokens that are left, at most; without it `share` tells.
        max_tokens: Option<u64> = (of the share),
        /// Share of all that was compressed so far that is left, at most; at least 2,000 tokens.
        share: f64 = 0.3 (from 0 to 1),
        /// Tokens that `share` leaves, at most; 0: no limit.
        most: u64 = 10_000,
        /// Whose tokens count against the budget: those older than the newest turns, or all.
        counts: Counts = "older",
        /// What goes first: the lowest score for its tokens, or the lowest score.
        order: Order = "room",
        /// How many of the newest turns stay whole.
        keep_last: u32 = 4,
    }
}

struct TriLevel {
    rater: Rater,
    params: Params,
}

impl TriLevel {
    fn new(params: Params) -> anyhow::Result<Self> {
        anyhow::ensure!(params.low < params.high, "parameter `low` must be less than `high`");
        anyhow::ensure!(
            params.keep_last >= 1,
            "parameter `keep_last` must be at least 1: the newest turns stay"
        );
        check_tokens("summary_tokens", params.summary_tokens)?;
        check_sentences(&params.sentences)?;
        Ok(TriLevel { rater: Rater::named(&params.rules)?, params })
    }
}

/// What is remembered from event to event.
#[derive(Default)]
struct Memory {
    ratings: Ratings,
    taken: Taken,
    summary: String,
    /// The messages that the summary stands for: step and rating.
    summarised: Vec<(u32, f64)>,
}

/// A message, or a turn with calls.
struct Message {
    /// Indices of its blocks; what stands between them is none of it.
    blocks: Vec<usize>,
    score: f64,
    tokens: u64,
}

impl Strategy for TriLevel {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let (params, log) = (&self.params, scope.log);
        let mut memory = std::mem::take(env.state::<Memory>());
        scoring::rate(&self.rater, params.rate, scope, &mut memory.ratings, env)?;
        let mut high = messages(scope, &memory.ratings);
        let mut rest: Vec<Message> = high.extract_if(.., |message| message.score < params.high).collect();
        let in_scope = tokens_in(scope);
        let budget = memory.taken.budget(scope, params.max_tokens, (params.share, params.most));
        let left = budget.saturating_sub(params.counts.beside(scope, in_scope));
        let mut verbatim: u64 = high.iter().map(|message| message.tokens).sum();
        let summarised = in_scope - verbatim;
        let is_tight = verbatim + summarised.min(u64::from(params.summary_tokens)) > left;
        let is_low = |message: &Message| is_tight && message.score <= params.low;
        let low: Vec<Message> = rest.extract_if(.., |message| is_low(message)).collect();
        verbatim = make_room(&mut high, &mut rest, verbatim, left, params.order);
        let room = u32::try_from(left - verbatim).unwrap_or(u32::MAX);
        let summary_tokens = params.summary_tokens.min(room);

        let old = std::mem::take(&mut memory.summary);
        let blocks = || rest.iter().flat_map(|message| &message.blocks).map(|&at| &scope.context.blocks[at]);
        let mut texts: Vec<String> = blocks().map(|block| block.text(log)).collect();
        let mut said: String = blocks().map(|block| block.said(log)).collect();
        if !old.is_empty() {
            said = format!("{old}\n{said}");
            texts.insert(0, old);
        }
        let old_tokens: u64 = scope.context.blocks[scope.blocks.clone()]
            .iter()
            .filter(|block| !matches!(block.content, Content::Step(_)))
            .map(|block| u64::from(block.tokens))
            .sum();
        // What holds no sentence is left as it is where it fits, and asked of nobody.
        let is_short = old_tokens + rest.iter().map(|message| message.tokens).sum::<u64>()
            <= u64::from(LEAST_TOKENS.min(summary_tokens));
        if is_short {
            memory.summary = extractive::summary(&texts, summary_tokens, env.tokenizer);
        } else if !texts.is_empty() && summary_tokens >= LEAST_TOKENS {
            let fallback = env.work.fallback.take();
            memory.summary = summarise(&texts, summary_tokens, env, || generic(&said, &params.sentences))?;
            env.work.fallback = fallback.or(env.work.fallback);
        }
        let has_summary = !memory.summary.is_empty();
        // What is left of the scope: messages of high importance, under the summary of all else.
        let steps = |messages: &[Message]| -> Vec<(u32, f64)> {
            let of = |message: &Message| {
                let step = |&at: &usize| match scope.context.blocks[at].content {
                    Content::Step(step) => Some((step, message.score)),
                    _ => None,
                };
                message.blocks.iter().filter_map(step).collect::<Vec<_>>()
            };
            messages.iter().flat_map(of).collect()
        };
        let mut gone = steps(&low);
        memory.summarised.extend(steps(&rest));
        if !has_summary {
            gone.append(&mut memory.summarised);
        }
        env.work.items.extend(gone.into_iter().map(|(step, score)| dropped(scope, step, score)));
        let mut drops: Vec<usize> = Vec::new();
        for at in low.iter().chain(&rest).flat_map(|message| message.blocks.iter().copied()) {
            if let Content::Step(step) = scope.context.blocks[at].content {
                memory.ratings.remove(step);
            }
            drops.push(at);
        }
        let is_step = |at: &usize| matches!(scope.context.blocks[*at].content, Content::Step(_));
        drops.extend(scope.blocks.clone().filter(|at| !is_step(at)));
        drops.sort_unstable();
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

    fn needs_model(&self) -> bool {
        self.params.rate == By::Model
    }
}

/// Moves the least of the messages that stand verbatim to the rest until the others fit; returns their tokens.
fn make_room(
    high: &mut Vec<Message>,
    rest: &mut Vec<Message>,
    mut verbatim: u64,
    left: u64,
    order: Order,
) -> u64 {
    if verbatim > left {
        // What could not stand there alone takes nothing else with it.
        let fits = |message: &Message| message.tokens <= left;
        let worth = |message: &Message| (message.score, message.tokens);
        high.sort_by(|a, b| {
            let by_rank = fits(a).cmp(&fits(b)).then(order.cmp(worth(a), worth(b)));
            by_rank.then(a.blocks.cmp(&b.blocks))
        });
        let mut n_gone = 0;
        while verbatim > left {
            verbatim -= high[n_gone].tokens;
            n_gone += 1;
        }
        rest.extend(high.drain(..n_gone));
        rest.sort_by(|a, b| a.blocks.cmp(&b.blocks));
    }
    verbatim
}

/// The messages of a scope that stand whole.
fn messages(scope: &Scope<'_>, ratings: &Ratings) -> Vec<Message> {
    let log = scope.log;
    let mut messages: Vec<Message> = Vec::new();
    let (mut turn, mut calls) = (None, false);
    for index in scope.blocks.clone() {
        let block = &scope.context.blocks[index];
        let Content::Step(step) = block.content else { continue };
        let (score, tokens) = (ratings.of(step), u64::from(block.tokens));
        let same = turn == Some(block.turn);
        if !same {
            let mut steps = log.turns[block.turn as usize].steps.clone();
            calls = steps.any(|step| matches!(log.kind(step), Kind::Action | Kind::Observation));
        }
        match messages.last_mut().filter(|_| calls && same) {
            Some(message) => {
                message.blocks.push(index);
                message.score = message.score.max(score);
                message.tokens += tokens;
            }
            None => messages.push(Message { blocks: vec![index], score, tokens }),
        }
        turn = Some(block.turn);
    }
    messages
}

#[cfg(test)]
mod tests {
    use super::super::build;
    use super::super::salience::tests::events;
    use crate::context::log::Log;
    use crate::context::needs::Needs;
    use crate::replay::{Event, Observer, Recipe, replay};
    use crate::text::tokens::Tokenizer;
    use crate::triggers::{Detector, Firing, Moment, Trigger};

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
        // As the seed counts.
        let params = format!("rules = \"support\"\nkeep_last = 1\ncounts = \"all\"\n{params}");
        let events = events("tri-level", &params, &log, "n = 1", None);
        let text = events.last().unwrap().0.clone();
        (
            text,
            events.into_iter().flat_map(|(_, work)| work.items).map(|item| item.text.to_string()).collect(),
        )
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

    /// Tokens: the account and the error 16, all else of turns 1 to 4 about 28, the newest turn and the open message 6.
    #[test]
    fn what_is_touched_follows_the_order_of_the_seed() {
        // What all fits into is not tight, however many tokens a summary may have.
        assert_eq!(last("max_tokens = 80").1, [""; 0]);
        // Tight: the fresh message of low importance (a question, 3) goes, the summary of what was said before stays.
        let (text, gone) = last("max_tokens = 34");
        assert_eq!(gone, ["Since when is it so?"]);
        let high = "My account ID is ABC123.I am getting error code 500.";
        assert!(text.starts_with("Hello, how can I help?") && text.ends_with(high), "{text}");
        // Tighter: more of low importance goes.
        let (text, gone) = last("max_tokens = 30");
        assert!(text.ends_with(high) && gone.contains(&"Thanks!".to_owned()), "{text} {gone:?}");
        // Tighter still: so does what is of high importance.
        let (text, gone) = last("max_tokens = 3");
        assert_eq!(text, "");
        assert!(gone.contains(&"My account ID is ABC123.".to_owned()), "{gone:?}");
    }

    /// Whatever the budget: what is nowhere any more is told, also what only a summary stood for that is gone.
    #[test]
    fn what_goes_is_told() {
        let high = ["My account ID is ABC123.", "I am getting error code 500."];
        let rest = [
            "Hello, how can I help?",
            "I look at the exports of the report first.",
            "Thanks!",
            "What happens?",
            "Since when is it so?",
        ];
        let mut n_without = 0;
        for budget in 0..60 {
            let (text, gone) = last(&format!("max_tokens = {budget}"));
            let is_gone = |message: &str| gone.iter().any(|told| told == message);
            assert!(high.iter().all(|message| text.contains(message) || is_gone(message)), "{budget} {text}");
            let summary = high.iter().fold(text.clone(), |text, message| text.replace(message, ""));
            if summary.is_empty() {
                n_without += 1;
                assert!(rest.iter().all(|message| is_gone(message)), "{budget} {text} {gone:?}");
            }
        }
        assert!(n_without > 3);
    }

    /// A page that is rated highest and fits nowhere does not push out the fact beside it, and its gist is summarised.
    #[test]
    fn what_is_too_long_takes_nothing_with_it() {
        let page = "error 500: must refund 12 euros by Friday because order 4711 failed, and the log goes on and on and on~".repeat(40);
        let log = Log::script(&format!(
            "user: Go.\nagent: Yes?\nuser: My account ID is ABC123.\nagent: {page}\nuser: One more.\nagent: Yes?\nuser: So?\nagent: Yes."
        ));
        let events =
            events("tri-level", "rules = \"support\"\nkeep_last = 1\nmax_tokens = 120", &log, "n = 1", None);
        let text = &events.last().unwrap().0;
        assert!(text.contains("My account ID is ABC123.") && text.contains("refund 12 euros"), "{text}");
    }

    /// Names the first result of turn 1 alone, then all turns.
    struct OneResultFirst;

    impl Trigger for OneResultFirst {
        fn detector(&self, _: &Log, _: u32) -> Box<dyn Detector> {
            Box::new(OneResultFirst)
        }
    }

    impl Detector for OneResultFirst {
        fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
            let only = (moment.turn == 3).then(|| vec![moment.log.turns[1].steps.start + 2]);
            Some(Firing { only, ..Firing::new("test", moment.turn, 1.0) })
        }
    }

    /// A turn of two calls and two results, of which an event took one: its summary stands between the rest of the turn.
    #[test]
    fn a_summary_inside_a_turn_is_no_part_of_it() {
        let page = |what: &str| {
            format!("many words about {what} in the hills~and then the sheep that stand there~").repeat(3)
        };
        let log = Log::script(&format!(
            "user: go\naction: ls a\nalso: ls b\nobservation: {}\nobservation: {}\nagent: one\nagent: two\nagent: three\nagent: end",
            page("rain"),
            page("snow")
        ));
        struct Nobody;
        impl Observer for Nobody {}
        let strategy = build("tri-level", toml::from_str("keep_last = 1\nlow = 1.0").unwrap()).unwrap();
        let recipe = Recipe::one(strategy, Box::new(OneResultFirst), 1);
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let run = replay(&log, &recipe, &tokenizer, &Needs::default(), &mut Nobody).unwrap();
        let texts = |event: &Event| event.after.iter().map(|block| block.text(&log)).collect::<String>();
        let before = run.events.iter().find(|event| event.only.is_some()).unwrap();
        assert!(texts(before).contains("rain"), "{}", texts(before));
        let last = texts(run.events.last().unwrap());
        assert!(last.contains("rain") && last.contains("snow"), "{last}");
    }
}
