//! Table `contexts`: what stood in the prompts in place of the log.

use std::borrow::Cow;
use std::sync::Arc;

use super::row::table;

table! {
    /// What stood in the prompts in place of the log, and what a store held: where the experiment says `contexts = true`.
    pub struct ContextRow in "contexts" {
        /// Variant id.
        pub variant: Arc<str>,
        /// Trajectory id.
        pub trajectory: Arc<str>,
        /// left: an event left it in place of its scope, until a later event has it in its own; recalled: it stands at the end of
        /// one prompt; held: a store beside the prompt has it when the segment ends.
        pub place: Cow<'static, str>,
        /// left: number of the event; held: number of the segment's last event; null: recalled.
        pub event: Option<u32>,
        /// The first decision whose prompt has it; held: the last decision of the segment.
        pub decision: u32,
        /// Number of the row among those of its event, decision or store, from 0: their order.
        pub block: u32,
        /// Turn that it stands for (the last one, if several); recalled: the turn of the decision.
        pub turn: u32,
        /// step: copied whole; excerpt: copied pieces of a step; placeholder: a text in the place of a step; generated: a text in the
        /// place of a scope; of stores: warm, cold, note.
        pub form: Cow<'static, str>,
        /// Step that it was copied from or stands for, in stores the first one; null: generated.
        pub step: Option<u32>,
        /// Tokens of the text.
        pub tokens: u32,
        /// The text; null for a step that was copied whole: it stands in `steps`. As it is, with keys and personal data where the log has some.
        pub text: Option<String>,
        /// held: what else is known of it, JSON (of segments the fields of the seed; `importance_score` is as of `importance_timestamp`, and
        /// accesses after that are counted); recalled: which segment or note it is of, and its score; left: null.
        pub details: Option<String>,
    }
}
