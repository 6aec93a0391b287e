//! The order of names that hold numbers.

use std::cmp::Ordering;

/// Orders text so that `tail=3` stands before `tail=10`, and `0.02` before `0.1`.
pub(crate) fn natural(a: &str, b: &str) -> Ordering {
    /// Words, each with the number behind it.
    fn parts(text: &str) -> Vec<(&str, f64)> {
        let is_digit = |c: char| c.is_ascii_digit();
        let mut parts = Vec::new();
        let mut rest = text;
        while !rest.is_empty() {
            let (word, tail) = rest.split_at(rest.find(is_digit).unwrap_or(rest.len()));
            let digits = |t: &str| t.find(|c| !is_digit(c)).unwrap_or(t.len());
            let mut end = digits(tail);
            if tail[end..].starts_with('.') && digits(&tail[end + 1..]) > 0 {
                end += 1 + digits(&tail[end + 1..]);
            }
            parts.push((word, tail[..end].parse().unwrap_or(0.0)));
            rest = &tail[end..];
        }
        parts
    }
    let (a_parts, b_parts) = (parts(a), parts(b));
    let pairs = a_parts.iter().zip(&b_parts);
    pairs
        .map(|(a, b)| a.0.cmp(b.0).then(a.1.total_cmp(&b.1)))
        .find(|o| o.is_ne())
        .unwrap_or(a_parts.len().cmp(&b_parts.len()))
        .then_with(|| a.cmp(b))
}
