//! What is kept, found, evicted and shared.

use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use rusqlite::{Connection, params};

use super::*;
use crate::models::{Answer, CallError, Finish, Text};

/// Answers with the text's own vector of lengths, and counts.
struct Counting {
    card: Card,
    asked: Arc<AtomicU64>,
}

impl Model for Counting {
    fn card(&self) -> &Card {
        &self.card
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        self.asked.fetch_add(calls.len() as u64, Ordering::Relaxed);
        calls
            .iter()
            .map(|call| match call {
                Call::Embed { text } if text == "bad" => Err(CallError::Failed("bad".into())),
                Call::Embed { text } => {
                    Ok(Answer::Vector { values: vec![text.len() as f32; 100], cut_tokens: 0 })
                }
                _ => Ok(Answer::Text(Text {
                    text: "t".into(),
                    finish: Finish::Stop,
                    prompt_tokens: 1,
                    tokens: 1,
                    cut_tokens: 0,
                })),
            })
            .collect()
    }
}

fn model(identity: &str, store: Option<&Arc<Store>>) -> (Cached, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let card = Card { name: "m".into(), identity: identity.into(), window: 10 };
    let inner = Counting { card, asked: Arc::clone(&asked) };
    (Cached::new(Box::new(inner), store.cloned()), asked)
}

fn embed(text: &str) -> Call {
    Call::Embed { text: text.to_owned() }
}

#[test]
fn an_answer_is_computed_once_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&folder.path().join("a/calls.sqlite"), 1 << 20).unwrap());
    let (first, asked) = model("one", Some(&store));
    let calls = [embed("a"), embed("bb"), embed("a"), embed("bad")];
    let answers = first.answer(&calls);
    assert_eq!(asked.load(Ordering::Relaxed), 3, "equal calls of one batch are asked once");
    assert_eq!(answers[0], answers[2]);
    assert!(answers[3].is_err());
    assert_eq!(first.answer(&calls), answers);
    assert_eq!(asked.load(Ordering::Relaxed), 4, "an error is asked again");
    let tally = first.tally();
    assert_eq!((tally.hits, tally.misses, tally.failed), (3, 4, 2));

    let (same, asked) = model("one", Some(&store));
    same.answer(&calls[..2]);
    assert_eq!(asked.load(Ordering::Relaxed), 0);
    let (other, asked) = model("two", Some(&store));
    other.answer(&calls[..2]);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

/// Takes 200 milliseconds for whatever it is asked.
struct Slow(Counting);

impl Model for Slow {
    fn card(&self) -> &Card {
        self.0.card()
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        std::thread::sleep(Duration::from_millis(200));
        self.0.answer(calls)
    }
}

#[test]
fn seconds_are_those_of_the_model_whoever_waits_for_them() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&folder.path().join("calls.sqlite"), 1 << 20).unwrap());
    let card = Card { name: "m".into(), identity: "slow".into(), window: 10 };
    let slow = || Box::new(Slow(Counting { card: card.clone(), asked: Arc::default() }));
    let ask = |cached: &Cached| {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    cached.answer(&[embed(&"a".repeat(thread)), embed(&"b".repeat(thread + 1))])
                });
            }
        });
        cached.tally()
    };
    let begun = Instant::now();
    let spent = ask(&Cached::new(slow(), Some(Arc::clone(&store))));
    let seconds = begun.elapsed().as_secs_f64();
    assert!(0.2 <= spent.seconds_spent && spent.seconds_spent <= seconds, "{spent:?} in {seconds} s");
    let saved = ask(&Cached::new(slow(), Some(store)));
    assert_eq!((saved.misses, saved.seconds_spent), (0, 0.0));
    assert!((saved.seconds_saved - spent.seconds_spent).abs() < 1e-6, "{saved:?} {spent:?}");
    // One after the other, all of it.
    let cached = Cached::new(slow(), None);
    (0..3).for_each(|n| drop(cached.answer(&[embed(&"c".repeat(n))])));
    assert!(cached.tally().seconds_spent >= 0.6);
}

#[test]
fn a_file_deleted_in_mid_run_is_told_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.sqlite");
    let store = Arc::new(Store::open(&path, 1 << 20).unwrap());
    let (cached, _) = model("one", Some(&store));
    let expected = cached.answer(&[embed("a"), embed("bb")]);
    assert_eq!(store.failure(), None);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(cached.answer(&[embed("a"), embed("bb")]), expected);
    let told = store.failure().unwrap();
    assert!(told.contains("it was deleted or replaced during the run"), "{told}");
    // Another file of that name is not the one that was opened.
    Store::open(&path, 1 << 20).unwrap();
    assert!(cached.answer(&[embed("ccc")])[0].is_ok());
    assert_eq!(store.failure(), Some(told), "once");
}

/// Greets, and answers nothing else in time.
struct Polite(Card);

impl Model for Polite {
    fn card(&self) -> &Card {
        &self.0
    }

    fn answer(&self, calls: &[Call]) -> Vec<Outcome> {
        let greets = |call: &Call| [Call::hello(true), Call::hello(false)].contains(call);
        let greeting =
            Text { text: "Hi".into(), finish: Finish::Stop, prompt_tokens: 1, tokens: 1, cut_tokens: 0 };
        let answer = |call| {
            if greets(call) { Ok(Answer::Text(greeting.clone())) } else { Err(CallError::Timeout(3)) }
        };
        calls.iter().map(answer).collect()
    }
}

#[test]
fn a_model_that_only_greets_is_gone_after_some_calls() {
    let card = Card { name: "polite".to_owned(), identity: "polite".to_owned(), window: 99 };
    let cached = Cached::new(Box::new(Polite(card)), None);
    let Call::Generate { prompt, .. } = Call::hello(true) else { unreachable!() };
    let call = Call::Generate { prompt, max_tokens: 9, grammar: None, stop: Vec::new(), sampling: None };
    for _ in 1..MOST_SILENT {
        assert!(crate::models::ask(&cached, std::slice::from_ref(&call)).is_ok());
    }
    assert!(crate::models::ask(&cached, std::slice::from_ref(&call)).is_err());
}

#[test]
fn a_call_asked_by_two_at_once_is_computed_once() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&folder.path().join("calls.sqlite"), 1 << 20).unwrap());
    let asked = Arc::new(AtomicU64::new(0));
    let card = Card { name: "slow".to_owned(), identity: "slow".to_owned(), window: 99 };
    let slow = Slow(Counting { card, asked: Arc::clone(&asked) });
    let cached = Cached::new(Box::new(slow), Some(store));
    // What fails is asked again by whoever waited for it.
    let calls = |texts: &[&str]| texts.iter().map(|text| embed(text)).collect::<Vec<_>>();
    std::thread::scope(|scope| {
        for texts in [["a", "bb", "bad"], ["bb", "ccc", "bad"], ["ccc", "a", "bad"]] {
            let cached = &cached;
            scope.spawn(move || {
                let outcomes = cached.answer(&calls(&texts));
                for (text, outcome) in texts.iter().zip(&outcomes) {
                    match outcome {
                        Ok(Answer::Vector { values, .. }) => assert_eq!(values[0], text.len() as f32),
                        other => assert!(*text == "bad" && other.is_err()),
                    }
                }
            });
        }
    });
    assert_eq!(asked.load(Ordering::Relaxed), 3 + 3);
    assert_eq!((cached.tally().misses, cached.tally().hits), (6, 3));
    assert!(lock(&cached.flights).is_empty());
}

#[test]
fn without_a_store_all_is_computed() {
    let (cached, asked) = model("one", None);
    cached.answer(&[embed("a")]);
    cached.answer(&[embed("a")]);
    assert_eq!(asked.load(Ordering::Relaxed), 2);
}

#[test]
fn what_was_not_used_for_long_leaves_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.sqlite");
    let store = Arc::new(Store::open(&path, 5_000).unwrap());
    let (cached, asked) = model("one", Some(&store));
    let calls: Vec<Call> = (0..10).map(|n| embed(&"x".repeat(n))).collect();
    cached.answer(&calls);
    lock(&store.connection).execute("UPDATE answers SET used = used - 100", []).unwrap();
    let bytes = store.bytes().unwrap();
    assert!(bytes < 5_000, "{bytes}");
    // Each vector is some 400 bytes: two more would be over the cap.
    let more: Vec<Call> = (20..23).map(|n| embed(&"x".repeat(n))).collect();
    cached.answer(&more);
    let bytes = store.bytes().unwrap();
    assert!(bytes <= 4_500, "{bytes}");
    let asked_before = asked.load(Ordering::Relaxed);
    cached.answer(&more);
    assert_eq!(asked.load(Ordering::Relaxed), asked_before, "the newest have stayed");
    let counted: i64 = lock(&store.connection)
        .query_row("SELECT sum(length(answer)) FROM answers", [], |row| row.get(0))
        .unwrap();
    assert_eq!(counted, bytes);
}

#[test]
fn what_was_not_used_for_long_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&folder.path().join("calls.sqlite"), 1 << 30).unwrap());
    let (cached, asked) = model("one", Some(&store));
    cached.answer(&[embed("old"), embed("older")]);
    lock(&store.connection).execute("UPDATE answers SET used = used - 5 * 86400", []).unwrap();
    cached.answer(&[embed("new")]);
    let day = std::time::Duration::from_secs(86400);
    let (n, seconds, oldest) = store.stats().unwrap();
    assert!(n == 3 && seconds >= 0.0 && (oldest.unwrap() - 5.0).abs() < 0.01, "{n}, {oldest:?}");
    assert_eq!((store.prune(day * 6).unwrap(), store.prune(day).unwrap()), (0, 2));
    cached.answer(&[embed("new")]);
    assert_eq!(asked.load(Ordering::Relaxed), 3, "the new one has stayed");
    assert_eq!(store.prune(day * 0).unwrap(), 1);
    assert_eq!((store.stats().unwrap().0, store.bytes().unwrap()), (0, 0));
}

#[test]
fn two_stores_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.sqlite");
    let stores: Vec<_> = (0..2).map(|_| Arc::new(Store::open(&path, 1 << 30).unwrap())).collect();
    std::thread::scope(|scope| {
        for store in &stores {
            scope.spawn(move || {
                let (cached, _) = model("one", Some(store));
                for n in 0..200 {
                    cached.answer(&[embed(&"y".repeat(n))]);
                }
                assert_eq!(store.failure(), None);
            });
        }
    });
    let (cached, asked) = model("one", Some(&stores[0]));
    cached.answer(&(0..200).map(|n| embed(&"y".repeat(n))).collect::<Vec<_>>());
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

const CHILD: &str = "TRAJPRESS_TEST_CACHE";

/// Calls that a child makes, group by group.
fn calls_of_a_child() -> impl Iterator<Item = Vec<Call>> {
    (0..400).map(|group| (0..10).map(|n| embed(&"z".repeat(group * 10 + n))).collect())
}

/// The other process of the next test, which starts it; without that, nothing.
#[test]
#[ignore = "run by `processes_share_a_file_and_survive_a_kill`"]
fn child() {
    let store = Arc::new(Store::open(Path::new(&std::env::var_os(CHILD).unwrap()), 1 << 30).unwrap());
    let (cached, _) = model("one", Some(&store));
    for calls in calls_of_a_child() {
        cached.answer(&calls);
    }
    assert_eq!(store.failure(), None);
}

#[test]
fn processes_share_a_file_and_survive_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.sqlite");
    let start = || {
        std::process::Command::new(std::env::current_exe().unwrap())
            .args(["models::cache::tests::child", "--exact", "--ignored"])
            .env(CHILD, &path)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap()
    };
    let store = Arc::new(Store::open(&path, 1 << 30).unwrap());
    let rows = |store: &Store| -> i64 {
        lock(&store.connection).query_row("SELECT count(*) FROM answers", [], |row| row.get(0)).unwrap()
    };
    // Alone and killed while it writes, three times; then two at once, to their ends.
    for at in [20, 500, 1_000] {
        let mut killed = start();
        while rows(&store) < at {
            assert_eq!(killed.try_wait().unwrap(), None, "it writes more than that");
            std::thread::yield_now();
        }
        killed.kill().unwrap();
        killed.wait().unwrap();
    }
    let mut two = [start(), start()];
    assert!(two.iter_mut().all(|child| child.wait().unwrap().success()));

    let connection = lock(&store.connection);
    let sound: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(sound, "ok");
    let counted: i64 =
        connection.query_row("SELECT sum(length(answer)) FROM answers", [], |row| row.get(0)).unwrap();
    drop(connection);
    assert_eq!(counted, store.bytes().unwrap(), "the size goes with the answers, killed or not");
    let (cached, _) = model("one", Some(&store));
    let (fresh, _) = model("one", None);
    for calls in calls_of_a_child() {
        assert_eq!(cached.answer(&calls), fresh.answer(&calls));
    }
    assert_eq!(cached.tally().misses, 0);
}

#[test]
fn the_file_is_no_larger_than_its_cap() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.sqlite");
    let cap = 2 << 20;
    let store = Store::open(&path, cap).unwrap();
    // Short answers take several times their bytes.
    for n in 0..60u32 {
        let entries: Vec<_> = (0..500u32)
            .map(|k| (*blake3::hash(&(n * 500 + k).to_le_bytes()).as_bytes(), vec![7; 4]))
            .collect();
        store.keep(entries, 0.1);
    }
    let checkpoint = |connection: &Connection| {
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    };
    checkpoint(&lock(&store.connection));
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!((cap / 2..=cap).contains(&bytes), "{bytes}");
    assert!(store.bytes().unwrap() > 0);
}

/// Each bit of the answer and of its hash, one at a time: another answer never comes out.
#[test]
fn a_damaged_answer_is_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(&folder.path().join("calls.sqlite"), 1 << 20).unwrap());
    let (cached, asked) = model("one", Some(&store));
    let calls = [embed("a"), embed("bb")];
    let answers = cached.answer(&calls);
    let key = cached.key(&calls[0]).unwrap();
    let read = || -> Vec<u8> {
        let select = "SELECT answer FROM answers WHERE key = ?";
        lock(&store.connection).query_row(select, params![key.as_slice()], |row| row.get(0)).unwrap()
    };
    let write = |answer: &[u8]| {
        let update = "UPDATE answers SET answer = ? WHERE key = ?";
        lock(&store.connection).execute(update, params![answer, key.as_slice()]).unwrap();
    };
    let good = read();
    for bit in (0..8 * good.len()).step_by(7) {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        write(&bad);
        let before = asked.load(Ordering::Relaxed);
        assert_eq!(cached.answer(&calls), answers, "bit {bit}");
        assert_eq!(asked.load(Ordering::Relaxed), before + 1);
        assert_eq!(read(), good);
    }
    // The answer to another call, with its own hash.
    let other = cached.key(&calls[1]).unwrap();
    let copy = "UPDATE answers SET answer = (SELECT answer FROM answers WHERE key = ?) WHERE key = ?";
    lock(&store.connection).execute(copy, params![other.as_slice(), key.as_slice()]).unwrap();
    assert_eq!(cached.answer(&calls), answers);
}

/// One bit anywhere in the file: it is refused with its name, or the answers are the same, asked again or not.
#[test]
fn a_flipped_bit_gives_no_other_answer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.sqlite");
    let calls: Vec<Call> = (1..40).map(|n| embed(&"w".repeat(n))).collect();
    let answers = model("one", Some(&Arc::new(Store::open(&path, 1 << 20).unwrap()))).0.answer(&calls);
    let good = std::fs::read(&path).unwrap();
    let (n, mut n_refused, mut n_asked) = (100, 0, 0);
    for i in 0..n {
        let mut bad = good.clone();
        let bit = i * 7919 % (8 * bad.len());
        bad[bit / 8] ^= 1 << (bit % 8);
        let path = folder.path().join(format!("{i}.sqlite"));
        std::fs::write(&path, bad).unwrap();
        match Store::open(&path, 1 << 20) {
            Ok(store) => {
                let (cached, asked) = model("one", Some(&Arc::new(store)));
                assert_eq!(cached.answer(&calls), answers, "bit {bit}");
                n_asked += u64::from(asked.load(Ordering::Relaxed) > 0);
            }
            Err(error) => {
                assert!(format!("{error:#}").contains(&path.display().to_string()), "{error:#}");
                n_refused += 1;
            }
        }
    }
    println!(
        "bits of a cache: {n_refused} of {n} refused with the file named, {n_asked} made calls be asked again"
    );
}

#[test]
fn answers_of_an_older_file_get_their_hashes_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.sqlite");
    let store = Arc::new(Store::open(&path, 1 << 20).unwrap());
    let (cached, _) = model("one", Some(&store));
    let calls: Vec<Call> = (0..20).map(|n| embed(&"x".repeat(n))).collect();
    let answers = cached.answer(&calls);
    let bytes = store.bytes().unwrap();
    lock(&store.connection)
        .execute_batch(
            "UPDATE answers SET answer = substr(answer, 1, length(answer) - 16);
             UPDATE size SET bytes = bytes - 20 * 16; PRAGMA user_version = 0;",
        )
        .unwrap();
    drop((cached, store));
    for _ in 0..2 {
        let store = Arc::new(Store::open(&path, 1 << 20).unwrap());
        let (cached, asked) = model("one", Some(&store));
        assert_eq!(cached.answer(&calls), answers);
        assert_eq!((asked.load(Ordering::Relaxed), store.bytes().unwrap()), (0, bytes));
    }
}

#[test]
fn a_file_that_is_no_store_is_told_with_its_cure() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("calls.sqlite");
    std::fs::write(&path, "not a database, but long enough to be taken for one".repeat(100)).unwrap();
    let error = format!("{:#}", Store::open(&path, 1).err().unwrap());
    assert!(error.ends_with("hint: name another file by --cache, or run with --no-cache"), "{error}");
}
