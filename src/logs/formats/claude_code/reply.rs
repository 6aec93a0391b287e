//! One reply of the model, which a log writes on several lines: a line a block, the same line again under another
//! uuid, or the list of blocks each time that it has grown.

use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::reply::Call;
use crate::trajectory::Usage;

/// What a reply is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Thinking(String),
    Text(String),
    Call {
        id: Option<String>,
        tool: String,
        arguments: String,
    },
    /// The result of a tool that ran at the provider: it stands inside of the reply.
    Result {
        id: Option<String>,
        text: String,
        is_error: Option<bool>,
    },
}

/// A part with the line that it stands in.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) part: Part,
    pub(super) position: usize,
    pub(super) time: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct Reply {
    pub(super) id: Option<String>,
    pub(super) request: Option<String>,
    pub(super) parts: Vec<Placed>,
    /// Positions of its lines.
    pub(super) lines: Vec<usize>,
    /// As its newest line says.
    pub(super) usage: Option<Usage>,
    pub(super) model: Option<String>,
}

impl Reply {
    /// Whether a line with this id belongs to this reply, if nothing was said since.
    pub(super) fn is(&self, id: Option<&str>, request: Option<&str>) -> bool {
        let is_same_request = match (self.request.as_deref(), request) {
            (Some(a), Some(b)) => a == b,
            _ => id.is_some(),
        };
        self.id.as_deref() == id && is_same_request
    }

    /// Whether it holds something to read.
    pub(super) fn is_blank(&self) -> bool {
        self.parts.iter().all(|placed| placed.part.is_blank())
    }

    /// Whether it has this part as it is.
    pub(super) fn holds(&self, part: &Part) -> bool {
        part.is_blank() || self.parts.iter().any(|placed| placed.part == *part)
    }

    pub(super) fn has_call(&self) -> bool {
        self.parts.iter().any(|placed| matches!(placed.part, Part::Call { .. }))
    }

    /// Takes another line of the reply. What it holds already is a copy or an earlier state, and counts once.
    pub(super) fn add(&mut self, line: Vec<Placed>, usage: Option<Usage>, losses: &mut Losses) {
        // Usage grows while the reply is written; a line of a stream may not know of it yet.
        if usage.is_some_and(|new| new.input > 0 || self.usage.is_none_or(|old| old.input == 0)) {
            self.usage = usage;
        }
        let mut from = 0;
        for new in line {
            self.lines.push(new.position);
            if new.part.is_blank() {
                continue;
            }
            match self.earlier(&new.part, from) {
                Some(i) => {
                    let told = match self.parts[i].part.differs(&new.part) {
                        true => "another block under the id of one of the same reply left out",
                        false => "repeated block of one reply merged",
                    };
                    losses.add(told);
                    self.parts[i].part.grow(new.part);
                    from = i + 1;
                }
                None => {
                    self.parts.push(new);
                    from = self.parts.len();
                }
            }
        }
    }

    /// The earlier state of a part: the same, or the newest one of its kind if that is what it begins with.
    fn earlier(&self, new: &Part, from: usize) -> Option<usize> {
        let known = || self.parts.iter().enumerate().skip(from);
        let has_id = matches!(new, Part::Call { id: Some(_), .. } | Part::Result { id: Some(_), .. });
        let from = if has_id { 0 } else { from };
        let same = self.parts.iter().skip(from).position(|old| old.part.is_same(new)).map(|i| from + i);
        same.or_else(|| {
            let newest = known().rev().find(|(_, old)| old.part.is_of_kind(new));
            newest.filter(|(_, old)| old.part.is_state_of(new)).map(|(i, _)| i)
        })
    }
}

impl Part {
    pub(super) fn of_call(Call { id, tool, arguments, .. }: Call) -> Self {
        Part::Call { id, tool, arguments }
    }

    fn text(&self) -> Option<&str> {
        match self {
            Part::Thinking(text) | Part::Text(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn is_blank(&self) -> bool {
        self.text().is_some_and(|text| text.trim().is_empty())
    }

    fn is_of_kind(&self, other: &Part) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Whether the other is this one again. An id occurs once in a reply.
    fn is_same(&self, other: &Part) -> bool {
        match (self, other) {
            (Part::Call { id: Some(a), .. }, Part::Call { id: Some(b), .. })
            | (Part::Result { id: Some(a), .. }, Part::Result { id: Some(b), .. }) => a == b,
            _ => self == other,
        }
    }

    /// Whether two texts are states of one while it was written.
    fn is_state_of(&self, other: &Part) -> bool {
        match (self.text(), other.text()) {
            (Some(a), Some(b)) => a.starts_with(b) || b.starts_with(a),
            _ => false,
        }
    }

    /// Whether it is another block under the same id, and no state of this one.
    fn differs(&self, other: &Part) -> bool {
        let (a, b) = match (self, other) {
            (Part::Call { arguments: a, .. }, Part::Call { arguments: b, .. }) => (a.trim(), b.trim()),
            (Part::Result { text: a, .. }, Part::Result { text: b, .. }) => (a.trim(), b.trim()),
            _ => return false,
        };
        // A call begins without arguments.
        !a.starts_with(b) && !b.starts_with(a) && ![a, b].contains(&"{}")
    }

    /// Becomes the later state, if that is no shorter.
    fn grow(&mut self, later: Part) {
        let length = |part: &Part| match part {
            Part::Thinking(text) | Part::Text(text) | Part::Result { text, .. } => text.len(),
            Part::Call { arguments, .. } => arguments.len(),
        };
        if length(&later) >= length(self) {
            *self = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(s: &str) -> Part {
        Part::Text(s.to_owned())
    }

    fn call(id: &str, arguments: &str) -> Part {
        Part::Call { id: Some(id.to_owned()), tool: "f".to_owned(), arguments: arguments.to_owned() }
    }

    fn read(lines: &[&[Part]]) -> (Vec<Part>, u64) {
        let (mut reply, mut losses) = (Reply::default(), Losses::default());
        for (position, line) in lines.iter().enumerate() {
            let place = |part: &Part| Placed { part: part.clone(), position, time: None };
            reply.add(line.iter().map(place).collect(), None, &mut losses);
        }
        (reply.parts.into_iter().map(|placed| placed.part).collect(), losses.0.values().sum())
    }

    #[test]
    fn a_line_a_block_a_line_again_and_growing_lists() {
        let whole = [text("I read"), call("1", "{}"), text("I read on"), call("2", "{}")];
        let (parts, n) = read(&[&[text("a")], &[call("1", "{}")], &[text("b")], &[call("2", "{}")]]);
        assert_eq!((parts.len(), n), (4, 0));
        let list = [text("a"), call("1", "{}"), text("b")];
        assert_eq!(read(&[&list, &list]), (list.to_vec(), 3));
        let lines: Vec<&[Part]> = list.iter().map(std::slice::from_ref).collect();
        assert_eq!(read(&[lines.clone(), lines].concat()), (list.to_vec(), 3));
        let grown = [&[text("I")][..], &[text("I re")], &[text("I re"), call("1", "{}")], &whole[1..2]];
        assert_eq!(read(&grown), (vec![text("I re"), call("1", "{}")], 3));
        let arguments = [&[call("1", "")][..], &[call("1", "{\"a\":1}")]];
        assert_eq!(read(&arguments), (vec![call("1", "{\"a\":1}")], 1));
        // Two texts of one list are two texts, though one begins with the other.
        assert_eq!(read(&[&whole]).0.len(), 4);
    }

    #[test]
    fn another_block_under_one_id_is_told() {
        let mut told = Vec::new();
        for arguments in ["{}", "{\"a\":1}", "{\"b\":22}"] {
            let (mut reply, mut losses) = (Reply::default(), Losses::default());
            for arguments in ["{\"a\":1}", arguments] {
                reply.add(
                    vec![Placed { part: call("1", arguments), position: 0, time: None }],
                    None,
                    &mut losses,
                );
            }
            told.push(losses.0.contains_key("another block under the id of one of the same reply left out"));
        }
        assert_eq!(told, [false, false, true]);
    }

    #[test]
    fn a_request_of_its_own_is_a_reply_of_its_own() {
        let reply = Reply { id: Some("m".into()), request: Some("r1".into()), ..Reply::default() };
        assert!(reply.is(Some("m"), Some("r1")) && reply.is(Some("m"), None));
        assert!(!reply.is(Some("m"), Some("r2")) && !reply.is(Some("n"), Some("r1")));
        let unnamed = Reply { request: Some("r1".into()), ..Reply::default() };
        assert!(unnamed.is(None, Some("r1")) && !unnamed.is(None, None));
    }
}
