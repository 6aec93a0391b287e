//! Puts together the figure of `inspect --tiers`: which tier each turn was in at each decision, by the rows of a replay.

use std::collections::BTreeMap;
use std::path::Path;

use crate::context::log::Log;
use crate::replay::Run;
use crate::report::{Band, Tier, TierMap};
use crate::strategies::Fate;

/// A piece of the log: first and last byte of a step.
type Place = (u32, u32, u32);

/// Draws the tier map of a replay into a file, as its ending says: svg, png, or json with what the figure shows.
///
/// # Errors
/// The strategy has no tiers; the file cannot be written.
pub(super) fn write(log: &Log, label: &str, run: &Run, path: &Path) -> anyhow::Result<()> {
    map(log, label, run).and_then(|figure| figure.write(path))
}

fn tier(fate: Fate) -> Option<Tier> {
    match fate {
        Fate::Warm => Some(Tier::Warm),
        Fate::Cold => Some(Tier::Cold),
        Fate::Evicted => Some(Tier::Evicted),
        _ => None,
    }
}

fn map(log: &Log, label: &str, run: &Run) -> anyhow::Result<TierMap> {
    let t = &log.trajectory;
    let end = t.n_turns() + 1;
    // A compaction of the log's own ends what the strategy remembers, and what stands in the prompt.
    let segment_end = |turn: u32| {
        let segment = log.turns[turn as usize].segment;
        log.turns.partition_point(|turn| turn.segment <= segment) as u32
    };
    // When each turn left the prompt, and from when on each piece was in which tier.
    let mut hot_until: Vec<u32> = (0..end).map(segment_end).collect();
    let mut moves: BTreeMap<Place, Vec<(u32, Tier)>> = BTreeMap::new();
    for event in &run.events {
        for item in &event.work.items {
            if let (Some(tier), Some((step, bytes))) = (tier(item.fate), &item.source) {
                let turn = log.turn_of(*step);
                if let Some(until) = hot_until.get_mut(turn as usize) {
                    *until = event.turn.min(*until);
                }
                moves.entry((*step, bytes.start, bytes.end)).or_default().push((event.turn, tier));
            }
        }
    }
    anyhow::ensure!(
        !moves.is_empty(),
        "{label} moved nothing from tier to tier here\nhint: it is for `tiered`, with a trigger that fires"
    );
    let mut bands: Vec<Band> = (1..end)
        .map(|turn| Band {
            of: (f64::from(turn), f64::from(turn) + 1.0),
            // It is first seen by the decision after it.
            during: (turn + 1, hot_until[turn as usize]),
            tier: Tier::Hot,
        })
        .collect();
    for (place, moves) in &moves {
        let of = within(log, *place);
        let ends = moves.iter().skip(1).map(|(turn, _)| *turn).chain([segment_end(log.turn_of(place.0))]);
        bands.extend(moves.iter().zip(ends).map(|(&(from, tier), to)| Band { of, during: (from, to), tier }));
    }
    for recall in &run.recalls {
        let turn = log.turn_of(recall.until);
        let items = recall.work.items.iter().filter(|item| item.fate == Fate::Recalled);
        let places = items.filter_map(|item| item.source.as_ref());
        bands.extend(places.map(|(step, bytes)| Band {
            of: within(log, (*step, bytes.start, bytes.end)),
            during: (turn, turn + 1),
            tier: Tier::Recalled,
        }));
    }
    let task: String = t
        .task_id
        .as_deref()
        .unwrap_or(&t.id)
        .chars()
        .map(|c| if crate::text::escape::acts(c) { ' ' } else { c })
        .collect();
    let agent = t.agent.as_deref().unwrap_or(&t.format);
    let title = format!("{agent}, {task} ({} turns)", t.n_turns());
    Ok(TierMap { title, subtitle: label.to_owned(), turns: t.n_turns(), bands })
}

/// A place in turns, by the bytes of its turn.
fn within(log: &Log, (step, start, end): Place) -> (f64, f64) {
    let turn = log.turn_of(step);
    let steps = log.turns[turn as usize].steps.clone();
    let length = |step: u32| log.trajectory.steps[step as usize].text.len() as f64;
    let all: f64 = steps.clone().map(length).sum();
    let before: f64 = (steps.start..step).map(length).sum();
    let at = |byte: u32| f64::from(turn) + (before + f64::from(byte)) / all.max(1.0);
    (at(start), at(end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strategies::tests::run;

    #[test]
    fn turns_go_from_tier_to_tier_and_come_back() {
        let turn = |i: usize| {
            format!(
                "agent: part{i}.py holds the tables of the month{i} and the sums of their rows, read one by one before noon~we went on then\n"
            )
        };
        let log = Log::script(&format!("user: go\n{}", (0..20).map(turn).collect::<String>()));
        let params = "hot_tokens = 60\nwarm_tokens = 40\ncold_tokens = 8\nfloor = 0.0";
        let replayed = run(("tiered", params), ("turns", "n = 1"), &log);
        let map = map(&log, "tiered", &replayed).unwrap();
        // Of each turn: hot from the decision after it on, and then one tier after the other without a gap.
        let mut n_gone = 0;
        for turn in 1..=20 {
            let of = |band: &&Band| band.tier != Tier::Recalled && band.of.0 == f64::from(turn);
            let bands: Vec<&Band> = map.bands.iter().filter(of).collect();
            let tiers = [Tier::Hot, Tier::Warm, Tier::Cold, Tier::Evicted];
            assert!(bands.iter().map(|band| band.tier).eq(tiers.into_iter().take(bands.len())), "{bands:?}");
            assert!(bands.windows(2).all(|pair| pair[0].during.1 == pair[1].during.0), "{bands:?}");
            assert_eq!((bands[0].during.0, bands.last().unwrap().during.1), (turn + 1, 21));
            n_gone += usize::from(bands.len() == 4);
        }
        assert!(n_gone > 0, "{:?}", map.bands);
        let n_recalled = |map: &TierMap| map.bands.iter().filter(|b| b.tier == Tier::Recalled).count();
        assert!(n_recalled(&map) > 0, "something came back");
        // What comes back in other words stands for the same turns.
        let generated =
            run(("tiered", &format!("{params}\ndecompress = \"generated\"")), ("turns", "n = 1"), &log);
        assert!(n_recalled(&super::map(&log, "tiered", &generated).unwrap()) > 0);
        let plain = self::run(("drop-all", ""), ("turns", "n = 1"), &log);
        assert!(super::map(&log, "drop-all", &plain).is_err());
    }

    /// The log's own compaction stands at the beginning of its fifth turn.
    #[test]
    fn nothing_is_remembered_beyond_a_logged_compaction() {
        let turn = |i: usize| {
            format!("agent: part{i}.py holds the tables of the month{i} and the sums of their rows\n")
        };
        let turns = |range: std::ops::Range<usize>| range.map(turn).collect::<String>();
        let log = Log::script(&format!("user: go\n{}summary: so far\n{}", turns(0..4), turns(4..9)));
        let replayed = run(("tiered", "hot_tokens = 20"), ("turns", "n = 1"), &log);
        let map = map(&log, "tiered", &replayed).unwrap();
        for band in &map.bands {
            let is_before = band.of.0 < 5.0;
            assert!(!is_before || band.during.1 <= 5, "{band:?}");
        }
        assert!(map.bands.iter().any(|band| band.of.0 >= 5.0 && band.during.1 == 10));
    }

    #[test]
    fn places_are_shares_of_their_turn() {
        let log = Log::script("user: u\nthought: abcde\naction: fghij\nobservation: klmnopqrst");
        // Turn 1 has 20 bytes; its observation is the second half.
        assert_eq!(within(&log, (3, 0, 10)), (1.5, 2.0));
        assert_eq!(within(&log, (1, 0, 5)), (1.0, 1.25));
    }
}
