//! What users lost with other tuners, and must not lose with this one: one list of guarantees, each with
//! its number, on real files and, where it speaks of processes, with real processes.

#[cfg(test)]
mod disk;
#[cfg(test)]
mod files;
#[cfg(test)]
mod forked;
#[cfg(test)]
mod kill;
#[cfg(test)]
mod lease;
#[cfg(test)]
mod processes;
#[cfg(test)]
mod storage;
#[cfg(test)]
mod workers;
