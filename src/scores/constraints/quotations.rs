//! Every annotated constraint of the built-in data, copied word for word: it is preserved, whatever stands beside it.

use std::path::Path;

use super::words::without_emphasis;
use super::*;

/// The constraints of a run: (text, category, the message that states it).
type Run = Vec<(String, String, String)>;

/// The constraints of each annotated run in the folder, and below.
fn runs(folder: &Path) -> Vec<Run> {
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        if path.is_dir() {
            all.extend(runs(&path));
        } else if path.extension().is_some_and(|end| end == "jsonl") && !path.ends_with("x") {
            all.extend(std::fs::read_to_string(&path).unwrap().lines().filter_map(run));
        }
    }
    all
}

fn run(line: &str) -> Option<Run> {
    let run: serde_json::Value = serde_json::from_str(line).ok()?;
    let constraints = run["annotations"]["constraints"].as_array()?;
    let of = |constraint: &serde_json::Value| {
        let text = |value: &serde_json::Value| value.as_str().unwrap_or("").to_owned();
        let step = constraint["step"].as_u64().unwrap() as usize;
        (text(&constraint["text"]), text(&constraint["category"]), text(&run["messages"][step]["content"]))
    };
    Some(constraints.iter().map(of).collect())
}

/// Broken into lines as a page is.
fn wrapped(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.chunks(5).map(|chunk| chunk.join(" ")).collect::<Vec<_>>().join("\n")
}

/// How a text quotes the n-th constraint of a run.
const FORMS: [(&str, fn(usize, &str) -> String); 10] = [
    ("plain", |_, text| format!("{text}\n")),
    ("bulleted", |_, text| format!("- {text}\n")),
    ("numbered", |n, text| format!("{}. {text}\n", n + 1)),
    ("quoted", |_, text| format!("- “{text}”\n")),
    ("block quote", |_, text| format!("> {text}\n")),
    ("bold", |_, text| format!("* **{text}**\n")),
    ("italic", |_, text| format!("_{text}_\n")),
    ("table", |n, text| format!("| {n} | {text} |\n")),
    ("wrapped", |_, text| wrapped(text) + "\n"),
    ("told", |n, text| format!("The user said: \"{text}\" ({}).\n", ["earlier", "newest"][n % 2])),
];

/// The outcomes in a context that are not right, each with form and constraint.
struct Wrong {
    n: usize,
    told: Vec<String>,
}

impl Wrong {
    fn look(
        &mut self,
        what: &str,
        constraint: &Constraint,
        text: &str,
        context: &Prepared<'_>,
        beside: &Beside<'_>,
    ) {
        let verdict = outcome(constraint, context, beside);
        self.n += 1;
        if verdict.outcome != Outcome::Preserved {
            self.told.push(format!("{what}: {text:?} is {:?} by {:?}", verdict.outcome, verdict.evidence));
        }
    }
}

/// Alone, among the constraints of its run, one a line and all in one line, and in the sentence that states it.
#[test]
fn every_quotation_is_preserved() {
    let runs = runs(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/datasets")));
    let mut wrong = Wrong { n: 0, told: Vec::new() };
    for run in &runs {
        let messages: Vec<Prepared<'_>> =
            run.iter().map(|(.., message)| Prepared::new([message.as_str()])).collect();
        let log = Runs::of(messages.iter().flat_map(Prepared::words));
        let all: Vec<Constraint> =
            run.iter().map(|(text, category, _)| Constraint::new(text, category)).collect();
        let all: Vec<&Constraint> = all.iter().collect();
        let beside = Beside { log: Some(&log), quoted: &all, in_force: &all };
        for (form, write) in FORMS {
            let each: Vec<String> = run.iter().enumerate().map(|(n, c)| write(n, &c.0)).collect();
            let line = each.iter().map(|text| text.trim_end()).collect::<Vec<_>>().join(" ");
            let (list, line) = (each.concat(), line);
            let (list, line) = (Prepared::new([list.as_str()]), Prepared::new([line.as_str()]));
            for (i, (text, _, message)) in run.iter().enumerate() {
                let sentence = sentences(message).find(|s| s.contains(text.as_str())).unwrap_or(message);
                let stated = write(i, sentence);
                let (alone, stated) = (Prepared::new([each[i].as_str()]), Prepared::new([stated.as_str()]));
                wrong.look(&format!("{form}, without a log"), all[i], text, &alone, &Beside::default());
                for (place, context) in
                    [("alone", &alone), ("list", &list), ("line", &line), ("sentence", &stated)]
                {
                    wrong.look(&format!("{form}, {place}"), all[i], text, context, &beside);
                }
            }
        }
    }
    println!("{} of {} are not preserved", wrong.told.len(), wrong.n);
    assert!(wrong.told.is_empty() && wrong.n > 20_000, "{}\n{}", wrong.n, wrong.told.join("\n"));
}

/// What becomes of each of these constraints, all of them in force, in a text about a log of these messages.
fn among(messages: &[&str], constraints: &[&str], text: &str) -> Vec<Outcome> {
    let log = Prepared::new(messages.iter().copied());
    let log = Runs::of(log.words());
    let all: Vec<Constraint> = constraints.iter().map(|text| Constraint::new(text, "")).collect();
    let all: Vec<&Constraint> = all.iter().collect();
    let beside = Beside { log: Some(&log), quoted: &all, in_force: &all };
    all.iter().map(|constraint| outcome(constraint, &Prepared::new([text]), &beside).outcome).collect()
}

#[test]
fn what_its_writer_changed_is_told_beside_quotations() {
    use Outcome::{Contradicted, Dropped, Mutated, Preserved, Weakened};
    let said = ["The poster must not cost more than $500.", "The hall must not cost more than $900."];
    let log = ["The poster must not cost more than $500. The hall must not cost more than $900.", "Fine!"];
    let of = |text: &str| among(&log, &said, text);
    assert_eq!(of("- The hall must not cost more than $900."), [Dropped, Preserved]);
    // As near to the one as to the other.
    assert_eq!(of("The poster must not cost more than $5000."), [Mutated, Dropped]);
    assert_eq!(
        of(&format!("{} {}", said[0], "The poster must not cost more than $5000.")),
        [Mutated, Dropped]
    );
    assert_eq!(of("Ideally, the poster must not cost more than $500."), [Weakened, Dropped]);
    assert_eq!(of("It is no longer required that the hall must not cost more than $900.")[1], Contradicted);
    // Words of the log around a quotation soften nothing.
    let log = ["What you may use: no more than 20 chairs from the cellar, and at most 3 tables."];
    let both = ["no more than 20 chairs from the cellar", "at most 3 tables"];
    assert_eq!(among(&log, &both, log[0]), [Preserved, Preserved]);
    assert_eq!(among(&log, &both, "Ideally no more than 20 chairs from the cellar.")[0], Weakened);
}

#[test]
fn a_statement_is_about_the_constraint_that_it_is_nearest_to() {
    use Outcome::{Mutated, Paraphrased};
    let said = ["The deadline for the study is 19 July", "The deadline for the study of moss is 28 October"];
    // In other words than the log, and nearer to the second.
    let outcomes = among(&said, &said, "The study of moss has its deadline on 28 October.");
    assert_eq!(outcomes[1], Paraphrased);
    assert_ne!(outcomes[0], Mutated);
}

#[test]
fn the_sentence_that_states_a_constraint_is_a_copy_of_it() {
    let mut constraint = Constraint::new("Budget: 500 dollars at most", "budget");
    let of = |constraint: &Constraint, text: &str| {
        outcome(constraint, &Prepared::new([text]), &Beside::default()).outcome
    };
    let sentence = "I cannot pay more than my savings, which are 500 dollars";
    assert_ne!(of(&constraint, sentence), Outcome::Preserved);
    constraint.stated_in(&Prepared::new([format!("Hello. {sentence}. Is that fine?").as_str()]));
    assert_eq!(of(&constraint, &format!("- “{sentence}.”")), Outcome::Preserved);
    assert_eq!(of(&constraint, "Budget: 500 dollars at most"), Outcome::Preserved);
    assert_eq!(of(&constraint, "Hello."), Outcome::Dropped);
}

#[test]
fn underscores_around_words_are_no_part_of_them() {
    for (text, bare) in [
        ("_never_ run __this__ one", " never  run   this   one"),
        ("keep src/__init__.py and snake_case", "keep src/__init__.py and snake_case"),
        ("_a_b_", " a_b "),
        ("___", "   "),
    ] {
        assert_eq!(without_emphasis(text), bare, "{text}");
    }
}
