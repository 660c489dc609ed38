//! What a store keeps beside spans, and how it forgets: annotations, datasets and experiments, erasures.

#[cfg(test)]
mod annotations;
#[cfg(test)]
mod evals;
#[cfg(test)]
mod support;
