//! Tests of the showcase.

use super::*;

fn block(turn: u32, content: Content) -> Block {
    Block { turn, tokens: 1, content, fresh: true, left: 0 }
}

#[test]
fn blocks_stand_beside_what_took_their_place() {
    let step = |n| block(n, Content::Step(n));
    let made = |text: &str| block(9, Content::Generated { text: text.to_owned() });
    let masked = |n| block(n, Content::Placeholder { step: n, text: "(gone)".to_owned() });
    let before = [made("old"), step(1), step(2), step(3), made("stays")];
    let after = [made("new"), step(1), masked(3), made("stays"), made("last")];
    let told: Vec<(&str, usize)> =
        parts(&before, &after).iter().map(|part| (part.what, part.after.len())).collect();
    let expected = [
        ("dropped", 0),
        ("added", 1),
        ("kept", 1),
        ("dropped", 0),
        ("rewritten", 1),
        ("kept", 1),
        ("added", 1),
    ];
    assert_eq!(told, expected);
    assert!(parts(&[], &[]).is_empty());
}

#[test]
fn the_worst_sessions_come_first() {
    let format =
        |n: u64| ["mini", "claude", "sweagent"][usize::from(n > 41) + usize::from(n > 45)].to_owned();
    let formats: HashMap<String, String> = (0..60).map(|n| (format!("{n}"), format(n))).collect();
    let mut of: Vec<Lossy> = (0..60).map(|n| (90 - n, format!("{n}"))).collect();
    keep_worst(&mut of, &formats);
    let ids: Vec<String> = of.into_iter().map(|(_, id)| id).collect();
    let expected: Vec<String> = (0..40).chain([42, 46]).map(|n: u32| n.to_string()).collect();
    assert_eq!(ids, expected, "and the worst one of each other format");
}

/// Ten sessions of many small events lose most; the worst events are of two that lose less. Nothing is replayed that cannot
/// have one.
#[test]
fn the_worst_events_are_those_of_all_sessions() {
    let small = |n: u32| (n, vec![2; 10], "mini");
    let mut all: Vec<(u32, Vec<usize>, &str)> = (0..10).map(small).collect();
    all.extend([(10, vec![9, 8], "mini"), (11, vec![7, 4, 4], "mini"), (12, vec![4], "mini")]);
    all.extend([(13, vec![3], "claude"), (14, vec![3], "mini")]);
    let sessions: Vec<Session> = all
        .iter()
        .enumerate()
        .map(|(index, (_, events, format))| Session {
            lost: events.iter().sum::<usize>() as u64,
            index,
            format,
            n_steps: 10,
        })
        .collect();
    let within = |most_steps| {
        let mut replayed = Vec::new();
        let replay = |session: &Session| {
            replayed.push(session.index);
            all[session.index].1.clone()
        };
        (worst_events(&sessions, most_steps, replay, |lost| *lost), replayed)
    };
    let (events, replayed) = within(1_000);
    assert_eq!(events, [9, 8, 7, 4, 4, 3], "the last one is of another format");
    assert_eq!(replayed, (0..=11).chain([13]).collect::<Vec<_>>());
    // Five, and the steps of six more; another format has its event all the same.
    assert_eq!(within(110).1, (0..11).chain([13]).collect::<Vec<_>>());
    assert_eq!(within(0).1, (0..5).chain([13]).collect::<Vec<_>>());
}

/// Long sessions lose more in all, and less at a time: a short one that lost nearly as much is looked at before them.
#[test]
fn what_is_lost_a_step_says_where_to_look() {
    let session = |index: usize, lost: u64, n_steps: u64| Session { lost, index, format: "mini", n_steps };
    let sessions: Vec<Session> = (0..6).map(|i| session(i, 50, 1_000)).chain([session(6, 20, 50)]).collect();
    let mut replayed = Vec::new();
    let replay = |session: &Session| {
        replayed.push(session.index);
        if session.index == 6 { vec![20] } else { vec![2; 25] }
    };
    assert_eq!(worst_events(&sessions, 0, replay, |lost| *lost)[0], 20);
    assert_eq!(replayed, [6, 0, 1, 2, 3]);
}
