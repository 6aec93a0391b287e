//! Fires where the log records that its agent was sent something else from here on than what stands there: at the first
//! decision at which an edit holds, with the edited steps alone.
//!
//! With strategy `as-sent` the prompts are those that the log says were sent. A log without such edits never fires. What
//! is edited in the head stays as it stands: no event reaches it.

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "logged-edits",
    summary: "Compress the steps that the log says were masked or left out, from where they were.",
    params: LoggedEdits::PARAMS,
    build: |params| Ok(Box::new(LoggedEdits::of(params)?)),
};

params! { struct LoggedEdits {} }

impl Trigger for LoggedEdits {
    fn detector(&self, log: &Log, first_turn: u32) -> Box<dyn Detector> {
        let turns = &log.turns[(first_turn as usize).min(log.turns.len())..];
        let segment = turns.first().map(|turn| turn.segment);
        let steps =
            turns.iter().take_while(|turn| Some(turn.segment) == segment).flat_map(|t| t.steps.clone());
        let mut left: Vec<(u32, u32)> = steps.filter_map(|step| Some((due(log, step)?, step))).collect();
        left.sort_unstable_by(|a, b| b.cmp(a));
        Box::new(Edits { left })
    }
}

/// The turn at whose decision a step is first to be sent as the log says, if it is edited: it must stand there, and what
/// no decision of its own turn follows stands at the next one.
fn due(log: &Log, step: u32) -> Option<u32> {
    let edit = log.trajectory.steps[step as usize].edit.as_ref()?;
    let turn = log.turn_of(step);
    let decision = log.turns[turn as usize].decision;
    let stands = if decision.is_some_and(|decision| step < decision) { turn } else { turn + 1 };
    Some(edit.from.max(stands))
}

struct Edits {
    /// Turn and step, descending, so that the next one is last.
    left: Vec<(u32, u32)>,
}

impl Detector for Edits {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        let waits = self.left.partition_point(|(turn, _)| *turn > moment.turn);
        let mut steps: Vec<u32> = self.left.drain(waits..).map(|(_, step)| step).collect();
        steps.sort_unstable();
        (!steps.is_empty())
            .then(|| Firing { only: Some(steps), ..Firing::new("logged-edits", moment.turn, 1.0) })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::fired;

    /// Step 2 is masked from turn 3 on, step 4 from turn 9 on, which never comes. Step 5 is said to be left out from turn 1 on:
    /// it stands before the decision of its own turn, 3. Step 6 is an output of turn 3, whose decision stands before it.
    #[test]
    fn fires_where_an_edit_begins_to_hold() {
        let script = "user: u
            action: a
            observation: one two => 3 masked
            action: b
            observation: three => 9 masked
            user: four => 1
            action: c => 2 d
            observation: five
            agent: so";
        let told = ["3: logged-edits [2, 5] 1", "4: logged-edits [6] 1"];
        assert_eq!(fired(script, "logged-edits", ""), told);
        assert_eq!(fired("user: u\naction: a\nobservation: b\nagent: so", "logged-edits", ""), [""; 0]);
        // A turn that ends before its decision was never sent.
        assert_eq!(
            fired("user: u\naction: a\nuser: b\nobservation: c => 2 gone", "logged-edits", ""),
            [""; 0]
        );
    }
}
