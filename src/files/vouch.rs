//! What a command says of the files that it made, and whether they still are what it says.
//!
//! The record of a stage (`ingest.json`, `annotate.json`) holds the size and the digest of each table under
//! `tables`, and last the digest of itself. Who reads a table checks it first: so a flipped bit, a file of another
//! dataset or a record that is gone is told by name, and never becomes other rows. Knows nothing of what the files hold.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::files::held::Held;
use crate::files::reach;

/// What is known of a file that was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub bytes: u64,
    /// 64 hex digits.
    pub blake3: String,
}

impl Made {
    /// Reads a file, and says what it is.
    pub fn of(path: &Path) -> io::Result<Self> {
        Self::of_open(&Held::open(path)?)
    }

    fn of_open(file: &Held) -> io::Result<Self> {
        let mut hash = blake3::Hasher::new();
        hash.update_reader(file.from(0))?;
        Ok(Made { bytes: hash.count(), blake3: hash.finalize().to_hex().to_string() })
    }
}

/// Files by name.
pub type Tables = BTreeMap<String, Made>;

/// What stands before and behind the digest of a record, at its end.
const SEAL: (&str, &str) = (",\n  \"blake3\": \"", "\"\n}\n");

/// Writes the end of a record, which is an object in lines: the digest of all that stands before it.
pub struct Sealed<W> {
    out: W,
    hash: blake3::Hasher,
}

impl<W: io::Write> Sealed<W> {
    pub fn new(out: W) -> Self {
        Sealed { out, hash: blake3::Hasher::new() }
    }

    /// Closes the object, whose last value was just written.
    pub fn seal(mut self) -> io::Result<W> {
        let digest = self.hash.finalize().to_hex();
        self.out.write_all([SEAL.0, digest.as_str(), SEAL.1].concat().as_bytes())?;
        Ok(self.out)
    }
}

impl<W: io::Write> io::Write for Sealed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let n = self.out.write(bytes)?;
        self.hash.update(&bytes[..n]);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// A record, JSON in lines, with its digest at its end.
///
/// # Errors
/// It is no object with values.
pub fn seal(json: &str) -> anyhow::Result<String> {
    let body = json.trim_end().strip_suffix("\n}").context("a record is an object")?;
    let mut out = Sealed::new(Vec::new());
    io::Write::write_all(&mut out, body.as_bytes())?;
    Ok(String::from_utf8(out.seal()?)?)
}

/// Whether a record is what was written, by the digest at its end.
///
/// # Errors
/// What is wrong, in words.
pub fn sealed(record: &[u8]) -> anyhow::Result<()> {
    let body = record.len().checked_sub(SEAL.0.len() + 64 + SEAL.1.len()).map(|at| record.split_at(at));
    let (body, end) = body.context("it ends early")?;
    let digest = end.strip_prefix(SEAL.0.as_bytes()).and_then(|end| end.strip_suffix(SEAL.1.as_bytes()));
    let digest = digest.context("it has no digest of itself: it was changed, or is of an earlier version")?;
    anyhow::ensure!(digest == blake3::hash(body).to_hex().as_bytes(), "its digest is another");
    Ok(())
}

/// The part of a record that vouches.
#[derive(Deserialize)]
struct Record {
    tables: Option<Tables>,
}

/// Holds files against the record in the same folder, which `command` wrote; gives what the record says.
///
/// # Errors
/// Where the record is missing or broken or does not speak of a file, or a file is another; all name the file.
pub fn check(folder: &Path, record: &str, command: &str, names: &[&str]) -> anyhow::Result<Tables> {
    check_open(folder, record, command, names, &|name| Held::open(&folder.join(name)))
}

/// As [`check`], of files that `open` gives: what is read later is then what was checked.
pub fn check_open(
    folder: &Path,
    record: &str,
    command: &str,
    names: &[&str],
    open: &(dyn Fn(&str) -> io::Result<Held> + Sync),
) -> anyhow::Result<Tables> {
    let path = folder.join(record);
    let again = format!("hint: make it again with `trajpress {command}`");
    let bytes = reach::read(&path)?.with_context(|| {
        format!("{} is missing, which vouches for the tables beside it\n{again}", path.display())
    })?;
    let known: Record = sealed(&bytes)
        .and_then(|()| Ok(serde_json::from_slice(&bytes)?))
        .map_err(|error| anyhow::anyhow!("{} is damaged: {error}\n{again}", path.display()))?;
    let known = known.tables.unwrap_or_default();
    let is_other = |name: &str| -> anyhow::Result<bool> {
        let told = known.get(name).with_context(|| {
            format!(
                "{} does not speak of {name}: it is damaged, or of an earlier version\n{again}",
                path.display()
            )
        })?;
        // The size is told sooner than the digest.
        let is_other = |file: Held| Ok(file.n_bytes()? != told.bytes || Made::of_open(&file)? != *told);
        let read: io::Result<bool> = open(name).and_then(is_other);
        read.with_context(|| format!("cannot read {}", folder.join(name).display()))
    };
    let is_other = |name: &&str| (name.to_string(), is_other(name));
    let checked: Vec<_> = std::thread::scope(|s| {
        let threads: Vec<_> = names.iter().map(|name| s.spawn(move || is_other(name))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    anyhow::ensure!(checked.len() == names.len(), "the check of {} did not end", folder.display());
    for (name, is_other) in checked {
        anyhow::ensure!(
            !is_other?,
            "{} is not what `trajpress {command}` wrote (its digest in {record} is another)\n{again}",
            folder.join(name).display()
        );
    }
    Ok(known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn folder(table: &[u8]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.parquet"), table).unwrap();
        let made = Made::of(&dir.path().join("a.parquet")).unwrap();
        let record = serde_json::json!({ "tables": { "a.parquet": made }, "n": 7 });
        let record = seal(&serde_json::to_string_pretty(&record).unwrap()).unwrap();
        fs::write(dir.path().join("a.json"), record).unwrap();
        dir
    }

    #[test]
    fn any_flipped_bit_is_told_with_the_name_of_the_file() {
        let dir = folder(b"rows");
        let check = || check(dir.path(), "a.json", "make", &["a.parquet"]);
        assert_eq!(check().unwrap()["a.parquet"].bytes, 4);
        for name in ["a.parquet", "a.json"] {
            let path = dir.path().join(name);
            let good = fs::read(&path).unwrap();
            for bit in 0..8 * good.len() {
                let mut bad = good.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                fs::write(&path, bad).unwrap();
                let error = format!("{:#}", check().expect_err(name));
                assert!(error.contains(&dir.path().join("a.").display().to_string()), "{error}");
                assert!(error.contains("hint: "), "{error}");
            }
            fs::write(&path, good).unwrap();
        }
    }

    #[test]
    fn what_is_missing_is_told() {
        let dir = folder(b"rows");
        let error = |names: &[&str]| format!("{:#}", check(dir.path(), "a.json", "make", names).unwrap_err());
        assert!(error(&["b.parquet"]).contains("does not speak of b.parquet"));
        fs::remove_file(dir.path().join("a.parquet")).unwrap();
        assert!(error(&["a.parquet"]).contains("a.parquet"));
        fs::remove_file(dir.path().join("a.json")).unwrap();
        assert!(error(&[]).contains("a.json is missing"));
    }
}
