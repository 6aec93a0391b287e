//! The weights of [`super::rules`], as fitted: a constant and one weight a feature, for user, agent and tool.
//!
//! The constants are raised, by 0.2 for the user and 1.2 for the agent, so that one threshold does for all: what an agent
//! decides is rare, and where it is cued, it is nearly always salient.

use super::candidates::Source;
use super::rules::Feature;

const N: usize = Feature::ALL.len();

/// Constant and weights, in the order of the features.
pub(super) fn of(source: Source) -> &'static (f64, [f64; N]) {
    match source {
        Source::User => &USER,
        Source::Agent => &AGENT,
        Source::Tool => &TOOL,
    }
}

const USER: (f64, [f64; N]) = (
    -2.24,
    [
        -1.09, // Short
        0.09,  // Medium
        0.00,  // Long
        0.52,  // Prose
        -2.07, // Question
        0.30,  // Code
        0.00,  // List
        0.96,  // Value
        0.04,  // Values
        0.56,  // Specific
        0.05,  // Number
        0.83,  // Date
        0.42,  // Money
        1.62,  // Obligation
        1.06,  // Bound
        1.58,  // Prohibition
        0.99,  // Negation
        0.88,  // Request
        0.87,  // Decision
        0.48,  // Reason
        0.18,  // Change
        -0.40, // Stale
        -1.48, // Chatter
        -0.51, // Narration
        0.29,  // Failure
        0.47,  // Finding
        -0.52, // Hedge
        0.04,  // Bulk
        -0.02, // Repeated
        1.55,  // Used
        0.26,  // OnGoal
    ],
);
const AGENT: (f64, [f64; N]) = (
    -3.18,
    [
        -1.02, // Short
        -0.03, // Medium
        0.35,  // Long
        0.29,  // Prose
        -1.51, // Question
        0.00,  // Code
        3.07,  // List
        0.98,  // Value
        0.07,  // Values
        0.53,  // Specific
        0.18,  // Number
        -0.02, // Date
        -0.01, // Money
        0.27,  // Obligation
        0.30,  // Bound
        0.38,  // Prohibition
        0.33,  // Negation
        -0.03, // Request
        1.99,  // Decision
        1.87,  // Reason
        0.17,  // Change
        0.01,  // Stale
        -0.97, // Chatter
        -1.24, // Narration
        0.30,  // Failure
        1.19,  // Finding
        -0.73, // Hedge
        -0.01, // Bulk
        -0.02, // Repeated
        0.00,  // Used
        0.31,  // OnGoal
    ],
);
const TOOL: (f64, [f64; N]) = (
    -5.73,
    [
        -0.54, // Short
        0.04,  // Medium
        0.00,  // Long
        1.96,  // Prose
        -1.00, // Question
        -0.32, // Code
        0.00,  // List
        2.14,  // Value
        -0.30, // Values
        1.33,  // Specific
        0.00,  // Number
        0.34,  // Date
        0.35,  // Money
        0.77,  // Obligation
        0.30,  // Bound
        0.59,  // Prohibition
        -0.57, // Negation
        0.00,  // Request
        0.04,  // Decision
        0.17,  // Reason
        0.03,  // Change
        -0.43, // Stale
        -0.50, // Chatter
        0.00,  // Narration
        0.79,  // Failure
        0.66,  // Finding
        -0.42, // Hedge
        -0.85, // Bulk
        0.40,  // Repeated
        2.02,  // Used
        0.52,  // OnGoal
    ],
);

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::Value;

    use super::super::candidates::Candidate;
    use super::super::rules::{Around, Features, features};
    use super::*;
    use crate::text::sentences::statements;

    /// A statement of an annotated run: its features, and whether it is salient.
    struct Example {
        source: Source,
        features: Features,
        is_salient: bool,
        words: usize,
        text: String,
    }

    struct Run {
        repository: String,
        examples: Vec<Example>,
    }

    fn folded(text: &str) -> String {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        words.map(str::to_lowercase).collect::<Vec<_>>().join(" ")
    }

    /// The statements between one compression point and the next, as an event sees them. What says a salient span
    /// again in other words is left out: it is neither.
    fn run(line: &str) -> Run {
        let value: Value = serde_json::from_str(line).unwrap();
        let known = &value["annotations"];
        let messages = value["messages"].as_array().unwrap();
        let text = |at: usize| messages[at]["content"].as_str().unwrap_or("");
        let number = |v: &Value| v.as_u64().unwrap() as usize;
        let list = |v: &Value| v.as_array().cloned().unwrap_or_default();
        let place = |v: &Value| (number(&v["step"]), number(&v["start"])..number(&v["end"]));
        let salient: Vec<String> = list(&known["salient"])
            .iter()
            .map(|s| {
                let (step, bytes) = place(s);
                folded(&text(step)[bytes])
            })
            .collect();
        let again: Vec<_> = list(&known["near_duplicates"]).iter().map(place).collect();
        let mut points: Vec<usize> = list(&known["compression_points"]).iter().map(number).collect();
        points.push(messages.len() - 1);
        let first = messages.iter().position(|m| m["role"] == "assistant").unwrap();
        let mut examples = Vec::new();
        let mut from = first;
        for point in points {
            let mut candidates = Vec::new();
            for at in from..=point {
                let source = match messages[at]["role"].as_str().unwrap() {
                    "user" => Source::User,
                    "assistant" => Source::Agent,
                    "tool" => Source::Tool,
                    _ => continue,
                };
                for range in statements(text(at), source != Source::Tool) {
                    let bytes = range.start as u32..range.end as u32;
                    candidates.push(Candidate { step: at as u32, bytes, text: &text(at)[range], source });
                }
            }
            let mut goal = known["goal"].as_str().unwrap_or("").to_owned();
            for change in list(&known["goal_changes"]) {
                if number(&change["step"]) <= point {
                    goal = change["text"].as_str().unwrap_or("").to_owned();
                }
            }
            let agent: Vec<(u32, String)> = (from..=point)
                .filter(|&at| messages[at]["role"] == "assistant")
                .map(|at| (at as u32, format!("{} {}", text(at), messages[at]["tool_calls"])))
                .collect();
            let around = Around::new(&goal, agent.iter().map(|(at, text)| (*at, text.as_str())));
            for (candidate, features) in candidates.iter().zip(features(&candidates, &around)) {
                let said = format!(" {} ", folded(candidate.text));
                let within = |s: &String| {
                    let s = format!(" {s} ");
                    s.contains(&said) && said.trim().contains(' ')
                        || said.contains(&s) && 2 * s.len() >= said.len()
                };
                let is_salient = salient.iter().any(within);
                let (start, end) = (candidate.bytes.start as usize, candidate.bytes.end as usize);
                let overlaps = |(step, bytes): &(usize, std::ops::Range<usize>)| {
                    *step == candidate.step as usize && bytes.start < end && start < bytes.end
                };
                if is_salient || !again.iter().any(overlaps) {
                    let words = candidate.text.split_whitespace().count();
                    let (source, text) = (candidate.source, candidate.text.to_owned());
                    examples.push(Example { source, features, is_salient, words, text });
                }
            }
            from = point + 1;
        }
        Run { repository: value["repository"].as_str().unwrap_or("").to_owned(), examples }
    }

    fn runs(files: &[&str]) -> Vec<Run> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("datasets/golden");
        let read = |file: &&str| fs::read_to_string(folder.join(file)).unwrap();
        files.iter().map(read).flat_map(|text| text.lines().map(run).collect::<Vec<_>>()).collect()
    }

    // What was thought before anything was measured, from reading the talks and logs.
    const PRIOR_USER: (f64, [f64; N]) = (
        -1.50,
        [
            -1.00, // Short
            0.00,  // Medium
            0.00,  // Long
            0.30,  // Prose
            -2.00, // Question
            0.30,  // Code
            0.00,  // List
            1.20,  // Value
            0.00,  // Values
            0.80,  // Specific
            0.30,  // Number
            0.80,  // Date
            0.50,  // Money
            1.50,  // Obligation
            1.20,  // Bound
            1.50,  // Prohibition
            1.00,  // Negation
            0.80,  // Request
            0.80,  // Decision
            0.70,  // Reason
            0.20,  // Change
            -0.50, // Stale
            -1.50, // Chatter
            -0.50, // Narration
            0.30,  // Failure
            0.30,  // Finding
            -0.50, // Hedge
            0.00,  // Bulk
            0.00,  // Repeated
            1.50,  // Used
            0.30,  // OnGoal
        ],
    );
    const PRIOR_AGENT: (f64, [f64; N]) = (
        -3.00,
        [
            -1.00, // Short
            0.00,  // Medium
            0.30,  // Long
            0.30,  // Prose
            -1.50, // Question
            0.00,  // Code
            3.00,  // List
            1.00,  // Value
            0.00,  // Values
            0.60,  // Specific
            0.20,  // Number
            0.00,  // Date
            0.00,  // Money
            0.30,  // Obligation
            0.30,  // Bound
            0.40,  // Prohibition
            0.30,  // Negation
            0.00,  // Request
            1.80,  // Decision
            1.80,  // Reason
            0.20,  // Change
            0.00,  // Stale
            -1.00, // Chatter
            -1.20, // Narration
            0.30,  // Failure
            1.20,  // Finding
            -0.70, // Hedge
            0.00,  // Bulk
            0.00,  // Repeated
            0.00,  // Used
            0.30,  // OnGoal
        ],
    );
    const PRIOR_TOOL: (f64, [f64; N]) = (
        -3.50,
        [
            -0.50, // Short
            0.00,  // Medium
            0.00,  // Long
            1.50,  // Prose
            -1.00, // Question
            -0.30, // Code
            0.00,  // List
            2.00,  // Value
            -0.30, // Values
            1.00,  // Specific
            0.00,  // Number
            0.30,  // Date
            0.30,  // Money
            0.80,  // Obligation
            0.30,  // Bound
            0.60,  // Prohibition
            -0.40, // Negation
            0.00,  // Request
            0.00,  // Decision
            0.00,  // Reason
            0.00,  // Change
            -0.50, // Stale
            -0.50, // Chatter
            0.00,  // Narration
            0.80,  // Failure
            0.60,  // Finding
            -0.50, // Hedge
            -1.00, // Bulk
            0.20,  // Repeated
            2.00,  // Used
            0.50,  // OnGoal
        ],
    );

    fn prior(source: Source) -> &'static (f64, [f64; N]) {
        match source {
            Source::User => &PRIOR_USER,
            Source::Agent => &PRIOR_AGENT,
            Source::Tool => &PRIOR_TOOL,
        }
    }

    /// Logistic regression by gradient descent, drawn towards the prior, whose signs it keeps; the constant is free.
    fn fit(examples: &[&Example]) -> (f64, [f64; N]) {
        let (prior_constant, prior) = *prior(examples[0].source);
        let (mut constant, mut weights) = (prior_constant, prior);
        let n = examples.len() as f64;
        let active: Vec<Vec<usize>> = examples
            .iter()
            .map(|e| Feature::ALL.iter().filter(|&&f| e.features.has(f)).map(|&f| f as usize).collect())
            .collect();
        for _ in 0..6000 {
            let (mut slope, mut slopes) = (0.0, [0.0; N]);
            for (example, active) in examples.iter().zip(&active) {
                let sum: f64 = constant + active.iter().map(|&f| weights[f]).sum::<f64>();
                let error = 1.0 / (1.0 + libm::exp(-sum)) - f64::from(u8::from(example.is_salient));
                let error = if example.is_salient { BALANCE * error } else { error };
                slope += error;
                for &f in active {
                    slopes[f] += error;
                }
            }
            constant -= 0.7 * slope / n;
            for f in 0..N {
                let weight = weights[f] - 0.7 * (slopes[f] / n + STRENGTH * (weights[f] - prior[f]));
                // What a cue says for or against, it goes on to say.
                weights[f] = if weight * prior[f] < 0.0 { 0.0 } else { weight };
            }
        }
        (constant, weights)
    }

    fn score(example: &Example, (constant, weights): &(f64, [f64; N])) -> f64 {
        let sum: f64 =
            Feature::ALL.iter().filter(|&&f| example.features.has(f)).map(|&f| weights[f as usize]).sum();
        1.0 / (1.0 + libm::exp(-(constant + sum)))
    }

    /// How much more a salient statement counts.
    const BALANCE: f64 = 2.0;
    /// How strongly weights are drawn to the prior.
    const STRENGTH: f64 = 0.05;

    const GENERATED: [&str; 4] = ["coding.jsonl", "research.jsonl", "support.jsonl", "design.jsonl"];
    const SOURCES: [Source; 3] = [Source::User, Source::Agent, Source::Tool];

    /// The runs of every other repository, and those of the others.
    fn halves() -> (Vec<Run>, Vec<Run>) {
        let runs = runs(&GENERATED);
        let mut names: Vec<String> = runs.iter().map(|run| run.repository.clone()).collect();
        names.sort();
        names.dedup();
        runs.into_iter().partition(|run| names.binary_search(&run.repository).unwrap() % 2 == 0)
    }

    /// Prints the weights, and how they do on the other half and on the talks written by hand.
    ///
    /// cargo test --release --lib fitted -- --ignored --nocapture
    #[test]
    #[ignore = "prints the weights; run it when the features change"]
    fn the_weights_are_fitted_anew() {
        let (tuned, held_out) = halves();
        let by_hand = runs(&["by_hand/by_hand.jsonl"]);
        let mut fitted = Vec::new();
        for source in SOURCES {
            let examples: Vec<&Example> =
                tuned.iter().flat_map(|run| &run.examples).filter(|e| e.source == source).collect();
            let weights = fit(&examples);
            println!("{source:?}: {} statements", examples.len());
            println!("{:.2}", weights.0);
            for f in Feature::ALL {
                let n = examples.iter().filter(|e| e.features.has(*f)).count();
                println!("    {:.2}, // {} (n={n})", weights.1[*f as usize], f.name());
            }
            fitted.push(weights);
        }
        for (what, fitted) in [("prior", SOURCES.map(|s| *prior(s)).to_vec()), ("fitted", fitted)] {
            println!("== {what}");
            for (name, runs) in [("tuned", &tuned), ("held out", &held_out), ("by hand", &by_hand)] {
                for source in [None, Some(0), Some(1), Some(2)] {
                    let examples: Vec<&Example> = runs
                        .iter()
                        .flat_map(|run| &run.examples)
                        .filter(|e| source.is_none_or(|s| SOURCES[s] == e.source))
                        .collect();
                    for threshold in [0.2, 0.3, 0.4, 0.5, 0.6] {
                        let at = |e: &Example| SOURCES.iter().position(|s| *s == e.source).unwrap();
                        let kept = |e: &&&Example| score(e, &fitted[at(e)]) >= threshold;
                        let words = |e: &&Example| e.words;
                        let hit: usize =
                            examples.iter().filter(kept).filter(|e| e.is_salient).map(words).sum();
                        let all: usize = examples.iter().filter(kept).map(words).sum();
                        let n_hit = examples.iter().filter(kept).filter(|e| e.is_salient).count();
                        let n_salient = examples.iter().filter(|e| e.is_salient).count();
                        println!(
                            "{name} {source:?} at {threshold}: precision {:.3} of {all} words, recall {:.3} of {n_salient}",
                            hit as f64 / all as f64,
                            n_hit as f64 / n_salient as f64,
                        );
                    }
                }
                let mut wrong: Vec<(f64, &Example)> = runs
                    .iter()
                    .flat_map(|run| &run.examples)
                    .map(|e| (score(e, &fitted[SOURCES.iter().position(|s| *s == e.source).unwrap()]), e))
                    .filter(|(p, e)| (*p >= 0.5) != e.is_salient)
                    .collect();
                wrong.sort_by(|a, b| (b.0 - 0.5).abs().total_cmp(&(a.0 - 0.5).abs()));
                for (p, e) in wrong.iter().step_by((wrong.len() / 100).max(1)) {
                    println!(
                        "  {p:.2} {:?} {} {}",
                        e.source,
                        e.is_salient,
                        e.text.chars().take(150).collect::<String>()
                    );
                }
            }
        }
    }
}
