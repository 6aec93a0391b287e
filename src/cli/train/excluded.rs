//! Repositories that are not learned from.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::Context as _;

use crate::cli::{count, tell};
use crate::files::reach;
use crate::store::TrajectoryRow;

/// One letter of so many may differ from a name that is meant.
const NEAR: usize = 6;

/// The names in a file, one a line.
pub(super) fn names(path: &Path) -> anyhow::Result<BTreeSet<String>> {
    let text = reach::text(path).with_context(|| format!("cannot read {}", path.display()))?;
    let names: BTreeSet<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    anyhow::ensure!(!names.is_empty(), "{} names no repository", path.display());
    Ok(names)
}

/// The repository of a run; of no repository its format.
pub(super) fn group(row: &TrajectoryRow) -> &str {
    row.repository.as_deref().unwrap_or(&row.format)
}

/// Nothing that was to be left out is learned from: a name that fits no repository and looks like one, or a list of which none fits, is
/// an error.
pub(super) fn check(excluded: &BTreeSet<String>, rows: &[TrajectoryRow], quiet: bool) -> anyhow::Result<()> {
    let known: BTreeSet<&str> = rows.iter().map(group).collect();
    let strange: Vec<&String> = excluded.iter().filter(|name| !known.contains(name.as_str())).collect();
    for name in &strange {
        let like = |known: &&&str| {
            strsim::damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase()) <= name.len() / NEAR
        };
        if let Some(like) = known.iter().find(like) {
            anyhow::bail!(
                "`{name}` in --exclude-repos is no repository of these logs\nhint: did you mean `{like}`?"
            );
        }
    }
    anyhow::ensure!(
        excluded.is_empty() || strange.len() < excluded.len(),
        "no repository of these logs is named in --exclude-repos\nhint: one a line, as in `repository` of trajectories.parquet"
    );
    if !excluded.is_empty() && !quiet {
        let n = rows.iter().filter(|row| excluded.contains(group(row))).count();
        let left_out = excluded.len() - strange.len();
        tell(&format!(
            "left out: {} of {}; names that fit none: {}",
            count(n as u64, "log"),
            count(left_out as u64, "repository"),
            strange.len()
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fits_nothing_is_told() {
        let row = |repository: Option<&str>| TrajectoryRow {
            repository: repository.map(str::to_owned),
            format: "codex".into(),
            ..TrajectoryRow::default()
        };
        let rows = [row(Some("django/django")), row(None)];
        let check = |names: &[&str]| {
            let names = names.iter().map(|name| (*name).to_owned()).collect();
            super::check(&names, &rows, true).map_err(|error| error.to_string())
        };
        assert!(check(&[]).is_ok() && check(&["django/django", "a/far-away"]).is_ok());
        assert!(check(&["codex"]).is_ok(), "runs of no repository go by their format");
        let hint = "hint: did you mean `django/django`?";
        assert!(check(&["Django/django", "codex"]).unwrap_err().ends_with(hint));
        assert!(check(&["django/djago"]).unwrap_err().ends_with(hint));
        assert!(check(&["no/such"]).unwrap_err().starts_with("no repository of these logs"));
    }
}
