//! Functions and files are short.

use super::*;

/// Most lines of a function.
const LONGEST: usize = 80;

/// The functions of a text that are longer, by name. The text is formatted: a function ends where its indent closes.
fn long_functions(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (i, line) in lines.iter().enumerate() {
        let item = line.trim_start();
        let words: Vec<&str> = item.split(['(', ')', '<', ' ']).filter(|word| !word.is_empty()).collect();
        let is_before = |word: &&&str| ["pub", "crate", "super", "const", "async", "unsafe"].contains(*word);
        let n_before = words.iter().take_while(is_before).count();
        let [Some("fn"), Some(name)] =
            [words.get(n_before), words.get(n_before + 1)].map(|word| word.copied())
        else {
            continue;
        };
        // One of a trait may have no body.
        let opens = lines[i..].iter().find(|line| line.ends_with(['{', ';', '}']));
        let end = format!("{}}}", &line[..line.len() - item.len()]);
        let n = lines[i..].iter().position(|line| *line == end).map_or(0, |n| n + 1);
        if n > LONGEST && opens.is_some_and(|line| line.ends_with('{')) {
            found.push(format!("{name} ({n} lines)"));
        }
    }
    found
}

#[test]
fn no_function_is_longer_than_eighty_lines() {
    let long =
        format!("fn short() {{}}\n    pub(super) fn long<T>() {{\n{}    }}\n", "        a();\n".repeat(79));
    assert_eq!(long_functions(&long), ["long (81 lines)"]);
    let mut wrong = Vec::new();
    for path in sources(&src()) {
        let long = long_functions(&fs::read_to_string(&path).unwrap());
        wrong.extend(long.into_iter().map(|function| format!("{}: {function}", path.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Files over 500 lines, eight at most, each with its reason. A file that has become shorter leaves the list.
const LARGE: &[(&str, &str)] = &[
    ("experiment/plan/tests.rs", "tests, a section a key of the plan"),
    ("experiment/run/tests.rs", "tests of kills, shards and damage, which share one run"),
    ("policies/tests.rs", "tests of presets beside real libraries"),
    ("replay/shadow.rs", "matched shadows of both kinds, which share their draws"),
    ("replay/tests.rs", "tests of the replay, decision by decision"),
    ("strategies/mod.rs", "the trait, what it is handed, and the catalogue"),
    ("strategies/tests/edge_cases.rs", "tests, a case each"),
];

#[test]
fn few_files_are_over_five_hundred_lines() {
    let tests = src().parent().unwrap().join("tests");
    let large: BTreeSet<String> = [src(), tests]
        .iter()
        .flat_map(|root| sources(root).into_iter().map(move |path| (root, path)))
        .filter(|(_, path)| fs::read_to_string(path).unwrap().lines().count() > 500)
        .map(|(root, path)| path.strip_prefix(root).unwrap().display().to_string())
        .collect();
    assert!(LARGE.len() <= 8, "more than eight large files");
    let known: BTreeSet<String> = LARGE.iter().map(|(path, _)| (*path).to_owned()).collect();
    let new: Vec<_> = large.difference(&known).collect();
    assert!(new.is_empty(), "cut these where their sentences end: {new:?}");
    let gone: Vec<_> = known.difference(&large).collect();
    assert!(gone.is_empty(), "no longer over 500 lines, so take them off the list: {gone:?}");
}
