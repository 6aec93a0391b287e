//! Archives without the list of members that stands at their end: it is made anew of the headers of the members.

use std::io::{self, Read, Seek, SeekFrom};

use super::{MEMBER, of_list};

/// A member's header up to its name, and what of it stands in the list, too.
const HEADER_BYTES: usize = 30;
const LISTED: std::ops::Range<usize> = 4..30;
/// A flag: the sizes stand behind the member.
const SIZES_BEHIND: u8 = 8;

/// The members that are whole, with a list of them behind.
pub(super) struct Relisted<S> {
    members: S,
    list: List,
    at: u64,
}

/// A new list, and where the last whole member ends.
pub(super) struct List {
    bytes: Vec<u8>,
    end: u64,
}

/// A list of the whole members; none if there are none, or their sizes are told elsewhere.
pub(super) fn relisted(members: &mut (impl Read + Seek), most: u64) -> io::Result<Option<List>> {
    let n_bytes = members.seek(SeekFrom::End(0))?;
    let (mut bytes, mut n, mut end) = (Vec::new(), 0u16, 0);
    while n < u16::MAX
        && let Some((entry, next)) = member(members, end)?.filter(|(_, next)| *next <= n_bytes)
    {
        bytes.extend(entry);
        (n, end) = (n + 1, next);
        if bytes.len() as u64 > most {
            return Err(of_list(bytes.len() as u64));
        }
    }
    let (Ok(length), Ok(start)) = (u32::try_from(bytes.len()), u32::try_from(end)) else { return Ok(None) };
    bytes.extend(b"PK\x05\x06\0\0\0\0");
    [n, n].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
    [length, start].iter().for_each(|n| bytes.extend(n.to_le_bytes()));
    bytes.extend([0, 0]);
    Ok((n > 0).then_some(List { bytes, end }))
}

/// The entry of a list for the member that begins here, and where the next one does.
fn member(members: &mut (impl Read + Seek), at: u64) -> io::Result<Option<(Vec<u8>, u64)>> {
    members.seek(SeekFrom::Start(at))?;
    let mut bytes = Vec::new();
    members.by_ref().take(HEADER_BYTES as u64).read_to_end(&mut bytes)?;
    if bytes.len() < HEADER_BYTES || !bytes.starts_with(MEMBER) || bytes[6] & SIZES_BEHIND != 0 {
        return Ok(None);
    }
    let short = |at: usize| u64::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
    let packed = short(18) | short(20) << 16;
    let (n_name, n_extra) = (short(26), short(28));
    // Longer ones, and those further behind, say so in other fields.
    let (Ok(offset), true) = (u32::try_from(at), packed != u64::from(u32::MAX)) else { return Ok(None) };
    let mut entry = b"PK\x01\x02\x14\0".to_vec();
    entry.extend(&bytes[LISTED]);
    // Comment, disk, attributes.
    entry.extend([0; 10]);
    entry.extend(offset.to_le_bytes());
    let n_read = members.by_ref().take(n_name + n_extra).read_to_end(&mut entry)? as u64;
    Ok((n_read == n_name + n_extra).then_some((entry, at + HEADER_BYTES as u64 + n_read + packed)))
}

impl<S: Read + Seek> Relisted<S> {
    pub(super) fn new(mut members: S, list: List) -> io::Result<Self> {
        members.rewind()?;
        Ok(Relisted { members, list, at: 0 })
    }
}

impl<S: Read + Seek> Read for Relisted<S> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let n = match self.list.end.checked_sub(self.at) {
            Some(left) if left > 0 => (&mut self.members).take(left).read(into)?,
            _ => {
                let from = usize::try_from(self.at - self.list.end).unwrap_or(usize::MAX);
                self.list.bytes.get(from..).unwrap_or_default().read(into)?
            }
        };
        self.at += n as u64;
        Ok(n)
    }
}

impl<S: Read + Seek> Seek for Relisted<S> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let whole = self.list.end + self.list.bytes.len() as u64;
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => whole.checked_add_signed(by),
        };
        self.at = at.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidInput))?;
        if self.at < self.list.end {
            self.members.seek(SeekFrom::Start(self.at))?;
        }
        Ok(self.at)
    }
}
