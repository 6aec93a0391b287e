//! Units by workers that race, die at any moment and are asked twice: nothing is lost, nothing doubled.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::super::serve::Answer;
use super::super::status::Left;
use super::*;

/// The files of a unit, in the order in which they are published.
const ORDER: [&str; 6] = ["events", "items", "timeline", "scores", "digests", "cells"];

impl Place {
    fn serve(&self, name: &str, limit: usize, ids: &[&str]) -> Vec<Answer> {
        let options =
            Options { joins: true, quiet: true, threads: Some(1), limit: Some(limit), ..Options::default() };
        let answers = Mutex::new(Vec::new());
        let tell = |said: &Said| {
            if let Said::Unit(answer) = said {
                answers.lock().unwrap().push(answer.clone());
            }
            Ok(())
        };
        let lines = ids.join("\n");
        serve(&self.plan, &self.data, &self.out(name), &options, &rows, lines.as_bytes(), &tell).unwrap();
        answers.into_inner().unwrap()
    }

    /// What a process leaves that is killed behind the n-th file of a unit that it publishes; each appears whole or not at all.
    fn die(&self, name: &str, unit: &Left, n: usize) {
        let at = |out: &Path, table: &str| {
            let part = units::part_of(out, table, &unit.group, &unit.unit);
            if table == "digests" { part.with_extension("json") } else { part }
        };
        for table in &ORDER[..n] {
            let (from, to) = (at(&self.out("whole"), table), at(&self.out(name), table));
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            let _ = fs::hard_link(from, to);
        }
        fs::create_dir_all(self.out(name).join("_scratch/elsewhere-1-x")).unwrap();
    }
}

/// What happens to a run.
#[derive(Clone, Debug)]
enum Step {
    /// Workers begin at once, each with units by number, some of them twice.
    Work(Vec<Vec<usize>>),
    /// One is killed in a unit, after so many files.
    Die(usize, usize),
    /// It is joined too early, or planned again.
    Merge,
    Plan,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let work = prop::collection::vec(prop::collection::vec(0..40usize, 0..4), 1..4).prop_map(Step::Work);
    let die = (0..40usize, 0..=ORDER.len()).prop_map(|(unit, n)| Step::Die(unit, n));
    prop::collection::vec(
        prop_oneof![3 => work, 4 => die, 1 => Just(Step::Merge), 1 => Just(Step::Plan)],
        0..8,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(12) })]

    #[test]
    fn what_is_committed_is_what_was_planned(limit in 1..7usize, n_variants in 1..8usize, schedule in steps()) {
        let mut place = Place::new();
        place.plan.variants.truncate(n_variants);
        let options = Options { limit: Some(limit), quiet: true, ..Options::default() };
        prop_assert!(place.run("whole", &options, &rows).unwrap().finished);
        let out = place.out("r");
        let plan = || begin(&place.plan, &place.data, &out, &options).unwrap();
        let merge = || place.run("r", &Options { finish: true, ..options.clone() }, &rows);
        plan();
        let all = status(&out, None).unwrap().left;
        let unit = |n: usize| &all[n % all.len()];
        let (mut answers, mut died_done) = (Vec::new(), 0);
        for step in schedule {
            match step {
                Step::Work(workers) => std::thread::scope(|s| {
                    let ids = |units: Vec<usize>| units.into_iter().map(|n| &*unit(n).unit).collect::<Vec<_>>();
                    let work = |units| { let ids = ids(units); let place = &place; s.spawn(move || place.serve("r", limit, &ids)) };
                    let workers: Vec<_> = workers.into_iter().map(work).collect();
                    answers.extend(workers.into_iter().flat_map(|worker| worker.join().unwrap()));
                }),
                Step::Die(n, files) => {
                    let is_left = status(&out, None).unwrap().left.contains(unit(n));
                    died_done += usize::from(is_left && files == ORDER.len());
                    place.die("r", unit(n), files);
                }
                // Of what is not begun there is nothing to join.
                Step::Merge => drop(merge()),
                Step::Plan => drop(plan()),
            }
        }
        let left = status(&out, None).unwrap().left;
        answers.extend(place.serve("r", limit, &left.iter().map(|left| &*left.unit).collect::<Vec<_>>()));
        for answer in &answers {
            prop_assert!(["done", "skipped", "lost_race"].contains(&answer.outcome), "{answer:?}");
        }
        let done: Vec<&str> = answers.iter().filter(|a| a.outcome == "done").map(|a| &*a.unit).collect();
        prop_assert_eq!(done.len(), done.iter().collect::<BTreeSet<_>>().len(), "no unit is done twice");
        prop_assert_eq!(done.len() + died_done, all.len(), "each is done by somebody");
        let planned: BTreeSet<(String, String)> = all.iter().map(|u| (u.group.clone(), u.unit.clone())).collect();
        let committed = units::published(&out, "cells").unwrap();
        prop_assert_eq!(committed.iter().cloned().collect::<BTreeSet<_>>(), planned);
        prop_assert_eq!(committed.len(), all.len());
        prop_assert!(merge().unwrap().finished);
        prop_assert!(tables(&out) == tables(&place.out("whole")), "other bytes than the serial run");
        prop_assert!(status(&out, None).unwrap().finished);
    }
}

#[test]
fn a_worker_answers_to_what_it_is_asked() {
    let place = Place::new();
    let options = Options { quiet: true, ..Options::default() };
    let worker = Options { joins: true, threads: Some(2), ..options.clone() };
    let said = Mutex::new(Vec::new());
    let tell = |one: &Said| {
        said.lock().unwrap().push(one.clone());
        Ok(())
    };
    let serve = |ids: &str, f: &UnitFn| {
        serve(&place.plan, &place.data, &place.out("r"), &worker, f, ids.as_bytes(), &tell)
    };
    let error = serve("", &rows).unwrap_err().to_string();
    assert!(error.contains("holds no run to work at\nhint: run `trajpress cluster plan`"), "{error}");
    assert!(!place.out("r").exists());
    begin(&place.plan, &place.data, &place.out("r"), &options).unwrap();
    let first = status(&place.out("r"), None).unwrap().left[0].unit.clone();
    assert_eq!(serve(&format!("{first}\n\nno-such-unit\n"), &rows).unwrap(), 1);
    assert_eq!(serve(&first, &rows).unwrap(), 0);
    let said = said.lock().unwrap().clone();
    let answers: Vec<&Answer> = said
        .iter()
        .filter_map(|one| match one {
            Said::Unit(answer) => Some(answer),
            Said::Ready { .. } => None,
        })
        .collect();
    assert_eq!(said.len() - answers.len(), 2);
    assert_eq!(said[0], Said::Ready { units: 23, at_once: 2 });
    let outcome =
        |unit: &str| answers.iter().filter(|a| a.unit == unit).map(|a| a.outcome).collect::<Vec<_>>();
    assert_eq!(outcome("no-such-unit"), ["failed"]);
    assert_eq!(outcome(&first), ["done", "skipped"]);
    // Another plan is another run: nothing is done for it.
    let other = Place { plan: plan("seed = 5"), ..place };
    let error =
        super::serve(&other.plan, &other.data, &other.out("r"), &worker, &rows, "".as_bytes(), &|_| Ok(()))
            .unwrap_err();
    assert!(error.to_string().contains("holds another run"), "{error}");
}

#[test]
fn what_is_left_is_estimated_and_the_rest_swept() {
    let place = Place::new();
    let options = Options { quiet: true, ..Options::default() };
    let out = place.out("r");
    assert!(status(&place.dir.path().join("data"), None).unwrap_err().to_string().contains("holds no run"));
    begin(&place.plan, &place.data, &out, &options).unwrap();
    let wanted = Wanted { workers: 2, price: Some(3.0), steps: None };
    let unknown = estimate(&out, &out, Default::default(), wanted).unwrap();
    assert_eq!((unknown.hours, unknown.money, unknown.rates["m"]), (None, None, None));
    assert!(gc(&out, None, true).unwrap_err().to_string().contains("the run is not finished"));
    place.run("whole", &options, &rows).unwrap();
    // At a known rate: 100 step-variants a second.
    let mut begun = 0_u64;
    for entry in fs::read_dir(place.out("whole/_attempts")).unwrap() {
        let path = entry.unwrap().path();
        let mut note: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        note["ms"] = (10 * note["step_variants"].as_u64().unwrap()).into();
        // One after the other.
        note["begun_unix_ms"] = begun.into();
        begun += 1_000_000;
        fs::write(&path, note.to_string()).unwrap();
    }
    let n_steps: u64 = (0..17).map(|i| i % 5 + 1).sum();
    let known = estimate(&out, &place.out("whole"), Default::default(), wanted).unwrap();
    assert_eq!(
        (known.steps, known.rates["m"], known.rates["model-free"]),
        (n_steps, Some(100.0), Some(100.0))
    );
    let near = |a: Option<f64>, b: f64| (a.unwrap() - b).abs() < 1e-6;
    assert!(near(known.work_hours, 7.0 * n_steps as f64 / 100.0 / 3600.0), "{known:?}");
    assert!(near(known.money, known.hours.unwrap() * 6.0) && known.efficiency.unwrap() <= 1.0, "{known:?}");
    let larger = Wanted { steps: Some(1000 * n_steps), ..wanted };
    let larger = estimate(&out, &place.out("whole"), Default::default(), larger).unwrap();
    assert!(near(larger.work_hours, 1000.0 * known.work_hours.unwrap()), "{larger:?}");
    assert!(larger.efficiency.unwrap() > known.efficiency.unwrap(), "the tail is as long as before");
    // Swept, a finished run is still one, and nothing is left to do.
    let whole = place.out("whole");
    fs::create_dir_all(whole.join("_scratch/elsewhere-1-x")).unwrap();
    let unit = status(&out, None).unwrap().left[0].unit.clone();
    for out in [&whole, &out] {
        fs::create_dir_all(out.join("_quarantine")).unwrap();
        fs::write(out.join("_quarantine").join(format!("{unit}.json")), "{}").unwrap();
    }
    let swept = gc(&whole, None, true).unwrap();
    assert_eq!((swept.scratch, swept.quarantine, swept.parts), (1, 1, true));
    assert!(!whole.join("parts").exists() && status(&whole, None).unwrap().left.is_empty());
    let again = place.run("whole", &options, &|_, _, _, _| panic!("nothing to do")).unwrap();
    assert!(again.finished && again.is_clean() && again.done == 0, "{again:?}");
    // Nor to merge.
    let merged = place.run("whole", &Options { finish: true, ..options.clone() }, &rows).unwrap();
    assert!(merged.finished && merged.is_clean() && merged.skipped == 23, "{merged:?}");
    // An error that is still true stays.
    assert_eq!(gc(&out, None, false).unwrap().quarantine, 0);
    assert_eq!(status(&out, None).unwrap().quarantined, [unit]);
}
