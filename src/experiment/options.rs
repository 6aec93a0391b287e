//! How a run is done: nothing here changes a row.

/// How to run.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Threads; none is one a core.
    pub threads: Option<usize>,
    /// Of these, how many compute at a time, where the others wait for a model; none is all.
    pub computing: Option<usize>,
    /// Only the first trajectories.
    pub limit: Option<usize>,
    /// A sample by strata of so many of them.
    pub sample: Option<usize>,
    /// Part `.0` of `.1`: computes parts and leaves the final tables to `finish`.
    pub shard: Option<(usize, usize)>,
    /// Computes nothing and joins what the shards have done.
    pub finish: bool,
    /// Works at a run that was planned before: begins none, and takes nothing of it away.
    pub joins: bool,
    /// Deletes the run that is there, whatever it is, and begins anew.
    pub fresh: bool,
    /// Begins this run where there is another one, and takes over the cells that both have. (Where the data alone
    /// have changed that is so always.)
    pub replace: bool,
    /// Place in which parts are published, where the folder of the run is that of one machine alone.
    pub store: Option<String>,
    /// Shows no progress.
    pub quiet: bool,
}
