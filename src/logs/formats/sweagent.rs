//! SWE-agent trajectories (`.traj`): 0.x with commands in text, 1.x with tool calls, the attempts of the retry agent,
//! and demonstrations.
//!
//! `trajectory` and `history` tell the same story twice. The steps come from `trajectory`; system prompt, demonstrations
//! and task, which only `history` has, from there, and so do the words of each observation: in `history` it stands as
//! the model got it, with open file and directory behind it (0.x) or in the words of a template (1.x). In 1.x the tool
//! calls stand in `history` alone. Its entries are matched to the steps by command and words; one that is missing or fits
//! no step costs only itself. A hand-made demonstration that has only `history` is read from it. Demonstrations inside of a run stood in all
//! of its prompts: they are head.
//!
//! What the agent was sent of old observations is told by [`masking`].

use std::collections::VecDeque;

use serde_json::value::RawValue;

use super::reading::content::ToolCalls;
use super::reading::fields::{RawItems, Rest};
use super::reading::others::{self, Said};
use super::reading::reply::Call;
use super::reading::scalar::Scalar;
use super::reading::usage::dollars;
use super::reading::{Content, Draft, List, names, record};
use super::{Entry, Losses, Reading, Sink};
use crate::trajectory::{Kind, Trajectory};

mod masking;

use masking::Observed;

pub(super) const ENTRY: Entry = Entry {
    name: "sweagent",
    summary: "SWE-agent .traj files, 0.x and 1.x, retries, and demonstrations",
    reading: Reading::Values(read),
};

record! {
    struct File in "traj" {
        trajectory: List<TrajStep> = "trajectory",
        history: List<Message> = "history",
        info: Info = "info",
        environment: String = "environment",
        replay_config: Box<RawValue> = "replay_config",
        attempts: RawItems = "attempts",
    }

    struct TrajStep in "traj.step" {
        action: String = "action",
        observation: Content = "observation",
        thought: String = "thought",
        response: String = "response",
        // The whole prompt stands beside each step.
        .. rest but "state" | "query" | "messages"
    }

    struct Info in "traj.info" {
        exit_status: String = "exit_status",
        swe_agent_version: String = "swe_agent_version",
        model_stats: ModelStats = "model_stats",
    }

    struct ModelStats in "traj.info.model_stats" {
        tokens_sent: Scalar = "tokens_sent",
        api_calls: Scalar = "api_calls",
        cost: Scalar = "instance_cost",
    }

    struct Message in "traj.history" {
        role: String = "role",
        content: Content = "content",
        is_demo: Scalar = "is_demo",
        message_type: String = "message_type",
        thought: String = "thought",
        action: String = "action",
        tool_calls: ToolCalls = "tool_calls",
        tool_call_ids: List<String> = "tool_call_ids",
        tags: List<String> = "tags",
        .. rest
    }
}

impl Message {
    fn is_demonstration(&self) -> bool {
        self.is_demo.and_then(|is| is.truth("is_demo", &mut Losses::default())) == Some(true)
            || self.message_type.as_deref() == Some("demonstration")
    }

    fn is_agent(&self) -> bool {
        self.role.as_deref() == Some("assistant")
    }

    /// Its content, with what it says in fields that have no rule.
    fn take_content(&mut self, losses: &mut Losses) -> Content {
        let mut content = self.content.take().unwrap_or_default();
        let others = others::read(&self.rest, || Said::of(texts(&content)), losses).behind(String::new());
        if !others.is_empty() {
            content.append(others);
        }
        content
    }
}

fn texts(content: &Content) -> Vec<&str> {
    let mut texts = Vec::new();
    content.say(&mut texts);
    texts
}

/// Steps of the harness, not of the model: how a run was ended from outside.
fn is_exit(step: &TrajStep) -> bool {
    let action = step.action.as_deref().unwrap_or("").trim();
    let exits = ["exit_cost", "exit_context", "exit_format", "exit_error", "exit_api", "exit_forfeit"];
    exits.contains(&action) && step.response.as_deref().unwrap_or("").starts_with("Exit")
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let mut file: File = serde_json::from_slice(bytes)?;
    let attempts = file.attempts.take().map_or_else(Vec::new, |items| items.0);
    let has_run = file.trajectory.is_some() || file.history.is_some();
    if has_run || attempts.is_empty() {
        // The attempt that was chosen stands in the file itself; its counts are those of all attempts.
        if !attempts.is_empty() {
            sink.losses.add_n("attempt that was not chosen left out", attempts.len() as u64 - 1);
            file.info.get_or_insert_default().model_stats = None;
        }
        finish(file, None, sink);
        return Ok(());
    }
    sink.losses.add_n("attempt of which none was chosen read as a run", attempts.len() as u64);
    for (i, (address, attempt)) in attempts.into_iter().enumerate() {
        let offset = address.checked_sub(bytes.as_ptr() as usize).unwrap_or_default();
        super::read_item(&attempt, offset, sink, |file, sink| finish(file, Some(i), sink));
    }
    Ok(())
}

/// Turns a file, or an attempt in it, into a trajectory.
fn finish(file: File, attempt: Option<usize>, sink: &mut Sink<'_>) {
    let info = file.info.unwrap_or_default();
    let steps = file.trajectory.unwrap_or_default().0;
    let mut head = file.history.unwrap_or_default().0;
    let mut draft = Draft::new();
    let n_head = head.iter().position(|e| e.is_agent() && !e.is_demonstration()).unwrap_or(head.len());
    let mut body = head.split_off(n_head);
    let n_body = body.len();
    body.retain(|e| !e.is_demonstration());
    draft.losses.add_n("demonstration after the first reply left out", (n_body - body.len()) as u64);
    let stats = info.model_stats.unwrap_or_default();
    let count = |s: Option<Scalar>| s.and_then(Scalar::count);
    let run = masking::Run {
        replay_config: file.replay_config.as_deref().map(RawValue::get),
        is_version_0: info.swe_agent_version.is_none()
            && !head.iter().chain(&body).any(|e| e.message_type.is_some() || e.tool_calls.is_some()),
        was_a_model: !steps.is_empty() && count(stats.api_calls) != Some(0),
    };
    let policy = masking::policy(&run, &mut draft.losses);
    let mut message = 0;
    let mut n_said = 0;
    for mut entry in head {
        draft.at(message, None);
        message += 1;
        let is_demonstration = entry.is_demonstration();
        let text = entry.take_content(&mut draft.losses).into_text(&mut draft.losses);
        match entry.role.as_deref() {
            _ if is_demonstration => draft.demonstration(text),
            Some("system") => draft.system(text),
            _ => {
                n_said += 1;
                draft.user(text);
            }
        }
    }
    if steps.is_empty() {
        read_history(body, message, &mut draft);
    } else {
        let observed = read_steps(steps, body, message, &mut draft);
        if let Some(policy) = &policy {
            policy.apply(n_said, observed, &mut draft);
        }
    }
    let task = names::swe_task_id(&sink.source.stem).to_owned();
    let about = Trajectory {
        repository: names::swe_repository(&task),
        task_id: Some(attempt.map_or(task.clone(), |i| format!("{task}-attempt-{}", i + 1))),
        is_named_by_file: true,
        agent: Some("swe-agent".to_owned()),
        outcome: info.exit_status,
        tokens_sent: count(stats.tokens_sent).filter(|n| *n > 0),
        cost: dollars(stats.cost),
        policy: policy.map(|p| p.words()),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
}

/// Pushes the steps of the run; returns its observations as the history has them.
fn read_steps(
    steps: Vec<TrajStep>,
    body: Vec<Message>,
    mut message: usize,
    draft: &mut Draft,
) -> Vec<Observed> {
    let mut calls = Calls::of(body, &steps, &mut draft.losses);
    let mut observed = Vec::new();
    for (i, step) in steps.into_iter().enumerate() {
        if is_exit(&step) {
            draft.losses.add("exit written by the harness left out");
            continue;
        }
        draft.at(message, None);
        message += 1;
        draft.begin_call();
        let action = step.action.unwrap_or_default();
        let has_call = !action.trim().is_empty();
        let mut entry = calls.of_step(i, draft).unwrap_or_default();
        // The response is thought and command in one; alone it counts only where no command was found.
        let mut thought = step.thought.unwrap_or_default();
        let response = step.response.unwrap_or_default();
        entry.rest.0.splice(0..0, step.rest.0);
        entry.said.extend([thought.clone(), response.clone()]);
        if !has_call && thought.trim().is_empty() {
            thought = response;
        }
        let answer = entry.answer.take();
        let id = push_reply(thought, action, entry, draft);
        let at = draft.n_steps();
        let (text, sent) = said(step.observation.unwrap_or_default(), answer, draft);
        if has_call {
            draft.result(id.as_deref(), None, text, None);
        } else if !text.is_empty() {
            draft.observation(text, None);
        }
        let step = (draft.n_steps() > at).then_some(at);
        observed.push(Observed { step, turn: draft.turn(), marker: sent.0, tags: sent.1 });
    }
    observed
}

/// What the environment said to a call, as the history has it.
struct Answer {
    content: Content,
    /// What else came before the next reply.
    more: Vec<Content>,
    tags: Vec<String>,
}

/// The text of an observation as the model got it, with the size that a marker tells of it and the tags it bears: the
/// history's, and without an entry there the bare one.
fn said(bare: Content, answer: Option<Answer>, draft: &mut Draft) -> (String, (masking::Size, Vec<String>)) {
    let Some(answer) = answer else {
        let text = bare.into_text(&mut draft.losses);
        let size = masking::Size::of_text(&text);
        return (text, (size, Vec::new()));
    };
    let size = masking::Size::of(Some(&answer.content));
    let mut text = answer.content.into_text(&mut draft.losses);
    let bare = bare.into_text(&mut Losses::default());
    if !bare.trim().is_empty() && !stands_in(bare.trim(), &text) {
        draft.losses.add("observation that the history words otherwise, taken from there");
    }
    for more in answer.more {
        text.push('\n');
        text.push_str(&more.into_text(&mut draft.losses));
    }
    (text, (size, answer.tags))
}

/// A reply in the history, with what came after it.
#[derive(Default)]
struct Replied {
    action: String,
    /// Its thought and its text.
    said: Vec<String>,
    tool_calls: Option<ToolCalls>,
    rest: Rest,
    answer: Option<Answer>,
    /// It is missing: only its answer is there.
    is_missing: bool,
}

impl Replied {
    fn of(entry: Message) -> Self {
        let content = entry.content.unwrap_or_default();
        Replied {
            said: entry.thought.into_iter().chain([texts(&content).join("\n")]).collect(),
            action: entry.action.unwrap_or_default(),
            tool_calls: entry.tool_calls,
            rest: entry.rest,
            ..Replied::default()
        }
    }

    /// How well it fits a step of which this was seen: not at all without its command, the better the more of its words
    /// are the step's. `answer` is the text of its own.
    fn fit(&self, answer: &str, step: &TrajStep, seen: &str) -> u32 {
        if step.action.as_deref().unwrap_or("") != self.action {
            return 0;
        }
        let is = |text: &String| !text.trim().is_empty() && self.said.iter().any(|s| s.trim() == text.trim());
        let is_said = [&step.thought, &step.response].into_iter().flatten().any(is);
        1 + 2 * u32::from(is_said) + 2 * u32::from(stands_in(seen, answer))
    }

    fn answer_text(&self) -> String {
        self.answer.as_ref().map_or(String::new(), |answer| texts(&answer.content).join("\n"))
    }

    /// The answers behind its own that are those of the next step, whose reply is missing.
    fn split_off(&mut self, next: &TrajStep) -> Option<Self> {
        let more = &mut self.answer.as_mut()?.more;
        let at = more.iter().position(|content| holds(content, next))?;
        let mut more = more.split_off(at);
        let answer = Answer { content: more.remove(0), more, tags: Vec::new() };
        Some(Replied { answer: Some(answer), is_missing: true, ..Replied::default() })
    }
}

/// Whether the observation of a step stands there; one without words tells nothing.
fn holds(content: &Content, step: &TrajStep) -> bool {
    stands_in(&seen(step), &texts(content).join("\n"))
}

fn stands_in(bare: &str, text: &str) -> bool {
    // Mostly it stands first, and a search is made ready by reading all of what is looked for.
    !bare.is_empty() && text.len() >= bare.len() && (text.starts_with(bare) || text.contains(bare))
}

/// The words of a step's observation.
fn seen(step: &TrajStep) -> String {
    step.observation.as_ref().map_or(String::new(), |o| texts(o).join("\n").trim().to_owned())
}

/// The replies in the history, as far as they fit the steps of the trajectory.
struct Calls {
    /// By the number of their step.
    fitting: VecDeque<(usize, Replied)>,
    has_tool_calls: bool,
}

impl Calls {
    fn of(body: Vec<Message>, steps: &[TrajStep], losses: &mut Losses) -> Self {
        let mut calls: Vec<Replied> = Vec::new();
        for mut entry in body {
            if entry.is_agent() {
                calls.push(Replied::of(entry));
            } else if let Some(call) = calls.last_mut() {
                let content = entry.take_content(losses);
                match &mut call.answer {
                    Some(answer) => answer.more.push(content),
                    None => {
                        let tags = entry.tags.unwrap_or_default().0;
                        call.answer = Some(Answer { content, more: Vec::new(), tags });
                    }
                }
            }
        }
        let has_tool_calls = calls.iter().any(|c| c.tool_calls.is_some());
        let mut pairs = pairs(steps, &calls).into_iter().peekable();
        let mut fitting = VecDeque::new();
        while let Some((step, call)) = pairs.next() {
            let mut found = Some((step, std::mem::take(&mut calls[call])));
            while let Some((step, mut replied)) = found {
                let next = steps.get(step + 1).filter(|_| pairs.peek().is_none_or(|pair| pair.0 > step + 1));
                found = next.and_then(|next| replied.split_off(next)).map(|replied| (step + 1, replied));
                fitting.push_back((step, replied));
            }
        }
        let n_left = calls.iter().filter(|call| !call.action.is_empty()).count();
        losses.add_n("reply in the history without its step left out", n_left as u64);
        Calls { fitting, has_tool_calls }
    }

    fn of_step(&mut self, step: usize, draft: &mut Draft) -> Option<Replied> {
        let found = self.fitting.iter().position(|(s, _)| *s >= step).unwrap_or(self.fitting.len());
        self.fitting.drain(..found);
        let replied = self.fitting.pop_front_if(|(s, _)| *s == step).map(|(_, replied)| replied);
        if self.has_tool_calls && replied.as_ref().is_none_or(|r| r.is_missing) {
            draft.losses.add("step without its entry in the history, told by its command only");
        }
        replied
    }
}

/// So many steps and replies are matched at once.
const BLOCK: usize = 256;
const BEST_FIT: u32 = 5;

/// Steps and replies of the same command, in order, so that as much as can be fits: what does not costs only itself.
fn pairs(steps: &[TrajStep], calls: &[Replied]) -> Vec<(usize, usize)> {
    let (mut s, mut c) = (0, 0);
    let mut out = Vec::new();
    while s < steps.len() && c < calls.len() {
        if calls[c].fit(&calls[c].answer_text(), &steps[s], &seen(&steps[s])) == BEST_FIT {
            out.push((s, c));
            (s, c) = (s + 1, c + 1);
            continue;
        }
        let ends = (steps.len().min(s + BLOCK), calls.len().min(c + BLOCK));
        let block = best_pairs(&steps[s..ends.0], &calls[c..ends.1]);
        out.extend(block.iter().map(|(a, b)| (s + a, c + b)));
        (s, c) = block.last().map_or(ends, |(a, b)| (s + a + 1, c + b + 1));
    }
    out
}

/// The pairs of the greatest sum of fits.
fn best_pairs(steps: &[TrajStep], calls: &[Replied]) -> Vec<(usize, usize)> {
    let answers: Vec<String> = calls.iter().map(Replied::answer_text).collect();
    let fits = |step: &TrajStep| -> Vec<u32> {
        let seen = seen(step);
        calls.iter().zip(&answers).map(|(call, answer)| call.fit(answer, step, &seen)).collect()
    };
    let fits: Vec<Vec<u32>> = steps.iter().map(fits).collect();
    // Of what begins at a step and a reply.
    let mut best = vec![vec![0; calls.len() + 1]; steps.len() + 1];
    for s in (0..steps.len()).rev() {
        for c in (0..calls.len()).rev() {
            let fit = fits[s][c];
            let pair = if fit > 0 { fit + best[s + 1][c + 1] } else { 0 };
            best[s][c] = pair.max(best[s + 1][c]).max(best[s][c + 1]);
        }
    }
    let (mut s, mut c) = (0, 0);
    let mut out = Vec::new();
    while s < steps.len() && c < calls.len() {
        let fit = fits[s][c];
        if fit > 0 && best[s][c] == fit + best[s + 1][c + 1] {
            out.push((s, c));
            (s, c) = (s + 1, c + 1);
        } else if best[s][c] == best[s + 1][c] {
            s += 1;
        } else {
            c += 1;
        }
    }
    out
}

/// Pushes a reply with its action; returns the logged id of that.
fn push_reply(thought: String, action: String, entry: Replied, draft: &mut Draft) -> Option<String> {
    let has_call = !action.trim().is_empty();
    let kind = if has_call { Kind::Thought } else { Kind::Message };
    let said = || {
        let mut said = Said::of(entry.said.iter().chain([&thought, &action]).map(String::as_str));
        for call in entry.tool_calls.iter().flat_map(|calls| &calls.0) {
            let function = call.function.as_ref().and_then(|f| f.arguments.as_ref());
            function.or(call.arguments.as_ref()).inspect(|arguments| said.add(&arguments.0));
        }
        said
    };
    let mut others = others::read(&entry.rest, said, &mut draft.losses);
    for thought in std::mem::take(&mut others.thoughts) {
        draft.agent(Kind::Thought, thought);
    }
    draft.agent(kind, thought);
    draft.agent(kind, others.behind(String::new()));
    if has_call { push_action(action, entry.tool_calls, draft) } else { None }
}

/// Pushes the action of a step, by its tool call where that is logged; returns the logged id.
fn push_action(action: String, tool_calls: Option<ToolCalls>, draft: &mut Draft) -> Option<String> {
    let mut calls: Vec<Call> = Vec::new();
    for call in tool_calls.map(|c| c.0).unwrap_or_default().into_iter().map(Call::of) {
        if calls.iter().any(|known| known.is(&call)) {
            draft.losses.add("repeated call merged");
        } else {
            calls.push(call);
        }
    }
    if calls.len() == 1 {
        let Call { id, tool, arguments, .. } = calls.remove(0);
        draft.action(tool, arguments, id.clone());
        return id;
    }
    draft.losses.add_n("tool call told by its command only", calls.len() as u64);
    let tool = action.split_whitespace().next().unwrap_or("").chars().take(80).collect();
    draft.action_as(tool, action, None, None);
    None
}

fn read_history(body: Vec<Message>, mut message: usize, draft: &mut Draft) {
    for mut entry in body {
        draft.at(message, None);
        message += 1;
        if entry.is_agent() {
            draft.begin_call();
            let text = entry.content.take().unwrap_or_default().into_text(&mut draft.losses);
            let (thought, action) = (entry.thought.clone(), entry.action.clone().unwrap_or_default());
            let mut entry = Replied::of(entry);
            entry.said.push(text.clone());
            push_reply(thought.unwrap_or(text), action, entry, draft);
            continue;
        }
        let text = entry.take_content(&mut draft.losses).into_text(&mut draft.losses);
        if entry.role.as_deref() == Some("system") {
            draft.system(text);
        } else {
            let id = entry.tool_call_ids.and_then(|ids| ids.0.into_iter().next());
            draft.result(id.as_deref(), None, text, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    fn run(path: &str, json: &str) -> (Trajectory, super::super::Losses) {
        let source = Source::test(path, "sweagent");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        (sink.trajectories.remove(0), sink.losses)
    }

    fn outline(t: &Trajectory) -> Vec<String> {
        t.steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect()
    }

    #[test]
    fn text_commands() {
        let json = r#"{"environment":"swe_main","trajectory":[
            {"action":"open a.py","observation":"1:x","response":"Look.\n<command>","thought":"Look.","state":"{}"},
            {"action":"exit_cost","observation":"Exited","response":"Exit due to cost limit","thought":"Exit due to cost limit","state":"{}"}],
            "history":[{"role":"system","content":"S"},{"role":"user","content":"demo","is_demo":true},
              {"role":"assistant","content":"d","is_demo":true},{"role":"user","content":"Fix it."},
              {"role":"assistant","content":"Look."}],
            "info":{"exit_status":"submitted (exit_cost)"}}"#;
        let (t, losses) = run("x/django__django-1.traj", json);
        assert_eq!(
            outline(&t),
            [
                "0 system S",
                "0 demonstration demo",
                "0 demonstration d",
                "0 message Fix it.",
                "1 thought Look.",
                "1 action open a.py",
                "1 observation 1:x"
            ]
        );
        assert_eq!(t.steps[5].tool.as_deref(), Some("open"));
        assert_eq!(t.steps[5].call_id, t.steps[6].call_id);
        assert_eq!(t.repository.as_deref(), Some("django/django"));
        assert_eq!(t.outcome.as_deref(), Some("submitted (exit_cost)"));
        assert_eq!(t.goal.as_deref(), Some("Fix it."));
        assert_eq!(losses.0.len(), 1);
        assert_eq!(losses.0["exit written by the harness left out"], 1);
    }

    /// What the model got is the history's observation; the bare one stands where the history has none.
    #[test]
    fn observations_are_as_the_model_got_them() {
        let json = r#"{"trajectory":[
            {"action":"open a.py","observation":"1:x","response":"L","thought":"L","state":"{}"},
            {"action":"ls","observation":"a.py","response":"L","thought":"L","state":"{}"},
            {"action":"cat b","observation":"gone","response":"L","thought":"L","state":"{}"},
            {"action":"submit","observation":"diff","response":"L","thought":"L","state":"{}"}],
            "history":[{"role":"user","content":"T"},
              {"role":"assistant","content":"L","action":"open a.py"},
              {"role":"user","content":"1:x\n(Open file: /a.py)\nbash-$"},
              {"role":"assistant","content":"L","action":"ls"},
              {"role":"user","content":"OBSERVATION:\na.py"},{"role":"user","content":"Two turns are left."},
              {"role":"assistant","content":"L","action":"cat b"},
              {"role":"user","content":"No such file."},
              {"role":"assistant","content":"L","action":"submit"}],"info":{}}"#;
        let (t, losses) = run("a__b-1.traj", json);
        let seen: Vec<&str> =
            t.steps.iter().filter(|s| s.kind == Kind::Observation).map(|s| &*s.text).collect();
        let all = [
            "1:x\n(Open file: /a.py)\nbash-$",
            "OBSERVATION:\na.py\nTwo turns are left.",
            "No such file.",
            "diff",
        ];
        assert_eq!(seen, all);
        assert_eq!(losses.0["observation that the history words otherwise, taken from there"], 1);
    }

    #[test]
    fn tool_calls_come_from_the_history() {
        let json = r#"{"trajectory":[{"action":"ls /x","observation":"a","response":"L","thought":"L","state":{},
              "query":[{"role":"system","content":"copied"}]}],
            "history":[{"role":"system","content":"S"},{"role":"user","content":[{"type":"text","text":"T"}]},
              {"role":"assistant","content":"L","action":"ls /x","tool_calls":[{"function":{"name":"bash","arguments":"{\"command\":\"ls /x\"}"},"id":"t1"}]}],
            "info":{"swe_agent_version":"1.0.1"}}"#;
        let (t, _) = run("r__r.acb0f10f.pr_1.traj", json);
        assert_eq!(outline(&t)[2..], ["1 thought L", "1 action bash\nls /x", "1 observation a"]);
        assert_eq!(t.steps[4].call_id.as_deref(), Some("t1"));
        assert_eq!(t.steps[3].arguments.as_deref(), Some("{\"command\":\"ls /x\"}"));
    }

    /// A run of steps with these commands, and a history with those.
    fn with_history(actions: &[&str], entries: &[&str]) -> (Trajectory, super::super::Losses) {
        let steps: Vec<_> = actions
            .iter()
            .map(|a| serde_json::json!({"action": a, "observation": "o", "response": "r", "thought": "t"}))
            .collect();
        let mut history =
            vec![serde_json::json!({"role": "user", "content": "T", "message_type": "observation"})];
        for (i, action) in entries.iter().enumerate() {
            let call =
                serde_json::json!({"id": format!("t{i}"), "function": {"name": "bash", "arguments": "{}"}});
            history.push(serde_json::json!({"role": "assistant", "action": action, "tool_calls": [call]}));
            history.push(
                serde_json::json!({"role": "tool", "content": "o", "tool_call_ids": [format!("t{i}")]}),
            );
        }
        run(
            "a__b-1.traj",
            &serde_json::json!({"trajectory": steps, "history": history, "info": {}}).to_string(),
        )
    }

    #[test]
    fn an_entry_that_does_not_fit_costs_only_its_own_call() {
        let ids = |t: &Trajectory| -> Vec<String> {
            let actions = t.steps.iter().filter(|s| s.kind == Kind::Action);
            actions.map(|s| s.call_id.as_deref().unwrap().to_owned()).collect()
        };
        let told = "step without its entry in the history, told by its command only";
        let (t, losses) = with_history(&["a", "b", "c"], &["a", "b", "c"]);
        assert_eq!((ids(&t), losses.0.get(told)), (vec!["t0".into(), "t1".into(), "t2".into()], None));
        let (t, losses) = with_history(&["a", "b", "c"], &["a", " b\n", "c"]);
        assert_eq!((ids(&t), losses.0[told]), (vec!["t0".into(), "call-2".into(), "t2".into()], 1));
        let (t, losses) = with_history(&["a", "b", "c", "a"], &["a", "x", "c", "a"]);
        assert_eq!(ids(&t), ["t0", "call-2", "t2", "t3"]);
        assert_eq!(losses.0[told], 1);
        let (t, losses) = with_history(&["a", "b", "c"], &["a", "c"]);
        assert_eq!((ids(&t), losses.0[told]), (vec!["t0".into(), "call-2".into(), "t1".into()], 1));
        let (t, losses) = with_history(&["a", "b"], &["x", "y", "a", "b"]);
        assert_eq!(ids(&t), ["t2", "t3"]);
        assert_eq!(losses.0["reply in the history without its step left out"], 2);
    }

    #[test]
    fn attempts_of_the_retry_agent() {
        let attempt = |action: &str| {
            format!(
                r#"{{"trajectory":[{{"action":"{action}","observation":"o","response":"r","thought":"t"}}],
                "history":[{{"role":"user","content":"T"}}],"info":{{"model_stats":{{"tokens_sent":7,"api_calls":1,"instance_cost":0.5}}}}}}"#
            )
        };
        let attempts = format!(r#"{{"attempts":[{},{},7]}}"#, attempt("a"), attempt("b"));
        let source = Source::test("a__b-1.traj", "sweagent");
        let mut sink = Sink::new(&source);
        read(attempts.as_bytes(), &mut sink).unwrap();
        let tasks: Vec<_> = sink.trajectories.iter().map(|t| t.task_id.clone().unwrap()).collect();
        assert_eq!(tasks, ["a__b-1-attempt-1", "a__b-1-attempt-2"]);
        let first = &sink.trajectories[0];
        assert_eq!((first.repository.as_deref(), first.tokens_sent), (Some("a/b"), Some(7)));
        assert_eq!(first.cost, Some(0.5));
        assert_eq!(sink.rejects.iter().map(|r| r.0).collect::<Vec<_>>(), [attempts.find(",7]").unwrap() + 1]);
        // One was chosen: it is the run, and the counts of all are not its own.
        let chosen = attempt("b").replacen('{', &attempts.replace("]}", "],").replacen(",7]", "]", 1), 1);
        let (t, losses) = run("a__b-1.traj", &chosen);
        assert_eq!((t.task_id.as_deref(), t.tokens_sent), (Some("a__b-1"), None));
        assert_eq!(losses.0["attempt that was not chosen left out"], 1);
    }

    #[test]
    fn odd_entries_of_a_history_are_told_once() {
        let json = r#"{"history":[null,{"role":"user","content":"T"},{"role":"assistant","content":"t","action":"ls"}]}"#;
        let source = Source::test("demo.traj", "sweagent");
        let mut sink = Sink::new(&source);
        crate::logs::formats::read_repaired(json.as_bytes(), &mut sink, read);
        assert_eq!(sink.trajectories.len(), 1);
        assert_eq!(sink.losses.0["list item of the wrong type left out"], 1);
    }

    #[test]
    fn a_demonstration_of_history_alone() {
        let json = r#"{"history":[{"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"t","thought":"t","action":"find_file a","agent":"main",
             "tool_calls":[{"function":{"name":"find_file","arguments":"{\"file_name\":\"a\"}"},"id":"c1"}]},
            {"role":"tool","content":"found","tool_call_ids":["c1"]}]}"#;
        let (t, _) = run("demo.traj", json);
        assert_eq!(outline(&t)[2..], ["1 thought t", "1 action find_file\na", "1 observation found"]);
        assert_eq!(t.steps[4].tool.as_deref(), Some("find_file"));
    }

    #[test]
    fn a_call_logged_twice_is_one_and_demonstrations_are_told_by_text_too() {
        let json = r#"{"environment":"swe","trajectory":[{"action":"ls","observation":"o","thought":"t","response":"t"}],
            "history":[{"role":"system","content":"S"},{"role":"user","content":"demo","is_demo":"True"},
              {"role":"user","content":"T","is_demo":"False"},
              {"role":"assistant","content":"t","action":"ls","tool_calls":[
                {"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\": \"ls\"}"}},
                {"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}]},
              {"role":"tool","content":"o","tool_call_ids":["c"]}],"info":{}}"#;
        let (t, losses) = run("x/a__b-1.traj", json);
        assert_eq!(
            outline(&t)[1..],
            ["0 demonstration demo", "0 message T", "1 thought t", "1 action bash\nls", "1 observation o"]
        );
        assert_eq!(losses.0.into_iter().collect::<Vec<_>>(), [("repeated call merged".to_owned(), 1)]);
    }

    /// A run of the same command six times; the history has entries of those steps, with or without tool calls.
    fn repeated(entries: &[usize], leaves_answers: bool, has_calls: bool) -> (Vec<String>, Vec<String>, u64) {
        let step = |i: usize| serde_json::json!({"action": "ls", "observation": format!("[lines {i}]"), "thought": "t", "response": "t"});
        let mut history = vec![serde_json::json!({"role": "user", "content": "T"})];
        for i in 0..6 {
            let mut reply =
                serde_json::json!({"role": "assistant", "content": "t", "thought": "t", "action": "ls"});
            if has_calls {
                reply["tool_calls"] = serde_json::json!([{"id": format!("k{i}"), "function": {"name": "bash", "arguments": "{}"}}]);
            }
            let is_there = entries.contains(&i);
            history.extend(is_there.then_some(reply));
            let answer =
                serde_json::json!({"role": "user", "content": format!("[lines {i}]\n(Open file: a)")});
            history.extend((is_there || leaves_answers).then_some(answer));
        }
        let steps: Vec<_> = (0..6).map(step).collect();
        let json = serde_json::json!({"trajectory": steps, "history": history, "info": {}}).to_string();
        let (t, losses) = run("a__b-1.traj", &json);
        let seen = t.steps.iter().filter(|s| s.kind == Kind::Observation).map(|s| s.text.replace('\n', " "));
        let ids = t
            .steps
            .iter()
            .filter(|s| s.kind == Kind::Action)
            .map(|s| s.call_id.as_deref().unwrap().to_owned())
            .collect();
        let told = "step without its entry in the history, told by its command only";
        (seen.collect(), ids, losses.0.get(told).copied().unwrap_or(0))
    }

    #[test]
    fn a_missing_entry_among_equal_commands_costs_only_itself() {
        for missing in 0..6 {
            let entries: Vec<usize> = (0..6).filter(|i| *i != missing).collect();
            for has_calls in [false, true] {
                let (seen, ids, told) = repeated(&entries, false, has_calls);
                for i in 0..6 {
                    let bare = format!("[lines {i}]");
                    let whole = format!("{bare} (Open file: a)");
                    assert_eq!(seen[i], if i == missing { bare } else { whole }, "{missing}");
                    if has_calls {
                        let id = if i == missing { format!("call-{}", i + 1) } else { format!("k{i}") };
                        assert_eq!(ids[i], id, "{missing}");
                    }
                }
                assert_eq!(told, u64::from(has_calls));
            }
        }
        // Replies that are missing leave their answers to their own steps.
        let (seen, ids, told) = repeated(&[0, 3, 4, 5], true, true);
        let all: Vec<String> = (0..6).map(|i| format!("[lines {i}] (Open file: a)")).collect();
        assert_eq!((seen, told), (all, 2));
        assert_eq!(ids, ["k0", "call-2", "call-3", "k3", "k4", "k5"]);
    }

    #[test]
    fn words_in_fields_without_a_rule_are_kept_and_told() {
        let json = r#"{"trajectory":[{"action":"ls","observation":"a","thought":"t0","response":"t0","state":"{\"a\": \"b c\"}",
              "query":[{"role":"user","content":"T once more"}],"reasoning":"deep words"},
              {"action":"","observation":"","thought":"bye","response":"bye"}],
            "history":[{"role":"system","content":"S","note":"an aside"},{"role":"user","content":"T"},
              {"role":"assistant","content":"t0","action":"ls","thought":"t0","reasoning_content":"deep words",
               "thinking_blocks":[{"type":"thinking","thinking":"block words","signature":"s s"}],"parsed":{"command":"ls -a \"x\""},
               "tool_calls":[{"id":"k","function":{"name":"bash","arguments":"{\"command\":\"ls -a \\\"x\\\"\"}"}}]},
              {"role":"tool","content":"a","tool_call_ids":["k"],"stderr":"warned"}],"info":{"swe_agent_version":"1"}}"#;
        let (t, losses) = run("a__b-1.traj", json);
        assert_eq!(
            outline(&t),
            [
                "0 system S\n[message] note: an aside",
                "0 message T",
                "1 thought deep words",
                "1 thought block words",
                "1 thought t0",
                "1 action bash\nls -a \"x\"",
                "1 observation a\n[message] stderr: warned",
                "2 message bye"
            ]
        );
        let told: Vec<&str> = losses.0.keys().map(String::as_str).collect();
        assert_eq!(
            told,
            [
                "field without a rule kept as text: note",
                "field without a rule kept as text: stderr",
                "field without a rule kept as thought: reasoning",
                "field without a rule kept as thought: thinking_blocks",
                "step without its entry in the history, told by its command only"
            ]
        );
        // The same where there is only the history.
        let (start, end) = (json.find("\"history\"").unwrap(), json.find(",\"info\"").unwrap());
        let (t, _) = run("demo.traj", &format!("{{{}}}", &json[start..end]));
        assert_eq!(outline(&t)[2..5], ["1 thought deep words", "1 thought block words", "1 thought t0"]);
    }
}
