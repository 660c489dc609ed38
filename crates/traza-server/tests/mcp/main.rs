//! The endpoint for agents over a store on the simulated disk: what it answers to each message, that no stored text leaves its
//! block, and that no result is longer than its limit.

#[cfg(test)]
mod bridge;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod reading;
#[cfg(test)]
mod resources;
#[cfg(test)]
mod rights;
#[cfg(test)]
mod support;
#[cfg(test)]
mod writing;
