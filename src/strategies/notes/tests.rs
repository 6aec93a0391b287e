//! Tests of `notes`.

use super::super::tests::run;
use super::*;

const SHOP: &str = "user: Mend the shop.
        action: cat src/basket.py
        observation: def total(basket): sum of prices with discount
        action: cat src/login.py
        observation: def login(user): check password against ldap server
        action: cat src/search.py
        observation: def find(words): query the catalogue
        user: And now the password of the login?
        agent: I look at the ldap server.";

fn recalled(params: &str, script: &str, trigger: &str) -> Vec<(u32, String)> {
    let log = Log::script(script);
    let run = run(("notes", params), ("turns", trigger), &log);
    for recall in &run.recalls {
        let tokens: u64 = recall.blocks.iter().map(|block| u64::from(block.tokens)).sum();
        assert_eq!(run.decisions[recall.decision as usize].recalled_tokens, tokens);
    }
    let text = |recall: &crate::replay::Recall| {
        recall.blocks.iter().map(|block| block.text(&log)).collect::<Vec<_>>().join("|")
    };
    run.recalls.iter().map(|recall| (recall.decision, text(recall))).collect()
}

#[test]
fn the_note_that_fits_the_question_comes_back() {
    let found = recalled("keep_last = 1\nk = 1", SHOP, "n = 1");
    let (decision, text) = found.last().unwrap();
    assert_eq!(*decision, 3);
    assert!(text.contains("check password against ldap") && text.contains("cat src/login.py"), "{text}");
    assert!(!text.contains("catalogue"), "{text}");
}

/// Both notes fit the question; of the older one the line with the value that holds no more stays away, its other line comes.
#[test]
fn a_line_with_an_old_value_does_not_come_back() {
    let script = "user: Go.
            action: cat a
            observation: the gateway listens on port=8042~the gateway is named after Hansen
            action: cat b
            observation: the gateway listens on port=9000
            user: What is the port of the gateway?
            agent: So.";
    let found = recalled("keep_last = 0\nnovelty = false", script, "n = 1");
    let (_, text) = found.last().unwrap();
    assert!(text.contains("port=9000") && text.contains("named after Hansen"), "{text}");
    assert!(!text.contains("port=8042"), "{text}");
    // While nothing newer is known, it does.
    let older = script.replace("port=9000", "nothing");
    let found = recalled("keep_last = 0\nnovelty = false", &older, "n = 1");
    assert!(found.last().unwrap().1.contains("port=8042"), "{found:?}");
}

#[test]
fn a_question_that_nothing_fits_brings_nothing() {
    let script =
        "user: Go.\nagent: alpha bravo charlie\nuser: delta echo\nagent: foxtrot\nuser: golf hotel\nagent: x";
    assert!(recalled("keep_last = 0", script, "n = 1").is_empty());
    assert!(recalled("keep_last = 1\nrecall_tokens = 0", SHOP, "n = 1").is_empty());
    assert!(recalled("keep_last = 1\nk = 0", SHOP, "n = 1").is_empty());
}

#[test]
fn a_link_brings_what_the_question_does_not_name() {
    // The second note shares words with the first; the question names the second alone.
    let script = "user: Go.
            agent: The green crate of bolts stands in hall seven beside the ramp.
            agent: The green crate of bolts was sold to Hansen beside the ramp.
            agent: Lunch is at noon, soup again.
            user: What of Hansen?
            agent: Sold.";
    let last = |links: u32| {
        let params = format!("keep_last = 0\nlinks = {links}");
        recalled(&params, script, "n = 1").pop().unwrap().1
    };
    assert_eq!(last(0), "The green crate of bolts was sold to Hansen beside the ramp.");
    let text = last(3);
    assert!(text.contains("was sold") && text.contains("hall seven") && !text.contains("soup"), "{text}");
}

#[test]
fn what_the_prompt_says_already_is_no_news() {
    // The first note is word for word what the newest turn says, the second holds more.
    let script = "user: Go.
            agent: The ldap server stands in hall seven.
            agent: The ldap server answers to port=8042 for Hansen.
            agent: Lunch is at noon.
            user: The ldap server stands in hall seven.
            agent: Fine.";
    let first = |novelty: bool| {
        let params = format!("keep_last = 0\nlinks = 0\nk = 1\nnovelty = {novelty}");
        recalled(&params, script, "n = 1").pop().unwrap().1
    };
    assert_eq!(first(false), "The ldap server stands in hall seven.");
    assert_eq!(first(true), "The ldap server answers to port=8042 for Hansen.");
}

/// Tags and lent terms are in no text, and so never new.
#[test]
fn what_is_repeated_word_for_word_does_not_come_back() {
    for who in ["user", "agent"] {
        let script = format!(
            "user: Go.
                agent: Hello.
                {who}: The ldap server stands in hall seven.
                agent: hall seven
                agent: The ldap server stands beside the quarry.
                user: The ldap server stands in hall seven.
                agent: Fine."
        );
        let found = recalled("keep_last = 0\nlinks = 3", &script, "n = 1");
        let text = &found.last().unwrap().1;
        assert!(text.contains("quarry") && !text.contains("hall seven"), "{who}: {text}");
    }
}

/// Five notes say word for word what the question says, and fit it best; the sixth says more, though `k` is one.
#[test]
fn repeated_notes_do_not_hide_the_one_that_says_more() {
    let same = "agent: The ldap server stands in hall seven.\n".repeat(5);
    let script = format!(
        "user: Go.
            agent: The ldap answers on port 8042.
            {same}
            user: The ldap server stands in hall seven.
            agent: Fine."
    );
    let found = recalled("keep_last = 0\nlinks = 0\nk = 1", &script, "n = 1");
    assert_eq!(found.last().unwrap().1, "The ldap answers on port 8042.");
}

#[test]
fn what_a_note_is_known_by_can_be_read() {
    let log = Log::script(SHOP);
    let run = run(("notes", "keep_last = 1"), ("turns", "n = 1"), &log);
    let notes = Notes::new(Params::default());
    let held = notes.held(&log, &run.left[0].2);
    let login = held.iter().find(|held| held.text.contains("ldap")).unwrap();
    assert_eq!(login.details["tags"], json!(["read_file"]));
    let keywords = login.details["keywords"].as_array().unwrap();
    assert!(keywords.len() == 2 && keywords.iter().all(|word| login.text.contains(word.as_str().unwrap())));
    // What came back names its note.
    let details: Vec<&String> =
        run.recalls.iter().flat_map(|recall| recall.details.iter().flatten()).collect();
    assert!(!details.is_empty() && details.iter().all(|text| text.starts_with("{\"note\":")), "{details:?}");
}

#[test]
fn a_note_that_does_not_fit_takes_no_place() {
    let script = "user: Go.
            agent: ldap hansen hall seven port ramp bolts crate green jacket
            agent: hansen bolts jacket
            user: ldap hansen hall seven port ramp bolts crate green jacket ?
            agent: Fine.";
    for novelty in [true, false] {
        for k in [1, 10] {
            let params = format!("keep_last = 0\nlinks = 0\nrecall_tokens = 9\nk = {k}\nnovelty = {novelty}");
            let found = recalled(&params, script, "n = 1");
            match novelty {
                // All of it stands in the question.
                true => assert!(found.is_empty(), "{found:?}"),
                false => assert_eq!(found.last().unwrap().1, "hansen bolts jacket"),
            }
        }
    }
}

/// A model that knows two topics, ships and the rest, by words that share no letters with each other.
fn sailor() -> std::sync::Arc<dyn crate::models::Model> {
    use crate::models::scripted::Scripted;
    use crate::models::{Answer, Call, Card};
    let card = Card { name: "sailor".to_owned(), identity: "test".to_owned(), window: 512 };
    std::sync::Arc::new(Scripted::rule(card, |call| {
        let Call::Embed { text } = call else { return None };
        let is_ship = ["hull", "keel", "vessel"].iter().any(|word| text.contains(word));
        let values = if is_ship { vec![1.0, 0.0] } else { vec![0.0, 1.0] };
        Some(Ok(Answer::Vector { values, cut_tokens: 0 }))
    }))
}

/// The question shares no word with the note on the keel; where vectors count, it comes back all the same, and the two
/// notes on ships are linked, whose words differ.
#[test]
fn vectors_find_and_link_what_words_do_not() {
    let script = "user: Go.
            agent: The hull was painted green.
            agent: Lunch comes at noon.
            agent: Its keel needs new bolts.
            user: which vessel?
            agent: Ours.";
    let log = Log::script(script);
    let replayed = |embedder: &str, links: u32| {
        let params = format!("keep_last = 0\nlinks = {links}\nembedder = \"{embedder}\"");
        let model = (!embedder.is_empty()).then(sailor);
        super::super::tests::replayed(("notes", &params), ("turns", "n = 1"), &log, None, model)
    };
    let last = |run: &crate::replay::Run| -> Vec<String> {
        let recall = run.recalls.iter().find(|recall| recall.decision == 3 && !recall.blocks.is_empty());
        recall.map_or_else(Vec::new, |r| r.blocks.iter().map(|block| block.text(&log)).collect())
    };
    assert!(last(&replayed("", 3)).is_empty());
    let run = replayed("sailor", 3);
    let found = last(&run);
    assert!(
        found.len() == 2 && found.iter().all(|text| text.contains("hull") || text.contains("keel")),
        "{found:?}"
    );
    // A text a note; questions are asked apart.
    let embedded: u32 = run.events.iter().map(|event| event.work.embeddings).sum();
    assert_eq!(embedded, 3);
    let notes = Notes::new(Params { keep_last: 0, ..Params::default() });
    let links = |run: &crate::replay::Run| -> Vec<serde_json::Value> {
        let held = notes.held(&log, &run.left[0].2);
        held.into_iter().map(|held| held.details["links"].clone()).collect()
    };
    assert_eq!(links(&run), [serde_json::json!([2]), serde_json::json!([]), serde_json::json!([0])]);
    assert!(links(&replayed("sailor", 0)).iter().all(|links| *links == serde_json::json!([])));
}

#[test]
fn notes_are_cut_at_lines_and_the_store_is_bounded() {
    let line = "one more line of the long table with value_";
    let table: String = (0..50).map(|i| format!("{line}{i}~")).collect();
    let log = Log::script(&format!("user: go\naction: cat table\nobservation: {table}\nagent: x\nagent: y"));
    let notes = cut(&log, &[1, 2], 40);
    let total: u32 = notes.iter().map(|note| note.tokens).sum();
    assert_eq!(total, log.tokens[1] + log.tokens[2]);
    assert!(notes.len() > 5 && notes.iter().all(|note| note.tokens <= 40));
    assert_eq!(notes[0].parts.len(), 2);
    assert_eq!(cut(&log, &[2], 1).len(), log.spans_of(2).len());
    let found = recalled("keep_last = 0\nmax_notes = 1\nnote_tokens = 40", SHOP, "n = 1");
    assert!(found.iter().all(|(_, text)| text.matches("def ").count() <= 1), "{found:?}");
    // The newest note is the one that is left.
    let script = "user: Go.
            agent: The ldap server stands in hall seven.
            agent: The ldap server belongs to Hansen.
            user: What of the ldap server?
            agent: Fine.";
    let found = recalled("keep_last = 0\nmax_notes = 1", script, "n = 1");
    assert_eq!(found.last().unwrap().1, "The ldap server belongs to Hansen.");
}

#[test]
fn hostile_logs_do_no_harm() {
    for script in [
        "user: \u{0}\u{1}\naction: ~~~\nobservation: \u{0}\nagent: ~\nagent: ",
        "user: a\nagent: b",
        "user: {\"a\": [\naction: {{{{\nobservation: }}}}\naction: \"\nobservation: \\\\\nagent: x",
    ] {
        let script = script.replace("agent: \n", "agent: x\n");
        recalled("keep_last = 0", script.trim_end_matches("\nagent: "), "n = 1");
    }
}
