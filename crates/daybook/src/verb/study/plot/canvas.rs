//! What the charts share: colours, fonts, and a plane with two axes.

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

/// Where a chart is drawn.
pub(super) type Area<'a, DB> = DrawingArea<DB, Shift>;

/// A chart failed to be drawn, in the backend's words.
pub(super) type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Colours that people of all kinds of sight can tell apart (Okabe and Ito).
pub(super) const BLUE: RGBColor = RGBColor(0, 114, 178);
pub(super) const ORANGE: RGBColor = RGBColor(230, 159, 0);
pub(super) const GREEN: RGBColor = RGBColor(0, 158, 115);
pub(super) const RED: RGBColor = RGBColor(213, 94, 0);
pub(super) const GREY: RGBColor = RGBColor(150, 150, 150);
pub(super) const INK: RGBColor = RGBColor(40, 40, 40);
const PAPER: RGBColor = RGBColor(245, 247, 250);

pub(super) const FONT: &str = "sans-serif";
const TITLE: u32 = 18;
const LABEL: u32 = 13;

/// The plane of a chart.
pub(super) type Plane<'a, DB> = ChartContext<'a, DB, Cartesian2d<RangedCoordf64, RangedCoordf64>>;

/// One axis of a plane.
pub(super) struct Side<'a> {
    pub(super) name: &'a str,
    pub(super) range: (f64, f64),
    pub(super) labels: usize,
    pub(super) text: &'a dyn Fn(f64) -> String,
}

impl<'a> Side<'a> {
    /// An axis of plain numbers.
    pub(super) fn plain(name: &'a str, range: (f64, f64)) -> Self {
        Self {
            name,
            range,
            labels: 6,
            text: &|value| crate::text::number(value),
        }
    }

    /// An axis of whole numbers.
    pub(super) fn whole(name: &'a str, range: (f64, f64)) -> Self {
        Self {
            text: &|value| {
                if (value - value.round()).abs() < 1e-6 {
                    format!("{value:.0}")
                } else {
                    String::new()
                }
            },
            ..Self::plain(name, range)
        }
    }
}

/// A plane with its title, axes and grid.
pub(super) fn plane<'a, DB: DrawingBackend>(
    area: &'a Area<'_, DB>,
    title: &str,
    x: &Side<'_>,
    y: &Side<'_>,
) -> Result<Plane<'a, DB>, DrawingAreaErrorKind<DB::ErrorType>> {
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, TITLE).into_font().color(&INK))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(78)
        .build_cartesian_2d(x.range.0..x.range.1, y.range.0..y.range.1)?;
    chart
        .configure_mesh()
        .light_line_style(PAPER)
        .bold_line_style(RGBColor(225, 229, 235))
        .axis_style(GREY)
        .x_desc(x.name)
        .y_desc(y.name)
        .x_labels(x.labels)
        .y_labels(y.labels)
        .x_label_formatter(&|value| (x.text)(*value))
        .y_label_formatter(&|value| (y.text)(*value))
        .label_style((FONT, LABEL).into_font().color(&INK))
        .axis_desc_style((FONT, LABEL).into_font().color(&INK))
        .draw()?;
    Ok(chart)
}

/// Circles.
pub(super) fn dots<DB: DrawingBackend>(
    chart: &mut Plane<'_, DB>,
    places: impl IntoIterator<Item = (f64, f64)>,
    size: i32,
    colour: ShapeStyle,
) -> Drawn<DB> {
    chart.draw_series(
        places
            .into_iter()
            .map(|place| Circle::new(place, size, colour)),
    )?;
    Ok(())
}

/// A line through places.
pub(super) fn line<DB: DrawingBackend>(
    chart: &mut Plane<'_, DB>,
    places: impl IntoIterator<Item = (f64, f64)>,
    style: ShapeStyle,
) -> Drawn<DB> {
    chart.draw_series(LineSeries::new(places, style))?;
    Ok(())
}

/// Says why a chart has nothing to show.
pub(super) fn nothing<DB: DrawingBackend>(
    area: &Area<'_, DB>,
    title: &str,
    why: &str,
) -> Drawn<DB> {
    area.draw(&Text::new(
        title.to_owned(),
        (20, 20),
        (FONT, TITLE).into_font().color(&INK),
    ))?;
    area.draw(&Text::new(
        why.to_owned(),
        (20, 54),
        (FONT, LABEL).into_font().color(&GREY),
    ))?;
    Ok(())
}

/// Text at a place of a plane.
pub(super) fn label(text: String, place: (f64, f64)) -> Text<'static, (f64, f64), String> {
    Text::new(text, place, (FONT, LABEL).into_font().color(&INK))
}

/// From dark, for 0, to light, for 1.
pub(super) fn shade(share: f64) -> RGBColor {
    // Five places of the map "viridis".
    const MAP: [(f64, f64, f64); 5] = [
        (68.0, 1.0, 84.0),
        (59.0, 82.0, 139.0),
        (33.0, 145.0, 140.0),
        (94.0, 201.0, 98.0),
        (253.0, 231.0, 37.0),
    ];
    let place = share.clamp(0.0, 1.0) * 4.0;
    let at = MAP
        .iter()
        .zip(MAP.iter().skip(1))
        .zip(0u8..)
        .find(|(_, at)| place <= f64::from(*at) + 1.0);
    let Some(((low, high), at)) = at else {
        return RGBColor(253, 231, 37);
    };
    let part = place - f64::from(at);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between two bytes"
    )]
    let mix = |low: f64, high: f64| (low + part * (high - low)).round() as u8;
    RGBColor(mix(low.0, high.0), mix(low.1, high.1), mix(low.2, high.2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_go_from_the_first_to_the_last_colour_of_the_map() {
        assert_eq!(shade(0.0), RGBColor(68, 1, 84));
        assert_eq!(shade(0.5), RGBColor(33, 145, 140));
        assert_eq!(shade(1.0), RGBColor(253, 231, 37));
        assert_eq!(shade(f64::NAN), RGBColor(253, 231, 37));
    }
}
