//! The files that a program is known by: another hash of them is another program.

use std::path::Path;
use std::time::SystemTime;

/// Files of the command: what it names that is one, and those that are named beside it.
pub(super) fn named(command: &[String], others: &[String]) -> Vec<String> {
    // A name without a folder in the first place is looked for elsewhere.
    let is_file =
        |(at, name): &(usize, &String)| (*at > 0 || name.contains('/')) && Path::new(name).is_file();
    let named = command.iter().enumerate().filter(is_file).map(|(_, name)| name);
    named.chain(others).cloned().collect()
}

/// Where the program is found that the command names without a folder.
pub(super) fn on_path(command: &[String]) -> Option<String> {
    let name = command.first().filter(|name| !name.contains('/'))?;
    let folders = std::env::var_os("PATH")?;
    let found =
        std::env::split_paths(&folders).map(|folder| folder.join(name)).find(|file| file.is_file())?;
    Some(found.to_str()?.to_owned())
}

/// Files, each with its size and time.
pub(super) type Stamps = Vec<(String, Option<(u64, SystemTime)>)>;

pub(super) fn stamps(files: Vec<String>) -> Stamps {
    let stamp = |name: &str| {
        let about = std::fs::metadata(name).ok()?;
        Some((about.len(), about.modified().ok()?))
    };
    files.into_iter().map(|name| (name.clone(), stamp(&name))).collect()
}

/// A hash of files, 12 hex digits.
pub(super) fn hash(files: &[String]) -> Result<String, String> {
    let mut hash = blake3::Hasher::new();
    for name in files {
        let bytes = std::fs::read(name).map_err(|error| format!("cannot read `{name}`: {error}"))?;
        hash.update(blake3::hash(&bytes).as_bytes());
    }
    Ok(hash.finalize().to_hex()[..12].to_owned())
}
