//! Databases as their agents leave them.

use std::collections::BTreeMap;

use super::*;

static ROWS: &[Rows] = &[
    Rows {
        name: "run",
        table: "run",
        order: "SELECT id, rowid FROM run ORDER BY 1",
        columns: "*",
        json: &["about"],
    },
    Rows {
        name: "said",
        table: "said",
        order: "SELECT run, rowid FROM said ORDER BY 1, at",
        columns: "text",
        json: &[],
    },
    Rows { name: "gone", table: "gone", order: "SELECT run, rowid FROM gone", columns: "*", json: &[] },
];

const SCHEMA: &str = "CREATE TABLE run (id TEXT PRIMARY KEY, about TEXT, n INTEGER);
    CREATE TABLE said (run TEXT, at INTEGER, text TEXT)";

fn write(path: &Path, sql: &str) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch(sql).unwrap();
    connection
}

/// The runs in a database, and what was damaged.
fn read(path: &Path) -> (Vec<String>, Vec<String>) {
    let database = Database::open(path, None, 1 << 20).unwrap();
    let (mut runs, mut damage) = (Vec::new(), Vec::new());
    for piece in database.runs(ROWS, 1 << 20) {
        match piece.content {
            Content::Item(run) => runs.push(String::from_utf8(run).unwrap()),
            Content::Damage(reason) | Content::Unread(reason) => damage.push(reason),
        }
    }
    (runs, damage)
}

/// All files of a folder with their bytes.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

#[test]
fn rows_of_a_run_stand_together() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a ?#.db");
    let rows = "INSERT INTO run VALUES ('a', '{\"k\":[1]}', 1), ('b', '{\"broken', NULL);
        INSERT INTO said VALUES ('b', 2, 'second'), ('b', 1, 'fi\"rst'), ('c', 1, 'of no run'), (7, 1, 'n')";
    drop(write(&path, &format!("{SCHEMA};{rows}")));
    let before = files(dir.path());
    let (runs, damage) = read(&path);
    assert_eq!(
        runs,
        [
            r#"{"run":[],"said":[{"text":"n"}]}"#,
            r#"{"run":[{"id":"a","about":{"k":[1]},"n":1}],"said":[]}"#,
            r#"{"run":[{"id":"b","about":"{\"broken"}],"said":[{"text":"fi\"rst"},{"text":"second"}]}"#,
            r#"{"run":[],"said":[{"text":"of no run"}]}"#,
        ]
    );
    assert!(damage.is_empty());
    assert_eq!(files(dir.path()), before);
}

#[test]
fn nothing_is_written_beside_a_database_that_is_open_elsewhere() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let writer =
        write(&path, &format!("PRAGMA journal_mode = WAL; {SCHEMA}; INSERT INTO run VALUES ('a', NULL, 1)"));
    writer.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); INSERT INTO run VALUES ('b', NULL, 2)").unwrap();
    let before = files(dir.path());
    assert_eq!(before.len(), 3);
    assert_eq!(read(&path).0.len(), 2, "the newest row stands in the log alone");
    assert_eq!(files(dir.path()), before);
    writer.execute_batch("INSERT INTO run VALUES ('c', NULL, 3)").unwrap();
    assert_eq!(read(&path).0.len(), 3);
    // Without a log it is read where it lies, and no log is made.
    drop(writer);
    let alone = files(dir.path());
    assert_eq!(alone.len(), 1);
    assert_eq!(read(&path).0.len(), 3);
    assert_eq!(files(dir.path()), alone);
}

/// Who writes without a log keeps others out for a moment, and may die in the middle.
#[test]
fn a_database_that_is_written_is_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let writer = write(&path, &format!("{SCHEMA}; INSERT INTO run VALUES ('a', NULL, 1)"));
    // A change that is not done yet is none.
    writer.execute_batch("BEGIN IMMEDIATE; INSERT INTO run VALUES ('b', NULL, 2)").unwrap();
    let before = files(dir.path());
    assert!(before.len() == 2 && read(&path).0.len() == 1);
    assert_eq!(files(dir.path()), before);
    writer.execute_batch("COMMIT; BEGIN EXCLUSIVE; INSERT INTO run VALUES ('c', NULL, 3)").unwrap();
    let ends = std::thread::spawn(move || {
        std::thread::sleep(PATIENCE / 4);
        writer.execute_batch("COMMIT").unwrap();
        writer
    });
    assert_eq!(read(&path).0.len(), 3);
    let writer = ends.join().unwrap();
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let error = Database::open(&path, None, 1 << 20).map(drop).unwrap_err().to_string();
    assert!(error.contains("another process writes it") && error.contains("hint: try again"), "{error}");
    drop(writer);
    // Pages that were written, and a journal of what stood there.
    let small = write(&path, "PRAGMA cache_size = 1; BEGIN IMMEDIATE");
    for i in 0..2000 {
        small.execute("INSERT INTO run VALUES (?1, ?2, 0)", (format!("{i}"), "x".repeat(100))).unwrap();
    }
    let torn = files(dir.path());
    assert!(torn.len() == 2);
    let dead = tempfile::tempdir().unwrap();
    for (path, bytes) in &torn {
        std::fs::write(dead.path().join(path.file_name().unwrap()), bytes).unwrap();
    }
    let before = files(dead.path());
    assert_eq!(read(&dead.path().join("a.db")).0.len(), 3);
    assert_eq!(files(dead.path()), before);
}

#[test]
fn a_packed_database_is_unpacked_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    drop(write(&path, &format!("{SCHEMA}; INSERT INTO run VALUES ('a', NULL, 1)")));
    let bytes = std::fs::read(&path).unwrap();
    let packed = dir.path().join("a.db.zst");
    std::fs::write(&packed, b"zst").unwrap();
    let database = Database::open(&packed, Some(&mut bytes.as_slice()), 1 << 20).unwrap();
    assert!(database.tables().unwrap().has("run", &["id", "about"]));
    assert_eq!(database.runs(ROWS, 1 << 20).iter().count(), 1);
}

#[test]
fn a_run_that_is_too_long_costs_itself_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let long = "x".repeat(3000);
    drop(write(&path, &format!("{SCHEMA}; INSERT INTO said VALUES ('a', 1, '{long}'), ('b', 1, 'short')")));
    let database = Database::open(&path, None, 1 << 20).unwrap();
    let pieces: Vec<Content> = database.runs(ROWS, 2000).iter().map(|piece| piece.content).collect();
    assert!(matches!(&pieces[..], [Content::Damage(_), Content::Item(_)]), "{pieces:?}");
}

/// The size of a row that is too long is told without reading it, and what stands before and behind it is read.
#[test]
fn a_row_that_is_too_long_costs_itself_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let long = "randomblob(3000000)";
    let rows = format!(
        "INSERT INTO run VALUES ('a', 'x', 1), ('b', {long}, 2);
        INSERT INTO said VALUES ('a', 1, 'first'), ('a', 2, {long}), ('a', 3, 'third'), ('b', 1, 'other')"
    );
    drop(write(&path, &format!("{SCHEMA};{rows}")));
    let (runs, damage) = read(&path);
    assert_eq!(
        runs,
        [
            r#"{"run":[{"id":"a","about":"x","n":1}],"said":[{"text":"first"},{"text":"third"}]}"#,
            r#"{"run":[],"said":[{"text":"other"}]}"#,
        ]
    );
    let hint = "too long\nhint: --max-memory allows an eighth of it to a row";
    let told = |at: &str| format!("row 2 of the table {at}: a row of 2.86 MiB, {hint}");
    assert_eq!(damage, [told("run"), told("said")]);
}

/// Damaged pages send nobody in circles, and cost no more than what they hold.
#[test]
fn damaged_databases_end() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.db");
    let mut sql = SCHEMA.to_owned();
    for i in 0..300 {
        sql += &format!(";INSERT INTO said VALUES ('{}', {i}, '{}')", i % 7, "w".repeat(i));
    }
    drop(write(&path, &sql));
    let whole = std::fs::read(&path).unwrap();
    let mut n_read = 0;
    for i in 0..200_usize {
        let mut bytes = whole.clone();
        for j in 0..4 {
            let at = 100 + (i * 7919 + j * 104_729) % (bytes.len() - 100);
            bytes[at] = (i * 31 + j * 17) as u8;
        }
        std::fs::write(&path, &bytes[..bytes.len() - i % 3 * 512]).unwrap();
        if let Ok(database) = Database::open(&path, None, 1 << 20) {
            n_read +=
                database.runs(ROWS, 1 << 20).iter().filter(|p| matches!(p.content, Content::Item(_))).count();
        }
    }
    assert!(n_read > 700, "{n_read} of 1400 runs");
}
