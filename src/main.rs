//! The command line: parse, call the library, choose the exit code.

#![forbid(unsafe_code)]

/// Logs are read into many small pieces: the system's allocator takes up to a third of the time. Without
/// huge pages, which take twice the memory.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    trajpress::internals::cli::main()
}
