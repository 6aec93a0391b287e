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
    print(&script(args.shell))?;
    Ok(ExitStatus::Done)
}

fn script(shell: clap_complete::Shell) -> String {
    let mut script = Vec::new();
    // Commands that nobody types are no help.
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let mut ours = clap::Command::new("trajpress")
        .subcommands(shown.collect::<Vec<_>>())
        .args(all.get_arguments().cloned());
    clap_complete::generate(shell, &mut ours, "trajpress", &mut script);
    String::from_utf8_lossy(&script).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_that_nobody_types_are_not_offered() {
        for shell in [clap_complete::Shell::Bash, clap_complete::Shell::Fish] {
            let script = script(shell);
            assert!(script.contains("nightly") && !script.contains("model-worker"), "{shell}");
        }
    }
}
