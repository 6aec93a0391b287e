//! Fires where a session begins that is linked to those before it (`link` of an experiment), and takes all of these.
//!
//! So each end of a session is a compression: what is left of it is what the next one knows.

use super::{Detector, Entry, Firing, Moment, Trigger};
use crate::context::log::Log;
use crate::params::params;

pub(super) const ENTRY: Entry = Entry {
    name: "session",
    summary: "Compress all sessions before the one that begins, where the experiment links them.",
    params: Session::PARAMS,
    build: |params| Ok(Box::new(Session::of(params)?)),
};

params! { struct Session {} }

impl Trigger for Session {
    fn detector(&self, _: &Log, first_turn: u32) -> Box<dyn Detector> {
        Box::new(AtLink { compressed_to: first_turn })
    }
}

struct AtLink {
    compressed_to: u32,
}

impl Detector for AtLink {
    fn advance(&mut self, moment: &Moment<'_>) -> Option<Firing> {
        let begun = &moment.log.links[..moment.log.links.partition_point(|link| *link <= moment.turn)];
        let link = *begun.last().filter(|link| **link > self.compressed_to)?;
        self.compressed_to = link;
        Some(Firing::new("session", link, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The head of a session is a turn without a decision: what fires takes what stands before it.
    #[test]
    fn each_session_takes_those_before_it() {
        let mut log = Log::script("user: a\nagent: b\nuser: c\nagent: d\nagent: e\nagent: f");
        log.links = vec![2, 4];
        let mut detector = Session {}.detector(&log, 1);
        let moment = |turn| Moment { log: &log, turn, context_tokens: 0, messages: None };
        let fired = (1..6).filter_map(|turn| Some((turn, detector.advance(&moment(turn))?.scope_end)));
        assert_eq!(fired.collect::<Vec<_>>(), [(2, 2), (4, 4)]);
        // A session in which nothing is decided is taken with the others.
        let mut detector = Session {}.detector(&log, 1);
        assert_eq!(detector.advance(&moment(5)).map(|firing| firing.scope_end), Some(4));
    }
}
