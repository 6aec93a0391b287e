//! Files that appear whole or not at all, and never change once they are there.
//!
//! A file is written to scratch, synced, and linked to its final name, which fails if the name is
//! taken: so any number of processes may do the same work, and the first one to finish wins. A lost
//! race is a success; only when the bytes differ is something wrong, and that is told.
//! Knows nothing of what the files hold.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use sha2::{Digest as _, Sha256};

/// Scratch of an unknown process is left alone for so long.
const ABANDONED: Duration = Duration::from_secs(7 * 24 * 3600);

/// What became of a file that was to be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Published {
    /// It is there now.
    New,
    /// The same bytes were there already.
    LostRace,
    /// Other bytes were there already, and stay.
    Differs,
}

/// Digest and size of a file, streamed.
pub fn sha256(path: &Path) -> anyhow::Result<(String, u64)> {
    File::open(path).and_then(digest).with_context(|| format!("cannot read {}", path.display()))
}

/// Digest and size of what is left to read, streamed.
pub fn digest(mut file: impl Read) -> io::Result<(String, u64)> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    let mut bytes = 0;
    loop {
        let n = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(e),
        };
        hash.update(&buffer[..n]);
        bytes += n as u64;
    }
    Ok((hex(&hash.finalize()), bytes))
}

/// Digest of bytes in memory.
pub fn sha256_of(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A folder of this process alone, for files that are not published yet; removed at the end.
pub struct Scratch {
    dir: PathBuf,
    next: AtomicU64,
}

impl Scratch {
    /// Makes the folder under `root`, removes what dead processes left there, and refuses a file
    /// system that cannot publish.
    pub fn open(root: &Path) -> anyhow::Result<Self> {
        fs::create_dir_all(root).with_context(|| format!("cannot make {}", root.display()))?;
        let place = place();
        remove_abandoned(root, place.as_deref());
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        let place = place.as_deref().unwrap_or("unknown");
        // The address tells apart two runs in one process (tests do that).
        let next = AtomicU64::new(0);
        let nonce = blake3::hash(format!("{now} {:p}", &next).as_bytes()).to_hex();
        let dir = root.join(format!("{place}-{}-{}", std::process::id(), &nonce[..12]));
        fs::create_dir(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let scratch = Scratch { dir, next };
        scratch.probe()?;
        Ok(scratch)
    }

    /// A name for a file that this process may write.
    pub fn path(&self, name: &str) -> PathBuf {
        let n = self.next.fetch_add(1, Ordering::Relaxed);
        self.dir.join(format!("{n}.{name}"))
    }

    /// Publishes bytes.
    pub fn create(&self, to: &Path, bytes: &[u8]) -> anyhow::Result<Published> {
        let from = self.path("bytes");
        let write = || {
            let mut file = File::create(&from)?;
            file.write_all(bytes)?;
            file.sync_all()
        };
        write().with_context(|| format!("cannot write {}", from.display()))?;
        publish(&from, to)
    }

    fn probe(&self) -> anyhow::Result<()> {
        let (one, two) = (self.path("probe"), self.path("probe"));
        File::create(&one).with_context(|| format!("cannot write {}", one.display()))?;
        let test = || {
            fs::hard_link(&one, &two)?;
            match fs::hard_link(&one, &two) {
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                Err(e) => Err(e),
                Ok(()) => Err(io::Error::other("a link replaced a file")),
            }
        };
        test().with_context(|| {
            format!(
                "cannot publish safely under {}: its file system has no hard links, which fail when the name is taken\nhint: put the run on a local disk",
                self.dir.display()
            )
        })?;
        fs::remove_file(&one).and_then(|()| fs::remove_file(&two))?;
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays is removed by a later run.
        let _ = fs::remove_dir_all(&self.dir);
    }
}

/// Gives a finished, synced file its final name, unless the name is taken; `from` is gone then.
pub fn publish(from: &Path, to: &Path) -> anyhow::Result<Published> {
    let folder = to.parent().context("a published file has a folder")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let published = match fs::hard_link(from, to) {
        Ok(()) => {
            sync_dir(folder)?;
            Published::New
        }
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => match sha256(from)? == sha256(to)? {
            true => Published::LostRace,
            false => Published::Differs,
        },
        Err(e) => return Err(e).with_context(|| format!("cannot write {}", to.display())),
    };
    fs::remove_file(from).with_context(|| format!("cannot remove {}", from.display()))?;
    Ok(published)
}

/// Gives a finished, synced file its final name in place of what is there.
pub fn replace(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to).with_context(|| format!("cannot write {}", to.display()))?;
    match to.parent() {
        Some(folder) => sync_dir(folder),
        None => Ok(()),
    }
}

#[cfg(unix)]
fn sync_dir(folder: &Path) -> anyhow::Result<()> {
    File::open(folder).and_then(|f| f.sync_all()).with_context(|| format!("cannot sync {}", folder.display()))
}

/// Elsewhere a folder cannot be opened; its file system orders the entries itself.
#[cfg(not(unix))]
fn sync_dir(_folder: &Path) -> anyhow::Result<()> {
    Ok(())
}

/// Where process ids mean what they mean here: this boot of this machine, this pid namespace.
/// Host names would not do, since containers share them.
fn place() -> Option<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = fs::read_link("/proc/self/ns/pid").ok()?;
    let both = format!("{} {}", boot.trim(), namespace.display());
    Some(blake3::hash(both.as_bytes()).to_hex()[..12].to_owned())
}

/// Removes the scratch of processes that are surely gone. Failing to is no harm.
fn remove_abandoned(root: &Path, place: Option<&str>) {
    let Ok(entries) = fs::read_dir(root) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let mut parts = name.split('-');
        let here = place.is_some() && parts.next() == place;
        let pid = parts.next().and_then(|p| p.parse::<u32>().ok());
        let dead = here && pid.is_some_and(|p| !Path::new(&format!("/proc/{p}")).exists());
        let age = entry.metadata().and_then(|m| m.modified()).ok().and_then(|t| t.elapsed().ok());
        if dead || age.is_some_and(|age| age > ABANDONED) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_wins_and_a_difference_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(&dir.path().join("s")).unwrap();
        let to = dir.path().join("deep/er/x");
        assert_eq!(scratch.create(&to, b"one").unwrap(), Published::New);
        assert_eq!(scratch.create(&to, b"one").unwrap(), Published::LostRace);
        assert_eq!(scratch.create(&to, b"two").unwrap(), Published::Differs);
        assert_eq!(fs::read(&to).unwrap(), b"one");
        assert_eq!(sha256(&to).unwrap(), (sha256_of(b"one"), 3));
        assert_eq!(fs::read_dir(&scratch.dir).unwrap().count(), 0);
    }

    #[test]
    fn racing_threads_publish_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("s");
        for round in 0..50 {
            let to = dir.path().join(format!("{round}"));
            let mut got: Vec<Published> = std::thread::scope(|s| {
                let one = || Scratch::open(&root).unwrap().create(&to, b"same").unwrap();
                let threads = [s.spawn(one), s.spawn(one)];
                threads.map(|t| t.join().unwrap()).to_vec()
            });
            got.sort_by_key(|p| *p as u8);
            assert_eq!(got, [Published::New, Published::LostRace]);
        }
    }

    #[test]
    fn scratch_of_the_dead_is_removed_and_of_the_living_kept() {
        let Some(place) = place() else { return };
        let dir = tempfile::tempdir().unwrap();
        // Process ids end at 2^22 on Linux.
        let dead = dir.path().join(format!("{place}-99999999-x"));
        let living = dir.path().join(format!("{place}-{}-x", std::process::id()));
        let elsewhere = dir.path().join("0123456789ab-99999999-x");
        for d in [&dead, &living, &elsewhere] {
            fs::create_dir(d).unwrap();
        }
        drop(Scratch::open(dir.path()).unwrap());
        let stays = [&dead, &living, &elsewhere].map(|d| d.exists());
        assert_eq!(stays, [false, true, true]);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }
}
