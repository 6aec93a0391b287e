//! The command line: parse, call the library, choose the exit code.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    trajpress::internals::cli::main()
}
