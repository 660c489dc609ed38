//! The lease protocol of the study journal, by exhaustive search.
//!
//! Promised is: whatever the order in which contenders get to run, wherever they stall or die, and however
//! wrongly they take one another for dead, an acknowledged operation stays in the head, none is in it
//! twice, every head extends the one it replaces, and nobody waits for somebody who is gone.
//!
//! The protocol is written down here as a state machine whose every step is one access to the disk, with
//! path look-ups as steps of their own, because a rename that the kernel has begun goes on in the directory
//! that it has found. The search visits every state within the bounds. That it would find a hole is shown
//! by taking the rules away one at a time: each of them must lead to a counterexample.
//!
//! Why the protocol is as it is: `docs/decisions/0003-lease-protocol.md`.

#[cfg(test)]
mod acquire;
#[cfg(test)]
mod alike;
#[cfg(test)]
mod cleanup;
#[cfg(test)]
mod commit;
#[cfg(test)]
mod holes;
#[cfg(test)]
mod promises;
#[cfg(test)]
mod protocol;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod search;
#[cfg(test)]
mod spare;
#[cfg(test)]
mod state;
