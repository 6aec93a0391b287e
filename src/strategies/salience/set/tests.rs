//! Tests of `set`.

use super::*;

fn held(text: &str, kind: ItemKind, step: u32) -> Held {
    Held::new(text.to_owned(), kind, step, 0..text.len() as u32, 0.5)
}

fn texts(set: &Set) -> Vec<&str> {
    set.items.iter().map(|held| held.text.as_str()).collect()
}

#[test]
fn the_one_with_more_values_stays() {
    let (short, long) = (
        "the export server keeps the nightly dumps",
        "the export server keeps the nightly dumps on port 6391",
    );
    for pair in [[short, long], [long, short]] {
        for (keep_shorter, stays) in [(false, long), (true, short)] {
            let mut set = Set::default();
            let new = pair.map(|text| held(text, ItemKind::Fact, 1)).to_vec();
            let gone = set.merge(new, 0.85, keep_shorter);
            assert_eq!(texts(&set), [stays]);
            assert_eq!((gone.len(), gone[0].of), (1, Some(0)));
        }
    }
}

#[test]
fn other_values_and_negations_are_no_duplicates() {
    let mut set = Set::default();
    let budget = |n: &str, step| {
        held(&format!("The budget for the printed poster is ${n}"), ItemKind::Constraint, step)
    };
    assert!(set.merge(vec![budget("500", 1), budget("5000", 7)], 0.85, false).is_empty());
    assert_eq!(set.items[0].conflict, Some(Conflict::Earlier));
    assert_eq!(set.items[1].conflict, Some(Conflict::Newest));
    // Said again: no third entry.
    assert_eq!(set.merge(vec![budget("500", 9)], 0.85, false).len(), 1);
    let mut set = Set::default();
    let new = ["Touch the billing folder for the release", "Do not touch the billing folder for the release"];
    set.merge(new.map(|text| held(text, ItemKind::Constraint, 3)).to_vec(), 0.85, false);
    assert_eq!(set.items.len(), 2);
    assert_eq!(set.items[1].conflict, Some(Conflict::Newest));
}

#[test]
fn chinese_has_words_without_blanks() {
    let mut set = Set::default();
    let merge =
        |set: &mut Set, text: &str, kind, step| set.merge(vec![held(text, kind, step)], 0.85, false).len();
    let of = ItemKind::Constraint;
    assert_eq!(merge(&mut set, "搬迁费用不得超过4000欧元", of, 1), 0);
    assert_eq!(merge(&mut set, "搬迁费用不得超过8000欧元", of, 5), 0);
    let marks = [Some(Conflict::Earlier), Some(Conflict::Newest)];
    assert_eq!([set.items[0].conflict, set.items[1].conflict], marks);
    // A rule about something else contradicts neither.
    assert_eq!(merge(&mut set, "报告不得超过20页", of, 6), 0);
    assert_eq!(set.items[2].conflict, None);
    // The same in nearly the same words is said once, another number twice.
    let of = ItemKind::Fact;
    assert_eq!(merge(&mut set, "图书馆的服务器每天晚上备份到6391号端口", of, 7), 0);
    assert_eq!(merge(&mut set, "图书馆的服务器每天晚上都备份到6391号端口", of, 8), 1);
    assert_eq!(merge(&mut set, "图书馆的服务器每天晚上备份到6392号端口", of, 9), 0);
}

#[test]
fn what_is_said_again_is_the_newest() {
    use Conflict::{Earlier, Newest};
    let mut set = Set::default();
    let budget = |n: &str, step| {
        held(&format!("The budget for the printed poster is ${n}"), ItemKind::Constraint, step)
    };
    let marks = |set: &Set| set.items.iter().map(|held| held.conflict).collect::<Vec<_>>();
    set.merge(vec![budget("500", 1), budget("800", 5)], 0.85, false);
    assert_eq!(marks(&set), [Some(Earlier), Some(Newest)]);
    set.merge(vec![budget("500", 9)], 0.85, false);
    assert_eq!(marks(&set), [Some(Newest), Some(Earlier)]);
    set.merge(vec![budget("650", 12)], 0.85, false);
    assert_eq!(marks(&set), [Some(Earlier), Some(Earlier), Some(Newest)]);
    // It stays where it stood first; of a kind, what was said last goes last.
    assert_eq!((set.items[0].step, set.over(2, |_| 1)), (1, vec![1]));
}

#[test]
fn constraints_of_the_same_words_in_another_order_are_two() {
    for pair in [
        ["Alice must not call Bob", "Bob must not call Alice"],
        ["The logo must be red and not green", "The logo must be green and not red"],
    ] {
        let mut set = Set::default();
        set.merge(pair.map(|text| held(text, ItemKind::Constraint, 1)).to_vec(), 0.85, false);
        assert_eq!(texts(&set), pair);
    }
    let mut set = Set::default();
    let new = ["Bob called Alice at noon", "Alice called Bob at noon"];
    set.merge(new.map(|text| held(text, ItemKind::Fact, 1)).to_vec(), 0.85, false);
    assert_eq!(texts(&set), new[..1]);
}

#[test]
fn limits_of_different_things_are_no_contradiction() {
    let limits = |texts: [&str; 2]| {
        let mut set = Set::default();
        set.merge(texts.map(|text| held(text, ItemKind::Constraint, 1)).to_vec(), 0.85, false);
        set.items.iter().map(|held| held.conflict.is_some()).collect::<Vec<_>>()
    };
    let page = |n: u32, words: u32| format!("Page {n} of the brochure must not exceed {words} words");
    assert_eq!(limits([&page(12, 300), &page(13, 300)]), [false, false]);
    assert_eq!(limits([&page(12, 300), &page(12, 400)]), [true, true]);
}

#[test]
fn a_permission_does_not_say_what_the_ban_says() {
    let mut set = Set::default();
    set.merge(vec![held("Do not email the customers", ItemKind::Constraint, 1)], 0.85, false);
    assert!(set.says("Never email the customers.", 0.85));
    assert!(!set.says("You may email the customers now.", 0.85));
    let lifts = |text: &str| set.is_lifted_by(&held(text, ItemKind::Constraint, 5));
    assert!(lifts("You may email the customers now."));
    assert!(!lifts("Did you email the customers?") && !lifts("You may not email the customers."));
    assert!(!lifts("You may take the bus now."));
}

#[test]
fn later_values_replace_earlier_ones() {
    use ItemKind::{Constraint, Decision, Fact, Goal};
    let said = [
        ("The gateway of the shop listens on port=8042", Fact),
        ("Please move the shop to port=8042", Goal),
        ("The worker must never have retries=9", Constraint),
        ("We decided on retries=9 and timeout=30 for the worker", Decision),
        ("The gateway of the shop was moved and listens on port=9000", Fact),
        ("The log of the worker shows retries=4", Fact),
        ("The gateway of the shop now listens on port=9000", Fact),
    ];
    let mut set = Set::default();
    let mut gone = Vec::new();
    for (step, (text, kind)) in (0..).zip(said) {
        gone.extend(set.merge(vec![held(text, kind, step)], 0.85, false));
        set.replace(&mut gone);
    }
    // A goal is in force or not, a constraint is no fact's to lift, and of a timeout nothing newer is known.
    assert_eq!(texts(&set), [1, 2, 3, 4, 5].map(|at: usize| said[at].0));
    let told: Vec<_> = gone.iter().map(|gone| (gone.held.text.as_str(), gone.fate, gone.of)).collect();
    assert_eq!(told[0], (said[0].0, Fate::Replaced, None));
    assert_eq!((told.len(), told[1].1), (2, Fate::Duplicate), "{told:?}");
    // What binds is replaced by what binds, but no ban by what is no ban; and what is said again is the newest again.
    for (step, (text, left)) in (9..).zip([
        ("must have retries=5", &["never have retries=9", "have retries=5"][..]),
        ("must have retries=6", &["never have retries=9", "have retries=6"]),
        ("must never have retries=9", &["never have retries=9"]),
    ]) {
        set.merge(vec![held(&format!("The worker {text}"), Constraint, step)], 0.85, false);
        set.replace(&mut Vec::new());
        let bound: Vec<&str> =
            texts(&set).into_iter().filter_map(|text| text.split_once("must ")).map(|b| b.1).collect();
        assert_eq!(bound, left);
    }
}

#[test]
fn what_went_as_a_duplicate_says_nothing_anew() {
    let said = [
        "The gateway of the shop listens on port=8042",
        "The gateway was moved, it has port=9000 now",
        "The gateway of the shop now listens on port=9000",
    ];
    let facts = (0..).zip(said).map(|(step, text)| held(text, ItemKind::Fact, step)).collect();
    let mut set = Set::default();
    let mut gone = set.merge(facts, 0.85, false);
    set.replace(&mut gone);
    // The third, which holds all of the first, is one with the second, and nothing else says `shop`.
    assert_eq!((gone.len(), gone[0].fate, gone[0].of), (1, Fate::Duplicate, Some(1)));
    assert_eq!(texts(&set), said[..2]);
}

#[test]
fn what_stood_for_a_duplicate_and_went_stands_for_nothing() {
    let mut set = Set::default();
    let new = [
        "The gateway has port=8042",
        "The gateway has port=8042",
        "The moon is 4 days old",
        "The moon is 4 days old",
        "Now port=9000 is what the gateway has",
    ];
    let mut gone =
        set.merge((0..).zip(new).map(|(step, text)| held(text, ItemKind::Fact, step)).collect(), 0.85, false);
    assert_eq!(gone.iter().map(|gone| gone.of).collect::<Vec<_>>(), [Some(0), Some(1)]);
    set.replace(&mut gone);
    assert_eq!(texts(&set), new[2..].iter().step_by(2).copied().collect::<Vec<_>>());
    let told: Vec<_> = gone.iter().map(|gone| (gone.fate, gone.of)).collect();
    assert_eq!(told, [(Fate::Duplicate, None), (Fate::Duplicate, Some(0)), (Fate::Replaced, None)]);
}

#[test]
fn a_fact_in_other_words_is_the_same_fact() {
    let facts = [
        "The crash at midnight was reported by a customer as T-625 and is still open",
        "duplicates about the crash at midnight were merged into T-625 by the triage team",
        "duplicates about the wrong totals were merged into T-625 by the triage team",
        "duplicates about the crash at midnight were merged into T-511 by the triage team",
    ];
    let mut set = Set::default();
    let gone = set.merge(facts.map(|text| held(text, ItemKind::ToolOutput, 1)).to_vec(), 0.99, false);
    let of: Vec<_> = gone.iter().map(|gone| (gone.held.text.as_str(), gone.of)).collect();
    assert_eq!(of, [(facts[1], Some(0))]);
}

#[test]
fn vectors_decide_where_there_are_some() {
    let with = |text: &str, vector: [f32; 2]| Held {
        vector: Some(vector.to_vec()),
        ..held(text, ItemKind::Decision, 1)
    };
    let mut set = Set::default();
    let new = vec![with("we take the lease", [1.0, 0.0]), with("a lease it shall be", [0.8, 0.6])];
    set.merge(new.clone(), 0.85, false);
    assert_eq!(set.items.len(), 2);
    let mut set = Set::default();
    assert_eq!(set.merge(new, 0.79, false)[0].held.text, "a lease it shall be");
}

#[test]
fn the_cap_gives_up_facts_first_and_of_a_kind_the_oldest() {
    let mut set = Set::default();
    let new = vec![
        held("never rotate the root token", ItemKind::Constraint, 1),
        held("alpha lies in the harbour", ItemKind::Fact, 2),
        held("beta lies in the mountains", ItemKind::Fact, 5),
        held("a lease because holders die", ItemKind::Decision, 3),
    ];
    set.merge(new, 0.85, false);
    assert_eq!(set.over(3, |_| 1), [1]);
    assert_eq!(set.over(2, |_| 1), [1, 2]);
    assert_eq!(set.over(0, |_| 1), [0, 1, 2, 3]);
    assert!(set.over(4, |_| 1).is_empty());
    // A decision that does not fit takes no place from facts, but they do not take its; what is longer than the cap goes alone.
    let long = |held: &Held, of: ItemKind, n: u32| if held.kind == of { n } else { 1 };
    assert_eq!(set.over(3, |held| long(held, ItemKind::Decision, 3)), [1, 2, 3]);
    assert_eq!(set.over(3, |held| long(held, ItemKind::Decision, 4)), [3]);
}

#[test]
fn constraints_that_each_have_a_word_of_their_own_are_two() {
    use Conflict::{Earlier, Newest};
    for (old, new, is_marked) in [
        (
            "The book must be bound in red leather with a gilt edge",
            "The book must be bound in blue leather with a gilt edge",
            false,
        ),
        (
            "You must keep the old customer files on the server",
            "You must delete the old customer files on the server",
            false,
        ),
        (
            "The report must arrive before noon on Monday",
            "The report must arrive before noon on Tuesday",
            true,
        ),
        ("The roof has to be mended within two weeks", "The roof has to be mended within three weeks", true),
    ] {
        let mut set = Set::default();
        set.merge(vec![held(old, ItemKind::Constraint, 1), held(new, ItemKind::Constraint, 5)], 0.85, false);
        assert_eq!(texts(&set), [old, new]);
        let marks: Vec<_> = set.items.iter().map(|held| held.conflict).collect();
        assert_eq!(marks, if is_marked { [Some(Earlier), Some(Newest)] } else { [None, None] });
    }
    // One that says more is the same one, and facts that differ in one of ten words are two.
    let mut set = Set::default();
    let said = |text: &str, of| vec![held(text, of, 1)];
    set.merge(said("The book must be bound in red leather", ItemKind::Constraint), 0.85, false);
    assert_eq!(
        set.merge(said("As agreed the book must be bound in red leather", ItemKind::Constraint), 0.85, false)
            .len(),
        1
    );
    let rest = "field joins orders, customers, invoices, parcels, receipts, drivers, routes";
    let facts = [format!("the slug {rest}"), format!("the code {rest}")];
    for fact in &facts {
        assert!(set.merge(said(fact, ItemKind::Fact), 0.85, false).is_empty());
    }
}

#[test]
fn a_hundred_items_that_differ_stay() {
    let new: Vec<Held> = (0..100)
        .map(|i| Held {
            vector: Some((0..384).map(|d| ((i * 31 + d * 17) % 23) as f32 / 230.0).collect()),
            ..held(&format!("station {i} reports the tide at mark {} of the gauge", i * 7), ItemKind::Fact, i)
        })
        .collect();
    let mut set = Set::default();
    set.merge(new, 0.85, false);
    assert_eq!(set.items.len(), 100);
}
