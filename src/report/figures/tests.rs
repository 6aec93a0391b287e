//! Tests of `figures`.

use super::*;
use crate::report::figures::canvas::Mark;

use super::axes::Axes;
use super::frontier::{frontier, steps};
use super::key::settings;
use super::marker::COLOURS;
use super::scatter::{CROWDED_LIGHTER, MAX_LABELLED, coinciding, numbers, series};

/// The figure for a column.
fn retention_savings(points: &[Point], undrawn: Undrawn, tail: &str, population: &str) -> Figure {
    headline(points, &Styles::new(), undrawn, (tail, population), false)
}

fn point(label: &str, family: &str, x: f64, y: f64) -> Point {
    Point {
        label: label.to_owned(),
        family: family.to_owned(),
        setting: label.split(" @ ").next().unwrap().to_owned(),
        control: ["full", "oracle", "random", "atom-bag", "drop-all"].contains(&family),
        costs_more: false,
        x,
        x_interval: Some((x - 0.03, x + 0.03)),
        y,
        y_interval: Some((y - 0.04, (y + 0.04).min(1.0))),
        floor: Some(y * 0.7),
        ceiling: Some(0.9 + 0.1 * y),
    }
}

/// `n` points of `families` families in a band, in a fixed disorder.
fn band(n: u32, families: u32) -> Vec<Point> {
    (0..n)
        .map(|i| {
            let (a, b) = (f64::from(i * 37 % n) / f64::from(n), f64::from(i * 61 % n) / f64::from(n));
            let family = format!("strategy-{}", i % families);
            point(&format!("{family} n={i}"), &family, 0.2 + 0.5 * a, 0.95 - 0.6 * a + 0.2 * b)
        })
        .collect()
}

fn is_clear(figure: &Figure) {
    let (width, labels) = (figure.canvas.width, &figure.labels);
    let height = 15.0 + if width > WIDTH { WIDE_PLOT_HEIGHT } else { PLOT_HEIGHT };
    let plot = Rect { x0: 0.0, y0: 0.0, x1: width, y1: height };
    for (i, (text, rect)) in labels.iter().enumerate() {
        assert!(rect.x0 >= plot.x0 && rect.x1 <= plot.x1 && rect.y1 <= plot.y1, "{text}: {rect:?}");
        for marker in &figure.markers {
            assert_eq!(marker.overlap(rect), 0.0, "{text} covers a marker");
        }
        for (other, box_) in &labels[..i] {
            assert_eq!(box_.overlap(rect), 0.0, "{text} covers {other}");
        }
    }
}

/// Keeps the picture where `TRAJPRESS_REPORT_OUT` says, to look at it.
fn keep(figure: &Figure, name: &str) {
    if let Some(out) = std::env::var_os("TRAJPRESS_REPORT_OUT") {
        std::fs::write(std::path::Path::new(&out).join(name), figure.png().unwrap()).unwrap();
    }
}

#[test]
fn few_points_carry_their_names_and_none_collide() {
    let figure = retention_savings(&band(9, 3), Undrawn::default(), "10", "other repositories");
    keep(&figure, "few.png");
    is_clear(&figure);
    assert!(figure.labels.iter().any(|(text, _)| text == "full"), "added where it is missing");
    assert!(figure.labels.iter().any(|(text, _)| text == "strategy-1 n=1"));
}

#[test]
fn on_a_page_more_points_carry_their_names() {
    let about = ("10", "other repositories");
    let figure = headline(&band(24, 6), &Styles::new(), Undrawn::default(), about, true);
    keep(&figure, "page.png");
    is_clear(&figure);
    assert_eq!(figure.canvas.width, charts::WIDTHS[1]);
    assert!(figure.labels.iter().any(|(text, _)| text == "strategy-1 n=1"), "{:?}", figure.labels);
}

#[test]
fn of_many_points_only_those_without_room_carry_numbers() {
    let figure = retention_savings(&band(38, 8), Undrawn::default(), "10", "other repositories");
    keep(&figure, "many.png");
    is_clear(&figure);
    assert_eq!(figure.labels.len(), 39);
    let n = figure.labels.iter().filter(|(text, _)| text.parse::<u32>().is_ok()).count();
    assert!(n < 30, "{n} of 39 have no name");
}

#[test]
fn hundreds_of_points_are_drawn_and_the_frontier_is_named() {
    let figure = retention_savings(&band(211, 12), Undrawn::default(), "10", "other repositories");
    keep(&figure, "hundreds.png");
    assert_eq!(figure.markers.len(), 212);
    assert!(figure.labels.len() >= 3 && figure.labels.len() <= MAX_LABELLED);
    assert!(figure.labels.iter().any(|(text, _)| text.starts_with("strategy-")), "{:?}", figure.labels);
}

#[test]
fn a_heap_of_equal_points_is_drawn_all_the_same() {
    let heap: Vec<Point> = (0..30).map(|i| point(&format!("v{i}"), "mask", 0.5, 0.5)).collect();
    let figure = retention_savings(&heap, Undrawn::default(), "10", "other repositories");
    keep(&figure, "heap.png");
    assert_eq!(figure.markers.len(), 31);
}

#[test]
fn points_that_coincide_share_a_label_and_are_all_seen() {
    assert_eq!(numbers(&[1, 13]), "2,14");
    assert_eq!(numbers(&[1, 4, 5, 6, 8, 9]), "2,5-7,9,10");
    let mut points = band(16, 4);
    // Names too long for any place become numbers.
    let long = "twin ".repeat(30);
    points.push(point(&format!("{long}a"), "twin-a", 0.9, 0.9));
    points.push(point(&format!("{long}b"), "twin-b", 0.9, 0.9));
    let figure = retention_savings(&points, Undrawn::default(), "10", "other repositories");
    keep(&figure, "twins.png");
    is_clear(&figure);
    assert!(figure.labels.iter().any(|(text, _)| text == "1,2"), "{:?}", figure.labels);
    // The later one lies small on the first.
    let colours = styles(points.iter().map(|p| (p.family.as_str(), p.setting.as_str(), p.control)));
    let drawn = |family: &str| {
        let colour = colours[family].colour;
        let last = figure.canvas.marks.iter().rposition(|m| match m {
            Mark::Polygon { colour: c, .. } | Mark::Circle { colour: c, .. } => *c == colour,
            _ => false,
        });
        last.expect("every family is drawn")
    };
    assert!(drawn("twin-b") > drawn("twin-a"));
    assert_eq!(coinciding(&[(0.0, 0.0), (9.0, 0.0), (1.0, 1.0)]), [vec![0, 2], vec![1]]);
}

#[test]
fn many_intervals_are_thin_and_light() {
    let colours = |n: u32| {
        let figure = retention_savings(&band(n, 1), Undrawn::default(), "10", "other repositories");
        let mut widths = Vec::new();
        for mark in &figure.canvas.marks {
            if let Mark::Line { width, colour, .. } = mark
                && [COLOURS[0], COLOURS[0].lighter(CROWDED_LIGHTER)].contains(colour)
            {
                widths.push((*width < 0.5, *colour == COLOURS[0]));
            }
        }
        widths.dedup();
        widths
    };
    assert_eq!(colours(6), [(false, true)]);
    assert_eq!(colours(20), [(true, false)]);
}

#[test]
fn the_frontier_is_what_no_other_point_beats_without_controls_and_zeros() {
    let points = [
        point("a", "full", 0.0, 1.0),
        point("b", "mask", 0.5, 0.8),
        point("worse than b", "mask", 0.4, 0.7),
        point("as b, saves less", "mask", 0.4, 0.8),
        point("c", "truncate", 0.7, 0.3),
        point("d", "oracle", 0.7, 0.95),
        point("e", "random", 0.6, 0.9),
        point("f", "atom-bag", 0.6, 0.85),
        point("g", "drop-all", 0.8, 0.2),
        point("keeps nothing", "truncate", 0.9, 0.0),
    ];
    assert_eq!(frontier(&points), [1, 4]);
    assert_eq!(
        steps(&[(0.0, 0.0), (5.0, 2.0), (7.0, 9.0)]),
        [(0.0, 0.0), (0.0, 2.0), (5.0, 2.0), (5.0, 9.0), (7.0, 9.0)]
    );
}

#[test]
fn controls_at_several_budgets_are_a_series_with_one_name() {
    let mut points = band(12, 4);
    for share in [0.4, 0.02, 0.1] {
        for trigger in ["turns(n=1)", "tokens"] {
            let label = format!("random(kept_share={share}) @ {trigger}");
            points.push(point(&label, "random", 0.9 - share, 0.1 + 0.4 * share));
        }
    }
    let figure = retention_savings(&points, Undrawn::default(), "10", "other repositories");
    keep(&figure, "series.png");
    is_clear(&figure);
    // A curve is called once, and a place is not.
    let names = figure.labels.iter().filter(|(text, _)| text.contains("random"));
    assert!(names.clone().all(|(text, _)| text == "random") && names.count() <= 2, "{:?}", figure.labels);
    let told = |share: &str| figure.labels.iter().filter(|(text, _)| text == share).count();
    assert!(told("0.02") >= 1 && told("0.4") >= 1 && told("0.1") == 0, "{:?}", figure.labels);
    shorten_triggers(&mut points);
    let references: Vec<usize> = (12..18).collect();
    assert_eq!(settings("random", &points), "random, kept_share=0.02 to 0.4");
    // Largest share, least savings, first.
    assert_eq!(series(&points, &references), [[13, 17, 15], [12, 16, 14]]);
    let tied = [("0.2", 0.5), ("0.4", 0.5), ("0.02", 0.6)];
    let tied = tied.map(|(share, x)| point(&format!("oracle(kept_share={share})"), "oracle", x, 0.9));
    assert_eq!(series(&tied, &[0, 1, 2]), [[1, 0, 2]]);
}

#[test]
fn triggers_are_told_once() {
    let mut points = [
        point("full @ never", FULL, 0.0, 1.0),
        point("mask(m=5) @ turns(n=20)", "mask", 0.5, 0.8),
        point("mask(m=9) @ turns(n=20)", "mask", 0.4, 0.8),
        point("truncate @ tokens", "truncate", 0.4, 0.7),
        point("truncate", "truncate", 0.4, 0.7),
    ];
    let told = shorten_triggers(&mut points);
    assert_eq!(told, "trigger: turns(n=20) unless marked; @a tokens");
    assert_eq!(kept_whole(&told), "trigger:\u{a0}turns(n=20)\u{a0}unless\u{a0}marked; @a\u{a0}tokens");
    let labels: Vec<&str> = points.iter().map(|p| p.label.as_str()).collect();
    assert_eq!(labels, ["full", "mask(m=5)", "mask(m=9)", "truncate @a", "truncate"]);
    assert_eq!(shorten_triggers(&mut points[..1]), "");
    // A model is no part of the trigger.
    let mut points = [
        point("summary @ turns(n=20) [model-free]", "summary", 0.5, 0.8),
        point("summary @ turns(n=20) [smollm2]", "summary", 0.4, 0.8),
        point("summary @ tokens [smollm2]", "summary", 0.4, 0.8),
    ];
    let told = shorten_triggers(&mut points);
    assert_eq!(told, "trigger: turns(n=20) unless marked; @a tokens; no model unless named");
    let labels: Vec<&str> = points.iter().map(|p| p.label.as_str()).collect();
    assert_eq!(labels, ["summary", "summary [smollm2]", "summary [smollm2] @a"]);
}

#[test]
fn the_axes_hold_everything_and_start_at_round_numbers() {
    let points = [point("a", "mask", -0.04, 0.52), point("b", "mask", 0.55, 0.8)];
    let axes = Axes::new(&points, Rect { x0: 0.0, y0: 0.0, x1: 100.0, y1: 100.0 });
    assert_eq!((axes.x, axes.y), ((-0.1, 0.6), (0.3, 1.0)));
    assert_eq!(Axes::ticks(axes.x), [0.0, 0.2, 0.4, 0.6]);
}

#[test]
fn the_svg_is_in_its_size_on_paper_and_names_fonts_to_fall_back_on() {
    let svg = retention_savings(&band(5, 2), Undrawn::default(), "10", "other repositories").svg().unwrap();
    assert!(svg.starts_with("<svg width=\"237.6pt\" height=\""), "{}", &svg[..90]);
    assert!(svg.contains("<title>Needs kept"));
    assert!(svg.contains("font-family=\"Arimo, Liberation Sans, Arial, Helvetica, sans-serif\""));
}

#[test]
fn variants_that_have_no_point_are_counted() {
    let of = |below, unscored| {
        let undrawn = Undrawn { below, unscored };
        let figure = retention_savings(&[], undrawn, "10", "other repositories");
        keep(&figure, &format!("undrawn_{below}_{unscored}.png"));
        let svg = figure.svg().unwrap();
        ["40 variants below the minimum are not drawn", "1 variant without a score is not drawn", "not drawn"]
            .map(|note| svg.matches(note).count())
    };
    assert_eq!(of(40, 0), [1, 0, 1]);
    assert_eq!(of(40, 1), [1, 1, 2]);
    assert_eq!(of(0, 0), [0, 0, 0]);
}

/// The look of a family is that of the run, whoever else is drawn.
#[test]
fn a_family_looks_the_same_in_every_figure() {
    let all = band(6, 3);
    let looks = styles(all.iter().map(|p| (p.family.as_str(), p.setting.as_str(), p.control)));
    let one: Vec<Point> = all.into_iter().filter(|p| p.family == "strategy-2").collect();
    let drawn = |looks: &Styles| {
        let figure = headline(&one, looks, Undrawn::default(), ("10", "other repositories"), false);
        let colours = figure.canvas.marks.iter().filter_map(|mark| match mark {
            Mark::Circle { colour, .. } | Mark::Polygon { colour, .. } => Some(*colour),
            _ => None,
        });
        colours.collect::<Vec<_>>()
    };
    assert!(drawn(&looks).contains(&COLOURS[2]) && !drawn(&looks).contains(&COLOURS[0]));
    assert!(drawn(&Styles::new()).contains(&COLOURS[0]));
    let lines = marker::of_lines(&["strategy-2(n=1) @ a", "strategy-2(n=1) @ b", "other"], &looks);
    assert_eq!((lines[0], lines[1].colour), (looks["strategy-2"], lines[0].colour));
    assert_ne!(lines[1].shape, lines[0].shape, "two lines of a strategy are told apart by their marks");
}

/// The same strategy with other parameters has another mark, and its name stands there with what its trigger is.
#[test]
fn settings_are_told_apart_and_called() {
    let of = [("5", "a", 0.4, 0.6), ("10", "a", 0.3, 0.7), ("10", "b", 0.2, 0.8)];
    let label = |(n, trigger, x, y)| point(&format!("mask(keep_last={n}) @ {trigger}"), "mask", x, y);
    let points: Vec<Point> =
        of.into_iter().map(label).chain([point("oracle @ a", "oracle", 0.4, 1.0)]).collect();
    let looks = styles(points.iter().map(|p| (p.family.as_str(), p.setting.as_str(), p.control)));
    let shapes = [0, 1, 2].map(|i: usize| look(&looks, "mask", &points[i].setting));
    assert!(shapes[0].shape != shapes[1].shape && shapes[1] == shapes[2], "{shapes:?}");
    assert_eq!((shapes[0].colour, looks.len()), (shapes[1].colour, 3), "{looks:?}");
    for figure in super::retention_savings(&points, &looks, Undrawn::default(), ("10", "other repositories"))
    {
        is_clear(&figure);
        for text in ["mask(keep_last=5)", "mask(keep_last=10)", "mask(keep_last=10) @a"] {
            assert!(figure.labels.iter().any(|(told, _)| told == text), "{:?}", figure.labels);
        }
    }
}

/// What costs more than nothing compressed is none of the best, whatever it saves and keeps, and beats nothing.
#[test]
fn what_costs_more_than_nothing_compressed_is_beaten() {
    let dear = Point { costs_more: true, ..point("dear", "a", 0.6, 0.9) };
    let points = [dear, point("cheap", "b", 0.5, 0.8), point("low", "b", 0.4, 0.7)];
    assert_eq!(frontier(&points), [1]);
    assert_eq!(
        [0, 1, 2].map(|i: usize| super::frontier::is_beaten(&points[i], &points)),
        [true, false, true]
    );
}

/// A picture says how large it is: 300 pixels to the inch are 11,811 to the metre.
#[test]
fn pictures_say_their_resolution() {
    let figure =
        retention_savings(&[point("a", "a", 0.5, 0.8)], Undrawn::default(), "10", "other repositories");
    let png = figure.png().unwrap();
    let chunk =
        [&[0, 0, 0, 9][..], b"pHYs", &[0, 0, 0x2e, 0x23], &[0, 0, 0x2e, 0x23], &[1, 0x78, 0xa5, 0x3f, 0x76]]
            .concat();
    assert_eq!(png[33..54], chunk[..]);
    image::load_from_memory(&png).unwrap();
}

/// What is beaten has neither intervals nor a full colour; a control is called at its mark.
#[test]
fn what_is_beaten_is_faded_and_controls_are_called() {
    let points = [point("a", "a", 0.5, 0.8), point("b", "b", 0.3, 0.5), point("random", "random", 0.45, 0.3)];
    let figure = retention_savings(&points, Undrawn::default(), "10", "other repositories");
    let lines = |colour| {
        let is_it = |mark: &&Mark| matches!(mark, Mark::Line { colour: c, .. } if *c == colour);
        figure.canvas.marks.iter().filter(is_it).count()
    };
    assert_eq!((lines(COLOURS[0]), lines(COLOURS[1])), (2, 0));
    let faded = COLOURS[1].lighter(0.55);
    let is_faded = |mark: &Mark| match mark {
        Mark::Circle { colour, .. } | Mark::Polygon { colour, .. } => *colour == faded,
        _ => false,
    };
    assert!(figure.canvas.marks.iter().any(is_faded));
    assert!(figure.labels.iter().any(|(text, _)| text == "random"), "{:?}", figure.labels);
    keep(&figure, "beaten.png");
}
