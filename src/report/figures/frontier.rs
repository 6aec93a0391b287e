//! Which points no other beats, and the edge of what they dominate.

use super::canvas::XY;
use super::{FULL, Point};

/// Points that no other beats in both, by growing savings. Controls are no way to run an agent, nor is what costs more than nothing
/// compressed; what keeps nothing that was needed extends no frontier.
pub(super) fn frontier(points: &[Point]) -> Vec<usize> {
    let counts = |p: &Point| p.y > 0.0 && !p.control && !p.costs_more;
    let mut order: Vec<usize> = (0..points.len()).filter(|&i| counts(&points[i])).collect();
    order.sort_by(|&a, &b| points[b].x.total_cmp(&points[a].x).then(points[b].y.total_cmp(&points[a].y)));
    let mut best = f64::NEG_INFINITY;
    order.retain(|&i| {
        let better = points[i].y > best;
        best = best.max(points[i].y);
        better
    });
    order.reverse();
    order
}

/// Whether another choice saves and keeps at least as much, and more of one; or nothing compressed does for less money.
pub(super) fn is_beaten(point: &Point, points: &[Point]) -> bool {
    let is_choice = |p: &Point| !p.control && p.family != FULL;
    let beats =
        |p: &Point| !p.costs_more && p.x >= point.x && p.y >= point.y && (p.x, p.y) != (point.x, point.y);
    let is_worse = || points.iter().any(|p| is_choice(p) && beats(p));
    is_choice(point) && (point.costs_more || is_worse())
}

/// The edge of what the frontier's points dominate, on paper.
pub(super) fn steps(frontier: &[XY]) -> Vec<XY> {
    let mut steps: Vec<XY> = Vec::new();
    for &(x, y) in frontier {
        if let Some(&(before, _)) = steps.last() {
            steps.push((before, y));
        }
        steps.push((x, y));
    }
    steps
}
