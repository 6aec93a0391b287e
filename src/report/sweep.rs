//! The figure of a sweep: needs kept over tokens and over money saved, a point a setting.

pub(crate) use super::figures::charts::Drawn;
use super::figures::charts::settings;

/// The figure as SVG and PNG.
pub(crate) fn figure(title: &str, key: &str, all: &[Drawn]) -> anyhow::Result<(String, Vec<u8>)> {
    let canvas = settings(title, key, all);
    Ok((canvas.svg()?, canvas.png()?))
}
