//! Fires when the agent leaves a file, a module, a test, or its study of an API for something new.
//!
//! * `file`: it touches another file. Reading, editing, and naming a file in a shell command all count; running one does not.
//! * `module`: that file lies in another folder. (The seed takes the first part of a path, which is the same for
//!   all files of a checkout; what its "cross-module imports" are it does not say.)
//! * `test`: a test run with an outcome, of other tests than the last one.
//! * `api`: the first call that changes something of a tool that was not called so before: from study to use. (The seed says
//!   "first actual API call"; a call that only looks is still study.)
//!
//! Files that the agent made to try things out, and what runs nothing but these, are no place to be: it comes from the last
//! file of the work. (Read: 0 of 15 such cuts were plausible on mini-swe-agent, 4 of 10 on SWE-agent; docs/seeds.md.)
//!
//! With `after_change` a file, module or test is left only where something of the work was changed since the last boundary: who opens one file
//! after the other is still looking for the place. (Read: 21 of 64 such cuts were plausible, 6 of 56 others. But of the moves that a reader
//! labelled it finds half as many, so that it is no default; docs/seeds.md.)
//!
//! Of several in a turn one counts: test, API, module, file. A file (or folder) that was touched within the last
//! `return_within` turns is returned to, and that is no boundary: an agent that goes to and fro between two files leaves the
//! first one once, and fires again when it turns to a third, or comes back after longer. So it is with tests that were run
//! within them. A boundary ends a span of turns; spans of
//! `min_span` turns or fewer end silently. The scope ends before the turn that crossed the boundary. Source: seed
//! semantic-triggers, section 3. There a path may be unset, and a boundary's position is the number of boundaries before it, so that no span
//! is ever longer than 3: here it is the turn.

use std::collections::{HashMap, HashSet};

use super::{Detector, Each, Entry, Firing, Rule, Trigger};
use crate::context::log::Log;
use crate::params::params;
use crate::text::spellings::Spellings;
use crate::turns::{Facts, TestRun, Touch, Turns};

/// The seed's confidence in a boundary.
const CONFIDENCE: f64 = 0.8;
const API: &str = "boundary/api";

pub(super) const ENTRY: Entry = Entry {
    name: "boundary",
    summary: "Compress when the agent leaves a file, module, test or API study for a new one.",
    params: Boundary::PARAMS,
    build: |params| {
        let rule = Boundary::of(params)?;
        super::fires([("file", rule.file), ("module", rule.module), ("test", rule.test), ("api", rule.api)])?;
        Ok(Box::new(rule))
    },
};

params! {
    #[derive(Clone, Copy)]
    pub(super) struct Boundary {
        /// Whether it fires when another file is touched.
        file: bool = true,
        /// Whether it fires when that file lies in another folder.
        module: bool = true,
        /// Whether it fires when other tests are run.
        test: bool = true,
        /// Whether it fires when an API is called after its study.
        api: bool = true,
        /// A span must have more turns than this.
        min_span: u32 = 3,
        /// Whether files count that the agent makes to try things out, at the root or in /tmp.
        trial_files: bool = false,
        /// Whether a file, module or test is left only where something of the work was changed since the last boundary.
        after_change: bool = false,
        /// What was touched or tested within so many turns is returned to.
        return_within: u32 = 10,
    }
}

impl Trigger for Boundary {
    fn detector(&self, _: &Log, first_turn: u32) -> Box<dyn Detector> {
        let rule = Place {
            rule: *self,
            since: first_turn,
            changed: false,
            file: None,
            test: None,
            touched: HashMap::new(),
            folders: Folders::default(),
            entered: HashMap::new(),
            tests: HashMap::new(),
            used: HashSet::new(),
        };
        Box::new(Each { next: first_turn, rule })
    }
}

/// Where the agent is.
struct Place {
    rule: Boundary,
    /// The turn of the last boundary, and whether something of the work was changed since.
    since: u32,
    changed: bool,
    file: Option<u32>,
    test: Option<(u32, Option<bool>)>,
    /// When each file and folder was last touched.
    touched: HashMap<u32, u32>,
    folders: Folders,
    entered: HashMap<u32, u32>,
    /// When each test was last run with an outcome.
    tests: HashMap<u32, u32>,
    /// Tools that were called to change something.
    used: HashSet<u32>,
}

/// The file that a turn is about: the last that it changes, else the first that it reads.
fn focus(facts: &Facts, counts: impl Fn(u32) -> bool) -> Option<u32> {
    let files: Vec<_> = facts.files.iter().filter(|(file, _)| counts(*file)).collect();
    let of = |wanted: Touch| files.iter().filter(move |(_, touch)| *touch == wanted).map(|(file, _)| *file);
    of(Touch::Edit).next_back().or_else(|| of(Touch::Read).next())
}

/// The folders of files, each by a number; `src` may be `/repo/src`.
#[derive(Default)]
struct Folders {
    spelled: Spellings,
    of: HashMap<u32, u32>,
}

impl Folders {
    fn number(&mut self, names: &[String], file: u32) -> u32 {
        *self.of.entry(file).or_insert_with(|| {
            let folder = names[file as usize].rsplit_once('/').map_or("", |(folder, _)| folder);
            self.spelled.file(folder, file)
        })
    }
}

impl Place {
    fn is_new(&self, last: Option<&u32>, turn: u32) -> bool {
        last.is_none_or(|&last| turn - last > self.rule.return_within)
    }

    /// Whether a file is one that the agent works on.
    fn counts(&self, all: &Turns, file: u32) -> bool {
        self.rule.trial_files || !all.trials.contains(&file)
    }

    /// The tests of a turn that have an outcome and count.
    fn test_of(&self, facts: &Facts) -> Option<TestRun> {
        facts.test.filter(|test| test.passed.is_some() && (self.rule.trial_files || !test.of_trial))
    }

    /// The boundary that the turn crosses: kind, what is left, what is entered.
    fn crossed(&mut self, all: &Turns, facts: &Facts, turn: u32) -> Option<(&'static str, u32, u32)> {
        let rule = self.rule;
        let ran = self.test_of(facts).filter(|_| rule.test);
        if let (Some(test), Some((last, _))) = (ran, self.test)
            && test.target != last
            && self.is_new(self.tests.get(&test.target), turn)
        {
            return Some(("boundary/test", last, test.target));
        }
        if let Some(api) = facts.api
            && rule.api
            && api.changes
            && !self.used.contains(&api.name)
        {
            return Some((API, api.name, api.name));
        }
        let (new, old) = (focus(facts, |file| self.counts(all, file))?, self.file?);
        if new == old {
            return None;
        }
        // The older first: which spelling comes first decides what a later one is taken for.
        let [from, to] = [old, new].map(|file| self.folders.number(&all.names, file));
        if rule.module && to != from && self.is_new(self.entered.get(&to), turn) {
            return Some(("boundary/module", old, new));
        }
        (rule.file && self.is_new(self.touched.get(&new), turn)).then_some(("boundary/file", old, new))
    }

    fn go(&mut self, all: &Turns, facts: &Facts, turn: u32) {
        self.file = focus(facts, |file| self.counts(all, file)).or(self.file);
        let looked_at = facts.files.iter().filter(|(_, touch)| *touch != Touch::Run);
        for (file, _) in looked_at {
            self.touched.insert(*file, turn);
            self.entered.insert(self.folders.number(&all.names, *file), turn);
        }
        if let Some(test) = self.test_of(facts) {
            self.test = Some((test.target, test.passed));
            self.tests.insert(test.target, turn);
        }
        self.used.extend(facts.api.filter(|api| api.changes).map(|api| api.name));
    }
}

impl Rule for Place {
    fn turn(&mut self, log: &Log, turn: u32) -> Option<Firing> {
        let facts = log.facts();
        let here = &facts.turns[turn as usize];
        let crossed = self.crossed(facts, here, turn);
        let tested = self.test.and_then(|(_, passed)| passed);
        self.go(facts, here, turn);
        let changed = self.changed;
        self.changed |= here.changed;
        let (kind, from, to) = crossed?;
        let since = std::mem::replace(&mut self.since, turn);
        self.changed = here.changed;
        let mut details = serde_json::json!({
            "to": facts.names[to as usize],
            "span": [since, turn],
        });
        if from != to {
            details["from"] = serde_json::json!(facts.names[from as usize]);
        }
        if kind == "boundary/test" {
            details["passed"] = serde_json::json!(tested);
        }
        let counts = !self.rule.after_change || changed || kind == API;
        (counts && turn - since > self.rule.min_span)
            .then(|| Firing::new(kind, turn, CONFIDENCE).with(details))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{details, fired, lines, refused};

    fn reads(file: &str, times: usize) -> String {
        lines(&format!("action: cat {file}\nobservation: x"), times)
    }

    /// The seed's example: turns 1 to 8 on auth.py, then utils.py.
    #[test]
    fn leaving_a_file() {
        let script = format!("user: u\n{}\n{}\nagent: so", reads("src/auth.py", 8), reads("src/utils.py", 1));
        assert_eq!(fired(&script, "boundary", ""), ["10: boundary/file ..9 0.8"]);
        let told = details(&script, "boundary", "");
        assert_eq!(
            (told[0]["from"].as_str(), told[0]["to"].as_str()),
            (Some("src/auth.py"), Some("src/utils.py"))
        );
        assert_eq!(fired(&script, "boundary", "min_span = 8"), [""; 0]);
        assert_eq!(fired(&script, "boundary", "file = false"), [""; 0]);
    }

    #[test]
    fn leaving_a_folder() {
        let script =
            format!("user: u\n{}\n{}\nagent: so", reads("src/auth/a.py", 4), reads("src/db/m.py", 1));
        assert_eq!(fired(&script, "boundary", ""), ["6: boundary/module ..5 0.8"]);
        assert_eq!(fired(&script, "boundary", "module = false"), ["6: boundary/file ..5 0.8"]);
    }

    /// A script to try things out is no place to be; a file of the root that was read before is.
    #[test]
    fn trial_files() {
        let made = |file: &str| {
            format!(
                "action: cd /w && cat > {file} <<EOF~print(1)~EOF\nobservation: \naction: cd /w && python {file}\nobservation: 1"
            )
        };
        let script = |file: &str, first: &str| {
            format!(
                "user: u\n{first}{}\n{}\n{}\nagent: so",
                reads("src/a.py", 5),
                made(file),
                reads("src/a.py", 2)
            )
        };
        for file in ["reproduce.py", "/tmp/t.py", "/w/try.py"] {
            assert_eq!(fired(&script(file, ""), "boundary", ""), [""; 0], "{file}");
        }
        let fires = ["7: boundary/module ..6 0.8"];
        assert_eq!(fired(&script("reproduce.py", ""), "boundary", "trial_files = true"), fires);
        assert_eq!(fired(&script("tests/new.py", ""), "boundary", ""), fires);
        let first = format!("{}\n", reads("setup.py", 1));
        assert_eq!(
            fired(&script("setup.py", &first), "boundary", "return_within = 2")[..],
            ["8: boundary/module ..7 0.8"]
        );
    }

    /// Who opens one file after the other has finished nothing; what was changed before the last boundary was left there.
    #[test]
    fn after_a_change() {
        let script = |edit: &str| {
            let [a, b, c] = ["src/a.py", "src/b.py", "src/c.py"].map(|file| reads(file, 5));
            format!("user: u\n{a}\n{edit}{b}\n{c}\nagent: so")
        };
        let both = ["7: boundary/file ..6 0.8", "12: boundary/file ..11 0.8"];
        assert_eq!(fired(&script(""), "boundary", ""), both);
        assert_eq!(fired(&script(""), "boundary", "after_change = true"), [""; 0]);
        let edit = "action: sed -i s/a/b/ src/a.py\nobservation: edited\n";
        assert_eq!(fired(&script(edit), "boundary", "after_change = true"), ["8: boundary/file ..7 0.8"]);
    }

    /// Editing and the shell touch a file as reading does; a span of 3 turns is too short.
    #[test]
    fn spans_and_touches() {
        let script = "user: u
            action: sed -i s/a/b/ a.py
            observation: edited
            action: cat a.py
            observation: x
            action: grep x a.py
            observation: x
            action: grep x b.py
            observation: x
            agent: so";
        assert_eq!(fired(script, "boundary", ""), [""; 0]);
        assert_eq!(fired(script, "boundary", "min_span = 2"), ["5: boundary/file ..4 0.8"]);
    }

    /// To and fro between two files is one boundary; a third file is another.
    #[test]
    fn flapping() {
        let to_and_fro = lines(&format!("{}\n{}", reads("b.py", 1), reads("a.py", 1)), 20);
        let script = format!("user: u\n{}\n{to_and_fro}\n{}\nagent: so", reads("a.py", 4), reads("c.py", 1));
        assert_eq!(
            fired(&script, "boundary", ""),
            ["6: boundary/file ..5 0.8", "46: boundary/file ..45 0.8"]
        );
        // What was left for long is new again.
        let script =
            format!("user: u\n{}\n{}\n{}\nagent: so", reads("a.py", 4), reads("b.py", 11), reads("a.py", 1));
        assert_eq!(
            fired(&script, "boundary", ""),
            ["6: boundary/file ..5 0.8", "17: boundary/file ..16 0.8"]
        );
    }

    #[test]
    fn another_test() {
        let script = format!(
            "user: u\n{}\naction: pytest tests/a.py\nobservation: 1 passed in 1s\n{}\naction: pytest tests/b.py\nobservation: 1 failed in 1s\nagent: so",
            reads("a.py", 2),
            reads("a.py", 3)
        );
        assert_eq!(fired(&script, "boundary", ""), ["8: boundary/test ..7 0.8"]);
        assert_eq!(details(&script, "boundary", "")[0]["passed"], true);
        assert_eq!(fired(&script, "boundary", "test = false"), [""; 0]);
    }

    /// To and fro between two tests is one boundary, as with files.
    #[test]
    fn flapping_between_tests() {
        let run = |test: &str| {
            format!("action: pytest tests/{test}.py\nobservation: 1 passed in 1s\n{}", reads("q.py", 3))
        };
        let to_and_fro = lines(&format!("{}\n{}", run("a"), run("b")), 4);
        let script = format!("user: u\n{to_and_fro}\nagent: so");
        assert_eq!(fired(&script, "boundary", ""), ["6: boundary/test ..5 0.8"]);
        // What was not run for long is new again.
        assert_eq!(fired(&script, "boundary", "return_within = 7").len(), 7);
    }

    /// What will be read later says nothing of a file now.
    #[test]
    fn a_file_named_later_changes_nothing_before() {
        let first = format!("user: u\n{}\n{}", reads("src/a/util.py", 5), reads("util.py", 5));
        let later = format!("{first}\n{}", reads("lib/util.py", 2));
        assert_eq!(fired(&first, "boundary", ""), [""; 0]);
        assert_eq!(fired(&later, "boundary", ""), ["12: boundary/module ..11 0.8"]);
    }

    /// Asking an API and then using it; a shell's requests that change something are a use.
    #[test]
    fn from_study_to_use() {
        let study = lines("action: curl -s https://api.x.com/docs\nobservation: how to", 5);
        let script = |call: &str| format!("user: u\n{study}\naction: {call}\nobservation: ok\nagent: so");
        let fires = ["7: boundary/api ..6 0.8"];
        assert_eq!(fired(&script("curl -X POST -d '{}' https://api.x.com/orders"), "boundary", ""), fires);
        assert_eq!(fired(&script("curl https://api.x.com/orders"), "boundary", ""), [""; 0]);
    }

    #[test]
    fn it_needs_a_kind() {
        let off = "file = false\nmodule = false\ntest = false";
        assert_eq!(fired("user: u\nagent: so", "boundary", off), [""; 0]);
        assert_eq!(
            refused("boundary", &format!("{off}\napi = false")),
            "it never fires: one of `file`, `module`, `test`, `api` must be true"
        );
    }

    #[test]
    fn no_files_no_boundaries() {
        let talk = lines("user: hm\nagent: well", 9);
        assert_eq!(fired(&format!("user: u\n{talk}"), "boundary", ""), [""; 0]);
    }
}
