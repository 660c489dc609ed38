//! What the attributes of a span say about a call of a language model
//! (`docs/formats/traza-store.md`, facts and cost of a span). No files.

mod facts;
mod pricing;
mod tokens;

pub use facts::{Facts, Session, SessionKey, first_text};
pub use pricing::{Cost, Pricing, PricingError, Rates};
pub use tokens::{Context, Tokens, Told};
