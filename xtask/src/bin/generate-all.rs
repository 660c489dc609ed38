//! Makes the generated blocks of the documents: `cargo dev generate-all --mode write|check`.

use std::process::ExitCode;

use atune_core::storage::journal::record::{self as atj, RecordTable};
use clap::{CommandFactory as _, Parser};
use durable::layout::markdown;
use omniloop_core::journal::FrameKind;
use omniloop_core::journal::layout as omni;
use traza::rollup::layout as rollup;
use traza::segment::layout as segment;
use traza::store::columns;

use xtask::generate_all::{Block, GenerateAll};
use xtask::reference::reference;

/// Every generated block: its document, its name there, and what makes it.
const BLOCKS: &[Block] = &[
    block("CONTRIBUTING.md", "verbs", || {
        reference(xtask::Cli::command(), 3)
    }),
    block("docs/cli.md", "cli", || reference(daybook::command(), 2)),
    block("docs/formats/atj.md", "header", || {
        members(&atj::Header::TABLE)
    }),
    block("docs/formats/atj.md", "head", || members(&atj::Head::TABLE)),
    block("docs/formats/atj.md", "pointer", || {
        members(&atj::ExtentPointer::TABLE)
    }),
    block("docs/formats/atj.md", "extent", || {
        members(&atj::ExtentHeader::TABLE)
    }),
    block("docs/formats/atj.md", "op-line", || {
        members(&atj::OpLine::TABLE)
    }),
    block("docs/formats/atj.md", "operations", operations),
    block("docs/formats/omni.md", "file_header", || {
        markdown(omni::file_header::FIELDS)
    }),
    block("docs/formats/omni.md", "record_header", || {
        markdown(omni::record_header::FIELDS)
    }),
    block("docs/formats/omni.md", "kinds", kinds),
    block("docs/formats/omni-attestation.md", "omni-leaf", || {
        markdown(omniloop_core::attest::layout::leaf::FIELDS)
    }),
    block("docs/formats/omni.md", "index_header", || {
        markdown(omni::index_header::FIELDS)
    }),
    block("docs/formats/omni.md", "index_entry", || {
        markdown(omni::index_entry::FIELDS)
    }),
    block("docs/formats/omni.md", "trailer", || {
        markdown(omni::trailer::FIELDS)
    }),
    block("docs/formats/traza-segment.md", "segment-header", || {
        markdown(segment::header::FIELDS)
    }),
    block("docs/formats/traza-segment.md", "segment-wrapper", || {
        markdown(segment::wrapper::FIELDS)
    }),
    block(
        "docs/formats/traza-segment.md",
        "segment-directory-entry",
        || markdown(segment::directory_entry::FIELDS),
    ),
    block(
        "docs/formats/traza-segment.md",
        "segment-record-header",
        || markdown(segment::record_header::FIELDS),
    ),
    block(
        "docs/formats/traza-segment.md",
        "segment-attribute-pair",
        || markdown(segment::attribute_pair::FIELDS),
    ),
    block(
        "docs/formats/traza-segment.md",
        "segment-content-prologue",
        || markdown(segment::content_prologue::FIELDS),
    ),
    block("docs/formats/traza-segment.md", "blob-header", || {
        markdown(traza::payload::blob_header::FIELDS)
    }),
    block("docs/formats/traza-segment.md", "segment-header-v7", || {
        markdown(traza::migration::v7::header_v7::FIELDS)
    }),
    block("docs/formats/traza-segment.md", "segment-header-v6", || {
        markdown(traza::migration::v6::header_v6::FIELDS)
    }),
    block("docs/formats/traza-store.md", "wal-frame", || {
        markdown(traza::wal::frame_header::FIELDS)
    }),
    block("docs/formats/traza-store.md", "rollup-prologue", || {
        markdown(rollup::prologue::FIELDS)
    }),
    block("docs/formats/traza-store.md", "columns-prologue", || {
        markdown(columns::layout::prologue::FIELDS)
    }),
    block("docs/formats/traza-store.md", "rollup-counters", || {
        markdown(rollup::counters::FIELDS)
    }),
];

const fn block(file: &'static str, name: &'static str, text: fn() -> String) -> Block {
    Block { file, name, text }
}

/// The members of one record of a study journal.
fn members(table: &RecordTable) -> String {
    let row = |m: &atj::Member| format!("| `{}` | {} |\n", m.name, m.meaning);
    let rows: String = table.members.iter().map(row).collect();
    format!(
        "{}\n\n| member | meaning |\n|---|---|\n{rows}",
        table.meaning
    )
}

/// Every operation of a study journal with its members.
fn operations() -> String {
    let section = |table: &RecordTable| format!("### `{}`\n\n{}\n", table.name, members(table));
    let count = atj::Op::TABLES.len();
    let sections: String = atj::Op::TABLES.iter().map(section).collect();
    format!("There are {count} kinds.\n\n{}\n", sections.trim_end())
}

/// The table of record kinds.
fn kinds() -> String {
    let row = |kind: FrameKind| format!("| {} | {kind} | {} |\n", kind.code(), kind.meaning());
    let rows: String = FrameKind::ALL.into_iter().map(row).collect();
    format!("| code | kind | meaning |\n|---|---|---|\n{rows}")
}

#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    generate: GenerateAll,
}

fn main() -> ExitCode {
    xtask::exit_code(Arguments::parse().generate.apply(BLOCKS))
}
