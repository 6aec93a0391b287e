//! OpenTelemetry spans of calls of models: OTLP in JSON, and lists or lines of spans as the SDKs of JavaScript and Python
//! write them. Attributes may follow OpenTelemetry's GenAI conventions (messages as attributes, as numbered keys, or as events),
//! OpenInference, or the Vercel AI SDK ([`attributes`]).
//!
//! All traces of a conversation (`gen_ai.conversation.id`) are one; what a trace holds becomes runs in
//! [`spans`](super::reading::spans). Spans that are neither a call, a tool nor an agent are left out and counted.

use std::collections::HashMap;

use serde_json::Value;

mod attributes;

use attributes::Attributes;

use super::reading::draft::Losses;
use super::reading::scalar::Scalar;
use super::reading::spans::{Span, Trace, What};
use super::reading::{List, record};
use super::{Entry, Origin, Reading, Session, Sink};
use crate::trajectory::Trajectory;

pub(super) const ENTRY: Entry = Entry {
    name: "otel",
    summary: "OpenTelemetry spans of calls of models (GenAI, OpenInference, Vercel AI SDK)",
    reading: Reading::Session { open: || Box::<Spans>::default(), origin: |_, _| Origin::None },
};

record! {
    struct Batch in "otel" {
        resources: List<Resource> = "resourceSpans" | "resource_spans",
        list: List<Logged> = "spans",
    }

    struct Resource in "otel.resource" {
        scopes: List<Scope> = "scopeSpans" | "scope_spans" | "instrumentationLibrarySpans",
    }

    struct Scope in "otel.scope" {
        spans: List<Logged> = "spans",
    }

    struct Logged in "otel.span" {
        name: String = "name",
        trace: String = "traceId" | "trace_id",
        id: String = "spanId" | "span_id",
        parent: String = "parentSpanId" | "parent_id" | "parent_span_id",
        context: Context = "spanContext" | "context" | "_spanContext",
        parent_context: Context = "parentSpanContext",
        start: Value = "startTimeUnixNano" | "startTime" | "start_time" | "start_time_unix_nano",
        status: Status = "status",
        attributes: Value = "attributes",
        events: List<Event> = "events",
    }

    struct Context in "otel.context" {
        trace: String = "traceId" | "trace_id",
        id: String = "spanId" | "span_id",
    }

    struct Status in "otel.status" {
        code: Value = "code" | "status_code",
        message: String = "message" | "description",
    }

    struct Event in "otel.event" {
        name: String = "name",
        attributes: Value = "attributes",
    }
}

#[derive(Default)]
struct Spans {
    traces: Vec<OfTrace>,
    by_id: HashMap<String, usize>,
    losses: Losses,
}

#[derive(Default)]
struct OfTrace {
    id: String,
    conversation: Option<String>,
    agent: Option<String>,
    /// That of the agent, where no call is logged.
    model: Option<String>,
    trace: Trace,
}

impl Session for Spans {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        if bytes.trim_ascii_start().starts_with(b"[") {
            let spans: List<Logged> = serde_json::from_slice(bytes)?;
            spans.0.into_iter().for_each(|span| self.add(span));
            return Ok(());
        }
        let batch: Batch = serde_json::from_slice(bytes)?;
        if batch.resources.is_none() && batch.list.is_none() {
            self.add(serde_json::from_slice(bytes)?);
            return Ok(());
        }
        let resources = batch.resources.unwrap_or_default().0.into_iter();
        let scopes = resources.flat_map(|resource| resource.scopes.unwrap_or_default().0);
        let spans = scopes.flat_map(|scope| scope.spans.unwrap_or_default().0);
        spans.chain(batch.list.unwrap_or_default().0).for_each(|span| self.add(span));
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        sink.losses.merge(&self.losses);
        let mut whole: Vec<OfTrace> = Vec::new();
        let mut by_conversation: HashMap<String, usize> = HashMap::new();
        for of in self.traces {
            let first = of.conversation.clone().map(|id| *by_conversation.entry(id).or_insert(whole.len()));
            match first.and_then(|first| whole.get_mut(first)) {
                Some(whole) => {
                    whole.agent = whole.agent.take().or(of.agent);
                    whole.model = whole.model.take().or(of.model);
                    whole.trace.spans.extend(of.trace.spans);
                }
                None => whole.push(of),
            }
        }
        for of in whole {
            let id = Some(of.conversation.unwrap_or(of.id));
            let about = Trajectory { agent: of.agent, model: of.model, ..Trajectory::default() };
            of.trace.finish(about.of_session(id, ""), sink);
        }
    }
}

impl Spans {
    fn add(&mut self, span: Logged) {
        let context = span.context.unwrap_or_default();
        let trace = span.trace.or(context.trace).unwrap_or_default();
        let parent = span.parent.or(span.parent_context.and_then(|parent| parent.id));
        let mut attributes = Attributes::of(span.attributes.unwrap_or_default());
        for event in span.events.unwrap_or_default().0 {
            attributes.add_event(&event.name.unwrap_or_default(), event.attributes.unwrap_or_default());
        }
        let status = span.status.unwrap_or_default();
        let is_failed = match &status.code {
            Some(Value::String(code)) => code.ends_with("ERROR"),
            Some(code) => code.as_u64() == Some(2),
            None => false,
        };
        let conversation = attributes.text(&["gen_ai.conversation.id", "session.id"]);
        let name = span.name.unwrap_or_default();
        let what =
            attributes.what(&name, is_failed.then(|| status.message.unwrap_or_default()), &mut self.losses);
        let agent = attributes.text(&["gen_ai.agent.name"]);
        let model = attributes.text(&["gen_ai.request.model"]).filter(|_| matches!(what, What::Agent));
        let start = span.start.and_then(|start| time(&start));
        let span = Span {
            id: span.id.or(context.id).unwrap_or_default(),
            parent: parent.filter(|id| !id.is_empty()),
            start,
            what,
        };
        let at = *self.by_id.entry(trace.clone()).or_insert_with(|| {
            self.traces.push(OfTrace { id: trace, ..OfTrace::default() });
            self.traces.len() - 1
        });
        let of = &mut self.traces[at];
        of.conversation = of.conversation.take().or(conversation);
        of.agent = of.agent.take().or(agent);
        of.model = of.model.take().or(model);
        of.trace.spans.push(span);
    }
}

/// A time as nanoseconds, as `[seconds, nanoseconds]`, or as text.
fn time(value: &Value) -> Option<i64> {
    match value {
        Value::Array(parts) => match parts.as_slice() {
            [seconds, nanos] => seconds.as_i64()?.checked_mul(1_000_000)?.checked_add(nanos.as_i64()? / 1000),
            _ => None,
        },
        Value::String(text) => Scalar::of_text(text).time(&mut Losses::default()),
        Value::Number(number) => Scalar::Number(number.as_f64()?).time(&mut Losses::default()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
