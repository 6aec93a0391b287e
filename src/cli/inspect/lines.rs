//! Text of logs on one line of a terminal.

use crate::text::escape;

/// Text on one line, safe on a terminal, in so many characters as they are printed, and a mark where it is cut.
pub(crate) fn line(text: &str, width: usize) -> String {
    let mut line = String::new();
    let mut room = width;
    for c in text.chars() {
        let shown: String = match c {
            '\n' => "\u{23ce}".to_owned(),
            c if escape::acts(c) => c.escape_default().collect(),
            c => c.to_string(),
        };
        let Some(left) = room.checked_sub(shown.chars().count()) else {
            line.push('\u{2026}');
            break;
        };
        room = left;
        line += &shown;
    }
    line
}

/// The same, from where these words come into sight.
pub(crate) fn line_with(text: &str, words: &str, width: usize) -> String {
    let before = text.find(words).map_or(0, |at| text[..at].chars().count());
    if words.is_empty() || before + words.chars().count() <= width {
        return line(text, width);
    }
    let skipped = before.saturating_sub(width / 3);
    format!("\u{2026}{}", line(&text.chars().skip(skipped).collect::<String>(), width.saturating_sub(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_act_on_a_terminal() {
        assert_eq!(line("a\u{1b}[31mb\nc", 20), "a\\u{1b}[31mb\u{23ce}c");
        assert_eq!(line("abc", 2), "ab\u{2026}");
        assert_eq!(line("a\u{202e}b", 20), "a\\u{202e}b");
        assert_eq!(line("a\tb\tc", 4), "a\\tb\u{2026}", "what is printed has room");
    }

    #[test]
    fn a_line_shows_the_words_that_it_is_for() {
        assert_eq!(line_with("one two three", "two", 8), "one two \u{2026}");
        assert_eq!(line_with("one two three four five", "four", 9), "\u{2026}ee four \u{2026}");
        assert_eq!(line_with("one two", "six", 9), "one two");
    }
}
