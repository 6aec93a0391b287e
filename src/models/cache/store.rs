//! The file that holds answers: SQLite, shared by any number of processes, with a cap on its size.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};

use super::{Key, lock};
use crate::models::Answer;

/// An entry's last use is written down again after so many seconds: reading stays reading.
const AGE: i64 = 3600;

/// The file with the answers.
pub struct Store {
    pub(super) connection: Mutex<Connection>,
    path: PathBuf,
    /// Bytes of answers that are kept at most.
    cap: i64,
    /// What `path` named when it was opened.
    file: Option<(u64, u64)>,
    /// Said once, when the store stops working in mid-run.
    failed: Mutex<Option<String>>,
}

/// Which file a path names: its device and its number there.
#[cfg(unix)]
fn file_at(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    std::fs::metadata(path).ok().map(|file| (file.dev(), file.ino()))
}

#[cfg(not(unix))]
fn file_at(path: &Path) -> Option<(u64, u64)> {
    path.exists().then_some((0, 0))
}

/// Seconds since 1970, as SQLite counts them: signed.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

impl Store {
    /// Opens the store, or makes it. `cap` is in bytes of the file, without the log that SQLite writes beside it.
    pub fn open(path: &Path, cap: u64) -> anyhow::Result<Self> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make the cache's folder {}\nhint: name another file by --cache, or run with --no-cache", folder.display()))?;
        }
        let connection = Self::prepare(path).map_err(|error| {
            anyhow::anyhow!(
                "cannot use the call cache {}: {error}\nhint: name another file by --cache, or run with --no-cache",
                path.display()
            )
        })?;
        Ok(Self {
            connection: Mutex::new(connection),
            path: path.to_owned(),
            file: file_at(path),
            cap: cap.min(i64::MAX as u64) as i64,
            failed: Mutex::new(None),
        })
    }

    fn prepare(path: &Path) -> rusqlite::Result<Connection> {
        let mut connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(60))?;
        connection.pragma_update(None, "auto_vacuum", "incremental")?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.execute_batch(
            "CREATE TABLE IF NOT EXISTS answers (
                 key BLOB PRIMARY KEY, answer BLOB NOT NULL, seconds REAL NOT NULL, used INTEGER NOT NULL
             ) WITHOUT ROWID;
             CREATE INDEX IF NOT EXISTS answers_by_use ON answers (used);
             CREATE TABLE IF NOT EXISTS size (one INTEGER PRIMARY KEY CHECK (one = 1), bytes INTEGER NOT NULL);
             INSERT OR IGNORE INTO size VALUES (1, 0);",
        )?;
        seal_all(&mut connection)?;
        Ok(connection)
    }

    /// How many answers there are, the seconds that they had cost, and days since the one was used that was used longest ago.
    pub fn stats(&self) -> anyhow::Result<(u64, f64, Option<f64>)> {
        let connection = lock(&self.connection);
        let of = "SELECT count(*), total(seconds), min(used) FROM answers";
        let (n, seconds, oldest): (i64, f64, Option<i64>) =
            connection.query_row(of, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let days = oldest.map(|oldest| (now() - oldest).max(0) as f64 / 86400.0);
        Ok((n.max(0) as u64, seconds, days))
    }

    /// Deletes the answers that were not used for so long; how many.
    pub fn prune(&self, unused: Duration) -> anyhow::Result<u64> {
        let mut connection = lock(&self.connection);
        let write = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let until = now() - unused.as_secs() as i64;
        let n = write.execute("DELETE FROM answers WHERE used <= ?", params![until])?;
        write
            .execute("UPDATE size SET bytes = (SELECT coalesce(sum(length(answer)), 0) FROM answers)", [])?;
        write.commit()?;
        give_back(&connection)?;
        Ok(n as u64)
    }

    /// Bytes of the answers kept now.
    #[cfg(test)]
    pub fn bytes(&self) -> anyhow::Result<i64> {
        let connection = lock(&self.connection);
        Ok(connection.query_row("SELECT bytes FROM size", [], |row| row.get(0))?)
    }

    /// Why the store stopped working during the run, if it did: answers were then computed without it.
    #[cfg(test)]
    pub fn failure(&self) -> Option<String> {
        lock(&self.failed).clone()
    }

    fn usable<T>(&self, result: rusqlite::Result<T>) -> Option<T> {
        // SQLite goes on in a file that has no name any more, and nobody would find the answers again.
        if file_at(&self.path) != self.file {
            self.tell(
                "it was deleted or replaced during the run; what is computed now is not kept for another",
            );
        }
        result.map_err(|error| self.tell(&format!("{error}; going on without it"))).ok()
    }

    fn tell(&self, what: &str) {
        lock(&self.failed).get_or_insert_with(|| {
            let said = format!("call cache {}: {what}", self.path.display());
            tracing::warn!("{said}");
            said
        });
    }

    /// The answers known, with the seconds that they cost.
    pub(super) fn find(&self, keys: &[Key]) -> Vec<Option<(Answer, f64)>> {
        let mut connection = lock(&self.connection);
        let found = (|| {
            let mut found = Vec::with_capacity(keys.len());
            let mut old = Vec::new();
            let now = now();
            {
                let mut select =
                    connection.prepare_cached("SELECT answer, seconds, used FROM answers WHERE key = ?")?;
                for key in keys {
                    let row: Option<(Vec<u8>, f64, i64)> = select
                        .query_row(params![key.as_slice()], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
                        .optional()?;
                    found.push(row.and_then(|(bytes, seconds, used)| {
                        if used + AGE < now {
                            old.push(*key);
                        }
                        // What is damaged is computed again.
                        let Some(bytes) = unsealed(key, &bytes) else {
                            self.tell("it holds an answer that is damaged, which is asked again");
                            return None;
                        };
                        postcard::from_bytes(bytes).ok().map(|answer| (answer, seconds))
                    }));
                }
            }
            if !old.is_empty() {
                let write = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                for key in old {
                    write
                        .execute("UPDATE answers SET used = ? WHERE key = ?", params![now, key.as_slice()])?;
                }
                write.commit()?;
            }
            Ok(found)
        })();
        self.usable(found).unwrap_or_else(|| keys.iter().map(|_| None).collect())
    }

    /// Keeps answers that cost so many seconds each.
    pub(super) fn keep(&self, entries: Vec<(Key, Vec<u8>)>, seconds: f64) {
        let mut connection = lock(&self.connection);
        let kept = (|| {
            let write = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut added = 0i64;
            for (key, answer) in entries {
                let bytes = sealed(&key, answer);
                let before: Option<i64> = write
                    .query_row(
                        "SELECT length(answer) FROM answers WHERE key = ?",
                        params![key.as_slice()],
                        |row| row.get(0),
                    )
                    .optional()?;
                write.execute(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?)",
                    params![key.as_slice(), bytes, seconds, now()],
                )?;
                added += bytes.len() as i64 - before.unwrap_or(0);
            }
            write.execute("UPDATE size SET bytes = bytes + ?", params![added])?;
            let bytes: i64 = write.query_row("SELECT bytes FROM size", [], |row| row.get(0))?;
            // Pages hold more than the answers, of short ones several times as much.
            let used = used(&write)?;
            let counted = if used > self.cap.max(SMALLEST) { used } else { bytes };
            if counted > self.cap {
                let room = i128::from(bytes) * i128::from(self.cap / 10 * 9) / i128::from(counted);
                evict(&write, bytes, room as i64)?;
            }
            write.commit()?;
            if counted > self.cap {
                give_back(&connection)?;
            }
            Ok(())
        })();
        self.usable(kept);
    }
}

/// Gives pages without answers back to the disk.
fn give_back(connection: &Connection) -> rusqlite::Result<()> {
    // Each step gives one page back.
    let mut vacuum = connection.prepare("PRAGMA incremental_vacuum")?;
    let mut steps = vacuum.query([])?;
    while steps.next()?.is_some() {}
    Ok(())
}

/// A file of fewer bytes is never too large: that is what SQLite needs for little more than itself.
const SMALLEST: i64 = 1 << 20;

/// Bytes of the pages in use.
fn used(connection: &Connection) -> rusqlite::Result<i64> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    Ok((pragma("page_count")? - pragma("freelist_count")?) * pragma("page_size")?)
}

/// Deletes what was used longest ago until `room` bytes are left.
fn evict(write: &Connection, mut bytes: i64, room: i64) -> rusqlite::Result<()> {
    let mut oldest = Vec::new();
    {
        let mut select = write.prepare("SELECT key, length(answer) FROM answers ORDER BY used, key")?;
        let mut rows = select.query([])?;
        while bytes > room {
            let Some(row) = rows.next()? else { break };
            oldest.push(row.get::<_, Vec<u8>>(0)?);
            bytes -= row.get::<_, i64>(1)?;
        }
    }
    for key in oldest {
        write.execute("DELETE FROM answers WHERE key = ?", params![key])?;
    }
    write.execute("UPDATE size SET bytes = ?", params![bytes])?;
    Ok(())
}

/// Bytes of the hash at the end of an answer.
const SEAL: usize = 16;

/// The hash of an answer together with the call that it belongs to: an answer in another's place is damaged, too.
fn seal(key: &[u8], answer: &[u8]) -> [u8; SEAL] {
    let hash = blake3::Hasher::new().update(key).update(answer).finalize();
    std::array::from_fn(|i| hash.as_bytes()[i])
}

fn sealed(key: &[u8], mut answer: Vec<u8>) -> Vec<u8> {
    let seal = seal(key, &answer);
    answer.extend(seal);
    answer
}

/// The answer without its hash; none if the two do not fit.
fn unsealed<'a>(key: &[u8], bytes: &'a [u8]) -> Option<&'a [u8]> {
    let (answer, end) = bytes.split_last_chunk::<SEAL>()?;
    (*end == seal(key, answer)).then_some(answer)
}

/// In a file of this version each answer ends in its hash.
const SEALED: i64 = 1;

/// Gives the answers of an older file their hashes, once.
fn seal_all(connection: &mut Connection) -> rusqlite::Result<()> {
    let version = |c: &Connection| c.pragma_query_value(None, "user_version", |row| row.get::<_, i64>(0));
    if version(connection)? >= SEALED {
        return Ok(());
    }
    let write = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // Another process may have done it meanwhile.
    if version(&write)? < SEALED {
        let keys: Vec<Vec<u8>> = {
            let mut select = write.prepare("SELECT key FROM answers")?;
            select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?
        };
        for key in &keys {
            let of = "SELECT answer FROM answers WHERE key = ?";
            let answer: Vec<u8> = write.query_row(of, params![key], |row| row.get(0))?;
            let sealed = sealed(key, answer);
            write.execute("UPDATE answers SET answer = ? WHERE key = ?", params![sealed, key])?;
        }
        write.execute("UPDATE size SET bytes = bytes + ?", params![(keys.len() * SEAL) as i64])?;
        write.pragma_update(None, "user_version", SEALED)?;
    }
    write.commit()
}
