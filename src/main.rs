//! The command line: parse, call the library, choose the exit code.

fn main() -> std::process::ExitCode {
    trajpress::cli::main()
}
