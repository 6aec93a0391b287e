//! Compression points of annotations, in the forms that people write.

use serde_json::value::{RawValue, Value};

use super::draft::Losses;

#[derive(serde::Deserialize)]
struct Points<'a> {
    #[serde(borrow)]
    compression_points: Option<&'a RawValue>,
}

/// The text of annotations in which `compression_points` is a list of numbers of messages; the rest of
/// the text stays as it is. `6.0`, `"6"` and `{"step": 6}` count as 6; what else stands there is dropped.
pub(crate) fn with_clean_points(text: &str, losses: &mut Losses) -> String {
    let found = serde_json::from_str::<Points<'_>>(text).ok().and_then(|p| p.compression_points);
    let Some(raw) = found.filter(|raw| serde_json::from_str::<Vec<u32>>(raw.get()).is_err()) else {
        return text.to_owned();
    };
    let entries = match serde_json::from_str(raw.get()) {
        Ok(Value::Array(entries)) => entries,
        Ok(entry) => vec![entry],
        Err(_) => Vec::new(),
    };
    let points: Vec<u32> = entries.iter().filter_map(point).collect();
    losses.add_n("unusable compression point left out", (entries.len() - points.len()) as u64);
    let start = raw.get().as_ptr() as usize - text.as_ptr() as usize;
    let list: Vec<String> = points.iter().map(u32::to_string).collect();
    format!("{}[{}]{}", &text[..start], list.join(","), &text[start + raw.get().len()..])
}

/// The message that an entry of `compression_points` means.
fn point(entry: &Value) -> Option<u32> {
    match entry {
        Value::Number(n) => {
            let n = n.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(n))?;
            Some(n as u32)
        }
        Value::String(text) => text.trim().parse().ok(),
        Value::Object(fields) => point(fields.get("step").filter(|step| !step.is_object())?),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compression_points_are_cleaned() {
        let mut losses = Losses::default();
        let text =
            r#"{"b":1.50,"compression_points": [3, 6.0,"7",{"step":8},-1,2.5,"x",null,9e9,[1]],"a":[ ]}"#;
        assert_eq!(
            with_clean_points(text, &mut losses),
            r#"{"b":1.50,"compression_points": [3,6,7,8],"a":[ ]}"#
        );
        assert_eq!(losses.0["unusable compression point left out"], 6);
        for clean in [r#"{"compression_points":[ 1, 2 ]}"#, "{}", "7", r#"{"compression_points":null}"#] {
            assert_eq!(with_clean_points(clean, &mut losses), clean);
        }
    }
}
