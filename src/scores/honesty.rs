//! Whether generated text is true to its source, by what can be checked without a model.
//!
//! Only text that a model wrote for an event is judged (the logged product's, where that is the variant): copies are true by construction, and the program's own
//! placeholders and fallbacks say what they say by rule. Sources are all steps logged before the event. What a model wrote
//! for one decision, when it was recalled, counts the same way, and in stratum `of=recalled` on its own.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use super::registry::{Better, Entry};
use super::{Rows, ratio};
use crate::context::log::Log;
use crate::context::{Block, Content};
use crate::replay::{Event, Recall, Run};
use crate::text::atoms::{self, AtomKind};
use crate::text::runs::{Runs, words};

pub const FABRICATION_RATE: Entry = Entry {
    name: "fabrication_rate",
    summary: "Share of the atoms in generated text that no step before the event holds; lower is better",
    formula: "distinct atoms of an event's generated text unknown to its sources / distinct atoms of it",
    better: Better::Lower,
    strata: &["of"],
    ..Entry::SHARE
};

pub const QUOTE_FIDELITY: Entry = Entry {
    name: "quote_fidelity",
    summary: "Share of the quotations in generated text that stand in the source word for word",
    formula: "quoted runs of 3 words and more found in the steps before the event / such quotations",
    strata: &["of"],
    ..Entry::SHARE
};

pub const DEGENERATE_RATE: Entry = Entry {
    name: "degenerate_rate",
    summary: "Share of events that asked a model and were given an unusable answer; lower is better",
    formula: "events with a degenerate answer / events that asked a model",
    better: Better::Lower,
    strata: &["of"],
    ..Entry::SHARE
};

pub const VIOLATION_RATE: Entry = Entry {
    name: "violation_rate",
    summary: "Share of events that violated an invariant of the context; lower is better",
    formula: "events with a violation / events",
    better: Better::Lower,
    ..Entry::SHARE
};

pub const ENTRIES: &[Entry] = &[FABRICATION_RATE, QUOTE_FIDELITY, DEGENERATE_RATE, VIOLATION_RATE];

/// Words from which on what stands between quotation marks is taken for a quotation.
const MIN_WORDS: usize = 3;

pub fn score(log: &Log, run: &Run, rows: &mut Rows) {
    let events = run.events.len() as f64;
    let violated = run.events.iter().filter(|event| !event.violations.is_empty()).count();
    let value = ratio(violated as f64, events);
    rows.push(&VIOLATION_RATE, "", value, events, run.events.len() as u64);
    super::items::fidelity(log, run, rows);

    let asked: Vec<&Event> = run.events.iter().filter(|event| event.work.calls > 0).collect();
    let logged: Vec<&Event> = run.events.iter().filter(|event| event.work.is_logged).collect();
    let recalls: Vec<&Recall> = run.recalls.iter().filter(|recall| recall.work.calls > 0).collect();
    // Without a model all texts are by rule.
    if asked.is_empty() && logged.is_empty() && recalls.is_empty() {
        return;
    }
    if !asked.is_empty() {
        let degenerate = asked.iter().filter(|event| !event.work.degenerate.is_empty()).count();
        let value = ratio(degenerate as f64, asked.len() as f64);
        rows.push(&DEGENERATE_RATE, "", value, asked.len() as f64, asked.len() as u64);
    }

    let source = OnceCell::new();
    let source = || source.get_or_init(|| Runs::new(log.trajectory.steps.iter().map(|s| &s.text)));
    let mut all = Tally::default();
    for event in asked.iter().chain(&logged).filter(|event| event.work.fallback.is_none()) {
        let until = log.turns[event.turn as usize].decision.unwrap_or(0);
        all.add(log, &event.after, until, &source);
    }
    // What is recalled may have been written by a model at an event.
    let mut recalled = Tally::default();
    for recall in run.recalls.iter().filter(|recall| recall.work.fallback.is_none()) {
        recalled.add(log, &recall.blocks, recall.until, &source);
    }
    if !run.recalls.is_empty() {
        recalled.push("of=recalled", rows);
        all.join(&recalled);
    }
    if !recalls.is_empty() {
        let degenerate = recalls.iter().filter(|recall| !recall.work.degenerate.is_empty()).count();
        let n = recalls.len();
        rows.push(&DEGENERATE_RATE, "of=recalled", ratio(degenerate as f64, n as f64), n as f64, n as u64);
    }
    all.push("", rows);
}

/// Atoms and quotations of generated text, and how many of them are not, and are, in its sources.
#[derive(Default)]
struct Tally {
    atoms: u64,
    fabricated: u64,
    quotes: u64,
    faithful: u64,
}

impl Tally {
    /// Adds the generated ones of these blocks, whose sources are the steps before `until`.
    fn add<'a>(&mut self, log: &Log, blocks: &[Block], until: u32, source: &dyn Fn() -> &'a Runs) {
        for block in blocks {
            let Content::Generated { text } = &block.content else { continue };
            let stands = |words: &[u64]| source().hold_before(words, until as usize);
            for (_, is_known) in known_atoms(log, text, until, &stands) {
                self.atoms += 1;
                self.fabricated += u64::from(!is_known);
            }
            for quote in quotes(text) {
                self.quotes += 1;
                self.faithful += u64::from(stands(&quote));
            }
        }
    }

    fn join(&mut self, other: &Tally) {
        self.atoms += other.atoms;
        self.fabricated += other.fabricated;
        self.quotes += other.quotes;
        self.faithful += other.faithful;
    }

    fn push(&self, stratum: &'static str, rows: &mut Rows) {
        let value = ratio(self.fabricated as f64, self.atoms as f64);
        rows.push(&FABRICATION_RATE, stratum, value, self.atoms as f64, self.atoms);
        let value = ratio(self.faithful as f64, self.quotes as f64);
        rows.push(&QUOTE_FIDELITY, stratum, value, self.quotes as f64, self.quotes);
    }
}

/// The atoms of a text, and whether a step before `until` holds them.
pub fn known_atoms(
    log: &Log,
    text: &str,
    until: u32,
    stands: &dyn Fn(&[u64]) -> bool,
) -> Vec<(String, bool)> {
    let known = |(atom, kind): (String, AtomKind)| {
        let is_known = mentioned_before(log, &atom, until) || stands_as(&atom, kind, stands);
        (atom, is_known)
    };
    atoms_of(text).into_iter().map(known).collect()
}

/// Whether the words of an atom stand there in another form: as a part of a longer name or without quotation marks, the value of
/// a key alone (`line=302`, where lines are numbered), and the names of a list that slashes part (`fmt/lint/test`).
fn stands_as(atom: &str, kind: AtomKind, stands: &dyn Fn(&[u64]) -> bool) -> bool {
    let value = atom.rsplit_once('=').map(|(_, value)| value).filter(|_| kind == AtomKind::Number);
    let mut names = atom.split('/').filter(|name| !name.is_empty());
    let is_list = kind == AtomKind::Path && !atom.starts_with('/') && !atom.contains('.');
    stands(&words(value.unwrap_or(atom))) || is_list && names.all(|name| stands(&words(name)))
}

/// The distinct atoms of a text, in their normal form.
fn atoms_of(text: &str) -> BTreeMap<String, AtomKind> {
    let mut all = BTreeMap::new();
    for (_, line) in atoms::lines(text) {
        all.extend(line.iter().map(|atom| (atom.norm.to_string(), atom.kind)));
    }
    all
}

/// Whether a step before this one mentions the atom.
fn mentioned_before(log: &Log, atom: &str, until: u32) -> bool {
    let Some(id) = log.find_atom(atom) else { return false };
    log.mentions_of_atom(id).any(|mention| log.spans[mention.span as usize].step < until)
}

/// The words of each quotation in a text: between quotation marks or backticks, within a line.
fn quotes(text: &str) -> Vec<Vec<u64>> {
    const MARKS: [(char, char); 3] = [('"', '"'), ('“', '”'), ('`', '`')];
    let mut found = Vec::new();
    for line in text.lines() {
        for (open, close) in MARKS {
            let mut rest = line;
            while let Some((_, after)) = rest.split_once(open) {
                let Some((quote, after)) = after.split_once(close) else { break };
                let quote = words(quote);
                if quote.len() >= MIN_WORDS {
                    found.push(quote);
                }
                rest = after;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_atom_is_known_in_another_form() {
        let log =
            Log::script("user: run fmt and the test\nagent: app/list/tree.go has 302 lines\naction: ls");
        let source = Runs::new(log.trajectory.steps.iter().map(|step| &step.text));
        let stands = |words: &[u64]| source.hold_before(words, 3);
        let made_up = |text: &str| -> Vec<String> {
            known_atoms(&log, text, 3, &stands).into_iter().filter(|of| !of.1).map(|of| of.0).collect()
        };
        assert_eq!(made_up("fmt/test/run at line 302 of list/tree.go, tree.go"), Vec::<String>::new());
        assert_eq!(
            made_up("fmt/lint/test at line 303 of list/app.go"),
            ["fmt/lint/test", "line=303", "list/app.go"]
        );
    }

    use crate::strategies::Flaw;

    #[test]
    fn quotations_have_three_words_and_end_in_their_line() {
        let text = "He said \"the limit is 500\" and “keep it short please”, not \"so\".\nRun `cargo test --lib`: \"it\nfailed again today\"";
        assert_eq!(
            quotes(text),
            [words("the limit is 500"), words("keep it short please"), words("cargo test lib")]
        );
    }

    /// Two events with generated text: of the atoms `src/a.py`, `src/b.py` and `src/c.py` the second is invented and
    /// the third comes later; of two quotations, which are atoms too, one is true.
    #[test]
    fn inventions_are_counted() {
        let log = Log::script(
            "user: mend src/a.py please
             agent: the test fails in line two
             agent: done
             agent: now src/c.py",
        );
        let event = |text: &str, turn: u32, calls: u32, degenerate: &[Flaw]| {
            let mut event = Event::test(turn, turn - 1..turn);
            event.after = vec![Block {
                turn: turn - 1,
                tokens: 9,
                content: Content::Generated { text: text.to_owned() },
                fresh: true,
                left: 0,
            }];
            event.work.calls = calls;
            event.work.degenerate = degenerate.to_vec();
            event
        };
        let run = Run {
            events: vec![
                event(
                    "Mended src/a.py and src/b.py, since \"the test fails in line two\".",
                    2,
                    1,
                    &[Flaw::Loop],
                ),
                event("Then src/c.py, \"done and all well\".", 3, 1, &[]),
                event("(1 turn of src/z.py is left out)", 3, 0, &[]),
            ],
            ..Run::default()
        };
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&log, &run, &mut rows);
        let of = |metric: &str| {
            let row = rows.rows.iter().find(|row| row.metric == metric).unwrap();
            (row.value, row.n)
        };
        assert_eq!(of("violation_rate"), (Some(0.0), 3));
        assert_eq!(of("degenerate_rate"), (Some(0.5), 2));
        assert_eq!(of("fabrication_rate"), (Some(3.0 / 5.0), 5));
        assert_eq!(of("quote_fidelity"), (Some(0.5), 2));
    }

    /// Of what a model expanded for two decisions, one of three atoms is invented; what fell back on the program's own
    /// text is not judged, and neither is a copy.
    #[test]
    fn what_is_recalled_is_judged_apart_too() {
        let log = Log::script(
            "user: mend src/a.py please
             agent: the test fails in line two
             agent: done
             agent: now src/c.py",
        );
        let recall = |text: &str, decision: u32, fallback: Option<&'static str>| {
            let content = Content::Generated { text: text.to_owned() };
            let work = crate::strategies::Work { calls: 1, fallback, ..Default::default() };
            Recall {
                decision,
                until: 3,
                blocks: vec![Block { turn: 3, tokens: 9, fresh: false, left: 0, content }],
                details: vec![None],
                work,
            }
        };
        let run = Run {
            recalls: vec![
                recall("Mended src/a.py and src/b.py.", 1, None),
                recall("It was src/a.py.", 2, None),
                recall("src/x.py src/y.py", 2, Some("the content")),
            ],
            ..Run::default()
        };
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&log, &run, &mut rows);
        let of = |metric: &str, stratum: &str| {
            let row = rows.rows.iter().find(|row| row.metric == metric && *row.stratum == *stratum);
            row.map(|row| (row.value, row.n))
        };
        assert_eq!(of("fabrication_rate", "of=recalled"), Some((Some(1.0 / 3.0), 3)));
        assert_eq!(of("fabrication_rate", ""), Some((Some(1.0 / 3.0), 3)));
        assert_eq!(of("degenerate_rate", "of=recalled"), Some((Some(0.0), 3)));
        assert_eq!(of("degenerate_rate", ""), None);
    }
}
