//! Attending a loop over a real socket: what is asked is done at a tick, is in the record, and whoever asks
//! badly, slowly or not at all holds up nobody.

#[cfg(test)]
mod attended;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod orders;
#[cfg(test)]
mod socket;
