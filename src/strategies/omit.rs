//! Leaves the scope out, as libraries do that trim a history, with a note in its place or without.

use super::{Entry, Env, Scope, Strategy, put};
use crate::context::Edit;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "omit",
    summary: "Leave the scope out, with a note in its place or without.",
    params: Omit::PARAMS,
    takes_model: false,
    build: |params| Ok(Box::new(Omit::of(params)?)),
};

params! {
    struct Omit {
        /// What stands in the place of the scope; `{n}` is the number of its blocks. Empty for nothing.
        note: String = "",
    }
}

impl Strategy for Omit {
    fn compress(&self, scope: &Scope<'_>, _: &mut Env<'_>) -> anyhow::Result<Vec<Edit>> {
        Ok(put(scope, self.note.replace("{n}", &scope.blocks.len().to_string())))
    }
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
