//! A drawing in points (1/72 inch), written as SVG or PNG by plotters.
//!
//! plotters draws on whole pixels and its two backends disagree on what a font size is and where a
//! text stands; a drawing here is exact, and the differences are evened out in one place, so that
//! both files show the same picture. The font travels with the build (Arimo, metric-compatible with
//! Arial and Helvetica): no system font is needed, and an SVG viewer that lacks it falls back on
//! one whose letters are as wide, so labels keep clear of each other there too.

use std::cell::Cell;
use std::io::Cursor;
use std::path::Path;
use std::sync::Once;

use anyhow::Context as _;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontDesc, FontFamily, FontStyle, ShapeStyle, TextStyle, register_font};

use serde_json::{Value, json};

use crate::text::escape;

/// As the SVG names it.
const FAMILY: &str = "Arimo, Liberation Sans, Arial, Helvetica, sans-serif";
const REGULAR: &[u8] = include_bytes!("fonts/Arimo-Regular.ttf");
/// Ascent plus descent of the font in em: ab_glyph's size is this height, not the em.
const LINE_EM: f64 = (1854.0 + 434.0) / 2048.0;
/// Height of capitals and digits in em.
pub(crate) const CAP_EM: f64 = 1409.0 / 2048.0;
/// Depth of letters below the baseline in em.
pub(crate) const DESCENT_EM: f64 = 434.0 / 2048.0;

/// Units of the SVG's coordinates to a point: whole numbers fine enough for print.
const SVG_UNITS: f64 = 20.0;
const PNG_DPI: f64 = 300.0;
/// Each pixel of the PNG is the mean of this many squared: plotters does not smooth all edges. What is as wide as a page has so
/// many pixels that fewer will do.
const SUPERSAMPLING: [u32; 2] = [4, 2];
/// Pixels of a wide one.
const WIDE: u32 = 1_700;

thread_local! {
    /// Of the last drawing: a report has some twenty, and memory that is asked for anew costs as much as drawing in it.
    static PIXELS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

pub(crate) type XY = (f64, f64);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Colour(pub(crate) u8, pub(crate) u8, pub(crate) u8);

/// Text and axes.
pub(crate) const INK: Colour = Colour(0x22, 0x22, 0x22);
/// Okabe and Ito's.
pub(crate) const BLUE: Colour = Colour(0x00, 0x72, 0xB2);

impl Colour {
    /// Mixed with white: 0 is the colour itself, 1 is white.
    pub(crate) fn lighter(self, share: f64) -> Self {
        let mix = |c: u8| (f64::from(c) + share * (255.0 - f64::from(c))).round() as u8;
        Colour(mix(self.0), mix(self.1), mix(self.2))
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

/// What stands on the paper, later ones on top.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    Line { points: Vec<XY>, width: f64, colour: Colour },
    Polygon { points: Vec<XY>, colour: Colour },
    Circle { centre: XY, radius: f64, colour: Colour },
    Text { at: XY, anchor: Anchor, size: f64, colour: Colour, text: String },
}

/// A round number of turns from one tick to the next, at least so many.
pub(crate) fn turns_apart(least: f64) -> u32 {
    let steps = [1_u32, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000];
    steps.into_iter().find(|step| f64::from(*step) >= least).unwrap_or(10_000)
}

/// A drawing; x to the right, y down, in points.
#[derive(Clone, Debug)]
pub(crate) struct Canvas {
    pub(crate) width: f64,
    pub(crate) height: f64,
    /// For readers who hear the picture.
    pub(crate) title: String,
    pub(crate) marks: Vec<Mark>,
}

/// How a backend places text.
struct TextFit {
    /// plotters size of one pixel of em.
    size: f64,
    /// From the position to the baseline, in em, for text anchored at its top.
    baseline: f64,
}

impl Canvas {
    pub(crate) fn line(&mut self, points: &[XY], width: f64, colour: Colour) {
        self.marks.push(Mark::Line { points: points.to_vec(), width, colour });
    }

    /// Text on a baseline.
    pub(crate) fn text(&mut self, at: XY, anchor: Anchor, size: f64, colour: Colour, text: &str) {
        let text = text.to_owned();
        self.marks.push(Mark::Text { at, anchor, size, colour, text });
    }

    /// The drawing as an SVG document, in its size on paper.
    pub(crate) fn svg(&self) -> anyhow::Result<String> {
        let size = self.pixels(SVG_UNITS);
        let mut svg = String::new();
        {
            let mut backend = SVGBackend::with_string(&mut svg, size);
            // plotters writes size / 1.24 as the font size and lowers text at its top by 0.76 em.
            self.draw(&mut backend, SVG_UNITS, &TextFit { size: 1.24, baseline: 0.76 })?;
            backend.present().context("cannot draw the SVG")?;
        }
        let pixels = format!("width=\"{}\" height=\"{}\"", size.0, size.1);
        let paper = format!("width=\"{}pt\" height=\"{}pt\" role=\"img\"", self.width, self.height);
        let title = escape::xml(&self.title);
        // Browsers take the font from here; other viewers fall back on the family's list.
        let font = base64(REGULAR);
        let head = format!(
            "<title>{title}</title>\n<style>@font-face{{font-family:Arimo;\
             src:url(data:font/ttf;base64,{font})}}</style>\n"
        );
        Ok(svg.replacen(&pixels, &paper, 1).replacen(">\n", &format!(">\n{head}"), 1))
    }

    /// The marks for a page that draws them itself: lines, polygons, circles and texts.
    pub(crate) fn json(&self) -> Value {
        let number = |x: f64| json!((x * 10.0).round() / 10.0);
        let path = |points: &[XY]| points.iter().flat_map(|p| [number(p.0), number(p.1)]).collect::<Vec<_>>();
        let hex = |c: &Colour| format!("#{:02x}{:02x}{:02x}", c.0, c.1, c.2);
        let mark = |mark: &Mark| match mark {
            Mark::Line { points, width, colour } => json!(["l", path(points), number(*width), hex(colour)]),
            Mark::Polygon { points, colour } => json!(["p", path(points), hex(colour)]),
            Mark::Circle { centre, radius, colour } => {
                json!(["c", path(&[*centre]), number(*radius), hex(colour)])
            }
            Mark::Text { at, anchor, size, colour, text } => {
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                json!(["t", path(&[*at]), number(*size), hex(colour), anchor, escape::drawn(text)])
            }
        };
        json!({
            "width": number(self.width), "height": number(self.height), "title": escape::line(&self.title),
            "marks": self.marks.iter().map(mark).collect::<Vec<_>>(),
        })
    }

    /// The drawing as a PNG file.
    pub(crate) fn png(&self) -> anyhow::Result<Vec<u8>> {
        let (width, height) = self.pixels(PNG_DPI / 72.0);
        let finer = SUPERSAMPLING[usize::from(width > WIDE)];
        let fine = (width * finer, height * finer);
        let mut pixels = PIXELS.take();
        pixels.clear();
        pixels.resize(fine.0 as usize * fine.1 as usize * 3, 255);
        {
            let mut backend = BitMapBackend::with_buffer(&mut pixels, fine);
            let unit = PNG_DPI / 72.0 * f64::from(finer);
            // ab_glyph draws text at its top half a line above the baseline.
            self.draw(&mut backend, unit, &TextFit { size: LINE_EM, baseline: LINE_EM / 2.0 })?;
            backend.present().context("cannot draw the PNG")?;
        }
        let small = shrink(&pixels, fine.0 as usize, finer as usize);
        PIXELS.set(pixels);
        let mut file = Cursor::new(Vec::new());
        let (colours, form) = (image::ColorType::Rgb8, image::ImageOutputFormat::Png);
        image::write_buffer_with_format(&mut file, &small, width, height, colours, form)
            .context("cannot draw the PNG")?;
        Ok(with_dpi(file.into_inner()))
    }

    /// Writes the drawing into a file, as its ending says: svg, png, or json with what it shows.
    pub(crate) fn write(&self, shown: &impl serde::Serialize, path: &Path) -> anyhow::Result<()> {
        let cannot = || format!("cannot write {}", path.display());
        let write = |to: &Path| match path.extension().and_then(|e| e.to_str()) {
            Some("png") => std::fs::write(to, self.png()?).with_context(cannot),
            Some("svg") => std::fs::write(to, self.svg()?).with_context(cannot),
            Some("json") => std::fs::write(to, escape::json(shown)?).with_context(cannot),
            _ => anyhow::bail!("{} ends in none of .svg, .png and .json", path.display()),
        };
        // Under another name until it is whole: what was there stays until then. Its ending tells the format.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let whole = path.with_file_name(format!(".unfinished.{}.{name}", std::process::id()));
        let written = write(&whole).and_then(|()| std::fs::rename(&whole, path).with_context(cannot));
        if written.is_err() {
            let _ = std::fs::remove_file(&whole);
        }
        written
    }

    fn pixels(&self, unit: f64) -> (u32, u32) {
        ((self.width * unit).round() as u32, (self.height * unit).round() as u32)
    }

    fn draw<B: DrawingBackend>(&self, backend: &mut B, unit: f64, fit: &TextFit) -> anyhow::Result<()>
    where
        B::ErrorType: 'static,
    {
        register_fonts();
        let at = |p: &XY| ((p.0 * unit).round() as i32, (p.1 * unit).round() as i32);
        let rgb = |c: &Colour| RGBColor(c.0, c.1, c.2);
        let fill = |c: &Colour| ShapeStyle { color: rgb(c).to_rgba(), filled: true, stroke_width: 0 };
        let (width, height) = self.pixels(unit);
        backend.draw_rect((0, 0), (width as i32, height as i32), &WHITE, true).context("cannot draw")?;
        for mark in &self.marks {
            match mark {
                Mark::Line { points, width, colour } => {
                    let stroke_width = (width * unit).round().max(1.0) as u32;
                    let style = ShapeStyle { color: rgb(colour).to_rgba(), filled: false, stroke_width };
                    // plotters cuts the corners of a path; butt-ended pieces with dots do not.
                    for pair in points.windows(2) {
                        backend.draw_line(at(&pair[0]), at(&pair[1]), &style).context("cannot draw")?;
                    }
                    for corner in points.iter().skip(1).take(points.len().saturating_sub(2)) {
                        backend
                            .draw_circle(at(corner), stroke_width / 2, &fill(colour), true)
                            .context("cannot draw")?;
                    }
                }
                Mark::Polygon { points, colour } => {
                    backend.fill_polygon(points.iter().map(at), &fill(colour)).context("cannot draw")?;
                }
                Mark::Circle { centre, radius, colour } => {
                    let radius = (radius * unit).round() as u32;
                    backend.draw_circle(at(centre), radius, &fill(colour), true).context("cannot draw")?;
                }
                Mark::Text { at: (x, y), anchor, size, colour, text } => {
                    let h_pos = match anchor {
                        Anchor::Start => HPos::Left,
                        Anchor::Middle => HPos::Center,
                        Anchor::End => HPos::Right,
                    };
                    let colour = rgb(colour);
                    let style = TextStyle::from(font(size * unit * fit.size))
                        .color(&colour)
                        .pos(Pos::new(h_pos, VPos::Top));
                    backend
                        .draw_text(&escape::drawn(text), &style, at(&(*x, y - fit.baseline * size)))
                        .context("cannot draw")?;
                }
            }
        }
        Ok(())
    }
}

/// Width of a text in points.
pub(crate) fn text_width(text: &str, size: f64) -> f64 {
    register_fonts();
    const FINE: f64 = 1_000.0;
    let ((left, _), (right, _)) = font(FINE).layout_box(text).expect("the font was registered just above");
    f64::from(right - left) / FINE * LINE_EM * size
}

/// `text`, shortened with an ellipsis where it is wider than `width`.
pub(crate) fn fitted(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.to_owned();
    }
    let mut short: Vec<char> = text.chars().collect();
    while short.pop().is_some() {
        let candidate = short.iter().collect::<String>() + "\u{2026}";
        if text_width(&candidate, size) <= width {
            return candidate;
        }
    }
    String::new()
}

/// The same for names, which differ in their ends more than in the middle: that goes.
pub(crate) fn fitted_name(name: &str, size: f64, width: f64) -> String {
    if text_width(name, size) <= width {
        return name.to_owned();
    }
    let all: Vec<char> = name.chars().collect();
    let cut = |kept: usize| {
        let (head, tail) = (&all[..kept.div_ceil(2)], &all[all.len() - kept / 2..]);
        [head, &['\u{2026}'], tail].concat().into_iter().collect::<String>()
    };
    let fits = |name: &String| text_width(name, size) <= width;
    (1..all.len()).rev().map(cut).find(fits).unwrap_or_default()
}

/// `text` in lines no wider than `width`, broken at spaces (not at no-break spaces); a longer word is cut.
pub(crate) fn wrapped(text: &str, size: f64, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|w| !w.is_empty()) {
        let word = fitted(word, size, width);
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), size) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

fn font(size: f64) -> FontDesc<'static> {
    FontDesc::new(FontFamily::Name(FAMILY), size, FontStyle::Normal)
}

fn register_fonts() {
    static FONTS: Once = Once::new();
    FONTS.call_once(|| {
        // Its error says nothing, so there is nothing to pass on.
        let registered = register_font(FAMILY, FontStyle::Normal, REGULAR).is_ok();
        assert!(registered, "the bundled font is a font");
    });
}

/// RFC 4648, with padding.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |i: usize| three.get(i).map_or(0, |&b| u32::from(b));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let six = (bits >> (18 - 6 * digit) & 63) as usize;
            out.push(if digit <= three.len() { char::from(DIGITS[six]) } else { '=' });
        }
    }
    out
}

/// A PNG that says how many pixels it has to the inch: without, a page of print takes it for one of a screen, three times as wide.
fn with_dpi(mut png: Vec<u8>) -> Vec<u8> {
    /// Behind the signature and the first chunk, which is the header.
    const AT: usize = 8 + 25;
    const METRE: u8 = 1;
    let to_a_metre = ((PNG_DPI / 0.0254).round() as u32).to_be_bytes();
    let chunk = [&b"pHYs"[..], &to_a_metre, &to_a_metre, &[METRE]].concat();
    let mut crc = flate2::Crc::new();
    crc.update(&chunk);
    let length = (chunk.len() as u32 - 4).to_be_bytes();
    png.splice(AT..AT, [&length[..], &chunk, &crc.sum().to_be_bytes()].concat());
    png
}

/// Means of squares of `by` pixels, RGB.
fn shrink(pixels: &[u8], width: usize, by: usize) -> Vec<u8> {
    let (line, n) = (3 * width, (by * by) as u16);
    let mut out = Vec::with_capacity(pixels.len() / by / by);
    let mut sums = vec![0_u16; line];
    for rows in pixels.chunks_exact(by * line) {
        // Lines are added up whole, which the processor does many numbers at a time.
        sums.fill(0);
        for row in rows.chunks_exact(line) {
            sums.iter_mut().zip(row).for_each(|(sum, &pixel)| *sum += u16::from(pixel));
        }
        for square in sums.chunks_exact(3 * by) {
            let of = |channel: usize| square.iter().skip(channel).step_by(3).sum::<u16>();
            out.extend([0, 1, 2].map(|channel| ((of(channel) + n / 2) / n) as u8));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinking_takes_means() {
        // 4 x 2 pixels to 2 x 1: left square 0 0 / 0 255, right square all 8.
        let grey = [0, 0, 8, 8, 0, 255, 8, 8];
        let pixels: Vec<u8> = grey.iter().flat_map(|&g| [g, g, 1]).collect();
        assert_eq!(shrink(&pixels, 4, 2), [64, 64, 1, 8, 8, 1]);
    }

    #[test]
    fn text_is_as_wide_as_in_helvetica() {
        // Helvetica's digits are 0.556 em wide, its capital M 0.833.
        assert!((text_width("00000", 10.0) - 27.8).abs() < 0.1);
        assert!((text_width("M", 10.0) - 8.33).abs() < 0.1);
    }

    #[test]
    fn base64_is_that_of_the_rfc() {
        let pairs = [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")];
        for (plain, coded) in pairs {
            assert_eq!(base64(plain.as_bytes()), coded);
        }
    }

    #[test]
    fn text_is_broken_at_spaces() {
        assert_eq!(wrapped("one two three", 7.0, 30.0), ["one two", "three"]);
        assert!(wrapped("  ", 7.0, 30.0).is_empty());
    }

    #[test]
    fn long_text_is_cut_to_its_width() {
        let names = ["command(kept_share=0.1,program=one.py)", "command(kept_share=0.1,program=two.py)"]
            .map(|name| fitted_name(name, 7.0, 70.0));
        assert!(names[0] != names[1] && names.iter().all(|name| text_width(name, 7.0) <= 70.0), "{names:?}");
        assert!(names[0].starts_with("command") && names[0].ends_with("one.py)"), "{names:?}");
        assert_eq!(fitted_name("short", 7.0, 50.0), "short");
        assert_eq!(fitted("short", 7.0, 50.0), "short");
        let cut = fitted("a very long label indeed", 7.0, 40.0);
        assert!(cut.ends_with('\u{2026}') && text_width(&cut, 7.0) <= 40.0, "{cut}");
    }
}
