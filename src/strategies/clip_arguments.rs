//! Cuts long texts among the arguments of calls in the scope; what the calls gave stays.
//!
//! Source: deepagents, which clips what old calls wrote to files.

use serde_json::Value;

use super::{Entry, Env, Scope, Strategy};
use crate::context::{Content, Edit};
use crate::params::params;
use crate::trajectory::{Kind, action_text};

pub(super) const ENTRY: Entry = Entry {
    name: "clip-arguments",
    summary: "Cut long texts among the arguments of the scope's calls.",
    params: ClipArguments::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(ClipArguments::of(params)?)),
};

params! {
    struct ClipArguments {
        /// Characters above which a text is cut.
        longer_than: u32 = 2000,
        /// Characters of its beginning that stay.
        head: u32 = 20,
        /// What stands behind them.
        text: String = "...(argument truncated)",
        /// Tools whose arguments are cut; none is all.
        tools: Vec<String> = [],
    }
}

impl Strategy for ClipArguments {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let mut edits = Vec::new();
        for block in scope.blocks.clone() {
            let number = match scope.context.blocks[block].content {
                Content::Step(number) => number,
                // Such a scope has only what is to be whole again.
                Content::Placeholder { .. } => {
                    edits.push(Edit::Restore { block });
                    continue;
                }
                _ => continue,
            };
            let step = &scope.log.trajectory.steps[number as usize];
            let tool = step.tool.as_deref().unwrap_or_default();
            let is_meant = self.tools.is_empty() || self.tools.iter().any(|meant| meant == tool);
            let Some(arguments) = step.arguments.as_deref().filter(|_| step.kind == Kind::Action && is_meant)
            else {
                continue;
            };
            let Ok(Value::Object(mut arguments)) = serde_json::from_str(arguments) else { continue };
            let is_cut = arguments.values_mut().fold(false, |any, value| self.cut(value) || any);
            let text = action_text(tool, &Value::Object(arguments).to_string());
            if is_cut && env.tokenizer.count(&text) < scope.context.blocks[block].tokens {
                edits.push(Edit::Mask { block, text });
            }
        }
        Ok(edits)
    }

    fn may_remove(&self, kind: Kind) -> bool {
        kind == Kind::Action
    }
}

impl ClipArguments {
    fn cut(&self, value: &mut Value) -> bool {
        let Value::String(text) = value else { return false };
        if text.chars().nth(self.longer_than as usize).is_none() {
            return false;
        }
        let head: String = text.chars().take(self.head as usize).collect();
        *text = head + &self.text;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_alone_are_cut() {
        let clip =
            ClipArguments::of(toml::from_str("longer_than = 4\nhead = 2\ntext = \"…\"").unwrap()).unwrap();
        let after = |mut value: Value| clip.cut(&mut value).then_some(value);
        assert_eq!(after("größer".into()), Some("gr…".into()));
        assert_eq!((after("four".into()), after(12345.into())), (None, None));
    }
}
