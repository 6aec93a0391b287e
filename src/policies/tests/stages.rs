//! Policies of one stage on short scripts: what stands in the last prompt, worked out by hand.

use super::*;

/// The last prompt under a stage that the script is long enough for, where a character is a token.
fn last_prompt(stage: &str, script: &str) -> String {
    let policy = format!(
        "window = 100\nhead = 'system'\ncounter = {{ by = 'chars', per = 1.0 }}\n[[stages]]\n{stage}"
    );
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
