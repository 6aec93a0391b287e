//! Chunks of turns are summarised, then their summaries, level by level.
//!
//! Strategy C of the seeds: chunks of 5 turns. Level 1 are the summaries of the chunks; each further level summarises up to
//! `fan_in` neighbours of the one below into one, until `depth` levels are made or one text is left. What an earlier
//! event left is a text of level 1.

use super::summary::generic;
use super::writer::{check_tokens, summarise};
use super::{Entry, Env, Scope, Strategy, put, transcript};
use crate::context::Edit;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "hierarchical",
    summary: "Summarise chunks of turns, then the summaries.",
    params: Hierarchical::PARAMS,
    takes_model: true,
    build: |params| {
        let hierarchical = Hierarchical::of(params)?;
        check_tokens("max_tokens", hierarchical.max_tokens)?;
        Ok(Box::new(hierarchical))
    },
};

/// How many sentences each summary is to have.
const SENTENCES: &str = "2 to 3";

params! {
    struct Hierarchical {
        /// Turns of a chunk.
        chunk_turns: u32 = 5 (at least 1),
        /// Summaries that become one on the next level.
        fan_in: usize = 5 (at least 2),
        /// Levels at most; 1 keeps the summaries of the chunks.
        depth: u32 = 2 (at least 1),
        /// Tokens of each summary at most.
        max_tokens: u32 = 150,
    }
}

impl Strategy for Hierarchical {
    fn compress(&self, scope: &Scope<'_>, env: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        let blocks = &scope.context.blocks[scope.blocks.clone()];
        let text = |i: usize| blocks[i].text(scope.log);
        let n_old = blocks.partition_point(|block| block.turn < scope.fresh);
        let mut level: Vec<String> = (0..n_old).map(text).collect();
        let mut start = n_old;
        while start < blocks.len() {
            let chunk = |i: usize| (blocks[i].turn - scope.fresh) / self.chunk_turns;
            let end = (start..blocks.len()).find(|&i| chunk(i) != chunk(start)).unwrap_or(blocks.len());
            let texts: Vec<String> = (start..end).map(text).collect();
            let summary = summarise(&texts, self.max_tokens, env, || {
                let log = transcript(scope, scope.blocks.start + start..scope.blocks.start + end);
                generic(&log, SENTENCES)
            })?;
            level.push(summary);
            start = end;
        }
        for _ in 1..self.depth {
            if level.len() < 2 {
                break;
            }
            let mut above = Vec::new();
            for texts in level.chunks(self.fan_in) {
                above.push(match texts {
                    [one] => one.clone(),
                    texts => {
                        summarise(texts, self.max_tokens, env, || generic(&texts.join("\n"), SENTENCES))?
                    }
                });
            }
            level = above;
        }
        level.retain(|text| !text.is_empty());
        Ok(put(scope, level.join("\n")))
    }

    fn is_recursive(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::after_events;

    const SCRIPT: &str = "user: mend it
        action: cat one.py
        observation: alpha
        action: cat two.py
        observation: beta
        action: cat three.py
        observation: gamma
        action: cat four.py
        observation: delta
        agent: done";

    /// Ten tokens hold the two calls of a chunk, and so half of what the level below holds.
    #[test]
    fn levels_are_summaries_of_summaries() {
        let after = |depth: u32| {
            let params = format!("chunk_turns = 2\nmax_tokens = 10\ndepth = {depth}");
            after_events(("hierarchical", &params), ("turns", "n = 4"), SCRIPT).remove(0)
        };
        let (chunks, top) = (after(1), after(2));
        assert_eq!(chunks, "cat one.py\ncat two.py\ncat three.py\ncat four.py");
        assert!(top.len() < chunks.len() && top.lines().all(|line| chunks.contains(line)), "{top}");
    }

    #[test]
    fn what_an_event_left_is_summarised_again() {
        let params = "chunk_turns = 2\nmax_tokens = 10";
        let after = after_events(("hierarchical", params), ("turns", "n = 2"), SCRIPT);
        assert_eq!(after.len(), 2);
        assert!(after[1].lines().all(|line| after[0].contains(line) || SCRIPT.contains(line)), "{after:?}");
        assert!(after[1].len() < SCRIPT.len() / 2);
    }
}
