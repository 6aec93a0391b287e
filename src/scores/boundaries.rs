//! Whether a trigger cuts where the work has a joint.
//!
//! An event cuts after the last turn of its scope; an annotated subtask ends with a turn. F1 of cuts and ends, matched one
//! to one where they are at most one turn apart, beside the mean F1 of 200 random placements of the same number of cuts:
//! who cuts often meets many ends by chance. (Source: boundary F1 with tolerance as in music and text segmentation;
//! correction by random placement ours.)

use std::collections::BTreeSet;

use rand::RngExt as _;

use super::Rows;
use super::ground::Truth;
use super::registry::{Better, Entry};
use crate::context::log::Log;
use crate::replay::{Run, rng};

pub const BOUNDARY_F1: Entry = Entry {
    name: "boundary_f1",
    summary: "How well compressions cut at the annotated ends of subtasks",
    formula: "2 matched / (cuts + ends), one to one within one turn; floor and chance: mean of 200 random placements",
    floor: "random placements",
    ceiling: "1",
    truth: Some((150, "Boundary F1: cuts at the annotated ends of subtasks; floor: random placements")),
    ..Entry::SHARE
};

pub const MID_SUBTASK_SHARE: Entry = Entry {
    name: "mid_subtask_share",
    summary: "Share of compressions that cut in the middle of a subtask; lower is better",
    formula: "cuts farther than one turn from every annotated end / cuts; floor and chance: random placements",
    better: Better::Lower,
    floor: "random placements",
    ceiling: "0",
    truth: Some((160, "Cuts in mid-subtask; lower is better; floor: random placements")),
    ..Entry::SHARE
};

pub(super) const ENTRIES: &[Entry] = &[BOUNDARY_F1, MID_SUBTASK_SHARE];

/// Turns between a cut and an end that still match.
const TOLERANCE: u32 = 1;
const PLACEMENTS: u64 = 200;

pub(super) fn score(truth: &Truth, log: &Log, run: &Run, seed: u64, rows: &mut Rows) {
    let ends: BTreeSet<u32> = truth
        .annotations
        .subtask_ends
        .iter()
        .map(|&step| log.turn_of(step))
        .filter(|&turn| turn > 0)
        .collect();
    let ends: Vec<u32> = ends.into_iter().collect();
    // An event over single steps cuts the history nowhere.
    let whole = run.events.iter().filter(|event| !event.names_steps);
    let cuts: BTreeSet<u32> =
        whole.filter_map(|event| event.turns.end.checked_sub(1)).filter(|&cut| cut > 0).collect();
    let cuts: Vec<u32> = cuts.into_iter().collect();
    if ends.is_empty() || cuts.is_empty() {
        return;
    }
    // After the last turn nothing is decided, so nothing is cut there.
    let places: Vec<u32> = (1..log.turns.len() as u32 - 1).collect();
    let (mut f1_by_chance, mut mid_by_chance) = (0.0, 0.0);
    for replicate in 0..PLACEMENTS {
        let placed = place(&places, cuts.len(), &mut rng(seed, "boundaries", log.id(), 0, replicate));
        f1_by_chance += f1(&placed, &ends) / PLACEMENTS as f64;
        mid_by_chance += mid(&placed, &ends) / PLACEMENTS as f64;
    }
    let n = cuts.len() as u64;
    let weight = (cuts.len() + ends.len()) as f64;
    let row = rows.push(&BOUNDARY_F1, "", Some(f1(&cuts, &ends)), weight, n);
    (row.floor, row.chance, row.ceiling) = (Some(f1_by_chance), Some(f1_by_chance), Some(1.0));
    let row = rows.push(&MID_SUBTASK_SHARE, "", Some(mid(&cuts, &ends)), n as f64, n);
    (row.floor, row.chance, row.ceiling) = (Some(mid_by_chance), Some(mid_by_chance), Some(0.0));
}

/// So many different places, drawn without replacement, ascending.
fn place(places: &[u32], n: usize, rng: &mut impl rand::Rng) -> Vec<u32> {
    let mut left = places.to_vec();
    let n = n.min(left.len());
    for i in 0..n {
        let pick = rng.random_range(i..left.len());
        left.swap(i, pick);
    }
    left.truncate(n);
    left.sort_unstable();
    left
}

/// Both ascending. Taking each pair as soon as it is near enough matches as many as can be matched.
fn f1(cuts: &[u32], ends: &[u32]) -> f64 {
    let (mut c, mut e, mut matched) = (0, 0, 0);
    while let (Some(&cut), Some(&end)) = (cuts.get(c), ends.get(e)) {
        if cut.abs_diff(end) <= TOLERANCE {
            matched += 1;
            c += 1;
            e += 1;
        } else if cut < end {
            c += 1;
        } else {
            e += 1;
        }
    }
    2.0 * f64::from(matched) / (cuts.len() + ends.len()) as f64
}

/// Share of cuts far from every end.
fn mid(cuts: &[u32], ends: &[u32]) -> f64 {
    let far = cuts.iter().filter(|cut| ends.iter().all(|end| cut.abs_diff(*end) > TOLERANCE)).count();
    far as f64 / cuts.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::Event;

    #[test]
    fn cuts_match_ends_one_to_one_within_a_turn() {
        // 4 and 6 are near 5, which can match only one of them; 20 is far from all.
        assert_eq!(f1(&[4, 6, 20], &[5, 12]), 2.0 / 5.0);
        assert_eq!(f1(&[4, 6], &[5, 7]), 1.0);
        assert_eq!(f1(&[1], &[9]), 0.0);
        assert_eq!(mid(&[4, 6, 20], &[5, 12]), 1.0 / 3.0);
    }

    /// Ten turns; subtasks end with turns 4 and 8. Cuts after turns 4 and 6: one end met.
    #[test]
    fn chance_is_that_of_as_many_cuts_anywhere() {
        let mut script = String::from("user: go");
        for i in 0..10 {
            script += &format!("\naction: step {i}\nobservation: done");
        }
        let mut log = Log::script(&script);
        // Message 0 is the task, 1 and 2 are turn 1, and so on.
        log.trajectory.annotations = Some(r#"{"subtask_ends": [8, 16]}"#.to_owned());
        let run = Run { events: vec![Event::test(6, 1..5), Event::test(9, 5..7)], ..Run::default() };
        let mut rows = Rows { ids: ("v".into(), "t".into()), rows: Vec::new() };
        score(&Truth::of(&log).unwrap(), &log, &run, 1, &mut rows);
        let [f1, mid] = &rows.rows[..] else { panic!("two rows") };
        assert_eq!((f1.value, f1.n, f1.ceiling), (Some(0.5), 2, Some(1.0)));
        assert_eq!(mid.value, Some(0.5));
        let exact = 2.0 * expected_matches() / 4.0;
        assert!((f1.chance.unwrap() - exact).abs() < 0.06, "{:?} against {exact}", f1.chance);
        assert!((mid.chance.unwrap() - 3.0 / 9.0).abs() < 0.06, "{:?}", mid.chance);
    }

    /// Over all pairs of places 1 to 9: how many of the ends 4 and 8 are met.
    fn expected_matches() -> f64 {
        let end = |turn: u32| match turn {
            3..=5 => Some(4),
            7..=9 => Some(8),
            _ => None,
        };
        let pairs = (1..10).flat_map(|a| (a + 1..10).map(move |b| (a, b)));
        let met = pairs.map(|(a, b)| [end(a), end(b)].into_iter().flatten().collect::<BTreeSet<_>>().len());
        met.sum::<usize>() as f64 / 36.0
    }
}
