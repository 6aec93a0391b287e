//! What the agent is to achieve: the goal at the start, and the goal now.
//!
//! From the log: the sentence of the first user message that asks
//! for something, and later user messages that say that the task is another one ("change of plan", "forget", "back
//! to") and ask for it, or that a model takes for another one. Who goes back to what an earlier task of the run names means
//! that task, which is in force again in its own words. What a harness writes in the user's name (tags, hooks, interruptions) states no goal, and neither does a line of code. Where
//! no message states one, the goal that the log itself gives is taken.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::LazyLock;

use super::chinese;
use super::rules::{self, content_words};
use super::tasks;
use crate::context::annotations::Annotations;
use crate::context::log::Log;
use crate::strategies::Env;
use crate::text::sentences;
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
    /// From the log.
    #[default]
    Extracted,
    /// From annotations, be there some or not: a control, since it is scored on what it was given.
    Given,
    /// From the log, where a model says which later messages give another task.
    Model,
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

/// What goes back to a task (true: not to the one in force) or on with one, before the words that name it.
const RESUMES: &[(bool, &[&str])] = &[
    (
        true,
        &[
            "back to",
            "back at",
            "back on",
            "return to",
            "returning to",
            "zurück zu",
            "zurück zum",
            "zurück zur",
        ],
    ),
    (
        false,
        &[
            "continue working on",
            "continue with",
            "continue on",
            "continue",
            "keep working on",
            "carry on with",
            "go on with",
            "proceed with",
            "resume with",
            "resume",
            "pick up",
            "weiter mit",
        ],
    ),
];

/// Words that may stand before these, beside [`OPENERS`]: somebody is asked, nothing is told.
const ASKING: &[&str] = &[
    "go", "get", "come", "switch", "change", "let's", "lets", "let", "us", "we", "you", "i", "can", "could",
    "should", "would", "want", "need", "like", "i'd", "we'd", "have", "must", "may", "might", "please",
    "back", "try", "oh", "rather", "then", "mach", "geh", "gehen", "wir", "lass", "uns", "wieder",
];

/// With "I" before it, one of these makes it a wish.
const WISHES: &[&str] = &["want", "need", "like", "rather", "must", "have"];

/// Who goes back then does not do so now.
const LATER: &[&str] =
    &["later", "tomorrow", "afterwards", "eventually", "someday", "once", "when", "after", "until", "später"];

const DETERMINERS: &[&str] = &[
    "the", "a", "an", "my", "our", "your", "this", "that", "those", "these", "its", "der", "die", "das",
    "den", "dem", "mein", "meinem", "meiner",
];

/// Where what is named ends.
const BOUNDARIES: &[&str] = &[
    "of", "for", "in", "on", "with", "from", "at", "to", "by", "which", "who", "and", "or", "but", "please",
    "now", "then", "again", "instead", "if", "because", "since", "as", "before", "we", "i", "you", "it",
    "it's", "today", "after", "right", "so", "für", "von", "mit", "aus", "bitte", "jetzt", "und", "wieder",
    "is", "was", "has",
];

/// Names of a task that any task has, and what tells which is meant: the first, or the one before.
const TASKS: &[&str] = &[
    "task", "job", "goal", "plan", "idea", "topic", "request", "question", "thing", "wish", "aufgabe", "ziel",
];
const FIRST: &[&str] = &["first", "original", "initial", "erste", "ersten", "ursprünglichen"];
const BEFORE: &[&str] = &["previous", "earlier", "last", "other", "old", "vorigen", "letzten"];

/// Places one goes back to without another task.
const PLACES: &[&str] = &[
    "line",
    "branch",
    "commit",
    "revision",
    "version",
    "main",
    "master",
    "folder",
    "directory",
    "tab",
    "screen",
];

/// How a clause begins that gives a task up.
const GIVES_UP: &[&str] =
    &["forget", "scratch", "never mind", "drop the first", "stop working on", "leave", "vergiss"];

/// Verbs by which a detail is put right: who says "scratch that, use blue" has no other task.
const DETAILS: &[&str] = &["use", "call", "name", "put", "make it", "make that", "make them", "verwende"];

/// Verbs that ask for work of its own: with "now" before one and "instead" at the end, a sentence asks for other work.
const WORK: &str = "\
    analyse analyze build compare compose describe design develop draft draw explain fix implement \
    investigate mend migrate paint plan plot port prepare refactor repair research review rewrite sketch \
    summarise summarize translate write";

/// Parts that any work may have: who asks for one of them goes on with the work in force.
const PARTS: &str = "\
    test error bug warning failure code function method file line name title section paragraph part step \
    comment script module class column row field page rest footer header order flight item";

/// After these before "instead", it is told how or with what, not what is to be done.
const MANNERS: &[&str] = &["in", "with", "as", "using", "for", "by", "at", "on", "from", "to", "without"];

/// Messages that ask the agent for no more than to go on.
const NUDGES: &[&str] = &[
    "go on",
    "go ahead",
    "continue",
    "please continue",
    "keep going",
    "carry on",
    "proceed",
    "please proceed",
    "weiter",
    "mach weiter",
    "继续",
    "请继续",
];

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

/// Verbs that ask for what only prepares or helps: what is wanted is told by another sentence, if there is one.
const PREPARES: &str = "\
    read open look check load inspect see take get ask start try join show keep let tell help give \
    continue follow use ensure consider lies hilf schau";

/// How a sentence begins that rather tells how something is to be done than what.
const MEANS: &[&str] = &["use", "keep", "make sure", "ensure", "verwende"];

/// How a sentence begins that asks for nothing but that a limit be kept.
const LIMITS: &[&str] = &[
    "use only",
    "only use",
    "use at most",
    "use no",
    "never",
    "do not",
    "don't",
    "dont",
    "avoid",
    "at most",
    "at least",
    "no more than",
    "stay within",
    "stay under",
    "stay below",
    "stick to",
];

/// What a sentence says that sets a limit, where it asks for nothing.
const LIMITED: &[&str] = &[
    "must not",
    "must never",
    "may not",
    "may only",
    "should not",
    "shall not",
    "not allowed",
    "forbidden",
    "at most",
    "at least",
    "no more than",
    "not more than",
    "no later than",
    "exceed",
    "deadline",
    "budget",
];

/// Words of greetings, thanks, laughter and assent: of these alone no goal is made. In squeezed form, see [`is_noise`].
const NOISE: &str = "\
    a about absolutely ack afternoon again agreed ah aha all alright amazing and appreciate appreciated \
    are at awesome beautiful bonjour brilliant but bye ca cheers clear cool correct course dank danke day \
    dear doing done evening everybody everyone everything exactly excellent fantastic fine for funny gern \
    glad good goodbye got gotcha gracias great greetings gut guten guys ha haha hallo happy hear heh hello \
    help hey hi hm how howdy i i'm indeed interesting is it it's ja job just k lmao lol looks lot love \
    lovely luck man many me merci mind moin morgen morning much my nah neat nein never nice night no nope \
    not noted of oh ok okay okey one perfect pleasure prima problem problems really right rofl roger schön \
    see servus sir so sorry sounds splendid sup super sure tag thank thanks that that's the there this thx \
    to today too true ty tysm uh um understood very vielen wait was welcome well what what's wonderful \
    work worries wow xd yay yea yeah yep yes yo you you're your yup 你好 哈哈 嗯 多谢 好 好的 您好 谢谢";

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
    /// Which of them are tasks, not words that go back to one.
    tasks: Vec<usize>,
    /// Which of them is in force.
    current: usize,
}

/// A sentence that goes back to a task.
struct Resumed {
    goal: Goal,
    /// The task among those said.
    task: usize,
    /// Whether it tells the task and no more: then it is no constraint, whatever its words.
    told: bool,
}

/// Tasks that a message may go back to by name: the newest so many, and the first.
const NAMED: usize = 32;

/// Words of a sentence, at most, that goes back to the task in force and is taken to say no more.
const SHORT: usize = 8;

impl Reader {
    /// The annotations of the log; none where it has none.
    pub(crate) fn annotations(&mut self, log: &Log) -> Option<&Annotations> {
        self.annotations.get_or_insert_with(|| Annotations::of(log)).as_ref()
    }

    /// The goals that are known before step `until`, which must not be before an earlier one, and those of them that were
    /// stated from step `since` on.
    pub(crate) fn before(&mut self, log: &Log, origin: Origin, since: u32, until: u32) -> Goals {
        let goal = |goal: &crate::context::annotations::Goal| {
            let at = log.trajectory.steps[goal.step as usize].text.find(&goal.text);
            Goal { step: goal.step, text: goal.text.clone(), start: at.map(|at| at as u32) }
        };
        if origin == Origin::Given {
            let all = self.annotations(log).map_or(&[][..], |known| &known.goals);
            let mut known = all.iter().filter(|goal| goal.step < until);
            let stated = known.clone().filter(|goal| goal.step >= since).map(goal).collect();
            let original = known.next();
            let current = known.next_back().or(original).map(goal);
            return Goals { original: original.map(goal), current, stated };
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
                let judged = self.judged.binary_search_by_key(&step, |(step, _)| *step);
                let is_other = judged.ok().map(|at| self.judged[at].1);
                if is_other == Some(false) {
                    continue;
                }
                let resumed = self.resumed(step, text);
                if let Some(resumed) = resumed.as_ref().filter(|resumed| resumed.task != self.current) {
                    self.current = resumed.task;
                    self.said.extend(resumed.told.then(|| resumed.goal.clone()));
                    continue;
                }
                // Who goes back to the task in force changes none by that sentence.
                let passed = resumed.as_ref().and_then(|resumed| resumed.goal.start);
                let is_resumed = resumed.is_some();
                self.said.extend(resumed.filter(|resumed| resumed.told).map(|resumed| resumed.goal));
                let (given_up, replaced) = self.replaced_chinese(step, text).unzip();
                self.said.extend(given_up.flatten());
                let goal =
                    replaced.or_else(|| change(step, text, passed)).or_else(|| self.turned(step, text));
                goal.or_else(|| is_other.filter(|_| !is_resumed).and_then(|_| first(step, text)))
            };
            let Some(goal) = goal else { continue };
            let is_back = self.said.first().is_some_and(|original| is_same(original, &goal));
            if !is_back {
                self.tasks.push(self.said.len());
            }
            self.current = if is_back { 0 } else { self.said.len() };
            self.said.push(goal);
        }
        self.read = self.read.max(until);
    }

    /// The sentence of a message that goes back to a task of the run, or on with one; rather to one that is not in force.
    fn resumed(&self, step: u32, text: &str) -> Option<Resumed> {
        let said = said(text)?;
        let message = &text[said.clone()];
        let mut found: Option<Resumed> = None;
        for range in prose(message) {
            let sentence = &message[range.clone()];
            let is_question = sentence.trim_end().ends_with(['?', '？']);
            let clauses: Vec<&str> = clauses(sentence).collect();
            let named = clauses.iter().enumerate().find_map(|(at, clause)| {
                let (returns, task, named) = self.resumed_by(clause, is_question)?;
                let others = clauses.iter().enumerate().filter(|(other, _)| *other != at);
                let binds =
                    rules::binds(&named) || others.into_iter().any(|(_, clause)| rules::binds(clause));
                Some((returns, task, binds))
            });
            let Some((returns, task, binds)) = named else { continue };
            let is_short = rules::n_words(&rules::plain(sentence)) <= SHORT;
            let is_new = task != self.current;
            if (returns || is_new) && found.as_ref().is_none_or(|found| is_new && found.task == self.current)
            {
                let start = Some((said.start + range.start) as u32);
                let goal = Goal { step, start, text: sentence.to_owned() };
                found = Some(Resumed { goal, task, told: !binds && (is_new || is_short) });
            }
        }
        found
    }

    /// What a clause goes back to (true) or on with: the task among those said, and what follows the words that name it.
    fn resumed_by(&self, clause: &str, is_question: bool) -> Option<(bool, usize, String)> {
        if let Some((returns, object)) = chinese::resumes(clause, is_question) {
            let task = self.named(returns, |task| chinese::shared_pairs(object, task))?;
            return Some((returns, task, String::new()));
        }
        let plain = rules::plain(clause);
        let (returns, named) = resumes(&plain, is_question)?;
        let object = object(named);
        let by_name = || self.named(returns, |task| shared_words(&object, named, task));
        let task = self.told_by_place(&object).or_else(by_name)?;
        let end = |last: &&str| last.as_ptr() as usize - named.as_ptr() as usize + last.len();
        Some((returns, task, named[object.last().map_or(0, end)..].to_owned()))
    }

    /// The task that is named best, by a rating of what it asks for (none: it is not); of equals the newest. Who returns
    /// means one that is not in force, and who goes on rather the one that is.
    fn named(&self, returns: bool, rating: impl Fn(&str) -> Option<(usize, usize)>) -> Option<usize> {
        let newest = self.tasks.iter().skip(1).rev().take(NAMED).chain(self.tasks.first());
        let rated = newest.filter_map(|&task| {
            let rating = rating(&wanted(&self.said[task].text))?;
            Some((returns != (task == self.current), rating, task))
        });
        rated.max().map(|(.., task)| task)
    }

    /// The first task, or the one before the one in force, where a task is named by its place.
    fn told_by_place(&self, object: &[&str]) -> Option<usize> {
        if !object.last().is_some_and(|word| TASKS.contains(word)) {
            return None;
        }
        if object.iter().any(|word| FIRST.contains(word)) {
            return self.tasks.first().copied();
        }
        let is_before = object.iter().any(|word| BEFORE.contains(word));
        self.tasks.iter().rev().find(|&&task| is_before && task != self.current).copied()
    }

    /// The sentence of a message that asks for other work than the task in force, see [`turns_now`].
    fn turned(&self, step: u32, text: &str) -> Option<Goal> {
        let said = said(text)?;
        let message = &text[said.clone()];
        let current = wanted(&self.said.get(self.current)?.text);
        let range = prose(message).into_iter().find(|range| turns_now(&message[range.clone()], &current))?;
        let start = Some((said.start + range.start) as u32);
        Some(Goal { step, start, text: message[range].to_owned() })
    }

    /// Where a message of Chinese gives up what the task in force names ("不要写年度报告了") and asks for something else: the
    /// sentence that asks, and before it the one that gives up, where it is another.
    fn replaced_chinese(&self, step: u32, text: &str) -> Option<(Option<Goal>, Goal)> {
        let said = said(text)?;
        let message = &text[said.clone()];
        let current = wanted(&self.said.get(self.current)?.text);
        let statements = prose(message);
        let goal = |range: &Range<usize>| Goal {
            step,
            start: Some((said.start + range.start) as u32),
            text: message[range.clone()].to_owned(),
        };
        statements.iter().enumerate().find_map(|(at, range)| {
            let clauses: Vec<&str> = clauses(&message[range.clone()]).collect();
            let gives_up = |clause: &&str| {
                chinese::given_up(clause).is_some_and(|o| chinese::shared_pairs(o, &current).is_some())
            };
            let after = clauses.iter().position(gives_up)? + 1;
            if clauses[after..].iter().any(|clause| asks(clause)) {
                return Some((None, goal(range)));
            }
            let next = statements.get(at + 1).filter(|next| asks(&message[(*next).clone()]))?;
            Some((Some(goal(range)), goal(next)))
        })
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
    let is_nudge = |goal: &Goal| NUDGES.contains(&rules::plain(&goal.text).trim());
    typed(step, text).or_else(|| first(step, text).filter(|goal| !is_nudge(goal)))
}

/// The goal that the log itself gives, and from which step on it is known: where a user says it, not before. No annotation.
fn own(log: &Log) -> Option<(Goal, u32)> {
    let trajectory = &log.trajectory;
    let goal = trajectory.goal.as_deref().filter(|_| trajectory.annotations.is_none())?;
    let says = |step: &u32| message(log, *step).is_some_and(|text| text.starts_with(goal));
    let from = (0..log.n_steps() as u32).find(says).map_or(0, |step| step + 1);
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
    let n_words = rules::n_words(&plain);
    let telling = n_words - n_greeting(&plain).min(n_words);
    if is_noise(&goal.text) {
        return None;
    }
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
    (!is_noise(&goal.text)).then_some(goal)
}

/// Whether a text only greets, thanks, laughs or assents, in however many words.
fn is_noise(text: &str) -> bool {
    let laughs = |word: &str| {
        let is_of = |letters: &str| word.chars().all(|c| letters.contains(c));
        let n = word.chars().count();
        n > 3 && word.matches('h').count() > 1 && is_of("haeiou")
            || n > 2 && is_of("lo")
            || n > 1 && is_of("hm")
    };
    // "Sooo coool": of a letter that is drawn out, one or two are meant.
    let squeezed = |word: &str, n: usize| {
        let mut squeezed = String::with_capacity(word.len());
        for c in word.chars() {
            if squeezed.chars().rev().take_while(|before| *before == c).count() < n {
                squeezed.push(c);
            }
        }
        squeezed
    };
    let is_noise = |word: &str| {
        NOISE_WORDS.contains(word)
            || laughs(word)
            || [1, 2].iter().any(|&n| NOISE_WORDS.contains(squeezed(word, n).as_str()))
    };
    rules::plain(text).split_whitespace().all(is_noise) && !asks(text)
}

static NOISE_WORDS: LazyLock<HashSet<&str>> = LazyLock::new(|| NOISE.split_whitespace().collect());

/// The task that a user message gives in place of another: the sentence with a cue of it that asks for something, or that
/// sentence's follower. Who forgets a number ("forget the $500") corrects it, and no more. `passed`: where a sentence begins
/// that gives none.
fn change(step: u32, text: &str, passed: Option<u32>) -> Option<Goal> {
    let said = said(text)?;
    let message = &text[said.clone()];
    let statements = prose(message);
    let next = |at: usize| statements.get(at + 1).map(|range| &message[range.clone()]);
    let goal = statements.iter().enumerate().find_map(|(at, range)| {
        if passed == Some((said.start + range.start) as u32) {
            return None;
        }
        let follower = || next(at).filter(|text| asks(text)).map(|_| at + 1);
        let work = || follower().filter(|_| next(at).is_some_and(|text| !mends(&rules::plain(text))));
        changed(&message[range.clone()], next(at).is_some())
            .and_then(|found| match found {
                Found::Here => Some(at),
                Found::Next => follower(),
                Found::NextWork => work(),
                Found::NextWorkOrHere => work().or(Some(at)),
            })
            .or_else(|| {
                chinese::announces(&message[range.clone()]).then(|| at + 1).filter(|_| next(at).is_some())
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
    /// In the next sentence, if it asks for something.
    Next,
    /// So too, if it puts no detail right.
    NextWork,
    /// So too, and else here.
    NextWorkOrHere,
}

/// Whether a sentence says that the task is another one, and whether it says which.
fn changed(sentence: &str, has_next: bool) -> Option<Found> {
    if let Some(found) = changed_chinese(sentence) {
        return Some(found);
    }
    let clauses: Vec<&str> = clauses(sentence).collect();
    let plains: Vec<String> = clauses.iter().map(|clause| rules::plain(clause)).collect();
    let asking: Vec<bool> = clauses.iter().map(|clause| asks(clause)).collect();
    let is_work: Vec<bool> = asking.iter().zip(&plains).map(|(asks, plain)| *asks && !mends(plain)).collect();
    let is_question = sentence.trim_end().ends_with(['?', '？']);
    let mut found = None;
    for (at, plain) in plains.iter().enumerate() {
        let later = asking[at + 1..].contains(&true);
        for &(place, cues) in CUES {
            let after = cues.iter().find_map(|cue| {
                let rest = match place {
                    Place::Any | Place::Before => {
                        let (before, rest) = split_at_words(plain, cue)?;
                        let is_other =
                            [" not ", "n't ", " is there "].iter().all(|end| !before.ends_with(end));
                        is_other.then_some(rest)?
                    }
                    _ => openings(plain).find_map(|opening| stripped(opening, cue))?,
                };
                (!rest.trim_start().starts_with(|c: char| c.is_ascii_digit())).then_some(rest)
            });
            let Some(after) = after else { continue };
            let names = place == Place::Names && (at + 1 < clauses.len() && sentence.contains([':', '：']));
            let is_here = match place {
                Place::Any => later || asking[..at].contains(&true),
                Place::Opens => is_work[at + 1..].contains(&true) || asks(after),
                Place::Names => later || asks(after) || names,
                Place::Asks => {
                    let is_place = object(after).iter().any(|word| PLACES.contains(word));
                    !is_question && !is_place && rules::n_words(after) > 0
                }
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
            if place != Place::Before && place != Place::Asks {
                // "Forget that, do the cards": what else is asked for tells it better.
                let does = !is_question && plains[at + 1..].iter().any(|plain| does(plain));
                found = match place {
                    Place::Opens if does => Some(Found::NextWorkOrHere),
                    Place::Opens => found.or(has_next.then_some(Found::NextWork)),
                    _ => has_next.then_some(Found::Next).or(found),
                };
            }
        }
    }
    let whole = rules::plain(sentence);
    let opens = TURNS.0.iter().any(|cue| stripped(whole.trim_start(), cue).is_some());
    let turns = TURNS
        .1
        .iter()
        .any(|cue| split_at_words(&whole, cue).is_some_and(|(_, rest)| !rest.starts_with(" of ")));
    if opens && turns && is_work.contains(&true) { Some(Found::Here) } else { found }
}

/// Whether a clause, in words made by [`rules::plain`], puts a detail right: "use blue", "write it to a file".
fn mends(plain: &str) -> bool {
    let opening = without_openers(plain);
    let mut words = opening.split_whitespace();
    let is_of_it = words.next().is_some_and(|verb| VERBS.contains(verb))
        && words.next().is_some_and(|word| matches!(word, "it" | "them"));
    is_of_it || DETAILS.iter().any(|verb| stripped(opening, verb).is_some())
}

/// Whether the words that name a thing name a part of any work.
fn is_part(object: &[&str]) -> bool {
    let last = object.iter().rfind(|word| !matches!(**word, "first" | "next" | "only" | "too"));
    last.is_none_or(|last| PARTS.split_whitespace().any(|part| part == singular(last)))
}

/// Whether a clause, in words made by [`rules::plain`], begins with "do the" or the like and names work of its own.
fn does(plain: &str) -> bool {
    let rest = stripped(without_openers(plain), "do").unwrap_or("");
    let article = rest.split_whitespace().next().unwrap_or("");
    matches!(article, "the" | "a" | "an" | "my" | "our" | "your") && !is_part(&object(rest))
}

/// Whether a sentence asks for other work than the task in force names: "now write a poem about it instead". What is made
/// in another way ("now write it in Rust instead") or of another kind ("now draw the blue one instead") is the same work.
fn turns_now(sentence: &str, current: &str) -> bool {
    if sentence.trim_end().ends_with(['?', '？']) {
        return false;
    }
    let plain = rules::plain(sentence);
    let words: Vec<&str> = plain.split_whitespace().collect();
    let is_before = |word: &&&str| OPENERS.contains(*word) || ASKING.contains(*word);
    let n_before = words.iter().take_while(is_before).count();
    let (before, rest) = words.split_at(n_before);
    let Some((verb, rest)) = rest.split_first() else { return false };
    let rest = match rest {
        [rest @ .., "instead"] | [rest @ .., "instead", "please" | "now"] => rest,
        _ => return false,
    };
    let named: Vec<&str> =
        object_of(rest).into_iter().take_while(|word| !matches!(*word, "about" | "into")).collect();
    let known: HashSet<&str> = current.split_whitespace().map(singular).collect();
    let is_other = named
        .last()
        .is_some_and(|last| !matches!(*last, "one" | "ones" | "version") && !known.contains(singular(last)));
    before.contains(&"now")
        && WORK.split_whitespace().any(|work| work == *verb)
        && is_other
        && !is_part(&named)
        && !rest.iter().any(|word| MANNERS.contains(word))
}

fn changed_chinese(sentence: &str) -> Option<Found> {
    let holds = |cues: &[&str]| cues.iter().filter(|cue| turns_at(sentence, cue)).count();
    let rest = clauses(sentence).count() > 1;
    if holds(chinese::CHANGE) > 0 && rest || holds(chinese::TURNS) > 1 { Some(Found::Here) } else { None }
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
    openings(plain).last().unwrap_or("")
}

/// Words made by [`rules::plain`] from each on before which nothing stands but [`OPENERS`]: a cue may begin with one.
fn openings(plain: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(plain.trim_start()), |rest| {
        let (word, after) = rest.split_once(' ')?;
        OPENERS.contains(&word).then(|| after.trim_start())
    })
}

/// What follows a run of words at the start of others.
fn stripped<'a>(plain: &'a str, words: &str) -> Option<&'a str> {
    plain.strip_prefix(words).filter(|rest| rest.starts_with(' '))
}

/// Whether a sentence or clause asks for something: by its words, or since a clause of it begins with an imperative.
fn asks(text: &str) -> bool {
    if rules::holds(&rules::plain(text), ASKS) || chinese::ASKS.iter().any(|cue| text.contains(cue)) {
        return true;
    }
    // What a list tells step by step need not be asked for, nor what is to be done "if".
    let line = text.lines().next().unwrap_or("");
    let is_case = line.get(..3).is_some_and(|begin| begin.eq_ignore_ascii_case("if "));
    !is_case
        && clauses(line).any(|clause| {
            if chinese::asks(clause) {
                return true;
            }
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

/// What a clause, in words made by [`rules::plain`], goes back to (true) or on with: the words that name it and follow.
fn resumes(plain: &str, is_question: bool) -> Option<(bool, &str)> {
    RESUMES.iter().find_map(|&(returns, cues)| {
        let (before, named) = cues.iter().find_map(|cue| split_at_words(plain, cue))?;
        let before: Vec<&str> = before.split_whitespace().collect();
        let is_asked = before.iter().all(|word| OPENERS.contains(word) || ASKING.contains(word));
        let is_wish = !before.contains(&"i") || before.iter().any(|word| WISHES.contains(word));
        let is_doubt = is_question && before.contains(&"should");
        let named_words = || named.split_whitespace();
        let all = named.contains(" after all ");
        let is_later = named_words().any(|word| LATER.contains(&word) && !(all && word == "after"));
        (is_asked && is_wish && !is_doubt && !is_later).then_some((returns, named))
    })
}

/// The words that name a thing, up to what is said of it: "the printed poster for the fair" is printed, poster.
fn object(named: &str) -> Vec<&str> {
    object_of(&named.split_whitespace().collect::<Vec<&str>>())
}

fn object_of<'a>(named: &[&'a str]) -> Vec<&'a str> {
    let words = named.iter().copied().filter(|word| !DETERMINERS.contains(word));
    words.take_while(|word| !BOUNDARIES.contains(word)).take(6).collect()
}

/// Without the s of a plural.
fn singular(word: &str) -> &str {
    word.strip_suffix('s').filter(|bare| bare.len() > 2 && !bare.ends_with('s')).unwrap_or(word)
}

/// How many words of an object, and of all that names it, stand in a task; none where its last does not, or less than half.
fn shared_words(object: &[&str], named: &str, task: &str) -> Option<(usize, usize)> {
    let words: HashSet<&str> = task.split_whitespace().map(singular).collect();
    let stands = |word: &&str| words.contains(singular(word));
    let n = object.iter().filter(|word| stands(word)).count();
    let all = named.split_whitespace().filter(|word| word.len() > 3 && stands(word)).count();
    (object.last().is_some_and(stands) && 2 * n >= object.len()).then_some((n, all))
}

/// What a task asks for, in words made by [`rules::plain`]: without the clauses that give another one up, and without what
/// it is done instead of. All of it where nothing else is asked for.
fn wanted(text: &str) -> String {
    let mut wanted = " ".to_owned();
    for clause in clauses(text) {
        let plain = rules::plain(clause);
        let gives_up = |opening: &str| GIVES_UP.iter().any(|cue| stripped(opening, cue).is_some());
        let mut rest = without_openers(&plain);
        if chinese::given_up(clause).is_some() {
            rest = "";
        } else if openings(&plain).any(gives_up) {
            rest =
                [" and ", " und "].iter().find_map(|and| rest.split_once(and)).map_or("", |(_, rest)| rest);
        }
        for cue in [" instead of ", " rather than ", " statt "] {
            rest = rest.split_once(cue).map_or(rest, |(before, _)| before);
        }
        wanted.push_str(rest.trim());
        wanted.push(' ');
    }
    if wanted.trim().is_empty() { rules::plain(text) } else { wanted }
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
    let says = |range: &Range<usize>| {
        let text = &text[range.clone()];
        !is_noise(text) && limit(&rules::plain(text), asks(text)) == 0
    };
    let opens = statements.iter().position(says).unwrap_or(0);
    let weight = |at: usize, range: &Range<usize>| {
        let plain = rules::plain(&text[range.clone()]);
        let n_words = rules::n_words(&plain);
        let asks = asks(&text[range.clone()]) || rules::holds(&plain, rules::REQUEST);
        let limit = limit(&plain, asks);
        let greets = rules::holds(&plain, &["hello", "hi", "good morning", "morning", "hallo", "thanks"]);
        let words = content_words(&text[range.clone()]).len();
        let leans = POINTS_BACK.0.iter().any(|begin| plain.starts_with(begin))
            || POINTS_BACK.1.iter().any(|end| plain.ends_with(end));
        // Few words say little, but for those that tell what is to be done with what.
        let told = if asks && n_words < 4 { told(&plain, at == opens) } else { 0 };
        2 * i32::from(asks) + i32::from(words > 2 || told > 1)
            - 2 * i32::from(n_words < 4 && told == 0)
            - 2 * i32::from(leans)
            - i32::from(greets && n_words < 4)
            - limit
            - i32::from(asks && at > 0 && is_point(text, range))
    };
    let best = statements
        .iter()
        .enumerate()
        .max_by_key(|(at, range)| (weight(*at, range), std::cmp::Reverse(*at)))?;
    let range = best.1.clone();
    Some(Goal { step, start: Some((offset + range.start) as u32), text: text[range].to_owned() })
}

/// How clearly a short sentence, in words made by [`rules::plain`], tells what is to be done with what, 0 to 2. `opens`:
/// whether it is the first of a message; further down, two words without an article may be a heading.
fn told(plain: &str, opens: bool) -> u8 {
    let mut words = without_openers(plain).split_whitespace();
    let Some(verb) = words.next().filter(|verb| VERBS.contains(verb)) else { return 0 };
    let rest: Vec<&str> = words.collect();
    let names_it = rest.first().is_some_and(|word| DETERMINERS.contains(word));
    if object_of(&rest).iter().all(|word| matches!(*word, "me" | "us" | "them" | "him" | "her")) {
        return 0;
    }
    match (names_it, opens) {
        (false, false) => 0,
        (true, _) if !PREPARES.split_whitespace().any(|other| other == verb) => 2,
        _ => 1,
    }
}

/// By how much a sentence, in words made by [`rules::plain`], is less of a goal since it sets a limit, or tells by what
/// means something is to be done.
fn limit(plain: &str, asks: bool) -> i32 {
    let begins =
        |cues: &[&str]| openings(plain).any(|rest| cues.iter().any(|cue| stripped(rest, cue).is_some()));
    let is_limited = rules::holds(plain, LIMITED);
    if !asks {
        return i32::from(is_limited || begins(LIMITS));
    }
    // "It must not exceed 9 euros, please" asks for nothing else.
    let verb = without_openers(plain).split_whitespace().next().unwrap_or("");
    let is_polite =
        || !VERBS.contains(verb) && !ASKS.iter().any(|ask| *ask != "please" && rules::holds(plain, &[ask]));
    match begins(LIMITS) || is_limited && is_polite() {
        true => 2,
        false => i32::from(begins(MEANS)),
    }
}

/// Whether a statement is a point of a list.
fn is_point(text: &str, range: &Range<usize>) -> bool {
    let line = text[..range.start].rfind('\n').map_or(0, |at| at + 1);
    let begins = |text: &str| {
        let number = text.split_whitespace().next().unwrap_or("");
        number.strip_suffix(['.', ')']).is_some_and(is_number)
    };
    let before = text[line..range.start].trim();
    matches!(before, "-" | "*" | "•" | "+")
        || begins(before)
        || before.is_empty() && begins(&text[range.clone()])
}

/// Whether two goals are one: most of the content words of what the shorter one asks for stand in the other.
fn is_same(a: &Goal, b: &Goal) -> bool {
    let (a, b) = (content_words(&wanted(&a.text)), content_words(&wanted(&b.text)));
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
        assert_eq!(steps(Origin::Given, 2), [5]);
    }

    #[test]
    fn annotated_changes_count_once_their_step_has_passed() {
        let first = Some("write a forecast".to_owned());
        assert_eq!(goals(Origin::Given, 5), (first.clone(), first.clone()));
        assert_eq!(goals(Origin::Given, 6), (first.clone(), Some("cost of cards".to_owned())));
        assert_eq!(goals(Origin::Given, 1), (None, None));
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
            assert_eq!(change(0, text, None), None, "{text}");
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

    /// The goal after each of these messages.
    fn currents(messages: &[&str]) -> Vec<String> {
        let script: String = messages.iter().map(|text| format!("user: {text}\nagent: Good.\n")).collect();
        let log = Log::script(&script);
        let mut reader = Reader::default();
        (1..=messages.len() as u32)
            .map(|n| {
                let goals = reader.before(&log, Origin::Extracted, 0, 2 * n);
                goals.current.map_or(String::new(), |goal| goal.text)
            })
            .collect()
    }

    #[test]
    fn a_task_of_the_run_that_is_gone_back_to_is_in_force_again() {
        let poster = "Please have a poster printed for the fair.";
        let video = "Forget the poster, make a video for the fair instead.";
        for (back, forth) in [
            ("Back to the poster, please.", "No wait, go back to the video."),
            ("Let's return to the printed posters now.", "Can we go back to that video?"),
            ("OK, please continue with the poster.", "Resume the video."),
            ("I'd like to get back to the first task.", "Back to the previous task, please."),
            (
                "Actually, switch back to the poster after all.",
                "I want to go on with the video for the fair.",
            ),
        ] {
            let found = currents(&[poster, &format!("Change of plan. {video}"), back, "So?", forth]);
            assert_eq!(found, [poster, video, poster, poster, video], "{back} {forth}");
        }
        // Of two that are named alike, the one that more is said of; else the newer one.
        let lifts = "Please write a report on the lifts.";
        let pumps = "New task: summarise the report on the pumps of the harbour.";
        let map = "New task: draw a map of the town.";
        for (back, task) in [
            ("Back to the report on the lifts.", lifts),
            ("Back to the report.", pumps),
            ("Back to the first task.", lifts),
            ("Back to the previous task.", pumps),
        ] {
            assert_eq!(currents(&[lifts, pumps, map, back]), [lifts, pumps, map, task], "{back}");
        }
        // The message itself is known, so that nothing takes it for a constraint.
        let log = Log::script(&format!(
            "user: {poster}\nagent: Good.\nuser: No wait, go back to the poster.\nagent: Yes."
        ));
        let goals = Reader::default().before(&log, Origin::Extracted, 0, 4);
        assert!(goals.stated.iter().any(|goal| goal.stands(2, &(0..9))) && !goals.has_changed(), "{goals:?}");
    }

    #[test]
    fn what_goes_back_and_binds_stays_a_constraint() {
        let poster = "Please have a poster printed for the fair.";
        let video = "New task: make a video for the office.";
        let stated = |text: &str| {
            let messages = [poster, video, text];
            let script: String =
                messages.iter().map(|text| format!("user: {text}\nagent: Good.\n")).collect();
            let goals = Reader::default().before(&Log::script(&script), Origin::Extracted, 3, 6);
            (goals.current.map(|goal| goal.text), goals.stated.len())
        };
        let now = |goal: &str, n| (Some(goal.to_owned()), n);
        assert_eq!(stated("No wait, we must go back to the poster."), now(poster, 1));
        assert_eq!(stated("Back to the poster, and it must not exceed 500 euros."), now(poster, 0));
        assert_eq!(stated("Back to the poster with at most two colours."), now(poster, 0));
        assert_eq!(stated("Back to the poster for each fair."), now(poster, 1));
        // What names the task in force changes nothing; a long sentence about it says more.
        assert_eq!(stated("No, go back to the video."), now(video, 1));
        assert_eq!(
            stated("Back to the video that we had seen at noon with some of the others."),
            now(video, 0)
        );
        assert_eq!(stated("Please continue with the video, not with sound."), now(video, 0));
        // It hides no change in another sentence, and both are known.
        let map = "New task: draw a map of the harbour.";
        assert_eq!(stated(&format!("Back to the video. {map}")), now(map, 2));
        assert_eq!(stated("Back to the video? No, back to the poster."), now(poster, 1));
    }

    #[test]
    fn who_goes_back_to_something_else_changes_no_task() {
        let poster = "Please have a poster printed for the fair.";
        let video = "New task: make a video for the office.";
        for text in [
            "Please go back to line 40.",
            "Switch back to the main branch.",
            "Back to the main branch, please.",
            "We will come back to the poster later.",
            "He went back to the printed poster.",
            "Let's get back to the poster tomorrow.",
            "Don't go back to the poster.",
            "Should we go back to the poster?",
            "Continue with the video.",
            "Please continue.",
            "Resume.",
            "Go back to it.",
        ] {
            assert_eq!(currents(&[poster, video, text])[2], video, "{text}");
        }
    }

    #[test]
    fn chinese_tasks_are_given_up_and_gone_back_to() {
        let yearly = "请帮我写一份年度报告。";
        let quarterly = "不对，不要写年度报告了，改写一份季度报告。";
        let found = currents(&[
            yearly,
            "不要写年度报告太长。",
            quarterly,
            "还是写年度报告吧。",
            "回到季度报告。",
            "继续。",
        ]);
        assert_eq!(found, [yearly, yearly, quarterly, yearly, quarterly, quarterly]);
        let log = Log::script(&format!(
            "user: {yearly}\nagent: 好。\nuser: 不要写年度报告了。改写一份季度报告。\nagent: 好。"
        ));
        let goals = Reader::default().before(&log, Origin::Extracted, 1, 4);
        let stated: Vec<&str> = goals.stated.iter().map(|goal| goal.text.as_str()).collect();
        assert_eq!(stated, ["不要写年度报告了。", "改写一份季度报告。"]);
        assert_eq!(goals.current.unwrap().text, stated[1]);
        for text in ["不要担心了，请继续。", "图片还是文字？", "写得很好了。", "别用图片了。"]
        {
            assert_eq!(currents(&[yearly, text])[1], yearly, "{text}");
        }
        // What is to be done may be said in four characters; who only says "go on" states no task.
        assert_eq!(currents(&["读取文件。", "go on", "好"]), ["读取文件。"; 3]);
        assert_eq!(
            currents(&["اقرأ.", "Please continue.", "Draw a map of the harbour."])[2],
            "Draw a map of the harbour."
        );
        assert!(asks("读取文件。") && asks("现在写报告") && !asks("写得很好") && !asks("修复完成"));
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
            let found = change(0, text, None);
            assert_eq!(found.as_ref().map(|goal| goal.text.as_str()), Some(goal), "{text}");
            assert!(text[found.unwrap().start.unwrap() as usize..].starts_with(goal));
        }
    }

    #[test]
    fn a_short_request_is_the_goal_whatever_binds_behind_it() {
        for (text, goal) in [
            (
                "Build the site.\n\nRequirements:\n- Python 3.9 only\n- output under 2 MB\n* keep `index.html`\n1. all pages in HTTPS\n2. deadline: 3 March",
                "Build the site.",
            ),
            (
                "# Build the site\n\n## Requirements\n- keep `index.html`\n- output must be under 2 MB\n",
                "Build the site",
            ),
            (
                "Fix login.\n\nSteps to reproduce:\n1. open the page at /login\n2. enter the name and the password of the user\nExpected: it works. Use only the standard library.",
                "Fix login.",
            ),
            ("Fix login.\n- add a test for the page\n- keep the old name of it", "Fix login."),
            ("Book a hotel. The price must not exceed 120 euros a night.", "Book a hotel."),
            (
                "Write a report.\r\nThe budget must not exceed 300 euros.\r\nNever email the client.\r\n",
                "Write a report.",
            ),
            ("Hi! Draw a logo. Use at most two colours, and never any red.", "Draw a logo."),
            // The order does not matter, nor how long the request is.
            ("The price must not exceed 120 euros a night. Book a hotel.", "Book a hotel."),
            (
                "Use only the standard library of Python. Please mend the login page.",
                "Please mend the login page.",
            ),
            ("The trip must not cost more than 900 euros. We need a hotel.", "We need a hotel."),
            // A bound within the request is a part of it, and a constraint alone is better than nothing.
            ("Write a report of at most 300 words. Thanks a lot!", "Write a report of at most 300 words."),
            ("The price must not exceed 120 euros. Thanks!", "The price must not exceed 120 euros."),
            ("Make a website. Keep the colours of the old shop.", "Make a website."),
            ("Make a website. Use React and a theme in blue.", "Make a website."),
            ("Please never use any red. Fix login.", "Fix login."),
            ("The price must not exceed 120 euros, please. Book a hotel.", "Book a hotel."),
            // What only prepares is not what is wanted, nor are two nouns.
            (
                "Read the README. Then implement the parser for INI files.",
                "Then implement the parser for INI files.",
            ),
            ("Help me. I need a report on the lifts.", "I need a report on the lifts."),
            ("Fix this. The page crashes when I log in.", "The page crashes when I log in."),
            ("The lamp is broken again. Release notes", "The lamp is broken again."),
        ] {
            assert_eq!(first(0, text).unwrap().text, goal, "{text}");
        }
    }

    #[test]
    fn noise_is_no_goal() {
        let noise = [
            "lol",
            "lol ok thanks",
            "Haha, right you are.",
            "hahaha",
            "Hmmm",
            "ok cool, got it",
            "Thanks a lot!",
            "Perfect, thank you so much!",
            "Sounds good, great job!",
            "No problem at all.",
            "How are you today?",
            "good evening",
            "vielen Dank",
            "👍 :)",
            "好的",
            "谢谢",
        ];
        for text in noise {
            assert_eq!((first(0, text), nearest(0, text)), (None, None), "{text}");
        }
        let script: String = noise.iter().map(|text| format!("user: {text}\nagent: Good.\n")).collect();
        let goals =
            |script: &str, until| Reader::default().before(&Log::script(script), Origin::Extracted, 0, until);
        assert_eq!(goals(&script, 2 * noise.len() as u32), Goals::default());
        // What comes behind it counts.
        let script = script + "user: lol ok, cards?";
        let found = goals(&script, 2 * noise.len() as u32 + 1).current.map(|goal| goal.text);
        assert_eq!(found.as_deref(), Some("lol ok, cards?"));
        for text in
            ["It is broken again.", "Thanks, all tests are red.", "cards?", "hello world", "Ha Long bay"]
        {
            assert!(nearest(0, text).is_some(), "{text}");
        }
    }

    #[test]
    fn changes_in_ordinary_words() {
        let parser = "Write a parser for INI files in Rust.";
        let benchmark = "Change of plan: instead of the parser, write a benchmark of the lexer.";
        let now = |text: &str| currents(&[parser, text]).remove(1);
        for (text, goal) in [
            (
                "Forget that, do the benchmark of the lexer after all.",
                "Forget that, do the benchmark of the lexer after all.",
            ),
            (
                "OK now please translate the README into Spanish instead.",
                "OK now please translate the README into Spanish instead.",
            ),
            (
                "Stop working on the parser. Please fix the CI pipeline first.",
                "Please fix the CI pipeline first.",
            ),
            ("New task: draw a logo.", "New task: draw a logo."),
            ("Now write a poem about it instead.", "Now write a poem about it instead."),
            ("Great. Now let's draw a map instead, please.", "Now let's draw a map instead, please."),
            (
                "Change of plan: use the lexer to count words.",
                "Change of plan: use the lexer to count words.",
            ),
        ] {
            assert_eq!(now(text), goal, "{text}");
        }
        let back = "Never mind, back to the original task.";
        assert_eq!(currents(&[parser, benchmark, back]), [parser, benchmark, parser]);
        // It is known as said, so that nothing takes it for a constraint.
        let log = Log::script(&format!("user: {parser}\nuser: {benchmark}\nuser: {back}"));
        let goals = Reader::default().before(&log, Origin::Extracted, 2, 3);
        assert!(goals.stated.iter().any(|goal| goal.stands(2, &(0..9))), "{goals:?}");
    }

    #[test]
    fn details_next_steps_and_questions_change_no_task() {
        let parser = "Write a parser for INI files in Rust.";
        for text in [
            "Forget the $4,653; it is $5,100.",
            "use blue instead",
            "Now use blue instead.",
            "Actually, use blue instead.",
            "Forget that, use blue.",
            "Forget the red, make it blue.",
            "Scrap the footer. Move the links into the header.",
            "Never mind that, run it again.",
            "Forget what I said about blue. Keep it red.",
            "Wait, please write it to a file instead.",
            "Now fix the failing test instead.",
            "Now explain the error instead.",
            "Forget that, do the tests first.",
            "Actually, make it blue instead, wide and flat.",
            "now please run the tests",
            "now write the tests",
            "Now write the parser in Python instead.",
            "Now write the tests in Python instead.",
            "Now draw the blue one instead.",
            "Now write it down instead.",
            "Now write a loop instead of the recursion.",
            "Should we now write a poem instead?",
            "Now translate the README into Spanish instead?",
            "Do the tests pass?",
            "Forget that, do the tests pass?",
            "Don't stop working on the parser. Please fix the CI pipeline first.",
            "The others had to stop working on it. Please fix the CI pipeline first.",
            "Now it writes a poem instead.",
            "Instead of that, use a table.",
            "Is there something else I need to do, or does it just take a while?",
            "Never mind, please go on.",
            "Never mind the warnings.",
        ] {
            assert_eq!(currents(&[parser, text])[1], parser, "{text}");
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
            assert_eq!(change(0, text, None), None, "{text}");
        }
    }
}
