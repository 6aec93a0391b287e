//! Readers beside a writer: what they give is of the data before it or after it.

use super::*;

/// `run`, and what the others read, while `ingest` adds to their data.
#[test]
fn readers_beside_a_writer_see_the_data_before_or_after() {
    let n = times(10, 150);
    let counts = in_threads(|thread, n_threads| beside(n.div_ceil(n_threads), 5 + thread as u64));
    let [old, new] = counts.iter().fold([0, 0], |all, n| [all[0] + n[0], all[1] + n[1]]);
    println!("runs beside an adding ingest: {old} of the data before it, {new} of those after, 0 refused");
}

fn tables(place: &Place, run: &str) -> BTreeMap<String, Vec<u8>> {
    place.files(run).into_iter().filter(|(name, _)| name.ends_with(".parquet")).collect()
}

/// So many runs; gives how many were of the data before and after.
fn beside(n: usize, seed: u64) -> [usize; 2] {
    let place = Place::light();
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let all = place.logs();
    let more = place.at("more");
    fs::create_dir(&more).unwrap();
    for path in walk(&all).into_iter().skip(2) {
        fs::rename(&path, more.join(path.file_name().unwrap())).unwrap();
    }
    done(place.ingest("before"));
    done(place.annotate("before"));
    for path in walk(&more) {
        fs::rename(&path, all.join(path.file_name().unwrap())).unwrap();
    }
    let before = place.files("before");
    let begin = |folder: &str| {
        let _ = fs::remove_dir_all(place.at(folder));
        fs::create_dir(place.at(folder)).unwrap();
        before.iter().for_each(|(name, bytes)| fs::write(place.at(folder).join(name), bytes).unwrap());
    };
    begin("after");
    let start = Instant::now();
    done(place.ingest("after"));
    let writes = start.elapsed();
    let start = Instant::now();
    done(place.run("before", "old"));
    let reads = start.elapsed();
    done(place.run("after", "new"));
    let (old, new) = (tables(&place, "old"), tables(&place, "new"));
    assert!(old != new);
    let mut counts = [0, 0];
    for round in 0..n {
        begin("data");
        let _ = fs::remove_dir_all(place.at("run"));
        // Each begins at some moment of the other.
        let first = rng.random_range(0..2);
        let (mut ingest, mut run) = (place.ingest("data"), place.run("data", "run"));
        let both =
            [&mut ingest, &mut run].map(|command| command.stderr(Stdio::piped()).stdout(Stdio::null()));
        let [ingest, run] = both;
        let wait = |whole: Duration, share: f64| std::thread::sleep(whole.mul_f64(share));
        let share = rng.random_range(0.0..1.0);
        let (mut writer, reader) = match first {
            0 => {
                let writer = ingest.spawn().unwrap();
                wait(writes, share);
                (writer, run.spawn().unwrap())
            }
            _ => {
                let reader = run.spawn().unwrap();
                wait(reads, share);
                (ingest.spawn().unwrap(), reader)
            }
        };
        // No error, no advice to make again what is just being made, no half tables.
        let output = reader.wait_with_output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", stderr(&output));
        // One who comes to write while `run` annotates is turned away; then nothing has changed.
        let _ = writer.wait().unwrap();
        let got = tables(&place, "run");
        assert!(got == old || got == new, "round {round}: other rows");
        counts[usize::from(got == new)] += 1;
    }
    counts
}
