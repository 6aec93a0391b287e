//! Chat histories of Aider in Markdown: `# aider chat started at TIME` begins a session, which is one run.
//!
//! Lines `#### ` are the user's, lines `> ` are Aider's own (commands, edits, tests, warnings), all others are the
//! reply. Aider ends its own lines and the user's with two blanks, a reply seldom does: so headings and quotes of a
//! reply stay in it. What Aider says behind a reply is an observation, elsewhere a notice. The prompts (files, repository
//! map, system prompt) and the summaries of older messages are not in the log.
//!
//! `Tokens: 5.2k sent, 604 received.` is the usage of the reply before it, rounded by Aider.

use super::reading::Draft;
use super::reading::names::repository_of;
use super::reading::repair::{JSON_BEFORE, n_json};
use super::reading::time::parse_iso;
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory, Usage};

pub(super) const ENTRY: Entry =
    Entry { name: "aider", summary: "Aider chat history in Markdown", reading: Reading::Text(read) };

/// What Aider puts behind its own lines and the user's.
const END: &str = "  ";

const TITLE: &str = "# aider chat started at ";

/// Commands of the user that clear the history: not each version says so. And what Aider says then.
const CLEAR: [&str; 2] = ["/clear", "/reset"];
const CLEARED: [&str; 3] = [
    "All chat history cleared.",
    "All files dropped and chat history cleared.",
    "Reset complete: all files dropped and chat history cleared.",
];

#[derive(Clone, Copy, PartialEq)]
enum Who {
    User,
    Aider,
    Reply,
}

/// Lines of one speaker.
struct Block {
    who: Who,
    text: String,
}

/// Whether a line alone tells that a text is a history.
pub(in crate::logs) fn is_mark(line: &[u8]) -> bool {
    let begins = |mark: &str| line.starts_with(mark.as_bytes());
    [TITLE, "> Aider v", "-*- mode: fundamental"].into_iter().any(begins)
        || begins("> Tokens: ") && memchr::memmem::find(line, b" sent, ").is_some()
}

fn read(text: &str, sink: &mut Sink<'_>) {
    let (mut start, mut lines) = (None, Vec::new());
    for line in text.lines() {
        match line.strip_prefix(TITLE) {
            Some(time) => {
                if start.is_none() {
                    sink.losses.add_n(JSON_BEFORE, n_json(&lines));
                }
                finish(start, &lines, sink);
                (start, lines) = (Some(time.trim()), Vec::new());
            }
            None => lines.push(line),
        }
    }
    finish(start, &lines, sink);
}

/// Reads the lines of a session into a run.
fn finish(start: Option<&str>, lines: &[&str], sink: &mut Sink<'_>) {
    let blocks = blocks(lines);
    // A reply whose tokens were counted is one also where its question is gone.
    let count = |i: usize| blocks.get(i + 1).and_then(|next| usage(&next.text));
    let is_said = |(i, block): (usize, &Block)| match block.who {
        Who::User => true,
        Who::Reply => count(i).is_some(),
        Who::Aider => false,
    };
    if !blocks.iter().enumerate().any(is_said) {
        let is_blank = start.is_none() && blocks.iter().all(|block| block.text.trim().is_empty());
        sink.losses.add_n("session without a message left out", u64::from(!is_blank));
        return;
    }
    let mut draft = Draft::new();
    let mut time = start.and_then(parse_iso);
    let (mut speaker, mut is_asked) = (Who::Aider, false);
    // Whether there is a history since it was cleared, and whether it was cleared just now.
    let (mut is_begun, mut is_cleared) = (false, false);
    for (i, block) in blocks.iter().enumerate() {
        draft.at(i, time.take());
        let text = block.text.clone();
        if block.who != Who::Aider && is_cleared {
            clear(&mut is_begun, &mut draft);
        }
        is_cleared = match block.who {
            Who::User => CLEAR.contains(&text.trim()),
            Who::Aider => is_cleared || text.lines().any(|line| CLEARED.contains(&line)),
            Who::Reply => false,
        };
        match block.who {
            Who::User => {
                draft.user(text);
                is_asked = true;
            }
            Who::Reply if !is_asked && count(i).is_none() => draft.notice(text),
            Who::Reply => {
                is_begun = true;
                draft.begin_call();
                draft.usage(count(i));
                draft.agent(Kind::Message, text);
            }
            Who::Aider => read_own(&text, speaker == Who::Reply, &mut draft),
        }
        if block.who != Who::Aider {
            speaker = block.who;
        }
    }
    if is_cleared {
        clear(&mut is_begun, &mut draft);
    }
    let said = |mark: &str| {
        let own = blocks.iter().filter(|block| block.who == Who::Aider);
        own.flat_map(|block| block.text.lines()).find_map(|line| line.strip_prefix(mark))
    };
    let model = ["Main model: ", "Models: ", "Model: "].into_iter().find_map(said);
    let about = Trajectory {
        task_id: Some(start.map_or_else(|| sink.source.stem.clone(), str::to_owned)),
        is_named_by_file: start.is_none(),
        repository: said("Git working dir: ").and_then(repository_of),
        agent: Some("aider".to_owned()),
        model: model.and_then(|line| line.split([' ', ',']).next()).map(str::to_owned),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// A cleared history is a compaction without text.
fn clear(is_begun: &mut bool, draft: &mut Draft) {
    if std::mem::take(is_begun) {
        draft.compaction(String::new());
    }
}

/// What Aider says of its own: all but what it counted.
fn read_own(text: &str, is_behind_reply: bool, draft: &mut Draft) {
    let words: Vec<&str> = text.lines().filter(|line| counted(line).is_none()).collect();
    let words = words.join("\n");
    if words.trim().is_empty() {
        return;
    }
    if is_behind_reply {
        draft.observation(words, None);
    } else {
        draft.notice(words);
    }
}

/// Cuts lines into what each speaker said in one go. A blank line ends what the user says. A text of Aider's over several
/// lines has its mark on the first one alone, and two blanks behind the last one.
///
/// Programs that format Markdown take the two blanks at the end of headings and paragraphs, and part headings by blank lines: then
/// a blank line ends what Aider says, and not what the user says.
fn blocks(lines: &[&str]) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let (mut is_ended, mut goes_on) = (false, false);
    let typed = || lines.iter().filter(|line| line.starts_with("#### "));
    let is_formatted = typed().next().is_some() && !typed().any(|line| line.ends_with(END));
    for line in lines {
        goes_on &= !is_formatted || !line.trim().is_empty();
        let is_in_reply = !goes_on && blocks.last().is_some_and(|block| block.who == Who::Reply);
        let is_own = |mark: &str| {
            let is_marked =
                line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
            is_marked && (!is_in_reply || line.ends_with(END) || line.starts_with("> Tokens: "))
        };
        let (who, text) = if is_own("####") {
            (Who::User, line[4..].strip_prefix(' ').unwrap_or("").trim_end())
        } else if is_own(">") {
            (Who::Aider, line[1..].strip_prefix(' ').unwrap_or("").trim_end())
        } else {
            (Who::Reply, *line)
        };
        let (who, text) =
            if goes_on && who == Who::Reply { (Who::Aider, text.trim_end()) } else { (who, text) };
        goes_on = who == Who::Aider && !line.ends_with(END);
        if who == Who::Reply && !is_in_reply && text.trim().is_empty() {
            is_ended |= !is_formatted;
            continue;
        }
        match blocks.last_mut() {
            Some(block) if block.who == who && !(is_ended && who == Who::User) => {
                block.text.extend(["\n", text])
            }
            _ => blocks.push(Block { who, text: text.to_owned() }),
        }
        is_ended = false;
    }
    let trimmed =
        blocks.into_iter().map(|block| Block { text: block.text.trim_matches('\n').to_owned(), ..block });
    trimmed.filter(|block| !block.text.trim().is_empty()).collect()
}

/// The usage in what Aider says behind a reply.
fn usage(text: &str) -> Option<Usage> {
    text.lines().find_map(counted)
}

fn counted(line: &str) -> Option<Usage> {
    let counts = line.strip_prefix("Tokens: ")?.split(". ").next()?.trim_end_matches('.');
    let mut usage = Usage::default();
    for part in counts.split(", ") {
        let (number, what) = part.split_once(' ')?;
        let tokens = tokens(number);
        match what {
            "sent" => usage.input = tokens?,
            "received" => usage.output = tokens,
            "cache hit" => usage.cache_read = tokens,
            "cache write" => usage.cache_write = tokens,
            _ => return None,
        }
    }
    (usage.input > 0).then_some(usage)
}

/// `5,244`, `5.2k` or `12k`.
fn tokens(text: &str) -> Option<u64> {
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1000.0),
        None => (text, 1.0),
    };
    let number: f64 = digits.replace(',', "").parse().ok()?;
    (0.0..1e12).contains(&number).then_some((number * scale).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::draft::Losses;

    const LOG: &str = "
# aider chat started at 2025-01-02 03:04:05

> Aider v0.80.0  
> Main model: acme/big-1 with diff edit format  
> Git working dir: /home/me/src/tool  

#### fix the parser  
####   
#### and the tests  
> Added parser.py to the chat  

Here is the change:

#### A heading of the reply
> a quote of it

```python
x = 1
```

> Tokens: 5.2k sent, 1,024 cache hit, 604 received.
Cost: $0.02 message, $0.02 session.  
> Applied edit to parser.py  

#### /clear  
> All chat history cleared.  

#### next  

Sure.

# aider chat started at 2025-01-02 04:00:00

> Aider v0.80.0  
";

    fn runs(text: &str) -> (Vec<Trajectory>, Losses) {
        let source = Source::test("p/.aider.chat.history.md", "aider");
        let mut sink = Sink::new(&source);
        read(text, &mut sink);
        (sink.trajectories, sink.losses)
    }

    #[test]
    fn a_reply_whose_question_is_gone_is_read() {
        let (runs, _) = runs(
            "# aider chat started at 2025-01-02 03:04:05\n\nSure.\n\n> Tokens: 1k sent, 9 received.  \n",
        );
        let said: Vec<_> = runs[0].steps.iter().map(|s| (s.role.name(), s.text.as_str())).collect();
        assert_eq!(said, [("agent", "Sure.")]);
        assert_eq!(runs[0].steps[0].usage.as_ref().map(|usage| usage.input), Some(1000));
    }

    #[test]
    fn what_was_typed_over_several_lines_stays_one_where_the_file_was_formatted() {
        let said = |text: &str| -> Vec<String> {
            let text = format!("# aider chat started at 2025-01-02 03:04:05\n\n{text}");
            runs(&text).0.remove(0).steps.into_iter().map(|step| step.text).collect()
        };
        assert_eq!(
            said(
                "#### fix\n\n####\n\n#### - a\n\n> Scanning.\n\nSure.\n\n> Tokens: 1k sent, 9 received.\n\n#### next\n"
            ),
            ["fix\n\n- a", "Scanning.", "Sure.", "next"]
        );
        assert_eq!(said("#### /ask  \n\n#### why  \n\nSo.\n"), ["/ask", "why", "So."]);
    }

    /// Not each version says something behind `/clear`; what a reply says that was echoed clears nothing, and nothing is there to
    /// be cleared before the first reply.
    #[test]
    fn a_history_is_cleared_by_the_user() {
        let segments = |text: &str| -> Vec<u32> {
            let text = format!("# aider chat started at 2025-01-02 03:04:05\n\n#### go  \n\n{text}");
            let steps = runs(&text).0.remove(0).steps;
            steps.iter().filter(|step| step.is_agent()).map(|step| step.segment).collect()
        };
        let next = "#### next  \n\nSure.\n\n";
        assert_eq!(segments(&format!("One.\n\n#### /clear  \n\n{next}")), [0, 1]);
        let said = "#### /reset  \n> All files dropped and chat history cleared.  \n\n";
        assert_eq!(segments(&format!("One.\n\n{said}{next}#### /clear  \n\n{next}")), [0, 1, 2]);
        let echoed = "> The reply has no edit  \n>     say(\"Reset complete: all files dropped and chat history cleared.\")  \n\n";
        assert_eq!(segments(&format!("One.\n\n{echoed}{next}")), [0, 0]);
        assert_eq!(segments(&format!("{said}{next}")), [0]);
    }

    #[test]
    fn a_session_is_a_run() {
        let (runs, losses) = runs(LOG);
        assert_eq!(runs.len(), 1);
        let t = &runs[0];
        let outline: Vec<String> = t
            .steps
            .iter()
            .map(|s| format!("{} {} {} {}", s.segment, s.turn, s.role.name(), s.text))
            .collect();
        assert_eq!(
            outline,
            [
                "0 0 system Aider v0.80.0\nMain model: acme/big-1 with diff edit format\nGit working dir: /home/me/src/tool",
                "0 0 user fix the parser\n\nand the tests",
                "0 0 system Added parser.py to the chat",
                "0 1 agent Here is the change:\n\n#### A heading of the reply\n> a quote of it\n\n```python\nx = 1\n```",
                "0 1 tool Cost: $0.02 message, $0.02 session.\nApplied edit to parser.py",
                "0 2 user /clear",
                "0 2 system All chat history cleared.",
                "1 3 user ",
                "1 3 user next",
                "1 3 agent Sure.",
            ]
        );
        let usage = Usage { input: 5200, output: Some(604), cache_read: Some(1024), ..Usage::default() };
        assert_eq!(t.steps[3].usage.as_deref(), Some(&usage));
        assert_eq!((t.model.as_deref(), t.repository.as_deref()), (Some("acme/big-1"), Some("tool")));
        assert_eq!(t.task_id.as_deref(), Some("2025-01-02 03:04:05"));
        assert_eq!(losses.0["session without a message left out"], 1);
    }
}
