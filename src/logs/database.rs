//! SQLite databases of agents: opened so that nothing is written to them or beside them, also while the agent has them
//! open, and cut into runs.
//!
//! The newest rows stand in a log beside the database (`-wal`). Who opens both there writes a third file, and may undo or
//! move what another process left; so a database with such a log is copied into a temporary folder first.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement};
use serde::de::IgnoredAny;
use tempfile::TempDir;

use super::input::too_long;
use crate::logs::formats::reading::list::{Content, Piece};
use crate::logs::formats::reading::tables::{Rows, Tables};

/// What the files are called that SQLite keeps beside a database.
pub(super) const BESIDE: [&str; 3] = ["-wal", "-shm", "-journal"];
/// Those of them that hold rows; the other one changes whenever somebody looks.
pub(super) const READ_BESIDE: [&str; 2] = ["-wal", "-journal"];

/// Whether a file is called as one that SQLite keeps beside a database.
pub(super) fn is_beside(name: &str) -> bool {
    BESIDE.iter().any(|ending| name.ends_with(ending))
}

/// How often a copy is begun again because the database was cleaned up meanwhile.
const TRIES: usize = 5;

/// How long a database is waited for while another process writes it: a change takes a moment, unless the process keeps it.
const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 2 } else { 20 });
const LOOK_AGAIN: Duration = Duration::from_millis(3);
const BUSY: &str = "another process writes it all the time\nhint: try again when that one is done";

/// Whether the machine or another process is at fault, and not what stands in the database.
pub(super) fn is_passing(error: &rusqlite::Error) -> bool {
    use ErrorCode::{
        CannotOpen, DatabaseBusy, DatabaseLocked, DiskFull, FileLockingProtocolFailed, OutOfMemory,
        PermissionDenied, SystemIoFailure,
    };
    matches!(
        error.sqlite_error_code(),
        Some(
            CannotOpen
                | DatabaseBusy
                | DatabaseLocked
                | DiskFull
                | FileLockingProtocolFailed
                | OutOfMemory
                | PermissionDenied
                | SystemIoFailure
        )
    )
}

/// What an error of SQLite leaves out.
fn unread(what: &str, error: &rusqlite::Error) -> Content {
    let reason = format!("{what}: {error}");
    if is_passing(error) { Content::Unread(reason) } else { Content::Damage(reason) }
}

/// SQLite's steps for a byte of the file, and for any file: a damaged tree can send it in circles.
const STEPS_A_BYTE: u64 = 20;
const LEAST_STEPS: u64 = 10_000_000;
/// So many steps are made between two looks at that.
const STEPS_A_LOOK: i32 = 10_000;

/// A database that can be read.
pub(super) struct Database {
    connection: Connection,
    /// Goes with it.
    _copy: Option<TempDir>,
}

impl Database {
    /// Opens a database; `unpacked` reads it where it is packed. No value may be longer than `max`.
    pub(super) fn open(path: &Path, unpacked: Option<&mut dyn Read>, max: u64) -> anyhow::Result<Self> {
        if let Some(reader) = unpacked {
            return Database::of_copy(copy_of(reader)?, max);
        }
        let has_log = std::fs::metadata(beside(path, "-wal")).is_ok_and(|m| m.len() > 0);
        if has_log && let Ok(copy) = copy(path) {
            return Database::of_copy(copy, max);
        }
        // In this mode SQLite makes the files beside it, unless it is told that nobody writes.
        let is_alone = !has_log && is_in_wal_mode(path)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
        let mut connection = Connection::open_with_flags(uri(path, is_alone), flags)?;
        match begin(&mut connection, path.metadata()?.len(), max) {
            Ok(()) => Ok(Database { connection, _copy: None }),
            // What a writer left half done when it died is undone in a copy.
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ReadOnly) => {
                Database::of_copy(copy(path)?, max)
            }
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                Err(io::Error::new(io::ErrorKind::ResourceBusy, BUSY).into())
            }
            Err(error) => Err(error.into()),
        }
    }

    fn of_copy((folder, file): Copy, max: u64) -> anyhow::Result<Self> {
        let mut connection = Connection::open(&file)?;
        begin(&mut connection, file.metadata()?.len(), max)?;
        Ok(Database { connection, _copy: Some(folder) })
    }

    /// The tables with their columns.
    pub(super) fn tables(&self) -> rusqlite::Result<Tables> {
        let mut statement = self.connection.prepare(
            "SELECT t.name, c.name FROM sqlite_schema AS t JOIN pragma_table_info(t.name) AS c WHERE t.type = 'table'",
        )?;
        let mut tables = Tables::default();
        let columns = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for column in columns {
            let (table, column): (String, String) = column?;
            tables.add(table, column);
        }
        Ok(tables)
    }

    /// The texts that a query gives, one a row.
    pub(super) fn texts(&self, sql: &str) -> rusqlite::Result<Vec<String>> {
        let mut statement = self.connection.prepare(sql)?;
        let texts = statement.query_map([], |row| row.get::<_, Option<String>>(0))?;
        texts.filter_map(Result::transpose).collect()
    }

    /// Reads in a thread of its own, and hands over the runs one after the other, each as an object of lists of rows.
    pub(super) fn runs(self, rows: &'static [Rows], max: u64) -> mpsc::Receiver<Piece> {
        let (sender, receiver) = mpsc::sync_channel(1);
        std::thread::spawn(move || {
            // Nobody may wait for more.
            let mut send = |content| sender.send(Piece { offset: 0, content }).is_ok();
            if let Err(error) = self.hand_over(rows, max, &mut send) {
                send(unread("cannot read the database", &error));
            }
        });
        receiver
    }

    fn hand_over(
        &self,
        rows: &'static [Rows],
        max: u64,
        send: &mut dyn FnMut(Content) -> bool,
    ) -> rusqlite::Result<()> {
        let tables = self.tables()?;
        let known: Vec<&Rows> = rows.iter().filter(|of| tables.has(of.table, &[])).collect();
        let mut statements = Vec::new();
        for of in &known {
            match self.statements(of, tables.columns(of.table)) {
                Ok(of_table) => statements.push((of_table, *of)),
                Err(error) => drop(send(unread(&format!("cannot read the table {}", of.name), &error))),
            }
        }
        let mut cursors = Vec::new();
        for ([order, row, size], of) in &mut statements {
            let mut cursor = Cursor { order: order.query([])?, row, size, of, next: None };
            cursor.advance(send);
            cursors.push(cursor);
        }
        while let Some(key) =
            cursors.iter().filter_map(|c| c.next.as_ref()).map(|(key, _)| key).min().cloned()
        {
            let mut run = Vec::new();
            let mut is_long = false;
            for cursor in &mut cursors {
                run.extend(if run.is_empty() { b"{" } else { b"," });
                run.extend(format!("\"{}\":[", cursor.of.name).bytes());
                while let Some((_, row)) = cursor.next.take_if(|(of, _)| *of == key) {
                    is_long |= (run.len() + row.len()) as u64 > max;
                    if !is_long {
                        run.extend(if run.ends_with(b"[") { "" } else { "," }.bytes());
                        run.extend(row.bytes());
                    }
                    cursor.advance(send);
                }
                run.push(b']');
            }
            run.push(b'}');
            let content = match is_long {
                true => Content::Damage(too_long("a run of a database", run.len() as u64)),
                false => Content::Item(run),
            };
            if !send(content) {
                break;
            }
        }
        Ok(())
    }
}

impl Database {
    /// Those that give the rows of a table in order, one of them, and the bytes of that one.
    fn statements(&self, of: &Rows, columns: &[String]) -> rusqlite::Result<[Statement<'_>; 3]> {
        let quoted = columns.iter().map(|column| column.replace('"', "\"\""));
        let sizes: Vec<String> =
            quoted.map(|column| format!("coalesce(octet_length(\"{column}\"), 0)")).collect();
        let row = |what: &str| format!("SELECT {what} FROM {} WHERE rowid = ?1", of.table);
        Ok([
            self.connection.prepare(of.order)?,
            self.connection.prepare(&row(of.columns))?,
            self.connection.prepare(&row(&sizes.join(" + ")))?,
        ])
    }
}

/// Looks again soon: between two changes of a process that writes all the time there is little room.
fn waits(n_looks: i32) -> bool {
    std::thread::sleep(LOOK_AGAIN);
    LOOK_AGAIN * n_looks.unsigned_abs() < PATIENCE
}

/// Begins to read one state of a database, however long the reading takes. Whoever writes it just now is waited for.
fn begin(connection: &mut Connection, size: u64, max: u64) -> rusqlite::Result<()> {
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
    connection.set_limit(Limit::SQLITE_LIMIT_LENGTH, i32::try_from(max).unwrap_or(i32::MAX))?;
    connection.busy_handler(Some(waits))?;
    let mut looks = (LEAST_STEPS + STEPS_A_BYTE * size) / STEPS_A_LOOK as u64;
    let is_over = move || {
        looks = looks.saturating_sub(1);
        looks == 0
    };
    connection.progress_handler(STEPS_A_LOOK, Some(is_over))?;
    connection.execute_batch("PRAGMA query_only = ON; PRAGMA cell_size_check = ON; BEGIN")?;
    // The state is that of the first look.
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
}

/// The rows of one table, in the order of their runs.
struct Cursor<'a, 'c> {
    order: rusqlite::Rows<'a>,
    row: &'a mut Statement<'c>,
    size: &'a mut Statement<'c>,
    of: &'static Rows,
    /// The run of the next row, and that row as JSON.
    next: Option<(Key, String)>,
}

/// What says whose run a row is, in the order of SQLite.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Null,
    Number(i64),
    Text(Vec<u8>),
    Data(Vec<u8>),
}

impl Cursor<'_, '_> {
    /// Goes to the next row that can be read. Where the order of the rows cannot be read on, the table ends.
    fn advance(&mut self, send: &mut dyn FnMut(Content) -> bool) {
        loop {
            let next = self
                .order
                .next()
                .and_then(|row| row.map(|row| Ok((key(row.get_ref(0)?), row.get::<_, i64>(1)?))).transpose());
            let (key, number) = match next {
                Ok(Some(next)) => next,
                Ok(None) => return self.next = None,
                Err(error) => return self.end(&error, send),
            };
            match self.row.query_row([number], |row| object(row, self.of.json)) {
                Ok(row) => return self.next = Some((key, row)),
                // It would take too many steps.
                Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
                    return self.end(&error, send);
                }
                Err(error) => {
                    let row = format!("row {number} of the table {}", self.of.name);
                    let size = self.size.query_row([number], |row| row.get::<_, i64>(0));
                    let is_long = error.sqlite_error_code() == Some(ErrorCode::TooBig);
                    send(match size.ok().filter(|_| is_long) {
                        Some(size) => {
                            Content::Damage(format!("{row}: {}", too_long("a row", size.unsigned_abs())))
                        }
                        None => unread(&format!("cannot read {row}"), &error),
                    });
                }
            }
        }
    }

    fn end(&mut self, error: &rusqlite::Error, send: &mut dyn FnMut(Content) -> bool) {
        self.next = None;
        send(unread(&format!("cannot read on in the table {}", self.of.name), error));
    }
}

/// The run of a row.
fn key(value: ValueRef<'_>) -> Key {
    match value {
        ValueRef::Null => Key::Null,
        ValueRef::Integer(n) => Key::Number(n),
        ValueRef::Real(n) => Key::Number(n as i64),
        ValueRef::Text(text) => Key::Text(text.to_owned()),
        ValueRef::Blob(data) => Key::Data(data.to_owned()),
    }
}

/// The columns of a row as an object.
fn object(row: &rusqlite::Row<'_>, json: &[&str]) -> rusqlite::Result<String> {
    let mut fields = Vec::new();
    for (i, column) in row.as_ref().column_names().into_iter().enumerate() {
        let value = match row.get_ref(i)? {
            ValueRef::Null => continue,
            ValueRef::Integer(n) => n.to_string(),
            ValueRef::Real(n) => serde_json::Value::from(n).to_string(),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                let is_json = json.contains(&column);
                match is_json && serde_json::from_str::<IgnoredAny>(&text).is_ok() {
                    true => text.into_owned(),
                    false => serde_json::Value::from(text).to_string(),
                }
            }
        };
        fields.push(format!("{}:{value}", serde_json::Value::from(column)));
    }
    Ok(format!("{{{}}}", fields.join(",")))
}

/// Where a file stands beside a database.
pub(super) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(ending);
    PathBuf::from(name)
}

/// Whether the header says that changes go to a log beside the database.
fn is_in_wal_mode(path: &Path) -> io::Result<bool> {
    let mut header = [0; 20];
    File::open(path)?.read_exact(&mut header)?;
    Ok(header[18] == 2 || header[19] == 2)
}

/// The name of a file as SQLite takes it, which says so if nobody else has it open.
fn uri(path: &Path, is_alone: bool) -> String {
    let path = path.to_string_lossy().into_owned();
    let path = if cfg!(windows) { format!("/{}", path.replace('\\', "/")) } else { path };
    let encoded: String = path
        .bytes()
        .map(|b| match b {
            b'/' | b'.' | b'-' | b'_' | b':' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                char::from(b).to_string()
            }
            _ => format!("%{b:02X}"),
        })
        .collect();
    format!("file:{encoded}{}", if is_alone { "?immutable=1" } else { "" })
}

type Copy = (TempDir, PathBuf);

fn folder() -> io::Result<Copy> {
    let folder = tempfile::Builder::new().prefix("trajpress-").tempdir()?;
    let file = folder.path().join("database");
    Ok((folder, file))
}

fn copy_of(reader: &mut dyn Read) -> io::Result<Copy> {
    let copy = folder()?;
    io::copy(reader, &mut File::create(&copy.1)?)?;
    Ok(copy)
}

/// Copies a database with what stands beside it. The copy is one state as long as the log was not begun anew: pages that
/// were moved out of it meanwhile stand in the copy of the log, too.
fn copy(path: &Path) -> io::Result<Copy> {
    let start = || -> io::Result<[Vec<u8>; 2]> {
        let mut starts = [Vec::new(), Vec::new()];
        for (start, ending) in starts.iter_mut().zip(READ_BESIDE) {
            match File::open(beside(path, ending)) {
                Ok(log) => log.take(32).read_to_end(start)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                Err(error) => return Err(error),
            };
        }
        Ok(starts)
    };
    let (folder, file) = folder()?;
    for _ in 0..TRIES {
        let before = start()?;
        io::copy(&mut File::open(path)?, &mut File::create(&file)?)?;
        for ending in READ_BESIDE {
            match File::open(beside(path, ending)) {
                Ok(mut from) => io::copy(&mut from, &mut File::create(beside(&file, ending))?)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
                Err(error) => return Err(error),
            };
        }
        if start()? == before {
            return Ok((folder, file));
        }
    }
    Err(io::Error::new(io::ErrorKind::ResourceBusy, "the database is cleaned up all the time"))
}

#[cfg(test)]
mod tests;
