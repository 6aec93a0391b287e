//! The compressor module: light (3:1 to 5:1) and heavy (8:1 to 15:1), by rules or by a model.
//!
//! Light, by rules: the content is cut into semantic chunks; of each the key sentences stay (the extractive summary),
//! a line that an earlier chunk had is redundant, and the relations and entities that no line has are listed in
//! the room that is left, values first: lines say what a name is about (need retention of what `visible` shows on 369 coding logs: 0.47
//! so, 0.45 and 0.41 with an eighth and a quarter of the room for the lists). Heavy, by rules:
//! structured facts (`key=value`), relations (two entities of a line with the words between them), and entities, most
//! frequent first. What has no entities at all keeps its key sentence. With a model, light is a summary that names
//! the entities, and heavy an extraction in the same form; what it gives that is unusable is replaced by the rules,
//! flagged; what has no room for a sentence is left to the rules. A model is given a segment whole and not chunk by chunk: it is
//! a chunk already (`segmentation.rs` cuts at topic shifts), and a part of it would have no room for a sentence. Entities are atoms.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use rustc_hash::FxHashSet;

use super::entities::{entities, is_value, named};
use super::relevance::EntityCounts;
use super::segment::Level;
use super::segmentation::cut;
use crate::context::log::Log;
use crate::models::prompt::{Data, Prompt, Var};
use crate::strategies::{Compressed, Env, extractive, writer};
use crate::text::atoms;
use crate::text::tokens::Tokenizer;

const LIGHT: &str = include_str!("light.txt");
const HEAVY: &str = include_str!("heavy.txt");

/// Tokens of a semantic chunk, at most.
const CHUNK_TOKENS: u32 = 200;
/// Where no line of a segment has room, so many tokens may say what identifies, up to half of its own, and half as many in the heavy
/// form: a fourth of "My account ID is ABC123." is "My account".
const IDENTIFIES: u32 = 16;
/// Words between two entities of a relation, at most.
const MAX_BETWEEN: usize = 8;

/// Pairs of entities of a line with what stands between them: (start, end) of the text, in order.
fn relations(text: &str) -> Vec<&str> {
    let found = atoms::occurrences(text);
    let near = found.windows(2).filter(|pair| pair[0].span == pair[1].span && pair[0].norm != pair[1].norm);
    near.filter_map(|pair| {
        let between = text.get(pair[0].end..pair[1].start)?;
        let words = between.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count();
        (1..=MAX_BETWEEN).contains(&words).then(|| text.get(pair[0].start..pair[1].end))?
    })
    .collect()
}

/// Relations as lines, each once, in order.
fn relations_of(text: &str) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let line = |relation: &str| relation.split_whitespace().collect::<Vec<_>>().join(" ");
    relations(text).into_iter().map(line).filter(|relation| seen.insert(relation.clone())).collect()
}

/// The light form of some lines of the log, of `1 / ratio` of their tokens, by rules; with their text and its entities.
///
/// # Errors
/// The model of embeddings answers nothing any more.
pub(crate) fn light(
    log: &Log,
    spans: &[u32],
    (content, names): (&str, &[String]),
    ratio: f64,
    env: &mut Env<'_>,
) -> anyhow::Result<String> {
    let tokenizer = env.tokenizer;
    let of = |span: u32| log.spans[span as usize].tokens;
    let total: u32 = spans.iter().map(|&span| of(span)).sum();
    let budget = share(total, ratio);
    let mut said: HashSet<&str> = HashSet::new();
    let mut lines: Vec<&str> = Vec::new();
    let mut used = 0;
    for chunk in cut(log, spans, CHUNK_TOKENS, env)? {
        let mut texts: Vec<&str> = spans[chunk].iter().map(|&span| log.span_text(span).trim()).collect();
        texts.retain(|text| !text.is_empty() && !said.contains(text));
        let counts: Vec<u32> = texts.iter().map(|text| tokenizer.count_line(text) + 1).collect();
        // What a chunk leaves of its share is the next one's.
        let chunk_tokens: u32 = counts.iter().sum();
        let own = share(chunk_tokens, ratio).max(1).min(budget.saturating_sub(used));
        for at in extractive::choose(&texts, &counts, own) {
            used += counts[at];
            said.insert(texts[at]);
            lines.push(texts[at]);
        }
    }
    let text = lines.join("\n");
    let budget = if text.is_empty() { budget.max(IDENTIFIES.min(total / 2)) } else { budget };
    let relations: Vec<String> =
        relations_of(content).into_iter().filter(|relation| !text.contains(relation.as_str())).collect();
    let text = listed(text, "", relations.iter().map(String::as_str), "; ", budget, tokenizer);
    let known: FxHashSet<String> = entities(&text).into_iter().collect();
    let mut missing: Vec<&str> =
        names.iter().filter(|name| !known.contains(*name)).map(String::as_str).collect();
    // Values first: what a name is can be guessed from what is said of it.
    missing.sort_by_key(|name| !is_value(name));
    let head = if text.is_empty() { "" } else { "also: " };
    let is_bare = text.is_empty();
    let text = listed(text, head, missing.iter().copied(), ", ", budget, tokenizer);
    // A list of one says nothing of it.
    let is_one = is_bare && missing.contains(&&*text) && content.contains(&text);
    Ok(match is_one || text.is_empty() {
        true => around(content.trim(), missing.into_iter(), budget, tokenizer),
        false => text,
    })
}

/// The heavy form of a content, for what once had so many tokens, by rules.
pub(crate) fn heavy(
    content: &str,
    original_tokens: u32,
    ratio: f64,
    counts: &EntityCounts,
    tokenizer: &Tokenizer,
) -> String {
    let budget = share(original_tokens, ratio);
    let mut names = entities(content);
    let facts: Vec<String> = names.iter().filter(|name| name.contains('=')).cloned().collect();
    names.retain(|name| !name.contains('='));
    // A third of the budget each, and what is left over goes to the next. A fact that has no room is a name.
    let mut text =
        listed(String::new(), "facts: ", facts.iter().map(String::as_str), "; ", budget / 3, tokenizer);
    names.extend(facts.iter().cloned());
    let relations = relations_of(content);
    text = listed(text, "relations: ", relations.iter().map(String::as_str), "; ", budget * 2 / 3, tokenizer);
    let known: BTreeSet<String> = entities(&text).into_iter().collect();
    names.retain(|name| !known.contains(name));
    names.sort_by(|a, b| counts.importance(named(b)).total_cmp(&counts.importance(named(a))));
    text = listed(text, "entities: ", names.iter().map(String::as_str), ", ", budget, tokenizer);
    if !text.is_empty() {
        return text;
    }
    let lines: Vec<&str> = content.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let counts: Vec<u32> = lines.iter().map(|line| tokenizer.count_line(line) + 1).collect();
    let chosen: Vec<&str> =
        extractive::choose(&lines, &counts, budget).into_iter().map(|at| lines[at]).collect();
    if !chosen.is_empty() {
        return chosen.join("\n");
    }
    let budget = budget.max((IDENTIFIES / 2).min(original_tokens / 2));
    names.sort_by_key(|name| !is_value(name));
    around(content.trim(), names.iter().map(String::as_str), budget, tokenizer)
}

/// The words around the first of some names that stands in a text, of so many tokens at most; its first words where none does.
/// A name is whole or not there.
fn around<'n>(
    text: &str,
    names: impl Iterator<Item = &'n str>,
    budget: u32,
    tokenizer: &Tokenizer,
) -> String {
    let fits = |from: usize, to: usize| tokenizer.count(&text[from..to]) <= budget;
    let mut places = names.filter_map(|name| text.find(name).map(|at| (at, at + name.len())));
    let Some((start, end)) = places.find(|&(start, end)| fits(start, end)) else {
        return beginning(text, budget, tokenizer);
    };
    let line = text[..start].rfind('\n').map_or(0, |at| at + 1)
        ..text[end..].find('\n').map_or(text.len(), |at| end + at);
    let is_blank = |at: usize| text[at..].chars().next().is_none_or(char::is_whitespace);
    let places = |range: std::ops::Range<usize>| {
        text[range.clone()].char_indices().map(move |(at, c)| (range.start + at, c))
    };
    let mut starts: Vec<usize> = places(line.start..start)
        .map(|(at, _)| at)
        .filter(|&at| !is_blank(at) && (at == line.start || text[..at].ends_with(char::is_whitespace)))
        .collect();
    let mut ends = places(end..line.end).map(|(at, c)| at + c.len_utf8()).filter(|&at| is_blank(at));
    let (mut from, mut to) = (start, end);
    // A word before, a word behind, and so on; what has no room ends its side.
    let (mut is_open, mut is_more) = (true, true);
    while is_open || is_more {
        let start = starts.pop().filter(|&start| is_open && fits(start, to));
        (is_open, from) = (start.is_some(), start.unwrap_or(from));
        let end = ends.next().filter(|&end| is_more && fits(from, end));
        (is_more, to) = (end.is_some(), end.unwrap_or(to));
    }
    text[from..to].trim().to_owned()
}

/// `1 / ratio` of some tokens, at least 1.
fn share(tokens: u32, ratio: f64) -> u32 {
    ((f64::from(tokens) / ratio).floor() as u32).max(1)
}

/// A text with one more line that lists entries, in order, those that fit.
fn listed<'a>(
    text: String,
    head: &str,
    entries: impl Iterator<Item = &'a str>,
    between: &str,
    budget: u32,
    tokenizer: &Tokenizer,
) -> String {
    let mut used = if text.is_empty() { 0 } else { tokenizer.count(&text) + 1 };
    used += tokenizer.count(head);
    let mut fits: Vec<&str> = Vec::new();
    for entry in entries {
        if used >= budget {
            break;
        }
        let tokens = tokenizer.count_line(entry) + 1;
        if used + tokens > budget {
            continue;
        }
        used += tokens;
        fits.push(entry);
    }
    match (fits.is_empty(), text.is_empty()) {
        (true, _) => text,
        (false, true) => format!("{head}{}", fits.join(between)),
        (false, false) => format!("{text}\n{head}{}", fits.join(between)),
    }
}

/// The first words of a text, of so many tokens at most; where not even one word fits, its first characters.
fn beginning(text: &str, budget: u32, tokenizer: &Tokenizer) -> String {
    // A token is rarely more than eight characters.
    let longest =
        text.char_indices().nth((budget as usize).saturating_mul(8)).map_or(text.len(), |(at, _)| at);
    let chars = || text[..longest].char_indices().map(|(at, c)| at + c.len_utf8());
    let is_end = |end: &usize| text[*end..].chars().next().is_none_or(char::is_whitespace);
    for ends in [chars().filter(is_end).collect::<Vec<usize>>(), chars().collect()] {
        let fits = ends.partition_point(|&end| tokenizer.count(&text[..end]) <= budget);
        if fits > 0 {
            return text[..ends[fits - 1]].trim_end().to_owned();
        }
    }
    String::new()
}

/// Whether the form of a segment has room for what a model writes; where it has not, the rules make it.
pub(crate) fn has_room(original_tokens: u32, ratio: f64) -> bool {
    share(original_tokens, ratio) >= writer::LEAST_TOKENS
}

/// What a model writes as the light form; none if it gave nothing usable.
pub(crate) fn light_by_model(
    content: &str,
    original_tokens: u32,
    ratio: f64,
    env: &mut Env<'_>,
) -> anyhow::Result<Option<String>> {
    let names = entities(content).join(", ");
    let vars = [
        ("content", Data::fenced(content).may_cut().into()),
        ("entities", Data::fenced(&names).may_cut().into()),
        // Of English prose three words are four tokens.
        ("words", Var::ours(share(original_tokens, ratio) * 3 / 4)),
    ];
    writer::write(Prompt::render(LIGHT, &vars)?, None, share(original_tokens, ratio), original_tokens, env)
}

/// What a model writes as the heavy form; none if it gave nothing usable.
pub(crate) fn heavy_by_model(
    content: &str,
    original_tokens: u32,
    ratio: f64,
    env: &mut Env<'_>,
) -> anyhow::Result<Option<String>> {
    let vars = [("content", Data::fenced(content).may_cut().into())];
    writer::write(Prompt::render(HEAVY, &vars)?, None, share(original_tokens, ratio), original_tokens, env)
}

/// What each level of compression made of how much.
pub(crate) type Ratios = BTreeMap<&'static str, Compressed>;

/// Adds what a level made of a segment: in the seed's band is a ratio of 3 to 5 (light) and of 8 to 15 (heavy).
pub(crate) fn count(ratios: &mut Ratios, level: Level, before: u32, after: u32) {
    let band = match level {
        Level::Heavy => 8.0..=15.0,
        Level::None | Level::Light => 3.0..=5.0,
    };
    let sum = ratios.entry(level.name()).or_default();
    sum.before += u64::from(before);
    sum.after += u64::from(after);
    sum.n += 1;
    sum.n_in_band += u64::from(band.contains(&(f64::from(before) / f64::from(after.max(1)))));
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng as _;

    use super::super::segment::text_of;
    use super::*;

    fn tokenizer() -> Tokenizer {
        Tokenizer::load("o200k").unwrap()
    }

    #[test]
    fn entities_and_relations_by_rule() {
        let text = "src/a.py raises ValueError on line two\nthen src/b.py and src/b.py\nlimit=40";
        assert_eq!(entities(text), ["src/a.py", "ValueError", "src/b.py", "limit=40"]);
        assert_eq!(relations(text), ["src/a.py raises ValueError"]);
        assert!(entities("roses are red").is_empty() && relations("").is_empty());
    }

    fn light_of(text: &str, ratio: f64) -> (String, f64) {
        let log = Log::script(&format!("user: go\nagent: {text}"));
        let spans: Vec<u32> = log.spans_of(1).collect();
        let tokenizer = tokenizer();
        let rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        let content = text_of(&log, &spans);
        let of = (content.as_str(), &entities(&content)[..]);
        let light = light(&log, &spans, of, ratio, &mut Env::new(&tokenizer, rng, None)).unwrap();
        (light.clone(), f64::from(log.tokens[1]) / f64::from(tokenizer.count(&light).max(1)))
    }

    #[test]
    fn light_keeps_key_sentences_and_says_nothing_twice() {
        let text: String = (0..40)
            .map(|i| format!("the parser of part {i} reads src/part{i}.py and fails on a token~nothing else was seen here today~"))
            .collect();
        let (light, ratio) = light_of(&text, 4.0);
        assert!((3.0..=6.0).contains(&ratio), "{ratio} {light}");
        assert!(light.matches("nothing else was seen").count() <= 1, "{light}");
        assert!(light.contains("src/part") && light.contains("also: "), "{light}");
    }

    #[test]
    fn heavy_keeps_facts_relations_and_entities() {
        let text: String = (0..30)
            .map(|i| format!("src/part{i}.py raises ValueError where the limit={i}0 was set by a very long and tedious chain of calls\n"))
            .collect();
        let n = tokenizer().count(&text);
        let heavy = heavy(&text, n, 11.0, &EntityCounts::default(), &tokenizer());
        let ratio = f64::from(n) / f64::from(tokenizer().count(&heavy));
        assert!((8.0..=15.0).contains(&ratio), "{ratio} {heavy}");
        assert!(heavy.starts_with("facts: limit=00; ") && heavy.contains("raises ValueError"), "{heavy}");
    }

    #[test]
    fn a_long_name_does_not_end_the_list() {
        let long = format!("src/{}/name.py", "very/long/folder/of/files".repeat(3));
        let content = format!("{long}\nsrc/a.py raises ValueError\ntimeout=30");
        let text = heavy(&content, 200, 11.0, &EntityCounts::default(), &tokenizer());
        assert!(
            text.contains("timeout=30") && text.contains("ValueError") && text.contains("src/a.py"),
            "{text}"
        );
        assert!(tokenizer().count(&text) <= 200 / 11, "{text}");
        // A name that is part of another one is listed.
        let text = heavy("data.py\na.py", 200, 11.0, &EntityCounts::default(), &tokenizer());
        assert_eq!(text, "entities: data.py, a.py");
    }

    /// The first line leaves no room for the second, which says who does what to whom; the relation alone fits.
    #[test]
    fn light_lists_relations_before_names() {
        let end = "whenever it is raining at night and nobody is there to look at it";
        let text = format!("{}~src/a.py raises ValueError {end}", "roses and tulips grow here ".repeat(20));
        let (light, _) = light_of(&text, 10.0);
        assert_eq!(light, "src/a.py raises ValueError");
    }

    /// A short message has no room for a line; what identifies stays, and not its first words.
    #[test]
    fn light_keeps_what_identifies() {
        let texts = [
            "My account ID is ABC123.",
            "I'm getting error code 500 whenever I save.",
            "I need this to be resolved by Friday.",
            "Please ask Alice Johnson for the order first.",
            "Please note that the refund must reach my card before 12 March.",
        ];
        assert_eq!(
            texts.map(|text| light_of(text, 4.0).0),
            [
                "is ABC123",
                "code=500",
                "resolved by Friday.",
                "ask Alice Johnson for",
                "my card before 12 March."
            ]
        );
    }

    #[test]
    fn what_has_no_entities_keeps_a_sentence_or_its_first_words() {
        let counts = EntityCounts::default();
        let text = "we talked about the roses and the tulips in the garden all the afternoon\nit rained\nwe went home";
        let heavy_text = heavy(text, 24, 4.0, &counts, &tokenizer());
        assert!(text.lines().any(|line| line == heavy_text), "{heavy_text}");
        let one_line = "we talked about the roses and the tulips in the garden";
        assert_eq!(heavy(one_line, 11, 3.0, &counts, &tokenizer()), "we talked about the roses");
        // A value is whole, with the words around it.
        let texts = [
            "We run version 4.2.1 on Debian 12.",
            "My account ID is ABC123.",
            "Please note that the refund must reach my card before 12 March.",
        ];
        assert_eq!(
            texts.map(|text| heavy(text, tokenizer().count(text), 11.0, &counts, &tokenizer())),
            ["version 4.2.1", "is ABC123", "my card before 12 March."]
        );
        assert_eq!(heavy("", 0, 11.0, &counts, &tokenizer()), "");
        for text in ["x", "é", "\u{1F600}".repeat(500).as_str()] {
            assert!(tokenizer().count(&light_of(text, 4.0).0) <= 500);
        }
    }
}
