//! trajpress reads logged trajectories of LLM agents, replays them under many compression
//! strategies and triggers, and tells what each variant saved and what it lost.
//!
//! The data goes one way:
//! `logs` -> `trajectory` -> `annotate` -> `context` -> `replay` (trigger x strategy) -> `scores`
//! -> rows (`store`) -> `report`.
//!
//! A user of the crate has the same stages as the program: [`ingest()`], [`annotate()`], [`run()`] and [`report()`],
//! each from files to files; [`Compressor`] compresses a live conversation. Modules are private; what stands here is all there is.

#![forbid(unsafe_code)]

mod advice;
mod annotate;
mod audit;
mod cli;
mod context;
mod experiment;
mod export;
mod files;
mod learn;
mod live;
mod logs;
mod models;
mod params;
mod policies;
mod programs;
mod progress;
mod replay;
mod report;
mod scopes;
mod scores;
mod settings;
mod showcase;
mod store;
mod strategies;
mod text;
mod trajectory;
mod triggers;
mod turns;

pub use annotate::{Annotated, annotate};
pub use experiment::cell::{Models, Shelf, run_unit};
pub use experiment::{Catalogue, Dataset, Options as RunOptions, Outcome, Plan, Variant, run_with as run};
pub use live::{Compressed, Compressor, Messages};
pub use logs::{
    Filter, Limits, Mode as IngestMode, Options as IngestOptions, Progress, Report as Ingested, ingest,
};
pub use report::statistics::bootstrap::Resampling;
pub use report::{Names, Options as ReportOptions, Population, Written, write as report};
pub use trajectory::{Builder, Kind, LoggedEdit, Role, Step, Trajectory, Usage, step};

/// What the program, its tests and its benchmarks need beside that, by the module that has it. Nothing here is for
/// others, and anything may change.
#[doc(hidden)]
pub mod internals {
    pub mod annotate {
        pub mod features {
            pub use crate::annotate::features::rows;
        }
    }
    pub mod cli {
        pub use crate::cli::main;
    }
    pub mod context {
        pub use crate::context::Context;
        pub mod log {
            pub use crate::context::log::Log;
        }
    }
    pub mod experiment {
        pub use crate::experiment::SEMANTICS_VERSION;
        pub mod cell {
            pub use crate::experiment::cell::{Models, Prepared, Scene, recipe};
        }
    }
    pub mod files {
        pub mod vouch {
            pub use crate::files::vouch::{Made, seal};
        }
    }
    pub mod logs {
        pub use crate::logs::read_only;
        pub mod formats {
            pub use crate::logs::formats::ALL;
        }
    }
    pub mod models {
        pub use crate::models::{
            Answer, Call, CallError, Finish, Model, Outcome, Part, Prompt, Sampling, Scores, Text, TokenScore,
        };
        pub mod catalogue {
            pub use crate::models::catalogue::Catalogue;
        }
        pub mod disarm {
            pub use crate::models::disarm::disarm;
        }
        pub mod folder {
            pub use crate::models::folder::Folder;
        }
        pub mod gguf {
            pub use crate::models::gguf::read;
        }
        pub mod grammar {
            pub use crate::models::grammar::{json, lines, read_lines};
        }
        pub mod labels {
            pub use crate::models::labels::{either, largest, likelihoods, ratings};
        }
        #[cfg(feature = "llama")]
        pub mod llama {
            pub use crate::models::llama::{Kind, Llama, Options};
        }
        pub mod server {
            pub use crate::models::server::{Kind, Options, Server};
        }
    }
    pub mod policies {
        pub use crate::policies::all;
    }
    pub mod params {
        pub use crate::params::Param;
    }
    pub mod replay {
        pub use crate::replay::Recipe;
        pub mod trace {
            pub use crate::replay::trace::traced;
        }
        pub mod watch {
            pub use crate::replay::watch::Watch;
        }
    }
    pub mod scopes {
        pub use crate::scopes::ALL;
    }
    pub mod scores {
        pub use crate::scores::{ALL, all};
        pub mod constraints {
            pub use crate::scores::constraints::{Constraint, NAMES, Prepared};
        }
        pub mod outcomes_by_model {
            pub use crate::scores::outcomes_by_model::by_model;
        }
        pub mod readers {
            pub use crate::scores::readers::Readers;
        }
        pub mod retention {
            pub use crate::scores::retention::{Ledger, Questions};
        }
    }
    pub mod store {
        pub use crate::store::{
            EventRow, FeatureRow, ScoreRow, StepRow, TableWriter, TrajectoryRow, UsageRow, VariantRow, read,
        };
    }
    pub mod strategies {
        pub use crate::strategies::{ALL, build};
    }
    pub mod text {
        pub mod atoms {
            pub use crate::text::atoms::occurrences;
        }
        pub mod escape {
            pub use crate::text::escape::acts;
        }
        pub mod redact {
            pub use crate::text::redact::redact;
        }
        pub mod tokens {
            pub use crate::text::tokens::Tokenizer;
        }
    }
    pub mod triggers {
        pub use crate::triggers::{ALL, Moment, build};
    }
    pub mod turns {
        pub use crate::turns::read;
    }
}
