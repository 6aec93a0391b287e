//! Rates statements without a model: by cues of obligation, decision, request and reason, by values, by what the agent
//! took up later, and by how much they look like bulk.
//!
//! Each statement has features that are 0 or 1 (see [`Feature`]); its score is a logistic sum of their weights, with
//! weights of its own for user, agent and tool. The weights were set by hand and then fitted (logistic regression, drawn to
//! the first setting, signs kept) on the generated golden runs of every other repository; cues are words of English and
//! German grammar, but they were written down, and the threshold chosen, by someone who had read all of that data. What
//! binds in Chinese is told by cues that no weight was fitted on.
//! `reports/salience` has the figures, and says what was tuned on what. Linear in the text.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use super::candidates::{Candidate, Source};
use super::chinese;
use crate::text::atoms::{self, AtomKind};
use crate::text::sentences::is_numbered;

/// What a kept statement is taken for. The order is that in which they are given up: the last first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ItemKind {
    Goal,
    Constraint,
    Decision,
    Fact,
    ToolOutput,
}

impl ItemKind {
    pub(crate) const ALL: [ItemKind; 5] =
        [ItemKind::Goal, ItemKind::Constraint, ItemKind::Decision, ItemKind::Fact, ItemKind::ToolOutput];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ItemKind::Goal => "goal",
            ItemKind::Constraint => "constraint",
            ItemKind::Decision => "decision",
            ItemKind::Fact => "fact",
            ItemKind::ToolOutput => "tool_output",
        }
    }
}

macro_rules! features {
    ($($name:ident),+ $(,)?) => {
        /// What a statement may have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Feature { $($name),+ }

        impl Feature {
            pub(crate) const ALL: &[Feature] = &[$(Feature::$name),+];

            #[cfg(test)]
            pub(crate) fn name(self) -> &'static str {
                match self { $(Feature::$name => stringify!($name)),+ }
            }
        }
    };
}

features! {
    // Its shape.
    Short, Medium, Long, Prose, Question, Code, List,
    // What it holds.
    Value, Values, Specific, Number, Date, Money,
    // What it says.
    Obligation, Bound, Prohibition, Negation, Request, Decision, Reason, Change, Stale, Chatter, Narration, Failure,
    Finding, Hedge,
    // What surrounds it.
    Bulk, Repeated, Used, OnGoal,
}

/// A set of features.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    pub(crate) fn has(self, feature: Feature) -> bool {
        self.0 & (1 << feature as u64) != 0
    }

    fn set(&mut self, feature: Feature, is: bool) {
        self.0 = self.0 & !(1 << feature as u64) | u64::from(is) << feature as u64;
    }
}

/// A statement's score, 0 to 1, and what it is taken for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rating {
    pub(crate) score: f64,
    pub(crate) kind: ItemKind,
    pub(crate) features: Features,
}

/// Cues: each is a run of whole words.
const OBLIGATION: &[&str] = &[
    "must",
    "have to",
    "has to",
    "need to",
    "needs to",
    "need it",
    "shall",
    "should",
    "required",
    "mandatory",
    "always",
    "make sure",
    "be sure",
    "ensure",
    "only",
    "exactly",
    "every",
    "each",
    "throughout",
    "muss",
    "müssen",
    "soll",
    "sollte",
    "nur",
    "immer",
    "genau",
    "unbedingt",
    "hard limit",
    "not negotiable",
    "no exceptions",
    "it is important",
];
const BOUND: &[&str] = &[
    "at most",
    "at least",
    "no more than",
    "not more than",
    "less than",
    "more than",
    "fewer than",
    "maximum",
    "minimum",
    "max",
    "min",
    "limit",
    "limits",
    "within",
    "deadline",
    "budget",
    "until",
    "by then",
    "under",
    "below",
    "above",
    "exceed",
    "up to",
    "no later than",
    "not later than",
    "by monday",
    "by tuesday",
    "by wednesday",
    "by thursday",
    "by friday",
    "by saturday",
    "by sunday",
    "by tomorrow",
    "by tonight",
    "höchstens",
    "mindestens",
    "bis",
    "unter",
    "maximal",
    "spätestens",
    "before",
    "longer than",
    "larger than",
    "smaller than",
    "at the latest",
    "cap",
];
const PROHIBITION: &[&str] = &[
    "must not",
    "never",
    "do not",
    "don't",
    "dont",
    "not allowed",
    "forbidden",
    "prohibited",
    "may not",
    "cannot",
    "can't",
    "avoid",
    "leave",
    "off limits",
    "out of scope",
    "hands off",
    "untouched",
    "not touch",
    "stay away",
    "keep away",
    "out of bounds",
    "frozen",
    "except",
    "nicht",
    "nie",
    "niemals",
    "verboten",
    "refuse",
    "not accepted",
    "out of this",
    "stays as",
    "keeps its",
    "unchanged",
    "keep",
];
const NEGATION: &[&str] = &[
    "no", "not", "nothing", "nobody", "none", "neither", "nor", "without", "isn't", "aren't", "won't",
    "doesn't", "kein", "keine", "keinen", "ohne", "niemand",
];
pub(super) const REQUEST: &[&str] = &[
    "please",
    "i want",
    "i need",
    "i would like",
    "i'd like",
    "could you",
    "can you",
    "we need",
    "we want",
    "let us",
    "let's",
    "bitte",
    "want you to",
    "need you to",
    "would rather",
    "i hope you",
    "the task",
    "the job",
    "the goal",
    "your task",
    "we should",
    "instead",
    "ich möchte",
    "ich will",
    "wir brauchen",
];
const DECISION: &[&str] = &[
    "decided",
    "decision",
    "choose",
    "chose",
    "chosen",
    "choice",
    "go with",
    "going with",
    "went with",
    "we take",
    "i take",
    "i'll take",
    "i'd take",
    "let us take",
    "pick",
    "picked",
    "settle",
    "settled",
    "i use",
    "we use",
    "i'll use",
    "we'll use",
    "i will use",
    "will be",
    "shall be",
    "it is",
    "instead of",
    "rather than",
    "prefer",
    "my vote",
    "plan",
    "steps",
    "approach",
    "i keep",
    "i drop",
    "i'd",
    "i suggest",
    "agreed",
    "it'll be",
    "so no",
    "let it be",
    "entscheide",
    "entschieden",
    "nehme",
    "nehmen wir",
    "statt",
    "bleibt",
    "i go",
    "how i go",
    "order",
    "stick to",
    "stick with",
    "opt for",
    "all things",
    "we do it",
    "wins",
    "then",
];
const REASON: &[&str] = &[
    "because",
    "since",
    "so that",
    "the reason",
    "reason",
    "therefore",
    "thus",
    "hence",
    "due to",
    "argument",
    "as it",
    "otherwise",
    "which is why",
    "that's why",
    "weil",
    "damit",
    "denn",
    "deshalb",
    "you see",
    "for its",
    "for the",
];
const CHANGE: &[&str] = &[
    "now",
    "from now on",
    "new",
    "newer",
    "corrected",
    "correction",
    "erratum",
    "moved",
    "renamed",
    "changed",
    "updated",
    "no longer",
    "not any more",
    "any more",
    "wait",
    "actually",
    "replaces",
    "after all",
    "again",
    "from today",
    "jetzt",
    "neu",
    "neue",
    "exchanged",
    "change of plan",
    "forget",
];
const STALE: &[&str] = &[
    "old",
    "older",
    "outdated",
    "former",
    "formerly",
    "previous",
    "previously",
    "last year",
    "years ago",
    "used to",
    "earlier",
    "the other team",
    "another",
    "elsewhere",
    "obsolete",
    "deprecated",
    "history",
    "superseded",
    "expired",
    "long gone",
    "long ago",
    "once",
    "yesterday",
    "long",
    "back then",
    "other",
    "others",
    "somebody",
    "someone",
    "was",
    "were",
    "had",
];
const CHATTER: &[&str] = &[
    "thanks",
    "thank you",
    "hello",
    "hi",
    "good morning",
    "morning",
    "bye",
    "goodbye",
    "sorry",
    "by the way",
    "welcome",
    "ok",
    "okay",
    "noted",
    "understood",
    "great",
    "nice",
    "funny",
    "haha",
    "weather",
    "coffee",
    "lunch",
    "weekend",
    "birthday",
    "happy",
    "cousin",
    "neighbour",
    "friend",
    "danke",
    "hallo",
    "tschüss",
    "tea",
    "cake",
    "train",
    "very well",
    "all right",
    "good question",
];
const NARRATION: &[&str] = &[
    "i read",
    "i look",
    "i check",
    "i run",
    "i open",
    "i search",
    "let me",
    "i will now",
    "i'll",
    "i start",
    "i try",
    "i see",
    "i write",
    "i note",
    "i have",
    "i come back",
    "i ask",
    "i come",
    "let's see",
    "let's look",
    "let's take a",
    "let's search",
    "let's open",
    "let's check",
    "let's run",
    "let's try",
    "let's go",
    "let's add",
    "let's now",
    "now let's",
    "now that we",
    "i apologize",
    "next i",
    "first i",
    "i need",
    "now the",
    "now i",
    "looking at",
    "i quote",
    "i put",
    "i go on",
    "i want to",
    "i can",
    "i am",
    "i'm",
];
const FAILURE: &[&str] = &[
    "error",
    "errors",
    "failed",
    "fails",
    "failing",
    "failure",
    "exception",
    "traceback",
    "panic",
    "crash",
    "crashes",
    "crashed",
    "fail",
    "warning",
    "denied",
    "refused",
    "missing",
    "not found",
    "undefined",
    "timeout",
    "fehler",
];
const FINDING: &[&str] = &[
    "the cause",
    "cause is",
    "turns out",
    "found",
    "so the",
    "which means",
    "means",
    "that means",
    "root cause",
    "the problem",
    "the bug",
    "confirmed",
    "measured",
    "the answer",
    "result",
    "results",
    "it follows",
    "according to",
];
const HEDGE: &[&str] = &[
    "maybe",
    "perhaps",
    "could",
    "might",
    "would",
    "i think",
    "i believe",
    "i suppose",
    "wonder",
    "probably",
    "possibly",
    "idea",
    "seems",
    "vielleicht",
    "rumour",
    "claims",
    "complains",
];
const DATES: &[&str] = &[
    "january",
    "february",
    "march",
    "april",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
    "monday",
    "tuesday",
    "wednesday",
    "thursday",
    "friday",
    "saturday",
    "sunday",
    "tomorrow",
    "tonight",
    "noon",
    "montag",
    "dienstag",
    "mittwoch",
    "donnerstag",
    "freitag",
    "samstag",
    "sonntag",
    "morgen",
];

/// Chinese, which has no blanks: cues stand anywhere in a text, once what only looks like one ([`CHINESE_OTHERS`]) is gone.
/// The weights were fitted without any.
const CHINESE: &[(Feature, &[&str])] = &[
    (
        Feature::Prohibition,
        &[
            "不得",
            "不能",
            "不要",
            "不可",
            "不许",
            "不許",
            "不准",
            "不应",
            "不應",
            "不允许",
            "不允許",
            "禁止",
            "严禁",
            "嚴禁",
            "切勿",
            "请勿",
            "請勿",
            "别再",
            "别动",
            "别改",
            "别删",
            "别用",
            "别碰",
            "避免",
        ],
    ),
    (
        Feature::Obligation,
        &[
            "必须",
            "必須",
            "务必",
            "務必",
            "必需",
            "一律",
            "只能",
            "只可",
            "只许",
            "只許",
            "只准",
            "只用",
            "仅限",
            "僅限",
            "仅用",
            "一定要",
            "应当",
            "應當",
            "应该",
            "應該",
            "确保",
            "確保",
            "始终",
            "始終",
        ],
    ),
    (
        Feature::Bound,
        &[
            "超过",
            "超過",
            "至少",
            "至多",
            "最多",
            "最少",
            "少于",
            "少於",
            "多于",
            "多於",
            "低于",
            "低於",
            "高于",
            "高於",
            "晚于",
            "晚於",
            "以内",
            "以內",
            "之内",
            "之內",
            "之前",
            "前完成",
            "截止",
            "期限",
            "预算",
            "預算",
            "上限",
            "下限",
            "最迟",
            "最遲",
            "最晚",
            "限制",
            "为止",
            "為止",
        ],
    ),
    (Feature::Negation, &["没有", "沒有", "不用", "不必", "无需", "無需", "不再", "不是", "并非"]),
    (
        Feature::Request,
        &[
            "请",
            "請",
            "帮我",
            "幫我",
            "我要",
            "我想要",
            "我想让",
            "我需要",
            "我们需要",
            "麻烦",
            "麻煩",
            "希望",
        ],
    ),
    (
        Feature::Chatter,
        &[
            "谢谢",
            "謝謝",
            "多谢",
            "你好",
            "您好",
            "早上好",
            "晚上好",
            "再见",
            "不客气",
            "辛苦了",
            "哈哈",
            "抱歉",
            "对不起",
            "天气",
            "天氣",
            "咖啡",
            "午饭",
            "周末",
            "生日",
        ],
    ),
    (Feature::Money, &["欧元", "歐元", "美元", "日元", "人民币", "万元", "块钱"]),
    (
        Feature::Date,
        &[
            "明天", "后天", "今晚", "星期", "下周", "月底", "年底", "周一", "周二", "周三", "周四", "周五",
            "周六", "周日",
        ],
    ),
];

/// Words of Chinese that hold a cue and are none: questions ("能不能"), what cannot be helped, asking how.
const CHINESE_OTHERS: &[&str] = &[
    "能不能",
    "可不可以",
    "要不要",
    "该不该",
    "应不应",
    "是不是",
    "有没有",
    "不可能",
    "不可思议",
    "不得不",
    "不得了",
    "不得已",
    "舍不得",
    "恨不得",
    "巴不得",
    "怪不得",
    "记不得",
    "不要紧",
    "请问",
    "請問",
    "申请",
    "申請",
    "邀请",
    "邀請",
    "请假",
    "请教",
    "没有问题",
    "应该是",
    "应该会",
    "应该累",
    "应该很",
    "之前我",
    "之前你",
    "之前的",
    "之前说",
    "之前有",
    "之前在",
    "之前已",
];

/// Phrases of small talk that hold a cue of what binds.
const SMALL_TALK: &[&str] = &[
    "cannot believe",
    "can't believe",
    "can not believe",
    "cannot thank",
    "can't thank",
    "can't complain",
    "i must say",
    "i must admit",
    "i must confess",
    "i have to say",
    "i have to admit",
    "i only wanted to say",
    "never mind",
    "do not worry",
    "don't worry",
    "dont worry",
];

/// Who is guessed at after "must be", and what one guesses: "you must be tired" obliges nobody.
const GUESSES: &[(&[&str], &[&str])] = &[
    (
        &["you", "he", "she", "they", "we", "i"],
        &[
            "tired",
            "exhausted",
            "joking",
            "kidding",
            "busy",
            "right",
            "wrong",
            "mistaken",
            "hungry",
            "thirsty",
            "bored",
            "crazy",
            "mad",
            "insane",
            "dreaming",
            "sleepy",
            "asleep",
            "worried",
            "proud",
            "happy",
            "glad",
            "sad",
            "angry",
            "annoyed",
            "confused",
            "excited",
            "thrilled",
            "new",
            "freezing",
        ],
    ),
    (
        &["it", "that", "this", "there"],
        &["fun", "nice", "lovely", "exhausting", "annoying", "frustrating", "boring", "awful", "terrible"],
    ),
];

/// What something was like for whom it befell: "it must not have been easy" forbids nothing, "opened" in its place does.
const BEFELL: &[&str] = &["easy", "hard", "tough", "difficult", "simple", "cheap", "pleasant", "comfortable"];

/// What may stand before the state that is guessed.
const INTENSIFIERS: &[&str] =
    &["so", "very", "really", "quite", "pretty", "rather", "still", "all", "getting"];

/// From so many statements of one form on, they are bulk: lines of a log, entries of a listing.
const BULK: usize = 3;

/// The words of a statement in lower case, each between two blanks: cues are looked for in it.
pub(super) fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len() + 2);
    plain.push(' ');
    for c in text.chars() {
        if c.is_alphanumeric() || matches!(c, '\'' | '_') {
            plain.extend(c.to_lowercase());
        } else if c == '’' {
            plain.push('\'');
        } else if !plain.ends_with(' ') {
            plain.push(' ');
        }
    }
    if !plain.ends_with(' ') {
        plain.push(' ');
    }
    plain
}

/// How many words there are in what [`plain`] made; of a run without blanks in Chinese or Japanese, half as many as
/// characters.
pub(super) fn n_words(plain: &str) -> usize {
    let wide = |word: &str| word.chars().filter(|c| matches!(c, '\u{3040}'..='\u{9fff}')).count();
    plain.split_whitespace().map(|word| (wide(word) / 2).max(1)).sum()
}

/// What the cues of Chinese tell of a text.
fn cued_chinese(text: &str) -> Vec<Feature> {
    if !text.contains(chinese::is_han) {
        return Vec::new();
    }
    let mut text = text.to_owned();
    for other in CHINESE_OTHERS.iter().filter(|other| text.contains(*other)).collect::<Vec<_>>() {
        text = text.replace(other, " ");
    }
    let told = CHINESE.iter().filter(|(_, cues)| cues.iter().any(|cue| text.contains(cue)));
    told.map(|(feature, _)| *feature).collect()
}

/// Words made by [`plain`] without small talk: who guesses or marvels asks for nothing.
fn without_small_talk(plain: &str) -> String {
    let mut plain = plain.to_owned();
    for phrase in SMALL_TALK {
        plain = plain.replace(&format!(" {phrase} "), " ");
    }
    let words: Vec<&str> = plain.split_whitespace().collect();
    // How many words of a guess begin here: "must", or "must not".
    let guess = |at: usize| {
        let who = at.checked_sub(1).and_then(|at| words.get(at)).copied().unwrap_or("");
        let after = words.get(at + 1..).unwrap_or(&[]);
        let state =
            |n: usize| after.iter().skip(n).find(|word| !INTENSIFIERS.contains(word)).copied().unwrap_or("");
        let is_guess = words[at] == "must"
            && GUESSES.iter().any(|(whom, states)| {
                whom.contains(&who)
                    && (after.starts_with(&["have", "been"])
                        || after.first() == Some(&"be") && states.contains(&state(1))
                        || after.starts_with(&["not", "have", "been"])
                            && (states.contains(&state(3)) || BEFELL.contains(&state(3))))
            });
        usize::from(is_guess) * (1 + usize::from(after.first() == Some(&"not")))
    };
    let (mut left, mut at) = (" ".to_owned(), 0);
    while let Some(word) = words.get(at) {
        let n = guess(at);
        if n == 0 {
            left.push_str(word);
            left.push(' ');
        }
        at += n.max(1);
    }
    left
}

/// What a user's statement has once small talk is set aside. The features were fitted with it, and stay; the score and
/// the kind are those of what is left.
fn meant(candidate: &Candidate<'_>, mut f: Features) -> Features {
    const BINDING: [Feature; 2] = [Feature::Obligation, Feature::Prohibition];
    if candidate.source == Source::User && BINDING.iter().any(|feature| f.has(*feature)) {
        let plain = plain(candidate.text);
        let left = without_small_talk(&plain);
        if left != plain {
            let told: Vec<Feature> = cued(&left).chain(cued_chinese(candidate.text)).collect();
            BINDING.iter().for_each(|feature| f.set(*feature, told.contains(feature)));
            // "I cannot believe there is no way": nothing is forbidden.
            let marvels = holds(&plain, SMALL_TALK);
            let negates =
                told.contains(&Feature::Negation) && (!marvels || told.contains(&Feature::Prohibition));
            f.set(Feature::Negation, f.has(Feature::Negation) && negates);
        }
    }
    f
}

/// Whether a text says that something must be, bounds it or forbids it; "each" and "only" alone do not, nor does small talk.
pub(super) fn binds(text: &str) -> bool {
    let plain = without_small_talk(&plain(text));
    let is_binding = |f| matches!(f, Feature::Obligation | Feature::Bound | Feature::Prohibition);
    [&OBLIGATION[..10], BOUND, PROHIBITION].iter().any(|cues| holds(&plain, cues))
        || cued_chinese(text).into_iter().any(is_binding)
}

/// Whether a statement says no to something.
pub(crate) fn negates(text: &str) -> bool {
    let says_no = |feature| matches!(feature, Feature::Prohibition | Feature::Negation);
    if cued_chinese(text).into_iter().any(says_no) {
        return true;
    }
    let plain = plain(text);
    holds(&plain, NEGATION) || holds(&plain, &PROHIBITION[..8]) || holds(&plain, &["nicht", "nie", "niemals"])
}

/// The features whose cues stand in words made by [`plain`].
fn cued(plain: &str) -> impl Iterator<Item = Feature> {
    /// By its first word: each cue, with what it tells.
    static CUES: LazyLock<HashMap<&str, Vec<(&str, Feature)>>> = LazyLock::new(|| {
        let lists: [(Feature, &[&str]); 16] = [
            (Feature::Date, DATES),
            (Feature::Money, &["euros", "euro", "dollars", "cents"]),
            (Feature::Obligation, OBLIGATION),
            (Feature::Bound, BOUND),
            (Feature::Prohibition, PROHIBITION),
            (Feature::Negation, NEGATION),
            (Feature::Request, REQUEST),
            (Feature::Decision, DECISION),
            (Feature::Reason, REASON),
            (Feature::Change, CHANGE),
            (Feature::Stale, STALE),
            (Feature::Chatter, CHATTER),
            (Feature::Narration, NARRATION),
            (Feature::Failure, FAILURE),
            (Feature::Finding, FINDING),
            (Feature::Hedge, HEDGE),
        ];
        let mut cues: HashMap<&str, Vec<(&str, Feature)>> = HashMap::new();
        for (feature, list) in lists {
            for cue in list {
                let first = cue.split(' ').next().unwrap_or(cue);
                cues.entry(first).or_default().push((cue, feature));
            }
        }
        cues
    });
    let starts = plain.match_indices(' ').map(|(blank, _)| blank + 1);
    starts.flat_map(|start| {
        let rest = &plain[start..];
        let cues = rest.split_once(' ').and_then(|(word, _)| CUES.get(word)).map_or(&[][..], Vec::as_slice);
        let stands = move |cue: &str| rest.strip_prefix(cue).is_some_and(|after| after.starts_with(' '));
        cues.iter().filter(move |(cue, _)| stands(cue)).map(|&(_, feature)| feature)
    })
}

/// Whether any of the cues stands in words made by [`plain`].
pub(super) fn holds(plain: &str, cues: &[&str]) -> bool {
    cues.iter().any(|cue| {
        plain.match_indices(cue).any(|(at, _)| {
            plain.as_bytes()[at - 1] == b' ' && plain.as_bytes().get(at + cue.len()) == Some(&b' ')
        })
    })
}

/// The values of a statement: its atoms in normal form (texts between quotation marks are none), and bare numbers.
pub(crate) fn values(text: &str) -> Vec<String> {
    let atoms = atoms::occurrences(text);
    let mut values: Vec<String> = Vec::new();
    for word in
        text.split(|c: char| c.is_whitespace() || matches!(c, '(' | ')' | '"' | '“' | '”' | ';' | '`'))
    {
        let word = word
            .trim_matches(|c: char| !c.is_alphanumeric() && !matches!(c, '$' | '€' | '£' | '#' | '%' | '/'));
        if word.chars().any(|c| c.is_ascii_digit()) {
            values.push(word.to_lowercase());
        }
    }
    values.extend(
        atoms.into_iter().filter(|atom| atom.kind != AtomKind::Quoted).map(|atom| atom.norm.into_owned()),
    );
    values.sort_unstable();
    values.dedup();
    values
}

/// Whether a value tells one thing from others: a name, three digits, or a mixture of letters and digits.
pub(crate) fn is_telling(value: &str) -> bool {
    let digits = value.bytes().filter(u8::is_ascii_digit).count();
    let is_mixed = digits > 0 && value.len() > 4 && value.bytes().any(|b| b.is_ascii_alphabetic());
    digits != 1 && digits != 2 || is_mixed
}

/// The hashes of a text's content words, sorted, each once.
pub(crate) fn content_words(text: &str) -> Vec<u32> {
    let mut words: Vec<u32> = text
        .split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter_map(|word| atoms::cue_hash(&word.to_lowercase()))
        .collect();
    words.sort_unstable();
    words.dedup();
    words
}

/// The form of a statement: its words, with what has a digit left out.
fn form(plain: &str) -> String {
    let mut form = String::with_capacity(plain.len());
    for word in plain.split_whitespace() {
        form.push_str(if word.bytes().any(|b| b.is_ascii_digit()) { "#" } else { word });
        form.push(' ');
    }
    form
}

/// What is known beside the statements.
#[derive(Default)]
pub(crate) struct Around {
    /// Content words of the current goal.
    pub(crate) goal: Vec<u32>,
    /// Values that the agent wrote, with the last step in which it did.
    pub(crate) used: HashMap<String, u32>,
}

impl Around {
    /// The values that stand in texts of the agent, calls included; the texts in order.
    pub(crate) fn new<'a>(goal: &str, agent: impl Iterator<Item = (u32, &'a str)>) -> Self {
        let mut used = HashMap::new();
        for (step, text) in agent {
            for value in values(text) {
                used.insert(value, step);
            }
        }
        Around { goal: content_words(goal), used }
    }
}

/// The features of statements that stand in one scope, in order.
pub(crate) fn features(candidates: &[Candidate<'_>], around: &Around) -> Vec<Features> {
    let plains: Vec<String> = candidates.iter().map(|candidate| plain(candidate.text)).collect();
    let mut forms: HashMap<String, usize> = HashMap::new();
    let mut texts: HashSet<&str> = HashSet::new();
    for plain in &plains {
        *forms.entry(form(plain)).or_default() += 1;
    }
    // By step: lines of a file that a tool shows.
    let mut listed: HashMap<u32, usize> = HashMap::new();
    let is_listed = |c: &Candidate<'_>| c.source == Source::Tool && is_numbered(c.text);
    for candidate in candidates.iter().filter(|c| is_listed(c)) {
        *listed.entry(candidate.step).or_default() += 1;
    }
    let mut all = Vec::with_capacity(candidates.len());
    for (candidate, plain) in candidates.iter().zip(&plains) {
        let text = candidate.text;
        let mut f = Features::default();
        let n_words = n_words(plain);
        let letters = text.chars().filter(|c| c.is_alphabetic()).count();
        let solid = text.chars().filter(|c| !c.is_whitespace()).count();
        let n_plain =
            plain.split(' ').filter(|w| w.chars().count() > 1 && w.chars().all(char::is_alphabetic)).count();
        f.set(Feature::Short, n_words < 4);
        f.set(Feature::Medium, (4..=30).contains(&n_words));
        f.set(Feature::Long, n_words > 30);
        f.set(Feature::Prose, n_plain >= 5 && letters * 5 >= solid * 3);
        f.set(Feature::Question, text.trim_end_matches(['"', '”', ')', '*']).ends_with(['?', '？']));
        f.set(
            Feature::Code,
            text.contains("()") || text.contains("= ") || text.contains("::") || text.contains(" -> "),
        );
        f.set(Feature::List, text.contains('\n'));

        let values = values(text);
        f.set(Feature::Value, !values.is_empty());
        f.set(Feature::Values, values.len() > 3);
        f.set(Feature::Specific, values.iter().any(|value| is_telling(value)));
        f.set(Feature::Number, text.bytes().any(|b| b.is_ascii_digit()));
        f.set(Feature::Money, text.contains(['$', '€', '£']));
        cued(plain).chain(cued_chinese(text)).for_each(|feature| f.set(feature, true));

        let is_of_listing = is_listed(candidate) && listed[&candidate.step] >= BULK;
        f.set(Feature::Bulk, is_of_listing || forms[&form(plain)] >= BULK);
        f.set(Feature::Repeated, !texts.insert(plain));
        let is_used = |value: &String| around.used.get(value).is_some_and(|&step| step > candidate.step);
        f.set(Feature::Used, candidate.source != Source::Agent && values.iter().any(is_used));
        let on_goal =
            content_words(text).iter().filter(|word| around.goal.binary_search(word).is_ok()).count();
        f.set(Feature::OnGoal, on_goal > 0);
        all.push(f);
    }
    all
}

/// Rates statements that stand in one scope, in order.
pub(crate) fn rate(candidates: &[Candidate<'_>], around: &Around) -> Vec<Rating> {
    let all = features(candidates, around);
    let rating = |(candidate, f): (&Candidate<'_>, Features)| {
        let f = meant(candidate, f);
        let weights = super::weights::of(candidate.source);
        let sum: f64 = Feature::ALL.iter().filter(|&&x| f.has(x)).map(|&x| weights.1[x as usize]).sum();
        let score = 1.0 / (1.0 + libm::exp(-(weights.0 + sum)));
        Rating { score, kind: kind(candidate.source, f), features: f }
    };
    candidates.iter().zip(all).map(rating).collect()
}

/// What a statement is, if it is to be kept.
fn kind(source: Source, f: Features) -> ItemKind {
    let has = |feature| f.has(feature);
    let binds = has(Feature::Obligation) || has(Feature::Bound) || has(Feature::Prohibition);
    let decides =
        has(Feature::List) || has(Feature::Decision) && (has(Feature::Reason) || !has(Feature::Value));
    match source {
        Source::Tool => ItemKind::ToolOutput,
        Source::Agent if decides || has(Feature::Reason) => ItemKind::Decision,
        Source::Agent => ItemKind::Fact,
        Source::User if binds => ItemKind::Constraint,
        Source::User if has(Feature::Decision) && has(Feature::Reason) => ItemKind::Decision,
        Source::User if has(Feature::Negation) && !has(Feature::Value) => ItemKind::Constraint,
        Source::User => ItemKind::Fact,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_listing_are_bulk() {
        let texts =
            ["9:from os import path", "10:LIMIT = 4096", "11:def load(name):", "Limit of 4096 reached"];
        let of = |texts: &[&'static str]| -> Vec<bool> {
            let candidate =
                |text: &&'static str| Candidate { step: 3, bytes: 0..1, text, source: Source::Tool };
            let all: Vec<Candidate<'_>> = texts.iter().map(candidate).collect();
            features(&all, &Around::default()).iter().map(|f| f.has(Feature::Bulk)).collect()
        };
        assert_eq!(of(&texts), [true, true, true, false]);
        // Two of them may be the hits of a search.
        assert_eq!(of(&texts[..2]), [false, false]);
    }

    fn user(text: &str) -> Rating {
        let candidate = Candidate { step: 3, bytes: 0..1, text, source: Source::User };
        rate(&[candidate], &Around::default())[0]
    }

    #[test]
    fn chinese_constraints_are_kept() {
        for text in [
            "报告不能超过三十页。",
            "必须在6月12日之前完成！",
            "图片一律不得使用。",
            "预算不得超过500欧元。",
            "請務必使用繁體中文。",
            "最多只能有五个章节。",
            "禁止修改数据库的结构。",
        ] {
            let rating = user(text);
            assert!(rating.score > 0.3 && rating.kind == ItemKind::Constraint, "{text} {rating:?}");
        }
        for text in [
            "天气很好。",
            "好的，谢谢。",
            "能不能快一点？",
            "这不可能吧。",
            "请问现在几点了？",
            "没有问题。",
            "你应该累了。",
        ] {
            let rating = user(text);
            assert!(rating.score < 0.3, "{text} {rating:?}");
            let binds = [Feature::Prohibition, Feature::Obligation, Feature::Bound, Feature::Request];
            assert!(!binds.iter().any(|feature| rating.features.has(*feature)), "{text} {rating:?}");
        }
        assert!(
            negates("图片一律不得使用。") && !negates("能不能快一点？") && !negates("必须在周五之前完成。")
        );
        // Of words in Latin letters each counts, whatever stands around them.
        assert_eq!(n_words(&plain("keep it under 5 pages")), 5);
        assert_eq!(n_words(&plain("请用 rust 写一份报告")), 1 + 1 + 2);
    }

    #[test]
    fn small_talk_binds_nobody() {
        for text in [
            "You must be tired.",
            "You must be so very tired by now.",
            "You must be joking, right?",
            "He must have been busy.",
            "That must be fun.",
            "I cannot believe how nice it is.",
            "I can’t believe there’s no way to help in a situation like this.",
            "It must not have been easy.",
            "I must say, that was good.",
            "I have to admit that I like it.",
            "Never mind the warnings.",
            "Do not worry about it.",
            "Don’t worry, it is fine.",
        ] {
            let rating = user(text);
            assert!(rating.kind != ItemKind::Constraint && rating.score < 0.3, "{text} {rating:?}");
        }
        for text in [
            "You must be careful with the migrations.",
            "You must be tired, but the tests must not be touched.",
            "It must be right on the first page.",
            "You must not be busy at five.",
            "The list must be new each day.",
            "I cannot believe it, never do that.",
            "It must not have been opened.",
            "It must be easy to read on every page.",
            "Never mind the warnings, but do not touch the tests.",
            "I must say that you must not delete the logs.",
        ] {
            let rating = user(text);
            assert!(rating.kind == ItemKind::Constraint && rating.score > 0.3, "{text} {rating:?}");
        }
        // The features themselves stay what the weights were fitted on.
        let candidate = Candidate { step: 3, bytes: 0..1, text: "You must be tired.", source: Source::User };
        assert!(features(&[candidate], &Around::default())[0].has(Feature::Obligation));
        for text in ["", "must", "you must", "must be", "you must be"] {
            assert_eq!(without_small_talk(&plain(text)), plain(text));
        }
        for text in
            ["must not have been", "it must not", "never mind", "i must say i must say", "must not not"]
        {
            assert!(without_small_talk(&plain(text)).starts_with(' '));
        }
        assert!(!binds("Never mind") && !binds("you must be tired") && binds("never again"));
    }

    #[test]
    fn a_look_by_first_word_finds_what_a_search_for_each_cue_does() {
        let text = "Please make sure it must not exceed 900 euros; we decided on Friday to use it, since it failed. Nicht morgen!";
        let plain = plain(text);
        let found: Vec<Feature> = cued(&plain).collect();
        for (feature, list) in [
            (Feature::Obligation, OBLIGATION),
            (Feature::Prohibition, PROHIBITION),
            (Feature::Decision, DECISION),
            (Feature::Reason, REASON),
            (Feature::Stale, STALE),
            (Feature::Date, DATES),
        ] {
            assert_eq!(found.contains(&feature), holds(&plain, list), "{}", list[0]);
        }
        assert!(found.contains(&Feature::Money) && found.contains(&Feature::Obligation));
    }
}
