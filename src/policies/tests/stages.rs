//! Policies of one stage on short scripts: what stands in the last prompt, worked out by hand.

use super::*;

/// The last prompt under a stage that the script is long enough for, where a character is a token.
fn last_prompt(stage: &str, script: &str) -> String {
    last_prompt_of("head = 'system'", stage, script)
}

/// The same with these keys of the policy.
fn last_prompt_of(keys: &str, stage: &str, script: &str) -> String {
    let policy =
        format!("window = 100\n{keys}\ncounter = {{ by = 'chars', per = 1.0 }}\n[[stages]]\n{stage}");
    let policy: Policy = toml::from_str(&policy).unwrap();
    let log = Log::script(script);
    let mut seen = Prompts::new(&log);
    let recipe = policy.recipe(1, None).unwrap();
    replay(&log, &recipe, &Tokenizer::load("o200k").unwrap(), &Needs::default(), &mut seen).unwrap();
    shown(seen.prompts.values().last().unwrap()).trim().to_owned()
}

/// The last prompt has messages 0 to 8, of ten characters each.
const NINE: &str = "system: ----------
    user: ----------
    action: ----------
    observation: ----------
    action: ----------
    observation: ----------
    user: ----------
    action: ----------
    observation: ----------
    agent: done";

/// The same, two calls of one reply among them.
const PARALLEL: &str = "system: ----------
    user: ----------
    action#a: ----------
    also#b: ----------
    observation#a: ----------
    observation#b: ----------
    action: ----------
    observation: ----------
    user: ----------
    agent: done";

#[test]
fn calls_count_as_events() {
    let tail = |scope: &str| {
        let trigger = "trigger = { name = 'limits', messages = 9, with_head = true, events = true }";
        let stage =
            format!("{trigger}\nscope = {{ name = 'tail', {scope} }}\nstrategy = {{ name = 'omit' }}");
        last_prompt(&stage, PARALLEL)
    };
    // Four events from the end is a result, whose calls go, and so does it.
    assert_eq!(tail("events = true, messages = 4, from_start = 2, align = ['past-results']"), "0 1 6 7 8");
    // The third event is a call: it stays, with the other of its reply and the results of both.
    assert_eq!(tail("events = true, messages = 1, from_start = 3"), "0 1 2 3 4 5 8");
    // Eight messages are one too few.
    let by_messages = "trigger = { name = 'limits', messages = 9, with_head = true }
        scope = { name = 'tail', turns = 1 }
        strategy = { name = 'omit' }";
    assert_eq!(last_prompt(by_messages, PARALLEL), "0 1 2 3 4 5 6 7 8");
}

#[test]
fn the_system_prompt_and_calls_go_where_a_product_lets_them() {
    let tail = |keys: &str| {
        let scope = "scope = { name = 'tail', messages = 4 }";
        let stage = format!(
            "trigger = {{ name = 'limits', always = true }}\n{scope}\nstrategy = {{ name = 'omit' }}"
        );
        last_prompt_of(keys, &stage, PARALLEL)
    };
    // The fourth message from the end is a result, whose call comes back.
    assert_eq!(tail("head = 'system'"), "0 3 5 6 7 8");
    assert_eq!(tail("head = 'system'\nparts_pairs = true"), "0 5 6 7 8");
    assert_eq!(tail("head = 'none'\nparts_pairs = true"), "5 6 7 8");
}

/// Seven messages are one too many: the call is clipped, and others go. With six it is whole again.
#[test]
fn what_was_clipped_is_whole_again_in_a_short_prompt() {
    let said = |role: &str| serde_json::json!({"role": role, "text": "----------"});
    let call = serde_json::json!({"id": "a", "name": "write", "args": {"text": "x".repeat(40)}});
    let mut messages = vec![
        said("user"),
        serde_json::json!({"role": "assistant", "text": "", "calls": [call]}),
        serde_json::json!({"role": "tool", "text": "ok", "call": "a", "name": "write"}),
    ];
    messages.extend(["assistant", "user"].repeat(3).into_iter().chain(["assistant"]).map(said));
    let list: List = serde_json::from_value(serde_json::json!({"id": "l", "messages": messages})).unwrap();
    let prompts = |anew: bool| {
        let clip = format!(
            "[[stages]]\nanew = {anew}\ntrigger = {{ name = 'limits', messages = 7 }}
            scope = {{ name = 'results', of = 'calls' }}
            strategy = {{ name = 'clip-arguments', longer_than = 10, head = 2, text = '' }}"
        );
        let drop = "[[stages]]\ntrigger = { name = 'limits', messages = 7 }
            scope = { name = 'tail', first = 3, messages = 1 }\nstrategy = { name = 'omit' }";
        let keys = "head = 'system'\ngrows = true\ncounter = { by = 'chars', per = 1.0 }";
        let policy: Policy = toml::from_str(&format!("{keys}\n{clip}\n{drop}")).unwrap();
        policy.check().unwrap();
        let log = list.log(false);
        let mut seen = Prompts::new(&log);
        let recipe = policy.recipe(1, None).unwrap();
        replay(&log, &recipe, &Tokenizer::load("o200k").unwrap(), &Needs::default(), &mut seen).unwrap();
        [7, 9].map(|at| shown(&seen.prompts[&at]).trim().to_owned())
    };
    assert_eq!(prompts(true), ["0 1' 2 6", "0 1 2 6 7 8"]);
    assert_eq!(prompts(false), ["0 1' 2 6", "0 1' 2 6 7 8"]);
}

#[test]
fn what_stays_at_the_start_counts_against_the_tail() {
    let tail = |scope: &str| {
        let trigger = "trigger = { name = 'limits', messages = 8 }";
        let scope = format!(
            "scope = {{ name = 'tail', tokens = 50, fit = 'below', align = ['past-results'], {scope} }}"
        );
        last_prompt(&format!("{trigger}\n{scope}\nstrategy = {{ name = 'omit' }}"), NINE)
    };
    // Less than 50 are 40, which begin with a result; less than 30 are 20.
    assert_eq!(tail("from_start = 2"), "0 1 6 7 8");
    assert_eq!(tail("from_start = 2, with_start = true"), "0 1 7 8");
}

#[test]
fn a_finished_turn_is_looked_at_without_the_next() {
    let script = "system: ----------
        user: ----------
        action: ----------
        observation: ----------
        agent: ----------
        user: ----------
        agent: done";
    let tail = |trigger: &str| {
        let trigger =
            format!("trigger = {{ name = 'limits', after_reply = true, counts = 'reply', {trigger} }}");
        let scope = "scope = { name = 'tail', finished = true, tokens = 10, fit = 'reach' }";
        let stage = format!("{trigger}\n{scope}\nstrategy = {{ name = 'omit' }}");
        (last_prompt(&stage, script), last_prompt(&stage, NINE))
    };
    // Fifty tokens stand up to the reply; in the other log no turn ends with words of the agent.
    assert_eq!(tail("tokens = 50"), ("0 4 5".to_owned(), "0 1 2 3 4 5 6 7 8".to_owned()));
    assert_eq!(tail("tokens = 50, over = true").0, "0 1 2 3 4 5");
}

#[test]
fn a_share_is_taken_again() {
    let share = |again: u32| {
        let scope =
            format!("scope = {{ name = 'share', first = 0.5, until = 0.2, more = 0.0, again = {again} }}");
        last_prompt(
            &format!(
                "trigger = {{ name = 'limits', messages = 8 }}\n{scope}\nstrategy = {{ name = 'omit' }}"
            ),
            NINE,
        )
    };
    // Four of eight, with the result behind them; then one of three; then one of two, with its result.
    assert_eq!([share(0), share(1), share(2)], ["0", "0 7 8", "0"]);
}

#[test]
fn messages_of_the_user_count_as_results() {
    let clear = |scope: &str, users: bool| {
        let trigger = "trigger = { name = 'limits', messages = 8 }";
        let strategy = format!("strategy = {{ name = 'clear', text = '-', users = {users} }}");
        last_prompt(&format!("{trigger}\nscope = {{ name = 'results', {scope} }}\n{strategy}"), NINE)
    };
    assert_eq!(clear("keep = 1, users = true", true), "0 1 2 3' 4 5' 6' 7 8");
    assert_eq!(clear("keep = 2, users = true", false), "0 1 2 3' 4 5' 6 7 8");
    // What came since the last reply is not seen, and so not the newest.
    assert_eq!(clear("keep = 1, finished = true", false), "0 1 2 3' 4 5 6 7 8");
}

#[test]
fn a_window_can_be_a_share_of_the_longest_prompt() {
    let log = Log::script(
        "system: a\nuser: a\naction: a\nobservation: a\naction: a\nobservation: a\naction: a\nobservation: a\nagent: a",
    );
    let prompts = |share: f64| -> Vec<String> {
        let policy = format!(
            "window_share = {share}\nreserve = 50000\nhead = 'system'\ncounter = {{ by = 'tokens' }}
            [[stages]]\ntrigger = {{ name = 'limits', share = 1.0 }}
            scope = {{ name = 'tail', messages = 1 }}\nstrategy = {{ name = 'omit' }}"
        );
        let policy: Policy = toml::from_str(&policy).unwrap();
        let mut seen = Prompts::new(&log);
        let recipe = policy.recipe(1, None).unwrap();
        replay(&log, &recipe, &Tokenizer::load("o200k").unwrap(), &Needs::default(), &mut seen).unwrap();
        seen.prompts.values().map(|parts| shown(parts).trim().to_owned()).collect()
    };
    // The log shows nine tokens. A quarter of the window is kept free, as of 200,000: seven are left, or three.
    assert_eq!(prompts(1.0), ["0 1", "0 1 2 3", "0 1 2 3 4 5", "0 7"]);
    assert_eq!(prompts(0.5), ["0 1", "0 3", "0 5", "0 7"]);
}

#[test]
fn so_many_tokens_are_compressed_at_most() {
    let tail = |most: u32| {
        let scope = format!("scope = {{ name = 'tail', messages = 2, most = {most} }}");
        last_prompt(
            &format!(
                "trigger = {{ name = 'limits', messages = 8 }}\n{scope}\nstrategy = {{ name = 'omit' }}"
            ),
            NINE,
        )
    };
    // The user's ten tokens, and a call with its result of twenty: together or not at all.
    assert_eq!([tail(0), tail(29), tail(30)], ["0 7 8", "0 2 3 4 5 6 7 8", "0 4 5 6 7 8"].map(str::to_owned));
    // What alone is too long stays before what goes.
    let script = NINE.replacen("user: ----------", &format!("user: {}", "-".repeat(50)), 1);
    let stage = "trigger = { name = 'limits', messages = 8 }
        scope = { name = 'tail', messages = 2, most = 30 }
        strategy = { name = 'omit' }";
    assert_eq!(last_prompt(stage, &script), "0 1 4 5 6 7 8");
}

#[test]
fn a_file_that_was_read_again_or_edited_is_stale() {
    let script = "system: s
        user: mend it
        action: cat src/a.py
        observation: one two three four five
        action: cat src/b.py
        observation: one two three four five
        action: cat src/a.py
        observation: one two three four five
        action: sed -i s/a/b/ src/b.py
        observation: one two three four five
        agent: done";
    let stale = |scope: &str| {
        let trigger = "trigger = { name = 'limits', messages = 9 }";
        let strategy = "strategy = { name = 'clear', text = '-' }";
        last_prompt(&format!("{trigger}\nscope = {{ name = 'stale'{scope} }}\n{strategy}"), script)
    };
    assert_eq!(stale(""), "0 1 2 3' 4 5' 6 7 8 9");
    assert_eq!(stale(", edited = false"), "0 1 2 3' 4 5 6 7 8 9");
    assert_eq!(stale(", read = false"), "0 1 2 3 4 5' 6 7 8 9");
    assert_eq!(stale(", keep = 3"), "0 1 2 3' 4 5 6 7 8 9");
    // Two results of 23 characters each.
    assert_eq!(
        [stale(", least = 46"), stale(", least = 47")],
        ["0 1 2 3' 4 5' 6 7 8 9", "0 1 2 3 4 5 6 7 8 9"]
    );
}

#[test]
fn summaries_alone_are_summarised() {
    let policy: Policy = toml::from_str(
        "window = 100\nhead = 'system'\ncounter = { by = 'chars', per = 1.0 }
        [[stages]]
        trigger = { name = 'limits', new = 2 }
        scope = { name = 'tail', beside = true }
        strategy = { name = 'omit', note = '++++' }
        [[stages]]
        trigger = { name = 'limits', left = 8 }
        scope = { name = 'tail', only_left = true }
        strategy = { name = 'omit', note = '+' }",
    )
    .unwrap();
    let script = "system: s\nuser: go\naction: a1234567\nobservation: b1234567\naction: a1234567\nobservation: b1234567\n\
        action: a1234567\nobservation: b1234567\nagent: end";
    let log = Log::script(script);
    let mut texts = Texts { log: &log, prompts: Vec::new() };
    let tokenizer = Tokenizer::load("o200k").unwrap();
    let run =
        replay(&log, &policy.recipe(1, None).unwrap(), &tokenizer, &Needs::default(), &mut texts).unwrap();
    // Two notes of four characters become one of one; then another stands beside it.
    assert_eq!(texts.prompts, ["s go", "s ++++", "s +", "s + ++++"]);
    assert!(run.events.iter().all(|event| event.violations.is_empty()));
}

/// Keeps the text of each prompt.
struct Texts<'a> {
    log: &'a Log,
    prompts: Vec<String>,
}

impl Observer for Texts<'_> {
    fn standing(&mut self, context: &crate::context::Context) {
        let texts: Vec<String> = context.blocks.iter().map(|block| block.text(self.log)).collect();
        self.prompts.push(texts.join(" "));
    }
}

#[test]
fn a_stage_that_does_nothing_gives_up() {
    // The note is longer than what it stands for, until a long result comes.
    let script = "system: s\nuser: go\naction: a\nobservation: b\naction: a\nobservation: b\naction: a\n\
        observation: long long long long long long long long long long\nagent: end";
    let events = |give_up: u32| {
        let policy: Policy = toml::from_str(&format!(
            "window = 100\nhead = 'system'
            [[stages]]
            trigger = {{ name = 'limits', messages = 3 }}
            scope = {{ name = 'results', keep = 0 }}
            strategy = {{ name = 'clear', text = 'a note of some words' }}
            give_up = {give_up}"
        ))
        .unwrap();
        let log = Log::script(script);
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let mut texts = Texts { log: &log, prompts: Vec::new() };
        let recipe = policy.recipe(1, None).unwrap();
        let run = replay(&log, &recipe, &tokenizer, &Needs::default(), &mut texts).unwrap();
        (run.events.len(), texts.prompts.pop().unwrap().contains("note"))
    };
    // What was tried in vain is no event.
    assert_eq!([events(0), events(1), events(3)], [(1, true), (0, false), (1, true)]);
}

#[test]
fn where_too_few_would_go_all_do() {
    let tail = |scope: &str| {
        let scope = format!("scope = {{ name = 'tail', from_start = 9, {scope} }}");
        last_prompt(
            &format!(
                "trigger = {{ name = 'limits', messages = 8 }}\n{scope}\nstrategy = {{ name = 'omit' }}"
            ),
            NINE,
        )
    };
    assert_eq!([tail("or_all = false"), tail("or_all = true")], ["0 1 2 3 4 5 6 7 8", "0"]);
}

#[test]
fn what_is_shorter_than_the_last_summary_stays() {
    let prompts = |scope: &str| {
        let policy: Policy = toml::from_str(&format!(
            "window = 100\nhead = 'system'\ncounter = {{ by = 'chars', per = 1.0 }}
            [[stages]]
            trigger = {{ name = 'limits', always = true }}
            scope = {{ name = 'tail', beside = true{scope} }}
            strategy = {{ name = 'omit', note = 'nn' }}"
        ))
        .unwrap();
        let log = Log::script(
            "system: s\nuser: one two three four\naction: a\nobservation: b\naction: one two three\nobservation: four\nagent: end",
        );
        let mut texts = Texts { log: &log, prompts: Vec::new() };
        let recipe = policy.recipe(1, None).unwrap();
        let tokenizer = Tokenizer::load("o200k").unwrap();
        replay(&log, &recipe, &tokenizer, &Needs::default(), &mut texts).unwrap();
        texts.prompts
    };
    assert_eq!(prompts(""), ["s nn", "s nn nn", "s nn nn nn"]);
    // A call and its result have two characters, as the note has.
    assert_eq!(prompts(", more_than_left = true"), ["s nn", "s nn a b", "s nn nn"]);
}

#[test]
fn all_stages_are_tried_again() {
    let last = |rounds: u32| {
        let policy: Policy = toml::from_str(&format!(
            "window = 100\nhead = 'system'\ncounter = {{ by = 'chars', per = 1.0 }}\nrounds = {rounds}
            [[stages]]
            trigger = {{ name = 'limits', messages = 3 }}
            scope = {{ name = 'prefix', tokens = 1, rest = 1000 }}
            strategy = {{ name = 'omit' }}"
        ))
        .unwrap();
        let log = Log::script(NINE);
        let mut seen = Prompts::new(&log);
        let recipe = policy.recipe(1, None).unwrap();
        replay(&log, &recipe, &Tokenizer::load("o200k").unwrap(), &Needs::default(), &mut seen).unwrap();
        shown(seen.prompts.values().last().unwrap()).trim().to_owned()
    };
    // A message goes, or a call with its result; or as many as it takes until two are left.
    assert_eq!([last(1), last(20)], ["0 6 7 8", "0 7 8"]);
}

/// Notes for files that were read again and the half that goes are one event: they were two.
#[test]
fn cline_makes_one_event_of_notes_and_a_cut() {
    let mut script = String::from("system: s\nuser: go\nagent: yes");
    for file in ["a", "b", "c", "a"] {
        script.push_str(&format!("\naction: cat src/{file}.py\nobservation: {}", "word ".repeat(40)));
    }
    script.push_str("\nagent: done");
    let events = |enough: f64| {
        let mut policy = find("cline-legacy").unwrap().policy.clone();
        policy.counter = Counter { by: crate::context::counter::By::Chars, ..Counter::default() };
        // Five tokens of four characters for the cut: the limit is reached before the last reply alone.
        for (key, value) in [
            ("trigger.below", 1.into()),
            ("trigger.counts", "all".into()),
            ("scope.stale_enough", enough.into()),
        ] {
            policy.set(key, &value).unwrap();
        }
        policy.window = 200;
        let log = Log::script(&script);
        let mut seen = Prompts::new(&log);
        let recipe = policy.recipe(1, None).unwrap();
        let run = replay(&log, &recipe, &Tokenizer::load("o200k").unwrap(), &Needs::default(), &mut seen);
        (run.unwrap().events.len(), shown(seen.prompts.values().last().unwrap()).trim().to_owned())
    };
    // Of eight messages behind the first pair four go, and the first reading, which stays, would have been one of them.
    assert_eq!(events(0.0), (1, "0 1 2 7 8 9 10".to_owned()));
    // A reading of four is a fifth and more of the tokens, and enough.
    assert_eq!(events(0.2), (1, "0 1 2 3 4' 5 6 7 8 9 10".to_owned()));
}

/// A summary that the log has is summarised with the rest, as the product does: it stood in the head, with all before it.
#[test]
fn a_logged_summary_goes_with_the_next() {
    let script = "system: s\nuser: task\naction: a\nobservation: b\nsummary: what was done\naction: c\n\
        observation: one two three four five six seven\naction: d\nobservation: e\nagent: end";
    let last = |head: &str| {
        let policy: Policy = toml::from_str(&format!(
            "window = 100\nhead = '{head}'
            [[stages]]
            trigger = {{ name = 'limits', results = 2 }}
            scope = {{ name = 'tail', messages = 2 }}
            strategy = {{ name = 'omit', note = '+' }}"
        ))
        .unwrap();
        let log = Log::script(script);
        let mut texts = Texts { log: &log, prompts: Vec::new() };
        let recipe = policy.recipe(1, None).unwrap();
        let tokenizer = Tokenizer::load("o200k").unwrap();
        let run = replay(&log, &recipe, &tokenizer, &Needs::default(), &mut texts).unwrap();
        assert!(run.events.iter().all(|event| event.violations.is_empty()));
        texts.prompts.pop().unwrap()
    };
    assert_eq!(last("system"), "s + d e");
    assert_eq!(last("task"), "s task what was done + d e");
}
