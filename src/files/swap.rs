//! Files of a folder that change together.
//!
//! They are written under other names first. One rename then puts a list of them in place: before it nothing has
//! changed, and behind it all of them get their names, whoever is killed when. What one process leaves half done, the next
//! one ends ([`settle`]). Knows nothing of what the files hold.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::Path;

use anyhow::Context as _;

use crate::files::{reach, whole};

/// The list: a line a file, what it is called and what it will be called.
const LIST: &str = ".trajpress.swap";

/// Gives files of a folder their names, all or none; `draft` is the name of the list until it is in place. All are names in
/// the folder.
pub fn swap(folder: &Path, draft: &str, files: &[(String, &str)]) -> anyhow::Result<()> {
    let text: String = files.iter().map(|(now, name)| format!("{now}\t{name}\n")).collect();
    let path = folder.join(draft);
    let write = || -> io::Result<()> {
        let mut file = File::create(&path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&path, folder.join(LIST))
    };
    write().with_context(|| format!("cannot write {}", path.display()))?;
    settle(folder)
}

/// Whether a list is in place: then the files that it names are not to be removed.
pub fn is_begun(folder: &Path) -> bool {
    fs::symlink_metadata(folder.join(LIST)).is_ok()
}

/// Ends what a process began that was killed; nobody else may be at it.
pub fn settle(folder: &Path) -> anyhow::Result<()> {
    let path = folder.join(LIST);
    let Some(list) = reach::read(&path)? else { return Ok(()) };
    for line in String::from_utf8_lossy(&list).lines() {
        let Some((now, name)) = line.split_once('\t') else { continue };
        match fs::rename(folder.join(now), folder.join(name)) {
            // It has its name already.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            done => done.with_context(|| format!("cannot write {}", folder.join(name).display()))?,
        }
    }
    whole::remove(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_begun_is_ended_wherever_it_stopped() {
        for n_done in 0..=2 {
            let dir = tempfile::tempdir().unwrap();
            let write = |name: &str, text: &str| fs::write(dir.path().join(name), text).unwrap();
            let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
            let names = ["a", "b"];
            for name in names {
                write(name, "old");
                write(&format!("{name}.new"), "new");
            }
            // Killed behind the list, and some renames.
            write(LIST, "a.new\ta\nb.new\tb\n");
            for name in &names[..n_done] {
                fs::rename(dir.path().join(format!("{name}.new")), dir.path().join(name)).unwrap();
            }
            settle(dir.path()).unwrap();
            assert_eq!(names.map(read), ["new", "new"]);
            assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing is left");
            settle(dir.path()).unwrap();
        }
    }

    #[test]
    fn all_have_their_names_at_the_end() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("x"), "1").unwrap();
        swap(dir.path(), "draft", &[("x".to_owned(), "y")]).unwrap();
        assert_eq!(fs::read_to_string(dir.path().join("y")).unwrap(), "1");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }
}
