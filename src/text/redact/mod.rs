//! Secrets and personal data become typed placeholders, `<email-3>`, in all texts of a run.
//!
//! The same value has the same placeholder wherever it stands in the run, so that it can be followed as any other literal;
//! numbers begin anew in each run. A secret that a rule found in one place goes also where no rule finds it.

mod checks;
mod find;
mod rules;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use aho_corasick::{AhoCorasick, MatchKind};

use find::Found;
use rules::RULES;

/// Raised when other things are found, or told in other words.
pub const VERSION: u32 = 6;

/// Shorter secrets are words, too, and stay where no rule finds them.
const MIN_BYTES: usize = 8;

/// How often something was found, by kind: places, and different values.
pub type Tally = BTreeMap<String, [u64; 2]>;

/// Adds up what was found.
pub fn add(to: &mut Tally, from: &Tally) {
    for (kind, [places, values]) in from {
        let known = to.entry(kind.clone()).or_default();
        known[0] += places;
        known[1] += values;
    }
}

/// What stands in the place of a piece of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub range: Range<usize>,
    pub placeholder: String,
}

/// Redacts the texts of one run, which stand in order.
pub fn redact(texts: &mut [&mut String]) -> Tally {
    let read: Vec<&str> = texts.iter().map(|text| text.as_str()).collect();
    let (marks, tally) = marks(&read);
    for (text, marks) in texts.iter_mut().zip(marks).filter(|(_, marks)| !marks.is_empty()) {
        **text = marked(text, 0..text.len(), &marks);
    }
    tally
}

/// What was found in texts, by their hashes: one that is redacted again is not searched again.
#[derive(Default)]
pub struct Searched(Mutex<HashMap<[u8; 32], Arc<[Found]>>>);

impl Searched {
    fn find(&self, text: &str) -> Vec<Found> {
        let hash = *blake3::hash(text.as_bytes()).as_bytes();
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = known().get(&hash).cloned();
        let found = before.unwrap_or_else(|| {
            let found: Arc<[Found]> = find::find(text).into();
            known().insert(hash, found.clone());
            found
        });
        found.to_vec()
    }

    /// Of each text of a run what is to be redacted, in order.
    pub fn marks(&self, texts: &[&str]) -> (Vec<Vec<Mark>>, Tally) {
        marks_of(texts, |text| self.find(text))
    }
}

/// Of each text of a run what is to be redacted, in order.
pub fn marks(texts: &[&str]) -> (Vec<Vec<Mark>>, Tally) {
    marks_of(texts, find::find)
}

fn marks_of(texts: &[&str], find: impl Fn(&str) -> Vec<Found>) -> (Vec<Vec<Mark>>, Tally) {
    let mut found: Vec<Vec<Found>> = texts.iter().map(|text| find(text)).collect();
    add_known(texts, &mut found);
    let kinds = kinds(texts, &found);
    let mut tally = Tally::new();
    let (mut numbers, mut newest) = (HashMap::<String, u64>::new(), HashMap::<&str, u64>::new());
    // Of a log that was redacted before: a number of it is taken.
    let taken: HashSet<&str> = texts.iter().flat_map(|text| placeholders(text)).collect();
    let mut mark = |text: &str, range: Range<usize>| {
        let value = plain(&text[range.clone()]);
        let kind = &RULES.all[kinds[&*value]].id;
        let counts = tally.entry(kind.clone()).or_default();
        counts[0] += 1;
        let n = *numbers.entry(value.into_owned()).or_insert_with(|| {
            counts[1] += 1;
            let newest = newest.entry(kind).or_default();
            *newest += 1;
            while taken.contains(&*format!("<{kind}-{newest}>")) {
                *newest += 1;
            }
            *newest
        });
        Mark { range, placeholder: format!("<{kind}-{n}>") }
    };
    let marks = texts.iter().zip(found);
    let marks =
        marks.map(|(text, found)| found.into_iter().map(|one| mark(text, one.range)).collect()).collect();
    (marks, tally)
}

/// What stands in a text that looks like our placeholders.
fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let begins = memchr::memchr_iter(b'<', text.as_bytes());
    begins.filter_map(|at| {
        let is_part = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-';
        let end = at + 1 + text.as_bytes()[at + 1..].iter().take_while(|b| is_part(b)).count();
        (text.as_bytes().get(end) == Some(&b'>')).then(|| &text[at..=end])
    })
}

/// A piece of a text with placeholders; of a value that it holds in part, too.
pub fn marked(text: &str, piece: Range<usize>, marks: &[Mark]) -> String {
    let (mut redacted, mut at) = (String::with_capacity(piece.len()), piece.start);
    let from = marks.partition_point(|mark| mark.range.end <= piece.start);
    for mark in marks[from..].iter().take_while(|mark| mark.range.start < piece.end) {
        redacted += &text[at..mark.range.start.max(at)];
        redacted += &mark.placeholder;
        at = mark.range.end;
    }
    redacted + text.get(at..piece.end).unwrap_or_default()
}

/// The rule of each value: the first one that finds it by its form, or else the first.
fn kinds(texts: &[&str], found: &[Vec<Found>]) -> HashMap<String, usize> {
    let mut kinds: HashMap<String, usize> = HashMap::new();
    for (text, found) in texts.iter().zip(found) {
        for Found { range, rule } in found {
            let known = kinds.entry(plain(&text[range.clone()]).into_owned()).or_insert(*rule);
            if find::is_general(*known) {
                *known = *rule;
            }
        }
    }
    kinds
}

/// A value as it is wherever it stands: in JSON it has escapes, and in JSON that stands in JSON those have some.
fn plain(value: &str) -> Cow<'_, str> {
    if !value.contains(['\\', '\n', '\r', '\t', '"']) {
        return Cow::Borrowed(value);
    }
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            // However many there are, they stand for one, or for nothing before what they escape.
            '\\' => {
                while chars.next_if_eq(&'\\').is_some() {}
                if !matches!(chars.peek(), Some('"' | '/')) {
                    out.push('\\');
                }
            }
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// What stands for a secret in other texts: it with the escapes of JSON, and what it is if it has some.
fn spellings(secret: &str) -> Vec<String> {
    let escaped = serde_json::to_string(secret).unwrap_or_default();
    let escaped = escaped.trim_start_matches('"').strip_suffix('"').unwrap_or_default().to_owned();
    let read = serde_json::from_str::<String>(&format!("\"{secret}\"")).unwrap_or_default();
    let mut all = vec![secret.to_owned()];
    all.extend([escaped, read].into_iter().filter(|other| other != secret && other.len() >= MIN_BYTES));
    all
}

/// Adds the places where a secret stands that was found elsewhere.
fn add_known(texts: &[&str], found: &mut [Vec<Found>]) {
    let mut secrets: BTreeMap<String, usize> = BTreeMap::new();
    for (text, found) in texts.iter().zip(&*found) {
        for one in found.iter().filter(|one| !RULES.all[one.rule].is_personal) {
            let secret = &text[one.range.clone()];
            if secret.len() >= MIN_BYTES && !secrets.contains_key(secret) {
                for spelling in spellings(secret) {
                    secrets.entry(spelling).or_insert(one.rule);
                }
            }
        }
    }
    if secrets.is_empty() {
        return;
    }
    let rules: Vec<usize> = secrets.values().copied().collect();
    let words = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(secrets.keys());
    let Ok(words) = words else { return };
    for (text, found) in texts.iter().zip(found) {
        let mut all = Vec::with_capacity(found.len());
        let mut known = std::mem::take(found).into_iter().peekable();
        let flat = find::flat(text);
        for hit in words.find_iter(text) {
            while let Some(one) = known.next_if(|one| one.range.start < hit.end()) {
                all.push(one);
            }
            let is_free = all.last().is_none_or(|last: &Found| last.range.end <= hit.start());
            if is_free && (is_word(&flat, hit.range()) || is_no_word(&text[hit.range()])) {
                all.push(Found { range: hit.range(), rule: rules[hit.pattern().as_usize()] });
            }
        }
        all.extend(known);
        *found = all;
    }
}

/// Whether a secret can be no part of a name or a word.
fn is_no_word(secret: &str) -> bool {
    let has = |is: fn(&u8) -> bool| secret.bytes().any(|b| is(&b));
    secret.len() >= 16 && has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic)
}

/// Whether no letter or digit stands on either side.
fn is_word(flat: &[u8], range: Range<usize>) -> bool {
    let is_part = |at: usize| flat.get(at).is_some_and(u8::is_ascii_alphanumeric);
    !range.start.checked_sub(1).is_some_and(is_part) && !is_part(range.end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::atoms;

    fn redacted(texts: &[&str]) -> (Vec<String>, Tally) {
        let mut texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let tally = redact(&mut texts.iter_mut().collect::<Vec<_>>());
        (texts, tally)
    }

    #[test]
    fn a_value_has_one_placeholder_in_a_run() {
        let (texts, tally) = redacted(&["a@x.io b@x.io", "b@x.io a@x.io c@x.io", "none"]);
        assert_eq!(texts, ["<email-1> <email-2>", "<email-2> <email-1> <email-3>", "none"]);
        assert_eq!(tally, Tally::from([("email".to_owned(), [5, 3])]));
    }

    #[test]
    fn placeholders_of_before_stay_what_they_were() {
        let (texts, tally) = redacted(&["<email-1> and a@x.io", "<email-2>, <b@x.io> <i>"]);
        assert_eq!(texts, ["<email-1> and <email-3>", "<email-2>, <<email-4>> <i>"]);
        assert_eq!(tally["email"], [2, 2]);
    }

    #[test]
    fn a_piece_of_a_value_is_as_secret() {
        let text = "to nina@firm.de, tom@firm.de";
        let (marks, _) = marks(&[text]);
        let piece = |range| marked(text, range, &marks[0]);
        assert_eq!(piece(0..text.len()), "to <email-1>, <email-2>");
        // It begins within the one and ends within the other.
        assert_eq!(piece(5..20), "<email-1>, <email-2>");
        assert_eq!((piece(0..3), piece(14..17)), ("to ".to_owned(), "<email-1>, ".to_owned()));
    }

    #[test]
    fn a_secret_goes_wherever_it_stands() {
        let key = "kD83nfQz71LmWx02PvRt";
        let (texts, tally) =
            redacted(&[&format!("see {key}, x{key}"), &format!("api_key = \"{key}\""), &format!("\\n{key}")]);
        let name = "<generic-api-key-1>";
        assert_eq!(
            texts,
            [format!("see {name}, x{name}"), format!("api_key = \"{name}\""), format!("\\n{name}")]
        );
        assert_eq!(tally["generic-api-key"], [4, 1]);
    }

    /// A value in JSON is the value, and one that two rules find is one.
    #[test]
    fn escapes_make_no_other_value() {
        let text = r#"login with password is kD83"x\Qz7 now"#;
        let key = "kD83nfQz71LmWx02PvRt";
        let home = "C:\\Users\\nina";
        let once = serde_json::json!({"a": format!("{text} {home}"), "k": key}).to_string();
        let twice = serde_json::json!({ "b": once }).to_string();
        let (texts, tally) = redacted(&[home, &once, &twice, &format!("api_key = \"{key}\"")]);
        assert_eq!((texts[0].as_str(), tally["home"]), ("<home-1>", [3, 1]), "{texts:?}");
        assert_eq!(tally["generic-api-key"], [3, 1], "{texts:?}");
        let pem =
            "-----BEGIN PRIVATE KEY-----\n".to_owned() + &"x7HkQ2".repeat(20) + "\n-----END PRIVATE KEY-----";
        let (texts, tally) = redacted(&[&pem, &serde_json::json!({ "pem": pem }).to_string()]);
        assert_eq!(tally["private-key"], [2, 1], "{texts:?}");
    }

    #[test]
    fn redacted_text_is_left_alone_and_its_placeholders_are_atoms() {
        let text = "api_key = \"kD83nfQz71LmWx02PvRt\" by nina@firm.de in /home/nina/x from 10.1.2.77, +49 170 1234567";
        let (once, _) = redacted(&[text]);
        let (twice, tally) = redacted(&[&once[0]]);
        assert_eq!((twice, tally), (once.clone(), Tally::new()));
        let norms: Vec<String> =
            atoms::occurrences(&once[0]).into_iter().map(|atom| atom.norm.into_owned()).collect();
        for name in ["generic-api-key-1", "email-1", "home-1", "address-1", "phone-1"] {
            assert!(norms.iter().any(|norm| norm.contains(name)), "{name}: {norms:?} in {}", once[0]);
        }
    }

    #[test]
    fn json_stays_json() {
        let text = r#"{"a":"x\nnina@firm.de","b":"\"/home/nina\"","c":"TOKEN=\"kD83nfQz71LmWx02PvRt\"\n"}"#;
        let (texts, tally) = redacted(&[text]);
        assert!(serde_json::from_str::<serde_json::Value>(&texts[0]).is_ok(), "{}", texts[0]);
        assert_eq!(tally.len(), 3, "{}", texts[0]);
    }
}
