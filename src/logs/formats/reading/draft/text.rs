//! Texts as they are kept: without markers of the harness, and data as a placeholder.

use crate::logs::formats::reading::scalar::base64_bytes;

use super::losses::Losses;

/// The tag that encloses the beginning of a text, and the length of that: harnesses put their own words so.
pub(crate) fn enclosed(text: &str) -> Option<(&str, usize)> {
    let tag = text.strip_prefix('<')?.split(['>', ' ', '\n']).next().filter(|tag| !tag.is_empty())?;
    let close = format!("</{tag}>");
    text.find(&close).map(|at| (tag, at + close.len()))
}

/// Tags in which harnesses put what the user asks.
const ASKED: [&str; 3] = ["task", "user_query", "userRequest"];

/// The text behind the tags that a harness put at its beginning; nothing where all of it stands in tags, but for those
/// around the user's own words. Harnesses' tags have names of several words (`system-reminder`, `uploaded_files`); a text
/// that begins with `<div>` stays whole.
pub(super) fn without_enclosed(text: &str) -> &str {
    let (mut rest, mut is_harness, mut task) = (text, true, None);
    while let Some((tag, length)) = enclosed(rest.trim_start()) {
        let (element, behind) = rest.trim_start().split_at(length);
        is_harness &= tag.contains(['-', '_']);
        if ASKED.contains(&tag) && task.is_none() {
            let end = element.len() - tag.len() - "</>".len();
            task = element[..end].split_once('>').map(|(_, inside)| inside.trim());
        }
        rest = behind.trim_start();
    }
    match task.filter(|_| rest.is_empty()) {
        Some(task) => task,
        None if is_harness || rest.is_empty() => rest,
        None => text,
    }
}

/// Whether all of a text stands in a harness's tags.
pub(crate) fn is_harness(text: &str) -> bool {
    !text.trim().is_empty() && without_enclosed(text).trim().is_empty()
}

/// Replaces what must not reach the tables: NUL by U+FFFD, inline base64 data by its size.
pub(crate) fn clean(text: &mut String, losses: &mut Losses) {
    if memchr::memchr(0, text.as_bytes()).is_some() {
        losses.add_n("NUL replaced by U+FFFD", memchr::memchr_iter(0, text.as_bytes()).count() as u64);
        *text = text.replace('\0', "\u{fffd}");
    }
    if text.len() > MIN_DATA && memchr::memmem::find(text.as_bytes(), b";base64,").is_some() {
        replace_base64(text, losses);
    }
}

/// Inline data shorter than this is left as it is.
const MIN_DATA: usize = 1024;

fn replace_base64(text: &mut String, losses: &mut Losses) {
    let is_data = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'=' | b'-' | b'_');
    let mut out = String::new();
    let mut done = 0;
    let mut at = 0;
    while let Some(found) = memchr::memmem::find(&text.as_bytes()[at..], b";base64,") {
        let mark = at + found;
        let data = mark + b";base64,".len();
        let length = text.as_bytes()[data..].iter().position(|b| !is_data(*b)).unwrap_or(text.len() - data);
        at = data + length;
        let scheme = text[done..mark].rfind("data:").map(|i| done + i);
        let Some(scheme) = scheme.filter(|s| mark - s < 100 && length >= MIN_DATA) else {
            continue;
        };
        let media_type = &text[scheme + 5..mark];
        out.push_str(&text[done..scheme]);
        let kind = if media_type.starts_with("image/") { "image" } else { "file" };
        out.push_str(&format!("[{kind} {media_type} {} bytes]", base64_bytes(length)));
        losses.add("media replaced by a placeholder");
        done = at;
    }
    if done > 0 {
        out.push_str(&text[done..]);
        *text = out;
    }
}
