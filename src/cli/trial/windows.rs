//! The windows that sessions are replayed in: how large, and who says so.

use std::collections::BTreeMap;

use indicatif::HumanCount;

use super::super::count;
use super::models::{SHOWN, Session, by_model, named};

/// How large the windows are, in words; `asked` is what the user said.
pub(super) fn told(sessions: &[Session], asked: Option<u64>) -> String {
    if let Some(tokens) = asked {
        return of_user(sessions, tokens);
    }
    let (known, guessed): (Vec<&Session>, Vec<&Session>) = sessions.iter().partition(|s| s.window.is_known);
    let mut text = String::from("Window: ");
    if !known.is_empty() {
        text += &format!("the most that the model takes, {}.", by_size(&known, " for "));
    }
    if !guessed.is_empty() {
        let whose = match known.len() {
            0 => String::new(),
            _ => format!("For {} of {} it is ", guessed.len(), count(sessions.len() as u64, "session")),
        };
        text += &format!(
            "{}{whose}a guess, the smallest known one that holds the longest prompt: {}. `--window` sets it.",
            if known.is_empty() { "" } else { " " },
            by_size(&guessed, " for ")
        );
    }
    let mut wider: BTreeMap<u64, Vec<&Session>> = BTreeMap::new();
    for session in sessions {
        if let Some(tokens) = session.window.wider {
            wider.entry(tokens).or_default().push(session);
        }
    }
    for (tokens, of) in wider {
        let set = match of.len() == sessions.len() {
            true => format!("Add `--window {}` if you do.", short(tokens)),
            false => format!("`--window {}` sets that, but for all sessions.", short(tokens)),
        };
        text += &format!(
            "\nSome have {} tokens under the same name, by plan, date or on request: {}. {set}",
            HumanCount(tokens),
            by_model(&of)
        );
    }
    if sessions.iter().any(|session| !session.others.is_empty()) {
        text += "\nA session that changes its model has the window of the first throughout.";
    }
    text + "\n"
}

fn of_user(sessions: &[Session], tokens: u64) -> String {
    let mut text = format!("Window: {} tokens, as you ask (`--window`).", HumanCount(tokens));
    let too_long = sessions.iter().filter(|session| session.first_prompt > tokens).count();
    let of = match sessions.len() {
        1 => String::new(),
        n => format!(" of {too_long} of {} sessions", HumanCount(n as u64)),
    };
    if too_long > 0 {
        text += &format!(" It does not hold the first prompt{of}: there a policy acts at every turn.");
    }
    text + "\n"
}

/// Sizes, those of the most sessions first, and of which models.
fn by_size(sessions: &[&Session], of: &str) -> String {
    let mut sizes: BTreeMap<u64, Vec<&Session>> = BTreeMap::new();
    for session in sessions {
        sizes.entry(session.window.tokens).or_default().push(session);
    }
    let mut sizes: Vec<_> = sizes.into_iter().collect();
    sizes.sort_by_key(|(_, of)| std::cmp::Reverse(of.len()));
    let counts = sizes.len() > 1;
    let told = |(tokens, these): &(u64, Vec<&Session>)| {
        format!("{}{of}{}", HumanCount(*tokens), named(these, counts))
    };
    let mut all: Vec<String> = sizes.iter().take(SHOWN).map(told).collect();
    let rest: u64 = sizes.iter().skip(SHOWN).map(|(_, these)| these.len() as u64).sum();
    if rest > 0 {
        all.push(format!("others for {}", count(rest, "session")));
    }
    all.join("; ")
}

/// As `--window` takes it: `1M`, `200k`.
fn short(tokens: u64) -> String {
    match tokens {
        n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// Tokens of a window: `200000`, `100k`, `1M`.
pub(in super::super) fn tokens(text: &str) -> Result<u64, String> {
    let (number, unit) = match text.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        _ => (text, 1),
    };
    let tokens = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    tokens
        .filter(|n| (LEAST..=MOST).contains(n))
        .ok_or_else(|| "expected tokens from 1000 on, such as 200000, 100k or 1M".to_owned())
}

const LEAST: u64 = 1_000;
/// An experiment holds no larger number.
const MOST: u64 = i64::MAX as u64;

#[cfg(test)]
mod tests {
    use super::super::models::tests::session;
    use super::*;

    #[test]
    fn windows_have_units() {
        assert_eq!(
            ["200000", "100k", "1M", "1m"].map(tokens),
            [Ok(200_000), Ok(100_000), Ok(1_000_000), Ok(1_000_000)]
        );
        for wrong in
            ["", "k", "999", "1.5M", "-1k", "100kk", "1\u{e9}", "18446744073709551615", "99999999999999M"]
        {
            assert!(tokens(wrong).is_err(), "{wrong}");
        }
        assert_eq!([1_000_000, 272_000, 131_072].map(short), ["1M", "272k", "131072"]);
    }

    #[test]
    fn each_window_says_whose_it_is() {
        let all = [
            session("a", Some("claude-opus-4-5-20251101"), 90_000),
            session("b", Some("claude-opus-4-6"), 90_000),
            session("c", Some("claude-opus-4-6"), 300_000),
            session("d", Some("mine"), 150_000),
            session("e", None, 10),
        ];
        insta::assert_snapshot!(told(&all, None), @r"
        Window: the most that the model takes, 200,000 for claude-opus-4-5-20251101 (1), claude-opus-4-6 (1); 1,000,000 for claude-opus-4-6 (1). For 2 of 5 sessions it is a guess, the smallest known one that holds the longest prompt: 128,000 for no model named (1); 200,000 for mine (1). `--window` sets it.
        Some have 1,000,000 tokens under the same name, by plan, date or on request: claude-opus-4-6. `--window 1M` sets that, but for all sessions.
        ");
        insta::assert_snapshot!(told(&all[4..], None), @"Window: a guess, the smallest known one that holds the longest prompt: 128,000 for no model named. `--window` sets it.");
        insta::assert_snapshot!(told(&all, Some(60_000)), @"Window: 60,000 tokens, as you ask (`--window`). It does not hold the first prompt of 4 of 5 sessions: there a policy acts at every turn.");
        assert!(told(&all[..1], Some(60_000)).contains("hold the first prompt: there a policy"));
        assert!(told(&all[1..2], None).ends_with("claude-opus-4-6. Add `--window 1M` if you do.\n"));
        let mut changes = session("f", Some("gpt-4.1"), 9);
        changes.others.insert("gpt-4o".to_owned(), 1);
        assert!(told(&[changes], None).ends_with("has the window of the first throughout.\n"));
    }
}
