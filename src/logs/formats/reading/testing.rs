//! What tests of readers share.

use crate::logs::formats::{File, Reading, Sink, Source, find, read_repaired};
use crate::trajectory::{Step, Trajectory};

use super::draft::Losses;

/// Reads values with the reader of this name, as from one file: the runs, and what was lost. No value may be a reject.
pub(crate) fn read<S: AsRef<str>>(format: &'static str, values: &[S]) -> (Vec<Trajectory>, Losses) {
    let (runs, losses, rejects) = read_hostile(format, values.iter().map(|value| value.as_ref().as_bytes()));
    assert_eq!(rejects, Vec::<String>::new());
    (runs, losses)
}

/// The same for values that may be broken; also tells the rejects.
pub(crate) fn read_hostile<'a>(
    format: &'static str,
    values: impl IntoIterator<Item = &'a [u8]>,
) -> (Vec<Trajectory>, Losses, Vec<String>) {
    let source = Source::test("d/s.jsonl", format);
    let mut sink = Sink::new(&source);
    match find(format).unwrap().reading {
        Reading::Session { open, .. } => {
            let mut session = open();
            for value in values {
                read_repaired(value, &mut sink, |value, _| session.value(value));
            }
            session.finish(&mut sink);
        }
        Reading::Values(read) => values.into_iter().for_each(|value| read_repaired(value, &mut sink, read)),
        Reading::Files { read, .. } => {
            let lines: Vec<&[u8]> = values.into_iter().collect();
            read(&[File { name: "d/s.jsonl".to_owned(), bytes: lines.join(&b'\n') }], &mut sink);
        }
        _ => unreachable!("only readers of values and sessions are tested so"),
    }
    let rejects = sink.rejects.into_iter().map(|(_, reason)| reason).collect();
    (sink.trajectories, sink.losses, rejects)
}

/// `segment turn role kind text` of each step.
pub(crate) fn outline(run: &Trajectory) -> Vec<String> {
    let line = |s: &Step| {
        let text = s.text.replace('\n', " ");
        format!("{} {} {} {} {text}", s.segment, s.turn, s.role.name(), s.kind.name())
    };
    run.steps.iter().map(line).collect()
}

/// The steps with what the log's records say of the context before and behind a compaction, or an edit.
pub(crate) fn resized(run: &Trajectory) -> Vec<(usize, Option<u64>, Option<u64>)> {
    let of = |(at, step): (usize, &Step)| step.resized.as_deref().map(|of| (at, of.from, of.to));
    run.steps.iter().enumerate().filter_map(of).collect()
}

/// `turn kind text` of each step.
pub(crate) fn brief(run: &Trajectory) -> Vec<String> {
    run.steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect()
}

/// `turn role kind text` of each step.
pub(crate) fn spoken(run: &Trajectory) -> Vec<String> {
    let line = |s: &Step| format!("{} {} {} {}", s.turn, s.role.name(), s.kind.name(), s.text);
    run.steps.iter().map(line).collect()
}

/// `segment turn kind text` of each step.
pub(crate) fn cut(run: &Trajectory) -> Vec<String> {
    let line = |s: &Step| format!("{} {} {} {}", s.segment, s.turn, s.kind.name(), s.text);
    run.steps.iter().map(line).collect()
}

/// Which losses were told, with their counts.
pub(crate) fn told(losses: &Losses) -> Vec<String> {
    losses.0.iter().map(|(what, n)| format!("{n} {what}")).collect()
}
