//! Tests of `tool_log`.

use std::sync::Arc;

use super::super::Flaw;
use super::super::tests::{after_events, replayed, run};
use super::outcome::{has_failed, is_place, is_wrapper, reading_failed};
use super::{ActionKind, Log};
use crate::models::scripted::Scripted;
use crate::models::{Answer, Call, Card, Finish, Text};
use crate::trajectory::{Kind, Role, step};

const SCRIPT: &str = "user: mend it
        thought: look at the file
        action: cat src/parser.py
        observation: def parse(text):~    return text.splitt()~it was so and not of the on or but it was so and not of the on or but it was so and not of the on or but it was so
        action: pytest tests/test_parser.py
        observation: Traceback (most recent call last):~AttributeError: splitt~it was so and not of the on or but it was so and not of the on or but it was so and not of the on or but it was so
        agent: I see";

#[test]
fn a_line_for_each_call() {
    assert_eq!(
        after_events(("tool-log", ""), ("turns", "n = 2"), SCRIPT),
        ["turn 1: cat src/parser.py -> ok: def parse(text): | return text.splitt()\n\
          turn 2: pytest tests/test_parser.py -> error: Traceback (most recent call last): | AttributeError: splitt"]
    );
}

#[test]
fn talk_without_calls_is_summarised_and_flagged() {
    let log =
        Log::script("user: hello\nagent: The rent of the flat in Lyon is 880 euros.\nuser: well\nagent: bye");
    for params in ["", "form = 'structured'"] {
        let events = run(("tool-log", params), ("turns", "n = 1"), &log).events;
        let [event] = &events[..] else { panic!("{}", events.len()) };
        let text: String = event.after.iter().map(|block| block.text(&log)).collect();
        assert_eq!(text, "The rent of the flat in Lyon is 880 euros.");
        assert_eq!((event.work.fallback, event.work.warning), (Some("extractive"), Some("no tool calls")));
    }
}

/// How each call of a script is logged.
#[track_caller]
fn words_are(script: &str, expected: &[&str]) {
    let log = Log::script(&format!("user: mend it\n{script}\nagent: I see"));
    let run = run(("tool-log", ""), ("turns", "n = 1"), &log);
    let text: String =
        run.events.iter().flat_map(|e| &e.after).map(|block| block.text(&log) + "\n").collect();
    let word = |line: &str| Some(line.split(" -> ").nth(1)?.split([':', ' ']).next()?.to_owned());
    assert_eq!(text.lines().filter_map(word).collect::<Vec<_>>(), expected, "{text}");
}

/// Words that keep a log shorter than what it stands for.
const REST: &str = "~it was so and not of the on or but it was so and not of the on or but it was so and not of the on or but it was so, and it was so and not of the on or but it was so and not of the on or";

#[test]
fn an_edit_went_well_if_the_editor_says_so() {
    let script = format!(
        "action: edit 1:1~raise KeyError('FAILED')~end_of_edit
            observation: [File: /r/a.py (2 lines total)]~1:raise KeyError('FAILED')~2:# Error: No such file~File updated. Please review the changes.{REST}
            action: edit 1:1~def f(:~end_of_edit
            observation: Your proposed edit has introduced new syntax error(s). Please read this.~~- E999 SyntaxError~[File: /r/a.py (2 lines total)]{REST}
            action: edit 2:2~x = 1~end_of_edit
            observation:   File \"/root/commands/_split_string\", line 17~SyntaxError: future feature annotations is not defined~[File: /r/a.py (2 lines total)]~1:x~File updated. Please review the changes.{REST}
            action: create a.py
            observation: Error: File 'a.py' already exists.~[File: /r/a.py (2 lines total)]{REST}
            action: sed -i 's/4096/8192/' src/table.rs
            observation: sed: can't read src/table.rs: No such file or directory{REST}
            action: cat > t.py << 'EOF' && python t.py~print('Error')~EOF
            observation: <returncode>0</returncode>~<output>~Tried: SELECT~Error: no such table, as it should{REST}
            action: sed -i 's/4096/8192/' src/table.rs && cat src/table.rs
            observation: fn f() {{ panic!(\"rror: FAILED\") }}{REST}"
    );
    words_are(&script, &["ok", "error", "ok", "error", "error", "ok", "ok"]);
}

#[test]
fn a_reading_failed_if_its_result_begins_with_an_error() {
    let script = format!(
        "action: cat src/a.py
            observation: import os~# Traceback (most recent call last)~raise ValueError('Error: FAILED, No such file'){REST}
            action: cat src/b.py
            observation: cat: src/b.py: No such file or directory{REST}
            action: open src/c.py
            observation: File src/c.py not found{REST}
            action: grep -rn FAILED src
            observation: <returncode>0</returncode>~<output>~src/a.py:3:raise ValueError('Error: FAILED'){REST}
            action: cat src/d.py
            observation: <returncode>1</returncode>~<output>~cat: src/d.py{REST}
            action: ls src/e
            observation: <returncode>0</returncode>~<output>~ls: src/e: Permission denied{REST}"
    );
    words_are(&script, &["ok", "error", "error", "ok", "error", "error"]);
}

#[test]
fn a_run_went_well_if_it_ended_well() {
    let script = format!(
        "action: python repro.py
            observation: caught: Error: FAILED as it should{REST}
            action: python repro.py
            observation: begin~Traceback (most recent call last):~KeyError: 1{REST}
            action: python repro.py
            observation: python: can't open file 'repro.py': [Errno 2] No such file or directory{REST}
            action: pytest tests
            observation: tests/a.py::test_that_FAILED_is_told PASSED{REST}~===== 2 passed in 0.31s =====
            action: pytest tests
            observation: F.{REST}~===== 1 failed, 2 passed in 0.31s =====
            action: git stash
            observation: fatal: not a git repository{REST}"
    );
    words_are(&script, &["ok", "error", "error", "ok", "error", "error"]);
}

#[test]
fn tools_tell_in_their_last_lines_that_they_failed() {
    let failed = [
        ("make", "make: *** No rule to make target 'all'.  Stop."),
        ("cd src && make html", "cc -c a.c~make[2]: *** [Makefile:19: a.o] Error 1~make: *** [all] Error 2"),
        ("gcc a.c", "a.c: In function 'main':~a.c:3:5: error: expected ';' before '}' token~    3 | }"),
        ("gcc a.c", "a.c:1:10: fatal error: b.h: No such file~compilation terminated."),
        ("npx tsc", "src/a.ts(3,5): error TS2304: Cannot find name 'x'."),
        (
            "git push",
            "To github.com:a/b.git~ ! [rejected]        main -> main (fetch first)~hint: pull first",
        ),
        ("curl -s http://x", "  % Total~curl: (7) Failed to connect to x port 80: Connection refused"),
        (
            "bash build.sh",
            "begin~build.sh: line 3: all~bash: -c: line 2: syntax error: unexpected end of file",
        ),
        ("echo (", "/bin/bash: -c: line 1: syntax error near unexpected token `newline'"),
        ("git push origin main", "hm~fatal: unable to access 'https://x/': Could not resolve host: x"),
        ("cat > a.c << 'EOF' && make~int x~EOF", "cc -c a.c~make: *** [a.o] Error 1"),
        ("./show | tail -3", "<returncode>0</returncode>~<output>~seen~a.c:3:5: error: expected ';'"),
        ("docker run x", "Killed"),
        ("./big", "begin~/bin/bash: line 1:  4711 Killed                  ./big"),
        ("./big", "begin~Floating point exception (core dumped)"),
        ("timeout 5 x", "Command timed out after 5 seconds"),
        ("node a.js", "Uncaught TypeError: x is not a function"),
        ("java Main", "Exception in thread \"main\" java.lang.NullPointerException"),
        ("systemctl status x", "Exit code: 1"),
        // Commands of several parts that begin with an edit.
        ("rm -rf build && make", "make: *** [all] Error 2"),
        ("mv a.py conf.py; sphinx-build . out", "reading~make: *** [html] Error 2"),
        ("sed -i 's/a;b/c/' a.c && gcc a.c", "a.c:3:5: error: expected ';'"),
    ];
    let long = format!("make: *** [all] Error 2~{}", "nothing of it is an error~".repeat(25));
    let well = [
        ("make", "make: Nothing to be done for 'all'."),
        ("gcc a.c", "a.c:3:5: warning: unused variable 'error'"),
        ("git push", "To github.com:a/b.git~   1f0c..2a4b  main -> main"),
        ("curl -s http://x/page", "<html>~fatal: it was~a.c:3:5: error: expected"),
        ("git show 1f0c:build.log", "Error: none~a.c:3:5: error: expected ';'~fatal: so it was"),
        ("./show", "<returncode>0</returncode>~<output>~seen~a.c:3:5: error: expected ';'"),
        ("./show", "12:04:07: error: told~note: error: none~we saw make: *** and fatal: too"),
        ("./long", long.as_str()),
        ("./show", "seen~Killed 3 of them~Terminated.~Uncaught and so on~Command that timed out"),
        // Of another program that this one has run.
        ("./show", "seen~Exit code: 1~it is so, as it should be"),
        ("systemctl status x", "Exit code: 0"),
        ("cat build.log", "Exit code: 1~Killed~make: *** [all] Error 2~Uncaught TypeError: x"),
        ("rm a.log && cat b.log", "begin~Killed~make: *** [all] Error 2~fatal: it was"),
        ("sed -i 's/a;b/c/g' a.c && cat a.c", "int x;~Killed~fatal: it was"),
        ("rm -rf build && make", "make: Nothing to be done for 'all'."),
    ];
    let step = |(call, result): &(&str, &str)| format!("action: {call}\nobservation: {result}{REST}\n");
    words_are(&failed.iter().map(step).collect::<String>(), &["error"; 22]);
    words_are(&well.iter().map(step).collect::<String>(), &["ok"; 15]);
    assert!(is_place("src/a.c:3:5") && is_place("a.ts(3,5)") && is_place("./A.java:3"));
    assert!(!is_place("12:04:07") && !is_place("a.c") && !is_place("a b.c:3") && !is_place(""));
}

#[test]
fn a_file_that_begins_with_an_error_was_read_well() {
    let well = [
        ("cat app.log", "Error: this is a line of the log, all well"),
        ("sudo cat app.json | head -5", "{\"error\": \"not found\"}"),
        ("tail -n 5 app.log", "Traceback (most recent call last):~KeyError: 1"),
        ("cat app.log", "python: can't open file 'a.py': [Errno 2] No such file or directory"),
        ("cat cat.txt", "cat: an animal~fatal: it was"),
        ("grep -h rror app.log", "Error: No such file, it said"),
    ];
    let failed = [
        ("cd src && cat b.py", "cat: b.py: No such file or directory"),
        ("sed -n 1,5p b.py", "sed: can't read b.py: No such file or directory"),
        ("head -5 b.py", "head: cannot open 'b.py' for reading: No such file or directory"),
        ("cat b.py", "EXECUTION FAILED OR COMMAND MALFORMED"),
        ("bat b.py", "/bin/sh: 1: bat: not found"),
        ("goto 475", "Error: <line> must be less than or equal to 80"),
        ("git show HEAD:b.py", "fatal: path 'b.py' does not exist in 'HEAD'"),
    ];
    let step = |(call, result): &(&str, &str)| format!("action: {call}\nobservation: {result}{REST}\n");
    words_are(&well.iter().map(step).collect::<String>(), &["ok"; 6]);
    words_are(&failed.iter().map(step).collect::<String>(), &["error"; 7]);
}

#[test]
fn what_an_environment_tells_last_is_the_exit_code_of_the_call() {
    let last = |line: &str| {
        let call = step(Role::Agent, Kind::Action, "bash\n./show");
        has_failed(Some(ActionKind::RunCommand), &call, &format!("seen\nso it is\n{line}\n"))
    };
    assert!(last("Exit code: 2") && last("[The command completed with exit code 1.]"));
    assert!(!last("Exit code: 0") && !last("[The command completed with exit code 0.]"));
}

#[test]
fn an_editor_that_gives_a_reason_has_not_edited() {
    let failed = |call: &str, text: &str| {
        has_failed(Some(ActionKind::EditFile), &step(Role::Agent, Kind::Action, call), text)
    };
    let replace = "str_replace\npath: src/y.py\nold: a; b\nnew: make | c";
    assert!(failed(replace, "not found"));
    assert!(failed(replace, "Ran into [Errno 2] No such file or directory: 'src/y.py' while writing"));
    assert!(
        !failed(replace, "Replaced \"not found\" once.") && !failed(replace, "") && !failed(replace, "ok")
    );
    assert!(!failed(replace, "3:raise KeyError('not found')\n4:Killed"));
    // What a command prints is not its own.
    assert!(!failed("echo x > a && ./show", "the key was not found, as it should be"));
}

/// A tool that is no command of a shell.
#[test]
fn a_tool_that_reads_says_of_what_its_error_is() {
    let failed = |text: &str| {
        reading_failed(&step(Role::Agent, Kind::Action, "read_file\npath: src/app.log\nlimit: 5"), text)
    };
    assert!(failed("Error: File not found: src/app.log"));
    assert!(failed("Error: src/app.log is locked") && failed("{\"error\": \"locked\"}"));
    assert!(!failed("Error: this is a line of the log, all well") && !failed("") && !failed("import os"));
}

#[test]
fn what_an_environment_puts_around_a_result_is_none_of_it() {
    let log = Log::script(&format!(
        "user: mend it
             action: ls
             observation: <returncode>0</returncode>~<output>~src/parser.py~</output>
             action: cat src/parser.py
             observation: <returncode>0</returncode>~</warning><output_head>~</output>
             action: cat page.html
             observation: <output>~<b>{REST}~</output>
             agent: I see"
    ));
    let run = run(("tool-log", "result_tokens = 9"), ("turns", "n = 3"), &log);
    let text = run.events[0].after[0].text(&log);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[..2], ["turn 1: ls -> ok: src/parser.py", "turn 2: cat src/parser.py -> ok"]);
    assert!(!is_wrapper("<b>") && !is_wrapper("") && !is_wrapper("<output> 1") && is_wrapper(" </stdout>\n"));
}

#[test]
fn what_is_logged_counts_where_the_result_does_not_tell() {
    let mut log = Log::script(&format!(
        "user: mend it\naction: cat a\nobservation: Error: none{REST}\naction: cat b\nobservation: all well{REST}\nagent: I see"
    ));
    for (step, is_error) in [(2, false), (4, true)] {
        log.trajectory.steps[step].is_error = Some(is_error);
    }
    let events = run(("tool-log", ""), ("turns", "n = 2"), &log).events;
    let text = events[0].after[0].text(&log);
    assert!(text.contains("cat a -> ok") && text.contains("cat b -> error"), "{text}");
}

/// An answer that is cut at its limit is flagged, and asked for once more with another seed.
#[test]
fn an_answer_that_cannot_be_read_is_asked_for_once_more() {
    const CUT: &str = r#"{"title": "looked at the file", "facts": ["the parser"#;
    // What it says twice is logged once.
    const WHOLE: &str = r#"{"title": "looked", "facts": ["it splits", "it splits"]}"#;
    let after = |answers: [&'static str; 2]| {
        let card = Card { name: "test".to_owned(), identity: "test".to_owned(), window: 4096 };
        let model = Scripted::rule(card, move |call| {
            let Call::Generate { sampling, .. } = call else { return None };
            let text = answers[usize::from(sampling.is_some())].to_owned();
            let finish = Finish::Length;
            Some(Ok(Answer::Text(Text { text, finish, prompt_tokens: 9, tokens: 9, cut_tokens: 0 })))
        });
        let log = Log::script(SCRIPT);
        let way = ("tool-log", "form = 'structured'");
        let run = replayed(way, ("turns", "n = 1"), &log, Some(Arc::new(model)), None);
        (run.events[0].after[0].text(&log), (*run.events[0].work).clone())
    };
    let (text, work) = after([CUT, WHOLE]);
    assert!(text.starts_with("turn 1 [read_file] looked\n- it splits\n- files read"), "{text}");
    assert_eq!((work.calls, work.fallback, &work.degenerate[..]), (2, None, &[Flaw::NotInForm][..]));
    let (text, work) = after([CUT, CUT]);
    assert!(text.starts_with("turn 1 [read_file] cat src/parser.py\n"), "{text}");
    assert_eq!(
        (work.calls, work.fallback, &work.degenerate[..]),
        (2, Some("rules"), &[Flaw::NotInForm; 2][..])
    );
}

#[test]
fn an_observation_names_all_calls_of_its_turn() {
    let mut log = Log::script(&format!(
        "user: mend it
             thought: both
             action: cat src/parser.py
             action: rm -f src/table.py
             action: cat src/lexer.py
             observation: def parse(text):{REST}
             observation: rm: cannot remove 'src/table.py': Permission denied
             observation: def lex(text):{REST}
             agent: I see"
    ));
    let steps = &mut log.trajectory.steps;
    for (at, id) in [(2, "a"), (3, "b"), (4, "c"), (5, "a"), (6, "b"), (7, "c")] {
        (steps[at].call_id, steps[at].turn) = (Some(id.into()), 1);
    }
    steps[8].turn = 2;
    let rows = crate::annotate::features::rows(
        &log.trajectory.id,
        &log.trajectory.steps,
        &crate::text::tokens::Tokenizer::load("o200k").unwrap(),
    );
    let log = Log::new(log.trajectory, rows).unwrap();
    let params = "form = 'structured'\nresult_tokens = 20";
    let run = run(("tool-log", params), ("turns", "n = 1"), &log);
    let text = run.events[0].after[0].text(&log);
    assert_eq!(
        text,
        "turn 1 [read_file, edit_file, error] cat src/parser.py; rm -f src/table.py; cat src/lexer.py\n\
         - def parse(text):\n\
         - rm: cannot remove 'src/table.py': Permission denied\n\
         - def lex(text):\n\
         - files read: src/lexer.py, src/parser.py\n\
         - files modified: src/table.py"
    );
}

#[test]
fn an_observation_for_each_turn() {
    assert_eq!(
        after_events(("tool-log", "form = 'structured'"), ("turns", "n = 2"), SCRIPT),
        ["turn 1 [read_file] cat src/parser.py\n\
          - def parse(text): | return text.splitt()\n\
          - files read: src/parser.py\n\
          turn 2 [run_test, error] pytest tests/test_parser.py\n\
          - Traceback (most recent call last): | AttributeError: splitt"]
    );
}
