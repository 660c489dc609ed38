//! Prices of models, and what a span cost.

use std::collections::BTreeMap;
use std::hash::Hasher as _;

use fnv::FnvHasher;

use super::Facts;
use crate::json::{JsonError, Object, Value};

const MODELS_MEMBER: &str = "models";
const INPUT_MEMBER: &str = "input_per_mtok";
const OUTPUT_MEMBER: &str = "output_per_mtok";
/// What ends the name of a model that stands for all models that begin so.
const WILDCARD: char = '*';
const TOKENS_PER_MTOK: f64 = 1e6;

/// What a model costs, in US dollars per million tokens. Finite and not negative.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// For tokens that go in.
    pub input_usd_per_mtok: f64,
    /// For tokens that come out.
    pub output_usd_per_mtok: f64,
}

/// A price list. The default one is empty.
///
/// ```
/// use traza::llm::Pricing;
/// let pricing = Pricing::from_json(br#"{"models":{
///     "gpt-4o": {"input_per_mtok": 2.5, "output_per_mtok": 10},
///     "gpt-*": {"input_per_mtok": 1, "output_per_mtok": 2}}}"#)?;
/// assert_eq!(pricing.rates("gpt-4o").map(|rates| rates.input_usd_per_mtok), Some(2.5));
/// assert_eq!(pricing.rates("gpt-3").map(|rates| rates.input_usd_per_mtok), Some(1.0));
/// assert_eq!(pricing.rates("claude"), None);
/// # Ok::<(), traza::llm::PricingError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Pricing {
    exact: BTreeMap<String, Rates>,
    /// Beginnings of names, the longest first and those of one length in the order of their bytes: the first that fits is
    /// the one that counts.
    prefixes: Vec<(String, Rates)>,
}

/// Why bytes are not a price list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PricingError {
    /// They are not JSON.
    #[error("pricing is not JSON: {0}")]
    Json(#[from] JsonError),
    /// There is no object of models.
    #[error("pricing needs an object {MODELS_MEMBER:?} of models and their rates")]
    Models,
    /// A model has something else than an object of rates.
    #[error("pricing of model {model:?} is not an object")]
    Entry {
        /// The model as it is named in the list.
        model: String,
    },
    /// A rate is missing, no number, or negative.
    #[error("pricing of model {model:?}: {member} must be a number of at least 0")]
    Rate {
        /// The model as it is named in the list.
        model: String,
        /// Which rate.
        member: &'static str,
    },
}

impl Pricing {
    /// Reads a price list: `{"models": {NAME: {"input_per_mtok": USD, "output_per_mtok": USD}}}`.
    ///
    /// A name that ends in `*` stands for all models that begin with what is before it, `*` alone for every model. Members
    /// that are not named here are ignored.
    ///
    /// # Errors
    /// See [`PricingError`]; it names the first model, in the order of the names, that is wrong.
    pub fn from_json(bytes: &[u8]) -> Result<Self, PricingError> {
        let list = Value::parse(bytes)?;
        let models = list
            .as_object()
            .and_then(|members| members.get(MODELS_MEMBER))
            .and_then(Value::as_object)
            .ok_or(PricingError::Models)?;
        let mut pricing = Self::default();
        for (model, entry) in models {
            let rates = entry_rates(model, entry)?;
            match model.strip_suffix(WILDCARD) {
                Some(prefix) => pricing.prefixes.push((prefix.to_owned(), rates)),
                None => {
                    pricing.exact.insert(model.to_string(), rates);
                }
            }
        }
        // Stable, so that those of one length stay in the order of their bytes.
        pricing
            .prefixes
            .sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.len()));
        Ok(pricing)
    }

    /// True when no model has a price.
    pub fn is_empty(&self) -> bool {
        self.exact.is_empty() && self.prefixes.is_empty()
    }

    /// A number that stands for the whole list: sums that were made with another list have another one, but for chance.
    /// 0 for the empty list.
    ///
    /// FNV-1a 64 of name and both rates (the bits of the doubles, little-endian) of every exact model in the order of the
    /// bytes; a zero byte; and the same of every pattern without its star, the longest first.
    pub fn fingerprint(&self) -> u64 {
        if self.is_empty() {
            return 0;
        }
        let mut hasher = FnvHasher::default();
        for (model, rates) in &self.exact {
            hash_entry(&mut hasher, model, *rates);
        }
        hasher.write(&[0]);
        for (prefix, rates) in &self.prefixes {
            hash_entry(&mut hasher, prefix, *rates);
        }
        hasher.finish()
    }

    /// The rates of a model: those under its very name, else those of the longest pattern that fits.
    pub fn rates(&self, model: &str) -> Option<Rates> {
        let by_prefix = || {
            let fits = |(prefix, _): &&(String, Rates)| model.starts_with(prefix.as_str());
            self.prefixes.iter().find(fits).map(|(_, rates)| *rates)
        };
        self.exact.get(model).copied().or_else(by_prefix)
    }
}

fn hash_entry(hasher: &mut FnvHasher, name: &str, rates: Rates) {
    hasher.write(name.as_bytes());
    hasher.write(&rates.input_usd_per_mtok.to_le_bytes());
    hasher.write(&rates.output_usd_per_mtok.to_le_bytes());
}

fn entry_rates(model: &str, entry: &Value) -> Result<Rates, PricingError> {
    let members = entry.as_object().ok_or_else(|| PricingError::Entry {
        model: model.to_owned(),
    })?;
    Ok(Rates {
        input_usd_per_mtok: rate(model, members, INPUT_MEMBER)?,
        output_usd_per_mtok: rate(model, members, OUTPUT_MEMBER)?,
    })
}

/// One rate. A JSON number is always finite.
fn rate(model: &str, members: &Object, member: &'static str) -> Result<f64, PricingError> {
    match members.get(member) {
        Some(Value::Number(number)) if number.as_f64() >= 0.0 => Ok(number.as_f64()),
        _ => Err(PricingError::Rate {
            model: model.to_owned(),
            member,
        }),
    }
}

/// What a span cost, and who says so.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cost {
    /// US dollars, by the span itself, which always wins.
    Metered(f64),
    /// US dollars, by the counts of tokens and a price list.
    Derived(f64),
    /// Nobody knows: the span does not say, and its model has no price or one of the two counts is not known.
    Unknown,
}

impl Cost {
    /// The cost of the span with these facts, by this price list. Finite; a derived one that is not is unknown.
    pub fn of(facts: &Facts<'_>, pricing: &Pricing) -> Self {
        match facts.reported_cost_usd {
            Some(usd) => Self::Metered(usd),
            None => derived_usd(facts, pricing).map_or(Self::Unknown, Self::Derived),
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "the nearest double is wanted")]
fn derived_usd(facts: &Facts<'_>, pricing: &Pricing) -> Option<f64> {
    let rates = pricing.rates(facts.model.as_deref()?)?;
    let input = facts.prompt_tokens? as f64 / TOKENS_PER_MTOK * rates.input_usd_per_mtok;
    let output = facts.completion_tokens? as f64 / TOKENS_PER_MTOK * rates.output_usd_per_mtok;
    let usd = input + output;
    usd.is_finite().then_some(usd)
}
