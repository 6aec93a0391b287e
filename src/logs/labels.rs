//! Label files: reading them, and joining what they say to the runs they speak of.
//!
//! A run is meant if its task id is in the file and its folder fits. A SWE-bench run report names the run
//! in its file name (`<model>.<run>.json`): a folder of the run must have that name, or the report
//! must lie in the same folder as the run. A `results.json` speaks of all runs under its folder. A folder
//! named `labels`, `results`, `reports`, `logs` or `evaluation` speaks of the folder around it. An evaluation
//! is of one agent: where runs of several could be meant, it is the one whose runs lie nearest to the label
//! file, and if several are equally near the label stays unknown. The nearest file wins; if equally near
//! files contradict each other the label stays unknown.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::logs::formats::reading::draft::Losses;
use crate::logs::formats::reading::repair;
use crate::logs::formats::reading::scalar::Scalar;

/// What a label file says of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Verdict {
    /// Null: the evaluation of this task failed.
    resolved: Option<bool>,
}

/// One label file.
#[derive(Debug)]
pub(crate) struct LabelFile {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// Folder of the runs that it speaks of, empty or ending in `/`.
    scope: String,
    /// Name of the run, where the file's name tells it.
    run: Option<String>,
    verdicts: BTreeMap<String, Verdict>,
    /// Tasks that are not named are not resolved (`results.json` lists only what was).
    others_unresolved: bool,
    /// Agents with runs that it could speak of, and how near the nearest of these lies.
    agents: BTreeMap<String, usize>,
    /// Runs it was joined to.
    pub(crate) n_joined: u64,
    /// Verdicts that are neither true nor false nor null: unknown.
    pub(crate) n_odd: u64,
}

type Ids = Option<Vec<String>>;

#[derive(Deserialize)]
struct RunReport {
    resolved_ids: Ids,
    unresolved_ids: Ids,
    empty_patch_ids: Ids,
    error_ids: Ids,
    incomplete_ids: Ids,
}

#[derive(Deserialize)]
struct Results {
    resolved: Ids,
    no_generation: Ids,
    no_logs: Ids,
}

#[derive(Deserialize)]
struct Instance {
    resolved: Option<Scalar>,
}

/// Reads JSON, once more with the text repaired where that fails.
fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, serde_json::Error> {
    serde_json::from_slice(bytes).or_else(|error| match repair::repair(bytes) {
        Some((text, _)) => serde_json::from_slice(&text),
        None => Err(error),
    })
}

impl LabelFile {
    /// Reads a label file; kinds without verdicts on tasks, and broken files, have none.
    pub(crate) fn read(name: &str, kind: &'static str, bytes: &[u8]) -> Result<LabelFile, serde_json::Error> {
        let mut verdicts = BTreeMap::new();
        let mut odd = Losses::default();
        let mut put = |ids: Ids, resolved: Option<bool>| {
            for id in ids.unwrap_or_default() {
                verdicts.insert(id, Verdict { resolved });
            }
        };
        let mut run = None;
        match kind {
            "swebench-run-report" => {
                let report: RunReport = parse(bytes)?;
                put(report.incomplete_ids, None);
                put(report.error_ids, None);
                put(report.empty_patch_ids, Some(false));
                put(report.unresolved_ids, Some(false));
                put(report.resolved_ids, Some(true));
                run = run_name(name);
            }
            "swebench-results" => {
                let results: Results = parse(bytes)?;
                put(results.no_generation, Some(false));
                put(results.no_logs, None);
                put(results.resolved, Some(true));
            }
            "swebench-instance-report" => {
                let instances: BTreeMap<String, Instance> = parse(bytes)?;
                for (id, instance) in instances {
                    let resolved = instance.resolved.and_then(|r| r.truth("resolved", &mut odd));
                    put(Some(vec![id]), resolved);
                }
            }
            "swebench-eval-log" => {
                for line in String::from_utf8_lossy(bytes).lines() {
                    let told =
                        line.strip_prefix("Result for ").and_then(|rest| rest.split_once(": resolved: "));
                    if let Some((id, is)) = told {
                        put(Some(vec![id.to_owned()]), Scalar::of_text(is).truth("resolved", &mut odd));
                    }
                }
            }
            _ => {}
        }
        Ok(LabelFile {
            name: name.to_owned(),
            kind,
            scope: scope(name),
            run,
            verdicts,
            others_unresolved: kind == "swebench-results",
            agents: BTreeMap::new(),
            n_joined: 0,
            n_odd: odd.0.values().sum(),
        })
    }

    /// Whether it says anything of single runs.
    pub(crate) fn has_verdicts(&self) -> bool {
        !self.verdicts.is_empty()
    }

    fn verdict(&self, source: &str, task: &str) -> Option<Verdict> {
        if !source.starts_with(&self.scope) {
            return None;
        }
        if let Some(run) = &self.run {
            let is_named = folder(source).split('/').any(|part| part == run);
            let is_beside = folder(source) == folder(&self.name);
            if !is_named && !is_beside {
                return None;
            }
        }
        let known = self.verdicts.get(task).copied();
        // Only ids in the form of SWE-bench: anything else cannot have been in the evaluation.
        let is_swe = self.others_unresolved && task.contains("__") && !task.contains(' ');
        known.or(is_swe.then_some(Verdict { resolved: Some(false) }))
    }

    /// Whether the evaluation can only be of this agent, by the runs that were met.
    fn is_of(&self, agent: &str) -> bool {
        let Some(distance) = self.agents.get(agent) else {
            return false;
        };
        self.agents.iter().all(|(other, d)| other == agent || d > distance)
    }
}

/// The folder of a file, empty at the top.
fn folder(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The number of steps up and down from one folder to another.
fn distance(a: &str, b: &str) -> usize {
    let parts =
        |folder: &str| folder.split('/').filter(|p| !p.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let (a, b) = (parts(a), parts(b));
    let n_shared = a.iter().zip(&b).take_while(|(a, b)| a == b).count();
    a.len() + b.len() - 2 * n_shared
}

/// The folder of the runs that a label file speaks of.
fn scope(name: &str) -> String {
    let folder = folder(name);
    let (parent, last) = folder.rsplit_once('/').unwrap_or(("", folder));
    let is_side = ["labels", "results", "reports", "logs", "evaluation"].contains(&last);
    let scope = if is_side { parent } else { folder };
    if scope.is_empty() { String::new() } else { format!("{scope}/") }
}

/// `run` of `<model>.<run>.json`.
fn run_name(name: &str) -> Option<String> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let stem = crate::logs::formats::reading::names::stem(file);
    stem.rsplit_once('.').map(|(_, run)| run.to_owned())
}

/// All label files of an ingest.
#[derive(Debug, Default)]
pub(crate) struct Labels {
    pub(crate) files: Vec<LabelFile>,
    /// Runs on which equally near files contradict each other.
    pub(crate) contradicted: BTreeSet<String>,
}

impl Labels {
    pub(crate) fn has_verdicts(&self) -> bool {
        self.files.iter().any(LabelFile::has_verdicts)
    }

    /// Takes note of whose run this is; to be told of all runs before the first is joined.
    pub(crate) fn meet(&mut self, source: &str, task: &str, agent: &str) {
        for file in &mut self.files {
            if file.verdict(source, task).is_none() {
                continue;
            }
            let distance = distance(folder(&file.name), folder(source));
            match file.agents.get_mut(agent) {
                Some(nearest) => *nearest = distance.min(*nearest),
                None => {
                    file.agents.insert(agent.to_owned(), distance);
                }
            }
        }
    }

    /// The label of a run: resolved or not or unknown, and the file that says so.
    pub(crate) fn join(&mut self, source: &str, task: &str, agent: &str) -> Option<(Option<bool>, String)> {
        let mut found: Vec<(usize, usize, Verdict)> = Vec::new();
        for (i, file) in self.files.iter().enumerate() {
            if let Some(verdict) = file.verdict(source, task).filter(|_| file.is_of(agent)) {
                found.push((file.scope.len(), i, verdict));
            }
        }
        let nearest = found.iter().map(|f| f.0).max()?;
        found.retain(|f| f.0 == nearest);
        let (_, first, verdict) = found[0];
        if found.iter().any(|f| f.2 != verdict) {
            self.contradicted.insert(source.to_owned());
            return None;
        }
        self.files[first].n_joined += 1;
        Some((verdict.resolved, self.files[first].name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(files: &[(&str, &'static str, &str)]) -> Labels {
        let files = files.iter().map(|(n, k, t)| LabelFile::read(n, k, t.as_bytes()).unwrap()).collect();
        Labels { files, ..Labels::default() }
    }

    /// Joins a run of the only agent.
    fn join(l: &mut Labels, source: &str, task: &str) -> Option<(Option<bool>, String)> {
        l.meet(source, task, "a");
        l.join(source, task, "a")
    }

    #[test]
    fn a_run_report_speaks_of_the_folder_of_its_run() {
        let report = r#"{"resolved_ids":["a__b-1"],"unresolved_ids":["a__b-2"],"error_ids":["a__b-3"],"schema_version":2}"#;
        let mut l = labels(&[("x/labels/model.run_1.json", "swebench-run-report", report)]);
        let name = "x/labels/model.run_1.json".to_owned();
        assert_eq!(join(&mut l, "x/run_1/a__b-1.traj.json", "a__b-1"), Some((Some(true), name.clone())));
        assert_eq!(join(&mut l, "x/run_1/a__b-2.traj.json", "a__b-2"), Some((Some(false), name.clone())));
        assert_eq!(join(&mut l, "x/run_1/a__b-3.traj.json", "a__b-3"), Some((None, name)));
        assert_eq!(join(&mut l, "x/run_1/a__b-4.traj.json", "a__b-4"), None);
        assert_eq!(join(&mut l, "x/run_2/a__b-1.traj.json", "a__b-1"), None);
        assert_eq!(join(&mut l, "y/run_1/a__b-1.traj.json", "a__b-1"), None);
        assert_eq!(l.files[0].n_joined, 3);
    }

    #[test]
    fn results_list_what_was_resolved() {
        let results = r#"{"no_generation":[],"no_logs":["a__b-3"],"resolved":["a__b-1"]}"#;
        let mut l = labels(&[("x/results/results.json", "swebench-results", results)]);
        assert_eq!(join(&mut l, "x/trajs/a__b-1.traj", "a__b-1").unwrap().0, Some(true));
        assert_eq!(join(&mut l, "x/trajs/a__b-2.traj", "a__b-2").unwrap().0, Some(false));
        assert_eq!(join(&mut l, "x/trajs/a__b-3.traj", "a__b-3").unwrap().0, None);
        assert_eq!(join(&mut l, "x/trajs/chat.jsonl", "chat-1"), None);
    }

    #[test]
    fn the_log_of_an_evaluation_tells_its_result() {
        let log = "2024-12-04 - INFO - Starting evaluation for instance a__b-1.\nResult for a__b-1: resolved: True\nResult for x\n";
        let mut l = labels(&[("x/labels/instance_a__b-1.log", "swebench-eval-log", log)]);
        assert_eq!(join(&mut l, "x/last/a__b-1.json", "a__b-1").unwrap().0, Some(true));
        assert_eq!(join(&mut l, "x/last/a__b-2.json", "a__b-2"), None);
    }

    #[test]
    fn results_are_of_the_agent_whose_runs_lie_nearest() {
        let results = r#"{"no_generation":[],"no_logs":[],"resolved":["a__b-1"]}"#;
        let joined = |name: &str, runs: &[(&str, &str)]| -> Vec<Option<bool>> {
            let mut l = labels(&[(name, "swebench-results", results)]);
            runs.iter().for_each(|(source, agent)| l.meet(source, "a__b-1", agent));
            runs.iter().map(|(source, agent)| l.join(source, "a__b-1", agent)?.0).collect()
        };
        let beside = [("x/a__b-1.traj", "s"), ("x/mini/a__b-1.traj.json", "m")];
        assert_eq!(joined("x/results.json", &beside), [Some(true), None]);
        assert_eq!(joined("x/results/results.json", &beside), [Some(true), None]);
        let apart = [("x/s/a__b-1.traj", "s"), ("x/mini/a__b-1.traj.json", "m")];
        assert_eq!(joined("x/results.json", &apart), [None, None]);
        assert_eq!(joined("x/s/results/results.json", &apart), [Some(true), None]);
        let one = [("x/a__b-1.traj", "s"), ("x/deep/a__b-1.traj", "s")];
        assert_eq!(joined("x/results.json", &one), [Some(true), Some(true)]);
    }

    #[test]
    fn verdicts_that_are_none_are_unknown() {
        let report = r#"{"a__b-1":{"resolved":NaN},"a__b-2":{"resolved":"nan"},"a__b-3":{"resolved":"True"},
            "a__b-4":{"resolved":0},"a__b-5":{"resolved":null},"a__b-6":{"resolved":0.5}}"#;
        let mut l = labels(&[("x/report.json", "swebench-instance-report", report)]);
        let mut resolved = |i: usize| join(&mut l, "x/t.traj", &format!("a__b-{i}")).unwrap().0;
        let found: Vec<_> = (1..=6).map(&mut resolved).collect();
        assert_eq!(found, [None, None, Some(true), Some(false), None, None]);
        assert_eq!(l.files[0].n_odd, 2);
        let nulls = r#"{"no_generation":null,"no_logs":[],"resolved":["a__b-1"]}"#;
        let mut l = labels(&[("results.json", "swebench-results", nulls)]);
        assert_eq!(join(&mut l, "a__b-1.traj", "a__b-1").unwrap().0, Some(true));
    }

    #[test]
    fn contradicting_files_leave_it_unknown() {
        let yes = r#"{"resolved":["a__b-1"],"no_logs":[]}"#;
        let no = r#"{"resolved":[],"no_logs":["a__b-2"]}"#;
        let mut l =
            labels(&[("results.json", "swebench-results", yes), ("other.json", "swebench-results", no)]);
        assert_eq!(join(&mut l, "a__b-1.traj", "a__b-1"), None);
        assert_eq!(l.contradicted.len(), 1);
        let mut l =
            labels(&[("results.json", "swebench-results", yes), ("x/results.json", "swebench-results", no)]);
        assert_eq!(join(&mut l, "x/a__b-1.traj", "a__b-1").unwrap().0, Some(false));
    }
}
