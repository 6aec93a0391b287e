//! How a statement looks: the shape of its text, and hashed pieces of it. (reports/hindsight/model.md)

use crate::text::pieces::{bucket, tokens};
use crate::text::runs::is_unspaced;
use crate::turns::actions::ActionKind;

/// Who made a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    User,
    Agent,
    Tool,
}

/// Pieces of a text that are read, at most.
const MOST: usize = 120;
/// Words of the statement before that count.
const BEFORE: usize = 12;
/// Letters of a run within a word.
const GRAM: usize = 4;

/// Calls `see` for each word in lower case, with its length in characters. A letter of a script without spaces is a word.
pub(super) fn words(text: &str, see: &mut dyn FnMut(&str, usize)) {
    runs(text, char::is_alphanumeric, &mut |run| {
        if run.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit()) {
            return see(run, run.len());
        }
        let lower = run.to_lowercase();
        see(&lower, lower.chars().count());
    });
}

/// The runs of characters of a sort.
fn runs<'a>(text: &'a str, is: fn(char) -> bool, see: &mut dyn FnMut(&'a str)) {
    let mut start = None;
    for (at, c) in text.char_indices() {
        let alone = !c.is_ascii() && is_unspaced(c);
        if (alone || !is(c))
            && let Some(from) = start.take()
        {
            see(&text[from..at]);
        }
        if alone {
            see(&text[at..at + c.len_utf8()]);
        } else if is(c) {
            start = start.or(Some(at));
        }
    }
    start.into_iter().for_each(|from| see(&text[from..]));
}

/// The buckets of the pieces of a statement, ascending, each once: words and pairs of words with who says them, runs of four letters,
/// words of the statement before, and the call that it answers.
pub(super) fn pieces(text: &str, before: &str, source: Source, action: Option<ActionKind>) -> Vec<u16> {
    let who = match source {
        Source::User => "u",
        Source::Agent => "a",
        Source::Tool => "t",
    };
    let tokens = tokens(text, MOST);
    let mut found = vec![bucket(&[who]), bucket(&[who, " a ", action.map_or("None", ActionKind::name)])];
    let mut last = "<";
    for token in tokens.iter().map(String::as_str).chain([">"]) {
        found.push(bucket(&[who, " ", last, " ", token]));
        last = token;
    }
    for token in &tokens {
        found.push(bucket(&["w ", token]));
        found.push(bucket(&[who, " ", token]));
        let starts: Vec<usize> = token.char_indices().map(|(at, _)| at).chain([token.len()]).collect();
        if starts.len() > GRAM + 1 {
            found.extend(starts.windows(GRAM + 1).map(|at| bucket(&["c ", &token[at[0]..at[GRAM]]])));
        }
    }
    found.extend(tokens.iter().take(2).map(|token| bucket(&["f ", who, " ", token])));
    let mut earlier = Vec::new();
    words(before, &mut |word, _| earlier.push(bucket(&["p ", word])));
    found.extend(earlier.iter().rev().take(BEFORE));
    found.sort_unstable();
    found.dedup();
    found
}

/// Numbers of the shape of a text, with the line before it.
pub(super) fn shape(text: &str, line: &str, push: &mut dyn FnMut(f64)) {
    let [mut chars, mut letters, mut digits, mut blanks, mut upper, mut code] = [0usize; 6];
    for c in text.chars() {
        chars += 1;
        letters += usize::from(c.is_alphabetic());
        digits += usize::from(c.is_numeric());
        blanks += usize::from(c.is_whitespace());
        upper += usize::from(c.is_uppercase());
        code += usize::from("{}()[];=<>".contains(c));
    }
    let mut n_words = 0;
    words(text, &mut |_, _| n_words += 1);
    let share = |n: usize| n as f64 / chars.max(1) as f64;
    let flag = |is: bool| f64::from(u8::from(is));
    push(libm::log1p(chars.max(1) as f64));
    push(libm::log1p(n_words as f64));
    push(share(letters));
    push(share(digits));
    push(share(chars - letters - digits - blanks));
    push(share(upper));
    ['?', ':', '.'].into_iter().for_each(|mark| push(flag(text.ends_with(mark))));
    push(flag(is_numbered(line, text)));
    let indent = if line.trim().is_empty() { line.chars().count() } else { 0 };
    push(libm::log1p(indent as f64));
    ['+', '-'].into_iter().for_each(|mark| push(flag(text.starts_with(mark) || line.starts_with(mark))));
    push(flag(text.contains('`')));
    push(flag(text.starts_with(['"', '\''])));
    push(share(code));
    push(flag(has_hump(text)));
}

/// Whether a line begins with its number: up to eight blanks, up to six digits, perhaps a blank, and a mark.
fn is_numbered(line: &str, text: &str) -> bool {
    let mut chars = line.chars().chain(text.chars()).peekable();
    let mut skip = |most: usize, is: fn(char) -> bool| {
        let mut n = 0;
        while n < most && chars.next_if(|c| is(*c)).is_some() {
            n += 1;
        }
        n
    };
    skip(8, char::is_whitespace);
    if skip(6, |c| c.is_numeric()) == 0 {
        return false;
    }
    let is_mark = |c: char| matches!(c, ':' | '\t' | '|' | '→');
    skip(1, is_mark) == 1 || (skip(1, char::is_whitespace) == 1 && skip(1, is_mark) == 1)
}

/// Whether a text holds a name with a hump or an underscore: `aB`, `a_b`.
fn has_hump(text: &str) -> bool {
    let bytes = text.as_bytes();
    let hump = |w: &[u8]| (w[0].is_ascii_lowercase() || w[0].is_ascii_digit()) && w[1].is_ascii_uppercase();
    bytes.windows(2).any(hump)
        || bytes.windows(3).any(|w| w[0].is_ascii_lowercase() && w[1] == b'_' && w[2].is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_to_words_and_tokens() {
        let of = |text: &str| {
            let mut found = Vec::new();
            words(text, &mut |word, chars| found.push((word.to_owned(), chars)));
            found
        };
        let owned =
            |words: &[(&str, usize)]| words.iter().map(|(w, n)| ((*w).to_owned(), *n)).collect::<Vec<_>>();
        assert_eq!(of("Größe_2x 不得"), owned(&[("größe", 5), ("2x", 2), ("不", 1), ("得", 1)]));
        assert_eq!(
            tokens("Set max_rows=2048, 不得!", MOST),
            ["set", "max", "rows", "=", "0", ",", "不", "得", "!"]
        );
        assert_eq!(tokens(&"a, ".repeat(200), MOST).len(), MOST);
        assert!(tokens(" _ ", MOST).is_empty());
    }

    /// CRC-32 of "123456789" is cbf43926.
    #[test]
    fn buckets_are_checksums() {
        assert_eq!(bucket(&["1234", "56789"]), 0x3926);
        let some = pieces("Do it", "as I said", Source::User, None);
        for piece in [
            &["u"][..],
            &["u a None"],
            &["u < do"],
            &["u do it"],
            &["u it >"],
            &["w do"],
            &["u do"],
            &["f u it"],
            &["p said"],
        ] {
            assert!(some.contains(&bucket(piece)), "{piece:?}");
        }
        assert_eq!(some.len(), 14);
        let grams = pieces("words", "", Source::Tool, Some(ActionKind::Search));
        assert!(grams.contains(&bucket(&["c ords"])) && grams.contains(&bucket(&["t a search"])));
    }

    #[test]
    fn lines_with_numbers_and_names_with_humps_are_told() {
        for (line, text, is) in [
            ("  12: ", "x", true),
            ("", "12 | x", true),
            ("", "12 x", false),
            ("", "x", false),
            ("", "1234567:", false),
        ] {
            assert_eq!(is_numbered(line, text), is, "{line}{text}");
        }
        assert!(has_hump("getName") && has_hump("get_name") && !has_hump("Get Name_") && !has_hump("ABC"));
    }
}
