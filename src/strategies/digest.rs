//! One line of all results in the place of each reply with its calls: nothing is written by a model.
//!
//! Source: the compaction of tool results in Microsoft's Agent Framework. Words that stand with the calls go, too.

use super::{Entry, Env, Scope, Strategy};
use crate::context::Edit;
use crate::params::params;
use crate::trajectory::Kind;

pub(super) const ENTRY: Entry = Entry {
    name: "digest",
    summary: "Put the results of each reply, cut to a length, in its place.",
    params: Digest::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Digest::of(params)?)),
};

params! {
    struct Digest {
        /// Characters of a digest at most.
        chars: u32 = 4096,
    }
}

impl Strategy for Digest {
    fn compress(&self, scope: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let block = |at: usize| &scope.context.blocks[at];
        let is_result = |at: usize| block(at).kind(scope.log) == Some(Kind::Observation);
        let mut edits = Vec::new();
        let mut blocks = scope.blocks.clone().peekable();
        while let Some(before) = blocks.next() {
            let mut results = Vec::new();
            let mut group = vec![before];
            // A reply is all of one turn; where its results have come, what follows is another's.
            while let Some(at) = blocks.next_if(|&at| {
                let last = group[group.len() - 1];
                block(at).turn == block(before).turn && (is_result(at) || !is_result(last))
            }) {
                group.push(at);
            }
            for &at in group.iter().filter(|&&at| is_result(at)) {
                let step = block(at).message().map(|step| &scope.log.trajectory.steps[step as usize]);
                let tool = step.and_then(|step| step.tool.as_deref()).unwrap_or("tool");
                results.push(format!("{tool}: {}", block(at).text(scope.log)).trim().to_owned());
            }
            if results.is_empty() {
                continue;
            }
            let text = self.cut(&results.join("; "));
            edits.push(Edit::Insert { before, text: format!("[Tool results: {text}]") });
            edits.extend(group.into_iter().map(|block| Edit::Drop { block }));
        }
        Ok(edits)
    }
}

/// Characters of the frame.
const FRAME: usize = "[Tool results: ]".len();
const CUT: &str = "... [truncated]";

impl Digest {
    /// A digest is so long with its frame, and with the words for what was cut.
    fn cut(&self, text: &str) -> String {
        let fits = (self.chars as usize).saturating_sub(FRAME);
        if text.chars().nth(fits).is_none() {
            return text.to_owned();
        }
        let end = text.char_indices().nth(fits.saturating_sub(CUT.len())).map_or(text.len(), |(at, _)| at);
        format!("{}{CUT}", text[..end].trim_end())
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    #[test]
    fn a_reply_gives_way_to_its_results() {
        let script = "user: go\nthought: I look at it, and at much more than that\naction: a\nobservation: one two three\naction: b\nobservation: two\nagent: c";
        let after = |params| after_events(("digest", params), ("turns", "n = 1\nkeep = 1"), script);
        assert_eq!(after("").last().unwrap(), "[Tool results: tool: one two three]");
        // 20 characters, of which 15 are those words.
        assert_eq!(after("chars = 36").last().unwrap(), "[Tool results: tool: one two three]");
        assert_eq!(after("chars = 34").last().unwrap(), "[Tool results: too... [truncated]]");
    }
}
