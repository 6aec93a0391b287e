//! Rollouts of Codex: one JSON value a line, a file is one session.
//!
//! - The context is made of the `response_item` lines. `event_msg` lines say the same once more for the screen and are left
//!   out, but for two: `token_count` is the usage of a reply, if its total differs from the one before; `thread_rolled_back`
//!   takes back the newest turns of the user. `token_usage_record` is the usage of the reply that ends there.
//! - `compacted` is a compaction. With `replacement_history` the context is that list: what of it was said before is kept to
//!   the next segment, the rest is the text of the compaction. Without it the newest words of the user stay, before `message`.
//!   A list with an `encrypted_content` alone says no summary: a loss. The reply before it that is the summary is no turn.
//! - Messages of the user in a harness's marks (instructions, environment) are kept as messages of the role system.
//! - A forked session begins with a header of its own, that of the old session, and the old lines ([`origin`]).
//! - The oldest files hold bare items behind a bare header; `codex exec --json` writes another stream ([`exec`]), which has
//!   no prompts and no usage of single calls.

mod context;
mod exec;
mod line;

use line::{Event, Header, Line, Placed, Record, TokenInfo, TurnContext, UsageRecord};

use super::reading::draft::Losses;
use super::reading::names::{Name, repository_of};
use super::reading::scalar::Scalar;
use super::reading::{Draft, heads, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "codex",
    summary: "Codex CLI rollouts, with their compactions, and `codex exec --json`",
    reading: Reading::Session { open: || Box::<Codex>::default(), origin },
};

#[derive(Default)]
struct Codex {
    records: Vec<Placed>,
    exec: exec::Open,
    header: Option<Header>,
    /// The sessions that headers named.
    ids: Vec<String>,
    tokens_sent: Option<u64>,
    losses: Losses,
    n_lines: usize,
}

impl Session for Codex {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line: Line = serde_json::from_slice(bytes)?;
        self.read(line, bytes)?;
        self.n_lines += 1;
        Ok(())
    }

    /// Of a fork the headers of the older sessions stand at the beginning.
    fn is_another(&self, bytes: &[u8]) -> bool {
        let id = || {
            let id = |kind, pointer| heads::id(bytes, kind, pointer);
            id("session_meta", "/payload/id").or_else(|| id("thread.started", "/thread_id"))
        };
        !self.records.is_empty() && !self.ids.is_empty() && id().is_some_and(|id| !self.ids.contains(&id))
    }

    fn finish(mut self: Box<Self>, sink: &mut Sink<'_>) {
        let left = std::mem::take(&mut self.exec).finish();
        left.into_iter().for_each(|item| self.push(None, Record::Item(Box::new(item))));
        sink.losses.merge(&self.losses);
        let header = self.header.unwrap_or_default();
        let about = Trajectory {
            repository: header.cwd.as_deref().and_then(repository_of),
            agent: Some("codex".to_owned()),
            parent: header.parent(),
            tokens_sent: self.tokens_sent,
            ..Trajectory::default()
        }
        .of_session(header.id.clone(), &sink.source.stem);
        let mut draft = Draft::new();
        context::write(header, self.records, &mut draft);
        draft.finish(about, sink);
    }
}

impl Codex {
    fn read(&mut self, mut line: Line, bytes: &[u8]) -> anyhow::Result<()> {
        let time = line.timestamp.unwrap_or_default();
        let kind = line.kind.take().unwrap_or_default();
        if let Some(payload) = &line.payload {
            let text = payload.get();
            match kind.as_str() {
                "session_meta" => self.read_header(serde_json::from_str(text)?),
                "turn_context" => {
                    let model = serde_json::from_str::<TurnContext>(text)?.model;
                    model.into_iter().for_each(|model| self.push(None, Record::Model(model)));
                }
                "response_item" => self.push_at(time, Record::Item(serde_json::from_str(text)?)),
                "token_usage_record" => {
                    let UsageRecord { usage, total } = serde_json::from_str(text)?;
                    self.push_at(time, Record::Usage(TokenInfo { total, last: usage }));
                }
                "compacted" => self.push_at(time, Record::Compacted(serde_json::from_str(text)?)),
                "event_msg" => self.read_event(time, serde_json::from_str(text)?),
                _ => self.leave_out("line", &kind),
            }
        } else if let Some(record) = &line.record_type {
            self.leave_out("record", record);
        } else if exec::is_event(&kind) {
            self.read_exec(&kind, line)?;
        } else if !kind.is_empty() {
            self.push_at(time, Record::Item(serde_json::from_slice(bytes)?));
        } else if line.id.is_some() && self.header.is_none() {
            let (id, instructions) = (line.id, line.instructions);
            self.header = Some(Header { id, instructions, ..Header::default() });
        } else {
            self.leave_out("line", "without a type");
        }
        Ok(())
    }

    fn leave_out(&mut self, what: &str, kind: &str) {
        let kind: String = kind.chars().take(40).collect();
        self.losses.add(&format!("{what} left out: {kind}"));
    }

    fn push(&mut self, time: Option<i64>, record: Record) {
        self.records.push(Placed { position: self.n_lines, time, record });
    }

    fn push_at(&mut self, time: Scalar, record: Record) {
        let time = time.time(&mut self.losses);
        self.push(time, record);
    }

    /// The first header is that of the file.
    fn read_header(&mut self, header: Header) {
        self.ids.extend(header.id.iter().chain(&header.forked_from).cloned());
        match &self.header {
            None => self.header = Some(header),
            Some(known) if known.id == header.id => self.losses.add("header that a resumed session repeats"),
            Some(_) => self.losses.add("header of the session that this one begins with"),
        }
    }

    fn read_event(&mut self, time: Scalar, event: Event) {
        let kind = event.kind.unwrap_or_default();
        match (kind.as_str(), event.info) {
            ("token_count", Some(info)) => self.push_at(time, Record::Usage(info)),
            ("thread_rolled_back", _) => {
                let n = event.num_turns.unwrap_or_default().count().unwrap_or(0);
                self.push_at(time, Record::RolledBack(n));
            }
            _ => self.leave_out("event for the screen", &kind),
        }
    }

    fn read_exec(&mut self, kind: &str, line: Line) -> anyhow::Result<()> {
        if let Some(item) = &line.item {
            let items = self.exec.read(kind, serde_json::from_str(item.get())?);
            items.into_iter().for_each(|item| self.push(None, Record::Item(Box::new(item))));
            return Ok(());
        }
        if kind.starts_with("turn.") {
            self.push(None, Record::ReplyEnds);
        }
        if let Some(id) = line.thread_id {
            self.ids.push(id.clone());
            self.header.get_or_insert_default().id.get_or_insert(id);
        }
        if let Some(usage) = line.usage.and_then(|usage| usage.usage()) {
            *self.tokens_sent.get_or_insert_default() += usage.input;
        }
        let error = line.error.and_then(|error| error.message).or(line.message);
        if error.is_some() {
            self.leave_out("event for the screen", kind);
        }
        Ok(())
    }
}

/// The session that all copies begin with: of the headers that stand at the beginning the last one is the oldest.
fn origin(head: &[u8], whole: bool) -> Origin {
    record! {
        struct First in "codex.first" { kind: String = "type", payload: Named = "payload" }
        struct Named in "codex.first.payload" {
            id: Name = "id" | "session_id",
            forked_from: Name = "forked_from_id",
        }
    }
    let mut found = None;
    let end = if whole { head.len() } else { memchr::memrchr(b'\n', head).map_or(0, |at| at + 1) };
    for line in head[..end].split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()) {
        let is_header = memchr::memmem::find(&line[..line.len().min(200)], b"\"session_meta\"").is_some();
        match serde_json::from_slice::<First>(line) {
            Ok(First { kind: Some(kind), payload: Some(payload) }) if is_header && kind == "session_meta" => {
                found = payload.forked_from.or(payload.id).map(|id| id.0).or(found);
            }
            _ => return found.map_or(Origin::None, Origin::Uuid),
        }
    }
    let may_go_on = memchr::memmem::find(&head[end..], b"\"session_meta\"").is_some();
    match found {
        _ if !whole && (may_go_on || found.is_some()) => Origin::More,
        Some(id) => Origin::Uuid(id),
        None => Origin::None,
    }
}

#[cfg(test)]
mod tests;
