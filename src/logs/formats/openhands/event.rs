//! One event of OpenHands as logged, and what the agent's model met of it.
//!
//! Events of the first line are an `action` or an `observation` by name (with `args` or `extras`; resolvers write these flat,
//! versions before 0.9 pairs of both). Events of the SDK have a `kind`.

use std::collections::HashSet;

use serde::de::{self, Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::logs::formats::reading::chat::Message;
use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::fields::{self, List, Rest};
use crate::logs::formats::reading::names::Name;
use crate::logs::formats::reading::reply::Call;
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::usage::LoggedUsage;
use crate::logs::formats::reading::{Content, ToolCall, record};
use crate::trajectory::Usage;

record! {
    /// An event of either line.
    struct Logged in "openhands.event" {
        id: Name = "id",
        timestamp: Scalar = "timestamp",
        source: String = "source",
        cause: Name = "cause",
        action: Box<RawValue> = "action",
        observation: Box<RawValue> = "observation",
        args: Fields = "args",
        extras: Fields = "extras",
        success: Scalar = "success",
        metadata: Metadata = "tool_call_metadata",
        // The SDK alone has these; `thought`, `content` and what a condensation says stand in both.
        kind: String = "kind",
        reasoning_content: String = "reasoning_content",
        thinking_blocks: Content = "thinking_blocks",
        reasoning_item: ReasoningItem = "responses_reasoning_item",
        tool_name: String = "tool_name",
        tool_call_id: String = "tool_call_id",
        tool_call: ToolCall = "tool_call",
        llm_response_id: String = "llm_response_id",
        llm_message: Message = "llm_message",
        extended_content: Content = "extended_content",
        system_prompt: Content = "system_prompt",
        dynamic_context: Content = "dynamic_context",
        rejection_source: String = "rejection_source",
        .. rest but "message" | "llm_metrics" | "timeout" | "action_risk" | "is_confirmed" | "keep_prompt" | "kernel_init_code"
            | "critic_result" | "security_risk" | "activated_skills" | "action_id"
    }

    /// What an action was called with, or an observation tells beside its content.
    struct Fields in "openhands.args" {
        .. rest but "blocking" | "is_static" | "cwd" | "hidden" | "confirmation_state" | "is_confirmed" | "action_risk" | "keep_prompt"
            | "kernel_init_code" | "include_extra" | "impl_source" | "translated_ipython_code" | "security_risk" | "is_input"
            | "timeout" | "wait_for_response" | "old_content" | "new_content" | "screenshot" | "screenshot_path" | "set_of_marks"
            | "dom_object" | "axtree_object" | "extra_element_properties" | "openhands_version" | "agent_class"
    }

    /// The provider's reply, once beside each event that came of it.
    struct Metadata in "openhands.tool_call_metadata" {
        function_name: String = "function_name",
        tool_call_id: String = "tool_call_id",
        model_response: Box<RawValue> = "model_response",
    }

    struct Response in "openhands.model_response" {
        id: String = "id",
        model: String = "model",
        choices: List<Choice> = "choices",
        usage: Box<LoggedUsage> = "usage",
    }

    struct Choice in "openhands.choice" {
        message: Message = "message",
    }

    struct ReasoningItem in "openhands.reasoning_item" {
        summary: Content = "summary",
        content: Content = "content",
    }

    /// How a command ended, and what a shell writes around its output.
    struct Shell in "openhands.metadata" {
        exit_code: Scalar = "exit_code",
        prefix: String = "prefix",
        suffix: String = "suffix",
        working_dir: String = "working_dir",
        interpreter: String = "py_interpreter_path",
    }
}

/// An entry of a history: an event, or a pair of them.
pub(crate) struct Item(pub(crate) Vec<Logged>);

impl<'de> Deserialize<'de> for Item {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = <&RawValue>::deserialize(deserializer)?.get();
        let events = match raw.starts_with('[') {
            true => serde_json::from_str::<List<Logged>>(raw).map(|pair| pair.0),
            false => serde_json::from_str(raw).map(|event| vec![event]),
        };
        events.map(Item).map_err(de::Error::custom)
    }
}

/// A reply of the model, or the part of it that one event has.
#[derive(Default)]
pub(super) struct Reply {
    /// Events with the same one are one reply.
    pub(super) response: Option<String>,
    pub(super) thoughts: Vec<String>,
    pub(super) text: String,
    pub(super) calls: Vec<Call>,
    pub(super) usage: Option<Usage>,
    pub(super) model: Option<String>,
}

/// What the model met.
pub(super) enum Body {
    System(String),
    Tools(String),
    User(String),
    Notice(String),
    Reply(Reply),
    Result(Outcome),
    Condensation {
        ids: Vec<String>,
        /// From and to, both of them gone.
        range: Option<(u64, u64)>,
        summary: String,
    },
}

/// What a tool said.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) id: Option<String>,
    pub(super) tool: Option<String>,
    pub(super) text: String,
    pub(super) is_error: Option<bool>,
    pub(super) is_by_user: bool,
    /// It answers no call, as the log says.
    pub(super) is_alone: bool,
}

/// Where sub-agents begin and end.
#[derive(PartialEq)]
pub(super) enum Bound {
    None,
    Begin(String),
    End,
}

/// Reads one event after the other.
#[derive(Default)]
pub(super) struct Events {
    /// The ids of what the user did.
    done_by_user: HashSet<String>,
    /// A message was the user's, where events have no source.
    user_spoke: bool,
}

impl Events {
    /// What the model met of an event, and whether a sub-agent begins behind it or ends before it.
    pub(super) fn read(&mut self, mut event: Logged, losses: &mut Losses) -> (Vec<Body>, Bound) {
        let name = |raw: Option<Box<RawValue>>| raw.map(|raw| fields::words_of(raw.get()));
        if let Some(action) = name(event.action.take()) {
            let bound = match action.as_str() {
                "delegate" => {
                    let fields = event.args.as_ref().map_or(&event.rest, |args| &args.rest);
                    let agent = fields.0.iter().find(|(key, _)| key == "agent");
                    Bound::Begin(agent.map_or("delegate".to_owned(), |(_, raw)| fields::words_of(raw.get())))
                }
                _ => Bound::None,
            };
            return (self.action(&action, event, losses), bound);
        }
        match name(event.observation.take()) {
            Some(observation) => {
                let bound = if observation == "delegate" { Bound::End } else { Bound::None };
                (self.observation(&observation, event, losses), bound)
            }
            None => (left_out("without a name", losses), Bound::None),
        }
    }

    fn action(&mut self, name: &str, mut event: Logged, losses: &mut Losses) -> Vec<Body> {
        let mut fields = event.args.take().map_or_else(|| std::mem::take(&mut event.rest), |args| args.rest);
        let is_user = match event.source.as_deref() {
            Some(source) => source == "user",
            // Without sources the first message is the task; the agent's own go with commands.
            None => name == "message" && !std::mem::replace(&mut self.user_spoke, true),
        };
        match name {
            "system" => {
                let tools = fields.take("tools").filter(|tools| tools.get().len() > 4);
                let tools = tools.map(|tools| Body::Tools(tools.get().to_owned()));
                tools.into_iter().chain([Body::System(fields.take_text("content"))]).collect()
            }
            "recall"
            | "null"
            | "change_agent_state"
            | "condensation_request"
            | "loop_recovery"
            | "pause"
            | "resume"
            | "stop"
            | "start" => left_out(name, losses),
            "condensation" => vec![condensation(&mut fields)],
            "message" => {
                let text = with_images(&mut fields, losses);
                match event.source.as_deref() {
                    _ if is_user => vec![Body::User(text)],
                    Some("environment") => vec![Body::Notice(text)],
                    _ => vec![Body::Reply(Reply {
                        text,
                        ..reply_of(event.metadata, losses).unwrap_or_default()
                    })],
                }
            }
            _ if is_user && event.metadata.is_none() => {
                self.done_by_user.extend(event.id.map(|id| id.0));
                match name {
                    "run" => vec![Body::User(format!(
                        "User executed the command:\n{}",
                        fields.take_text("command")
                    ))],
                    _ => vec![Body::User(format!("[{name}] {}", fields.words()))],
                }
            }
            _ => vec![Body::Reply(call_of(name, event.id, event.metadata, fields, losses))],
        }
    }

    fn observation(&mut self, name: &str, mut event: Logged, losses: &mut Losses) -> Vec<Body> {
        let is_flat = event.id.is_none();
        let mut extras = event.extras.take().map(|extras| extras.rest).unwrap_or_default();
        extras.0.append(&mut event.rest.0);
        let cause = event.cause.map(|id| id.0).filter(|id| !id.is_empty());
        let mut outcome = Outcome::default();
        let content = extras.take_text("content");
        match name {
            "agent_state_changed" | "null" | "loop_detection" => return left_out(name, losses),
            "recall" => return recalled(extras, losses),
            "condense" => return vec![Body::Notice(content)],
            "run" => {
                let shell: Shell = extras.take_as("metadata").unwrap_or_default();
                let code = shell.exit_code.or(extras.take_as("exit_code"));
                outcome.is_error = failed(code);
                outcome.text = in_shell(content, shell);
            }
            "error" => {
                outcome.is_error = Some(true);
                outcome.text = content + "\n[Error occurred in processing last action]";
            }
            "user_rejected" => {
                outcome.is_error = Some(true);
                outcome.text =
                    format!("OBSERVATION:\n{content}\n[Last action has been rejected by the user]");
            }
            // The output of its own in the place of the diff: what the model got.
            "edit" => {
                let formatted = extras.take_text("formatted_output_and_error");
                outcome.text = if formatted.is_empty() { content } else { formatted };
            }
            "delegate" if content.is_empty() => outcome.text = extras.take_text("outputs"),
            _ => outcome.text = content,
        }
        if name != "error" {
            let success = event.success.and_then(|is| is.truth("success", losses));
            outcome.is_error = success.map(|is| !is).or(outcome.is_error);
        }
        if cause.as_ref().is_some_and(|cause| self.done_by_user.contains(cause)) {
            return vec![Body::Notice(format!(
                "Observed result of command executed by user:\n{}",
                outcome.text
            ))];
        }
        outcome.id = event.metadata.and_then(|metadata| metadata.tool_call_id).or(cause);
        outcome.is_alone = outcome.id.is_none() && !is_flat;
        vec![Body::Result(outcome)]
    }
}

pub(super) fn left_out(name: &str, losses: &mut Losses) -> Vec<Body> {
    let name: String = name.chars().take(40).collect();
    losses.add(&format!("event of the harness left out: {name}"));
    Vec::new()
}

/// Whether an exit code says that a command failed; a command that still runs has none.
pub(super) fn failed(code: Option<Scalar>) -> Option<bool> {
    match code? {
        Scalar::Number(code) if code >= 0.0 => Some(code != 0.0),
        _ => None,
    }
}

/// The output of a command as the model gets it.
pub(super) fn in_shell(content: String, shell: Shell) -> String {
    let mut text = shell.prefix.unwrap_or_default() + &content + shell.suffix.as_deref().unwrap_or("");
    let mut note = |what: &str, value: String| {
        if !value.is_empty() {
            text += &format!("\n[{what}{value}]");
        }
    };
    note("Current working directory: ", shell.working_dir.unwrap_or_default());
    note("Python interpreter: ", shell.interpreter.unwrap_or_default());
    if let Some(Scalar::Number(code)) = shell.exit_code.filter(|code| *code != Scalar::Number(-1.0)) {
        note("Command finished with exit code ", code.to_string());
    }
    text
}

/// The text of a message; its pictures are told by their places.
fn with_images(fields: &mut Rest, losses: &mut Losses) -> String {
    let mut text = fields.take_text("content");
    let images = fields.take("image_urls").or(fields.take("images_urls"));
    let images: Vec<String> = images.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    for image in images {
        losses.add("media replaced by a placeholder");
        let place = if image.len() < 300 { image } else { format!("{} bytes", image.len()) };
        text += &format!("\n[image {place}]");
    }
    text
}

fn condensation(fields: &mut Rest) -> Body {
    let ids: List<Name> = fields.take_as("forgotten_event_ids").unwrap_or_default();
    let mut end = |key: &str| fields.take_as::<Scalar>(key).and_then(Scalar::count);
    let range = end("forgotten_events_start_id").zip(end("forgotten_events_end_id"));
    Body::Condensation {
        ids: ids.0.into_iter().map(|id| id.0).collect(),
        range,
        summary: fields.take_text("summary"),
    }
}

/// What is put before the model on a recall; the words of the template around it are not logged.
fn recalled(mut extras: Rest, losses: &mut Losses) -> Vec<Body> {
    record! {
        struct Knowledge in "openhands.knowledge" {
            name: String = "name",
            trigger: String = "trigger",
            content: String = "content",
        }
    }
    extras.take("recall_type");
    let knowledge: List<Knowledge> = extras.take_as("microagent_knowledge").unwrap_or_default();
    let told = knowledge.0.into_iter().map(|one| {
        let trigger = one.trigger.unwrap_or_default();
        format!("{} ({trigger}): {}", one.name.unwrap_or_default(), one.content.unwrap_or_default())
    });
    let words = extras.words();
    let parts: Vec<String> = [words].into_iter().chain(told).filter(|part| !part.is_empty()).collect();
    if parts.is_empty() {
        return left_out("recall", losses);
    }
    losses.add("recalled knowledge without the words of its template");
    vec![Body::Notice(parts.join("\n"))]
}

/// The reply that an event came of, without its calls; none where it is not logged.
fn reply_of(metadata: Option<Metadata>, losses: &mut Losses) -> Option<Reply> {
    let raw = metadata?.model_response?;
    let response: Response = serde_json::from_str(raw.get()).ok()?;
    let message = response.choices.unwrap_or_default().0.into_iter().next()?.message?;
    let mut reply = Reply {
        response: response.id.filter(|id| !id.is_empty()),
        usage: response.usage.and_then(|usage| usage.usage()),
        model: response.model,
        calls: message.calls(),
        ..Reply::default()
    };
    reply.thoughts.extend(message.reasoning.map(|content| content.into_text(losses)));
    reply.text = message.content.unwrap_or_default().into_text(losses);
    Some(reply)
}

/// The reply behind an action, with the call of this action alone.
fn call_of(
    name: &str,
    id: Option<Name>,
    mut metadata: Option<Metadata>,
    mut fields: Rest,
    losses: &mut Losses,
) -> Reply {
    let call_id = metadata.as_mut().and_then(|m| m.tool_call_id.take());
    let tool = metadata.as_mut().and_then(|m| m.function_name.take());
    let mut reply = reply_of(metadata, losses).unwrap_or_default();
    let thought = fields.take_text("thought");
    if reply.text.is_empty() && reply.thoughts.is_empty() && name != "think" {
        reply.text = thought;
    } else if name == "think" {
        fields.add("thought", thought);
    }
    let logged =
        std::mem::take(&mut reply.calls).into_iter().find(|call| call_id.is_some() && call.id == call_id);
    let call = logged.unwrap_or_else(|| {
        fields.0.retain(|(_, raw)| !matches!(raw.get(), "null" | "\"\"" | "[]" | "{}"));
        let id = call_id.or(id.map(|id| id.0));
        Call::new(id, tool.unwrap_or_else(|| name.to_owned()), fields.into_raw().get().to_owned())
    });
    reply.calls.push(call);
    reply
}
