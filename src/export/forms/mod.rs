//! The forms in which prompts are written, one file each.

use serde_json::{Map, Value, json};

use super::messages::{Counts, Message, Prompt, name};

mod anthropic;
mod atif;
mod openai;
mod text;

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Form {
    /// Chat messages of OpenAI, which many servers take
    Openai,
    /// Messages of Anthropic
    Anthropic,
    /// Agent Trajectory Interchange Format
    Atif,
    /// Plain text, for people
    Text,
}

/// What a document says of itself.
#[derive(Clone, Debug, Default)]
pub struct About {
    pub id: String,
    pub task: Option<String>,
    pub agent: Option<String>,
    pub model: Option<String>,
}

/// A prompt as it is written.
#[derive(Debug)]
pub struct Document {
    pub body: Body,
    pub counts: Counts,
}

#[derive(Debug)]
pub enum Body {
    Json(Value),
    Text(String),
}

/// Writes a prompt; what the form has no place for is added to its notes. None where it holds no message.
pub fn document(form: Form, about: &About, prompt: &mut Prompt) -> Option<Document> {
    if form == Form::Anthropic {
        anthropic::adapt(prompt);
    }
    let is_error = |message: &Message| match message {
        Message::Reply(reply) => reply.calls.iter().filter(|call| call.is_error).count(),
        _ => 0,
    };
    let errors: usize = prompt.messages.iter().map(is_error).sum();
    if form != Form::Anthropic && errors > 0 {
        *prompt.notes.entry("mark of a failed call left out").or_default() += errors as u64;
    }
    if prompt.messages.is_empty() {
        prompt.note("prompt without messages left out");
        return None;
    }
    let counts = Counts::of(&prompt.messages);
    let body = match form {
        Form::Openai => Body::Json(openai::write(about, prompt)),
        Form::Anthropic => Body::Json(anthropic::write(about, prompt)),
        Form::Atif => Body::Json(atif::write(about, prompt)),
        Form::Text => Body::Text(text::write(&prompt.messages)),
    };
    Some(Document { body, counts })
}

impl About {
    /// The beginning of a document.
    fn head(&self) -> Map<String, Value> {
        let mut head = Map::from_iter([("id".to_owned(), Value::from(self.id.clone()))]);
        let texts = [("task_id", &self.task), ("model", &self.model)];
        head.extend(texts.into_iter().filter_map(|(key, text)| Some((key.to_owned(), text.clone()?.into()))));
        head
    }
}

/// Noted where a tool is called that neither the prompt nor the log describes.
pub const ADDED_TOOL: &str = "tool without a schema described as taking anything";

/// A tool as APIs describe it.
struct Tool {
    name: String,
    description: Value,
    schema: Value,
    /// Whether the log or the prompt does not have it.
    is_added: bool,
}

impl Tool {
    /// One of which the name alone is known.
    fn unknown(name: &str) -> Self {
        let schema = json!({"type": "object", "properties": {}});
        Tool { name: name.to_owned(), description: "".into(), schema, is_added: true }
    }
}

/// The tools of a prompt, whosever form they are in; those in none are left out and noted.
fn tools(prompt: &mut Prompt) -> Vec<Tool> {
    let all = prompt.tools.take().and_then(|tools| tools.as_array().cloned()).unwrap_or_default();
    let (mut read, mut unread) = (Vec::new(), 0);
    for tool in &all {
        let own = tool.get("function").unwrap_or(tool);
        let schema = ["parameters", "input_schema"].iter().find_map(|key| own.get(*key));
        match own.get("name").and_then(Value::as_str) {
            Some(tool) => read.push(Tool {
                name: name(tool),
                description: own
                    .get("description")
                    .filter(|text| text.is_string())
                    .cloned()
                    .unwrap_or("".into()),
                schema: schema
                    .filter(|schema| schema.is_object())
                    .cloned()
                    .unwrap_or_else(|| json!({"type": "object", "properties": {}})),
                is_added: false,
            }),
            None => unread += 1,
        }
    }
    if unread > 0 {
        *prompt.notes.entry("tool of no known form left out").or_default() += unread;
    }
    read
}

/// A tool in the form of OpenAI.
fn function(tool: Tool) -> Value {
    json!({"type": "function", "function":
        {"name": tool.name, "description": tool.description, "parameters": tool.schema}})
}
