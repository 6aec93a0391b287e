//! Tests of `actions`.

use super::*;
use crate::trajectory::{Kind, Role, action_text, step};
use proptest::prelude::*;

fn call(tool: &str, arguments: &str) -> Step {
    let mut s = step(Role::Agent, Kind::Action, action_text(tool, arguments));
    s.tool = Some(tool.into());
    s.arguments = Some(arguments.into());
    s
}

fn shell_call(command: &str) -> Step {
    call("bash", &serde_json::json!({ "command": command }).to_string())
}

/// `kind path`, and the bodies.
fn told(step: &Step) -> (String, Vec<String>) {
    let action = analyse(step, &mut Editor::default());
    let bodies = action.bodies.iter().map(|b| step.text[b.clone()].to_owned()).collect();
    (format!("{} {}", action.kind.name(), action.path.as_deref().unwrap_or("-")), bodies)
}

#[track_caller]
fn shell_is(command: &str, expected: &str) {
    assert_eq!(told(&shell_call(command)).0, expected, "{command}");
}

#[test]
fn names_survive() {
    for name in ["submit", "edit_file", "run_test", "read_file", "search", "api_call", "run_command", "other"]
    {
        assert_eq!(ActionKind::parse(name).map(ActionKind::name), Some(name));
    }
}

/// Gemini CLI, Roo Code, Kimi, Copilot, Windsurf and others have editors under names of their own.
#[test]
fn editors_of_products() {
    for (tool, key) in [
        ("replace", "file_path"),
        ("smart_edit", "file_path"),
        ("insert_content", "path"),
        ("search_and_replace", "path"),
        ("StrReplaceFile", "path"),
        ("replace_string_in_file", "filePath"),
        ("replace_file_content", "TargetFile"),
        ("edit_existing_file", "filepath"),
    ] {
        let step = call(tool, &serde_json::json!({ key: "src/a.py", "content": "x" }).to_string());
        assert_eq!(told(&step).0, "edit_file src/a.py", "{tool}");
    }
    assert_eq!(told(&call("read_many_files", r#"{"include":["a.py"]}"#)).0, "read_file -");
}

#[test]
fn shell_commands() {
    shell_is("cat ./src/a.py", "read_file src/a.py");
    shell_is("cd /testbed && sed -n '10,20p' django/x.py", "read_file django/x.py");
    shell_is("head -n 50 a.py", "read_file a.py");
    shell_is("sed -i 's/a/b/' src/a.py", "edit_file src/a.py");
    shell_is("cd /x; FOO=1 timeout 60 python -m pytest tests/ 2>&1 | tail -5", "run_test -");
    shell_is("python -m unittest", "run_test -");
    shell_is("./tests/runtests.py admin", "run_test -");
    shell_is("cargo test --release", "run_test -");
    shell_is("grep -rn foo . | head", "search -");
    shell_is("find . -name '*.py' | xargs grep -l foo", "search -");
    shell_is("python run.py 2>&1 | grep -v warn", "run_command -");
    shell_is("curl -s http://x", "api_call -");
    shell_is("echo hi > out.txt", "edit_file out.txt");
    shell_is("ls 2>/dev/null", "search -");
    shell_is("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "submit -");
    shell_is("cat a.py && pytest", "run_test -");
    shell_is("", "other -");
}

#[test]
fn the_command_that_tests() {
    let tests = |command: &str| analyse(&shell_call(command), &mut Editor::default()).tests;
    let is = |command: &str, expected: Option<&str>| assert_eq!(tests(command).as_deref(), expected);
    is(
        "cd /testbed && conda activate testbed && FOO=1 timeout 60 pytest -q tests/a.py",
        Some("pytest -q tests/a.py"),
    );
    is("sed -i 's/a/b/' src/a.py && python -m pytest tests", Some("python -m pytest tests"));
    is("pytest tests/a.py; sed -i 's/a/b/' src/a.py", None);
    is("python run.py", None);
    for none in [
        "pytest --collect-only -q",
        "pytest --version",
        "cargo test --no-run",
        "make -n test",
        "mvn test -DskipTests",
    ] {
        is(none, None);
    }
    // Writing the output of a test run to a file is no edit.
    shell_is("pytest 2>&1 | tee log.txt | tail -5", "run_test -");
    shell_is("echo x | tee a.py", "edit_file a.py");
}

#[test]
fn whose_exit_code_it_is() {
    let is = |command: &str, hides: bool| {
        assert_eq!(analyse(&shell_call(command), &mut Editor::default()).hides_code, hides, "{command}");
    };
    is("cd a && pytest", false);
    is("pytest && ls", false);
    is("pytest &&\n  ls", false);
    is("pytest; ls", true);
    is("pytest\nls", true);
    is("pytest || true", true);
    is("pytest && echo ok; ls", true);
    is("pytest -q && echo a && echo b; ls", true);
    is("pytest -q > a.log 2>&1 &", true);
    is("ls; pytest && echo a && echo b", false);
    is("pytest |& tail -3", true);
    // What a heredoc holds joins no commands.
    is("python - <<EOF\nprint(1 && 2)\nEOF\nls", true);
    is("pytest > a.log <<EOF && ls\na || b\nEOF", false);
    // A pipe may go on in the next line.
    shell_is("pytest |\n  grep x a.py", "run_test -");
    shell_is("pytest |& grep x a.py", "run_test -");
}

#[test]
fn heredocs_are_bodies() {
    let (kind, bodies) = told(&shell_call("cat > t.py << 'EOF'\nimport x; a | b\nEOF\npython t.py"));
    assert_eq!((kind.as_str(), bodies), ("edit_file t.py", vec!["import x; a | b\n".to_owned()]));
    let (kind, bodies) = told(&shell_call("python - <<EOF\nopen('a.py', 'w').write('x')\nEOF"));
    assert_eq!((kind.as_str(), bodies.len()), ("edit_file a.py", 1));
    let (kind, bodies) = told(&shell_call("python - <<EOF\nprint(1)\nEOF"));
    assert_eq!((kind.as_str(), bodies.len()), ("run_command -", 0));
    let (kind, bodies) = told(&shell_call("apply_patch <<EOF\n*** Update File: src/a.rs\n+x\nEOF"));
    assert_eq!((kind.as_str(), bodies.len()), ("edit_file src/a.rs", 1));
}

#[test]
fn editor_tools() {
    let (kind, bodies) =
        told(&call("Edit", r#"{"file_path":"/a/b.py","old_string":"x\ny","new_string":"z"}"#));
    assert_eq!((kind.as_str(), bodies), ("edit_file /a/b.py", vec!["x\ny".to_owned(), "z".to_owned()]));
    let (kind, bodies) =
        told(&call("str_replace_editor", r#"{"command":"view","path":"/a/b.py","view_range":[1,20]}"#));
    assert_eq!((kind.as_str(), bodies.len()), ("read_file /a/b.py", 0));
    let (kind, bodies) =
        told(&call("str_replace_editor", r#"{"command":"create","path":"/a/b.py","file_text":"t"}"#));
    assert_eq!((kind.as_str(), bodies), ("edit_file /a/b.py", vec!["t".to_owned()]));
    assert_eq!(told(&call("Read", r#"{"file_path":"/a/b.py"}"#)).0, "read_file /a/b.py");
    // As opencode writes it.
    assert_eq!(told(&call("read", r#"{"filePath":"/a/b.py"}"#)).0, "read_file /a/b.py");
    assert_eq!(told(&call("get_order_details", r#"{"order_id":"W1"}"#)).0, "api_call -");
    assert_eq!(told(&call("shell", r#"{"command":["bash","-lc","cat x.py"]}"#)).0, "read_file x.py");
}

#[test]
fn an_edit_without_a_path_is_of_the_open_file() {
    let mut editor = Editor::default();
    let mut act = |text: &str| {
        let s = step(Role::Agent, Kind::Action, text);
        let action = analyse(&s, &mut editor);
        (
            action.kind.name(),
            action.path.unwrap_or_default(),
            action.bodies.iter().map(|b| s.text[b.clone()].to_owned()).collect::<String>(),
        )
    };
    assert_eq!(act("open src/a.py 10"), ("read_file", "src/a.py".to_owned(), String::new()));
    assert_eq!(act("goto 50"), ("read_file", "src/a.py".to_owned(), String::new()));
    assert_eq!(
        act("edit 1:2\nx = 1\nend_of_edit\n"),
        ("edit_file", "src/a.py".to_owned(), "x = 1\n".to_owned())
    );
}

#[test]
fn a_call_without_arguments_is_the_line_that_was_written() {
    let mut editor = Editor::default();
    let mut act = |text: &str| {
        let mut s = step(Role::Agent, Kind::Action, text);
        s.tool = text.split_whitespace().next().map(Into::into);
        let action = analyse(&s, &mut editor);
        format!("{} {}", action.kind.name(), action.path.as_deref().unwrap_or("-"))
    };
    assert_eq!(act("open src/a.py 10"), "read_file src/a.py");
    assert_eq!(act("scroll_down"), "read_file src/a.py");
    assert_eq!(act("edit 1:2\nx = 1\nend_of_edit"), "edit_file src/a.py");
    assert_eq!(act("create b.py"), "edit_file b.py");
    assert_eq!(act("pytest tests/a.py"), "run_test -");
    assert_eq!(act("python b.py"), "run_command -");
    assert_eq!(act("cd /x && rm c.py"), "edit_file c.py");
    assert_eq!(act("submit"), "submit -");
}

#[test]
fn the_editor_as_tools_keeps_its_file() {
    let mut editor = Editor::default();
    let mut act = |tool: &str, arguments: &str| {
        let action = analyse(&call(tool, arguments), &mut editor);
        format!("{} {}", action.kind.name(), action.path.as_deref().unwrap_or("-"))
    };
    assert_eq!(act("goto", r#"{"line_number":5}"#), "read_file -");
    assert_eq!(act("open", r#"{"path":"tests/a.py","line_number":"5"}"#), "read_file tests/a.py");
    assert_eq!(act("scroll_down", "{}"), "read_file tests/a.py");
    assert_eq!(act("edit", r#"{"search":"x","replace":"y"}"#), "edit_file tests/a.py");
    assert_eq!(act("create", r#"{"filename":"b.py"}"#), "edit_file b.py");
    assert_eq!(act("insert", r#"{"text":"z","line":"2"}"#), "edit_file b.py");
    assert_eq!(act("open", "{}"), "read_file b.py");
    assert_eq!(act("Edit", r#"{"file_path":"c.py","old_string":"x"}"#), "edit_file c.py");
}

proptest! {
    #[test]
    fn bodies_are_slices_of_the_text(command in "([a-z ]{1,6}|cat > f <<EOF\n|EOF\n|EOF|'|\"|\\||;|&&|\n|>|<<|<<-|\\\\|é|edit 1:2\n|#|sed -i|echo|\\PC){0,30}") {
        for s in [shell_call(&command), step(Role::Agent, Kind::Action, command.clone()), call("Write", &command)] {
            for body in analyse(&s, &mut Editor::default()).bodies {
                prop_assert!(s.text.get(body).is_some());
            }
        }
    }
}
