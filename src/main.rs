//! The command line: parse, call the library, choose the exit code.

use clap::Parser;
use trajpress::cli::{self, ExitStatus};

#[derive(Parser)]
#[command(name = "trajpress", version)]
enum Command {
    Ingest(cli::ingest::Args),
}

fn main() -> std::process::ExitCode {
    let Command::Ingest(args) = Command::parse();
    let status = cli::ingest::run(args).unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitStatus::Usage
    });
    std::process::ExitCode::from(status as u8)
}
