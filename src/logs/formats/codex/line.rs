//! The lines of a rollout, and what the context is made of.

use serde_json::value::RawValue;

use crate::logs::formats::reading::chat::Message;
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::usage::LoggedUsage;
use crate::logs::formats::reading::{List, record};

record! {
    struct Line in "codex" {
        timestamp: Scalar = "timestamp",
        kind: String = "type",
        payload: Box<RawValue> = "payload",
        record_type: String = "record_type",
        // The header of the oldest files.
        id: String = "id",
        instructions: String = "instructions",
        // `codex exec --json`.
        thread_id: String = "thread_id",
        item: Box<RawValue> = "item",
        usage: LoggedUsage = "usage",
        error: ErrorText = "error",
        message: String = "message",
    }

    struct ErrorText in "codex.error" { message: String = "message" }

    struct Header in "codex.session_meta" {
        id: String = "id" | "session_id",
        cwd: String = "cwd",
        instructions: String = "instructions",
        base_instructions: Instructions = "base_instructions",
        dynamic_tools: Box<RawValue> = "dynamic_tools",
        forked_from: String = "forked_from_id",
        parent: String = "parent_thread_id",
        source: Box<RawValue> = "source",
    }

    struct Instructions in "codex.base_instructions" { text: String = "text" }

    struct TurnContext in "codex.turn_context" { model: String = "model" }

    struct Event in "codex.event_msg" {
        kind: String = "type",
        info: TokenInfo = "info",
        num_turns: Scalar = "num_turns",
    }

    struct TokenInfo in "codex.token_count" {
        total: LoggedUsage = "total_token_usage",
        last: LoggedUsage = "last_token_usage",
    }

    struct UsageRecord in "codex.token_usage_record" {
        usage: LoggedUsage = "usage",
        total: LoggedUsage = "thread_token_usage",
    }

    struct Compacted in "codex.compacted" {
        message: String = "message",
        replacement_history: List<Message> = "replacement_history",
    }
}

/// A line that the context is made of.
pub(super) struct Placed {
    pub(super) position: usize,
    pub(super) time: Option<i64>,
    pub(super) record: Record,
}

pub(super) enum Record {
    Item(Box<Message>),
    Usage(TokenInfo),
    Compacted(Compacted),
    /// The reply before it is whole.
    ReplyEnds,
    RolledBack(u64),
    /// The model of the replies from here on.
    Model(String),
}

impl Header {
    /// The thread that started this one as a sub-agent.
    pub(super) fn parent(&self) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Source {
            subagent: Subagent,
        }
        #[derive(serde::Deserialize)]
        struct Subagent {
            thread_spawn: Spawn,
        }
        #[derive(serde::Deserialize)]
        struct Spawn {
            parent_thread_id: String,
        }
        let source = self.source.as_ref().and_then(|raw| serde_json::from_str::<Source>(raw.get()).ok());
        source.map(|source| source.subagent.thread_spawn.parent_thread_id).or_else(|| self.parent.clone())
    }
}
