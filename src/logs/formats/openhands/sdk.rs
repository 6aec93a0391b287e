//! Events of the software agent SDK (v1), told by their `kind`.

use serde_json::value::RawValue;

use super::event::{Body, Logged, Outcome, Reply, left_out};
use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::fields;
use crate::logs::formats::reading::names::Name;
use crate::logs::formats::reading::reply::Call;
use crate::logs::formats::reading::scalar::Scalar;
use crate::logs::formats::reading::{Content, List, record};

record! {
    /// What a tool said; the tools of the shell have a field of their own for it.
    struct Observation in "openhands.observation" {
        content: Content = "content",
        output: Content = "output",
        is_error: Scalar = "is_error" | "error",
        shell: super::event::Shell = "metadata",
        exit_code: Scalar = "exit_code",
        .. rest but "kind" | "command" | "cmd" | "screenshot_data" | "old_content" | "new_content" | "prev_exist" | "timeout" | "path"
    }
}

/// What the model met of an event.
pub(super) fn read(kind: &str, mut event: Logged, losses: &mut Losses) -> Vec<Body> {
    let text = |content: Option<Content>, losses: &mut Losses| content.unwrap_or_default().into_text(losses);
    match kind {
        "SystemPromptEvent" => {
            let parts = [text(event.system_prompt, losses), text(event.dynamic_context, losses)];
            let parts: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
            let tools = event.rest.take("tools").filter(|tools| tools.get().len() > 4);
            let tools = tools.map(|tools| Body::Tools(tools.get().to_owned()));
            tools.into_iter().chain([Body::System(parts.join("\n"))]).collect()
        }
        "MessageEvent" => message(event, losses),
        "ActionEvent" => vec![Body::Reply(action(event, losses))],
        "ObservationEvent" => {
            let (said, is_error) = observed(event.observation, losses);
            let extended = text(event.extended_content, losses);
            let parts: Vec<String> = [said, extended].into_iter().filter(|part| !part.is_empty()).collect();
            let (id, tool) = (event.tool_call_id, event.tool_name);
            vec![Body::Result(Outcome { id, tool, text: parts.join("\n"), is_error, ..Outcome::default() })]
        }
        "UserRejectObservation" => {
            let reason = event.rest.take_text("rejection_reason");
            // A hook, or a click without words, is nobody's statement.
            let is_by_user = event.rejection_source.as_deref() != Some("hook")
                && !["", "User rejected the action"].contains(&reason.as_str());
            let (id, tool, is_error) = (event.tool_call_id, event.tool_name, Some(true));
            let text = format!("Action rejected: {reason}");
            vec![Body::Result(Outcome { id, tool, text, is_error, is_by_user, is_alone: false })]
        }
        "AgentErrorEvent" => {
            let text = event.rest.take_text("error");
            let (id, tool, is_error) = (event.tool_call_id, event.tool_name, Some(true));
            vec![Body::Result(Outcome { id, tool, text, is_error, ..Outcome::default() })]
        }
        "Condensation" => {
            let ids: List<Name> = event.rest.take_as("forgotten_event_ids").unwrap_or_default();
            let ids = ids.0.into_iter().map(|id| id.0).collect();
            vec![Body::Condensation { ids, range: None, summary: event.rest.take_text("summary") }]
        }
        "CondensationSummaryEvent" => vec![Body::Notice(event.rest.take_text("summary"))],
        _ => left_out(kind, losses),
    }
}

fn message(event: Logged, losses: &mut Losses) -> Vec<Body> {
    let message = event.llm_message.unwrap_or_default();
    let role = message.role.as_deref();
    let is_user = event.source.as_deref().or(role) == Some("user");
    let is_agent = event.source.as_deref().or(role) == Some("agent") || role == Some("assistant");
    let (mut thoughts, calls) = (Vec::new(), message.calls());
    thoughts.extend(message.reasoning.map(|content| content.into_text(losses)));
    let text = message.content.unwrap_or_default().into_text(losses);
    if is_agent {
        return vec![Body::Reply(Reply {
            response: event.llm_response_id,
            thoughts,
            text,
            calls,
            ..Reply::default()
        })];
    }
    let extended = event.extended_content.unwrap_or_default().into_text(losses);
    let mut bodies = vec![if is_user { Body::User(text) } else { Body::Notice(text) }];
    if !extended.is_empty() {
        bodies.push(Body::Notice(extended));
    }
    bodies
}

fn action(mut event: Logged, losses: &mut Losses) -> Reply {
    let mut thoughts = Vec::new();
    let reasoning = event.reasoning_content.filter(|text| !text.trim().is_empty());
    let blocks = event.thinking_blocks.map(|blocks| thinking(blocks, losses));
    let item = event.reasoning_item.map(|item| {
        let content = item.content.filter(|content| !content.is_empty()).or(item.summary);
        content.unwrap_or_default().into_text(losses)
    });
    // The same thought in the words of several providers.
    thoughts.extend([reasoning, blocks, item].into_iter().flatten().find(|text| !text.is_empty()));
    let call = event.tool_call.map(Call::of).unwrap_or_else(|| {
        let arguments = event.action.as_deref().map_or("{}", RawValue::get).to_owned();
        Call::new(None, event.tool_name.clone().unwrap_or_default(), arguments)
    });
    let call =
        Call::new(event.tool_call_id.or(call.id), event.tool_name.unwrap_or(call.tool), call.arguments);
    let thought: Content = event.rest.take_as("thought").unwrap_or_default();
    let text = thought.into_text(losses);
    Reply { response: event.llm_response_id, thoughts, text, calls: vec![call], ..Reply::default() }
}

fn thinking(blocks: Content, losses: &mut Losses) -> String {
    let Content::Blocks(blocks) = blocks else {
        return blocks.into_text(losses);
    };
    let texts: Vec<String> = blocks.into_iter().filter_map(|block| block.thinking.or(block.text)).collect();
    texts.join("\n")
}

fn observed(raw: Option<Box<RawValue>>, losses: &mut Losses) -> (String, Option<bool>) {
    let raw = raw.as_deref().map_or("{}", RawValue::get);
    let Ok(seen) = serde_json::from_str::<Observation>(raw) else {
        return (fields::words_of(raw), None);
    };
    let content = seen.content.filter(|content| !content.is_empty()).or(seen.output);
    let text = content.map_or_else(|| seen.rest.words(), |content| content.into_text(losses));
    let mut shell = seen.shell.unwrap_or_default();
    let is_error = match seen.is_error {
        Some(Scalar::Bool(is)) => Some(is),
        _ => None,
    };
    let failed = super::event::failed(shell.exit_code.or(seen.exit_code));
    shell.exit_code = shell.exit_code.or(seen.exit_code);
    (super::event::in_shell(text, shell), is_error.filter(|is| *is).or(failed).or(is_error))
}
