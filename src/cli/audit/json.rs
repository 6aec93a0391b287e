//! The answer of `trajpress audit` as JSON.

use serde_json::{Value, json};

use super::{dollars, is_first_known, time};
use crate::audit::{Audit, Change, Compaction, CountedBy, Lost, NameAlone, Past, Perhaps, Unsent};
use crate::store::TrajectoryRow;

fn lost_as_json(lost: &Lost) -> Value {
    let Lost { atom, line, stood, seen, needed, n_steps } = lost;
    json!({
        "what": atom, "line": line, "stood_at": stood, "last_seen_at": seen, "used_at": needed, "steps_that_named_it": n_steps,
    })
}

pub(super) fn as_json(told: &[(&TrajectoryRow, &Audit)], n_sessions: usize) -> Value {
    let change = |row: &TrajectoryRow, change: &Change| {
        let again = change.again.iter();
        let lost = change.lost.iter().map(lost_as_json);
        let perhaps = change.perhaps.iter().map(|Perhaps { lost, is_of_file }| {
            let mut value = lost_as_json(lost);
            value["stood_in_a_file"] = json!(is_of_file);
            value
        });
        json!({
            "turn": change.turn, "time": change.time.map(time), "prompt_before": change.before, "prompt_after": change.after,
            "billed": change.is_billed, "counted_last_before": change.counted.map(|(turn, tokens)| json!({"turn": turn, "tokens": tokens})), "logged_before": change.logged[0], "logged_after": change.logged[1], "shorter": change.is_shorter, "cost_of_lost_cache": dollars(row, change.cost),
            "paid_after_calls": change.paid_after.filter(|n| *n <= change.n_left), "calls_left": change.n_left,
            "steps": change.n_steps, "lost": lost.collect::<Vec<_>>(), "lost_as_far_as_logged": perhaps.collect::<Vec<_>>(),
            "read_again": again.map(|a| json!({"path": a.path, "before": a.before, "turn": a.turn, "tokens": a.tokens, "cost": dollars(row, a.cost)})).collect::<Vec<_>>(),
        })
    };
    let compaction = |row: &TrajectoryRow, of: &Compaction| {
        let mut value = change(row, &of.change);
        value.as_object_mut().expect("an object").extend(past(&of.past));
        let cost = of.summary_cost.and_then(|cost| dollars(row, cost));
        value["cost_of_summary"] = json!(cost.filter(|_| of.is_summary_cost_logged));
        value["cost_of_summary_at_most"] = json!(cost);
        let paid = of.paid_with_summary.filter(|n| *n <= of.change.n_left);
        value["paid_after_calls_with_summary"] = json!(paid);
        let names_alone = of.names_alone.iter().map(|NameAlone { lost, named }| {
            let mut value = lost_as_json(lost);
            value["named_at"] = json!(named);
            value
        });
        value["used_with_the_name_alone"] = names_alone.collect();
        value["prompt_after_not_in_the_log"] = json!(of.unlogged);
        value["is_prompt_after_in_the_log"] = json!(is_first_known(of));
        value["read_again_as_far_as_logged"] =
            if is_first_known(of) { json!([]) } else { value["read_again"].clone() };
        for (key, at_most) in UNTOLD {
            let is_told = match key {
                "named_nowhere_before" => of.past.is_shown,
                _ => of.past.is_shown || !is_empty(&value[key]),
            };
            let is_known = match at_most {
                None => true,
                // Where at most nothing is, nothing is.
                Some(at_most) => is_first_known(of) || is_empty(&value[at_most]),
            };
            if !(is_told && is_known) {
                value[key] = Value::Null;
            }
        }
        value
    };
    let sessions = told.iter().map(|(row, audit)| {
        let falls = audit.falls.iter().map(|fall| {
            json!({"turn": fall.turn, "time": fall.time.map(time), "prompt_before": fall.before, "prompt_after": fall.after, "another_model_answered": fall.is_other_model})
        });
        let clears = audit.clears.iter().map(|of| {
            json!({"turn": of.turn, "time": of.time.map(time), "prompt_before": of.before, "prompt_after": of.after, "billed": of.is_billed})
        });
        json!({
            "session": row.trajectory, "source": row.source, "format": row.format, "model": row.model,
            "compactions": audit.compactions.iter().map(|of| compaction(row, of)).collect::<Vec<_>>(),
            "compactions_without_a_call_behind": audit.unsent.iter().map(|of| unsent(row, of)).collect::<Vec<_>>(),
            "cleared_by_the_user": clears.collect::<Vec<_>>(),
            "edits": audit.edits.iter().map(|of| change(row, of)).collect::<Vec<_>>(),
            "fell_without_a_record": falls.collect::<Vec<_>>(), "begun_anew": audit.n_cleared,
        })
    });
    json!({ "sessions_read": n_sessions, "sessions": sessions.collect::<Vec<_>>() })
}

fn is_empty(value: &Value) -> bool {
    value.as_array().is_none_or(Vec::is_empty)
}

/// What became of a past.
fn past(of: &Past) -> serde_json::Map<String, Value> {
    let words = of.words.iter();
    let words =
        words.map(|words| json!({"turn": words.turn, "text": words.text, "pasted_lines": words.n_pasted}));
    let value = json!({
        "summary_tokens": of.summary_tokens, "kept_tokens": of.kept_tokens, "prompt_before_in_the_log": of.shown,
        "named": of.n_named, "named_nowhere_before": of.invented, "user_words_gone": words.collect::<Vec<_>>(),
    });
    value.as_object().expect("an object").clone()
}

fn unsent(row: &TrajectoryRow, of: &Unsent) -> Value {
    let mut value = json!({
        "turn": of.turn, "time": of.time.map(time), "prompt_before": of.before, "billed": of.counted_by == CountedBy::Provider,
        "counted_by": match of.counted_by { CountedBy::Provider => "provider", CountedBy::Record => "record", CountedBy::Us => "trajpress" },
        "logged_before": of.logged[0], "logged_after": of.logged[1],
        "cost_of_summary": of.summary_cost.and_then(|cost| dollars(row, cost)),
        "is_followed_by_another": of.is_followed, "steps": of.past.n_steps,
    });
    value.as_object_mut().expect("an object").extend(past(&of.past));
    if !of.past.is_shown {
        value["named_nowhere_before"] = Value::Null;
        if is_empty(&value["user_words_gone"]) {
            value["user_words_gone"] = Value::Null;
        }
    }
    value
}

/// What cannot be told where the log does not show what was replaced, but for what it does show; and for what the first prompt must be in
/// the log, too, what is told in its place.
const UNTOLD: [(&str, Option<&str>); 5] = [
    ("lost", Some("lost_as_far_as_logged")),
    ("read_again", Some("read_again_as_far_as_logged")),
    ("used_with_the_name_alone", Some("used_with_the_name_alone")),
    ("named_nowhere_before", None),
    ("user_words_gone", None),
];

/// Texts of logs, by the keys that they stand at.
const OF_LOGS: [&str; 7] = ["session", "source", "what", "line", "path", "text", "named_nowhere_before"];

/// Leaves out all text of the logs: lists have lengths, turns and numbers alone.
pub(super) fn without_text(value: &mut Value) {
    match value {
        Value::Object(of) => {
            if let Some(named) = of.get("named_nowhere_before").and_then(Value::as_array) {
                let n = named.len();
                of.insert("n_named_nowhere_before".to_owned(), json!(n));
            }
            of.retain(|key, _| !OF_LOGS.contains(&key.as_str()));
            of.values_mut().for_each(without_text);
        }
        Value::Array(all) => all.iter_mut().for_each(without_text),
        _ => {}
    }
}

/// The texts of logs in it, but for the names of files that one has to find again.
pub(super) fn texts(value: &mut Value) -> Vec<&mut String> {
    match value {
        Value::String(text) => vec![text],
        Value::Array(all) => all.iter_mut().flat_map(texts).collect(),
        Value::Object(of) => {
            of.iter_mut().filter(|(key, _)| key.as_str() != "source").flat_map(|(_, of)| texts(of)).collect()
        }
        _ => Vec::new(),
    }
}
