//! Who speaks in a list of values, and what is said: told by the usual names of such fields, else by the look of them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::logs::formats::mapping::role_name;

/// Where logs often have what a mapping asks for, the most telling first.
const ROLE: &[&str] = &[
    "/role",
    "/message/role",
    "/author/role",
    "/from",
    "/speaker",
    "/sender",
    "/author",
    "/actor",
    "/source",
    "/type",
    "/kind",
];
const CONTENT: &[&str] = &[
    "/content",
    "/message/content",
    "/text",
    "/value",
    "/message/text",
    "/body",
    "/utterance",
    "/message",
    "/parts",
    "/data/content",
    "/payload/content",
    "/output",
];

/// Where messages say who speaks, and what.
pub(super) struct Said {
    pub(super) role: Option<String>,
    pub(super) content: Vec<String>,
    /// Whether both have names that such fields often have, and of how many messages.
    pub(super) score: (bool, usize),
}

/// Who speaks in some values, and what is said: by the usual names, else by the look of it.
pub(super) fn said(list: &[&Value]) -> Option<Said> {
    if let (Some(role), Some(content)) = (best(ROLE, list, Value::is_string), best(CONTENT, list, is_said)) {
        let is_one = |item: &&&Value| item.pointer(role).is_some() && item.pointer(content).is_some();
        let score = (true, list.iter().filter(is_one).count());
        if score.1 > 0 {
            return Some(Said { role: Some(role.to_owned()), content: vec![content.to_owned()], score });
        }
    }
    let mut texts = BTreeMap::new();
    list.iter().enumerate().for_each(|(i, item)| add_texts(item, String::new(), i, &mut texts));
    let role = role_of(&texts, list.len());
    texts.retain(|pointer, _| Some(pointer) != role.as_ref());
    let content = content_of(texts);
    let score = (false, list.len());
    (!content.is_empty()).then_some(Said { role, content, score })
}

/// Texts of some values, by where they stand in which.
type Texts<'a> = BTreeMap<String, Vec<(usize, &'a str)>>;

fn add_texts<'a>(value: &'a Value, path: String, i: usize, out: &mut Texts<'a>) {
    match value {
        Value::String(text) if !text.trim().is_empty() => out.entry(path).or_default().push((i, text)),
        Value::Object(fields) if path.matches('/').count() < 5 => fields.iter().for_each(|(key, value)| {
            let key = key.replace('~', "~0").replace('/', "~1");
            add_texts(value, format!("{path}/{key}"), i, out);
        }),
        Value::Array(items) => items.iter().take(1).for_each(|first| {
            add_texts(first, format!("{path}/0"), i, out);
        }),
        _ => {}
    }
}

/// A field of few words that come again and again may say who speaks.
fn role_of(texts: &Texts<'_>, n: usize) -> Option<String> {
    let rated = texts.iter().filter_map(|(pointer, texts)| {
        let names: BTreeSet<&str> = texts.iter().map(|(_, text)| *text).collect();
        let n_known = names.iter().filter(|name| role_name(name) != "none").count();
        let is_name = names.iter().all(|name| name.len() <= 60 && !name.contains(char::is_whitespace));
        let comes_again = n_known > 0 || names.len() > 1 && (names.len() < texts.len() || n < 4);
        let rating = (n_known, texts.len(), Reverse(names.len()));
        (is_name && comes_again && 2 * texts.len() > n).then_some((rating, pointer))
    });
    rated.max_by(|a, b| a.0.cmp(&b.0).then(b.1.cmp(a.1))).map(|(_, pointer)| pointer.clone())
}

/// So many places of what is said are named.
const CONTENTS: usize = 6;

/// The field of the longest texts, and for values without it that of theirs.
fn content_of(mut texts: Texts<'_>) -> Vec<String> {
    let mut out = Vec::new();
    while out.len() < CONTENTS {
        // Words, and no ids or times, as long as there are some.
        let rating = |texts: &[(usize, &str)]| {
            let has_words = texts.iter().any(|(_, text)| text.trim().contains(char::is_whitespace));
            (has_words, texts.iter().map(|(_, text)| text.len()).sum::<usize>())
        };
        let longest = texts.iter().map(|(pointer, texts)| (rating(texts), pointer.clone())).max();
        let Some(((has_words, _), pointer)) =
            longest.filter(|((has_words, n), _)| *n > 0 && (*has_words || out.is_empty()))
        else {
            break;
        };
        let told: BTreeSet<usize> = texts.remove(&pointer).into_iter().flatten().map(|(i, _)| i).collect();
        texts.values_mut().for_each(|texts| texts.retain(|(i, _)| !told.contains(i)));
        out.push(pointer);
        if !has_words {
            break;
        }
    }
    out
}

fn is_said(value: &Value) -> bool {
    value.is_string() || value.is_array()
}

/// The first pointer that leads to something in half of the values, else the one that does most often.
pub(super) fn best<'p>(pointers: &[&'p str], list: &[&Value], is_it: fn(&Value) -> bool) -> Option<&'p str> {
    let count = |pointer: &str| list.iter().filter(|item| item.pointer(pointer).is_some_and(is_it)).count();
    let counts: Vec<(usize, &str)> = pointers.iter().map(|pointer| (count(pointer), *pointer)).collect();
    let often = counts.iter().find(|(n, _)| 2 * n >= list.len().max(1) && *n > 0);
    often.or(counts.iter().rev().max_by_key(|(n, _)| *n)).filter(|(n, _)| *n > 0).map(|(_, pointer)| *pointer)
}
