//! Holds the shape of the source: who may use whom, and that every algorithm is in its catalogue.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

mod sizes;

/// Module -> what it may name in `use crate::`. A module may always use its own children.
fn allowed() -> BTreeMap<&'static str, Vec<&'static str>> {
    BTreeMap::from([
        ("text", vec!["files"]),
        ("trajectory", vec![]),
        ("files", vec![]),
        ("settings", vec!["text"]),
        ("params", vec!["files"]),
        ("progress", vec!["text"]),
        ("store", vec!["files", "trajectory"]),
        ("logs", vec!["files", "settings", "store", "text", "trajectory"]),
        ("models", vec!["files", "settings", "text"]),
        ("turns", vec!["text", "trajectory"]),
        ("annotate", vec!["files", "progress", "store", "text", "trajectory", "turns"]),
        // (Its logs for tests are annotated.)
        ("context", vec!["annotate", "store", "text", "trajectory", "turns"]),
        ("learn", vec!["context", "params", "text", "trajectory", "turns"]),
        ("triggers", vec!["context", "models", "params", "text", "trajectory", "turns"]),
        // Programs of users: what they are asked, and how they are kept alive.
        ("programs", vec!["context", "files", "trajectory"]),
        (
            "strategies",
            vec!["context", "files", "learn", "models", "params", "programs", "text", "trajectory", "turns"],
        ),
        ("scopes", vec!["context", "params", "trajectory", "turns"]),
        ("replay", vec!["context", "models", "scopes", "strategies", "text", "trajectory", "triggers"]),
        ("export", vec!["context", "replay", "text", "trajectory"]),
        (
            "live",
            vec![
                "annotate",
                "context",
                "experiment",
                "export",
                "logs",
                "programs",
                "replay",
                "text",
                "trajectory",
            ],
        ),
        // A policy as it is written.
        (
            "policies",
            vec!["context", "models", "params", "replay", "scopes", "settings", "strategies", "triggers"],
        ),
        // Scores read what a replay and its shadows recorded.
        (
            "scores",
            vec!["context", "models", "programs", "replay", "store", "strategies", "text", "trajectory"],
        ),
        (
            "experiment",
            vec![
                "context",
                "files",
                "models",
                "params",
                "policies",
                "programs",
                "progress",
                "replay",
                "scores",
                "settings",
                "store",
                "strategies",
                "text",
                "trajectory",
                "triggers",
                "annotate",
            ],
        ),
        // Single events with their text, for people who read.
        (
            "showcase",
            vec!["context", "experiment", "export", "files", "scores", "store", "strategies", "trajectory"],
        ),
        // What a log's own product did to its past, by the same replays and scores.
        ("audit", vec!["context", "experiment", "replay", "scores", "store", "text", "trajectory", "turns"]),
        // A report reads rows, and the claims that they are held against: it is drawn again years later, without a model.
        // Of scores it reads what they say of themselves, see below.
        ("report", vec!["files", "progress", "scores", "settings", "store", "text"]),
        // Which policy to set: sessions replayed by experiment, compared by the statistics of the report.
        ("advice", vec!["experiment", "report", "scores"]),
        (
            "cli",
            vec![
                "advice",
                "annotate",
                "audit",
                "context",
                "experiment",
                "export",
                "files",
                "learn",
                "logs",
                "models",
                "params",
                "policies",
                "programs",
                "progress",
                "replay",
                "report",
                "scores",
                "scopes",
                "settings",
                "showcase",
                "store",
                "strategies",
                "text",
                "triggers",
                "turns",
            ],
        ),
    ])
}

fn sources(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(sources(&path));
        } else if path.extension().is_some_and(|e| e == "rs") {
            files.push(path);
        }
    }
    files.sort();
    files
}

fn src() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The code of a file before its unit tests, which may also stand beside it, in `tests.rs`.
fn code(path: &Path) -> String {
    if path.ends_with("tests.rs") {
        return String::new();
    }
    let text = fs::read_to_string(path).unwrap();
    let tests = text.match_indices("#[cfg(test)]\n").find(|(at, mark)| {
        let item = text[at + mark.len()..].lines().next().unwrap_or_default();
        item.contains("mod ") && item.ends_with('{')
    });
    text[..tests.map_or(text.len(), |(at, _)| at)].to_owned()
}

/// Modules named by `crate::x` or `crate::{x::.., y}` in a text.
fn used(code: &str) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = &code[at + "crate::".len()..];
        let names: Vec<&str> = match rest.strip_prefix('{') {
            Some(list) => list[..list.find('}').unwrap_or(0)].split(',').collect(),
            None => vec![rest],
        };
        for name in names {
            let name: String = name.trim().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
            if !name.is_empty() {
                used.insert(name);
            }
        }
    }
    used
}

#[test]
fn data_flows_one_way() {
    let allowed = allowed();
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for path in sources(&src()) {
        let relative = path.strip_prefix(src()).unwrap();
        let module =
            relative.components().next().unwrap().as_os_str().to_str().unwrap().trim_end_matches(".rs");
        if ["lib", "main"].contains(&module) {
            continue;
        }
        seen.insert(module.to_owned());
        let Some(may) = allowed.get(module) else {
            wrong.push(format!(
                "{}: module `{module}` is not in the table of tests/tidy.rs",
                relative.display()
            ));
            continue;
        };
        for name in used(&code(&path)) {
            if name != module && !may.contains(&name.as_str()) {
                wrong.push(format!("{}: `{module}` may not use `{name}`", relative.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let gone: Vec<_> = allowed.keys().filter(|m| !seen.contains(**m)).collect();
    assert!(gone.is_empty(), "modules in the table but not in src: {gone:?}");
}

/// The paths of a tree of `use`: `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn leaves(tree: &str) -> Vec<String> {
    let Some((prefix, rest)) = tree.split_once('{') else {
        return vec![tree.split(" as ").next().unwrap().trim().to_owned()];
    };
    let (mut depth, mut from, mut found) = (0, 0, Vec::new());
    let inner = &rest[..rest.rfind('}').unwrap_or(rest.len())];
    for (at, c) in inner.char_indices().chain([(inner.len(), ',')]) {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = inner[from..at].trim();
                if !part.is_empty() {
                    found.extend(leaves(&format!("{prefix}{part}")));
                }
                from = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The module of a file: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module(path: &Path) -> String {
    let relative = path.strip_prefix(src()).unwrap().with_extension("");
    let name = relative.to_str().unwrap().replace('/', "::");
    name.strip_suffix("::mod").map_or(name.clone(), str::to_owned)
}

/// The paths that a file imports.
fn paths(code: &str) -> Vec<String> {
    let code: String =
        code.lines().map(|line| line.split("//").next().unwrap().trim_start().to_owned() + "\n").collect();
    let statements = code.split(';').filter_map(|text| {
        let at = text
            .rfind("\nuse ")
            .or_else(|| text.rfind("\npub use "))
            .or_else(|| text.rfind("use ").filter(|&at| at == 0))?;
        text[at..].split_once("use ").map(|(_, tree)| tree.split_whitespace().collect::<Vec<_>>().join(" "))
    });
    let of_use = statements.flat_map(|tree| leaves(&tree));
    // Paths within the code: `super::ingest::run`.
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    let inline = code.split(|c: char| !is_part(c)).filter(|word| {
        let mut parts = word.split("::");
        parts.next().is_some_and(|first| ["crate", "super"].contains(&first))
            && parts.next().is_some_and(|next| !next.is_empty())
    });
    of_use.chain(inline.map(str::to_owned)).collect()
}

/// The modules (files) that a file imports from, or names by their path.
fn imports(module: &str, code: &str, all: &BTreeSet<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for path in paths(code) {
        let mut base: Vec<&str> = module.split("::").collect();
        let mut parts: Vec<&str> = path.split("::").collect();
        match parts[0] {
            "crate" => base.clear(),
            "super" => {}
            _ => continue,
        }
        while parts.first() == Some(&"super") {
            base.pop();
            parts.remove(0);
        }
        base.extend(parts.into_iter().filter(|part| !["crate", "self"].contains(part)));
        while !base.is_empty() && !all.contains(&base.join("::")) {
            base.pop();
        }
        // A folder names what it holds, and its parts what they have in common there: that is no circle.
        let is_own = base
            .join("::")
            .strip_prefix(module)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"));
        if !base.is_empty() && !is_own {
            found.insert(base.join("::"));
        }
    }
    found
}

#[test]
fn no_circle_of_imports() {
    let files = sources(&src());
    let all: BTreeSet<String> = files.iter().map(|path| module(path)).collect();
    let mut left: BTreeMap<String, BTreeSet<String>> =
        files.iter().map(|path| (module(path), imports(&module(path), &code(path), &all))).collect();
    assert!(left["experiment::cell"].contains("replay::shadow"), "imports are not read");
    // What imports nothing that is left is on no circle, nor is what nobody that is left imports.
    loop {
        let wanted: BTreeSet<String> = left.values().flatten().cloned().collect();
        let before = left.len();
        let names: BTreeSet<String> = left.keys().cloned().collect();
        left.retain(|name, imports| {
            imports.retain(|import| names.contains(import));
            !imports.is_empty() && wanted.contains(name)
        });
        if left.len() == before {
            break;
        }
    }
    assert!(left.is_empty(), "files that import each other, or stand between such: {left:#?}");
}

/// Entries are plain data. Were a report to call a scorer, it would need the log, and a model.
#[test]
fn reports_read_scores_as_data() {
    let mut wrong = Vec::new();
    for path in sources(&src().join("report")) {
        let code = code(&path);
        let called = code.match_indices("scores::").filter(|(at, _)| {
            code[..*at].chars().next_back().is_none_or(|c| !c.is_alphanumeric() && c != '_')
        });
        let called = called.map(|(at, _)| {
            let is_path = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
            code[at..].chars().take_while(|c| is_path(*c)).collect::<String>()
        });
        // What ends in `::` is a tree, of which the leaves come.
        let imported = paths(&code).into_iter().filter_map(|p| Some(p.strip_prefix("crate::")?.to_owned()));
        for path_of in called.filter(|p| !p.ends_with("::")).chain(imported) {
            let Some(rest) = path_of.strip_prefix("scores::") else { continue };
            let last = rest.rsplit("::").next().unwrap();
            let is_constant = last.chars().all(|c| c.is_uppercase() || c.is_numeric() || c == '_');
            if !is_constant && !rest.starts_with("registry::") && !["all", "find", "self"].contains(&rest) {
                wrong.push(format!("{}: {path_of}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn scoring_starts_no_replay() {
    let wrong: Vec<_> = sources(&src().join("scores"))
        .into_iter()
        .filter(|path| {
            let code = code(path);
            code.contains("replay::replay(") || paths(&code).iter().any(|p| p.ends_with("replay::replay"))
        })
        .collect();
    assert!(wrong.is_empty(), "these could replay: {wrong:?}");
}

/// A score is called by its entry, so that a name is written once. (Tests may say what stands in a file.)
#[test]
fn names_of_scores_are_written_once() {
    let files: Vec<(String, String)> = sources(&src())
        .iter()
        .map(|path| (path.strip_prefix(src()).unwrap().display().to_string(), code(path)))
        .collect();
    for score in trajpress::internals::scores::all() {
        let quoted = format!("\"{}\"", score.name);
        let mut places =
            files.iter().flat_map(|(file, code)| code.matches(&quoted).map(move |_| file.as_str()));
        let first = places.next().unwrap();
        assert!(first.starts_with("scores/"), "{quoted} in {first}");
        // What a reader is asked for is called the same.
        let others: Vec<&str> =
            places.filter(|file| score.name != "judge" || *file != "scores/readers.rs").collect();
        assert!(others.is_empty(), "{quoted} also in {others:?}: take the name of its entry");
    }
}

#[test]
fn every_algorithm_is_in_its_catalogue() {
    let names = |folder: &str, not: &[&str]| -> BTreeSet<String> {
        sources(&src().join(folder))
            .iter()
            .filter(|p| p.parent().is_some_and(|d| d.ends_with(folder)))
            .map(|p| p.file_stem().unwrap().to_str().unwrap().replace('_', "-"))
            .filter(|n| n != "mod" && !not.contains(&n.as_str()))
            .collect()
    };
    let strategies: BTreeSet<String> =
        trajpress::internals::strategies::ALL.iter().map(|e| e.name.to_owned()).collect();
    assert_eq!(names("strategies", &["extractive", "newest", "writer"]), strategies);
    let triggers: BTreeSet<String> =
        trajpress::internals::triggers::ALL.iter().map(|e| e.name.to_owned()).collect();
    assert_eq!(names("triggers", &[]), triggers);
    let scopes: BTreeSet<String> =
        trajpress::internals::scopes::ALL.iter().map(|e| e.name.to_owned()).collect();
    assert_eq!(names("scopes", &[]), scopes);
    let formats: BTreeSet<String> =
        trajpress::internals::logs::formats::ALL.iter().map(|e| e.name.to_owned()).collect();
    let entries = "const ENTRIES: &[Entry] =";
    let scores =
        sources(&src().join("scores")).into_iter().filter(|path| code(path).contains(entries)).count();
    assert_eq!(scores, trajpress::internals::scores::ALL.len());
    for reader in names("logs/formats", &["reading"]) {
        let known = formats.iter().any(|f| f.contains(&reader) || reader.contains(f.as_str()));
        assert!(known, "reader `{reader}` is not in formats::ALL: {formats:?}");
    }
}

#[test]
fn files_open_with_what_they_do() {
    let silent: Vec<_> =
        sources(&src()).into_iter().filter(|p| !fs::read_to_string(p).unwrap().starts_with("//!")).collect();
    assert!(silent.is_empty(), "files without a `//!` head: {silent:?}");
}

#[test]
fn files_that_texts_name_are_there() {
    let root = src().parent().unwrap().to_owned();
    let docs = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    // What adding.md names is yet to be added.
    let texts =
        docs.filter(|path| path.extension().is_some_and(|e| e == "md") && !path.ends_with("adding.md"));
    let mut gone = Vec::new();
    for path in texts.chain(["ARCHITECTURE.md", "README.md", "CHANGELOG.md"].map(|name| root.join(name))) {
        let text = fs::read_to_string(&path).unwrap();
        for (at, _) in text.match_indices("src/") {
            let name: String =
                text[at..].chars().take_while(|c| c.is_alphanumeric() || "_/.".contains(*c)).collect();
            if name.ends_with(".rs") && !root.join(&name).exists() {
                gone.push(format!("{}: {name}", path.display()));
            }
        }
    }
    assert!(gone.is_empty(), "{gone:#?}");
}

/// Who wants to make a report again finds how before anything else.
#[test]
fn every_report_begins_with_its_command() {
    for folder in
        fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("reports")).unwrap().map(Result::unwrap)
    {
        let path = folder.path().join("README.md");
        let Ok(text) = fs::read_to_string(&path) else { continue };
        let first = text.lines().skip(1).find(|line| !line.trim().is_empty()).unwrap_or("");
        assert!(first.starts_with("```") || first.starts_with("    "), "{}: {first}", path.display());
    }
}
