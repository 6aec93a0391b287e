//! Where agents keep their logs.

use std::path::{Path, PathBuf};

/// Below the home folder.
const BELOW_HOME: &[(&str, &str)] = &[
    ("Claude Code", ".claude/projects"),
    ("Codex", ".codex/sessions"),
    ("Gemini CLI", ".gemini/tmp"),
    ("opencode", ".local/share/opencode"),
    ("Copilot CLI", ".copilot"),
    ("Amp", ".local/share/amp/threads"),
    ("Continue", ".continue/sessions"),
    ("Factory Droid", ".factory/sessions"),
    ("Hermes", ".hermes/sessions"),
];

/// A folder that may hold logs.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// Whose logs.
    pub agent: &'static str,
    pub path: PathBuf,
    /// Whether it is there, or why that cannot be told.
    pub is_there: Result<bool, String>,
}

/// The known places below a home folder.
pub fn known(home: &Path) -> Vec<Place> {
    let place = |&(agent, below): &(&'static str, &str)| {
        let path = home.join(below);
        let found = std::fs::read_dir(&path).map(|mut entries| entries.next().is_some());
        let is_there = match found {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
            found => found.map_err(|error| error.to_string()),
        };
        Place { agent, path, is_there }
    };
    BELOW_HOME.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_as_they_are() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join(".claude/projects/mine")).unwrap();
        std::fs::create_dir_all(home.path().join(".codex/sessions")).unwrap();
        std::fs::write(home.path().join(".copilot"), "a file").unwrap();
        let found = known(home.path());
        let told: Vec<_> = found.iter().map(|p| (p.agent, p.is_there.clone().ok())).collect();
        assert_eq!(told[..2], [("Claude Code", Some(true)), ("Codex", Some(false))]);
        assert_eq!(told[4], ("Copilot CLI", None), "a file is no folder: {:?}", found[4]);
    }
}
