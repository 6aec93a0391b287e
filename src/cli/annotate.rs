//! LOCAL STUB
#[derive(Debug, clap::Args)]
#[command(after_help = "trajpress annotate")]
pub struct Args { x: String }
pub fn run(_: &Args, _: super::Output) -> anyhow::Result<super::ExitStatus> { Ok(super::ExitStatus::Done) }
