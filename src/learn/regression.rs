//! Logistic regression with a penalty on large weights (L2), by L-BFGS. The same rows give the same weights, on however many threads:
//! sums are made of the sums of chunks, in order.

use std::collections::VecDeque;
use std::ops::Range;

use rayon::prelude::*;

/// Rows in a chunk.
const CHUNK: usize = 2048;
/// Steps that are remembered, and steps at most.
const MEMORY: usize = 10;
const STEPS: usize = 200;
/// The same where rows have pieces: those of reports/hindsight.
const STEPS_OF_PIECES: usize = 50;
/// Under this length of the gradient, a row, it has converged.
const FLAT: f64 = 1e-7;

/// From so many deviations on a number counts no more.
pub const CLIP: f32 = 4.0;

/// Mean and deviation of each number.
pub fn standard<const N: usize>(rows: &[&[f32; N]]) -> (Vec<f32>, Vec<f32>) {
    let n = rows.len().max(1) as f64;
    let mean: Vec<f64> = (0..N).map(|i| rows.iter().map(|row| f64::from(row[i])).sum::<f64>() / n).collect();
    let deviation = |i: usize| {
        let squares = rows.iter().map(|row| (f64::from(row[i]) - mean[i]).powi(2)).sum::<f64>();
        (libm::sqrt(squares / n) + 1e-6) as f32
    };
    let scale = (0..N).map(deviation).collect();
    (mean.into_iter().map(|mean| mean as f32).collect(), scale)
}

/// Numbers as they are weighed, in deviations.
pub fn placed<const N: usize>(rows: &[&[f32; N]], mean: &[f32], scale: &[f32], times: f32) -> Vec<f32> {
    let place = |(i, x): (usize, &f32)| ((x - mean[i]) / scale[i]).clamp(-CLIP, CLIP) * times;
    rows.iter().flat_map(|row| row.iter().enumerate().map(place)).collect()
}

/// What is fitted: rows of as many numbers, and whether each is one of those that are looked for.
pub struct Rows<'a> {
    pub numbers: &'a [f32],
    pub labels: &'a [bool],
    pub pieces: Pieces<'a>,
}

/// Beside its numbers a row may have pieces, each in a bucket. All of a row count the same, together as their root.
#[derive(Default)]
pub struct Pieces<'a> {
    pub buckets: usize,
    pub of_row: Vec<&'a [u16]>,
    /// What a row's one piece would count.
    pub weight: f64,
}

/// Weights of the numbers, then of the buckets, and behind them the intercept, which has no penalty. `strength`: how much a row counts beside the penalty.
pub fn fit(rows: &Rows<'_>, strength: f64) -> Vec<f64> {
    let n = rows.numbers.len() / rows.labels.len().max(1);
    let mut at = vec![0.0; n + rows.pieces.buckets + 1];
    let (mut loss, mut gradient) = rows.loss(&at, strength);
    let mut memory: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    let steps = if rows.pieces.buckets > 0 { STEPS_OF_PIECES } else { STEPS };
    for _ in 0..steps {
        let way = direction(&gradient, &memory);
        let slope = dot(&way, &gradient);
        let steepest = dot(&gradient, &gradient).sqrt();
        if steepest <= FLAT * rows.labels.len() as f64 || slope >= 0.0 {
            break;
        }
        // The whole step first, then halves of it until the loss falls as it should.
        let mut size = if memory.is_empty() { 1.0 / steepest } else { 1.0 };
        let step = loop {
            let to: Vec<f64> = at.iter().zip(&way).map(|(at, way)| at + size * way).collect();
            let (new, flat) = rows.loss(&to, strength);
            if new <= loss + 1e-4 * size * slope {
                break Some((to, new, flat));
            }
            size /= 2.0;
            if size < 1e-12 {
                break None;
            }
        };
        let Some((to, new, flat)) = step else { break };
        let moved = to.iter().zip(&at).map(|(a, b)| a - b).collect();
        let turned = flat.iter().zip(&gradient).map(|(a, b)| a - b).collect();
        memory.push_back((moved, turned));
        if memory.len() > MEMORY {
            memory.pop_front();
        }
        (at, loss, gradient) = (to, new, flat);
    }
    at
}

/// Where to go next: the gradient, turned by what the last steps told of the curve.
fn direction(gradient: &[f64], memory: &VecDeque<(Vec<f64>, Vec<f64>)>) -> Vec<f64> {
    let mut way: Vec<f64> = gradient.iter().map(|g| -g).collect();
    let mut shares = Vec::new();
    for (moved, turned) in memory.iter().rev() {
        let share = dot(moved, &way) / dot(moved, turned).max(1e-300);
        add(&mut way, turned, -share);
        shares.push(share);
    }
    if let Some((moved, turned)) = memory.back() {
        let scale = dot(moved, turned) / dot(turned, turned).max(1e-300);
        way.iter_mut().for_each(|w| *w *= scale);
    }
    for ((moved, turned), share) in memory.iter().zip(shares.iter().rev()) {
        let back = dot(turned, &way) / dot(moved, turned).max(1e-300);
        add(&mut way, moved, share - back);
    }
    way
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn add(to: &mut [f64], what: &[f64], times: f64) {
    to.iter_mut().zip(what).for_each(|(to, what)| *to += times * what);
}

impl Rows<'_> {
    /// The loss at these weights, and its gradient.
    fn loss(&self, at: &[f64], strength: f64) -> (f64, Vec<f64>) {
        let last = at.len() - 1;
        let starts: Vec<usize> = (0..self.labels.len()).step_by(CHUNK).collect();
        let of_chunk = |&start: &usize| self.loss_of(at, start..(start + CHUNK).min(self.labels.len()));
        let chunks: Vec<(f64, Vec<f64>)> = starts.par_iter().map(of_chunk).collect();
        let mut loss = dot(&at[..last], &at[..last]) / 2.0;
        let mut gradient: Vec<f64> = at[..last].iter().copied().chain([0.0]).collect();
        for (of_chunk, turned) in chunks {
            loss += strength * of_chunk;
            add(&mut gradient, &turned, strength);
        }
        (loss, gradient)
    }

    fn loss_of(&self, at: &[f64], rows: Range<usize>) -> (f64, Vec<f64>) {
        let last = at.len() - 1;
        let n = last - self.pieces.buckets;
        let (mut loss, mut gradient) = (0.0, vec![0.0; at.len()]);
        for row in rows {
            let numbers = &self.numbers[row * n..(row + 1) * n];
            let pieces = self.pieces.of_row.get(row).copied().unwrap_or(&[]);
            let weight = self.pieces.weight / libm::sqrt(pieces.len().max(1) as f64);
            let text: f64 = pieces.iter().map(|&piece| at[n + usize::from(piece)]).sum();
            let odds = at[last]
                + numbers.iter().zip(at).map(|(x, w)| f64::from(*x) * w).sum::<f64>()
                + weight * text;
            let signed = if self.labels[row] { odds } else { -odds };
            // ln(1 + e^-x), safe at both ends.
            loss += libm::log1p(libm::exp(-signed.abs())) + (-signed).max(0.0);
            let pull = super::probability(odds) - f64::from(u8::from(self.labels[row]));
            gradient.iter_mut().zip(numbers).for_each(|(g, x)| *g += pull * f64::from(*x));
            pieces.iter().for_each(|&piece| gradient[n + usize::from(piece)] += pull * weight);
            gradient[last] += pull;
        }
        (loss, gradient)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 1 three in four are looked for, of -1 one in four: without a penalty the odds are ln 3 and -ln 3.
    #[test]
    fn odds_are_those_of_the_rows() {
        let numbers: Vec<f32> = [1.0, 1.0, 1.0, 1.0, -1.0, -1.0, -1.0, -1.0].repeat(1000);
        let labels = [true, true, true, false, false, false, false, true].repeat(1000);
        let fitted = fit(&Rows { numbers: &numbers, labels: &labels, pieces: Pieces::default() }, 1.0);
        assert!((fitted[0] - libm::log(3.0)).abs() < 1e-3 && fitted[1].abs() < 1e-6, "{fitted:?}");
        // The penalty draws to 0: at the weight w it is w = C x 8000 x (3/4 - p).
        let drawn = fit(&Rows { numbers: &numbers, labels: &labels, pieces: Pieces::default() }, 1e-3)[0];
        let pull = 1e-3 * 8000.0 * (0.75 - super::super::probability(drawn));
        assert!((drawn - pull).abs() < 1e-4 && drawn < fitted[0], "{drawn}, {pull}");
    }

    #[test]
    fn threads_change_nothing() {
        let numbers: Vec<f32> = (0..30_000).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 1.0).collect();
        let labels: Vec<bool> = (0..10_000).map(|i| (i * 31) % 7 < 3).collect();
        let fit = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| fit(&Rows { numbers: &numbers, labels: &labels, pieces: Pieces::default() }, 0.1))
        };
        assert_eq!(fit(1), fit(3));
        assert!(fit(1).iter().all(|w| w.is_finite()));
    }

    /// A piece that stands in half of the rows tells them apart as a number of 0 and 1 does.
    #[test]
    fn pieces_count_as_numbers_do() {
        let labels = [true, true, true, false, false, false, false, true].repeat(100);
        let numbers: Vec<f32> = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0].repeat(100);
        let by_number = fit(&Rows { numbers: &numbers, labels: &labels, pieces: Pieces::default() }, 1.0);
        let of_row = numbers.iter().map(|x| if *x > 0.0 { &[7][..] } else { &[] }).collect();
        let pieces = Pieces { buckets: 9, of_row, weight: 1.0 };
        let by_piece = fit(&Rows { numbers: &[], labels: &labels, pieces }, 1.0);
        assert_eq!(by_piece.len(), 10);
        assert!((by_piece[7] - by_number[0]).abs() < 1e-6 && (by_piece[9] - by_number[1]).abs() < 1e-6);
        assert!(by_piece[..7].iter().all(|w| *w == 0.0));
    }
}
