//! Logs for tests, from a few lines.

use crate::store::FeatureRow;
use crate::trajectory::{Kind, Role, Trajectory};

use super::Log;

#[cfg(test)]
impl Log {
    /// A log from lines `role: text`, with roles system, tools, user, agent, thought, action, also (one more action of the same
    /// call), observation, answer (an observation with words of the user), harness, summary; `~` is a new line. `#ID` after
    /// a role gives the step a call id. `text => 3 other` is a text that was sent as `other` from turn 3 on.
    pub(crate) fn script(script: &str) -> Log {
        Log::kept(script, &[])
    }

    /// The same, with steps that compactions kept: (step, last segment).
    pub(crate) fn kept(script: &str, kept: &[(usize, u32)]) -> Log {
        use crate::trajectory::{Builder, LoggedEdit, step};
        let mut builder = Builder::new();
        let mut last = None;
        for line in script.lines().map(str::trim).filter(|l| !l.is_empty()) {
            let empty = line.strip_suffix(':').map(|role| (role, ""));
            let (role, text) = line.split_once(": ").or(empty).expect("role: text");
            let (role, id) = role.split_once('#').map_or((role, None), |(role, id)| (role, Some(id)));
            let (who, kind) = match role {
                "system" => (Role::System, Kind::System),
                "tools" => (Role::System, Kind::Tools),
                "user" => (Role::User, Kind::Message),
                "agent" => (Role::Agent, Kind::Message),
                "thought" => (Role::Agent, Kind::Thought),
                "action" | "also" => (Role::Agent, Kind::Action),
                "observation" => (Role::Tool, Kind::Observation),
                "answer" => (Role::User, Kind::Observation),
                "harness" => (Role::System, Kind::Message),
                "summary" => (Role::User, Kind::Compaction),
                other => panic!("unknown role {other}"),
            };
            let goes_on = role == "also" || last == Some(Kind::Thought) && kind == Kind::Action;
            if who == Role::Agent && !goes_on {
                builder.begin_call();
            }
            last = Some(kind);
            let (text, edit) = match text.split_once(" => ") {
                Some((text, edit)) => {
                    let (from, text_sent) = edit.split_once(' ').unwrap_or((edit, ""));
                    (text, Some((from.parse().expect("a turn"), text_sent.replace('~', "\n"))))
                }
                None => (text, None),
            };
            let mut s = step(who, kind, text.replace('~', "\n"));
            s.edit = edit.map(|(from, text)| Box::new(LoggedEdit { from, text }));
            s.message = builder.steps().len() as u32;
            s.call_id = id.map(Into::into);
            builder.push(s);
        }
        let mut steps = builder.finish();
        kept.iter().for_each(|&(step, to)| steps[step].kept_to = Some(to));
        let mut trajectory = Trajectory { steps, ..Trajectory::default() };
        trajectory.id = trajectory.content_id();
        let rows = Log::rows(&trajectory);
        Log::new(trajectory, rows).expect("features fit")
    }

    /// The same log, its own compactions bridged.
    pub(crate) fn script_bridged(script: &str) -> Log {
        let trajectory = Log::script(script).trajectory;
        let rows = Log::rows(&trajectory);
        Log::bridged(trajectory, rows).expect("features fit")
    }

    pub(super) fn rows(trajectory: &Trajectory) -> Vec<FeatureRow> {
        let tokenizer = crate::text::tokens::Tokenizer::load("o200k").expect("o200k travels with the build");
        crate::annotate::features::rows(&trajectory.id, &trajectory.steps, &tokenizer)
    }
}
