//! Fires when the prompt reaches one of several limits: tokens, messages, results, time without a call.
//!
//! What a product counts, and how, is said by its policy. Which limits are set, and whether a prompt that just reaches one is
//! over it, is what the products' own rules differ in.

use serde::{Deserialize, Serialize};

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
use crate::context::messages::{Message, Messages, Who};
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "limits",
    summary: "Compress when the prompt reaches one of several limits.",
    params: Limits::PARAMS,
    build: |params| Ok(Box::new(Limits::of(params)?)),
};

params! {
    #[derive(Clone, Copy)]
    struct Limits {
        /// Fires at every decision.
        always: bool = false,
        /// Tokens of the window; policies have their own.
        window: u64 = 200000,
        /// Tokens of the window that are kept free.
        reserve: u64 = 0,
        /// Share of the window (less the reserve) at which it fires; 0 is no limit, here and below.
        share: f64 = 0.0 (from 0 to 1),
        /// Tokens below the window (less the reserve) at which it fires.
        below: u64 = 0,
        /// Tokens at which it fires, whatever the window.
        tokens: u64 = 0,
        /// Messages behind the head at which it fires.
        messages: u32 = 0,
        /// Results of tools that stand as they were logged at which it fires.
        results: u32 = 0,
        /// Messages since the last event, without those of the user, at which it fires.
        new: u32 = 0,
        /// Messages of the user since the last event at which it fires.
        new_turns: u32 = 0,
        /// Tokens that came since the last event at which it fires.
        new_tokens: u64 = 0,
        /// Tokens of the texts that events put there at which it fires.
        left: u64 = 0,
        /// The same as a share of the window (less the reserve).
        left_share: f64 = 0.0 (from 0 to 1),
        /// Minutes since the call before at which it fires, where the log has times.
        idle: u32 = 0,
        /// What of the prompt's tokens is counted: all, what stands up to the agent's last reply, or what stands before that.
        counts: Counts = "all",
        /// Whether texts of events that stand before all else are not counted among the messages.
        behind_left: bool = false,
        /// Whether messages of the head are counted, too.
        with_head: bool = false,
        /// Whether the tokens of the head are not counted.
        behind_head: bool = false,
        /// Whether texts that events put there are taken off the window, and off the prompt's tokens.
        without_left: bool = false,
        /// Whether all tokens that were logged are counted, as if no event had been: a product that leaves its history as it is.
        logged: bool = false,
        /// Whether messages are counted as events: each call of a reply as one.
        events: bool = false,
        /// Messages, or events, that an event of the stage left as the product counts them: those, too, that it no longer sends since
        /// they lost their call, or their result. 0 counts what stands.
        old: u32 = 0,
        /// Whether a prompt must be over a limit of tokens or messages, and not just reach it.
        over: bool = false,
        /// Whether it fires only where a message of the user came last, and counts those before it: after the agent's turn.
        after_turn: bool = false,
        /// Whether it fires only where nothing but messages of the user came since a reply of the agent.
        after_reply: bool = false,
        /// Whether it fires only where a result came last: amid the agent's turn.
        after_result: bool = false,
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Counts {
    All,
    /// A product that adds up what the provider said of the last call.
    Reply,
    /// One that goes by the prompt of the last call.
    Prompt,
}

impl Limits {
    fn reaches(&self, value: f64, limit: f64) -> bool {
        if self.over { value > limit } else { value >= limit }
    }

    /// Which limit the prompt has reached.
    fn reached(&self, moment: &Moment<'_>, since: &Since) -> Option<&'static str> {
        let room = self.window.saturating_sub(self.reserve);
        let left = moment.messages.map_or(0, Messages::made_tokens);
        let lefts = [
            (self.left > 0).then_some(self.left as f64),
            (self.left_share > 0.0).then(|| (self.left_share * room as f64).floor()),
        ];
        if lefts.into_iter().flatten().any(|limit| self.reaches(left as f64, limit)) {
            return Some("left");
        }
        let left = if self.without_left { left } else { 0 };
        let room = room.saturating_sub(left);
        let tokens = [
            (self.share > 0.0).then(|| (self.share * room as f64).floor()),
            (self.below > 0).then(|| room.saturating_sub(self.below) as f64),
            (self.tokens > 0).then_some(self.tokens as f64),
        ];
        let prompt = self.prompt_tokens(moment).saturating_sub(left) as f64;
        if tokens.into_iter().flatten().any(|limit| self.reaches(prompt, limit)) {
            return Some("tokens");
        }
        if self.idle > 0 && since.idle_minutes(moment) >= Some(i64::from(self.idle)) {
            return Some("idle");
        }
        let messages = moment.messages?;
        let counts = [
            (self.messages, self.n_messages(messages, since), "messages"),
            (self.results, count(messages, |who| who == Who::Tool), "results"),
        ];
        let reached =
            |(limit, n, _): &(u32, usize, _)| *limit > 0 && self.reaches(*n as f64, f64::from(*limit));
        if let Some((.., what)) = counts.iter().find(|count| reached(count)) {
            return Some(what);
        }
        let end = self.end(messages);
        let new = &messages.list[since.first_new(messages).min(end)..end];
        let users = new.iter().filter(|message| message.who == Who::User).count();
        let news = [(self.new, new.len() - users, "new"), (self.new_turns, users, "new turns")];
        let reached = |(limit, n, _): &&(u32, usize, _)| *limit > 0 && *n >= *limit as usize;
        let mut sum = 0;
        let mut grown = new.iter().map(|message| {
            sum += message.tokens;
            sum
        });
        let has_grown = self.new_tokens > 0 && grown.any(|tokens| tokens >= self.new_tokens);
        news.iter().find(reached).map(|(.., what)| *what).or(has_grown.then_some("new tokens"))
    }
}

impl Limits {
    /// Messages that came before the one that begins a turn.
    fn end(&self, messages: &Messages) -> usize {
        messages.list.len().saturating_sub(usize::from(self.after_turn))
    }

    fn prompt_tokens(&self, moment: &Moment<'_>) -> u64 {
        let Some(messages) = moment.messages else { return moment.context_tokens };
        let tokens = match (self.logged, messages.last_call, self.counts) {
            (true, ..) => messages.counted_full.unwrap_or(messages.logged()),
            (_, Some(call), Counts::Prompt) => call.prompt,
            (_, Some(call), Counts::Reply) => call.prompt + call.reply,
            _ => moment.context_tokens.saturating_sub(self.uncounted(moment)),
        };
        tokens.saturating_sub(if self.behind_head { messages.head_tokens() } else { 0 })
    }

    /// Tokens of what came since the agent's last reply, or with it.
    fn uncounted(&self, moment: &Moment<'_>) -> u64 {
        let Some(messages) = moment.messages.filter(|_| self.counts != Counts::All) else { return 0 };
        let reply = messages.list.iter().rposition(|message| message.who == Who::Assistant);
        // Before the first reply nothing is known of the prompt.
        let Some(reply) = reply else { return moment.context_tokens };
        let from = reply + usize::from(self.counts == Counts::Reply);
        let tokens = messages.list[from..].iter().map(|message| message.tokens).sum();
        match moment.log.rate(moment.turn).filter(|_| messages.by_usage()) {
            Some(rate) => rate.counted(tokens) as u64,
            None => tokens,
        }
    }

    fn n_messages(&self, messages: &Messages, since: &Since) -> usize {
        let start = if self.with_head { 0 } else { messages.n_head() };
        let mut list = &messages.list[start.min(self.end(messages))..self.end(messages)];
        if self.behind_left && start == 0 {
            let n_left = list.iter().take_while(|message| message.who == Who::Made).count();
            list = &list[n_left..];
        }
        let count = |list: &[Message]| match self.events {
            true => list.iter().map(|message| message.events as usize).sum(),
            false => list.len(),
        };
        match since.step.filter(|_| self.old > 0) {
            Some(last) => {
                let new = &list[list.partition_point(|message| message.step <= last)..];
                self.old as usize + count(new)
            }
            None => count(list),
        }
    }
}

fn count(messages: &Messages, is: impl Fn(Who) -> bool) -> usize {
    messages.list[messages.n_head()..].iter().filter(|message| message.is_whole && is(message.who)).count()
}

/// What has been since the last event.
#[derive(Default)]
struct Since {
    /// The step of the newest message at the last firing.
    step: Option<u32>,
    /// When the call before was made, in microseconds.
    call: Option<i64>,
}

impl Since {
    fn first_new(&self, messages: &Messages) -> usize {
        let is_old = |step: u32| self.step.is_some_and(|last| step <= last);
        messages.list.partition_point(|message| is_old(message.step)).max(messages.n_head())
    }

    fn idle_minutes(&self, moment: &Moment<'_>) -> Option<i64> {
        Some((moment.log.decided_at(moment.turn)? - self.call?) / 60_000_000)
    }
}

impl Trigger for Limits {
    fn detector(&self, _: &Log, _: u32) -> Box<dyn Detector> {
        Box::new(Watch { limits: *self, since: Since::default() })
    }

    fn reads_messages(&self) -> bool {
        self.messages + self.results + self.new + self.new_turns > 0
            || self.new_tokens + self.left > 0
            || self.left_share > 0.0
            || self.without_left
            || self.after_turn
            || self.after_reply
            || self.behind_head
            || self.logged
            || self.after_result
            || self.counts != Counts::All
    }
}

struct Watch {
    limits: Limits,
    since: Since,
}

impl Detector for Watch {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        let last = moment.messages.and_then(|messages| messages.list.last());
        let came_last = |who: Who| last.is_some_and(|last| last.who == who);
        let before_user = || {
            let list = moment.messages.map_or(&[][..], |messages| &messages.list);
            list.iter().rev().map(|message| message.who).find(|who| *who != Who::User)
        };
        let is_right_time = (!self.limits.after_turn || came_last(Who::User))
            && (!self.limits.after_reply || came_last(Who::User) && before_user() == Some(Who::Assistant))
            && (!self.limits.after_result || came_last(Who::Tool));
        let what = match self.limits.always {
            true => Some("always"),
            false => self.limits.reached(moment, &self.since),
        };
        self.since.call = moment.log.decided_at(moment.turn).or(self.since.call);
        let what = what.filter(|_| is_right_time)?;
        let last =
            moment.messages.and_then(|messages| messages.list.get(..self.limits.end(messages))?.last());
        self.since.step = last.map(|last| last.step);
        Some(Firing { counted: self.limits.prompt_tokens(moment), ..Firing::new(what, moment.turn, 1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fired;
    use super::*;
    use crate::context::counter::{By, Counter, Per};
    use crate::context::{Context, Edit};
    use crate::text::tokens::Tokenizer;

    const THREE: &str =
        "user: go\naction: a\nobservation: one two\naction: b\nobservation: one two\naction: c";

    #[test]
    fn a_limit_is_reached_or_passed() {
        let at = |params: &str, tokens: u64| {
            let limits = Limits::of(toml::from_str(params).unwrap()).unwrap();
            let log = Log::script(THREE);
            let mut detector = limits.detector(&log, 1);
            let moment = Moment { log: &log, turn: 2, context_tokens: tokens, messages: None };
            detector.advance(&moment).is_some()
        };
        assert_eq!([99, 100].map(|n| at("tokens = 100", n)), [false, true]);
        assert_eq!([100, 101].map(|n| at("tokens = 100\nover = true", n)), [false, true]);
        assert_eq!([79, 80].map(|n| at("window = 110\nreserve = 10\nshare = 0.8", n)), [false, true]);
        // The first of two: 85 % of 1,000, or 200 below it.
        assert_eq!([799, 800].map(|n| at("window = 1000\nshare = 0.85\nbelow = 200", n)), [false, true]);
    }

    #[test]
    fn it_never_fires_without_a_limit() {
        assert!(fired(THREE, "limits", "").is_empty());
        assert_eq!(
            fired(THREE, "limits", "always = true"),
            ["1: always ..1 1", "2: always ..2 1", "3: always ..3 1"]
        );
    }

    #[test]
    fn texts_of_events_are_counted_apart() {
        let log = Log::script(THREE);
        let mut context = Context::new(false);
        (0..3).for_each(|step| context.push_step(&log, step));
        let tokenizer = Tokenizer::load("o200k").unwrap();
        // Ten characters stand for the call and its result.
        let insert = Edit::Insert { before: 1, text: "----------".to_owned() };
        let edits = vec![insert, Edit::Drop { block: 1 }, Edit::Drop { block: 2 }];
        context.apply(&log, &tokenizer, 1..3, edits).unwrap();
        context.push_step(&log, 3);
        let counter = Counter { by: By::Chars, per: Per(1.0), ..Counter::default() };
        let mut messages = Messages::new(counter, true, false);
        messages.read(&log, &context, 0);
        assert_eq!((messages.made_tokens(), messages.tokens()), (10, 2 + 10 + 1));
        let fires = |params: &str| {
            let limits = Limits::of(toml::from_str(params).unwrap()).unwrap();
            assert!(limits.reads_messages(), "{params}");
            let moment = Moment { log: &log, turn: 2, context_tokens: 13, messages: Some(&messages) };
            limits.detector(&log, 1).advance(&moment).map(|firing| firing.kind)
        };
        assert_eq!([fires("left = 11"), fires("left = 10")], [None, Some("left")]);
        assert_eq!(
            [fires("window = 100\nleft_share = 0.11"), fires("window = 100\nleft_share = 0.1")],
            [None, Some("left")]
        );
        // Three tokens of the fifteen that the text leaves of the window.
        let share = |share: f64| fires(&format!("window = 25\nwithout_left = true\nshare = {share}"));
        assert_eq!([share(0.27), share(0.2)], [None, Some("tokens")]);
    }

    #[test]
    fn it_fires_by_what_came_since() {
        let log = Log::script(THREE);
        let limits = Limits::of(toml::from_str("new_tokens = 8").unwrap()).unwrap();
        let mut detector = limits.detector(&log, 1);
        let counter = Counter { by: By::Chars, per: Per(1.0), ..Counter::default() };
        let mut context = Context::new(false);
        context.push_step(&log, 0);
        context.n_head = 1;
        let mut messages = Messages::new(counter, true, false);
        let mut fired = Vec::new();
        // A call of one character, its result of seven, both again, and a call.
        for step in 1..6 {
            context.push_step(&log, step);
            messages.read(&log, &context, 0);
            let moment = Moment { log: &log, turn: 3, context_tokens: 1, messages: Some(&messages) };
            fired.push(detector.advance(&moment).map(|firing| firing.kind));
        }
        let grown = Some("new tokens");
        assert_eq!(fired, [None, grown, None, grown, None]);
    }
}
