//! Places that many machines reach: a folder, or an object store. What has a name there keeps it: `create` fails where the name
//! is taken, and that is all that racing processes need.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;

use super::reach;

#[cfg(feature = "cloud")]
mod cloud;

/// A place by its three verbs. Names are parts with `/` between them.
pub trait Place: Send + Sync {
    /// Gives bytes a name that nothing has; false where something has it, which stays.
    fn create(&self, name: &str, bytes: Vec<u8>) -> anyhow::Result<bool>;
    /// None where nothing has the name.
    fn get(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>>;
    /// All names under a folder, in order.
    fn list(&self, folder: &str) -> anyhow::Result<Vec<String>>;
    /// Takes away what writers that died have left without a name: files and bytes. Object stores know no such thing.
    fn sweep(&self) -> anyhow::Result<(u64, u64)> {
        Ok((0, 0))
    }
}

/// The place at a path or a URL.
///
/// # Errors
/// This build knows no such place.
pub fn open(at: &str) -> anyhow::Result<Box<dyn Place>> {
    match at.split_once("://") {
        None => Ok(Box::new(Folder(PathBuf::from(at)))),
        #[cfg(feature = "cloud")]
        Some(_) => Ok(Box::new(cloud::Store::open(at)?)),
        #[cfg(not(feature = "cloud"))]
        Some((scheme, _)) => anyhow::bail!(
            "this build knows no places `{scheme}://`\nhint: build it with `cargo build --release --features cloud`, or name a folder"
        ),
    }
}

/// Refuses a place where a name can be taken twice. Leaves a byte under `_probe`.
///
/// # Errors
/// It is such a place, or cannot be reached.
pub fn probe(place: &dyn Place, at: &str) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let name = format!("_probe/{now}-{}", std::process::id());
    let tried = [place.create(&name, b"1".to_vec())?, place.create(&name, b"2".to_vec())?];
    let there = place.get(&name)?;
    anyhow::ensure!(
        tried == [true, false] && there.as_deref() == Some(b"1"),
        "{at} does not refuse a name that is taken (`If-None-Match: *`), so two workers could overwrite each other\nhint: use a store with conditional writes: S3, GCS, Azure, MinIO of 2024 or later; or a folder"
    );
    Ok(())
}

/// A folder.
struct Folder(PathBuf);

impl Place for Folder {
    fn create(&self, name: &str, bytes: Vec<u8>) -> anyhow::Result<bool> {
        let to = self.0.join(name);
        let cannot = || format!("cannot write {}", to.display());
        let folder = to.parent().context("a name has a folder")?;
        fs::create_dir_all(folder).with_context(cannot)?;
        let mut draft = tempfile::Builder::new().prefix(DRAFT).tempfile_in(folder).with_context(cannot)?;
        draft
            .write_all(&bytes)
            .and_then(|()| readable(draft.as_file()))
            .and_then(|()| draft.as_file().sync_all())
            .with_context(cannot)?;
        match draft.persist_noclobber(&to) {
            Ok(_) => {
                #[cfg(unix)]
                File::open(folder).and_then(|folder| folder.sync_all()).with_context(cannot)?;
                Ok(true)
            }
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            Err(error) => Err(error.error).with_context(cannot),
        }
    }

    fn get(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        reach::read(&self.0.join(name))
    }

    fn list(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let root = self.0.join(folder);
        if !reach::is_there(&root)? {
            return Ok(Vec::new());
        }
        let mut names = Vec::new();
        for entry in walkdir::WalkDir::new(&root).sort_by_file_name() {
            let entry = entry.with_context(|| format!("cannot read {}", root.display()))?;
            if entry.file_type().is_file() && !is_draft(&entry) {
                names.push(name(entry.path().strip_prefix(&self.0)?));
            }
        }
        names.sort();
        Ok(names)
    }

    fn sweep(&self) -> anyhow::Result<(u64, u64)> {
        let (mut files, mut bytes) = (0, 0);
        for entry in walkdir::WalkDir::new(&self.0) {
            let entry = entry.with_context(|| format!("cannot read {}", self.0.display()))?;
            let metadata = entry.metadata()?;
            let is_old = metadata.modified()?.elapsed().is_ok_and(|age| age > ABANDONED);
            if is_draft(&entry) && metadata.is_file() && is_old {
                fs::remove_file(entry.path())
                    .with_context(|| format!("cannot delete {}", entry.path().display()))?;
                files += 1;
                bytes += metadata.len();
            }
        }
        Ok((files, bytes))
    }
}

fn is_draft(entry: &walkdir::DirEntry) -> bool {
    entry.file_name().to_string_lossy().starts_with(DRAFT)
}

const DRAFT: &str = ".draft-";

/// A draft that is older was left by a process that died.
const ABANDONED: Duration = Duration::from_secs(24 * 3600);

/// A path as a name.
pub fn name(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// A draft is for its owner alone; what stands in a place is for all who have the folder.
#[cfg(unix)]
fn readable(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    file.set_permissions(fs::Permissions::from_mode(0o644))
}

#[cfg(not(unix))]
fn readable(_file: &File) -> io::Result<()> {
    Ok(())
}

#[cfg(test)]
pub mod tests;
