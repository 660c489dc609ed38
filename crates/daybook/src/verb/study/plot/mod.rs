//! `daybook study plot`: a study in charts.

mod canvas;
mod charts;
mod data;
mod picture;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use atune_core::analysis::importance::{Method, importance};
use clap::{Args, ValueEnum};
use durable::Access;
use plotters::prelude::DrawingBackend;

use super::importance::history_of;
use super::{chosen, open};
use crate::failure::{DONE, Failure, Outcome};
use crate::new_file::{NewFile, would_replace};
use crate::verb::study::plot::canvas::{Area, Drawn};
use data::Data;

/// Draws a study: as an SVG or PNG image, or as a page with all charts.
///
/// Without `--chart`, an image shows the history, and a page every chart that the study has something for.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  daybook study plot study.atj -o history.svg
  daybook study plot study.atj -o study.html
  daybook study plot study.atj --chart slice --chart contour --params lr,dropout -o lr.png")]
pub(super) struct PlotArgs {
    /// The study file.
    path: PathBuf,
    /// The study's name, when the file holds several.
    #[arg(long, value_name = "NAME")]
    study: Option<String>,
    /// Where it goes: a name that ends in .svg, .png or .html.
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Which chart. May be repeated; in an image they stand below one another.
    #[arg(long, value_enum)]
    chart: Vec<Chart>,
    /// Only these parameters, in this order. A contour takes the first two.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    params: Vec<String>,
    /// The width of a chart, in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = 960, value_parser = clap::value_parser!(u32).range(200..=8000))]
    width: u32,
    /// The height of a chart, in pixels.
    #[arg(long, value_name = "PIXELS", default_value_t = 540, value_parser = clap::value_parser!(u32).range(150..=8000))]
    height: u32,
    /// Replaces the output file if it exists.
    #[arg(long)]
    force: bool,
}

/// A kind of chart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Chart {
    /// The value of every trial, and the best so far.
    History,
    /// Intermediate values over steps, one line per trial.
    Intermediate,
    /// Every trial as a line over its parameters.
    Parallel,
    /// How much each parameter matters.
    Importance,
    /// The value over each parameter.
    Slice,
    /// The value over two parameters.
    Contour,
    /// Objectives against each other.
    Pareto,
    /// When every trial ran.
    Timeline,
}

impl Chart {
    fn title(self) -> &'static str {
        match self {
            Self::History => "History",
            Self::Intermediate => "Intermediate values",
            Self::Parallel => "Parallel coordinates",
            Self::Importance => "Importance",
            Self::Slice => "Slices",
            Self::Contour => "Contour",
            Self::Pareto => "Pareto front",
            Self::Timeline => "Timeline",
        }
    }

    /// Whether the study has something for it.
    fn suits(self, data: &Data) -> bool {
        match self {
            Self::History | Self::Timeline => true,
            Self::Intermediate => data.rows.iter().any(|row| !row.reports.is_empty()),
            Self::Parallel | Self::Slice => !data.axes.is_empty(),
            Self::Importance => !data.importance.is_empty(),
            Self::Contour => data.axes.len() > 1,
            Self::Pareto => data.objectives.len() > 1,
        }
    }

    fn draw<DB: DrawingBackend>(self, data: &Data, area: &Area<'_, DB>) -> Drawn<DB> {
        match self {
            Self::History => charts::history(data, area),
            Self::Intermediate => charts::intermediate(data, area),
            Self::Parallel => charts::parallel(data, area),
            Self::Importance => charts::importance(data, area),
            Self::Slice => charts::slice(data, area),
            Self::Contour => charts::contour(data, area),
            Self::Pareto => charts::pareto(data, area),
            Self::Timeline => charts::timeline(data, area),
        }
    }
}

/// What kind of file is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Format {
    Svg,
    Png,
    Html,
}

pub(super) fn run(args: &PlotArgs) -> Outcome {
    let format = format_of(&args.output)?;
    if would_replace(&args.output, &args.path) {
        return Err(Failure::new("the output would replace the study itself"));
    }
    let reader = open(&args.path)?;
    let study = chosen(&reader, args.study.as_deref())?;
    let trials = reader.replica().trials_of(study.id).into_iter().flatten();
    let mut data = Data::new(study, trials);
    let history = history_of(reader.replica(), study);
    let shares = importance(&history, 0, Method::Fanova);
    data.importance = shares
        .into_iter()
        .map(|share| (share.name, share.share))
        .collect();
    data.choose(&args.params).map_err(|name| {
        let names: Vec<&str> = data.axes.iter().map(|axis| axis.name.as_str()).collect();
        Failure::new(format!("no trial has a parameter {name:?}"))
            .with_hint(format!("there are {}", names.join(", ")))
    })?;
    let charts = match (args.chart.as_slice(), format) {
        ([], Format::Html) => {
            let all = Chart::value_variants().iter().copied();
            all.filter(|chart| chart.suits(&data)).collect()
        }
        ([], _) => vec![Chart::History],
        (some, _) => some.to_vec(),
    };
    let size = (args.width, args.height);
    let bytes = match format {
        Format::Svg => picture::svg(&data, &charts, size)?.into_bytes(),
        Format::Png => picture::png(&data, &charts, size)?,
        Format::Html => picture::html(&data, &charts, size)?.into_bytes(),
    };
    let mut file = NewFile::create(&args.output, Access::Shared, args.force)?;
    file.write_all(&bytes)
        .map_err(|e| Failure::io(&format!("cannot write {}", args.output.display()), &e))?;
    file.finish()?;
    Ok(DONE)
}

fn format_of(path: &Path) -> Result<Format, Failure> {
    let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
    match extension.to_str() {
        Some("svg") => Ok(Format::Svg),
        Some("png") => Ok(Format::Png),
        Some("html" | "htm") => Ok(Format::Html),
        _ => Err(
            Failure::new(format!("{} names no kind of picture", path.display()))
                .with_hint("a name that ends in .svg, .png or .html"),
        ),
    }
}
