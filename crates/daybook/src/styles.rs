//! Colours. They only ever repeat what a word says.

use anstyle::{AnsiColor, Style};

/// Good news.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
/// Bad news.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Not proved, or worth a look.
pub(crate) const WARN: Style = AnsiColor::Yellow.on_default().bold();
/// What to do next.
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default().bold();
/// Headings and names.
pub(crate) const STRONG: Style = Style::new().bold();
/// Details.
pub(crate) const FAINT: Style = Style::new().dimmed();
