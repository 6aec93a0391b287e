//! Files that other processes write and read too: one writer a folder, what a stage vouches for, what is there at all, what
//! changes together.

pub mod lock;
pub mod reach;
pub mod swap;
pub mod vouch;
