//! Tests of `turns`.

use super::*;
use crate::trajectory::Kind;

use crate::trajectory::{Builder, Role, action_text, step};
use proptest::prelude::*;

/// Turns of (what the agent says, its command, what came of it).
fn facts(turns: &[(&str, &str, &str)]) -> Turns {
    let mut builder = Builder::new();
    builder.push(step(Role::User, Kind::Message, "task"));
    for (said, command, result) in turns {
        builder.begin_call();
        builder.push(step(Role::Agent, Kind::Thought, *said));
        builder.push(step(Role::Agent, Kind::Action, *command));
        builder.push(step(Role::Tool, Kind::Observation, *result));
    }
    read(&builder.finish())
}

#[test]
fn files_and_how_they_were_touched() {
    let t = facts(&[
        ("", "cat src/a.py", "x"),
        ("", "sed -i 's/a/b/' src/a.py", ""),
        ("", "grep -n foo src/b.py src/c.py", "x"),
        ("", "python src/a.py", "Traceback (most recent call last):"),
        ("", "cd /testbed && ls **/*_test.go", "a"),
    ]);
    let of = |turn: usize| -> Vec<(&str, Touch)> {
        t.turns[turn].files.iter().map(|(n, touch)| (t.names[*n as usize].as_str(), *touch)).collect()
    };
    assert_eq!(of(1), [("src/a.py", Touch::Read)]);
    assert_eq!(of(2), [("src/a.py", Touch::Edit)]);
    assert_eq!(of(3), [("src/b.py", Touch::Read), ("src/c.py", Touch::Read)]);
    assert_eq!(of(4), [("src/a.py", Touch::Run)]);
    assert_eq!(of(5), []);
    assert_eq!(t.turns[4].ran_well, Some(false));
    assert!(t.turns[2].edited && t.turns[1].looked);
}

#[test]
fn tests_and_their_outcomes() {
    let of = |command: &str, result: &str| {
        let t = facts(&[("", command, result)]);
        t.turns[1].test.map(|test| (t.names[test.target as usize].clone(), test.passed))
    };
    let test = |target: &str, passed| Some((format!("test {target}"), passed));
    assert_eq!(
        of("python -m pytest tests/test_a.py::T -q", "1 passed in 0.2s"),
        test("pytest tests/test_a.py::T", Some(true))
    );
    assert_eq!(
        of("cd /testbed && python test_fix.py", "<returncode>0</returncode>\nok"),
        test("test_fix.py", Some(true))
    );
    assert_eq!(of("python test_fix.py | head", "<returncode>0</returncode>\nok"), test("test_fix.py", None));
    assert_eq!(
        of("python test_fix.py | head", "Traceback (most recent call last):"),
        test("test_fix.py", Some(false))
    );
    assert_eq!(
        of("./tests/runtests.py admin", "Ran 2 tests in 1s\n\nOK"),
        test("./tests/runtests.py admin", Some(true))
    );
    assert_eq!(of("cargo test turns", "test result: FAILED. 1 passed"), test("test turns", Some(false)));
    assert_eq!(of("mise run test 2>&1 | tail", "ok  \ta/b\t1s"), test("test", Some(true)));
    assert_eq!(
        of("conda activate testbed && pytest tests/a.py", "1 passed in 0.1s"),
        test("pytest tests/a.py", Some(true))
    );
    assert_eq!(
        of("conda run -n testbed pytest tests/a.py", "1 passed in 0.1s"),
        test("pytest tests/a.py", Some(true))
    );
    assert_eq!(of("pytest a.py -k t1", "1 passed in 0.1s"), test("pytest a.py -k t1", Some(true)));
    assert_eq!(of("mvn test -Dtest=A", "[INFO] BUILD SUCCESS"), test("test -k A", Some(true)));
    // A script that tests by itself may end well whatever came of it, and a run of no tests always does.
    assert_eq!(
        of(
            "python test_fix.py",
            "<returncode>0</returncode>\n<output>\nTest 1 FAILED: bad\n2 of 2 failed\n</output>"
        ),
        test("test_fix.py", None)
    );
    assert_eq!(
        of("python -m unittest", "<returncode>0</returncode>\nRan 0 tests in 0.0s\n\nOK"),
        test("unittest", None)
    );
    // A build tells of tests where it was to run them, and else of itself.
    assert_eq!(of("mvn test", "[INFO] BUILD SUCCESS"), test("test", Some(true)));
    assert_eq!(of("mvn compile", "[INFO] BUILD SUCCESS"), None);
    assert_eq!(facts(&[("", "make", "make: *** [Makefile:2: a.o] Error 1")]).turns[1].ran_well, Some(false));
    // A listing is no outcome, and reading a log of tests is no test.
    assert_eq!(of("ls", "PASSED.txt\nFAILED.txt"), None);
    assert_eq!(of("cat log.txt", "3 passed in 0.1s"), None);
    // A program that prints a runner's summary ran tests.
    assert_eq!(
        of("python run.py", "Ran 3 tests in 0.1s\n\nFAILED (failures=1)").map(|t| t.1),
        Some(Some(false))
    );
}

/// Only what runs a program is a check that stood, and only its own exit code tells.
#[test]
fn what_runs_and_whose_code_it_is() {
    let ran = |command: &str, result: &str| facts(&[("", command, result)]).turns[1].ran_well;
    for command in [
        "git commit -m 'make it work'",
        "chmod +x ./run.sh",
        "mkdir -p ./build",
        "git diff ./src",
        "du -sh ./build",
        "cmake --version",
        "go build ./... 2>&1 | head -30",
        "tsc -p ./tsconfig.json",
    ] {
        assert_eq!(ran(command, "well"), None, "{command}");
    }
    for command in [
        "python a.py",
        "cd src && ./run.sh | tail",
        "make",
        "FOO=1 node a.js",
        "cargo run -- x",
        "python - <<'E'\nprint(1)\nE",
    ] {
        assert_eq!(ran(command, "well"), Some(true), "{command}");
    }
    for output in [
        "Segmentation fault (core dumped)",
        "Killed",
        "Exception in thread \"main\" x",
        "PHP Fatal error: x",
        "a.rb:1:in `f': x (NoMethodError)",
    ] {
        assert_eq!(ran("make run", output), Some(false), "{output}");
    }
    assert_eq!(ran("make", "a.go:57:59: not enough arguments in call"), None);
    assert_eq!(ran("make", "Error: cannot connect"), None);
    // A limit of time ends no run well.
    for output in [
        "EXECUTION TIMED OUT because the command was running for more than 25 seconds.",
        "The command 'python run.py' was cancelled because it took more than 30 seconds.",
        "The last command <command>python run.py</command> timed out and has been killed.",
    ] {
        assert_eq!(ran("python run.py", output), Some(false), "{output}");
    }
    assert_eq!(ran("python app.py --dry-run", "would move 3 files"), Some(true));
    assert_eq!(ran("python run.py", "Command running in background with ID: bash_1"), None);
}

#[test]
fn whose_tests_passed() {
    let passed = |command: &str, result: &str| facts(&[("", command, result)]).turns[1].test.unwrap().passed;
    let good = "<returncode>0</returncode>\n<output>\nsaid\n</output>";
    assert_eq!(passed("cd a && python tests/test_a.py", good), Some(true));
    for command in
        ["python tests/test_a.py || true", "python tests/test_a.py|tail -3", "python tests/test_a.py; ls"]
    {
        assert_eq!(passed(command, good), None, "{command}");
    }
    assert_eq!(
        passed("pytest tests; echo exit=$?", "<returncode>0</returncode>\n<output>\nexit=1\n</output>"),
        Some(false)
    );
    assert_eq!(passed("pytest tests; echo \"exit: $?\"", "error importing\nexit: 4"), Some(false));
    assert_eq!(passed("pytest tests; echo $?", "0"), Some(true));
    assert_eq!(passed("pytest tests; echo $?; ls", "0\na  20"), None);
    // With no test that passed a good code is no pass.
    for none in [
        "3 skipped in 0.1s",
        "Ran 3 tests in 0.001s\n\nOK (skipped=3)",
        "Tests run: 3, Failures: 0, Errors: 0, Skipped: 3",
        "--- SKIP: TestX (0.00s)\nPASS\nok a 0.1s",
        "Tests:       3 skipped, 3 total",
        "make: Nothing to be done for 'check'.",
        "No test files found, exiting with code 0",
        "[INFO] Tests are skipped.\n[INFO] BUILD SUCCESS",
    ] {
        let output = format!("<returncode>0</returncode>\n<output>\n{none}\n</output>");
        assert_eq!(passed("make test", &output), None, "{none}");
    }
    assert_eq!(passed("make test", "Command running in background with ID: bash_1"), None);
    assert_eq!(
        passed("make check", "<returncode>0</returncode>\n<output>\n0 skipped\n</output>"),
        Some(true)
    );
    // What versions and other runs hold is no test of this turn.
    for command in ["git log -3", "cd a && git --no-pager diff", "gh run view 12 --log", "git log | diff - a"]
    {
        assert!(facts(&[("", command, "    3 passed in 0.12s")]).turns[1].test.is_none(), "{command}");
    }
    // What is taken back is no change, and a log is no source.
    assert!(!facts(&[("", "git checkout -- a.py", "")]).turns[1].edited);
    assert!(!facts(&[("", "python run.py | tee out.txt", "x")]).turns[1].edited);
    assert!(facts(&[("", "git stash pop", "")]).turns[1].edited);
}

#[test]
fn one_file_of_several_paths() {
    let names = |commands: &[&str]| -> Vec<String> {
        let turns: Vec<(&str, &str, &str)> = commands.iter().map(|c| ("", *c, "x")).collect();
        let t = facts(&turns);
        t.turns[1..]
            .iter()
            .map(|f| f.files.first().map_or(String::new(), |f| t.names[f.0 as usize].clone()))
            .collect()
    };
    assert_eq!(
        names(&["cat src/a.py", "cd lib && cat a.py", "cd /r && cat src/a.py"]),
        ["src/a.py", "lib/a.py", "src/a.py"]
    );
    assert_eq!(
        names(&["cat src/auth/a.py", "cat src/auth/../auth/a.py", "cat ../auth/a.py"]),
        ["src/auth/a.py"; 3]
    );
    assert_eq!(names(&["git apply fix.patch", "patch -p1 < fix.patch"]), ["", ""]);
    let tool = |name: &str, path: &str| {
        let arguments = serde_json::json!({ "path": path }).to_string();
        let mut action = step(Role::Agent, Kind::Action, action_text(name, &arguments));
        (action.tool, action.arguments) = (Some(name.into()), Some(arguments.into()));
        let mut builder = Builder::new();
        builder.begin_call();
        builder.push(action);
        read(&builder.finish()).names
    };
    assert_eq!(tool("Read", "docs/plan a.md"), ["docs/plan a.md"]);
    assert_eq!(tool("Read", "C:\\p\\src\\m.py"), ["C:/p/src/m.py"]);
    assert!(tool("Grep", "cmd/entire/cli").is_empty());
}

#[test]
fn tests_by_a_tool() {
    let arguments = r#"{"path": "tests/a.py"}"#;
    let mut action = step(Role::Agent, Kind::Action, action_text("run_tests", arguments));
    (action.tool, action.arguments) = (Some("mcp__x__run_tests".into()), Some(arguments.into()));
    let mut builder = Builder::new();
    builder.begin_call();
    builder.push(action);
    builder.push(step(Role::Tool, Kind::Observation, "3 failed in 0.2s"));
    assert_eq!(read(&builder.finish()).turns[1].test.unwrap().passed, Some(false));
}

#[test]
fn refused_edits_are_no_edits() {
    let t = facts(&[
        ("", "sed -i s/a/b/ a.py", "<returncode>1</returncode>"),
        ("", "sed -i s/a/b/ README.md", ""),
    ]);
    assert!(t.turns[1].refused && !t.turns[1].edited && t.turns[1].files == [(0, Touch::Read)]);
    assert!(t.turns[2].edited && t.turns[2].edited_document && !t.turns[2].refused);
}

/// An edit and a test in one command; how the test ended says nothing of the edit.
#[test]
fn an_edit_and_its_test_in_one_command() {
    let of = |command: &str, result: &str| {
        let t = facts(&[("", command, result)]);
        let f = &t.turns[1];
        (f.edited, f.refused, f.test.map(|test| (test.passed, test.after_change)))
    };
    let command = "sed -i s/a/b/ src/a.py && pytest -q tests";
    assert_eq!(of(command, "..\n2 passed in 0.12s"), (true, false, Some((Some(true), true))));
    let failed =
        "<returncode>1</returncode>\n<output>\nTraceback (most recent call last):\n1 failed in 0.12s";
    assert_eq!(of(command, failed), (true, false, Some((Some(false), true))));
    let refused = "<returncode>2</returncode>\nsed: can't read src/a.py: No such file or directory";
    assert_eq!(of(command, refused), (false, true, None));
    assert_eq!(of("pytest; sed -i s/a/b/ src/a.py", "1 passed in 1s"), (true, false, None));
    let stashed = "git stash && pytest -q; git stash pop";
    assert_eq!(of(stashed, "1 failed in 1s"), (false, false, Some((Some(false), false))));
    // A test that is written and run touches its file in both ways.
    let t =
        facts(&[("", "cat > test_x.py <<'E'\nassert 1\nE\npython test_x.py", "<returncode>0</returncode>")]);
    assert_eq!(t.turns[1].files, [(0, Touch::Edit), (0, Touch::Run)]);
    assert_eq!(t.turns[1].test.and_then(|test| test.passed), Some(true));
}

/// Turns of several calls.
#[test]
fn all_tests_of_a_turn_must_pass() {
    let passed = |results: &[&str]| {
        let mut builder = Builder::new();
        builder.begin_call();
        for (i, result) in results.iter().enumerate() {
            builder.push(step(Role::Agent, Kind::Action, format!("pytest tests/{i}.py")));
            builder.push(step(Role::Tool, Kind::Observation, *result));
        }
        read(&builder.finish()).turns[1].test.and_then(|test| test.passed)
    };
    let (good, bad) = ("1 passed in 0.1s", "1 failed in 0.1s");
    assert_eq!(passed(&[good, good]), Some(true));
    assert_eq!(passed(&[bad, good]), Some(false));
    assert_eq!(passed(&[good, ""]), None);
    assert_eq!(passed(&["", bad]), Some(false));
}

#[test]
fn a_reward_tests_what_calls_have_done() {
    let mut action = step(Role::Agent, Kind::Action, action_text("cancel_order", r#"{"id":"1"}"#));
    (action.tool, action.arguments) = (Some("cancel_order".into()), Some(r#"{"id":"1"}"#.into()));
    let mut builder = Builder::new();
    builder.begin_call();
    builder.push(action);
    builder.push(step(Role::Tool, Kind::Observation, "{\"status\": \"cancelled\"}\nreward: 1.0"));
    let t = read(&builder.finish());
    let test = t.turns[1].test.expect("a reward");
    assert_eq!((test.passed, test.after_change), (Some(true), true));
    // Points are none.
    assert_eq!(outcomes::rewarded("{\"reward\": 250, \"tier\": \"gold\"}"), None);
    assert_eq!(outcomes::rewarded("{\"reward\": 0.5}"), Some(false));
    assert_eq!(outcomes::rewarded("{\"reward\": -1.0, \"done\": true}"), Some(false));
}

/// One file of its spellings, by what was touched before.
#[test]
fn spellings_of_a_file() {
    let files = |paths: &[&str]| -> Vec<u32> {
        let commands: Vec<String> = paths.iter().map(|path| format!("cat {path}")).collect();
        let turns: Vec<(&str, &str, &str)> = commands.iter().map(|c| ("", c.as_str(), "x")).collect();
        facts(&turns).turns[1..].iter().map(|f| f.files[0].0).collect()
    };
    assert_eq!(files(&["src/a/u.py", "u.py", "/repo/src/a/u.py", "lib/u.py", "u.py"]), [0, 0, 0, 1, 0]);
    // The longest spelling counts: what was read as `u.py` is in `src`.
    assert_eq!(files(&["u.py", "src/u.py", "lib/u.py"]), [0, 0, 1]);
    // Of several none is taken; parts of names are no parts of paths.
    assert_eq!(files(&["src/u.py", "lib/u.py", "u.py"]), [0, 1, 2]);
    assert_eq!(files(&["src/au.py", "u.py"]), [0, 1]);
}

#[test]
fn a_script_that_is_written_and_run() {
    let script = "cat > try.py <<'E'\nprint(1)\nE\npython try.py";
    let t = facts(&[
        ("", script, "<returncode>1</returncode>\nTraceback (most recent call last):"),
        ("", script, "1"),
    ]);
    assert!(t.turns[1].edited && !t.turns[1].refused);
    assert_eq!((t.turns[1].ran_well, t.turns[2].ran_well), (Some(false), Some(true)));
}

#[test]
fn what_the_agent_says() {
    let complete = |said: &str| facts(&[(said, "ls", "")]).turns[1].says_complete;
    assert!(complete("The bug is now fixed. Good."));
    assert!(complete("Great, all tests pass!"));
    assert!(complete("Your reservation has been cancelled."));
    assert!(!complete("Let me verify that the fix works as expected."));
    assert!(!complete("Let me test that the change works correctly."));
    assert!(!complete("It is not complete."));
    assert!(!complete("Once the migration is complete, run it."));
    assert!(!complete("This is done by calling f."));
    for opposite in [
        "None of the tests pass.",
        "Do all tests pass now?",
        "Great, all tests pass?",
        "I'll make all tests pass.",
        "Nothing works correctly here.",
        "Neither is complete.",
        "I cannot say that the fix works.",
        "All tests pass except two.",
        "It works correctly for the first case but fails for the second.",
        "Tests pass locally, but CI is red.",
        "This has been fixed upstream, so we have to backport it.",
        "What has to be done. Well done.",
        "3 tests pass, 2 tests fail.",
        "0 tests pass.",
        "All tests pass. However, test_y fails.",
        "All tests pass... except test_x.",
        "These tests pass a dict to foo().",
        "The path is resolved relative to cwd.",
        "The array is fixed size.",
        "The output is complete nonsense.",
        "The fix works by adding a check.",
        "Assuming all tests pass, we are done with it",
        "The goal is that all tests pass.",
        "Expected: all tests pass",
        "TODO: everything works",
        "I suspect the bug is fixed in 2.0",
        "Your flight has been cancelled by the airline.",
        "As soon as the migration has been completed, tell me",
    ] {
        assert!(!complete(opposite), "{opposite}");
    }
    assert!(complete("What is left? The bug is fixed."));
    assert!(complete("The parser is done. Shall I go on?"));
    assert!(complete("Done.") && complete("I've fixed the bug.") && complete("Everything is done now."));
    for claim in [
        "I fixed the bug.",
        "Task completed.",
        "The tests passed",
        "I've cancelled your order.",
        "The fix is in place.",
        "All tests pass now, and the bug is fixed.",
    ] {
        assert!(complete(claim), "{claim}");
    }
    let next = |said: &str| facts(&[(said, "ls", "")]).turns[1].says_next;
    assert!(next("Now I\u{2019}ll work on the parser."));
    assert!(next("Good. Next, let me update the docs"));
    assert!(next("Moving on to the second part"));
    assert!(!next("Now let me see the rest of the file"));
    assert!(!next("Now let me make sure nothing else uses it."));
    assert!(!next("Now let me start by reading the file."));
}

#[test]
fn commands_logged_as_lines_are_read_as_such() {
    let mut builder = Builder::new();
    for text in ["open src/a.py", "goto 300", "pytest tests/a.py", "edit 1:2\nx\nend_of_edit"] {
        builder.begin_call();
        let mut action = step(Role::Agent, Kind::Action, text);
        action.tool = text.split_whitespace().next().map(Into::into);
        builder.push(action);
    }
    let t = read(&builder.finish());
    let kinds: Vec<_> = t.turns[1..].iter().map(|f| (f.looked, f.test.is_some(), f.edited)).collect();
    assert_eq!(
        kinds,
        [(true, false, false), (true, false, false), (false, true, false), (false, false, true)]
    );
    assert_eq!(t.turns[4].files, [(0, Touch::Edit)]);
    assert_eq!(t.names[0], "src/a.py");
}

#[test]
fn tools_outside_look_or_change() {
    let of = |tool: &str| {
        let mut action = step(Role::Agent, Kind::Action, action_text(tool, r#"{"id":"1"}"#));
        (action.tool, action.arguments) = (Some(tool.into()), Some(r#"{"id":"1"}"#.into()));
        let mut builder = Builder::new();
        builder.begin_call();
        builder.push(action);
        read(&builder.finish()).turns[1].api.map(|api| api.changes)
    };
    assert_eq!(of("get_user_details"), Some(false));
    assert_eq!(of("book_reservation"), Some(true));
    assert_eq!(of("mcp__github__list_issues"), Some(false));
    for changes in [
        "mark_as_read",
        "get_or_create_customer",
        "find_and_replace",
        "check_in_passenger",
        "mcp__x__set_view",
        "orders.mark_as_read",
        "move_card_to_list",
        "reset_view_count",
    ] {
        assert_eq!(of(changes), Some(true), "{changes}");
    }
    for looks in [
        "mcp__shell__run",
        "book_search",
        "check_in_stock",
        "check_status",
        "get_update_status",
        "list_add_ons",
        "web_search",
    ] {
        assert_eq!(of(looks), Some(false), "{looks}");
    }
    assert_eq!(of("getOrderDetails"), Some(false));
    assert_eq!(of("cancelOrder"), Some(true));
    assert_eq!(of("WebFetch"), Some(false));
    assert_eq!(of("Read"), None);
    let shell = |command: &str| facts(&[("", command, "ok")]).turns[1].api.map(|api| api.changes);
    assert_eq!(shell("curl -s https://api.x.com/orders | cut -d ' ' -f 1"), Some(false));
    assert_eq!(shell("curl -G -d q=x https://api.x.com/orders"), Some(false));
    for sent in
        ["-X POST", "-XDELETE", "--request 'PATCH'", "-d '{}'", "--data-raw '{}'", "--json {}", "\\\n -X PUT"]
    {
        assert_eq!(shell(&format!("cd /x && curl {sent} https://api.x.com/orders")), Some(true), "{sent}");
    }
}

proptest! {
    /// Whatever a log holds: no panic, and one entry a turn.
    #[test]
    fn any_log_is_read(texts in prop::collection::vec(("(\\PC|\n| \\| |git |test |python |sed -i |a\\.py |'|\"|<<E|://){0,30}", 0..4u8), 0..20)) {
        let mut builder = Builder::new();
        for (text, who) in texts {
            let (role, kind) = [
                (Role::Agent, Kind::Action), (Role::Tool, Kind::Observation), (Role::Agent, Kind::Thought), (Role::User, Kind::Message),
            ][who as usize];
            let mut s = step(role, kind, text.clone());
            s.tool = text.split_whitespace().next().filter(|_| text.len() % 2 == 0).map(Into::into);
            builder.push(s);
        }
        let steps = builder.finish();
        let t = read(&steps);
        prop_assert_eq!(t.turns.len(), steps.last().map_or(0, |s| s.turn as usize + 1));
        for facts in &t.turns {
            prop_assert!(facts.files.iter().all(|(n, _)| (*n as usize) < t.names.len()));
        }
    }
}
