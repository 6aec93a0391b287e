//! Tests of the page of a run.

use super::*;
use crate::report::Options;
use crate::report::load::Population;
use crate::report::statistics::bootstrap::Resampling;
use crate::report::statistics::synthetic::{GRID, Spec, TINY, write_run};
use crate::store::{ShowcaseRow, TableWriter};

/// What the page shows, as JSON.
fn data(page: &str) -> Value {
    let (_, rest) = page.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

fn page_of(specs: &[Spec], sessions: usize) -> String {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), specs, sessions, 12);
    page_in(dir.path(), false)
}

fn page_in(run: &Path, share_safe: bool) -> String {
    let options = Options {
        resampling: Resampling { seed: 1, resamples: 200 },
        population: Population::Other,
        baseline: None,
        claims: None,
        names: crate::report::claims::tests::names(),
        share_safe,
        png: false,
    };
    crate::report::write(run, &run.join("out"), &options).unwrap();
    std::fs::read_to_string(run.join("out/report.html")).unwrap()
}

#[test]
fn the_first_sentence_is_the_result() {
    let told = data(&page_of(&TINY, 60));
    insta::assert_snapshot!(told["sentence"].as_str().unwrap());
    assert_eq!(told["controls"], json!([true, false, true, false]));
    let table = &told["tables"]["summary"];
    assert_eq!(table["n_rows"], 4);
    assert!(table["columns"].as_array().unwrap().iter().all(|c| c["cells"].as_array().unwrap().len() == 4));
}

/// Of prompts that are cached the smaller one can cost more.
#[test]
fn that_it_costs_money_is_told() {
    const DEAR: [Spec; 2] =
        [("full", "", "never", 0.0, 1.0), ("mask", "keep_last=10", "turns(n=10)", 0.1, 0.8)];
    let sentence = |specs: &[Spec]| data(&page_of(specs, 60))["sentence"].as_str().unwrap().to_owned();
    let dear = sentence(&DEAR);
    assert!(dear.ends_with(", but costs 3 % more money than nothing compressed."), "{dear}");
    assert!(!sentence(&TINY).contains("costs"));
}

#[test]
fn few_needs_are_said_to_be_few() {
    let told = data(&page_of(&TINY, 3));
    insta::assert_snapshot!(told["sentence"].as_str().unwrap());
}

#[test]
fn many_needs_of_few_clusters_are_not_said_to_be_few() {
    let of = Estimate { n_items: 3_016, n_eff: Some(1.9), ..Estimate::default() };
    assert_eq!(
        too_few(&of),
        "its 3,016 needs come from too few independent sources (they tell as much as 1.9 sources of equal size)"
    );
}

/// What divides the needs put at risk, and nothing else.
#[test]
fn strata_are_those_of_a_page() {
    let told = data(&page_of(&GRID, 24));
    let strata = &told["tables"]["strata"];
    let column = |name: &str| {
        strata["columns"].as_array().unwrap().iter().find(|c| c["name"] == name).unwrap().clone()
    };
    let mut words: Vec<String> = column("stratum")["words"]
        .as_array()
        .unwrap()
        .iter()
        .map(|w| w.as_str().unwrap().to_owned())
        .collect();
    words.sort();
    let all = ["class=authored", "horizon=20", "horizon=5", "kind=path", "point=1", "point=2"]
        .map(|part| format!("set=exposed tail=10 {part}"));
    assert_eq!(words, all);
}

/// Labels may hold anything: the page has it as text within JSON, with marks for what acts.
#[test]
fn nothing_in_a_label_is_part_of_the_page() {
    let evil = "x=</script><script>alert(1)</script><img src=q onerror=alert(1)>\u{202e}\u{1b}[31m";
    let mut specs = TINY.to_vec();
    specs[1].1 = evil;
    let page = page_of(&specs, 24);
    assert_eq!(page.matches("</script>").count(), 2, "those of the page itself");
    assert!(!page.contains("<img") && !page.contains('\u{202e}') && !page.contains('\u{1b}'));
    assert!(page.contains("\\u003c/script>\\u003cscript>alert(1)"));
    assert!(page.contains("default-src 'none'"), "and the page may load nothing");
}

/// Text of logs acts no more than labels do, and is not there at all where the page is to be shared.
#[test]
fn events_have_their_text_or_none() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), &TINY, 12, 12);
    let evil = "</script><script>alert(1)</script>\u{202e}";
    let row = |row: u32, what: &'static str| ShowcaseRow {
        variant: "v1".into(),
        trajectory: "t1".into(),
        row,
        what: what.into(),
        atom: (row == 0).then(|| "src/a.py".to_owned()),
        tokens_before: 7,
        text: Some(evil.to_owned()),
        ..ShowcaseRow::default()
    };
    let mut writer = TableWriter::create(&dir.path().join("showcase.parquet"), 1 << 20).unwrap();
    let next = ShowcaseRow { event: 1, ..row(0, "dropped") };
    writer.push([row(0, "lost"), row(1, "dropped"), next]).unwrap();
    writer.finish().unwrap();
    let page = page_in(dir.path(), false);
    assert_eq!(page.matches("</script>").count(), 2, "those of the page itself");
    let events = &data(&page)["events"];
    assert_eq!((events.as_array().unwrap().len(), events[0]["rows"].as_array().unwrap().len()), (2, 2));
    assert_eq!(events[0]["rows"][0][4], "src/a.py");
    assert_eq!(events[0]["rows"][1][7], "</script><script>alert(1)</script>\\u{202e}");
    let safe = page_in(dir.path(), true);
    assert!(!safe.contains("alert(1)") && !safe.contains("src/a.py"));
    let row = &data(&safe)["events"][0]["rows"][1];
    assert_eq!((&row[0], &row[5], &row[7]), (&json!("dropped"), &json!(7), &Value::Null));
}

/// The reader with coffee sees first whether last night got worse; the same rows give the same page.
#[test]
fn a_night_says_what_it_says_of_the_one_before() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), &TINY, 12, 12);
    assert_eq!(data(&page_in(dir.path(), false))["night"], Value::Null);
    let night = Night {
        name: "2026-01-31-030000".to_owned(),
        before: Some("2026-01-30-030000".to_owned()),
        said: "Worse: needs kept of </script> fell.".to_owned(),
        head: vec!["variant".to_owned()],
        rows: vec![vec!["mask".to_owned()]],
        ..Night::default()
    };
    night.write(dir.path()).unwrap();
    let page = page_in(dir.path(), false);
    assert_eq!(page.matches("</script>").count(), 2, "those of the page itself");
    let told = data(&page);
    assert!(
        told["title"].as_str().unwrap().starts_with("Night of 31 January 2026, 03:00 UTC"),
        "{}",
        told["title"]
    );
    assert_eq!(told["night"]["said"], night.said);
    assert_eq!(
        (&told["night"]["before"], &told["night"]["rows"]),
        (&json!("2026-01-30-030000"), &json!([["mask"]]))
    );
    assert!(page == page_in(dir.path(), false));
}

/// What the page says of a variant is in words, and of sessions by their length.
#[test]
fn figures_have_short_names_and_scores_have_words() {
    let told = data(&page_of(&TINY, 12));
    let mut short: Vec<&str> =
        told["short"].as_object().unwrap().values().map(|s| s.as_str().unwrap()).collect();
    short.sort_unstable();
    assert_eq!(short, ["full", "mask(keep_last=10)", "random(b=0.2)", "truncate(last=5)"]);
    assert_eq!(told["triggers"], "trigger: turns(n=10)");
    assert_eq!(told["called"]["need_retention"], "needs kept");
    assert_eq!(told["called"]["quote_fidelity"], "quote fidelity");
    // Too few needs for an efficiency: the cell says so.
    assert_eq!(data(&page_of(&TINY, 3))["why"][1], "few needs");
}

/// Two repositories say nothing of others, and much of more sessions of theirs: that is told instead.
#[test]
fn few_repositories_are_told_what_holds_for_them() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), &TINY, 60, 2);
    let told = data(&page_in(dir.path(), false));
    let sentence = told["sentence"].as_str().unwrap();
    let (these, other) = sentence.split_once(" Of other repositories: ").unwrap();
    assert!(
        these.starts_with("Of more sessions of these repositories (`--population these`): "),
        "{sentence}"
    );
    assert!(other.contains("too few independent sources"), "{sentence}");
    assert!(these.contains("`truncate(last=5) @ turns(n=10)` sends") && these.contains('['), "{sentence}");
    // So does the headline figure, which would have no point else.
    let svg = std::fs::read_to_string(dir.path().join("out/retention_savings.svg")).unwrap();
    assert!(svg.contains("these repositories") && svg.contains("truncate(last=5)"), "{svg}");
    // And the page's own figure, whose points the summary of other repositories has not.
    let column = |table: &Value, name: &str| {
        let mut columns = table["columns"].as_array().unwrap().iter();
        columns.find(|column| column["name"] == name).unwrap()["cells"].clone()
    };
    let (shown, summary) = (&told["headline"]["table"], &told["tables"]["summary"]);
    assert_eq!(told["headline"]["of"], "these repositories");
    assert!(column(summary, NEEDS).as_array().unwrap().iter().all(Value::is_null));
    for end in ["", "_lo", "_hi"] {
        let cells = column(shown, &format!("{NEEDS}{end}"));
        assert!(cells.as_array().unwrap().iter().filter(|cell| cell.is_number()).count() > 1, "{cells}");
    }
    assert_eq!(data(&page_of(&TINY, 60))["headline"], Value::Null);
}

/// Without a share counts say which is the best: the first variants are those of the same sessions from many repositories.
#[test]
fn few_repositories_have_the_best_first() {
    let first = |n_repositories| {
        let dir = tempfile::tempdir().unwrap();
        write_run(dir.path(), &GRID, 60, n_repositories);
        let told = data(&page_in(dir.path(), false));
        let places = told["order"].as_array().unwrap().iter().map(|place| place.as_u64().unwrap());
        places.enumerate().filter(|(_, place)| *place < 10).collect::<Vec<_>>()
    };
    assert_eq!(first(2), first(12));
}

/// The page has the order of summary.md, and the looks of the figures.
#[test]
fn rows_have_one_order_and_one_look() {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), &GRID, 60, 12);
    let told = data(&page_in(dir.path(), false));
    let summary = std::fs::read_to_string(dir.path().join("out/summary.md")).unwrap();
    let column = |name: &str| {
        let columns = told["tables"]["summary"]["columns"].as_array().unwrap();
        let column = columns.iter().find(|c| c["name"] == name).unwrap();
        let words = column["words"].as_array().unwrap();
        let cells = column["cells"].as_array().unwrap().iter();
        cells.map(|at| words[at.as_u64().unwrap() as usize].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let labels = column("label");
    let mut order: Vec<usize> = (0..labels.len()).collect();
    order.sort_by_key(|&i| told["order"][i].as_u64());
    let is_row =
        |line: &&str| line.starts_with("| ") && !line.starts_with("| variant") && !line.starts_with("| -");
    let rows = summary.lines().filter(is_row);
    let rows: Vec<&str> = rows.filter_map(|line| line[2..].split([' ', '|']).next()).take(10).collect();
    let first: Vec<&str> = order.iter().take(10).filter_map(|&i| labels[i].split(' ').next()).collect();
    assert_eq!(rows, first);
    for (strategy, look) in column("strategy").iter().zip(told["looks"].as_array().unwrap()) {
        let filled = !["random", "oracle", "atom-bag"].contains(&strategy.as_str());
        assert_eq!(
            look[2].as_bool().unwrap_or(false) || strategy == "drop-all",
            filled,
            "{strategy}: {look}"
        );
    }
}

/// 43.4951 % is 43 %: rounded to 43.50 before, it would be 44 %, beside a sentence that says 43.
#[test]
fn what_the_page_rounds_was_not_rounded_before() {
    let mut table = Table::new("t");
    table.fraction("x", "a share", [Some(0.434_951)].into_iter());
    let shown = |finer: usize| {
        let cell = as_json(&table, finer, &|_| true)["columns"][0]["cells"][0].as_f64().unwrap();
        fixed(100.0 * cell, 0)
    };
    assert_eq!((shown(FINE - 4), shown(0)), ("43".to_owned(), "44".to_owned()));
    let told = data(&page_of(&TINY, 60));
    let columns = told["tables"]["summary"]["columns"].as_array().unwrap();
    let saved = columns.iter().find(|c| c["name"] == "token_savings").unwrap();
    let is_fine = |x: &Value| x.as_f64().is_some_and(|x| (x * 1e4 - (x * 1e4).round()).abs() > 1e-6);
    assert!(saved["cells"].as_array().unwrap().iter().any(is_fine), "{saved}");
}

/// Null is not zero: who lost nothing lost 0.
#[test]
fn the_worst_session_of_nothing_lost_is_told() {
    let told = data(&page_of(&TINY, 12));
    assert_eq!(told["worst"][0]["lost"], 0);
    assert!(
        told["worst"][1]["lost"].as_u64().unwrap() > 0 && told["worst"][1]["counted"] == true,
        "{}",
        told["worst"]
    );
}

/// 200 variants over 850 sessions: `TRAJPRESS_REPORT_OUT=FOLDER` keeps the page, to be opened in a browser.
#[test]
#[ignore = "takes minutes where it is not optimised"]
fn a_large_page_is_under_ten_megabytes() {
    let specs: Vec<Spec> = (0..200)
        .map(|i| {
            let (saved, quality) = (0.1 + 0.004 * f64::from(i), 0.9 - 0.003 * f64::from(i * 37 % 200));
            let params: &'static str = Box::leak(format!("keep_last={i}").into_boxed_str());
            (["mask", "truncate", "summary", "notes"][i as usize % 4], params, "turns(n=10)", saved, quality)
        })
        .collect();
    let page = page_of(&specs, 850);
    assert!(page.len() < 10_000_000, "{} bytes", page.len());
    if let Some(folder) = std::env::var_os("TRAJPRESS_REPORT_OUT") {
        std::fs::write(Path::new(&folder).join("large.html"), page).unwrap();
    }
}
