//! `trajpress advise` on sessions of which it is known what each policy loses, and on too few of them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// A session that reads `n` long files, names what stands in the first of them again at the end where `needs` it, and runs
/// commands in between.
fn session(number: usize, needs: bool) -> String {
    let file = |i: usize| -> String {
        (0..60)
            .map(|line| {
                format!("fn part_{number}_{i}_{line}() calls helper_{number}_{i}_{line} with crates\n")
            })
            .collect()
    };
    let message = |value: Value| format!("{value}\n");
    let mut log =
        message(json!({"role": "user", "content": format!("Mend the crate number {number}, please.")}));
    let mut call = |i: usize, command: String, result: String| {
        let id = format!("c{i}");
        let asked = json!({"id": id, "type": "function", "function": {"name": "bash", "arguments": json!({"command": command}).to_string()}});
        log += &message(json!({"role": "assistant", "content": null, "tool_calls": [asked]}));
        log += &message(json!({"role": "tool", "tool_call_id": id, "content": result}));
    };
    for i in 0..8 {
        call(i, format!("cat src/part_{i}.rs"), file(i));
    }
    for i in 8..20 {
        call(i, format!("date +%{i}"), "done".to_owned());
    }
    for i in 20..24 {
        let what = if needs { format!("grep -rn helper_{number}_{}_7 .", i - 20) } else { "date".to_owned() };
        call(i, what, "done".to_owned());
    }
    log
}

fn logs(dir: &Path, n: usize, needs: impl Fn(usize) -> bool) {
    for number in 0..n {
        fs::write(dir.join(format!("{number:03}.jsonl")), session(number, needs(number))).unwrap();
    }
}

fn advise(dir: &Path, args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_trajpress")).arg("advise").arg(dir).args(args).output().unwrap()
}

fn group(dir: &Path, args: &[&str]) -> Value {
    let out = advise(dir, &[&["--json"], args].concat());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let json: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(json["groups"].as_array().unwrap().len(), 1);
    json["groups"][0].clone()
}

/// Each session needs four results again. The newest turns that fit lose them all the same, and so does clearing, which is
/// cheaper; clipping keeps the beginning and the end, and loses them, too.
#[test]
fn the_cheapest_that_loses_no_more_is_set() {
    let dir = tempfile::tempdir().unwrap();
    logs(dir.path(), 80, |_| true);
    let told = group(dir.path(), &["--window", "6000"]);
    assert_eq!((told["reference"].as_str(), told["window"].as_u64()), (Some("newest-that-fit"), Some(6_000)));
    assert_eq!((told["older_sessions"].as_u64(), told["newer_sessions"].as_u64()), (Some(40), Some(40)));
    assert_eq!(told["verdict"], "set", "{told:#}");
    // What fits is not over the window.
    assert!(
        told["all"].as_array().unwrap().iter().all(|of| of["prompts_over_window_by_reference"] == 0),
        "{told:#}"
    );
    let set = &told["set"];
    assert!(set["money_saved"].as_f64().unwrap() >= 0.01, "{set:#}");
    assert!(set["needs_lost"].as_f64().unwrap() <= 1.05 * set["needs_lost_by_reference"].as_f64().unwrap());
    // For people: what is set, and what that costs beside the reference in words.
    let text =
        String::from_utf8(advise(dir.path(), &["--window", "6000"]).stdout).unwrap().replace('\n', " ");
    let parts = [
        "It sets ",
        "it or the reference compressed something",
        "of its prompts are over the window",
        "a session.",
    ];
    assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    assert!(text.contains("1.00 fewer a session") && text.contains("loses 25.0 % less, at least"), "{text}");
    // No control is ever a candidate, and none that did nothing.
    let all = told["all"].as_array().unwrap();
    assert!(all.iter().all(|of| of["compressions"].as_u64().unwrap() > 0));
    assert!(!all.iter().any(|of| ["random", "drop-all", "full"].contains(&of["policy"].as_str().unwrap())));
}

/// What may be shared has numbers, and names of policies.
#[test]
fn no_text_of_the_logs_and_none_of_their_names_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let from = dir.path().join("secret_folder");
    fs::create_dir(&from).unwrap();
    logs(&from, 24, |_| true);
    let html = dir.path().join("page.html");
    let out = |args: &[&str]| {
        let done = advise(&from, &[&["--window", "6000", "--share-safe"], args].concat());
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    let texts =
        [out(&["--html", html.to_str().unwrap()]), out(&["--json"]), fs::read_to_string(&html).unwrap()];
    for text in texts {
        assert!(text.contains("newest-that-fit"), "{text}");
        let told =
            ["secret_folder", "helper_", "part_0", "000.jsonl"].into_iter().find(|of| text.contains(of));
        assert_eq!(told, None, "{text}");
    }
}

#[test]
fn where_nothing_is_lost_but_by_the_cheap_ones_the_reference_stays() {
    let dir = tempfile::tempdir().unwrap();
    logs(dir.path(), 80, |_| true);
    // The reference never has to drop anything here.
    let told = group(dir.path(), &["--window", "40k"]);
    assert_eq!((told["verdict"].as_str(), told["set"].is_null()), (Some("keep"), true), "{told:#}");
    let worse = told["all"].as_array().unwrap().iter().filter(|of| of["told"] == "worse").count();
    assert!(worse > 0, "{told:#}");
}

/// It looks at every result, and none here is as long as what it clips.
#[test]
fn events_that_change_no_prompt_are_no_compressions() {
    let dir = tempfile::tempdir().unwrap();
    logs(dir.path(), 20, |_| true);
    let told = group(dir.path(), &["--window", "40k", "--reference", "mini-swe-agent"]);
    assert_eq!(told["reference_compressions"], 0, "{told:#}");
}

#[test]
fn too_few_sessions_or_needs_are_told() {
    let dir = tempfile::tempdir().unwrap();
    logs(dir.path(), 12, |number| number < 3);
    let out = advise(dir.path(), &["--window", "6000"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(text.contains("Too little was compressed to tell"), "{text}");
    // What is told is of the half that has too little, and not of all.
    let text = text.replace('\n', " ");
    assert!(text.contains("at most 12 exposed needs in 6 sessions; each half needs 30 in 10."), "{text}");
    // Three of twelve sessions have needs, and no window helps where there are so few.
    assert!(
        text.contains("sessions more, like these, would have that.") && !text.contains("hint:"),
        "{text}"
    );
}

/// What fits is a matter of the model: sessions of another window have an answer of their own.
#[test]
fn models_of_other_windows_are_answered_apart() {
    let dir = tempfile::tempdir().unwrap();
    for model in ["gpt-4.1-mini", "claude-sonnet-4-20250514"] {
        let steps = [
            json!({"source": "user", "message": "Mend the parts of this crate."}),
            json!({"source": "agent", "message": "They are mended."}),
        ];
        let agent = json!({"name": "toy", "version": "1", "model_name": model});
        let file =
            json!({"schema_version": "ATIF-v1.7", "session_id": model, "agent": agent, "steps": steps});
        fs::write(dir.path().join(format!("{model}.json")), file.to_string()).unwrap();
    }
    let windows = |args: &[&str]| -> Vec<u64> {
        let json: Value = serde_json::from_slice(&advise(dir.path(), args).stdout).unwrap();
        let groups = json["groups"].as_array().unwrap().iter();
        groups.map(|of| of["reference_window"].as_u64().unwrap()).collect()
    };
    let apart = [1_047_576, 200_000];
    for args in [
        &["--json"][..],
        &["--json", "--reference", "newest-that-fit"],
        &["--json", "--settings-for", "cline"],
    ] {
        let mut of = windows(args);
        of.sort_unstable_by_key(|window| std::cmp::Reverse(*window));
        assert_eq!(of, apart, "{args:?}");
    }
    for args in [["--json", "--window", "6000"], ["--json", "--reference", "codex"]] {
        assert_eq!(windows(&args).len(), 1, "{args:?}");
    }
}

/// A user who clears the past says nothing of when the window was full.
#[test]
fn where_the_user_cleared_the_past_the_window_is_the_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    let said = |n: u32| format!("#### Mend part {n} of this crate, please.  \n\nPart {n} is mended.\n\n");
    let log =
        format!("# aider chat started at 2025-01-02 03:04:05\n\n{}#### /clear  \n\n{}", said(1), said(2));
    fs::write(dir.path().join(".aider.chat.history.md"), log).unwrap();
    let told = group(dir.path(), &[]);
    assert_eq!((&told["reference"], &told["half_window"]), (&json!("aider"), &json!(false)));
    assert_eq!((&told["window"], &told["summaries_kept"]), (&told["reference_window"], &Value::Null));
}

/// One log that its product compacted says little of nineteen that it did not, nor do many that were not full.
#[test]
fn the_window_is_halved_where_many_sessions_were_compacted() {
    let said = |id: &str, text: &str, is_summary: bool| {
        let message = json!({"role": "user", "content": text});
        json!({"type": "user", "uuid": id, "sessionId": "s", "isCompactSummary": is_summary, "message": message})
    };
    let answer = |id: &str, text: &str| {
        let content = [json!({"type": "text", "text": text})];
        let message =
            json!({"id": id, "role": "assistant", "model": "claude-opus-4-5-20251101", "content": content});
        json!({"type": "assistant", "uuid": id, "sessionId": "s", "message": message})
    };
    let told = |n_compacted: usize, before: u64| {
        let dir = tempfile::tempdir().unwrap();
        for number in 0..20 {
            let mut log = vec![
                said("g", &format!("Mend crate {number}, please."), false),
                answer("a1", "It is mended."),
            ];
            if number < n_compacted {
                log.push(
                    json!({"type": "system", "subtype": "compact_boundary", "uuid": "b", "sessionId": "s",
                        "compactMetadata": {"trigger": "auto", "preTokens": before}}),
                );
                log.push(said("c", "The crate is mended.", true));
            }
            log.extend([said("h", "Test it as well.", false), answer("a2", "The tests pass.")]);
            let text: String = log.iter().map(|line| format!("{line}\n")).collect();
            fs::write(
                dir.path().join(format!("{number:02}.jsonl")),
                text.replace("\"s\"", &format!("\"s{number}\"")),
            )
            .unwrap();
        }
        let text = String::from_utf8(advise(dir.path(), &[]).stdout).unwrap().replace('\n', " ");
        (group(dir.path(), &[]), text)
    };
    for (n, is_half, window, said) in [
        (1, false, 200_000, "all of its own, since only 1 of 20 logs was compacted with more than half of"),
        (
            3,
            true,
            100_000,
            "half of its own, since 3 of the 20 logs were compacted with more than that in the",
        ),
    ] {
        let (of, text) = told(n, 160_000);
        assert_eq!((&of["sessions_compacted"], &of["half_window"]), (&json!(n), &json!(is_half)), "{text}");
        assert!(of["window"] == window && text.contains(said), "{text}");
    }
    let (of, text) = told(20, 90_000);
    assert!(of["window"] == 200_000 && of["sessions_compacted"] == 0 && !text.contains("its own"), "{text}");
}

#[test]
fn settings_of_a_product_are_pasted_only_where_they_are_advised() {
    let dir = tempfile::tempdir().unwrap();
    logs(dir.path(), 80, |_| true);
    let told = group(dir.path(), &["--window", "6000", "--settings-for", "claude-api"]);
    let names: Vec<&str> =
        told["all"].as_array().unwrap().iter().map(|of| of["policy"].as_str().unwrap()).collect();
    assert!(names.iter().all(|name| name.starts_with("clear-")) && !names.is_empty(), "{names:?}");
    assert_eq!(told["set"].is_null(), told["paste"].is_null());
    let out = advise(dir.path(), &["--settings-for", "nobody"]);
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(text.contains("known: claude-api, langchain"), "{text}");
    let out = advise(dir.path(), &["--reference", "claude"]);
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(text.contains("did you mean `claude-code`?"), "{text}");
    let out = advise(dir.path(), &["--settings-for", "clin"]);
    let text = String::from_utf8(out.stderr).unwrap();
    assert!(text.contains("did you mean `cline`?"), "{text}");
    // Where nothing is to be changed, that is said: a paste that is missing could be a fault.
    let out = advise(dir.path(), &["--window", "40k", "--settings-for", "cline"]);
    let text = String::from_utf8(out.stdout).unwrap().replace('\n', " ");
    for part in [
        "(with nothing set for cline: the newest turns that fit the window)",
        "Nothing to paste: leave cline as it is set.",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// More that stays keeps more of what is needed; the table, its csv and its figure say the same.
#[test]
fn a_sweep_has_a_row_a_combination() {
    let dir = tempfile::tempdir().unwrap();
    let (from, out) = (dir.path().join("logs"), dir.path().join("swept"));
    fs::create_dir(&from).unwrap();
    logs(&from, 20, |_| true);
    let sweep = |args: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
        command
            .arg("sweep")
            .arg(&from)
            .args(["--preset", "claude-api-clear-tool-uses"])
            .args(args)
            .env("COLUMNS", "80")
            .output()
            .unwrap()
    };
    let varied = [
        "--vary",
        "scope.keep=3,30",
        "--vary",
        "trigger.tokens=2k,4k",
        "--json",
        "--out",
        out.to_str().unwrap(),
    ];
    let done = sweep(&varied);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: Value = serde_json::from_slice(&done.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert_eq!(rows[1]["set"], json!({"scope.keep": "3", "trigger.tokens": "4k"}));
    let kept = |row: &Value| row["needs_kept"].as_f64().unwrap();
    let saved = |row: &Value| row["tokens_saved"].as_f64().unwrap();
    assert!(kept(&rows[2]) > kept(&rows[0]) && saved(&rows[0]) > saved(&rows[2]), "{json:#}");
    assert_eq!(rows[2]["compressions"], 0, "all 24 results stay");
    let csv = fs::read_to_string(out.join("sweep.csv")).unwrap();
    assert_eq!(csv.lines().count(), 5);
    assert!(csv.starts_with("preset,scope.keep,trigger.tokens,summaries,"), "{csv}");
    assert!(
        fs::read_to_string(out.join("sweep.svg"))
            .unwrap()
            .contains("claude-api-clear-tool-uses scope.keep=3")
    );
    let svg = fs::read_to_string(out.join("sweep.svg")).unwrap();
    assert!(svg.contains("money saved") && svg.contains("20 sessions"), "{svg}");
    let lost = |key: &str| rows[0][key].as_f64().unwrap();
    assert!(lost("needs_lost_10th_percentile") <= lost("needs_lost_90th_percentile"), "{json:#}");
    assert!(fs::metadata(out.join("sweep.png")).unwrap().len() > 1_000);
    // For people: what is lost by the worst stands beside the mean, in the width of a terminal.
    let text = String::from_utf8(sweep(&varied[..4]).stdout).unwrap();
    assert!(text.contains("tenth") && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // Of several presets each has its rows, and those that summarise both ends.
    let done = sweep(&["--preset", "codex", "--vary", "window=2k,4k", "--json"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let json: Value = serde_json::from_slice(&done.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap().iter();
    let told: Vec<(&str, &str, Option<&str>)> = rows
        .map(|row| {
            (
                row["preset"].as_str().unwrap(),
                row["set"]["window"].as_str().unwrap(),
                row["summaries"].as_str(),
            )
        })
        .collect();
    let (api, codex) = ("claude-api-clear-tool-uses", "codex");
    let ends = [Some("empty"), Some("oracle")];
    let expected = [(api, "2k", None), (api, "4k", None)]
        .into_iter()
        .chain(["2k", "4k"].into_iter().flat_map(|window| ends.map(|end| (codex, window, end))));
    assert_eq!(told, expected.collect::<Vec<_>>());
    // It clears by tokens, so that the window is nothing to it.
    assert_eq!(json["without_effect"], json!({api: ["window"], codex: []}));
    // Three keys have room in the width of a page, each row in a line.
    let keys = ["--vary", "window=2k,4k", "--vary", "trigger.tokens=2k,4k", "--vary", "scope.keep=3,30"];
    let text = String::from_utf8(sweep(&keys).stdout).unwrap();
    assert!(text.lines().filter(|line| line.starts_with("4k ") && line.contains('%')).count() == 4, "{text}");
    assert!(text.contains("`window` has no effect here") && !text.contains("`scope.keep` has"), "{text}");
    // What is wrong is told by its key, not by a place in a file that nobody has.
    for (vary, told) in [
        (
            "scope.kept=3",
            "error: `--vary`: `scope.kept`: no stage has a scope that knows `kept`\nhint: did you mean `keep`?",
        ),
        ("windw=3k", "error: `--vary`: `windw`: unknown key `windw`\nhint: did you mean `window`?"),
        ("2.scope.keep=3", "error: `--vary`: `2.scope.keep`: there is no stage 2: it has 1 stage"),
        ("window=wide", "error: `--vary`: `window = \"wide\"`: expected tokens"),
        (
            "scope.keep=few",
            "error: `--vary`: policy `claude-api-clear-tool-uses`: stage 1: scope `results`: invalid type: string \"few\", expected ",
        ),
    ] {
        let wrong = sweep(&["--vary", vary]);
        assert_eq!(wrong.status.code(), Some(2));
        let text = String::from_utf8(wrong.stderr).unwrap();
        assert!(text.starts_with(told) && !text.trim_end().contains("\nin "), "{text}");
    }
}

/// What is asked for is counted before it is made.
#[test]
fn a_grid_that_is_too_large_is_refused_at_once() {
    let values: Vec<String> = (0..1_000).map(|value| value.to_string()).collect();
    let many: Vec<String> = (0..5).map(|key| format!("scope.k{key}={}", values.join(","))).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
    command.args(["sweep", ".", "--preset", "gemini-cli"]);
    many.iter().for_each(|of| _ = command.args(["--vary", of]));
    let text = String::from_utf8(command.output().unwrap().stderr).unwrap();
    assert!(text.contains("more than 200 combinations"), "{text}");
}

/// The texts of sessions do not outlive the command, nor may others read them meanwhile.
#[cfg(unix)]
#[test]
fn an_interrupt_leaves_nothing_behind() {
    use std::os::unix::fs::PermissionsExt as _;
    use std::time::Duration;
    let dir = tempfile::tempdir().unwrap();
    let (from, place) = (dir.path().join("logs"), dir.path().join("place"));
    [&from, &place].into_iter().for_each(|path| fs::create_dir(path).unwrap());
    logs(&from, 200, |_| true);
    let mut child = Command::new(env!("CARGO_BIN_EXE_trajpress"))
        .args(["advise", "--threads", "1", "--quiet"])
        .arg(&from)
        .env("TMPDIR", &place)
        .spawn()
        .unwrap();
    let made = || fs::read_dir(&place).unwrap().flatten().map(|entry| entry.path()).next();
    let folder = (0..1_000).find_map(|_| {
        std::thread::sleep(Duration::from_millis(5));
        made()
    });
    let folder = folder.expect("a folder for the time being");
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
    let id = child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    assert!(!child.wait().unwrap().success());
    assert_eq!(made(), None);
    // What a killed one left goes with the next.
    let left = place.join("trajpress-once-999999999-x");
    fs::create_dir(&left).unwrap();
    let next = Command::new(env!("CARGO_BIN_EXE_trajpress"))
        .arg("advise")
        .arg(&place)
        .env("TMPDIR", &place)
        .output();
    assert_eq!(next.unwrap().status.code(), Some(2));
    assert!(!cfg!(target_os = "linux") || !left.exists());
}
