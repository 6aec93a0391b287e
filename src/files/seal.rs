//! The digest of a table that is written behind a finished run and is no part of it, in a file beside it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::{reach, whole};

/// The file with the digest of a table.
pub fn name_of(table: &str) -> String {
    format!("_{table}.blake3")
}

fn seal(table: &Path) -> PathBuf {
    let name = table.file_name().unwrap_or_default().to_string_lossy();
    table.with_file_name(name_of(&name))
}

fn digest(table: &Path) -> anyhow::Result<String> {
    let file = fs::File::open(table).with_context(|| format!("cannot read {}", table.display()))?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(file).with_context(|| format!("cannot read {}", table.display()))?;
    Ok(hasher.finalize().to_hex().to_string())
}

/// Notes the digest of a table.
pub fn write(table: &Path) -> anyhow::Result<()> {
    whole::replace(&seal(table), digest(table)?.as_bytes())
}

/// Fails where a table is not what was written; one without a digest is taken as it is.
pub fn check(table: &Path) -> anyhow::Result<()> {
    let path = seal(table);
    let Some(noted) = reach::read(&path)? else { return Ok(()) };
    anyhow::ensure!(
        digest(table)?.as_bytes() == noted,
        "{} is not what the run wrote (its digest in {} is another)\nhint: remove both; the same run again makes them",
        table.display(),
        path.display()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_changed_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let table = dir.path().join("a.parquet");
        fs::write(&table, "rows").unwrap();
        check(&table).unwrap();
        write(&table).unwrap();
        check(&table).unwrap();
        fs::write(&table, "rowz").unwrap();
        let error = check(&table).unwrap_err().to_string();
        assert!(
            error.contains("a.parquet is not what the run wrote") && error.contains("_a.parquet.blake3"),
            "{error}"
        );
        write(&table).unwrap();
        check(&table).unwrap();
    }
}
