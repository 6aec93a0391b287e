//! The points in the plot: which are named, and what is drawn of each.

use std::collections::BTreeMap;

use crate::report::figures::canvas::{Anchor, CAP_EM, Canvas, Colour, DESCENT_EM, INK, XY, text_width};
use crate::report::figures::labels::{FORBIDDEN, Label, Obstacle, Placed, Rect, place};

use super::axes::{Axes, draw_axes, intervals, reach};
use super::frontier::{frontier, is_beaten, steps};
use super::key::{Entry, draw_key, families, notes, settings};
use super::marker::{GREY, Style, Styles, draw_marker, draw_reach, look};
use super::{Context, FULL, Figure, LABEL_SIZE, MANY, Point, RADIUS};

/// Of the shares at the ends of series, and of the names of controls.
const SHARE_SIZE: f64 = 5.5;
const CONTROL_SIZE: f64 = 6.0;

/// With more still, only the frontier has labels.
pub(super) const MAX_LABELLED: usize = 40;
/// With more variants than [`MANY`] intervals are this much lighter, and thin.
pub(super) const CROWDED_LIGHTER: f64 = 0.6;

/// Thin lines of the controls.
const SERIES: Colour = Colour(0x99, 0x99, 0x99);

/// The figure, with the names of points at their marks, and numbers where there is no room for them.
pub(super) fn draw(points: &[Point], context: &Context) -> Figure {
    let mut scatter = Scatter::of(points, context);
    let mut obstacles = scatter.obstacles();
    let (labels, placed) = scatter.place_labels(&obstacles);
    let mut canvas = Canvas {
        width: context.width,
        height: 0.0,
        title: "Needs kept against tokens saved, one point a variant".to_owned(),
        marks: Vec::new(),
    };
    draw_axes(&mut canvas, &scatter.axes, &context.tail);
    let leaders: Vec<(XY, XY)> = placed.iter().filter_map(|p| p.leader).collect();
    scatter.draw_lines(&mut canvas, &leaders);
    scatter.draw_markers(&mut canvas);
    for (Placed { rect, .. }, text) in placed.iter().zip(&labels) {
        let descent = if text.is_name { DESCENT_EM * LABEL_SIZE } else { 0.0 };
        canvas.text((rect.x0, rect.y1 - descent), Anchor::Start, LABEL_SIZE, text.ink, &text.text);
    }
    let texts = labels.into_iter().map(|label| label.text);
    let mut labels: Vec<(String, Rect)> = texts.zip(placed.iter().map(|p| p.rect)).collect();
    obstacles.extend(leaders.into_iter().map(|(a, b)| Obstacle { a, b, cost: 3.0 }));
    let called = scatter.draw_controls(&mut canvas, &mut labels, &obstacles);
    scatter.draw_shares(&mut canvas, &mut labels, &obstacles);
    let notes = notes(points, context, scatter.others.len(), !scatter.beaten().is_empty());
    draw_key(&mut canvas, scatter.axes.plot.y1 + 34.0, &scatter.entries(&called), &notes);
    Figure { canvas, labels, markers: scatter.markers }
}

/// The points on paper. Lists of points are lists of their indices.
struct Scatter<'a> {
    points: &'a [Point],
    styles: &'a Styles,
    /// By point: whether another choice saves and keeps at least as much, and more of one.
    is_beaten: Vec<bool>,
    /// By point: whether a number stands for its name.
    is_numbered: Vec<bool>,
    axes: Axes,
    centres: Vec<XY>,
    tiers: Vec<Tier>,
    markers: Vec<Rect>,
    named: Vec<usize>,
    references: Vec<usize>,
    others: Vec<usize>,
    series: Vec<Vec<usize>>,
    /// The edge below the frontier.
    steps: Vec<XY>,
}

impl<'a> Scatter<'a> {
    pub(super) fn of(points: &'a [Point], context: &'a Context) -> Self {
        let plot = Rect { x0: 22.0, y0: 15.0, x1: context.width - 2.0, y1: 15.0 + context.height };
        let axes = Axes::new(points, plot);
        let centres: Vec<XY> = points.iter().map(|p| axes.at(p.x, p.y)).collect();
        let frontier = frontier(points);
        let is_beaten = points.iter().map(|p| is_beaten(p, points)).collect();
        let steps = steps(&frontier.iter().map(|&i| centres[i]).collect::<Vec<_>>());
        let tiers = tiers(points, &frontier);
        let markers =
            centres.iter().zip(&tiers).map(|(&c, t)| Rect::around(c, t.radius(), t.radius())).collect();
        let of = |tier: Tier| (0..points.len()).filter(|&i| tiers[i] == tier).collect::<Vec<usize>>();
        let (named, references, others) = (of(Tier::Named), of(Tier::Reference), of(Tier::Other));
        let series = series(points, &references);
        let styles = &context.styles;
        Scatter {
            points,
            styles,
            is_beaten,
            is_numbered: vec![false; points.len()],
            axes,
            centres,
            tiers,
            markers,
            named,
            references,
            others,
            series,
            steps,
        }
    }

    /// Where labels may stand.
    fn inside(&self) -> Rect {
        let plot = self.axes.plot;
        Rect { x0: plot.x0 + 2.0, y0: plot.y0 + 1.0, x1: plot.x1, y1: plot.y1 - 2.0 }
    }

    /// Those named points that are.
    fn beaten(&self) -> Vec<usize> {
        self.named.iter().copied().filter(|&i| self.is_beaten[i]).collect()
    }

    pub(super) fn style(&self, i: usize) -> Style {
        let own = self.own_style(i);
        if self.is_beaten[i] { own.faded() } else { own }
    }

    fn own_style(&self, i: usize) -> Style {
        look(self.styles, &self.points[i].family, &self.points[i].setting)
    }

    fn places(&self, indices: &[usize]) -> Vec<XY> {
        indices.iter().map(|&i| self.centres[i]).collect()
    }

    pub(super) fn part(&self, indices: &[usize]) -> Vec<Point> {
        indices.iter().map(|&i| self.points[i].clone()).collect()
    }

    /// What stands at points, and where. A name for which there is no room becomes a number, those of beaten points and long ones
    /// first, half of them at a time: each makes room for others.
    fn place_labels(&mut self, obstacles: &[Obstacle]) -> (Vec<Text>, Vec<Placed>) {
        loop {
            let (labels, boxes): (Vec<Text>, Vec<Label>) = self.labels().into_iter().unzip();
            let (placed, costs) = place(&boxes, &self.markers, obstacles, self.inside(), RADIUS);
            let mut without: Vec<usize> =
                (0..labels.len()).filter(|&k| labels[k].is_name && costs[k] >= FORBIDDEN).collect();
            without.sort_by(|&a, &b| {
                let beaten = |k: usize| self.is_beaten[labels[k].point];
                beaten(b).cmp(&beaten(a)).then(boxes[b].width.total_cmp(&boxes[a].width))
            });
            if without.is_empty() {
                return (labels, placed);
            }
            without[..without.len().div_ceil(2)]
                .iter()
                .for_each(|&k| self.is_numbered[labels[k].point] = true);
        }
    }

    /// Points of which a number stands for the name, in the order of the key.
    fn numbered(&self) -> Vec<usize> {
        self.named.iter().copied().filter(|&i| self.is_numbered[i]).collect()
    }

    /// What stands at points, and its size.
    fn labels(&self) -> Vec<(Text, Label)> {
        let label = |point: usize, text: String, is_name: bool, is_faded: bool| {
            let height = (CAP_EM + if is_name { DESCENT_EM } else { 0.0 }) * LABEL_SIZE;
            let size = Label { point: self.centres[point], width: text_width(&text, LABEL_SIZE), height };
            (Text { point, text, ink: if is_faded { GREY } else { INK }, is_name }, size)
        };
        let names = self.named.iter().filter(|&&i| !self.is_numbered[i]);
        let names = names.map(|&i| label(i, self.points[i].label.clone(), true, self.is_beaten[i]));
        // Numbers of points that coincide stand together.
        let numbered = self.numbered();
        let groups = coinciding(&self.places(&numbered));
        let number = |group: &Vec<usize>| {
            let is_faded = group.iter().all(|&k| self.is_beaten[numbered[k]]);
            label(numbered[group[0]], numbers(group), false, is_faded)
        };
        names.chain(groups.iter().map(number)).collect()
    }

    /// Lines that labels keep off, the more the higher the cost.
    fn obstacles(&self) -> Vec<Obstacle> {
        let mut obstacles: Vec<Obstacle> =
            self.steps.windows(2).map(|s| Obstacle { a: s[0], b: s[1], cost: 3.0 }).collect();
        let mut keep_off = |a, b, cost| obstacles.push(Obstacle { a, b, cost });
        for (i, point) in self.points.iter().enumerate() {
            let tier = self.tiers[i];
            let cost = if tier == Tier::Named { 1.5 } else { 0.4 };
            let is_crossed = tier != Tier::Other && !self.is_beaten[i];
            for (a, b) in intervals(point, &self.axes).into_iter().filter(|_| is_crossed) {
                keep_off(a, b, cost);
            }
            if let (true, Tier::Named, Some((low, high))) =
                (is_crossed, tier, reach(point, &self.axes, self.centres[i]))
            {
                keep_off(low, high, 0.3);
            }
        }
        for pair in self.series.iter().flat_map(|s| s.windows(2)) {
            keep_off(self.centres[pair[0]], self.centres[pair[1]], 0.8);
        }
        obstacles
    }

    /// All that lies below the markers.
    fn draw_lines(&self, canvas: &mut Canvas, leaders: &[(XY, XY)]) {
        for &i in self.named.iter().filter(|&&i| !self.is_beaten[i]) {
            if let Some((low, high)) = reach(&self.points[i], &self.axes, self.centres[i]) {
                draw_reach(canvas, low, high);
            }
        }
        for &i in &self.others {
            draw_marker(canvas, self.centres[i], self.tiers[i].radius(), self.style(i));
        }
        // Of hundreds of variants the intervals of those without a number would bury all else.
        let crowded = self.named.len() > MANY;
        if !crowded {
            canvas.line(&self.steps, 0.8, GREY);
        }
        for &i in self.references.iter().chain(&self.named).filter(|&&i| !self.is_beaten[i]) {
            let (width, colour) = match self.tiers[i] {
                Tier::Named => (0.7, self.style(i).colour),
                _ => (0.35, SERIES),
            };
            let (width, colour) =
                if crowded { (0.6 * width, colour.lighter(CROWDED_LIGHTER)) } else { (width, colour) };
            for (a, b) in intervals(&self.points[i], &self.axes) {
                canvas.line(&[a, b], width, colour);
            }
        }
        if crowded {
            canvas.line(&self.steps, 0.8, GREY);
        }
        for one in &self.series {
            canvas.line(&self.places(one), 0.45, SERIES);
        }
        for &(from, to) in leaders {
            canvas.line(&[from, to], 0.35, GREY);
        }
    }

    fn draw_markers(&self, canvas: &mut Canvas) {
        for &i in self.references.iter().chain(&self.named) {
            draw_marker(canvas, self.centres[i], self.tiers[i].radius(), self.style(i));
        }
        // Of markers that coincide the later ones lie small on the first, so that all are seen.
        let first_named: Vec<usize> = self.named.iter().chain(&self.references).copied().collect();
        for group in coinciding(&self.places(&first_named)) {
            for (depth, &k) in group.iter().enumerate().filter(|_| group.len() > 1) {
                let i = first_named[k];
                let radius = self.tiers[i].radius() * NESTED.powi(depth.min(2) as i32);
                draw_marker(canvas, self.centres[i], radius, self.style(i));
            }
        }
    }

    /// The names of controls at their marks, where there is room; says which families have them.
    fn draw_controls(
        &self,
        canvas: &mut Canvas,
        labels: &mut Vec<(String, Rect)>,
        obstacles: &[Obstacle],
    ) -> Vec<String> {
        let mut called = Vec::new();
        for one in &self.series {
            let point = &self.points[one[0]];
            let text = if one.len() == 1 { point.label.as_str() } else { point.family.as_str() };
            let place = |&i: &usize| {
                share_box(
                    self.centres[i],
                    text,
                    &self.markers,
                    labels,
                    obstacles,
                    self.inside(),
                    CONTROL_SIZE,
                )
            };
            // A curve is called at its middle, its ends say its settings.
            let mut order = one.clone();
            order.sort_by_key(|i| (one.iter().position(|j| j == i).unwrap_or(0)).abs_diff(one.len() / 2));
            let Some(rect) = order.iter().find_map(place) else { continue };
            canvas.text((rect.x0, rect.y1), Anchor::Start, CONTROL_SIZE, GREY, text);
            labels.push((text.to_owned(), rect));
            called.push(point.family.clone());
        }
        called
    }

    /// The shares of controls, at the ends of each series.
    fn draw_shares(&self, canvas: &mut Canvas, labels: &mut Vec<(String, Rect)>, obstacles: &[Obstacle]) {
        let mut told: Vec<(&str, XY)> = Vec::new();
        for &i in self.series.iter().filter(|s| s.len() > 1).flat_map(|s| [&s[0], &s[s.len() - 1]]) {
            let Some(share) = setting(&self.points[i].label) else {
                continue;
            };
            let centre = self.centres[i];
            // One text does for neighbours.
            let near = |at: XY| (at.0 - centre.0).hypot(at.1 - centre.1) < 2.0 * RADIUS;
            if told.iter().any(|&(text, at)| text == share && near(at)) {
                continue;
            }
            if let Some(rect) =
                share_box(centre, share, &self.markers, labels, obstacles, self.inside(), SHARE_SIZE)
            {
                canvas.text((rect.x0, rect.y1), Anchor::Start, SHARE_SIZE, GREY, share);
                labels.push((share.to_owned(), rect));
                told.push((share, centre));
            }
        }
    }

    /// The lines of the key, without what is called at its points.
    fn entries(&self, called: &[String]) -> Vec<Entry> {
        let mut entries = self.numbers();
        let is_named = |family: &Entry| self.named.iter().any(|&i| self.points[i].family == family.text);
        let others = families(&self.part(&self.others), self.styles);
        entries.extend(others.into_iter().filter(|f| !is_named(f)));
        let mut references = self.part(&self.references);
        references.retain(|point| !called.contains(&point.family));
        entries.extend(
            families(&references, self.styles)
                .into_iter()
                .map(|family| Entry { text: settings(&family.text, &references), ..family }),
        );
        entries
    }

    /// The points by number; a strategy under several triggers is one line.
    fn numbers(&self) -> Vec<Entry> {
        let numbered = self.numbered();
        let point = |k: &usize| &self.points[numbered[*k]];
        let base = |k: &usize| point(k).label.split(" @").next().unwrap_or_default();
        let of = |k: &usize| (&point(k).family, base(k));
        let all: Vec<usize> = (0..numbered.len()).collect();
        let shown = |group: &[usize]| Entry {
            style: self.own_style(numbered[group[0]]),
            number: numbers(group),
            text: group.iter().skip(1).fold(point(&group[0]).label.clone(), |text, k| {
                format!("{text},{}", &point(k).label[base(k).len()..])
            }),
        };
        all.chunk_by(|a, b| of(a) == of(b)).map(shown).collect()
    }
}

/// What stands at a point: its name, or a number, which may stand for others in the same place.
struct Text {
    point: usize,
    text: String,
    ink: Colour,
    is_name: bool,
}

/// Size of a marker that lies on another, as a share of its own.
const NESTED: f64 = 0.55;

/// Markers nearer than so many radii hide one another.
const NEAR: f64 = 1.4;

/// Indices of points by place: each group lies near its first.
pub(super) fn coinciding(centres: &[XY]) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (k, centre) in centres.iter().enumerate() {
        let near = |first: usize| {
            let (x, y) = centres[first];
            (centre.0 - x).hypot(centre.1 - y) < NEAR * RADIUS
        };
        match groups.iter_mut().find(|g| near(g[0])) {
            Some(group) => group.push(k),
            None => groups.push(vec![k]),
        }
    }
    groups
}

/// `2,5-9` for the indices 1, 4, 5, 6, 7, 8: numbers count from 1.
pub(super) fn numbers(indices: &[usize]) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &i in indices {
        match runs.last_mut() {
            Some((_, end)) if *end + 1 == i => *end = i,
            _ => runs.push((i, i)),
        }
    }
    let run = |&(start, end): &(usize, usize)| match end - start {
        0 => (start + 1).to_string(),
        1 => format!("{},{}", start + 1, end + 1),
        _ => format!("{}-{}", start + 1, end + 1),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

/// `0.02` of `random(kept_share=0.02) @ tokens`.
fn setting(label: &str) -> Option<&str> {
    let (_, value) = label.split_once('(')?.1.split_once(')')?.0.split_once('=')?;
    (!value.contains(',')).then_some(value)
}

/// Where the share of a control stands beside its marker, if it fits there.
fn share_box(
    centre: XY,
    text: &str,
    markers: &[Rect],
    labels: &[(String, Rect)],
    obstacles: &[Obstacle],
    inside: Rect,
    size: f64,
) -> Option<Rect> {
    /// Points of length of thin lines that it may lie on, weighted with their cost.
    const BEARABLE: f64 = 2.5;
    let (half_width, half_height) = (text_width(text, size) / 2.0, CAP_EM * size / 2.0);
    let reach = Tier::Reference.radius() * 1.3 + 0.8;
    let directions = [
        (1.0, 0.0),
        (-1.0, 0.0),
        (0.0, -1.0),
        (0.0, 1.0),
        (0.8, -0.8),
        (0.8, 0.8),
        (-0.8, -0.8),
        (-0.8, 0.8),
    ];
    let boxes = directions.map(|(dx, dy): (f64, f64)| {
        let beside = |d: f64, half: f64| d * reach + d.signum() * f64::from(u8::from(d != 0.0)) * half;
        let at = (centre.0 + beside(dx, half_width), centre.1 + beside(dy, half_height));
        Rect::around(at, half_width, half_height)
    });
    let is_free = |rect: &&Rect| {
        let roomy = rect.grown(0.5);
        inside.holds(rect)
            && markers.iter().all(|m| m.overlap(&roomy) == 0.0)
            && labels.iter().all(|(_, l)| l.overlap(&roomy) == 0.0)
    };
    let cost = |rect: &Rect| obstacles.iter().map(|o| o.cost * rect.grown(0.3).covers(o.a, o.b)).sum::<f64>();
    let (rect, cost) =
        boxes.iter().filter(is_free).map(|rect| (*rect, cost(rect))).min_by(|a, b| a.1.total_cmp(&b.1))?;
    (cost <= BEARABLE).then_some(rect)
}

/// How a point is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tier {
    /// With a name or number, its interval, floor and ceiling.
    Named,
    /// A control: small; at several budgets joined by a line.
    Reference,
    /// One of too many: small, alone.
    Other,
}

impl Tier {
    fn radius(self) -> f64 {
        match self {
            Tier::Named => RADIUS,
            Tier::Reference => 0.75 * RADIUS,
            Tier::Other => 0.6 * RADIUS,
        }
    }
}

/// Controls are for reference; of the rest all are named if they are few, the frontier alone if they are many.
fn tiers(points: &[Point], frontier: &[usize]) -> Vec<Tier> {
    let is_reference = |p: &Point| p.control && p.family != FULL;
    let all = points.iter().filter(|p| !is_reference(p)).count() <= MAX_LABELLED;
    let tier = |(i, point): (usize, &Point)| match point {
        p if is_reference(p) => Tier::Reference,
        p if all || p.family == FULL || frontier.contains(&i) => Tier::Named,
        _ => Tier::Other,
    };
    points.iter().enumerate().map(tier).collect()
}

/// Points of one family under one trigger, by savings. Of equal savings the larger setting, which labels put last, comes
/// first: where all that can be kept is kept, the end is the largest share.
pub(super) fn series(points: &[Point], references: &[usize]) -> Vec<Vec<usize>> {
    let mut series: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for &i in references {
        let trigger = points[i].label.rsplit_once(" @").map_or("", |(_, trigger)| trigger);
        series.entry((&points[i].family, trigger)).or_default().push(i);
    }
    for one in series.values_mut() {
        one.sort_by(|&a, &b| points[a].x.total_cmp(&points[b].x).then(b.cmp(&a)));
    }
    series.into_values().collect()
}
