//! What is known of a score apart from how it is computed: plain data, which a report reads years later without a model.
//!
//! Each entry stands beside its algorithm. Nothing else of the program writes a score's name: it takes the entry's.

/// A score in the catalogue.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    pub name: &'static str,
    /// What it is called where people read; empty is its name.
    pub words: &'static str,
    pub summary: &'static str,
    pub formula: &'static str,
    pub unit: Unit,
    pub better: Better,
    /// Keys of the strata that its rows have beside the whole.
    pub strata: &'static [&'static str],
    /// What its floor and its ceiling are, in words; empty where rows have none.
    pub floor: &'static str,
    pub ceiling: &'static str,
    pub pooled: Pooled,
    pub scale: Scale,
    /// Its columns in the summary.
    pub columns: &'static [Column],
    /// Its place and heading among the scores that the table `truth` sets between floor and ceiling.
    pub truth: Option<(u8, &'static str)>,
    /// Its place among the scores that all say how much was kept, each in its way.
    pub retention: Option<u8>,
    /// Whether models give it: of several, each has a stratum `scorer=NAME`.
    pub by_readers: bool,
}

impl Entry {
    /// A share of something, of which more is better: what most scores are.
    pub const SHARE: Entry = Entry {
        name: "",
        words: "",
        summary: "",
        formula: "",
        unit: Unit::Share,
        better: Better::Higher,
        strata: &[],
        floor: "",
        ceiling: "",
        pooled: Pooled::RatioOfSums,
        scale: Scale::Share,
        columns: &[],
        truth: None,
        retention: None,
        by_readers: false,
    };

    /// A share that has a floor and a ceiling in the contexts of `drop-all` and `full`.
    pub const TRUTH: Entry = Entry { strata: &["point"], floor: DROP_ALL, ceiling: "`full`", ..Entry::SHARE };

    /// What it is called where people read.
    pub fn called(&self) -> String {
        if self.words.is_empty() { self.name.replace('_', " ") } else { self.words.to_owned() }
    }

    /// Whether shadows tell its floor and ceiling, at as many tokens.
    pub fn has_shadows(&self) -> bool {
        self.floor == RANDOM
    }
}

/// What a program of one's own says of its score.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct About {
    /// Name, version and hash.
    pub program: String,
    /// The same, with its parameters where it has some: the name of the score.
    pub name: String,
    /// `higher`, `lower` or `neither`.
    pub better: String,
    /// Null is no limit.
    pub range: [Option<f64>; 2],
    pub unit: String,
}

/// The stratum of rows that tell of a program's score of this name.
pub fn stratum(name: &str) -> String {
    format!("program={}", name.replace(char::is_whitespace, "_"))
}

/// The matched shadows.
pub const RANDOM: &str = "random lines of as many tokens";
pub const ORACLE: &str = "the oracle's lines of as many tokens";
/// What annotated scores are placed over.
pub const DROP_ALL: &str = "`drop-all`, or the same words shuffled: the larger";

/// What one of it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Of a whole: 0 to 1, savings also below 0.
    Share,
    Tokens,
    Decisions,
    /// One number over another.
    Ratio,
    /// Of two vectors, -1 to 1.
    Cosine,
}

impl Unit {
    pub fn name(self) -> &'static str {
        match self {
            Unit::Share => "share",
            Unit::Tokens => "tokens",
            Unit::Decisions => "decisions",
            Unit::Ratio => "ratio",
            Unit::Cosine => "cosine",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    Higher,
    Lower,
    Neither,
}

impl Better {
    pub fn name(self) -> &'static str {
        match self {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => "neither",
        }
    }
}

/// How the values of trajectories become one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooled {
    /// Sum of value times weight over sum of weights, the weight being what the score counts.
    RatioOfSums,
    /// The same where each trajectory (or point of one) weighs 1.
    Mean,
    /// 1 - the pooled value of one score / that of another.
    Lift { of: &'static str, over: &'static str },
    /// Over events, of which some end before it is known.
    Median,
}

impl Pooled {
    pub fn name(self) -> &'static str {
        match self {
            Pooled::RatioOfSums => "ratio of sums",
            Pooled::Mean => "mean",
            Pooled::Lift { .. } => "1 - ratio of pooled shares",
            Pooled::Median => "median over events",
        }
    }
}

/// What a pooled figure is: it decides the scale of its interval, and what stands below the minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Tokens or money, sent or saved.
    Amount,
    /// A share of items; a [`Scale::Score`] all the same where a value leaves 0 to 1.
    Share,
    /// A difference, an efficiency, or any other number.
    Score,
    /// What is counted: it is never below 0.
    Count,
}

/// A column of the summary.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Columns stand in this order.
    pub place: u16,
    /// Empty is the score's own.
    pub name: &'static str,
    pub doc: &'static str,
    pub set: Set,
    pub field: Field,
    /// Also in `by_format`.
    pub by_format: bool,
}

impl Column {
    pub const fn new(place: u16, name: &'static str, set: Set, field: Field, doc: &'static str) -> Self {
        Column { place, name, doc, set, field, by_format: false }
    }

    pub const fn headline(place: u16, name: &'static str, set: Set, field: Field, doc: &'static str) -> Self {
        Column { place, name, doc, set, field, by_format: true }
    }
}

/// Which rows of a score are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Set {
    /// Needs that every variant is asked about.
    Common,
    /// Needs that the trigger put at risk.
    Exposed,
    /// The same, each trajectory's weight capped, where there are such rows.
    Capped,
    /// All of it: the common needs, the whole cell, or what is left at its end.
    Whole,
    /// This one.
    Stratum(&'static str),
}

/// What of a row is meant; claims write it in lower case.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Field {
    #[default]
    Value,
    Floor,
    Ceiling,
    #[serde(skip)]
    AtomBag,
    Chance,
    /// (value - chance) / (1 - chance).
    Corrected,
    /// (value - floor) / (ceiling - floor).
    Efficiency,
    /// Ceiling - floor: whether efficiency means anything.
    Room,
}

impl Field {
    /// The scale of this field of a score of that scale.
    pub fn scale(self, of: Scale) -> Scale {
        match self {
            Field::Efficiency | Field::Room if of != Scale::Amount => Scale::Score,
            _ => of,
        }
    }
}
