//! Tests of `shared`, and what every place must do.

use std::collections::BTreeMap;
use std::sync::Mutex;

use super::*;

/// URL of an empty bucket for tests.
#[cfg(feature = "cloud")]
pub(super) const LOOPBACK: &str = "TRAJPRESS_TEST_STORE";

/// Memory that honours names, or does not.
#[derive(Default)]
pub struct Memory {
    pub held: Mutex<BTreeMap<String, Vec<u8>>>,
    pub overwrites: bool,
}

impl Place for Memory {
    fn create(&self, name: &str, bytes: Vec<u8>) -> anyhow::Result<bool> {
        let mut held = self.held.lock().unwrap();
        let is_new = self.overwrites || !held.contains_key(name);
        if is_new {
            held.insert(name.to_owned(), bytes);
        }
        Ok(is_new)
    }

    fn get(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        Ok(self.held.lock().unwrap().get(name).cloned())
    }

    fn list(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let under = format!("{folder}/");
        Ok(self.held.lock().unwrap().keys().filter(|name| name.starts_with(&under)).cloned().collect())
    }
}

/// The first wins, also of many at once; names are found; a probe is passed.
pub(super) fn behaves(place: &dyn Place) {
    probe(place, "the place").unwrap();
    let name = "parts/cells/variant_group=model-free/u-0.parquet";
    assert!(place.get(name).unwrap().is_none() && place.list("parts").unwrap().is_empty());
    assert!(place.create(name, b"one".to_vec()).unwrap());
    assert!(!place.create(name, b"two".to_vec()).unwrap());
    assert_eq!(place.get(name).unwrap().as_deref(), Some(&b"one"[..]));
    for round in 0..5 {
        let name = format!("parts/race/{round}");
        let create = |i: u8| place.create(&name, vec![i; 70_000]).unwrap();
        let won: Vec<u8> = std::thread::scope(|s| {
            let racers: Vec<_> = (0..4).map(|i| (i, s.spawn(move || create(i)))).collect();
            racers.into_iter().filter_map(|(i, racer)| racer.join().unwrap().then_some(i)).collect()
        });
        assert_eq!(won.len(), 1);
        assert_eq!(place.get(&name).unwrap().unwrap(), vec![won[0]; 70_000]);
    }
    let races = (0..5).map(|round| format!("parts/race/{round}"));
    assert_eq!(place.list("parts/race").unwrap(), races.clone().collect::<Vec<_>>());
    assert_eq!(place.list("parts").unwrap(), [name.to_owned()].into_iter().chain(races).collect::<Vec<_>>());
}

#[test]
fn folders_and_memory_behave() {
    behaves(&Memory::default());
    let folder = tempfile::tempdir().unwrap();
    behaves(&*open(&folder.path().join("deep/run").display().to_string()).unwrap());
}

#[test]
fn a_place_that_overwrites_is_refused() {
    let careless = Memory { overwrites: true, ..Memory::default() };
    let told = probe(&careless, "s3://bucket/run").unwrap_err().to_string();
    assert!(told.starts_with("s3://bucket/run does not refuse a name that is taken"), "{told}");
}

#[cfg(not(feature = "cloud"))]
#[test]
fn a_build_without_stores_says_so() {
    let told = open("s3://bucket/run").err().unwrap().to_string();
    assert!(told.contains("--features cloud"), "{told}");
}
