//! The figure of a sweep: needs kept over tokens saved, a point a setting.

use super::figures::{Point, Styles, Undrawn, retention_savings};
use super::load::Population;
use super::statistics::estimate::Estimate;

/// A setting in the figure.
pub(crate) struct Drawn {
    /// Gives colour and shape.
    pub(crate) family: String,
    pub(crate) label: String,
    pub(crate) saved: Option<f64>,
    pub(crate) kept: Estimate,
}

/// The figure as SVG and PNG.
pub(crate) fn figure(all: &[Drawn]) -> anyhow::Result<(String, Vec<u8>)> {
    let mut undrawn = Undrawn::default();
    let mut points = Vec::new();
    for of in all {
        match (of.saved, of.kept.value) {
            (Some(x), Some(y)) => points.push(Point {
                label: of.label.clone(),
                family: of.family.clone(),
                control: of.family.starts_with("oracle"),
                x,
                x_interval: None,
                y,
                y_interval: of.kept.interval,
                floor: None,
                ceiling: None,
            }),
            (_, None) if of.kept.counted.is_some() => undrawn.below += 1,
            _ => undrawn.unscored += 1,
        }
    }
    let [figure, _] = retention_savings(&points, &Styles::new(), undrawn, ("3", Population::These.name()));
    Ok((figure.svg()?, figure.png()?))
}
