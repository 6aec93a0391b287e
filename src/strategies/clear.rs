//! Puts a fixed text, or the beginning and end of the old one, in the place of each result of the scope.
//!
//! Sources: context editing of the Claude API and its copies (a fixed text), Gemini CLI, OpenAI Agents and mini-swe-agent
//! (a clip). Words of the agent stay; the arguments of its calls go where that is asked for.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use super::{Entry, Env, Scope, Strategy};
use crate::context::{Block, Content, Edit};
use crate::params::params;
use crate::trajectory::{Kind, Role, Step};

pub(super) const ENTRY: Entry = Entry {
    name: "clear",
    summary: "Put a fixed text, or a clip, in the place of each result of the scope.",
    params: Clear::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Clear::of(params)?)),
};

params! {
    struct Clear {
        /// What stands in the place of a result, or between its beginning and its end; `{lines}`, `{chars}` (those that go), `{all}` (all of
        /// them), `{head}` (those that stay before it), `{tool}` and `{id}` are of the old text.
        text: String = "[cleared]",
        /// What stands before the beginning that stays, with the same names.
        lead: String = "",
        /// Characters of its beginning that stay.
        head: u32 = 0,
        /// Characters of its end that stay.
        tail: u32 = 0,
        /// Whether they are of the result as JSON has it, in an object by the name of `output`, and counted as JavaScript does.
        json: bool = false,
        /// Whether calls in the scope whose results are in it lose their arguments, too.
        inputs: bool = false,
        /// Whether messages of the user in the scope are cleared, too.
        users: bool = false,
        /// Whether what would not get shorter stays.
        if_shorter: bool = false,
    }
}

impl Strategy for Clear {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let mut edits = Vec::new();
        let cleared = self.inputs.then(|| called(scope));
        for block in scope.blocks.clone() {
            let Content::Step(number) = scope.context.blocks[block].content else { continue };
            let step = &scope.log.trajectory.steps[number as usize];
            let text = match step.kind {
                Kind::Message if !self.users || step.role != Role::User => None,
                Kind::Observation | Kind::Message => self.instead(step, scope.log.lines[number as usize]),
                Kind::Action if cleared.as_ref().is_some_and(|calls| calls.contains(&number)) => {
                    Some(format!("{} {{}}", step.tool.as_deref().unwrap_or_default()))
                }
                _ => None,
            };
            let Some(text) = text else { continue };
            if !self.if_shorter || is_shorter(scope, block, &text, env) {
                edits.push(Edit::Mask { block, text });
            }
        }
        Ok(edits)
    }

    fn may_remove(&self, kind: Kind) -> bool {
        match kind {
            Kind::Observation => true,
            Kind::Action => self.inputs,
            Kind::Message => self.users,
            _ => false,
        }
    }
}

/// Whether a text has fewer tokens than the block in whose place it would stand, as the policy counts.
fn is_shorter(scope: &Scope<'_>, block: usize, text: &str, env: &Env<'_>) -> bool {
    let block = &scope.context.blocks[block];
    let Some(step) = block.step() else { return false };
    let content = Content::Placeholder { step, text: text.to_owned() };
    let masked = Block { content, tokens: env.tokenizer.count(text), ..block.clone() };
    let tokens = |block: &Block| scope.counter.tokens(scope.counter.of_part(scope.log, block));
    tokens(&masked) < tokens(block)
}

/// The calls of the results in the scope; of a scope without results all its calls.
fn called(scope: &Scope<'_>) -> HashSet<u32> {
    let steps = || scope.context.blocks[scope.blocks.clone()].iter().filter_map(Block::message);
    let of_kind = |kind: Kind| steps().filter(move |&step| scope.log.kind(step) == kind);
    match of_kind(Kind::Observation).next() {
        Some(_) => of_kind(Kind::Observation).filter_map(|step| scope.log.call_of(step)).collect(),
        None => of_kind(Kind::Action).collect(),
    }
}

impl Clear {
    /// What stands in the place of a result; none if all of it stays.
    fn instead(&self, step: &Step, lines: u32) -> Option<String> {
        let old = step.text.as_str();
        let json = || format!("{{\n  \"output\": {}\n}}", Value::from(old));
        let old = if self.json { Cow::from(json()) } else { Cow::from(old) };
        // JavaScript counts some characters twice.
        let size = |c: char| if self.json { c.len_utf16() } else { 1 };
        let n = old.chars().map(size).sum::<usize>();
        let (head, tail) = (self.head as usize, self.tail as usize);
        if head + tail > 0 && n <= head + tail {
            return None;
        }
        let filled = |text: &str| {
            let text = text.replace("{lines}", &lines.to_string()).replace("{all}", &n.to_string());
            let text = text.replace("{head}", &head.to_string());
            let text = text.replace("{chars}", &(n - head - tail).to_string());
            let text = text.replace("{tool}", step.tool.as_deref().unwrap_or("tool"));
            text.replace("{id}", step.call_id.as_deref().unwrap_or("call"))
        };
        let at = |chars: usize| {
            let mut seen = 0;
            let is_behind = |&(_, c): &(usize, char)| {
                let before = seen;
                seen += size(c);
                before >= chars
            };
            old.char_indices().find(is_behind).map_or(old.len(), |(at, _)| at)
        };
        Some(format!(
            "{}{}{}{}",
            filled(&self.lead),
            &old[..at(head)],
            filled(&self.text),
            &old[at(n - tail)..]
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    const SCRIPT: &str = "user: go\naction: a\nobservation: one two three four five six\naction: b\nobservation: two\nagent: c";

    #[test]
    fn results_are_cleared_or_clipped() {
        let after = |params| after_events(("clear", params), ("turns", "n = 1\nkeep = 1"), SCRIPT);
        assert_eq!(after("text = \"gone\""), ["agone"]);
        assert_eq!(after("text = \"<{chars}>\"\nhead = 3\ntail = 2"), ["aone<22>ix"]);
        assert_eq!(after("lead = \"{all}:\"\ntext = \"...\"\nhead = 3"), ["a27:one..."]);
        assert_eq!(after("text = \"\"\nhead = 30\ntail = 2"), ["aone two three four five six"]);
        let long = SCRIPT.replace("one", &"one ".repeat(40));
        let json = "text = \"…\"\nhead = 18\ntail = 7\njson = true";
        let after = after_events(("clear", json), ("turns", "n = 1\nkeep = 1"), &long);
        assert_eq!(after, ["a{\n  \"output\": \"one… six\"\n}"]);
    }
}
