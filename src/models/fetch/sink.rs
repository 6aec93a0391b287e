//! A file on its way: hashed while it is written.

use std::fs::File;
use std::io::{ErrorKind, Read, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use sha2::{Digest as _, Sha256};

use crate::models::catalogue::Entry;
use crate::models::folder::hex;

/// A file that is hashed while it is written, and never longer than it may be.
pub(super) struct Sink {
    path: PathBuf,
    file: File,
    hash: Sha256,
    pub(super) written: u64,
    pub(super) limit: u64,
    /// Whether one source file is all of it, so that a wrong length is known beforehand.
    pub(super) is_one_file: bool,
}

impl Sink {
    pub(super) fn create(path: &Path, limit: u64) -> anyhow::Result<Self> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Sink { path: path.to_owned(), file, hash: Sha256::new(), written: 0, limit, is_one_file: false })
    }

    pub(super) fn left(&self) -> u64 {
        self.limit - self.written
    }

    pub(super) fn copy(&mut self, from: &mut dyn Read, step: &mut dyn FnMut(u64)) -> anyhow::Result<()> {
        let mut buffer = vec![0; 1 << 18];
        loop {
            let n = match from.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(n) => n,
                Err(e) if e.kind() == ErrorKind::Interrupted => continue,
                Err(e) => return Err(e).with_context(|| format!("no more after {} bytes", self.written)),
            };
            ensure!(n as u64 <= self.left(), "longer than the {} bytes expected", self.limit);
            self.file
                .write_all(&buffer[..n])
                .with_context(|| format!("cannot write {}", self.path.display()))?;
            self.hash.update(&buffer[..n]);
            self.written += n as u64;
            step(n as u64);
        }
    }

    /// Syncs the file. Fails if its bytes are not the model's.
    pub(super) fn finish(self, entry: &Entry) -> anyhow::Result<()> {
        ensure!(self.written == entry.bytes, "ended after {} bytes of {}", self.written, entry.bytes);
        let sha256 = hex(&self.hash.finalize());
        ensure!(sha256 == entry.sha256, "wrong bytes, refused: sha256 {sha256}, expected {}", entry.sha256);
        self.file.sync_all().with_context(|| format!("cannot sync {}", self.path.display()))
    }
}
