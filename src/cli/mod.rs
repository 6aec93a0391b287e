//! The command line: one file per subcommand.

pub mod ingest;

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitStatus {
    Done = 0,
    /// Done, but something failed.
    Failed = 1,
    /// Wrong usage, or it could not run.
    Usage = 2,
}
