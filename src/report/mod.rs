//! Tables and figures of a run.
//!
//! Reads rows and nothing else: a report is redrawn without a model or a log, on another machine,
//! years later. It knows no strategy or trigger, only what the rows call them. Same rows and same
//! seed give the same bytes.

pub mod bootstrap;
mod canvas;
mod figure;
mod labels;
mod load;
mod summary;
#[cfg(test)]
mod synthetic;
mod tables;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use bootstrap::Resampling;

/// What a report left behind.
pub struct Written {
    pub files: Vec<PathBuf>,
    /// Remarks for the reader's eyes: failed cells, variants on different trajectories.
    pub remarks: Vec<String>,
}

/// Writes all tables and figures of the run in `run` into `out`.
pub fn write(run: &Path, out: &Path, resampling: Resampling) -> anyhow::Result<Written> {
    let run = load::Run::open(run)?;
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let summary = summary::summarise(&run, resampling)?;

    let mut files = Vec::new();
    let mut text = |name: &str, content: &str| -> anyhow::Result<()> {
        let path = out.join(name);
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        files.push(path);
        Ok(())
    };
    let tables = [summary.table(), summary.strata(), summary.by_format()];
    text("summary.md", &summary.markdown(&tables))?;
    for table in &tables {
        text(&format!("{}.csv", table.name), &table.csv())?;
    }
    let figure = figure::retention_savings(&summary.points());
    text("retention_savings.svg", &figure.svg()?)?;
    for table in &tables {
        let path = out.join(format!("{}.parquet", table.name));
        table.write_parquet(&path)?;
        files.push(path);
    }
    let path = out.join("retention_savings.png");
    figure.png(&path)?;
    files.push(path);
    Ok(Written { files, remarks: summary.remarks })
}

#[cfg(test)]
mod tests {
    use super::*;
    use synthetic::{GRID, TINY, write_run};

    const RESAMPLING: Resampling = Resampling { seed: 1, resamples: 500 };

    fn report(specs: &[synthetic::Spec], n: usize, repositories: usize) -> (tempfile::TempDir, Written) {
        let dir = tempfile::tempdir().unwrap();
        write_run(dir.path(), specs, n, repositories);
        let written = write(dir.path(), &dir.path().join("report"), RESAMPLING).unwrap();
        (dir, written)
    }

    /// `TRAJPRESS_REPORT_OUT=DIR` keeps the files, to look at them.
    #[test]
    fn a_report_of_a_grid_is_complete_and_repeats_byte_by_byte() {
        let (_a, first) = report(&GRID, 60, 12);
        let (_b, second) = report(&GRID, 60, 12);
        let names: Vec<_> = first.files.iter().map(|f| f.file_name().unwrap().to_owned()).collect();
        assert_eq!(names.len(), 9);
        for (a, b) in first.files.iter().zip(&second.files) {
            assert_eq!(fs::read(a).unwrap(), fs::read(b).unwrap(), "{}", a.display());
        }
        assert_eq!(first.remarks.len(), 2, "{:?}", first.remarks);
        if let Some(out) = std::env::var_os("TRAJPRESS_REPORT_OUT") {
            for file in &first.files {
                fs::copy(file, Path::new(&out).join(file.file_name().unwrap())).unwrap();
            }
            let (_dir, tiny) = report(&GRID[..13], 60, 30);
            for file in &tiny.files {
                fs::copy(file, Path::new(&out).join("few").join(file.file_name().unwrap())).unwrap();
            }
        }
    }

    #[test]
    fn a_missing_run_is_an_error_with_a_hint() {
        let dir = tempfile::tempdir().unwrap();
        let error = write(dir.path(), &dir.path().join("out"), RESAMPLING).err().unwrap();
        assert!(format!("{error:#}").contains("variants.parquet"), "{error:#}");
    }
}
