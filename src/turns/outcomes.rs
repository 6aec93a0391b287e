//! How a test run ended, read from the summaries that test runners print; a pass never from words such as PASSED and OK alone.
//!
//! Read are pytest, unittest (and Django), cargo test and nextest, go test (plain, -json, gotestsum), jest, vitest, mocha, bun, deno,
//! RSpec, minitest, ExUnit, JUnit (its own launchers, Maven, Gradle), PHPUnit, dotnet, xcodebuild, ctest, automake's `make
//! check`, TAP and prove, and a reward that an environment tells (tau-bench: 1 is
//! success). A run of no tests has not passed. Of an output its first and last [`EDGE`] bytes are read, without the escape
//! sequences that colour it: summaries stand at the end, or, where the output was cut, at the beginning.

use std::borrow::Cow;

/// Bytes at either end of an output that are read.
pub(crate) const EDGE: usize = 4096;
/// Lines at the end in which a tool tells that it gave up.
const LAST: usize = 20;

/// What SWE-agent's templates put before an output, and behind it.
const BEFORE: &str = "OBSERVATION:\n";
const BEHIND: [&str; 3] = ["(Open file: ", "(Current directory: ", "bash-$"];

/// An output without the frame that its environment puts around it.
fn bare(text: &str) -> &str {
    let mut text = text.strip_prefix(BEFORE).unwrap_or(text);
    if text.ends_with("bash-$") {
        while let Some((rest, _)) =
            text.rsplit_once('\n').filter(|(_, last)| BEHIND.iter().any(|frame| last.starts_with(frame)))
        {
            text = rest;
        }
    }
    text
}

/// The beginning and the end of an output, if it is long, without its frame and escape sequences.
pub(crate) fn edges(text: &str) -> Cow<'_, str> {
    let text = bare(text);
    if text.len() <= 2 * EDGE {
        return plain(text.into());
    }
    let head = &text[..text.floor_char_boundary(EDGE)];
    let tail = &text[text.ceil_char_boundary(text.len() - EDGE)..];
    plain(format!("{head}\n{tail}").into())
}

/// A text without the escape sequences of a terminal: `\x1b[32m`.
fn plain(text: Cow<'_, str>) -> Cow<'_, str> {
    let mut parts = text.split("\x1b[");
    let first = parts.next().unwrap_or("");
    if first.len() == text.len() {
        return text;
    }
    let is_final = |c: char| ('@'..='~').contains(&c);
    parts
        .fold(first.to_owned(), |all, part| all + part.split_once(is_final).map_or("", |(_, rest)| rest))
        .into()
}

/// Whether the tests passed; none where no runner's summary stands in the output. Several summaries: all must have passed.
/// `tests` says that the command was to run tests: then the last word of a build counts, too.
pub(crate) fn outcome(output: &str, tests: bool) -> Option<bool> {
    let (mut passed, mut built) = (None, None);
    let mut ran = None;
    for line in output.lines() {
        let (line, plain) = (line.trim_end(), line.trim());
        if plain.is_empty() {
            continue;
        }
        let told = ran.take().and_then(|n| unittest(plain, n));
        passed = and(passed, told.or_else(|| RUNNERS.iter().find_map(|runner| runner(line, plain))));
        built = and(built, build(plain));
        ran = unittest_ran(plain);
    }
    // A package of Go is ok if all of its tests were skipped.
    if passed == Some(true) && output.contains("--- SKIP: ") && !output.contains("--- PASS: ") {
        passed = None;
    }
    let is_told = built == Some(false) || passed.is_some() || !ran_none(output);
    and(passed, built.filter(|_| (tests || passed.is_some()) && is_told))
}

/// What two summaries say together.
fn and(before: Option<bool>, told: Option<bool>) -> Option<bool> {
    match (before, told) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        _ => told.or(before),
    }
}

/// How each runner says it: the line, and the line without blanks around it.
const RUNNERS: &[fn(&str, &str) -> Option<bool>] = &[
    cargo, nextest, go, go_json, gotestsum, jest, maven, gradle, junit, phpunit, pytest, mocha, rspec,
    minitest, exunit, ctest, automake, tap, prove, dotnet, deno, bun, xcodebuild, reward,
];

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
        .then(|| (counts(told, &["failed", "error"]).unwrap_or(0), counts(told, &["passed", "xpassed"])))
        .and_then(|(bad, good)| if bad > 0 { Some(false) } else { good.map(|_| true) })
}

/// unittest's `Ran 3 tests in 0.1s`: how many.
fn unittest_ran(plain: &str) -> Option<u64> {
    let (number, rest) = plain.strip_prefix("Ran ")?.split_once(" test")?;
    rest.trim_start_matches('s').starts_with(" in ").then(|| number.parse().ok())?
}

/// What follows it after a blank line: `OK`, `OK (skipped=1)`, `FAILED (errors=1)`.
fn unittest(plain: &str, ran: u64) -> Option<bool> {
    let skipped = after(plain, "skipped=").unwrap_or(0);
    match plain {
        _ if plain.starts_with("FAILED (") => Some(false),
        _ if plain == "OK" || plain.starts_with("OK (") => (ran > skipped).then_some(true),
        _ => None,
    }
}

/// `test result: ok. 12 passed; 0 failed; ...`, or a program that does not compile.
fn cargo(_: &str, plain: &str) -> Option<bool> {
    if plain.starts_with("error: could not compile") || plain.starts_with("error: test failed") {
        return Some(false);
    }
    let rest = plain.strip_prefix("test result: ")?;
    if rest.starts_with("ok.") {
        before(rest, "passed").filter(|n| *n > 0).map(|_| true)
    } else {
        Some(false)
    }
}

/// `Summary [   0.1s] 5 tests run: 4 passed, 1 failed, 0 skipped`.
fn nextest(_: &str, plain: &str) -> Option<bool> {
    let (_, told) = plain.strip_prefix("Summary [")?.split_once("] ")?;
    let (_, told) = told.split_once(" run: ")?;
    let bad = counts(told, &["failed", "timed out"]).unwrap_or(0);
    if bad > 0 { Some(false) } else { before(told, "passed").filter(|n| *n > 0).map(|_| true) }
}

/// `ok  \tpackage\t0.5s`, `FAIL\tpackage`, `--- FAIL: TestX`, `--- PASS: TestX`, and FAIL alone; tabs may have become blanks.
fn go(line: &str, plain: &str) -> Option<bool> {
    if line.starts_with("FAIL\t") || plain.starts_with("--- FAIL: ") || line == "FAIL" {
        return Some(false);
    }
    if plain.starts_with("--- PASS: ") {
        return Some(true);
    }
    let mut words = line.split_whitespace();
    let (word, _, time) = (words.next()?, words.next()?, words.next()?);
    let is_time = time == "(cached)" || time.strip_suffix('s').is_some_and(|n| n.parse::<f64>().is_ok());
    match word {
        "ok" if line.starts_with("ok") && is_time && words.next().is_none_or(|next| next != "[no") => {
            Some(true)
        }
        "FAIL" if line.starts_with("FAIL") && (is_time || matches!(time, "[build" | "[setup")) => Some(false),
        _ => None,
    }
}

/// `go test -json`: `{"Time":"...","Action":"fail","Package":"a","Test":"TestX","Elapsed":0.1}`. A package without tests passes, too,
/// so that only a test that passed tells of a pass.
fn go_json(_: &str, plain: &str) -> Option<bool> {
    let is_event = plain.starts_with('{') && plain.ends_with('}');
    let (_, action) = plain.split_once("\"Action\":\"").filter(|_| is_event)?;
    match action.split('"').next()? {
        "fail" | "build-fail" => Some(false),
        "pass" => action.contains("\"Test\":\"").then_some(true),
        _ => None,
    }
}

/// `DONE 12 tests, 1 skipped, 1 failure in 0.3s`.
fn gotestsum(_: &str, plain: &str) -> Option<bool> {
    let told = plain.strip_prefix("DONE ")?;
    let tests = before(told, "test").filter(|n| *n > 0)?;
    let bad = counts(told, &["failure", "error"]).unwrap_or(0);
    (bad > 0 || tests > before(told, "skipped").unwrap_or(0)).then_some(bad == 0)
}

/// jest: `Tests:       1 failed, 5 passed, 6 total`; vitest: `Tests  5 passed (5)`. Both count files before that, which may
/// fail without a test: `Test Suites: 1 failed`, `Test Files  1 failed`; vitest's `Errors  1 error` are of none.
fn jest(_: &str, plain: &str) -> Option<bool> {
    if plain.starts_with("Errors  ") {
        return before(plain, "error").filter(|n| *n > 0).map(|_| false);
    }
    let (is_files, rest) = match plain.strip_prefix("Test Suites").or(plain.strip_prefix("Test Files")) {
        Some(rest) => (true, rest),
        None => (false, plain.strip_prefix("Tests")?),
    };
    let rest = rest.trim_start_matches(':');
    let [bad, good] = ["failed", "passed"].map(|word| before(rest, word).is_some_and(|n| n > 0));
    (rest.starts_with(' ') && (bad || good && !is_files)).then_some(!bad)
}

/// Maven and JUnit 4: `Tests run: 5, Failures: 0, Errors: 0`.
fn maven(_: &str, plain: &str) -> Option<bool> {
    let (run, failures) = (after(plain, "Tests run:")?, after(plain, "Failures:")?);
    let bad = failures.saturating_add(after(plain, "Errors:").unwrap_or(0));
    (bad > 0 || run > after(plain, "Skipped:").unwrap_or(0)).then_some(bad == 0)
}

/// Gradle, where some failed: `5 tests completed, 1 failed`.
fn gradle(_: &str, plain: &str) -> Option<bool> {
    let (_, told) = plain.split_once(" completed, ")?;
    let is_summary = counts(plain, &["tests completed", "test completed"]).is_some();
    (is_summary && before(told, "failed")? > 0).then_some(false)
}

/// JUnit 4 and PHPUnit: `OK (2 tests)`; the console of JUnit 5: `[         3 tests successful      ]`, `[  1 tests failed  ]`.
fn junit(_: &str, plain: &str) -> Option<bool> {
    if let Some(told) = plain.strip_prefix("OK (") {
        return before(told, "test").filter(|n| *n > 0).map(|_| true);
    }
    let (number, rest) = plain.strip_prefix('[')?.strip_suffix(']')?.trim().split_once(' ')?;
    let is_some = number.parse::<u64>().ok()? > 0;
    match rest {
        "tests successful" if is_some => Some(true),
        "tests failed" | "containers failed" if is_some => Some(false),
        _ => None,
    }
}

/// PHPUnit, where some failed or did not run: `Tests: 3, Assertions: 3, Failures: 1.`
fn phpunit(_: &str, plain: &str) -> Option<bool> {
    let tests =
        after(plain, "Tests:").filter(|_| plain.starts_with("Tests: ") && plain.contains("Assertions: "))?;
    let sum = |labels: [&str; 2]| {
        labels.iter().filter_map(|label| after(plain, label)).fold(0, u64::saturating_add)
    };
    let bad = sum(["Failures:", "Errors:"]) > 0;
    (bad || tests > sum(["Skipped:", "Incomplete:"])).then_some(!bad)
}

/// The last word of Maven and Gradle, whatever they were to do: `BUILD FAILURE`, `BUILD SUCCESSFUL in 3s`.
fn build(plain: &str) -> Option<bool> {
    let told = plain.trim_start_matches("[INFO] ").trim_start_matches("[ERROR] ");
    match told {
        "BUILD FAILED" | "BUILD FAILURE" => Some(false),
        "BUILD SUCCESS" | "BUILD SUCCESSFUL" => Some(true),
        _ if told.starts_with("BUILD FAILED in ") => Some(false),
        _ if told.starts_with("BUILD SUCCESSFUL in ") => Some(true),
        _ => None,
    }
}

/// mocha: `5 passing (12ms)`, `1 failing`.
fn mocha(_: &str, plain: &str) -> Option<bool> {
    let (number, rest) = plain.split_once(' ')?;
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    match rest {
        _ if !is_number || number == "0" => None,
        "failing" => Some(false),
        _ if rest.starts_with("passing (") => Some(true),
        _ => None,
    }
}

/// `10 examples, 0 failures`, `0 examples, 0 failures, 1 error occurred outside of examples`.
fn rspec(_: &str, plain: &str) -> Option<bool> {
    let (number, rest) = plain.split_once(" example")?;
    let examples: u64 = number.parse().ok()?;
    let bad = before(rest, "failure")?.saturating_add(before(rest, "error").unwrap_or(0));
    (examples > 0 || bad > 0).then_some(bad == 0)
}

/// `3 runs, 5 assertions, 1 failures, 0 errors, 0 skips`.
fn minitest(_: &str, plain: &str) -> Option<bool> {
    let (runs, rest) = plain.split_once(" runs, ")?;
    let (_, told) = rest.split_once(" assertions, ")?;
    let bad = before(told, "failure")?.saturating_add(before(told, "error")?);
    (bad > 0 || runs.parse::<u64>().ok()? > before(told, "skip").unwrap_or(0)).then_some(bad == 0)
}

/// `3 tests, 1 failure`, `1 doctest, 3 tests, 0 failures`.
fn exunit(_: &str, plain: &str) -> Option<bool> {
    let mut parts = plain.split(", ");
    let is_summary = parts.all(|part| {
        part.split_once(' ').is_some_and(|(n, word)| {
            n.bytes().all(|b| b.is_ascii_digit())
                && ["doctest", "test", "failure", "skipped", "excluded", "invalid", "propert"]
                    .iter()
                    .any(|w| word.starts_with(w))
        })
    });
    let (tests, bad) = (before(plain, "test").filter(|_| is_summary)?, before(plain, "failure")?);
    (tests > 0 || bad > 0).then_some(bad == 0)
}

/// `Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5`.
fn dotnet(_: &str, plain: &str) -> Option<bool> {
    let (word, told) = plain.split_once("!  - ")?;
    let (failed, passed) = (after(told, "Failed:")?, after(told, "Passed:")?);
    (matches!(word, "Passed" | "Failed") && failed.saturating_add(passed) > 0).then_some(failed == 0)
}

/// `ok | 5 passed | 0 failed (12ms)`.
fn deno(_: &str, plain: &str) -> Option<bool> {
    let (word, told) = plain.split_once(" | ")?;
    let (passed, failed) = (before(told, "passed")?, before(told, "failed")?);
    (matches!(word, "ok" | "FAILED") && passed.saturating_add(failed) > 0).then_some(failed == 0)
}

/// A line each: ` 5 pass`, ` 1 fail`.
fn bun(_: &str, plain: &str) -> Option<bool> {
    let (number, word) = plain.split_once(' ')?;
    let is_some = number.parse::<u64>().ok()? > 0;
    match word {
        "pass" if is_some => Some(true),
        "fail" if is_some => Some(false),
        _ => None,
    }
}

/// `** TEST SUCCEEDED **`.
fn xcodebuild(_: &str, plain: &str) -> Option<bool> {
    match plain {
        "** TEST SUCCEEDED **" => Some(true),
        "** TEST FAILED **" => Some(false),
        _ => None,
    }
}

/// The last word of Perl's `prove`.
fn prove(_: &str, plain: &str) -> Option<bool> {
    match plain {
        "Result: PASS" => Some(true),
        "Result: FAIL" => Some(false),
        _ => None,
    }
}

/// `100% tests passed, 0 tests failed out of 5`.
fn ctest(_: &str, plain: &str) -> Option<bool> {
    let is_summary = plain.contains("% tests passed, ") && plain.contains(" tests failed out of ");
    is_summary.then(|| before(plain, "tests failed").unwrap_or(1) == 0)
}

/// `# FAIL:  0`, `# ERROR: 0` and `# XPASS: 0` (what was to fail and did not) beside `# PASS:  9`; before 1.13 `All 2 tests
/// passed`, `1 of 2 tests failed`.
fn automake(_: &str, plain: &str) -> Option<bool> {
    let is_number = |text: &str| text.parse::<u64>().is_ok_and(|n| n > 0);
    if plain.strip_prefix("All ").and_then(|rest| rest.strip_suffix(" tests passed")).is_some_and(is_number) {
        return Some(true);
    }
    let failed = plain.strip_suffix(" tests failed").and_then(|rest| rest.split_once(" of "));
    if failed.is_some_and(|(some, all)| is_number(some) && is_number(all)) {
        return Some(false);
    }
    let number = |label: &str| plain.strip_prefix(label).and_then(|rest| rest.trim().parse::<u64>().ok());
    let bad = ["# FAIL:", "# ERROR:", "# XPASS:"].into_iter().find_map(number);
    match (number("# PASS:"), bad) {
        (Some(n), _) if n > 0 => Some(true),
        (_, Some(n)) if n > 0 => Some(false),
        _ => None,
    }
}

/// `not ok 3 - name`, where it is not still to do, `# fail 1`, `# cancelled 1` and `# pass 9`; node's own reporter has another sign.
fn tap(line: &str, plain: &str) -> Option<bool> {
    let told = plain.strip_prefix("# ").or_else(|| plain.strip_prefix("\u{2139} "));
    let number = |label: &str| told?.strip_prefix(label).and_then(|rest| rest.trim().parse::<u64>().ok());
    if line.strip_prefix("not ok ").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        let is_open = line
            .split_once(" # ")
            .is_some_and(|(_, said)| said.get(..4).is_some_and(|w| w.eq_ignore_ascii_case("todo")));
        return (!is_open).then_some(false);
    }
    match (number("pass "), number("fail ").or_else(|| number("cancelled "))) {
        (Some(n), _) if n > 0 => Some(true),
        (_, Some(n)) if n > 0 => Some(false),
        _ => None,
    }
}

/// `reward: 1.0` or `"reward": 0.0,` as a line of its own, or in an object on one line.
fn reward(_: &str, plain: &str) -> Option<bool> {
    if let Some((_, rest)) = plain.split_once("\"reward\":").filter(|_| plain.starts_with('{')) {
        return is_full(rest.split([',', '}']).next()?.trim());
    }
    let (key, value) = plain.split_once(':')?;
    let is_reward = key.trim_matches(['"', '\'', ' ']).eq_ignore_ascii_case("reward");
    is_reward.then(|| is_full(value.trim_matches([' ', ','])))?
}

/// Whether a reward is 1; what is more is no environment's reward, but points, money or the like.
fn is_full(value: &str) -> Option<bool> {
    let value: f64 = value.parse().ok()?;
    (value <= 1.0).then_some(value == 1.0)
}

/// Whether an environment tells a reward of 1, beside what a tool says of itself; none where it tells no reward.
pub(crate) fn rewarded(output: &str) -> Option<bool> {
    output.lines().filter_map(|line| reward(line, line.trim())).next_back()
}

/// Whether a line says that no tests ran.
pub(crate) fn ran_none(output: &str) -> bool {
    const BEGINS: [&str; 8] = [
        // Of a make in a make, `make[1]: `, others may have done something.
        "make: Nothing to be done for",
        "Ran 0 tests",
        "NO TESTS RAN",
        "0 examples,",
        "collected 0 items",
        "No tests found",
        "test result: ok. 0 passed",
        "?   \t",
    ];
    const HOLDS: [&str; 9] = [
        "No test files found",
        "Tests are skipped",
        " collected in ",
        ":test UP-TO-DATE",
        "no tests ran",
        "no tests to run",
        "No tests to run",
        "[no test files]",
        ":test NO-SOURCE",
    ];
    output.lines().map(str::trim).any(|line| {
        BEGINS.iter().any(|begin| line.starts_with(begin)) || HOLDS.iter().any(|sign| line.contains(sign))
    })
}

/// Whether a line speaks of tests that were skipped: `3 skipped`, `Skipped: 3`, `--- SKIP: TestX`, and not `0 skipped`. With no test that passed
/// beside them the run is no pass.
pub(crate) fn tells_skips(output: &str) -> bool {
    output.lines().any(|line| {
        let lower = line.to_ascii_lowercase();
        let many = [before(&lower, "skipped"), after(&lower, "skipped:"), after(&lower, "skipped=")];
        line.contains("--- SKIP: ") || many.iter().flatten().any(|&n| n > 0)
    })
}

/// Whether a command was sent to the background: how it ended is not known.
pub(crate) fn in_background(output: &str) -> bool {
    let first = output.trim_start().lines().next().unwrap_or("");
    first.starts_with("Command running in background")
        || first.starts_with("Command was manually backgrounded")
}

/// Whether a line speaks of failure, as scripts do that test by themselves and end well whatever came of it: `Test 1 FAILED`,
/// `2 of 3 failed`, and not `0 failed`. That is no summary, but who has read it does not call the run a pass.
pub(crate) fn tells_failure(output: &str) -> bool {
    output.lines().any(|line| {
        let words: Vec<&str> =
            line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
        let is_none = |at: Option<usize>| {
            let word = at.and_then(|at| words.get(at));
            word.is_some_and(|word| matches!(word.to_ascii_lowercase().as_str(), "0" | "no" | "none"))
        };
        let is_test = |word: &&str| matches!(word.to_ascii_lowercase().as_str(), "test" | "tests");
        let counted = |at: usize| words[..at].iter().any(|word| is_test(word) || word.parse::<u64>().is_ok());
        words.iter().enumerate().any(|(at, word)| {
            let fails = matches!(*word, "FAILED" | "FAIL" | "AssertionError")
                || matches!(*word, "failed" | "Failed") && counted(at);
            // `0 failed`, `0 tests failed`, `FAILED: 0`.
            let before = at.checked_sub(1).map(|last| last - usize::from(last > 0 && is_test(&words[last])));
            fails && !is_none(before) && !is_none(Some(at + 1))
        }) || line.contains(['\u{274c}', '\u{2717}', '\u{2718}'])
    })
}

/// The exit code that the environment tells in its first line (`<returncode>1</returncode>`, `Exit code 1`) or in its last
/// (`[The command completed with exit code 1.]`). Programs print codes at their end, too, but of others.
pub(crate) fn exit_code(output: &str) -> Option<i64> {
    const FIRST: [&str; 5] = ["<returncode>", "Exit code ", "Exit code: ", "exit code: ", "[exit code: "];
    const LAST: [&str; 4] = [
        "[The command completed with exit code ",
        "[Command finished with exit code ",
        "Command exited with code ",
        "[exit code: ",
    ];
    let number = |line: &str, labels: &[&str]| {
        let rest = labels.iter().find_map(|label| line.trim().strip_prefix(label))?;
        rest.split('<').next()?.trim_end_matches([']', ')', '.']).trim().parse().ok()
    };
    let mut lines = output.lines().filter(|line| !line.trim().is_empty());
    let first = output.lines().next().and_then(|line| number(line, &FIRST));
    first.or_else(|| number(lines.next_back()?, &LAST))
}

/// The exit code that a command prints itself, as its last line: `exit=1` after `; echo exit=$?`.
pub(crate) fn printed_code(output: &str) -> Option<i64> {
    let is_mark =
        |line: &&str| line.trim().is_empty() || line.trim().starts_with("</") || line.starts_with('[');
    let last = output.lines().rev().find(|line| !is_mark(line))?.trim_end();
    let digits = last.len() - last.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    last[last.len() - digits..].parse().ok()
}

/// Whether a program broke down: it raised, or could not be run.
pub(crate) fn broke(output: &str) -> bool {
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

/// Whether a compiler, type checker, linter or build complains, or an exception is the last word. A program may well print as
/// much of something else: this is no more than a reason not to take a run for a good one.
pub(crate) fn complains(output: &str) -> bool {
    let says = |line: &str| {
        line.contains(": error: ")
            || line.contains(": error TS")
            || line.contains(" - error TS")
            || line.contains(": fatal error: ")
            || ["error: ", "error[", "FAILURE: "].iter().any(|sign| line.starts_with(sign))
            || is_linted(line)
            || is_compiled(line)
    };
    let is_error = |line: &str| is_raised(line) || line.starts_with("Error: ") || line.starts_with("ERROR");
    output.lines().any(says)
        || output.lines().rev().find(|line| !line.trim().is_empty()).is_some_and(is_error)
}

/// What is said of a place in a file: `src/a.py:3:5: said`.
fn said_of_place(line: &str) -> Option<(&str, &str)> {
    let mut parts = line.splitn(4, ':');
    let (file, at, column, said) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    (is_number(at) && is_number(column)).then(|| (file, said.trim_start()))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Whether a line is what a compiler that says no more than that finds wrong: `./a.go:57:59: not enough arguments`.
fn is_compiled(line: &str) -> bool {
    const SOURCES: [&str; 5] = [".go", ".swift", ".zig", ".kt", ".scala"];
    said_of_place(line).is_some_and(|(file, said)| {
        SOURCES.iter().any(|end| file.ends_with(end))
            && !["warning", "note"].iter().any(|mild| said.starts_with(mild))
    })
}

/// Whether a line is what a linter says of a place: `src/a.py:3:5: F821 undefined name 'x'`.
fn is_linted(line: &str) -> bool {
    said_of_place(line).is_some_and(|(file, said)| {
        let code = said.split(' ').next().unwrap_or("");
        let digits = code.trim_start_matches(|c: char| c.is_ascii_uppercase());
        let letters = code.len() - digits.len();
        file.contains(['.', '/'])
            && (1..=4).contains(&letters)
            && (3..=4).contains(&digits.len())
            && is_number(digits)
    })
}

/// Whether a line is an exception, with or without what it says: `TypeError: x`, `django.db.utils.OperationalError: no such
/// table: x`, `AssertionError`. A bare `Error: x` is anybody's.
fn is_raised(line: &str) -> bool {
    let name = line.split(": ").next().unwrap_or(line);
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
    is_name
        && ["Error", "Exception"].iter().any(|kind| name.strip_suffix(kind).is_some_and(|of| !of.is_empty()))
}

/// Whether a tool tells at the end of its output that it gave up: make, a build, JavaScript that threw, what was killed; or its
/// harness before that output.
pub(crate) fn gave_up(output: &str) -> bool {
    const BEGINS: [&str; 6] = [
        "EXECUTION TIMED OUT",
        "Segmentation fault",
        "Exception in thread \"",
        "PHP Fatal error:",
        "Fatal error:",
        "Command timed out after ",
    ];
    // What an agent's harness says of a time limit, before the output or behind it.
    const LIMITS: [&str; 2] = ["was cancelled because it took more than", "timed out and has been killed"];
    let is_limit = |line: &str| LIMITS.iter().any(|sign| line.contains(sign));
    // Ruby: `a.rb:1:in 'f': x (NoMethodError)`.
    let crashes = |line: &str| {
        line == "Killed"
            || is_limit(line)
            || BEGINS.iter().any(|begin| line.starts_with(begin))
            || line.ends_with("Error)") && line.contains(":in ")
    };
    let makes = |line: &str| {
        line.starts_with("make") && line.split_once(": *** ").is_some_and(|(make, _)| !make.contains(' '))
    };
    // `TypeError: x`, with the lines of its stack below.
    let throws = |line: &str| {
        let line = line.strip_prefix("Uncaught ").unwrap_or(line);
        let name = line.split([':', ' ']).next().unwrap_or("");
        name.ends_with("Error") && line.len() > name.len()
    };
    let mut in_stack = false;
    let mut told = output.lines().filter(|line| !line.trim().is_empty());
    if told.next().is_some_and(is_limit) {
        return true;
    }
    output.lines().rev().filter(|line| !line.trim().is_empty()).take(LAST).any(|line| {
        let has_stack = in_stack && throws(line);
        in_stack |= line.starts_with("    at ");
        has_stack || makes(line) || crashes(line) || build(line.trim()) == Some(false)
    })
}

/// What an editor says of an edit that it made, whatever the linter that it calls, or the text that it shows, goes on to say.
const APPLIED: [&str; 3] =
    ["File updated. Please review the changes", "has been edited", "has been updated successfully"];

/// Whether an editor says that it did not edit, or broke down.
pub(crate) fn edit_refused(output: &str) -> bool {
    let head = beginning(output);
    let is_error = head.trim_start().lines().next().is_some_and(|first| {
        let first = first.trim_start_matches(['<', '[', '*', ' ']).to_ascii_lowercase();
        ["error", "failed to ", "permission denied", "no such file"]
            .iter()
            .any(|sign| first.starts_with(sign))
    });
    editor_refuses(output) || (is_error || broke(head)) && !APPLIED.iter().any(|sign| output.contains(sign))
}

/// Whether an editor says in its own words that it did not edit, whatever else ran and broke down.
pub(crate) fn editor_refuses(output: &str) -> bool {
    const SAYS: [&str; 7] = [
        "Your proposed edit has introduced new syntax error",
        "Your changes have NOT been applied",
        "No replacement was performed",
        "String to replace not found",
        "<tool_use_error>",
        "apply_patch verification failed",
        "The arguments provided do not match",
    ];
    const BEGINS: [&str; 9] = [
        "Usage: ",
        "Invalid `",
        "No file open",
        "sed: ",
        "perl: ",
        "patch: ",
        "error: patch failed",
        "cp: ",
        "mv: ",
    ];
    let head = beginning(output);
    let is_applied = APPLIED.iter().any(|sign| head.contains(sign));
    !is_applied
        && (SAYS.iter().any(|sign| head.contains(sign))
            || head.lines().any(|line| BEGINS.iter().any(|begin| line.starts_with(begin))))
}

fn beginning(output: &str) -> &str {
    &output[..output.floor_char_boundary(600)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn is(output: &str, expected: Option<bool>) {
        assert_eq!(outcome(&edges(output), false), expected, "{output}");
    }

    #[test]
    fn the_frame_of_an_environment_is_no_output() {
        let framed = "exit=1\n(Open file: n/a)\n(Current directory: /repo)\nbash-$";
        assert_eq!(printed_code(&edges(framed)), Some(1));
        assert!(complains(&edges("ValueError: 3\n(Open file: /a.py)\n(Current directory: /)\nbash-$")));
        assert_eq!(exit_code(&edges("OBSERVATION:\nExit code 2\nx")), Some(2));
        for kept in ["see\n(Open file: a)", "a\n$ bash-$", "OBSERVATION: x"] {
            assert_eq!(edges(kept), kept);
        }
    }

    #[test]
    fn what_tells_that_it_did_not_go_well() {
        for output in [
            "src/a.py:3: error: Incompatible types  [assignment]\nFound 1 error in 1 file (checked 1 source file)",
            "./src/a.py:3:5: F821 undefined name 'x'",
            "a.c:4:1: fatal error: x.h: No such file",
            "error[E0425]: cannot find value `x`",
            "FAILURE: Build failed with an exception.\n\n* What went wrong:\nno task",
        ] {
            assert!(complains(output), "{output}");
        }
        for output in
            ["12:30:05: T100 began", "no error: all is well", "src/a.py:3:5: see below", "a:b:c: E501"]
        {
            assert!(!complains(output), "{output}");
        }
        assert!(complains("checking\ndjango.db.utils.OperationalError: no such table: x\n"));
        for output in
            ["TypeError: x", "x = 1\nKeyError: 'x'", "  assert x\nAssertionError\n", "java.lang.Exception: x"]
        {
            assert!(complains(output), "{output}");
        }
        for output in ["Exception: x", "ValueError: is caught\nall is well", "no TypeError: x"] {
            assert!(!complains(output), "{output}");
        }
        assert!(!complains("The last Error: none"));
        is("\u{2139} tests 3\n\u{2139} pass 1\n\u{2139} fail 2\n", Some(false));
        is("\u{2139} tests 3\n\u{2139} pass 3\n\u{2139} fail 0\n", Some(true));
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
        is("  5 passing (12ms)\n  1 failing", Some(false));
        is("10 examples, 0 failures", Some(true));
        is("100% tests passed, 0 tests failed out of 5", Some(true));
        is("80% tests passed, 1 tests failed out of 5", Some(false));
        is("# TOTAL: 9\n# PASS:  9\n# FAIL:  0\n# ERROR: 0", Some(true));
        is("# PASS:  8\n# FAIL:  1", Some(false));
        is("# PASS:  8\n# FAIL:  0\n# XPASS: 1", Some(false));
        let event = |action: &str, of: &str| {
            format!("{{\"Action\":\"{action}\",\"Package\":\"a\"{of},\"Elapsed\":0.1}}\n")
        };
        let test = ",\"Test\":\"TestX\"";
        is(&[event("run", test), event("pass", test), event("pass", "")].concat(), Some(true));
        is(&[event("pass", test), event("fail", test), event("fail", "")].concat(), Some(false));
        is(&event("pass", ""), None);
        is(&event("build-fail", ""), Some(false));
        is("ok 1 - a\nnot ok 2 - b\n1..2", Some(false));
        is("{\n  \"reward\": 0.0,\n}", Some(false));
        is("reward: 1.0", Some(true));
    }

    #[test]
    fn runners_of_other_languages() {
        is("DONE 12 tests, 1 failure in 0.3s", Some(false));
        is("DONE 12 tests in 0.3s", Some(true));
        is("      Tests  5 passed (5)\n     Errors  1 error\n", Some(false));
        is("# pass 3\n# fail 0\n# cancelled 1", Some(false));
        is("ok 1 - a\nnot ok 2 - x # TODO later\nResult: PASS", Some(true));
        is("Result: FAIL", Some(false));
        is("FAILURES!\nTests: 3, Assertions: 3, Failures: 1.", Some(false));
        is("OK (3 tests, 3 assertions)", Some(true));
        is("OK, but some tests were skipped!\nTests: 7, Assertions: 9, Skipped: 2.", Some(true));
        is("Tests: 2, Assertions: 0, Incomplete: 1, Skipped: 1.", None);
        is("3 runs, 5 assertions, 1 failures, 0 errors, 0 skips", Some(false));
        is("3 runs, 5 assertions, 0 failures, 0 errors, 0 skips", Some(true));
        is("1 doctest, 3 tests, 0 failures", Some(true));
        is("3 tests, 1 failure", Some(false));
        is("Passed!  - Failed:     0, Passed:     5, Skipped:     0, Total:     5", Some(true));
        is("Failed!  - Failed:     1, Passed:     4, Skipped:     0, Total:     5", Some(false));
        is("ok | 5 passed | 0 failed (12ms)", Some(true));
        is("FAILED | 4 passed | 1 failed (12ms)", Some(false));
        is(" 5 pass\n 0 fail", Some(true));
        is(" 5 pass\n 1 fail", Some(false));
        is("** TEST SUCCEEDED **", Some(true));
        is("All 2 tests passed", Some(true));
        is("1 of 2 tests failed", Some(false));
        is("===== 2 xpassed in 0.1s =====", Some(true));
        is("{\"reward\": 0.0}", Some(false));
        is("{\"status\": \"ok\", \"reward\": 1.0}", Some(true));
        // All skipped.
        is("Ran 3 tests in 0.1s\n\nOK (skipped=3)", None);
        is("Tests run: 3, Failures: 0, Errors: 0, Skipped: 3", None);
        is("=== RUN   TestX\n--- SKIP: TestX (0.00s)\nPASS\nok  \ta\t0.1s", None);
        assert_eq!(outcome("> Task :test UP-TO-DATE\nBUILD SUCCESSFUL in 1s", true), None);
    }

    /// What looks like a pass and is none.
    #[test]
    fn a_run_of_no_tests_has_not_passed() {
        let none = |output: &str| {
            is(output, None);
            assert!(ran_none(output), "{output}");
        };
        none("\n------\nRan 0 tests in 0.000s\n\nOK");
        none(
            "running 0 tests\n\ntest result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 12 filtered out; finished in 0.00s",
        );
        none("testing: warning: no tests to run\nPASS\nok  \texample.com/a\t0.003s [no tests to run]");
        none("?   \texample.com/a\t[no test files]");
        none("0 examples, 0 failures");
        // One of several that ran some is enough.
        is("test result: ok. 0 passed; 0 failed\ntest result: ok. 3 passed; 0 failed", Some(true));
        is("ok  \ta\t0.1s [no tests to run]\nok  \tb\t0.1s", Some(true));
        // A file, or what stands around the examples, may fail without a test.
        is("Test Suites: 1 failed, 1 passed, 2 total\nTests:       3 passed, 3 total", Some(false));
        is(" Test Files  1 failed | 1 passed (2)\n      Tests  3 passed (3)", Some(false));
        is("0 examples, 0 failures, 1 error occurred outside of examples", Some(false));
    }

    #[test]
    fn a_build_tells_of_tests_where_it_was_to_run_them() {
        let told = |output: &str| [outcome(output, true), outcome(output, false)];
        assert_eq!(told("[INFO] Compiling 3 source files\n[INFO] BUILD SUCCESS"), [Some(true), None]);
        assert_eq!(told("BUILD SUCCESSFUL in 2s\n1 actionable task: 1 executed"), [Some(true), None]);
        assert_eq!(told("> Task :test FAILED\n\nBUILD FAILED in 3s"), [Some(false), None]);
        assert_eq!(told("[INFO] No tests to run.\n[INFO] BUILD SUCCESS"), [None, None]);
        // Beside a count it tells in any case.
        assert_eq!(told("Tests run: 5, Failures: 0, Errors: 0\n[INFO] BUILD FAILURE"), [Some(false); 2]);
        assert!(gave_up("[INFO] Compiling\n[INFO] BUILD FAILURE") && gave_up("BUILD FAILED in 3s"));
    }

    #[test]
    fn more_ways_to_say_it() {
        is("T > a() FAILED\n\n5 tests completed, 1 failed\n\nBUILD FAILED in 3s", Some(false));
        let junit = |good: u32, bad: u32| {
            format!(
                "[         5 tests started         ]\n[         {good} tests successful      ]\n[         {bad} tests failed          ]"
            )
        };
        is(&junit(5, 0), Some(true));
        is(&junit(4, 1), Some(false));
        is(&junit(0, 0), None);
        is("JUnit version 4.13.2\n..\nTime: 0.008\n\nOK (2 tests)", Some(true));
        is("\x1b[32m\x1b[32m\x1b[1m2 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m\x1b[0m", Some(true));
        is("\x1b[31m\x1b[1m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m\x1b[31m in 0.3s\x1b[0m", Some(false));
        is("ok      example.com/a   0.003s", Some(true));
        is("ok      example.com/a   (cached)", Some(true));
        is("FAIL    example.com/a   0.003s", Some(false));
        is("FAIL    example.com/a [build failed]", Some(false));
        is("=== RUN   TestX\n--- PASS: TestX (0.00s)\nPASS", Some(true));
        is("1 example, 0 failures", Some(true));
        is("3 examples, 1 failure, 1 pending", Some(false));
        is("     Summary [   0.005s] 5 tests run: 5 passed, 0 skipped", Some(true));
        is("     Summary [   0.1s] 5/9 tests run: 4 passed, 1 failed, 0 skipped", Some(false));
    }

    #[test]
    fn failures_that_are_no_summary() {
        let tells = |output: &str, expected: bool| assert_eq!(tells_failure(output), expected, "{output}");
        tells("Test 1 FAILED: 'List' object has no attribute 'opts'", true);
        tells("ok\n2 of 2 failed", true);
        tells("Tests failed: 2", true);
        tells("\u{2717} parses", true);
        tells("AssertionError: 3 != 4", true);
        tells("5 passed, 0 failed", false);
        tells("0 tests failed\nno tests failed\nFAILED: 0\nFailed tests: none", false);
        tells("the request failed as it should", false);
    }

    #[test]
    fn tools_that_give_up() {
        assert!(gave_up("make: *** [Makefile:2: check] Error 1"));
        assert!(gave_up("make[1]: *** [a.o] Error 1"));
        assert!(!gave_up("make: [Makefile:2: clean] Error 1 (ignored)"));
        assert!(gave_up(
            "/app/run.js:3\n    throw new Error('x')\n    ^\n\nError: x\n    at Object.<anonymous> (/app/run.js:3:7)"
        ));
        assert!(!gave_up(&format!("make: *** [a.o] Error 1\n{}", "well\n".repeat(20))));
        assert!(!gave_up("Error: no such user\nlooking at it"));
        let killed = "The last command <command>python a.py</command> timed out and has been killed.\n";
        assert!(gave_up(&format!("{killed}The output of the command was:\n{}", "well\n".repeat(40))));
        assert!(!ran_none("make[1]: Nothing to be done for 'all'.\nall is well"));
    }

    #[test]
    fn rewards() {
        assert_eq!(rewarded("{\"status\": \"cancelled\"}\nreward: 1.0"), Some(true));
        assert_eq!(rewarded("{\n  \"reward\": 0.5,\n}"), Some(false));
        assert_eq!(rewarded("3 passed in 0.1s"), None);
    }

    #[test]
    fn words_alone_are_no_outcome() {
        is("OK", None);
        is("status:\nOK\nbody: 12 bytes", None);
        is("PASS", None);
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
        assert_eq!(exit_code("value 3\n[The command completed with exit code 1.]"), Some(1));
        assert_eq!(exit_code("boom\n\nCommand exited with code 127\n"), Some(127));
        assert_eq!(exit_code("it said\nExit code 3"), None);
        assert!(broke("x\nTraceback (most recent call last):\n  File"));
        assert!(broke("/bin/python: No module named pytest") && !broke("no module is named"));
        assert!(edit_refused("Your proposed edit has introduced new syntax error(s)."));
        assert!(!edit_refused("The file a.py has been updated."));
        let applied = "    from __future__ import annotations\n    ^\nSyntaxError: future feature annotations is not defined\n\
                       [File: /a.py (3 lines total)]\n1:a\nFile updated. Please review the changes and make sure they are correct";
        assert!(!edit_refused(applied));
        assert!(edit_refused(applied.split("[File").next().unwrap()));
        for refusal in [
            "error: the text to replace was not found",
            "Error: old_string not found in file",
            "Error: Permission denied",
            "<error>File has not been read yet</error>",
            "apply_patch verification failed: x",
            "Usage: edit <from>:<to>",
        ] {
            assert!(edit_refused(refusal), "{refusal}");
        }
        let shown = "The file /r/cli.py has been edited. Here's the result of running `cat -n`:\nUsage: cli [options]\nInvalid `x`\nError: x";
        assert!(!edit_refused(shown) && !editor_refuses(shown));
        assert!(!edit_refused("Wrote cli.py: 3 lines\nThe error is handled"));
        let failed = "Traceback (most recent call last):\n1 failed in 0.1s";
        assert!(edit_refused(failed) && !editor_refuses(failed));
        assert!(editor_refuses("sed: can't read a.py: No such file or directory"));
    }

    #[test]
    fn of_a_giant_output_the_ends_are_read() {
        let text = format!("{}\u{e9}\n===== 1 failed, 2 passed in 0.3s =====", "é\n".repeat(1_000_000));
        assert!(edges(&text).len() <= 2 * EDGE + 8);
        is(&edges(&text), Some(false));
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "(\\PC|\n|[0-9]{1,30} (passed|failing|tests failed)| in 3s|Tests run: |Failures: |ok |reward: |\x1b\\[|\\[32m|Error: | example|Ran ){0,40}") {
            let text = edges(&text);
            outcome(&text, true);
            gave_up(&text);
            tells_failure(&text);
            exit_code(&text);
            edit_refused(&text);
        }
    }
}
