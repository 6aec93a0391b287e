//! Sessions of kimi-cli (Python), a folder each: `context.jsonl`, the context itself with one chat message a line, and
//! `wire.jsonl`, the stream for the screen ([`wire`]), which is read where there is no context.
//!
//! - Records among the messages: `_system_prompt`; `_usage` before a reply counts its prompt, behind it the prompt with the
//!   reply; `_checkpoint` says nothing.
//! - A compaction and a rewind move the file away (`context_1.jsonl`, ...) and begin it anew. A file that begins with all of
//!   the one before, or a part of it, is a rewind; one that begins with a summary a compaction, which kept what is said
//!   again before the first count; every other one a cleared context. Where the older file is not there, the summary is the
//!   text of a compaction all the same.
//! - Texts in `<system>` are the harness's.

mod wire;

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::reading::chat::{Message, Messages};
use super::reading::draft::{ABANDONED, enclosed};
use super::reading::scalar::Scalar;
use super::reading::usage::LoggedUsage;
use super::reading::{Content, Draft, record};
use super::{Entry, File, Reading, Sink, read_repaired};
use crate::trajectory::{Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "kimi-cli",
    summary: "kimi-cli contexts and wires",
    reading: Reading::Files { together, read, origin: |_, _| super::Origin::None },
};

/// Groups the files of a session by their folder: the contexts, the oldest first, then the wire.
fn together(names: &[&str]) -> Vec<Vec<usize>> {
    let mut folders: BTreeMap<&str, Vec<(u64, usize)>> = BTreeMap::new();
    for (file, name) in names.iter().enumerate() {
        let (folder, last) = name.rsplit_once('/').unwrap_or(("", name));
        if let Some(place) = place(last) {
            folders.entry(folder).or_default().push((place, file));
        }
    }
    let sorted = folders.into_values().map(|mut files| {
        files.sort_unstable();
        files.into_iter().map(|(_, file)| file).collect()
    });
    sorted.collect()
}

/// Where a file of this name stands among those of its session.
fn place(name: &str) -> Option<u64> {
    match name.strip_suffix(".jsonl")? {
        "context" => Some(u64::MAX - 1),
        "wire" => Some(u64::MAX),
        older => older.strip_prefix("context_")?.parse().ok(),
    }
}

record! {
    /// What tells the lines of both files apart.
    struct Line in "kimi-cli" {
        role: String = "role",
        kind: String = "type",
        token_count: Box<RawValue> = "token_count",
        timestamp: Scalar = "timestamp",
        message: wire::Message = "message",
    }
}

/// How a message begins that holds the summary of a compaction.
const COMPACTED: &str = "<system>Previous context has been compacted.";

/// How a message begins that marks a place to which the agent may rewind.
const CHECKPOINT: &str = "<system>CHECKPOINT ";

fn read(files: &[File], sink: &mut Sink<'_>) {
    let mut run = Kimi::default();
    let (mut lines, mut before): (Vec<Piece<'_>>, Vec<&[u8]>) = (Vec::new(), Vec::new());
    for file in files {
        let start = file.bytes.as_ptr() as usize;
        let now: Vec<&[u8]> =
            file.bytes.split(|b| *b == b'\n').filter(|line| !line.trim_ascii().is_empty()).collect();
        if !lines.is_empty() && place(file.name.rsplit('/').next().unwrap_or("")) == Some(u64::MAX) {
            run.draft.losses.add_n("line of a wire that repeats the context", now.len() as u64);
            continue;
        }
        let n_same = before.iter().zip(&now).take_while(|(a, b)| a == b).count();
        let is_said = |line: &&[u8]| memchr::memmem::find(line, br#""role":"user""#).is_some();
        if now[..n_same].iter().any(is_said) {
            run.draft.losses.add_n(ABANDONED, (before.len() - n_same) as u64);
            lines.truncate(lines.len() - (before.len() - n_same));
            lines.extend(now[n_same..].iter().map(|line| Piece::of(line, start)));
        } else {
            lines.extend(Some(Piece::Begin).filter(|_| !lines.is_empty()));
            lines.extend(now.iter().map(|line| Piece::of(line, start)));
        }
        before = now;
    }
    for line in lines {
        match line {
            Piece::Begin => {
                run.end_list();
                run.state = State::Begun;
            }
            Piece::Line(line, offset) => {
                let n = sink.rejects.len();
                read_repaired(line, sink, |value, _| run.value(value));
                sink.rejects[n..].iter_mut().for_each(|(at, _)| *at += offset);
            }
        }
    }
    run.finish(sink);
}

/// A line of a session, or where a context begins anew.
enum Piece<'a> {
    Begin,
    /// With its place in the file.
    Line(&'a [u8], usize),
}

impl<'a> Piece<'a> {
    fn of(line: &'a [u8], start: usize) -> Self {
        Piece::Line(line, line.as_ptr() as usize - start)
    }
}

/// A session in the making.
#[derive(Default)]
struct Kimi {
    draft: Draft,
    messages: Messages,
    /// The system prompt as it was said last.
    system: Option<String>,
    /// Tokens of the prompt of the reply that comes next, and whether it came.
    prompt: Option<(u64, bool)>,
    state: State,
    wire: wire::Wire,
    /// Whether a message of a context was met.
    has_context: bool,
    n_lines: usize,
}

#[derive(Default)]
enum State {
    #[default]
    Going,
    /// A context begins anew, and no message of it came.
    Begun,
    /// The messages come that a compacted context begins with: here they are kept, for they are compared with the past.
    Listing(Box<(Draft, Messages)>),
}

impl Kimi {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        let line: Line = serde_json::from_slice(bytes)?;
        let position = self.n_lines;
        match (line.role.as_deref(), line.message) {
            (Some("_usage"), _) => {
                self.end_list();
                self.count(line.token_count.as_deref());
            }
            (Some(role), _) => {
                // What a compacted context begins with is written at once, without marks between.
                if role == "_checkpoint" {
                    self.end_list();
                }
                self.has_context |= !role.starts_with('_');
                self.read(position, role, serde_json::from_slice(bytes)?);
            }
            (None, Some(message)) => {
                let time = line.timestamp.unwrap_or_default().time(&mut self.draft.losses);
                self.wire.read(position, time, message);
            }
            (None, None) => {
                let kind: String = line.kind.unwrap_or_default().chars().take(40).collect();
                self.draft.losses.add(&format!("record of the harness left out: {kind}"));
            }
        }
        self.n_lines += 1;
        Ok(())
    }

    fn finish(mut self, sink: &mut Sink<'_>) {
        self.end_list();
        self.messages.end(&mut self.draft);
        let session = sink.source.stem.clone();
        let about = Trajectory { agent: Some("kimi-cli".to_owned()), ..Trajectory::default() };
        let main = Trajectory { task_id: Some(session), is_named_by_file: true, ..about.clone() };
        if !self.wire.is_empty() {
            // A context in the same file is a run, too: it may be that of another session.
            match self.has_context {
                true => self.draft.finish(main.clone(), sink),
                false => sink.losses.merge(&self.draft.losses),
            }
            return self.wire.finish(main, &about, sink);
        }
        self.draft.finish(main, sink);
    }

    /// The messages are all there that a context begins with.
    fn end_list(&mut self) {
        if let State::Listing(list) = &mut self.state {
            let (mut new, mut messages) = std::mem::take(&mut **list);
            self.state = State::Going;
            messages.end(&mut new);
            self.messages.end(&mut self.draft);
            self.draft.at(self.n_lines, None);
            self.draft.replace(new);
        }
    }

    fn read(&mut self, position: usize, role: &str, mut message: Message) {
        if role == "_system_prompt" {
            let text = message.take_text(&mut self.draft.losses);
            if self.system.as_ref() == Some(&text) {
                return self.draft.losses.add("system prompt that is logged again");
            }
            self.system = Some(text.clone());
            self.draft.at(position, None);
            return self.draft.system(text);
        }
        if matches!(self.state, State::Begun) && !role.starts_with('_') {
            if message.said().first().is_some_and(|text| text.starts_with(CHECKPOINT)) {
                return self.draft.losses.add("mark of a checkpoint where a context begins left out");
            }
            self.begin(position, &message);
        }
        let is_list = matches!(self.state, State::Listing(_));
        let (draft, messages) = match &mut self.state {
            State::Listing(list) => (&mut list.0, &mut list.1),
            _ => (&mut self.draft, &mut self.messages),
        };
        if role == "user" {
            self.prompt = None;
            messages.give_way(&message, false, draft);
            draft.at(position, None);
            return say(message.content.unwrap_or_default(), is_list, draft);
        }
        messages.read(position, message, draft);
        self.prompt = match self.prompt.take() {
            Some((input, false)) if role == "assistant" => {
                draft.usage(Some(Usage { input, ..Usage::default() }));
                Some((input, true))
            }
            // Records that are no messages stand anywhere.
            prompt => prompt.filter(|_| role.starts_with('_')),
        };
    }

    /// The first message of a context that begins anew tells why.
    fn begin(&mut self, position: usize, message: &Message) {
        if message.said().first().is_some_and(|text| text.starts_with(COMPACTED)) {
            self.state = State::Listing(Box::default());
            return;
        }
        self.state = State::Going;
        self.messages.end(&mut self.draft);
        self.draft.at(position, None);
        self.draft.losses.add("context cleared by the user");
        self.draft.compaction(String::new());
    }

    fn count(&mut self, count: Option<&RawValue>) {
        // Older versions write the parts.
        let of = |raw: &RawValue| match raw.get().starts_with('{') {
            true => Some(serde_json::from_str::<LoggedUsage>(raw.get()).ok()?.usage()?.input),
            false => serde_json::from_str::<Scalar>(raw.get()).ok()?.count(),
        };
        let Some(n) = count.and_then(of).filter(|n| *n > 0) else {
            return self.draft.losses.add("usage with a count that is none");
        };
        match self.prompt {
            Some((input, true)) if n >= input => {
                self.draft.usage(Some(Usage { input, output: Some(n - input), ..Usage::default() }));
                self.prompt = None;
            }
            _ => self.prompt = Some((n, false)),
        }
    }
}

/// A message in the name of the user; a summary is one where nothing tells what stood before it.
fn say(content: Content, is_listed: bool, draft: &mut Draft) {
    let text = content.into_text(&mut draft.losses);
    let is_whole = enclosed(&text).is_some_and(|(tag, length)| tag == "system" && length == text.len());
    if text.starts_with(COMPACTED) && !is_listed {
        draft.compaction(text);
    } else if is_whole {
        draft.notice(text);
    } else {
        draft.user_or_harness(text);
    }
}

#[cfg(test)]
mod tests {
    use crate::logs::formats::reading::draft::Losses;
    use crate::logs::formats::reading::testing::{outline, read, told};
    use crate::logs::formats::{File, Sink, Source};
    use crate::trajectory::Trajectory;

    #[test]
    fn a_context() {
        let call = r#"{"role":"assistant","content":[{"type":"think","think":"Hm."},{"type":"text","text":"I look."}],"tool_calls":[{"id":"c1","type":"function","function":{"name":"Shell","arguments":"{\"command\":\"ls\"}"}}]}"#;
        let (runs, losses) = read(
            "kimi-cli",
            &[
                r#"{"role":"_system_prompt","content":"Be brief."}"#,
                r#"{"role":"_checkpoint","id":0}"#,
                r#"{"role":"user","content":[{"type":"text","text":"<system>CHECKPOINT 0</system>"}]}"#,
                r#"{"role":"user","content":"List it."}"#,
                r#"{"role":"_usage","token_count":50}"#,
                call,
                r#"{"role":"_usage","token_count":54}"#,
                r#"{"role":"tool","tool_call_id":"c1","content":"a.py"}"#,
                r#"{"role":"_usage","token_count":{"input_tokens":60,"output_tokens":0}}"#,
                r#"{"role":"assistant","content":"Done."}"#,
            ],
        );
        let t = &runs[0];
        assert_eq!(
            outline(t),
            [
                "0 0 system system Be brief.",
                "0 0 system message <system>CHECKPOINT 0</system>",
                "0 0 user message List it.",
                "0 1 agent thought Hm.",
                "0 1 agent thought I look.",
                "0 1 agent action Shell ls",
                "0 1 tool observation a.py",
                "0 2 agent message Done.",
            ]
        );
        let usages: Vec<_> =
            t.steps.iter().filter_map(|s| s.usage.as_ref().map(|u| (u.input, u.output))).collect();
        assert_eq!(usages, [(50, Some(4)), (60, None)]);
        assert_eq!(told(&losses), ["1 record that is no message left out: _checkpoint"]);
    }

    fn read_files(files: &[(&str, &[&str])]) -> (Trajectory, Losses) {
        let file = |(name, lines): &(&str, &[&str])| File {
            name: format!("d/{name}"),
            bytes: lines.join("\n").into_bytes(),
        };
        let source = Source::test("d/context_1.jsonl", "kimi-cli");
        let mut sink = Sink::new(&source);
        super::read(&files.iter().map(file).collect::<Vec<_>>(), &mut sink);
        assert_eq!(sink.trajectories.len(), 1);
        (sink.trajectories.remove(0), sink.losses)
    }

    const SYSTEM: &str = r#"{"role":"_system_prompt","content":"Be brief."}"#;
    const LIST: &str = r#"{"role":"user","content":"List it."}"#;
    const LISTED: &str = r#"{"role":"assistant","content":"a.py"}"#;
    const SORT: &str = r#"{"role":"user","content":"Sort it."}"#;
    const SORTED: &str = r#"{"role":"assistant","content":"Sorted."}"#;
    const WIRE: &str = r#"{"timestamp":1767225600.5,"message":{"type":"StepBegin","payload":{"n":1}}}"#;

    #[test]
    fn a_context_that_was_compacted_goes_on_in_another_file() {
        let summary = r#"{"role":"user","content":[{"type":"text","text":"<system>Previous context has been compacted. Here it is:</system>"},{"type":"text","text":"S"}]}"#;
        let usage = r#"{"role":"_usage","token_count":9}"#;
        let (t, losses) = read_files(&[
            ("context_1.jsonl", &[SYSTEM, LIST, LISTED, SORT, SORTED]),
            (
                "context.jsonl",
                &[SYSTEM, summary, SORT, SORTED, usage, r#"{"role":"user","content":"Go on."}"#],
            ),
            ("wire.jsonl", &[WIRE]),
        ]);
        assert_eq!(
            outline(&t)[3..],
            [
                "0 2 user message Sort it.",
                "0 2 agent message Sorted.",
                "1 3 user compaction <system>Previous context has been compacted. Here it is:</system> S",
                "1 3 user message Go on.",
            ]
        );
        let kept: Vec<usize> = (0..t.steps.len()).filter(|at| t.steps[*at].kept_to == Some(1)).collect();
        assert_eq!(kept, [3, 4]);
        // All sessions have a file of that name.
        assert_eq!(t.task_id.as_deref(), Some("d"));
        assert_eq!(
            told(&losses),
            ["1 line of a wire that repeats the context", "1 system prompt that is logged again"]
        );
    }

    /// A message of the user that comes before the next usage is no part of what the compaction left.
    #[test]
    fn what_comes_behind_a_checkpoint_is_new() {
        let mark = r#"{"role":"user","content":"<system>CHECKPOINT 0</system>"}"#;
        let summary =
            r#"{"role":"user","content":"<system>Previous context has been compacted.</system> S"}"#;
        let (checkpoint, usage) =
            (r#"{"role":"_checkpoint","id":0}"#, r#"{"role":"_usage","token_count":9}"#);
        let go_on = r#"{"role":"user","content":"Go on."}"#;
        for (lines, n_lost) in [
            (&[SYSTEM, usage, checkpoint, mark, summary, SORT, checkpoint, go_on, usage, SORTED][..], 1),
            (&[SYSTEM, checkpoint, summary, SORT, checkpoint, go_on, SORTED], 0),
        ] {
            let (t, losses) =
                read_files(&[("context_1.jsonl", &[SYSTEM, LIST, LISTED, SORT]), ("context.jsonl", lines)]);
            assert_eq!(
                outline(&t)[3..],
                [
                    "0 2 user message Sort it.",
                    "1 3 user compaction <system>Previous context has been compacted.</system> S",
                    "1 3 user message Go on.",
                    "1 3 agent message Sorted.",
                ]
            );
            let n = losses.0.get("mark of a checkpoint where a context begins left out");
            assert_eq!(n.copied().unwrap_or(0), n_lost);
        }
    }

    #[test]
    fn a_rewind_and_a_cleared_context() {
        let (t, losses) = read_files(&[
            ("context_1.jsonl", &[SYSTEM, LIST, LISTED, SORT, SORTED]),
            ("context.jsonl", &[SYSTEM, LIST, LISTED, r#"{"role":"user","content":"Go on."}"#]),
        ]);
        let texts: Vec<&str> = t.steps.iter().map(|s| s.text.as_str()).collect();
        assert_eq!(texts, ["Be brief.", "List it.", "a.py", "Go on."]);
        assert_eq!(told(&losses), ["2 line of an abandoned branch left out"]);
        let (t, losses) = read_files(&[
            ("context_1.jsonl", &[SYSTEM, LIST, LISTED]),
            ("context.jsonl", &[SYSTEM, SORT, SORTED]),
        ]);
        assert_eq!(
            outline(&t)[3..],
            ["1 2 user compaction ", "1 2 user message Sort it.", "1 2 agent message Sorted."]
        );
        assert_eq!(told(&losses), ["1 context cleared by the user", "1 system prompt that is logged again"]);
    }

    #[test]
    fn the_files_of_a_folder_are_one_session() {
        let names = [
            "a/wire.jsonl",
            "a/context.jsonl",
            "b/context.jsonl",
            "a/context_2.jsonl",
            "a/context_10.jsonl",
            "a/x.jsonl",
        ];
        assert_eq!(super::together(&names), [vec![3, 4, 1, 0], vec![2]]);
    }

    #[test]
    fn a_context_and_a_wire_in_one_file_are_two_runs() {
        let (runs, _) = read(
            "kimi-cli",
            &[
                r#"{"role":"user","content":"List it."}"#,
                r#"{"role":"assistant","content":"Done."}"#,
                r#"{"timestamp":1,"message":{"type":"TurnBegin","payload":{"user_input":"Count it."}}}"#,
                r#"{"timestamp":2,"message":{"type":"ContentPart","payload":{"type":"text","text":"Three."}}}"#,
            ],
        );
        let texts = |t: &Trajectory| t.steps.iter().map(|s| s.text.clone()).collect::<Vec<_>>();
        assert_eq!(
            runs.iter().map(texts).collect::<Vec<_>>(),
            [["List it.", "Done."], ["Count it.", "Three."]]
        );
    }

    #[test]
    fn a_context_after_a_compaction_begins_with_its_text() {
        let text = "<system>Previous context has been compacted. Here is the output:</system>\\nS";
        let (runs, _) = read("kimi-cli", &[format!(r#"{{"role":"user","content":"{text}"}}"#)]);
        assert_eq!(outline(&runs[0])[0][..20], *"1 1 user compaction ");
    }
}
