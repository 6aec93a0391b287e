//! Pieces of a text by the bucket that they are hashed to, and weights of buckets in a file.

use flate2::Crc;
use serde::{Deserialize, Serialize};

use super::runs::is_unspaced;

/// How many buckets pieces go to.
pub(crate) const BUCKETS: usize = 1 << 16;

/// The bucket of a piece, which is given in parts.
pub(crate) fn bucket(parts: &[&str]) -> u16 {
    let mut crc = Crc::new();
    parts.iter().for_each(|part| crc.update(part.as_bytes()));
    (crc.sum() as usize % BUCKETS) as u16
}

/// Letters as runs in lower case, digits as `0`, and each mark; of a long text the first.
pub(crate) fn tokens(text: &str, most: usize) -> Vec<String> {
    #[derive(PartialEq)]
    enum Sort {
        Letter,
        Digit,
        Other,
    }
    let mut found: Vec<String> = Vec::new();
    let mut last = Sort::Other;
    for c in text.chars() {
        let sort = match c {
            _ if c.is_numeric() => Sort::Digit,
            _ if c.is_alphabetic() && !is_unspaced(c) => Sort::Letter,
            _ => Sort::Other,
        };
        let goes_on = sort != Sort::Other && sort == last;
        if !goes_on && !c.is_whitespace() && c != '_' {
            if found.len() == most {
                break;
            }
            found.push(String::new());
        }
        if let Some(token) = found.last_mut().filter(|_| !c.is_whitespace() && c != '_') {
            match sort {
                Sort::Digit if goes_on => {}
                Sort::Digit => token.push('0'),
                _ => token.extend(c.to_lowercase()),
            }
        }
        last = sort;
    }
    found
}

/// Bytes with a sign, in base64.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Bytes(pub(crate) Vec<i8>);

impl TryFrom<String> for Bytes {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let (mut bytes, mut bits, mut n) = (Vec::with_capacity(text.len() / 4 * 3), 0u32, 0);
        for c in text.trim_end_matches('=').bytes() {
            let six = DIGITS.iter().position(|digit| *digit == c).ok_or("`words` is no base64")?;
            (bits, n) = (bits << 6 | six as u32, n + 6);
            if n >= 8 {
                n -= 8;
                bytes.push((bits >> n) as u8 as i8);
            }
        }
        Ok(Bytes(bytes))
    }
}

impl From<Bytes> for String {
    fn from(bytes: Bytes) -> Self {
        let digits = |three: &[i8]| {
            let bits = three.iter().fold(0u32, |bits, byte| bits << 8 | u32::from(*byte as u8));
            let bits = bits << (8 * (3 - three.len()));
            let digit = |at: usize| char::from(DIGITS[(bits >> (18 - 6 * at)) as usize & 63]);
            (0..4).map(|at| if at <= three.len() { digit(at) } else { '=' }).collect::<String>()
        };
        bytes.0.chunks(3).map(digits).collect()
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
