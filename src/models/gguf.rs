//! Reads the header of a GGUF: enough to say what a model is, and whether its file is whole.

use std::fs::{self, File, Metadata};
use std::io::{BufReader, Read as _};
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

/// What a GGUF says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Name of the graph, such as `llama` or `bert`.
    pub architecture: String,
    /// Tokens that the model was trained to read at once.
    pub context: Option<u32>,
    /// Whether the model gives vectors and no text.
    pub is_embedder: bool,
    /// Bytes that the file must have at least, by what its tensors say.
    pub needed: u64,
}

/// Elements and bytes of a block, by type of tensor.
const BLOCKS: [(u32, u64, u64); 32] = [
    (0, 1, 4),
    (1, 1, 2),
    (2, 32, 18),
    (3, 32, 20),
    (6, 32, 22),
    (7, 32, 24),
    (8, 32, 34),
    (9, 32, 40),
    (10, 256, 84),
    (11, 256, 110),
    (12, 256, 144),
    (13, 256, 176),
    (14, 256, 210),
    (15, 256, 292),
    (16, 256, 66),
    (17, 256, 74),
    (18, 256, 98),
    (19, 256, 50),
    (20, 32, 18),
    (21, 256, 110),
    (22, 256, 82),
    (23, 256, 136),
    (24, 1, 1),
    (25, 1, 2),
    (26, 1, 4),
    (27, 1, 8),
    (28, 1, 8),
    (29, 256, 56),
    (30, 1, 2),
    (34, 256, 54),
    (35, 256, 66),
    (39, 32, 17),
];
const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// Where things stand in a GGUF.
pub(super) struct Layout {
    header: Header,
    /// Where the tensors' bytes begin.
    pub(super) data: u64,
    /// Every tensor begins at a multiple of it.
    pub(super) alignment: u64,
    /// Where the value of `general.file_type` stands.
    pub(super) file_type_at: Option<u64>,
    pub(super) tensors: Vec<Tensor>,
}

/// One tensor of a GGUF.
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) elements: u64,
    pub(super) kind: u32,
    /// Where its type stands in the file, 4 bytes, and after it its offset, 8 bytes.
    pub(super) kind_at: u64,
    /// Where its bytes begin, counted from those of all tensors.
    pub(super) offset: u64,
    /// None where the type is newer than this program.
    pub(super) bytes: Option<u64>,
}

/// Reads the header and compares the file's length with what its tensors need.
///
/// Fails, with the cure, if the file cannot be read, is no GGUF of version 2 or 3, or is truncated.
pub fn read(path: &Path) -> anyhow::Result<Header> {
    layout(path).map(|layout| layout.header)
}

/// Like [`read`], with the places of all that it read.
pub(super) fn layout(path: &Path) -> anyhow::Result<Layout> {
    let length = regular(path)?.len();
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut cursor = Cursor { file: BufReader::with_capacity(1 << 16, file), at: 0, length };
    let layout = walk(&mut cursor).with_context(|| format!("{} is not usable", path.display()))?;
    ensure!(
        length >= layout.header.needed,
        "{} is truncated: {length} bytes, its tensors need {}\nhint: get it again",
        path.display(),
        layout.header.needed
    );
    Ok(layout)
}

/// What the system says of a file. A pipe, which would be waited for without end, or a folder is refused.
pub(super) fn regular(path: &Path) -> anyhow::Result<Metadata> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    ensure!(
        metadata.is_file(),
        "{} is no regular file\nhint: a model is one file; a pipe or a folder is none",
        path.display()
    );
    Ok(metadata)
}

fn walk(cursor: &mut Cursor) -> anyhow::Result<Layout> {
    let magic = cursor.bytes::<4>()?;
    ensure!(
        &magic == b"GGUF",
        "not a GGUF, it begins with `{}`\nhint: models are files of llama.cpp's format; its convert_hf_to_gguf.py makes them of others",
        magic.escape_ascii()
    );
    let version = cursor.u32()?;
    ensure!(
        (2..=3).contains(&version),
        "GGUF version {version}, expected 2 or 3\nhint: convert it anew with a present llama.cpp"
    );
    let (n_tensors, n_fields) = (cursor.u64()?, cursor.u64()?);
    let mut header = Header { architecture: String::new(), context: None, is_embedder: false, needed: 0 };
    let (mut alignment, mut file_type_at) = (32, None);
    for _ in 0..n_fields {
        let key = cursor.string()?;
        let kind = cursor.u32()?;
        match (key.as_str(), kind) {
            ("general.architecture", STRING) => header.architecture = cursor.string()?,
            ("general.alignment", 4) => alignment = u64::from(cursor.u32()?).max(1),
            ("general.file_type", 4) => {
                file_type_at = Some(cursor.at);
                cursor.skip(4)?;
            }
            (key, 4) if key.ends_with(".context_length") => header.context = Some(cursor.u32()?),
            (key, kind) => {
                // Only models that give vectors say how they pool.
                header.is_embedder |= key.ends_with(".pooling_type");
                cursor.skip_value(kind, 0)?;
            }
        }
    }
    let (mut end, mut tensors) = (0, Vec::new());
    for _ in 0..n_tensors {
        let name = cursor.string()?;
        let mut elements: u64 = 1;
        for _ in 0..cursor.u32()? {
            elements = elements.saturating_mul(cursor.u64()?);
        }
        let kind_at = cursor.at;
        let kind = cursor.u32()?;
        let offset = cursor.u64()?;
        let bytes = BLOCKS.iter().find(|b| b.0 == kind).map(|b| elements.div_ceil(b.1).saturating_mul(b.2));
        // A type newer than this table counts for nothing: only its beginning must be there.
        end = end.max(
            offset.checked_add(bytes.unwrap_or(0)).with_context(|| format!("tensor `{name}` has no end"))?,
        );
        tensors.push(Tensor { name, elements, kind, kind_at, offset, bytes });
    }
    let data = cursor.at.next_multiple_of(alignment);
    header.needed = data.saturating_add(end);
    Ok(Layout { header, data, alignment, file_type_at, tensors })
}

/// Reads forward, and knows where the file ends, so that a length in it is never believed unchecked.
struct Cursor {
    file: BufReader<File>,
    at: u64,
    length: u64,
}

impl Cursor {
    fn take(&mut self, n: u64) -> anyhow::Result<()> {
        let left = self.length.saturating_sub(self.at);
        ensure!(
            n <= left,
            "truncated: it ends at byte {} within its header\nhint: get it again",
            self.length
        );
        self.at += n;
        Ok(())
    }

    fn bytes<const N: usize>(&mut self) -> anyhow::Result<[u8; N]> {
        self.take(N as u64)?;
        let mut bytes = [0; N];
        self.file.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn u32(&mut self) -> anyhow::Result<u32> {
        self.bytes().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> anyhow::Result<u64> {
        self.bytes().map(u64::from_le_bytes)
    }

    fn string(&mut self) -> anyhow::Result<String> {
        let n = self.u64()?;
        self.take(n)?;
        let mut bytes = vec![0; usize::try_from(n)?];
        self.file.read_exact(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn skip(&mut self, n: u64) -> anyhow::Result<()> {
        self.take(n)?;
        Ok(self.file.seek_relative(i64::try_from(n)?)?)
    }

    fn skip_value(&mut self, kind: u32, depth: u32) -> anyhow::Result<()> {
        let size = |kind| match kind {
            0 | 1 | 7 => Some(1),
            2 | 3 => Some(2),
            4..=6 => Some(4),
            10..=12 => Some(8),
            _ => None,
        };
        match (kind, size(kind)) {
            (_, Some(n)) => self.skip(n),
            (STRING, _) => {
                let n = self.u64()?;
                self.skip(n)
            }
            (ARRAY, _) if depth < 4 => {
                let (inner, n) = (self.u32()?, self.u64()?);
                match size(inner) {
                    Some(one) => self.skip(n.saturating_mul(one)),
                    None => (0..n).try_for_each(|_| self.skip_value(inner, depth + 1)),
                }
            }
            _ => bail!("a field of unknown type {kind}\nhint: convert it anew with a present llama.cpp"),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A GGUF of one f32 vector of 8.
    pub(crate) fn tiny(architecture: &str) -> Vec<u8> {
        let string = |s: &str| [&(s.len() as u64).to_le_bytes()[..], s.as_bytes()].concat();
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(3u32.to_le_bytes());
        bytes.extend(1u64.to_le_bytes());
        bytes.extend(3u64.to_le_bytes());
        bytes.extend(
            [string("general.architecture"), STRING.to_le_bytes().to_vec(), string(architecture)].concat(),
        );
        bytes.extend(string("x.context_length"));
        bytes.extend([4u32, 512].map(u32::to_le_bytes).concat());
        bytes.extend(string("tokens"));
        bytes.extend([ARRAY, STRING].map(u32::to_le_bytes).concat());
        bytes.extend(2u64.to_le_bytes());
        bytes.extend([string("a"), string("bc")].concat());
        bytes.extend(string("weight"));
        bytes.extend(1u32.to_le_bytes());
        bytes.extend(8u64.to_le_bytes());
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(0u64.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(32), 0);
        bytes.extend([0; 32]);
        bytes
    }

    fn of(bytes: &[u8]) -> anyhow::Result<Header> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x.gguf");
        std::fs::write(&path, bytes).unwrap();
        read(&path)
            .map_err(|e| anyhow::anyhow!(format!("{e:#}").replace(&path.display().to_string(), "x.gguf")))
    }

    #[test]
    fn a_header_says_what_the_file_is() {
        let bytes = tiny("llama");
        let header = of(&bytes).unwrap();
        assert_eq!(header.architecture, "llama");
        assert_eq!((header.context, header.is_embedder), (Some(512), false));
        assert_eq!(header.needed, bytes.len() as u64);
    }

    #[test]
    fn every_truncation_is_seen() {
        let bytes = tiny("llama");
        for n in 0..bytes.len() {
            let error = of(&bytes[..n]).unwrap_err().to_string();
            assert!(error.contains("truncated"), "{n}: {error}");
        }
    }

    #[test]
    fn other_files_are_told() {
        let mut old = tiny("llama");
        old[4] = 1;
        let mut lying = tiny("llama");
        lying[24..32].copy_from_slice(&u64::MAX.to_le_bytes());
        let mut all = String::new();
        for bytes in [b"PK\x03\x04 a zip".to_vec(), old, lying] {
            all.push_str(&format!("{}\n\n", of(&bytes).unwrap_err()));
        }
        insta::assert_snapshot!(all, @r"
        x.gguf is not usable: not a GGUF, it begins with `PK\x03\x04`
        hint: models are files of llama.cpp's format; its convert_hf_to_gguf.py makes them of others

        x.gguf is not usable: GGUF version 1, expected 2 or 3
        hint: convert it anew with a present llama.cpp

        x.gguf is not usable: truncated: it ends at byte 224 within its header
        hint: get it again
        ");
    }
}
