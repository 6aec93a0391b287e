//! What a program answers, as edits.
//!
//! `{"event", "messages"}`: the messages that stand in the place of the scope. One with the id of a message that was shown is that one, with
//! another `content` an edited one; one without an id is new, and the user's. What is not named goes. Or `{"event", "edits"}`: what changes,
//! `{"drop": id}`, `{"mask": id, "text"}`, `{"insert": text, "before": id}`; what is not named stays.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::super::Scope;
use crate::context::log::Log;
use crate::context::{Block, Content, Edit, Piece};
use crate::programs::{messages, parsed};
use crate::text::tokens::Tokenizer;

#[derive(Deserialize)]
struct Answer {
    event: Option<u64>,
    messages: Option<Vec<Said>>,
    edits: Option<Vec<Change>>,
}

#[derive(Deserialize)]
struct Said {
    id: Option<Value>,
    role: Option<Value>,
    content: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Change {
    drop: Option<Value>,
    mask: Option<Value>,
    text: Option<String>,
    insert: Option<String>,
    before: Option<Value>,
}

/// What becomes of a message.
#[derive(Clone, PartialEq)]
enum Fate {
    Stays,
    Goes,
    Text(String),
}

/// The edits that an answer to this request asks for, or why it is none.
pub(super) fn edits(
    line: &str,
    number: u64,
    scope: &Scope<'_>,
    tokenizer: &Tokenizer,
) -> Result<Vec<Edit>, String> {
    let answer: Answer = parsed(line)?;
    if answer.event != Some(number) {
        return Err(format!("it answers event {:?}, asked was {number}", answer.event.unwrap_or_default()));
    }
    let blocks = &scope.context.blocks[scope.blocks.clone()];
    let mut plan = Plan { log: scope.log, tokenizer, blocks, fates: Vec::new(), inserts: BTreeMap::new() };
    match (answer.messages, answer.edits) {
        (Some(messages), None) => plan.read_messages(messages)?,
        (None, Some(edits)) => plan.read_edits(edits)?,
        _ => return Err("it has neither `messages` nor `edits`, or both".to_owned()),
    }
    plan.check_length()?;
    Ok(plan.edits(scope.blocks.start))
}

/// Bytes of new texts that are read whatever they stand for.
const SHORT: usize = 1 << 20;

struct Plan<'a> {
    log: &'a Log,
    tokenizer: &'a Tokenizer,
    blocks: &'a [Block],
    fates: Vec<Fate>,
    /// New texts, by the message that they stand before.
    inserts: BTreeMap<usize, Vec<String>>,
}

impl Plan<'_> {
    /// What is far longer than the scope would have its tokens counted for minutes, only to be refused.
    fn check_length(&self) -> Result<(), String> {
        let edited =
            self.fates.iter().filter_map(|fate| if let Fate::Text(text) = fate { Some(text) } else { None });
        let new: usize = edited.chain(self.inserts.values().flatten()).map(String::len).sum();
        let shown: usize = self.blocks.iter().map(|block| block.text(self.log).len()).sum();
        match new > SHORT.max(8 * shown) {
            true => Err(format!("its new texts have {new} bytes, and all that was shown {shown}")),
            false => Ok(()),
        }
    }

    /// The message of an id, which may be written as a number.
    fn find(&self, id: &Value) -> Result<usize, String> {
        let number = id.as_u64().or_else(|| id.as_str()?.parse().ok());
        let found = number.and_then(|n| usize::try_from(n).ok()).filter(|&at| at < self.blocks.len());
        found.ok_or_else(|| format!("no message has the id {id}"))
    }

    fn read_messages(&mut self, messages: Vec<Said>) -> Result<(), String> {
        self.fates = vec![Fate::Goes; self.blocks.len()];
        let (mut next, mut new) = (0, Vec::new());
        for Said { id, role, content } in messages {
            let text = content.as_ref().map(text).transpose()?;
            let is_role = |other: &str| role.as_ref().is_none_or(|role| role.is_null() || role == other);
            let Some(id) = id.filter(|id| !id.is_null()) else {
                if !is_role("user") {
                    let role = role.unwrap_or_default();
                    return Err(format!("a new message has the role {role}, and can have `user` alone"));
                }
                new.extend(Some(text.ok_or("a new message has no `content`")?).filter(|t| !t.is_empty()));
                continue;
            };
            let at = self.find(&id)?;
            if at < next {
                return Err(format!("the message {id} stands twice, or behind a later one"));
            }
            let shown = messages::role(self.log, &self.blocks[at]);
            if !is_role(shown) {
                let role = role.unwrap_or_default();
                return Err(format!("the message {id} has the role {role}, shown was `{shown}`"));
            }
            if !new.is_empty() {
                self.inserts.insert(at, std::mem::take(&mut new));
            }
            self.fates[at] = match text {
                Some(text) if text != self.blocks[at].text(self.log) => Fate::Text(text),
                _ => Fate::Stays,
            };
            next = at + 1;
        }
        if !new.is_empty() {
            self.inserts.entry(self.blocks.len()).or_default().extend(new);
        }
        Ok(())
    }

    fn read_edits(&mut self, edits: Vec<Change>) -> Result<(), String> {
        self.fates = vec![Fate::Stays; self.blocks.len()];
        for edit in edits {
            let (id, fate) = match edit {
                Change { drop: Some(id), mask: None, text: None, insert: None, before: None } => {
                    (id, Fate::Goes)
                }
                Change { drop: None, mask: Some(id), text: Some(text), insert: None, before: None } => {
                    (id, Fate::Text(text))
                }
                Change { drop: None, mask: None, text: None, insert: Some(text), before } => {
                    let before = before.filter(|id| !id.is_null()).map(|id| self.find(&id)).transpose()?;
                    self.inserts.entry(before.unwrap_or(self.blocks.len())).or_default().push(text);
                    continue;
                }
                _ => return Err("an edit is none of drop, mask with text, and insert".to_owned()),
            };
            let at = self.find(&id)?;
            if self.fates[at] != Fate::Stays {
                return Err(format!("the message {id} is edited twice"));
            }
            self.fates[at] = fate;
        }
        Ok(())
    }

    fn edits(mut self, start: usize) -> Vec<Edit> {
        let mut edits = Vec::new();
        for at in 0..=self.blocks.len() {
            let mut new = self.inserts.remove(&at).unwrap_or_default();
            let block = start + at;
            let on_block = match self.fates.get(at).cloned() {
                None | Some(Fate::Stays) => None,
                Some(Fate::Goes) => Some(Edit::Drop { block }),
                Some(Fate::Text(text)) if text.is_empty() => Some(Edit::Drop { block }),
                Some(Fate::Text(text)) => {
                    Some(match copied(self.log, self.tokenizer, &self.blocks[at], &text) {
                        Some(pieces) => Edit::Trim { block, pieces },
                        None if matches!(self.blocks[at].content, Content::Step(_)) => {
                            Edit::Mask { block, text }
                        }
                        // What is no message has no place for a text of its own.
                        None => {
                            new.push(text);
                            Edit::Drop { block }
                        }
                    })
                }
            };
            if !new.is_empty() {
                edits.push(Edit::Insert { before: block, text: new.join("\n") });
            }
            edits.extend(on_block);
        }
        edits
    }
}

/// The text of a content: a string, or parts of it.
fn text(content: &Value) -> Result<String, String> {
    let part = |part: &Value| Some(part.as_str().or_else(|| part["text"].as_str())?.to_owned());
    match content {
        Value::Null => Some(String::new()),
        Value::Array(parts) => {
            parts.iter().map(part).collect::<Option<Vec<_>>>().map(|texts| texts.join("\n"))
        }
        other => part(other),
    }
    .ok_or_else(|| "a `content` is neither a text nor a list of texts".to_owned())
}

/// The pieces of a block that a text is made of, if it is some of its lines in their order: then it is copied. A span is a line with the
/// blank lines behind it, or a part of a long line: so lines are found in the text, and then where they stand in pieces.
fn copied(log: &Log, tokenizer: &Tokenizer, block: &Block, text: &str) -> Option<Vec<Piece>> {
    let all: Vec<Piece> = match &block.content {
        Content::Step(step) => log.spans_of(*step).map(|span| Piece::whole(log, span)).collect(),
        Content::Excerpt { pieces, .. } => pieces.clone(),
        Content::Placeholder { .. } | Content::Generated { .. } => return None,
    };
    let mut shown = String::new();
    let ends: Vec<usize> = all
        .iter()
        .map(|piece| {
            shown.push_str(piece.text(log));
            shown.len()
        })
        .collect();
    let mut rest = lines(&shown);
    let mut pieces: Vec<Piece> = Vec::new();
    for line in lines(text) {
        let found = rest.find(|shown| shown.text == line.text)?;
        let first = ends.partition_point(|&end| end <= found.start);
        let last = ends.partition_point(|&end| end < found.start + found.text.len());
        pieces.extend_from_slice(&all[first..=last]);
        let over = ends[last].saturating_sub(found.start + found.text.len() + found.behind(line.n_ends));
        if over > 0 {
            let cut = pieces.last_mut()?;
            cut.end -= over as u32;
            cut.tokens = tokenizer.count(cut.text(log)).min(cut.tokens);
        }
    }
    (!pieces.is_empty()).then_some(pieces)
}

/// A line that says something.
struct Line<'a> {
    start: usize,
    text: &'a str,
    /// Its end, and the blank lines behind it.
    blank: &'a str,
    n_ends: usize,
}

impl Line<'_> {
    /// Bytes up to the end of so many lines.
    fn behind(&self, n_ends: usize) -> usize {
        self.blank.split_inclusive('\n').take(n_ends).map(str::len).sum()
    }
}

fn lines(text: &str) -> impl Iterator<Item = Line<'_>> {
    let mut parts = text.split_inclusive('\n').peekable();
    let mut start = 0;
    std::iter::from_fn(move || {
        while let Some(blank) = parts.next_if(|part| part.trim().is_empty()) {
            start += blank.len();
        }
        let whole = parts.next()?;
        let line = whole.trim_end_matches(['\n', '\r']);
        let (from, mut end) = (start, start + whole.len());
        while let Some(blank) = parts.next_if(|part| part.trim().is_empty()) {
            end += blank.len();
        }
        start = end;
        let blank = &text[from + line.len()..end];
        Some(Line { start: from, text: line, blank, n_ends: blank.matches('\n').count() })
    })
}
