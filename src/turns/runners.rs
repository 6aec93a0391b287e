//! Test runners: the rows of `src/data/runners.toml`, and what their summaries say. The file says how a row is read.

use std::sync::LazyLock;

use regex::{Regex, RegexSet};
use serde::Deserialize;

use crate::text::lists::{self, Signs, WordSet};

pub(super) static RUNNERS: LazyLock<Runners> = LazyLock::new(|| {
    let file: File = lists::read(include_str!("../data/runners.toml"));
    let all = |list: fn(&Runner) -> &[String]| file.runner.iter().flat_map(list).cloned();
    let signs = file.summaries().map(|summary| summary.sign.0.as_str());
    Runners {
        programs: all(|runner| &runner.programs).collect(),
        modules: all(|runner| &runner.modules).collect(),
        none: all(|runner| &runner.none).collect(),
        signs: RegexSet::new(signs).expect("each is a pattern"),
        file,
    }
});

/// All rows, and what they say together.
pub(super) struct Runners {
    file: File,
    /// Programs that run tests whatever they are given.
    programs: WordSet,
    /// The same of Python's modules.
    modules: WordSet,
    none: Signs,
    /// Of all summaries.
    signs: RegexSet,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    runner: Vec<Runner>,
    tools: Tools,
    skips: Skips,
    build: Build,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(not(test), expect(dead_code, reason = "a test holds each row to its examples"))]
struct Runner {
    name: String,
    #[serde(default)]
    programs: Vec<String>,
    #[serde(default)]
    modules: Vec<String>,
    #[serde(default)]
    none: Vec<String>,
    /// Marks of a test that was skipped, and of one that passed.
    skipped_test: Option<String>,
    passed_test: Option<String>,
    #[serde(default)]
    summary: Vec<Summary>,
    #[serde(default)]
    passes: Vec<String>,
    #[serde(default)]
    fails: Vec<String>,
    #[serde(default)]
    silent: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    sign: Sign,
    unless: Option<Sign>,
    passed: Option<bool>,
    #[serde(default)]
    good: Vec<Count>,
    #[serde(default)]
    skipped: Vec<Count>,
    #[serde(default)]
    bad: Vec<Count>,
}

/// A pattern in which `^` and `$` are the ends of lines.
#[derive(Deserialize)]
#[serde(try_from = "String")]
struct Sign(Regex);

impl TryFrom<String> for Sign {
    type Error = regex::Error;

    fn try_from(sign: String) -> Result<Self, regex::Error> {
        Regex::new(&format!("(?m){sign}")).map(Sign)
    }
}

/// A number before a word, or after a label.
#[derive(Deserialize)]
#[serde(try_from = "String")]
enum Count {
    Before(String),
    After(String),
}

impl TryFrom<String> for Count {
    type Error = String;

    fn try_from(count: String) -> Result<Self, String> {
        let before = count.strip_prefix("N ").map(|word| Count::Before(word.to_owned()));
        let after = || count.strip_suffix('N').map(|label| Count::After(label.trim_end().to_owned()));
        before.or_else(after).ok_or(format!("`{count}` has no N at its beginning or end"))
    }
}

impl Count {
    /// The number that stands there first.
    fn of(&self, line: &str) -> Option<u64> {
        let digits = match self {
            Count::Before(word) => line.match_indices(word.as_str()).find_map(|(at, _)| {
                let number = line[..at].strip_suffix(' ')?.rsplit(|c: char| !c.is_ascii_digit()).next()?;
                let goes_on = |c: char| c.is_ascii_alphanumeric() && c != 's';
                (!number.is_empty() && !line[at + word.len()..].starts_with(goes_on)).then_some(number)
            })?,
            Count::After(label) => {
                let rest = line[line.find(label.as_str())? + label.len()..].trim_start();
                &rest[..rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len()]
            }
        };
        (!digits.is_empty()).then(|| digits.parse().unwrap_or(u64::MAX))
    }

    /// The sum of those that stand there.
    fn sum(counts: &[Count], line: &str) -> u64 {
        counts.iter().filter_map(|count| count.of(line)).fold(0, u64::saturating_add)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tools {
    programs: WordSet,
    arguments: WordSet,
    begins: Vec<String>,
    checks: WordSet,
    runs_none: WordSet,
    names: WordSet,
    scripts: Signs,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Skips {
    counts: Vec<Count>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Build {
    levels: Vec<String>,
    passed: Signs,
    failed: Signs,
}

/// What two summaries say together.
pub(super) fn and(before: Option<bool>, told: Option<bool>) -> Option<bool> {
    match (before, told) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        _ => told.or(before),
    }
}

impl File {
    fn summaries(&self) -> impl Iterator<Item = &Summary> {
        self.runner.iter().flat_map(|runner| &runner.summary)
    }
}

impl Summary {
    /// What the places of a text say in which the sign is found.
    fn told(&self, text: &str) -> Option<bool> {
        let places = self.sign.0.find_iter(text).map(|found| {
            let end = text[found.end()..].find('\n').map_or(text.len(), |line| found.end() + line);
            &text[found.start()..end]
        });
        let counts = places.filter(|place| !self.unless.as_ref().is_some_and(|sign| sign.0.is_match(place)));
        counts.map(|place| self.passed.or_else(|| self.counted(place))).fold(None, and)
    }

    fn counted(&self, place: &str) -> Option<bool> {
        if Count::sum(&self.bad, place) > 0 {
            return Some(false);
        }
        (Count::sum(&self.good, place) > Count::sum(&self.skipped, place)).then_some(true)
    }
}

impl Runners {
    /// What the summaries in an output say; none where there are none.
    pub(super) fn outcome(&self, output: &str) -> Option<bool> {
        let mut text = String::with_capacity(output.len());
        for line in output.lines().map(str::trim_end).filter(|line| !line.is_empty()) {
            text.extend([line, "\n"]);
        }
        let text = text.trim_end();
        let found = self.signs.matches(text);
        let summaries = self.file.summaries().enumerate().filter(|(at, _)| found.matched(*at));
        let passed = summaries.map(|(_, summary)| summary.told(text)).fold(None, and);
        passed.filter(|passed| !passed || !self.all_skipped(output))
    }

    /// Whether an output lists tests, all of which were skipped.
    fn all_skipped(&self, output: &str) -> bool {
        let has = |mark: &Option<String>| mark.as_ref().is_some_and(|mark| output.contains(mark));
        self.file.runner.iter().any(|runner| has(&runner.skipped_test) && !has(&runner.passed_test))
    }

    /// Whether a line says that no tests ran.
    pub(super) fn ran_none(&self, output: &str) -> bool {
        output.lines().any(|line| self.none.fit(line.trim()))
    }

    /// Whether a line speaks of tests that were skipped: `3 skipped`, `--- SKIP: TestX`, and not `0 skipped`.
    pub(super) fn tells_skips(&self, output: &str) -> bool {
        let marks = || self.file.runner.iter().filter_map(|runner| runner.skipped_test.as_ref());
        output.lines().any(|line| {
            let lower = line.to_ascii_lowercase();
            let counts = self.file.skips.counts.iter().filter_map(|count| count.of(&lower));
            marks().any(|mark| line.contains(mark)) || counts.max() > Some(0)
        })
    }

    /// How a build ended, if a line is its last word.
    pub(super) fn build(&self, line: &str) -> Option<bool> {
        let Build { levels, passed, failed } = &self.file.build;
        let bare = |line, level: &String| str::trim_start_matches(line, level.as_str());
        let told = levels.iter().fold(line, bare);
        if failed.fit(told) { Some(false) } else { passed.fit(told).then_some(true) }
    }

    /// Whether a program runs tests, whatever it is given.
    pub(super) fn is_runner(&self, program: &str) -> bool {
        self.programs.has(program)
    }

    /// Whether a module of Python does.
    pub(super) fn is_module(&self, module: &str) -> bool {
        self.modules.has(module)
    }

    /// Whether a tool runs tests if it is told to: then whether these arguments, options aside, tell it.
    pub(super) fn told_to_test(&self, tool: &str, arguments: &[&str]) -> Option<bool> {
        let Tools { programs, arguments: tests, begins, checks, .. } = &self.file.tools;
        let is_told = |argument: &&str| {
            tests.has(argument)
                || *argument == "check" && checks.has(tool)
                || begins.iter().any(|begin| argument.starts_with(begin))
        };
        programs.has(tool).then(|| arguments.iter().take(2).any(is_told))
    }

    /// Whether a script tests, by its name without extension.
    pub(super) fn is_script(&self, stem: &str) -> bool {
        self.file.tools.scripts.fit(stem)
    }

    /// Whether an argument tells a runner to run nothing.
    pub(super) fn runs_none(&self, argument: &str) -> bool {
        self.file.tools.runs_none.has(argument)
    }

    /// Whether a word of a command names its runner.
    pub(super) fn is_name(&self, word: &str) -> bool {
        word.to_ascii_lowercase().contains("test") || self.file.tools.names.has(word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_their_examples() {
        for runner in &RUNNERS.file.runner {
            let Runner { name, passes, fails, silent, .. } = runner;
            let is =
                |output: &String, expected| assert_eq!(RUNNERS.outcome(output), expected, "{name}: {output}");
            passes.iter().for_each(|output| is(output, Some(true)));
            fails.iter().for_each(|output| is(output, Some(false)));
            silent.iter().for_each(|output| is(output, None));
            assert!(runner.summary.is_empty() || !fails.is_empty(), "{name}: no example");
        }
    }

    #[test]
    fn no_row_reads_the_examples_of_another() {
        for runner in &RUNNERS.file.runner {
            for (output, told) in
                runner.passes.iter().map(|o| (o, true)).chain(runner.fails.iter().map(|o| (o, false)))
            {
                let others = RUNNERS.file.runner.iter().filter(|other| other.name != runner.name);
                let said = others
                    .flat_map(|other| &other.summary)
                    .map(|summary| summary.told(output))
                    .fold(None, and);
                assert!(said.is_none_or(|said| said == told), "{output}");
            }
        }
    }
}
