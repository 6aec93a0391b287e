//! A summary stands for the scope, as products make one: by the variant's model, or by what stands in for it.
//!
//! Without a model no text of ours is that of a product. Its loss lies between that of an empty summary and that of the
//! lines that later needs ask for, at the product's usual length ([`Form::Oracle`] sees the future); the extractive text is
//! a stand-in between the two. What was read lately can be attached again, as some products do.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::summary::generic;
use super::writer::{check_tokens, summarise};
use super::{Entry, Env, Scope, Strategy, codex, oracle, texts};
use crate::context::{Block, Content, Edit};
use crate::params::params;
use crate::trajectory::{Kind, Role};
use crate::turns::actions::ActionKind;

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
        /// Tokens that a model is shown, the newest of the scope; 0 for all.
        input_tokens: u32 = 0,
        /// Whether what it is shown begins with a message of the user, or an older summary; where neither is among those tokens
        /// (here characters by four) it is not asked, and a fixed text says so.
        from_user: bool = false,
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

impl Strategy for Summarise {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let text = match (env.model, self.form) {
            _ if !self.is_read(scope) => NOT_READ.to_owned(),
            (None, Form::Empty | Form::Oracle) => String::new(),
            (None, Form::Extract) => summarise(&texts(scope), self.tokens, env, || Ok(Default::default()))?,
            (Some(_), _) => {
                let shown = self.shown(scope, env);
                summarise(&texts(scope), self.tokens.saturating_mul(4), env, || {
                    generic(&shown, "as many as it takes, up to 40")
                })?
            }
        };
        let mut edits: BTreeMap<usize, Edit> = match (env.model, self.form) {
            (None, Form::Oracle) => oracle::edits(scope, env, self.tokens),
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

    /// The scope as the model is shown it.
    fn shown(&self, scope: &Scope<'_>, env: &Env<'_>) -> String {
        let mut said: Vec<String> = Vec::new();
        let mut left = if self.input_tokens > 0 { self.input_tokens } else { u32::MAX };
        for block in scope.context.blocks[scope.blocks.clone()].iter().rev() {
            let kind = block.kind(scope.log);
            if self.text_only && matches!(kind, Some(Kind::Action | Kind::Observation)) {
                continue;
            }
            let mut text = block.said(scope.log);
            if self.result_chars > 0
                && kind == Some(Kind::Observation)
                && let Some((at, _)) = text.char_indices().nth(self.result_chars as usize)
            {
                text.truncate(at);
                text.push_str("…\n");
            }
            let tokens = env.tokenizer.count(&text);
            if tokens > left {
                break;
            }
            left -= tokens;
            said.push(text);
        }
        said.reverse();
        said.concat()
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    const SCRIPT: &str = "user: go
        action: cat src/a.py
        observation: limit_a=17 of the parser~and so on and on without an end
        action: cat src/b.py
        observation: limit_b=23 of the lexer~and so on and on without an end
        user: what of limit_a=17 of the parser
        agent: limit_a=17 it is";

    #[test]
    fn what_stands_in_for_a_model_keeps_nothing_some_or_what_is_needed() {
        let after = |params: &str| after_events(("summarise", params), ("turns", "n = 1\nkeep = 1"), SCRIPT);
        assert_eq!(after("form = \"empty\"").last().unwrap(), "");
        assert!(after("tokens = 20").last().unwrap().contains("limit"));
        let params = "form = \"empty\"\nfiles = 1";
        let kept = after_events(("summarise", params), ("turns", "n = 2"), SCRIPT);
        assert!(
            kept.last().unwrap().contains("limit_b") && !kept.last().unwrap().contains("limit_a"),
            "{kept:?}"
        );
    }

    #[test]
    fn where_the_user_says_nothing_a_fixed_text_stands() {
        let long = "limit_c=3 and then some more words about what the parser does with such a line".repeat(4);
        let script = format!(
            "user: go\naction: a\nobservation: {long}\nuser: what of limit_d=4 then\naction: b\nobservation: {long}\naction: c\nobservation: {long}\nagent: d"
        );
        let after = |params: &str| {
            after_events(("summarise", params), ("turns", "n = 1\nkeep = 1"), &script).pop().unwrap()
        };
        assert!(after("tokens = 60").contains("limit"));
        assert!(after("tokens = 60\nfrom_user = true\ninput_tokens = 1000").contains("limit"));
        assert!(
            after("tokens = 60\nfrom_user = true\ninput_tokens = 100").contains("too long for a summary")
        );
    }
}
