//! What the program and a model worker say to each other: frames on the worker's standard input and output.
//!
//! A frame is its length (u32, little endian) and a message in postcard, which keeps floats bit for bit.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::models::{Call, Outcome};

use super::Options;

/// From the program to the worker. The first frame is `Load`.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Request {
    Load(Options),
    Work { id: u64, call: Call },
}

/// From the worker to the program.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Reply {
    /// The model is loaded: what it says of itself.
    Ready(Loaded),
    /// It could not be loaded.
    Refused(String),
    /// The worker is at work: sent at most once a second.
    Alive,
    Done {
        id: u64,
        outcome: Outcome,
    },
}

/// What only a loaded model tells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Sequences generated side by side in each context.
    pub sequences: u32,
    /// So many of them write in one batch: no bit changes by it.
    pub rows: u32,
    /// The name that the weights carry.
    pub description: String,
}

/// A frame is at most so long: more is a broken stream, not a message.
const LONGEST: usize = 1 << 30;

pub(super) fn send<T: Serialize>(to: &mut impl Write, message: &T) -> io::Result<()> {
    let bytes = postcard::to_stdvec(message).map_err(io::Error::other)?;
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    to.write_all(&length.to_le_bytes())?;
    to.write_all(&bytes)?;
    to.flush()
}

/// None at the end of the stream.
pub(super) fn receive<T: DeserializeOwned>(from: &mut impl Read) -> io::Result<Option<T>> {
    let mut length = [0; 4];
    match from.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(io::Error::other(format!("a frame of {length} bytes")));
    }
    let mut bytes = vec![0; length];
    from.read_exact(&mut bytes)?;
    postcard::from_bytes(&bytes).map(Some).map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::{Answer, CallError, Prompt};

    #[test]
    fn frames_come_back_as_they_were_sent() {
        let mut stream = Vec::new();
        let call = Call::Score { prompt: Prompt::default(), continuations: vec!["a\u{0}é".into()] };
        send(&mut stream, &Request::Work { id: 7, call: call.clone() }).unwrap();
        let exact = vec![f32::MIN_POSITIVE, -0.0, 0.1 + 0.2];
        let answer = Answer::Vector { values: exact.clone(), cut_tokens: 0 };
        send(&mut stream, &Reply::Done { id: 8, outcome: Ok(answer) }).unwrap();
        send(&mut stream, &Reply::Done { id: 9, outcome: Err(CallError::Timeout(3)) }).unwrap();

        let mut from = stream.as_slice();
        let Some(Request::Work { id: 7, call: again }) = receive(&mut from).unwrap() else { panic!() };
        assert_eq!(again, call);
        let Some(Reply::Done { id: 8, outcome: Ok(Answer::Vector { values, .. }) }) =
            receive(&mut from).unwrap()
        else {
            panic!()
        };
        assert_eq!(
            values.iter().map(|v| v.to_bits()).collect::<Vec<_>>(),
            exact.iter().map(|v| v.to_bits()).collect::<Vec<_>>()
        );
        let Some(Reply::Done { outcome: Err(CallError::Timeout(3)), .. }) = receive(&mut from).unwrap()
        else {
            panic!()
        };
        assert!(receive::<Reply>(&mut from).unwrap().is_none());
    }

    #[test]
    fn a_cut_or_absurd_frame_is_an_error() {
        let mut stream = Vec::new();
        send(&mut stream, &Reply::Alive).unwrap();
        stream.pop();
        assert!(receive::<Reply>(&mut stream.as_slice()).is_err());
        assert!(receive::<Reply>(&mut [0xff, 0xff, 0xff, 0xff, 1].as_slice()).is_err());
    }
}
