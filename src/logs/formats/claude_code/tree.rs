//! What of a session was lived. Lines name their parent, so that a file may hold several branches (after a
//! rewind) and several contexts (after a clearing), and the messages of sub-agents beside those of the agent.
//!
//! A plain walk from the last line over the parents loses much: calls in parallel, and their results, hang beside
//! one another. So a line is held for abandoned only if it hangs under a prompt beside which, under the same
//! parent, another prompt was lived. Texts of the harness before a prompt belong to its branch. All else keeps the
//! order of the file.

use std::collections::{HashMap, HashSet};

/// What the tree needs to know of a line.
#[derive(Default)]
pub(super) struct Node<'a> {
    pub(super) uuid: Option<&'a str>,
    pub(super) parent: Option<&'a str>,
    /// For a compaction: what it comes after.
    pub(super) logical_parent: Option<&'a str>,
    pub(super) is_sidechain: bool,
    pub(super) what: What<'a>,
}

#[derive(Clone, Copy, Default, PartialEq)]
pub(super) enum What<'a> {
    /// A message that the user typed.
    Prompt,
    /// A command to the program, which is typed too.
    Command,
    /// A prompt of the queue: several of them under one parent are no branches of one another.
    Queued,
    /// A part of the reply of this id.
    Reply(Option<(&'a str, &'a str)>),
    /// A text of the harness, which goes before the prompt under it.
    Harness,
    /// Another line of the conversation.
    Said,
    /// A compaction, or its summary.
    Compaction,
    /// A line that only hangs in the tree.
    #[default]
    Link,
}

/// What became of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Lived,
    /// The context is cleared before this line.
    Clears,
    /// On a branch that the user left.
    Abandoned,
    /// In the context that begins with this line, which no reply saw.
    Unanswered(usize),
}

/// The parents of the lines, by index.
pub(super) struct Tree<'a> {
    nodes: &'a [Node<'a>],
    parents: Vec<Option<usize>>,
    by_uuid: HashMap<&'a str, usize>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(nodes: &'a [Node<'a>]) -> Self {
        let mut by_uuid = HashMap::new();
        let mut parents = Vec::with_capacity(nodes.len());
        for (i, node) in nodes.iter().enumerate() {
            // Parents stand before their children; what hangs under a later line would be a circle.
            let find = |uuid: Option<&str>| uuid.and_then(|uuid| by_uuid.get(uuid)).copied();
            parents.push(find(node.parent).or_else(|| find(node.logical_parent)));
            if let Some(uuid) = node.uuid {
                by_uuid.entry(uuid).or_insert(i);
            }
        }
        Tree { nodes, parents, by_uuid }
    }

    pub(super) fn find(&self, uuid: &str) -> Option<usize> {
        self.by_uuid.get(uuid).copied()
    }

    /// The lines from `tail` up to `head`, or where the parents do not lead there those that stand between in the file.
    pub(super) fn between(&self, head: usize, tail: usize) -> Vec<usize> {
        let mut path = vec![tail];
        while let Some(up) = self.parents[path[path.len() - 1]].filter(|up| *up >= head) {
            path.push(up);
        }
        if path.last() == Some(&head) { path } else { (head..=tail).collect() }
    }

    /// The first line of the chain of a sub-agent that a line belongs to, by the parents.
    pub(super) fn chains(&self) -> Vec<usize> {
        let mut chains: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let mut last = None;
        for (i, node) in self.nodes.iter().enumerate() {
            let above = self.parents[i].filter(|up| self.nodes[*up].is_sidechain);
            let chain = match above {
                Some(up) => chains[up],
                None if node.parent.is_some() && self.parents[i].is_none() => last.unwrap_or(i),
                None => i,
            };
            chains.push(chain);
            if node.is_sidechain {
                last = Some(chain);
            }
        }
        chains
    }

    /// What became of each line of the agent itself. `leaf` is the line that a record names as the newest of the
    /// conversation.
    pub(super) fn fates(&self, leaf: Option<usize>) -> Vec<Fate> {
        let mut fates = vec![Fate::Lived; self.nodes.len()];
        self.leave_branches(leaf, &mut fates);
        self.clear(&mut fates);
        fates
    }

    fn is_main(&self, i: usize) -> bool {
        !self.nodes[i].is_sidechain
    }

    /// The nearest line of the conversation above a line that is not of the harness, or where there is none the
    /// first one of the harness.
    fn said_above(&self, i: usize) -> Option<usize> {
        let mut found = None;
        let mut at = self.parents[i];
        while let Some(up) = at {
            if self.is_said(up) {
                found = Some(up);
                if self.nodes[up].what != What::Harness {
                    break;
                }
            }
            at = self.parents[up];
        }
        found.filter(|up| self.is_main(*up))
    }

    /// Marks the branches that were left: of the prompts under one parent all but the one that was lived. Prompts
    /// on both sides of a compaction are no branches: there the order of the file holds. Nor is what hangs under
    /// the line that a record names as the newest one: records lag behind, and it was lived all the same.
    fn leave_branches(&self, leaf: Option<usize>, fates: &mut [Fate]) {
        let mut forks: HashMap<(usize, usize), Vec<usize>> = HashMap::new();
        let mut n_compactions = 0;
        for i in (0..self.nodes.len()).filter(|i| self.is_main(*i)) {
            match self.nodes[i].what {
                What::Compaction => n_compactions += 1,
                What::Prompt | What::Command | What::Queued => {
                    if let Some(above) = self.said_above(i) {
                        forks.entry((above, n_compactions)).or_default().push(i);
                    }
                }
                _ => {}
            }
        }
        forks.retain(|_, prompts| prompts.len() > 1);
        if forks.is_empty() {
            return;
        }
        let newest = || (0..self.nodes.len()).rev().find(|i| self.is_main(*i) && self.is_said(*i));
        let mut path = HashSet::new();
        let mut at = leaf.or_else(newest);
        while let Some(i) = at {
            path.insert(i);
            at = self.parents[i];
        }
        for prompts in forks.values() {
            let lived = prompts.iter().rev().find(|p| path.contains(p)).or(prompts.last());
            let is_queued = |p: &usize| self.nodes[*p].what == What::Queued;
            let is_left = |p: &&usize| Some(*p) != lived && !(is_queued(p) && lived.is_some_and(is_queued));
            for prompt in prompts.iter().filter(is_left) {
                fates[*prompt] = Fate::Abandoned;
            }
        }
        self.spread(fates);
        self.climb(fates);
        self.spread(fates);
    }

    /// Abandons what only leads to abandoned prompts: links and texts of the harness above them.
    fn climb(&self, fates: &mut [Fate]) {
        let (mut leads_away, mut leads_on) = (vec![false; fates.len()], vec![false; fates.len()]);
        for i in (0..fates.len()).rev().filter(|i| self.is_main(*i)) {
            let is_before = matches!(self.nodes[i].what, What::Link | What::Harness);
            if is_before && leads_away[i] && !leads_on[i] {
                fates[i] = Fate::Abandoned;
            }
            let Some(up) = self.parents[i] else { continue };
            leads_away[up] |= fates[i] == Fate::Abandoned;
            leads_on[up] |= fates[i] != Fate::Abandoned && (self.is_said(i) || leads_on[i]);
        }
    }

    fn is_said(&self, i: usize) -> bool {
        self.nodes[i].what != What::Link
    }

    /// What hangs under an abandoned line is abandoned, but for the rest of a reply that was lived.
    fn spread(&self, fates: &mut [Fate]) {
        let mut lived = HashSet::new();
        for i in (0..self.nodes.len()).filter(|i| self.is_main(*i)) {
            if let Some(up) = self.parents[i]
                && fates[up] == Fate::Abandoned
                && self.nodes[i].what != What::Compaction
            {
                fates[i] = Fate::Abandoned;
            }
            if let What::Reply(Some(id)) = self.nodes[i].what {
                if lived.contains(&id) {
                    fates[i] = Fate::Lived;
                } else if fates[i] == Fate::Lived {
                    lived.insert(id);
                }
            }
        }
    }

    /// Finds the lines before which the context was cleared: later roots with a reply below them.
    fn clear(&self, fates: &mut [Fate]) {
        let has_tree = self.nodes.iter().any(|node| !node.is_sidechain && node.parent.is_some());
        let roots = self.roots();
        let mut with_reply = HashSet::new();
        let mut with_prompt = HashSet::new();
        for i in (0..self.nodes.len()).filter(|i| self.is_main(*i) && fates[*i] == Fate::Lived) {
            match self.nodes[i].what {
                What::Reply(_) => drop(with_reply.insert(roots[i])),
                What::Prompt => drop(with_prompt.insert(roots[i])),
                _ => {}
            }
        }
        // The root of the context so far, once something was said in it, and whether a reply saw it.
        let (mut context, mut is_seen): (Option<usize>, bool) = (None, false);
        let mut start = 0;
        for i in (0..self.nodes.len()).filter(|i| has_tree && self.is_main(*i)) {
            let root = roots[i];
            if context.is_some() && root == i && with_reply.contains(&i) {
                if is_seen {
                    fates[i] = Fate::Clears;
                } else {
                    let before = fates[start..i].iter_mut().filter(|fate| **fate == Fate::Lived);
                    before.for_each(|fate| *fate = Fate::Unanswered(start));
                }
                (context, is_seen, start) = (None, false, i);
            }
            let is_other = context.is_some_and(|context| root != context);
            if is_other && !with_reply.contains(&root) && with_prompt.contains(&root) {
                if fates[i] == Fate::Lived {
                    fates[i] = Fate::Unanswered(root);
                }
                continue;
            }
            if self.nodes[i].what != What::Link {
                context = context.or(Some(root));
            }
            is_seen |= matches!(self.nodes[i].what, What::Reply(_));
        }
    }

    /// The root of each line. A compaction, and a line whose parent is not in the file, goes on with the context
    /// that it stands in.
    fn roots(&self) -> Vec<usize> {
        let mut roots: Vec<usize> = Vec::with_capacity(self.nodes.len());
        let mut last = None;
        for (i, node) in self.nodes.iter().enumerate() {
            let above = self.parents[i].filter(|up| self.is_main(*up)).map(|up| roots[up]);
            let is_root = node.parent.is_none() && node.uuid.is_some() && node.what != What::Compaction;
            let root = match (above, last) {
                (Some(root), _) => root,
                (None, Some(last)) if !is_root => last,
                _ => i,
            };
            roots.push(root);
            if self.is_main(i) && node.uuid.is_some() {
                last = Some(root);
            }
        }
        roots
    }
}
