//! The name by which runs and traces know a study (`docs/formats/atj.md`, "The name of a study").

use durable::digest::{hex, sha256};

use super::record::Header;
use crate::replica::Study;

/// Digits of the name: half of a SHA-256.
const DIGITS: usize = 32;

/// The name of a study of the file with this header, in hexadecimal: the attribute `study.id`.
///
/// It follows from what never changes, neither by a copy nor by a migration.
pub fn study_id(header: &Header, study: &Study) -> String {
    let facts = format!(
        "daybook.study\n{}\n{}\n{}\n{}",
        header.created_at_millis, header.created_by.0, study.id.0, study.config.name
    );
    let mut id = hex(&sha256(facts.as_bytes()));
    id.truncate(DIGITS);
    id
}
