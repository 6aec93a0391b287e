//! A run whose parts are published in a place that all machines reach, where each has a folder of its own for the rest: nothing
//! need be mounted. The place holds what a run is, its units and their parts, and decides races as the folder does otherwise.
//!
//! A unit is done in the folder, then its tables are given their names in the place, `cells` last. Names are those of the folder.

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::Context as _;

use super::super::manifest;
use super::super::plan::Plan;
use super::super::publish::{Published, Scratch, sha256_of};
use super::super::units::{Unit, listed_parts, part_of};
use super::parts::{digests, tables};
use crate::files::shared::{self, Place, name};
use crate::store::{CellRow, Row as _, UnitRow};

/// The place of a run.
pub struct Shared {
    place: Box<dyn Place>,
    at: String,
}

/// A unit cannot be published, since other bytes stand in the place.
#[derive(Debug)]
pub(super) struct Spoilt {
    at: String,
    list: String,
}

impl fmt::Display for Spoilt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spoilt { at, list } = self;
        write!(
            f,
            "parts of it stand in {at} with other bytes\nhint: remove there those of these names that are there, in this order, and it is done again: {list}"
        )
    }
}

impl std::error::Error for Spoilt {}

/// What became of the tables of a unit in the place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sent {
    /// Whether another process was sooner.
    pub(super) is_late: bool,
    /// Tables that stand there with other bytes, and stay.
    pub(super) differing: usize,
}

impl Shared {
    /// # Errors
    /// This build knows no such place.
    pub fn open(at: &str) -> anyhow::Result<Self> {
        Ok(Shared { place: shared::open(at)?, at: at.to_owned() })
    }

    /// Says in the place what the run of this folder is.
    ///
    /// # Errors
    /// The place lets names be taken twice, or holds another run.
    pub fn begin(&self, out: &Path) -> anyhow::Result<()> {
        shared::probe(&*self.place, &self.at)?;
        for file in files() {
            let bytes = read(&out.join(&file))?;
            if !self.place.create(&file, bytes.clone())? && self.place.get(&file)?.as_ref() != Some(&bytes) {
                anyhow::bail!(
                    "{} holds another run ({file} is another)\nhint: name another place for `--store`",
                    self.at
                );
            }
        }
        Ok(())
    }

    /// Has in the folder what the run is, where it is not there yet.
    ///
    /// # Errors
    /// The place holds no run, or another than the folder.
    pub fn join(&self, out: &Path) -> anyhow::Result<()> {
        let scratch = Scratch::open(&out.join("_scratch"))?;
        for file in files() {
            let there = self.place.get(&file)?.with_context(|| {
                format!("{} holds no run\nhint: `trajpress cluster plan --store` begins one", self.at)
            })?;
            self.keep(&scratch, out, &file, &there)?;
        }
        Ok(())
    }

    /// Takes away what writers that died have left in the place: files and bytes.
    pub(super) fn sweep(&self) -> anyhow::Result<(u64, u64)> {
        self.place.sweep()
    }

    /// Publishes bytes in the folder.
    fn keep(&self, scratch: &Scratch, out: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let to = out.join(name);
        anyhow::ensure!(
            scratch.create(&to, bytes)? != Published::Differs,
            "{} is not what {} holds\nhint: name another folder for `--out`",
            to.display(),
            self.at
        );
        Ok(())
    }

    /// Group and id of the units that are published.
    pub(super) fn published(&self) -> anyhow::Result<HashSet<(String, String)>> {
        let names = self.place.list(&format!("parts/{}", CellRow::TABLE))?;
        Ok(names.iter().filter_map(|name| listed_parts(name)).collect())
    }

    pub(super) fn has(&self, unit: &Unit) -> anyhow::Result<bool> {
        Ok(self.place.get(&part(CellRow::TABLE, &unit.group, &unit.id))?.is_some())
    }

    /// Publishes the parts of a unit that stand in the folder.
    pub(super) fn send(&self, plan: &Plan, out: &Path, unit: &Unit) -> anyhow::Result<Sent> {
        let mut sent = Sent::default();
        let names = parts(plan, &unit.group, &unit.id);
        for (at, name) in names.iter().enumerate() {
            // Other bytes of a unit that nobody has published: with its `cells` it could never be merged.
            if sent.differing > 0 && at + 1 == names.len() && !self.has(unit)? {
                let list: Vec<&str> = names.iter().rev().map(String::as_str).collect();
                let (at, list) = (self.at.clone(), list.join(", "));
                return Err(Spoilt { at, list }.into());
            }
            let bytes = read(&out.join(name))?;
            sent.is_late = !self.place.create(name, bytes.clone())?;
            if sent.is_late && self.place.get(name)?.as_ref() != Some(&bytes) {
                tracing::warn!("NONDETERMINISTIC: {name} stands in {} with other bytes, which stay", self.at);
                sent.differing += 1;
            }
        }
        Ok(sent)
    }

    /// Has in the folder all parts that are published and not there yet, but of units that are damaged in the place, which are told.
    ///
    /// # Errors
    /// The folder holds other bytes.
    pub fn fetch(&self, out: &Path) -> anyhow::Result<()> {
        let published = self.published()?;
        let mut units: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
        for name in self.place.list("parts")? {
            if let Some(unit) = listed_parts(&name).filter(|unit| published.contains(unit)) {
                units.entry(unit).or_default().push(name);
            }
        }
        let scratch = Scratch::open(&out.join("_scratch"))?;
        for ((group, id), mut names) in units {
            if names.iter().all(|name| out.join(name).exists()) {
                continue;
            }
            // `cells` last: without it a unit is not there.
            names.sort_by_key(|name| *name == part(CellRow::TABLE, &group, &id));
            let get = |name: &String| {
                let bytes = self.place.get(name)?.with_context(|| format!("{} lacks {name}", self.at))?;
                Ok((name.clone(), bytes))
            };
            let parts = names.iter().map(get).collect::<anyhow::Result<Vec<(String, Vec<u8>)>>>()?;
            if !is_sound(&parts, &group, &id) {
                let list: Vec<&str> = names.iter().rev().map(String::as_str).collect();
                tracing::warn!(
                    "DAMAGED: parts of unit {id} in {} are not what was published\nhint: remove them there, in this order, and the unit is left and done again: {}",
                    self.at,
                    list.join(", ")
                );
                continue;
            }
            for (name, bytes) in &parts {
                self.keep(&scratch, out, name, bytes)?;
            }
        }
        Ok(())
    }
}

/// Whether the parts of a unit have the digests that stand beside them, and none is missing.
fn is_sound(parts: &[(String, Vec<u8>)], group: &str, id: &str) -> bool {
    let of = |name: &str| parts.iter().find(|(part, _)| part == name).map(|(_, bytes)| bytes);
    let known: Option<BTreeMap<String, String>> =
        of(&name(&digests(Path::new(""), group, id))).and_then(|text| serde_json::from_slice(text).ok());
    known.is_some_and(|known| {
        known.len() + 1 == parts.len()
            && known.iter().all(|(table, digest)| {
                of(&part(table, group, id)).is_some_and(|bytes| sha256_of(bytes) == *digest)
            })
    })
}

fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// What says what a run is.
fn files() -> [String; 2] {
    [manifest::FILE.to_owned(), format!("{}.parquet", UnitRow::TABLE)]
}

fn part(table: &str, group: &str, id: &str) -> String {
    name(&part_of(Path::new(""), table, group, id))
}

/// All that is published of a unit, in that order: the digests stand before `cells`.
fn parts(plan: &Plan, group: &str, id: &str) -> Vec<String> {
    let mut names: Vec<String> = tables(plan).map(|table| part(table, group, id)).collect();
    let last = names.len() - 1;
    names.insert(last, name(&digests(Path::new(""), group, id)));
    names
}
