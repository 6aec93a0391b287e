//! Tests of `engine`.

use super::*;

#[test]
fn log_likelihood_by_hand() {
    // softmax of (0, ln 3) is (1/4, 3/4).
    let logits = [0.0, 3f32.ln()];
    assert!((logprob(&logits, LlamaToken(0)) - 0.25f64.ln()).abs() < 1e-7);
    assert!((logprob(&logits, LlamaToken(1)) - 0.75f64.ln()).abs() < 1e-7);
    // Large logits do not overflow.
    assert!((logprob(&[1000.0, 1000.0], LlamaToken(0)) + std::f64::consts::LN_2).abs() < 1e-12);
}

#[test]
fn batches_of_written_tokens_by_hand() {
    let active: Vec<bool> = "1110100000001111".chars().map(|c| c == '1').collect();
    let ranges = |rows| -> Vec<(usize, usize)> {
        batches(rows, &active).into_iter().map(|run| (run.start, run.end)).collect()
    };
    assert_eq!(ranges(16), [(0, 1), (1, 2), (2, 3), (4, 5), (12, 16)]);
    assert_eq!(ranges(1), [0, 1, 2, 4, 12, 13, 14, 15].map(|at| (at, at + 1)));
    assert_eq!(batches(7, &[true; 16]), [0..5, 5..10, 10..16]);
    assert!(batches(16, &[false; 16]).is_empty());
}
