//! Workers, their handles and outboxes: on a storage in memory and on a journal, by a clock that is moved
//! by hand and by real threads.

#[cfg(test)]
mod driving;
#[cfg(test)]
mod dying;
#[cfg(test)]
mod gathering;
#[cfg(test)]
mod losing;
#[cfg(test)]
mod sharing;
#[cfg(test)]
mod support;
