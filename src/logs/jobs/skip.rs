//! Goes behind what is too long to be held, and tells it.

use std::io::BufRead;

use crate::logs::formats::reading::repair::padding;
use crate::logs::formats::reading::scan::{Scanned, Scanner};
use crate::logs::input;
use crate::logs::part::{Part, Rejected};

/// Lines or items at the beginning of a file that are too long to be held. The rest tells what the file is.
#[derive(Default)]
pub(super) struct Skipped {
    pub(super) n_bytes: u64,
    pub(super) n_lines: u64,
}

impl Skipped {
    /// Skips the value of which only the beginning is held; says whether there is such a one, and something behind it.
    pub(super) fn skip(
        &mut self,
        reader: &mut dyn BufRead,
        head: &mut Vec<u8>,
        part: &mut Part,
    ) -> std::io::Result<bool> {
        let start = padding(head);
        let is_line = head.get(start) == Some(&b'{') && memchr::memchr(b'\n', &head[start..]).is_none();
        let list = &head[start..];
        let item = match list.strip_prefix(b"[") {
            Some(items) if self.n_lines == 0 => start + 1 + padding(items),
            _ => head.len(),
        };
        let (n, what) = if is_line {
            (skip_line(reader)?, "a line")
        } else if head.get(item) == Some(&b'{') {
            (skip_item(reader, &head[item..])?, "an item")
        } else {
            return Ok(false);
        };
        let begin = if is_line { start } else { item };
        let size = (head.len() - begin) as u64 + n;
        if reader.fill_buf()?.is_empty() {
            return Ok(false);
        }
        let line =
            is_line.then_some(1 + self.n_lines + memchr::memchr_iter(b'\n', &head[..start]).count() as u64);
        part.reject(line, self.n_bytes + begin as u64, input::too_long(what, size));
        self.n_lines = line.unwrap_or(0);
        self.n_bytes += begin as u64 + size;
        head.clear();
        if !is_line {
            // The rest is a list still.
            head.push(b'[');
            self.n_bytes -= 1;
        }
        Ok(true)
    }

    /// Places in what comes behind, as places in the file.
    pub(super) fn move_behind(&self, rejects: &mut [Rejected]) {
        for reject in rejects {
            reject.offset += self.n_bytes;
            reject.line = reject.line.map(|line| line + self.n_lines);
        }
    }
}

/// Goes behind the end of a line; says how many bytes that were.
pub(super) fn skip_line(reader: &mut dyn BufRead) -> std::io::Result<u64> {
    let mut size = 0;
    loop {
        let more = reader.fill_buf()?;
        let end = memchr::memchr(b'\n', more);
        let n = end.map_or(more.len(), |at| at + 1);
        reader.consume(n);
        size += n as u64;
        if end.is_some() || n == 0 {
            return Ok(size);
        }
    }
}

/// The same for an item of a list, and the comma behind it; of a broken one it is where that shows.
fn skip_item(reader: &mut dyn BufRead, begin: &[u8]) -> std::io::Result<u64> {
    let mut scanner = Scanner::default();
    let (mut size, mut is_open) = (0, scanner.scan(begin) == Scanned::Open);
    loop {
        let more = reader.fill_buf()?;
        let (n, is_end) = match is_open {
            true => match scanner.scan(more) {
                Scanned::Ended(n) | Scanned::Broken(n) => {
                    is_open = false;
                    (n, false)
                }
                Scanned::Open => (more.len(), more.is_empty()),
            },
            false => {
                let n = more.iter().take_while(|b| **b == b',' || b.is_ascii_whitespace()).count();
                (n, n < more.len() || more.is_empty())
            }
        };
        reader.consume(n);
        size += n as u64;
        if is_end {
            return Ok(size);
        }
    }
}
