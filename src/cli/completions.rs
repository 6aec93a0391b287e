//! `trajpress completions`: what a shell needs to complete our commands.

use clap::CommandFactory as _;

use super::{Cli, ExitStatus, print};

/// Print the completions of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress completions bash > ~/.local/share/bash-completion/completions/trajpress
  trajpress completions zsh > ~/.zfunc/_trajpress
  trajpress completions fish > ~/.config/fish/completions/trajpress.fish")]
pub struct Args {
    shell: clap_complete::Shell,
}

/// Prints them.
pub fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "trajpress", &mut script);
    print(&String::from_utf8(script)?)?;
    Ok(ExitStatus::Done)
}
