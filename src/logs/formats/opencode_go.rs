//! Databases of opencode's first version, written in Go: those of Crush without a provider.

use super::crush;
use super::{Entry, Reading};

pub(super) const ENTRY: Entry = Entry {
    name: "opencode-go",
    summary: "databases of opencode's first version, in Go",
    reading: Reading::Database {
        is: |tables| crush::is_of_family(tables) && !tables.has("messages", &["provider"]),
        rows: crush::ROWS,
        read: |bytes, sink| crush::read("opencode", bytes, sink),
    },
};
