//! What the user's Python does for a fetch: pip downloads, scripts convert.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};

use super::Attempt;

impl Attempt<'_> {
    /// The wheel of a package, through the user's own pip: its index, mirror, proxy and certificates.
    pub(super) fn download(&mut self, package: &str, written: u64) -> anyhow::Result<PathBuf> {
        let (to, scratch) = (self.work.join("wheel"), self.work.join("pip"));
        for dir in [&to, &scratch] {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        let mut command = self.python();
        command
            .args([
                "-m",
                "pip",
                "download",
                "--no-deps",
                "--only-binary=:all:",
                "--no-cache-dir",
                "--no-input",
            ])
            .args(["--disable-pip-version-check", "--progress-bar", "off", "--dest"])
            .arg(&to)
            .arg(package)
            // What pip unpacks on the way is then removed with the rest, however this ends.
            .env("TMPDIR", &scratch);
        let (status, said) =
            self.watched(command, "pip download", self.options.patience, &scratch, written)?;
        if !status {
            let hint = match said.contains("No module named pip") {
                true => "install pip, on Debian by `apt-get install python3-pip`",
                false => "`python3 -m pip config list` says which index is asked; is it reachable?",
            };
            bail!("pip failed: {said}\nhint: {hint}");
        }
        let mut files = fs::read_dir(&to)?.filter_map(|f| Some(f.ok()?.path()));
        let wheel = files.find(|f| f.extension().is_some_and(|e| e == "whl"));
        wheel.with_context(|| format!("pip left no wheel: {said}"))
    }

    /// Runs a script of ours over the inputs.
    pub(super) fn convert(
        &mut self,
        name: &str,
        text: &str,
        inputs: &[PathBuf],
        out: &Path,
    ) -> anyhow::Result<()> {
        let path = self.work.join("convert.py");
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        let mut command = self.python();
        command.arg("-I").arg(&path).args(inputs).arg(out);
        // It computes long before it writes.
        let (status, said) = self.watched(command, "converting", self.options.patience * 5, self.work, 0)?;
        ensure!(status, "{name} failed: {said}");
        Ok(())
    }

    fn python(&self) -> Command {
        let mut command = Command::new(&self.options.python[0]);
        command.args(&self.options.python[1..]);
        command
    }

    /// Runs a command to its end: whether it went well, and the last that it said. It is stopped, with an error,
    /// when the folder that it writes to has not grown for so long. `written` bytes were there before.
    fn watched(
        &mut self,
        mut command: Command,
        doing: &str,
        patience: Duration,
        folder: &Path,
        written: u64,
    ) -> anyhow::Result<(bool, String)> {
        // Through memory: a full disk must not swallow what is said of it.
        let (mut from, to) = io::pipe()?;
        command.stdin(Stdio::null()).stdout(to.try_clone()?).stderr(to);
        let program = command.get_program().to_string_lossy().into_owned();
        let mut child = command.spawn().map_err(|e| {
            let hint = "install it, on Debian by `apt-get install python3 python3-pip`";
            anyhow::anyhow!("cannot run {program}: {e}\nhint: {hint}")
        })?;
        // It holds the other end of the pipe.
        drop(command);
        let (send, said) = mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            let _ = send.send(bytes);
        });
        let begin = size(folder);
        let (mut last, mut since) = (begin, Instant::now());
        let status = loop {
            if let Some(status) = child.try_wait()? {
                break status;
            }
            let now = size(folder);
            if now != last {
                (last, since) = (now, Instant::now());
                self.told(doing, written + now.saturating_sub(begin));
            }
            if since.elapsed() > patience {
                child.kill().and_then(|()| child.wait())?;
                bail!("{doing} wrote nothing for {} s and was stopped", patience.as_secs_f64());
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        // A child of the command may keep the pipe open.
        let said = said.recv_timeout(Duration::from_secs(1)).unwrap_or_default();
        let gist = gist(&String::from_utf8_lossy(&said));
        Ok((status.success(), if gist.is_empty() { status.to_string() } else { gist }))
    }
}

/// What matters of what a command said: its errors and its last line.
fn gist(said: &str) -> String {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|l| !l.is_empty()).collect();
    let is_error = |l: &&str| l.starts_with("ERROR") && *l != "ERROR: Exception:";
    let mut gist: Vec<&str> = lines.iter().copied().filter(is_error).collect();
    if let Some(last) = lines.last().filter(|last| !gist.contains(last)) {
        gist.push(last);
    }
    gist[gist.len().saturating_sub(3)..].join("; ")
}

/// Bytes of all files in a folder.
fn size(dir: &Path) -> u64 {
    let files = walkdir::WalkDir::new(dir).into_iter().flatten();
    files.filter_map(|f| f.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}
