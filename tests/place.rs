//! A folder of a test's own, in which the program runs.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

pub(crate) struct Place(pub(crate) tempfile::TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn program(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_trajpress"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null()).output().unwrap()
    }
}
