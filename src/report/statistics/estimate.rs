//! A value with its interval, and why it is null.

/// A value with its interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Estimate {
    /// Null where undefined or below the minimum.
    pub(crate) value: Option<f64>,
    /// Lower and upper end of the 95 % interval; null where it cannot be given.
    pub(crate) interval: Option<(f64, f64)>,
    /// Items of a share that is below the minimum.
    pub(crate) counted: Option<Counted>,
    /// Trajectories behind the value.
    pub(crate) n_trajectories: usize,
    /// Clusters behind the value.
    pub(crate) n_clusters: usize,
    /// How many of equal size would say as much; null without any.
    pub(crate) n_eff: Option<f64>,
    /// Items (needs, tokens, events) behind the value.
    pub(crate) n_items: u64,
    /// Of these those that the share speaks of, each counted once; null where nobody counted.
    pub(crate) n_kept: Option<u64>,
    /// Why the value or the interval is null.
    pub(crate) reason: Option<String>,
}

/// Items taken as independent: `kept` of `n`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counted {
    pub(crate) kept: u64,
    pub(crate) n: u64,
    /// Wilson's, of the share.
    pub(crate) interval: (f64, f64),
}

/// How the reason begins that a value has no interval, because all clusters say the same.
pub(crate) const ALIKE: &str = "all clusters agree";

impl Estimate {
    /// An estimate that is null, and why.
    pub(crate) fn null(reason: impl Into<String>) -> Self {
        Estimate { reason: Some(reason.into()), ..Estimate::default() }
    }

    /// How many of the items the share is of, above the minimum or below; none of none.
    pub(crate) fn kept(&self) -> Option<f64> {
        let share = self.value.map(|share| share * self.n_items as f64);
        self.n_kept.map(|kept| kept as f64).or(share).filter(|_| self.n_items > 0)
    }

    /// Whether it has no interval because all clusters say the same.
    pub(crate) fn all_agree(&self) -> bool {
        self.reason.as_deref().is_some_and(|reason| reason.starts_with(ALIKE))
    }

    /// How many of the items it is not of.
    pub(crate) fn n_lost(&self) -> Option<u64> {
        self.n_kept.map(|kept| self.n_items.saturating_sub(kept))
    }

    /// Why it is null, in two words for a cell of a table; empty where it is not, or where there is nothing.
    pub(crate) fn in_short(&self) -> &'static str {
        const WORDS: [(&str, &str); 4] = [
            ("n_eff is ", "few sources"),
            (" items, fewer than", "few needs"),
            ("oracle - random is under", "no room"),
            ("the interval of oracle - random", "room unsure"),
        ];
        let reason = self.reason.as_deref().filter(|_| self.value.is_none()).unwrap_or("");
        WORDS.iter().find(|(part, _)| reason.contains(part)).map_or("", |(_, words)| words)
    }

    /// Whether there is something to print.
    pub(crate) fn is_told(&self) -> bool {
        self.value.is_some() || self.counted.is_some()
    }

    pub(crate) fn lo(&self) -> Option<f64> {
        self.interval.map(|i| i.0)
    }

    pub(crate) fn hi(&self) -> Option<f64> {
        self.interval.map(|i| i.1)
    }
}

pub(crate) fn ratio(top: f64, bottom: f64) -> Option<f64> {
    (bottom != 0.0).then(|| top / bottom).filter(|x| x.is_finite())
}
