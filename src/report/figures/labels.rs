//! Places labels beside points so that they cover neither one another nor the data.
//!
//! Each label tries eight directions at growing distances; the cheapest place wins, most crowded
//! points first, and a few rounds let early labels move away from late ones. Deterministic.

use super::canvas::XY;

/// A box; y grows downwards.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rect {
    pub(crate) x0: f64,
    pub(crate) y0: f64,
    pub(crate) x1: f64,
    pub(crate) y1: f64,
}

impl Rect {
    pub(crate) fn around(centre: XY, half_width: f64, half_height: f64) -> Self {
        Rect {
            x0: centre.0 - half_width,
            y0: centre.1 - half_height,
            x1: centre.0 + half_width,
            y1: centre.1 + half_height,
        }
    }

    pub(crate) fn grown(self, by: f64) -> Self {
        Rect { x0: self.x0 - by, y0: self.y0 - by, x1: self.x1 + by, y1: self.y1 + by }
    }

    pub(crate) fn overlap(&self, other: &Rect) -> f64 {
        let width = self.x1.min(other.x1) - self.x0.max(other.x0);
        let height = self.y1.min(other.y1) - self.y0.max(other.y0);
        width.max(0.0) * height.max(0.0)
    }

    pub(crate) fn holds(&self, inner: &Rect) -> bool {
        inner.x0 >= self.x0 && inner.y0 >= self.y0 && inner.x1 <= self.x1 && inner.y1 <= self.y1
    }

    /// Length of the part of a segment that lies inside (Liang and Barsky).
    pub(crate) fn covers(&self, a: XY, b: XY) -> f64 {
        let (dx, dy) = (b.0 - a.0, b.1 - a.1);
        let (mut from, mut to) = (0.0_f64, 1.0_f64);
        for (p, q) in [(-dx, a.0 - self.x0), (dx, self.x1 - a.0), (-dy, a.1 - self.y0), (dy, self.y1 - a.1)] {
            if p == 0.0 {
                if q < 0.0 {
                    return 0.0;
                }
            } else if p < 0.0 {
                from = from.max(q / p);
            } else {
                to = to.min(q / p);
            }
        }
        (to - from).max(0.0) * dx.hypot(dy)
    }
}

/// A line that labels should keep off, and how much it costs to cover a point's length of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Obstacle {
    pub(crate) a: XY,
    pub(crate) b: XY,
    pub(crate) cost: f64,
}

/// A label to place.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Label {
    pub(crate) point: XY,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

/// Where a label went.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Placed {
    pub(crate) rect: Rect,
    /// Thin line from the point, where the label stands off.
    pub(crate) leader: Option<(XY, XY)>,
}

/// Space between boxes.
const GAP: f64 = 0.6;
/// Distances from the edge of the marker.
const RINGS: [f64; 11] = [0.8, 4.0, 8.0, 13.0, 19.0, 27.0, 37.0, 49.0, 63.0, 80.0, 100.0];
/// A price no soft cost comes near.
pub(crate) const FORBIDDEN: f64 = 1e6;

/// Places all labels inside `area`; `markers` are boxes that no label may cover. The second value
/// is what each place costs: from [`FORBIDDEN`] on it covers another label or a marker.
pub(crate) fn place(
    labels: &[Label],
    markers: &[Rect],
    obstacles: &[Obstacle],
    area: Rect,
    marker_radius: f64,
) -> (Vec<Placed>, Vec<f64>) {
    let candidates: Vec<Vec<(Placed, f64)>> = labels
        .iter()
        .map(|label| {
            candidates(label, marker_radius)
                .into_iter()
                .map(|(placed, cost)| (placed, cost + fixed_cost(&placed, label, markers, obstacles, area)))
                .collect()
        })
        .collect();
    let mut order: Vec<usize> = (0..labels.len()).collect();
    let crowd = |i: usize| {
        let near = |other: &&Label| {
            (other.point.0 - labels[i].point.0).hypot(other.point.1 - labels[i].point.1) < 25.0
        };
        labels.iter().filter(near).count()
    };
    order.sort_by_key(|&i| (std::cmp::Reverse(crowd(i)), i));

    let mut chosen: Vec<Option<usize>> = vec![None; labels.len()];
    let mut last_cost = vec![0.0; labels.len()];
    const ROUNDS: usize = 12;
    for _ in 0..ROUNDS {
        let before = chosen.clone();
        for &i in &order {
            let (mut best, mut best_cost) = (0, f64::INFINITY);
            for (c, (placed, cost)) in candidates[i].iter().enumerate() {
                let mut cost = *cost;
                for (j, other) in chosen.iter().enumerate() {
                    if let (true, Some(other)) = (i != j && cost < best_cost, other) {
                        cost += pair_cost(placed, &candidates[j][*other].0);
                    }
                }
                if cost < best_cost {
                    (best, best_cost) = (c, cost);
                }
            }
            chosen[i] = Some(best);
            last_cost[i] = best_cost;
        }
        if chosen == before {
            break;
        }
    }
    let placed = chosen
        .iter()
        .enumerate()
        .map(|(i, c)| candidates[i][c.expect("every round chooses for every label")].0)
        .collect();
    (placed, last_cost)
}

/// Places to try, with what distance and direction cost.
fn candidates(label: &Label, marker_radius: f64) -> Vec<(Placed, f64)> {
    // Right is read most easily, then above and below, then left; the eight in between come last.
    const DIRECTIONS: [(f64, f64, f64); 16] = [
        (1.0, 0.0, 0.0),
        (1.0, -1.0, 0.2),
        (1.0, 1.0, 0.3),
        (0.0, -1.0, 0.4),
        (0.0, 1.0, 0.5),
        (-1.0, 0.0, 0.6),
        (-1.0, -1.0, 0.7),
        (-1.0, 1.0, 0.8),
        (1.0, -0.5, 0.9),
        (1.0, 0.5, 0.9),
        (0.5, -1.0, 0.9),
        (0.5, 1.0, 0.9),
        (-0.5, -1.0, 1.0),
        (-0.5, 1.0, 1.0),
        (-1.0, -0.5, 1.0),
        (-1.0, 0.5, 1.0),
    ];
    let (half_width, half_height) = (label.width / 2.0, label.height / 2.0);
    let mut out = Vec::new();
    for (ring, distance) in RINGS.iter().enumerate() {
        for (dx, dy, cost) in DIRECTIONS {
            // As far from the marker's edge in every direction, measured to the box.
            let diagonal = if dx.abs() == dy.abs() { std::f64::consts::FRAC_1_SQRT_2 } else { 1.0 };
            let reach = (marker_radius + distance) * diagonal;
            let centre =
                (label.point.0 + dx * (reach + half_width), label.point.1 + dy * (reach + half_height));
            let rect = Rect::around(centre, half_width, half_height);
            let leader = (ring > 0).then(|| {
                // From the marker's edge to the nearest point of the box.
                let end = (label.point.0.clamp(rect.x0, rect.x1), label.point.1.clamp(rect.y0, rect.y1));
                let (x, y) = (end.0 - label.point.0, end.1 - label.point.1);
                let start = marker_radius / x.hypot(y).max(marker_radius);
                ((label.point.0 + x * start, label.point.1 + y * start), end)
            });
            out.push((Placed { rect, leader }, cost + 3.0 * ring as f64));
        }
    }
    out
}

fn fixed_cost(placed: &Placed, label: &Label, markers: &[Rect], obstacles: &[Obstacle], area: Rect) -> f64 {
    let mut cost = 0.0;
    if !area.holds(&placed.rect) {
        cost += FORBIDDEN;
    }
    let roomy = placed.rect.grown(GAP);
    for marker in markers {
        if marker.overlap(&roomy) > 0.0 {
            cost += FORBIDDEN;
        }
        let own = Rect::around(label.point, 0.01, 0.01).overlap(marker) > 0.0;
        if let (false, Some((a, b))) = (own, placed.leader) {
            cost += 4.0 * marker.covers(a, b);
        }
    }
    for obstacle in obstacles {
        let covered = roomy.covers(obstacle.a, obstacle.b);
        if covered > 0.0 {
            cost += obstacle.cost * (1.0 + covered);
        }
        // A leader on top of a line reads as part of it.
        if let Some((a, b)) = placed.leader
            && along(a, b, obstacle.a, obstacle.b)
        {
            cost += 10.0 * obstacle.cost;
        }
    }
    cost
}

fn pair_cost(a: &Placed, b: &Placed) -> f64 {
    let mut cost = 0.0;
    if a.rect.grown(GAP).overlap(&b.rect) > 0.0 {
        cost += FORBIDDEN;
    }
    for (leader, rect) in [(a.leader, b.rect), (b.leader, a.rect)] {
        if leader.is_some_and(|(from, to)| rect.grown(GAP).covers(from, to) > 0.0) {
            cost += FORBIDDEN;
        }
    }
    if let (Some((a0, a1)), Some((b0, b1))) = (a.leader, b.leader)
        && cross(a0, a1, b0, b1)
    {
        cost += 20.0;
    }
    cost
}

/// Whether two upright or level segments lie on one another.
fn along(a: XY, b: XY, c: XY, d: XY) -> bool {
    let meet = |a: f64, b: f64, c: f64, d: f64| a.min(b) < c.max(d) && c.min(d) < a.max(b);
    let same = |values: [f64; 4]| values.iter().all(|v| (v - values[0]).abs() < 0.8);
    same([a.1, b.1, c.1, d.1]) && meet(a.0, b.0, c.0, d.0)
        || same([a.0, b.0, c.0, d.0]) && meet(a.1, b.1, c.1, d.1)
}

fn cross(a: XY, b: XY, c: XY, d: XY) -> bool {
    let side = |p: XY, q: XY, r: XY| (q.0 - p.0) * (r.1 - p.1) - (q.1 - p.1) * (r.0 - p.0);
    side(a, b, c) * side(a, b, d) < 0.0 && side(c, d, a) * side(c, d, b) < 0.0
}

#[cfg(test)]
mod tests {
    use super::*;

    const AREA: Rect = Rect { x0: 0.0, y0: 0.0, x1: 200.0, y1: 200.0 };

    #[test]
    fn a_box_knows_how_much_of_a_line_it_covers() {
        let rect = Rect { x0: 0.0, y0: 0.0, x1: 4.0, y1: 3.0 };
        assert_eq!(rect.covers((-1.0, 1.0), (9.0, 1.0)), 4.0);
        assert_eq!(rect.covers((0.0, 0.0), (8.0, 6.0)), 5.0);
        assert_eq!(rect.covers((-1.0, 5.0), (9.0, 5.0)), 0.0);
        assert_eq!(rect.covers((2.0, 1.0), (2.0, 1.0)), 0.0);
    }

    #[test]
    fn a_lone_label_stands_to_the_right() {
        let label = Label { point: (50.0, 50.0), width: 10.0, height: 6.0 };
        let (placed, cost) = place(&[label], &[], &[], AREA, 2.0);
        assert!(cost[0] < FORBIDDEN);
        assert_eq!(placed[0].rect, Rect { x0: 52.8, y0: 47.0, x1: 62.8, y1: 53.0 });
        assert_eq!(placed[0].leader, None);
    }

    #[test]
    fn labels_of_a_heap_of_points_keep_clear_of_each_other() {
        let labels: Vec<Label> = (0..20)
            .map(|i| Label {
                point: (100.0 + f64::from(i % 5) * 7.0, 100.0 + f64::from(i / 5) * 7.0),
                width: 9.0,
                height: 6.0,
            })
            .collect();
        let markers: Vec<Rect> = labels.iter().map(|l| Rect::around(l.point, 2.0, 2.0)).collect();
        let (placed, cost) = place(&labels, &markers, &[], AREA, 2.0);
        assert!(cost.iter().all(|cost| *cost < FORBIDDEN));
        for (i, a) in placed.iter().enumerate() {
            assert!(markers.iter().all(|m| m.overlap(&a.rect) == 0.0));
            assert!(placed[..i].iter().all(|b| b.rect.overlap(&a.rect) == 0.0));
        }
    }

    #[test]
    fn no_room_is_told() {
        let label = Label { point: (5.0, 5.0), width: 300.0, height: 6.0 };
        assert!(place(&[label], &[], &[], AREA, 2.0).1[0] >= FORBIDDEN);
    }
}
