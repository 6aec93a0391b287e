//! How a test run ended, read from the summaries that test runners print; never from the words PASSED and FAILED alone.
//!
//! Read are pytest, unittest (and Django), cargo test, go test, jest, vitest, mocha, RSpec, JUnit (Maven, Gradle), ctest,
//! automake's `make check`, TAP, and a reward that an environment tells (tau-bench: 1 is success). Of an output its first and
//! last [`EDGE`] bytes are read: summaries stand at the end, or, where the output was cut, at the beginning.

use std::borrow::Cow;

/// Bytes at either end of an output that are read.
pub(super) const EDGE: usize = 4096;

/// The beginning and the end of a text, if it is long.
pub(super) fn edges(text: &str) -> Cow<'_, str> {
    if text.len() <= 2 * EDGE {
        return Cow::Borrowed(text);
    }
    let head = &text[..text.floor_char_boundary(EDGE)];
    let tail = &text[text.ceil_char_boundary(text.len() - EDGE)..];
    Cow::Owned(format!("{head}\n{tail}"))
}

/// Whether the tests passed; none where no runner's summary stands in the output. Several summaries: all must have passed.
pub(super) fn outcome(output: &str) -> Option<bool> {
    let mut passed = None;
    let mut unittest = false;
    for line in output.lines() {
        let line = line.trim_end();
        let told = summary(line, &mut unittest);
        passed = match (passed, told) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (before, told) => told.or(before),
        };
    }
    passed
}

/// What one line says; `unittest` is set after its line `Ran 3 tests in 0.1s`, which OK or FAILED follows.
fn summary(line: &str, unittest: &mut bool) -> Option<bool> {
    let plain = line.trim();
    if plain.starts_with("Ran ") && plain.contains(" test") && plain.contains(" in ") {
        *unittest = !plain.starts_with("Ran 0 ");
        return None;
    }
    if std::mem::take(unittest) && plain.is_empty() {
        *unittest = true;
        return None;
    }
    RUNNERS.iter().find_map(|runner| runner(line, plain)).or_else(|| {
        let is_unittest = plain == "OK" || plain.starts_with("OK (") || plain.starts_with("FAILED (");
        is_unittest.then(|| plain.starts_with("OK"))
    })
}

/// How each runner says it: the line, and the line without blanks around it.
const RUNNERS: &[fn(&str, &str) -> Option<bool>] =
    &[cargo, go, jest, maven, pytest, mocha, ctest, automake, tap, reward];

/// The number before this word: `3 passed`.
fn before(line: &str, word: &str) -> Option<u64> {
    line.match_indices(word).find_map(|(at, _)| {
        let number = line[..at].strip_suffix(' ')?.rsplit(|c: char| !c.is_ascii_digit()).next()?;
        let ends = !line[at + word.len()..].starts_with(|c: char| c.is_ascii_alphanumeric() && c != 's');
        (ends && !number.is_empty()).then(|| number.parse().unwrap_or(u64::MAX))
    })
}

/// The number after this label: `Failures: 3`.
fn after(line: &str, label: &str) -> Option<u64> {
    let rest = line[line.find(label)? + label.len()..].trim_start();
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    (digits > 0).then(|| rest[..digits].parse().unwrap_or(u64::MAX))
}

/// What stands before any of these words, summed; none where no word is found.
fn counts(line: &str, words: &[&str]) -> Option<u64> {
    words.iter().filter_map(|word| before(line, word)).reduce(u64::saturating_add)
}

/// `===== 1 failed, 2 passed in 0.31s =====`, or without the rules (`-q`).
fn pytest(_: &str, plain: &str) -> Option<bool> {
    let text = plain.trim_matches(['=', ' ']);
    let (told, time) = text.rsplit_once(" in ")?;
    let is_time = time.starts_with(|c: char| c.is_ascii_digit()) && time.contains('s');
    let is_summary = told.split(", ").all(|part| {
        part.split_once(' ').is_some_and(|(n, word)| {
            n.bytes().all(|b| b.is_ascii_digit())
                && [
                    "passed",
                    "failed",
                    "error",
                    "skipped",
                    "xfailed",
                    "xpassed",
                    "warning",
                    "deselected",
                    "rerun",
                    "subtest",
                ]
                .iter()
                .any(|w| word.starts_with(w))
        })
    });
    (is_time && is_summary)
        .then(|| (counts(told, &["failed", "error"]).unwrap_or(0), counts(told, &["passed"])))
        .and_then(|(bad, good)| if bad > 0 { Some(false) } else { good.map(|_| true) })
}

/// `test result: ok. 12 passed; 0 failed; ...`, or a program that does not compile.
fn cargo(_: &str, plain: &str) -> Option<bool> {
    if plain.starts_with("error: could not compile") || plain.starts_with("error: test failed") {
        return Some(false);
    }
    let rest = plain.strip_prefix("test result: ")?;
    Some(rest.starts_with("ok."))
}

/// `ok  \tpackage\t0.5s`, `FAIL\tpackage`, `--- FAIL: TestX`, and PASS or FAIL alone.
fn go(line: &str, plain: &str) -> Option<bool> {
    if line.starts_with("FAIL\t") || plain.starts_with("--- FAIL: ") || line == "FAIL" {
        return Some(false);
    }
    (line.starts_with("ok  \t") || line == "PASS").then_some(true)
}

/// jest: `Tests:       1 failed, 5 passed, 6 total`; vitest: `Tests  5 passed (5)`.
fn jest(_: &str, plain: &str) -> Option<bool> {
    let rest = plain.strip_prefix("Tests")?.trim_start_matches(':');
    let (bad, good) = (before(rest, "failed"), before(rest, "passed"));
    (rest.starts_with(' ') && (bad.is_some() || good.is_some())).then(|| bad.unwrap_or(0) == 0)
}

/// Maven: `Tests run: 5, Failures: 0, Errors: 0`; Gradle: `5 tests completed, 1 failed`, `BUILD FAILED`.
fn maven(_: &str, plain: &str) -> Option<bool> {
    if let (Some(run), Some(failures)) = (after(plain, "Tests run:"), after(plain, "Failures:")) {
        let errors = after(plain, "Errors:").unwrap_or(0);
        return (run > 0).then_some(failures == 0 && errors == 0);
    }
    match plain {
        "BUILD FAILED" | "[INFO] BUILD FAILURE" | "[ERROR] BUILD FAILURE" => Some(false),
        _ if plain.starts_with("BUILD SUCCESSFUL in") || plain == "[INFO] BUILD SUCCESS" => Some(true),
        _ => None,
    }
}

/// mocha: `5 passing (12ms)`, `1 failing`; RSpec: `10 examples, 0 failures`.
fn mocha(_: &str, plain: &str) -> Option<bool> {
    if let (Some(_), Some(bad)) = (before(plain, "examples"), before(plain, "failure")) {
        return Some(bad == 0);
    }
    let (number, rest) = plain.split_once(' ')?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    match rest {
        _ if !is_number || number == "0" => None,
        "failing" => Some(false),
        _ if rest.starts_with("passing (") => Some(true),
        _ => None,
    }
}

/// `100% tests passed, 0 tests failed out of 5`.
fn ctest(_: &str, plain: &str) -> Option<bool> {
    let is_summary = plain.contains("% tests passed, ") && plain.contains(" tests failed out of ");
    is_summary.then(|| before(plain, "tests failed").unwrap_or(1) == 0)
}

/// `# FAIL:  0` and `# ERROR: 0` beside `# PASS:  9`.
fn automake(_: &str, plain: &str) -> Option<bool> {
    let number = |label: &str| plain.strip_prefix(label).and_then(|rest| rest.trim().parse::<u64>().ok());
    match (number("# PASS:"), number("# FAIL:").or(number("# ERROR:"))) {
        (Some(n), _) if n > 0 => Some(true),
        (_, Some(n)) if n > 0 => Some(false),
        _ => None,
    }
}

/// `not ok 3 - name`, `# fail 1` and `# pass 9`.
fn tap(line: &str, plain: &str) -> Option<bool> {
    let number = |label: &str| plain.strip_prefix(label).and_then(|rest| rest.trim().parse::<u64>().ok());
    if line.strip_prefix("not ok ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        return Some(false);
    }
    match (number("# pass "), number("# fail ")) {
        (Some(n), _) if n > 0 => Some(true),
        (_, Some(n)) if n > 0 => Some(false),
        _ => None,
    }
}

/// `reward: 1.0` or `"reward": 0.0,` as a line of its own.
fn reward(_: &str, plain: &str) -> Option<bool> {
    let (key, value) = plain.split_once(':')?;
    let is_reward = key.trim_matches(['"', '\'', ' ']).eq_ignore_ascii_case("reward");
    let value: f64 = is_reward.then(|| value.trim_matches([' ', ',']).parse().ok())??;
    Some(value >= 1.0)
}

/// The exit code that the environment tells: `<returncode>1</returncode>`, `Exit code 1`, `(exit status: 1)`.
pub(super) fn exit_code(output: &str) -> Option<i64> {
    let first = output.lines().next()?.trim();
    let number = |rest: &str| rest.trim().trim_end_matches([')', '.']).parse().ok();
    if let Some(rest) = first.strip_prefix("<returncode>") {
        return number(rest.split('<').next()?);
    }
    ["Exit code ", "Exit code: ", "exit code: ", "[exit code: "]
        .iter()
        .find_map(|label| number(first.strip_prefix(label)?.trim_end_matches(']')))
}

/// Whether a program broke down: it raised, or could not be run.
pub(super) fn broke(output: &str) -> bool {
    output.lines().any(|line| {
        line.starts_with("Traceback (most recent call last)")
            || line.contains(": No module named ")
            || line.ends_with(": command not found")
            || line.ends_with(": No such file or directory")
            || line.starts_with("SyntaxError: ")
            || line.starts_with("panic: ")
            || line.starts_with("thread '") && line.contains("panicked at")
    })
}

/// Whether an editor says that it did not edit.
pub(super) fn edit_refused(output: &str) -> bool {
    const SIGNS: [&str; 9] = [
        "Your proposed edit has introduced new syntax error",
        "Your changes have NOT been applied",
        "No replacement was performed",
        "String to replace not found",
        "<tool_use_error>",
        "Invalid `",
        "Usage: ",
        "No file open",
        "The arguments provided do not match",
    ];
    // What the editor says of it counts more than what the linter that it calls died of.
    const APPLIED: [&str; 2] = ["File updated. Please review the changes", "has been edited successfully"];
    let head = &output[..output.floor_char_boundary(600)];
    SIGNS.iter().any(|sign| head.contains(sign))
        || broke(head) && !APPLIED.iter().any(|sign| output.contains(sign))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn is(output: &str, expected: Option<bool>) {
        assert_eq!(outcome(output), expected, "{output}");
    }

    #[test]
    fn pytest_and_unittest() {
        is("..F\n===== 1 failed, 2 passed in 0.31s =====", Some(false));
        is("======= 12 passed, 3 warnings in 61.20s (0:01:01) =======", Some(true));
        is("3 passed in 0.12s", Some(true));
        is("2 passed, 1 error in 3s", Some(false));
        is("===== no tests ran in 0.01s =====", None);
        is("===== 4 deselected in 0.01s =====", None);
        is("...\n------\nRan 3 tests in 0.004s\n\nOK", Some(true));
        is("Ran 3 tests in 0.004s\n\nOK (skipped=1)\nDestroying test database", Some(true));
        is("Ran 1 test in 0.0s\n\nFAILED (errors=1)\n</output>", Some(false));
    }

    #[test]
    fn other_runners() {
        is("running 2 tests\ntest result: ok. 2 passed; 0 failed; 0 ignored", Some(true));
        is("test result: ok. 2 passed\ntest result: FAILED. 1 passed; 1 failed", Some(false));
        is("error: could not compile `a` (lib) due to 2 previous errors", Some(false));
        is("ok  \tgithub.com/a/b\t0.12s\n?   \tc\t[no test files]", Some(true));
        is("--- FAIL: TestX (0.00s)\nFAIL\nFAIL\tgithub.com/a\t0.3s", Some(false));
        is("Tests:       1 failed, 5 passed, 6 total", Some(false));
        is("Tests:       6 passed, 6 total", Some(true));
        is(" Test Files  1 passed (1)\n      Tests  5 passed (5)", Some(true));
        is("Tests run: 5, Failures: 0, Errors: 0, Skipped: 0", Some(true));
        is("[ERROR] Tests run: 5, Failures: 1, Errors: 0, Skipped: 0", Some(false));
        is("BUILD FAILED", Some(false));
        is("  5 passing (12ms)\n  1 failing", Some(false));
        is("10 examples, 0 failures", Some(true));
        is("100% tests passed, 0 tests failed out of 5", Some(true));
        is("80% tests passed, 1 tests failed out of 5", Some(false));
        is("# TOTAL: 9\n# PASS:  9\n# FAIL:  0\n# ERROR: 0", Some(true));
        is("# PASS:  8\n# FAIL:  1", Some(false));
        is("ok 1 - a\nnot ok 2 - b\n1..2", Some(false));
        is("{\n  \"reward\": 0.0,\n}", Some(false));
        is("reward: 1.0", Some(true));
    }

    #[test]
    fn words_alone_are_no_outcome() {
        is("tests/PASSED.txt\ntests/FAILED.txt\nPASSED\nFAILED tests.log", None);
        is("def test_ok():\n    assert result == 'PASSED'  # 3 passed in total", None);
        is("All tests passed!", None);
        is("we passed in 3s of time", None);
        is("", None);
    }

    #[test]
    fn exits_and_refusals() {
        assert_eq!(exit_code("<returncode>2</returncode>\n<output>"), Some(2));
        assert_eq!(exit_code("Exit code 1\nFAIL"), Some(1));
        assert_eq!(exit_code("all good"), None);
        assert!(broke("x\nTraceback (most recent call last):\n  File"));
        assert!(broke("/bin/python: No module named pytest") && !broke("no module is named"));
        assert!(edit_refused("Your proposed edit has introduced new syntax error(s)."));
        assert!(!edit_refused("The file a.py has been updated."));
        let applied = "    from __future__ import annotations\n    ^\nSyntaxError: future feature annotations is not defined\n\
                       [File: /a.py (3 lines total)]\n1:a\nFile updated. Please review the changes and make sure they are correct";
        assert!(!edit_refused(applied));
        assert!(edit_refused(applied.split("[File").next().unwrap()));
    }

    #[test]
    fn of_a_giant_output_the_ends_are_read() {
        let text = format!("{}\u{e9}\n===== 1 failed, 2 passed in 0.3s =====", "é\n".repeat(1_000_000));
        assert!(edges(&text).len() <= 2 * EDGE + 8);
        is(&edges(&text), Some(false));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(\\PC|\n|[0-9]{1,30} (passed|failing|tests failed)| in 3s|Tests run: |Failures: |ok |reward: ){0,40}") {
            outcome(&text);
            exit_code(&text);
            edit_refused(&text);
        }
    }
}
