//! Lines that name the line before them: a file may hold branches that were left.

use std::collections::HashMap;

/// What a line says of the one before it.
#[derive(Clone, Copy)]
pub(crate) enum Parent<'a> {
    /// It stands before it in the file.
    Before,
    /// There is none: the conversation begins here.
    Root,
    Named(&'a str),
}

/// Which lines were lived: from the newest one back over its parents. Where a parent is named that does not stand above, the
/// order of the file holds.
pub(crate) fn lived<'a>(lines: impl IntoIterator<Item = (Option<&'a str>, Parent<'a>)>) -> Vec<bool> {
    let mut by_id: HashMap<&str, usize> = HashMap::new();
    let mut parents: Vec<Option<usize>> = Vec::new();
    for (i, (id, parent)) in lines.into_iter().enumerate() {
        let before = i.checked_sub(1);
        parents.push(match parent {
            Parent::Before => before,
            Parent::Root => None,
            Parent::Named(id) => by_id.get(id).copied().or(before),
        });
        id.and_then(|id| by_id.insert(id, i));
    }
    let mut lived = vec![false; parents.len()];
    let mut at = parents.len().checked_sub(1);
    while let Some(i) = at {
        lived[i] = true;
        at = parents[i];
    }
    lived
}

#[cfg(test)]
mod tests {
    use super::Parent::{Before, Named, Root};
    use super::*;

    #[test]
    fn the_newest_line_tells_what_was_lived() {
        let lines = [
            (Some("a"), Root),
            (Some("b"), Named("a")),
            (Some("c"), Named("b")),
            (Some("d"), Named("a")),
            (None, Before),
            (Some("e"), Named("lost")),
        ];
        assert_eq!(lived(lines), [true, false, false, true, true, true]);
        assert_eq!(lived([(Some("a"), Root), (Some("b"), Root)]), [false, true]);
        // A line below itself is no circle.
        assert_eq!(lived([(Some("a"), Named("b")), (Some("b"), Named("b"))]), [true, true]);
        assert_eq!(lived([]), [] as [bool; 0]);
    }
}
