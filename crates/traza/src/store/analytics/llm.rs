//! What calls of models add up to.

use std::collections::BTreeMap;

use super::Scope;
use crate::rollup::{Counters, SessionId, Totals};
use crate::store::SnapshotView;
use crate::store::error::Result;

/// What spans are grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Group {
    /// The model; spans without one are left out.
    #[default]
    Model,
    /// The provider; spans without one are left out.
    Provider,
    /// The service; every span has one.
    Service,
    /// The session; spans without one are left out. Sessions of two tenants are two.
    Session,
    /// The day in UTC of the start, `YYYY-MM-DD`; every span has one.
    Day,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Model,
        Self::Provider,
        Self::Service,
        Self::Session,
        Self::Day,
    ];

    /// The word that questions use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Provider => "provider",
            Self::Service => "service",
            Self::Session => "session",
            Self::Day => "day",
        }
    }

    /// The group that a word names.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|group| group.as_str() == word)
    }

    /// The sums of a part by their rows. Of sessions only those of the tenant count.
    fn rows<'t>(
        self,
        totals: &'t Totals,
        tenant: Option<&'t str>,
    ) -> Box<dyn Iterator<Item = (String, &'t str, &'t Counters)> + 't> {
        let groups = match self {
            Self::Model => &totals.by_model,
            Self::Provider => &totals.by_provider,
            Self::Service => &totals.by_service,
            Self::Day => &totals.by_day,
            Self::Session => {
                let is_wanted =
                    move |id: &SessionId| tenant.is_none_or(|tenant| tenant == id.tenant);
                let sessions = totals.sessions.iter();
                return Box::new(sessions.filter(move |(id, _)| is_wanted(id)).map(
                    |(id, session)| (id.tenant.clone(), id.session.as_str(), &session.counters),
                ));
            }
        };
        Box::new(
            groups
                .iter()
                .map(|(name, counters)| (String::new(), name.as_str(), counters)),
        )
    }
}

/// The sums of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct LlmRow {
    /// What the spans have in common. A session of another than the default tenant is written `tenant/session`.
    pub key: String,
    /// What they add up to.
    pub counters: Counters,
}

impl SnapshotView {
    /// What the spans of the scope add up to, by `group`: at most `limit` rows. The dearest come first, of equally dear
    /// ones those with more tokens, then in the order of their keys.
    ///
    /// # Errors
    /// [`StoreError::Deadline`](crate::store::StoreError::Deadline); damage of a segment that had to be read.
    pub fn llm(&self, group: Group, scope: &Scope, limit: usize) -> Result<Vec<LlmRow>> {
        let tenant = scope.tenant.as_deref();
        let mut sums: BTreeMap<(String, String), Counters> = BTreeMap::new();
        self.each_totals(scope, group == Group::Session, &mut |totals| {
            for (tenant, name, counters) in group.rows(totals, tenant) {
                let row = sums.entry((tenant, name.to_owned())).or_default();
                row.add(counters);
            }
        })?;
        let mut rows: Vec<LlmRow> = sums
            .into_iter()
            .map(|((tenant, name), counters)| LlmRow {
                key: match tenant.as_str() {
                    "" => name,
                    tenant => format!("{tenant}/{name}"),
                },
                counters,
            })
            .collect();
        rows.sort_by(|a, b| {
            // Amounts are finite.
            let by_cost = b.counters.cost_usd.total_cmp(&a.counters.cost_usd);
            by_cost
                .then_with(|| b.counters.total_tokens.cmp(&a.counters.total_tokens))
                .then_with(|| a.key.cmp(&b.key))
        });
        rows.truncate(limit);
        Ok(rows)
    }
}
