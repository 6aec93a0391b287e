//! Which logs weights were made of: on these they are not measured.

use std::collections::BTreeSet;

/// What weights have seen of a target: repositories, and logs of no repository.
#[derive(Debug, Default, PartialEq)]
pub struct Seen {
    repositories: BTreeSet<String>,
    logs: BTreeSet<String>,
}

impl Seen {
    /// As the manifest in a file of weights tells it: of each log its `repository`, or the `trajectory` where it has none. A
    /// `target` says which rater saw it; without one, all did.
    pub fn of(manifest: &serde_json::Value, target: &str) -> Self {
        let mut seen = Seen::default();
        for log in manifest["logs"].as_array().into_iter().flatten() {
            match (log["target"].as_str(), log["repository"].as_str(), log["trajectory"].as_str()) {
                (Some(of), ..) if of != target => {}
                (_, Some(repository), _) => _ = seen.repositories.insert(family(repository).to_owned()),
                (.., Some(log)) => _ = seen.logs.insert(log.to_owned()),
                _ => {}
            }
        }
        seen
    }

    /// Whether the weights have seen the repository, or where it is not known the log.
    pub fn has(&self, repository: Option<&str>, log: &str) -> bool {
        repository.map_or_else(|| self.logs.contains(log), |name| self.repositories.contains(family(name)))
    }
}

/// What copies of a repository have in common: no owner, and no number of a worktree in front (`12-name`).
fn family(repository: &str) -> &str {
    let name = repository.rsplit('/').next().unwrap_or(repository);
    let rest = name.trim_start_matches(|c: char| c.is_ascii_digit());
    rest.strip_prefix('-').filter(|_| rest.len() < name.len()).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_a_repository_are_seen_and_logs_without_one_by_name() {
        let manifest = serde_json::json!({ "logs": [
            { "target": "needs", "repository": "me/cli" },
            { "target": "salience", "repository": "you/tool" },
            { "repository": null, "trajectory": "a1" },
        ]});
        let seen = Seen::of(&manifest, "needs");
        assert!(
            seen.has(Some("cli"), "x") && seen.has(Some("else/cli"), "x") && seen.has(Some("12-cli"), "x")
        );
        assert!(
            !seen.has(Some("tool"), "x") && !seen.has(Some("2cli"), "x") && !seen.has(Some("cli-2"), "x")
        );
        assert!(seen.has(None, "a1") && !seen.has(None, "b2") && !seen.has(Some("b"), "a1"));
        assert_eq!(Seen::of(&serde_json::json!(null), "needs"), Seen::default());
    }
}
