//! The body of a request, and the memory that all bodies together may take.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::head::{BODY_LEN_MAX, Framing};
use super::refusal::Refusal;
use super::stream::{Input, ReadFault};

/// What the bodies that are held at one time may take together, in bytes.
pub(crate) const BODIES_LEN_MAX: usize = 128 << 20;
/// Bodies up to this length are not counted.
const SMALL_LEN: usize = 64 << 10;
/// So much is read at a time.
const STEP_LEN: usize = 256 << 10;
/// A body that comes more slowly than this, in bytes per second, is given up.
const RATE_MIN: u64 = 16 << 10;

/// Bodies beyond this length, once they are decompressed, are worked on one at a time: what they become takes many times
/// their length.
pub(crate) const LARGE_LEN: usize = 4 << 20;

/// Shared by all connections.
#[derive(Debug)]
pub(crate) struct Memory {
    free: Mutex<usize>,
    freed: Condvar,
    large: Mutex<()>,
}

/// While it is held, no other large body is worked on.
pub(crate) type Turn<'m> = MutexGuard<'m, ()>;

impl Memory {
    pub(crate) fn new(len: usize) -> Self {
        Self {
            free: Mutex::new(len),
            freed: Condvar::new(),
            large: Mutex::new(()),
        }
    }

    /// Waits until no other large body is worked on. Those before are in memory as a whole: no client holds them up.
    pub(crate) fn turn(&self) -> Turn<'_> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until so much is free. False when it does not come.
    fn take(&self, len: usize, at_most: Duration) -> bool {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut free, _) = self
            .freed
            .wait_timeout_while(free, at_most, |free| *free < len)
            .unwrap_or_else(PoisonError::into_inner);
        let is_enough = *free >= len;
        if is_enough {
            *free -= len;
        }
        is_enough
    }

    fn give_back(&self, len: usize) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        *free += len;
        self.freed.notify_all();
    }
}

/// The bytes of a body. What they take is given back when they are dropped.
#[derive(Debug)]
pub(crate) struct Body<'m> {
    memory: &'m Memory,
    taken: usize,
    pub(crate) bytes: Vec<u8>,
}

impl Drop for Body<'_> {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.memory.give_back(self.taken);
        }
    }
}

impl<'m> Body<'m> {
    /// Reads what the head has announced. Memory grows with what has come, not with what was announced.
    pub(crate) fn read(
        input: &mut Input<'_>,
        framing: Framing,
        memory: &'m Memory,
    ) -> Result<Self, Refusal> {
        let mut body = Self {
            memory,
            taken: 0,
            bytes: Vec::new(),
        };
        match framing {
            Framing::Length(len) => {
                let len = usize::try_from(len).unwrap_or(usize::MAX);
                input.allow(allowance(len as u64, input.timeout()));
                body.read_exactly(input, len)?;
            }
            Framing::Chunked => {
                input.allow(allowance(BODY_LEN_MAX, input.timeout()));
                body.read_chunks(input)?;
            }
        }
        Ok(body)
    }

    fn read_exactly(&mut self, input: &mut Input<'_>, len: usize) -> Result<(), Refusal> {
        let end = self.bytes.len() + len;
        while self.bytes.len() < end {
            let step = (end - self.bytes.len()).min(STEP_LEN);
            if end > SMALL_LEN {
                if !self.memory.take(step, input.timeout()) {
                    let text = "too many request bodies at one time; retry later";
                    return Err(Refusal::unavailable(text).closing());
                }
                self.taken += step;
            }
            self.bytes.try_reserve_exact(step).map_err(|_| {
                Refusal::unavailable("no memory for the request body; retry later").closing()
            })?;
            input
                .read_into(&mut self.bytes, step)
                .map_err(|fault| refusal(fault, "incomplete body"))?;
        }
        Ok(())
    }

    fn read_chunks(&mut self, input: &mut Input<'_>) -> Result<(), Refusal> {
        let invalid = || Refusal::bad_request("invalid chunked body").closing();
        loop {
            let line = input
                .line(256)
                .map_err(|fault| refusal(fault, "incomplete body"))?;
            let Ok(httparse::Status::Complete((_, len))) = httparse::parse_chunk_size(&line) else {
                return Err(invalid());
            };
            if len == 0 {
                break;
            }
            let len_left = BODY_LEN_MAX.saturating_sub(self.bytes.len() as u64);
            if len > len_left {
                return Err(Refusal::bad_request("request body too large").closing());
            }
            self.read_exactly(input, usize::try_from(len).map_err(|_| invalid())?)?;
            let end = input
                .line(2)
                .map_err(|fault| refusal(fault, "incomplete body"))?;
            if end != b"\r\n" {
                return Err(invalid());
            }
        }
        // Trailers say nothing that is asked here.
        for _ in 0..32 {
            let line = input
                .line(4_096)
                .map_err(|fault| refusal(fault, "incomplete body"))?;
            if line == b"\r\n" {
                return Ok(());
            }
        }
        Err(invalid())
    }
}

fn allowance(len: u64, timeout: Duration) -> Instant {
    Instant::now() + timeout + Duration::from_secs(len / RATE_MIN)
}

/// What a client is told whose bytes did not come.
pub(crate) fn refusal(fault: ReadFault, incomplete: &str) -> Refusal {
    let text = match fault {
        ReadFault::End => incomplete.to_owned(),
        ReadFault::TooLong => "line too long".to_owned(),
        ReadFault::Io(error) => error.to_string(),
    };
    Refusal::bad_request(text).closing()
}
