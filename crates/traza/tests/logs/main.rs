//! What `docs/formats/traza-store-logs.md` promises about annotations, evals and tombstones.
//!
//! Lines that a released version wrote are read and written again; logs are torn and damaged in every way; the disk stops and
//! fails at every call. The oracle is *acknowledged ⊆ recovered ⊆ submitted, in order*, and for evals a plain model.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod annotations;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod eval_crash;
#[cfg(test)]
mod eval_model;
#[cfg(test)]
mod evals;
#[cfg(test)]
mod healing;
#[cfg(test)]
mod scores;
#[cfg(test)]
mod tombstones;
