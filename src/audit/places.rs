//! Where names stand letter by letter, also within longer ones: what one finds who looks for them.

use std::collections::{HashMap, HashSet};

use aho_corasick::AhoCorasick;

use crate::context::log::Log;

/// So many names are looked for; the rest stands nowhere.
const MOST: usize = 10_000;

/// For each name the steps that hold it, in order.
pub(super) struct Places(HashMap<String, Vec<u32>>);

impl Places {
    pub(super) fn of(log: &Log, names: HashSet<String>) -> anyhow::Result<Self> {
        let mut names: Vec<String> = names.into_iter().filter(|name| !name.is_empty()).collect();
        names.sort_unstable();
        names.truncate(MOST);
        let search = AhoCorasick::builder().ascii_case_insensitive(true).build(&names)?;
        let mut places: Vec<Vec<u32>> = vec![Vec::new(); names.len()];
        for (step, of) in (0..).zip(&log.trajectory.steps) {
            for found in search.find_overlapping_iter(&of.text) {
                let steps = &mut places[found.pattern().as_usize()];
                if steps.last() != Some(&step) {
                    steps.push(step);
                }
            }
        }
        Ok(Places(names.into_iter().zip(places).collect()))
    }

    pub(super) fn steps(&self, name: &str) -> &[u32] {
        self.0.get(name).map_or(&[], Vec::as_slice)
    }
}
