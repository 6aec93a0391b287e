//! What the user had typed, and where it stands no more.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::answers;
use crate::context::log::Log;
use crate::text::runs::{Runs, words};
use crate::text::sentences::statements;
use crate::trajectory::{Kind, Role, Step};

/// Shorter sentences say little (`go on`, `thanks`).
const LEAST: usize = 5;

/// How Claude Code begins the first message of a session that carries out a plan: the model had written it.
const OF_MODEL: &str = "Implement the following plan:";

/// Runs of so many lines are pasted rather than typed; between fences fewer are.
const PASTED: usize = 10;
const FENCED: usize = 3;

/// Tags of a harness, and what stands for an image.
static TAG: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"<(/?)([a-z]+(?:-[a-z]+)+|task)>|\[image [^\]\n]*\]").expect("a pattern of ours")
});
/// Those around what the user typed.
const TYPED: [&str; 2] = ["command-args", "task"];
/// Those, on lines of their own, around all that the user typed of a text: the rest is the harness's.
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    let of = |tag: &str| format!(r"^<{tag}>\n((?s:.*?))\n</{tag}>\s*$");
    Regex::new(&format!("(?m)(?:{})", FRAMES.map(of).join("|"))).expect("a pattern of ours")
});
const FRAMES: [&str; 4] = ["user_message", "user_query", "feedback", "answer"];
/// Behind this, in the result of a call that the user refused, stands what the user said, and before that a note of the harness.
const SAID: &str = "the user said:\n";
/// So Claude Code's harness begins there itself, and quotes the model's questions with what was chosen from a list.
const QUESTIONS: &str = "The user wants to clarify these questions.";
const NOTE: &str = "\n\nNote: The user's next message";

/// A sentence of the user, or what is gone of a run of pasted lines.
#[derive(Clone)]
pub struct Words {
    pub turn: u32,
    pub text: String,
    /// 0 of what was typed.
    pub n_pasted: usize,
}

/// A sentence of a step.
struct Sentence<'a> {
    step: u32,
    text: &'a str,
    /// Where the run of pasted lines begins that it is of.
    run: Option<usize>,
}

/// What a session's user had typed, read once for all its compactions.
pub(super) struct Typed<'a> {
    log: &'a Log,
    /// The texts of all steps.
    sources: &'a Runs,
    /// How often each sentence was said.
    said: HashMap<Vec<u64>, u32>,
    /// The calls of each id, in order.
    calls: HashMap<&'a str, Vec<u32>>,
}

impl<'a> Typed<'a> {
    pub(super) fn of(log: &'a Log, sources: &'a Runs) -> Self {
        let mut calls: HashMap<&str, Vec<u32>> = HashMap::new();
        for (at, step) in
            log.trajectory.steps.iter().enumerate().filter(|(_, step)| step.kind == Kind::Action)
        {
            step.call_id.iter().for_each(|id| calls.entry(id).or_default().push(at as u32));
        }
        let mut typed = Typed { log, sources, said: HashMap::new(), calls };
        let mut said: HashMap<Vec<u64>, u32> = HashMap::new();
        for sentence in typed.sentences(0..log.n_steps() as u32) {
            *said.entry(words(sentence.text)).or_default() += 1;
        }
        typed.said = said;
        typed
    }

    /// Sentences of the user among `steps` that go, and stand word for word neither in the summary, nor in what stays, nor in what is
    /// logged until the next compaction. What was said more than once is left out.
    pub(super) fn gone(
        &self,
        steps: Range<u32>,
        until: u32,
        (goes, is_gone): (&dyn Fn(u32) -> bool, &dyn Fn(u32) -> bool),
        summary: &str,
    ) -> Vec<Words> {
        // In code that a summary quotes a line may end in `\\n`.
        let summary = Runs::new([summary, &summary.replace("\\n", "\n")]);
        let stands = |step: u32| step < until && (step >= steps.end || !is_gone(step));
        let mut found: Vec<Words> = Vec::new();
        let mut last = None;
        for Sentence { step, text, run } in self.sentences(steps.clone()).filter(|of| goes(of.step)) {
            let of = words(text);
            let is_there =
                |of: &[u64]| summary.hold(of) || self.sources.texts_with(of).any(|step| stands(step as u32));
            let is_short = of.len() < LEAST || self.said.get(&of) != Some(&1);
            // What stands behind a command is what was said.
            let is_bare_there = || behind_command(text).is_some_and(|at| is_there(&words(&text[at..])));
            if is_of_harness(text) || is_short || is_there(&of) || is_bare_there() {
                continue;
            }
            let text = without(text, &|line| is_there(&words(line)));
            let place = run.map(|run| (step, run));
            match found.last_mut().filter(|_| place.is_some() && place == last) {
                Some(words) => {
                    words.text += "\n";
                    words.text += &text;
                    words.n_pasted += 1;
                }
                None => found.push(Words {
                    turn: self.log.turn_of(step),
                    text,
                    n_pasted: usize::from(place.is_some()),
                }),
            }
            last = place;
        }
        found
    }

    /// What the user typed or pasted among these steps.
    fn sentences<'s>(&'s self, steps: Range<u32>) -> impl Iterator<Item = Sentence<'a>> + use<'a, 's> {
        let log = self.log;
        let of_step = move |step: u32| {
            (step, self.answered(step).unwrap_or_else(|| said(&log.trajectory.steps[step as usize])))
        };
        steps.map(of_step).flat_map(move |(step, said)| {
            let text = log.trajectory.steps[step as usize].text.as_str();
            let of_run = move |(run, is_pasted): (Range<usize>, bool)| {
                let piece = &text[run.clone()];
                let run = is_pasted.then_some(run.start);
                statements(piece, true).into_iter().map(move |range| Sentence {
                    step,
                    text: &piece[range],
                    run,
                })
            };
            let said = said.into_iter().filter_map(move |part| unless_command(text, part));
            said.flat_map(move |part| runs(text, part)).flat_map(of_run)
        })
    }

    /// The same in the answer to questions of the model, which the call before it has; none of any other step.
    fn answered(&self, at: u32) -> Option<Vec<Range<usize>>> {
        let steps = &self.log.trajectory.steps;
        let step = &steps[at as usize];
        let calls = self.calls.get(step.call_id.as_deref().filter(|_| step.kind == Kind::Observation)?)?;
        let call = calls[..calls.partition_point(|call| *call < at)].last()?;
        answers::typed(steps[*call as usize].arguments.as_deref()?, &step.text)
    }
}

/// Where in a step the user's own words stand: in a message, and in what the user answered to a call.
fn said(step: &Step) -> Vec<Range<usize>> {
    let text = step.text.as_str();
    let is_typed = step.role == Role::User && !text.starts_with(OF_MODEL);
    let framed = || -> Vec<Range<usize>> {
        let inside = |found: regex::Captures<'_>| found.iter().skip(1).flatten().next().map(|of| of.range());
        FRAME.captures_iter(text).filter_map(inside).collect()
    };
    match step.kind {
        Kind::Message if is_typed => {
            Some(framed()).filter(|all| !all.is_empty()).unwrap_or_else(|| typed_parts(text))
        }
        Kind::Observation if is_typed => match text.find(SAID).map(|at| at + SAID.len()) {
            Some(at) if text[at..].starts_with(QUESTIONS) => Vec::new(),
            Some(at) => vec![at..text[at..].find(NOTE).map_or(text.len(), |end| at + end)],
            None => framed(),
        },
        _ => Vec::new(),
    }
}

/// The lines of a sentence that are not there; all of them where each is, in another order.
fn without(text: &str, is_there: &dyn Fn(&str) -> bool) -> String {
    let gone: Vec<&str> = text.lines().filter(|line| !is_there(line)).collect();
    if gone.is_empty() { text.to_owned() } else { gone.join("\n") }
}

/// Whether a sentence is a tag, as a harness puts them there, and not words behind an element (`<b>Never</b> touch the file vendor.rs`).
fn is_of_harness(text: &str) -> bool {
    let Some(tag) = text.strip_prefix('<') else { return false };
    let name = &tag[..tag.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(tag.len())];
    tag.split_once(&format!("</{name}>")).is_none_or(|(_, behind)| words(behind).len() < LEAST)
}

/// A part of what was typed, unless it is a command alone: one that a message begins with (`/add a.rs`, `!make`) and nothing that is a sentence.
/// What was typed is quoted as it was (`/ask why is that?`).
fn unless_command(text: &str, part: Range<usize>) -> Option<Range<usize>> {
    let head = text.trim_start();
    let is_word = |word: &&str| {
        let word = word.trim_matches(|c: char| c.is_ascii_punctuation());
        !word.is_empty() && word.chars().all(|c| c.is_alphabetic() || c == '\'')
    };
    let Some(behind) = behind_command(head) else { return Some(part) };
    (head[behind..].split_whitespace().filter(is_word).count() >= LEAST && !part.is_empty()).then_some(part)
}

/// Where the command ends that a text begins with.
fn behind_command(text: &str) -> Option<usize> {
    let is_shell = |rest: &&str| rest.starts_with(|c: char| !c.is_whitespace() && c != '[');
    let name = text.strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
    let is_name = |name: &&str| name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_:".contains(&b));
    let shell = text.strip_prefix('!').filter(is_shell).map(|_| 1);
    shell.or(name.filter(is_name).map(|name| 1 + name.len()))
}

/// A text without tags of a harness, what stands between them, and images.
fn typed_parts(text: &str) -> Vec<Range<usize>> {
    let tags: Vec<_> = TAG.captures_iter(text).collect();
    let of = |tag: &regex::Captures<'_>| {
        let name = tag.get(2).map(|name| name.range());
        (tag.get(0).map_or(0..0, |all| all.range()), tag.get(1).is_some_and(|slash| !slash.is_empty()), name)
    };
    let tags: Vec<_> = tags.iter().map(of).collect();
    let name = |name: &Option<Range<usize>>| name.clone().map(|name| &text[name]);
    let closing = tags.iter().filter(|(_, closes, _)| *closes);
    let closed: HashMap<Option<&str>, usize> = closing.map(|(at, _, of)| (name(of), at.start)).collect();
    let (mut parts, mut from, mut within) = (Vec::new(), 0, None);
    for (at, closes, of) in &tags {
        let of = name(of);
        if within.is_some() && !(*closes && of == within) {
            continue;
        }
        if within.take().is_none() {
            parts.push(from..at.start);
        }
        from = at.end;
        let is_closed = closed.get(&of).is_some_and(|end| *end >= at.end);
        if !closes && of.is_none_or(|of| !TYPED.contains(&of)) && is_closed {
            within = of;
        }
    }
    parts.push(from..text.len());
    parts
}

/// Runs of lines of a part, without blank ones and fences in between, each with whether it was pasted.
fn runs(text: &str, part: Range<usize>) -> Vec<(Range<usize>, bool)> {
    let (mut all, mut start, mut at, mut is_fenced) = (Vec::new(), part.start, part.start, false);
    for line in text[part.clone()].split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        if is_fence || line.trim().is_empty() && !is_fenced {
            all.push((start..at, is_pasted(&text[start..at], is_fenced)));
            start = at + line.len();
            is_fenced ^= is_fence;
        }
        at += line.len();
    }
    all.push((start..at, is_pasted(&text[start..at], is_fenced)));
    all
}

/// Many lines at once, which are no list: people write those.
fn is_pasted(run: &str, is_fenced: bool) -> bool {
    let is_entry = |line: &&str| {
        let mark = line.split_whitespace().next().unwrap_or_default();
        let number = mark.trim_end_matches(['.', ')']);
        matches!(mark, "-" | "*" | "•")
            || number.len() < mark.len() && number.bytes().all(|b| b.is_ascii_digit())
    };
    let n = run.lines().filter(|line| !line.trim().is_empty()).count();
    is_fenced && n >= FENCED || n >= PASTED && 2 * run.lines().filter(is_entry).count() < n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_and_images_are_no_words_of_the_user() {
        let of = |text: &'static str| -> Vec<&str> {
            let parts = typed_parts(text).into_iter().map(|part| text[part].trim());
            parts.filter(|part| !part.is_empty()).collect()
        };
        let command =
            "<command-message>fix is running</command-message>\n<command-args>mend it, please</command-args>";
        assert_eq!(of(command), ["mend it, please"]);
        assert_eq!(of("look [image image/png 311274 bytes] here"), ["look", "here"]);
        assert_eq!(of("a Vec<u8> and <b>, <not-closed> stay"), ["a Vec<u8> and <b>,", "stay"]);
        assert_eq!(of("<system-reminder>one <x-y> two</system-reminder> three"), ["three"]);
    }

    #[test]
    fn what_the_user_answers_to_a_call_is_said() {
        let of = |kind: Kind, text: &str| -> Vec<String> {
            let step = crate::trajectory::step(Role::User, kind, text);
            said(&step).into_iter().map(|part| text[part].trim().to_owned()).collect()
        };
        let message = |text: &str| of(Kind::Message, text);
        let answer = |text: &str| of(Kind::Observation, text);
        let told = "New instructions for task continuation:\n<user_message>\nHurry, please.\n</user_message>";
        assert_eq!(
            (message(told), answer(told)),
            (vec!["Hurry, please.".to_owned()], vec!["Hurry, please.".to_owned()])
        );
        assert_eq!(
            answer("The user denied this.\n<feedback>\nNo.\n\nNever.\n</feedback>"),
            ["No.\n\nNever."]
        );
        assert_eq!(answer("<answer>\nThe first\n</answer>"), ["The first"]);
        assert_eq!(message("<task>Mend it.</task>"), ["", "Mend it.", ""]);
        let refused = "It was rejected. To tell you how to proceed, the user said:\nAsk me first.";
        assert_eq!(answer(refused), ["Ask me first."]);
        assert_eq!(
            answer(&format!("{refused}\n\nNote: The user's next message may be one.")),
            ["Ask me first."]
        );
        let asked = "The user wants to clarify these questions.\n    Questions asked:\n- \"Which one?\"\n  Answer: Both of them (Recommended)";
        assert_eq!(
            answer(&format!("It was rejected. The user said:\nthe user said:\n{asked}")),
            Vec::<String>::new()
        );
        // What a call found is the user's only where a frame of the harness says so.
        assert_eq!(answer("12 | <answer>no</answer>"), Vec::<String>::new());
        assert_eq!(answer("Your questions have been answered."), Vec::<String>::new());
    }

    #[test]
    fn what_stands_behind_an_element_is_said() {
        let said = ["<b>Never</b> touch the file vendor.rs, please", "Use <b> for it"];
        assert_eq!(said.map(is_of_harness), [false; 2]);
        let told = [
            "<system>Five lines of it were left out.</system>",
            "<task>",
            "<x_y>a</x_y> b c d e f",
            "<p>a</p> b",
        ];
        assert_eq!(told.map(is_of_harness), [true; 4]);
    }

    #[test]
    fn a_command_is_no_sentence() {
        let of = |text: &'static str| unless_command(text, 0..text.len()).map(|part| text[part].trim());
        for text in [
            "/add src/a.rs src/b.rs src/c.rs",
            "/clear",
            " /model openrouter/some/model-1",
            "!make test -j 2",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        for text in [
            "/ask why does the build fail here?",
            "/compact is something I never want you to suggest",
            "!important the key rotates each day, so do not keep it",
            "/usr/bin/env is not there on my machine",
            "Use /add for it, please",
            "! is a mark",
            "![a](b)",
        ] {
            assert_eq!(of(text), Some(text.trim()), "{text}");
        }
    }

    #[test]
    fn many_lines_at_once_are_pasted() {
        let of = |text: &str| -> Vec<bool> {
            let all = runs(text, 0..text.len()).into_iter();
            all.filter(|(run, _)| !run.is_empty()).map(|(_, is_pasted)| is_pasted).collect()
        };
        let log: String = (0..12).map(|i| format!("12:00:{i:02} INFO worker {i} is up\n")).collect();
        let list: String = (1..13).map(|i| format!("{i}. do what is number {i}\n")).collect();
        assert_eq!(of(&format!("Look at this:\n\n{log}\nWhy is that?")), [false, true, false]);
        assert_eq!(of(&list), [false]);
        assert_eq!(of("See\n```\na = 1\n\nb = 2\nc = 3\n```\nfor that."), [false, true, false]);
    }
}
