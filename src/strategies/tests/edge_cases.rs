//! The edge cases that every way of writing or picking must bear: ways x inputs x what the model does.
//!
//! Each input has a test. It runs every way under every model, which checks what holds everywhere ([`sound`]), and then
//! looks for what must stand there, worked out by hand.

use super::*;
use crate::models::scripted::Scripted;
use crate::models::{CallError, Card, Finish, Scores, Text, TokenScore};

/// A strategy with its parameters: the newest turns are in the scope, too.
type Way = (&'static str, &'static str);

const WAYS: &[Way] = &[
    ("summary", ""),
    ("summary", "recursive = false"),
    ("codex", ""),
    ("codex-tail", "keep_last = 0"),
    ("hierarchical", "chunk_turns = 2"),
    ("tool-log", ""),
    ("tool-log", "form = 'structured'"),
    ("mask-summary", "keep_last = 0\nsummarise_after = 2"),
    ("anchored", "max_tokens = 40"),
    ("protected-core", "keep_last = 0"),
    ("salience", "keep_last = 0"),
    ("salience", "keep_last = 0\nvariant = 'conservative'"),
    ("salience", "keep_last = 0\nvariant = 'aggressive'"),
    ("salience", "keep_last = 0\nvariant = 'ranked'"),
    ("salience", "keep_last = 0\nvariant = 'top-k'\nk = 2"),
    ("salience", "keep_last = 0\nextract = 'rate'"),
    ("salience", "keep_last = 0\nextract = 'quote'"),
    ("salience", "keep_last = 0\nextract = 'quote-json'"),
    ("salience", "keep_last = 0\nextract = 'prototype'\nembedder = 'scripted'"),
];

/// What the model does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Asked {
    /// There is none.
    Nobody,
    /// It does what it is asked: likes statements that forbid or name a number, quotes what it is shown and one line that
    /// nobody said, and writes two short sentences.
    Willing,
    /// It writes nothing, and cannot score.
    Mute,
    /// It writes until it may no more, and likes all statements the same.
    Wordy,
}

/// What the willing model writes of anything.
const WRITTEN: &str = "They went on with it.";
/// What the willing model quotes, and nobody said.
const INVENTED: &str = "zebras graze quietly behind seventeen lighthouses";
const NOTE: &str = r#"{"title": "went on with it", "facts": ["all as before"]}"#;

fn card() -> Card {
    Card { name: "scripted".to_owned(), identity: "a test".to_owned(), window: 1 << 20 }
}

fn model(asked: Asked) -> Option<Arc<dyn Model>> {
    let likes = |statement: &str| {
        ["must", "not", "No ", "Only", "has to", "不得", "ألا", "nicht"]
            .iter()
            .any(|cue| statement.contains(cue))
            || statement.bytes().any(|b| b.is_ascii_digit())
    };
    let rule = move |call: &Call| -> Option<Outcome> {
        match (asked, call) {
            (Asked::Mute, Call::Score { .. }) => Some(Err(CallError::TooLong { tokens: 9, window: 8 })),
            (_, Call::Score { prompt, continuations }) => {
                let is_liked = asked == Asked::Willing && likes(&prompt.parts[3].text);
                // Of yes and no the first is good, of the digits the last.
                let good = if continuations.len() == 2 { 0 } else { continuations.len() - 1 };
                let bad = continuations.len() - 1 - good;
                let best = if is_liked { good } else { bad };
                let logprob = |i: usize| if i == best { -0.1 } else { -4.0 };
                let score = |i: usize| vec![TokenScore { end: 1, logprob: logprob(i) }];
                let continuations = (0..continuations.len()).map(score).collect();
                Some(Ok(Answer::Scores(Scores {
                    parts: vec![],
                    continuations,
                    prompt_tokens: 9,
                    cut_tokens: 0,
                })))
            }
            (_, Call::Generate { prompt, max_tokens, .. }) => {
                let asks = |words: &str| prompt.parts.last().is_some_and(|part| part.text.contains(words));
                let shown =
                    || prompt.parts[1].text.lines().filter(|line| !line.starts_with("```")).chain([INVENTED]);
                let text = match asked {
                    Asked::Mute => String::new(),
                    Asked::Wordy => "on and ".repeat(*max_tokens as usize / 2),
                    _ if asks("Describe the turn as JSON") => NOTE.to_owned(),
                    _ if asks("Answer with JSON") => {
                        let quote = |line| serde_json::json!({"type": "fact", "quote": line});
                        serde_json::Value::from_iter(shown().map(quote)).to_string()
                    }
                    _ if asks("Copy each exactly") => shown().map(|line| format!("- {line}\n")).collect(),
                    _ => WRITTEN.to_owned(),
                };
                let finish = if asked == Asked::Wordy { Finish::Length } else { Finish::Stop };
                Some(Ok(Answer::Text(Text { text, finish, prompt_tokens: 9, tokens: 9, cut_tokens: 0 })))
            }
            _ => None,
        }
    };
    (asked != Asked::Nobody).then(|| Arc::new(Scripted::rule(card(), rule)) as Arc<dyn Model>)
}

/// Unit vectors of bags of words.
fn embedder() -> Arc<dyn Model> {
    Arc::new(Scripted::rule(card(), |call| {
        let Call::Embed { text } = call else { return None };
        let mut values = vec![0.0_f32; 64];
        values[0] = 1e-3;
        for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            values[blake3::hash(word.to_lowercase().as_bytes()).as_bytes()[0] as usize % 64] += 1.0;
        }
        let length = values.iter().map(|v| v * v).sum::<f32>().sqrt();
        values.iter_mut().for_each(|v| *v /= length);
        Some(Ok(Answer::Vector { values, cut_tokens: 0 }))
    }))
}

/// What an event left.
struct After {
    text: String,
    event: Event,
}

/// All events of a way, held against what is true of every way, input and model.
fn events((name, params): Way, asked: Asked, log: &Log) -> Vec<After> {
    let embedder = params.contains("embedder").then(embedder);
    let run = replayed((name, params), ("turns", "n = 1"), log, model(asked), embedder);
    let text = |event: &Event| event.after.iter().map(|block| block.text(log) + "\n").collect();
    let events: Vec<After> =
        run.events.into_iter().map(|event| After { text: text(&event), event }).collect();
    for after in &events {
        sound((name, params), asked, log, after);
    }
    events
}

/// An event in a few lines, for who reads of a failure.
fn told(way: Way, asked: Asked, after: &After) -> String {
    let text = format!("{way:?} {asked:?} {}\n{:?}", after.text, after.event.work);
    text.chars().take(1500).collect()
}

/// What holds everywhere.
fn sound((name, params): Way, asked: Asked, log: &Log, after: &After) {
    let (event, text) = (&after.event, after.text.as_str());
    let work = &event.work;
    let told = told((name, params), asked, after);
    // A log of calls without a call is a summary, whoever is asked.
    let without_calls = name == "tool-log" && work.warning == Some("no tool calls");
    match event.violations[..] {
        [] => assert!(event.tokens_after <= event.tokens_before, "{told}"),
        ["longer than the original"] if has_form((name, params)) => {
            assert_eq!(event.tokens_after, event.tokens_before, "{told}");
        }
        _ => panic!("{:?} {told}", event.violations),
    }
    match asked {
        Asked::Nobody => {
            assert!(work.calls == 0 && work.degenerate.is_empty(), "{told}");
            assert!(work.fallback.is_none() || name == "salience" || without_calls, "{told}");
        }
        // Whoever asks it is told, and says what stood in.
        Asked::Mute => assert!(work.calls == 0 || work.fallback.is_some(), "{told}"),
        Asked::Willing => assert!(!text.contains(INVENTED), "{told}"),
        Asked::Wordy => {}
    }
    assert!(
        matches!(work.fallback, None | Some("extractive" | "learned" | "rules" | "protected-core")),
        "{told}"
    );
    let is_told = without_calls || !work.degenerate.is_empty();
    assert!(is_told || !matches!(work.fallback, Some("extractive")), "{told}");

    // What is kept is the source's own text, of steps that had been logged.
    let decision = log.turns[event.turn as usize].decision.expect("an event stands before a decision");
    for (at, item) in work.items.iter().enumerate() {
        match (&item.source, item.fate) {
            (Some((step, bytes)), _) => {
                let source = &log.trajectory.steps[*step as usize].text;
                assert_eq!(&source[bytes.start as usize..bytes.end as usize], &*item.text, "{told}");
                assert!(*step < decision, "{told}");
            }
            (None, fate) => {
                assert!(fate == Fate::NotFound && matches!(asked, Asked::Willing | Asked::Wordy), "{told}");
                // A single word is no quotation.
                let is_short = !item.text.contains(' ');
                assert!(asked == Asked::Wordy || is_short || &*item.text == INVENTED, "{told}");
            }
        }
        assert!(item.of.is_none_or(|of| (of as usize) < at), "{told}");
    }
    let kept: Vec<String> = work.items.iter().map(|item| words(&item.text)).collect();
    for quotation in quotations(text) {
        assert!(kept.contains(&quotation), "{quotation} {told}");
    }
    if asked == Asked::Nobody && event.violations.is_empty() {
        let logged = || log.trajectory.steps[..decision as usize].iter();
        for line in copied(name, text) {
            // The end of a line that did not fit.
            let line = line.trim().trim_end_matches('…');
            assert!(logged().any(|step| step.text.contains(line)), "{line} {told}");
        }
    }
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The quoted items of a text.
fn quotations(text: &str) -> Vec<String> {
    let quoted = |line: &str| {
        let line = line.strip_suffix(" (earlier)").or(line.strip_suffix(" (newest)")).unwrap_or(line);
        // What was cut is marked behind its quotation.
        let line = line.strip_suffix(" …").unwrap_or(line);
        Some(words(line.strip_prefix("- “")?.strip_suffix('”')?))
    };
    text.lines().filter_map(quoted).collect()
}

/// The lines of a text without a model that must stand in the log as they are.
fn copied<'a>(name: &str, text: &'a str) -> Vec<&'a str> {
    let body = match name {
        "tool-log" => return Vec::new(),
        "codex" => text.split("your own analysis:\n").last().unwrap_or(text),
        "anchored" => {
            let progress = text.strip_prefix("Progress:\n").unwrap_or("");
            return progress.lines().map_while(|line| line.strip_prefix("- ")).collect();
        }
        "salience" | "protected-core" => text
            .split_once("BACKGROUND SUMMARY\n")
            .or(text.split_once("SUMMARY OF THE REST\n"))
            .map_or("", |(_, rest)| rest.split("CURRENT TASK\n").next().unwrap_or("")),
        _ => text,
    };
    // Sentences that the set says already were cut out of a background line; a masked observation is no copy.
    let is_copy = |line: &&str| {
        !line.starts_with("Next: ")
            && !line.contains("omitted")
            && !["salience", "protected-core"].contains(&name)
    };
    body.lines().filter(is_copy).collect()
}

/// Runs every way under every model, and shows the events and the last of them to a check; tells of all that fail.
fn each(script: &str, check: impl Fn(Way, Asked, &[After], &After)) {
    let log = Log::script(script);
    let mut failed = Vec::new();
    for &way in WAYS {
        for asked in [Asked::Nobody, Asked::Willing, Asked::Mute, Asked::Wordy] {
            let needs_model = ["'rate'", "'quote'", "'quote-json'"].iter().any(|m| way.1.contains(m));
            if needs_model && asked == Asked::Nobody {
                continue;
            }
            let cell = || {
                let events = events(way, asked, &log);
                let last = events.last().expect("something was compressed");
                let is_same =
                    |other: Vec<After>| other.iter().map(|e| &e.text).eq(events.iter().map(|e| &e.text));
                let is_long = script.len() > 100_000;
                assert!(is_long || is_same(self::events(way, asked, &log)), "another run, another text");
                if asked == Asked::Mute && way.0 != "salience" {
                    let free = self::events(way, Asked::Nobody, &log);
                    assert!(is_same(free), "the fallback is not the form without a model");
                }
                check(way, asked, &events, last);
            };
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(cell)).is_err() {
                failed.push((way, asked));
            }
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// Forms with headings and lists of their own may be longer than a short scope, which then stays.
fn has_form(way: Way) -> bool {
    ["codex", "tool-log", "anchored", "hierarchical", "salience", "protected-core"].contains(&way.0)
}

fn is_core(way: Way) -> bool {
    way.0 == "protected-core"
}

fn n_kept(after: &After) -> usize {
    after.event.work.items.iter().filter(|item| item.fate.is_kept()).count()
}

#[test]
fn a_context_of_one_turn() {
    // Nothing stands before the only decision.
    let log = Log::script("user: Please find out why the parser fails on empty lines.\nagent: I look.");
    for &way in WAYS {
        assert!(events(way, Asked::Willing, &log).is_empty(), "{way:?}");
    }
    let script = "user: Please find out why the parser fails on empty lines.
        thought: I look at the parser first, and then at whatever it calls when a line has nothing in it.
        action: cat src/parser.py
        observation: def parse(text):~    return text.splitt()~AttributeError: splitt~it is all that there is of it, and there is nothing more to be seen in here, whatever one may look for in it~so it was, and so it is, and so it will be for as long as there are lines with words in them and people who read them~and then there is the rest of it, of which nobody knows what it was meant for when it was put there
        agent: I see.";
    each(script, |way, asked, events, last| {
        assert_eq!(events.len(), 1, "{way:?}");
        let must_hold: &[&str] = match (way.0, asked) {
            ("tool-log", _) if way.1.is_empty() => &["turn 1: cat src/parser.py -> ok: "],
            ("tool-log", Asked::Willing) => {
                &["turn 1 [read_file] went on with it\n- all as before\n- files read: src/parser.py\n"]
            }
            ("tool-log", _) => &["turn 1 [read_file] cat src/parser.py\n", "- files read: src/parser.py\n"],
            ("mask-summary", _) => &["I look at the parser first", "cat src/parser.py", "omitted"],
            ("anchored", _) => {
                &["\nFiles: src/parser.py\nErrors: AttributeError\nNext: I look at the parser first"]
            }
            ("protected-core", _) => {
                &["ORIGINAL GOAL\nPlease find out why the parser fails on empty lines.\n"]
            }
            ("salience", _) => &["CURRENT TASK\nPlease find out why the parser fails on empty lines.\n"],
            (_, Asked::Willing) => &[WRITTEN],
            _ => &["AttributeError: splitt"],
        };
        // Where codex's words alone are longer than the turn, or most of it is kept, the turn stays.
        let stays = !last.event.violations.is_empty();
        assert!(!stays || ["codex", "salience"].contains(&way.0), "{way:?}");
        for words in must_hold.iter().filter(|_| !stays) {
            assert!(last.text.contains(words), "{way:?} {asked:?}: no {words}\n{}", last.text);
        }
    });
}

#[test]
fn all_noise() {
    let script = "user: Please look after the garden.
        agent: Well well, here we are again, you and I.
        user: Hi! How are you today, did you sleep well?
        agent: Fine. Let me see what there is to see out there.
        user: Thanks! The weather is so nice.
        agent: Bye.";
    each(script, |way, asked, events, last| {
        let told = told(way, asked, last);
        match way.0 {
            // No call, no log: a summary, and that is told.
            "tool-log" => assert_eq!(
                (last.event.work.fallback, last.event.work.warning),
                (Some("extractive"), Some("no tool calls")),
                "{told}"
            ),
            "protected-core" => {
                assert!(last.text.starts_with("ORIGINAL GOAL\nPlease look after the garden.\n"), "{told}");
            }
            "salience" => {
                // The best of an event are kept whatever they are worth.
                let n_best = if way.1.contains("aggressive") { 3 } else { 2 };
                if (way.1.contains("aggressive") || way.1.contains("top-k")) && asked != Asked::Mute {
                    assert!((1..=n_best * events.len() + 1).contains(&n_kept(last)), "{told}");
                }
            }
            _ => {}
        }
    });
}

const LIMITS: [&str; 6] = [
    "The whole move must not cost more than 4000 euros.",
    "No book may be left out in the rain.",
    "Every box must be labelled in red.",
    "Do not touch the shelf of the founder.",
    "It has to be finished by 12 June at the latest.",
    "Only the lift on the north side may be used.",
];

#[test]
fn all_constraints() {
    let [a, b, c, d, e, f] = LIMITS;
    let script = format!(
        "user: Please plan the move of the library.
        agent: Gladly.
        user: {a} {b}
        agent: Yes.
        user: {c}~{d}
        agent: Yes.
        user: {e} {f}
        agent: Yes.
        user: {a}
        agent: Yes."
    );
    each(&script, |way, asked, events, last| {
        let told = told(way, asked, last);
        // What is kept is kept once, however often it was said.
        for limit in LIMITS {
            let kept = |item: &&Item| *item.text == *limit && item.fate == Fate::Kept;
            assert!(last.event.work.items.iter().filter(kept).count() <= 1, "{limit} {told}");
        }
        if way.1.contains("aggressive") {
            assert!((1..=3 * events.len()).contains(&n_kept(last)), "{told}");
        }
        // What the user said, codex leaves as it was said.
        if way.0 == "codex" {
            assert!(LIMITS.iter().all(|limit| last.text.contains(limit)), "{told}");
        }
    });
}

#[test]
fn other_languages() {
    let chinese = "user: 请为图书馆写一份搬迁计划。
        agent: 好的，我先看一下所有的书架和房间，这需要相当长的一段时间，请稍等，我会尽快告诉您结果。
        user: 搬迁费用不得超过4000欧元。天气很好。
        agent: 明白了，我会注意这个限制，并且在计划里写清楚每一个步骤和费用，然后再发给您看一看。
        user: 谢谢
        agent: 不客气";
    let arabic = "user: من فضلك اكتب خطة لنقل المكتبة.
        agent: حسنا، سأنظر أولا إلى جميع الرفوف والغرف، وسيستغرق ذلك وقتا طويلا جدا، من فضلك انتظر قليلا.
        user: يجب ألا تتجاوز التكلفة 4000 يورو. الطقس جميل.
        agent: مفهوم، سأراعي هذا الحد وأكتب في الخطة كل خطوة وكل تكلفة بوضوح ثم أرسلها إليك لتراها.
        user: شكرا
        agent: عفوا";
    let german = "user: Bitte plane den Umzug der Bücherei.
        agent: Gern, ich sehe mir zuerst alle Regale und Räume an, das dauert eine ganze Weile, also bitte Geduld.
        user: Der Umzug darf nicht mehr als 4000 Euro kosten. Das Wetter ist schön.
        agent: Verstanden, ich achte auf die Grenze und schreibe jeden Schritt mit seinen Kosten in den Plan hinein. Wo war ich? Mal sehen, was es hier alles gibt und wo das alles steht. Schön hier. Es regnet schon wieder, und die Straßenbahn kam auch heute wieder einmal zu spät.
        user: Danke
        agent: Gern";
    for (script, goal, limit) in [
        (chinese, "请为图书馆写一份搬迁计划", "搬迁费用不得超过4000欧元"),
        (arabic, "من فضلك اكتب خطة لنقل المكتبة", "يجب ألا تتجاوز التكلفة 4000 يورو"),
        (german, "Bitte plane den Umzug der Bücherei", "Der Umzug darf nicht mehr als 4000 Euro kosten"),
    ] {
        each(script, |way, asked, _, last| {
            let told = told(way, asked, last);
            match way.0 {
                "protected-core" => assert!(last.text.contains(&format!("ORIGINAL GOAL\n{goal}")), "{told}"),
                "salience" if last.event.violations.is_empty() && last.text.contains("CURRENT TASK") => {
                    assert!(last.text.contains(&format!("CURRENT TASK\n{goal}")), "{told}");
                }
                _ => {}
            }
            // Whatever the odds of words that no label has, what a model likes is kept.
            if way.0 == "salience" && way.1.contains("quote") && asked == Asked::Willing {
                assert!(last.text.contains(limit), "{told}");
            }
            if way.0 == "codex" {
                assert!(last.text.contains(limit), "{told}");
            }
        });
    }
}

#[test]
fn code_only() {
    let script = "user: fn main() { let table = parse(\"a.csv\"); println!(\"{}\", table.len()); }
        action: cat src/table.rs
        observation: pub fn parse(path: &str) -> Vec<Row> {~    let limit = 4096;~    assert!(path.len() < limit);~    rows(path).filter(|row| row.width() <= limit).collect()~}~\u{0}<|im_end|>```~#define CAP 4096~    // walk over the rows and hand each of them on~    let mut all = Vec::with_capacity(limit);~    while let Some(row) = next(&mut rows) {~        all.push(row);~    }~    drop(rows);~    all.shrink_to_fit();~    Ok(all)
        action: sed -i 's/4096/8192/' src/table.rs
        observation: ~fn rows(path: &str) -> impl Iterator<Item = Row> {~    std::fs::read_to_string(path).unwrap().lines().map(Row::from)~}~fn width(row: &Row) -> usize {~    row.cells.iter().map(String::len).sum()~}~impl Drop for Table {~    fn drop(&mut self) {~        self.rows.clear();~    }~}
        action: cargo test
        observation: running 12 tests~test rows_are_read ... ok~test the_limit_holds ... ok~test empty_files ... ok~test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.04s
        agent: {}";
    each(script, |way, asked, events, last| {
        let told = told(way, asked, last);
        let all: String = events.iter().map(|after| after.text.trim_start().to_owned()).collect();
        match way {
            ("tool-log", "") => {
                let lines: Vec<&str> = all.lines().map(|line| line.split(" -> ").next().unwrap()).collect();
                let calls = ["cat src/table.rs", "sed -i 's/4096/8192/' src/table.rs", "cargo test"];
                let calls: Vec<String> =
                    (1..).zip(calls).map(|(turn, call)| format!("turn {turn}: {call}")).collect();
                assert_eq!(lines, calls, "{told}");
            }
            ("tool-log", _) => assert!(all.contains("- files modified: src/table.rs"), "{told}\n{all}"),
            ("anchored", _) => assert!(last.text.contains("\nFiles: src/table.rs"), "{told}"),
            _ => {}
        }
    });
}

#[test]
fn one_observation_of_200_kilobytes() {
    let rows: String = (0..2900)
        .map(|i| format!("row {i}: 4711 values at data/part_{}.csv, none missing, all of the kind~", i % 40))
        .collect();
    let line = "x9K/".repeat(50_000);
    for (observation, is_one_line) in [(rows, false), (line, true)] {
        assert!(observation.len() > 190_000, "{}", observation.len());
        let script = format!(
            "user: Please count the rows of all tables.
            action: cat all
            observation: {observation}
            user: The report must not be longer than 2 pages.
            agent: I see.
            user: And?
            agent: Done."
        );
        each(&script, |way, asked, _, last| {
            let told = told(way, asked, last);
            // Budgets are the strategies' own: summaries of 200 to 400 tokens, sets of a few items, 40 tokens a result.
            let most = if way.1.contains("top-k") || way.1.contains("quote") || way.1.contains("conservative")
            {
                6000
            } else {
                1200
            };
            let tokens: u64 = last.event.after.iter().map(|block| u64::from(block.tokens)).sum();
            assert!(tokens <= most && (last.event.violations.is_empty() || has_form(way)), "{tokens} {told}");
            // 96 statements and 8 fixed ones are judged, and two texts written.
            assert!(last.event.work.calls <= 96 + 8 + 2, "{told}");
            if is_one_line {
                assert!(last.text.lines().all(|line| line.len() < 4000), "{told}");
            }
        });
    }
}

#[test]
fn items_that_occur_twice() {
    let script = "user: Please find a flat in Lyon for us.
        agent: Hello! I start to look around right away, and tell you soon what there is to be had in town.
        user: The rent must not exceed 900 euros.~The rent must not exceed 900 euros.
        action: cat offers/lyon.csv
        observation: 14 Rue Merciere, 880 euros, two rooms and a kitchen, near the school, free from June on
        user: The rent must not exceed 900 euros.
        action: cat offers/lyon.csv
        observation: 14 Rue Merciere, 880 euros, two rooms and a kitchen, near the school, free from June on
        user: As I said, the rent must not exceed 900 euros.
        agent: Good.
        user: And?
        agent: Done.";
    each(script, |way, asked, events, last| {
        let told = told(way, asked, last);
        let n = last.text.matches("rent must not exceed 900 euros").count();
        let is_stale = last.event.violations.is_empty();
        match way.0 {
            "protected-core" | "salience" => {
                // By vectors: seven words are alike of seven and ten, 7 / sqrt(70) = 0.84 and under the threshold.
                assert!(n <= 1 + usize::from(way.1.contains("prototype")), "{told}");
                assert!(last.text.matches("14 Rue Merciere").count() <= 1, "{told}");
            }
            // The user's own messages stay, all four; the summary after them says it at most once more.
            "codex" if is_stale => assert!((4..=5).contains(&n), "{told}"),
            "summary" if way.1.is_empty() && asked == Asked::Nobody => {
                assert_eq!(last.text.matches("14 Rue Merciere").count(), 1, "{told}");
            }
            "anchored" if is_stale => {
                assert_eq!(last.text.matches("Files: offers/lyon.csv\n").count(), 1, "{told}")
            }
            // Two calls were made.
            "tool-log" => {
                let n: usize =
                    events.iter().map(|after| after.text.matches("cat offers/lyon.csv").count()).sum();
                assert_eq!(n, if way.1.is_empty() || asked != Asked::Willing { 2 } else { 0 }, "{told}");
            }
            _ => {}
        }
    });
}

#[test]
fn contradicting_constraints() {
    let script = "user: Please have a poster printed for the fair.
        agent: Gladly. I look for printers in town, there are quite a few of them, and some of them are very slow.
        user: The budget for the printed poster must not exceed 500 euros.
        agent: I see. I ask them all for their prices today, and come back to you as soon as they have answered me.
        user: The budget for the printed poster must not exceed 800 euros.
        agent: Good, then there is more to choose from, and I write to the two that were too dear for us before.
        user: So?
        agent: Done.";
    each(script, |way, asked, _, last| {
        let told = told(way, asked, last);
        if way.0 == "codex" {
            assert!(last.text.find("500 euros") < last.text.find("800 euros"), "{told}");
        }
    });
}

#[test]
fn nothing_extracted_is_flagged() {
    let script = "user: Please find a flat in Lyon for us.
        agent: Hello! I start to look around right away and tell you soon. What else should I know about you?
        user: The rent must not exceed 900 euros.
        agent: Noted. I look at the offers now. It is sunny here as well, by the way, how lovely.
        user: How far are you?
        agent: Done.";
    each(script, |way, asked, events, last| {
        let told = told(way, asked, last);
        let uses_model = way.0 == "salience" && !way.1.contains("prototype");
        if asked == Asked::Mute && (uses_model || is_core(way)) {
            let stood_in = if is_core(way) { "learned" } else { "protected-core" };
            assert_eq!(last.event.work.fallback, Some(stood_in), "{told}");
            assert!(last.event.work.degenerate.len() >= 2, "{told}");
        }
        if asked == Asked::Willing && way.1.contains("quote") {
            let items = events.iter().flat_map(|after| &after.event.work.items);
            assert!(items.filter(|item| item.fate == Fate::NotFound).count() >= 1, "{told}");
        }
        if asked == Asked::Wordy && way == ("summary", "") {
            let work = &last.event.work;
            assert_eq!(work.degenerate, [Flaw::Longer; 2], "{told}");
            assert_eq!((work.calls, work.fallback), (2, Some("extractive")), "{told}");
        }
    });
}
