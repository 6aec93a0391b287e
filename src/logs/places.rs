//! Where agents keep their logs.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::detect::Detected;
use super::{input, jobs};

/// An agent, the variable that moves its folder with what stands below that, and what stands below the home folder else.
type Known = (&'static str, Option<(&'static str, &'static str)>, &'static str);

const KNOWN: &[Known] = &[
    ("Claude Code", Some(("CLAUDE_CONFIG_DIR", "projects")), ".claude/projects"),
    ("Codex", Some(("CODEX_HOME", "sessions")), ".codex/sessions"),
    ("Gemini CLI", Some(("GEMINI_CLI_HOME", ".gemini/tmp")), ".gemini/tmp"),
    ("opencode", Some(("XDG_DATA_HOME", "opencode")), ".local/share/opencode"),
    ("Copilot CLI", Some(("COPILOT_HOME", "")), ".copilot"),
    ("goose", Some(("XDG_DATA_HOME", "goose/sessions")), ".local/share/goose/sessions"),
    ("Amp", Some(("XDG_DATA_HOME", "amp/threads")), ".local/share/amp/threads"),
    ("Continue", Some(("CONTINUE_GLOBAL_DIR", "sessions")), ".continue/sessions"),
    ("Factory Droid", None, ".factory/sessions"),
    ("Hermes", Some(("HERMES_HOME", "sessions")), ".hermes/sessions"),
    ("Qwen Code", None, ".qwen/projects"),
    ("pi", Some(("PI_CODING_AGENT_DIR", "sessions")), ".pi/agent/sessions"),
    ("Kimi Code", Some(("KIMI_CODE_HOME", "sessions")), ".kimi-code/sessions"),
    ("kimi-cli", Some(("KIMI_SHARE_DIR", "sessions")), ".kimi/sessions"),
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

/// The known places: those that variables name, else those below a home folder.
pub fn known(home: Option<&Path>, variable: impl Fn(&str) -> Option<PathBuf>) -> Vec<Place> {
    let place = |&(agent, moved, below): &Known| {
        let moved = moved.and_then(|(name, below)| Some(variable(name)?.join(below)));
        let path = moved.or_else(|| Some(home?.join(below)))?;
        let found = std::fs::read_dir(&path).map(|mut entries| entries.next().is_some());
        let is_there = match found {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            found => found.map_err(|error| error.to_string()),
        };
        Some(Place { agent, path, is_there })
    };
    KNOWN.iter().filter_map(place).collect()
}

/// So many of its entries tell whether a folder holds logs.
const LOOKED_AT: usize = 10_000;

/// Whether some file in a folder is of a known format.
pub fn holds_logs(folder: &Path) -> bool {
    let is_shown = |e: &walkdir::DirEntry| e.depth() == 0 || !input::is_hidden(e.file_name());
    let entries = walkdir::WalkDir::new(folder).into_iter().filter_entry(is_shown).take(LOOKED_AT);
    let mut files = entries.flatten().filter(|entry| entry.file_type().is_file());
    files.any(|file| {
        let inputs = input::find(&[file.into_path()]).unwrap_or_default();
        inputs.iter().any(|input| matches!(jobs::detected(input), Ok(Detected::Log(..))))
    })
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
        let found = known(Some(home.path()), |_| None);
        let told: Vec<_> = found.iter().map(|p| (p.agent, p.is_there.clone().ok())).collect();
        assert_eq!(told[..2], [("Claude Code", Some(true)), ("Codex", Some(false))]);
        assert_eq!(told[4], ("Copilot CLI", None), "a file is no folder: {:?}", found[4]);
        // Where a variable names another folder, that alone counts; without a home there are no others.
        let moved = |name: &str| (name == "CODEX_HOME").then(|| home.path().join(".claude/projects"));
        std::fs::create_dir_all(home.path().join(".claude/projects/sessions/2026")).unwrap();
        let [found] = &known(None, moved)[..] else { panic!("one is named") };
        assert_eq!((found.agent, &found.is_there), ("Codex", &Ok(true)));
    }

    #[test]
    fn a_folder_of_other_files_holds_no_logs() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("deep")).unwrap();
        std::fs::write(dir.path().join("deep/config.json"), r#"{"name": "x"}"#).unwrap();
        std::fs::write(dir.path().join("main.rs"), "fn main() {}").unwrap();
        assert!(!holds_logs(dir.path()));
        let chat = r#"{"messages":[{"role":"user","content":"Why?"},{"role":"assistant","content":"So."}]}"#;
        std::fs::write(dir.path().join("deep/chat.json"), chat).unwrap();
        assert!(holds_logs(dir.path()));
    }
}
