//! Whose words a text is: the user's, or the harness's, which speaks in messages of the user too. And the
//! queue of prompts that were typed while the model worked.

use std::sync::LazyLock;

use serde::Deserialize;

use crate::logs::formats::reading::draft::{Losses, enclosed};
use crate::text::lists::{self, Signs, WordSet};

static WORDS: LazyLock<Marks> =
    LazyLock::new(|| lists::read(include_str!("../../../data/words/claude_code.toml")));

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Marks {
    tags: WordSet,
    notices: Signs,
    refusals: Signs,
    denials: Signs,
    approvals: Signs,
    plan: Signs,
    feedback: Signs,
}

/// How the summary begins with which a session goes on, for logs that do not mark it as one.
pub(super) const CONTINUATION: &str =
    "This session is being continued from a previous conversation that ran out of context.";

/// A piece of a message, and who says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Words {
    User(String),
    Harness(String),
}

impl Words {
    pub(super) fn text(&self) -> &str {
        let (Words::User(text) | Words::Harness(text)) = self;
        text
    }
}

/// Cuts a message into the words of the user and those of the harness before and behind them.
pub(super) fn words(text: String) -> Vec<Words> {
    if WORDS.notices.fit(&text) {
        return vec![Words::Harness(text)];
    }
    let start = text.len() - text.trim_start().len();
    let mut from = start;
    while let Some(length) = enclosed_start(text[from..].trim_start()) {
        from = text.len() - text[from..].trim_start().len() + length;
    }
    let end = text.trim_end().len();
    let mut to = end;
    while from < to
        && let Some(at) = enclosed_end(text[from..to].trim_end())
    {
        to = from + at;
    }
    if (from, to) == (start, end) {
        return vec![Words::User(text)];
    }
    let pieces = [
        Words::Harness(text[start..from.max(start)].to_owned()),
        Words::User(text[from..to.max(from)].trim().to_owned()),
        Words::Harness(text[to.max(from)..end.max(from)].to_owned()),
    ];
    pieces.into_iter().filter(|words| !words.text().is_empty()).collect()
}

/// Joins what stands side by side and is said by the same.
pub(super) fn joined(all: Vec<Words>) -> Vec<Words> {
    let mut out: Vec<Words> = Vec::new();
    for words in all {
        match (out.last_mut(), words) {
            (Some(Words::User(before)), Words::User(text))
            | (Some(Words::Harness(before)), Words::Harness(text)) => {
                before.push('\n');
                before.push_str(&text);
            }
            (_, words) => out.push(words),
        }
    }
    out
}

/// The length of the enclosed text that this one begins with.
fn enclosed_start(text: &str) -> Option<usize> {
    enclosed(text).filter(|(tag, _)| WORDS.tags.has(tag)).map(|(_, length)| length)
}

/// Where the enclosed text begins that this one ends with.
fn enclosed_end(text: &str) -> Option<usize> {
    let name = text.strip_suffix('>')?.rsplit("</").next().filter(|name| WORDS.tags.has(name))?;
    text.rfind(&format!("<{name}"))
}

/// Whether the result of a call is what the user said: an answer, or a refusal with or without words.
pub(super) fn is_answer(text: &str, tool: Option<&str>, is_error: Option<bool>) -> bool {
    let has_failed = is_error == Some(true);
    let is_refusal =
        WORDS.refusals.fit(text) || WORDS.denials.fit(text) && text.to_lowercase().contains("the user said:");
    is_refusal && is_error != Some(false)
        || !has_failed
            && match tool {
                Some("AskUserQuestion") => true,
                Some("ExitPlanMode") => is_approval_with_words(text),
                _ => false,
            }
}

/// Whether the user not only approved a plan. The plan itself, which the result may repeat, is the model's.
fn is_approval_with_words(text: &str) -> bool {
    let before_plan = text.lines().take_while(|line| !WORDS.plan.fit(line));
    let mut said = before_plan.map(str::to_lowercase);
    WORDS.approvals.fit(text) && said.any(|line| WORDS.feedback.fit(&line))
}

/// A prompt on its way from the queue to the model.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) text: String,
    pub(super) position: usize,
    pub(super) time: Option<i64>,
    /// It was taken off to be a message of its own, which then stands in the log too.
    is_own_message: bool,
    /// It stood in the log before it was taken off the queue.
    is_told: bool,
}

/// The prompts that were typed while the model worked. They are taken up before its next reply.
#[derive(Debug, Default)]
pub(super) struct Queue {
    waiting: Vec<Queued>,
    taken: Vec<Queued>,
}

impl Queue {
    /// Reads a line of type queue-operation.
    pub(super) fn read(
        &mut self,
        operation: &str,
        content: Option<String>,
        position: usize,
        time: Option<i64>,
        losses: &mut Losses,
    ) {
        match operation {
            "enqueue" => {
                let text = content.unwrap_or_default();
                self.waiting.push(Queued { text, position, time, is_own_message: false, is_told: false });
            }
            "remove" | "dequeue" => {
                let same = content.and_then(|text| self.waiting.iter().position(|q| is_same(&q.text, &text)));
                if self.waiting.is_empty() {
                    return;
                }
                let mut prompt = self.waiting.remove(same.unwrap_or(0));
                if prompt.is_told {
                    losses.add("queued prompt that stands in the log twice");
                    return;
                }
                (prompt.position, prompt.time) = (position, time);
                prompt.is_own_message = operation == "dequeue";
                self.taken.push(prompt);
            }
            // Taken back into the input: what is then sent is a message of its own.
            "popAll" => {
                losses.add_n("queued prompt taken back by the user", self.waiting.drain(..).len() as u64)
            }
            _ => losses.add("queue operation of an unknown kind left out"),
        }
    }

    /// The prompts that stand in this text of the log, several of them joined or one, do not count a second time.
    /// Whether there are any.
    pub(super) fn tell(&mut self, text: &str, losses: &mut Losses) -> bool {
        let mut lines = lines_of(text);
        let n_lines = lines.len();
        let n_taken = self.taken.len();
        self.taken.retain(|q| !cut_out(&q.text, &mut lines));
        losses.add_n("queued prompt that stands in the log twice", (n_taken - self.taken.len()) as u64);
        for prompt in self.waiting.iter_mut().filter(|q| !q.is_told) {
            prompt.is_told = cut_out(&prompt.text, &mut lines);
        }
        lines.len() < n_lines
    }

    /// A message of the user without a prompt of the queue stands in the log: it is the one that was taken off the
    /// queue for it, in another form.
    pub(super) fn tell_message(&mut self, losses: &mut Losses) {
        if let Some(i) = self.taken.iter().position(|q| q.is_own_message) {
            self.taken.remove(i);
            losses.add("queued prompt left out for the message that it was taken for");
        }
    }

    /// The prompts that the reply that comes now is the first to see. Commands to the program are none.
    pub(super) fn take(&mut self, losses: &mut Losses) -> Vec<Queued> {
        let (commands, prompts): (Vec<_>, Vec<_>) = self
            .taken
            .drain(..)
            .partition(|q| q.text.trim().is_empty() || q.is_own_message && q.text.starts_with(['/', '!']));
        losses.add_n("queued command to the program left out", commands.len() as u64);
        losses.add_n("prompt taken from the queue", prompts.len() as u64);
        prompts
    }

    /// Those that no reply saw.
    pub(super) fn finish(self, losses: &mut Losses) {
        let n = self.waiting.iter().filter(|q| !q.is_told).count() + self.taken.len();
        losses.add_n("queued prompt that no reply saw", n as u64);
    }
}

/// The lines with words in them.
fn lines_of(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Takes the lines of a prompt out of these lines, once, if they stand there side by side.
fn cut_out(prompt: &str, lines: &mut Vec<&str>) -> bool {
    let prompt = lines_of(prompt);
    if prompt.is_empty() {
        return false;
    }
    let found = lines.windows(prompt.len()).position(|window| *window == prompt);
    found.map(|at| drop(lines.drain(at..at + prompt.len()))).is_some()
}

/// Whether two texts are the same prompt.
fn is_same(a: &str, b: &str) -> bool {
    a.trim() == b.trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_cut_into_those_who_speak() {
        let (user, harness) = (|t: &str| Words::User(t.to_owned()), |t: &str| Words::Harness(t.to_owned()));
        assert_eq!(words("Fix <b> it.".into()), [user("Fix <b> it.")]);
        let reminded = "<system-reminder>\nA\n</system-reminder>\n\nFix it.\n<bash-stdout>b</bash-stdout>";
        assert_eq!(
            words(reminded.into()),
            [
                harness("<system-reminder>\nA\n</system-reminder>"),
                user("Fix it."),
                harness("<bash-stdout>b</bash-stdout>")
            ]
        );
        let both = "<bash-stdout></bash-stdout><bash-stderr>e</bash-stderr>";
        assert_eq!(words(both.into()), [harness(both)]);
        for whole in
            ["[Request interrupted by user for tool use]", "<local-command-stdout>x</local-command-stdout>"]
        {
            assert_eq!(words(whole.into()), [harness(whole)]);
        }
        // What an editor says of itself, and what a hook adds to a prompt.
        for tag in ["ide_opened_file", "ide_selection", "ide_diagnostics", "user-prompt-submit-hook"] {
            let note = format!("<{tag}>never touch a.py</{tag}>");
            assert_eq!(words(format!("{note}\nFix it.")), [harness(&note), user("Fix it.")]);
        }
        // A command is typed, and so is what only looks like the harness.
        for typed in
            ["<command-name>/x</command-name>", "<system-reminder> is what?", "see </system-reminder>"]
        {
            assert_eq!(words(typed.into()), [user(typed)]);
        }
    }

    #[test]
    fn whose_words_a_result_is() {
        let of = |tool: &str, text: &str| is_answer(text, Some(tool), None);
        let failed = |text: &str| is_answer(text, Some("Bash"), Some(true));
        assert!(of("AskUserQuestion", "User has answered") && !of("mcp__so__search", "5 answers"));
        assert!(!is_answer("Invalid input", Some("AskUserQuestion"), Some(true)));
        let refusal = "The user doesn't want to proceed with this tool use. The user said:\nno";
        assert!(failed(refusal) && !is_answer(refusal, Some("Bash"), Some(false)));
        assert!(!failed("Exit code 1\nlog: the user said: hi"));
        assert!(!failed(&format!("log: {refusal}")));
        const DENIAL: &str = "Permission for this tool use was denied.";
        assert!(!failed(DENIAL) && failed(&format!("{DENIAL} The user said:\nno")));
        let approved = "User has approved your plan. You can now start coding.";
        let plan = "\n## Approved Plan:\nAsk for feedback";
        assert!(!of("ExitPlanMode", approved) && !of("ExitPlanMode", &format!("{approved}{plan}")));
        assert!(of("ExitPlanMode", &format!("{approved}\nUser feedback: port 9{plan}")));
        assert!(of("ExitPlanMode", &format!("{approved} Plan edited by user: port 9")));
        assert!(of("ExitPlanMode", &format!("{approved}\n## Approved Plan (edited by user):\nport 9")));
        assert!(!of("Bash", &format!("{approved}\nUser feedback: port 9")));
    }

    fn taken(operations: &[(&str, Option<&str>)], told: &[&str]) -> (Vec<String>, Losses) {
        let (mut queue, mut losses) = (Queue::default(), Losses::default());
        for (operation, content) in operations {
            queue.read(operation, content.map(str::to_owned), 0, None, &mut losses);
        }
        for text in told {
            if !queue.tell(text, &mut losses) {
                queue.tell_message(&mut losses);
            }
        }
        let texts = queue.take(&mut losses).into_iter().map(|q| q.text).collect();
        queue.finish(&mut losses);
        (texts, losses)
    }

    #[test]
    fn queued_prompts_are_taken_up_in_order() {
        let ab = [("enqueue", Some("a")), ("enqueue", Some("b")), ("remove", None)];
        let (texts, losses) = taken(&ab, &[]);
        assert_eq!(texts, ["a"]);
        assert_eq!(losses.0["queued prompt that no reply saw"], 1);
        // Newer versions name the one that is removed.
        let named = [ab[0], ab[1], ("remove", Some("b"))];
        assert_eq!(taken(&named, &[]).0, ["b"]);
        let back = [ab[0], ab[1], ("popAll", Some("a"))];
        let (texts, losses) = taken(&back, &[]);
        assert_eq!(texts.len(), 0);
        assert_eq!(losses.0["queued prompt taken back by the user"], 2);
    }

    #[test]
    fn prompts_that_were_joined_into_one_message_count_once() {
        let [a, b, c] = ["use tabs", "port 72,\nor 73", "use tabs"].map(|text| ("enqueue", Some(text)));
        let three = |operation| [a, b, c, (operation, None), (operation, None), (operation, None)];
        for operation in ["remove", "dequeue"] {
            for joined in
                ["use tabs\nport 72,\nor 73\n\nuse tabs", "use tabs\nuse tabs\nport 72,\nor 73\nand this"]
            {
                let (texts, losses) = taken(&three(operation), &[joined]);
                assert_eq!((texts.len(), losses.0["queued prompt that stands in the log twice"]), (0, 3));
                assert_eq!(losses.0.len(), 1);
            }
            // One that stands there once is told once; a part of a line is none.
            let (texts, losses) = taken(&three(operation), &["see:\nuse tabs"]);
            assert_eq!((texts.len(), losses.0["queued prompt that stands in the log twice"]), (2, 1));
            assert_eq!(texts, ["port 72,\nor 73", "use tabs"]);
        }
        // A message in other words is the one that a prompt was taken for: this is told.
        let (texts, losses) = taken(&[a, ("dequeue", None)], &["never use tabs"]);
        assert_eq!(texts.len(), 0);
        assert_eq!(losses.0["queued prompt left out for the message that it was taken for"], 1);
        let (texts, _) = taken(&[a, ("remove", None)], &["never use tabs"]);
        assert_eq!(texts, ["use tabs"]);
    }

    #[test]
    fn a_queued_prompt_that_stands_in_the_log_counts_once() {
        let (texts, losses) = taken(&[("enqueue", Some("a")), ("remove", None)], &["a\n"]);
        assert_eq!((texts.len(), losses.0["queued prompt that stands in the log twice"]), (0, 1));
        let (mut queue, mut losses) = (Queue::default(), Losses::default());
        queue.read("enqueue", Some("a".into()), 0, None, &mut losses);
        assert!(queue.tell("a", &mut losses));
        queue.read("remove", None, 1, None, &mut losses);
        assert_eq!(queue.take(&mut losses).len(), 0);
        // A command to the program is no prompt; one that was dequeued and is told by no message is.
        let (texts, _) = taken(&[("enqueue", Some("/exit")), ("dequeue", None)], &[]);
        assert_eq!(texts.len(), 0);
        let (texts, _) = taken(&[("enqueue", Some("go on")), ("dequeue", None)], &[]);
        assert_eq!(texts, ["go on"]);
    }
}
