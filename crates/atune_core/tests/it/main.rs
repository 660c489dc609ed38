//! The state machine and the reading side of the journal, attacked from outside.

#[cfg(test)]
mod crash;
#[cfg(test)]
mod damage;
#[cfg(test)]
mod draw;
#[cfg(test)]
mod follow;
#[cfg(test)]
mod forged;
#[cfg(test)]
mod journal;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod large;
#[cfg(test)]
mod model;
#[cfg(test)]
mod older;
#[cfg(test)]
mod random;
#[cfg(test)]
mod replica;
#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod shared;
#[cfg(test)]
mod snapshot;
