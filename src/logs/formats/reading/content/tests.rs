//! Tests of `content`.

use super::*;

fn text(json: &str) -> (String, Losses) {
    let mut losses = Losses::default();
    let content: Content = serde_json::from_str(json).unwrap();
    (content.into_text(&mut losses), losses)
}

#[test]
fn contents_of_all_kinds() {
    assert_eq!(text("null").0, "");
    assert_eq!(text("\"a\\nb\"").0, "a\nb");
    assert_eq!(text(r#"[{"type":"text","text":"a"},"b",null]"#).0, "a\nb");
    assert_eq!(text("7").0, "7");
    assert_eq!(text(r#"{"type":"text","text":"a"}"#).0, "a");
}

#[test]
fn media_become_placeholders() {
    let (t, losses) = text(r#"[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAABBBB"}}]"#);
    assert_eq!(t, "[image image/png 6 bytes]");
    assert_eq!(losses.0.values().sum::<u64>(), 1);
    let (t, _) =
        text(r#"[{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AAAABBBB"}}]"#);
    assert_eq!(t, "[image image/jpeg 6 bytes]");
    let (t, _) = text(r#"[{"type":"image_url","image_url":"https://example.org/a.png"}]"#);
    assert_eq!(t, "[image https://example.org/a.png]");
}

#[test]
fn what_has_no_rule_keeps_its_words_and_its_type() {
    let (t, losses) = text(
        r#"[{"type":"search_result","source":"https://a.b/c","title":"T","content":[{"type":"text","text":"found"}]},
                {"type":"odd","id":"1"},{"type":"document","source":{"type":"text","media_type":"text/plain","data":"plain words"}}]"#,
    );
    assert_eq!(t, "[search_result] found\nhttps://a.b/c\ntitle: T\nplain words");
    assert_eq!(losses.0["block without a rule kept as text: search_result"], 1);
    assert_eq!(losses.0["block without text: odd"], 1);
    assert_eq!(losses.0.len(), 2);
}

#[test]
fn calls_in_all_styles() {
    let json = r#"[{"id":"1","function":{"name":"f","arguments":"{\"a\":1}"}},
            {"id":"2","name":"g","args":{"b": 2}}, "{\"id\":\"3\",\"function\":{\"name\":\"h\",\"arguments\":{}}}"]"#;
    let calls: ToolCalls = serde_json::from_str(json).unwrap();
    let parts: Vec<_> = calls.0.into_iter().map(ToolCall::into_parts).collect();
    let part = |i: &str, n: &str, a: &str| (Some(i.to_owned()), n.to_owned(), a.to_owned());
    assert_eq!(parts, [part("1", "f", "{\"a\":1}"), part("2", "g", "{\"b\": 2}"), part("3", "h", "{}")]);
}
