//! The page of verdicts: its words, its parts and its table.

use super::{Claims, ENTRY, LEVEL, Row, Verdict, amount, scores};
use crate::report::claims::Test;
use crate::report::statistics::estimate::Estimate;
use crate::report::tables::Table;
use crate::report::tables::pages::{METHOD, Part, counts, estimate_columns, header, n_eff_column, shown};

fn ours(estimate: &Estimate) -> String {
    match (estimate.value, estimate.interval) {
        (Some(value), Some((lo, hi))) if value.abs() >= 1000.0 => {
            format!("{} [{}, {}]", amount(value, 3), amount(lo, 2), amount(hi, 2))
        }
        (Some(value), _) if value.abs() >= 1000.0 => amount(value, 3),
        _ => shown(estimate, true),
    }
}

pub(super) fn about(claims: &Claims, rows: &[Row]) -> String {
    let n = |verdict: Verdict| rows.iter().filter(|r| r.verdict == verdict).count();
    let counts: Vec<String> =
        Verdict::ALL.into_iter().map(|verdict| format!("{} {}", n(verdict), verdict.name())).collect();
    format!(
        "Others claim much of how agents' contexts can be compressed. What do the logs of this run say? Claims are data, \
         meant to be written before a run is looked at ({}, blake3 {}: changed claims have another hash): which score of \
         which variants over which logs is meant, and in which region it would have to lie. {} claims make {} rows, one \
         for each variant that fits: {}.\n\n\
         **Supported**: the whole 95 % interval lies within the claimed region. **Contradicted**: all of it lies \
         outside, on one side. **Undecided**: else, or below the minimum (30 items, n_eff 4). Both verdicts also need p \
         under {LEVEL} after Holm's adjustment over the family of the claim. A verdict is about the logs and variants \
         named in its row and no others. {METHOD} Logs are \
         off-policy: no solve rate is estimated, nor anything else that only a new run of the agent could tell.",
        claims.file,
        claims.hash,
        claims.claims.len(),
        rows.len(),
        counts.join(", "),
    )
}

pub(super) fn parts(rows: &[Row]) -> Vec<Part> {
    let named = |r: &Row| format!("`{}`: {} ({})", r.claim.id, r.claim.claim, r.claim.source);
    let of = |wanted: &[Verdict]| rows.iter().filter(|r| wanted.contains(&r.verdict)).collect::<Vec<_>>();
    let tested = of(&[Verdict::Supported, Verdict::Contradicted, Verdict::Undecided]);
    let plain = |heading: &str, column, rows: Vec<&Row>| Part {
        heading: Some(heading.to_owned()),
        header: header(["claim", "theirs", column]),
        rows: rows.iter().map(|r| vec![named(r), r.claim.figure.clone(), r.why.clone()]).collect(),
    };
    vec![
        Part {
            heading: Some("Tested in this run".to_owned()),
            header: header(["claim", "theirs", "claimed region", "variant", "ours", "n", "verdict", "why"]),
            rows: tested
                .iter()
                .map(|r| {
                    vec![
                        named(r),
                        r.claim.figure.clone(),
                        r.claim.test.as_ref().map_or_else(|_| String::new(), |t| t.region.words.clone()),
                        r.variants.clone(),
                        ours(&r.figure.estimate),
                        counts(&r.figure.estimate),
                        r.verdict.name().to_owned(),
                        r.why.clone(),
                    ]
                })
                .collect(),
        },
        plain("Not in this run", "what is missing", of(&[Verdict::NotRun])),
        plain("Not testable as stated", "why", of(&[Verdict::NotTestable])),
    ]
}

pub(super) fn notes(claims: &Claims, rows: &[Row]) -> String {
    let mut out = String::from(
        "- *theirs*: the figure as its source prints it. *claimed region*: what was registered of it: the figure, and \
         after ± (or - and +) the margin that is forgiven.\n\
         - *ours*: the pooled figure with its 95 % interval. What it is, and over which logs, stands below under the \
         claim's short name. *n*: trajectories / clusters / n_eff behind it, of two sides the fewer.\n",
    );
    if !claims.questions.is_empty() {
        out += "\n## Research questions\n";
    }
    for (number, question) in (1..).zip(&claims.questions) {
        out += &format!(
            "\n### {number}. {}\n\n{}. Recipe: {}\n\n",
            question.question, question.source, question.recipe
        );
        let of_question = |r: &&Row| question.claims.contains(&r.claim.id) && r.figure.estimate.is_told();
        let answers: Vec<&Row> = rows.iter().filter(of_question).collect();
        if answers.is_empty() {
            let why = rows.iter().find(|r| question.claims.contains(&r.claim.id)).map_or("", |r| &r.why);
            out += &format!("Answer: none from this run ({why}).\n");
        }
        for r in answers {
            out += &format!(
                "- {}: {}: {}, n {}: {} (claimed: {})\n",
                r.variants,
                r.claim.test.as_ref().map_or_else(|_| String::new(), scores),
                ours(&r.figure.estimate),
                counts(&r.figure.estimate),
                r.verdict.name(),
                r.claim.claim
            );
        }
    }
    out += "\n## How each claim is measured\n\n";
    for claim in &claims.claims {
        let Ok(test) = &claim.test else { continue };
        let logs = rows.iter().find(|r| r.claim.id == claim.id).map_or("", |r| &r.logs);
        out += &format!(
            "- `{}` (family *{}*): {} Score: `{}`. Logs: {logs}.\n",
            claim.id,
            claim.family,
            claim.how,
            scores(test)
        );
    }
    out.truncate(out.trim_end().len());
    out
}

pub(super) fn table(rows: &[Row]) -> Table {
    let mut t = Table::new(ENTRY.name);
    let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
    let test = |r: &Row, of: fn(&Test) -> String| r.claim.test.as_ref().ok().map(of);
    t.text("id", "short name of the claim", rows.iter().map(|r| text(&r.claim.id)));
    t.text("claim", "in their words, short", rows.iter().map(|r| text(&r.claim.claim)));
    t.text("source", "who claims it", rows.iter().map(|r| text(&r.claim.source)));
    t.text("figure", "their figure as printed", rows.iter().map(|r| text(&r.claim.figure)));
    t.text(
        "family",
        "claims that Holm's adjustment takes together",
        rows.iter().map(|r| text(&r.claim.family)),
    );
    t.text(
        "region",
        "where the figure has to lie; after ± (or - and +) the margin",
        rows.iter().map(|r| test(r, |t| t.region.words.clone())),
    );
    t.text("score", "which score the figure is", rows.iter().map(|r| test(r, scores)));
    t.text("variants", "of which variant, or which two", rows.iter().map(|r| text(&r.variants)));
    t.text(
        "logs",
        "which logs are meant, and how many of the run's they are",
        rows.iter().map(|r| text(&r.logs)),
    );
    estimate_columns(
        &mut t,
        "value",
        "the figure in this run; null below the minimum",
        rows.iter().map(|r| &r.figure.estimate),
    );
    t.probability(
        "p",
        "two-sided p-value of the end of the claimed region that is nearest to the figure",
        rows.iter().map(|r| r.figure.p),
    );
    t.probability("p_holm", "p adjusted for the family by Holm", rows.iter().map(|r| r.p_holm));
    t.count("n_family", "p-values in the family", rows.iter().map(|r| r.figure.p.map(|_| r.n_family as u64)));
    let count = |n: usize| (n > 0).then_some(n as u64);
    t.count(
        "n_trajectories",
        "trajectories behind the figure",
        rows.iter().map(|r| count(r.figure.estimate.n_trajectories)),
    );
    t.count(
        "n_clusters",
        "clusters behind the figure",
        rows.iter().map(|r| count(r.figure.estimate.n_clusters)),
    );
    n_eff_column(&mut t, rows.iter().map(|r| &r.figure.estimate));
    t.count(
        "n_items",
        "needs, decisions, events or spans behind the figure",
        rows.iter().map(|r| count(r.figure.estimate.n_items as usize)),
    );
    t.text(
        "verdict",
        "supported, contradicted, undecided, not in this run, not testable as stated",
        rows.iter().map(|r| text(r.verdict.name())),
    );
    t.text("why", "why this verdict, in one line", rows.iter().map(|r| text(&r.why)));
    t
}
