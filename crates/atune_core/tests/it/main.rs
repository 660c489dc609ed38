//! The state machine and the reading side of the journal, attacked from outside.

#[cfg(test)]
mod corpus;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod draw;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod group;
#[cfg(test)]
mod histories;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod large;
#[cfg(test)]
mod model;
#[cfg(test)]
mod older;
#[cfg(test)]
mod random;
#[cfg(test)]
mod refused;
#[cfg(test)]
mod replica;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod shared;
#[cfg(test)]
mod snapshot;
#[cfg(test)]
mod tap;
#[cfg(test)]
mod verify;
