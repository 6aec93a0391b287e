//! Output of `claude -p --output-format stream-json`, or the same as one list (`json --verbose`): see
//! [`super::claude_code::stream`].

use super::claude_code::stream;
use super::{Entry, Origin, Reading};

pub(super) const ENTRY: Entry = Entry {
    name: "claude-stream",
    summary: "Claude Code output of --output-format stream-json",
    reading: Reading::Session { open: || Box::<stream::Stream>::default(), origin: |_, _| Origin::None },
};
