//! Files that an agent makes to try things out: they are not what it works on.
//!
//! A trial is first named by the call that writes it whole, and lies where such files lie: at the root or in /tmp. (Read: 151 of 152
//! such files of 107 logs are trials, and 151 of 162 trials are such files.)

use rustc_hash::FxHashSet;

use super::actions::{Action, ActionKind, writes};
use super::{Facts, Touch};
use crate::trajectory::Step;

/// What the agent made to try things out.
#[derive(Default)]
pub(super) struct Trials {
    pub(super) files: FxHashSet<u32>,
    /// Those of them that change other files when they run.
    scripts: FxHashSet<u32>,
    /// The folder that command lines go to first.
    home: Option<String>,
}

impl Trials {
    pub(super) fn goes_to(&mut self, command: &str) {
        if self.home.is_none()
            && let Some(rest) = command.trim_start().strip_prefix("cd /")
        {
            let folder = rest.split(|c: char| c.is_whitespace() || ";&|".contains(c)).next().unwrap_or("");
            self.home = Some(format!("/{}/", folder.trim_end_matches('/')));
        }
    }

    /// Whether a file lies where trials lie: beside all others at the root, or in /tmp.
    fn may_be(&self, name: &str) -> bool {
        let near = self.home.as_deref().and_then(|home| name.strip_prefix(home)).unwrap_or(name);
        !near.contains('/') || name.starts_with("/tmp/")
    }

    /// Takes note of a file that a deed writes whole and that nothing named before; `new` is its name. Whether all of the deed's
    /// files are trials.
    pub(super) fn meet(&mut self, action: &Action, files: &[u32], new: Option<&str>) -> bool {
        if action.kind == ActionKind::EditFile && action.makes && new.is_some_and(|name| self.may_be(name)) {
            self.files.extend(files.first());
        }
        !files.is_empty() && files.iter().all(|file| self.files.contains(file))
    }

    /// What became of a deed's files.
    pub(super) fn see(
        &mut self,
        step: &Step,
        action: &Action,
        files: &[u32],
        touch: Touch,
        facts: &mut Facts,
    ) {
        facts.scripted |= action.reverts;
        facts.changed |= action.reverts;
        match (touch, files.first()) {
            (Touch::Edit, Some(&file)) => {
                let is_trial = self.files.contains(&file);
                facts.changed |= !is_trial;
                facts.tried |= is_trial;
                let mut bodies = action.bodies.iter().filter_map(|body| step.text.get(body.clone()));
                if is_trial && bodies.any(writes) {
                    self.scripts.insert(file);
                    facts.scripted = true;
                }
            }
            (Touch::Edit, None) => facts.changed = true,
            (Touch::Run, _) if files.iter().any(|file| self.scripts.contains(file)) => {
                (facts.changed, facts.scripted) = (true, true);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;
    use crate::trajectory::{Builder, Kind, Role, step};

    #[test]
    fn what_is_made_to_try_things_out_is_no_change_of_the_work() {
        let calls = [
            "cd /w && cat setup.py lib/a.py",
            "cd /w && cat > try.py <<'EOF'\nimport a\nEOF",
            "cd /w && cat > fix.py <<'EOF'\nopen('lib/a.py', 'w').write('x')\nEOF",
            "cd /w && python fix.py",
            "cd /w && cat > setup.py <<'EOF'\nx\nEOF",
            "cd /w && cat > lib/test_a.py <<'EOF'\nx\nEOF",
            "cd /w && git checkout -- lib/a.py",
            "cd /w && cat > /w/two.py <<'EOF'\nx\nEOF",
            "cd /w && sed -i s/a/b/ try.py",
            "cd /w && python try.py",
            "cd /w && sed -i s/a/b/ lib/a.py",
        ];
        let mut builder = Builder::new();
        builder.push(step(Role::User, Kind::Message, "task"));
        for call in calls {
            builder.begin_call();
            builder.push(step(Role::Agent, Kind::Action, call));
            builder.push(step(Role::Tool, Kind::Observation, "<returncode>0</returncode>"));
        }
        let told = read(&builder.finish());
        let of = |turn: &Facts| {
            [(turn.changed, 'c'), (turn.tried, 't'), (turn.scripted, 's')]
                .iter()
                .filter(|(is, _)| *is)
                .map(|(_, sort)| *sort)
                .collect::<String>()
        };
        let sorts: Vec<String> = told.turns[1..].iter().map(of).collect();
        assert_eq!(sorts, ["", "t", "ts", "cs", "c", "c", "cs", "t", "t", "", "c"]);
        let mut trials: Vec<&str> =
            told.trials.iter().map(|file| told.names[*file as usize].as_str()).collect();
        trials.sort_unstable();
        assert_eq!(trials, ["/w/two.py", "fix.py", "try.py"]);
    }
}
