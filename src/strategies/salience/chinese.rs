//! Goals that are said in Chinese, which has no blanks between words: cues stand anywhere in a clause.

use std::borrow::Cow;

/// Whether it is a character of Chinese (or kanji).
pub(super) fn is_han(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}')
}

/// The text with a blank wherever Chinese meets letters or digits of another script, so that they can be told apart.
pub(in crate::strategies) fn set_apart(text: &str) -> Cow<'_, str> {
    if !text.contains(is_han) {
        return Cow::Borrowed(text);
    }
    let mut apart = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    for c in text.chars() {
        if before.is_alphanumeric() && c.is_alphanumeric() && is_han(before) != is_han(c) {
            apart.push(' ');
        }
        apart.push(c);
        before = c;
    }
    Cow::Owned(apart)
}

/// The pairs of neighbouring characters of a word of Chinese, which stand for its words; nothing for other words.
pub(in crate::strategies) fn pairs(word: &str) -> Vec<String> {
    let chars: Vec<char> = word.chars().collect();
    chars.windows(2).filter(|pair| pair.iter().all(|c| is_han(*c))).map(String::from_iter).collect()
}

/// What says that the plan or the task is another one.
pub(super) const CHANGE: &[&str] = &[
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
pub(super) const TURNS: &[&str] = &["改为", "改成", "不再", "现在请", "转而"];

/// How a clause of Chinese begins that asks for something: no verb that is as often a noun ("测试").
const VERBS: &[&str] = &[
    "读取", "阅读", "写", "编写", "撰写", "改写", "重写", "起草", "修复", "修改", "删除", "添加", "增加",
    "创建", "生成", "实现", "列出", "打开", "比较", "整理", "计算", "准备", "制作", "画", "绘制", "查找",
    "寻找", "查看", "翻译", "解释", "总结", "优化", "重构", "安排", "汇总", "做",
];

/// What follows such a verb where something is told: that it was done, or how.
const TOLD: &[char] = &['了', '得', '过', '完', '好', '到', '着', '成', '失', '中', '后', '时', '的'];

/// Words of Chinese that may stand before those that count.
const OPENERS: &[&str] = &[
    "不对", "好的", "好吧", "好", "那么", "那就", "那", "现在", "请", "先", "我们", "然后", "接着", "再",
    "算了",
];

/// Before and after what is given up, in a clause.
const GIVES_UP: (&[&str], &str) = (&["不要再", "不要", "别再", "别", "不用", "不必", "不再", "不"], "了");

/// What goes back to a task (true: not to the one in force) or on with one; the last only with a particle at the end ("still do it, then").
const RESUMES: &[(bool, &str)] =
    &[(true, "回到"), (true, "恢复"), (false, "继续"), (true, "还是"), (true, "還是")];

/// Words that ask for something, anywhere.
pub(super) const ASKS: &[&str] = &["请", "帮我", "帮忙", "我要", "我想", "需要", "麻烦", "改为", "改成"];

/// A clause of Chinese from the first word on that counts.
fn without_openers(clause: &str) -> &str {
    let mut rest = clause.trim();
    while let Some(after) = OPENERS.iter().find_map(|opener| rest.strip_prefix(opener)) {
        rest = after.trim_start();
    }
    rest
}

/// Whether a clause of Chinese begins with what is to be done.
pub(super) fn asks(clause: &str) -> bool {
    let opening = without_openers(clause);
    VERBS.iter().filter_map(|verb| opening.strip_prefix(verb)).any(|rest| {
        !rest.starts_with(TOLD) && rest.starts_with(|c: char| c.is_alphanumeric() || c.is_whitespace())
    })
}

/// What a clause of Chinese gives up.
pub(super) fn given_up(clause: &str) -> Option<&str> {
    let opening = without_openers(clause);
    let opening = opening.trim_end_matches(|c: char| !c.is_alphanumeric()).strip_suffix(GIVES_UP.1)?;
    GIVES_UP.0.iter().find_map(|cue| opening.strip_prefix(cue)).filter(|object| object.chars().count() > 1)
}

/// What a clause of Chinese goes back to (true) or on with.
pub(super) fn resumes(clause: &str, is_question: bool) -> Option<(bool, &str)> {
    let opening = without_openers(clause);
    RESUMES.iter().find_map(|&(returns, cue)| {
        let object = opening.strip_prefix(cue)?.trim_end_matches(|c: char| !c.is_alphanumeric());
        let bare = object.strip_suffix('吧');
        let is_chosen = bare.is_some() && !is_question || !matches!(cue, "还是" | "還是");
        let object = bare.unwrap_or(object).trim_end_matches(['了', '上']);
        (is_chosen && object.chars().count() > 1).then_some((returns, object))
    })
}

/// Whether a sentence announces another task in Chinese, and does not say which.
pub(super) fn announces(sentence: &str) -> bool {
    CHANGE.iter().any(|cue| sentence.contains(cue))
}

/// How many pairs of neighbouring characters of a text of Chinese stand in a task; none where less than half do.
pub(super) fn shared_pairs(object: &str, task: &str) -> Option<(usize, usize)> {
    let chars: Vec<char> = object.chars().filter(|c| c.is_alphanumeric()).collect();
    let n = chars.windows(2).filter(|pair| task.contains(&String::from_iter(*pair))).count();
    (n > 0 && 2 * n >= chars.len() - 1).then_some((n, 0))
}
