//! Whether a text runs in circles: it says again, in the same words, what it has said before.
//!
//! Small models fall into circles that no exact repetition tells of: two sentences in turn, a list of the same points,
//! one sentence with a word changed. Measured is the end of a text, which no model finds its way out of: of its last
//! [`END`] runs of [`RUN`] words, how many stood before anywhere in the text.
//!
//! A text that only counts on (`| Task | 7 | 7.1 |`, then 8) says nothing new, either: with each number as the step from
//! the one before, most of its end has stood before.
//!
//! The limits were set on 10,348 messages and thoughts of 30 to 1,500 words that large models wrote in logged runs, and
//! 59 texts of SmolLM2 135M. 6 of the former are over the first limit (lists of flights, texts quoted twice) and none over
//! the second, where the most is 31; of the latter 40 are over one of them, all in circles. Of the other 19 two repeat
//! themselves: one says a sentence three times in its middle, one is six times the same short line.

use std::collections::HashSet;

/// Words of a run.
const RUN: usize = 5;
/// Runs that are the end of a text.
const END: usize = 60;
/// Runs of the end that have stood before, at least, also where the text has fewer than [`END`]: a third, and three
/// quarters where numbers are steps.
const SAID: [usize; 2] = [20, 45];

/// Whether the end of a text says again what was said before. Words are what stands between blanks, without marks and
/// whatever their case; a text without blanks never does.
pub fn ends_in_circle(text: &str) -> bool {
    let word = |word: &str| word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    let mut words: Vec<String> = text.split_whitespace().map(word).filter(|word| !word.is_empty()).collect();
    if said_at_end(&words) >= SAID[0] {
        return true;
    }
    let mut before = 0;
    for word in words.iter_mut().filter(|word| !word.contains(char::is_alphabetic)) {
        let number = whole(word);
        *word = format!("{:+}", number - before);
        before = number;
    }
    said_at_end(&words) >= SAID[1]
}

/// The whole part of a number.
fn whole(word: &str) -> i64 {
    word.split(|c: char| !c.is_ascii_digit())
        .next()
        .and_then(|digits| digits.parse::<u32>().ok())
        .unwrap_or(0)
        .into()
}

/// How many of the last runs of words have stood before.
fn said_at_end(words: &[String]) -> usize {
    let mut seen = HashSet::new();
    let said: Vec<bool> = words.windows(RUN).map(|run| !seen.insert(run)).collect();
    said.iter().rev().take(END).filter(|said| **said).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_small_models_write_in_circles() {
        let questions = "A code review of the minilang parser using Python has been conducted. The results include a list \
            of new commands, a list of data types, a list of functions used, and a list of command line arguments.\n\n\
            Thought: First a user asked: \"What is the meaning of this?\"\n\
            The answer: \"This is a command to modify the number of digits in a string.\"\n\
            The next question: \"How to do that?\"\n\
            The answer: \"This is a new command that is to remove the digits from a string.\"\n\
            The next question: \"How to do that?\"\nThe answer: \"The minilang parser has to do it.\"\n\
            The next question: \"How to do it?\"\nThe answer: \"The minilang parser has to do it.\"\n\
            The next question: \"How to do it?\"\nThe answer: \"The minilang parser has to do it.\"\n\
            The next question: \"How to do it?\"";
        let list = "Key points:\n- Current progress:\n- Final Decision:\n- Data, files, commands:\n- Key Points:\n\
            - Expanded on previous:\n- Final Decision:\n- Key Points:\n- Final Decision:\n- Data, files, commands:\n\
            - Key Points:\n- Final Decision:\n- Data, files, commands:\n- Key Points:\n- Final Decision:\n\
            - Data, files, commands:\n- Key Points:\n- Final Decision:\n- Data, files, commands";
        let sentence = "The script is asked to find no errors in the CSV file itself, but instead, ";
        assert!(ends_in_circle(questions) && ends_in_circle(list) && ends_in_circle(&sentence.repeat(4)));
    }

    #[test]
    fn what_only_counts_is_a_circle() {
        let counted = |row: &dyn Fn(usize) -> String| (1..40).map(row).collect::<String>();
        assert!(ends_in_circle(&counted(&|n| format!("| Refresher | {n}| {n}.1|\n"))));
        assert!(ends_in_circle(&format!(
            "Actions:\n{}",
            counted(&|n| format!("- {n}.\n")) + &counted(&|n| format!("{n}\n"))
        )));
        assert!(!ends_in_circle(&counted(&|n| format!("| Task w{n} | {n}| {n}.1|\n"))));
    }

    #[test]
    fn runs_are_counted() {
        // Seven words n times are 7 n - 4 runs, of which the first seven are new: 24 of five, 17 of four.
        let round = "One two three four five six seven. ";
        assert!(ends_in_circle(&round.repeat(5)) && !ends_in_circle(&round.repeat(4)));
        // What comes behind it takes its place: 60 runs that are new.
        let new: String = (0..64).map(|n| format!("w{n} ")).collect();
        assert!(!ends_in_circle(&(round.repeat(9) + &new)) && ends_in_circle(&(new + &round.repeat(5))));
        assert!(!ends_in_circle("") && !ends_in_circle("\u{4e00}".repeat(900).as_str()));
    }

    #[test]
    fn lists_of_like_points_are_none() {
        let point = |n: usize| {
            let (from, to, price) = (n + 6, n + 8, 100 + 13 * n);
            format!(
                "{n}. **Option {n}:** JFK to ATL\n  - Departure: {from}:00\n  - Arrival: {to}:30\n  - Price: ${price}\n"
            )
        };
        assert!(!ends_in_circle(&(1..9).map(point).collect::<String>()));
        let files =
            ["parser", "lexer", "printer", "reader", "writer", "store", "report", "plan", "cache", "lock"];
        let tests: String = files.map(|name| format!("The tests of the {name} pass now.\n")).concat();
        assert!(!ends_in_circle(&tests));
    }
}
