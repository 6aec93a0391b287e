//! Files that other processes write and read too: one writer a folder, what a stage vouches for, what is there at all.

pub mod lock;
pub mod reach;
pub mod vouch;
