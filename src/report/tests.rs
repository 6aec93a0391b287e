//! Tests of `report`.

use super::*;
use statistics::synthetic::{BUDGETS, GRID, TINY, write_run};

const RESAMPLING: Resampling = Resampling { seed: 1, resamples: 500 };
fn options() -> Options {
    Options {
        resampling: RESAMPLING,
        population: Population::Other,
        baseline: None,
        claims: None,
        names: claims::tests::names(),
        share_safe: false,
        png: true,
    }
}

fn report(
    specs: &[statistics::synthetic::Spec],
    n: usize,
    repositories: usize,
) -> (tempfile::TempDir, Written) {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), specs, n, repositories);
    let written = write(dir.path(), &dir.path().join("report"), &options()).unwrap();
    (dir, written)
}

/// `TRAJPRESS_REPORT_OUT=DIR` keeps the files, to look at them.
#[test]
fn a_report_of_a_grid_is_complete_and_repeats_byte_by_byte() {
    let (_a, first) = report(&GRID, 60, 12);
    let (_b, second) = report(&GRID, 60, 12);
    let names: Vec<_> = first.files.iter().map(|f| f.file_name().unwrap().to_owned()).collect();
    // All figures but that of the agreement of two scores, which is one number.
    assert_eq!(names.len(), 15 + 5 * 3 + 8 * 5, "{names:?}");
    for (a, b) in first.files.iter().zip(&second.files) {
        assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap(), "{}", a.display());
    }
    assert_eq!(first.remarks.len(), 2, "{:?}", first.remarks);
    if let Some(out) = std::env::var_os("TRAJPRESS_REPORT_OUT") {
        for file in &first.files {
            fs::copy(file, Path::new(&out).join(file.file_name().unwrap())).unwrap();
        }
        let (_dir, tiny) = report(&GRID[..13], 60, 30);
        for file in &tiny.files {
            fs::copy(file, Path::new(&out).join("few").join(file.file_name().unwrap())).unwrap();
        }
        let (_dir, budgets) = report(&BUDGETS, 60, 30);
        for file in &budgets.files {
            fs::copy(file, Path::new(&out).join("budgets").join(file.file_name().unwrap())).unwrap();
        }
    }
}

#[test]
fn a_paper_takes_a_table_and_sentences() {
    let (dir, _) = report(&TINY, 60, 12);
    for name in ["summary.tex", "methods.md"] {
        let text = fs::read_to_string(dir.path().join("report").join(name)).unwrap();
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn a_report_takes_its_place_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    let read = |name: &str| fs::read_to_string(at(name)).ok();
    let draft = |text: &str, more: &[&str], absent: &[&str]| {
        let mut draft = Draft::create(dir.path()).unwrap();
        ["a.md", "b.md"].iter().for_each(|name| draft.write(name, text).unwrap());
        draft.names.extend(more.iter().map(|name| (*name).to_owned()));
        draft.absent.extend(absent.iter().map(|name| (*name).to_owned()));
        draft.publish()
    };
    fs::create_dir(at(".report.99999999.unfinished")).unwrap();
    fs::write(at("README.md"), "mine").unwrap();
    fs::write(at("c.md"), "of an earlier report").unwrap();
    draft("one", &[], &["c.md", "d.md"]).unwrap();
    assert_eq!(["a.md", "b.md", "c.md"].map(read), [Some("one".into()), Some("one".into()), None]);
    // The third was not written: the first two are as before.
    let error = draft("two", &["e.md"], &[]).unwrap_err();
    assert!(format!("{error:#}").contains("e.md: No such file"), "{error:#}");
    fs::create_dir(at("f.md")).unwrap();
    let error = draft("two", &["f.md"], &[]).unwrap_err();
    assert!(format!("{error:#}").contains("f.md: a folder stands there"), "{error:#}");
    assert_eq!(["a.md", "b.md", "e.md"].map(read), [Some("one".into()), Some("one".into()), None]);
    let mut left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    left.sort();
    assert_eq!(left, ["README.md", "a.md", "b.md", "f.md"]);
}

#[test]
fn every_table_has_a_page_that_the_summary_names() {
    let (dir, written) = report(&BUDGETS, 60, 30);
    let names: Vec<String> =
        written.files.iter().map(|f| f.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    let read = |name: &str| fs::read_to_string(dir.path().join("report").join(name)).unwrap();
    let summary = read("summary.md");
    for table in ["differences", "pareto", "areas", "agreement", "validity", "replicates", "claims"] {
        for kind in ["md", "csv", "parquet"] {
            assert!(names.contains(&format!("{table}.{kind}")), "{table}.{kind}: {names:?}");
        }
        assert!(summary.contains(&format!("- [{table}]({table}.md): ")), "{summary}");
        let page = read(&format!("{table}.md"));
        let page = page.rsplit("\n## Columns of ").next().unwrap();
        let columns = page.lines().filter(|l| l.starts_with("- `")).count();
        assert_eq!(columns, read(&format!("{table}.csv")).lines().next().unwrap().split(',').count());
    }
    // Two of the three seeds have no line of their own but in the summary.
    assert!(summary.contains("#3") && !read("pareto.csv").contains("#3"));
    let (_, tiny) = report(&TINY, 24, 12);
    assert!(tiny.files.iter().all(|f| !f.ends_with("areas.md")));
}

/// A session that failed under a variant is none that lost nothing there.
#[test]
fn the_mean_session_is_one_that_was_scored() {
    let (_dir, written) = report(&BUDGETS, 60, 30);
    let rows = &written.brief.rows;
    assert!(rows.iter().any(|row| row.n_sessions < written.brief.n_sessions && row.lost_of.0 > 0.0));
    for row in rows {
        let (value, _) = row.lost.unwrap();
        assert!((value * row.n_sessions as f64 - row.lost_of.0).abs() < 1e-9, "{}", row.variant);
    }
}

#[test]
fn a_baseline_is_a_strategy_or_a_label_of_the_run() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), &TINY, 24, 12);
    let out = dir.path().join("out");
    let with =
        |name: &str| write(dir.path(), &out, &Options { baseline: Some(name.to_owned()), ..options() });
    let error = format!("{:#}", with("oracle").err().unwrap());
    insta::assert_snapshot!(error, @r"
        no variant of the run is called or uses `oracle`
        hint: give a label of summary.csv, or one of full, mask, random, truncate
        ");
    with("random").unwrap();
    let csv = fs::read_to_string(out.join("differences.csv")).unwrap();
    let baselines =
        csv.lines().filter(|l| l.starts_with("token_savings")).map(|l| l.matches("random").count());
    assert_eq!(baselines.collect::<Vec<_>>(), [1, 1], "{csv}");
}

#[test]
fn the_table_of_a_tiny_run_reads_like_this() {
    let (dir, _) = report(&TINY, 24, 12);
    let text = fs::read_to_string(dir.path().join("report/summary.md")).unwrap();
    let table: Vec<&str> = text.lines().filter(|l| l.starts_with('|')).collect();
    insta::assert_snapshot!(table.join("\n"), @r"
        | variant                               |  tokens saved |     as billed |   money saved |        needs kept |  random 0, best 1 | worst session loses |
        | ------------------------------------- | ------------: | ------------: | ------------: | ----------------: | ----------------: | ------------------: |
        | truncate(last=5) @ turns(n=10)        | 62 % [53, 72] | 29 % [22, 35] | 34 % [27, 40] | 0.70 [0.63, 0.76] | 0.20 [0.19, 0.22] |             9 needs |
        | mask(keep_last=10) @ turns(n=10)      | 45 % [39, 51] | 21 % [16, 25] | 22 % [17, 26] | 0.84 [0.80, 0.87] | 0.60 [0.56, 0.65] |             5 needs |
        | random(b=0.2) @ turns(n=10) (control) | 54 % [47, 62] | 25 % [19, 30] | 28 % [23, 33] | 0.66 [0.59, 0.72] |              0.00 |             9 needs |
        | full @ never (control)                |           0 % |           0 % |           0 % | 1.00 [0.73, 1.00] |         - no room |             0 needs |
        | variant                        | sessions |                                             first error |
        | ------------------------------ | -------: | ------------------------------------------------------: |
        | truncate(last=5) @ turns(n=10) |        1 | 00000000000000000000000000000001: step 7: no such block |
        ");
    // Of 24 + 24 + 23 cells with shadows one, and of 4 needs a trajectory of `full`; those of the agent's own making aside,
    // and those that the system's text gave.
    assert!(text.contains(" (in 0.0141 of the sessions luck was better, and is the 1)"), "{text}");
    assert!(text.contains("**Note:** 0.250 of 96 needs were met by agents "), "{text}");
    let csv = fs::read_to_string(dir.path().join("report/summary.csv")).unwrap();
    let mut lines = csv.lines().map(|l| l.split(',').take(20).collect::<Vec<_>>().join(","));
    insta::assert_snapshot!(lines.by_ref().take(3).collect::<Vec<_>>().join("\n"), @r"
        variant,label,strategy,trigger,model,bridge,n_cells_ok,n_cells_error,n_clusters,n_events,n_needs_common,n_needs_exposed,kept_share,token_savings,token_savings_lo,token_savings_hi,token_savings_billed,token_savings_billed_lo,token_savings_billed_hi,cost_savings
        0000000000000000,full @ never,full,never,,false,24,0,12,0,254,114,,0.0000,,,0.0000,,,0.0000
        0000000000000001,mask(keep_last=10) @ turns(n=10),mask,turns,,false,24,0,12,48,254,114,0.5126,0.4509,0.3883,0.5135,0.2065,0.1596,0.2534,0.2156
        ");
}

/// One under `logged`; `drop-all` and `truncate` make the same compressions.
const BRIDGED: [statistics::synthetic::Spec; 6] = [
    ("full", "", "never", 0.0, 1.0),
    ("mask", "keep_last=5", "logged", 0.9, 0.9),
    ("mask", "keep_last=10", "turns(n=10)", 0.5, 0.6),
    ("summary", "", "turns(n=10)", 0.4, 0.4),
    ("drop-all", "", "turns(n=10)", 0.7, 0.2),
    ("truncate", "last=5", "turns(n=10)", 0.7, 0.2),
];

#[test]
fn the_figure_says_that_truth_was_given() {
    const GIVEN: [statistics::synthetic::Spec; 4] = [
        ("full", "", "never", 0.0, 1.0),
        ("mask", "keep_last=10", "turns(n=10)", 0.5, 0.6),
        ("core-notes", "source=given", "turns(n=10)", 0.6, 0.9),
        ("truncate", "last=5", "turns(n=10)", 0.7, 0.2),
    ];
    let (dir, _) = report(&GIVEN, 24, 12);
    let svg = fs::read_to_string(dir.path().join("report/retention_savings.svg")).unwrap();
    assert!(svg.contains("core-notes(source=given)"), "{svg}");
    // In the key, too: no line there is the bare name.
    assert!(!svg.lines().any(|line| line.trim() == "core-notes"), "{svg}");
}

#[test]
fn the_figure_counts_what_is_below_the_minimum() {
    let svg = |n, repositories| {
        let (dir, _) = report(&BRIDGED, n, repositories);
        fs::read_to_string(dir.path().join("report/retention_savings.svg")).unwrap()
    };
    // Two clusters are too few for all six: nothing compressed is drawn all the same, bridge mode never.
    assert!(svg(4, 2).contains("\n4 variants below the minimum are not drawn\n"));
    assert!(!svg(24, 12).contains("not drawn"));
}

#[test]
fn bridge_mode_stands_apart() {
    let (dir, _) = report(&BRIDGED, 24, 12);
    let read = |name: &str| fs::read_to_string(dir.path().join("report").join(name)).unwrap();
    let text = read("summary.md");
    let (main, rest) = text.split_once("\n## Bridge mode (selected by the logged summary)\n").unwrap();
    assert!(!main.contains("@ logged"), "{main}");
    let table: Vec<&str> = rest.lines().filter(|l| l.starts_with('|')).take(3).collect();
    assert!(table[0].starts_with("| variant ") && table[0].ends_with(" token savings |"), "{table:?}");
    assert!(table[2].starts_with("| mask(keep_last=5) @ logged |"), "{table:?}");
    let csv = read("summary.csv");
    let column = csv.lines().next().unwrap().split(',').position(|c| c == "bridge").unwrap();
    for line in csv.lines().skip(1) {
        let bridge = line.contains(",mask(keep_last=5) @ logged,");
        assert_eq!(line.split(',').nth(column), Some(if bridge { "true" } else { "false" }), "{line}");
    }
    let run = load::Run::open(dir.path(), Population::Other).unwrap();
    let mut summing = Summing::of(&run, RESAMPLING);
    run.scores(|batch| {
        summing.add(&batch, || {});
        Ok(())
    })
    .unwrap();
    let points = summing.finish().points();
    assert!(points.iter().all(|p| !p.label.contains("logged")));
    assert_eq!(points.len(), 5);
}

#[test]
fn variants_that_made_the_same_compressions_are_told() {
    let (dir, _) = report(&BRIDGED, 24, 12);
    let text = fs::read_to_string(dir.path().join("report/summary.md")).unwrap();
    let note = "**Note:** these variants made the same compressions: \
                drop-all @ turns(n=10) = truncate(last=5) @ turns(n=10).\n";
    assert!(text.contains(note), "{text}");
    let (dir, _) = report(&TINY, 24, 12);
    let text = fs::read_to_string(dir.path().join("report/summary.md")).unwrap();
    assert!(!text.contains("made the same compressions"), "{text}");
}

#[test]
fn prices_stand_under_the_table_with_what_costs_more() {
    let specs = [("full", "", "never", 0.0, 1.0), ("mask", "keep_last=20", "turns(n=1)", 0.02, 0.66)];
    let (dir, _) = report(&specs, 24, 12);
    let text = fs::read_to_string(dir.path().join("report/summary.md")).unwrap();
    let caption = "\nPrices `toy`: prompt 1 fresh, 1.25 written to the cache, 0.1 read from it; output 5. \
                   A cached prompt lives for 300 s after its last use where the log has times; \
                   where it has none, to the end.\n";
    assert!(text.contains(caption), "{text}");
    let note = text.lines().find(|l| l.contains("cost more than nothing compressed")).unwrap();
    assert!(note.contains(": mask(keep_last=20) @ turns(n=1) +8.") && !note.contains("full"), "{note}");
    let (dir, _) = report(&TINY, 24, 12);
    let text = fs::read_to_string(dir.path().join("report/summary.md")).unwrap();
    assert!(!text.contains("cost more than nothing compressed"), "{text}");
    fs::remove_file(dir.path().join("_manifest.json")).unwrap();
    write(dir.path(), &dir.path().join("report"), &options()).unwrap();
    let text = fs::read_to_string(dir.path().join("report/summary.md")).unwrap();
    assert!(text.contains("\nPrices: not known, the run has no manifest.\n"), "{text}");
}

/// The summary is a page: its table and what is said of it, at most seven columns, and rules of columns on another.
#[test]
fn the_summary_is_a_page_and_columns_say_the_rules() {
    let (dir, _) = report(&GRID, 60, 12);
    let read = |name: &str| fs::read_to_string(dir.path().join("report").join(name)).unwrap();
    let text = read("summary.md");
    let tables: Vec<&str> = text.lines().filter(|l| l.starts_with("| ---")).collect();
    assert!(!tables.is_empty() && tables.iter().all(|l| l.matches(" |").count() <= 7), "{tables:?}");
    assert_eq!(text.matches("*How to read it.*").count(), tables.len(), "{text}");
    let rest = text.lines().filter(|l| !l.starts_with('|')).map(|l| 1 + l.len() / 100).sum::<usize>();
    assert!(rest < 70, "{rest} lines beside the tables: {text}");
    let columns = read("columns.md");
    for (start, rule) in
        [("- `efficiency`: ", "under 0.05"), ("- `discard_lift`: ", "shortest reference tail")]
    {
        let line = columns.lines().find(|l| l.starts_with(start)).unwrap();
        assert!(line.contains(rule), "{line}");
    }
    assert_eq!(columns.matches("\n## ").count(), 4);
    assert!(columns.contains("\n## Not in this report\n"), "{columns}");
}

/// A figure without rows is left out, and the summary says why; that of an earlier report goes.
#[test]
fn figures_without_rows_are_left_out_and_told() {
    let (dir, _) = report(&TINY, 24, 12);
    let at = |name: &str| dir.path().join("report/figures").join(name);
    fs::write(at("heat.svg"), "of an earlier report").unwrap();
    write(dir.path(), &dir.path().join("report"), &options()).unwrap();
    assert!(!at("heat.svg").exists() && at("forest_wide.png").exists());
    let text = fs::read_to_string(dir.path().join("report/summary.md")).unwrap();
    let told = text.lines().find(|line| line.starts_with("- not there: ")).unwrap();
    assert!(told.contains("figure heat") && told.ends_with("(why: [columns](columns.md))"), "{told}");
    assert_eq!(told.matches("agreement").count(), 1, "a table and its figure are told once: {told}");
    let columns = fs::read_to_string(dir.path().join("report/columns.md")).unwrap();
    assert!(
        columns.contains("\n- figure heat: fewer than two strategies stand under more than one trigger\n"),
        "{columns}"
    );
    let without = Options { png: false, ..options() };
    write(dir.path(), &dir.path().join("report"), &without).unwrap();
    let head = |end: &str| dir.path().join("report").join(format!("retention_savings{end}")).exists();
    assert!(!at("forest_wide.png").exists() && at("forest_wide.svg").exists() && at("forest.csv").exists());
    assert!(!head(".png") && !head("_wide.png") && head(".svg"));
    let text = fs::read_to_string(dir.path().join("report/summary.md")).unwrap();
    assert!(text.contains("each as .svg in two widths"), "{text}");
    // Controls are no rows of a forest; the one that is left is worse than the baseline.
    let csv = fs::read_to_string(at("forest.csv")).unwrap();
    let rows: Vec<&str> = csv.lines().skip(1).collect();
    assert!(rows.len() == 1 && rows[0].contains("truncate(last=5),mask(keep_last=10),-0."), "{csv}");
    assert!(rows[0].ends_with(",worse"), "{csv}");
}

/// The best come first, what another beats last, and of more variants than fit those that are beaten go.
#[test]
fn beaten_variants_are_marked_and_come_last() {
    let (dir, _) = report(&GRID, 60, 12);
    let text = fs::read_to_string(dir.path().join("report/summary.md")).unwrap();
    let rows: Vec<&str> =
        text.lines().filter(|l| l.starts_with("| ") && l.contains(" @ ")).take(24).collect();
    let place = |mark: &str| rows.iter().position(|l| l.contains(mark)).unwrap();
    let (control, beaten) = (place(" (control)"), place(" (beaten)"));
    assert!(0 < control && control < beaten, "{rows:#?}");
    assert!(rows[beaten..].iter().all(|l| l.contains(" (beaten)")), "{rows:#?}");
    assert!(rows.iter().any(|l| l.contains("truncate(head+tail) @ turns(n=20) (beaten)")), "{rows:#?}");
}

#[test]
fn a_missing_run_is_an_error_with_a_hint() {
    let dir = tempfile::tempdir().unwrap();
    let error = write(dir.path(), &dir.path().join("out"), &options()).err().unwrap();
    let text = format!("{error:#}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].ends_with("is not the folder of a finished run: no variants.parquet there"), "{text}");
    assert!(lines.len() == 2 && lines[1].starts_with("hint: "), "{text}");
}
