//! Object stores: S3, Google Cloud Storage, Azure, and a folder as `file://`, by the crate `object_store`. Keys, region and
//! endpoint come from the environment, under the names that the tools of the stores have for them (`AWS_...`, `GOOGLE_...`,
//! `AZURE_...`).

use anyhow::Context as _;
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, PutMode, parse_url_opts};
use tokio::runtime::{Builder, Runtime};

use super::Place;

pub(super) struct Store {
    store: Box<dyn ObjectStore>,
    root: Path,
    runtime: Runtime,
}

impl Store {
    pub(super) fn open(at: &str) -> anyhow::Result<Self> {
        let known = ["AWS_", "GOOGLE_", "AZURE_"];
        let given = std::env::vars().filter(|(name, _)| known.iter().any(|known| name.starts_with(known)));
        let url = url::Url::parse(at).with_context(|| format!("{at} is no URL"))?;
        let (store, root) = parse_url_opts(&url, given).with_context(|| format!("cannot open {at}"))?;
        Store::of(store, root)
    }

    fn of(store: Box<dyn ObjectStore>, root: Path) -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Ok(Store { store, root, runtime: runtime.context("cannot start a thread")? })
    }

    fn path(&self, name: &str) -> Path {
        name.split('/').fold(self.root.clone(), |path, part| path.join(part))
    }
}

impl Place for Store {
    fn create(&self, name: &str, bytes: Vec<u8>) -> anyhow::Result<bool> {
        let path = self.path(name);
        match self.runtime.block_on(self.store.put_opts(&path, bytes.into(), PutMode::Create.into())) {
            Ok(_) => Ok(true),
            Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(false),
            Err(error) => Err(error).with_context(|| format!("cannot write {path} to {}", self.store)),
        }
    }

    fn get(&self, name: &str) -> anyhow::Result<Option<Vec<u8>>> {
        let path = self.path(name);
        let read = async {
            match self.store.get(&path).await {
                Err(Error::NotFound { .. }) => Ok(None),
                found => found?.bytes().await.map(|bytes| Some(bytes.to_vec())),
            }
        };
        self.runtime.block_on(read).with_context(|| format!("cannot read {path} from {}", self.store))
    }

    fn list(&self, folder: &str) -> anyhow::Result<Vec<String>> {
        let (mut names, mut folders) = (Vec::new(), vec![self.path(folder)]);
        while let Some(folder) = folders.pop() {
            let found = self.runtime.block_on(self.store.list_with_delimiter(Some(&folder)));
            let found = found.with_context(|| format!("cannot list {folder} of {}", self.store))?;
            folders.extend(found.common_prefixes);
            for object in found.objects {
                let parts =
                    object.location.prefix_match(&self.root).context("a name outside of its place")?;
                names.push(parts.map(|part| part.as_ref().to_owned()).collect::<Vec<_>>().join("/"));
            }
        }
        names.sort();
        Ok(names)
    }
}

#[cfg(test)]
mod tests {
    use object_store::memory::InMemory;

    use super::super::tests::{LOOPBACK, behaves};
    use super::*;

    #[test]
    fn stores_in_memory_and_on_disk_behave() {
        behaves(&Store::of(Box::new(InMemory::new()), Path::from("a run")).unwrap());
        let folder = tempfile::tempdir().unwrap();
        behaves(&Store::open(&format!("file://{}/run", folder.path().display())).unwrap());
    }

    /// tests/cluster/s3.py starts a server on loopback and runs this against it: its address stands in the environment.
    #[test]
    fn a_server_that_speaks_s3_behaves() {
        match std::env::var(LOOPBACK) {
            Ok(url) => behaves(&Store::open(&url).unwrap()),
            Err(_) => eprintln!("SKIPPED: {LOOPBACK} names no bucket: `make cloud-test` starts a server"),
        }
    }
}
