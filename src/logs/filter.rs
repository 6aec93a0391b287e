//! Which of the files that are found are read: by their names, and by when they were changed.

use std::time::{Duration, SystemTime};

use regex::RegexSet;

use super::formats::reading::time;
use super::input::Input;

/// What is asked for. Patterns are of names as they stand in the tables; `*` goes over folders, too. One without a slash is of
/// any part of a name, and a folder is all that lies in it.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Files that were changed before are left out.
    pub since: Option<SystemTime>,
    /// If there are some, only files that one of them fits.
    pub include: Vec<String>,
    /// No file that one of them fits.
    pub exclude: Vec<String>,
}

impl Filter {
    /// Leaves the files that are asked for; says how many went, and which patterns fit none. Those that are read together
    /// stay or go together: by the name of the first, and by the newest.
    pub(super) fn apply(&self, inputs: &mut Vec<Input>) -> anyhow::Result<(u64, Vec<String>)> {
        let (include, exclude) = (globs(&self.include)?, globs(&self.exclude)?);
        let unfit = [("--include", &self.include, &include), ("--exclude", &self.exclude, &exclude)];
        let unfit = unfit.into_iter().flat_map(|(option, patterns, globs)| {
            let mut fit = vec![false; patterns.len()];
            let names = inputs.iter().flat_map(|input| [input].into_iter().chain(&input.parts));
            names.for_each(|file| globs.matches(&file.name).into_iter().for_each(|i| fit[i] = true));
            let unfit = patterns.iter().zip(fit).filter(|(_, fits)| !fits);
            unfit.map(move |(pattern, _)| format!("{option} {pattern}"))
        });
        let unfit: Vec<String> = unfit.collect();
        let n_files = |inputs: &[Input]| inputs.iter().map(|input| 1 + input.parts.len() as u64).sum::<u64>();
        let n_all = n_files(inputs);
        inputs.retain(|input| {
            let is_new = |since: SystemTime| {
                [&*input].into_iter().chain(&input.parts).any(|file| {
                    let changed = std::fs::metadata(&file.path).and_then(|about| about.modified());
                    // Of what cannot be told, the reading tells why.
                    changed.map_or(true, |changed| changed >= since)
                })
            };
            (self.include.is_empty() || include.is_match(&input.name))
                && !exclude.is_match(&input.name)
                && self.since.is_none_or(is_new)
        });
        Ok((n_all - n_files(inputs), unfit))
    }
}

/// A point in time: `2026-01-31` is the beginning of that day, UTC; `12h`, `7d`, `2w` are so long ago.
///
/// # Errors
/// What is written is neither.
pub fn since(text: &str) -> Result<SystemTime, String> {
    time_of(text)
        .ok_or_else(|| "expected a day, such as 2026-01-31, or a time, such as 12h, 7d or 2w".to_owned())
}

fn time_of(text: &str) -> Option<SystemTime> {
    if let Some(micros) = time::parse_iso(&format!("{text}T00:00:00")).filter(|_| text.len() == 10) {
        let micros = Duration::from_micros(u64::try_from(micros).ok()?);
        return SystemTime::UNIX_EPOCH.checked_add(micros);
    }
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let seconds = match unit {
        "h" => 3600,
        "d" => 24 * 3600,
        "w" => 7 * 24 * 3600,
        _ => return None,
    };
    let ago = number.parse::<u64>().ok()?.checked_mul(seconds)?;
    SystemTime::now().checked_sub(Duration::from_secs(ago))
}

/// Patterns as expressions.
fn globs(patterns: &[String]) -> anyhow::Result<RegexSet> {
    let expressions = patterns.iter().map(|pattern| expression(pattern));
    RegexSet::new(expressions).map_err(|error| {
        let what = error.to_string().lines().last().unwrap_or_default().to_owned();
        anyhow::anyhow!(
            "no pattern: {what}\nhint: such as `*.jsonl`, `2026-*/*`, `*/{{a,b}}/*`, `[0-9]?.json`"
        )
    })
}

/// A pattern of a shell as an expression: `*`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`. A name fits as a whole, or by a folder of it.
fn expression(pattern: &str) -> String {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern).trim_end_matches('/');
    let begins = if pattern.contains('/') { "(?s)^(?:" } else { "(?s)^(?:.*/)?(?:" };
    let (mut out, mut is_class, mut depth) = (begins.to_owned(), false, 0);
    for c in pattern.chars() {
        match c {
            ']' if is_class => (is_class, _) = (false, out.push(c)),
            '!' if out.ends_with('[') && is_class => out.push('^'),
            _ if is_class => match c {
                '-' => out.push(c),
                _ => out += &regex::escape(c.encode_utf8(&mut [0; 4])),
            },
            '[' => (is_class, _) = (true, out.push(c)),
            '*' => out += ".*",
            '?' => out.push('.'),
            '{' => (depth, _) = (depth + 1, out.push_str("(?:")),
            '}' if depth > 0 => (depth, _) = (depth - 1, out.push(')')),
            ',' if depth > 0 => out.push('|'),
            _ => out += &regex::escape(c.encode_utf8(&mut [0; 4])),
        }
    }
    out + ")(?:/.*)?$"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_left_out_by_name_and_time() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("a/old")).unwrap();
        let names = ["a/x.jsonl", "a/old/y.jsonl", "z.json", "note.txt"];
        for name in names {
            std::fs::write(dir.path().join(name), "{}").unwrap();
        }
        let hour = Duration::from_secs(3600);
        let old = std::fs::File::options().write(true).open(dir.path().join("z.json")).unwrap();
        old.set_modified(SystemTime::now() - 2 * hour).unwrap();
        let left = |filter: Filter| {
            let mut inputs = crate::logs::input::find(&[dir.path().to_owned()]).unwrap();
            let (n, unfit) = filter.apply(&mut inputs).unwrap();
            assert!(unfit.is_empty(), "{unfit:?}");
            assert_eq!(n as usize + inputs.len(), names.len());
            inputs.into_iter().map(|input| input.name).collect::<Vec<_>>()
        };
        let list = |patterns: &[&str]| patterns.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>();
        assert_eq!(left(Filter::default()).len(), 4);
        let include = list(&["*.jsonl", "*.json"]);
        assert_eq!(
            left(Filter { include: include.clone(), ..Filter::default() }),
            ["a/old/y.jsonl", "a/x.jsonl", "z.json"]
        );
        let exclude = list(&["*/old/*"]);
        assert_eq!(left(Filter { include, exclude, since: None }), ["a/x.jsonl", "z.json"]);
        // A folder is what lies in it, and a bare name stands at any depth.
        for folder in ["old", "old/", "a/old", "./a/old/", "o*d"] {
            let exclude = list(&[folder]);
            assert_eq!(
                left(Filter { exclude, ..Filter::default() }),
                ["a/x.jsonl", "note.txt", "z.json"],
                "{folder}"
            );
        }
        assert_eq!(left(Filter { include: list(&["y.jsonl"]), ..Filter::default() }), ["a/old/y.jsonl"]);
        let since = Some(SystemTime::now() - hour);
        assert_eq!(left(Filter { since, ..Filter::default() }), ["a/old/y.jsonl", "a/x.jsonl", "note.txt"]);
        let mut inputs = crate::logs::input::find(&[dir.path().to_owned()]).unwrap();
        let filter = Filter { include: list(&["a", "b"]), exclude: list(&["ld", "old"]), since: None };
        let unfit = filter.apply(&mut inputs).unwrap().1;
        assert_eq!((unfit, inputs.len()), (list(&["--include b", "--exclude ld"]), 1));
        let bad = Filter { include: list(&["a{"]), ..Filter::default() };
        assert!(format!("{:#}", bad.apply(&mut Vec::new()).unwrap_err()).contains("hint: "));
    }
}
