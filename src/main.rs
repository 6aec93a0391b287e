//! The command line: parse, call the library, choose the exit code.

#![forbid(unsafe_code)]

/// Half of what a command does is text that is made and dropped: this one serves it a fifth cheaper than the system's, and keeps no more memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> std::process::ExitCode {
    trajpress::internals::cli::main()
}
