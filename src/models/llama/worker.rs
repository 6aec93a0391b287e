//! The child process that holds a model: one thread a context, all over the same weights.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
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
        let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("error: {panic}\n").as_bytes());
        std::process::exit(101);
    }));
    let mut from = io::stdin().lock();
    let Ok(Some(Request::Load(options))) = receive(&mut from) else {
        anyhow::bail!("this command serves models to trajpress itself and is not meant to be run by hand");
    };
    let desk = Desk::new(options.contexts.max(1) as usize);
    serve(&options, &desk, &mut from)
        .inspect_err(|why| desk.reply(&Reply::Refused(why.clone())))
        .map_err(anyhow::Error::msg)
}

/// What the threads of a worker share.
struct Desk {
    queue: Mutex<Queue>,
    filled: Condvar,
    out: Mutex<Option<Instant>>,
}

/// Calls that wait for a context, in their order, but for those that ask again what one was asked lately (an answer that could
/// not be used): its prompt stands there already, and is most of the work.
struct Queue {
    calls: VecDeque<(u64, Call, Option<u64>)>,
    contexts: Vec<Seat>,
}

/// What is known of a context.
#[derive(Clone)]
struct Seat {
    has_room: bool,
    /// Prompts that it was given last, the newest at the end: as many as it has sequences.
    prompts: VecDeque<u64>,
}

impl Queue {
    /// The first call whose prompt this context holds, or none other that has room.
    fn next(&mut self, context: usize, sequences: usize) -> Option<(u64, Call)> {
        let fits = |prompt: u64| {
            let holds = |seat: &Seat| seat.prompts.contains(&prompt);
            holds(&self.contexts[context]) || !self.contexts.iter().any(|seat| seat.has_room && holds(seat))
        };
        let at = self.calls.iter().position(|(_, _, prompt)| prompt.is_none_or(fits))?;
        let (id, call, prompt) = self.calls.remove(at)?;
        let prompts = &mut self.contexts[context].prompts;
        prompts.extend(prompt);
        prompts.drain(..prompts.len().saturating_sub(sequences));
        Some((id, call))
    }
}

/// What tells the prompt of a call that writes from others.
fn prompt_key(call: &Call) -> Option<u64> {
    let Call::Generate { prompt, .. } = call else { return None };
    let mut hasher = DefaultHasher::new();
    serde_json::to_vec(prompt).ok()?.hash(&mut hasher);
    Some(hasher.finish())
}

impl Desk {
    fn new(contexts: usize) -> Self {
        let seat = Seat { has_room: true, prompts: VecDeque::new() };
        let queue = Queue { calls: VecDeque::new(), contexts: vec![seat; contexts] };
        Desk { queue: Mutex::new(queue), filled: Condvar::new(), out: Mutex::default() }
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, id: u64, call: Call) {
        let prompt = prompt_key(&call);
        self.queue().calls.push_back((id, call, prompt));
        self.filled.notify_all();
    }

    /// The next call for a context of so many sequences; waits for one if `wait`.
    fn next(&self, context: usize, sequences: usize, wait: bool) -> Option<(u64, Call)> {
        let mut queue = self.queue();
        loop {
            let next = queue.next(context, sequences);
            if next.is_some() || !wait {
                return next;
            }
            queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says whether a context has room: where it has none, others need not leave anything to it.
    fn room(&self, context: usize, has_room: bool) {
        let seat = &mut self.queue().contexts[context];
        if std::mem::replace(&mut seat.has_room, has_room) && !has_room {
            self.filled.notify_all();
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
        for (context, engine) in engines.into_iter().enumerate() {
            scope.spawn(move || generate(engine, desk, context, sequences as usize));
        }
        for (context, mut embedder) in embedders.into_iter().enumerate() {
            scope.spawn(move || {
                while let Some((id, call)) = desk.next(context, 1, true) {
                    desk.done(id, embedder.answer(&call));
                }
            });
        }
        while let Ok(Some(Request::Work { id, call })) = receive(from) {
            desk.push(id, call);
        }
        // The program has gone or wants no more: threads and contexts need no farewell.
        let _ = io::stdout().flush();
        std::process::exit(0)
    })
}

fn generate(mut engine: Engine<'_>, desk: &Desk, context: usize, sequences: usize) {
    loop {
        desk.room(context, true);
        while engine.has_room() {
            let Some((id, call)) = desk.next(context, sequences, engine.is_idle()) else { break };
            if let Some(outcome) = engine.start(id, call) {
                desk.done(id, outcome);
            }
        }
        desk.room(context, engine.has_room());
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::Prompt;

    #[test]
    fn a_prompt_that_is_asked_again_goes_where_it_stands() {
        let desk = Desk::new(2);
        let push = |id: u64, text: &str| {
            let prompt = Prompt::render(&format!("A test.\n--- text ---\n{text}"), &[]).unwrap();
            let (grammar, stop) = (None, Vec::new());
            desk.push(id, Call::Generate { prompt, max_tokens: 9, grammar, stop, sampling: None });
        };
        let next = |context: usize| desk.next(context, 2, false).map(|(id, _)| id);
        push(1, "a");
        push(2, "b");
        assert_eq!((next(1), next(0), next(0)), (Some(1), Some(2), None));
        // Left to the context that holds it, while that has room; what is behind it is taken.
        push(3, "a");
        push(4, "c");
        assert_eq!((next(0), next(0)), (Some(4), None));
        assert_eq!(next(1), Some(3));
        push(5, "a");
        desk.room(1, false);
        assert_eq!(next(0), Some(5));
        // Both hold it now; the one with room takes it.
        push(6, "a");
        assert_eq!(next(0), Some(6));
        // With two sequences the two newest prompts count.
        desk.room(1, true);
        push(7, "d");
        push(8, "e");
        assert_eq!((next(1), next(1)), (Some(7), Some(8)));
        push(9, "d");
        assert_eq!((next(0), next(1)), (None, Some(9)));
        // What scores or embeds has no place of its own.
        desk.push(10, Call::Tokenize { text: "d".to_owned() });
        assert_eq!(next(0), Some(10));
    }
}
