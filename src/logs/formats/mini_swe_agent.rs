//! mini-swe-agent trajectories: 1.1 with tool calls, with commands in a fence of the text, or with replies of the
//! Responses API; 1.0, and the early bare list, with a bash block in the text.
//!
//! Commands in the text are told by `extra.actions`, by the expression (`action_regex`) of the file's own configuration,
//! or by the fences that mini-swe-agent has by default. An observation is `content`, what the model saw, not
//! `extra.raw_output`; of `extra.response`, which repeats the whole reply, only the usage is read. The last message of
//! role `exit` is the submission, which no model saw: left out.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde::de::{self, Deserialize, Deserializer, IgnoredAny, Visitor};
use serde_json::value::RawValue;

use super::reading::chat::{self, Messages};
use super::reading::content::{Function, ToolCalls};
use super::reading::names::Name;
use super::reading::scalar::Scalar;
use super::reading::usage::{LoggedUsage, dollars};
use super::reading::{Content, Draft, List, names, record};
use super::{Entry, Reading, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "mini-swe-agent",
    summary: "mini-swe-agent .traj.json files, 1.0, 1.1 and the early list form",
    reading: Reading::Values(read),
};

record! {
    struct File in "mini" {
        messages: List<Message> = "messages",
        info: Info = "info",
        instance_id: String = "instance_id",
        trajectory_format: String = "trajectory_format",
    }

    struct Info in "mini.info" {
        config: Config = "config",
        exit_status: String = "exit_status",
        stats: Stats = "model_stats",
    }

    struct Stats in "mini.model_stats" {
        cost: Scalar = "instance_cost",
    }

    struct Config in "mini.config" {
        model: Model = "model",
        agent: AgentConfig = "agent",
    }

    struct Model in "mini.config.model" {
        model_name: String = "model_name",
        action_regex: String = "action_regex",
    }

    /// Version 1 has the expression here.
    struct AgentConfig in "mini.config.agent" {
        action_regex: String = "action_regex",
    }

    struct Message in "mini.message" {
        role: String = "role",
        id: Name = "id",
        kind: String = "type",
        object: String = "object",
        content: Content = "content",
        reasoning: Content = "reasoning_content",
        tool_calls: ToolCalls = "tool_calls",
        function_call: Box<Function> = "function_call",
        refusal: String = "refusal",
        tool_call_id: String = "tool_call_id",
        call_id: String = "call_id",
        output: Box<RawValue> = "output",
        usage: Box<LoggedUsage> = "usage",
        extra: Extra = "extra",
        .. rest
    }

    struct Extra in "mini.extra" {
        timestamp: Scalar = "timestamp",
        returncode: Scalar = "returncode",
        interrupt_type: String = "interrupt_type",
        actions: List<Action> = "actions",
        response: Response = "response",
        cost: Scalar = "cost",
    }

    struct Action in "mini.extra.action" {
        command: String = "command",
        .. rest
    }
}

/// The usage in a reply that is logged whole; the rest is skipped. A reply that could not be parsed is text.
#[derive(Default)]
pub(crate) struct Response(Option<Box<LoggedUsage>>);

impl<'de> Deserialize<'de> for Response {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ResponseVisitor;
        impl<'de> Visitor<'de> for ResponseVisitor {
            type Value = Response;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a reply")
            }
            fn visit_str<E>(self, _: &str) -> Result<Response, E> {
                Ok(Response(None))
            }
            fn visit_unit<E>(self) -> Result<Response, E> {
                Ok(Response(None))
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Response, A::Error> {
                let mut usage = None;
                while let Some(key) = map.next_key::<super::reading::fields::Key<'de>>()? {
                    if key.0 == "usage" {
                        usage = map.next_value()?;
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(Response(usage))
            }
        }
        deserializer.deserialize_any(ResponseVisitor)
    }
}

fn read(bytes: &[u8], sink: &mut Sink<'_>) -> anyhow::Result<()> {
    let is_list = bytes.iter().find(|b| !b.is_ascii_whitespace()) == Some(&b'[');
    let file: File = if is_list {
        File { messages: Some(serde_json::from_slice(bytes)?), ..File::default() }
    } else {
        serde_json::from_slice(bytes)?
    };
    let info = file.info.unwrap_or_default();
    let config = info.config.unwrap_or_default();
    let model = config.model.unwrap_or_default();
    let mut draft = Draft::new();
    let logged = model.action_regex.or(config.agent.and_then(|a| a.action_regex));
    let mut reader = Reader {
        fences: fences(logged.as_deref(), &mut draft),
        messages: Messages::default(),
        is_answered: false,
        is_awaited: false,
        is_refused: true,
    };
    for (i, message) in file.messages.unwrap_or_default().0.into_iter().enumerate() {
        reader.read(i, message, &mut draft)?;
    }
    reader.messages.end(&mut draft);
    let is_named_by_file = file.instance_id.is_none();
    let task = file.instance_id.unwrap_or_else(|| sink.source.stem.clone());
    let about = Trajectory {
        repository: names::swe_repository(&task),
        task_id: Some(task),
        is_named_by_file,
        agent: Some("mini-swe-agent".to_owned()),
        model: model.model_name,
        outcome: info.exit_status,
        cost: dollars(info.stats.and_then(|stats| stats.cost)),
        ..Trajectory::default()
    };
    draft.finish(about, sink);
    Ok(())
}

/// The expressions that find a command in a text, the most telling first; group 1 is the command.
fn fences(logged: Option<&str>, draft: &mut Draft) -> Vec<Regex> {
    const DEFAULT: [&str; 2] = [r"```bash[ \t]*\n(.*?)\n```", r"```mswea_bash_command\s*\n(.*?)\n```"];
    let build = |pattern: &str| RegexBuilder::new(pattern).dot_matches_new_line(true).build().ok();
    let own = logged.and_then(build).filter(|r| r.captures_len() > 1);
    if logged.is_some() && own.is_none() {
        draft.losses.add("action_regex that cannot be used here");
    }
    own.map_or_else(|| DEFAULT.into_iter().filter_map(build).collect(), |own| vec![own])
}

/// Usage with what the agent counted the call to cost.
fn priced(usage: Option<Box<LoggedUsage>>, cost: Option<Scalar>) -> Option<Box<LoggedUsage>> {
    usage.map(|usage| Box::new(LoggedUsage { cost: cost.or(usage.cost), ..*usage }))
}

struct Reader {
    fences: Vec<Regex>,
    messages: Messages,
    /// The agent has spoken: from here on the environment speaks as the user.
    is_answered: bool,
    /// The user typed a command: its output comes next, though no agent may have spoken.
    is_awaited: bool,
    /// The newest reply is not among the messages, if the agent refuses it now.
    is_refused: bool,
}

impl Reader {
    fn read(&mut self, i: usize, message: Message, draft: &mut Draft) -> anyhow::Result<()> {
        let mut extra = message.extra.unwrap_or_default();
        let time = extra.timestamp.take().unwrap_or_default().time(&mut draft.losses);
        let failed = extra
            .returncode
            .and_then(|code| code.number("returncode", &mut draft.losses))
            .map(|code| code != 0.0);
        let is_refused = std::mem::replace(&mut self.is_refused, true);
        let id = message.id.filter(|id| !id.0.is_empty());
        if let Some(output) =
            message.output.as_ref().filter(|o| o.get().starts_with('[') && message.call_id.is_none())
        {
            (self.is_answered, self.is_refused) = (true, false);
            let List(mut items) = serde_json::from_str::<List<chat::Message>>(output.get())?;
            for item in &mut items {
                item.timestamp = item.timestamp.or(time.map(Scalar::Time));
            }
            if let Some(first) = items.first_mut() {
                first.usage = priced(message.usage, extra.cost);
            }
            let items = items.into_iter().map(|item| (i, item)).collect();
            self.messages.read_output(id.map(|id| id.0), items, draft);
            return Ok(());
        }
        let output = message.output.map(|output| {
            serde_json::from_str(output.get()).unwrap_or_else(|_| Content::Text(output.get().to_owned()))
        });
        let mut said = chat::Message {
            role: message.role.clone(),
            id,
            timestamp: time.map(Scalar::Time),
            usage: priced(message.usage.or(extra.response.take().and_then(|r| r.0)), extra.cost),
            content: message.content,
            reasoning: message.reasoning,
            tool_calls: message.tool_calls,
            function_call: message.function_call,
            refusal: message.refusal,
            tool_call_id: message.tool_call_id,
            call_id: message.call_id,
            output,
            rest: message.rest,
            ..chat::Message::default()
        };
        let role = message.role.as_deref().unwrap_or("");
        if role == "assistant" {
            (self.is_answered, self.is_refused) = (true, false);
            let commands = self.take_commands(&mut said, extra.actions.take().unwrap_or_default().0, draft);
            self.messages.read_with(i, said, commands, draft);
            return Ok(());
        }
        self.messages.give_way(&said, role == "tool", draft);
        draft.at(i, time);
        if role != "exit" {
            said.add_others(&mut draft.losses);
        }
        let text = said.content.unwrap_or_default().into_text(&mut draft.losses);
        match role {
            "system" => draft.system(text),
            "tool" => draft.result(said.tool_call_id.as_deref(), None, text, failed),
            "exit" => draft.losses.add("exit message (submission) left out"),
            "user" => self.read_user(text, &extra, failed, is_refused, draft),
            role => {
                let kind = message.kind.unwrap_or_default();
                if kind.ends_with("_call_output") {
                    draft.result(said.call_id.as_deref(), None, text, failed);
                } else if text.is_empty() {
                    draft.losses.add("message of unknown role left out");
                } else {
                    draft.losses.add("message of unknown role kept as text");
                    draft.observation(
                        format!("[{}] {text}", if role.is_empty() { &kind } else { role }),
                        failed,
                    );
                }
            }
        }
        Ok(())
    }

    /// What is said in the name of the user: by the user, or by the environment.
    fn read_user(
        &mut self,
        text: String,
        extra: &Extra,
        failed: Option<bool>,
        is_refused: bool,
        draft: &mut Draft,
    ) {
        let is_output =
            std::mem::take(&mut self.is_awaited) || self.is_answered || extra.returncode.is_some();
        match extra.interrupt_type.as_deref() {
            // A command that the user typed is the user's, and so is why a command was refused.
            _ if extra.actions.as_ref().is_some_and(|a| !a.0.is_empty()) => {
                self.is_awaited = true;
                draft.user(text);
            }
            Some(interrupt) if interrupt.starts_with("User") && draft.has_open_call() => {
                draft.result(None, None, text, Some(true));
                draft.by_user();
            }
            Some(interrupt) if interrupt.starts_with("User") => draft.user(text),
            Some(interrupt) => {
                if is_refused && interrupt == "FormatError" {
                    draft.losses.add("reply of a wrong format, which the agent drops, left out");
                }
                draft.observation(text, Some(true));
            }
            None if !is_output => draft.user(text),
            None if draft.has_open_call() => draft.result(None, None, text, failed),
            None => draft.observation(text, failed),
        }
    }

    /// Takes the commands out of the text of a reply that has no other calls.
    fn take_commands(
        &self,
        message: &mut chat::Message,
        actions: Vec<Action>,
        draft: &mut Draft,
    ) -> Vec<String> {
        let mut commands = Vec::new();
        for action in actions {
            match action.command {
                Some(command) => commands.push(command),
                None => message.rest.0.push(("action".to_owned(), action.rest.into_raw())),
            }
        }
        if message.has_calls() {
            return Vec::new();
        }
        let text = message.take_text(&mut draft.losses);
        let (text, commands) = self.commands(text, commands);
        message.content.get_or_insert_default().append(text);
        commands
    }

    /// The text of a reply without its commands, and these; `parsed` are those that the agent found in it.
    fn commands(&self, text: String, parsed: Vec<String>) -> (String, Vec<String>) {
        let found = self.fences.iter().find_map(|fence| split(fence, &text));
        match found {
            Some((thought, found)) if parsed.is_empty() => (thought, vec![found]),
            // The command is in the text as the model wrote it; the parsed one is stripped.
            Some((thought, found)) if parsed.len() == 1 && parsed[0].trim() == found.trim() => {
                (thought, vec![found])
            }
            _ => (text, parsed),
        }
    }
}

/// The text outside of the fence, and the command in it; nothing if there is not exactly one, which the agent itself
/// takes as an error of format.
fn split(fence: &Regex, text: &str) -> Option<(String, String)> {
    let mut found = fence.captures_iter(text);
    let one = found.next()?;
    if found.next().is_some() {
        return None;
    }
    let (whole, command) = (one.get(0)?, one.get(1)?);
    let before = text[..whole.start()].trim_end();
    let rest = text[whole.end()..].trim();
    let thought = if rest.is_empty() { before.to_owned() } else { format!("{before}\n{rest}") };
    Some((thought, command.as_str().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::formats::Source;

    fn run(json: &str) -> (Trajectory, super::super::Losses) {
        let source = Source::test("run/a__b-1.traj.json", "mini-swe-agent");
        let mut sink = Sink::new(&source);
        read(json.as_bytes(), &mut sink).unwrap();
        (sink.trajectories.remove(0), sink.losses)
    }

    fn outline(t: &Trajectory) -> Vec<String> {
        t.steps.iter().map(|s| format!("{} {} {}", s.turn, s.kind.name(), s.text)).collect()
    }

    #[test]
    fn tool_calls() {
        let json = r#"{"info":{"exit_status":"Submitted","config":{"model":{"model_name":"m"}}},"messages":[
            {"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"think","tool_calls":[{"id":"c1","index":0,"function":{"name":"bash","arguments":"{\"command\": \"ls\"}"},"type":"function"}],
             "function_call":null,"extra":{"response":{"choices":["again"]},"timestamp":2.5}},
            {"role":"tool","content":"<output>a</output>","tool_call_id":"c1","extra":{"raw_output":"a","returncode":1,"timestamp":3.0}},
            {"role":"exit","content":"diff","extra":{}}],
            "trajectory_format":"mini-swe-agent-1.1","instance_id":"a__b-1"}"#;
        let (t, losses) = run(json);
        assert_eq!(
            outline(&t)[2..],
            ["1 thought think", "1 action bash\nls", "1 observation <output>a</output>"]
        );
        assert_eq!(t.steps[4].is_error, Some(true));
        assert_eq!(t.steps[2].time, Some(2_500_000));
        assert_eq!((t.model.as_deref(), t.repository.as_deref()), (Some("m"), Some("a/b")));
        assert_eq!(losses.0["exit message (submission) left out"], 1);
    }

    #[test]
    fn bash_blocks_of_the_early_list() {
        let json = r#"[{"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"Look.\n\n```bash\nls\npwd\n```"},{"role":"user","content":"a"},
            {"role":"assistant","content":"no block"},{"role":"user","content":"please"}]"#;
        let (t, _) = run(json);
        assert_eq!(
            outline(&t)[2..],
            [
                "1 thought Look.",
                "1 action ls\npwd",
                "1 observation a",
                "2 message no block",
                "2 observation please"
            ]
        );
        assert_eq!(t.steps[4].call_id.as_deref(), Some("call-1"));
        assert_eq!(t.steps[3].tool.as_deref(), Some("bash"));
    }

    #[test]
    fn fences_by_default_and_by_the_configuration() {
        let first = |logged: Option<&str>, text: &str| {
            fences(logged, &mut Draft::new()).iter().find_map(|fence| split(fence, text))
        };
        let found = Some(("a\nb".to_owned(), "x".to_owned()));
        assert_eq!(first(None, "a\n```bash\nx\n```\nb"), found);
        assert_eq!(first(None, "a\n```mswea_bash_command\nx\n```\nb"), found);
        assert_eq!(first(None, "```bash\nx\n``` ```bash\ny\n```"), None);
        assert_eq!(first(None, "```bash\nx"), None);
        assert_eq!(first(Some("<run>(.*?)</run>"), "a<run>x</run>b"), found);
        // What cannot be used is as if it were not there.
        assert_eq!(first(Some("(?<=x)(y"), "a\n```bash\nx\n```\nb"), found);
    }

    #[test]
    fn commands_in_the_text_of_version_2() {
        let json = r#"{"info":{"model_stats":{"instance_cost":0.5,"api_calls":3},"config":{"model":{"action_regex":"```mswea_bash_command\\s*\\n(.*?)\\n```"}}},"messages":[
            {"role":"system","content":"S"},{"role":"user","content":"T"},
            {"role":"assistant","content":"Look.\n\n```mswea_bash_command\nls\n```","extra":{"actions":[{"command":"ls"}],"cost":0.25,
              "response":{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":5}}}},
            {"role":"user","content":"a","extra":{"returncode":0,"raw_output":"a"}},
            {"role":"assistant","content":"Odd: <x>pwd</x>","extra":{"actions":[{"command":"pwd"}],"response":"repr"}},
            {"role":"user","content":"/","extra":{"returncode":2}},
            {"role":"user","content":"Give one action.","extra":{"interrupt_type":"FormatError","response":{"usage":{"prompt_tokens":9}}}}],
            "trajectory_format":"mini-swe-agent-1.1"}"#;
        let (t, losses) = run(json);
        assert_eq!(
            outline(&t)[2..],
            [
                "1 thought Look.",
                "1 action ls",
                "1 observation a",
                "2 thought Odd: <x>pwd</x>",
                "2 action pwd",
                "2 observation /",
                "2 observation Give one action."
            ]
        );
        assert_eq!(
            t.steps[2].usage.as_ref().map(|u| (u.input, u.output, u.cost)),
            Some((50, Some(5), Some(0.25)))
        );
        assert_eq!(t.cost, Some(0.5));
        let errors: Vec<Option<bool>> = t.steps[4..].iter().map(|s| s.is_error).collect();
        assert_eq!(errors, [Some(false), None, None, Some(true), Some(true)]);
        assert_eq!(losses.0["reply of a wrong format, which the agent drops, left out"], 1);
    }

    #[test]
    fn what_the_user_does_is_the_users() {
        let json = r#"[{"role":"user","content":"T"},{"role":"assistant","content":"```bash\nrm x\n```"},
            {"role":"user","content":"Rejected: keep x","extra":{"interrupt_type":"UserRejection"}},
            {"role":"user","content":"User command: ls","extra":{"actions":[{"command":"ls"}]}},
            {"role":"user","content":"x","extra":{"returncode":0}},
            {"role":"user","content":"Now y","extra":{"interrupt_type":"UserNewTask"}}]"#;
        let (t, _) = run(json);
        let roles: Vec<String> =
            t.steps.iter().map(|s| format!("{} {} {}", s.role.name(), s.kind.name(), s.text)).collect();
        assert_eq!(
            roles[1..],
            [
                "agent action rm x",
                "user observation Rejected: keep x",
                "user message User command: ls",
                "tool observation x",
                "user message Now y"
            ]
        );
        assert_eq!(t.steps[1].call_id, t.steps[2].call_id);
    }

    #[test]
    fn the_output_of_a_users_first_command_is_no_statement_of_the_user() {
        let command = r#"{"role":"user","content":"ls it","extra":{"actions":[{"command":"ls"}]}}"#;
        for extra in [r#","extra":{"returncode":0}"#, ""] {
            let json = format!(
                r#"[{{"role":"user","content":"T"}},{command},{{"role":"user","content":"a"{extra}}},{{"role":"user","content":"Now"}}]"#
            );
            let (t, _) = run(&json);
            let roles: Vec<String> =
                t.steps.iter().map(|s| format!("{} {}", s.role.name(), s.text)).collect();
            assert_eq!(roles, ["user T", "user ls it", "tool a", "user Now"]);
        }
    }

    #[test]
    fn replies_of_the_responses_api() {
        let json = r#"{"info":{"mini_version":"2"},"messages":[{"role":"system","content":"S"},{"role":"user","content":"T"},
            {"object":"response","id":"r","status":"completed","usage":{"input_tokens":70,"output_tokens":7},"output":[
              {"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}]},
              {"type":"message","role":"assistant","content":[{"type":"output_text","text":"Look."}]},
              {"type":"function_call","call_id":"c1","name":"bash","arguments":"{\"command\":\"ls\"}"},
              {"type":"function_call","call_id":"c2","name":"bash","arguments":"{\"command\":\"pwd\"}"}],
             "extra":{"actions":[{"command":"ls","tool_call_id":"c1"},{"command":"pwd","tool_call_id":"c2"}],"timestamp":2.0}},
            {"type":"function_call_output","call_id":"c1","output":"a","extra":{"returncode":0,"timestamp":3.0}},
            {"type":"function_call_output","call_id":"c2","output":"/","extra":{"returncode":1}},
            {"type":"message","role":"user","content":[{"type":"input_text","text":"No calls."}],"extra":{"interrupt_type":"FormatError"}},
            {"role":"exit","content":"d"}],"trajectory_format":"mini-swe-agent-1.1"}"#;
        let (t, losses) = run(json);
        assert_eq!(
            outline(&t)[2..],
            [
                "1 thought hm",
                "1 thought Look.",
                "1 action bash\nls",
                "1 action bash\npwd",
                "1 observation a",
                "1 observation /",
                "1 observation No calls."
            ]
        );
        assert_eq!(t.steps[2].usage.as_ref().map(|u| u.input), Some(70));
        assert_eq!((t.steps[6].is_error, t.steps[6].time), (Some(false), Some(3_000_000)));
        assert_eq!(t.steps[7].call_id.as_deref(), Some("c2"));
        assert_eq!(losses.0["reply of a wrong format, which the agent drops, left out"], 1);
    }

    #[test]
    fn words_and_calls_in_other_fields() {
        let json = r#"{"info":{},"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":"","extra":{"actions":[{"action":"finish","tool":"submit"}]}},
            {"role":"assistant","content":null,"function_call":{"name":"bash","arguments":"{\"command\":\"ls\"}"}},
            {"role":"user","content":"o","note":"of the harness"},{"role":"assistant","content":"","refusal":"no"},
            {"role":"assistant","content":"Go\n```bash\npwd\n```","thinking_blocks":[{"type":"thinking","thinking":"deep"}],
             "extra":{"actions":[{"command":"pwd"}]}}],
            "trajectory_format":"mini-swe-agent-1.1","instance_id":"a__b-1"}"#;
        let (t, losses) = run(json);
        assert_eq!(
            outline(&t)[1..],
            [
                "1 message [message] action: {\"action\":\"finish\",\"tool\":\"submit\"}",
                "2 action bash\nls",
                "2 observation o\n[message] note: of the harness",
                "3 message no",
                "4 thought deep",
                "4 thought Go",
                "4 action pwd"
            ]
        );
        let told: Vec<&str> = losses.0.keys().map(String::as_str).collect();
        assert_eq!(
            told,
            [
                "call without a result",
                "field without a rule kept as text: action",
                "field without a rule kept as text: note",
                "field without a rule kept as thought: thinking_blocks"
            ]
        );
    }

    #[test]
    fn a_call_in_two_styles_is_one_call() {
        let json = r#"{"info":{},"messages":[{"role":"user","content":"T"},
            {"role":"assistant","content":[{"type":"text","text":"hi"},
               {"type":"tool_use","id":"c","name":"bash","input":{"command":"ls"}}],
             "tool_calls":[{"id":"c","type":"function","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}],
             "extra":{"actions":[{"command":"ls","tool_call_id":"c"}]}},
            {"role":"tool","tool_call_id":"c","content":"o"}],"trajectory_format":"mini-swe-agent-1.1"}"#;
        let (t, losses) = run(json);
        assert_eq!(outline(&t)[1..], ["1 thought hi", "1 action bash\nls", "1 observation o"]);
        assert_eq!(losses.0["call given in two styles merged"], 1);
    }

    #[test]
    fn a_reply_that_is_logged_again_is_one() {
        let run = |messages: &[&str]| {
            let json = format!(
                r#"{{"info":{{}},"messages":[{{"role":"user","content":"T"}},{}],"trajectory_format":"mini-swe-agent-1.1"}}"#,
                messages.join(",")
            );
            let (t, losses) = run(&json);
            let told = ["reply", "item"].map(|what| format!("{what} that is logged again merged"));
            let n: u64 = told.iter().filter_map(|what| losses.0.get(what)).sum();
            let usage: u64 = t.steps.iter().filter_map(|s| s.usage.as_ref().map(|u| u.input)).sum();
            (outline(&t)[1..].join("; "), n, usage)
        };
        let call = r#"{"role":"assistant","content":"go","tool_calls":[{"id":"c1","function":{"name":"bash","arguments":"{\"command\":\"ls\"}"}}],
            "extra":{"actions":[{"command":"ls","tool_call_id":"c1"}],"response":{"usage":{"prompt_tokens":10,"completion_tokens":2}}}}"#;
        let result = |text: &str| format!(r#"{{"role":"tool","tool_call_id":"c1","content":"{text}"}}"#);
        let (result, other) = (result("r"), result("done"));
        let one = "1 thought go; 1 action bash\nls; 1 observation r".to_owned();
        assert_eq!(run(&[call, call, &result, &result]), (one.clone(), 1, 10));
        assert_eq!(run(&[call, &result, call, &result]), (one.clone(), 1, 10));
        let polled = format!("{one}; 2 thought go; 2 action bash\nls; 2 observation done");
        assert_eq!(run(&[call, &result, call, &other]), (polled, 0, 20));
        // Commands in the text have no ids: only what stands side by side is the same.
        let text = r#"{"role":"assistant","content":"go\n```bash\nls\n```"}"#;
        let output = r#"{"role":"user","content":"r"}"#;
        let one = "1 thought go; 1 action ls; 1 observation r".to_owned();
        assert_eq!(run(&[text, text, output]), (one.clone(), 1, 0));
        let again = format!("{one}; 2 thought go; 2 action ls; 2 observation r");
        assert_eq!(run(&[text, output, text, output]), (again, 0, 0));
        // Responses, with and without ids of the items.
        for id in ["", r#""id":"fc1","#] {
            let response = format!(
                r#"{{"object":"response","usage":{{"input_tokens":7,"output_tokens":1}},"output":[
                {{"type":"message","role":"assistant","content":[{{"type":"output_text","text":"go"}}]}},
                {{"type":"function_call",{id}"call_id":"c1","name":"bash","arguments":"{{\"command\":\"ls\"}}"}}]}}"#
            );
            let output = r#"{"type":"function_call_output","call_id":"c1","output":"r"}"#;
            let last =
                r#"{"object":"response","output":[{"type":"message","role":"assistant","content":"end"}]}"#;
            let all = "1 thought go; 1 action bash\nls; 1 observation r; 2 message end";
            let twice = run(&[&response, &response, output, last]);
            assert_eq!((twice.0.as_str(), twice.2), (all, 7));
            let (steps, n, usage) = run(&[&response, output, &response, output, last]);
            assert_eq!((steps.as_str(), n, usage), (all, 2, 7));
        }
    }
}
