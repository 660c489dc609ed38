//! The generation that declares the format.

use std::path::Path;

use durable::{Clock, Fs};

use crate::segment::layout::FORMAT_VERSION;
use crate::store::checkpoint::sweep_generations;
use crate::store::error::Result;
use crate::store::generation::{self, Manifest};

/// Publishes the generation behind `live`, with the digests of all files as they are now. Answers its manifest.
///
/// No digest is taken over: one that a file's length and time seem to vouch for may be of the bytes before. The frames
/// of the log that count are the same as before, since the log was not touched.
pub(super) fn publish(
    fs: &dyn Fs,
    clock: &dyn Clock,
    dir: &Path,
    live: &Manifest,
) -> Result<Manifest> {
    let manifest = Manifest {
        generation: live.generation.saturating_add(1),
        created_unix_ns: clock.wall_ns(),
        folded_through: live.folded_through,
        files: generation::digest_files(fs, dir, &[], &|_| None)?,
        segment_format: Some(FORMAT_VERSION),
    };
    manifest.publish(fs, dir)?;
    sweep_generations(fs, dir, manifest.generation);
    Ok(manifest)
}
