//! Runs in a zip archive, one a member, read one after the other.

use std::fs::File;
use std::io::{self, BufReader, Cursor, Read, Seek, SeekFrom};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use crate::logs::formats::reading::list::{Content, Piece, is_passing};

use super::input::{Room, size};

mod cut;

/// First bytes of an archive, and of the record at its end.
const MEMBER: &[u8] = b"PK\x03\x04";
const END: &[u8] = b"PK\x05\x06";
/// Length of that record, and of the longest comment behind it.
const END_BYTES: usize = 22;
const MAX_COMMENT: u64 = u16::MAX as u64;

/// What is told of an archive that ends before its list of members.
const CUT: &str = "archive that was cut off: members behind those that are whole are lost";

trait Stored: Read + Seek + Send {}
impl<T: Read + Seek + Send> Stored for T {}

/// The members of an archive that are runs.
pub(super) struct Members {
    archive: ZipArchive<Box<dyn Stored>>,
    /// Numbers of those that come yet.
    next: std::vec::IntoIter<usize>,
    /// Unpacked bytes so far, and those that may still come.
    n_bytes: u64,
    left: u64,
    max: u64,
    /// What is wrong with the archive as a whole, told behind the members that it still has.
    cut: Option<String>,
}

impl Members {
    /// Opens an archive; `held` is its content, where the file itself is packed once more.
    pub(super) fn open(
        path: &Path,
        held: impl FnOnce() -> io::Result<Vec<u8>>,
        is_run: fn(&str) -> bool,
        room: Room<'_>,
    ) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let mut begin = [0; 4];
        let is_plain = file.read_exact(&mut begin).is_ok() && begin == MEMBER;
        let mut stored: Box<dyn Stored> = match is_plain {
            true => Box::new(BufReader::with_capacity(64 << 10, file)),
            false => Box::new(Cursor::new(held()?)),
        };
        let n_listed = directory_bytes(&mut stored)?;
        if n_listed.is_some_and(|n| n > room.value) {
            return Err(of_list(n_listed.unwrap_or_default()));
        }
        // Members stand before the list of them, each behind its own header.
        let relisted = if n_listed.is_none() { cut::relisted(&mut stored, room.value)? } else { None };
        let cut = relisted.as_ref().map(|_| CUT.to_owned());
        if let Some(list) = relisted {
            stored = Box::new(cut::Relisted::new(stored, list)?);
        }
        let archive = ZipArchive::new(stored).map_err(|error| of_zip(error, "zip archive: "))?;
        let is_one = |i: &usize| matches!(archive.name_for_index(*i), Some(Ok(name)) if is_run(&name));
        let next = (0..archive.len()).filter(is_one).collect::<Vec<_>>().into_iter();
        Ok(Members { archive, next, n_bytes: 0, left: room.file, max: room.value, cut })
    }

    /// The first of these members that is there and sound.
    pub(super) fn shared(&mut self, names: &[&str]) -> io::Result<Option<Vec<u8>>> {
        for name in names {
            let Some(at) = self.archive.index_for_name(name) else { continue };
            match self.read(at) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if is_passing(&error) => return Err(error),
                Err(_) => {}
            }
        }
        Ok(None)
    }

    /// How much was unpacked so far.
    pub(super) fn place(&self) -> u64 {
        self.n_bytes
    }

    fn read(&mut self, at: usize) -> io::Result<Vec<u8>> {
        let mut member = self.archive.by_index(at).map_err(|error| of_zip(error, ""))?;
        let most = self.max.min(self.left);
        let mut bytes = Vec::new();
        let result = (&mut member).take(most + 1).read_to_end(&mut bytes);
        let n = bytes.len() as u64;
        self.n_bytes += n;
        self.left -= n.min(self.left);
        match result {
            Err(error) => Err(error),
            Ok(_) if n > self.max => Err(io::Error::other(format!(
                "more than {}\nhint: --max-memory allows an eighth of it to one",
                size(self.max)
            ))),
            Ok(_) if n > most => Err(io::Error::other("more than is left of --max-file")),
            Ok(_) => Ok(bytes),
        }
    }
}

impl Iterator for Members {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let offset = self.n_bytes;
        let Some(at) = self.next.next() else {
            return Some(Piece { offset, content: Content::Damage(self.cut.take()?) });
        };
        if self.left == 0 {
            let n = 1 + self.next.by_ref().count();
            let reason = format!("{n} more of the archive, behind what --max-file allows");
            return Some(Piece { offset, content: Content::Damage(reason) });
        }
        let content = match self.read(at) {
            Ok(bytes) => Content::Item(bytes),
            Err(error) => {
                let name = self.archive.name_for_index(at).and_then(Result::ok).unwrap_or_default();
                Content::unread(&format!("member {name} of the archive"), &error)
            }
        };
        Some(Piece { offset, content })
    }
}

/// The list of members takes more memory than there is for it.
fn of_list(n_bytes: u64) -> io::Error {
    let what = format!("an archive whose list of members has {}", size(n_bytes));
    io::Error::new(io::ErrorKind::FileTooLarge, what)
}

/// An error of the machine as it is; else what is wrong with the archive.
fn of_zip(error: ZipError, before: &str) -> io::Error {
    match error {
        ZipError::Io(error) if is_passing(&error) => error,
        other => io::Error::other(format!("{before}{other}")),
    }
}

/// How long the list of members is, as the end of an archive says: all of it is held. None where that end is missing.
fn directory_bytes(stored: &mut (impl Read + Seek)) -> io::Result<Option<u64>> {
    let n = stored.seek(SeekFrom::End(0))?;
    stored.seek(SeekFrom::Start(n.saturating_sub(MAX_COMMENT + END_BYTES as u64)))?;
    let mut end = Vec::new();
    stored.read_to_end(&mut end)?;
    stored.seek(SeekFrom::Start(0))?;
    let found = memchr::memmem::rfind(&end, END).and_then(|at| end.get(at..at + END_BYTES));
    let bytes = found.map(|end| u32::from_le_bytes([end[12], end[13], end[14], end[15]]));
    // An archive that is larger than this field says so, and has a list as large as itself at most.
    Ok(bytes.map(|bytes| if bytes == u32::MAX { n } else { u64::from(bytes) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::logs::Limits;
    use std::io::Write as _;

    fn archive(members: &[(&str, &str)]) -> Vec<u8> {
        let mut zip = zip::ZipWriter::new(Cursor::new(Vec::new()));
        for (i, (name, text)) in members.iter().enumerate() {
            let method = [
                zip::CompressionMethod::Deflated,
                zip::CompressionMethod::Zstd,
                zip::CompressionMethod::Stored,
            ][i % 3];
            zip.start_file(*name, zip::write::SimpleFileOptions::default().compression_method(method))
                .unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        zip.finish().unwrap().into_inner()
    }

    /// What is shared, and the runs or what is wrong with them.
    fn read(bytes: &[u8], limits: Limits) -> io::Result<(Option<Vec<u8>>, Vec<Result<String, String>>)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.eval");
        std::fs::write(&path, bytes).unwrap();
        let room = Room::new(limits, 1, 1, &|| {});
        let mut members =
            Members::open(&path, || Ok(bytes[1..].to_vec()), |name| name.starts_with("runs/"), room)?;
        let shared = members.shared(&["header", "start"])?;
        let runs = members.map(|piece| match piece.content {
            Content::Item(bytes) => Ok(String::from_utf8(bytes).unwrap()),
            Content::Damage(reason) | Content::Unread(reason) => Err(reason),
        });
        Ok((shared, runs.collect()))
    }

    #[test]
    fn members_are_runs_within_the_limits() {
        let bytes = archive(&[
            ("runs/1", "one"),
            ("start", "s"),
            ("runs/2", &"x".repeat(200)),
            ("other", "o"),
            ("runs/3", "three"),
        ]);
        let (shared, runs) = read(&bytes, Limits::default()).unwrap();
        assert_eq!(shared.as_deref(), Some(&b"s"[..]));
        assert_eq!(runs, [Ok("one".to_owned()), Ok("x".repeat(200)), Ok("three".to_owned())]);
        // An eighth of the memory for one: the second is too long. The list of members has more than 100 bytes.
        let told = read(&bytes, Limits { memory: 8 * 100, ..Limits::default() }).err().unwrap().to_string();
        assert!(told.contains("list of members"), "{told}");
        let long = archive(&[("runs/1", "one"), ("runs/2", &"x".repeat(300)), ("runs/3", "three")]);
        let (_, runs) = read(&long, Limits { memory: 8 * 200, ..Limits::default() }).unwrap();
        assert!(
            runs[0].is_ok() && runs[1].as_ref().is_err_and(|e| e.contains("runs/2")) && runs[2].is_ok(),
            "{runs:?}"
        );
        let (_, runs) = read(&bytes, Limits { file: 100, ..Limits::default() }).unwrap();
        assert!(runs[1].as_ref().is_err_and(|e| e.contains("left of --max-file")), "{runs:?}");
        assert!(runs.len() == 3 && runs[2].as_ref().is_err_and(|e| e.starts_with("1 more of")), "{runs:?}");
        // What is shared has 1 byte, the first run 3: nothing is left.
        let (_, runs) = read(&bytes, Limits { file: 4, ..Limits::default() }).unwrap();
        assert!(runs.len() == 2 && runs[1].as_ref().is_err_and(|e| e.starts_with("2 more of")), "{runs:?}");
        // An archive that is packed once more is held.
        let (_, runs) = read(&[b"?", &bytes[..]].concat(), Limits::default()).unwrap();
        assert_eq!(runs.len(), 3);
    }

    #[test]
    fn damage_costs_a_member() {
        let mut bytes = archive(&[("runs/1", &"one ".repeat(99)), ("runs/2", "two"), ("runs/3", "three")]);
        let at = memchr::memmem::find(&bytes, b"runs/1").unwrap() + 10;
        bytes[at] ^= 0xff;
        let (_, runs) = read(&bytes, Limits::default()).unwrap();
        assert!(runs[0].is_err() && runs[1..].iter().all(Result::is_ok), "{runs:?}");
        for cut in [5, 40] {
            assert!(read(&bytes[..cut], Limits::default()).is_err(), "{cut}");
        }
    }

    /// Without its list of members an archive has those that are whole.
    #[test]
    fn a_cut_archive_has_its_whole_members() {
        let bytes =
            archive(&[("start", "s"), ("runs/1", "one"), ("runs/2", &"two ".repeat(99)), ("runs/3", "x")]);
        let list = memchr::memmem::find(&bytes, b"PK\x01\x02").unwrap();
        let third = memchr::memmem::find(&bytes, b"runs/3").unwrap();
        for (end, n_runs) in [(bytes.len() - 3, 3), (list + 9, 3), (list, 3), (list - 1, 2), (third, 2)] {
            let (shared, mut runs) = read(&bytes[..end], Limits::default()).unwrap();
            assert_eq!(shared.as_deref(), Some(&b"s"[..]));
            let told = runs.pop().unwrap().unwrap_err();
            assert!(told.starts_with("archive that was cut off"), "{told}");
            assert!(runs.len() == n_runs && runs.iter().all(Result::is_ok), "{end}: {runs:?}");
        }
        // One that is packed once more is held, and one whose list takes too much memory is not read.
        let (_, runs) = read(&[b"?", &bytes[..list]].concat(), Limits::default()).unwrap();
        assert_eq!(runs.len(), 4);
        let told =
            read(&bytes[..list], Limits { memory: 8 * 100, ..Limits::default() }).err().unwrap().to_string();
        assert!(told.contains("list of members"), "{told}");
    }
}
