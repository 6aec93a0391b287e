//! What a dataset says of the files that it was read from, and what of that holds still.
//!
//! A file is known by its content: its digest stands in the record, so that it is not read again. A file that has grown or
//! changed is read again whole. So is one that depends on it: what repeats a run of it, and sessions that begin like it.
//! What is no log is looked at again whenever something else has changed, since that costs next to nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::File;
use std::path::Path;

use anyhow::Context as _;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::files::{reach, vouch};
use crate::logs::formats::{self, reading::names};
use crate::store;
use crate::text::redact::Tally;

use super::database;
use super::input::Input;
use super::report::{Before, Report};

/// The files of a dataset.
pub(super) const TABLES: [&str; 4] =
    ["trajectories.parquet", "steps.parquet", "rejects.jsonl", "ingest.json"];

/// One file in `ingest.json`.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct FileRecord {
    pub(super) path: String,
    pub(super) format: String,
    /// Hash of what stands in it, and in the files that are read with it; empty if the machine could not read them, so that
    /// they are read again.
    pub(super) digest: String,
    /// Hash of where it stands.
    pub(super) place: String,
    /// What a session and its copies have in common.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<String>,
    pub(super) trajectories: u64,
    pub(super) duplicates: u64,
    pub(super) steps: u64,
    pub(super) bytes: u64,
    pub(super) stored_bytes: u64,
    pub(super) text_bytes: u64,
    pub(super) rejects: u64,
    /// Files that hold the runs which are duplicates here.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub(super) repeats: BTreeSet<String>,
    /// Of runs that the file's name names: what is the same under any name, by id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) log_ids: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Tally::is_empty")]
    pub(super) redacted: Tally,
    pub(super) losses: BTreeMap<String, u64>,
    pub(super) fields_mapped: BTreeMap<String, u64>,
    pub(super) fields_dropped: BTreeMap<String, u64>,
    /// The file that it was read with, whose record stands before this one and says all else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) part_of: Option<String>,
    /// The machine could not read all of it this time.
    #[serde(skip)]
    pub(super) is_unread: bool,
    /// Files that were read with it; each has a record of its own behind this one.
    #[serde(skip)]
    pub(super) parts: Vec<String>,
}

impl FileRecord {
    /// The record of a file of which nothing was read yet.
    pub(super) fn of(input: &Input, origin: Option<u128>) -> Self {
        FileRecord {
            path: input.name.clone(),
            digest: input.digest.map(hex).unwrap_or_default(),
            place: hex(input.place),
            origin: origin.map(hex),
            stored_bytes: input.n_stored(),
            parts: input.parts.iter().map(|part| part.name.clone()).collect(),
            ..FileRecord::default()
        }
    }

    /// With those that were read with it.
    pub(super) fn n_files(&self) -> u64 {
        1 + self.parts.len() as u64
    }

    /// Whether it was read as a log, and gave a run.
    fn is_log(&self) -> bool {
        self.trajectories + self.duplicates > 0 && formats::ALL.iter().any(|e| e.name == self.format)
    }
}

pub(super) fn hex(n: u128) -> String {
    format!("{n:032x}")
}

/// A `source_key`, hashed.
pub(super) fn key(text: &str) -> u128 {
    short(blake3::hash(text.as_bytes()))
}

pub(super) fn short(hash: blake3::Hash) -> u128 {
    let (half, _) = hash.as_bytes().split_first_chunk().expect("a hash has 32 bytes");
    u128::from_be_bytes(*half)
}

/// Says of each file what stands in it, and where it stands.
pub(super) fn mark(inputs: &mut [Input], threads: usize) -> anyhow::Result<()> {
    let pool =
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().context("cannot start threads")?;
    pool.install(|| {
        inputs.par_iter_mut().for_each(|input| {
            input.place = place(&input.path);
            input.parts.iter_mut().for_each(|part| part.place = place(&part.path));
            // What cannot be read is told where it is read.
            input.digest = input.problem.is_none().then(|| digest(input).ok()).flatten();
        });
    });
    Ok(())
}

fn place(path: &Path) -> u128 {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    short(blake3::hash(path.as_os_str().as_encoded_bytes()))
}

/// The hash of a file and of all that is read with it.
fn digest(input: &Input) -> std::io::Result<u128> {
    let first = hash_of(File::open(&input.path)?)?;
    let mut all = blake3::Hasher::new();
    all.update(first.as_bytes());
    let mut n_files = 1;
    let mut add = |path: &Path, file: File| -> std::io::Result<()> {
        n_files += 1;
        all.update(path.file_name().unwrap_or_default().as_encoded_bytes());
        all.update(hash_of(file)?.as_bytes());
        Ok(())
    };
    let beside = database::READ_BESIDE.map(|ending| database::beside(&input.path, ending));
    let is_beside = |path: &Path| database::BESIDE.iter().any(|e| *path == database::beside(&input.path, e));
    for part in input.parts.iter().filter(|part| !is_beside(&part.path)) {
        add(&part.path, File::open(&part.path)?)?;
    }
    // What a database has there is read with it also where it was not found as a file of its own.
    for path in &beside {
        match File::open(path) {
            Ok(file) => add(path, file)?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(short(if n_files == 1 { first } else { all.finalize() }))
}

fn hash_of(file: File) -> std::io::Result<blake3::Hash> {
    Ok(blake3::Hasher::new().update_reader(file)?.finalize())
}

/// What becomes of a file of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is there unchanged: the input of this number.
    Stays(usize),
    /// It is not there any more, and its runs stay.
    Gone,
    /// What was read of it goes.
    Goes,
}

/// A file of the record.
pub(super) struct KnownFile {
    /// All that the record says.
    pub(super) about: Box<RawValue>,
    pub(super) name: String,
    pub(super) origin: Option<u128>,
    pub(super) n_trajectories: u64,
    pub(super) n_duplicates: u64,
    pub(super) n_rejects: u64,
    pub(super) log_ids: BTreeMap<String, String>,
    pub(super) parts: Vec<String>,
    pub(super) fate: Fate,
    place: u128,
    digest: Option<u128>,
    is_log: bool,
    repeats: BTreeSet<String>,
}

impl KnownFile {
    /// The files of a record, each with those that were read with it.
    fn parse_all(records: Vec<Box<RawValue>>) -> anyhow::Result<Vec<Self>> {
        let mut files: Vec<Self> = Vec::new();
        for about in records {
            let file: FileRecord = serde_json::from_str(about.get())?;
            match &file.part_of {
                Some(_) => files.last_mut().context("a part stands behind its file")?.parts.push(file.path),
                None => files.push(Self::of(file, about)?),
            }
        }
        Ok(files)
    }

    fn of(file: FileRecord, about: Box<RawValue>) -> anyhow::Result<Self> {
        let number = |text: &str| u128::from_str_radix(text, 16).context("a digest is a hex number");
        Ok(KnownFile {
            is_log: file.is_log(),
            about,
            origin: file.origin.as_deref().map(number).transpose()?,
            n_trajectories: file.trajectories,
            n_duplicates: file.duplicates,
            n_rejects: file.rejects,
            log_ids: file.log_ids,
            parts: Vec::new(),
            fate: Fate::Gone,
            place: number(&file.place)?,
            digest: (!file.digest.is_empty()).then(|| number(&file.digest)).transpose()?,
            repeats: file.repeats,
            name: file.path,
        })
    }

    /// With those that were read with it.
    pub(super) fn n_files(&self) -> u64 {
        1 + self.parts.len() as u64
    }
}

/// A dataset that is there, and what is to be read beside it.
#[derive(Default)]
pub(super) struct Known {
    pub(super) report: Report,
    pub(super) files: Vec<KnownFile>,
}

#[derive(Deserialize)]
struct Files {
    by_file: Vec<Box<RawValue>>,
}

impl Known {
    /// The dataset in a folder, if there is a finished one.
    ///
    /// # Errors
    /// It is damaged, or another version wrote it.
    pub(super) fn load(dir: &Path) -> anyhow::Result<Option<Self>> {
        let Some(text) = reach::read(&dir.join("ingest.json"))? else { return Ok(None) };
        let again = format!("ingest LOGS --fresh --out {}", dir.display());
        let tables: Vec<&str> = TABLES.into_iter().filter(|name| *name != "ingest.json").collect();
        vouch::check(dir, "ingest.json", &again, &tables)?;
        let other = || {
            let dir = dir.display();
            format!(
                "the dataset in {dir} is of another version\nhint: make it again with `trajpress {again}`"
            )
        };
        let report: Report = serde_json::from_slice(&text).with_context(other)?;
        anyhow::ensure!(report.schema_version == store::SCHEMA_VERSION, other());
        let files: Files = serde_json::from_slice(&text).with_context(other)?;
        let files = KnownFile::parse_all(files.by_file).with_context(other)?;
        let n: u64 = files.iter().map(|file| file.n_trajectories).sum();
        anyhow::ensure!(n == report.trajectories, other());
        Ok(Some(Known { report, files }))
    }

    /// Decides what becomes of each file, and gives the numbers of the inputs that are to be read. `keeps_gone`: runs of
    /// files that are not there stay. `is_alike`: files would be read now as they were then.
    pub(super) fn compare(&mut self, inputs: &[Input], keeps_gone: bool, is_alike: bool) -> BTreeSet<usize> {
        let here: HashSet<u128> = inputs.iter().map(|input| input.place).collect();
        let parts: HashSet<u128> =
            inputs.iter().flat_map(|input| &input.parts).map(|part| part.place).collect();
        let by_place: HashMap<u128, usize> =
            self.files.iter().enumerate().map(|(k, f)| (f.place, k)).collect();
        // The name of a file may name its runs.
        let mut moved: HashMap<(u128, String), usize> = HashMap::new();
        for (k, file) in self.files.iter_mut().enumerate() {
            // What is read with another file now has no runs of its own any more.
            let is_kept = keeps_gone && file.is_log && !parts.contains(&file.place);
            file.fate = if is_kept { Fate::Gone } else { Fate::Goes };
            let digest = file.digest.filter(|_| !here.contains(&file.place));
            if let (Some(digest), Some(session)) = (digest, names::session(&file.name)) {
                moved.insert((digest, session), k);
            }
        }
        let mut read = BTreeSet::new();
        for (i, input) in inputs.iter().enumerate() {
            let known = match (by_place.get(&input.place), input.digest) {
                // What was read of a file that cannot be read any more stays as if it were gone.
                (Some(&k), None) if self.files[k].fate == Fate::Gone => continue,
                (Some(&k), digest) => {
                    self.files[k].fate = Fate::Goes;
                    (self.files[k].digest == digest).then_some(k)
                }
                (None, Some(digest)) => {
                    names::session(&input.name).and_then(|session| moved.remove(&(digest, session)))
                }
                (None, None) => None,
            };
            match known.filter(|_| is_alike) {
                Some(k) => self.files[k].fate = Fate::Stays(i),
                None => drop(read.insert(i)),
            }
        }
        read
    }

    /// The report of a dataset to which nothing is added.
    pub(super) fn unchanged(self) -> Report {
        let n = |is: fn(&Fate) -> bool| {
            self.files.iter().filter(|file| is(&file.fate)).map(KnownFile::n_files).sum()
        };
        let before = Before {
            is_same: true,
            n_known: n(|fate| matches!(fate, Fate::Stays(_))),
            n_gone: n(|fate| *fate == Fate::Gone),
            ..Before::default()
        };
        Report { before: Some(before), ..self.report }
    }

    /// Whether all is as the record says.
    pub(super) fn is_same(&self, inputs: &[Input], read: &BTreeSet<usize>) -> bool {
        let is_same = |file: &KnownFile| match file.fate {
            Fate::Stays(i) => inputs[i].place == file.place,
            Fate::Gone => true,
            Fate::Goes => false,
        };
        read.is_empty() && self.files.iter().all(is_same)
    }

    /// Adds the files that depend on what is read; `origin` is that of an input.
    pub(super) fn add_dependent(
        &mut self,
        read: &mut BTreeSet<usize>,
        origin: impl Fn(usize) -> Option<u128>,
    ) {
        let (mut names, mut origins) = (HashSet::new(), HashSet::new());
        origins.extend(read.iter().filter_map(|&i| origin(i)));
        let mut is_first = true;
        loop {
            for file in self.files.iter().filter(|file| file.fate == Fate::Goes && file.is_log) {
                names.insert(file.name.clone());
                origins.extend(file.origin);
            }
            let mut is_changed = false;
            for file in &mut self.files {
                let Fate::Stays(i) = file.fate else { continue };
                let is_like = file.origin.is_some_and(|origin| origins.contains(&origin));
                if is_like
                    || file.repeats.iter().any(|name| names.contains(name))
                    || (is_first && !file.is_log)
                {
                    file.fate = Fate::Goes;
                    read.insert(i);
                    is_changed = true;
                }
            }
            is_first = false;
            if !is_changed {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::detect;
    use crate::logs::{input, parts};

    #[test]
    fn a_database_is_known_with_the_rows_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let write = |name: &str, bytes: &[u8]| std::fs::write(path(name), bytes).unwrap();
        write("a.db", &[detect::SQLITE, &[0; 84]].concat());
        let digest = |root: &str| {
            let mut inputs = parts::joined(input::find(&[path(root)]).unwrap());
            mark(&mut inputs, 1).unwrap();
            assert_eq!(inputs.len(), 1);
            inputs[0].digest.unwrap()
        };
        let mut seen = BTreeSet::from([digest("")]);
        let changes: [(&str, &[u8]); 4] =
            [("a.db-wal", b"1"), ("a.db-wal", b"2"), ("a.db-journal", b"2"), ("a.db", detect::SQLITE)];
        for (name, bytes) in changes {
            write(name, bytes);
            assert!(seen.insert(digest("")), "{name}");
            assert_eq!(digest("a.db"), digest(""), "also where it is named alone");
        }
        write("a.db-shm", b"whoever looks writes here");
        assert!(!seen.insert(digest("")));
    }
}
