//! The promises of `omniloop-core`, one module for each way of attacking them.
// Each module is marked as a test, so that its helpers may unwrap like the tests themselves.

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod forge;
#[cfg(test)]
mod golden;
#[cfg(test)]
mod model;
#[cfg(test)]
mod recorder;
#[cfg(test)]
mod recover;
#[cfg(test)]
mod set;
#[cfg(test)]
mod support;
#[cfg(test)]
mod writer;
