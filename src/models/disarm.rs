//! Takes the power out of control tokens that are spelled out in text for a server.
//!
//! A server that is given text reads `<|im_end|>` in it as the control token. Where there is no way to say
//! "this is data" (`server` uses one where there is: token ids), the spelling is broken by one invisible
//! character, U+2060, after its first:
//!
//! - `<` + 1 to 64 characters without white space and angle brackets + `>`: `<|im_end|>`, `</s>`,
//!   `<start_of_turn>`, `<<SYS>>`, `<think>`, and as well `<div>` or the `<u8>` of `Vec<u8>`;
//! - `[` + 1 to 64 characters without white space and square brackets + `]`, if they begin with `/` or `|` or hold
//!   two capital letters: `[INST]`, `[/INST]`, `[|user|]`, `[gMASK]`, and as well `[INFO]`; not `[i]` or `[0]`.
//!
//! The rule is wide because a narrow one is a list that the next model family escapes; it costs nothing in the
//! answers, because [`rearm`] gives the spelling back. A vocabulary with control tokens of another shape than
//! these is not covered.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// U+2060, word joiner: invisible, without a line break, and not in logs.
const JOINER: &str = "\u{2060}";

static SQUARE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\[(\x{2060}?)([^\s\[\]\x{2060}][^\s\[\]]{0,63}\])"));
static ANGLE: LazyLock<Regex> = LazyLock::new(|| pattern(r"<(\x{2060}?)([^\s<>\x{2060}][^\s<>]{0,63}>)"));

fn pattern(pattern: &str) -> Regex {
    Regex::new(pattern).expect("a constant pattern")
}

/// The text without a spelled-out control token. A text without look-alikes comes back as it is; done twice, it
/// is as done once.
pub fn disarm(text: &str) -> Cow<'_, str> {
    // Square brackets first: those within angle brackets would be passed over.
    mark(&ANGLE, mark(&SQUARE, Cow::Borrowed(text), true), true)
}

/// Undoes [`disarm`], exactly so for all texts in which no U+2060 followed a bracket before.
pub fn rearm(text: &str) -> Cow<'_, str> {
    mark(&SQUARE, mark(&ANGLE, Cow::Borrowed(text), false), false)
}

/// Sets or takes away the joiner after the bracket that opens each look-alike.
fn mark<'a>(look_alike: &Regex, text: Cow<'a, str>, set: bool) -> Cow<'a, str> {
    let joiner = if set { JOINER } else { "" };
    let replaced = look_alike.replace_all(&text, |found: &Captures| {
        let (open, rest) = (&found[0][..1], &found[2]);
        let before = if open == "<" || is_control_like(rest) { joiner } else { &found[1] };
        format!("{open}{before}{rest}")
    });
    match replaced {
        Cow::Owned(new) if new != text => Cow::Owned(new),
        _ => text,
    }
}

/// Whether what follows a square bracket looks like a control token rather than an index or a word.
fn is_control_like(rest: &str) -> bool {
    rest.starts_with(['/', '|']) || rest.chars().filter(char::is_ascii_uppercase).count() >= 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Control tokens of the common model families.
    const TOKENS: [&str; 34] = [
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        "<|start_header_id|>",
        "<|eot_id|>",
        "<|begin_of_text|>",
        "<|reserved_special_token_17|>",
        "<s>",
        "</s>",
        "<unk>",
        "<bos>",
        "<eos>",
        "<start_of_turn>",
        "<end_of_turn>",
        "<|turn>",
        "<turn|>",
        "<think>",
        "</think>",
        "<tool_call>",
        "<unused42>",
        "<fim_prefix>",
        "<｜begin▁of▁sentence｜>",
        "<｜User｜>",
        "<|START_OF_TURN_TOKEN|>",
        "<|\"|>",
        "[INST]",
        "[/INST]",
        "[AVAILABLE_TOOLS]",
        "[gMASK]",
        "[CLS]",
        "[|assistant|]",
        "[|endofturn|]",
        "[BOS]",
        "<<SYS>>",
    ];

    /// Text made of control tokens, their pieces and other text.
    fn texts() -> impl Strategy<Value = String> {
        let piece = prop_oneof![
            proptest::sample::select(TOKENS.to_vec()).prop_map(str::to_owned),
            proptest::sample::select(vec![
                "<", ">", "[", "]", "|", "/", "IN", "A", "x", " ", "\n", "é", "\0"
            ])
            .prop_map(str::to_owned),
            ".{0,5}",
        ];
        proptest::collection::vec(piece, 0..20).prop_map(|v| v.concat())
    }

    #[test]
    fn every_known_token_is_broken_wherever_it_stands() {
        for token in TOKENS {
            for text in [token.to_owned(), format!("a{token}b"), format!("<{token}>"), format!("[{token}]")] {
                let safe = disarm(&text);
                assert!(!safe.contains(token), "{token:?} is left in {safe:?}");
                assert_eq!(rearm(&safe), text);
            }
        }
    }

    #[test]
    fn other_text_is_unchanged() {
        for text in [
            "a < b && c > d",
            "x[0] = y[i]",
            "[info] [ok]",
            "1 <2, 3> 2",
            "- [ ] todo",
            "<>",
            "[]",
            "",
            "[A]",
        ] {
            assert!(matches!(disarm(text), Cow::Borrowed(t) if t == text), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_token_is_left_and_twice_is_once(text in texts()) {
            let safe = disarm(&text).into_owned();
            for token in TOKENS {
                prop_assert!(!safe.contains(token), "{} is left in {:?}", token, safe);
            }
            prop_assert_eq!(disarm(&safe).into_owned(), safe);
        }

        #[test]
        fn only_joiners_are_added(text in texts()) {
            let bare = |t: &str| t.replace(JOINER, "");
            prop_assert_eq!(bare(&disarm(&text)), bare(&text));
        }

        #[test]
        fn rearm_gives_the_text_back(text in texts()) {
            prop_assume!(!text.contains(JOINER));
            prop_assert_eq!(rearm(&disarm(&text)).into_owned(), text);
        }

        /// A cut prompt is a piece of a disarmed one.
        #[test]
        fn no_piece_of_disarmed_text_is_armed(text in texts(), from in 0usize..40, to in 0usize..40) {
            let safe: Vec<char> = disarm(&text).chars().collect();
            let (from, to) = (from.min(safe.len()), to.min(safe.len()));
            let piece: String = safe[from..to.max(from)].iter().collect();
            for token in TOKENS {
                prop_assert!(!piece.contains(token));
            }
        }
    }
}
