//! Word lists, and the hash by which words are compared.

/// FNV-1a of the ASCII-lowercased bytes, 32 bits. Two words of one text collide about once in 10^9
/// pairs, and a collision costs one cue.
pub(crate) fn hash(word: &[u8]) -> u32 {
    word.iter().fold(0x811c_9dc5, |h, &b| (h ^ u32::from(b.to_ascii_lowercase())).wrapping_mul(0x0100_0193))
}

/// A set of words by their hash: open addressing, at most a quarter full, since every word of every
/// log is looked up.
pub(crate) struct Words {
    slots: Box<[u32]>,
}

impl Words {
    /// Words are separated by whitespace; lines that begin with `#` are comments.
    pub(crate) fn new(list: &str) -> Self {
        Self::from_iter(words(list))
    }

    fn from_iter<'a>(words: impl Iterator<Item = &'a str>) -> Self {
        let hashes: Vec<u32> = words.map(|w| hash(w.as_bytes())).collect();
        let mut set = Words { slots: vec![0; (hashes.len() * 4).next_power_of_two()].into() };
        for h in hashes {
            let slot = set.slot(h);
            set.slots[slot] = h;
        }
        set
    }

    pub(crate) fn contains(&self, hash: u32) -> bool {
        self.slots[self.slot(hash)] == hash
    }

    /// Where the hash stands, or the free slot where it would. 0 marks a free slot.
    fn slot(&self, hash: u32) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = hash as usize & mask;
        while self.slots[at] != 0 && self.slots[at] != hash {
            at = (at + 1) & mask;
        }
        at
    }
}

fn words(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace)
}

/// The word lists of the lexer.
pub(crate) struct Lists {
    /// Never cues.
    pub(crate) stop: Words,
    /// Never atoms by their shape alone.
    pub(crate) not_atoms: Words,
    /// File name extensions.
    pub(crate) extensions: Words,
    /// Extensions that count only behind a folder.
    pub(crate) weak_extensions: Words,
    /// Extensions that are names of modules as well: `django.utils.html`.
    pub(crate) module_extensions: Words,
    /// Nouns that bear a number.
    pub(crate) nouns: Words,
    /// Names of folders that make `x/y` a path.
    pub(crate) folders: Words,
    /// Files without extension.
    pub(crate) files: Words,
    /// Names of system errors.
    pub(crate) errnos: Words,
    /// Hash and canonical form of each unit, sorted.
    units: Vec<(u32, &'static str)>,
}

impl Lists {
    pub(crate) fn new() -> Self {
        let extensions = include_str!("../data/lexer/extensions.txt");
        let split = extensions.find("\n*").expect("the list has weak extensions after `*`");
        let mut units: Vec<_> = include_str!("../data/lexer/units.txt")
            .lines()
            .filter(|line| !line.starts_with('#'))
            .filter_map(|line| line.split_once(' '))
            .map(|(spelling, unit)| (hash(spelling.as_bytes()), unit))
            .collect();
        units.sort_unstable();
        Lists {
            stop: Words::new(include_str!("../data/lexer/stop_words.txt")),
            not_atoms: Words::new(include_str!("../data/lexer/not_atoms.txt")),
            extensions: Words::new(&extensions[..split]),
            weak_extensions: Words::new(&extensions[split + 2..]),
            module_extensions: Words::new(include_str!("../data/lexer/module_extensions.txt")),
            nouns: Words::new(include_str!("../data/lexer/numbered_nouns.txt")),
            folders: Words::new(include_str!("../data/lexer/folders.txt")),
            files: Words::new(include_str!("../data/lexer/files.txt")),
            errnos: Words::new(include_str!("../data/lexer/errnos.txt")),
            units,
        }
    }

    /// Canonical form of a unit.
    pub(crate) fn unit(&self, spelling: &[u8]) -> Option<&'static str> {
        let wanted = hash(spelling);
        let at = self.units.binary_search_by_key(&wanted, |&(h, _)| h).ok()?;
        Some(self.units[at].1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read() {
        let lists = Lists::new();
        assert!(lists.stop.contains(hash(b"The")) && !lists.stop.contains(hash(b"server")));
        assert!(lists.extensions.contains(hash(b"py")) && !lists.extensions.contains(hash(b"db")));
        assert!(lists.weak_extensions.contains(hash(b"db")));
        assert_eq!(lists.unit(b"Seconds"), Some("s"));
        assert_eq!(lists.unit(b"apples"), None);
    }
}
