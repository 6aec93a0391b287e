//! `RUN/_data.json`: where the data of a run lie, for commands that look at its logs again. It is no part of what a run is: the same
//! run may be made from data in another place, and rows are passed on without it.

use std::path::{Component, Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::files::{reach, whole};
use crate::text::escape;

pub const FILE: &str = "_data.json";

#[derive(Serialize, Deserialize)]
struct Place {
    /// From the folder of the run, so that both can be moved together.
    data: PathBuf,
}

/// Leaves it in the folder of a run.
pub fn write(run: &Path, data: &Path) -> anyhow::Result<()> {
    let whole_path =
        |path: &Path| path.canonicalize().with_context(|| format!("cannot read {}", path.display()));
    let place = Place { data: from(&whole_path(run)?, &whole_path(data)?) };
    let (path, text) = (run.join(FILE), escape::json(&place)?);
    if reach::read(&path)?.is_some_and(|there| there == text.as_bytes()) {
        return Ok(());
    }
    whole::replace(&path, text.as_bytes())
}

/// Where the data of a run are; none where it does not say.
pub fn read(run: &Path) -> anyhow::Result<Option<PathBuf>> {
    let path = run.join(FILE);
    let text = reach::read(&path)?;
    let place = text.map(|text| serde_json::from_slice::<Place>(&text)).transpose();
    Ok(place.with_context(|| format!("{} is damaged", path.display()))?.map(|place| run.join(place.data)))
}

/// The way from one folder to another; both are whole.
fn from(folder: &Path, to: &Path) -> PathBuf {
    let shared = folder.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    // On another drive there is no such way.
    if shared == 0 {
        return to.to_owned();
    }
    let up = folder.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(to.components().skip(shared)).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_way_to_the_data_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (run, data) = (dir.path().join("runs/night"), dir.path().join("data"));
        assert_eq!(read(&run).unwrap(), None);
        fs::create_dir_all(&run).unwrap();
        fs::create_dir_all(&data).unwrap();
        fs::write(run.join("_manifest.json"), "{}").unwrap();
        write(&run, dir.path()).unwrap();
        for _ in 0..2 {
            write(&run, &data).unwrap();
        }
        assert_eq!(read(&run).unwrap().unwrap(), run.join("../../data"));
        // Both are moved.
        let moved = dir.path().join("elsewhere");
        fs::create_dir(&moved).unwrap();
        for name in ["runs", "data"] {
            fs::rename(dir.path().join(name), moved.join(name)).unwrap();
        }
        let there = read(&moved.join("runs/night")).unwrap().unwrap();
        assert_eq!(there.canonicalize().unwrap(), moved.join("data").canonicalize().unwrap());
        fs::write(moved.join("runs/night").join(FILE), "{").unwrap();
        assert!(read(&moved.join("runs/night")).unwrap_err().to_string().contains("_data.json is damaged"));
    }
}
