//! Files whose lines are messages: of one run, or of the runs that a field of them names.

use std::collections::{HashMap, HashSet};

use serde_json::Value;

use super::{Mapping, find, text};
use crate::logs::formats::{Session, Sink, openai_chat};

/// Where lines often say of which session they are.
const SESSION: &[&str] = &[
    "/session_id",
    "/sessionId",
    "/session",
    "/conversation_id",
    "/conversationId",
    "/conversation",
    "/thread_id",
    "/threadId",
    "/run_id",
    "/runId",
    "/trajectory_id",
    "/episode_id",
    "/episode",
    "/chat_id",
    "/chatId",
    "/trace_id",
    "/traceId",
];

/// Where lines name their session, by the look of it, and how many they name: most lines have it, and several the same.
pub(crate) fn sessions<'v>(lines: impl Iterator<Item = &'v Value> + Clone) -> Option<(&'static str, usize)> {
    let is_name = |value: &&Value| value.is_string() || value.is_number();
    let n = lines.clone().count();
    SESSION.iter().find_map(|pointer| {
        let mut names = HashSet::new();
        let told = lines.clone().filter_map(|line| line.pointer(pointer).filter(is_name));
        let n_told = told.inspect(|name| _ = names.insert(*name)).count();
        (2 * n_told > n && names.len() < n_told).then_some((*pointer, names.len()))
    })
}

/// The values of a file of lines.
#[derive(Default)]
pub(super) struct Lines(Vec<Value>);

impl Session for Lines {
    fn value(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        self.0.push(serde_json::from_slice(bytes)?);
        Ok(())
    }

    fn finish(self: Box<Self>, sink: &mut Sink<'_>) {
        let Some(mapping) = sink.source.mapping else { return };
        let runs = match &mapping.session {
            Some(_) => by_session(mapping, &self.0),
            None => {
                if let Some((pointer, n)) = sessions(self.0.iter()).filter(|(_, n)| *n > 1) {
                    sink.losses.add(&format!(
                        "file of {n} sessions by their {pointer}, read as one run: `session = \"{pointer}\"` in the mapping tells them apart"
                    ));
                }
                vec![(None, self.0.iter().collect())]
            }
        };
        for (session, lines) in runs {
            if let Err(error) = read(mapping, session, &lines, sink) {
                sink.rejects.push((0, format!("{error:#}")));
            }
        }
    }
}

/// The lines of each session, in the order in which these begin; one that names none is of that of the line before.
fn by_session<'v>(mapping: &Mapping, lines: &'v [Value]) -> Vec<(Option<String>, Vec<&'v Value>)> {
    let name = |line| find(&mapping.session, line).map(text);
    let mut runs: Vec<(Option<String>, Vec<&Value>)> = Vec::new();
    let mut known = HashMap::new();
    // What stands before the first name is of the first.
    let mut session = lines.iter().find_map(name);
    for line in lines {
        session = name(line).or(session);
        let at = *known.entry(session.clone()).or_insert(runs.len());
        if at == runs.len() {
            runs.push((session.clone(), Vec::new()));
        }
        runs[at].1.push(line);
    }
    runs
}

fn read(
    mapping: &Mapping,
    session: Option<String>,
    lines: &[&Value],
    sink: &mut Sink<'_>,
) -> anyhow::Result<()> {
    // What is said of the run may stand in any line.
    let tells = |line: &&&Value| find(&mapping.run.task, line).or(find(&mapping.run.model, line)).is_some();
    let about = lines.iter().find(tells).or(lines.first()).copied();
    let mut chat = mapping.chat_of(about.as_slice(), lines.iter().copied(), sink);
    if let (Some(session), Some(chat)) = (session, chat.as_object_mut()) {
        chat.entry("task_id").or_insert_with(|| session.into());
    }
    openai_chat::read(&serde_json::to_vec(&chat)?, sink)
}
