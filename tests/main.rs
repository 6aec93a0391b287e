//! All tests that go through the program or its tables: one program, so that it is linked once.

mod advise;
mod append;
mod audit;
mod command;
mod compare;
mod docs;
mod export;
mod golden;
mod ingest;
mod kept;
mod live;
mod llama;
mod mapping;
mod messages;
mod method;
mod models;
mod package;
mod pipeline;
mod place;
mod redact;
mod robust;
mod server;
mod strange;
mod tables;
mod tidy;
mod trial;
