//! The child process that holds a model: one thread a context, all over the same weights.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;

use crate::models::{Call, Outcome};

use super::embedder::Embedder;
use super::engine::Engine;
use super::template::{self, Template};
use super::wire::{Loaded, Reply, Request, receive, send};
use super::{Kind, Options};

/// Serves calls from standard input until it ends. What `trajpress model-worker` does.
///
/// # Errors
/// The model cannot be loaded (the program is told), or nobody asks.
pub fn run() -> anyhow::Result<()> {
    // A context without its thread would keep its calls waiting: its panic ends the worker, which is noticed.
    std::panic::set_hook(Box::new(|panic| {
        eprintln!("error: {panic}");
        std::process::exit(101);
    }));
    let mut from = io::stdin().lock();
    let Ok(Some(Request::Load(options))) = receive(&mut from) else {
        anyhow::bail!("this command serves models to trajpress itself and is not meant to be run by hand");
    };
    let desk = Desk::default();
    serve(&options, &desk, &mut from)
        .inspect_err(|why| desk.reply(&Reply::Refused(why.clone())))
        .map_err(anyhow::Error::msg)
}

/// What the threads of a worker share.
#[derive(Default)]
struct Desk {
    queue: Mutex<VecDeque<(u64, Call)>>,
    filled: Condvar,
    out: Mutex<Option<Instant>>,
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, VecDeque<(u64, Call)>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next call; waits for one if `wait`.
    fn next(&self, wait: bool) -> Option<(u64, Call)> {
        let mut queue = self.queue();
        loop {
            let next = queue.pop_front();
            if next.is_some() || !wait {
                return next;
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn reply(&self, reply: &Reply) {
        let mut last = self.out.lock().unwrap_or_else(PoisonError::into_inner);
        // Nobody reads any more: nothing is left to do.
        if send(&mut io::stdout().lock(), reply).is_err() {
            std::process::exit(0);
        }
        *last = Some(Instant::now());
    }

    fn done(&self, id: u64, outcome: Outcome) {
        self.reply(&Reply::Done { id, outcome });
    }

    /// Tells the program that the worker lives, at most once a second.
    fn alive(&self) {
        let last = *self.out.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() > Duration::from_secs(1)) {
            self.reply(&Reply::Alive);
        }
    }
}

fn serve(options: &Options, desk: &Desk, from: &mut impl io::Read) -> Result<(), String> {
    let backend = LlamaBackend::init().map_err(|error| error.to_string())?;
    let model = LlamaModel::load_from_file(&backend, &options.path, &LlamaModelParams::default())
        .map_err(|error| format!("{}: {error}", options.path.display()))?;
    if model.is_recurrent() || model.is_hybrid() {
        return Err("it is a recurrent model, whose state cannot be taken back to an earlier token: what is shared between prompts \
                    here would be wrong\nhint: use a transformer, or a server"
            .to_owned());
    }
    let window = options.window;
    if window == 0 || window > model.n_ctx_train() {
        return Err(format!(
            "a window of {window} tokens, the weights were made for {}",
            model.n_ctx_train()
        ));
    }
    let sequences = match options.kind {
        Kind::Embedder => 1,
        Kind::Text => options.sequences.unwrap_or_else(|| sequences(&model, window, options.memory)),
    };
    let contexts = options.contexts.max(1);
    let bos = token_text(&model, model.vocab().bos());
    let eos = token_text(&model, model.vocab().eos());
    let source = model.meta_val_str("tokenizer.chat_template").ok();
    let template = Template::new(source.as_deref(), &bos, &eos, template::reserved(&model.vocab()));
    let alive = || desk.alive();

    thread::scope(|scope| {
        // One after the other: making a context changes the model.
        let mut engines = Vec::new();
        let mut embedders = Vec::new();
        for _ in 0..contexts {
            match options.kind {
                Kind::Text => {
                    engines.push(Engine::new(&backend, &model, &template, window, sequences, &alive)?);
                }
                Kind::Embedder => embedders.push(Embedder::new(&backend, &model, window, &alive)?),
            }
        }
        // What one context computes, every other does, too.
        // Experts share their rows in ways that no trial foresees.
        let rows = match engines.first_mut() {
            Some(engine) if !has_experts(&model) => engine.equal_rows(),
            _ => 1,
        };
        for engine in &mut engines {
            engine.write_in(rows);
        }
        let description = model.meta_val_str("general.name").unwrap_or_default();
        desk.reply(&Reply::Ready(Loaded { sequences, rows: rows as u32, description }));
        for engine in engines {
            scope.spawn(move || generate(engine, desk));
        }
        for mut embedder in embedders {
            scope.spawn(move || {
                while let Some((id, call)) = desk.next(true) {
                    desk.done(id, embedder.answer(&call));
                }
            });
        }
        while let Ok(Some(Request::Work { id, call })) = receive(from) {
            desk.queue().push_back((id, call));
            desk.filled.notify_one();
        }
        // The program has gone or wants no more: threads and contexts need no farewell.
        let _ = io::stdout().flush();
        std::process::exit(0)
    })
}

fn generate(mut engine: Engine<'_>, desk: &Desk) {
    loop {
        while engine.has_room() {
            let Some((id, call)) = desk.next(engine.is_idle()) else { break };
            if let Some(outcome) = engine.start(id, call) {
                desk.done(id, outcome);
            }
        }
        for (id, outcome) in engine.step() {
            desk.done(id, outcome);
        }
    }
}

/// Whether the weights are a mixture of experts.
fn has_experts(model: &LlamaModel) -> bool {
    let value = |key: &str| model.meta_val_str(key).ok();
    let count = value("general.architecture").and_then(|name| value(&format!("{name}.expert_count")));
    count.is_some_and(|count| count != "0")
}

fn token_text(model: &LlamaModel, token: llama_cpp_2::token::LlamaToken) -> String {
    if token.0 < 0 {
        return String::new();
    }
    String::from_utf8_lossy(&model.vocab().token_to_piece(token, true, None)).into_owned()
}

/// How many sequences of a context fit `memory` MiB with their keys and values in 16 bits: 1 to 16.
fn sequences(model: &LlamaModel, window: u32, memory: u32) -> u32 {
    let head = (model.n_embd() as u64) / u64::from(model.n_head().max(1));
    let token = 2 * 2 * head * u64::from(model.n_head_kv()) * u64::from(model.n_layer());
    let fit = (u64::from(memory) << 20) / (token * u64::from(window)).max(1);
    fit.clamp(1, 16) as u32
}
