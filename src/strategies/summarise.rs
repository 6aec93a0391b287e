//! A summary stands for the scope, as products make one: by the variant's model, or by what stands in for it.
//!
//! Without a model no text of ours is that of a product. Its loss lies between that of an empty summary and that of the
//! lines that later needs ask for, at the product's usual length ([`Form::Oracle`] sees the future); the extractive text is
//! a stand-in between the two. What was read lately can be attached again, as some products do. The calls that the product
//! makes are reckoned where no model is asked: all that it would be shown, and a text of the usual length.

mod source;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::summary::generic;
use super::writer::{FALLBACK, check_tokens, write_within};
use super::{Entry, Env, Flaw, Scope, Strategy, codex, extractive, oracle};
use crate::context::{Block, Content, Edit};
use crate::models::prompt::{Data, Prompt};
use crate::params::params;
use crate::trajectory::{Kind, Role};
use crate::turns::actions::ActionKind;
use source::{Piece, Source};

const UPDATE: &str = include_str!("summarise/update.txt");
const CHECK: &str = include_str!("summarise/check.txt");
/// How long a summary is, as the prompt has it.
const LENGTH: &str = "as many as it takes, up to 40";

pub(super) const ENTRY: Entry = Entry {
    name: "summarise",
    summary: "A summary in the place of the scope, by a model, or by what stands in for it.",
    params: Summarise::PARAMS,
    takes_model: true,
    build: |params| {
        let summarise = Summarise::of(params)?;
        check_tokens("tokens", summarise.tokens)?;
        Ok(Box::new(summarise))
    },
};

params! {
    struct Summarise {
        /// Tokens that a summary usually has: what stands in for it has as many, and a model's has four times as many at most.
        tokens: u32 = 1000,
        /// What stands in for it without a model: nothing, lines of the scope, or the lines that later needs ask for.
        form: Form = "extract",
        /// Characters of a result that a model is shown; 0 for all.
        result_chars: u32 = 0,
        /// Whether a model is shown words alone, without calls and results.
        text_only: bool = false,
        /// Tokens that a model is shown; 0 for all.
        input_tokens: u32 = 0,
        /// Whether each text of the scope has a summary of its own, in its place.
        each: bool = false,
        /// Which of the scope these are.
        shows: Shows = "newest",
        /// Tokens that one call is shown; of a longer scope each piece has a summary, and these stand one after the other. 0 for one call.
        piece_tokens: u32 = 0,
        /// Messages of the user before the scope from which on the model is shown what was compressed before, as it was logged.
        overlap: u32 = 0,
        /// Whether an older summary is shown apart, as one to bring up to date.
        update: bool = false,
        /// Whether what it is shown begins with a message of the user, or an older summary; where neither is among those tokens
        /// (here characters by four) it is not asked, and a fixed text says so.
        from_user: bool = false,
        /// How often a model is asked at most, until what it says is of use: shorter than its source, no loop, no refusal.
        tries: u32 = 2 (at least 1),
        /// Whether a text that is longer than the scope leaves that as it was; else lines of the scope stand there.
        reject_longer: bool = false,
        /// Where it does: tokens that are counted beside the messages of the new prompt, up to the agent's last reply and as the policy counts
        /// them one by one, which is rejected, too, if it then has more than the limit counted of the old. 0 for no such count.
        reject_beside: u64 = 0,
        /// What stands there where it says nothing of use: lines of the scope, nothing, or all of the scope as it was.
        fallback: Fallback = "extract",
        /// Whether the model is shown its summary once more, beside the log, to mend it; what it then says stands, if it is of use.
        check: bool = false,
        /// Files read that stay, the newest of each, behind the summary.
        files: u32 = 0,
        /// Tokens of such a file at most; a longer one stays out.
        file_tokens: u32 = 5000,
        /// Tokens of them all at most.
        all_files_tokens: u32 = 50000,
        /// Newest messages of the user that stay.
        users: u32 = 0,
        /// Tokens of them at most; the oldest is cut to fit.
        user_tokens: u32 = 20000,
        /// Where the summary stands: before what stays of the scope, or behind it.
        place: Place = "first",
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Form {
    Empty,
    Extract,
    Oracle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Place {
    First,
    Last,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Shows {
    Newest,
    Oldest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Fallback {
    Extract,
    Omit,
    Keep,
}

impl Fallback {
    /// As it is told in the table of events.
    fn name(self) -> &'static str {
        match self {
            Fallback::Extract => FALLBACK,
            Fallback::Omit => "nothing",
            Fallback::Keep => "the original",
        }
    }
}

impl Strategy for Summarise {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        if self.each {
            return self.rewritten(scope, env);
        }
        let (text, n_texts) = match self.is_read(scope) {
            false => (NOT_READ.to_owned(), 1),
            true => {
                let source = Source::of(self, scope, env);
                if self.text_only && source.is_empty() {
                    return Ok(Vec::new());
                }
                let Some(text) = self.text(&source, env)? else { return Ok(Vec::new()) };
                (text, source.pieces.len() as u32)
            }
        };
        if self.reject_longer && self.reject_beside > 0 && self.is_longer(&text, scope, env) {
            env.work.fallback = Some(Fallback::Keep.name());
            return Ok(Vec::new());
        }
        let mut edits: BTreeMap<usize, Edit> = match (env.model, self.form) {
            (None, Form::Oracle) => oracle::edits(scope, env, self.tokens.saturating_mul(n_texts)),
            _ => scope.blocks.clone().map(|block| Edit::Drop { block }).collect(),
        }
        .into_iter()
        .map(|edit| (edit.block(), edit))
        .collect();
        self.keep_files(scope, &mut edits);
        self.keep_users(scope, env, &mut edits);
        let before = if self.place == Place::First { scope.blocks.start } else { scope.blocks.end };
        let insert = (!text.is_empty()).then_some(Edit::Insert { before, text });
        let mut all: Vec<Edit> = insert.into_iter().chain(edits.into_values()).collect();
        if self.place == Place::Last && !all.is_empty() {
            let is_insert = matches!(all[0], Edit::Insert { .. });
            all.rotate_left(usize::from(is_insert));
        }
        Ok(all)
    }

    fn is_recursive(&self) -> bool {
        true
    }

    fn sees_future(&self) -> bool {
        self.form == Form::Oracle
    }

    fn is_control(&self) -> bool {
        self.form != Form::Extract
    }
}

/// What stands for a summary that nobody wrote.
const NOT_READ: &str =
    "What stood here before was too long for a summary, and so nothing of it is known any more from here on.";

impl Summarise {
    /// Whether the product counts more of the prompt with this text than its limit did of the prompt before.
    fn is_longer(&self, text: &str, scope: &Scope<'_>, env: &Env<'_>) -> bool {
        let (log, prompt) = (scope.log, scope.prompt);
        let units =
            |blocks: &[Block]| blocks.iter().map(|block| scope.counter.of_part(log, block)).sum::<u64>();
        let is_reply =
            |block: &Block| block.origin().is_some_and(|step| log.trajectory.steps[step as usize].is_agent());
        let end = prompt.blocks.iter().rposition(is_reply).map_or(prompt.n_head, |last| last + 1);
        let all = units(&prompt.blocks[prompt.n_head.min(end)..end]);
        let kept = all.saturating_sub(units(&scope.context.blocks[scope.blocks.clone()]));
        let content = Content::Generated { text: text.to_owned() };
        let made = Block { turn: 0, tokens: env.tokenizer.count(text), content, fresh: true, left: 0 };
        scope.counter.tokens(kept + units(&[made])) + self.reject_beside > scope.counted
    }

    /// Puts a summary in the place of each text that is longer.
    fn rewritten(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let mut edits = Vec::new();
        for block in scope.blocks.clone() {
            let one = Scope { blocks: block..block + 1, turns: scope.turns.clone(), ..*scope };
            let Some(text) = self.text(&Source::of(self, &one, env), env)? else { continue };
            let is_shorter =
                scope.context.may_grow() || env.tokenizer.count(&text) <= scope.context.blocks[block].tokens;
            match (env.model, self.form) {
                (None, Form::Oracle) => {
                    let kept = oracle::edits(&one, env, self.tokens).into_iter().map(|edit| match edit {
                        Edit::Drop { block } => Edit::Mask { block, text: String::new() },
                        edit => edit,
                    });
                    edits.extend(kept);
                }
                _ if is_shorter => edits.push(Edit::Mask { block, text }),
                _ => {}
            }
        }
        Ok(edits)
    }

    /// What stands for the scope; none where the scope stays as it was.
    fn text(&self, source: &Source, env: &mut Env<'_>) -> anyhow::Result<Option<String>> {
        let (mut texts, scope_tokens) = (Vec::new(), source.tokens);
        for (piece, number) in source.pieces.iter().zip(0..) {
            // What was there before is brought up to date once.
            let old = source.old.as_deref().filter(|_| number == 0);
            let written = match env.model {
                Some(_) => self.written(piece, old, scope_tokens, env)?,
                None => Some(self.stand_in(piece, old, scope_tokens, env)),
            };
            match (written, self.fallback) {
                (Some(text), _) => texts.push(text),
                (None, fallback) => {
                    let fallback = match env.work.degenerate.last() {
                        Some(Flaw::Longer) if self.reject_longer => Fallback::Keep,
                        Some(Flaw::Longer) => Fallback::Extract,
                        _ => fallback,
                    };
                    env.work.fallback = Some(fallback.name());
                    match fallback {
                        Fallback::Keep => return Ok(None),
                        Fallback::Extract => texts.push(self.extract(piece, old, scope_tokens, env)),
                        Fallback::Omit => {}
                    }
                }
            }
        }
        texts.retain(|text: &String| !text.is_empty());
        Ok(Some(texts.join("\n\n")))
    }

    /// What the model says of a piece of a scope of so many tokens.
    fn written(
        &self,
        piece: &Piece,
        old: Option<&str>,
        scope_tokens: u32,
        env: &mut Env<'_>,
    ) -> anyhow::Result<Option<String>> {
        let (log, most) = (piece.texts.concat(), self.tokens.saturating_mul(4));
        let prompt = match old {
            Some(old) => render(UPDATE, &log, old)?,
            None => generic(&log, LENGTH)?,
        };
        let first = write_within(self.tries, prompt, most, scope_tokens, env)?;
        match first {
            Some(first) if self.check => {
                let second = write_within(1, render(CHECK, &log, &first)?, most, scope_tokens, env)?;
                Ok(Some(second.unwrap_or(first)))
            }
            first => Ok(first),
        }
    }

    /// What stands for a model's text, and the tokens that the product's calls would have.
    fn stand_in(&self, piece: &Piece, old: Option<&str>, scope_tokens: u32, env: &mut Env<'_>) -> String {
        let old_tokens = old.map_or(0, |old| env.tokenizer.count(old));
        let shown = u64::from(piece.tokens) + u64::from(old_tokens);
        let said = u64::from(self.tokens).min(shown);
        env.work.tokens_in += shown + if self.check { shown + said } else { 0 };
        env.work.tokens_out += said + if self.check { said } else { 0 };
        match self.form {
            Form::Extract => self.extract(piece, old, scope_tokens, env),
            Form::Empty | Form::Oracle => String::new(),
        }
    }

    /// Lines of what would be shown, never more than the scope has.
    fn extract(&self, piece: &Piece, old: Option<&str>, scope_tokens: u32, env: &Env<'_>) -> String {
        let texts: Vec<String> =
            old.into_iter().map(str::to_owned).chain(piece.texts.iter().cloned()).collect();
        extractive::summary(
            &texts,
            env.tokenizer.count_up_to(&texts, self.tokens.min(scope_tokens)),
            env.tokenizer,
        )
    }

    /// Whether a message of the user, or a summary, is among the newest tokens of the scope.
    fn is_read(&self, scope: &Scope<'_>) -> bool {
        let mut left = if self.input_tokens > 0 { self.input_tokens as usize } else { usize::MAX };
        let fits = |block: &&Block| {
            let tokens = block.text(scope.log).chars().count().div_ceil(4);
            left.checked_sub(tokens).map(|rest| left = rest).is_some()
        };
        let mut shown = scope.context.blocks[scope.blocks.clone()].iter().rev().take_while(fits);
        let is_user = |block: &Block| match block.content {
            Content::Step(step) => scope.log.trajectory.steps[step as usize].role == Role::User,
            _ => block.message().is_none(),
        };
        !self.from_user || shown.any(is_user)
    }

    /// Lets the newest words of the user stay.
    fn keep_users(&self, scope: &Scope<'_>, env: &Env<'_>, edits: &mut BTreeMap<usize, Edit>) {
        let mut left = self.user_tokens;
        let is_user = |block: &usize| codex::words_of_user(scope, *block).is_some();
        for block in scope.blocks.clone().rev().filter(is_user).take(self.users as usize) {
            if scope.context.blocks[block].tokens <= left {
                left -= scope.context.blocks[block].tokens;
                edits.remove(&block);
                continue;
            }
            let pieces = codex::words_of_user(scope, block).unwrap_or_default();
            let pieces = codex::beginning(scope, pieces.into_iter(), left, env);
            if !pieces.is_empty() {
                edits.insert(block, Edit::Keep { block, pieces });
            }
            break;
        }
    }

    /// Lets files that were read lately stay, the newest reading of each.
    fn keep_files(&self, scope: &Scope<'_>, edits: &mut BTreeMap<usize, Edit>) {
        let log = scope.log;
        let (mut seen, mut left) = (Vec::new(), self.all_files_tokens);
        for block in scope.blocks.clone().rev() {
            if seen.len() >= self.files as usize {
                break;
            }
            let Content::Step(step) = scope.context.blocks[block].content else { continue };
            let Some(call) = log.call_of(step).filter(|_| log.kind(step) == Kind::Observation) else {
                continue;
            };
            let kind = log.action_kinds[call as usize];
            let read = &log.trajectory.steps[call as usize].text;
            if kind != Some(ActionKind::ReadFile) || seen.contains(&read) {
                continue;
            }
            seen.push(read);
            let tokens = scope.context.blocks[block].tokens;
            if tokens <= self.file_tokens.min(left) {
                left -= tokens;
                edits.remove(&block);
            }
        }
    }
}

/// A prompt that shows a log and a summary.
fn render(template: &str, log: &str, summary: &str) -> anyhow::Result<Prompt> {
    let vars = [("log", Data::fenced(log).may_cut().into()), ("summary", Data::fenced(summary).into())];
    Ok(Prompt::render(template, &vars)?)
}
