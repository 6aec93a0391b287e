//! Workers that are killed, hang, or cannot start.

use super::*;

/// Process ids of the model workers that this process started and that still live.
#[cfg(target_os = "linux")]
fn workers() -> Vec<u32> {
    let me = std::process::id().to_string();
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse::<u32>().ok())
        .filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let after = stat.rsplit(')').next().unwrap_or_default();
            let fields: Vec<&str> = after.split_whitespace().collect();
            fields.get(1) == Some(&me.as_str()) && fields[0] != "Z"
        })
        .collect()
}

#[test]
#[cfg(target_os = "linux")]
fn a_killed_worker_costs_nothing_but_time() {
    let Some(options) = options() else { return };
    // Made ready first, so that it is not taken for the victim.
    let calls = mixed();
    let expected = model().unwrap().answer(&calls);
    let before = workers();
    let victim = Llama::new(Options { contexts: 1, ..options }, Path::new(PROGRAM));
    victim.load().unwrap();
    let fresh: Vec<u32> = workers().into_iter().filter(|pid| !before.contains(pid)).collect();
    let answers = std::thread::scope(|scope| {
        let asked = scope.spawn(|| victim.answer(&calls));
        std::thread::sleep(Duration::from_millis(200));
        for pid in fresh {
            Command::new("kill").args(["-9", &pid.to_string()]).status().unwrap();
        }
        asked.join().unwrap()
    });
    assert_eq!(answers, expected);
    // A new worker has taken its place.
    assert_eq!(victim.answer(&calls[..1]), expected[..1]);
}

/// Starts workers, of which the first ones are killed so many seconds after their start.
#[cfg(unix)]
fn killer(folder: &Path, kills: u32, seconds: u32) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt as _;
    let path = folder.join(format!("killer-{kills}-{seconds}.sh"));
    let kill = match seconds {
        0 => "kill -9 $$".to_owned(),
        _ => format!("(sleep {seconds}; kill -9 $$) &"),
    };
    let script = format!(
        "#!/bin/sh\ncount=\"$0.count\"\necho x >>\"$count\"\n\
         if [ $(wc -l <\"$count\") -le {kills} ]; then\n{kill}\nfi\nexec {PROGRAM} \"$@\"\n"
    );
    std::fs::write(&path, script).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// Killed in one and the same call, or while it loads: an answer is only late, as long as it is not too often.
#[test]
#[cfg(unix)]
fn a_worker_killed_again_and_again_leaves_no_error() {
    let Some(options) = options() else { return };
    let options = Options { contexts: 1, ..options };
    let folder = tempfile::tempdir().unwrap();
    let starts = |program: &Path| {
        std::fs::read_to_string(format!("{}.count", program.display())).unwrap().lines().count()
    };
    // Some ten seconds of work, killed after four.
    let words = "The agent ran pytest and saw ValueError in src/net/http.rs since a header was too long. ";
    let continuations = (0..30).map(|n| format!("{n} {}", words.repeat(6))).collect();
    let long = Call::Score { prompt: plain(&words.repeat(70)), continuations };
    let expected = one(model().unwrap(), long.clone());
    assert!(expected.is_ok(), "{expected:?}");
    let program = killer(folder.path(), 3, 4);
    assert_eq!(one(&Llama::new(options.clone(), &program), long.clone()), expected);
    assert_eq!(starts(&program), 4);
    // While it loads.
    let program = killer(folder.path(), 2, 0);
    assert!(Llama::new(options.clone(), &program).load().is_ok());
    assert_eq!(starts(&program), 3);
    // There is an end to it.
    let program = killer(folder.path(), 100, 4);
    let killed = one(&Llama::new(options, &program), long);
    assert!(matches!(&killed, Err(CallError::Aborted(why)) if why.contains("signal: 9")), "{killed:?}");
    assert_eq!(starts(&program), 4);
}

#[test]
fn weights_that_cannot_be_used_are_refused_in_time() {
    let Some(options) = options() else { return };
    let folder = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    let refused = |path: &Path, program: &Path| {
        let options = Options { path: path.to_owned(), ..options.clone() };
        format!("{:#}", Llama::new(options, program).load().expect_err("it cannot start"))
    };

    let missing = refused(&folder.path().join("none.gguf"), Path::new(PROGRAM));
    assert!(missing.contains("none.gguf"), "{missing}");
    let whole = std::fs::read(&options.path).unwrap();
    let truncated = folder.path().join("truncated.gguf");
    std::fs::write(&truncated, &whole[..whole.len() / 2]).unwrap();
    let error = refused(&truncated, Path::new(PROGRAM));
    assert!(error.contains("truncated.gguf"), "{error}");
    let garbage = folder.path().join("garbage.gguf");
    std::fs::write(&garbage, "no weights at all").unwrap();
    let error = refused(&garbage, Path::new(PROGRAM));
    assert!(error.contains("garbage.gguf"), "{error}");

    let error = refused(&options.path, Path::new("/bin/false"));
    assert!(error.contains("ended while it loaded"), "{error}");
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let poor = folder.path().join("poor.sh");
        std::fs::write(&poor, format!("#!/bin/sh\nulimit -v 400000\nexec {PROGRAM} \"$@\"\n")).unwrap();
        std::fs::set_permissions(&poor, std::fs::Permissions::from_mode(0o755)).unwrap();
        let error = refused(&options.path, &poor);
        assert!(error.contains("model smollm2-135m:"), "{error}");
    }
    assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
}

#[test]
fn a_worker_that_hangs_is_given_up() {
    let Some(options) = options() else { return };
    let folder = tempfile::tempdir().unwrap();
    let hanging = folder.path().join("hang.sh");
    std::fs::write(&hanging, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&hanging, std::fs::Permissions::from_mode(0o755)).unwrap();
        let begun = Instant::now();
        let error =
            Llama::new(Options { stall: 2, ..options }, &hanging).load().expect_err("it cannot start");
        assert!(error.to_string().contains("within 2 seconds"), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(20));
    }
}
