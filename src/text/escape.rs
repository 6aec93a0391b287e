//! Text of others in what this program writes: one function a medium.
//!
//! A log, a file name or a parameter may hold any character. What would act where it is read (on a terminal, in
//! a browser, in a spreadsheet, on the direction of the text beside it) is written so that it is only seen.
//! Parquet keeps texts as they are.

use std::fmt::Write as _;

use serde::Serialize;

/// Whether a character acts, or is not to be seen, rather than shown: control characters, those that turn the direction of
/// what follows, separators of lines, blanks without width, tags, and what is no character.
/// (The joiners U+200C and U+200D stay: words and emoji are written with them.)
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}'
            | '\u{fdd0}'..='\u{fdef}'
            | '\u{e0000}'..='\u{e0fff}')
        || (c as u32) & 0xfffe == 0xfffe
}

/// Text of several lines for a terminal: line ends and tabs stay, whatever else acts is told as `\u{1b}`.
pub fn lines(text: &str) -> String {
    told(text, |c| c == '\n' || c == '\t')
}

/// One line of it: line ends and tabs are told, too.
pub fn line(text: &str) -> String {
    told(text, |_| false)
}

fn told(text: &str, stays: impl Fn(char) -> bool) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match acts(c) && !stays(c) {
            true => out.extend(c.escape_default()),
            false => out.push(c),
        }
    }
    out
}

/// Characters of a value in a message.
const SHOWN: usize = 60;

/// A value that somebody gave, in a message: of a long one the beginning and how long it is.
pub fn short(value: &str) -> String {
    match value.chars().count() {
        0..=SHOWN => value.to_owned(),
        n => {
            value.chars().take(SHOWN / 2).chain("\u{2026} (".chars()).collect::<String>()
                + &format!("{n} characters)")
        }
    }
}

/// JSON on several lines, with a line end: what acts is written as `\u001b`, which readers of JSON undo.
pub fn json(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(json_text(&serde_json::to_string_pretty(value)?) + "\n")
}

/// The same on one line, without its end.
pub fn json_line(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(json_text(&serde_json::to_string(value)?))
}

/// Outside of strings JSON holds nothing that acts but its line ends, and in them none stands as itself.
fn json_text(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if acts(c) && c != '\n' {
            let mut units = [0; 2];
            c.encode_utf16(&mut units).iter().for_each(|unit| {
                write!(out, "\\u{unit:04x}").expect("a String takes every write");
            });
        } else {
            out.push(c);
        }
    }
    out
}

/// Text to be drawn: a mark stands for each character that acts, some of which no XML may hold.
pub fn drawn(text: &str) -> String {
    text.chars().map(|c| if acts(c) { '\u{fffd}' } else { c }).collect()
}

/// Text between the tags of XML.
pub fn xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in drawn(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            c => out.push(c),
        }
    }
    out
}

/// A field of text in CSV (RFC 4180). What a spreadsheet would compute begins with an apostrophe, which spreadsheets hide.
pub fn csv(text: &str) -> String {
    let mut field = line(text);
    if field.trim_start().starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}']) {
        field.insert(0, '\'');
    }
    if field.contains([',', '"']) || field.starts_with(' ') || field.ends_with(' ') {
        field = format!("\"{}\"", field.replace('"', "\"\""));
    }
    field
}

/// Text within a line of Markdown, such as a cell of a table: it makes no column, no link and no HTML.
pub fn markdown(text: &str) -> String {
    let told = told(text, |c| matches!(c, '\n' | '\r' | '\t'));
    let told = told.replace(['\n', '\r', '\t'], " ");
    // A backslash before a pipe would undo its escape.
    let escaped =
        told.replace("\\|", "\\&#124;").replace('|', "\\|").replace("](", "]\\(").replace("][", "]\\[");
    without_html(&escaped)
}

/// A page of Markdown that is made of the program's own words and of those of others: no HTML, nothing that acts.
pub fn page(markdown: &str) -> String {
    without_html(&lines(markdown))
}

/// `<` where a tag, a comment or a link could begin is written as an entity; `p < 0.05` stays.
fn without_html(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars().peekable();
    while let Some(c) = rest.next() {
        let opens = rest.peek().is_some_and(|n| n.is_alphabetic() || matches!(n, '/' | '!' | '?'));
        match c == '<' && opens {
            true => out.push_str("&lt;"),
            false => out.push(c),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Texts of letters and of what is dangerous somewhere.
    fn text() -> impl Strategy<Value = String> {
        let dangerous = "\u{1b}\u{0}\u{7f}\u{9b}\u{61c}\u{200b}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202e}\u{2066}\u{2069}\
             \u{feff}\u{fff9}\u{fffe}\u{ffff}\u{1fffe}\u{e0001}\u{e007f}\u{fdd0}\r\n\t,;\"'&<>|`[](){}=+-@!?/\\]>";
        let one = prop_oneof![
            prop::sample::select(dangerous.chars().collect::<Vec<_>>()),
            any::<char>(),
            prop::char::range('a', 'e')
        ];
        let word =
            prop::sample::select(vec!["<script>", "]]>", "--> ", "](javascript:x)", "\u{1b}[31m", "=1+2"]);
        prop::collection::vec(
            prop_oneof![4 => one.prop_map(String::from), 1 => word.prop_map(str::to_owned)],
            0..30,
        )
        .prop_map(|parts| parts.concat())
    }

    fn undone(field: &str) -> String {
        match field.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
            Some(quoted) => quoted.replace("\"\"", "\""),
            None => field.to_owned(),
        }
    }

    #[test]
    fn long_values_are_shortened() {
        assert_eq!(short(&"a".repeat(60)), "a".repeat(60));
        assert_eq!(short(&"\u{e9}".repeat(61)), "\u{e9}".repeat(30) + "\u{2026} (61 characters)");
    }

    proptest! {
        #[test]
        fn nothing_acts_in_any_medium(text in text()) {
            for out in [line(&text), drawn(&text), xml(&text), csv(&text), markdown(&text), json_line(&text).unwrap()] {
                prop_assert!(!out.chars().any(acts), "{out:?}");
            }
            for out in [lines(&text), page(&text)] {
                prop_assert!(!out.chars().any(|c| acts(c) && c != '\n' && c != '\t'), "{out:?}");
            }
        }

        #[test]
        fn json_is_the_same_value(text in text()) {
            let value = serde_json::json!({ "a": [&text], &text: 1 });
            prop_assert_eq!(&serde_json::from_str::<serde_json::Value>(&json(&value).unwrap()).unwrap(), &value);
            prop_assert!(json(&value).unwrap().is_ascii() || text.chars().any(|c| !c.is_ascii() && !acts(c)));
        }

        #[test]
        fn xml_text_has_no_markup_and_only_characters_of_xml(text in text()) {
            let out = xml(&text);
            prop_assert!(!out.contains(['<', '>', '"']));
            for (at, _) in out.match_indices('&') {
                let entity = ["&amp;", "&lt;", "&gt;", "&quot;", "&apos;"].iter().any(|e| out[at..].starts_with(e));
                prop_assert!(entity, "{out}");
            }
            let is_xml = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
            prop_assert!(out.chars().all(is_xml));
        }

        #[test]
        fn a_csv_field_is_one_field_and_no_formula(text in text()) {
            let field = csv(&text);
            let inner = undone(&field);
            prop_assert!(!inner.trim_start().starts_with(['=', '+', '-', '@']), "{field}");
            prop_assert!(field.starts_with('"') || !field.contains([',', '"', '\n', '\r']), "{field}");
            let told = line(&text);
            prop_assert_eq!(inner.strip_prefix('\'').filter(|_| !told.starts_with('\'')).unwrap_or(&inner), &told);
        }

        #[test]
        fn markdown_makes_no_cell_link_or_html(text in text()) {
            let out = markdown(&text);
            prop_assert!(!out.contains(['\n', '\r', '\t']) && !out.contains("](") && !out.contains("<script"), "{out}");
            for (at, _) in out.match_indices('|') {
                let before = &out[..at];
                prop_assert!((before.len() - before.trim_end_matches('\\').len()) % 2 == 1, "{out}");
            }
            prop_assert!(!page(&text).contains("<script"));
        }
    }

    #[test]
    fn each_medium_by_an_example() {
        assert_eq!(lines("a\u{1b}[31m\n\tb\u{202e}"), "a\\u{1b}[31m\n\tb\\u{202e}");
        assert_eq!(line("a\nb"), "a\\nb");
        assert_eq!(json_line(&"é\u{2028}\u{e0041}\n").unwrap(), "\"é\\u2028\\udb40\\udc41\\n\"");
        assert_eq!(xml("]]>\u{fffe}&"), "]]&gt;\u{fffd}&amp;");
        assert_eq!([csv("-1+2"), csv("a,\"b\""), csv("mask")], ["'-1+2", "\"a,\"\"b\"\"\"", "mask"]);
        assert_eq!(markdown("a\\|b"), "a\\&#124;b");
        assert_eq!(markdown("a|b <script> [x](y) p < 1"), "a\\|b &lt;script> [x]\\(y) p < 1");
        // Persian and emoji are written with joiners.
        assert_eq!(line("\u{200c}\u{200d}"), "\u{200c}\u{200d}");
    }
}
