//! Charts as files: SVG, PNG, and a page that holds them.

use std::fmt::{Display, Write as _};
use std::sync::OnceLock;

use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};

use super::Chart;
use super::canvas::{Area, Drawn, FONT};
use super::data::Data;
use crate::failure::Failure;

/// The most pixels of an image: three bytes each are held in memory.
const PIXELS_MAX: u64 = 64 << 20;

fn failed(error: impl Display) -> Failure {
    Failure::new(format!("cannot draw: {error}"))
}

/// The font is in the binary: charts look alike on machines without any.
fn fonts() -> Result<(), Failure> {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    let is_good = REGISTERED
        .get_or_init(|| register_font(FONT, FontStyle::Normal, dejavu::sans::regular()).is_ok());
    if *is_good {
        Ok(())
    } else {
        Err(failed("the font in this program cannot be read"))
    }
}

/// All charts, one below the other.
fn draw_all<DB: DrawingBackend>(data: &Data, charts: &[Chart], root: &Area<'_, DB>) -> Drawn<DB> {
    root.fill(&WHITE)?;
    for (chart, area) in charts
        .iter()
        .zip(root.split_evenly((charts.len().max(1), 1)))
    {
        chart.draw(data, &area)?;
    }
    root.present()
}

fn whole(charts: &[Chart], (width, height): (u32, u32)) -> Result<(u32, u32), Failure> {
    let count = u32::try_from(charts.len().max(1)).unwrap_or(u32::MAX);
    let height = height.saturating_mul(count);
    if u64::from(width) * u64::from(height) > PIXELS_MAX {
        return Err(Failure::new(format!(
            "an image of {width} by {height} pixels is too large"
        ))
        .with_hint("--width, --height, or fewer charts"));
    }
    Ok((width, height))
}

pub(super) fn svg(data: &Data, charts: &[Chart], size: (u32, u32)) -> Result<String, Failure> {
    fonts()?;
    let size = whole(charts, size)?;
    let mut text = String::new();
    {
        let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
        draw_all(data, charts, &root).map_err(failed)?;
    }
    Ok(text)
}

pub(super) fn png(data: &Data, charts: &[Chart], size: (u32, u32)) -> Result<Vec<u8>, Failure> {
    fonts()?;
    let (width, height) = whole(charts, size)?;
    let len = u64::from(width) * u64::from(height) * 3;
    let mut pixels = vec![0; usize::try_from(len).map_err(failed)?];
    {
        let backend = BitMapBackend::with_buffer(&mut pixels, (width, height));
        draw_all(data, charts, &backend.into_drawing_area()).map_err(failed)?;
    }
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header().map_err(failed)?;
    writer.write_image_data(&pixels).map_err(failed)?;
    writer.finish().map_err(failed)?;
    Ok(bytes)
}

/// A page that needs nothing but itself.
pub(super) fn html(data: &Data, charts: &[Chart], size: (u32, u32)) -> Result<String, Failure> {
    let name = escape(&data.name);
    let count = data.rows.len();
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{name}</title>\n<style>\n\
         body {{ font-family: sans-serif; margin: 2rem auto; max-width: {}px; color: #282828 }}\n\
         svg {{ width: 100%; height: auto }}\nnav a {{ margin-right: 1rem }}\n</style>\n\
         <h1>{name}</h1>\n<p>{count} trials</p>\n<nav>\n",
        size.0 + 40
    );
    let anchor = |chart: &Chart| chart.title().to_lowercase().replace(' ', "-");
    for chart in charts {
        // Writing to memory cannot fail.
        writeln!(page, "<a href=\"#{}\">{}</a>", anchor(chart), chart.title()).ok();
    }
    page.push_str("</nav>\n");
    for chart in charts {
        let drawn = svg(data, &[*chart], size)?;
        let (anchor, title) = (anchor(chart), chart.title());
        writeln!(
            page,
            "<section id=\"{anchor}\">\n<h2>{title}</h2>\n{drawn}</section>"
        )
        .ok();
    }
    page.push_str("</html>\n");
    Ok(page)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}
