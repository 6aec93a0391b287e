//! The tables of docs/presets.md that say what there is for which product, and for which mechanism.

use super::*;

/// The rows of the table below a heading, as cells.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/presets.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (_, part) = page.split_once(&format!("\n## {heading}\n")).expect("the page has the heading");
    let part = part.split("\n## ").next().unwrap_or_default();
    let rows = part.lines().filter(|line| line.starts_with("| ")).skip(1);
    rows.map(|row| row.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect()).collect()
}

/// What stands between backticks.
fn named(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn each_product_has_a_preset_or_a_reason() {
    let rows = rows("All policies");
    assert!(rows.len() >= 46, "rows are missing");
    let mut left: Vec<&str> = all().iter().map(|preset| preset.name.as_str()).collect();
    // The text that this project began with is no product.
    left.retain(|name| *name != "seed-hybrid");
    for row in &rows {
        let [_, _, presets, why] = &row[..] else { panic!("a row of another form: {row:?}") };
        for name in named(presets) {
            find(name).unwrap();
            left.retain(|other| other != &name);
        }
        assert!(named(presets).next().is_some() || !why.is_empty(), "neither preset nor reason: {row:?}");
    }
    assert!(left.is_empty(), "add a row to `All policies` in docs/presets.md for {left:?}");
}

#[test]
fn each_mechanism_is_a_parameter() {
    let rows = rows("Mechanisms");
    assert!(rows.len() > 25, "{}", rows.len());
    let has = |params: &[Param], name: &str| params.iter().any(|param| param.name == name);
    for row in &rows {
        for name in named(&row[1]) {
            let known = match name.split_once('.') {
                Some(("limits", param)) => {
                    triggers::ALL.iter().any(|e| e.name == "limits" && has(e.params, param))
                }
                Some(("stage", param)) => ["repeat", "down_to", "give_up", "anew"].contains(&param),
                Some(("policy", param)) => {
                    ["window", "reserve", "head", "counter", "lengths", "parts_pairs"].contains(&param)
                }
                Some((owner, param)) => {
                    scopes::ALL.iter().any(|e| e.name == owner && has(e.params, param))
                        || strategies::ALL.iter().any(|e| e.name == owner && has(e.params, param))
                }
                None => {
                    scopes::ALL.iter().any(|e| e.name == name)
                        || strategies::ALL.iter().any(|e| e.name == name)
                }
            };
            assert!(known, "{name} is no parameter");
        }
        for name in named(&row[2]) {
            find(name).unwrap();
        }
    }
}

/// The sentence of docs/presets.md, and its counts by recording.
#[test]
fn the_page_has_the_counts_of_the_recordings() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/presets.md");
    let page = std::fs::read_to_string(path).unwrap();
    let recorded: Vec<&Preset> = all().iter().filter(|preset| !preset.recordings.is_empty()).collect();
    let n_held = recorded.iter().filter(|preset| preset.is_held()).count();
    let told = format!("{} presets have recordings, and {n_held} are held by this rule.", recorded.len());
    assert!(page.contains(&told), "the page does not say: {told}");
    assert!(n_held >= 27);
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.contains(" 0:"));
    let rows: String = rows.collect::<Vec<_>>().join("\n").replace(" / ", ", ");
    for (name, held) in recorded.iter().flat_map(|preset| preset.recorded()) {
        let Held { lists, fired, twice, equal, .. } = held;
        let told = format!("{name}: {lists}, {fired}, {twice}, {equal}");
        assert!(rows.contains(&told), "the page does not say: {told}");
    }
    for preset in &recorded {
        assert_eq!(
            preset.recorded().count(),
            preset.recordings.len(),
            "{}: recordings without a test",
            preset.name
        );
    }
}

/// Compares a part of the page with what it should be; with `UPDATE_DOCS=1` writes it.
fn hold(heading: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/presets.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let begin =
        page.find(&format!("\n## {heading}\n")).expect("the page has the heading") + heading.len() + 5;
    let end = page[begin..].find("\n## ").map_or(page.len(), |end| begin + end);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, format!("{}\n{text}{}", &page[..begin], &page[end..])).unwrap();
        return;
    }
    assert_eq!(page[begin..end].trim(), text.trim(), "docs/presets.md, {heading}\nhint: UPDATE_DOCS=1");
}

/// The counts of the recordings of each library that presets are held to, and why lists differ.
#[test]
fn the_page_counts_by_library() {
    let mut libraries: BTreeMap<String, (Vec<&str>, Held)> = BTreeMap::new();
    for (name, held) in all().iter().flat_map(|preset| preset.recorded()) {
        let recording = unpacked(&folder().join(format!("recordings/{name}.jsonl.zst")));
        let head: Json = serde_json::from_str(recording.lines().next().unwrap()).unwrap();
        let (names, sum) = libraries.entry(head["package"].as_str().unwrap().to_owned()).or_default();
        names.push(name);
        sum.lists += held.lists;
        sum.fired += held.fired;
        sum.twice += held.twice;
        sum.equal += held.equal;
        sum.texts += held.texts;
        sum.same_texts += held.same_texts;
        if !held.why.is_empty() {
            sum.why += &format!("{}{name}: {}", if sum.why.is_empty() { "" } else { "<br>" }, held.why);
        }
    }
    let mut text = "Recordings that a preset is compared with, summed; texts are notes and rewritten results of lists that are equal, where no \
        summariser has a word.\n\n| Library | Recordings | Lists | Fired | Twice | Equal | % | Texts | The same | Why lists differ |\n\
        |---|--:|--:|--:|--:|--:|--:|--:|--:|---|\n"
        .to_owned();
    for (library, (names, sum)) in &libraries {
        let Held { lists, fired, twice, equal, texts, same_texts, why } = sum;
        let share = 100.0 * *equal as f64 / *lists as f64;
        let (texts, same) = match texts {
            0 => (String::new(), String::new()),
            _ => (texts.to_string(), same_texts.to_string()),
        };
        let n = names.len();
        text += &format!(
            "| {library} | {n} | {lists} | {fired} | {twice} | {equal} | {share:.1} | {texts} | {same} | {why} |\n"
        );
    }
    hold("By library", &text);
}

/// Constants of presets that each of their recordings sets to another value: no recording says that they are right.
#[test]
fn the_page_names_the_constants_that_were_read_alone() {
    let cases = cases();
    let mut text = "Recordings have small limits, so that short lists reach them. These constants of presets with recordings are set to another value \
        in each of them: how they work is held, their value was read in the source.\n\n| Preset | Constants |\n|---|---|\n"
        .to_owned();
    let (mut n, mut n_all) = (0, 0);
    for preset in all().iter().filter(|preset| preset.recorded().count() > 0) {
        let of: Vec<&Case> = preset.recorded().map(|(name, _)| &cases[name]).collect();
        let mut read = Vec::new();
        for (at, stage) in preset.policy.stages.iter().enumerate() {
            for (part, table) in
                [("trigger", &stage.trigger), ("scope", &stage.scope), ("strategy", &stage.strategy)]
            {
                for (key, value) in table.iter().filter(|(_, value)| value.is_integer() || value.is_float()) {
                    let keys = [format!("{part}.{key}"), format!("{}.{part}.{key}", at + 1)];
                    let is_set = |case: &&Case| {
                        keys.iter().any(|key| case.set.get(key).is_some_and(|set| set != value))
                    };
                    n_all += 1;
                    if of.iter().all(is_set) {
                        read.push(format!("`{}` = {value}", keys[0]));
                    }
                }
            }
        }
        if of.iter().all(|case| case.counter.is_some()) {
            read.push("`counter`".to_owned());
        }
        n += read.len();
        read.dedup();
        if !read.is_empty() {
            text += &format!("| `{}` | {} |\n", preset.name, read.join(", "));
        }
    }
    text += &format!("\nThat is {n}, counters included; {n_all} constants are in these presets in all.\n");
    hold("Constants that were read alone", &text);
}
