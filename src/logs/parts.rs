//! Files that are read together: those of one run where an agent keeps several, and what SQLite keeps beside a database.
//!
//! Readers say by the names which files may be one run; that they are is told by the content of the first one.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::database::{self, Database};
use super::input::{self, Input};
use crate::logs::detect::{self, Detected};
use crate::logs::formats::{self, Reading};

/// So much of the first file is looked at.
const HEAD_BYTES: usize = 64 << 10;
/// No id of a session is longer.
const MAX_ID: u64 = 1 << 20;

/// Puts files that are read together into one input: the first of them.
pub(super) fn joined(mut inputs: Vec<Input>) -> Vec<Input> {
    let mut groups: Vec<(&str, Vec<usize>)> =
        beside_databases(&inputs).into_iter().map(|files| ("", files)).collect();
    // Names of files that were given one by one do not tell their folders.
    let paths: Vec<String> =
        inputs.iter().map(|input| input.path.to_string_lossy().replace('\\', "/")).collect();
    let names: Vec<&str> = paths.iter().map(String::as_str).collect();
    for entry in formats::ALL {
        if let Reading::Files { together, .. } | Reading::Sessions { together, .. } = entry.reading {
            let found = together(&names).into_iter().filter(|files| files.len() > 1);
            let found = found.filter(|files| is_of(&inputs[files[0]], entry.name));
            groups.extend(found.map(|files| (entry.name, files)));
        }
    }
    let mut parts: HashMap<usize, Vec<Input>> = HashMap::new();
    let mut taken: HashSet<usize> = HashSet::new();
    let trees: Vec<usize> =
        groups.iter().filter(|(entry, _)| *entry == formats::TREE).map(|(_, files)| files[0]).collect();
    let moved = moved(&inputs, &names, &trees);
    for (_, files) in groups {
        if files.iter().any(|file| taken.contains(file) || inputs[*file].problem.is_some()) {
            continue;
        }
        taken.extend(&files);
        let (of, files) = match moved.get(&files[0]) {
            Some(database) => (*database, &files[..]),
            None => (files[0], &files[1..]),
        };
        parts.entry(of).or_default().extend(files.iter().map(|file| inputs[*file].clone()));
    }
    for (first, of) in &mut parts {
        taken.remove(first);
        inputs[*first].parts = std::mem::take(of);
    }
    let mut number = 0..;
    inputs.retain(|_| number.next().is_some_and(|file| !taken.contains(&file)));
    inputs
}

/// Databases, each with the files beside it.
fn beside_databases(inputs: &[Input]) -> Vec<Vec<usize>> {
    let by_path: HashMap<&str, usize> =
        inputs.iter().enumerate().filter_map(|(i, input)| Some((input.path.to_str()?, i))).collect();
    let mut groups: HashMap<usize, Vec<usize>> = HashMap::new();
    for (path, file) in &by_path {
        let database = database::BESIDE.iter().find_map(|ending| by_path.get(path.strip_suffix(ending)?));
        if let Some(database) = database {
            groups.entry(*database).or_default().push(*file);
        }
    }
    let is_database = |file: &usize| input::begins_with(&inputs[*file].path, detect::SQLITE).unwrap_or(false);
    let found = groups.into_iter().filter(|(database, _)| is_database(database));
    found
        .map(|(database, mut files)| {
            files.sort_unstable();
            [&[database], files.as_slice()].concat()
        })
        .collect()
}

/// Sessions of the store that opencode had before its database, and which that database holds, too: by the first file of each
/// the database. It is newer.
fn moved(inputs: &[Input], names: &[&str], trees: &[usize]) -> HashMap<usize, usize> {
    if trees.is_empty() {
        return HashMap::new();
    }
    let mut holders: HashMap<String, usize> = HashMap::new();
    for (file, input) in inputs.iter().enumerate() {
        let is_one =
            input.problem.is_none() && input::begins_with(&input.path, detect::SQLITE).unwrap_or(false);
        let ids = if is_one { sessions(&input.path).unwrap_or_default() } else { Vec::new() };
        holders.extend(ids.into_iter().map(|id| (id, file)));
    }
    let holder = |tree: &usize| Some((*tree, *holders.get(formats::session_of_tree(names[*tree])?)?));
    trees.iter().filter_map(holder).collect()
}

/// The sessions in a database of opencode; none of others.
fn sessions(path: &Path) -> anyhow::Result<Vec<String>> {
    let database = Database::open(path, None, MAX_ID)?;
    let is_one = detect::of_tables(&database.tables()?).is_some_and(|entry| entry.name == "opencode");
    Ok(if is_one { database.texts("SELECT id FROM session")? } else { Vec::new() })
}

fn is_of(input: &Input, format: &str) -> bool {
    let mut head = Vec::new();
    let is_whole = input::open_for(&input.path, HEAD_BYTES)
        .and_then(|mut reader| input::read_head(&mut *reader, &mut head, HEAD_BYTES));
    match is_whole.map(|is_whole| detect::detect(&head, is_whole)) {
        Ok(Detected::Log(entry, _)) => entry.name == format,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a session in both the database is read alone; others of the tree stay.
    #[test]
    fn a_session_in_a_tree_and_in_a_database_is_one() {
        let dir = tempfile::tempdir().unwrap();
        let database = rusqlite::Connection::open(dir.path().join("opencode.db")).unwrap();
        database
            .execute_batch(
                "CREATE TABLE session (id TEXT, directory TEXT);
                CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
                CREATE TABLE part (id TEXT, session_id TEXT, message_id TEXT, data TEXT);
                INSERT INTO session VALUES ('s1', '/w');",
            )
            .unwrap();
        drop(database);
        for (path, text) in [
            ("storage/message/s1/m1.json", r#"{"id":"m1","sessionID":"s1","role":"user","time":{}}"#),
            ("storage/part/m1/p1.json", r#"{"id":"p1","messageID":"m1","type":"text","text":"x"}"#),
            ("storage/message/s2/m2.json", r#"{"id":"m2","sessionID":"s2","role":"user","time":{}}"#),
            ("storage/part/m2/p2.json", r#"{"id":"p2","messageID":"m2","type":"text","text":"y"}"#),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let inputs = joined(input::find(&[dir.path().to_owned()]).unwrap());
        let names = |inputs: &[Input]| inputs.iter().map(|input| input.name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&inputs), ["opencode.db", "storage/message/s2/m2.json"]);
        assert_eq!(names(&inputs[0].parts), ["storage/message/s1/m1.json", "storage/part/m1/p1.json"]);
        assert_eq!(names(&inputs[1].parts), ["storage/part/m2/p2.json"]);
    }

    #[test]
    fn what_stands_beside_a_database_goes_with_it() {
        let dir = tempfile::tempdir().unwrap();
        let database = [detect::SQLITE, &[0; 84]].concat();
        for (name, bytes) in [
            ("a.db", database.as_slice()),
            ("a.db-wal", b"x"),
            ("a.db-shm", b""),
            ("b.db", b"none"),
            ("b.db-wal", b"x"),
            ("c.db-wal", b"x"),
        ] {
            std::fs::write(dir.path().join(name), bytes).unwrap();
        }
        let inputs = joined(input::find(&[dir.path().to_owned()]).unwrap());
        let told: Vec<(&str, Vec<&str>)> = inputs
            .iter()
            .map(|i| (i.name.as_str(), i.parts.iter().map(|part| part.name.as_str()).collect()))
            .collect();
        let alone = |name| (name, Vec::new());
        assert_eq!(
            told,
            [("a.db", vec!["a.db-shm", "a.db-wal"]), alone("b.db"), alone("b.db-wal"), alone("c.db-wal")]
        );
        assert_eq!(inputs[0].n_stored(), 101);
    }

    #[test]
    fn files_that_are_given_by_name_stay_with_their_folders() {
        let dir = tempfile::tempdir().unwrap();
        let mut given = Vec::new();
        for task in ["a", "b"] {
            std::fs::create_dir(dir.path().join(task)).unwrap();
            for (name, text) in [
                ("api_conversation_history.json", r#"[{"role":"user","content":"x","ts":1}]"#),
                ("ui_messages.json", r#"[{"ts":1,"type":"say","say":"text","text":"x"}]"#),
            ] {
                given.push(dir.path().join(task).join(name));
                std::fs::write(given.last().unwrap(), text).unwrap();
            }
        }
        let inputs = joined(input::find(&given).unwrap());
        let told: Vec<usize> = inputs.iter().map(|input| input.parts.len()).collect();
        assert_eq!(told, [1, 1]);
        let is_beside = |input: &Input| input.parts[0].path.parent() == input.path.parent();
        assert!(inputs.iter().all(is_beside));
    }
}
