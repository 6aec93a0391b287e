//! Logistic regression with a penalty on large weights (L2), by L-BFGS. The same rows give the same weights, on however many threads:
//! sums are made of the sums of chunks, in order.

use std::collections::VecDeque;

use rayon::prelude::*;

/// Rows in a chunk.
const CHUNK: usize = 2048;
/// Steps that are remembered, and steps at most.
const MEMORY: usize = 10;
const STEPS: usize = 200;
/// Under this length of the gradient, a row, it has converged.
const FLAT: f64 = 1e-7;

/// What is fitted: rows of as many numbers, and whether each is one of those that are looked for.
pub struct Rows<'a> {
    pub numbers: &'a [f32],
    pub labels: &'a [bool],
}

/// Weights of the numbers, and behind them the intercept, which has no penalty. `strength`: how much a row counts beside the penalty.
pub fn fit(rows: &Rows<'_>, strength: f64) -> Vec<f64> {
    let n = rows.numbers.len() / rows.labels.len().max(1);
    let mut at = vec![0.0; n + 1];
    let (mut loss, mut gradient) = rows.loss(&at, strength);
    let mut memory: VecDeque<(Vec<f64>, Vec<f64>)> = VecDeque::new();
    for _ in 0..STEPS {
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
        let n = at.len() - 1;
        let of_chunk = |(numbers, labels): (&[f32], &[bool])| {
            let (mut loss, mut gradient) = (0.0, vec![0.0; n + 1]);
            for (row, label) in numbers.chunks_exact(n).zip(labels) {
                let odds = at[n] + row.iter().zip(at).map(|(x, w)| f64::from(*x) * w).sum::<f64>();
                let signed = if *label { odds } else { -odds };
                // ln(1 + e^-x), safe at both ends.
                loss += libm::log1p(libm::exp(-signed.abs())) + (-signed).max(0.0);
                let pull = super::probability(odds) - f64::from(u8::from(*label));
                gradient.iter_mut().zip(row).for_each(|(g, x)| *g += pull * f64::from(*x));
                gradient[n] += pull;
            }
            (loss, gradient)
        };
        let chunks = self.numbers.par_chunks(CHUNK * n.max(1)).zip(self.labels.par_chunks(CHUNK));
        let chunks: Vec<(f64, Vec<f64>)> = chunks.map(of_chunk).collect();
        let mut loss = dot(&at[..n], &at[..n]) / 2.0;
        let mut gradient: Vec<f64> = at[..n].iter().copied().chain([0.0]).collect();
        for (of_chunk, turned) in chunks {
            loss += strength * of_chunk;
            add(&mut gradient, &turned, strength);
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
        let fitted = fit(&Rows { numbers: &numbers, labels: &labels }, 1.0);
        assert!((fitted[0] - libm::log(3.0)).abs() < 1e-3 && fitted[1].abs() < 1e-6, "{fitted:?}");
        // The penalty draws to 0: at the weight w it is w = C x 8000 x (3/4 - p).
        let drawn = fit(&Rows { numbers: &numbers, labels: &labels }, 1e-3)[0];
        let pull = 1e-3 * 8000.0 * (0.75 - super::super::probability(drawn));
        assert!((drawn - pull).abs() < 1e-4 && drawn < fitted[0], "{drawn}, {pull}");
    }

    #[test]
    fn threads_change_nothing() {
        let numbers: Vec<f32> = (0..30_000).map(|i| ((i * 7919) % 101) as f32 / 50.0 - 1.0).collect();
        let labels: Vec<bool> = (0..10_000).map(|i| (i * 31) % 7 < 3).collect();
        let fit = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| fit(&Rows { numbers: &numbers, labels: &labels }, 0.1))
        };
        assert_eq!(fit(1), fit(3));
        assert!(fit(1).iter().all(|w| w.is_finite()));
    }
}
