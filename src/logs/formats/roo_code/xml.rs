//! Calls of the older dialect: `<read_file><path>a</path></read_file>` in the text of a reply, and
//! `[read_file for 'a'] Result:` before what came of it.

use serde_json::{Map, Value};

/// The tools of Roo Code and Cline. Other elements in a text are text.
const TOOLS: [&str; 33] = [
    "access_mcp_resource",
    "act_mode_respond",
    "apply_diff",
    "apply_patch",
    "ask_followup_question",
    "attempt_completion",
    "browser_action",
    "codebase_search",
    "condense",
    "edit_file",
    "execute_command",
    "fetch_instructions",
    "generate_image",
    "insert_content",
    "list_code_definition_names",
    "list_files",
    "load_mcp_documentation",
    "new_rule",
    "new_task",
    "plan_mode_respond",
    "read_file",
    "replace_in_file",
    "report_bug",
    "run_slash_command",
    "search_and_replace",
    "search_files",
    "summarize_task",
    "switch_mode",
    "update_todo_list",
    "use_mcp_tool",
    "web_fetch",
    "web_search",
    "write_to_file",
];

/// A part of the text of a reply.
#[derive(Debug, PartialEq)]
pub(super) enum Part<'a> {
    Text(&'a str),
    Call { tool: &'a str, arguments: String },
}

/// Cuts a text at its calls.
pub(super) fn parts(text: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let (mut rest, mut at) = (text, 0);
    while let Some(open) = memchr::memchr(b'<', &rest.as_bytes()[at..]).map(|found| at + found) {
        let name = rest[open + 1..].split_once('>').map_or("", |(name, _)| name);
        let close = format!("</{name}>");
        let body = open + name.len() + 2;
        let end = match TOOLS.contains(&name) {
            // What is written to a file may itself hold such elements.
            true if WRITE.contains(&name) => rest[body..].rfind(&close),
            true => rest[body..].find(&close),
            false => None,
        };
        let Some(end) = end.map(|end| body + end) else {
            at = open + 1;
            continue;
        };
        if !rest[..open].trim().is_empty() {
            parts.push(Part::Text(&rest[..open]));
        }
        parts.push(Part::Call { tool: &rest[open + 1..body - 1], arguments: arguments(&rest[body..end]) });
        rest = &rest[end + close.len()..];
        at = 0;
    }
    if !rest.trim().is_empty() {
        parts.push(Part::Text(rest));
    }
    parts
}

/// Tools that write texts.
const WRITE: [&str; 6] =
    ["apply_diff", "apply_patch", "edit_file", "insert_content", "replace_in_file", "write_to_file"];

/// The elements in a call as an object; where there are none, what stands there.
fn arguments(body: &str) -> String {
    let mut fields = Map::new();
    let mut rest = body.trim();
    while let Some(name) = rest.strip_prefix('<').and_then(|rest| rest.split_once('>')).map(|(name, _)| name)
    {
        let open = name.len() + 2;
        let Some(end) = rest.rfind(&format!("</{name}>")).filter(|end| *end >= open) else {
            break;
        };
        fields.insert(name.to_owned(), Value::from(rest[open..end].trim_matches('\n')));
        rest = rest[end + name.len() + 3..].trim_start();
    }
    if fields.is_empty() || !rest.is_empty() {
        return body.trim().to_owned();
    }
    Value::Object(fields).to_string()
}

/// Of a block with a result the tool, and what stands behind the mark.
pub(super) fn result(text: &str) -> Option<(&str, &str)> {
    let inside = text.strip_prefix('[')?;
    let name = inside.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()?;
    let (_, rest) = inside.split_once("] Result:")?;
    TOOLS.contains(&name).then(|| (name, rest.trim_start_matches([' ', '\n'])))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_cut_out_of_the_text() {
        let text = "I look.\n<read_file>\n<args><file>a</file></args>\n</read_file>\nThen <div> is text.";
        assert_eq!(
            parts(text),
            [
                Part::Text("I look.\n"),
                Part::Call { tool: "read_file", arguments: r#"{"args":"<file>a</file>"}"#.to_owned() },
                Part::Text("\nThen <div> is text.")
            ]
        );
        let write = "<write_to_file><path>x</path><content>\n</write_to_file>\n</content></write_to_file>";
        let found = parts(write);
        let [Part::Call { arguments, .. }] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(arguments, r#"{"path":"x","content":"</write_to_file>"}"#);
        // A call that is cut is text; one without elements keeps what it holds.
        assert_eq!(parts("<read_file><path>x"), [Part::Text("<read_file><path>x")]);
        let bare = parts("<switch_mode>code</switch_mode>");
        assert_eq!(bare, [Part::Call { tool: "switch_mode", arguments: "code".to_owned() }]);
        for text in ["<", "<>", "<read_file>", "</read_file>", "<read_file></read_file>", ""] {
            parts(text);
        }
    }

    #[test]
    fn results_are_told_by_their_tool() {
        assert_eq!(result("[read_file for 'a]'] Result:"), Some(("read_file", "")));
        assert_eq!(result("[new_task completed] Result: done"), Some(("new_task", "done")));
        assert_eq!(result("[other] Result: x"), None);
        assert_eq!(result("read_file] Result:"), None);
    }
}
