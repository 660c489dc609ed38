//! What a store keeps beside spans, and how it forgets: annotations, datasets and experiments, erasures.

#[cfg(test)]
mod annotations;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod evals;
#[cfg(test)]
mod fixtures;
#[cfg(test)]
mod furnished;
#[cfg(test)]
mod model;
#[cfg(test)]
mod receipts;
#[cfg(test)]
mod support;
#[cfg(test)]
mod upkeep;
