//! Cuts a text into spans: lines, and pieces of at most 200 characters of longer lines.
//!
//! Cuts are placed where pre-tokenizers cut too, so that the tokens of the spans add up to the
//! tokens of the text: blank lines stay with the span before (a run of newlines is one token), and
//! a piece of a long line begins with the space before its first word.

/// Longest piece of a line, in characters.
pub const MAX_CHARS: usize = 200;

/// The end of each span in bytes. The first span starts at 0, each next where the last ended, the
/// last ends with the text; an empty text has none.
pub fn span_ends(text: &str) -> Vec<u32> {
    let mut ends = Vec::with_capacity(text.len() / 40 + 1);
    let mut start = 0;
    for newline in memchr::memchr_iter(b'\n', text.as_bytes()) {
        push_line(text, start, newline + 1, &mut ends);
        start = newline + 1;
    }
    if start < text.len() {
        push_line(text, start, text.len(), &mut ends);
    }
    if ends.is_empty() && !text.is_empty() {
        ends.push(text.len() as u32);
    }
    ends
}

fn push_line(text: &str, start: usize, end: usize, ends: &mut Vec<u32>) {
    let line = &text[start..end];
    if line.trim_start().is_empty() {
        if let Some(last) = ends.last_mut() {
            *last = end as u32;
        }
        return;
    }
    // Blanks at the end of a line are no piece of their own.
    let solid = start + line.trim_end().len();
    let mut from = start;
    while solid - from > MAX_CHARS {
        let Some(cut) = piece(&text[from..solid]) else {
            break;
        };
        from += cut;
        ends.push(from as u32);
    }
    ends.push(end as u32);
}

/// Where to cut off a piece of at most [`MAX_CHARS`] characters; none when the rest is short enough.
fn piece(rest: &str) -> Option<usize> {
    let limit = rest.char_indices().nth(MAX_CHARS)?.0;
    let bytes = rest.as_bytes();
    let is_space = |i: usize| matches!(bytes[i], b' ' | b'\t');
    let before_space = (1..=limit).rev().find(|&i| is_space(i) && !is_space(i - 1));
    // Indentation is no place to cut.
    if let Some(cut) = before_space.filter(|&cut| !rest[..cut].trim_start().is_empty()) {
        return Some(cut);
    }
    // Words end before these marks, for a tokenizer too; the first list leaves paths and names whole.
    let after_word =
        |i: usize, marks: &[u8]| marks.contains(&bytes[i]) && bytes[i - 1].is_ascii_alphanumeric();
    let at_mark = |marks: &[u8]| (limit / 2 + 1..=limit).rev().find(|&i| after_word(i, marks));
    at_mark(b"\",;([{<|&").or_else(|| at_mark(b":=?!)]}>+*%#$")).or(Some(limit))
}

/// The number of the span that holds the byte at `offset`, for tests.
/// Lines as Python's `splitlines` counts them, which is how programs tell an agent of them.
pub fn n_lines(text: &str) -> usize {
    let is_plain = |b: u8| matches!(b, b'\n' | b'\t' | b' '..=b'~');
    let is_end = |c: &char| {
        matches!(
            c,
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}'
        )
    };
    // Blocks without a branch: many bytes at once.
    let are_plain = |block: &[u8]| block.iter().fold(true, |are, b| are & is_plain(*b));
    let n_ends = match text.as_bytes().chunks(64).all(are_plain) {
        true => memchr::memchr_iter(b'\n', text.as_bytes()).count(),
        false => {
            let n_pairs = memchr::memmem::find_iter(text.as_bytes(), b"\r\n").count();
            text.chars().filter(is_end).count() - n_pairs
        }
    };
    n_ends + usize::from(text.chars().last().is_some_and(|c| !is_end(&c)))
}

#[cfg(test)]
pub fn span_at(ends: &[u32], offset: usize) -> usize {
    ends.partition_point(|&end| end as usize <= offset)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cut(text: &str) -> Vec<&str> {
        let mut start = 0;
        let piece = |&end: &u32| {
            let span = &text[start..end as usize];
            start = end as usize;
            span
        };
        span_ends(text).iter().map(piece).collect()
    }

    #[test]
    fn lines_with_their_blank_lines() {
        assert_eq!(cut("a\nb"), ["a\n", "b"]);
        assert_eq!(cut("a\n\n  \nb\n"), ["a\n\n  \n", "b\n"]);
        assert_eq!(cut("\n\na\n"), ["\n\na\n"]);
        assert_eq!(cut(" \n"), [" \n"]);
        assert!(cut("").is_empty());
    }

    #[test]
    fn long_lines_are_cut_before_a_space() {
        let text = "word ".repeat(100);
        let spans = cut(&text);
        assert!(spans.iter().all(|s| s.len() <= MAX_CHARS && !s.trim().is_empty()));
        assert!(spans[1..].iter().all(|s| s.starts_with(' ')));
        assert_eq!(
            cut(&"é".repeat(450)).iter().map(|s| s.chars().count()).collect::<Vec<_>>(),
            [200, 200, 50]
        );
    }

    proptest! {
        #[test]
        fn spans_cover_the_text(text in "(\\PC|[ \n\t]|[a-z]{30}){0,300}") {
            prop_assert_eq!(cut(&text).concat(), text.clone());
            let ends = span_ends(&text);
            prop_assert!(ends.windows(2).all(|w| w[0] < w[1]));
            for (i, span) in cut(&text).iter().enumerate() {
                prop_assert!(span.trim().chars().count() <= MAX_CHARS);
                let start = ends[i] as usize - span.len();
                prop_assert_eq!(span_at(&ends, start), i);
            }
        }
    }
}
