//! `truth`: the scores that rest on annotations, each raw and placed between its floor and its ceiling.
//!
//! Placed = (value - floor) / (ceiling - floor), as a ratio of sums over trajectories: 0 is what dropping everything (or
//! the variant's own words in random order, whichever is more) reaches, 1 is what compressing nothing reaches. Null
//! where floor and ceiling differ by less than 0.02. What has no floor (outcomes, honesty) stands raw.

use super::pages::{METHOD, Page, Part, counts, estimate_columns, header, n_eff_column, number, shown};
use crate::report::lines::{Line, Lines, Measure};
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::{self, Table};
use crate::scores;
use crate::scores::answers::{PROBE_ACCURACY, PROBE_CUT_SHARE};
use crate::scores::honesty::ENTRIES as HONESTY;
use crate::scores::items::ENTRIES as ITEMS;
use crate::scores::judge::JUDGE;
use crate::scores::likelihood::{LIKELIHOOD_CUT, LIKELIHOOD_EXCLUDED, LIKELIHOOD_RETENTION};
use crate::scores::outcomes::{CONSTRAINT_OUTCOME, CONSTRAINT_RETENTION};
use crate::scores::probes::PROBE_SUPPORT;
use crate::scores::registry::{Better, Entry, Field, Set};
use crate::scores::salience::{SALIENCE_PRECISION, SALIENCE_RECALL};
use crate::scores::similar::GOAL_COHERENCE;

pub(super) const ENTRY: tables::Entry =
    tables::Entry { name: "truth", measures, page: |input| page(input.lines) };

/// Below this difference of floor and ceiling there is nothing to be placed between.
const MIN_ROOM: f64 = 0.02;

/// Scores with a floor and a ceiling, with their headings: what scores say of themselves, in order.
fn placed() -> Vec<(&'static str, &'static Entry)> {
    let mut all: Vec<(u8, &str, &Entry)> = scores::all()
        .filter_map(|score| score.truth.map(|(place, heading)| (place, heading, score)))
        .collect();
    all.sort_by_key(|(place, ..)| *place);
    all.into_iter().map(|(_, heading, score)| (heading, score)).collect()
}

const MEDIAN: &str = "median of runs";

/// What became of constraints, from the best to the worst.
const OUTCOMES: [(&str, &str); 6] = [
    ("point=end outcome=preserved", "preserved"),
    ("point=end outcome=paraphrased", "paraphrased"),
    ("point=end outcome=weakened", "weakened"),
    ("point=end outcome=mutated", "mutated"),
    ("point=end outcome=contradicted", "contradicted"),
    ("point=end outcome=dropped", "dropped"),
];

/// Types of annotated spans.
const TYPES: [(&str, &str); 5] = [
    ("point=end type=goal", "goal"),
    ("point=end type=constraint", "constraint"),
    ("point=end type=decision", "decision"),
    ("point=end type=fact", "fact"),
    ("point=end type=tool_output", "tool_output"),
];

/// Kinds of annotated questions.
const KINDS: [(&str, &str); 5] = [
    ("kind=goal point=end", "goal"),
    ("kind=constraint point=end", "constraint"),
    ("kind=artifact point=end", "artifact"),
    ("kind=continuation point=end", "continuation"),
    ("kind=decision point=end", "decision"),
];

const POINTS: [(&str, &str); 3] = [("point=1", "1"), ("point=2", "2"), ("point=3", "3")];
/// Scores that are told of each of these points.
const BY_POINT: [&Entry; 5] =
    [&SALIENCE_RECALL, &SALIENCE_PRECISION, &CONSTRAINT_RETENTION, &PROBE_SUPPORT, &GOAL_COHERENCE];

/// Scores side by side that stand raw, with their headings.
fn grids() -> Vec<(&'static str, Vec<Measure>)> {
    let each = |score: &'static Entry, strata: &[(&'static str, &str)], name: &dyn Fn(&str) -> String| {
        let of = |&(stratum, what): &(&'static str, &str)| {
            Measure::new(name(what), score, Set::Stratum(stratum), Field::Value)
        };
        strata.iter().map(of).collect::<Vec<_>>()
    };
    let points = |score: &'static Entry| each(score, &POINTS, &|point| format!("{} {point}", score.name));
    let mut answers = each(&PROBE_ACCURACY, &KINDS, &|kind| format!("{kind} answers"));
    answers.push(Measure::of(&PROBE_CUT_SHARE));
    let relevance = Set::Stratum("point=end criterion=relevance");
    let atoms = |name, field| Measure::new(name, &LIKELIHOOD_RETENTION, Set::Stratum("of=atoms"), field);
    vec![
        ("What became of the constraints", each(&CONSTRAINT_OUTCOME, &OUTCOMES, &str::to_owned)),
        ("Spans kept, by type", each(&SALIENCE_RECALL, &TYPES, &|kind| format!("{kind} spans"))),
        ("Probes supported, by kind", each(&PROBE_SUPPORT, &KINDS, &|kind| format!("{kind} probes"))),
        ("Probes answered by a model, by kind; contexts cut to its window", answers),
        (
            "Goal coherence, side by side: by vectors (the goal in force, where it was stated in what is compressed); by a model's rating of relevance",
            vec![
                Measure::of(&GOAL_COHERENCE),
                Measure::new("judged relevance", &JUDGE, relevance, Field::Value),
            ],
        ),
        (
            "By compression point: the first, second and third",
            BY_POINT.into_iter().flat_map(points).collect(),
        ),
        (
            "Likelihood retention: pooled; the median of the runs (percentile interval); of the tokens of atoms alone, and these with the words shuffled; decisions left out, since the past tells nothing of them; events cut to the window",
            vec![
                Measure::of(&LIKELIHOOD_RETENTION),
                Measure::new(MEDIAN, &LIKELIHOOD_RETENTION, Set::Whole, Field::Value),
                atoms("of atoms", Field::Value),
                atoms("of atoms, shuffled", Field::Floor),
                Measure::of(&LIKELIHOOD_EXCLUDED),
                Measure::of(&LIKELIHOOD_CUT),
            ],
        ),
        (
            "Items that a strategy picked: one item to one annotated span; as the source has them; found there",
            ITEMS.iter().map(Measure::of).collect(),
        ),
        ("Honesty of generated text", HONESTY.iter().map(Measure::of).collect()),
    ]
}

fn measures() -> Vec<Measure> {
    let placed = placed().into_iter().flat_map(|(_, score)| Measure::placed(score));
    placed.chain(grids().into_iter().flat_map(|(_, measures)| measures)).collect()
}

/// A score of a variant.
struct Row {
    label: String,
    measure: String,
    value: Estimate,
    floor: Option<f64>,
    ceiling: Option<f64>,
    between: Estimate,
}

/// The page, or why there is none.
pub(crate) fn page(lines: &Lines) -> Result<Page, String> {
    let main: Vec<&Line> = lines.main().collect();
    let scored = |rows: &[Row]| rows.iter().any(|row| row.value.is_told());
    let sections: Vec<(&str, Vec<Row>)> = placed()
        .into_iter()
        .map(|(heading, score)| {
            (heading, main.iter().map(|line| placed_row(lines, line, score.name, score.better)).collect())
        })
        .filter(|(_, rows): &(&str, Vec<Row>)| scored(rows))
        .collect();
    let grids: Vec<(&str, Vec<Measure>, Vec<Row>)> = grids()
        .into_iter()
        .map(|(heading, measures)| {
            let raw =
                |line: &&Line| measures.iter().map(|m| raw_row(lines, line, &m.name)).collect::<Vec<_>>();
            let rows = main.iter().flat_map(raw).collect();
            (heading, measures, rows)
        })
        .filter(|(_, _, rows): &(_, _, Vec<Row>)| scored(rows))
        .collect();
    if sections.is_empty() {
        return Err("no trajectory of the run is annotated, or nothing annotated was compressed".to_owned());
    }
    let readers = lines.by_reader();
    let by_reader: Vec<Row> = main
        .iter()
        .flat_map(|line| readers.iter().map(|name| placed_row(lines, line, name, Better::Higher)))
        .collect();
    let mut parts: Vec<Part> = sections.iter().map(|(heading, rows)| placed_part(heading, rows)).collect();
    parts.extend(grids.iter().map(|(heading, measures, rows)| grid_part(heading, measures, rows)));
    parts.extend((!by_reader.is_empty()).then(|| reader_part(&by_reader)));
    let sections = sections.into_iter().flat_map(|s| s.1);
    let rows: Vec<Row> = sections.chain(grids.into_iter().flat_map(|g| g.2)).chain(by_reader).collect();
    Ok(Page {
        table: table(&rows),
        title: "Annotated truth",
        gist: "what became of the annotated facts, constraints and questions, between dropping all and keeping all",
        about: format!(
            "What people (or a generator) annotated as worth keeping, and what of it still stood in the context when each \
             run ended. Only what had been compressed counts: the rest cannot be lost. *value* is raw; *floor* is what \
             the same contexts hold when everything compressed is dropped, or when the variant's own words stand there \
             in random order (the larger); *ceiling* is what they hold when nothing is compressed; *placed* = (value - \
             floor) / (ceiling - floor), 0 to 1, undefined where they differ by less than {MIN_ROOM}. {METHOD}"
        ),
        parts,
        notes: "- `3 of 7 [0.16, 0.75]*` is below the minimum (30 items, n_eff 4): items counted, with Wilson's interval, items \
                taken as independent.\n\
                - Spans and answers count when their words stand there one after the other, whatever their case and \
             punctuation; what was said in other words counts as lost. Constraints are judged by rules that know other \
             words, too. How often the rules are mistaken shows in `echo`, where it was run: it repeats everything, so \
             what it seems to lose there is their error.\n\
             - *n*: items / trajectories / clusters / n_eff. Items are spans, constraints, questions, values; words for precision."
            .to_owned(),
    })
}

fn placed_row(lines: &Lines, line: &Line, score: &str, better: Better) -> Row {
    let pooled = |part: &str| lines.series(line, &format!("{score} {part}"), None).pooled.value;
    // Where lower is better, the floor is the greater number.
    let upwards = if better == Better::Lower { -1.0 } else { 1.0 };
    let between = match pooled("room") {
        Some(room) if room * upwards >= MIN_ROOM => {
            lines.series(line, &format!("{score} between"), None).estimate()
        }
        // Who does worse with everything than with nothing, by chance, has no scale.
        Some(room) => Estimate::null(format!("the ceiling is {room:.3} above the floor")),
        None => Estimate::null("no data"),
    };
    let told = |part: &str| lines.series(line, &format!("{score} {part}"), None).estimate().value;
    Row { floor: told("floor"), ceiling: told("ceiling"), between, ..raw_row(lines, line, score) }
}

fn raw_row(lines: &Lines, line: &Line, measure: &str) -> Row {
    let value = match measure {
        MEDIAN => lines.median(line, LIKELIHOOD_RETENTION.name),
        _ => lines.series(line, measure, None).estimate(),
    };
    Row {
        label: line.label.clone(),
        measure: measure.to_owned(),
        value,
        floor: None,
        ceiling: None,
        between: Estimate::null("no floor and ceiling"),
    }
}

fn placed_part(heading: &str, rows: &[Row]) -> Part {
    let cells = |row: &Row| {
        let counts = format!("{}/{}", row.value.n_items, counts(&row.value));
        vec![
            row.label.clone(),
            shown(&row.value, true),
            number(row.floor, 3),
            number(row.ceiling, 3),
            shown(&row.between, true),
            counts,
        ]
    };
    Part {
        heading: Some(heading.to_owned()),
        header: header(["variant", "value", "floor", "ceiling", "placed", "n"]),
        rows: rows.iter().filter(|row| row.value.is_told()).map(cells).collect(),
    }
}

fn grid_part(heading: &str, measures: &[Measure], rows: &[Row]) -> Part {
    let cells = |rows: &[Row]| {
        let values = rows.iter().map(|row| shown(&row.value, true));
        std::iter::once(rows[0].label.clone()).chain(values).collect()
    };
    Part {
        heading: Some(heading.to_owned()),
        header: std::iter::once("variant")
            .chain(measures.iter().map(|m| m.name.as_str()))
            .map(str::to_owned)
            .collect(),
        rows: rows
            .chunks(measures.len())
            .filter(|rows| rows.iter().any(|row| row.value.is_told()))
            .map(cells)
            .collect(),
    }
}

/// Where a score was given by several readers: each of them.
fn reader_part(rows: &[Row]) -> Part {
    let cells = |row: &Row| {
        let counts = format!("{}/{}", row.value.n_items, counts(&row.value));
        vec![
            row.label.clone(),
            row.measure.clone(),
            shown(&row.value, true),
            number(row.floor, 3),
            number(row.ceiling, 3),
            shown(&row.between, true),
            counts,
        ]
    };
    Part {
        heading: Some(
            "Scores by several readers: each of them (above stands the first that is asked)".to_owned(),
        ),
        header: header(["variant", "score", "value", "floor", "ceiling", "placed", "n"]),
        rows: rows.iter().filter(|row| row.value.is_told()).map(cells).collect(),
    }
}

fn table(rows: &[Row]) -> Table {
    let mut t = Table::new(ENTRY.name);
    t.text("label", "the variant", rows.iter().map(|r| Some(r.label.clone())));
    t.text(
        "measure",
        "the score; with a number, after that compression; an outcome of constraints by its name; ` by NAME`: one of several readers",
        rows.iter().map(|r| Some(r.measure.clone())),
    );
    estimate_columns(&mut t, "value", "pooled over trajectories, raw, 0 to 1", rows.iter().map(|r| &r.value));
    t.fraction("floor", "the larger of drop-all and the shuffled text", rows.iter().map(|r| r.floor));
    t.fraction("ceiling", "nothing compressed; 1 for precision and F1", rows.iter().map(|r| r.ceiling));
    let placed = "(value - floor) / (ceiling - floor); null where they differ by less than 0.02";
    estimate_columns(&mut t, "placed", placed, rows.iter().map(|r| &r.between));
    t.count("n_items", "annotated items behind the value", rows.iter().map(|r| Some(r.value.n_items)));
    t.count(
        "n_trajectories",
        "trajectories behind the value",
        rows.iter().map(|r| Some(r.value.n_trajectories as u64)),
    );
    t.count("n_clusters", "clusters behind the value", rows.iter().map(|r| Some(r.value.n_clusters as u64)));
    n_eff_column(&mut t, rows.iter().map(|r| &r.value));
    let reason = |r: &Row| r.value.reason.clone().or_else(|| r.floor.and(r.between.reason.clone()));
    t.text("nulls", "why a value is null", rows.iter().map(reason));
    t
}
