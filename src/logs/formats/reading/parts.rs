//! Contents in the style of Gemini: a role, and parts that are text, thoughts, calls and results.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::content::{Arguments, Media, UNKNOWN_TOOL, media_text};
use super::draft::Losses;
use super::fields::{next_item, words_of};
use super::reply::{Call, Reply};
use super::scalar::Scalar;
use super::usage::TokenCounts;
use super::{Content, Draft, record};

record! {
    /// What one of both says.
    struct Turn in "gemini.content" {
        role: String = "role",
        parts: Parts = "parts",
    }

    #[derive(Debug)]
    struct Part in "gemini.part" {
        text: String = "text",
        thought: Scalar = "thought",
        function_call: FunctionCall = "functionCall",
        function_response: FunctionResponse = "functionResponse",
        media: Media = "inlineData" | "fileData",
        .. rest but "thoughtSignature" | "thought_signature"
    }

    #[derive(Debug)]
    struct FunctionCall in "gemini.functionCall" {
        id: String = "id",
        name: String = "name",
        args: Arguments = "args",
    }

    #[derive(Debug)]
    struct FunctionResponse in "gemini.functionResponse" {
        id: String = "id",
        name: String = "name",
        response: Box<RawValue> = "response",
        parts: Parts = "parts",
    }

    struct Output in "gemini.response" {
        output: Content = "output",
        error: Content = "error",
        .. rest
    }
}

/// Parts: a list, one alone, or a text.
#[derive(Debug, Default)]
pub(crate) struct Parts(pub(crate) Vec<Part>);

impl Parts {
    fn of_text(text: &str) -> Self {
        Parts(vec![Part { text: Some(text.to_owned()), ..Part::default() }])
    }

    /// A message of the user, with results of calls in it.
    pub(crate) fn write_user(self, draft: &mut Draft) {
        let mut texts = Vec::new();
        for part in self.0 {
            match part.function_response {
                Some(response) => response.write(draft),
                None => texts.extend(part.into_text(&mut draft.losses)),
            }
        }
        if !texts.is_empty() {
            draft.user_or_harness(texts.join("\n"));
        }
    }

    /// The parts of a reply.
    pub(crate) fn write_reply(self, reply: &mut Reply, draft: &mut Draft) {
        for mut part in self.0 {
            let is_thought = part.thought.take().and_then(|is| is.truth("thought", &mut draft.losses));
            if let Some(call) = part.function_call {
                let tool = call.name.unwrap_or_else(|| UNKNOWN_TOOL.to_owned());
                let arguments = call.args.unwrap_or_default().0;
                reply.call(Call::new(call.id, tool, arguments), &mut Vec::new(), draft);
            } else if let Some(response) = part.function_response.take() {
                let (text, is_error) = response_text(response.response, response.parts, &mut draft.losses);
                reply.result(response.id.as_deref(), text, is_error, draft);
            } else if let Some(text) = part.into_text(&mut draft.losses) {
                if is_thought == Some(true) { reply.thought(text, draft) } else { reply.text(text, draft) }
            }
        }
    }

    /// All words in them.
    pub(crate) fn into_text(self, losses: &mut Losses) -> String {
        let texts: Vec<String> = self.0.into_iter().filter_map(|part| part.into_text(losses)).collect();
        texts.join("\n")
    }
}

impl Part {
    /// Whether it is a text in which nothing stands.
    pub(crate) fn is_blank(&self) -> bool {
        let is_text =
            self.function_call.is_none() && self.function_response.is_none() && self.media.is_none();
        is_text && self.rest.0.is_empty() && self.text.as_ref().is_none_or(|text| text.trim().is_empty())
    }

    fn into_text(self, losses: &mut Losses) -> Option<String> {
        if let Some(media) = self.media {
            return Some(media_text(media, losses));
        }
        if let Some(response) = self.function_response {
            return Some(response_text(response.response, response.parts, losses).0);
        }
        let words = self.rest.words();
        if !words.is_empty() {
            losses.add("part without a rule kept as text");
        }
        let texts: Vec<String> =
            self.text.into_iter().chain([words]).filter(|text| !text.is_empty()).collect();
        (!texts.is_empty()).then(|| texts.join("\n"))
    }
}

impl FunctionResponse {
    pub(crate) fn write(self, draft: &mut Draft) {
        let (text, is_error) = response_text(self.response, self.parts, &mut draft.losses);
        // Without an id the name tells the call.
        let tool = self.name.filter(|_| self.id.is_none());
        draft.result(self.id.as_deref(), tool, text, is_error);
    }
}

/// What a response says, and whether it is an error.
fn response_text(
    response: Option<Box<RawValue>>,
    parts: Option<Parts>,
    losses: &mut Losses,
) -> (String, Option<bool>) {
    let mut texts = Vec::new();
    let mut is_error = None;
    if let Some(raw) = response {
        match serde_json::from_str::<Output>(raw.get()) {
            Ok(Output { output: None, error: None, .. }) | Err(_) => texts.push(words_of(raw.get())),
            Ok(Output { output, error, rest }) => {
                is_error = error.is_some().then_some(true);
                texts.extend([output, error].into_iter().flatten().map(|c| c.into_text(losses)));
                texts.push(rest.words());
            }
        }
    }
    texts.extend(parts.map(|parts| parts.into_text(losses)));
    texts.retain(|text| !text.is_empty());
    (texts.join("\n"), is_error)
}

impl Turn {
    /// Whether it is a reply of the model.
    fn is_reply(&self) -> bool {
        matches!(self.role.as_deref(), Some("model" | "assistant"))
    }

    /// Writes what is said; a reply is a turn of its own.
    pub(crate) fn write(self, draft: &mut Draft) {
        let is_reply = self.is_reply();
        let parts = self.parts.unwrap_or_default();
        if !is_reply {
            return parts.write_user(draft);
        }
        let mut reply = Reply::begin(None, draft);
        parts.write_reply(&mut reply, draft);
        reply.end(draft);
    }
}

impl<'de> Deserialize<'de> for Parts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartsVisitor;
        impl<'de> Visitor<'de> for PartsVisitor {
            type Value = Parts;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a part or a list of parts")
            }
            fn visit_str<E>(self, text: &str) -> Result<Parts, E> {
                Ok(Parts::of_text(text))
            }
            fn visit_unit<E>(self) -> Result<Parts, E> {
                Ok(Parts::default())
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Parts, A::Error> {
                Ok(Parts(vec![Part::deserialize(de::value::MapAccessDeserializer::new(map))?]))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Parts, A::Error> {
                let mut parts = Vec::new();
                while let Some(item) = next_item::<Parts, _>(&mut seq)? {
                    parts.extend(item.0);
                }
                Ok(Parts(parts))
            }
        }
        deserializer.deserialize_any(PartsVisitor)
    }
}

record! {
    /// What Gemini counted for a reply, as the API names it and as the CLI does.
    struct GeminiUsage in "gemini.usage" {
        input: Scalar = "promptTokenCount" | "input",
        output: Scalar = "candidatesTokenCount" | "output",
        cached: Scalar = "cachedContentTokenCount" | "cached",
        thoughts: Scalar = "thoughtsTokenCount" | "thoughts",
        tool: Scalar = "toolUsePromptTokenCount" | "tool",
    }
}

impl GeminiUsage {
    /// The prompt holds the cached part; what was thought is written, too.
    pub(crate) fn usage(&self) -> Option<crate::trajectory::Usage> {
        TokenCounts {
            prompt: self.input,
            more_prompt: [self.tool, None],
            output: self.output,
            more_output: self.thoughts,
            cache_read: self.cached,
            reasoning: self.thoughts,
            ..TokenCounts::default()
        }
        .usage()
    }
}
