//! Moatless trajectories: `{transitions}` of the first version, `{nodes}` of the second, a search tree. Of a tree the run is the path
//! to the node that was added last; other ends are left out and counted. From source only.

use super::reading::names::{self, Name};
use super::reading::reply::Call;
use super::reading::scalar::Scalar;
use super::reading::usage::dollars;
use super::reading::{Content, Draft, List, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::{Kind, Trajectory, Usage};

pub(super) const ENTRY: Entry = Entry {
    name: "moatless",
    summary: "Moatless trajectories, from source only",
    reading: Reading::Values(read),
};

record! {
    struct Run in "moatless" {
        name: String = "name",
        initial_message: String = "initial_message",
        transitions: List<Transition> = "transitions",
        info: Info = "info",
        metadata: Info = "metadata",
        agent: Agent = "agent",
        nodes: List<Node> = "nodes",
    }

    struct Info in "moatless.info" {
        instance_id: Name = "instance_id",
        status: String = "status",
        resolved: Scalar = "resolved",
        model: String = "model",
        cost: Scalar = "total_cost",
    }

    struct Agent in "moatless.agent" {
        system_prompt: String = "system_prompt",
    }

    struct Transition in "moatless.transition" {
        name: String = "name",
        actions: List<Taken> = "actions",
    }

    struct Taken in "moatless.taken" {
        action: Action = "action",
        retry_message: String = "retry_message",
        input_tokens: Scalar = "input_tokens",
        output_tokens: Scalar = "output_tokens",
    }

    struct Node in "moatless.node" {
        node_id: Scalar = "node_id",
        parent_id: Scalar = "parent_id",
        message: Content = "message" | "user_message",
        action: Action = "action",
        observation: Observation = "observation",
        completions: Completions = "completions",
    }

    struct Observation in "moatless.observation" {
        message: Content = "message",
    }

    struct Completions in "moatless.completions" {
        build_action: Completion = "build_action",
    }

    struct Completion in "moatless.completion" {
        usage: Counts = "usage",
        model: String = "model",
    }

    struct Counts in "moatless.usage" {
        prompt_tokens: Scalar = "prompt_tokens",
        completion_tokens: Scalar = "completion_tokens",
        cached_tokens: Scalar = "cached_tokens" | "cache_read_tokens",
        reasoning: Scalar = "reasoning_tokens",
        cost: Scalar = "completion_cost",
    }

    struct Action in "moatless.action" {
        thoughts: String = "thoughts" | "scratch_pad",
        tool: String = "action_args_class" | "action_name",
        .. rest
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let run: Run = serde_json::from_slice(bytes)?;
    let mut draft = Draft::new();
    let mut model = None;
    if let Some(text) = run.agent.and_then(|agent| agent.system_prompt) {
        draft.system(text);
    }
    if let Some(text) = run.initial_message {
        draft.user(text);
    }
    for (i, transition) in run.transitions.unwrap_or_default().0.into_iter().enumerate() {
        draft.at(i, None);
        transit(transition, &mut draft);
    }
    let nodes = path(run.nodes.unwrap_or_default().0, &mut draft);
    for (i, node) in nodes.into_iter().enumerate() {
        draft.at(i, None);
        visit(node, &mut model, &mut draft);
    }
    let info = run.info.or(run.metadata).unwrap_or_default();
    let logged = info.instance_id.map(|id| id.0).filter(|id| !id.is_empty()).or(run.name);
    let is_named_by_file = logged.is_none();
    let task = logged.unwrap_or_else(|| sink.source.stem.clone());
    let resolved = info.resolved.and_then(|is| is.truth("resolved", &mut draft.losses));
    let about = Trajectory {
        repository: names::swe_repository(&task),
        task_id: Some(task),
        is_named_by_file,
        agent: Some("moatless".to_owned()),
        model: model.or(info.model),
        outcome: info.status,
        cost: dollars(info.cost),
        resolved,
        label_source: resolved.map(|_| "log".to_owned()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

fn count(scalar: Option<Scalar>) -> Option<u64> {
    scalar.and_then(Scalar::count)
}

fn transit(transition: Transition, draft: &mut Draft) {
    let tool = transition.name.unwrap_or_default();
    for taken in transition.actions.unwrap_or_default().0 {
        let (input, output) = (count(taken.input_tokens).filter(|n| *n > 0), count(taken.output_tokens));
        act(
            taken.action.unwrap_or_default(),
            &tool,
            input.map(|input| Usage { input, output, ..Usage::default() }),
            draft,
        );
        // What the state machine says to an action that it does not take.
        if let Some(text) = taken.retry_message.filter(|text| !text.is_empty()) {
            draft.result(None, None, text, Some(true));
        }
    }
}

fn act(action: Action, tool: &str, usage: Option<Usage>, draft: &mut Draft) {
    draft.begin_call();
    draft.usage(usage);
    draft.agent(Kind::Thought, action.thoughts.unwrap_or_default());
    let tool = action.tool.map_or(tool.to_owned(), |class| class.rsplit('.').next().unwrap_or("").to_owned());
    let call = Call::new(None, tool, action.rest.into_raw().get().to_owned());
    draft.action(call.tool, call.arguments, call.id);
}

fn visit(node: Node, model: &mut Option<String>, draft: &mut Draft) {
    if let Some(message) = node.message {
        let text = message.into_text(&mut draft.losses);
        if !text.is_empty() {
            draft.user(text);
        }
    }
    let Some(action) = node.action else {
        return;
    };
    let completion = node.completions.and_then(|completions| completions.build_action).unwrap_or_default();
    *model = model.take().or(completion.model);
    let usage = completion.usage.and_then(|counts| {
        let input = count(counts.prompt_tokens).filter(|n| *n > 0)?;
        let (output, cache_read) = (count(counts.completion_tokens), count(counts.cached_tokens));
        let (reasoning, cost) = (count(counts.reasoning), dollars(counts.cost));
        Some(Usage { input, output, cache_read, reasoning, cost, ..Usage::default() })
    });
    act(action, "action", usage, draft);
    if let Some(message) = node.observation.and_then(|observation| observation.message) {
        let text = message.into_text(&mut draft.losses);
        draft.result(None, None, text, None);
    }
}

/// The nodes from the root to the last one.
fn path(nodes: Vec<Node>, draft: &mut Draft) -> Vec<Node> {
    let ids: Vec<Option<u64>> = nodes.iter().map(|node| count(node.node_id)).collect();
    let parents: Vec<Option<u64>> = nodes.iter().map(|node| count(node.parent_id)).collect();
    let mut is_kept = vec![false; nodes.len()];
    let mut at = nodes.len().checked_sub(1);
    while let Some(i) = at.filter(|i| !is_kept[*i]) {
        is_kept[i] = true;
        // A log that names no parents is a chain.
        at = match parents[i] {
            Some(parent) => ids.iter().position(|id| *id == Some(parent)),
            None if parents.iter().all(Option::is_none) => i.checked_sub(1),
            None => None,
        };
    }
    let n_left = is_kept.iter().filter(|kept| !**kept).count();
    draft.losses.add_n("node of another branch left out", n_left as u64);
    nodes.into_iter().zip(is_kept).filter_map(|(node, kept)| kept.then_some(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;
    use crate::logs::formats::reading::testing::brief;

    fn run(json: &str) -> (Trajectory, Vec<String>, Vec<String>) {
        let source = Source::test("d/trajectory.json", "moatless");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        let t = sink.trajectories.remove(0);
        let outline = brief(&t);
        (t, outline, sink.losses.0.iter().map(|(what, n)| format!("{what}: {n}")).collect())
    }

    #[test]
    fn transitions_and_a_tree() {
        let (t, outline, told) = run(
            r#"{"name":"x","initial_message":"Fix it.","transitions":[{"name":"SearchCode","state":{},"actions":[
              {"action":{"scratch_pad":"hm","query":"q"},"retry_message":"No hits.","input_tokens":90,"output_tokens":7},
              {"action":{"thoughts":"ok","query":"p"}}]}],"info":{"instance_id":"o__n-1","status":"finished","total_cost":0.5}}"#,
        );
        assert_eq!(
            outline,
            [
                "0 message Fix it.",
                "1 thought hm",
                "1 action SearchCode\nq",
                "1 observation No hits.",
                "2 thought ok",
                "2 action SearchCode\np"
            ]
        );
        assert_eq!((t.repository.as_deref(), t.outcome.as_deref()), (Some("o/n"), Some("finished")));
        assert_eq!(t.cost, Some(0.5));
        assert_eq!(t.steps[1].usage.as_ref().map(|usage| usage.input), Some(90));
        assert_eq!(told, ["call without a result: 1"]);
        let (t, outline, told) = run(
            r#"{"metadata":{"instance_id":"i"},"agent":{"system_prompt":"Be kind."},"nodes":[{"node_id":0,"parent_id":null,"message":"Fix it."},
              {"node_id":1,"parent_id":0,"action":{"thoughts":"a","action_args_class":"m.actions.ViewCode","files":1},"observation":{"message":"r"}},
              {"node_id":2,"parent_id":0,"action":{"thoughts":"b","action_args_class":"m.Finish"},"observation":{"message":"done"},
               "completions":{"build_action":{"model":"m","usage":{"prompt_tokens":9,"completion_tokens":1}}}}]}"#,
        );
        let steps = [
            "0 system Be kind.",
            "0 message Fix it.",
            "1 thought b",
            "1 action Finish",
            "1 observation done",
        ];
        assert_eq!(outline, steps);
        assert_eq!(t.model.as_deref(), Some("m"));
        assert_eq!(told, ["node of another branch left out: 1"]);
    }

    #[test]
    fn parents_in_a_circle_end() {
        let (_, outline, _) = run(
            r#"{"nodes":[{"node_id":0,"parent_id":1,"message":"a"},{"node_id":1,"parent_id":0,"message":"b"}],"metadata":{}}"#,
        );
        assert_eq!(outline, ["0 message a", "0 message b"]);
    }
}
