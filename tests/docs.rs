//! The catalogue in docs/ is made from the program: this test compares them, and with UPDATE_DOCS=1 it writes it
//! anew.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use trajpress::internals::params::Param;

const BEGIN: &str =
    "<!-- catalogue: made from the program by `UPDATE_DOCS=1 cargo test --release --test all docs::` -->\n";
const END: &str = "<!-- end of catalogue -->";

fn defaults(params: &[Param]) -> String {
    let all: Vec<String> = params.iter().map(|p| format!("`{} = {}`", p.name, p.default)).collect();
    all.join(", ")
}

/// A row for each meaning, with all that have such a parameter.
fn meanings<'a>(what: &str, all: impl Iterator<Item = (&'a str, &'a [Param])>) -> String {
    let mut rows: Vec<(&Param, Vec<String>)> = Vec::new();
    for (name, param) in all.flat_map(|(name, params)| params.iter().map(move |p| (name, p))) {
        let same =
            |p: &Param| (p.name, p.about(), p.allowed()) == (param.name, param.about(), param.allowed());
        match rows.iter_mut().find(|row| same(row.0)) {
            Some(row) => row.1.push(format!("`{name}`")),
            None => rows.push((param, vec![format!("`{name}`")])),
        }
    }
    rows.sort_by_key(|row| row.0.name);
    let mut text = format!("\n| parameter | what it is | allowed | {what} |\n| --- | --- | --- | --- |\n");
    for (param, names) in rows {
        let allowed = param.allowed().unwrap_or_default();
        writeln!(text, "| `{}` | {} | {allowed} | {} |", param.name, param.about(), names.join(", "))
            .unwrap();
    }
    text
}

fn catalogue() -> String {
    let mut text =
        String::from("\n## Strategies\n\n| name | what it does | parameters |\n| --- | --- | --- |\n");
    for e in trajpress::internals::strategies::ALL {
        writeln!(text, "| `{}` | {} | {} |", e.name, e.summary, defaults(e.params)).unwrap();
    }
    text.push_str("\n### Their parameters\n");
    text.push_str(&meanings(
        "strategy",
        trajpress::internals::strategies::ALL.iter().map(|e| (e.name, e.params)),
    ));
    text.push_str("\n## Triggers\n\n| name | when it compresses | parameters |\n| --- | --- | --- |\n");
    for e in trajpress::internals::triggers::ALL {
        writeln!(text, "| `{}` | {} | {} |", e.name, e.summary, defaults(e.params)).unwrap();
    }
    text.push_str("\n### Their parameters\n");
    text.push_str(&meanings(
        "trigger",
        trajpress::internals::triggers::ALL.iter().map(|e| (e.name, e.params)),
    ));
    text.push_str(
        "\n## Scopes of policies\n\n| name | what is compressed | parameters |\n| --- | --- | --- |\n",
    );
    for e in trajpress::internals::scopes::ALL {
        writeln!(text, "| `{}` | {} | {} |", e.name, e.summary, defaults(e.params)).unwrap();
    }
    text.push_str("\n### Their parameters\n");
    text.push_str(&meanings("scope", trajpress::internals::scopes::ALL.iter().map(|e| (e.name, e.params))));
    text.push_str(
        "\n## Presets\n\n| name | product | version | read | by default |\n| --- | --- | --- | --- | --- |\n",
    );
    for p in trajpress::internals::policies::all() {
        let default = format!("{:?}", p.default).to_lowercase();
        writeln!(text, "| `{}` | {} | {} | {} | {default} |", p.name, p.product, p.version, p.date).unwrap();
    }
    text.push_str("\n## Scores\n\n| name | what it says | formula | unit | better | strata | floor | ceiling | pooled |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for e in trajpress::internals::scores::all() {
        let strata: Vec<String> = e.strata.iter().map(|key| format!("`{key}`")).collect();
        let (unit, better, pooled) = (e.unit.name(), e.better.name(), e.pooled.name());
        writeln!(
            text,
            "| `{}` | {} | {} | {unit} | {better} | {} | {} | {} | {pooled} |",
            e.name,
            e.summary,
            e.formula,
            strata.join(", "),
            e.floor,
            e.ceiling,
        )
        .unwrap();
    }
    text.push_str("\n## Formats\n\n| name | logs |\n| --- | --- |\n");
    for e in trajpress::internals::logs::formats::ALL {
        writeln!(text, "| `{}` | {} |", e.name, e.summary).unwrap();
    }
    text.push_str("\n## Built-in models\n\n| name | what | roles | size | context | licence | sets |\n");
    text.push_str("| --- | --- | --- | --- | --- | --- | --- |\n");
    let catalogue = trajpress::internals::models::catalogue::Catalogue::load(None).unwrap();
    for e in &catalogue.entries {
        let roles: Vec<&str> = e.roles.iter().map(|r| r.name()).collect();
        writeln!(
            text,
            "| `{}` | {} | {} | {} MB | {} | {} | {} |",
            e.name,
            e.about,
            roles.join(", "),
            e.bytes / 1_000_000,
            e.context,
            e.licence,
            catalogue.sets_of(&e.name).join(", ")
        )
        .unwrap();
    }
    text.push('\n');
    text
}

#[test]
fn docs_have_the_catalogue() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/catalogue.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let begin = page.find(BEGIN).expect("the page has a catalogue") + BEGIN.len();
    let end = page.find(END).expect("the catalogue ends");
    let new = format!("{}{}{}", &page[..begin], catalogue(), &page[end..]);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, new).unwrap();
    } else {
        assert!(
            page == new,
            "docs/catalogue.md is out of date\nhint: UPDATE_DOCS=1 cargo test --release --test all docs::"
        );
    }
}

/// All that stands in the files of a folder.
fn text_of(folder: &Path, all: &mut String) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            text_of(&path, all);
        } else if path.extension().is_some_and(|of| of == "rs" || of == "toml") {
            all.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

/// Tests that docs/seeds.md names as evidence exist (files: see tidy), and its verdicts add up.
#[test]
fn the_evidence_of_the_seeds_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = std::fs::read_to_string(root.join("docs/seeds.md")).unwrap();
    let mut source = String::new();
    ["src", "tests"].iter().for_each(|folder| text_of(&root.join(folder), &mut source));
    let mut counts = [0; 4];
    let mut gone = Vec::new();
    let points = page.lines().filter(|line| {
        let id = line.strip_prefix("| ").and_then(|line| line.split(' ').next()).unwrap_or("");
        id.starts_with(['M', 'S', 'P', 'T', 'R'])
            && id.len() > 1
            && id[1..].bytes().all(|b| b.is_ascii_digit())
    });
    for point in points {
        let verdict = point.split(" | ").nth(3).unwrap();
        counts[["works", "partly", "differs", "missing"].iter().position(|v| *v == verdict).unwrap()] += 1;
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let names = point.split('`').skip(1).step_by(2).filter(|name| name.matches('_').count() > 1);
        gone.extend(names.filter(|name| name.chars().all(is_name) && !source.contains(*name)));
    }
    assert_eq!(gone, [""; 0], "docs/seeds.md names tests that are not there");
    let sum = counts.iter().sum::<i32>();
    let row = format!("| all | {sum} | {} |", counts.map(|n| n.to_string()).join(" | "));
    assert!(page.contains(&row), "{row}");
}

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut all, mut is_quoted) = (vec![String::new()], false);
    for c in line.chars() {
        match c {
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => all.push(String::new()),
            _ => all.last_mut().unwrap().push(c),
        }
    }
    all
}

#[test]
fn the_readme_says_how_many_formats_are_read() {
    let readme = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    // A mapping reads what has no reader.
    let n = trajpress::internals::logs::formats::ALL.iter().filter(|entry| entry.name != "mapping").count();
    assert!(
        readme.contains(&format!("It reads [{n} formats](docs/catalogue.md)")),
        "README.md should say {n} formats"
    );
}

/// The table of the README is that of the kept report, whose figure stands above it.
#[test]
fn the_table_of_the_readme_is_the_kept_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let csv = fs::read_to_string(root.join("reports/controls/summary.csv")).unwrap();
    let mut lines = csv.lines().map(fields);
    let names = lines.next().unwrap();
    let kept: HashMap<String, HashMap<&str, String>> = lines
        .map(|row| (row[1].clone(), names.iter().map(String::as_str).zip(row).collect::<HashMap<_, _>>()))
        .collect();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    for (words, label) in [
        ("full", "full @ never"),
        ("mask, 21 turns at a time", "mask(keep_last=10) @ turns(n=21,keep=10)"),
        ("mask, at 80 % of a window of 32,000", "mask(keep_last=10) @ tokens"),
        ("mask, at every turn", "mask(keep_last=10) @ turns(n=1,keep=0)"),
        ("truncate, 21 turns at a time", "truncate(keep_last=10) @ turns(n=21,keep=10)"),
        ("truncate, at every turn", "truncate(keep_last=10) @ turns(n=1,keep=0)"),
        ("as-sent: what the logs say was sent", "as-sent @ logged-edits"),
        ("*random lines, a tenth*", "random(kept_share=0.1) @ turns(n=21,keep=10)"),
        ("*bag of atoms, a tenth*", "atom-bag(kept_share=0.1) @ turns(n=21,keep=10)"),
        ("*oracle, a tenth*", "oracle(kept_share=0.1) @ turns(n=21,keep=10)"),
    ] {
        let row = &kept[label];
        let shown = |name: &str| row[name].parse::<f64>().map_or("-".to_owned(), |x| format!("{x:.2}"));
        let with_interval = |name: &str| {
            let [lo, hi] = ["lo", "hi"].map(|end| shown(&format!("{name}_{end}")));
            if lo == "-" { shown(name) } else { format!("{} [{lo}, {hi}]", shown(name)) }
        };
        let [tokens, billed, money] = ["token_savings", "token_savings_billed", "cost_savings"].map(shown);
        let [needs, efficiency] = ["need_retention_common", "efficiency"].map(with_interval);
        let line = format!("| {words} | {tokens} | {billed} | {money} | {needs} | {efficiency} |");
        assert!(readme.contains(&line), "README.md should hold:\n{line}");
    }
}
