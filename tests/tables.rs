//! The tables open elsewhere: pandas, pyarrow and DuckDB read every file that the program writes.
//!
//! Needs a Python with these packages: the one that TRAJPRESS_PYTHON names, else `python3`.

use std::path::Path;
use std::process::Command;

const SCRIPT: &str = r#"
import sys, pathlib
import duckdb, pandas, pyarrow.parquet as pq
for path in sorted(pathlib.Path(sys.argv[1]).rglob("*.parquet")):
    rows = pq.read_metadata(path).num_rows
    frame = pandas.read_parquet(path)
    duck = duckdb.sql(f"select count(*) from read_parquet('{path}')").fetchall()[0][0]
    assert len(frame) == rows == duck, (path, rows, len(frame), duck)
    fields = pq.read_schema(path)
    undocumented = [f.name for f in fields if not (f.metadata or {}).get(b"doc")]
    assert not undocumented, (path, undocumented)
    print(path.name, rows)
"#;

fn trajpress(args: &[&str]) {
    let status = Command::new(env!("CARGO_BIN_EXE_trajpress")).args(args).arg("--quiet").status().unwrap();
    assert!(status.success(), "trajpress {args:?}: {status}");
}

#[test]
fn pandas_and_duckdb_read_every_table() {
    let python = std::env::var("TRAJPRESS_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let ready = Command::new(&python).args(["-c", "import duckdb, pandas, pyarrow"]).output();
    if !ready.is_ok_and(|o| o.status.success()) {
        // Straight to stderr: what a passing test prints by `eprintln!` is swallowed.
        let text = format!(
            "SKIPPED: {python} has no duckdb, pandas and pyarrow\nhint: pip install them, or set TRAJPRESS_PYTHON\n"
        );
        std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes()).unwrap();
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let from = |name: &str| root.join(name).display().to_string();
    let [coding, support, templates] =
        ["coding", "support", "templates"].map(|d| from(&format!("datasets/{d}")));
    trajpress(&["ingest", &coding, &support, &templates, "--out", &at("data")]);
    trajpress(&["annotate", &at("data")]);
    let experiment = at("experiment.toml");
    let built_in = std::fs::read_to_string(from("reports/built-in/experiment.toml")).unwrap();
    let tiered = built_in.replacen("[[triggers]]", "[[strategies]]\nname = \"tiered\"\n\n[[triggers]]", 1);
    std::fs::write(&experiment, format!("contexts = true\n{tiered}")).unwrap();
    trajpress(&["run", &experiment, "--data", &at("data"), "--out", &at("run")]);
    trajpress(&["report", &at("run"), "--out", &at("report")]);
    let output =
        Command::new(&python).args(["-c", SCRIPT, &dir.path().display().to_string()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    for table in [
        "trajectories",
        "steps",
        "features",
        "partners",
        "usage",
        "variants",
        "cells",
        "events",
        "items",
        "contexts",
        "timeline",
        "scores",
        "summary",
    ] {
        assert!(text.contains(&format!("{table}.parquet")), "no table `{table}` among\n{text}");
    }
}
