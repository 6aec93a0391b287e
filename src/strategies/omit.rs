//! Leaves the scope out, as libraries do that trim a history, with a note in its place or without.

use std::collections::HashSet;

use super::{Entry, Env, Scope, Strategy, put};
use crate::context::{Content, Edit};
use crate::params::params;
use crate::trajectory::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "omit",
    summary: "Leave the scope out, with a note in its place or without.",
    params: Omit::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Omit::of(params)?)),
};

params! {
    struct Omit {
        /// What stands in the place of the scope; `{n}` is the number of its messages, as the policy counts them. Empty for nothing.
        note: String = "",
        /// Whether the note stands behind what is left out and not before, where the scope has gaps.
        note_last: bool = false,
        /// Whether words of agent and user stay, and calls with their results alone go.
        keep_words: bool = false,
        /// What stands in the place of a result whose call stays, outside of the scope; empty for nothing.
        result: String = "",
    }
}

impl Strategy for Omit {
    fn compress(&self, scope: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        if self.keep_words {
            let is_tool = |kind: Option<Kind>| matches!(kind, Some(Kind::Action | Kind::Observation));
            let of_tools =
                scope.blocks.clone().filter(|&at| is_tool(scope.context.blocks[at].kind(scope.log)));
            return Ok(of_tools.map(|block| Edit::Drop { block }).collect());
        }
        let lone = if self.result.is_empty() { Vec::new() } else { lone_results(scope) };
        let n = scope.n_messages.saturating_sub(lone.len());
        let text = self.note.replace("{n}", &n.to_string());
        if !lone.is_empty() {
            let mut note = Some(text).filter(|text| !text.is_empty());
            let mut edits = Vec::new();
            for block in scope.blocks.clone() {
                if lone.contains(&block) {
                    edits.push(Edit::Mask { block, text: self.result.clone() });
                    continue;
                }
                // It stands before what goes, and not before a result that does not.
                edits.extend(note.take().map(|text| Edit::Insert { before: block, text }));
                edits.push(Edit::Drop { block });
            }
            return Ok(edits);
        }
        if !self.note_last {
            return Ok(put(scope, text));
        }
        let mut edits = put(scope, String::new());
        edits.extend((!text.is_empty()).then_some(Edit::Insert { before: scope.blocks.end, text }));
        Ok(edits)
    }
}

/// Results of the scope whose calls stand outside of it.
fn lone_results(scope: &Scope<'_>) -> Vec<usize> {
    let (log, blocks) = (scope.log, &scope.context.blocks);
    let calls: HashSet<u32> = scope.blocks.clone().filter_map(|at| blocks[at].message()).collect();
    let is_lone = |&at: &usize| {
        let Content::Step(step) = blocks[at].content else { return false };
        let result = Some(step).filter(|&step| log.kind(step) == Kind::Observation);
        result.and_then(|step| log.call_of(step)).is_some_and(|call| !calls.contains(&call))
    };
    // Where more goes, those at its start were only parted from their calls: they stay.
    let is_all = scope.blocks.clone().all(|at| is_lone(&at));
    scope.blocks.clone().skip_while(|at| !is_all && is_lone(at)).filter(is_lone).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    #[test]
    fn a_note_stands_for_what_is_left_out() {
        let script = "user: go\naction: a\nobservation: one two three four five six\naction: b\nobservation: two\naction: c";
        let after = |params| after_events(("omit", params), ("turns", "n = 1\nkeep = 1"), script);
        assert_eq!(after(""), [""]);
        assert_eq!(after("note = \"({n} left out)\""), ["(2 left out)"]);
    }
}
