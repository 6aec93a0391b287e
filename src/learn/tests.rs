//! The raters give what the study gives of the same logs: reports/hindsight/expected.json.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::atoms::{Event, History, names};
use super::statements::Statements;
use super::*;
use crate::context::log::Log;
use crate::{Dataset, IngestOptions, annotate, ingest};

/// By how much odds may differ; numbers are written with five places.
const NEAR: f64 = 0.001;

#[derive(Deserialize)]
struct Expected {
    atoms: Vec<ExpectedAtom>,
    statements: Vec<ExpectedStatement>,
}

#[derive(Deserialize)]
struct ExpectedStatement {
    trajectory: String,
    before_step: u32,
    step: u32,
    start: u32,
    text: String,
    numbers: Vec<f32>,
    pieces: Vec<u16>,
    odds: f64,
    goal: f64,
    source: String,
    #[serde(rename = "type")]
    kind: String,
}

#[derive(Deserialize)]
struct ExpectedAtom {
    trajectory: String,
    turn: u32,
    atom: String,
    numbers: Vec<f32>,
    odds: f64,
}

fn expected() -> Expected {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports/hindsight/expected.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// How the study tells the atoms of a log apart.
#[derive(Clone, Copy, PartialEq)]
enum Atoms {
    /// Paths are what they go by in the whole log.
    Merged,
    /// Each as it is spelled.
    Spelled,
}

/// The logs of datasets/coding, each with the texts that are atoms of several kinds there.
fn logs(atoms: Atoms) -> Vec<(Log, BTreeSet<String>)> {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let coding = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/coding");
    let options = IngestOptions { inputs: vec![coding], out: data.clone(), ..IngestOptions::default() };
    ingest(&options, &mut |_| {}).unwrap();
    annotate(&data, "o200k", 1).unwrap();
    let data = Dataset::open(&data).unwrap();
    let log = |at: usize| {
        let mut log = data.log(at, false).unwrap();
        let numbers: BTreeMap<String, u32> =
            (0..log.atoms.len() as u32).map(|id| (log.atom(id).text.to_owned(), id)).collect();
        let rows = data.features(at).unwrap().map(Result::unwrap);
        let spelled: Vec<(String, u8)> =
            rows.flat_map(|row| row.atom.into_iter().zip(row.atom_kind)).collect();
        for (mention, (text, _)) in log.mentions.iter_mut().zip(&spelled) {
            mention.so_far = if atoms == Atoms::Merged { mention.atom } else { numbers[text] };
        }
        let kinds: BTreeSet<(String, u8)> = spelled.into_iter().collect();
        let texts: Vec<String> = kinds.into_iter().map(|(text, _)| text).collect();
        let mixed = texts.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0].clone()).collect();
        (log, mixed)
    };
    (0..data.entries().len()).map(log).collect()
}

/// Events of the study: every 10 turns, the newest 5 left alone. (Turn, first and end of the turns in scope.)
fn events(log: &Log) -> Vec<(u32, u32, u32)> {
    let (mut events, mut counted) = (Vec::new(), 1);
    for turn in 1..log.turns.len() as u32 {
        if log.turns[turn as usize].decision.is_some() && turn - counted >= 15 {
            events.push((turn, counted, turn - 5));
            counted = turn - 5;
        }
    }
    events
}

#[test]
fn atoms_have_the_odds_of_the_study() {
    let weights = Weights::named("").unwrap();
    let mut rated = BTreeMap::new();
    for (log, _) in logs(Atoms::Merged) {
        let mut history = History::default();
        for (turn, first, end) in events(&log) {
            history.read(&log, turn);
            let decision = log.turns[turn as usize].decision.unwrap();
            let steps = |turns: std::ops::Range<u32>| {
                let steps = turns.flat_map(|turn| log.turns[turn as usize].steps.clone());
                steps.filter(|step| *step < decision && !log.is_pinned(*step)).collect::<Vec<u32>>()
            };
            let spans: Vec<u32> = steps(first..end).into_iter().flat_map(|step| log.spans_of(step)).collect();
            let tail = steps(end..turn + 1);
            for found in history.rate(&Event { log: &log, turn, spans: &spans, tail: &tail }) {
                rated
                    .insert((log.id().to_owned(), turn, log.atom(found.atom).text.to_owned()), found.numbers);
            }
        }
    }
    let expected = expected().atoms;
    assert_eq!(expected.len(), 100);
    for one in expected {
        let key = (one.trajectory, one.turn, one.atom);
        let numbers = rated.get(&key).unwrap_or_else(|| panic!("{key:?} is not rated"));
        for ((name, have), want) in names().iter().zip(numbers).zip(&one.numbers) {
            assert!((have - want).abs() < 2e-5 * want.abs().max(1.0), "{key:?} {name}: {have}, not {want}");
        }
        let odds = weights.atoms.odds(numbers);
        assert!((odds - one.odds).abs() < NEAR, "{key:?}: {odds}, not {}", one.odds);
    }
}

#[test]
fn statements_have_the_odds_of_the_study() {
    let weights = Weights::named("").unwrap();
    let expected = expected().statements;
    assert_eq!(expected.len(), 200);
    let (mut n, mut n_mixed) = (0, 0);
    for (log, mixed) in logs(Atoms::Spelled) {
        let of_log: Vec<&ExpectedStatement> =
            expected.iter().filter(|one| one.trajectory == log.id()).collect();
        let Some(until) = of_log.first().map(|one| one.before_step) else { continue };
        let steps: Vec<u32> = (0..until).collect();
        let rated = Statements::default().rate(&log, &steps, until);
        for want in of_log {
            n += 1;
            // A log knows an atom by the first of its kinds, the study by the one at hand.
            let is_mixed = mixed.iter().any(|text| want.text.contains(text));
            n_mixed += usize::from(is_mixed);
            let place = (want.step, want.start);
            let have = rated.iter().find(|have| (have.step, have.bytes.start) == place);
            let have = have.unwrap_or_else(|| panic!("{place:?} {} is not rated", want.text));
            assert_eq!(have.pieces, want.pieces, "{}", want.text);
            let numbers = statements::names().into_iter().zip(have.numbers).zip(&want.numbers);
            for ((name, have), number) in
                numbers.filter(|((name, _), _)| !is_mixed || !name.starts_with("atoms_"))
            {
                let is_near = (have - number).abs() < 2e-5 * number.abs().max(1.0);
                assert!(is_near, "{} {} {name}: {have}, not {number}", log.id(), want.text);
            }
            let odds = weights.statements.odds(have);
            assert!(is_mixed || (odds - want.odds).abs() < NEAR, "{}: {odds}, not {}", want.text, want.odds);
            let goal = weights.goals.odds(have);
            assert!(is_mixed || (goal - want.goal).abs() < NEAR, "{}: {goal}, not {}", want.text, want.goal);
            assert_eq!(format!("{:?}", have.source).to_lowercase(), want.source, "{}", want.text);
            let kind = TYPES[weights.types.likeliest(&have.numbers)];
            assert!(is_mixed || kind == want.kind, "{}: {kind}, not {}", want.text, want.kind);
        }
    }
    assert!(n == 200 && n_mixed < 20, "{n} with {n_mixed} mixed");
}

#[test]
fn odds_are_those_of_standardised_and_clipped_numbers() {
    let linear = Linear {
        names: Vec::new(),
        mean: vec![1.0, 0.0],
        scale: vec![2.0, 0.5],
        clip: 4.0,
        weights: vec![0.5, -1.0],
        intercept: 0.25,
    };
    // (4 - 1) / 2 x 0.5 = 0.75; 9 / 0.5 is clipped to 4.
    assert_eq!(linear.odds(&[4.0, 9.0]), 0.25 + 0.75 - 4.0);
    assert_eq!(linear.odds(&[1.0, 0.0]), 0.25);
    assert_eq!(probability(0.0), 0.5);
}

#[test]
fn weights_of_other_numbers_are_refused() {
    let text = include_str!("../data/weights.json");
    assert!(Weights::parse(text).is_ok());
    let refused = |from: &str, to: &str| {
        assert!(text.contains(from));
        format!("{:#}", Weights::parse(&text.replacen(from, to, 1)).unwrap_err())
    };
    assert!(refused("\"kind_0\"", "\"sort_0\"").contains("other numbers"));
    assert!(refused("\"mean\": [", "\"mean\": [0.0, ").contains("71 numbers"));
    assert!(refused("\"scale\": [", "\"scale\": [-").contains("above 0"));
    assert!(Weights::named("no/such/file").unwrap_err().to_string().contains("PATH#HASH"));
}

#[test]
fn bytes_are_written_as_they_are_read() {
    for n in 0..9 {
        let bytes: Vec<i8> = (0..n).map(|i| (i * 37 - 120) as i8).collect();
        let text = String::from(Bytes(bytes.clone()));
        assert!(text.len() % 4 == 0 && Bytes::try_from(text).unwrap().0 == bytes);
    }
    assert_eq!(String::from(Bytes(vec![77, 97])), "TWE=");
    assert!(Bytes::try_from("a b".to_owned()).is_err());
}
