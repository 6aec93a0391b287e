//! What the agent is to achieve: the goal at the start, and the goal now.
//!
//! From annotations, each once its step has passed; or from the log: the sentence of the first user message that asks
//! for something, and later user messages that say that the task is another one ("change of plan", "forget", "back
//! to") and ask for it, or that a model takes for another one. A goal that comes back is the first one again. What a
//! harness writes in the user's name (tags, hooks, interruptions) states no goal, and neither does a line of code. Where
//! no message states one, the goal that the log itself gives is taken.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use super::rules::{self, content_words};
use super::tasks;
use crate::annotations::Annotations;
use crate::features::sentences;
use crate::log::Log;
use crate::strategies::Env;
use crate::trajectory::{Kind, Role};

/// A goal, and where it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Goal {
    pub(crate) step: u32,
    pub(crate) text: String,
    /// Where its words stand in the step, if they do.
    pub(crate) start: Option<u32>,
}

/// The goals up to a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Goals {
    pub(crate) original: Option<Goal>,
    pub(crate) current: Option<Goal>,
    /// All that were stated since some step, in force or not.
    pub(crate) stated: Vec<Goal>,
}

/// Where goals and constraints come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// From annotations where there are some, else from the log.
    #[default]
    Auto,
    Annotations,
    Extracted,
    /// From the log, where a model says which later messages give another task.
    Model,
}

impl Origin {
    /// Whether annotations are not looked at.
    pub(crate) fn is_extracted(self) -> bool {
        matches!(self, Origin::Extracted | Origin::Model)
    }
}

/// A message is read up to here: a task that goes on for pages says what it wants at its start.
const MAX_BYTES: usize = 8 << 10;

/// Tags in which a harness writes, by how their names begin.
const HARNESS_TAGS: &[&str] = &[
    "command-",
    "local-command",
    "system-reminder",
    "bash-",
    "task-notification",
    "user-prompt-submit-hook",
    "environment_context",
    "user_instructions",
];

/// How messages begin that a harness writes, in lower case.
const HARNESS: &[&str] = &[
    "caveat:",
    "[request interrupted",
    "[image ",
    "[file ",
    "stop hook",
    "operation stopped by hook",
    "this session is being continued from",
];

/// Commands of a harness that give the agent nothing to do.
const BUILT_IN: &[&str] = &[
    "add-dir",
    "agents",
    "bug",
    "clear",
    "compact",
    "config",
    "context",
    "cost",
    "doctor",
    "exit",
    "export",
    "help",
    "hooks",
    "ide",
    "login",
    "logout",
    "mcp",
    "memory",
    "model",
    "permissions",
    "plugin",
    "quit",
    "release-notes",
    "rename",
    "resume",
    "rewind",
    "status",
    "statusline",
    "tasks",
    "terminal-setup",
    "theme",
    "usage",
    "vim",
];

/// How a cue of a change has to stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Anywhere; what is asked for stands in another clause, or in the next sentence.
    Any,
    /// Where a clause begins; what is asked for follows, in the sentence or the next.
    Opens,
    /// So too, and after a colon anything is what is asked for.
    Names,
    /// Where a clause begins; what follows is what is asked for.
    Asks,
    /// Anywhere before what is asked for, in one sentence.
    Before,
}

/// What says that the task is another one, where something is asked for.
const CUES: &[(Place, &[&str])] = &[
    (
        Place::Any,
        &[
            "priorities moved",
            "priorities changed",
            "priorities have changed",
            "changed its mind",
            "changed my mind",
            "changed their mind",
            "changed our mind",
            "changed his mind",
            "changed her mind",
            "off the table",
            "on hold",
            "i asked first",
            "änderung der pläne",
        ],
    ),
    (
        Place::Opens,
        &[
            "forget the",
            "forget that",
            "forget what",
            "forget about",
            "scratch that",
            "never mind the",
            "never mind that",
            "drop the first",
            "stop working on",
            "instead of that",
            "vergiss",
        ],
    ),
    (
        Place::Names,
        &[
            "change of plan",
            "change of plans",
            "plans have changed",
            "new task",
            "new goal",
            "new focus",
            "new job",
            "new priority",
            "let's try something else",
            "let's do something else",
            "planänderung",
            "neue aufgabe",
            "neues ziel",
        ],
    ),
    (Place::Asks, &["back to the", "back at the", "zurück zu", "zurück zum", "zurück zur"]),
    (
        Place::Before,
        &[
            "rather have you",
            "what i want instead",
            "what we really need",
            "something else",
            "the job is another",
            "the task is another",
            "first task",
            "first job",
            "first question",
            "first idea",
            "first wish",
            "original job",
            "original task",
            "original goal",
        ],
    ),
];

/// With one of the first at its start and one of the others in it, a sentence that asks for something changes the task.
const TURNS: (&[&str], &[&str]) = (
    &[
        "actually",
        "instead",
        "wait",
        "stop",
        "hold on",
        "on second thought",
        "on second thoughts",
        "i was overruled",
        "eigentlich",
    ],
    &["instead", "stattdessen"],
);

/// Words that may stand before the first word of a clause that counts.
const OPENERS: &[&str] = &[
    "so", "ok", "okay", "well", "now", "then", "also", "sorry", "and", "but", "just", "first", "hmm",
    "right", "great", "yes", "yeah", "no", "actually", "wait", "stop", "a", "the", "is", "to", "here",
    "please", "instead", "quickly", "jetzt", "bitte", "also", "dann", "nun",
];

/// What asks for something, beside an imperative.
const ASKS: &[&str] = &[
    "please",
    "i want",
    "i need",
    "i would like",
    "i'd like",
    "could you",
    "can you",
    "would you",
    "can we",
    "could we",
    "we need",
    "we want",
    "let us",
    "let's",
    "lets",
    "want you to",
    "need you to",
    "is that you",
    "would rather",
    "rather have you",
    "we should",
    "you should",
    "bitte",
    "ich möchte",
    "ich will",
    "ich brauche",
    "wir brauchen",
    "kannst du",
    "können wir",
    "lass uns",
];

/// Chinese, which has no blanks: what says that the plan or the task is another one.
const CHINESE_CHANGE: &[&str] = &[
    "计划改变",
    "计划有变",
    "计划变了",
    "计划变更",
    "改变计划",
    "改变主意",
    "新目标",
    "新的目标",
    "目标变了",
    "新任务",
    "新的任务",
    "任务变了",
    "换个任务",
];

/// Of these it takes two in a sentence: one alone corrects a detail, or asks for the next step.
const CHINESE_TURNS: &[&str] = &["改为", "改成", "不再", "现在请", "转而"];

const CHINESE_ASKS: &[&str] = &["请", "帮我", "帮忙", "我要", "我想", "需要", "麻烦", "改为", "改成"];

/// How a sentence begins or ends that says nothing without the one before it, in words made by [`rules::plain`].
const POINTS_BACK: (&[&str], &[&str]) = (
    &[" this is ", " that is ", " that's "],
    &[
        " with that ",
        " with this ",
        " with it ",
        " fix this ",
        " fix that ",
        " do that ",
        " do this ",
        " help me check ",
    ],
);

/// What is said before a request or in answer to a question, and is none.
const GREETINGS: &[&str] = &[
    "hello", "hi", "hey", "good", "morning", "hallo", "thanks", "thank", "you", "there", "yes", "no", "ok",
    "okay", "sure", "and", "你好", "您好",
];

/// Reads the goals of a log from event to event, each step once.
#[derive(Default)]
pub(crate) struct Reader {
    annotations: Option<Option<Annotations>>,
    /// Steps that were read.
    read: u32,
    /// Goals that the log states, up to there.
    said: Vec<Goal>,
    /// The goal that the log itself gives, and from which step on it is known.
    own: Option<Option<(Goal, u32)>>,
    /// What a model said of later messages, where one was asked: steps, and whether they give another task.
    judged: Vec<(u32, bool)>,
    /// What is nearest to a goal while none was stated: a command of the harness, or words that ask for nothing.
    nearest: Option<Goal>,
    /// Which of them is in force: one that comes back is the first again.
    current: usize,
}

impl Reader {
    /// The annotations of the log; none where it has none.
    pub(crate) fn annotations(&mut self, log: &Log) -> Option<&Annotations> {
        self.annotations.get_or_insert_with(|| Annotations::of(log)).as_ref()
    }

    /// The goals that are known before step `until`, which must not be before an earlier one, and those of them that were
    /// stated from step `since` on.
    pub(crate) fn before(&mut self, log: &Log, origin: Origin, since: u32, until: u32) -> Goals {
        let goal = |goal: &crate::annotations::Goal| {
            let at = log.trajectory.steps[goal.step as usize].text.find(&goal.text);
            Goal { step: goal.step, text: goal.text.clone(), start: at.map(|at| at as u32) }
        };
        let annotated = |reader: &mut Self| {
            let all = reader.annotations(log).map_or(&[][..], |known| &known.goals);
            let mut known = all.iter().filter(|goal| goal.step < until);
            let stated = known.clone().filter(|goal| goal.step >= since).map(goal).collect();
            let original = known.next();
            Goals { original: original.map(goal), current: known.next_back().or(original).map(goal), stated }
        };
        let goals = if origin.is_extracted() { Goals::default() } else { annotated(self) };
        if origin == Origin::Annotations || goals.original.is_some() {
            return goals;
        }
        self.read(log, until);
        if self.said.is_empty() {
            let own = self.own.get_or_insert_with(|| own(log)).as_ref().filter(|(_, from)| *from <= until);
            let original = own.map(|(goal, _)| goal.clone()).or_else(|| self.nearest.clone());
            let stated =
                original.iter().filter(|goal| (since..until).contains(&goal.step)).cloned().collect();
            return Goals { current: original.clone(), original, stated };
        }
        let stated = self.said[self.said.partition_point(|goal| goal.step < since)..].to_vec();
        Goals { original: self.said.first().cloned(), current: self.said.get(self.current).cloned(), stated }
    }

    /// Asks a model which of the messages before step `until` give another task than the first; to be called before
    /// [`Reader::before`]. What it cannot say is left to the rules.
    pub(crate) fn judge(&mut self, log: &Log, until: u32, env: &mut Env<'_>) -> anyhow::Result<()> {
        let mut original = self.said.first().cloned();
        let mut messages = Vec::new();
        for step in self.read..until {
            let Some(text) = message(log, step) else { continue };
            match original {
                None => original = opening(step, text),
                Some(_) if first(step, text).is_some() => messages.push((step, text)),
                Some(_) => {}
            }
        }
        let Some(original) = original else { return Ok(()) };
        let texts: Vec<&str> = messages.iter().filter_map(|(_, text)| Some(&text[said(text)?])).collect();
        if let Some(changes) = tasks::judge(&original.text, &texts, env)? {
            self.judged.extend(messages.iter().map(|(step, _)| *step).zip(changes));
        }
        Ok(())
    }

    /// Reads what the log states up to a step.
    fn read(&mut self, log: &Log, until: u32) {
        for step in self.read..until {
            let Some(text) = message(log, step) else { continue };
            let goal = if self.said.is_empty() {
                let goal = opening(step, text);
                if goal.is_none() && self.nearest.is_none() {
                    self.nearest = nearest(step, text);
                }
                goal
            } else {
                match self.judged.binary_search_by_key(&step, |(step, _)| *step) {
                    Ok(at) if self.judged[at].1 => change(step, text).or_else(|| first(step, text)),
                    Ok(_) => None,
                    Err(_) => change(step, text),
                }
            };
            let Some(goal) = goal else { continue };
            let is_back = self.said.first().is_some_and(|original| is_same(original, &goal));
            self.current = if is_back { 0 } else { self.said.len() };
            self.said.push(goal);
        }
        self.read = self.read.max(until);
    }
}

impl Goal {
    /// Whether it was stated here.
    pub(crate) fn stands(&self, step: u32, bytes: &std::ops::Range<u32>) -> bool {
        self.step == step && self.start.is_some_and(|start| bytes.contains(&start))
    }
}

impl Goals {
    /// Whether the first goal or the one in force was stated here.
    pub(crate) fn is_in_force(&self, step: u32, bytes: &std::ops::Range<u32>) -> bool {
        self.original.iter().chain(&self.current).any(|goal| goal.stands(step, bytes))
    }

    /// Whether the goal is another one than at the start.
    pub(crate) fn has_changed(&self) -> bool {
        let text = |goal: &Option<Goal>| goal.as_ref().map(|goal| goal.text.clone());
        text(&self.original) != text(&self.current)
    }
}

/// What a user says in a step; none where another one speaks.
fn message(log: &Log, step: u32) -> Option<&str> {
    let step = &log.trajectory.steps[step as usize];
    (step.role == Role::User && step.kind == Kind::Message).then_some(&step.text)
}

/// The goal of a message while none was stated.
fn opening(step: u32, text: &str) -> Option<Goal> {
    typed(step, text).or_else(|| first(step, text))
}

/// The goal that the log itself gives, and from which step on it is known: where a user says it, not before. No annotation.
fn own(log: &Log) -> Option<(Goal, u32)> {
    let trajectory = &log.trajectory;
    let goal = trajectory.goal.as_deref().filter(|_| trajectory.annotations.is_none())?;
    let says = |step: &crate::trajectory::Step| step.role == Role::User && step.text.starts_with(goal);
    let from = trajectory.steps.iter().position(says).map_or(0, |step| step as u32 + 1);
    Some((Goal { start: None, ..first(0, goal)? }, from))
}

/// What a user message says once the tags of a harness before it are set aside; none where the harness speaks.
fn said(text: &str) -> Option<Range<usize>> {
    let text = clipped(text);
    let mut start = 0;
    loop {
        let rest = &text[start..];
        start += rest.len() - rest.trim_start().len();
        let rest = text[start..].trim_end();
        let name = |rest: &str| {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '-' | '_')))?;
            HARNESS_TAGS.iter().any(|tag| rest[..end].starts_with(tag)).then(|| rest[..end].to_owned())
        };
        let Some(tag) = rest.strip_prefix('<').and_then(name) else {
            let lower: String = rest.chars().take(60).flat_map(char::to_lowercase).collect();
            let is_noise = rest.is_empty()
                || HARNESS.iter().any(|begins| lower.starts_with(begins))
                || is_reference(rest);
            return (!is_noise).then(|| start..start + rest.len());
        };
        // Without its end, a tag goes on to the end.
        let close = format!("</{tag}>");
        let body = rest.find('>').map_or(rest.len(), |at| at + 1);
        let end = rest.find(&close).unwrap_or(rest.len());
        if tag == "command-args" && body < end && !rest[body..end].trim().is_empty() {
            let is_built_in = command(text).is_none_or(|name| BUILT_IN.contains(&name));
            if !is_built_in && !is_reference(rest[body..end].trim()) {
                let blank = rest[body..end].len() - rest[body..end].trim_start().len();
                return Some(start + body + blank..start + body + rest[body..end].trim_end().len());
            }
        }
        start += (end + close.len()).min(rest.len());
    }
}

fn is_number(text: &str) -> bool {
    (1..3).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a text is no more than a path, an address or a command without words.
fn is_reference(text: &str) -> bool {
    !text.contains(char::is_whitespace)
        && (text.starts_with('/') || text.starts_with("~/") || text.contains("://"))
}

/// The name of the command that a harness wrote down, without its slash.
fn command(text: &str) -> Option<&str> {
    let name = text.split_once("<command-name>")?.1.split_once("</command-name>")?.0;
    Some(name.trim().trim_start_matches('/'))
}

/// The goal of a message that asks for something, or tells of something.
fn first(step: u32, text: &str) -> Option<Goal> {
    let said = said(text)?;
    let goal = stated(step, &text[said.clone()], said.start)?;
    let n_greeting = |plain: &str| plain.split_whitespace().filter(|word| GREETINGS.contains(word)).count();
    let plain = rules::plain(&goal.text);
    let telling = n_words(&plain) - n_greeting(&plain).min(n_words(&plain));
    (asks(&goal.text) || telling > 2 || content_words(&goal.text).len() > 1).then_some(goal)
}

/// A command that the user typed, without more: `/review`.
fn typed(step: u32, text: &str) -> Option<Goal> {
    let bare = clipped(text).trim();
    let name = bare.strip_prefix('/')?;
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | ':');
    if name.is_empty() || !name.chars().all(is_name) || BUILT_IN.contains(&name) {
        return None;
    }
    Some(Goal { step, start: text.find(bare).map(|at| at as u32), text: bare.to_owned() })
}

/// What a message that asks for nothing leaves: the command with what it is about, or its first sentence.
fn nearest(step: u32, text: &str) -> Option<Goal> {
    let clip = clipped(text);
    if let Some(name) = command(clip) {
        let args = clip.split_once("<command-args>").and_then(|(_, rest)| rest.split_once("</command-args>"));
        let args = args.map_or("", |(args, _)| args.trim());
        let goal = format!("/{name} {args}").trim_end().to_owned();
        return (!name.is_empty() && !BUILT_IN.contains(&name)).then_some(Goal {
            step,
            text: goal,
            start: None,
        });
    }
    let said = said(text)?;
    let goal = stated(step, &text[said.clone()], said.start)?;
    let plain = rules::plain(&goal.text);
    (!plain.split_whitespace().all(|word| GREETINGS.contains(&word))).then_some(goal)
}

/// The task that a user message gives in place of another: the sentence with a cue of it that asks for something, or that
/// sentence's follower. Who forgets a number ("forget the $500") corrects it, and no more.
fn change(step: u32, text: &str) -> Option<Goal> {
    let said = said(text)?;
    let message = &text[said.clone()];
    let statements = prose(message);
    let next = |at: usize| statements.get(at + 1).map(|range| &message[range.clone()]);
    let goal = statements.iter().enumerate().find_map(|(at, range)| {
        let follower = || next(at).filter(|text| asks(text)).map(|_| at + 1);
        changed(&message[range.clone()], next(at).is_some())
            .and_then(|found| if found == Found::Here { Some(at) } else { follower() })
            .or_else(|| {
                announces_chinese(&message[range.clone()]).then(|| at + 1).filter(|_| next(at).is_some())
            })
    })?;
    let range = statements[goal].clone();
    let start = Some((said.start + range.start) as u32);
    Some(Goal { step, start, text: message[range].to_owned() })
}

/// Where the task is that a sentence announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Here,
    Next,
}

/// Whether a sentence says that the task is another one, and whether it says which.
fn changed(sentence: &str, has_next: bool) -> Option<Found> {
    if let Some(found) = changed_chinese(sentence) {
        return Some(found);
    }
    let clauses: Vec<&str> = clauses(sentence).collect();
    let plains: Vec<String> = clauses.iter().map(|clause| rules::plain(clause)).collect();
    let asking: Vec<bool> = clauses.iter().map(|clause| asks(clause)).collect();
    let is_question = sentence.trim_end().ends_with(['?', '？']);
    let mut found = None;
    for (at, plain) in plains.iter().enumerate() {
        let later = asking[at + 1..].contains(&true);
        for &(place, cues) in CUES {
            let opening = without_openers(plain);
            let after = cues.iter().find_map(|cue| {
                let rest = match place {
                    Place::Any | Place::Before => {
                        let (before, rest) = split_at_words(plain, cue)?;
                        (!before.ends_with(" not ") && !before.ends_with("n't ")).then_some(rest)?
                    }
                    _ => opening.strip_prefix(cue).filter(|rest| rest.starts_with(' '))?,
                };
                (!rest.trim_start().starts_with(|c: char| c.is_ascii_digit())).then_some(rest)
            });
            let Some(after) = after else { continue };
            let names = place == Place::Names && (at + 1 < clauses.len() && sentence.contains([':', '：']));
            let is_here = match place {
                Place::Any => later || asking[..at].contains(&true),
                Place::Opens | Place::Names => later || asks(after) || names,
                Place::Asks => !is_question && n_words(after) > 0,
                Place::Before => {
                    let back = ["back to", "back at", "return to"];
                    let is_back =
                        back.iter().any(|cue| rules::holds(plain, &[cue])) && asking[at] && !is_question;
                    later || asks(after) || is_back || rules::holds(plain, &["rather have you"])
                }
            };
            if is_here {
                return Some(Found::Here);
            }
            if place != Place::Before && place != Place::Asks && has_next {
                found = Some(Found::Next);
            }
        }
    }
    let whole = rules::plain(sentence);
    let opens = TURNS
        .0
        .iter()
        .any(|cue| whole.trim_start().strip_prefix(cue).is_some_and(|rest| rest.starts_with(' ')));
    let turns = TURNS
        .1
        .iter()
        .any(|cue| split_at_words(&whole, cue).is_some_and(|(_, rest)| !rest.starts_with(" of ")));
    if opens && turns && asking.contains(&true) { Some(Found::Here) } else { found }
}

fn changed_chinese(sentence: &str) -> Option<Found> {
    let holds = |cues: &[&str]| cues.iter().filter(|cue| turns_at(sentence, cue)).count();
    let rest = clauses(sentence).count() > 1;
    if holds(CHINESE_CHANGE) > 0 && rest || holds(CHINESE_TURNS) > 1 { Some(Found::Here) } else { None }
}

/// Whether a sentence announces another task in Chinese, and does not say which.
fn announces_chinese(sentence: &str) -> bool {
    CHINESE_CHANGE.iter().any(|cue| sentence.contains(cue))
}

/// Whether a cue stands in a text, and no number after it, which would only be corrected.
fn turns_at(text: &str, cue: &str) -> bool {
    text.split(cue).skip(1).any(|rest| !rest.trim_start().starts_with(|c: char| c.is_ascii_digit()))
}

/// The text before and after the first place of a run of words, in words made by [`rules::plain`].
fn split_at_words<'a>(plain: &'a str, cue: &str) -> Option<(&'a str, &'a str)> {
    plain
        .match_indices(cue)
        .map(|(at, _)| (&plain[..at], &plain[at + cue.len()..]))
        .find(|(before, after)| before.ends_with(' ') && after.starts_with(' '))
}

/// Words made by [`rules::plain`] from the first on that counts.
fn without_openers(plain: &str) -> &str {
    let mut rest = plain.trim_start();
    while let Some((word, after)) = rest.split_once(' ') {
        if !OPENERS.contains(&word) {
            break;
        }
        rest = after.trim_start();
    }
    rest
}

/// Whether a sentence or clause asks for something: by its words, or since a clause of it begins with an imperative.
fn asks(text: &str) -> bool {
    if rules::holds(&rules::plain(text), ASKS) || CHINESE_ASKS.iter().any(|cue| text.contains(cue)) {
        return true;
    }
    // What a list tells step by step need not be asked for, nor what is to be done "if".
    let line = text.lines().next().unwrap_or("");
    let is_case = line.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("if "));
    !is_case
        && clauses(line).any(|clause| {
            let plain = rules::plain(clause);
            let mut words = without_openers(&plain).split_whitespace();
            let verb = words.next().unwrap_or("");
            // "Order is lost", "report of the week": there it is a noun.
            let is_noun = |next: &str| matches!(next, "is" | "are" | "was" | "were" | "of" | "has");
            VERBS.contains(verb) && words.next().is_some_and(|next| !is_noun(next))
        })
}

static VERBS: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    let lines = include_str!("goals_verbs.txt").lines().filter(|line| !line.starts_with('#'));
    lines.flat_map(str::split_whitespace).collect()
});

/// The pieces of a sentence between its commas, colons and dashes.
fn clauses(text: &str) -> impl Iterator<Item = &str> {
    let marks = [':', ',', ';', '—', '–', '：', '，', '；', '\n', '.'];
    let pieces = text.split(marks).flat_map(|piece| piece.split(" - "));
    pieces.map(str::trim).filter(|piece| piece.chars().any(char::is_alphanumeric))
}

/// Words made by [`rules::plain`]; of a run without blanks in Chinese or Japanese, half as many as characters.
fn n_words(plain: &str) -> usize {
    let wide = |word: &str| word.chars().filter(|c| matches!(c, '\u{3040}'..='\u{9fff}')).count();
    plain.split_whitespace().map(|word| (wide(word) / 2).max(1)).sum()
}

/// The statements of a message that are no code: neither lines between fences nor what reads like code. In a message that
/// is code for a third or more, comments and lines that are set in are code too.
fn prose(text: &str) -> Vec<Range<usize>> {
    let (mut lines, mut n_code) = (Vec::new(), 0);
    let (mut start, mut is_fenced) = (0, false);
    for line in text.split_inclusive('\n') {
        let range = start..start + line.len();
        start = range.end;
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        if line.trim().is_empty() {
            continue;
        }
        let lower: String = line.trim_start().chars().take(8).flat_map(char::to_lowercase).collect();
        let is_named = ["goal:", "task:", "ziel:"].iter().any(|name| lower.starts_with(name));
        let code = !is_named && (is_fence || is_fenced || is_code(line));
        n_code += usize::from(code);
        lines.push((range, code));
    }
    let is_source = 3 * n_code >= lines.len() && n_code > 0;
    let is_aside = |line: &str| {
        line.starts_with(['\t', ' '])
            || ["#", "//", "*", "/*", "\"\"\"", "--"].iter().any(|mark| line.starts_with(mark))
    };
    let mut statements = sentences::statements(text, true);
    statements.retain(|statement| {
        let at = lines.partition_point(|(range, _)| range.end <= statement.start);
        lines.get(at).is_none_or(|(range, code)| !(*code || is_source && is_aside(&text[range.clone()])))
    });
    statements
}

/// Whether a line reads like code. Prose may name some ("use `f()` here"): with enough words around it, it is none.
fn is_code(line: &str) -> bool {
    let line = line.trim();
    let opens = [
        "def ", "class ", "import ", "from ", "return ", "raise ", "assert ", "fn ", "func ", "pub ", "let ",
        "const ", "var ", "if ", "elif ", "for ", "while ", "with ", "try:", "else:", "except", "@",
        "#include", "#!", "package ", "async ", "throw ",
    ];
    let marks = ["()", " = ", "==", "!=", "::", "->", "=>", "+=", ");", "({", "</", "\":", "&&", " := "];
    let n_marks = marks.iter().filter(|mark| line.contains(*mark)).count();
    let is_closed = line.ends_with(['{', '}', ';', ')', ']', ','])
        || line.ends_with(':') && line.contains(['(', '[', '=', '"'])
        || line == "try:"
        || line == "else:";
    let is_opened = opens.iter().any(|word| line.starts_with(word));
    let words = line.split_whitespace();
    let n_plain = words
        .filter(|w| w.trim_end_matches(['.', ',', '?', '!', ':']).chars().all(char::is_alphabetic))
        .count();
    let strong = is_opened && (n_marks > 0 || line.ends_with([':', ';', '{', ')']))
        || n_marks > 1
        || n_marks > 0 && is_closed
        || line.ends_with(['{', ';']);
    let bare = line.chars().all(|c| !c.is_alphanumeric());
    let is_flag = line.starts_with("--") && !line.starts_with("-- ")
        || line
            .strip_prefix('-')
            .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_alphabetic()) && line.contains(" --"));
    is_flag || bare && line.contains(['{', '}', '(', ')']) || strong && n_plain < 8
}

/// What introduces a task that stands further down: a line with such a word that ends with a colon, or a tag of that name.
const INTRODUCES: &[&str] = &[
    "issue",
    "pr_description",
    "pr description",
    "problem_statement",
    "task",
    "plan",
    "command-args",
    "instructions",
];

/// The line that is the title of a task in a message that introduces one; where it begins.
///
/// Benchmarks wrap an issue in pages of instructions, whose requests are the same in each run.
fn title(text: &str) -> Option<std::ops::Range<usize>> {
    let mut is_introduced = false;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let from = start;
        start += line.len();
        let mut bare = line.trim();
        // A tag may have its text on the same line.
        if let Some((tag, rest)) = bare.strip_prefix('<').and_then(|bare| bare.split_once('>'))
            && INTRODUCES.iter().any(|word| tag.to_lowercase().contains(word))
        {
            is_introduced |= !tag.starts_with('/');
            bare = rest.split('<').next().unwrap_or(rest).trim();
        }
        if bare.ends_with(':') && bare.len() < 200 {
            let lower = bare.to_lowercase();
            is_introduced |= INTRODUCES.iter().any(|word| lower.contains(word));
            continue;
        }
        let bare = bare.trim_start_matches(['#', '*', ' ']);
        if is_introduced && !bare.is_empty() && !bare.starts_with("<!--") && !bare.starts_with("```") {
            // A path, or the first of several points, is what a request further up is about.
            let (number, _) = bare.split_once(' ').unwrap_or((bare, ""));
            let is_point = number.strip_suffix(['.', ')']).is_some_and(is_number);
            if is_reference(bare) || is_point {
                return None;
            }
            let at = from + line.find(bare)?;
            return Some(at..at + bare.len());
        }
    }
    None
}

/// The title of the task that a message introduces, or the sentence that asks for something; its first that says something if
/// none does. `offset`: where the message begins in its step.
fn stated(step: u32, text: &str, offset: usize) -> Option<Goal> {
    let mut statements = match title(text) {
        Some(title) => vec![title],
        None => prose(text),
    };
    // "Can you fix: 1. ...": the number of a point belongs to what follows.
    for at in (1..statements.len()).rev() {
        let before = text[statements[at - 1].clone()].strip_suffix('.').unwrap_or("");
        let bare = before.trim_end_matches(|c: char| c.is_ascii_digit());
        let ends_with_point =
            bare.len() < before.len() && (bare.ends_with("  ") || bare.trim_end().ends_with(':'));
        if ends_with_point {
            statements[at - 1].end = statements[at].end;
        }
    }
    let weight = |range: &Range<usize>| {
        let plain = rules::plain(&text[range.clone()]);
        let n_words = n_words(&plain);
        let asks = asks(&text[range.clone()]) || rules::holds(&plain, rules::REQUEST);
        let greets = rules::holds(&plain, &["hello", "hi", "good morning", "morning", "hallo", "thanks"]);
        let words = content_words(&text[range.clone()]).len();
        let leans = POINTS_BACK.0.iter().any(|begin| plain.starts_with(begin))
            || POINTS_BACK.1.iter().any(|end| plain.ends_with(end));
        2 * i32::from(asks) + i32::from(words > 2)
            - 2 * i32::from(n_words < 4)
            - 2 * i32::from(leans)
            - i32::from(greets && n_words < 4)
    };
    let best =
        statements.iter().enumerate().max_by_key(|(at, range)| (weight(range), std::cmp::Reverse(*at)))?;
    let range = best.1.clone();
    Some(Goal { step, start: Some((offset + range.start) as u32), text: text[range].to_owned() })
}

/// Whether two goals are one: most of the shorter one's content words stand in the other.
fn is_same(a: &Goal, b: &Goal) -> bool {
    let (a, b) = (content_words(&a.text), content_words(&b.text));
    let shared = a.iter().filter(|word| b.binary_search(word).is_ok()).count();
    shared >= 2 && 5 * shared >= 3 * a.len().min(b.len())
}

fn clipped(text: &str) -> &str {
    &text[..text.floor_char_boundary(MAX_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log() -> Log {
        let mut log = Log::script(
            "system: be good
             user: Morning! Please write a forecast of the visitors for each pool. No names in it.
             agent: I start.
             user: Thanks. How far are you?
             agent: Half.
             user: Stop, change of plan. Forget the forecast, I need to know what shared season cards cost us.
             agent: Well.
             user: So. Back to the forecast of the visitors for each pool.
             agent: Good.",
        );
        log.trajectory.annotations = Some(
            r#"{"goal": "write a forecast", "goal_changes": [{"step": 5, "text": "cost of cards"}]}"#
                .to_owned(),
        );
        log
    }

    fn goals(origin: Origin, until: u32) -> (Option<String>, Option<String>) {
        let log = log();
        // What was read before makes no difference.
        let mut reader = Reader::default();
        reader.before(&log, origin, 0, until / 2);
        let goals = reader.before(&log, origin, 0, until);
        assert_eq!(Reader::default().before(&log, origin, 0, until), goals);
        let text = |goal: Option<Goal>| goal.map(|goal| goal.text);
        (text(goals.original), text(goals.current))
    }

    #[test]
    fn the_log_states_goals_and_their_changes() {
        let first = Some("Please write a forecast of the visitors for each pool.".to_owned());
        assert_eq!(goals(Origin::Extracted, 0), (None, None));
        assert_eq!(goals(Origin::Extracted, 5), (first.clone(), first.clone()));
        let (_, current) = goals(Origin::Extracted, 6);
        assert!(current.unwrap().contains("season cards cost us"));
        assert_eq!(goals(Origin::Extracted, 8), (first.clone(), first));
    }

    #[test]
    fn goals_that_were_stated_since_a_step() {
        let log = log();
        let steps = |origin, since| -> Vec<u32> {
            Reader::default().before(&log, origin, since, 9).stated.iter().map(|goal| goal.step).collect()
        };
        assert_eq!(steps(Origin::Extracted, 0), [1, 5, 7]);
        assert_eq!(steps(Origin::Extracted, 2), [5, 7]);
        assert_eq!(steps(Origin::Annotations, 2), [5]);
    }

    #[test]
    fn annotated_changes_count_once_their_step_has_passed() {
        let first = Some("write a forecast".to_owned());
        assert_eq!(goals(Origin::Annotations, 5), (first.clone(), first.clone()));
        assert_eq!(goals(Origin::Auto, 6), (first.clone(), Some("cost of cards".to_owned())));
        assert_eq!(goals(Origin::Annotations, 1), (None, None));
    }

    #[test]
    fn a_task_that_is_introduced_is_the_goal() {
        for (text, goal) in [
            (
                "We solve the following issue. Here's the issue text:\nISSUE:\n[ENH]: Add a getter\n### Problem\nPlease help.",
                "[ENH]: Add a getter",
            ),
            (
                "<uploaded_files>\n/testbed\n</uploaded_files>\nConsider the following PR description:\n\n<pr_description>\n`to_snake` bug\n### Checks\n</pr_description>\n\nCan you help me?",
                "`to_snake` bug",
            ),
            (
                "<pr_description>\nConsider the following PR description:\nWarnings from numpy\n",
                "Warnings from numpy",
            ),
            ("Implement the following plan:\n\n# Plan: Ask in time\n\n## Context", "Plan: Ask in time"),
            (
                "<command-name>/review</command-name>\n<command-args>the new tests</command-args>",
                "the new tests",
            ),
            (
                "Hello there! Could you solve the issue with the lamp? I am at home.",
                "Could you solve the issue with the lamp?",
            ),
        ] {
            let found = first(0, text).unwrap();
            assert_eq!(found.text, goal);
            assert!(text[found.start.unwrap() as usize..].starts_with(goal));
        }
    }

    #[test]
    fn what_a_harness_writes_is_no_goal() {
        for text in [
            "<command-name>/clear</command-name>\n <command-message>clear</command-message>\n <command-args></command-args>",
            "<command-name>/compact</command-name>\n<command-args>let's do a review</command-args>",
            "<local-command-stdout>Version 0.2: you can now fix it</local-command-stdout>",
            "<system-reminder>Please read the file again.</system-reminder>",
            "<system-reminder>Please read",
            "Caveat: The messages below were generated. Do not respond to them.",
            "[Request interrupted by user for tool use]",
            "[image image/png 311274 bytes]",
            "Stop hook says: [Wingman] Reviewing your changes, please wait",
            "Operation stopped by hook: Another session is active: \"let's start\"",
            " /Users/dev/.claude/projects/a-b/c.jsonl ",
            "https://example.org/pull/6/files",
            "hi",
            "yes and yes",
            "<",
            "<command-args>",
            "",
        ] {
            assert_eq!(first(0, text), None, "{text}");
            assert_eq!(change(0, text), None, "{text}");
        }
        // What stands behind the tags counts, with its own place.
        let text = "<system-reminder>Be kind.</system-reminder>\n\nHm. Please mend the lamp.";
        let goal = first(3, text).unwrap();
        assert_eq!((goal.text.as_str(), goal.start), ("Please mend the lamp.", Some(49)));
        assert_eq!(
            first(
                0,
                "<command-name>/debug</command-name><command-args>- hooks are slow; why?</command-args>"
            )
            .unwrap()
            .text,
            "hooks are slow; why?"
        );
    }

    #[test]
    fn the_first_message_that_tells_of_something_is_the_goal() {
        let original = |script: &str, goal: Option<&str>, until: u32| {
            let mut log = Log::script(script);
            log.trajectory.goal = goal.map(str::to_owned);
            let goals = Reader::default().before(&log, Origin::Extracted, 0, until);
            goals.original.map(|goal| goal.text)
        };
        let script = "user: <command-name>/clear</command-name>
            user: hi
            agent: Hello.
            user: lint and test failures in the parser
            agent: Good.";
        assert_eq!(original(script, None, 5).as_deref(), Some("lint and test failures in the parser"));
        assert_eq!(original(script, None, 3), None);
        // The log's own goal, if nothing says more; not one that is said only later, nor an annotated one.
        assert_eq!(original(script, Some("Mend the parser."), 3).as_deref(), Some("Mend the parser."));
        assert_eq!(original(script, Some("lint and test failures in the parser"), 3), None);
        assert_eq!(original("user: /team:review", None, 1).as_deref(), Some("/team:review"));
        assert_eq!(original("user: /clear", None, 1), None);
        assert_eq!(original("user: /srv/a.jsonl", None, 1), None);
        // A command that nothing else explains.
        let script = "user: <command-name>/review</command-name><command-args>https://a.org/6</command-args>
            agent: Good.";
        assert_eq!(original(script, None, 2).as_deref(), Some("/review https://a.org/6"));
        let text = "first problem: it is just bombing out saying `session not found`\n\nthis is true, but there are other checkpoints and context we want to see";
        assert!(first(0, text).unwrap().text.starts_with("first problem"), "{:?}", first(0, text));
    }

    #[test]
    fn a_line_of_code_is_no_goal() {
        let code = "def load(name):\n    # TODO must not be None\n    if name is None:\n        raise ValueError(\"TODO must not be None\")\n    return open(name)\n";
        assert_eq!(first(0, code), None);
        assert_eq!(first(0, &format!("```python\n{code}```")), None);
        assert_eq!(
            first(0, &format!("{code}\nThis crashes for me at the start.")).unwrap().text,
            "This crashes for me at the start."
        );
        // Prose may name some.
        let text = "Please make `load()` return None if the file is missing.";
        assert_eq!(first(0, text).unwrap().text, text);
    }

    #[test]
    fn what_announces_a_change_is_not_the_goal() {
        for (text, goal) in [
            (
                "The board changed its mind. Please draw a map of the harbour.",
                "Please draw a map of the harbour.",
            ),
            ("Back to the map of the harbour. It is raining again.", "Back to the map of the harbour."),
            (
                "Actually, let's try the other sort instead - I need a stable one.",
                "Actually, let's try the other sort instead - I need a stable one.",
            ),
            ("Scratch that, do the cards. Draw the map.", "Draw the map."),
            ("Vergiss den Bericht, zeichne die Karte.", "Vergiss den Bericht, zeichne die Karte."),
            ("New focus: the map of the harbour.", "New focus: the map of the harbour."),
            ("New task:\nWrite a map.", "Write a map."),
            (
                "She wants something else: we should draw the map.",
                "She wants something else: we should draw the map.",
            ),
            (
                "计划改变了：不再迁移数据库，改为修复登录测试。",
                "计划改变了：不再迁移数据库，改为修复登录测试。",
            ),
            ("计划有变。现在请修复登录测试。", "现在请修复登录测试。"),
        ] {
            let found = change(0, text);
            assert_eq!(found.as_ref().map(|goal| goal.text.as_str()), Some(goal), "{text}");
            assert!(text[found.unwrap().start.unwrap() as usize..].starts_with(goal));
        }
    }

    #[test]
    fn what_is_no_change() {
        for text in [
            "Thanks.",
            "Forget the 20 euros, it must not exceed 30.",
            "Forget the $500; please keep it under $600.",
            "Use the new parser instead of the old one.",
            "Wait for the tests, please.",
            "Please don't forget the tests, and run them.",
            "We need to add a new task to the queue.",
            "The customer said something else: the button is grey.",
            "Please check the logs again, I actually think it was the other one.",
            "hmm, also we seem to be missing checkpoints again, this explain is back to 19 instead of 26...",
            "at some point we'll hit only commits that are on main right (back to the first commit)?",
            "Can you answer my first question?",
            "Could you put my order on hold?",
            "请把端口改为8080。",
            "数据库不再响应。",
            "",
        ] {
            assert_eq!(change(0, text), None, "{text}");
        }
    }
}
