//! The store: what is acknowledged is found again, whatever happens in between.

#[cfg(test)]
mod analytics;
#[cfg(test)]
mod columns;
#[cfg(test)]
mod compaction;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod filters;
#[cfg(test)]
mod generations;
#[cfg(test)]
mod leftovers;
#[cfg(test)]
mod locks;
#[cfg(test)]
mod model;
#[cfg(test)]
mod read_only;
#[cfg(test)]
mod retention;
#[cfg(test)]
mod serving;
#[cfg(test)]
mod sorting;
#[cfg(test)]
mod support;
#[cfg(test)]
mod threads;
#[cfg(test)]
mod wal;
