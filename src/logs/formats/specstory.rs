//! Sessions that SpecStory exports as Markdown, of Cursor and of agents on the command line.
//!
//! A heading at the beginning of a line says who speaks: `_**User (TIME)**_`, `_**Agent (MODEL TIME)**_`,
//! `_**Assistant**_`, and `_****_` over a step of a tool in older exports. A tool is `<tool-use>` (older: `<details>`)
//! with what it was given as Markdown, and its output in the last fence. What stands inside of it is no heading.
//!
//! Ids of calls, usage and errors are not exported. Blocks of an agent are one reply up to its call: parallel calls
//! cannot be told from one after the other.

use super::reading::Draft;
use super::reading::content::UNKNOWN_TOOL;
use super::reading::draft::enclosed;
use super::reading::time::parse_iso;
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

pub(super) const ENTRY: Entry = Entry {
    name: "specstory",
    summary: "SpecStory exports of sessions in Markdown",
    reading: Reading::Text(read),
};

#[derive(Clone, Copy, PartialEq)]
enum Who {
    User,
    Agent,
    Tool,
}

/// What stands below one heading.
struct Block<'a> {
    who: Who,
    /// What the heading says in brackets.
    about: &'a str,
    text: String,
}

fn read(text: &str, sink: &mut Sink<'_>) {
    let (head, blocks) = blocks(text);
    let mut draft = Draft::new();
    let mut replies = Replies::default();
    let mut model = None;
    for (i, block) in blocks.iter().enumerate() {
        let (before, time) = time_in(block.about);
        draft.at(i, time);
        match block.who {
            Who::User => {
                replies.end(&mut draft);
                read_user(&block.text, &mut draft);
            }
            Who::Agent | Who::Tool => {
                model = model.or(Some(before).filter(|name| !name.is_empty()));
                let is_tool = block.who == Who::Tool && block.text.contains("<details>");
                replies.read(&block.text, is_tool, &mut draft);
            }
        }
    }
    replies.end(&mut draft);
    let (agent, id) = session_in(&head).unzip();
    let about = Trajectory { agent, model: model.map(str::to_owned), ..Trajectory::default() }
        .of_session(id, &sink.source.stem);
    draft.finish(about, sink);
}

/// What harnesses put in the place of the user stands in tags, and is said by nobody.
fn read_user(text: &str, draft: &mut Draft) {
    let is_harness =
        |tag: &str| ["local-command", "system-reminder", "command-stdout"].iter().any(|t| tag.starts_with(t));
    match enclosed(text) {
        Some((tag, end)) if is_harness(tag) && text[end..].trim().is_empty() => draft.notice(text.to_owned()),
        _ => draft.user(text.to_owned()),
    }
}

/// Cuts the text at its headings; also returns the lines before the first one.
fn blocks(text: &str) -> (Vec<&str>, Vec<Block<'_>>) {
    let (mut head, mut blocks) = (Vec::new(), Vec::<Block<'_>>::new());
    let closings: Vec<usize> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.trim_end().ends_with("</tool-use>"))
        .map(|(i, _)| i)
        .collect();
    // Up to this line all belongs to a tool.
    let (mut closed_at, mut next) = (0, 0);
    for (i, line) in text.lines().enumerate() {
        if i >= closed_at {
            if let Some((who, about)) = heading(line) {
                blocks.push(Block { who, about, text: String::new() });
                continue;
            }
            if line.starts_with("<tool-use ") {
                next += closings[next..].iter().take_while(|at| **at < i).count();
                closed_at = closings.get(next).copied().unwrap_or(0);
            }
        }
        match blocks.last_mut() {
            Some(block) => block.text.extend([line, "\n"]),
            None => head.push(line),
        }
    }
    for block in &mut blocks {
        let text = block.text.trim();
        // A rule parts the blocks.
        block.text = text.strip_suffix("\n---").unwrap_or(text).trim().to_owned();
    }
    (head, blocks)
}

fn heading(line: &str) -> Option<(Who, &str)> {
    let inner = line.trim_end().strip_prefix("_**")?.strip_suffix("**_")?;
    let (name, about) = inner.split_once(" (").unwrap_or((inner, ""));
    let who = match name.split(' ').next() {
        Some("User") => Who::User,
        Some("Agent" | "Assistant") => Who::Agent,
        Some("") => Who::Tool,
        _ => return None,
    };
    Some((who, about.strip_suffix(')').unwrap_or(about)))
}

/// Splits `MODEL 2026-01-29 16:26:46Z`.
fn time_in(about: &str) -> (&str, Option<i64>) {
    const LENGTH: usize = "2026-01-29 16:26:46".len();
    let at = about.trim_end_matches('Z').len().checked_sub(LENGTH).filter(|at| about.is_char_boundary(*at));
    match at.and_then(|at| Some((&about[..at], parse_iso(&about[at..])?))) {
        Some((before, time)) => (before.trim(), Some(time)),
        None => (about, None),
    }
}

/// Agent and id in `<!-- Claude Code Session ID (TIME) -->`.
fn session_in(head: &[&str]) -> Option<(String, String)> {
    head.iter().find_map(|line| {
        let (agent, rest) = line.strip_prefix("<!-- ")?.split_once(" Session ")?;
        let id = rest.split(' ').next().filter(|id| !id.is_empty())?;
        Some((agent.to_lowercase().replace(' ', "-"), id.to_owned()))
    })
}

/// Number of a block, and its time.
type Place = (usize, Option<i64>);

/// Collects blocks of the agent until its call.
#[derive(Default)]
struct Replies {
    /// What is said, and whether it is a thought, with its place in the log.
    said: Vec<(Place, bool, String)>,
    n_calls: usize,
}

impl Replies {
    fn read(&mut self, text: &str, is_tool: bool, draft: &mut Draft) {
        if is_tool {
            return self.call(text, draft);
        }
        // Where the next element of each kind begins; those that come no more are not looked for again.
        let mut next = ELEMENTS.map(|(open, _)| begin(text, 0, open));
        let mut at = 0;
        while at < text.len() {
            for (next, (open, _)) in next.iter_mut().zip(ELEMENTS) {
                if next.is_some_and(|next| next < at) {
                    *next = begin(text, at, open);
                }
            }
            let found =
                next.iter().zip(ELEMENTS).filter_map(|(next, element)| Some((((*next)?), element))).min();
            let start = found.map_or(text.len(), |(start, _)| start);
            self.say(&text[at..start], false, draft);
            at = start;
            if let Some((_, (open, close))) = found {
                let is_thought = open == THINK.0;
                let rest = &text[start..];
                let end = if is_thought { rest.find(close) } else { closing(rest, close) };
                let end = end.unwrap_or(rest.len());
                match is_thought {
                    true => self.say(without_summary(&rest[open.len().min(end)..end]), true, draft),
                    false => self.call(&rest[..end], draft),
                }
                at += (end + close.len()).min(rest.len());
            }
        }
    }

    fn say(&mut self, text: &str, is_thought: bool, draft: &Draft) {
        if !text.trim().is_empty() {
            self.said.push((draft.place(), is_thought, text.trim().to_owned()));
        }
    }

    fn call(&mut self, text: &str, draft: &mut Draft) {
        self.push(Kind::Thought, draft);
        let (tool, arguments, output) = tool_use(text);
        let shown = format!("{tool}\n{arguments}");
        self.n_calls += 1;
        // No ids are exported; the output stands with its call.
        let id = format!("call-{}", self.n_calls);
        draft.action_as(tool, shown.trim_end().to_owned(), Some(arguments), Some(id.clone()));
        if let Some(output) = output {
            draft.result(Some(&id), None, output, None);
        }
    }

    /// The reply ends without a call.
    fn end(&mut self, draft: &mut Draft) {
        if !self.said.is_empty() {
            self.push(Kind::Message, draft);
        }
    }

    fn push(&mut self, kind: Kind, draft: &mut Draft) {
        let (message, time) = draft.place();
        draft.begin_call();
        for (place, is_thought, text) in self.said.drain(..) {
            draft.at(place.0, place.1);
            draft.agent(if is_thought { Kind::Thought } else { kind }, text);
        }
        draft.at(message, time);
    }
}

const THINK: (&str, &str) = ("<think>", "</think>");

/// What stands among the words of an agent, by its first and last tag.
const ELEMENTS: [(&str, &str); 3] =
    [THINK, ("<tool-use", "</tool-use>"), ("<details>\n<summary>Tool use: **", "</details>")];

/// Where a line begins with this tag, from a place on.
fn begin(text: &str, from: usize, tag: &str) -> Option<usize> {
    let is_line = |at: &usize| *at == 0 || text.as_bytes()[at - 1] == b'\n' || *at == from;
    text[from..].match_indices(tag).map(|(at, _)| from + at).find(is_line)
}

/// Where the tag stands that closes a tool: at the end of a line.
fn closing(text: &str, tag: &str) -> Option<usize> {
    text.match_indices(tag).map(|(at, _)| at).find(|at| {
        let line = &text[at + tag.len()..];
        line.split('\n').next().is_none_or(|rest| rest.trim().is_empty())
    })
}

/// What stands behind the summary of `<details>`.
fn without_summary(text: &str) -> &str {
    let text = text.trim();
    let text = text.strip_prefix("<details>").unwrap_or(text).trim_start();
    let text = match text.strip_prefix("<summary>").and_then(|rest| rest.split_once("</summary>")) {
        Some((_, rest)) => rest,
        None => text,
    };
    text.trim().strip_suffix("</details>").unwrap_or(text.trim()).trim()
}

/// Name, arguments and output of a tool.
fn tool_use(text: &str) -> (String, String, Option<String>) {
    let attributes = text.split('>').next().unwrap_or("");
    let named = attributes.split_once("data-tool-name=\"").and_then(|(_, rest)| rest.split('"').next());
    let bold = || text.split_once("Tool use: **")?.1.split("**").next();
    let tool = named.or_else(bold).filter(|name| !name.is_empty()).unwrap_or(UNKNOWN_TOOL).to_owned();
    let details = text.find("<details>").map_or(text, |at| &text[at..]);
    // Older exports say in the summary what a tool was given.
    let summary = details.split_once("Tool use: **").and_then(|(_, rest)| rest.split_once("**"));
    let given = summary.and_then(|(_, rest)| rest.split_once("</summary>")).map_or("", |(given, _)| given);
    let given = given.trim_matches([' ', '\u{2022}', '\n']);
    let body = without_summary(details);
    let (before, output) = last_fence(body);
    let parts: Vec<&str> = [given, before.trim()].into_iter().filter(|part| !part.is_empty()).collect();
    (tool, parts.join("\n"), output)
}

/// What stands before the fence that ends a text, and what in it.
fn last_fence(body: &str) -> (&str, Option<String>) {
    let none = (body, None);
    let Some(inner) = body.strip_suffix("```").filter(|inner| inner.ends_with('\n') || inner.is_empty())
    else {
        return none;
    };
    // SpecStory fences outputs as text; the outermost such fence is the one that this closes.
    let opens = |mark: &str| {
        if inner.starts_with(mark) { Some(0) } else { inner.find(&format!("\n{mark}")).map(|at| at + 1) }
    };
    // Of another language it is what the agent wrote.
    let is_plain = |at: &usize| matches!(inner[*at..].lines().next(), Some("```" | "```json"));
    let last =
        || inner.rfind("\n```").map(|at| at + 1).or(inner.starts_with("```").then_some(0)).filter(is_plain);
    match opens("```text\n").or_else(last) {
        Some(at) => {
            let output = inner[at..].split_once('\n').map_or("", |(_, output)| output);
            (&body[..at], Some(output.strip_suffix('\n').unwrap_or(output).to_owned()))
        }
        None => none,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::draft::Losses;

    fn runs(text: &str) -> (Vec<Trajectory>, Losses) {
        let source = Source::test("p/2026-01-02_03-04-05Z-fix.md", "specstory");
        let mut sink = Sink::new(&source);
        read(text, &mut sink);
        (sink.trajectories, sink.losses)
    }

    fn outline(t: &Trajectory) -> Vec<String> {
        t.steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect()
    }

    #[test]
    fn a_session_of_an_agent_on_the_command_line() {
        let text = r#"<!-- Generated by SpecStory, Markdown v2.1.0 -->

# 2026-01-02 03:04:05Z

<!-- Claude Code Session s-1 (2026-01-02 03:04:05Z) -->

_**User (2026-01-02 03:04:05Z)**_

Fix it.

---

_**Agent (big-1 2026-01-02 03:04:06Z)**_

<think><details><summary>Thought Process</summary>
Look first.
</details></think>

_**Agent (big-1 2026-01-02 03:04:07Z)**_

I look.

_**Agent (big-1 2026-01-02 03:04:08Z)**_

<tool-use data-tool-type="shell" data-tool-name="Bash"><details>
<summary>Tool use: **Bash**</summary>
`cat notes.md`

```text
_**User (2025-01-01 00:00:00Z)**_

```sh
ls
```
```
</details></tool-use>

_**Agent (big-1 2026-01-02 03:04:09Z)**_

<tool-use data-tool-type="write" data-tool-name="Edit"><details>
<summary>Tool use: **Edit**</summary>
 `a.rs`

```diff
-x
+y
```
</details></tool-use>

---

_**Agent (big-1 2026-01-02 03:04:10Z)**_

Done.
"#;
        let (runs, losses) = runs(text);
        let t = &runs[0];
        assert_eq!(
            outline(t),
            [
                "0 message Fix it.",
                "1 thought Look first.",
                "1 thought I look.",
                "1 action Bash\n`cat notes.md`",
                "1 observation _**User (2025-01-01 00:00:00Z)**_\n\n```sh\nls\n```",
                "2 action Edit\n`a.rs`\n\n```diff\n-x\n+y\n```",
                "3 message Done.",
            ]
        );
        assert_eq!(
            (t.task_id.as_deref(), t.agent.as_deref(), t.model.as_deref()),
            (Some("s-1"), Some("claude-code"), Some("big-1"))
        );
        assert_eq!(t.steps[1].time, parse_iso("2026-01-02T03:04:06Z"));
        assert_eq!(losses.0["call without a result"], 1);
    }

    #[test]
    fn an_older_export() {
        let text = "## SpecStory\n\n# A title (2025-03-04 10:11:12)\n\n_**User**_\n\nWhere?\n\n---\n\n_**Assistant**_\n\n\nI search.\n\n---\n\n\
            _****_\n\n<details>\n<summary>Tool use: **grep** \u{2022} Searched for \"x\"</summary>\n\n```text\na.rs:1\n```\n</details>\n\n---\n\n\
            _**Assistant**_\n\nIn a.rs.\n";
        let (runs, _) = runs(text);
        assert_eq!(
            outline(&runs[0]),
            [
                "0 message Where?",
                "1 thought I search.",
                "1 action grep\nSearched for \"x\"",
                "1 observation a.rs:1",
                "2 message In a.rs."
            ]
        );
    }
}
