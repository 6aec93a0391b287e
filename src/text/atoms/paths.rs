//! Files, folders, hosts and URLs, and flags.

use crate::text::words;

use super::AtomKind;
use super::lexer::{Key, Lexer};
use super::shapes::{CLASS, DASH, DIGIT, LETTER, UNDER, is_blob, is_slashed_date, is_word, version};

impl<'a> Lexer<'a> {
    pub(super) fn dotted(&mut self, start: usize, end: usize, key: Option<Key>) {
        let start = start + self.bytes[start..end].iter().take_while(|&&b| b == b'.').count();
        let begins_with_dot = self.previous(start) == Some(b'.');
        let text = self.text;
        let chunk = &text[start..end];
        if begins_with_dot && self.lists.files.contains(words::hash(&self.bytes[start - 1..end])) {
            return self.emit(AtomKind::Path, start - 1, end, &text[start - 1..end]);
        }
        if !chunk.contains('.') {
            return match begins_with_dot && chunk.starts_with(|c: char| c.is_ascii_digit()) {
                true => self.word += 1,
                false => self.classify(start, end, None),
            };
        }
        let numeric = chunk.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        if numeric && !chunk.contains("..") {
            return self.numeric(start, end, key);
        }
        if let Some(version) = version(chunk) {
            return self.emit(AtomKind::Version, start, end, version);
        }
        if chunk.starts_with(|c: char| c.is_ascii_digit()) && self.unit_number(start, end) {
            return;
        }
        if self.is_file(start, end) {
            return self.emit_as_is(AtomKind::Path, start, end);
        }
        if self.is_host(start, end) {
            return self.emit(AtomKind::Url, start, end, chunk.to_ascii_lowercase());
        }
        if chunk.contains('-') {
            return self.parts_with_version(start, end);
        }
        self.qualified(start, end);
    }

    /// Whether a name without folder is that of a file.
    pub(super) fn is_file(&self, start: usize, end: usize) -> bool {
        let chunk = &self.text[start..end];
        let Some(extension) = self.extension(start, end) else {
            return false;
        };
        let stem = &chunk[..chunk.len() - extension.len() - 1];
        let hash = words::hash(extension.as_bytes());
        let is_module = stem.contains('.')
            && self.lists.module_extensions.contains(hash)
            && stem.bytes().all(|b| b.is_ascii_lowercase() || b == b'.' || b == b'_');
        self.lists.extensions.contains(hash)
            && stem.bytes().any(|b| b.is_ascii_alphanumeric())
            && !stem.starts_with("self.")
            && !is_module
            && self.bytes.get(end) != Some(&b'(')
    }

    /// The known extension of a file name, weak ones included.
    pub(super) fn extension(&self, start: usize, end: usize) -> Option<&'a str> {
        let text = self.text;
        let (stem, extension) = text[start..end].rsplit_once('.')?;
        let hash = words::hash(extension.as_bytes());
        let known = self.lists.extensions.contains(hash) || self.lists.weak_extensions.contains(hash);
        (known && !stem.is_empty() && extension.len() <= 10).then_some(extension)
    }

    fn is_host(&self, start: usize, end: usize) -> bool {
        let chunk = &self.text[start..end];
        let Some((name, domain)) = chunk.rsplit_once('.') else {
            return false;
        };
        matches!(domain, "com" | "org" | "net" | "edu" | "gov")
            && name.len() >= 2
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
            && self.bytes.get(end) != Some(&b'(')
    }

    pub(super) fn slashed(&mut self, start: usize, end: usize) {
        let text = self.text;
        let mut from = start;
        let mut chunk = &text[start..end];
        let mut explicit = false;
        // Behind these a slash goes on with something that is no path of its own.
        let continues = matches!(
            self.previous(start),
            Some(b')' | b']' | b'}' | b'>' | b'*' | b'%' | b'<' | b'$' | b'/' | b'{')
        ) || matches!(self.previous(start), Some(b'"' | b'\''))
            && self.bytes[..start].iter().nth_back(1).is_some_and(|&b| is_word(b));
        if chunk.starts_with("//") || chunk.starts_with('/') && continues {
            let slashes = chunk.len() - chunk.trim_start_matches('/').len();
            from += slashes;
            chunk = &chunk[slashes..];
        }
        while let Some(rest) = chunk.strip_prefix("./").or_else(|| chunk.strip_prefix(".../")) {
            explicit = chunk.starts_with("./");
            from += chunk.len() - rest.len();
            chunk = rest;
        }
        let line = &self.text[self.line..start];
        let in_diff = line.starts_with("diff --git ")
            || line.starts_with("Binary files ")
            || matches!(line, "--- " | "+++ ");
        if let Some(rest) = chunk.strip_prefix("a/").or_else(|| chunk.strip_prefix("b/")).filter(|_| in_diff)
        {
            from += 2;
            chunk = rest;
        }
        let norm = chunk.trim_end_matches('/');
        if !norm.contains('/') && norm.len() == chunk.len() && !explicit {
            return match norm.is_empty() {
                true => self.word += 1,
                false => self.classify(from, end, None),
            };
        }
        if self.host_path(start, end, chunk) {
            return;
        }
        if is_slashed_date(norm) {
            return self.date(from, from + norm.len());
        }
        let single = !norm.contains('/') && norm.len() < chunk.len();
        // `'x'/freq/`: what is left of a script.
        let is_rest = single && continues && self.bytes[start] == b'/';
        if is_rest || !self.is_path(norm, from, explicit, norm.len() < chunk.len()) {
            return self.parts(from, end, b"/");
        }
        // `TestParse/empty_input` is a case of a test.
        let is_case = norm.starts_with("Test") && self.extension(from, from + norm.len()).is_none();
        let kind = if is_case { AtomKind::Identifier } else { AtomKind::Path };
        self.emit(kind, start, end, if single { &chunk[..=norm.len()] } else { norm });
    }

    /// `github.com/owner/name`.
    fn host_path(&mut self, start: usize, end: usize, chunk: &'a str) -> bool {
        let chunk = chunk.trim_start_matches('.');
        let Some((host, _)) = chunk.split_once('/') else {
            return false;
        };
        let known = [".com", ".org", ".net", ".edu", ".gov"]
            .iter()
            .any(|d| host.len() > d.len() && host.ends_with(d));
        if known {
            self.emit(AtomKind::Url, start, end, chunk.trim_end_matches('/'));
        }
        known
    }

    /// Whether a chunk with slashes is a path: by its start, an extension, a known folder, a
    /// component that no word looks like, or three components.
    fn is_path(&self, norm: &str, from: usize, explicit: bool, folder: bool) -> bool {
        let absolute = norm.starts_with('/') || norm.starts_with("~/");
        let relative = norm.trim_start_matches("~/").trim_start_matches('/');
        let parts: Vec<&str> = relative.split('/').collect();
        let n_letters = |p: &str| p.chars().filter(|c| c.is_alphabetic()).count();
        if parts.iter().any(|p| p.is_empty() || is_blob(p)) || parts.iter().all(|p| n_letters(p) < 2) {
            return false;
        }
        if parts[0].trim_start_matches(|c: char| c.is_ascii_digit()) == "s" && !norm.starts_with('/') {
            // `sed`: s/old/new.
            return false;
        }
        let first_hash = words::hash(parts[0].as_bytes());
        let has_extension = self.extension(from, from + norm.len()).is_some();
        if has_extension || explicit || norm.starts_with("../") || norm.starts_with("~/") {
            return true;
        }
        if absolute {
            return n_letters(parts[0]) >= 2 && (parts.len() > 1 || parts[0].len() >= 3);
        }
        if parts.len() == 2
            && matches!(parts[0], "application" | "text" | "image" | "audio" | "video" | "multipart" | "font")
        {
            return false;
        }
        let odd = |p: &&str| p.starts_with('.') && p.len() > 2 || p.contains('_') && n_letters(p) >= 3;
        let is_name = |p: &&str| {
            p.len() >= 2 && n_letters(p) >= 1 && !self.lists.stop.contains(words::hash(p.as_bytes()))
        };
        self.lists.folders.contains(first_hash) && parts.len() > 1
            || parts.iter().any(odd)
            || parts.len() >= 3
                && parts.iter().all(is_name)
                && parts.iter().any(|p| p.starts_with(|c: char| c.is_lowercase()))
            || folder
                && parts.iter().all(is_name)
                && parts[0].len() >= 3
                && !parts[0].starts_with(|c: char| c.is_ascii_uppercase())
    }

    pub(super) fn url(&mut self, start: usize, from: usize) -> usize {
        let mut end = from;
        let mut depth = 0;
        while let Some(&b) = self.bytes.get(end) {
            match b {
                0..=b' ' | b'"' | b'\'' | b'<' | b'>' | b'`' | b'\\' | b'{' | b'}' | b'|' | b'^' | 0x7f => {
                    break;
                }
                b'(' | b'[' => depth += 1,
                b')' | b']' if depth == 0 => break,
                b')' | b']' => depth -= 1,
                0x80.. => {
                    let c = self.char_at(end);
                    if !c.is_alphanumeric() {
                        break;
                    }
                    end += c.len_utf8() - 1;
                }
                _ => {}
            }
            end += 1;
        }
        let text = self.text;
        let norm = text[start..end].trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_', '~', '(', '[']);
        self.key = None;
        match self.bytes[from..start + norm.len().max(from - start)].iter().any(u8::is_ascii_alphanumeric) {
            true => self.emit(AtomKind::Url, start, start + norm.len(), norm.trim_end_matches('/')),
            false => self.word += 1,
        }
        end
    }

    /// `--flag`, or dashes that say nothing.
    pub(super) fn dashes(&mut self, start: usize) -> usize {
        let run = self.bytes[start..].iter().take_while(|&&b| b == b'-').count();
        let name = start + run;
        let opens = !self
            .previous(start)
            .is_some_and(|b| is_word(b) || matches!(b, b')' | b'>' | b'<' | b'!' | b'*' | b'.'));
        if run != 2 || !opens || !self.bytes.get(name).is_some_and(u8::is_ascii_alphabetic) {
            return name;
        }
        let is_flag = |b: &u8| CLASS[*b as usize] & (LETTER | DIGIT | UNDER | DASH) != 0;
        let end = name + self.bytes[name..].iter().take_while(|b| is_flag(b)).count();
        let trimmed = name + self.text[name..end].trim_end_matches(['-', '_']).len();
        if trimmed - name >= 2 && !self.text[..start].ends_with("diff ") {
            self.emit_as_is(AtomKind::Flag, start, trimmed);
            self.key = Some(Key { start: name, end: trimmed, is_flag: true });
        }
        end
    }
}
