//! Whether something stands at a path.
//!
//! What cannot be told (a folder that may not be entered, a file in the place of a folder, a loop of links) is an
//! error with the path and the system's words, and never "missing": who is told that makes again what is there.
//! Knows nothing of what the files hold.

use std::io::Read as _;
use std::path::Path;
use std::{fs, io};

use anyhow::Context as _;

/// Bytes of a file that somebody wrote by hand, or a program for them, at most.
const MOST_BYTES: u64 = 256 << 20;

/// The text of such a file. It may be a pipe; what never ends is refused.
///
/// # Errors
/// It cannot be read, is too long, or is no UTF-8.
pub fn text(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MOST_BYTES {
        true => Err(io::Error::other(format!("longer than {} MiB, which no such file is", MOST_BYTES >> 20))),
        false => Ok(text),
    }
}

/// Whether a file or folder is there. A link that leads nowhere is an error: something stands there.
pub fn is_there(path: &Path) -> anyhow::Result<bool> {
    match fs::metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot reach {}", path.display())),
    }
}

/// The bytes of a file, if it is there.
pub fn read(path: &Path) -> anyhow::Result<Option<Vec<u8>>> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.is_symlink() => Ok(None),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn what_never_ends_is_refused() {
        let error = text(Path::new("/dev/zero")).unwrap_err();
        assert_eq!(error.to_string(), "longer than 256 MiB, which no such file is");
        assert_eq!(text(Path::new("/dev/null")).unwrap(), "");
    }

    #[test]
    fn only_what_is_not_there_is_missing() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("file"), "x").unwrap();
        assert!(is_there(&at("file")).unwrap() && is_there(dir.path()).unwrap());
        assert!(!is_there(&at("none")).unwrap() && !is_there(&at("none/x")).unwrap());
        assert_eq!(read(&at("file")).unwrap().as_deref(), Some(&b"x"[..]));
        assert_eq!(read(&at("none")).unwrap(), None);
        let told = |path: &Path| {
            let errors = [is_there(path).unwrap_err(), read(path).unwrap_err()];
            assert!(errors.iter().all(|e| e.to_string().contains(&path.display().to_string())), "{errors:?}");
        };
        told(&at("file/x"));
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink("loop", at("loop")).unwrap();
            std::os::unix::fs::symlink("none", at("dangling")).unwrap();
            ["loop", "loop/x", "dangling"].iter().for_each(|name| told(&at(name)));
            told(&at(&"0".repeat(300)));
        }
    }
}
