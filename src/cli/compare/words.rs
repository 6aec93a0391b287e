//! What a comparison says, in sentences.

use std::collections::BTreeSet;

use crate::cli::count;
use crate::report::compare::gate::Answer;
use crate::report::compare::{Compared, Row, Sessions};
use crate::report::tables::fixed;
use crate::scores;

/// One sentence for the reader with no time.
pub(super) fn headline(of: &Compared) -> String {
    let n = |answer| of.rows.iter().filter(|row| row.answer == answer).count() as u64;
    let same = of.rows.iter().filter(|row| row.is_same).count() as u64;
    let all = of.rows.len() as u64;
    let worse: Vec<String> = of.rows.iter().filter(|row| row.answer == Answer::Worse).map(told).collect();
    let said = match of.answer() {
        Some(Answer::Worse) => format!("Worse: {}.{}", worse.join("; "), gone(of)),
        Some(Answer::Gone) => format!("{} Nothing else is worse.", gone(of).trim_start()),
        None => "Nothing to compare: all that the gate means is gone, and may go.".to_owned(),
        _ if same == all => match other_than_scores(of) {
            other if other.is_empty() => {
                let what = if missing(&of.sessions).is_empty() { "Nothing" } else { "No score" };
                format!("{what} changed: {} the same.", count(all, "answer"))
            }
            other => format!("No score changed ({} the same), but {other}.", count(all, "answer")),
        },
        Some(Answer::CannotTell) => {
            format!("Cannot tell {} of {}; nothing is worse.", n(Answer::CannotTell), count(all, "answer"))
        }
        _ => format!("Not worse: {}, of which {same} are the same.", count(all, "answer")),
    };
    said + &missing(&of.sessions)
}

/// What is another than before although no score is.
fn other_than_scores(of: &Compared) -> String {
    let all = [
        (of.changed.len(), ["has other settings", "have other settings"]),
        (renamed(of).len(), ["has another name", "have other names"]),
        (of.only_base.len(), ["is gone", "are gone"]),
        (of.only_new.len(), ["is new", "are new"]),
    ];
    let told = |(n, what): (usize, [&str; 2])| {
        format!("{} {}", count(n as u64, "variant"), what[usize::from(n > 1)])
    };
    let told: Vec<String> = all.into_iter().filter(|(n, _)| *n > 0).map(told).collect();
    told.join(", ")
}

/// Variants that do what they did under another name: `ours -> theirs`.
pub(super) fn renamed(of: &Compared) -> Vec<String> {
    let names = of.rows.iter().filter(|row| row.is_renamed);
    let names: BTreeSet<String> =
        names.filter_map(|row| Some(format!("{} -> {}", row.label_before.as_ref()?, row.label))).collect();
    names.into_iter().collect()
}

/// That many sessions of before are not compared, which is news whatever the answers are; empty where most are.
fn missing(s: &Sessions) -> String {
    /// Of the sessions, one in so many may be gone: logs are cleared away.
    const FEW: usize = 10;
    let left = count(s.paired as u64, "session");
    match (FEW * s.only_base > s.base, 2 * s.paired < s.base) {
        (true, _) => format!(
            " {} of {} before {} there no more: this speaks of {left}.",
            s.only_base,
            count(s.base as u64, "session"),
            if s.only_base == 1 { "is" } else { "are" }
        ),
        (_, true) => format!(
            " Most of the {} before have grown: this speaks of {left}.",
            count(s.base as u64, "session")
        ),
        _ => String::new(),
    }
}

/// What the gate holds and is not there, in a sentence; empty where all are.
fn gone(of: &Compared) -> String {
    let gone = match of.gone.len() {
        0 => return String::new(),
        1 => shortened(&of.gone),
        n => format!("{n} variants ({})", shortened(&of.gone)),
    };
    // What a policy did can be gone while another has its name.
    let has_name =
        |label: &&String| of.rows.iter().any(|row| row.label == **label) || of.only_new.contains(label);
    let taken: Vec<String> = of.gone.iter().filter(has_name).cloned().collect();
    let taken = match taken.is_empty() {
        true => String::new(),
        false => format!(" What is called {} now has other settings.", shortened(&taken)),
    };
    format!(" Gone: {gone}, so nothing tells whether what came instead is worse.{taken}")
}

/// `needs kept of mask fell from 0.81 to 0.72, a difference of -0.09 [-0.12, -0.06]`.
pub(super) fn told(row: &Row) -> String {
    let went = if row.value().is_some_and(|d| d > 0.0) { "rose" } else { "fell" };
    format!(
        "{} of {} {went} from {} to {}, a difference of {}",
        scores::called(row.score),
        row.label,
        number(row.base),
        number(row.new),
        difference(row)
    )
}

pub(super) fn number(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |x| fixed(x, 3))
}

/// With a sign, and the interval where there is one.
pub(super) fn difference(row: &Row) -> String {
    let signed = |x: f64| format!("{}{}", if fixed(x, 3).starts_with('-') { "" } else { "+" }, fixed(x, 3));
    match (row.is_same, row.value(), row.interval()) {
        (true, ..) => "the same".to_owned(),
        (_, Some(value), Some((lo, hi))) => format!("{} [{}, {}]", signed(value), fixed(lo, 3), fixed(hi, 3)),
        (_, Some(value), None) if row.all_agree() => format!("{} in all alike", signed(value)),
        (_, Some(value), None) => signed(value),
        _ => "-".to_owned(),
    }
}

/// How the sessions and variants pair, in sentences.
pub(super) fn pairing(of: &Compared) -> String {
    let s = &of.sessions;
    let mut said =
        format!("{} of {} before and {} now are compared.", count(s.paired as u64, "session"), s.base, s.new);
    let mut add = |n: usize, what: &str| {
        if n > 0 {
            said += &format!(" {n} {what}.");
        }
    };
    add(s.grown, "in both have another content now and are left out");
    add(s.only_base, "only before");
    add(s.only_new, "only now");
    for (labels, when) in [(&of.only_base, "before"), (&of.only_new, "now")] {
        if !labels.is_empty() {
            said += &format!(" Only {when}: {}.", shortened(labels));
        }
    }
    said
}

/// The first of them, and how many more.
pub(super) fn shortened(labels: &[String]) -> String {
    const MOST: usize = 5;
    let shown = labels.iter().take(MOST).map(|l| format!("`{l}`")).collect::<Vec<_>>().join(", ");
    if labels.len() > MOST { format!("{shown} and {} more", labels.len() - MOST) } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn that_sessions_are_gone_is_news() {
        let of = |base: usize, grown: usize, only_base: usize| {
            missing(&Sessions {
                base,
                grown,
                only_base,
                paired: base - grown - only_base,
                ..Sessions::default()
            })
        };
        assert_eq!(
            of(850, 0, 600),
            " 600 of 850 sessions before are there no more: this speaks of 250 sessions."
        );
        assert_eq!(of(9, 0, 1), " 1 of 9 sessions before is there no more: this speaks of 8 sessions.");
        assert_eq!(of(850, 40, 85), "", "a few go every night");
        assert_eq!(of(10, 6, 0), " Most of the 10 sessions before have grown: this speaks of 4 sessions.");
        assert_eq!(of(0, 0, 0), "");
    }

    #[test]
    fn what_changed_beside_the_scores_is_told() {
        let with = |changed: &[&str], only_new: &[&str], gone: &[&str]| {
            let owned = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            Compared {
                sessions: Sessions::default(),
                only_base: Vec::new(),
                only_new: owned(only_new),
                began: Vec::new(),
                gone: owned(gone),
                changed: owned(changed),
                reseeded: Vec::new(),
                rows: Vec::new(),
                seeds: Vec::new(),
                population: "",
                cluster: "",
            }
        };
        let of = |changed: &[&str], only_new: &[&str]| other_than_scores(&with(changed, only_new, &[]));
        assert_eq!(of(&["mask: 5 was set before, 6 now"], &[]), "1 variant has other settings");
        assert_eq!(of(&["a", "b"], &["c"]), "2 variants have other settings, 1 variant is new");
        assert_eq!(of(&[], &[]), "");
        // One whose name another has now is not simply gone.
        let tail = ", so nothing tells whether what came instead is worse.";
        assert_eq!(gone(&with(&[], &["b"], &["a"])), format!(" Gone: `a`{tail}"));
        assert_eq!(
            gone(&with(&[], &["a"], &["a"])),
            format!(" Gone: `a`{tail} What is called `a` now has other settings.")
        );
    }
}
