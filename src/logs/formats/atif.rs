//! The Agent Trajectory Interchange Format, 1.0 to 1.8: `{schema_version, agent, steps}`.
//!
//! - Calls and results of a step stand in it; what it counted is the usage of its reply.
//! - Sub-agents that are embedded are runs of their own, linked by `parent`.
//! - Copied context (`is_copied_context`) stood in the prompts and was no part of this run: but for the task, it is kept as a
//!   demonstration.
//! - A step that says that the context was replaced is a compaction, with the words that follow it. A file that ends with it may go
//!   on in another one, of the same session.
//!
//! Rewards are not in these files.

use serde_json::value::RawValue;

use super::reading::content::Arguments;
use super::reading::draft::Losses;
use super::reading::scalar::Scalar;
use super::reading::usage::dollars;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "atif",
    summary: "Agent Trajectory Interchange Format, 1.0 to 1.8",
    reading: Reading::Values(read),
};

record! {
    struct Run in "atif" {
        session_id: String = "session_id",
        trajectory_id: String = "trajectory_id",
        agent: Agent = "agent",
        steps: List<Step> = "steps",
        continued: String = "continued_trajectory_ref",
        subagents: List<Box<RawValue>> = "subagent_trajectories",
        totals: Totals = "final_metrics",
    }

    struct Totals in "atif.final_metrics" {
        cost: Scalar = "total_cost_usd",
    }

    struct Agent in "atif.agent" {
        name: String = "name",
        model_name: String = "model_name",
        tools: Box<RawValue> = "tool_definitions",
    }

    struct Step in "atif.step" {
        timestamp: Scalar = "timestamp",
        source: String = "source",
        message: Content = "message",
        reasoning: Content = "reasoning_content",
        model_name: String = "model_name",
        tool_calls: List<ToolCall> = "tool_calls",
        observation: Observation = "observation",
        metrics: Metrics = "metrics",
        n_calls: Scalar = "llm_call_count",
        is_copied: Scalar = "is_copied_context",
        extra: Extra = "extra",
    }

    struct ToolCall in "atif.tool_call" {
        id: String = "tool_call_id",
        name: String = "function_name",
        arguments: Arguments = "arguments",
    }

    struct Observation in "atif.observation" {
        results: List<Outcome> = "results",
    }

    struct Outcome in "atif.result" {
        id: String = "source_call_id",
        content: Content = "content",
        subagents: List<Box<RawValue>> = "subagent_trajectory_ref",
    }

    struct Metrics in "atif.metrics" {
        prompt_tokens: Scalar = "prompt_tokens",
        completion_tokens: Scalar = "completion_tokens",
        cached_tokens: Scalar = "cached_tokens",
        cost: Scalar = "cost_usd",
    }

    struct Extra in "atif.step.extra" {
        context: Context = "context_management",
    }

    struct Context in "atif.context_management" {
        kind: String = "type",
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    finish(serde_json::from_slice(bytes)?, None, 0, sink);
    Ok(())
}

/// Sub-agents of sub-agents are read so deep.
const MAX_DEPTH: usize = 8;

fn finish(run: Run, parent: Option<String>, depth: usize, sink: &mut Sink<'_>) {
    let id = run.trajectory_id.filter(|_| parent.is_some()).or(run.session_id);
    let is_named_by_file = id.is_none();
    let id = id.unwrap_or_else(|| sink.source.stem.clone());
    let agent = run.agent.unwrap_or_default();
    let mut draft = Draft::new();
    if let Some(tools) = agent.tools.filter(|tools| tools.get().len() > 4) {
        draft.tools(tools.get().to_owned());
    }
    if run.continued.is_some() {
        draft.losses.add("run that goes on in another file");
    }
    let mut reader = Reader { model: agent.model_name, ..Reader::default() };
    // Replies that name no model are of this one.
    reader.model.iter().for_each(|model| draft.model(model));
    for (i, step) in run.steps.unwrap_or_default().0.into_iter().enumerate() {
        reader.read(i, step, &mut draft);
    }
    reader.compact(&mut draft);
    let about = Trajectory {
        task_id: Some(id.clone()),
        is_named_by_file,
        agent: agent.name,
        model: reader.model,
        parent,
        cost: dollars(run.totals.and_then(|totals| totals.cost)),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    for raw in run.subagents.unwrap_or_default().0 {
        if depth == MAX_DEPTH {
            sink.losses.add("sub-agent nested too deep left out");
            continue;
        }
        super::read_item(&raw, 0, sink, |run, sink| finish(run, Some(id.clone()), depth + 1, sink));
    }
}

#[derive(Default)]
struct Reader {
    model: Option<String>,
    /// The system prompt or the task was met.
    has_system: bool,
    has_task: bool,
    /// A compaction, with what the system says of it, and the words in its place so far.
    compaction: Option<(String, Vec<String>)>,
}

impl Reader {
    fn read(&mut self, i: usize, step: Step, draft: &mut Draft) {
        let time = step.timestamp.and_then(|time| time.time(&mut draft.losses));
        let is_agent = step.source.as_deref() == Some("agent");
        if is_agent {
            self.compact(draft);
        }
        draft.at(i, time);
        if step.is_copied.and_then(|is| is.truth("is_copied_context", &mut draft.losses)) == Some(true) {
            return self.copied(step, draft);
        }
        let kind = step.extra.as_ref().and_then(|extra| extra.context.as_ref()?.kind.as_deref());
        if kind == Some("compaction") {
            self.compact(draft);
            self.compaction = Some(Default::default());
        }
        match is_agent {
            true => self.agent(step, draft),
            false => self.others(step, draft),
        }
    }

    /// The compaction is complete.
    fn compact(&mut self, draft: &mut Draft) {
        let Some((said, words)) = self.compaction.take() else { return };
        draft
            .losses
            .add_n("what the system says of a compaction", u64::from(!words.is_empty() && !said.is_empty()));
        draft.compaction(if words.is_empty() { said } else { words.join("\n") });
    }

    fn others(&mut self, step: Step, draft: &mut Draft) {
        let is_user = step.source.as_deref() == Some("user");
        let text = step.message.unwrap_or_default().into_text(&mut draft.losses);
        if let Some((said, words)) = &mut self.compaction {
            match is_user {
                true => words.extend(Some(text).filter(|text| !text.is_empty())),
                false => *said += &text,
            }
        } else if is_user {
            self.has_task = true;
            draft.user(text);
        } else if !self.has_system && !self.has_task {
            draft.system(text);
        } else if !text.is_empty() {
            draft.notice(text);
        }
        self.has_system = true;
        for result in step.observation.and_then(|o| o.results).unwrap_or_default().0 {
            let text = result.content.unwrap_or_default().into_text(&mut draft.losses);
            if !text.is_empty() {
                draft.notice(text);
            }
        }
    }

    fn agent(&mut self, step: Step, draft: &mut Draft) {
        if let Some(model) = step.model_name {
            let first = self.model.get_or_insert_with(|| model.clone());
            draft.model(if first.ends_with(model.as_str()) { first } else { &model });
        }
        draft.begin_call();
        let counted = step.metrics.and_then(|metrics| usage(metrics, step.n_calls, &mut draft.losses));
        draft.usage(counted);
        if let Some(reasoning) = step.reasoning {
            let thought = reasoning.into_text(&mut draft.losses);
            draft.agent(Kind::Thought, thought);
        }
        let calls = step.tool_calls.unwrap_or_default().0;
        let text = step.message.unwrap_or_default().into_text(&mut draft.losses);
        draft.agent(if calls.is_empty() { Kind::Message } else { Kind::Thought }, text);
        let has_calls = !calls.is_empty();
        for call in calls {
            let arguments = call.arguments.unwrap_or_default().0;
            draft.action(call.name.unwrap_or_default(), arguments, call.id);
        }
        for result in step.observation.and_then(|o| o.results).unwrap_or_default().0 {
            let n_subagents = result.subagents.map_or(0, |refs| refs.0.len());
            let text = result.content.unwrap_or_default().into_text(&mut draft.losses);
            match result.id {
                Some(id) => draft.result(Some(&id), None, text, None),
                None if has_calls && draft.has_open_call() => draft.result(None, None, text, None),
                None if text.is_empty() && n_subagents > 0 => {}
                None => draft.observation(text, None),
            }
        }
    }

    fn copied(&mut self, step: Step, draft: &mut Draft) {
        let text = step.message.unwrap_or_default().into_text(&mut draft.losses);
        match step.source.as_deref() {
            Some("user") if !self.has_task => {
                self.has_task = true;
                draft.user(text);
            }
            Some("system") if !self.has_system => draft.system(text),
            _ => {
                let mut parts = vec![text];
                for call in step.tool_calls.unwrap_or_default().0 {
                    let arguments = call.arguments.unwrap_or_default().0;
                    parts.push(format!("{} {arguments}", call.name.unwrap_or_default()));
                }
                for result in step.observation.and_then(|o| o.results).unwrap_or_default().0 {
                    parts.push(result.content.unwrap_or_default().into_text(&mut draft.losses));
                }
                parts.retain(|part| !part.is_empty());
                draft.losses.add("step of copied context kept as a demonstration");
                draft.demonstration(parts.join("\n"));
            }
        }
        self.has_system = true;
    }
}

/// The counts of a step; those of several calls together are no size of a prompt.
fn usage(metrics: Metrics, n_calls: Option<Scalar>, losses: &mut Losses) -> Option<Usage> {
    let count = |scalar: Option<Scalar>| scalar.and_then(Scalar::count);
    if count(n_calls).is_some_and(|n| n > 1) {
        losses.add("usage of several calls in one step left out");
        return None;
    }
    let input = count(metrics.prompt_tokens).filter(|n| *n > 0)?;
    let (output, cache_read) = (count(metrics.completion_tokens), count(metrics.cached_tokens));
    Some(Usage { input, output, cache_read, cost: dollars(metrics.cost), ..Usage::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::cut as outline;

    fn runs(json: &str) -> (Vec<Trajectory>, Vec<String>) {
        let source = Source::test("d/trajectory.json", "atif");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let told = sink.losses.0.iter().map(|(what, n)| format!("{what}: {n}")).collect();
        (sink.trajectories, told)
    }

    #[test]
    fn steps_with_calls_a_compaction_and_a_subagent() {
        let (t, told) = runs(
            r#"{"schema_version":"ATIF-v1.7","session_id":"s1","agent":{"name":"toy","version":"1","model_name":"p/m","tool_definitions":[{"type":"function"}]},"steps":[
            {"step_id":1,"source":"system","message":"Be kind."},{"step_id":2,"source":"user","message":[{"type":"text","text":"List."}]},
            {"step_id":3,"source":"system","message":"Context added."},
            {"step_id":4,"timestamp":"2026-01-01T00:00:00Z","source":"agent","model_name":"m","message":"go","reasoning_content":"hm","tool_calls":[
              {"tool_call_id":"c1","function_name":"bash","arguments":{"cmd":"ls"}},{"tool_call_id":"c2","function_name":"sub","arguments":{}}],
             "observation":{"results":[{"source_call_id":"c1","content":"a.py"},{"source_call_id":"c2","content":"ok","subagent_trajectory_ref":[{"session_id":"x"}]}]},
             "metrics":{"prompt_tokens":90,"completion_tokens":12,"cached_tokens":30,"cost_usd":0.5}},
            {"step_id":5,"source":"system","message":"Summarised.","extra":{"context_management":{"type":"compaction"}}},
            {"step_id":6,"source":"user","message":"You did: ls."},
            {"step_id":7,"source":"agent","message":"ls -a","observation":{"results":[{"content":"b.py"}]},"llm_call_count":2,"metrics":{"prompt_tokens":90}}],
            "continued_trajectory_ref":"x.json","final_metrics":{"total_cost_usd":0.75},
            "subagent_trajectories":[{"trajectory_id":"t2","session_id":"s1","agent":{"name":"sub"},"steps":[{"step_id":1,"source":"user","message":"Do."},{"step_id":2,"source":"agent","message":"Did."}]}]}"#,
        );
        assert_eq!(
            outline(&t[0]),
            [
                "0 0 tools [{\"type\":\"function\"}]",
                "0 0 system Be kind.",
                "0 0 message List.",
                "0 0 message Context added.",
                "0 1 thought hm",
                "0 1 thought go",
                "0 1 action bash\nls",
                "0 1 action sub",
                "0 1 observation a.py",
                "0 1 observation ok",
                "1 2 compaction You did: ls.",
                "1 2 message ls -a",
                "1 2 observation b.py"
            ]
        );
        let usage = t[0].steps[4].usage.as_ref().unwrap();
        assert_eq!((usage.input, usage.output, usage.cache_read), (90, Some(12), Some(30)));
        assert_eq!((usage.cost, t[0].cost, t[1].cost), (Some(0.5), Some(0.75), None));
        assert!(t[0].steps[11].usage.is_none() && t[0].steps[4].time == Some(1_767_225_600_000_000));
        assert_eq!(outline(&t[1]), ["0 0 message Do.", "0 1 message Did."]);
        assert_eq!((t[1].task_id.as_deref(), t[1].parent.as_deref()), (Some("t2"), Some("s1")));
        assert_eq!(
            told,
            [
                "run that goes on in another file: 1",
                "usage of several calls in one step left out: 1",
                "what the system says of a compaction: 1"
            ]
        );
    }

    /// Nothing stands for what went but what the system says.
    #[test]
    fn a_summary_that_the_system_tells_is_the_compaction() {
        let (t, _) = runs(
            r#"{"schema_version":"ATIF-v1.7","session_id":"s1","agent":{"name":"toy"},"steps":[
            {"source":"user","message":"List."},{"source":"agent","message":"ls"},
            {"source":"system","message":"So far: ls.","extra":{"context_management":{"type":"compaction"}}},
            {"source":"agent","message":"Done."}]}"#,
        );
        assert_eq!(
            outline(&t[0]),
            ["0 0 message List.", "0 1 message ls", "1 2 compaction So far: ls.", "1 2 message Done."]
        );
    }

    /// The run goes on in another file, or not at all.
    #[test]
    fn a_compaction_at_the_end_is_one() {
        let (t, _) = runs(
            r#"{"schema_version":"ATIF-v1.7","session_id":"s1","agent":{"name":"toy"},"steps":[
            {"source":"user","message":"List."},{"source":"agent","message":"ls"},
            {"source":"system","message":"Handed on.","extra":{"context_management":{"type":"compaction"}}}]}"#,
        );
        assert_eq!(outline(&t[0]), ["0 0 message List.", "0 1 message ls", "1 2 compaction Handed on."]);
    }

    #[test]
    fn copied_context_is_no_part_of_the_run() {
        let (t, told) = runs(
            r#"{"schema_version":"ATIF-v1.5","session_id":"s1","steps":[
            {"source":"user","message":"Task.","is_copied_context":true},
            {"source":"agent","message":"What?","is_copied_context":true,"tool_calls":[{"function_name":"f","arguments":{"a":1}}],"observation":{"results":[{"content":"r"}]}},
            {"source":"user","message":"That.","is_copied_context":true},
            {"source":"agent","message":"Done."}]}"#,
        );
        assert_eq!(
            outline(&t[0]),
            [
                "0 0 message Task.",
                "0 0 demonstration What?\nf {\"a\":1}\nr",
                "0 0 demonstration That.",
                "0 1 message Done."
            ]
        );
        assert_eq!(told, ["step of copied context kept as a demonstration: 2"]);
    }
}
