//! A file that stands at its place once it is whole; until then what stood there stays.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::files::reach;

/// A file in the making, or standard output.
pub struct Whole {
    to: BufWriter<Box<dyn Write>>,
    /// Where it is written, and where it belongs; none for what is no file.
    draft: Option<(PathBuf, PathBuf)>,
}

impl Whole {
    /// Begins the file; without a path it is standard output.
    pub fn begin(path: Option<&Path>) -> anyhow::Result<Self> {
        let Some(path) = path else {
            return Ok(Whole { to: BufWriter::new(Box::new(io::stdout().lock())), draft: None });
        };
        let cannot = || format!("cannot write {}", path.display());
        // A link stays one.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = place.parent().unwrap_or(Path::new(""));
        let is_new = fs::metadata(&place).is_err();
        for (record, what) in [("ingest.json", "a dataset"), ("_manifest.json", "a run")] {
            anyhow::ensure!(
                is_new || !reach::is_there(&folder.join(record))?,
                "{} is a file of {what}\nhint: name another file",
                path.display()
            );
        }
        Whole::draft(place).with_context(cannot)
    }

    fn draft(place: PathBuf) -> io::Result<Self> {
        let old = fs::metadata(&place).ok();
        if old.as_ref().is_some_and(|old| !old.is_file()) {
            let device = File::options().write(true).open(&place)?;
            return Ok(Whole { to: BufWriter::new(Box::new(device)), draft: None });
        }
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        let draft = place.with_file_name(format!(".unfinished.{}.{name}", std::process::id()));
        let file = File::create(&draft)?;
        let whole = Whole { to: BufWriter::new(Box::new(file)), draft: Some((draft.clone(), place)) };
        if let Some(old) = old {
            fs::set_permissions(&draft, old.permissions())?;
        }
        Ok(whole)
    }

    /// Puts it in its place.
    pub fn finish(mut self) -> io::Result<()> {
        self.to.flush()?;
        if let Some((draft, place)) = &self.draft {
            fs::rename(draft, place)?;
            self.draft = None;
        }
        Ok(())
    }
}

/// Writes a whole file.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fill(Whole::begin(Some(path))?, path, bytes)
}

/// Writes a file of ours over the one before, which two processes may do at once.
pub fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let whole = Whole::draft(path.to_owned()).with_context(|| format!("cannot write {}", path.display()))?;
    fill(whole, path, bytes)
}

fn fill(mut whole: Whole, path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written = whole.write_all(bytes).and_then(|()| whole.finish());
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Removes a file. Another process may do so at the same time: what is gone already is no error.
pub fn remove(path: &Path) -> anyhow::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

impl Write for Whole {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some((draft, _)) = &self.draft {
            let _ = fs::remove_file(draft);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stood_there_stays_until_all_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a");
        let names = || fs::read_dir(dir.path()).unwrap().count();
        let read = || fs::read_to_string(&path).unwrap();
        fs::write(&path, "old").unwrap();
        let mut whole = Whole::begin(Some(&path)).unwrap();
        whole.write_all(b"new").unwrap();
        whole.flush().unwrap();
        assert_eq!((read().as_str(), names()), ("old", 2));
        drop(whole);
        assert_eq!((read().as_str(), names()), ("old", 1));
        write(&path, b"new").unwrap();
        assert_eq!((read().as_str(), names()), ("new", 1));
        assert!(write(dir.path(), b"x").is_err() && write(&dir.path().join("b/c"), b"x").is_err());
        // The tables of a dataset are others'.
        fs::write(dir.path().join("ingest.json"), "{}").unwrap();
        let told = write(&path, b"x").unwrap_err().to_string();
        assert!(told.contains("is a file of a dataset") && read() == "new", "{told}");
        write(&dir.path().join("other"), b"x").unwrap();
        fs::remove_file(dir.path().join("ingest.json")).unwrap();
        fs::remove_file(dir.path().join("other")).unwrap();
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("a", dir.path().join("link")).unwrap();
            write(&dir.path().join("link"), b"by a link").unwrap();
            assert!(dir.path().join("link").is_symlink());
            assert_eq!(read(), "by a link");
            write(Path::new("/dev/null"), b"x").unwrap();
        }
    }
}
