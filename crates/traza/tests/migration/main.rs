//! Stores of older releases: opening one brings all of it to the present format, under the same names and with the same
//! spans, wherever it is interrupted; and what cannot be converted is named and left as it is.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod disk;
#[cfg(test)]
mod encoder;
#[cfg(test)]
mod log;
#[cfg(test)]
mod refusals;
#[cfg(test)]
mod releases;
#[cfg(test)]
mod resuming;
