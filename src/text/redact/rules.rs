//! The rules by which secrets and personal data are found, as data: those of gitleaks, and a few of ours in the same form.
//!
//! They are written for Go. Rust's expressions differ in what needs a backslash, so that is put in. A rule is compiled when a
//! text first holds one of its keywords. Those of gitleaks are made for files of settings, where few signs can follow a key; in a
//! log anything may that is no part of one.

use std::collections::BTreeMap;
use std::sync::{LazyLock, OnceLock};

use aho_corasick::{AhoCorasick, AhoCorasickKind};
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;

/// Rules, and whether what they find is personal and no secret.
const FILES: [(&str, bool); 3] = [
    (include_str!("../../data/redact/gitleaks.toml"), false),
    (include_str!("../../data/redact/keys.toml"), false),
    (include_str!("../../data/redact/personal.toml"), true),
];

/// How most rules of gitleaks end.
const END: &str = r#"(?:[\x60'"\s;]|\\[nr]|$)"#;
/// The rule for what only looks like a key.
pub(super) const GENERAL: &str = "generic-api-key";

/// All rules, and by which words they are called.
pub(super) struct Rules {
    pub(super) all: Vec<Rule>,
    /// All keywords; which rules want each of them.
    pub(super) keywords: AhoCorasick,
    pub(super) wanted_by: Vec<Vec<usize>>,
    /// Rules that are tried everywhere.
    pub(super) everywhere: Vec<usize>,
}

pub(super) struct Rule {
    pub(super) id: String,
    /// Where the secret itself stands; the first group with something in it, where none is said.
    pub(super) group: Option<usize>,
    /// What is not less random than that is no secret: bits a character.
    pub(super) entropy: f64,
    pub(super) check: Option<Check>,
    /// One of ours: what it finds is no secret in itself.
    pub(super) is_personal: bool,
    pattern: String,
    regex: OnceLock<Regex>,
    allowed: Vec<Allowed>,
}

/// What no regular expression can tell.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Check {
    /// No part of a longer number, version or word.
    Alone,
    /// The same, and the digits add up as those of a card do (Luhn).
    Card,
    /// The same, and nothing before it says that it is a version.
    Address,
    /// Letters and digits, as a password has them: at most one blank, or words of one length.
    Password,
    /// The same without a blank, as long and random as a key.
    Key,
}

/// What is no secret, though a rule finds it.
struct Allowed {
    target: Target,
    regexes: Vec<(String, OnceLock<Regex>)>,
    stopwords: Option<AhoCorasick>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Target {
    #[default]
    Secret,
    Match,
    Line,
}

#[derive(Deserialize)]
struct File {
    allowlist: Option<RawAllowed>,
    rules: Vec<RawRule>,
    /// Parts of expressions, and expressions for what is no secret, that several rules name.
    #[serde(default)]
    parts: BTreeMap<String, String>,
    #[serde(default)]
    allowed: BTreeMap<String, Vec<String>>,
}

#[derive(Deserialize)]
struct RawRule {
    id: String,
    regex: Option<String>,
    /// A rule for files of some names: in a text nobody knows what file it is of.
    path: Option<String>,
    #[serde(default)]
    keywords: Vec<String>,
    #[serde(default)]
    entropy: f64,
    #[serde(rename = "secretGroup")]
    group: Option<usize>,
    #[serde(default)]
    allowlists: Vec<RawAllowed>,
    check: Option<Check>,
    #[serde(default)]
    allowed: Vec<String>,
}

#[derive(Clone, Default, Deserialize)]
struct RawAllowed {
    #[serde(default)]
    regexes: Vec<String>,
    #[serde(default)]
    stopwords: Vec<String>,
    #[serde(default, rename = "regexTarget")]
    target: Target,
    condition: Option<String>,
}

/// A finding: the line it stands in, the match of the rule, and the secret in that.
pub(super) struct Finding<'a> {
    pub(super) line: &'a [u8],
    pub(super) whole: &'a [u8],
    pub(super) secret: &'a [u8],
}

pub(super) static RULES: LazyLock<Rules> = LazyLock::new(|| {
    let (mut all, mut everywhere) = (Vec::new(), Vec::new());
    let (mut keywords, mut wanted_by): (Vec<String>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
    for (text, is_personal) in FILES {
        let file: File = toml::from_str(text).expect("the rules are in order: a test reads them");
        for raw in &file.rules {
            let Some(mut pattern) = raw.regex.clone().filter(|_| raw.path.is_none()) else { continue };
            if raw.id != GENERAL
                && let Some(before) = pattern.strip_suffix(END)
            {
                pattern = format!("{before}(?:[^0-9A-Za-z_]|$)");
            }
            // A part may have parts.
            for (name, part) in file.parts.iter().chain(&file.parts) {
                pattern = pattern.replace(&format!("{{{name}}}"), part);
            }
            let at = all.len();
            if raw.keywords.is_empty() {
                everywhere.push(at);
            }
            for keyword in &raw.keywords {
                match keywords.iter().position(|known| known == keyword) {
                    Some(known) => wanted_by[known].push(at),
                    None => {
                        keywords.push(keyword.clone());
                        wanted_by.push(vec![at]);
                    }
                }
            }
            // Where all conditions must hold, one of them is that of a file's name.
            let lists = file.allowlist.iter().chain(&raw.allowlists);
            let lists = lists.filter(|list| list.condition.as_deref() != Some("AND"));
            let named = raw.allowed.iter().map(|name| file.allowed[name].clone());
            let named = named.map(|regexes| Allowed::of(RawAllowed { regexes, ..RawAllowed::default() }));
            all.push(Rule {
                id: raw.id.clone(),
                group: raw.group,
                entropy: raw.entropy,
                check: raw.check,
                is_personal,
                pattern,
                regex: OnceLock::new(),
                allowed: lists.cloned().map(Allowed::of).chain(named).collect(),
            });
        }
    }
    let keywords = words(&keywords);
    Rules { all, keywords, wanted_by, everywhere }
});

fn words(words: &[String]) -> AhoCorasick {
    let mut builder = AhoCorasick::builder();
    builder.ascii_case_insensitive(true).kind(Some(AhoCorasickKind::ContiguousNFA));
    builder.build(words).expect("a few thousand words are no problem")
}

/// A regular expression of Go; what is compiled takes at most this much memory.
fn compile(pattern: &str) -> Regex {
    let mut builder = RegexBuilder::new(&in_rust(pattern));
    builder.unicode(false).size_limit(64 << 20).dfa_size_limit(8 << 20);
    builder.build().expect("the rules are in order: a test compiles all of them")
}

/// The same expression for Rust, where a brace that repeats nothing and a bracket in a class need a backslash.
fn in_rust(pattern: &str) -> String {
    let chars: Vec<char> = pattern.chars().collect();
    let (mut out, mut is_class, mut at) = (String::with_capacity(pattern.len() + 8), false, 0);
    while at < chars.len() {
        let c = chars[at];
        match c {
            '\\' => {
                out.push(c);
                at += 1;
                out.extend(chars.get(at));
            }
            '[' if is_class => match chars.get(at + 1) {
                // A class by name, as `[:alnum:]`.
                Some(':') => {
                    let end = chars[at..].iter().position(|c| *c == ']').unwrap_or(0);
                    out.extend(&chars[at..=at + end]);
                    at += end;
                }
                _ => out.push_str("\\["),
            },
            '[' => {
                is_class = true;
                out.push(c);
                // A bracket that comes first stands for itself.
                for first in ['^', ']'] {
                    if chars.get(at + 1) == Some(&first) {
                        at += 1;
                        out.push_str(if first == ']' { "\\]" } else { "^" });
                    }
                }
            }
            ']' => {
                is_class = false;
                out.push(c);
            }
            '&' | '~' if is_class => out.extend(['\\', c]),
            '{' if !is_class && !is_repetition(&chars[at + 1..]) => out.push_str("\\{"),
            _ => out.push(c),
        }
        at += 1;
    }
    out
}

fn is_repetition(rest: &[char]) -> bool {
    let end = rest.iter().position(|c| *c == '}');
    end.is_some_and(|end| {
        end > 0 && rest[0].is_ascii_digit() && rest[..end].iter().all(|c| c.is_ascii_digit() || *c == ',')
    })
}

impl Rule {
    pub(super) fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| compile(&self.pattern))
    }

    /// Whether what was found is no secret after all.
    pub(super) fn allows(&self, finding: &Finding<'_>) -> bool {
        self.entropy > 0.0 && entropy(finding.secret) <= self.entropy
            || self.allowed.iter().any(|allowed| allowed.fits(finding))
    }
}

impl Allowed {
    fn of(raw: RawAllowed) -> Self {
        Allowed {
            target: raw.target,
            regexes: raw.regexes.into_iter().map(|pattern| (pattern, OnceLock::new())).collect(),
            stopwords: (!raw.stopwords.is_empty()).then(|| words(&raw.stopwords)),
        }
    }

    fn fits(&self, finding: &Finding<'_>) -> bool {
        let text = match self.target {
            Target::Secret => finding.secret,
            Target::Match => finding.whole,
            Target::Line => finding.line,
        };
        self.stopwords.as_ref().is_some_and(|words| words.is_match(finding.secret))
            || self
                .regexes
                .iter()
                .any(|(pattern, regex)| regex.get_or_init(|| compile(pattern)).is_match(text))
    }
}

/// Bits a character, by how often each stands in the text itself.
pub(super) fn entropy(text: &[u8]) -> f64 {
    let mut counts = [0u32; 256];
    text.iter().for_each(|b| counts[usize::from(*b)] += 1);
    let n = text.len() as f64;
    counts.iter().filter(|c| **c > 0).map(|c| f64::from(*c) / n).map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_rules_compile() {
        assert_eq!((RULES.all.len(), RULES.everywhere.len()), (217 + 49 + 8, 4));
        for rule in &RULES.all {
            rule.regex();
            for allowed in &rule.allowed {
                allowed.regexes.iter().for_each(|(pattern, _)| drop(compile(pattern)));
            }
        }
    }

    #[test]
    fn expressions_of_go_mean_the_same() {
        for (go, rust) in [
            (r"^\${(?:a|b)}$", r"^\$\{(?:a|b)}$"),
            (r"a{2,3}{x", r"a{2,3}\{x"),
            (r"[^]]+]", r"[^\]]+]"),
            (r"[\w[&]", r"[\w\[\&]"),
            (r"[[:alnum:]_]x", r"[[:alnum:]_]x"),
            (r"\[{", r"\[\{"),
        ] {
            assert_eq!(in_rust(go), rust);
            compile(go);
        }
    }

    #[test]
    fn entropy_is_in_bits() {
        assert_eq!([entropy(b"aaaa"), entropy(b"abab"), entropy(b"abcd")], [0.0, 1.0, 2.0]);
    }
}
