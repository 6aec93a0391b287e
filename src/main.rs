//! The command line: parse, call the library, choose the exit code.

#![deny(unsafe_code)]

fn main() -> std::process::ExitCode {
    set_allocator();
    trajpress::internals::cli::main()
}

/// Large blocks are the system's own and go back to it at once; else what a trajectory of a million steps leaves behind is
/// a tenth of the memory. Of small ones some stay: to give them back and ask for them anew was a twentieth of a run.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[allow(unsafe_code, reason = "numbers are set before anything else runs")]
fn set_allocator() {
    // SAFETY: the calls take two numbers, and no other thread is there yet.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 256 << 10);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 16 << 20);
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn set_allocator() {}
