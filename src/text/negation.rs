//! Whether a statement says no to something. Raters tell what matters, not whether two statements that share their words say the
//! same: what tells "email them" from "do not email them" are these few words.

use std::sync::LazyLock;

use serde::Deserialize;

use super::han::is_han;
use super::lists::{self, WordSet};

/// The file says what each is for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Words {
    words: WordSet,
    chinese: Vec<String>,
    chinese_others: Vec<String>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| lists::read(include_str!("../data/words/negation.toml")));

/// Whether a statement says no to something.
pub(crate) fn negates(text: &str) -> bool {
    let between = |c: char| !c.is_alphanumeric() && !matches!(c, '\'' | '’' | '_');
    let says_no = |word: &str| WORDS.words.has(&word.to_lowercase().replace('’', "'"));
    text.split(between).any(says_no) || negates_in_chinese(text)
}

fn negates_in_chinese(text: &str) -> bool {
    if !text.contains(is_han) {
        return false;
    }
    let others = WORDS.chinese_others.iter().filter(|other| text.contains(*other));
    let text = others.fold(text.to_owned(), |text, other| text.replace(other, " "));
    WORDS.chinese.iter().any(|cue| text.contains(cue))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_no_is_told() {
        for (text, is) in [
            ("Do not email the customers.", true),
            ("Don’t touch it", true),
            ("NEVER", true),
            ("Bitte nicht anfassen.", true),
            ("图片一律不得使用。", true),
            ("You may email the customers now.", false),
            ("A notable knot", false),
            ("能不能快一点？", false),
            ("必须在周五之前完成。", false),
            ("", false),
        ] {
            assert_eq!(negates(text), is, "{text}");
        }
    }
}
