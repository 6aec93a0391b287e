//! Ways to find the statements that matter; each gives passages of the source, never words of its own.
//!
//! The methods that judge (`rate`, `keep`, `prototype`) see statement by statement and give each a score; what is kept
//! is decided by how a score stands to the others of the event and to a few fixed statements, never by its value, and
//! by the learned odds beside it: small models prefer some answers whatever they are asked. The methods that quote (`quote`, `quote-json`)
//! let the model write, and what it wrote is looked up in the source. All of them see only the statements that the learned odds do not
//! take for noise, at most `max_rated` of them, so that the work of an event is bounded. (Measured with small models:
//! few-shot plain completion and expected values over digits work where instructions fail; see the seed's "agent as
//! judge" for the idea.)

use super::candidates::{Candidate, ItemKind, Rating, Source};
use super::quotes::Texts;
use crate::models::prompt::{Data, Prompt, TemplateError, Var};
use crate::models::{Answer, Call, CallError, Outcome, grammar, labels};
use crate::strategies::{Env, Flaw, writer};

/// How statements are picked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Method {
    /// What was measured to be best for the model: `keep`, or `quote` for one that gives no likelihoods; `learned` without one.
    Auto,
    /// By odds that were learned from labelled logs.
    Learned,
    Rate,
    Keep,
    Prototype,
    Quote,
    QuoteJson,
}

impl Method {
    /// The method that `auto` stands for.
    pub(crate) fn resolved(self, env: &Env<'_>) -> Method {
        match (self, env.model) {
            (Method::Auto, None) => Method::Learned,
            (Method::Auto, Some(_)) => Method::Keep,
            (method, _) => method,
        }
    }

    /// Whether it cannot do without a model that writes or rates.
    pub(crate) fn needs_model(self) -> bool {
        matches!(self, Method::Rate | Method::Keep | Method::Quote | Method::QuoteJson)
    }

    /// Whether the model writes quotations, instead of judging statements.
    pub(crate) fn quotes(self) -> bool {
        matches!(self, Method::Quote | Method::QuoteJson)
    }
}

/// A passage that was picked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Picked {
    pub(crate) step: u32,
    pub(crate) bytes: std::ops::Range<u32>,
    pub(crate) kind: ItemKind,
    /// How it was judged: comparable within an event.
    pub(crate) score: f64,
    pub(crate) is_repaired: bool,
}

/// What an event's model gave.
#[derive(Debug, Default)]
pub(crate) struct Quoted {
    pub(crate) picked: Vec<Picked>,
    /// Quotations that stand nowhere.
    pub(crate) not_found: Vec<(String, ItemKind)>,
}

/// Under this probability a statement is noise, and no model is asked about it.
const NOISE: f64 = 0.01;

/// The statements that a model is asked about: the likeliest by the learned odds, in their order.
pub(crate) fn shortlist(ratings: &[Rating], max_rated: usize) -> Vec<usize> {
    let mut likely: Vec<usize> = (0..ratings.len()).filter(|&at| ratings[at].score >= NOISE).collect();
    likely.sort_by(|&a, &b| ratings[b].score.total_cmp(&ratings[a].score).then(a.cmp(&b)));
    likely.truncate(max_rated);
    likely.sort_unstable();
    likely
}

const RATE: &str = include_str!("rate.txt");
const KEEP: &str = include_str!("keep.txt");
const QUOTE: &str = include_str!("quote.txt");
const QUOTE_JSON: &str = include_str!("quote_json.txt");

/// Statements that are judged with each event's own, so that a short event has something to be compared with.
const ANCHORS: [(Source, &str); 8] = [
    (Source::User, "The total must stay below 3,000 euros."),
    (Source::Tool, "The nightly dump lies in /srv/dumps/orders.sql.gz."),
    (Source::Agent, "We cache at the proxy, since the database cannot take the load."),
    (Source::User, "The customer number is KD-48213."),
    (Source::User, "It is raining again and the tram was late."),
    (Source::Tool, "connection accepted, queue empty"),
    (Source::Agent, "I will look at the next file now."),
    (Source::Tool, "The chapter repeats earlier results without comment."),
];

fn name(source: Source) -> &'static str {
    match source {
        Source::User => "user",
        Source::Agent => "agent",
        Source::Tool => "tool",
    }
}

/// Statements in a prompt are at most so long: what matters in them is said by then.
const MAX_JUDGED: usize = 300;

pub(super) fn one_line(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_JUDGED) {
        Some((limit, _)) => line[..limit].to_owned(),
        None => line,
    }
}

/// What a model is told of the task: the goal in force, and the constraints that hold ([`super::pick::limits`]).
pub(crate) struct Task<'a> {
    pub(crate) goal: &'a str,
    pub(crate) limits: &'a str,
}

fn judging(
    template: &str,
    task: &Task<'_>,
    source: Source,
    statement: &str,
) -> Result<Prompt, TemplateError> {
    let (goal, statement) = (one_line(task.goal), one_line(statement));
    let vars = [
        ("goal", Data::bare(&goal).into()),
        ("limits", Data::bare(task.limits).into()),
        ("source", Var::ours(name(source))),
        ("statement", Data::bare(&statement).into()),
    ];
    Prompt::render(template, &vars)
}

/// What a model's judgement came to.
#[derive(Debug, PartialEq)]
pub(crate) enum Judged {
    /// A score for each candidate, standardised over the event and the anchors.
    Scores(Vec<f64>),
    /// The model failed.
    Failed,
    /// The server has no likelihoods, as those that only chat.
    Cannot,
}

/// Whether a server says of all calls that it cannot answer such.
pub(crate) fn cannot(outcomes: &[Outcome]) -> bool {
    !outcomes.is_empty() && outcomes.iter().all(|outcome| matches!(outcome, Err(CallError::Unsupported(_))))
}

/// Lets the model judge each candidate.
pub(crate) fn judge(
    method: Method,
    task: &Task<'_>,
    candidates: &[&Candidate<'_>],
    env: &mut Env<'_>,
) -> anyhow::Result<Judged> {
    let rates = method == Method::Rate;
    let template = if rates { RATE } else { KEEP };
    let continuations: Vec<String> = if rates {
        labels::DIGITS.iter().map(|digit| format!(" {digit}")).collect()
    } else {
        vec![" yes".to_owned(), " no".to_owned()]
    };
    let statements = candidates.iter().map(|c| (c.source, c.text)).chain(ANCHORS);
    let calls = statements
        .map(|(source, text)| {
            let prompt = judging(template, task, source, text)?;
            Ok(Call::Score { prompt, continuations: continuations.clone() })
        })
        .collect::<Result<Vec<Call>, TemplateError>>()?;
    let outcomes = env.ask(&calls)?;
    let scores: Option<Vec<f64>> =
        outcomes.iter().map(if rates { expected_digit } else { log_odds }).collect();
    let Some(mut scores) = scores else {
        return Ok(if cannot(&outcomes) { Judged::Cannot } else { Judged::Failed });
    };
    standardise(&mut scores);
    scores.truncate(candidates.len());
    Ok(Judged::Scores(scores))
}

/// The log-likelihoods of the continuations.
fn sums(outcome: &Outcome) -> Option<Vec<f64>> {
    let Ok(Answer::Scores(scores)) = outcome else { return None };
    Some(scores.continuations.iter().map(|tokens| tokens.iter().map(|token| token.logprob).sum()).collect())
}

/// The digit that is expected.
fn expected_digit(outcome: &Outcome) -> Option<f64> {
    let shares = labels::normalise(&sums(outcome)?);
    Some(shares.iter().enumerate().map(|(digit, p)| digit as f64 * p).sum())
}

/// How much likelier the first of two continuations is than the second, in nats.
pub(super) fn log_odds(outcome: &Outcome) -> Option<f64> {
    match sums(outcome)?[..] {
        [yes, no] => Some(yes - no),
        _ => None,
    }
}

/// Mean 0 and deviation 1; all 0 where they are equal.
fn standardise(scores: &mut [f64]) {
    let n = scores.len().max(1) as f64;
    let mean = scores.iter().sum::<f64>() / n;
    let deviation = libm::sqrt(scores.iter().map(|s| (s - mean) * (s - mean)).sum::<f64>() / n);
    for score in scores {
        *score = if deviation > 1e-12 { (*score - mean) / deviation } else { 0.0 };
    }
}

const PROTOTYPES: &str = include_str!("prototypes.txt");

/// How many of the nearest examples of each list count.
const NEAREST: usize = 3;

/// A score for each candidate by its nearness to examples, standardised; none without a model of embeddings.
pub(crate) fn by_prototypes(
    goal: &str,
    candidates: &[&Candidate<'_>],
    env: &mut Env<'_>,
) -> anyhow::Result<Option<Vec<f64>>> {
    let said = |source: &str, text: &str| format!("{source}: {}", one_line(text));
    let examples: Vec<(bool, String)> = PROTOTYPES
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (side, rest) = line.split_once(' ')?;
            let (source, text) = rest.split_once(' ')?;
            Some((side == "keep", said(source, text)))
        })
        .collect();
    let mut texts: Vec<String> = candidates.iter().map(|c| said(name(c.source), c.text)).collect();
    texts.extend(ANCHORS.iter().map(|(source, text)| said(name(*source), text)));
    let n = texts.len();
    texts.extend(examples.iter().map(|(_, text)| text.clone()));
    texts.push(one_line(goal));
    let Some(vectors) = env.embed(&texts)? else { return Ok(None) };
    let (goal, vectors) = vectors.split_last().expect("the goal is one of the texts");
    let (statements, prototypes) = vectors.split_at(n);
    let cosine = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(x, y)| f64::from(x * y)).sum::<f64>();
    let near = |vector: &[f32], keep: bool| {
        let of_side = examples.iter().zip(prototypes).filter(|((side, _), _)| *side == keep);
        let mut nearest: Vec<f64> = of_side.map(|(_, example)| cosine(vector, example)).collect();
        nearest.sort_by(|a, b| b.total_cmp(a));
        nearest.truncate(NEAREST);
        nearest.iter().sum::<f64>() / NEAREST as f64
    };
    let mut scores: Vec<f64> =
        statements.iter().map(|v| near(v, true) - near(v, false) + 0.2 * cosine(v, goal)).collect();
    standardise(&mut scores);
    scores.truncate(candidates.len());
    Ok(Some(scores))
}

/// Bytes of statements in one prompt for quotations.
const CHUNK: usize = 6000;

/// Quotations that the model wrote, as JSON or as a list, in so many tokens a prompt at most, located; none if it gave nothing that
/// could be read.
pub(crate) fn quote(
    (json, max_tokens): (bool, u32),
    task: &Task<'_>,
    shortlist: &[&Candidate<'_>],
    texts: &mut Texts<'_>,
    env: &mut Env<'_>,
) -> anyhow::Result<Option<Quoted>> {
    const MOST: usize = 12;
    let grammar = if json { Some(schema(MOST).map_err(|error| anyhow::anyhow!(error))?) } else { None };
    let mut chunks: Vec<String> = Vec::new();
    for candidate in shortlist {
        let line = format!("{}: {}\n", name(candidate.source), one_line(candidate.text));
        match chunks.last_mut().filter(|chunk| chunk.len() + line.len() <= CHUNK) {
            Some(chunk) => chunk.push_str(&line),
            None => chunks.push(line),
        }
    }
    let goal = one_line(task.goal);
    let mut calls = chunks
        .iter()
        .map(|chunk| {
            let vars = [
                ("log", Data::fenced(chunk.trim_end()).may_cut().into()),
                ("goal", Data::fenced(&goal).into()),
                ("limits", Data::fenced(task.limits).into()),
                ("most", Var::ours(MOST)),
            ];
            let prompt = Prompt::render(if json { QUOTE_JSON } else { QUOTE }, &vars)?;
            let stop = Vec::new();
            Ok(Call::Generate { prompt, max_tokens, grammar: grammar.clone(), stop, sampling: None })
        })
        .collect::<Result<Vec<Call>, TemplateError>>()?;
    let mut answers = Vec::new();
    let mut again = Vec::new();
    let mut outcomes = env.ask(&calls)?;
    if json && cannot(&outcomes) {
        // The form is asked for in words, too.
        calls.iter_mut().for_each(without_grammar);
        outcomes = env.ask(&calls)?;
    }
    for (call, outcome) in calls.into_iter().zip(outcomes) {
        match usable(outcome, json) {
            Ok(quotes) => answers.push(quotes),
            Err(flag) => {
                env.work.degenerate.push(flag);
                if flag != Flaw::NoAnswer {
                    again.push(call);
                }
            }
        }
    }
    for mut call in again {
        writer::reseed(&mut call, env);
        for outcome in env.ask(&[call])? {
            match usable(outcome, json) {
                Ok(quotes) => answers.push(quotes),
                Err(flag) => env.work.degenerate.push(flag),
            }
        }
    }
    let is_read = chunks.is_empty() || !answers.is_empty();
    let mut quoted = Quoted::default();
    for (quote, kind) in answers.into_iter().flatten() {
        match texts.locate(&quote) {
            Some(place) => {
                let kind = kind.unwrap_or(ItemKind::Fact);
                let is_repaired = place.is_repaired;
                quoted.picked.push(Picked {
                    step: place.step,
                    bytes: place.bytes,
                    kind,
                    score: 0.0,
                    is_repaired,
                });
            }
            None => quoted.not_found.push((quote, kind.unwrap_or(ItemKind::Fact))),
        }
    }
    Ok(is_read.then_some(quoted))
}

fn without_grammar(call: &mut Call) {
    if let Call::Generate { grammar, .. } = call {
        *grammar = None;
    }
}

/// What an answer quotes, or why it is degenerate: one that says that nothing matters is not.
fn usable(outcome: Outcome, json: bool) -> Result<Vec<(String, Option<ItemKind>)>, Flaw> {
    let Ok(Answer::Text(text)) = outcome else { return Err(Flaw::NoAnswer) };
    if writer::loops(&text) {
        return Err(Flaw::Loop);
    }
    let quotes = if json { read_json(&text.text) } else { read_list(&text.text) };
    match quotes.is_empty() && !(json && text.text.trim() == "[]") {
        true => Err(Flaw::Empty),
        false => Ok(quotes),
    }
}

fn schema(most: usize) -> Result<String, String> {
    grammar::json(&serde_json::json!({
        "type": "array",
        "maxItems": most,
        "items": {
            "type": "object",
            "properties": {
                "type": {"enum": ItemKind::ALL.map(ItemKind::name)},
                "quote": {"type": "string", "maxLength": MAX_JUDGED},
            },
            "required": ["type", "quote"],
        },
    }))
}

/// The entries of a list: one a line, without dashes, numbers, speakers and quotation marks before them.
fn read_list(answer: &str) -> Vec<(String, Option<ItemKind>)> {
    let entry = |line: &str| {
        let line = line.trim().trim_start_matches(['-', '*', '•', ' ']);
        let number = line.bytes().take_while(u8::is_ascii_digit).count();
        let line = match line[number..].strip_prefix(['.', ')']) {
            Some(rest) if number > 0 => rest.trim_start(),
            _ => line,
        };
        let line =
            ["user: ", "agent: ", "tool: "].iter().find_map(|who| line.strip_prefix(who)).unwrap_or(line);
        line.trim().to_owned()
    };
    let mut found: Vec<(String, Option<ItemKind>)> = Vec::new();
    for line in answer.lines().map(entry).filter(|line| !line.is_empty()) {
        if found.iter().all(|(text, _)| *text != line) {
            found.push((line, None));
        }
    }
    found
}

/// The objects of a JSON list, also of one that breaks off.
fn read_json(answer: &str) -> Vec<(String, Option<ItemKind>)> {
    #[derive(serde::Deserialize)]
    struct Entry {
        #[serde(default, rename = "type")]
        kind: String,
        quote: String,
    }
    let mut found: Vec<(String, Option<ItemKind>)> = Vec::new();
    let mut rest = answer;
    while let Some(open) = rest.find('{') {
        let mut entries = serde_json::Deserializer::from_str(&rest[open..]).into_iter::<Entry>();
        match entries.next() {
            Some(Ok(entry)) => {
                let kind = ItemKind::ALL.into_iter().find(|kind| kind.name() == entry.kind);
                let quote =
                    ["user: ", "agent: ", "tool: "].iter().find_map(|who| entry.quote.strip_prefix(who));
                let quote = quote.unwrap_or(&entry.quote).trim().to_owned();
                if !quote.is_empty() && found.iter().all(|(text, _)| *text != quote) {
                    found.push((quote, kind));
                }
                rest = &rest[open + entries.byte_offset()..];
            }
            _ => rest = &rest[open + 1..],
        }
    }
    found
}

#[cfg(test)]
mod tests;
