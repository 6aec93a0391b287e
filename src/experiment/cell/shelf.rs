//! Trajectories ready for replay, and those kept for reuse.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use super::super::dataset::Dataset;
use super::super::plan::Plan;
use super::replays::Replays;
use super::secrets::Secrets;
use crate::context::log::Log;
use crate::scores::retention::Questions;
use crate::text::tokens::Tokenizer;

/// Bytes of prepared trajectories kept for reuse. Partners stand near in the data and units are done in
/// the order of the data, so that those of a few hundred trajectories serve nearly always.
const SHELF_BYTES: usize = 32 << 20;

/// A trajectory ready for replay.
pub struct Prepared {
    pub(super) log: Log,
    pub(super) questions: Questions,
    /// Its index in the data; none where its log is not as the data have it.
    pub(super) place: Option<usize>,
    /// Whether others have it for a partner.
    pub(super) is_partner: bool,
    /// Looked for once a row has text of the log.
    pub(super) secrets: OnceLock<Secrets>,
}

impl Prepared {
    /// # Errors
    /// The log cannot be replayed as it was sent.
    pub fn new(log: Log, reference_tails: &[u32], tokenizer: &Tokenizer) -> anyhow::Result<Self> {
        let questions = Questions::of(&log, reference_tails, tokenizer)?;
        Ok(Prepared { log, questions, place: None, is_partner: false, secrets: OnceLock::new() })
    }

    pub(super) fn secrets(&self) -> &Secrets {
        self.secrets.get_or_init(|| Secrets::of(&self.log))
    }

    pub(super) fn load(data: &Dataset, plan: &Plan, index: usize, is_bridged: bool) -> anyhow::Result<Self> {
        let tokenizer = Tokenizer::load(&plan.tokenizer)?;
        let prepared = Prepared::new(data.log(index, is_bridged)?, &plan.reference_tails, &tokenizer)?;
        let is_partner = data.is_partner(index);
        Ok(Prepared { place: (!is_bridged).then_some(index), is_partner, ..prepared })
    }

    /// The same log over its own compactions. What was sent is what was sent, with them.
    pub(super) fn bridged(&self, data: &Dataset, plan: &Plan, index: usize) -> anyhow::Result<Self> {
        let mut bridged = Prepared::load(data, plan, index, true)?;
        bridged.questions.tokens_as_sent = self.questions.tokens_as_sent;
        Ok(bridged)
    }
}

/// Prepared trajectories, shared by the units of a run; the one unused the longest goes first, so memory
/// stays bounded whatever the number of trajectories. Beside them their replays.
#[derive(Default)]
pub struct Shelf {
    inner: Mutex<Inner>,
    pub(super) replays: Replays,
}

#[derive(Default)]
struct Inner {
    /// By index: when last used, its bytes, and itself.
    prepared: HashMap<usize, (u64, usize, Arc<Prepared>)>,
    bytes: usize,
    clock: u64,
}

impl Shelf {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    pub(super) fn get(&self, data: &Dataset, plan: &Plan, index: usize) -> anyhow::Result<Arc<Prepared>> {
        {
            let mut inner = self.lock();
            inner.clock += 1;
            let now = inner.clock;
            if let Some((used, _, prepared)) = inner.prepared.get_mut(&index) {
                *used = now;
                return Ok(Arc::clone(prepared));
            }
        }
        let prepared = Arc::new(Prepared::load(data, plan, index, false)?);
        let bytes = prepared.log.bytes();
        let mut inner = self.lock();
        let now = inner.clock;
        if inner.prepared.insert(index, (now, bytes, Arc::clone(&prepared))).is_none() {
            inner.bytes += bytes;
        }
        while inner.bytes > SHELF_BYTES && inner.prepared.len() > 1 {
            let Some(oldest) = inner.prepared.iter().min_by_key(|(_, (used, ..))| *used).map(|(&i, _)| i)
            else {
                break;
            };
            if let Some((_, bytes, _)) = inner.prepared.remove(&oldest) {
                inner.bytes -= bytes;
            }
        }
        Ok(prepared)
    }
}
