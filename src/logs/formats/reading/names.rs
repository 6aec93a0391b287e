//! What names tell: of a file the task id, of a SWE task id or a folder the repository.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, Visitor};

/// An id that may be logged as a number; empty for what is none.
#[derive(Debug, Default)]
pub(crate) struct Name(pub(crate) String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;
        impl<'de> Visitor<'de> for NameVisitor {
            type Value = Name;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an id")
            }
            fn visit_str<E>(self, v: &str) -> Result<Name, E> {
                Ok(Name(v.to_owned()))
            }
            fn visit_u64<E>(self, v: u64) -> Result<Name, E> {
                Ok(Name(v.to_string()))
            }
            fn visit_i64<E>(self, v: i64) -> Result<Name, E> {
                Ok(Name(v.to_string()))
            }
            fn visit_f64<E>(self, v: f64) -> Result<Name, E> {
                Ok(Name(v.to_string()))
            }
            fn visit_bool<E>(self, v: bool) -> Result<Name, E> {
                Ok(Name(v.to_string()))
            }
            fn visit_unit<E>(self) -> Result<Name, E> {
                Ok(Name::default())
            }
            fn visit_seq<A: de::SeqAccess<'de>>(self, mut seq: A) -> Result<Name, A::Error> {
                while seq.next_element::<de::IgnoredAny>()?.is_some() {}
                Ok(Name::default())
            }
            fn visit_map<A: de::MapAccess<'de>>(self, mut map: A) -> Result<Name, A::Error> {
                while map.next_entry::<de::IgnoredAny, de::IgnoredAny>()?.is_some() {}
                Ok(Name::default())
            }
        }
        deserializer.deserialize_any(NameVisitor)
    }
}

/// The name of a file without folders and without the endings of logs.
pub(crate) fn stem(path: &str) -> String {
    let mut name = path.rsplit('/').next().unwrap_or(path);
    for ending in [".zst", ".zstd", ".gz", ".jsonl", ".json", ".traj", ".log", ".txt"] {
        name = name.strip_suffix(ending).unwrap_or(name);
    }
    // `x.traj.json`: `.json` was taken off before `.traj` in the list above, so one round is enough.
    name.to_owned()
}

/// Names that agents give to a file, or to a folder above it, in every session alike: they name none.
const ALIKE: &[&str] = &[
    "agent",
    "agents",
    "api_conversation_history",
    "context",
    "events",
    "history_item",
    "main",
    "task_metadata",
    "trajectory",
    "transcript",
    "ui_messages",
    "wire",
];

/// The name of the session in a file: that of the file, or where that is the same in every session that of the nearest folder
/// which is not.
pub(crate) fn session(path: &str) -> Option<String> {
    let folders = path.rsplit('/').skip(1).map(str::to_owned);
    let is_alike = |name: &str| {
        let older = name.strip_prefix("context_").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()));
        older || ALIKE.contains(&name) || ["", ".", ".."].contains(&name)
    };
    std::iter::once(stem(path)).chain(folders).find(|name| !is_alike(name))
}

/// The folder of a repository, by a working directory in the style of Unix or Windows: the last component, or of a work
/// tree (`cli/.worktrees/3`, `cli/.claude/worktrees/fix`) the folder that it belongs to.
pub(crate) fn repository_of(path: &str) -> Option<String> {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    let tree =
        parts.iter().position(|part| [".worktrees", "worktrees"].contains(part)).unwrap_or(parts.len());
    parts[..tree].iter().rfind(|part| **part != ".claude").map(|part| (*part).to_owned())
}

/// The task id inside of a run's name: SWE-agent writes `..__install-1__owner__name-1`.
pub(crate) fn swe_task_id(stem: &str) -> &str {
    let Some(found) = stem.find("__install-") else {
        return stem;
    };
    let rest = &stem[found + "__install-".len()..];
    rest.split_once("__").map_or(stem, |(_, id)| id)
}

/// `owner/name` of `owner__name-123` (SWE-bench) or `owner__name.commit.task` (SWE-smith).
pub(crate) fn swe_repository(task_id: &str) -> Option<String> {
    let (owner, rest) = task_id.split_once("__")?;
    let is_name =
        |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    let name = match rest.rsplit_once('-') {
        Some((name, number)) if !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => {
            let mut parts = rest.splitn(3, '.');
            let (name, commit) = (parts.next()?, parts.next()?);
            let is_commit = commit.len() >= 7 && commit.bytes().all(|b| b.is_ascii_hexdigit());
            parts.next().filter(|_| is_commit)?;
            name
        }
    };
    (is_name(owner) && is_name(name) && !name.contains("__")).then(|| format!("{owner}/{name}"))
}

/// `owner/name` of the address of a repository.
pub(crate) fn repository_of_url(url: &str) -> Option<String> {
    let url = url.trim().trim_end_matches('/');
    let mut parts = url.strip_suffix(".git").unwrap_or(url).rsplit(['/', ':']);
    let (name, owner) = (parts.next()?, parts.next()?);
    (!name.is_empty() && !owner.is_empty() && parts.next().is_some()).then(|| format!("{owner}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems() {
        assert_eq!(stem("a/b/x__y-1.traj.zst"), "x__y-1");
        assert_eq!(stem("x__y-1.traj.json.gz"), "x__y-1");
        assert_eq!(stem("plain"), "plain");
        for (path, name) in [
            ("a/s-1/context_2.jsonl.zst", Some("s-1")),
            ("s-1/agents/main/wire.jsonl", Some("s-1")),
            ("./context.jsonl", None),
            ("a/context_x.jsonl", Some("context_x")),
            ("/s-1/events.jsonl", Some("s-1")),
        ] {
            assert_eq!(session(path).as_deref(), name);
        }
    }

    #[test]
    fn repositories_by_their_address() {
        for url in
            ["https://example.org/me/tool", "https://example.org/me/tool.git", "git@example.org:me/tool.git"]
        {
            assert_eq!(repository_of_url(url).as_deref(), Some("me/tool"), "{url}");
        }
        assert_eq!(repository_of_url("tool"), None);
    }

    #[test]
    fn repositories() {
        assert_eq!(swe_repository("django__django-13023").as_deref(), Some("django/django"));
        assert_eq!(
            swe_repository("scikit-learn__scikit-learn-1").as_deref(),
            Some("scikit-learn/scikit-learn")
        );
        assert_eq!(
            swe_repository("pydantic__pydantic.acb0f10f.pr_8316").as_deref(),
            Some("pydantic/pydantic")
        );
        assert_eq!(swe_repository("ctf__crypto__eps"), None);
        assert_eq!(swe_repository("github_issue"), None);
        assert_eq!(swe_task_id("m__t-0.00__install-1__a__b-7"), "a__b-7");
        assert_eq!(swe_task_id("a__b-7"), "a__b-7");
    }

    #[test]
    fn a_work_tree_belongs_to_its_repository() {
        for path in [
            "/home/me/src/cli",
            "/home/me/src/cli/",
            "/home/me/src/cli/.worktrees/3",
            "/home/me/src/cli/.worktrees/me/fix-it",
            "/home/me/src/cli/.claude/worktrees/fix",
            "C:\\src\\cli",
        ] {
            assert_eq!(repository_of(path).as_deref(), Some("cli"), "{path}");
        }
        assert_eq!(repository_of("/"), None);
    }
}
