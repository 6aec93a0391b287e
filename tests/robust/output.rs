//! What nobody can read, and names that act.

use super::*;

/// A stack that is too small for any thread.
#[test]
fn a_stack_that_is_no_size_is_told() {
    let place = Place::new();
    for size in ["0", "1", "abc", "-1", "99999999999999999999"] {
        let mut ingest = place.ingest("data");
        let output = ingest.env("RUST_MIN_STACK", size).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{size}");
        assert!(stderr(&output).contains(&format!("RUST_MIN_STACK is `{size}`")), "{}", stderr(&output));
    }
    let mut ingest = place.ingest("data");
    ingest.env("RUST_MIN_STACK", "4194304");
    done(ingest);
}

/// Nobody can read what is told there, and nothing comes of it.
#[cfg(target_os = "linux")]
#[test]
fn a_full_stderr_is_no_panic() {
    let place = Place::new();
    let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
    let status = |mut command: Command| command.stdout(Stdio::null()).stderr(full()).status().unwrap().code();
    let loud = |mut command: Command| {
        command.arg("--quiet");
        command
    };
    let mut ingest = program();
    ingest.arg("ingest").arg(place.logs()).arg("--out").arg(place.at("data"));
    assert_eq!(status(ingest), Some(0));
    let mut annotate = program();
    annotate.arg("annotate").arg(place.at("data"));
    assert_eq!(status(annotate), Some(0));
    let mut run = program();
    fs::write(place.at("x.toml"), EXPERIMENT).unwrap();
    run.arg("run")
        .arg(place.at("x.toml"))
        .arg("--data")
        .arg(place.at("data"))
        .arg("--out")
        .arg(place.at("run"));
    assert_eq!(status(run), Some(0));
    assert_eq!(status(loud(place.report("run", "report"))), Some(0));
    assert_eq!(status(place.report("none", "report")), Some(2));
    assert_eq!(status(program()), Some(2));
    let mut polars = place.report("run", "report");
    polars.env("POLARS_MAX_THREADS", "0");
    let output = polars.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("POLARS_MAX_THREADS is `0`"), "{}", stderr(&output));
}

/// No stage may write a file of more than so many bytes: each says which one, and what stood before still stands.
#[cfg(target_os = "linux")]
#[test]
fn a_limit_of_file_size_is_an_error_that_names_the_file() {
    let place = Place::new();
    let limited = |args: &[&str], path: PathBuf, out: &str| {
        let mut shell = Command::new("bash");
        let command = r#"ulimit -f "$LIMIT" && exec "$@""#;
        shell.args(["-c", command, "bash", env!("CARGO_BIN_EXE_trajpress")]).args(args).arg(path);
        if !out.is_empty() {
            shell.arg("--out").arg(place.at(out));
        }
        shell
    };
    let refused = |mut command: Command| {
        let output = command.env("LIMIT", "1").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        let text = stderr(&output);
        assert!(text.contains("File too large") && text.contains("cannot write"), "{text}");
        assert!(text.contains(place.at("").to_str().unwrap()), "{text}");
        // Once each, and under the name that the file would have had.
        let n = |words: &str| text.matches(words).count();
        assert!(n("File too large") == 1 && n("cannot write") == 1 && !text.contains(".tmp:"), "{text}");
    };
    let done = |mut command: Command| {
        let output = command.env("LIMIT", "unlimited").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    };
    let ingest = || limited(&["ingest"], place.logs(), "data");
    refused(ingest());
    done(ingest());
    let annotate = || limited(&["annotate"], place.at("data"), "");
    refused(annotate());
    done(annotate());
    fs::write(place.at("x.toml"), EXPERIMENT).unwrap();
    let data = place.at("data");
    let run = || limited(&["run", "--data", data.to_str().unwrap()], place.at("x.toml"), "run");
    refused(run());
    done(run());
    refused(limited(&["report"], place.at("run"), "report"));
    let export = ["export", "--variant", "truncate"];
    refused(limited(&export, place.at("run"), "prompts.jsonl"));
    // What a sweep reads before that is smaller than its figure.
    let sweep =
        ["sweep", "--quiet", "--preset", "claude-api-clear-tool-uses", "--vary", "trigger.tokens=1k,2k"];
    let log = || some_logs(1)[0].clone();
    done(limited(&sweep, log(), "swept"));
    let before = place.files("swept");
    let n_figure = before["sweep.png"].len();
    let output =
        limited(&sweep, log(), "swept").env("LIMIT", (n_figure / 1024).to_string()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(
        stderr(&output).contains(&format!("cannot write {}", place.at("swept/sweep.png").display())),
        "{}",
        stderr(&output)
    );
    assert!(place.files("swept") == before);
}

/// A file's name that would colour, overwrite and turn round a terminal.
#[cfg(unix)]
#[test]
fn names_act_nowhere() {
    let place = Place::new();
    fs::create_dir(place.at("logs")).unwrap();
    let name = "a\u{1b}[31m\u{202e}\u{61c}\u{2028}\u{feff}\u{e0041}]]>&lt<b>=1.json";
    fs::copy(&some_logs(2)[0], place.at("logs").join(name)).unwrap();
    fs::write(place.at("logs").join(format!("bad{name}")), "{\"messages\": [").unwrap();
    let mut ingest = program();
    ingest.arg("ingest").arg(place.at("logs")).arg("--out").arg(place.at("data")).arg("--json");
    let output = ingest.output().unwrap();
    let mut all = [output.stdout, output.stderr].concat();
    done(place.annotate("data"));
    let mut inspect = program();
    inspect.arg("inspect").arg(place.at("data")).arg("a").args(["--timeline"]).arg(place.at("t.svg"));
    all.extend(inspect.output().unwrap().stderr);
    let mut missing = program();
    missing.arg("inspect").arg(place.at(&format!("{name}x"))).arg("a");
    let output = missing.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    all.extend(output.stderr);
    // A name of an experiment, as its author may write it.
    let name: String = name.chars().map(|c| format!("\\U{:08x}", u32::from(c))).collect();
    let experiment = EXPERIMENT.replace("robust", &name);
    fs::write(place.at("experiment.toml"), experiment).unwrap();
    done(place.run("data", "run"));
    all.extend(done(place.report("run", "report")).stdout);
    let told = [place.at("data"), place.at("run"), place.at("report")];
    for file in told.iter().flat_map(|folder| walk(folder)) {
        if file.extension().is_none_or(|kind| kind != "parquet" && kind != "png") {
            all.extend(fs::read(file).unwrap());
        }
    }
    let text = String::from_utf8(all).unwrap();
    let acting: Vec<char> =
        text.chars().filter(|&c| trajpress::internals::text::escape::acts(c) && c != '\n').collect();
    assert!(acting.is_empty(), "{acting:?}");
}

/// Waits at most so long; a program that hangs is killed and told.
fn within(limit: Duration, mut command: Command) -> Output {
    let start = Instant::now();
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        if start.elapsed() > limit {
            let _ = child.kill();
            panic!("{command:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

#[test]
fn a_report_waits_for_nobody_and_leaves_no_half() {
    let place = Place::new();
    done(place.ingest("data"));
    done(place.run("data", "run"));
    done(place.report("run", "report"));
    let before = place.files("report");
    // Something stands where a table is to be written: the report fails, and the one before it stays.
    let mut wrong = place.report("run", "report");
    wrong.args(["--baseline", "no-such-variant"]);
    assert_eq!(within(Duration::from_secs(60), wrong).status.code(), Some(2));
    assert!(place.files("report") == before);
}

/// All that is printed under `--json` is JSON, also where a command mostly writes files.
#[test]
fn what_is_printed_as_json_is_json() {
    let place = Place::new();
    done(place.ingest("data"));
    done(place.run("data", "run"));
    let rows: Vec<TrajectoryRow> = store::read(&place.at("data/trajectories.parquet")).unwrap();
    let log = fs::read_dir(place.logs()).unwrap().next().unwrap().unwrap().path();
    let path = |name: &str| place.at(name).display().to_string();
    let (data, svg, experiment) = (path("data"), path("t.svg"), path("experiment.toml"));
    let json = |mut command: Command| -> serde_json::Value {
        command.arg("--json");
        let output = done(command);
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stdout)))
    };
    let report = json(place.report("run", "report"));
    let files = report["files"].as_array().unwrap();
    assert!(files.len() > 5 && files.iter().all(|file| Path::new(file.as_str().unwrap()).is_file()));
    let log = log.display().to_string();
    let id = &rows[0].trajectory;
    for args in [
        &["ingest", "--explain", &log][..],
        &["inspect", &data, id, "--timeline", &svg],
        &["inspect", &data, id],
        &["run", &experiment, "--data", &data, "--list"],
        &["audit", &log],
        &["list", "triggers"],
    ] {
        let mut command = program();
        command.args(args);
        assert!(!json(command).is_null(), "{args:?}");
    }
}
