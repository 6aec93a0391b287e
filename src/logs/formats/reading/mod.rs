//! What the readers share: typed records that count their fields, message contents, the draft of
//! a trajectory, repair of broken text, and the shape of a file by which its format is told.

pub(crate) mod alike;
pub(crate) mod apart;
pub(crate) mod branch;
pub(crate) mod chat;
pub(crate) mod content;
pub(crate) mod draft;
pub(crate) mod fields;
pub(crate) mod heads;
pub(crate) mod items;
pub(crate) mod list;
pub(crate) mod message;

pub(crate) mod names;
mod open_calls;
pub(crate) mod others;
pub(crate) mod parts;
pub(crate) mod points;
pub(crate) mod prefix;
pub(crate) mod prompts;
pub(crate) mod repair;
pub(crate) mod repaired;
pub(crate) mod reply;
pub(crate) mod scalar;
pub(crate) mod scan;
pub(crate) mod shape;
pub(crate) mod spans;
pub(crate) mod tables;
#[cfg(test)]
pub(crate) mod testing;
pub(crate) mod time;
pub(crate) mod traced;
pub(crate) mod usage;

pub(crate) use content::{Content, ToolCall};
pub(crate) use draft::Draft;
pub(crate) use fields::{List, record};
