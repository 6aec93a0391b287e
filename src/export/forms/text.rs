//! Plain text: each message under a word for who speaks, with a blank line behind it.

use serde_json::Value;

use super::super::messages::Message;

pub(super) fn write(messages: &[Message]) -> String {
    let mut all = String::new();
    let mut say = |who: &str, text: &str| all += &format!("{who}: {}\n\n", text.replace("\r\n", "\n"));
    for message in messages {
        let reply = match message {
            Message::System(text) => {
                say("System", text);
                continue;
            }
            Message::User(text) => {
                say("User", text);
                continue;
            }
            Message::Reply(reply) => reply,
        };
        if !reply.text.is_empty() {
            say("Agent", &reply.text);
        }
        for call in &reply.calls {
            say(&format!("Call of {}", call.name), &Value::Object(call.arguments.clone()).to_string());
            say("Result", &call.result);
        }
    }
    all
}
