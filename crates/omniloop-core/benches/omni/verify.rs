//! Verifying a sealed journal, on one thread and on several.

use durable::RealFs;
use omniloop_core::journal::{VerifyOptions, verify_chain_with};

use crate::files::Prepared;
use crate::measure::{Basis, Sample, Side, timed};

pub(crate) const ONE: &str = "verify, one thread";
const TWO: &str = "verify, two threads";
pub(crate) const ALL: &str = "verify, all cores";

pub(crate) fn sides(prepared: &Prepared) -> Vec<Side<'_>> {
    let variants = [
        (ONE, 1, Basis::ThreadCpu),
        (TWO, 2, Basis::Wall),
        (ALL, 0, Basis::Wall),
    ];
    let side = move |(name, threads, basis)| -> Side<'_> {
        Box::new(move || {
            let options = VerifyOptions {
                threads,
                ..VerifyOptions::default()
            };
            let verify = || verify_chain_with(&RealFs, &prepared.journal, options, &mut ());
            let (times, verified) = timed(|| Ok(verify()?))?;
            if !verified.ok {
                return Err("the prepared journal does not verify".into());
            }
            // Every record counts here, checkpoints too: each is hashed.
            let bytes = durable::Fs::metadata(&RealFs, &prepared.journal)?.len;
            Ok(vec![Sample {
                name,
                basis,
                times,
                records: verified.records,
                bytes,
            }])
        })
    };
    variants.into_iter().map(side).collect()
}
