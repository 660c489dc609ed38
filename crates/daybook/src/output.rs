//! Standard output.

use std::fmt::Display;
use std::io::{self, BufWriter, IsTerminal as _, Write};

use serde::Serialize;

/// Standard output, with colours only where they are wanted.
///
/// A reader that goes away early (`daybook inspect run.omni | head -1`) has what it wanted: later output
/// is discarded without an error, and [`is_closed`](Self::is_closed) tells long work to end.
pub(crate) struct Out {
    stream: BufWriter<anstream::AutoStream<io::Stdout>>,
    closed: bool,
}

impl Out {
    /// For people: styles are taken out where nobody sees them.
    pub(crate) fn new() -> Self {
        Self::over(anstream::stdout())
    }

    /// For programs: every byte as it is.
    pub(crate) fn raw() -> Self {
        Self::over(anstream::AutoStream::always(io::stdout()))
    }

    fn over(stream: anstream::AutoStream<io::Stdout>) -> Self {
        Self {
            stream: BufWriter::new(stream),
            closed: false,
        }
    }

    /// [`raw`](Self::raw) for a verb that was asked for JSON, else [`new`](Self::new).
    pub(crate) fn for_json(as_json: bool) -> Self {
        if as_json { Self::raw() } else { Self::new() }
    }

    /// A line of text, which may hold styles.
    pub(crate) fn line(&mut self, text: impl Display) -> io::Result<()> {
        writeln!(self, "{text}")
    }

    /// The one document of a verb that was asked for JSON.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *self, value).map_err(io::Error::from)?;
        self.write_all(b"\n")?;
        self.flush()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed
    }

    fn settle<T>(&mut self, result: io::Result<T>, instead: T) -> io::Result<T> {
        match result {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(instead)
            }
            other => other,
        }
    }
}

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Ok(bytes.len());
        }
        let result = self.stream.write(bytes);
        self.settle(result, bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.closed {
            return Ok(());
        }
        let result = self.stream.flush();
        self.settle(result, ())
    }
}

/// The width of the terminal on standard output; `None` when it is none.
pub(crate) fn terminal_width() -> Option<usize> {
    let stdout = io::stdout();
    if !stdout.is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    Some(usize::from(size.ws_col).max(40))
}
