//! What a command prints, as a page for a browser: one file that loads nothing, in the style of report.html.

use std::path::Path;

use super::page::Block;
use crate::files::whole;
use crate::text::escape::xml;
use crate::text::redact::redact;

/// Its style is that of all pages.
const REPORT: &str = include_str!("../data/report.html");

/// Writes a page. Logs may be quoted in it, and pages are passed on: keys, passwords and personal data are left out.
pub(super) fn write(path: &Path, title: &str, mut blocks: Vec<Block>) -> anyhow::Result<()> {
    let mut texts = Vec::new();
    blocks.iter_mut().for_each(|block| collect(block, &mut texts));
    redact(&mut texts);
    whole::write(path, page(title, &blocks).as_bytes())
}

fn collect<'b>(block: &'b mut Block, texts: &mut Vec<&'b mut String>) {
    match block {
        Block::Text(text) | Block::Line(text) => texts.push(text),
        Block::Table { rows, .. } => texts.extend(rows.iter_mut().flatten()),
        Block::About { said, .. } => said.iter_mut().for_each(|block| collect(block, texts)),
    }
}

fn page(title: &str, blocks: &[Block]) -> String {
    let style = REPORT.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>"));
    let body: String = blocks.iter().map(shown).collect();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>{title}</title>\n<style>{}\np.in {{ overflow-wrap: anywhere; margin-block: .2rem; }} p.head {{ font-weight: 600; margin-top: .5rem; }} h2 {{ overflow-wrap: anywhere; }}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n",
        style.map_or("", |(style, _)| style),
        title = xml(title)
    )
}

fn shown(block: &Block) -> String {
    match block {
        Block::Text(text) => outline(text),
        Block::Line(line) if line.trim().is_empty() => String::new(),
        Block::Line(line) => format!("<p class=\"in\"><code>{}</code></p>\n", xml(line.trim())),
        Block::Table { rows, .. } => table(rows),
        Block::About { said, .. } => said.iter().map(shown).collect(),
    }
}

/// Lines of text: one with deeper ones behind it is a heading, deeper ones are set in. Lines that go on in the next are one paragraph.
fn outline(text: &str) -> String {
    let depth = |line: &str| line.len() - line.trim_start_matches(' ').len();
    let lines: Vec<&str> = text.lines().collect();
    let mut html = String::new();
    let mut at = 0;
    while at < lines.len() {
        let (line, own) = (lines[at], depth(lines[at]));
        at += 1;
        if line.trim().is_empty() {
            continue;
        }
        let next = lines.get(at).filter(|next| !next.trim().is_empty());
        if own == 0 && next.is_some_and(|next| depth(next) > 0) {
            html += &format!("<h2>{}</h2>\n", xml(line));
        } else if own > 0 {
            let (em, is_head) = (0.75 * own as f64, next.is_some_and(|next| depth(next) > own));
            let class = if is_head { "in head" } else { "in" };
            html += &format!("<p class=\"{class}\" style=\"margin-left: {em}em\">{}</p>\n", xml(line.trim()));
        } else {
            let mut words = line.to_owned();
            while let Some(more) = lines.get(at).filter(|more| !more.trim().is_empty() && depth(more) == 0) {
                words += " ";
                words += more;
                at += 1;
            }
            html += &format!("<p>{}</p>\n", named(&words));
        }
    }
    html
}

/// A paragraph with `names` in it.
fn named(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    // One alone is no pair.
    if parts.len() % 2 == 0 {
        return xml(text);
    }
    let part = |(i, part): (usize, &&str)| match i % 2 {
        0 => xml(part),
        _ => format!("<code>{}</code>", xml(part)),
    };
    parts.iter().enumerate().map(part).collect()
}

fn table(rows: &[Vec<String>]) -> String {
    let Some((head, body)) = rows.split_first() else { return String::new() };
    let heads: String = head.iter().map(|cell| format!("<th scope=\"col\">{}</th>", xml(cell))).collect();
    // At the width of a phone each cell names its column.
    let cell =
        |(cell, head): (&String, &String)| format!("<td data-head=\"{}\">{}</td>", xml(head), xml(cell));
    let row =
        |row: &Vec<String>| format!("<tr>{}</tr>\n", row.iter().zip(head).map(cell).collect::<String>());
    let body: String = body.iter().map(row).collect();
    format!(
        "<div class=\"scroll\"><table>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_quotes_and_runs_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.html");
        let evil = "<script>alert(1)</script> \"onerror=";
        let text = format!(
            "session {evil}\n  lost: key AKIAQ7KTZ3VXD5PLW2HN\n    deeper\n\nWords that\ngo on with `a<b`.\n\nA ` alone.\n"
        );
        let rows = vec![vec!["policy".to_owned(), "lost".to_owned()], vec![evil.to_owned(), "1".to_owned()]];
        write(&path, "audit", vec![Block::Text(text), Block::Table { rows, spare: Vec::new() }]).unwrap();
        let page = std::fs::read_to_string(&path).unwrap();
        assert!(!page.contains("<script") && page.matches("&lt;script&gt;").count() == 2, "{page}");
        assert!(!page.contains("AKIAQ7KTZ3VXD5PLW2HN"), "{page}");
        assert!(
            page.contains("<h2>session ")
                && page.contains("<p>Words that go on with <code>a&lt;b</code>.</p>"),
            "{page}"
        );
        assert!(page.contains("<p>A ` alone.</p>"), "{page}");
        // What stands above something is set apart.
        assert!(page.contains("class=\"in head\" style=\"margin-left: 1.5em\">lost"), "{page}");
        assert!(
            page.contains("class=\"in\" style=\"margin-left: 3em\">deeper") && page.contains("--ink:"),
            "{page}"
        );
    }
}
