//! Tests of `outcomes`.

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
    for output in ["12:30:05: T100 began", "no error: all is well", "src/a.py:3:5: see below", "a:b:c: E501"]
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

/// What looks like a pass and is none.
#[test]
fn a_run_of_no_tests_has_not_passed() {
    let none = |output: &str| {
        is(output, None);
        assert!(RUNNERS.ran_none(output), "{output}");
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
    assert_eq!(told("> Task :test UP-TO-DATE\nBUILD SUCCESSFUL in 1s"), [None, None]);
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
    assert!(!RUNNERS.ran_none("make[1]: Nothing to be done for 'all'.\nall is well"));
}

#[test]
fn rewards() {
    assert_eq!(rewarded("{\"status\": \"cancelled\"}\nreward: 1.0"), Some(true));
    assert_eq!(rewarded("{\n  \"reward\": 0.5,\n}"), Some(false));
    assert_eq!(rewarded("3 passed in 0.1s"), None);
    is("{\n  \"reward\": 0.0,\n}", Some(false));
    is("{\"status\": \"ok\", \"reward\": 1.0}", Some(true));
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
