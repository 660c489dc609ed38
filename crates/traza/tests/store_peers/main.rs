//! A store that a released peer wrote is opened, and answers as that peer did.
//!
//! The fixture is what release 0.26 left behind after one set of batches: three segments with superseded spans among them,
//! and a log that was not sealed yet (release 0.25 wrote the same segments and the same log). The expected answers are
//! those that it gave over HTTP, without what differs from run to run. Lists of spans are kept as digests. Of what stands
//! beside the spans there are also the answers over a store in which things were erased, and over one that was stopped
//! in the middle of an erasure.

#[cfg(test)]
mod answers;
#[cfg(test)]
mod canonical;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod question;
