//! A file that is held open and read at any place by any thread.
//!
//! Its path may name another file meanwhile (a writer puts a new one in its place by a rename): what is held stays what
//! it was when it was opened. Knows nothing of what the file holds.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

/// An open file; copies share it.
#[derive(Clone, Debug)]
pub struct Held(Arc<File>);

impl Held {
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Held(Arc::new(File::open(path)?)))
    }

    /// Its size in bytes.
    pub fn n_bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    /// Reads on from a byte; each reader has a place of its own.
    pub fn from(&self, byte: u64) -> Reader {
        Reader { file: Arc::clone(&self.0), at: byte }
    }
}

/// Reads a held file from one place on.
#[derive(Debug)]
pub struct Reader {
    file: Arc<File>,
    at: u64,
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(unix)]
        let n = std::os::unix::fs::FileExt::read_at(&*self.file, buffer, self.at)?;
        #[cfg(windows)]
        let n = std::os::windows::fs::FileExt::seek_read(&*self.file, buffer, self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn what_is_held_stays_when_another_file_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (dir.path().join("a"), dir.path().join("b"));
        fs::write(&old, "before").unwrap();
        fs::write(&new, "after it").unwrap();
        let held = Held::open(&old).unwrap();
        // Two readers of one file do not move each other.
        let (mut first, mut second) = (held.from(0), held.clone().from(3));
        let mut text = [String::new(), String::new()];
        first.by_ref().take(2).read_to_string(&mut text[0]).unwrap();
        second.read_to_string(&mut text[1]).unwrap();
        fs::rename(&new, &old).unwrap();
        first.read_to_string(&mut text[0]).unwrap();
        assert_eq!(text, ["before", "ore"]);
        assert_eq!(held.n_bytes().unwrap(), 6);
    }
}
