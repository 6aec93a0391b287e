//! tau-bench results: runs `{task_id, reward, info, traj, trial}`.
//!
//! The policy is the system message of `traj`. The domain is not logged; it is told by the policy's
//! heading. Runs of the same task differ by what was said in them, so trials need no mark.

use super::reading::chat::{self, Message};
use super::reading::names::Name;
use super::reading::scalar::Scalar;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry =
    Entry { name: "tau-bench", summary: "tau-bench result files", reading: Reading::Values(read) };

record! {
    struct Run in "tau" {
        task_id: Name = "task_id",
        reward: Scalar = "reward",
        traj: List<Message> = "traj",
        trial: Name = "trial",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    finish(serde_json::from_slice(bytes)?, sink);
    Ok(())
}

fn finish(run: Run, sink: &mut Sink<'_>) {
    let messages = run.traj.unwrap_or_default().0;
    let domain = domain(&messages);
    let mut draft = Draft::new();
    chat::read_all(messages, Vec::new(), &mut draft);
    let reward = run.reward.and_then(|l| l.number("reward", &mut draft.losses));
    let task = run.task_id.map_or_else(|| "unknown".to_owned(), |n| n.0);
    let about = Trajectory {
        task_id: Some(format!("{}-{task}", domain.unwrap_or("task"))),
        repository: domain.map(|d| format!("tau-bench/{d}")),
        reward,
        resolved: reward.map(|r| r > 1.0 - 1e-6),
        label_source: reward.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// The domain by the heading of the policy.
fn domain(messages: &[Message]) -> Option<&'static str> {
    let policy = messages.iter().find(|m| m.role.as_deref() == Some("system"))?;
    let Some(Content::Text(text)) = &policy.content else {
        return None;
    };
    let heading = text.lines().find(|l| !l.trim().is_empty())?.to_lowercase();
    ["airline", "retail", "telecom"].into_iter().find(|d| heading.contains(d))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    #[test]
    fn runs_with_reward_and_domain() {
        let json = r####"{"task_id":3,"reward":1.0,"info":{"task":{"actions":[]}},"trial":0,"traj":[
            {"role":"system","content":"# Airline Agent Policy\nBe kind."},{"role":"user","content":"Hi"},
            {"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"get_user","arguments":"{\"user_id\":\"u1\"}"}}]},
            {"role":"tool","tool_call_id":"c","name":"get_user","content":"{}"},
            {"role":"assistant","content":"Hello."},{"role":"user","content":"###STOP###"}]}"####;
        let source = Source::test("x.json", "tau-bench");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        assert_eq!(
            (t.task_id.as_deref(), t.repository.as_deref()),
            (Some("airline-3"), Some("tau-bench/airline"))
        );
        assert_eq!((t.reward, t.resolved), (Some(1.0), Some(true)));
        let turns: Vec<u32> = t.steps.iter().map(|s| s.turn).collect();
        assert_eq!(turns, [0, 0, 1, 1, 2, 3]);
        assert!(read(br#"{"task_id":4,"reward":0.0,"traj":7}"#, &mut sink).is_err());
    }
}
