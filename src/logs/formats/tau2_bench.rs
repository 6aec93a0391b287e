//! tau2-bench results: `{info, tasks, simulations}`.
//!
//! The policy stands once in `info` and is put before each simulation. The simulated user calls tools
//! too, on a device of its own; the agent does not see these calls nor their results, so they are
//! left out and counted. Solo runs have no user: their goal is the task's ticket.

use std::collections::HashMap;

use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::reading::chat::{self, Messages};
use super::reading::content::{Arguments, Function, ToolCalls};
use super::reading::names::Name;
use super::reading::scalar::Scalar;
use super::reading::usage::{LoggedUsage, dollars};
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Runs, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "tau2-bench",
    summary: "tau2-bench result files",
    reading: Reading::Document { list: "simulations", first: "info", open },
};

record! {
    struct File in "tau2" {
        info: Info = "info",
        tasks: List<Task> = "tasks",
        /// Read one by one.
        simulations: IgnoredAny = "simulations",
    }

    struct Info in "tau2.info" {
        agent_info: AgentInfo = "agent_info",
        environment_info: EnvironmentInfo = "environment_info",
    }

    struct AgentInfo in "tau2.agent_info" {
        implementation: String = "implementation",
        llm: String = "llm",
    }

    struct EnvironmentInfo in "tau2.environment_info" {
        domain_name: String = "domain_name",
        policy: String = "policy",
        tool_defs: Box<RawValue> = "tool_defs",
    }

    struct Task in "tau2.task" {
        id: Name = "id",
        ticket: String = "ticket",
    }

    struct Simulation in "tau2.simulation" {
        task_id: Name = "task_id",
        termination_reason: String = "termination_reason",
        reward_info: RewardInfo = "reward_info",
        messages: List<Message> = "messages",
        agent_cost: Scalar = "agent_cost",
    }

    struct RewardInfo in "tau2.reward_info" {
        reward: Scalar = "reward",
    }

    struct Message in "tau2.message" {
        role: String = "role",
        content: Content = "content",
        tool_calls: ToolCalls = "tool_calls",
        reasoning: Content = "reasoning" | "reasoning_content",
        id: String = "id",
        requestor: String = "requestor",
        error: Scalar = "error",
        timestamp: Scalar = "timestamp",
        tool_messages: List<Message> = "tool_messages",
        usage: Box<LoggedUsage> = "usage",
        cost: Scalar = "cost",
        kind: String = "type",
        call_id: String = "call_id",
        tool_call_id: String = "tool_call_id",
        name: String = "name",
        arguments: Arguments = "arguments",
        output: Content = "output",
        function_call: Box<Function> = "function_call",
        refusal: String = "refusal",
        errors: List<IgnoredAny> = "errors",
        .. rest
    }
}

/// What the simulations share.
struct Shared {
    info: Info,
    tickets: HashMap<String, String>,
}

fn open(bytes: &[u8]) -> anyhow::Result<Box<dyn Runs>> {
    let file: File = serde_json::from_slice(bytes)?;
    let tasks = file.tasks.unwrap_or_default().0;
    let tickets = tasks.into_iter().filter_map(|t| Some((t.id?.0, t.ticket?))).collect();
    Ok(Box::new(Shared { info: file.info.unwrap_or_default(), tickets }))
}

impl Runs for Shared {
    fn run(&self, bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
        finish(serde_json::from_slice(bytes)?, &self.info, &self.tickets, sink);
        Ok(())
    }
}

fn finish(simulation: Simulation, info: &Info, tickets: &HashMap<String, String>, sink: &mut Sink<'_>) {
    let environment = info.environment_info.as_ref();
    let agent = info.agent_info.as_ref();
    let mut draft = Draft::new();
    if let Some(tools) = environment.and_then(|e| e.tool_defs.as_ref()) {
        draft.tools(tools.get().to_owned());
    }
    if let Some(policy) = environment.and_then(|e| e.policy.as_ref()) {
        draft.system(policy.clone());
    }
    let task = simulation.task_id.map_or_else(|| "unknown".to_owned(), |n| n.0);
    let messages = simulation.messages.unwrap_or_default().0;
    let is_solo = !messages.iter().any(|m| m.role.as_deref() == Some("user"));
    if let Some(ticket) = tickets.get(&task).filter(|_| is_solo) {
        draft.user(ticket.clone());
    }
    let n_head = draft.n_steps();
    let mut reader = Messages::default();
    for (i, message) in messages.into_iter().enumerate() {
        read_message(message, i, &mut reader, &mut draft);
    }
    reader.end(&mut draft);
    if draft.n_steps() == n_head {
        // The policy alone is no run.
        draft.clear();
    }
    let domain = environment.and_then(|e| e.domain_name.clone());
    let reward =
        simulation.reward_info.and_then(|r| r.reward).and_then(|l| l.number("reward", &mut draft.losses));
    let about = Trajectory {
        task_id: Some(format!("{}-{task}", domain.as_deref().unwrap_or("task"))),
        repository: domain.map(|d| format!("tau2-bench/{d}")),
        agent: agent.and_then(|a| a.implementation.clone()),
        model: agent.and_then(|a| a.llm.clone()),
        outcome: simulation.termination_reason,
        cost: dollars(simulation.agent_cost),
        reward,
        resolved: reward.map(|r| r > 1.0 - 1e-6),
        label_source: reward.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// Reads a message as one of a chat, but for what the agent did not see.
fn read_message(message: Message, i: usize, reader: &mut Messages, draft: &mut Draft) {
    if let Some(List(several)) = message.tool_messages {
        for message in several {
            read_message(message, i, reader, draft);
        }
        return;
    }
    let (is_tool, is_user) =
        (message.role.as_deref() == Some("tool"), message.role.as_deref() == Some("user"));
    if is_tool && message.requestor.as_deref() == Some("user") {
        return draft.losses.add("tool result of the user, unseen by the agent, left out");
    }
    if message.errors.is_some_and(|errors| !errors.0.is_empty()) {
        draft.losses.add("what the harness noted as wrong with a message left out");
    }
    let mut said = chat::Message {
        role: message.role,
        kind: message.kind,
        content: message.content,
        tool_calls: message.tool_calls,
        function_call: message.function_call,
        reasoning: message.reasoning,
        refusal: message.refusal,
        tool_call_id: message.tool_call_id,
        call_id: message.call_id,
        name: message.name,
        arguments: message.arguments,
        output: message.output,
        timestamp: message.timestamp,
        usage: message
            .usage
            .map(|usage| Box::new(LoggedUsage { cost: usage.cost.or(message.cost), ..*usage })),
        rest: message.rest,
        ..chat::Message::default()
    };
    match message.id {
        // The id of a result is that of its call.
        Some(id) if is_tool => said.tool_call_id = said.tool_call_id.or(Some(id)),
        id => said.id = id.map(Name),
    }
    if is_tool {
        said.is_error = message.error;
    }
    if is_user {
        let n_calls = said.tool_calls.take().map_or(0, |c| c.0.len());
        draft.losses.add_n("tool call of the user, unseen by the agent, left out", n_calls as u64);
        if n_calls > 0 && said.content.as_ref().is_none_or(Content::is_empty) {
            return reader.end(draft);
        }
    }
    reader.read(i, said, draft);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    #[test]
    fn a_simulation_without_messages_is_no_run() {
        let shared =
            open(br#"{"info":{"environment_info":{"policy":"P"}},"tasks":[{"id":"t","ticket":"T"}],"simulations":[]}"#)
                .unwrap();
        let source = Source::test("x.json", "tau2-bench");
        let mut sink = Sink::new(&source);
        for run in [
            r#"{"task_id":"t","messages":[{"role":"assistant","content":"Hi!"}]}"#,
            r#"{"task_id":"u","messages":"none"}"#,
            r#"{"task_id":"t","messages":[]}"#,
        ] {
            super::super::read_repaired(run.as_bytes(), &mut sink, |run, sink| shared.run(run, sink));
        }
        assert_eq!(sink.trajectories.len(), 1);
        assert_eq!(sink.trajectories[0].steps[1].text, "T");
        assert_eq!(sink.losses.0[super::super::reading::draft::EMPTY_RUN], 2);
        assert_eq!(sink.rejects.len(), 1);
    }

    #[test]
    fn the_users_tools_are_not_seen_by_the_agent() {
        let shared = open(br#"{"info":{"agent_info":{"implementation":"llm_agent","llm":"m"},"environment_info":{"domain_name":"telecom","policy":"P","tool_defs":null}},
            "tasks":[{"id":"t","ticket":"unused"}]}"#).unwrap();
        let json = r#"{"task_id":"t","trial":0,"termination_reason":"user_stop","agent_cost":0.25,"user_cost":9,"reward_info":{"reward":0.0},"messages":[
              {"role":"assistant","content":"Hi!","tool_calls":null},
              {"role":"user","content":null,"tool_calls":[{"id":"u","name":"reboot","arguments":{},"requestor":"user"}]},
              {"role":"tool","id":"u","content":"ok","requestor":"user","error":false},
              {"role":"user","content":"No signal."},
              {"role":"assistant","content":null,"tool_calls":[{"id":"a","name":"look","arguments":{"line":"L1"},"requestor":"assistant"}],"raw_data":{"big":1}},
              {"role":"tool","id":"a","content":"err","requestor":"assistant","error":true}]}"#;
        let source = Source::test("x.json", "tau2-bench");
        let mut sink = Sink::new(&source);
        shared.run(json.as_bytes(), &mut sink).unwrap();
        let t = &sink.trajectories[0];
        let outline = brief(t);
        assert_eq!(
            outline,
            ["0 system P", "1 message Hi!", "2 message No signal.", "2 action look\nL1", "2 observation err"]
        );
        assert_eq!((t.steps[4].is_error, t.cost), (Some(true), Some(0.25)));
        assert_eq!((t.reward, t.resolved), (Some(0.0), Some(false)));
        assert_eq!(t.repository.as_deref(), Some("tau2-bench/telecom"));
        assert_eq!(sink.losses.0.values().sum::<u64>(), 2);
    }

    #[test]
    fn words_and_calls_in_other_fields_and_styles() {
        let shared = open(br#"{"info":{"environment_info":{"policy":"P"}}}"#).unwrap();
        let json = r#"{"task_id":"0","messages":[
            {"role":"user","content":"help"},
            {"role":"assistant","content":[{"type":"text","text":"bl"},{"type":"tool_use","id":"c1","name":"f","input":{"a":1}}],
             "tool_calls":[{"id":"c1","name":"f","arguments":{"a":1}},{"id":"c1","name":"f","arguments":{"a":1}}],
             "errors":["wrong form"],"raw_data":{"message":"bl and more"}},
            {"role":"tool","id":"c1","content":"r"},{"role":"assistant","content":null,"audio_script":"spoken"},
            {"role":"user","content":"and?"},{"type":"function_call","call_id":"c9","name":"f","arguments":"{\"z\":34}"},
            {"role":"tool","id":"c9","content":"r9"},{"role":"assistant","content":"d","reasoning_content":"rc"}]}"#;
        let source = Source::test("x.json", "tau2-bench");
        let mut sink = Sink::new(&source);
        shared.run(json.as_bytes(), &mut sink).unwrap();
        let losses = &sink.losses;
        let steps: Vec<String> = sink.trajectories[0]
            .steps
            .iter()
            .map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text))
            .collect();
        assert_eq!(
            steps[2..],
            [
                "1 thought bl",
                "1 action f\n1",
                "1 observation r",
                "2 message [message] audio_script: spoken",
                "3 message and?",
                "3 action f\n34",
                "3 observation r9",
                "4 thought rc",
                "4 message d"
            ]
        );
        assert_eq!(losses.0["what the harness noted as wrong with a message left out"], 1);
        assert_eq!(losses.0["field without a rule kept as text: audio_script"], 1);
    }
}
