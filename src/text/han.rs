//! Chinese, which has no blanks between words.

use std::borrow::Cow;

/// Whether it is a character of Chinese (or kanji).
pub(crate) fn is_han(c: char) -> bool {
    matches!(c, '\u{4e00}'..='\u{9fff}')
}

/// The text with a blank wherever Chinese meets letters or digits of another script, so that they can be told apart.
pub(crate) fn set_apart(text: &str) -> Cow<'_, str> {
    if !text.contains(is_han) {
        return Cow::Borrowed(text);
    }
    let mut apart = String::with_capacity(text.len() + 8);
    let mut before = ' ';
    for c in text.chars() {
        if before.is_alphanumeric() && c.is_alphanumeric() && is_han(before) != is_han(c) {
            apart.push(' ');
        }
        apart.push(c);
        before = c;
    }
    Cow::Owned(apart)
}

/// The pairs of neighbouring characters of a word of Chinese, which stand for its words; nothing for other words.
pub(crate) fn pairs(word: &str) -> Vec<String> {
    let chars: Vec<char> = word.chars().collect();
    chars.windows(2).filter(|pair| pair.iter().all(|c| is_han(*c))).map(String::from_iter).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chinese_is_set_apart_and_cut_to_pairs() {
        assert_eq!(set_apart("用rust写3份"), "用 rust 写 3 份");
        assert_eq!(set_apart("plain"), "plain");
        assert_eq!(pairs("年度报告"), ["年度", "度报", "报告"]);
        assert!(pairs("report").is_empty() && pairs("写").is_empty());
    }
}
