//! `truth`: the scores that rest on annotations, each raw and placed between its floor and its ceiling.
//!
//! Placed = (value - floor) / (ceiling - floor), as a ratio of sums over trajectories: 0 is what dropping everything (or
//! the variant's own words in random order, whichever is more) reaches, 1 is what compressing nothing reaches. Null
//! where floor and ceiling differ by less than 0.02. What has no floor (outcomes, honesty) stands raw.

use super::pages::{METHOD, Page, Part, counts, estimate_columns, n_eff_column, number, shown};
use crate::report::lines::{Line, Lines, placed};
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::Table;

/// Below this difference of floor and ceiling there is nothing to be placed between.
const MIN_ROOM: f64 = 0.02;

/// Scores with a floor and a ceiling, with their headings.
const PLACED: [(&str, &str); 16] = [
    ("Salience recall: annotated spans that still stand in the context verbatim", placed::SALIENCE_RECALL),
    ("Salience precision: words kept that belong to such spans", placed::SALIENCE_PRECISION),
    ("Salience F1", placed::SALIENCE_F1),
    ("Constraints held: preserved or paraphrased", placed::CONSTRAINT_RETENTION),
    ("Probes supported: questions that can still be answered from the context", placed::PROBE_SUPPORT),
    ("Probes answered by a model that reads the context", placed::PROBE_ACCURACY),
    ("How likely that model finds the right answers, among the choices", placed::PROBE_PROBABILITY),
    ("Spans in the context, in the same or other words (cosine of at least 0.85)", placed::SALIENCE_SIMILAR),
    (
        "Sentences kept that say what such spans say, one to one; floor: the scope's own sentences",
        placed::SALIENCE_PRECISION_SIMILAR,
    ),
    ("F1 of spans and kept sentences, paired one to one by meaning", placed::SALIENCE_F1_SIMILAR),
    ("Goal coherence: the goal in force, where it was stated in what is compressed", placed::GOAL_COHERENCE),
    (
        "Likelihood retention: what a model that reads the context is still told of the agent's next calls (no annotation)",
        placed::LIKELIHOOD_RETENTION,
    ),
    (
        "A model's judgement, mean of six ratings; the page `agreement` says how far to trust it",
        placed::JUDGE,
    ),
    ("Stale values: superseded, and still presented as current; lower is better", placed::STALE_VALUE_SHARE),
    ("Boundary F1: cuts at the annotated ends of subtasks; floor: random placements", placed::BOUNDARY_F1),
    ("Cuts in mid-subtask; lower is better; floor: random placements", placed::MID_SUBTASK_SHARE),
];

/// What became of constraints, from the best to the worst.
const OUTCOMES: [&str; 6] = ["preserved", "paraphrased", "weakened", "mutated", "contradicted", "dropped"];

/// The same scores after the first, second and third compression.
const BY_POINT: [&str; 15] = [
    "salience_recall 1",
    "salience_recall 2",
    "salience_recall 3",
    "salience_precision 1",
    "salience_precision 2",
    "salience_precision 3",
    "constraint_retention 1",
    "constraint_retention 2",
    "constraint_retention 3",
    "probe_support 1",
    "probe_support 2",
    "probe_support 3",
    "goal_coherence 1",
    "goal_coherence 2",
    "goal_coherence 3",
];

/// Annotated spans that still stand in the context verbatim, by their type.
const BY_TYPE: [&str; 5] =
    ["goal spans", "constraint spans", "decision spans", "fact spans", "tool_output spans"];

/// Questions that can still be answered from the context, by their kind.
const BY_KIND: [&str; 5] =
    ["goal probes", "constraint probes", "artifact probes", "continuation probes", "decision probes"];

/// Such questions that a model answers rightly, by their kind, and how often it could not read the whole context.
const ANSWERS: [&str; 6] = [
    "goal answers",
    "constraint answers",
    "artifact answers",
    "continuation answers",
    "decision answers",
    "probe_cut_share",
];

/// Likelihood retention: pooled, the median of the runs, and of the tokens of atoms alone beside its floor; decisions left out and
/// events that did not fit.
const LIKELIHOOD: [&str; 6] = [
    "likelihood_retention",
    MEDIAN,
    "of atoms",
    "of atoms, shuffled",
    "likelihood_excluded",
    "likelihood_cut",
];
const MEDIAN: &str = "median of runs";

/// How close the context comes to the goal in force: by vectors, and by a model.
const COHERENCE: [&str; 2] = ["goal_coherence", "judged relevance"];

/// What strategies picked out as items, one item to one annotated span.
const ITEMS: [&str; 4] = ["item_recall", "item_precision", "item_fidelity", "item_found"];

const HONESTY: [&str; 4] = ["fabrication_rate", "quote_fidelity", "degenerate_rate", "violation_rate"];

/// Scores whose floor is the greater number.
const LOWER_IS_BETTER: [&str; 2] = [placed::STALE_VALUE_SHARE, placed::MID_SUBTASK_SHARE];

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
    let sections: Vec<(&str, Vec<Row>)> = PLACED
        .iter()
        .map(|(heading, score)| (*heading, main.iter().map(|line| placed_row(lines, line, score)).collect()))
        .filter(|(_, rows): &(&str, Vec<Row>)| scored(rows))
        .collect();
    let grids: Vec<(&str, &[&'static str], Vec<Row>)> = [
        ("What became of the constraints", &OUTCOMES[..]),
        ("Spans kept, by type", &BY_TYPE[..]),
        ("Probes supported, by kind", &BY_KIND[..]),
        ("Probes answered by a model, by kind; contexts cut to its window", &ANSWERS[..]),
        ("Goal coherence, side by side: by vectors (the goal in force, where it was stated in what is compressed); by a model's rating of relevance", &COHERENCE[..]),
        ("By compression point: the first, second and third", &BY_POINT[..]),
        ("Likelihood retention: pooled; the median of the runs (percentile interval); of the tokens of atoms alone, and these with the words shuffled; decisions left out, since the past tells nothing of them; events cut to the window", &LIKELIHOOD[..]),
        ("Items that a strategy picked: one item to one annotated span; as the source has them; found there", &ITEMS[..]),
        ("Honesty of generated text", &HONESTY[..]),
    ]
    .into_iter()
    .map(|(heading, measures)| {
        let raw = |line: &&Line| measures.iter().map(|m| raw_row(lines, line, m)).collect::<Vec<_>>();
        (heading, measures, main.iter().flat_map(raw).collect())
    })
    .filter(|(_, _, rows): &(_, _, Vec<Row>)| scored(rows))
    .collect();
    if sections.is_empty() {
        return Err("no trajectory of the run is annotated, or nothing annotated was compressed".to_owned());
    }
    let readers = lines.by_reader();
    let by_reader: Vec<Row> =
        main.iter().flat_map(|line| readers.iter().map(|name| placed_row(lines, line, name))).collect();
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

fn placed_row(lines: &Lines, line: &Line, score: &str) -> Row {
    let pooled = |part: &str| lines.series(line, &format!("{score} {part}"), None).pooled.value;
    let upwards = if LOWER_IS_BETTER.contains(&score) { -1.0 } else { 1.0 };
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
        MEDIAN => lines.median(line, placed::LIKELIHOOD_RETENTION),
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
        header: vec!["variant", "value", "floor", "ceiling", "placed", "n"],
        rows: rows.iter().filter(|row| row.value.is_told()).map(cells).collect(),
    }
}

fn grid_part(heading: &str, measures: &[&'static str], rows: &[Row]) -> Part {
    let cells = |rows: &[Row]| {
        let values = rows.iter().map(|row| shown(&row.value, true));
        std::iter::once(rows[0].label.clone()).chain(values).collect()
    };
    Part {
        heading: Some(heading.to_owned()),
        header: std::iter::once("variant").chain(measures.iter().copied()).collect(),
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
        header: vec!["variant", "score", "value", "floor", "ceiling", "placed", "n"],
        rows: rows.iter().filter(|row| row.value.is_told()).map(cells).collect(),
    }
}

fn table(rows: &[Row]) -> Table {
    let mut t = Table::new("truth");
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
