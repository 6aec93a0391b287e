//! Which numbers of messages are the provider's counts, where they have names of their own.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::logs::formats::reading::usage::LoggedUsage;

/// What counts are called, without signs and in small letters.
const NAMES: [(&str, &[&str]); 6] = [
    ("input", &["in", "input", "prompt", "inputtokens", "prompttokens", "tokensin", "intokens"]),
    (
        "output",
        &["out", "output", "completion", "outputtokens", "completiontokens", "tokensout", "outtokens"],
    ),
    ("cached", &["cached", "cacheread", "cachedtokens", "cachehits", "cachereadtokens", "cachedinputtokens"]),
    ("cache_write", &["cachewrite", "cachecreation", "cachewritetokens", "cachecreationtokens"]),
    ("reasoning", &["reasoning", "reasoningtokens", "thinkingtokens", "thoughttokens"]),
    ("cost", &["cost", "costusd", "usd", "totalcost"]),
];

/// Deeper numbers are no counts of a message.
const DEPTH: usize = 3;

/// The parts of usage and where they stand; none where `usage` leads to counts by the usual names, or the prompt was not counted.
pub(super) fn own(list: &[&Value], usage: Option<&str>) -> Vec<(&'static str, String)> {
    let is_usual = |message: &&Value| {
        let value = usage.and_then(|at| message.pointer(at)).cloned().unwrap_or_default();
        serde_json::from_value::<LoggedUsage>(value).is_ok_and(|usage| usage.of_call().is_some())
    };
    let mut places: BTreeMap<(usize, String), usize> = BTreeMap::new();
    if !list.iter().any(is_usual) {
        list.iter().for_each(|message| add(message, &mut String::new(), 0, &mut places));
    }
    let place = |i: usize| {
        let of = places.iter().filter(|((part, _), _)| *part == i);
        of.max_by_key(|(_, n)| **n).map(|((_, pointer), _)| pointer.clone())
    };
    let found = (0..NAMES.len()).filter_map(|i| Some((NAMES[i].0, place(i)?)));
    let found: Vec<_> = found.collect();
    if found.first().is_some_and(|(key, _)| *key == "input") { found } else { Vec::new() }
}

fn add(value: &Value, at: &mut String, depth: usize, places: &mut BTreeMap<(usize, String), usize>) {
    for (key, value) in value.as_object().into_iter().flatten() {
        let length = at.len();
        at.push('/');
        at.push_str(&key.replace('~', "~0").replace('/', "~1"));
        let name: String = key.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
        let part = NAMES.iter().position(|(_, names)| names.contains(&name.as_str()));
        match part.filter(|_| value.is_number()) {
            Some(part) => *places.entry((part, at.clone())).or_default() += 1,
            None if depth < DEPTH => add(value, at, depth + 1, places),
            None => {}
        }
        at.truncate(length);
    }
}
