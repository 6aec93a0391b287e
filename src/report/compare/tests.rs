//! Tests of two runs side by side, and of nights that are known.

use super::*;
use crate::report::statistics::synthetic::{Spec, TINY, write_run};
use crate::store::{CellRow, ScoreRow, TableWriter, TrajectoryRow, VariantRow};

const SESSIONS: usize = 60;

/// A run of these variants; sessions have their number as key.
fn run(specs: &[Spec], sessions: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    write_run(dir.path(), specs, sessions, 12);
    dir
}

fn options() -> Options {
    Options {
        resampling: Resampling { seed: 1, resamples: 200 },
        population: Population::These,
        gate: Gate::load(None).unwrap(),
    }
}

fn of(base: &tempfile::TempDir, new: &tempfile::TempDir) -> Compared {
    compare(base.path(), new.path(), &options()).unwrap()
}

/// The variant `mask` with another quality.
fn masks(quality: f64) -> Vec<Spec> {
    TINY.iter()
        .map(|&spec| if spec.0 == "mask" { (spec.0, spec.1, spec.2, spec.3, quality) } else { spec })
        .collect()
}

#[test]
fn a_run_is_no_worse_than_itself() {
    let (base, new) = (run(&TINY, SESSIONS), run(&TINY, SESSIONS));
    let compared = of(&base, &new);
    assert_eq!(compared.answer(), Some(Answer::NotWorse));
    assert!(compared.rows.iter().all(|row| row.is_same && row.value() == Some(0.0)));
    let sessions = Sessions { base: SESSIONS, new: SESSIONS, paired: SESSIONS, ..Sessions::default() };
    assert_eq!(compared.sessions, sessions);
    // Controls are nobody's choice: `mask` and `truncate` under three rules.
    assert_eq!(compared.rows.len(), 6);
}

#[test]
fn what_was_worsened_is_found_and_nothing_else() {
    let (base, new) = (run(&masks(0.6), SESSIONS), run(&masks(0.2), SESSIONS));
    let compared = of(&base, &new);
    let worse: Vec<&Row> = compared.rows.iter().filter(|row| row.answer == Answer::Worse).collect();
    let [row] = worse[..] else { panic!("{worse:?}") };
    assert_eq!((row.score, row.label.as_str()), ("need_retention", "mask(keep_last=10) @ turns(n=10)"));
    assert!(row.interval().unwrap().1 < 0.0 && row.p_holm.unwrap() < 0.05);
    assert!(compared.rows.iter().filter(|r| r.label != row.label).all(|r| r.is_same));
    // The other way round it is better.
    assert_eq!(of(&new, &base).answer(), Some(Answer::NotWorse));
}

#[test]
fn sessions_pair_by_their_key() {
    let (base, new) = (run(&TINY, SESSIONS), run(&TINY, SESSIONS + 4));
    // Session 3 has grown; session 5 has another key now.
    change(&new, |row: &mut TrajectoryRow| match row.source_key.as_str() {
        "session 3" => "grown".clone_into(&mut row.content),
        "session 5" => "another".clone_into(&mut row.source_key),
        _ => {}
    });
    let compared = of(&base, &new);
    let sessions = Sessions {
        base: SESSIONS,
        new: SESSIONS + 4,
        paired: SESSIONS - 2,
        grown: 1,
        only_base: 1,
        only_new: 5,
    };
    assert_eq!(compared.sessions, sessions);
    assert!(compared.rows.iter().all(|row| row.n_sessions() <= SESSIONS - 2));
}

#[test]
fn scores_of_two_versions_are_not_compared() {
    let (base, new) = (run(&TINY, 20), run(&TINY, 20));
    let manifest = |run: &tempfile::TempDir, text: &str| {
        std::fs::write(run.path().join("_manifest.json"), text).unwrap()
    };
    let of = |semantics: u32, tokenizer: &str, fresh: u32| {
        format!(
            "{{\"semantics\":{semantics},\"plan\":{{\"tokenizer\":\"{tokenizer}\",\"prices\":{{\"name\":\"toy\",\"fresh\":{fresh},\
             \"cache_write\":1,\"cache_read\":1,\"output\":5}},\"models\":{{\"qwen\":\"{fresh}\"}}}}}}"
        )
    };
    manifest(&base, &of(27, "o200k", 1));
    manifest(&new, &of(28, "cl100k", 2));
    let error = compare(base.path(), new.path(), &options()).unwrap_err().to_string();
    let (base, new) = (base.path().display().to_string(), new.path().display().to_string());
    insta::assert_snapshot!(error.replace(&base, "BASE").replace(&new, "NEW"));
}

/// A setting stands in the label: the one `mask` that is gone is compared with the one that came, and is found worse.
#[test]
fn a_variant_whose_setting_changed_is_compared_with_what_it_was() {
    let renamed = |specs: Vec<Spec>| -> Vec<Spec> {
        let name = |spec: Spec| {
            if spec.0 == "mask" { (spec.0, "keep_last=0", spec.2, spec.3, spec.4) } else { spec }
        };
        specs.into_iter().map(name).collect()
    };
    let (base, new) = (run(&masks(0.6), SESSIONS), run(&renamed(masks(0.2)), SESSIONS));
    let compared = of(&base, &new);
    let worse: Vec<&str> = compared
        .rows
        .iter()
        .filter(|row| row.answer == Answer::Worse)
        .map(|row| row.label.as_str())
        .collect();
    assert_eq!(worse, ["mask(keep_last=0) @ turns(n=10)"]);
    assert_eq!(
        compared.changed,
        ["`mask(keep_last=10) @ turns(n=10)` before, `mask(keep_last=0) @ turns(n=10)` now"]
    );
    assert!(compared.only_base.is_empty() && compared.only_new.is_empty());
    // Of two that came nobody knows which it is.
    let line = |label: &str| Line::by_hand(label, &[("need_retention", &[(1.0, 1.0)][..])]);
    let (one, two) = (line("mask(a=1) @ t"), line("mask(a=2) @ t"));
    assert_eq!(followed(&[&one], &[&two]).len(), 1);
    assert_eq!(followed(&[&one], &[&two, &one]).len(), 0);
}

/// A score of too few sources is no score that is not there: its rule cannot tell, and says so.
#[test]
fn a_rule_below_the_minimum_has_an_answer() {
    let compared = of(&run(&masks(0.6), 5), &run(&masks(0.0), 5));
    assert_eq!(compared.rows.len(), 6, "of two variants under three rules");
    let is_needs = |row: &&Row| row.score == "need_retention" && row.label.starts_with("mask");
    let row = compared.rows.iter().find(is_needs).unwrap();
    assert_eq!((row.answer, row.base, row.new), (Answer::CannotTell, None, None));
    assert!(row.reason().is_some());
    // Where nothing changed nothing was lost.
    let same = of(&run(&TINY, 5), &run(&TINY, 5));
    assert_eq!((same.rows.len(), same.answer()), (6, Some(Answer::NotWorse)));
}

/// Of two settings that changed nobody knows which is which: what the gate holds is gone, and that is no pass.
#[test]
fn variants_that_are_gone_fail_the_gate_unless_it_lets_them_go() {
    let with = |settings: [&'static str; 2]| -> Vec<Spec> {
        let masks = settings.map(|setting| ("mask", setting, "turns(n=10)", 0.5, 0.2));
        [&TINY[..1], &masks, &TINY[3..]].concat()
    };
    let before = run(&with(["keep_last=10", "keep_last=20"]), SESSIONS);
    let now = run(&with(["keep_last=0", "keep_last=1"]), SESSIONS);
    let compared = of(&before, &now);
    assert_eq!(compared.gone, ["mask(keep_last=10) @ turns(n=10)", "mask(keep_last=20) @ turns(n=10)"]);
    assert_eq!(compared.answer(), Some(Answer::Gone));
    let folder = tempfile::tempdir().unwrap();
    let gate = folder.path().join("gate.toml");
    std::fs::write(&gate, "may_go = [\"mask*\"]").unwrap();
    let options = Options { gate: Gate::load(Some(&gate)).unwrap(), ..options() };
    let compared = compare(before.path(), now.path(), &options).unwrap();
    assert_eq!((compared.only_base.len(), compared.gone.len()), (2, 0));
    assert_eq!(compared.answer(), Some(Answer::NotWorse));
    // Where nothing is left of what the gate means, that is the answer, and no error.
    let only = "[[rules]]\nscore = \"need_retention\"\nmargin = 0.05\nvariants = [\"mask\"]\n";
    let now = run(&[&TINY[..1], &TINY[3..]].concat(), SESSIONS);
    for (may_go, answer) in [("", Some(Answer::Gone)), ("may_go = [\"mask*\"]\n", None)] {
        std::fs::write(&gate, format!("{may_go}{only}")).unwrap();
        let gate = Gate::load(Some(&gate)).unwrap();
        let options = Options { gate, resampling: options.resampling, population: Population::These };
        assert_eq!(compare(before.path(), now.path(), &options).unwrap().answer(), answer);
    }
}

#[test]
fn runs_without_a_common_session_are_told() {
    let (base, new) = (run(&TINY, 20), run(&TINY, 20));
    change(&new, |row: &mut TrajectoryRow| row.source_key.push('x'));
    insta::assert_snapshot!(compare(base.path(), new.path(), &options()).unwrap_err());
}

/// 200 nights: the base and the new night draw their sessions anew and have a `random` of another seed, so that nothing is worse but by
/// chance. Holm's level of the gate is 5 %: of 200 nights 10, and more than 18 in one of 100 such series.
#[test]
fn of_quiet_nights_few_alarm() {
    let nights: Vec<Answer> = (0..200).map(|night| simulated(night, 0.0)).collect();
    let n = |answer| nights.iter().filter(|a| **a == answer).count();
    println!("200 quiet nights: {} worse, {} cannot tell", n(Answer::Worse), n(Answer::CannotTell));
    assert!(n(Answer::Worse) <= 18, "{} alarms", n(Answer::Worse));
}

/// The same with a loss of one and of two margins.
#[test]
fn a_loss_of_two_margins_is_found() {
    let power = |loss: f64| (0..100).filter(|night| simulated(1_000 + night, loss) == Answer::Worse).count();
    let (one, two) = (power(0.05), power(0.10));
    println!("of 100 nights with a loss of one margin {one} are found, of two margins {two}");
    assert!(one >= 30 && two >= 90, "{one}, {two}");
}

/// A night with 57 sessions of 1 to 40 needs, of which `random` keeps about half under each seed, and what the gate says of it.
fn simulated(night: u64, loss: f64) -> Answer {
    use rand_chacha::ChaCha8Rng;
    use rand_chacha::rand_core::{Rng as _, SeedableRng as _};
    let mut rng = ChaCha8Rng::seed_from_u64(night);
    let mut uniform = || f64::from(rng.next_u32()) / 4_294_967_296.0;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for _ in 0..57 {
        let needs = 1.0 + (39.0 * uniform().powi(3)).floor();
        let kept = 0.2 + 0.6 * uniform();
        let mut draw = |share: f64| (0..needs as u32).filter(|_| uniform() < share).count() as f64;
        let (one, other) = (draw(kept), draw(kept - loss));
        before.push((one / needs, needs));
        after.push((other / needs, needs));
    }
    let line = |scores: &[(f64, f64)]| Line::by_hand("random(b=0.1) @ turns", &[("need_retention", scores)]);
    let lines = Lines::by_hand(vec![line(&after)], 57);
    let rule = Rule::all("need_retention", 0.05);
    let base = line(&before);
    let beside = Beside::of(&rule, &base, &lines.all[0], &lines).unwrap();
    gate::answers(&[Asked { gain: &beside.gain, margin: 0.05, is_same: beside.is_same }])[0].0
}

/// Changes the sessions of a run.
fn change<R: crate::store::Row>(run: &tempfile::TempDir, mut to: impl FnMut(&mut R)) {
    let path = run.path().join(format!("{}.parquet", R::TABLE));
    let mut rows: Vec<R> = crate::store::read(&path).unwrap();
    rows.iter_mut().for_each(&mut to);
    let mut writer = TableWriter::create(&path, 1 << 20).unwrap();
    writer.push(rows).unwrap();
    writer.finish().unwrap();
}

/// A name that fits nothing does not pass, whether it is meant or may go.
#[test]
fn a_name_that_fits_no_variant_is_an_error() {
    let base = run(&TINY, SESSIONS);
    let rule = |variants: &[&str]| Rule {
        variants: variants.iter().map(|name| (*name).to_owned()).collect(),
        ..Rule::all("need_retention", 0.05)
    };
    let rules = vec![rule(&["mask", "prdo"]), rule(&["trunc*"]), rule(&["msk*"])];
    let with = |rules: Vec<Rule>, may_go: &[&str]| {
        let gate = Gate { rules, may_go: may_go.iter().map(|name| (*name).to_owned()).collect() };
        compare(base.path(), base.path(), &Options { gate, ..options() })
    };
    let told = |compared: anyhow::Result<Compared>| compared.unwrap_err().to_string();
    let wrong = told(with(rules, &["truncate", "maks"]));
    assert!(wrong.contains("is called: `prdo`, `msk*`, `maks`\nhint: "), "{wrong}");
    let wrong = told(with(vec![rule(&["mask"])], &["maks"]));
    assert!(wrong.contains("is called: `maks`\nhint: ") && wrong.contains("mask"), "{wrong}");
    assert_eq!(with(vec![rule(&["mask"])], &["trunc*"]).unwrap().rows.len(), 1);
}

/// A policy's name is one that somebody chose: under another it is the same, and another one under its name is another.
#[test]
fn a_policy_is_what_it_does_whatever_it_is_called() {
    let policy = |name: &str, window: u64| {
        let run = run(&TINY, SESSIONS);
        let mut id = String::new();
        change(&run, |row: &mut VariantRow| {
            if row.strategy == "mask" {
                (row.strategy, row.label) = (name.to_owned(), format!("{name} @ 32k"));
                row.trigger = "policy".to_owned();
                id.clone_from(&row.variant);
            }
        });
        let path = run.path().join("_manifest.json");
        let mut manifest: serde_json::Value =
            serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        manifest["plan"]["variants"] = serde_json::json!([{ "id": id, "policy": { "window": window } }]);
        std::fs::write(path, manifest.to_string()).unwrap();
        run
    };
    let compared = of(&policy("ours", 32_000), &policy("theirs", 32_000));
    assert!(
        [&compared.gone, &compared.only_new, &compared.changed].iter().all(|all| all.is_empty()),
        "{compared:?}"
    );
    let rows: Vec<&Row> = compared.rows.iter().filter(|row| row.label == "theirs @ 32k").collect();
    assert!(rows.len() == 3 && rows.iter().all(|row| row.is_renamed && row.is_same), "{rows:?}");
    assert!(rows.iter().all(|row| row.label_before.as_deref() == Some("ours @ 32k")));
    let compared = of(&policy("ours", 32_000), &policy("theirs", 64_000));
    assert_eq!(
        (compared.gone, compared.only_new),
        (vec!["ours @ 32k".to_owned()], vec!["theirs @ 32k".to_owned()])
    );
}

/// A label says what tells a variant from the others of its run: another neighbour is no other variant, and no variant that is gone.
#[test]
fn a_variant_that_is_called_another_name_for_its_neighbours_is_the_same() {
    let line = |label: &str, n: u64| {
        let mut line = Line::by_hand(label, &[("need_retention", &[(1.0, 1.0)][..])]);
        line.trigger_name = "turns".to_owned();
        line.trigger_params = [("n".to_owned(), n.into())].into_iter().collect();
        line
    };
    let before = [line("mask @ turns(n=1)", 1), line("mask @ turns(n=7)", 7)];
    let before: BTreeMap<String, Line> = before.into_iter().map(|line| (line.label.clone(), line)).collect();
    let now =
        [line("mask @ turns(n=1,keep=0)", 1), line("mask @ turns(n=7)", 8), line("mask @ turns(n=9)", 9)];
    let pairs: Vec<_> =
        paired(&before, &now).into_iter().map(|of| of.map(|line| line.label.as_str())).collect();
    assert_eq!(pairs, [Some("mask @ turns(n=1)"), Some("mask @ turns(n=7)"), None]);
    // Where it was set to what another is now, its label is no reason.
    let now = [line("mask @ turns(n=7)", 1), line("mask @ turns(n=1)", 5)];
    let pairs: Vec<_> =
        paired(&before, &now).into_iter().map(|of| of.map(|line| line.label.as_str())).collect();
    assert_eq!(pairs, [Some("mask @ turns(n=1)"), None]);
}

/// The seed is part of a variant's id: another one is told in a line, and not as another policy of each.
#[test]
fn another_seed_is_no_other_policy() {
    let (base, new) = (run(&TINY, SESSIONS), run(&TINY, SESSIONS));
    let other = |id: &str| format!("f{}", &id[1..]);
    change(&new, |row: &mut VariantRow| (row.seed, row.variant) = (4, other(&row.variant)));
    change(&new, |row: &mut CellRow| row.variant = other(&row.variant).into());
    change(&new, |row: &mut ScoreRow| row.variant = other(&row.variant).into());
    let compared = of(&base, &new);
    assert_eq!((compared.changed.len(), compared.reseeded.len()), (0, TINY.len()));
    // What draws nothing has the same values, which is the surest answer there is.
    assert!(compared.rows.iter().all(|row| row.is_same && row.answer == Answer::NotWorse), "{compared:?}");
    assert!(compared.gone.is_empty() && compared.began.is_empty());
}
