//! Runs that are told by the prompts of their calls: a prompt is all that the model saw, so what is new in it was said since the
//! one before, and what is missing was taken out.
//!
//! A prompt whose messages stand in the places of the one before, with other words, edits these. One that leaves messages out is a
//! compaction, which keeps the others. One that goes back to where no reply was yet is a run of its own.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use serde_json::Value;

use super::chat::{Message, Messages};
use super::message::{Speaker, speaker};
use super::scalar::Scalar;
use super::{Content, Draft};
use crate::trajectory::Usage;

/// One call of a model.
pub(crate) struct PromptCall<'a> {
    pub(crate) tools: Option<String>,
    /// What tells the messages of the prompt,
    pub(crate) marks: &'a [Mark],
    /// and each of them, taken when it is new.
    pub(crate) take: &'a mut dyn FnMut(usize) -> Message,
    /// Messages or items of the answer, with their marks; the first one has the usage.
    pub(crate) reply: Vec<(Mark, Message)>,
    pub(crate) model: Option<String>,
    /// What the log says of how long the context was before and behind a compaction, or an edit, since the call before.
    pub(crate) resized: [Option<Scalar>; 2],
}

/// A run in the making.
#[derive(Default)]
pub(crate) struct Conversation {
    pub(crate) draft: Draft,
    pub(crate) model: Option<String>,
    /// The messages that were taken, by what they say.
    pub(crate) taken: HashSet<Mark>,
    /// The last one of them.
    pub(crate) last: Option<Mark>,
    reader: Messages,
    said: Vec<Said>,
    /// Where in it the newest compaction by the provider stands: what is before may be left out from then on.
    compacted: Option<usize>,
    tools: Option<String>,
    /// What was counted for the call that wrote the next summary.
    written: Option<Usage>,
    /// Number of the next message.
    next: usize,
}

/// What tells a message from others: who speaks, the words, and the calls. How they are laid out may differ from prompt to prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mark {
    hash: u64,
    is_agent: bool,
}

impl Mark {
    pub(crate) fn of(message: &Message) -> Self {
        let is_agent =
            matches!(message.role.as_deref().and_then(speaker), Some(Speaker::Agent)) || message.has_calls();
        let mut hasher = DefaultHasher::new();
        let mut said = message.said();
        if let Some(output) = &message.output {
            output.say(&mut said);
        }
        said.retain(|text| !text.trim().is_empty());
        (&message.tool_call_id, &message.call_id, said.join("\n").trim()).hash(&mut hasher);
        for call in message.calls() {
            // Documents over many lines lay the same arguments out at several depths.
            let arguments = serde_json::from_str::<Value>(&call.arguments).map(|value| value.to_string());
            (call.tool, arguments.unwrap_or(call.arguments)).hash(&mut hasher);
        }
        Mark { hash: hasher.finish(), is_agent }
    }
}

/// A message in the newest prompt, or the reply to it.
#[derive(Clone, Copy)]
struct Said {
    mark: Mark,
    /// Its number in the run.
    message: usize,
}

/// So many runs may go on at once in one file.
const MAX_OPEN: usize = 1000;

/// Sorts calls into the runs that they belong to.
#[derive(Default)]
pub(crate) struct Prompts(Vec<Conversation>);

impl Prompts {
    pub(crate) fn call(&mut self, call: PromptCall<'_>) {
        match self.beginning(call.marks) {
            Some(known) if !known.is_before(call.marks) => known.go_on(call),
            Some(known) if known.is_last(&call) => known.draft.losses.add("call that is logged again merged"),
            _ => {
                let mut new = Conversation::default();
                new.go_on(call);
                self.0.push(new);
            }
        }
    }

    /// The newest run that begins like these.
    fn beginning(&mut self, marks: &[Mark]) -> Option<&mut Conversation> {
        let begins_alike = |c: &&mut Conversation| {
            let head = c.said.len().min(marks.len()).min(2);
            let is_alike = c.said.iter().zip(marks).take(head).all(|(said, mark)| said.mark == *mark);
            head > 0 && is_alike || c.left_out(marks).is_some()
        };
        self.0.iter_mut().rev().take(MAX_OPEN).find(begins_alike)
    }

    /// A call that writes the summary of a run: of its prompt that is taken which was said since the last call, without the
    /// question at its end.
    pub(crate) fn summarise(
        &mut self,
        marks: &[Mark],
        take: &mut dyn FnMut(usize) -> Message,
        usage: Option<Usage>,
    ) {
        let marks = &marks[..marks.len().saturating_sub(1)];
        let Some(known) = self.beginning(marks).filter(|c| c.common(marks) == c.said.len()) else { return };
        for (i, mark) in marks.iter().enumerate().skip(known.said.len()) {
            known.say(*mark, take(i));
        }
        known.written = usage;
    }

    pub(crate) fn finish(self) -> Vec<Conversation> {
        let end = |mut conversation: Conversation| {
            conversation.end();
            conversation
        };
        self.0.into_iter().map(end).collect()
    }
}

impl Conversation {
    /// Whether all that is said in a prompt was said before something else.
    fn is_before(&self, marks: &[Mark]) -> bool {
        marks.len() < self.said.len() && self.common(marks) == marks.len()
    }

    /// Whether this call is the newest one.
    fn is_last(&self, call: &PromptCall<'_>) -> bool {
        let marks = call.marks.iter().chain(call.reply.iter().map(|(mark, _)| mark));
        self.said.iter().map(|said| &said.mark).eq(marks)
    }

    /// What a prompt leaves out that stands before a compaction by the provider.
    fn left_out(&self, marks: &[Mark]) -> Option<Range<usize>> {
        let (at, head) = (self.compacted?, self.common(marks));
        let mut kept = self.said.get(at..)?.iter().zip(&marks[head..]);
        let is_whole = head < at && marks.len() - head >= self.said.len() - at;
        (is_whole && kept.all(|(said, mark)| said.mark == *mark)).then_some(head..at)
    }

    fn common(&self, marks: &[Mark]) -> usize {
        self.said.iter().zip(marks).take_while(|(said, mark)| said.mark == **mark).count()
    }

    fn go_on(&mut self, call: PromptCall<'_>) {
        call.model.iter().for_each(|model| self.draft.model(model));
        self.model = self.model.take().or(call.model);
        match call.tools {
            Some(tools) if self.tools.is_none() => {
                self.draft.tools(tools.clone());
                self.tools = Some(tools);
            }
            tools if tools.is_some() && tools != self.tools => {
                self.draft.losses.add("tools that change within a run left out");
            }
            _ => {}
        }
        if let Some(left_out) = self.left_out(call.marks) {
            self.said.drain(left_out);
            self.compacted = None;
        }
        let n_steps = self.draft.n_steps();
        let n_known = match self.common(call.marks) {
            all if all == self.said.len() => all,
            _ if self.has_places_of(call.marks) => self.edit(call.marks, call.take),
            common => self.compact(call.marks, common, call.take),
        };
        let [before, behind] = call.resized;
        self.draft.resized(before, behind, n_steps);
        for (i, mark) in call.marks.iter().enumerate().skip(n_known) {
            self.say(*mark, (call.take)(i));
        }
        if call.reply.iter().any(|(_, message)| super::items::is_item(message)) {
            let id = call.reply.first().and_then(|(_, reply)| reply.id.as_ref()).map(|id| id.0.clone());
            let first = self.next;
            self.next += call.reply.len();
            let compacted = call.reply.iter().rposition(|(_, item)| item.compacts());
            self.compacted = compacted.map(|at| self.said.len() + at).or(self.compacted);
            self.said.extend(
                call.reply.iter().zip(first..).map(|((mark, _), message)| Said { mark: *mark, message }),
            );
            let items = call.reply.into_iter().zip(first..).map(|((_, item), i)| (i, item)).collect();
            self.reader.read_output(id, items, &mut self.draft);
        } else {
            call.reply.into_iter().for_each(|(mark, message)| self.say(mark, message));
        }
    }

    /// Another message is said.
    pub(crate) fn say(&mut self, mark: Mark, message: Message) {
        if message.compacts() {
            self.compacted = Some(self.said.len());
        }
        self.said.push(Said { mark, message: self.next });
        self.last = Some(Mark::of(&message));
        self.taken.extend(self.last);
        self.reader.read(self.next, message, &mut self.draft);
        self.next += 1;
    }

    /// The last message was said.
    pub(crate) fn end(&mut self) {
        self.reader.end(&mut self.draft);
    }

    /// Whether all that was said stands in its place still, be it in other words.
    fn has_places_of(&self, marks: &[Mark]) -> bool {
        let speaks_the_same = |(said, mark): (&Said, &Mark)| mark.is_agent == said.mark.is_agent;
        marks.len() >= self.said.len() && self.said.iter().zip(marks).all(speaks_the_same)
    }

    /// Takes the other words of messages as edits; returns how many messages are known.
    fn edit(&mut self, marks: &[Mark], take: &mut dyn FnMut(usize) -> Message) -> usize {
        self.reader.end(&mut self.draft);
        let n = self.said.len();
        for (i, said) in self.said.iter_mut().enumerate().filter(|(i, said)| said.mark != marks[*i]) {
            said.mark = marks[i];
            // A provider's reply is not worded in the next prompt as it came.
            if said.mark.is_agent && i + 1 == n {
                self.draft.losses.add("reply that the next prompt words otherwise");
                continue;
            }
            let text = text_of(take(i), &mut self.draft);
            self.draft.edit_message(said.message, &text);
        }
        n
    }

    /// Takes a prompt that leaves messages out as a compaction; returns how many messages are known.
    fn compact(&mut self, marks: &[Mark], common: usize, take: &mut dyn FnMut(usize) -> Message) -> usize {
        self.reader.end(&mut self.draft);
        let mut old: HashMap<Mark, Vec<Said>> = HashMap::new();
        self.said[common..].iter().rev().for_each(|said| old.entry(said.mark).or_default().push(*said));
        let kept: Vec<Option<Said>> =
            marks[common..].iter().map(|mark| old.get_mut(mark).and_then(Vec::pop)).collect();
        let end = match kept.iter().rposition(Option::is_some) {
            Some(last) => common + last + 1,
            // With nothing kept, the first words that are not the agent's stand for the past.
            None => common + usize::from(marks.get(common).is_some_and(|mark| !mark.is_agent)),
        };
        let (summary_at, mut summary) = (self.next, Vec::new());
        self.next += 1;
        let mut said = self.said[..common].to_vec();
        for i in common..end {
            said.push(kept[i - common].unwrap_or(Said { mark: marks[i], message: summary_at }));
            if kept[i - common].is_none() {
                summary.push(text_of(take(i), &mut self.draft));
            }
        }
        said.iter()
            .filter(|said| said.message != summary_at)
            .for_each(|said| self.draft.keep_message(said.message));
        self.draft.at(summary_at, None);
        let n_steps = self.draft.n_steps();
        self.draft.compaction(summary.join("\n"));
        self.draft.written_with(self.written.take(), n_steps);
        self.said = said;
        end
    }
}

fn text_of(message: Message, draft: &mut Draft) -> String {
    let content: Content = message.content.or(message.output).unwrap_or_default();
    content.into_text(&mut draft.losses)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::{Sink, Source};
    use crate::trajectory::Trajectory;

    fn message(said: &str) -> Message {
        let (role, content) = said.split_once(' ').unwrap();
        let (role, content) = (Some(role.to_owned()), Some(Content::Text(content.to_owned())));
        Message { role, content, ..Message::default() }
    }

    /// Of each run the steps, with the segment that they were kept to and what they were edited to.
    fn runs(calls: &[(&[&str], &str)]) -> Vec<Vec<String>> {
        let mut prompts = Prompts::default();
        for (messages, reply) in calls {
            let marks: Vec<Mark> = messages.iter().map(|said| Mark::of(&message(said))).collect();
            let reply = vec![(Mark::of(&message(reply)), message(reply))];
            let take = &mut |i: usize| message(messages[i]);
            prompts.call(PromptCall {
                tools: None,
                marks: &marks,
                take,
                reply,
                model: None,
                resized: [None; 2],
            });
        }
        let source = Source::test("a.json", "toy");
        let mut sink = Sink::new(&source);
        for conversation in prompts.finish() {
            conversation.draft.finish(Trajectory::default(), &mut sink);
        }
        let outline = |t: &Trajectory| {
            let step = |s: &crate::trajectory::Step| {
                let edit =
                    s.edit.as_ref().map_or(String::new(), |edit| format!(" -> {} {}", edit.from, edit.text));
                let kept = s.kept_to.map_or(String::new(), |kept| format!(" to {kept}"));
                format!("{} {} {}{edit}{kept}", s.segment, s.turn, s.text)
            };
            t.steps.iter().map(step).collect()
        };
        sink.trajectories.iter().map(outline).collect()
    }

    #[test]
    fn only_what_is_new_is_said() {
        let told = runs(&[
            (&["system S", "user T"], "assistant a"),
            (&["system S", "user T", "assistant  a ", "user b"], "assistant c"),
            (&["system S", "user T", "assistant  a ", "user b"], "assistant c"),
            // Another attempt, and another task.
            (&["system S", "user T"], "assistant z"),
            (&["system S", "user U"], "assistant y"),
            (&["system S", "user T", "assistant z", "user b"], "assistant x"),
        ]);
        assert_eq!(
            told,
            [
                vec!["0 0 S", "0 0 T", "0 1 a", "0 2 b", "0 2 c"],
                vec!["0 0 S", "0 0 T", "0 1 z", "0 2 b", "0 2 x"],
                vec!["0 0 S", "0 0 U", "0 1 y"],
            ]
        );
    }

    #[test]
    fn other_words_are_edits_and_what_is_missing_is_compacted() {
        let told = runs(&[
            (&["system S", "user T", "assistant a", "user long"], "assistant c"),
            (&["system S", "user T", "assistant a", "user cut", "assistant c", "user d"], "assistant e"),
            (&["system S", "user T", "user Summary.", "assistant e", "user f"], "assistant g"),
        ]);
        assert_eq!(
            told,
            [vec![
                "0 0 S",
                "0 0 T",
                "0 1 a",
                "0 2 long -> 3 cut",
                "0 2 c",
                "0 3 d",
                "0 3 e to 1",
                "1 4 Summary.",
                "1 4 f",
                "1 4 g"
            ]]
        );
    }
}
