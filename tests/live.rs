//! A live conversation through the example that docs/own.md shows, call by call.

use serde_json::{Value, json};
use trajpress::Messages;

#[path = "../examples/embed.rs"]
#[allow(dead_code, reason = "its main reads standard input")]
mod embed;

#[test]
fn the_example_compresses_a_conversation_as_it_grows() {
    let mut list = vec![
        json!({"role": "system", "content": "Be kind."}),
        json!({"role": "user", "content": "Mend it."}),
    ];
    let compressor = embed::compressor().unwrap();
    let mut saved = Vec::new();
    for i in 0..6 {
        let function = json!({"name": "bash", "arguments": format!("{{\"command\":\"cat {i}.py\"}}")});
        let call = json!([{"id": format!("toolu_{i}"), "type": "function", "function": function}]);
        list.push(json!({"role": "assistant", "content": null, "tool_calls": call}));
        let result = format!("value_{i} = {i}\n").repeat(20);
        list.push(json!({"role": "tool", "tool_call_id": format!("toolu_{i}"), "content": result}));
        let sent = embed::to_send(&compressor, &json!(list)).unwrap();
        let messages = sent.messages.as_array().unwrap();
        assert_eq!(messages.len(), list.len());
        let same = |(sent, own): (&Value, &Value)| {
            (sent["role"] == own["role"]) && sent["tool_call_id"] == own["tool_call_id"]
        };
        assert!(messages.iter().zip(&list).all(same), "{messages:#?}");
        assert_eq!(messages.last(), list.last(), "the newest result is whole");
        saved.push(sent.tokens_before - sent.tokens_after);
    }
    assert_eq!(saved[..3], [0; 3]);
    assert!(saved[3] > 0 && saved[5] > saved[4], "{saved:?}");
    let anthropic = compressor.compress(&json!(list), Messages::Anthropic).unwrap();
    assert_eq!(anthropic.messages[2]["content"][0]["tool_use_id"], "toolu_0");
}
