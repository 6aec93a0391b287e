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
fn each_of_46_products_has_a_preset_or_a_reason() {
    let rows = rows("All 46 policies");
    assert_eq!(rows.len(), 46);
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
    assert!(left.is_empty(), "presets that no row names: {left:?}");
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
