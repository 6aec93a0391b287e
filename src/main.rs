//! The command line: parse, call the library, choose the exit code.

#![deny(unsafe_code)]

fn main() -> std::process::ExitCode {
    give_large_blocks_back();
    trajpress::internals::cli::main()
}

/// Large blocks are the system's own and go back to it at once; else what a trajectory of a million steps leaves behind is
/// a tenth of the memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "a number is set before anything else runs")]
fn give_large_blocks_back() {
    // SAFETY: the call takes two numbers, and no other thread is there yet.
    unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10) };
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn give_large_blocks_back() {}
