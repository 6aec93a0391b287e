//! Files that other processes write and read too: one writer a folder, what a stage vouches for, what is there at all, what
//! changes together, what appears whole, what is read on while another file takes its place, how much room there is, and
//! places that many machines reach.

pub mod ends;
pub mod held;
pub mod lock;
pub mod reach;
pub mod room;
pub mod seal;
pub mod shared;
pub mod swap;
pub mod vouch;
pub mod whole;
