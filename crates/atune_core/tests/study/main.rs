//! Studies as people use them.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    clippy::float_cmp,
    reason = "small numbers, and equal ones where the same is drawn again"
)]

#[cfg(test)]
mod asking;
#[cfg(test)]
mod enqueueing;
#[cfg(test)]
mod opening;
#[cfg(test)]
mod optimizing;
#[cfg(test)]
mod resuming;
#[cfg(test)]
mod samplers;
#[cfg(test)]
mod support;
