//! Questions answered by likelihood, without generating: choices, yes or no, ratings.
//!
//! Small models cannot be trusted to write an answer in form; what they think of each possible answer can be read
//! off all the same. All questions of a batch should share the beginning of their prompts: it is decoded once.

use super::{Answer, Call, CallError, Model, Prompt};

/// ln P of each label (the sum over its tokens), for each prompt. Not normalised over the labels.
///
/// A label is what would follow the prompt directly: mind the space.
pub fn likelihoods(
    model: &dyn Model,
    prompts: &[Prompt],
    labels: &[&str],
) -> Vec<Result<Vec<f64>, CallError>> {
    let continuations: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
    let calls: Vec<Call> = prompts
        .iter()
        .map(|prompt| Call::Score { prompt: prompt.clone(), continuations: continuations.clone() })
        .collect();
    model
        .answer(&calls)
        .into_iter()
        .map(|outcome| match outcome? {
            Answer::Scores(scores) => Ok(scores
                .continuations
                .iter()
                .map(|tokens| tokens.iter().map(|token| token.logprob).sum())
                .collect()),
            other => Err(CallError::Failed(format!("asked for scores, was given {other:?}"))),
        })
        .collect()
}

/// Probabilities over the labels alone: softmax of their log-likelihoods. Empty if there are none.
pub fn normalise(likelihoods: &[f64]) -> Vec<f64> {
    let top = likelihoods.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let raw: Vec<f64> = likelihoods.iter().map(|l| libm::exp(l - top)).collect();
    let sum: f64 = raw.iter().sum();
    raw.into_iter().map(|x| x / sum).collect()
}

/// Which label each prompt asks for, and its probability among the labels. From each label its mean over fixed `anchors`
/// is taken, so that the answer to one prompt does not depend on the others.
pub fn classify(
    model: &dyn Model,
    prompts: &[Prompt],
    anchors: &[Prompt],
    labels: &[&str],
) -> Vec<Result<(usize, f64), CallError>> {
    let all: Vec<Prompt> = anchors.iter().chain(prompts).cloned().collect();
    let mut told = likelihoods(model, &all, labels);
    let asked = told.split_off(anchors.len());
    let answered: Vec<Vec<f64>> = told.into_iter().flatten().collect();
    let mean = |label: usize| {
        answered.iter().map(|anchor| anchor[label]).sum::<f64>() / answered.len().max(1) as f64
    };
    let means: Vec<f64> = (0..labels.len()).map(mean).collect();
    let choose = |likelihoods: Vec<f64>| {
        let centred: Vec<f64> = likelihoods.iter().zip(&means).map(|(l, mean)| l - mean).collect();
        let shares = normalise(&centred);
        let best =
            largest(&shares).ok_or_else(|| CallError::Failed("asked for none of no labels".to_owned()))?;
        Ok((best, shares[best]))
    };
    asked.into_iter().map(|outcome| choose(outcome?)).collect()
}

/// The index of the largest, of equal ones the first.
pub fn largest(values: &[f64]) -> Option<usize> {
    let mut best: Option<usize> = None;
    for (index, value) in values.iter().enumerate() {
        if best.is_none_or(|best| *value > values[best]) {
            best = Some(index);
        }
    }
    best
}

/// The ten digits, labels of a rating.
pub const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];

/// A rating from 1 to 10: one more than the expected digit. The prompt must end where a digit from 0 to 9 is to
/// follow.
pub fn ratings(model: &dyn Model, prompts: &[Prompt]) -> Vec<Result<f64, CallError>> {
    likelihoods(model, prompts, &DIGITS)
        .into_iter()
        .map(|digits| digits.map(|digits| expected(&digits)))
        .collect()
}

fn expected(digits: &[f64]) -> f64 {
    normalise(digits).iter().enumerate().map(|(digit, p)| (digit + 1) as f64 * p).sum()
}

/// P(first) / (P(first) + P(second)), as for " yes" and " no".
pub fn either(
    model: &dyn Model,
    prompts: &[Prompt],
    first: &str,
    second: &str,
) -> Vec<Result<f64, CallError>> {
    likelihoods(model, prompts, &[first, second])
        .into_iter()
        .map(|pair| pair.map(|pair| normalise(&pair)[0]))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let p = normalise(&[0.25f64.ln(), 0.75f64.ln() - 0.0]);
        assert!((p[0] - 0.25).abs() < 1e-12 && (p[1] - 0.75).abs() < 1e-12);
        // Very unlikely labels still compare.
        let p = normalise(&[-2000.0, -2000.0 + 3f64.ln()]);
        assert!((p[1] - 0.75).abs() < 1e-9);
        // Half 0, half 9: the rating is 5.5.
        let mut digits = [f64::NEG_INFINITY; 10];
        digits[0] = -1.0;
        digits[9] = -1.0;
        assert!((expected(&digits) - 5.5).abs() < 1e-12);
    }

    #[test]
    fn a_class_is_what_stands_out_from_the_anchors() {
        use crate::models::scripted::Scripted;
        use crate::models::{Card, Part, Scores, TokenScore};
        let card = Card { name: "m".to_owned(), identity: "test".to_owned(), window: 99 };
        // Label 0 is likelier everywhere; the second prompt means label 1, the third is refused.
        let model = Scripted::rule(card, |call| {
            let Call::Score { prompt, .. } = call else { return None };
            let logprobs = match prompt.parts[0].text.as_str() {
                "refused" => return Some(Err(CallError::Timeout(1))),
                "second" => [-2.0, -4.0],
                _ => [-1.0, -9.0],
            };
            let continuations = logprobs.map(|logprob| vec![TokenScore { end: 1, logprob }]).to_vec();
            Some(Ok(Answer::Scores(Scores { parts: vec![], continuations, prompt_tokens: 1, cut_tokens: 0 })))
        });
        let prompt = |text: &str| Prompt {
            parts: vec![Part { text: text.to_owned(), ..Part::default() }],
            ..Prompt::default()
        };
        let asked = ["first", "second", "refused"].map(prompt);
        let told = classify(&model, &asked, &[prompt("anchor")], &["a", "b"]);
        assert_eq!(told[0].as_ref().unwrap(), &(0, 0.5));
        let (label, share) = *told[1].as_ref().unwrap();
        assert!(label == 1 && (share - 1.0 / (1.0 + (-6f64).exp())).abs() < 1e-12);
        assert!(told[2].is_err());
        assert!(classify(&model, &[], &[], &["a"]).is_empty());
        assert_eq!(largest(&[]), None);
    }
}
