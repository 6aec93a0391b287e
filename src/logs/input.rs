//! Opening logs: which files there are, and transparent gzip and zstd, told by their first bytes.

use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::Limits;
use super::packed::{self, Gap, Packing, unpacked};
use crate::logs::formats::mapping::Mapping;
use crate::logs::formats::reading::names;
use crate::logs::formats::{MANY, Source};

/// A file to be read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Input {
    /// Name in the tables: relative to the folder given, with `/`; with the folder's own name before it
    /// where several were given.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Given on the command line itself, not found in a folder.
    pub(crate) is_named: bool,
    /// Size as stored.
    pub(crate) n_bytes: u64,
    /// Why it cannot be read, where that is known from the listing.
    pub(crate) problem: Option<String>,
    /// Other files that are read with it: what is known of this file holds for all of them together.
    pub(crate) parts: Vec<Input>,
    /// Hashes of where it stands and what stands in it and its parts; the second is none where that cannot be read. Found by
    /// `record::mark`.
    pub(crate) place: u128,
    pub(crate) digest: Option<u128>,
}

impl Input {
    fn new(name: String, path: PathBuf, is_named: bool, n_bytes: u64, problem: Option<String>) -> Self {
        Input { name, path, is_named, n_bytes, problem, parts: Vec::new(), place: 0, digest: None }
    }

    /// Size as stored, with its parts.
    pub(crate) fn n_stored(&self) -> u64 {
        self.n_bytes + self.parts.iter().map(|part| part.n_bytes).sum::<u64>()
    }
}

/// Hidden files and folders of products, which hold logs.
const KNOWN_HIDDEN: [&str; 16] = [
    ".aider.chat.history.md",
    ".claude",
    ".cline",
    ".codex",
    ".continue",
    ".copilot",
    ".crush",
    ".factory",
    ".gemini",
    ".hermes",
    ".kimi",
    ".kimi-code",
    ".opencode",
    ".pi",
    ".qwen",
    ".specstory",
];

/// Whether a name hides a file or folder that is no product's.
pub(super) fn is_hidden(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    name.starts_with('.') && !KNOWN_HIDDEN.contains(&&*name)
}

/// All files under what was given, in the order of their names. Hidden files and folders are left
/// out, unless they were given themselves or are known to hold logs. What stands there and cannot be read (a dangling or looping
/// symbolic link, a device) is listed with its problem.
pub(crate) fn find(roots: &[PathBuf]) -> anyhow::Result<Vec<Input>> {
    Ok(look(roots)?.0)
}

/// The same; also says how many hidden files and folders were left out.
pub(super) fn look(roots: &[PathBuf]) -> anyhow::Result<(Vec<Input>, u64)> {
    let (mut inputs, n_hidden) = (Vec::new(), Cell::new(0));
    for root in roots {
        let metadata = match std::fs::metadata(root) {
            Err(error) if !root.is_symlink() => {
                return Err(error).with_context(|| format!("cannot read {}", root.display()));
            }
            other => other,
        };
        if !metadata.as_ref().is_ok_and(|m| m.is_dir()) {
            let name = root
                .file_name()
                .map_or_else(|| root.display().to_string(), |n| n.to_string_lossy().into_owned());
            let (n_bytes, problem) = match metadata {
                Ok(metadata) => (metadata.len(), problem_of_type(metadata.file_type())),
                Err(error) => (0, Some(problem_of_link(&error))),
            };
            inputs.push(Input::new(name, root.clone(), true, n_bytes, problem));
            continue;
        }
        let is_shown = |e: &walkdir::DirEntry| {
            let is_hidden = e.depth() > 0 && is_hidden(e.file_name());
            n_hidden.set(n_hidden.get() + u64::from(is_hidden));
            !is_hidden
        };
        for entry in walkdir::WalkDir::new(root).follow_links(true).into_iter().filter_entry(is_shown) {
            let (path, n_bytes, problem) = match entry {
                Ok(entry) if entry.file_type().is_dir() => continue,
                Ok(entry) => {
                    let n_bytes = entry.metadata().map_or(0, |m| m.len());
                    let problem = problem_of_type(entry.file_type());
                    (entry.into_path(), n_bytes, problem)
                }
                Err(error) if error.depth() == 0 || error.path().is_none() => {
                    return Err(error).with_context(|| format!("cannot list {}", root.display()));
                }
                Err(error) => {
                    let path = error.path().unwrap_or(root).to_owned();
                    if path.file_name().is_some_and(is_hidden) {
                        n_hidden.set(n_hidden.get() + 1);
                        continue;
                    }
                    let problem = match error.io_error() {
                        Some(io) if path.is_symlink() => problem_of_link(io),
                        Some(io) => format!("cannot be read: {io}"),
                        None => "symbolic link to a folder that it lies in".to_owned(),
                    };
                    (path, 0, Some(problem))
                }
            };
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let mut parts: Vec<_> =
                relative.components().map(|c| c.as_os_str().to_string_lossy().into_owned()).collect();
            if let (true, Some(last)) = (roots.len() > 1, root.file_name()) {
                parts.insert(0, last.to_string_lossy().into_owned());
            }
            inputs.push(Input::new(parts.join("/"), path, false, n_bytes, problem));
        }
    }
    inputs.sort();
    inputs.dedup_by(|a, b| a.path == b.path);
    Ok((inputs, n_hidden.get()))
}

/// Leaves out what stands in a folder of our own output, unless that holds all that was given.
pub(crate) fn leave_out(inputs: &mut Vec<Input>, roots: &[PathBuf], folder: &Path) {
    let Ok(folder) = std::fs::canonicalize(folder) else { return };
    let is_inside = |path: &Path| std::fs::canonicalize(path).is_ok_and(|path| path.starts_with(&folder));
    if !roots.iter().any(|root| is_inside(root)) {
        inputs.retain(|input| !is_inside(&input.path));
    }
}

/// What is wrong with a file that is neither a plain file nor a folder.
fn problem_of_type(kind: std::fs::FileType) -> Option<String> {
    (!kind.is_file()).then(|| "not a plain file (a pipe, socket or device)".to_owned())
}

/// What is wrong with a symbolic link that leads nowhere.
fn problem_of_link(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "dangling symbolic link".to_owned(),
        _ => format!("symbolic link that cannot be followed: {error}"),
    }
}

/// Opens a file and undoes its compression.
pub(crate) fn open(path: &Path) -> std::io::Result<Box<dyn BufRead + Send>> {
    open_for(path, 256 << 10)
}

/// The same for who reads so much at a time: no more than that is uncompressed ahead.
pub(crate) fn open_for(path: &Path, capacity: usize) -> std::io::Result<Box<dyn BufRead + Send>> {
    let mut file = BufReader::with_capacity(64 << 10, File::open(path)?);
    let packing = Packing::of(file.fill_buf()?).map(|(packing, start)| {
        file.consume(start);
        packing
    });
    unpacked(Box::new(file), packing, capacity)
}

/// The beginning of a file.
pub(crate) struct Small {
    pub(crate) bytes: Vec<u8>,
    /// What comes after the bytes, if they may not be all.
    pub(crate) rest: Option<Box<dyn BufRead + Send>>,
    /// What is damaged where it is packed, and left out.
    pub(crate) gaps: Vec<Gap>,
}

/// Opens a file, of which `max` unpacked bytes are wanted at most, when it is known what is sound of it.
pub(crate) fn open_checked(path: &Path, max: u64) -> std::io::Result<Small> {
    let (rest, gaps) = match packed::check(path, max)? {
        Some((rest, gaps)) => (rest, gaps),
        None => (open(path)?, Vec::new()),
    };
    Ok(Small { bytes: Vec::new(), rest: Some(rest), gaps })
}

/// Reads a file that is stored in few bytes at once; if it has more than `small` bytes unpacked, or is damaged, it is only
/// opened.
pub(crate) fn read_small(path: &Path, small: usize, max: u64) -> std::io::Result<Small> {
    let stored = std::fs::read(path)?;
    let Some((packing, start)) = Packing::of(&stored) else {
        return Ok(Small { bytes: stored, rest: None, gaps: Vec::new() });
    };
    let mut bytes = Vec::new();
    if packing == Packing::Zstd {
        // The size stands in the header of most frames; it is a hint and may lie.
        let hint = zstd::zstd_safe::get_frame_content_size(&stored[start..]).ok().flatten().unwrap_or(0);
        bytes.reserve((hint as usize).min(small) + 16);
    }
    let mut stored = Cursor::new(stored);
    stored.set_position(start as u64);
    let reader = unpacked(Box::new(stored), Some(packing), 8 << 10);
    match reader.and_then(|reader| reader.take(small as u64).read_to_end(&mut bytes)) {
        Ok(n) if n < small => Ok(Small { bytes, rest: None, gaps: Vec::new() }),
        _ => open_checked(path, max),
    }
}

/// What one file may have: of a document, a session or a line, and unpacked in all.
#[derive(Clone, Copy)]
pub(crate) struct Room<'a> {
    pub(crate) file: u64,
    pub(crate) value: u64,
    /// What is larger is read alone, when its turn has come.
    pub(crate) small: u64,
    /// Waits for that turn.
    pub(crate) turn: &'a (dyn Fn() + Sync),
    /// Whether secrets and personal data become placeholders.
    pub(crate) redacts: bool,
    pub(crate) mapping: Option<&'static Mapping>,
    /// Whether the format of all files was asked for.
    pub(crate) is_forced: bool,
}

impl<'a> Room<'a> {
    /// The shares of so many files in flight; none is smaller than a batch of lines.
    pub(crate) fn new(limits: Limits, in_flight: u64, least: u64, turn: &'a (dyn Fn() + Sync)) -> Self {
        let value = (limits.memory / 8).max(least);
        Room {
            file: limits.file,
            value,
            small: (value / in_flight).max(least),
            turn,
            redacts: false,
            mapping: None,
            is_forced: false,
        }
    }

    /// Reads up to `n` bytes of a value of which `bytes` is the beginning; says whether the reader has ended.
    pub(crate) fn read(
        &self,
        reader: &mut dyn BufRead,
        bytes: &mut Vec<u8>,
        n: u64,
    ) -> std::io::Result<bool> {
        if n > self.small && (bytes.len() as u64) <= self.small {
            if read_head(reader, bytes, self.small.min(n) as usize)? {
                return Ok(true);
            }
            (self.turn)();
        }
        let is_whole = read_head(reader, bytes, n.min(self.value + 1) as usize)?;
        match bytes.len() as u64 > self.value {
            true => Err(self.too_large()),
            false => Ok(is_whole),
        }
    }

    /// Objects that one document or session may hold: about 1 kB of memory each, as messages, steps and rows.
    pub(crate) fn objects(&self) -> u64 {
        self.value / 128
    }

    /// The source of a file with that limit.
    pub(crate) fn source(&self, input: &Input, format: &'static str) -> Source {
        let mut source = Source::new(&input.name, format);
        if names::session(&input.name).is_none() {
            // A file that was given itself lies in a folder, too.
            let path = std::path::absolute(&input.path).ok();
            let session = path.and_then(|path| {
                names::session(&path.to_string_lossy().replace(std::path::MAIN_SEPARATOR, "/"))
            });
            source.stem = session.unwrap_or(source.stem);
        }
        Source {
            most_objects: self.objects(),
            redacts: self.redacts,
            mapping: self.mapping,
            is_forced: self.is_forced,
            ..source
        }
    }

    pub(crate) fn too_many(&self, n_objects: u64) -> std::io::Error {
        let what = format!("more than {n_objects} objects in one document or session{MANY}");
        std::io::Error::new(ErrorKind::FileTooLarge, what)
    }

    pub(crate) fn too_large(&self) -> std::io::Error {
        std::io::Error::new(
            ErrorKind::FileTooLarge,
            format!(
                "more than {} in one document or session\nhint: --max-memory allows an eighth of it to one",
                size(self.value)
            ),
        )
    }
}

/// Bytes for people.
pub(crate) fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// Why a part of a file that is too long to be held is not read.
pub(crate) fn too_long(what: &str, n_bytes: u64) -> String {
    let size = size(n_bytes);
    format!("{what} of {size}, too long\nhint: --max-memory allows an eighth of it to {what}")
}

/// A file of `stored` bytes has more than `max`.
pub(crate) fn too_large(max: u64, stored: u64) -> std::io::Error {
    let what = format!(
        "more than {} unpacked ({} as stored)\nhint: --max-file allows more",
        size(max),
        size(stored)
    );
    std::io::Error::new(ErrorKind::FileTooLarge, what)
}

/// Whether a file as stored begins so.
pub(crate) fn begins_with(path: &Path, mark: &[u8]) -> std::io::Result<bool> {
    let mut start = Vec::new();
    File::open(path)?.take(mark.len() as u64).read_to_end(&mut start)?;
    Ok(start == mark)
}

/// A reader that ends with an error where a file has more than its share.
pub(crate) struct Measured {
    inner: Box<dyn BufRead + Send>,
    left: u64,
    max: u64,
    stored: u64,
}

impl Measured {
    /// `left` bytes may still come; `max` and `stored` are told where more do.
    pub(crate) fn new(inner: Box<dyn BufRead + Send>, left: u64, max: u64, stored: u64) -> Self {
        Measured { inner, left, max, stored }
    }
}

impl BufRead for Measured {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        let bytes = self.inner.fill_buf()?;
        if self.left == 0 && !bytes.is_empty() {
            return Err(too_large(self.max, self.stored));
        }
        let n = bytes.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        Ok(&bytes[..n])
    }

    fn consume(&mut self, n: usize) {
        self.left = self.left.saturating_sub(n as u64);
        self.inner.consume(n);
    }
}

impl Read for Measured {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.fill_buf()?;
        let n = bytes.len().min(to.len());
        to[..n].copy_from_slice(&bytes[..n]);
        self.consume(n);
        Ok(n)
    }
}

/// Reads on until at least `n` bytes are there, or the end; says whether it is the end.
pub(crate) fn read_head(reader: &mut dyn BufRead, head: &mut Vec<u8>, n: usize) -> std::io::Result<bool> {
    let missing = n.saturating_sub(head.len()) as u64;
    let got = reader.take(missing).read_to_end(head)?;
    Ok((got as u64) < missing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    /// Its name below what was given says nothing of it.
    #[test]
    fn a_session_whose_files_are_named_alike_is_named_by_its_folder() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("s-1");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("context.jsonl"), "x").unwrap();
        let room = Room::new(Limits::default(), 1, 1, &|| {});
        for given in [dir.path().to_owned(), folder.clone(), folder.join("context.jsonl")] {
            let inputs = find(&[given]).unwrap();
            assert_eq!(room.source(&inputs[0], "kimi-cli").stem, "s-1");
        }
    }

    #[test]
    fn compression_is_told_by_content_also_in_several_frames() {
        let dir = tempfile::tempdir().unwrap();
        let read = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            let mut text = String::new();
            open(&path).unwrap().read_to_string(&mut text).unwrap();
            text
        };
        let frames =
            [zstd::encode_all(&b"one "[..], 1).unwrap(), zstd::encode_all(&b"two"[..], 1).unwrap()].concat();
        assert_eq!(read("a.jsonl", &frames), "one two");
        let mut members = Vec::new();
        for part in [&b"one "[..], b"two"] {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(part).unwrap();
            members.extend(encoder.finish().unwrap());
        }
        assert_eq!(read("b.txt", &members), "one two");
        assert_eq!(read("c.gz", b"plain"), "plain");
        let index = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, b'x', b'y'];
        assert_eq!(read("d.zst", &[&b"\0\0\n"[..], &index, &frames, &index].concat()), "one two");
        assert_eq!(read("e", &[&[0; 99][..], &members].concat()), "one two");
        let small = |bytes: &[u8]| {
            let path = dir.path().join("small");
            std::fs::write(&path, bytes).unwrap();
            read_small(&path, 1000, 1000).unwrap().bytes
        };
        assert_eq!(small(&[&index[..], &frames].concat()), b"one two");
        assert_eq!(small(&[&[0; 99][..], &members].concat()), b"one two");
    }

    #[test]
    fn a_small_file_that_is_large_uncompressed_is_read_on() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.zst");
        std::fs::write(&path, zstd::encode_all(&b"one two"[..], 1).unwrap()).unwrap();
        let mut text = String::new();
        let small = read_small(&path, 3, 100).unwrap();
        small.rest.unwrap().read_to_string(&mut text).unwrap();
        assert_eq!((small.bytes.as_slice(), text.as_str()), (&b""[..], "one two"));
        let whole = read_small(&path, 8, 100).unwrap();
        assert!(whole.bytes == b"one two" && whole.rest.is_none());
    }

    #[test]
    fn files_are_found_in_order_without_hidden_ones() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("b/.git")).unwrap();
        std::fs::create_dir(dir.path().join(".crush")).unwrap();
        for name in
            ["b/z.json", "b/.git/x", "a.json", ".hidden", "b/.aider.chat.history.md", ".crush/crush.db"]
        {
            std::fs::write(dir.path().join(name), "{}").unwrap();
        }
        let (inputs, n_hidden) = look(&[dir.path().to_owned()]).unwrap();
        let names: Vec<String> = inputs.into_iter().map(|i| i.name).collect();
        assert_eq!(names, [".crush/crush.db", "a.json", "b/.aider.chat.history.md", "b/z.json"]);
        assert_eq!(n_hidden, 2, "a file, and a folder with all in it");
        assert!(find(&[dir.path().join("none")]).is_err());
        let named = find(&[dir.path().join(".hidden"), "/dev/null".into()]).unwrap();
        assert!(named.iter().any(|i| i.problem.is_some()) && named.len() == 2);
    }
}
