//! Compressed logs that may be damaged. A decoder that meets damage has often given wrong text before: pieces of other
//! lines, which may well be JSON. So a frame (of zstd; of gzip a member) is read only if its checksum holds, and of one in
//! which the decoder fails what lies well before; the frames around it are read all the same.

use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use indicatif::BinaryBytes;

use crate::logs::detect::{GZIP, ZSTD};
use crate::logs::formats::reading::list::is_passing;

/// So many unpacked bytes before the place where a decoder fails may be wrong: a block of zstd.
const IN_DOUBT: u64 = 128 << 10;
/// So far back text may be repeated, where a decoder of zstd is not told otherwise.
const MAX_WINDOW: u64 = 128 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packing {
    Zstd,
    Gzip,
}

impl Packing {
    /// How a file is packed, and where that begins: zeros and blanks may stand before.
    pub(super) fn of(head: &[u8]) -> Option<(Packing, usize)> {
        let start = head.iter().take_while(|b| **b == 0 || b.is_ascii_whitespace()).count();
        let packing = match &head[start..] {
            packed if packed.starts_with(ZSTD) || is_skippable(packed) => Packing::Zstd,
            packed if packed.starts_with(GZIP) => Packing::Gzip,
            _ => return None,
        };
        Some((packing, start))
    }

    fn mark(self) -> &'static [u8] {
        match self {
            Packing::Zstd => ZSTD,
            Packing::Gzip => GZIP,
        }
    }

    /// Unpacks the frame that begins here.
    fn frame<'a>(self, packed: impl BufRead + Send + 'a) -> io::Result<Box<dyn Read + Send + 'a>> {
        Ok(match self {
            Packing::Zstd => Box::new(zstd::stream::read::Decoder::with_buffer(packed)?.single_frame()),
            Packing::Gzip => Box::new(flate2::bufread::GzDecoder::new(packed)),
        })
    }
}

/// All frames of a file, unpacked.
pub(super) fn unpacked(
    file: Box<dyn BufRead + Send>,
    packing: Option<Packing>,
    capacity: usize,
) -> std::io::Result<Box<dyn BufRead + Send>> {
    Ok(match packing {
        Some(Packing::Zstd) => {
            let decoder = zstd::stream::read::Decoder::with_buffer(file)?;
            Box::new(BufReader::with_capacity(capacity, decoder))
        }
        Some(Packing::Gzip) => {
            Box::new(BufReader::with_capacity(capacity, flate2::bufread::MultiGzDecoder::new(file)))
        }
        None => file,
    })
}

/// Whether a frame of zstd begins here that holds nothing of the text: of tools that keep an index or their version so.
fn is_skippable(packed: &[u8]) -> bool {
    matches!(packed, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// A part of a packed file.
#[derive(Debug)]
struct Frame {
    start: u64,
    /// Unpacked bytes of it that are read.
    n: u64,
    /// Why there are not more.
    problem: Option<String>,
}

/// Something that is missing.
pub(super) struct Gap {
    /// Where, in the unpacked text.
    pub(super) offset: u64,
    pub(super) reason: String,
}

/// Checks a packed file, of which `max` unpacked bytes are wanted at most. Where something is wrong: a reader of the rest,
/// with a line end at each gap, and the gaps.
pub(super) fn check(path: &Path, max: u64) -> io::Result<Option<(Box<dyn BufRead + Send>, Vec<Gap>)>> {
    let mut file = BufReader::with_capacity(256 << 10, File::open(path)?);
    let Some((packing, start)) = Packing::of(file.fill_buf()?) else {
        return Ok(None);
    };
    if is_sound(path, packing, start as u64, max)? {
        return Ok(None);
    }
    let frames = frames(&mut file, packing, start as u64, max)?;
    let mut gaps = Vec::new();
    let mut offset = 0;
    for frame in &frames {
        offset += frame.n;
        if let Some(reason) = &frame.problem {
            gaps.push(Gap { offset, reason: reason.clone() });
            offset += 1;
        }
    }
    if gaps.is_empty() {
        return Ok(None);
    }
    let rest = Rest { path: path.to_owned(), packing, frames: frames.into_iter(), now: None };
    Ok(Some((Box::new(BufReader::with_capacity(256 << 10, rest)), gaps)))
}

/// Whether a file can be unpacked from its first frame to its last one.
fn is_sound(path: &Path, packing: Packing, start: u64, max: u64) -> io::Result<bool> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::Start(start))?;
    let read = unpacked(Box::new(BufReader::new(file)), Some(packing), 256 << 10);
    match read.and_then(|read| io::copy(&mut read.take(max), &mut io::sink())) {
        Err(error) if is_passing(&error) => Err(error),
        result => Ok(result.is_ok()),
    }
}

/// The frames of a file. Behind a damaged one the next is where one can be unpacked.
fn frames(file: &mut BufReader<File>, packing: Packing, mut start: u64, max: u64) -> io::Result<Vec<Frame>> {
    let mut frames: Vec<Frame> = Vec::new();
    let mut buffer = vec![0; 128 << 10];
    let mut left = max;
    while left > 0 {
        if let (Packing::Zstd, Some(n)) = (packing, skippable(file, start)?) {
            start += n;
            continue;
        }
        go(file, start)?;
        let Some(first) = file.fill_buf()?.first().copied() else {
            break;
        };
        let is_damaged = frames.last().is_some_and(|frame| frame.problem.is_some());
        let begins = starts_with(file, start, packing.mark())?;
        let frame = match begins || !is_damaged && first != 0 {
            true => frame(file, packing, start, left, &mut buffer)?,
            // Zeros are padding; behind damage all is damaged up to the next frame.
            false => Frame { start, n: 0, problem: None },
        };
        let end = file.stream_position()?;
        left -= frame.n.min(left);
        match (&frame.problem, is_damaged) {
            (None, _) if begins => start = end.max(start + 1),
            _ => match next_mark(file, start + 1, packing.mark())? {
                Some(next) => start = next,
                None => left = 0,
            },
        }
        // One damage is told once.
        if frame.n > 0 || frame.problem.is_some() && !is_damaged {
            frames.push(frame);
        }
    }
    Ok(frames)
}

/// Goes to a place in a file. What was read there already is not read again: frames may have a few bytes each.
fn go(file: &mut BufReader<File>, to: u64) -> io::Result<()> {
    let at = file.stream_position()?;
    file.seek_relative(to.wrapping_sub(at).cast_signed())
}

/// Unpacks the frame at `start` to see whether it is sound.
fn frame(
    file: &mut BufReader<File>,
    packing: Packing,
    start: u64,
    max: u64,
    buffer: &mut [u8],
) -> io::Result<Frame> {
    go(file, start)?;
    let mut n = 0;
    let result = packing.frame(&mut *file).and_then(|mut frame| {
        while n < max {
            match frame.read(buffer)? {
                0 => break,
                got => n += got as u64,
            }
        }
        Ok(())
    });
    let Err(error) = result else {
        return Ok(Frame { start, n, problem: None });
    };
    if is_passing(&error) {
        return Err(error);
    }
    if let Some(window) = window(file, packing, start)?.filter(|window| *window > MAX_WINDOW) {
        let log = (window - 1).ilog2() + 1;
        let (window, most) = (BinaryBytes(window), BinaryBytes(MAX_WINDOW));
        let reason = format!(
            "compressed with a window of {window}, and {most} are read\nhint: unpack the file with zstd -d --long={log}"
        );
        return Ok(Frame { start, n, problem: Some(reason) });
    }
    let text = error.to_string();
    // What was unpacked before a cut is right; nobody knows what is wrong where the sum of all is.
    let n = match error.kind() {
        ErrorKind::UnexpectedEof => n,
        _ if text.contains("checksum") => 0,
        _ => n.saturating_sub(IN_DOUBT),
    };
    let reason = match error.kind() {
        ErrorKind::UnexpectedEof => format!("cannot read on: {text}"),
        _ => format!(
            "damaged where it is packed, in the frame at byte {start} of the file as stored: {text}; {n} bytes of the \
             frame are read, more may be wrong\nhint: take a sound copy of the file"
        ),
    };
    Ok(Frame { start, n, problem: Some(reason) })
}

/// How far back the text of the frame here may be repeated, as its header says.
fn window(file: &mut BufReader<File>, packing: Packing, at: u64) -> io::Result<Option<u64>> {
    go(file, at)?;
    let mut head = Vec::new();
    file.by_ref().take(18).read_to_end(&mut head)?;
    Ok(match (packing, head.get(4), head.get(5)) {
        (Packing::Gzip, ..) => None,
        (_, Some(descriptor), Some(window)) if descriptor & 0x20 == 0 => {
            let base = 1 << (10 + (window >> 3));
            Some(base + base / 8 * u64::from(window & 7))
        }
        // Such a frame is a window as a whole.
        _ => zstd::zstd_safe::get_frame_content_size(&head).ok().flatten(),
    })
}

/// The length of the frame here, if it holds nothing of the text.
fn skippable(file: &mut BufReader<File>, at: u64) -> io::Result<Option<u64>> {
    go(file, at)?;
    let mut head = Vec::new();
    file.by_ref().take(8).read_to_end(&mut head)?;
    Ok(match head.as_slice() {
        [.., a, b, c, d] if head.len() == 8 && is_skippable(&head) => {
            Some(8 + u64::from(u32::from_le_bytes([*a, *b, *c, *d])))
        }
        _ => None,
    })
}

fn starts_with(file: &mut BufReader<File>, at: u64, mark: &[u8]) -> io::Result<bool> {
    go(file, at)?;
    let mut head = Vec::new();
    file.by_ref().take(mark.len() as u64).read_to_end(&mut head)?;
    Ok(head == mark)
}

/// Where the next frame may begin.
fn next_mark(file: &mut BufReader<File>, from: u64, mark: &[u8]) -> io::Result<Option<u64>> {
    go(file, from)?;
    let (mut offset, mut window) = (from, Vec::new());
    loop {
        let n = file.by_ref().take(1 << 20).read_to_end(&mut window)?;
        if let Some(found) = memchr::memmem::find(&window, mark) {
            return Ok(Some(offset + found as u64));
        }
        if n == 0 {
            return Ok(None);
        }
        let kept = window.len().saturating_sub(mark.len() - 1);
        window.drain(..kept);
        offset += kept as u64;
    }
}

/// The sound text of a damaged file.
struct Rest {
    path: PathBuf,
    packing: Packing,
    frames: std::vec::IntoIter<Frame>,
    now: Option<Box<dyn Read + Send>>,
}

impl Read for Rest {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(now) = &mut self.now {
                match now.read(to)? {
                    0 if !to.is_empty() => self.now = None,
                    n => return Ok(n),
                }
            }
            let Some(frame) = self.frames.next() else {
                return Ok(0);
            };
            let gap: &[u8] = if frame.problem.is_some() { b"\n" } else { b"" };
            let text: Box<dyn Read + Send> = match frame.n {
                0 => Box::new(io::empty()),
                n => {
                    let mut file = File::open(&self.path)?;
                    file.seek(SeekFrom::Start(frame.start))?;
                    Box::new(self.packing.frame(BufReader::with_capacity(64 << 10, file))?.take(n))
                }
            };
            self.now = Some(Box::new(text.chain(gap)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    fn zstd_frame(text: &str) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 3).unwrap();
        encoder.include_checksum(true).unwrap();
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    fn gzip_member(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.finish().unwrap()
    }

    /// Text that packs badly enough to have blocks of its own.
    fn text(name: &str, n: usize) -> String {
        (0..n).map(|i| format!("{name} {i} {}\n", (i * 2_654_435_761) % 1_000_003)).collect()
    }

    fn read(bytes: &[u8]) -> Option<(String, Vec<u64>)> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, bytes).unwrap();
        let (mut reader, gaps) = check(&path, u64::MAX).unwrap()?;
        let mut out = String::new();
        reader.read_to_string(&mut out).unwrap();
        Some((out, gaps.into_iter().map(|gap| gap.offset).collect()))
    }

    #[test]
    fn a_damaged_frame_costs_itself_alone() {
        for pack in [zstd_frame, gzip_member] {
            let (a, b, c) = (text("a", 2000), text("b", 2000), text("c", 2000));
            let [first, second, third] = [&a, &b, &c].map(|text| pack(text));
            assert_eq!(read(&[&first[..], &second, &third].concat()), None);
            // Whatever bit is flipped: no line that was not there, and the frames around it.
            for bit in (8 * 30..8 * second.len()).step_by(2003) {
                let mut bad = second.clone();
                bad[bit / 8] ^= 1 << (bit % 8);
                let (text, gaps) = read(&[&first[..], &bad, &third].concat()).unwrap();
                assert_eq!((text, gaps), (format!("{a}\n{c}"), vec![a.len() as u64]), "{bit}");
            }
            // What was unpacked before a cut is right.
            let (text, gaps) = read(&[&first[..], &second[..second.len() - 9]].concat()).unwrap();
            let told = text.strip_suffix('\n').unwrap();
            assert!(told.starts_with(&a) && format!("{a}{b}").starts_with(told));
            assert_eq!(gaps, [told.len() as u64]);
        }
    }

    /// Each costs what it has, and not a look at all that is behind it.
    #[test]
    fn many_small_frames_are_read_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        let index = [0x5a, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, b'x'];
        let one = [&zstd_frame("")[..], &index, &zstd_frame("x\n")].concat();
        std::fs::write(&path, one.repeat(200_000)).unwrap();
        let start = std::time::Instant::now();
        assert!(check(&path, u64::MAX).unwrap().is_none());
        assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
    }

    #[test]
    fn a_window_that_is_too_large_is_no_damage() {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(28).unwrap();
        encoder.write_all(b"x\n").unwrap();
        let wide = encoder.finish().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("x");
        std::fs::write(&path, [&zstd_frame("a\n")[..], &wide, &zstd_frame("b\n")].concat()).unwrap();
        let (mut reader, gaps) = check(&path, u64::MAX).unwrap().unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "a\n\nb\n");
        assert_eq!(
            gaps[0].reason,
            "compressed with a window of 256.00 MiB, and 128.00 MiB are read\nhint: unpack the file with zstd -d --long=28"
        );
    }

    #[test]
    fn what_lies_well_before_damage_is_read() {
        let a = text("a", 60_000);
        let mut bad = gzip_member(&a);
        let at = bad.len() * 3 / 4;
        // No block has this type.
        bad[at..at + 40].fill(0xff);
        if let Some((text, gaps)) = read(&bad) {
            let told = text.strip_suffix('\n').unwrap();
            assert!(a.starts_with(told), "{}", told.len());
            assert_eq!(gaps, [told.len() as u64]);
        }
        // Padding behind the last frame, and an empty one, are no damage.
        assert_eq!(read(&[gzip_member("x"), vec![0; 512]].concat()), None);
        assert_eq!(read(&[zstd_frame(""), zstd_frame("x")].concat()), None);
        // Nor are zeros before the first one, or frames that hold nothing of the text.
        let index = [&[0x5a, 0x2a, 0x4d, 0x18, 8, 0, 0, 0][..], ZSTD, b"\0xyz"].concat();
        let (first, second) = (zstd_frame("x\n"), zstd_frame("y\n"));
        assert_eq!(read(&[&index[..], &first, &index, &second].concat()), None);
        assert_eq!(read(&[&[0; 300][..], &gzip_member("x")].concat()), None);
        let mut bad = second.clone();
        bad[10] ^= 4;
        let (text, gaps) = read(&[b"\0\0 ", &index[..], &first, &bad, &index, &first].concat()).unwrap();
        assert_eq!((text.as_str(), gaps), ("x\n\nx\n", vec![2]));
    }
}
